"""Draw the pictures of comparisons and models (`mtlrun.show.pictures`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

from mtlrun.show.canvas import (
    MakeFigure,
    add_legend_below,
    draw,
    drawing_style,
    legend_handles,
)
from mtlrun.show.palette import (
    BACKGROUND_COLOR,
    DATA_COLOR,
    GAIN_COLOR,
    GAIN_MAP,
    INK_ON_CELLS,
    LOSS_COLOR,
    MULTITASK,
    NEUTRAL_COLOR,
    SEPARATE,
    STRATEGIES,
    UNDECIDED_COLOR,
)
from mtlrun.show.pictures import (
    N_EXTREMES,
    CalibrationPicture,
    FacetsPicture,
    GainsPicture,
    HeatMapPicture,
    Interval,
    ListPicture,
    PanelsPicture,
    Shrinkage,
    ShrinkagePicture,
    TaskPanel,
    VerdictPicture,
    clip_name,
    format_gain,
    names_of,
)
from mtlrun.show.quantities import AUC

#: Pictures with an axis of gains.
_GainPicture = VerdictPicture | ListPicture | GainsPicture
#: Areas and lines in a gray that is visible on white and on dark pages.
BAND: dict[str, Any] = {"color": NEUTRAL_COLOR, "alpha": 0.2, "linewidth": 0}
ZERO_LINE: dict[str, Any] = {"color": NEUTRAL_COLOR, "linewidth": 0.9, "zorder": 1}
DIAGONAL: dict[str, Any] = {"color": NEUTRAL_COLOR, "linewidth": 0.7, "zorder": 1}
#: Sizes in inches: width of a picture, height of a line with a task, small panels.
WIDTH = 4.7
TASK_LINE = 0.2
PANEL_WIDTH = 2.0
PANEL_HEIGHT = 2.05
PANELS_PER_ROW = 4
#: Panels are larger if there are few in a row; the legend needs some width.
MAX_LARGE_PANELS = 2
LARGE_PANELS = 1.6
MIN_LEGEND_WIDTH = 4.4
#: Facets of estimates: width in inches without names, width of a letter of a name, and
#: number in a row.
FACET_WIDTH = 2.5
LETTER_INCHES = 0.075
FACETS_PER_ROW = 2
#: Height of a histogram in lines of a task, and its number of bins.
HISTOGRAM_LINES = 6
N_HISTOGRAM_BINS = 40
#: Shorter arrows have no head.
MIN_ARROW_POINTS = 12.0
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
HEAT_QUANTILE = 0.9
#: A heat map with more columns has no numbers in its cells.
MAX_NUMBER_COLUMNS = 8
#: Losses further from zero than this many times the median distance are off the axis.
MAX_DISTANCE = 7.0
#: An interval is cut if it ends further from zero than this many times the median end;
#: in the verdict, than this many times the end of the decisive interval.
MAX_EXCESS = 4.0
#: Distance in points of a number from the end of an interval that is cut.
NUMBER_DISTANCE = 6
#: Half of the space that a point takes from names, in pixels.
POINT_SPACE = 3.0


def _new_axes(ax: Axes | None, make: MakeFigure, height: float) -> Axes:
    """Return the axes, or create a figure of a height in inches with axes."""
    if ax is not None:
        return ax
    figure = make(figsize=(WIDTH, height), layout="constrained")
    return figure.subplots()


def _mark(interval: Interval) -> dict[str, Any]:
    """Return color and filling of a gain: clear gain, clear loss, or undecided."""
    if interval.low > 0:
        return {"color": GAIN_COLOR}
    if interval.high < 0:
        return {"color": LOSS_COLOR}
    return {"color": UNDECIDED_COLOR, "markerfacecolor": "white"}


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
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
        n_bins = 6
    steps = [1, 2, 5, 10]
    axis.set_major_locator(MaxNLocator(nbins=n_bins, min_n_ticks=3, steps=steps))


def _draw_intervals(
    ax: Axes, picture: VerdictPicture | ListPicture, size: float
) -> None:
    """Draw an interval per line, with the band of no practical difference.

    Marks beyond the axis end in a triangle. A value beyond it is written there.

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
        mark = _mark(interval) | {"markersize": size}
        color = mark["color"]
        ends = np.clip([interval.low, interval.high], low, high)
        ax.plot(
            ends,
            [level, level],
            color=color,
            linewidth=size / 3,
            zorder=2,
            solid_capstyle="butt",
        )
        if interval.low < low:
            ax.plot(low, level, "<", **mark, clip_on=False)
        if interval.high > high:
            ax.plot(high, level, ">", **mark, clip_on=False)
        if low <= interval.value <= high:
            ax.plot(interval.value, level, "o", **mark, zorder=3)
            continue
        # The number stands at the inner end of the visible part of the interval.
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
    ax = _new_axes(ax, make, 0.95 + 0.4 * n_lines)
    numbers = _numbers(picture.intervals)
    decisive = numbers[numbers[:, 0].argmin()]
    # The band of gains without practical difference is always visible.
    band = 1.5 * picture.smallest
    reach = MAX_EXCESS * max(band, np.abs(decisive).max())
    inside = numbers[np.abs(numbers[:, 0]) <= reach]
    low = max(min(-band, inside.min()), -reach)
    high = min(max(band, inside.max()), reach)
    margin = 0.04 * (high - low)
    ax.set(xlim=(low - margin, high + margin), ylim=(n_lines - 0.5, -0.5))
    _draw_intervals(ax, picture, size=7.0)
    ax.set_yticks(range(n_lines), names_of(picture.intervals))
    decides = int(numbers[:, 0].argmin())
    if n_lines > 1:
        ax.get_yticklabels()[decides].set_fontweight("bold")
    for level, interval in enumerate(picture.intervals):
        ax.text(
            1.02,
            level,
            interval.text(picture.measure),
            transform=ax.get_yaxis_transform(),
            va="center",
            fontweight="bold" if level == decides and n_lines > 1 else "normal",
        )
    ax.text(
        0,
        1.02,
        "does not matter",
        transform=ax.get_xaxis_transform(),
        ha="center",
        fontsize=SMALL_SIZE,
        color=NEUTRAL_COLOR,
    )
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


