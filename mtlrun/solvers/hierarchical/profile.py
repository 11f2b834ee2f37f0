"""Profile-likelihood intervals of variances between tasks.

Let h(Theta) = tr(K Theta) for a positive semidefinite K: the relative variance of one
coefficient, or of the targets. The profile of D at c is

    D(c) = min D(Theta) subject to h(Theta) = c

where mu and s2 are profiled as everywhere. The interval holds all c at which D(c)
exceeds the minimum by at most the quantile of chi-square with one degree of freedom.

Each structure is quadratic in its parameters: theta(s x) = s^2 theta(x). So each x
with h > 0, scaled by sqrt(c / h), fulfills the constraint, and the minimum over all x
is without constraints.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.stats import chi2

from mtlrun.solvers.hierarchical.covariance import GroupedVariances
from mtlrun.solvers.hierarchical.fit import Result
from mtlrun.solvers.hierarchical.marginal import MarginalValue, as_matrix
from mtlrun.solvers.hierarchical.posterior import Posterior, posterior_of, shares

Array = np.ndarray

# Precision of the ends, in units of log c: a hundredth of c.
_PRECISION = 0.01
# Factor between values of c while an end is bracketed, and the largest range.
_FACTOR = 4.0
_MAX_RANGE = 1e8
# Smallest relative standard deviation at a start: zero is a stationary point.
_MIN_STD = 1e-2
# Tolerance of the gradient of D: far less than the quantile of chi-square.
_GTOL = 1e-3


@dataclass(frozen=True)
class VarianceInterval:
    """A profile-likelihood interval of a variance between tasks.

    Attributes
    ----------
    name : str
        "tasks" for all differences between tasks together, "level" or the name of a
        column.
    variance, low, high : float
        Estimate and ends: variance of the coefficient in the units of `covariance_`;
        of "tasks" the variance of the targets that the differences explain. `high` is
        infinite if the rows set no upper bound.
    share, share_low, share_high : float
        The same as shares of the variance of the targets.
    """

    name: str
    variance: float = 0.0
    low: float = 0.0
    high: float = 0.0
    share: float = 0.0
    share_low: float = 0.0
    share_high: float = 0.0


def variance_interval(
    result: Result,
    posterior: Posterior,
    name: str,
    weights: Array,
    coefficient: int | None,
    intercept: bool,
    level: float,
) -> VarianceInterval:
    """Return the interval of tr(weights Sigma), and of its share.

    Parameters
    ----------
    result : Result
        Fit of the structure of the model.
    posterior : Posterior
        Of the model.
    name : str
        Name of the variance.
    weights : ndarray of shape (p, p)
    coefficient : int or None
        Coefficient whose share is meant; None for that of all coefficients.
    intercept : bool
        Whether column 0 is the intercept.
    level : float
        Probability of the interval.
    """
    K = weights[np.ix_(result.m.random, result.m.random)]
    if not np.trace(K) > 0:
        return VarianceInterval(name)

    def variance_and_share(at: Posterior) -> tuple[float, float]:
        by_source = shares(
            posterior.target_moments(),
            at.mu,
            at.Sigma,
            posterior.mean_noise() * at.s2 / posterior.s2,
            intercept,
        )
        share = by_source.tasks
        if coefficient is not None:
            share = float(by_source.columns[coefficient])
        return float((weights * at.Sigma).sum()), share

    lower, upper = profile_interval(result, K, level)
    variance, share = variance_and_share(posterior)
    low = (0.0, 0.0)
    high = (np.inf, 1.0)
    if lower is not None:
        low = variance_and_share(posterior_of(result.m, lower))
    if upper is not None:
        high = variance_and_share(posterior_of(result.m, upper))
    return VarianceInterval(name, variance, low[0], high[0], share, low[1], high[1])


def profile_interval(
    result: Result, K: Array, level: float
) -> tuple[MarginalValue | None, MarginalValue | None]:
    """Return the fits at both ends of the interval of h.

    Parameters
    ----------
    result : Result
        Fit with random columns.
    K : ndarray of shape (p_r, p_r)
        Of the random columns of the fit.
    level : float
        Probability of the interval.

    Returns
    -------
    lower, upper : MarginalValue or None
        None for a lower end of 0, and for an upper end beyond all bounds.
    """
    limit = result.criterion + float(chi2.ppf(level, 1))
    estimate = float(np.sum(K * as_matrix(result.fit.value.Theta)))
    # An estimate of zero is far below the variance of a coefficient that one task
    # estimates.
    unit = float(np.diag(K) @ result.m.scale)
    start = max(estimate, unit / np.sqrt(_MAX_RANGE))
    lower = None
    if estimate > start / _MAX_RANGE:
        lower = _end(_Profile(result, K), limit, start, 1 / _FACTOR)
    return lower, _end(_Profile(result, K), limit, start, _FACTOR)


def _end(
    profile: _Profile, limit: float, start: float, factor: float
) -> MarginalValue | None:
    """Return the fit where the profile crosses the limit, None if it never does.

    Parameters
    ----------
    profile : _Profile
    limit : float
        Value of D.
    start : float
        Value of c inside the interval.
    factor : float
        Ratio of the values of c that are tried in turn, until one is outside.
    """
    inside = start
    outside = start * factor
    while profile.fit(outside).criterion < limit:
        inside = outside
        outside *= factor
        if max(outside / start, start / outside) > _MAX_RANGE:
            return None
    root = brentq(
        lambda log_c: profile.fit(float(np.exp(log_c))).criterion - limit,
        np.log(inside),
        np.log(outside),
        xtol=_PRECISION,
    )
    return profile.fit(float(np.exp(root)))


class _Profile:
    """Fits with a given h; each starts from the previous one."""

    def __init__(self, result: Result, K: Array) -> None:
        self.m = result.m
        self.structure = result.structure
        self.kappa = result.fit.value.kappa
        self.K = K
        if isinstance(result.structure, GroupedVariances):
            # Theta is a vector, the diagonal.
            self.K = np.diag(K)
        x = result.fit.x
        self.x = np.where(np.abs(x) < _MIN_STD, _MIN_STD, x)

    def fit(self, c: float) -> MarginalValue:
        """Minimize D subject to h(Theta) = c."""
        if self.structure.n_parameters > 1:
            run = minimize(
                self._objective,
                self.x,
                args=(c,),
                jac=True,
                method="L-BFGS-B",
                options={"gtol": _GTOL, "ftol": 0.0, "maxiter": 50},
            )
            self.x = run.x
        return self._value(self.x, self._scale(self.x, c))

    def _scale(self, x: Array, c: float) -> float:
        """Return s so that h of the covariance of s x is c."""
        h = float(np.sum(self.K * self.structure.theta(x)))
        return float(np.sqrt(c / max(h, np.finfo(float).tiny)))

    def _value(self, x: Array, s: float) -> MarginalValue:
        return self.m(self.structure.theta(s * x), self.kappa)

    def _objective(self, x: Array, c: float) -> tuple[float, Array]:
        """Return D at s x, and its gradient with respect to x.

        With g the gradient at s x, it is s g - s (x'g) h' / (2 h), because s is the
        root of c / h(x).
        """
        s = self._scale(x, c)
        value = self._value(x, s)
        g = self.structure.gradient(s * x, value.G)
        h_gradient = self.structure.gradient(x, self.K)
        h = c / s**2
        gradient = s * g - s * float(x @ g) * h_gradient / (2 * h)
        return value.criterion, gradient
