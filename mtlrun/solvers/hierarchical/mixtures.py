"""Clusters of tasks as a prior of their coefficients.

w_t ~ sum_k pi_k N(mu_k, Sigma), fitted by EM from k-means of the coefficients of the
normal model. BIC chooses the number of clusters.

The likelihood is the plain one, the mean included. The starts of k-means do not depend
on the order of the tasks, so that neither the units of the targets nor the names of the
tasks change anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from mtlrun.solvers.hierarchical.fit import ROWS_PER_MEAN, Result
from mtlrun.solvers.hierarchical.marginal import as_matrix, inverse_by_halves, whitened
from mtlrun.solvers.hierarchical.posterior import Posterior

Array = np.ndarray

#: Numbers of clusters to try.
CLUSTERS = (2, 3, 4, 6)
#: Tasks that each cluster needs.
TASKS_PER_CLUSTER = 3
#: No larger number is tried after this many numbers in a row did not lower BIC.
WORSE = 2
#: Starts of EM.
STARTS = 3
#: Steps of EM from each start.
SHORT = 10
#: Further steps from the best start.
STEPS = 100
#: Steps end when the criterion falls by less than this.
FALL = 1e-2
# A ridge of the means of clusters towards the common mean, as a share of the
# information of one task.
_RIDGE = 1e-3


@dataclass(frozen=True)
class Mixture:
    """Fitted clusters.

    Attributes
    ----------
    posterior : Posterior
    criterion : float
        Minus twice the logarithm of the likelihood, not restricted.
    labels : ndarray of int, shape (T,)
        The most likely cluster of each task.
    path : list of float
        The criterion along the iterations.
    predicted_reduction : float
        By how much the last step of EM lowered the criterion, which the next one will
        not exceed.
    converged : bool
        Whether `predicted_reduction` is below `FALL`.
    n_evaluations : int
        Of the criterion, for all numbers of clusters.
    """

    posterior: Posterior
    criterion: float
    labels: Array
    path: list[float]
    predicted_reduction: float
    converged: bool
    n_evaluations: int


def clusters(result: Result) -> Mixture | None:
    """Return clusters of tasks, or None if one normal distribution is better.

    BIC chooses their number. The mean of each cluster needs `ROWS_PER_MEAN` rows per
    column, as the mean of a normal distribution does.
    """
    start = result.posterior()
    data = result.m.data
    single = _clustered(result, start, 1)
    n_evaluations = len(single.path)
    best = None
    lowest = single.bic
    worse = 0
    for K in CLUSTERS:
        has_few_rows = K * data.p * ROWS_PER_MEAN > data.N
        has_few_tasks = K * TASKS_PER_CLUSTER > data.T
        if has_few_tasks or has_few_rows or worse == WORSE:
            break
        candidate = _clustered(result, start, K, lowest)
        n_evaluations += len(candidate.path)
        worse += 1
        if candidate.bic < lowest:
            worse = 0
            best = candidate
            lowest = candidate.bic
    if best is None:
        return None
    return Mixture(
        posterior=best.posterior(),
        criterion=best.criterion,
        labels=best.responsibility.argmax(axis=1),
        path=best.path,
        predicted_reduction=max(best.fall, 0.0),
        converged=best.fall < FALL,
        n_evaluations=n_evaluations,
    )


def _clustered(
    result: Result,
    start: Posterior,
    K: int,
    lowest: float = np.inf,
) -> _EM:
    """Run EM with K clusters from the best of some starts.

    It is not run to its end if that cannot bring the BIC below `lowest`.
    """
    n_starts = 1
    if K > 1:
        n_starts = STARTS
    runs_by_partition: dict[tuple[int, ...], _EM] = {}
    for seed in range(n_starts):
        run = _EM(result, start, K, seed)
        # The same clusters in another order would end at the same criterion.
        partition, _ = pd.factorize(run.labels)
        runs_by_partition.setdefault(tuple(partition.tolist()), run)
    runs = list(runs_by_partition.values())
    if n_starts > 1:
        for run in runs:
            run.solve(SHORT)
    best = runs[0]
    for run in runs[1:]:
        # Rounding must not decide between starts with the same end.
        rounding = 1e-9 * abs(best.criterion)
        if run.criterion < best.criterion - rounding:
            best = run
    # Each step lowers the criterion by less than the one before it, about linearly
    # less: together they lower it by half of the steps times the last fall at most.
    largest_fall = 0.5 * STEPS * best.fall
    if K == 1 or best.bic - largest_fall < lowest:
        best.solve(STEPS)
    return best


class _EM:
    """EM of K normal distributions of coefficients with one diagonal covariance."""

    def __init__(self, result: Result, start: Posterior, K: int, seed: int) -> None:
        self.data = result.m.data
        self.K = K
        v = result.fit.value
        self.mean = start.mu
        self.random = result.m.random
        self.unit = np.zeros(self.data.p)
        self.unit[self.random] = result.m.scale
        theta = np.zeros(self.data.p)
        theta[self.random] = np.diag(as_matrix(v.Theta))
        # Several clusters explain some of the differences between tasks; a single one
        # is the normal model.
        share = 1.0
        if K > 1:
            share = 0.5
        self.theta = share * np.maximum(theta, 1e-6 * self.unit)
        self.s2 = v.s2
        self.labels = np.zeros(self.data.T, dtype=int)
        if K > 1:
            # Clusters of the coefficients of a normal fit, by k-means.
            variances = np.where(self.unit > 0, self.unit * start.s2, np.inf)
            deviations = (start.W - start.mu) / np.sqrt(variances)
            # Differences that are rounding must not decide which task comes first.
            distances = np.round(np.square(deviations).sum(axis=1), 9)
            order = np.argsort(distances, kind="stable")
            points = np.round(deviations[order], 9)
            labels = np.empty(len(order), dtype=int)
            kmeans = KMeans(K, n_init=1, random_state=seed)
            labels[order] = kmeans.fit_predict(points)
            self.labels = labels
        self.responsibility = 0.9 * np.eye(K)[self.labels] + 0.1 / K
        self.criterion = np.inf
        self.fall = np.inf
        self.path: list[float] = []

    @property
    def bic(self) -> float:
        """The criterion plus a cost per parameter: means and shares of clusters."""
        n_parameters = self.K * self.data.p + self.K
        return float(self.criterion + n_parameters * np.log(self.data.T))

    def solve(self, steps: int) -> None:
        """Step until the criterion falls by little."""
        for step in range(steps):
            before = self.criterion
            self._step()
            self.fall = before - self.criterion
            self.path.append(self.criterion)
            if step > 5 and self.fall < FALL:
                break

    def _step(self) -> None:
        """Update means, then responsibilities, then variances."""
        data = self.data
        parts = []
        for block in data.blocks:
            q, v, logdet = whitened(block, block.R, self.theta, inverse_by_halves)
            parts.append((block, q, v, logdet))
        # The diagonal of the information of all tasks.
        diagonal: Any = 0
        for block, q, _, _ in parts:
            diagonal = diagonal + block.copies * np.square(q).sum(axis=(0, 1))
        self.pi = self.responsibility.mean(axis=0) + 1e-12
        ridge = _RIDGE * diagonal / data.T + 1e-12
        self.mu = self._means(parts, ridge)
        density = np.empty((data.T, self.K))
        h = np.empty((data.T, self.K, data.p))
        quadratic = np.empty((data.T, self.K))
        for block, q, v, logdet in parts:
            tasks = block.tasks
            e = v[:, None, :] - self.mu @ q.transpose(0, 2, 1)
            residual_squares = np.square(e).sum(axis=2)
            quadratic[tasks] = data.rest[tasks, None] + residual_squares
            density[tasks] = logdet[:, None] + quadratic[tasks] / self.s2
            h[tasks] = e @ q
        deviance = density + data.n[:, None] * np.log(2 * np.pi * self.s2)
        log_density = -0.5 * deviance + np.log(self.pi)
        # SciPy's logsumexp takes ten times as long on matrices this small.
        largest = log_density.max(axis=1)
        sums = np.exp(log_density - largest[:, None]).sum(axis=1)
        total = largest + np.log(sums)
        self.responsibility = np.exp(log_density - total[:, None])
        self.criterion = -2 * float(total.sum())
        # The criterion belongs to these variances, not to the updated ones.
        self.point = (self.theta, self.s2)
        h_squares = np.einsum("tk,tkp->p", self.responsibility, np.square(h))
        G = diagonal - h_squares / self.s2
        # The M step: theta becomes the mean of its posterior second moments.
        theta = self.theta - self.theta * G * self.theta / data.T
        self.theta = np.maximum(theta, 1e-10 * self.unit)
        s2 = float((self.responsibility * quadratic).sum() / data.N)
        self.s2 = max(s2, 1e-9 * data.variance, 1e-200)

    def _means(self, parts: list[Any], ridge: Array) -> Array:
        """Return the means of the clusters, (K, p), by generalized least squares."""
        p = self.data.p
        M = np.zeros((self.K, p, p))
        a = np.zeros((self.K, p))
        for block, q, v, _ in parts:
            r = self.responsibility[block.tasks]
            A = q.transpose(0, 2, 1) @ q
            if len(q) == 1:
                M += r.sum(axis=0)[:, None, None] * A
                a += (r.T @ v) @ q[0]
            else:
                M += (r.T @ A.reshape(len(A), -1)).reshape(M.shape)
                a += r.T @ np.matmul(v[:, None, :], q)[:, 0]
        diagonal = np.arange(p)
        M[:, diagonal, diagonal] += ridge
        right = a + ridge * self.mean
        solved = np.linalg.solve(M, right[:, :, None])
        return np.asarray(solved[:, :, 0])

    def posterior(self) -> Posterior:
        """Return means and covariances of the coefficients."""
        data = self.data
        r = self.responsibility
        theta, s2 = self.point
        Theta = np.diag(theta)
        # Q'Q and coefficients of each task, given that it belongs to a cluster.
        A = np.empty((data.T, data.p, data.p))
        of_cluster = np.repeat(self.mu[:, None], data.T, axis=1)
        for block in data.blocks:
            q, v, _ = whitened(block, block.R, Theta)
            A[block.tasks] = q.transpose(0, 2, 1) @ q
            for k in range(self.K):
                residual = v - q @ self.mu[k]
                h = np.matmul(residual[:, None, :], q)[:, 0]
                of_cluster[k, block.tasks] += h @ Theta
        shares = self.pi / self.pi.sum()
        W = np.asarray(sum(r[:, k, None] * of_cluster[k] for k in range(self.K)))
        mu = np.asarray(sum(shares[k] * self.mu[k] for k in range(self.K)))
        left = np.eye(data.p) - Theta @ A
        within = s2 * (Theta - Theta @ A @ Theta)
        explicit = np.zeros((data.T, data.p, data.p))
        Sigma: Any = 0
        mean: Any = 0
        for k in range(self.K):
            # A cluster of few tasks may not determine all coefficients of its mean.
            M = np.tensordot(r[:, k], A, 1)
            mean_covariance = s2 * np.linalg.pinv(M, hermitian=True)
            deviation = of_cluster[k] - W
            # Within a cluster: given mu, from the estimate of mu, and between clusters.
            of_mean = left @ mean_covariance @ left.transpose(0, 2, 1)
            between = deviation[:, :, None] * deviation[:, None, :]
            explicit += r[:, k, None, None] * (within + of_mean + between)
            shift = self.mu[k] - mu
            covariance = s2 * Theta + np.outer(shift, shift)
            Sigma = Sigma + shares[k] * covariance
            mean = mean + shares[k] * mean_covariance
        return Posterior(W, mu, np.asarray(mean), np.asarray(Sigma), s2, data, explicit)
