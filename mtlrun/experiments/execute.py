"""Compute what is missing: selections in parallel, then the cells of the table, each on disk as it is finished."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.core.errors import counted
from mtlrun.core.records import DONE, FAILED, OK, CellRecord
from mtlrun.experiments.cells import Cell, settled
from mtlrun.experiments.machine import TimingLock
from mtlrun.experiments.plan import Plan, rerun_reasons, survey
from mtlrun.experiments.pool import Outcome, Pool
from mtlrun.experiments.progress import Progress, Silent
from mtlrun.experiments.provenance import append_run
from mtlrun.experiments.runfile import other_settings, settings_text, write_plan
from mtlrun.experiments.siblings import copy_cells, find_siblings
from mtlrun.experiments.store import Stamp, Store
from mtlrun.experiments.work import EVALUATIONS, MEASUREMENTS, SELECTIONS, Phase, Work, note, without_selection

#: Seconds between two looks at a cell that another process computes.
POLL = 0.5


@dataclass(frozen=True)
class Failure:
    """A cell that is not done.

    Attributes
    ----------
    name : str
        For people.
    status : str
    error : str
        One line.
    file : str
        Its record, below the run folder; the traceback is in there under `log`.
    """

    name: str
    status: str
    error: str
    file: str


@dataclass
class RunSummary:
    """What a run did.

    Attributes
    ----------
    run_dir : Path
    n_ok : int
        Evaluation cells computed now, those that did not converge included.
    n_failed : int
        Evaluation cells that failed now.
    n_cached : int
        Evaluation cells that were done before, or were done by another process meanwhile.
    n_left : int
        Evaluation cells neither done nor failed: interrupted, or stopped by `fail_fast`.
    failures : list of Failure
    interrupted : bool
    seconds : float
    """

    run_dir: Path
    n_ok: int = 0
    n_failed: int = 0
    n_cached: int = 0
    n_left: int = 0
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 when all is well, 1 when a cell failed, 130 when interrupted."""
        return 130 if self.interrupted else 1 if self.n_failed else 0


def run(
    plan: Plan,
    *,
    jobs: int | None = None,
    backend: str | None = None,
    scheduler: str | None = None,
    force: bool = False,
    fail_fast: bool = False,
    progress: Progress | None = None,
) -> RunSummary:
    """Compute the wanted cells of a plan that are not done.

    Parameters
    ----------
    plan : Plan
    jobs : int, optional
        Processes for selection and for evaluation cells that are not timed; -1: all cores. Default: one, or all
        workers of a Dask cluster. No number depends on it.
    backend, scheduler : str, optional
        A joblib backend for the same cells; ``dask`` with the address of its scheduler.
    force : bool
        Compute done cells again.
    fail_fast : bool
        Stop at the first failed cell.
    progress : Progress, optional
        Default: silent.

    Returns
    -------
    RunSummary
        Failed cells are in it and on disk; nothing is raised for them. Ctrl-C ends the run early, with `interrupted`.

    Raises
    ------
    ConfigError
        If jobs, backend, scheduler and limits contradict each other.
    OSError
        If the run folder cannot be written.
    """
    limits = plan.experiment.spec.limits
    seconds = limits.seconds if limits else None
    pool = Pool(jobs, backend, scheduler, seconds)
    started = time.time()
    runner = _Runner(plan, Store(plan.folder), progress or Silent(), force, fail_fast, started)
    runner.say_replaced()
    runner.store.tidy(keep={cell.key for cells in plan.todo(force=force) for cell in cells})
    write_plan(plan)
    if not force:
        runner.plan = plan = runner.adopt()
    selections, evaluations = plan.todo(force=force)
    runner.announce(selections, evaluations, pool)
    summary = RunSummary(plan.folder)
    if selections or evaluations:
        alone = Pool(seconds=seconds) if plan.timed else pool
        summary.interrupted = runner.work(selections, evaluations, pool, alone)
    elif runner.copied:
        append_run(plan.folder, {**_provenance(plan, started, pool), **_end({}), "copied": runner.copied})
    if not summary.interrupted and (other := other_settings(plan)) is not None:
        runner.progress.message(
            f"another start with {other} took this folder over meanwhile: the report is about that one's table"
        )
    _count(summary, plan, runner)
    summary.seconds = time.time() - started
    return summary


class _Stop(Exception):
    """A cell failed and `fail_fast` is set."""


