"""The JSON files in the folders of results: one model each, as far as the file is read, and one message.

Folders come from others and from earlier versions: unknown keys are left alone.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mtlrun.engine.record import CELLS, Place
from mtlrun.errors import DataError, counted
from mtlrun.lab.report.checks import (
    Claim,
    Limits,
    Main,
    Names,
    Number,
    Paper,
    PublishedCurve,
    Reference,
    Statistics,
    Sweep,
    TableLayout,
    TimingSpec,
    Tolerance,
)
from mtlrun.utils.io import as_list, open_regular
from mtlrun.utils.sizes import allow_json
from mtlrun.utils.text import cleaned

RUN_FILE = "run.json"
#: What `mtlrun verify` found of a run.
VERIFIED = "verified.json"
#: Characters of the key of a cell that are shown.
KEY_LENGTH = 16
#: Options of a comparison and the keys of its cells; its leaderboard.
COMPARED, LEADERBOARD = "compare.json", "leaderboard.json"
PROVENANCE = "provenance.json"
#: Results of a training, in its folder.
TRAINED = "metrics.json"
#: Describes a model; the name as of `mtlrun.model.files`, which takes seconds to import.
MODEL_FILE = "model.json"
AGAIN = "Delete the file and run the experiment again."

Facts = dict[str, Any]


class Stored(BaseModel):
    """A part of a file; keys that nobody reads may be anything."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _Axis(Stored):
    of: str
    value: Any


class _Data(Stored):
    axis: _Axis | None = None
    files: Facts | None = None
    options: Facts | None = None
    statistics: Facts | None = None
    tasks: list[Any] | None = None


class _DataSpec(Stored):
    id: str | None = None
    label: str | None = None


class _Method(Stored):
    label: str | None = None
    estimator: str | None = None
    measure: str | None = None
    params: Facts | None = None
    grid: Facts | None = None


class _Config(Stored):
    metrics: Annotated[list[str], BeforeValidator(as_list)] | None = None
    methods: Annotated[list[_Method], BeforeValidator(as_list)] | None = None
    datasets: Annotated[list[_DataSpec | str], BeforeValidator(as_list)] | None = None
    claims: Annotated[list[Claim], BeforeValidator(as_list)] | None = None
    reference: Annotated[list[Reference], BeforeValidator(as_list)] | None = None
    tolerance: Annotated[list[Tolerance], BeforeValidator(as_list)] | None = None
    timing: TimingSpec | None = None
    limits: Limits | None = None
    selection: Facts | None = None
    statistics: Statistics | None = None
    split: Facts | None = None
    sweep: Sweep | None = None
    table: TableLayout | None = None


class _Published(Stored):
    curves: list[PublishedCurve] | None = None


class _QuantityFacts(Stored):
    text: str | None = None
    greater_is_better: bool | None = None


class StoredPlan(Stored):
    """``run.json``, and what it says of each reading."""

    cells: list[Annotated[Place, BeforeValidator(Place.read)]] = []
    methods: list[str] | None = None
    datasets: dict[str, _Data | None] | None = None
    config: _Config | None = None
    paper: Paper | None = None
    paper_datasets: Names | None = None
    published: _Published | None = None
    quantities: dict[str, _QuantityFacts] | None = None
    readings: dict[str, StoredPlan] | None = None
    overrides: list[Any] | None = None
    id: str | None = None
    command: str | None = None
    why: str | None = None
    main: Main | None = None


class Provenance(Stored):
    """``provenance.json``."""

    runs: list[Facts] | None = None


class _Maker(Stored):
    mtlrun: str | None
    commit: str | None
    dirty: bool | None


class _Verified(Stored):
    key: str
    digits: float
    quantity: str | None
    agrees: bool
    error: str | None
    seconds_ratio: float | None


class Verified(Stored):
    """``verified.json``."""

    made_by: _Maker
    date: str
    finished: int
    not_tried: dict[str, int]
    cells: list[_Verified]


class _ComparedCell(Stored):
    key: Annotated[str, Field(pattern=r"^[^./\\:\x00][^/\\:\x00]*$", max_length=200)]
    method: str
    trial: int


class _ComparedData(Stored):
    id: str | None = None
    files: dict[str, str] | None = None


class Compared(Stored):
    """``compare.json``."""

    cells: list[_ComparedCell] | None = None
    dataset: _ComparedData | None = None
    files: dict[str, str] | list[str] | None = None


class Leaderboard(Stored):
    """``leaderboard.json``, as far as summaries read it."""

    title: str | None = None
    verdict: str | None = None


class _Choice(Stored):
    metric: str | None = None
    grid: dict[str, list[Any]] | None = None
    means: list[Number | None] | None = None
    scores: list[list[Number | None]] | None = None
    chosen: Facts | None = None


