"""Tables as papers print them, in csv files beside the experiments: references and audits read the same file.

The first columns say where a row stands (``data set``, ``task`` ...); every other column is a method or a quantity. A
cell is text as printed: ``84.51``, ``.9882±.0196``, ``84.51 (7)`` with a rank in brackets, or ``-``. Imports no
third-party package.
"""

from __future__ import annotations

import csv
import io
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
_HINT = "write numbers as printed, such as 84.51, .9882±.0196 or 84.51 (7), and - where there is none, as csv in UTF-8"


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
        If the file cannot be read; or with ``file:line`` and the column of every cell that is not as it should be.
    """
    try:
        reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True, skipinitialspace=True)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{name}: cannot be read: {error}", _HINT) from None
    heads = rows[0][1] if rows else []
    if not set(heads) & set(keys) or len(set(heads)) < len(heads) or "" in heads:
        wanted = f"columns of different names, some of them of {', '.join(keys)}"
        raise ConfigError(f"{name}:1: the first line must name the columns: {wanted}", _HINT)
    problems: list[str] = []
    found = []
    for n, cells in rows[1:]:
        if len(cells) != len(heads):
            problems.append(f"{name}:{n}: {len(cells)} cells, but the first line names {len(heads)} columns")
            continue
        row = dict(zip(heads, cells, strict=True))
        where = {head: row.pop(head) for head in heads if head in keys}
        for head, cell in row.items():
            if cell in MISSING:
                continue
            match = _NUMBER.fullmatch(cell)
            if match is None:
                problems.append(f"{name}:{n}: column {head!r}: {cell!r} is not a number")
            else:
                std, rank = (None if part is None else Decimal(part) for part in match.group("std", "rank"))
                found.append(Printed(where, head, Decimal(match["value"]), std, rank))
    if problems:
        raise ConfigError("\n".join(problems), _HINT)
    return found


def of_data_set(table: list[Printed], name: str) -> Iterator[Printed]:
    """Yield the numbers of one data set."""
    return (number for number in table if number.where.get("data set") == name)
