"""Penalties that draw tasks into clusters.

Clusters form in the space of tasks (`ClusterNorm`), in subspaces (`GroupTrace`) or
feature by feature (`FeatureClusters`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

Array = np.ndarray


@dataclass(frozen=True)
class ClusterNorm(Penalty):
    """Convex relaxation of the variances between and within r clusters of T tasks.

    The value is ``alpha (mean * T ||w_mean||^2 + min_S tr(D S^{-1} D'))`` with D = W -
    w_mean 1'. S ranges over the symmetric matrices on the complement of 1 with
    eigenvalues between 1/within and 1/between and trace (r - 1)/between + (T -
    r)/within: a convex relaxation of ``between * variance between clusters + within *
    variance within clusters``.

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

    rotation_invariant = True
    is_norm = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_clusters < 1:
            raise ValueError(f"n_clusters must be at least 1, got {self.n_clusters}")
        is_ordered = 0 < self.between <= self.within < np.inf
        if not (self.mean > 0 and is_ordered):
            raise ValueError(
                "mean must be positive and 0 < between <= within, got "
                f"mean={self.mean:g}, between={self.between:g}, within={self.within:g}"
            )

    # The mean over tasks and the deviations D are orthogonal: value, prox and conjugate
    # are sums of one term for each.

    @cached_property
    def _spread(self) -> Penalty:
        """The penalty of D."""
        low = 1.0 / self.within
        high = 1.0 / self.between
        if self.n_clusters == 1 or self.between == self.within:
            # All eigenvalues of S are equal: its inverse is a multiple of the identity.
            return SquaredFrobenius(2.0 * self.alpha * self.within)
        # With S = low I + (high - low) M, M is the matrix of `SpectralBox`: its
        # eigenvalues lie in [0, 1] and sum to r - 1.
        eta = low / (high - low)
        strength = self.alpha / (high - low)
        return SpectralBox(
            strength / (eta * (1.0 + eta)),
            eta=eta,
            k=self.n_clusters - 1,
        )

    def value(self, W: Array) -> float:
        n_tasks = W.shape[1]
        average, D = _split(W)
        square = float(np.vdot(average, average))
        mean_term = self.alpha * self.mean * n_tasks * square
        return mean_term + self._spread.value(D)

    def prox(self, W: Array, step: float) -> Array:
        average, D = _split(W)
        shrink = 1.0 + 2.0 * step * self.alpha * self.mean
        deviations = self._spread.prox(D, step)
        return average / shrink + deviations

    def conjugate(self, Z: Array) -> float:
        n_tasks = Z.shape[1]
        average, D = _split(Z)
        square = n_tasks * np.vdot(average, average)
        for_unit_alpha = np.asarray(square / (4.0 * self.mean))
        mean_term = self._per_alpha(for_unit_alpha)
        return float(mean_term) + self._spread.conjugate(D)


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
        Positions of the tasks of each group; each task is in exactly one.
    """

    groups: tuple[tuple[int, ...], ...]

    rotation_invariant = True
    is_norm = False

    @cached_property
    def _single_tasks(self) -> list[int]:
        """Tasks that form a group alone; their penalty is the ridge penalty."""
        return [group[0] for group in self.groups if len(group) == 1]

    @cached_property
    def _larger_groups(self) -> list[list[int]]:
        return [list(group) for group in self.groups if len(group) > 1]

    # The trace norm of a single column is its l2 norm, which needs no SVD.

    def value(self, W: Array) -> float:
        singles = W[:, self._single_tasks]
        single_squares = float(np.vdot(singles, singles))
        group_squares = sum(
            trace_norm(W[:, group]) ** 2 for group in self._larger_groups
        )
        return self.alpha * (single_squares + group_squares)

    def prox(self, W: Array, step: float) -> Array:
        singles = W[:, self._single_tasks]
        shrink = 1.0 + 2.0 * step * self.alpha
        out = np.empty_like(W)
        out[:, self._single_tasks] = singles / shrink
        penalty = SquaredTraceNorm(self.alpha)
        for group in self._larger_groups:
            columns = W[:, group]
            out[:, group] = penalty.prox(columns, step)
        return out

    def conjugate(self, Z: Array) -> float:
        total = 0.0
        for group in self.groups:
            columns = Z[:, list(group)]
            total += spectral_norm(columns) ** 2
        quarter = np.asarray(0.25 * total)
        return float(self._per_alpha(quarter))


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

    is_norm = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("ridge", self.ridge, positive=True)

    @property
    def is_zero(self) -> bool:
        return False

    def value(self, W: Array) -> float:
        # In ascending order, the entry of rank r is added r - 1 times and subtracted
        # T - r times: a sort replaces the sum over all pairs.
        ascending = np.sort(W, axis=1)
        row_sums = ascending @ _rank_weights(W.shape[1])
        pairs_term = self.alpha * float(np.sum(row_sums))
        ridge_term = self.ridge * float(np.vdot(W, W))
        return pairs_term + ridge_term

    def prox(self, W: Array, step: float) -> Array:
        shrink = 1.0 + 2.0 * step * self.ridge
        strength = step * self.alpha / shrink
        return _cluster_rows(W / shrink, strength)

    def conjugate(self, Z: Array) -> float:
        rest = _cluster_rows(Z, self.alpha)
        square = float(np.vdot(rest, rest))
        return square / (4.0 * self.ridge)


def _split(W: Array) -> tuple[Array, Array]:
    """Return the mean over tasks of shape (d, 1), and the deviations from it."""
    average = W.mean(axis=1, keepdims=True)
    return average, W - average


def _rank_weights(T: int) -> Array:
    """Return 2 rank - T - 1, the derivative of the sum over pairs by sorted entries."""
    ranks = np.arange(1, T + 1)
    return 2.0 * ranks - T - 1.0


def _cluster_rows(Z: Array, strength: float) -> Array:
    """Return argmin_v ||v - z||^2/2 + strength sum_{s<t} |v_s - v_t| of each row z."""
    d, T = Z.shape
    order = np.argsort(Z, axis=1, kind="stable")
    sorted_rows = np.take_along_axis(Z, order, axis=1)
    # The solution has the order of z. In that order the penalty is linear, so that only
    # the constraint that entries do not fall remains: isotonic regression.
    targets = sorted_rows - strength * _rank_weights(T)
    # One call for all rows: each is lifted so far above the one before that no fit
    # crosses from row to row.
    low = targets.min(axis=1)
    high = targets.max(axis=1)
    overlaps = high[:-1] - low[1:]
    lifts = np.concatenate([[0.0], np.cumsum(overlaps)])
    lift = lifts[:, None]
    lifted = (targets + lift).ravel()
    regression = scipy.optimize.isotonic_regression(lifted)
    fitted = regression.x.reshape(d, T) - lift
    out = np.empty_like(Z)
    np.put_along_axis(out, order, fitted, axis=1)
    return out
