"""Predictions of a model as tables, in the units and words of the table it was fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.dataset import Dataset
from mtlrun.data.names import class_task, distinct
from mtlrun.model.fitted import Model
from mtlrun.utils.text import sanitize, table_text

#: Labels that need no words.
_PLAIN = (["0", "1"], ["-1", "1"])


def answers_table(
    model: Model,
    X: Any,
    task_id: np.ndarray | None,
    *,
    with_scores: bool = True,
    with_probabilities: bool = False,
    interval: float | None = None,
    means: bool = False,
    names: Sequence[str] | np.ndarray | None = None,
    is_predicted: np.ndarray | bool = True,
) -> pd.DataFrame:
    """Return what a model predicts for new rows as a table, in the units and words of the table it was fitted on.

    Parameters
    ----------
    model : Model
    X, task_id
        As `Model.read` returns them.
    with_scores, with_probabilities : bool
        Whether scores and probabilities stand beside labels.
    interval : float, optional
        Probability with which a new target lies between ``lower`` and ``upper``, columns that stand beside predictions
        of numbers (``TARGET:lower`` where there are several targets).
    means : bool, default False
        Whether transformed targets are predicted by their means, not medians.
    names : sequence of str, or ndarray of int, optional
        Tasks of the rows as they are written, which new tasks keep; positions are not
        written.
    is_predicted : ndarray of bool, or True
        Rows whose predictions are shown; other rows have empty cells.

    Returns
    -------
    DataFrame
        ``row``, ``task`` where rows belong to tasks, and the predictions: ``prediction`` or ``label`` for one target,
        else a column per target. Then ``score`` and ``probability`` of the second label of two, of every label if
        there are more; the labels stand before it (``yes:score``, ``TARGET=red:score``) unless they are 0/1 or -1/+1.

    Raises
    ------
    UserError
        If probabilities or intervals are wanted of a model that has none.
    """
    table = _answers(
        model,
        X,
        task_id,
        with_scores=with_scores,
        with_probabilities=with_probabilities,
        interval=interval,
        means=means,
        names=names,
    )
    if np.all(is_predicted):
        return table
    for name in table.columns:
        if name == "task":
            written = np.asarray(names, dtype=object)
            table[name] = np.where(is_predicted, table[name], written)
        elif name != "row":
            table[name] = _blanked(table[name], is_predicted)
    return table


def _blanked(column: pd.Series, is_shown: np.ndarray | bool) -> pd.Series:
    """Return a column with empty cells in some rows: NaN for decimals, else None."""
    if pd.api.types.is_float_dtype(column):
        return column.where(is_shown)
    return column.astype(object).where(is_shown, None)


def _answers(
    model: Model,
    X: Any,
    task_id: np.ndarray | None,
    *,
    with_scores: bool,
    with_probabilities: bool,
    interval: float | None,
    means: bool,
    names: Sequence[str] | np.ndarray | None,
) -> pd.DataFrame:
    """Return the columns of `answers_table`, of all rows."""
    facts = model.about
    if means:
        found = model.means(X, task_id)
    else:
        found = model.answers(X, task_id)
    more = {}
    if with_scores:
        more["score"] = model.scores(X, task_id)
    if with_probabilities:
        more["probability"] = model.probabilities(X, task_id)
    table: dict[str, Any] = {"row": np.arange(len(found))}
    if model.by_task and task_id is not None:
        known_names = np.append(np.asarray(model.task_names, dtype=object), "unknown")
        table["task"] = known_names[task_id]
        if names is not None and not isinstance(names, np.ndarray):
            written = np.asarray(names, dtype=object)
            table["task"] = np.where(task_id < 0, written, table["task"])
    if facts["task_type"] == "multiclass":
        labels = np.asarray(facts["tasks"], dtype=object)
        table["label"] = labels[found]
        return pd.DataFrame(table)
    if found.ndim == 1:
        column = "label"
        if facts["task_type"] == "regression":
            column = "prediction"
        table[column] = found
    else:
        table |= dict(zip(distinct(model.target_names, table), found.T, strict=True))
    if facts["task_type"] == "regression":
        if interval is not None:
            table |= _limits(model, X, task_id, found, interval, table)
        return pd.DataFrame(table)
    for kind, values in more.items():
        names = []
        for name in _scored(model):
            if name:
                names.append(f"{name}:{kind}")
            else:
                names.append(kind)
        columns = values.reshape(len(found), -1).T
        table |= dict(zip(distinct(names, table), columns, strict=True))
    return pd.DataFrame(table)


def scores_table(model: Model, X: Any, task_id: np.ndarray | None) -> pd.DataFrame:
    """Return the scores of labels as a table, with the columns of `answers_table`."""
    scores = model.scores(X, task_id)
    names = [f"{name}:score" if name else "score" for name in _scored(model)]
    return pd.DataFrame(scores.reshape(len(scores), -1), columns=distinct(names))


def _limits(
    model: Model,
    X: Any,
    task_id: np.ndarray | None,
    found: np.ndarray,
    interval: float,
    taken: Iterable[str],
) -> dict[str, np.ndarray]:
    """Return columns of the lower and upper ends of intervals for new targets."""
    lower, upper = model.limits(X, task_id, level=interval)
    names = [""] if found.ndim == 1 else [f"{name}:" for name in model.target_names]
    columns = [f"{name}{end}" for end in ("lower", "upper") for name in names]
    shape = found.shape
    values = np.column_stack([lower.reshape(shape), upper.reshape(shape)])
    return dict(zip(distinct(columns, taken), values.T, strict=True))


def _scored(model: Model) -> list[str]:
    """Return what every column of the scores is about: a label, a target, or both; nothing where that is plain."""
    if model.ragged:
        words = next(iter(model.words.values()))
        return ["" if words in _PLAIN else words[1]]
    tasks, names = model.about["tasks"], []
    for words, place in model.outputs():
        single = len(words) == 2 and words not in _PLAIN and not model.by_task
        names += [
            class_task(task, words[1]) if single else task for task in tasks[place]
        ]
    return names


def tested_table(model: Model, test: Dataset, rows: np.ndarray) -> pd.DataFrame:
    """Return what a model predicts for test rows, as `answers_table` does, with the column ``target`` if there is one.

    Parameters
    ----------
    model : Model
    test : Dataset
        The test rows.
    rows : ndarray of int
        Their numbers.
    """
    task_id = test.task_id
    if (
        model.by_task and task_id is None
    ):  # classes of each task are columns: those of other tasks are missing
        task_id = np.array(
            [~np.isnan(test.y[:, place.start]) for _, place in model.outputs()]
        ).argmax(axis=0)
    table = answers_table(model, test.X, task_id).assign(row=rows)
    if test.y.ndim == 1:
        target = (
            np.asarray(test.tasks, dtype=object)[test.y]
            if test.task_type == "multiclass"
            else test.y
        )
        if test.task_type == "regression":
            target = model.in_units(target)
        spelt = model.ragged and model.about.get("labels")
        table.insert(
            1 if task_id is None else 2,
            "target",
            model.spelt(target) if spelt else target,
        )
    return table


def to_csv(table: pd.DataFrame, *, safe: bool = True) -> str:
    """Return a table as CSV, 15 significant digits: numbers next to a large offset stay apart.

    Parameters
    ----------
    table : DataFrame
    safe : bool, default=True
        For people and spreadsheets: texts are no formulas and move no terminal, which changes labels such as ``-``.
        Otherwise texts are written as they are, for programs.
    """
    if not safe:
        return str(table.to_csv(index=False, float_format="%.15g", lineterminator="\n"))
    columns = [
        column
        if pd.api.types.is_numeric_dtype(column)
        else column.map(lambda v: table_text(sanitize(str(v))))
        for _, column in table.items()
    ]
    table = pd.concat(columns, axis=1).set_axis(
        [table_text(sanitize(str(name))) for name in table.columns], axis=1
    )
    return str(table.to_csv(index=False, float_format="%.15g", lineterminator="\n"))
