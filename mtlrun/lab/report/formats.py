"""Report of a run as Markdown, JSON, CSV, LaTeX and HTML, with the same bytes
everywhere.

The HTML page contains its styles, script and figures; nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import BaseModel

from mtlrun.errors import UnknownNameError
from mtlrun.lab.experiment.claims import Verdict, verdict_label
from mtlrun.lab.report.build import (
    Report,
    interpretation_sections,
    is_partial,
    notes,
    result_sections,
    tested_claims,
    untested_claims_lines,
)
from mtlrun.lab.report.figures import (
    FIGURES,
    path_figures,
    published_line,
    rank_diagrams,
)
from mtlrun.lab.report.findings import claim_table
from mtlrun.lab.report.method_results import PARTIAL
from mtlrun.lab.report.printed import (
    only_quantities,
    quantities_in,
    result_grid,
    transposed,
    with_printed,
)
from mtlrun.lab.report.references import reference_grid, reference_section
from mtlrun.lab.report.run import STOPPED, title_of
from mtlrun.lab.report.sections import job_table
from mtlrun.show import page
from mtlrun.show.figures import Drawing
from mtlrun.show.report_table import (
    ReportTable,
    Section,
    csv_grid,
    escape_html,
    escape_markdown,
    escape_tex,
    json_text,
    markdown_grid,
    markdown_section,
    tex_grid,
)
from mtlrun.utils.io import read_text_file, refuse_links, write_atomic
from mtlrun.utils.temporary import tidy_folders

if TYPE_CHECKING:
    import jinja2

#: Version of the format of report.json.
SCHEMA = 1
#: Name of the page of a run.
PAGE = "report.html"
#: Head of report.tex: what a document needs to include the tables.
TEX_HEAD = """\
% Tables of a run of mtlrun, to be set in a document such as
%   \\documentclass{article}
%   \\usepackage[utf8]{inputenc}
%   \\usepackage[T1]{fontenc}
%   \\usepackage{booktabs}
%   \\begin{document}
%   \\input{report.tex}
%   \\end{document}"""
#: Folder of the templates of pages.
TEMPLATES = Path(__file__).parent / "templates"


#: CSS classes of verdicts and statuses.
TONES = {**page.STATUS_TONES, PARTIAL: "part"}
for _verdict in Verdict:
    TONES[_verdict.value] = _verdict.tone
    TONES[_verdict.label] = _verdict.tone


# ------------------------------------------------------------ Markdown


def markdown(report: Report) -> str:
    """Return report.md: outcome, tables, claims, published numbers and all sections."""
    run = report.run
    outcome = Section("Outcome", [f"* {line}" for line in report.summary])
    figures = Section("Figures")
    for figure in report.figures:
        figures.lines.append(f"![{figure.caption}]({FIGURES}/{figure.name}.svg)")
    published = published_line(run)
    if figures.lines and published:
        figures.lines.append(published)
    claims = Section("Claims")
    if report.claims:
        claims.grids.append(claim_table(run, report.claims))
    sections = [
        figures,
        claims,
        Section("What the verdicts rest on", claim_lines(report)),
        reference_section(report.references),
        *interpretation_sections(report),
        *report.sections,
    ]
    blocks = [
        f"# {run.spec.title}",
        f"`{run.spec.id}`, profile `{run.experiment.profile}`",
    ]
    paper = run.spec.paper
    if paper is not None:
        source = [paper.cite, paper.artefact]
        if paper.doi:
            source.append(f"doi:{paper.doi}")
        blocks.append(". ".join(filter(None, source)))
    blocks += [markdown_section(outcome), "## Results"]
    for section in result_sections(report):
        if section.title:
            blocks.append(f"**{escape_markdown(section.title)}**")
        blocks += map(markdown_grid, section.grids)
    blocks += notes(report)
    for section in sections:
        if not section.empty:
            blocks.append(markdown_section(section))
    text = "\n\n".join(filter(None, blocks))
    return escape_html(f"{text}\n")


def claim_lines(report: Report, *, brief: bool = False) -> list[str]:
    """Return the claims with their verdicts and what was found, a line each.

    Parameters
    ----------
    report : Report
    brief : bool, default=False
        Whether to leave out the single comparisons.
    """
    lines = []
    for claim in tested_claims(report):
        location = ""
        if claim.place:
            location = f" ({claim.place})"
        if brief:
            claim = replace(claim, why=claim.why.split("; ")[0])
        text = claim.text.rstrip(".")
        lines.append(
            f"* **{verdict_label(claim.verdict)}**: {claim.id}{location}: {text}. "
            f"{claim.found}"
        )
    for line in untested_claims_lines(report):
        label, _, claims = line.partition(": ")
        lines.append(f"* **{label}**: {claims}")
    return lines


# ------------------------------------------------------------ CSV and JSON


def csv_table(report: Report) -> str:
    """Return table.csv: raw numbers, empty where there are none."""
    return csv_grid(result_grid(report.run, report.rows))


def json_report(report: Report) -> str:
    """Return report.json."""
    spec = report.run.spec
    experiment = report.run.experiment
    job_counts = dict(report.job_counts)
    if not job_counts[STOPPED]:
        del job_counts[STOPPED]
    trials = []
    for row in report.rows:
        if row.samples:
            trials.append(
                {"dataset": row.dataset, "method": row.method, "values": row.samples}
            )
    claims = [claim.to_dict() for claim in report.claims]
    references = [reference.to_dict() for reference in report.references]
    sections = []
    for section in (*interpretation_sections(report), *report.sections):
        tables = [table.records() for table in section.grids if table.rows]
        sections.append(
            {"title": section.title, "lines": section.lines, "tables": tables}
        )
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "id": spec.id,
        "title": spec.title,
        "kind": spec.kind,
        "paper": spec.paper,
        "overrides": experiment.overrides,
        "command": experiment.command,
        "seed": spec.seed,
        "profile": experiment.profile,
        "partial": is_partial(report),
        "cells": job_counts,
        "summary": report.summary,
        "claims": claims,
        "table": result_grid(report.run, report.rows).records(),
        "trials": trials,
        "reference": references,
        "sections": sections,
    }
    return json_text(plain_models(content))


def plain_models(content: Any) -> Any:
    """Return a JSON value with the pydantic models in it as dictionaries."""
    if isinstance(content, BaseModel):
        return plain_models(content.model_dump(exclude_unset=True))
    if isinstance(content, dict):
        return {name: plain_models(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain_models(value) for value in content]
    return content


# ------------------------------------------------------------ LaTeX


def latex(
    report: Report, *, transpose: bool = False, metrics: Sequence[str] = ()
) -> str:
    """Return booktabs tables for LaTeX, to be included in a document.

    Parameters
    ----------
    report : Report
    transpose : bool, default=False
        Whether to exchange the rows and columns of the tables.
    metrics : sequence of str
        Quantities, such as ``auc``, to which the output is restricted. Default: all
        tables, the claims and the published numbers.

    Raises
    ------
    UnknownNameError
        If no table has one of the quantities.
    """
    spec = report.run.spec
    profile = report.run.experiment.profile
    name = escape_tex(f"{spec.title} ({spec.id}, profile {profile})")
    tables = [(section.title, section.grids[0]) for section in report.tables]
    if metrics:
        available = set()
        for _, table in tables:
            available |= quantities_in(table)
        for metric in metrics:
            if metric not in available:
                raise UnknownNameError("metric of this table", metric, available)
        parts = [(title, only_quantities(table, metrics)) for title, table in tables]
        tables = [(title, table) for title, table in parts if table.rows]
    blocks = [TEX_HEAD]
    for title, table in tables:
        caption = name
        if title:
            caption = f"{name}: {escape_tex(title)}"
        if transpose:
            _, column_axis = report.axes
            table = transposed(table, column_axis)
        blocks.append(tex_grid(with_printed(table), caption=caption))
    if report.claims and not metrics:
        table = ReportTable.of("claim", "text", "verdict")
        for claim in report.claims:
            table.rows.append([claim.id, claim.text, verdict_label(claim.verdict)])
        blocks.append(tex_grid(table, "lp{0.6\\linewidth}l", "Claims"))
    if report.references and not metrics:
        table = reference_grid(report.references)
        # The last column, the rule of the tolerance, does not fit on a page.
        table = table.part(range(len(table.columns) - 1))
        blocks.append(tex_grid(table, caption="Reference numbers"))
    return "\n\n".join(blocks) + "\n"


# ------------------------------------------------------------ HTML


def html_report(report: Report) -> str:
    """Return the page of a run: verdicts, tables, figures, protocol, and every job."""
    run = report.run
    anchors = {}
    # Each method on each data set, with the title, table and logs of its jobs.
    jobs = []
    for index, row in enumerate(report.rows):
        anchors[row.dataset, row.method] = f"cell-{index}"
        jobs.append((row, title_of(run, row.dataset), *job_table(run, row)))
    # In a sweep there would be a figure of the search for each value of the axis.
    search_figures = []
    if run.spec.sweep is None:
        search_figures = path_figures(run)
    figures: list[Drawing] = [*report.figures, *rank_diagrams(run, report.rows)]
    main_titles = [table.title for table in report.tables]
    other_titles = [table.title for table in report.interpretation_tables]
    n_measured = sum(not section.empty for section in report.measured)
    return page.render(
        _environment(),
        "report.html",
        title=run.spec.title,
        report=report,
        run=run,
        paper=run.spec.paper,
        anchors=anchors,
        titles=list(dict.fromkeys([*main_titles, *other_titles])),
        main_titles=set(main_titles),
        notes=notes(report),
        claims=claim_table(run, report.claims),
        tested_claims=tested_claims(report),
        untested_claims=untested_claims_lines(report),
        references=reference_section(report.references),
        figures=page.images(figures),
        tuning=page.images(search_figures),
        published=published_line(run),
        n_measured=n_measured,
        cells=jobs,
    )


@cache
def _environment() -> jinja2.Environment:
    return page.environment(
        [TEMPLATES, page.TEMPLATES],
        TONES,
        label=verdict_label,
        # Tables as CSV, with all digits, and as LaTeX, for the URLs of downloads.
        csv=lambda table: quote(csv_grid(with_printed(table, exact=True))),
        tex=lambda table: quote(tex_grid(with_printed(table))),
    )


# ------------------------------------------------------------ files

#: Formats by name.
FORMATS: dict[str, Callable[[Report], str]] = {
    "md": markdown,
    "json": json_report,
    "csv": csv_table,
    "tex": latex,
    "html": html_report,
}
#: Files written next to the page and the figures. Other formats are made on demand.
FILES: dict[str, Callable[[Report], str]] = {
    "report.md": markdown,
    "table.csv": csv_table,
}


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
    """Write all files of a report, including its figures, and return their paths."""
    refuse_links(folder, Path(folder) / FIGURES)
    paths = write_texts(report, folder)
    page_path = Path(folder) / PAGE
    write_atomic(page_path, html_report(report))
    paths.append(page_path)
    for figure in report.figures:
        # Matplotlib is imported only if there is something to draw.
        from mtlrun.show.drawing import write_drawing

        path = _figure_path(folder, figure)
        write_drawing(figure, path)
        paths.append(path)
    tidy_folders(*(path.parent for path in paths))
    return paths


def write_texts(report: Report, folder: Path) -> list[Path]:
    """Write the files of a report that need no drawing, and return their paths."""
    paths = []
    for name, write in FILES.items():
        path = Path(folder) / name
        write_atomic(path, write(report))
        paths.append(path)
    return paths


def is_written(report: Report, folder: Path) -> bool:
    """Return whether a folder has all files of a report.

    Only report.md is compared with it, which changes if any other file does.
    """
    text_path = Path(folder) / "report.md"
    figures = [_figure_path(folder, figure) for figure in report.figures]
    required = [Path(folder) / PAGE, text_path, *figures]
    if not all(map(Path.is_file, required)):
        return False
    return read_text_file(text_path) == render(report, "md")


def _figure_path(folder: Path, figure: Drawing) -> Path:
    return Path(folder) / FIGURES / f"{figure.name}.svg"
