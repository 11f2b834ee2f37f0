"""Draw the figures of docs/atlas.md from the tables of errors of the atlas.

``python scripts/atlas_figures.py`` writes them to ``docs/pictures``. They show the file
``configs/atlas/pairs.csv``, whose digest is written into each of them, so that a test can
tell when a figure is out of date. Percentages are reductions of the error: a log error
ratio ``effect`` is ``100 (1 - exp(-effect))`` percent less error.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mtlrun.papers.atlas.sharing import (
    KEYS,
    PAIRS,
    REGION,
    cost,
    effect_interval,
    effects_of,
    over_seeds,
    percent_less,
    read_pairs,
)
from mtlrun.show.canvas import STYLE
from mtlrun.show.figure_drawing import MARKERS
from mtlrun.show.palette import COLORS, with_dark_colors
from mtlrun.utils.io import published_path

#: Folder of the figures.
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
#: Colors of the learners, which are those of no strategy.
LEARNER_COLORS = [COLORS[index] for index in (2, 4, 5, 6, 3)]
LEARNERS = ("linear", "smooth", "logistic", "boosted trees", "extra trees")
KINDS = {
    "groups": "tables with groups",
    "targets": "several targets",
    "labels": "several labels",
}
#: Fewer tables have no mean in a figure.
MIN_TABLES = 4
#: Numbers of rows that have a tick.
TICKS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
#: Reductions of the error, in percent, that have a tick.
PERCENTAGES = (-100, -60, -30, -10, 10, 20, 30, 40, 50)
#: The curves of the learners are moved apart by this factor, so that their bars do not
#: cover each other.
STEP = 1.07
GRAY = "#777777"
#: Methods whose points in the figure of costs have others to the right of them or above.
NAMES_TO_THE_LEFT = ("JointFeatureMTL", "SmoothIndependent", "SmoothPooled")
NAMES_BELOW = ("PooledRidge+Task", "HierarchicalMTL")


def settings_of(
    lines: pd.DataFrame, learner: str, with_sharing: str, without: str
) -> pd.DataFrame:
    """Return the effects of a learner, means over the seeds."""
    part = lines[lines["learner"] == learner]
    return over_seeds(effects_of(part, with_sharing, without))


def colour_of(learner: str) -> str:
    """Return the color of a learner, the same in all figures."""
    return LEARNER_COLORS[LEARNERS.index(learner)]


def marker_of(learner: str) -> str:
    """Return the marker of a learner, the same in all figures."""
    return MARKERS[LEARNERS.index(learner)]


def draw_region(axes: Axes) -> None:
    """Draw no difference, and the region in which differences do not matter."""
    axes.axhspan(-100 * REGION, 100 * REGION, color="#e8e8e8", zorder=0)
    axes.axhline(0, color=GRAY, linewidth=0.8, zorder=1)


def draw_by_rows(
    axes: Axes,
    lines: pd.DataFrame,
    kind: str,
    without: str,
    limits: tuple[float, float],
) -> list[str]:
    """Draw the mean effects of all learners by the number of rows.

    Returns
    -------
    list of str
        Learners that have enough tables.
    """
    draw_region(axes)
    drawn = []
    numbers: list[float] = []
    of_kind = lines[lines["kind"] == kind]
    for index, learner in enumerate(LEARNERS):
        settings = settings_of(of_kind, learner, "partial", without)
        points = []
        for rows, part in settings.groupby("rows"):
            if part["table"].nunique() < MIN_TABLES:
                continue
            interval = effect_interval(part)
            ends = [percent_less(interval.low), percent_less(interval.high)]
            points.append((float(rows), percent_less(interval.mean), *ends))
        if not points:
            continue
        drawn.append(learner)
        x, mean, low, high = np.transpose(points)
        numbers += x.tolist()
        shifted = x * STEP ** (index - 2)
        axes.errorbar(
            shifted,
            mean,
            yerr=[mean - low, high - mean],
            color=colour_of(learner),
            marker=marker_of(learner),
            markersize=4,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=2,
        )
    axes.set_xscale("log")
    # Each panel shows the numbers of rows that it has points for.
    ends = (0.75 * min(numbers), 1.35 * max(numbers))
    axes.set_xlim(ends)
    ticks = [tick for tick in TICKS if ends[0] < tick < ends[1]]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.set_ylim(limits)
    axes.set_xlabel("training rows per task")
    return drawn


def learner_legend(figure: Figure, learners: Sequence[str]) -> None:
    """Name the learners below the panels."""
    handles = []
    for learner in LEARNERS:
        if learner in learners:
            handles.append(
                Line2D(
                    [],
                    [],
                    color=colour_of(learner),
                    marker=marker_of(learner),
                    markersize=5,
                    label=learner,
                )
            )
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def rows_figure(lines: pd.DataFrame) -> Figure:
    """Return partial sharing against none, by rows per task and kind of table."""
    # One below the other, to be read on a phone.
    figure = Figure(figsize=(4.8, 8.4), layout="constrained")
    panels = figure.subplots(3, 1)
    learners: list[str] = []
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        learners += draw_by_rows(axes, lines, kind, "none", (-15, 40))
        axes.set_title(title, fontsize=10)
        axes.set_ylabel("less error (%)")
    figure.suptitle("Partial sharing against a model per task", fontsize=11)
    learner_legend(figure, learners)
    return figure


def over_full_figure(lines: pd.DataFrame) -> Figure:
    """Return partial sharing against none and against one model, on groups."""
    figure = Figure(figsize=(4.8, 6.2), layout="constrained")
    panels = figure.subplots(2, 1)
    learners: list[str] = []
    titles = {"none": "against a model per task", "full": "against one model for all"}
    for axes, (without, title) in zip(panels, titles.items(), strict=True):
        learners += draw_by_rows(axes, lines, "groups", without, (-15, 45))
        axes.set_title(title, fontsize=10)
        axes.set_ylabel("less error (%)")
    figure.suptitle("Partial sharing on tables with groups", fontsize=11)
    learner_legend(figure, learners)
    return figure


def tables_figure(lines: pd.DataFrame) -> Figure:
    """Return the effects of the tables, a panel per learner, sorted by effect.

    A point is the mean over the numbers of rows, its line the range.
    """
    by_learner = {}
    for learner in ("linear", "smooth", "boosted trees", "logistic"):
        effects = settings_of(lines, learner, "partial", "none")
        table = effects.groupby("table")["effect"].agg(["mean", "min", "max"])
        by_learner[learner] = table.sort_values("mean")
    heights = [len(table) + 4 for table in by_learner.values()]
    # One below the other, to be read on a phone.
    size = (4.8, 0.15 * sum(heights))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(by_learner), height_ratios=heights, sharex=True)
    for axes, (learner, table) in zip(panels, by_learner.items(), strict=True):
        color = colour_of(learner)
        places = range(len(table))
        axes.axvspan(-REGION, REGION, color="#e8e8e8", zorder=0)
        axes.axvline(0, color=GRAY, linewidth=0.8, zorder=1)
        axes.hlines(places, table["min"], table["max"], color=color, linewidth=1.2)
        axes.plot(table["mean"], places, marker_of(learner), color=color, ms=4)
        axes.set_yticks(places, list(table.index), fontsize=8)
        axes.set_ylim(-0.8, len(table) - 0.2)
        axes.grid(axis="y", visible=False)
        axes.set_title(f"{learner}: {len(table)} tables", fontsize=10)
        # Log ratios are symmetric: half the error is as far from 0 as twice the error.
        ticks = [-math.log1p(-percentage / 100) for percentage in PERCENTAGES]
        axes.set_xticks(ticks, [f"{percentage}" for percentage in PERCENTAGES])
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("less error than by a model per task (%)")
    return figure


def cost_figure() -> Figure:
    """Return gain against processor seconds for the methods of groups and numbers."""
    table = cost(None, seed=0, kinds=["groups"]).tables["Cost and gain"]
    points = pd.DataFrame(table["rows"], columns=table["columns"])
    points = points.dropna(subset=["effect"])
    figure = Figure(figsize=(6.0, 4.8), layout="constrained")
    axes = figure.subplots()
    draw_region(axes)
    marker = {"none": "o", "partial": "D", "full": "s"}
    front = points[points["on the front"] == "yes"].sort_values(
        "seconds over reference"
    )
    axes.step(
        front["seconds over reference"],
        front["effect"].map(percent_less),
        where="post",
        color=GRAY,
        linewidth=0.9,
        linestyle=":",
    )
    for _, point in points.iterrows():
        learner = str(point["learner"])
        x = float(point["seconds over reference"])
        y = percent_less(point["effect"])
        axes.scatter(
            x, y, marker=marker[point["sharing"]], color=colour_of(learner), s=34
        )
        method = str(point["method"])
        to_the_left = method in NAMES_TO_THE_LEFT
        axes.annotate(
            method,
            (x, y),
            xytext=(-5 if to_the_left else 5, -10 if method in NAMES_BELOW else 4),
            textcoords="offset points",
            fontsize=7.5,
            ha="right" if to_the_left else "left",
        )
    axes.set_xscale("log")
    axes.margins(x=0.16)
    axes.set_xlabel("processor seconds, as a multiple of ridge regression per task")
    axes.set_ylabel("less error than ridge regression per task (%)")
    axes.set_title("What sharing costs, on tables with groups", fontsize=11)
    handles: list[Any] = []
    names = {"none": "no sharing", "partial": "partial", "full": "full sharing"}
    for level, shape in marker.items():
        handles.append(
            Line2D([], [], color=GRAY, marker=shape, linestyle="", label=names[level])
        )
    for learner in dict.fromkeys(points["learner"]):
        handles.append(
            Line2D([], [], color=colour_of(learner), linewidth=3, label=learner)
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def digest() -> str:
    """Return the digest of the lines that the figures show."""
    return hashlib.sha256(published_path(PAIRS).read_bytes()).hexdigest()[:16]


def figures() -> dict[str, Figure]:
    """Return all figures by the name of their file."""
    lines = read_pairs(PAIRS, (), KEYS)
    lines = lines[lines["test"] == "rows"]
    return {
        "atlas-rows": rows_figure(lines),
        "atlas-over-full": over_full_figure(lines),
        "atlas-tables": tables_figure(lines),
        "atlas-cost": cost_figure(),
    }


def main() -> None:
    """Write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=PICTURES)
    parser.add_argument("--png", action="store_true", help="write png files, too")
    options = parser.parse_args()
    with mpl.rc_context(STYLE):
        for name, figure in figures().items():
            metadata = {"Date": None, "Creator": None, "Description": digest()}
            path = options.to / f"{name}.svg"
            figure.savefig(path, metadata=metadata)
            path.write_text(with_dark_colors(path.read_text("utf-8")), "utf-8")
            if options.png:
                figure.savefig(options.to / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
