"""The solvers of the papers on robust multi-task learning.

They are APG-RMTL, and LADM-RMTL (Pan, Xia, Yin, Liu, 2015).

APG is the accelerated proximal gradient method that they compare with, LADM linearized
alternating directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from mtlrun.errors import check_choice
from mtlrun.penalties.norms import TraceNorm, svt_full
from mtlrun.problem.losses import Loss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import (
    NULL_SHARE,
    Centred,
    centre,
    dual_point,
    dual_value,
    relative_gap,
    value_at_dual,
)
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import BADLY_SCALED, EXACT_SIZE, confirm
from mtlrun.problem.result import (
    Callback,
    SolverResult,
    Tracker,
    relative_changes,
    start_parts,
)
from mtlrun.problem.rotation import Rotation, find_basis
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.convex.admm import RELAXATION
from mtlrun.solvers.convex.fista import (
    FieldLoss,
    ProximalRun,
    QuadraticLoss,
    SmoothLoss,
    smooth_loss,
)

#: The published algorithms stop at gaps relative to max(1, |P|, |D|), not to the null
#: objective: their stored runs and timings are compared at these gaps.
UNIT_NULL = 1.0 / NULL_SHARE
#: Of the value of the loss: what rounding may take from the quadratic bound.
_ROUNDING = 1e-13


class FullSvdTraceNorm(TraceNorm):
    """The trace norm with a full SVD in its prox, as in the papers' implementation."""

    def prox(self, W: Array, step: float) -> Array:
        return svt_full(W, step * self.alpha)[0]

    def prox_value(self, W: Array, step: float) -> tuple[Array, float]:
        V, sigma = svt_full(W, step * self.alpha)
        return V, self.alpha * float(sigma.sum())


def with_full_svd(penalties: Sequence[Penalty]) -> list[Penalty]:
    """Return penalties whose trace norms take the full SVD of each iterate."""
    with_full: list[Penalty] = []
    for penalty in penalties:
        if type(penalty) is TraceNorm:
            with_full.append(FullSvdTraceNorm(penalty.alpha))
        else:
            with_full.append(penalty)
    return with_full


