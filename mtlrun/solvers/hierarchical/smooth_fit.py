"""Variances of a smooth hierarchical model: Newton's method with a certificate.

Minimizes over theta >= 0, the variances of the parts in units of the noise variance::

    F(theta) = D(theta) + sum over parts of 2 rate_i sqrt(theta_i) + precision_i theta_i

D is minus twice the logarithm of the marginal likelihood (`smooth_marginal`,
`smooth_labels`). The prior with a rate is exponential in the standard deviation. It
changes nothing on large tables, and keeps small ones from fitting curves to noise. The
prior with a precision is half normal in the standard deviation.

Every step minimizes a quadratic model over theta >= 0, so zeros are exact. The expected
second derivatives make the right step from far away; the exact ones take over near the
minimum, where they are positive definite. The root in the prior is replaced by its
tangent, which lies above it.

A rate makes a variance of zero a local minimum. So the fit starts twice, with all parts
and with the linear ones only. A part that is zero is added, and another part is
dropped, where that lowers F.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mtlrun.solvers.hierarchical.covariance import (
    is_positive_definite,
    minimize_quadratic,
    refine_on_face,
)

Array = np.ndarray

#: Variance of each part at the start, in units of the noise variance.
START = 0.1
#: A search whose steps are predicted to lower F by less than this is given up if ten
#: such steps would not reach the best point.
HOPELESS = 0.03
#: Searches before the last end where a step is predicted to lower F by less than this,
#: and replace the best point only if they lower F by more. On tables of two dozen rows
#: F has flat parts: 0.01 misses minima whose F is lower by 0.4.
COARSE_TOL = 1e-4
#: Halvings of a step before it is given up.
MAX_HALVINGS = 20
#: Largest variance of a part in units of the noise variance.
MAX_THETA = 1e7
#: Curved parts below this variance are dropped if that lowers F.
SMALL_THETA = 1e-8
#: Expected second derivatives below this, in units of 1 / theta^2 at the start, are
#: rounding: the rows say nothing about the variance.
MIN_CURVATURE = 1e-8
#: Share of |D| below which a predicted reduction is rounding.
ROUNDING = 1e-13
#: A predicted reduction below this is rounding if no step lowers F.
STALLED = 1e-4
#: Smallest eigenvalue of clearly positive second derivatives with a diagonal of ones.
MIN_EIGENVALUE = 1e-6
#: A step that is predicted to lower F by less than this uses exact second derivatives.
NEAR = 1.0
#: A part whose removal raises F by less than this is fitted again without it.
DROP_SLACK = 3.0
#: Steps whose differences of gradients correct second derivatives that are not exact.
MAX_DIFFERENCES = 6
#: Rounds of adding and dropping parts.
MAX_ROUNDS = 3


class Criterion(Protocol):
    """D with its derivatives.

    Attributes
    ----------
    n_evaluations : int
    is_curvature_exact : bool
        Whether the second derivatives are exact; else they are corrected by differences
        of gradients.
    max_growth : float or None
        Factor by which a step may multiply a variance of 1 or more, and largest
        variance that it gives to a smaller one.
    """

    n_evaluations: int
    is_curvature_exact: bool
    max_growth: float | None

    def __call__(self, theta: Array) -> Any:
        """Return the solution at theta: `theta`, `criterion` and `gradient`."""

    def solve(self, theta: Array, needs_gradient: Array | None = None) -> Any:
        """Return the solution without its gradient, which costs less.

        The gradient made of it may lack parts whose variance is zero, but not those
        that `needs_gradient`.
        """

    def differentiate(self, solution: Any) -> Any:
        """Return the solution found last, with its `gradient`."""

    def curvature(self, value: Any, parts: Array | None = None) -> tuple[Array, Array]:
        """Return expected and exact second derivatives at the theta evaluated last."""

    def curvature_diagonal(self, value: Any, parts: Array) -> Array:
        """Return the diagonal of the expected ones, zero for the other parts."""


@dataclass(frozen=True)
class VariancePrior:
    """Prior of the standard deviations of the parts, sqrt(theta).

    Attributes
    ----------
    rate : ndarray of shape (n_parts,)
        Rates of exponential priors.
    precision : ndarray of shape (n_parts,)
        Precisions of half-normal priors.
    """

    rate: Array
    precision: Array

    def value(self, theta: Array) -> float:
        """Return minus twice the logarithm of the density, up to a constant."""
        return float(2 * self.rate @ np.sqrt(theta) + self.precision @ theta)

    def gradient(self, theta: Array) -> Array:
        """Return the derivative in theta; a rate adds nothing at zero."""
        std = np.sqrt(np.where(theta > 0, theta, np.inf))
        return self.rate / std + self.precision

    def curvature(self, theta: Array) -> Array:
        """Return the diagonal of the second derivative in theta; it is not positive."""
        std = np.sqrt(np.where(theta > 0, theta, np.inf))
        return np.asarray(-0.5 * self.rate / std**3)


@dataclass(frozen=True)
class VarianceFit:
    """Where the search for the variances ended.

    Attributes
    ----------
    value : CriterionSolution
        Its gradient may lack curved parts whose variance is zero (NaN).
    objective : float
        F.
    path : list of float
        F of each accepted point; it never rises.
    predicted_reduction : float
        By how much a further step, or adding a part, would lower F, as the quadratic
        model says. Parts whose addition was tried in vain do not count if that search
        converged.
    converged : bool
    is_identified : ndarray of bool
        Whether the rows say something about the variance of a part; it is zero where
        they do not.
    """

    value: Any
    objective: float
    path: list[float]
    predicted_reduction: float
    converged: bool
    is_identified: Array

    @property
    def theta(self) -> Array:
        """Variances of the parts in units of the noise variance."""
        return np.asarray(self.value.theta)


def fit_variances(
    criterion: Criterion,
    prior: VariancePrior,
    *,
    tol: float = 1e-6,
    max_iter: int = 100,
    is_forced_zero: Array | None = None,
    start: Array | None = None,
) -> VarianceFit:
    """Minimize F from two starts, then add and drop parts while that lowers it.

    Parameters
    ----------
    criterion : Criterion
    prior : VariancePrior
    tol : float
        Ends when a step is predicted to lower F by less.
    max_iter : int
        Newton steps of each search.
    is_forced_zero : ndarray of bool, optional
        Parts that are left out.
    start : ndarray, optional
        Where to start in place of the two starts.
    """
    n_parts = len(prior.rate)
    search = VarianceSearch(criterion, prior, tol, max_iter)
    allowed = np.ones(n_parts, dtype=bool)
    if is_forced_zero is not None:
        allowed = ~is_forced_zero
    search.identify(allowed)
    if start is not None:
        search.descend(np.where(search.is_identified, start, 0.0))
    else:
        is_curved = prior.rate > 0
        everything = np.where(search.is_identified, START, 0.0)
        search.descend(everything)
        if (is_curved & search.is_identified).any():
            search.descend(np.where(is_curved, 0.0, everything))
    search.finish()
    for _ in range(MAX_ROUNDS):
        if not search.exchange():
            break
        search.finish()
    return search.result()


class VarianceSearch:
    """The best point so far, and the moves from it."""

    def __init__(
        self,
        criterion: Criterion,
        prior: VariancePrior,
        tol: float,
        max_iter: int,
    ) -> None:
        self.criterion = criterion
        self.prior = prior
        self.tol = tol
        self.max_iter = max_iter
        self.is_identified = np.zeros(len(prior.rate), dtype=bool)
        self.best: Any = None
        self.objective = np.inf
        # The best point with derivatives of all parts, and the expected second ones.
        self._additions: tuple[Any, Array] | None = None
        self.path: list[float] = []
        self.reduction = 0.0
        self.has_stalled = False
        # Parts whose addition or removal did not improve the best point, and those
        # whose addition was given up before its search converged.
        self._rejected: set[int] = set()
        self._unsettled: set[int] = set()
        # Whether the search from the last trial was given up before it converged.
        self._is_unsettled = False
        # Whether the search starts from the best point with another set of curves.
        self._is_trial = False
        # Sets of curves with which a search has converged.
        self.ends: set[bytes] = set()
        # The solution and the value that the criterion evaluated last.
        self._solution: Any = None
        self._value: Any = None
        # The step from the best point, and the reduction of F that its model predicts;
        # None where the search ran out of steps.
        self._best_step: tuple[Array, float] | None = None
        # The last value with second derivatives, its parts and the derivatives.
        self._last: tuple[Any, Array, tuple[Array, Array]] | None = None
        # Steps and the changes of the gradient of F along them.
        self._differences: list[tuple[Array, Array]] = []
        self._best_differences: list[tuple[Array, Array]] = []

    def identify(self, allowed: Array) -> None:
        """Find out about which variances the rows say something."""
        value = self._evaluate_all(np.where(allowed, START, 0.0))
        parts = np.flatnonzero(allowed)
        expected, _ = self._curvature(value, parts)
        # The second derivative in log(theta) is twice the information about it.
        information = np.diag(expected) * START**2
        self.is_identified[parts] = information > MIN_CURVATURE

    def _curvature(self, value: Any, parts: Array) -> tuple[Array, Array]:
        """Return second derivatives; a repeated call costs nothing."""
        if self._last is not None:
            last_value, last_parts, derivatives = self._last
            if last_value is value and np.array_equal(last_parts, parts):
                return derivatives
        derivatives = self.criterion.curvature(value, parts)
        self._last = (value, parts, derivatives)
        return derivatives

    def solve(self, theta: Array) -> Any:
        """Evaluate F without the features of parts that stay at zero.

        At the point evaluated last this costs nothing.
        """
        if self._solution is None or not np.array_equal(self._solution.theta, theta):
            self._value = None
            self._solution = self.criterion.solve(
                theta, needs_gradient=self.prior.rate == 0
            )
        return self._solution

    def _differentiate(self, theta: Array) -> Any:
        """Return F with its gradient; at the point evaluated last, without work."""
        solution = self.solve(theta)
        if self._value is None:
            self._value = self.criterion.differentiate(solution)
        return self._value

    def _evaluate_all(self, theta: Array) -> Any:
        """Return F with the derivatives of all parts, even those without variance."""
        value = self._value
        is_current = value is not None and np.array_equal(value.theta, theta)
        if not is_current or np.isnan(value.gradient).any():
            value = self.criterion(theta)
            self._solution = value
            self._value = value
        return value

    def objective_of(self, value: Any) -> float:
        return float(value.criterion + self.prior.value(value.theta))

    def descend(self, theta: Array, *, is_last: bool = False) -> bool:
        """Take Newton steps from theta; return True if the end is kept as better.

        Only a last search reaches the tolerance. It continues from the best point.
        """
        coarse = 0.0 if is_last else COARSE_TOL
        gain = max(self.tol, COARSE_TOL)
        value = self._differentiate(theta)
        objective = self.objective_of(value)
        path = [objective]
        reduction = np.inf
        has_converged = False
        has_stalled = False
        self._differences = list(self._best_differences) if is_last else []
        next_step = self._best_step if is_last else None
        for _ in range(self.max_iter):
            limit = max(self.tolerance(objective), coarse)
            # A trial near the best point with the same curves would end there.
            if (
                self._is_trial
                and objective < self.objective + HOPELESS
                and self._curves(value.theta) == self._curves(self.best.theta)
            ):
                return False
            if next_step is None:
                next_step = self._step(value)
            step, reduction = next_step
            if reduction < limit:
                has_converged = True
                break
            # A search that is going to end above the best point is given up.
            if reduction < HOPELESS and objective - 10 * reduction > self.objective:
                return False
            shorter = self._shorter(value, objective, step)
            if shorter is None:
                has_stalled = reduction < STALLED
                break
            if not self.criterion.is_curvature_exact:
                slope = value.gradient + self.prior.gradient(value.theta)
                new_slope = shorter[0].gradient
                new_slope = new_slope + self.prior.gradient(shorter[0].theta)
                moved = shorter[0].theta - value.theta
                self._differences.append((moved, new_slope - slope))
            value, objective = shorter
            # The step belongs to the point before.
            next_step = None
            path.append(objective)
        self._is_unsettled = not (has_converged or has_stalled)
        if not self._is_unsettled:
            self.ends.add(self._curves(value.theta))
        is_better = self.best is None or objective < self.objective - gain
        if not is_better and not is_last:
            return False
        # Searches are compared by their ends; the path keeps what lowers F.
        self.path += [point for point in path if point < self.objective]
        self.best = value
        self._best_differences = self._differences
        self._best_step = next_step
        self._additions = None
        self._rejected.clear()
        self._unsettled.clear()
        self.objective = objective
        self.reduction = float(reduction)
        self.has_stalled = has_stalled
        return True

    def _curves(self, theta: Array) -> bytes:
        """Return which curved parts have a variance, as a key."""
        return (theta[self.prior.rate > 0] > 0).tobytes()

    def tolerance(self, objective: float) -> float:
        """Return the predicted reduction at which a search ends."""
        return max(self.tol, ROUNDING * abs(objective))

    def _step(self, value: Any) -> tuple[Array, float]:
        """Return a step and the reduction of F that its quadratic model predicts."""
        step = np.zeros(len(value.theta))
        # A curved part at zero stays there: zero is a local minimum.
        can_move = (value.theta > 0) | (self.prior.rate == 0)
        free = np.flatnonzero(self.is_identified & can_move)
        if not len(free):
            return step, 0.0
        theta = value.theta[free]
        full_gradient = value.gradient + self.prior.gradient(value.theta)
        gradient = full_gradient[free]
        expected, exact = self._curvature(value, free)
        free_step, reduction = minimize_quadratic(expected, gradient, theta)
        if reduction < NEAR:
            # On the face that seems to hold the minimum the exact model is better.
            prior_curvature = self.prior.curvature(value.theta)[free]
            exact = exact + np.diag(prior_curvature)
            if not self.criterion.is_curvature_exact:
                is_convex = is_positive_definite(exact, MIN_EIGENVALUE)
                exact = self._corrected(exact if is_convex else expected, free)
            free_step, reduction = refine_on_face(
                gradient, exact, theta, free_step, reduction, MIN_EIGENVALUE
            )
        step[free] = free_step
        return step, reduction

    def _corrected(self, H: Array, free: Array) -> Array:
        """Return H after BFGS updates with the last differences of gradients."""
        is_free = np.zeros(len(self.prior.rate), dtype=bool)
        is_free[free] = True
        for moved, change in self._differences[-MAX_DIFFERENCES:]:
            if moved[~is_free].any():
                continue
            s = moved[free]
            y = change[free]
            image = H @ s
            # Without curvature along s the update would not stay positive definite.
            if s @ y <= 1e-8 * abs(s @ image):
                continue
            added = np.outer(y, y) / (s @ y)
            removed = np.outer(image, image) / (s @ image)
            H = H + added - removed
        return H

    def _shorter(
        self,
        value: Any,
        objective: float,
        step: Array,
    ) -> tuple[Any, float] | None:
        """Return the end of the first of shorter and shorter steps that lowers F."""
        for halving in range(MAX_HALVINGS):
            shorter = 0.5**halving * step
            theta = np.clip(value.theta + shorter, 0.0, MAX_THETA)
            growth = self.criterion.max_growth
            if growth is not None:
                limit = growth * np.maximum(value.theta, 1.0)
                theta = np.minimum(theta, limit)
            # Curved parts with next to no variance are left out.
            is_curved = self.prior.rate > 0
            theta[is_curved & (theta < SMALL_THETA)] = 0.0
            new = self.solve(theta)
            new_objective = self.objective_of(new)
            if new_objective < objective:
                return self._differentiate(theta), new_objective
        return None

    def exchange(self) -> bool:
        """Drop or add curved parts where that lowers F; return whether any was."""
        changed = False
        self._is_trial = True
        is_exchangeable = (self.prior.rate > 0) & self.is_identified
        for part in np.flatnonzero(is_exchangeable):
            if int(part) in self._rejected:
                continue
            if self.best.theta[part] > 0:
                theta = self.best.theta.copy()
                theta[part] = 0.0
                is_better = self.try_start(theta)
                if not is_better:
                    self._rejected.add(int(part))
                changed |= is_better
            else:
                changed |= self.add_part(int(part))
        return changed

    def add_part(self, part: int) -> bool:
        """Let a part in if that lowers F."""
        theta, reduction = self.addition(part)
        if theta == 0 or reduction < -DROP_SLACK:
            return False
        trial = self.best.theta.copy()
        trial[part] = theta
        is_better = self.try_start(trial)
        if not is_better:
            self._rejected.add(part)
            if self._is_unsettled:
                self._unsettled.add(part)
        return is_better

    def try_start(self, theta: Array) -> bool:
        """Search from theta, with other curves than the best point; return whether the
        end is better.
        """
        self._is_unsettled = False
        # Another search with these curves has converged above the best point. It moved
        # the linear parts, too, wherever they started.
        if self._curves(theta) in self.ends:
            return False
        start = self.objective_of(self.solve(theta))
        return start < self.objective + DROP_SLACK and self.descend(theta)

    def addition(self, part: int) -> tuple[float, float]:
        """Return the variance at which a part would enter, and the fall of F."""
        if self._additions is None:
            # The best point with the gradient of all parts, and the expected second
            # derivatives of parts that are zero there.
            value = self._evaluate_all(self.best.theta)
            zero = np.flatnonzero((value.theta == 0) & self.is_identified)
            self._additions = (value, self.criterion.curvature_diagonal(value, zero))
        value, diagonal = self._additions
        slope = float(value.gradient[part] + self.prior.precision[part])
        if slope >= 0:
            return 0.0, 0.0
        curvature = max(float(diagonal[part]), 1e-300)
        theta = min(-slope / curvature, MAX_THETA)
        rate = float(self.prior.rate[part])
        # Along the model slope t + curvature t^2 / 2 + 2 rate sqrt(t).
        fall = 0.5 * slope**2 / curvature - 2 * rate * np.sqrt(theta)
        return theta, fall

    def finish(self) -> None:
        """Go on from the best point until the tolerance is reached."""
        self._is_trial = False
        rejected = set(self._rejected)
        unsettled = set(self._unsettled)
        self.descend(self.best.theta, is_last=True)
        self._rejected = rejected
        self._unsettled = unsettled

    def result(self) -> VarianceFit:
        """Return the best point with its certificate."""
        is_zero = (self.best.theta == 0) & (self.prior.rate > 0) & self.is_identified
        # The model of an addition is rough: where one was tried, the trial counts.
        is_zero[list(self._rejected - self._unsettled)] = False
        additions = [self.addition(int(part))[1] for part in np.flatnonzero(is_zero)]
        reduction = max([self.reduction, 0.0, *additions])
        limit = STALLED if self.has_stalled else self.tolerance(self.objective)
        return VarianceFit(
            value=self.best,
            objective=self.objective,
            path=self.path,
            predicted_reduction=reduction,
            converged=bool(reduction < limit),
            is_identified=self.is_identified,
        )
