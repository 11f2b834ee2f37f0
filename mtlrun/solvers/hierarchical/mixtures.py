"""Priors of task coefficients that are not normal: Student's t, and clusters of tasks.

Student's t, for outlier tasks
    w_t ~ N(mu, s Sigma) with s from an inverse gamma distribution. It is taken at
    quantiles of equal weight, so that the integral over the scale of a task is a sum.
Clusters
    w_t ~ sum_k pi_k N(mu_k, Sigma), fitted by EM from k-means of the coefficients of
    the normal model. BIC chooses their number.

Both maximize the plain likelihood, the mean included; a ridge prior of the mean keeps
the strength of the normal fit. Parameters are measured in units of the normal fit, and
the starts of k-means do not depend on the order of the tasks, so that neither the units
of the targets nor the names of the tasks change anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import invgamma
from sklearn.cluster import KMeans

from mtlrun.solvers.hierarchical.compress import Block, Compressed
from mtlrun.solvers.hierarchical.covariance import GroupedVariances
from mtlrun.solvers.hierarchical.fit import ROWS_PER_MEAN, Result
from mtlrun.solvers.hierarchical.marginal import inverse_by_halves, whitened
from mtlrun.solvers.hierarchical.posterior import Posterior

Array = np.ndarray[Any, np.dtype[Any]]

#: Degrees of freedom to try, in addition to infinity.
DEGREES = (10.0, 4.0, 2.0)
#: Scales per distribution.
SCALES = 9
#: Slope of the criterion at which the fit of a distribution ends, in units in which its
#: curvature is about 2.
GRADIENT = 1e-3
#: Largest number of parameters whose inverse Hessian is kept.
MOST_DENSE = 500
#: The fit of a distribution counts as converged below this predicted reduction of the
#: criterion.
STUDENT_GAIN = 1e-5
#: Searches for it, each of which ends at a smaller slope than the one before.
SEARCHES = 3
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
# The largest logarithm of a variance.
_FAR = 300.0
# A ridge of the means of clusters towards the common mean, as a share of the
# information of one task.
_RIDGE = 1e-3


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture.

    Attributes
    ----------
    posterior : Posterior
    criterion : float
        Minus twice the logarithm of the likelihood, not restricted.
    task_weights : ndarray of shape (T,)
        Student: the mean of 1 / s given the rows of a task, small for an outlier. Ones
        for clusters.
    labels : ndarray of int, shape (T,)
        The most likely cluster of each task; zeros for Student.
    degrees : float
        Of freedom; infinite for clusters and where tasks are normal.
    path : list of float
        The criterion along the iterations.
    predicted_reduction : float
        Student: by how much a further step would lower the criterion, as the inverse
        Hessian says. Clusters: by how much the last step of EM lowered it, which the
        next one will not exceed.
    converged : bool
        Whether `predicted_reduction` is below `STUDENT_GAIN`, or `FALL` for clusters.
    n_evaluations : int
        Of the criterion, in all searches and for all numbers of clusters or degrees.
    """

    posterior: Posterior
    criterion: float
    task_weights: Array
    labels: Array
    degrees: float
    path: list[float]
    predicted_reduction: float
    converged: bool
    n_evaluations: int


# ---------------------------------------------------------------------- Student


def student(result: Result) -> Mixture:
    """Fit Student's t priors, and return the one whose degrees of freedom fit best.

    Parameters
    ----------
    result : Result
        A normal fit of the same covariance structure, from which the fits start.
    """
    bases = _bases(result)
    degrees = np.inf
    best = _Scales(result, np.ones(1), bases)
    inverse = best.solve()
    n_evaluations = best.n_evaluations
    # From thin tails to heavy ones, until they fit worse.
    for nu in DEGREES:
        heavier = _Scales(result, _quantiles(nu), bases, best.x)
        inverse = heavier.solve(inverse)
        n_evaluations += heavier.n_evaluations
        if heavier.criterion >= best.criterion:
            break
        degrees = nu
        best = heavier
    weights = best.responsibility @ (1.0 / best.scales)
    return Mixture(
        posterior=best.posterior(),
        criterion=best.criterion,
        task_weights=weights,
        labels=np.zeros(len(weights), dtype=int),
        degrees=degrees,
        path=best.path,
        predicted_reduction=best.predicted_reduction,
        converged=best.predicted_reduction < STUDENT_GAIN,
        n_evaluations=n_evaluations,
    )


