"""Figures as SVG: the same bytes on every machine with the same matplotlib. The only module that loads matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from mtlrun.core.records import write_atomic
from mtlrun.report.axis import Curve, Figure, Panel
from mtlrun.report.text import show

FOLDER = "figures"
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
#: With at most this many values every one is a tick.
MAX_TICKS = 9


def draw(figure: Figure) -> Canvas:
    """Draw a figure: its panels side by side, one legend below them."""
    with mpl.rc_context(STYLE):
        width, height = PANEL_SIZE
        count = len(figure.panels)
        n_curves = len(figure.panels[0].curves)
        legend_columns = max(1, min(n_curves, 2 * count))
        legend_height = 0.22 * -(-n_curves // legend_columns)
        canvas = Canvas(figsize=(width * count, height + 0.3 + legend_height), layout="constrained")
        for axes, panel in zip(canvas.subplots(1, count, squeeze=False)[0], figure.panels, strict=True):
            _draw_panel(axes, figure, panel)
        canvas.suptitle(figure.title, fontsize=10)
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=legend_columns, frameon=False)
    return canvas


def svg(figure: Figure) -> str:
    """Return a figure as SVG, without a date."""
    stream = io.StringIO()
    with mpl.rc_context(STYLE):
        draw(figure).savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def write_figures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write figures into ``figures/`` of a run folder and return their paths.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    paths = []
    for figure in figures:
        path = Path(folder) / FOLDER / f"{figure.name}.svg"
        write_atomic(path, svg(figure))
        paths.append(path)
    return paths


def _draw_panel(axes: Axes, figure: Figure, panel: Panel) -> None:
    numbers = _are_numbers(figure.values)
    for place, curve in enumerate(panel.curves):
        _draw_curve(axes, curve, place, curve.x if numbers else [figure.values.index(x) for x in curve.x])
    if figure.log:
        axes.set_xscale("log")
    if panel.log:
        axes.set_yscale("log")
    if not numbers or len(figure.values) <= MAX_TICKS:
        axes.set_xticks(figure.values if numbers else range(len(figure.values)), [show(v) for v in figure.values])
        axes.xaxis.minorticks_off()
    axes.set_xlabel(figure.axis)
    axes.set_ylabel(panel.quantity)


def _draw_curve(axes: Axes, curve: Curve, place: int, x: Sequence[Any]) -> None:
    """Draw one method; a method without a number here keeps its place in the legend."""
    axes.errorbar(
        x,
        curve.y,
        yerr=curve.spread if any(curve.spread) else None,
        label=curve.label,
        color=COLOURS[place % len(COLOURS)],
        marker=MARKERS[place % len(MARKERS)],
        linestyle=LINES[place // len(COLOURS) % len(LINES)],
        markersize=4,
        linewidth=1.2,
        elinewidth=0.7,
        capsize=2,
    )


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
