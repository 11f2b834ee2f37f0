"""Compute what is missing from a plan: the folds of searches first, then the jobs of the table, each saved at once."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mtlrun.engine.compute import compute_jobs
from mtlrun.engine.job import Job, choice_of
from mtlrun.engine.outcome import Outcome
from mtlrun.engine.packed import search_key
from mtlrun.engine.plan import JobPlan, rerun_reasons, survey
from mtlrun.engine.pool import Pool
from mtlrun.engine.progress import Progress
from mtlrun.engine.record import (
    DONE,
    FAILED,
    OK,
    TIMEOUT,
    JobKind,
    Record,
    command_line,
    host_facts,
    now,
    source_facts,
)
from mtlrun.engine.store import Store, settled
from mtlrun.errors import counted
from mtlrun.utils.processes import exclusive_lock, tidy_folders, timing_lock

#: What to do when the run folder cannot be written.
NO_ROOM = (
    "Free some space, or choose another folder with --output; finished cells are kept."
)
#: Seconds of computing that a process is handed at once where single jobs take less, but no fewer times than this:
#: while it works on one part, the records of the last one are written.
AT_ONCE, PARTS = 0.3, 2
#: Numbers of a finished job that are shown; measures may return many.
SHOWN = 6


@dataclass(frozen=True)
class Failure:
    """A row whose job failed: its display name, status, error in one line, and the file with the traceback."""

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
    n_ok, n_failed : int
        Rows whose job was computed in this run: done (including not converged), and failed.
    n_cached : int
        Rows that were done before, or that another process finished meanwhile.
    n_left : int
        Rows neither done nor failed, because the run was interrupted or stopped by `fail_fast`.
    failures : list of Failure
    interrupted : bool
    """

    run_dir: Path
    n_ok: int = 0
    n_failed: int = 0
    n_cached: int = 0
    n_left: int = 0
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    @property
    def unchanged(self) -> bool:
        """Whether there was nothing to compute."""
        return not (self.n_ok or self.n_failed or self.n_left or self.interrupted)

    @property
    def exit_code(self) -> int:
        """0 when all is well, 1 when a job failed, 130 when interrupted."""
        return 130 if self.interrupted else 1 if self.n_failed else 0


def run(
    plan: JobPlan,
    *,
    n_jobs: int | None = None,
    backend: str | None = None,
    scheduler: str | None = None,
    force: bool = False,
    fail_fast: bool = False,
    retries: int = 0,
    progress: Progress | None = None,
) -> RunSummary:
    """Compute the wanted jobs of a plan that are not done.

    Parameters
    ----------
    plan : Plan
    n_jobs : int, optional
        Number of processes for searches and for jobs that are not timed; -1 uses all cores. Default: one, or all
        workers of a Dask cluster. Results do not depend on it.
    backend, scheduler : str, optional
        How to run in parallel: ``processes``, ``threading``, or ``dask`` with the address of
        its scheduler.
    force : bool
        Recompute jobs that are done.
    fail_fast : bool
        Stop at the first failed job.
    retries : int, default 0
        Compute a job that fails, for instance because its process was killed, so many times again.
    progress : Progress, optional
        Default: silent.

    Returns
    -------
    RunSummary
        Lists the failed jobs; nothing is raised for them. Ctrl-C ends the run early, with `interrupted` set.

    Raises
    ------
    ConfigError
        If n_jobs, backend, scheduler and limits contradict each other.
    OSError
        If the folders cannot be written.
    """
    pool = Pool(n_jobs, backend, scheduler, plan.limit)
    return Runner(
        plan, pool, progress, force=force, fail_fast=fail_fast, retries=retries
    ).run()


def todo(
    plan: JobPlan, store: Store, *, force: bool = False
) -> tuple[list[Job], list[Job]]:
    """Return the jobs of the table and the folds of searches to compute, each key once."""
    jobs = _missing((row.job for row in plan.wanted), store, plan.limit, force)
    return jobs, _missing_folds(jobs, store, plan.limit, force)[0]


