"""Compute the jobs of a plan that have no results yet.

The folds of searches come first, then the jobs of the table. Each result is stored as
soon as it is computed, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlrun.engine.environment import command_line, host_info, made_by, now
from mtlrun.engine.job import Job, choice_of
from mtlrun.engine.plan import JobPlan, job_states, rerun_reasons
from mtlrun.engine.record import (
    JobKind,
    Record,
    SearchResult,
    Seconds,
    candidates,
    search_key,
)
from mtlrun.engine.store import Store, is_settled
from mtlrun.engine.stored import AGAIN
from mtlrun.errors import DataError, counted
from mtlrun.parallel.outcome import Outcome, WorkItem, attempt
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.progress import Progress
from mtlrun.parallel.status import DONE, FAILED, OK, TIMEOUT
from mtlrun.utils.io import canonical_json
from mtlrun.utils.processes import exclusive_lock, timing_lock
from mtlrun.utils.temporary import tidy_folders

if TYPE_CHECKING:
    import numpy as np

    from mtlrun.data.dataset import Dataset

#: Remedy when the run folder cannot be written.
CANNOT_WRITE_REMEDY = "Free some space, or choose another folder with --output; finished results are kept."
#: A worker receives small jobs in batches that take about this many seconds.
BATCH_SECONDS = 0.3
#: Each worker receives at least this many batches. While it computes one, the results
#: of the previous one are stored.
MIN_BATCHES_PER_WORKER = 2
#: Metrics of a finished job that are shown; an analysis may return many.
MAX_SHOWN_METRICS = 6


@dataclass(frozen=True)
class Failure:
    """Row of the table whose job failed.

    Attributes
    ----------
    name : str
    status : str
    error : str
        Error message, one line.
    file : str
        File with the traceback, relative to the output folder.
    """

    name: str
    status: str
    error: str
    file: str


@dataclass
class RunSummary:
    """Counts of the rows of a run.

    Attributes
    ----------
    run_dir : Path
    n_ok, n_failed : int
        Rows whose job was computed in this run and is done (including not converged),
        or failed.
    n_cached : int
        Rows that were done before, or that another process has finished meanwhile.
    n_left : int
        Rows that are neither done nor failed, because the run was interrupted or
        stopped by `fail_fast`.
    failures : list of Failure
    interrupted : bool
        Whether Ctrl-C ended the run.
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
        """0 if all jobs are done, 1 if a job failed, 130 if the run was interrupted."""
        if self.interrupted:
            return 130
        if self.n_failed:
            return 1
        return 0


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
    plan : JobPlan
    n_jobs : int, optional
        Number of processes for searches and for jobs that are not timed; -1 uses all
        cores. Default: one process, or all workers of a Dask cluster. Results do not
        depend on it.
    backend, scheduler : str, optional
        How to run in parallel: ``processes``, ``threading``, or ``dask`` with the
        address of its scheduler.
    force : bool, default False
        Recompute jobs that are done.
    fail_fast : bool, default False
        Stop at the first failed job.
    retries : int, default 0
        How often a failed job is computed again, for instance because its process was
        killed.
    progress : Progress, optional
        Default: silent.

    Returns
    -------
    RunSummary
        Lists the failed jobs; their errors are not raised. Ctrl-C ends the run early
        and sets `interrupted`.

    Raises
    ------
    ConfigError
        If n_jobs, backend, scheduler and limits contradict each other.
    OSError
        If the folders cannot be written.
    """
    pool = Pool(n_jobs, backend, scheduler, plan.limit)
    runner = Runner(
        plan, pool, progress, force=force, fail_fast=fail_fast, retries=retries
    )
    return runner.run()


def missing_jobs(
    plan: JobPlan, store: Store, *, force: bool = False
) -> tuple[list[Job], list[Job]]:
    """Return the jobs to compute, each key once.

    Returns
    -------
    jobs : list of Job
        Wanted jobs of the table that have no result.
    folds : list of Job
        Folds of the searches before them that have no result.
    """
    wanted = [row.job for row in plan.wanted]
    jobs = _without_result(wanted, store, plan.limit, force=force)
    folds, _ = _missing_folds(jobs, store, plan.limit, force=force)
    return jobs, folds


def describe_work(n_jobs: int, n_folds: int, total: int) -> str:
    """Return, for example, ``3 of 8 results to compute, after 6 search folds``."""
    text = f"{n_jobs} of {counted(total, 'result')} to compute"
    if n_folds:
        text += f", after {counted(n_folds, 'search fold')}"
    return text


def _missing_folds(
    jobs: Iterable[Job], store: Store, limit: float | None, *, force: bool
) -> tuple[list[Job], dict[str, SearchResult]]:
    """Return the folds to compute, and the searches that need no folds.

    The records of folds are not packed with a run. But its finished jobs contain the
    results of their searches, which also serve other jobs with the same search, for
    instance of a method that is new in the table.

    Returns
    -------
    folds : list of Job
    choices : dict
        Key of a job -> result of its search, as of `choose`.
    """
    jobs = list(jobs)
    all_folds = [fold for job in jobs for fold in job.folds]
    missing = _without_result(all_folds, store, limit, force=force)
    if force or not missing:
        return missing, {}
    missing_keys = {fold.key for fold in missing}
    needed_keys = set()
    choices = {}
    for job in jobs:
        fold_keys = [fold.key for fold in job.folds]
        if missing_keys.isdisjoint(fold_keys):
            continue
        choice = store.packed_choices.get(search_key(fold_keys))
        if choice is None:
            needed_keys.update(fold_keys)
        else:
            choices[job.key] = choice
    return [fold for fold in missing if fold.key in needed_keys], choices


def _without_result(
    jobs: Iterable[Job], store: Store, limit: float | None, *, force: bool
) -> list[Job]:
    """Return the jobs that have to be computed, each key once."""
    jobs_by_key = {job.key: job for job in jobs}
    if force:
        return list(jobs_by_key.values())
    missing = []
    for key, job in jobs_by_key.items():
        record = store.load(key)
        if record is None or not is_settled(record, limit):
            missing.append(job)
    return missing


class _FailFast(Exception):
    """A job has failed and `fail_fast` is set."""


class Runner:
    """Computation of the jobs of a plan.

    Parameters
    ----------
    plan : JobPlan
    pool : Pool, optional
        Default: one process, with the time limit of the plan.
    progress : Progress, optional
        Default: silent.
    force, fail_fast, retries
        As of `run`.

    Attributes
    ----------
    on_finished : callable
        Receives each record as soon as it is stored.
    computed : dict of str to str
        Key and status of the jobs that were computed here.
    tries : Counter of str
        How often each job was started.
    disturbed : set of str
        Timed jobs that were started while another run was computed.
    choices : dict of str to SearchResult
        Key of a job -> result of its search, as of `choose`.
    last_seconds : float
        Duration of the last job, from which the size of batches is estimated.
    """

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
        self.on_finished: Callable[[Record], None] = lambda _: None
        self.computed: dict[str, str] = {}
        self.tries: Counter[str] = Counter()
        self.disturbed: set[str] = set()
        self.choices: dict[str, SearchResult] = {}
        self.last_seconds = math.inf

    def run(self) -> RunSummary:
        """Compute the plan; see `run`."""
        plan = self.plan
        other_settings = plan.taken_over()
        if other_settings is not None:
            self.progress.message(
                f"{plan.folder} held the table of a run with {other_settings}; it now "
                f"holds the table of a run with {plan.settings}. The results of both are "
                "kept. Use --output to keep both tables"
            )
        summary = RunSummary(plan.folder)
        jobs, _ = missing_jobs(plan, self.store, force=self.force)
        if jobs:
            n_jobs = self.pool.n_jobs
            if not n_jobs:
                n_jobs = -1 if self.pool.backend == "dask" else 1
            entry = {
                "started": now(),
                "finished": None,
                "pid": os.getpid(),
                "command": command_line(),
                "jobs": n_jobs,
                "backend": self.pool.backend or "processes",
                "threads": self.plan.threads,
                "n_computed": 0,
                **{name: made_by()[name] for name in ("mtlrun", "commit", "dirty")},
                **asdict(host_info()),
            }
            try:
                with self.working():
                    self._compute_missing(entry)
            except KeyboardInterrupt:
                summary.interrupted = True
        else:
            self.store.open()
            tidy_folders(self.store.cells_folder, plan.folder)
            plan.write()
            self.progress.message(
                f"all {counted(len(plan.wanted), 'result')} up to date"
            )
        other_settings = plan.taken_over()
        if other_settings is not None and not summary.interrupted:
            self.progress.message(
                f"another run with {other_settings} has taken over this folder "
                "meanwhile: the report shows the table of that run"
            )
        self._count(summary)
        return summary

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Lock the run and start worker processes.

        If another process computes the same run, wait for it. Remove what killed
        processes have left behind.
        """
        pool = self.pool
        cells_folder = self.store.cells_folder

        def report_wait() -> None:
            self.progress.message(
                f"waiting for another process, which is computing {self.plan.id} here"
            )

        try:
            self.store.open()
            with exclusive_lock(self.store.lock, report_wait) as lock_error:
                if lock_error:
                    self.progress.message(
                        f"{cells_folder} is on a file system without file locks "
                        f"({lock_error}): do not start another run that computes "
                        "there, or choose a folder on another file system with --output"
                    )
                tidy_folders(cells_folder, self.plan.folder)
                n_items = len(self.plan.rows)
                n_items += sum(len(row.job.folds) for row in self.plan.rows)
                with pool.keep_workers(n_items) as self.pool:
                    yield
        finally:
            self.pool = pool
            self.progress.stop()

    def _compute_missing(self, entry: dict[str, Any]) -> None:
        """Compute the missing jobs, and complete their entry of the provenance."""
        self.plan.write()
        # Another process may have finished some of the jobs while this one waited.
        jobs, folds = missing_jobs(self.plan, self.store, force=self.force)
        states = job_states(self.plan, self.store)
        for line in rerun_reasons(self.plan, states):
            self.progress.message(line)
        work = describe_work(len(jobs), len(folds), len(self.plan.wanted))
        self.progress.message(f"{self.plan.id}: {work}")
        if self.plan.timed and not self.pool.is_serial:
            consequence = "nothing is left to run in parallel"
            if folds:
                consequence = "only searches run in parallel"
            self.progress.message(
                "timed results run one after the other, whatever --jobs says: "
                f"{consequence}"
            )
        self.progress.start(len(folds) + len(jobs))
        try:
            self.store.add_provenance([entry])
            self.compute_fits(jobs)
        except _FailFast:
            # Store failed records of the jobs whose search has ended the work.
            failed_keys = set()
            for key, status in self.computed.items():
                if status not in DONE:
                    failed_keys.add(key)
            self.fail_fast = False
            has_failed = []
            for job in jobs:
                if any(fold.key in failed_keys for fold in job.folds):
                    has_failed.append(job)
            self._choose_all(has_failed)
        finally:
            if self.computed:
                results = {
                    "finished": now(),
                    "n_computed": len(self.computed),
                    "statuses": dict(Counter(self.computed.values())),
                }
                self.store.add_provenance([{**entry, **results}])

    def compute_fits(self, jobs: list[Job], pool: Pool | None = None) -> None:
        """Compute jobs after the folds of their searches, timed jobs last.

        Parameters
        ----------
        jobs : list of Job
        pool : Pool, optional
            Default: the pool of the runner. If it has a deadline, some jobs may not be
            computed.
        """
        failed_keys = {record.key for record in self.search(jobs, pool)}
        timed: list[Job] = []
        untimed: list[Job] = []
        for job in jobs:
            is_selected = job.search is None or job.key in self.choices
            if job.key in failed_keys or not is_selected:
                continue
            (timed if job.timed else untimed).append(job)
        self._compute(untimed, pool or self.pool)
        if timed:
            with timing_lock(self.progress.message):
                self._compute(timed, Pool(seconds=self.plan.limit))

    def search(self, jobs: list[Job], pool: Pool | None = None) -> list[Record]:
        """Compute the missing folds of searches and select the parameters of jobs.

        `choices` holds the results.

        Parameters
        ----------
        jobs : list of Job
        pool : Pool, optional
            Default: the pool of the runner. A search that its deadline stops has no
            result.

        Returns
        -------
        list of Record
            Failed records of the jobs whose search failed.
        """
        pool = pool or self.pool
        folds, choices = _missing_folds(
            jobs, self.store, self.plan.limit, force=self.force
        )
        self.choices.update(choices)
        self._compute(folds, pool)
        searched = []
        for job in jobs:
            if job.key in choices:
                continue
            # Only a deadline leaves folds without a record.
            if pool.deadline is None or all(
                self.store.has(fold.key) for fold in job.folds
            ):
                searched.append(job)
        return self._choose_all(searched)

    def finish_fit(self, job: Job, record: Record, scores: Any = None) -> Record:
        """Store the record of a fit that was computed in this process.

        A record that is stored already is kept and returned, because other tables may
        show its numbers.

        Parameters
        ----------
        job : Job
        record : Record
        scores : ndarray, optional
            Scores of the test rows, stored if the job keeps them.
        """
        stored = None if self.force else self.store.load(job.key)
        if stored is not None and stored.done:
            return stored
        record = self._complete(job, record, self.pool)
        if scores is not None and "predictions" in job.scoring.keep:
            self.store.save_scores(record, scores)
        self.store.save(record)
        return record

    def _compute(self, jobs: list[Job], pool: Pool) -> None:
        """Compute jobs, and failed ones again as often as `retries` allows."""
        while jobs:
            self._compute_once(jobs, pool)
            jobs = [job for job in jobs if self._may_retry(job)]
            for job in jobs:
                n_tries = self.tries[job.key]
                self.progress.message(
                    f"trying {self._name(job)} again: {n_tries} of {self.retries}"
                )

    def _may_retry(self, job: Job) -> bool:
        """Whether a job was computed here, failed, and may be computed again."""
        has_failed = self.computed.get(job.key) == FAILED
        return has_failed and 0 < self.tries[job.key] <= self.retries

    def _compute_once(self, jobs: list[Job], pool: Pool) -> None:
        """Compute jobs in batches. A batch starts when a worker is idle."""
        jobs_by_key = {job.key: job for job in jobs}
        batches = self._start_in_batches(jobs, pool)
        unfinished: list[Job] = []
        with contextlib.closing(pool.run(compute_jobs, batches)) as results:
            for keys, outcome in results:
                if outcome.status == OK:
                    job_outcomes = outcome.value
                elif len(keys) == 1:
                    job_outcomes = [outcome]
                else:
                    unfinished += [jobs_by_key[key] for key in keys]
                    continue
                for key, job_outcome in zip(keys, job_outcomes, strict=True):
                    # A job that the deadline of the pool has stopped did not fail.
                    if job_outcome.status != TIMEOUT or not pool.stop_at_deadline:
                        job = jobs_by_key[key]
                        self._finish(job, self._record(job, job_outcome, pool))
        if unfinished:
            # One job of each batch has killed its process. Batches of one job, which
            # follow an unknown duration, show which.
            self.tries.subtract(job.key for job in unfinished)
            self.last_seconds = math.inf
            self._compute_once(unfinished, pool)

    def _start_in_batches(self, jobs: list[Job], pool: Pool) -> Iterator[WorkItem]:
        """Yield batches of jobs with their selected parameters, until the deadline.

        They are read one by one, so that a job starts when a worker is idle. The tag of
        a batch is the list of its keys.
        """
        data_dir = None if self.plan.data_dir is None else str(self.plan.data_dir)
        dataset = None
        if pool.is_serial and pool.remaining_seconds() is None:
            # The jobs run in this process.
            dataset = self.plan.dataset

        def start_jobs() -> Iterator[tuple[Job, dict[str, Any] | None]]:
            for job in jobs:
                if pool.is_past_deadline:
                    return
                name = self._name(job)
                self.tries[job.key] += 1
                if job.timed and self.store.shared():
                    self.disturbed.add(job.key)
                try:
                    self.store.read(job.key)
                except ValueError as error:
                    self.progress.message(f"recomputing {name}: {error}")
                self.progress.begin(name)
                choice = self.choices.get(job.key, SearchResult())
                yield job, choice.chosen

        started = start_jobs()
        batch_size = self._batch_size(len(jobs), pool)
        while batch := list(islice(started, batch_size)):
            yield [job.key for job, _ in batch], (batch, data_dir, dataset)

    def _batch_size(self, n_jobs: int, pool: Pool) -> int:
        """Return how many jobs a worker receives at a time.

        Sending a small job takes longer than computing it.
        """
        is_parallel = pool.has_processes and not pool.is_serial
        if not is_parallel or pool.remaining_seconds() is not None:
            return 1
        n_batches = MIN_BATCHES_PER_WORKER * max(len(pool.workers), 1)
        n_in_time = int(BATCH_SECONDS / max(self.last_seconds, 1e-3))
        return max(1, min(math.ceil(n_jobs / n_batches), n_in_time))

    def _record(self, job: Job, outcome: Outcome, pool: Pool) -> Record:
        """Return the record of a job, and store its scores if there are any."""
        if outcome.status == OK:
            record, scores = outcome.value
            if scores is not None:
                # Stored before the record, so that a finished job has its scores.
                self.store.save_scores(record, scores)
        else:
            record = job.record(
                status=outcome.status, error=outcome.error, log=outcome.log
            )
            if outcome.status == TIMEOUT and self.plan.limit is not None:
                record.seconds = Seconds(limit=self.plan.limit)
        return self._complete(job, record, pool)

    def _complete(self, job: Job, record: Record, pool: Pool) -> Record:
        """Add the search to a record, and whether no other job ran at the same time."""
        if job.kind != JobKind.FOLD:
            is_undisturbed = job.key not in self.disturbed and not self.store.shared()
            record.environment["serial"] = pool.is_serial and is_undisturbed
        choice = self.choices.get(job.key)
        if choice is not None:
            record.selection = choice
            record.seconds.search = choice.seconds
        return record

    def _finish(self, job: Job, record: Record) -> None:
        """Store a record and report it."""
        self.store.save(record)
        seconds = record.seconds.total
        self.computed[job.key] = record.status
        self.last_seconds = math.inf if seconds is None else seconds
        self.progress.job(self._name(job), record.status, seconds, _note(record))
        if self._may_retry(job):
            return
        self.on_finished(record)
        if self.fail_fast and not is_settled(record, self.plan.limit):
            raise _FailFast

    def _choose_all(self, jobs: list[Job]) -> list[Record]:
        """Select the parameters of jobs from the records of their folds.

        Returns
        -------
        list of Record
            Failed records, which are stored, of the jobs whose search failed.
        """
        failed_records = []
        for job in jobs:
            record = self._choose(job)
            if record is not None:
                failed_records.append(record)
                self._finish(job, record)
        return failed_records

    def _choose(self, job: Job) -> Record | None:
        """Select the parameters of a job; return its failed record if that fails."""
        if job.search is None:
            return None
        records = []
        for fold in job.folds:
            record = self.store.load(fold.key)
            if record is None:
                continue
            if not record.done:
                error = f"selection: {record.error}"
                return job.record(status=FAILED, error=error, log=record.log)
            records.append(record)
        if len(records) < len(job.folds):
            error = "selection: its record cannot be read"
            return job.record(status=FAILED, error=error)
        n_candidates = len(candidates(job.search.grid))
        for record in records:
            if len(record.selection.scores) != n_candidates:
                raise DataError(
                    f"{self.store.path(record.key)}: holds the scores of another search",
                    AGAIN,
                )
        choice = choice_of(job, records)
        if choice.chosen is None:
            messages = [text for texts in choice.errors.values() for text in texts]
            reason = "the metric is undefined in every fold"
            if messages:
                reason = messages[0]
            return job.record(
                status=FAILED,
                error=f"selection: no candidate has a score: {reason}",
                log="\n".join(messages) or None,
                selection=choice,
            )
        self.choices[job.key] = choice
        return None

    def _name(self, job: Job) -> str:
        return self.plan.names.get(job.key, job.key[:16])

    def _count(self, summary: RunSummary) -> None:
        """Set the counts of a summary to the present state of the folders."""
        states = job_states(self.plan, self.store)
        for row, state in zip(self.plan.rows, states, strict=True):
            key = row.job.key
            if not row.wanted:
                continue
            if state.name == "done" and key in self.computed:
                summary.n_ok += 1
            elif state.name == "done":
                summary.n_cached += 1
            elif state.name == "failed" and key in self.computed:
                summary.n_failed += 1
                failure = self._failure(row.name, key, state.reason)
                summary.failures.append(failure)
            else:
                summary.n_left += 1

    def _failure(self, name: str, key: str, reason: str) -> Failure:
        file = self.store.path(key).relative_to(self.plan.output).as_posix()
        record = self.store.load(key)
        if record is None:
            return Failure(name, FAILED, reason, file)
        return Failure(name, record.status, record.error or "", file)


