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

import numpy as np
import scipy.linalg

from mtlrun.problem.penalty import Penalty, check_number

Array = np.ndarray

# Eigenvalues of a Gram matrix carry an error of about eps * sigma_1^2, so singular
# values near a threshold tau carry eps * sigma_1^2 / tau; below this ratio tau /
# sigma_1 the full SVD is taken instead.
_GRAM_RATIO = 1e-5
# Up to this size, computing all eigenvectors is faster than computing a part of them.
_SMALL = 32


def small_gram(Z: Array) -> Array:
    """Return Z'Z or ZZ', whichever is smaller.

    Its eigenvalues are squared singular values with an error of eps * sigma_1^2: an
    exact zero may come out as 1e-16 sigma_1^2, and its root as 1e-8 sigma_1. They serve
    for the largest singular value and where only squares count; a sum of singular
    values takes the SVD.
    """
    if Z.shape[1] <= Z.shape[0]:
        return Z.T @ Z
    return Z @ Z.T


def spectral_norm(Z: Array) -> float:
    """Return the largest singular value of Z to machine precision; 0 for an empty Z.

    Raises
    ------
    ValueError
        If Z holds values that are not finite.
    """
    size = min(Z.shape)
    if size == 0:
        return 0.0
    gram = small_gram(Z)
    # SciPy checks for values that are not finite, NumPy does not.
    if size > _SMALL:
        last = size - 1
        largest_only = scipy.linalg.eigh(
            gram,
            eigvals_only=True,
            subset_by_index=[last, last],
        )
        top = largest_only[0]
    elif np.isfinite(gram).all():
        top = np.linalg.eigvalsh(gram)[-1]
    else:
        raise ValueError("Z holds NaN or infinite values")
    return float(np.sqrt(max(top, 0.0)))


def trace_norm(Z: Array) -> float:
    """Return the sum of the singular values of Z."""
    sigma = np.linalg.svd(Z, compute_uv=False)
    return float(sigma.sum())


def svt(Z: Array, threshold: float) -> tuple[Array, Array]:
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
    # The Frobenius norm is never below the largest singular value, and costs nothing.
    square_norm = max(np.trace(gram), 0.0)
    bound = float(np.sqrt(square_norm))
    if not np.isfinite(bound):
        raise ValueError("Z holds NaN or infinite values")
    if threshold >= bound:
        return np.zeros_like(Z), np.zeros(0)
    if threshold < _GRAM_RATIO * bound:
        return svt_full(Z, threshold)
    smallest = threshold**2
    if len(gram) > _SMALL:
        values, V = scipy.linalg.eigh(gram, subset_by_value=(smallest, np.inf))
    else:
        values, V = np.linalg.eigh(gram)
        first = int(np.searchsorted(values, smallest, side="right"))
        values = values[first:]
        V = V[:, first:]
    # Eigenvalues come in ascending order.
    sigma = np.sqrt(values)[::-1]
    V = V[:, ::-1]
    factors = 1.0 - threshold / sigma
    scaled = V * factors
    # Two products with thin matrices: the vectors of the other side are never computed.
    if Z.shape[1] <= Z.shape[0]:
        matrix = (Z @ scaled) @ V.T
    else:
        matrix = scaled @ (V.T @ Z)
    return matrix, sigma - threshold


def svt_full(Z: Array, threshold: float) -> tuple[Array, Array]:
    """Soft-threshold the singular values as `svt`, by the full SVD as in the papers."""
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    rank = int(np.count_nonzero(sigma > threshold))
    shrunk = sigma[:rank] - threshold
    left = U[:, :rank] * shrunk
    return left @ Vt[:rank], shrunk


