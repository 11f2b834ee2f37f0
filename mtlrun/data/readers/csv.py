"""Tables of text: comma, semicolon, tab or blank separated. pandas parses, and what it refuses is located exactly."""

from __future__ import annotations

import csv as _csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NoReturn

import numpy as np
import pandas as pd

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.readers import is_number
from mtlrun.errors import DataError, counted, shorten

#: pandas reads numbers exactly by itself since 3.1 and then deprecates being asked to.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}

#: Cells that stand for "no value" where a column may have gaps.
MISSING = ("", "NA", "N/A", "nan", "NaN", "null", "?")


def read_table(
    stream: IO[bytes],
    name: str,
    *,
    delimiter: str | None = ",",
    header: bool = True,
    skip: int = 0,
    text: Iterable[str | int] = (),
    missing: Iterable[str | int] = (),
) -> pd.DataFrame:
    """Read a rectangular table in which every cell is a finite number unless said otherwise.

    Parameters
    ----------
    stream : binary file
        UTF-8 text, with or without a byte order mark.
    name : str
        File name for messages.
    delimiter : str or None, default=","
        One character; None stands for any run of blanks.
    header : bool, default=True
        Whether the first line (after `skip`) names the columns; without it they are called 0, 1, ...
    skip : int, default=0
        Lines to leave out at the start.
    text : iterable of column names or positions
        Columns kept as strings (blanks at both ends removed). Positions may be negative.
    missing : iterable of column names or positions
        Numeric columns in which empty cells, NA, nan, null and ? become NaN.

    Returns
    -------
    DataFrame
        float64 columns, object columns of `str` for `text`.

    Raises
    ------
    DataError
        For a file that is empty or no UTF-8, a header that repeats or lacks a name, rows of unequal length, cells that
        are no finite number; the message starts with ``file:line:column``.
    """
    content = decode(stream.read(), name)
    columns, start = _columns(content, name, delimiter, header, skip)
    texts = _resolve(text, columns, name)
    gaps = _resolve(missing, columns, name)
    try:
        frame = pd.read_csv(
            io.StringIO(content),
            sep=r"\s+" if delimiter is None else delimiter,
            header=None,
            names=list(range(len(columns))),
            skiprows=start,
            dtype={i: str if c in texts else np.float64 for i, c in enumerate(columns)},
            keep_default_na=False,
            na_values={i: list(MISSING) for i, c in enumerate(columns) if c in gaps},
            skipinitialspace=True,
            **EXACT,
        )
    except (ValueError, pd.errors.ParserError) as error:
        _explain(content, name, delimiter, columns, start, texts, gaps, str(error))
    # A first row longer than the header makes pandas take its first cell as an index.
    if not isinstance(frame.index, pd.RangeIndex) or not _complete(frame, columns, gaps):
        _explain(
            content, name, delimiter, columns, start, texts, gaps, "rows of unequal length or cells without a value"
        )
    if frame.empty:
        raise DataError(f"{name}: no rows below line {start}", "Check that the file was saved completely.")
    frame.columns = pd.Index(columns)
    for column in texts:
        frame[column] = frame[column].str.strip()
    return frame


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    target: str | Sequence[str],
    task: str | None = None,
    drop: Sequence[str] = (),
    positive: str | None = None,
    delimiter: str | None = ",",
) -> Dataset:
    """Read one table with named columns: a ragged set with a task column, or a shared one with several targets.

    Parameters
    ----------
    files : mapping of str to DataFile
        The first one is read.
    card : Card
        Says the task type.
    target : str or list of str
        Column of the targets; several columns are the tasks of a shared design, in which gaps are allowed.
    task : str, optional
        Column that names the task of every row.
    drop : list of str
        Columns that are no features.
    positive : str, optional
        The label that means +1, where binary labels are neither 0/1 nor -1/+1.
    delimiter : str or None, default=","
        None stands for any run of blanks.

    Raises
    ------
    DataError
        For what `read_table` refuses, columns that do not exist, and binary labels of another kind.
    """
    source = next(iter(files.values()))
    targets = [target] if isinstance(target, str) else list(target)
    shared = len(targets) > 1
    if task is not None and (shared or card.task_type == "multiclass"):
        raise DataError(f"{card.path}: a task column goes with one target that is binary or a number")
    labelled = card.task_type == "multiclass" or positive is not None
    with source.open() as stream:
        frame = read_table(
            stream,
            source.where(),
            delimiter=delimiter,
            text=[*(targets if labelled else ()), *((task,) if task else ()), *drop],
            missing=targets if shared and not labelled else (),
        )
    _resolve(targets, list(frame.columns), source.where())
    if card.task_type == "multiclass":
        classes, y = np.unique(frame[targets[0]].to_numpy(dtype=str), return_inverse=True)
        names, task_id = [str(c) for c in classes], None
    else:
        columns = [
            _targets(frame[t].to_numpy(), card.task_type, positive, f"{source.where()}: column {t!r}") for t in targets
        ]
        y = np.column_stack(columns) if shared else columns[0]
        names, task_id = (targets, None) if task is None else _tasks(frame[task])
    features = [c for c in frame.columns if c not in {*targets, *drop, task}]
    return Dataset(
        X=frame[features].to_numpy(dtype=np.float64),
        y=y,
        task_type=card.task_type,
        task_id=task_id,
        tasks=names,
        features=[str(c) for c in features],
    )


