"""What a measure declares and returns, and the tables as papers print them. Imports no third-party package.

A measure is a function ``f(dataset, *, seed, **params) -> AnalysisResult`` of this package or of the user's, which a cell
calls instead of fitting and scoring.

Printed tables are csv files beside the experiments: references and audits read the same file. The first columns say
where a row stands (``data set``, ``task`` ...); every other column is a method or a quantity. A cell is text as
printed: ``84.51``, ``.9882±.0196``, ``84.51 (7)`` with a rank in brackets, or ``-``.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from mtlrun.errors import ConfigError
from mtlrun.utils.io import configs_dir, read_text_file

Function = TypeVar("Function", bound=Callable[..., "AnalysisResult"])

#: Short names of measures in experiment files, in alphabetical order.
ANALYSES = {
    "atlas-gain": "mtlrun.lab.papers.atlas.gain:gain",
    "atlas-methods": "mtlrun.lab.papers.atlas.analyses:methods",
    "atlas-prediction": "mtlrun.lab.papers.atlas.analyses:prediction",
    "atlas-summary": "mtlrun.lab.papers.atlas.analyses:summary",
    "data-set-statistics": "mtlrun.lab.papers.dcrmtl:data_set_statistics",
    "dcrmtl-constraint": "mtlrun.lab.papers.dcrmtl:equality_constraint",
    "fetr-audit": "mtlrun.lab.papers.fetr.analyses:audit_table",
    "fetr-convergence": "mtlrun.lab.papers.fetr.seconds:fetr_convergence",
    "fetr-covariances": "mtlrun.lab.papers.fetr.analyses:fetr_covariances",
    "fetr-learning-curve": "mtlrun.lab.papers.fetr.analyses:learning_curve",
    "fetr-theory": "mtlrun.lab.papers.fetr.theory:fetr_theory",
    "fetr-w-step": "mtlrun.lab.papers.fetr.seconds:w_step_seconds",
    "mtmkl-algorithm": "mtlrun.lab.papers.mtmkl.protocols:algorithm",
    "mtmkl-audit": "mtlrun.lab.papers.mtmkl.audit:table_audit",
    "mtmkl-consensus": "mtlrun.lab.papers.mtmkl.protocols:algorithm_2",
    "mtmkl-protocols": "mtlrun.lab.papers.mtmkl.protocols:protocols",
    "mtmkl-repaired": "mtlrun.lab.papers.mtmkl.protocols:repaired",
    "mtmkl-sharing": "mtlrun.lab.papers.mtmkl.protocols:sharing",
    "mtmkl-theorem-1": "mtlrun.lab.papers.mtmkl.protocols:theorem_1",
    "mtmkl-together": "mtlrun.lab.papers.mtmkl.protocols:tasks_together",
    "mtmkl-weights": "mtlrun.lab.papers.mtmkl.protocols:kernel_weights",
    "svm-audit": "mtlrun.lab.papers.mtsvm.analyses:stored_runs",
    "svm-convergence": "mtlrun.lab.papers.mtsvm.analyses:svm_convergence",
    "svm-scaling": "mtlrun.lab.papers.mtsvm.analyses:svm_scaling",
    "svm-seconds": "mtlrun.lab.papers.mtsvm.analyses:svm_seconds",
    "svm-statistics": "mtlrun.lab.papers.mtsvm.analyses:svm_statistics",
    "svm-transfer": "mtlrun.lab.papers.mtsvm.analyses:svm_transfer",
}


@dataclass
class Curve:
    """One curve of a figure.

    Attributes
    ----------
    x, y : list of float
        Of one length.
    x_label, y_label : str
        Of the axes, with units.
    log : {"", "x", "y", "xy"}
        Logarithmic axes.
    marks : dict of str to float
        Vertical lines with their text, at these x.
    """

    x: list[float]
    y: list[float]
    x_label: str
    y_label: str
    log: Literal["", "x", "y", "xy"] = ""
    marks: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of a record."""
        return {
            "x": self.x,
            "y": self.y,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "log": self.log,
            "marks": self.marks,
        }


