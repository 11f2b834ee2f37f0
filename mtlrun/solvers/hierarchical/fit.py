"""Fit the covariance of a hierarchical model by its marginal likelihood.

The model is y_t = X_t w_t + e_t with w_t ~ N(mu, s2 Theta) and e_t ~ N(0, s2). Theta
has one of the structures of `mtlrun.solvers.hierarchical.covariance`:

* `fit_covariance` fits one structure, or chooses one by AIC (`automatic`).
* `own_noise` lets the variance of the noise differ between tasks; `automatic_noise`
  decides whether it does.

In the code, `m` is the criterion D of `mtlrun.solvers.hierarchical.marginal`: minus
twice the (restricted) log-likelihood as a function of Theta and kappa, where kappa is
the variance of the prior of the mean mu.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from mtlrun.solvers.hierarchical.marginal import Marginal, MarginalValue, as_matrix
from mtlrun.solvers.hierarchical.posterior import Posterior, posterior_of

Array = np.ndarray

#: `automatic` tries a structure only if there are this many targets per parameter.
TARGETS = 10.0
#: With fewer rows per column than this, the mean of the coefficients has a ridge prior.
ROWS_PER_MEAN = 3.0


@dataclass(frozen=True)
class HierarchicalProblem:
    """Data and options of a fit.

    Attributes
    ----------
    data : Compressed
        Compressed rows of all tasks.
    random : ndarray of int
        Columns whose coefficients may differ between tasks.
    intercept : bool
        Whether column 0 is the intercept.
    method : {"reml", "ml"}
        Restricted or plain likelihood.
    shrink : bool
        Whether the mean of the slopes has a ridge prior.
    tol : float
        A fit stops when a further step would reduce the criterion by less than this.
    max_iter : int
        Maximum number of Newton steps. Fits by L-BFGS may take 5 to 10 times as many.
    """

    data: Compressed
    random: Array
    intercept: bool = True
    method: str = "reml"
    shrink: bool = False
    tol: float = 1e-8
    max_iter: int = 100

    def marginal(
        self, random: Array | None = None, frame: Array | None = None
    ) -> Marginal:
        """Return the criterion D of a model with some random columns.

        Parameters
        ----------
        random : ndarray of int, optional
            Columns whose coefficients differ between tasks; default: all that may.
        frame : ndarray of shape (p, f), optional
            Basis of the mean, see `Marginal`.
        """
        shrunk = None
        if self.shrink:
            shrunk = np.arange(int(self.intercept), self.data.p)
        return Marginal(
            self.data,
            self.random if random is None else random,
            self.method,
            shrunk,
            frame,
        )

    def grouped_variances(self, m: Marginal, name: str) -> GroupedVariances:
        """Return a diagonal structure of the random columns of `m`.

        Parameters
        ----------
        m : Marginal
        name : {"none", "intercept", "scalar", "diagonal"}
        """
        return covariance.grouped_variances(
            name, m.scale, (m.random == 0) & self.intercept
        )


class Result(CovarianceModel[Marginal, MarginalValue]):
    """A fitted model: covariance structure, criterion and optimum."""

    def posterior(self) -> Posterior:
        """Return the posterior of the coefficients."""
        return posterior_of(self.m, self.fit.value)


def fit_covariance(problem: HierarchicalProblem, name: str) -> Result:
    """Fit a model whose covariance has a given structure.

    Parameters
    ----------
    problem : HierarchicalProblem
    name : {"none", "intercept", "scalar", "diagonal", "full", "factor", "auto"}
        "factor" is a diagonal plus directions, which are added while they improve the
        AIC, but at least one. "auto" chooses the structure, see `automatic`.
    """
    if problem.data.T == 1 or not len(problem.random):
        # A single task does not differ from the mean of all tasks.
        name = "none"
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
        base = fit_covariance(problem, "diagonal")
        full = FullCovariance(base.m.scale)
        # The criterion has several minima. The fits from the diagonal covariance and
        # from the scaled identity may end in different ones, and the better one counts.
        fits = []
        for theta in (base.fit.value.Theta, base.m.scale):
            fit = lbfgs(
                base.m,
                full,
                full.from_covariance(theta),
                kappa=base.fit.value.kappa,
                tol=problem.tol,
                max_iter=10 * problem.max_iter,
            )
            fits.append(fit)
        n_evaluations = base.fit.n_evaluations + sum(fit.n_evaluations for fit in fits)
        best = min(fits, key=lambda fit: fit.value.criterion)
        return Result("full", base.m, full, replace(best, n_evaluations=n_evaluations))
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


def grown(
    problem: HierarchicalProblem,
    base: Result,
    max_rank: int,
    n_forced: int = 0,
) -> Result:
    """Add directions to a scalar or diagonal covariance (see `add_directions`)."""
    m = base.m

    def gradient(model: Result) -> Array:
        value = model.fit.value
        return m(as_matrix(value.Theta), value.kappa).G

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


def refitted(problem: HierarchicalProblem, name: str) -> Result:
    """Fit a structure that `fit_covariance` has chosen, such as ``diagonal+2``."""
    name, _, rank = name.partition("+")
    result = fit_covariance(problem, name)
    if rank:
        return grown(problem, result, int(rank), n_forced=int(rank))
    return result


def automatic(problem: HierarchicalProblem) -> Result:
    """Choose a structure by AIC: intercept, scalar or diagonal, then directions.

    A structure is tried only if there are `TARGETS` targets per parameter. If a random
    intercept alone is best, directions are added to the scalar structure, in which all
    columns are random.
    """
    max_parameters = problem.data.N / TARGETS
    has_random_intercept = problem.intercept and 0 in problem.random
    sizes = {
        "intercept": 1,
        "scalar": 1 + has_random_intercept,
        "diagonal": len(problem.random),
    }
    tried = [
        name
        for name, size in sizes.items()
        if size <= max_parameters or name == "intercept"
    ]
    if not has_random_intercept:
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


# ------------------------------------------------- noise that differs between tasks
#
# The variances of the noise vary around a common one: y_t = X_t w_t + e_t,
# e_t ~ N(0, s2 v_t), where v_t has an inverse gamma distribution with shape and scale
# r / 2, so that 1 / v_t has mean 1. Rows divided by sqrt(v_t) have a common noise, so
# the model above applies to them. For given r, the covariance and v together minimize
#
#     F = D(rows / sqrt(v)) + sum_t n_t log v_t + sum_t [r (log v_t + 1 / v_t) + c(r)]
#
#     dF / d log v_t = n_t - E|y_t - X_t w_t|^2 / (s2 v_t) + r (1 - 1 / v_t)
#
# where E is the expectation over w_t given all rows, and c(r) normalizes the density of
# log v_t. Given the rows, v_t is again about inverse gamma, with r + h_t degrees of
# freedom and the mode that minimizes F; h_t is the expected information of the rows
# about log v_t. So r minimizes Laplace's approximation of -2 log of the integral of
# exp(-F / 2) over all log v_t: F + sum_t log((r + h_t) / 4 pi). If all tasks have the
# same noise, r is infinite and this is D.

#: Degrees of freedom r to try, after infinity, until one of them fits worse.
DEGREES = (64.0, 32.0, 16.0, 8.0, 4.0, 3.0)
# Maximum number of halvings of a step.
_HALVINGS = 25
# Largest change of an entry of log v in a step.
_MAX_STEP = 2.0
# A step whose predicted reduction of F is smaller changes F by rounding only.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class OwnNoise:
    """A fitted model whose noise differs between tasks.

    Attributes
    ----------
    result : Result
        Fit to the rows divided by sqrt(v).
    v : ndarray of shape (T,)
        Variance of the noise of each task in units of s2: the posterior mode in log v.
    mean : ndarray of shape (T,)
        Posterior means of these variances, for predictions of new rows.
    degrees : float
        Degrees of freedom r; infinite if all tasks have the same noise.
    path : list of float
        F of the iterates for this r; it never rises.
    predicted_reduction : float
        By how much a further step would lower F, according to its quadratic model.
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
        """Return the model in which all tasks have the same noise."""
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


