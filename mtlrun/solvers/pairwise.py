"""Tasks pulled together in pairs: sum_t f_t(w_t) + lam * sum_{s<t} ||w_s - w_t||_2 by consensus ADMM.

One iteration serves every f whose prox is known: the quadratic on the simplex of
multi-task MKL, the squared loss of MeTaG. Rows are tasks here, (T, d).

Consensus ADMM keeps two local copies per pair. Their scaled multipliers are opposite
after the first iteration, so one *flow* p_st per pair is enough (p_st = -rho u, of norm
at most lam by construction), and eliminating the copies gives::

    p_st <- projection of p_st + sigma (w_s - w_t) on the ball of radius lam            sigma = rho / 2
    w_t  <- prox of f_t / weight at  w_t - (1/weight) sum_s (2 p_ts - previous p_ts)    weight = rho (T - 1)

The same iteration converges with the smaller weight = T sigma (a primal-dual step: the
squared norm of w -> all differences is T), which is what is used. A flow is a
certificate as it stands: for all w, lam ||w_s - w_t|| >= <p_st, w_s - w_t>, so min_w
sum_t f_t(w_t) + <div p_t, w_t> is a lower bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from mtlrun.utils.jit import compiled


class TaskTerm(ABC):
    """The function sum_t f_t(w_t) that the pairs couple."""

    @abstractmethod
    def prox(self, V: np.ndarray, weight: float) -> np.ndarray:
        """Return argmin_W sum_t f_t(w_t) + weight/2 ||W - V||_F^2, shape (T, d)."""

    @abstractmethod
    def value(self, W: np.ndarray) -> float:
        """Return sum_t f_t(w_t)."""

    @abstractmethod
    def bound(self, W: np.ndarray, flows: Flows, lam: float) -> float:
        """Return a lower bound of the whole problem made from the flows (and W, if that helps)."""


@dataclass(frozen=True, eq=False)
class SimplexQuadratic(TaskTerm):
    """c_t/2 ||w_t||^2 + <linear_t, w_t> over w_t >= 0, sum(w_t) <= 1.

    Attributes
    ----------
    linear : ndarray of shape (T, M)
    curvature : ndarray of shape (T, 1)
        c_t: all positive, or all 0 for the linear problem of the printed algorithm.
    """

    linear: np.ndarray
    curvature: np.ndarray

    def prox(self, V: np.ndarray, weight: float) -> np.ndarray:
        return project_simplex_ball(
            (weight * V - self.linear) / (weight + self.curvature)
        )

    def value(self, W: np.ndarray) -> float:
        return float(np.sum((0.5 * self.curvature * W + self.linear) * W))

    def bound(self, W: np.ndarray, flows: Flows, lam: float) -> float:
        G = self.linear + flows.divergence()
        best = minimise_on_simplex_ball(G, self.curvature)
        return float(np.sum((0.5 * self.curvature * best + G) * best))


class Flows:
    """One vector per pair of tasks, of norm at most lam: the multipliers that a run leaves for the next one.

    Parameters
    ----------
    n_tasks, n_features : int

    Attributes
    ----------
    values : ndarray of shape (T (T - 1) / 2, d)
        p_st for s < t in lexicographic order; -p_st acts on task t.
    """

    def __init__(self, n_tasks: int, n_features: int) -> None:
        self.n_tasks = n_tasks
        self.values = np.zeros((n_tasks * (n_tasks - 1) // 2, n_features))

    def copy(self) -> Flows:
        """Return an independent copy."""
        other = Flows(self.n_tasks, 0)
        other.values = self.values.copy()
        return other

    def divergence(self) -> np.ndarray:
        """Return sum_s p_ts for every task t, shape (T, d)."""
        pairs = np.zeros((self.n_tasks, self.n_tasks, self.values.shape[1]))
        pairs[np.triu_indices(self.n_tasks, 1)] = self.values
        return np.asarray(pairs.sum(axis=1) - pairs.sum(axis=0))

    def shrink_to(self, lam: float) -> None:
        """Scale flows that are longer than lam, for a run with a smaller lam than the last one."""
        norms = np.sqrt(np.einsum("ij,ij->i", self.values, self.values))
        self.values[norms > lam] *= (lam / norms[norms > lam])[:, None]


@dataclass(frozen=True)
class Fused:
    """Result of `fuse`.

    Attributes
    ----------
    W : ndarray of shape (T, d)
    primal, bound : float
        Value at W and best lower bound found.
    n_iter : int
    converged : bool
    """

    W: np.ndarray
    primal: float
    bound: float
    n_iter: int
    converged: bool


def fuse(
    W: np.ndarray,
    term: TaskTerm,
    lam: float,
    flows: Flows,
    *,
    sigma: float,
    tol: float,
    max_iter: int = 2000,
    check_every: int = 10,
) -> Fused:
    """Minimize sum_t f_t(w_t) + lam sum_{s<t} ||w_s - w_t||_2.

    Parameters
    ----------
    W : ndarray of shape (T, d)
        Start, in the domain of f.
    term : TaskTerm
    lam : float
        Not negative.
    flows : Flows
        Start of the multipliers; changed in place to where the run ended, for the next
        one.
    sigma : float
        Step of the flows, positive; about (size of the flows) / (size of W).
    tol : float
        Absolute gap between value and bound to stop at.
    max_iter, check_every : int
        Iterations, and iterations between two looks at the gap.

    Returns
    -------
    Fused
        With the best W of those looked at, the start included.
    """
    flows.shrink_to(lam)
    best_W = W
    best = term.value(W) + lam * pair_distances(W)
    bound = -np.inf
    push = np.zeros_like(W)
    weight = len(W) * sigma
    it = 0
    for it in range(1, max_iter + 1):
        push[:] = 0.0
        _exchange(W, flows.values, sigma, lam, push)
        W = term.prox(W - push / weight, weight)
        if it % check_every == 0 or it == max_iter or it == 1:
            value = term.value(W) + lam * pair_distances(W)
            if value < best:
                best_W = W
                best = value
            bound = max(bound, term.bound(W, flows, lam))
            if best - bound <= tol:
                break
    return Fused(best_W, best, bound, it, best - bound <= tol)


def pair_distances(W: np.ndarray) -> float:
    """Return sum_{s<t} ||w_s - w_t||_2 of the rows of W."""
    return float(pdist(W).sum())


def minimise_on_simplex_ball(G: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Minimize sum_t c_t/2 ||w_t||^2 + <g_t, w_t> over rows w_t >= 0 with sum(w_t) <= 1; c all positive or all 0."""
    if curvature.all():
        return project_simplex_ball(G / -curvature)
    W = np.zeros_like(G)
    rows = np.flatnonzero(G.min(axis=1) < 0)
    W[rows, G[rows].argmin(axis=1)] = 1.0
    return W


