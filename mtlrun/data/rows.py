"""New rows for a fitted model, from a file of the user's own: CSV, ARFF, MATLAB, NumPy, svmlight or FASTA."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.data.files import DataFile, refuse_bomb
from mtlrun.data.magnitude import check_large
from mtlrun.data.readers import is_number, number_name
from mtlrun.data.readers.arff import read_arff
from mtlrun.data.readers.csv import cells_of, decode, read_table
from mtlrun.data.readers.fasta import read_fasta
from mtlrun.data.readers.mat import read_mat
from mtlrun.data.readers.svmlight import read_svmlight
from mtlrun.data.tables import SVMLIGHT, Table, coded, data_file, names_of, read_table_file, widened
from mtlrun.errors import DataError, counted

_OTHER_MODEL = "Is it the right model? model.json beside it says on what it was fitted."
_NAMES = "Add them, named as in the training data; other columns may stay."


#: What numpy and the zip module raise about damaged or forged archives; each was seen.
_DAMAGE = (ValueError, OSError, EOFError, LookupError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Wanted:
    """What a model needs of new rows.

    Attributes
    ----------
    n_features : int
        Columns of X; letters per row where `strings`.
    features : tuple of str
        Their names, empty when the model knows none: columns are then taken in the order of the file.
    strings : bool
        Whether X holds sequences of letters.
    task_column : str or None
        Column of a table that names the task of every row; None when the model needs no tasks.
    table : bool
        Whether the model was fitted on a table of words, numbers and empty cells (`mtlrun.data.tables`).
    categories : mapping of str to list of str
        Words of its columns of words.
    """

    n_features: int
    features: tuple[str, ...] = ()
    strings: bool = False
    task_column: str | None = None
    table: bool = False
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class NewRows:
    """Rows ready for a model.

    Attributes
    ----------
    X : ndarray, csr_matrix, or byte strings of shape (n,)
    tasks : list of str, ndarray of int or None
        The task of every row as the file names it, or its position among the tasks of the model; None when the file
        says neither.
    ignored : list of str
        Columns of the file that are no features of the model.
    """

    X: Any
    tasks: list[str] | np.ndarray | None = None
    ignored: list[str] = field(default_factory=list)


def read_rows(path: Path, wanted: Wanted) -> NewRows:
    """Read new rows; the format is told by the file's suffix (a compressed one may follow: ``.gz``, ``.bz2``, ``.xz``).

    * ``.csv``, ``.tsv``, ``.txt``: comma, semicolon, tab or blank separated, with or without a header. Columns are
      found by name where both sides have names.
    * ``.arff``: as above.
    * ``.npz``: `X` (and `task_id`), or what ``scipy.sparse.save_npz`` writes.
    * ``.mat``: `X`, a matrix or a cell of matrices, one per task and in the order of the model's tasks.
    * ``.svm``, ``.svmlight``, ``.libsvm``: targets are ignored.
    * ``.fa``, ``.fasta``: sequences, for a model of strings.

    Raises
    ------
    DataError
        If the file is absent or damaged, of another format, its columns are not those of the model, or a number is too
        large to be squared.
    """
    file, suffix = data_file(path)
    if wanted.table and suffix != ".npz":
        table = read_table_file(file, suffix)
        new = _of_table(widened(table, wanted.features) if suffix in SVMLIGHT else table, wanted)
        return _within_range(new, path, wanted)
    if suffix not in _READERS:
        raise DataError(f"{path}: no known format", f"Known suffixes: {', '.join(_READERS)}, also compressed with .gz.")
    rows = _READERS[suffix](file, wanted)
    if (rows.X.dtype.kind == "S") != wanted.strings:
        kinds = ("sequences", "numbers") if wanted.strings else ("numbers", "sequences")
        raise DataError(f"{path}: the model was fitted on {kinds[0]}, the file holds {kinds[1]}", _OTHER_MODEL)
    found = rows.X.dtype.itemsize if wanted.strings else rows.X.shape[1]
    if found != wanted.n_features:
        what = "letters per sequence" if wanted.strings else "columns"
        raise DataError(f"{path}: {found} {what}, the model has {wanted.n_features}", _OTHER_MODEL)
    return _within_range(rows, path, wanted)


def _within_range(rows: NewRows, path: Path, wanted: Wanted) -> NewRows:
    if not wanted.strings:
        check_large(rows.X, str(path), wanted.features)
    return rows


def _of_table(table: Table, wanted: Wanted) -> NewRows:
    """Take the model's columns of a table; words become their numbers, a new word one beyond them."""
    missing = [name for name in wanted.features if name not in table.columns]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise DataError(f"{table.name}: {len(missing)} of the model's features are missing: {shown}", _NAMES)
    tasks = None
    if wanted.task_column is not None and wanted.task_column in table.frame.columns:
        tasks = names_of(table.frame[wanted.task_column])
    ignored = [n for n in table.columns if n not in wanted.features and n != wanted.task_column]
    if table.features is not None:
        positions = [table.feature_names.index(name) for name in wanted.features]
        return NewRows(table.features[:, positions], tasks, ignored)
    columns = []
    for name in wanted.features:
        column = table.frame[name]
        if name in wanted.categories:
            columns.append(coded(column, wanted.categories[name]))
        elif pd.api.types.is_numeric_dtype(column):
            columns.append(column.to_numpy(dtype=float))
        else:
            place = table.where(int(np.argmax(pd.to_numeric(column, errors="coerce").isna())))
            raise DataError(
                f"{place}: column {name!r} holds words, the model was fitted on numbers",
                "Mend the cells, or train a model again with this column as words.",
            )
    return NewRows(np.column_stack(columns), tasks, ignored)


