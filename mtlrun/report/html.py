"""The report as one HTML file: styles, script and figures inside, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from mtlrun.record import DIVERGED, FAILED, NOT_CONVERGED, OK, TIMEOUT
from mtlrun.report.build import Report
from mtlrun.report.checks import Verdict
from mtlrun.report.figures import (
    Figure,
    Forest,
    HeatMap,
    Panel,
    RankDiagram,
    path_figures,
    published_line,
    rank_diagrams,
)
from mtlrun.report.grid import Column, Grid, Link, Marks, Section, csv_grid, show, tex_grid
from mtlrun.report.printed import PrintedTable
from mtlrun.report.references import reference_section
from mtlrun.report.run import PARTIAL
from mtlrun.report.sections import cell_groups
from mtlrun.report.tables import measured_grid

TEMPLATES = Path(__file__).parent / "templates"
#: Classes of verdicts and statuses.
TONES = {
    **{str(verdict): verdict.tone for verdict in Verdict},
    OK: "good",
    **dict.fromkeys((NOT_CONVERGED, PARTIAL), "part"),
    **dict.fromkeys((FAILED, DIVERGED, TIMEOUT), "bad"),
}
#: Characters from which on an entry is given some width; columns that are not broken; those that hold a verdict.
LONG = 40
WHOLE, JUDGED = ("dataset", "method", "status", "verdict"), ("status", "verdict")
#: A table with so few rows and so many columns is turned.
FEW_ROWS, MANY_COLUMNS = 2, 8
#: Size of a panel in a page; what its vertical axis can be switched to.
REM_PER_INCH, SCALES = 6.2, ("linear", "logarithmic")
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")


def html_report(report: Report) -> str:
    """Return a run as an HTML page: verdict, claims, tables, figures, protocol, and every cell behind it."""
    run = report.run
    paper = run.info.get("paper") or {}
    groups = cell_groups(run, report.rows)
    anchors = {(row.dataset, row.method): group.anchor for row, group in zip(report.rows, groups, strict=True)}
    tables = [_matrix(table, run.reading if report.readings else "", anchors) for table in report.tables]
    for name, others in report.other_tables.items():
        tables += [_matrix(table, name, {}) for table in others]
    results = None if tables else _table(_upright(measured_grid(run, report.rows)))
    shown = [_figure(place, figure) for place, figure in enumerate(_figures(report))]
    sections = [_section(section) for section in report.sections]
    contents = [("results", "Results")] + [("figures", "Figures")] * bool(shown)
    contents += [("claims", "Claims")] * bool(report.claims)
    contents += [("references", "Reference numbers")] * bool(report.references)
    count = sum(not section.empty for section in report.findings)
    contents += [(sections[0]["anchor"], "Findings")] * bool(count)
    contents += [(section["anchor"], section["title"]) for section in sections[count:]] + [("cells", "Cells")]
    return _render(
        "report.html",
        title=str(run.info.get("title", run.info.get("id", "Report"))),
        id=run.info.get("id"),
        profile=run.profile,
        source=". ".join(str(paper[k]) for k in ("cite", "artefact") if paper.get(k)),
        doi=paper.get("doi"),
        summary=report.summary,
        command=run.info.get("command"),
        contents=contents,
        claims=report.judged,
        untestable=report.untestable,
        notes=report.results[-1].lines,
        tables=tables,
        results=results,
        references=_section(reference_section(report.references)) if report.references else None,
        figures=shown,
        published=published_line(run),
        sections=sections,
        cells=[{**vars(group), "table": _table(group.grid)} for group in groups],
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
    shown = [_figure(place, drawing) for place, drawing in enumerate(drawings)]
    parts = [_section(section) for section in sections]
    return _render("page.html", title=title, summary=summary, figures=shown, sections=parts)


def _figures(report: Report) -> list[Figure | RankDiagram]:
    paths = [] if report.run.config.get("sweep") else path_figures(report.run)  # there is one per value of an axis
    return [*report.figures, *paths, *rank_diagrams(report.run, report.rows)]


def _figure(place: int, figure: Figure | RankDiagram | Forest) -> dict[str, Any]:
    """Return a figure for the templates: its panels one by one, each also with the other scale where there is one.

    Parameters
    ----------
    place : int
        Number of the figure in the page.
    figure : Figure, RankDiagram or Forest
    """
    from mtlrun.report.drawing import drawn_alone, drawn_panel, legend  # matplotlib only where something is drawn

    about = {"title": figure.title, "caption": figure.caption, "alone": True, "legend": {}}
    if not isinstance(figure, Figure):
        drawn = drawn_alone(figure)
        part = _inline(f"{place}", drawn.svg) | {"title": "", "width": f"{drawn.width * REM_PER_INCH:.1f}rem"}
        part |= {"data": {"labels": [], "points": drawn.points}, "hidden": False, "scale": ""}
        return about | {"panels": [part]}
    panels: list[dict[str, Any]] = []
    for number, panel in enumerate(figure.panels):
        labels: list[str] = []
        variants: list[Panel | HeatMap] = [panel]
        if isinstance(panel, Panel):
            labels = [curve.label for curve in panel.curves]
            other = panel.rescaled()
            variants = [panel] if other is None else [other, panel] if panel.log else [panel, other]
        for variant in variants:
            drawn = drawn_panel(figure, variant)
            part = _inline(f"{place}-{number}-{len(panels)}", drawn.svg)
            part |= {"title": panel.title, "width": f"{drawn.width * REM_PER_INCH:.1f}rem"}
            part |= {"data": {"labels": labels, "points": drawn.points}, "hidden": variant is not panel}
            panels.append(part | {"scale": SCALES[variants.index(variant)] if len(variants) > 1 else ""})
    return about | {"alone": len(figure.panels) == 1, "panels": panels, "legend": legend(figure)}


def _inline(place: str, text: str) -> dict[str, Any]:
    """Return an SVG as part of a page: without its prolog, its ids apart from those of other figures."""
    text = text[text.index("<svg") :]
    for before in ('id="', 'xlink:href="#', 'href="#', "url(#"):
        text = re.sub(rf"(?<![\w:]){re.escape(before)}(?!f{place}-)", f"{before}f{place}-", text)
    return {"svg": Markup(text)}


def _section(section: Section) -> dict[str, Any]:
    anchor = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
    tables = [_table(grid) for grid in section.grids if grid.rows]
    return {"title": section.title, "anchor": f"s-{anchor}", "lines": section.lines, "tables": tables}


def _table(grid: Grid) -> dict[str, Any]:
    """Return a grid as the templates need it: texts, and numbers to sort by."""
    columns = [{"name": c.name, "right": c.kind != "text"} for c in grid.columns]
    rows = [[_entry(c, value) for c, value in zip(grid.columns, row, strict=True)] for row in grid.rows]
    return {"columns": columns, "rows": rows}


def _upright(grid: Grid) -> Grid:
    """Return a table of few and long rows with its columns as rows."""
    if len(grid.rows) > FEW_ROWS or len(grid.columns) < MANY_COLUMNS:
        return grid
    heads = [" / ".join(show(value) for value in row[:2]) for row in grid.rows]
    rows = [[column.name, *(show(row[i], column.kind) for row in grid.rows)] for i, column in enumerate(grid.columns)]
    return Grid([Column("quantity"), *(Column(head, "number") for head in heads)], rows[2:])


def _matrix(table: PrintedTable, reading: str, anchors: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return a table as the paper prints it: our number large, the printed one below in the colour of its verdict."""
    rows = []
    for head, cells in table.rows:
        entries: list[dict[str, Any] | None] = []
        for cell in cells:
            if cell is None:
                entries.append(None)
                continue
            link = anchors.get((cell.row.dataset, cell.row.method))
            exact = None if cell.value is None else f"{cell.value:.10g}"
            entries.append({**vars(cell), "exact": exact, "link": link and f"#{link}"})
        rows.append({"head": head, "cells": entries})
    name = re.sub(r"[^a-z0-9]+", "-", f"{table.title} {reading}".lower()).strip("-")
    files = {"csv": csv_grid(table.grid(exact=True)), "LaTeX": tex_grid(table.grid())}
    shown = {"corner": table.corner, "across": table.across, "columns": table.columns, "rows": rows}
    links = [(kind, f"{name}.{'tex' if kind == 'LaTeX' else kind}", quote(text)) for kind, text in files.items()]
    return {"title": table.title, "reading": reading, "links": links, **shown}


