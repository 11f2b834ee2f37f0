"""Tables: rows with named columns. Every format is read into one.

`mtlrun.data.reading.read` reads them from files.
"""

from __future__ import annotations

import importlib
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype, is_object_dtype
from scipy import sparse

from mtlrun.data.reading.files import Snapshot
from mtlrun.data.reading.frames import (
    column_names,
    nameable,
    no_date,
    pandas_frame,
    typed,
    with_index,
)
from mtlrun.data.reading.names import (
    Names,
    TrainingColumns,
    drop_option,
    is_number,
    is_spreadsheet_error,
    texts_of,
    without_markers,
)
from mtlrun.errors import DataError, UnknownNameError, counted, listed, shorten
from mtlrun.utils.sizes import (
    SPARSE_COLUMNS,
    allow,
)
from mtlrun.utils.text import column_name, normalized

#: Columns of formats without names: the target and the task of svmlight files and
#: MATLAB cells, and sequences.
TARGET = "target"
TASK = "task"
SEQUENCE = "sequence"
#: Errors of numpy and the zip module for damaged or forged archives; each was seen.
DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass
class Table:
    """Rows with named columns.

    Attributes
    ----------
    name : str
        The file, for messages.
    frame : DataFrame
        Numbers and words; NaN or None where missing. Of a sparse table only the columns
        that are not features.
    sparse : csr_matrix or None
        Features of a sparse table.
    names : list of str
        Their names.
    default_targets : list of str
        Targets that the format itself names.
    default_task : str or None
        Column of tasks that the format itself has.
    words : dict of str to list of str
        Columns whose values are declared in the file, and the values in the order of
        the declaration.
    named : bool
        Whether the columns have names of their own; otherwise they are called x1, x2,
        ...
    numbered_tasks : bool
        Whether the tasks are numbered in the order of the file (cells of a MATLAB
        file).
    order : list of str
        Names of all columns of a sparse table in the order of the file, if words stand
        among the features.
    locate : callable or None
        ``locate(row)`` returns the place of a row in the file.
    lines : callable or None
        ``lines()`` returns the number of each row in the file; None if they are counted
        from 1.
    written : callable or None
        ``written(name)`` returns a column of numbers as the file writes it: ``07`` for
        7. None where numbers are typed.
    source : Snapshot or None
        The file as it was read; None for a data frame.
    notes : list of str
        Decisions made while reading, in sentences.
    part : str
        Sheet of a workbook with several ones, for messages.
    """

    name: str
    frame: pd.DataFrame
    sparse: Any = None
    names: list[str] = field(default_factory=list)
    default_targets: list[str] = field(default_factory=list)
    default_task: str | None = None
    words: dict[str, list[str]] = field(default_factory=dict)
    named: bool = True
    numbered_tasks: bool = False
    order: list[str] = field(default_factory=list)
    locate: Callable[..., str] | None = None
    lines: Callable[[], Sequence[int]] | None = None
    written: Callable[[str], pd.Series] | None = None
    source: Snapshot | None = None
    notes: list[str] = field(default_factory=list)
    part: str = ""

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return self.order or [*map(str, self.frame.columns), *self.names]

    @property
    def texts(self) -> Mapping[str, Collection[str]]:
        """Columns of words, and their words: those declared, or those that occur."""
        words_by_column = dict(self.declared)
        for name in self.frame.columns:
            column = self.frame[name]
            is_text = not is_numeric_dtype(column) and nameable(column)
            if is_text and name not in words_by_column:
                words_by_column[str(name)] = set(Names.of(column).names)
        return words_by_column

    @property
    def declared(self) -> Mapping[str, Collection[str]]:
        """Columns whose values are declared in the file, and these as names."""
        return {name: set(map(normalized, words)) for name, words in self.words.items()}

    def where(self, row: int) -> str:
        """Return the location of a row for messages: ``file:line``, or its number."""
        if self.locate is None:
            return f"{self.name}: row {row + 1}"
        return self.locate(row)

    def row_numbers(self) -> np.ndarray:
        """Return the number of each row, as messages name it."""
        if self.lines is not None:
            numbers = np.asarray(self.lines())
            # pandas has other blanks than the reader of lines.
            if len(numbers) == len(self.frame):
                return numbers
        return np.arange(1, len(self.frame) + 1)

    def column(self, name: str) -> pd.Series:
        """Return a column, dense.

        Raises
        ------
        UnknownNameError
            If there is no such column.
        """
        if name in self.frame.columns:
            return self.frame[name]
        if name not in self.names:
            raise UnknownNameError(
                "column",
                name,
                self.columns,
                f"{self.name}{self.part} has no column {name!r}",
            )
        values = self.sparse[:, [self.names.index(name)]].toarray().ravel()
        return pd.Series(values, name=name)

    def text(self, name: str) -> pd.Series:
        """Return a column of names.

        They are as the file writes them if its numbers are no more than texts.
        """
        column = self.column(name)
        if (
            self.written is None
            or name not in self.frame.columns
            or not is_numeric_dtype(column)
        ):
            return column
        return without_markers(self.written(name))

    def refuse_errors(self, names: Iterable[str]) -> None:
        """Refuse columns with errors of spreadsheets, such as #DIV/0!.

        #N/A is what a spreadsheet shows for a missing value. The other errors tell that
        a formula failed, so nobody knows the value.

        Raises
        ------
        DataError
            With the place of the first one.
        """
        for name in names:
            if name not in self.frame.columns or is_numeric_dtype(self.frame[name]):
                continue
            column = self.frame[name]
            wrong = column.astype(object).map(is_spreadsheet_error).to_numpy(dtype=bool)
            if wrong.any():
                row = int(np.argmax(wrong))
                text = (
                    f"{self.where(row)}: column {name!r} holds the error "
                    f"{str(column.iloc[row]).strip()} of a spreadsheet"
                )
                remedy = (
                    "Mend the formula, leave the cell empty (#N/A counts as empty, "
                    f"too), or leave the column out: {drop_option([name])}"
                )
                raise DataError(text, remedy)

    def numbers(self, names: Sequence[str], *, gaps: bool = False) -> Any:
        """Return columns of numbers as a float64 matrix.

        It is CSR if all of them are features of a sparse table.

        Raises
        ------
        DataError
            With the place of the first word, infinite value or (without `gaps`) missing
            value.
        """
        if self.sparse is not None and set(names) <= set(self.names):
            X = self._sparse_columns(names)
        else:
            columns = []
            for name in names:
                column = self.column(name)
                if not is_numeric_dtype(column):
                    cells = column.astype(object).map(no_date)
                    parsed = pd.to_numeric(cells, errors="coerce")
                    is_wrong = (parsed.isna() & column.notna()).to_numpy()
                    if is_wrong.any():
                        row = int(np.argmax(is_wrong))
                        raise self._no_number(name, row, column.iloc[row])
                    column = parsed
                columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
            X = np.column_stack(columns)
        # Entries that a sparse matrix does not store are zeros.
        values = X
        if sparse.issparse(X):
            values = X.data
        if gaps:
            is_wrong = np.isinf(values)
        else:
            is_wrong = ~np.isfinite(values)
        if is_wrong.any():
            first_wrong = tuple(np.argwhere(is_wrong)[0])
            if sparse.issparse(X):
                entries = sparse.coo_array(X)
                row = entries.row[first_wrong]
                position = entries.col[first_wrong]
            else:
                row, position = first_wrong
            raise self._no_number(names[position], int(row), values[first_wrong])
        return X

    def features(self, names: Sequence[str], columns: Mapping[str, np.ndarray]) -> Any:
        """Return features as a float64 matrix, CSR if the table is sparse.

        Parameters
        ----------
        names : sequence of str
            The features, in their order.
        columns : mapping of str to ndarray of shape (n_rows,)
            Features computed from columns, such as the codes of words. The others are
            numbers of the table.

        Raises
        ------
        DataError
            As `numbers`; gaps are NaN.
        """
        numbers = [name for name in names if name not in columns]
        if self.sparse is None:
            columns = dict(columns)
            for name in numbers:
                columns[name] = self.numbers([name], gaps=True)[:, 0]
            return np.column_stack([columns[name] for name in names])
        blocks = []
        if columns:
            dense = np.column_stack(list(columns.values()))
            blocks.append(sparse.csr_matrix(dense))
        if numbers:
            blocks.append(self.numbers(numbers, gaps=True))
        # Computed columns and columns of the table are two blocks.
        block_order = {name: j for j, name in enumerate([*columns, *numbers])}
        X = sparse.hstack(blocks, format="csc")
        return X[:, [block_order[name] for name in names]].tocsr()

    def _no_number(self, name: str, row: int, value: Any) -> DataError:
        if pd.api.types.is_scalar(value) and pd.isna(value):
            problem = "no value here"
        else:
            problem = f"{shorten(str(value), 40)!r}, which is not a finite number"
        return DataError(
            f"{self.where(row)}: column {name!r} contains {problem}",
            "Fix the cell, or drop the row.",
        )

    def _sparse_columns(self, names: Sequence[str]) -> Any:
        """Return sparse features by name, zeros for names that the table lacks."""
        order = {name: j for j, name in enumerate(self.names)}
        # Names that the table lacks take the column of zeros behind the others.
        zeros = sparse.csr_matrix((len(self.frame), 1))
        padded = sparse.hstack([self.sparse, zeros], format="csr")
        columns = [order.get(name, len(order)) for name in names]
        return padded[:, columns]

    def taken(self, rows: np.ndarray) -> Table:
        """Return some rows, in their order, as if the table had no others.

        Columns of a text file that only the other rows kept from being numbers are
        numbers then, as they would be in a file without these rows.
        """
        frame = self.frame.iloc[rows].reset_index(drop=True)
        type_objects(frame)
        for name in frame.columns:
            is_text = self.written is not None and name not in self.words
            column = frame[name]
            are_strings = isinstance(column.dtype, pd.StringDtype)
            if is_text and (is_object_dtype(column) or are_strings):
                # Texts that are not numbers become NaN: then more cells are missing.
                numbers = pd.to_numeric(column, errors="coerce")
                truth = column.map({"True": True, "False": False})
                if (numbers.isna() == column.isna()).all():
                    frame[name] = numbers
                elif (truth.isna() == column.isna()).all():
                    frame[name] = typed(truth)

        def locate(row: int) -> str:
            return self.where(int(rows[row]))

        def lines() -> Sequence[int]:
            return self.row_numbers()[rows].tolist()

        def written(name: str) -> pd.Series:
            return self.text(name).iloc[rows].reset_index(drop=True)

        table = replace(self, frame=frame, locate=locate, lines=lines)
        if self.sparse is not None:
            table.sparse = self.sparse[rows]
        if self.written is not None:
            table.written = written
        return table

    @property
    def _layout(self) -> str:
        """How the features are stored, for messages."""
        if self.sparse is None:
            return "dense"
        return "sparse"

    def stacked(self, other: Table, needed: Sequence[str]) -> Table:
        """Return the rows of two tables below each other.

        The other table may lack columns that are not `needed`; columns that only it has
        are left out.

        Raises
        ------
        DataError
            If the other table lacks a needed column, or one is sparse and the other
            dense.
        """
        missing = [name for name in needed if name not in set(other.columns)]
        if missing:
            raise DataError(
                f"{other.name}: lacks {counted(len(missing), 'column')} "
                f"of {self.name}: {listed(missing)}",
                "Test rows need the columns of the training rows.",
            )
        if self._layout != other._layout:
            raise DataError(
                f"{other.name}: its rows are {other._layout}, "
                f"those of {self.name} are {self._layout}",
                "Save both in the same format.",
            )
        matrix = None
        if self.sparse is not None:
            # A sparse format does not write the columns at the end that are all zero.
            other_rows = other._sparse_columns(self.names)
            matrix = sparse.vstack([self.sparse, other_rows], format="csr")
        n_rows = len(self.frame)
        other_frame = other.frame.reindex(columns=self.frame.columns)
        frame = pd.concat([self.frame, other_frame], ignore_index=True)
        type_objects(frame)

        def locate(row: int) -> str:
            if row < n_rows:
                return self.where(row)
            return other.where(row - n_rows)

        def written(name: str) -> pd.Series:
            if name in other.columns:
                below = other.text(name)
            else:
                below = pd.Series(np.nan, index=range(len(other.frame)))
            return pd.concat([self.text(name), below], ignore_index=True).rename(name)

        return replace(self, frame=frame, sparse=matrix, locate=locate, written=written)


