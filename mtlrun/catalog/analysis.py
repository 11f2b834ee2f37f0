"""Analyses: their declarations and results, and the printed tables of papers.

An analysis is a function ``f(dataset, *, seed, **params) -> AnalysisResult``, of mtlrun
or of the user, which a job calls instead of fitting and scoring a method.

Printed tables are CSV files next to the experiments, which references and audits read.
The first columns identify a row (``data set``, ``task`` and others); each other column
is a method or a quantity. A cell is the text as printed: ``84.51``, ``.9882±.0196``,
``84.51 (7)`` with a rank in parentheses, or ``-``.

This module needs only the standard library.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from mtlrun.errors import ConfigError
from mtlrun.estimators.declarations import ANALYSES
from mtlrun.utils.io import read_text_file
from mtlrun.utils.options import with_fields

Function = TypeVar("Function", bound=Callable[..., "AnalysisResult"])


@dataclass
class Curve:
    """Curve of a figure.

    Attributes
    ----------
    x, y : list of float
        Coordinates, of the same length.
    x_label, y_label : str
        Labels of the axes, with units.
    log : {"", "x", "y", "xy"}
        Logarithmic axes.
    marks : dict of str to float
        Text and position x of vertical lines.
    """

    x: list[float]
    y: list[Any]
    x_label: str
    y_label: str
    log: Literal["", "x", "y", "xy"] = ""
    marks: dict[str, float] = field(default_factory=dict)


@dataclass
class Matrix:
    """Heat map.

    Attributes
    ----------
    values : list of list of float
        Row by row.
    rows, columns : list of str
        Names.
    centre : float or None
        Value at the center of a diverging color map; None: a sequential color map.
    """

    values: list[list[Any]]
    rows: list[str]
    columns: list[str]
    centre: float | None = None


@dataclass
class MethodScores:
    """Scores of methods, which a critical-difference diagram ranks within blocks.

    Attributes
    ----------
    label : str
        Description of the blocks.
    values : list of list of float
        A row per block and a column per method, without missing values.
    blocks, methods : list of str
        Names.
    quantity : str
        Description of the scores.
    greater : bool, default False
        Whether greater scores are better.
    """

    label: str
    values: list[list[float]]
    blocks: list[str]
    methods: list[str]
    quantity: str
    greater: bool = False


@dataclass
class AnalysisResult:
    """Result of an analysis.

    Attributes
    ----------
    values : dict of str to float
        Numbers by quantity; NaN if undefined. The quantities must be declared if the
        analysis has a declaration.
    curves : dict of str to Curve
    matrices : dict of str to Matrix
    rankings : list of MethodScores
        In the order of the figure.
    lines : list of str
        Sentences for the report.
    tables : dict of str to dict
        Title -> ``{"columns": [...], "rows": [[...], ...]}``.
    solver : dict
        ``n_iter``, ``converged``, ``gap`` and ``objective``, if available.
    per_task : dict of str to list of float or None
    """

    values: dict[str, float]
    curves: dict[str, Curve] = field(default_factory=dict)
    matrices: dict[str, Matrix] = field(default_factory=dict)
    rankings: list[MethodScores] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    solver: dict[str, Any] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Declaration:
    """Declaration of an analysis.

    In names of quantities, ``*`` matches any text.

    Attributes
    ----------
    quantities : dict of str to str
        Name of each quantity that the analysis can return -> description, with unit.
    lower, higher : sequence of str
        Quantities whose lower or higher values are better. For others neither is.
    needs_data : bool, default True
        False for analyses of published numbers.
    changes : sequence of str
        Reason of each change of the results. The version of the analysis is one more
        than their number.
    digits : int, default 6
        Number of significant digits to which a repetition elsewhere must agree.
    varies : sequence of str
        Quantities that need not agree in a repetition: times, memory, and rounding
        errors that remain at the end of a run.
    differences : sequence of str
        Differences of shares, whose digits are counted from the decimal point on. A
        difference near 0 may change completely if the prediction of one row changes.
    name : str, default ""
        Name in experiment files; only for analyses of mtlrun, which `make generated`
        lists. Files name others by their path.
    labels : dict of str to str
        Quantity -> its words in tables and figures, if its name with spaces in place of
        underscores is not clear enough. Only for analyses of mtlrun.

    Raises
    ------
    TypeError, ValueError
        If `quantities` is not a dict, or another attribute names a quantity that is not
        in it.
    """

    quantities: Mapping[str, str]
    _: KW_ONLY
    lower: Sequence[str] = ()
    higher: Sequence[str] = ()
    needs_data: bool = True
    changes: Sequence[str] = ()
    digits: int = 6
    varies: Sequence[str] = ()
    differences: Sequence[str] = ()
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.quantities, dict):
            raise TypeError(
                "the quantities of a measure must be a dict of names to texts"
            )
        patterns = (*self.lower, *self.higher, *self.varies, *self.differences)
        for pattern in (*patterns, *self.labels):
            if not fnmatch.filter(self.quantities, pattern):
                raise ValueError(
                    f"{pattern!r} is not among the quantities of the measure"
                )

    def plain(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        return {
            "quantities": self.quantities,
            "name": self.name,
            "labels": self.labels,
            "lower": list(self.lower),
            "higher": list(self.higher),
            "needs_data": self.needs_data,
            "changes": list(self.changes),
            "digits": self.digits,
            "varies": list(self.varies),
            "differences": list(self.differences),
        }

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the description and the direction of each quantity.

        Returns
        -------
        dict
            Name -> ``{"text", "greater_is_better"}``; the latter is None if neither
            direction is better.
        """
        greater_is_better: dict[str, bool] = {}
        for patterns, is_greater in ((self.lower, False), (self.higher, True)):
            for pattern in patterns:
                for name in fnmatch.filter(self.quantities, pattern):
                    greater_is_better[name] = is_greater
        quantities = {}
        for name, text in self.quantities.items():
            direction = greater_is_better.get(name)
            quantities[name] = {"text": text, "greater_is_better": direction}
        return quantities


