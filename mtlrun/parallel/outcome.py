"""Call functions so that a failure is a result, one at a time or several at once.

A work item is a tag, which identifies it, and the arguments of a function. The function
is called by `attempt`, which turns an exception into an `Outcome`. `run_concurrently`
keeps a number of items running; where each of them runs (a process, a thread, a worker
of a Dask cluster) is up to the callable that it receives.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from mtlrun.errors import one_line
from mtlrun.parallel.status import DIVERGED, FAILED, OK
from mtlrun.problem.memory import shared_by

#: A tag, and the arguments of the function.
WorkItem = tuple[Any, tuple[Any, ...]]
#: The tag of a work item, and its outcome.
Result = tuple[Any, "Outcome"]
#: Largest number of work items that run or wait at the same time.
MAX_PENDING_ITEMS = 1000


@dataclass(frozen=True)
class Outcome:
    """Outcome of a work item.

    Attributes
    ----------
    status : str
        ok, failed, diverged or timeout.
    value : object
        Return value of the function; None unless the status is ok.
    error : str or None
        Error message, one line.
    log : str or None
        Traceback with relative paths.
    """

    status: str
    value: Any = None
    error: str | None = None
    log: str | None = None


def attempt(function: Callable[..., Any], *arguments: object) -> Outcome:
    """Call a function and return its outcome, also if it raises an exception."""
    try:
        return Outcome(OK, function(*arguments))
    except Exception as error:
        # Any exception is caught: a failure is a row of the table, not the end of the
        # run. The class is recognized by its name, because importing its module loads
        # scikit-learn.
        has_diverged = type(error).__name__ == "Diverged"
        log = "".join(traceback.format_exception(error))
        # Make paths relative to the current folder or the import path.
        folders = {os.getcwd(), *filter(None, sys.path)}
        for folder in sorted(folders, key=len, reverse=True):
            log = log.replace(f"{folder}/", "")
        return Outcome(
            status=DIVERGED if has_diverged else FAILED,
            error=one_line(error),
            log=log,
        )


def attempt_in_worker(
    n_workers: int, function: Callable[..., Any], *arguments: object
) -> Outcome:
    """Call a function in one of `n_workers` busy workers and return its outcome.

    The function may use its share of the memory, and starts no processes itself.
    """
    from joblib import parallel_config

    with parallel_config(backend="sequential"), shared_by(n_workers):
        return attempt(function, *arguments)


def seconds_left(deadline: float | None, limit: float | None = None) -> float | None:
    """Return the seconds until a deadline, at most `limit`; None: no bound.

    Parameters
    ----------
    deadline : float or None
        Time of `time.monotonic`.
    limit : float, optional
    """
    if deadline is None:
        return limit
    seconds_until_end = max(deadline - time.monotonic(), 0.0)
    if limit is None:
        return seconds_until_end
    return min(seconds_until_end, limit)


def run_concurrently(
    items: Iterable[WorkItem],
    call: Callable[[tuple[Any, ...]], Outcome],
    max_running: Callable[[], int],
    cancel: Callable[[], object],
) -> Generator[tuple[WorkItem, Outcome], None, None]:
    """Run several items at a time; yield each with its outcome when it has finished.

    Parameters
    ----------
    items : iterable
        Read when an item can start. If several may run at a time, the next one starts
        before the caller receives an outcome, so that no worker waits for the caller.
        Otherwise it starts when the caller asks for the next outcome.
    call : callable
        Runs an item, given its arguments, and waits for the outcome in a thread.
    max_running : callable
        Returns the number of items that may run at present.
    cancel : callable
        Stops all running calls. Called if the generator is closed while items run, for
        example after an interrupt, so that no thread has to wait for them.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

    remaining = iter(items)
    running: dict[Future[Outcome], WorkItem] = {}

    def start_items() -> None:
        while len(running) < max(1, max_running()):
            item = next(remaining, None)
            if item is None:
                return
            _, arguments = item
            running[threads.submit(call, arguments)] = item

    with ThreadPoolExecutor(MAX_PENDING_ITEMS) as threads:
        try:
            start_items()
            while running:
                finished = wait(running, return_when=FIRST_COMPLETED).done
                for future in finished:
                    item = running.pop(future)
                    if max_running() > 1:
                        start_items()
                    yield item, future.result()
                start_items()
        finally:
            if running:
                cancel()
