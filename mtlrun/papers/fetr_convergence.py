"""Relationship learning: objective against seconds, of block coordinate descent, flip-flop and projected gradient."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.papers.fetr import needed, training_data
from mtlrun.papers.measure import Curve, Measurement, measure
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
from mtlrun.solvers.relationship.wsystem import solve_w

#: Excess over the best objective, relative to it, that seconds and iterations are counted to.
LEVEL = 1e-6
_MAX_ITER = 10**8
# Curves have at most so many points, evenly spread over the logarithm of the iteration.
_POINTS = 300
# Of the step lengths of projected gradient.
_GROW, _SHRINK, _TRIALS = 2.0, 0.5, 60


@measure(
    {
        "seconds_to_1e-6": "seconds to an objective within 1e-6 (relative) of the best one",
        "seconds_at_least": "the same; the seconds of the whole run where that was not reached",
        "iterations_to_1e-6": "iterations to an objective within 1e-6 (relative) of the best one",
        "objective": "objective at the end",
        "final_excess": "excess over the best objective at the end, relative to it",
        "iterations": "iterations in all",
        "seconds_run": "seconds in all",
    },
    lower=("seconds_to_1e-6", "seconds_at_least", "iterations_to_1e-6", "objective", "final_excess"),
)
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
        Curve ``excess``; the quantities are declared above.
    """
    data = training_data(needed(dataset))
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
    """Minimise the objective of `solve_fetr` by projected gradient steps on S1 and S2 in turn with W.

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
    message, converged, decrease, it = f"stopped after max_iter={max_iter} iterations", False, np.inf, 0
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
            message, converged = f"an iteration gains a fraction of {decrease:.1e} <= tol {tol:g}", True
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


def _next_w(problem: FetrProblem, state: FetrState, w_step: str) -> np.ndarray:
    system = problem.system(state.feature, state.task)
    if w_step == "exact":
        return solve_w(system, start=state.W).W
    R = system.residual(state.W)
    curvature = float(np.vdot(R, system.apply(R)))
    return state.W + (float(np.vdot(R, R)) / curvature) * R if curvature > 0 else state.W


@dataclass
class _Search:
    """Projected gradient steps on tr(S A) - count log|S|, with a step length that is kept from call to call."""

    problem: FetrProblem
    count: int
    length: float = 1.0

    def step(self, S: Precision, moment: np.ndarray) -> Precision:
        old, before = S.matrix, self._value(S, moment)
        gradient = self.problem.rho * (moment - self.count * S.covariance)
        self.length *= _GROW
        for _ in range(_TRIALS):
            new = project(old - self.length * gradient, self.problem.lower, self.problem.upper)
            move = new.matrix - old
            model = float(np.vdot(gradient, move)) + float(np.vdot(move, move)) / (2.0 * self.length)
            if self._value(new, moment) <= before + model:
                return new
            self.length *= _SHRINK
        return S  # no step lowers the objective by more than rounding

    def _value(self, S: Precision, moment: np.ndarray) -> float:
        return self.problem.rho * (float(np.vdot(S.matrix, moment)) - self.count * S.logdet)
