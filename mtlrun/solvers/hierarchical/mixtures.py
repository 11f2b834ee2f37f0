"""Priors of the coefficients of tasks that are not normal: Student's t (outlier tasks), and clusters of tasks.

Student    w_t ~ N(mu, s Sigma) with s from an inverse gamma distribution, taken at quantiles of equal weight: the
           integral over the scale of a task is a sum.
Clusters   w_t ~ sum_k pi_k N(mu_k, Sigma), by EM from k-means of the normal model's coefficients; their number by BIC.

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

#: Degrees of freedom to try, in addition to infinity; scales per distribution.
DEGREES = (10.0, 4.0, 2.0)
SCALES = 9
#: Slope of the criterion at which the fit of a distribution ends, in units in which its
#: curvature is about 2; the most parameters whose inverse Hessian is kept.
GRADIENT = 1e-3
MOST_DENSE = 500
#: The predicted fall of the criterion below which the fit of a distribution counts as
#: converged, and the searches, each with a smaller slope at its end, that are made for
#: it.
STUDENT_GAIN = 1e-5
SEARCHES = 3
#: Numbers of clusters that are tried, and tasks that each cluster needs.
CLUSTERS = (2, 3, 4, 6)
TASKS_PER_CLUSTER = 3
#: No larger number is tried after this many numbers in a row do not lower BIC.
WORSE = 2
#: Starts of EM, each of a few steps; the steps of the best of them, and the fall that
#: ends these.
STARTS = 3
SHORT = 10
STEPS = 100
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
    """Return the prior whose degrees of freedom fit best, from a normal fit of the same covariance structure."""
    bases = _bases(result)
    degrees = np.inf
    best = _Scales(result, np.ones(1), bases)
    inverse = best.solve()
    n_evaluations = best.n_evaluations
    for nu in DEGREES:  # from thin tails to heavy ones, until they fit worse
        heavier = _Scales(result, _quantiles(nu), bases, best.x)
        inverse = heavier.solve(inverse)
        n_evaluations += heavier.n_evaluations
        if heavier.criterion >= best.criterion:
            break
        degrees = nu
        best = heavier
    weights = best.responsibility @ (1.0 / best.scales)
    return Mixture(
        best.posterior(),
        best.criterion,
        weights,
        np.zeros(len(weights), dtype=int),
        degrees,
        best.path,
        best.predicted_reduction,
        best.predicted_reduction < STUDENT_GAIN,
        n_evaluations,
    )


def _quantiles(nu: float) -> Array:
    """Return scales of equal weight whose mixture of normals is a t of nu degrees."""
    return np.asarray(
        invgamma(nu / 2, scale=nu / 2).ppf((np.arange(SCALES) + 0.5) / SCALES)
    )


class _Scales:
    """A mixture over given scales with equal weights, as a function of mu, s2 and the parameters of the structure."""

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
        if v.kappa is None:
            self.frame = v.basis
        else:
            self.frame = np.eye(len(v.mu))
        if v.kappa is None:
            self.kappa = None
        else:
            self.kappa = max(v.kappa, 1e-6 * result.m.middle)
        self.cut = self.frame.shape[1]
        # The mean in standard errors of the normal fit, and s2 in units of its noise.
        self.s2 = v.s2
        if v.kappa is None:
            inverse = v.inverse
        else:
            inverse = v.basis @ v.inverse @ v.basis.T
        self.unit = np.sqrt(np.maximum(np.diag(inverse), 1e-12) * v.s2)
        start = np.linalg.lstsq(self.frame, v.mu, rcond=None)[0] / self.unit
        if x is None:
            self.x = np.concatenate([start, [0.0], result.fit.x])
        else:
            self.x = x
        self.criterion = self.predicted_reduction = np.inf
        self.path: list[float] = []
        self.n_evaluations = 0

    def solve(self, inverse: Array | None = None) -> Array | None:
        """Minimize the criterion by BFGS, from the inverse Hessian of another distribution on; return that at the end.

        With many parameters, for which it is too large, by L-BFGS.
        """
        units = np.ones(len(self.x))
        # Of log(s2), whose curvature all rows add up to.
        units[self.cut] = np.sqrt(2.0 / self.m.data.n.sum())

        def scaled(z: Array) -> tuple[float, Array]:
            value, slope = self(z * units)
            self.n_evaluations += 1
            if not self.path or value < self.path[-1]:
                self.path.append(value)
            return value, slope * units

        z = self.x / units
        for number in range(SEARCHES):
            z, inverse = self._search(scaled, z, inverse, GRADIENT * 0.1**number)
            if self.predicted_reduction < STUDENT_GAIN:
                break
        self.x = z * units
        self.criterion = self(self.x)[0]
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
            options: dict[str, Any] = {"maxiter": 500, "ftol": 0.0, "gtol": gradient}
            run = minimize(criterion, z, jac=True, method="L-BFGS-B", options=options)
            self.predicted_reduction = 0.5 * float(
                run.jac @ run.hess_inv.matvec(run.jac)
            )
            return run.x, None
        start = 0.5 * np.eye(len(z)) if inverse is None else inverse
        options = {"maxiter": 200, "gtol": gradient, "hess_inv0": start}
        run = minimize(criterion, z, jac=True, method="BFGS", options=options)
        self.predicted_reduction = 0.5 * float(run.jac @ run.hess_inv @ run.jac)
        return run.x, _positive(run.hess_inv)

    def _unpacked(self, x: Array) -> tuple[Array, float, Array]:
        # A step of the search can be far too long.
        s2 = self.s2 * float(np.exp(np.clip(x[self.cut], -_FAR, _FAR)))
        return self.frame @ (x[: self.cut] * self.unit), s2, x[self.cut + 1 :]

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
        G = np.zeros(
            (len(m.random), len(m.random)) if self.bases is None else len(roots)
        )
        self.responsibility = np.empty((data.T, K))
        for number, block in enumerate(data.blocks):
            part: _Spectrum | _Corrected
            if self.bases is None:
                part = _Spectrum(block, m.random, Theta, mu, self.scales)
            else:
                part = _Corrected(self.bases[number], np.square(roots), mu, self.scales)
            n = data.n[block.tasks]
            rest = data.rest[block.tasks]
            quadratic = part.quadratic + rest[:, None]
            logdet = part.logdet
            density = -0.5 * (
                n[:, None] * np.log(2 * np.pi * s2) + logdet + quadratic / s2
            ) - np.log(K)
            value = _log_of_sums(density)
            r = np.exp(density - value[:, None])
            self.responsibility[block.tasks] = r
            total -= 2 * float(value.sum())
            g_mu -= 2 * part.sensitivity(r) / s2
            g_s2 += float((n[:, None] * r - r * quadratic / s2).sum())
            G += part.gradient(r, s2)
        if self.kappa is not None:
            shrunk = m.shrunk
            size = float(np.square(mu[shrunk]).sum()) / (s2 * self.kappa)
            total += size + len(shrunk) * np.log(s2 * self.kappa)
            g_mu[shrunk] += 2 * mu[shrunk] / (s2 * self.kappa)
            g_s2 += len(shrunk) - size
        if self.bases is not None:
            slope = 2 * roots * G
        else:
            slope = self.result.structure.gradient(
                roots, np.diag(G) if Theta.ndim == 1 else G
            )
        return total, np.concatenate([(self.frame.T @ g_mu) * self.unit, [g_s2], slope])

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
        prior = 0.0 if self.kappa is None else 1.0 / self.kappa
        return _mixed(
            data, components, self.responsibility, s2, (self.frame, m.shrunk, prior)
        )


def _positive(matrix: Array) -> Array | None:
    """Return the symmetric part of a matrix, None where it is not positive definite by more than rounding."""
    symmetric = np.asarray((matrix + matrix.T) / 2)
    if np.isfinite(symmetric).all():
        ends = np.linalg.eigvalsh(symmetric)[[0, -1]]
    else:
        ends = np.zeros(2)
    if ends[0] > 1e-12 * ends[1]:
        return symmetric
    return None


class _Spectrum:
    """Tasks of a block in the eigenbasis of R Theta R', in which every scale of Theta is as good as solved.

    Attributes
    ----------
    quadratic, logdet : ndarray of shape (m, K)
        residual' V_s^-1 residual and log|V_s|.
    """

    def __init__(
        self, block: Block, random: Array, Theta: Array, mu: Array, scales: Array
    ) -> None:
        RJ = block.R[:, :, random]
        values, U = np.linalg.eigh(
            (RJ * Theta if Theta.ndim == 1 else RJ @ Theta) @ RJ.transpose(0, 2, 1)
        )
        self.scales = scales
        self.random = random
        self.R = U.transpose(0, 2, 1) @ block.R
        residual = block.z - block.R @ mu
        self.e = np.matmul(residual[:, None, :], U)[:, 0]
        self.shrink = 1.0 / (
            1.0 + scales[:, None] * np.maximum(values, 0.0)[:, None, :]
        )  # (m or 1, K, k)
        self.quadratic = (np.square(self.e)[:, None, :] * self.shrink).sum(axis=2)
        self.logdet = np.broadcast_to(
            -np.log(self.shrink).sum(axis=2), self.quadratic.shape
        )

    def sensitivity(self, r: Array) -> Array:
        """Return the sum over tasks and scales of r R' V_s^-1 residual, (p,)."""
        inner = self.e * (r[:, :, None] * self.shrink).sum(axis=1)
        return np.asarray(np.matmul(inner[:, None, :], self.R)[:, 0].sum(axis=0))

    def gradient(self, r: Array, s2: float) -> Array:
        """Return the derivative of the criterion in Theta."""
        weights = r * self.scales
        RJ = self.R[:, :, self.random]
        inner = (weights[:, :, None] * self.shrink).sum(axis=1)
        if len(RJ) < len(inner):
            inner = inner.sum(axis=0, keepdims=True)
        half = (np.sqrt(inner)[:, :, None] * RJ).reshape(-1, len(self.random))
        h = np.matmul(
            np.sqrt(weights)[:, :, None] * self.shrink * self.e[:, None, :], RJ
        ).reshape(-1, len(self.random))
        return np.asarray(half.T @ half - h.T @ h / s2)


