"""One or two standard deviations integrated instead of maximised: of few tasks a maximum says too little.

The prior of the standard deviations is flat. The likelihood is evaluated at Gauss-Legendre points between the values
where it has fallen by exp(-8), and means and covariances of the coefficients are mixed over these points.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mtlrun.solvers.hierarchical.fit import Result
from mtlrun.solvers.hierarchical.marginal import MarginalValue
from mtlrun.solvers.hierarchical.posterior import Posterior, posterior_of
from mtlrun.solvers.hierarchical.structures import Tied

Array = np.ndarray[Any, np.dtype[Any]]

#: Points per standard deviation, and the rise of the criterion at which the range ends.
POINTS, RISE = 7, 16.0
#: "auto": so many tasks, and columns, at most.
FEW_TASKS, FEW_COLUMNS = 10, 256
# Standard deviations, in units of the structure, beyond which a range is not followed, and below which it begins at 0.
_LARGEST, _SMALLEST = 1e3, 1e-2
# Points of less weight are left out.
_LIGHT = 1e-4


def can_integrate(result: Result) -> bool:
    """Whether a model has one or two variances, which the rows say something about."""
    return isinstance(result.structure, Tied) and 1 <= result.structure.size <= 2


def integrated(result: Result) -> Posterior:
    """Return the posterior with the standard deviations of `result` integrated out; `Sigma` and `s2` are means."""
    m, structure, kappa = result.m, result.structure, result.fit.value.kappa
    assert isinstance(structure, Tied)
    x = result.fit.x

    def at(roots: Array) -> MarginalValue:
        return m(structure.theta(roots), kappa)

    def along(i: int, root: float) -> float:
        return at(_with(x, i, root)).criterion

    axes = [_axis(partial(along, i), float(x[i]), result.criterion) for i in range(len(x))]
    points = [(np.array([v for v, _ in p]), float(np.prod([w for _, w in p]))) for p in itertools.product(*axes)]
    values = [at(roots) for roots, _ in points]
    lowest = min(v.criterion for v in values)
    weights = np.array([w * np.exp(-0.5 * (v.criterion - lowest)) for v, (_, w) in zip(values, points, strict=True)])
    weights /= weights.sum()
    kept = np.flatnonzero(weights > _LIGHT)
    parts = [posterior_of(m, values[i]) for i in kept]
    return _mixed(parts, weights[kept] / weights[kept].sum(), m.nu)


def _with(x: Array, i: int, value: float) -> Array:
    out = x.copy()
    out[i] = value
    return out


def _axis(f: Callable[[float], float], x: float, lowest: float) -> list[tuple[float, float]]:
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
    return [(float(low + half * (node + 1)), float(half * weight)) for node, weight in zip(nodes, weights, strict=True)]


def _mixed(parts: list[Posterior], weights: Array, nu: float) -> Posterior:
    """Return the moments of a mixture of posteriors; the noise is that of a t distribution with nu degrees."""
    W = _mean(weights, [part.W for part in parts])
    mu = _mean(weights, [part.mu for part in parts])
    around = [np.array([part.covariance(t) for t in range(len(W))]) + _outer(part.W - W) for part in parts]
    news = [part.covariance(-1) + _outer(part.mu - mu) for part in parts]
    means = [part.mean_covariance + _outer(part.mu - mu) for part in parts]
    wider = nu / (nu - 2) if nu > 4 else 2.0
    s2 = float(weights @ np.array([part.s2 for part in parts])) * wider
    Sigma = _mean(weights, [part.Sigma for part in parts])
    explicit, new = _mean(weights, around), _mean(weights, news)
    return Posterior(W, mu, _mean(weights, means), Sigma, s2, parts[0].data, explicit, new)


def _mean(weights: Array, values: list[Array]) -> Array:
    return np.asarray(np.tensordot(weights, np.stack(values), 1))


def _outer(a: Array) -> Array:
    return a[..., :, None] * a[..., None, :]
