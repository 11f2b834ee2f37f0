"""Checks of the theoretical statements of the FETR paper.

The statements are about flip-flop, the matching of Theorem 4.1, exact steps and the
rate of gradient descent. Each is checked with numbers that its proof does not use:
ranks, an assignment solver, a lower bound from convexity, and the iterates of gradient
descent.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from mtlrun.catalog.analysis import AnalysisResult, Curve, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.papers.fetr.data import shared_regression, training_data
from mtlrun.papers.fetr.seconds import random_precision
from mtlrun.solvers.relationship.fetr import (
    FetrProblem,
    Precision,
    exact_precision,
    feature_moment,
    task_moment,
)
from mtlrun.solvers.relationship.wsystem import CoupledSystem, solve_w

#: Singular values below this, relative to the largest, count as zero.
RANK_TOLERANCE = 1e-10
#: Gradient descent stops at this distance from the optimum, relative to the distance of
#: its start, zero.
DESCENT_TOLERANCE = 1e-8
#: Largest number of points of a curve.
MAX_CURVE_POINTS = 200
#: Smaller distances, in the same unit, are rounding errors.
ROUNDING_LEVEL = 1e-11


@analysis(
    {
        "rank_deficit": "dimensions that the larger covariance lacks after one "
        "flip-flop iteration without a fudge factor",
        "covariance_rank": "rank of that covariance",
        "covariance_size": "its number of rows",
        "matching_excess": "weight of the matching of Theorem 4.1 above the smallest "
        "one, relative",
        "step_gap": "certified distance of Algorithms 1 and 2 from the smallest "
        "objective, relative",
        "contraction": "largest factor by which a step of gradient descent changes the "
        "distance from the optimum",
        "contraction_over_bound": "that factor divided by (kappa - 1) / (kappa + 1)",
        "steps": "steps of gradient descent to 1e-8 of the first distance",
        "steps_over_bound": "these steps divided by kappa log(1e8)",
    },
    name="fetr-theory",
    labels={
        "rank_deficit": "dimensions lost by a covariance",
        "covariance_rank": "rank of the covariance",
        "covariance_size": "rows of the covariance",
        "matching_excess": "excess over the smallest matching",
        "step_gap": "certified gap of the precision steps",
        "contraction": "largest change of the distance in a step",
        "contraction_over_bound": "largest change over (kappa - 1) / (kappa + 1)",
        "steps_over_bound": "steps over kappa log(1e8)",
    },
    lower=("matching_excess", "step_gap"),
    varies=("matching_excess", "step_gap"),
)
def fetr_theory(
    dataset: Dataset,
    *,
    seed: int,
    eta: float = 1.0,
    rho: float = 1.0,
    lower: float = 0.01,
    upper: float = 100.0,
    step_factor: float = 1.0,
    max_steps: int = 1_000_000,
) -> AnalysisResult:
    """Check the theoretical statements of the paper on one data set.

    The statements are checked at W of the first W-step and at precision matrices with
    random bases and log-uniform eigenvalues in the box, so that nothing is special
    about them.

    Parameters
    ----------
    dataset : Dataset
        Regression, rows shared by all tasks.
    seed : int
        Seed of the precision matrices.
    eta, rho : float
    lower, upper : float
        Box of the eigenvalues of both precision matrices.
    step_factor : float, default 1.0
        Length of the step of gradient descent, in units of the paper's step. From 2 on
        descent may diverge.
    max_steps : int, default 1,000,000
        Gradient descent is stopped after this number of steps.

    Raises
    ------
    ValueError
        If the data set does not fit, or the box is empty.
    """
    data = training_data(shared_regression(dataset))
    problem = FetrProblem(data, eta, rho, lower, upper)
    rng = np.random.default_rng(seed)
    start = problem.start()
    W = solve_w(problem.system(start.feature, start.task), "auto").W
    feature = random_precision(problem.d, lower, upper, rng)
    task = random_precision(problem.m, lower, upper, rng)

    rank, size = _flip_flop_rank(W)
    steps = [
        (feature, feature_moment(W, task.matrix), problem.m),
        (task, task_moment(W, feature.matrix), problem.d),
    ]
    excesses = []
    gaps = []
    for current, moment, count in steps:
        # Rounding makes the smallest eigenvalues of a moment slightly negative.
        spectrum = np.maximum(np.linalg.eigvalsh(moment), 0.0)
        excesses.append(matching_excess(current.values, spectrum))
        exact = exact_precision(moment, count, lower, upper)
        gaps.append(step_gap(exact, moment, count, lower, upper))
    distances, kappa = _descend(problem.system(feature, task), step_factor, max_steps)
    is_number = distances > ROUNDING_LEVEL
    usable = distances[is_number]
    contraction = float(np.max(usable[1:] / usable[:-1]))
    n_steps = np.nan
    reached = np.flatnonzero(distances <= DESCENT_TOLERANCE)
    if len(reached) > 0:
        n_steps = float(reached[0])
    # The curve has points evenly over the steps.
    positions = np.linspace(0, len(distances) - 1, MAX_CURVE_POINTS)
    kept = np.unique(positions.astype(int))
    curve = Curve(
        kept.astype(float).tolist(),
        distances[kept].tolist(),
        "step",
        "||W - W*|| / ||W*||",
        "y",
    )
    return AnalysisResult(
        {
            "rank_deficit": float(size - rank),
            "covariance_rank": float(rank),
            "covariance_size": float(size),
            "matching_excess": max(excesses),
            "step_gap": max(gaps),
            "contraction": contraction,
            "contraction_over_bound": contraction / ((kappa - 1) / (kappa + 1)),
            "steps": n_steps,
            "steps_over_bound": n_steps / (kappa * np.log(1 / DESCENT_TOLERANCE)),
        },
        curves={"distance from the optimum": curve},
        lines=[
            f"flip-flop: the covariance of {size} rows has rank {rank} after one iteration",
            f"gradient descent: condition number {kappa:.3g}",
        ],
    )


def matching_excess(values: np.ndarray, spectrum: np.ndarray) -> float:
    """Compare the matching of Theorem 4.1 with the smallest one.

    The theorem pairs the largest eigenvalue of a precision matrix with the smallest one
    of the moment, and so on; the weight of a pair is the product.

    Parameters
    ----------
    values, spectrum : ndarray of shape (k,)
        Non-negative, in any order.

    Returns
    -------
    float
        Relative excess of the weight of the theorem's matching over the weight by
        `linear_sum_assignment`; 0 if all weights are zero.
    """
    weights = np.outer(values, spectrum)
    rows, columns = linear_sum_assignment(weights)
    smallest = float(weights[rows, columns].sum())
    matched = float(np.sort(values)[::-1] @ np.sort(spectrum))
    if smallest == 0:
        return matched
    return (matched - smallest) / smallest


def step_gap(
    precision: Precision, moment: np.ndarray, count: int, lower: float, upper: float
) -> float:
    """Bound how far a matrix is from the smallest objective of a precision step.

    The objective f(S) = tr(S A) - k log|S| is convex, so that
    f(X) >= f(S) + <G, X - S> with the gradient G = A - k S^{-1}. Over the matrices X
    with eigenvalues in [lower, upper], the smallest <G, X> takes `lower` along the
    eigenvectors of G with positive eigenvalues and `upper` along the others.

    Parameters
    ----------
    precision : Precision
        S.
    moment : ndarray of shape (k, k)
        A.
    count : int
        k of the objective: the number of tasks, or of features.
    lower, upper : float

    Returns
    -------
    float
        f(S) is above the minimum by at most this fraction of the sum of the sizes of
        its terms.
    """
    gradient = moment - count * precision.covariance
    slopes = np.linalg.eigvalsh(gradient)
    smallest = lower * np.maximum(slopes, 0).sum() + upper * np.minimum(slopes, 0).sum()
    gap = float(np.vdot(gradient, precision.matrix)) - float(smallest)
    trace = float(np.vdot(moment, precision.matrix))
    scale = abs(trace) + count * float(np.abs(np.log(precision.values)).sum())
    return max(gap, 0.0) / scale


def _flip_flop_rank(W: np.ndarray) -> tuple[int, int]:
    """Return rank and size of the larger covariance after one flip-flop iteration.

    The iteration of equation (1) from identity matrices, without a fudge factor:
    W W' / m for the features, W'W / d for the tasks.
    """
    d, m = W.shape
    if d >= m:
        larger = feature_moment(W, np.eye(m)) / m
    else:
        larger = task_moment(W, np.eye(d)) / d
    rank = int(np.linalg.matrix_rank(larger, tol=RANK_TOLERANCE * larger.max()))
    return rank, len(larger)


def _descend(
    system: CoupledSystem, step_factor: float, max_steps: int
) -> tuple[np.ndarray, float]:
    """Run gradient descent with the paper's step from zero.

    Returns
    -------
    distances : ndarray of shape (n_steps + 1,)
        Frobenius distance from the optimum, relative to the distance of the start.
    kappa : float
        Upper bound of the eigenvalues over the lower one.
    """
    optimum = solve_w(system, "sylvester").W
    low, high = system.spectrum
    step = step_factor * 2 / (low + high)
    W = np.zeros_like(optimum)
    first = float(np.linalg.norm(optimum))
    distances = [1.0]
    while len(distances) <= max_steps and DESCENT_TOLERANCE < distances[-1] < 1e6:
        W = W + step * system.residual(W)
        distances.append(float(np.linalg.norm(W - optimum)) / first)
    return np.array(distances), high / low