@dataclass(frozen=True)
class _Basis:
    """Tasks of a block in a basis that serves every Theta of `_bases`.

    Attributes
    ----------
    values : ndarray of shape (m or 1, k)
        Eigenvalues of R D R', D the units of the columns whose variance is the same.
    single : ndarray of shape (m or 1, k)
        The column with a variance of its own in its unit, in the eigenbasis U; zeros
        where there is none.
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
    """Return bases of all blocks where Theta is a diagonal with one variance, or two of which one is of one column.

    None for any other Theta: its eigenvectors depend on its parameters.
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
    bases = []
    for block in result.m.data.blocks:
        RJ = block.R[:, :, random] * np.sqrt(structure.unit)
        many = RJ[:, :, structure.groups != single_group]
        values, U = np.linalg.eigh(many @ many.transpose(0, 2, 1))
        back = U.transpose(0, 2, 1)
        single = (back @ RJ[:, :, structure.groups == single_group]).sum(axis=2)
        z = np.matmul(block.z[:, None, :], U)[:, 0]
        bases.append(
            _Basis(
                np.maximum(values, 0.0),
                single,
                back @ block.R,
                z,
                (1 - single_group, single_group),
            )
        )
    return bases


class _Corrected:
    """What `_Spectrum` is, from a fixed basis: there V_s is a diagonal D_s plus s a times the product of one vector.

    The formula of Sherman and Morrison solves with it, in sums over k numbers per task
    and scale.
    """

    def __init__(
        self, basis: _Basis, variances: Array, mu: Array, scales: Array
    ) -> None:
        self.basis = basis
        self.scales = scales
        self.n_variances = len(variances)
        many_group, single_group = basis.groups
        single_variance = 0.0
        if single_group < len(variances):
            single_variance = variances[single_group]
        a = scales * single_variance
        # Shape (m or 1, K, k).
        D = 1.0 + (scales * variances[many_group])[:, None] * basis.values[:, None, :]
        self.inverse = 1.0 / D
        single = basis.single[:, None, :]
        e = (basis.z - basis.R @ mu)[:, None, :] * self.inverse
        self.alpha = (np.square(single) * self.inverse).sum(axis=2)
        grown = 1.0 + a * self.alpha
        self.along = (single * e).sum(axis=2) / grown  # of V_s^-1 residual
        self.share = a / grown
        self.solved = e - (a * self.along)[:, :, None] * (single * self.inverse)
        self.quadratic = (D * np.square(self.solved)).sum(axis=2) + a * np.square(
            self.along
        )
        self.logdet = np.broadcast_to(
            np.log(D).sum(axis=2) + np.log(grown), self.quadratic.shape
        )

    def sensitivity(self, r: Array) -> Array:
        """Return the sum over tasks and scales of r R' V_s^-1 residual, (p,)."""
        inner = (r[:, :, None] * self.solved).sum(axis=1)
        return np.asarray(np.matmul(inner[:, None, :], self.basis.R)[:, 0].sum(axis=0))

    def gradient(self, r: Array, s2: float) -> Array:
        """Return the derivative of the criterion in the variances, (1,) or (2,)."""
        basis = self.basis
        weights = r * self.scales
        values = basis.values[:, None, :]
        inner = self.inverse - self.share[:, :, None] * np.square(
            basis.single[:, None, :] * self.inverse
        )
        of_many = (values * inner).sum(axis=2) - (values * np.square(self.solved)).sum(
            axis=2
        ) / s2
        of_one = (
            self.alpha - self.share * np.square(self.alpha) - np.square(self.along) / s2
        )
        both = [float((weights * part).sum()) for part in (of_many, of_one)]
        ordered = sorted(zip(basis.groups, both, strict=True))
        return np.array([slope for _, slope in ordered])[: self.n_variances]


