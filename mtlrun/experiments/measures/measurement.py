"""What a measure returns. Plain data: it goes into the record of its cell as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


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


@dataclass
class Measurement:
    """What a measure returns.

    Attributes
    ----------
    values : dict of str to float
        Quantity -> number, NaN where undefined; the quantities are those of the registry.
    curves : dict of str to Curve
    matrices : dict of str to Matrix
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
    lines: list[str] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    solver: dict[str, Any] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
