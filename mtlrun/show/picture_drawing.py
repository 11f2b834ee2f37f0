"""Draw the pictures of a comparison with matplotlib.

`draw` takes a picture of `mtlrun.show.pictures` and draws it into axes, or into a
new figure. `inline_svg` returns it for a page, and `picture_file` as a file. Orange
stands for separate models, gray for one pooled model, blue for multi-task learning;
among tasks, blue gains and red loses.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from mtlrun.show.drawing import drawing_style, file_content, legend_handles
from mtlrun.show.pictures import (
    CalibrationPicture,
    GainsPicture,
    HeatMapPicture,
    Interval,
    ListPicture,
    Picture,
    PredictionsPicture,
    Shrinkage,
    ShrinkagePicture,
    TaskPanel,
    VerdictPicture,
    clip_name,
    format_gain,
    names_of,
)
from mtlrun.show.quantities import AUC

#: Makes a figure: matplotlib's class, or `pyplot.figure` for figures to be shown.
MakeFigure = Callable[..., Figure]
#: Left, bottom, right and top, as shares of the axes.
Box = tuple[float, float, float, float]
#: Pictures with an axis of gains.
_GainPicture = VerdictPicture | ListPicture | GainsPicture
#: Colors, line styles and markers of the strategies.
STRATEGY_COLORS = {"separate": "#D98200", "pooled": "#777777", "multi-task": "#0072B2"}
STRATEGY_LINES = {"separate": "--", "pooled": ":", "multi-task": "-"}
STRATEGY_MARKERS = {"separate": "s", "pooled": "x", "multi-task": "o"}
GAIN_COLOR = "#0072B2"
LOSS_COLOR = "#C44500"
UNDECIDED_COLOR = "#777777"
#: Areas and lines in a gray that is visible on white and on dark pages.
BAND: dict[str, Any] = {"color": "#808080", "alpha": 0.2, "linewidth": 0}
ZERO_LINE: dict[str, Any] = {"color": "#808080", "linewidth": 0.9, "zorder": 1}
DIAGONAL: dict[str, Any] = {"color": "#808080", "linewidth": 0.9, "linestyle": ":"}
#: Sizes in inches: width of a picture, height of a line with a task, small panels.
WIDTH = 4.7
TASK_LINE = 0.2
PANEL_WIDTH = 2.0
PANEL_HEIGHT = 2.05
PANELS_PER_ROW = 4
#: Sizes of text in points: names of tasks, and the smallest text.
NAME_SIZE = 8.0
SMALL_SIZE = 7.5
#: Largest width of names in letters.
MAX_PANEL_NAME = 24
MAX_POINT_NAME = 18
#: Largest number of names in a scatter plot.
MAX_POINT_NAMES = 14
#: From this number of points on, intervals are drawn faintly.
MANY_POINTS = 60
#: The axis of rows is logarithmic if the sizes of tasks differ by this factor.
LOG_ROWS = 6
#: Quantile of the gains at which the colors of a heat map end.
HEAT_QUANTILE = 0.75
#: A heat map with more columns has no numbers in its cells.
MAX_NUMBER_COLUMNS = 8
#: Losses further from zero than this many times the median distance are off the axis.
MAX_DISTANCE = 7.0
#: An interval is cut if it ends further from zero than this many times the median end;
#: in the verdict, than this many times the end of the decisive interval.
MAX_EXCESS = 4.0
#: Distance in points of a number from the end of an interval that is cut.
NUMBER_DISTANCE = 6
#: Half of the space that a point takes from names, as shares of width and height.
POINT_SPACE = (0.01, 0.012)
#: Distance of a name from its point, as shares of width and height.
NAME_DISTANCE = (0.015, 0.013)


@singledispatch
def draw(picture: Picture, ax: Axes | None = None, make: MakeFigure = Figure) -> Any:
    """Draw a picture.

    Parameters
    ----------
    picture : picture
    ax : Axes, optional
        Default: axes of a new figure.
    make : callable, default=Figure
        Makes the figure.

    Returns
    -------
    Axes, or ndarray of Axes for a picture with small panels
    """
    raise TypeError(f"no picture: {type(picture).__name__}")


def _new_axes(ax: Axes | None, make: MakeFigure, height: float) -> Axes:
    """Return the axes, or create a figure of a height in inches with axes."""
    if ax is not None:
        return ax
    figure = make(figsize=(WIDTH, height), layout="constrained")
    return figure.subplots()


def _color(interval: Interval) -> str:
    """Return the color of a gain: significant gain, significant loss, or neither."""
    if interval.low > 0:
        return GAIN_COLOR
    if interval.high < 0:
        return LOSS_COLOR
    return UNDECIDED_COLOR


def _limits(intervals: Sequence[Interval]) -> tuple[float, float]:
    """Return the ends of an axis of gains.

    A few very long intervals are cut, and very distant losses are left out.
    """
    values, lows, highs = _within_reach(intervals).T
    ends = np.sort(np.maximum(np.abs(lows), np.abs(highs)))
    median = ends[(len(ends) - 1) // 2]
    longest = ends[ends <= MAX_EXCESS * median].max()
    # A point at the very edge would be drawn as half a point.
    reach = max(longest, 1.1 * np.abs(values).max()) or 1.0
    low = max(min(0.0, lows.min()), -reach)
    high = min(max(0.0, highs.max()), reach)
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def _value_limits(intervals: Sequence[Interval]) -> tuple[float, float]:
    """Return the ends of an axis of gains that shows all but very distant losses."""
    values = _within_reach(intervals)[:, 0]
    low = min(0.0, values.min())
    high = max(0.0, values.max())
    margin = 0.2 * (high - low) or 1.0
    return low - margin, high + margin


def _within_reach(intervals: Sequence[Interval]) -> np.ndarray:
    """Return value, low and high of the intervals without very distant losses.

    Losses have no limit: one bad method or task must not squeeze the others. Gains are
    at most 1, so all of them remain.
    """
    numbers = _numbers(intervals)
    values = numbers[:, 0]
    distances = np.sort(np.abs(values))
    median = distances[(len(distances) - 1) // 2]
    reach = max(MAX_DISTANCE * median, values.max())
    return numbers[values >= -reach]


def _numbers(intervals: Sequence[Interval]) -> np.ndarray:
    """Return value, low and high of each interval, an array of shape (n, 3)."""
    return np.array([(i.value, i.low, i.high) for i in intervals])


def _set_gain_axis(ax: Axes, picture: _GainPicture, name: str) -> None:
    """Label the axis "x" or "y" as one of gains; shares of the error are in percent."""
    axis: Axis
    if name == "x":
        axis = ax.xaxis
        ax.set_xlabel(picture.axis)
    else:
        axis = ax.yaxis
        ax.set_ylabel(picture.axis)
    # Differences of the AUC have three decimals: more of their labels would touch.
    n_bins = 4
    if picture.measure != AUC:
        axis.set_major_formatter(FuncFormatter(_percent_tick))
        n_bins = 6
    axis.set_major_locator(MaxNLocator(nbins=n_bins, min_n_ticks=3))


def _percent_tick(value: float, _: int | None) -> str:
    return f"{100 * value:.4g}%"


def _draw_intervals(
    ax: Axes, picture: VerdictPicture | ListPicture, size: float
) -> None:
    """Draw an interval per line, with the band of no practical difference.

    What lies beyond the axis ends in a triangle. A value beyond it is written there.

    Parameters
    ----------
    ax : Axes
        Its limits are set.
    picture : VerdictPicture or ListPicture
    size : float
        Size of the points.
    """
    low, high = ax.get_xlim()
    ax.axvspan(-picture.smallest, picture.smallest, **BAND)
    ax.axvline(0, **ZERO_LINE)
    for level, interval in enumerate(picture.intervals):
        color = _color(interval)
        ends = np.clip([interval.low, interval.high], low, high)
        ax.plot(ends, [level, level], color=color, linewidth=size / 3, zorder=2)
        if interval.low < low:
            ax.plot(low, level, "<", color=color, markersize=size, clip_on=False)
        if interval.high > high:
            ax.plot(high, level, ">", color=color, markersize=size, clip_on=False)
        if low <= interval.value <= high:
            ax.plot(interval.value, level, "o", color=color, markersize=size, zorder=3)
            continue
        # The number stands at the inner end of what is visible of the interval.
        end = ends[0]
        offset = -NUMBER_DISTANCE
        alignment = "right"
        if interval.value < low:
            end = ends[1]
            offset = NUMBER_DISTANCE
            alignment = "left"
        ax.annotate(
            format_gain(interval.value, picture.measure),
            (end, level),
            xytext=(offset, 0),
            textcoords="offset points",
            ha=alignment,
            va="center",
            color=color,
            fontsize=SMALL_SIZE,
        )


@draw.register
@drawing_style()
def _draw_verdict(
    picture: VerdictPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw the gains below each other, with their numbers as labels.

    The axis shows the smallest gain, which decides, as a whole. The others may exceed
    it.
    """
    n_lines = len(picture.intervals)
    ax = _new_axes(ax, make, 0.75 + 0.55 * n_lines)
    numbers = _numbers(picture.intervals)
    decisive = numbers[numbers[:, 0].argmin()]
    # The band of gains without practical difference is always visible.
    band = 1.5 * picture.smallest
    reach = MAX_EXCESS * max(band, np.abs(decisive).max())
    shown = numbers[np.abs(numbers[:, 0]) <= reach]
    low = max(min(-band, shown.min()), -reach)
    high = min(max(band, shown.max()), reach)
    margin = 0.04 * (high - low)
    ax.set(xlim=(low - margin, high + margin), ylim=(n_lines - 0.5, -0.5))
    _draw_intervals(ax, picture, size=8.0)
    labels = [f"{i.name}\n{i.text(picture.measure)}" for i in picture.intervals]
    ax.set_yticks(range(n_lines), labels)
    # The last line, the smallest gain, decides.
    ax.get_yticklabels()[-1].set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    _set_gain_axis(ax, picture, "x")
    return ax


