"""The columns that a fitted model needs in new rows, and new rows in that form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from pandas.api.types import is_numeric_dtype
from scipy import sparse

from mtlrun.data.clock import Clock
from mtlrun.data.dataset import Dataset, check_large
from mtlrun.data.reading.names import Known, Names, as_written, similar_names
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import SEQUENCE, Table
from mtlrun.errors import DataError, UnknownNameError, counted, listed
from mtlrun.utils.text import normalized

_OTHER_MODEL = "Is it the right model? model.json beside it says on what it was fitted."


@dataclass(frozen=True)
class Schema:
    """The columns that a model needs in new rows.

    Attributes
    ----------
    n_features : int
        Columns of X; letters per row if `strings`.
    features : tuple of str
        Their names; empty if the model knows none: columns are then taken in the order
        of the file.
    strings : bool
        Whether X holds sequences of letters.
    task_column : str or None
        Column that names the task of each row; None if the model needs no tasks.
    table : bool
        Whether the model was fitted on a table of words, numbers and empty cells
        (`mtlrun.data.roles.make`).
    categories : mapping of str to list of str
        Words of its columns of words.
    tasks : tuple of str
        Tasks to which rows may belong, as far as the task column is needed.
    complete : tuple of str
        Features without a missing value in the training rows.
    clock : Clock or None
        When each task begins, if features are derived from the time of the rows.
    ranges : mapping of str to (float, float)
        Smallest and largest number of features in the training rows; empty for models
        of earlier versions.
    """

    n_features: int
    features: tuple[str, ...] = ()
    strings: bool = False
    task_column: str | None = None
    table: bool = False
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    complete: tuple[str, ...] = ()
    clock: Clock | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A model of an earlier version may hold names that are not normalized.
        categories = {normalized(name): w for name, w in self.categories.items()}
        object.__setattr__(self, "categories", categories)
        for name in ("features", "complete"):
            names = tuple(map(normalized, getattr(self, name)))
            object.__setattr__(self, name, names)
        ranges = {normalized(name): tuple(ends) for name, ends in self.ranges.items()}
        object.__setattr__(self, "ranges", ranges)
        if self.task_column is not None:
            object.__setattr__(self, "task_column", normalized(self.task_column))

    @property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """Columns of names, and the names of the training rows."""
        if self.task_column is None:
            tasks = {}
        else:
            tasks = {self.task_column: self.tasks}
        return {**self.categories, **tasks}

    @property
    def needed_features(self) -> tuple[str, ...]:
        """Names of the columns of new rows that the features are made of."""
        if self.clock is None:
            return self.features
        derived = self.clock.columns
        names = [name for name in self.features if name not in derived]
        return tuple(dict.fromkeys([*names, self.clock.column]))

    @property
    def columns(self) -> Sequence[str]:
        """Names of the features.

        For a model that takes them by position, it is the last of ``x1``, ``x2`` and so
        on.
        """
        if self.table:
            return self.features
        return (f"x{self.n_features}",)


@dataclass(frozen=True)
class UnknownTasks:
    """Tasks of new rows that no training row had.

    Attributes
    ----------
    n_rows : int
        Number of their rows.
    names : list of str
        The tasks.
    similar : mapping of str to str
        Task of the training rows that an unknown task resembles: 95 for 00095. It may
        be the same task, written differently.
    """

    n_rows: int = 0
    names: list[str] = field(default_factory=list)
    similar: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[str], tasks: Collection[str]) -> UnknownTasks:
        """Return the unknown ones among the tasks of rows.

        Parameters
        ----------
        rows : sequence of str
            Task of each row.
        tasks : collection of str
            Tasks of the training rows; a set or dict is searched fast.
        """
        unknown = [name for name in rows if name not in tasks]
        names = list(dict.fromkeys(unknown))
        if not names:
            return cls()
        return cls(len(unknown), names, similar_names(names, tasks))

    def sentences(self) -> list[str]:
        """Return a sentence about the tasks, none if there are none."""
        if not self.names:
            return []
        tasks = f"{counted(len(self.names), 'task')} that no training row had"
        text = f"{counted(self.n_rows, 'row')} of {tasks}: {listed(self.names)}"
        if self.similar:
            text += f"; {self.similar_clause()}"
        return [text]

    def similar_clause(self) -> str:
        """Return a clause about the tasks that resemble tasks of the training rows."""
        pairs = [f"{name!r} ({twin!r})" for name, twin in self.similar.items()]
        resemble = counted(len(pairs), "resembles a task", "resemble tasks")
        return (
            f"{resemble} of the training rows: {listed(pairs)}. Write the same task in "
            "the same way"
        )

    def error(
        self, rows: Sequence[str], tasks: Sequence[str], where: str
    ) -> UnknownNameError:
        """Return the error of a model that cannot predict unknown tasks.

        Parameters
        ----------
        rows : sequence of str
            Task of each row.
        tasks : sequence of str
            Tasks of the model.
        where : str
            Name of the data, for the message.
        """
        kind = f"task of the model in row {list(rows).index(self.names[0]) + 1}:"
        n_with_digits = 0
        for name in tasks:
            n_with_digits += any(map(str.isdigit, name))
        error = UnknownNameError(kind, self.names[0], tasks)
        if self.similar:
            error.remedy = f"{self.similar_clause()}."
        elif 2 * n_with_digits > len(tasks):
            # Identifiers, as of patients: a similar number is another patient, not
            # another spelling.
            error.remedy = f"The model was fitted on {counted(len(tasks), 'task')}."
        others = ""
        if self.names[1:]:
            others = f" (also unknown: {listed(self.names[1:])})"
        error.message = f"{where}: {error.message}{others}"
        remedy = (
            "A model that was compared with --new-tasks or --unseen mean predicts new "
            "tasks, too"
        )
        if self.n_rows < len(rows):
            remedy += "; predict_table predicts the other rows"
        error.remedy = f"{error.remedy} {remedy}."
        return error


@dataclass(frozen=True)
class NewRows:
    """Rows ready for a model.

    Attributes
    ----------
    schema : Schema
        Columns of the model.
    X : ndarray, csr_matrix, or byte strings of shape (n,)
    tasks : list of str, ndarray of int or None
        The task of each row as the file names it ("" where its cell is empty), or its
        position among the tasks of the model; None if the file does not say.
    table : Table or None
        The file; None for the rows of a data set.
    ignored : list of str
        Columns of the file that are not features of the model.
    new_words : dict of str to dict of str to int
        Words that the training rows did not have, and how often they occur, by column.
    is_beyond : ndarray of bool, shape (n,), or None
        Which rows lie outside the times of the training rows; None where the model uses
        no times.
    remarks : list of str
        Sentences about how a model of an earlier version reads the rows.
    without_task : str
        Clause about rows whose task is empty; "" if there are none.
    """

    schema: Schema
    X: Any
    tasks: list[str] | np.ndarray | None = None
    table: Table | None = None
    ignored: list[str] = field(default_factory=list)
    new_words: dict[str, dict[str, int]] = field(default_factory=dict)
    is_beyond: np.ndarray | None = None
    remarks: list[str] = field(default_factory=list)
    without_task: str = ""

    @cached_property
    def missing(self) -> dict[str, np.ndarray]:
        """Rows without a cell, by columns in which no training row lacked one."""
        if sparse.issparse(self.X) or self.schema.strings:
            return {}
        return self._cells(self.schema.complete, np.isnan)

    @cached_property
    def unknown(self) -> dict[str, np.ndarray]:
        """Rows with a category that no training row had, by column."""
        masks: dict[str, np.ndarray] = {}
        for name, words in self.schema.categories.items():
            # `new_rows` gives a new category the next free number.
            masks |= self._cells([name], partial(np.equal, len(words)))
        return masks

    @cached_property
    def beyond(self) -> dict[str, np.ndarray]:
        """Rows outside the numbers or the times of the training rows, by column."""
        masks: dict[str, np.ndarray] = {}
        for name, (low, high) in self.schema.ranges.items():
            masks |= self._cells([name], partial(_is_outside, low=low, high=high))
        clock = self.schema.clock
        if clock is not None and self.is_beyond is not None and self.is_beyond.any():
            masks[clock.column] = self.is_beyond
        return masks

    def _cells(
        self, names: Collection[str], is_odd: Callable[[np.ndarray], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the rows of odd cells, for the columns that have some."""
        masks = {}
        for j, name in enumerate(self.schema.features):
            if name in names:
                column = self.X[:, [j]]
                if sparse.issparse(column):
                    column = column.toarray()
                mask = is_odd(column[:, 0])
                if mask.any():
                    masks[name] = mask
        return masks

    def masks(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the rows that are unlike the training rows, by kind and column."""
        return {
            "unknown_categories": self.unknown,
            "missing": self.missing,
            "beyond_range": self.beyond,
        }

    def flags(self) -> dict[str, list[tuple[str, ...]]]:
        """Return for each row the columns that are unlike the training rows, by kind."""
        flags = {}
        for kind, masks in self.masks().items():
            names: list[tuple[str, ...]] = [()] * self.X.shape[0]
            for name, mask in masks.items():
                for row in np.flatnonzero(mask).tolist():
                    names[row] = (*names[row], name)
            flags[kind] = names
        return flags

    def sentences(self, *, with_ranges: bool = False) -> list[str]:
        """Return sentences about what the training rows did not have.

        Parameters
        ----------
        with_ranges : bool, default=False
            Whether numbers outside the training range count, as times do. A few
            are in most files, so that a program is not warned.
        """
        gaps = {name: int(mask.sum()) for name, mask in self.missing.items()}
        sentences = [*self.remarks, *gap_warning(gaps)]
        texts = []
        for column, words in self.new_words.items():
            names = listed([repr(word) for word in words])
            texts.append(f"{column!r} ({sum(words.values())}: {names})")
        if texts:
            sentences.append(
                f"words that the training rows did not have: {listed(texts)}"
            )
        beyond = self.beyond
        if not with_ranges:
            beyond = {n: mask for n, mask in beyond.items() if mask is self.is_beyond}
        texts = []
        for column, mask in beyond.items():
            text = f"{column!r} ({np.count_nonzero(mask)})"
            if column in self.schema.ranges:
                low, high = self.schema.ranges[column]
                text = f"{text[:-1]}; {low:.6g} to {high:.6g} in training)"
            texts.append(text)
        if texts:
            n_rows = int(np.any(list(beyond.values()), axis=0).sum())
            sentences.append(
                f"{counted(n_rows, 'row')} beyond the training range: {listed(texts)}; "
                "the model extrapolates, and intervals may be too narrow there"
            )
        return sentences


def _is_outside(values: np.ndarray, *, low: float, high: float) -> np.ndarray:
    """Return which numbers lie outside an interval; NaN does not."""
    return (values < low) | (values > high)


def gap_warning(gaps: Mapping[str, int]) -> list[str]:
    """Return a sentence about columns with missing cells, none if there are none."""
    if not gaps:
        return []
    columns = listed([f"{name!r} ({count})" for name, count in gaps.items()])
    return [
        "missing cells in columns that are complete in the training rows: "
        f"{columns}; numbers are filled with the mean of the training rows"
    ]


def training_ranges(dataset: Dataset) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest number of each feature, as of `Schema`."""
    if sparse.issparse(dataset.X) or dataset.strings:
        return {}
    ranges = {}
    for name, column in zip(dataset.features, dataset.X.T, strict=False):
        is_filled = ~np.isnan(column)
        if name not in dataset.categories and is_filled.any():
            values = column[is_filled]
            ranges[name] = (float(values.min()), float(values.max()))
    return ranges


def read_rows(path: Path, schema: Schema) -> NewRows:
    """Read new rows from a file of any format, see `mtlrun.data.reading.read.read_table`.

    Raises
    ------
    DataError
        As `read_table` and `new_rows`.
    """
    return new_rows(read_table(path, like=schema), schema)


def new_rows(table: Table, schema: Schema) -> NewRows:
    """Take the columns that a model needs.

    They are taken by name if both the table and the model have names, else by position.

    Raises
    ------
    DataError
        If the columns differ from the model's, a cell does not fit, or a number is too
        large.
    """
    tasks, task_columns = _tasks(table, schema)
    is_beyond = None
    remarks: list[str] = []
    if schema.clock is not None:
        remarks = schema.clock.describe_assumption()
        task_names = None
        if tasks is not None:
            task_names = list(map(str, tasks))
        times, elapsed = schema.clock.elapsed(table, task_names)
        is_beyond = schema.clock.is_beyond(times, elapsed, schema.features)
        derived = schema.clock.columns
        frame = table.frame.assign(**dict.fromkeys(derived, elapsed))
        order = table.order
        if order:
            order = [*order, *derived]
        table = replace(table, frame=frame, order=order)
    new_words: dict[str, dict[str, int]] = {}
    candidates = [name for name in table.columns if name not in task_columns]
    if schema.strings:
        if SEQUENCE in candidates:
            chosen = [SEQUENCE]
        else:
            chosen = candidates[:1]
        is_text = bool(chosen) and table.sparse is None
        if not is_text or is_numeric_dtype(table.column(chosen[0])):
            raise DataError(
                f"{table.name}: the model was fitted on sequences, the file contains "
                "numbers",
                _OTHER_MODEL,
            )
        cells = [str(cell).strip().upper().encode() for cell in table.column(chosen[0])]
        lengths = {len(cell) for cell in cells}
        if len(lengths) > 1:
            raise DataError(
                f"{table.name}: sequences of {min(lengths)} to {max(lengths)} letters; "
                "all need the same length",
                _OTHER_MODEL,
            )
        X = np.array(cells)
        width = X.dtype.itemsize
        unit = "letters per sequence"
    else:
        chosen = _features(table, schema, candidates)
        table.refuse_errors(chosen)
        if schema.table and (table.sparse is None or schema.categories):
            words = {}
            for feature, name in zip(schema.features, chosen, strict=True):
                if feature in schema.categories:
                    model_words = Known(schema.categories[feature], name)
                    words[name], new = model_words.codes(table.column(name))
                    if new:
                        new_words[name] = new
            X = table.features(chosen, words)
        else:
            X = table.numbers(chosen, gaps=schema.table)
        check_large(X, table.name, chosen if table.named else (), table.where)
        width = X.shape[1]
        unit = "columns"
    if width != schema.n_features:
        raise DataError(
            f"{table.name}: {width} {unit}, the model has {schema.n_features}",
            _OTHER_MODEL,
        )
    used = set(chosen)
    if schema.clock is not None:
        used.update((schema.clock.column, *schema.clock.columns))
    ignored = [name for name in candidates if name not in used]
    without_task = ""
    if isinstance(tasks, list) and "" in tasks:
        place = table.where(tasks.index(""))
        n_empty = counted(tasks.count(""), "row")
        without_task = f"{place}: the task is empty ({n_empty} in all)"
    return NewRows(
        schema, X, tasks, table, ignored, new_words, is_beyond, remarks, without_task
    )


def _tasks(
    table: Table, schema: Schema
) -> tuple[list[str] | np.ndarray | None, set[str]]:
    """Return the tasks of the rows, and the columns that are about tasks."""
    columns = []
    for name in (schema.task_column, table.default_task):
        if name is not None and name in table.columns:
            columns.append(name)
    if not columns:
        return None, set(columns)
    values = table.column(columns[0])
    if table.numbered_tasks and not schema.table:
        return values.to_numpy(dtype=np.int64) - 1, set(columns)
    if not schema.tasks:
        values = table.text(columns[0])
        if not is_numeric_dtype(values) and values.dtype != object:
            values = as_written(values)
    table.refuse_errors(columns[:1])
    task_names = Names.of(values)
    model_tasks = Known(schema.tasks, columns[0])
    # Of several rows of a task, the cell of the first one, typed as in the column.
    codes, first_rows = np.unique(task_names.codes, return_index=True)
    first_rows = first_rows[codes >= 0]
    names = [model_tasks.find(cell) for cell in values.iloc[first_rows].tolist()]
    names.append("")  # Code -1: an empty cell.
    return [names[code] for code in task_names.codes], set(columns)


def _features(table: Table, schema: Schema, candidates: Sequence[str]) -> list[str]:
    """Return the columns that are the features of the model, in its order."""
    wanted = list(schema.features)
    available = set(candidates)
    if table.named and wanted:
        by_name = True
    else:  # x1, x2, ... mean something to a model that was fitted on such a table
        by_name = schema.table and available.issuperset(wanted)
    if not by_name:
        rest = list(candidates)
        if not table.named:
            rest = [name for name in candidates if name not in table.default_targets]
        if len(rest) != schema.n_features:
            hint = ""
            if len(table.columns) > len(candidates):
                hint = f" besides the task column {schema.task_column!r}"
            needed = counted(schema.n_features, "feature")
            raise DataError(
                f"{table.name}: {counted(len(rest), 'column')}{hint}, "
                f"the model has {needed}",
                "Without names the columns must be those of the training rows, in that "
                "order.",
            )
        return rest
    missing = [name for name in wanted if name not in available]
    if missing:
        raise DataError(
            f"{table.name}: {len(missing)} of the model's features are missing: "
            f"{listed(missing)}",
            "Add them, named as in the training data; other columns may stay.",
        )
    return wanted
