"""Intervals for new targets, from the errors of a method on rows that it was not fitted
to.

An interval is the prediction plus two quantiles of earlier errors, each in units of a
scale (split conformal prediction, with the errors of all folds). The scale of a row is

* the standard deviation of the errors of its task, or
* where the model predicts a standard deviation, this one times the standard deviation
  of the errors of its task in these units.

The variance of a task is shrunken towards the average variance by r rows. The errors
determine r: if the variances of tasks are draws from a scaled inverse chi-square with r
degrees of freedom, their logarithms vary by trigamma(r / 2), and the estimates of n
rows by trigamma(n / 2) in addition (`shrinkage_rows`). Tasks that differ in their noise
have their own intervals; otherwise all tasks share one scale.

Errors of rows of new tasks are kept apart: their intervals hold for tasks without
training rows. Tasks on the same rows may differ in their units, so each has quantiles
of its own.

With n errors, the ends are the order statistics ``(n + 1) * alpha / 2`` from either
end. With too few of them for that, both ends are the largest ones, in units of
Student's t.

Errors of one new task are alike, so fewer of them count (`n_independent`). With n rows
per task and the intraclass correlation r of the errors, 1 + (n - 1) r^2 errors count as
one, because the variance of their mean square is larger by this factor. Analysis of
variance estimates r.

References
----------
Smyth, Linear models and empirical Bayes methods, SAGMB 2004 (variances of tasks);
DerSimonian and Laird, Meta-analysis in clinical trials, Controlled Clinical Trials 1986
(variance of their logarithms);
Dunn, Wasserman and Ramdas, Distribution-free prediction sets for two-layer hierarchical
models, JASA 2023;
Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005; Barber,
Candès, Ramdas and Tibshirani, Predictive inference with the jackknife+, Annals of
Statistics 2021; Duan, Smearing estimate, JASA 1983 (means of transformed targets).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from scipy.stats import skew, spearmanr, t

Array = np.ndarray

#: Probability of the intervals that are written unless another is given.
LEVEL = 0.95
#: Errors that are stored of each group, as quantiles.
MAX_STORED = 1000
#: Skewness of errors, and rank correlation of their size with the prediction, from
#: which on a transformation is suggested.
SKEWED = 1.0
GROWING = 0.3
#: Coverage of a task is reported from this number of errors on.
MIN_TASK_ERRORS = 20
#: Coverages of tasks outside these are counted.
TASK_LIMITS = (0.85, 0.99)
# Range of r where the variances of tasks differ.
_MIN_SHRINKAGE = 0.5
_MAX_SHRINKAGE = 1e6
_SMALLEST = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Errors:
    """Errors on rows that the model was not fitted to.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Target less prediction.
    predicted : ndarray of shape (n,)
    tasks : ndarray of shape (n,)
    folds : ndarray of shape (n,)
        Which model predicted the row.
    deviations : ndarray of shape (n,) or None
        Standard deviations that the model predicted.
    """

    values: Array
    predicted: Array
    tasks: Array
    folds: Array
    deviations: Array | None = None

    def taken(self, rows: Array) -> Errors:
        """Return some of the errors."""
        deviations = self.deviations
        if deviations is not None:
            deviations = deviations[rows]
        return Errors(
            self.values[rows],
            self.predicted[rows],
            self.tasks[rows],
            self.folds[rows],
            deviations,
        )


@dataclass(frozen=True)
class StoredIntervals:
    """Intervals in ``model.json``, see `Intervals`."""

    groups: list[list[float]]
    scales: list[float] | None = None
    is_relative: bool | None = None
    n_independent: int | None = None


@dataclass(frozen=True)
class Intervals:
    """Quantiles of scaled errors.

    Attributes
    ----------
    scales : ndarray of shape (n_tasks,) or None
        Standard deviation of the errors of each task; None where the model alone
        predicts it.
    groups : list of ndarray
        Sorted scaled errors: of all tasks together, or one array for each task.
    n_independent : int or None
        Number of independent errors to which errors on new tasks amount; None for
        errors on known tasks, which all count.
    is_relative : bool
        Whether `scales` are in units of the standard deviations of the model.
    """

    scales: Array | None
    groups: list[Array]
    n_independent: int | None = None
    is_relative: bool = False

    @classmethod
    def of(
        cls, errors: Errors, n_tasks: int, *, is_shared: bool, is_new: bool = False
    ) -> Intervals:
        """Learn scales and quantiles from errors.

        Parameters
        ----------
        errors : Errors
        n_tasks : int
        is_shared : bool
            Whether tasks share their rows, and may differ in their units.
        is_new : bool, default False
            Whether the models of the errors knew no rows of the tasks.
        """
        tasks = errors.tasks
        is_relative = errors.deviations is not None
        scaled = errors.values
        if errors.deviations is not None:
            scaled = errors.values / np.maximum(errors.deviations, _SMALLEST)
        scales = None
        if not is_new and not (is_shared and is_relative):
            scales, others = _task_scales(scaled, tasks, n_tasks, is_shared=is_shared)
            scaled = scaled / others
        elif not is_relative:
            mean_square = float(np.mean(errors.values**2))
            scale = max(math.sqrt(mean_square), _SMALLEST)
            scales = np.full(n_tasks, scale)
            scaled = errors.values / scale
        if is_shared and not is_new:
            # Targets may differ in their units: each has quantiles of its own.
            groups = [np.sort(scaled[tasks == task]) for task in range(n_tasks)]
            return cls(scales, groups, is_relative=is_relative)
        groups = [np.sort(scaled)]
        n_units = None
        if is_new:
            n_units = n_independent(scaled, tasks)
        return cls(scales, groups, n_units, is_relative)

    @classmethod
    def read(cls, stored: StoredIntervals) -> Intervals:
        """Return what `to_dict` wrote."""
        scales = None
        if stored.scales is not None:
            scales = np.asarray(stored.scales, dtype=float)
        groups = [np.asarray(group, dtype=float) for group in stored.groups]
        is_relative = stored.is_relative
        if is_relative is None:
            # Files of earlier versions had scales of tasks or of the model, not both.
            is_relative = scales is None
        return cls(scales, groups, stored.n_independent, is_relative)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with at most `MAX_STORED` quantiles of each group."""
        groups = []
        for group in self.groups:
            if len(group) > MAX_STORED:
                probabilities = np.linspace(0, 1, MAX_STORED)
                group = np.quantile(group, probabilities)
            groups.append(group.tolist())
        scales = None
        if self.scales is not None:
            scales = self.scales.tolist()
        content: dict[str, Any] = {
            "scales": scales,
            "groups": groups,
            "is_relative": self.is_relative,
        }
        if self.n_independent is not None:
            content["n_independent"] = self.n_independent
        return content

    def ends(
        self, tasks: Array, deviations: Array | None, level: float
    ) -> tuple[Array, Array]:
        """Return how far the ends lie from the predictions, below and above.

        Parameters
        ----------
        tasks : ndarray of shape (n,)
            Task of each row; -1 for a new one.
        deviations : ndarray of shape (n,) or None
            Needed where the model predicts the scale.
        level : float
            Probability of the interval.
        """
        n_units = self.n_independent
        pairs = [_ends(group, level, n_units) for group in self.groups]
        lower, upper = np.array(pairs).T
        group = np.zeros(len(tasks), dtype=int)
        if len(self.groups) > 1:
            group = tasks
        scale = self._scales_of(tasks, deviations)
        return lower[group] * scale, upper[group] * scale

    def means(
        self, predicted: Array, tasks: Array, deviations: Array | None, inverse: Any
    ) -> Array:
        """Return the mean of ``inverse(prediction + error)`` over the stored errors."""
        scale = self._scales_of(tasks, deviations)
        means = np.empty(len(predicted))
        for row in range(len(predicted)):
            scaled_errors = self.groups[0]
            if len(self.groups) > 1:
                scaled_errors = self.groups[tasks[row]]
            values = predicted[row] + scale[row] * scaled_errors
            means[row] = np.mean(inverse(values))
        return means

    def _scales_of(self, tasks: Array, deviations: Array | None) -> Array:
        if self.scales is None:
            assert deviations is not None
            return deviations
        mean_square = float(np.mean(self.scales**2))
        average = math.sqrt(mean_square)
        # -1 of a new task would take the scale of the last task.
        known_tasks = np.maximum(tasks, 0)
        scales = np.where(tasks < 0, average, self.scales[known_tasks])
        if self.is_relative:
            assert deviations is not None
            return scales * deviations
        return scales