# ---------------------------------------------------------------------- clusters


def clusters(result: Result) -> Mixture | None:
    """Return clusters of tasks, None where one normal distribution is better.

    Their number is chosen by BIC. As the mean of a normal distribution, the means of
    clusters need three rows per column.
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
        if K * TASKS_PER_CLUSTER > data.T or has_few_rows or worse == WORSE:
            break
        candidate = _clustered(result, start, K, lowest)
        n_evaluations += len(candidate.path)
        worse = 0 if candidate.bic < lowest else worse + 1
        if candidate.bic < lowest:
            best = candidate
            lowest = candidate.bic
    if best is None:
        return None
    return Mixture(
        best.posterior(),
        best.criterion,
        np.ones(data.T),
        best.responsibility.argmax(axis=1),
        np.inf,
        best.path,
        max(best.fall, 0.0),
        best.fall < FALL,
        n_evaluations,
    )


def _clustered(result: Result, start: Posterior, K: int, lowest: float = np.inf) -> _EM:
    """Run EM from the best of some starts; not to its end where that cannot bring the BIC below `lowest`."""
    n_starts = 1
    if K > 1:
        n_starts = STARTS
    runs = [_EM(result, start, K, seed) for seed in range(n_starts)]
    if len(runs) > 1:
        for run in runs:
            run.solve(SHORT)
    best = runs[0]
    for run in runs[1:]:
        if run.criterion < best.criterion - 1e-9 * abs(
            best.criterion
        ):  # equal ones differ in rounding
            best = run
    # A step lowers the criterion by less than the one before it, so all steps together
    # by half of so much at most.
    if K == 1 or best.bic - 0.5 * STEPS * best.fall < lowest:
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
        theta[self.random] = v.Theta if v.Theta.ndim == 1 else np.diag(v.Theta)
        # Clusters explain some of how tasks differ; one of them is the normal model.
        self.theta = (0.5 if K > 1 else 1.0) * np.maximum(theta, 1e-6 * self.unit)
        self.s2 = v.s2
        labels = np.zeros(self.data.T, dtype=int)
        if K > 1:
            labels = _starting_labels(start, self.unit, K, seed)
        self.responsibility = 0.9 * np.eye(K)[labels] + 0.1 / K
        self.criterion = self.fall = np.inf
        self.path: list[float] = []

    @property
    def bic(self) -> float:
        """The criterion plus a means and a share per cluster."""
        return float(
            self.criterion + (self.K * self.data.p + self.K) * np.log(self.data.T)
        )

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
        """Means given responsibilities; responsibilities; variances."""
        data = self.data
        parts = [
            (block, *whitened(block, block.R, self.theta, inverse_by_halves))
            for block in data.blocks
        ]
        diagonal = np.asarray(
            sum(
                block.copies * np.square(q).sum(axis=(0, 1)) for block, q, _, _ in parts
            )
        )
        self.pi = self.responsibility.mean(axis=0) + 1e-12
        self.mu = self._means(parts, _RIDGE * diagonal / data.T + 1e-12)
        density = np.empty((data.T, self.K))
        h = np.empty((data.T, self.K, data.p))
        quadratic = np.empty((data.T, self.K))
        for block, q, v, logdet in parts:
            e = v[:, None, :] - self.mu @ q.transpose(0, 2, 1)
            quadratic[block.tasks] = data.rest[block.tasks, None] + np.square(e).sum(
                axis=2
            )
            density[block.tasks] = logdet[:, None] + quadratic[block.tasks] / self.s2
            h[block.tasks] = e @ q
        density = -0.5 * (
            density + data.n[:, None] * np.log(2 * np.pi * self.s2)
        ) + np.log(self.pi)
        total = _log_of_sums(density)
        self.responsibility = np.exp(density - total[:, None])
        self.criterion = -2 * float(total.sum())
        self.point = (self.theta, self.s2)
        G = (
            diagonal
            - np.einsum("tk,tkp->p", self.responsibility, np.square(h)) / self.s2
        )
        self.theta = np.maximum(
            self.theta - self.theta * G * self.theta / data.T, 1e-10 * self.unit
        )
        self.s2 = max(
            float((self.responsibility * quadratic).sum() / data.N),
            1e-9 * data.variance,
            1e-200,
        )

    def _means(self, parts: list[Any], ridge: Array) -> Array:
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
        M[:, np.arange(p), np.arange(p)] += ridge
        return np.asarray(
            np.linalg.solve(M, (a + ridge * self.mean)[:, :, None])[:, :, 0]
        )

    def posterior(self) -> Posterior:
        """Return means and covariances of the coefficients."""
        theta, s2 = self.point
        components = [
            _Component(self.data, mu, 1.0, np.diag(theta), s2) for mu in self.mu
        ]
        return _mixed(
            self.data,
            components,
            self.responsibility,
            s2,
            None,
            self.pi / self.pi.sum(),
        )


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
    scale = np.sqrt(np.where(unit > 0, unit * start.s2, np.inf))
    deviations = (start.W - start.mu) / scale
    # Differences that are rounding must not decide which task comes first.
    distances = np.round(np.square(deviations).sum(axis=1), 9)
    order = np.argsort(distances, kind="stable")
    labels = np.empty(len(order), dtype=int)
    kmeans = KMeans(K, n_init=1, random_state=seed)
    labels[order] = kmeans.fit_predict(np.round(deviations[order], 9))
    return labels


# ---------------------------------------------------------------------- both


def _log_of_sums(logs: Array) -> Array:
    """Return log(sum(exp)) of each row; scipy's function takes ten times as long on matrices this small."""
    largest = logs.max(axis=1)
    return np.asarray(largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1)))