def _quantiles(nu: float) -> Array:
    """Return scales of equal weight whose mixture of normals is a t of nu degrees."""
    probabilities = (np.arange(SCALES) + 0.5) / SCALES
    return np.asarray(invgamma(nu / 2, scale=nu / 2).ppf(probabilities))


class _Scales:
    """A mixture of normals over some scales of equal weight.

    The criterion is a function of x: the mean mu, log(s2) and the parameters of the
    covariance structure, in units of the normal fit.
    """

    def __init__(
        self,
        result: Result,
        scales: Array,
        bases: list[_Basis] | None,
        x: Array | None = None,
    ) -> None:
        self.result = result
        self.m = result.m
        self.scales = scales
        self.bases = bases
        v = result.fit.value
        # Without a ridge prior of the mean (kappa), only its directions that the rows
        # determine are parameters.
        if v.kappa is None:
            self.frame = v.basis
            self.kappa = None
            inverse = v.inverse
        else:
            self.frame = np.eye(len(v.mu))
            self.kappa = max(v.kappa, 1e-6 * result.m.middle)
            inverse = v.basis @ v.inverse @ v.basis.T
        self.cut = self.frame.shape[1]
        # The mean in standard errors of the normal fit, and s2 in units of its noise.
        self.s2 = v.s2
        variances = np.maximum(np.diag(inverse), 1e-12) * v.s2
        self.unit = np.sqrt(variances)
        coordinates, *_ = np.linalg.lstsq(self.frame, v.mu, rcond=None)
        mean = coordinates / self.unit
        if x is None:
            self.x = np.concatenate([mean, [0.0], result.fit.x])
        else:
            self.x = x
        self.criterion = np.inf
        self.predicted_reduction = np.inf
        self.path: list[float] = []
        self.n_evaluations = 0

    def solve(self, inverse: Array | None = None) -> Array | None:
        """Minimize the criterion by BFGS, or by L-BFGS if there are many parameters.

        Parameters
        ----------
        inverse : ndarray of shape (n_parameters, n_parameters), optional
            Inverse Hessian of another distribution, to start from.

        Returns
        -------
        ndarray of shape (n_parameters, n_parameters) or None
            Inverse Hessian at the end; None for L-BFGS, or if it is not positive
            definite.
        """
        units = np.ones(len(self.x))
        # Of log(s2), whose curvature all rows add up to.
        n_rows = self.m.data.n.sum()
        units[self.cut] = np.sqrt(2.0 / n_rows)

        def scaled(z: Array) -> tuple[float, Array]:
            value, slope = self(z * units)
            self.n_evaluations += 1
            if not self.path or value < self.path[-1]:
                self.path.append(value)
            return value, slope * units

        z = self.x / units
        for number in range(SEARCHES):
            gradient = GRADIENT * 0.1**number
            z, inverse = self._search(scaled, z, inverse, gradient)
            if self.predicted_reduction < STUDENT_GAIN:
                break
        self.x = z * units
        self.criterion, _ = self(self.x)
        self.path.append(self.criterion)
        return inverse

    def _search(
        self,
        criterion: Callable[[Array], tuple[float, Array]],
        z: Array,
        inverse: Array | None,
        gradient: float,
    ) -> tuple[Array, Array | None]:
        """Search for the minimum; return its end and the inverse Hessian there."""
        if len(z) > MOST_DENSE:
            options: dict[str, Any] = {
                "maxiter": 500,
                "ftol": 0.0,
                "gtol": gradient,
            }
            run = minimize(
                criterion,
                z,
                jac=True,
                method="L-BFGS-B",
                options=options,
            )
            newton_step = run.hess_inv.matvec(run.jac)
            self.predicted_reduction = 0.5 * float(run.jac @ newton_step)
            return run.x, None
        start = inverse
        if start is None:
            # The units are such that the curvature is about 2.
            start = 0.5 * np.eye(len(z))
        options = {"maxiter": 200, "gtol": gradient, "hess_inv0": start}
        run = minimize(
            criterion,
            z,
            jac=True,
            method="BFGS",
            options=options,
        )
        # Half of g' H^-1 g, the reduction by Newton's step.
        reduction = float(run.jac @ run.hess_inv @ run.jac)
        self.predicted_reduction = 0.5 * reduction
        return run.x, _positive(run.hess_inv)

    def _unpacked(self, x: Array) -> tuple[Array, float, Array]:
        """Return the mean, the variance of the noise and the structure's parameters."""
        coordinates = x[: self.cut] * self.unit
        mu = self.frame @ coordinates
        # A step of the search can be far too long.
        log_ratio = np.clip(x[self.cut], -_FAR, _FAR)
        s2 = self.s2 * float(np.exp(log_ratio))
        return mu, s2, x[self.cut + 1 :]

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Return the criterion and its gradient."""
        data = self.m.data
        m = self.m
        K = len(self.scales)
        mu, s2, roots = self._unpacked(x)
        Theta = self.result.structure.theta(roots)
        total = 0.0
        g_mu = np.zeros(data.p)
        g_s2 = 0.0
        # The gradient in Theta, or in the variances of the groups of columns.
        G: Array
        if self.bases is None:
            G = np.zeros((len(m.random), len(m.random)))
        else:
            G = np.zeros(len(roots))
        self.responsibility = np.empty((data.T, K))
        for number, block in enumerate(data.blocks):
            part: _Spectrum | _Corrected
            if self.bases is None:
                part = _Spectrum(block, m.random, Theta, mu, self.scales)
            else:
                part = _Corrected(self.bases[number], np.square(roots), mu, self.scales)
            n = data.n[block.tasks][:, None]
            rest = data.rest[block.tasks]
            quadratic = part.quadratic + rest[:, None]
            deviance = n * np.log(2 * np.pi * s2) + part.logdet + quadratic / s2
            log_density = -0.5 * deviance - np.log(K)
            value = _log_of_sums(log_density)
            # Probabilities of the scales given the rows of a task.
            r = np.exp(log_density - value[:, None])
            self.responsibility[block.tasks] = r
            total -= 2 * float(value.sum())
            g_mu -= 2 * part.sensitivity(r) / s2
            g_s2 += float((n * r - r * quadratic / s2).sum())
            G += part.gradient(r, s2)
        if self.kappa is not None:
            # The ridge prior of the mean: N(0, s2 kappa) for each shrunken coefficient.
            shrunk = m.shrunk
            prior_variance = s2 * self.kappa
            size = float(np.square(mu[shrunk]).sum()) / prior_variance
            total += size + len(shrunk) * np.log(prior_variance)
            g_mu[shrunk] += 2 * mu[shrunk] / prior_variance
            g_s2 += len(shrunk) - size
        if self.bases is not None:
            slope = 2 * roots * G
        else:
            if Theta.ndim == 1:
                G = np.diag(G)
            slope = self.result.structure.gradient(roots, G)
        mean_slope = (self.frame.T @ g_mu) * self.unit
        return total, np.concatenate([mean_slope, [g_s2], slope])

    def posterior(self) -> Posterior:
        """Return means and covariances of the coefficients at the last point."""
        data = self.m.data
        m = self.m
        mu, s2, roots = self._unpacked(self.x)
        Theta = np.zeros((data.p, data.p))
        random_part = self.result.structure.theta(roots)
        if random_part.ndim == 1:
            random_part = np.diag(random_part)
        Theta[np.ix_(m.random, m.random)] = random_part
        components = [_Component(data, mu, s, Theta, s2) for s in self.scales]
        prior = 0.0
        if self.kappa is not None:
            prior = 1.0 / self.kappa
        common = (self.frame, m.shrunk, prior)
        return _mixed(data, components, self.responsibility, s2, common)


def _positive(matrix: Array) -> Array | None:
    """Return the symmetric part of a matrix, or None if it is not positive definite."""
    symmetric = np.asarray((matrix + matrix.T) / 2)
    if not np.isfinite(symmetric).all():
        return None
    values = np.linalg.eigvalsh(symmetric)
    # An eigenvalue that is rounding has no sign.
    if values[0] > 1e-12 * values[-1]:
        return symmetric
    return None


class _Spectrum:
    """Tasks of a block in the eigenbasis of R Theta R'.

    There, V_s = I + s R Theta R' is diagonal for each scale s.

    Attributes
    ----------
    quadratic, logdet : ndarray of shape (m, K)
        residual' V_s^-1 residual and log|V_s|.
    """

    def __init__(
        self,
        block: Block,
        random: Array,
        Theta: Array,
        mu: Array,
        scales: Array,
    ) -> None:
        RJ = block.R[:, :, random]
        if Theta.ndim == 1:
            product = RJ * Theta
        else:
            product = RJ @ Theta
        values, U = np.linalg.eigh(product @ RJ.transpose(0, 2, 1))
        # Rounding can make eigenvalues near zero negative.
        values = np.maximum(values, 0.0)
        self.scales = scales
        self.random = random
        self.R = U.transpose(0, 2, 1) @ block.R
        residual = block.z - block.R @ mu
        self.e = np.matmul(residual[:, None, :], U)[:, 0]
        # The diagonals of V_s and V_s^-1, of shape (m or 1, K, k).
        V = 1.0 + scales[:, None] * values[:, None, :]
        self.shrink = 1.0 / V
        squares = np.square(self.e)[:, None, :]
        self.quadratic = (squares * self.shrink).sum(axis=2)
        logdet = -np.log(self.shrink).sum(axis=2)
        self.logdet = np.broadcast_to(logdet, self.quadratic.shape)

    def sensitivity(self, r: Array) -> Array:
        """Return the sum over tasks and scales of r R' V_s^-1 residual, (p,)."""
        shrink = (r[:, :, None] * self.shrink).sum(axis=1)
        solved = self.e * shrink
        by_task = np.matmul(solved[:, None, :], self.R)[:, 0]
        return np.asarray(by_task.sum(axis=0))

    def gradient(self, r: Array, s2: float) -> Array:
        """Return the derivative of the criterion in Theta."""
        n_random = len(self.random)
        weights = r * self.scales
        RJ = self.R[:, :, self.random]
        inner = (weights[:, :, None] * self.shrink).sum(axis=1)
        if len(RJ) < len(inner):
            # Tasks that share their rows: one product for all of them.
            inner = inner.sum(axis=0, keepdims=True)
        # The derivatives of log|V_s| and of the quadratic form are sums of squares of
        # rows: one product of matrices for each.
        half = (np.sqrt(inner)[:, :, None] * RJ).reshape(-1, n_random)
        roots = np.sqrt(weights)
        solved = roots[:, :, None] * self.shrink * self.e[:, None, :]
        h = np.matmul(solved, RJ).reshape(-1, n_random)
        of_logdet = half.T @ half
        of_quadratic = h.T @ h / s2
        return np.asarray(of_logdet - of_quadratic)