def is_covered(
    errors: Errors,
    n_tasks: int,
    *,
    is_shared: bool,
    is_new: bool = False,
    level: float = LEVEL,
) -> Array:
    """Return which rows lie in intervals that were learnt from the other folds, (n,).

    Rows of a single fold are divided at random.
    """
    folds = errors.folds
    if len(np.unique(folds)) < 2:
        rng = np.random.default_rng(0)
        folds = rng.permutation(len(folds)) % 5
    is_inside = np.zeros(len(folds), dtype=bool)
    for fold in np.unique(folds):
        inside = folds == fold
        learnt = Intervals.of(
            errors.taken(~inside), n_tasks, is_shared=is_shared, is_new=is_new
        )
        held = errors.taken(inside)
        below, above = learnt.ends(held.tasks, held.deviations, level)
        is_above = held.values >= below
        is_below = held.values <= above
        is_inside[inside] = is_above & is_below
    return is_inside


@dataclass(frozen=True)
class TaskCoverage:
    """Shares of test targets in the intervals of single tasks.

    Attributes
    ----------
    n_tasks : int
        Number of tasks with `MIN_TASK_ERRORS` test targets or more. Only these count.
    worst, best : float
        Smallest and largest share; NaN if no task counts.
    n_outside : int
        Number of tasks whose share is outside `TASK_LIMITS`.
    """

    n_tasks: int
    worst: float
    best: float
    n_outside: int

    @classmethod
    def of(cls, is_inside: Array, tasks: Array) -> TaskCoverage:
        """Return the coverage of tasks, given which rows lie in their intervals."""
        counts = np.bincount(tasks)
        n_inside = np.bincount(tasks, is_inside)
        is_counted = counts >= MIN_TASK_ERRORS
        shares = n_inside[is_counted] / counts[is_counted]
        low, high = TASK_LIMITS
        is_outside = (shares < low) | (shares > high)
        n_outside = int(np.sum(is_outside))
        worst = float(np.min(shares, initial=np.inf))
        best = float(np.max(shares, initial=-np.inf))
        if not len(shares):
            worst = math.nan
            best = math.nan
        return cls(len(shares), worst, best, n_outside)


