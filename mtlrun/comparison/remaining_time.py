"""Estimates of the time that a comparison takes.

`usual_seconds` are rough times of methods on tables of this size. Once some methods are
finished, `remaining_seconds` corrects them by the speed of this computer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from mtlrun.comparison.candidates import (
    POOLED_TREES,
    SINGLE_KERNEL_RIDGE,
    SINGLE_TREES,
    Candidate,
    is_smooth,
)
from mtlrun.comparison.evaluation import ComparedMethod
from mtlrun.comparison.verdict import NATIVE, POOLED, TRIVIAL
from mtlrun.data.dataset import Dataset
from mtlrun.tables.report_table import duration

#: A fit of a convex model to labels takes this many times as long as one to numbers.
LABELS_FACTOR = 10.0
#: Models with two penalties take about half as long again.
TWO_PENALTIES = ("Dirty", "SparseLowRank", "Robust")
#: The remaining time is estimated once the finished methods usually take this share of
#: the time of all methods. The first one takes 2 ms, and the program starts meanwhile.
MIN_FINISHED_SHARE = 0.02


@dataclass(frozen=True)
class BoardProgress:
    """How far a comparison is.

    Attributes
    ----------
    n_done, n_jobs : int
        Methods times splits: finished ones, and all.
    elapsed_seconds : float
    remaining_seconds : float or None
        None while too little is known.
    running : str
        Method that is being computed.
    """

    n_done: int
    n_jobs: int
    elapsed_seconds: float
    remaining_seconds: float | None
    running: str

    @property
    def text(self) -> str:
        """One line: ``12 of 60 fits done (20%), about 40 s left, now GraphMTL``."""
        percent = f"{self.n_done / self.n_jobs:.0%}"
        text = f"{self.n_done} of {self.n_jobs} fits done ({percent})"
        if self.n_done == self.n_jobs:
            return text
        time = f"after {_whole_seconds(self.elapsed_seconds)}"
        if self.remaining_seconds is not None:
            time = f"about {_whole_seconds(self.remaining_seconds)} left"
        return f"{text}, {time}, now {self.running}"


def _whole_seconds(seconds: float) -> str:
    """Return a time like `duration`, without fractions of seconds."""
    if seconds < 120:
        return f"{math.ceil(seconds)} s"
    return duration(seconds)


def usual_seconds(
    candidates: Iterable[Candidate], dataset: Dataset, folds: int, train: float
) -> dict[str, float]:
    """Return the usual time of methods for a split with its search, on one core.

    Parameters
    ----------
    candidates : iterable of Candidate
    dataset : Dataset
    folds : int
        Number of folds of a search.
    train : float
        Share of the rows that is trained on.

    Returns
    -------
    dict
        Label -> seconds, as measured on three tables of 180 to 15,362 rows. Only their
        ratios are used.
    """
    seconds = {}
    for candidate in candidates:
        n_fits = 1
        if candidate.family not in (TRIVIAL, NATIVE):
            n_fits += _n_search_fits(candidate, folds)
        seconds[candidate.label] = n_fits * _fit_seconds(candidate, dataset, train)
    return seconds


def _n_search_fits(candidate: Candidate, folds: int) -> int:
    """Return the number of fits of a search, 1 per fold without a grid."""
    n_values = math.prod(map(len, candidate.grid.values()))
    if not candidate.halving:
        return folds * n_values
    return sum(math.ceil(n_values / 2**fold) for fold in range(folds))


def _fit_seconds(candidate: Candidate, dataset: Dataset, train: float) -> float:
    """Return the usual seconds of a fit to n rows, d features and T tasks."""
    label = candidate.label
    n, d = dataset.X.shape
    T = dataset.n_tasks
    # Targets, which are T times as many as the rows if tasks share their rows.
    rows = train * n
    if dataset.task_id is None:
        rows *= T
    slow = 1.0
    if dataset.task_type == "binary":
        slow = LABELS_FACTOR
    if candidate.family == TRIVIAL:
        return 2e-3
    if candidate.family == NATIVE:
        return 0.1 + 2e-6 * n * d
    if label == POOLED_TREES:
        return 0.02 + 4e-7 * rows * d
    if label == SINGLE_TREES:
        return 0.009 * T + 1e-7 * rows * d
    if label == SINGLE_KERNEL_RIDGE:
        return 5e-4 * T
    if is_smooth(label):
        return _smooth_seconds(label, dataset, rows, slow)
    if label.startswith("Hierarchical"):
        return slow * (0.015 + 1.5e-7 * T * min(d + 1.0, rows / T) ** 3)
    if label == "IndependentLasso":
        return T * (1e-4 + 1.2e-5 * d)
    if label.startswith("Independent"):
        seconds = 4e-4 if label.endswith("CV") else 1e-4
        return slow * seconds * T
    if candidate.family == POOLED:
        seconds = 1.5e-3 if label.endswith("+Task") else 2e-4
        return slow * seconds
    seconds = 1.5e-3 if label.startswith(TWO_PENALTIES) else 9e-4
    return slow * seconds * (1 + T * d / 900)


def _smooth_seconds(label: str, dataset: Dataset, rows: float, slow: float) -> float:
    """Return the usual seconds of a fit of a smooth model or one of its baselines."""
    n, d = dataset.X.shape
    T = dataset.n_tasks
    is_single = "Independent" in label
    if dataset.task_id is None:
        # Every target is fitted twice, with up to 300 features and curves.
        n_features = min(d, n) + 9 * d * (d <= 40) + 300
        n_forests = T if is_single else 1
        return n_forests * (0.3 + 4e-6 * n * d) + T * 1.5e-9 * n_features**3
    # Evaluations cost rows x features^2, and the variances need 4,000 rows at most.
    n_features = 9 * min(d, 40)
    n_features += 50 if is_single else 350
    return slow / 4 * (0.02 + 7e-9 * min(rows, 4000.0) * n_features**2)


def remaining_seconds(
    entries: Mapping[str, ComparedMethod],
    usual: Mapping[str, float],
    splits: int,
    elapsed: float,
    computed: float,
    min_share: float = MIN_FINISHED_SHARE,
) -> float | None:
    """Return the seconds until all splits of all methods are done.

    Parameters
    ----------
    entries : mapping of str to ComparedMethod
    usual : mapping of str to float
        From `usual_seconds`.
    splits : int
        Number of splits.
    elapsed : float
        Seconds since the start.
    computed : float
        Seconds of all processes, of the fits computed since then.
    min_share : float
        Share of the usual time of all methods that finished methods must usually take.

    Returns
    -------
    float or None
        None while too little is known.
    """
    mean_seconds = {
        label: fmean(entry.seconds) for label, entry in entries.items() if entry.seconds
    }
    expected = sum(usual.get(label, 0.0) for label in mean_seconds)
    if not expected or computed <= 0:
        return None
    if expected < min_share * sum(usual.values()):
        return None
    # This computer on these data, in comparison with the usual seconds.
    slowdown = sum(mean_seconds.values()) / expected
    work = 0.0
    for label, entry in entries.items():
        untested = entry.stopped.keys() - entry.scores.keys()
        n_done = len(entry.scores) + len(entry.failures) + len(untested)
        n_missing = splits - n_done
        work += n_missing * mean_seconds.get(label, slowdown * usual[label])
    # Processes work at the same time: `computed` seconds took `elapsed` seconds.
    return elapsed * work / computed
