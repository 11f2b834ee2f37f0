"""What a fitted model needs of new rows, and new rows as it needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.ranges import check_large
from mtlrun.data.table import SEQUENCE, Table, coded, names_of, read_table
from mtlrun.errors import DataError, counted, listed

_OTHER_MODEL = "Is it the right model? model.json beside it says on what it was fitted."


@dataclass(frozen=True)
class Schema:
    """What a model needs of new rows.

    Attributes
    ----------
    n_features : int
        Columns of X; letters per row if `strings`.
    features : tuple of str
        Their names; empty if the model knows none: columns are then taken in the order of the file.
    strings : bool
        Whether X holds sequences of letters.
    task_column : str or None
        Column that names the task of every row; None if the model needs no tasks.
    table : bool
        Whether the model was fitted on a table of words, numbers and empty cells (`mtlrun.data.roles`).
    categories : mapping of str to list of str
        Words of its columns of words.
    """

    n_features: int
    features: tuple[str, ...] = ()
    strings: bool = False
    task_column: str | None = None
    table: bool = False
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def columns(self) -> Sequence[str]:
        """Names of the features; of a model that takes them by position, the last one of ``x1``, ``x2``, ..."""
        return self.features if self.table else (f"x{self.n_features}",)


@dataclass(frozen=True)
class NewRows:
    """Rows ready for a model.

    Attributes
    ----------
    X : ndarray, csr_matrix, or byte strings of shape (n,)
    tasks : list of str, ndarray of int or None
        The task of every row as the file names it, or its position among the tasks of the model; None if the file does
        not say.
    ignored : list of str
        Columns of the file that are not features of the model.
    """

    X: Any
    tasks: list[str] | np.ndarray | None = None
    ignored: list[str] = field(default_factory=list)


def read_rows(path: Path, schema: Schema) -> NewRows:
    """Read new rows from a file of any format, see `mtlrun.data.table.read_table`.

    Raises
    ------
    DataError
        As `read_table` and `new_rows`.
    """
    return new_rows(read_table(path, like=schema), schema)


def new_rows(table: Table, schema: Schema) -> NewRows:
    """Take the columns that a model needs, by name where both the table and the model have names, else in their order.

    Raises
    ------
    DataError
        If the columns are not those of the model, a cell does not fit, or a number is too large.
    """
    tasks, task_columns = _tasks(table, schema)
    candidates = [name for name in table.columns if name not in task_columns]
    if schema.strings:
        chosen = [SEQUENCE] if SEQUENCE in candidates else candidates[:1]
        X = _sequences(table, chosen)
    else:
        chosen = _features(table, schema, candidates)
        if schema.table and table.sparse is None:
            X = _coded(table, schema, chosen)
        else:
            X = table.numbers(chosen, gaps=schema.table)
        check_large(X, table.name, chosen if table.named else (), table.where)
    found = X.dtype.itemsize if schema.strings else X.shape[1]
    if found != schema.n_features:
        what = "letters per sequence" if schema.strings else "columns"
        raise DataError(f"{table.name}: {found} {what}, the model has {schema.n_features}", _OTHER_MODEL)
    ignored = [name for name in candidates if name not in set(chosen)]
    return NewRows(X, tasks, ignored)


def _tasks(table: Table, schema: Schema) -> tuple[list[str] | np.ndarray | None, set[str]]:
    """Return the tasks of the rows, and the columns that are about tasks."""
    columns = [name for name in (schema.task_column, table.default_task) if name is not None and name in table.columns]
    if not columns:
        return None, set(columns)
    values = table.column(columns[0])
    if table.numbered_tasks and not schema.table:
        return values.to_numpy(dtype=np.int64) - 1, set(columns)
    return names_of(values), set(columns)


def _features(table: Table, schema: Schema, candidates: Sequence[str]) -> list[str]:
    """Return the columns that are the features of the model, in its order."""
    wanted, known = list(schema.features), set(candidates)
    if table.named:
        by_name = bool(wanted) and (schema.table or bool(known & set(wanted)))
    else:  # x1, x2, ... mean something to a model that was fitted on such a table
        by_name = schema.table and known.issuperset(wanted)
    if not by_name:
        rest = [name for name in candidates if table.named or name not in table.default_targets]
        if len(rest) != schema.n_features:
            hint = f" besides the task column {schema.task_column!r}" if len(table.columns) > len(candidates) else ""
            needed = counted(schema.n_features, "feature")
            text = f"{table.name}: {counted(len(rest), 'column')}{hint}, the model has {needed}"
            raise DataError(text, "Without names the columns must be those of the training rows, in that order.")
        return rest
    missing = [name for name in wanted if name not in known]
    if missing:
        text = f"{table.name}: {len(missing)} of the model's features are missing: {listed(missing)}"
        raise DataError(text, "Add them, named as in the training data; other columns may stay.")
    return wanted


def _coded(table: Table, schema: Schema, names: Sequence[str]) -> np.ndarray:
    """Return the features of a model of a table; words become their numbers, a new word one beyond them."""
    columns = []
    for feature, name in zip(schema.features, names, strict=True):
        column = table.column(name)
        words = feature in schema.categories and (table.named or not pd.api.types.is_numeric_dtype(column))
        columns.append(coded(column, schema.categories[feature]) if words else table.numbers([name], gaps=True)[:, 0])
    return np.column_stack(columns)


def _sequences(table: Table, names: Sequence[str]) -> np.ndarray:
    if not names or table.sparse is not None or pd.api.types.is_numeric_dtype(table.column(names[0])):
        raise DataError(f"{table.name}: the model was fitted on sequences, the file contains numbers", _OTHER_MODEL)
    cells = [str(cell).strip().upper().encode() for cell in table.column(names[0])]
    lengths = {len(cell) for cell in cells}
    if len(lengths) > 1:
        text = f"{table.name}: sequences of {min(lengths)} to {max(lengths)} letters; all need the same length"
        raise DataError(text, _OTHER_MODEL)
    return np.array(cells)
