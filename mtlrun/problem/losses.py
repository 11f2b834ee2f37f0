"""Losses on fields: elementwise functions of a prediction z and a target y.

The loss of a data set is ``sum_i w_i l(z_i, y_i)`` without 1/n; `scale` multiplies it.
Weights broadcast against the field; an entry of weight 0 (a masked target has y = 0)
contributes nothing anywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg.lapack import dgejsv
from scipy.special import expit, xlogy

from mtlrun.problem.penalty import check_number

Array = np.ndarray

# Dual points leave their domain by rounding only; more than this is infeasible.
_DOMAIN_TOLERANCE = 1e-12

Weights = Array | None


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss l(z, y), see the module.

    Parameters
    ----------
    scale : float, default 1.0
        Positive factor.

    Raises
    ------
    ValueError
        If `scale` is not positive and finite.
    """

    scale: float = 1.0

    #: Whether l is differentiable with a Lipschitz-continuous derivative.
    smooth: ClassVar[bool] = True
    #: Whether targets must be -1 or +1.
    labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("scale", self.scale, positive=True)

    @property
    @abstractmethod
    def curvature(self) -> float:
        """Lipschitz constant of the derivative in z for weight 1, or inf."""

    @abstractmethod
    def values(self, z: Array, y: Array) -> Array:
        """Return l(z, y) elementwise, without weights."""

    @abstractmethod
    def derivative(self, z: Array, y: Array) -> Array:
        """Return dl/dz elementwise, without weights (a subgradient at kinks)."""

    @abstractmethod
    def second_derivative(self, z: Array, y: Array) -> Array:
        """Return d2l/dz2 elementwise, without weights (a generalized one at kinks)."""

    @abstractmethod
    def conjugate_values(self, theta: Array, y: Array, w: Array | float) -> Array:
        """Return w l*(theta / w) elementwise for positive weights.

        It is inf outside the domain.
        """

    @abstractmethod
    def prox_step(self, z: Array, y: Array, t: Array | float) -> Array:
        """Return argmin_u t l(u, y) + (u - z)^2 / 2 elementwise."""

    def value(self, z: Array, y: Array, weights: Weights = None) -> float:
        """Return the sum of w l(z, y)."""
        values = self.values(z, y)
        if weights is None:
            return float(values.sum())
        return float(np.sum(weights * values))

    def gradient(self, z: Array, y: Array, weights: Weights = None) -> Array:
        """Return the gradient of `value` in z, a field; a subgradient for the hinge."""
        slope = self.derivative(z, y)
        if weights is None:
            return slope
        return weights * slope

    def hessian(self, z: Array, y: Array, weights: Weights = None) -> Array:
        """Return the diagonal of the second derivative of `value` in z, a field."""
        curve = self.second_derivative(z, y)
        if weights is None:
            return curve
        return weights * curve

    def conjugate(self, theta: Array, y: Array, weights: Weights = None) -> float:
        """Return sup_z <theta, z> - value(z), the sum of w l*(theta / w).

        It is inf outside the domain. An entry of weight 0 has the domain {0}.
        """
        if weights is None:
            values = self.conjugate_values(theta, y, 1.0)
            return float(np.sum(values))
        w = np.broadcast_to(weights, theta.shape)
        if w.all():
            values = self.conjugate_values(theta, y, w)
            return float(np.sum(values))
        used = w > 0
        if np.any(theta[~used] != 0):
            return float("inf")
        y = np.broadcast_to(y, theta.shape)
        values = self.conjugate_values(theta[used], y[used], w[used])
        return float(np.sum(values))

    def prox(
        self,
        z: Array,
        y: Array,
        step: float | Array,
        weights: Weights = None,
    ) -> Array:
        """Return argmin_u sum of w l(u, y) + (u - z)^2 / (2 step).

        Entries of weight 0 stay at z.
        """
        if weights is None:
            return self.prox_step(z, y, step)
        return self.prox_step(z, y, step * weights)

    def check_targets(self, y: Array, weights: Weights = None) -> None:
        """Raise an error for targets that the loss does not support.

        Entries of weight 0 are ignored.

        Raises
        ------
        ValueError
            If the loss is for classes and a target is neither -1 nor +1.
        """
        if not self.labels:
            return
        wrong = np.abs(y) != 1
        if weights is not None:
            wrong &= np.broadcast_to(weights, y.shape) > 0
        if np.any(wrong):
            name = type(self).__name__
            first = y[wrong].flat[0]
            raise ValueError(f"targets of {name} must be -1 or +1, got {first:g}")


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """l(z, y) = scale/2 (y - z)^2.

    The loss beta (y - z)^2 of the paper on robust MTL has scale = 2 beta.
    """

    labels = False

    @property
    def curvature(self) -> float:
        return self.scale

    def values(self, z: Array, y: Array) -> Array:
        return 0.5 * self.scale * np.square(y - z)

    def derivative(self, z: Array, y: Array) -> Array:
        return self.scale * (z - y)

    def second_derivative(self, z: Array, y: Array) -> Array:
        shape = np.broadcast_shapes(np.shape(z), np.shape(y))
        return np.full(shape, self.scale)

    def conjugate_values(self, theta: Array, y: Array, w: Array | float) -> Array:
        return theta * y + np.square(theta) / (2.0 * self.scale * w)

    def prox_step(self, z: Array, y: Array, t: Array | float) -> Array:
        # The mean of z and y, with the weights 1 and t scale.
        return (z + t * self.scale * y) / (1.0 + t * self.scale)


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """l(z, y) = scale log(1 + exp(-y z)) for y in {-1, +1}.

    It does not overflow for margins of any size.
    """

    @property
    def curvature(self) -> float:
        return self.scale / 4.0

    def values(self, z: Array, y: Array) -> Array:
        return self.scale * np.logaddexp(0.0, -y * z)

    def derivative(self, z: Array, y: Array) -> Array:
        return -self.scale * y * expit(-y * z)

    def second_derivative(self, z: Array, y: Array) -> Array:
        p = expit(-np.abs(y * z))
        return self.scale * p * (1.0 - p)

    def conjugate_values(self, theta: Array, y: Array, w: Array | float) -> Array:
        # bound (a log a + (1 - a) log(1 - a)) for a = -y theta / bound in [0, 1]
        bound = self.scale * w
        a = -y * theta / bound
        is_above = a >= -_DOMAIN_TOLERANCE
        is_below = a <= 1.0 + _DOMAIN_TOLERANCE
        inside = is_above & is_below
        a = np.clip(a, 0.0, 1.0)
        negative_entropy = xlogy(a, a) + xlogy(1.0 - a, 1.0 - a)
        return np.where(inside, bound * negative_entropy, np.inf)

    def prox_step(self, z: Array, y: Array, t: Array | float) -> Array:
        # The new margin u is the root of the increasing h(u) = u - m - t scale
        # expit(-u), which is convex for u < 0 and concave for u > 0: from max(0, m)
        # Newton's steps never pass the root.
        m = y * z
        top = np.broadcast_to(self.scale * t, m.shape)
        u = np.maximum(0.0, m)
        rounding = 1e-15 * np.abs(m)
        for _ in range(200):
            p = expit(-u)
            slope = 1.0 + top * p * (1.0 - p)
            move = (m - u + top * p) / slope
            u = u + move
            # Steps converge quadratically: the next one would be rounding.
            tolerance = 1e-10 * (1.0 + np.abs(u)) + rounding
            if np.all(np.abs(move) <= tolerance):
                break
        return np.where(top > 0, y * u, z)


