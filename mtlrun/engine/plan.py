"""Jobs to compute: where their numbers stand, and what is stored of them.

Loads no solver and no data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mtlrun.engine.job import Job
from mtlrun.engine.methods import OWN_CODE, reason_of
from mtlrun.engine.record import FAILED, PROTOCOL, Record, ResultKey
from mtlrun.engine.store import Store, settled
from mtlrun.errors import counted


@dataclass(frozen=True)
class PlannedJob(ResultKey):
    """A place in the table with its job.

    Attributes
    ----------
    job : Job
    was : str or None
        Key of the job that stood at this place in an earlier plan of the run.
    wanted : bool
        False outside `only` and the readings asked for.
    """

    job: Job
    was: str | None = None
    wanted: bool = True

    @property
    def plain(self) -> dict[str, Any]:
        """The entry of `run.json`, which `ResultKey.read` reads."""
        entry = {
            "key": self.key,
            "family": self.job.kind.value,
            "dataset": self.dataset,
            "method": self.method,
        }
        more = {
            "trial": self.trial,
            "value": self.value,
            "was": self.was,
            "reading": self.reading or None,
        }
        return {
            **entry,
            **{name: value for name, value in more.items() if value is not None},
        }


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """Jobs to compute, and where their results go.

    Attributes
    ----------
    id : str
        Name of the run in messages.
    rows : tuple of PlannedJob
    folder : Path
        Run folder.
    output : Path
        Folder of all runs.
    data_dir : Path or None
        Data directory; None for the default one.
    limit : float or None
        Seconds that a job may take.
    timed : bool
        Whether jobs of the table measure seconds, and therefore run one after the other.
    threads : int
        Threads of timed jobs.
    settings : str
        Settings in which runs of one folder differ, as messages show them.
    """

    id: str
    rows: tuple[PlannedJob, ...]
    folder: Path
    output: Path
    data_dir: Path | None = None
    limit: float | None = None
    timed: bool = False
    threads: int = 1
    settings: str = ""

    @property
    def wanted(self) -> tuple[PlannedJob, ...]:
        """The rows inside `only`."""
        return tuple(row for row in self.rows if row.wanted)

    @cached_property
    def names(self) -> dict[str, str]:
        """Key of a job or of a fold -> name for people, that of the first row with it."""
        found: dict[str, str] = {}
        for row in self.rows:
            found.setdefault(row.job.key, row.name)
            for fold in row.job.folds:
                part = f"fold {(fold.fold or 0) + 1} of {len(row.job.folds)}"
                what = "search" if len(row.job.folds) == 1 else f"search, {part}"
                found.setdefault(fold.key, f"{row.name} ({what})")
        return found

    def store(self) -> Store:
        """Return where the records lie."""
        return Store(self.output, self.folder)

    def write(self) -> None:
        """Write the plan into the run folder; a plan without a file of its own writes nothing."""

    def taken_over(self) -> str | None:
        """Return the settings of another run that has taken over the folder, else None."""
        return None


# ---------------------------------------------------------------------- the state of its jobs

#: Packages whose versions may change a number in its last digits; they are recorded and compared, and change no key.
NUMERICAL_PACKAGES = ("numpy", "scipy", "scikit-learn")

#: Files and differences that are named before the rest is counted.
NAMED = 3

StateName = Literal["done", "missing", "outdated", "failed", "damaged"]


@dataclass(frozen=True)
class JobState:
    """What is known of the job of a row.

    Attributes
    ----------
    name : {"done", "missing", "outdated", "failed", "damaged"}
        `outdated`: the place had another job before. `damaged`: a file is not as it was written.
    reason : str
        Why it is outdated, failed or damaged.
    versions : dict of str to str
        Numerical packages whose version was another one when the job was computed.
    commit : str or None
        That made the record of the job, as far as it is known.
    """

    name: StateName
    reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None


def survey(plan: JobPlan, store: Store | None = None) -> list[JobState]:
    """Return the state of every row as the folders have it now."""
    store = store or plan.store()
    here = _versions()
    return [_state(row, store, plan.limit, here) for row in plan.rows]


def _state(
    row: PlannedJob, store: Store, limit: float | None, here: Mapping[str, str]
) -> JobState:
    try:
        record = store.read(row.job.key)
    except ValueError as error:
        return JobState("damaged", str(error))
    if record is not None:
        good = settled(record, limit)
        packages = record.environment.get("packages") or {}
        other = {
            name: str(packages[name])
            for name in here
            if packages.get(name) not in (None, here[name])
        }
        reason, commit = (
            "" if good else f"{record.status}: {record.error}",
            record.made_by.get("commit"),
        )
        return JobState("done" if good else "failed", reason, other, commit)
    before = store.load(row.was) if row.was else None
    if before is None:
        return JobState("missing")
    if before.protocol != PROTOCOL:
        return JobState("outdated", "made by an earlier version of mtlrun")
    return JobState("outdated", explain(before, row.job.record()) or "inputs changed")


def rerun_reasons(plan: JobPlan, states: Sequence[JobState]) -> list[str]:
    """Return one line per (data set, method, reason) for wanted jobs that had a result before."""
    grouped: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted and state.name in ("outdated", FAILED, "damaged"):
            grouped[row.dataset, row.method, state.reason].append(row.trial)
    lines = []
    for (dataset, method, reason), trials in grouped.items():
        which = f"trial {trials[0]}" if len(trials) == 1 else f"{len(trials)} trials"
        lines.append(f"rerun {dataset}/{method}/{which}: {reason}")
    return lines


def other_versions(plan: JobPlan, states: Sequence[JobState]) -> str | None:
    """Say which jobs were computed with other versions of the numerical packages, None when none was."""
    found = [
        state.versions
        for row, state in zip(plan.rows, states, strict=True)
        if row.wanted and state.versions
    ]
    if not found:
        return None
    here = _versions()
    names = sorted(
        {
            f"{name} {version}"
            for versions in found
            for name, version in versions.items()
        }
    )
    now = ", ".join(
        f"{name} {here[name]}"
        for name in here
        if any(name in versions for versions in found)
    )
    return f"{counted(len(found), 'cell')} computed with {', '.join(names)} (here: {now}); --force computes them again"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in NUMERICAL_PACKAGES}


def explain(old: Record, new: Record) -> str:
    """Say in a few words why two jobs at the same place of a table have different keys."""
    reasons = [
        text
        for name in sorted({*old.versions, *new.versions})
        if (text := _raised(name, old, new))
    ]
    differences = _differences("", old.inputs, new.inputs)
    reasons += differences[:NAMED]
    if len(differences) > NAMED:
        reasons.append(f"{len(differences) - NAMED} more")
    return "; ".join(reasons)


def _raised(name: str, old: Record, new: Record) -> str:
    """Describe a version that is another one now, empty where it is not."""
    before, now = old.versions.get(name), new.versions.get(name)
    if before is None and "+" in name:
        # Roles of columns stand in the name of the reader since they have own changes.
        before = old.versions.get(name.partition("+")[0])
    if isinstance(before, int) and isinstance(now, int) and before != now:
        why = reason_of(name, before, now)
        return f"{name} {before} -> {now}" + (f": {why}" if why else "")
    if name.endswith(OWN_CODE) and before != now:
        return f"{name} changed"
    packages = before is not None and now is not None and before != now
    return (
        f"{name} {before} -> {now}" if packages else ""
    )  # else another method or reader: the inputs say so


def _differences(path: str, old: object, new: object) -> list[str]:
    """Describe the values that differ; the keys of folds are left out."""
    if old == new or path in ("schema", "search.keys"):
        return []
    if path == "dataset.fingerprint":
        return ["data changed"]
    if not all(value is None or isinstance(value, Mapping) for value in (old, new)):
        return [f"{path} {_short(old)} -> {_short(new)}"]
    before: Mapping[str, object] = old if isinstance(old, Mapping) else {}
    after: Mapping[str, object] = new if isinstance(new, Mapping) else {}
    names = sorted({*before, *after})
    return [
        d
        for n in names
        for d in _differences(f"{path}.{n}".lstrip("."), before.get(n), after.get(n))
    ]


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
