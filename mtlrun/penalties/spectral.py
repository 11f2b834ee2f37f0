"""Singular values through the smaller Gram matrix: thresholding, norms, and a penalty between ridge and low rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from mtlrun.problem.penalty import Penalty

# Eigenvalues of a Gram matrix carry an error of about eps * sigma_1^2, so singular values near a threshold tau carry
# eps * sigma_1^2 / tau; below this ratio tau / sigma_1 the full SVD is taken instead.
_GRAM_RATIO = 1e-5
# Up to this size all eigenvectors are computed sooner than a part of them is asked for.
_SMALL = 32


def small_gram(Z: np.ndarray) -> np.ndarray:
    """Return Z'Z or ZZ', whichever is smaller.

    Its eigenvalues are squared singular values with an error of eps * sigma_1^2: an exact zero may come out as
    1e-16 sigma_1^2, and its root as 1e-8 sigma_1. They serve for the largest singular value and where only squares
    count; a sum of singular values takes the SVD.
    """
    return Z.T @ Z if Z.shape[1] <= Z.shape[0] else Z @ Z.T


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
        top = scipy.linalg.eigh(gram, eigvals_only=True, subset_by_index=[size - 1, size - 1])[0]
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

    One eigendecomposition of the smaller Gram matrix, of which only the part above the threshold is computed;
    where that would lose accuracy (a threshold below 1e-5 of the largest singular value) the full SVD is used.

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
        Positive singular values of `matrix` (already shrunk), in descending order; their sum is its trace norm.

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
        values, V = values[first:], V[:, first:]
    sigma = np.sqrt(values)[::-1]
    V = V[:, ::-1]
    scaled = V * (1.0 - threshold / sigma)
    matrix = (Z @ scaled) @ V.T if Z.shape[1] <= Z.shape[0] else scaled @ (V.T @ Z)
    return matrix, sigma - threshold


def svt_full(Z: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Do the same as `svt` through the full SVD, as the papers' algorithms do."""
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    kept = int(np.count_nonzero(sigma > threshold))
    shrunk = sigma[:kept] - threshold
    return (U[:, :kept] * shrunk) @ Vt[:kept], shrunk


@dataclass(frozen=True)
class SpectralBox(Penalty):
    """alpha eta (1 + eta) min_q sum_i sigma_i^2 / (eta + q_i) subject to 0 <= q <= 1, sum(q) <= k.

    sigma are the singular values of W. It equals ``alpha eta (1 + eta) min_M tr(W (eta I + M)^{-1} W')`` over symmetric
    M with 0 <= M <= I and tr(M) <= k: the k leading directions cost alpha eta, all others alpha (1 + eta), times the
    squared singular value. With r = alpha eta (1 + eta) and c = eta + 2 r step the prox multiplies singular value a_i
    by (eta + q_i) / (c + q_i), where q = clip(a / nu - c, 0, 1) sums to k; the conjugate is
    (eta ||Z||_F^2 + sum of the k largest squared singular values) / (4 r).

    Zhou, Chen and Ye, Clustered multi-task learning via alternating structure optimization, NIPS 2011 (the objective);
    McDonald, Pontil and Stamos, New perspectives on k-support and cluster norms, JMLR 2016 (the norm in closed form).

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    eta : float
        Positive; the smaller, the cheaper are the k leading directions relative to the others.
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
        if not (np.isfinite(self.eta) and self.eta > 0):
            raise ValueError(f"eta must be positive and finite, got {self.eta}")
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
        # The factors lie in (0, 1) and are the same for all directions near zero: the eigenvectors of the Gram matrix
        # are as good as those of an SVD.
        squares, V = np.linalg.eigh(small_gram(W))
        a = np.sqrt(np.maximum(squares, 0.0))
        c = self.eta + 2.0 * step * self.strength
        q = fill_boxes(a, c, self.k)
        factors = (self.eta + q) / (c + q)
        change = (V * factors) @ V.T
        shrunk = W @ change if W.shape[1] <= W.shape[0] else change @ W
        return shrunk, self._of(a * factors)

    def conjugate(self, Z: np.ndarray) -> float:
        squares = np.maximum(np.linalg.eigvalsh(small_gram(Z)), 0.0)
        total = self.eta * float(squares.sum()) + float(squares[::-1][: self.k].sum())
        if self.strength == 0:
            return 0.0 if total == 0 else float("inf")
        return total / (4.0 * self.strength)

    def _of(self, sigma: np.ndarray) -> float:
        q = fill_boxes(sigma, self.eta, self.k)
        return self.strength * float(np.sum(np.square(sigma) / (self.eta + q)))


def fill_boxes(a: np.ndarray, c: float, k: int) -> np.ndarray:
    """Return q in [0, 1] with sum(q) <= k that minimises sum_i a_i^2 / (c + q_i).

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
    # The filling is linear between breaks; it is 0 at the first and above k at the last.
    last = int(np.clip(np.searchsorted(filled, k, side="left"), 1, len(breaks) - 1))
    low, high = filled[last - 1], filled[last]
    share = 1.0 if high == low else (k - low) / (high - low)
    s = breaks[last - 1] + share * (breaks[last] - breaks[last - 1])
    return np.clip(s * a - c, 0.0, 1.0)
