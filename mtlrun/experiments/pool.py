"""Pieces of work done one after the other, in parallel processes, on a cluster, or each within a time limit."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mtlrun.core.errors import ConfigError, UnknownNameError
from mtlrun.core.records import DIVERGED, FAILED, OK, TIMEOUT

Unit = tuple[Any, tuple[Any, ...]]
Result = tuple[Any, "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What became of a piece of work.

    Attributes
    ----------
    status : str
        ok, failed, diverged or timeout.
    value : object
        What the function returned, None unless ok.
    error : str or None
        One line.
    log : str or None
        Traceback, without the folders of this machine.
    """

    status: str
    value: Any = None
    error: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class Pool:
    """How work is spread.

    Attributes
    ----------
    jobs : int
        Processes; -1 means all cores.
    backend : str or None
        Name of a joblib backend, default loky; or ``dask``: the workers of the cluster of `scheduler`, however many.
    scheduler : str or None
        Address for ``backend="dask"``; default a cluster of processes on this machine.
    seconds : float or None
        Limit of one piece of work. It runs in a process of its own, which is killed at the limit, in compiled code too.
    """

    jobs: int = 1
    backend: str | None = None
    scheduler: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1 and self.jobs != -1:
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
        return self.jobs == 1 and self.backend is None

    def run(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        """Yield (tag, Outcome) for every (tag, arguments), as they are finished.

        Parameters
        ----------
        function : callable
            Defined at the top of a module, so that other processes can import it.
        units : iterable
            Taken from one by one, while earlier ones run.
        """
        if self.seconds:
            yield from self._limited(function, units)
        elif self.serial:
            yield from ((tag, attempt(function, *arguments)) for tag, arguments in units)
        elif self.backend == "dask":
            from mtlrun.experiments.cluster import run_on_dask

            yield from run_on_dask(function, units, self.scheduler)
        else:
            yield from self._parallel(function, units)

    def _limited(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        from joblib import Parallel, delayed, effective_n_jobs

        workers = threading.local()
        made: list[_Worker] = []

        def call(tag: Any, arguments: tuple[Any, ...]) -> Result:
            if not hasattr(workers, "mine"):
                workers.mine = _Worker(float(self.seconds or 0))
                made.append(workers.mine)
            return tag, workers.mine.call(function, arguments)

        try:
            n_jobs = effective_n_jobs(self.jobs)
            parallel = Parallel(n_jobs, backend="threading", pre_dispatch=n_jobs, return_as="generator_unordered")
            with _closing(parallel(delayed(call)(tag, arguments) for tag, arguments in units)) as results:
                yield from results
        finally:
            for worker in made:
                worker.stop()

    def _parallel(self, function: Callable[..., Any], units: Iterable[Unit]) -> Generator[Result, None, None]:
        from joblib import Parallel, delayed, parallel_config
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        waiting = iter(units)
        flying: dict[Any, None] = {}

        def tasks() -> Iterator[Any]:
            for tag, arguments in waiting:
                flying[tag] = None
                yield delayed(_tagged)(tag, function, arguments)

        local = {"inner_max_num_threads": 1} if self.backend in (None, "loky") else {}
        with parallel_config(backend=self.backend or "loky", n_jobs=self.jobs, **local):
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


def attempt(function: Callable[..., Any], *arguments: Any) -> Outcome:
    """Call a function; an exception becomes the outcome."""
    try:
        return Outcome(OK, function(*arguments))
    except Exception as error:  # the point of this function: a failure is a row of the table, not the end of the run
        status = DIVERGED if type(error).__name__ == "Diverged" else FAILED
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(status, error=text[:200], log=_without_folders("".join(traceback.format_exception(error))))


class _Worker:
    """A process that does one piece of work at a time and is killed when one takes too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.executor: Any = None

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
        from concurrent.futures import BrokenExecutor

        started = time.perf_counter()
        try:
            return self._start().submit(attempt, function, *arguments).result(timeout=self.seconds)
        except TimeoutError:
            self.stop()
            spent = time.perf_counter() - started
            return Outcome(TIMEOUT, error=f"stopped after {spent:.0f} s (limits.seconds: {self.seconds:g})")
        except BrokenExecutor as error:
            self.stop()
            return Outcome(FAILED, error=f"the worker process died: {error}"[:200])

    def stop(self) -> None:
        if self.executor is not None:
            self.executor.shutdown(wait=True, kill_workers=True)
            self.executor = None

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        if self.executor is None:
            self.executor = ProcessPoolExecutor(max_workers=1)
            # Starting and importing count for nobody's limit.
            self.executor.submit(_import_all).result()
        return self.executor


def _tagged(tag: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Result:
    from joblib import parallel_config

    with parallel_config(backend="sequential"):  # all processes are busy with other units: no parallel work inside
        return tag, attempt(function, *arguments)


def _import_all() -> None:
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


def _without_folders(text: str) -> str:
    for folder in sorted({p for p in sys.path if p}, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text
