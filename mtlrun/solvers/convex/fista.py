"""Accelerated proximal gradient (FISTA) for any smooth loss and any sum of penalties, stopped on the duality gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtlrun.penalties.norms import needed_parts
from mtlrun.problem.losses import Loss
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.common import Callback, Tracker, start_parts
from mtlrun.solvers.convex.smooth import Gradient, Point, SmoothLoss, smooth_loss

# The step is tried this much longer at every iteration, and shortened by _GROW until the descent condition holds.
_SHRINK = 0.95
_GROW = 1.6
# The first curvature tried, relative to the bound K * curvature.
_FIRST = 0.25


def solve_fista(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | np.ndarray | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    presolve: bool = True,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise loss + penalties over parts W_1..W_K (and intercepts) by FISTA on all parts jointly.

    ::

        sum_i w_i l((X sum_k W_k + b)_i, y_i) + sum_k penalty_k(W_k)

    Beck & Teboulle (2009) with backtracking on a local Lipschitz constant that may shrink again, and the gradient
    restart of O'Donoghue & Candes (2015). The squared loss goes through Gram matrices where that is cheaper.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        Smooth: squared, logistic or squared hinge.
    penalties : sequence of Penalty
        One per part.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start.
    fit_intercept : bool, default False
        Unpenalised intercepts: by centring for the squared loss, else as variables.
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 20000
    presolve : bool, default True
        Leave out parts that cannot be needed (`needed_parts`).
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every check of the gap; stops the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``unavoidable``, ``relative_reduced``, ``needed``, ``restarts`` and ``curvature`` (the last one).

    Raises
    ------
    ValueError
        If the loss is not smooth or `start` has a wrong shape.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.problem.losses import LogisticLoss
    >>> from mtlrun.penalties.norms import L21
    >>> from mtlrun.problem.taskdata import TaskData
    >>> from mtlrun.solvers.convex.fista import solve_fista
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 4))
    >>> Y = np.where(X[:, :2] + 0.3 * rng.normal(size=(50, 2)) > 0, 1.0, -1.0)
    >>> result = solve_fista(TaskData.from_matrix(X, Y), LogisticLoss(), [L21(4.0)], tol=1e-6)
    >>> result.converged, result.gap <= 1e-6, result.W.shape
    (True, True, (4, 2))
    """
    smooth = smooth_loss(data, loss, fit_intercept)
    shape = (data.n_features, data.n_tasks)
    needed = needed_parts(penalties, shape) if presolve else list(range(len(penalties)))
    first = start_parts(start, len(penalties), shape)
    parts = np.zeros((len(needed), *shape)) if first is None else first[needed]
    if first is not None and len(needed) < len(penalties):
        parts[0] += first.sum(axis=0) - parts.sum(axis=0)
    b = start.intercept if isinstance(start, SolverResult) and smooth.with_b else None
    tracker = Tracker(tol, max_iter, callback, unavoidable=smooth.unavoidable)
    run = ProximalRun(smooth, [penalties[k] for k in needed], parts, b)
    run.until(tracker)
    best_parts, at = tracker.best
    full = np.zeros((len(penalties), *shape))
    full[needed] = best_parts
    return tracker.result(full, smooth.intercept(at), needed=needed, restarts=run.restarts, curvature=run.curvature)


class ProximalRun:
    """The iteration: `parts` and `at` (their sum) now, the same one step before.

    Parameters
    ----------
    smooth : SmoothLoss
    penalties : sequence of Penalty
    parts : ndarray of shape (n_parts, d, T)
        First iterate.
    b : ndarray of shape (T,), optional
        First intercepts.
    adaptive : bool, default True
        Backtrack on a local curvature; False: always the step of the global bound.
    restart : bool, default True
        Forget the momentum when it points uphill.
    """

    def __init__(
        self,
        smooth: SmoothLoss,
        penalties: Sequence[Penalty],
        parts: np.ndarray,
        b: np.ndarray | None = None,
        *,
        adaptive: bool = True,
        restart: bool = True,
    ) -> None:
        self.smooth = smooth
        self.penalties = penalties
        self.parts = self.parts_before = parts
        self.at = self.before = smooth.point(parts.sum(axis=0), b)
        # Every part, and b in its own units, sees the whole residual, so curvatures add up.
        blocks = len(penalties) + (1 if smooth.with_b else 0)
        self.bound = blocks * smooth.curvature or 1.0  # designs that are zero have no curvature: any step will do
        self.b_units = smooth.curvature_b / smooth.curvature if smooth.curvature > 0 else 1.0
        self.curvature = _FIRST * self.bound if adaptive else self.bound
        self.adaptive = adaptive
        self.restart = restart
        self.restarts = 0
        self._t = 1.0

    def until(self, tracker: Tracker) -> None:
        """Iterate until the tracker says stop; it is given (parts, point)."""
        for it in range(1, tracker.max_iter + 1):
            values = self.step()
            if not tracker.due(it):
                continue
            primal = self.smooth.value(self.at) + sum(values)
            if tracker.check(it, primal, self.smooth.dual(self.at, self.penalties), (self.parts, self.at)):
                break

    def step(self) -> list[float]:
        """Make one iteration; return the values of the penalties."""
        t = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self._t**2))
        momentum = (self._t - 1.0) / t
        self._t = t
        origin = self.parts + momentum * (self.parts - self.parts_before) if momentum else self.parts
        at = self.at.beyond(self.before, momentum)
        gradient = self.smooth.gradient(at)
        if self.adaptive:
            self.curvature *= _SHRINK
        while True:
            parts, new, values = self._proximal_step(origin, at, gradient)
            if self.curvature >= self.bound or self._descends(origin, at, gradient, parts, new):
                break
            self.curvature = min(self.curvature * _GROW, self.bound)
        if self.restart:
            self._restart_if_uphill(origin, at, parts, new)
        self.parts_before, self.before = self.parts, self.at
        self.parts, self.at = parts, new
        return values

    def _proximal_step(
        self, origin: np.ndarray, at: Point, gradient: Gradient
    ) -> tuple[np.ndarray, Point, list[float]]:
        step = 1.0 / self.curvature
        parts, values = np.empty_like(origin), []
        descent = step * gradient.W
        for k, p in enumerate(self.penalties):
            parts[k], value = p.prox_value(origin[k] - descent, step)
            values.append(value)
        b = at.b - gradient.b * (step / self.b_units) if self.smooth.with_b else at.b
        return parts, self.smooth.point(parts.sum(axis=0), b), values

    def _descends(self, origin: np.ndarray, at: Point, gradient: Gradient, parts: np.ndarray, new: Point) -> bool:
        """Whether the quadratic model with the present curvature is an upper bound at the new point."""
        moved = parts - origin
        square = float(np.vdot(moved, moved)) + self.b_units * float(np.sum(np.square(new.b - at.b)))
        return self.smooth.excess(at, gradient, new) <= 0.5 * self.curvature * square

    def _restart_if_uphill(self, origin: np.ndarray, at: Point, parts: np.ndarray, new: Point) -> None:
        slope = float(np.vdot(origin - parts, parts - self.parts))
        if self.smooth.with_b:
            slope += self.b_units * float(np.vdot(at.b - new.b, new.b - self.at.b))
        if slope > 0:
            self._t = 1.0
            self.restarts += 1
