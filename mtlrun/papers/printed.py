"""Tables as papers print them, in csv files beside the experiments: references and audits read the same file.

The first columns say where a row stands (``data set``, ``task`` ...); every other column is a method or a quantity. A
cell is text as printed: ``84.51``, ``.9882±.0196``, ``84.51 (7)`` with a rank in brackets, or ``-``. Imports no
third-party package.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from mtlrun.errors import ConfigError

#: Columns that say where a row stands, beside the axis of a sweep.
KEYS = ("data set", "task", "quantity")
MISSING = ("", "-", "–")
_DIGITS = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]-?\d+)?"
_NUMBER = re.compile(rf"(?P<value>{_DIGITS})(?:\s*±\s*(?P<std>{_DIGITS}))?(?:\s*\((?P<rank>{_DIGITS})\))?")
_CELL = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",]*?))\s*(,|$)')
_HINT = "write a number as printed, such as 84.51, .9882±.0196 or 84.51 (7), and - where there is none"
MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Printed:
    """One printed number.

    Attributes
    ----------
    where : dict of str to str
        Cells of the first columns of its row, by their heads.
    head : str
        Of its own column.
    value : Decimal
    std, rank : Decimal or None
    """

    where: dict[str, str]
    head: str
    value: Decimal
    std: Decimal | None = None
    rank: Decimal | None = None

    @property
    def decimals(self) -> int:
        """Digits after the decimal point, as printed."""
        return max(0, -int(self.value.as_tuple().exponent))


def read_printed(path: Path, name: str, keys: Collection[str] = KEYS) -> list[Printed]:
    """Read a printed table row by row; cells without a number are left out.

    Parameters
    ----------
    path : Path
    name : str
        How messages call the file.
    keys : collection of str
        Columns that say where a row stands.

    Raises
    ------
    ConfigError
        If the file cannot be read; or with ``file:line:column`` of every cell that is not as it should be.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot be read: {error}", "Printed tables are csv files in UTF-8.") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{name}: more than {MAX_BYTES} bytes, which is the limit of a printed table")
    problems: list[str] = []
    rows = [(n, _cells(line, f"{name}:{n}", problems)) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    heads = [head for _, head in rows[0][1]] if rows else []
    if not any(head in keys for head in heads) or len(set(heads)) < len(heads) or "" in heads:
        wanted = f"columns of different names, some of them of {', '.join(keys)}"
        problems.insert(0, f"{name}:1:1: the first line must name the columns: {wanted}")
    found = []
    for n, cells in rows[1:] if not problems else ():
        if len(cells) != len(heads):
            problems.append(f"{name}:{n}:1: {len(cells)} cells, but the first line names {len(heads)} columns")
            continue
        where = {head: text for head, (_, text) in zip(heads, cells, strict=True) if head in keys}
        for head, (column, cell) in zip(heads, cells, strict=True):
            if head in keys or cell in MISSING:
                continue
            match = _NUMBER.fullmatch(cell)
            if match is None:
                problems.append(f"{name}:{n}:{column}: {cell!r} is not a number")
            else:
                std, rank = (None if part is None else Decimal(part) for part in match.group("std", "rank"))
                found.append(Printed(where, head, Decimal(match["value"]), std, rank))
    if problems:
        raise ConfigError("\n".join(problems), _HINT)
    return found


def _cells(line: str, place: str, problems: list[str]) -> list[tuple[int, str]]:
    """Return the cells of a line, each with its column from 1."""
    cells: list[tuple[int, str]] = []
    start = 0
    while (match := _CELL.match(line, start)) is not None:
        quoted, plain, end = match.groups()
        group = 2 if quoted is None else 1
        cells.append((match.start(group) + 1, plain if quoted is None else quoted.replace('""', '"')))
        start = match.end()
        if not end:
            return cells
    problems.append(f"{place}:{start + 1}: a quoted cell does not end, or text follows it")
    return cells


def of_data_set(table: list[Printed], name: str) -> Iterator[Printed]:
    """Yield the numbers of one data set."""
    return (number for number in table if number.where.get("data set") == name)