@with_fields(Declaration)
def analysis(declaration: Declaration) -> Callable[[Function], Function]:
    """Declare the results of an analysis; a decorator with the fields of `Declaration`.

    A function without a declaration may return any quantities.
    """

    def declare(function: Function) -> Function:
        function.declaration = declaration  # type: ignore[attr-defined]
        return function

    return declare


#: Path of an analysis of mtlrun -> its name.
_NAMES = {path: name for name, path in ANALYSES.items()}


def analysis_path(name: str) -> str:
    """Return ``package.module:function`` of an analysis, given its name or this
    path.
    """
    return ANALYSES.get(name, name)


def analysis_name(path: str) -> str:
    """Return the name of an analysis of mtlrun, given its path; otherwise the path.

    The name stays the same if the function moves to another module.
    """
    return _NAMES.get(path, path)


# ---------------------------------------------------------------- printed tables

#: Columns that identify a row, apart from the axis of a sweep.
KEYS = ("data set", "task", "quantity")
MISSING = ("", "-", "–")
_DIGITS = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]-?\d+)?"
_NUMBER = re.compile(
    rf"(?P<value>{_DIGITS})(?:\s*±\s*(?P<std>{_DIGITS}))?(?:\s*\((?P<rank>{_DIGITS})\))?"
)
_HINT = (
    "write numbers as printed, such as 84.51, .9882±.0196 or 84.51 (7), and - where "
    "there is none, as csv in UTF-8"
)


@dataclass(frozen=True)
class Printed:
    """Number in a printed table.

    Attributes
    ----------
    where : dict of str to str
        Cells that identify its row, by the names of their columns.
    head : str
        Name of its column.
    value : Decimal
    std, rank : Decimal or None
    """

    where: dict[str, str]
    head: str
    value: Decimal
    std: Decimal | None = None
    rank: Decimal | None = None

    @property
    def dataset(self) -> str:
        """Data set of its row; empty if no column names it."""
        return self.where.get("data set", "")

    @property
    def quantity(self) -> str:
        """Quantity of its row; empty if no column names it."""
        return self.where.get("quantity", "")

    @property
    def task(self) -> str:
        """Task of its row; empty if no column names it."""
        return self.where.get("task", "")

    @property
    def decimals(self) -> int:
        """Number of printed digits after the decimal point."""
        return max(0, -int(self.value.as_tuple().exponent))


def read_printed(path: Path, name: str, keys: Collection[str] = KEYS) -> list[Printed]:
    """Read a printed table row by row, without empty cells.

    Parameters
    ----------
    path : Path
    name : str
        Name of the file in messages.
    keys : collection of str
        Columns that identify a row.

    Raises
    ------
    ConfigError
        If the file cannot be read, or if cells are invalid: with ``file:line`` and the
        column of each of them.
    """
    # Numbers and cells of the lines that are not empty.
    lines: list[tuple[int, list[str]]] = []
    try:
        text = io.StringIO(read_text_file(path, encoding="utf-8-sig"))
        reader = csv.reader(text, strict=True, skipinitialspace=True)
        for row in filter(None, reader):
            lines.append((reader.line_num, [cell.strip() for cell in row]))
    except OSError as error:
        raise ConfigError(
            f"{name}: cannot be read: {error.strerror or error}"
        ) from None
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{name}: cannot be read: {error}", _HINT) from None
    heads: list[str] = []
    if lines:
        _, heads = lines[0]
    names = set(heads)
    has_distinct_names = len(names) == len(heads) and "" not in names
    if not has_distinct_names or names.isdisjoint(keys):
        requirement = f"columns of different names, some of them of {', '.join(keys)}"
        raise ConfigError(
            f"{name}:1: the first line must name the columns: {requirement}", _HINT
        )
    problems: list[str] = []
    numbers = []
    for line_number, cells in lines[1:]:
        line = f"{name}:{line_number}"
        if len(cells) != len(heads):
            problems.append(
                f"{line}: {len(cells)} cells, but the first line names "
                f"{len(heads)} columns"
            )
            continue
        cell_by_head = dict(zip(heads, cells, strict=True))
        where = {head: cell_by_head.pop(head) for head in heads if head in keys}
        for head, cell in cell_by_head.items():
            if cell in MISSING:
                continue
            match = _NUMBER.fullmatch(cell)
            if match is None:
                problems.append(f"{line}: column {head!r}: {cell!r} is not a number")
                continue
            parts = {}
            for part, digits in match.groupdict().items():
                if digits is not None:
                    parts[part] = Decimal(digits)
            numbers.append(Printed(where, head, **parts))
    if problems:
        raise ConfigError("\n".join(problems), _HINT)
    return numbers


def of_data_set(table: list[Printed], name: str) -> Iterator[Printed]:
    """Yield the numbers of one data set."""
    return (number for number in table if number.dataset == name)
