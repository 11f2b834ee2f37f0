"""The meaning of the weight of a row, in one place.

* **A row of weight 0 is left out.** It counts as little as a row that is not there: for
  tasks, classes, categories, scales, medians, folds, fits and scores alike, whatever
  its cells hold. `mtlrun compare` and `mtlrun train` drop such rows when they have read
  the table, estimators when they have read their arguments. A task all of whose rows
  have weight 0 does not exist for `compare` and `train`; estimators refuse it.
* **A weight of k counts as k equal rows** in the loss of an estimator and in scores.
  Leave-one-out and cross-validation inside an estimator still hold out rows, not
  repetitions.
* **`compare` and `train` normalize weights to mean 1** over the rows of the table,
  those of a file of test rows left out. One constant factor on all weights therefore
  changes nothing there. Estimators take weights as they are: a factor acts like a
  smaller regularization strength, and in mixed models, which estimate the noise, like
  more rows.
* Weights are finite and not negative, and at least one is positive.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mtlrun.data.reading.names import Names, name_order
from mtlrun.errors import DataError, counted, listed

if TYPE_CHECKING:
    from mtlrun.data.reading.table import Table

Array = np.ndarray

_TINY = float(np.finfo(float).tiny)
#: Mean weights outside this range hardly count rows.
_COUNTS_OF_ROWS = (0.1, 10.0)


class WeightScaleWarning(UserWarning):
    """Weights that count as rows have a mean far from 1."""


def normalize_weights(weights: Array, reference: Array) -> Array:
    """Return weights divided by the mean of some, also where sums would overflow.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        Finite and positive.
    reference : ndarray of bool, shape (n,)
        Weights whose mean becomes 1, at least one.
    """
    relative = weights / weights.max()
    return relative / relative[reference].mean()


def weighted_moments(values: Array, weights: Array) -> tuple[Array, Array]:
    """Return the weighted mean and population variance of each column.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, k)
        NaN values do not count.
    weights : ndarray of shape (n,) or (n, k)
        Of rows, or of entries. Their sums may be too large for a float.

    Returns
    -------
    mean, variance : ndarray of shape () or (k,)
        NaN for a column without values of positive weight.
    """
    observed = ~np.isnan(values)
    filled = np.where(observed, values, 0.0)
    if weights.ndim < values.ndim:
        weights = weights[:, np.newaxis]
    # Relative to the largest weight, as sums of the weights may overflow.
    largest = max(weights.max(), _TINY)
    relative = np.where(observed, weights / largest, 0.0)
    total = relative.sum(axis=0)
    total = np.where(total > 0, total, np.nan)
    sums = (relative * filled).sum(axis=0)
    mean = sums / total
    squares = relative * np.square(filled - mean)
    variance = squares.sum(axis=0) / total
    return mean, variance


def weighted_median(values: Array, weights: Array) -> float:
    """Return the median of values, each repeated as often as its weight says.

    Parameters
    ----------
    values, weights : ndarray of shape (n,)
        NaN values do not count. Without any other value the median is NaN.
    """
    observed = ~np.isnan(values)
    observed_values = values[observed]
    order = np.argsort(observed_values, kind="stable")
    ordered = observed_values[order]
    if not len(ordered):
        return float("nan")
    relative = weights[observed][order] / weights.max()
    below = np.cumsum(relative)
    half = below[-1] / 2
    # Where half of the weight lies exactly between two values, their mean is taken.
    tolerance = 1e-12 * below[-1]
    lower = int(np.searchsorted(below, half - tolerance))
    upper = int(np.searchsorted(below, half + tolerance))
    upper = min(upper, len(ordered) - 1)
    return float((ordered[lower] + ordered[upper]) / 2)


def warn_of_scale(weights: Array | None, name: str) -> None:
    """Warn if the mean of weights is far from 1, for a model that counts rows.

    Parameters
    ----------
    weights : ndarray or None
        Weights of observed entries.
    name : str
        The model, for the message.
    """
    if weights is None:
        return
    positive = weights[weights > 0]
    if not positive.size:
        return
    largest = float(positive.max())
    mean = largest * float((positive / largest).mean())
    if _COUNTS_OF_ROWS[0] <= mean <= _COUNTS_OF_ROWS[1]:
        return
    warnings.warn(
        f"{name}: the mean of sample_weight is {mean:.3g}. A weight counts as that "
        "many rows here, so the noise and the differences between tasks are estimated "
        "as if there were that many more. Unless weights are numbers of rows, pass "
        "sample_weight / np.mean(sample_weight).",
        WeightScaleWarning,
        stacklevel=4,
    )


def weights_of(table: Table, name: str) -> Array:
    """Return a column of weights.

    Raises
    ------
    DataError
        For a cell that is not a finite number of at least 0; names its row.
    """
    column = pd.to_numeric(table.column(name), errors="coerce")
    weights = column.to_numpy(dtype=float, na_value=np.nan)
    is_valid = np.isfinite(weights) & (weights >= 0)
    wrong = np.flatnonzero(~is_valid)
    if wrong.size:
        first_wrong = int(wrong[0])
        raise DataError(
            f"{table.where(first_wrong)}: the weight column {name!r} does not "
            "contain a number of at least 0",
            "Fix the cell; 0 leaves a row out.",
        )
    return weights


def drop_unweighted_rows(
    table: Table, name: str, n_train: int, task: str | None
) -> tuple[Table, int, list[str]]:
    """Return the rows of positive weight, how many of them train, and notes.

    Weights that vanish next to the largest one count as 0. Tasks without any other row
    are named.

    Parameters
    ----------
    table : Table
    name : str
        Column of weights.
    n_train : int
        Number of training rows, which come first.
    task : str or None
        Column of tasks.

    Raises
    ------
    DataError
        If no training row, or no row of a test table, has a positive weight.
    """
    weights = weights_of(table, name)
    largest = weights.max(initial=0.0)
    positive = weights > 0
    if largest > 0:
        # Not the product of largest and epsilon, which may overflow or vanish.
        positive &= weights / largest > np.finfo(float).tiny
    n_test = len(weights) - n_train
    for part, rows in (("", positive[:n_train]), ("test ", positive[n_train:])):
        if not rows.any() and (n_test or not part):
            raise DataError(
                f"{table.name}: all {part}rows have weight 0 in column {name!r}",
                "Weights of 0 leave rows out: give some rows a positive weight, or "
                "choose another column with --weight.",
            )
    if positive.all():
        return table, n_train, []
    n_left_out = int((~positive).sum())
    notes = [f"{counted(n_left_out, 'row')} of weight 0 left out"]
    if task is not None:
        names = Names.of(table.text(task))
        for part, of_part in (("", slice(n_train)), ("test ", slice(n_train, None))):
            codes = names.codes[of_part]
            with_rows = np.unique(codes[codes >= 0])
            weighted = codes[positive[of_part]]
            lost = [names.names[t] for t in np.setdiff1d(with_rows, weighted)]
            if lost:
                notes.append(tasks_without_weight(lost, part))
    kept = np.flatnonzero(positive)
    return table.taken(kept), int(positive[:n_train].sum()), notes


def tasks_without_weight(names: Sequence[str], part: str = "") -> str:
    """Return a note that names the tasks without any row of positive weight.

    Parameters
    ----------
    names : sequence of str
    part : str, default ""
        ``"test "`` for rows of a test table.
    """
    return (
        f"{counted(len(names), 'task')} left out, whose {part}rows all have weight 0: "
        f"{listed(name_order(names))}"
    )