def signs(labels: np.ndarray, name: str) -> np.ndarray:
    """Return binary labels as -1/+1 float64; NaN stays.

    Raises
    ------
    DataError
        If they are neither 0/1 nor -1/+1.
    """
    values = np.asarray(labels, dtype=np.float64)
    known = set(np.unique(values[~np.isnan(values)]).tolist())
    if not (known <= {0, 1} or known <= {-1, 1}):
        shown = ", ".join(f"{v:g}" for v in sorted(known)[:5])
        raise DataError(f"{name}: binary labels must be 0/1 or -1/+1, found {shown}", "Recode them first.")
    return np.where(np.isnan(values), np.nan, np.where(values > 0, 1.0, -1.0))


def _targets(values: np.ndarray, task_type: str, positive: str | None, name: str) -> np.ndarray:
    if task_type == "regression":
        return values.astype(np.float64)
    if positive is None:
        return signs(values, name)
    found = sorted({str(v) for v in values})
    if len(found) != 2 or positive not in found:
        raise DataError(
            f"{name}: two labels are needed, {positive!r} and another, found {', '.join(found[:5])}",
            "The option 'positive' names the label that means +1.",
        )
    return np.where(values == positive, 1.0, -1.0)


def _tasks(column: pd.Series) -> tuple[list[str], np.ndarray]:
    """Return the tasks in the order in which they appear, and every row's task."""
    codes, names = pd.factorize(column)
    return [str(n) for n in names], codes.astype(np.int64)


def decode(content: bytes, name: str) -> str:
    """Decode UTF-8 (a byte order mark is dropped); a wrong byte, also NUL, is reported with its line and column."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        remedy = "Save the file as UTF-8, or decompress it if it is an archive."
        raise _wrong_byte(content, error.start, name, "is no UTF-8 text", remedy) from None
    if "\0" in text:
        raise _wrong_byte(content, content.index(b"\0"), name, "is no text", "Is the file damaged, or binary?")
    return text


def _wrong_byte(content: bytes, at: int, name: str, what: str, remedy: str) -> DataError:
    before = content[:at]
    line, column = before.count(b"\n") + 1, at - (before.rfind(b"\n") + 1) + 1
    return DataError(f"{name}:{line}:{column}: byte 0x{content[at]:02x} {what}", remedy)


def header_of(content: str, name: str, delimiter: str | None) -> tuple[list[str], int]:
    """Return the names of the columns of a table with a header, and the number of lines before the first row.

    Raises
    ------
    DataError
        For an empty file and a header that repeats or lacks a name.
    """
    columns, start = _columns(content, name, delimiter, True, 0)
    return [str(column) for column in columns], start


def unequal_rows(content: str, name: str, delimiter: str, columns: Sequence[str], start: int) -> None:
    """Refuse the first row below line `start` that has another number of cells than the header.

    Raises
    ------
    DataError
        With ``file:line:column``; returns when all rows have the same number of cells.
    """
    # The csv module counts cells of quoted line breaks correctly, where counting lines would not.
    for line, cells in csv_rows(content, name, delimiter):
        if line <= start or not any(cell.strip() for cell in cells) or len(cells) == len(columns):
            continue
        raise DataError(
            f"{name}:{line}: {counted(len(cells), 'cell')} where the header names {counted(len(columns), 'column')}",
            "Every row needs the same number of cells; quote cells that contain the separator.",
        )


def _columns(content: str, name: str, delimiter: str | None, header: bool, skip: int) -> tuple[list[str | int], int]:
    """Return the columns' names and the number of lines before the first row."""
    first = skip
    lines = io.StringIO(content)
    for number, line in enumerate(lines):
        if number >= skip and line.strip():
            first = number
            break
    else:
        raise DataError(f"{name}: no rows", "Check that the file was saved completely.")
    cells = cells_of(line, delimiter, f"{name}:{first + 1}")
    if not header:
        return list(range(len(cells))), first
    seen: dict[str, int] = {}
    for k, cell in enumerate(cells, start=1):
        if not cell:
            raise DataError(f"{name}:{first + 1}: column {k} of the header has no name", "Name every column.")
        if cell in seen:
            raise DataError(
                f"{name}:{first + 1}: the header names {cell!r} twice (columns {seen[cell]} and {k})",
                "Rename or drop one of the two columns.",
            )
        seen[cell] = k
    return list(seen), first + 1


