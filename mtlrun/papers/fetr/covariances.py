"""Covariances of features and tasks that FETR learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, Matrix, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.estimators.relationship import FETR
from mtlrun.papers.fetr.data import shared_regression, training_data

Array = np.ndarray[Any, np.dtype[Any]]

#: The paper sees negative correlations of the first tasks, as many as this, with the
#: others.
FIRST_BLOCK = 4
#: Tasks between which the paper sees a positive correlation.
PAIR = (4, 5)
#: Number of features in a block: positions, velocities or accelerations of seven
#: joints.
FEATURE_BLOCK = 7
#: Relative distance up to which an eigenvalue lies on a bound of the box.
_BOUND_TOLERANCE = 1e-6
#: Smaller correlations are zeros.
_ROUNDING = 1e-12


@analysis(
    {
        "cross_largest": "largest correlation of a task of the first block with one of "
        "the second",
        "cross_negative_share": "share of these correlations that are negative",
        "cross_mean": "mean of these correlations",
        "inside_mean": "mean correlation of two tasks of one block",
        "pair_correlation": "correlation of the pair of tasks named (5 and 6)",
        "feature_blocks": "mean absolute correlation of two features of one block of "
        "seven, over that of two blocks",
        "feature_bounds": "eigenvalues of the feature precision on a bound of the box",
        "task_bounds": "eigenvalues of the task precision on a bound of the box",
        "iterations": "iterations of the fit",
    },
    name="fetr-covariances",
    labels={
        "cross_largest": "largest correlation of joints 1 to 4 with 5 to 7",
        "pair_correlation": "correlation of joints 5 and 6",
        "feature_blocks": "correlation within blocks over that between them",
    },
    # With a wide box convergence is slow: the number of iterations depends on rounding,
    # and the correlations on where they end.
    varies=("iterations",),
    digits=2,
    changes=[
        "the blocks of the features are compared, too",
        "FETR stops when little is left to gain, not when one round gained little",
    ],
)
def fetr_covariances(
    dataset: Dataset,
    *,
    seed: int,
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    scale_targets: bool = False,
) -> AnalysisResult:
    """Return the covariances of features and tasks that FETR learns.

    Parameters
    ----------
    dataset : Dataset
        Rows and columns as in `fetr_convergence`.
    seed : int
        Without effect.
    eta, rho, lower, upper : float
    scale_targets : bool, default False
        Whether to give the targets of each task unit variance. Otherwise, tasks with
        small targets have small coefficients, and the box decides their covariances
        instead of the data.

    Returns
    -------
    AnalysisResult
        Has covariances and correlations as matrices.

    Raises
    ------
    ValueError
        If there are too few tasks.
    """
    data = training_data(shared_regression(dataset))
    task_names = [str(task) for task in dataset.tasks]
    if len(task_names) <= max(PAIR):
        raise ValueError(
            "the covariances of the paper are those of at least "
            f"{max(PAIR) + 1} tasks, not {len(task_names)}"
        )
    if scale_targets:
        data = data.with_targets(data.Y / data.Y.std(axis=0))
    model = FETR(eta, rho, lower=lower, upper=upper, tol=1e-10, max_iter=5000)
    model.fit(data.X, data.Y)
    task_correlation = _correlation(model.task_covariance_)
    feature_correlation = _correlation(model.feature_covariance_)
    between_blocks = task_correlation[:FIRST_BLOCK, FIRST_BLOCK:]
    within_blocks = np.concatenate(
        [
            _upper_triangle(task_correlation[:FIRST_BLOCK, :FIRST_BLOCK]),
            _upper_triangle(task_correlation[FIRST_BLOCK:, FIRST_BLOCK:]),
        ]
    )
    n_feature_bounds = _count_on_bounds(model.feature_precision_, lower, upper)
    n_task_bounds = _count_on_bounds(model.task_precision_, lower, upper)
    feature_names = [str(feature) for feature in dataset.features]
    if not feature_names:
        feature_names = [f"x{j + 1}" for j in range(data.n_features)]
    values = {
        "cross_largest": float(between_blocks.max()),
        "cross_negative_share": float(np.mean(between_blocks < 0)),
        "cross_mean": float(between_blocks.mean()),
        "inside_mean": float(within_blocks.mean()) if len(within_blocks) else np.nan,
        "pair_correlation": float(task_correlation[PAIR]),
        "feature_blocks": block_ratio(feature_correlation),
        "feature_bounds": float(n_feature_bounds),
        "task_bounds": float(n_task_bounds),
        "iterations": float(model.n_iter_),
    }
    line = (
        f"On a bound of the box [{lower:g}, {upper:g}], where it decides and not the "
        f"data: {n_task_bounds} of {len(task_names)} eigenvalues of the task "
        f"precision, {n_feature_bounds} of {len(feature_names)} of the feature "
        "precision."
    )
    return AnalysisResult(
        values,
        matrices={
            "task covariance": _matrix(model.task_covariance_, task_names),
            "task correlation": _matrix(task_correlation, task_names),
            "feature covariance": _matrix(model.feature_covariance_, feature_names),
            "feature correlation": _matrix(feature_correlation, feature_names),
        },
        lines=[line],
        solver={
            "n_iter": model.n_iter_,
            "objective": model.objective_[-1],
            "converged": model.converged_,
        },
    )


def _matrix(values: Array, names: Sequence[str]) -> Matrix:
    return Matrix(values.tolist(), list(names), list(names), centre=0.0)


def _correlation(covariance: Array) -> Array:
    std = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(std, std)
    return np.where(np.abs(correlation) > _ROUNDING, correlation, 0.0)


def block_ratio(correlation: Array) -> float:
    """Return the mean absolute correlation within blocks, over that between blocks.

    NaN with a single block.
    """
    block = np.arange(len(correlation)) // FEATURE_BLOCK
    first, second = np.triu_indices(len(correlation), 1)
    is_same_block = block[first] == block[second]
    if is_same_block.all():
        return np.nan
    strength = np.abs(correlation[first, second])
    between = float(strength[~is_same_block].mean())
    if between > 0:
        return float(strength[is_same_block].mean()) / between
    return np.nan


def _upper_triangle(block: Array) -> Array:
    """Return the entries above the diagonal."""
    return block[np.triu_indices(len(block), 1)]


def _count_on_bounds(precision: Array, lower: float, upper: float) -> int:
    """Count the eigenvalues on a bound of the box [lower, upper]."""
    eigenvalues = np.linalg.eigvalsh(precision)
    is_low = eigenvalues <= lower * (1 + _BOUND_TOLERANCE)
    is_high = eigenvalues >= upper * (1 - _BOUND_TOLERANCE)
    return int(np.sum(is_low | is_high))
