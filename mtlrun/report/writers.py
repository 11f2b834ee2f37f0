"""The report as Markdown, JSON, CSV and LaTeX; the same bytes on every machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtlrun.errors import UnknownNameError
from mtlrun.report.build import Report
from mtlrun.report.checks import Verdict, said
from mtlrun.report.figures import FIGURES, Figure, published_line
from mtlrun.report.grid import (
    Column,
    Grid,
    Section,
    csv_grid,
    escape_html,
    escape_markdown,
    escape_tex,
    json_text,
    markdown_grid,
    markdown_section,
    tex_table,
)
from mtlrun.report.outcome import claims_grid
from mtlrun.report.printed import result_grid
from mtlrun.report.references import reference_grid, reference_section
from mtlrun.utils.io import write_atomic
from mtlrun.utils.processes import tidy_folders

SCHEMA = 1
#: The page of a run.
PAGE = "report.html"
#: What a document needs around the tables, once they are saved as report.tex.
TEX_HEAD = """\
% Tables of a run of mtlrun, to be set in a document such as
%   \\documentclass{article}
%   \\usepackage[utf8]{inputenc}
%   \\usepackage[T1]{fontenc}
%   \\usepackage{booktabs}
%   \\begin{document}
%   \\input{report.tex}
%   \\end{document}"""


def markdown(report: Report) -> str:
    """Return report.md: the verdict first, then claims, table, reference numbers and the account of the run."""
    info = report.run.info
    paper = info.get("paper") or {}
    source = [str(paper[k]) for k in ("cite", "artefact") if paper.get(k)]
    source += [f"doi:{paper['doi']}"] if paper.get("doi") else []
    head = [f"# {info.get('title', info.get('id', 'Report'))}", f"`{info.get('id')}`, profile `{report.run.profile}`"]
    outcome = Section("Outcome", [f"* {line}" for line in report.summary])
    rest = [
        Section("Figures", _figure_lines(report)),
        Section("Claims", grids=[claims_grid(report.run, report.claims)] if report.claims else []),
        Section("What the verdicts rest on", _claim_lines(report)),
        reference_section(report.references),
        *report.other_results,
        *report.sections,
    ]
    blocks = [*head, ". ".join(source), markdown_section(outcome), "## Results", _tables(report)]
    blocks += [markdown_section(section) for section in rest if not section.empty]
    return escape_html("\n\n".join(filter(None, blocks)) + "\n")


def _tables(report: Report) -> str:
    """Return the tables as the paper prints them, each with its title."""
    blocks = []
    for section in report.results:
        if section.title:
            blocks.append(f"**{escape_markdown(section.title)}**")
        blocks += [markdown_grid(section.grids[0]), *section.lines]
    return "\n\n".join(blocks)


def csv_table(report: Report) -> str:
    """Return table.csv: raw numbers, empty where unknown."""
    return csv_grid(result_grid(report.run, report.rows))


def json_report(report: Report) -> str:
    """Return the report as JSON."""
    info = report.run.info
    header: dict[str, Any] = {
        k: info[k] for k in ("id", "title", "kind", "paper", "overrides", "command", "seed") if k in info
    }
    content: dict[str, Any] = {
        "schema": SCHEMA,
        **header,
        "profile": report.run.profile,
        "partial": report.partial,
        "cells": {name: count for name, count in report.cells.items() if count or name != "stopped"},
        "summary": report.summary,
        "claims": [{**dataclasses.asdict(c), "accepted": c.accepted} for c in report.claims],
        "table": result_grid(report.run, report.rows).records(),
        "trials": [{"dataset": r.dataset, "method": r.method, "values": r.samples} for r in report.rows if r.samples],
        "reference": [dataclasses.asdict(r) for r in report.references],
        "sections": [
            {"title": s.title, "lines": s.lines, "tables": [grid.records() for grid in s.grids if grid.rows]}
            for s in (*report.other_results, *report.sections)
        ],
    }
    return json_text(content)


def latex(report: Report) -> str:
    """Return a file for LaTeX: the table and the reference numbers as booktabs tables, to be input in a document."""
    name = escape_tex(f"{report.run.info.get('title', '')} ({report.run.info.get('id')}, profile {report.run.profile})")
    blocks = [TEX_HEAD]
    for section in report.results:
        title = f"{name}: {escape_tex(section.title)}" if section.title else name
        blocks.append(tex_table(title, section.grids[0]))
    if report.claims:
        grid = Grid([Column("claim"), Column("text"), Column("verdict")])
        grid.rows = [[c.id, c.text, said(c.verdict)] for c in report.claims]
        blocks.append(tex_table("Claims", grid, "lp{0.6\\linewidth}l"))
    if report.references:
        blocks.append(tex_table("Reference numbers", reference_grid(report.references, why=False)))
    return "\n\n".join(blocks) + "\n"


def html(report: Report) -> str:
    """Return report.html: one file with everything in it."""
    from mtlrun.report.html import html_report  # draws, and loads a template engine

    return html_report(report)


FORMATS: dict[str, Callable[[Report], str]] = {
    "md": markdown,
    "json": json_report,
    "csv": csv_table,
    "tex": latex,
    "html": html,
}
#: What is written beside the page and the figures; the other formats are made on demand.
FILES: dict[str, Callable[[Report], str]] = {"report.md": markdown, "table.csv": csv_table}


def render(report: Report, form: str) -> str:
    """Return the report in one of `FORMATS`.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    """
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    return FORMATS[form](report)


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write all files of the report, its figures included, into a folder and return their paths."""
    paths = [*write_texts(report, folder), Path(folder) / PAGE]
    write_atomic(paths[-1], html(report))
    for figure in report.figures:
        from mtlrun.report.drawing import write_drawing  # loads matplotlib: only where there is something to draw

        paths.append(_figure_path(folder, figure))
        write_drawing(figure, paths[-1])
    tidy_folders(*(path.parent for path in paths))
    return paths


def write_texts(report: Report, folder: Path) -> list[Path]:
    """Write the files of the report that need no drawing, and return their paths."""
    for name, writer in FILES.items():
        write_atomic(Path(folder) / name, writer(report))
    return [Path(folder) / name for name in FILES]


def is_written(report: Report, folder: Path) -> bool:
    """Whether the files in a folder are those of this report, as far as its text tells, and no figure is missing."""
    written, page = Path(folder) / "report.md", Path(folder) / PAGE
    figures = [_figure_path(folder, figure) for figure in report.figures]
    there = all(path.is_file() for path in (page, written, *figures))
    return there and written.read_text(encoding="utf-8") == render(report, "md")


def _figure_path(folder: Path, figure: Figure) -> Path:
    return Path(folder) / FIGURES / f"{figure.name}.svg"


def _figure_lines(report: Report) -> list[str]:
    lines = [f"![{figure.caption}](figures/{figure.name}.svg)" for figure in report.figures]
    source = published_line(report.run) if lines else None
    return [*lines, *filter(None, [source])]


def _claim_lines(report: Report) -> list[str]:
    lines = []
    for claim in report.judged:
        where = f" ({claim.place})" if claim.place else ""
        head = f"* **{said(claim.verdict)}**: {claim.id}{where}: {claim.text.rstrip('.')}."
        readings = f" {claim.under_readings[:1].upper()}{claim.under_readings[1:]}." if claim.holding else ""
        lines.append(f"{head} {claim.found}{readings}")
    return lines + [f"* **{Verdict.NOT_TESTABLE.said}**: {line}" for line in report.untestable]
