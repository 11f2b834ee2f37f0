"""Coefficients of tasks given their rows: means, covariances, and what they say about new rows and new tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from mtlrun.solvers.hierarchical.compress import Compressed, weighted
from mtlrun.solvers.hierarchical.marginal import (
    Marginal,
    MarginalValue,
    cholesky_of_one_plus,
)

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Posterior:
    """Posterior of the standardized coefficients w_t, given the variances.

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
    data : Compressed
    explicit : ndarray of shape (T, p, p) or None
        Covariances of the tasks if they differ from the ones of a single set of
        variances.
    new : ndarray of shape (p, p) or None
        The same for a new task.
    v : ndarray of shape (T,) or None
        Where tasks have noises of their own, these in units of s2; `data` are then
        divided by their roots.
    v_rows : ndarray of shape (T,) or None
        Likewise the mean of what new rows of the tasks have.
    v_new : float
        The mean for a new task.
    """

    W: Array
    mu: Array
    mean_covariance: Array
    Sigma: Array
    s2: float
    data: Compressed
    explicit: Array | None = None
    new: Array | None = None
    v: Array | None = None
    v_rows: Array | None = None
    v_new: float = 1.0

    def noises(self) -> Array:
        """Return the variances of the noise of all tasks, and of a new task at the end, (T + 1,)."""
        if self.v_rows is None:
            v = np.ones(len(self.W))
        else:
            v = self.v_rows
        return self.s2 * np.append(v, self.v_new)

    def covariance(self, t: int) -> Array:
        """Return the covariance of the coefficients of task t, (p, p); t = -1 is a task without rows."""
        if t < 0:
            if self.new is None:
                return self.mean_covariance + self.Sigma
            return self.new
        if self.explicit is not None:
            return np.asarray(self.explicit[t])
        R, _ = self.data.task(t)
        half = R @ (self.Sigma / self.s2)
        V = half @ R.T
        try:
            gain = np.linalg.solve(V + np.eye(len(R)), half)  # V^-1 R Theta
        except np.linalg.LinAlgError:
            # The 1 is lost in rounding if Theta is large.
            C = cholesky_of_one_plus(V[None])[0]
            gain = cho_solve((C, True), half)
        left = np.eye(len(self.mu)) - gain.T @ R
        return np.asarray(
            self.Sigma - self.s2 * half.T @ gain + left @ self.mean_covariance @ left.T
        )

    def variances(self, A: Array, t: int) -> Array:
        """Return the variance of A w_t for standardized rows A (n, p), without noise."""
        return np.asarray(
            np.maximum(np.einsum("ij,ij->i", A @ self.covariance(t), A), 0.0)
        )

    def predict_std(self, L: Array) -> Array:
        """Return the standard deviations of L w_t for each task, (T, len(L))."""
        return np.sqrt(np.array([self.variances(L, t) for t in range(len(self.W))]))


def posterior_of(m: Marginal, v: MarginalValue) -> Posterior:
    """Return the posterior at given variances."""
    Theta = np.zeros((m.data.p, m.data.p))
    Theta[np.ix_(m.random, m.random)] = (
        np.diag(v.Theta) if v.Theta.ndim == 1 else v.Theta
    )
    W = np.repeat(v.mu[None], m.data.T, axis=0)
    W[:, m.random] += v.h @ (np.diag(v.Theta) if v.Theta.ndim == 1 else v.Theta)
    return Posterior(W, v.mu, v.mean_covariance(), v.s2 * Theta, v.s2, m.data)


@dataclass(frozen=True)
class Shares:
    """Where the variance of the targets comes from.

    Attributes
    ----------
    mean : float
        Share explained by the mean of the coefficients.
    tasks : float
        Share that the differences of tasks explain beyond it.
    noise : float
    columns : ndarray of shape (p,)
        Contribution of the differences in each coefficient to `tasks`.
    """

    mean: float
    tasks: float
    noise: float
    columns: Array


def variance_shares(posterior: Posterior, intercept: bool) -> Shares:
    """Return shares of the variance of the targets over all rows."""
    data = posterior.data
    noise = posterior.s2
    if posterior.v is not None:
        noise = float(data.n @ posterior.noises()[:-1]) / data.N
        data = weighted(data, 1 / posterior.v)
    return shares(data.moments(), posterior.mu, posterior.Sigma, noise, intercept)


def shares(
    moments: Array, mu: Array, Sigma: Array, noise: float, intercept: bool
) -> Shares:
    """Return shares of a variance for the mean of x x' over all rows, the mean and covariance of w_t, and the noise."""
    if intercept:
        spread = moments - np.outer(moments[0], moments[0])
    else:
        spread = moments
    fixed = float(mu @ spread @ mu)
    columns = (Sigma * moments).sum(axis=1)
    total = max(fixed + float(columns.sum()) + noise, np.finfo(float).tiny)
    return Shares(
        fixed / total, float(columns.sum()) / total, noise / total, columns / total
    )
