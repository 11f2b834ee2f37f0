"""Smooth hierarchical models of labels, by Laplace's marginal likelihood.

The labels y (0 or 1) are Bernoulli with log-odds eta = mu 1 + A u + g, where mu ~ N(0,
1 / precision), and the parts A u and g are as in `smooth_marginal` with s2 = 1; K is
the covariance of eta. With weights w, probabilities p = expit(eta) and W = w p (1 - p)
at the mode of eta::

    a = w (y - p) = K^-1 eta,  V = W^-1 + K,  P = V^-1
    D = -2 sum w log p(y | eta) + a'eta + log|V| + sum log W

At the mode V, P and a are as in a model of numbers with the targets z = eta + W^-1 a
and noise of known variance W^-1, so the same blocks serve both. With W' = w p (1 - p)
(1 - 2 p) and c = W' (W^-1 - W^-2 diag P) / W::

    dD/dtheta_i = tr(P V_i) - a'V_i a + (P c)'V_i a
    second derivative, without the change of W = 2 a'V_i P V_j a - tr(P V_i P V_j)

The last term of the gradient is due to the mode, which moves with theta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from mtlrun.solvers.hierarchical.label_posterior import log_probability
from mtlrun.solvers.hierarchical.smooth import SmoothOptions
from mtlrun.solvers.hierarchical.smooth_blocks import BlockList, SmoothData
from mtlrun.solvers.hierarchical.smooth_fit import VariancePrior
from mtlrun.solvers.hierarchical.smooth_marginal import (
    SmoothMarginal,
    SmoothSolution,
    SmoothValue,
)

Array = np.ndarray

#: Standard deviation, in log-odds, of the priors of the mean and of the standard
#: deviations of parts.
PRIOR_STD = 10.0
#: Standard deviation of the prior of the slopes of tasks: in tasks of few labels
#: Laplace's approximation finds slopes that are too large.
SLOPES_PRIOR_STD = 0.7
#: Information of a row in units of its weight, at least.
MIN_INFORMATION = 1e-6
#: Newton steps for the mode, halvings of each, and the relative fall that ends them.
MAX_MODE_STEPS = 100
MAX_HALVINGS = 30
MODE_TOL = 1e-13


@dataclass(frozen=True)
class LabelSolution:
    """The criterion at one theta.

    Attributes
    ----------
    theta : ndarray of shape (J + K,)
    criterion : float
        D.
    gaussian : SmoothSolution
        The model of numbers at the mode.
    a : ndarray of shape (N,)
        K^-1 eta at the mode.
    """

    theta: Array
    criterion: float
    gaussian: SmoothSolution
    a: Array


@dataclass(frozen=True)
class LabelValue(LabelSolution):
    """The criterion at one theta with its gradient (J + K,)."""

    gradient: Array


class LabelMarginal:
    """D as a function of theta.

    Parameters
    ----------
    data : SmoothData
        Targets are 0 and 1; noise is 1 / weight.
    """

    is_curvature_exact = False
    max_growth: float | None = None
    max_mode_steps = MAX_MODE_STEPS

    def __init__(self, data: SmoothData) -> None:
        self.labels = data.target
        self.weights = 1 / data.noise
        self.blocks = BlockList(data)
        self.marginal = SmoothMarginal(
            self.blocks,
            knows_noise=True,
            mean_precision=1 / PRIOR_STD**2,
        )
        self.n_evaluations = 0
        # The mode of the evaluation before is where the next search starts.
        self._mode = np.zeros(len(self.labels))
        self._objective = np.inf

    def start_mode_from(self, other: LabelMarginal) -> None:
        """Start the search for the mode where another one on the same rows ended."""
        self._mode = other._mode

    @property
    def eta(self) -> Array:
        """Log-odds of the rows at the mode that was found last, (N,)."""
        return self._mode

    def _log_likelihood(self, eta: Array, theta: Array) -> float:
        return float(self.weights @ log_probability(eta, self.labels))

    def _linearize(self, eta: Array, theta: Array) -> None:
        """Give the blocks targets and noise at eta."""
        p = expit(eta)
        residual = self.weights * (self.labels - p)
        information = self.weights * np.maximum(p * (1 - p), MIN_INFORMATION)
        self.blocks.set_target(eta + residual / information, 1 / information)

    def _full_step(self, theta: Array) -> tuple[Array, Array, SmoothSolution]:
        """Return eta and K^-1 eta at the mode of the model of numbers in the blocks."""
        none = np.zeros(len(theta), dtype=bool)
        solution = self.marginal.solve(theta, needs_gradient=none)
        a = self.marginal.rows_of(solution)
        data = self.blocks.data
        return data.target - data.noise * a, a, solution

    def find_mode(self, theta: Array) -> SmoothSolution:
        """Leave the blocks at the mode of eta."""
        eta = self._mode
        a: Array | None = None
        objective = np.inf
        for _ in range(self.max_mode_steps):
            self._linearize(eta, theta)
            full_eta, full_a, solution = self._full_step(theta)
            if a is None:
                # The start belongs to another theta: only its linearization is used.
                eta = full_eta
                a = full_a
                objective = float(a @ eta) - 2 * self._log_likelihood(eta, theta)
                continue
            length = 1.0
            rounding = MODE_TOL * (1 + abs(objective))
            for _ in range(MAX_HALVINGS):
                new_eta = eta + length * (full_eta - eta)
                new_a = a + length * (full_a - a)
                new = float(new_a @ new_eta)
                new -= 2 * self._log_likelihood(new_eta, theta)
                # At the mode a full step changes the objective by rounding.
                if new <= objective + rounding:
                    break
                length *= 0.5
            fall = objective - new
            # The last step counts: its error is the square of the one before.
            eta = new_eta
            a = new_a
            objective = new
            if fall <= rounding:
                break
        self._mode = eta
        self._objective = objective
        self._linearize(eta, theta)
        return solution

    def __call__(self, theta: Array) -> LabelValue:
        """Evaluate D and its gradient at theta (J + K,)."""
        return self.differentiate(self.solve(theta))

    def solve(self, theta: Array, needs_gradient: Array | None = None) -> LabelSolution:
        """Evaluate D at theta (J + K,), without its gradient.

        `needs_gradient` as of `SmoothMarginal.solve`.
        """
        self.n_evaluations += 1
        self.find_mode(theta)
        gaussian = self.marginal.solve(theta, needs_gradient)
        a = self.marginal.rows_of(gaussian)
        fit, logdet = self._terms_of_rows(theta, a)
        criterion = fit + gaussian.logdet + logdet
        return LabelSolution(theta, float(criterion), gaussian, a)

    def _terms_of_rows(self, theta: Array, a: Array) -> tuple[float, float]:
        """Return the objective at the mode, and the logarithm of |H|."""
        fit = float(a @ self._mode) - 2 * self._log_likelihood(self._mode, theta)
        information = 1 / self.blocks.data.noise
        return fit, np.log(information).sum()

    def differentiate(self, solution: LabelSolution) -> LabelValue:
        """Return D with its gradient at the theta evaluated last."""
        gaussian = self.marginal.differentiate(solution.gaussian)
        return LabelValue(
            theta=solution.theta,
            criterion=solution.criterion,
            gaussian=gaussian,
            a=solution.a,
            gradient=self._gradient_at(solution, gaussian),
        )

    def _gradient_at(self, solution: LabelSolution, gaussian: SmoothValue) -> Array:
        _, diagonal = self.marginal.weights_of_rows(gaussian)
        p = expit(self._mode)
        information = 1 / self.blocks.data.noise
        change = self.weights * p * (1 - p) * (1 - 2 * p)
        change[p * (1 - p) < MIN_INFORMATION] = 0.0
        variance = 1 / information - diagonal / information**2
        moved = self.marginal.apply_projection(
            gaussian, change * variance / information
        )
        return gaussian.gradient + self.marginal.bilinear(moved, solution.a)

    def curvature(
        self,
        value: LabelValue,
        parts: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return expected and second derivatives at the last theta, W fixed."""
        assert isinstance(value.gaussian, SmoothValue)
        return self.marginal.curvature(value.gaussian, parts)

    def curvature_diagonal(self, value: LabelValue, parts: Array) -> Array:
        """Return the diagonal of the expected ones, zero for the other parts."""
        assert isinstance(value.gaussian, SmoothValue)
        return self.marginal.curvature_diagonal(value.gaussian, parts)


def label_prior(data: SmoothData, options: SmoothOptions) -> VariancePrior:
    """Return the prior: a rate for curves, and half-normal ones for all parts."""
    design = data.design
    precision = np.full(len(design.names), 1 / PRIOR_STD**2)
    precision[np.array(design.names) == "task slopes"] = 1 / SLOPES_PRIOR_STD**2
    return VariancePrior(options.prior_rate * design.is_curved, precision)
