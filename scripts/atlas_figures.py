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

from mtlrun.catalog.analysis import published_path
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
from mtlrun.show.palette import COLORS

#: Folder of the figures.
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
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
    return COLORS[LEARNERS.index(learner)]


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
    axes.set_xlim(4, 2500)
    axes.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS], rotation=40)
    axes.tick_params(axis="x", labelsize=7.5)
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
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False
    )


def rows_figure(lines: pd.DataFrame) -> Figure:
    """Return partial sharing against none, by rows per task and kind of table."""
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    panels = figure.subplots(1, 3)
    learners: list[str] = []
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        learners += draw_by_rows(axes, lines, kind, "none", (-15, 40))
        axes.set_title(title, fontsize=10)
    panels[0].set_ylabel("less error by partial sharing (%)")
    figure.suptitle("Partial sharing against a model per task", fontsize=11)
    learner_legend(figure, learners)
    return figure


def over_full_figure(lines: pd.DataFrame) -> Figure:
    """Return partial sharing against none and against one model, on groups."""
    figure = Figure(figsize=(8.2, 3.9), layout="constrained")
    panels = figure.subplots(1, 2)
    learners: list[str] = []
    titles = {"none": "against a model per task", "full": "against one model for all"}
    for axes, (without, title) in zip(panels, titles.items(), strict=True):
        learners += draw_by_rows(axes, lines, "groups", without, (-15, 45))
        axes.set_title(title, fontsize=10)
    panels[0].set_ylabel("less error by partial sharing (%)")
    figure.suptitle("Partial sharing on tables with groups", fontsize=11)
    learner_legend(figure, learners)
    return figure


def tables_figure(lines: pd.DataFrame) -> Figure:
    """Return the effects of the tables: a mark for each number of rows and learner."""
    learners = ("linear", "smooth", "logistic", "boosted trees")
    parts = []
    for learner in learners:
        settings = settings_of(lines, learner, "partial", "none")
        parts.append(settings.assign(learner=learner))
    settings = pd.concat(parts)
    by_table = settings.groupby(["family", "table"], sort=False)["effect"].median()
    families = list(dict.fromkeys(settings["family"]))
    names = []
    for family in families:
        names += list(by_table[family].sort_values().index)
        names.append("")
    names.pop()
    figure = Figure(figsize=(8.2, 0.185 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-REGION, REGION, color="#e8e8e8", zorder=0)
    axes.axvline(0, color=GRAY, linewidth=0.8, zorder=1)
    place = {name: -index for index, name in enumerate(names) if name}
    for index, learner in enumerate(learners):
        of_learner = settings[settings["learner"] == learner]
        few = of_learner["rows"] <= 20
        for is_few, part in of_learner.groupby(few):
            y = part["table"].map(place) + 0.16 * (1.5 - index)
            axes.scatter(
                part["effect"],
                y,
                s=14,
                marker=marker_of(learner),
                facecolors=colour_of(learner) if is_few else "none",
                edgecolors=colour_of(learner),
                linewidths=0.8,
                alpha=0.9,
            )
    axes.set_yticks(list(place.values()), list(place), fontsize=7.5)
    axes.set_ylim(-len(names) + 0.3, 0.7)
    axes.grid(axis="y", alpha=0.25)
    top = 0
    for family in families:
        axes.text(
            1.005,
            -top + 0.2,
            family,
            transform=axes.get_yaxis_transform(),
            fontsize=8,
            color="#444444",
            va="top",
        )
        top += len(by_table[family]) + 1
    # Log ratios are symmetric: half the error is as far from 0 as twice the error.
    axes.set_xticks(
        [-math.log1p(-percentage / 100) for percentage in PERCENTAGES],
        [f"{percentage}" for percentage in PERCENTAGES],
    )
    axes.set_xlabel("less error by partial sharing than by a model per task (%)")
    axes.set_title(
        "All tables; filled: 5 to 20 rows per task, open: 50 to 2,000", fontsize=10
    )
    learner_legend(figure, learners)
    return figure


def cost_figure() -> Figure:
    """Return gain against processor seconds for the methods of groups and numbers."""
    table = cost(None, seed=0, kinds=["groups"]).tables["Cost and gain"]
    points = pd.DataFrame(table["rows"], columns=table["columns"])
    points = points.dropna(subset=["effect"])
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
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
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False
    )
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
            figure.savefig(options.to / f"{name}.svg", metadata=metadata)
            if options.png:
                figure.savefig(options.to / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
