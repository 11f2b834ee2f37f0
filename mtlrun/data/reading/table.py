"""Tables: rows with named columns, and the columns that a user names.

A table is read from a file of any format, or from a data frame.

`read_table` is the one reader of a user's table: `mtlrun compare` and the card reader
``table`` make a `Dataset` of it (`mtlrun.data.roles.make`), `mtlrun predict` takes the
columns that a model needs (`mtlrun.data.roles.schema`).
"""

from __future__ import annotations

import codecs
import importlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype, is_object_dtype
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from mtlrun.data.reading.files import DataFile, Snapshot, data_file
from mtlrun.data.reading.formats.arff import meka_labels, read_arff, words_of
from mtlrun.data.reading.formats.mat import (
    feature_and_target_names,
    list_variables,
    read_mat,
    split_tasks,
    task_cells,
)
from mtlrun.data.reading.formats.sequences import read_fasta
from mtlrun.data.reading.formats.svmlight import (
    counts_from_zero,
    has_several_labels,
    read_svmlight,
    refuse_feature_zero,
)
from mtlrun.data.reading.formats.text import (
    COMPLETE,
    SAMPLE,
    checked_names,
    names_columns,
    read_text,
)
from mtlrun.data.reading.formats.xlsx import read_sheet
from mtlrun.data.reading.frames import (
    column_name,
    column_names,
    is_frame,
    load_frame,
    nameable,
    no_date,
    pandas_frame,
    reading_parquet,
    typed,
    with_categories,
    with_index,
)
from mtlrun.data.reading.names import (
    Names,
    TrainingColumns,
    drop_option,
    is_number,
    is_spreadsheet_error,
    normalized,
    number_name,
    without_markers,
)
from mtlrun.errors import DataError, UnknownNameError, counted, listed, shorten
from mtlrun.problem import memory
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.sizes import (
    SPARSE_COLUMNS,
    SizeError,
    allow,
    allow_cells,
    allow_members,
)