@dataclass(frozen=True)
class SquaredHingeLoss(Loss):
    """l(z, y) = scale/2 max(0, 1 - y z)^2 for y in {-1, +1}.

    The loss of the paper on robust MTL has scale = 2 beta.
    """

    @property
    def curvature(self) -> float:
        return self.scale

    def values(self, z: Array, y: Array) -> Array:
        violation = np.maximum(0.0, 1.0 - y * z)
        return 0.5 * self.scale * np.square(violation)

    def derivative(self, z: Array, y: Array) -> Array:
        violation = np.maximum(0.0, 1.0 - y * z)
        return -self.scale * y * violation

    def second_derivative(self, z: Array, y: Array) -> Array:
        is_violated = y * z < 1.0
        return np.where(is_violated, self.scale, 0.0)

    def conjugate_values(self, theta: Array, y: Array, w: Array | float) -> Array:
        # a^2 / (2 scale w) - a for a = -y theta >= 0
        a = -y * theta
        inside = a >= -_DOMAIN_TOLERANCE * self.scale * w
        a = np.maximum(a, 0.0)
        values = np.square(a) / (2.0 * self.scale * w) - a
        return np.where(inside, values, np.inf)

    def prox_step(self, z: Array, y: Array, t: Array | float) -> Array:
        ts = t * self.scale
        violation = np.maximum(0.0, 1.0 - y * z)
        return z + y * (ts / (1.0 + ts)) * violation


@dataclass(frozen=True)
class HingeLoss(Loss):
    """l(z, y) = scale max(0, 1 - y z) for y in {-1, +1}.

    It is not smooth: `gradient` is a subgradient, 0 at the kink.
    """

    smooth = False

    @property
    def curvature(self) -> float:
        return float("inf")

    def values(self, z: Array, y: Array) -> Array:
        violation = np.maximum(0.0, 1.0 - y * z)
        return self.scale * violation

    def derivative(self, z: Array, y: Array) -> Array:
        is_violated = y * z < 1.0
        return np.where(is_violated, -self.scale * y, 0.0)

    def second_derivative(self, z: Array, y: Array) -> Array:
        shape = np.broadcast_shapes(np.shape(z), np.shape(y))
        return np.zeros(shape)

    def conjugate_values(self, theta: Array, y: Array, w: Array | float) -> Array:
        # -a for a = -y theta in [0, scale w]
        bound = self.scale * w
        a = -y * theta
        is_above = a >= -_DOMAIN_TOLERANCE * bound
        is_below = a <= bound * (1.0 + _DOMAIN_TOLERANCE)
        inside = is_above & is_below
        a = np.clip(a, 0.0, bound)
        return np.where(inside, -a, np.inf)

    def prox_step(self, z: Array, y: Array, t: Array | float) -> Array:
        move = np.clip(1.0 - y * z, 0.0, t * self.scale)
        return z + y * move


