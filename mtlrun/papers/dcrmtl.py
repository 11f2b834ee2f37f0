"""Divide-and-conquer robust multi-task learning: data sets and equality constraint."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import scipy.sparse

from mtlrun.catalog.analysis import AnalysisResult, analysis
from mtlrun.data.dataset import Dataset


@analysis(
    {
        "n": "rows",
        "d": "features",
        "tasks": "tasks (classes of a multi-class set)",
        "x_nnz": "values of X that are not zero",
        "x_density": "share of the values of X that are not zero",
        "cardinality": "labels per row",
        "density": "labels per row divided by the number of labels",
        "labelsets": "distinct rows of labels",
        "unlabelled": "rows without a label",
        "label_min": "positives of the rarest label",
        "label_max": "positives of the most frequent label",
        "positives": "positive labels",
        "positive_share": "share of the known labels that are positive",
        "missing": "missing targets",
        "missing_share": "share of the targets that are missing",
        "task_min": "rows of the smallest task",
        "task_max": "rows of the largest task",
        "class_min": "rows of the smallest class",
        "class_max": "rows of the largest class",
        "y_mean": "mean of all targets",
        "y_var": "variance of all targets",
    },
    name="data-set-statistics",
    labels={
        "x_density": "share of X not zero",
        "cardinality": "labels per row",
        "labelsets": "distinct rows of labels",
        "label_min": "positives of the rarest label",
        "label_max": "positives of the commonest label",
    },
)
def data_set_statistics(dataset: Dataset, *, seed: int) -> AnalysisResult:
    """Return the statistics of a data set.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Without effect: nothing is drawn.

    Returns
    -------
    AnalysisResult
        Quantities of `Dataset.statistics`, ``positive_share`` (of the known labels) and
        ``missing_share`` (of the targets), as far as the data set has them. Per task:
        ``rows`` (known targets) and, for binary tasks, ``positive_share``.
    """
    values = {name: float(value) for name, value in dataset.statistics().items()}
    if dataset.task_type == "multiclass":
        counts = np.bincount(dataset.y.astype(np.int64), minlength=dataset.n_tasks)
        return AnalysisResult(values, per_task={"rows": counts.astype(float).tolist()})
    is_known = ~np.isnan(dataset.y)
    values["missing_share"] = float(1 - is_known.mean())
    rows = dataset.sum_by_task(is_known)
    per_task = {"rows": rows.tolist()}
    if dataset.task_type == "binary":
        is_positive = is_known & (dataset.y > 0)
        values["positive_share"] = float(is_positive.sum() / max(1, is_known.sum()))
        shares = np.divide(dataset.sum_by_task(is_positive), np.maximum(1, rows))
        per_task["positive_share"] = shares.tolist()
    return AnalysisResult(values, per_task=per_task)


@analysis(
    {
        "training_rows": "training rows",
        "features": "features",
        "design_rank": "rank of the training rows of X",
        "constraint_residual": "smallest ||X W - Y||_F of any coefficients, relative "
        "to ||Y||_F",
    },
    name="dcrmtl-constraint",
    labels={
        "design_rank": "rank of the training rows",
        "constraint_residual": "smallest relative residual of the constraint",
    },
    lower=("constraint_residual",),
    varies=("constraint_residual",),
)
def equality_constraint(
    dataset: Dataset, *, seed: int, train: float = 0.4
) -> AnalysisResult:
    """Measure how closely the constraint X (L + E) = Y of problem (6) can be met.

    Least squares has the smallest residual, whatever L and E are. It is zero only if
    each column of Y lies in the column space of X, which for general Y requires as many
    independent columns as there are training rows.

    Parameters
    ----------
    dataset : Dataset
        Rows shared by all tasks, no missing targets.
    seed : int
        Seed of the draw of the training rows.
    train : float, default 0.4
        Share of the rows that are training rows.

    Raises
    ------
    ValueError
        If tasks have rows of their own, or targets are missing.
    """
    if dataset.y.ndim != 2 or np.isnan(dataset.y).any():
        raise ValueError(
            "the equality constraint is asked of tasks that share all rows, without "
            "missing targets"
        )
    n_rows = round(train * dataset.n_samples)
    rows = np.random.default_rng(seed).permutation(dataset.n_samples)[:n_rows]
    X = dataset.X[rows]
    if scipy.sparse.issparse(X):
        X = X.toarray()
    Y = np.asarray(dataset.y, dtype=float)[rows]
    # U is an orthonormal basis of the column space of X, which contains each X (L + E).
    U = scipy.linalg.orth(np.asarray(X, dtype=float))
    distance = np.linalg.norm(Y - U @ (U.T @ Y))
    residual = float(distance / np.linalg.norm(Y))
    return AnalysisResult(
        {
            "training_rows": float(n_rows),
            "features": float(X.shape[1]),
            "design_rank": float(U.shape[1]),
            "constraint_residual": residual,
        }
    )


#: Draws of columns over which the share of successes is counted.
N_DRAWS = 200


@analysis(
    {
        "columns": "columns drawn",
        "column_share": "share of the columns that are drawn",
        "successes": "share of the draws with an error of at most 1 + eps times the "
        "best one of rank r",
        "error_over_best": "error of the projection divided by the best error of rank "
        "r, median of the draws",
    },
    name="dcrmtl-column-sampling",
    labels={
        "successes": "draws within (1 + eps) of the best error",
        "error_over_best": "error over the best error",
    },
    higher=("successes",),
    digits=4,
)
def column_sampling(
    dataset: Dataset,
    *,
    seed: int,
    holding: int | None = None,
    eps: float = 1.0,
    delta: float = 0.1,
    noise: float = 0.01,
) -> AnalysisResult:
    """Check lemma (22): random columns span a low-rank matrix nearly as well as an SVD.

    A matrix of low rank plus noise is projected onto the space of l of its columns,
    drawn without replacement, where l = r log(m) log(1 / delta) / eps^2.

    Parameters
    ----------
    dataset : Dataset
        Simulated: ``truth["L"]`` is the low-rank part, of shape d x m and rank r.
    seed : int
        Seed of the noise and of the draws.
    holding : int, optional
        Number of columns outside of which the low-rank part is set to zero. Default:
        all.
    eps, delta : float
        Of the lemma.
    noise : float, default 0.01
        Standard deviation of the noise divided by the one in the low-rank part.
    """
    rng = np.random.default_rng(seed)
    low_rank = np.array(dataset.truth["L"])
    n_columns = low_rank.shape[1]
    noise_std = noise * float(low_rank.std())
    if holding is not None:
        low_rank[:, holding:] = 0.0
    rank = int(np.linalg.matrix_rank(low_rank))
    matrix = low_rank + noise_std * rng.standard_normal(low_rank.shape)
    singular_values = np.linalg.svd(matrix, compute_uv=False)
    best_error = float(np.linalg.norm(singular_values[rank:]))
    n_drawn = min(
        n_columns, math.ceil(rank * np.log(n_columns) * np.log(1 / delta) / eps**2)
    )
    errors = []
    for _ in range(N_DRAWS):
        columns = rng.choice(n_columns, n_drawn, replace=False)
        basis, _ = np.linalg.qr(matrix[:, columns])
        errors.append(np.linalg.norm(matrix - basis @ (basis.T @ matrix)))
    ratios = np.array(errors) / best_error
    return AnalysisResult(
        {
            "columns": float(n_drawn),
            "column_share": n_drawn / n_columns,
            "successes": float(np.mean(ratios <= 1.0 + eps)),
            "error_over_best": float(np.median(ratios)),
        }
    )
