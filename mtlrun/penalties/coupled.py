"""Penalties that couple tasks: quadratic forms, with or without norms, and fusion.

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
from typing import Self

import numpy as np
import scipy.fft
import scipy.sparse as sp

from mtlrun.penalties.norms import L1, L21
from mtlrun.problem.memory import require
from mtlrun.problem.operator import conjugate_gradients
from mtlrun.problem.penalty import Penalty, check_number
from mtlrun.utils.jit import compiled

Array = np.ndarray

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
    def times(self, W: Array) -> Array:
        """Return W M."""

    def value(self, W: Array) -> float:
        """Return 1/2 tr(W M W')."""
        product = self.times(W)
        return 0.5 * float(np.vdot(product, W))

    @abstractmethod
    def resolve(self, W: Array, step: float) -> Array:
        """Return W (I + step M)^{-1}."""

    @abstractmethod
    def inverse_energy(self, Z: Array) -> float:
        """Return tr(Z M^{-1} Z'), inf off the range of M.

        Rounding may only make it larger: it bounds a duality gap from above.
        """

    @abstractmethod
    def scaled(self, strength: float, ridge: float) -> TaskForm:
        """Return strength M + ridge I."""

    @cached_property
    def matrix(self) -> Array:
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
    def values(self) -> Array:
        """Eigenvalues, shape (T,); rounding errors are set to 0."""

    @abstractmethod
    def rotate(self, W: Array) -> Array:
        """Return W V for the eigenvectors in the columns of V."""

    @abstractmethod
    def back(self, Q: Array) -> Array:
        """Return Q V'."""

    @property
    def n_tasks(self) -> int:
        return len(self.values)

    @property
    def is_definite(self) -> bool:
        return bool(self.values.min() > 0)

    def times(self, W: Array) -> Array:
        rotated = self.rotate(W)
        return self.back(rotated * self.values)

    def resolve(self, W: Array, step: float) -> Array:
        rotated = self.rotate(W)
        divisors = 1.0 + step * self.values
        return self.back(rotated / divisors)

    def inverse_energy(self, Z: Array) -> float:
        rotated = self.rotate(Z)
        squares = np.square(rotated).sum(axis=0)
        in_range = self.values > 0
        if np.any(squares[~in_range] > 0):
            return float("inf")
        energies = squares[in_range] / self.values[in_range]
        return float(np.sum(energies))


@dataclass(frozen=True, eq=False)
class DenseForm(SpectralForm):
    """Any matrix, by its eigendecomposition."""

    matrix: Array

    @property
    def n_tasks(self) -> int:
        return len(self.matrix)

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(self.matrix)
        largest = max(float(values[-1]), 0.0)
        rounding = _ROUNDING * len(values) * largest
        return np.where(values > rounding, values, 0.0), vectors

    @property
    def values(self) -> Array:
        return self._eigen[0]

    def rotate(self, W: Array) -> Array:
        _, vectors = self._eigen
        return W @ vectors

    def back(self, Q: Array) -> Array:
        _, vectors = self._eigen
        return Q @ vectors.T

    def times(self, W: Array) -> Array:
        return W @ self.matrix

    def scaled(self, strength: float, ridge: float) -> DenseForm:
        identity = np.eye(self.n_tasks)
        return DenseForm(strength * self.matrix + ridge * identity)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Scaled(TaskForm):
    """strength L + ridge I for a matrix L that the class knows."""

    strength: float = 1.0
    ridge: float = 0.0

    def scaled(self, strength: float, ridge: float) -> Self:
        new_strength = strength * self.strength
        new_ridge = strength * self.ridge + ridge
        return replace(self, strength=new_strength, ridge=new_ridge)


@dataclass(frozen=True, eq=False)
class MeanForm(_Scaled, SpectralForm):
    """Distances from the mean of all tasks: strength (I - 11'/T) + ridge I.

    The eigenvectors are the columns of a reflection, which is applied without a (T, T)
    matrix.
    """

    tasks: int

    @cached_property
    def values(self) -> Array:
        # The vector of ones has the eigenvalue `ridge`, all others the larger one.
        larger = np.full(self.tasks - 1, self.strength + self.ridge)
        return np.concatenate([[self.ridge], larger])

    @cached_property
    def _normal(self) -> Array:
        """Normal of the reflection of (1, 0, ..., 0) to a vector of equal entries."""
        entry = self.tasks**-0.5
        normal = np.full(self.tasks, -entry)
        normal[0] += 1.0
        length = float(np.linalg.norm(normal))
        if length > 0:
            return normal / length
        return normal

    def rotate(self, W: Array) -> Array:
        lengths = W @ self._normal
        return W - np.outer(2.0 * lengths, self._normal)

    def back(self, Q: Array) -> Array:
        # A reflection is its own inverse.
        return self.rotate(Q)


@dataclass(frozen=True, eq=False)
class ChainForm(_Scaled, SpectralForm):
    """Differences of neighboring tasks, taken by R: strength R R' + ridge I.

    Its eigenvectors are the basis of the discrete cosine transform.
    """

    tasks: int

    @cached_property
    def values(self) -> Array:
        # Eigenvalues of the Laplacian of a path graph.
        k = np.arange(self.tasks)
        angles = 0.5 * np.pi * k / self.tasks
        squares = np.square(np.sin(angles))
        return 4.0 * self.strength * squares + self.ridge

    @cached_property
    def _vectors(self) -> Array:
        identity = np.eye(self.tasks)
        return np.asarray(scipy.fft.idct(identity, type=2, norm="ortho", axis=0))

    def rotate(self, W: Array) -> Array:
        if self.tasks <= _FEW_TASKS:
            return W @ self._vectors
        return np.asarray(scipy.fft.dct(W, type=2, norm="ortho", axis=1))

    def back(self, Q: Array) -> Array:
        if self.tasks <= _FEW_TASKS:
            return Q @ self._vectors.T
        return np.asarray(scipy.fft.idct(Q, type=2, norm="ortho", axis=1))

    def times(self, W: Array) -> Array:
        pulls = self.strength * np.diff(W, axis=1)
        out = self.ridge * W
        # Each task is drawn to the next one, and that one back to it.
        out[:, :-1] -= pulls
        out[:, 1:] += pulls
        return out


@dataclass(frozen=True, eq=False)
class SparseForm(_Scaled):
    """A sparse positive semidefinite L in strength L + ridge I.

    Systems are solved by conjugate gradients.

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

    def times(self, W: Array) -> Array:
        product = (self.base @ W.T).T
        return np.asarray(self.strength * product + self.ridge * W)

    def resolve(self, W: Array, step: float) -> Array:
        return self._solve(W, 1.0, step)[0]

    def inverse_energy(self, Z: Array) -> float:
        if not self.is_definite:
            if np.any(Z):
                return float("inf")
            return 0.0
        X, R = self._solve(Z, 0.0, 1.0)
        # Z M^{-1} Z' = X (Z + R)' + R M^{-1} R' for the residual R of the solution. The
        # last term is at most ||R||^2 / ridge, so that the result is never too low.
        energy = float(np.vdot(X, Z + R))
        residual_square = float(np.vdot(R, R))
        bound = residual_square / self.ridge
        return energy + bound

    def _solve(self, W: Array, identity: float, step: float) -> tuple[Array, Array]:
        """Solve X (identity I + step M) = W; return X and the residual."""
        # The matrix is identity_weight I + base_weight base.
        identity_weight = identity + step * self.ridge
        base_weight = step * self.strength

        def apply(V: Array) -> Array:
            return identity_weight * V + base_weight * (self.base @ V)

        diagonal = identity_weight + base_weight * self.base.diagonal()
        solved = conjugate_gradients(
            apply,
            np.ascontiguousarray(W.T),
            diagonal=diagonal,
        )
        return solved.X.T, solved.residual.T


# ---------------------------------------------------------------------- penalties

# Steps for lengths and for the dual norm; they converge quadratically.
_MAX_STEPS = 100
# Sweeps of coordinate descent over the tasks of a row, from scratch and from the last
# prox, which is near the solution.
_MAX_SWEEPS = 2000
_FEW_SWEEPS = 30
# Sweeps end when the largest change of a gradient is this part of the largest |z|.
_ACCURACY = 1e-12


@dataclass(frozen=True, eq=False)
class TaskQuadratic(Penalty):
    """Quadratic penalty alpha/2 tr(W M W').

    Its prox is W (I + step alpha M)^{-1}, its conjugate 1/(2 alpha) tr(Z M^{-1} Z').

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    form : TaskForm
        M. Where it is singular, the conjugate is inf off its range.
    """

    form: TaskForm

    rotation_invariant = True
    is_norm = False

    def value(self, W: Array) -> float:
        return self.alpha * self.form.value(W)

    def prox(self, W: Array, step: float) -> Array:
        return self.form.resolve(W, step * self.alpha)

    def conjugate(self, Z: Array) -> float:
        half = 0.5 * self.form.inverse_energy(Z)
        return float(self._per_alpha(np.asarray(half)))


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

    is_norm = False

    @property
    def constrains_dual(self) -> bool:
        return not self.form.is_definite

    def value(self, W: Array) -> float:
        norm_term = L21(self.alpha).value(W)
        return norm_term + self.form.value(W)

    def prox(self, W: Array, step: float) -> Array:
        if step == 0:
            return W.copy()
        curvature = 1.0 + step * self.form.values
        rotated = self.form.rotate(W)
        shortened = _shortened(rotated, curvature, step * self.alpha)
        return self.form.back(shortened)

    def dual_norm(self, Z: Array) -> float:
        """Return the longest row of Z in the null space of M, divided by alpha."""
        in_null_space = self.form.values == 0
        rotated = self.form.rotate(Z)
        rows = rotated[:, in_null_space]
        lengths = np.sqrt(np.square(rows).sum(axis=1))
        longest = float(lengths.max(initial=0.0))
        return longest / self.alpha

    def conjugate(self, Z: Array) -> float:
        # A dual point that was scaled onto the boundary may be outside by rounding.
        if self.dual_norm(Z) > 1.0 + 1e-12:
            return float("inf")
        values = self.form.values
        rotated = self.form.rotate(Z)
        w = _shortened(rotated, values, self.alpha)
        energies = values * np.square(w)
        return 0.5 * float(np.sum(energies))


@dataclass(frozen=True, eq=False)
class CoupledL1(Penalty):
    """The l1 norm with a quadratic penalty, alpha sum |w| + 1/2 tr(W M W').

    The prox of a row is a Lasso with one coefficient per task, solved by coordinate
    descent. So is the conjugate, for which any W gives a safe upper bound: 1/2 tr(V
    M^{-1} V') with V = Z - clip(Z - W M, -alpha, alpha). Both start at the last prox:
    when a solver converges, it tends to the maximizer of the conjugate.

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
    _last: dict[str, Array] = field(default_factory=dict, init=False, repr=False)

    is_norm = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.form.is_definite:
            raise ValueError(
                "M must be positive definite: coefficients in its null space would be "
                "free"
            )

    def value(self, W: Array) -> float:
        norm_term = L1(self.alpha).value(W)
        return norm_term + self.form.value(W)

    def prox(self, W: Array, step: float) -> Array:
        M = self.form.matrix
        G = np.eye(len(M)) + step * M
        threshold = step * self.alpha
        V = self._row_lasso(G, W, threshold, _MAX_SWEEPS)
        self._last["prox"] = V
        return V

    def conjugate(self, Z: Array) -> float:
        last = self._last.get("prox")
        sweeps = _MAX_SWEEPS
        if last is not None and last.shape == Z.shape:
            # The bound is valid for any W, so that a few sweeps from there do.
            sweeps = _FEW_SWEEPS
        W = self._row_lasso(self.form.matrix, Z, self.alpha, sweeps)
        # The l1 norm takes what it can of Z - W M; the quadratic form takes the rest.
        slack = Z - self.form.times(W)
        taken = np.clip(slack, -self.alpha, self.alpha)
        return 0.5 * self.form.inverse_energy(Z - taken)

    def _row_lasso(
        self,
        G: Array,
        Z: Array,
        threshold: float,
        sweeps: int,
    ) -> Array:
        """Return argmin_v 1/2 v'Gv - <z, v> + threshold ||v||_1 for each row z."""
        if threshold <= 0:
            return np.linalg.solve(G, Z.T).T
        start = self._last.get("prox")
        if start is None or start.shape != Z.shape:
            start = np.linalg.solve(G, Z.T).T
        # A copy, since coordinate descent works in place.
        V = np.array(start, order="C")
        rows = np.ascontiguousarray(Z)
        return _descend(G, rows, V, float(threshold), sweeps)


def _shortened(Z: Array, curvature: Array, threshold: float) -> Array:
    """Shorten each row z under a quadratic form with a diagonal of curvatures.

    Return argmin_v 1/2 sum_i curvature_i v_i^2 - <z, v> + threshold ||v||_2 for each
    row z and a positive threshold.

    With x = ||v|| / threshold the solution is v_i = z_i x / (curvature_i x + 1), where
    x solves 1 / ||z / (curvature x + 1)|| = 1 / threshold. The left side is a power
    mean of linear functions, hence concave: Newton's steps from below never pass the
    root.
    """
    lengths = np.sqrt(np.square(Z).sum(axis=1))
    rows = np.flatnonzero(lengths > threshold)
    shortened = np.zeros_like(Z)
    if len(rows) == 0 or not curvature.any():
        return shortened
    squares = np.square(Z[rows])
    # The root if all curvatures were as large as the largest: a start below the root.
    largest = float(curvature.max())
    x = (lengths[rows] / threshold - 1.0) / largest
    tiny = np.finfo(np.float64).tiny
    for _ in range(_MAX_STEPS):
        scale = curvature * x[:, None] + 1.0
        square = np.sum(squares / scale**2, axis=1)
        # Minus half of the derivative of `square`.
        slopes = squares * curvature / scale**3
        slope = np.sum(slopes, axis=1)
        positive_slope = np.maximum(slope, tiny)
        # Newton's step: 1/sqrt(square) + move * slope / square^1.5 = 1 / threshold.
        excess = np.sqrt(square) / threshold - 1.0
        move = excess * square / positive_slope
        # Near a singular form x can grow without limit; its square must not overflow.
        x = x + np.maximum(move, 0.0)
        x = np.minimum(x, 1e50)
        if np.all(move <= 1e-14 * x):
            break
    scale = curvature * x[:, None] + 1.0
    factors = x[:, None] / scale
    shortened[rows] = Z[rows] * factors
    return shortened


@compiled
def _descend(
    G: Array,
    Z: Array,
    V: Array,
    threshold: float,
    sweeps: int,
) -> Array:
    """Minimize 1/2 v'Gv - <z, v> + threshold ||v||_1 by coordinate descent.

    Row by row, in place of V, which holds the start. ``fitted`` is G v throughout, so
    that a change of one coordinate costs O(T).
    """
    d, T = V.shape
    for j in range(d):
        fitted = np.zeros(T)
        largest = 0.0
        for t in range(T):
            v = V[j, t]
            largest = max(largest, abs(Z[j, t]))
            for s in range(T):
                fitted[s] += G[t, s] * v
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


# ------------------------------------------------------ total variation along the tasks


@dataclass(frozen=True)
class FusedGroup(Penalty):
    """Fused sparse group lasso along the tasks, for the rows w^j (features).

    The value is alpha sum_j ||w^j||_2 + sparsity sum |w_jt| + fusion
    sum_jt |w_j,t+1 - w_jt|.

    The prox applies total variation, then the soft threshold, then row shrinkage, in
    this order (Zhou et al., Modeling disease progression via fused sparse group lasso,
    KDD 2012). The dual norm of a row z is the largest <z, v> / value(v). It is the
    limit of the iteration that replaces c by this ratio at v = prox of c * value at z.

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
        if self.is_zero and self.fusion > 0:
            raise ValueError(
                "alpha and sparsity are both 0: coefficients that are equal for all "
                "tasks would be free"
            )

    @property
    def is_zero(self) -> bool:
        return self.alpha == 0 and self.sparsity == 0

    def value(self, W: Array) -> float:
        return float(self._row_values(W).sum())

    def prox(self, W: Array, step: float) -> Array:
        strength = step * self.fusion
        threshold = step * self.sparsity
        smooth = total_variation_prox(W, strength)
        smooth -= np.clip(smooth, -threshold, threshold)
        return L21(self.alpha).prox(smooth, step)

    def dual_norm(self, Z: Array) -> float:
        if self.is_zero:
            if np.any(Z):
                return float("inf")
            return 0.0
        is_nonzero = np.any(Z, axis=1)
        rows = Z[is_nonzero]
        best = 0.0
        for _ in range(_MAX_STEPS):
            # Rows whose prox vanishes have a dual norm of at most `best`.
            V = self.prox(rows, best)
            left = np.any(V, axis=1)
            if not left.any():
                break
            rows = rows[left]
            V = V[left]
            products = np.einsum("ij,ij->i", rows, V)
            ratios = products / self._row_values(V)
            ratio = float(ratios.max())
            if ratio <= best * (1.0 + 1e-15):
                break
            best = ratio
        return best

    def _row_values(self, W: Array) -> Array:
        squares = np.einsum("ij,ij->i", W, W)
        lengths = np.sqrt(squares)
        sums = np.abs(W).sum(axis=1)
        differences = np.diff(W, axis=1)
        variations = np.abs(differences).sum(axis=1)
        values = self.alpha * lengths + self.sparsity * sums
        return values + self.fusion * variations


def total_variation_prox(Z: Array, strength: float) -> Array:
    """Return the exact prox of the total variation of each row.

    For a row z it is argmin_v 1/2 ||v - z||^2 + strength * sum_t |v_{t+1} - v_t|.
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
    rows = np.ascontiguousarray(Z)
    return _smooth_rows(rows, float(strength))


@compiled
def _smooth_rows(Z: Array, strength: float) -> Array:
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
            # The derivative is x - z_t - strength before the first knot, and x - z_t +
            # strength after the last one. For t = 0 there is no cost-to-come yet.
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
        # Backwards from the minimum: each entry is the next one, within its bounds.
        for t in range(T - 2, -1, -1):
            following = out[j, t + 1]
            raised = max(following, lower[t])
            out[j, t] = min(raised, upper[t])
    return out
