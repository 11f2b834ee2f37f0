"""How many cells a workbook claims to have, and which of them only look empty."""

from __future__ import annotations

import importlib
import io
import re
import zipfile
from typing import IO, Any
from xml.parsers import expat

import numpy as np
import pandas as pd

from mtlrun.errors import DataError
from mtlrun.utils.sizes import SHEET_CELLS, SHEET_CELLS_PER_BYTE, allow, allow_members

_NO_VALUE = "#N/A"
_PLACE = re.compile(r"([A-Z]{0,3})([0-9]{1,7})")


def check_workbook(archive: zipfile.ZipFile, size: int, name: str) -> bool:
    """Refuse a workbook of `size` bytes whose sheets would make tables out of proportion to their cells.

    A sheet with a single cell in its last corner is a table of 17 thousand million cells. Returns whether a sheet has
    formulas or errors.

    Raises
    ------
    SizeError
    """
    allow_members(name, archive.infolist(), size)
    computes = False
    for member in archive.namelist():
        if member.startswith("xl/") and member.endswith(".xml"):
            with archive.open(member) as stream:
                rows, columns, computed = _extent(stream)
            computes |= computed
            most = max(SHEET_CELLS, SHEET_CELLS_PER_BYTE * size)
            text = f"cells from the first to the last used one in {member}"
            allow(name, rows * columns, most, text, "Delete what lies far from the table, or save it as csv.")
    return computes


def check_empty(raw: bytes, sheet: pd.DataFrame, name: str) -> None:
    """Refuse a first sheet in which cells were read as empty that are not: formulas without a value, errors but #N/A.

    Formulas have no values where a program wrote the file and nobody has opened it since.

    Parameters
    ----------
    raw : bytes
        The workbook.
    sheet : DataFrame
        Its first sheet; row 0 is the first line of the sheet, NaN is empty.
    name : str

    Raises
    ------
    DataError
        Names the first such cell.
    """
    empty = sheet.isna().to_numpy()
    if not empty.any():
        return
    openpyxl: Any = importlib.import_module("openpyxl")
    for stored in (True, False):
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=stored)
        for i, row in enumerate(book.worksheets[0].iter_rows(max_row=empty.shape[0], max_col=empty.shape[1])):
            for j in np.flatnonzero(empty[i, : len(row)]):
                if stored and row[j].data_type == "e":
                    if row[j].value != _NO_VALUE:
                        text = f"{name}:{i + 1}: the cell {row[j].coordinate} holds the error {row[j].value}"
                        raise DataError(text, "Mend the formula, or leave the cell empty.")
                    empty[i, j] = False
                elif row[j].data_type == "f":
                    text = f"{name}:{i + 1}: the cell {row[j].coordinate} holds a formula without a value"
                    raise DataError(text, "Open the workbook in a spreadsheet program, save it and try again.")


def _extent(stream: IO[bytes]) -> tuple[int, int, bool]:
    """Return the last row and the last column that a sheet names, and whether it has formulas or errors."""
    last = {"row": 0, "column": 0}
    here = {"row": 0, "column": 0}
    computed = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal computed
        tag = tag.rpartition(":")[2]
        computed |= tag == "f" or attributes.get("t") == "e"
        given = _PLACE.fullmatch(attributes.get("r", ""))
        if tag == "row":
            here.update(row=int(given[2]) if given else here["row"] + 1, column=0)
        elif tag == "c":
            here["column"] = _number(given[1]) if given and given[1] else here["column"] + 1
            here["row"] = int(given[2]) if given else here["row"]
        for name in last:
            last[name] = max(last[name], here[name])

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EntityDeclHandler = _refuse_entities
    try:
        parser.ParseFile(stream)
    except expat.ExpatError as error:
        raise zipfile.BadZipFile(f"damaged XML: {error}") from None
    return last["row"], last["column"], computed


def _refuse_entities(*_: object) -> None:
    raise zipfile.BadZipFile("its XML declares entities")


def _number(letters: str) -> int:
    """Return the number of a column: 1 for A, 27 for AA."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