def _table(file: DataFile, wanted: Wanted) -> NewRows:
    content = decode(file.read_bytes(), file.where())
    first = next((line for line in content.splitlines() if line.strip()), "")
    if not first:
        raise DataError(f"{file.where()}: no rows", "Check that the file was saved completely.")
    delimiter = max(",;\t", key=first.count)
    separator = delimiter if delimiter in first else None
    cells = cells_of(first, separator, file.where())
    header = not all(map(is_number, cells))
    names = cells if header else [str(k) for k in range(len(cells))]
    columns, ignored = _choose(names if header else [], len(names), wanted, file)
    task = names.index(wanted.task_column) if header and wanted.task_column in names else None
    text = [k for k in range(len(names)) if k not in columns or wanted.strings]
    with file.open() as stream:
        frame = read_table(stream, file.where(), delimiter=separator, header=header, text=text)
    tasks = None if task is None else frame.iloc[:, task].astype(str).tolist()
    if wanted.strings:
        return NewRows(_strings(frame.iloc[:, columns[0]].tolist(), file), tasks, ignored)
    return NewRows(frame.iloc[:, columns].to_numpy(dtype=float), tasks, ignored)


def _arff(file: DataFile, wanted: Wanted) -> NewRows:
    table = read_arff(file)
    names = [attribute.name for attribute in table.attributes]
    columns, ignored = _choose(names, len(names), wanted, file)
    tasks = None
    if wanted.task_column in names:
        position = names.index(wanted.task_column)
        codes = table.attributes[position].codes or {}
        words = {value: word for word, value in codes.items()}
        column = table.X[:, [position]]
        values = np.asarray(column.toarray() if sparse.issparse(column) else column).ravel()
        tasks = [words.get(float(v), number_name(v)) for v in values]
    return NewRows(table.X[:, columns], tasks, ignored)


def _npz(file: DataFile, wanted: Wanted) -> NewRows:
    remedy = "numpy.savez(FILE, X=..., task_id=...) makes one."
    try:
        content = file.read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            refuse_bomb(archive.zip.infolist(), len(content), file.where())
            arrays = {name: archive[name] for name in archive.files}
        X = _array_of(arrays, file)
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"{file.where()}: its arrays do not fit into memory", remedy) from None
    except _DAMAGE as error:
        raise DataError(f"{file.where()}: no .npz archive of plain arrays ({error})", remedy) from None
    return NewRows(_checked(X, file), _task_list(arrays.get("task_id"), X.shape[0], file))


