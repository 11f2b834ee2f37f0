"""The report as one HTML file: styles, script and figures inside, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from mtlrun.record import DIVERGED, FAILED, NOT_CONVERGED, OK, TIMEOUT
from mtlrun.report.build import Report
from mtlrun.report.cells import PARTIAL
from mtlrun.report.checks import Verdict, said
from mtlrun.report.figures import (
    Figure,
    Forest,
    RankDiagram,
    path_figures,
    published_line,
    rank_diagrams,
)
from mtlrun.report.grid import Column, Section, Styled, csv_grid, show, tex_grid
from mtlrun.report.outcome import claims_grid
from mtlrun.report.printed import measured_grid, with_printed
from mtlrun.report.references import reference_section
from mtlrun.report.sections import row_cells

TEMPLATES = Path(__file__).parent / "templates"
#: Classes of verdicts and statuses.
TONES = {
    **{word: verdict.tone for verdict in Verdict for word in (verdict.value, verdict.said)},
    OK: "good",
    **dict.fromkeys((NOT_CONVERGED, PARTIAL), "part"),
    **dict.fromkeys((FAILED, DIVERGED, TIMEOUT), "bad"),
}
#: Characters from which on an entry is given some width; columns that are not broken; those that hold a verdict.
LONG = 40
WHOLE, JUDGED = ("dataset", "method", "status", "verdict"), ("status", "verdict")
#: A table with so few rows and so many columns is turned.
FEW_ROWS, MANY_COLUMNS = 2, 8
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")


def html_report(report: Report) -> str:
    """Return a run as an HTML page: verdict, claims, tables, figures, protocol, and every cell behind it."""
    run = report.run
    anchors = {(row.dataset, row.method): f"cell-{place}" for place, row in enumerate(report.rows)}
    tables = [(table, run.reading if report.readings else "", anchors) for table in report.tables]
    tables += [(table, name, {}) for name, others in report.other_tables.items() for table in others]
    paths = [] if run.config.get("sweep") else path_figures(run)  # there is one per value of an axis
    figures: list[Figure | RankDiagram | Forest] = [*report.figures, *rank_diagrams(run, report.rows)]
    measured = measured_grid(run, report.rows)
    few = len(measured.rows) <= FEW_ROWS and len(measured.columns) >= MANY_COLUMNS
    return _render(
        "report.html",
        title=str(run.info.get("title", run.info.get("id", "Report"))),
        report=report,
        run=run,
        paper=run.info.get("paper") or {},
        tables=tables,
        results=measured.transposed(2) if few else measured,
        claims=claims_grid(run, report.claims),
        references=reference_section(report.references),
        figures=_figures(figures),
        tuning=_figures(paths),
        published=published_line(run),
        found=sum(not section.empty for section in report.measured),
        cells=[(row, *row_cells(run, row)) for row in report.rows],
    )


def html_page(
    title: str, summary: Sequence[str], sections: Sequence[Section], drawings: Sequence[Figure | Forest] = ()
) -> str:
    """Return sections as an HTML page of the same look, the summary first.

    Parameters
    ----------
    title : str
    summary : sequence of str
    sections : sequence of Section
    drawings : sequence of Figure or Forest
        Set before the sections.
    """
    return _render("page.html", title=title, summary=summary, figures=_figures(drawings), sections=sections)


def _figures(drawings: Sequence[Figure | RankDiagram | Forest]) -> list[tuple[str, str]]:
    """Return the caption of every figure, and the figure as the address of an image."""
    if not drawings:
        return []
    from mtlrun.report.drawing import svg  # matplotlib only where something is drawn

    return [(d.caption, f"data:image/svg+xml;base64,{b64encode(svg(d).encode()).decode()}") for d in drawings]


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _entry(column: Column, value: Any) -> dict[str, Any]:
    text = show(value, column.kind)
    number: Any = value if isinstance(value, int | float) else None
    if number is None and column.kind != "text" and (found := _NUMBER.match(text)):
        number = found[0]  # the mean in "mean ± deviation"
    words = {"right": column.kind != "text", "whole": column.name in WHOLE, "long": len(text) > LONG}
    words |= {tone(text): True, "badge": True} if column.name in JUDGED else {}
    css = [word for word, holds in words.items() if holds]
    styled = value if isinstance(value, Styled) else Styled(text)
    return {"text": text, "value": number, "css": " ".join(css), "link": styled.address}


def tone(word: str) -> str:
    """Return the class of a verdict or status: good, part, bad or none."""
    return TONES.get(word) or TONES.get(word.split(" ")[0], "none")


def _code(text: str) -> Markup:
    """Escape a sentence; what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _bullets(texts: Sequence[str]) -> bool:
    return all(text.startswith("* ") for text in texts)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(said=said)
    environment.filters.update(code=_code, bullets=_bullets, tone=tone, anchor=_anchor, digits="{:.10g}".format)
    environment.filters.update(csv=lambda grid: quote(csv_grid(with_printed(grid, exact=True))))
    environment.filters.update(tex=lambda grid: quote(tex_grid(with_printed(grid))))
    environment.globals.update(entry=_entry)
    return environment


def _render(template: str, **content: Any) -> str:
    own = {name: Markup((TEMPLATES / name).read_text(encoding="utf-8")) for name in ("style.css", "script.js")}
    made = _environment().get_template(template)
    return made.render(style=own["style.css"], script=own["script.js"], **content) + "\n"
