"""Types of targets and predictions, and averages over tasks and rows.

Targets are numbers, binary labels, or labels of any classes.

Numbers of any type, booleans and nullable columns of pandas are converted to float64
first. Binary labels are -1/+1, 0/1 or booleans; any others, such as 1/2, are refused.
"""

from __future__ import annotations

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
