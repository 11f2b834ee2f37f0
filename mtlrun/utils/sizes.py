"""How large an input, and a number in it, may be. Standard library only.

One policy, applied before memory is taken, with one message.

Limits lie far above what is used, and stop what a small file can claim: an array of
terabytes, a table of one cell in the last column, a grid of millions of candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from zipfile import ZipInfo

from mtlrun.errors import DataError

#: Maximum size of a container: bytes, or a multiple of its own size, whichever is more;
#: members.
EXPANDED_BYTES = 256 << 20
EXPANDED_TIMES = 200
MEMBERS = 2000
#: The same for the packed records of a run. Real ones expand 25 times.
RECORD_BYTES = 64 << 20
RECORD_TIMES = 64
RECORDS = 1_000_000
#: Maximum number of bytes of a JSON file.
JSON_BYTES = 256 << 20
#: Maximum number of columns of a table, of a sparse table, and of lines before the
#: first row.
COLUMNS = 200_000
SPARSE_COLUMNS = 1_000_000
LINES_BEFORE = 100_000
#: Maximum number of cells of a compressed table, in total or per byte, whichever is
#: more.
CELLS = 50_000_000
CELLS_PER_BYTE = 200
#: The same for a workbook, where every cell has a text of its own.
SHEET_CELLS = 2_000_000
SHEET_CELLS_PER_BYTE = 20
#: Candidates of a grid, folds of one search or split, and cells of an experiment.
CANDIDATES = 100_000
FOLDS = 10_000
PLANNED = 1_000_000
#: Bytes of a simulated data set and of what it is made from.
SIMULATED = 1 << 31


class SizeError(DataError, ValueError):
    """An input is larger than mtlrun reads; a ValueError as well, for readers of
    results, which count it as damage.
    """


def allow(location: object, count: float, limit: float, unit: str, remedy: str) -> None:
    """Refuse more than `limit` of something.

    Parameters
    ----------
    location : object
        File, with a line or key where known.
    count, limit : number
    unit : str
        Plural noun, such as ``columns``.
    remedy : str

    Raises
    ------
    SizeError
        Names the place, the number and the limit.
    """
    if count > limit:
        raise SizeError(f"{location}: {count:,} {unit}, the limit is {limit:,}", remedy)


def allow_expansion(location: object, expanded: int, size: int) -> None:
    """Refuse a container of `size` bytes that holds out of proportion many.

    Raises
    ------
    SizeError
    """
    limit = expansion(size)
    allow(
        location,
        expanded,
        limit,
        f"bytes out of {size:,}",
        "If that is right, decompress the file yourself.",
    )


def expansion(size: int) -> int:
    """Return how many bytes a container of `size` bytes may hold."""
    return max(EXPANDED_BYTES, EXPANDED_TIMES * size)


def allow_cells(location: object, rows: int, columns: int, size: int) -> None:
    """Refuse a compressed table of `size` bytes that claims too many columns, or out of
    proportion many cells.

    Raises
    ------
    SizeError
    """
    allow(
        location,
        columns,
        COLUMNS,
        "columns",
        "Hash the features, or use a sparse format such as svmlight.",
    )
    limit = max(CELLS, CELLS_PER_BYTE * size)
    allow(
        location,
        rows * columns,
        limit,
        f"cells out of {size:,} bytes",
        "If that is right, save the table as csv.",
    )


def allow_simulated(*shapes: tuple[int, ...], itemsize: int = 8) -> None:
    """Refuse to simulate data for which arrays of these shapes take too many bytes.

    Raises
    ------
    SizeError
    """
    count = itemsize * sum(map(math.prod, shapes))
    allow("simulated data", count, SIMULATED, "bytes to draw", "Choose smaller sizes.")


def allow_json(location: object, size: int) -> None:
    """Refuse a JSON file of too many bytes.

    Raises
    ------
    SizeError
    """
    allow(
        location,
        size,
        JSON_BYTES,
        "bytes of JSON",
        "mtlrun writes no such files: take it from where it was made.",
    )


def allow_members(location: object, members: Sequence[ZipInfo], size: int) -> None:
    """Refuse a zip archive of `size` bytes whose directory lists too many members or
    bytes.

    Raises
    ------
    SizeError
    """
    allow_expansion(location, sum(info.file_size for info in members), size)
    allow(
        location,
        len(members),
        MEMBERS,
        "files in one archive",
        "Unpack what is needed of it.",
    )


# -------------------------------------------------------------------- ranges of numbers
# Solvers square their input: beyond about 1e154 a square is infinite, below about
# 1e-154 it vanishes. The result is an error deep inside or, worse, a model that has not
# seen the column.

#: Largest absolute value of any number that is read, from data or from results.
LARGEST = 1e150
#: A column that is read must be zero or contain a number of at least this absolute
#: value.
SMALLEST = 1e-150
#: Largest absolute value of X before fitting: next to the square of 1e15 an intercept
#: has no digits left.
LARGEST_X = 1e15
#: Largest absolute value of y before fitting: its square must be a float even after
#: summing.
LARGEST_Y = 1e60
#: The largest entry of X or y must be zero or at least this large before fitting.
SMALLEST_FITTED = 1e-75
