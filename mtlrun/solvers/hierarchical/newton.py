"""Variances of independent coefficients: projected Newton steps on the marginal likelihood, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from mtlrun.solvers.hierarchical.marginal import Marginal, MarginalValue
from mtlrun.solvers.hierarchical.structures import Tied

Array = np.ndarray[Any, np.dtype[Any]]

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