@dataclass(frozen=True)
class SpectralBox(Penalty):
    """Squared singular values of W, of which the k leading ones cost less.

    The value is ``alpha eta (1 + eta) min_q sum_i sigma_i^2 / (eta + q_i)`` subject to
    0 <= q <= 1 and sum(q) <= k, where sigma are the singular values of W. It equals
    ``alpha eta (1 + eta) min_M tr(W (eta I + M)^{-1} W')`` over symmetric M with
    0 <= M <= I and tr(M) <= k: the k leading directions cost alpha eta, all others
    alpha (1 + eta), times the squared singular value.

    With r = alpha eta (1 + eta) and c = eta + 2 r step, the prox multiplies singular
    value a_i by (eta + q_i) / (c + q_i), where q = clip(a / nu - c, 0, 1) sums to k.
    The conjugate is (eta ||Z||_F^2 + sum of the k largest squared singular values)
    / (4 r).

    Zhou, Chen and Ye, Clustered multi-task learning via alternating structure
    optimization, NIPS 2011 (the objective); McDonald, Pontil and Stamos, New
    perspectives on k-support and cluster norms, JMLR 2016 (the norm in closed form).

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    eta : float
        Positive. The smaller it is, the less the k leading directions cost relative to
        the others.
    k : int
        At least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    eta: float
    k: int

    rotation_invariant = True
    is_norm = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("eta", self.eta, positive=True)
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")

    @property
    def strength(self) -> float:
        """The factor r = alpha eta (1 + eta)."""
        return self.alpha * self.eta * (1.0 + self.eta)

    def value(self, W: Array) -> float:
        squares = np.linalg.eigvalsh(small_gram(W))
        # Rounding can make eigenvalues near zero negative.
        sigma = np.sqrt(np.maximum(squares, 0.0))
        return self._of(sigma)

    def prox(self, W: Array, step: float) -> Array:
        return self.prox_value(W, step)[0]

    def prox_value(self, W: Array, step: float) -> tuple[Array, float]:
        # The factors lie in (0, 1) and are equal for all directions near zero: the
        # eigenvectors of the Gram matrix are as accurate as the vectors of an SVD.
        gram = small_gram(W)
        squares, V = np.linalg.eigh(gram)
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

    def conjugate(self, Z: Array) -> float:
        eigenvalues = np.linalg.eigvalsh(small_gram(Z))
        squares = np.maximum(eigenvalues, 0.0)
        descending = squares[::-1]
        leading = descending[: self.k]
        all_term = self.eta * float(squares.sum())
        leading_term = float(leading.sum())
        total = all_term + leading_term
        if self.strength == 0:
            if total == 0:
                return 0.0
            return float("inf")
        return total / (4.0 * self.strength)

    def _of(self, sigma: Array) -> float:
        """Return the penalty of a matrix with singular values sigma."""
        q = fill_boxes(sigma, self.eta, self.k)
        costs = np.square(sigma) / (self.eta + q)
        return self.strength * float(np.sum(costs))


def fill_boxes(a: Array, c: float, k: int) -> Array:
    """Return q in [0, 1] with sum(q) <= k that minimizes sum_i a_i^2 / (c + q_i).

    The minimizer is q = clip(s a - c, 0, 1) for the s at which q sums to k. Entries
    with a = 0 get 0. As s grows, each entry starts to fill at s = c / a and is full at
    s = (c + 1) / a, so that sum(q) is linear in s between these breaks: the s is found
    by interpolation, without iterations.

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
    cumulated = np.cumsum(values)
    sums = np.concatenate([[0.0], cumulated])
    starts = c / values
    ends = (c + 1.0) / values
    breaks = np.concatenate([starts, ends])
    breaks.sort()
    # The values are in descending order: at each break, the first `n_full` entries are
    # full, and the first `n_started` have started to fill.
    ascending = -values
    n_full = np.searchsorted(ascending, -(c + 1.0) / breaks, side="right")
    n_started = np.searchsorted(ascending, -c / breaks, side="right")
    n_partial = n_started - n_full
    partial_sums = sums[n_started] - sums[n_full]
    totals = n_full + breaks * partial_sums - c * n_partial
    # The total is 0 at the first break and above k at the last one.
    position = int(np.searchsorted(totals, k, side="left"))
    after = int(np.clip(position, 1, len(breaks) - 1))
    before = after - 1
    low = totals[before]
    high = totals[after]
    share = 1.0
    if high != low:
        share = (k - low) / (high - low)
    width = breaks[after] - breaks[before]
    s = breaks[before] + share * width
    return np.clip(s * a - c, 0.0, 1.0)