@dataclass
class Matrix:
    """A heat map.

    Attributes
    ----------
    values : list of list of float
        Row by row.
    rows, columns : list of str
        Names.
    centre : float or None
        Value at the middle of a diverging colour map; None: a sequential one.
    """

    values: list[list[float]]
    rows: list[str]
    columns: list[str]
    centre: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of a record."""
        return {
            "values": self.values,
            "rows": self.rows,
            "columns": self.columns,
            "centre": self.centre,
        }


@dataclass
class MethodScores:
    """Numbers of methods, to be ranked within blocks: a critical-difference diagram.

    Attributes
    ----------
    label : str
        What the blocks are.
    values : list of list of float
        A row per block, a column per method; none is missing.
    blocks, methods : list of str
        Names.
    quantity : str
        What the numbers are.
    greater : bool, default False
        Whether greater numbers are better.
    """

    label: str
    values: list[list[float]]
    blocks: list[str]
    methods: list[str]
    quantity: str
    greater: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of a record."""
        return {
            "label": self.label,
            "values": self.values,
            "blocks": self.blocks,
            "methods": self.methods,
            "quantity": self.quantity,
            "greater": self.greater,
        }


@dataclass
class AnalysisResult:
    """What a measure returns.

    Attributes
    ----------
    values : dict of str to float
        Quantity -> number, NaN where undefined; none that the measure does not declare, if it declares any.
    curves : dict of str to Curve
    matrices : dict of str to Matrix
    rankings : list of MethodScores
        In the order of the figure.
    lines : list of str
        Sentences for the report.
    tables : dict of str to dict
        Title -> ``{"columns": [...], "rows": [[...], ...]}``.
    solver : dict
        ``n_iter, converged, gap, objective``, as far as known.
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
    """What a measure says of itself.

    Attributes
    ----------
    quantities : dict of str to str
        Name of everything that it can return -> what that is, with its unit.
    lower, higher : sequence of str
        Quantities of which lower or higher values are better; of the others neither are. ``*`` stands for any text.
    needs_data : bool, default True
        False for measures of published numbers.
    changes : sequence of str
        Why the numbers of the measure changed, a line for each time: its version is one more than their number.
    digits : int, default 6
        Decimal digits to which a measurement that is repeated elsewhere must agree.
    varies : sequence of str
        Quantities of clocks and of memory, and those that are the rounding left at the end of a run: they need not
        agree at all. ``*`` stands for any text.
    differences : sequence of str
        Quantities that are differences of shares: their digits count from the point on. Relative to themselves, one
        row that changes sides would leave no digit of a difference near 0.

    Raises
    ------
    TypeError, ValueError
        If the quantities are no such dict, or `lower` or `higher` names another.
    """

    quantities: Mapping[str, str]
    lower: Sequence[str] = ()
    higher: Sequence[str] = ()
    needs_data: bool = True
    changes: Sequence[str] = ()
    digits: int = 6
    varies: Sequence[str] = ()
    differences: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.quantities, dict):
            raise TypeError(
                "the quantities of a measure must be a dict of names to texts"
            )
        for pattern in (*self.lower, *self.higher, *self.varies, *self.differences):
            if not fnmatch.filter(self.quantities, pattern):
                raise ValueError(
                    f"{pattern!r} is not among the quantities of the measure"
                )

    def plain(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        return {
            "quantities": self.quantities,
            "lower": list(self.lower),
            "higher": list(self.higher),
            "needs_data": self.needs_data,
            "changes": list(self.changes),
            "digits": self.digits,
            "varies": list(self.varies),
            "differences": list(self.differences),
        }

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return ``{"text", "greater_is_better"}`` by quantity, the latter None where neither is better."""
        better: dict[str, bool] = {}
        for patterns, greater in ((self.lower, False), (self.higher, True)):
            for pattern in patterns:
                better |= dict.fromkeys(
                    fnmatch.filter(self.quantities, pattern), greater
                )
        return {
            name: {"text": text, "greater_is_better": better.get(name)}
            for name, text in self.quantities.items()
        }