@draw.register
@drawing_style()
def _draw_list(
    picture: ListPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw a line per task or method."""
    intervals = picture.intervals
    ax = _new_axes(ax, make, 0.8 + TASK_LINE * len(intervals))
    ax.set(xlim=_limits(intervals), ylim=(len(intervals) - 0.4, -0.6))
    _draw_intervals(ax, picture, size=4.5)
    _set_task_names(ax, names_of(intervals))
    _set_gain_axis(ax, picture, "x")
    return ax


def _set_task_names(ax: Axes, names: Sequence[str]) -> None:
    """Write the names of tasks at the lines of an axis."""
    ax.set_yticks(
        range(len(names)), _clipped(names), fontsize=NAME_SIZE, parse_math=False
    )
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")


def _clipped(names: Sequence[str]) -> list[str]:
    return [clip_name(name) for name in names]


@draw.register
@drawing_style()
def _draw_gains(
    picture: GainsPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw a point per task; those beyond the axis become triangles at its end."""
    ax = _new_axes(ax, make, 3.8)
    low, high = _value_limits(picture.intervals)
    ax.axhspan(-picture.smallest, picture.smallest, **BAND)
    ax.axhline(0, **ZERO_LINE)
    is_log = max(picture.sizes) >= LOG_ROWS * max(1, min(picture.sizes))
    if is_log:
        ax.set_xscale("log")
    alpha = 0.35 if len(picture.intervals) <= MANY_POINTS else 0.15
    points = []
    for index, interval in enumerate(picture.intervals):
        size = picture.sizes[index]
        color = _color(interval)
        ends = [max(interval.low, low), min(interval.high, high)]
        ax.plot([size, size], ends, color=color, alpha=alpha, linewidth=0.8, zorder=2)
        height = min(max(interval.value, low), high)
        marker = "o"
        if interval.value > high:
            marker = "^"
        elif interval.value < low:
            marker = "v"
        (point,) = ax.plot(
            size,
            height,
            marker,
            color=color,
            markersize=4.5,
            zorder=3,
            clip_on=False,
        )
        point.set_gid(f"point-{index}")
        points.append((size, height))
    ax.set_ylim(low, high)
    _pad_rows(ax, picture.sizes, is_log)
    _name_points(ax, picture, points, is_log)
    ax.set_xlabel("rows of the task")
    _set_gain_axis(ax, picture, "y")
    return ax


def _pad_rows(ax: Axes, sizes: Sequence[int], is_log: bool) -> None:
    """Set the ends and the ticks of an axis of numbers of rows."""
    low = min(sizes)
    high = max(sizes)
    if is_log:
        factor = (high / low) ** 0.06
        ax.set_xlim(low / factor, high * factor)
        steps = [m * 10**k for k in range(7) for m in (1, 2, 5)]
        ticks = [step for step in steps if low <= step <= high]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
        return
    margin = 0.08 * (high - low) or 0.5 * high
    ax.set_xlim(low - margin, high + margin)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _name_points(
    ax: Axes,
    picture: GainsPicture,
    points: Sequence[tuple[float, float]],
    is_log: bool,
) -> None:
    """Write names at the clearest gains and losses where they do not overlap."""
    # Sizes of a letter and of a line of text, as shares of the axes.
    box_of_axes = ax.get_window_extent()
    dpi = ax.figure.dpi
    letter = 0.6 * SMALL_SIZE / 72 * dpi / box_of_axes.width
    line = 1.15 * SMALL_SIZE / 72 * dpi / box_of_axes.height
    order = sorted(
        range(len(points)), key=lambda i: -abs(picture.intervals[i].clearness)
    )
    centers = _as_shares(ax, points, is_log)
    # Names keep clear of points and of each other.
    x_space, y_space = POINT_SPACE
    boxes: list[Box] = []
    for x, y in centers:
        boxes.append((x - x_space, y - y_space, x + x_space, y + y_space))
    n_names = 0
    for index in order:
        name = clip_name(picture.intervals[index].name, MAX_POINT_NAME)
        corner = _free_corner(centers[index], letter * len(name), line, boxes)
        if corner is None:
            continue
        boxes.append(corner.box)
        ax.annotate(
            name,
            points[index],
            xytext=corner.offset,
            textcoords="offset points",
            ha=corner.ha,
            va=corner.va,
            fontsize=SMALL_SIZE,
            parse_math=False,
            zorder=4,
        )
        n_names += 1
        if n_names == MAX_POINT_NAMES:
            return


def _as_shares(
    ax: Axes, points: Iterable[tuple[float, float]], is_log: bool
) -> list[tuple[float, float]]:
    """Return points as shares of the width and height of axes."""
    left, right = ax.get_xlim()
    bottom, top = ax.get_ylim()
    scale: Callable[[float], float] = math.log if is_log else float
    width = scale(right) - scale(left)
    shares = []
    for x, y in points:
        x_share = (scale(x) - scale(left)) / width
        shares.append((x_share, (y - bottom) / (top - bottom)))
    return shares


@dataclass(frozen=True)
class Corner:
    """Corner of a point where its name has space.

    Attributes
    ----------
    box : tuple of float
        Left, bottom, right and top of the name, as shares of the axes.
    offset : tuple of int
        Offset of the name in points.
    ha, va : str
        Alignment of the name.
    """

    box: Box
    offset: tuple[int, int]
    ha: str
    va: str


def _free_corner(
    center: tuple[float, float], length: float, height: float, boxes: Sequence[Box]
) -> Corner | None:
    """Return a corner of a point where a name fits, or None.

    Parameters
    ----------
    center : tuple of float
        Point, as shares of the axes.
    length, height : float
        Size of the name.
    boxes : sequence of tuple of float
        Boxes that it must not overlap.
    """
    x, y = center
    x_distance, y_distance = NAME_DISTANCE
    left = (x - x_distance - length, -4, "right")
    right = (x + x_distance, 4, "left")
    below = (y - y_distance - height, -3, "top")
    above = (y + y_distance, 3, "bottom")
    for horizontal, vertical in itertools.product((right, left), (above, below)):
        x_low, x_offset, ha = horizontal
        y_low, y_offset, va = vertical
        box = (x_low, y_low, x_low + length, y_low + height)
        if not _is_inside(box) or any(_overlap(box, other) for other in boxes):
            continue
        return Corner(box, (x_offset, y_offset), ha, va)
    return None


def _is_inside(box: Box) -> bool:
    """Whether a box lies inside the axes."""
    left, bottom, right, top = box
    return left >= 0 and right <= 1 and bottom >= 0 and top <= 1


def _overlap(box: Box, other: Box) -> bool:
    return (
        box[0] < other[2]
        and other[0] < box[2]
        and box[1] < other[3]
        and other[1] < box[3]
    )


@draw.register
@drawing_style()
def _draw_heat_map(
    picture: HeatMapPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw a colored cell per task and method, and a color bar above."""
    methods = _clipped(picture.methods)
    longest = max(map(len, methods))
    height = 1.0 + TASK_LINE * len(picture.tasks) + 0.075 * longest
    ax = _new_axes(ax, make, height)
    values = np.array(picture.values, dtype=float).reshape(len(picture.tasks), -1)
    finite = values[np.isfinite(values)]
    reach = 1.0
    if finite.size:
        reach = float(np.quantile(np.abs(finite), HEAT_QUANTILE)) or 1.0
    colors = mpl.colormaps["RdBu"].resampled(41)
    mesh = ax.pcolormesh(values, cmap=colors, norm=Normalize(-reach, reach))
    ax.invert_yaxis()
    ax.grid(visible=False)
    _set_task_names(ax, picture.tasks)
    ax.set_yticks(np.arange(len(picture.tasks)) + 0.5)
    ax.set_yticklabels(_clipped(picture.tasks), fontsize=NAME_SIZE, parse_math=False)
    ax.set_xticks(np.arange(len(methods)) + 0.5)
    ax.set_xticklabels(
        methods,
        fontsize=NAME_SIZE,
        rotation=60,
        ha="right",
        rotation_mode="anchor",
        parse_math=False,
    )
    if len(methods) <= MAX_NUMBER_COLUMNS:
        _write_gains(ax, picture, values, reach)
    bar = ax.figure.colorbar(
        mesh,
        ax=ax,
        location="top",
        extend="both",
        fraction=0.03,
        aspect=35,
        pad=0.02,
    )
    if picture.measure != AUC:
        bar.ax.xaxis.set_major_formatter(FuncFormatter(_short_percent_tick))
    bar.ax.tick_params(labelsize=SMALL_SIZE)
    bar.set_label("gain (blue) or loss (red)", fontsize=NAME_SIZE)
    return ax


def _short_percent_tick(value: float, _: int | None) -> str:
    return f"{100 * value:.3g}%"


def _write_gains(
    ax: Axes, picture: HeatMapPicture, values: np.ndarray, reach: float
) -> None:
    """Write the gains into the cells of a heat map."""
    for (row, column), value in np.ndenumerate(values):
        if not math.isfinite(value):
            continue
        text = format_gain(float(value), picture.measure).removesuffix("%")
        ink = "white" if abs(value) > 0.6 * reach else "black"
        ax.text(
            column + 0.5,
            row + 0.5,
            text,
            ha="center",
            va="center",
            fontsize=SMALL_SIZE,
            color=ink,
        )


@draw.register
@drawing_style()
def _draw_shrinkage(
    picture: ShrinkagePicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw an arrow per task, with a marker for each estimate."""
    arrows = picture.arrows
    ax = _new_axes(ax, make, 1.1 + TASK_LINE * len(arrows))
    for level, arrow in enumerate(arrows):
        ax.annotate(
            "",
            (arrow.multitask, level),
            (arrow.separate, level),
            arrowprops={
                "arrowstyle": "->",
                "color": "#808080",
                "shrinkA": 2,
                "shrinkB": 2,
                "linewidth": 1,
            },
        )
    levels = list(range(len(arrows)))
    labels = {"pooled": picture.center}
    for name, x in _estimates_by_strategy(arrows).items():
        ax.plot(
            x,
            levels,
            STRATEGY_MARKERS[name],
            color=STRATEGY_COLORS[name],
            markerfacecolor="none" if name == "separate" else None,
            markersize=4.5,
            label=labels.get(name, name),
            zorder=3,
        )
    ax.set_ylim(len(arrows) - 0.4, -0.6)
    _set_task_names(ax, [arrow.name for arrow in arrows])
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6))
    ax.set_xlabel(picture.axis)
    _legend_above(ax)
    return ax


