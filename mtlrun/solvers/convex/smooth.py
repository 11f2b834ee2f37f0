"""The smooth part of the objectives, as first-order methods see it: values, gradients, dual values.

Three forms with the same interface. `FieldLoss` works on predictions and takes any smooth loss; `GramLoss` is the
squared loss through X'X, whose products cost d^2 instead of n d per task; `RotatedLoss` is that in an eigenbasis.
Everything linear in W is kept as its *image* (the predictions, or X'X W), so that an extrapolated point needs no
product of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from mtlrun.problem import memory
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import centre, dual_value, feasible_scale, optimal_intercept
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.rotation import SharedRotation

# A dense product runs about this many times as fast per multiplication as one with a sparse matrix.
_DENSE_ADVANTAGE = 50
# Up to this size the largest eigenvalue is computed exactly, and all of them count as cheap.
_EXACT_SIZE = 2000


@dataclass(frozen=True, eq=False)
class Point:
    """Coefficients W (d, T), their image and intercepts b (T,); combined linearly."""

    W: np.ndarray
    image: np.ndarray
    b: np.ndarray

    def beyond(self, previous: Point, momentum: float) -> Point:
        """Return self + momentum * (self - previous)."""
        if momentum == 0.0:
            return self
        return Point(*(a + momentum * (a - c) for a, c in zip(self._fields, previous._fields, strict=True)))

    @property
    def _fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.W, self.image, self.b


@dataclass(frozen=True, eq=False)
class Gradient:
    """Gradient in W, in b, and in the predictions (None in Gram form)."""

    W: np.ndarray
    b: np.ndarray
    field: np.ndarray | None = None


class SmoothLoss(ABC):
    """sum_i w_i l((X W + b)_i, y_i) as a function of W and b.

    Attributes
    ----------
    data : TaskData
        Centred where the loss is squared and intercepts are fitted: then b stays zero here.
    with_b : bool
        Whether b is a variable.
    """

    data: TaskData
    with_b: bool = False

    @property
    @abstractmethod
    def curvature(self) -> float:
        """Lipschitz constant of the gradient in W."""

    @property
    def curvature_b(self) -> float:
        """Lipschitz constant of the gradient in b; 0 where b is no variable."""
        return 0.0

    @property
    def unavoidable(self) -> float:
        """A part of the loss that no coefficients get below, as far as it is known."""
        return 0.0

    def point(self, W: np.ndarray, b: np.ndarray | None = None) -> Point:
        """Return W, b (default zeros) with the image of W."""
        return Point(W, self.image(W), np.zeros(self.data.n_tasks) if b is None else b)

    @abstractmethod
    def image(self, W: np.ndarray) -> np.ndarray:
        """Return the linear function of W on which values and gradients rest."""

    @abstractmethod
    def value(self, at: Point) -> float:
        """Return the loss."""

    @abstractmethod
    def gradient(self, at: Point) -> Gradient:
        """Return the gradient."""

    @abstractmethod
    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        """Return value(new) - value(at) - <gradient(at), new - at> without cancellation where possible."""

    @abstractmethod
    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        """Return the dual value at the feasible point made from the gradient at W (and the best b for it)."""

    @abstractmethod
    def intercept(self, at: Point) -> np.ndarray:
        """Return the intercepts (T,) for the data as given."""


class FieldLoss(SmoothLoss):
    """Through predictions: any smooth loss, any data. Intercepts are variables except for the squared loss."""

    def __init__(self, data: TaskData, loss: Loss, fit_intercept: bool = False) -> None:
        if not loss.smooth:
            raise ValueError(f"{type(loss).__name__} is not smooth; use solve_split")
        squared = isinstance(loss, SquaredLoss)
        self._centred = centre(data) if fit_intercept and squared else None
        self.data = data if self._centred is None else self._centred.data
        self.operator = TaskOperator(data) if self._centred is None else self._centred.operator
        self.loss = loss
        self.with_b = fit_intercept and not squared
        self._weights = self.data.effective_weights()

    @cached_property
    def curvature(self) -> float:
        return self.loss.curvature * self.operator.norm(self.data.weights) ** 2

    @cached_property
    def curvature_b(self) -> float:
        if not self.with_b:
            return 0.0
        w = np.ones_like(self.data.targets) if self._weights is None else self._weights
        return self.loss.curvature * float(self.data.sum_by_task(w).max())

    def image(self, W: np.ndarray) -> np.ndarray:
        return self.operator.forward(W)

    def value(self, at: Point) -> float:
        return self.loss.value(self._scores(at), self.data.targets, self._weights)

    def gradient(self, at: Point) -> Gradient:
        field = self.loss.gradient(self._scores(at), self.data.targets, self._weights)
        b = self.data.sum_by_task(field) if self.with_b else np.zeros(self.data.n_tasks)
        return Gradient(self.operator.adjoint(field), b, field)

    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        move = new.image - at.image
        if self.with_b:
            move = move + self.data.spread(new.b - at.b)
        if isinstance(self.loss, SquaredLoss):
            square = np.square(move) if self._weights is None else self._weights * np.square(move)
            return 0.5 * self.loss.scale * float(square.sum())
        assert gradient.field is not None
        return self.value(new) - self.value(at) - float(np.vdot(gradient.field, move))

    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        scores = self._scores(at)
        if self.with_b:
            b = optimal_intercept(self.data, self.loss, at.image, start=at.b)
            scores = at.image + self.data.spread(b)
        theta = -self.loss.gradient(scores, self.data.targets, self._weights)
        return dual_value(theta, self.data, self.loss, penalties, intercept=self.with_b, operator=self.operator)

    def intercept(self, at: Point) -> np.ndarray:
        return at.b if self._centred is None else self._centred.intercept(at.W)

    def _scores(self, at: Point) -> np.ndarray:
        return at.image + self.data.spread(at.b) if self.with_b else at.image


class GramLoss(SmoothLoss):
    """Squared loss through Gram matrices: one (d, d) for a shared design, else one per task.

    Parameters
    ----------
    data : TaskData
    loss : SquaredLoss
    fit_intercept : bool, default False
    sharp : bool, default True
        Leave what no coefficients can fit out of the scaling of dual points, which takes the eigenvectors of the Gram
        matrices (once); without it, dual values are valid but lower.
    """

    def __init__(self, data: TaskData, loss: SquaredLoss, fit_intercept: bool = False, *, sharp: bool = True) -> None:
        self._centred = centre(data) if fit_intercept else None
        self.data = data if self._centred is None else self._centred.data
        operator = TaskOperator(data) if self._centred is None else self._centred.operator
        self.scale = loss.scale
        self.sharp = sharp
        w, y = self.data.effective_weights(), self.data.targets
        weighted = y if w is None else w * y
        self.gram = operator.gram(data.weights)
        self.cross = operator.adjoint(weighted)
        self.energy = self.data.sum_by_task(weighted * y)

    @cached_property
    def curvature(self) -> float:
        if self.gram.ndim == 3 or "_eigen" in self.__dict__:
            return self.scale * float(self._eigen[0].max())
        last = len(self.gram) - 1
        if not self.gram.any():
            return 0.0
        if last < _EXACT_SIZE:
            top = scipy.linalg.eigvalsh(self.gram, subset_by_index=[last, last])[0]
        else:  # Lanczos comes from below
            top = eigsh(self.gram, k=1, v0=np.ones(last + 1), return_eigenvectors=False)[0] * (1.0 + 1e-6)
        return self.scale * max(float(top), 0.0)

    @property
    def unavoidable(self) -> float:
        return 0.5 * self.scale * float(np.sum(self.energy - self.explained))

    @cached_property
    def explained(self) -> np.ndarray:
        """Squared norms (T,) of the projections of the targets on the range of the designs; of all if not sharp."""
        if not self.sharp:
            return self.energy
        values, vectors = self._eigen
        limit = 4.0 * np.finfo(np.float64).eps * values.shape[-1] * values.max(axis=-1, keepdims=True)
        inverse = np.where(values > limit, 1.0 / np.where(values > limit, values, 1.0), 0.0)
        if self.gram.ndim == 2:
            part = inverse @ np.square(vectors.T @ self.cross)
        else:
            part = np.sum(inverse * np.square(np.matmul(self.cross.T[:, None, :], vectors)[:, 0]), axis=1)
        return np.minimum(part, self.energy)

    def image(self, W: np.ndarray) -> np.ndarray:
        if self.gram.ndim == 2:
            return self.gram @ W
        return np.matmul(W.T[:, None, :], self.gram)[:, 0].T

    def value(self, at: Point) -> float:
        linear, square = self._moments(at)
        return max(0.0, 0.5 * self.scale * float(np.sum(self.energy - 2.0 * linear + square)))

    def gradient(self, at: Point) -> Gradient:
        return Gradient(self.scale * (at.image - self.cross), np.zeros(self.data.n_tasks))

    def excess(self, at: Point, gradient: Gradient, new: Point) -> float:
        return 0.5 * self.scale * float(np.vdot(new.W - at.W, new.image - at.image))

    def dual(self, at: Point, penalties: Sequence[Penalty]) -> float:
        # As in the ADMM: only the part of theta in the range of X is scaled, the rest is free.
        if any(p.is_zero for p in penalties):
            return self.unavoidable
        G = self.scale * (self.cross - at.image)
        c = feasible_scale(G, penalties)
        linear, square = self._moments(at)
        value = c * (self.explained - linear) - 0.5 * c**2 * (self.explained - 2.0 * linear + square)
        conjugates = sum(p.conjugate(G * c) for p in penalties if not p.is_norm)
        return max(0.0, self.scale * float(value.sum()) + self.unavoidable - conjugates)

    def intercept(self, at: Point) -> np.ndarray:
        return np.zeros(self.data.n_tasks) if self._centred is None else self._centred.intercept(at.W)

    def _moments(self, at: Point) -> tuple[np.ndarray, np.ndarray]:
        """Return y'Xw and ||Xw||^2 per task."""
        return np.einsum("ij,ij->j", self.cross, at.W), np.einsum("ij,ij->j", at.W, at.image)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.eigh(self.gram)