def cells_of(line: str, delimiter: str | None, place: str) -> list[str]:
    """Return the cells of a line without blanks at their ends; None stands for any run of blanks.

    Raises
    ------
    DataError
        For a cell that is endless or has a bare carriage return in it; starts with `place`.
    """
    if delimiter is None:
        return line.split()
    try:
        row: list[str] = next(_csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except _csv.Error as error:
        raise _unreadable(place, error) from None
    return [cell.strip() for cell in row]


def csv_rows(content: str, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (last line, cells) of every row of a table; line breaks inside quotes belong to a cell.

    Raises
    ------
    DataError
        As `cells_of`, with the line.
    """
    reader = _csv.reader(io.StringIO(content), delimiter=delimiter, skipinitialspace=True)
    while True:
        try:
            row = next(reader, None)
        except _csv.Error as error:
            raise _unreadable(f"{name}:{reader.line_num}", error) from None
        if row is None:
            return
        yield reader.line_num, row


def _unreadable(place: str, error: Exception) -> DataError:
    return DataError(
        f"{place}: no cells can be told ({error})", "Save the table with one kind of line end, and close its quotes."
    )


def _resolve(wanted: Iterable[str | int], columns: Sequence[str | int], name: str) -> list[str | int]:
    """Turn names and (negative) positions into columns."""
    found: list[str | int] = []
    for item in wanted:
        if isinstance(item, int) and -len(columns) <= item < len(columns):
            found.append(columns[item])
        elif item in columns:
            found.append(item)
        else:
            raise DataError(f"{name}: there is no column {item!r}", f"Columns: {', '.join(map(str, columns))}.")
    return found


def _complete(frame: pd.DataFrame, columns: Sequence[str | int], gaps: Sequence[str | int]) -> bool:
    for i, column in enumerate(columns):
        values = frame[i]
        if values.dtype == np.float64:
            bad = np.isinf(values) if column in gaps else ~np.isfinite(values)
        else:
            bad = values.isna()
        if bad.any():
            return False
    return True


def _explain(
    content: str,
    name: str,
    delimiter: str | None,
    columns: Sequence[str | int],
    start: int,
    texts: Sequence[str | int],
    gaps: Sequence[str | int],
    reason: str,
) -> NoReturn:
    """Find the first bad row or cell and say where it is; runs only when pandas refused the file."""
    for number, line in enumerate(io.StringIO(content), start=1):
        if number <= start or not line.strip():
            continue
        cells = cells_of(line, delimiter, f"{name}:{number}")
        if len(cells) != len(columns):
            raise DataError(
                f"{name}:{number}:{_position(line, delimiter, min(len(cells), len(columns)))}: "
                f"{counted(len(cells), 'cell')} where the other rows have {len(columns)}",
                "Every row needs the same number of cells; quote cells that contain the separator.",
            )
        for k, (column, cell) in enumerate(zip(columns, cells, strict=True)):
            if column in texts or (column in gaps and cell in MISSING) or is_number(cell):
                continue
            label = f"column {column!r}" if isinstance(column, str) else f"column {k + 1}"
            what = f"holds {shorten(cell, 40)!r}, which is no finite number" if cell else "is empty"
            raise DataError(
                f"{name}:{number}:{_position(line, delimiter, k)}: {label} {what}",
                "Fill the gap, drop the row, or declare the column as text.",
            )
    raise DataError(f"{name}: {reason}")


def _position(line: str, delimiter: str | None, k: int) -> int:
    """Return the 1-based character column where cell k starts (exact when no cell is quoted)."""
    if delimiter is None:
        starts = [m.start() for m in re.finditer(r"\S+", line)]
    else:
        starts = [0, *(m.end() for m in re.finditer(re.escape(delimiter), line)), len(line.rstrip("\r\n"))]
    return starts[min(k, len(starts) - 1)] + 1