# ---------------------------------------------------------------------- penalties


@dataclass(frozen=True)
class L1(Penalty):
    """The l1 norm, alpha * sum |w|.

    Its prox is the soft threshold, and its dual norm the largest absolute entry.
    """

    by_column = True

    def value(self, W: Array) -> float:
        norm = np.abs(W).sum()
        return self.alpha * float(norm)

    def prox(self, W: Array, step: float) -> Array:
        threshold = step * self.alpha
        return W - np.clip(W, -threshold, threshold)

    def column_dual_norms(self, Z: Array) -> Array:
        largest = np.abs(Z).max(axis=0, initial=0.0)
        return self._per_alpha(largest)


@dataclass(frozen=True)
class L21(Penalty):
    """The l2,1 norm: alpha * sum of the l2 norms of the rows (features).

    Its prox shrinks rows, and its dual norm is the largest l2 norm of a row.
    """

    def value(self, W: Array) -> float:
        norms = _norms(W, axis=1)
        return self.alpha * float(norms.sum())

    def prox(self, W: Array, step: float) -> Array:
        norms = _norms(W, axis=1)
        factors = _shrink(norms, step * self.alpha)
        return W * factors[:, None]

    def dual_norm(self, Z: Array) -> float:
        norms = self._per_alpha(_norms(Z, axis=1))
        return float(norms.max(initial=0.0))


@dataclass(frozen=True)
class L12(Penalty):
    """The l1,2 norm: alpha * sum of the l2 norms of the columns (tasks).

    Its prox shrinks columns, and its dual norm is the largest l2 norm of a column.
    """

    rotation_invariant = True
    by_column = True

    def value(self, W: Array) -> float:
        norms = _norms(W, axis=0)
        return self.alpha * float(norms.sum())

    def prox(self, W: Array, step: float) -> Array:
        norms = _norms(W, axis=0)
        factors = _shrink(norms, step * self.alpha)
        return W * factors

    def column_dual_norms(self, Z: Array) -> Array:
        norms = _norms(Z, axis=0)
        return self._per_alpha(norms)


@dataclass(frozen=True)
class TraceNorm(Penalty):
    """The trace norm: alpha * sum of the singular values.

    Its prox thresholds singular values, and its dual norm is the spectral norm.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.penalties.norms import TraceNorm
    >>> penalty = TraceNorm(2.0)
    >>> W = np.diag([3.0, 1.0])
    >>> penalty.value(W)
    8.0
    >>> penalty.dual_norm(W)
    1.5
    >>> penalty.prox(W, step=0.5).round(12).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """

    rotation_invariant = True

    def value(self, W: Array) -> float:
        return self.alpha * trace_norm(W)

    def prox(self, W: Array, step: float) -> Array:
        V, _ = svt(W, step * self.alpha)
        return V

    def prox_value(self, W: Array, step: float) -> tuple[Array, float]:
        V, sigma = svt(W, step * self.alpha)
        return V, self.alpha * float(sigma.sum())

    def dual_norm(self, Z: Array) -> float:
        norm = np.asarray(spectral_norm(Z))
        return float(self._per_alpha(norm))


