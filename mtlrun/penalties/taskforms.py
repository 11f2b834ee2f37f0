"""Quadratic forms over the tasks, tr(W M W') for a symmetric positive semidefinite M (T, T).

`MeanForm` and `ChainForm` know their eigenvectors, `SparseForm` has as many entries as the graph has edges: none of
them makes a (T, T) matrix, so that tens of thousands of tasks are possible. `DenseForm` is any other matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.fft
import scipy.sparse as sp

from mtlrun.problem.memory import require
from mtlrun.problem.operator import conjugate_gradients

# Eigenvalues of M below this, relative to the largest and times the number of tasks, are zero.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# Up to so many tasks a product with a matrix of eigenvectors is faster than the cosine transform.
_FEW_TASKS = 150


class TaskForm(ABC):
    """M, as what can be computed with it; W and Z have shape (d, T)."""

    @property
    @abstractmethod
    def n_tasks(self) -> int:
        """Number of tasks T."""

    @property
    @abstractmethod
    def is_definite(self) -> bool:
        """Whether M has no null space."""

    @abstractmethod
    def times(self, W: np.ndarray) -> np.ndarray:
        """Return W M."""

    def value(self, W: np.ndarray) -> float:
        """Return 1/2 tr(W M W')."""
        return 0.5 * float(np.vdot(self.times(W), W))

    @abstractmethod
    def resolve(self, W: np.ndarray, step: float) -> np.ndarray:
        """Return W (I + step M)^{-1}."""

    @abstractmethod
    def inverse_energy(self, Z: np.ndarray) -> float:
        """Return tr(Z M^{-1} Z'), or a number that is above it by rounding; inf off the range of M."""

    @abstractmethod
    def scaled(self, strength: float, ridge: float) -> TaskForm:
        """Return strength M + ridge I."""

    @cached_property
    def matrix(self) -> np.ndarray:
        """M, shape (T, T).

        Raises
        ------
        MemoryLimitError
        """
        require(
            3 * 8 * self.n_tasks**2,
            f"the matrix that couples {self.n_tasks} tasks",
            "Use fewer tasks, or sparsity=0, which needs no matrix.",
        )
        M = self.times(np.eye(self.n_tasks))
        return 0.5 * (M + M.T)


class SpectralForm(TaskForm):
    """A form with known eigenvalues and products with its eigenvectors."""

    @property
    @abstractmethod
    def values(self) -> np.ndarray:
        """Eigenvalues, shape (T,); those that are rounding are 0."""

    @abstractmethod
    def rotate(self, W: np.ndarray) -> np.ndarray:
        """Return W V for the eigenvectors in the columns of V."""

    @abstractmethod
    def back(self, Q: np.ndarray) -> np.ndarray:
        """Return Q V'."""

    @property
    def n_tasks(self) -> int:
        return len(self.values)

    @property
    def is_definite(self) -> bool:
        return bool(self.values.min() > 0)

    def times(self, W: np.ndarray) -> np.ndarray:
        return self.back(self.rotate(W) * self.values)

    def resolve(self, W: np.ndarray, step: float) -> np.ndarray:
        return self.back(self.rotate(W) / (1.0 + step * self.values))

    def inverse_energy(self, Z: np.ndarray) -> float:
        squares = np.square(self.rotate(Z)).sum(axis=0)
        used = self.values > 0
        if np.any(squares[~used] > 0):
            return float("inf")
        return float(np.sum(squares[used] / self.values[used]))


@dataclass(frozen=True, eq=False)
class DenseForm(SpectralForm):
    """Any matrix, by its eigendecomposition."""

    matrix: np.ndarray

    @property
    def n_tasks(self) -> int:
        return len(self.matrix)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.matrix)
        rounding = _ROUNDING * len(values) * max(float(values[-1]), 0.0)
        return np.where(values > rounding, values, 0.0), vectors

    @property
    def values(self) -> np.ndarray:
        return self._eigen[0]

    def rotate(self, W: np.ndarray) -> np.ndarray:
        return W @ self._eigen[1]

    def back(self, Q: np.ndarray) -> np.ndarray:
        return Q @ self._eigen[1].T

    def times(self, W: np.ndarray) -> np.ndarray:
        return W @ self.matrix

    def scaled(self, strength: float, ridge: float) -> DenseForm:
        return DenseForm(strength * self.matrix + ridge * np.eye(self.n_tasks))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Scaled(TaskForm):
    """strength L + ridge I for a matrix L that the class knows."""

    strength: float = 1.0
    ridge: float = 0.0

    def scaled(self, strength: float, ridge: float) -> Self:
        return replace(self, strength=strength * self.strength, ridge=strength * self.ridge + ridge)


