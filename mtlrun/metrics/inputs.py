"""Types and layouts of targets and predictions, and averages over tasks and rows.

Targets are numbers, binary labels, or labels of any classes.

Numbers of any type, booleans and nullable columns of pandas are converted to float64
first. Binary labels are -1/+1, 0/1 or booleans; any others, such as 1/2, are refused.

`mtlrun.metrics` describes the layouts. Here they become flat arrays with the rows of
each task one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mtlrun.errors import listed

Array = np.ndarray


def is_list_of_tasks(values: Any) -> bool:
    """Whether values are a list with a 1-D array for each task."""
    is_list = isinstance(values, list | tuple)
    return is_list and len(values) > 0 and np.ndim(values[0]) == 1


def _as_array(values: Any, name: str) -> Array:
    """Return an array of floats, or of objects if it holds texts; NaN where missing.

    Arithmetic of small integers wraps around (uint8: 3 - 5 = 254), and arithmetic of
    nullable columns gives objects.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "c":
        raise ValueError(f"{name} are complex numbers; pass real ones")
    array = array.astype(object)
    is_missing = np.asarray(pd.isna(array))
    present = array[~is_missing]
    # A single text makes the labels texts. Otherwise text "1" would become number 1.
    if any(isinstance(value, str | bytes) for value in present):
        return np.where(is_missing, np.nan, array)
    result = np.full(array.shape, np.nan)
    try:
        result[~is_missing] = present.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} are neither numbers nor texts") from None
    return result


def as_floats(values: Any, name: str) -> Any:
    """Return numbers as a float64 array, or as a list of them for a list of tasks."""
    if is_list_of_tasks(values):
        return [as_floats(part, name) for part in values]
    array = _as_array(values, name)
    if array.dtype.kind == "O":
        raise ValueError(f"{name} are texts; this metric needs numbers")
    return array


def as_binary(labels: Any, name: str) -> Any:
    """Return binary labels as floats.

    Raises
    ------
    ValueError
        If they are anything but -1/+1, 0/1 or booleans.
    """
    values = as_floats(labels, name)
    if isinstance(values, list):
        flat = np.concatenate(values)
    else:
        flat = values
    is_minus = flat == -1
    is_sign = is_minus | (flat == 1)
    if is_sign.all():
        return values
    is_zero = flat == 0
    is_other = ~(is_zero | is_sign | np.isnan(flat))
    # Both negative labels at once fit neither coding. One of them may stand for missing
    # labels, which would count as negative.
    has_two_negatives = is_zero.any() and is_minus.any()
    if is_other.any() or has_two_negatives:
        kinds = np.unique(flat[~np.isnan(flat)])
        kinds_text = listed([f"{value:g}" for value in kinds])
        raise ValueError(
            f"{name} must be binary labels -1/+1, 0/1 or booleans, got {kinds_text}"
        )
    return values


def binary_and_scores(targets: Any, scores: Any) -> tuple[Any, Any]:
    """Return binary labels and their scores as floats."""
    binary_targets = as_binary(targets, "targets")
    return binary_targets, as_floats(scores, "predictions")


def labels_of_classes(targets: Any, labels: Any) -> tuple[Any, Any]:
    """Return labels of any number of classes, numbers as floats.

    Raises
    ------
    ValueError
        If only one of the two is texts, or one is coded -1/+1 and the other 0/1.
    """
    pair: list[Any] = []
    flat_pair: list[Array] = []
    for values, name in ((targets, "targets"), (labels, "predictions")):
        if is_list_of_tasks(values):
            arrays = [_as_array(part, name) for part in values]
            pair.append(arrays)
            flat_pair.append(np.concatenate(arrays))
        else:
            array = _as_array(values, name)
            pair.append(array)
            flat_pair.append(array)
    is_text = [values.dtype.kind == "O" for values in flat_pair]
    if is_text[0] != is_text[1]:
        # The type of an array without values says nothing about its labels.
        if all(map(len, flat_pair)):
            raise ValueError(
                "targets and predictions must both be texts or both numbers"
            )
    elif not is_text[0]:
        # Compared as they are, -1 and 0 would be two classes, and each negative row an
        # error of the model.
        codings = [_coding(values) for values in flat_pair]
        if None not in codings and codings[0] != codings[1]:
            raise ValueError(
                "targets and predictions must have the same labels, got "
                f"{codings[0]:g}/1 and {codings[1]:g}/1"
            )
    return pair[0], pair[1]


def _coding(values: Array) -> float | None:
    """Return the negative label, -1 or 0, of values that are all that or 1."""
    for negative in (-1.0, 0.0):
        is_negative = values == negative
        is_valid = is_negative | (values == 1) | np.isnan(values)
        if is_negative.any() and is_valid.all():
            return negative
    return None


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


# ---------------------------------------------------------------- layouts

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