@dataclass(frozen=True)
class _Basis:
    """Tasks of a block in a basis that serves every Theta of `_bases`.

    Attributes
    ----------
    values : ndarray of shape (m or 1, k)
        Eigenvalues of R D R', D the units of the columns whose variance is the same.
    single : ndarray of shape (m or 1, k)
        The single column with another variance, in its unit and in the eigenbasis U;
        zeros if there is none.
    R, z : ndarray of shape (m or 1, k, p), (m, k)
        U' R and U' z.
    groups : tuple of int
        Position of the variance of the many columns, and of the single column.
    """

    values: Array
    single: Array
    R: Array
    z: Array
    groups: tuple[int, int]


def _bases(result: Result) -> list[_Basis] | None:
    """Return bases of all blocks that serve every Theta of a structure.

    Theta must be a diagonal with one variance, or with two of which one belongs to a
    single column. Return None for any other Theta: its eigenvectors depend on its
    parameters.
    """
    structure = result.structure
    random = result.m.random
    if not isinstance(structure, GroupedVariances) or structure.n_parameters > 2:
        return None
    sizes = np.bincount(structure.groups)
    if structure.n_parameters == 2 and sizes.min() > 1:
        return None
    # With one group of columns, no column belongs to group 1.
    single_group = 1
    if structure.n_parameters == 2:
        single_group = int(sizes.argmin())
    is_single = structure.groups == single_group
    units = np.sqrt(structure.unit)
    bases = []
    for block in result.m.data.blocks:
        RJ = block.R[:, :, random] * units
        many = RJ[:, :, ~is_single]
        values, U = np.linalg.eigh(many @ many.transpose(0, 2, 1))
        back = U.transpose(0, 2, 1)
        # The sum is over one column, or over none.
        single = (back @ RJ[:, :, is_single]).sum(axis=2)
        z = np.matmul(block.z[:, None, :], U)[:, 0]
        basis = _Basis(
            values=np.maximum(values, 0.0),
            single=single,
            R=back @ block.R,
            z=z,
            groups=(1 - single_group, single_group),
        )
        bases.append(basis)
    return bases


