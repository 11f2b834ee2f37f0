"""A hierarchical model of one covariance, and the choice, or integration, of the covariance by its likelihood."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from mtlrun.solvers.hierarchical import covariance
from mtlrun.solvers.hierarchical.compress import Compressed, weighted
from mtlrun.solvers.hierarchical.covariance import (
    CovarianceModel,
    FactorCovariance,
    FullCovariance,
    GroupedVariances,
    lbfgs,
    newton,
)
from mtlrun.solvers.hierarchical.marginal import Marginal, MarginalValue
from mtlrun.solvers.hierarchical.posterior import Posterior, posterior_of

Array = np.ndarray[Any, np.dtype[Any]]

#: Targets that a variance parameter needs.
TARGETS = 10.0
#: Rows per column that a flat mean needs; with fewer it has a ridge prior.
ROWS_PER_MEAN = 3.0


@dataclass(frozen=True)
class HierarchicalProblem:
    """Data and options of a fit.

    Attributes
    ----------
    data : Compressed
    random : ndarray of int
        Columns whose coefficients may differ between tasks.
    intercept : bool
        Whether column 0 is the intercept.
    method : {"reml", "ml"}
    shrink : bool
        Whether the mean of the slopes has a ridge prior.
    tol, max_iter : float, int
    """

    data: Compressed
    random: Array
    intercept: bool = True
    method: str = "reml"
    shrink: bool = False
    tol: float = 1e-8
    max_iter: int = 100

    def marginal(self, random: Array | None = None) -> Marginal:
        """Return D with these random columns, by default all that may differ."""
        shrunk = None
        if self.shrink:
            shrunk = np.arange(int(self.intercept), self.data.p)
        return Marginal(
            self.data, self.random if random is None else random, self.method, shrunk
        )

    def grouped_variances(self, m: Marginal, name: str) -> GroupedVariances:
        """Return the structure "none", "intercept", "scalar" or "diagonal" of the random columns of `m`."""
        return covariance.grouped_variances(
            name, m.scale, (m.random == 0) & self.intercept
        )


class Result(CovarianceModel[Marginal, MarginalValue]):
    """A fitted model."""

    def posterior(self) -> Posterior:
        """Return the posterior of the coefficients."""
        return posterior_of(self.m, self.fit.value)


def fit_covariance(problem: HierarchicalProblem, name: str) -> Result:
    """Fit a model of one structure.

    Parameters
    ----------
    problem : HierarchicalProblem
    name : str
        none, intercept, scalar, diagonal, full, factor (a diagonal plus as many directions as pay) or auto.
    """
    if problem.data.T == 1 or not len(problem.random):
        name = "none"  # a single task does not differ from its mean
    if name == "auto":
        return automatic(problem)
    if name == "factor":
        return grown(
            problem,
            fit_covariance(problem, "diagonal"),
            covariance.MAX_RANK,
            n_forced=1,
        )
    if name == "full":
        return _full(problem, fit_covariance(problem, "diagonal"))
    return _tied(problem, name)


def _tied(problem: HierarchicalProblem, name: str) -> Result:
    if name in ("none", "intercept"):
        m = problem.marginal(np.zeros(1 if name == "intercept" else 0, dtype=int))
    else:
        m = problem.marginal()
    structure = problem.grouped_variances(m, name)
    return Result(
        name,
        m,
        structure,
        newton(m, structure, tol=problem.tol, max_iter=problem.max_iter),
    )


def _full(problem: HierarchicalProblem, base: Result) -> Result:
    """Fit any covariance, from a diagonal one and from the identity where they end in different minima."""
    m, structure = base.m, FullCovariance(base.m.scale)
    options: dict[str, Any] = {
        "kappa": base.fit.value.kappa,
        "tol": problem.tol,
        "max_iter": 10 * problem.max_iter,
    }
    fits = [
        lbfgs(m, structure, structure.from_covariance(theta), **options)
        for theta in (base.fit.value.Theta, m.scale)
    ]
    n_evaluations = sum(fit.n_evaluations for fit in fits)
    best = min(fits, key=lambda fit: fit.value.criterion)
    return Result(
        "full",
        m,
        structure,
        replace(best, n_evaluations=n_evaluations + base.fit.n_evaluations),
    )


def grown(
    problem: HierarchicalProblem, base: Result, max_rank: int, n_forced: int = 0
) -> Result:
    """Add directions to a scalar or diagonal covariance (see `add_directions`)."""
    m = base.m

    def gradient(model: Result) -> Array:
        Theta = model.fit.value.Theta
        if Theta.ndim == 1:
            Theta = np.diag(Theta)
        return m(Theta, model.fit.value.kappa).G

    def fit(model: Result, structure: FactorCovariance, x: Array) -> Result:
        covariance_fit = lbfgs(
            m,
            structure,
            x,
            kappa=model.fit.value.kappa,
            tol=problem.tol,
            max_iter=5 * problem.max_iter,
        )
        return Result(f"{base.name}+{structure.rank}", m, structure, covariance_fit)

    return covariance.add_directions(
        base,
        gradient,
        fit,
        max_rank=max_rank,
        n_forced=n_forced,
        initial_length=0.5,
        min_std=1e-2,
    )


def automatic(problem: HierarchicalProblem) -> Result:
    """Choose intercept, scalar or diagonal by AIC, then add directions while they pay.

    A structure is tried where there are `TARGETS` targets per parameter.
    """
    max_parameters = problem.data.N / TARGETS
    level = problem.intercept and 0 in problem.random
    sizes = {"intercept": 1, "scalar": 1 + level, "diagonal": len(problem.random)}
    tried = [
        name
        for name, size in sizes.items()
        if size <= max_parameters or name == "intercept"
    ]
    if not level:
        tried = [name for name in tried if name != "intercept"] or ["scalar"]
    fits = {name: fit_covariance(problem, name) for name in tried}
    best = min(fits.values(), key=lambda result: result.aic)
    if best.name == "intercept":
        base = fits.get("scalar", best)
    else:
        base = best
    p = len(base.m.random)
    rank = int(
        min(
            (max_parameters - base.fit.n_free_parameters) / p,
            p // 2,
            problem.data.T // covariance.TASKS_PER_DIRECTION,
        )
    )
    if base.name in ("scalar", "diagonal") and rank > 0:
        best = min(
            best,
            grown(problem, base, min(rank, covariance.MAX_RANK)),
            key=lambda result: result.aic,
        )
    return best


# ---------------------------------------------------------------------- variances integrated out
#
# One or two standard deviations integrated instead of maximized: of few tasks a maximum says too little.

#: Points per standard deviation, and the rise of the criterion at which the range ends.
POINTS = 7
RISE = 16.0
#: Maximum numbers of tasks, and of columns, for "auto".
FEW_TASKS = 10
FEW_COLUMNS = 256
# Standard deviations, in units of the structure, beyond which a range is not followed, and below which it begins at 0.
_LARGEST = 1e3
_SMALLEST = 1e-2
# Points of less weight are left out.
_LIGHT = 1e-4


def can_integrate(result: Result) -> bool:
    """Whether a model has one or two variances, which the rows say something about."""
    return (
        isinstance(result.structure, GroupedVariances)
        and 1 <= result.structure.n_parameters <= 2
    )


def integrated(result: Result) -> Posterior:
    """Return the posterior with the standard deviations of `result` integrated out; `Sigma` and `s2` are means."""
    m = result.m
    structure = result.structure
    kappa = result.fit.value.kappa
    assert isinstance(structure, GroupedVariances)
    x = result.fit.x

    def at(roots: Array) -> MarginalValue:
        return m(structure.theta(roots), kappa)

    def along(i: int, root: float) -> float:
        return at(_with(x, i, root)).criterion

    axes = [
        _axis(partial(along, i), float(x[i]), result.criterion) for i in range(len(x))
    ]
    points = []
    for point in itertools.product(*axes):
        roots = np.array([root for root, _ in point])
        weight = float(np.prod([weight for _, weight in point]))
        points.append((roots, weight))
    values = [at(roots) for roots, _ in points]
    lowest = min(v.criterion for v in values)
    weights = np.array(
        [
            w * np.exp(-0.5 * (v.criterion - lowest))
            for v, (_, w) in zip(values, points, strict=True)
        ]
    )
    total = weights.sum()
    if not total > 0:
        # Of very many rows the range is too narrow for floats, and the maximum is all.
        return result.posterior()
    weights /= total
    kept = np.flatnonzero(weights > _LIGHT)
    parts = [posterior_of(m, values[i]) for i in kept]
    return _mixed(parts, weights[kept] / weights[kept].sum(), m.nu)


def _with(x: Array, i: int, value: float) -> Array:
    out = x.copy()
    out[i] = value
    return out


def _axis(
    f: Callable[[float], float], x: float, lowest: float
) -> list[tuple[float, float]]:
    """Return points and weights of a standard deviation around x, where f is lowest; x alone where f never rises."""
    high = max(x, 0.05)
    while f(high) < lowest + RISE:
        high *= 1.5
        if high > _LARGEST:
            return [(x, 1.0)]
    low = x
    while low > _SMALLEST and f(low) < lowest + RISE:
        low /= 1.5
    if low <= _SMALLEST or f(0.0) < lowest + RISE:
        low = 0.0
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    half = (high - low) / 2
    return [
        (float(low + half * (node + 1)), float(half * weight))
        for node, weight in zip(nodes, weights, strict=True)
    ]


def _mixed(parts: list[Posterior], weights: Array, nu: float) -> Posterior:
    """Return the moments of a mixture of posteriors; the noise follows a t distribution with nu degrees."""
    W = _mean(weights, [part.W for part in parts])
    mu = _mean(weights, [part.mu for part in parts])
    around = []
    for part in parts:
        covariances = np.array([part.covariance(t) for t in range(len(W))])
        around.append(covariances + _outer(part.W - W))
    news = [part.covariance(-1) + _outer(part.mu - mu) for part in parts]
    means = [part.mean_covariance + _outer(part.mu - mu) for part in parts]
    wider = nu / (nu - 2) if nu > 4 else 2.0
    s2 = float(weights @ np.array([part.s2 for part in parts])) * wider
    Sigma = _mean(weights, [part.Sigma for part in parts])
    explicit = _mean(weights, around)
    new = _mean(weights, news)
    return Posterior(
        W, mu, _mean(weights, means), Sigma, s2, parts[0].data, explicit, new
    )


def _mean(weights: Array, values: list[Array]) -> Array:
    return np.asarray(np.tensordot(weights, np.stack(values), 1))


def _outer(a: Array) -> Array:
    return a[..., :, None] * a[..., None, :]


# ---------------------------------------------------------------------- a noise of its own for every task
#
# The noises are drawn around a common one: y_t = X_t w_t + e_t, e_t ~ N(0, s2 v_t), where v_t has an inverse gamma
# distribution with r / 2 as shape and as scale: 1 / v_t has mean one. Rows divided by the root of v_t have a common
# noise, and everything that is known of such rows holds for them. For given r, the covariance and v together minimize
#
#     F = D(rows / sqrt(v)) + sum_t n_t log v_t + sum_t [r (log v_t + 1 / v_t) + c(r)]
#
#     dF / d log v_t = n_t - E|y_t - X_t w_t|^2 / (s2 v_t) + r (1 - 1 / v_t)
#
# D is minus twice the (restricted) log-likelihood, the expectation that over w_t given all rows, and c(r) norms the
# density of log v_t. Given rows, v_t is about inverse gamma again, with r + h_t degrees of freedom, h_t the expected
# information of the rows about log v_t, and the mode that F has; so r minimizes -2 log of the integral of exp(-F / 2)
# over all log v_t by Laplace's approximation: F + sum_t log((r + h_t) / 4 pi). Where the noises do not differ r is
# infinite, and this is D.

#: Degrees of freedom r that are tried, infinity before them, until they fit worse.
DEGREES = (64.0, 32.0, 16.0, 8.0, 4.0, 3.0)
# Halvings of a step, the longest one in log v, and the predicted reduction below which a step lowers nothing but rounding.
_HALVINGS = 25
_LONGEST = 2.0
_ROUNDING = 1e-5


@dataclass(frozen=True)
class OwnNoise:
    """A fitted model whose tasks have noises of their own.

    Attributes
    ----------
    result : Result
        Of the rows divided by the roots of `v`.
    v : ndarray of shape (T,)
        Variances of the noises in units of the common one, the most probable ones of log v.
    mean : ndarray of shape (T,)
        Their means given the rows, which are what new rows have to expect.
    degrees : float
        r; infinite where the noises do not differ.
    path : list of float
        F of the iterates for this r; it never rises.
    predicted_reduction : float
        By how much a further step would lower F, as its model says.
    converged : bool
    criterion : float
        Minus twice the logarithm of the likelihood, v integrated out.
    n_evaluations : int
    """

    result: Result
    v: Array
    mean: Array
    degrees: float
    path: list[float]
    predicted_reduction: float
    converged: bool
    criterion: float
    n_evaluations: int

    @classmethod
    def none(cls, result: Result) -> OwnNoise:
        """Return a model whose tasks have one noise."""
        fit = result.fit
        ones = np.ones(result.m.data.T)
        return cls(
            result,
            ones,
            ones,
            np.inf,
            fit.path,
            fit.predicted_reduction,
            fit.converged,
            result.criterion,
            fit.n_evaluations,
        )

    @property
    def of_new_task(self) -> float:
        """Mean of v for a task without rows."""
        if np.isinf(self.degrees):
            return 1.0
        return self.degrees / (self.degrees - 2)


def own_noise(problem: HierarchicalProblem, common: Result) -> OwnNoise:
    """Return the model whose degrees of freedom fit best, from a fit with a common noise.

    Parameters
    ----------
    problem : HierarchicalProblem
    common : Result
        Its covariance structure is kept.
    """
    best = last = OwnNoise.none(common)
    for degrees in DEGREES:
        last = solved(problem, last, degrees)
        if last.criterion >= best.criterion:
            break
        best = last
    return replace(best, n_evaluations=last.n_evaluations)


def solved(problem: HierarchicalProblem, start: OwnNoise, degrees: float) -> OwnNoise:
    """Minimize F for given degrees of freedom, from another fit.

    Every step is one of Newton in log v, s2 profiled; the covariance is fitted again at every point.
    """
    v = start.v
    result = start.result
    n_evaluations = start.n_evaluations
    if np.isinf(start.degrees):
        result = _again(problem, result, v)
    path = [_objective(result, v, degrees)]
    reduction = np.inf
    converged = False
    for _ in range(problem.max_iter):
        g, h, u = _slopes(result, v)
        step, reduction = _step(
            g + degrees * (1 - 1 / v), np.maximum(h, u) + degrees / v, u, result.m.nu
        )
        reduction += max(result.fit.predicted_reduction, 0.0)
        if reduction < problem.tol:
            converged = True
            break
        accepted = None
        for k in range(_HALVINGS):
            new = v * np.exp(0.5**k * np.clip(step, -_LONGEST, _LONGEST))
            other = _again(problem, result, new)
            n_evaluations += other.fit.n_evaluations
            if _objective(other, new, degrees) < path[-1]:
                accepted = new, other
                break
        if accepted is None:
            converged = reduction < _ROUNDING
            break
        v, result = accepted
        path.append(_objective(result, v, degrees))
    after = degrees + _slopes(result, v)[1]
    criterion = path[-1] + float(np.log(after / (4 * np.pi)).sum())
    return OwnNoise(
        result,
        v,
        v * after / (after - 2),
        degrees,
        path,
        reduction,
        converged,
        criterion,
        n_evaluations,
    )


def _again(problem: HierarchicalProblem, result: Result, v: Array) -> Result:
    """Fit the covariance again, of the same structure and from where it was, to rows divided by the roots of v."""
    m = replace(problem, data=weighted(problem.data, v)).marginal(result.m.random)
    kappa = result.fit.value.kappa
    tol = problem.tol
    if isinstance(result.structure, GroupedVariances):
        start = result.fit.x
        fit = newton(
            m,
            result.structure,
            start=start,
            kappa=kappa,
            tol=tol,
            max_iter=problem.max_iter,
        )
    else:
        fit = lbfgs(
            m,
            result.structure,
            result.fit.x,
            kappa=kappa,
            tol=tol,
            max_iter=10 * problem.max_iter,
        )
    return Result(result.name, m, result.structure, fit)


def _objective(result: Result, v: Array, degrees: float) -> float:
    half = degrees / 2
    norm = -2 * (half * np.log(half) - gammaln(half)) * len(v)
    return result.criterion + float(
        (result.m.data.n * np.log(v) + degrees * (np.log(v) + 1 / v)).sum() + norm
    )


def _slopes(result: Result, v: Array) -> tuple[Array, Array, Array]:
    """Return for every task the derivative of D + n log v in log v, its expected second one, and squares / s2."""
    data = result.m.data
    value = result.fit.value
    m = result.m
    W = posterior_of(m, value).W
    Theta = value.Theta
    seen, second, mean = (np.empty(data.T) for _ in range(3))
    u = data.rest / value.s2
    for block, q in zip(data.blocks, value.Q, strict=True):
        RJ = block.R[:, :, m.random]
        qj = q[:, :, m.random]
        half, moved = (
            (qj * Theta, RJ * Theta) if Theta.ndim == 1 else (qj @ Theta, RJ @ Theta)
        )
        P = half @ qj.transpose(0, 2, 1)  # similar to I - V^-1
        seen[block.tasks] = np.trace(P, axis1=1, axis2=2)
        second[block.tasks] = np.square(P).sum(axis=(1, 2))
        left = (block.R - moved @ (qj.transpose(0, 2, 1) @ q)) @ value.basis  # V^-1 R
        mean[block.tasks] = ((left @ value.projected) * left).sum(axis=(1, 2))
        residual = block.z - np.matmul(block.R, W[block.tasks, :, None])[:, :, 0]
        u[block.tasks] += np.square(residual).sum(axis=1) / value.s2
    return data.n - seen - mean - u, data.n - 2 * seen + second, u


def _step(g: Array, h: Array, u: Array, nu: float) -> tuple[Array, float]:
    """Return the step of the model with the Hessian diag(h) - u u' / nu, and the fall that it predicts.

    The second part is how s2 follows when all noises move together. It is positive definite: h > u, and the u add up to
    no more than nu.
    """
    by = g / h
    against = u / h
    step = -(by + against * float(u @ by) / (nu - float(u @ against)))
    return step, -0.5 * float(g @ step)