class _Component:
    """The posterior of all tasks as if they were of one component."""

    def __init__(
        self, data: Compressed, mu: Array, scale: float, Theta: Array, s2: float
    ) -> None:
        self.mu = mu
        self.Theta = scale * Theta
        self.s2 = s2
        self.W = np.repeat(mu[None], data.T, axis=0)
        self.A = np.empty((data.T, data.p, data.p))
        for block in data.blocks:
            q, v, _ = whitened(block, block.R, self.Theta)
            self.A[block.tasks] = q.transpose(0, 2, 1) @ q
            self.W[block.tasks] += (
                np.matmul((v - q @ mu)[:, None, :], q)[:, 0] @ self.Theta
            )

    def covariances(self) -> Array:
        """Return covariances given mu, (T, p, p)."""
        return np.asarray(self.s2 * (self.Theta - self.Theta @ self.A @ self.Theta))


def _mixed(
    data: Compressed,
    components: list[_Component],
    r: Array,
    s2: float,
    common: tuple[Array, Array, float] | None,
    shares: Array | None = None,
) -> Posterior:
    """Return the moments of a mixture; `common` is how the mean of all is estimated, None where each has its own."""
    if shares is None:
        shares = np.full(len(components), 1 / len(components))
    W = np.asarray(sum(r[:, k, None] * part.W for k, part in enumerate(components)))
    mu = np.asarray(
        sum(share * part.mu for share, part in zip(shares, components, strict=True))
    )
    explicit = np.zeros((data.T, data.p, data.p))
    eye = np.eye(data.p)
    of_mean = [
        _mean_covariance(components, r, s2, common, k) for k in range(len(components))
    ]
    for k, part in enumerate(components):
        left = eye - part.Theta @ part.A
        off = part.W - W
        inner = (
            part.covariances()
            + left @ of_mean[k] @ left.transpose(0, 2, 1)
            + off[:, :, None] * off[:, None, :]
        )
        explicit += r[:, k, None, None] * inner
    Sigma = sum(
        share * (s2 * part.Theta + np.outer(part.mu - mu, part.mu - mu))
        for share, part in zip(shares, components, strict=True)
    )
    mean = np.asarray(sum(share * c for share, c in zip(shares, of_mean, strict=True)))
    return Posterior(W, mu, mean, np.asarray(Sigma), s2, data, explicit)


def _mean_covariance(
    components: list[_Component],
    r: Array,
    s2: float,
    common: tuple[Array, Array, float] | None,
    k: int,
) -> Array:
    """Return the covariance of the mean of component k."""
    if common is None:
        M = np.tensordot(r[:, k], components[k].A, 1)
        return np.asarray(s2 * np.linalg.pinv(M, hermitian=True))
    frame, shrunk, prior = common
    M = np.asarray(
        sum(np.tensordot(r[:, j], part.A, 1) for j, part in enumerate(components))
    )
    M[shrunk, shrunk] += prior
    return np.asarray(s2 * frame @ np.linalg.inv(frame.T @ M @ frame) @ frame.T)