def automatic_noise(problem: HierarchicalProblem, common: Result) -> OwnNoise:
    """Choose between a common noise and one that differs between tasks, by AIC.

    A score test of 1 / r = 0, for which nothing is fitted, comes first. With g_t and
    h_t of `_noise_derivatives`, a common noise has ::

        S = sum_t (g_t^2 / 4 - h_t / 2), of mean 0 and variance sum_t h_t^2 / 2

    The square of the standardized S approximates the decrease of the criterion. Noises
    are fitted if that reaches what the parameter r costs.

    Parameters
    ----------
    problem : HierarchicalProblem
    common : Result
        Fit with a common noise.
    """
    g, h, _ = _noise_derivatives(common, np.ones(problem.data.T))
    score = float((np.square(g) / 4 - h / 2).sum())
    score /= max(float(np.sqrt(np.square(h).sum() / 2)), 1e-300)
    if score**2 > covariance.AIC and score > 0:
        noise = own_noise(problem, common)
        if noise.criterion < common.criterion - covariance.AIC:
            return noise
    return OwnNoise.none(common)


def own_noise(problem: HierarchicalProblem, common: Result) -> OwnNoise:
    """Choose the degrees of freedom that fit best.

    Parameters
    ----------
    problem : HierarchicalProblem
    common : Result
        Fit with a common noise, whose covariance structure is kept.
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

    Each step is a Newton step in log v, with s2 profiled out. The covariance is
    refitted at each new v.
    """
    v = start.v
    result = start.result
    n_evaluations = start.n_evaluations
    if np.isinf(start.degrees):
        result = _refit(problem, result, v)
    path = [_objective(result, v, degrees)]
    reduction = np.inf
    converged = False
    for _ in range(problem.max_iter):
        g, h, u = _noise_derivatives(result, v)
        step, reduction = _newton_step(
            g + degrees * (1 - 1 / v),
            np.maximum(h, u) + degrees / v,
            u,
            result.m.nu,
        )
        reduction += max(result.fit.predicted_reduction, 0.0)
        if reduction < problem.tol:
            converged = True
            break
        accepted = None
        for k in range(_HALVINGS):
            new = v * np.exp(0.5**k * np.clip(step, -_MAX_STEP, _MAX_STEP))
            other = _refit(problem, result, new)
            n_evaluations += other.fit.n_evaluations
            if _objective(other, new, degrees) < path[-1]:
                accepted = new, other
                break
        if accepted is None:
            converged = reduction < _ROUNDING
            break
        v, result = accepted
        path.append(_objective(result, v, degrees))
    after = degrees + _noise_derivatives(result, v)[1]
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