def advice(errors: Errors, y: Array) -> str:
    """Return a transformation for targets whose errors ask for one, else nothing.

    Errors of positive targets that are skewed, or grow with the prediction, are.
    """
    values = y[~np.isnan(y)]
    if not len(values) or values.min() <= 0 or len(errors.values) < 20:
        return ""
    is_skewed = float(skew(errors.values)) > SKEWED
    growth = spearmanr(np.abs(errors.values), errors.predicted).statistic
    if not (is_skewed and growth > 0) and not growth > GROWING:
        return ""
    if values.max() < 1:
        return "logit"
    return "log"


def _task_scales(
    values: Array, tasks: Array, n_tasks: int, *, is_shared: bool
) -> tuple[Array, Array]:
    """Return the standard deviation of the errors of each task around 0.

    Also return one for each error, from the other errors of its task: an error that
    enters its own scale looks smaller than a new one.
    """
    counts = np.bincount(tasks, minlength=n_tasks)
    squares = np.bincount(tasks, values**2, n_tasks)
    average = squares.sum() / max(counts.sum(), 1)
    smallest = max(1e-12 * average, _SMALLEST)
    shrinkage = 0.0
    if not is_shared:
        shrinkage = shrinkage_rows(squares, counts)

    def deviations(total: Array, n_errors: Array) -> Array:
        if math.isinf(shrinkage):
            deviation = math.sqrt(max(average, smallest))
            return np.full(len(total), deviation)
        weights = n_errors + shrinkage
        variances = np.full(len(total), average)
        np.divide(
            total + shrinkage * average,
            weights,
            out=variances,
            where=weights > 0,
        )
        variances = np.maximum(variances, smallest)
        return np.sqrt(variances)

    squares_of_others = squares[tasks] - values**2
    # A difference of equal sums may be negative by rounding.
    squares_of_others = np.maximum(squares_of_others, 0.0)
    n_others = counts[tasks] - 1
    return deviations(squares, counts), deviations(squares_of_others, n_others)


