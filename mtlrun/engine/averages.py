"""Averages of numbers, some of which may be missing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

#: The variance of a small task is shrunken towards the variance of the average task, as
#: if the task had this many more rows. `benchmarks/small_tasks.py` tries other numbers.
VARIANCE_SHRINKAGE_ROWS = 10


def shrunken_variances(variances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Shrink the variances of tasks in one unit towards their average.

    The variance of a task with n rows becomes ``(n v + k a) / (n + k)``, where a is the
    average variance of a row and k is `VARIANCE_SHRINKAGE_ROWS`. Errors of small tasks
    are divided by it: their own variance may be almost 0 by chance, and such a task
    would decide a comparison alone.

    Parameters
    ----------
    variances : ndarray of shape (n_tasks,)
        NaN or 0 for tasks without rows.
    sizes : ndarray of shape (n_tasks,)
        Rows of each task, or the sum of their weights.

    Returns
    -------
    ndarray of shape (n_tasks,)
    """
    total = sizes * np.nan_to_num(variances)
    average = total.sum() / sizes.sum()
    shrinkage = VARIANCE_SHRINKAGE_ROWS
    return np.asarray((total + shrinkage * average) / (sizes + shrinkage))


def std(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation; None for fewer than two values."""
    values = list(values)
    if len(values) < 2:
        return None
    return statistics.stdev(values)


def task_means(
    values_by_split: Sequence[Sequence[float | None]],
) -> list[float | None]:
    """Average the values of each task over the splits in which they are defined.

    Parameters
    ----------
    values_by_split : sequence of sequences
        By split, the values of all tasks; None or NaN if undefined.

    Returns
    -------
    list of float or None
        None for tasks without a defined value. Empty if the splits have different
        numbers of tasks.
    """
    n_tasks = {len(values) for values in values_by_split}
    if len(n_tasks) != 1:
        return []
    means: list[float | None] = []
    for task_values in zip(*values_by_split, strict=True):
        defined = []
        for value in task_values:
            if value is not None and not math.isnan(value):
                defined.append(value)
        means.append(fmean(defined) if defined else None)
    return means
