"""Numbers written as text, and numbers used as names."""

from __future__ import annotations

import math
import sys

#: Up to here, floats represent every integer exactly.
EXACT_INTEGERS = 2.0**53
#: A number of this many digits exceeds every index.
_DIGITS = 18


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
