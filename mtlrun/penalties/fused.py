"""Coefficients that change seldom from one task to the next: total variation along the tasks, sparsity, joint rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlrun.penalties.norms import L21
from mtlrun.problem.penalty import Penalty
from mtlrun.utils.jit import compiled

# Steps for the dual norm; they converge quadratically.
_MAX_STEPS = 100


@dataclass(frozen=True)
class FusedGroup(Penalty):
    """alpha sum_j ||w^j||_2 + sparsity sum |w_jt| + fusion sum_jt |w_j,t+1 - w_jt|, w^j the rows (features).

    Prox: total variation, then soft threshold, then row shrinkage, in this order (Zhou et al., Modeling disease
    progression via fused sparse group lasso, KDD 2012). The dual norm of a row z is the largest <z, v> / value(v),
    found by going from c to that ratio at v = prox of c * value at z.

    Parameters
    ----------
    alpha, sparsity, fusion : float
        Non-negative. `alpha` and `sparsity` must not both be zero unless all three are: a row of equal entries would
        cost nothing, and the penalty would be no norm.

    Raises
    ------
    ValueError
        If a strength is negative or not finite, or only `fusion` is positive.
    """

    sparsity: float = 0.0
    fusion: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sparsity", "fusion"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be non-negative and finite, got {value}")
        if self.alpha == 0 and self.sparsity == 0 and self.fusion > 0:
            raise ValueError("alpha and sparsity are both 0: coefficients that are equal for all tasks would be free")

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

    def polar(self, Z: np.ndarray) -> float:
        if self.is_zero:
            return float("inf") if np.any(Z) else 0.0
        rows = Z[np.any(Z, axis=1)]
        best = 0.0
        for _ in range(_MAX_STEPS):
            # Rows whose prox vanishes have a dual norm of at most `best`.
            V = self.prox(rows, best)
            left = np.any(V, axis=1)
            if not left.any():
                break
            rows, V = rows[left], V[left]
            ratio = float((np.einsum("ij,ij->i", rows, V) / self._row_values(V)).max())
            if ratio <= best * (1.0 + 1e-15):
                break
            best = ratio
        return best

    def _row_values(self, W: np.ndarray) -> np.ndarray:
        values = self.alpha * np.sqrt(np.einsum("ij,ij->i", W, W)) + self.sparsity * np.abs(W).sum(axis=1)
        return values + self.fusion * np.abs(np.diff(W, axis=1)).sum(axis=1)


def total_variation_prox(Z: np.ndarray, strength: float) -> np.ndarray:
    """Return, for every row z, argmin_v 1/2 ||v - z||^2 + strength * sum_t |v_{t+1} - v_t|, exactly.

    Dynamic programming over the derivative of the cost-to-come, a piecewise linear function clipped to
    [-strength, strength] from one entry to the next (Johnson, A dynamic programming algorithm for the fused lasso and
    L0-segmentation, JCGS 2013).

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
    # Knots of the derivative with what slope and offset change there; the first and last in use are `left`, `right`.
    knots, slopes, offsets = np.empty(2 * T), np.empty(2 * T), np.empty(2 * T)
    lower, upper = np.empty(T), np.empty(T)
    for j in range(d):
        left, right = T, T - 1
        for t in range(T - 1):
            # The derivative is x - z_t - strength before the first knot (+ strength after the last), 0 for t = 0.
            bound = strength if t > 0 else 0.0
            slope, offset = 1.0, -Z[j, t] - bound
            while left <= right and slope * knots[left] + offset < -strength:
                slope += slopes[left]
                offset += offsets[left]
                left += 1
            lower[t] = (-strength - offset) / slope
            slope_up, offset_up = slope, offset + strength
            slope, offset = 1.0, bound - Z[j, t]
            while right >= left and slope * knots[right] + offset > strength:
                slope -= slopes[right]
                offset -= offsets[right]
                right -= 1
            upper[t] = (strength - offset) / slope
            left -= 1
            knots[left], slopes[left], offsets[left] = lower[t], slope_up, offset_up
            right += 1
            knots[right], slopes[right], offsets[right] = upper[t], -slope, strength - offset
        slope, offset = 1.0, -Z[j, T - 1] - strength
        while left <= right and slope * knots[left] + offset < 0.0:
            slope += slopes[left]
            offset += offsets[left]
            left += 1
        out[j, T - 1] = -offset / slope
        for t in range(T - 2, -1, -1):
            out[j, t] = min(max(out[j, t + 1], lower[t]), upper[t])
    return out
