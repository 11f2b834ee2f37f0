"""Forms of the covariance Theta of coefficients, and the maximum of the marginal likelihood over each, certified.

A form is a function of free parameters x, in units of the data. Variances are squares of parameters and factors enter
as L L': no bounds, and an exact zero can be reached. Zero is then stationary whatever the derivative in Theta, so a fit
must look at that as well (`factored`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls

from mtlrun.solvers.hierarchical.marginal import Marginal, MarginalValue

Array = np.ndarray[Any, np.dtype[Any]]


def group_scale(scale: Array, groups: Array) -> Array:
    """Return one unit of variance for every column, the same within a group."""
    mean = np.bincount(groups, 1.0 / scale) / np.bincount(groups)
    return np.asarray(1.0 / mean[groups])


@dataclass(frozen=True)
class Tied:
    """A diagonal with one variance per group of columns.

    Parameters
    ----------
    scale : ndarray of shape (p,)
        Unit of every variance.
    groups : ndarray of int, shape (p,)
        Columns of the same number, from 0, have the same variance.
    """

    scale: Array
    groups: Array

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    parameters = size

    @property
    def unit(self) -> Array:
        """Unit of the variance of every column, the same within a group."""
        return group_scale(self.scale, self.groups)

    def tie(self) -> Array:
        """Return the matrix (p, g) that gives every column the variance of its group."""
        return np.eye(self.size)[self.groups].reshape(len(self.groups), self.size)

    def theta(self, x: Array) -> Array:
        """Return the diagonal."""
        return self.unit * np.square(x)[self.groups]

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in the roots of the variances."""
        return 2 * x * np.bincount(self.groups, G * self.unit, self.size)


