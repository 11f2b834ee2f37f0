"""Predictions as a table: one row per row of data, with task, target, score and label as far as they exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.utils.text import sanitize, table_text


def predictions_table(
    scores: np.ndarray,
    *,
    task_type: str,
    tasks: Sequence[str],
    rows: np.ndarray | None = None,
    task_id: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
    with_scores: bool = True,
) -> pd.DataFrame:
    """Return predictions as a table.

    Parameters
    ----------
    scores : ndarray of shape (n,), (n, n_tasks) or (n, n_classes)
        Predictions of a regression, decision values otherwise.
    task_type : {"binary", "regression", "multiclass"}
    tasks : sequence of str
        Names of the tasks, of the classes in a multi-class set.
    rows : ndarray of int, optional
        Numbers of the rows; default 0, 1, ...
    task_id : ndarray of int, optional
        Ragged data: the task of every row.
    labels : ndarray, optional
        Of the shape of the scores; class numbers, shape (n,), in a multi-class set.
    targets : ndarray, optional
        True values of shape (n,).
    probabilities : ndarray, optional
        Of +1, in the shape of the scores.
    with_scores : bool, default True
        Whether there are scores beside labels.

    Returns
    -------
    DataFrame
        Ragged: ``row, task, [target], prediction`` (regression) or ``row, task, [target], [score], label,
        [probability]``; a task of code -1 is called ``unknown``.
        Shared: ``row`` and one column per task with its prediction (regression) or label, then, with labels, one
        column ``<task>:score`` and, with probabilities, one column ``<task>:probability`` per task. A task that is
        called like a column before it gets a number: ``row (2)``.
        Multi-class: ``row, [target], label``.
    """
    table: dict[str, Any] = {"row": np.arange(len(scores)) if rows is None else rows}
    names = np.asarray(tasks, dtype=object)
    if task_type == "multiclass":
        if targets is not None:
            table["target"] = names[targets]
        table["label"] = names[np.asarray(labels, dtype=int)]
        return pd.DataFrame(table)
    if scores.ndim == 2:
        found = {"": scores if task_type == "regression" else np.asarray(labels, dtype=int)}
        if task_type != "regression" and with_scores:
            found[":score"] = scores
        if probabilities is not None:
            found[":probability"] = probabilities
        columns = distinct([f"{task}{kind}" for kind in found for task in tasks], table)
        parts = np.split(np.array(columns, dtype=object), len(found))
        frames = [pd.DataFrame(values, columns=part) for values, part in zip(found.values(), parts, strict=True)]
        return pd.concat([pd.DataFrame(table), *frames], axis=1)
    if task_id is not None:
        table["task"] = np.append(names, "unknown")[task_id]
    if targets is not None:
        table["target"] = targets
    if task_type == "regression":
        table["prediction"] = scores
    else:
        if with_scores:
            table["score"] = scores
        table["label"] = np.asarray(labels, dtype=int)
        if probabilities is not None:
            table["probability"] = probabilities
    return pd.DataFrame(table)


def distinct(names: Iterable[Any], taken: Iterable[str] = ()) -> list[str]:
    """Return names that differ from each other and from those that are taken: ``age (2)`` for a second ``age``."""
    wanted = [str(name) for name in names]
    used, given = set(taken), {*wanted}
    found = []
    for name in wanted:
        new, count = name, 1
        while new in used or (count > 1 and new in given):
            count += 1
            new = f"{name} ({count})"
        used.add(new)
        found.append(new)
    return found


def to_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, eight significant digits; its names are no formulas and move no terminal."""
    columns = [
        column if pd.api.types.is_numeric_dtype(column) else column.map(lambda v: table_text(sanitize(str(v))))
        for _, column in table.items()
    ]
    table = pd.concat(columns, axis=1).set_axis([table_text(sanitize(str(name))) for name in table.columns], axis=1)
    return str(table.to_csv(index=False, float_format="%.8g", lineterminator="\n"))
