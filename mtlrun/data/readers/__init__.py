"""Parsers of file formats, one per module; see `mtlrun.data.cards` for the protocol."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mtlrun.errors import UnknownNameError

if TYPE_CHECKING:
    from mtlrun.data.cards import Card
    from mtlrun.data.files import DataFile

#: So many digits are beyond every index.
_DIGITS = 18
#: Below this, floats hold every whole number.
WHOLE = 2.0**53


def file_called(files: Mapping[str, DataFile], name: str, card: Card) -> DataFile:
    """Return the file that an option names.

    Raises
    ------
    UnknownNameError
        If the card, or the variant, has no file of that name.
    """
    if name not in files:
        raise UnknownNameError(f"file of {card.id}", name, files)
    return files[name]


def is_number(text: str) -> bool:
    """Whether a text is a finite number; Python's own 1_000 and digits of other scripts are none."""
    try:
        return text.isascii() and "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def number_name(value: float) -> str:
    """Return a number that is a name (of a task, a class, a category) as text: ``7`` for 7.0, no digit left out."""
    return f"{value + 0.0:.0f}" if abs(value) < WHOLE and value == int(value) else str(float(value))


def whole(digits: str) -> int:
    """Return the whole number of a text of digits; Python itself converts at most some thousand of them."""
    return int(digits) if len(digits) < _DIGITS else sys.maxsize
