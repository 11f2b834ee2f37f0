"""JSON files in folders of results: their names, and how they are read and checked.

Folders come from other people and from earlier versions. So a file is checked as far as
it is read (`mtlrun.utils.io.read_fields`), and unknown keys are ignored.
`mtlrun.lab.stored` adds the files of experiments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.engine.record import JobKey
from mtlrun.errors import DataError
from mtlrun.utils.io import FieldError, FieldsT, open_regular, read_fields
from mtlrun.utils.sizes import allow_json
from mtlrun.utils.text import cleaned

RUN_FILE = "run.json"
#: Results of `mtlrun verify` for a run.
VERIFIED = "verified.json"
PROVENANCE = "provenance.json"
#: Options of a comparison and the keys of its jobs; its leaderboard.
COMPARED, LEADERBOARD = "compare.json", "leaderboard.json"
#: Results of a training, in its folder.
TRAINED = "metrics.json"
#: Describes a model.
MODEL_FILE = "model.json"
#: Characters of the key of a job that are shown.
KEY_LENGTH = 16
AGAIN = "Delete the file and run the experiment again."


@dataclass(frozen=True)
class ComparedJob:
    """Job of a comparison: its key, method and trial."""

    key: JobKey
    method: str | None = None
    trial: int | None = None


@dataclass(frozen=True)
class ComparedTable:
    """Table of a comparison: its name, and the digest of each of its files."""

    id: str | None = None
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedPlan:
    """What is read of ``compare.json``."""

    cells: list[ComparedJob] = field(default_factory=list)
    dataset: ComparedTable = ComparedTable()
    files: dict[str, str] | list[str] = field(default_factory=dict)
    question: str | None = None


# ---------------------------------------------------------------------- files


def read_raw(path: Path) -> dict[str, Any] | None:
    """Read a JSON object of a folder of results as it was written.

    Its digest belongs to the content before cleaning.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict or None
        None if there is no such file.

    Raises
    ------
    DataError
        If the file is damaged or too large.
    """

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not a JSON number")

    try:
        with open_regular(path) as stream:
            allow_json(path, path.stat().st_size)
            content = stream.read()
        value = json.loads(content.decode(), parse_constant=refuse)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DataError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error})", _remedy(path)) from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: a JSON object is expected", _remedy(path))
    return value


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object as `read_raw`, and clean its texts of control characters."""
    value = read_raw(path)
    return None if value is None else dict(cleaned(value))


def fields_of_file(
    cls: type[FieldsT], content: Mapping[str, Any], path: Path
) -> FieldsT:
    """Return the content of a file as an object of a dataclass.

    Raises
    ------
    DataError
        If a value has another type; names it.
    """
    try:
        return read_fields(cls, content)
    except FieldError as error:
        raise not_a_result(path, error.path, error.message) from None


def read_sound(path: Path) -> dict[str, Any]:
    """Read a JSON object as `read_json`; {} if there is none or it is damaged."""
    try:
        return read_json(path) or {}
    except DataError:
        return {}


def not_a_result(path: Path, place: str, message: str) -> DataError:
    """Return the error for a file that does not hold what its name promises."""
    text = f"{path}: {place}: {message}, so this is no {path.name} of mtlrun"
    return DataError(text, _remedy(path))


def _remedy(path: Path) -> str:
    return "Train the model again." if path.name == MODEL_FILE else AGAIN
