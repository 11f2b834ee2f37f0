"""Relationship learning: seconds of the W-step, covariances, and what follows from the printed table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import ttest_ind_from_stats

from mtlrun.data.dataset import Dataset
from mtlrun.estimators.relationship import FETR
from mtlrun.papers.measure import Matrix, Measurement, measure, published_path
from mtlrun.papers.printed import Printed, of_data_set, read_printed
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.fetr import Precision
from mtlrun.solvers.relationship.wsystem import (
    CoupledSystem,
    Solution,
    box_spectrum,
    closed_form_bytes,
    solve_cg,
    solve_closed,
    solve_eigen,
    solve_gradient,
    solve_sylvester,
)

Array = np.ndarray[Any, np.dtype[Any]]

_MAX_ITER = 10**8
# Fits shorter than this are repeated, for a median.
_SHORT, _REPEATS = 0.2, 9
# Eigenvalues within this of a bound of the box, relatively, lie on it.
_ON_BOUND = 1e-6
# Correlations below this are zeros.
_ROUNDING = 1e-12
#: Table 1 as printed: the paper's method, the other linear ones, and the folds on School.
OURS, LINEAR, FOLDS = "FETR", ("STL", "MTFL", "MTRL", "MTFRL"), 10


# ---------------------------------------------------------------- W-step


@measure(
    {
        "seconds": "seconds to solve for W, X'X given",
        "residual": "residual of the equations, relative to X'Y",
        "iterations": "iterations (1 for direct solvers)",
        "matrix_gb": "size of the matrix of the closed form in GB",
    },
    lower=("seconds", "residual"),
)
def w_step_seconds(
    dataset: Dataset | None,
    *,
    seed: int,
    solver: str = "eigen",
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    tol: float = 1e-8,
    max_gb: float = 4.0,
) -> Measurement:
    """Measure the seconds of a solver for W, given X'X, X'Y and random precision matrices.

    S1 and S2 have random eigenvectors and eigenvalues log-uniform in [lower, upper]. Iterative solvers start at zero
    and stop at a relative residual of `tol`; computing X'X is not counted, all solvers need it. Short solutions are
    repeated and the median counts.

    Parameters
    ----------
    dataset : Dataset
        With a shared design.
    seed : int
        Of the precision matrices.
    solver : {"closed", "gradient", "cg", "sylvester", "eigen"}, default "eigen"
        "gradient" has the paper's step, from the bounds of the box.
    eta, rho, lower, upper : float
    tol : float, default 1e-8
    max_gb : float, default 4
        The closed form is not tried, and has no seconds, where its matrix would be larger.
    """
    data = needed(dataset)
    rng = np.random.default_rng(seed)
    S1, S2 = (_random_precision(size, lower, upper, rng) for size in (data.n_features, data.n_tasks))
    X, Y = np.asarray(data.X), np.asarray(data.y)
    system = CoupledSystem(X.T @ X, X.T @ Y, S1, S2, eta, rho)
    memory = closed_form_bytes(data.n_features, data.n_tasks) / 1e9 if solver == "closed" else np.nan
    values = {"seconds": np.nan, "residual": np.nan, "iterations": np.nan, "matrix_gb": memory}
    if memory > max_gb:
        text = f"{data.n_features} features, {data.n_tasks} tasks: the closed form needs a matrix of {memory:.3g} GB"
        return Measurement(values, lines=[f"{text}, more than the {max_gb:g} GB allowed; it was not tried."])
    solution, seconds = _timed(_w_solver(solver, tol, lower, upper, max_gb), system)
    values |= {"seconds": seconds, "residual": solution.residual, "iterations": float(solution.n_iter)}
    return Measurement(values, solver={"n_iter": solution.n_iter, "converged": solution.residual <= max(tol, 1e-8)})


def _w_solver(name: str, tol: float, lower: float, upper: float, max_gb: float) -> Callable[[CoupledSystem], Solution]:
    def gradient(system: CoupledSystem) -> Solution:
        return solve_gradient(system, tol=tol, max_iter=_MAX_ITER, spectrum=box_spectrum(system, lower, upper))

    known: dict[str, Callable[[CoupledSystem], Solution]] = {
        "closed": lambda system: solve_closed(system, max_bytes=int(max_gb * 1e9)),
        "gradient": gradient,
        "cg": lambda system: solve_cg(system, tol=tol, max_iter=_MAX_ITER),
        "sylvester": solve_sylvester,
        "eigen": solve_eigen,
    }
    if name not in known:
        raise ValueError(f"solver must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def _timed(solve: Callable[[CoupledSystem], Solution], system: CoupledSystem) -> tuple[Solution, float]:
    """Return a solution and the seconds that it takes: the median of several unless it takes long."""
    times: list[float] = []
    while True:
        started = time.perf_counter()
        solution = solve(system)
        times.append(time.perf_counter() - started)
        if len(times) > _REPEATS or times[0] > _SHORT:
            # The first of several short ones also loads what it needs.
            return solution, float(np.median(times[1:] or times))


def _random_precision(size: int, lower: float, upper: float, rng: np.random.Generator) -> Array:
    """Return a matrix with a uniformly random basis of eigenvectors and log-uniform eigenvalues."""
    Q, R = np.linalg.qr(rng.normal(size=(size, size)))
    values = np.exp(rng.uniform(np.log(lower), np.log(upper), size=size))
    return Precision(values, Q * np.sign(np.diag(R))).matrix


# ---------------------------------------------------------------- covariances


@measure(
    {
        "cross_largest": "largest correlation of a task of the first block with one of the second",
        "cross_negative_share": "share of these correlations that are negative",
        "cross_mean": "mean of these correlations",
        "inside_mean": "mean correlation of two tasks of one block",
        "pair_correlation": "correlation of the pair of tasks named (5 and 6)",
        "feature_bounds": "eigenvalues of the feature precision on a bound of the box",
        "task_bounds": "eigenvalues of the task precision on a bound of the box",
        "iterations": "iterations of the fit",
    },
)
def fetr_covariances(
    dataset: Dataset | None,
    *,
    seed: int,
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    scale_targets: bool = False,
    first_block: int = 4,
    pair: Sequence[int] = (5, 6),
) -> Measurement:
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
    first_block : int, default 4
        The paper sees a negative correlation of the first so many tasks with the others.
    pair : (int, int), default (5, 6)
        It sees a positive correlation of these tasks, counted from 1.
    """
    data = training_data(needed(dataset))
    names = [str(t) for t in needed(dataset).tasks]
    if not 0 < first_block < len(names) or not all(1 <= p <= len(names) for p in pair):
        raise ValueError(f"first_block={first_block} and pair={list(pair)} do not fit {len(names)} tasks")
    if scale_targets:
        data = data.with_targets(data.Y / data.Y.std(axis=0))
    model = FETR(eta, rho, lower=lower, upper=upper, tol=1e-10, max_iter=5000).fit(data.X, data.Y)
    correlation = _correlation(model.task_covariance_)
    cross = correlation[:first_block, first_block:]
    inside = np.concatenate(
        [_pairs(correlation[:first_block, :first_block]), _pairs(correlation[first_block:, first_block:])]
    )
    on_box = [_on_box(S, lower, upper) for S in (model.feature_precision_, model.task_precision_)]
    features = [str(f) for f in needed(dataset).features] or [f"x{j + 1}" for j in range(data.n_features)]
    values = {
        "cross_largest": float(cross.max()),
        "cross_negative_share": float(np.mean(cross < 0)),
        "cross_mean": float(cross.mean()),
        "inside_mean": float(inside.mean()) if len(inside) else np.nan,
        "pair_correlation": float(correlation[pair[0] - 1, pair[1] - 1]),
        "feature_bounds": float(on_box[0]),
        "task_bounds": float(on_box[1]),
        "iterations": float(model.n_iter_),
    }
    line = (
        f"On a bound of the box [{lower:g}, {upper:g}], where it decides and not the data: {on_box[1]} of {len(names)} "
        f"eigenvalues of the task precision, {on_box[0]} of {len(features)} of the feature precision."
    )
    return Measurement(
        values,
        matrices={
            "task covariance": _matrix(model.task_covariance_, names),
            "task correlation": _matrix(correlation, names),
            "feature covariance": _matrix(model.feature_covariance_, features),
            "feature correlation": _matrix(_correlation(model.feature_covariance_), features),
        },
        lines=[line],
        solver={"n_iter": model.n_iter_, "objective": model.objective_[-1], "converged": model.converged_},
    )


