"""Convex penalties on a (d, T) coefficient matrix, with proximal operators and duals.

The model is ``W = sum_k W_k`` with a penalty on each part W_k, so it is a list of
penalties. `needed_parts` finds the parts that can be left out, because another penalty
is never larger. Penalties on singular values use the smaller Gram matrix of W wherever
this is as accurate as an SVD.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from mtlrun.problem.penalty import Penalty, check_number

# Eigenvalues of a Gram matrix carry an error of about eps * sigma_1^2, so singular
# values near a threshold tau carry eps * sigma_1^2 / tau; below this ratio tau /
# sigma_1 the full SVD is taken instead.
_GRAM_RATIO = 1e-5
# Up to this size, computing all eigenvectors is faster than computing a part of them.
_SMALL = 32


def small_gram(Z: np.ndarray) -> np.ndarray:
    """Return Z'Z or ZZ', whichever is smaller.

    Its eigenvalues are squared singular values with an error of eps * sigma_1^2: an
    exact zero may come out as 1e-16 sigma_1^2, and its root as 1e-8 sigma_1. They serve
    for the largest singular value and where only squares count; a sum of singular
    values takes the SVD.
    """
    if Z.shape[1] <= Z.shape[0]:
        return Z.T @ Z
    return Z @ Z.T


def spectral_norm(Z: np.ndarray) -> float:
    """Return the largest singular value of Z (0 for an empty matrix), to machine precision.

    Raises
    ------
    ValueError
        If Z holds values that are not finite.
    """
    size = min(Z.shape)
    if size == 0:
        return 0.0
    gram = small_gram(Z)
    if size > _SMALL:
        top = scipy.linalg.eigh(
            gram, eigvals_only=True, subset_by_index=[size - 1, size - 1]
        )[0]
    elif np.isfinite(gram).all():
        top = np.linalg.eigvalsh(gram)[-1]
    else:
        raise ValueError("Z holds NaN or infinite values")
    return float(np.sqrt(max(top, 0.0)))


def trace_norm(Z: np.ndarray) -> float:
    """Return the sum of the singular values of Z."""
    return float(np.linalg.svd(Z, compute_uv=False).sum())


def svt(Z: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Soft-threshold the singular values of Z: the prox of threshold * trace norm.

    One eigendecomposition of the smaller Gram matrix, of which only the part above the
    threshold is computed; where that would lose accuracy (a threshold below 1e-5 of the
    largest singular value) the full SVD is used.

    Parameters
    ----------
    Z : ndarray of shape (d, T)
    threshold : float
        Non-negative.

    Returns
    -------
    matrix : ndarray of shape (d, T)
        A new array.
    sigma : ndarray of shape (rank,)
        Positive singular values of `matrix` (already shrunk), in descending order;
        their sum is its trace norm.

    Raises
    ------
    ValueError
        If Z holds values that are not finite or the threshold is negative.
    """
    gram = small_gram(Z)
    bound = float(np.sqrt(max(np.trace(gram), 0.0)))  # Frobenius norm, at least sigma_1
    if not np.isfinite(bound):
        raise ValueError("Z holds NaN or infinite values")
    if threshold >= bound:
        return np.zeros_like(Z), np.zeros(0)
    if threshold < _GRAM_RATIO * bound:
        return svt_full(Z, threshold)
    if len(gram) > _SMALL:
        values, V = scipy.linalg.eigh(gram, subset_by_value=(threshold**2, np.inf))
    else:
        values, V = np.linalg.eigh(gram)
        first = int(np.searchsorted(values, threshold**2, side="right"))
        values = values[first:]
        V = V[:, first:]
    sigma = np.sqrt(values)[::-1]
    V = V[:, ::-1]
    scaled = V * (1.0 - threshold / sigma)
    if Z.shape[1] <= Z.shape[0]:
        matrix = (Z @ scaled) @ V.T
    else:
        matrix = scaled @ (V.T @ Z)
    return matrix, sigma - threshold


