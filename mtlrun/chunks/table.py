"""Tables larger than memory: a folder of Parquet or csv files, read in chunks of rows."""

from __future__ import annotations

import csv
import glob
import io
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from mtlrun.data.files import data_file, suffix_of
from mtlrun.data.formats.text import checked_names, decode
from mtlrun.data.frames import column_name, several, typed, whole_frame
from mtlrun.data.named_columns import matching, target_columns
from mtlrun.data.names import (
    MISSING,
    Names,
    is_number,
    is_spreadsheet_error,
    without_markers,
)
from mtlrun.data.table import Table, optional_module
from mtlrun.errors import DataError, counted, listed, suggest
from mtlrun.utils.io import derive_seed, open_regular
from mtlrun.utils.sizes import COLUMNS, LINES_BEFORE, allow

Array = np.ndarray[Any, np.dtype[Any]]

SUFFIXES = (".parquet", ".csv")
#: Bytes of the numbers of a chunk, and rows at the head of the first file that the shifts are taken from.
CHUNK_BYTES, HEAD_ROWS = 32 << 20, 10_000
#: A header of a csv file has fewer bytes.
HEADER_BYTES = 32 << 20
_ENCODE = "Data in chunks takes numbers only: store a 0/1 column per category, or leave the column out (--drop)."
#: How Hive and Spark call the folder of rows without a value.
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FILL = "Fill the gap, take the row out, or leave the column out (--drop)."


@dataclass(frozen=True)
class Chunk:
    """Rows of a file, those of a task and fold side by side.

    Attributes
    ----------
    Z : ndarray of shape (1 + d + k, n)
        A row of ones, d features and k targets less their shifts; a column per row of the file. NaN where a target of a
        shared design is missing.
    weights : ndarray of shape (n,) or None
    names : list of str
        Tasks that occur; none in a shared design.
    codes, fold : ndarray of shape (n,)
        Position of the task of every row among them, in a shared design whether a target is missing; and its fold.
    """

    Z: Array
    weights: Array | None
    names: list[str]
    codes: Array
    fold: Array

    def groups(
        self, n_targets: int, *, by_target: bool = True
    ) -> Iterator[tuple[int, str | int | None, Array, Any]]:
        """Yield fold, task, columns of `Z` and their weights.

        The task is a name; in a shared design None for rows with all targets, and the number of a target for the rows
        among the others that have it. With ``by_target=False`` it is None for them, too.
        """
        changes = (
            np.flatnonzero((np.diff(self.codes) != 0) | (np.diff(self.fold) != 0)) + 1
        )
        for a, b in pairwise([0, *changes.tolist(), self.Z.shape[1]]):
            if a == b:
                continue
            code, fold, Z = int(self.codes[a]), int(self.fold[a]), self.Z[:, a:b]
            weights = None if self.weights is None else self.weights[a:b]
            if self.names or not code or not by_target:
                yield fold, self.names[code] if self.names else None, Z, weights
                continue
            for target in range(n_targets):
                row = len(Z) - n_targets + target
                known = ~np.isnan(Z[row])
                part = Z[[*range(len(Z) - n_targets), row]][:, known]
                yield fold, target, part, None if weights is None else weights[known]


