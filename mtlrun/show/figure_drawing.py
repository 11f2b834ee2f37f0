"""Draw the figures of runs: curves, matrices, ranks, pairs of numbers, verdicts.

They are the classes of `mtlrun.show.figures`. Sizes named ``..._INCHES`` are in inches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Normalize, to_hex, to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle, Wedge
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from mtlrun.show.canvas import (
    add_legend_below,
    disable_math,
    draw,
    drawing_style,
    legend_handles,
)
from mtlrun.show.figures import (
    MAX_NAMES,
    SQUARES,
    Dumbbell,
    DumbbellPanel,
    Figure,
    HeatMap,
    Line,
    Panel,
    RankDiagram,
    Strip,
    are_numbers,
)
from mtlrun.show.palette import COLORS
from mtlrun.show.ranking import Ranking
from mtlrun.show.report_table import number, show
from mtlrun.stats import critical_difference

#: Markers and line styles of further curves, which repeat the colors.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
LINES = ("-", "--", ":", "-.")

# Panels of curves.
#: Width and height of a panel of curves.
PANEL_INCHES = (3.6, 3.0)
#: Height of a panel of a figure that has only matrices.
MIN_MAP_INCHES = 1.5
#: Up to this number of panels stand in one row, more panels in rows of
#: `PANELS_PER_ROW`.
MAX_SINGLE_ROW = 2
PANELS_PER_ROW = 2
#: Width of a column of the legend: handle, and each letter of the longest label.
LEGEND_HANDLE_INCHES = 0.5
LEGEND_LETTER_INCHES = 0.07
LEGEND_LINE_INCHES = 0.22
TITLE_INCHES = 0.3
#: Greatest number of values of a sweep that have a tick each.
MAX_TICKS = 9
#: Logarithmic axes that span less than this factor have ticks between powers of ten.
SHORT_LOG_SPAN = 30
#: Gray mixed into the color of published curves, and its share.
PALE_GRAY = 0.62
PALE_SHARE = 0.5
#: Width of curves without markers.
SMOOTH_WIDTH = 1.8
#: Widths of the first and the last curve of a panel. They decrease in between, so that
#: of equal curves the first one shows on both sides of the last.
FIRST_WIDTH = 2.6
LAST_WIDTH = 1.1

# Matrices.
#: Number of colors of a map. matplotlib draws a color bar of fewer than 50 colors as
#: shapes rather than as an image.
N_MAP_COLORS = 41
SEQUENTIAL = "viridis"
#: Around a center, blue is above it, as in the pictures of the guide.
DIVERGING = "RdBu"
#: Size of a cell without a number; width and height of a cell with one.
MAP_CELL_INCHES = (0.17, 0.17)
NUMBER_CELL_INCHES = (0.42, 0.2)
#: Space to the right of a matrix for the color bar, and above it for the title.
MAP_SIDE_INCHES = 1.2
MAP_HEAD_INCHES = 0.5
#: The font size of names, in points, is the first number divided by the number of
#: names, but not below the second.
NAME_POINTS_BY_COUNT = 140
MIN_NAME_POINTS = 7.0
MAX_NAME_POINTS = 8.0
POINTS_PER_INCH = 72
#: Average width of a letter, as a share of the font size.
LETTER_WIDTH = 0.6

# Diagrams of ranks.
#: Level of Nemenyi's test.
SIGNIFICANCE = 0.05
RANK_AXIS_INCHES = 3.0
RANK_LETTER_INCHES = 0.085
RANK_LABEL_GAP_INCHES = 0.06
#: Space above several diagrams.
HEADING_INCHES = 0.3

# Dumbbells.
DUMBBELLS_PER_ROW = 2
DUMBBELL_INCHES = 2.3
#: Width of a panel that stands alone.
SINGLE_DUMBBELL_INCHES = 3.6
DUMBBELL_LINE_INCHES = 0.2
#: Height of a panel without its lines.
DUMBBELL_FRAME_INCHES = 0.75
DUMBBELL_LETTER_INCHES = 0.07
#: Published numbers are rings. Computed numbers within and out of tolerance differ in
#: color and in shape.
RING_COLOR = "#1c2126"
AGREES_COLOR = COLORS[0]
DIFFERS_COLOR = COLORS[3]

# Strips of verdicts.
STRIP_TITLE_INCHES = 0.26
STRIP_LEGEND_INCHES = 0.26


# ------------------------------------------------------- panels of curves, matrices


@draw.register
@drawing_style()
def _draw_figure(figure: Figure) -> Canvas:
    """Draw the panels of a figure, with one legend below them."""
    n_panels = len(figure.panels)
    n_columns = PANELS_PER_ROW
    if n_panels <= MAX_SINGLE_ROW:
        n_columns = n_panels
    n_rows = -(-n_panels // n_columns)
    labels = _labels(figure)
    # All panels have the size of the largest one, in inches.
    width, height = PANEL_INCHES
    maps = [panel for panel in figure.panels if isinstance(panel, HeatMap)]
    if len(maps) == n_panels:
        height = MIN_MAP_INCHES
    for heat_map in maps:
        cell_width, cell_height = _cell_size(heat_map)
        map_width = cell_width * len(heat_map.columns) + MAP_SIDE_INCHES
        width = max(width, map_width + _names_length(heat_map.rows))
        map_height = cell_height * len(heat_map.rows) + MAP_HEAD_INCHES
        height = max(height, map_height + _names_length(heat_map.columns))
    n_letters = max(map(len, labels), default=0)
    label_width = 1.0
    if labels:
        label_width = LEGEND_HANDLE_INCHES + LEGEND_LETTER_INCHES * n_letters
    n_fitting = int(width * n_columns / label_width)
    legend_columns = max(1, min(len(labels), 2 * n_columns, n_fitting))
    legend_height = LEGEND_LINE_INCHES * -(-len(labels) // legend_columns)
    size = (width * n_columns, height * n_rows + TITLE_INCHES + legend_height)
    canvas = Canvas(figsize=size, layout="constrained")
    grid = canvas.subplots(n_rows, n_columns, squeeze=False).ravel()
    panel_axes = grid[:n_panels]
    for axes, panel in zip(panel_axes, figure.panels, strict=True):
        if isinstance(panel, HeatMap):
            _draw_map(canvas, axes, panel)
        else:
            _draw_panel(axes, figure, panel)
    for axes in grid[n_panels:]:
        axes.remove()
    canvas.suptitle(figure.title, fontsize=10)
    # A curve looks as in the last panel.
    handles = legend_handles(reversed(panel_axes))
    shown_handles = {label: handles[label] for label in labels if label in handles}
    if shown_handles:
        add_legend_below(canvas, shown_handles, legend_columns)
    disable_math(canvas)
    return canvas


def _labels(figure: Figure) -> list[str]:
    """Return the labels of the curves of a figure, published ones last."""
    labels: dict[str, None] = {}
    for panel in figure.panels:
        if isinstance(panel, Panel):
            for curve in panel.curves:
                labels[curve.label] = None
    return sorted(labels, key=lambda label: label.endswith("(published)"))


def _draw_panel(axes: Axes, figure: Figure, panel: Panel) -> None:
    has_numbers = are_numbers(figure.values)
    last_index = max(1, len(panel.curves) - 1)
    for index, curve in enumerate(panel.curves):
        x = curve.x
        if not has_numbers:
            # Values such as texts stand at equal distances.
            x = list(map(figure.values.index, curve.x))
        width = FIRST_WIDTH - (FIRST_WIDTH - LAST_WIDTH) * index / last_index
        colour_index = curve.place
        if colour_index is None:
            colour_index = index
        _draw_curve(axes, curve, colour_index, x, width)
    if panel.diagonal:
        values: list[Any] = []
        for curve in panel.curves:
            values += [*curve.x, *curve.y]
        ends = [min(values), max(values)]
        axes.plot(ends, ends, color="#777777", linewidth=0.8, linestyle=":", zorder=0)
    is_x_log = panel.x_log
    if is_x_log is None:
        is_x_log = figure.log
    for axis_name, is_log in (("x", is_x_log), ("y", panel.log)):
        if is_log:
            _set_log(axes, axis_name)
        else:
            _set_linear(axes, panel, axis_name)
    if figure.values and (not has_numbers or len(figure.values) <= MAX_TICKS):
        ticks = list(figure.values)
        published: list[Any] = []
        for curve in panel.curves:
            if curve.published:
                published += curve.x
        if published and has_numbers:
            ticks = sorted({*ticks, min(published), max(published)})
        texts = []
        for value in ticks:
            if value in figure.values:
                texts.append(show(value))
            else:
                # Published values between the others were read from a picture.
                texts.append(show(value, "seconds"))
        positions: Sequence[Any] = range(len(ticks))
        if has_numbers:
            positions = ticks
        axes.set_xticks(positions, texts)
        axes.xaxis.set_minor_locator(NullLocator())
    for text, position in panel.marks.items():
        axes.axvline(position, color="#777777", linewidth=0.8, linestyle=":")
        axes.text(
            position,
            1.01,
            text,
            transform=axes.get_xaxis_transform(),
            fontsize=7,
            color="#444444",
            ha="center",
            va="bottom",
        )
    x_label = panel.axis
    if x_label is None:
        x_label = figure.axis
    axes.set_xlabel(x_label)
    axes.set_ylabel(panel.quantity)
    # Marks are written between the panel and its title.
    title_pad = 14 if panel.marks else None
    axes.set_title(panel.title, fontsize=9, pad=title_pad)


def _set_linear(axes: Axes, panel: Panel, axis_name: str) -> None:
    """Set the ticks of a linear axis.

    Whole numbers get whole ticks. A vertical axis with a single value starts at zero,
    because matplotlib would magnify rounding errors.
    """
    axis: Axis = axes.yaxis
    if axis_name == "x":
        axis = axes.xaxis
    values: list[Any] = []
    for curve in panel.curves:
        values += curve.x if axis_name == "x" else curve.y
    if not values or not are_numbers(values):
        return
    if all(map(float.is_integer, map(float, values))):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if axis_name == "x":
        return
    has_error_bars = any(any(curve.spread) for curve in panel.curves)
    if min(values) == max(values) and not has_error_bars:
        end = 2 * values[0]
        axes.set_ylim(min(0.0, end), max(0.0, end) or 1.0)


def _set_log(axes: Axes, axis_name: str) -> None:
    """Make an axis logarithmic; a short one has ticks at 1, 2 and 5."""
    axes.set(**{f"{axis_name}scale": "log"})
    if axis_name == "x":
        axis: Axis = axes.xaxis
        limits = axes.dataLim.intervalx
    else:
        axis = axes.yaxis
        limits = axes.dataLim.intervaly
    low, high = sorted(limits)
    if 0 < low < high < SHORT_LOG_SPAN * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(_two_digits)
    axis.set_minor_formatter(NullFormatter())


def _two_digits(value: float, position: object) -> str:
    """Format the value of a tick, for axes and color bars."""
    return number(value, 2)


def _draw_curve(
    axes: Axes, curve: Line, index: int, x: Sequence[Any], width: float
) -> None:
    """Draw one method with the color and marker of this index.

    A curve without points is drawn, too: it keeps its entry in the legend.
    """
    colour = COLORS[index % len(COLORS)]
    line_style = LINES[index // len(COLORS) % len(LINES)]
    marker: dict[str, Any] = {"marker": MARKERS[index % len(MARKERS)], "markersize": 4}
    if len(x) > MAX_TICKS * 3 and not curve.points:
        marker["markevery"] = max(1, len(x) // MAX_TICKS)
    if curve.published:
        pale = (1 - PALE_SHARE) * np.array(to_rgb(colour)) + PALE_SHARE * PALE_GRAY
        style = marker | {
            "color": to_hex(pale.tolist()),
            "linestyle": (0, (4, 2)),
            "linewidth": 0.8,
            "markerfacecolor": "none",
            "zorder": 1.5,
            "markersize": 3,
        }
        axes.plot(x, curve.y, label=curve.label, **style)
        return
    if curve.smooth:
        marker = {}
        width = SMOOTH_WIDTH
    if curve.low:
        axes.fill_between(
            x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0
        )
    if curve.points:
        line_style = "none"
    half_lengths = curve.spread if any(curve.spread) else None
    axes.errorbar(
        x,
        curve.y,
        yerr=half_lengths,
        label=curve.label,
        color=colour,
        linestyle=line_style,
        linewidth=width,
        elinewidth=0.7,
        capsize=2,
        **marker,
    )


def _name_points(names: Sequence[str]) -> float:
    """Return the font size of names next to an axis, in points."""
    size = NAME_POINTS_BY_COUNT / max(1, len(names))
    return min(MAX_NAME_POINTS, max(MIN_NAME_POINTS, size))


def _names_length(names: Sequence[str]) -> float:
    """Return the space of the names next to a matrix, in inches.

    It is 0 if there are too many names to write.
    """
    if len(names) > MAX_NAMES:
        return 0.0
    n_letters = max(map(len, names), default=0)
    return LETTER_WIDTH * _name_points(names) / POINTS_PER_INCH * n_letters


def _cell_size(panel: HeatMap) -> tuple[float, float]:
    """Return the width and height of a cell of a matrix, in inches."""
    if panel.has_numbers:
        return NUMBER_CELL_INCHES
    return MAP_CELL_INCHES


def _draw_map(canvas: Canvas, axes: Axes, panel: HeatMap) -> None:
    """Draw a matrix with its first row on top.

    The cells are drawn as shapes, so that a vector file holds no image of pixels.
    """
    present = [value for value in chain(*panel.values) if value is not None]
    low = min(present, default=0.0)
    high = max(present, default=1.0)
    map_name = SEQUENTIAL
    if panel.centre is not None:
        map_name = DIVERGING
        reach = max(high - panel.centre, panel.centre - low) or 1.0
        low = panel.centre - reach
        high = panel.centre + reach
    colours = mpl.colormaps[map_name].resampled(N_MAP_COLORS)
    # None becomes NaN.
    values = np.array(panel.values, dtype=float)
    mesh = axes.pcolormesh(values, cmap=colours, norm=Normalize(low, high))
    axes.invert_yaxis()
    cell_width, cell_height = _cell_size(panel)
    map_width = cell_width * max(1, len(panel.columns))
    axes.set_box_aspect(cell_height * len(panel.rows) / map_width)
    axes.grid(visible=False)
    _set_names(axes.xaxis, panel.columns, rotation=90)
    _set_names(axes.yaxis, panel.rows, rotation=0)
    if panel.has_numbers:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                if math.isnan(value):
                    continue
                rgb = colours((value - low) / (high - low or 1.0))[:3]
                is_dark = sum(rgb) < 1.2
                axes.text(
                    j + 0.5,
                    i + 0.5,
                    show(value, "small"),
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if is_dark else "black",
                )
    axes.set_title(panel.title, fontsize=9)
    canvas.colorbar(mesh, ax=axes, shrink=0.8, format=_two_digits)


def _set_names(axis: Axis, names: Sequence[str], *, rotation: int) -> None:
    """Write the names of the rows or columns of a matrix; too many are left out."""
    size = _name_points(names)
    if len(names) > MAX_NAMES:
        names = []
    positions = [index + 0.5 for index in range(len(names))]
    axis.set_ticks(positions, names, rotation=rotation, fontsize=size, parse_math=False)


# ------------------------------------------------------------- diagrams of ranks


@draw.register
@drawing_style()
def _draw_ranks(figure: RankDiagram) -> Canvas:
    """Draw critical-difference diagrams, one below the other.

    All of them are as wide as the longest labels require.
    """
    layouts = list(map(_RankLayout, figure.rankings))
    left_margin = max(layout.left_margin for layout in layouts)
    right_margin = max(layout.right_margin for layout in layouts)
    has_heading = len(layouts) > 1
    heading_height = 0.0
    if has_heading:
        heading_height = HEADING_INCHES
    width = RANK_AXIS_INCHES + (left_margin + right_margin)
    height = heading_height + sum(layout.height for layout in layouts)
    canvas = Canvas(figsize=(width, height))
    top = height - heading_height
    for layout, ranking in zip(layouts, figure.rankings, strict=True):
        bottom = top - layout.height
        axes = canvas.add_axes(
            (0.0, bottom / height, 1.0, (layout.height - 0.35) / height)
        )
        _draw_ranking(axes, layout, left_margin, right_margin)
        if has_heading:
            canvas.text(
                0.5,
                (top - 0.05) / height,
                figure.title_of(ranking),
                ha="center",
                va="top",
            )
        top = bottom
    title_height = 0.98
    if has_heading:
        title_height = 1 - 0.08 / height
    canvas.suptitle(figure.title, fontsize=10, y=title_height)
    disable_math(canvas)
    return canvas


class _RankLayout:
    """Layout of a critical-difference diagram.

    The methods are sorted by average rank. Labels of the better half stand to the left,
    the others to the right.

    Attributes
    ----------
    ranks : list of float
        Average ranks, sorted.
    groups : list of (int, int)
        First and last index of methods that do not differ significantly.
    n_left : int
        Number of labels to the left.
    labels, colours : list of str
    left_margin, right_margin : float
        Inches of the labels.
    bottom : float
        Number of lines below the axis.
    height : float
        Inches of the diagram with its title.
    """

    def __init__(self, ranking: Ranking) -> None:
        order = sorted(ranking.average.items(), key=itemgetter(1))
        self.ranks = [rank for _, rank in order]
        difference = critical_difference(len(order), len(ranking.values), SIGNIFICANCE)
        self.groups = alike(self.ranks, difference)
        self.n_left = (len(order) + 1) // 2
        self.labels = []
        self.colours = []
        for index, (method, rank) in enumerate(order):
            if index < self.n_left:
                self.labels.append(f"{method} ({rank:.2f})")
            else:
                self.labels.append(f"({rank:.2f}) {method}")
            self.colours.append(COLORS[ranking.methods.index(method) % len(COLORS)])
        self.left_margin = _label_margin(self.labels[: self.n_left])
        self.right_margin = _label_margin(self.labels[self.n_left :])
        self.bottom = 0.5 * len(self.groups) + self.n_left + 0.5
        self.height = 0.6 + 0.22 * self.bottom


def _label_margin(labels: Sequence[str]) -> float:
    return RANK_LETTER_INCHES * (1 + max(map(len, labels)))


def _draw_ranking(
    axes: Axes, layout: _RankLayout, left_margin: float, right_margin: float
) -> None:
    """Draw one line per method, and one bar per group of similar methods."""
    ranks = layout.ranks
    low = math.floor(ranks[0])
    high = math.ceil(ranks[-1])
    ranks_per_inch = (high - low) / RANK_AXIS_INCHES
    axes.set_axis_off()
    axes.set(
        xlim=(low - left_margin * ranks_per_inch, high + right_margin * ranks_per_inch),
        ylim=(layout.bottom, -1.5),
    )
    ticks = range(low, high + 1)
    axes.plot(
        ticks, [0] * len(ticks), color="black", linewidth=1.0, marker="|", markersize=6
    )
    for tick in ticks:
        axes.text(tick, -0.5, str(tick), ha="center", va="bottom")
    for index, (first, last) in enumerate(layout.groups):
        bar_level = 0.5 * (index + 1)
        axes.plot(
            [ranks[first], ranks[last]],
            [bar_level, bar_level],
            color="black",
            linewidth=3.0,
        )
    gap = RANK_LABEL_GAP_INCHES * ranks_per_inch
    first_level = 0.5 * len(layout.groups) + 1
    for index, rank in enumerate(ranks):
        if index < layout.n_left:
            edge = low
            level = first_level + index
            label_x = edge - gap
            align = "right"
        else:
            edge = high
            level = first_level + (len(ranks) - 1 - index)
            label_x = edge + gap
            align = "left"
        colour = layout.colours[index]
        axes.plot([rank, rank, edge], [0, level, level], color=colour, linewidth=1.0)
        axes.text(label_x, level, layout.labels[index], ha=align, va="center")


def alike(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Return the largest groups of sorted ranks that differ by less than `difference`.

    Each group is the index of its first and its last rank.
    """
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = first
        for index, other in enumerate(ranks):
            if other - rank < difference:
                last = index
        extends_last_group = not groups or last > groups[-1][1]
        if last > first and extends_last_group:
            groups.append((first, last))
    return groups


