"""Coefficients of tasks given their rows: means, covariances, and what they say about new rows and new tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.solvers.hierarchical.marginal import Marginal, Value

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Posterior:
    """Posterior of the standardised coefficients w_t, given the variances.

    Attributes
    ----------
    W : ndarray of shape (T, p)
        Means.
    mu : ndarray of shape (p,)
        Mean of the coefficients of all tasks.
    mean_covariance : ndarray of shape (p, p)
        Of mu.
    Sigma : ndarray of shape (p, p)
        Covariance between tasks.
    s2 : float
        Variance of the noise.
    whitened : list of ndarray
        V_t^-1/2 R_t of tasks, as of `Value`.
    place : ndarray of int, shape (T, 2)
        Where the rows of a task stand in `whitened`.
    explicit : ndarray of shape (T, p, p) or None
        Covariances of the tasks where they are not those of a single set of variances.
    new : ndarray of shape (p, p) or None
        Likewise that of a new task.
    """

    W: Array
    mu: Array
    mean_covariance: Array
    Sigma: Array
    s2: float
    whitened: list[Array]
    place: Array
    explicit: Array | None = None
    new: Array | None = None

    def covariance(self, t: int) -> Array:
        """Return the covariance of the coefficients of task t, (p, p); t = -1 is a task without rows."""
        if t < 0:
            return self.mean_covariance + self.Sigma if self.new is None else self.new
        if self.explicit is not None:
            return np.asarray(self.explicit[t])
        block, row = self.place[t]
        Q = self.whitened[block][row]
        right = Q @ (self.Sigma / self.s2)
        E = np.eye(len(self.mu)) - right.T @ Q
        return np.asarray(self.Sigma - self.s2 * right.T @ right + E @ self.mean_covariance @ E.T)

    def variances(self, A: Array, t: int) -> Array:
        """Return the variance of A w_t for standardised rows A (n, p), without noise."""
        return np.asarray(np.maximum(np.einsum("ij,ij->i", A @ self.covariance(t), A), 0.0))

    def deviations(self, L: Array) -> Array:
        """Return the standard deviations of L w_t of every task, (T, len(L))."""
        return np.sqrt(np.array([self.variances(L, t) for t in range(len(self.W))]))


def posterior_of(m: Marginal, v: Value) -> Posterior:
    """Return the posterior at given variances."""
    p, T = m.data.p, m.data.T
    Theta = np.zeros((p, p))
    Theta[np.ix_(m.random, m.random)] = np.diag(v.Theta) if v.Theta.ndim == 1 else v.Theta
    W = np.repeat(v.mu[None], T, axis=0)
    W[:, m.random] += v.h @ (np.diag(v.Theta) if v.Theta.ndim == 1 else v.Theta)
    place = np.zeros((T, 2), dtype=int)
    for k, block in enumerate(m.data.blocks):
        place[block.tasks, 0] = k
        place[block.tasks, 1] = np.arange(len(block.tasks)) if len(block.R) > 1 else 0
    return Posterior(W, v.mu, v.mean_covariance(), v.s2 * Theta, v.s2, v.Q, place)
