"""How large an input may be: one policy, asked before memory is taken, with one message. Standard library only.

Limits lie far above what is used, and stop what a small file can claim: an array of terabytes, a table of one cell in
the last column, a grid of millions of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from zipfile import ZipInfo

from mtlrun.errors import DataError

#: A container may hold so many bytes, or so many times its own size, whichever is more; so many members.
EXPANDED_BYTES, EXPANDED_TIMES, MEMBERS = 2 << 30, 200, 2000
#: Deflate cannot do better: a directory that claims more is forged.
DEFLATE_TIMES = 1100


class SizeError(DataError, ValueError):
    """An input is larger than mtlrun reads; a ValueError as well, for readers of results, which count it as damage."""


def allow(place: object, count: float, most: float, what: str, remedy: str) -> None:
    """Refuse more than `most` of something.

    Parameters
    ----------
    place : object
        File, with a line or key where known.
    count, most : number
    what : str
        Plural noun, such as ``columns``.
    remedy : str

    Raises
    ------
    SizeError
        Names the place, the number and the limit.
    """
    if count > most:
        raise SizeError(f"{place}: {count:,} {what}, the limit is {most:,}", remedy)


def allow_expansion(place: object, expanded: int, size: int) -> None:
    """Refuse a container of `size` bytes that holds out of proportion many.

    Raises
    ------
    SizeError
    """
    most = max(EXPANDED_BYTES, EXPANDED_TIMES * size)
    allow(place, expanded, most, f"bytes out of {size:,}", "If that is right, decompress the file yourself.")


def allow_members(place: object, members: Sequence[ZipInfo], size: int, most: int = MEMBERS) -> None:
    """Refuse a zip archive of `size` bytes whose directory lists too many members or bytes.

    Raises
    ------
    SizeError
    """
    allow_expansion(place, sum(info.file_size for info in members), size)
    allow(place, len(members), most, "files in one archive", "Unpack what is needed of it.")
