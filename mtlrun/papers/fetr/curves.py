"""Learning curves of linear methods, extrapolated to the rows of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.catalog.analysis import (
    AnalysisResult,
    Curve,
    Printed,
    analysis,
    of_data_set,
    read_printed,
)
from mtlrun.data.dataset import Dataset
from mtlrun.estimators.independent import IndependentRidge
from mtlrun.estimators.relationship import FETR, MTFL, MTFRL, MTRL
from mtlrun.papers.fetr.data import shared_regression
from mtlrun.utils.io import published_path

Array = np.ndarray[Any, np.dtype[Any]]

#: Table 1 as printed, relative to the folder of the experiments.
PRINTED_ERRORS = "fetr/table1.csv"
#: Share of the training rows in the smallest subset of a learning curve.
SMALLEST_SHARE = 0.3
#: Probability of an interval of the extrapolated error.
COVERAGE = 0.95
#: The linear methods by the names under which they are printed.
ESTIMATORS: dict[str, type[BaseEstimator]] = {
    "STL": IndependentRidge,
    "MTFL": MTFL,
    "MTRL": MTRL,
    "MTFRL": MTFRL,
    "FETR": FETR,
}
#: Prefix of the parameters of the linear method in its pipeline.
_PREFIX = "model__"


@analysis(
    {
        "mse": "mean squared error, trained on all rows at hand",
        "extrapolated": "mean squared error extrapolated to the training rows of the "
        "paper",
        "half_width": "half of the 95% interval of the extrapolated error",
        "slope": "c of the learning curve sigma^2 (1 + c/n)",
        "bound": "least error that any linear model can have on the test rows (a fit "
        "to them)",
        "distance": "distance of the printed error from the extrapolated one, rounding "
        "taken off, over half_width",
    },
    name="fetr-learning-curve",
    labels={
        "half_width": "half of the 95% interval",
        "distance": "distance from print, in half intervals",
    },
)
def learning_curve(
    dataset: Dataset,
    *,
    seed: int,
    method: str = "STL",
    grid: Mapping[str, Sequence[float]] | None = None,
    rows: int = 44_484,
    points: int = 5,
    repeats: int = 5,
    groups: int = 10,
    partitions: int = 8,
    published: str = PRINTED_ERRORS,
) -> AnalysisResult:
    """Extrapolate the test error of a linear method to more training rows.

    For each task, ``sigma^2 (1 + c/n)`` is fitted to the mean test errors of fits on
    random subsets of n training rows. The interval comes from the jackknife: everything
    is repeated without each of `groups` random groups of the rows, with the quantile of
    Student's distribution. Its variance is the mean over several partitions into
    groups, because a few rows with large torques have a large influence on it. It
    covers the choice of the training rows; the test rows are fixed, as in the paper.

    Parameters
    ----------
    dataset : Dataset
        The training rows are given by the split "fixed" if there is one; otherwise they
        are the first three quarters.
    seed : int
        Seed of subsets, groups and folds.
    method : {"STL", "MTFL", "MTRL", "MTFRL", "FETR"}, default "STL"
    grid : mapping, optional
        Parameter -> candidates. A 3-fold cross-validation on the training rows selects
        them once, for subsets of all sizes.
    rows : int, default 44484
        Number of training rows of the paper.
    points : int, default 5
        Number of sizes of subsets. The smallest has 30% of the training rows, the
        largest leaves out one group.
    repeats : int, default 5
        Subsets of each size.
    groups : int, default 10
        Groups of a partition; at least 2.
    partitions : int, default 8
    published : str
        File of the printed errors, relative to the folder of the experiments.

    Returns
    -------
    AnalysisResult
        Has the quantities per task, too.

    Raises
    ------
    ValueError
        If the method, the data set or the number of groups does not fit.
    """
    data = shared_regression(dataset)
    if method not in ESTIMATORS:
        raise ValueError(
            f"method must be one of {', '.join(ESTIMATORS)}, got {method!r}"
        )
    if groups < 2:
        raise ValueError(f"groups must be at least 2, got {groups}")
    rng = np.random.default_rng(seed)
    fits = _Fits(data, method, grid or {}, seed)
    size_shares = np.linspace(SMALLEST_SHARE, 1 - 1 / groups, points)
    sizes = np.unique((size_shares * fits.n_rows).astype(int))
    # Shape: (partitions, groups, sizes, tasks).
    errors = np.array(
        [fits.without_groups(sizes, groups, repeats, rng) for _ in range(partitions)]
    )
    curves = _fit_curves(sizes, errors)
    extrapolated, half_width = curves.extrapolate(rows)
    printed = printed_errors(published, data, method)
    distance = np.array(
        list(map(distance_beyond_rounding, printed, extrapolated, half_width))
    )
    mean_limits = curves.limits.mean(axis=(0, 1))
    per_task = {
        "mse": fits.errors(np.arange(fits.n_rows)),
        "extrapolated": extrapolated,
        "half_width": half_width,
        "slope": curves.slopes.mean(axis=(0, 1)) / mean_limits,
        "bound": fits.bound,
        "distance": distance,
    }
    relative_errors = np.mean(errors.mean(axis=(0, 1)) / mean_limits, axis=1)
    error_curve = Curve(
        sizes.tolist(),
        relative_errors.tolist(),
        "training rows",
        "error over its limit",
        "x",
    )
    intervals = {}
    for task, center, half in zip(data.tasks, extrapolated, half_width, strict=True):
        intervals[str(task)] = f"{center:.4g} ± {half:.2g}"
    params = [f"{name} {value:g}" for name, value in fits.best_params.items()]
    errors_text = ", ".join(f"{task} {text}" for task, text in intervals.items())
    lines = [
        f"{method} ({', '.join(params) or 'default parameters'}), extrapolated to "
        f"{rows} training rows, 95% interval: {errors_text}."
    ]
    outside = []
    for (task, interval), number, is_far in zip(
        intervals.items(), printed, distance > 1, strict=True
    ):
        if number is not None and is_far:
            outside.append(f"{task} ({number.value} against {interval})")
    if any(printed):
        lines.append(f"Printed outside this interval: {', '.join(outside) or 'none'}.")
    means = {name: float(np.mean(values)) for name, values in per_task.items()}
    plain = {name: _without_nan(values) for name, values in per_task.items()}
    return AnalysisResult(
        means,
        curves={"error": error_curve},
        per_task=plain,
        lines=lines,
    )


@dataclass(frozen=True)
class LearningCurves:
    """Learning curves ``limit + slope / n``, one per task, partition and group.

    Attributes
    ----------
    limits, slopes : ndarray of shape (partitions, groups, tasks)
    """

    limits: Array
    slopes: Array

    def extrapolate(self, rows: int) -> tuple[Array, Array]:
        """Extrapolate the errors to `rows` training rows.

        Returns
        -------
        errors : ndarray of shape (tasks,)
        half_widths : ndarray of shape (tasks,)
            Half the width of the 95% intervals, by the jackknife over the groups.
        """
        n_groups = self.limits.shape[1]
        errors = self.limits + self.slopes / rows
        deviations = errors - errors.mean(axis=1, keepdims=True)
        sums_of_squares = np.sum(deviations**2, axis=1)
        variances = (n_groups - 1) / n_groups * sums_of_squares.mean(axis=0)
        quantile = float(student.ppf((1 + COVERAGE) / 2, n_groups - 1))
        return errors.mean(axis=(0, 1)), np.sqrt(variances) * quantile


def _fit_curves(sizes: Array, errors: Array) -> LearningCurves:
    """Fit learning curves to errors of shape (partitions, groups, sizes, tasks)."""
    n_partitions, n_groups = errors.shape[:2]
    design = np.column_stack([np.ones(len(sizes)), 1.0 / sizes])
    targets = np.hstack(list(errors.reshape(-1, *errors.shape[2:])))
    solution = np.linalg.lstsq(design, targets, rcond=None)[0]
    limits, slopes = solution.reshape(2, n_partitions, n_groups, -1)
    return LearningCurves(limits, slopes)


def _without_nan(values: Array) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def printed_errors(published: str, data: Dataset, method: str) -> list[Printed | None]:
    """Return the printed errors of a method on the tasks of a data set.

    The error of a task is None if none is printed.
    """
    table = read_printed(published_path(published), f"configs/{published}")
    by_task = {}
    for number in of_data_set(table, data.id):
        if number.head == method:
            by_task[number.task] = number
    return [by_task.get(str(task)) for task in data.tasks]


def distance_beyond_rounding(
    printed: Printed | None, extrapolated: float, half: float
) -> float:
    """Return how far a printed error is from the extrapolated one, beyond rounding.

    The unit is half the width of the interval. NaN if no error is printed.
    """
    if printed is None:
        return math.nan
    rounding = 0.5 * 10.0**-printed.decimals
    return max(0.0, abs(float(printed.value) - extrapolated) - rounding) / half


# ---------------------------------------------------------------- fits


class _Fits:
    """Test errors of one method, with parameters selected on all training rows.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    best_params : dict
        Parameters selected by cross-validation.
    bound : ndarray of shape (tasks,)
        Least errors of any linear model on the test rows.
    """

    def __init__(
        self, data: Dataset, method: str, grid: Mapping[str, Sequence[float]], seed: int
    ) -> None:
        X = np.asarray(data.X)
        Y = np.asarray(data.y)
        if "fixed" in data.splits:
            train, test = data.splits["fixed"][0]
        else:
            n_train = 3 * len(X) // 4
            train = np.arange(n_train)
            test = np.arange(n_train, len(X))
        self.n_rows = len(train)
        self._train = (X[train], Y[train])
        self._test = (X[test], Y[test])
        model = Pipeline([("scale", StandardScaler()), ("model", ESTIMATORS[method]())])
        candidates = {_PREFIX + name: list(values) for name, values in grid.items()}
        search = GridSearchCV(
            model,
            candidates,
            cv=KFold(3, shuffle=True, random_state=seed),
            scoring="neg_mean_squared_error",
            refit=False,
        )
        search.fit(*self._train)
        self._model = model.set_params(**search.best_params_)
        self.best_params = {
            name.removeprefix(_PREFIX): value
            for name, value in search.best_params_.items()
        }
        self.bound = least_errors(*self._test)

    def without_groups(
        self, sizes: Array, groups: int, repeats: int, rng: np.random.Generator
    ) -> list[list[Array]]:
        """Return mean errors of subsets with each group of training rows left out.

        Returns
        -------
        list of list of ndarray of shape (tasks,)
            By group and size.
        """
        group_of_row = rng.permutation(self.n_rows) % groups
        # The same orders serve all groups and sizes, so that their subsets differ in as
        # few rows as possible.
        orders = [rng.permutation(self.n_rows) for _ in range(repeats)]
        errors = []
        for group in range(groups):
            kept_orders = [order[group_of_row[order] != group] for order in orders]
            errors.append([self._mean_errors(kept_orders, size) for size in sizes])
        return errors

    def _mean_errors(self, orders: Sequence[Array], size: int) -> Array:
        """Return the mean errors of fits to the first rows of each order."""
        errors = [self.errors(order[:size]) for order in orders]
        return np.asarray(np.mean(errors, axis=0))

    def errors(self, rows: Array) -> Array:
        """Return the test errors of the tasks after training on some training rows."""
        X, Y = self._train
        X_test, Y_test = self._test
        model = clone(self._model).fit(X[rows], Y[rows])
        return np.asarray(np.mean((model.predict(X_test) - Y_test) ** 2, axis=0))


def least_errors(X: Array, Y: Array) -> Array:
    """Return the errors of least squares with intercept on its own training rows.

    No linear model has lower errors on these rows.
    """
    X = X - X.mean(axis=0)
    Y = Y - Y.mean(axis=0)
    coef = np.linalg.lstsq(X, Y, rcond=None)[0]
    return np.asarray(np.mean((Y - X @ coef) ** 2, axis=0))
