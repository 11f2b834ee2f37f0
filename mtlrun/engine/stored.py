"""JSON files in folders of results: their names, and how they are read and checked.

Folders come from other people and from earlier versions. So a file is checked as far as
it is read, and unknown keys are ignored. `SHAPES` says what the files of jobs, models
and comparisons must hold; `mtlrun.lab.stored` adds the files of experiments.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mtlrun.engine.record import KEY
from mtlrun.engine.shapes import (
    Fields,
    Shape,
    ShapeError,
    boolean,
    count,
    either,
    integer,
    list_of,
    map_of,
    mapping,
    matching,
    number,
    one_of,
    optional,
    text,
)
from mtlrun.errors import DataError
from mtlrun.utils.io import open_regular
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

_COMPARED = Fields(
    {},
    {
        "cells": list_of(
            Fields({"key": matching(KEY), "method": text, "trial": integer}, {})
        ),
        "dataset": Fields({}, {"id": text, "files": map_of(text)}),
        "files": either(map_of(text), list_of(text)),
        "question": text,
    },
)
_LEADERBOARD = Fields({}, {"title": text, "verdict": text})
_SELECTION = Fields(
    {},
    {
        "metric": text,
        "grid": map_of(list_of(lambda value, path: None)),
        "means": list_of(optional(number)),
        "scores": list_of(list_of(optional(number))),
        "chosen": mapping,
    },
)
_TRAINED = Fields(
    {},
    {
        "id": text,
        "dataset": text,
        "method": text,
        "status": text,
        "metrics": map_of(optional(number)),
        "seconds": mapping,
        "solver": mapping,
        "selection": _SELECTION,
    },
)
_CLOCK = Fields(
    {"column": text, "feature": text, "first": map_of(number)},
    {
        "times": Fields(
            {"kind": one_of("number", "date")},
            {
                "formats": list_of(text),
                "first_year": integer,
                "zone": one_of("UTC"),
                "unit": text,
            },
        ),
        "is_feature": boolean,
        "span": list_of(number),
        "longest": number,
    },
)
_MODEL_INPUT = Fields(
    {"n_features": count},
    {
        "names": list_of(text),
        "strings": boolean,
        "categories": map_of(list_of(text)),
        "task_column": text,
        "table": boolean,
        "levels": list_of(text),
        "clock": _CLOCK,
    },
)
_MODEL = Fields(
    {
        "schema": integer,
        "files": map_of(text),
        "tasks": list_of(text),
        "input": _MODEL_INPUT,
        "design": one_of("ragged", "shared", "single"),
        "task_type": one_of("binary", "regression", "multiclass"),
        "estimator": Fields({}, {"name": text, "params": mapping, "per_task": boolean}),
        "dataset": Fields({}, {"id": text, "options": mapping, "fingerprint": text}),
    },
    {
        "intervals": mapping,
        "targets": list_of(text),
        "labels": mapping,
        "metrics": mapping,
        "config": mapping,
    },
)
#: Name of a file -> what it must hold.
SHAPES: dict[str, Shape] = {
    COMPARED: _COMPARED,
    LEADERBOARD: _LEADERBOARD,
    TRAINED: _TRAINED,
    MODEL_FILE: _MODEL,
}


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
        If the file is damaged, too large, or not what a file of its name holds; names
        the place in it.
    """
    value = read_object(path)
    shape = SHAPES.get(path.name)
    if value is None or shape is None:
        return value
    try:
        shape(value, "")
    except ShapeError as error:
        raise not_a_result(path, error.path, error.message) from None
    return value


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object as `read_raw`, and clean its texts of control characters."""
    value = read_raw(path)
    return None if value is None else dict(cleaned(value))


def read_object(path: Path) -> dict[str, Any] | None:
    """Read a JSON object without checking what it holds; otherwise as `read_raw`."""

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
