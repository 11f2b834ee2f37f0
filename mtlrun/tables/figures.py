"""Figures as plain data: curves, matrices and ranks. `drawing` draws them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from mtlrun.engine.packed import best_by_value
from mtlrun.tables.quantities import spoken
from mtlrun.tables.ranking import Ranking

#: Bytes of the name of a file without its ending.
LONGEST_NAME = 200
#: Matrices with more rows or columns are drawn without names, and matrices with more
#: columns without numbers.
MAX_NAMES = 40
MAX_NUMBERS = 10
#: An axis of values of a parameter that span this factor is logarithmic.
LOG_SPAN_PARAMETER = 50


@dataclass
class Line:
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
    points : {"", "filled"}
        Draw points without a line.
    smooth : bool
        A function at many values: drawn as a line without markers.
    background : bool
        One of many curves behind the others: drawn thin and gray, without markers.
    names : list of str
        Written next to the points, "" for no name; empty if no point has a name.
    """

    label: str
    x: list[Any] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    place: int | None = None
    published: bool = False
    points: Literal["", "filled"] = ""
    smooth: bool = False
    background: bool = False
    names: list[str] = field(default_factory=list)

    def drawable(self, x_log: bool, y_log: bool) -> Line:
        """Return the curve without the points that the axes cannot show: gaps, and nothing positive on a log axis."""

        def shown(value: object, log: bool) -> bool:
            if not isinstance(value, int | float):
                return value is not None
            # NaN is the only number that does not equal itself.
            return value == value and (not log or value > 0)

        keep = [
            i
            for i, (x, y) in enumerate(zip(self.x, self.y, strict=True))
            if shown(x, x_log) and shown(y, y_log)
        ]

        def kept(values: list[Any]) -> list[Any]:
            # Intervals are empty where a curve has none.
            return [values[i] for i in keep] if values else values

        return replace(
            self,
            x=kept(self.x),
            y=kept(self.y),
            spread=kept(self.spread),
            low=kept(self.low),
            high=kept(self.high),
            names=kept(self.names),
        )


@dataclass
class Panel:
    """Curves over one pair of axes.

    Attributes
    ----------
    quantity : str
        Label of the vertical axis.
    log : bool
        Whether that axis is logarithmic.
    curves : list of Line
        In the order of the methods, empty ones included, so that a method has one colour in all panels.
    axis : str or None
        Label of the horizontal axis; None: that of the figure.
    x_log : bool or None
        Whether the horizontal axis is logarithmic; None: as the figure says.
    marks : dict of str to float
        Vertical lines with their text.
    title : str
    diagonal : bool
        Whether both axes show the same quantity: the line of equal values is drawn.
    limits : tuple of float or None
        Ends of the vertical axis; None: those of the curves.
    x_names : list of str
        Names of the values 1, 2, ... of the horizontal axis; empty for numbers.
    """

    quantity: str
    log: bool
    curves: list[Line]
    axis: str | None = None
    x_log: bool | None = None
    marks: dict[str, float] = field(default_factory=dict)
    title: str = ""
    diagonal: bool = False
    limits: tuple[float, float] | None = None
    x_names: list[str] = field(default_factory=list)


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

    @property
    def has_numbers(self) -> bool:
        """Whether there is room for numbers in the cells."""
        return len(self.columns) <= MAX_NUMBERS and len(self.rows) <= MAX_NAMES


@dataclass
class Figure:
    """Panels of one data set, in one file.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title : str
    panels : sequence of Panel and HeatMap
    axis : str
        Label of the horizontal axes of panels that have none of their own.
    values : list
        Values of that axis, in order; empty when its values are those of the curves.
    log : bool
        Whether that axis is logarithmic.
    """

    name: str
    title: str
    panels: Sequence[Panel | HeatMap]
    axis: str = ""
    values: list[Any] = field(default_factory=list)
    log: bool = False

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        shown = ", ".join(dict.fromkeys(panel.quantity for panel in self.panels))
        axes = dict.fromkeys(
            p.axis or self.axis for p in self.panels if isinstance(p, Panel)
        )
        parts = [f"{self.title}: {shown}"]
        if axes:
            parts[0] += f" against {', '.join(axes)}"
        if any(isinstance(panel, Panel) and panel.diagonal for panel in self.panels):
            parts.append("dotted: equal numbers")
        return "; ".join(parts)


@dataclass
class RankDiagram:
    """Critical-difference diagrams: average ranks, and bars over methods that Nemenyi's test does not tell apart.

    Attributes
    ----------
    name : str
    rankings : list of Ranking
        A diagram for each, from the top.
    heading : str
        What stands above several diagrams.
    """

    name: str
    rankings: list[Ranking]
    heading: str = ""

    @property
    def title(self) -> str:
        """What is ranked, and over what."""
        return self.heading or self.title_of(self.rankings[0])

    @staticmethod
    def title_of(ranking: Ranking) -> str:
        """What is ranked in one of the diagrams, and over what."""
        return f"{spoken(ranking.metric)}, {ranking.label}"

    @property
    def caption(self) -> str:
        """What the figure shows, in one line."""
        ranked = f": {self.heading}" if self.heading else f" by {self.title}"
        return f"Average ranks{ranked} (1 is best); bars: not separated by Nemenyi's test at 0.05"


