"""Draws figures, as the same SVG on every machine with the same matplotlib; no other module of the report loads it."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex, to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle, Wedge
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from mtlrun.errors import UnknownNameError, UserError, shorten
from mtlrun.stats import critical_difference
from mtlrun.tables.figures import (
    MAX_NAMES,
    SQUARES,
    Drawing,
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
from mtlrun.tables.ranking import Ranking
from mtlrun.tables.report_table import number, show
from mtlrun.utils.io import write_atomic
from mtlrun.utils.text import sanitize

#: Okabe and Ito's palette, which colour-blind people can tell apart; a second round of it has dashed lines.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
LINES = ("-", "--", ":", "-.")
#: Text stays text, and ids do not depend on the clock or on chance.
STYLE: Any = {
    "svg.hashsalt": "mtlrun",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
}
PANEL_SIZE = (3.6, 3.0)
#: Width of a column of the legend in inches: so much, and so much per letter.
LEGEND_HANDLE, LEGEND_LETTER = 0.5, 0.07
#: With at most this many values every one is a tick.
MAX_TICKS = 9
#: More panels than this are set in rows of `PER_ROW`.
ONE_ROW, PER_ROW = 2, 2
#: Logarithmic axes that span less than this have ticks between the powers of ten.
SHORT_LOG = 30
#: Published curves: their colour is mixed with this grey.
PALE, PALE_SHARE = 0.62, 0.5
#: Colour of curves behind the others, and width of curves without markers.
BACKGROUND, SMOOTH_WIDTH = "#b0b0b0", 1.8
#: Heat maps: a color bar of fewer than 50 colors is drawn as shapes. Around a center,
#: blue is above it, as in the pictures of the guide.
COLOURS_OF_MAP = 41
SEQUENTIAL = "viridis"
DIVERGING = "RdBu"
#: Inches of a row or column of a matrix, of a column and a row with numbers, and of what lies around it.
MAP_STEP, NUMBER_STEPS, MAP_EDGE, MAP_HEAD = 0.17, (0.42, 0.2), 1.2, 0.5
#: Names of many rows are set smaller: this over their number, in points, but not below the second.
NAME_POINTS, LEAST_POINTS = 140, 7.0
#: Width of the first and of the last curve of a panel: of equal curves, the first ones show beside the last.
THICK, THIN = 2.6, 1.1
#: Diagrams of ranks: level of Nemenyi's test, inches of the axis, and of a letter of the labels beside it.
SIGNIFICANCE, RANK_INCHES, LABEL_LETTER, LABEL_GAP = 0.05, 3.0, 0.085, 0.06
#: Inches of what stands above several of them.
HEADING_INCHES = 0.3
#: Letters of a name below an axis.
LONGEST_X_NAME = 24
#: Letters of the name of a point.
LONGEST_POINT_NAME = 16
#: Dumbbells: panels in a row, inches of their width (a single panel is wider), of a line,
#: of the space around the lines of a panel, and of a letter of the labels.
PANELS_PER_ROW = 2
PAIR_INCHES = 2.3
ALONE_INCHES = 3.6
ROW_INCHES = 0.2
AROUND_ROWS = 0.75
PAIR_LETTER = 0.07
#: Published numbers are rings in the first colour; ours agree in the second or do not
#: in the third. Their shapes differ, too.
RING_COLOUR = "#1c2126"
AGREES_COLOUR = COLOURS[0]
DIFFERS_COLOUR = COLOURS[3]
#: Strips: inches of a square with its gap, squares of a line, and inches of a title, of a
#: line of the legend and of the margin.
SQUARE_INCHES = 0.22
SQUARES_PER_LINE = 24
STRIP_TITLE = 0.26
STRIP_LEGEND = 0.26
STRIP_MARGIN = 0.1
#: Colour of the squares of a kind, and of the sign in it; the signs differ as well.
SQUARE_COLOURS = {
    "holds": ("#0072B2", "#ffffff"),
    "partly": ("#9fd2f0", "#000000"),
    "depends": ("#F0E442", "#000000"),
    "undecided": ("#d9dee3", "#000000"),
    "fails": ("#D55E00", "#000000"),
    "untested": ("#ffffff", "#5b6570"),
}
#: Lines of a sign, in shares of the square from its upper left corner.
SQUARE_SIGNS: dict[str, list[list[tuple[float, float]]]] = {
    "holds": [[(0.22, 0.55), (0.42, 0.75), (0.78, 0.27)]],
    "depends": [
        [(0.2, 0.5), (0.8, 0.5)],
        [(0.5, 0.2), (0.5, 0.8)],
        [(0.2, 0.85), (0.8, 0.85)],
    ],
    "undecided": [[(0.28, 0.4), (0.72, 0.4)], [(0.28, 0.62), (0.72, 0.62)]],
    "fails": [[(0.26, 0.26), (0.74, 0.74)], [(0.26, 0.74), (0.74, 0.26)]],
    "untested": [[(0.5, 0.46), (0.5, 0.54)]],
}
FORMATS = (".svg", ".png", ".pdf")
#: What leaves the date out of a file.
NO_DATE: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None},
}


def draw(figure: Figure) -> Canvas:
    """Draw a figure: its panels side by side, one legend below them."""
    with mpl.rc_context(STYLE):
        count = len(figure.panels)
        columns = count if count <= ONE_ROW else PER_ROW
        lines = -(-count // columns)
        labels = _labels(figure)
        width, height = PANEL_SIZE
        maps = [panel for panel in figure.panels if isinstance(panel, HeatMap)]
        if len(maps) == count:
            height = 1.5
        width = max([width, *(_map_size(panel)[0] for panel in maps)])
        height = max([height, *(_map_size(panel)[1] for panel in maps)])
        height += max(_x_names_length(panel) for panel in figure.panels)
        widest = max(
            (LEGEND_HANDLE + LEGEND_LETTER * len(label) for label in labels),
            default=1.0,
        )
        legend_columns = max(
            1, min(len(labels), 2 * columns, int(width * columns / widest))
        )
        legend_height = 0.22 * -(-len(labels) // legend_columns)
        height = height * lines + 0.3 + legend_height
        canvas = Canvas(figsize=(width * columns, height), layout="constrained")
        grid = canvas.subplots(lines, columns, squeeze=False).ravel()
        for axes, panel in zip(grid[:count], figure.panels, strict=True):
            if isinstance(panel, HeatMap):
                _draw_map(canvas, axes, panel)
            else:
                _draw_panel(axes, figure, panel)
        for axes in grid[count:]:
            axes.remove()
        canvas.suptitle(figure.title, fontsize=10)
        handles = {
            t: h
            for axes in grid[:count]
            for h, t in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        order = [text for text in labels if text in handles]
        if order:
            shown = [handles[text] for text in order]
            canvas.legend(
                shown,
                order,
                loc="outside lower center",
                ncols=legend_columns,
                frameon=False,
            )
        _no_formulas(canvas)
    return canvas


def _labels(figure: Figure) -> list[str]:
    """Return the labels of the curves of a figure, published ones last."""
    labels = dict.fromkeys(
        c.label for p in figure.panels if isinstance(p, Panel) for c in p.curves
    )
    return sorted(labels, key=lambda text: text.endswith("(published)"))


def _no_formulas(canvas: Canvas) -> None:
    """Show dollar signs of names as they are: only the numbers at the ticks are set as formulas."""
    texts = [text for legend in canvas.legends for text in legend.get_texts()]
    for axes in canvas.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    for text in [*texts, *canvas.texts]:
        text.set_parse_math(False)


def _canvas(figure: Drawing) -> Any:
    if isinstance(figure, RankDiagram):
        return draw_ranks(figure)
    if isinstance(figure, Dumbbell):
        return draw_dumbbell(figure)
    if isinstance(figure, Strip):
        return draw_strip(figure)
    return draw(figure)


def file_content(canvas: Canvas, form: str) -> bytes:
    """Return the content of a file without a date; lines of SVG do not end with spaces."""
    stream = io.BytesIO()
    with mpl.rc_context(STYLE):
        canvas.savefig(stream, format=form, metadata=NO_DATE.get(form, {}), dpi=200)
    content = stream.getvalue()
    return (
        b"".join(line.rstrip() + b"\n" for line in content.splitlines())
        if form == "svg"
        else content
    )


def svg(figure: Drawing) -> str:
    """Return a figure as SVG."""
    return file_content(_canvas(figure), "svg").decode()


def write_drawing(
    figure: Drawing,
    path: Path,
    write: Callable[[Path, bytes], None] = write_atomic,
) -> None:
    """Write a figure into a file whose ending (svg, png or pdf) says the format; `write` is the way of doing it.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    write(path, file_content(_canvas(figure), path.suffix.lower().removeprefix(".")))