def _note(record: Record) -> str:
    """Return what the line of a finished job shows: an error, or some numbers."""
    if not record.done:
        return record.error or ""
    if record.family == JobKind.FOLD:
        return counted(len(record.selection.scores), "candidate")
    numbers = []
    for name, value in record.metrics.items():
        if value is not None and not math.isnan(value):
            numbers.append(f"{name} {value:.4g}")
    if record.seconds.fit is not None:
        numbers.append(f"fit {record.seconds.fit:.3g} s")
    if len(numbers) > MAX_SHOWN_METRICS:
        numbers = [*numbers[:MAX_SHOWN_METRICS], "..."]
    return ", ".join(numbers)


# ---------------------------------------------------------------- in a worker


def compute_jobs(
    jobs: Sequence[tuple[Job, dict[str, Any] | None]],
    data_dir: str | None,
    dataset: Dataset | None = None,
) -> list[Outcome]:
    """Compute jobs one after the other.

    Parameters
    ----------
    jobs : sequence of (Job, dict or None)
        Each job with the parameters that its search selected.
    data_dir : str or None
        Folder of the data sets.
    dataset : Dataset, optional
        Data set of all jobs, if it is in memory.
    """
    return [
        attempt(compute_job, job, best_params, data_dir, dataset)
        for job, best_params in jobs
    ]