def _estimates_by_strategy(arrows: Sequence[Shrinkage]) -> dict[str, list[float]]:
    """Return the estimates of each strategy; of pooled models if all are known."""
    separate = []
    pooled = []
    multitask = []
    for arrow in arrows:
        separate.append(arrow.separate)
        multitask.append(arrow.multitask)
        if arrow.pooled is not None:
            pooled.append(arrow.pooled)
    if len(pooled) < len(arrows):
        return {"separate": separate, "multi-task": multitask}
    return {"separate": separate, "pooled": pooled, "multi-task": multitask}


def _legend_above(ax: Axes) -> None:
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=3,
        frameon=False,
        fontsize=NAME_SIZE,
        borderaxespad=0.2,
        columnspacing=1.2,
    )


@draw.register
@drawing_style()
def _draw_calibration(
    picture: CalibrationPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw the reliability diagram, and the number of rows of each tenth below it."""
    if ax is None:
        figure = make(figsize=(WIDTH, 4.8), layout="constrained")
        ax, counts_ax = figure.subplots(2, 1, height_ratios=(4, 1))
    else:
        counts_ax = ax.inset_axes((0, -0.45, 1, 0.25))
    ax.plot([0, 1], [0, 1], **DIAGONAL)
    counts_ax.set_xlim(0, 1)
    # The bars of three strategies fit into a tenth.
    width = 0.028
    for index, (name, points) in enumerate(picture.curves.items()):
        color = STRATEGY_COLORS[name]
        probabilities, shares, counts = zip(*points, strict=True)
        ax.plot(
            probabilities,
            shares,
            STRATEGY_LINES[name],
            marker=STRATEGY_MARKERS[name],
            color=color,
            markersize=4.5,
            linewidth=1.4,
            label=name,
        )
        # Bars stand in the middle of their tenth, side by side.
        shift = width * (index - (len(picture.curves) - 1) / 2)
        centers = []
        for probability in probabilities:
            tenth = min(int(10 * probability), 9)
            centers.append((tenth + 0.5) / 10 + shift)
        counts_ax.bar(centers, counts, width, color=color)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_ylabel("observed share")
    counts_ax.set_xlabel("predicted probability")
    counts_ax.set_ylabel("rows")
    counts_ax.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    _legend_above(ax)
    return ax


@draw.register
@drawing_style()
def _draw_predictions(
    picture: PredictionsPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> np.ndarray:
    """Draw all panels into a grid of a new figure, or inside the area of axes."""
    n_panels = len(picture.panels)
    n_columns = min(n_panels, PANELS_PER_ROW)
    n_rows = -(-n_panels // n_columns)
    if ax is None:
        size = (PANEL_WIDTH * n_columns, PANEL_HEIGHT * n_rows + 0.4)
        figure = make(figsize=size, layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for unused in grid[n_panels:]:
            unused.remove()
        figure.supxlabel(picture.x_axis, fontsize=9)
        figure.supylabel(picture.y_axis, fontsize=9)
    else:
        ax.set_axis_off()
        grid = _inset_grid(ax, n_rows, n_columns)
    for axes, panel in zip(grid, picture.panels, strict=False):
        draw_panel(axes, picture, panel)
    if ax is None:
        handles = legend_handles(grid[:n_panels])
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper center",
            ncols=3,
            frameon=False,
        )
    return np.asarray(grid[:n_panels])


def _inset_grid(ax: Axes, n_rows: int, n_columns: int) -> np.ndarray:
    """Return axes inside the area of other axes, row by row."""
    width = 1 / n_columns
    height = 1 / n_rows
    grid = []
    for index in range(n_rows * n_columns):
        row, column = divmod(index, n_columns)
        bottom = 1 - (row + 1) * height
        bounds = (column * width, bottom, 0.75 * width, 0.7 * height)
        grid.append(ax.inset_axes(bounds))
    return np.array(grid)


def draw_panel(ax: Axes, picture: PredictionsPicture, panel: TaskPanel) -> None:
    """Draw the panel of one task."""
    ends = [0.0, 1.0]
    if not picture.is_probability:
        numbers = [*panel.x, *panel.y]
        for line in panel.lines.values():
            for point in line:
                numbers += point
        margin = 0.04 * (max(numbers) - min(numbers)) or 1.0
        ends = [min(numbers) - margin, max(numbers) + margin]
    ax.plot(ends, ends, **DIAGONAL)
    ax.plot(
        panel.x,
        panel.y,
        "o",
        color=STRATEGY_COLORS[picture.points_of],
        markersize=2.2,
        alpha=0.45,
        markeredgewidth=0,
    )
    for name, line in panel.lines.items():
        # A strategy with too few rows has no points, but an entry in the legend.
        x, y = np.reshape(line, (-1, 2)).T
        ax.plot(
            x,
            y,
            STRATEGY_LINES[name],
            marker=STRATEGY_MARKERS[name] if picture.is_probability else None,
            markersize=3,
            color=STRATEGY_COLORS[name],
            linewidth=1.4,
            label=name,
        )
    ax.set(xlim=ends, ylim=ends)
    ax.set_title(
        f"{clip_name(panel.name, MAX_PANEL_NAME)}\n{panel.note}",
        fontsize=SMALL_SIZE,
        parse_math=False,
        loc="left",
    )
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))


# -- files and pages


def picture_file(picture: Picture, form: str) -> bytes:
    """Return a picture with its title as a file of the format svg, png or pdf."""
    figure = _figure_of(picture)
    figure.suptitle(picture.title, fontsize=10, parse_math=False)
    with _quiet_glyphs():
        return file_content(figure, form)


def _figure_of(picture: Picture) -> Figure:
    axes = np.ravel(draw(picture))
    return axes[0].figure


def inline_svg(picture: Picture, name: str) -> str:
    """Return a picture as SVG for a page.

    The background is transparent. Points of `GainsPicture` have their numbers as
    titles, which browsers show at the pointer.

    Parameters
    ----------
    picture : picture
    name : str
        Prefix of all ids, so that they differ from the ids of other pictures.
    """
    svg = inline_figure(_figure_of(picture), name, picture.alt)
    if isinstance(picture, GainsPicture):
        for index, interval in enumerate(picture.intervals):
            text = (
                f"{interval.name}: {picture.sizes[index]:,} rows, gain "
                f"{interval.text(picture.measure)}"
            )
            opening = f'<g id="{name}-point-{index}">'
            svg = svg.replace(opening, f"{opening}<title>{escape(text)}</title>")
    return svg


def panel_svgs(picture: PredictionsPicture, name: str) -> list[str]:
    """Return the panels of a picture, each as SVG for a page."""
    svgs = []
    for index, panel in enumerate(picture.panels):
        with drawing_style():
            size = (PANEL_WIDTH, PANEL_HEIGHT)
            figure = Figure(figsize=size, layout="constrained")
            axes = figure.subplots()
            draw_panel(axes, picture, panel)
            axes.set_xlabel(picture.x_axis, fontsize=SMALL_SIZE)
            axes.set_ylabel(picture.y_axis, fontsize=SMALL_SIZE)
        alt = f"{picture.title}: {panel.name}, {panel.note}."
        svgs.append(inline_figure(figure, f"{name}-{index}", alt))
    return svgs


#: Text before the picture in a file of SVG.
_PROLOG = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"(?<=[\s\"(,])(-?\d+\.\d\d)\d+")


def inline_figure(figure: Figure, name: str, alt: str) -> str:
    """Return a figure as SVG for a page, without prolog, with `name` before all ids."""
    stream = io.BytesIO()
    with drawing_style(), _quiet_glyphs():
        figure.set_facecolor("none")
        for axes in figure.findobj(Axes):
            axes.set_facecolor("none")
        # `savefig` would lay out and draw everything twice.
        metadata = {"Date": None, "Creator": None}
        FigureCanvasSVG(figure).print_svg(stream, metadata=metadata)
    svg = _PROLOG.sub("", stream.getvalue().decode(), count=1)
    svg = _METADATA.sub("", svg, count=1)
    # Hundredths of a point are exact enough for a screen. Texts keep their digits.
    svg = _TAG.sub(lambda tag: _NUMBER.sub(r"\1", tag[0]), svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\g<1>#{name}-", svg)
    label = escape(alt, quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return "\n".join(line.strip() for line in svg.split("\n"))


@contextmanager
def _quiet_glyphs() -> Iterator[None]:
    """Ignore letters that matplotlib's font lacks: browsers have other fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield
