"""How much better one model predicts than another, and how sure that is, from the losses of tested rows.

Functions of arrays alone. A *field* has an entry per target, as everywhere in mtlrun: (n, T) where tasks share rows,
(n,) where every row belongs to one task; NaN stands for a missing target or a row that was not tested.

The interval is that of Nadeau and Bengio, with the variance taken from the rows instead of the means of the folds:
``gain +- t * c * se`` with ``c = sqrt(1 + K / (K - 1))`` for K folds, since their training rows overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from mtlrun.engine.averages import shrunken_variances

Array = np.ndarray

#: Coverage of the intervals.
COVERAGE = 0.95
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class RowIndex:
    """What belongs together among the tested rows.

    Attributes
    ----------
    n_tasks : int
    task_id : ndarray of shape (n,) or None
        Task of every row; None where the tasks share their rows.
    units : ndarray of shape (n,) or None
        Number of the group or block of time of every row, where rows are not independent.
    weights : ndarray of shape (n,) or None
        Rows of weight 0 do not count.
    """

    n_tasks: int
    task_id: Array | None = None
    units: Array | None = None
    weights: Array | None = None

    def entries(self, is_tested: Array) -> tuple[Array, Array]:
        """Return row and task of the entries of a field that are known."""
        if self.task_id is None:
            rows, tasks = np.nonzero(is_tested)
            return rows, tasks
        rows = np.flatnonzero(is_tested)
        return rows, self.task_id[rows]

    def is_weighted(self, is_tested: Array) -> Array:
        """Return which entries of a field of `known` ones have a positive weight."""
        if self.weights is None:
            return is_tested
        positive = self.weights > 0
        return is_tested & (
            positive if is_tested.ndim == 1 else positive[:, np.newaxis]
        )

    def weigh(self, rows: Array) -> Array:
        """Return the weights of rows, 1 without any."""
        return np.ones(len(rows)) if self.weights is None else self.weights[rows]


@dataclass(frozen=True)
class Gain:
    """How much better a model is than another one.

    Attributes
    ----------
    value : float
        Relative error reduction, or difference of the AUC.
    error : float
        Standard error, corrected for overlapping training rows.
    df : int
        Degrees of freedom.
    units : int
        Rows, groups or blocks that were tested.
    first, second : float
        Mean over the tasks of the loss (or AUC) of the model, and of the other one.
    tasks : ndarray of shape (n_tasks,)
        Gain by task in the unit of `value`; NaN where the task is undefined.
    """

    value: float
    error: float
    df: int
    units: int
    first: float
    second: float
    tasks: Array

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return self.value - self._half

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval, at most 1: no error can be less than none."""
        return min(self.value + self._half, max(self.value, 1.0))

    @property
    def _half(self) -> float:
        return float(student.ppf(0.5 + COVERAGE / 2, max(self.df, 1))) * self.error

    def _beyond(self, value: float) -> float:
        """Return the probability of the t curve beyond a value in units of the error, which may be 0."""
        return float(student.sf(value / max(self.error, TINY), max(self.df, 1)))

    @property
    def pvalue(self) -> float:
        """Two-sided p-value of no gain; 1 where both models predict the same."""
        return 2 * self._beyond(abs(self.value))

    @property
    def better(self) -> tuple[int, int]:
        """Number of tasks that gain, and number of tasks that can be compared."""
        return count_better(self.tasks)

    def probabilities(self, smallest: float) -> tuple[float, float, float]:
        """Return those of a gain above `smallest`, within it and below ``-smallest``: the t curve read as posterior."""
        above, below = (
            self._beyond(smallest - self.value),
            self._beyond(smallest + self.value),
        )
        return above, 1 - above - below, below


@dataclass(frozen=True)
class SmallestGain:
    """Gain over several alternatives at once: the smallest of the gains over each.

    A model is of use only if it beats every alternative. That is an intersection-union
    test: each of the single tests has to reject, so no correction for their number is
    needed, and another alternative never makes the gain larger. All values are in the
    units of `Gain`.

    Attributes
    ----------
    gains : dict of str to Gain
        Alternative -> gain over it; at least one.
    """

    gains: dict[str, Gain]

    @property
    def closest(self) -> str:
        """Alternative over which the gain is smallest."""
        return min(self.gains, key=lambda name: self.gains[name].value)

    @property
    def value(self) -> float:
        """Smallest of the gains."""
        return min(gain.value for gain in self.gains.values())

    @property
    def low(self) -> float:
        """Lower end of the 95% interval: the smallest of the lower ends."""
        return min(gain.low for gain in self.gains.values())

    @property
    def high(self) -> float:
        """Upper end of the 95% interval: the smallest of the upper ends."""
        return min(gain.high for gain in self.gains.values())

    @property
    def pvalue(self) -> float:
        """Two-sided p-value: the largest of the p-values."""
        return max(gain.pvalue for gain in self.gains.values())

    @property
    def df(self) -> int:
        """Degrees of freedom of the gain over the closest alternative."""
        return self.gains[self.closest].df

    @property
    def units(self) -> int:
        """Rows, groups or blocks that were tested, for the fewest of the gains."""
        return min(gain.units for gain in self.gains.values())

    @property
    def first(self) -> float:
        """Mean loss (or AUC) of the model, compared with the closest alternative."""
        return self.gains[self.closest].first

    @property
    def second(self) -> float:
        """Mean loss (or AUC) of the closest alternative."""
        return self.gains[self.closest].second

    @property
    def tasks(self) -> Array:
        """Smallest gain of each task; NaN where the task is undefined."""
        return np.minimum.reduce([gain.tasks for gain in self.gains.values()])

    @property
    def better(self) -> tuple[int, int]:
        """Number of tasks that gain over every alternative, and of comparable tasks."""
        return count_better(self.tasks)


