"""Seconds that can be compared: one untimed fit first, fixed threads, several repeats, the median."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

#: What was fitted in this process before: compiled code, thread pools and caches of the libraries are then warm.
_warm: set[str] = set()


@dataclass(frozen=True)
class TimedFit:
    """A fitted estimator and what fitting took.

    Attributes
    ----------
    estimator : object
        Of the repeat nearest to the median.
    seconds : list of float
        All repeats, in order.
    warnings : list of str
        Of that repeat.
    """

    estimator: Any
    seconds: list[float]
    warnings: list[str]

    @property
    def median(self) -> float:
        """Seconds that count."""
        return statistics.median(self.seconds)


def timed_fit(make: Callable[[], Any], fit: Callable[[Any], Any], *, repeats: int, warmup: bool, what: str) -> TimedFit:
    """Fit several times and take the time.

    Parameters
    ----------
    make : callable
        Returns a new estimator.
    fit : callable
        Fits it on data that lie ready, and returns it.
    repeats : int
    warmup : bool
        Fit once before, untimed, unless `what` was fitted in this process before.
    what : str
        Names the code that runs: method and kind of data.

    Raises
    ------
    Exception
        Whatever fitting raises.
    """
    from mtlrun.experiments.trial import noted_warnings

    if warmup and what not in _warm:
        with noted_warnings():
            fit(make())
    _warm.add(what)
    runs = []
    for _ in range(repeats):
        estimator = make()
        with noted_warnings() as texts, _no_collection():
            started = time.perf_counter()
            estimator = fit(estimator)
            seconds = time.perf_counter() - started
        runs.append((seconds, estimator, texts))
    middle = sorted(range(repeats), key=lambda i: runs[i][0])[(repeats - 1) // 2]
    return TimedFit(runs[middle][1], [seconds for seconds, _, _ in runs], runs[middle][2])


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from running in between, as `timeit` does."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
