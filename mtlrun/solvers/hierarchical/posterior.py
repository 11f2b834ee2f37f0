"""Posterior of the coefficients of tasks: means, covariances, shares of variance.

It serves predictions for new rows of the tasks, and for new tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.stats import norm
from scipy.stats import t as student_t

from mtlrun.solvers.hierarchical.compress import Compressed, weighted
from mtlrun.solvers.hierarchical.marginal import (
    Marginal,
    MarginalValue,
    as_matrix,
    cholesky_of_one_plus,
)

Array = np.ndarray

#: Probability of the two-sided intervals whose half-widths define the standard
#: deviations of new tasks.
LEVEL = 0.95


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
    v : ndarray of shape (T,) or None
        Noise variances of the tasks in units of s2, if they differ. The rows in `data`
        are then divided by their roots.
    v_rows : ndarray of shape (T,) or None
        Expected noise variances of new rows of the tasks, in the same units.
    v_new : float
        Expected noise variance of a new task, in the same units.
    df : ndarray of shape (p,) or None
        Degrees of freedom of the mean of each coefficient (`containment_df`); None for
        normal quantiles.
    noise_df : float
        Degrees of freedom of s2.
    """

    W: Array
    mu: Array
    mean_covariance: Array
    Sigma: Array
    s2: float
    data: Compressed
    explicit: Array | None = None
    v: Array | None = None
    v_rows: Array | None = None
    v_new: float = 1.0
    df: Array | None = None
    noise_df: float = np.inf

    def noises(self) -> Array:
        """Return noise variances of all tasks, followed by a new task, (T + 1,)."""
        if self.v_rows is None:
            v = np.ones(len(self.W))
        else:
            v = self.v_rows
        return self.s2 * np.append(v, self.v_new)

    def mean_noise(self) -> float:
        """Return the mean noise variance of the rows."""
        if self.v is None:
            return self.s2
        return float(self.data.n @ self.noises()[:-1]) / self.data.N

    def target_moments(self) -> Array:
        """Return the mean of x x' over all rows, in the units of the targets."""
        if self.v is None:
            return self.data.moments()
        # The rows as they were before they were divided by the roots of the noises.
        return weighted(self.data, 1 / self.v).moments()

    def covariance(self, t: int) -> Array:
        """Return the covariance of the coefficients of task t, (p, p).

        For t = -1 it is the covariance for a task without rows.
        """
        if t < 0:
            return self.mean_covariance + self.Sigma
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

    def target_std(self, A: Array, t: int) -> Array:
        """Return standard deviations of new targets, noise included.

        The variance of the coefficients of a new task is estimated from few tasks, the
        noise from many rows. The 95% interval of a target of a new task has the
        half-width::

            sqrt(t(d)^2 a' (C + Sigma) a + t(d_noise)^2 s2)

        with the covariance C of mu and the 97.5% quantiles t of Student's distribution.
        Its standard deviation here is the half-width divided by the normal quantile, so
        that the usual interval of 1.96 standard deviations has its coverage.

        Parameters
        ----------
        A : ndarray of shape (n, p)
            Standardized rows.
        t : int
            Task; -1 for a new one.
        """
        variances = self.variances(A, t)
        noise = self.noises()[t]
        if t < 0 and self.df is not None:
            variances = variances * _widening(self._df_of_new_task(A, self.df))
            noise = noise * _widening(self.noise_df)
        return np.sqrt(variances + noise)

    def _df_of_new_task(self, A: Array, df: Array) -> Array:
        """Return the degrees of freedom of a' (C + Sigma) a for each row a, (n,).

        Variances of a diagonal Sigma are estimated separately, so the degrees of their
        sum follow Satterthwaite. Otherwise the degrees of the columns are averaged.
        """
        covariance = self.covariance(-1)
        parts = np.square(A) * np.maximum(np.diag(covariance), 0.0)
        total = np.maximum(parts.sum(axis=1), np.finfo(float).tiny)
        weights = parts / total[:, None]
        is_diagonal = not np.any(self.Sigma - np.diag(np.diag(self.Sigma)))
        if is_diagonal:
            weights = np.square(weights)
        # The degrees of a sum are at most the sum of the degrees; a row of zeros has
        # no weights.
        return np.asarray(1 / np.maximum(weights @ (1 / df), 1 / df.sum()))

    def residual_df(self) -> float:
        """Return the degrees of freedom of s2: the sum of squared residuals over s2.

        At the optimum the expected sum is s2 times the rows less those that the
        coefficients use.
        """
        squares = float(self.data.rest.sum())
        for block in self.data.blocks:
            fitted = np.matmul(block.R, self.W[block.tasks, :, None])[:, :, 0]
            squares += float(np.square(block.z - fitted).sum())
        return max(squares / self.s2, 1.0)

    def predict_std(self, L: Array) -> Array:
        """Return the standard deviations of L w_t for each task, (T, len(L))."""
        variances = [self.variances(L, t) for t in range(len(self.W))]
        return np.sqrt(np.array(variances))


def _widening(df: Any) -> Any:
    """Return the squared ratio of the quantiles of Student's and the normal
    distribution.
    """
    tail = (1 + LEVEL) / 2
    return np.square(student_t.ppf(tail, df) / norm.ppf(tail))


def containment_df(
    data: Compressed, random: Array, intercept: bool, residual_df: float
) -> Array:
    """Return the degrees of freedom of the mean of each coefficient, (p,).

    They are counted by containment. The mean of coefficients that differ between tasks
    is estimated from as many values as there are tasks in which the column varies. The
    coefficient of a column that varies between tasks only is estimated from the levels
    of the tasks, as is their mean. Other coefficients have the residual degrees.

    Parameters
    ----------
    data : Compressed
    random : ndarray of int
        Columns whose coefficients may differ between tasks.
    intercept : bool
        Whether column 0 is the intercept.
    residual_df : float
        Degrees of freedom of the variance of the noise.
    """
    df = np.full(data.p, residual_df)
    if data.T > 1:
        n_varying = data.varies(intercept).sum(axis=0)
        df[random] = n_varying[random] - 1
        if intercept and 0 in random:
            is_between = (n_varying == 0) & (np.diag(data.moments()) > 0)
            df[is_between] = data.T - 1 - is_between.sum()
            df[0] = data.T - 1 - is_between.sum()
    return np.clip(df, 1.0, residual_df)


def posterior_of(m: Marginal, v: MarginalValue) -> Posterior:
    """Return the posterior at given variances."""
    random_Theta = as_matrix(v.Theta)
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
    return shares(
        posterior.target_moments(),
        posterior.mu,
        posterior.Sigma,
        posterior.mean_noise(),
        intercept,
    )


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
