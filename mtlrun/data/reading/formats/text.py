"""Tables of text (csv, tsv).

Separator, header and decimal comma are detected; every error names its line.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.names import (
    MISSING,
    TrainingColumns,
    as_written,
    is_number,
    with_point,
    without_markers,
)
from mtlrun.data.reading.table import Table, note_numbers, type_objects
from mtlrun.errors import DataError, counted
from mtlrun.utils.sizes import COLUMNS, LINES_BEFORE, allow
from mtlrun.utils.text import column_name

#: Since pandas 3.1, numbers are read exactly by default, and the option is deprecated.
_EXACT: dict[str, Any] = {}
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    _EXACT["float_precision"] = "round_trip"
DETECT = "detect"
_SEPARATORS = ",;\t"
COMPLETE = "Check that the file was saved completely."
#: A cell that is a number with decimals; the braces stand for the decimal mark.
_DECIMAL = r"(?:^|[;\t])\s*\"?[-+]?\d*{}\d+\"?\s*(?=[;\t]|$)"
#: A number with commas that may stand in front of decimals or between thousands, and
#: one where they are decimal.
_COMMA = r"(?:^|[;\t])\s*\"?[-+]?{}\"?\s*(?=[;\t]|$)"
_AMBIGUOUS = re.compile(_COMMA.format(r"[1-9]\d{0,2},\d{3}"), re.MULTILINE)
_CLEAR = re.compile(
    _COMMA.format(r"(?:(?:0\d*|\d{4,})?,\d+|\d{1,3},(?:\d{1,2}|\d{4,}))"), re.MULTILINE
)
_DECIMALS = re.compile(r"\s*[-+]?\d*,?\d+\s*")
_NOT_BLANK = re.compile(r"\S")
_QUOTED = re.compile('"[^"]*"')
_OPENED = re.compile(r'(?:^|[,;\t])\s*"')
#: Whole numbers, and which of them are years in the first line of a file.
_WHOLE = re.compile(r"[0-9]{1,9}")
_MIN_YEAR = 1500
_MAX_YEAR = 2200
#: Numbers in equal steps name at least this many columns, unless they are years.
_MIN_COUNTED = 5
#: Rows that are looked at to detect the separator, and lines that a header in quotes
#: may have.
SAMPLE = 20
_HEADER_LINES = 50


def text_table(
    file: DataFile,
    like: TrainingColumns | None = None,
    *,
    delimiter: str | None = DETECT,
    header: bool | None = None,
    skip: int = 0,
    text: Sequence[int] = (),
) -> Table:
    """Read a rectangular table of text.

    Parameters
    ----------
    file : DataFile
        UTF-8 text, with or without a byte order mark.
    delimiter : str or None, default="detect"
        One character; None stands for any run of blanks. Comma, semicolon, tab and
        blanks are detected. Where the separator is not a comma, so is a decimal comma.
        A name with line breaks in quotes becomes one line.
    header : bool, optional
        Whether the first line (after `skip`) names the columns. By default it does
        unless all its cells are numbers; numbers in quotes are names, too, and numbers
        that count columns (`names_columns`).
    skip : int, default=0
        Lines to skip at the start.
    text : sequence of int
        Positions of columns kept as texts, where nothing stands for a missing value;
        negative ones count from the end.
    like : TrainingColumns, optional
        Columns of the training rows. Columns of names are read as text, where
        ``NA`` is one of the names, or missing. A first line of numbers may name their
        columns.

    Returns
    -------
    Table
        Its `locate` returns ``file:line``; `written` reads a column again, as text.

    Raises
    ------
    DataError
        For a file that is empty or not UTF-8, a header that repeats or lacks a name,
        and rows of unequal length, with the line.
    """
    name = file.where()
    content = decode(file.read_bytes(), name)
    lines, first = _head(content, skip, name)
    line = _record(lines, first)
    end = first + max(1, line.count("\n"))
    if delimiter == DETECT:
        delimiter = _delimiter(line, lines[end : end + SAMPLE])
    allow(
        name,
        line.count(delimiter or " "),
        COLUMNS,
        "columns",
        "Use a sparse format, such as svmlight.",
    )
    _, first_record = next(_rows(line, f"{name}:{first + 1}", delimiter, 0), (0, []))
    # Names of columns, if there is a header.
    cells = list(map(column_name, first_record))
    if header is None:
        below = [row.split(delimiter) for row in lines[end : end + SAMPLE]]
        numbers = cells
        if delimiter in (";", "\t"):
            # These separators leave the comma to decimals.
            numbers = [cell.replace(",", ".") for cell in cells]
        header = '"' in line or names_columns(numbers, below, like)
    if header:
        columns = checked_names(cells, f"{name}:{first + 1}")
    else:
        columns = [f"x{k + 1}" for k in range(len(cells))]
    start = first
    if header:
        start = end
    width = len(columns)
    if any(not -width <= k < width for k in text):
        # The position that is furthest outside.
        position = max(text, key=abs)
        raise DataError(
            f"{name}: {counted(width, 'column')}, but column {position} is asked for"
        )
    texts = [k % width for k in text]
    names_by_column = {}
    if like is not None:
        training_texts = like.texts
        for k, column in enumerate(columns):
            if column in training_texts:
                names_by_column[k] = training_texts[column]
    separator = delimiter
    if delimiter is None:
        separator = r"\s+"
    options = {
        "sep": separator,
        "header": None,
        "names": list(range(width)),
        "keep_default_na": False,
        "skipinitialspace": True,
        "low_memory": False,
        **_EXACT,
    }
    decimal = "."
    if _decimal_comma(content, delimiter, name):
        decimal = ","
    first_character = sum(map(len, lines[:start]))
    body = _Body(
        content, name, delimiter, start, first_character, width, decimal, options
    )
    frame = body.read(texts, names_by_column)
    frame.columns = pd.Index(columns)
    for k in texts:
        frame[columns[k]] = frame[columns[k]].fillna("").str.strip()
    for k in range(width):
        if k not in texts and k not in names_by_column:
            column = frame[columns[k]]
            plain = without_markers(column)
            # pandas compares whole cells, so a column of numbers with `NA ` came as
            # texts.
            if plain is not column:
                cells_as_text = plain.dropna().astype(str)
                numbers = cells_as_text.str.replace(decimal, ".", regex=False)
                if all(map(is_number, numbers)):
                    plain = pd.to_numeric(numbers).reindex(plain.index)
            frame[columns[k]] = plain
    if decimal == ",":
        # Names are texts: pandas has left the comma of 1,5 in them, but a model that
        # was fitted to another file knows 1.5.
        for k, words in names_by_column.items():
            pointed = functools.partial(with_point, model_names=words)
            frame[columns[k]] = frame[columns[k]].map(pointed, na_action="ignore")

    def written(column: str) -> pd.Series:
        return body.read_as_written(columns.index(column)).rename(column)

    type_objects(frame)
    notes = []
    if header:
        notes = note_numbers(columns)
    return Table(
        name,
        frame,
        named=header,
        locate=body.locate,
        lines=body.lines,
        written=written,
        notes=notes,
    )


@dataclass(frozen=True)
class _Body:
    """The rows of a text file, without its header, and how pandas reads them.

    Attributes
    ----------
    content : str
        The file.
    name : str
        Name of the file in messages.
    delimiter : str or None
        One character; None stands for blanks.
    first_line : int
        Index of the first line of the body.
    first_character : int
        Index of its first character in `content`.
    width : int
        Number of columns.
    decimal : str
        Decimal mark of numbers.
    options : dict
        Other arguments of `pandas.read_csv`.
    """

    content: str
    name: str
    delimiter: str | None
    first_line: int
    first_character: int
    width: int
    decimal: str
    options: dict[str, Any]

    def read(
        self, texts: Sequence[int], names_by_column: Mapping[int, Collection[str]]
    ) -> pd.DataFrame:
        """Return all columns by position.

        Parameters
        ----------
        texts : sequence of int
            Columns that are kept as texts.
        names_by_column : mapping of int to collection of str
            Columns of names, and the known names of each.
        """
        _, cells = next(self.rows(), (0, [""] * self.width))
        if len(cells) != self.width:
            # pandas would use surplus cells as an index and shift all columns.
            self._refuse_unequal_rows()
        types = dict.fromkeys([*texts, *names_by_column], str)
        markers = {}
        for k in range(self.width):
            if k not in texts:
                markers[k] = _missing(names_by_column.get(k, ()))
        try:
            frame = pd.read_csv(
                self._file(),
                dtype=types,
                na_values=markers,
                decimal=self.decimal,
                **self.options,
            )
        except (ValueError, pd.errors.ParserError) as error:
            self._refuse_unequal_rows()
            raise DataError(f"{self.name}: {error}") from None
        if frame.empty:
            raise DataError(f"{self.name}: no rows below the header", COMPLETE)
        if frame.iloc[:, -1].isin([np.nan, None, ""]).any():
            # pandas fills the missing cells of short rows.
            self._refuse_unequal_rows()
        return frame

    def read_as_written(self, column: int) -> pd.Series:
        """Return the texts of a column, such as ``01`` of a number."""
        frame = pd.read_csv(
            self._file(),
            usecols=[column],
            dtype=str,
            na_values=_missing(),
            decimal=self.decimal,
            **self.options,
        )
        return as_written(frame[column], self.decimal)

    def locate(self, row: int) -> str:
        """Return the file and line of a row."""
        # pandas has other blanks, such as the vertical tab: then there may be no such row.
        line, _ = next(itertools.islice(self.rows(), row, None), (None, []))
        return self.name if line is None else f"{self.name}:{line}"

    def lines(self) -> list[int]:
        """Return the line of each row."""
        return [line for line, _ in self.rows()]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row."""
        return _rows(self.content, self.name, self.delimiter, self.first_line)

    def _file(self) -> io.BytesIO:
        return io.BytesIO(self.content[self.first_character :].encode())

    def _refuse_unequal_rows(self) -> None:
        for line, cells in self.rows():
            if len(cells) != self.width:
                text = (
                    f"{self.name}:{line}: {counted(len(cells), 'cell')} where the "
                    f"first line has {self.width}"
                )
                raise DataError(
                    text,
                    "Every row needs the same number of cells; quote cells that "
                    "contain the separator.",
                )


