"""Covariances that are not diagonal: L-BFGS on a factor of Theta, with a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from mtlrun.solvers.hierarchical.marginal import Marginal, MarginalValue
from mtlrun.solvers.hierarchical.newton import Fit
from mtlrun.solvers.hierarchical.structures import Factor, Full

Array = np.ndarray[Any, np.dtype[Any]]

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