def type_objects(frame: pd.DataFrame) -> None:
    """Give the columns of objects in a frame the type of their cells, in place.

    They are truth values with gaps, or come from tables of different types.
    """
    for name in frame.columns:
        if is_object_dtype(frame[name]):
            frame[name] = typed(frame[name])


def unmark(table: Table, like: TrainingColumns | None) -> None:
    """Make texts for a missing value missing, except declared values and known names."""
    names = {**texts_of(like), **table.declared}
    marked: dict[str, None] = {}
    for name in table.frame.columns:
        column = table.frame[name]
        plain = without_markers(column, names.get(str(name), ()))
        if plain is column:
            continue
        gone = column[plain.isna() & column.notna()]
        marked |= dict.fromkeys(repr(str(text)) for text in gone.unique() if text)
        table.frame[name] = typed(plain)
    if marked:
        texts = listed(list(marked))
        table.notes.append(f"cells that count as missing: {texts}")


def table_of_frame(
    frame: Any, name: str = "data frame", like: TrainingColumns | None = None
) -> Table:
    """Return a data frame as a table.

    Parameters
    ----------
    frame : data frame
        pandas, polars, pyarrow, or anything that pandas turns into one. A named index
        of pandas becomes a column (several levels become several).
    name : str
        For messages.
    like : TrainingColumns, optional
        Columns of the training rows, when other rows are read.

    Raises
    ------
    DataError
        If it is not a table, is empty, or two columns (or a column and the index) have
        the same name.
    """
    notes: list[str] = []
    names = column_names(frame)
    try:
        if names is not None and not isinstance(frame, pd.DataFrame):
            frame = pandas_frame(frame, names)
        frame = with_index(pd.DataFrame(frame), name, notes)
        typed_columns = {j: typed(frame.iloc[:, j]) for j in range(frame.shape[1])}
        frame = pd.DataFrame(typed_columns).set_axis(frame.columns, axis=1)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name}: cannot be read as a table ({error})",
            "Pass a pandas or polars DataFrame, or the path of a file.",
        ) from None
    frame.columns = [column_name(column) for column in frame.columns]
    if frame.empty:
        raise DataError(f"{name}: no rows")
    refuse_equal_names(list(frame.columns), name)
    table = Table(name, frame, notes=notes)
    unmark(table, like)
    return table


