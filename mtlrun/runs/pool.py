"""Pieces of work done one after the other, in parallel processes, on a cluster, or each within a time limit."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.record import FAILED, TIMEOUT
from mtlrun.runs.outcome import Outcome, Result, Unit, attempt, attempt_alone, in_flight


@dataclass(frozen=True)
class Pool:
    """How work is spread.

    Attributes
    ----------
    jobs : int or None
        Processes; -1 means all cores. None: one, or with ``backend="dask"`` all workers.
    backend : str or None
        Name of a joblib backend, default loky; or ``dask``: the workers of the cluster of `scheduler`, at most `jobs`
        of them at a time.
    scheduler : str or None
        Address for ``backend="dask"``; default a cluster of `jobs` processes on this machine.
    seconds : float or None
        Limit of one piece of work. It runs in a process of its own, which is killed at the limit, in compiled code too.
    until : float or None
        Time, of `time.monotonic`, at which nothing more is begun.
    stops : bool
        Whether what runs at that time is stopped, as at a limit.
    """

    jobs: int | None = None
    backend: str | None = None
    scheduler: str | None = None
    seconds: float | None = None
    until: float | None = None
    stops: bool = False

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1 and self.jobs != -1:
            raise ConfigError(f"--jobs {self.jobs}: at least one job is needed", "-1 means all cores.")
        if self.backend is not None and self.backend != "dask":
            from joblib.parallel import BACKENDS, EXTERNAL_BACKENDS

            if self.backend not in BACKENDS | EXTERNAL_BACKENDS:
                raise UnknownNameError("backend", self.backend, {"dask", *BACKENDS, *EXTERNAL_BACKENDS})
        if self.scheduler and self.backend != "dask":
            raise ConfigError("--scheduler needs --backend dask")
        if self.seconds and self.backend not in (None, "loky"):
            raise ConfigError(f"limits.seconds cannot be kept with --backend {self.backend}", "Use local processes.")

    @property
    def serial(self) -> bool:
        """Whether one piece of work runs after the other."""
        return self.jobs in (None, 1) and self.backend is None

    @property
    def late(self) -> bool:
        """Whether nothing more is begun."""
        return self.until is not None and time.monotonic() >= self.until

    def left(self) -> float | None:
        """Return the seconds that a piece of work which begins now may take."""
        if not self.stops or self.until is None:
            return self.seconds
        left = max(self.until - time.monotonic(), 0.0)
        return left if self.seconds is None else min(left, self.seconds)

    def run(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        """Yield (tag, Outcome) for every (tag, arguments), as they are finished.

        Parameters
        ----------
        function : callable
            Defined at the top of a module, so that other processes can import it.
        units : iterable
            Taken from one by one, while earlier ones run.
        """
        if self.left() is not None:
            yield from self._limited(function, units)
        elif self.serial:
            yield from ((tag, attempt(function, *arguments)) for tag, arguments in units)
        elif self.backend == "dask":
            from mtlrun.runs.cluster import run_on_dask

            yield from run_on_dask(function, units, self.scheduler, self.jobs)
        else:
            yield from self._parallel(function, units)

    def _limited(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

        from joblib import effective_n_jobs

        workers = [_Worker(self.left) for _ in range(effective_n_jobs(self.jobs or 1))]
        free = list(workers)
        work = (attempt,) if len(workers) == 1 else (attempt_alone, len(workers))

        def call(arguments: tuple[Any, ...]) -> Outcome:
            worker = free.pop()  # there are as many threads as workers
            try:
                return worker.call(*work, function, *arguments)
            finally:
                free.append(worker)

        def first(flying: Iterable[Future[Outcome]]) -> Iterable[tuple[Future[Outcome], Outcome]]:
            return [(future, future.result()) for future in wait(flying, return_when=FIRST_COMPLETED).done]

        def end(_: Iterable[Future[Outcome]]) -> None:
            for worker in workers:
                worker.end()

        with ThreadPoolExecutor(len(workers)) as threads:
            submit = lambda unit: threads.submit(call, unit[1])  # noqa: E731
            for unit, _, outcome in in_flight(iter(units), lambda: len(workers), submit, first, end):
                yield unit[0], outcome

    def _parallel(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        from joblib import Parallel, delayed, effective_n_jobs, parallel_config
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        waiting = iter(units)
        flying: dict[Any, None] = {}

        def tasks() -> Iterator[Any]:
            for tag, arguments in waiting:
                flying[tag] = None
                yield delayed(_tagged)(tag, function, arguments, parent, processes)

        parent = os.getpid() if self.backend in (None, "loky", "multiprocessing") else None
        # Threads are one process: what is set for one of them would hold for all.
        processes = effective_n_jobs(self.jobs or 1) if parent is not None else 1
        local = {"inner_max_num_threads": 1} if self.backend in (None, "loky") else {}
        with parallel_config(backend=self.backend or "loky", n_jobs=self.jobs or 1, **local):
            while True:
                try:
                    parallel = Parallel(return_as="generator_unordered", batch_size=1)
                    with _closing(parallel(tasks())) as results:
                        for tag, outcome in results:
                            flying.pop(tag, None)
                            yield tag, outcome
                    return
                except TerminatedWorkerError:
                    # One process died and took the others' work in flight with it; the rest goes on in a new pool.
                    lost, died = list(flying), "a worker process died (out of memory?)"
                    flying.clear()
                    yield from ((tag, Outcome(FAILED, error=died)) for tag in lost)


class _Worker:
    """A process that does one piece of work at a time and is killed when one takes too long."""

    def __init__(self, left: Callable[[], float | None]) -> None:
        self.left = left
        self.executor: Any = None
        self.ended = False

    def call(self, work: Callable[..., Outcome], *arguments: Any) -> Outcome:
        from concurrent.futures import BrokenExecutor

        try:
            executor = self._start()
            if self.ended:  # meanwhile
                self.stop()
            started = time.perf_counter()
            limit = self.left()
            return executor.submit(work, *arguments).result(timeout=limit)
        except TimeoutError:
            self.stop()
            spent = time.perf_counter() - started
            return Outcome(TIMEOUT, error=f"stopped after {spent:.0f} s (limits.seconds: {limit or 0:g})")
        except BrokenExecutor as error:
            self.stop()
            return Outcome(FAILED, error=f"the worker process died: {error}"[:200])

    def stop(self) -> None:
        executor, self.executor = self.executor, None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)

    def end(self) -> None:
        """Stop for good, whatever the thread that calls is doing."""
        self.ended = True
        self.stop()

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        if self.executor is None:
            self.executor = ProcessPoolExecutor(max_workers=1)
            # Starting and importing count for nobody's limit.
            self.executor.submit(_prepare, os.getpid()).result()
        return self.executor


def _tagged(
    tag: Any, function: Callable[..., Any], arguments: tuple[Any, ...], parent: int | None, processes: int
) -> Result:
    if parent is not None:
        end_with(parent)
    return tag, attempt_alone(processes, function, *arguments)


@cache
def end_with(parent: int) -> None:
    """End this process when its parent is gone, which cannot stop it any more when it was killed.

    A thread looks every second. Linux could send a signal instead (PR_SET_PDEATHSIG), but it counts the end of the
    thread that started the process as the death of the parent.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _prepare(parent: int) -> None:
    end_with(parent)
    import mtlrun.runs.fit
    import mtlrun.runs.measure  # noqa: F401


@contextlib.contextmanager
def _closing(results: Any) -> Iterator[Any]:
    """Stop the work when nobody waits for it any more, without joblib's warning that it was not used."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()