class _Corrected:
    """Tasks of a block as in `_Spectrum`, but in a basis that does not depend on Theta.

    There, V_s is a diagonal D_s plus s a times the outer product of one vector. The
    formula of Sherman and Morrison solves with it, in sums over k numbers per task and
    scale.
    """

    def __init__(
        self,
        basis: _Basis,
        variances: Array,
        mu: Array,
        scales: Array,
    ) -> None:
        self.basis = basis
        self.scales = scales
        self.n_variances = len(variances)
        many_group, single_group = basis.groups
        single_variance = 0.0
        if single_group < len(variances):
            single_variance = variances[single_group]
        a = scales * single_variance
        # D has shape (m or 1, K, k).
        many_variances = scales * variances[many_group]
        D = 1.0 + many_variances[:, None] * basis.values[:, None, :]
        self.inverse = 1.0 / D
        single = basis.single[:, None, :]
        residual = basis.z - basis.R @ mu
        e = residual[:, None, :] * self.inverse
        self.alpha = (np.square(single) * self.inverse).sum(axis=2)
        # The determinant of V_s is |D_s| times this.
        grown = 1.0 + a * self.alpha
        # The product of the vector with V_s^-1 residual.
        self.along = (single * e).sum(axis=2) / grown
        self.share = a / grown
        correction = (a * self.along)[:, :, None] * (single * self.inverse)
        self.solved = e - correction
        # residual' V^-1 residual = u' V u for u = V^-1 residual: a sum of squares.
        squares = (D * np.square(self.solved)).sum(axis=2)
        self.quadratic = squares + a * np.square(self.along)
        logdet = np.log(D).sum(axis=2) + np.log(grown)
        self.logdet = np.broadcast_to(logdet, self.quadratic.shape)

    def sensitivity(self, r: Array) -> Array:
        """Return the sum over tasks and scales of r R' V_s^-1 residual, (p,)."""
        solved = (r[:, :, None] * self.solved).sum(axis=1)
        by_task = np.matmul(solved[:, None, :], self.basis.R)[:, 0]
        return np.asarray(by_task.sum(axis=0))

    def gradient(self, r: Array, s2: float) -> Array:
        """Return the derivative of the criterion in the variances, (1,) or (2,)."""
        basis = self.basis
        weights = r * self.scales
        values = basis.values[:, None, :]
        solved_single = basis.single[:, None, :] * self.inverse
        # The diagonal of V_s^-1.
        diagonal = self.inverse - self.share[:, :, None] * np.square(solved_single)
        many_trace = (values * diagonal).sum(axis=2)
        many_squares = (values * np.square(self.solved)).sum(axis=2)
        of_many = many_trace - many_squares / s2
        single_trace = self.alpha - self.share * np.square(self.alpha)
        of_single = single_trace - np.square(self.along) / s2
        slopes = np.empty(2)
        many_group, single_group = basis.groups
        slopes[many_group] = float((weights * of_many).sum())
        slopes[single_group] = float((weights * of_single).sum())
        return slopes[: self.n_variances]


