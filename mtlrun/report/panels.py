"""Figures as plain data: what `mtlrun.report.figures` draws and the other modules of the report make."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Bytes of the name of a file, its ending left out.
LONGEST_NAME = 200
#: Where they lie in the folder of a run.
FIGURES = "figures"


@dataclass
class Curve:
    """One method in a panel.

    Attributes
    ----------
    label : str
    x : list
        Numbers, or values of the axis of a sweep.
    y : list of float
    spread : list of float
        Half length of the error bars; empty for none.
    low, high : list of float
        Band around the curve; empty for none.
    place : int or None
        Number of the colour and marker; None: the place of the curve in its panel.
    published : bool
        Read from the paper and not computed here: drawn thin, pale and dashed.
    """

    label: str
    x: list[Any] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    place: int | None = None
    published: bool = False


@dataclass
class Panel:
    """Curves over one pair of axes.

    Attributes
    ----------
    quantity : str
        Label of the vertical axis.
    log : bool
        Whether that axis is logarithmic.
    curves : list of Curve
        In the order of the methods, empty ones included, so that a method has one colour in all panels.
    axis : str or None
        Label of the horizontal axis; None: that of the figure.
    x_log : bool or None
        Whether the horizontal axis is logarithmic; None: as the figure says.
    marks : dict of str to float
        Vertical lines with their text.
    title : str
    """

    quantity: str
    log: bool
    curves: list[Curve]
    axis: str | None = None
    x_log: bool | None = None
    marks: dict[str, float] = field(default_factory=dict)
    title: str = ""


@dataclass
class HeatMap:
    """A matrix as colours.

    Attributes
    ----------
    title : str
    values : list of list of float
    rows, columns : list of str
    centre : float or None
        Value in the middle of a diverging colour map; None: a sequential one.
    """

    title: str
    values: list[list[float]]
    rows: list[str]
    columns: list[str]
    centre: float | None = None

    @property
    def quantity(self) -> str:
        """What the panel shows."""
        return self.title


@dataclass
class Figure:
    """Panels of one data set, in one file.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title : str
    axis : str
        Label of the horizontal axes of panels that have none of their own.
    values : list
        Values of that axis, in order; empty when its values are those of the curves.
    log : bool
        Whether that axis is logarithmic.
    panels : sequence of Panel and HeatMap
    """

    name: str
    title: str
    axis: str
    values: list[Any]
    log: bool
    panels: Sequence[Panel | HeatMap]

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        shown = ", ".join(dict.fromkeys(panel.quantity for panel in self.panels))
        axes = dict.fromkeys(p.axis or self.axis for p in self.panels if isinstance(p, Panel))
        return f"{self.title}: {shown}" + f" against {', '.join(axes)}" * bool(axes)


@dataclass
class Ranks:
    """A critical-difference diagram: average ranks, and bars over methods that Nemenyi's test does not tell apart.

    Attributes
    ----------
    name, title : str
    methods : list of str
    values : list of list of float
        A row per data set (or split), a column per method.
    better : bool
        Whether greater values are better.
    """

    name: str
    title: str
    methods: list[str]
    values: list[list[float]]
    better: bool

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        return f"Average ranks by {self.title} (1 is best); bars: not told apart by Nemenyi's test at 0.05"


def file_name(*parts: str) -> str:
    """Return the name of a figure's file: letters, digits, ``-`` and ``_``; a long one ends with a digest."""
    name = "-".join("".join(c if c.isalnum() or c in "-_" else "-" for c in part) for part in parts)
    return (
        name if len(name.encode()) <= LONGEST_NAME else f"{name[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    )


def drop_impossible(curve: Curve, x_log: bool, y_log: bool) -> Curve:
    """Return a curve without the points that the axes cannot show: gaps, and what is not positive on a log axis."""

    def shown(value: Any, log: bool) -> bool:
        number = isinstance(value, int | float)
        return value is not None and (not number or (value == value and (not log or value > 0)))

    keep = [i for i, (x, y) in enumerate(zip(curve.x, curve.y, strict=True)) if shown(x, x_log) and shown(y, y_log)]

    def kept(values: list[Any]) -> list[Any]:
        return [values[i] for i in keep] if values else []

    parts = (kept(curve.x), kept(curve.y), kept(curve.spread), kept(curve.low), kept(curve.high))
    return Curve(curve.label, *parts, curve.place, curve.published)


def are_numbers(values: Iterable[Any]) -> bool:
    """Tell whether all values are numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
