"""Tables of the user's own, in any format, as named columns; `mtlrun.data.roles` makes a `Dataset` of them."""

from __future__ import annotations

import importlib
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.data.columns import column_names, take_column
from mtlrun.data.files import DataFile, Snapshot
from mtlrun.data.readers import WHOLE, number_name
from mtlrun.data.readers.arff import ArffTable, meka_labels, read_arff
from mtlrun.data.readers.csv import EXACT, MISSING, csv_rows, decode, header_of, unequal_rows
from mtlrun.data.readers.mat import read_mat
from mtlrun.data.readers.mattags import list_variables
from mtlrun.data.readers.svmlight import read_svmlight
from mtlrun.errors import DataError, counted, suggest

CONTAINERS = {".gz": "gz", ".bz2": "bz2", ".xz": "xz"}
#: Columns that formats without names get: the target and the task of svmlight files and MATLAB cells.
TARGET, TASK = "target", "task"
#: Columns that get names of their own.
MAX_COLUMNS = 1_000_000
#: Suffixes of the sparse format without names; a number that a file never writes is a column of zeros.
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
#: Variables of MATLAB files: features and targets.
MAT_NAMES = (("X", "Y"), ("feature", "label"))


@dataclass
class Table:
    """Rows with named columns.

    Attributes
    ----------
    name : str
        The file, for messages.
    frame : DataFrame
        Numbers (float64) and words (object, None where missing); the columns of a sparse table that are no features.
    features : csr_matrix or None
        Features of a sparse table, beside the columns of `frame`.
    feature_names : list of str
        Their names.
    default_targets : list of str
        Targets that the format itself names.
    default_task : str or None
        Column of tasks that the format itself has.
    where : callable
        ``where(column, row)`` says where a cell is, for messages.
    source : Snapshot or None
        The file as it was read; None for a data frame.
    """

    name: str
    frame: pd.DataFrame
    features: Any = None
    feature_names: list[str] = field(default_factory=list)
    default_targets: list[str] = field(default_factory=list)
    default_task: str | None = None
    where: Callable[[int], str] = field(default=lambda row: f"row {row + 1}")
    source: Snapshot | None = None

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return [*map(str, self.frame.columns), *self.feature_names]


