"""Predictions of a model as tables, in the units and labels of its training table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.dataset import Dataset
from mtlrun.data.names import class_task, distinct
from mtlrun.model.fitted import Model
from mtlrun.utils.text import sanitize, table_text

#: Labels that names of columns leave out, because the second one is plainly positive.
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
    """Return the predictions of a model for new rows as a table.

    The predictions have the units and labels of the table that the model was fitted on.

    Parameters
    ----------
    model : Model
    X, task_id
        As `Model.read` returns them.
    with_scores, with_probabilities : bool
        Whether to add scores and probabilities to labels.
    interval : float, optional
        Probability with which a new target lies between ``lower`` and ``upper``,
        columns that are added to predictions of numbers (``TARGET:lower`` with several
        targets).
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
        ``row``, ``task`` where rows belong to tasks, and the predictions:
        ``prediction`` or ``label`` for a single target, else a column per target.
        ``score`` and ``probability`` follow, of the second of two labels or of each of
        more labels. The label precedes them (``yes:score``, ``TARGET=red:score``)
        unless the labels are 0/1 or -1/+1.

    Raises
    ------
    UserError
        If probabilities or intervals are requested and the model has none.
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
    # As objects, because NaN would make decimals of whole numbers: 1.0 for label 1.
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
    task_type = facts["task_type"]
    if means:
        predicted = model.means(X, task_id)
    else:
        predicted = model.answers(X, task_id)
    values_by_kind = {}
    if with_scores:
        values_by_kind["score"] = model.scores(X, task_id)
    if with_probabilities:
        values_by_kind["probability"] = model.probabilities(X, task_id)
    table: dict[str, Any] = {"row": np.arange(len(predicted))}
    if model.by_task and task_id is not None:
        # The position of an unknown task is -1, the last name.
        task_names = np.append(np.asarray(model.task_names, dtype=object), "unknown")
        table["task"] = task_names[task_id]
        if names is not None and not isinstance(names, np.ndarray):
            written = np.asarray(names, dtype=object)
            table["task"] = np.where(task_id < 0, written, table["task"])
    if task_type == "multiclass":
        labels = np.asarray(facts["tasks"], dtype=object)
        table["label"] = labels[predicted]
        return pd.DataFrame(table)
    if predicted.ndim > 1:
        # A target may be called "row" or "task", as other columns of this table are.
        target_columns = distinct(model.target_names, table)
        table |= dict(zip(target_columns, predicted.T, strict=True))
    elif task_type == "regression":
        table["prediction"] = predicted
    else:
        table["label"] = predicted
    if task_type == "regression":
        if interval is not None:
            table |= _limits(model, X, task_id, predicted.shape, interval, table)
        return pd.DataFrame(table)
    for kind, values in values_by_kind.items():
        columns = values.reshape(len(predicted), -1).T
        score_columns = distinct(_score_columns(model, kind), table)
        table |= dict(zip(score_columns, columns, strict=True))
    return pd.DataFrame(table)


def scores_table(model: Model, X: Any, task_id: np.ndarray | None) -> pd.DataFrame:
    """Return the scores of labels as a table, with the columns of `answers_table`."""
    scores = model.scores(X, task_id)
    columns = distinct(_score_columns(model, "score"))
    return pd.DataFrame(scores.reshape(len(scores), -1), columns=columns)


def _limits(
    model: Model,
    X: Any,
    task_id: np.ndarray | None,
    shape: tuple[int, ...],
    interval: float,
    taken: Iterable[str],
) -> dict[str, np.ndarray]:
    """Return columns of the lower and upper ends of intervals for new targets.

    `shape` is the shape of the predictions; the columns avoid the names `taken`.
    """
    lower, upper = model.limits(X, task_id, level=interval)
    columns = ["lower", "upper"]
    if len(shape) > 1:
        columns = [f"{name}:lower" for name in model.target_names]
        columns += [f"{name}:upper" for name in model.target_names]
    values = np.column_stack([lower.reshape(shape), upper.reshape(shape)])
    return dict(zip(distinct(columns, taken), values.T, strict=True))


def _score_columns(model: Model, kind: str) -> list[str]:
    """Return the names of the columns of scores or probabilities; `kind` says which."""
    columns = []
    for name in _score_names(model):
        if name:
            columns.append(f"{name}:{kind}")
        else:
            columns.append(kind)
    return columns


def _score_names(model: Model) -> list[str]:
    """Return the label, target or both that each column of the scores is for.

    Plain labels of tasks with rows of their own have an empty name.
    """
    if model.ragged:
        words = next(iter(model.words.values()))
        if words in _PLAIN:
            return [""]
        return [words[1]]
    names = []
    for words, columns in model.outputs():
        tasks = model.about["tasks"][columns]
        if len(words) == 2 and words not in _PLAIN and not model.by_task:
            # The task of two labels is named after its target only.
            tasks = [class_task(task, words[1]) for task in tasks]
        names += tasks
    return names


def tested_table(model: Model, test: Dataset, rows: np.ndarray) -> pd.DataFrame:
    """Return the predictions of a model for test rows, next to their targets.

    Parameters
    ----------
    model : Model
    test : Dataset
        The test rows.
    rows : ndarray of int
        Numbers of the test rows.

    Returns
    -------
    DataFrame
        As of `answers_table`; with the column ``target`` for a single target.
    """
    task_id = test.task_id
    if model.by_task and task_id is None:
        # Each class of each task is a column. In a row, the columns of other tasks are
        # missing.
        is_present = []
        for _, columns in model.outputs():
            is_present.append(~np.isnan(test.y[:, columns.start]))
        task_id = np.array(is_present).argmax(axis=0)
    table = answers_table(model, test.X, task_id).assign(row=rows)
    if test.y.ndim != 1:
        return table
    target = test.y
    if test.task_type == "multiclass":
        target = np.asarray(test.tasks, dtype=object)[test.y]
    elif test.task_type == "regression":
        target = model.in_units(target)
    if model.ragged and model.about.get("labels"):
        target = model.spelt(target)
    position = 1
    if task_id is not None:
        position = 2
    table.insert(position, "target", target)
    return table


def to_csv(table: pd.DataFrame, *, safe: bool = True) -> str:
    """Return a table as CSV with 15 significant digits.

    Fewer digits would merge numbers that differ little next to a large offset.

    Parameters
    ----------
    table : DataFrame
    safe : bool, default=True
        For people and spreadsheets: escape texts that a spreadsheet takes for formulas
        and characters that control a terminal, which changes labels such as ``-``.
        Otherwise write texts unchanged, for programs.
    """
    if safe:
        columns = []
        for _, column in table.items():
            if not pd.api.types.is_numeric_dtype(column):
                column = column.map(_safe_text)
            columns.append(column)
        names = [_safe_text(name) for name in table.columns]
        table = pd.concat(columns, axis=1).set_axis(names, axis=1)
    return str(table.to_csv(index=False, float_format="%.15g", lineterminator="\n"))


def _safe_text(value: object) -> str:
    return table_text(sanitize(str(value)))