def _matrix(values: Array, names: Sequence[str]) -> Matrix:
    return Matrix(values.tolist(), list(names), list(names), centre=0.0)


def _correlation(covariance: Array) -> Array:
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    return np.where(np.abs(correlation) > _ROUNDING, correlation, 0.0)


def _pairs(block: Array) -> Array:
    return block[np.triu_indices(len(block), 1)]


def _on_box(S: Array, lower: float, upper: float) -> int:
    nu = np.linalg.eigvalsh(S)
    return int(np.sum((nu <= lower * (1 + _ON_BOUND)) | (nu >= upper * (1 - _ON_BOUND))))


# ---------------------------------------------------------------- data


def training_data(dataset: Dataset) -> TaskData:
    """Return the rows for the solvers: the training rows of the split "fixed", else all; standardised columns."""
    rows = dataset.splits["fixed"][0][0] if "fixed" in dataset.splits else np.arange(dataset.n_samples)
    X, Y = np.asarray(dataset.X)[rows], np.asarray(dataset.y)[rows]
    spread = X.std(axis=0)
    return TaskData.from_matrix((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), Y)


def needed(dataset: Dataset | None) -> Dataset:
    """Return the data set; ValueError without one, or if its tasks do not share their rows."""
    if dataset is None or dataset.y.ndim != 2 or dataset.task_type != "regression":
        raise ValueError("this measure needs a regression data set whose tasks share their rows")
    return dataset