def shrinkage_rows(squares: Array, counts: Array) -> float:
    """Return by how many rows the variances of tasks are shrunken, r.

    The variance of the logarithms of the task variances is estimated by the method of
    DerSimonian and Laird. An inverse chi-square with r degrees has this variance.
    Tasks differ only if their Q exceeds its expectation by more than the standard
    deviation times the root of 2, the price of a parameter in Akaike's criterion.

    Parameters
    ----------
    squares : ndarray of shape (n_tasks,)
        Sums of the squared errors of each task.
    counts : ndarray of shape (n_tasks,)
        Number of errors of each task.

    Returns
    -------
    float
        Infinite where the tasks do not differ.
    """
    is_counted = (counts > 1) & (squares > 0)
    half = counts[is_counted] / 2
    if len(half) < 2:
        return math.inf
    # Unbiased estimates of the logarithms of variances, and their precisions.
    logs = np.log(squares[is_counted] / (2 * half)) - digamma(half) + np.log(half)
    weights = 1 / polygamma(1, half)
    center = np.average(logs, weights=weights)
    n_free = len(logs) - 1
    excess = np.sum(weights * (logs - center) ** 2) - n_free
    if excess < math.sqrt(2.0) * math.sqrt(2.0 * n_free):
        return math.inf
    variance = excess / (weights.sum() - np.sum(weights**2) / weights.sum())
    largest = polygamma(1, _MIN_SHRINKAGE / 2)
    smallest = polygamma(1, _MAX_SHRINKAGE / 2)
    variance = np.clip(variance, smallest, largest)
    return 2 * float(
        brentq(
            lambda half_r: polygamma(1, half_r) - variance,
            _MIN_SHRINKAGE / 2,
            _MAX_SHRINKAGE / 2,
        )
    )


def n_independent(errors: Array, tasks: Array) -> int:
    """Return the number of independent errors to which correlated ones amount.

    At least the number of tasks, at most the number of errors. The docstring of this
    module has the formula.
    """
    _, codes, sizes = np.unique(tasks, return_inverse=True, return_counts=True)
    n_errors = len(errors)
    n_tasks = len(sizes)
    if n_tasks < 2 or n_errors == n_tasks:
        return n_tasks
    # One-way analysis of variance: mean squares between and within the tasks.
    means = np.bincount(codes, errors) / sizes
    deviations = means - errors.mean()
    squares_between = np.sum(sizes * deviations**2)
    between = squares_between / (n_tasks - 1)
    residuals = errors - means[codes]
    squares_within = np.sum(residuals**2)
    within = squares_within / (n_errors - n_tasks)
    # Rows of an average task, where tasks have different numbers of rows.
    correction = np.sum(sizes**2) / n_errors
    n_rows = (n_errors - correction) / (n_tasks - 1)
    total = between + (n_rows - 1) * within
    if not total > 0:
        return n_tasks
    correlation = max((between - within) / total, 0.0)
    per_independent = 1 + (n_rows - 1) * correlation**2
    n_worth = round(n_errors / per_independent)
    n_worth = max(n_worth, n_tasks)
    return int(min(n_worth, n_errors))


def _ends(group: Array, level: float, n_units: int | None) -> tuple[float, float]:
    """Return the two quantiles of sorted errors between which a new one lies.

    Parameters
    ----------
    group : ndarray
        Sorted.
    level : float
    n_units : int or None
        Number of errors that are independent of each other; None: all.
    """
    n = len(group)
    if n_units is None:
        n_units = n
    if n_units < 2:
        return -math.inf, math.inf
    tail = (1 - level) / 2
    rank = math.floor((n_units + 1) * tail)
    if rank >= 1:
        position = max(math.floor(rank * n / n_units), 1)
        return float(group[position - 1]), float(group[n - position])
    # Too few errors for a quantile so far out: the interval of normal errors around 0.
    variance = np.mean(group**2) * (1 + 1 / n_units)
    quantile = t.ppf(1 - tail, n_units - 1)
    half = float(quantile * math.sqrt(variance))
    return -half, half
