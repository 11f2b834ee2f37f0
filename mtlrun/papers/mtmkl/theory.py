"""The bound of Theorem 1 of the MT-MKL paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, Curve, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.papers.mtmkl.common import rows_by_task, split_parts
from mtlrun.solvers.mkl.kernels import MeanKernel, make_kernels

#: Values of gamma at which the bound is drawn.
N_GAMMAS = 41


@analysis(
    {
        "complexity": "empirical Rademacher complexity at gamma = 0 and R = 1, at "
        "least",
        "fails_below": "gamma up to which the printed bound (27) is below it",
        "gamma_most": "the largest gamma that any weights have",
        "bound_at_most": "the printed bound at that gamma",
    },
    name="mtmkl-theorem-1",
    labels={
        "fails_below": "gamma up to which the bound fails",
    },
    digits=2,
)
def theorem_1(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.1,
    features: str = "none",
    kernels: Sequence[str] | None = None,
    draws: int = 200,
) -> AnalysisResult:
    """Compare the bound of Theorem 1 with the complexity of equal kernel weights.

    Machines whose tasks all have equal kernel weights are in the class for each gamma,
    so no valid bound may be below their complexity. With n rows in all tasks together
    and M kernels, the printed bound (27) at R = 1 is sqrt(sqrt(3) gamma M / n).

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split and of the signs.
    train, features, kernels
        As of `sharing`.
    draws : int, default 200
        Vectors of random signs over which the complexity is averaged.

    Returns
    -------
    AnalysisResult
        Curve ``bound over complexity`` over gamma.
    """
    on_validation, _ = split_parts(dataset, train, seed, features)
    designs, _ = rows_by_task(on_validation.train)
    all_kernels = make_kernels(kernels)
    rng = np.random.default_rng(seed)
    equal_weights = MeanKernel(kernels=tuple(all_kernels))
    n_rows = on_validation.train.n_samples
    n_tasks = len(designs)
    n_kernels = len(all_kernels)
    total = 0.0
    for X in designs:
        signs = rng.choice([-1.0, 1.0], size=(draws, len(X)))
        gram = equal_weights(X, X)
        squares = np.einsum("di,ij,dj->d", signs, gram, signs, optimize=True)
        # Rounding makes some squares of lengths slightly negative.
        total += float(np.sqrt(np.maximum(squares, 0.0)).mean())
    complexity = total / n_rows
    # The weights farthest from each other lie at the corners of the simplex, as evenly
    # over the kernels as possible.
    n_at_corner = np.bincount(np.arange(n_tasks) % n_kernels)
    largest_gamma = float(np.sqrt(n_tasks**2 - np.sum(n_at_corner**2)))
    gammas = np.linspace(0.0, largest_gamma, N_GAMMAS)
    bounds = np.sqrt(np.sqrt(3.0) * gammas * n_kernels / n_rows)
    fails_below = complexity**2 * n_rows / (np.sqrt(3.0) * n_kernels)
    ratio = Curve(
        gammas.tolist(),
        (bounds / complexity).tolist(),
        "gamma",
        "printed bound over complexity",
        marks={"equal": fails_below},
    )
    return AnalysisResult(
        {
            "complexity": complexity,
            "fails_below": fails_below,
            "gamma_most": largest_gamma,
            "bound_at_most": float(bounds[-1]),
        },
        curves={"bound over complexity": ratio},
    )