@dataclass
class _Runner:
    """State of one invocation."""

    plan: Plan
    store: Store
    progress: Progress
    force: bool
    fail_fast: bool
    started: float
    computed: dict[str, str] = field(default_factory=dict)
    failed_elsewhere: set[str] = field(default_factory=set)
    copied: dict[str, int] = field(default_factory=dict)
    begun: dict[str, dict[str, Stamp | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What lies there now: what another process writes later is known by its file, not by clocks that may be set.
        self.before = self.store.stamps()
        self.timing = TimingLock(self.progress.message)

    def say_replaced(self) -> None:
        """Say that the folder holds the table of a start with other settings, which this one replaces."""
        other = other_settings(self.plan)
        if other is not None:
            now = settings_text(self.plan.experiment.overrides)
            self.progress.message(
                f"{self.plan.folder} held the table of a start with {other}; now it is that with {now}. Cells are "
                "kept, so that either start finds its own again; --output keeps the tables apart"
            )

    def adopt(self) -> Plan:
        """Copy cells that other artefacts of the paper have; return the plan as it is then."""
        selections, evaluations = self.plan.todo()
        self.copied = copy_cells(self.plan, find_siblings(self.plan, [*selections, *evaluations]))
        for artefact, n in self.copied.items():
            self.progress.message(f"{counted(n, 'cell')} copied from {artefact}: same keys, so the same numbers")
        return survey(self.plan) if self.copied else self.plan

    def announce(self, selections: list[Cell], evaluations: list[Cell], pool: Pool) -> None:
        """Say what will be computed and why."""
        n = len(self.plan.wanted)
        if not (selections or evaluations):
            self.progress.message(f"all {counted(n, 'cell')} up to date")
            return
        for line in rerun_reasons([*selections, *evaluations]):
            self.progress.message(line)
        up_to_date = f", {n - len(evaluations)} up to date" if n > len(evaluations) else ""
        searches = f" and {counted(len(selections), 'selection')}" if selections else ""
        self.progress.message(
            f"{self.plan.experiment.id}: {counted(len(evaluations), 'cell')}{searches} to compute{up_to_date}"
        )
        if (why := self.store.locks.unguarded()) is not None:
            self.progress.message(
                f"{self.plan.folder} is on a file system without file locks ({why}): start nothing else that computes "
                "there meanwhile, or choose a folder on another one with --output"
            )
        if self.plan.timed and not pool.serial:
            what = "only selections run in parallel" if selections else "nothing is left to run in parallel"
            self.progress.message(f"timed cells run one after the other whatever --jobs says: {what}")

    def work(self, selections: list[Cell], evaluations: list[Cell], pool: Pool, alone: Pool) -> bool:
        """Compute the cells; return whether Ctrl-C ended the work."""
        entry = _provenance(self.plan, self.started, pool)
        if self.copied:
            entry["copied"] = self.copied
        try:
            self.progress.start(len(selections) + len(evaluations))
            append_run(self.plan.folder, entry)
            self._phase(selections, pool, SELECTIONS)
            phase = MEASUREMENTS if self.plan.experiment.spec.measures else EVALUATIONS
            self._phase(self._ready(evaluations), alone, phase)
        except KeyboardInterrupt:
            return True
        except _Stop:
            self._fail_with_selection(evaluations)
            return False
        finally:
            self.timing.release()
            self.store.locks.release_all()
            self.progress.stop()
            if self.computed:
                append_run(self.plan.folder, {**entry, **_end(self.computed)})
        return False

    def _ready(self, evaluations: list[Cell]) -> list[Cell]:
        """Return the cells whose selection is done; the others become failed records."""
        ready = []
        for cell in evaluations:
            record = without_selection(self.plan, self.store, cell)
            if record is None:
                ready.append(cell)
            elif self._claim(cell, []):
                self._finish(cell, record)
        return ready

    def _fail_with_selection(self, evaluations: list[Cell]) -> None:
        """Make the failed selection that ended the work a row of the table: its evaluations have failed with it."""
        failed = {key for key, status in self.computed.items() if status not in DONE}
        self.fail_fast = False
        self._ready([cell for cell in evaluations if cell.needs in failed])

    def _phase(self, cells: list[Cell], pool: Pool, phase: Phase) -> None:
        """Compute cells of one kind; those that other processes hold are waited for."""
        waiting = list(cells)
        told: set[str] = set()
        while waiting:
            busy = self._batch(waiting, pool, phase)
            for cell in busy:
                if cell.key not in told:
                    told.add(cell.key)
                    owner = self.store.locks.owner(cell.key) or "another process"
                    self.progress.message(f"waiting for {cell.name}: {owner} computes it")
            if len(busy) == len(waiting):
                time.sleep(POLL)
            waiting = busy

    def _batch(self, cells: list[Cell], pool: Pool, phase: Phase) -> list[Cell]:
        """Compute the cells that are free, each claimed when a process has time for it; return the others."""
        works: dict[str, Work] = {}
        busy: list[Cell] = []
        broken: list[OSError] = []

        def units() -> Iterator[tuple[tuple[str, int], tuple[Any, ...]]]:
            for cell in cells:
                try:  # joblib takes units in a thread of its own, where an exception would be lost
                    if phase.timed and self.plan.timed:  # first: who waits for it holds no cell
                        self.timing.acquire()
                    claimed = self._claim(cell, busy)
                except OSError as error:
                    broken.append(error)
                    return
                if claimed:
                    work = works[cell.key] = self._begin(cell, pool, phase)
                    self.progress.begin(cell.name)
                    # A list: the cell may be finished, with parts of an earlier run, before the last one is looked at.
                    yield from [((cell.key, i), p) for i, p in enumerate(work.arguments) if i not in work.outcomes]

        by_key = {cell.key: cell for cell in cells}
        with contextlib.closing(pool.run(phase.function, units())) as results:
            for (key, i), outcome in results:
                mine = works[key]
                mine.outcomes[i] = outcome
                if len(mine.outcomes) == len(mine.arguments):
                    del works[key]
                    self._finish(by_key[key], mine.finish([mine.outcomes[j] for j in sorted(mine.outcomes)]))
                else:  # what is finished of a cell survives an interrupted run
                    self.store.save_parts(key, {j: o.value for j, o in mine.outcomes.items() if o.status == OK})
        self.timing.release()
        if broken:
            raise broken[0]
        return busy

    def _begin(self, cell: Cell, pool: Pool, phase: Phase) -> Work:
        """Make the work of a claimed cell; parts that an interrupted run has finished are taken from the disk."""
        self.begun[cell.key] = self.store.stamps() if self.plan.timed else {}
        work = phase.make(self.plan, self.store, cell, pool.serial and not self.store.locks.others())
        parts = {} if self.force else self.store.load_parts(cell.key)
        if len(parts) < len(work.arguments):
            work.outcomes = {i: Outcome(OK, value) for i, value in parts.items()}
        return work

    def _disturbed(self, cell: Cell) -> bool:
        """Whether another process computed cells of this folder while a cell was computed."""
        if self.store.locks.others():
            return True
        begun = self.begun[cell.key]
        others = self.store.stamps().items() - begun.items()
        return any(key != cell.key and key not in self.computed for key, _ in others)

    def _claim(self, cell: Cell, busy: list[Cell]) -> bool:
        """Lock a cell that is still to be computed."""
        taken, owner = self.store.locks.acquire(cell.key)
        if not taken:
            busy.append(cell)
            return False
        if owner is not None:
            self.progress.message(f"took over {cell.name}: {owner} is gone")
        record = self.store.load(cell.key)
        fresh = record is not None and self.store.stamp(cell.key) != self.before.get(cell.key)
        if record is not None and self._settled(record) and (fresh or not self.force):
            self.store.locks.release(cell.key)
            self.progress.cell(cell.name, "done", None, "by another process")
            return False
        if record is not None and fresh:  # it failed there just now: trying it once is enough
            self.store.locks.release(cell.key)
            self.failed_elsewhere.add(cell.key)
            self.progress.cell(cell.name, record.status, None, f"by another process: {record.error}")
            return False
        return True

    def _finish(self, cell: Cell, record: CellRecord) -> None:
        if self.plan.timed and record.environment.get("serial") and self._disturbed(cell):
            record.environment["serial"] = False
        self.store.save(record)
        self.store.save_parts(cell.key, {})
        self.store.locks.release(cell.key)
        self.timing.release()
        self.computed[cell.key] = record.status
        seconds = record.seconds.get("total")
        self.progress.cell(cell.name, record.status, seconds, note(record))
        if self.fail_fast and not self._settled(record):
            raise _Stop

    def _settled(self, record: CellRecord) -> bool:
        return settled(record, self.plan.experiment.spec.limits)


def _count(summary: RunSummary, plan: Plan, runner: _Runner) -> None:
    """Fill in the numbers from what is on disk now."""
    for cell in survey(plan).wanted:
        if cell.state == "done":
            counter = "n_ok" if cell.key in runner.computed else "n_cached"
        elif cell.state == "failed" and (cell.key in runner.computed or cell.key in runner.failed_elsewhere):
            counter = "n_failed"
            record = runner.store.load(cell.key)
            status, error = (record.status, record.error or "") if record else (FAILED, cell.reason)
            file = runner.store.path(cell.key).relative_to(plan.folder).as_posix()
            summary.failures.append(Failure(cell.name, status, error, file))
        else:
            counter = "n_left"
        setattr(summary, counter, getattr(summary, counter) + 1)


def _provenance(plan: Plan, started: float, pool: Pool) -> dict[str, Any]:
    from mtlrun.experiments.host import host_facts
    from mtlrun.experiments.provenance import command_line, now, source_facts

    timing = plan.experiment.spec.timing
    return {
        "started": now(),
        "finished": None,
        "pid": os.getpid(),
        "command": command_line(),
        "jobs": pool.jobs or (-1 if pool.backend == "dask" else 1),
        "backend": pool.backend or "loky",
        "threads": timing.threads if timing else 1,
        "n_computed": 0,
        **source_facts(),
        **host_facts(),
    }


def _end(computed: dict[str, str]) -> dict[str, Any]:
    from mtlrun.experiments.provenance import now

    return {"finished": now(), "n_computed": len(computed), "statuses": dict(Counter(computed.values()))}
