"""Untrusted text made safe to display, names in tables, and command lines of old files.

Standard library only.

Control characters can rewrite what a terminal shows, and direction marks change the
order in which text is read: names and messages come from files of other people.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: C0 and C1 controls without tab and line feed, separators of lines and paragraphs,
#: marks of direction, surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: Suffixes to remove from the names of files, with suffixes of compression at the very
#: end.
_ENDINGS = re.compile(
    r"\.(csv|tsv|txt|parquet|xlsx|arff|mat|svm|svmlight|libsvm|npz|fa|fasta|xml|ya?ml|json)?(\.(gz|bz2|xz))?$",
    re.I,
)
#: Characters of a name, at most: with an ending it must stay below 255 bytes.
_LONGEST_NAME = 48


def sanitize(text: str) -> str:
    """Return a text with its control characters and direction marks escaped:
    ``\\x1b``, ``\\u202e``.
    """
    # No character that is hidden is printable; most texts are.
    if text.isprintable():
        return text
    return _HIDDEN.sub(lambda match: _written(match[0]), text)


def hidden(text: str) -> str | None:
    """Return the first character that `sanitize` would escape, escaped, or None."""
    match = _HIDDEN.search(text)
    if match is None:
        return None
    return _written(match[0])


def stem_of(file: str | Path) -> str:
    """Return the name of a file without its folder and the endings of format and
    compression: ``sales.2023``. A sheet of a workbook is called ``book-Visits``.
    """
    name = Path(file).name
    book, mark, sheet = name.rpartition(".xlsx#")
    if mark:
        return f"{book}-{sheet}"
    return _ENDINGS.sub("", name) or name


def folder_name(name: str) -> str:
    """Return what a folder for a name is called: letters of all scripts, digits, dots,
    ``-`` and ``_`` stay.

    Where that is another text, some digits of a hash follow: different names have
    different folders.
    """
    text = unicodedata.normalize("NFC", name)
    return _marked(re.sub(r"[^\w.]+", "-", text).strip("-."), name)


def id_of(name: str) -> str:
    """Return a name as an id of small Latin letters, digits, ``-`` and ``_``; see
    `folder_name` for what is lost.
    """
    return _marked(re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_"), name)


def _marked(text: str, name: str) -> str:
    if text == name and len(text) <= _LONGEST_NAME:
        return text
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{text[:_LONGEST_NAME]}-{mark}".lstrip("-")


def cleaned(value: Any) -> Any:
    """Return plain data (of a JSON file) with `sanitize` texts."""
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, list):
        # Long lists hold numbers, for which a call per item would be slow.
        if all(type(item) is float for item in value):
            return list(value)
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {sanitize(str(key)): cleaned(item) for key, item in value.items()}
    return value


def table_text(text: str) -> str:
    """Return a text as a CSV cell that spreadsheets do not interpret as a formula;
    numbers are unchanged.
    """
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _written(character: str) -> str:
    code = ord(character)
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}"


#: Blanks other than the space that look like one: no-break, figure, narrow no-break.
_BLANKS = str.maketrans("\u00a0\u2007\u202f", "   ")


#: Characters at the ends of a name that nobody sees: zero-width space, byte order mark.
_INVISIBLE = "\u200b\ufeff"


#: Line breaks inside a name, with the blanks around them.
_BREAK = re.compile(r"\s*[\r\n]+\s*")


def normalized(text: str) -> str:
    """Return a name without blanks at its ends and in Unicode normal form NFC.

    No-break spaces count as spaces. Names of columns, tasks, groups, categories and
    labels all go through this function, so that names that look alike are equal.
    """
    if text.isascii():
        return text.strip()
    plain = text.translate(_BLANKS)
    return unicodedata.normalize("NFC", plain.strip().strip(_INVISIBLE).strip())


def column_name(name: Any) -> str:
    """Return the name of a column in one line, normalized as all names are."""
    return normalized(_BREAK.sub(" ", str(name)))


def several(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names of columns as tables have them; a text is the name of one column."""
    if names is None:
        return ()
    if isinstance(names, str):
        return (column_name(names),)
    return tuple(map(column_name, names))
