"""How much better one model predicts than another, from the losses of tested rows.

Functions of arrays. A *target array* has the shape of the targets, as everywhere in
mtlrun: (n, T) where tasks share their rows, (n,) where each row belongs to one task.
NaN stands for a missing target or a row that was not tested.

Bounds are those of Nadeau and Bengio, with the variance of the rows instead of the means
of the folds: ``gain +- t * c * se``. Training rows of different folds overlap, so the
standard error of independent rows, ``se``, is multiplied by
``c = sqrt(1 + (K - 1) n_test / n_train)`` for K folds (`correction`).

A verdict is made from bounds with one-sided errors (`SmallestGain`): 5% for each lower
bound, and 5% divided by the number of alternatives for each upper bound. The intervals of
single methods and tasks are two-sided, with 2.5% on each side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from mtlrun.engine.evaluation import shrunken_variances

Array = np.ndarray

#: One-sided error of each end of a 95% interval.
TAIL = 0.025
#: One-sided error of the bounds of a verdict: of each lower bound, and of all upper
#: bounds together.
LEVEL = 0.05
#: Replaces a standard error of 0 where something is divided by it.
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class RowIndex:
    """Task, unit and weight of each row.

    Attributes
    ----------
    n_tasks : int
    task_id : ndarray of shape (n,) or None
        Task of each row; None where the tasks share their rows.
    units : ndarray of shape (n,) or None
        Number of the group or block of time of each row. None if rows are independent.
    weights : ndarray of shape (n,) or None
        Rows of weight 0 do not count.
    """

    n_tasks: int
    task_id: Array | None = None
    units: Array | None = None
    weights: Array | None = None

    def entries(self, is_tested: Array) -> tuple[Array, Array]:
        """Return row and task of the targets that are selected by a mask."""
        if self.task_id is None:
            rows, tasks = np.nonzero(is_tested)
            return rows, tasks
        rows = np.flatnonzero(is_tested)
        return rows, self.task_id[rows]

    def is_weighted(self, is_tested: Array) -> Array:
        """Return a mask of targets without the rows of weight 0."""
        if self.weights is None:
            return is_tested
        is_positive = self.weights > 0
        if is_tested.ndim == 2:
            is_positive = is_positive[:, np.newaxis]
        return is_tested & is_positive

    def weigh(self, rows: Array) -> Array:
        """Return the weights of rows, 1 if there are no weights."""
        if self.weights is None:
            return np.ones(len(rows))
        return self.weights[rows]

    def sum_by_task(self, tasks: Array, values: Array) -> Array:
        """Return the sum of some values in each task, given the task of each value."""
        return np.bincount(tasks, values, self.n_tasks)


class TaskCounts(NamedTuple):
    """Number of tasks with a positive gain, and of tasks that can be compared."""

    n_better: int
    n_compared: int


class GainProbabilities(NamedTuple):
    """Probabilities that a gain is above, within and below what matters."""

    above: float
    within: float
    below: float


@dataclass(frozen=True)
class Gain:
    """How much better a model is than another one.

    Attributes
    ----------
    value : float
        Relative error reduction, or difference of the AUC; greater is better.
    error : float
        Standard error, corrected for overlapping training rows.
    df : int
        Degrees of freedom.
    units : int
        Number of tested rows, groups or blocks.
    first, second : float
        Mean loss (or AUC) over the tasks, of the model and of the other one.
    tasks : ndarray of shape (n_tasks,)
        Gain of each task in the unit of `value`; NaN where it is undefined.
    low_level, high_level : float, default `TAIL`
        One-sided errors of `low` and `high`. By default, they are the ends of a 95%
        interval.
    """

    value: float
    error: float
    df: int
    units: int
    first: float
    second: float
    tasks: Array
    low_level: float = TAIL
    high_level: float = TAIL

    @property
    def low(self) -> float:
        """Lower bound."""
        return self.value - self._quantile(self.low_level) * self.error

    @property
    def high(self) -> float:
        """Upper bound, at most 1: no error can be below 0."""
        bound = self.value + self._quantile(self.high_level) * self.error
        return min(bound, max(self.value, 1.0))

    def _quantile(self, level: float) -> float:
        """Return the value that t exceeds with a probability of `level`."""
        return float(student.isf(level, max(self.df, 1)))

    @property
    def one_sided_pvalue(self) -> float:
        """P-value of no gain against a gain above 0."""
        return self._upper_tail(self.value)

    def _upper_tail(self, distance: float) -> float:
        """Return the probability of the t distribution above a distance from the gain.

        The distance is in the unit of `value`.
        """
        # The standard error may be 0.
        quantile = distance / max(self.error, TINY)
        return float(student.sf(quantile, max(self.df, 1)))

    @property
    def pvalue(self) -> float:
        """Two-sided p-value of no gain; 1 where both models predict the same."""
        return 2 * self._upper_tail(abs(self.value))

    @property
    def better(self) -> TaskCounts:
        """Number of tasks that gain, and number of tasks that can be compared."""
        return count_better(self.tasks)

    def probabilities(self, smallest: float) -> GainProbabilities:
        """Return the probabilities of a gain and of a loss that matter.

        The t distribution is read as a posterior with a flat prior.

        Parameters
        ----------
        smallest : float
            Gains above it matter, and so do losses above it.
        """
        above = self._upper_tail(smallest - self.value)
        below = self._upper_tail(smallest + self.value)
        return GainProbabilities(above, 1 - above - below, below)


@dataclass
class SmallestGain:
    """Gain over several alternatives at once: the smallest of the gains over each.

    A model is of use only if it beats every alternative. That is an intersection-union
    test: each single test has to reject at the level of 5%, and the error of all is at
    most 5%. The model is worse if it loses to any alternative, so these tests share the
    5%: each upper bound has an error of 5% / m for m alternatives. All values are in
    the units of `Gain`.

    Attributes
    ----------
    gains : dict of str to Gain
        Alternative -> gain over it, with the bounds of the verdict; at least one. The
        bounds of the gains that are passed do not matter.
    closest : str
        Alternative over which the gain is smallest.
    value, low, high : float
        Smallest of the gains, and of their bounds.
    pvalue : float
        One-sided p-value: the largest of the p-values over each alternative. It is
        below 5% exactly if the lower bound is above 0.
    chance : float
        Probability of a gain over every alternative, with a flat prior: the smallest
        of the probabilities of a gain over each; 1/2 for equal predictions.
    df : int
        Degrees of freedom of the gain over the closest alternative.
    units : int
        Rows, groups or blocks that were tested, for the fewest of the gains.
    first, second : float
        Mean loss (or AUC) of the model and of the closest alternative, compared with
        each other.
    tasks : ndarray of shape (n_tasks,)
        Smallest gain of each task; NaN where the task is undefined.
    better : TaskCounts
        Number of tasks that gain over every alternative, and of comparable tasks.
    n_undefined : int
        Number of tasks that cannot be compared.
    """

    gains: dict[str, Gain]
    closest: str = field(init=False)
    value: float = field(init=False)
    low: float = field(init=False)
    high: float = field(init=False)
    pvalue: float = field(init=False)
    chance: float = field(init=False)
    df: int = field(init=False)
    units: int = field(init=False)
    first: float = field(init=False)
    second: float = field(init=False)
    tasks: Array = field(init=False)
    better: TaskCounts = field(init=False)
    n_undefined: int = field(init=False)

    def __post_init__(self) -> None:
        high_level = LEVEL / len(self.gains)
        self.gains = {
            name: replace(gain, low_level=LEVEL, high_level=high_level)
            for name, gain in self.gains.items()
        }
        self.closest = min(self.gains, key=lambda name: self.gains[name].value)
        closest = self.gains[self.closest]
        self.value = closest.value
        self.df = closest.df
        self.first = closest.first
        self.second = closest.second
        gains = self.gains.values()
        self.low = min(gain.low for gain in gains)
        self.high = min(gain.high for gain in gains)
        self.pvalue = max(gain.one_sided_pvalue for gain in gains)
        self.chance = 1 - self.pvalue
        self.units = min(gain.units for gain in gains)
        self.tasks = np.minimum.reduce([gain.tasks for gain in gains])
        self.better = count_better(self.tasks)
        self.n_undefined = len(self.tasks) - self.better.n_compared


def count_better(task_gains: Array) -> TaskCounts:
    """Return the number of tasks with a positive gain, and of tasks with any gain.

    Equal models have gains of zero but for rounding.
    """
    n_better = int((task_gains > 1e-9).sum())
    return TaskCounts(n_better, int((~np.isnan(task_gains)).sum()))


def correction(folds: int, n_test: float, n_train: float) -> float:
    """Return the factor by which overlapping training rows increase a standard error.

    ``sqrt(1 + (folds - 1) n_test / n_train)``. It is sqrt(2) for any cross-validation
    that trains on all other folds, with any number of repeats: two rows of different
    folds meet twice, as test and training row and the other way round, so the variance
    is at most twice that of independent tests. It is larger if only a part of the other
    folds is trained on.

    Parameters
    ----------
    folds : int
        Number of folds of a repeat.
    n_test, n_train : float
        Numbers of test and of training rows of a fold, or their sums over folds.
    """
    return math.sqrt(1 + (folds - 1) * n_test / n_train)


def task_scales(y: Array, row_index: RowIndex) -> Array:
    """Return the variance of each task, by which its squared errors are divided.

    The variance of the targets, weighted. Tasks with rows of their own have targets in
    one unit: their variances are shrunken towards their average (`shrunken_variances`),
    where a row of weight w counts as w rows. NaN for a constant target.
    """
    is_tested = row_index.is_weighted(~np.isnan(y))
    rows, tasks = row_index.entries(is_tested)
    values = y[is_tested]
    weights = row_index.weigh(rows)
    counts = row_index.sum_by_task(tasks, weights)
    means = _divide(row_index.sum_by_task(tasks, weights * values), counts)
    squares = weights * (values - means[tasks]) ** 2
    variances = _divide(row_index.sum_by_task(tasks, squares), counts)
    if row_index.task_id is not None:
        variances = shrunken_variances(variances, counts)
    return np.where(variances > 0, variances, np.nan)


def error_losses(y: Array, scores: Array) -> Array:
    """Return 1 where the sign of a score differs from the sign of the label, else 0."""
    is_wrong = (scores > 0) != (y > 0)
    return np.where(np.isnan(y), np.nan, is_wrong.astype(float))


def log_losses(y: Array, scores: Array) -> Array:
    """Return log(1 + exp(-y f)) for labels y of -1 or +1 and scores f."""
    # 0 * y is NaN where the label is missing.
    return np.logaddexp(0.0, np.where(y > 0, -scores, scores)) + 0.0 * y


def concordances(
    y: Array, scores: Array, row_index: RowIndex, rows: Array
) -> tuple[Array, Array]:
    """Count the pairs of rows of both classes in one test part, row by row.

    Parameters
    ----------
    y, scores : target array of the rows of the test part
    row_index : RowIndex
    rows : ndarray of int
        Positions of these rows in the table.

    Returns
    -------
    n_right : target array
        Number of rows of the other class with which the row is ordered rightly. Equal
        scores count one half, and a pair counts as the product of the weights.
    n_pairs : target array
        Number of rows of the other class.
    """
    n_right = np.full(y.shape, np.nan)
    n_pairs = np.full(y.shape, np.nan)
    weights = row_index.weigh(rows)
    for task in range(row_index.n_tasks):
        if row_index.task_id is None:
            positions = np.flatnonzero(~np.isnan(y[:, task]))
            index: tuple[Array, ...] = (positions, np.full(len(positions), task))
        else:
            is_task = row_index.task_id[rows] == task
            positions = np.flatnonzero(is_task & ~np.isnan(y))
            index = (positions,)
        if len(positions):
            n_right[index], n_pairs[index] = _task_concordances(
                y[index] > 0, scores[index], weights[positions]
            )
    return n_right, n_pairs


def _task_concordances(
    is_positive: Array, scores: Array, weights: Array
) -> tuple[Array, Array]:
    """Return `concordances` of the rows of one task."""
    n_right = np.zeros(len(scores))
    n_pairs = np.zeros(len(scores))
    # A positive row is ordered rightly with the negative rows of smaller scores. With
    # the opposite sign of the scores the same holds for negative rows.
    for is_side, sign in ((is_positive, 1.0), (~is_positive, -1.0)):
        others = sign * scores[~is_side]
        order = np.argsort(others, kind="stable")
        # total[k] is the weight of the k smallest scores of the other class.
        total = np.concatenate([[0.0], np.cumsum(weights[~is_side][order])])
        below = np.searchsorted(others[order], sign * scores[is_side], "left")
        up_to = np.searchsorted(others[order], sign * scores[is_side], "right")
        n_right[is_side] = weights[is_side] * (total[below] + total[up_to]) / 2
        n_pairs[is_side] = weights[is_side] * total[-1]
    return n_right, n_pairs


def relative_gain(
    multitask: Array, baseline: Array, row_index: RowIndex, factor: float
) -> Gain | None:
    """Return the relative reduction of the mean loss, ``1 - A_multitask / A_baseline``.

    A is the mean over the tasks of the mean loss of a task: tasks weigh equally.

    Parameters
    ----------
    multitask, baseline : target array
        Losses, averaged over the repeats.
    row_index : RowIndex
    factor : float
        Factor of the standard error; see `correction`.

    Returns
    -------
    Gain or None
        None where nothing can be compared.
    """
    is_tested = row_index.is_weighted(~np.isnan(multitask) & ~np.isnan(baseline))
    rows, tasks = row_index.entries(is_tested)
    weights = row_index.weigh(rows)
    losses = multitask[is_tested]
    baseline_losses = baseline[is_tested]
    totals = row_index.sum_by_task(tasks, weights)
    task_losses = _divide(row_index.sum_by_task(tasks, weights * losses), totals)
    baseline_task_losses = _divide(
        row_index.sum_by_task(tasks, weights * baseline_losses), totals
    )
    mean_loss = _mean(task_losses)
    baseline_loss = _mean(baseline_task_losses)
    n_compared = int((totals > 0).sum())
    # Written so that a baseline without a mean (NaN) is refused, too.
    if not n_compared or not baseline_loss > 0:
        return None
    ratio = mean_loss / baseline_loss
    share = _divide(weights, totals[tasks])
    # First-order effect of each target on the ratio of the two means.
    influence = (
        share * (ratio * baseline_losses - losses) / (baseline_loss * n_compared)
    )
    variation = _variation(influence, share, rows, tasks, row_index)
    defined_losses = np.where(baseline_task_losses > 0, baseline_task_losses, np.nan)
    task_gains = 1 - _divide(task_losses, defined_losses)
    # The gain of equal losses is 0, also if both are 0.
    is_equal = task_losses == baseline_task_losses
    return Gain(
        value=1 - ratio,
        error=factor * variation.error,
        df=variation.df,
        units=variation.n_units,
        first=mean_loss,
        second=baseline_loss,
        tasks=np.where(is_equal, 0.0 * task_losses, task_gains),
    )


def auc_gain(
    multitask: Array,
    baseline: Array,
    pairs: Array,
    positive: Array,
    row_index: RowIndex,
    factor: float,
) -> Gain | None:
    """Return the difference of the AUC, averaged over the tasks.

    Pairs consist of rows of one test part.

    Parameters
    ----------
    multitask, baseline : target array
        Sums over the repeats of `n_right` of `concordances`.
    pairs : target array
        Sums over the repeats of `n_pairs`.
    positive : target array of bool
        Whether the label is +1.
    row_index : RowIndex
    factor : float
        Factor of the standard error; see `correction`.

    Returns
    -------
    Gain or None
        None where nothing can be compared.
    """
    is_tested = row_index.is_weighted(
        ~np.isnan(multitask) & ~np.isnan(baseline) & ~np.isnan(pairs)
    )
    rows, tasks = row_index.entries(is_tested)
    is_positive = positive[is_tested]
    n_pairs = pairs[is_tested]
    # Each pair has one positive row: sums over these rows count it once.
    totals = row_index.sum_by_task(tasks, n_pairs * is_positive)
    aucs = _divide(
        row_index.sum_by_task(tasks, multitask[is_tested] * is_positive), totals
    )
    baseline_aucs = _divide(
        row_index.sum_by_task(tasks, baseline[is_tested] * is_positive), totals
    )
    n_compared = int((totals > 0).sum())
    if not n_compared:
        return None
    task_gains = aucs - baseline_aucs
    is_compared = totals[tasks] > 0
    rows = rows[is_compared]
    tasks = tasks[is_compared]
    differences = (multitask - baseline)[is_tested][is_compared]
    # Effect of each row on the difference: both classes contribute.
    influence = (differences - task_gains[tasks] * n_pairs[is_compared]) / (
        totals[tasks] * n_compared
    )
    share = np.full(len(rows), 1.0) / np.bincount(tasks)[tasks]
    variation = _variation(influence, share, rows, tasks, row_index)
    return Gain(
        value=_mean(task_gains),
        error=factor * variation.error,
        df=variation.df,
        units=variation.n_units,
        first=_mean(aucs),
        second=_mean(baseline_aucs),
        tasks=task_gains,
    )


class _Variation(NamedTuple):
    """Standard error of a gain, its degrees of freedom and its number of units."""

    error: float
    df: int
    n_units: int


def _variation(
    influence: Array, share: Array, rows: Array, tasks: Array, row_index: RowIndex
) -> _Variation:
    """Return the standard error of a gain from the influence of each target on it.

    Parameters
    ----------
    influence : ndarray of shape (n_targets,)
        First-order effect of each target on the gain.
    share : ndarray of shape (n_targets,)
        Share of each target in the weight of its task.
    rows, tasks : ndarray of shape (n_targets,)
    row_index : RowIndex
    """
    if row_index.task_id is None or row_index.units is not None:
        # Targets of a unit are dependent: of a group, a block of time, or a row with
        # the targets of several tasks.
        unit_of_target = rows if row_index.units is None else row_index.units[rows]
        _, codes = np.unique(unit_of_target, return_inverse=True)
        unit_sums = np.bincount(codes, influence)
        n = len(unit_sums)
        if n < 2:
            return _Variation(error=math.inf, df=1, n_units=n)
        squares = float(np.sum((unit_sums - unit_sums.mean()) ** 2))
        error = math.sqrt(n / (n - 1) * squares)
        return _Variation(error=error, df=n - 1, n_units=n)
    # Independent rows of tasks vary around the mean of their task.
    sizes = np.bincount(tasks)
    # Each target has the part of the sum of its task that it has of the weight.
    sums = row_index.sum_by_task(tasks, influence)[tasks]
    is_alone = sizes[tasks] == 1
    centered = np.where(is_alone, influence, influence - sums * share)
    unbiased = sizes[tasks] / np.maximum(sizes[tasks] - 1, 1)
    scale = np.where(is_alone, 1.0, unbiased)
    return _Variation(
        error=math.sqrt(float(np.sum(scale * centered**2))),
        df=len(rows) - int((sizes > 0).sum()),
        n_units=len(rows),
    )


def _divide(a: Array, b: Array) -> Array:
    """Return a / b, NaN where b is 0."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b != 0)


def _mean(values: Array) -> float:
    """Return the mean of the values that are not NaN, NaN if there are none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else math.nan
