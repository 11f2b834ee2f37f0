"""Layouts of targets and predictions, and the loop over the tasks.

`mtlrun.metrics` describes the layouts. Here they become flat arrays with the rows of
each task one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.metrics.inputs import is_list_of_tasks

Array = np.ndarray
#: ``kernel(targets, predictions, weights)`` of one task. The arrays are 1-D, of the
#: same length >= 1, and without missing values.
Kernel = Callable[[Array, Array, Array], float]
#: Larger weights are divided by the largest one.
LARGE_WEIGHT = 1e100


def per_task(kernel: Kernel, targets: Any, predictions: Any, **layout: Any) -> Array:
    """Return the value of the kernel for each task, NaN for a task without rows.

    Raises
    ------
    ValueError
        If a prediction that counts is not finite, or arguments do not fit together.
    """
    y, predicted, weight, bounds = _sorted_rows(targets, predictions, **layout)
    is_counted = weight > 0
    if y.dtype.kind == "f":
        is_counted &= ~np.isnan(y)
    elif y.dtype.kind == "O":
        is_counted &= ~np.asarray(pd.isna(y))
    if not is_counted.all():
        n_counted_before = np.concatenate([[0], np.cumsum(is_counted)])
        bounds = n_counted_before[bounds]
        y = y[is_counted]
        predicted = predicted[is_counted]
        weight = weight[is_counted]
    # Only now: a row that does not count may have any prediction.
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        first_row = np.argmin(np.isfinite(predicted))
        # To the right of all equal bounds: earlier tasks without rows start there, too.
        task = np.searchsorted(bounds, first_row, side="right") - 1
        raise ValueError(
            f"predictions of task {task} are not finite: the model diverged"
        )
    values = []
    for start, stop in pairwise(bounds):
        value = np.nan
        if start < stop:
            value = kernel(y[start:stop], predicted[start:stop], weight[start:stop])
        values.append(value)
    return np.array(values, dtype=float)


def _sorted_rows(
    targets: Any,
    predictions: Any,
    *,
    weights: Any = None,
    offsets: Any = None,
    task_id: Any = None,
    tasks: Any = None,
) -> tuple[Array, Array, Array, Array]:
    """Return targets, predictions and weights sorted by task, and the bounds of tasks.

    The arrays are flat; bounds have shape (n_tasks + 1,).
    """
    if is_list_of_tasks(targets):
        if weights is None:
            weights = [np.ones(len(y)) for y in targets]
        sizes = _lengths(targets)
        if _lengths(predictions) != sizes or _lengths(weights) != sizes:
            raise ValueError(
                "targets, predictions and weights must be lists of the same number of "
                "tasks and rows"
            )
        targets = np.concatenate(targets)
        predictions = np.concatenate(predictions)
        weights = np.concatenate(weights)
        offsets = np.cumsum([0, *sizes])
    y = np.asarray(targets)
    predicted = np.asarray(predictions)
    if y.shape != predicted.shape:
        raise ValueError(
            f"targets have shape {y.shape} but predictions {predicted.shape}"
        )
    if y.ndim not in (1, 2):
        raise ValueError(f"targets must have 1 or 2 dimensions, got {y.ndim}")
    if y.ndim == 2:
        # Weights are of rows, of entries, or a single number.
        weight = _as_weights(weights, ())
        if weight.ndim == 1:
            weight = weight[:, None]
        weight = np.broadcast_to(weight, y.shape)
        n_rows, n_tasks = y.shape
        bounds = n_rows * np.arange(n_tasks + 1)
        return (
            y.T.reshape(-1),
            predicted.T.reshape(-1),
            weight.T.reshape(-1),
            bounds,
        )
    weight = _as_weights(weights, y.shape)
    if weight.shape != y.shape:
        raise ValueError(f"weights must have shape {y.shape}, got {weight.shape}")
    codes, n_tasks = task_codes(len(y), offsets, task_id, tasks)
    if task_id is not None:
        # A stable sort keeps the order of the rows of a task, and with it the order in
        # which they are added up.
        order = np.argsort(codes, kind="stable")
        y = y[order]
        predicted = predicted[order]
        weight = weight[order]
    sizes_of_tasks = np.bincount(codes, minlength=n_tasks)
    return y, predicted, weight, np.cumsum([0, *sizes_of_tasks])


def _lengths(arrays: Any) -> list[int]:
    return [len(array) for array in arrays]


def _as_weights(weights: Any, default_shape: tuple[int, ...]) -> Array:
    """Return weights as floats, ones by default, none so large that sums overflow."""
    if weights is None:
        return np.ones(default_shape)
    array = np.asarray(weights, dtype=float)
    if array.size and array.max() > LARGE_WEIGHT:
        # Sums of such weights times losses may overflow; only their ratios count.
        array = array / array.max()
    return array


def task_codes(
    n_rows: int, offsets: Any = None, task_id: Any = None, tasks: Any = None
) -> tuple[Array, int]:
    """Return the task number of each row, and the number of tasks.

    Tasks without rows count as well.
    """
    if task_id is None:
        bounds = np.array([0, n_rows])
        if offsets is not None:
            bounds = np.asarray(offsets)
        sizes = np.diff(bounds)
        if bounds[0] != 0 or bounds[-1] != n_rows or (sizes < 0).any():
            raise ValueError(f"offsets must rise from 0 to {n_rows}")
        return np.repeat(np.arange(len(sizes)), sizes), len(sizes)
    ids = np.asarray(task_id)
    if ids.shape != (n_rows,):
        raise ValueError(f"task_id must have shape ({n_rows},), got {ids.shape}")
    are_positions = (
        isinstance(tasks, range)
        and tasks == range(len(tasks))
        and n_rows > 0
        and ids.dtype.kind == "i"
    )
    if are_positions and ids.min() >= 0 and ids.max() < len(tasks):
        # Sorting the ids below would give the same codes, but take longer.
        return ids, len(tasks)
    names, codes = np.unique(ids, return_inverse=True)
    if tasks is None:
        return codes, len(names)
    task_list = np.asarray(tasks).tolist()
    positions = {name: position for position, name in enumerate(task_list)}
    missing = [name for name in names.tolist() if name not in positions]
    if missing:
        raise ValueError(f"task_id has tasks that are not among `tasks`: {missing[:5]}")
    positions_of_names = [positions[name] for name in names.tolist()]
    position_of_code = np.array(positions_of_names, dtype=int)
    return position_of_code[codes], len(task_list)
