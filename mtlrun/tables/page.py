"""HTML pages: sections, tables and figures in one file that loads nothing else.

jinja2 is imported where a page is made, and matplotlib where it has figures.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup, escape

from mtlrun.engine.record import DIVERGED, FAILED, NOT_CONVERGED, OK, TIMEOUT
from mtlrun.tables.figures import Drawing
from mtlrun.tables.report_table import (
    Column,
    Section,
    Styled,
    csv_grid,
    show,
    tex_grid,
)

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"
#: CSS classes of the statuses of jobs.
STATUS_TONES = {
    OK: "good",
    NOT_CONVERGED: "part",
    **dict.fromkeys((FAILED, DIVERGED, TIMEOUT), "bad"),
}
#: Entries from this number of characters on get some width.
LONG_ENTRY = 40
#: Columns that are not broken, and those whose entries are badges.
UNBROKEN_COLUMNS = ("dataset", "method", "status", "verdict")
BADGE_COLUMNS = ("status", "verdict")
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")


def html_page(
    title: str,
    summary: Sequence[str | Styled],
    sections: Sequence[Section],
    drawings: Sequence[Drawing] = (),
    *,
    tones: Mapping[str, str] | None = None,
) -> str:
    """Return an HTML page of a summary, figures and sections.

    Parameters
    ----------
    title : str
    summary : sequence of str or Styled
        Lines of the outcome; a tone, a key of `tones`, makes a line a badge.
    sections : sequence of Section
    drawings : sequence of Figure, RankDiagram or Dumbbell
        Set before the sections.
    tones : mapping of str to str, optional
        CSS classes of words in the columns `BADGE_COLUMNS`. Default: `STATUS_TONES`.
    """
    classes = STATUS_TONES if tones is None else tones
    items = tuple(classes.items())
    lines = []
    for line in summary:
        tone = tone_of(line.tone, classes) if isinstance(line, Styled) else ""
        lines.append((str(line), tone))
    return render(
        _environment(items),
        "page.html",
        title=title,
        summary=lines,
        figures=images(drawings),
        sections=sections,
    )


@cache
def _environment(tones: tuple[tuple[str, str], ...]) -> jinja2.Environment:
    return environment([TEMPLATES], dict(tones))


def environment(
    folders: Sequence[Path],
    tones: Mapping[str, str],
    **filters: Callable[..., Any],
) -> jinja2.Environment:
    """Return the environment in which templates are rendered.

    Parameters
    ----------
    folders : sequence of Path
        Folders of templates; those of `TEMPLATES` are shared.
    tones : mapping of str to str
        CSS classes of words in the columns `BADGE_COLUMNS`.
    **filters : callables
        Filters of the templates besides those here.
    """
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    def tone(word: str) -> str:
        return tone_of(word, tones)

    def entry(column: Column, value: object) -> dict[str, Any]:
        return _entry(column, value, tones)

    shared: dict[str, Callable[..., Any]] = {
        "tone": tone,
        "anchor": _anchor,
        "digits": "{:.10g}".format,
        "bullets": _are_bullets,
        "code": _with_code,
        "csv": lambda grid: quote(csv_grid(grid)),
        "tex": lambda grid: quote(tex_grid(grid)),
    }
    made.filters.update({**shared, **filters})
    made.globals.update(entry=entry)
    return made


def render(made: jinja2.Environment, template: str, **content: object) -> str:
    """Return a template with its content, styles and script, as HTML."""
    style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    script = Markup((TEMPLATES / "script.js").read_text(encoding="utf-8"))
    html = made.get_template(template).render(style=style, script=script, **content)
    return html + "\n"


def images(drawings: Sequence[Drawing]) -> list[tuple[str, str]]:
    """Return the caption of each figure, and the figure as the address of an image."""
    if not drawings:
        return []
    from mtlrun.tables.drawing import svg

    return [
        (d.caption, f"data:image/svg+xml;base64,{b64encode(svg(d).encode()).decode()}")
        for d in drawings
    ]


def tone_of(word: str, tones: Mapping[str, str]) -> str:
    """Return the CSS class of a verdict or status: good, part, bad or none."""
    return tones.get(word) or tones.get(word.split(" ")[0], "none")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _are_bullets(texts: Sequence[str]) -> bool:
    return all(text.startswith("* ") for text in texts)


def _with_code(text: str) -> Markup:
    """Return a text in which what stands between backticks is set as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _entry(column: Column, value: object, tones: Mapping[str, str]) -> dict[str, Any]:
    text = show(value, column.kind)
    number: Any = value if isinstance(value, int | float) else None
    if number is None and column.kind != "text":
        # The mean in "mean ± deviation".
        match = _NUMBER.match(text)
        number = None if match is None else match[0]
    words = {
        "right": column.kind != "text",
        "whole": column.name in UNBROKEN_COLUMNS,
        "long": len(text) > LONG_ENTRY,
    }
    if column.name in BADGE_COLUMNS:
        words |= {tone_of(text, tones): True, "badge": True}
    css = [word for word, applies in words.items() if applies]
    styled = value if isinstance(value, Styled) else Styled(text)
    return {"text": text, "value": number, "css": " ".join(css), "link": styled.address}
