"""Quadratic coupling of tasks, alone or together with a norm on the same coefficients, and total variation along tasks.

The quadratic ones have a symmetric positive semidefinite (T, T) matrix M and the term
1/2 tr(W M W') = 1/2 sum_st M_st <w_s, w_t>; with M = strength * Laplacian this is
strength/2 sum_{s<t} A_st ||w_s - w_t||^2. M is given as a `TaskForm`: `MeanForm` and
`ChainForm` know their eigenvectors, `SparseForm` has as many entries as the graph has
edges: none of them makes a (T, T) matrix, so that tens of thousands of tasks are
possible. `DenseForm` is any other matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.fft
import scipy.sparse as sp

from mtlrun.penalties.norms import L1, L21
from mtlrun.problem.memory import require
from mtlrun.problem.operator import conjugate_gradients
from mtlrun.problem.penalty import Penalty, check_number
from mtlrun.utils.jit import compiled

# Eigenvalues of M below this, relative to the largest and times the number of tasks,
# are zero.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# Up to this number of tasks, a product with the matrix of eigenvectors is faster than
# the cosine transform.
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
        """Eigenvalues, shape (T,); rounding errors are set to 0."""

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
        return replace(
            self, strength=strength * self.strength, ridge=strength * self.ridge + ridge
        )


@dataclass(frozen=True, eq=False)
class MeanForm(_Scaled, SpectralForm):
    """strength (I - 11'/T) + ridge I: distances from the mean of all tasks. A reflection holds the eigenvectors."""

    tasks: int

    @cached_property
    def values(self) -> np.ndarray:
        return np.concatenate(
            [[self.ridge], np.full(self.tasks - 1, self.strength + self.ridge)]
        )

    @cached_property
    def _normal(self) -> np.ndarray:
        """Normal of the reflection that maps (1, 0, ..., 0) to a vector of equal entries."""
        normal = np.full(self.tasks, -(self.tasks**-0.5))
        normal[0] += 1.0
        length = float(np.linalg.norm(normal))
        if length > 0:
            return normal / length
        return normal

    def rotate(self, W: np.ndarray) -> np.ndarray:
        return W - np.outer(2.0 * (W @ self._normal), self._normal)

    def back(self, Q: np.ndarray) -> np.ndarray:
        return self.rotate(Q)


@dataclass(frozen=True, eq=False)
class ChainForm(_Scaled, SpectralForm):
    """strength R R' + ridge I, where R takes the differences of neighboring tasks.

    The cosine transform has the same eigenvectors.
    """

    tasks: int

    @cached_property
    def values(self) -> np.ndarray:
        return (
            4.0
            * self.strength
            * np.square(np.sin(0.5 * np.pi * np.arange(self.tasks) / self.tasks))
            + self.ridge
        )

    @cached_property
    def _vectors(self) -> np.ndarray:
        return np.asarray(
            scipy.fft.idct(np.eye(self.tasks), type=2, norm="ortho", axis=0)
        )

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
            if np.any(Z):
                return float("inf")
            return 0.0
        X, R = self._solve(Z, 0.0, 1.0)
        # Z M^{-1} Z' = X (Z + R)' + R M^{-1} R', whose last term is at most ||R||^2 /
        # ridge: never too low.
        return float(np.vdot(X, Z + R)) + float(np.vdot(R, R)) / self.ridge

    def _solve(
        self, W: np.ndarray, identity: float, step: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve X (identity I + step M) = W; return X and the residual."""
        # The matrix is identity_weight I + base_weight base.
        identity_weight = identity + step * self.ridge
        base_weight = step * self.strength
        solved = conjugate_gradients(
            lambda V: identity_weight * V + base_weight * (self.base @ V),
            np.ascontiguousarray(W.T),
            diagonal=identity_weight + base_weight * self.base.diagonal(),
        )
        return solved.X.T, solved.residual.T


# ---------------------------------------------------------------------- penalties

# Steps for lengths and for the dual norm; they converge quadratically.
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

    In the eigenbasis of M, values mu, both prox and conjugate of a row are z_i x / (d_i
    x + 1) with d = 1 + step mu and d = mu and the x >= 0 for which ||z / (d x + 1)|| =
    alpha (times step for the prox); 0 for ||z|| <= alpha. The conjugate is inf where
    the part of a row of Z in the null space of M is longer than alpha.

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
        short = _shortened(
            self.form.rotate(W), 1.0 + step * self.form.values, step * self.alpha
        )
        return self.form.back(short)

    def dual_norm(self, Z: np.ndarray) -> float:
        """Return the largest length of the rows of Z in the null space of M, / alpha."""
        free = self.form.rotate(Z)[:, self.form.values == 0]
        return float(np.sqrt(np.square(free).sum(axis=1)).max(initial=0.0)) / self.alpha

    def conjugate(self, Z: np.ndarray) -> float:
        if self.dual_norm(Z) > 1.0 + 1e-12:
            return float("inf")
        w = _shortened(self.form.rotate(Z), self.form.values, self.alpha)
        return 0.5 * float(np.sum(self.form.values * np.square(w)))


@dataclass(frozen=True, eq=False)
class CoupledL1(Penalty):
    """alpha sum |w| + 1/2 tr(W M W').

    The prox of a row is a Lasso with one coefficient per task, solved by coordinate
    descent; so is the conjugate, for which any W gives a safe upper bound: 1/2 tr(V
    M^{-1} V') with V = Z - clip(Z - W M, -alpha, alpha). Both begin at the last prox:
    where a solver converges, that is the maximizer of the conjugate.

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
            raise ValueError(
                "M must be positive definite: coefficients in its null space would be free"
            )

    def value(self, W: np.ndarray) -> float:
        return L1(self.alpha).value(W) + self.form.value(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        M = self.form.matrix
        V = self._row_lasso(
            np.eye(len(M)) + step * M, W, step * self.alpha, _MAX_SWEEPS
        )
        self._last["prox"] = V
        return V

    def conjugate(self, Z: np.ndarray) -> float:
        begun = "prox" in self._last and self._last["prox"].shape == Z.shape
        W = self._row_lasso(
            self.form.matrix, Z, self.alpha, _FEW_SWEEPS if begun else _MAX_SWEEPS
        )
        V = Z - np.clip(Z - self.form.times(W), -self.alpha, self.alpha)
        return 0.5 * self.form.inverse_energy(V)

    def _row_lasso(
        self, G: np.ndarray, Z: np.ndarray, threshold: float, sweeps: int
    ) -> np.ndarray:
        """Return, per row, argmin_v 1/2 v'Gv - <z, v> + threshold ||v||_1."""
        start = self._last.get("prox")
        if threshold <= 0 or start is None or start.shape != Z.shape:
            start = np.linalg.solve(G, Z.T).T
        if threshold <= 0:
            return start
        return _descend(
            G,
            np.ascontiguousarray(Z),
            np.array(start, order="C"),
            float(threshold),
            sweeps,
        )


def _shortened(Z: np.ndarray, curvature: np.ndarray, threshold: float) -> np.ndarray:
    """Return, per row, argmin_v 1/2 sum_i curvature_i v_i^2 - <z, v> + threshold ||v||_2; threshold > 0.

    With x = ||v|| / threshold, v_i = z_i x / (curvature_i x + 1), where 1 / ||z /
    (curvature x + 1)|| = 1 / threshold. The left side is a power mean of linear
    functions, hence concave: Newton's steps from below never pass the root.
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
        falling = np.sum(
            z2 * curvature / scale**3, axis=1
        )  # minus half the derivative of `square`
        # 1/sqrt(square) + step * falling / square^1.5 = 1 / threshold
        move = (
            (np.sqrt(square) / threshold - 1.0)
            * square
            / np.maximum(falling, np.finfo(np.float64).tiny)
        )
        x = np.minimum(x + np.maximum(move, 0.0), 1e50)
        if np.all(move <= 1e-14 * x):
            break
    shortened[rows] = Z[rows] * (x[:, None] / (curvature * x[:, None] + 1.0))
    return shortened


@compiled
def _descend(
    G: np.ndarray, Z: np.ndarray, V: np.ndarray, threshold: float, sweeps: int
) -> np.ndarray:
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


# ---------------------------------------------------------------------- total variation along the tasks


@dataclass(frozen=True)
class FusedGroup(Penalty):
    """alpha sum_j ||w^j||_2 + sparsity sum |w_jt| + fusion sum_jt |w_j,t+1 - w_jt|, w^j the rows (features).

    Prox: total variation, then soft threshold, then row shrinkage, in this order (Zhou
    et al., Modeling disease progression via fused sparse group lasso, KDD 2012). The
    dual norm of a row z is the largest <z, v> / value(v), found by going from c to that
    ratio at v = prox of c * value at z.

    Parameters
    ----------
    alpha, sparsity, fusion : float
        Non-negative. `alpha` and `sparsity` must not both be zero unless all three are:
        a row of equal entries would cost nothing, and the penalty would be no norm.

    Raises
    ------
    ValueError
        If a strength is negative or not finite, or only `fusion` is positive.
    """

    sparsity: float = 0.0
    fusion: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("sparsity", self.sparsity)
        check_number("fusion", self.fusion)
        if self.alpha == 0 and self.sparsity == 0 and self.fusion > 0:
            raise ValueError(
                "alpha and sparsity are both 0: coefficients that are equal for all tasks would be free"
            )

    @property
    def is_zero(self) -> bool:
        return self.alpha == 0 and self.sparsity == 0

    def value(self, W: np.ndarray) -> float:
        return float(self._row_values(W).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        smooth = total_variation_prox(W, step * self.fusion)
        threshold = step * self.sparsity
        smooth -= np.clip(smooth, -threshold, threshold)
        return L21(self.alpha).prox(smooth, step)

    def dual_norm(self, Z: np.ndarray) -> float:
        if self.is_zero:
            if np.any(Z):
                return float("inf")
            return 0.0
        rows = Z[np.any(Z, axis=1)]
        best = 0.0
        for _ in range(_MAX_STEPS):
            # Rows whose prox vanishes have a dual norm of at most `best`.
            V = self.prox(rows, best)
            left = np.any(V, axis=1)
            if not left.any():
                break
            rows = rows[left]
            V = V[left]
            ratio = float((np.einsum("ij,ij->i", rows, V) / self._row_values(V)).max())
            if ratio <= best * (1.0 + 1e-15):
                break
            best = ratio
        return best

    def _row_values(self, W: np.ndarray) -> np.ndarray:
        values = self.alpha * np.sqrt(
            np.einsum("ij,ij->i", W, W)
        ) + self.sparsity * np.abs(W).sum(axis=1)
        return values + self.fusion * np.abs(np.diff(W, axis=1)).sum(axis=1)


def total_variation_prox(Z: np.ndarray, strength: float) -> np.ndarray:
    """Return, for every row z, argmin_v 1/2 ||v - z||^2 + strength * sum_t |v_{t+1} - v_t|, exactly.

    Dynamic programming over the derivative of the cost-to-come, a piecewise linear
    function clipped to [-strength, strength] from one entry to the next (Johnson, A
    dynamic programming algorithm for the fused lasso and L0-segmentation, JCGS 2013).

    Parameters
    ----------
    Z : ndarray of shape (d, T)
    strength : float
        Non-negative.
    """
    if strength <= 0 or Z.shape[1] < 2:
        return Z.copy()
    return _smooth_rows(np.ascontiguousarray(Z), float(strength))


@compiled
def _smooth_rows(Z: np.ndarray, strength: float) -> np.ndarray:
    d: int = Z.shape[0]
    T: int = Z.shape[1]
    out = np.empty_like(Z)
    # Knots of the derivative, and the changes of its slope and offset there. `left` and
    # `right` are the first and the last knot in use.
    knots = np.empty(2 * T)
    slopes = np.empty(2 * T)
    offsets = np.empty(2 * T)
    lower = np.empty(T)
    upper = np.empty(T)
    for j in range(d):
        left = T
        right = T - 1
        for t in range(T - 1):
            # The derivative is x - z_t - strength before the first knot (+ strength
            # after the last), 0 for t = 0.
            bound = 0.0
            if t > 0:
                bound = strength
            slope = 1.0
            offset = -Z[j, t] - bound
            while left <= right and slope * knots[left] + offset < -strength:
                slope += slopes[left]
                offset += offsets[left]
                left += 1
            lower[t] = (-strength - offset) / slope
            slope_up = slope
            offset_up = offset + strength
            slope = 1.0
            offset = bound - Z[j, t]
            while right >= left and slope * knots[right] + offset > strength:
                slope -= slopes[right]
                offset -= offsets[right]
                right -= 1
            upper[t] = (strength - offset) / slope
            left -= 1
            knots[left] = lower[t]
            slopes[left] = slope_up
            offsets[left] = offset_up
            right += 1
            knots[right] = upper[t]
            slopes[right] = -slope
            offsets[right] = strength - offset
        slope = 1.0
        offset = -Z[j, T - 1] - strength
        while left <= right and slope * knots[left] + offset < 0.0:
            slope += slopes[left]
            offset += offsets[left]
            left += 1
        out[j, T - 1] = -offset / slope
        for t in range(T - 2, -1, -1):
            out[j, t] = min(max(out[j, t + 1], lower[t]), upper[t])
    return out
