"""Gain of multi-task learning against the number of training rows per task, by training on parts of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.comparison.verdict import Answer, Evaluation
from mtlrun.data.dataset import Dataset
from mtlrun.report.grid import Column, Grid

#: Parts of the training rows of every task.
PARTS = (0.1, 0.2, 0.5, 1.0)
COLUMNS = ("part", "rows per task", "multi-task", "without", "gain", "low", "high", "verdict")


def curve_of(answers: dict[float, Answer], dataset: Dataset, rows: Callable[[float], np.ndarray]) -> pd.DataFrame:
    """Return a row per part of the training rows.

    Parameters
    ----------
    answers : dict of float to Answer
        The verdict after training on a part of the rows.
    dataset : Dataset
    rows : callable
        Returns the training rows of the first split for a part.

    Returns
    -------
    DataFrame
        ``part, rows per task`` (the median), mean loss (or AUC) over the tasks ``multi-task`` and ``without`` it,
        ``gain`` with its 95 % interval ``low, high``, and ``verdict``. Empty cells where there is no gain to tell.
    """
    found = []
    for part, answer in sorted(answers.items()):
        gain = answer.gain
        numbers = [None] * 5 if gain is None else [gain.first, gain.second, gain.value, gain.low, gain.high]
        found.append([part, rows_per_task(dataset, rows(part)), *numbers, answer.kind])
    return pd.DataFrame(found, columns=list(COLUMNS))


def rows_per_task(dataset: Dataset, rows: np.ndarray) -> float:
    """Return the median number of targets of a task among some rows."""
    if dataset.task_id is not None:
        return float(np.median(np.bincount(dataset.task_id[rows], minlength=dataset.n_tasks)))
    return float(np.median((~np.isnan(dataset.y[rows])).sum(axis=0)))


def curve_grid(curve: pd.DataFrame) -> Grid:
    """Return the curve as a table of the report."""
    kinds = {"part": "seconds", "rows per task": "count", "verdict": "text"}
    rows: list[list[Any]] = [[None if pd.isna(v) else v for v in row] for row in curve.itertuples(index=False)]
    return Grid([Column(name, kinds.get(name, "score")) for name in curve.columns], rows)


def curve_text(tested: Evaluation) -> str:
    """Say what the table of the curve shows."""
    return (
        "The best multi-task strategy against the best one without it, trained on parts of the rows of every task and "
        f"tested on the same rows. Multi-task and without: mean over the tasks of the {tested.measure}; gain: as in "
        "the verdict, with its 95% interval."
    )