@dataclass(frozen=True)
class ChunkedTable:
    """The files of a table, and what its columns are.

    Attributes
    ----------
    files : tuple of Path
    features, targets : tuple of str
    task, weight : str or None
        Columns of the task and of the weight of every row.
    shift : ndarray of shape (d + k,)
        What is taken off features and targets, since sums of products of large numbers cancel: means of the first rows.
    weight_unit : float, default 1.0
        What weights are divided by: their mean over the first rows, until all are read.
    """

    files: tuple[Path, ...]
    features: tuple[str, ...]
    targets: tuple[str, ...]
    task: str | None
    weight: str | None
    shift: Array
    weight_unit: float = 1.0

    @classmethod
    def of(
        cls,
        files: Sequence[Path],
        *,
        target: str | None = None,
        task: str | None = None,
        targets: str | Sequence[str] = (),
        targets_last: int | None = None,
        weight: str | None = None,
        drop: str | Sequence[str] = (),
    ) -> ChunkedTable:
        """Look at the head of the first file; arguments as of `mtlrun.compare`.

        Raises
        ------
        DataError, UnknownNameError
            If a file is damaged, or the columns are not there or not numbers.
        """
        task = None if task is None else column_name(task)
        weight = None if weight is None else column_name(weight)
        frame = next(_frames(files[0], None, HEAD_ROWS, task), pd.DataFrame()).copy()
        frame = frame.reset_index(drop=True)
        release_memory()
        head = Table(str(files[0]), frame)
        wanted = target_columns(head, target, targets, targets_last)
        if not wanted or bool(task) != (len(wanted) == 1):
            remedy = "Give --target and --task, or several columns as --targets."
            raise DataError(
                f"{head.name}: one target needs a column of tasks, several targets need none",
                remedy,
            )
        given = [*wanted, *filter(None, (task, weight))]
        for name in given:
            head.column(name)
        out = {*given, *matching(several(drop), head)}
        features = tuple(name for name in head.columns if name not in out)
        if not features:
            raise DataError(
                f"{head.name}: no column is left as a feature",
                "Leave out fewer columns.",
            )
        unit = 1.0
        if weight is not None:
            weights = _weights(frame[weight], files[0])
            frame = _without_unweighted(frame, weights, (*features, *wanted), files[0])
            positive = weights[weights > 0]
            if positive.size:
                unit = float(positive.max() * np.mean(positive / positive.max()))
        sample = [_numbers(frame[name], files[0]) for name in (*features, *wanted)]
        shift = np.array(
            [
                np.nanmean(values) if np.isfinite(values).any() else 0.0
                for values in sample
            ]
        )
        return cls(
            tuple(files), features, wanted, task, weight, np.nan_to_num(shift), unit
        )

    @property
    def columns(self) -> list[str]:
        """Names of all columns that are read."""
        return [*self.features, *self.targets, *filter(None, (self.task, self.weight))]

    def chunks(self, file: Path, folds: int, seed: int) -> Iterator[Chunk]:
        """Yield the rows of a file in chunks; the next one takes the memory of the last.

        Rows of weight 0 are left out. The fold of a row is a hash of the seed, the name of its file and its number
        among the others there.

        Raises
        ------
        DataError
            Names file, column and row of a cell that is no number, and the remedy.
        """
        columns = self.columns
        most = max(1024, CHUNK_BYTES // (8 * len(columns)))
        n_read = 0
        n_counted = 0
        room = np.empty(
            (1 + len(self.shift), most)
        )  # new memory for every chunk would take a third of the time
        for frame in _frames(file, columns, most, self.task):
            # The index is the number of the row in the file, for messages.
            frame.index = pd.RangeIndex(n_read, n_read + len(frame))
            n_read += len(frame)
            weights = None
            if self.weight is not None:
                weights = _weights(frame[self.weight], file)
                frame = _without_unweighted(
                    frame, weights, (*self.features, *self.targets), file
                )
                weights = weights[weights > 0] / self.weight_unit
            fold = fold_of(file, n_counted, len(frame), folds, seed)
            n_counted += len(frame)
            missing: Array = np.isnan(
                [_numbers(frame[name], file) for name in self.targets]
            )
            names, codes = self._tasks(frame, file)
            if self.task is None:
                codes = np.asarray(missing.any(axis=0), dtype=np.int64)
            known = np.flatnonzero(~np.asarray(missing.all(axis=0)))
            both = codes[known] * folds + fold[known]
            rows = known[
                np.argsort(
                    both.astype(np.min_scalar_type(both.max(initial=0))), kind="stable"
                )
            ]
            Z = room[:, : len(rows)]
            self._fill(Z, frame, rows, file)
            if weights is not None:
                weights = weights[rows]
            yield Chunk(Z, weights, names, codes[rows], fold[rows])

    def _fill(self, Z: Array, frame: pd.DataFrame, rows: Array, file: Path) -> None:
        """Write ones, and the features and targets of rows, into `Chunk.Z`."""
        Z[0] = 1.0
        for place, name in enumerate((*self.features, *self.targets)):
            values = Z[1 + place]
            np.take(_numbers(frame[name], file), rows, out=values, mode="clip")
            values -= self.shift[place]
            total = values.sum()
            if np.isfinite(total) or (
                name in self.targets and np.isnan(total) and not np.isinf(values).any()
            ):
                continue
            row = int(frame.index[rows[~np.isfinite(values)].min()]) + 1
            raise DataError(
                f"{file}: column {name!r} has a missing or infinite value in row {row}",
                _FILL,
            )

    def _tasks(self, frame: pd.DataFrame, file: Path) -> tuple[list[str], Array]:
        if self.task is None:
            return [], np.zeros(len(frame), dtype=np.int64)
        found = Names.of(typed(frame[self.task]))
        if (found.codes < 0).any():
            row = int(frame.index[np.argmax(found.codes < 0)]) + 1
            text = f"{file}: column {self.task!r} has no task in row {row}"
            raise DataError(text, "Fill the gap, or take the row out.")
        errors = list(filter(is_spreadsheet_error, found.names))
        if errors:
            raise DataError(
                f"{file}: column {self.task!r} holds the error {errors[0]} of a "
                "spreadsheet",
                "Mend the formula, or take the row out.",
            )
        return found.names, found.codes


def fold_of(file: Path, first: int, n: int, folds: int, seed: int) -> Array:
    """Return the folds of n rows of a file: a hash of the seed, the name of the file, and the number of the row."""
    seeded = np.uint64(derive_seed(seed, file.name, "folds")) << np.uint64(32)
    numbers = np.arange(first, first + n, dtype=np.uint64) + seeded
    return (pd.util.hash_array(numbers) % np.uint64(folds)).astype(np.int64)


def chunk_files(data: Any) -> list[Path]:
    """Return the files of data in chunks: of a folder, of a pattern, or of several paths; none for anything else.

    Raises
    ------
    DataError
        For a folder or a pattern without Parquet or csv files.
    """
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if isinstance(data, list | tuple):
        paths = [Path(item) for item in data if isinstance(item, str | Path)]
        return (
            sorted(paths)
            if len(paths) > 1 and all(suffix_of(path) in SUFFIXES for path in paths)
            else []
        )
    if not isinstance(data, str | Path):
        return []
    path = Path(data)
    if path.is_dir():
        found = [file for file in path.rglob("*") if file.is_file()]
    elif set(str(data)) & set("*?[") and not path.exists():
        found = [Path(name) for name in glob.glob(str(data), recursive=True)]
    else:
        return []
    files = sorted(file for file in found if suffix_of(file) in SUFFIXES)
    kinds = {suffix_of(file) for file in files}
    if len(kinds) != 1:
        what = "both .parquet and .csv files" if kinds else "no .parquet or .csv file"
        raise DataError(
            f"{data}: {what}",
            "Name a folder, or a pattern such as 'rows/*.parquet', of one of the two.",
        )
    return files


def _frames(
    file: Path, columns: list[str] | None, rows: int, task: str | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file as data frames, of all columns for None; their indices mean nothing.

    The task is read as text. Folders called ``column=value`` are columns, as Hive and Spark write them.
    """
    if suffix_of(file) not in SUFFIXES:
        raise DataError(
            f"{file}: cannot be read in chunks",
            "Store the table as .parquet or .csv files.",
        )
    parts = partitions(file)
    wanted = (
        None if columns is None else [name for name in columns if name not in parts]
    )
    try:
        for frame in (_parquet if suffix_of(file) == ".parquet" else _csv)(
            file, wanted, rows, task
        ):
            for name, text in parts.items():
                if columns is None or name in columns:
                    value = (
                        float(text)
                        if text is not None and is_number(text) and name != task
                        else text
                    )
                    frame[name] = pd.Series([value] * len(frame), index=frame.index)
            yield frame if columns is None else frame[columns]
    except DataError:
        raise
    except (ValueError, OSError) as error:
        text = " ".join(str(error).split())
        raise DataError(
            f"{file}: cannot be read ({text})", "Is the file complete?"
        ) from None


def partitions(file: Path) -> dict[str, str | None]:
    """Return the columns that folders name, as in ``year=2024/store=a/part-0.parquet``; None for a missing value."""
    folders = itertools.takewhile(
        lambda part: "=" in part[1:], reversed(file.parts[:-1])
    )
    pairs = [folder.partition("=") for folder in reversed(list(folders))]
    return {
        column_name(unquote(name)): None if value == _NO_PARTITION else unquote(value)
        for name, _, value in pairs
    }


def _parquet(
    file: Path, columns: list[str] | None, rows: int, task: str | None
) -> Iterator[pd.DataFrame]:
    parquet = optional_module("pyarrow.parquet", "parquet", str(file))
    with (
        open_regular(file) as raw,
        parquet.ParquetFile(raw, buffer_size=1 << 16) as stored,
    ):
        stored_names = stored.schema_arrow.names
        names = [column_name(name) for name in stored_names]
        allow(
            file,
            len(names),
            COLUMNS,
            "columns",
            "Use fewer, or a sparse format such as svmlight.",
        )
        checked_names(names, str(file))
        _check_columns(file, names, columns)
        wanted = columns and [stored_names[names.index(name)] for name in columns]
        for batch in stored.iter_batches(batch_size=rows, columns=wanted):
            frame = whole_frame(batch.to_pandas(split_blocks=True))
            frame.columns = [column_name(name) for name in frame.columns]
            yield frame


def release_memory() -> None:
    """Give back what pyarrow keeps for the next file."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()


def _csv(
    file: Path, columns: list[str] | None, rows: int, task: str | None
) -> Iterator[pd.DataFrame]:
    options: dict[str, Any] = {
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": list(MISSING),
    }
    with data_file(file)[0].open() as inner:
        found = _header(inner, file)
        _check_columns(file, found, columns)
        kinds = {found.index(task): str} if task in found else {}
        some = None if columns is None else [found.index(name) for name in columns]
        n, stream = 0, _Counted(inner)
        try:
            with pd.read_csv(
                stream, header=None, names=range(len(found)), index_col=False, usecols=some, chunksize=rows,
                dtype=kinds, **options,
            ) as reader:  # fmt: skip
                for frame in reader:
                    n += len(frame)
                    yield frame.set_axis([found[k] for k in frame.columns], axis=1)
        except pd.errors.EmptyDataError:
            return
        except pd.errors.ParserError:
            _refuse_unequal_rows(file, len(found))
            raise
        if stream.commas != n * (len(found) - 1):
            _refuse_unequal_rows(file, len(found))


class _Counted:
    """A stream that counts the commas outside quotes: pandas fills short rows, and cuts long ones.

    It is no stream of Python's, of which pandas would decode small pieces.
    """

    def __init__(self, inner: IO[bytes]) -> None:
        self.inner = inner
        self.commas, self.quoted = 0, 0

    def read(self, size: int = -1) -> bytes:
        content = self.inner.read(size)
        if not self.quoted and b'"' not in content:
            self.commas += int(
                np.count_nonzero(np.frombuffer(content, dtype=np.uint8) == ord(","))
            )
            return content
        parts = content.split(b'"')
        self.commas += sum(part.count(b",") for part in parts[self.quoted :: 2])
        self.quoted = (self.quoted + len(parts) - 1) % 2
        return content

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.inner)


def _header(stream: IO[bytes], file: Path) -> list[str]:
    """Return the names of the columns of a csv file, and leave the stream behind them.

    Raises
    ------
    DataError
        As `mtlrun.data.formats.text.checked_names`; for more columns than are read, and other separators.
    """
    record, blank = b"", 0
    while not record.strip() or record.count(b'"') % 2:
        line = stream.readline(HEADER_BYTES)
        blank += not record.strip()
        allow(
            file,
            blank,
            LINES_BEFORE,
            "blank lines before the first row",
            "Delete them.",
        )
        allow(
            file,
            len(record) + len(line),
            HEADER_BYTES - 1,
            "bytes in the header",
            "Is it a csv file?",
        )
        if not line:
            break
        record = record + line if record.strip() else line
    allow(
        file,
        record.count(b","),
        COLUMNS,
        "columns",
        "Use fewer, or a sparse format such as svmlight.",
    )
    text = decode(record, str(file))
    cells = next(csv.reader(io.StringIO(text), skipinitialspace=True), [])
    if len(cells) == 1 and max(map(text.count, ";\t")):
        raise DataError(
            f"{file}: its columns are not separated by commas",
            "Data in chunks are comma-separated.",
        )
    return checked_names([column_name(cell) for cell in cells], f"{file}:1")


def _refuse_unequal_rows(file: Path, width: int) -> None:
    """Refuse a file with a row that has more or fewer cells than the header; commas inside quotes are none."""
    with data_file(file)[0].open() as stream:
        reader = csv.reader(
            io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""),
            skipinitialspace=True,
        )
        for cells in reader:
            if len(cells) != width and any(cell.strip() for cell in cells):
                text = f"{file}:{reader.line_num}: {counted(len(cells), 'cell')}, the header has {width}"
                raise DataError(text, "Every row needs the same number of cells.")