def _array_of(arrays: Mapping[str, np.ndarray], file: DataFile) -> Any:
    """Return the rows of an archive: `X`, or the sparse matrix that ``scipy.sparse.save_npz`` wrote."""
    if "X" in arrays:
        return arrays["X"]
    if {"data", "indices", "indptr", "shape"} <= set(arrays):
        X = sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
        X.check_format(full_check=True)
        return X
    raise DataError(f"{file.where()}: no array 'X'", f"Arrays: {', '.join(arrays) or 'none'}.")


def _mat(file: DataFile, wanted: Wanted) -> NewRows:
    with file.open() as stream:
        X = read_mat(stream, file.where(), ["X"])["X"]
    if isinstance(X, list):
        positions = np.repeat(np.arange(len(X)), [len(part) for part in X])
        return NewRows(_checked(np.vstack(X), file), positions)
    return NewRows(_checked(X, file))


def _svmlight(file: DataFile, wanted: Wanted) -> NewRows:
    X, _, _ = read_svmlight(file.read_bytes(), file.where(), n_features=wanted.n_features)
    return NewRows(X)


def _fasta(file: DataFile, wanted: Wanted) -> NewRows:
    with file.open() as stream:
        return NewRows(read_fasta(stream, file.where())[0])


_READERS: dict[str, Callable[[DataFile, Wanted], NewRows]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _table),
    ".arff": _arff,
    ".npz": _npz,
    ".mat": _mat,
    **dict.fromkeys(SVMLIGHT, _svmlight),
    **dict.fromkeys((".fa", ".fasta"), _fasta),
}


def _choose(names: Sequence[str], n_columns: int, wanted: Wanted, file: DataFile) -> tuple[list[int], list[str]]:
    """Return the positions of the model's features and the names of the columns left over."""
    task = names.index(wanted.task_column) if wanted.task_column in names else None
    if wanted.strings:
        others = [k for k in range(n_columns) if k != task]
        position = names.index("sequence") if "sequence" in names else others[0]
        return [position], [names[k] for k in others if k != position and names]
    if not (names and wanted.features) or not set(wanted.features) & set(names):
        columns = [k for k in range(n_columns) if k != task]
        if len(columns) != wanted.n_features:
            hint = f" besides the task column {wanted.task_column!r}" if task is not None else ""
            needed = counted(wanted.n_features, "feature")
            text = f"{file.where()}: {counted(len(columns), 'column')}{hint}, the model has {needed}"
            raise DataError(text, "Without a header the columns must be those of the training, in that order.")
        return columns, []
    missing = [name for name in wanted.features if name not in names]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise DataError(f"{file.where()}: {len(missing)} of the model's features are missing: {shown}", _NAMES)
    columns = [names.index(name) for name in wanted.features]
    return columns, [name for k, name in enumerate(names) if k not in columns and k != task]


def _checked(X: Any, file: DataFile) -> Any:
    if X.dtype.kind == "S" and X.ndim == 1:
        return X
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(
            f"{file.where()}: X must be a numeric matrix, not {X.dtype} of shape {X.shape}", "One row per prediction."
        )
    X = X.astype(float)
    if not np.isfinite(X.data if sparse.issparse(X) else X).all():
        raise DataError(
            f"{file.where()}: X holds NaN or infinite values",
            "Fill the gaps as in the training data; models of `mtlrun compare` on tables fill them themselves.",
        )
    return X


def _task_list(ids: Any, n_rows: int, file: DataFile) -> list[str] | None:
    if ids is None:
        return None
    if ids.shape != (n_rows,):
        raise DataError(
            f"{file.where()}: task_id has shape {ids.shape}, X has {counted(n_rows, 'row')}", "One task per row."
        )
    return [number_name(v) if isinstance(v, float) else str(v) for v in ids.tolist()]


def _strings(cells: Sequence[str], file: DataFile) -> np.ndarray:
    lengths = {len(cell) for cell in cells}
    if len(lengths) > 1:
        raise DataError(
            f"{file.where()}: sequences of {min(lengths)} to {max(lengths)} letters; all need one length", _OTHER_MODEL
        )
    return np.array([cell.upper().encode() for cell in cells])
