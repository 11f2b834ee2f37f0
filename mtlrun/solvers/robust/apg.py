"""APG-RMTL: the accelerated proximal gradient method that the robust MTL papers compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from mtlrun.penalties.norms import TraceNorm
from mtlrun.penalties.spectral import svt_full
from mtlrun.problem.confirm import confirm
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import relative_gap
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import EXACT_SIZE
from mtlrun.problem.result import Callback, SolverResult, Tracker, relative_changes, start_parts
from mtlrun.problem.rotation import Rotation, find_basis
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.fista import FieldLoss, ProximalRun, QuadraticLoss, SmoothLoss, smooth_loss

#: Of the value of the loss: what rounding may take from the quadratic bound.
_ROUNDING = 1e-13


class FullSvdTraceNorm(TraceNorm):
    """The trace norm with its prox through the full SVD, as the papers' implementation has it."""

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return svt_full(W, step * self.alpha)[0]

    def prox_value(self, W: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        V, sigma = svt_full(W, step * self.alpha)
        return V, self.alpha * float(sigma.sum())


def with_full_svd(penalties: Sequence[Penalty]) -> list[Penalty]:
    """Return penalties whose trace norms take the full SVD of every iterate."""
    return [FullSvdTraceNorm(p.alpha) if type(p) is TraceNorm else p for p in penalties]


def check_choice(name: str, value: str, *known: str) -> None:
    """Refuse an option that is not known.

    Raises
    ------
    ValueError
    """
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def solve_apg(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    variant: Literal["paper", "fast", "backtracking"] = "paper",
    stop: Literal["paper", "gap"] = "paper",
    form: Literal["eigenbasis", "paper"] = "eigenbasis",
    eps: float = 1e-5,
    start: SolverResult | np.ndarray | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise loss + ||L||_* + lam ||E||_{1,2} (or any other penalties) as Chen, Zhou & Ye (2011) do.

    ::

        sum_i w_i l((X (L + E))_i, y_i) + sum_k penalty_k(W_k),   W_1 = L, W_2 = E

    FISTA on (L, E) jointly with the fixed step 1 / (2 * curvature * max_t sigma_max(X_t)^2): both blocks see the whole
    residual, hence the 2; curvature = 2 beta for the paper's losses. ``variant="paper"`` takes a full SVD every time;
    ``"fast"`` the eigendecomposition of the smaller Gram matrix and the gradient restart. The squared loss of a shared
    design without gaps is run in its eigenbasis, which changes no iterate; elsewhere products are those of
    `solve_fista`: a sparse X stays sparse, or X'X is used where it is cheaper. With ``form="paper"`` all products are
    with X itself and every SVD is full.

    ``variant="backtracking"`` has the form of the public implementation that these authors are likely to have run: a
    curvature that starts at that of the loss and is doubled until the quadratic bound holds, every value and gradient
    from X anew, and a second SVD of every iterate for the value of its trace norm. It finds the same solution and takes
    longer; it is there for comparisons of seconds with the papers.

    The paper's stop (Pan et al. 2015, Section VII): every part changes by at most eps relative to max(1, its norm),
    equation (25), or the objective by at most eps of itself, equation (26).

    Parameters
    ----------
    data : TaskData
    loss : Loss
        Smooth: squared, squared hinge or logistic.
    penalties : sequence of Penalty
    variant : {"paper", "fast", "backtracking"}
        "backtracking" needs ``form="paper"``.
    stop : {"paper", "gap"}
        Rules (25) or (26), or the relative duality gap `tol`.
    form : {"eigenbasis", "paper"}
        Whether an eigenbasis or the Gram matrix of the design may be used.
    eps : float, default 1e-5
        For the paper's rules.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start; the paper starts at zero.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; made if not given and needed.
    fit_intercept : bool, default False
    tol : float, default 1e-4
    max_iter : int, default 20000
    callback : callable, optional
        With ``stop="gap"`` called with (iteration, best primal, best dual) at every check, with ``stop="paper"`` with
        (iteration, objective, nan) at every iteration; stops the run by returning True.

    Returns
    -------
    SolverResult
        `gap` is that of the last iterate (best values with ``stop="gap"``); `info` has ``rule``, the rule that was
        met ("25", "26", "gap" or None).

    Raises
    ------
    ValueError
        If an option is unknown, the loss is not smooth, the rotation belongs to other data, or `start` has a wrong
        shape.
    """
    check_choice("variant", variant, "paper", "fast", "backtracking")
    check_choice("stop", stop, "paper", "gap")
    check_choice("form", form, "eigenbasis", "paper")
    if variant == "backtracking" and form != "paper":
        raise ValueError(f"variant='backtracking' needs form='paper', got form={form!r}")
    if variant == "paper" or form == "paper":
        penalties = with_full_svd(penalties)
    basis = None if form == "paper" else find_basis(data, loss, penalties, fit_intercept, rotation)
    parts = start_parts(start, len(penalties), (data.n_features, data.n_tasks))
    smooth: SmoothLoss
    if form == "paper":
        smooth, rows = FieldLoss(data, loss, fit_intercept), data.n_features
    elif basis is None or not isinstance(loss, SquaredLoss):
        smooth = smooth_loss(data, loss, fit_intercept, sharp=data.n_features <= EXACT_SIZE)
        rows = data.n_features
    else:
        smooth, rows = QuadraticLoss(basis, loss.scale), basis.rank
        parts = None if parts is None else basis.rotate(parts)
    parts = np.zeros((len(penalties), rows, data.n_tasks)) if parts is None else parts
    b = start.intercept if isinstance(start, SolverResult) and smooth.with_b else None
    kind = _BacktrackingRun if variant == "backtracking" else ProximalRun
    run = kind(smooth, penalties, parts, b, adaptive=False, restart=variant == "fast")
    if variant == "backtracking":
        run.curvature = loss.curvature
    dual_at: Callable[[], np.ndarray] | None = None
    if stop == "paper":
        result = _until_paper_rule(run, eps, max_iter, callback)
    else:
        tracker = Tracker(tol, max_iter, callback)
        run.until(tracker)
        parts, at = tracker.best
        result = tracker.result(parts, smooth.intercept(at), rule="gap" if tracker.converged else None)
        if isinstance(smooth, QuadraticLoss):
            dual_at = partial(smooth.form.lift, tracker.best_dual[1].W)
    if basis is not None:
        result.parts = np.stack([basis.lift(Q) for Q in result.parts])
    if isinstance(smooth, QuadraticLoss) and result.gap is not None:
        allowed = tol if stop == "gap" else max(2.0 * result.gap, tol)
        confirm(result, smooth.form, penalties, result.parts, scale=smooth.scale, tol=allowed, at=dual_at)
    return result


class _BacktrackingRun(ProximalRun):
    """The iteration with nothing kept between its steps, and with doubling in place of the bound on the curvature."""

    def step(self) -> list[float]:
        momentum = self._next_momentum()
        origin = self.parts + momentum * (self.parts - self.parts_before)
        b = self.at.b + momentum * (self.at.b - self.before.b)
        at = self.smooth.point(origin.sum(axis=0), b)
        gradient = self.smooth.gradient(at)
        value = self.smooth.value(self.smooth.point(at.W, b))  # a product of its own: value and gradient are apart
        while True:
            parts, new, _ = self._proximal_step(origin, at, gradient)
            moved, moved_b = parts - origin, new.b - at.b
            slope = sum(float(np.vdot(gradient.W, part)) for part in moved) + float(np.vdot(gradient.b, moved_b))
            square = float(np.vdot(moved, moved)) + self.b_units * float(np.vdot(moved_b, moved_b))
            bound = value + slope + 0.5 * self.curvature * square
            if self.smooth.value(new) <= bound + _ROUNDING * abs(value):
                break
            self.curvature *= 2.0
        self.parts_before, self.before = self.parts, self.at
        self.parts, self.at = parts, new
        return [self._value(p, W) for p, W in zip(self.penalties, parts, strict=True)]

    @staticmethod
    def _value(penalty: Penalty, W: np.ndarray) -> float:
        if isinstance(penalty, TraceNorm):
            return penalty.alpha * float(np.linalg.svd(W, full_matrices=False)[1].sum())
        return penalty.value(W)


def _until_paper_rule(run: ProximalRun, eps: float, max_iter: int, callback: Callback | None) -> SolverResult:
    smooth = run.smooth
    objective = [smooth.value(run.at) + sum(p.value(W) for p, W in zip(run.penalties, run.parts, strict=True))]
    rule, crit, it = None, np.inf, 0
    message = f"stopped after max_iter={max_iter} iterations"
    for it in range(1, max_iter + 1):
        values = run.step()
        objective.append(smooth.value(run.at) + sum(values))
        change = max(relative_changes(run.parts, run.parts_before))
        decrease = abs(objective[-1] - objective[-2]) / max(abs(objective[-2]), float(np.finfo(np.float64).tiny))
        rule, crit = ("25", change) if change <= eps else ("26", decrease) if decrease <= eps else (None, crit)
        if rule is not None:
            message = f"rule ({rule}): {crit:.2e} <= eps {eps:g}"
            break
        if callback is not None and callback(it, objective[-1], np.nan):
            message = "stopped by the callback"
            break
    dual = smooth.dual(run.at, run.penalties)
    return SolverResult(
        parts=run.parts,
        intercept=smooth.intercept(run.at),
        converged=rule is not None,
        n_iter=it,
        objective=objective,
        gap=relative_gap(objective[-1], dual),
        gaps=[(it, objective[-1], dual)],
        stop_crit=crit if rule is not None else min(change, decrease),
        message=message,
        info={"rule": rule},
    )