def solve_apg(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    variant: Literal["paper", "fast", "backtracking"] = "paper",
    stop: Literal["paper", "gap"] = "paper",
    form: Literal["eigenbasis", "paper"] = "eigenbasis",
    eps: float = 1e-5,
    start: SolverResult | Array | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize loss + ||L||_* + lam ||E||_{1,2} as Chen, Zhou & Ye (2011) do.

    Other penalties are allowed, too.

    ::

        sum_i w_i l((X (L + E))_i, y_i) + sum_k penalty_k(W_k),   W_1 = L, W_2 = E

    FISTA on (L, E) jointly with the fixed step 1 / (2 * curvature * max_t
    sigma_max(X_t)^2): both blocks see the whole residual, hence the 2; curvature = 2
    beta for the paper's losses. ``variant="paper"`` takes a full SVD every time;
    ``"fast"`` the eigendecomposition of the smaller Gram matrix and the gradient
    restart.

    The squared loss of a shared design without gaps is run in its eigenbasis, which
    changes no iterate. Elsewhere products are computed as in `solve_fista`: a sparse X
    stays sparse, or X'X is used where it is cheaper. With ``form="paper"`` all products
    are with X itself and every SVD is full.

    ``variant="backtracking"`` has the form of the public implementation that these
    authors are likely to have run: a curvature that starts at the one of the loss and
    is doubled until the quadratic bound holds, every value and gradient from X anew,
    and a second SVD of each iterate for the value of its trace norm. It finds the same
    solution and takes longer; it is there for comparisons of seconds with the papers.

    The paper's stop (Pan et al. 2015, Section VII): every part changes by at most eps
    relative to max(1, its norm), equation (25), or the objective by at most eps of
    itself, equation (26).

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
        From `prepare` with the same data and `fit_intercept`; computed if it is needed
        and not given.
    fit_intercept : bool, default False
    tol : float, default 1e-4
    max_iter : int, default 20000
    callback : callable, optional
        With ``stop="gap"`` called with (iteration, best primal, best dual) at every
        check, with ``stop="paper"`` with (iteration, objective, nan) at every
        iteration; stops the run by returning True.

    Returns
    -------
    SolverResult
        `gap` belongs to the last iterate (best values with ``stop="gap"``); `info` has
        ``rule``, the rule that was met ("25", "26", "gap" or None).

    Raises
    ------
    ValueError
        If an option is unknown, the loss is not smooth, the rotation belongs to other
        data, or `start` has a wrong shape.
    """
    check_choice("variant", variant, "paper", "fast", "backtracking")
    check_choice("stop", stop, "paper", "gap")
    check_choice("form", form, "eigenbasis", "paper")
    if variant == "backtracking" and form != "paper":
        raise ValueError(
            f"variant='backtracking' needs form='paper', got form={form!r}"
        )
    if variant == "paper" or form == "paper":
        penalties = with_full_svd(penalties)
    basis = None
    if form != "paper":
        basis = find_basis(data, loss, penalties, fit_intercept, rotation)
    parts = start_parts(start, len(penalties), (data.n_features, data.n_tasks))
    smooth: SmoothLoss
    if form == "paper":
        smooth = FieldLoss(data, loss, fit_intercept)
        rows = data.n_features
    elif basis is None or not isinstance(loss, SquaredLoss):
        is_small = data.n_features <= EXACT_SIZE
        smooth = smooth_loss(data, loss, fit_intercept, sharp=is_small)
        rows = data.n_features
    else:
        # The iterates are the same in coordinates of the row space.
        smooth = QuadraticLoss(basis, loss.scale)
        rows = basis.rank
        if parts is not None:
            parts = basis.rotate(parts)
    if parts is None:
        parts = np.zeros((len(penalties), rows, data.n_tasks))
    b = None
    if isinstance(start, SolverResult):
        b = smooth.start_intercept(start)
    run_class: type[ProximalRun] = ProximalRun
    if variant == "backtracking":
        run_class = _BacktrackingRun
    restart = variant == "fast"
    run = run_class(smooth, penalties, parts, b, adaptive=False, restart=restart)
    if variant == "backtracking":
        run.curvature = loss.curvature
    dual_at: Callable[[], Array] | None = None
    if stop == "paper":
        result = _until_paper_rule(run, eps, max_iter, callback)
    else:
        tracker = Tracker(tol, max_iter, callback, null=UNIT_NULL)
        run.until(tracker)
        parts, at = tracker.best
        rule = None
        if tracker.converged:
            rule = "gap"
        result = tracker.result(parts, smooth.intercept(at), rule=rule)
        if isinstance(smooth, QuadraticLoss):
            dual_at = partial(smooth.form.lift, tracker.best_dual[1].W)
    if basis is not None:
        result.parts = np.stack([basis.lift(Q) for Q in result.parts])
    if isinstance(smooth, QuadraticLoss) and result.gap is not None:
        # The rule of the paper promises no gap: the rows are to confirm the run's gap.
        allowed = tol
        if stop != "gap":
            allowed = max(2.0 * result.gap, tol)
        confirm(
            result,
            smooth.form,
            penalties,
            result.parts,
            scale=smooth.scale,
            tol=allowed,
            at=dual_at,
        )
    return result


class _BacktrackingRun(ProximalRun):
    """The iteration with doubling in place of the bound of the curvature.

    Nothing is kept between its steps.
    """

    def step(self) -> list[float]:
        momentum = self._next_momentum()
        origin = self.parts + momentum * (self.parts - self.parts_before)
        b = self.at.b + momentum * (self.at.b - self.before.b)
        at = self.smooth.point(origin.sum(axis=0), b)
        gradient = self.smooth.gradient(at)
        # As in the public implementation, value and gradient take a product each.
        point = self.smooth.point(at.W, b)
        value = self.smooth.value(point)
        while True:
            parts, new, _ = self._proximal_step(origin, at, gradient)
            moved = parts - origin
            moved_b = new.b - at.b
            parts_slope = sum(float(np.vdot(gradient.W, part)) for part in moved)
            slope = parts_slope + float(np.vdot(gradient.b, moved_b))
            parts_square = float(np.vdot(moved, moved))
            square = parts_square + self.b_units * float(np.vdot(moved_b, moved_b))
            bound = value + slope + 0.5 * self.curvature * square
            if self.smooth.value(new) <= bound + _ROUNDING * abs(value):
                break
            self.curvature *= 2.0
        self.parts_before = self.parts
        self.before = self.at
        self.parts = parts
        self.at = new
        return [self._value(p, W) for p, W in zip(self.penalties, parts, strict=True)]

    @staticmethod
    def _value(penalty: Penalty, W: Array) -> float:
        if isinstance(penalty, TraceNorm):
            # The public implementation computes the vectors too, and does not use them.
            _, sigma, _ = np.linalg.svd(W, full_matrices=False)
            return penalty.alpha * float(sigma.sum())
        return penalty.value(W)


def _until_paper_rule(
    run: ProximalRun,
    eps: float,
    max_iter: int,
    callback: Callback | None,
) -> SolverResult:
    smooth = run.smooth
    objective = [
        smooth.value(run.at)
        + sum(p.value(W) for p, W in zip(run.penalties, run.parts, strict=True))
    ]
    rule = None
    crit = np.inf
    it = 0
    message = f"stopped after max_iter={max_iter} iterations"
    for it in range(1, max_iter + 1):
        values = run.step()
        objective.append(smooth.value(run.at) + sum(values))
        change = max(relative_changes(run.parts, run.parts_before))
        size = max(abs(objective[-2]), float(np.finfo(np.float64).tiny))
        decrease = abs(objective[-1] - objective[-2]) / size
        if change <= eps:
            rule = "25"
            crit = change
        elif decrease <= eps:
            rule = "26"
            crit = decrease
        if rule is not None:
            message = f"rule ({rule}): {crit:.2e} <= eps {eps:g}"
            break
        if callback is not None and callback(it, objective[-1], np.nan):
            message = "stopped by the callback"
            break
    # Without a rule that holds, the stopping criterion is the one that came nearer.
    if rule is None:
        crit = min(change, decrease)
    dual = smooth.dual(run.at, run.penalties)
    return SolverResult(
        parts=run.parts,
        intercept=smooth.intercept(run.at),
        converged=rule is not None,
        n_iter=it,
        objective=objective,
        gap=relative_gap(objective[-1], dual, null=UNIT_NULL),
        gaps=[(it, objective[-1], dual)],
        stop_crit=crit,
        message=message,
        info={"rule": rule},
    )


# ------------------------------------------------ LADM, as printed and corrected

# Constants of Algorithms 3 and 4.
MU_FIRST = 1e-6
MU_GROWTH = 1.9
MU_MAX = 1e10
_STEP_MARGIN = 1.02
# Corrected: largest ||violation of the constraint||_F / ||Y||_F at the end.
_FEASIBILITY = 1e-5
# Iterates move slowly when mu * sqrt(eta) * ||change||_F / ||Y||_F is below this times
# eps (LADMAP, eq. 24).
_SLOW = 0.1
# Relative to the parts, in any units of the targets.
_TINY = float(np.finfo(np.float64).tiny)
# Corrected: at such a relative duality gap, rule (25) shows short steps, not the end.
_FAR = 0.5
_GROSS = 0.1
# Factor of this and mu when iterates hardly move and the gap is still too large.
_FINER = 0.1
# Balanced: mu falls while the residual of the parts is at least this part of the
# residual of the multiplier.
_LAG = 0.1


def solve_ladm(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    variant: Literal[
        "accelerated", "balanced", "corrected", "sequential", "paper", "paper-past-zero"
    ] = "corrected",
    form: Literal["eigenbasis", "paper"] = "eigenbasis",
    stop: Literal["paper", "gap"] = "paper",
    eps: float = 1e-5,
    start: SolverResult | Array | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    mu: float | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Run LADM on loss + ||L||_* + lam ||E||_{1,2}.

    The loss is least squares or the squared hinge. Other penalties are allowed, too.

    ``variant="paper"`` follows the paper exactly. Least squares (Algorithm 3) solves
    the constrained problem ``min sum_k penalty_k(W_k) s.t. y_i = X_i w_i``, in which
    `loss.scale` does not appear. The squared hinge (Algorithm 4) solves the penalized
    problem. Here tau = 1 / (1.02 sigma_max^2) of the *stacked* designs, mu grows by 1.9
    at every iteration, and only rule (25) stops the run. Since mu starts at 1e-6, both
    shrinkages set the first iterates to zero, and the rule holds at once with W = 0 if
    1e-6 sigma_max(A'Y) < 1 (and 1e-6 ||X_i'y_i|| < lam for all tasks).
    ``"paper-past-zero"`` is the same, but does not stop while all parts are zero.

    The other variants solve the penalized problem, ``sum_i w_i l(M_i, y_i) + sum_k
    penalty_k(W_k)`` subject to ``M = A(W)``, with tau from the operator norm max_i
    sigma_max(X_i). They stop on rule (25) together with a feasibility test.
    ``"accelerated"`` and ``"corrected"`` take a joint linearized step in all parts
    (half the published length for two parts, over-relaxed by 1.6) and an exact step in
    M. ``"sequential"`` updates one part after the other with the published step,
    without over-relaxation, in the order of Algorithm 4.

    They differ in mu. ``"corrected"`` and ``"sequential"`` start at the published 1e-6
    and let mu grow only while the iterates move slowly (LADMAP: Lin, Liu & Su 2011).
    ``"accelerated"`` starts at the curvature c of the loss (2 beta for the paper's
    loss) and divides mu by sqrt(1 + 2 mu / c) at every iteration, so that mu is near c
    / k at iteration k. These are the step sizes of Algorithm 2 of Chambolle & Pock
    (2011), since the conjugate of a loss of curvature c is strongly convex. The rate is
    O(1/k^2) rather than O(1/k) for a fixed mu, and no constant has to be tuned to the
    data. A loss without curvature (the hinge) has mu as in ``"corrected"``.

    ``"balanced"`` is ``"accelerated"``, but mu stays the same at iterations at which
    the multiplier lags behind the parts: P < D / 10. P is the norm of the parts times
    the residual of their optimality condition, and D the norm of the multiplier times
    the violation of the constraint, both as residuals of one step (Goldstein et al.
    2013, "Adaptive primal-dual hybrid gradient methods"). It costs one more product
    with A', and takes far fewer iterations if the loss outweighs the penalties so much
    that mu = c / k becomes too small for the parts. In the eigenbasis, its certificate
    scales only the part of the residual that coefficients can reach, as in the other
    solvers.

    Least squares on a shared design without missing targets and weights runs in the
    eigenbasis of the design, where products are elementwise. This changes no iterate
    (`SharedRotation.diagonal_data`). With ``form="paper"``, products are with X itself,
    and each iterate takes a full SVD.

    Parameters
    ----------
    data : TaskData
        Weights count in the penalized objective; the constrained one knows observed
        (positive weight) or not.
    loss : SquaredLoss or SquaredHingeLoss
        All but the paper's variant take any loss with a prox.
    penalties : sequence of Penalty
    variant : str
        "accelerated", "balanced", "corrected", "sequential", "paper" or
        "paper-past-zero".
    form : {"eigenbasis", "paper"}
        Whether an eigenbasis of the design may be used.
    stop : {"paper", "gap"}
        Rule (25), or the relative duality gap `tol` of the penalized objective.
    eps : float, default 1e-5
        Rule (25): ||W_k - previous||_F <= eps max(1, ||previous||_F) for every part.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start of the parts. A result of this function also starts mu in the
        variants of the paper.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; computed if it is needed
        and not given.
    fit_intercept : bool, default False
        Unpenalized intercepts: by centering for the squared loss, and as variables for
        other losses, which not all variants support.
    tol : float, default 1e-4
        For ``stop="gap"``.
    max_iter : int, default 20000
    mu : float, optional
        First penalty parameter; default 1e-6, as printed, and the curvature of the loss
        if accelerated.
    callback : callable, optional
        Called with (iteration, objective, nan) at every iteration; stops the run by
        returning True.

    Returns
    -------
    SolverResult
        `objective` holds the values of the objective that is solved (constrained: of
        the penalties alone). `gap` is the relative duality gap of the penalized
        objective at the end, None for a constrained run. `info` has ``objective``,
        ``mu``, ``tau`` and ``feasibility``.

    Raises
    ------
    ValueError
        If an option is unknown, the loss does not fit the variant, the rotation belongs
        to other data, or `start` has a wrong shape.
    """
    check_choice(
        "variant",
        variant,
        "accelerated",
        "balanced",
        "corrected",
        "sequential",
        "paper",
        "paper-past-zero",
    )
    check_choice("form", form, "eigenbasis", "paper")
    check_choice("stop", stop, "paper", "gap")
    is_printed = variant in ("paper", "paper-past-zero")
    if is_printed and not isinstance(loss, SquaredLoss | SquaredHingeLoss):
        raise ValueError(
            "the paper's LADM has the squared or the squared hinge loss, not "
            f"{type(loss).__name__}"
        )
    squared_only = is_printed or variant == "sequential"
    if squared_only and fit_intercept and not isinstance(loss, SquaredLoss):
        raise ValueError(
            f"variant={variant!r} has intercepts with the squared loss only; use "
            "variant='accelerated'"
        )
    basis = None
    if form == "paper":
        penalties = with_full_svd(penalties)
    else:
        basis = find_basis(
            data,
            loss,
            penalties,
            fit_intercept,
            rotation,
            weighted=False,
        )
    working = data
    has_intercept = fit_intercept
    if basis is not None:
        # These data are centered already.
        working = basis.diagonal_data()
        has_intercept = False
    printed: type[_ConstrainedRun | _PrintedHingeRun] = _PrintedHingeRun
    if isinstance(loss, SquaredLoss):
        printed = _ConstrainedRun
    falling = {}
    if np.isfinite(loss.curvature):
        falling = {"accelerated": _AcceleratedRun, "balanced": _BalancedRun}
    joint = falling.get(variant, _PenalisedRun)
    kind = {
        "paper": printed,
        "paper-past-zero": printed,
        "sequential": _SequentialRun,
    }.get(variant, joint)
    run = kind(working, loss, penalties, has_intercept)
    run.may_be_zero = variant != "paper-past-zero"
    run.rotated = basis is not None
    first = start_parts(start, len(penalties), (data.n_features, data.n_tasks))
    if first is not None:
        if basis is not None:
            first = basis.rotate(first)
        run.begin_at(first)
        # The corrected run takes a mu of its own: the last one, grown to stop that run,
        # would freeze this one.
        if run.printed and isinstance(start, SolverResult):
            run.mu = start.info.get("mu", run.mu)
    if mu is not None:
        run.mu = mu
    if stop == "gap":
        tracker = Tracker(tol, max_iter, callback, null=UNIT_NULL)
        result = _until_gap(run, eps, tracker)
    else:
        result = _until_rule(run, eps, max_iter, callback)
    if basis is not None:
        result.parts = np.stack([basis.lift(Q) for Q in result.parts])
        result.intercept = basis.intercept(result.W)
        if result.gap is not None:
            # The dual point is computed from the primal solution here, not from the
            # multiplier: its gap shows only gross errors.
            confirm(
                result,
                basis,
                penalties,
                result.parts,
                scale=loss.scale,
                tol=max(_GROSS, tol),
            )
    return result


@dataclass(eq=False)
class _LadmIteration:
    """Common parts of the loops.

    `image` is A(sum of parts) + b, `C` the multiplier of the constraint.
    """

    data: TaskData
    loss: Loss
    penalties: Sequence[Penalty]
    fit_intercept: bool
    printed = False
    constrained = False
    may_be_zero = True
    rotated = False

    def __post_init__(self) -> None:
        data = self.data
        self.centred: Centred | None = None
        if self.fit_intercept and isinstance(self.loss, SquaredLoss):
            self.centred = centre(data)
            self.data = self.centred.data
        self.with_b = self.fit_intercept and self.centred is None
        if self.centred is None:
            self.operator = TaskOperator(data)
        else:
            self.operator = self.centred.operator
        self.weights = self.data.effective_weights()
        if self.weights is None:
            self.observed = None
        else:
            self.observed = (self.weights > 0).astype(np.float64)
        # The largest squared singular value, for the printed step of the designs of all
        # tasks below each other.
        if not self.printed:
            square = self.operator.norm() ** 2
        elif self.data.shared:
            square = data.n_tasks * self.operator.norm() ** 2
        elif self.operator.shift is None:
            one_task = TaskData.from_stacked(
                self.data.X, self.data.targets, np.zeros(data.n_rows)
            )
            square = TaskOperator(one_task).norm() ** 2
        else:
            square = float(np.linalg.eigvalsh(self.operator.gram().sum(axis=0))[-1])
        if square > 0:
            self.tau = 1.0 / (_STEP_MARGIN * square)
        else:
            self.tau = 1.0
        self.size = float(np.linalg.norm(self.data.targets)) or 1.0
        self.mu = MU_FIRST
        self.parts = np.zeros((len(self.penalties), data.n_features, data.n_tasks))
        self.b = np.zeros(data.n_tasks)
        self.image = np.zeros_like(data.targets)
        self.C = np.zeros_like(data.targets)
        self.values: list[float] = []
        self.violation = np.inf

    def begin_at(self, parts: Array) -> None:
        self.parts = parts
        self.image = self.operator.forward(parts.sum(axis=0))

    def step(self) -> None:
        """Make one iteration.

        It updates parts, image, C, the values of the penalties and the violation.
        """
        raise TypeError("use a subclass")

    def adapt_mu(self, before: Array, slow: float) -> None:
        """Let mu grow, if the parts have moved slowly since `before`."""
        moved = max(
            float(np.linalg.norm(a - b))
            for a, b in zip(self.parts, before, strict=True)
        )
        if self.printed or self.mu * moved < slow:
            self.mu = min(MU_GROWTH * self.mu, MU_MAX)

    def objective(self) -> float:
        if self.constrained:
            fit = 0.0
        else:
            fit = self.loss.value(self.image, self.data.targets, self.weights)
        return fit + sum(self.values)

    def theta(self) -> Array:
        """Return a dual point for the penalized objective."""
        return -self.loss.gradient(self.image, self.data.targets, self.weights)

    def dual(self) -> float:
        """Return the dual value of the penalized objective at the multiplier."""
        return dual_value(
            self.theta(),
            self.data,
            self.loss,
            self.penalties,
            intercept=self.with_b,
            operator=self.operator,
        )

    def intercept(self, W: Array, b: Array) -> Array:
        if self.centred is None:
            return b
        return self.centred.intercept(W)

    def solver_info(self) -> dict[str, Any]:
        objective = "penalised"
        if self.constrained:
            objective = "constrained"
        return {
            "objective": objective,
            "mu": self.mu,
            "tau": self.tau,
            "feasibility": self.violation,
        }

    def _observed_only(self, field: Array) -> Array:
        """Return D . field: zero where targets are missing."""
        if self.observed is None:
            return field
        return self.observed * field

    def _prox(self, k: int, gradient: Array, tau: float) -> tuple[Array, float]:
        return self.penalties[k].prox_value(
            self.parts[k] - tau * gradient, tau / self.mu
        )

    def _sequential_parts(self, offset: Array, sign: Array | float) -> None:
        """Update part after part on mu/2 ||sign . A(W) + offset||^2, linearized."""
        self.parts = self.parts.copy()
        self.values = []
        for k in range(len(self.parts)):
            residual = self._observed_only(sign * self.image + offset)
            self.parts[k], value = self._prox(
                k, self.operator.adjoint(sign * residual), self.tau
            )
            self.values.append(value)
            self.image = self.operator.forward(self.parts.sum(axis=0))


class _ConstrainedRun(_LadmIteration):
    """Algorithm 3: y = A(sum of parts) where observed."""

    printed = True
    constrained = True

    def step(self) -> None:
        self._sequential_parts(self.C / self.mu - self.data.targets, 1.0)
        residual = self._observed_only(self.image - self.data.targets)
        self.C = self.C + self.mu * residual
        self.violation = float(np.linalg.norm(residual)) / self.size


class _PrintedHingeRun(_LadmIteration):
    """Algorithm 4: M = D - F . A(sum of parts), F = D . Y.

    The loss is beta ||max(0, M)||^2, and M is updated last.
    """

    printed = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.M = np.zeros_like(self.data.targets)

    def step(self) -> None:
        if self.observed is None:
            D = np.ones_like(self.M)
        else:
            D = self.observed
        F = self._observed_only(self.data.targets)
        self._sequential_parts(self.M - D + self.C / self.mu, F)
        B = D - F * self.image - self.C / self.mu
        weights: Array | float = 1.0
        if self.weights is not None:
            weights = self.weights
        shrink = self.mu / (self.loss.scale * weights + self.mu)
        self.M = np.where(B <= 0, B, shrink * B)
        residual = self.M - D + F * self.image
        self.C = self.C + self.mu * residual
        self.violation = float(np.linalg.norm(residual)) / self.size


class _PenalisedRun(_LadmIteration):
    """Corrected: sum_i w_i l(M_i, y_i) with M = A(sum of parts) + b.

    (parts, b) are linearized together, the step of M is exact.
    """

    M: Array | None = None

    def begin_at(self, parts: Array) -> None:
        super().begin_at(parts)
        self.M = self.image
        self.C = self.loss.gradient(self.image, self.data.targets, self.weights)
        # Too small a mu would blow up what the multiplier lacks in accuracy.
        products = self.operator.adjoint(self.data.targets)
        size = float(np.linalg.norm(products))
        self.mu = 1.0 / max(size, 1.0)

    def step(self) -> None:
        if self.M is None:
            before = self._update_M(self.image)
        else:
            before = self.M
        self._update_parts(before)
        M = self._update_M(self._relaxed(before))
        self.violation = float(np.linalg.norm(self.image - M)) / self.size

    def theta(self) -> Array:
        if self.weights is None:
            return -self.C
        return np.where(self.weights > 0, -self.C, 0.0)

    def _update_parts(self, M: Array) -> None:
        # Parts that move at the same time share the length of the step.
        blocks = len(self.penalties) + int(self.with_b)
        residual = self.image - M + self.C / self.mu
        gradient = self.operator.adjoint(residual)
        parts = []
        self.values = []
        for k in range(len(self.parts)):
            part, value = self._prox(k, gradient, self.tau / blocks)
            parts.append(part)
            self.values.append(value)
        self.parts = np.stack(parts)
        if self.with_b:
            if self.data.shared:
                rows = self.data.n_rows
            else:
                rows = self.data.sizes.max()
            self.b = self.b - self.data.sum_by_task(residual) / (
                _STEP_MARGIN * blocks * rows
            )
        b = None
        if self.with_b:
            b = self.b
        self.image = self.operator.forward(self.parts.sum(axis=0), b)

    def _relaxed(self, M: Array) -> Array:
        return RELAXATION * self.image + (1.0 - RELAXATION) * M

    def _update_M(self, image: Array) -> Array:
        """Update M and the multiplier for an image, and return M.

        The image may be over-relaxed.
        """
        at = image + self.C / self.mu
        self.M = self.loss.prox(at, self.data.targets, 1.0 / self.mu, self.weights)
        self.C = self.mu * (at - self.M)
        return self.M


class _AcceleratedRun(_PenalisedRun):
    """The same steps with a mu that falls from the curvature of the loss on.

    The strongly convex dual of the loss allows it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        # Weights of rows scale the loss; its curvature belongs to the heaviest row.
        largest_weight = 1.0
        if self.weights is not None:
            largest_weight = float(self.weights.max())
        self.curvature = self.loss.curvature * largest_weight
        self.mu = self.curvature

    def begin_at(self, parts: Array) -> None:
        super().begin_at(parts)
        self.mu = self.curvature

    def adapt_mu(self, before: Array, slow: float) -> None:
        self.mu /= float(np.sqrt(1.0 + 2.0 * self.mu / self.curvature))


class _BalancedRun(_AcceleratedRun):
    """The same, but mu stays where it is while the multiplier lags behind the parts."""

    def step(self) -> None:
        self._old = self.C, self.image
        super().step()

    def adapt_mu(self, before: Array, slow: float) -> None:
        old_C, old_image = self._old
        blocks = len(self.penalties) + int(self.with_b)
        length = self.tau / blocks / self.mu
        parts = (before - self.parts) / length - self.operator.adjoint(old_C - self.C)
        multiplier = (old_C - self.C) / self.mu - (old_image - self.image)
        behind = _LAG * np.linalg.norm(multiplier) * np.linalg.norm(self.C)
        if np.linalg.norm(parts) * np.linalg.norm(self.parts) >= behind:
            super().adapt_mu(before, slow)

    def dual(self) -> float:
        theta, Z = dual_point(
            self.theta(),
            self.data,
            self.penalties,
            intercept=self.with_b,
            loss=self.loss,
            operator=self.operator,
        )
        if self.rotated:
            # The last row of an eigenbasis holds what no coefficients can fit: its part
            # need not be scaled.
            theta = np.vstack([theta[:-1], self.loss.scale * self.data.targets[-1:]])
        return value_at_dual(theta, Z, self.data, self.loss, self.penalties)


class _SequentialRun(_PenalisedRun):
    """The same problem with one part after the other, each with the full step, then M.

    Nothing is over-relaxed.
    """

    def _update_parts(self, M: Array) -> None:
        self._sequential_parts(self.C / self.mu - M, 1.0)

    def _relaxed(self, M: Array) -> Array:
        return self.image


def _until_rule(
    run: _LadmIteration,
    eps: float,
    max_iter: int,
    callback: Callback | None,
) -> SolverResult:
    slow = _slow_change(run, eps)
    objective: list[float] = []
    converged = False
    crit = np.inf
    it = 0
    message = f"stopped after max_iter={max_iter} iterations"
    for it in range(1, max_iter + 1):
        before = run.parts
        run.step()
        objective.append(run.objective())
        crit = max(relative_changes(run.parts, before))
        done = run.printed or run.violation <= _FEASIBILITY
        if crit <= eps and done and (run.may_be_zero or run.parts.any()):
            converged = True
            violation = f"relative violation {run.violation:.2e}"
            message = f"rule (25): {crit:.2e} <= eps {eps:g}; {violation}"
            break
        if callback is not None and callback(it, objective[-1], np.nan):
            message = "stopped by the callback"
            break
        run.adapt_mu(before, slow)
    gap = None
    if not run.constrained:
        gap = relative_gap(objective[-1], run.dual(), null=UNIT_NULL)
    info = run.solver_info()
    if converged and not run.printed and gap is not None and gap > _FAR:
        converged = False
        info[BADLY_SCALED] = True
        message = (
            f"rule (25) holds where the relative duality gap is {gap:.1e}: steps are "
            "short, X is badly scaled"
        )
    return SolverResult(
        parts=run.parts,
        intercept=run.intercept(run.parts.sum(axis=0), run.b),
        converged=converged,
        n_iter=it,
        objective=objective,
        gap=gap,
        stop_crit=crit,
        message=message,
        info=info,
    )


def _until_gap(run: _LadmIteration, eps: float, tracker: Tracker) -> SolverResult:
    if run.constrained:
        raise ValueError(
            "stop='gap' needs the penalized objective: the constrained one has no "
            "certificate"
        )
    slow = _slow_change(run, eps)
    for it in range(1, tracker.max_iter + 1):
        before = run.parts
        run.step()
        point = run.parts, run.b
        if tracker.due(it) and tracker.check(it, run.objective(), run.dual(), point):
            break
        change = max(relative_changes(run.parts, before, least=_TINY))
        if change <= eps and run.violation <= _FEASIBILITY:
            # Rule (25) holds too early: a smaller mu takes longer steps, and must not
            # grow for as little.
            eps = _FINER * eps
            slow = _FINER * slow
            run.mu = _FINER * run.mu
        else:
            run.adapt_mu(before, slow)
    parts, b = tracker.best
    return tracker.result(
        parts,
        run.intercept(parts.sum(axis=0), b),
        **run.solver_info(),
    )


def _slow_change(run: _LadmIteration, eps: float) -> float:
    """Return mu times the change of the parts below which mu grows."""
    return _SLOW * eps * run.size * float(np.sqrt(run.tau))
