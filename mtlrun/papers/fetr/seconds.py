"""Seconds of solvers for W, and the objective of FETR over the seconds of
algorithms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, Curve, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.papers.fetr.data import shared_regression, training_data
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

#: Excess over the best objective, relative to its fit term, to which seconds and
#: iterations are counted.
EXCESS_LEVEL = 1e-6
_MAX_ITER = 10**8
#: Shorter solutions are repeated, for a median.
_SHORT_SECONDS = 0.2
#: Number of repeated solutions of which the median is taken.
_N_REPEATS = 9
#: Largest number of points of a curve, evenly over the logarithm of the iteration.
_MAX_CURVE_POINTS = 300
#: A logarithmic axis has no zero, and a smaller excess is rounding.
_MIN_CURVE_EXCESS = 1e-15
#: Factors by which projected gradient changes the length of a step.
_GROW = 2.0
_SHRINK = 0.5
#: Largest number of lengths that are tried for a step.
_MAX_TRIALS = 60


# ---------------------------------------------------------------- W-step


@analysis(
    {
        "seconds": "seconds to solve for W, X'X given",
        "residual": "residual of the equations, relative to X'Y",
        "iterations": "iterations (1 for direct solvers)",
        "matrix_gb": "size of the matrix of the closed form in GB",
    },
    name="fetr-w-step",
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
    """Measure the seconds of a solver for W with random precision matrices.

    X'X and X'Y are given, because all solvers need them. S1 and S2 have random
    eigenvectors and eigenvalues log-uniform in [lower, upper]. Iterative solvers start
    at zero and stop at a relative residual of `tol`. Short solutions are repeated, and
    the median counts.

    Parameters
    ----------
    dataset : Dataset
        Regression, rows shared by all tasks.
    seed : int
        Seed of the precision matrices.
    solver : {"closed", "gradient", "cg", "sylvester", "eigen"}, default "eigen"
        "gradient" has the paper's step, from the bounds of the box.
    eta, rho, lower, upper : float
    tol : float, default 1e-8
    max_gb : float, default 4
        The closed form is not tried if its matrix would be larger; its seconds are NaN
        then.
    """
    data = shared_regression(dataset)
    rng = np.random.default_rng(seed)
    S1 = random_precision(data.n_features, lower, upper, rng).matrix
    S2 = random_precision(data.n_tasks, lower, upper, rng).matrix
    X = np.asarray(data.X)
    Y = np.asarray(data.y)
    system = CoupledSystem(X.T @ X, X.T @ Y, S1, S2, eta, rho)
    matrix_gb = np.nan
    if solver == "closed":
        matrix_gb = closed_form_bytes(data.n_features, data.n_tasks) / 1e9
    if matrix_gb > max_gb:
        line = (
            f"{data.n_features} features, {data.n_tasks} tasks: the closed form needs "
            f"a matrix of {matrix_gb:.3g} GB, more than the {max_gb:g} GB allowed; it "
            "was not tried."
        )
        values = {
            "seconds": np.nan,
            "residual": np.nan,
            "iterations": np.nan,
            "matrix_gb": matrix_gb,
        }
        return AnalysisResult(values, lines=[line])
    solution, seconds = _time_solution(_w_solver(solver, tol, lower, upper), system)
    return AnalysisResult(
        {
            "seconds": seconds,
            "residual": solution.residual,
            "iterations": float(solution.n_iter),
            "matrix_gb": matrix_gb,
        },
        solver={
            "n_iter": solution.n_iter,
            "converged": solution.residual <= max(tol, 1e-8),
        },
    )


def _w_solver(
    name: str, tol: float, lower: float, upper: float
) -> Callable[[CoupledSystem], Solution]:
    """Return a solver for W by its name."""
    if name != "gradient":
        return partial(solve_w, method=name, tol=tol, max_iter=_MAX_ITER)

    def solve(system: CoupledSystem) -> Solution:
        spectrum = box_spectrum(system, lower, upper)
        return solve_gradient(system, tol=tol, max_iter=_MAX_ITER, spectrum=spectrum)

    return solve


def _time_solution(
    solve: Callable[[CoupledSystem], Solution], system: CoupledSystem
) -> tuple[Solution, float]:
    """Return a solution and its seconds, the median of several short ones."""
    times: list[float] = []
    while True:
        start = time.perf_counter()
        solution = solve(system)
        times.append(time.perf_counter() - start)
        if len(times) > _N_REPEATS or times[0] > _SHORT_SECONDS:
            # The first of several short solutions also loads what it needs.
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
        "seconds_at_least": "the same; the seconds of the whole run where it was "
        "stopped before",
        "iterations_to_1e-6": "iterations to an objective within 1e-6 of the best one",
        "objective": "objective at the end",
        "final_excess": "excess over the best objective at the end, relative to its "
        "fit term",
        "iterations": "iterations in all",
        "seconds_run": "seconds in all",
    },
    name="fetr-convergence",
    labels={
        "final_excess": "excess over the best objective",
    },
    lower=(
        "seconds_to_1e-6",
        "seconds_at_least",
        "iterations_to_1e-6",
        "objective",
        "final_excess",
    ),
    # Iterations go on until rounding ends them.
    varies=("seconds*", "final_excess", "iterations"),
    changes=[
        "our algorithm rotates W and the precisions, and all stop when little is left"
    ],
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
    """Follow the objective of FETR over the seconds of an algorithm.

    All algorithms start at W = 0 and S1 = S2 = I. The best objective comes from a long
    run of coordinate minimization. The excess over it is relative to its fit term, loss
    + eta ||W||^2, because the objective changes sign. Seconds include X'X. Nothing is
    random: repeats differ in their seconds only.

    Parameters
    ----------
    dataset : Dataset
        Its training rows of the split "fixed" if there is one, otherwise all rows;
        columns are standardized, targets centered.
    seed : int
        Without effect.
    algorithm : str, default "coordinate"
        "coordinate" (the paper's), "extrapolated" (ours, which rotates W and the
        precisions), "projected-gradient", "projected-gradient-exact" (exact W), or
        "flip-flop".
    eta, rho, lower, upper : float
    fudge : float, default 1e-3
        Fudge factor of flip-flop.
    tol : float, default 1e-12
        The algorithm stops at this relative decrease.
    seconds, patience : float, default 10 and 120
        The algorithm is stopped after `seconds`, or after `patience` times the seconds
        in which coordinate minimization comes within 1e-6 of the best objective,
        whichever is more.

    Returns
    -------
    AnalysisResult
        Curve ``excess``; the quantities are declared above.

    Raises
    ------
    ValueError
        If there is no such algorithm.
    """
    data = training_data(shared_regression(dataset))
    reference = solve_fetr(
        data,
        eta,
        rho,
        lower=lower,
        upper=upper,
        fit_intercept=True,
        tol=1e-14,
        max_iter=5000,
    )
    best = min(reference.objective)
    problem = FetrProblem(data, eta, rho, lower, upper, fit_intercept=True)
    scale = problem.fit_term(reference.info["state"].W)
    goal = best + EXCESS_LEVEL * scale

    def make_solver(name: str) -> Callable[..., SolverResult]:
        return partial(
            _algorithm(name, fudge),
            data,
            eta,
            rho,
            tol=tol,
            max_iter=_MAX_ITER,
            lower=lower,
            upper=upper,
            fit_intercept=True,
        )

    solve_plainly = make_solver("coordinate")
    solve = make_solver(algorithm)
    # One iteration loads what the algorithm needs.
    solve(callback=lambda *_: True)
    plain_times, _ = _run_timed(solve_plainly, lambda _, objective: objective <= goal)
    limit = max(seconds, patience * plain_times[-1])
    times, result = _run_timed(solve, lambda elapsed, _: elapsed > limit)
    objective = np.array(result.objective)
    excess = (objective - best) / scale
    near = np.flatnonzero(excess <= EXCESS_LEVEL)
    seconds_to_goal = np.nan
    iterations_to_goal = np.nan
    seconds_at_least = np.nan
    if len(near) > 0:
        seconds_to_goal = times[near[0]]
        iterations_to_goal = float(near[0] + 1)
        seconds_at_least = seconds_to_goal
    elif times[-1] > limit:
        # An algorithm that ends elsewhere by itself never arrives, and has no such
        # seconds.
        seconds_at_least = times[-1]
    side = "above" if excess[-1] >= 0 else "below"
    line = (
        f"{result.n_iter} iterations in {times[-1]:.3g} s: ends {abs(excess[-1]):.1e} "
        f"of the fit term {side} the best objective, {best:.8g}."
    )
    return AnalysisResult(
        {
            "seconds_to_1e-6": seconds_to_goal,
            "seconds_at_least": seconds_at_least,
            "iterations_to_1e-6": iterations_to_goal,
            "objective": float(objective[-1]),
            "final_excess": float(excess[-1]),
            "iterations": float(result.n_iter),
            "seconds_run": times[-1],
        },
        curves={"excess": _excess_curve(times, excess)},
        lines=[line],
        solver={
            "n_iter": result.n_iter,
            "objective": float(objective[-1]),
            "converged": True,
        },
    )


def _excess_curve(times: list[float], excess: Array) -> Curve:
    """Return the excess over the seconds, thinned out evenly in the logarithm."""
    positions = np.geomspace(1, len(times), _MAX_CURVE_POINTS).astype(int)
    kept = np.unique(positions) - 1
    return Curve(
        [times[i] for i in kept],
        np.maximum(excess, _MIN_CURVE_EXCESS)[kept].tolist(),
        "seconds",
        "excess of the objective over the fit term",
        "xy",
    )


def _run_timed(
    solve: Callable[..., SolverResult], stop: Callable[[float, float], bool]
) -> tuple[list[float], SolverResult]:
    """Run a solver until ``stop(seconds, objective)``.

    Returns
    -------
    times : list of float
        Seconds of each objective of the result.
    result : SolverResult
    """
    times: list[float] = []
    start = time.perf_counter()

    def note_time(_iteration: int, objective: float, _state: FetrState) -> bool:
        times.append(time.perf_counter() - start)
        return stop(times[-1], objective)

    result = solve(callback=note_time)
    end = time.perf_counter() - start
    # The solver may end without calling back for its last objective.
    n_missing = len(result.objective) - len(times)
    times += [end] * n_missing
    return times, result


def _algorithm(name: str, fudge: float) -> Callable[..., SolverResult]:
    """Return an algorithm by its name."""
    algorithms: dict[str, Callable[..., SolverResult]] = {
        "coordinate": partial(solve_fetr, accelerate=False),
        "extrapolated": solve_fetr,
        "flip-flop": partial(_solve_flip_flop, fudge=fudge),
        "projected-gradient": partial(solve_projected_gradient, w_step="gradient"),
        "projected-gradient-exact": partial(solve_projected_gradient, w_step="exact"),
    }
    if name not in algorithms:
        raise ValueError(
            f"algorithm must be one of {', '.join(algorithms)}, got {name!r}"
        )
    return algorithms[name]


def _solve_flip_flop(
    data: TaskData,
    eta: float,
    rho: float,
    *,
    fudge: float,
    callback: FetrCallback,
    **options: Any,
) -> SolverResult:
    """Run the flip-flop iteration as published; its objective is that of FETR."""
    objective: list[float] = []

    def objective_of_fetr(value: float, state: FetrState) -> float:
        d, m = state.W.shape
        traces = m * state.feature.values.sum() + d * state.task.values.sum()
        return value - rho * fudge * float(traces)

    def note_objective(iteration: int, value: float, state: FetrState) -> bool:
        objective.append(objective_of_fetr(value, state))
        return bool(callback(iteration, objective[-1], state))

    result = solve_fetr(
        data,
        eta,
        rho,
        fudge=fudge,
        accelerate=False,
        callback=note_objective,
        **options,
    )
    # The round that ends the run by itself is not called back.
    if len(objective) < len(result.objective):
        last_value = result.objective[-1]
        objective.append(objective_of_fetr(last_value, result.info["state"]))
    return replace(result, objective=objective)


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
    """Minimize the objective of `solve_fetr` by projected gradient steps.

    Steps on S1 and S2 alternate with steps on W: ``S1 <- P(S1 - t rho (W S2 W' - m
    S1^{-1}))`` with P the projection on the box, S2 likewise. The length t is searched:
    it is doubled at the start of each step and halved until the objective lies below
    its quadratic model. X'X is computed once.

    Parameters
    ----------
    data, eta, rho, lower, upper, fit_intercept
        As of `solve_fetr`.
    w_step : {"gradient", "exact"}, default "gradient"
        W by a gradient step with exact line search, or by the default solver of
        `solve_w`.
    tol : float, default 1e-10
        Stop when an iteration lowers the objective by at most this fraction of loss +
        eta ||W||^2.
    max_iter : int, default 100000
    callback : callable, optional
        Called with (iteration, objective, `FetrState`); stops the run by returning
        True.

    Returns
    -------
    SolverResult
        `info` has ``state``.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    if w_step not in ("gradient", "exact"):
        raise ValueError(f"w_step must be 'gradient' or 'exact', got {w_step!r}")
    problem = FetrProblem(data, eta, rho, lower, upper, fit_intercept)
    state = problem.start()
    feature_steps = _GradientSteps(problem, problem.m)
    task_steps = _GradientSteps(problem, problem.d)
    objective: list[float] = []
    message = f"stopped after max_iter={max_iter} iterations"
    converged = False
    decrease = np.inf
    iteration = 0
    for iteration in range(1, max_iter + 1):
        W = _next_w(problem, state, w_step)
        feature = feature_steps.step(
            state.feature, feature_moment(W, state.task.matrix)
        )
        task = task_steps.step(state.task, task_moment(W, feature.matrix))
        state = FetrState(W, feature, task)
        fit = problem.fit_term(W)
        objective.append(fit + problem.prior(state))
        if len(objective) > 1:
            scale = fit if fit > 0 else 1.0
            decrease = (objective[-2] - objective[-1]) / scale
        if decrease <= tol:
            message = f"an iteration gains a fraction of {decrease:.1e} <= tol {tol:g}"
            converged = True
            break
        if callback is not None and callback(iteration, objective[-1], state):
            message = "stopped by the callback"
            break
    return SolverResult(
        parts=state.W[np.newaxis],
        intercept=problem.form.intercept(state.W),
        converged=converged,
        n_iter=iteration,
        objective=objective,
        stop_crit=decrease,
        message=message,
        info={"state": state},
    )


