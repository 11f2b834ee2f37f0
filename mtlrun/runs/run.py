"""Compute what is missing of a plan: searches fold by fold, then the cells of the table, each on disk when finished."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mtlrun.errors import counted
from mtlrun.record import DONE, FAILED, FOLD, OK, TIMEOUT, Record
from mtlrun.runs.cell import Cell
from mtlrun.runs.compute import compute_cell
from mtlrun.runs.machine import TimingLock
from mtlrun.runs.plan import Plan, other_settings, settings_text, write_plan
from mtlrun.runs.pool import Outcome, Pool
from mtlrun.runs.progress import Progress, Silent
from mtlrun.runs.selection import choice_of
from mtlrun.runs.store import Stamp, Store, settled
from mtlrun.runs.summary import Failure, RunSummary, note, work_text
from mtlrun.runs.survey import described, rerun_reasons, survey

#: Seconds between two looks at a cell that another process computes.
POLL = 0.5


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
        Processes for searches and for cells that are not timed; -1: all cores. Default: one, or all workers of a Dask
        cluster. No number depends on it.
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
        If the folders cannot be written.
    """
    return Runner.of(
        plan,
        jobs=jobs,
        backend=backend,
        scheduler=scheduler,
        force=force,
        fail_fast=fail_fast,
        progress=progress,
    ).run()


def todo(plan: Plan, store: Store, *, force: bool = False) -> tuple[list[Cell], list[Cell]]:
    """Return the cells of the table and the folds of searches to compute, every key once."""

    cells = _missing((row.cell for row in plan.wanted), store, plan.limit, force)
    return cells, _missing((fold for cell in cells for fold in cell.folds), store, plan.limit, force)


def _missing(cells: Iterable[Cell], store: Store, limit: float | None, force: bool) -> list[Cell]:
    """Return the cells that have to be computed, every key once."""

    def done(key: str) -> bool:
        record = store.load(key)
        return record is not None and settled(record, limit)

    return [cell for key, cell in {cell.key: cell for cell in cells}.items() if force or not done(key)]


class _Stop(Exception):
    """A cell failed and `fail_fast` is set."""


