"""Metrics of predicted values: squared errors, alone or against a variance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mtlrun.metrics.inputs import Array, as_floats, per_task, task_codes, weighted_mean


def mse_per_task(
    targets: Any, values: Any, *, weights: Any = None, **layout: Any
) -> Array:
    """Mean squared error."""
    targets = as_floats(targets, "targets")
    values = as_floats(values, "predictions")
    is_flat = (
        isinstance(targets, np.ndarray)
        and isinstance(values, np.ndarray)
        and targets.ndim == 1
        and targets.shape == values.shape
    )
    if is_flat and weights is None:
        squares = (targets - values) ** 2
        # Missing targets are dropped, and infinite predictions reported, by the loop.
        if np.isfinite(squares).all():
            # Sums of all tasks at once are faster than a loop over tasks.
            codes, n_tasks = task_codes(len(squares), **layout)
            sizes = np.bincount(codes, minlength=n_tasks)
            sums = np.bincount(codes, squares, n_tasks)
            means = np.full(n_tasks, np.nan)
            return np.divide(sums, sizes, out=means, where=sizes > 0)
    return per_task(_mse, targets, values, weights=weights, **layout)


def rmse_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """Square root of the mean squared error."""
    return np.sqrt(mse_per_task(targets, values, **layout))


def nmse_per_task(
    targets: Any,
    values: Any,
    *,
    variance: ArrayLike | None = None,
    **layout: Any,
) -> Array:
    """Mean squared error over the variance of the task; NaN where the variance is 0.

    Parameters
    ----------
    variance : array-like of shape (n_tasks,) or scalar, optional
        For instance the variance in the training part. Default: the population variance
        of the targets.

    Examples
    --------
    >>> from mtlrun.metrics import nmse_per_task
    >>> y = [1.0, 3.0, 0.0, 4.0]
    >>> nmse_per_task(y, [2.0, 2.0, 1.0, 3.0], task_id=["a", "a", "b", "b"]).tolist()
    [1.0, 0.25]
    """
    targets = as_floats(targets, "targets")
    values = as_floats(values, "predictions")

    def nmse_of_task(y: Array, value: Array, weight: Array) -> float:
        variance = _variance(y, weight)
        if variance > 0:
            return _mse(y, value, weight) / variance
        return np.nan

    if variance is None:
        return per_task(nmse_of_task, targets, values, **layout)
    mse = mse_per_task(targets, values, **layout)
    variances = np.broadcast_to(np.asarray(variance, dtype=float), mse.shape)
    nmse = np.full(mse.shape, np.nan)
    return np.divide(mse, variances, out=nmse, where=variances > 0)


def r2_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """Coefficient of determination, 1 - NMSE; NaN for a task with constant targets."""
    return 1.0 - nmse_per_task(targets, values, **layout)


def explained_variance_per_task(targets: Any, values: Any, **layout: Any) -> Array:
    """1 - MSE over the variance of the targets of all tasks together.

    Averaged by rows (``how="sample"``) it is 1 - MSE / variance of the pooled rows, as
    results on the School data are reported.
    """
    targets = as_floats(targets, "targets")
    values = as_floats(values, "predictions")

    def target_mean(y: Array, value: Array, weight: Array) -> float:
        return float(np.average(y, weights=weight))

    def target_variance(y: Array, value: Array, weight: Array) -> float:
        return _variance(y, weight)

    sizes = per_task(total_weight, targets, values, **layout)
    means = per_task(target_mean, targets, values, **layout)
    variances = per_task(target_variance, targets, values, **layout)
    # The size of a task without rows is NaN.
    has_rows = sizes > 0
    if not has_rows.any():
        return sizes
    # Law of total variance: the variance between the means of the tasks, and the mean
    # of the variances within them.
    weights = sizes[has_rows]
    between = _variance(means[has_rows], weights)
    within = float(np.average(variances[has_rows], weights=weights))
    pooled = between + within
    return 1.0 - nmse_per_task(targets, values, variance=pooled, **layout)


# --- one task: 1-D arrays of the same length >= 1 ---


def total_weight(y: Array, value: Array, weight: Array) -> float:
    """Return the weight of a task: its number of rows where rows have no weights."""
    return float(weight.sum())


def _mse(y: Array, value: Array, weight: Array) -> float:
    return weighted_mean((y - value) ** 2, weight)


def _variance(y: Array, weight: Array) -> float:
    # The rounded mean of equal numbers may differ from them: their variance would be
    # positive but meaningless.
    if np.ptp(y) == 0:
        return 0.0
    mean = weighted_mean(y, weight)
    return weighted_mean((y - mean) ** 2, weight)
