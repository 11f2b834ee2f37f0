"""Penalties that draw tasks into clusters: in the space of tasks, in subspaces, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.optimize

from mtlrun.penalties.norms import (
    SpectralBox,
    SquaredFrobenius,
    SquaredTraceNorm,
    spectral_norm,
    trace_norm,
)
from mtlrun.problem.penalty import Penalty, check_number


@dataclass(frozen=True)
class ClusterNorm(Penalty):
    """alpha (mean * T ||w_mean||^2 + min_S tr(D S^{-1} D')), D = W - w_mean 1', for T tasks in r clusters.

    S ranges over the symmetric matrices on the complement of 1 with eigenvalues between
    1/within and 1/between and trace (r - 1)/between + (T - r)/within: a convex
    relaxation of ``between * variance between clusters + within * variance within
    clusters``.

    Jacob, Bach and Vert, Clustered multi-task learning: a convex formulation, NIPS
    2008.

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    n_clusters : int
        r, at least 1.
    mean, between, within : float
        Positive, between <= within.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    n_clusters: int
    mean: float
    between: float
    within: float

    rotation_invariant: ClassVar[bool] = True
    is_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_clusters < 1:
            raise ValueError(f"n_clusters must be at least 1, got {self.n_clusters}")
        if not (self.mean > 0 and 0 < self.between <= self.within < np.inf):
            raise ValueError(
                "mean must be positive and 0 < between <= within, got "
                f"mean={self.mean:g}, between={self.between:g}, within={self.within:g}"
            )

    @cached_property
    def _spread(self) -> Penalty:
        """The penalty of D."""
        low = 1.0 / self.within
        high = 1.0 / self.between
        if self.n_clusters == 1 or self.between == self.within:
            return SquaredFrobenius(2.0 * self.alpha * self.within)
        eta = low / (high - low)
        return SpectralBox(
            self.alpha / (high - low) / (eta * (1.0 + eta)),
            eta=eta,
            k=self.n_clusters - 1,
        )

    def value(self, W: np.ndarray) -> float:
        average, D = _split(W)
        return self.alpha * self.mean * W.shape[1] * float(
            np.vdot(average, average)
        ) + self._spread.value(D)

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        average, D = _split(W)
        return average / (
            1.0 + 2.0 * step * self.alpha * self.mean
        ) + self._spread.prox(D, step)

    def conjugate(self, Z: np.ndarray) -> float:
        average, D = _split(Z)
        square = np.asarray(Z.shape[1] * np.vdot(average, average) / (4.0 * self.mean))
        return float(self._per_alpha(square)) + self._spread.conjugate(D)


@dataclass(frozen=True)
class GroupTrace(Penalty):
    """alpha sum over groups g of tasks of ||W_g||_*^2, W_g the columns of the group.

    The prox shrinks the singular values of W_g by 2 step alpha times their sum after
    shrinking; the conjugate is sum_g ||Z_g||_2^2 / (4 alpha).

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    groups : tuple of tuples of int
        Every task in exactly one.
    """

    groups: tuple[tuple[int, ...], ...]

    rotation_invariant: ClassVar[bool] = True
    is_norm: ClassVar[bool] = False

    @cached_property
    def _alone(self) -> list[int]:
        """The tasks that are a group each, whose penalty is ridge regression's."""
        return [g[0] for g in self.groups if len(g) == 1]

    @cached_property
    def _together(self) -> list[list[int]]:
        return [list(g) for g in self.groups if len(g) > 1]

    def value(self, W: np.ndarray) -> float:
        alone = W[:, self._alone]
        return self.alpha * (
            float(np.vdot(alone, alone))
            + sum(trace_norm(W[:, g]) ** 2 for g in self._together)
        )

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        out = np.empty_like(W)
        out[:, self._alone] = W[:, self._alone] / (1.0 + 2.0 * step * self.alpha)
        for g in self._together:
            out[:, g] = SquaredTraceNorm(self.alpha).prox(W[:, g], step)
        return out

    def conjugate(self, Z: np.ndarray) -> float:
        return float(
            self._per_alpha(
                np.asarray(
                    0.25 * sum(spectral_norm(Z[:, list(g)]) ** 2 for g in self.groups)
                )
            )
        )


@dataclass(frozen=True)
class FeatureClusters(Penalty):
    """alpha sum over features j and pairs s < t of |w_js - w_jt| + ridge ||W||_F^2.

    Equal entries of a row form a cluster, so tasks may cluster differently in every
    feature. The prox of a row: divide by 1 + 2 step ridge, sort, subtract step alpha (2
    rank - T - 1) / (1 + 2 step ridge), fit the nearest non-decreasing sequence, undo
    the sorting. The conjugate is ||prox of the first term at Z||_F^2 / (4 ridge).

    Parameters
    ----------
    alpha : float
        Non-negative strength.
    ridge : float
        Positive.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    ridge: float

    is_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("ridge", self.ridge, positive=True)

    @property
    def is_zero(self) -> bool:
        return False

    def value(self, W: np.ndarray) -> float:
        pairs = float(np.sum(np.sort(W, axis=1) @ _tilt(W.shape[1])))
        return self.alpha * pairs + self.ridge * float(np.vdot(W, W))

    def prox(self, W: np.ndarray, step: float) -> np.ndarray:
        shrink = 1.0 + 2.0 * step * self.ridge
        return _cluster_rows(W / shrink, step * self.alpha / shrink)

    def conjugate(self, Z: np.ndarray) -> float:
        rest = _cluster_rows(Z, self.alpha)
        return float(np.vdot(rest, rest)) / (4.0 * self.ridge)


def _split(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over tasks, (d, 1), and the deviations from it."""
    average = W.mean(axis=1, keepdims=True)
    return average, W - average


def _tilt(T: int) -> np.ndarray:
    return 2.0 * np.arange(1, T + 1) - T - 1.0


def _cluster_rows(Z: np.ndarray, strength: float) -> np.ndarray:
    """Return, for every row z, argmin_v 1/2 ||v - z||^2 + strength sum_{s<t} |v_s - v_t|."""
    d, T = Z.shape
    order = np.argsort(Z, axis=1, kind="stable")
    targets = np.take_along_axis(Z, order, axis=1) - strength * _tilt(T)
    # One call for all rows: each is lifted so far above the one before that no fit
    # crosses from row to row.
    low = targets.min(axis=1)
    high = targets.max(axis=1)
    lift = np.concatenate([[0.0], np.cumsum(high[:-1] - low[1:])])[:, None]
    fitted = (
        scipy.optimize.isotonic_regression((targets + lift).ravel()).x.reshape(d, T)
        - lift
    )
    out = np.empty_like(Z)
    np.put_along_axis(out, order, fitted, axis=1)
    return out