def _next_w(problem: FetrProblem, state: FetrState, w_step: str) -> Array:
    """Return the next W, by a gradient step or exactly."""
    system = problem.system(state.feature, state.task)
    if w_step == "exact":
        return solve_w(system, start=state.W).W
    R = system.residual(state.W)
    curvature = float(np.vdot(R, system.apply(R)))
    if curvature > 0:
        return state.W + (float(np.vdot(R, R)) / curvature) * R
    return state.W


@dataclass
class _GradientSteps:
    """Projected gradient steps on rho (tr(S A) - count log|S|).

    Attributes
    ----------
    problem : FetrProblem
    count : int
    length : float
        Length of the last step, with which the next search starts.
    """

    problem: FetrProblem
    count: int
    length: float = 1.0

    def step(self, S: Precision, moment: Array) -> Precision:
        """Return S after one step, given A."""
        lower = self.problem.lower
        upper = self.problem.upper
        old = S.matrix
        old_value = self._value(S, moment)
        gradient = self.problem.rho * (moment - self.count * S.covariance)
        self.length *= _GROW
        for _ in range(_MAX_TRIALS):
            new = project(old - self.length * gradient, lower, upper)
            move = new.matrix - old
            linear = float(np.vdot(gradient, move))
            quadratic = float(np.vdot(move, move)) / (2.0 * self.length)
            if self._value(new, moment) <= old_value + (linear + quadratic):
                return new
            self.length *= _SHRINK
        # No step lowers the objective by more than rounding.
        return S

    def _value(self, S: Precision, moment: Array) -> float:
        trace = float(np.vdot(S.matrix, moment))
        return self.problem.rho * (trace - self.count * S.logdet)