def _entry(column: Column, value: Any) -> dict[str, Any]:
    text = show(value, column.kind)
    number: Any = value if isinstance(value, int | float) else None
    if number is None and column.kind != "text" and (found := _NUMBER.match(text)):
        number = found[0]  # the mean in "mean ± deviation"
    css = ["right"] * (column.kind != "text") + ["whole"] * (column.name in WHOLE) + ["long"] * (len(text) > LONG)
    css += [tone(text), "badge"] * (column.name in JUDGED)
    link = value.address if isinstance(value, Link) else None
    marks = value.marks if isinstance(value, Marks) else ()
    return {"name": column.name, "marks": marks, "text": text, "value": number, "css": " ".join(css), "link": link}


def tone(word: str) -> str:
    """Return the class of a verdict or status: good, part, bad or none."""
    return TONES.get(word) or TONES.get(word.split(" ")[0], "none")


def _holding(answer: str) -> str:
    return {"yes": "good", "no": "bad"}.get(answer, "none")


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
    environment.filters.update(code=_code, bullets=_bullets, tone=tone, holding=_holding)
    return environment


def _render(template: str, **content: Any) -> str:
    own = {name: Markup((TEMPLATES / name).read_text(encoding="utf-8")) for name in ("style.css", "script.js")}
    made = _environment().get_template(template)
    return made.render(style=own["style.css"], script=own["script.js"], **content) + "\n"
