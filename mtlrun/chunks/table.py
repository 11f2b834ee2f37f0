"""Tables larger than memory: Parquet or csv files that are read in chunks of rows."""

from __future__ import annotations

import csv
import glob
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from mtlrun.data.reading.files import data_file, suffix_of
from mtlrun.data.reading.formats.text import checked_names, decode
from mtlrun.data.reading.frames import reading_parquet, typed, whole_frame
from mtlrun.data.reading.named_columns import matching, target_columns
from mtlrun.data.reading.names import (
    MISSING,
    Names,
    is_number,
    is_spreadsheet_error,
    without_markers,
)
from mtlrun.data.reading.table import Table, optional_module
from mtlrun.data.roles.weights import tasks_without_weight
from mtlrun.errors import DataError, counted, listed, suggest
from mtlrun.utils.io import derive_seed, open_regular
from mtlrun.utils.sizes import COLUMNS, LINES_BEFORE, allow
from mtlrun.utils.text import column_name, several

Array = np.ndarray[Any, np.dtype[Any]]

#: Endings of the files that can be read in chunks.
SUFFIXES = (".parquet", ".csv")
#: Bytes of the numbers of a chunk, which has at least `MIN_CHUNK_ROWS` rows.
CHUNK_BYTES = 32 << 20
MIN_CHUNK_ROWS = 1024
#: A single file with more is read in chunks: cells of a Parquet file, bytes of a csv
#: file. In memory, a comparison takes some ten times 8 bytes per cell.
MAX_CELLS = 30_000_000
MAX_CSV_BYTES = 300_000_000
#: Rows whose weights and tasks are read at a time for notes.
NOTED_ROWS = 1 << 20
#: Rows at the head of the first file, whose means are the shifts.
HEAD_ROWS = 10_000
#: Limit of the bytes of the header of a csv file.
HEADER_BYTES = 32 << 20
#: Folder of the rows without a value, as Hive and Spark write it.
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ENCODE = (
    "Data in chunks takes numbers only: store a 0/1 column per category, or leave the "
    "column out (--drop)."
)
_FILL = "Fill the gap, take the row out, or leave the column out (--drop)."


@dataclass(frozen=True)
class Chunk:
    """Rows of a file, ordered by task and fold.

    Attributes
    ----------
    Z : ndarray of shape (1 + d + k, n)
        A row of ones, d features and k targets less their shifts; a column per row of
        the file. NaN where a target of a shared design is missing.
    weights : ndarray of shape (n,) or None
    names : list of str
        Tasks that occur; empty in a shared design.
    codes : ndarray of shape (n,)
        Position of the task of each row in `names`. In a shared design, 1 for rows that
        lack a target and 0 for all others.
    fold : ndarray of shape (n,)
        Fold of each row.
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

        The task is a name. In a shared design it is None for rows with all targets, and
        the number of a target for the other rows that have it.

        Parameters
        ----------
        n_targets : int
        by_target : bool, default=True
            If False, the task of a shared design is None for all rows, which come once.
        """
        has_new_code = np.diff(self.codes) != 0
        has_new_fold = np.diff(self.fold) != 0
        starts = np.flatnonzero(has_new_code | has_new_fold) + 1
        n_rows = self.Z.shape[1]
        bounds = [0, *starts.tolist(), n_rows]
        for begin, end in pairwise(bounds):
            if begin == end:
                continue
            code = int(self.codes[begin])
            fold = int(self.fold[begin])
            Z = self.Z[:, begin:end]
            weights = _selected(self.weights, slice(begin, end))
            if self.names:
                yield fold, self.names[code], Z, weights
            elif code == 0 or not by_target:
                yield fold, None, Z, weights
            else:
                # Rows that lack different targets are together: their sums are taken
                # for each target apart.
                for target in range(n_targets):
                    # The columns that have this target, without the other targets.
                    row = len(Z) - n_targets + target
                    has_target = ~np.isnan(Z[row])
                    kept = [*range(len(Z) - n_targets), row]
                    part = Z[kept][:, has_target]
                    yield fold, target, part, _selected(weights, has_target)


def _selected(weights: Array | None, rows: slice | Array) -> Array | None:
    """Return the weights of some rows; None without weights."""
    if weights is None:
        return None
    return weights[rows]


