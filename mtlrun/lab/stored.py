"""Read the JSON files of experiments in folders of results.

A model of each file checks the keys that are read. Folders may come from other people
and earlier versions, so unknown keys are allowed.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mtlrun.engine import stored
from mtlrun.engine.packed import PACKED, is_without_plan
from mtlrun.engine.record import CELLS, ResultKey
from mtlrun.engine.store import Store
from mtlrun.engine.stored import AGAIN, KEY_LENGTH, RUN_FILE, VERIFIED
from mtlrun.errors import DataError, counted
from mtlrun.lab.experiment.claims import Main, Names, PublishedCurve
from mtlrun.lab.experiment.spec import MethodSpec, Spec
from mtlrun.utils.io import as_list
from mtlrun.utils.text import cleaned

#: Keys of the section `config` of ``run.json``, and of its entries of `methods`.
_CONFIG_KEYS = {"schema", *Spec.model_fields}
_METHOD_KEYS = {*MethodSpec.model_fields}


class Stored(BaseModel):
    """A part of a file, in which other keys may have any value."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Axis(Stored):
    """Position of a data set in a sweep: its label without the value, and the value."""

    of: str
    value: Any


class StoredDataset(Stored):
    """Data set of a run; all fields are empty if the plan does not describe it."""

    id: str = ""
    title: str | None = None
    simulated: bool = False
    fingerprint: str = ""
    options: dict[str, Any] = {}
    statistics: dict[str, Any] = {}
    files: dict[str, str] = {}
    tasks: list[Any] = []
    licence: str | None = None
    citation: str = ""
    notes: str = ""
    axis: Axis | None = None

    def marked(self, name: str) -> str:
        """Add "(simulated)" to a name of simulated data, unless the name says so."""
        if self.simulated and "simulated" not in name.lower():
            return f"{name} (simulated)"
        return name


class Quantity(Stored):
    """Quantity of an analysis."""

    text: str | None = None
    greater_is_better: bool | None = None


class StoredCurves(Stored):
    """Published curves that an experiment names."""

    curves: list[PublishedCurve] = []


class StoredInterpretation(Stored):
    """Entry of an interpretation: its sentences, and what differs from the main one."""

    why: str = ""
    main: Main | None = None
    because: str | None = None
    plausible: bool = True
    config: dict[str, Any] | None = None
    datasets: dict[str, StoredDataset] | None = None
    methods: list[str] | None = None


class StoredExperiment(Stored):
    """``run.json`` under one interpretation."""

    spec: Spec = Field(alias="config")
    profile: str = ""
    overrides: list[Any] = []
    command: str = ""
    paper_datasets: Names = []
    methods: list[str] = []
    datasets: dict[str, StoredDataset] = {}
    published: StoredCurves = StoredCurves()
    quantities: dict[str, Quantity] = {}
    reading: str = ""
    readings: dict[str, StoredInterpretation] = {}
    cells: list[Annotated[ResultKey, BeforeValidator(ResultKey.read)]] = []


class Invocation(Stored):
    """Entry of ``provenance.json``: a command that computed something, and where."""

    mtlrun: Any = None
    commit: Any = None
    dirty: Any = None
    python: Any = None
    blas: Any = None
    os: Any = None
    cpu: Any = None
    cores: Any = None
    ram_gb: Any = None
    jobs: Any = None
    n_computed: Any = None
    started: Any = None
    finished: Any = None
    packages: dict[str, Any] | None = None


class Provenance(Stored):
    """``provenance.json``."""

    runs: list[Invocation] | None = None


class Maker(Stored):
    """Code that recomputed jobs."""

    mtlrun: str | None
    commit: str | None
    dirty: bool | None
    package: str | None = None


class VerifiedJob(Stored):
    """Agreement of a recomputed job with its record."""

    key: str
    digits: float
    quantity: str | None
    agrees: bool
    error: str | None
    seconds_ratio: float | None


class Verified(Stored):
    """``verified.json``."""

    made_by: Maker
    date: str
    finished: int
    not_tried: dict[str, int]
    cells: list[VerifiedJob]


_Model = TypeVar("_Model", bound=Stored)


def validated(model: type[_Model], content: Mapping[str, Any], path: Path) -> _Model:
    """Return the content of a file as an object.

    Raises
    ------
    DataError
        If it does not fit the model. The message names the key.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first_problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, first_problem["loc"]))
        raise stored.not_a_result(path, key, first_problem["msg"]) from None


def read_verified(folder: Path) -> Verified | None:
    """Read ``verified.json``; None if there is none or it is damaged."""
    path = folder / VERIFIED
    try:
        content = stored.read_json(path)
        if not content:
            return None
        return validated(Verified, content, path)
    except DataError:
        return None


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
        Content as it was written; None if there is no file.

    Raises
    ------
    DataError
        If it is damaged, or if the plan is in packed records that cannot be read.
    """
    raw = stored.read_raw(folder / RUN_FILE)
    if raw is None:
        return None
    if not is_without_plan(raw):
        return raw
    if not records.packed.plan:
        file = folder / PACKED
        reason = records.packed.damage or "missing, but it has the plan of the run"
        raise DataError(f"{file}: {reason}", AGAIN)
    rest = {name: value for name, value in raw.items() if name != "plan"}
    return {**rest, **records.packed.plan}


