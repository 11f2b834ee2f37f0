"""Pictures of comparisons and models: what is drawn, its caption and its text.

`mtlrun.comparison.gallery` and `mtlrun.model.plots` make them, and
`mtlrun.show.picture_drawing` draws them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mtlrun.errors import UserError, counted, listed
from mtlrun.show.quantities import AUC

#: Kinds of pictures, by the names of `mtlrun plot --kind`.
PICTURES = (
    "verdict",
    "methods",
    "predictions",
    "shrinkage",
    "gains",
    "tasks",
    "heatmap",
    "calibration",
    "curve",
)
#: Largest width of a name in letters.
MAX_NAME = 30
#: Largest number of task names in a sentence.
MAX_NAMES_IN_TEXT = 5
#: Of more tasks, a picture of estimates shows this number of the lowest and of the
#: highest ones, and the distribution of all.
MAX_SHRINKAGE_ROWS = 60
N_EXTREMES = 12
#: Meaning of the marks of gains.
GAIN_LEGEND = "Green gains, purple loses; an open mark is undecided."


class PictureError(UserError, ValueError):
    """A comparison lacks the numbers of a picture."""


@dataclass(frozen=True)
class Interval:
    """A gain with its interval: of 95%, or the bounds of a verdict.

    Attributes
    ----------
    name : str
        What is compared, or the task.
    value, low, high : float
        Share of the error that is removed, or the difference of the AUC.
    """

    name: str
    value: float
    low: float
    high: float

    @property
    def clearness(self) -> float:
        """Gain in units of half its interval; beyond 1 it differs from zero."""
        half = (self.high - self.low) / 2
        if not half > 0:
            return 0.0
        return self.value / half

    def text(self, measure: str) -> str:
        """Return ``7.3% (0.8 to 14%)``."""
        value = format_gain(self.value, measure)
        low = format_gain(self.low, measure).removesuffix("%")
        return f"{value} ({low} to {format_gain(self.high, measure)})"


def clip_name(name: str, limit: int = MAX_NAME) -> str:
    """Return a name of at most `limit` letters: head and tail of a longer one.

    Wide letters (Chinese, Japanese, Korean) count twice. Line breaks become spaces.
    """
    name = " ".join(name.split())
    n_wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in name)
    width = len(name) + n_wide
    if width <= limit:
        return name
    mean_width = width / len(name)
    n_letters = int(limit / mean_width) - 1
    n_tail = n_letters // 3
    return f"{name[: n_letters - n_tail]}…{name[len(name) - n_tail :]}"


def format_gain(value: float, measure: str) -> str:
    """Return a gain in percent of the error, or as a difference of the AUC."""
    # Adding 0 turns a rounded -0 into 0.
    if measure == AUC:
        return f"{round(value, 3) + 0.0:.3f}"
    percent = 100 * value
    digits = 0 if abs(percent) >= 9.95 else 1
    return f"{round(percent, digits) + 0.0:.{digits}f}%"


@dataclass(frozen=True)
class VerdictPicture:
    """Gains over each alternative, with the bounds that decide.

    Attributes
    ----------
    title, axis, measure : str
    intervals : list of Interval
        From the top; the smallest gain decides.
    smallest : float
        Smallest gain of interest: below it, differences do not matter in practice.
    """

    title: str
    axis: str
    measure: str
    intervals: list[Interval]
    smallest: float

    @property
    def caption(self) -> str:
        """One line on what is drawn."""
        smallest = f"{100 * self.smallest:g}%"
        if self.measure == AUC:
            smallest = f"{self.smallest:g}"
        return (
            "Gain of multi-task learning; the smaller gain (bold) decides. Bounds: each "
            "lower one at one-sided 5%, the upper ones at 5% together. Gray: no "
            f"practical difference (under {smallest} either way). {GAIN_LEGEND}"
        )

    @property
    def alt(self) -> str:
        """The numbers in words."""
        parts = [f"{i.name}: {i.text(self.measure)}" for i in self.intervals]
        return f"Gain of multi-task learning, {'; '.join(parts)}."


@dataclass(frozen=True)
class ListPicture:
    """Gains with their intervals below each other: of each task, or of each method.

    Attributes
    ----------
    title, axis, measure : str
    intervals : list of Interval
        From the top.
    smallest : float
        Smallest gain of interest.
    selection : str
        Which of them are shown, empty if all are.
    ends : str
        What the ends of the intervals are.
    """

    title: str
    axis: str
    measure: str
    intervals: list[Interval]
    smallest: float
    selection: str = ""
    ends: str = "95% intervals"

    @property
    def caption(self) -> str:
        """One line on what is drawn."""
        text = (
            f"{self.title}, with {self.ends}. {GAIN_LEGEND} A triangle continues beyond "
            "the axis; a number there is the gain."
        )
        return f"{text} {self.selection}".rstrip()

    @property
    def alt(self) -> str:
        """The numbers in words."""
        winners = []
        losers = []
        for interval in self.intervals:
            if interval.low > 0:
                winners.append(interval.name)
            if interval.high < 0:
                losers.append(interval.name)
        return (
            f"{self.title}. Clear gain: {_names(winners)}. "
            f"Clear loss: {_names(losers)}."
        )


@dataclass(frozen=True)
class GainsPicture:
    """Gain of each task against its number of rows.

    Attributes
    ----------
    title, axis, measure : str
    intervals : list of Interval
        One per task.
    sizes : list of int
        Rows of these tasks.
    smallest : float
    """

    title: str
    axis: str
    measure: str
    intervals: list[Interval]
    sizes: list[int]
    smallest: float

    @property
    def caption(self) -> str:
        """One line on what is drawn."""
        return (
            "Gain of each task against its number of rows; bars are 95% intervals. "
            f"{GAIN_LEGEND} Names stand at the clearest gains and losses; point at a task for its "
            "name and numbers."
        )

    @property
    def alt(self) -> str:
        """The numbers in words."""
        n_better = sum(i.value > 0 for i in self.intervals)
        low = min(self.sizes)
        high = max(self.sizes)
        return (
            f"{self.title} against the number of rows ({low} to {high}): "
            f"{n_better} of {counted(len(self.intervals), 'task')} gain."
        )


@dataclass(frozen=True)
class HeatMapPicture:
    """Gain of each method on each task, as colors.

    Attributes
    ----------
    title, measure : str
    tasks, methods : list of str
    values : list of list of float
        A row per task; NaN where a gain is undefined.
    selection : str
        Which tasks are shown, empty if all are.
    scaled_by : list of str
        Methods whose gains set the ends of the colors; empty for all.
    """

    title: str
    measure: str
    tasks: list[str]
    methods: list[str]
    values: list[list[float]]
    selection: str = ""
    scaled_by: list[str] = field(default_factory=list)

    @property
    def caption(self) -> str:
        """One line on what is drawn."""
        text = (
            f"{self.title}. Green: better than the reference; purple: worse. The "
            f"colors end where the arrows of the color bar begin. {self.selection}"
        )
        return text.rstrip()

    @property
    def alt(self) -> str:
        """The numbers in words."""
        parts = []
        for column, method in enumerate(self.methods):
            gains = [row[column] for row in self.values]
            n_better = sum(gain > 0 for gain in gains)
            parts.append(f"{method} {n_better}")
        return (
            f"{self.title}: in how many of {counted(len(self.tasks), 'task')} "
            f"each method gains: {', '.join(parts)}."
        )


@dataclass(frozen=True)
class Shrinkage:
    """How far multi-task learning moves the estimate of a task.

    Attributes
    ----------
    name : str
    separate : float or None
        None if the task has too few rows for an estimate of its own.
    multitask : float
    pooled : float or None
    low, high : float or None
        95% interval of `multitask`.
    """

    name: str
    separate: float | None
    multitask: float
    pooled: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ShrinkagePicture:
    """A row per task: its separate estimate and its multi-task estimate.

    Of many tasks, the rows show the lowest and the highest estimates, and a histogram
    above them shows all tasks.

    Attributes
    ----------
    title, axis : str
    arrows : list of Shrinkage
        All tasks, in any order.
    explanation : str
        What the estimates are.
    multitask_name : str
        Name of the multi-task estimate.
    mean : (float, float, float) or None
        Mean of all tasks and its 95% interval.
    """

    title: str
    axis: str
    arrows: list[Shrinkage]
    explanation: str
    multitask_name: str = "multi-task"
    mean: tuple[float, float, float] | None = None

    @property
    def has_selection(self) -> bool:
        """Whether there are too many tasks for a row each."""
        return len(self.arrows) > MAX_SHRINKAGE_ROWS

    @property
    def rows(self) -> list[Shrinkage]:
        """Tasks with a row, from the top: highest multi-task estimate first."""
        ordered = sorted(self.arrows, key=lambda arrow: -arrow.multitask)
        if not self.has_selection:
            return ordered
        return ordered[:N_EXTREMES] + ordered[-N_EXTREMES:]

    @property
    def caption(self) -> str:
        """One line on what is drawn."""
        text = self.explanation
        if self.has_selection:
            text += (
                f" Rows: the {N_EXTREMES} highest and the {N_EXTREMES} lowest of "
                f"{len(self.arrows)} tasks; the histogram shows all of them."
            )
        return text

    @property
    def alt(self) -> str:
        """The numbers in words."""

        def shift(arrow: Shrinkage) -> float:
            if arrow.separate is None:
                return 0.0
            return abs(arrow.multitask - arrow.separate)

        parts = []
        for arrow in sorted(self.arrows, key=shift, reverse=True)[:MAX_NAMES_IN_TEXT]:
            value = f"{arrow.multitask:.3g}"
            if arrow.separate is not None:
                value = f"{arrow.separate:.3g} to {value}"
            parts.append(f"{arrow.name} {value}")
        return f"{self.title}. Largest changes: {'; '.join(parts)}."


@dataclass(frozen=True)
class FacetsPicture:
    """Several pictures of estimates side by side, each with an axis of its own.

    Attributes
    ----------
    title : str
    facets : list of ShrinkagePicture
    """

    title: str
    facets: list[ShrinkagePicture]

    @property
    def caption(self) -> str:
        """One line on what is drawn."""
        return self.facets[0].caption

    @property
    def alt(self) -> str:
        """The numbers in words."""
        return " ".join(facet.alt for facet in self.facets)


@dataclass(frozen=True)
class TaskPanel:
    """Points and lines of one task.

    Attributes
    ----------
    name, note : str
    x, y : list of float
        Points.
    lines : dict of str to list of (float, float)
        Points of the line of each strategy, in `STRATEGY_NAMES`.
    band : list of (float, float, float)
        x, lower and upper end of the band of the multi-task line; empty for none.
    background : list of list of (float, float)
        Lines of other tasks, behind all others.
    """

    name: str
    note: str
    x: list[float]
    y: list[float]
    lines: dict[str, list[tuple[float, float]]]
    band: list[tuple[float, float, float]] = field(default_factory=list)
    background: list[list[tuple[float, float]]] = field(default_factory=list)


@dataclass(frozen=True)
class PanelsPicture:
    """Small panels, one per task: points, and a line per strategy.

    Attributes
    ----------
    title, x_axis, y_axis : str
    panels : list of TaskPanel
    caption : str
    points_of : str
        Strategy whose predictions the points show; empty for observed values.
    has_diagonal : bool
        Whether both axes show the same quantity: observed against predicted.
    is_probability : bool
        Whether the vertical axis runs from 0 to 1, the horizontal one of predictions
        as well.
    shares_axes : bool
        Whether all panels have the same axes.
    labels : dict of str to str
        Names of the lines of strategies, where they are not the lines of the strategies.
    """

    title: str
    x_axis: str
    y_axis: str
    panels: list[TaskPanel]
    caption: str
    points_of: str = ""
    has_diagonal: bool = False
    is_probability: bool = False
    shares_axes: bool = False
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def alt(self) -> str:
        """The numbers in words."""
        parts = [f"{panel.name}, {panel.note}" for panel in self.panels]
        return f"{self.title} in {counted(len(parts), 'panel')}: {'; '.join(parts)}."


@dataclass(frozen=True)
class CalibrationPicture:
    """Reliability diagram: share of positive labels against predicted probability.

    Attributes
    ----------
    title : str
    curves : dict of str to list of (float, float, int)
        Mean predicted probability, observed share and number of rows of each bin, by
        strategy.
    caption : str
    """

    title: str
    curves: dict[str, list[tuple[float, float, int]]]
    caption: str

    @property
    def alt(self) -> str:
        """The numbers in words."""
        parts = []
        for name, points in self.curves.items():
            total = 0.0
            n_rows = 0
            for probability, share, count in points:
                total += abs(probability - share) * count
                n_rows += count
            parts.append(f"{name} {total / n_rows:.3f}")
        return (
            "Observed share of positive labels against predicted probability. Mean "
            f"distance from the diagonal: {', '.join(parts)}."
        )


#: What `mtlrun.show.picture_drawing` draws.
Picture = (
    VerdictPicture
    | ListPicture
    | GainsPicture
    | HeatMapPicture
    | ShrinkagePicture
    | FacetsPicture
    | PanelsPicture
    | CalibrationPicture
)


def _names(names: Sequence[str]) -> str:
    return listed([clip_name(name) for name in names], MAX_NAMES_IN_TEXT)


def names_of(intervals: Iterable[Interval]) -> list[str]:
    """Return the names of some intervals."""
    return [interval.name for interval in intervals]
