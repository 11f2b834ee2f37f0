"""Posterior of the coefficients of tasks: means, covariances, shares of variance.

It serves predictions for new rows of the tasks, and for new tasks.
"""

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
        Covariances of the tasks, if they do not follow from a single set of variances.
    new : ndarray of shape (p, p) or None
        The same for a new task.
    v : ndarray of shape (T,) or None
        Noise variances of the tasks in units of s2, if they differ. The rows in `data`
        are then divided by their roots.
    v_rows : ndarray of shape (T,) or None
        Expected noise variances of new rows of the tasks, in the same units.
    v_new : float
        Expected noise variance of a new task, in the same units.
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
        """Return noise variances of all tasks, followed by a new task, (T + 1,)."""
        if self.v_rows is None:
            v = np.ones(len(self.W))
        else:
            v = self.v_rows
        return self.s2 * np.append(v, self.v_new)

    def covariance(self, t: int) -> Array:
        """Return the covariance of the coefficients of task t, (p, p).

        For t = -1 it is the covariance for a task without rows.
        """
        if t < 0:
            if self.new is None:
                return self.mean_covariance + self.Sigma
            return self.new
        if self.explicit is not None:
            return np.asarray(self.explicit[t])
        # With V = I + R Theta R' and Theta = Sigma / s2, the covariance given mu is
        # s2 (Theta - Theta R' V^-1 R Theta). The last term is for the estimated mu.
        R, _ = self.data.task(t)
        half = R @ (self.Sigma / self.s2)
        V = half @ R.T
        try:
            gain = np.linalg.solve(V + np.eye(len(R)), half)
        except np.linalg.LinAlgError:
            # The 1 is lost in rounding if Theta is large.
            C = cholesky_of_one_plus(V[None])[0]
            gain = cho_solve((C, True), half)
        left = np.eye(len(self.mu)) - gain.T @ R
        of_mean = left @ self.mean_covariance @ left.T
        return np.asarray(self.Sigma - self.s2 * half.T @ gain + of_mean)

    def variances(self, A: Array, t: int) -> Array:
        """Return the variance of A w_t for standardized rows A, without noise."""
        product = A @ self.covariance(t)
        variances = np.einsum("ij,ij->i", product, A)
        return np.asarray(np.maximum(variances, 0.0))

    def predict_std(self, L: Array) -> Array:
        """Return the standard deviations of L w_t for each task, (T, len(L))."""
        variances = [self.variances(L, t) for t in range(len(self.W))]
        return np.sqrt(np.array(variances))


def posterior_of(m: Marginal, v: MarginalValue) -> Posterior:
    """Return the posterior at given variances."""
    random_Theta = v.Theta
    if v.Theta.ndim == 1:
        random_Theta = np.diag(v.Theta)
    Theta = np.zeros((m.data.p, m.data.p))
    Theta[np.ix_(m.random, m.random)] = random_Theta
    W = np.repeat(v.mu[None], m.data.T, axis=0)
    W[:, m.random] += v.h @ random_Theta
    return Posterior(W, v.mu, v.mean_covariance(), v.s2 * Theta, v.s2, m.data)


@dataclass(frozen=True)
class Shares:
    """Shares of the variance of the targets, which add up to 1.

    Attributes
    ----------
    mean : float
        Share explained by the mean of the coefficients.
    tasks : float
        Share that differences between tasks explain in addition.
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
        # The mean noise variance of the rows, and the rows as they were before they
        # were divided by the roots of the noises.
        noise = float(data.n @ posterior.noises()[:-1]) / data.N
        data = weighted(data, 1 / posterior.v)
    return shares(data.moments(), posterior.mu, posterior.Sigma, noise, intercept)


def shares(
    moments: Array,
    mu: Array,
    Sigma: Array,
    noise: float,
    intercept: bool,
) -> Shares:
    """Return the shares of a variance.

    Parameters
    ----------
    moments : ndarray of shape (p, p)
        Mean of x x' over all rows.
    mu, Sigma : ndarray of shape (p,) and (p, p)
        Mean and covariance of the coefficients of tasks.
    noise : float
        Variance of the noise.
    intercept : bool
        Whether column 0 is the intercept, whose mean explains nothing.
    """
    spread = moments
    if intercept:
        spread = moments - np.outer(moments[0], moments[0])
    mean_part = float(mu @ spread @ mu)
    columns = (Sigma * moments).sum(axis=1)
    task_part = float(columns.sum())
    total = max(mean_part + task_part + noise, np.finfo(float).tiny)
    return Shares(
        mean=mean_part / total,
        tasks=task_part / total,
        noise=noise / total,
        columns=columns / total,
    )