@dataclass(frozen=True, eq=False)
class MeanForm(_Scaled, SpectralForm):
    """strength (I - 11'/T) + ridge I: distances from the mean of all tasks. A reflection holds the eigenvectors."""

    tasks: int

    @cached_property
    def values(self) -> np.ndarray:
        return np.concatenate([[self.ridge], np.full(self.tasks - 1, self.strength + self.ridge)])

    @cached_property
    def _normal(self) -> np.ndarray:
        """Normal of the mirror between the first unit vector and that of equal entries."""
        normal = np.full(self.tasks, -(self.tasks**-0.5))
        normal[0] += 1.0
        length = float(np.linalg.norm(normal))
        return normal / length if length > 0 else normal

    def rotate(self, W: np.ndarray) -> np.ndarray:
        return W - np.outer(2.0 * (W @ self._normal), self._normal)

    def back(self, Q: np.ndarray) -> np.ndarray:
        return self.rotate(Q)


@dataclass(frozen=True, eq=False)
class ChainForm(_Scaled, SpectralForm):
    """strength R R' + ridge I, R the differences of neighbours. The eigenvectors are those of the cosine transform."""

    tasks: int

    @cached_property
    def values(self) -> np.ndarray:
        return 4.0 * self.strength * np.square(np.sin(0.5 * np.pi * np.arange(self.tasks) / self.tasks)) + self.ridge

    @cached_property
    def _vectors(self) -> np.ndarray:
        return np.asarray(scipy.fft.idct(np.eye(self.tasks), type=2, norm="ortho", axis=0))

    def rotate(self, W: np.ndarray) -> np.ndarray:
        if self.tasks <= _FEW_TASKS:
            return W @ self._vectors
        return np.asarray(scipy.fft.dct(W, type=2, norm="ortho", axis=1))

    def back(self, Q: np.ndarray) -> np.ndarray:
        if self.tasks <= _FEW_TASKS:
            return Q @ self._vectors.T
        return np.asarray(scipy.fft.idct(Q, type=2, norm="ortho", axis=1))

    def times(self, W: np.ndarray) -> np.ndarray:
        steps = np.diff(W, axis=1)
        out = self.ridge * W
        out[:, :-1] -= self.strength * steps
        out[:, 1:] += self.strength * steps
        return out


@dataclass(frozen=True, eq=False)
class SparseForm(_Scaled):
    """strength L + ridge I for a sparse positive semidefinite L, solved by conjugate gradients.

    Parameters
    ----------
    base : csr_array of shape (T, T)
        L.
    strength, ridge : float
    """

    base: sp.csr_array

    @property
    def n_tasks(self) -> int:
        return int(self.base.shape[0])

    @property
    def is_definite(self) -> bool:
        return self.ridge > 0

    def times(self, W: np.ndarray) -> np.ndarray:
        return np.asarray(self.strength * (self.base @ W.T).T + self.ridge * W)

    def resolve(self, W: np.ndarray, step: float) -> np.ndarray:
        return self._solve(W, 1.0, step)[0]

    def inverse_energy(self, Z: np.ndarray) -> float:
        if not self.is_definite:
            return float("inf") if np.any(Z) else 0.0
        X, R = self._solve(Z, 0.0, 1.0)
        # Z M^{-1} Z' = X (Z + R)' + R M^{-1} R', whose last term is at most ||R||^2 / ridge: never too low.
        return float(np.vdot(X, Z + R)) + float(np.vdot(R, R)) / self.ridge

    def _solve(self, W: np.ndarray, identity: float, step: float) -> tuple[np.ndarray, np.ndarray]:
        """Solve X (identity I + step M) = W; return X and the residual."""
        one, many = identity + step * self.ridge, step * self.strength
        solved = conjugate_gradients(
            lambda V: one * V + many * (self.base @ V),
            np.ascontiguousarray(W.T),
            diagonal=one + many * self.base.diagonal(),
        )
        return solved.X.T, solved.residual.T
