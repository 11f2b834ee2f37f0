"""Relationship learning: seconds of the solvers for W, and objective against seconds of three algorithms."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.engine.analysis import AnalysisResult, Curve, analysis
from mtlrun.lab.papers.fetr.analyses import shared_regression, training_data
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.fetr import (
    FetrCallback,
    FetrProblem,
    FetrState,
    Precision,
    feature_moment,
    project,
    solve_fetr,
    task_moment,
)
from mtlrun.solvers.relationship.wsystem import (
    CoupledSystem,
    Solution,
    box_spectrum,
    closed_form_bytes,
    solve_gradient,
    solve_w,
)

Array = np.ndarray[Any, np.dtype[Any]]

#: Excess over the best objective, relative to its fit term, that seconds and iterations are counted to.
LEVEL = 1e-6
_MAX_ITER = 10**8
# Fits shorter than this are repeated, for a median.
_SHORT, _REPEATS = 0.2, 9
# Curves have at most so many points, evenly spread over the logarithm of the iteration.
_POINTS = 300
# Of the step lengths of projected gradient.
_GROW, _SHRINK, _TRIALS = 2.0, 0.5, 60


# ---------------------------------------------------------------- W-step


@analysis(
    {
        "seconds": "seconds to solve for W, X'X given",
        "residual": "residual of the equations, relative to X'Y",
        "iterations": "iterations (1 for direct solvers)",
        "matrix_gb": "size of the matrix of the closed form in GB",
    },
    lower=("seconds", "residual"),
    varies=("seconds", "residual"),
)
def w_step_seconds(
    dataset: Dataset,
    *,
    seed: int,
    solver: str = "eigen",
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    tol: float = 1e-8,
    max_gb: float = 4.0,
) -> AnalysisResult:
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
    data = shared_regression(dataset)
    rng = np.random.default_rng(seed)
    S1, S2 = (
        random_precision(size, lower, upper, rng).matrix
        for size in (data.n_features, data.n_tasks)
    )
    X, Y = np.asarray(data.X), np.asarray(data.y)
    system = CoupledSystem(X.T @ X, X.T @ Y, S1, S2, eta, rho)
    memory = (
        closed_form_bytes(data.n_features, data.n_tasks) / 1e9
        if solver == "closed"
        else np.nan
    )
    values = {
        "seconds": np.nan,
        "residual": np.nan,
        "iterations": np.nan,
        "matrix_gb": memory,
    }
    if memory > max_gb:
        text = f"{data.n_features} features, {data.n_tasks} tasks: the closed form needs a matrix of {memory:.3g} GB"
        return AnalysisResult(
            values,
            lines=[f"{text}, more than the {max_gb:g} GB allowed; it was not tried."],
        )
    solution, seconds = _timed(_w_solver(solver, tol, lower, upper), system)
    values |= {
        "seconds": seconds,
        "residual": solution.residual,
        "iterations": float(solution.n_iter),
    }
    return AnalysisResult(
        values,
        solver={
            "n_iter": solution.n_iter,
            "converged": solution.residual <= max(tol, 1e-8),
        },
    )


def _w_solver(
    name: str, tol: float, lower: float, upper: float
) -> Callable[[CoupledSystem], Solution]:
    def gradient(system: CoupledSystem) -> Solution:
        return solve_gradient(
            system,
            tol=tol,
            max_iter=_MAX_ITER,
            spectrum=box_spectrum(system, lower, upper),
        )

    return (
        gradient
        if name == "gradient"
        else partial(solve_w, method=name, tol=tol, max_iter=_MAX_ITER)
    )


def _timed(
    solve: Callable[[CoupledSystem], Solution], system: CoupledSystem
) -> tuple[Solution, float]:
    """Return a solution and the seconds that it takes: the median of several unless it takes long."""
    times: list[float] = []
    while True:
        started = time.perf_counter()
        solution = solve(system)
        times.append(time.perf_counter() - started)
        if len(times) > _REPEATS or times[0] > _SHORT:
            # The first of several short ones also loads what it needs.
            return solution, float(np.median(times[1:] or times))


def random_precision(
    size: int, lower: float, upper: float, rng: np.random.Generator
) -> Precision:
    """Draw a uniformly random basis of eigenvectors and log-uniform eigenvalues."""
    Q, R = np.linalg.qr(rng.normal(size=(size, size)))
    values = np.exp(rng.uniform(np.log(lower), np.log(upper), size=size))
    return Precision(values, Q * np.sign(np.diag(R)))


# ---------------------------------------------------------------- convergence


@analysis(
    {
        "seconds_to_1e-6": "seconds to an objective within 1e-6 of the best one",
        "seconds_at_least": "the same; the seconds of the whole run where it was stopped before",
        "iterations_to_1e-6": "iterations to an objective within 1e-6 of the best one",
        "objective": "objective at the end",
        "final_excess": "excess over the best objective at the end, relative to its fit term",
        "iterations": "iterations in all",
        "seconds_run": "seconds in all",
    },
    lower=(
        "seconds_to_1e-6",
        "seconds_at_least",
        "iterations_to_1e-6",
        "objective",
        "final_excess",
    ),
    varies=("seconds*", "final_excess"),
)
def fetr_convergence(
    dataset: Dataset,
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
) -> AnalysisResult:
    """Follow the objective of FETR over the seconds of an algorithm, from W = 0 and S1 = S2 = I.

    The best objective is that of a long run of coordinate minimization. The excess over it is relative to the fit term
    there, loss + eta ||W||^2, because the objective changes sign. Seconds include X'X. Nothing is random: repeats
    differ in their seconds only.

    Parameters
    ----------
    dataset : Dataset
        Its training rows of the split "fixed" if there is one, else all rows; columns are standardized, targets
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
        The algorithm is stopped after so many seconds, or so many times those that coordinate minimization needs to
        come within 1e-6 of the best objective, whichever is more.

    Returns
    -------
    AnalysisResult
        Curve ``excess``; the quantities are declared above.
    """
    data = training_data(shared_regression(dataset))
    box: dict[str, Any] = {"lower": lower, "upper": upper, "fit_intercept": True}
    long = solve_fetr(data, eta, rho, tol=1e-14, max_iter=5000, **box)
    best = min(long.objective)
    scale = FetrProblem(data, eta, rho, **box).fit_term(long.info["state"].W)
    enough = best + LEVEL * scale
    plain = partial(
        _algorithm("coordinate", fudge),
        data,
        eta,
        rho,
        tol=tol,
        max_iter=_MAX_ITER,
        **box,
    )
    solve = partial(
        _algorithm(algorithm, fudge), data, eta, rho, tol=tol, max_iter=_MAX_ITER, **box
    )
    solve(callback=lambda *_: True)  # loads what it needs
    at, _ = _noted(plain, lambda _, objective: objective <= enough)
    limit = max(seconds, patience * at[-1])
    at, result = _noted(solve, lambda now, _: now > limit)
    objective = np.array(result.objective)
    excess = (objective - best) / scale
    near = np.flatnonzero(excess <= LEVEL)
    reached = len(near) > 0
    values = {
        "seconds_to_1e-6": at[near[0]] if reached else np.nan,
        # What ends elsewhere by itself never arrives, and has no such seconds.
        "seconds_at_least": at[near[0]]
        if reached
        else at[-1]
        if at[-1] > limit
        else np.nan,
        "iterations_to_1e-6": float(near[0] + 1) if reached else np.nan,
        "objective": float(objective[-1]),
        "final_excess": float(excess[-1]),
        "iterations": float(result.n_iter),
        "seconds_run": at[-1],
    }
    side = "above" if excess[-1] >= 0 else "below"
    end = f"ends {abs(excess[-1]):.1e} of the fit term {side} the best objective, {best:.8g}"
    floor = 1e-15  # a logarithmic axis has no zero, and less is rounding
    shown = np.unique(np.geomspace(1, len(at), _POINTS).astype(int)) - 1
    drawn = np.maximum(excess, floor)[shown].tolist()
    curve = Curve(
        [at[i] for i in shown],
        drawn,
        "seconds",
        "excess of the objective over the fit term",
        "xy",
    )
    return AnalysisResult(
        values,
        curves={"excess": curve},
        lines=[f"{result.n_iter} iterations in {at[-1]:.3g} s: {end}."],
        solver={
            "n_iter": result.n_iter,
            "objective": float(objective[-1]),
            "converged": True,
        },
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
    at += [time.perf_counter() - started] * (
        len(result.objective) - len(at)
    )  # the last round may not be noted
    return at, result


def _algorithm(name: str, fudge: float) -> Callable[..., SolverResult]:
    known: dict[str, Callable[..., SolverResult]] = {
        "coordinate": partial(solve_fetr, accelerate=False),
        "extrapolated": solve_fetr,
        "flip-flop": partial(solve_fetr, fudge=fudge),
        "projected-gradient": partial(solve_projected_gradient, w_step="gradient"),
        "projected-gradient-exact": partial(solve_projected_gradient, w_step="exact"),
    }
    if name not in known:
        raise ValueError(f"algorithm must be one of {', '.join(known)}, got {name!r}")
    return known[name]


# ---------------------------------------------------------------- projected gradient


def solve_projected_gradient(
    data: TaskData,
    eta: float,
    rho: float,
    *,
    lower: float = 0.01,
    upper: float = 100.0,
    w_step: str = "gradient",
    fit_intercept: bool = False,
    tol: float = 1e-10,
    max_iter: int = 100_000,
    callback: FetrCallback | None = None,
) -> SolverResult:
    """Minimize the objective of `solve_fetr` by projected gradient steps on S1 and S2 in turn with W.

    ``S1 <- P(S1 - t rho (W S2 W' - m S1^{-1}))`` with P the projection on the box, S2 likewise. The step t is searched:
    doubled at the start of every step, halved until the objective lies below its quadratic model. X'X is computed once.

    Parameters
    ----------
    data, eta, rho, lower, upper, fit_intercept
        As of `solve_fetr`.
    w_step : {"gradient", "exact"}, default "gradient"
        W by a gradient step with exact line search, or by the default solver of `solve_w`.
    tol : float, default 1e-10
        Stop when an iteration lowers the objective by at most this fraction of loss + eta ||W||^2.
    max_iter : int, default 100000
    callback : callable, optional
        Called with (iteration, objective, `FetrState`); stops the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``state``.

    Raises
    ------
    ValueError
        For parameters out of range.
    """
    if w_step not in ("gradient", "exact"):
        raise ValueError(f"w_step must be 'gradient' or 'exact', got {w_step!r}")
    problem = FetrProblem(data, eta, rho, lower, upper, fit_intercept)
    state, objective = problem.start(), []
    searches = (_Search(problem, problem.m), _Search(problem, problem.d))
    message, converged, decrease, it = (
        f"stopped after max_iter={max_iter} iterations",
        False,
        np.inf,
        0,
    )
    for it in range(1, max_iter + 1):
        W = _next_w(problem, state, w_step)
        feature = searches[0].step(state.feature, feature_moment(W, state.task.matrix))
        task = searches[1].step(state.task, task_moment(W, feature.matrix))
        state = FetrState(W, feature, task)
        fit = problem.fit_term(W)
        objective.append(fit + problem.prior(state))
        if len(objective) > 1:
            decrease = (objective[-2] - objective[-1]) / (fit if fit > 0 else 1.0)
        if decrease <= tol:
            message, converged = (
                f"an iteration gains a fraction of {decrease:.1e} <= tol {tol:g}",
                True,
            )
            break
        if callback is not None and callback(it, objective[-1], state):
            message = "stopped by the callback"
            break
    return SolverResult(
        parts=state.W[np.newaxis],
        intercept=problem.form.intercept(state.W),
        converged=converged,
        n_iter=it,
        objective=objective,
        stop_crit=decrease,
        message=message,
        info={"state": state},
    )


def _next_w(problem: FetrProblem, state: FetrState, w_step: str) -> Array:
    system = problem.system(state.feature, state.task)
    if w_step == "exact":
        return solve_w(system, start=state.W).W
    R = system.residual(state.W)
    curvature = float(np.vdot(R, system.apply(R)))
    return (
        state.W + (float(np.vdot(R, R)) / curvature) * R if curvature > 0 else state.W
    )


@dataclass
class _Search:
    """Projected gradient steps on tr(S A) - count log|S|, with a step length that is kept from call to call."""

    problem: FetrProblem
    count: int
    length: float = 1.0

    def step(self, S: Precision, moment: Array) -> Precision:
        old, before = S.matrix, self._value(S, moment)
        gradient = self.problem.rho * (moment - self.count * S.covariance)
        self.length *= _GROW
        for _ in range(_TRIALS):
            new = project(
                old - self.length * gradient, self.problem.lower, self.problem.upper
            )
            move = new.matrix - old
            model = float(np.vdot(gradient, move)) + float(np.vdot(move, move)) / (
                2.0 * self.length
            )
            if self._value(new, moment) <= before + model:
                return new
            self.length *= _SHRINK
        return S  # no step lowers the objective by more than rounding

    def _value(self, S: Precision, moment: Array) -> float:
        return self.problem.rho * (
            float(np.vdot(S.matrix, moment)) - self.count * S.logdet
        )
