"""Interface of penalties, which solvers and certificates use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np


def check_number(name: str, value: float, *, positive: bool = False) -> None:
    """Refuse a number that is not finite, is negative, or is zero where it must be positive."""
    if not (np.isfinite(value) and (value > 0 if positive else value >= 0)):
        raise ValueError(
            f"{name} must be {'positive' if positive else 'non-negative'} and finite, got {value}"
        )


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
        """Whether the conjugate is inf for dual_norm(Z) > 1, so that a dual point must be scaled."""
        return self.is_norm

    @abstractmethod
    def value(self, W: np.ndarray) -> float:
        """Return the penalty of W."""

    @abstractmethod
    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        """Return argmin_V step * value(V) + ||V - W||_F^2 / 2, a new array."""

    def prox_value(self, W: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        """Return the prox and the penalty of the prox, which is cheaper together for some."""
        V = self.prox(W, step)
        return V, self.value(V)

    def conjugate(self, Z: np.ndarray) -> float:
        """Return sup_W <Z, W> - value(W); for a norm the indicator of dual_norm(Z) <= 1."""
        if self.dual_norm(Z) <= 1.0:
            return 0.0
        return float("inf")

    def dual_norm(self, Z: np.ndarray) -> float:
        """Return dual norm of Z / alpha; for alpha = 0 it is 0 at Z = 0 and inf elsewhere."""
        if self.by_column:
            return float(self.column_dual_norms(Z).max(initial=0.0))
        raise TypeError(f"{type(self).__name__} is not a norm; use conjugate")

    def column_dual_norms(self, Z: np.ndarray) -> np.ndarray:
        """Return the dual norm of each column, shape (T,), for a penalty with `by_column`."""
        raise TypeError(f"{type(self).__name__} is not a sum over columns")

    def _per_alpha(self, norms: np.ndarray) -> np.ndarray:
        if self.alpha > 0:
            return norms / self.alpha
        return np.where(norms > 0, np.inf, 0.0)