@dataclass(frozen=True)
class SquaredFrobenius(Penalty):
    """The ridge penalty, alpha/2 ||W||_F^2.

    Its prox scales W, and its conjugate is ||Z||_F^2 / (2 alpha).
    """

    rotation_invariant = True
    is_norm = False

    def value(self, W: Array) -> float:
        square = float(np.vdot(W, W))
        return 0.5 * self.alpha * square

    def prox(self, W: Array, step: float) -> Array:
        return W / (1.0 + step * self.alpha)

    def conjugate(self, Z: Array) -> float:
        square = np.asarray(np.vdot(Z, Z))
        return 0.5 * float(self._per_alpha(square))


@dataclass(frozen=True)
class SquaredTraceNorm(Penalty):
    """Squared trace norm with ridge, alpha ||W||_*^2 + ridge/2 ||W||_F^2.

    Prox and conjugate act on the singular values a_1 >= a_2 >= ... only. Without ridge,
    and with c = alpha * step, the prox has the singular values (a_i - 2cS)_+, where
    S = sum_{i<=k} a_i / (1 + 2ck) is its trace norm and k the largest index with
    a_k > 2cS. The conjugate is ||Z||_2^2 / (4 alpha).

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

    rotation_invariant = True
    is_norm = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("ridge", self.ridge)

    @property
    def is_zero(self) -> bool:
        return self.alpha == 0 and self.ridge == 0

    def value(self, W: Array) -> float:
        sigma = np.linalg.svd(W, compute_uv=False)
        return self._of(sigma)

    def prox(self, W: Array, step: float) -> Array:
        return self.prox_value(W, step)[0]

    def prox_value(self, W: Array, step: float) -> tuple[Array, float]:
        U, a, Vt = np.linalg.svd(W, full_matrices=False)
        sigma = self._shrunk(a, step)
        # The vectors of singular values that became zero take no part in the product.
        rank = int(np.count_nonzero(sigma))
        left = U[:, :rank] * sigma[:rank]
        right = Vt[:rank]
        return left @ right, self._of(sigma)

    def conjugate(self, Z: Array) -> float:
        if self.ridge == 0:
            square = spectral_norm(Z) ** 2
            quarter = np.asarray(0.25 * square)
            return float(self._per_alpha(quarter))
        z = np.linalg.svd(Z, compute_uv=False)
        # The maximizer of <z, w> - value(w) is the prox, with step 1 / ridge, of alpha
        # ||.||_*^2 alone at z / ridge.
        trace_norm_part = SquaredTraceNorm(self.alpha)
        step = 1.0 / self.ridge
        w = trace_norm_part._shrunk(z / self.ridge, step)
        return float(z @ w) - self._of(w)

    def _of(self, sigma: Array) -> float:
        """Return the penalty of a matrix with singular values sigma."""
        norm = float(sigma.sum())
        trace_norm_term = self.alpha * norm**2
        square = float(sigma @ sigma)
        ridge_term = 0.5 * self.ridge * square
        return trace_norm_term + ridge_term

    def _shrunk(self, a: Array, step: float) -> Array:
        """Return the singular values of the prox, in descending order.

        Those of its argument are a, in descending order, too.
        """
        # The ridge scales the argument and the step; the rest is the squared trace
        # norm.
        scale = 1.0 / (1.0 + step * self.ridge)
        a = scale * a
        twice = 2.0 * scale * step * self.alpha
        ranks = np.arange(1, len(a) + 1)
        # Entry k - 1 is the threshold 2cS of the class docstring if k values are kept.
        sums = np.cumsum(a)
        thresholds = twice * sums / (1.0 + twice * ranks)
        kept = np.flatnonzero(a > thresholds)
        if len(kept) == 0:
            return np.zeros_like(a)
        k = kept[-1]
        return np.maximum(a - thresholds[k], 0.0)


def _norms(W: Array, axis: int) -> Array:
    """Return the l2 norms of the columns (axis 0) or rows (axis 1) of W."""
    subscripts = "ij,ij->j"
    if axis == 1:
        subscripts = "ij,ij->i"
    squares = np.einsum(subscripts, W, W)
    return np.sqrt(squares)


def _shrink(norms: Array, threshold: float) -> Array:
    """Return max(0, 1 - threshold / norm), and 1 throughout for a threshold of 0."""
    if threshold <= 0:
        return np.ones_like(norms)
    return 1.0 - threshold / np.maximum(norms, threshold)


@dataclass(frozen=True)
class L1Inf(Penalty):
    """alpha * sum over rows (features) of their largest absolute entry.

    Its prox subtracts, from each row, the projection of the row on the l1 ball of
    radius alpha * step. Its dual norm is the largest l1 norm of a row.
    """

    def value(self, W: Array) -> float:
        largest = np.abs(W).max(axis=1, initial=0.0)
        return self.alpha * float(largest.sum())

    def prox(self, W: Array, step: float) -> Array:
        return W - project_rows_l1(W, step * self.alpha)

    def dual_norm(self, Z: Array) -> float:
        norms = np.abs(Z).sum(axis=1)
        scaled = self._per_alpha(norms)
        return float(scaled.max(initial=0.0))


def project_rows_l1(Z: Array, radius: float) -> Array:
    """Project each row of Z on the l1 ball of a radius.

    The projection is the soft threshold that brings the l1 norm of a row down to
    `radius`.

    Parameters
    ----------
    Z : ndarray of shape (d, T)
    radius : float
        Non-negative.
    """
    size = np.abs(Z)
    norms = size.sum(axis=1)
    outside = np.flatnonzero(norms > radius)
    projected = Z.copy()
    if len(outside) == 0:
        return projected
    descending = -np.sort(-size[outside], axis=1)
    excess = np.cumsum(descending, axis=1) - radius
    n_largest = np.arange(1, Z.shape[1] + 1)
    thresholds = excess / n_largest
    # The threshold over the k largest entries rises while the k-th entry is above it:
    # the largest is the right one.
    threshold = thresholds.max(axis=1, keepdims=True)
    rows = Z[outside]
    clipped = np.clip(rows, -threshold, threshold)
    projected[outside] = rows - clipped
    return projected


def needed_parts(penalties: Sequence[Penalty], shape: tuple[int, int]) -> list[int]:
    """Return the positions of the penalties that an optimal W = sum of parts needs.

    The other parts are zero in a solution.
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
    # From the last part on: of two equal penalties the first one is kept.
    for k in reversed(range(len(penalties))):
        penalty = penalties[k]
        others = [penalties[j] for j in kept if j != k]
        if any(_dominated(penalty, other, shape) for other in others):
            kept.remove(k)
    return kept


