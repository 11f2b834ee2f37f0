"""Numbers written as text, and numbers used as names."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence

#: Up to here, floats represent every integer exactly.
EXACT_INTEGERS = 2.0**53
#: A number of this many digits exceeds every index.
_DIGITS = 18

#: A number with a decimal comma, groups of thousands, a currency or a percent sign.
_MARK = "[%‰°]|[^\\W\\d_]{0,3}[$€£¥₹₽]|[A-Z]{3}|Fr\\.?|kr\\.?|zł|Kč"
_AMOUNT = r"(?:\d{1,3}(?:[\s,.'’_]\d{3})+|\d+)(?:[.,]\d+)?(?:[eE][-+]?\d+)?"
#: Times and durations, such as 12:30 and 1 days 00:00:30.5.
_TIME = r"[-+−]?(?:\d+ days?,? )?[-+]?\d{1,3}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_WRITTEN_NUMBER = re.compile(rf"{_TIME}|\(?(?:{_MARK})?\s?[-+−–]?\s?(?:{_MARK})?\s?{_AMOUNT}\s?-?(?:{_MARK})?\)?")
#: The same with a unit behind it, as in 12 kg.
_WITH_UNIT = re.compile(rf"[-+−–]?\s?{_AMOUNT}\s*(?P<unit>[^\W\d_].{{0,11}})")


def is_number(text: str) -> bool:
    """Whether a text is a finite number; Python's 1_000 and digits of other scripts do not count."""
    try:
        return text.isascii() and "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def number_name(value: float) -> str:
    """Return a number that names something (a task, a class, a category) as text: ``7`` for 7.0, all digits kept."""
    return f"{value + 0.0:.0f}" if abs(value) < EXACT_INTEGERS and value == int(value) else str(float(value))


def whole(digits: str) -> int:
    """Return the integer that a text of digits stands for; Python itself converts a few thousand digits at most."""
    return int(digits) if len(digits) < _DIGITS else sys.maxsize


def written_numbers(names: Sequence[str], many: int) -> bool:
    """Whether names are numbers with marks, such as 1 234,5 or $3, or more than so many numbers with one unit."""
    if all(map(_WRITTEN_NUMBER.fullmatch, names)):
        return True
    units = [_WITH_UNIT.fullmatch(name) for name in names] if len(names) > many else [None]
    return None not in units and len({unit["unit"] for unit in units if unit is not None}) == 1
