"""Convex penalties on one (d, T) coefficient matrix, with prox and dual, and which of them dominate others.

A model is a list of penalties: W is a sum of parts and part k carries penalty k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mtlrun.penalties.spectral import spectral_norm, svt, trace_norm
from mtlrun.problem.penalty import Penalty


@dataclass(frozen=True)
class L1(Penalty):
    """alpha * sum |w|; prox: soft threshold; dual norm: largest entry."""

    by_column: ClassVar[bool] = True

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(np.abs(W).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        t = step * self.alpha
        return W - np.clip(W, -t, t)

    def column_polar(self, Z: np.ndarray) -> np.ndarray:
        return self._per_alpha(np.abs(Z).max(axis=0, initial=0.0))


@dataclass(frozen=True)
class L21(Penalty):
    """alpha * sum over rows (features) of their l2 norms; prox: row shrinkage; dual norm: largest row norm."""

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(_norms(W, axis=1).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return W * _shrink(_norms(W, axis=1), step * self.alpha)[:, None]

    def polar(self, Z: np.ndarray) -> float:
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

    def column_polar(self, Z: np.ndarray) -> np.ndarray:
        return self._per_alpha(_norms(Z, axis=0))


@dataclass(frozen=True)
class TraceNorm(Penalty):
    """alpha * sum of singular values; prox: singular value thresholding; dual norm: spectral norm.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.penalties.norms import TraceNorm
    >>> TraceNorm(2.0).value(np.diag([3.0, 1.0])), TraceNorm(2.0).polar(np.diag([3.0, 1.0]))
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

    def polar(self, Z: np.ndarray) -> float:
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

    For singular values a_1 >= a_2 >= ... and c = alpha * step (no ridge) the prox has (a_i - 2cS)_+, where
    S = sum_{i<=k} a_i / (1 + 2ck) is its trace norm and k the largest index with a_k > 2cS; the conjugate is
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
        if not (np.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(f"ridge must be non-negative and finite, got {self.ridge}")

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
        # The maximiser of <z, w> - value(w) is the prox, with step 1 / ridge, of alpha ||.||_*^2 alone at z / ridge.
        w = SquaredTraceNorm(self.alpha)._shrunk(z / self.ridge, 1.0 / self.ridge)
        return float(z @ w) - self._of(w)

    def _of(self, sigma: np.ndarray) -> float:
        return self.alpha * float(sigma.sum()) ** 2 + 0.5 * self.ridge * float(sigma @ sigma)

    def _shrunk(self, a: np.ndarray, step: float) -> np.ndarray:
        """Return the singular values of the prox of a matrix with singular values a, in descending order."""
        scale = 1.0 / (1.0 + step * self.ridge)
        a = scale * a
        twice = 2.0 * scale * step * self.alpha
        thresholds = twice * np.cumsum(a) / (1.0 + twice * np.arange(1, len(a) + 1))
        kept = np.flatnonzero(a > thresholds)
        return np.maximum(a - thresholds[kept[-1]], 0.0) if len(kept) else np.zeros_like(a)


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

    Prox: per row x - (projection of x on the l1 ball of radius alpha * step); dual norm: largest l1 norm of a row.
    """

    def value(self, W: np.ndarray) -> float:
        return self.alpha * float(np.abs(W).max(axis=1, initial=0.0).sum())

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        return W - project_rows_l1(W, step * self.alpha)

    def polar(self, Z: np.ndarray) -> float:
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
    # The threshold over the k largest entries rises while the k-th entry is above it: the largest is the right one.
    threshold = thresholds.max(axis=1)[:, None]
    rows = Z[outside]
    projected[outside] = rows - np.clip(rows, -threshold, threshold)
    return projected


def needed_parts(penalties: Sequence[Penalty], shape: tuple[int, int]) -> list[int]:
    """Return the positions of the penalties that an optimal W = sum of parts needs; the other parts are zero there.

    Part k is not needed when some other penalty j has penalty_j(W) <= penalty_k(W) for all W: what is in part k can
    move to part j. In terms of dual norms ||.||_k* <= c ||.||_j* and alpha_k >= c alpha_j, with the best constants c.
    For robust MTL (||L||_* + lam ||E||_{1,2}, m tasks) E is not needed for lam >= 1, nor L for lam <= 1/sqrt(m).

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
    """Return the needed ones of some parts (n_parts, d, T); the first one takes in those that are left out."""
    kept = parts[list(needed)]
    kept[0] += parts.sum(axis=0) - kept.sum(axis=0)
    return kept


def mixture_range(first: type[Penalty], second: type[Penalty], shape: tuple[int, int]) -> tuple[float, float]:
    """Return the interval of lam outside of which ``first(P) + lam second(W - P)`` needs one of its parts only.

    Up to its lower end the first part is not needed, from its upper end on the second.

    Raises
    ------
    ValueError
        For a pair of penalties without known constants.
    """
    upper, lower = _dual_ratio(second, first, shape), _dual_ratio(first, second, shape)
    if upper is None or lower is None:
        raise ValueError(f"no constants are known between {first.__name__} and {second.__name__}")
    return 1.0 / lower, upper


def _dominated(p: Penalty, q: Penalty, shape: tuple[int, int]) -> bool:
    """Whether q(W) <= p(W) for all W of this shape."""
    factor = _dual_ratio(type(p), type(q), shape)
    return factor is not None and p.alpha >= factor * q.alpha * (1.0 - 1e-12)


def _dual_ratio(p: type[Penalty], q: type[Penalty], shape: tuple[int, int]) -> float | None:
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