# --------------------------------------------------------------------- dumbbells


@draw.register
@drawing_style()
def _draw_dumbbell(figure: Dumbbell) -> Canvas:
    """Draw published numbers joined to ours: two panels in a row, a legend below."""
    panels = figure.panels
    n_columns = min(len(panels), DUMBBELLS_PER_ROW)
    n_rows = -(-len(panels) // n_columns)
    n_letters = max(len(pair.label) for pair in figure.pairs)
    panels_width = DUMBBELL_INCHES * n_columns
    if n_columns == 1:
        panels_width = SINGLE_DUMBBELL_INCHES
    heights = []
    for first in range(0, len(panels), n_columns):
        n_lines = max(len(panel.pairs) for panel in panels[first : first + n_columns])
        heights.append(DUMBBELL_FRAME_INCHES + DUMBBELL_LINE_INCHES * n_lines)
    width = panels_width + DUMBBELL_LETTER_INCHES * n_letters + 0.3
    canvas = Canvas(figsize=(width, sum(heights) + 0.7), layout="constrained")
    grid = canvas.subplots(
        n_rows, n_columns, squeeze=False, height_ratios=heights
    ).ravel()
    for index, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        labels = panel.labels
        has_left_panel = index % n_columns > 0
        if has_left_panel and labels == panels[index - 1].labels:
            # The labels of the panel to the left serve both.
            labels = []
        _draw_pairs(axes, panel, labels)
    for axes in grid[len(panels) :]:
        axes.remove()
    canvas.suptitle(figure.title, fontsize=10)
    handles = legend_handles(canvas.axes)
    # Two columns keep the legend as narrow as the panels.
    add_legend_below(canvas, handles, n_columns=2)
    disable_math(canvas)
    return canvas


def _draw_pairs(axes: Axes, panel: DumbbellPanel, labels: Sequence[str]) -> None:
    """Draw the pairs of a panel from top to bottom; without `labels` none are
    written.
    """
    for level, pair in enumerate(panel.pairs):
        if pair.ours is not None:
            ends = [pair.published, pair.ours]
            axes.plot(ends, [level, level], color="#9aa5b1", linewidth=2, zorder=1)
            style: dict[str, Any] = {
                "color": DIFFERS_COLOR,
                "marker": "D",
                "label": "ours, out of tolerance",
            }
            if pair.agrees:
                style = {
                    "color": AGREES_COLOR,
                    "marker": "o",
                    "label": "ours, within tolerance",
                }
            axes.errorbar(
                pair.ours,
                level,
                xerr=pair.std or None,
                markersize=4.5,
                elinewidth=0.8,
                linestyle="none",
                zorder=2,
                **style,
            )
        axes.plot(
            pair.published,
            level,
            color=RING_COLOR,
            marker="o",
            markersize=8,
            markerfacecolor="none",
            markeredgewidth=1.1,
            linestyle="none",
            label="published",
            zorder=3,
        )
    axes.set_ylim(len(panel.pairs) - 0.4, -0.6)
    axes.set_yticks(range(len(panel.pairs)))
    axes.set_yticklabels(labels or [""] * len(panel.pairs), parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    if panel.log:
        _set_log(axes, "x")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
        axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    if panel.axis != panel.title:
        axes.set_xlabel(panel.axis, fontsize=8)
    axes.set_title(panel.title, fontsize=9)


# ----------------------------------------------------------- strips of verdicts


@draw.register
@drawing_style()
def _draw_strip(figure: Strip) -> Canvas:
    """Draw one square per claim in the order of `SQUARES`, and a legend."""
    n_lines = [-(-len(row.squares) // SQUARES_PER_LINE) for row in figure.rows]
    present: set[str] = set()
    for row in figure.rows:
        present.update(row.counts)
    kinds = [kind for kind in SQUARES if kind in present]
    legend_lines = -(-len(kinds) // 2)
    margin = SQUARES_MARGIN_INCHES
    width = SQUARE_INCHES * SQUARES_PER_LINE + 2 * margin
    height = (
        STRIP_TITLE_INCHES * (1 + len(figure.rows))
        + SQUARE_INCHES * sum(n_lines)
        + STRIP_LEGEND_INCHES * legend_lines
        + 4 * margin
    )
    canvas = Canvas(figsize=(width, height))
    axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    # The axes are measured in inches from the upper left corner.
    axes.set(xlim=(0.0, width), ylim=(height, 0.0))
    axes.text(width / 2, 0.2, figure.title, fontsize=10, ha="center")
    top = STRIP_TITLE_INCHES + margin
    for row, row_lines in zip(figure.rows, n_lines, strict=True):
        axes.text(margin, top + 0.17, row.title, fontsize=9)
        top += STRIP_TITLE_INCHES
        squares = [s for kind in kinds for s in row.squares if s[0] == kind]
        for index, (kind, name) in enumerate(squares):
            line, column = divmod(index, SQUARES_PER_LINE)
            left = margin + SQUARE_INCHES * column
            corner = (left, top + SQUARE_INCHES * line)
            draw_square(axes, corner, kind, f"{kind}-{name}")
        top += SQUARE_INCHES * row_lines
    top += 2 * margin
    for index, kind in enumerate(kinds):
        column, line = divmod(index, legend_lines)
        left = margin + column * width / 2
        upper = top + STRIP_LEGEND_INCHES * line
        draw_square(axes, (left, upper), kind)
        text_x = left + SQUARE_INCHES + 0.08
        axes.text(text_x, upper + 0.15, SQUARES[kind], fontsize=9)
    disable_math(canvas)
    return canvas


#: Size of a square with its gap.
SQUARE_INCHES = 0.22


SQUARES_PER_LINE = 24


#: Space to the left of the squares.
SQUARES_MARGIN_INCHES = 0.1


#: Colors of a square and of the sign in it. The signs differ as well.
SQUARE_COLORS = {
    "holds": ("#0072B2", "#ffffff"),
    "follows": ("#0072B2", "#ffffff"),
    "partly": ("#9fd2f0", "#000000"),
    "depends": ("#F0E442", "#000000"),
    "undecided": ("#d9dee3", "#000000"),
    "fails": ("#D55E00", "#000000"),
    "unrun": ("#ffffff", "#5b6570"),
    "unpublished": ("#ffffff", "#5b6570"),
    "untested": ("#ffffff", "#5b6570"),
}


#: Lines of a sign, as shares of the square from its upper left corner.
SQUARE_SIGNS: dict[str, list[list[tuple[float, float]]]] = {
    "holds": [[(0.22, 0.55), (0.42, 0.75), (0.78, 0.27)]],
    "follows": [[(0.25, 0.4), (0.75, 0.4)], [(0.25, 0.6), (0.75, 0.6)]],
    "depends": [
        [(0.2, 0.5), (0.8, 0.5)],
        [(0.5, 0.2), (0.5, 0.8)],
        [(0.2, 0.85), (0.8, 0.85)],
    ],
    "undecided": [[(0.28, 0.4), (0.72, 0.4)], [(0.28, 0.62), (0.72, 0.62)]],
    "fails": [[(0.26, 0.26), (0.74, 0.74)], [(0.26, 0.74), (0.74, 0.26)]],
    "unrun": [[(0.5, 0.46), (0.5, 0.54)]],
    "unpublished": [[(0.3, 0.3), (0.3, 0.7)], [(0.7, 0.3), (0.7, 0.7)]],
    "untested": [[(0.3, 0.5), (0.7, 0.5)]],
}


def draw_square(
    axes: Axes, corner: tuple[float, float], kind: str, name: str | None = None
) -> None:
    """Draw a square with the sign of its kind; `name` is the id of its shape in SVG."""
    size = 0.86 * SQUARE_INCHES
    fill, ink = SQUARE_COLORS[kind]
    square = Rectangle(corner, size, size, facecolor=fill, edgecolor="#5b6570")
    square.set(linewidth=0.6, gid=name)
    axes.add_patch(square)
    left, top = corner
    if kind == "partly":
        center = (left + size / 2, top + size / 2)
        axes.add_patch(Wedge(center, 0.3 * size, 90, 270, facecolor=ink))
        ring = Wedge(center, 0.3 * size, 0, 360, facecolor="none", edgecolor=ink)
        axes.add_patch(ring)
    for line in SQUARE_SIGNS.get(kind, []):
        x = [left + size * across for across, _ in line]
        y = [top + size * down for _, down in line]
        axes.plot(x, y, color=ink, linewidth=1.4, solid_capstyle="round")