def draw_ranks(figure: RankDiagram) -> Canvas:
    """Draw critical-difference diagrams below each other, on axes as wide as the longest labels need."""
    diagrams = [_Ranks(ranking) for ranking in figure.rankings]
    margins = [max(diagram.margins[side] for diagram in diagrams) for side in (0, 1)]
    several = len(diagrams) > 1
    with mpl.rc_context(STYLE):
        height = (HEADING_INCHES if several else 0.0) + sum(
            diagram.height for diagram in diagrams
        )
        canvas = Canvas(figsize=(RANK_INCHES + sum(margins), height))
        top = height - (HEADING_INCHES if several else 0.0)
        for diagram, ranking in zip(diagrams, figure.rankings, strict=True):
            bottom = top - diagram.height
            axes = canvas.add_axes(
                (0.0, bottom / height, 1.0, (diagram.height - 0.35) / height)
            )
            _draw_ranks(axes, diagram, margins)
            if several:
                canvas.text(
                    0.5,
                    (top - 0.05) / height,
                    figure.title_of(ranking),
                    ha="center",
                    va="top",
                )
            top = bottom
        canvas.suptitle(
            figure.title, fontsize=10, y=0.98 if not several else 1 - 0.08 / height
        )
        _no_formulas(canvas)
    return canvas