# ---------------------------------------------------------------------- clusters


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
        task_weights=np.ones(data.T),
        labels=best.responsibility.argmax(axis=1),
        degrees=np.inf,
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
    runs: list[_EM] = []
    for seed in range(n_starts):
        run = _EM(result, start, K, seed)
        # The same clusters in another order would end at the same criterion.
        if not any(_is_same_partition(run.labels, other.labels) for other in runs):
            runs.append(run)
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
        if v.Theta.ndim == 1:
            theta[self.random] = v.Theta
        else:
            theta[self.random] = np.diag(v.Theta)
        # Several clusters explain some of the differences between tasks; a single one
        # is the normal model.
        share = 1.0
        if K > 1:
            share = 0.5
        self.theta = share * np.maximum(theta, 1e-6 * self.unit)
        self.s2 = v.s2
        self.labels = np.zeros(self.data.T, dtype=int)
        if K > 1:
            self.labels = _starting_labels(start, self.unit, K, seed)
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
        total = _log_of_sums(log_density)
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
        theta, s2 = self.point
        Theta = np.diag(theta)
        components = [_Component(self.data, mu, 1.0, Theta, s2) for mu in self.mu]
        shares = self.pi / self.pi.sum()
        return _mixed(self.data, components, self.responsibility, s2, None, shares)


