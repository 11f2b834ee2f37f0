"""Accelerated proximal gradient descent (FISTA): smooth losses and sums of penalties.

The objective is::

    f(W, b) + sum_k penalty_k(W_k),   W = sum_k W_k,
    f(W, b) = sum_i w_i l((X W + b)_i, y_i)

with one part W_k of the coefficients per penalty. The smooth part f has two forms with
one interface: `FieldLoss` computes predictions and takes any smooth loss;
`QuadraticLoss` is the squared loss through Gram matrices or an eigenbasis.

Each point keeps its *image*, which is linear in W: the predictions X W, or X'X W. So an
extrapolated point needs no matrix product. The iteration stops on the duality gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mtlrun.penalties.norms import kept_parts, needed_parts
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import (
    Centred,
    centre,
    dual_value,
    is_far_from_zero,
    null_objective,
    optimal_intercept,
)
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Gram, Quadratic, confirm, gram_pays
from mtlrun.problem.result import Callback, SolverResult, Tracker, start_parts
from mtlrun.problem.taskdata import Array, TaskData

# Each iteration first multiplies the curvature by _CURVATURE_DECAY, for a longer step,
# and then by _CURVATURE_GROWTH until the descent condition holds.
_CURVATURE_DECAY = 0.95
_CURVATURE_GROWTH = 1.6
# Initial curvature, relative to its global bound.
_INITIAL_CURVATURE = 0.25


class Point(NamedTuple):
    """Iterate: coefficients W (d, T), their image (see above) and intercepts b (T,)."""

    W: Array
    image: Array
    b: Array

    def beyond(self, previous: Point, momentum: float) -> Point:
        """Extrapolate: return self + momentum * (self - previous)."""
        if momentum == 0.0:
            return self
        W = self.W + momentum * (self.W - previous.W)
        image = self.image + momentum * (self.image - previous.image)
        b = self.b + momentum * (self.b - previous.b)
        return Point(W, image, b)


class Gradient(NamedTuple):
    """Gradient of the smooth part.

    Attributes
    ----------
    W : ndarray of shape (d, T)
    b : ndarray of shape (T,)
    field : ndarray, optional
        Gradient with respect to the predictions; None for a `QuadraticLoss`.
    scores : ndarray, optional
        The predictions; None for a `QuadraticLoss`.
    """

    W: Array
    b: Array
    field: Array | None = None
    scores: Array | None = None


class FieldLoss:
    """The smooth part through predictions, for any smooth loss and any data.

    Intercepts are variables, except for the squared loss. Columns are centered within
    tasks for the squared loss, and for other losses if they are far from zero.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        A smooth loss.
    fit_intercept : bool, default False

    Attributes
    ----------
    data : TaskData
        The data, centered if the loss is squared and intercepts are fitted. The
        intercepts b then stay zero.
    with_b : bool
        Whether b is a variable.
    curvature_b : float
        Lipschitz constant of the gradient with respect to b.

    Raises
    ------
    ValueError
        If the loss is not smooth.
    """

    curvature_b = 0.0

    def __init__(self, data: TaskData, loss: Loss, fit_intercept: bool = False) -> None:
        if not loss.smooth:
            raise ValueError(f"{type(loss).__name__} is not smooth; use solve_split")
        squared = isinstance(loss, SquaredLoss)
        self._centred: Centred | None = None
        if fit_intercept and (squared or is_far_from_zero(data)):
            self._centred = centre(data, targets=squared)
        if self._centred is None:
            self.data = data
            self.operator = TaskOperator(data)
        else:
            self.data = self._centred.data
            self.operator = self._centred.operator
        self.loss = loss
        self.with_b = fit_intercept and not squared
        self._weights = self.data.effective_weights()
        if self.with_b:
            weights_by_task = self.data.sum_by_task(self.data.full_weights())
            self.curvature_b = loss.curvature * float(weights_by_task.max())

    @cached_property
    def null(self) -> float:
        """Loss of the null model, see `null_objective`."""
        return null_objective(self.data, self.loss)

    @cached_property
    def curvature(self) -> float:
        """Lipschitz constant of the gradient with respect to W."""
        return self.loss.curvature * self.operator.norm(self.data.weights) ** 2

    def point(self, W: Array, b: Array | None = None) -> Point:
        """Return the point W, b; b defaults to zeros."""
        if b is None:
            b = np.zeros(self.data.n_tasks)
        return Point(W, self.operator.forward(W), b)

    def value(self, at: Point) -> float:
        """Return f at a point."""
        return self.loss.value(self._scores(at), self.data.targets, self._weights)

    def gradient(self, at: Point) -> Gradient:
        """Return the gradient of f at a point."""
        scores = self._scores(at)
        field = self.loss.gradient(scores, self.data.targets, self._weights)
        if self.with_b:
            b = self.data.sum_by_task(field)
        else:
            b = np.zeros(self.data.n_tasks)
        return Gradient(self.operator.adjoint(field), b, field, scores)

    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        """Return value(new) - value(at) - <gradient(at), new - at>.

        For the squared loss this is a sum of squares, without cancellation.
        """
        move = new.image - at.image
        if self.with_b:
            move = self.data.shifted(move, new.b - at.b)
        if isinstance(self.loss, SquaredLoss):
            square = float(self.data.weighted(np.square(move)).sum())
            return 0.5 * self.loss.scale * square
        assert gradient.field is not None
        assert gradient.scores is not None
        value = self.loss.value(gradient.scores, self.data.targets, self._weights)
        return self.value(new) - value - float(np.vdot(gradient.field, move))

    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        """Return the dual value at a feasible point: the scaled gradient at W.

        Intercepts that are variables are optimized first.
        """
        scores = self._scores(at)
        if self.with_b:
            b = optimal_intercept(self.data, self.loss, at.image, start=at.b)
            scores = self.data.shifted(at.image, b)
        theta = -self.loss.gradient(scores, self.data.targets, self._weights)
        return dual_value(
            theta,
            self.data,
            self.loss,
            penalties,
            intercept=self.with_b,
            operator=self.operator,
        )

    def intercept(self, at: Point) -> Array:
        """Return the intercepts (T,) for the data before centering."""
        if self._centred is None:
            return at.b
        return at.b + self._centred.intercept(at.W)

    def start_intercept(self, start: SolverResult) -> Array | None:
        """Return the intercepts (T,) of a solution, for the centered columns."""
        if not self.with_b:
            return None
        if self._centred is None:
            return start.intercept
        return start.intercept - self._centred.intercept(start.W)

    def _scores(self, at: Point) -> Array:
        """Return the predictions, a field, at a point."""
        if self.with_b:
            return self.data.shifted(at.image, at.b)
        return at.image


class QuadraticLoss:
    """The squared loss: `scale` times a `Quadratic` of its coordinates (r, T).

    It has the methods of `FieldLoss`. Intercepts are fitted by centering.
    """

    with_b = False
    curvature_b = 0.0

    def __init__(self, form: Quadratic, scale: float) -> None:
        self.form = form
        self.scale = scale
        self.data = form.data

    @property
    def null(self) -> float:
        return self.scale * self.form.null

    @property
    def curvature(self) -> float:
        return self.scale * self.form.largest

    def point(self, W: Array, b: Array | None = None) -> Point:
        if b is None:
            b = np.zeros(self.data.n_tasks)
        return Point(W, self.form.image(W), b)

    def value(self, at: Point) -> float:
        return self.scale * self.form.value(at.W, at.image)

    def gradient(self, at: Point) -> Gradient:
        gradient = self.scale * (at.image - self.form.cross)
        return Gradient(gradient, np.zeros(self.data.n_tasks))

    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        return 0.5 * self.scale * float(np.vdot(new.W - at.W, new.image - at.image))

    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        return self.form.dual(at.W, penalties, self.scale, image=at.image)

    def intercept(self, at: Point) -> Array:
        return self.form.intercept(self.form.lift(at.W))

    def start_intercept(self, start: SolverResult) -> Array | None:
        return None


SmoothLoss = FieldLoss | QuadraticLoss


def smooth_loss(
    data: TaskData,
    loss: Loss,
    fit_intercept: bool = False,
    *,
    sharp: bool = True,
) -> SmoothLoss:
    """Return the form of the smooth part that is cheaper on these data.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        A smooth loss.
    fit_intercept : bool, default False
    sharp : bool, default True
        See `mtlrun.problem.quadratic.Gram`.

    Raises
    ------
    ValueError
        If the loss is not smooth.
    """
    if isinstance(loss, SquaredLoss) and gram_pays(data):
        return QuadraticLoss(Gram(data, fit_intercept, sharp=sharp), loss.scale)
    return FieldLoss(data, loss, fit_intercept)


def solve_fista(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | Array | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize a smooth loss plus penalties by FISTA on all parts jointly.

    The objective is::

        sum_i w_i l((X sum_k W_k + b)_i, y_i) + sum_k penalty_k(W_k)

    This is the method of Beck and Teboulle (2009). Backtracking finds a local Lipschitz
    constant, which may shrink again. The momentum restarts when it points uphill
    (O'Donoghue and Candes, 2015). The squared loss uses Gram matrices where that is
    cheaper. Parts that are zero at the solution are left out if the penalties imply it
    (`needed_parts`).

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
        Fit unpenalized intercepts: by centering for the squared loss, as variables for
        others.
    tol : float, default 1e-4
        Relative duality gap at which to stop.
    max_iter : int, default 20000
        Maximum number of iterations.
    callback : callable, optional
        Called with (iteration, best primal, best dual) at each check of the gap. Stops
        the run by returning True.

    Returns
    -------
    SolverResult
        ``info["needed"]`` has the positions of the parts that were not left out.

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
    >>> data = TaskData.from_matrix(X, Y)
    >>> result = solve_fista(data, LogisticLoss(), [L21(4.0)], tol=1e-6)
    >>> result.converged, result.gap <= 1e-6, result.W.shape
    (True, True, (4, 2))
    """
    smooth = smooth_loss(data, loss, fit_intercept)
    shape = (data.n_features, data.n_tasks)
    needed = needed_parts(penalties, shape)
    all_parts = start_parts(start, len(penalties), shape)
    if all_parts is None:
        parts = np.zeros((len(needed), *shape))
    else:
        parts = kept_parts(all_parts, needed)
    b = None
    if isinstance(start, SolverResult):
        b = smooth.start_intercept(start)
    tracker = Tracker(tol, max_iter, callback, null=smooth.null)
    run = ProximalRun(smooth, [penalties[k] for k in needed], parts, b)
    run.until(tracker)
    # The tracker keeps the pairs (parts, point) that `ProximalRun.until` gives it.
    best_parts, best_point = tracker.best
    full_parts = np.zeros((len(penalties), *shape))
    full_parts[needed] = best_parts
    result = tracker.result(full_parts, smooth.intercept(best_point), needed=needed)
    if isinstance(smooth, QuadraticLoss):
        # Gram matrices square the condition number, so rounding may hide a gap.
        # `confirm` computes it from the rows, and revokes `converged` if it is large.
        _, dual_point = tracker.best_dual
        confirm(
            result,
            smooth.form,
            run.penalties,
            best_parts,
            scale=smooth.scale,
            tol=tol,
            at=lambda: dual_point.W,
        )
    return result


