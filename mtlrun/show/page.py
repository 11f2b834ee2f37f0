"""HTML pages: sections, tables and figures in one file that loads nothing else.

Importing jinja2 and matplotlib takes long, so they are imported by the functions that
need them: a page is made rarely, and not every page has figures.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from mtlrun.parallel.status import DIVERGED, FAILED, NOT_CONVERGED, OK, TIMEOUT
from mtlrun.show.figures import Drawing
from mtlrun.show.palette import dark_color, with_dark_colors
from mtlrun.show.report_table import (
    Column,
    Section,
    Styled,
    are_bullets,
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
#: Table cells with more characters than this get a minimum width.
LONG_ENTRY = 40
#: Columns whose entries are never broken into lines.
UNBROKEN_COLUMNS = ("dataset", "method", "status", "task", "verdict")
#: Columns whose entries are drawn as badges.
BADGE_COLUMNS = ("status", "verdict")
#: An option of a command with its value, which a browser would break at hyphens and
#: blanks. Long words, such as paths, may be broken: they are wider than a phone.
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*([ =](?!--)[^\s`]{1,20}(?![^\s`]))?")
#: The mean in texts such as ``0.812 ± 0.004``.
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
        Lines of the outcome; a line with a tone, a key of `tones`, becomes a badge.
    sections : sequence of Section
    drawings : sequence of Figure, RankDiagram or Dumbbell
        Shown before the sections.
    tones : mapping of str to str, default=STATUS_TONES
        CSS classes of words in the columns `BADGE_COLUMNS`.
    """
    classes = STATUS_TONES if tones is None else tones
    # Mappings cannot be keys of a cache.
    jinja_environment = shared_environment(tuple(classes.items()))
    lines = []
    for line in summary:
        css_class = ""
        if isinstance(line, Styled):
            css_class = tone_of(line.tone, classes)
        lines.append((str(line), css_class))
    return render(
        jinja_environment,
        "page.html",
        title=title,
        summary=lines,
        figures=images(drawings),
        sections=sections,
    )


@cache
def shared_environment(tones: tuple[tuple[str, str], ...]) -> jinja2.Environment:
    """Create the environment of the shared templates, which compiles each once."""
    return environment([TEMPLATES], dict(tones))


def environment(
    folders: Sequence[Path],
    tones: Mapping[str, str],
    **filters: Callable[..., Any],
) -> jinja2.Environment:
    """Create the environment that renders templates.

    Parameters
    ----------
    folders : sequence of Path
        Folders of templates; include `TEMPLATES` for the shared ones.
    tones : mapping of str to str
        CSS classes of words in the columns `BADGE_COLUMNS`.
    **filters : callables
        Filters of the templates, in addition to those defined here.
    """
    import jinja2

    jinja_environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    shared: dict[str, Callable[..., Any]] = {
        "tone": partial(tone_of, tones=tones),
        "anchor": _anchor,
        "digits": "{:.10g}".format,
        "bullets": are_bullets,
        "code": _with_code,
        "csv": csv_grid,
        "tex": tex_grid,
        "dark_color": dark_color,
    }
    jinja_environment.filters.update({**shared, **filters})
    jinja_environment.globals.update(entry=partial(_entry, tones))
    return jinja_environment


def render(
    jinja_environment: jinja2.Environment, template: str, **content: object
) -> str:
    """Fill a template with its content, the styles and the script; return the HTML."""
    style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    script = Markup((TEMPLATES / "script.js").read_text(encoding="utf-8"))
    page = jinja_environment.get_template(template)
    html = page.render(style=style, script=script, **content)
    return f"{html}\n"


def images(drawings: Sequence[Drawing]) -> list[tuple[str, str]]:
    """Return the caption and the data URL of the image of each figure."""
    if not drawings:
        return []
    from mtlrun.show.drawing import svg

    pairs = []
    for drawing in drawings:
        encoded = b64encode(with_dark_colors(svg(drawing)).encode()).decode()
        pairs.append((drawing.caption, f"data:image/svg+xml;base64,{encoded}"))
    return pairs


def tone_of(word: str, tones: Mapping[str, str]) -> str:
    """Return the CSS class of a verdict or status: good, part, bad or none.

    Without an entry for the text, the entry for its first word counts.
    """
    if tones.get(word):
        return tones[word]
    first_word = word.split(" ")[0]
    return tones.get(first_word, "none")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _with_code(text: str) -> Markup:
    """Escape a text, and mark up code in backticks and the options of commands."""
    escaped = str(escape(text))
    with_options = _OPTION.sub(r'<span class="option">\g<0></span>', escaped)
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", with_options))


def _entry(tones: Mapping[str, str], column: Column, value: object) -> dict[str, Any]:
    """Return what the template needs to show one cell of a table."""
    text = show(value, column.kind)
    address = ""
    if isinstance(value, Styled):
        address = value.address
    # The number by which a column is sorted.
    sort_value: object = None
    if isinstance(value, int | float):
        sort_value = value
    elif column.kind != "text":
        match = _NUMBER.match(text)
        sort_value = match and match[0]
    classes = []
    if column.kind != "text":
        classes.append("right")
    is_long = len(text) > LONG_ENTRY
    if is_long:
        classes.append("long")
    # Names of tasks can be whole sentences.
    if column.name in UNBROKEN_COLUMNS and not (is_long and column.name == "task"):
        classes.append("whole")
    if column.name in BADGE_COLUMNS:
        classes += [tone_of(text, tones), "badge"]
    return {
        "text": text,
        "value": sort_value,
        "css": " ".join(classes),
        "link": address,
    }