def linear_minimum(G: np.ndarray) -> float:
    """Return min <G, W> over rows w_t >= 0 with sum(w_t) <= 1."""
    return float(np.minimum(G.min(axis=1), 0.0).sum())


def project_simplex_ball(V: np.ndarray) -> np.ndarray:
    """Project every row on {w >= 0, sum(w) <= 1}."""
    out = np.maximum(V, 0.0)
    _lower_rows(out)
    return out


@compiled
def _lower_rows(W: np.ndarray) -> None:
    """Subtract from the positive entries of rows with a sum above 1 what brings it down to 1, in place.

    The threshold of `mtlrun.penalties.norms.project_rows_l1`, compiled: `fuse` needs it
    in every iteration.
    """
    for t in range(len(W)):
        row = W[t]
        if row.sum() <= 1.0:
            continue
        descending = -np.sort(-row)
        # The threshold over the k largest entries rises while the k-th entry is above
        # it: the largest is the right one.
        total = -1.0
        threshold = 0.0
        for k in range(len(row)):
            total += descending[k]
            threshold = max(threshold, total / (k + 1))
        for k in range(len(row)):
            row[k] = max(row[k] - threshold, 0.0)


@compiled
def _exchange(
    W: np.ndarray, P: np.ndarray, sigma: float, lam: float, push: np.ndarray
) -> None:
    """Update the flows in place and add the divergence of 2 new - old to `push`."""
    T, d = W.shape
    p = np.empty(d)
    i = 0
    for s in range(T):
        for t in range(s + 1, T):
            square = 0.0
            for j in range(d):
                p[j] = P[i, j] + sigma * (W[s, j] - W[t, j])
                square += p[j] * p[j]
            if square <= lam * lam:
                scale = 1.0
            else:
                scale = lam / np.sqrt(square)
            for j in range(d):
                new = scale * p[j]
                step = 2.0 * new - P[i, j]
                push[s, j] += step
                push[t, j] -= step
                P[i, j] = new
            i += 1
