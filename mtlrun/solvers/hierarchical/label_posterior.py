"""Posterior of logistic tasks: variances, probabilities, leave-one-out losses.

Laplace's approximation makes the posterior of the coefficients w_t normal, around the
mode, given mean and covariance of all tasks. With B_t the information of the labels of
task t (`logistic`), C the covariance of mu and a row x::

    var(x'w_t) = x' [Theta - Theta B_t Theta + (I - Theta B_t) C (I - Theta B_t)'] x

B_t = F_t'F_t with at most min(rows, columns) rows F_t, which are all that is kept of a
task. A probability is the logistic function averaged over this normal distribution, by
the approximation expit(m / sqrt(1 + pi v / 8)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

Array = np.ndarray

#: Trapezoidal rule for means over the standard normal distribution: for log-odds with
#: a standard deviation of 15 its error is 1e-5.
NORMAL_NODES = np.linspace(-8.0, 8.0, 161)
NORMAL_SHARES = np.exp(-0.5 * np.square(NORMAL_NODES))
NORMAL_SHARES /= NORMAL_SHARES.sum()
#: Probabilities below this have no logarithm.
TINY = 1e-300
# A row cannot carry more than this share of the information about its own log-odds.
_LARGEST_SHARE = 1.0 - 1e-6


@dataclass(frozen=True)
class TaskRoots:
    """Roots F_t of the information of some tasks.

    Attributes
    ----------
    tasks : ndarray of int, shape (m,)
        Positions of the tasks.
    F : ndarray of shape (m, k, p)
    """

    tasks: Array
    F: Array


@dataclass(frozen=True)
class LabelPosterior:
    """Posterior covariances of the standardized coefficients.

    Attributes
    ----------
    Theta : ndarray of shape (p, p)
        Covariance between tasks.
    mean_covariance : ndarray of shape (p, p)
        C, the covariance of the mean of the coefficients.
    roots : list of TaskRoots
    """

    Theta: Array
    mean_covariance: Array
    roots: list[TaskRoots]

    def variances(self, A: Array, task: int) -> Array:
        """Return the variances of the log-odds of standardized rows A (n, p), (n,).

        A task without training rows, of which -1 is one, has the covariance between
        tasks in them.
        """
        for block in self.roots:
            positions = np.flatnonzero(block.tasks == task)
            if positions.size:
                F = block.F[positions]
                variances = row_variances(A[None], F, self)
                return np.asarray(variances[0])
        spread = self.Theta + self.mean_covariance
        return np.asarray(np.einsum("ij,ij->i", A @ spread, A))

    def averaged_odds(self, A: Array, odds: Array, task: int) -> Array:
        """Return the log-odds of the probabilities averaged over the posterior, (n,).

        Parameters
        ----------
        A : ndarray of shape (n, p)
            Standardized rows.
        odds : ndarray of shape (n,)
            Their log-odds at the coefficients of the task.
        task : int
            As of `variances`.
        """
        return averaged_odds(odds, self.variances(A, task))


@dataclass(frozen=True)
class TaskNodes:
    """Posteriors of some tasks at the nodes of a quadrature.

    Attributes
    ----------
    tasks : ndarray of int, shape (m,)
        Positions of the tasks.
    deviation : ndarray of shape (m, K, q)
        Differences of the random coefficients from their posterior mean.
    share : ndarray of shape (m, K)
        Posterior probability of each node.
    """

    tasks: Array
    deviation: Array
    share: Array


@dataclass(frozen=True)
class NodePosterior(LabelPosterior):
    """Posteriors that are not normal: probabilities are averaged over nodes.

    Attributes
    ----------
    random : ndarray of int, shape (q,)
        Random columns.
    nodes : list of TaskNodes
    """

    random: Array
    nodes: list[TaskNodes]

    def averaged_odds(self, A: Array, odds: Array, task: int) -> Array:
        """Return the log-odds of the probabilities averaged over the posterior, (n,).

        A task without training rows has the integral over the normal distribution of
        tasks.
        """
        for block in self.nodes:
            positions = np.flatnonzero(block.tasks == task)
            if not positions.size:
                continue
            deviation = block.deviation[positions[0]]
            at_nodes = odds[:, None] + A[:, self.random] @ deviation.T
            # The part of the variances that is due to the estimated mean.
            no_covariance = np.zeros_like(self.mean_covariance)
            given_mean = LabelPosterior(self.Theta, no_covariance, self.roots)
            difference = self.variances(A, task) - given_mean.variances(A, task)
            of_mean = np.maximum(difference, 0.0)
            at_nodes = averaged_odds(at_nodes, of_mean[:, None])
            return log_odds_of_mean(at_nodes, block.share[positions[0]])
        return normal_averaged_odds(odds, self.variances(A, task))


def row_variances(X: Array, F: Array, posterior: LabelPosterior) -> Array:
    """Return the variances of the log-odds of rows of tasks, (m, n).

    Parameters
    ----------
    X : ndarray of shape (m, n, p), or (1, n, p) where the tasks share their rows
    F : ndarray of shape (m, k, p)
        Roots of the information of the tasks.
    posterior : LabelPosterior
        Its covariances; its roots are not used.
    """
    # x'(Theta - Theta F'F Theta) x: the variance given the mean.
    moved = X @ posterior.Theta
    seen = moved @ F.transpose(0, 2, 1)
    prior = (moved * X).sum(axis=2)
    within = prior - np.square(seen).sum(axis=2)
    # What the rows of the task leave to the estimated mean.
    left = X - seen @ F
    of_mean = ((left @ posterior.mean_covariance) * left).sum(axis=2)
    # Both can be negative by rounding.
    return np.asarray(np.maximum(within, 0.0) + np.maximum(of_mean, 0.0))


def root_of(matrices: Array) -> Array:
    """Return roots F with F'F equal to positive semidefinite matrices (m, k, k)."""
    values, vectors = np.linalg.eigh(matrices)
    roots = np.sqrt(np.maximum(values, 0.0))
    return np.asarray(roots[:, :, None] * vectors.transpose(0, 2, 1))


