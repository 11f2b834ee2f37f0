"""Draw pictures into files and pages.

`draw` draws the pictures of comparisons and models (`mtlrun.show.pictures`) and the
figures of runs (`mtlrun.show.figures`) alike. matplotlib takes long to import, so other
modules import this one inside functions.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from mtlrun.errors import UnknownNameError, UserError

# Importing these modules registers how their pictures are drawn.
from mtlrun.show import figure_drawing, picture_drawing  # noqa: F401
from mtlrun.show.canvas import (
    FORMATS,
    draw,
    drawing_style,
    quiet_glyphs,
)
from mtlrun.show.figures import Drawing
from mtlrun.show.palette import with_dark_colors
from mtlrun.show.picture_drawing import (
    PANEL_HEIGHT,
    PANEL_WIDTH,
    SMALL_SIZE,
    draw_panel,
)
from mtlrun.show.pictures import GainsPicture, PanelsPicture, Picture
from mtlrun.utils.io import write_atomic

#: Metadata that keep the date out of a file.
NO_DATE: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None},
}


def draw_in_notebook(picture: Picture, ax: Any = None) -> Any:
    """Draw a picture for the user and return its axes.

    New figures are created by pyplot, so notebooks show them.
    """
    import matplotlib.pyplot as plt

    return draw(picture, ax, plt.figure)


def write_drawing(
    picture: Drawing | Picture,
    path: Path,
    write: Callable[[Path, bytes], None] = write_atomic,
) -> None:
    """Draw a picture into a file.

    Parameters
    ----------
    picture : picture or figure of a run
    path : Path
        Its suffix, one of `FORMATS`, determines the format.
    write : callable, default=write_atomic
        Function that writes bytes to a path.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    form = path.suffix.lower().removeprefix(".")
    write(path, content_of(picture, form))


def content_of(picture: Drawing | Picture, form: str) -> bytes:
    """Return a picture with its title as a file of the format svg, png or pdf.

    It has no date. Lines of SVG do not end with spaces, which version control would
    complain about.
    """
    figure = _figure_of(picture)
    # Figures of runs have drawn their title.
    if not figure.get_suptitle():
        figure.suptitle(picture.title, fontsize=10, parse_math=False)
    stream = io.BytesIO()
    with drawing_style(), quiet_glyphs():
        figure.savefig(stream, format=form, metadata=NO_DATE.get(form, {}), dpi=200)
    content = stream.getvalue()
    if form != "svg":
        return content
    lines = [line.rstrip() + b"\n" for line in content.splitlines()]
    return b"".join(lines)


def svg(picture: Drawing | Picture) -> str:
    """Return a picture with its title as SVG."""
    return content_of(picture, "svg").decode()


def _figure_of(picture: Drawing | Picture) -> Figure:
    drawn: Any = np.ravel(draw(picture))[0]
    return drawn.figure


def check_drawing(noun: str, kind: str, kinds: Collection[str], out: Path) -> None:
    """Refuse an unknown kind of figure and a file of an unknown format.

    Raises
    ------
    UnknownNameError
        If `kind` is not one of `kinds`; the message calls it `noun`.
    UserError
        If the suffix of `out` is not one of `FORMATS`.
    """
    if kind not in kinds:
        raise UnknownNameError(noun, kind, kinds)
    if out.suffix.lower() not in FORMATS:
        raise UserError(
            f"{out}: unknown format {out.suffix!r}",
            f"End the name with one of {', '.join(FORMATS)}.",
        )


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


def panel_svgs(picture: PanelsPicture, name: str) -> list[str]:
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
    with drawing_style(), quiet_glyphs():
        figure.set_facecolor("none")
        for axes in figure.axes:
            for part in (axes, *axes.child_axes):
                part.set_facecolor("none")
        # `savefig` would lay out and draw everything twice.
        metadata = {"Date": None, "Creator": None}
        FigureCanvasSVG(figure).print_svg(stream, metadata=metadata)
    svg = _PROLOG.sub("", stream.getvalue().decode(), count=1)
    svg = _METADATA.sub("", svg, count=1)
    # Hundredths of a point are exact enough for a screen. Texts keep their digits.
    svg = _TAG.sub(lambda tag: _NUMBER.sub(r"\1", tag[0]), svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\g<1>#{name}-", svg)
    svg = with_dark_colors(svg)
    label = escape(alt, quote=True)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return "\n".join(line.strip() for line in svg.split("\n"))