def compute_job(
    job: Job,
    best_params: dict[str, Any] | None,
    data_dir: str | None,
    dataset: Dataset | None = None,
) -> tuple[Record, np.ndarray | None]:
    """Compute a job.

    Parameters
    ----------
    job : Job
    best_params : dict or None
        Parameters that the search of the job selected.
    data_dir : str or None
        Folder of the data sets.
    dataset : Dataset, optional
        Data set of the job, if it is in memory.

    Returns
    -------
    record : Record
    scores : ndarray or None
        Scores of the test rows, if the job keeps them.
    """
    data = dataset
    if data is None and job.dataset is not None:
        options = canonical_json(job.dataset.options)
        data = loaded(job.dataset.id, options, job.dataset.fingerprint, data_dir)
    # Imported here because it takes seconds: it loads scikit-learn.
    from mtlrun.engine.fit import fit_job, run_analysis, score_candidates

    if job.kind == JobKind.ANALYSIS:
        return run_analysis(job, data), None
    assert data is not None
    if job.kind == JobKind.FOLD:
        return score_candidates(job, data), None
    fitted = fit_job(job, data, best_params)
    if "predictions" in job.scoring.keep:
        return fitted.record, fitted.scores
    return fitted.record, None


@lru_cache(maxsize=2)
def loaded(name: str, options: str, fingerprint: str, data_dir: str | None) -> Dataset:
    """Return a data set, and keep it in memory until two others have been loaded.

    Parameters
    ----------
    name : str
    options : str
        Options of the data set as canonical JSON, which is hashable.
    fingerprint : str
        Fingerprint that the data had when the jobs were planned.
    data_dir : str or None

    Raises
    ------
    DataError
        If the data now have another fingerprint.
    """
    from mtlrun.data.sets.load import load_dataset

    dataset = load_dataset(name, data_dir=data_dir, **json.loads(options))
    if dataset.fingerprint != fingerprint:
        raise DataError(
            f"the files of {name} changed since the results were planned",
            "Run the command again.",
        )
    return dataset
