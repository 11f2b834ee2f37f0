"""Relationship learning: seconds of the W-step, objective against seconds, covariances, and an audit of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mtlrun.core.result import SolverResult
from mtlrun.core.taskdata import TaskData
from mtlrun.data.dataset import Dataset
from mtlrun.estimators.fetr import FETR
from mtlrun.experiments.measures.measurement import Curve, Matrix, Measurement
from mtlrun.solvers.covariance import Precision
from mtlrun.solvers.fetr import FetrState, solve_fetr
from mtlrun.solvers.projected_gradient import solve_projected_gradient
from mtlrun.solvers.sylvester import (
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

#: Excess over the best objective, relative to it, that seconds and iterations are counted to.
LEVEL = 1e-6
_MAX_ITER = 10**8
# Curves have at most so many points, evenly spread over the logarithm of the iteration.
_POINTS = 300
# Fits shorter than this are repeated, for a median.
_SHORT, _REPEATS = 0.2, 9
# Eigenvalues within this of a bound of the box, relatively, lie on it.
_ON_BOUND = 1e-6
# Correlations below this are zeros.
_ROUNDING = 1e-12


# ---------------------------------------------------------------- W-step


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
    data = _needed(dataset)
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


# ---------------------------------------------------------------- convergence


def fetr_convergence(
    dataset: Dataset | None,
    *,
    seed: int,
    algorithm: str = "coordinate",
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    fudge: float = 1e-3,
    tol: float = 1e-12,
    seconds: float = 10.0,
    patience: float = 120.0,
) -> Measurement:
    """Follow the objective of FETR over the seconds of an algorithm, from W = 0 and S1 = S2 = I.

    The best objective is that of a long run of coordinate minimisation; the excess over it is relative to its absolute
    value. Seconds include X'X. Nothing is random: repeats differ in their seconds only.

    Parameters
    ----------
    dataset : Dataset
        Its training rows of the split "fixed" if there is one, else all rows; columns are standardised, targets
        centred.
    seed : int
        Without effect.
    algorithm : str, default "coordinate"
        "coordinate" (the paper's), "extrapolated" (ours), "projected-gradient", "projected-gradient-exact" (exact W),
        or "flip-flop".
    eta, rho, lower, upper : float
    fudge : float, default 1e-3
        Of flip-flop.
    tol : float, default 1e-12
        Relative decrease to stop at.
    seconds, patience : float, default 10 and 120
        The algorithm is stopped after so many seconds, or so many times those that coordinate minimisation needs to
        come within 1e-6 of the best objective, whichever is more.

    Returns
    -------
    Measurement
        Curve ``excess``; the quantities are named in the registry.
    """
    data = training_data(_needed(dataset))
    box: dict[str, Any] = {"lower": lower, "upper": upper, "fit_intercept": True}
    best = min(solve_fetr(data, eta, rho, tol=1e-14, max_iter=5000, **box).objective)
    enough = best + LEVEL * abs(best)
    plain = partial(_algorithm("coordinate", fudge), data, eta, rho, tol=tol, max_iter=_MAX_ITER, **box)
    solve = partial(_algorithm(algorithm, fudge), data, eta, rho, tol=tol, max_iter=_MAX_ITER, **box)
    solve(callback=lambda *_: True)  # loads what it needs
    at, _ = _noted(plain, lambda _, objective: objective <= enough)
    limit = max(seconds, patience * at[-1])
    at, result = _noted(solve, lambda now, _: now > limit)
    objective = np.array(result.objective)
    excess = (objective - best) / abs(best)
    near = np.flatnonzero(excess <= LEVEL)
    reached = len(near) > 0
    values = {
        "seconds_to_1e-6": at[near[0]] if reached else np.nan,
        "seconds_at_least": at[near[0]] if reached else at[-1],
        "iterations_to_1e-6": float(near[0] + 1) if reached else np.nan,
        "objective": float(objective[-1]),
        "final_excess": float(excess[-1]),
        "iterations": float(result.n_iter),
        "seconds_run": at[-1],
    }
    end = f"ends {excess[-1]:.1e} (relative) {'above' if excess[-1] >= 0 else 'below'} the best objective, {best:.8g}"
    floor = 1e-15  # a logarithmic axis has no zero, and less is rounding
    shown = np.unique(np.geomspace(1, len(at), _POINTS).astype(int)) - 1
    drawn = np.maximum(excess, floor)[shown].tolist()
    curve = Curve([at[i] for i in shown], drawn, "seconds", "excess of the objective (relative)", "xy")
    return Measurement(
        values,
        curves={"excess": curve},
        lines=[f"{result.n_iter} iterations in {at[-1]:.3g} s: {end}."],
        solver={"n_iter": result.n_iter, "objective": float(objective[-1]), "converged": True},
    )


def _noted(
    solve: Callable[..., SolverResult], stop: Callable[[float, float], bool]
) -> tuple[list[float], SolverResult]:
    """Run until ``stop(seconds, objective)``; return the seconds of every objective value, too."""
    at: list[float] = []
    started = time.perf_counter()

    def note(_: int, objective: float, __: FetrState) -> bool:
        at.append(time.perf_counter() - started)
        return stop(at[-1], objective)

    result = solve(callback=note)
    at += [time.perf_counter() - started] * (len(result.objective) - len(at))  # the last round may not be noted
    return at, result


def _algorithm(name: str, fudge: float) -> Callable[..., SolverResult]:
    if name == "coordinate":
        return lambda *a, **k: solve_fetr(*a, accelerate=False, **k)
    if name == "extrapolated":
        return solve_fetr
    if name == "flip-flop":
        return lambda *a, **k: solve_fetr(*a, fudge=fudge, **k)
    if name == "projected-gradient":
        return lambda *a, **k: solve_projected_gradient(*a, w_step="gradient", **k)
    if name == "projected-gradient-exact":
        return lambda *a, **k: solve_projected_gradient(*a, w_step="exact", **k)
    raise ValueError(
        "algorithm must be coordinate, extrapolated, flip-flop, projected-gradient or projected-gradient-exact, "
        f"got {name!r}"
    )


# ---------------------------------------------------------------- covariances


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
    data = training_data(_needed(dataset))
    names = [str(t) for t in _needed(dataset).tasks]
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
    features = [str(f) for f in _needed(dataset).features] or [f"x{j + 1}" for j in range(data.n_features)]
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


def _needed(dataset: Dataset | None) -> Dataset:
    if dataset is None or dataset.y.ndim != 2 or dataset.task_type != "regression":
        raise ValueError("this measure needs a regression data set whose tasks share their rows")
    return dataset
