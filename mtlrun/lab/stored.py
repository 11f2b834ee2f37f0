"""The JSON files in the folders of results: one model each, as far as the file is read, and one message.

Folders come from others and from earlier versions: unknown keys are left alone.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from mtlrun.engine import stored
from mtlrun.engine.packed import is_without_plan, with_plan
from mtlrun.engine.record import CELLS, Records, ResultKey
from mtlrun.engine.stored import AGAIN, KEY_LENGTH, PROVENANCE, RUN_FILE, VERIFIED
from mtlrun.errors import DataError, counted
from mtlrun.lab.report.checks import (
    Claim,
    Limits,
    Main,
    Names,
    Paper,
    PublishedCurve,
    Reference,
    Statistics,
    Sweep,
    TableLayout,
    TimingSpec,
    Tolerance,
)
from mtlrun.utils.io import as_list

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

    cells: list[Annotated[ResultKey, BeforeValidator(ResultKey.read)]] = []
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


#: Name of a file of experiments -> what it must hold.
MODELS: dict[str, type[Stored]] = {
    RUN_FILE: StoredPlan,
    PROVENANCE: Provenance,
    VERIFIED: Verified,
}


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object as `read_raw`, and clean its texts of control characters."""
    return stored.read_json(path, read_raw)


def read_raw(path: Path) -> dict[str, Any] | None:
    """Read a JSON object of a folder of results as `mtlrun.engine.stored.read_raw`.

    Files of experiments are checked, too.

    Raises
    ------
    DataError
        If the file is damaged, too large, or not what a file of its name holds; names
        the place in it.
    """
    value = stored.read_raw(path)
    if value is not None:
        _check(path, value)
    return value


def _check(path: Path, value: dict[str, Any]) -> None:
    """Refuse what a file of this name must not hold; names the place in it."""
    model = MODELS.get(path.name)
    if model is None:
        return
    try:
        model.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise stored.not_a_result(path, place, problem["msg"]) from None


def read_plan(folder: Path, records: Records) -> dict[str, Any] | None:
    """Read ``run.json`` with the fields that the packed records keep.

    Parameters
    ----------
    folder : Path
        Folder of a run.
    records : Records
        Of the run.

    Returns
    -------
    dict or None
        None if there is no file.

    Raises
    ------
    DataError
        If it is damaged, or if the plan lies with packed records that cannot be read.
    """
    path = folder / RUN_FILE
    raw = read_raw(path)
    if raw is None:
        return None
    complete = with_plan(raw, records.packed)
    if is_without_plan(complete):
        file = folder / records.pack_name
        reason = records.damage or "missing, but it has the plan of the run"
        raise DataError(f"{file}: {reason}", AGAIN)
    _check(path, complete)
    return complete


def read_sound_plan(folder: Path, records: Records) -> dict[str, Any]:
    """Read ``run.json`` as `read_plan`; {} if there is none or it is damaged."""
    try:
        return read_plan(folder, records) or {}
    except DataError:
        return {}


def read_sound(path: Path) -> dict[str, Any]:
    """Read a JSON object as `read_json`; {} if there is none or it is damaged."""
    return stored.read_sound(path, read_raw)


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
