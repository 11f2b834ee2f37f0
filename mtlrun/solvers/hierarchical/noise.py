"""A noise of its own for every task, drawn around a common one.

y_t = X_t w_t + e_t, e_t ~ N(0, s2 v_t), where v_t has an inverse gamma distribution with r / 2 as shape and as scale:
1 / v_t has mean one. Rows divided by the root of v_t have a common noise, and everything that is known of such rows
holds for them. For given r, the covariance and v together minimise::

    F = D(rows / sqrt(v)) + sum_t n_t log v_t + sum_t [r (log v_t + 1 / v_t) + c(r)]

    dF / d log v_t = n_t - E|y_t - X_t w_t|^2 / (s2 v_t) + r (1 - 1 / v_t)

D is minus twice the (restricted) log-likelihood, the expectation that over w_t given all rows, and c(r) norms the
density of log v_t. Given rows, v_t is about inverse gamma again, with r + h_t degrees of freedom, h_t the expected
information of the rows about log v_t, and the mode that F has; so r minimises -2 log of the integral of exp(-F / 2)
over all log v_t by Laplace's approximation: F + sum_t log((r + h_t) / 4 pi). Where the noises do not differ r is
infinite, and this is D.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from mtlrun.solvers.hierarchical.compress import weighted
from mtlrun.solvers.hierarchical.covariance import Tied, factored, newton
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, Result
from mtlrun.solvers.hierarchical.posterior import posterior_of

Array = np.ndarray[Any, np.dtype[Any]]

#: Degrees of freedom r that are tried, infinity before them, until they fit worse.
DEGREES = (64.0, 32.0, 16.0, 8.0, 4.0, 3.0)
# Halvings of a step, the longest one in log v, and the predicted gain below which a step lowers nothing but rounding.
_HALVINGS, _LONGEST, _ROUNDING = 25, 2.0, 1e-5


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
    gain : float
        By how much a further step would lower F, as its model says.
    converged : bool
    criterion : float
        Minus twice the logarithm of the likelihood, v integrated out.
    evaluations : int
    """

    result: Result
    v: Array
    mean: Array
    degrees: float
    path: list[float]
    gain: float
    converged: bool
    criterion: float
    evaluations: int

    @property
    def of_new_task(self) -> float:
        """Mean of v for a task without rows."""
        return 1.0 if np.isinf(self.degrees) else self.degrees / (self.degrees - 2)


def own_noise(problem: HierarchicalProblem, common: Result) -> OwnNoise:
    """Return the model whose degrees of freedom fit best, from a fit with a common noise.

    Parameters
    ----------
    problem : HierarchicalProblem
    common : Result
        Its covariance structure is kept.
    """
    fit = common.fit
    one = np.ones(problem.data.T)
    best = OwnNoise(common, one, one, np.inf, fit.path, fit.gain, fit.converged, common.criterion, fit.evaluations)
    last = best
    for degrees in DEGREES:
        last = solved(problem, last, degrees)
        if last.criterion >= best.criterion:
            break
        best = last
    return replace(best, evaluations=last.evaluations)


def solved(problem: HierarchicalProblem, start: OwnNoise, degrees: float) -> OwnNoise:
    """Minimise F for given degrees of freedom, from another fit.

    Every step is one of Newton in log v, s2 profiled; the covariance is fitted again at every point.
    """
    v, result, evaluations = start.v, start.result, start.evaluations
    if np.isinf(start.degrees):
        result = _again(problem, result, v)
    path, gain, converged = [_objective(result, v, degrees)], np.inf, False
    for _ in range(problem.max_iter):
        g, h, u = _slopes(result, v)
        step, gain = _step(g + degrees * (1 - 1 / v), np.maximum(h, u) + degrees / v, u, result.m.nu)
        gain += max(result.fit.gain, 0.0)
        if gain < problem.tol:
            converged = True
            break
        found = None
        for k in range(_HALVINGS):
            new = v * np.exp(0.5**k * np.clip(step, -_LONGEST, _LONGEST))
            other = _again(problem, result, new)
            evaluations += other.fit.evaluations
            if _objective(other, new, degrees) < path[-1]:
                found = new, other
                break
        if found is None:
            converged = gain < _ROUNDING
            break
        v, result = found
        path.append(_objective(result, v, degrees))
    after = degrees + _slopes(result, v)[1]
    criterion = path[-1] + float(np.log(after / (4 * np.pi)).sum())
    return OwnNoise(result, v, v * after / (after - 2), degrees, path, gain, converged, criterion, evaluations)


def _again(problem: HierarchicalProblem, result: Result, v: Array) -> Result:
    """Fit the covariance again, of the same structure and from where it was, to rows divided by the roots of v."""
    m = replace(problem, data=weighted(problem.data, v)).marginal(result.m.random)
    kappa, tol = result.fit.value.kappa, problem.tol
    if isinstance(result.structure, Tied):
        start = result.fit.x
        fit = newton(m, result.structure, start=start, kappa=kappa, tol=tol, max_iter=problem.max_iter)
    else:
        fit = factored(m, result.structure, result.fit.x, kappa=kappa, tol=tol, max_iter=10 * problem.max_iter)
    return replace(result, m=m, fit=fit)


def _objective(result: Result, v: Array, degrees: float) -> float:
    half = degrees / 2
    norm = -2 * (half * np.log(half) - gammaln(half)) * len(v)
    return result.criterion + float((result.m.data.n * np.log(v) + degrees * (np.log(v) + 1 / v)).sum() + norm)


def _slopes(result: Result, v: Array) -> tuple[Array, Array, Array]:
    """Return for every task the derivative of D + n log v in log v, its expected second one, and squares / s2."""
    m, value, data = result.m, result.fit.value, result.m.data
    W, Theta = posterior_of(m, value).W, value.Theta
    seen, second, mean = (np.empty(data.T) for _ in range(3))
    u = data.rest / value.s2
    for block, q in zip(data.blocks, value.Q, strict=True):
        RJ, qj = block.R[:, :, m.random], q[:, :, m.random]
        half, moved = (qj * Theta, RJ * Theta) if Theta.ndim == 1 else (qj @ Theta, RJ @ Theta)
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
    by, against = g / h, u / h
    step = -(by + against * float(u @ by) / (nu - float(u @ against)))
    return step, -0.5 * float(g @ step)
