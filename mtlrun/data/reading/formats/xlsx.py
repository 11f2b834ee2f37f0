"""A sheet of a workbook, none of whose cells only look empty."""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.io.parsers import TextParser

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.text import (
    COMPLETE,
    SAMPLE,
    checked_names,
    names_columns,
)
from mtlrun.data.reading.frames import typed
from mtlrun.data.reading.names import (
    TrainingColumns,
    number_name,
    texts_of,
    without_markers,
)
from mtlrun.data.reading.table import (
    DAMAGE,
    Table,
    default_names,
    note_numbers,
    optional_module,
)
from mtlrun.errors import DataError, UnknownNameError, counted, listed
from mtlrun.utils.sizes import SHEET_CELLS, SHEET_CELLS_PER_BYTE, allow, allow_members
from mtlrun.utils.text import column_name

#: Rows of titles above the names of columns, at most.
MAX_TITLE_ROWS = 5


def xlsx_table(file: DataFile, like: TrainingColumns | None) -> Table:
    """Return a sheet of a workbook, by default the first one.

    Its first row names the columns unless all its cells are numbers. Rows of titles
    above a row of names are left out.
    """
    raw = file.read_bytes()
    name = file.where()
    optional_module("openpyxl", "excel", name)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            allow_members(name, archive.infolist(), len(raw))
        book = _workbook(raw, data_only=True)
        titles = [sheet.title for sheet in book.worksheets]
        title = file.sheet or titles[0]
        if title not in titles:
            raise UnknownNameError("sheet", title, titles, f"{name}: no such sheet")
        sheet = read_sheet(raw, name, book[title])
    except DataError:
        raise
    # Errors for an archive that is not a workbook; XML has SyntaxErrors.
    except (*DAMAGE, ArithmeticError, SyntaxError, AttributeError) as error:
        raise DataError(
            f"{name}: not a readable .xlsx workbook ({error})", COMPLETE
        ) from None
    # Rows that are only formatted count as rows of the sheet.
    sheet = sheet.dropna(how="all")
    if sheet.empty:
        others = [other for other in titles if other != title]
        remedy = "Put the table into the first sheet."
        if others:
            remedy = f"--sheet names another one: {listed(others)}."
        raise DataError(f"{name}: no rows in the sheet", remedy)
    n_titles = _count_title_rows(sheet)
    sheet = sheet.iloc[n_titles:]
    first = [_python_value(cell) for cell in sheet.iloc[0]]
    cells = [_header_name(cell) for cell in first]
    below = [
        [_header_name(_python_value(cell)) for cell in row]
        for row in sheet.iloc[1 : 1 + SAMPLE].itertuples(index=False)
    ]
    has_header = all(isinstance(cell, str) for cell in first)
    has_header = has_header or names_columns(cells, below, like)
    notes = []
    part = ""
    if len(titles) > 1 and not file.sheet:
        part = f" (sheet {title!r}; --sheet reads {listed(titles[1:])})"
        rest = listed(titles[1:])
        notes.append(f"the first sheet is read, {title!r}; --sheet reads {rest}")
    if n_titles:
        text = counted(n_titles, "row")
        notes.append(f"{text} of titles above the names of the columns left out")
    if has_header:
        names = checked_names(cells, f"{name}:{sheet.index[0] + 1}")
        notes += note_numbers(names)
    else:
        names = default_names(len(cells), name)
    rows = sheet.iloc[int(has_header) :]
    frame = rows.reset_index(drop=True).set_axis(names, axis=1)
    texts = texts_of(like)
    for column in names:
        plain = without_markers(frame[column], texts.get(column, ()))
        frame[column] = typed(plain)

    def lines() -> Sequence[int]:
        return [*(rows.index + 1)]

    def locate(row: int) -> str:
        return f"{name}:{rows.index[row] + 1}"

    return Table(
        name,
        frame,
        named=has_header,
        locate=locate,
        lines=lines,
        notes=notes,
        part=part,
    )


def _count_title_rows(sheet: pd.DataFrame) -> int:
    """Return the number of rows above the names of columns.

    Titles and dates leave cells of their rows empty. The first row that fills all cells
    has the names if they are texts, and if a number stands in the row below.
    """
    sheet = sheet.dropna(axis=1, how="all")
    for number in range(min(MAX_TITLE_ROWS + 1, len(sheet) - 1)):
        row = sheet.iloc[number]
        if row.notna().all():
            below = sheet.iloc[number + 1].dropna()
            has_names = all(isinstance(cell, str) for cell in row)
            has_numbers = not all(isinstance(cell, str) for cell in below)
            return number if has_names and has_numbers else 0
    return 0


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


def read_sheet(raw: bytes, name: str, worksheet: Any) -> pd.DataFrame:
    """Return a sheet of a workbook; row 0 is its first line, NaN is empty.

    A sheet with a single cell in its last corner is a table of 17 thousand million
    cells: they are counted while rows are read.

    Raises
    ------
    SizeError
    DataError
        Names the first formula without a value, which would be read as empty. Formulas
        have no values where a program wrote the file and nobody has opened it since.
    """
    # rows without cells count, too
    max_cells = max(SHEET_CELLS, SHEET_CELLS_PER_BYTE * len(raw))
    width = 1
    rows: list[list[Any]] = []
    for number, row in enumerate(_rows(worksheet), 1):
        width = max(width, len(row))
        remedy = "Delete what lies far from the table, or save it as csv."
        allow(
            name,
            number * width,
            max_cells,
            "cells from the first to the last used one",
            remedy,
        )
        rows.append([_value(cell) for cell in row])
    width = max(map(_used_width, rows), default=0)
    if any("" in row or len(row) < width for row in rows):
        formulas = _workbook(raw, data_only=False)[worksheet.title]
        for number, row in enumerate(_rows(formulas), 1):
            for cell, value in zip(row[:width], rows[number - 1], strict=False):
                if cell.data_type == "f" and value == "":
                    text = (
                        f"{name}:{number}: the cell {cell.coordinate} holds a formula "
                        "without a value"
                    )
                    raise DataError(
                        text,
                        "Open the workbook in a spreadsheet program, save it and try "
                        "again.",
                    )
    while rows and not _used_width(rows[-1]):
        rows.pop()
    table = []
    for cells in rows:
        padding = [""] * (width - len(cells))
        table.append([*cells, *padding][:width])
    if not table:
        return pd.DataFrame()
    return TextParser(
        table,
        header=None,
        keep_default_na=False,
        na_values=[""],
        skip_blank_lines=False,
    ).read()


def _used_width(row: Sequence[Any]) -> int:
    """Return the number of cells up to the last one with a value."""
    for position in range(len(row), 0, -1):
        if row[position - 1] != "":
            return position
    return 0


def _workbook(raw: bytes, *, data_only: bool) -> Any:
    """Open a workbook; its cells hold values, or formulas."""
    openpyxl: Any = importlib.import_module("openpyxl")
    return openpyxl.load_workbook(
        io.BytesIO(raw), read_only=True, data_only=data_only, keep_links=False
    )


def _rows(worksheet: Any) -> Iterator[tuple[Any, ...]]:
    worksheet.reset_dimensions()  # the dimensions that a file claims may be wrong
    return iter(worksheet.rows)


def _value(cell: Any) -> Any:
    """Return the value of a cell: "" for an empty one, whole numbers as int.

    Errors are texts: #N/A is missing, as in every format, and `Table.refuse_errors`
    refuses the others in the columns that are used.
    """
    if cell.value is None:
        return ""
    if cell.data_type == "n":
        if cell.value == int(cell.value):
            return int(cell.value)
        return float(cell.value)
    return cell.value