def _set_task_names(
    ax: Axes, names: Sequence[str], levels: Sequence[float] | np.ndarray | None = None
) -> None:
    """Write the names of tasks at the lines of an axis, by default 0, 1, 2 and so on."""
    if levels is None:
        levels = range(len(names))
    ax.set_yticks(levels, _clipped(names), fontsize=NAME_SIZE, parse_math=False)
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
    # The axis shows all but very distant losses.
    values = _within_reach(picture.intervals)[:, 0]
    low = min(0.0, values.min())
    high = max(0.0, values.max())
    margin = 0.2 * (high - low) or 1.0
    low -= margin
    high += margin
    ax.axhspan(-picture.smallest, picture.smallest, **BAND)
    ax.axhline(0, **ZERO_LINE)
    is_log = max(picture.sizes) >= LOG_ROWS * max(1, min(picture.sizes))
    if is_log:
        ax.set_xscale("log")
    alpha = 0.35 if len(picture.intervals) <= MANY_POINTS else 0.15
    points = []
    for index, interval in enumerate(picture.intervals):
        size = picture.sizes[index]
        mark = _mark(interval)
        color = mark["color"]
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
            **mark,
            markersize=4.5,
            zorder=3,
            clip_on=False,
        )
        point.set_gid(f"point-{index}")
        points.append((size, height))
    ax.set_ylim(low, high)
    smallest = min(picture.sizes)
    largest = max(picture.sizes)
    if is_log:
        factor = (largest / smallest) ** 0.06
        ax.set_xlim(smallest / factor, largest * factor)
        steps = [m * 10**k for k in range(7) for m in (1, 2, 5)]
        ticks = [step for step in steps if smallest <= step <= largest]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        margin = 0.08 * (largest - smallest) or 0.5 * largest
        ax.set_xlim(smallest - margin, largest + margin)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    _name_points(ax, picture, points)
    ax.set_xlabel("rows of the task")
    _set_gain_axis(ax, picture, "y")
    return ax