def analysis(
    quantities: Mapping[str, str],
    *,
    lower: Sequence[str] = (),
    higher: Sequence[str] = (),
    needs_data: bool = True,
    changes: Sequence[str] = (),
    digits: int = 6,
    varies: Sequence[str] = (),
    differences: Sequence[str] = (),
) -> Callable[[Function], Function]:
    """Declare what the function below returns; see `Declaration` for the parameters.

    A function without a declaration may return any quantities.
    """
    declaration = Declaration(
        quantities,
        lower=lower,
        higher=higher,
        needs_data=needs_data,
        changes=changes,
        digits=digits,
        varies=varies,
        differences=differences,
    )

    def declare(function: Function) -> Function:
        function.declaration = declaration  # type: ignore[attr-defined]
        return function

    return declare


def analysis_path(name: str) -> str:
    """Return ``package.module:function`` of a measure that is given by its short name or as such a path."""
    return ANALYSES.get(name, name)


def analysis_name(path: str) -> str:
    """Return the short name that stands for a measure wherever its module is; other texts as they are."""
    return next((name for name, known in ANALYSES.items() if known == path), path)


def published_path(name: str) -> Path:
    """Return a file of published numbers, named from the folder of the experiments on.

    Raises
    ------
    ConfigError
        If there is no such file.
    """
    path = configs_dir() / name
    if not path.is_file():
        raise ConfigError(
            f"no file of published numbers {name!r}",
            "It is named below configs/, with its ending.",
        )
    return path


# ---------------------------------------------------------------------- printed tables

#: Columns that say where a row stands, beside the axis of a sweep.
KEYS = ("data set", "task", "quantity")
MISSING = ("", "-", "–")
_DIGITS = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]-?\d+)?"
_NUMBER = re.compile(
    rf"(?P<value>{_DIGITS})(?:\s*±\s*(?P<std>{_DIGITS}))?(?:\s*\((?P<rank>{_DIGITS})\))?"
)
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
        reader = csv.reader(
            io.StringIO(read_text_file(path, encoding="utf-8-sig")),
            strict=True,
            skipinitialspace=True,
        )
        rows = [
            (reader.line_num, [cell.strip() for cell in row]) for row in reader if row
        ]
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{name}: cannot be read: {error}", _HINT) from None
    heads = rows[0][1] if rows else []
    if not set(heads) & set(keys) or len(set(heads)) < len(heads) or "" in heads:
        wanted = f"columns of different names, some of them of {', '.join(keys)}"
        raise ConfigError(
            f"{name}:1: the first line must name the columns: {wanted}", _HINT
        )
    problems: list[str] = []
    found = []
    for n, cells in rows[1:]:
        if len(cells) != len(heads):
            problems.append(
                f"{name}:{n}: {len(cells)} cells, but the first line names {len(heads)} columns"
            )
            continue
        row = dict(zip(heads, cells, strict=True))
        where = {head: row.pop(head) for head in heads if head in keys}
        for head, cell in row.items():
            if cell in MISSING:
                continue
            match = _NUMBER.fullmatch(cell)
            if match is None:
                problems.append(
                    f"{name}:{n}: column {head!r}: {cell!r} is not a number"
                )
            else:
                std, rank = (
                    None if part is None else Decimal(part)
                    for part in match.group("std", "rank")
                )
                found.append(Printed(where, head, Decimal(match["value"]), std, rank))
    if problems:
        raise ConfigError("\n".join(problems), _HINT)
    return found


def of_data_set(table: list[Printed], name: str) -> Iterator[Printed]:
    """Yield the numbers of one data set."""
    return (number for number in table if number.where.get("data set") == name)
