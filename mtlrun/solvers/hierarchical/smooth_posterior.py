"""Posterior of a smooth hierarchical model: means and standard deviations.

Given the variances, the function of task t at a row x has, in units of s2, with F the
common features of x, k its covariances with the rows of the task, and S_u the
covariance of (u, mu)::

    mean      = mu + F u + k'a_t,                a = P y,  u = S^2 A'a
    variance  = k(x, x) - k'B_t^-1 k + c S_u c',   c = [F 1] - k'B_t^-1 [A 1]

A task without rows has k = 0: the common function, and the variance between tasks. A
new target has s2 more. Averages over several rows, for curves of one column, use the
same formulas with averaged F and k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.solvers.hierarchical.smooth_blocks import (
    MAX_EXACT_ROWS,
    Block,
    BlockList,
    FeatureBlock,
    SmoothData,
)
from mtlrun.solvers.hierarchical.smooth_marginal import SmoothMarginal, SmoothSolution
from mtlrun.solvers.hierarchical.smooth_parts import SmoothRows

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SmoothPosterior:
    """The fitted functions, in units of the targets that the solver saw.

    Attributes
    ----------
    data : SmoothData
        Rows of training.
    theta : ndarray of shape (J + K,)
        Variances in units of s2.
    s2 : float
        Variance of the noise of a row of weight 1.
    mu : float
    u : ndarray of shape (m,)
        Coefficients of the common features.
    a : ndarray of shape (N,)
        P y.
    spread : ndarray of shape (m + 1, m + 1)
        Covariance of (u, mu) in units of s2.
    """

    data: SmoothData
    theta: Array
    s2: float
    mu: float
    u: Array
    a: Array
    spread: Array

    @classmethod
    def fit(
        cls, marginal: SmoothMarginal, solution: SmoothSolution
    ) -> tuple[SmoothPosterior, Array]:
        """Return the posterior, and the diagonal of P for all rows.

        The blocks must be as `solution` left them.
        """
        a, diagonal = marginal.weights_of_rows(solution)
        posterior = cls(
            data=marginal.blocks.data,
            theta=solution.theta,
            s2=solution.s2,
            mu=solution.mu,
            # S^2 A'a, without the cancellation.
            u=-solution.a[: marginal.m],
            a=a,
            spread=marginal.spread(solution),
        )
        return posterior, diagonal

    @property
    def n_common(self) -> int:
        """Number of common parts."""
        return len(self.data.design.common)

    @property
    def own_theta(self) -> Array:
        """Variances of the parts of a task."""
        return self.theta[self.n_common :]

    def task_rows(self, task: int) -> SmoothData:
        """Return the rows of one task, -1 for a task without rows."""
        start, stop = np.searchsorted(self.data.codes, [task, task + 1])
        return self.data.take(np.arange(start, stop))

    def mean(self, rows: SmoothRows, task: int) -> Array:
        """Return the posterior mean of the function of a task, (n,)."""
        design = self.data.design
        mean = self.mu + design.common_features(rows) @ self.u
        start, stop = np.searchsorted(self.data.codes, [task, task + 1])
        if start == stop or not len(design.own):
            return np.asarray(mean)
        own = self.task_rows(task)
        a = self.a[start:stop]
        if len(a) > MAX_EXACT_ROWS:
            features, groups = design.own_features(own.rows, own.rows)
            coefficients = self.own_theta[groups] * (features.T @ a)
            new_features = design.own_features(rows, own.rows)[0]
            return np.asarray(mean + new_features @ coefficients)
        kernel = np.tensordot(self.own_theta, design.own_kernels(rows, own.rows), 1)
        return np.asarray(mean + kernel @ a)

    def moments(
        self,
        rows: SmoothRows,
        task: int,
        *,
        n_averaged: int = 1,
        is_common: bool = False,
    ) -> tuple[Array, Array]:
        """Return mean and variance of the function of a task, without noise.

        Parameters
        ----------
        rows : SmoothRows of n * n_averaged rows
        task : int
            -1 for a task without rows.
        n_averaged : int
            Consecutive rows whose function values are averaged.
        is_common : bool
            Whether to return the common function, without the parts of a task.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
        """
        design = self.data.design

        def average(values: Array) -> Array:
            n = len(values) // n_averaged
            grouped = values.reshape(n, n_averaged, *values.shape[1:])
            return np.asarray(grouped.mean(axis=1))

        features = average(design.common_features(rows))
        mean = self.mu + features @ self.u
        contrast = np.hstack([features, np.ones((len(features), 1))])
        variance = self._missed_variance(rows, n_averaged)
        if not is_common:
            variance += self._own_variance(rows, n_averaged)
        own = self.task_rows(task)
        if len(own.codes) and len(design.own) and not is_common:
            block = make_block(own)
            block.factorize(self.own_theta)
            positions = np.searchsorted(self.data.codes, task) + block.positions
            a = self.a[positions]
            if isinstance(block, FeatureBlock):
                q = block.features.shape[1]
                own_features, groups = design.own_features(rows, own.rows)
                left = average(own_features) * self.own_theta[groups]
                mean = mean + left @ (block.features.T @ a)
                variance -= ((left @ block.solved_gram[:q, :q]) * left).sum(axis=1)
                contrast -= left @ block.solved_gram[:q, q:-1]
            else:
                kernels = design.own_kernels(rows, own.rows)
                left = average(np.tensordot(self.own_theta, kernels, 1))
                left = left[:, block.positions]
                inside = block.is_row[0]
                mean = mean + left @ a
                inverse = block.inverse[0][np.ix_(inside, inside)]
                variance -= ((left @ inverse) * left).sum(axis=1)
                contrast -= left @ block.solved[0, inside, :-1]
        variance += ((contrast @ self.spread) * contrast).sum(axis=1)
        return mean, np.maximum(variance, 0.0) * self.s2

    def _missed_variance(self, rows: SmoothRows, n_averaged: int) -> Array:
        """Return the prior variance of averages that the common features miss."""
        n = len(rows) // n_averaged
        variance = np.zeros(n)
        for theta, part in zip(self.theta, self.data.design.common, strict=False):
            missed = part.unseen_variance(rows).reshape(n, n_averaged)
            variance += theta * missed.mean(axis=1)
        return variance

    def _own_variance(self, rows: SmoothRows, n_averaged: int) -> Array:
        """Return the prior variance of averages of the parts of a task."""
        design = self.data.design
        n = len(rows) // n_averaged
        if not len(design.own):
            return np.zeros(n)
        if n_averaged == 1:
            return np.asarray(self.own_theta @ design.own_diagonals(rows))
        grouped = SmoothRows(
            rows.z.reshape(n, n_averaged, -1), rows.levels.reshape(n, n_averaged, -1)
        )
        kernels = design.own_kernels(grouped, grouped).mean(axis=(2, 3))
        return np.asarray(self.own_theta @ kernels)

    def part_variances(self) -> Array:
        """Return the expected variance of every part over the rows of training.

        For part i this is s2 theta_i (mean K(x, x) - mean K(x, x')) over rows x, x'.
        """
        design = self.data.design
        rows = self.data.rows
        n = len(self.data.codes)
        spread: list[float] = []
        for part in design.common:
            spread.append(float(part.features(rows).var(axis=0).sum()))
        if len(design.own):
            own = design.own_diagonals(rows).mean(axis=1)
            ones = np.ones(n)
            for block in BlockList(self.data):
                part_ones = ones[block.positions]
                own -= block.own_bilinear(part_ones, part_ones) / n**2
            spread.extend(np.maximum(own, 0.0))
        return np.asarray(self.s2 * self.theta * np.array(spread))


def make_block(own: SmoothData) -> Block:
    """Return the block of one task."""
    return next(iter(BlockList(own)))
