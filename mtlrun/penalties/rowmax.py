"""The l1,inf norm: features are shared by all tasks and a task uses one up to the largest weight at no extra price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlrun.problem.penalty import Penalty


@dataclass(frozen=True)
class L1Inf(Penalty):
    """alpha * sum over rows (features) of their largest |entry|.

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