def svt_full(Z: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Soft-threshold the singular values as `svt`, by the full SVD as in the papers."""
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    kept = int(np.count_nonzero(sigma > threshold))
    shrunk = sigma[:kept] - threshold
    return (U[:, :kept] * shrunk) @ Vt[:kept], shrunk


@dataclass(frozen=True)
class SpectralBox(Penalty):
    """alpha eta (1 + eta) min_q sum_i sigma_i^2 / (eta + q_i) subject to 0 <= q <= 1, sum(q) <= k.

    sigma are the singular values of W. It equals ``alpha eta (1 + eta) min_M tr(W (eta
    I + M)^{-1} W')`` over symmetric M with 0 <= M <= I and tr(M) <= k: the k leading
    directions cost alpha eta, all others alpha (1 + eta), times the squared singular
    value. With r = alpha eta (1 + eta) and c = eta + 2 r step the prox multiplies
    singular value a_i by (eta + q_i) / (c + q_i), where q = clip(a / nu - c, 0, 1) sums
    to k; the conjugate is (eta ||Z||_F^2 + sum of the k largest squared singular
    values) / (4 r).

    Zhou, Chen and Ye, Clustered multi-task learning via alternating structure
    optimization, NIPS 2011 (the objective); McDonald, Pontil and Stamos, New
    perspectives on k-support and cluster norms, JMLR 2016 (the norm in closed form).

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    eta : float
        Positive; the smaller, the cheaper are the k leading directions relative to the
        others.
    k : int
        At least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    eta: float
    k: int

    rotation_invariant: ClassVar[bool] = True
    is_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("eta", self.eta, positive=True)
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")

    @property
    def strength(self) -> float:
        """The factor r = alpha eta (1 + eta)."""
        return self.alpha * self.eta * (1.0 + self.eta)

    def value(self, W: np.ndarray) -> float:
        squares = np.linalg.eigvalsh(small_gram(W))
        return self._of(np.sqrt(np.maximum(squares, 0.0)))

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return self.prox_value(W, step)[0]

    def prox_value(self, W: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        # The factors lie in (0, 1) and are equal for all directions near zero: the
        # eigenvectors of the Gram matrix are as accurate as the vectors of an SVD.
        squares, V = np.linalg.eigh(small_gram(W))
        a = np.sqrt(np.maximum(squares, 0.0))
        c = self.eta + 2.0 * step * self.strength
        q = fill_boxes(a, c, self.k)
        factors = (self.eta + q) / (c + q)
        change = (V * factors) @ V.T
        if W.shape[1] <= W.shape[0]:
            shrunk = W @ change
        else:
            shrunk = change @ W
        return shrunk, self._of(a * factors)

    def conjugate(self, Z: np.ndarray) -> float:
        squares = np.maximum(np.linalg.eigvalsh(small_gram(Z)), 0.0)
        total = self.eta * float(squares.sum()) + float(squares[::-1][: self.k].sum())
        if self.strength == 0:
            if total == 0:
                return 0.0
            return float("inf")
        return total / (4.0 * self.strength)

    def _of(self, sigma: np.ndarray) -> float:
        q = fill_boxes(sigma, self.eta, self.k)
        return self.strength * float(np.sum(np.square(sigma) / (self.eta + q)))


def fill_boxes(a: np.ndarray, c: float, k: int) -> np.ndarray:
    """Return q in [0, 1] with sum(q) <= k that minimizes sum_i a_i^2 / (c + q_i).

    q = clip(s a - c, 0, 1), s such that q sums to k; entries with a = 0 get 0.

    Parameters
    ----------
    a : ndarray of shape (r,)
        Non-negative.
    c : float
        Positive.
    k : int
    """
    positive = a > 0
    if np.count_nonzero(positive) <= k:
        return positive.astype(np.float64)
    values = -np.sort(-a[positive])
    sums = np.concatenate([[0.0], np.cumsum(values)])
    breaks = np.sort(np.concatenate([c / values, (c + 1.0) / values]))

    def state(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # values are in descending order: the first are full, the next partly filled
        full = np.searchsorted(-values, -(c + 1.0) / s, side="right")
        begun = np.searchsorted(-values, -c / s, side="right")
        return full, begun

    full, begun = state(breaks)
    filled = full + breaks * (sums[begun] - sums[full]) - c * (begun - full)
    # The filling is linear between breaks; it is 0 at the first and above k at the
    # last.
    last = int(np.clip(np.searchsorted(filled, k, side="left"), 1, len(breaks) - 1))
    low = filled[last - 1]
    high = filled[last]
    share = 1.0 if high == low else (k - low) / (high - low)
    s = breaks[last - 1] + share * (breaks[last] - breaks[last - 1])
    return np.clip(s * a - c, 0.0, 1.0)


# ---------------------------------------------------------------------- penalties


@dataclass(frozen=True)
class L1(Penalty):
    """alpha * sum |w|; prox: soft threshold; dual norm: largest entry."""

    by_column: ClassVar[bool] = True

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(np.abs(W).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        t = step * self.alpha
        return W - np.clip(W, -t, t)

    def column_dual_norms(self, Z: np.ndarray) -> np.ndarray:
        return self._per_alpha(np.abs(Z).max(axis=0, initial=0.0))


@dataclass(frozen=True)
class L21(Penalty):
    """alpha * sum over rows (features) of their l2 norms; prox: row shrinkage; dual norm: largest row norm."""

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(_norms(W, axis=1).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return W * _shrink(_norms(W, axis=1), step * self.alpha)[:, None]

    def dual_norm(self, Z: np.ndarray) -> float:
        return float(self._per_alpha(_norms(Z, axis=1)).max(initial=0.0))


@dataclass(frozen=True)
class L12(Penalty):
    """alpha * sum over columns (tasks) of their l2 norms; prox: column shrinkage; dual norm: largest column norm."""

    rotation_invariant: ClassVar[bool] = True
    by_column: ClassVar[bool] = True

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(_norms(W, axis=0).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return W * _shrink(_norms(W, axis=0), step * self.alpha)

    def column_dual_norms(self, Z: np.ndarray) -> np.ndarray:
        return self._per_alpha(_norms(Z, axis=0))


@dataclass(frozen=True)
class TraceNorm(Penalty):
    """alpha * sum of singular values; prox: singular value thresholding; dual norm: spectral norm.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.penalties.norms import TraceNorm
    >>> TraceNorm(2.0).value(np.diag([3.0, 1.0])), TraceNorm(2.0).dual_norm(np.diag([3.0, 1.0]))
    (8.0, 1.5)
    >>> TraceNorm(2.0).prox(np.diag([3.0, 1.0]), step=0.5).round(12).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """

    rotation_invariant: ClassVar[bool] = True

    def value(self, W: np.ndarray) -> float:
        return self.alpha * trace_norm(W)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return svt(W, step * self.alpha)[0]

    def prox_value(self, W: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        V, sigma = svt(W, step * self.alpha)
        return V, self.alpha * float(sigma.sum())

    def dual_norm(self, Z: np.ndarray) -> float:
        return float(self._per_alpha(np.asarray(spectral_norm(Z))))


@dataclass(frozen=True)
class SquaredFrobenius(Penalty):
    """alpha/2 ||W||_F^2; prox: scaling; conjugate ||Z||_F^2 / (2 alpha)."""

    rotation_invariant: ClassVar[bool] = True
    is_norm: ClassVar[bool] = False

    def value(self, W: np.ndarray) -> float:
        return 0.5 * self.alpha * float(np.vdot(W, W))

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return W / (1.0 + step * self.alpha)

    def conjugate(self, Z: np.ndarray) -> float:
        square = np.asarray(np.vdot(Z, Z))
        return 0.5 * float(self._per_alpha(square))


@dataclass(frozen=True)
class SquaredTraceNorm(Penalty):
    """alpha ||W||_*^2 + ridge/2 ||W||_F^2; prox and conjugate act on the singular values.

    For singular values a_1 >= a_2 >= ... and c = alpha * step (no ridge) the prox has
    (a_i - 2cS)_+, where S = sum_{i<=k} a_i / (1 + 2ck) is its trace norm and k the
    largest index with a_k > 2cS; the conjugate is
    ||Z||_2^2 / (4 alpha).

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    ridge : float, default 0.0
        Non-negative strength of the squared Frobenius norm.

    Raises
    ------
    ValueError
        If `alpha` or `ridge` is negative or not finite.
    """

    ridge: float = 0.0

    rotation_invariant: ClassVar[bool] = True
    is_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("ridge", self.ridge)

    @property
    def is_zero(self) -> bool:
        return self.alpha == 0 and self.ridge == 0

    def value(self, W: np.ndarray) -> float:
        return self._of(np.linalg.svd(W, compute_uv=False))

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return self.prox_value(W, step)[0]

    def prox_value(self, W: np.ndarray, step: float) -> tuple[np.ndarray, float]:
        U, a, Vt = np.linalg.svd(W, full_matrices=False)
        sigma = self._shrunk(a, step)
        rank = int(np.count_nonzero(sigma))
        return (U[:, :rank] * sigma[:rank]) @ Vt[:rank], self._of(sigma)

    def conjugate(self, Z: np.ndarray) -> float:
        if self.ridge == 0:
            return float(self._per_alpha(np.asarray(0.25 * spectral_norm(Z) ** 2)))
        z = np.linalg.svd(Z, compute_uv=False)
        # The maximizer of <z, w> - value(w) is the prox, with step 1 / ridge, of alpha
        # ||.||_*^2 alone at z / ridge.
        w = SquaredTraceNorm(self.alpha)._shrunk(z / self.ridge, 1.0 / self.ridge)
        return float(z @ w) - self._of(w)

    def _of(self, sigma: np.ndarray) -> float:
        return self.alpha * float(sigma.sum()) ** 2 + 0.5 * self.ridge * float(
            sigma @ sigma
        )

    def _shrunk(self, a: np.ndarray, step: float) -> np.ndarray:
        """Return the singular values of the prox of a matrix with singular values a, in descending order."""
        scale = 1.0 / (1.0 + step * self.ridge)
        a = scale * a
        twice = 2.0 * scale * step * self.alpha
        thresholds = twice * np.cumsum(a) / (1.0 + twice * np.arange(1, len(a) + 1))
        kept = np.flatnonzero(a > thresholds)
        if len(kept):
            return np.maximum(a - thresholds[kept[-1]], 0.0)
        return np.zeros_like(a)


def _norms(W: np.ndarray, axis: int) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i" if axis == 1 else "ij,ij->j", W, W))


def _shrink(norms: np.ndarray, threshold: float) -> np.ndarray:
    """Return max(0, 1 - threshold / norm), and 1 throughout for a threshold of 0."""
    if threshold <= 0:
        return np.ones_like(norms)
    return 1.0 - threshold / np.maximum(norms, threshold)


@dataclass(frozen=True)
class L1Inf(Penalty):
    """alpha * sum over rows (features) of their largest absolute entry.

    Prox: per row x - (projection of x on the l1 ball of radius alpha * step); dual
    norm: largest l1 norm of a row.
    """

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(np.abs(W).max(axis=1, initial=0.0).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return W - project_rows_l1(W, step * self.alpha)

    def dual_norm(self, Z: np.ndarray) -> float:
        return float(self._per_alpha(np.abs(Z).sum(axis=1)).max(initial=0.0))


def project_rows_l1(Z: np.ndarray, radius: float) -> np.ndarray:
    """Return Z with every row projected on the l1 ball: a soft threshold that brings its l1 norm down to `radius`.

    Parameters
    ----------
    Z : ndarray of shape (d, T)
    radius : float
        Non-negative.
    """
    size = np.abs(Z)
    outside = np.flatnonzero(size.sum(axis=1) > radius)
    projected = Z.copy()
    if len(outside) == 0:
        return projected
    descending = -np.sort(-size[outside], axis=1)
    excess = np.cumsum(descending, axis=1) - radius
    thresholds = excess / np.arange(1, Z.shape[1] + 1)
    # The threshold over the k largest entries rises while the k-th entry is above it:
    # the largest is the right one.
    threshold = thresholds.max(axis=1)[:, None]
    rows = Z[outside]
    projected[outside] = rows - np.clip(rows, -threshold, threshold)
    return projected


def needed_parts(penalties: Sequence[Penalty], shape: tuple[int, int]) -> list[int]:
    """Return the positions of the penalties that an optimal W = sum of parts needs; the other parts are zero there.

    Part k is not needed when some other penalty j has penalty_j(W) <= penalty_k(W) for
    all W: what is in part k can move to part j. In terms of dual norms ||.||_k* <= c
    ||.||_j* and alpha_k >= c alpha_j, with the best constants c. For robust MTL
    (||L||_* + lam ||E||_{1,2}, m tasks) E is not needed for lam >= 1, nor L for lam <=
    1/sqrt(m).

    Parameters
    ----------
    penalties : sequence of Penalty
    shape : (int, int)
        Features d and tasks T.
    """
    kept = list(range(len(penalties)))
    for k in reversed(range(len(penalties))):
        others = (penalties[j] for j in kept if j != k)
        if any(_dominated(penalties[k], other, shape) for other in others):
            kept.remove(k)
    return kept


def kept_parts(parts: np.ndarray, needed: Sequence[int]) -> np.ndarray:
    """Return the needed parts of shape (n_needed, d, T); the first absorbs the others.

    Parameters
    ----------
    parts : ndarray of shape (n_parts, d, T)
    needed : sequence of int
        Positions, see `needed_parts`.
    """
    kept = parts[list(needed)]
    kept[0] += parts.sum(axis=0) - kept.sum(axis=0)
    return kept


def mixture_range(
    first: type[Penalty], second: type[Penalty], shape: tuple[int, int]
) -> tuple[float, float]:
    """Return the interval of lam outside of which ``first(P) + lam second(W - P)`` needs one of its parts only.

    Up to its lower end the first part is not needed, from its upper end on the second.

    Raises
    ------
    ValueError
        For a pair of penalties without known constants.
    """
    upper = _dual_ratio(second, first, shape)
    lower = _dual_ratio(first, second, shape)
    if upper is None or lower is None:
        raise ValueError(
            f"no constants are known between {first.__name__} and {second.__name__}"
        )
    return 1.0 / lower, upper


def _dominated(p: Penalty, q: Penalty, shape: tuple[int, int]) -> bool:
    """Whether q(W) <= p(W) for all W of this shape."""
    factor = _dual_ratio(type(p), type(q), shape)
    return factor is not None and p.alpha >= factor * q.alpha * (1.0 - 1e-12)


def _dual_ratio(
    p: type[Penalty], q: type[Penalty], shape: tuple[int, int]
) -> float | None:
    """Return sup ||Z||_p* / ||Z||_q* (spectral, largest row, column, entry), None where it is not known."""
    d, T = shape
    if p is q and p in (TraceNorm, L21, L12, L1, L1Inf):
        return 1.0
    ratios = {
        (L12, TraceNorm): 1.0,
        (L21, TraceNorm): 1.0,
        (L1, TraceNorm): 1.0,
        (L1, L12): 1.0,
        (L1, L21): 1.0,
        (TraceNorm, L12): math.sqrt(T),
        (L21, L12): math.sqrt(T),
        (TraceNorm, L21): math.sqrt(d),
        (L12, L21): math.sqrt(d),
        (TraceNorm, L1): math.sqrt(d * T),
        (L12, L1): math.sqrt(d),
        (L21, L1): math.sqrt(T),
        (L1Inf, L1): float(T),
        (L1, L1Inf): 1.0,
    }
    return ratios.get((p, q))
