"""The pool: where work items run, how many at a time, and how long each may take.

It runs them in this process, in worker processes (`mtlrun.parallel.worker`), in threads,
or on a Dask cluster (`mtlrun.parallel.cluster`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.parallel.cluster import run_on_dask
from mtlrun.parallel.outcome import (
    MAX_PENDING_ITEMS,
    Outcome,
    Result,
    WorkItem,
    attempt,
    attempt_in_worker,
    run_concurrently,
    seconds_left,
)
from mtlrun.parallel.worker import Worker, close_workers, create_workers
from mtlrun.problem.memory import free_bytes

BACKENDS = ("processes", "threading", "dask")
#: Memory of a worker process that has not loaded any data.
WORKER_BASE_BYTES = 300 << 20


@dataclass(frozen=True)
class Pool:
    """Where work items run, and how long.

    Attributes
    ----------
    n_jobs : int or None
        Number of processes; -1 means all cores. None means one process, or with
        ``backend="dask"`` all workers.
    backend : str or None
        ``processes`` (the default), ``threading``, or ``dask``: the workers of the
        cluster of `scheduler`, at most `n_jobs` of them at a time.
    scheduler : str or None
        Address for ``backend="dask"``; by default a cluster of `n_jobs` processes is
        started on this machine.
    seconds : float or None
        Time limit of one item. The item runs in a separate process, which is killed at
        the limit, even within compiled code.
    deadline : float or None
        Time of `time.monotonic` from which on no item starts.
    stop_at_deadline : bool
        Whether items that still run at that time are stopped, as at a limit.
    workers : tuple of Worker
        Processes that several runs share, see `keep_workers`.
    """

    n_jobs: int | None = None
    backend: str | None = None
    scheduler: str | None = None
    seconds: float | None = None
    deadline: float | None = None
    stop_at_deadline: bool = False
    workers: tuple[Worker, ...] = ()

    def __post_init__(self) -> None:
        if self.n_jobs is not None and self.n_jobs < 1 and self.n_jobs != -1:
            raise ConfigError(
                f"--jobs must be at least 1, not {self.n_jobs}", "Use -1 for all cores."
            )
        if self.backend not in (None, *BACKENDS):
            raise UnknownNameError("backend", str(self.backend), BACKENDS)
        if self.scheduler and self.backend != "dask":
            raise ConfigError("--scheduler needs --backend dask")
        if self.seconds and not self.has_processes:
            raise ConfigError(
                f"limits.seconds does not work with --backend {self.backend}",
                "Leave out --backend.",
            )

    @property
    def is_serial(self) -> bool:
        """Whether items run one after the other."""
        return self.n_jobs in (None, 1) and self.backend is None

    @property
    def has_processes(self) -> bool:
        """Whether items run in worker processes of this machine, if not one by one."""
        return self.backend in (None, "processes")

    @property
    def has_started(self) -> bool:
        """Whether all shared processes that have been started are ready."""
        return not any(worker.is_starting for worker in self.workers)

    @property
    def is_past_deadline(self) -> bool:
        """Whether the time is over at which items may start."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def remaining_seconds(self) -> float | None:
        """Return the seconds that an item may take if it starts now; None: no limit."""
        return seconds_left(self._end, self.seconds)

    @property
    def _end(self) -> float | None:
        """Time of `time.monotonic` at which running items are stopped."""
        return self.deadline if self.stop_at_deadline else None

    @contextlib.contextmanager
    def keep_workers(self, max_workers: int | None = None) -> Iterator[Pool]:
        """Yield this pool with processes that several runs share, if it needs any.

        Starting a process takes seconds.

        Parameters
        ----------
        max_workers : int, optional
            Largest number of processes that can be of use.
        """
        if self.is_serial and self.remaining_seconds() is None:
            # All items run in this process.
            yield self
            return
        workers = self._new_workers(max_workers)
        # A deadline alone does not start the process of a serial pool: its first items
        # may run without the deadline, in this process.
        is_needed_now = not self.is_serial or self.seconds is not None
        if self.has_processes and is_needed_now and not self.is_past_deadline:
            for worker in workers:
                worker.start()
        try:
            yield replace(self, workers=workers)
        finally:
            close_workers(workers)

    def _new_workers(self, max_workers: int | None = None) -> tuple[Worker, ...]:
        """Return workers whose processes start when they are needed.

        There are no more of them than items, cores and memory allow. Even one core has
        two workers, because one of them may wait for the disk.
        """
        from joblib import cpu_count, effective_n_jobs

        limits = [
            effective_n_jobs(self.n_jobs or 1),
            max(cpu_count(), 2),
            int(min(free_bytes() / WORKER_BASE_BYTES, MAX_PENDING_ITEMS)),
            MAX_PENDING_ITEMS if max_workers is None else max_workers,
        ]
        n_workers = max(min(limits), 1)
        return create_workers(n_workers)

    def run(
        self, function: Callable[..., Any], items: Iterable[WorkItem]
    ) -> Generator[Result, None, None]:
        """Run work items; yield (tag, Outcome) of each when it has finished.

        Parameters
        ----------
        function : callable
            Defined at the top level of a module, so that other processes can import it.
        items : iterable of (tag, arguments)
            Read one by one, while earlier items run.
        """
        if self.backend == "dask":
            yield from run_on_dask(function, items, self.scheduler, self.n_jobs)
            return
        if self.is_serial and self.remaining_seconds() is None:
            for tag, arguments in items:
                yield tag, attempt(function, *arguments)
            return
        workers = self.workers or self._new_workers()
        n_workers = len(workers)
        idle_workers = list(workers)

        def call_in_thread(arguments: tuple[Any, ...]) -> Outcome:
            # Threads share one process: a share of the memory that is set for one of
            # them would hold for all.
            return attempt_in_worker(1, function, *arguments)

        def call_in_process(arguments: tuple[Any, ...]) -> Outcome:
            # A worker is always idle here: no more items run than there are workers.
            worker = idle_workers.pop()
            try:
                call: Callable[..., Outcome] = attempt
                if n_workers > 1:
                    call = partial(attempt_in_worker, n_workers)
                return worker.call(
                    call,
                    function,
                    *arguments,
                    deadline=self._end,
                    limit=self.seconds,
                )
            finally:
                idle_workers.append(worker)

        cancel = partial(close_workers, workers)
        call = call_in_thread if self.backend == "threading" else call_in_process
        try:
            outcomes = run_concurrently(items, call, lambda: n_workers, cancel)
            for (tag, _), outcome in outcomes:
                yield tag, outcome
        finally:
            if not self.workers:
                close_workers(workers)
