"""Tasks pulled together in pairs, by consensus ADMM.

The problem is to minimize ``sum_t f_t(w_t) + lam * sum_{s<t} ||w_s - w_t||_2``. One
iteration serves every f whose prox is known, such as the quadratic on the simplex of
multi-task MKL and the squared loss of MeTaG. Rows are tasks here, (T, d).

Consensus ADMM keeps two local copies per pair. Their scaled multipliers are opposite
after the first iteration, so that one *flow* p_st per pair is enough (p_st = -rho u, of
norm at most lam by construction). Eliminating the copies gives, with sigma = rho / 2
and weight = rho (T - 1)::

    p_st <- projection of p_st + sigma (w_s - w_t) on the ball of radius lam
    w_t  <- prox of f_t / weight at  w_t - (1/weight) sum_s (2 p_ts - previous p_ts)

The same iteration converges with the smaller weight = T sigma, which is used here. It
is a primal-dual step, because the squared norm of w -> all differences is T.

A flow is a certificate without further computations: lam ||w_s - w_t|| >=
<p_st, w_s - w_t> for all w, so that min_w sum_t f_t(w_t) + <div p_t, w_t> is a lower
bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from mtlrun.utils.jit import compiled

Array = np.ndarray


class TaskTerm(ABC):
    """The function sum_t f_t(w_t) that the pairs couple."""

    @abstractmethod
    def prox(self, V: Array, weight: float) -> Array:
        """Return argmin_W sum_t f_t(w_t) + weight/2 ||W - V||_F^2, shape (T, d)."""

    @abstractmethod
    def value(self, W: Array) -> float:
        """Return sum_t f_t(w_t)."""

    @abstractmethod
    def bound(self, W: Array, flows: Flows, lam: float) -> float:
        """Return a lower bound of the problem from the flows.

        W is a solution candidate, which may help to find a higher bound.
        """


@dataclass(frozen=True, eq=False)
class SimplexQuadratic(TaskTerm):
    """Quadratic c_t/2 ||w_t||^2 + <linear_t, w_t> over w_t >= 0 with sum(w_t) <= 1.

    Attributes
    ----------
    linear : ndarray of shape (T, M)
    curvature : ndarray of shape (T, 1)
        c_t: all positive, or all 0 for the linear problem of the printed algorithm.
    """

    linear: Array
    curvature: Array

    def prox(self, V: Array, weight: float) -> Array:
        # The curvature is the same in all directions: project the free minimum.
        minimum = (weight * V - self.linear) / (weight + self.curvature)
        return project_simplex_ball(minimum)

    def value(self, W: Array) -> float:
        slopes = 0.5 * self.curvature * W + self.linear
        return float(np.sum(slopes * W))

    def bound(self, W: Array, flows: Flows, lam: float) -> float:
        G = self.linear + flows.divergence()
        best = minimize_on_simplex_ball(G, self.curvature)
        slopes = 0.5 * self.curvature * best + G
        return float(np.sum(slopes * best))


class Flows:
    """One vector per pair of tasks, of norm at most lam.

    These multipliers are where a run ends and the next one can start.

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

    def divergence(self) -> Array:
        """Return sum_s p_ts of each task t, shape (T, d)."""
        n_features = self.values.shape[1]
        pairs = np.zeros((self.n_tasks, self.n_tasks, n_features))
        upper_triangle = np.triu_indices(self.n_tasks, 1)
        pairs[upper_triangle] = self.values
        return np.asarray(pairs.sum(axis=1) - pairs.sum(axis=0))

    def shrink_to(self, lam: float) -> None:
        """Scale flows down to length lam, after a run with a larger lam."""
        norms = np.sqrt(np.einsum("ij,ij->i", self.values, self.values))
        is_long = norms > lam
        factors = lam / norms[is_long]
        self.values[is_long] *= factors[:, None]


@dataclass(frozen=True)
class Fused:
    """Result of `fuse`.

    Attributes
    ----------
    W : ndarray of shape (T, d)
    primal, bound : float
        Value at W and highest lower bound.
    n_iter : int
    converged : bool
    """

    W: Array
    primal: float
    bound: float
    n_iter: int
    converged: bool


def fuse(
    W: Array,
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
        Non-negative.
    flows : Flows
        Start of the multipliers. They are changed in place, and can start the next run.
    sigma : float
        Step of the flows, positive; about (size of the flows) / (size of W).
    tol : float
        Absolute gap between value and bound to stop at.
    max_iter, check_every : int
        Iterations, and iterations between two computations of the gap.

    Returns
    -------
    Fused
        The best W of all checks and the start.
    """
    flows.shrink_to(lam)
    best_W = W
    best = term.value(W) + lam * pair_distances(W)
    bound = -np.inf
    push = np.zeros_like(W)
    # As small as convergence allows, see the module docstring.
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


def pair_distances(W: Array) -> float:
    """Return sum_{s<t} ||w_s - w_t||_2 of the rows of W."""
    return float(pdist(W).sum())


def minimize_on_simplex_ball(G: Array, curvature: Array) -> Array:
    """Minimize sum_t c_t/2 ||w_t||^2 + <g_t, w_t> over rows w_t >= 0, sum(w_t) <= 1.

    The curvatures c must be all positive or all 0.
    """
    if curvature.all():
        return project_simplex_ball(G / -curvature)
    # A linear function has its minimum at a corner: 0 or a unit vector.
    W = np.zeros_like(G)
    rows = np.flatnonzero(G.min(axis=1) < 0)
    W[rows, G[rows].argmin(axis=1)] = 1.0
    return W


def linear_minimum(G: Array) -> float:
    """Return min <G, W> over rows w_t >= 0 with sum(w_t) <= 1."""
    return float(np.minimum(G.min(axis=1), 0.0).sum())


def project_simplex_ball(V: Array) -> Array:
    """Project every row on {w >= 0, sum(w) <= 1}."""
    out = np.maximum(V, 0.0)
    _lower_rows(out)
    return out


@compiled
def _lower_rows(W: Array) -> None:
    """Lower the positive entries of rows with a sum above 1 until it is 1, in place.

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
def _exchange(W: Array, P: Array, sigma: float, lam: float, push: Array) -> None:
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