def count_better(task_gains: Array) -> tuple[int, int]:
    """Return the number of tasks with a positive gain, and of tasks with any gain."""
    is_defined = ~np.isnan(task_gains)
    return int((task_gains[is_defined] > 0).sum()), int(is_defined.sum())


def correction(folds: int, repeats: int, has_test_file: bool = False) -> float:
    """Return the factor of a standard error over rows: 1.5 for 5-fold twice, 2 for one repeat, 1 for separate rows."""
    if has_test_file:
        return 1.0
    return 2.0 if repeats < 2 else math.sqrt(1 + folds / (folds - 1))


def task_scales(y: Array, row_index: RowIndex) -> Array:
    """Return the variance that squared errors of every task are divided by.

    That of the targets, weighted. Variances of tasks with rows of their own, which have
    one unit, are shrunken towards their average (`shrunken_variances`); a row of weight
    w counts as w. NaN for a constant target.
    """
    is_tested = row_index.is_weighted(~np.isnan(y))
    rows, tasks = row_index.entries(is_tested)
    values = y[is_tested]
    weights = row_index.weigh(rows)
    counts = np.bincount(tasks, weights, row_index.n_tasks)
    means = _divided(np.bincount(tasks, weights * values, row_index.n_tasks), counts)
    squares = weights * (values - means[tasks]) ** 2
    variances = _divided(np.bincount(tasks, squares, row_index.n_tasks), counts)
    if row_index.task_id is not None:
        variances = shrunken_variances(variances, counts)
    return np.where(variances > 0, variances, np.nan)


def squared_losses(
    y: Array, predicted: Array, scales: Array, task_id: Array | None
) -> Array:
    """Return squared errors in units of the variance of the task, a field."""
    return (y - predicted) ** 2 / (scales if task_id is None else scales[task_id])


def error_losses(y: Array, scores: Array) -> Array:
    """Return 1 where the sign of a score is not that of the label, a field."""
    return np.where(np.isnan(y), np.nan, ((scores > 0) != (y > 0)).astype(float))


def log_losses(y: Array, scores: Array) -> Array:
    """Return log(1 + exp(-y f)), a field."""
    return np.logaddexp(0.0, np.where(y > 0, -scores, scores)) + 0.0 * y


def concordances(
    y: Array, scores: Array, row_index: RowIndex, rows: Array
) -> tuple[Array, Array]:
    """Return how many rows of the other class a row of one test part is ordered rightly with, and how many there are.

    Parameters
    ----------
    y, scores : field of these rows
    row_index : RowIndex
    rows : ndarray of int
        Of the test part.
    """
    right, pairs = np.full(y.shape, np.nan), np.full(y.shape, np.nan)
    weights = row_index.weigh(rows)
    for task in range(row_index.n_tasks):
        if row_index.task_id is None:
            where = np.flatnonzero(~np.isnan(y[:, task]))
            place: tuple[Array, ...] = (where, np.full(len(where), task))
        else:
            where = np.flatnonzero((row_index.task_id[rows] == task) & ~np.isnan(y))
            place = (where,)
        if len(where):
            right[place], pairs[place] = _concordant(
                y[place] > 0, scores[place], weights[where]
            )
    return right, pairs


def _concordant(positive: Array, scores: Array, weights: Array) -> tuple[Array, Array]:
    right, pairs = np.zeros(len(scores)), np.zeros(len(scores))
    for side, sign in ((positive, 1.0), (~positive, -1.0)):
        others = sign * scores[~side]
        order = np.argsort(others, kind="stable")
        total = np.concatenate([[0.0], np.cumsum(weights[~side][order])])
        below = np.searchsorted(others[order], sign * scores[side], "left")
        up_to = np.searchsorted(others[order], sign * scores[side], "right")
        right[side] = weights[side] * (total[below] + total[up_to]) / 2
        pairs[side] = weights[side] * total[-1]
    return right, pairs


