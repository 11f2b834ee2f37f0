"""The skeleton of a MATLAB 5 file, checked before scipy reads it.

scipy trusts the tags of the elements: an unknown data type in a damaged file ends the process with a segmentation
fault.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from mtlrun.data.files import EXPANDED_BYTES, EXPANDED_TIMES

#: Bytes per value of the data types that numbers may have.
SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
INT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 5, 6, 14, 15
CELL, SPARSE = 1, 5
CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "opaque"}
NUMERIC = range(6, 16)


class Element(NamedTuple):
    """One tagged element: its type, its bytes and where the next one starts."""

    type: int
    data: memoryview
    end: int


def list_variables(content: bytes, wanted: Collection[str]) -> dict[str, str]:
    """Return the class of every variable and check the wanted ones.

    Parameters
    ----------
    content : bytes
        The whole file.
    wanted : collection of str
        Variables whose data are checked down to the last element.

    Returns
    -------
    dict of str to str
        ``numeric``, ``cell``, ``sparse``, ``char``, ``struct`` ...; ``cell of char`` and the like for a wanted cell
        array in which not all cells are numeric or sparse.

    Raises
    ------
    ValueError
        If an element does not fit into the file or has a type that its place does not allow.
    zlib.error
        If a compressed element is damaged.
    """
    # A zero among the first four bytes makes scipy read the file as one of version 4.
    if len(content) < 128 or 0 in content[:4] or content[124:128] not in (b"\x00\x01IM", b"\x01\x00MI"):
        raise ValueError("no header of a MATLAB file of version 5 to 7")
    order = "<" if content[126:128] == b"IM" else ">"
    found: dict[str, str] = {}
    start, whole = 128, memoryview(content)
    while start < len(whole):
        element = _element(whole, start, order, padded=False)
        start = element.end
        if element.type == COMPRESSED:
            element = _element(memoryview(_decompressed(element.data, len(content))), 0, order)
        _expect(element.type == MATRIX, "an element that is no array")
        name, kind = _check_array(element.data, order, wanted)
        found[name] = kind
    return found


def _decompressed(data: memoryview, size: int) -> bytes:
    """Return a compressed element of a file of `size` bytes, unless it is out of all proportion."""
    limit = max(EXPANDED_BYTES, EXPANDED_TIMES * size)
    tool = zlib.decompressobj()
    found = tool.decompress(data, limit)
    _expect(tool.eof or len(found) < limit, f"a variable that expands to more than {limit} bytes")
    _expect(tool.eof, "compressed data that end too early")
    return found


def _element(data: memoryview, start: int, order: str, padded: bool = True) -> Element:
    _expect(start + 8 <= len(data), "an incomplete tag")
    (first,) = struct.unpack_from(order + "I", data, start)
    if first >> 16:  # up to four bytes of data inside the tag
        kind, size, begin = first & 0xFFFF, first >> 16, start + 4
        _expect(size <= 4, "a small element of more than four bytes")
        end = start + 8
    else:
        kind, begin = first, start + 8
        (size,) = struct.unpack_from(order + "I", data, start + 4)
        end = begin + size
        if padded:
            end = min(end + -size % 8, len(data))
    _expect(begin + size <= len(data), "an element that ends behind the file")
    return Element(kind, data[begin : begin + size], end)


def _check_array(data: memoryview, order: str, wanted: Collection[str] | None) -> tuple[str, str]:
    """Check an array whose name is wanted (None: it is a cell) and return its name and class."""
    flags = _element(data, 0, order)
    _expect(flags.type == UINT32 and len(flags.data) == 8, "wrong array flags")
    (word,) = struct.unpack_from(order + "I", flags.data)
    shape = _element(data, flags.end, order)
    _expect(shape.type == INT32 and len(shape.data) >= 8 and len(shape.data) % 4 == 0, "wrong dimensions")
    sizes = struct.unpack(f"{order}{len(shape.data) // 4}i", shape.data)
    _expect(len(sizes) <= 32 and min(sizes) >= 0, "wrong dimensions")
    label = _element(data, shape.end, order)
    _expect(label.type == INT8, "a name that is no text")
    name, number = bytes(label.data).decode("latin-1"), word & 0xFF
    kind = "numeric" if number in NUMERIC else CLASSES.get(number, "unknown")
    parts = 2 if word >> 11 & 1 else 1  # real, imaginary
    if wanted is not None and name not in wanted:
        return name, kind
    if number in NUMERIC:
        _check_values(data, label.end, order, [math.prod(sizes)] * parts)
    elif number == SPARSE:
        # Row indices, starts of columns, values.
        _check_values(data, label.end, order, [None, sizes[1] + 1] + [None] * parts, indices=2)
    elif number == CELL and wanted is not None:
        kind = _check_cells(data, label.end, order, math.prod(sizes))
    return name, kind


def _check_values(data: memoryview, start: int, order: str, counts: Sequence[int | None], indices: int = 0) -> None:
    for k, count in enumerate(counts):
        values = _element(data, start, order)
        start = values.end
        _expect(values.type in SIZES and (k >= indices or values.type == INT32), "values of an unknown type")
        fits = (
            len(values.data) % SIZES[values.type] == 0
            if count is None
            else len(values.data) == count * SIZES[values.type]
        )
        _expect(fits, "values that do not fill the array")


def _check_cells(data: memoryview, start: int, order: str, count: int) -> str:
    """Check the cells of a cell array and return its class."""
    for _ in range(count):
        cell = _element(data, start, order)
        start = cell.end
        _expect(cell.type == MATRIX, "a cell that is no array")
        if cell.data:  # an empty cell may have no content at all
            _, kind = _check_array(cell.data, order, None)
            if kind not in ("numeric", "sparse"):
                return f"cell of {kind}"
    return "cell"


def _expect(fine: bool, otherwise: str) -> None:
    if not fine:
        raise ValueError(otherwise)
