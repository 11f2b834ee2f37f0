"""Untrusted text made safe to display. Standard library only.

Control characters can rewrite what a terminal shows, and direction marks change the order in which text is read: names
and messages come from files of other people.
"""

from __future__ import annotations

import re
from typing import Any

#: C0 and C1 controls without tab and line feed, separators of lines and paragraphs, marks of direction, surrogates.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def sanitize(text: str) -> str:
    """Return a text with its control characters and direction marks escaped: ``\\x1b``, ``\\u202e``."""
    return _HIDDEN.sub(lambda found: _written(found[0]), text)


def hidden(text: str) -> str | None:
    """Return the first character that `sanitize` would escape, escaped, or None."""
    found = _HIDDEN.search(text)
    return None if found is None else _written(found[0])


def cleaned(value: Any) -> Any:
    """Return plain data (of a JSON file) with `sanitize` texts."""
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {sanitize(str(key)): cleaned(item) for key, item in value.items()}
    return value


def table_text(text: str) -> str:
    """Return a text as a CSV cell that spreadsheets do not interpret as a formula; numbers are unchanged."""
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