class _Ranks:
    """What a critical-difference diagram shows: sorted methods, the better half to the left, and groups of them."""

    def __init__(self, ranking: Ranking) -> None:
        order = sorted(ranking.average.items(), key=lambda pair: pair[1])
        self.ranks = [rank for _, rank in order]
        self.groups = alike(
            self.ranks,
            critical_difference(len(order), len(ranking.values), SIGNIFICANCE),
        )
        self.better = (len(order) + 1) // 2
        self.labels = [
            f"{m} ({r:.2f})" if i < self.better else f"({r:.2f}) {m}"
            for i, (m, r) in enumerate(order)
        ]
        self.colours = [
            COLOURS[ranking.methods.index(method) % len(COLOURS)] for method, _ in order
        ]
        # Inches of the labels on both sides, and of a blank; lines below the axis; inches of all, with the title.
        sides = self.labels[: self.better], self.labels[self.better :]
        self.margins = [LABEL_LETTER * (1 + max(map(len, side))) for side in sides]
        self.bottom = 0.5 * len(self.groups) + self.better + 0.5
        self.height = 0.6 + 0.22 * self.bottom


def _draw_ranks(axes: Axes, diagram: _Ranks, margins: Sequence[float]) -> None:
    """Draw a line per method, and a bar per group."""
    ranks, better, last_place = diagram.ranks, diagram.better, len(diagram.ranks) - 1
    low, high = math.floor(ranks[0]), math.ceil(ranks[-1])
    inch = (high - low) / RANK_INCHES
    axes.set_axis_off()
    axes.set(
        xlim=(low - margins[0] * inch, high + margins[1] * inch),
        ylim=(diagram.bottom, -1.5),
    )
    ticks = range(low, high + 1)
    axes.plot(
        ticks, [0] * len(ticks), color="black", linewidth=1.0, marker="|", markersize=6
    )
    for tick in ticks:
        axes.text(tick, -0.5, str(tick), ha="center", va="bottom")
    for place, (first, last) in enumerate(diagram.groups):
        axes.plot(
            [ranks[first], ranks[last]],
            [0.5 * (place + 1)] * 2,
            color="black",
            linewidth=3.0,
        )
    for i, (rank, label, colour) in enumerate(
        zip(ranks, diagram.labels, diagram.colours, strict=True)
    ):
        edge, align = (low, "right") if i < better else (high, "left")
        level = 0.5 * len(diagram.groups) + 1 + (i if i < better else last_place - i)
        axes.plot([rank, rank, edge], [0, level, level], color=colour, linewidth=1.0)
        gap = LABEL_GAP * inch * (1 if align == "left" else -1)
        axes.text(edge + gap, level, label, ha=align, va="center")