def _starting_labels(start: Posterior, unit: Array, K: int, seed: int) -> Array:
    """Return clusters of the coefficients of a normal fit, by k-means.

    The tasks are sorted by their distance from the mean first: the random start then
    depends on their coefficients, not on their order or names, nor on the order and
    signs of columns.

    Parameters
    ----------
    start : Posterior
    unit : ndarray of shape (p,)
        Units of the variances; zero for columns whose coefficients do not differ.
    K, seed : int
    """
    variances = np.where(unit > 0, unit * start.s2, np.inf)
    deviations = (start.W - start.mu) / np.sqrt(variances)
    # Differences that are rounding must not decide which task comes first.
    distances = np.round(np.square(deviations).sum(axis=1), 9)
    order = np.argsort(distances, kind="stable")
    points = np.round(deviations[order], 9)
    labels = np.empty(len(order), dtype=int)
    kmeans = KMeans(K, n_init=1, random_state=seed)
    labels[order] = kmeans.fit_predict(points)
    return labels


def _is_same_partition(labels: Array, others: Array) -> bool:
    """Whether two labellings have the same clusters, in whatever order."""
    pairs = set(zip(labels.tolist(), others.tolist(), strict=True))
    return len(pairs) == len(set(labels.tolist())) == len(set(others.tolist()))


# ---------------------------------------------------------------------- both


def _log_of_sums(logs: Array) -> Array:
    """Return log(sum(exp)) of each row.

    SciPy's function takes ten times as long on matrices this small.
    """
    largest = logs.max(axis=1)
    sums = np.exp(logs - largest[:, None]).sum(axis=1)
    return np.asarray(largest + np.log(sums))