LOSSES: dict[str, type[Loss]] = {
    "squared": SquaredLoss,
    "logistic": LogisticLoss,
    "squared_hinge": SquaredHingeLoss,
    "hinge": HingeLoss,
}


# ---------------------------------------------------------------------- graded designs
# Designs whose columns differ so much in scale that a Gram matrix loses the small ones
# in the rounding of the large: it has errors of eps times its largest eigenvalue, and
# directions whose singular value is below sqrt(eps) of the largest, about, are noise
# there. Scaling the columns would change the penalty. A Jacobi SVD of the rows has
# relative errors that do not depend on the scales of the columns (Drmac and Veselic,
# 2008; LAPACK's dgejsv).

_EPS = float(np.finfo(np.float64).eps)
# Beyond this ratio of the norms of two columns, eigenvalues of a Gram matrix may be off
# by 1e-6 of themselves.
_RATIO = 1e5
# Size that centering leaves of a constant column, relative to the column: exactly, or
# with means subtracted from sums.
_DUST = 1e-13
_DUST_OF_SUMS = 1e-7
# A singular value is noise below this times eps, relative to the columns that its
# vector combines, and their number.
_NOISE = 8.0


def is_graded(squares: Array, totals: Array, *, sums: bool = False) -> Array:
    """Return whether columns differ too much in scale for a Gram matrix.

    There is one answer for each of several designs.

    Parameters
    ----------
    squares : ndarray of shape (..., d)
        Squared norms of the columns.
    totals : ndarray of shape (..., d)
        Those before centering: what is tiny next to them is rounding of a constant
        column.
    sums : bool, default False
        Whether the means were subtracted from sums of squares, not from the rows.
    """
    if squares.size and squares.max() < _RATIO**2 * squares.min():
        return np.zeros(squares.shape[:-1], dtype=bool)
    used = ~is_dust(squares, totals, sums=sums)
    least = np.min(squares, axis=-1, initial=np.inf, where=used)
    largest = np.max(squares, axis=-1, initial=0.0, where=used)
    return np.asarray(least * _RATIO**2 < largest)


def is_dust(squares: Array, totals: Array, *, sums: bool = False) -> Array:
    """Return which columns are constant, so that only rounding is left after centering.

    The parameters are as in `is_graded`.
    """
    dust = _DUST_OF_SUMS if sums else _DUST
    least = dust**2 * totals
    return np.asarray(squares <= least)


def right_singular(A: Array, sizes: Array) -> tuple[Array, Array]:
    """Return squared singular values and right singular vectors of a matrix (n, d).

    The values are in ascending order, the vectors have shape (d, r).

    Every singular value and every entry of the vectors is accurate relative to itself,
    as far as the condition of the matrix with columns (for n < d: and rows) of norm one
    allows. Noise is left out, but for one direction.

    Parameters
    ----------
    A : ndarray of shape (n, d)
        Its columns may be of any scales.
    sizes : ndarray of shape (d,)
        Norms of the columns before centering: noise is relative to them.
    """
    # LAPACK's routine is for columns and rows with entries.
    used = np.flatnonzero(A.any(axis=0))
    if len(used) < A.shape[1]:
        squares = np.zeros(1)
        V = np.zeros((0, 1))
        if len(used):
            squares, V = right_singular(A[:, used], sizes[used])
        vectors = np.zeros((A.shape[1], V.shape[1]))
        vectors[used] = V
        return squares, vectors
    has_entries = A.any(axis=1)
    A = A[has_entries]
    n, d = A.shape
    if n >= d:
        # Columns of any scale.
        values, _, V, work, _, info = dgejsv(
            np.asfortranarray(A),
            joba=0,
            jobu=0,
            jobv=0,
            jobt=1,
            jobp=1,
        )
    else:
        # Rows of any scale.
        values, V, _, work, _, info = dgejsv(
            np.asfortranarray(A.T),
            joba=2,
            jobu=0,
            jobv=0,
            jobt=1,
            jobp=1,
        )
    if info != 0:
        raise ArithmeticError(
            f"the singular values of a {A.shape} design could not be computed"
        )
    # The routine scales the matrix where singular values would overflow.
    values = values * (work[0] / work[1])
    combined_sizes = sizes @ np.abs(V)
    kept = values > _NOISE * _EPS * max(n, d) * combined_sizes
    kept[0] = True
    # LAPACK's values are in descending order.
    squares = np.square(values[kept])[::-1]
    vectors = V[:, kept][:, ::-1]
    return np.ascontiguousarray(squares), np.ascontiguousarray(vectors)