def work_text(jobs: int, folds: int, of: int) -> str:
    """Return ``3 of 8 cells to compute, after 6 folds of searches``."""
    searches = f", after {counted(folds, 'search fold')}" if folds else ""
    return f"{jobs} of {counted(of, 'cell')} to compute{searches}"


def _missing_folds(
    jobs: Iterable[Job], store: Store, limit: float | None, force: bool
) -> tuple[list[Job], dict[str, dict[str, Any]]]:
    """Return the folds that have to be computed, and by key of a job the choices of searches that need none.

    The folds of a search are not packed with a run, but its finished jobs have what it found: a method that is new in
    a table and has the search of another one is not searched again.
    """
    missing = _missing(
        (fold for job in jobs for fold in job.folds), store, limit, force
    )
    if force or not missing:
        return missing, {}
    keys, packed = {fold.key for fold in missing}, store.packed_choices
    open_ = [job for job in jobs if any(fold.key in keys for fold in job.folds)]
    known = {
        job.key: packed.get(search_key(fold.key for fold in job.folds)) for job in open_
    }
    needed = {fold.key for job in open_ if known[job.key] is None for fold in job.folds}
    return [fold for fold in missing if fold.key in needed], {
        key: found for key, found in known.items() if found
    }


def _missing(
    jobs: Iterable[Job], store: Store, limit: float | None, force: bool
) -> list[Job]:
    """Return the jobs that have to be computed, each key once."""

    def done(key: str) -> bool:
        record = store.load(key)
        return record is not None and settled(record, limit)

    return [
        job
        for key, job in {job.key: job for job in jobs}.items()
        if force or not done(key)
    ]


class _Stop(Exception):
    """A job failed and `fail_fast` is set."""