def draw_dumbbell(figure: Dumbbell) -> Canvas:
    """Draw published numbers joined to ours: two panels in a row, a legend below."""
    panels = figure.panels
    n_columns = min(len(panels), PANELS_PER_ROW)
    n_rows = -(-len(panels) // n_columns)
    longest = max(len(pair.label) for pair in figure.pairs)
    across = ALONE_INCHES if n_columns == 1 else PAIR_INCHES * n_columns
    heights = []
    for first in range(0, len(panels), n_columns):
        n_pairs = max(len(p.pairs) for p in panels[first : first + n_columns])
        heights.append(AROUND_ROWS + ROW_INCHES * n_pairs)
    with mpl.rc_context(STYLE):
        size = (across + PAIR_LETTER * longest + 0.3, sum(heights) + 0.7)
        canvas = Canvas(figsize=size, layout="constrained")
        grid = canvas.subplots(
            n_rows, n_columns, squeeze=False, height_ratios=heights
        ).ravel()
        for index, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
            labels = [pair.label for pair in panel.pairs]
            left = panels[index - 1] if index % n_columns else None
            repeated = left is not None and labels == [p.label for p in left.pairs]
            _draw_pairs(axes, panel, [] if repeated else labels)
        for axes in grid[len(panels) :]:
            axes.remove()
        canvas.suptitle(figure.title, fontsize=10)
        handles: dict[str, Any] = {}
        for axes in canvas.axes:
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(text, handle)
        # Named groups of two keep the legend as narrow as the panels.
        canvas.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=2,
            frameon=False,
        )
        _no_formulas(canvas)
    return canvas


