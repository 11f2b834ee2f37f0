"""Divide-and-conquer robust multi-task learning: sizes, labels and sparsity of its data sets."""

from __future__ import annotations

import numpy as np

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
