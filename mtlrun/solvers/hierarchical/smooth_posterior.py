"""Posterior of a smooth hierarchical model: means and standard deviations.

Given the variances, the function of task t at a row x has, in units of s2, with F the
common features of x, k its covariances with the rows of the task, and S_u the
covariance of (u, mu)::

    mean      = mu + F u + k'a_t,                a = P y,  u = S^2 A'a
    variance  = k(x, x) - k'B_t^-1 k + c S_u c',   c = [F 1] - k'B_t^-1 [A 1]

A task without rows has k = 0: the common function, and the variance between tasks. A
new target has s2 more. Averages over several rows, for curves of one column, use the
same formulas with averaged F and k.

The variances are estimates, rough ones where there are few tasks. So a new target with
the variance v is given a t distribution with Satterthwaite's degrees of freedom,
2 / Var(log v), by the delta method; C is the covariance of the estimates::

    Var(log v) = 2 / nu + g'C g,   g_i = -q_i / nu + (dv / dtheta_i) / v

The derivative of v for own part k with w = B_t^-1 k is k_k(x, x) - 2 k_k'w + w'K_k w,
since predictions minimize v; common parts are taken as known.

The weights w depend on the estimates, too, which adds the variance of Kackar and
Harville, with C_kl the covariance of the estimates of own parts::

    sum over k, l of C_kl r_k'B_t^-1 r_l,   r_k = k_k - K_k w

It is at most k'w, by which the rows of the task lower the variance.

An estimate of zero has no standard error, but small tables often have a variance of
zero where the true one is not. The expected squared error of a prediction with fixed
weights is linear in the variances, with the derivatives above. So v is raised by them
times the posterior means of the variances that are zero. With g and h the first and
expected second derivative of D at zero, the standard deviation s = sqrt(theta_k) of
such a part has about the density exp(-(g s^2 + h s^4 / 2) / 2 - rate s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mtlrun.solvers.hierarchical.smooth_blocks import (
    MAX_EXACT_ROWS,
    Block,
    BlockList,
    FeatureBlock,
    SmoothData,
)
from mtlrun.solvers.hierarchical.smooth_fit import VarianceFit
from mtlrun.solvers.hierarchical.smooth_marginal import (
    SmoothMarginal,
    SmoothSolution,
    SmoothValue,
)
from mtlrun.solvers.hierarchical.smooth_parts import SmoothDesign, SmoothRows

Array = np.ndarray

#: A t distribution of fewer degrees of freedom has a variance that says little.
MIN_DEGREES = 4.0
#: Eigenvalues of scaled second derivatives below this do not identify a variance.
MIN_CURVATURE = 1e-8
#: Minus the logarithm of a density that is taken for zero.
NEGLIGIBLE = 40.0
#: Points of a numerical integral.
N_POINTS = 1000


@dataclass(frozen=True)
class VarianceUncertainty:
    """How well the variances are known.

    Attributes
    ----------
    covariance : ndarray of shape (J + K, J + K)
        Of the estimates of theta; zero for parts without variance.
    noise_gradient : ndarray of shape (J + K,)
        Derivative of log s2 in theta; zero for common parts without variance, whose
        covariance is zero.
    nu : int
        Degrees of freedom of s2.
    missed : ndarray of shape (K,)
        Posterior means of the theta of own parts whose estimate is zero; zero for the
        others.
    """

    covariance: Array
    noise_gradient: Array
    nu: int
    missed: Array

    @classmethod
    def fit(
        cls,
        marginal: SmoothMarginal,
        estimates: VarianceFit,
        rate: Array,
    ) -> VarianceUncertainty:
        """Return it from the expected second derivatives at the estimates.

        Parameters
        ----------
        marginal : SmoothMarginal
            The criterion of the estimates.
        estimates : VarianceFit
        rate : ndarray of shape (J + K,)
            Rates of the exponential priors of the standard deviations of the parts.
        """
        n_parts = len(estimates.theta)
        is_own = np.arange(n_parts) >= marginal.n_common
        solution = marginal.solve(estimates.theta, needs_gradient=is_own)
        value: SmoothValue = marginal.differentiate(solution)
        is_missed = is_own & (value.theta == 0) & estimates.is_identified
        parts = np.flatnonzero((value.theta > 0) | is_missed)
        second = np.zeros((n_parts, n_parts))
        if len(parts):
            expected, _ = marginal.curvature(value, parts)
            second[np.ix_(parts, parts)] = expected
        missed = np.zeros(marginal.n_own)
        for part in np.flatnonzero(is_missed):
            missed[part - marginal.n_common] = mean_at_zero(
                slope=float(value.gradient[part]),
                curvature=float(second[part, part]),
                rate=float(rate[part]),
                # No part has more variance than the targets, whose variance is 1.
                limit=1 / value.s2,
            )
        covariance = np.zeros((n_parts, n_parts))
        free = np.flatnonzero(value.theta > 0)
        if len(free):
            selection = np.ix_(free, free)
            expected = second[selection]
            # Where the rows say nothing, the standard error is a thousand times theta.
            least = np.square(1e-3 / value.theta[free])
            curvatures = np.maximum(np.diag(expected), least)
            scale = 1 / np.sqrt(curvatures)
            scaled = expected * np.outer(scale, scale)
            eigenvalues, vectors = np.linalg.eigh(scaled)
            size = np.sqrt(np.maximum(eigenvalues, MIN_CURVATURE))
            root = scale[:, None] * vectors / size
            # D is minus twice the log-likelihood.
            covariance[selection] = 2 * root @ root.T
        noise_gradient = -value.squares / marginal.nu
        return cls(covariance, noise_gradient, marginal.nu, missed)


def mean_at_zero(
    slope: float,
    curvature: float,
    rate: float,
    limit: float,
) -> float:
    """Return the posterior mean of a variance whose estimate is zero.

    Parameters
    ----------
    slope, curvature : float
        First and expected second derivative of D at zero.
    rate : float
        Rate of the exponential prior of the standard deviation.
    limit : float
        Largest possible variance.
    """
    curve = max(curvature, 0.0)
    root = np.hypot(slope, np.sqrt(4 * NEGLIGIBLE * curve))
    # Where (g s^2 + h s^4 / 2) / 2 is NEGLIGIBLE.
    divisor = max(root + slope, 1e-300)
    end = min(4 * NEGLIGIBLE / divisor, limit)
    if slope >= 0 and rate > 0:
        end = min(end, (NEGLIGIBLE / rate) ** 2)
    std = np.linspace(0.0, np.sqrt(end), N_POINTS)
    variance = np.square(std)
    # Half of D, to second order, and the prior.
    mean_slope = slope + 0.5 * curvature * variance
    exponent = 0.5 * mean_slope * variance + rate * std
    density = np.exp(exponent.min() - exponent)
    # The trapezoidal rule.
    density[[0, -1]] *= 0.5
    return float(density @ variance / density.sum())


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
    uncertainty : VarianceUncertainty or None
        None for a model of labels.
    """

    data: SmoothData
    theta: Array
    s2: float
    mu: float
    u: Array
    a: Array
    spread: Array
    uncertainty: VarianceUncertainty | None = None

    @classmethod
    def fit(
        cls,
        data: SmoothData,
        theta: Array,
        marginal: SmoothMarginal,
        solution: SmoothSolution,
        uncertainty: VarianceUncertainty | None = None,
    ) -> tuple[SmoothPosterior, Array]:
        """Return the posterior, and the diagonal of P for all rows.

        Parameters
        ----------
        data : SmoothData
            Rows of training, with the design of all parts.
        theta : ndarray of shape (J + K,)
            Variances of all parts in units of s2.
        marginal : SmoothMarginal
            The criterion of the parts that have a variance, as `solution` left it.
        solution : SmoothSolution
            It uses all features of these parts.
        uncertainty : VarianceUncertainty, optional
        """
        a, diagonal = marginal.weights_of_rows(solution)
        groups = data.design.groups
        m = len(groups)
        columns = np.flatnonzero(theta[groups] > 0)
        u = np.zeros(m)
        # S^2 A'a, without the cancellation.
        u[columns] = -solution.a[: solution.m]
        spread = np.zeros((m + 1, m + 1))
        columns = np.append(columns, m)
        spread[np.ix_(columns, columns)] = marginal.spread(solution)
        posterior = cls(
            data=data,
            theta=theta,
            s2=solution.s2,
            mu=solution.mu,
            u=u,
            a=a,
            spread=spread,
            uncertainty=uncertainty,
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
        rows = self._slice_of(task)
        return self.data.take(np.arange(rows.start, rows.stop))

    def _slice_of(self, task: int) -> slice:
        """Return where the rows of a task are; empty for a task without rows."""
        # The codes of the rows are in ascending order.
        start, stop = np.searchsorted(self.data.codes, [task, task + 1])
        return slice(int(start), int(stop))

    @property
    def active_design(self) -> SmoothDesign:
        """The parts that have a variance; the functions are made of them alone."""
        return self.data.design.select(self.theta > 0)

    @property
    def active_columns(self) -> Array:
        """Positions of the common features of the active design."""
        theta = self.theta[self.data.design.groups]
        return np.flatnonzero(theta > 0)

    @property
    def active_own_theta(self) -> Array:
        """Variances of the parts of a task in the active design."""
        return self.own_theta[self.own_theta > 0]

    def mean(self, rows: SmoothRows, task: int) -> Array:
        """Return the posterior mean of the function of a task, (n,)."""
        return self.common_mean(rows) + self.own_mean(rows, task)

    def common_mean(self, rows: SmoothRows) -> Array:
        """Return the posterior mean of the common function, (n,)."""
        features = self.active_design.common_features(rows)
        coefficients = self.u[self.active_columns]
        return np.asarray(self.mu + features @ coefficients)

    def own_mean(self, rows: SmoothRows, task: int) -> Array:
        """Return by how much the function of a task exceeds the common one, (n,)."""
        task_slice = self._slice_of(task)
        a = self.a[task_slice]
        design = self.active_design
        if not len(a) or not len(design.own):
            return np.zeros(len(rows))
        theta = self.active_own_theta
        task_rows = self.data.rows.take(task_slice)
        # The mean is K a for the kernel between new rows and rows of training.
        if len(a) > MAX_EXACT_ROWS:
            features, groups = design.own_features(task_rows, task_rows)
            coefficients = theta[groups] * (features.T @ a)
            new_features, _ = design.own_features(rows, task_rows)
            return np.asarray(new_features @ coefficients)
        kernels = design.own_kernels(rows, task_rows)
        kernel = np.tensordot(theta, kernels, 1)
        return np.asarray(kernel @ a)

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
        design = self.active_design
        own_theta = self.active_own_theta
        columns = self.active_columns

        def average(values: Array) -> Array:
            n = len(values) // n_averaged
            grouped = values.reshape(n, n_averaged, *values.shape[1:])
            return np.asarray(grouped.mean(axis=1))

        features = average(design.common_features(rows))
        mean = self.mu + features @ self.u[columns]
        ones = np.ones((len(features), 1))
        # How the prediction depends on u and mu, given the residuals of the task.
        contrast = np.hstack([features, ones])
        # The prior variance that the common features miss.
        variance = np.zeros(len(features))
        for theta, part in zip(self.theta, self.data.design.common, strict=False):
            variance += theta * average(part.unseen_variance(rows))
        if not is_common and len(self.data.design.own):
            # The prior variance of averages of the parts of a task
            own_parts = self.data.design
            if n_averaged == 1:
                own_variances = own_parts.own_diagonals(rows)
            else:
                # The variance of an average is the mean of the covariances of all
                # pairs.
                n = len(features)
                grouped = SmoothRows(
                    z=rows.z.reshape(n, n_averaged, -1),
                    levels=rows.levels.reshape(n, n_averaged, -1),
                )
                kernels = own_parts.own_kernels(grouped, grouped)
                own_variances = kernels.mean(axis=(2, 3))
            variance += self.own_theta @ own_variances
        task_data = replace(self.task_rows(task), design=design)
        if len(task_data.codes) and len(design.own) and not is_common:
            block = make_block(task_data)
            block.factorize(own_theta)
            positions = np.searchsorted(self.data.codes, task) + block.positions
            a = self.a[positions]
            if isinstance(block, FeatureBlock):
                q = block.features.shape[1]
                own_features, groups = design.own_features(rows, task_data.rows)
                left = average(own_features) * own_theta[groups]
                mean = mean + left @ (block.features.T @ a)
                inside_gram = block.solved_gram[:q, :q]
                variance -= _quadratic_forms(left, inside_gram)
                contrast -= left @ block.solved_gram[:q, q:-1]
            else:
                kernels = design.own_kernels(rows, task_data.rows)
                left = average(np.tensordot(own_theta, kernels, 1))
                left = left[:, block.positions]
                inside = block.is_row[0]
                mean = mean + left @ a
                inverse = block.inverse[0][np.ix_(inside, inside)]
                variance -= _quadratic_forms(left, inverse)
                contrast -= left @ block.solved[0, inside, :-1]
        # The last row and column of `spread` belong to mu.
        columns = np.append(columns, len(self.u))
        spread = self.spread[np.ix_(columns, columns)]
        variance += _quadratic_forms(contrast, spread)
        return mean, np.maximum(variance, 0.0) * self.s2

    def target_variance(self, rows: SmoothRows, task: int) -> tuple[Array, Array]:
        """Return mean and variance of new targets of a task, of weight 1, (n,).

        The new target has a t distribution, whose degrees of freedom say how well the
        variances are known. The variance is raised for weights that depend on the
        estimates, and for parts of a task whose variance was estimated as zero.
        """
        mean, variance = self.moments(rows, task)
        variance = variance + self.s2
        estimates = self.uncertainty
        if estimates is None:
            return mean, variance
        own = slice(self.n_common, None)
        own_covariance = estimates.covariance[own, own]
        slopes, excess = self.own_slopes(rows, task, own_covariance)
        added = slopes @ estimates.missed + excess
        variance = variance + self.s2 * added
        # The gradient of the logarithm of the variance in theta, by the delta method.
        gradient = np.tile(estimates.noise_gradient, (len(rows), 1))
        noise_share = self.s2 / variance
        gradient[:, own] += slopes * noise_share[:, None]
        log_variance = _quadratic_forms(gradient, estimates.covariance)
        # Degrees of freedom of a chi-square whose logarithm has about this variance.
        degrees = np.maximum(2 / (log_variance + 2 / estimates.nu), MIN_DEGREES)
        return mean, variance * degrees / (degrees - 2)

    def own_slopes(
        self,
        rows: SmoothRows,
        task: int,
        covariance: Array,
    ) -> tuple[Array, Array]:
        """Return how errors depend on the theta of own parts, in units of s2.

        Parameters
        ----------
        rows : SmoothRows of n rows
        task : int
            -1 for a task without rows.
        covariance : ndarray of shape (K, K)
            Of the estimated theta of own parts.

        Returns
        -------
        slopes : ndarray of shape (n, K)
            Derivatives of variances in theta.
        excess : ndarray of shape (n,)
            Variance of predictions due to estimated weights.
        """
        design = self.data.design
        excess = np.zeros(len(rows))
        if not len(design.own):
            return np.zeros((len(rows), 0)), excess
        slopes = design.own_diagonals(rows).T
        # The common parts are taken as known.
        own_design = SmoothDesign((), design.own)
        task_data = replace(self.task_rows(task), design=own_design)
        if not len(task_data.codes):
            return slopes, excess
        block = make_block(task_data)
        if isinstance(block, FeatureBlock):
            # So many rows say what the functions of the task are.
            return np.zeros(slopes.shape), excess
        block.factorize(self.own_theta)
        inside = np.flatnonzero(block.is_row[0])
        selection = np.ix_(inside, inside)
        task_rows = task_data.rows.take(block.positions)
        kernels = design.own_kernels(rows, task_rows)
        inverse = block.inverse[0][selection]
        k_total = np.tensordot(self.own_theta, kernels, 1)
        # The weights of the rows of the task in the predictions.
        w = k_total @ inverse
        residuals = np.empty(kernels.shape)
        for k, kernel in enumerate(kernels):
            image = w @ block.kernels[k, 0][selection]
            # The derivative of K(x, x) - k' B^-1 k for one part.
            slopes[:, k] += ((image - 2 * kernel) * w).sum(axis=1)
            residuals[k] = kernel - image
        mixed = np.tensordot(covariance, residuals, 1)
        solved = residuals @ inverse
        excess = (mixed * solved).sum(axis=(0, 2))
        # Where the estimates are rough the approximation is, too: at most the rows of
        # the task say nothing.
        explained = (w * k_total).sum(axis=1)
        excess = np.clip(excess, 0.0, np.maximum(explained, 0.0))
        return np.maximum(slopes, 0.0), excess

    def part_variances(self, blocks: BlockList) -> Array:
        """Return the expected variance of each part over the rows of training.

        For part i this is s2 theta_i (mean K(x, x) - mean K(x, x')) over rows x, x'.

        Parameters
        ----------
        blocks : BlockList
            Rows of training, with the parts that have a variance.
        """
        design = blocks.data.design
        n = len(self.data.codes)
        groups = design.groups
        sizes = []
        means = []
        deviations = np.zeros(len(groups))
        own_spread = design.own_diagonals(self.data.rows).mean(axis=1)
        for block in blocks:
            n_rows = len(block.positions)
            ones = np.ones(n_rows)
            sizes.append(n_rows)
            features = block.common_features
            means.append(features.T @ ones / n_rows)
            deviations += n_rows * features.var(axis=0)
            if len(design.own):
                own_spread -= block.own_bilinear(ones, ones) / n**2
        # Within and between the blocks: squares of features lose the digits of a small
        # spread about a large mean.
        shares = np.array(sizes) / n
        centers = np.array(means)
        distances = centers - shares @ centers
        variances = deviations / n + shares @ np.square(distances)
        common_spread = np.bincount(groups, variances, len(design.common))
        spread = np.concatenate([common_spread, own_spread])
        spread = np.maximum(spread, 0.0)
        is_active = self.theta > 0
        part_variances = np.zeros(len(self.theta))
        part_variances[is_active] = self.theta[is_active] * spread
        return np.asarray(self.s2 * part_variances)


def _quadratic_forms(rows: Array, matrix: Array) -> Array:
    """Return x' M x for each row x of (n, k) and a symmetric M, (n,)."""
    return np.asarray(((rows @ matrix) * rows).sum(axis=1))


def make_block(task_data: SmoothData) -> Block:
    """Return the block of one task."""
    return next(iter(BlockList(task_data)))
