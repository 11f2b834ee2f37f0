"""Quadratic coupling of tasks, alone or together with a norm on the same coefficients.

All have a symmetric positive semidefinite (T, T) matrix M and the term 1/2 tr(W M W') = 1/2 sum_st M_st <w_s, w_t>;
with M = strength * Laplacian this is strength/2 sum_{s<t} A_st ||w_s - w_t||^2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from mtlrun.core.penalties import L1, L21, Penalty
from mtlrun.core.rows import compiled

# Eigenvalues of M below this, relative to the largest and times the number of tasks, are zero.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
_MAX_STEPS = 100
_MAX_SWEEPS = 2000
_FEW_SWEEPS = 30
_ACCURACY = 1e-12


@dataclass(frozen=True, eq=False)
class _Coupled(Penalty):
    """Eigenvalues and eigenvectors of M, and its quadratic form."""

    matrix: np.ndarray

    is_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        M = self.matrix
        if M.ndim != 2 or M.shape[0] != M.shape[1] or not np.allclose(M, M.T):
            raise ValueError(f"matrix must be symmetric with one row per task, got shape {M.shape}")
        lowest = float(np.linalg.eigvalsh(M)[0])
        if lowest < -1e-8 * (1.0 + float(np.abs(M).max())):
            raise ValueError(f"matrix must be positive semidefinite, got the eigenvalue {lowest:g}")

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.matrix)
        rounding = _ROUNDING * len(values) * max(float(values[-1]), 0.0)
        return np.where(values > rounding, values, 0.0), vectors

    @property
    def is_definite(self) -> bool:
        """Whether M has no null space."""
        return bool(self._eigen[0][0] > 0)

    def _quadratic(self, W: np.ndarray) -> float:
        return 0.5 * float(np.vdot(W @ self.matrix, W))


@dataclass(frozen=True, eq=False)
class TaskQuadratic(_Coupled):
    """alpha/2 tr(W M W'); prox W (I + step alpha M)^{-1}; conjugate 1/(2 alpha) tr(Z M^{-1} Z').

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    matrix : ndarray of shape (T, T)
        M, positive definite (else the conjugate is inf off its range).

    Raises
    ------
    ValueError
        If `alpha` is out of range or M is no such matrix.
    """

    rotation_invariant: ClassVar[bool] = True

    def value(self, W: np.ndarray) -> float:
        return self.alpha * self._quadratic(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        values, vectors = self._eigen
        return ((W @ vectors) / (1.0 + step * self.alpha * values)) @ vectors.T

    def conjugate(self, Z: np.ndarray) -> float:
        values, vectors = self._eigen
        squares = np.square(Z @ vectors).sum(axis=0)
        if self.alpha == 0 or np.any(squares[values == 0] > 0):
            return float("inf") if np.any(squares > 0) else 0.0
        used = values > 0
        return 0.5 * float(np.sum(squares[used] / values[used])) / self.alpha


@dataclass(frozen=True, eq=False)
class CoupledL21(_Coupled):
    """alpha sum_j ||w^j||_2 + 1/2 tr(W M W'), w^j the rows (features).

    In the eigenbasis of M, values mu, both prox and conjugate of a row are z_i x / (d_i x + 1) with d = 1 + step mu and
    d = mu and the x >= 0 for which ||z / (d x + 1)|| = alpha (times step for the prox); 0 for ||z|| <= alpha. The
    conjugate is inf where the part of a row of Z in the null space of M is longer than alpha.

    Parameters
    ----------
    alpha : float
        Positive strength of the norm.
    matrix : ndarray of shape (T, T)
        M; it may be singular.

    Raises
    ------
    ValueError
        If `alpha` is out of range or M is no such matrix.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha == 0:
            raise ValueError("alpha must be positive; without the norm use TaskQuadratic")

    @property
    def constrains_dual(self) -> bool:
        return not self.is_definite

    def value(self, W: np.ndarray) -> float:
        return L21(self.alpha).value(W) + self._quadratic(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        if step == 0:
            return W.copy()
        values, vectors = self._eigen
        return _shortened(W @ vectors, 1.0 + step * values, step * self.alpha) @ vectors.T

    def polar(self, Z: np.ndarray) -> float:
        """Return the largest length of the rows of Z in the null space of M, / alpha."""
        values, vectors = self._eigen
        free = Z @ vectors[:, values == 0]
        return float(np.sqrt(np.square(free).sum(axis=1)).max(initial=0.0)) / self.alpha

    def conjugate(self, Z: np.ndarray) -> float:
        values, vectors = self._eigen
        if self.polar(Z) > 1.0 + 1e-12:
            return float("inf")
        w = _shortened(Z @ vectors, values, self.alpha)
        return 0.5 * float(np.sum(values * np.square(w)))


@dataclass(frozen=True, eq=False)
class CoupledL1(_Coupled):
    """alpha sum |w| + 1/2 tr(W M W').

    The prox of a row is a Lasso with one coefficient per task, solved by coordinate descent; so is the conjugate, for
    which any W gives a safe upper bound: 1/2 tr(V M^{-1} V') with V = Z - clip(Z - W M, -alpha, alpha). Both begin at
    the last prox: where a solver converges, that is the maximiser of the conjugate.

    Parameters
    ----------
    alpha : float
        Non-negative strength of the norm.
    matrix : ndarray of shape (T, T)
        M, positive definite.

    Raises
    ------
    ValueError
        If `alpha` is out of range or M is no such matrix.
    """

    _last: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.is_definite:
            raise ValueError("matrix must be positive definite: coefficients in its null space would be free")

    def value(self, W: np.ndarray) -> float:
        return L1(self.alpha).value(W) + self._quadratic(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        V = self._row_lasso(np.eye(len(self.matrix)) + step * self.matrix, W, step * self.alpha, _MAX_SWEEPS)
        self._last["prox"] = V
        return V

    def conjugate(self, Z: np.ndarray) -> float:
        begun = "prox" in self._last and self._last["prox"].shape == Z.shape
        W = self._row_lasso(self.matrix, Z, self.alpha, _FEW_SWEEPS if begun else _MAX_SWEEPS)
        V = Z - np.clip(Z - W @ self.matrix, -self.alpha, self.alpha)
        values, vectors = self._eigen
        return 0.5 * float(np.sum(np.square(V @ vectors) / values))

    def _row_lasso(self, G: np.ndarray, Z: np.ndarray, threshold: float, sweeps: int) -> np.ndarray:
        """Return, per row, argmin_v 1/2 v'Gv - <z, v> + threshold ||v||_1."""
        start = self._last.get("prox")
        if threshold <= 0 or start is None or start.shape != Z.shape:
            start = np.linalg.solve(G, Z.T).T
        if threshold <= 0:
            return start
        return _descend(G, np.ascontiguousarray(Z), np.array(start, order="C"), float(threshold), sweeps)


def _shortened(Z: np.ndarray, curvature: np.ndarray, threshold: float) -> np.ndarray:
    """Return, per row, argmin_v 1/2 sum_i curvature_i v_i^2 - <z, v> + threshold ||v||_2; threshold > 0.

    With x = ||v|| / threshold, v_i = z_i x / (curvature_i x + 1), where 1 / ||z / (curvature x + 1)|| = 1 / threshold.
    The left side is a power mean of linear functions, hence concave: Newton's steps from below never pass the root.
    """
    size = np.sqrt(np.square(Z).sum(axis=1))
    rows = np.flatnonzero(size > threshold)
    shortened = np.zeros_like(Z)
    if len(rows) == 0 or not curvature.any():
        return shortened
    z2 = np.square(Z[rows])
    x = (size[rows] / threshold - 1.0) / float(curvature.max())
    for _ in range(_MAX_STEPS):
        scale = curvature * x[:, None] + 1.0
        square = np.sum(z2 / scale**2, axis=1)
        falling = np.sum(z2 * curvature / scale**3, axis=1)  # minus half the derivative of `square`
        # 1/sqrt(square) + step * falling / square^1.5 = 1 / threshold
        move = (np.sqrt(square) / threshold - 1.0) * square / np.maximum(falling, np.finfo(np.float64).tiny)
        x = np.minimum(x + np.maximum(move, 0.0), 1e50)
        if np.all(move <= 1e-14 * x):
            break
    shortened[rows] = Z[rows] * (x[:, None] / (curvature * x[:, None] + 1.0))
    return shortened


@compiled
def _descend(G: np.ndarray, Z: np.ndarray, V: np.ndarray, threshold: float, sweeps: int) -> np.ndarray:
    """Coordinate descent, row by row, in place of V."""
    d, T = V.shape
    for j in range(d):
        fitted = np.zeros(T)
        largest = 0.0
        for t in range(T):
            largest = max(largest, abs(Z[j, t]))
            for s in range(T):
                fitted[s] += G[t, s] * V[j, t]
        for _ in range(sweeps):
            worst = 0.0
            for t in range(T):
                curve = G[t, t]
                old = V[j, t]
                pull = Z[j, t] - fitted[t] + curve * old
                new = 0.0
                if pull > threshold:
                    new = (pull - threshold) / curve
                elif pull < -threshold:
                    new = (pull + threshold) / curve
                change = new - old
                if change != 0.0:
                    V[j, t] = new
                    for s in range(T):
                        fitted[s] += G[t, s] * change
                    worst = max(worst, abs(change) * curve)
            if worst <= _ACCURACY * largest:
                break
    return V
