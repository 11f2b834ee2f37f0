"""Plans: the jobs of a table, and the state of their results.

This module loads neither solvers nor data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mtlrun.catalog.methods import CODE_SUFFIXES, reason_of
from mtlrun.engine.environment import installed_version
from mtlrun.engine.job import Job
from mtlrun.engine.record import PROTOCOL, Record, ResultKey
from mtlrun.engine.store import Store, is_settled
from mtlrun.errors import counted
from mtlrun.parallel.status import FAILED

if TYPE_CHECKING:
    from mtlrun.data.dataset import Dataset


@dataclass(frozen=True)
class PlannedJob(ResultKey):
    """Row of the table with its job.

    Attributes
    ----------
    job : Job
    was : str or None
        Key of the job that this row had in an earlier plan of the run.
    wanted : bool
        Whether the row is selected by `only` and by the requested interpretations.
    """

    job: Job
    was: str | None = None
    wanted: bool = True

    @property
    def plain(self) -> dict[str, Any]:
        """Entry of ``run.json``, which `ResultKey.read` reads."""
        entry: dict[str, Any] = {
            "key": self.key,
            "family": self.job.kind.value,
            "dataset": self.dataset,
            "method": self.method,
            "trial": self.trial,
        }
        if self.value is not None:
            entry["value"] = self.value
        if self.was is not None:
            entry["was"] = self.was
        if self.reading:
            entry["reading"] = self.reading
        return entry


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """Jobs to compute, and the folders of their results.

    Attributes
    ----------
    id : str
        Name of the run in messages.
    rows : tuple of PlannedJob
    folder : Path
        Folder of the run.
    output : Path
        Folder of all runs.
    data_dir : Path or None
        Folder of the data sets; None: the default one.
    dataset : Dataset or None
        Data set of all jobs, for those that run in this process. Worker processes load
        it from `data_dir`.
    limit : float or None
        Time limit of a job in seconds.
    timed : bool
        Whether jobs of the table measure seconds, and therefore run one after the
        other.
    threads : int
        Number of threads of timed jobs.
    settings : str
        Settings in which runs of the same folder may differ, for messages.
    """

    id: str
    rows: tuple[PlannedJob, ...]
    folder: Path
    output: Path
    data_dir: Path | None = None
    dataset: Dataset | None = None
    limit: float | None = None
    timed: bool = False
    threads: int = 1
    settings: str = ""

    @property
    def wanted(self) -> tuple[PlannedJob, ...]:
        """Rows whose jobs are to be computed."""
        return tuple(row for row in self.rows if row.wanted)

    @cached_property
    def names(self) -> dict[str, str]:
        """Key of a job or of a fold -> its name in messages.

        A job that several rows share has the name of the first one.
        """
        names: dict[str, str] = {}
        for row in self.rows:
            names.setdefault(row.job.key, row.name)
            n_folds = len(row.job.folds)
            for fold in row.job.folds:
                step = "search"
                if n_folds > 1:
                    step += f", fold {(fold.fold or 0) + 1} of {n_folds}"
                names.setdefault(fold.key, f"{row.name} ({step})")
        return names

    def store(self) -> Store:
        """Return the store of the records."""
        return Store(self.output, self.folder, checks_scores=True)

    def write(self) -> None:
        """Write the plan into the run folder; does nothing unless a subclass does."""

    def taken_over(self) -> str | None:
        """Return the settings of another run that uses this folder; None if none
        does.
        """
        return None


# ---------------------------------------------------------------- states of jobs

#: Packages whose versions may change a number in its last digits. Records contain their
#: versions, which are compared, but keys do not depend on them.
NUMERICAL_PACKAGES = ("numpy", "scipy", "scikit-learn")

#: Largest number of differences that are listed; the others are counted.
MAX_LISTED_DIFFERENCES = 3
#: Longest value that a difference shows.
MAX_VALUE_LENGTH = 40

StateName = Literal["done", "missing", "outdated", "failed", "damaged"]


@dataclass(frozen=True)
class JobState:
    """State of the job of a row.

    Attributes
    ----------
    name : {"done", "missing", "outdated", "failed", "damaged"}
        `outdated`: the row had another job before. `damaged`: a file was changed after
        it was written.
    reason : str
        Why it is outdated, failed or damaged.
    versions : dict of str to str
        Numerical packages that had another version when the job was computed, with that
        version.
    commit : str or None
        Commit of mtlrun that computed the job, if it is known.
    """

    name: StateName
    reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None


def job_states(plan: JobPlan, store: Store | None = None) -> list[JobState]:
    """Return the present state of each row, read from the folders."""
    store = store or plan.store()
    return [_state(row, store, plan.limit) for row in plan.rows]


def _state(row: PlannedJob, store: Store, limit: float | None) -> JobState:
    try:
        record = store.read(row.job.key)
    except ValueError as error:
        return JobState("damaged", str(error))
    if record is not None:
        packages = record.environment.get("packages") or {}
        other_versions = {}
        for name in NUMERICAL_PACKAGES:
            if packages.get(name) not in (None, installed_version(name)):
                other_versions[name] = str(packages[name])
        commit = record.made_by.get("commit")
        if is_settled(record, limit):
            return JobState("done", "", other_versions, commit)
        reason = f"{record.status}: {record.error}"
        return JobState("failed", reason, other_versions, commit)
    before = store.load(row.was) if row.was else None
    if before is None:
        return JobState("missing")
    if before.protocol != PROTOCOL:
        return JobState("outdated", "made by an earlier version of mtlrun")
    return JobState("outdated", explain(before, row.job.record()) or "inputs changed")


def rerun_reasons(plan: JobPlan, states: Sequence[JobState]) -> list[str]:
    """Return why wanted jobs that had a result are computed again.

    Returns
    -------
    list of str
        One line per data set, method and reason.
    """
    trials_by_reason: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted and state.name in ("outdated", FAILED, "damaged"):
            trials_by_reason[row.dataset, row.method, state.reason].append(row.trial)
    lines = []
    for (dataset, method, reason), trials in trials_by_reason.items():
        trial = f"{len(trials)} trials"
        if len(trials) == 1:
            trial = f"trial {trials[0]}"
        lines.append(f"rerun {dataset}/{method}/{trial}: {reason}")
    return lines


def other_versions(plan: JobPlan, states: Sequence[JobState]) -> str | None:
    """Return a message about jobs computed with other versions of numerical packages.

    None if there are no such jobs.
    """
    n_jobs = 0
    old_versions: set[tuple[str, str]] = set()
    package_names: set[str] = set()
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted and state.versions:
            n_jobs += 1
            package_names.update(state.versions)
            old_versions.update(state.versions.items())
    if not n_jobs:
        return None
    present = []
    for name in NUMERICAL_PACKAGES:
        if name in package_names:
            present.append(f"{name} {installed_version(name)}")
    earlier = sorted(f"{name} {old_version}" for name, old_version in old_versions)
    return (
        f"{counted(n_jobs, 'result')} computed with {', '.join(earlier)} "
        f"(here: {', '.join(present)}); --force computes them again"
    )


def explain(old: Record, new: Record) -> str:
    """Return, in a few words, why two jobs of the same row have different keys."""
    reasons = []
    for name in sorted({*old.versions, *new.versions}):
        before = old.versions.get(name)
        now = new.versions.get(name)
        if before == now:
            continue
        if name.endswith(CODE_SUFFIXES):
            reasons.append(f"{name} changed")
            continue
        if before is None or now is None:
            # Another method or reader, which is a difference of the inputs.
            continue
        text = f"{name} {before} -> {now}"
        if isinstance(before, int) and isinstance(now, int):
            reason = reason_of(name, before, now)
            if reason:
                text += f": {reason}"
        reasons.append(text)
    differences = _differences("", old.inputs, new.inputs)
    reasons += differences[:MAX_LISTED_DIFFERENCES]
    n_more = len(differences) - MAX_LISTED_DIFFERENCES
    if n_more > 0:
        reasons.append(f"{n_more} more")
    return "; ".join(reasons)


def _differences(path: str, old: object, new: object) -> list[str]:
    """Describe the values that differ, except for the keys of folds.

    Parameters
    ----------
    path : str
        Keys that lead to the values, such as ``method.params``.
    old, new : object
        Values; mappings are compared key by key.
    """
    if old == new or path in ("schema", "search.keys"):
        return []
    if path == "dataset.fingerprint":
        return ["data changed"]
    if not _is_mapping_or_none(old) or not _is_mapping_or_none(new):
        return [f"{path} {_format_value(old)} -> {_format_value(new)}"]
    before: Mapping[str, object] = old if isinstance(old, Mapping) else {}
    after: Mapping[str, object] = new if isinstance(new, Mapping) else {}
    differences = []
    for name in sorted({*before, *after}):
        name_path = f"{path}.{name}".lstrip(".")
        differences += _differences(name_path, before.get(name), after.get(name))
    return differences


def _is_mapping_or_none(value: object) -> bool:
    return value is None or isinstance(value, Mapping)


def _format_value(value: object) -> str:
    text = "none" if value is None else str(value)
    if len(text) > MAX_VALUE_LENGTH:
        text = text[: MAX_VALUE_LENGTH - 3] + "..."
    return text
