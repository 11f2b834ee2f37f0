"""Quadratic coupling of tasks, alone or together with a norm on the same coefficients.

All have a symmetric positive semidefinite (T, T) matrix M and the term 1/2 tr(W M W') = 1/2 sum_st M_st <w_s, w_t>;
with M = strength * Laplacian this is strength/2 sum_{s<t} A_st ||w_s - w_t||^2. M is given as a `TaskForm`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mtlrun.penalties.norms import L1, L21
from mtlrun.penalties.taskforms import SpectralForm, TaskForm
from mtlrun.problem.penalty import Penalty
from mtlrun.utils.jit import compiled

_MAX_STEPS = 100
_MAX_SWEEPS = 2000
_FEW_SWEEPS = 30
_ACCURACY = 1e-12


@dataclass(frozen=True, eq=False)
class TaskQuadratic(Penalty):
    """alpha/2 tr(W M W'); prox W (I + step alpha M)^{-1}; conjugate 1/(2 alpha) tr(Z M^{-1} Z').

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    form : TaskForm
        M, positive definite (else the conjugate is inf off its range).
    """

    form: TaskForm

    rotation_invariant: ClassVar[bool] = True
    is_norm: ClassVar[bool] = False

    def value(self, W: np.ndarray) -> float:
        return self.alpha * self.form.value(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return self.form.resolve(W, step * self.alpha)

    def conjugate(self, Z: np.ndarray) -> float:
        return float(self._per_alpha(np.asarray(0.5 * self.form.inverse_energy(Z))))


@dataclass(frozen=True, eq=False)
class CoupledL21(Penalty):
    """alpha sum_j ||w^j||_2 + 1/2 tr(W M W'), w^j the rows (features).

    In the eigenbasis of M, values mu, both prox and conjugate of a row are z_i x / (d_i x + 1) with d = 1 + step mu and
    d = mu and the x >= 0 for which ||z / (d x + 1)|| = alpha (times step for the prox); 0 for ||z|| <= alpha. The
    conjugate is inf where the part of a row of Z in the null space of M is longer than alpha.

    Parameters
    ----------
    alpha : float
        Positive strength of the norm.
    form : SpectralForm
        M; it may be singular.
    """

    form: SpectralForm

    is_norm: ClassVar[bool] = False

    @property
    def constrains_dual(self) -> bool:
        return not self.form.is_definite

    def value(self, W: np.ndarray) -> float:
        return L21(self.alpha).value(W) + self.form.value(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        if step == 0:
            return W.copy()
        short = _shortened(self.form.rotate(W), 1.0 + step * self.form.values, step * self.alpha)
        return self.form.back(short)

    def polar(self, Z: np.ndarray) -> float:
        """Return the largest length of the rows of Z in the null space of M, / alpha."""
        free = self.form.rotate(Z)[:, self.form.values == 0]
        return float(np.sqrt(np.square(free).sum(axis=1)).max(initial=0.0)) / self.alpha

    def conjugate(self, Z: np.ndarray) -> float:
        if self.polar(Z) > 1.0 + 1e-12:
            return float("inf")
        w = _shortened(self.form.rotate(Z), self.form.values, self.alpha)
        return 0.5 * float(np.sum(self.form.values * np.square(w)))


@dataclass(frozen=True, eq=False)
class CoupledL1(Penalty):
    """alpha sum |w| + 1/2 tr(W M W').

    The prox of a row is a Lasso with one coefficient per task, solved by coordinate descent; so is the conjugate, for
    which any W gives a safe upper bound: 1/2 tr(V M^{-1} V') with V = Z - clip(Z - W M, -alpha, alpha). Both begin at
    the last prox: where a solver converges, that is the maximiser of the conjugate.

    Parameters
    ----------
    alpha : float
        Non-negative strength of the norm.
    form : TaskForm
        M, positive definite.

    Raises
    ------
    ValueError
        If M is not.
    """

    form: TaskForm
    _last: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    is_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.form.is_definite:
            raise ValueError("M must be positive definite: coefficients in its null space would be free")

    def value(self, W: np.ndarray) -> float:
        return L1(self.alpha).value(W) + self.form.value(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        M = self.form.matrix
        V = self._row_lasso(np.eye(len(M)) + step * M, W, step * self.alpha, _MAX_SWEEPS)
        self._last["prox"] = V
        return V

    def conjugate(self, Z: np.ndarray) -> float:
        begun = "prox" in self._last and self._last["prox"].shape == Z.shape
        W = self._row_lasso(self.form.matrix, Z, self.alpha, _FEW_SWEEPS if begun else _MAX_SWEEPS)
        V = Z - np.clip(Z - self.form.times(W), -self.alpha, self.alpha)
        return 0.5 * self.form.inverse_energy(V)

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
