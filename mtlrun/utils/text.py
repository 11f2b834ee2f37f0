"""Texts from elsewhere, made harmless to look at. Standard library only.

Control characters can rewrite what a terminal shows, and marks of writing direction what a reader sees: names and
messages come from files of other people.
"""

from __future__ import annotations

import re
from typing import Any

#: C0 and C1 controls without tab and line feed, separators of lines and paragraphs, marks of direction, surrogates.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return a text whose control characters and marks of direction are written out: ``\\x1b``, ``\\u202e``."""
    return _HIDDEN.sub(lambda found: _written(found[0]), text)


def hidden(text: str) -> str | None:
    """Return the first character that `visible` would write out, written out, or None."""
    found = _HIDDEN.search(text)
    return None if found is None else _written(found[0])


def cleaned(value: Any) -> Any:
    """Return plain data (of a JSON file) with `visible` texts."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {visible(str(key)): cleaned(item) for key, item in value.items()}
    return value


def table_text(text: str) -> str:
    """Return a text as a cell of CSV that no spreadsheet takes for a formula; numbers stay as they are."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _written(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
