"""Weights and columns that hierarchical models accept: weights count rows."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from mtlrun.estimators.base import DegenerateModelWarning
from mtlrun.problem.taskdata import TaskData, dense
from mtlrun.solvers.hierarchical.compress import CONSTANT, Columns

#: Rows that weights may add up to: beyond, sums over rows lose the digits that tell
#: models apart.
MAX_TOTAL_WEIGHT = 1e12
MIN_TOTAL_WEIGHT = 1e-6
#: Weights below this share of the largest one are zero: floats cannot tell whether such
#: a row is there.
NEGLIGIBLE_WEIGHT = 1e-12


def check_total_weight(total: float) -> None:
    """Refuse weights that add up to far too many rows, or far too few.

    Raises
    ------
    ValueError
    """
    if MIN_TOTAL_WEIGHT <= total <= MAX_TOTAL_WEIGHT:
        return
    raise ValueError(
        f"sample_weight adds up to {total:.3g} rows: in mixed models a row of weight "
        "k counts as k rows. Divide the weights by their mean."
    )


def with_counted_weights(data: TaskData) -> TaskData:
    """Return data whose weights can be counted as rows.

    Negligible weights become zero (`NEGLIGIBLE_WEIGHT`): a column that varies in such
    rows alone would be stretched until they decide its coefficient.

    Raises
    ------
    ValueError
        If the weights add up to far too many rows, or far too few, or all weights of a
        task are negligible.
    """
    if data.weights is None:
        return data
    with np.errstate(over="ignore"):
        check_total_weight(float(np.asarray(data.effective_weights()).sum()))
    negligible = data.weights < NEGLIGIBLE_WEIGHT * data.weights.max()
    if not data.weights[negligible].any():
        return data
    counted = replace(data, weights=np.where(negligible, 0.0, data.weights))
    by_task = counted.sum_by_task(np.asarray(counted.effective_weights()))
    empty = data.tasks[by_task <= 0]
    if len(empty):
        raise ValueError(
            f"sample_weight: all weights of task {empty[0]} are below "
            f"{NEGLIGIBLE_WEIGHT:g} of the largest weight. Leave the task out, or give "
            "weights of about one."
        )
    return counted


def warn_of_constants(data: TaskData, columns: Columns) -> None:
    """Warn about columns that vary so little relative to their mean that they count as
    constant.
    """
    flat = np.flatnonzero(np.isinf(columns.scale))
    if not flat.size:
        return
    X = dense(data.X[:, flat])
    lost = flat[np.ptp(X, axis=0) > 1e-13 * np.abs(X).max(axis=0)].tolist()
    if lost:
        text = (
            f"columns {lost} of X vary by less than {CONSTANT:g} of their mean and "
            "count as constant"
        )
        warnings.warn(
            f"{text}. Subtract their means, for instance with StandardScaler.",
            DegenerateModelWarning,
            4,
        )