class Runner:
    """One invocation of a plan; `finished` is given every record as soon as it is on disk."""

    def __init__(
        self,
        plan: JobPlan,
        pool: Pool | None = None,
        progress: Progress | None = None,
        *,
        force: bool = False,
        fail_fast: bool = False,
        retries: int = 0,
    ) -> None:
        self.plan = plan
        self.pool = pool or Pool(seconds=plan.limit)
        self.progress = progress or Progress()
        self.force = force
        self.fail_fast = fail_fast
        self.retries = retries
        self.store = plan.store()
        self.finished: Callable[[Record], None] = lambda _: None
        #: Status of the jobs computed here, how often each was begun, which were begun beside another run, and the
        #: parameters that searches chose.
        self.computed: dict[str, str] = {}
        self.tries: Counter[str] = Counter()
        self.disturbed: set[str] = set()
        self.choices: dict[str, dict[str, Any]] = {}
        #: What the last job took.
        self.seconds = math.inf

    def run(self) -> RunSummary:
        """Do everything; see `run`."""
        plan = self.plan
        if (other := plan.taken_over()) is not None:
            self.progress.message(
                f"{plan.folder} held the table of a run with {other}; it now holds that of a run with {plan.settings}. The "
                "cells of both are kept. Use --output to keep the tables apart as well"
            )
        summary = RunSummary(plan.folder)
        if todo(plan, self.store, force=self.force)[0]:
            summary.interrupted = self._work()
        else:
            tidy_folders(self.store.cells_folder, plan.folder)
            plan.write()
            self.progress.message(f"all {counted(len(plan.wanted), 'cell')} up to date")
        if not summary.interrupted and (other := plan.taken_over()) is not None:
            self.progress.message(
                f"another run with {other} took this folder over meanwhile: the report shows the table of that run"
            )
        self._count(summary)
        return summary

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Lock the run, which another process may be computing, clear up after killed ones, and start processes."""
        own, cells_folder = self.pool, self.store.cells_folder
        wait = partial(
            self.progress.message,
            f"waiting for another process, which is computing {self.plan.id} here",
        )
        try:
            cells_folder.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(self.store.lock, wait) as refused:
                if refused:
                    self.progress.message(
                        f"{cells_folder} is on a file system without file locks ({refused}): do not start another run that "
                        "computes there, or choose a folder on another file system with --output"
                    )
                tidy_folders(cells_folder, self.plan.folder)
                with own.keep_workers(
                    len(self.plan.rows)
                    + sum(len(row.job.folds) for row in self.plan.rows)
                ) as self.pool:
                    yield
        finally:
            self.pool = own
            self.progress.stop()

    def _work(self) -> bool:
        """Compute what is missing; return whether Ctrl-C ended the work."""
        entry = self._provenance()
        with contextlib.suppress(KeyboardInterrupt), self.working():
            self.plan.write()
            jobs, folds = todo(self.plan, self.store, force=self.force)
            self._announce(jobs, folds)
            self.progress.start(len(folds) + len(jobs))
            try:
                self.store.add_provenance([entry])
                self.fits(jobs)
            except _Stop:
                self._fail_with_search(jobs)
            finally:
                if self.computed:
                    end = {"finished": now(), "n_computed": len(self.computed)}
                    statuses = dict(Counter(self.computed.values()))
                    self.store.add_provenance([{**entry, **end, "statuses": statuses}])
            return False
        return True

    def _announce(self, jobs: list[Job], folds: list[Job]) -> None:
        """Say what will be computed and why."""
        for line in rerun_reasons(self.plan, survey(self.plan, self.store)):
            self.progress.message(line)
        self.progress.message(
            f"{self.plan.id}: {work_text(len(jobs), len(folds), len(self.plan.wanted))}"
        )
        if self.plan.timed and not self.pool.is_serial:
            what = (
                "only searches run in parallel"
                if folds
                else "nothing is left to run in parallel"
            )
            self.progress.message(
                f"timed cells run one after the other, whatever --jobs says: {what}"
            )

    def fits(self, jobs: list[Job], pool: Pool | None = None) -> None:
        """Compute jobs after the folds of their searches, timed ones last; a deadline of the pool may leave some."""
        lost = {record.key for record in self.search(jobs, pool)}
        ready = [
            job
            for job in jobs
            if job.key not in lost and (job.search is None or job.key in self.choices)
        ]
        self._compute([job for job in ready if not job.timed], pool or self.pool)
        if timed := [job for job in ready if job.timed]:
            with timing_lock(self.progress.message):
                self._compute(timed, Pool(seconds=self.plan.limit))

    def search(self, jobs: list[Job], pool: Pool | None = None) -> list[Record]:
        """Compute the folds that are missing and choose the parameters of jobs (`choices`).

        Parameters
        ----------
        jobs : list of Job
        pool : Pool, optional
            In place of that of the runner. A search that its deadline stops has no choice and no record.

        Returns
        -------
        list of Record
            Failed records of the jobs that cannot be computed, because their search failed.
        """
        pool = pool or self.pool
        folds, known = _missing_folds(jobs, self.store, self.plan.limit, self.force)
        self.choices.update(known)
        self._compute(folds, pool)
        jobs = [job for job in jobs if job.key not in known]
        if pool.deadline is not None:
            jobs = [
                job
                for job in jobs
                if all(self.store.has(fold.key) for fold in job.folds)
            ]
        return self._choose_all(jobs)

    def finish_fit(self, job: Job, record: Record, scores: Any = None) -> Record:
        """Save the record of a fit that was computed in this process, unless there is one: other tables may show it.

        The scores of the test rows are saved with it if the job keeps them.
        """
        known = None if self.force else self.store.load(job.key)
        if known is not None and known.done:
            return known
        record = self._complete(job, record, self.pool)
        if scores is not None and "predictions" in job.scoring.keep:
            self.store.save_scores(record, scores)
        self.store.save(record)
        return record

    def _compute(self, jobs: list[Job], pool: Pool) -> None:
        """Compute jobs, those that fail `retries` times again."""
        while jobs:
            self._batch(jobs, pool)
            jobs = [job for job in jobs if self._may_retry(job)]
            for job in jobs:
                self.progress.message(
                    f"trying {self._name(job)} again: {self.tries[job.key]} of {self.retries}"
                )

    def _may_retry(self, job: Job) -> bool:
        """Whether a job was computed here, failed, and has a try left."""
        return (
            self.computed.get(job.key) == FAILED
            and 0 < self.tries[job.key] <= self.retries
        )

    def _batch(self, jobs: list[Job], pool: Pool) -> None:
        """Compute jobs, each begun when a process has time for it."""
        data_dir = None if self.plan.data_dir is None else str(self.plan.data_dir)
        by_key = {job.key: job for job in jobs}

        def begun() -> Iterator[tuple[Job, dict[str, Any] | None]]:
            for job in jobs:
                if pool.is_past_deadline:
                    return
                self._begin(job)
                yield job, self.choices.get(job.key, {}).get("chosen")

        work, at_once = begun(), self._at_once(len(jobs), pool)
        parts = iter(lambda: list(islice(work, at_once)), [])
        units = (([job.key for job, _ in part], (part, data_dir)) for part in parts)
        died: list[Job] = []
        with contextlib.closing(pool.run(compute_jobs, units)) as results:
            for keys, outcome in results:
                if outcome.status == OK:
                    found = dict(zip(keys, outcome.value, strict=True))
                elif len(keys) == 1:
                    found = {keys[0]: outcome}
                else:  # one of them has killed the process: which, only each alone can tell
                    found = {}
                    died += [by_key[key] for key in keys]
                for key, one in found.items():
                    if (
                        one.status != TIMEOUT or not pool.stop_at_deadline
                    ):  # else it is known only that time was short
                        self._finish(by_key[key], self._record(by_key[key], one, pool))
        if died:
            self.tries.subtract(job.key for job in died)
            self.seconds = math.inf
            self._batch(died, pool)

    def _at_once(self, jobs: int, pool: Pool) -> int:
        """Return how many jobs a process is handed at once: small ones cost more to hand over than to compute."""
        if (
            pool.is_serial
            or pool.backend is not None
            or pool.remaining_seconds() is not None
        ):
            return 1
        parts = PARTS * max(len(pool.workers), 1)
        return max(
            1, min(math.ceil(jobs / parts), int(AT_ONCE / max(self.seconds, 1e-3)))
        )

    def _begin(self, job: Job) -> None:
        self.tries[job.key] += 1
        if job.timed and self.store.shared():
            self.disturbed.add(job.key)
        try:
            self.store.read(job.key)
        except ValueError as error:
            self.progress.message(f"computing {self._name(job)} again: {error}")
        self.progress.begin(self._name(job))

    def _record(self, job: Job, outcome: Outcome, pool: Pool) -> Record:
        """Return the record of a job from what became of it; the seconds of a stopped one name its limit."""
        if outcome.status != OK:
            record = job.record(
                status=outcome.status, error=outcome.error, log=outcome.log
            )
            if outcome.status == TIMEOUT and self.plan.limit is not None:
                record.seconds = {"limit": self.plan.limit}
        else:
            record, scores = outcome.value
            if scores is not None:  # written before the record: a finished job has them
                self.store.save_scores(record, scores)
        return self._complete(job, record, pool)

    def _complete(self, job: Job, record: Record, pool: Pool) -> Record:
        """Add to a record what the runner knows: whether it was computed alone, and the search before it."""
        if job.kind != JobKind.FOLD:
            alone = pool.is_serial and job.key not in self.disturbed
            record.environment["serial"] = alone and not self.store.shared()
        choice = self.choices.get(job.key)
        if choice is not None:
            record.selection = choice
            record.seconds["search"] = choice["seconds"]
        return record

    def _finish(self, job: Job, record: Record) -> None:
        self.store.save(record)
        self.computed[job.key] = record.status
        self.seconds = record.seconds.get("total", math.inf)
        self.progress.job(
            self._name(job), record.status, record.seconds.get("total"), _note(record)
        )
        if self._may_retry(job):
            return
        self.finished(record)
        if self.fail_fast and not settled(record, self.plan.limit):
            raise _Stop

    def _choose_all(self, jobs: list[Job]) -> list[Record]:
        """Choose the parameters of jobs from their folds; jobs whose search failed become failed records."""
        lost = []
        for job in jobs:
            failed = self._choose(job)
            if failed is not None:
                lost.append(failed)
                self._finish(job, failed)
        return lost

    def _choose(self, job: Job) -> Record | None:
        """Note the choice of a job; return its failed record when there is none."""
        if job.search is None:
            return None
        records = [self.store.load(fold.key) for fold in job.folds]
        found = [record for record in records if record is not None]
        bad = next((record for record in found if not record.done), None)
        if bad is not None:
            return job.record(
                status=FAILED, error=f"selection: {bad.error}", log=bad.log
            )
        if len(found) < len(records):
            return job.record(
                status=FAILED, error="selection: its record cannot be read"
            )
        choice = choice_of(job, found)
        if choice["chosen"] is None:
            texts = [text for errors in choice["errors"].values() for text in errors]
            why = texts[0] if texts else "the metric is undefined in every fold"
            error = f"selection: no candidate has a score: {why}"
            return job.record(
                status=FAILED,
                error=error,
                log="\n".join(texts) or None,
                selection=choice,
            )
        self.choices[job.key] = choice
        return None

    def _fail_with_search(self, jobs: list[Job]) -> None:
        """Make the failed search that ended the work a row of the table: its jobs have failed with it."""
        failed = {key for key, status in self.computed.items() if status not in DONE}
        self.fail_fast = False
        self._choose_all(
            [job for job in jobs if failed & {fold.key for fold in job.folds}]
        )

    def _name(self, job: Job) -> str:
        return self.plan.names.get(job.key, job.key[:16])

    def _count(self, summary: RunSummary) -> None:
        """Fill in the counts from what is on disk now."""
        for row, state in zip(
            self.plan.rows, survey(self.plan, self.store), strict=True
        ):
            key = row.job.key
            if not row.wanted:
                continue
            if state.name == "done" and key in self.computed:
                summary.n_ok += 1
            elif state.name == "done":
                summary.n_cached += 1
            elif state.name == "failed" and key in self.computed:
                summary.n_failed += 1
                record = self.store.load(key)
                status, error = (
                    (record.status, record.error or "")
                    if record
                    else (FAILED, state.reason)
                )
                file = self.store.path(key).relative_to(self.plan.output).as_posix()
                summary.failures.append(Failure(row.name, status, error, file))
            else:
                summary.n_left += 1

    def _provenance(self) -> dict[str, Any]:
        return {
            "started": now(),
            "finished": None,
            "pid": os.getpid(),
            "command": command_line(),
            "jobs": self.pool.n_jobs or (-1 if self.pool.backend == "dask" else 1),
            "backend": self.pool.backend or "processes",
            "threads": self.plan.threads,
            "n_computed": 0,
            **source_facts(),
            **host_facts(),
        }


def _note(record: Record) -> str:
    """Return what is worth saying about a finished job."""
    if not record.done:
        return record.error or ""
    if record.family == JobKind.FOLD:
        return counted(len(record.selection["scores"]), "candidate")
    shown = [
        f"{name} {value:.4g}"
        for name, value in record.metrics.items()
        if value is not None and value == value
    ]
    if record.seconds.get("fit") is not None:
        shown.append(f"fit {record.seconds['fit']:.3g} s")
    return ", ".join(shown[:SHOWN] + ["..."] * (len(shown) > SHOWN))
