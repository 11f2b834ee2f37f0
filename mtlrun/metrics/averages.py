"""Averages of a metric over tasks, and of losses over rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike


def average(
    values: ArrayLike,
    sizes: ArrayLike | None = None,
    how: Literal["task", "sample"] = "task",
) -> tuple[float, int]:
    """Average over the tasks for which the metric is defined.

    Parameters
    ----------
    values : array-like of shape (n_tasks,)
    sizes : array-like of shape (n_tasks,), optional
        Rows per task, or their weights; needed by ``how="sample"``.
    how : {"task", "sample"}
        Every task counts the same, or as much as it has rows.

    Returns
    -------
    mean : float
        NaN when no task is defined.
    n_undefined : int
        Number of tasks left out.
    """
    array = np.asarray(values, dtype=float)
    is_defined = ~np.isnan(array)
    n_undefined = int((~is_defined).sum())
    if how not in ("task", "sample"):
        raise ValueError(f"how must be 'task' or 'sample', got {how!r}")
    if how == "sample" and sizes is None:
        raise ValueError("how='sample' needs the sizes of the tasks")
    if how == "task":
        weight = np.ones(array.shape)
    else:
        weight = np.asarray(sizes, dtype=float)
    if weight.shape != array.shape:
        raise ValueError(f"sizes must have shape {array.shape}, got {weight.shape}")
    total = weight[is_defined].sum()
    if total > 0:
        mean = float(weight[is_defined] @ array[is_defined] / total)
    else:
        mean = np.nan
    return mean, n_undefined


def weighted_mean(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the mean of values, such as losses, with the weights of their rows."""
    return float(weight @ values / weight.sum())