class _Component:
    """The posterior of all tasks given that they belong to one component."""

    def __init__(
        self,
        data: Compressed,
        mu: Array,
        scale: float,
        Theta: Array,
        s2: float,
    ) -> None:
        self.mu = mu
        self.Theta = scale * Theta
        self.s2 = s2
        self.W = np.repeat(mu[None], data.T, axis=0)
        self.A = np.empty((data.T, data.p, data.p))
        for block in data.blocks:
            q, v, _ = whitened(block, block.R, self.Theta)
            self.A[block.tasks] = q.transpose(0, 2, 1) @ q
            residual = v - q @ mu
            h = np.matmul(residual[:, None, :], q)[:, 0]
            self.W[block.tasks] += h @ self.Theta

    def covariances(self) -> Array:
        """Return covariances given mu, (T, p, p)."""
        shrunken = self.Theta - self.Theta @ self.A @ self.Theta
        return np.asarray(self.s2 * shrunken)


def _mixed(
    data: Compressed,
    components: list[_Component],
    r: Array,
    s2: float,
    common: tuple[Array, Array, float] | None,
    shares: Array | None = None,
) -> Posterior:
    """Return the moments of a mixture of posteriors.

    Parameters
    ----------
    data : Compressed
    components : list of _Component
    r : ndarray of shape (T, K)
        Probabilities of the components given the rows of a task.
    s2 : float
        Variance of the noise.
    common : (frame, shrunk, prior) or None
        Directions of a mean that all components have in common, its columns with a
        ridge prior and the strength of this prior. None if each component has its own
        mean.
    shares : ndarray of shape (K,), optional
        Prior probabilities of the components; default: all the same.
    """
    if shares is None:
        n_components = len(components)
        shares = np.full(n_components, 1 / n_components)
    means = (r[:, k, None] * part.W for k, part in enumerate(components))
    W = np.asarray(sum(means))
    pairs = list(zip(shares, components, strict=True))
    mu = np.asarray(sum(share * part.mu for share, part in pairs))
    explicit = np.zeros((data.T, data.p, data.p))
    eye = np.eye(data.p)
    mean_covariances = []
    for k, part in enumerate(components):
        mean_covariance = _mean_covariance(components, r, s2, common, k)
        mean_covariances.append(mean_covariance)
        left = eye - part.Theta @ part.A
        deviation = part.W - W
        # Within a component: given mu, from the estimate of mu, and between components.
        within = part.covariances()
        of_mean = left @ mean_covariance @ left.transpose(0, 2, 1)
        between = deviation[:, :, None] * deviation[:, None, :]
        explicit += r[:, k, None, None] * (within + of_mean + between)
    Sigma: Any = 0
    mean: Any = 0
    for (share, part), mean_covariance in zip(pairs, mean_covariances, strict=True):
        deviation = part.mu - mu
        covariance = s2 * part.Theta + np.outer(deviation, deviation)
        Sigma = Sigma + share * covariance
        mean = mean + share * mean_covariance
    return Posterior(W, mu, np.asarray(mean), np.asarray(Sigma), s2, data, explicit)


def _mean_covariance(
    components: list[_Component],
    r: Array,
    s2: float,
    common: tuple[Array, Array, float] | None,
    k: int,
) -> Array:
    """Return the covariance of the mean of component k."""
    if common is None:
        # A cluster of few tasks may not determine all coefficients of its mean.
        M = np.tensordot(r[:, k], components[k].A, 1)
        return np.asarray(s2 * np.linalg.pinv(M, hermitian=True))
    frame, shrunk, prior = common
    terms = (np.tensordot(r[:, j], part.A, 1) for j, part in enumerate(components))
    M = np.asarray(sum(terms))
    M[shrunk, shrunk] += prior
    inverse = np.linalg.inv(frame.T @ M @ frame)
    return np.asarray(s2 * frame @ inverse @ frame.T)