class RotatedLoss(GramLoss):
    """Squared loss in the eigenbasis of a shared design, on coordinates (r, T) instead of W."""

    def __init__(self, rotation: SharedRotation, loss: SquaredLoss) -> None:
        self.data = rotation.data
        self.scale = loss.scale
        self.cross, self.energy = rotation.cross, rotation.energy
        self._rotation = rotation

    @cached_property
    def curvature(self) -> float:
        return self.scale * float(self._rotation.squares.max())

    @property
    def explained(self) -> np.ndarray:
        return self._rotation.explained

    def image(self, W: np.ndarray) -> np.ndarray:
        return self._rotation.squares * W

    def intercept(self, at: Point) -> np.ndarray:
        return self._rotation.intercept(self._rotation.lift(at.W))


def smooth_loss(data: TaskData, loss: Loss, fit_intercept: bool = False, *, sharp: bool = True) -> SmoothLoss:
    """Return the form of the loss that is cheaper on these data; `sharp` as for `GramLoss`.

    Raises
    ------
    ValueError
        If the loss is not smooth.
    """
    if isinstance(loss, SquaredLoss) and _gram_pays(data):
        return GramLoss(data, loss, fit_intercept, sharp=sharp)
    return FieldLoss(data, loss, fit_intercept)


def cheap_eigenvectors(data: TaskData) -> bool:
    """Whether a sharp `GramLoss` costs little next to a run."""
    return data.n_features <= _EXACT_SIZE


def gram_bytes(data: TaskData) -> int:
    """Return the size of the Gram matrices that `smooth_loss` makes for the squared loss; 0 where it makes none."""
    return _gram_size(data) if _gram_pays(data) else 0


def _gram_size(data: TaskData) -> int:
    one = data.shared and (data.weights is None or data.weights.ndim == 1)
    return 8 * data.n_features**2 * (1 if one else data.n_tasks)


def _gram_pays(data: TaskData) -> bool:
    d, T = data.n_features, data.n_tasks
    if not memory.fits(_gram_size(data)):
        return False
    rows = data.n_rows * T if data.shared else data.n_rows
    direct = 2.0 * rows * d
    if data.sparse:
        direct = 2.0 * _DENSE_ADVANTAGE * data.X.nnz * (T if data.shared else 1)
        return d * d * T < direct and min(data.sizes.mean(), data.n_rows) >= d
    return d * d * T < direct