def kept_parts(parts: Array, needed: Sequence[int]) -> Array:
    """Return the needed parts of shape (n_needed, d, T); the first absorbs the others.

    Parameters
    ----------
    parts : ndarray of shape (n_parts, d, T)
    needed : sequence of int
        Positions, see `needed_parts`.
    """
    kept = parts[list(needed)]
    W = parts.sum(axis=0)
    kept[0] += W - kept.sum(axis=0)
    return kept


def mixture_range(
    first: type[Penalty],
    second: type[Penalty],
    shape: tuple[int, int],
) -> tuple[float, float]:
    """Return the range of lam in which an optimal mixture can have both parts.

    The mixture minimizes ``first(P) + lam second(W - P)`` over P. The first part is not
    needed up to the lower end of the range, the second one from the upper end on.

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
    if factor is None:
        return False
    # At equality both solutions are optimal: rounding of alpha does not decide.
    bound = factor * q.alpha * (1.0 - 1e-12)
    return p.alpha >= bound


def _dual_ratio(
    p: type[Penalty],
    q: type[Penalty],
    shape: tuple[int, int],
) -> float | None:
    """Return sup ||Z||_p* / ||Z||_q* over Z of a shape; None if it is not known.

    The dual norms are the spectral norm and the largest row, column or entry.
    """
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
