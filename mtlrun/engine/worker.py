"""Worker processes on this machine: started early, limited in time, never orphaned."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from mtlrun.engine.outcome import Outcome
from mtlrun.engine.record import FAILED, TIMEOUT
from mtlrun.utils.plugins import pathless

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mtlrun.engine.pool import Pool

#: A worker process that has grown by more bytes than this is replaced.
WORKER_MAX_GROWTH_BYTES = 1 << 30
#: Longest error message about a dead worker.
MAX_MESSAGE_LENGTH = 200
#: Held while the environment of this process is changed to start a worker.
_ENVIRONMENT_LOCK = threading.Lock()


class Worker:
    """A process that runs one work item at a time and is killed at its time limit.

    The process starts with the first item, or earlier with `fork` or `start`. After it
    was killed, or died, the next item starts a new one.
    """

    def __init__(self) -> None:
        # A ProcessPoolExecutor of loky, which has no type annotations.
        self._executor: Any = None
        self._ready: Future[int] | None = None
        self._has_ended = False

    @property
    def is_starting(self) -> bool:
        """Whether the process has been started and is not ready yet."""
        return self._ready is not None and not self._ready.done()

    def call(
        self, pool: Pool, function: Callable[..., Outcome], *arguments: object
    ) -> Outcome:
        """Run a work item within the time that the pool leaves it.

        The time limit of the item begins when the process is ready: only the end of the
        pool's time limits how long the process may take to start.
        """
        from concurrent.futures import BrokenExecutor

        start_time = time.perf_counter()
        limit = None
        try:
            executor = self._wait_until_ready(
                pool.without_item_limit().remaining_seconds()
            )
            if self._has_ended:
                # Another thread ended this worker while the process started.
                self.kill()
            start_time = time.perf_counter()
            limit = pool.remaining_seconds()
            if limit is not None and limit <= 0:
                raise TimeoutError
            return executor.submit(function, *arguments).result(timeout=limit)
        except TimeoutError:
            self.kill()
            elapsed_seconds = time.perf_counter() - start_time
            error_message = f"stopped after {elapsed_seconds:.0f} s (limits.seconds: {limit or 0:g})"
            return Outcome(TIMEOUT, error=error_message)
        except BrokenExecutor as error:
            self.kill()
            error_message = f"the worker process died (out of memory?): {error}"
            return Outcome(FAILED, error=error_message[:MAX_MESSAGE_LENGTH])

    def kill(self) -> None:
        """Kill the process."""
        executor = self._executor
        self._executor = None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)

    def close(self) -> None:
        """Kill the process for good, even while a thread waits for an item."""
        self._has_ended = True
        self.kill()

    def start(self) -> None:
        """Start the process without waiting for it."""
        if self._executor is None:
            self._executor = _create_executor()
            self._ready = None
        if self._ready is None:
            with _pathless_environment():
                self._ready = self._executor.submit(os.getpid)

    def fork(self) -> None:
        """Start the process as a copy of this one, which saves it all imports.

        Processes that replace it later are started afresh.
        """
        self._executor = _create_executor()
        self._ready = None
        # loky has no public way to fork only the first process: its context is
        # replaced for one call (as of loky 3.6; tests/engine/test_pool.py fails if this
        # ceases to work).
        default_context = self._executor._context
        self._executor._context = get_context("fork")
        try:
            with warnings.catch_warnings():
                # Python warns of other threads. These are threads of BLAS, which pause
                # while a process is copied.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._executor._adjust_process_count()
        finally:
            self._executor._context = default_context

    def _wait_until_ready(self, timeout: float | None) -> Any:
        """Return the executor of a running process, which starts if necessary."""
        self.start()
        assert self._ready is not None
        self._ready.result(timeout=timeout)
        return self._executor


def can_fork() -> bool:
    """Return whether workers can be copies of this process.

    They can on Linux, unless another thread might hold a lock.
    """
    return sys.platform == "linux" and threading.active_count() == 1


def _create_executor() -> Any:
    """Return an executor of one process, which has not been started."""
    from joblib.externals.loky import ProcessPoolExecutor

    # Replacing a process that has grown is harmless, but loky warns of it.
    warnings.filterwarnings(
        "ignore", "A worker stopped while some jobs were given", UserWarning
    )
    with _pathless_environment():
        return ProcessPoolExecutor(
            max_workers=1, initializer=_prepare, initargs=(os.getpid(),), env=pathless()
        )


@contextlib.contextmanager
def _pathless_environment() -> Iterator[None]:
    """Keep the current folder off the import path of the processes that start.

    loky starts a helper process beside the workers, which only inherits the
    environment of this process.
    """
    changes = pathless()
    with _ENVIRONMENT_LOCK:
        previous = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        try:
            yield
        finally:
            for name, value in previous.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value


@cache
def end_with(parent_pid: int) -> None:
    """End this process when its parent has died.

    A killed parent cannot end its children, so a thread looks for the parent every
    second. A signal of Linux (PR_SET_PDEATHSIG) is no substitute: it is also sent when
    only the thread that started this process ends.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _prepare(parent_pid: int) -> None:
    """Initialize a worker process: limits, signals, and the imports of all jobs."""
    from joblib.externals.loky import process_executor

    # By default, loky replaces a process that has grown by 100 MB since its first
    # item. Compiled code alone takes as much.
    process_executor._MAX_MEMORY_LEAK_SIZE = WORKER_MAX_GROWTH_BYTES
    # A forked process inherits the handlers of the command, which raise an exception.
    # Windows has no SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, signal.SIGTERM)
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    end_with(parent_pid)
    import mtlrun.data.load
    import mtlrun.engine.fit  # noqa: F401