@dataclass
class Runner:
    """State of one invocation; `told` is given every record when it is on disk."""

    plan: Plan
    store: Store
    pool: Pool
    progress: Progress
    force: bool
    fail_fast: bool
    told: Callable[[Record], None] = lambda _: None
    computed: dict[str, str] = field(default_factory=dict)
    failed_elsewhere: set[str] = field(default_factory=set)
    begun: dict[str, dict[str, Stamp | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = time.time()
        # What lies there now: what another process writes later is known by its file, not by clocks that may be set.
        self.before = self.store.stamps()
        self.timing = TimingLock(self.progress.message)
        self.choices: dict[str, dict[str, Any]] = {}

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        jobs: int | None = None,
        backend: str | None = None,
        scheduler: str | None = None,
        force: bool = False,
        fail_fast: bool = False,
        progress: Progress | None = None,
    ) -> Runner:
        """Return the runner of a plan; parameters and errors are those of `run`."""
        pool = Pool(jobs, backend, scheduler, plan.limit)
        return cls(plan, plan.store(), pool, progress or Silent(), force, fail_fast)

    @contextlib.contextmanager
    def working(self, total: int) -> Iterator[None]:
        """Show progress on so many cells, after removing what killed processes left; let go of all locks at the end."""
        try:
            self.store.tidy(keep=(key for key in self.plan.names if not self.store.has(key)))
            self.progress.start(total)
            yield
        finally:
            self.timing.release()
            self.store.locks.release_all()
            self.progress.stop()

    def run(self) -> RunSummary:
        """Do everything; see `run`."""
        plan = self.plan
        self._say_replaced()
        cells, folds = todo(plan, self.store, force=self.force)
        self.store.tidy(cell.key for cell in [*cells, *folds])
        write_plan(plan)
        self._announce(cells, folds)
        summary = RunSummary(plan.folder)
        if cells:
            summary.interrupted = self._work(cells, folds)
        if not summary.interrupted and (other := other_settings(plan)) is not None:
            self.progress.message(
                f"another start with {other} took this folder over meanwhile: the report is about that one's table"
            )
        self._count(summary)
        summary.seconds = time.time() - self.started
        return summary

    def _say_replaced(self) -> None:
        """Say that the folder holds the table of a start with other settings, which this one replaces."""
        other = other_settings(self.plan)
        if other is not None:
            now = settings_text(self.plan.experiment.overrides)
            self.progress.message(
                f"{self.plan.folder} held the table of a start with {other}; now it is that with {now}. Cells are "
                "kept, so that either start finds its own again; --output keeps the tables apart"
            )

    def _announce(self, cells: list[Cell], folds: list[Cell]) -> None:
        """Say what will be computed and why."""
        rows = self.plan.wanted
        if not cells:
            self.progress.message(f"all {counted(len(rows), 'cell')} up to date")
            return
        for line in rerun_reasons(self.plan, survey(self.plan, self.store)):
            self.progress.message(line)
        self.progress.message(f"{self.plan.experiment.id}: {work_text(len(cells), len(folds), len(rows))}")
        if (why := self.store.locks.unguarded()) is not None:
            self.progress.message(
                f"{self.store.cells} is on a file system without file locks ({why}): start nothing else that computes "
                "there meanwhile, or choose a folder on another one with --output"
            )
        if self.plan.timed and not self.pool.serial:
            what = "only searches run in parallel" if folds else "nothing is left to run in parallel"
            self.progress.message(f"timed cells run one after the other whatever --jobs says: {what}")

    def _work(self, cells: list[Cell], folds: list[Cell]) -> bool:
        """Compute the cells; return whether Ctrl-C ended the work."""
        entry = self._provenance()
        with self.working(len(folds) + len(cells)):
            try:
                self.store.append_provenance(entry)
                lost = {record.key for record in self.search(cells)}
                ready = [cell for cell in cells if cell.key not in lost]
                self._compute([cell for cell in ready if not cell.timed], self.pool)
                self._compute([cell for cell in ready if cell.timed], Pool(seconds=self.plan.limit))
            except KeyboardInterrupt:
                return True
            except _Stop:
                self._fail_with_search(cells)
            finally:
                if self.computed:
                    self.store.append_provenance({**entry, **_end(self.computed)})
        return False

    def fits(self, cells: list[Cell], pool: Pool) -> None:
        """Compute fits that are not timed, after the folds of their searches; a deadline of the pool may leave some."""
        lost = {record.key for record in self.search(cells, pool)}
        ready = [cell for cell in cells if cell.key not in lost and (cell.search is None or cell.key in self.choices)]
        self._compute(ready, pool)

    def search(self, cells: list[Cell], pool: Pool | None = None) -> list[Record]:
        """Compute the folds that are missing and choose the parameters of cells (`choices`).

        Parameters
        ----------
        cells : list of Cell
        pool : Pool, optional
            Other processes than those of the runner. What its deadline stops has no choice, and no record.

        Returns
        -------
        list of Record
            Of the cells that cannot be computed, because their search failed.
        """
        pool = pool or self.pool
        self._compute(
            _missing((fold for cell in cells for fold in cell.folds), self.store, self.plan.limit, self.force), pool
        )
        if pool.until is not None:
            cells = [cell for cell in cells if all(self.store.has(fold.key) for fold in cell.folds)]
        return self._choose_all(cells)

    def finish_fit(self, cell: Cell, record: Record) -> Record:
        """Return the record of a fit that was computed in this process, with its search; the one on disk if it is done.

        A record that is finished stays as it is: other tables may show its seconds.
        """
        known = None if self.force else self.store.load(cell.key)
        if known is not None and known.done:
            return known
        record = self._complete(cell, record, self.pool)
        self.store.save(record)
        return record

    def _compute(self, cells: list[Cell], pool: Pool) -> None:
        """Compute cells; those that other processes hold are waited for."""
        waiting = list(cells)
        told: set[str] = set()
        while waiting:
            busy = self._batch(waiting, pool)
            for cell in busy:
                if cell.key not in told:
                    told.add(cell.key)
                    owner = self.store.locks.owner(cell.key) or "another process"
                    self.progress.message(f"waiting for {self._name(cell)}: {owner} computes it")
            if len(busy) == len(waiting):
                time.sleep(POLL)
            waiting = busy

    def _batch(self, cells: list[Cell], pool: Pool) -> list[Cell]:
        """Compute the cells that are free, each claimed when a process has time for it; return the others."""
        busy: list[Cell] = []
        broken: list[OSError] = []
        data_dir = None if self.plan.data_dir is None else str(self.plan.data_dir)
        by_key = {cell.key: cell for cell in cells}

        def claimed() -> Iterator[tuple[str, tuple[Any, ...]]]:
            for cell in cells:
                if pool.late:
                    return
                try:  # joblib takes cells in a thread of its own, where an exception would be lost
                    if cell.timed:  # first: who waits for it holds no cell
                        self.timing.acquire()
                    mine = self._claim(cell, busy)
                except OSError as error:
                    broken.append(error)
                    return
                if mine:
                    self.begun[cell.key] = self.store.stamps() if cell.timed else {}
                    self.progress.begin(self._name(cell))
                    yield cell.key, (cell, self.choices.get(cell.key, {}).get("chosen"), data_dir)

        with contextlib.closing(pool.run(compute_cell, claimed())) as results:
            for key, outcome in results:
                if outcome.status == TIMEOUT and pool.stops:  # nothing is known of it but that time was short
                    self.store.locks.release(key)
                else:
                    self._finish(by_key[key], self._record(by_key[key], outcome, pool))
        self.timing.release()
        if broken:
            raise broken[0]
        return busy

    def _claim(self, cell: Cell, busy: list[Cell]) -> bool:
        """Lock a cell that is still to be computed."""
        taken, owner = self.store.locks.acquire(cell.key)
        if not taken:
            busy.append(cell)
            return False
        if owner is not None:
            self.progress.message(f"took over {self._name(cell)}: {owner} is gone")
        record = self.store.load(cell.key)
        fresh = record is not None and self.store.stamp(cell.key) != self.before.get(cell.key)
        if record is None or (not fresh and (self.force or not settled(record, self.plan.limit))):
            return True
        self.store.locks.release(cell.key)
        if settled(record, self.plan.limit):
            self.progress.cell(self._name(cell), "done", None, "by another process")
        else:  # it failed there just now: trying it once is enough
            self.failed_elsewhere.add(cell.key)
            self.progress.cell(self._name(cell), record.status, None, f"by another process: {record.error}")
        return False

    def _record(self, cell: Cell, outcome: Outcome, pool: Pool) -> Record:
        """Return the record of a cell from what became of it; what was stopped has the limit in its seconds."""
        if outcome.status != OK:
            record = _new_record(cell, outcome.status, outcome.error, outcome.log)
            if outcome.status == TIMEOUT and self.plan.limit is not None:
                record.seconds = {"limit": self.plan.limit}
        else:
            record, scores = outcome.value
            if scores is not None:  # written before the record: a finished cell has them
                record.result["predictions"] = self.store.save_scores(cell.key, scores)
        return self._complete(cell, record, pool)

    def _complete(self, cell: Cell, record: Record, pool: Pool) -> Record:
        """Add to a record what the runner knows: whether it was computed alone, and the search before it."""
        if cell.family != FOLD:
            alone = pool.serial and not self.store.locks.others()
            record.environment["serial"] = alone and not (cell.timed and self._disturbed(cell))
        choice = self.choices.get(cell.key)
        if choice is not None:
            record.selection = choice
            record.seconds["search"] = choice["seconds"]
        return record

    def _disturbed(self, cell: Cell) -> bool:
        """Whether another process computed cells of this output while a cell was computed."""
        others = self.store.stamps().items() - self.begun[cell.key].items()
        return any(key != cell.key and key not in self.computed for key, _ in others)

    def _finish(self, cell: Cell, record: Record) -> None:
        self.store.save(record)
        self.store.locks.release(cell.key)
        self.timing.release()
        self.computed[cell.key] = record.status
        self.progress.cell(self._name(cell), record.status, record.seconds.get("total"), note(record))
        self.told(record)
        if self.fail_fast and not settled(record, self.plan.limit):
            raise _Stop

    def _choose_all(self, cells: list[Cell]) -> list[Record]:
        """Choose the parameters of cells from their folds; cells whose search failed become failed records."""
        lost = []
        for cell in cells:
            failed = self._choose(cell)
            if failed is not None:
                lost.append(failed)
                if self._claim(cell, []):
                    self._finish(cell, failed)
        return lost

    def _choose(self, cell: Cell) -> Record | None:
        """Note the choice of a cell; return its record when there is none."""
        if cell.search is None:
            return None
        records = [self.store.load(fold.key) for fold in cell.folds]
        found = [record for record in records if record is not None]
        bad = next((record for record in found if not record.done), None)
        if bad is not None or len(found) < len(records):
            why = bad.error if bad is not None else "its record cannot be read"
            return _new_record(cell, FAILED, f"selection: {why}", bad.log if bad is not None else None)
        choice = choice_of(cell, found)
        if choice["chosen"] is None:
            texts = [text for errors in choice["errors"].values() for text in errors]
            why = texts[0] if texts else "the metric is undefined in every fold"
            record = _new_record(cell, FAILED, f"selection: no candidate has a score: {why}")
            record.log, record.selection = "\n".join(texts) or None, choice
            return record
        self.choices[cell.key] = choice
        return None

    def _fail_with_search(self, cells: list[Cell]) -> None:
        """Make the failed search that ended the work a row of the table: its cells have failed with it."""
        failed = {key for key, status in self.computed.items() if status not in DONE}
        self.fail_fast = False
        self._choose_all([cell for cell in cells if failed & {fold.key for fold in cell.folds}])

    def _name(self, cell: Cell) -> str:
        return self.plan.names.get(cell.key, cell.key[:16])

    def _count(self, summary: RunSummary) -> None:
        """Fill in the numbers from what is on disk now."""
        for row, state in zip(self.plan.rows, survey(self.plan, self.store), strict=True):
            key = row.cell.key
            if not row.wanted:
                continue
            if state.name == "done":
                counter = "n_ok" if key in self.computed else "n_cached"
            elif state.name == "failed" and (key in self.computed or key in self.failed_elsewhere):
                counter = "n_failed"
                record = self.store.load(key)
                status, error = (record.status, record.error or "") if record else (FAILED, state.reason)
                file = self.store.path(key).relative_to(self.plan.output).as_posix()
                summary.failures.append(Failure(row.name, status, error, file))
            else:
                counter = "n_left"
            setattr(summary, counter, getattr(summary, counter) + 1)

    def _provenance(self) -> dict[str, Any]:
        from mtlrun.provenance import command_line, host_facts, now, source_facts

        timing = self.plan.experiment.spec.timing
        return {
            "started": now(),
            "finished": None,
            "pid": os.getpid(),
            "command": command_line(),
            "jobs": self.pool.jobs or (-1 if self.pool.backend == "dask" else 1),
            "backend": self.pool.backend or "loky",
            "threads": timing.threads if timing else 1,
            "n_computed": 0,
            **source_facts(),
            **host_facts(),
        }


def _new_record(cell: Cell, status: str, error: str | None, log: str | None = None) -> Record:
    """Return the record of a cell that has no number."""
    content = described(cell)
    code = content.pop("code")
    return Record(cell.key, cell.family, content, code, status=status, error=error, log=log)


def _end(computed: dict[str, str]) -> dict[str, Any]:
    from mtlrun.provenance import now

    return {"finished": now(), "n_computed": len(computed), "statuses": dict(Counter(computed.values()))}
