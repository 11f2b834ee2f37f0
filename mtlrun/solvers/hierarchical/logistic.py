"""Hierarchical logistic models: the mean and one covariance together by L-BFGS, and the growth of a covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mtlrun.solvers.hierarchical.laplace import Laplace, LaplaceValue
from mtlrun.solvers.hierarchical.structures import Factor, Full, Tied

Array = np.ndarray[Any, np.dtype[Any]]

#: What a parameter of a covariance must lower D by (2 is AIC), a parameter of a direction, and information that each
#: needs: the variance of the labels, summed over all rows.
AIC, DIRECTION, INFORMATION = 2.0, 3.0, 10.0
#: Directions tried, at most; and tasks that each needs.
MOST_RANK, TASKS_PER_DIRECTION = 6, 3
#: Standard deviations in log-odds, on standardised columns, at most: where every task has one class they have no end.
LARGEST = 50.0
# Runs of L-BFGS, each in units of the information where the one before ended; Newton steps of a model without tasks.
_RUNS, _STEPS = 10, 100
# A root of a variance below this counts as zero, and one that is freed or starts is at least the other.
_ZERO, _SMALL = 1e-3, 0.05
# The predicted gain below which a step that lowers nothing is rounding.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class LaplaceFit:
    """A fitted model.

    Attributes
    ----------
    name : str
        none, intercept, scalar, diagonal, full, or a base with directions, ``scalar+2``.
    m : Laplace
    structure : Tied, Full or Factor
    value : Value
    x : ndarray
        Parameters of the structure: roots of variances, factors.
    path : list of float
        D of the iterates; it never rises but by rounding.
    gain : float
        By how much a further step would lower D, as the expected information says.
    converged : bool
    evaluations : int
    """

    name: str
    m: Laplace
    structure: Tied | Full | Factor
    value: LaplaceValue
    x: Array
    path: list[float]
    gain: float
    converged: bool
    evaluations: int

    @property
    def aic(self) -> float:
        """D + 2 parameters of the covariance; parameters of directions count 3.

        A diagonal has as many as variances that are not zero: these are the degrees of freedom of numbers that may not
        be negative.
        """
        if isinstance(self.structure, Tied):
            return self.value.criterion + AIC * np.count_nonzero(self.x)
        extra = self.structure.parameters - self.structure.base.size if isinstance(self.structure, Factor) else 0
        return self.value.criterion + AIC * (self.structure.parameters - extra) + DIRECTION * extra


@dataclass(frozen=True)
class LogisticProblem:
    """Rows and options of a fit.

    Attributes
    ----------
    m : Laplace
        Its random columns are those whose coefficients may differ.
    intercept : bool
        Whether column 0 is the intercept.
    tol, max_iter : float, int
    """

    m: Laplace
    intercept: bool = True
    tol: float = 1e-6
    max_iter: int = 200

    def tied(self, name: str) -> tuple[Laplace, Tied]:
        """Return the criterion and the structure "intercept", "scalar" or "diagonal"."""
        random = np.zeros(1, dtype=int) if name == "intercept" else self.m.random
        level = (random == 0) & self.intercept
        groups = np.where(level, 0, int(level.any())) if name == "scalar" else np.arange(len(random))
        return self.m.with_random(random), Tied(np.ones(len(random)), groups)

    @property
    def information(self) -> float:
        """Variance of the labels, summed over all rows."""
        weight = sum(float(block.w.sum()) for block in self.m.blocks)
        ones = sum(float((block.w * block.y).sum()) for block in self.m.blocks)
        return ones * (1 - ones / weight)


def fit_logistic(problem: LogisticProblem, name: str) -> LaplaceFit:
    """Fit a model of one structure: none, intercept, scalar, diagonal, factor, full, or auto, which chooses."""
    fit = pooled(problem)
    if name == "none" or problem.m.T == 1 or not len(problem.m.random):
        return fit
    if name == "auto":
        return automatic(problem, fit)
    if name in ("intercept", "scalar"):
        return grown(problem, fit, name)
    fit = grown(problem, grown(problem, fit, "scalar"), "diagonal")
    if name == "factor":
        return directed(problem, fit, MOST_RANK, forced=1)
    return full(problem, fit) if name == "full" else fit


def pooled(problem: LogisticProblem) -> LaplaceFit:
    """Fit one logistic model to the rows of all tasks, by Newton steps."""
    m = problem.m.with_random(np.zeros(0, dtype=int))
    value = m(np.zeros(m.p), np.zeros(0))
    path, gain, converged = [value.criterion], np.inf, False
    for _ in range(_STEPS):
        step, gain = _mean_step(value)
        if gain < problem.tol:
            converged = True
            break
        better = _shorter(m, value, step)
        if better is None:
            converged = gain < _ROUNDING
            break
        value = better
        path.append(value.criterion)
    return LaplaceFit(
        "none", m, Tied(np.ones(0), np.zeros(0, int)), value, np.zeros(0), path, gain, converged, m.evaluations
    )


def _mean_step(value: LaplaceValue) -> tuple[Array, float]:
    """Return the Newton step of mu for a given covariance, and the fall of D that it predicts."""
    step = -0.5 * np.linalg.pinv(value.information, hermitian=True) @ value.g_mu
    return step, -0.5 * float(step @ value.g_mu)


def _shorter(m: Laplace, value: LaplaceValue, step: Array) -> LaplaceValue | None:
    """Return the first of shorter and shorter steps of mu that lowers D, None if none does."""
    for k in range(30):
        new = m(value.mu + 0.5**k * step, value.Theta, value.v)
        if new.criterion < value.criterion:
            return new
    return None


def grown(problem: LogisticProblem, base: LaplaceFit, name: str) -> LaplaceFit:
    """Fit a larger diagonal covariance from a smaller one, its variances moved by one step of the information."""
    m, structure = problem.tied(name)
    theta = np.zeros(m.p)
    if len(base.m.random):
        theta[base.m.random] = np.asarray(base.value.Theta)
    theta = theta[m.random]
    at = m(base.value.mu, theta)
    g, H = np.bincount(structure.groups, np.diag(at.G)), structure.tie().T @ at.squares @ structure.tie()
    now = np.bincount(structure.groups, theta) / np.bincount(structure.groups)
    u = now - g / np.maximum(np.diag(H), 1e-300)
    x = np.clip(np.sqrt(np.maximum(u, 0.0)), _SMALL, 1.0 + np.sqrt(now))
    return _minimised(problem, m, name, structure, x, base)


def without(problem: LogisticProblem, large: LaplaceFit, column: int) -> LaplaceFit:
    """Fit the diagonal without the variance of a column, from the fit with it."""
    stay = np.flatnonzero(large.m.random != column)
    m, structure = problem.m.with_random(large.m.random[stay]), Tied(np.ones(len(stay)), np.arange(len(stay)))
    return _minimised(problem, m, "diagonal", structure, large.x[stay], large)


def full(problem: LogisticProblem, base: LaplaceFit) -> LaplaceFit:
    """Fit any covariance from a diagonal one."""
    structure = Full(np.ones(len(base.m.random)))
    return _minimised(problem, base.m, "full", structure, structure.of(base.value.Theta), base)


def directed(problem: LogisticProblem, base: LaplaceFit, most: int, forced: int = 0) -> LaplaceFit:
    """Add directions to a diagonal one by one while each pays, the first `forced` whether they pay or not.

    Each new one is the eigenvector of the most negative eigenvalue of the gradient.
    """
    now, best, tied = base, base, base.structure
    assert isinstance(tied, Tied)
    F, roots = np.zeros((len(tied.groups), 0)), base.x
    for rank in range(1, min(most, len(tied.groups)) + 1):
        values, vectors = np.linalg.eigh(now.value.G)
        if values[0] > -1e-6:
            break
        F = np.column_stack([F, 0.3 * vectors[:, 0]])
        structure = Factor(tied, rank)
        start = np.concatenate([F.ravel(), np.maximum(np.abs(roots), _SMALL)])
        now = _minimised(problem, base.m, f"{base.name}+{rank}", structure, start, now)
        F, roots = structure.parts(now.x)
        if now.aic >= best.aic and rank > forced:
            break
        best = now
    return best


def automatic(problem: LogisticProblem, base: LaplaceFit) -> LaplaceFit:
    """Grow the covariance from none: intercept, scalar, diagonal, directions; take the best by AIC.

    A structure is tried where there is `INFORMATION` per parameter.
    """
    most = problem.information / INFORMATION
    p, level = len(problem.m.random), problem.intercept and 0 in problem.m.random
    sizes = {"intercept": 1, "scalar": 1 + level, "diagonal": p} if level else {"scalar": 1, "diagonal": p}
    tried: list[LaplaceFit] = []
    for name, size in sizes.items():
        if tried and (size > most or size <= tried[-1].structure.size):
            break
        tried.append(grown(problem, tried[-1] if tried else base, name))
    best = min(tried, key=lambda fit: fit.aic)
    start = tried[min(1, len(tried) - 1)] if best.name == "intercept" else best
    rank = int(min((most - start.structure.size) / p, MOST_RANK, p // 2, problem.m.T // TASKS_PER_DIRECTION))
    if start.name in ("scalar", "diagonal") and rank > 0 and p > 1:
        best = min(best, directed(problem, start, rank), key=lambda fit: fit.aic)
    return best


# ---------------------------------------------------------------------- the minimisation


class _LaplaceObjective:
    """D in (z, x): mu = center + unit z; keeps the best point."""

    def __init__(self, m: Laplace, structure: Tied | Full | Factor, start: LaplaceValue) -> None:
        self.m, self.structure, self.value, self.path = m, structure, start, [start.criterion]
        self.v = start.v
        self.x = self.slope = np.zeros(0)
        self.rounding = 0.0

    def units(self) -> None:
        """Measure mu from where it is, in units of its information there."""
        self.center = self.value.mu
        values, vectors = np.linalg.eigh(2 * self.value.information)
        self.unit = vectors / np.sqrt(np.maximum(values, 1e-10 * values[-1]))

    def __call__(self, zx: Array) -> tuple[float, Array]:
        p = self.m.p
        value = self.m(self.center + self.unit @ zx[:p], self.structure.theta(zx[p:]), self.v)
        slope = np.concatenate([self.unit.T @ value.g_mu, self.structure.chain(zx[p:], self._inner(value.G))])
        if value.criterion <= self.value.criterion + self.rounding or not len(self.x):
            self.value, self.x, self.slope, self.v = value, zx[p:].copy(), slope, value.v
            self.path.append(value.criterion)
        return value.criterion, slope

    def moved(self, x: Array) -> None:
        """Try other parameters of the structure, which may raise D by what is rounding."""
        z = np.linalg.lstsq(self.unit, self.value.mu - self.center, rcond=None)[0]
        self.rounding = 1e-12 * (1 + abs(self.value.criterion))
        self(np.append(z, x))
        self.rounding = 0.0

    def _inner(self, G: Array) -> Array:
        return np.diag(G) if isinstance(self.structure, Tied) else G


def _minimised(
    problem: LogisticProblem, m: Laplace, name: str, structure: Tied | Full | Factor, x: Array, base: LaplaceFit
) -> LaplaceFit:
    """Minimize D over mu and the parameters of a structure.

    Zero is a stationary point of every square. Where the gradient in Theta itself says that a variance should not be
    zero it is freed, and L-BFGS starts again.
    """
    before, p = m.evaluations, m.p
    objective = _LaplaceObjective(m, structure, m(base.value.mu, structure.theta(x)))
    objective.path.clear()
    gain, converged = np.inf, False
    bounds = [(None, None)] * p + [(-LARGEST, LARGEST)] * structure.size
    target = np.sqrt(problem.tol / (p + structure.size))
    for _ in range(_RUNS):
        objective.units()
        options = {
            "maxiter": problem.max_iter,
            "maxfun": 2 * problem.max_iter,
            "ftol": 0.0,
            "gtol": target,
            "maxcor": 20,
        }
        run = minimize(
            objective, np.append(np.zeros(p), x), jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        x = _without_zeros(objective, structure)
        slope = np.where(np.abs(np.append(np.zeros(p), x)) >= LARGEST, 0.0, objective.slope)
        gain = 0.5 * float(slope @ run.hess_inv.matvec(slope))
        moved, more = _freed(structure, x, objective.value)
        gain = max(gain, more)
        if gain < problem.tol:
            converged = True
            break
        x = moved if more >= problem.tol else x
    return LaplaceFit(
        name,
        m,
        structure,
        objective.value,
        x,
        objective.path,
        gain,
        converged,
        m.evaluations - before + base.evaluations,
    )


def _without_zeros(objective: _LaplaceObjective, structure: Tied | Full | Factor) -> Array:
    """Return x with small roots of variances at zero where that does not raise D but by rounding."""
    x = objective.x
    if isinstance(structure, Full):
        return x
    roots = _roots(structure, x)
    small = (np.abs(roots) < _ZERO) & (roots != 0)
    if small.any():
        objective.moved(np.concatenate([x[: len(x) - len(roots)], np.where(small, 0.0, roots)]))
    return objective.x


def _roots(structure: Tied | Factor, x: Array) -> Array:
    """Return the roots of the variances of a diagonal, or of that beside directions."""
    return x if isinstance(structure, Tied) else structure.parts(x)[1]


def _freed(structure: Tied | Full | Factor, x: Array, value: LaplaceValue) -> tuple[Array, float]:
    """Return x with variances freed that should not be zero, and the gain that the expected information predicts."""
    if isinstance(structure, Full):
        values, vectors = np.linalg.eigh(value.G)
        d = vectors[:, 0]
        size, gain = _along(float(values[0]), float(np.square(d) @ value.squares @ np.square(d)))
        return structure.of(value.Theta + min(size, 1.0) * np.outer(d, d)), gain
    base = structure if isinstance(structure, Tied) else structure.base
    roots = _roots(structure, x)
    slopes = np.bincount(base.groups, np.diag(value.G), base.size)
    squares = np.diag(base.tie().T @ value.squares @ base.tie())
    wrong = (np.abs(roots) < _ZERO) & (slopes < 0)
    gain = max((_along(slopes[g], squares[g])[1] for g in np.flatnonzero(wrong)), default=0.0)
    return np.concatenate([x[: len(x) - len(roots)], np.where(wrong, _SMALL, roots)]), gain


def _along(slope: float, information: float) -> tuple[float, float]:
    """Return how far to go down a slope, and what that gains."""
    size = max(-slope, 0.0) / max(information, 1e-300)
    return size, -0.5 * min(slope, 0.0) * size