def relative_gain(
    multitask: Array, baseline: Array, row_index: RowIndex, factor: float
) -> Gain | None:
    """Return the relative reduction of the mean loss, ``1 - A_joint / A_without``; tasks weigh equally.

    Parameters
    ----------
    multitask, baseline : field
        Losses, averaged over the repeats.
    row_index : RowIndex
    factor : float
        See `correction`.

    Returns
    -------
    Gain or None
        None where nothing can be compared.
    """
    is_tested = row_index.is_weighted(~np.isnan(multitask) & ~np.isnan(baseline))
    rows, tasks = row_index.entries(is_tested)
    weights = row_index.weigh(rows)
    totals = np.bincount(tasks, weights, row_index.n_tasks)
    first = _divided(
        np.bincount(tasks, weights * multitask[is_tested], row_index.n_tasks), totals
    )
    second = _divided(
        np.bincount(tasks, weights * baseline[is_tested], row_index.n_tasks), totals
    )
    mine, other = _mean(first), _mean(second)
    count = int((totals > 0).sum())
    if not count or not other > 0:
        return None
    ratio = mine / other
    share = _divided(weights, totals[tasks])
    part = (
        share * (ratio * baseline[is_tested] - multitask[is_tested]) / (other * count)
    )
    error, df, units = _error(part, share, rows, tasks, row_index)
    gains = 1 - _divided(first, np.where(second > 0, second, np.nan))
    return Gain(
        1 - ratio,
        factor * error,
        df,
        units,
        mine,
        other,
        np.where(first == second, 0.0 * first, gains),
    )


def auc_gain(
    multitask: Array,
    baseline: Array,
    pairs: Array,
    positive: Array,
    row_index: RowIndex,
    factor: float,
) -> Gain | None:
    """Return the difference of the AUC, mean over the tasks; pairs are of rows of one test part.

    Parameters
    ----------
    multitask, baseline : field
        Sums over the repeats of the first field of `concordances`.
    pairs : field
        That of the second.
    positive : field of bool
    layout, factor
        As of `relative_gain`.
    """
    is_tested = row_index.is_weighted(
        ~np.isnan(multitask) & ~np.isnan(baseline) & ~np.isnan(pairs)
    )
    rows, tasks = row_index.entries(is_tested)
    side, count = positive[is_tested], pairs[is_tested]
    totals = np.bincount(tasks, count * side, row_index.n_tasks)
    first = _divided(
        np.bincount(tasks, multitask[is_tested] * side, row_index.n_tasks), totals
    )
    second = _divided(
        np.bincount(tasks, baseline[is_tested] * side, row_index.n_tasks), totals
    )
    defined = int((totals > 0).sum())
    if not defined:
        return None
    gains = first - second
    use = totals[tasks] > 0
    rows, tasks = rows[use], tasks[use]
    part = ((multitask - baseline)[is_tested][use] - gains[tasks] * count[use]) / (
        totals[tasks] * defined
    )
    share = (
        np.full(len(rows), 1.0) / np.bincount(tasks, minlength=row_index.n_tasks)[tasks]
    )
    error, df, units = _error(part, share, rows, tasks, row_index)
    return Gain(
        _mean(gains), factor * error, df, units, _mean(first), _mean(second), gains
    )


def _error(
    part: Array, share: Array, rows: Array, tasks: Array, row_index: RowIndex
) -> tuple[float, int, int]:
    """Return standard error, degrees of freedom and number of units, from what every entry contributes to the gain."""
    if row_index.task_id is not None and row_index.units is None:
        sizes = np.bincount(tasks, minlength=row_index.n_tasks)
        means = np.bincount(tasks, part, row_index.n_tasks)[
            tasks
        ]  # a share of the sum, as large as that of the weight
        alone = sizes[tasks] == 1
        centred = np.where(alone, part, part - means * share)
        scale = np.where(alone, 1.0, sizes[tasks] / np.maximum(sizes[tasks] - 1, 1))
        return (
            math.sqrt(float(np.sum(scale * centred**2))),
            len(rows) - int((sizes > 0).sum()),
            len(rows),
        )
    names = rows if row_index.units is None else row_index.units[rows]
    _, codes = np.unique(names, return_inverse=True)
    sums = np.bincount(codes, part)
    n = len(sums)
    if n < 2:
        return math.inf, 1, n
    return math.sqrt(n / (n - 1) * float(np.sum((sums - sums.mean()) ** 2))), n - 1, n


def _divided(a: Array, b: Array) -> Array:
    """Return a / b, NaN where b is 0."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b != 0)


def _mean(values: Array) -> float:
    is_tested = values[~np.isnan(values)]
    return float(is_tested.mean()) if is_tested.size else math.nan