def _draw_pairs(axes: Axes, panel: DumbbellPanel, labels: Sequence[str]) -> None:
    """Draw the pairs of a panel, the first on top; `labels` is empty if they stand elsewhere."""
    for level, pair in enumerate(panel.pairs):
        if pair.ours is not None:
            ends = [pair.published, pair.ours]
            axes.plot(ends, [level, level], color="#9aa5b1", linewidth=2, zorder=1)
            style: dict[str, Any] = {
                "color": DIFFERS_COLOUR,
                "marker": "D",
                "label": "ours, out of tolerance",
            }
            if pair.agrees:
                style = {
                    "color": AGREES_COLOUR,
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
            color=RING_COLOUR,
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


def draw_strip(figure: Strip) -> Canvas:
    """Draw a square per claim in the order of `SQUARES`, a title per paper and a legend."""
    n_lines = [-(-len(row.squares) // SQUARES_PER_LINE) for row in figure.rows]
    present = {kind for row in figure.rows for kind in row.counts}
    kinds = [kind for kind in SQUARES if kind in present]
    legend_lines = -(-len(kinds) // 2)
    width = SQUARE_INCHES * SQUARES_PER_LINE + 2 * STRIP_MARGIN
    height = (
        STRIP_TITLE * (1 + len(figure.rows))
        + SQUARE_INCHES * sum(n_lines)
        + STRIP_LEGEND * legend_lines
        + 4 * STRIP_MARGIN
    )
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(width, height))
        axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        # The axes are measured in inches from the upper left corner.
        axes.set(xlim=(0.0, width), ylim=(height, 0.0))
        axes.text(width / 2, 0.2, figure.title, fontsize=10, ha="center")
        top = STRIP_TITLE + STRIP_MARGIN
        for row, lines in zip(figure.rows, n_lines, strict=True):
            axes.text(STRIP_MARGIN, top + 0.17, row.title, fontsize=9)
            top += STRIP_TITLE
            order = list(SQUARES)
            squares = sorted(row.squares, key=lambda square: order.index(square[0]))
            for index, (kind, name) in enumerate(squares):
                line, column = divmod(index, SQUARES_PER_LINE)
                at = (
                    STRIP_MARGIN + SQUARE_INCHES * column,
                    top + SQUARE_INCHES * line,
                )
                _draw_square(axes, at, kind, f"{kind}-{name}")
            top += SQUARE_INCHES * lines
        top += 2 * STRIP_MARGIN
        for index, kind in enumerate(kinds):
            column, line = divmod(index, legend_lines)
            left = STRIP_MARGIN + column * width / 2
            upper = top + STRIP_LEGEND * line
            _draw_square(axes, (left, upper), kind)
            text = left + SQUARE_INCHES + 0.08
            axes.text(text, upper + 0.15, SQUARES[kind], fontsize=9)
        _no_formulas(canvas)
    return canvas


def _draw_square(
    axes: Axes, corner: tuple[float, float], kind: str, name: str | None = None
) -> None:
    """Draw a square with the sign of its kind; `name` becomes the id of its shape in the file."""
    size = 0.86 * SQUARE_INCHES
    fill, ink = SQUARE_COLOURS[kind]
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


def alike(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Return the largest groups of sorted ranks that differ by less than `difference`: first and last place."""
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(i for i, other in enumerate(ranks) if other - rank < difference)
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def check_drawing(what: str, kind: str, kinds: Collection[str], out: Path) -> None:
    """Refuse a kind of figure that there is not, or a file of a format that cannot be drawn."""
    if kind not in kinds:
        raise UnknownNameError(what, kind, kinds)
    if out.suffix.lower() not in FORMATS:
        raise UserError(
            f"{out}: unknown format {out.suffix!r}",
            f"End the name with one of {', '.join(FORMATS)}.",
        )


def _draw_panel(axes: Axes, figure: Figure, panel: Panel) -> None:
    numbers = are_numbers(figure.values)
    for place, curve in enumerate(panel.curves):
        # Where the points of a curve stand on the horizontal axis.
        x = curve.x if numbers else [figure.values.index(value) for value in curve.x]
        width = THICK - (THICK - THIN) * place / max(1, len(panel.curves) - 1)
        _draw_curve(
            axes, curve, place if curve.place is None else curve.place, x, width
        )
    if panel.diagonal:
        ends = [
            bound(v for c in panel.curves for v in (*c.x, *c.y)) for bound in (min, max)
        ]
        axes.plot(ends, ends, color="#777777", linewidth=0.8, linestyle=":", zorder=0)
    for name, log in (
        ("x", figure.log if panel.x_log is None else panel.x_log),
        ("y", panel.log),
    ):
        if log:
            _set_log(axes, name)
        else:
            _set_linear(axes, panel, name)
    if figure.values and (not numbers or len(figure.values) <= MAX_TICKS):
        theirs = [x for curve in panel.curves if curve.published for x in curve.x]
        ticks = (
            sorted({*figure.values, min(theirs), max(theirs)})
            if theirs and numbers
            else figure.values
        )
        axes.set_xticks(
            ticks if numbers else range(len(ticks)),
            [show(v) if v in figure.values else show(v, "seconds") for v in ticks],
        )
        axes.xaxis.set_minor_locator(NullLocator())
    for text, at in panel.marks.items():
        axes.axvline(at, color="#777777", linewidth=0.8, linestyle=":")
        place_of_text: dict[str, Any] = {
            "fontsize": 7,
            "color": "#444444",
            "ha": "center",
            "va": "bottom",
        }
        axes.text(at, 1.01, text, transform=axes.get_xaxis_transform(), **place_of_text)
    if panel.x_names:
        axes.set_xticks(
            range(1, len(panel.x_names) + 1),
            _clipped(panel.x_names),
            rotation=90,
            fontsize=_name_points(panel.x_names),
            parse_math=False,
        )
    if panel.limits is not None:
        axes.set_ylim(panel.limits)
    axes.set_xlabel(figure.axis if panel.axis is None else panel.axis)
    axes.set_ylabel(panel.quantity)
    axes.set_title(panel.title, fontsize=9, pad=14 if panel.marks else None)


def _set_linear(axes: Axes, panel: Panel, name: str) -> None:
    """Give whole numbers whole ticks; an axis of one value begins at zero instead of enlarging its digits."""
    values = [
        v for curve in panel.curves for v in (curve.x if name == "x" else curve.y)
    ]
    if not values or not are_numbers(values):
        return
    if all(float(v).is_integer() for v in values):
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if (
        name == "y"
        and min(values) == max(values)
        and not any(any(curve.spread) for curve in panel.curves)
    ):
        axes.set_ylim(min(0.0, 2 * values[0]), max(0.0, 2 * values[0]) or 1.0)


def _set_log(axes: Axes, name: str) -> None:
    """Make an axis logarithmic; a short one has ticks at 1, 2 and 5, none has numbers between its ticks."""
    axes.set(**{f"{name}scale": "log"})
    axis, limits = (
        (axes.xaxis, axes.dataLim.intervalx)
        if name == "x"
        else (axes.yaxis, axes.dataLim.intervaly)
    )
    low, high = sorted(limits)
    if 0 < low < high < SHORT_LOG * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: number(value, 2))
    axis.set_minor_formatter(NullFormatter())


def _draw_curve(
    axes: Axes, curve: Line, place: int, x: Sequence[Any], width: float
) -> None:
    """Draw one method, with the colour of its place; one without a number here keeps its place in the legend."""
    colour, line = (
        COLOURS[place % len(COLOURS)],
        LINES[place // len(COLOURS) % len(LINES)],
    )
    marker: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "markersize": 4}
    if len(x) > MAX_TICKS * 3 and not curve.points:
        marker["markevery"] = max(1, len(x) // MAX_TICKS)
    if curve.published:
        red, green, blue = (
            (1 - PALE_SHARE) * part + PALE_SHARE * PALE for part in to_rgb(colour)
        )
        style: dict[str, Any] = {
            "color": to_hex((red, green, blue)),
            "linestyle": (0, (4, 2)),
            "linewidth": 0.8,
        }
        style |= {"markerfacecolor": "none", "zorder": 1.5, "markersize": 3}
        axes.plot(x, curve.y, label=curve.label, **(marker | style))
        return
    if curve.background:
        axes.plot(
            x, curve.y, label=curve.label, color=BACKGROUND, linewidth=0.6, zorder=1.5
        )
        return
    if curve.smooth:
        marker = {}
        width = SMOOTH_WIDTH
    if curve.low:
        axes.fill_between(
            x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0
        )
    axes.errorbar(
        x,
        curve.y,
        yerr=curve.spread if any(curve.spread) else None,
        label=curve.label,
        color=colour,
        linestyle="none" if curve.points else line,
        linewidth=width,
        elinewidth=0.7,
        capsize=2,
        **marker,
    )
    _name_of_points(axes, curve)


def _name_of_points(axes: Axes, curve: Line) -> None:
    """Write the names of points, slanted so that neighbors stay apart."""
    for x, y, name in zip(curve.x, curve.y, curve.names, strict=False):
        if name:
            axes.annotate(
                sanitize(shorten(name, LONGEST_POINT_NAME)),
                (x, y),
                xytext=(2, 3),
                textcoords="offset points",
                rotation=50,
                fontsize=6.5,
                parse_math=False,
            )


def _name_points(names: Sequence[str]) -> float:
    """Return the size of the names beside a matrix."""
    return min(8.0, max(LEAST_POINTS, NAME_POINTS / max(1, len(names))))


def _names_length(names: Sequence[str]) -> float:
    """Return the inches that the names beside a matrix take, 0 where there are too many."""
    return (
        0.6 * _name_points(names) / 72 * max(map(len, names), default=0)
        if len(names) <= MAX_NAMES
        else 0.0
    )


def _clipped(names: Sequence[str]) -> list[str]:
    """Return names as they stand below an axis, long ones cut."""
    clipped = []
    for name in names:
        text = sanitize(" ".join(name.split()))
        if len(text) > LONGEST_X_NAME:
            text = f"{text[: LONGEST_X_NAME - 1]}…"
        clipped.append(text)
    return clipped


def _x_names_length(panel: Panel | HeatMap) -> float:
    """Return the inches that names below an axis take more than numbers."""
    if isinstance(panel, HeatMap) or not panel.x_names:
        return 0.0
    longest = max(map(len, _clipped(panel.x_names)))
    return max(0.0, 0.6 * _name_points(panel.x_names) / 72 * longest - 0.3)


def _map_steps(panel: HeatMap) -> tuple[float, float]:
    """Return the inches of a column and of a row of a matrix."""
    return NUMBER_STEPS if panel.has_numbers else (MAP_STEP, MAP_STEP)


def _map_size(panel: HeatMap) -> tuple[float, float]:
    """Return width and height of a matrix with its names, in inches."""
    across, down = _map_steps(panel)
    width = across * len(panel.columns) + MAP_EDGE + _names_length(panel.rows)
    return width, down * len(panel.rows) + MAP_HEAD + _names_length(panel.columns)


def _draw_map(canvas: Canvas, axes: Axes, panel: HeatMap) -> None:
    """Draw a matrix, its first row on top; as shapes, so that the file holds no picture made of dots."""
    present = [v for row in panel.values for v in row if v is not None]
    low, high = (min(present), max(present)) if present else (0.0, 1.0)
    if panel.centre is not None:
        reach = max(high - panel.centre, panel.centre - low) or 1.0
        low, high = panel.centre - reach, panel.centre + reach
    colours = mpl.colormaps[
        SEQUENTIAL if panel.centre is None else DIVERGING
    ].resampled(COLOURS_OF_MAP)
    values = [[float("nan") if v is None else v for v in row] for row in panel.values]
    mesh = axes.pcolormesh(values, cmap=colours, norm=Normalize(low, high))
    axes.invert_yaxis()
    across, down = _map_steps(panel)
    axes.set_box_aspect(down * len(panel.rows) / (across * max(1, len(panel.columns))))
    axes.grid(visible=False)
    for names, axis, turn in (
        (panel.columns, axes.xaxis, 90),
        (panel.rows, axes.yaxis, 0),
    ):
        few = len(names) <= MAX_NAMES
        size = _name_points(names)
        places = [i + 0.5 for i in range(len(names))]
        axis.set_ticks(
            places if few else [],
            names if few else [],
            rotation=turn,
            fontsize=size,
            parse_math=False,
        )
    if panel.has_numbers:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                if math.isnan(value):
                    continue
                dark = sum(colours((value - low) / (high - low or 1.0))[:3]) < 1.2
                ink = "white" if dark else "black"
                axes.text(
                    j + 0.5,
                    i + 0.5,
                    show(value, "small"),
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=ink,
                )
    axes.set_title(panel.title, fontsize=9)
    canvas.colorbar(mesh, ax=axes, shrink=0.8, format=lambda value, _: number(value, 2))