@dataclass(frozen=True)
class PublishedPair:
    """A number of a paper and ours.

    Attributes
    ----------
    label : str
        Method, or whatever distinguishes the numbers of a panel.
    published : float
        As printed, in the units of the panel.
    ours : float or None
        In the same units; None if it was not computed.
    std : float
        Standard deviation of ours; 0 if unknown.
    agrees : bool
        Whether ours is within the tolerance of the published number.
    """

    label: str
    published: float
    ours: float | None
    std: float = 0.0
    agrees: bool = False


@dataclass
class DumbbellPanel:
    """Pairs of one quantity on one horizontal axis.

    Attributes
    ----------
    title : str
    axis : str
        Quantity and unit.
    pairs : list of PublishedPair
        From the top.
    """

    title: str
    axis: str
    pairs: list[PublishedPair]

    @property
    def values(self) -> list[float]:
        """All numbers of the panel."""
        ours = [pair.ours for pair in self.pairs if pair.ours is not None]
        return [pair.published for pair in self.pairs] + ours

    @property
    def log(self) -> bool:
        """Whether the axis is logarithmic."""
        low = min(self.values)
        return low > 0 and max(self.values) >= LOG_SPAN_PARAMETER * low


@dataclass
class Dumbbell:
    """A table of a paper: each published number joined to ours, a panel per row or column.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title : str
    panels : list of DumbbellPanel
    """

    name: str
    title: str
    panels: list[DumbbellPanel]

    @property
    def pairs(self) -> list[PublishedPair]:
        """The pairs of all panels."""
        return [pair for panel in self.panels for pair in panel.pairs]

    @property
    def caption(self) -> str:
        """The content of the figure, and how many numbers agree, in one line."""
        computed = [pair for pair in self.pairs if pair.ours is not None]
        agreeing = sum(pair.agrees for pair in computed)
        text = (
            f"{self.title}: each published number (ring) joined to ours; "
            f"{agreeing} of {len(computed)} agree within tolerance (disc), "
            f"{len(computed) - agreeing} do not (diamond)"
        )
        missing = len(self.pairs) - len(computed)
        if missing:
            text += f"; {missing} not computed"
        if any(pair.std for pair in computed):
            text += "; line through ours: standard deviation"
        return text


#: Kinds of squares of a strip, in their order, with their words.
SQUARES = {
    "holds": "holds",
    "partly": "holds in part",
    "depends": "depends on the interpretation",
    "undecided": "undecided",
    "fails": "does not hold",
    "untested": "not testable here",
}


@dataclass
class StripRow:
    """The squares of one paper.

    Attributes
    ----------
    title : str
    squares : list of (str, str)
        Kind, a key of `SQUARES`, and id of each claim.
    """

    title: str
    squares: list[tuple[str, str]]

    @property
    def counts(self) -> dict[str, int]:
        """How many claims there are of each kind that occurs, in the order of `SQUARES`."""
        kinds = [kind for kind, _ in self.squares]
        return {kind: kinds.count(kind) for kind in SQUARES if kind in kinds}

    @property
    def sentence(self) -> str:
        """The counts in words."""
        parts = [f"{SQUARES[kind]}: {count}" for kind, count in self.counts.items()]
        return f"{self.title} ({', '.join(parts)})"


@dataclass
class Strip:
    """Verdicts at a glance: a line of squares per paper, one square per claim.

    Attributes
    ----------
    name, title : str
    rows : list of StripRow
    """

    name: str
    title: str
    rows: list[StripRow]

    @property
    def caption(self) -> str:
        """The content of the figure, with all counts, in one line."""
        return f"{self.title}: {'; '.join(row.sentence for row in self.rows)}"


#: The kinds of figures that `mtlrun.tables.drawing` draws.
Drawing = Figure | RankDiagram | Dumbbell | Strip


def file_name(*parts: str) -> str:
    """Return the name of a figure's file: letters, digits, ``-`` and ``_``; a long one ends with a digest."""
    name = "-".join(
        "".join(c if c.isalnum() or c in "-_" else "-" for c in part) for part in parts
    )
    if len(name.encode()) <= LONGEST_NAME:
        return name
    return f"{name[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def are_numbers(values: Iterable[Any]) -> bool:
    """Tell whether all values are numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def best_scores(search: Mapping[str, Any], name: str) -> dict[float, float]:
    """Return by value of a parameter of a search the score of the best candidate that has it."""
    values = search["grid"].get(name) or []
    scores = best_by_value(search, name) if values else []
    found = {
        value: score
        for value, score in zip(values, scores, strict=True)
        if score is not None and are_numbers([value])
    }
    return dict(sorted(found.items()))


def path_panel(quantity: str, name: str, curves: list[Line]) -> Panel:
    """Return a panel of scores along a parameter, whose axis is logarithmic if its values span much."""
    values = sorted({x for curve in curves for x in curve.x})
    log = (
        bool(values)
        and values[0] > 0
        and (values[-1] >= LOG_SPAN_PARAMETER * values[0] or _geometric(values))
    )
    return Panel(quantity, False, curves, axis=name.rpartition("__")[2], x_log=log)


def _geometric(values: Sequence[float]) -> bool:
    """Whether sorted positive values lie more evenly on a logarithmic axis than on a linear one."""
    ratios = [b / a for a, b in pairwise(values)]
    steps = [b - a for a, b in pairwise(values)]
    return len(values) > 2 and max(ratios) / min(ratios) < max(steps) / min(steps)