def data_file(path: Path) -> tuple[DataFile, str]:
    """Return a file with its container (``.gz``, ``.bz2``, ``.xz``) and the suffix that tells its format.

    Raises
    ------
    DataError
        If there is no such file.
    """
    container = CONTAINERS.get(path.suffix.lower(), "plain")
    if not path.is_file():
        if path.is_dir():
            raise DataError(f"{path}: is a folder", "Name a file.")
        near = _similar_file(path)
        remedy = f"Did you mean {near!r}?" if near else "Check the path; a relative one starts at the current folder."
        raise DataError(f"{path}: no such file", remedy)
    return DataFile(path.name, path, container), suffix_of(path)


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the format of a file, without those of compression."""
    return Path(path.stem if path.suffix.lower() in CONTAINERS else path.name).suffix.lower()


def _similar_file(path: Path) -> str | None:
    """Return the file beside a path that is called most like it; a suffix in common makes no likeness."""
    try:
        beside = [other.name for other in path.parent.iterdir() if other.is_file()]
    except OSError:
        return None
    stems = suggest(_stem(path.name), {_stem(name) for name in beside}, 1)
    near = suggest(path.name, [name for name in beside if _stem(name) in stems], 1)
    return near[0] if near else None


def _stem(name: str) -> str:
    return name.partition(".")[0]


def read_user_table(path: Path, *, like: Table | None = None) -> Table:
    """Read a table; the suffix of the file tells its format.

    * ``.csv``, ``.tsv``, ``.txt``: comma, semicolon or tab separated, with a header; ``.parquet``.
    * ``.arff``: dense or sparse; nominal values that are no numbers are words.
    * ``.mat``: `X` and `Y` (or `feature` and `label`), cells with a matrix per task, or one matrix each.
    * ``.svm``, ``.svmlight``, ``.libsvm``: the target, and one task per ``qid``.

    Parameters
    ----------
    path : Path
    like : Table, optional
        The training table, when test rows are read: sparse files then have its number of columns.

    Raises
    ------
    DataError
        If the file is absent, damaged, empty, of another format or not in UTF-8; with line and column where known.
    """
    file, suffix = data_file(path)
    source = Snapshot.of(file)
    return replace(read_table_file(source, suffix, like), source=source)


def read_table_file(file: DataFile, suffix: str, like: Table | None = None) -> Table:
    """Read a table from a file whose format is known; see `read_user_table`."""
    if suffix not in _READERS:
        raise DataError(f"{file.where()}: no known format", f"Known suffixes: {', '.join(_READERS)}.")
    return _READERS[suffix](file, like)


def table_of_frame(frame: Any, name: str = "data frame") -> Table:
    """Return a data frame (pandas, polars, pyarrow, or what pandas makes one of) as a table.

    Raises
    ------
    DataError
        If it is no table, empty, or two columns have the same name.
    """
    names = column_names(frame)
    try:
        if names is not None and not isinstance(frame, pd.DataFrame):
            frame = pd.DataFrame({j: take_column(frame, j)[0] for j in range(len(names))}).set_axis(names, axis=1)
        frame = pd.DataFrame(frame).reset_index(drop=True)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name}: cannot be read as a table ({error})", "Pass a pandas or polars DataFrame, or the path of a file."
        ) from None
    frame.columns = [str(c) for c in frame.columns]
    if frame.empty:
        raise DataError(f"{name}: no rows")
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise DataError(f"{name}: two columns are called {repeated[0]!r}", "Rename or drop one of the two columns.")
    return Table(name, frame)


def _text(file: DataFile, like: Table | None) -> Table:
    name = file.where()
    content = decode(file.read_bytes(), name)
    first = next((line for line in content.splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    columns, start = header_of(content, name, delimiter)
    try:
        frame = pd.read_csv(
            io.BytesIO(content.encode()),
            sep=delimiter,
            header=None,
            names=list(range(len(columns))),
            skiprows=start,
            keep_default_na=False,
            na_values=list(MISSING),
            skipinitialspace=True,
            low_memory=False,
            **EXACT,
        )
    except (ValueError, pd.errors.ParserError) as error:
        unequal_rows(content, name, delimiter, columns, start)
        raise DataError(f"{name}: {error}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        unequal_rows(content, name, delimiter, columns, start)
    if frame.empty:
        raise DataError(f"{name}: no rows below the header", "Check that the file was saved completely.")
    frame.columns = pd.Index([str(c) for c in columns])
    if frame.iloc[:, -1].isna().any():  # a short row looks like one whose last cells are missing
        unequal_rows(content, name, delimiter, columns, start)
    return Table(name, frame, where=lambda row: f"{name}:{_line_of(content, name, delimiter, start, row)}")


def _line_of(content: str, name: str, delimiter: str, start: int, row: int) -> int:
    """Return the line of a row, blank lines and line breaks inside quotes considered."""
    seen = -1
    for line, cells in csv_rows(content, name, delimiter):
        if line <= start or not any(cell.strip() for cell in cells):
            continue
        seen += 1
        if seen == row:
            return line
    return start + row + 1


def _parquet(file: DataFile, like: Table | None) -> Table:
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        raise DataError(f"{file.where()}: reading parquet needs pyarrow", "pip install 'mtlrun[parquet]'") from None
    try:
        return table_of_frame(pd.read_parquet(io.BytesIO(file.read_bytes())), file.where())
    except (ValueError, OSError) as error:
        text = " ".join(str(error).split())
        remedy = "Check that the file was saved completely."
        raise DataError(f"{file.where()}: not a readable parquet file ({text})", remedy) from None


def _arff(file: DataFile, like: Table | None) -> Table:
    table = read_arff(file, missing="nan")
    names = [attribute.name for attribute in table.attributes]
    if not table.X.shape[0]:
        raise DataError(f"{file.where()}: no rows", "Check that the file was saved completely.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{file.where()}: two attributes are called {twice!r}", "Rename or drop one of the two.")
    targets = _meka_labels(table)
    if sparse.issparse(table.X):
        rows = pd.DataFrame(index=range(table.X.shape[0]))
        return Table(file.where(), rows, table.X.tocsr(), names, default_targets=targets)
    frame = pd.DataFrame({name: _arff_column(table, j) for j, name in enumerate(names)})
    return Table(file.where(), frame, default_targets=targets)


def _meka_labels(table: ArffTable) -> list[str]:
    """Return the labels that MEKA names by ``-C n`` in the relation: the first n columns, the last ones if negative."""
    count = meka_labels(table.relation) or 0
    names = [attribute.name for attribute in table.attributes]
    return names[:count] if count > 0 else names[len(names) + count :] if count < 0 else []


def _arff_column(table: ArffTable, j: int) -> Any:
    attribute, values = table.attributes[j], table.X[:, j]
    if not attribute.textual:
        return values
    words = {code: word for word, code in (attribute.codes or {}).items()}
    return pd.Series([words.get(float(v)) for v in values], dtype=object)


def _mat(file: DataFile, like: Table | None) -> Table:
    raw = file.read_bytes()
    names = _mat_names(raw)
    content = read_mat(io.BytesIO(raw), file.where(), names)
    X, Y = (content[name] for name in names)
    if not isinstance(X, list) and not isinstance(Y, list):
        if X.shape[0] != Y.shape[0]:
            raise DataError(
                f"{file.where()}: X has {counted(X.shape[0], 'row')}, Y has {Y.shape[0]}", "A row of Y per row of X."
            )
        targets = [f"{TARGET} {t}" for t in range(Y.shape[1])]
        frame = pd.DataFrame(np.hstack([_dense(X), _dense(Y)]), columns=[*_numbered(X.shape[1]), *targets])
        return Table(file.where(), frame, default_targets=targets)
    if not isinstance(X, list) or not isinstance(Y, list):
        shapes = [f"a cell of {len(v)} matrices" if isinstance(v, list) else "a matrix" for v in (X, Y)]
        raise DataError(
            f"{file.where()}: {names[0]} is {shapes[0]}, {names[1]} is {shapes[1]}",
            "Both must be cells (a matrix per task), or both one matrix.",
        )
    ys = [np.ravel(_dense(y)) for y in Y]
    _check_cells(X, ys, file.where())
    frame = pd.DataFrame(np.vstack([_dense(x) for x in X]), columns=_numbered(X[0].shape[1]))
    frame[TARGET] = np.concatenate(ys)
    frame[TASK] = np.repeat(np.arange(1, len(X) + 1), [len(y) for y in ys])
    return Table(file.where(), frame, default_targets=[TARGET], default_task=TASK)


def _check_cells(X: Sequence[Any], ys: Sequence[np.ndarray], name: str) -> None:
    """Refuse cells of features and of targets that do not fit together."""
    widths = [x.shape[1] for x in X]
    other = next((t for t, width in enumerate(widths) if width != widths[0]), 0)
    wrong = next((t for t, (x, y) in enumerate(zip(X, ys, strict=False)) if x.shape[0] != len(y)), None)
    if len(X) != len(ys):
        problem = f"{counted(len(X), 'cell')} of features, {len(ys)} of targets"
    elif wrong is not None:
        rows, targets = counted(X[wrong].shape[0], "row"), counted(len(ys[wrong]), "target")
        problem = f"cell {wrong + 1} has {rows} of features and {targets}"
    elif other:
        problem = f"cell {other + 1} has {counted(widths[other], 'feature')}, cell 1 has {widths[0]}"
    else:
        return
    raise DataError(f"{name}: {problem}", "Every task is one cell of both, with the same features.")


def _mat_names(raw: bytes) -> tuple[str, str]:
    """Return the pair of variables that a file has."""
    try:
        present = list_variables(raw, ())
    except (ValueError, LookupError, zlib.error):
        return MAT_NAMES[0]  # reading it says what is wrong
    return next((pair for pair in MAT_NAMES if set(pair) <= set(present)), MAT_NAMES[0])


def _svmlight(file: DataFile, like: Table | None) -> Table:
    wide = None if like is None or like.features is None else like.features.shape[1]
    X, y, qid = read_svmlight(file.read_bytes(), file.where(), n_features=wide)
    if X.shape[1] > MAX_COLUMNS:
        raise DataError(f"{file.where()}: index {X.shape[1]}: a table has at most {MAX_COLUMNS} columns", "Hash them.")
    frame = pd.DataFrame({TARGET: y, TASK: qid})
    task = TASK if len(np.unique(qid)) > 1 or like is not None else None
    if task is None:
        frame = frame.drop(columns=TASK)
    return Table(file.where(), frame, X, _numbered(X.shape[1]), default_targets=[TARGET], default_task=task)


_READERS: dict[str, Callable[[DataFile, Table | None], Table]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _text),
    ".parquet": _parquet,
    ".arff": _arff,
    ".mat": _mat,
    **dict.fromkeys(SVMLIGHT, _svmlight),
}


def names_of(column: pd.Series) -> list[str]:
    """Return the cells of a column as names: ``1`` for 1.0, no blanks at the ends.

    Raises
    ------
    DataError
        For floats so large that different whole numbers are one (a column of long numbers with empty cells has them).
    """
    large = [v for v in column.tolist() if isinstance(v, float) and WHOLE <= abs(v) < np.inf]
    if large:
        text = f"column {column.name!r} has numbers as names that are too long to be told apart ({large[0]:.0f})"
        raise DataError(text, "Make words of them, with a letter in front, or fill the empty cells of the column.")
    return [number_name(v) if isinstance(v, float) else str(v).strip() for v in column.tolist()]


def coded(column: pd.Series, words: Sequence[str]) -> np.ndarray:
    """Return the position of every cell among the words: NaN where missing, one beyond the last for a new word."""
    position = {word: float(i) for i, word in enumerate(words)}
    known = column.notna().to_numpy()
    codes = np.full(len(column), np.nan)
    codes[known] = [position.get(name, float(len(words))) for name in names_of(column[known])]
    return codes


def _numbered(count: int) -> list[str]:
    return [f"x{j + 1}" for j in range(count)]


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=float)


def widened(table: Table, names: Sequence[str]) -> Table:
    """Return an svmlight table with these features, zero where the file does not write them, and its others behind."""
    wanted = [*names, *(name for name in table.feature_names if name not in set(names))]
    return replace(table, features=_in_order(table, wanted), feature_names=wanted)


def _in_order(table: Table, names: Sequence[str]) -> Any:
    """Return the features of a sparse table by name, zeros for those that it lacks."""
    order = {name: j for j, name in enumerate(table.feature_names)}
    features = sparse.hstack([table.features, sparse.csr_matrix((len(table.frame), 1))], format="csr")
    return features[:, [order.get(name, len(order)) for name in names]]


def stack_tables(first: Table, second: Table, needed: Sequence[str]) -> Table:
    """Return the rows of two tables below each other; the second may lack columns that are not `needed`.

    Columns that only the second table has are left out.

    Raises
    ------
    DataError
        If the second table lacks a needed column.
    """
    missing = [name for name in needed if name not in second.columns]
    if missing:
        what = "a column" if len(missing) == 1 else f"{len(missing)} columns"
        raise DataError(
            f"{second.name}: lacks {what} of {first.name}: {', '.join(missing[:5])}",
            "Test rows need the columns of the training rows.",
        )
    if (first.features is None) != (second.features is None):
        kinds = ["dense" if table.features is None else "sparse" for table in (first, second)]
        raise DataError(
            f"{second.name}: its rows are {kinds[1]}, those of {first.name} are {kinds[0]}", "Save both in one format."
        )
    features = None
    if first.features is not None:
        features = sparse.vstack([first.features, _in_order(second, first.feature_names)], format="csr")
    n = len(first.frame)
    frame = pd.concat([first.frame, second.frame.reindex(columns=first.frame.columns)], ignore_index=True)

    def where(row: int) -> str:
        return first.where(row) if row < n else second.where(row - n)

    return Table(first.name, frame, features, first.feature_names, first.default_targets, first.default_task, where)
