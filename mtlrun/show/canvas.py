"""Common parts of all drawings: style, files, sizes, names and legends.

`draw` is the one way to draw a picture; `mtlrun.show.picture_drawing` and
`mtlrun.show.figure_drawing` register how. matplotlib takes long to import, so other
modules import this one inside functions. The same version of matplotlib draws the same
SVG on every machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import singledispatch
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Makes a figure: matplotlib's class, or `pyplot.figure` for figures to be shown.
MakeFigure = Callable[..., Figure]
#: Text stays text, and ids depend neither on the clock nor on random numbers.
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
#: Suffixes of the files that can be written.
FORMATS = (".svg", ".png", ".pdf")


@singledispatch
def draw(picture: Any, ax: Axes | None = None, make: MakeFigure = Figure) -> Any:
    """Draw a picture of `mtlrun.show.pictures` or `mtlrun.show.figures`.

    Parameters
    ----------
    picture : picture
    ax : Axes, optional
        Default: axes of a new figure. Figures of runs have a figure of their own.
    make : callable, default=Figure
        Makes the figure.

    Returns
    -------
    Axes, an ndarray of Axes for a picture with small panels, or the Figure of a run
    """
    raise TypeError(f"no picture: {type(picture).__name__}")


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw with `STYLE`, and restore these settings only.

    `matplotlib.rc_context` restores all settings. The first figure of pyplot in a
    notebook sets one of them, ``interactive``, without which later figures would not be
    shown.
    """
    before = {name: mpl.rcParams[name] for name in STYLE}
    mpl.rcParams.update(STYLE)
    try:
        yield
    finally:
        mpl.rcParams.update(before)


@contextmanager
def quiet_glyphs() -> Iterator[None]:
    """Ignore letters that matplotlib's font lacks: browsers have other fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def disable_math(canvas: Figure) -> None:
    """Show dollar signs in names as they are; only tick labels may hold formulas."""
    texts = list(canvas.texts)
    for legend in canvas.legends:
        texts += legend.get_texts()
    for axes in canvas.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    for text in texts:
        text.set_parse_math(False)


def add_legend_below(
    canvas: Figure, handles: dict[str, Any], n_columns: int = 3
) -> None:
    """Add a legend below all axes of a figure; `handles` are those of its labels."""
    canvas.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=n_columns,
        frameon=False,
    )


def legend_handles(all_axes: Iterable[Axes]) -> dict[str, Any]:
    """Return the handles of a legend by their labels, the first one of each label."""
    handles: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    return handles
