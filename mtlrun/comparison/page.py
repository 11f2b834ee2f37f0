"""The page of a comparison: what to do, the pictures behind it, the rest folded.

The page is one HTML file that loads nothing. Its pictures are SVG, and a style makes
them readable on a dark background.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from mtlrun.comparison.gallery import ComparisonPictures
from mtlrun.comparison.leaderboard import Leaderboard, next_steps
from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    HELPS,
    NO_DIFFERENCE,
    NO_VERDICT,
    SAFE,
    WORSE,
)
from mtlrun.show.page import render, shared_environment
from mtlrun.show.palette import STRATEGIES, StrategyStyle
from mtlrun.show.pictures import Picture, PictureError
from mtlrun.show.report_table import Section

#: CSS class of the headline, by decision.
DECISION_CLASSES = {
    HELPS: "good",
    NO_DIFFERENCE: "none",
    WORSE: "bad",
    SAFE: "good",
    CANNOT_TELL: "part",
    NO_VERDICT: "part",
}


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page.

    Attributes
    ----------
    title, caption : str
    svgs : list of str
        One picture, or several panels.
    strategies : dict of str to StrategyStyle
        Strategies whose lines the panels show, for their legend.
    """

    title: str
    caption: str
    svgs: list[Markup] = field(default_factory=list)
    strategies: dict[str, StrategyStyle] = field(default_factory=dict)


@dataclass(frozen=True)
class FoldedPart:
    """A part of the page that opens on a click.

    Attributes
    ----------
    section : Section
    figures : list of PageFigure
        Shown between its sentences and its tables.
    """

    section: Section
    figures: list[PageFigure] = field(default_factory=list)


def comparison_page(
    board: Leaderboard,
    pictures: ComparisonPictures,
    leaderboard: Section,
    folded: Sequence[FoldedPart],
) -> str:
    """Return ``leaderboard.html``.

    What decides is visible: verdict, leaderboard, tasks and predictions. All other
    parts are folded.

    Parameters
    ----------
    board : Leaderboard
    pictures : ComparisonPictures
    leaderboard : Section
    folded : sequence of FoldedPart
        Parts below the pictures; empty ones are left out.
    """
    answer = board.answer
    remarks = []
    if pictures.held_out is None:
        remarks.append(
            "Pictures of predictions are left out: the table is in chunks, or no "
            "strategy has a method in all training parts."
        )
    task_makers: dict[str, Callable[[], Picture]] = {
        "gains": pictures.gains_by_rows,
        "tasks": pictures.task_intervals,
    }
    if len(set(pictures.sizes)) == 1:
        # With equal numbers of rows, all points would lie above each other, and the
        # picture of the tasks has the same gains.
        del task_makers["gains"]
    more_figures = _figures(
        {
            "calibration": pictures.calibration,
            "shrinkage": pictures.shrinkage,
            "heatmap": pictures.heat_map,
        }
    )
    parts = [FoldedPart(Section("More pictures"), more_figures), *folded]
    return render(
        shared_environment(()),
        "comparison.html",
        title=board.title,
        headline=answer.headline,
        decision_class=DECISION_CLASSES.get(answer.decision, "none"),
        sentences=[answer.sentence, *next_steps(board)],
        task_sentences=pictures.task_sentences(),
        details=answer.details,
        verdict_figures=_figures(
            {
                "verdict": pictures.verdict,
                "methods": pictures.method_intervals,
                "curve": pictures.curve,
            }
        ),
        leaderboard=leaderboard,
        task_figures=_figures(task_makers),
        panels=predictions_figure(pictures),
        remarks=remarks,
        folded=[part for part in parts if part.figures or not part.section.empty],
    )


def _figures(makers: Mapping[str, Callable[[], Picture]]) -> list[PageFigure]:
    """Return the figures that the comparison has numbers for."""
    figures = []
    for name, make in makers.items():
        try:
            picture = make()
        except PictureError:
            # This comparison lacks the numbers.
            continue
        figures.append(page_figure(picture, name))
    return figures


def page_figure(picture: Picture, name: str) -> PageFigure:
    """Return a picture as a figure of the page; all its ids begin with `name`."""
    from mtlrun.show.drawing import inline_svg

    return PageFigure(
        picture.title, picture.caption, [Markup(inline_svg(picture, name))]
    )


def predictions_figure(pictures: ComparisonPictures) -> PageFigure | None:
    """Return observed against predicted values, a panel per task; None without them."""
    from mtlrun.show.drawing import panel_svgs

    try:
        picture = pictures.predictions()
    except PictureError:
        return None
    svgs = [Markup(svg) for svg in panel_svgs(picture, "predictions")]
    shown: set[str] = set()
    for panel in picture.panels:
        shown |= panel.lines.keys()
    strategies = {n: style for n, style in STRATEGIES.items() if n in shown}
    return PageFigure(picture.title, picture.caption, svgs, strategies)
