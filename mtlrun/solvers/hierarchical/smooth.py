"""Fit a smooth hierarchical model to numbers.

    y = mu + f(x) + h_t(x) + e,   e ~ N(0, s2 / weight)

f is common to all tasks, h_t belongs to task t; both are sums of parts (`smooth_parts`)
whose variances maximize the restricted likelihood (`smooth_marginal`) times a weak
prior (`smooth_fit`). Tables with many rows: the variances are estimated from whole
tasks, and the functions from all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mtlrun.solvers.hierarchical.label_posterior import TaskNodes
from mtlrun.solvers.hierarchical.smooth_blocks import (
    MAX_EXACT_ROWS,
    BlockList,
    SmoothData,
)
from mtlrun.solvers.hierarchical.smooth_fit import (
    Criterion,
    VarianceFit,
    VariancePrior,
    fit_variances,
)
from mtlrun.solvers.hierarchical.smooth_marginal import SmoothMarginal
from mtlrun.solvers.hierarchical.smooth_parts import content_keys
from mtlrun.solvers.hierarchical.smooth_posterior import (
    SmoothPosterior,
    VarianceUncertainty,
)

Array = np.ndarray

#: Tasks that the variances are estimated from, at least.
MIN_TASKS = 2


@dataclass(frozen=True)
class SmoothOptions:
    """Options of a fit.

    Attributes
    ----------
    prior_rate : float
        Rate of the exponential prior of the standard deviations of curved parts,
        relative to the noise.
    max_rows : int
        The variances are estimated from whole tasks with about this many rows.
    tol : float
    max_iter : int
    seed : int
    """

    prior_rate: float = 1.0
    max_rows: int = 4000
    tol: float = 1e-6
    max_iter: int = 100
    seed: int = 0


@dataclass(frozen=True)
class SmoothFit:
    """A fitted model.

    Attributes
    ----------
    variances : VarianceFit
    posterior : SmoothPosterior
    part_variances : ndarray of shape (J + K,)
        Expected variance of each part over the rows.
    leave_one_out : ndarray of shape (N,)
        Prediction of each target from all others, at these variances.
    leave_one_out_std : ndarray of shape (N,)
        Standard deviation of its error, as the model expects it.
    estimation_rows : ndarray of int
        Rows that the variances were estimated from.
    n_evaluations : int
    level_nodes : list of TaskNodes, optional
        Posteriors of the levels of a model of labels, if they are integrated by
        quadrature.
    """

    variances: VarianceFit
    posterior: SmoothPosterior
    part_variances: Array
    leave_one_out: Array
    leave_one_out_std: Array
    estimation_rows: Array
    n_evaluations: int
    level_nodes: list[TaskNodes] | None = None


def fit_smooth(data: SmoothData, options: SmoothOptions) -> SmoothFit:
    """Estimate the variances and the functions of a model of numbers.

    Parameters
    ----------
    data : SmoothData
        Targets with mean 0 and variance 1; noise of mean 1.
    options : SmoothOptions
    """
    index = estimation_rows(data, options)
    subset = data if len(index) == len(data.codes) else data.take(index)
    marginal = SmoothMarginal(BlockList(subset))
    prior = smooth_prior(data, options)
    fit = fit_variances(marginal, prior, tol=options.tol, max_iter=options.max_iter)
    n_evaluations = marginal.n_evaluations
    uncertainty = VarianceUncertainty.fit(marginal, fit, prior.rate)
    # The functions are made of the parts that have a variance.
    is_active = fit.theta > 0
    marginal = SmoothMarginal(BlockList(data.select_parts(is_active)))
    solution = marginal.solve(fit.theta[is_active])
    posterior, diagonal = SmoothPosterior.fit(
        data,
        fit.theta,
        marginal,
        solution,
        uncertainty,
    )
    diagonal = np.maximum(diagonal, 1e-12)
    return SmoothFit(
        variances=fit,
        posterior=posterior,
        part_variances=posterior.part_variances(marginal.blocks),
        leave_one_out=data.target - posterior.a / diagonal,
        leave_one_out_std=np.sqrt(posterior.s2 / diagonal),
        estimation_rows=index,
        n_evaluations=n_evaluations,
    )


def smooth_prior(data: SmoothData, options: SmoothOptions) -> VariancePrior:
    """Return the prior of the variances of the parts: curves have a rate."""
    is_curved = data.design.is_curved
    return VariancePrior(options.prior_rate * is_curved, np.zeros(len(is_curved)))


def estimation_rows(data: SmoothData, options: SmoothOptions) -> Array:
    """Return the rows of whole tasks with about `max_rows` rows, by their content.

    A task with many rows costs no more than one with `MAX_EXACT_ROWS`, and counts as
    such.
    """
    sizes = np.minimum(data.sizes, MAX_EXACT_ROWS)
    if sizes.sum() <= options.max_rows:
        return np.arange(len(data.codes))
    row_keys = content_keys(data.rows.z, data.target, options.seed)
    mixed = np.sin(20.0 * row_keys)
    task_keys = np.mod(100.0 * np.bincount(data.codes, mixed), 1.0)
    order = np.argsort(task_keys, kind="stable")
    n_tasks = int((np.cumsum(sizes[order]) <= options.max_rows).sum())
    chosen = order[: max(n_tasks, MIN_TASKS)]
    return np.flatnonzero(np.isin(data.codes, chosen))


def part_statistic(
    criterion: Criterion,
    prior: VariancePrior,
    theta: Array,
    part: int,
    options: SmoothOptions,
) -> float:
    """Return by how much minus twice the log-likelihood rises without one part.

    The variances of the other parts are fitted again.

    Parameters
    ----------
    criterion : SmoothMarginal or LabelMarginal
        Of the rows that the variances were estimated from.
    prior : VariancePrior
    theta : ndarray
        The estimated variances.
    part : int
        Position of the part.
    options : SmoothOptions
    """
    if theta[part] == 0:
        return 0.0
    with_part = float(criterion(theta).criterion)
    is_removed = np.arange(len(theta)) == part
    without = fit_variances(
        criterion,
        prior,
        tol=options.tol,
        max_iter=options.max_iter,
        is_forced_zero=is_removed,
        start=np.where(is_removed, 0.0, theta),
    )
    return max(float(without.value.criterion) - with_part, 0.0)


def standardized(data: SmoothData) -> tuple[SmoothData, float, float]:
    """Return rows with targets of mean 0 and variance 1, the mean and the std."""
    weights = 1 / data.noise
    total = weights.sum()
    # The middle of the range is subtracted first: means of large numbers lose digits.
    middle = 0.5 * (data.target.min() + data.target.max())
    shifted = data.target - middle
    center = float(weights @ shifted / total)
    unit = float(np.abs(shifted - center).max(initial=0.0))
    if unit > 0:
        unit *= np.sqrt(weights @ np.square((shifted - center) / unit) / total)
    if unit <= 1e-13 * abs(middle) or unit == 0:
        unit = 1.0
        shifted = np.zeros_like(shifted)
        center = 0.0
    target = (shifted - center) / unit
    return replace(data, target=target), float(middle + center), unit