@dataclass(frozen=True)
class ChunkedTable:
    """The files of a table, the roles of its columns, and how its rows are split.

    Attributes
    ----------
    files : tuple of Path
    features, targets : tuple of str
    task, weight : str or None
        Columns of the task and of the weight of each row.
    shift : ndarray of shape (d + k,)
        Means of features and targets in the first rows. They are subtracted, because
        sums of products of large numbers cancel.
    n_folds, seed : int
        Number of folds of the rows, and the seed of the folds.
    weight_unit : float, default=1.0
        Divisor of the weights: their mean in the first rows, until all are read.
    """

    files: tuple[Path, ...]
    features: tuple[str, ...]
    targets: tuple[str, ...]
    task: str | None
    weight: str | None
    shift: Array
    n_folds: int
    seed: int
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
        n_folds: int = 5,
        seed: int = 0,
    ) -> ChunkedTable:
        """Create a table from the head of its first file.

        Parameters
        ----------
        files : sequence of Path
        target, task, targets, targets_last, weight, drop
            As of `mtlrun.compare`.
        n_folds, seed : int

        Raises
        ------
        DataError, UnknownNameError
            If a file is damaged, or the columns are not there or not numbers.
        """
        if task is not None:
            task = column_name(task)
        if weight is not None:
            weight = column_name(weight)
        frames = frames_of(files[0], None, HEAD_ROWS, task)
        # The copy leaves nothing in the memory of pyarrow, which is released below.
        frame = next(frames, pd.DataFrame()).copy()
        frame = frame.reset_index(drop=True)
        release_memory()
        head = Table(str(files[0]), frame)
        target_names = target_columns(head, target, targets, targets_last)
        if not target_names or bool(task) != (len(target_names) == 1):
            raise DataError(
                f"{head.name}: one target needs a column of tasks, several targets "
                "need none",
                "Give --target and --task, or several columns as --targets.",
            )
        with_role = [*target_names, *_named(task, weight)]
        for name in with_role:
            # This raises an error if there is no such column.
            head.column(name)
        excluded = {*with_role, *matching(several(drop), head)}
        features = tuple(name for name in head.columns if name not in excluded)
        if not features:
            raise DataError(
                f"{head.name}: no column is left as a feature",
                "Leave out fewer columns.",
            )
        unit = 1.0
        numeric = (*features, *target_names)
        if weight is not None:
            weights = _weights(frame[weight], files[0])
            frame = _without_unweighted(frame, weights, numeric, files[0])
            positive = weights[weights > 0]
            if positive.size:
                # Sums of very large weights would overflow.
                largest = positive.max()
                unit = float(largest * np.mean(positive / largest))
        # The mean of each column, 0 without finite values.
        shift = np.zeros(len(numeric))
        for j, name in enumerate(numeric):
            numbers = _numbers(frame[name], files[0])
            if np.isfinite(numbers).any():
                shift[j] = np.nanmean(numbers)
        return cls(
            files=tuple(files),
            features=features,
            targets=target_names,
            task=task,
            weight=weight,
            shift=np.nan_to_num(shift),
            n_folds=n_folds,
            seed=seed,
            weight_unit=unit,
        )

    @property
    def columns(self) -> list[str]:
        """Names of all columns that are read."""
        return [*self.features, *self.targets, *_named(self.task, self.weight)]

    @cached_property
    def _positions(self) -> dict[Path, int]:
        """Positions of the files, by which folds are drawn."""
        return {file: position for position, file in enumerate(self.files)}

    def chunks(self, file: Path) -> Iterator[Chunk]:
        """Yield the rows of a file in chunks; each one takes the memory of the last.

        Rows of weight 0 are left out. The fold of a row is a hash of the seed, the
        position of its file and its number among the other rows there.

        Parameters
        ----------
        file : Path

        Raises
        ------
        DataError
            For a cell that is not a number; names the file, column and row.
        """
        columns = self.columns
        row_bytes = 8 * len(columns)
        max_rows = max(MIN_CHUNK_ROWS, CHUNK_BYTES // row_bytes)
        position = self._positions[file]
        n_read = 0
        n_weighted = 0
        # New memory for each chunk would take a third of the time.
        buffer = np.empty((1 + len(self.shift), max_rows))
        for frame in frames_of(file, columns, max_rows, self.task):
            # The index is the number of the row in the file, for messages.
            frame.index = pd.RangeIndex(n_read, n_read + len(frame))
            n_read += len(frame)
            weights = None
            if self.weight is not None:
                weights = _weights(frame[self.weight], file)
                numeric = (*self.features, *self.targets)
                frame = _without_unweighted(frame, weights, numeric, file)
                weights = weights[weights > 0] / self.weight_unit
            fold = fold_of(position, n_weighted, len(frame), self.n_folds, self.seed)
            n_weighted += len(frame)
            yield self._chunk(file, frame, weights, fold, buffer)

    def notes_on_weights(self, tasks: Sequence[str]) -> list[str]:
        """Return notes on rows of weight 0, and on tasks that only have such rows.

        Reads the columns of weights and tasks of all files once.

        Parameters
        ----------
        tasks : sequence of str
            Tasks with other rows.
        """
        if self.weight is None:
            return []
        n_left_out = 0
        names: set[str] = set()
        for file in self.files:
            columns = _named(self.task, self.weight)
            for frame in frames_of(file, columns, NOTED_ROWS, self.task):
                unweighted = frame[_weights(frame[self.weight], file) == 0]
                n_left_out += len(unweighted)
                if self.task is not None:
                    column = without_markers(unweighted[self.task])
                    names.update(Names.of(typed(column)).names)
        notes = []
        if n_left_out:
            notes.append(f"{counted(n_left_out, 'row')} of weight 0 left out")
        if lost := sorted(names.difference(tasks)):
            notes.append(tasks_without_weight(lost))
        return notes

    def _chunk(
        self,
        file: Path,
        frame: pd.DataFrame,
        weights: Array | None,
        fold: Array,
        buffer: Array,
    ) -> Chunk:
        """Return the rows of a frame that have a target, in memory of the buffer."""
        targets = [_numbers(frame[name], file) for name in self.targets]
        is_missing: Array = np.isnan(targets)
        names, codes = self._tasks(frame, file)
        if self.task is None:
            codes = np.asarray(is_missing.any(axis=0), dtype=np.int64)
        with_target = np.flatnonzero(~np.asarray(is_missing.all(axis=0)))
        n_folds = int(fold.max(initial=0)) + 1
        group = codes[with_target] * n_folds + fold[with_target]
        # Numpy sorts short integers in linear time.
        shortest_type = np.min_scalar_type(group.max(initial=0))
        group = group.astype(shortest_type)
        rows = with_target[np.argsort(group, kind="stable")]
        Z = buffer[:, : len(rows)]
        Z[0] = 1.0
        for index, name in enumerate((*self.features, *self.targets)):
            values = Z[1 + index]
            column = _numbers(frame[name], file)
            # With mode "raise" numpy would buffer the output.
            np.take(column, rows, out=values, mode="clip")
            values -= self.shift[index]
            # A sum is faster to check than each value.
            total = values.sum()
            if np.isfinite(total):
                continue
            is_target = name in self.targets
            if is_target and np.isnan(total) and not np.isinf(values).any():
                # Rows of a shared design may lack some of their targets.
                continue
            first_bad = rows[~np.isfinite(values)].min()
            row = int(frame.index[first_bad]) + 1
            raise DataError(
                f"{file}: column {name!r} has a missing or infinite value in row {row}",
                _FILL,
            )
        return Chunk(
            Z=Z,
            weights=_selected(weights, rows),
            names=names,
            codes=codes[rows],
            fold=fold[rows],
        )

    def _tasks(self, frame: pd.DataFrame, file: Path) -> tuple[list[str], Array]:
        """Return the tasks that occur, and the position of the task of each row."""
        if self.task is None:
            return [], np.zeros(len(frame), dtype=np.int64)
        tasks = Names.of(typed(without_markers(frame[self.task])))
        is_missing = tasks.codes < 0
        if is_missing.any():
            row = int(frame.index[np.argmax(is_missing)]) + 1
            raise DataError(
                f"{file}: column {self.task!r} has no task in row {row}",
                "Fill the gap, or take the row out.",
            )
        errors = list(filter(is_spreadsheet_error, tasks.names))
        if errors:
            raise DataError(
                f"{file}: column {self.task!r} holds the error {errors[0]} of a "
                "spreadsheet",
                "Mend the formula, or take the row out.",
            )
        return tasks.names, tasks.codes


def _named(*columns: str | None) -> list[str]:
    """Return the columns that have a name."""
    return [name for name in columns if name]


def fold_of(position: int, first: int, n: int, folds: int, seed: int) -> Array:
    """Return the folds of some rows of a file.

    They are hashes of the seed, the position of the file, and the number of the row.
    The name of the file does not matter.

    Parameters
    ----------
    position : int
        Number of files before this one.
    first : int
        Number of the first row.
    n : int
        Number of rows.
    folds : int
        Number of folds.
    seed : int
    """
    # The seed in the upper half of each number, the row in the lower half. Any part of
    # a file has the same folds, however it is cut into chunks.
    seeded = np.uint64(derive_seed(seed, "folds", position)) << np.uint64(32)
    numbers = np.arange(first, first + n, dtype=np.uint64) + seeded
    hashes = pd.util.hash_array(numbers)
    numbers_of_folds = hashes % np.uint64(folds)
    return numbers_of_folds.astype(np.int64)


def chunk_files(data: Any) -> list[Path]:
    """Return the files of data in chunks, in their order.

    Parameters
    ----------
    data : str, Path or sequence of them
        A folder, a pattern such as ``rows/*.parquet``, several paths, or one large file.
        The files of the first two are sorted by their paths. Anything else is not in
        chunks, so that the list is empty.

    Raises
    ------
    DataError
        For a folder or a pattern without Parquet or csv files, or with both.
    """
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if isinstance(data, list | tuple):
        paths = [Path(item) for item in data if isinstance(item, str | Path)]
        if len(paths) > 1 and all(suffix_of(path) in SUFFIXES for path in paths):
            return paths
        return []
    if not isinstance(data, str | Path):
        return []
    path = Path(data)
    pattern = str(data)
    has_wildcard = any(character in pattern for character in "*?[")
    if path.is_dir():
        candidates = [file for file in path.rglob("*") if file.is_file()]
    elif has_wildcard and not path.exists():
        # The name of a file may have a bracket.
        candidates = [Path(name) for name in glob.glob(pattern, recursive=True)]
    elif is_large(path):
        return [path]
    else:
        return []
    files = sorted(file for file in candidates if suffix_of(file) in SUFFIXES)
    suffixes = {suffix_of(file) for file in files}
    if len(suffixes) != 1:
        content = "no .parquet or .csv file"
        if suffixes:
            content = "both .parquet and .csv files"
        raise DataError(
            f"{data}: {content}",
            "Name a folder, or a pattern such as 'rows/*.parquet', of one of the two.",
        )
    return files


def is_large(file: Path) -> bool:
    """Whether a single file is read in chunks.

    It has more cells than `MAX_CELLS` (Parquet) or bytes than `MAX_CSV_BYTES`.
    """
    if not file.is_file():
        return False
    if file.suffix == ".csv":
        return file.stat().st_size > MAX_CSV_BYTES
    if file.suffix != ".parquet":
        return False
    parquet = optional_module("pyarrow.parquet", "parquet", str(file))
    with open_regular(file) as raw, reading_parquet(str(file)):
        metadata = parquet.ParquetFile(raw).metadata
        return bool(metadata.num_rows * metadata.num_columns > MAX_CELLS)


def count_rows(files: Sequence[Path]) -> str:
    """Return the number of rows of all files as text.

    It is an estimate for csv files, and empty for compressed ones.
    """
    if suffix_of(files[0]) == ".parquet":
        parquet = optional_module("pyarrow.parquet", "parquet", str(files[0]))
        n_rows = 0
        for file in files:
            with open_regular(file) as raw, reading_parquet(str(file)):
                n_rows += parquet.ParquetFile(raw).metadata.num_rows
        return f"{n_rows:,}"
    if files[0].suffix != ".csv":
        return ""
    with open_regular(files[0]) as stream:
        head = stream.read(CHUNK_BYTES >> 5)
    n_bytes = sum(file.stat().st_size for file in files)
    estimate = n_bytes * head.count(b"\n") / max(len(head), 1)
    # Two digits: rows are not equally long.
    return f"about {float(f'{estimate:.1e}'):,.0f}"


def frames_of(
    file: Path, columns: list[str] | None, rows: int, task: str | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file as data frames, whose indices have no meaning.

    Folders called ``column=value`` are columns, as Hive and Spark write them.

    Parameters
    ----------
    file : Path
    columns : list of str or None
        Columns to read, in this order; None for all.
    rows : int
        Largest number of rows of a data frame.
    task : str or None
        Column that is read as text.
    """
    suffix = suffix_of(file)
    if suffix not in SUFFIXES:
        raise DataError(
            f"{file}: cannot be read in chunks",
            "Store the table as .parquet or .csv files.",
        )
    parts = partitions(file)
    stored_columns = columns
    if columns is not None:
        stored_columns = [name for name in columns if name not in parts]
    read = _csv
    if suffix == ".parquet":
        read = _parquet
    try:
        for frame in read(file, stored_columns, rows, task):
            for name, text in parts.items():
                if columns is None or name in columns:
                    value: float | str | None = text
                    if name != task and text is not None and is_number(text):
                        value = float(text)
                    values = [value] * len(frame)
                    frame[name] = pd.Series(values, index=frame.index)
            if columns is not None:
                frame = frame[columns]
            yield frame
    except DataError:
        raise
    except (ValueError, OSError) as error:
        text = " ".join(str(error).split())
        raise DataError(
            f"{file}: cannot be read ({text})", "Is the file complete?"
        ) from None


def partitions(file: Path) -> dict[str, str | None]:
    """Return the columns that folders name, with their values.

    An example is ``year=2024/store=a/part-0.parquet``. A missing value is None. Folders
    above a folder of another form do not count.
    """
    folders = []
    for folder in reversed(file.parts[:-1]):
        if "=" not in folder[1:]:
            break
        folders.append(folder)
    values: dict[str, str | None] = {}
    for folder in reversed(folders):
        name, _, value = folder.partition("=")
        column = column_name(unquote(name))
        values[column] = None if value == _NO_PARTITION else unquote(value)
    return values


def _parquet(
    file: Path, columns: list[str] | None, rows: int, task: str | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file; parameters as of `frames_of`."""
    parquet = optional_module("pyarrow.parquet", "parquet", str(file))
    with open_regular(file) as raw:
        with reading_parquet(str(file)):
            stored = parquet.ParquetFile(raw, buffer_size=1 << 16)
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
        selected = None
        if columns is not None:
            selected = [stored_names[names.index(name)] for name in columns]
        batches = stored.iter_batches(batch_size=rows, columns=selected)
        while True:
            with reading_parquet(str(file)):
                batch = next(batches, None)
                if batch is None:
                    return
                frame = batch.to_pandas(split_blocks=True)
            frame = whole_frame(frame)
            frame.columns = [column_name(name) for name in frame.columns]
            yield frame


def release_memory() -> None:
    """Release the memory that pyarrow keeps for the next file."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()


def _csv(
    file: Path, columns: list[str] | None, rows: int, task: str | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a csv file; parameters as of `frames_of`.

    Raises
    ------
    DataError
        If a row has more or fewer cells than the header.
    """
    with data_file(file)[0].open() as inner:
        names = _header(inner, file)
        _check_columns(file, names, columns)
        types = {}
        if task in names:
            # As numbers, tasks 01 and 1 would be one.
            types = {names.index(task): str}
        selected = None
        if columns is not None:
            selected = [names.index(name) for name in columns]
        n_rows = 0
        stream = _CommaCounter(inner)
        try:
            with pd.read_csv(
                stream,
                header=None,
                names=range(len(names)),
                index_col=False,
                usecols=selected,
                chunksize=rows,
                dtype=types,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=list(MISSING),
            ) as reader:
                for frame in reader:
                    n_rows += len(frame)
                    read_names = [names[position] for position in frame.columns]
                    yield frame.set_axis(read_names, axis=1)
        except pd.errors.EmptyDataError:
            return
        except pd.errors.ParserError:
            _refuse_unequal_rows(file, len(names))
            raise
        if stream.n_commas != n_rows * (len(names) - 1):
            _refuse_unequal_rows(file, len(names))


class _CommaCounter:
    """A stream that counts the commas outside quotes.

    Pandas fills short rows and cuts long ones without an error; the number of commas
    tells whether there are such rows. The class does not derive from Python's streams,
    because pandas would decode those in small pieces.

    Attributes
    ----------
    inner : stream of bytes
    n_commas : int
    is_quoted : bool
        Whether the next byte is inside quotes.
    """

    def __init__(self, inner: IO[bytes]) -> None:
        self.inner = inner
        self.n_commas = 0
        self.is_quoted = False

    def read(self, size: int = -1) -> bytes:
        content = self.inner.read(size)
        if not self.is_quoted and b'"' not in content:
            numbers = np.frombuffer(content, dtype=np.uint8)
            self.n_commas += int(np.count_nonzero(numbers == ord(",")))
            return content
        # Each quote ends a part, so that every other part is inside quotes.
        parts = content.split(b'"')
        first_outside = int(self.is_quoted)
        for part in parts[first_outside::2]:
            self.n_commas += part.count(b",")
        n_quotes = len(parts) - 1
        if n_quotes % 2:
            self.is_quoted = not self.is_quoted
        return content

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.inner)


def _header(stream: IO[bytes], file: Path) -> list[str]:
    """Read the header of a csv file, and leave the stream behind it.

    Returns
    -------
    list of str
        Names of the columns.

    Raises
    ------
    DataError
        As `mtlrun.data.reading.formats.text.checked_names`; for too many columns, and for other
        separators than commas.
    """
    record = b""
    n_blank = 0
    # A name may contain line breaks in quotes.
    while not record.strip() or record.count(b'"') % 2:
        line = stream.readline(HEADER_BYTES)
        is_blank = not record.strip()
        n_blank += is_blank
        allow(
            file,
            n_blank,
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
        if is_blank:
            record = line
        else:
            record += line
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


def _refuse_unequal_rows(file: Path, n_columns: int) -> None:
    """Raise an error if a row has more or fewer cells than the header.

    Without such a row, the commas that were counted are inside quotes.
    """
    with data_file(file)[0].open() as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        reader = csv.reader(text, skipinitialspace=True)
        for cells in reader:
            if len(cells) != n_columns and any(cell.strip() for cell in cells):
                raise DataError(
                    f"{file}:{reader.line_num}: {counted(len(cells), 'cell')}, the "
                    f"header has {n_columns}",
                    "Every row needs the same number of cells.",
                )


def _check_columns(
    file: Path, names: Sequence[str], columns: Sequence[str] | None
) -> None:
    """Raise an error if columns are missing, or also the name of a folder.

    Parameters
    ----------
    file : Path
    names : sequence of str
        Columns of the file.
    columns : sequence of str or None
        Columns to read.
    """
    repeated = set(partitions(file)).intersection(names)
    if repeated:
        raise DataError(
            f"{file}: the column {min(repeated)!r} is in the file and in the name of a "
            "folder",
            "Rename one of the two: nothing tells which of them is right.",
        )
    missing = [name for name in columns or () if name not in names]
    if missing:
        near = suggest(missing[0], names)
        remedy = "All files need the columns of the first one."
        if near:
            remedy = f"Did you mean {near[0]!r}?"
        raise DataError(
            f"{file}: {counted(len(missing), 'column')} missing: {listed(missing)}",
            remedy,
        )


def _weights(column: pd.Series, file: Path) -> Array:
    """Return the weights of rows; raise an error unless they are finite and >= 0."""
    weights = _numbers(column, file)
    is_valid = np.isfinite(weights) & (weights >= 0)
    if not is_valid.all():
        row = int(column.index[np.argmin(is_valid)]) + 1
        raise DataError(
            f"{file}: column {column.name!r} has no weight in row {row}",
            "Weights are numbers of at least 0.",
        )
    return weights


def _without_unweighted(
    frame: pd.DataFrame, weights: Array, numeric: Sequence[str], file: Path
) -> pd.DataFrame:
    """Return the rows of positive weight.

    Parameters
    ----------
    frame : DataFrame
    weights : ndarray of shape (n_rows,)
    numeric : sequence of str
        Columns to convert into numbers, if only other rows of a csv file hold words.
    file : Path
    """
    if (weights > 0).all():
        return frame
    frame = frame[weights > 0].copy()
    # A single word makes text of a whole column of a csv file. Other files store the
    # type of a column.
    if suffix_of(file) == ".csv":
        for name in numeric:
            column = frame[name]
            if pd.api.types.is_numeric_dtype(column):
                continue
            values = pd.to_numeric(column, errors="coerce")
            has_only_numbers = (values.isna() == column.isna()).all()
            if has_only_numbers:
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
    numbers = pd.to_numeric(column, errors="coerce")
    is_wrong = numbers.isna() & column.notna()
    first_wrong = int(np.argmax(is_wrong))
    value = str(column.iloc[first_wrong])
    row = int(column.index[first_wrong]) + 1
    raise DataError(
        f"{file}: column {column.name!r} has {value!r} in row {row}",
        _ENCODE,
    )