def _name_points(
    ax: Axes, picture: GainsPicture, points: Sequence[tuple[float, float]]
) -> None:
    """Write names at the clearest gains and losses where they do not overlap."""
    area = ax.get_window_extent()
    # Names keep clear of points and of each other, in pixels.
    taken = []
    for center in ax.transData.transform(points):
        taken.append(Bbox([center - POINT_SPACE, center + POINT_SPACE]))
    by_clearness = sorted(
        range(len(points)), key=lambda i: -abs(picture.intervals[i].clearness)
    )
    n_names = 0
    for index in by_clearness:
        name = clip_name(picture.intervals[index].name, MAX_POINT_NAME)
        for horizontal, vertical in itertools.product((1, -1), (1, -1)):
            text = ax.annotate(
                name,
                points[index],
                xytext=(4 * horizontal, 3 * vertical),
                textcoords="offset points",
                ha={1: "left", -1: "right"}[horizontal],
                va={1: "bottom", -1: "top"}[vertical],
                fontsize=SMALL_SIZE,
                parse_math=False,
                zorder=4,
            )
            box = text.get_window_extent()
            is_inside = area.contains(*box.p0) and area.contains(*box.p1)
            if is_inside and not box.count_overlaps(taken):
                taken.append(box)
                n_names += 1
                break
            text.remove()
        if n_names == MAX_POINT_NAMES:
            return


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
    scaled_by = [name in picture.scaled_by for name in picture.methods]
    scale_values = values
    if any(scaled_by):
        scale_values = values[:, scaled_by]
    finite = scale_values[np.isfinite(scale_values)]
    reach = 1.0
    if finite.size:
        reach = float(np.quantile(np.abs(finite), HEAT_QUANTILE)) or 1.0
    colors = mpl.colormaps[GAIN_MAP].resampled(41)
    mesh = ax.pcolormesh(values, cmap=colors, norm=Normalize(-reach, reach))
    ax.invert_yaxis()
    ax.grid(visible=False)
    _set_task_names(ax, picture.tasks, np.arange(len(picture.tasks)) + 0.5)
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
        for (row, column), value in np.ndenumerate(values):
            if not math.isfinite(value):
                continue
            text = format_gain(float(value), picture.measure)
            ink = "white" if abs(value) > 0.6 * reach else INK_ON_CELLS
            ax.text(
                column + 0.5,
                row + 0.5,
                text,
                ha="center",
                va="center",
                fontsize=SMALL_SIZE,
                color=ink,
            )
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
        percent = FuncFormatter(lambda value, _: f"{100 * value:.3g}%")
        bar.ax.xaxis.set_major_formatter(percent)
    bar.ax.tick_params(labelsize=SMALL_SIZE)
    bar.set_label("loss (purple) or gain (green)", fontsize=NAME_SIZE)
    return ax