def read_sound_plan(folder: Path, records: Store) -> dict[str, Any]:
    """Read ``run.json`` as `read_plan`; {} if there is none or it is damaged."""
    try:
        return read_plan(folder, records) or {}
    except DataError:
        return {}


def experiments_of(raw: Mapping[str, Any], path: Path) -> list[StoredExperiment]:
    """Return an experiment under its main interpretation, and under each other one.

    Parameters
    ----------
    raw : mapping
        Content of ``run.json``.
    path : Path
        Its path, for messages.

    Raises
    ------
    DataError
        If a value does not fit. The message names its key.
    """
    content = upgrade(cleaned(raw))
    main = validated(StoredExperiment, content, path)
    experiments = [main]
    for name, entry in main.readings.items():
        if entry.config is None or name == main.reading:
            continue
        changes = {
            "reading": name,
            "config": {**content["config"], **entry.config},
            "datasets": content["readings"][name].get("datasets", content["datasets"]),
            "methods": entry.methods or main.methods,
        }
        experiments.append(
            validated(StoredExperiment, upgrade({**content, **changes}), path)
        )
    return experiments


def upgrade(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a ``run.json`` in the form of the present version.

    Keys of `config` that experiments no longer have are left out, and what a file of
    another version may lack there is taken from the top level. An option in the command
    gets its present name. Malformed values are left to the models.
    """
    upgraded = _with_fields(content, content)
    command = str(upgraded.get("command", ""))
    upgraded["command"] = command.replace(" --reading", " --interpretation")
    datasets = upgraded.get("datasets")
    if isinstance(datasets, dict):
        upgraded["datasets"] = {label: entry or {} for label, entry in datasets.items()}
    config = upgraded.get("config", {})
    if isinstance(config, dict):
        sections: dict[str, Any] = {"schema": 1}
        for key in ("id", "title", "kind", "seed", "paper"):
            if key in upgraded:
                sections[key] = upgraded[key]
        sections |= _with_fields(config, _CONFIG_KEYS)
        sections["methods"] = []
        for method in as_list(config.get("methods")):
            sections["methods"].append(_with_fields(method, _METHOD_KEYS))
        upgraded["config"] = sections
    return upgraded


def _with_fields(entry: Any, names: Collection[str]) -> Any:
    """Return the fields of a mapping with some names, as far as they have a value."""
    if not isinstance(entry, Mapping):
        return entry
    fields = {}
    for key, value in entry.items():
        if key in names and value is not None:
            fields[key] = value
    return fields


def made_and_verified(
    commits: Iterable[str | None],
    verified: Verified | None,
    age: Callable[[str], str] = lambda commit: "",
) -> list[str]:
    """Say which commits made records, and whether the present code gives the same.

    Parameters
    ----------
    commits : iterable of str or None
        Commit of each record; None if it is unknown.
    verified : Verified or None
        None if the jobs were not verified.
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
        texts = []
        for commit, count in counts.most_common():
            text = f"{commit[:8]}{age(commit)}"
            if len(counts) > 1:
                text += f" ({counted(count, 'result')})"
            texts.append(text)
        lines.append(f"Made by {', '.join(texts)}.")
    if verified is None:
        if lines:
            lines.append("Not verified since.")
        return lines
    made_by = verified.made_by
    code = f"mtlrun {made_by.mtlrun}"
    if made_by.commit:
        code = made_by.commit[:8]
        if made_by.dirty:
            code += " (changed)"
    digits = [job.digits for job in verified.cells if job.agrees]
    summary = (
        f"Verified at {code} on {verified.date[:10]}: {len(digits)} of "
        f"{counted(len(verified.cells), 'result')} computed again "
        f"(of {verified.finished} finished) agree"
    )
    if digits:
        summary += f" to {math.floor(min(digits))} digits or more"
    # Jobs without a ratio had no seconds to compare with.
    ratios = sorted(job.seconds_ratio for job in verified.cells if job.seconds_ratio)
    if ratios:
        median = statistics.median(ratios)
        summary += f"; seconds x{median:.2g} ({ratios[0]:.2g} to {ratios[-1]:.2g})"
    lines.append(f"{summary}.")
    for job in verified.cells:
        if not job.agrees:
            difference = f"{job.quantity} agrees to {job.digits:g} digits"
            name = f"{CELLS}/{job.key[:KEY_LENGTH]}..."
            lines.append(f"Does not agree: {name}: {job.error or difference}.")
    for reason, count in sorted(verified.not_tried.items()):
        lines.append(f"Not tried: {count}, {reason}.")
    return lines
