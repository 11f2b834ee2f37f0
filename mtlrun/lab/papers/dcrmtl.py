"""Divide-and-conquer robust multi-task learning: its data sets, and its equality constraint."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse

from mtlrun.data.dataset import Dataset
from mtlrun.engine.analysis import AnalysisResult, analysis


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
)
def data_set_statistics(dataset: Dataset, *, seed: int) -> AnalysisResult:
    """Return the statistics of a data set as `Dataset.statistics` has them, with shares and facts per task.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Without effect: nothing is drawn.

    Returns
    -------
    AnalysisResult
        Quantities: all of `Dataset.statistics`, ``positive_share`` (of the known labels), ``missing_share`` (of the
        targets); NaN for what the data set does not have is left out. Per task: ``rows`` (known targets) and, of binary
        tasks, ``positive_share``.
    """
    values = {name: float(value) for name, value in dataset.statistics().items()}
    if dataset.task_type == "multiclass":
        counts = np.bincount(dataset.y.astype(np.int64), minlength=dataset.n_tasks)
        return AnalysisResult(values, per_task={"rows": counts.astype(float).tolist()})
    known = ~np.isnan(dataset.y)
    values["missing_share"] = float(1 - known.mean())
    per_task = {"rows": dataset.sum_by_task(known)}
    if dataset.task_type == "binary":
        positive = known & (dataset.y > 0)
        values["positive_share"] = float(positive.sum() / max(1, known.sum()))
        per_task["positive_share"] = np.divide(
            dataset.sum_by_task(positive), np.maximum(1, per_task["rows"])
        )
    return AnalysisResult(
        values, per_task={name: np.asarray(v).tolist() for name, v in per_task.items()}
    )


@analysis(
    {
        "training_rows": "training rows",
        "features": "features",
        "design_rank": "rank of the training rows of X",
        "constraint_residual": "smallest ||X W - Y||_F of any coefficients, relative to ||Y||_F",
    },
    lower=("constraint_residual",),
    varies=("constraint_residual",),
)
def equality_constraint(
    dataset: Dataset, *, seed: int, train: float = 0.4
) -> AnalysisResult:
    """Measure how nearly any coefficients fulfill the constraint X (L + E) = Y of problem (6).

    The smallest residual is that of least squares, whatever L and E are. It is zero only
    if every column of Y lies in the column space of X, which for general Y needs as many
    independent columns as there are training rows.

    Parameters
    ----------
    dataset : Dataset
        Rows shared by all tasks, no missing targets.
    seed : int
        Of the draw of the training rows.
    train : float, default 0.4
        Share of the rows that are training rows.

    Raises
    ------
    ValueError
        If tasks have rows of their own, or targets are missing.
    """
    if dataset.y.ndim != 2 or np.isnan(dataset.y).any():
        raise ValueError(
            "the equality constraint is asked of tasks that share all rows, without missing targets"
        )
    n_rows = round(train * dataset.n_samples)
    rows = np.random.default_rng(seed).permutation(dataset.n_samples)[:n_rows]
    X = dataset.X[rows]
    if scipy.sparse.issparse(X):
        X = X.toarray()
    Y = np.asarray(dataset.y, dtype=float)[rows]
    # The columns of U span what X can produce; the part of Y beside it is the residual.
    U = scipy.linalg.orth(np.asarray(X, dtype=float))
    residual = float(np.linalg.norm(Y - U @ (U.T @ Y)) / np.linalg.norm(Y))
    return AnalysisResult(
        {
            "training_rows": float(n_rows),
            "features": float(X.shape[1]),
            "design_rank": float(U.shape[1]),
            "constraint_residual": residual,
        }
    )