def _refit(problem: HierarchicalProblem, result: Result, v: Array) -> Result:
    """Refit the covariance of `result`, to the rows divided by sqrt(v)."""
    rows = replace(problem, data=weighted(problem.data, v))
    m = rows.marginal(result.m.random, result.m.frame)
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
    """Return F."""
    half = degrees / 2
    normalization = -2 * (half * np.log(half) - gammaln(half)) * len(v)
    return result.criterion + float(
        (result.m.data.n * np.log(v) + degrees * (np.log(v) + 1 / v)).sum()
        + normalization
    )


def _noise_derivatives(result: Result, v: Array) -> tuple[Array, Array, Array]:
    """Return derivatives of D + sum_t n_t log v_t with respect to log v.

    Returns
    -------
    g : ndarray of shape (T,)
        First derivatives.
    h : ndarray of shape (T,)
        Expected second derivatives.
    u : ndarray of shape (T,)
        Sums of squared residuals in units of s2.
    """
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


def _newton_step(g: Array, h: Array, u: Array, nu: float) -> tuple[Array, float]:
    """Return the Newton step with the Hessian diag(h) - u u' / nu, and its reduction.

    The rank-one part comes from s2, which changes when all noises change together. The
    Hessian is positive definite, because h > u and sum(u) <= nu.

    Returns
    -------
    step : ndarray of shape (T,)
        By the formula of Sherman and Morrison.
    reduction : float
        Predicted reduction of the objective.
    """
    scaled_g = g / h
    scaled_u = u / h
    step = -(scaled_g + scaled_u * float(u @ scaled_g) / (nu - float(u @ scaled_u)))
    return step, -0.5 * float(g @ step)