def refuse_equal_names(names: Sequence[str], table: str) -> None:
    """Refuse columns whose names are equal, blanks and normal forms aside."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(
                f"{table}: two columns are named {name!r}",
                "Rename or drop one of the two columns; blanks at the ends and normal "
                "forms of letters do not tell names apart.",
            )
        seen.add(name)


def optional_module(name: str, extra: str, location: str) -> Any:
    """Return a module that some files need.

    Without its package, a DataError about the file says what to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise DataError(
            f"{location}: reading {extra} needs {package}", f"pip install '.[{extra}]'"
        ) from None


def note_numbers(names: Sequence[str]) -> list[str]:
    """Return a note about a first row of numbers that was read as names of columns."""
    if not all(map(is_number, names)):
        return []
    return [f"the numbers of the first row name the columns: {listed(names)}"]


def default_names(count: int, table: str, first: int = 1) -> list[str]:
    """Return names of columns that have none: x1, x2, and so on.

    Raises
    ------
    SizeError
        For more columns than a table may have.
    """
    allow(table, count, SPARSE_COLUMNS, "columns", "Hash the features.")
    return [f"x{j + first}" for j in range(count)]


def numeric_frame(
    values: Any, table: str, names: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a numeric matrix as a data frame; names as of `default_names` by default.

    Raises
    ------
    DataError
        For an array of another type or shape.
    """
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        text = (
            f"{table}: X must be a numeric matrix, not {values.dtype} of shape "
            f"{values.shape}"
        )
        raise DataError(text, "One row per example.")
    if names is None:
        names = default_names(values.shape[1], table)
    return pd.DataFrame(np.asarray(values, dtype=float), columns=list(names))
