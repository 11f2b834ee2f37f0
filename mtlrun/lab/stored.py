"""Read the JSON files of experiments in folders of results.

A model of each file checks the keys that are read. Folders may come from other people
and earlier versions, so unknown keys are allowed.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from mtlrun.engine import stored
from mtlrun.engine.packed import PACKED, is_without_plan, with_plan
from mtlrun.engine.record import CELLS, ResultKey
from mtlrun.engine.store import Store
from mtlrun.engine.stored import AGAIN, KEY_LENGTH, PROVENANCE, RUN_FILE, VERIFIED
from mtlrun.errors import DataError, counted
from mtlrun.lab.experiment.claims import (
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
from mtlrun.utils.text import cleaned

Facts = dict[str, Any]


class Stored(BaseModel):
    """A part of a file, in which other keys may have any value."""

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
    """``run.json``, and its entry of an interpretation."""

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


#: Name of a file -> its model.
MODELS: dict[str, type[Stored]] = {
    RUN_FILE: StoredPlan,
    PROVENANCE: Provenance,
    VERIFIED: Verified,
}


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object as `read_raw`, and clean its texts of control characters."""
    value = read_raw(path)
    if value is None:
        return None
    return dict(cleaned(value))


def read_raw(path: Path) -> dict[str, Any] | None:
    """Read a JSON object of a folder of results as `mtlrun.engine.stored.read_raw`.

    Files of experiments are checked, too.

    Returns
    -------
    dict or None
        None if there is no file.

    Raises
    ------
    DataError
        If the file is damaged, too large, or does not fit the model of its name. The
        message names the key.
    """
    value = stored.read_raw(path)
    if value is not None:
        _check(path, value)
    return value


def _check(path: Path, value: dict[str, Any]) -> None:
    """Refuse values that do not fit the model of a file."""
    model = MODELS.get(path.name)
    if model is None:
        return
    try:
        model.model_validate(value)
    except ValidationError as error:
        first_problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, first_problem["loc"]))
        raise stored.not_a_result(path, key, first_problem["msg"]) from None


def read_plan(folder: Path, records: Store) -> dict[str, Any] | None:
    """Read ``run.json``, with the fields that are in the packed records.

    Parameters
    ----------
    folder : Path
        Folder of a run.
    records : Store
        Records of the run.

    Returns
    -------
    dict or None
        None if there is no file.

    Raises
    ------
    DataError
        If it is damaged, or if the plan is in packed records that cannot be read.
    """
    path = folder / RUN_FILE
    raw = read_raw(path)
    if raw is None:
        return None
    complete = with_plan(raw, records.packed)
    if is_without_plan(complete):
        file = folder / PACKED
        reason = records.packed.damage or "missing, but it has the plan of the run"
        raise DataError(f"{file}: {reason}", AGAIN)
    _check(path, complete)
    return complete


def read_sound_plan(folder: Path, records: Store) -> dict[str, Any]:
    """Read ``run.json`` as `read_plan`; {} if there is none or it is damaged."""
    try:
        return read_plan(folder, records) or {}
    except DataError:
        return {}


def read_sound(path: Path) -> dict[str, Any]:
    """Read a JSON object as `read_json`; {} if there is none or it is damaged."""
    try:
        return read_json(path) or {}
    except DataError:
        return {}


def made_and_verified(
    commits: Iterable[str | None],
    verified: Mapping[str, Any],
    age: Callable[[str], str] = lambda commit: "",
) -> list[str]:
    """Say which commits made records, and whether the present code gives the same.

    Parameters
    ----------
    commits : iterable of str or None
        Commit of each record; None if it is unknown.
    verified : mapping
        Content of ``verified.json``; empty if there is none.
    age : callable, optional
        Returns a text on the age of a commit, which follows its name. Reports leave it
        out, because they do not depend on the date.

    Returns
    -------
    list of str
        Sentences.
    """
    lines = []
    counts = Counter(str(commit) for commit in commits if commit)
    if counts:
        lines.append(_made_sentence(counts, age))
    if not verified:
        if lines:
            lines.append("Not verified since.")
        return lines
    entries = as_list(verified.get("cells"))
    tried = [entry for entry in entries if isinstance(entry, dict)]
    lines.append(_verified_sentence(tried, verified))
    lines += [_difference_sentence(entry) for entry in tried if not entry["agrees"]]
    for reason, count in sorted(verified.get("not_tried", {}).items()):
        lines.append(f"Not tried: {count}, {reason}.")
    return lines


def _made_sentence(counts: Counter[str], age: Callable[[str], str]) -> str:
    """Name commits, the most frequent first."""
    texts = []
    for commit, count in counts.most_common():
        text = f"{commit[:8]}{age(commit)}"
        if len(counts) > 1:
            text += f" ({counted(count, 'cell')})"
        texts.append(text)
    return f"Made by {', '.join(texts)}."


def _verified_sentence(tried: Sequence[Facts], verified: Mapping[str, Any]) -> str:
    """Summarize how well the recomputed jobs agree with their records."""
    made_by = verified["made_by"]
    code = f"mtlrun {made_by['mtlrun']}"
    if made_by["commit"]:
        code = str(made_by["commit"])[:8]
        if made_by["dirty"]:
            code += " (changed)"
    digits = [entry["digits"] for entry in tried if entry["agrees"]]
    text = (
        f"Verified at {code} on {verified['date'][:10]}: {len(digits)} of "
        f"{counted(len(tried), 'cell')} computed again "
        f"(of {verified['finished']} finished) agree"
    )
    if digits:
        text += f" to {math.floor(min(digits))} digits or more"
    # Jobs without a ratio had no seconds to compare with.
    ratios = sorted(entry["seconds_ratio"] for entry in tried if entry["seconds_ratio"])
    if ratios:
        median = statistics.median(ratios)
        text += f"; seconds x{median:.2g} ({ratios[0]:.2g} to {ratios[-1]:.2g})"
    return f"{text}."


def _difference_sentence(entry: Mapping[str, Any]) -> str:
    """Say in what a recomputed job differs from its record."""
    difference = entry["error"]
    if not difference:
        difference = f"{entry['quantity']} agrees to {entry['digits']:g} digits"
    key = entry["key"][:KEY_LENGTH]
    return f"Does not agree: {CELLS}/{key}...: {difference}."
