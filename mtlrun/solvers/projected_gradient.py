"""Projected gradient for feature and task relationship learning: the rival of the block coordinate descent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlrun.core.result import SolverResult
from mtlrun.core.taskdata import TaskData
from mtlrun.solvers.covariance import Precision, feature_moment, project, task_moment
from mtlrun.solvers.fetr import FetrCallback, FetrProblem, FetrState
from mtlrun.solvers.sylvester import solve_w

_GROW, _SHRINK, _TRIALS = 2.0, 0.5, 60


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
        intercept=problem.form.intercept(problem.form.point(state.W)),
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