#: Columns of formats without names: the target and the task of svmlight files and
#: MATLAB cells, and sequences.
TARGET = "target"
TASK = "task"
SEQUENCE = "sequence"
#: Starts the names of the targets of svmlight files with several labels per row.
_LABEL = "label "
#: Errors of numpy and the zip module for damaged or forged archives; each was seen.
_DAMAGE = (
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
    written : callable or None
        ``written(name)`` returns a column of numbers as the file writes it: ``07`` for
        7. None where numbers are typed.
    source : Snapshot or None
        The file as it was read; None for a data frame.
    notes : list of str
        Decisions made while reading, in sentences.
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
    written: Callable[[str], pd.Series] | None = None
    source: Snapshot | None = None
    notes: list[str] = field(default_factory=list)

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
                "column", name, self.columns, f"{self.name} has no column {name!r}"
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
            X = np.column_stack([self._number_column(name) for name in names])
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
                column = entries.col[first_wrong]
            else:
                row, column = first_wrong
            raise self._no_number(names[column], int(row), values[first_wrong])
        return X

    def features(self, names: Sequence[str], columns: Mapping[str, np.ndarray]) -> Any:
        """Return features as a float64 matrix, CSR if the table is sparse.

        Parameters
        ----------
        names : sequence of str
            The features, in their order.
        columns : mapping of str to ndarray of shape (n_rows,)
            Features that are made of columns, such as numbers of words. The others are
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
        # Columns that are made and those of the table are two blocks.
        positions = [names.index(name) for name in [*columns, *numbers]]
        X = sparse.hstack(blocks, format="csc")
        return X[:, np.argsort(positions)].tocsr()

    def _number_column(self, name: str) -> np.ndarray:
        column = self.column(name)
        if not is_numeric_dtype(column):
            cells = column.astype(object).map(no_date)
            numbers = pd.to_numeric(cells, errors="coerce")
            is_wrong = (numbers.isna() & column.notna()).to_numpy()
            if is_wrong.any():
                row = int(np.argmax(is_wrong))
                raise self._no_number(name, row, column.iloc[row])
            column = numbers
        return column.to_numpy(dtype=np.float64, na_value=np.nan)

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
        for name in frame.columns:
            if is_object_dtype(frame[name]):
                frame[name] = typed(frame[name])
            is_text = self.written is not None and name not in self.words
            if is_text and not is_numeric_dtype(frame[name]):
                frame[name] = _inferred(frame[name])

        def locate(row: int) -> str:
            return self.where(int(rows[row]))

        def written(name: str) -> pd.Series:
            return self.text(name).iloc[rows].reset_index(drop=True)

        table = replace(self, frame=frame, locate=locate)
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
        _type_objects(frame)

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


def _type_objects(frame: pd.DataFrame) -> None:
    """Give the columns of objects in a frame the type of their cells, in place.

    They are truth values with gaps, or come from tables of different types.
    """
    for name in frame.columns:
        if is_object_dtype(frame[name]):
            frame[name] = typed(frame[name])


def _inferred(column: pd.Series) -> pd.Series:
    """Return texts of a file as numbers or truth values where all of them are such."""
    if not is_object_dtype(column) and not isinstance(column.dtype, pd.StringDtype):
        return column
    # Texts that are not numbers become NaN: then more cells are missing than before.
    is_missing = column.isna()
    numbers = pd.to_numeric(column, errors="coerce")
    if (numbers.isna() == is_missing).all():
        return numbers
    truth = column.map({"True": True, "False": False})
    if (truth.isna() == is_missing).all():
        return typed(truth)
    return column


def read_table(source: Path | str | Any, like: TrainingColumns | None = None) -> Table:
    """Read a table from a file or a data frame.

    The suffix of a file determines its format, after a suffix of compression (.gz,
    .bz2, .xz).

    * ``.csv``, ``.tsv``, ``.txt``: separated by commas, semicolons, tabs or blanks,
      with or without a header.
    * ``.parquet`` (needs pyarrow), ``.xlsx`` (the first sheet; needs openpyxl).
    * ``.arff``: dense or sparse; nominal values that are not numbers are words.
    * ``.mat``: `X` and `Y` (or `feature` and `label`), cells with a matrix per task, or
      one matrix each; `Y` may be absent.
    * ``.svm``, ``.svmlight``, ``.libsvm``: the target and one task per ``qid``, or
      several labels, each a target.
    * ``.npz``: `X` (and `task_id`), or what ``scipy.sparse.save_npz`` writes.
    * ``.fa``, ``.fasta``: one sequence per row.

    Parameters
    ----------
    source : path or data frame
        Frames of pandas, polars, pyarrow, or anything that pandas turns into one.
    like : TrainingColumns, optional
        Those of the training rows, when other rows are read: zeros at the end of
        sparse rows are not written.

    Raises
    ------
    DataError
        If the file is absent, damaged, empty, of another format or not in UTF-8, with
        line and column where known; if the data frame is empty or repeats a name.
    """
    if not isinstance(source, str | Path):
        return table_of_frame(source, like=like)
    file, suffix = data_file(Path(source))
    snapshot = Snapshot.of(file)
    return replace(read_table_file(snapshot, suffix, like), source=snapshot)


def read_table_file(
    file: DataFile, suffix: str, like: TrainingColumns | None = None
) -> Table:
    """Read a table from a file whose format is known; see `read_table`."""
    if suffix not in _READERS:
        other = ""
        if suffix in (".xls", ".xlsm", ".ods"):
            other = "Save it as .xlsx or .csv."
        formats = f"Known suffixes: {', '.join(_READERS)}, also with .gz."
        raise DataError(f"{file.where()}: unknown format", other or formats)
    with memory.reading_table(file.where()):
        table = _READERS[suffix](file, like)
    if table.sparse is None and table.frame.shape[0] == 0:
        raise DataError(f"{file.where()}: no rows", COMPLETE)
    _unmark(table, like)
    return table


def _texts(like: TrainingColumns | None) -> Mapping[str, Collection[str]]:
    """Return the texts of the training rows by column; none without training rows."""
    if like is None:
        return {}
    return like.texts


def _unmark(table: Table, like: TrainingColumns | None) -> None:
    """Make texts for a missing value missing, except declared values and known names."""
    names = {**_texts(like), **table.declared}
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
        Those of the training rows, when other rows are read.

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
    _refuse_equal_names(list(frame.columns), name)
    table = Table(name, frame, notes=notes)
    _unmark(table, like)
    return table


def _refuse_equal_names(names: Sequence[str], table: str) -> None:
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


# --- formats ---


def text_table(
    file: DataFile, like: TrainingColumns | None = None, **options: Any
) -> Table:
    """Return a table of text; options as of `mtlrun.data.reading.formats.text.read_text`."""
    frame, named, locate, written = read_text(file, like=like, **options)
    _type_objects(frame)
    notes = []
    if named:
        notes = _note_numbers(list(frame.columns))
    return Table(
        file.where(), frame, named=named, locate=locate, written=written, notes=notes
    )


def _note_numbers(names: Sequence[str]) -> list[str]:
    """Return a note about a first row of numbers that was read as names of columns."""
    if not all(map(is_number, names)):
        return []
    return [f"the numbers of the first row name the columns: {listed(names)}"]


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


def _excel(file: DataFile, like: TrainingColumns | None) -> Table:
    """Return the first sheet of a workbook.

    Its first row names the columns unless all its cells are numbers.
    """
    raw = file.read_bytes()
    name = file.where()
    optional_module("openpyxl", "excel", name)
    try:
        sheet = read_sheet(raw, name)
    except DataError:
        raise
    # Errors for an archive that is not a workbook; XML has SyntaxErrors.
    except (*_DAMAGE, ArithmeticError, SyntaxError, AttributeError) as error:
        raise DataError(
            f"{name}: not a readable .xlsx workbook ({error})", COMPLETE
        ) from None
    # Rows that are only formatted count as rows of the sheet.
    sheet = sheet.dropna(how="all")
    if sheet.empty:
        raise DataError(
            f"{name}: no rows in its first sheet", "Put the table into the first sheet."
        )
    first = [_python_value(cell) for cell in sheet.iloc[0]]
    cells = [_header_name(cell) for cell in first]
    below = [
        [_header_name(_python_value(cell)) for cell in row]
        for row in sheet.iloc[1 : 1 + SAMPLE].itertuples(index=False)
    ]
    has_header = all(isinstance(cell, str) for cell in first)
    has_header = has_header or names_columns(cells, below, like)
    notes = []
    if has_header:
        names = checked_names(cells, f"{name}:{sheet.index[0] + 1}")
        notes = _note_numbers(names)
    else:
        names = _made_up(len(cells), name)
    rows = sheet.iloc[int(has_header) :]
    frame = rows.reset_index(drop=True).set_axis(names, axis=1)
    texts = _texts(like)
    for column in names:
        plain = without_markers(frame[column], texts.get(column, ()))
        frame[column] = typed(plain)

    def locate(row: int) -> str:
        return f"{name}:{rows.index[row] + 1}"

    return Table(name, frame, named=has_header, locate=locate, notes=notes)


def _python_value(cell: Any) -> Any:
    """Return a cell as a value of Python if it is one of numpy."""
    if isinstance(cell, np.generic):
        return cell.item()
    return cell


def _header_name(cell: Any) -> str:
    """Return the name that a cell of the first row stands for, "" if it is empty."""
    if pd.isna(cell):
        return ""
    if isinstance(cell, float):
        return column_name(number_name(cell))
    return column_name(str(cell))


def _parquet(file: DataFile, like: TrainingColumns | None) -> Table:
    parquet = optional_module("pyarrow.parquet", "parquet", file.where())
    raw = file.read_bytes()
    with reading_parquet(file.where()):
        stored = parquet.ParquetFile(io.BytesIO(raw))
        # The size from the footer, before anything is unpacked: a small file may hold
        # billions of equal cells.
        info = stored.metadata
        shape = (info.num_rows, info.num_columns)
        allow_cells(file.where(), *shape, len(raw))
        memory.require_table(file.where(), *shape)
        description = stored.schema_arrow.pandas_metadata
        frame = with_categories(stored.read().to_pandas(), description)
    return table_of_frame(frame, file.where(), like)


def _arff(file: DataFile) -> Table:
    """Return an ARFF file as a table; the labels of MEKA are its targets."""
    table = read_arff(file)
    names = [column_name(attribute.name) for attribute in table.attributes]
    if not table.X.shape[0]:
        raise DataError(f"{file.where()}: no rows", COMPLETE)
    _refuse_equal_names(names, file.where())
    # MEKA counts the labels from the end if the number is negative.
    n_labels = meka_labels(table.relation) or 0
    targets: list[str] = []
    if n_labels > 0:
        targets = names[:n_labels]
    elif n_labels < 0:
        targets = names[len(names) + n_labels :]
    words = {}
    textual_columns = {}
    numeric_positions = []
    for position, attribute in enumerate(table.attributes):
        name = names[position]
        if not attribute.textual:
            numeric_positions.append(position)
            continue
        textual_columns[name] = words_of(table, position)
        if not attribute.open:
            words[name] = list(attribute.codes or ())

    def written(name: str) -> pd.Series:
        return words_of(table, names.index(name))

    if sparse.issparse(table.X):
        return Table(
            file.where(),
            pd.DataFrame(textual_columns, index=range(table.X.shape[0])),
            table.X.tocsc()[:, numeric_positions].tocsr(),
            [names[position] for position in numeric_positions],
            targets,
            words=words,
            order=names,
            written=written,
        )
    columns: dict[str, Any] = {}
    for position, name in enumerate(names):
        if name in textual_columns:
            columns[name] = textual_columns[name]
        else:
            columns[name] = table.X[:, position]
    frame = pd.DataFrame(columns)
    return Table(
        file.where(), frame, default_targets=targets, words=words, written=written
    )


def _mat(file: DataFile) -> Table:
    raw = file.read_bytes()
    name = file.where()
    try:
        present = set(list_variables(raw, ()))
    except (ValueError, LookupError, zlib.error):
        present = set()  # reading it says what is wrong
    x, y = feature_and_target_names(present)
    variables = [x]
    if y in present:
        variables.append(y)
    content = read_mat(io.BytesIO(raw), name, variables)
    X, Y, notes = split_tasks(content[x], content.get(y), x)
    if isinstance(X, list) or isinstance(Y, list):
        table = _mat_tasks(X, Y, name, (x, y))
        table.notes += notes
        return table
    frame = _numbered(_matrix(X, name), name)
    if Y is None:
        return Table(name, frame, named=False)
    if X.shape[0] != Y.shape[0]:
        raise DataError(
            f"{name}: X has {counted(X.shape[0], 'row')}, Y has {Y.shape[0]}",
            "One row of Y per row of X.",
        )
    allow(name, Y.shape[1], SPARSE_COLUMNS, "targets", "Use fewer.")
    names = [f"{TARGET} {t}" for t in range(Y.shape[1])]
    targets = pd.DataFrame(_matrix(Y, name), columns=names)
    frame = pd.concat([frame, targets], axis=1)
    return Table(name, frame, default_targets=names, named=False)


def _mat_tasks(X: Any, Y: Any, name: str, variables: tuple[str, str]) -> Table:
    """Return cells with the rows of a task each; `Y` is None without targets."""
    has_targets = Y is not None
    if not has_targets:
        Y = [np.zeros(len(cell)) for cell in X]
    tasks, targets = task_cells(X, Y, name, *variables)
    frame = _numbered(np.vstack(tasks), name)
    default_targets = []
    if has_targets:
        frame[TARGET] = np.concatenate(targets)
        default_targets.append(TARGET)
    sizes = [len(task) for task in tasks]
    frame[TASK] = np.repeat(np.arange(1, len(tasks) + 1), sizes)
    return Table(
        name,
        frame,
        default_targets=default_targets,
        default_task=TASK,
        named=False,
        numbered_tasks=True,
    )


def _svmlight(file: DataFile, like: TrainingColumns | None) -> Table:
    content = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    name = file.where()
    model_columns: list[str] = []
    if like is not None:
        model_columns = list(like.columns)
    indices = []
    for column in model_columns:
        if re.fullmatch("x(0|[1-9][0-9]{0,8})", column):
            indices.append(int(column[1:]))
    if indices:
        is_zero_based = 0 in indices
        if not is_zero_based:
            refuse_feature_zero(content, name)
    else:
        is_zero_based = counts_from_zero(content)
    several = has_several_labels(content)
    if any(column.startswith(_LABEL) for column in model_columns):
        several = True
    X, y, qid = read_svmlight(
        content, name, zero_based=is_zero_based, multilabel=several
    )
    if indices:
        # Zeros at the end of rows are not written, so that X may be too narrow.
        X.resize(X.shape[0], max(X.shape[1], max(indices) + is_zero_based))
    columns = _made_up(X.shape[1], name, first=int(not is_zero_based))
    if several:
        binarizer = MultiLabelBinarizer()
        values = 2.0 * binarizer.fit_transform(y) - 1.0
        labels = [f"{_LABEL}{number_name(label)}" for label in binarizer.classes_]
        targets = pd.DataFrame(values, columns=labels)
        return Table(
            name,
            targets,
            X,
            columns,
            default_targets=list(targets.columns),
            named=False,
        )
    task = None
    frame = pd.DataFrame({TARGET: y})
    if len(np.unique(qid)) > 1 or like is not None:
        task = TASK
        frame[TASK] = qid
    return Table(
        name,
        frame,
        X,
        columns,
        default_targets=[TARGET],
        default_task=task,
        named=False,
    )


def _npz(file: DataFile) -> Table:
    """Return `X` and `task_id` of an archive, or a matrix of ``save_npz``.

    SciPy's ``scipy.sparse.save_npz`` writes the latter.
    """
    name = file.where()
    remedy = "numpy.savez(FILE, X=..., task_id=...) makes one."
    try:
        content = file.read_bytes()
        with NpzArchive(content, name) as archive:
            allow_members(name, archive.infolist(), len(content))
            arrays = archive.arrays()
        if is_frame(arrays):
            return Table(name, load_frame(arrays))
        if {"data", "indices", "indptr", "shape"} <= set(arrays):
            X: Any = sparse.csr_matrix(
                (arrays["data"], arrays["indices"], arrays["indptr"]),
                shape=tuple(arrays["shape"]),
            )
            X.check_format(full_check=True)
            table = Table(
                name,
                pd.DataFrame(index=range(X.shape[0])),
                X.astype(float),
                _made_up(X.shape[1], name),
            )
        elif "X" not in arrays:
            raise DataError(f"{name}: no array 'X'", f"Arrays: {listed(list(arrays))}.")
        elif arrays["X"].dtype.kind == "S":
            table = Table(name, pd.DataFrame({SEQUENCE: arrays["X"].astype(str)}))
        else:
            table = Table(name, _numbered(_matrix(arrays["X"], name), name))
        table.named = SEQUENCE in table.frame
        if "task_id" in arrays:
            if arrays["task_id"].shape != (len(table.frame),):
                n_rows = counted(len(table.frame), "row")
                text = (
                    f"{name}: task_id has shape {arrays['task_id'].shape}, X has "
                    f"{n_rows}"
                )
                raise DataError(text, "One task per row.")
            table.frame[TASK] = arrays["task_id"]
            table.default_task = TASK
    except MemoryError:
        raise DataError(f"{name}: its arrays do not fit into memory", remedy) from None
    except SizeError:
        raise
    except _DAMAGE as error:
        raise DataError(
            f"{name}: not an .npz archive of plain arrays ({error})", remedy
        ) from None
    return table


def _fasta(file: DataFile) -> Table:
    with file.open() as stream:
        sequences = read_fasta(stream, file.where())[0]
    return Table(file.where(), pd.DataFrame({SEQUENCE: sequences.astype(str)}))


def _matrix(values: Any, name: str) -> np.ndarray:
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        text = (
            f"{name}: X must be a numeric matrix, not {values.dtype} of shape "
            f"{values.shape}"
        )
        raise DataError(text, "One row per example.")
    return np.asarray(values, dtype=float)


def _numbered(X: np.ndarray, name: str) -> pd.DataFrame:
    return pd.DataFrame(X, columns=_made_up(X.shape[1], name))


def _made_up(count: int, name: str, first: int = 1) -> list[str]:
    allow(name, count, SPARSE_COLUMNS, "columns", "Hash the features.")
    return [f"x{j + first}" for j in range(count)]


#: A reader takes a file, and the columns of the training rows where new rows are read.
_Reader = Callable[[DataFile, TrainingColumns | None], Table]


def _independent(read: Callable[[DataFile], Table]) -> _Reader:
    """Return the reader of a format to which the training rows do not matter."""

    def read_file(file: DataFile, _like: TrainingColumns | None) -> Table:
        return read(file)

    return read_file


_READERS: dict[str, _Reader] = {
    ".csv": text_table,
    ".tsv": text_table,
    ".txt": text_table,
    ".parquet": _parquet,
    ".xlsx": _excel,
    ".arff": _independent(_arff),
    ".mat": _independent(_mat),
    ".svm": _svmlight,
    ".svmlight": _svmlight,
    ".libsvm": _svmlight,
    ".npz": _independent(_npz),
    ".fa": _independent(_fasta),
    ".fasta": _independent(_fasta),
}