def _head(content: str, skip: int, name: str) -> tuple[list[str], int]:
    """Return the first lines, from which the form of all is detected.

    Also return the position of the first line that is not blank.

    Raises
    ------
    DataError
        If there is none, or it comes too late.
    """
    # A search in the text, as a list of the lines of a large file takes much memory.
    start = sum(map(len, _lines(content, skip)))
    match = _NOT_BLANK.search(content, start)
    if match is None:
        raise DataError(f"{name}: no rows", COMPLETE)
    blank = content.count("\n", start, match.start())
    allow(name, blank, LINES_BEFORE, "blank lines before the first row", "Delete them.")
    first = skip + blank
    return list(_lines(content, first + 1 + _HEADER_LINES + SAMPLE)), first


def _lines(content: str, count: int) -> Iterator[str]:
    """Yield the first lines with their ends."""
    start = 0
    for _ in range(count):
        if start == len(content):
            return
        # 0 after the last line end, where `find` returns -1.
        end = content.find("\n", start) + 1 or len(content)
        yield content[start:end]
        start = end


def decode(content: bytes, name: str) -> str:
    """Decode UTF-8, without a byte order mark.

    A wrong byte, also NUL, is reported with its line and column.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        remedy = "Save the file as UTF-8, or decompress it if it is an archive."
        raise _wrong_byte(
            content, error.start, name, "is not UTF-8 text", remedy
        ) from None
    # NUL is valid UTF-8, but no text has it: UTF-16, or a binary file.
    if "\0" in text:
        raise _wrong_byte(
            content,
            content.index(b"\0"),
            name,
            "is not text",
            "Is the file damaged, or binary?",
        )
    return text


def _wrong_byte(
    content: bytes, at: int, name: str, problem: str, remedy: str
) -> DataError:
    before = content[:at]
    line = before.count(b"\n") + 1
    column = at - (before.rfind(b"\n") + 1) + 1
    return DataError(
        f"{name}:{line}:{column}: byte 0x{content[at]:02x} {problem}", remedy
    )


def _missing(model_names: Collection[str] = ()) -> list[str]:
    """Return the texts that stand for a missing value, where some of them are names."""
    return [text for text in MISSING if not text or text not in model_names]


def _record(lines: list[str], first: int) -> str:
    """Return a line with the lines after it that belong to its last, quoted cell."""
    record = lines[first]
    for line in lines[first + 1 : first + 1 + _HEADER_LINES]:
        has_open_quote = record.count('"') % 2 == 1
        # A quote inside a cell, such as 5" for inches, opens nothing.
        if not has_open_quote or not _OPENED.search(record):
            return record
        record += line
    if record.count('"') % 2 == 0:
        return record
    # The quote is never closed: more likely a stray one than a name of 50 lines.
    return lines[first]


def _delimiter(record: str, rows: list[str]) -> str | None:
    """Return the separator of the first record.

    It is the most frequent one, outside of quotes, of those that occur as often in the
    rows below.
    """
    plain = _QUOTED.sub("", record)
    below = [_QUOTED.sub("", row) for row in rows if row.strip()]

    def rank(mark: str) -> tuple[bool, int]:
        count = plain.count(mark)
        return count > 0 and all(row.count(mark) == count for row in below), count

    # The first of equal ones counts for `max`: tabs and semicolons before commas.
    best = max(reversed(_SEPARATORS), key=rank)
    if best == ",":
        # The commas may be decimal: 1,5;2,5 are two numbers.
        for other in _SEPARATORS[1:]:
            cells = plain.strip().split(other)
            if other in plain and all(map(_DECIMALS.fullmatch, cells)):
                return other
    if best in plain:
        return best
    if " " in plain.strip():
        return None
    return _SEPARATORS[0]


def _decimal_comma(content: str, delimiter: str | None, name: str) -> bool:
    """Whether numbers are written as 1,5 and none as 1.5.

    Raises
    ------
    DataError
        If all commas may stand between thousands, as in 1,234.
    """
    if delimiter not in (";", "\t"):
        return False
    has_commas = re.search(_DECIMAL.format(","), content, re.MULTILINE) is not None
    has_points = re.search(_DECIMAL.format(r"\."), content, re.MULTILINE) is not None
    if not has_commas or has_points:
        return False
    unclear = None
    if not _CLEAR.search(content):
        unclear = _AMBIGUOUS.search(content)
    if unclear is not None:
        text = unclear[0].strip(' \t\r\n;"')
        line = content.count("\n", 0, unclear.end()) + 1
        remedy = f"Write {text.replace(',', '.')} or {text.replace(',', '')}."
        raise DataError(
            f"{name}:{line}: {text} may be a number with decimals or with a mark for "
            "thousands",
            remedy,
        )
    return True


def names_columns(
    cells: Sequence[str],
    below: Sequence[Sequence[str]],
    like: TrainingColumns | None = None,
) -> bool:
    """Whether the cells of a first row name columns.

    They do if not all are numbers, or if they count 0, 1, 2, ..., as pandas does. Other
    numbers do if they are the columns of a model. Without a model, they do if they are
    sorted years, or at least five numbers in equal steps, and no row below is alike.

    Parameters
    ----------
    cells : sequence of str
    below : sequence of sequence of str
        Some rows below.
    like : TrainingColumns, optional
        Columns of the training rows, where new rows are read.
    """
    if not all(map(is_number, cells)):
        return True
    # Two numbers 0 and 1 are rather a row of data.
    counting = [str(position) for position in range(len(cells))]
    if len(cells) > 2 and list(cells) == counting:
        return True
    if like is not None:
        return len(like.columns) > 0 and set(like.columns) <= set(cells)
    return _count_columns(cells) and not any(map(_count_columns, below))


def _count_columns(cells: Sequence[str]) -> bool:
    """Whether cells are sorted years, or at least five whole numbers in equal steps."""
    texts = [cell.strip() for cell in cells]
    if len(texts) < 2 or not all(map(_WHOLE.fullmatch, texts)):
        return False
    numbers = np.array(texts, dtype=np.int64)
    steps = np.diff(numbers)
    is_sorted = (steps > 0).all() or (steps < 0).all()
    are_years = numbers.min() >= _MIN_YEAR and numbers.max() <= _MAX_YEAR
    has_equal_steps = len(texts) >= _MIN_COUNTED and (steps == steps[0]).all()
    return bool(is_sorted and (are_years or has_equal_steps))


def checked_names(cells: list[str], location: str) -> list[str]:
    """Return the cells of a header; every column needs a name of its own."""
    seen: dict[str, int] = {}
    for k, cell in enumerate(cells, start=1):
        if not cell:
            raise DataError(
                f"{location}: column {k} of the header has no name",
                "Name every column.",
            )
        if cell in seen:
            text = (
                f"{location}: the header contains {cell!r} twice (columns {seen[cell]} "
                f"and {k})"
            )
            raise DataError(text, "Rename or drop one of the two columns.")
        seen[cell] = k
    return cells


def _rows(
    content: str, name: str, delimiter: str | None, start: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield (last line, cells) of each row below line `start`.

    Line breaks inside quotes belong to a cell.
    """
    if delimiter is None:
        # A carriage return alone ends a line, as for pandas.
        for number, line in enumerate(io.StringIO(content, newline=None), start=1):
            cells = line.split()
            if number > start and cells:
                yield number, cells
        return
    reader = csv.reader(
        io.StringIO(content), delimiter=delimiter, skipinitialspace=True
    )
    try:
        for row in reader:
            is_blank = len(row) <= 1 and not any(cell.strip() for cell in row)
            if reader.line_num > start and not is_blank:
                yield reader.line_num, row
    except csv.Error as error:
        text = f"{name}:{reader.line_num}: could not parse the row ({error})"
        raise DataError(
            text, "Save the table with one kind of line end, and close its quotes."
        ) from None
