"""Interface of penalties, which solvers and certificates use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

Array = np.ndarray


def check_number(name: str, value: float, *, positive: bool = False) -> None:
    """Raise an error unless a number is finite and non-negative, or positive.

    Raises
    ------
    ValueError
    """
    if positive:
        kind = "positive"
        is_valid = value > 0
    else:
        kind = "non-negative"
        is_valid = value >= 0
    if not (np.isfinite(value) and is_valid):
        raise ValueError(f"{name} must be {kind} and finite, got {value}")


@dataclass(frozen=True)
class Penalty(ABC):
    """A convex function of a (d, T) matrix that is zero at zero.

    Parameters
    ----------
    alpha : float
        Non-negative strength.

    Raises
    ------
    ValueError
        If `alpha` is negative or not finite.
    """

    alpha: float

    #: Unchanged under W -> Q W for orthogonal Q (d, d), so that solvers may rotate the
    #: features.
    rotation_invariant: ClassVar[bool] = False
    #: alpha times a norm: `dual_norm` is its dual norm / alpha, and Z is dual feasible
    #: iff dual_norm(Z) <= 1.
    is_norm: ClassVar[bool] = True
    #: A sum (over tasks) of norms of the columns: the dual constraint holds column by
    #: column (`column_dual_norms`).
    by_column: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha)

    @property
    def is_zero(self) -> bool:
        """Whether nothing is penalized, so that the dual demands X'theta = 0."""
        return self.alpha == 0

    @property
    def constrains_dual(self) -> bool:
        """Whether the conjugate is inf for dual_norm(Z) > 1.

        A dual point must then be scaled to be feasible.
        """
        return self.is_norm

    @abstractmethod
    def value(self, W: Array) -> float:
        """Return the penalty of W."""

    @abstractmethod
    def prox(self, W: Array, step: float) -> Array:
        """Return argmin_V step * value(V) + ||V - W||_F^2 / 2, a new array."""

    def prox_value(self, W: Array, step: float) -> tuple[Array, float]:
        """Return the prox and the penalty of the prox.

        Some penalties compute both faster than one after the other.
        """
        V = self.prox(W, step)
        return V, self.value(V)

    def conjugate(self, Z: Array) -> float:
        """Return sup_W <Z, W> - value(W).

        For a norm it is the indicator of dual_norm(Z) <= 1.
        """
        if self.dual_norm(Z) <= 1.0:
            return 0.0
        return float("inf")

    def dual_norm(self, Z: Array) -> float:
        """Return the dual norm of Z / alpha.

        For alpha = 0 it is 0 at Z = 0 and inf elsewhere.
        """
        if self.by_column:
            return float(self.column_dual_norms(Z).max(initial=0.0))
        raise TypeError(f"{type(self).__name__} is not a norm; use conjugate")

    def column_dual_norms(self, Z: Array) -> Array:
        """Return the dual norms of the columns (T,), for a penalty with `by_column`."""
        raise TypeError(f"{type(self).__name__} is not a sum over columns")

    def _per_alpha(self, norms: Array) -> Array:
        if self.alpha > 0:
            return norms / self.alpha
        return np.where(norms > 0, np.inf, 0.0)