# ---------------------------------------------------------------- audit


@measure(
    {
        "comparisons": "printed pairs of FETR and a linear method",
        "lower": "pairs in which FETR is lower",
        "equal": "pairs that are equal to the printed digits",
        "higher": "pairs in which FETR is higher",
        "mtn_not_lower": "pairs of MTN and a linear method or STN in which MTN is not lower",
        "mtn_fetr_not_lower": "joints on which MTN-FETR is not lower than MTN",
        "mtn_smallest_gain": "smallest relative reduction by MTN against a linear method or STN",
        "school_largest_p": "largest p-value of Welch's test of FETR against a linear method on School",
    },
    needs_data=False,
)
def audit_table(dataset: Dataset | None, *, seed: int, published: str = "fetr/table1.csv") -> Measurement:
    """Compare the printed errors cell by cell: does "consistently lower" follow from them?

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    published : str
        File of the table below the folder of the experiments.
    """
    table = read_printed(published_path(published), f"configs/{published}")
    verdicts = [(rival, cell, _verdict(a, b), a, b) for rival, cell, a, b in _printed_pairs(table)]
    counts = {v: sum(1 for _, _, verdict, _, _ in verdicts if verdict == v) for v in ("lower", "equal", "higher")}
    simpler = [(a, b) for r in (*LINEAR, OURS, "STN") for a, b in zip(*_joints(table, "MTN", r), strict=True)]
    related = list(zip(*_joints(table, "MTN-FETR", "MTN"), strict=True))
    values = {
        "comparisons": float(len(verdicts)),
        "lower": float(counts["lower"]),
        "equal": float(counts["equal"]),
        "higher": float(counts["higher"]),
        "mtn_not_lower": float(sum(a >= b for a, b in simpler)),
        "mtn_fetr_not_lower": float(sum(a >= b for a, b in related)),
        "mtn_smallest_gain": min(1 - a / b for a, b in simpler),
        "school_largest_p": max(p for _, p in _school_tests(table)),
    }
    rows = [[rival, cell, a, b, verdict] for rival, cell, verdict, a, b in verdicts]
    columns = ["rival", "cell", OURS, "the rival", f"{OURS} is"]
    return Measurement(
        values,
        lines=_sentences(table, verdicts, counts),
        tables={f"{OURS} against the linear methods, as printed": {"columns": columns, "rows": rows}},
    )


def _printed_pairs(table: list[Printed]) -> Iterator[tuple[str, str, float, float]]:
    """Yield (rival, cell, our error, the rival's error)."""
    school = {number.head: float(number.value) for number in of_data_set(table, "school")}
    for rival in LINEAR:
        for joint, (a, b) in enumerate(zip(*_joints(table, OURS, rival), strict=True), 1):
            yield rival, f"SARCOS, joint {joint}", a, b
        yield rival, "School", school[OURS], school[rival]


def _joints(table: list[Printed], *methods: str) -> tuple[list[float], ...]:
    """Return the errors of methods on SARCOS, joint by joint."""
    sarcos = list(of_data_set(table, "sarcos"))
    return tuple([float(number.value) for number in sarcos if number.head == method] for method in methods)


def _verdict(a: float, b: float) -> str:
    return "lower" if a < b else "equal" if a == b else "higher"


def _school_tests(table: list[Printed]) -> Iterator[tuple[str, float]]:
    """Yield (rival, p-value of Welch's test from the printed means and deviations)."""
    school = {n.head: (float(n.value), float(n.std or 0), FOLDS) for n in of_data_set(table, "school")}
    for rival in LINEAR:
        yield rival, float(ttest_ind_from_stats(*school[OURS], *school[rival], equal_var=False).pvalue)


def _sentences(
    table: list[Printed],
    verdicts: list[tuple[str, str, str, float, float]],
    counts: Mapping[str, int],
) -> list[str]:
    against = [
        f"{cell}: {a:g} against {b:g} of {rival}" for rival, cell, verdict, a, b in verdicts if verdict == "higher"
    ]
    ties = [
        f"{cell.removeprefix('SARCOS, ')} with {rival}" for rival, cell, verdict, _, _ in verdicts if verdict == "equal"
    ]
    tests = ", ".join(f"{rival} {p:.2g}" for rival, p in _school_tests(table))
    follows = counts["lower"] == len(verdicts)
    return [
        f"{OURS} is lower in {counts['lower']} of {len(verdicts)} printed comparisons, equal in {counts['equal']}, "
        f'higher in {counts["higher"]}: "consistently lower" {"follows" if follows else "does not follow"}.',
        *([f"Higher: {'; '.join(against)}."] if against else []),
        *([f"Equal to the printed digits: {'; '.join(ties)}."] if ties else []),
        f"School, Welch's test on the printed means and deviations of {FOLDS} folds, p-values: {tests}. (The "
        "folds are the same for all methods; a paired test would need their numbers, which are not printed.)",
        "SARCOS has one test set: the table says nothing about the variation of its numbers.",
    ]
