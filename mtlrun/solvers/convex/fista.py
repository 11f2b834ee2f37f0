"""Accelerated proximal gradient (FISTA) for any smooth loss and any sum of penalties, stopped on the duality gap.

The smooth part of the objective has two forms with one interface: `FieldLoss` works on predictions and takes any smooth
loss, `QuadraticLoss` is the squared loss through Gram matrices or an eigenbasis. Everything linear in W is kept as its
*image* (the predictions, or X'X W), so that an extrapolated point needs no product of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from mtlrun.problem.taskdata import TaskData

# The step is tried this much longer at every iteration, and shortened by _GROW until the descent condition holds.
_SHRINK = 0.95
_GROW = 1.6
# The first curvature tried, relative to the bound K * curvature.
_FIRST = 0.25


class Point(NamedTuple):
    """Coefficients W (d, T), their image and intercepts b (T,); combined linearly."""

    W: np.ndarray
    image: np.ndarray
    b: np.ndarray

    def beyond(self, previous: Point, momentum: float) -> Point:
        """Return self + momentum * (self - previous)."""
        if momentum == 0.0:
            return self
        return Point(
            *(a + momentum * (a - c) for a, c in zip(self, previous, strict=True))
        )


class Gradient(NamedTuple):
    """Gradient in W, in b, and in the predictions, with these (None for a `QuadraticLoss`)."""

    W: np.ndarray
    b: np.ndarray
    field: np.ndarray | None = None
    scores: np.ndarray | None = None


class _Smooth(ABC):
    """sum_i w_i l((X W + b)_i, y_i) as a function of W and b; `curvature` is the Lipschitz constant of the gradient.

    Attributes
    ----------
    data : TaskData
        Centred where the loss is squared and intercepts are fitted: then b stays zero here.
    with_b : bool
        Whether b is a variable.
    """

    data: TaskData
    with_b = False
    curvature_b = 0.0

    @property
    @abstractmethod
    def null(self) -> float:
        """Loss of the null model, see `null_objective`."""


class FieldLoss(_Smooth):
    """Through predictions: any smooth loss, any data.

    Intercepts are variables, except for the squared loss. The columns are centred within
    tasks for the squared loss, and for the others where they are far from zero.
    """

    def __init__(self, data: TaskData, loss: Loss, fit_intercept: bool = False) -> None:
        if not loss.smooth:
            raise ValueError(f"{type(loss).__name__} is not smooth; use solve_split")
        squared = isinstance(loss, SquaredLoss)
        self._centred: Centred | None = None
        if fit_intercept and (squared or is_far_from_zero(data)):
            self._centred = centre(data, targets=squared)
        if self._centred is None:
            self.data = data
        else:
            self.data = self._centred.data
        if self._centred is None:
            self.operator = TaskOperator(data)
        else:
            self.operator = self._centred.operator
        self.loss = loss
        self.with_b = fit_intercept and not squared
        self._weights = self.data.effective_weights()
        if self.with_b:
            self.curvature_b = loss.curvature * float(
                self.data.sum_by_task(self.data.full_weights()).max()
            )

    @cached_property
    def null(self) -> float:
        return null_objective(self.data, self.loss)

    @cached_property
    def curvature(self) -> float:
        return self.loss.curvature * self.operator.norm(self.data.weights) ** 2

    def point(self, W: np.ndarray, b: np.ndarray | None = None) -> Point:
        """Return W, b (default zeros) with the image of W."""
        return Point(
            W, self.operator.forward(W), np.zeros(self.data.n_tasks) if b is None else b
        )

    def value(self, at: Point) -> float:
        return self.loss.value(self._scores(at), self.data.targets, self._weights)

    def gradient(self, at: Point) -> Gradient:
        scores = self._scores(at)
        field = self.loss.gradient(scores, self.data.targets, self._weights)
        if self.with_b:
            b = self.data.sum_by_task(field)
        else:
            b = np.zeros(self.data.n_tasks)
        return Gradient(self.operator.adjoint(field), b, field, scores)

    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        """Return value(new) - value(at) - <gradient(at), new - at> without cancellation where possible."""
        move = new.image - at.image
        if self.with_b:
            move = self.data.shifted(move, new.b - at.b)
        if isinstance(self.loss, SquaredLoss):
            return (
                0.5 * self.loss.scale * float(self.data.weighted(np.square(move)).sum())
            )
        assert gradient.field is not None
        assert gradient.scores is not None
        value = self.loss.value(gradient.scores, self.data.targets, self._weights)
        return self.value(new) - value - float(np.vdot(gradient.field, move))

    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        """Return the dual value at the feasible point made from the gradient at W (and the best b for it)."""
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

    def intercept(self, at: Point) -> np.ndarray:
        """Return the intercepts (T,) for the data as given."""
        if self._centred is None:
            return at.b
        return at.b + self._centred.intercept(at.W)

    def start_intercept(self, start: SolverResult) -> np.ndarray | None:
        """Return the intercepts (T,) of another solution for the columns used here."""
        if not self.with_b:
            return None
        if self._centred is None:
            return start.intercept
        return start.intercept - self._centred.intercept(start.W)

    def _scores(self, at: Point) -> np.ndarray:
        if self.with_b:
            return self.data.shifted(at.image, at.b)
        return at.image


class QuadraticLoss(_Smooth):
    """`scale` times a `Quadratic`, as a function of its coordinates (r, T); intercepts are fitted by centring."""

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

    def point(self, W: np.ndarray, b: np.ndarray | None = None) -> Point:
        return Point(
            W, self.form.image(W), np.zeros(self.data.n_tasks) if b is None else b
        )

    def value(self, at: Point) -> float:
        return self.scale * self.form.value(at.W, at.image)

    def gradient(self, at: Point) -> Gradient:
        return Gradient(
            self.scale * (at.image - self.form.cross), np.zeros(self.data.n_tasks)
        )

    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        return 0.5 * self.scale * float(np.vdot(new.W - at.W, new.image - at.image))

    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        return self.form.dual(at.W, penalties, self.scale, image=at.image)

    def intercept(self, at: Point) -> np.ndarray:
        return self.form.intercept(self.form.lift(at.W))

    def start_intercept(self, start: SolverResult) -> np.ndarray | None:
        return None


SmoothLoss = FieldLoss | QuadraticLoss


def smooth_loss(
    data: TaskData, loss: Loss, fit_intercept: bool = False, *, sharp: bool = True
) -> SmoothLoss:
    """Return the form of the loss that is cheaper on these data; `sharp` as for `Gram`.

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
    start: SolverResult | np.ndarray | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise loss + penalties over parts W_1..W_K (and intercepts) by FISTA on all parts jointly.

    ::

        sum_i w_i l((X sum_k W_k + b)_i, y_i) + sum_k penalty_k(W_k)

    Beck & Teboulle (2009) with backtracking on a local Lipschitz constant that may shrink again, and the gradient
    restart of O'Donoghue & Candes (2015). The squared loss goes through Gram matrices where that is cheaper. Parts that
    cannot be needed are left out (`needed_parts`).

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
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every check of the gap; stops the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``needed`` (positions of parts).

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
    needed = needed_parts(penalties, shape)
    first = start_parts(start, len(penalties), shape)
    if first is None:
        parts = np.zeros((len(needed), *shape))
    else:
        parts = kept_parts(first, needed)
    b = None
    if isinstance(start, SolverResult):
        b = smooth.start_intercept(start)
    tracker = Tracker(tol, max_iter, callback, null=smooth.null)
    run = ProximalRun(smooth, [penalties[k] for k in needed], parts, b)
    run.until(tracker)
    best_parts, at = tracker.best
    full = np.zeros((len(penalties), *shape))
    full[needed] = best_parts
    result = tracker.result(full, smooth.intercept(at), needed=needed)
    if isinstance(smooth, QuadraticLoss):
        dual_at = tracker.best_dual[1].W
        confirm(
            result,
            smooth.form,
            run.penalties,
            best_parts,
            scale=smooth.scale,
            tol=tol,
            at=lambda: dual_at,
        )
    return result


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
        self.bound = (
            blocks * smooth.curvature or 1.0
        )  # designs that are zero have no curvature: any step will do
        if smooth.curvature > 0:
            self.b_units = smooth.curvature_b / smooth.curvature
        else:
            self.b_units = 1.0
        if adaptive:
            self.curvature = _FIRST * self.bound
        else:
            self.curvature = self.bound
        self.adaptive = adaptive
        self.restart = restart
        self._t = 1.0

    def until(self, tracker: Tracker) -> None:
        """Iterate until the tracker says stop; it is given (parts, point)."""
        for it in range(1, tracker.max_iter + 1):
            values = self.step()
            if not tracker.due(it):
                continue
            primal = self.smooth.value(self.at) + sum(values)
            if tracker.check(
                it,
                primal,
                self.smooth.dual(self.at, self.penalties),
                (self.parts, self.at),
            ):
                break

    def step(self) -> list[float]:
        """Make one iteration; return the values of the penalties."""
        momentum = self._next_momentum()
        if momentum:
            origin = self.parts + momentum * (self.parts - self.parts_before)
        else:
            origin = self.parts
        at = self.at.beyond(self.before, momentum)
        gradient = self.smooth.gradient(at)
        if self.adaptive:
            self.curvature *= _SHRINK
        while True:
            parts, new, values = self._proximal_step(origin, at, gradient)
            if self.curvature >= self.bound or self._descends(
                origin, at, gradient, parts, new
            ):
                break
            self.curvature = min(self.curvature * _GROW, self.bound)
        if self.restart:
            self._restart_if_uphill(origin, at, parts, new)
        self.parts_before, self.before = self.parts, self.at
        self.parts = parts
        self.at = new
        return values

    def _next_momentum(self) -> float:
        t = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self._t**2))
        momentum = (self._t - 1.0) / t
        self._t = t
        return float(momentum)

    def _proximal_step(
        self, origin: np.ndarray, at: Point, gradient: Gradient
    ) -> tuple[np.ndarray, Point, list[float]]:
        step = 1.0 / self.curvature
        parts = np.empty_like(origin)
        values = []
        descent = step * gradient.W
        for k, p in enumerate(self.penalties):
            parts[k], value = p.prox_value(origin[k] - descent, step)
            values.append(value)
        if self.smooth.with_b:
            b = at.b - gradient.b * (step / self.b_units)
        else:
            b = at.b
        return parts, self.smooth.point(parts.sum(axis=0), b), values

    def _descends(
        self,
        origin: np.ndarray,
        at: Point,
        gradient: Gradient,
        parts: np.ndarray,
        new: Point,
    ) -> bool:
        """Whether the quadratic model with the present curvature is an upper bound at the new point."""
        moved = parts - origin
        square = float(np.vdot(moved, moved)) + self.b_units * float(
            np.sum(np.square(new.b - at.b))
        )
        return self.smooth.excess(at, gradient, new) <= 0.5 * self.curvature * square

    def _restart_if_uphill(
        self, origin: np.ndarray, at: Point, parts: np.ndarray, new: Point
    ) -> None:
        slope = float(np.vdot(origin - parts, parts - self.parts))
        if self.smooth.with_b:
            slope += self.b_units * float(np.vdot(at.b - new.b, new.b - self.at.b))
        if slope > 0:
            self._t = 1.0