class StoredTraining(Stored):
    """``metrics.json``."""

    id: str | None = None
    dataset: str | None = None
    method: str | None = None
    status: str | None = None
    metrics: dict[str, Number | None] | None = None
    seconds: dict[str, Any] | None = None
    solver: dict[str, Any] | None = None
    selection: _Choice | None = None


class _Input(Stored):
    n_features: Annotated[int, Field(ge=0)]
    names: list[str] | None = None
    strings: bool | None = None
    categories: dict[str, list[str]] | None = None
    task_column: str | None = None
    table: bool | None = None
    levels: list[str] | None = None


class _Estimator(Stored):
    name: str | None = None
    params: Facts | None = None
    per_task: bool | None = None


class _ModelData(Stored):
    id: str | None = None
    options: Facts | None = None
    fingerprint: str | None = None


class ModelFacts(Stored):
    """``model.json``."""

    schema_: Annotated[int, Field(alias="schema")]
    files: dict[str, str]
    tasks: list[str]
    input: _Input
    design: Literal["ragged", "shared", "single"]
    task_type: Literal["binary", "regression", "multiclass"]
    estimator: _Estimator
    dataset: _ModelData
    targets: list[str] | None = None
    labels: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    config: Facts | None = None


MODELS: dict[str, type[Stored]] = {
    RUN_FILE: StoredPlan,
    PROVENANCE: Provenance,
    VERIFIED: Verified,
    COMPARED: Compared,
    LEADERBOARD: Leaderboard,
    TRAINED: StoredTraining,
    MODEL_FILE: ModelFacts,
}


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object like `read_raw`, its texts cleaned of control characters."""
    value = read_raw(path)
    return None if value is None else dict(cleaned(value))


def read_raw(path: Path) -> dict[str, Any] | None:
    """Read a JSON object of a folder of results as it was written, which its digest is of; None if there is no file.

    Raises
    ------
    DataError
        If it is damaged, too large, or not what a file of its name is; names the place in it.
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
    checked_as(path, value)
    return value


def checked_as(path: Path, value: dict[str, Any]) -> Stored | None:
    """Return what a file of this name holds as its model, None for other names.

    Raises
    ------
    DataError
        Names the place in the file.
    """
    model = MODELS.get(path.name)
    try:
        return None if model is None else model.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        raise DataError(
            f"{path}: {place}: {wrong['msg']}, so this is no {path.name} of mtlrun",
            _remedy(path),
        ) from None


def _remedy(path: Path) -> str:
    return "Train the model again." if path.name == MODEL_FILE else AGAIN


def read_sound(path: Path) -> dict[str, Any]:
    """Read a JSON object, {} where there is none or it is damaged."""
    try:
        return read_json(path) or {}
    except DataError:
        return {}


def made_and_verified(
    commits: Iterable[str | None],
    verified: Mapping[str, Any],
    age: Callable[[str], str] = lambda commit: "",
) -> list[str]:
    """Return a sentence on the commits that made some records, and one on whether the code still gives the same.

    `age` says of a commit how old it is; a report that is the same everywhere and always cannot.
    """
    made = Counter(str(commit) for commit in commits if commit)
    listed = [
        f"{name[:8]}{age(name)}"
        + (f" ({counted(count, 'cell')})" if len(made) > 1 else "")
        for name, count in made.most_common()
    ]
    lines = [f"Made by {', '.join(listed)}."] if made else []
    if not verified:
        return [*lines, "Not verified since."] if lines else []
    tried = [
        entry for entry in as_list(verified.get("cells")) if isinstance(entry, dict)
    ]
    good = [entry for entry in tried if entry["agrees"]]
    by = verified["made_by"]
    commit = (
        f"{str(by['commit'])[:8]}{' (changed)' if by['dirty'] else ''}"
        if by["commit"]
        else f"mtlrun {by['mtlrun']}"
    )
    text = f"Verified at {commit} on {verified['date'][:10]}: {len(good)} of {counted(len(tried), 'cell')} computed again"
    text += f" (of {verified['finished']} finished)"
    text += (
        f" agree to {math.floor(min(e['digits'] for e in good))} digits or more"
        if good
        else " agree"
    )
    ratios = sorted(entry["seconds_ratio"] for entry in tried if entry["seconds_ratio"])
    text += (
        f"; seconds x{statistics.median(ratios):.2g} ({ratios[0]:.2g} to {ratios[-1]:.2g})"
        if ratios
        else ""
    )
    lines.append(f"{text}.")
    for entry in tried:
        if not entry["agrees"]:
            what = (
                entry["error"]
                or f"{entry['quantity']} agrees to {entry['digits']:g} digits"
            )
            lines.append(
                f"Does not agree: {CELLS}/{entry['key'][:KEY_LENGTH]}...: {what}."
            )
    return lines + [
        f"Not tried: {count}, {why}."
        for why, count in sorted(verified.get("not_tried", {}).items())
    ]