def log_probability(odds: Array, y: Array) -> Array:
    """Return the log probability of labels 0 and 1 at log-odds.

    It keeps its digits where a label is nearly certain: large weights multiply them.
    """
    return np.asarray(log_expit(np.where(y > 0, odds, -odds)))


def averaged_odds(odds: Array, variance: Array) -> Array:
    """Return the log-odds of the mean probability for normal log-odds."""
    # A probit function with the same slope at 0 stands for the logistic function.
    ratio = np.pi * variance / 8.0
    return np.asarray(odds / np.sqrt(1.0 + ratio))


def log_odds_of_mean(odds: Array, share: Array) -> Array:
    """Return the log-odds of the mean probability for log-odds (..., K) with shares."""
    # Sums of both probabilities: neither loses digits where it is small.
    positive = expit(odds) @ share
    negative = expit(-odds) @ share
    return np.asarray(
        np.log(np.maximum(positive, TINY)) - np.log(np.maximum(negative, TINY))
    )


def normal_averaged_odds(odds: Array, variance: Array) -> Array:
    """Return the log-odds of the mean probability for normal log-odds, by quadrature.

    The mean and the variance are arrays of one shape.
    """
    std = np.sqrt(variance)[..., None]
    return log_odds_of_mean(odds[..., None] + std * NORMAL_NODES, NORMAL_SHARES)


def leave_one_out_losses(
    odds: Array,
    variance: Array,
    y: Array,
    weights: Array,
) -> Array:
    """Return approximate log losses of labels predicted from all other rows.

    The row is taken out of the normal approximation at the mode; mean, covariance and
    modes are not computed again. Of a row of weight k, one of k copies is taken out.

    Parameters
    ----------
    odds, variance, y, weights : ndarray of one shape
        Log-odds at the mode, their posterior variance, labels 0 and 1, and positive
        weights.
    """
    p = expit(odds)
    share = np.minimum(weights, 1.0)
    curvature = share * p * (1.0 - p)
    remaining = 1.0 - np.minimum(variance * curvature, _LARGEST_SHARE)
    cavity_variance = variance / remaining
    cavity_odds = odds - cavity_variance * share * (y - p)
    averaged = averaged_odds(cavity_odds, cavity_variance)
    return -log_probability(averaged, y)