class ProximalRun:
    """State of the iteration.

    Parameters
    ----------
    smooth : SmoothLoss
        The smooth part of the objective.
    penalties : sequence of Penalty
        One per part.
    parts : ndarray of shape (n_parts, d, T)
        Initial parts.
    b : ndarray of shape (T,), optional
        Initial intercepts.
    adaptive : bool, default True
        Backtrack on a local curvature. Otherwise, use the global bound.
    restart : bool, default True
        Restart the momentum when it points uphill.

    Attributes
    ----------
    parts, at : ndarray of shape (n_parts, d, T), Point
        The current iterate: the parts, and the point at their sum.
    parts_before, before : ndarray of shape (n_parts, d, T), Point
        The previous iterate.
    bound : float
        Lipschitz constant of the gradient with respect to all parts and b.
    curvature : float
        Current estimate of this constant; the step is its inverse.
    b_units : float
        Curvature with respect to b, relative to the one with respect to W.
    """

    def __init__(
        self,
        smooth: SmoothLoss,
        penalties: Sequence[Penalty],
        parts: Array,
        b: Array | None = None,
        *,
        adaptive: bool = True,
        restart: bool = True,
    ) -> None:
        self.smooth = smooth
        self.penalties = penalties
        self.parts = self.parts_before = parts
        self.at = self.before = smooth.point(parts.sum(axis=0), b)
        # Each part, and b in its own units, sees the whole residual: curvatures add up.
        n_blocks = len(penalties) + int(smooth.with_b)
        # A design of zeros has no curvature. Any step will do.
        self.bound = n_blocks * smooth.curvature or 1.0
        self.b_units = 1.0
        if smooth.curvature > 0:
            self.b_units = smooth.curvature_b / smooth.curvature
        self.curvature = self.bound
        if adaptive:
            self.curvature = _INITIAL_CURVATURE * self.bound
        self.adaptive = adaptive
        self.restart = restart
        self._t = 1.0

    def until(self, tracker: Tracker) -> None:
        """Iterate until the tracker stops the run.

        The tracker keeps the pairs (parts, at) with the best primal and dual values.
        """
        for iteration in range(1, tracker.max_iter + 1):
            values = self.step()
            if not tracker.due(iteration):
                continue
            primal = self.smooth.value(self.at) + sum(values)
            dual = self.smooth.dual(self.at, self.penalties)
            if tracker.check(iteration, primal, dual, (self.parts, self.at)):
                break

    def step(self) -> list[float]:
        """Make one iteration; return the values of the penalties."""
        momentum = self._next_momentum()
        origin = self.parts
        if momentum:
            origin = self.parts + momentum * (self.parts - self.parts_before)
        at = self.at.beyond(self.before, momentum)
        gradient = self.smooth.gradient(at)
        if self.adaptive:
            self.curvature *= _CURVATURE_DECAY
        while True:
            parts, new, values = self._proximal_step(origin, at, gradient)
            if self.curvature >= self.bound:
                break
            # The quadratic model with this curvature must bound f at the new point.
            move = parts - origin
            b_square = float(np.sum(np.square(new.b - at.b)))
            square = float(np.vdot(move, move)) + self.b_units * b_square
            excess = self.smooth.excess(at, gradient, new)
            if excess <= 0.5 * self.curvature * square:
                break
            self.curvature = min(self.curvature * _CURVATURE_GROWTH, self.bound)
        if self.restart:
            # Restart the momentum if step and gradient mapping form an acute angle.
            slope = float(np.vdot(origin - parts, parts - self.parts))
            if self.smooth.with_b:
                slope += self.b_units * float(np.vdot(at.b - new.b, new.b - self.at.b))
            if slope > 0:
                self._t = 1.0
        self.parts_before = self.parts
        self.before = self.at
        self.parts = parts
        self.at = new
        return values

    def _next_momentum(self) -> float:
        """Return the momentum (t_k - 1) / t_{k+1} of Nesterov's sequence t_k."""
        t = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self._t**2))
        momentum = (self._t - 1.0) / t
        self._t = t
        return float(momentum)

    def _proximal_step(
        self,
        origin: Array,
        at: Point,
        gradient: Gradient,
    ) -> tuple[Array, Point, list[float]]:
        """Return the new parts, the point at their sum, and values of the penalties."""
        step = 1.0 / self.curvature
        parts = np.empty_like(origin)
        values = []
        descent = step * gradient.W
        for k, penalty in enumerate(self.penalties):
            parts[k], value = penalty.prox_value(origin[k] - descent, step)
            values.append(value)
        b = at.b
        if self.smooth.with_b:
            b = at.b - gradient.b * (step / self.b_units)
        return parts, self.smooth.point(parts.sum(axis=0), b), values
