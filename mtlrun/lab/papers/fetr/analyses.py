"""Relationship learning: learning curves of the linear methods, covariances, and what the printed table says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student
from scipy.stats import ttest_ind_from_stats
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from mtlrun.data.dataset import Dataset
from mtlrun.engine.analysis import (
    AnalysisResult,
    Curve,
    Matrix,
    Printed,
    analysis,
    of_data_set,
    published_path,
    read_printed,
)
from mtlrun.estimators.independent import IndependentRidge
from mtlrun.estimators.relationship import FETR, MTFL, MTFRL, MTRL
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]

#: The paper sees negative correlations of the first so many tasks with the others, and a positive one of two of these.
FIRST_BLOCK, PAIR = 4, (4, 5)
#: Positions, velocities and accelerations of the seven joints.
FEATURE_BLOCK = 7
# Eigenvalues within this of a bound of the box, relatively, lie on it.
_ON_BOUND = 1e-6
# Correlations below this are zeros.
_ROUNDING = 1e-12
#: Table 1 as printed, and the least errors of any linear model on the test rows of SARCOS.
PRINTED = ("fetr/table1.csv", "fetr/bound.csv")
#: Table 1 as printed: the paper's method, the other linear ones, and the folds on School.
OURS, LINEAR, FOLDS = "FETR", ("STL", "MTFL", "MTRL", "MTFRL"), 10
#: Part of the training rows that the smallest subset of a learning curve has.
SMALLEST_PART = 0.3
# The methods whose printed errors on the large torques, those of joints 1 to 4, are nearest to FETR's.
CLOSE = ("MTRL", "MTFRL")
# Printed errors within this of the least error of any linear model, relatively, cannot be distinguished.
NEAR = 0.005


# ---------------------------------------------------------------- learning curves


@analysis(
    {
        "mse": "mean squared error, trained on all rows at hand",
        "extrapolated": "mean squared error extrapolated to the training rows of the paper",
        "half_width": "half of the 95% interval of the extrapolated error",
        "slope": "c of the learning curve sigma^2 (1 + c/n)",
        "bound": "least error that any linear model can have on the test rows (a fit to them)",
        "distance": "distance of the printed error from the extrapolated one, rounding taken off, over half_width",
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
    published: str = PRINTED[0],
) -> AnalysisResult:
    """Extrapolate the test error of a linear method to more training rows than are at hand.

    ``sigma^2 (1 + c/n)`` is fitted, task by task, to the mean test errors of fits on random subsets of n training rows.
    The interval comes from the jackknife: everything is repeated without each of `groups` random groups of the rows,
    with the quantile of Student's distribution; its variance is the mean over several partitions into groups, because a
    few rows with large torques weigh on it. It covers the choice of the training rows; the test rows are those of
    the paper.

    Parameters
    ----------
    dataset : Dataset
        Trained on the training rows of the split "fixed" if there is one, else on the first three quarters.
    seed : int
        Of subsets, groups and folds.
    method : {"STL", "MTFL", "MTRL", "MTFRL", "FETR"}, default "STL"
    grid : mapping, optional
        Values of the parameters; 3-fold cross-validation on the training rows chooses once, for subsets of all sizes.
    rows : int, default 44484
        Training rows of the paper.
    points : int, default 5
        Sizes of subsets; the smallest has 30% of the training rows, the largest leaves only a group out.
    repeats : int, default 5
        Subsets of every size.
    groups, partitions : int, default 10 and 8
    published : str
        File of the printed errors below the folder of the experiments.
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
    size_parts = np.linspace(SMALLEST_PART, 1 - 1 / groups, points)
    sizes = np.unique((size_parts * fits.n).astype(int))
    # (partitions, groups, sizes, tasks)
    errors = np.array(
        [fits.without_groups(sizes, groups, repeats, rng) for _ in range(partitions)]
    )
    curves = _fit_curves(sizes, errors)
    extrapolated, half_width = curves.extrapolate(rows)
    printed = printed_errors(published, data, method)
    distance = np.array(
        [
            _distance(*column)
            for column in zip(printed, extrapolated, half_width, strict=True)
        ]
    )
    mean_limits = curves.limits.mean(axis=(0, 1))
    per_task = {
        "mse": fits.errors(np.arange(fits.n)),
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
    intervals = {
        str(task): f"{center:.4g} ± {half:.2g}"
        for task, center, half in zip(data.tasks, extrapolated, half_width, strict=True)
    }
    return AnalysisResult(
        {name: float(np.mean(values)) for name, values in per_task.items()},
        curves={"error": error_curve},
        per_task={name: _without_nan(values) for name, values in per_task.items()},
        lines=[
            f"{method} ({_format_params(fits.chosen)}), extrapolated to {rows} "
            f"training rows, 95% interval: {_format_pairs(intervals)}.",
            *_outside_lines(intervals, printed, distance > 1),
        ],
    )


@dataclass(frozen=True)
class _LearningCurves:
    """Learning curves ``limit + slope / n``, one per task, partition and group.

    Attributes
    ----------
    limits, slopes : ndarray of shape (partitions, groups, tasks)
    """

    limits: Array
    slopes: Array

    def extrapolate(self, rows: int) -> tuple[Array, Array]:
        """Return the errors at `rows` training rows and half the width of their 95% intervals.

        Both have shape (tasks,). The intervals come from the jackknife over the groups.
        """
        n_groups = self.limits.shape[1]
        errors = self.limits + self.slopes / rows
        deviations = errors - errors.mean(axis=1, keepdims=True)
        sums_of_squares = np.sum(deviations**2, axis=1)
        variances = (n_groups - 1) / n_groups * sums_of_squares.mean(axis=0)
        quantile = float(student.ppf(0.975, n_groups - 1))
        return errors.mean(axis=(0, 1)), np.sqrt(variances) * quantile


def _fit_curves(sizes: Array, errors: Array) -> _LearningCurves:
    """Fit learning curves to errors of shape (partitions, groups, sizes, tasks)."""
    n_partitions, n_groups = errors.shape[:2]
    design = np.column_stack([np.ones(len(sizes)), 1.0 / sizes])
    targets = np.hstack(list(errors.reshape(-1, *errors.shape[2:])))
    solution = np.linalg.lstsq(design, targets, rcond=None)[0]
    limits, slopes = solution.reshape(2, n_partitions, n_groups, -1)
    return _LearningCurves(limits, slopes)


def _without_nan(values: Array) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def _format_params(params: Mapping[str, float]) -> str:
    texts = [f"{name} {value:g}" for name, value in params.items()]
    return ", ".join(texts) or "default parameters"


def _format_pairs(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _outside_lines(
    intervals: Mapping[str, str],
    printed: Sequence[Printed | None],
    is_outside: Array,
) -> list[str]:
    """Return a line that lists the printed errors outside their interval, if any are printed."""
    if not any(printed):
        return []
    outside = []
    for (task, interval), number, is_far in zip(
        intervals.items(), printed, is_outside, strict=True
    ):
        if number is not None and is_far:
            outside.append(f"{task} ({number.value} against {interval})")
    return [f"Printed outside this interval: {', '.join(outside) or 'none'}."]


#: The linear methods by the names under which they are printed.
ESTIMATORS: dict[str, type[BaseEstimator]] = {
    "STL": IndependentRidge,
    "MTFL": MTFL,
    "MTRL": MTRL,
    "MTFRL": MTFRL,
    "FETR": FETR,
}


class _Fits:
    """Test errors of one method with the parameters that cross-validation on all training rows chooses."""

    def __init__(
        self, data: Dataset, method: str, grid: Mapping[str, Sequence[float]], seed: int
    ) -> None:
        X, Y = np.asarray(data.X), np.asarray(data.y)
        middle = 3 * len(X) // 4
        train, test = data.splits.get(
            "fixed", [(np.arange(middle), np.arange(middle, len(X)))]
        )[0]
        self.n = len(train)
        self._train, self._test = (X[train], Y[train]), (X[test], Y[test])
        model = Pipeline([("scale", StandardScaler()), ("model", ESTIMATORS[method]())])
        names = {f"model__{name}": list(values) for name, values in grid.items()}
        folds = KFold(3, shuffle=True, random_state=seed)
        search = GridSearchCV(
            model, names, cv=folds, scoring="neg_mean_squared_error", refit=False
        ).fit(*self._train)
        self._model = model.set_params(**search.best_params_)
        self.chosen = {
            name.removeprefix("model__"): value
            for name, value in search.best_params_.items()
        }
        self.bound = least_errors(*self._test)

    def without_groups(
        self, sizes: Array, groups: int, repeats: int, rng: np.random.Generator
    ) -> list[list[Array]]:
        """Return the mean errors of subsets of every size, for each random group of the training rows left out.

        One order of the rows serves all groups and sizes, so that they differ in as few rows as possible.
        """
        member = rng.permutation(self.n) % groups
        orders = [rng.permutation(self.n) for _ in range(repeats)]
        kept = [
            [order[member[order] != group] for order in orders]
            for group in range(groups)
        ]
        return [
            [
                np.mean([self.errors(rows[:size]) for rows in some], axis=0)
                for size in sizes
            ]
            for some in kept
        ]

    def errors(self, rows: Array) -> Array:
        """Return the test errors of the tasks, trained on some of the training rows."""
        (X, Y), (X_test, Y_test) = self._train, self._test
        return np.asarray(
            np.mean(
                (clone(self._model).fit(X[rows], Y[rows]).predict(X_test) - Y_test)
                ** 2,
                axis=0,
            )
        )


def least_errors(X: Array, Y: Array) -> Array:
    """Return the errors of least squares with intercept on its own rows: no linear model has lower ones on them."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return np.asarray(
        np.mean((Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]) ** 2, axis=0)
    )


def _distance(printed: Printed | None, extrapolated: float, half: float) -> float:
    """Return how far a printed error is from the extrapolated one beyond rounding, in halves of the interval."""
    if printed is None:
        return math.nan
    rounding = 0.5 * 10.0**-printed.decimals
    return max(0.0, abs(float(printed.value) - extrapolated) - rounding) / half


def printed_errors(published: str, data: Dataset, method: str) -> list[Printed | None]:
    """Return the printed errors of a method on the tasks of a data set, None where there is none."""
    table = of_data_set(
        read_printed(published_path(published), f"configs/{published}"), data.id
    )
    found = {
        number.where.get("task"): number for number in table if number.head == method
    }
    return [found.get(str(task)) for task in data.tasks]


# ---------------------------------------------------------------- covariances


@analysis(
    {
        "cross_largest": "largest correlation of a task of the first block with one of the second",
        "cross_negative_share": "share of these correlations that are negative",
        "cross_mean": "mean of these correlations",
        "inside_mean": "mean correlation of two tasks of one block",
        "pair_correlation": "correlation of the pair of tasks named (5 and 6)",
        "feature_blocks": "mean absolute correlation of two features of one block of seven, over that of two blocks",
        "feature_bounds": "eigenvalues of the feature precision on a bound of the box",
        "task_bounds": "eigenvalues of the task precision on a bound of the box",
        "iterations": "iterations of the fit",
    },
    # With a wide box convergence is slow: the number of iterations depends on rounding,
    # and the correlations on where they end.
    varies=("iterations",),
    digits=2,
    changes=["the blocks of the features are compared, too"],
)
def fetr_covariances(
    dataset: Dataset,
    *,
    seed: int,
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    scale_targets: bool = False,
) -> AnalysisResult:
    """Return the covariances of features and tasks that FETR learns, and the signs of those of the tasks.

    Parameters
    ----------
    dataset : Dataset
        Rows and columns as in `fetr_convergence`.
    seed : int
        Without effect.
    eta, rho, lower, upper : float
    scale_targets : bool, default False
        Give the targets of every task unit variance: else tasks of small targets have small coefficients, and the box
        rather than the data decides their covariances.
    """
    data = training_data(shared_regression(dataset))
    names = [str(t) for t in dataset.tasks]
    if len(names) <= max(PAIR):
        raise ValueError(
            f"the covariances of the paper are those of at least {max(PAIR) + 1} tasks, not {len(names)}"
        )
    if scale_targets:
        data = data.with_targets(data.Y / data.Y.std(axis=0))
    model = FETR(eta, rho, lower=lower, upper=upper, tol=1e-10, max_iter=5000).fit(
        data.X, data.Y
    )
    correlation = _correlation(model.task_covariance_)
    cross = correlation[:FIRST_BLOCK, FIRST_BLOCK:]
    inside = np.concatenate(
        [
            _pairs(correlation[:FIRST_BLOCK, :FIRST_BLOCK]),
            _pairs(correlation[FIRST_BLOCK:, FIRST_BLOCK:]),
        ]
    )
    on_box = [
        _on_box(S, lower, upper)
        for S in (model.feature_precision_, model.task_precision_)
    ]
    features = [str(f) for f in dataset.features] or [
        f"x{j + 1}" for j in range(data.n_features)
    ]
    values = {
        "cross_largest": float(cross.max()),
        "cross_negative_share": float(np.mean(cross < 0)),
        "cross_mean": float(cross.mean()),
        "inside_mean": float(inside.mean()) if len(inside) else np.nan,
        "pair_correlation": float(correlation[PAIR]),
        "feature_blocks": _block_ratio(_correlation(model.feature_covariance_)),
        "feature_bounds": float(on_box[0]),
        "task_bounds": float(on_box[1]),
        "iterations": float(model.n_iter_),
    }
    line = (
        f"On a bound of the box [{lower:g}, {upper:g}], where it decides and not the data: {on_box[1]} of {len(names)} "
        f"eigenvalues of the task precision, {on_box[0]} of {len(features)} of the feature precision."
    )
    return AnalysisResult(
        values,
        matrices={
            "task covariance": _matrix(model.task_covariance_, names),
            "task correlation": _matrix(correlation, names),
            "feature covariance": _matrix(model.feature_covariance_, features),
            "feature correlation": _matrix(
                _correlation(model.feature_covariance_), features
            ),
        },
        lines=[line],
        solver={
            "n_iter": model.n_iter_,
            "objective": model.objective_[-1],
            "converged": model.converged_,
        },
    )


def _matrix(values: Array, names: Sequence[str]) -> Matrix:
    return Matrix(values.tolist(), list(names), list(names), centre=0.0)


def _correlation(covariance: Array) -> Array:
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    return np.where(np.abs(correlation) > _ROUNDING, correlation, 0.0)


def _block_ratio(correlation: Array) -> float:
    """Return how strongly features of one block are correlated, compared with those of two; NaN with a single block."""
    block = np.arange(len(correlation)) // FEATURE_BLOCK
    first, second = np.triu_indices(len(correlation), 1)
    same = block[first] == block[second]
    strength = np.abs(correlation[first, second])
    apart = float(strength[~same].mean()) if not same.all() else 0.0
    return float(strength[same].mean()) / apart if apart > 0 else np.nan


def _pairs(block: Array) -> Array:
    return block[np.triu_indices(len(block), 1)]


def _on_box(S: Array, lower: float, upper: float) -> int:
    nu = np.linalg.eigvalsh(S)
    return int(
        np.sum((nu <= lower * (1 + _ON_BOUND)) | (nu >= upper * (1 - _ON_BOUND)))
    )


# ---------------------------------------------------------------- data


def training_data(dataset: Dataset) -> TaskData:
    """Return the rows for the solvers: the training rows of the split "fixed", else all; standardized columns."""
    rows = (
        dataset.splits["fixed"][0][0]
        if "fixed" in dataset.splits
        else np.arange(dataset.n_samples)
    )
    X, Y = np.asarray(dataset.X)[rows], np.asarray(dataset.y)[rows]
    spread = X.std(axis=0)
    return TaskData.from_matrix(
        (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), Y
    )


def shared_regression(dataset: Dataset) -> Dataset:
    """Return the data set; ValueError unless it has numbers as targets and its tasks share their rows."""
    if dataset.y.ndim != 2 or dataset.task_type != "regression":
        raise ValueError(
            "this measure needs a regression data set whose tasks share their rows"
        )
    return dataset


# ---------------------------------------------------------------- audit


@analysis(
    {
        "comparisons": "printed pairs of FETR and a linear method",
        "lower": "pairs in which FETR is lower",
        "equal": "pairs that are equal to the printed digits",
        "higher": "pairs in which FETR is higher",
        "mtn_not_lower": "pairs of MTN and a linear method or STN in which MTN is not lower",
        "mtn_fetr_not_lower": "joints on which MTN-FETR is not lower than MTN",
        "mtn_smallest_gain": "smallest relative reduction by MTN against a linear method or STN",
        "near_bound": "pairs on SARCOS in which both are within 0.5% of the least error of any linear model",
        "below_bound": "printed errors of linear methods on SARCOS below that bound by more than rounding",
        "smallest_gain": "smallest relative reduction by FETR against MTRL or MTFRL on joints 1 to 4",
        "school_largest_p": "largest p-value of Welch's test of FETR against a linear method on School",
    },
    needs_data=False,
)
def audit_table(
    dataset: Dataset, *, seed: int, published: Sequence[str] = PRINTED
) -> AnalysisResult:
    """Compare the printed errors cell by cell: does "consistently lower" follow from them?

    Least squares on the test rows themselves bounds the error of every linear model on SARCOS from below. Methods that
    come within 0.5% of it have found the same model up to noise, and nothing follows from their order.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    published : (str, str)
        Files of the printed table and of the bound below the folder of the experiments.
    """
    table_name, bound_name = published
    table = read_printed(published_path(table_name), f"configs/{table_name}")
    bounds = read_printed(published_path(bound_name), f"configs/{bound_name}")
    audit = _TableAudit(table, bounds)
    tests = _school_tests(table)
    values = {**audit.quantities(), "school_largest_p": max(tests.values())}
    title = f"{OURS} against the linear methods, as printed"
    p_values = ", ".join(f"{method} {p:.2g}" for method, p in tests.items())
    return AnalysisResult(
        {name: float(value) for name, value in values.items()},
        lines=[
            *audit.order_lines(),
            f"School, Welch's test on the printed means and deviations of {FOLDS} folds, p-values: {p_values}. (The "
            "folds are the same for all methods; a paired test would need their numbers, which are not printed.)",
            "SARCOS has one test set: the table says nothing about the variation of its numbers.",
            audit.bound_line(),
        ],
        tables={title: audit.rows()},
    )


class _Pair(NamedTuple):
    """Printed errors of the paper's method and of another one, on the same data.

    Attributes
    ----------
    method : str
        The other method.
    cell : str
        Name of the data.
    ours, other : float
        Errors; lower is better.
    """

    method: str
    cell: str
    ours: float
    other: float

    @property
    def order(self) -> str:
        """How our error compares with the other one: lower, equal or higher."""
        if self.ours < self.other:
            return "lower"
        return "equal" if self.ours == self.other else "higher"

    @property
    def gain(self) -> float:
        """Part of the other error by which ours is lower."""
        return 1 - self.ours / self.other


class _TableAudit:
    """All comparisons of two printed errors on the same data.

    Parameters
    ----------
    table : list of Printed
        The printed table.
    bounds : list of Printed
        Least error of any linear model for each joint.
    """

    def __init__(self, table: list[Printed], bounds: list[Printed]) -> None:
        self.table = table
        self.cells = {
            number.where["task"]: f"SARCOS, joint {joint}"
            for joint, number in enumerate(bounds, 1)
        }
        #: Data -> least error of any linear model.
        self.least = {
            self.cells[number.where["task"]]: float(number.value) for number in bounds
        }
        #: Method -> data -> printed error.
        self.errors: dict[str, dict[str, float]] = {}
        for number in table:
            cell = self.cells.get(number.where["task"], "School")
            self.errors.setdefault(number.head, {})[cell] = float(number.value)
        self.pairs = [
            _Pair(method, cell, ours, self.errors[method][cell])
            for method in LINEAR
            for cell, ours in self.errors[OURS].items()
        ]
        #: Pairs of which both errors are close to the least one.
        self.near = [pair for pair in self.pairs if self._is_near(pair)]

    def _is_near(self, pair: _Pair) -> bool:
        if pair.cell not in self.least:
            return False
        limit = (1 + NEAR) * self.least[pair.cell]
        return max(pair.ours, pair.other) <= limit

    def _count(self, order: str) -> int:
        return sum(pair.order == order for pair in self.pairs)

    def _count_below_bound(self) -> int:
        """Count the errors of linear methods that are too low even if rounded down."""
        count = 0
        for number in self.table:
            cell = self.cells.get(number.where["task"])
            largest = float(number.value) + 0.5 * 10.0**-number.decimals
            if number.head in ESTIMATORS and cell in self.least:
                count += largest < self.least[cell]
        return count

    def quantities(self) -> dict[str, float]:
        """Return the counts and gains of the comparisons, by the name of the quantity."""
        networks = [
            _Pair(method, cell, self.errors["MTN"][cell], self.errors[method][cell])
            for method in (*LINEAR, OURS, "STN")
            for cell in self.least
        ]
        related_networks = [
            _Pair("MTN", cell, self.errors["MTN-FETR"][cell], self.errors["MTN"][cell])
            for cell in self.least
        ]
        first_joints = list(self.least)[:4]
        close_gains = [
            pair.gain
            for pair in self.pairs
            if pair.method in CLOSE and pair.cell in first_joints
        ]
        return {
            "comparisons": len(self.pairs),
            "lower": self._count("lower"),
            "equal": self._count("equal"),
            "higher": self._count("higher"),
            "mtn_not_lower": sum(pair.ours >= pair.other for pair in networks),
            "mtn_fetr_not_lower": sum(
                pair.ours >= pair.other for pair in related_networks
            ),
            "mtn_smallest_gain": min(pair.gain for pair in networks),
            "near_bound": len(self.near),
            "below_bound": self._count_below_bound(),
            "smallest_gain": min(close_gains),
        }

    def rows(self) -> dict[str, list[Any]]:
        """Return the table of all comparisons for the report."""
        columns = [
            "method",
            "cell",
            f"error of {OURS}",
            "error of the method",
            f"{OURS} is",
            "least of any linear model",
        ]
        rows = [[*pair, pair.order, self.least.get(pair.cell)] for pair in self.pairs]
        return {"columns": columns, "rows": rows}

    def order_lines(self) -> list[str]:
        """Return the sentences on whether "consistently lower" follows."""
        n_lower = self._count("lower")
        follows = "follows" if n_lower == len(self.pairs) else "does not follow"
        lines = [
            f"{OURS} is lower in {n_lower} of {len(self.pairs)} printed comparisons, "
            f"equal in {self._count('equal')}, higher in {self._count('higher')}: "
            f'"consistently lower" {follows}.'
        ]
        higher = [
            f"{pair.cell}: {pair.ours:g} against {pair.other:g} of {pair.method}"
            for pair in self.pairs
            if pair.order == "higher"
        ]
        equal = [
            f"{pair.cell.removeprefix('SARCOS, ')} with {pair.method}"
            for pair in self.pairs
            if pair.order == "equal"
        ]
        if higher:
            lines.append(f"Higher: {'; '.join(higher)}.")
        if equal:
            lines.append(f"Equal to the printed digits: {'; '.join(equal)}.")
        return lines

    def bound_line(self) -> str:
        """Return the sentence on pairs close to the least error of any linear model."""
        joints: dict[str, list[str]] = {}
        for pair in self.near:
            joint = pair.cell.removeprefix("SARCOS, joint ")
            joints.setdefault(pair.method, []).append(joint)
        methods = "; ".join(
            f"{method} on joints {', '.join(names)}" for method, names in joints.items()
        )
        return (
            f"{len(self.near)} pairs lie within {NEAR:.1%} of the least error that any linear model can have on the "
            f"test rows of SARCOS, least squares on these rows: {OURS} and {methods or 'no other method'}. The order "
            "of such a pair is undecided: both methods have found the same model up to noise."
        )


def _school_tests(table: list[Printed]) -> dict[str, float]:
    """Return the p-values of Welch's test of every linear method from the printed means and deviations."""
    school = {
        n.head: (float(n.value), float(n.std or 0), FOLDS)
        for n in of_data_set(table, "school")
    }
    return {
        m: float(
            ttest_ind_from_stats(*school[OURS], *school[m], equal_var=False).pvalue
        )
        for m in LINEAR
    }