@dataclass(frozen=True)
class Full:
    """Any covariance, by a lower triangular factor in units of `scale` (p,)."""

    scale: Array

    @property
    def size(self) -> int:
        """Entries of the factor."""
        return len(self.scale) * (len(self.scale) + 1) // 2

    parameters = size

    def of(self, Theta: Array) -> Array:
        """Return parameters of a covariance, moved off the boundary."""
        root = np.sqrt(self.scale)
        C = (np.diag(Theta) if Theta.ndim == 1 else Theta) / np.outer(root, root)
        C = C + max(1e-4 * np.trace(C) / len(C), 1e-4) * np.eye(len(C))
        return np.linalg.cholesky(C)[np.tril_indices(len(C))]

    def factor(self, x: Array) -> Array:
        """Return L, lower triangular."""
        L = np.zeros((len(self.scale), len(self.scale)))
        L[np.tril_indices(len(L))] = x
        return L

    def theta(self, x: Array) -> Array:
        """Return the covariance."""
        L = np.sqrt(self.scale)[:, None] * self.factor(x)
        return L @ L.T

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in the factor."""
        root = np.sqrt(self.scale)
        return (2 * (root[:, None] * G * root) @ self.factor(x))[np.tril_indices(len(root))]


@dataclass(frozen=True)
class Factor:
    """A few directions in which tasks differ together, beside tied variances: F F' + diagonal."""

    base: Tied
    rank: int

    @property
    def size(self) -> int:
        """Entries of F and of the base."""
        return len(self.base.groups) * self.rank + self.base.size

    @property
    def parameters(self) -> int:
        """Free parameters: F may be rotated."""
        return self.size - self.rank * (self.rank - 1) // 2

    def parts(self, x: Array) -> tuple[Array, Array]:
        """Return F (p, rank) and the roots of the variances."""
        cut = len(self.base.groups) * self.rank
        return x[:cut].reshape(-1, self.rank), x[cut:]

    def theta(self, x: Array) -> Array:
        """Return the covariance."""
        F, roots = self.parts(x)
        F = np.sqrt(self.base.unit)[:, None] * F
        return F @ F.T + np.diag(self.base.theta(roots))

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in F and the roots."""
        F, roots = self.parts(x)
        root = np.sqrt(self.base.unit)
        inner = 2 * (root[:, None] * G * root) @ F
        return np.concatenate([inner.ravel(), self.base.chain(roots, np.diag(G))])


# ---------------------------------------------------------------------- independent coefficients: Newton steps

#: Halvings of a step before it is given up, and the predicted gain below which that counts as the end.
_HALVINGS, _ROUNDING = 25, 1e-5
# Information about a variance below this, per task, is none: a single row per task says nothing about its level.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Fit:
    """Where a solver ended.

    Attributes
    ----------
    value : Value
    x : ndarray
        Parameters of the structure, roots of variances; kappa is not among them.
    path : list of float
        D of every iterate; it never rises.
    gain : float
        By how much a further step would lower D, as the quadratic model says.
    converged : bool
        Whether `gain` is below the tolerance, or as small as floats make it.
    evaluations : int
    parameters : int
        Free parameters of the covariance, with kappa.
    """

    value: MarginalValue
    x: Array
    path: list[float]
    gain: float
    converged: bool
    evaluations: int
    parameters: int


def newton(
    m: Marginal,
    structure: Tied,
    *,
    start: Array | None = None,
    kappa: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> Fit:
    """Minimize D over variances of groups of columns, and over kappa where the mean has a prior.

    Every step minimises the quadratic model over variances that are not negative, so it is feasible and a direction of
    descent, and zeros are exact. The expected information is positive semidefinite and makes the right step from far
    away; the exact Hessian takes over where the model predicts a gain below one and it is positive definite.

    Parameters
    ----------
    m : Marginal
    structure : Tied
        Of the random columns of `m`.
    start : ndarray of shape (g,), optional
        Roots of the variances, in units of the structure; default: ones.
    kappa : float, optional
        Where to start; default: as large as the variance of a random column.
    tol : float
        Ends when a step is predicted to lower D by less.
    max_iter : int
    """
    tie, unit = structure.tie(), _units(m, structure)
    u = np.ones(structure.size) if start is None else np.square(np.asarray(start, dtype=float))
    if len(m.shrunk):
        u = np.append(u, 1.0 if kappa is None else kappa / unit[-1])
    first = m.evaluations
    at = _Criterion(m, tie, unit)
    v = at(u)
    hessian = at.hessian(v)
    known = np.diag(hessian[1]) > _NOTHING * m.data.T
    if not known.all():  # what the data say nothing about is zero
        u = np.where(known, u, 0.0)
        v = at(u)
        hessian = at.hessian(v)
    path, gain, converged = [v.criterion], np.inf, False
    for _ in range(max_iter):
        step, gain = _step(at.gradient(v), *hessian, u, known)
        if gain < tol:
            converged = True
            break
        found = _shorter(at, u, v, step)
        if found is None:
            converged = gain < _ROUNDING
            break
        u, v = found
        hessian = at.hessian(v)
        path.append(v.criterion)
    x = np.sqrt(u[: structure.size])
    return Fit(v, x, path, float(gain), converged, m.evaluations - first, len(u))


def _units(m: Marginal, structure: Tied) -> Array:
    """Return the unit of the variance of every group, and of kappa."""
    unit = np.ones(structure.size)
    unit[structure.groups] = structure.unit
    return np.append(unit, m.middle) if len(m.shrunk) else unit


class _Criterion:
    """D and its derivatives in the variances u of groups, in their units."""

    def __init__(self, m: Marginal, tie: Array, unit: Array) -> None:
        self.m, self.tie, self.unit = m, tie, unit

    def __call__(self, u: Array) -> MarginalValue:
        values, g = self.unit * u, self.tie.shape[1]
        return self.m(self.tie @ values[:g], float(values[g]) if len(values) > g else None)

    def gradient(self, v: MarginalValue) -> Array:
        """Return dD/du."""
        g = self.tie.T @ v.G
        return np.asarray((np.append(g, v.g_kappa) if len(self.unit) > len(g) else g) * self.unit)

    def hessian(self, v: MarginalValue) -> tuple[Array, Array]:
        """Return the exact and the expected Hessian."""
        exact, expected = self.m.hessian(v, self.tie)
        outer = np.outer(self.unit, self.unit)
        return exact * outer, expected * outer


def _shorter(at: _Criterion, u: Array, v: MarginalValue, step: Array) -> tuple[Array, MarginalValue] | None:
    """Return the first of shorter and shorter steps that lowers D, None if none does."""
    for k in range(_HALVINGS):
        new = np.maximum(u + 0.5**k * step, 0.0)
        w = at(new)
        if v.criterion > w.criterion:
            return new, w
    return None


def _step(g: Array, exact: Array, expected: Array, u: Array, known: Array) -> tuple[Array, float]:
    """Return a step and the fall of D that its model predicts."""
    step = np.zeros(len(u))
    mine = np.flatnonzero(known)
    if not len(mine):
        return step, 0.0
    within = np.ix_(mine, mine)
    step[mine], gain = _model_step(expected[within], g[mine], u[mine])
    free = (u + step > 0) & known  # the face on which the minimum seems to be
    if gain >= 1.0 or not free.any():
        return step, gain
    drop = np.where(free | ~known, 0.0, -u)
    inner = exact[np.ix_(free, free)]
    if not _is_convex(inner):
        return step, gain
    refined = drop.copy()
    refined[free], better = _model_step(inner, (g + exact @ drop)[free], u[free])
    better -= float(g @ drop + 0.5 * drop @ exact @ drop)
    return (refined, better) if better > 0 else (step, gain)  # it may cost more to reach the face than it brings


def _is_convex(H: Array) -> bool:
    s = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    return bool(np.linalg.eigvalsh(H * np.outer(s, s))[0] >= 1e-8)


def _model_step(H: Array, g: Array, u: Array) -> tuple[Array, float]:
    """Minimize g'd + d'Hd / 2 subject to u + d >= 0; return d and the fall of the model."""
    # In units in which H has a diagonal of ones: variances may differ by many orders of magnitude.
    s = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    values, vectors = np.linalg.eigh(H * np.outer(s, s))
    size = np.sqrt(np.maximum(values, 1e-8 * values[-1]))
    root = size[:, None] * vectors.T  # H = root' root
    target = root @ (u / s) - vectors.T @ (g * s) / size
    y, _ = nnls(root, target, maxiter=100 * len(u))
    d = y - u / s
    b = root @ d
    step = np.where(y > 0, d * s, -u)  # d * s may miss -u by rounding, and a zero has to be exact
    return step, float(-(g * s) @ d - 0.5 * b @ b)


# ---------------------------------------------------------------------- covariances that are not diagonal: L-BFGS

#: Runs of L-BFGS: each starts where the one before ended, freed from zeros that are no minima.
_RUNS = 8
# A variance below this, in units of the structure, counts as zero; one that is freed starts from the other.
_ZERO, _FREED = 1e-8, 1e-2


def factored(
    m: Marginal,
    structure: Full | Factor,
    start: Array,
    *,
    kappa: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 500,
) -> Fit:
    """Minimize D over the parameters of a structure, and over kappa where the mean has a prior.

    Zero is a stationary point of every square. Where the gradient in Theta itself says that a direction should be
    added, the factor is moved along it and L-BFGS starts again.

    Parameters
    ----------
    m : Marginal
    structure : Full or Factor
        Of the random columns of `m`.
    start : ndarray
        Parameters of the structure.
    kappa : float, optional
        Where to start; default: the median scale.
    tol : float
        Ends when a further step is predicted to lower D by less.
    max_iter : int
        Of L-BFGS, in every run.
    """
    first, shrunk = m.evaluations, len(m.shrunk) > 0
    objective = _FactoredObjective(m, structure, m.middle)
    x = np.append(start, np.sqrt((kappa or objective.unit) / objective.unit)) if shrunk else np.array(start)
    gain, converged = np.inf, False
    for run_number in range(_RUNS):
        options = {"maxiter": max_iter, "maxfun": 3 * max_iter, "ftol": 0.0, "maxcor": 30}
        options["gtol"] = 1e-4 * 0.1**run_number
        run = minimize(objective, x, jac=True, method="L-BFGS-B", options=options)
        assert objective.value is not None
        x, v = objective.x, objective.value
        slope = objective.slope
        gain = 0.5 * float(slope @ run.hess_inv.matvec(slope))
        moved, more = _freed(m, structure, x[: structure.size], v)
        gain = max(gain, more)
        if gain < tol:
            converged = True
            break
        if more >= tol:
            x = np.append(moved, x[structure.size :])
    parameters = structure.parameters + shrunk
    return Fit(v, x[: structure.size], objective.path, gain, converged, m.evaluations - first, parameters)


class _FactoredObjective:
    """D and its gradient in x; keeps the best point."""

    def __init__(self, m: Marginal, structure: Full | Factor, unit: float) -> None:
        self.m, self.structure, self.unit = m, structure, unit
        self.value: MarginalValue | None = None
        self.path: list[float] = []
        self.x = self.slope = np.zeros(0)

    def __call__(self, x: Array) -> tuple[float, Array]:
        size, shrunk = self.structure.size, len(self.m.shrunk) > 0
        v = self.m(self.structure.theta(x[:size]), float(self.unit * x[size] ** 2) if shrunk else None)
        slope = self.structure.chain(x[:size], v.G)
        if shrunk:
            slope = np.append(slope, 2 * x[size] * self.unit * v.g_kappa)
        if self.value is None or v.criterion < self.value.criterion:
            self.value, self.x, self.slope = v, x.copy(), slope
            self.path.append(v.criterion)
        return v.criterion, slope


def _freed(m: Marginal, structure: Full | Factor, x: Array, v: MarginalValue) -> tuple[Array, float]:
    """Return x moved along the steepest direction that the cone of covariances allows, and its predicted gain."""
    if isinstance(structure, Full):
        root = np.sqrt(structure.scale)
        values, vectors = np.linalg.eigh(root[:, None] * v.G * root)
        direction = root * vectors[:, 0]
        size, gain = _along(m, v, direction, float(values[0]))
        return structure.of(v.Theta + size * np.outer(direction, direction)), gain
    F, roots = structure.parts(x)
    base = structure.base
    slopes = np.bincount(base.groups, np.diag(v.G) * base.unit, base.size)
    wrong = (np.square(roots) < _ZERO) & (slopes < 0)
    if not wrong.any():
        return x, 0.0
    gain = max(
        _along(m, v, np.sqrt(base.unit) * (base.groups == g), float(slopes[g]))[1] for g in np.flatnonzero(wrong)
    )
    return np.concatenate([F.ravel(), np.where(wrong, _FREED, roots)]), gain


def _along(m: Marginal, v: MarginalValue, direction: Array, slope: float) -> tuple[float, float]:
    """Return how much of d d' to add to Theta, and what that gains, by the expected information."""
    if slope >= 0:
        return 0.0, 0.0
    information = 0.0
    for block, q in zip(m.data.blocks, v.Q, strict=True):
        seen = np.square(q[:, :, m.random] @ direction).sum(axis=1)
        information += block.copies * float(np.square(seen).sum())
    size = -slope / max(information, 1e-300)
    return size, -0.5 * slope * size