@draw.register
@drawing_style()
def _draw_shrinkage(
    picture: ShrinkagePicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> Axes:
    """Draw a row per task, below a histogram if there are too many for that."""
    ax = _new_axes(ax, make, 1.2 + TASK_LINE * _n_lines(picture))
    _draw_rows(ax, picture, picture.rows)
    _legend_above(ax)
    return ax


def _n_lines(picture: ShrinkagePicture) -> int:
    """Return the height of a picture of estimates in lines of a task."""
    if picture.has_selection:
        return len(picture.rows) + 2 + HISTOGRAM_LINES
    return len(picture.rows)


def _draw_rows(
    ax: Axes, picture: ShrinkagePicture, rows: Sequence[Shrinkage], n_lines: int = 0
) -> None:
    """Draw separate and multi-task estimates of some tasks, from the top.

    The axis shows all multi-task estimates. Separate ones may be far away: those beyond
    the axis are triangles at its end.
    """
    levels = np.arange(len(rows), dtype=float)
    if picture.has_selection:
        # A gap parts the highest from the lowest estimates.
        levels[N_EXTREMES:] += 1
        n_others = len(picture.arrows) - len(rows)
        ax.text(
            0.5,
            N_EXTREMES,
            f"{n_others} tasks between",
            transform=ax.get_yaxis_transform(),
            ha="center",
            va="center",
            fontsize=SMALL_SIZE,
            color=NEUTRAL_COLOR,
        )
    low, high = _estimate_limits(picture)
    ax.set_xlim(low, high)
    if picture.mean is not None:
        mean, mean_low, mean_high = picture.mean
        ax.axvspan(mean_low, mean_high, **BAND)
        ax.axvline(mean, **ZERO_LINE, label="mean of all tasks, 95%")
    points_per_unit = ax.get_window_extent().width * 72 / ax.figure.dpi / (high - low)
    for level, row in zip(levels, rows, strict=True):
        if row.low is not None and row.high is not None:
            ends = [row.low, row.high]
            ax.plot(ends, [level] * 2, color=MULTITASK.color, linewidth=1.2, alpha=0.5)
        if row.separate is None:
            continue
        tail = min(max(row.separate, low), high)
        length = abs(row.multitask - tail) * points_per_unit
        ax.annotate(
            "",
            (row.multitask, level),
            (tail, level),
            arrowprops={
                # A head longer than its arrow would point the wrong way.
                "arrowstyle": "->" if length > MIN_ARROW_POINTS else "-",
                "color": NEUTRAL_COLOR,
                "shrinkA": 2,
                "shrinkB": 2,
                "linewidth": 1,
            },
        )
        if tail != row.separate:
            ax.plot(
                tail,
                level,
                "<" if tail == low else ">",
                color=SEPARATE.color,
                markersize=4.5,
                clip_on=False,
            )
    for name, estimates in _estimates_by_strategy(rows).items():
        style = STRATEGIES[name]
        labels = {"multi-task": picture.multitask_name}
        fills = {"separate": "white"}
        ax.plot(
            estimates,
            levels,
            style.marker,
            color=style.color,
            markerfacecolor=fills.get(name),
            markersize=4.5,
            label=labels.get(name, name),
            zorder=3,
        )
    top = -0.6
    if picture.has_selection:
        top -= HISTOGRAM_LINES + 1
        _draw_histogram(ax, picture.arrows, (low, high))
    # With `n_lines`, a facet with few tasks is as high as its neighbor.
    ax.set_ylim(max(levels[-1] + 0.6, top + n_lines), top)
    _set_task_names(ax, [row.name for row in rows], levels)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.set_xlabel(picture.axis)


def _draw_histogram(
    ax: Axes, arrows: Sequence[Shrinkage], limits: tuple[float, float]
) -> None:
    """Draw the distribution of the estimates of all tasks above the rows."""
    separate = [row.separate for row in arrows if row.separate is not None]
    edges = np.linspace(*limits, N_HISTOGRAM_BINS + 1)
    shared, _ = np.histogram([row.multitask for row in arrows], edges)
    alone, _ = np.histogram(separate, edges)
    scale = HISTOGRAM_LINES / max(shared.max(), alone.max())
    base = -1.0
    ax.stairs(
        base - scale * shared,
        edges,
        baseline=base,
        fill=True,
        color=MULTITASK.color,
        alpha=0.5,
    )
    ax.stairs(base - scale * alone, edges, baseline=base, color=SEPARATE.color)
    ax.text(
        0.01,
        base - HISTOGRAM_LINES,
        f"all {len(arrows)} tasks",
        transform=ax.get_yaxis_transform(),
        va="top",
        fontsize=SMALL_SIZE,
        color=NEUTRAL_COLOR,
    )


def _estimate_limits(picture: ShrinkagePicture) -> tuple[float, float]:
    """Return the ends of an axis of estimates.

    It holds all multi-task estimates with their intervals, and separate estimates that
    are not further away than the length of this range.
    """
    values = list(picture.mean or ())
    for row in picture.arrows:
        values += [
            v for v in (row.multitask, row.low, row.high, row.pooled) if v is not None
        ]
    low = min(values)
    high = max(values)
    reach = (high - low) or abs(high) or 1.0
    for row in picture.arrows:
        if row.separate is not None and low - reach <= row.separate <= high + reach:
            values.append(row.separate)
    margin = 0.04 * (max(values) - min(values)) or reach
    return min(values) - margin, max(values) + margin


def _estimates_by_strategy(rows: Sequence[Shrinkage]) -> dict[str, np.ndarray]:
    """Return the estimates of each strategy that has any; NaN where it has none."""
    columns: dict[str, list[float | None]] = {
        "separate": [],
        "pooled": [],
        "multi-task": [],
    }
    for row in rows:
        columns["separate"].append(row.separate)
        columns["pooled"].append(row.pooled)
        columns["multi-task"].append(row.multitask)
    estimates = {}
    for name, values in columns.items():
        numbers = np.array(values, dtype=float)
        if np.isfinite(numbers).any():
            estimates[name] = numbers
    return estimates


@draw.register
@drawing_style()
def _draw_facets(
    picture: FacetsPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> np.ndarray:
    """Draw facets two in a row; the tasks of a row are in the order of its first facet.

    Facets of other tasks, and those with a selection, have an order of their own.
    """
    facets = picture.facets
    n_columns = min(len(facets), FACETS_PER_ROW)
    n_rows = -(-len(facets) // n_columns)
    # Lines of tasks in each row of facets.
    n_lines = []
    for start in range(0, len(facets), n_columns):
        n_lines.append(max(map(_n_lines, facets[start : start + n_columns])))
    if ax is None:
        heights = [0.75 + TASK_LINE * lines for lines in n_lines]
        size = (FACET_WIDTH * n_columns, sum(heights) + 0.4)
        figure = make(figsize=size, layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False, height_ratios=heights)
        all_axes = grid.ravel()
    else:
        ax.set_axis_off()
        all_axes = _inset_grid(ax, n_rows, n_columns)
    for unused in all_axes[len(facets) :]:
        unused.remove()
    order: list[str] = []
    longest = [0] * n_columns
    for index, facet in enumerate(facets):
        row, column = divmod(index, n_columns)
        tasks = {task.name: task for task in facet.rows}
        names = [""] * len(tasks)
        if column == 0 or tasks.keys() != set(order):
            order = list(tasks)
            names = _clipped(order)
            longest[column] = max(longest[column], *map(len, names))
        _draw_rows(
            all_axes[index], facet, [tasks[name] for name in order], n_lines[row]
        )
        _set_task_names(all_axes[index], names, all_axes[index].get_yticks())
        all_axes[index].set_title(facet.title, fontsize=9, parse_math=False)
    axes = all_axes[: len(facets)]
    handles = legend_handles(axes)
    if ax is None:
        figure.set_figwidth(size[0] + LETTER_INCHES * sum(longest))
    if ax is None and len(handles) > 1:
        add_legend_below(figure, handles)
    return axes


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
        style = STRATEGIES[name]
        probabilities, shares, counts = zip(*points, strict=True)
        ax.plot(
            probabilities,
            shares,
            style.line,
            marker=style.marker,
            color=style.color,
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
        counts_ax.bar(centers, counts, width, color=style.color)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_ylabel("observed share")
    counts_ax.set_xlabel("predicted probability")
    counts_ax.set_ylabel("rows")
    counts_ax.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    _legend_above(ax)
    return ax


@draw.register
@drawing_style()
def _draw_panels(
    picture: PanelsPicture, ax: Axes | None = None, make: MakeFigure = Figure
) -> np.ndarray:
    """Draw all panels into a grid of a new figure, or inside the area of axes."""
    n_panels = len(picture.panels)
    n_columns = min(n_panels, PANELS_PER_ROW)
    n_rows = -(-n_panels // n_columns)
    if ax is None:
        scale = 1.0
        if n_columns <= MAX_LARGE_PANELS:
            scale = LARGE_PANELS
        width = max(scale * PANEL_WIDTH * n_columns, MIN_LEGEND_WIDTH)
        size = (width, scale * PANEL_HEIGHT * n_rows + 0.6)
        figure = make(figsize=size, layout="constrained")
        grid = figure.subplots(
            n_rows,
            n_columns,
            squeeze=False,
            sharex=picture.shares_axes,
            sharey=picture.shares_axes,
        ).ravel()
        for unused in grid[n_panels:]:
            unused.remove()
        # The legend stands below the figure, where a common label would be.
        for lowest in grid[max(0, n_panels - n_columns) : n_panels]:
            lowest.set_xlabel(picture.x_axis, fontsize=9, parse_math=False)
            lowest.tick_params(labelbottom=True)
        figure.supylabel(picture.y_axis, fontsize=9, parse_math=False)
    else:
        ax.set_axis_off()
        grid = _inset_grid(ax, n_rows, n_columns)
    for axes, panel in zip(grid, picture.panels, strict=False):
        draw_panel(axes, picture, panel)
    if ax is None:
        handles = legend_handles(grid[:n_panels])
        add_legend_below(figure, handles)
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


def draw_panel(ax: Axes, picture: PanelsPicture, panel: TaskPanel) -> None:
    """Draw the panel of one task."""
    if panel.background:
        lines = LineCollection(
            panel.background,
            colors=BACKGROUND_COLOR,
            linewidths=0.6,
            label="other tasks",
            zorder=1,
        )
        # The axes show the task; other tasks may be far away.
        ax.add_collection(lines, autolim=not panel.x)
    if panel.x:
        color = DATA_COLOR
        label = "observed"
        if picture.points_of:
            color = STRATEGIES[picture.points_of].color
            label = f"tested rows, {picture.points_of}"
        size = 3.0
        alpha = 0.7
        if picture.has_diagonal:
            size = 2.2
            alpha = 0.45
        ax.plot(
            panel.x,
            panel.y,
            "o",
            color=color,
            markersize=size,
            alpha=alpha,
            markeredgewidth=0,
            label=label,
            zorder=2,
        )
    if panel.band:
        x, low, high = np.transpose(panel.band)
        ax.fill_between(x, low, high, color=MULTITASK.color, alpha=0.2, linewidth=0)
    for name, line in panel.lines.items():
        # A strategy with too few rows has no points, but an entry in the legend.
        style = STRATEGIES[name]
        is_binned = picture.has_diagonal and picture.is_probability
        # The separate line shows on both sides of a multi-task line above it.
        look: dict[str, Any] = {"linewidth": 1.4, "zorder": 3}
        if name == "separate":
            look = {"linewidth": 2.2, "zorder": 2.5, "alpha": 0.8}
        ax.plot(
            *np.reshape(line, (-1, 2)).T,
            style.line,
            marker=style.marker if is_binned else None,
            markersize=3,
            color=style.color,
            label=picture.labels.get(name, name),
            **look,
        )
    if picture.has_diagonal:
        ends = [0.0, 1.0]
        if not picture.is_probability:
            numbers = [*panel.x, *panel.y]
            for line in panel.lines.values():
                for point in line:
                    numbers += point
            margin = 0.04 * (max(numbers) - min(numbers)) or 1.0
            ends = [min(numbers) - margin, max(numbers) + margin]
        ax.plot(ends, ends, **DIAGONAL, label="equal")
        ax.set(xlim=ends, ylim=ends)
    elif picture.is_probability:
        ax.set_ylim(-0.05, 1.05)
    ax.set_title(
        f"{clip_name(panel.name, MAX_PANEL_NAME)}\n{panel.note}".rstrip(),
        fontsize=SMALL_SIZE,
        parse_math=False,
        loc="left",
    )
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
