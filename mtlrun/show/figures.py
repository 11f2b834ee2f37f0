"""Figures as plain data: curves, matrices, ranks, pairs of numbers and verdicts.

`mtlrun.show.figure_drawing` draws them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from mtlrun.show.quantities import spoken
from mtlrun.show.ranking import Ranking
from mtlrun.utils.io import is_json_number

#: Greatest length of a file name without its suffix, in bytes.
MAX_NAME_BYTES = 200
#: Matrices with more rows or columns are drawn without names, and matrices with more
#: columns without numbers.
MAX_NAMES = 40
MAX_NUMBERS = 10
#: An axis is logarithmic if the largest value is at least this multiple of the
#: smallest.
LOG_SPAN_PARAMETER = 50


@dataclass
class Line:
    """Curve of one method in a panel.

    Attributes
    ----------
    label : str
    x : list
        Numbers, or values on the axis of a sweep.
    y : list of float
    spread : list of float
        Half lengths of the error bars; empty for none.
    low, high : list of float
        Band around the curve; empty for none.
    place : int or None
        Index of the color and marker; None for the index of the curve in its panel.
    published : bool
        Whether the numbers were read from the paper: drawn thin, pale and dashed.
    points : {"", "filled"}
        Draw points without a line.
    smooth : bool
        A function at many values: drawn as a line without markers.
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

    def drawable(self, x_log: bool, y_log: bool) -> Line:
        """Return the curve without points that the axes cannot show.

        These are gaps, and values that are not positive on a logarithmic axis.
        """
        indices = []
        for index, (x, y) in enumerate(zip(self.x, self.y, strict=True)):
            if _can_be_drawn(x, x_log) and _can_be_drawn(y, y_log):
                indices.append(index)

        def select(values: list[Any]) -> list[Any]:
            # Error bars and bands are empty if the curve has none.
            if not values:
                return values
            return [values[index] for index in indices]

        return replace(
            self,
            x=select(self.x),
            y=select(self.y),
            spread=select(self.spread),
            low=select(self.low),
            high=select(self.high),
        )


def _can_be_drawn(value: object, is_log: bool) -> bool:
    if not isinstance(value, int | float):
        return value is not None
    # NaN does not equal itself.
    is_number = value == value
    return is_number and (value > 0 or not is_log)


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
        In the order of the methods. Methods without points are included, so that each
        method has the same color in all panels.
    axis : str or None
        Label of the horizontal axis; None for the label of the figure.
    x_log : bool or None
        Whether the horizontal axis is logarithmic; None to follow the figure.
    marks : dict of str to float
        Positions of vertical lines, by their text.
    title : str
    diagonal : bool
        Whether to draw the line of equal values, for axes that show the same quantity.
    """

    quantity: str
    log: bool
    curves: list[Line]
    axis: str | None = None
    x_log: bool | None = None
    marks: dict[str, float] = field(default_factory=dict)
    title: str = ""
    diagonal: bool = False


@dataclass
class HeatMap:
    """Matrix drawn in colors.

    Attributes
    ----------
    title : str
    values : list of list of float
    rows, columns : list of str
    centre : float or None
        Value in the middle of a diverging color map; None for a sequential map.
    """

    title: str
    values: list[list[float]]
    rows: list[str]
    columns: list[str]
    centre: float | None = None

    @property
    def quantity(self) -> str:
        """Quantity that the panel shows."""
        return self.title

    @property
    def has_numbers(self) -> bool:
        """Whether the cells have room for numbers."""
        return len(self.columns) <= MAX_NUMBERS and len(self.rows) <= MAX_NAMES


@dataclass
class Figure:
    """Panels that share one file.

    Attributes
    ----------
    name : str
        Name of the file, without its suffix.
    title : str
    panels : sequence of Panel and HeatMap
    axis : str
        Label of the horizontal axis, unless a panel has its own.
    values : list
        Values of that axis, in order; empty to take the values of the curves.
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
        """One line that says what the figure shows."""
        # Dictionaries keep the order, without repetitions.
        quantities: dict[str, None] = {}
        axes: dict[str, None] = {}
        has_diagonal = False
        for panel in self.panels:
            quantities[panel.quantity] = None
            if isinstance(panel, Panel):
                axes[panel.axis or self.axis] = None
                has_diagonal |= panel.diagonal
        caption = f"{self.title}: {', '.join(quantities)}"
        if axes:
            caption += f" against {', '.join(axes)}"
        if has_diagonal:
            caption += "; dotted: equal numbers"
        return caption


@dataclass
class RankDiagram:
    """Critical-difference diagrams.

    A diagram shows average ranks, and bars over methods whose difference is not
    significant in Nemenyi's test.

    Attributes
    ----------
    name : str
        Name of the file, without its suffix.
    rankings : list of Ranking
        One diagram each, from top to bottom.
    heading : str
        Title above several diagrams.
    """

    name: str
    rankings: list[Ranking]
    heading: str = ""

    @property
    def title(self) -> str:
        """Heading, or the title of the only diagram."""
        return self.heading or self.title_of(self.rankings[0])

    @staticmethod
    def title_of(ranking: Ranking) -> str:
        """Return the metric of a ranking and its data."""
        return f"{spoken(ranking.metric)}, {ranking.label}"

    @property
    def caption(self) -> str:
        """One line that says what the figure shows."""
        subject = f" by {self.title}"
        if self.heading:
            subject = f": {self.heading}"
        return (
            f"Average ranks{subject} (1 is best); "
            "bars: not separated by Nemenyi's test at 0.05"
        )


@dataclass(frozen=True)
class PublishedPair:
    """Published number and the one computed here.

    Attributes
    ----------
    label : str
        Method, or whatever distinguishes the numbers of a panel.
    published : float
        Published number, in the unit of the panel.
    ours : float or None
        Computed number, in the same unit; None if it was not computed.
    std : float
        Standard deviation of the computed number; 0 if unknown.
    agrees : bool
        Whether the computed number is within the tolerance of the published one.
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
        From top to bottom.
    """

    title: str
    axis: str
    pairs: list[PublishedPair]

    @property
    def labels(self) -> list[str]:
        """Labels of the pairs."""
        return [pair.label for pair in self.pairs]

    @property
    def values(self) -> list[float]:
        """Published and computed numbers of the panel."""
        computed = [pair.ours for pair in self.pairs if pair.ours is not None]
        return [pair.published for pair in self.pairs] + computed

    @property
    def log(self) -> bool:
        """Whether the axis is logarithmic."""
        low = min(self.values)
        return low > 0 and max(self.values) >= LOG_SPAN_PARAMETER * low


@dataclass
class Dumbbell:
    """Published table next to ours: each published number is joined to the computed
    one.

    Attributes
    ----------
    name : str
        Name of the file, without its suffix.
    title : str
    panels : list of DumbbellPanel
        One per row or column of the table.
    """

    name: str
    title: str
    panels: list[DumbbellPanel]

    @property
    def pairs(self) -> list[PublishedPair]:
        """Pairs of all panels."""
        pairs = []
        for panel in self.panels:
            pairs += panel.pairs
        return pairs

    @property
    def caption(self) -> str:
        """One line that says what the figure shows and how many numbers agree."""
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


#: Kinds of squares of a strip, in their order, with their texts.
SQUARES = {
    "holds": "holds",
    "follows": "holds by arithmetic",
    "partly": "holds in part",
    "depends": "depends on the interpretation",
    "undecided": "undecided",
    "fails": "does not hold",
    "unrun": "not run",
    "unpublished": "not public",
    "untested": "not testable",
}


@dataclass
class StripRow:
    """Squares of one paper.

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
        """Number of claims of each kind that occurs, in the order of `SQUARES`."""
        kinds = Counter(kind for kind, _ in self.squares)
        return {kind: kinds[kind] for kind in SQUARES if kind in kinds}

    @property
    def sentence(self) -> str:
        """Title with the counts, as text."""
        parts = [f"{SQUARES[kind]}: {count}" for kind, count in self.counts.items()]
        return f"{self.title} ({', '.join(parts)})"


@dataclass
class Strip:
    """Verdicts at a glance: one line of squares per paper, one square per claim.

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
        """One line that says what the figure shows, with all counts."""
        return f"{self.title}: {'; '.join(row.sentence for row in self.rows)}"


#: Figures of runs.
Drawing = Figure | RankDiagram | Dumbbell | Strip


def file_name(*parts: str) -> str:
    """Return the name of a figure's file, without its suffix.

    Characters other than letters, digits, ``-`` and ``_`` become ``-``. A name that is
    too long for a file is cut and ends with a digest.
    """
    name = re.sub(r"[^\w-]", "-", "-".join(parts))
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[:40]}-{digest[:16]}"


def are_numbers(values: Iterable[Any]) -> bool:
    """Return whether all values are numbers; booleans are none."""
    return all(map(is_json_number, values))


def path_panel(quantity: str, name: str, curves: list[Line]) -> Panel:
    """Return a panel of scores against the values of a parameter.

    The horizontal axis is logarithmic if the values are positive and span a large
    factor, or if their ratios vary less than their differences.
    """
    distinct_values: set[float] = set()
    for curve in curves:
        distinct_values.update(curve.x)
    values = sorted(distinct_values)
    is_log = False
    if values and values[0] > 0:
        is_log = values[-1] >= LOG_SPAN_PARAMETER * values[0]
        if len(values) > 2:
            ratios = [after / before for before, after in pairwise(values)]
            steps = [after - before for before, after in pairwise(values)]
            is_log |= max(ratios) / min(ratios) < max(steps) / min(steps)
    return Panel(quantity, False, curves, axis=name.rpartition("__")[2], x_log=is_log)