def _check_columns(
    file: Path, found: Sequence[str], wanted: Sequence[str] | None
) -> None:
    twice = set(partitions(file)).intersection(found)
    if twice:
        text = f"{file}: the column {min(twice)!r} is in the file and in the name of a folder"
        raise DataError(
            text, "Rename one of the two: nothing tells which of them is right."
        )
    missing = [name for name in wanted or () if name not in found]
    if missing:
        near = suggest(missing[0], found)
        hint = (
            f"Did you mean {near[0]!r}?"
            if near
            else "All files need the columns of the first one."
        )
        raise DataError(
            f"{file}: {counted(len(missing), 'column')} missing: {listed(missing)}",
            hint,
        )


def _weights(column: pd.Series, file: Path) -> Array:
    """Return weights of rows, finite and not negative."""
    weights = _numbers(column, file)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(column.index[np.argmax(bad)]) + 1
        raise DataError(
            f"{file}: column {column.name!r} has no weight in row {row}",
            "Weights are numbers of at least 0.",
        )
    return weights


def _without_unweighted(
    frame: pd.DataFrame, weights: Array, numbers: Sequence[str], file: Path
) -> pd.DataFrame:
    """Return the rows of positive weight.

    Columns `numbers` of csv files are numbers then, also where the other rows hold words.
    """
    if (weights > 0).all():
        return frame
    frame = frame[weights > 0].copy()
    if suffix_of(file) == ".csv":
        for name in numbers:
            if not pd.api.types.is_numeric_dtype(frame[name]):
                values = pd.to_numeric(frame[name], errors="coerce")
                if (values.isna() == frame[name].isna()).all():
                    frame[name] = values
    return frame


def _numbers(column: pd.Series, file: Path) -> Array:
    """Return a column as floats, NaN where a value is missing.

    The index of the column is the number of each row in the file.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu":
        return np.asarray(column, dtype=np.float64)
    column = typed(without_markers(column))
    if pd.api.types.is_numeric_dtype(column) or column.isna().all():
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    wrong = pd.to_numeric(column, errors="coerce").isna() & column.notna()
    place = int(np.argmax(wrong))
    raise DataError(
        f"{file}: column {column.name!r} has {str(column.iloc[place])!r} in row "
        f"{int(column.index[place]) + 1}",
        _ENCODE,
    )
