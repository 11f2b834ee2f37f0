"""Data sets of relationship learning: regression with rows shared by all tasks."""

from __future__ import annotations

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.problem.taskdata import TaskData


def shared_regression(dataset: Dataset) -> Dataset:
    """Return the data set if it is a regression on shared rows.

    Raises
    ------
    ValueError
        If the data set has labels, or tasks with rows of their own.
    """
    if dataset.y.ndim != 2 or dataset.task_type != "regression":
        raise ValueError(
            "this measure needs a regression data set whose tasks share their rows"
        )
    return dataset


def training_data(dataset: Dataset) -> TaskData:
    """Return the training rows for the solvers, with standardized columns.

    They are the training rows of the split "fixed" if there is one, otherwise all rows.
    """
    rows = np.arange(dataset.n_samples)
    if "fixed" in dataset.splits:
        rows, _ = dataset.splits["fixed"][0]
    X = np.asarray(dataset.X)[rows]
    Y = np.asarray(dataset.y)[rows]
    std = X.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    return TaskData.from_matrix((X - X.mean(axis=0)) / scale, Y)
