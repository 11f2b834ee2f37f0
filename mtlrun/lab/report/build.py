"""The report of a run in memory, and as Markdown, JSON, CSV, LaTeX and one HTML file; the same bytes on every machine.

The page has styles, script and figures inside; nothing is loaded from elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import BaseModel

from mtlrun.engine.record import PROTOCOL
from mtlrun.errors import UnknownNameError, counted
from mtlrun.lab.report.cells import (
    COMPLETE,
    PARTIAL,
    MethodResult,
    Run,
    read_run,
    tidy_frame,
)
from mtlrun.lab.report.checks import CLAIM_SOURCES, NUMBERS, Verdict, said
from mtlrun.lab.report.claims import ClaimVerdict, tests_section
from mtlrun.lab.report.figures import (
    FIGURES,
    matrix_sections,
    path_figures,
    published_line,
    rank_diagrams,
    run_figures,
)
from mtlrun.lab.report.interpretations import (
    JudgedRun,
    ReferenceVerdict,
    judged,
    over_readings,
    readings_section,
    reference_grid,
    reference_section,
)
from mtlrun.lab.report.printed import (
    measurement_sections,
    only_quantities,
    printed_axes,
    printed_tables,
    quantities_in,
    result_grid,
    result_notes,
    table_notes,
    transposed,
    with_printed,
)
from mtlrun.lab.report.sections import (
    claims_grid,
    computing_seconds,
    counts_text,
    findings,
    row_cells,
    run_sections,
)
from mtlrun.lab.report.side_by_side import side_by_side
from mtlrun.lab.report.statistics import comparison_section, group_section
from mtlrun.tables import page
from mtlrun.tables.figures import Drawing
from mtlrun.tables.report_table import (
    ReportTable,
    Section,
    csv_grid,
    escape_html,
    escape_markdown,
    escape_tex,
    html_block,
    json_text,
    markdown_grid,
    markdown_section,
    tex_grid,
)
from mtlrun.utils.io import read_text_file, write_atomic
from mtlrun.utils.processes import tidy_folders

if TYPE_CHECKING:
    import jinja2
    import pandas as pd

#: What may have become of cells that have no number.
TROUBLE = {
    "failed": "failed",
    "missing": "not computed yet",
    "stopped": "stopped at the time limit",
}


@dataclass(repr=False)
class Report:
    """Everything that is said about a run. In a notebook it shows outcome and tables.

    Attributes
    ----------
    main : JudgedRun
        The run under its main reading.
    claims : list of ClaimVerdict
        With their verdicts under all readings.
    sections : list of Section
        Everything below the table, empty ones left out.
    figures : list of Figure, RankDiagram or Dumbbell
        Drawn by `mtlrun.tables.drawing`.
    measured : list of Section
        Those of `sections` that measurements and tests of ranks contribute.
    readings : list of JudgedRun
        The run under the readings other than the main one, as far as they were begun.
    tables : list of Section
        As the paper prints them.
    interpretations : list of Section
        The tables that other interpretations change or add, with a column per interpretation.
    """

    main: JudgedRun
    claims: list[ClaimVerdict]
    sections: list[Section]
    figures: list[Drawing] = field(default_factory=list)
    measured: list[Section] = field(default_factory=list)
    readings: list[JudgedRun] = field(default_factory=list)
    tables: list[Section] = field(default_factory=list)
    interpretations: list[Section] = field(default_factory=list)

    @property
    def run(self) -> Run:
        """The run under its main reading."""
        return self.main.run

    @property
    def rows(self) -> list[MethodResult]:
        """Its table."""
        return self.main.rows

    @property
    def references(self) -> list[ReferenceVerdict]:
        """Its printed numbers."""
        return self.main.references

    def __repr__(self) -> str:
        return f"<Report {self.run.info.get('id')}, profile {self.run.profile}: {cells_text(self.cells)}>"

    def _repr_html_(self) -> str:
        return html_block(
            str(self.run.info.get("title", "")), self.summary, self.results
        )

    def frame(self) -> pd.DataFrame:
        """Return one row per cell, see `mtlrun.load_results`."""
        return tidy_frame(self.run)

    @property
    def results(self) -> list[Section]:
        """The tables as the paper prints them, a titled section each."""
        return [_as_text(table) for table in self.tables]

    def notes(self, *, bold: bool = True) -> list[str]:
        """Return how the tables are to be read, where the best numbers are in bold or cannot be."""
        return [
            *result_notes(self.run, self.rows),
            *table_notes(self.run, self.rows, self.tables, bold=bold),
            *self._lack_of_numbers,
        ]

    @property
    def interpretation_sections(self) -> list[Section]:
        """The tables under all interpretations, each with a heading for documents without captions."""
        sections = []
        for table in self.interpretations:
            heading = "Interpretations side by side"
            if table.title:
                heading += f": {table.title}"
            # Lines belong to a table in its printed form, numbers of the paper included.
            grids = list(map(with_printed, table.grids)) if table.lines else table.grids
            sections.append(Section(heading, table.lines, grids))
        return sections

    @property
    def runs(self) -> list[Run]:
        """The run under its main reading, and the cells that only the others have, as far as those were begun."""
        return [self.run, *_alone(self.run)]

    @property
    def cells(self) -> dict[str, int]:
        """Cells of the plan, those with a number, and the others by what became of them, of all readings begun."""
        outcomes = Counter(
            run.outcome(cell) for run in self.runs for cell in run.planned
        )
        return {
            "planned": outcomes.total(),
            **{outcome: outcomes[outcome] for outcome in (COMPLETE, *TROUBLE)},
        }

    @property
    def judged(self) -> list[ClaimVerdict]:
        """The claims that could be tested here."""
        return [claim for claim in self.claims if claim.verdict != Verdict.NOT_TESTABLE]

    @property
    def untestable(self) -> list[str]:
        """The other claims in a line: how many, which, and why."""
        reasons: dict[str, list[str]] = {}
        for claim in self.claims:
            if claim.verdict == Verdict.NOT_TESTABLE:
                reasons.setdefault(claim.why.rstrip("."), []).append(claim.id)
        shown = "; ".join(f"{', '.join(ids)} ({why})" for why, ids in reasons.items())
        return (
            [f"{counted(sum(map(len, reasons.values())), 'claim')}: {shown}."]
            if reasons
            else []
        )

    @property
    def partial(self) -> bool:
        """Whether cells still have to be computed."""
        return any(run.missing for run in self.runs)

    @property
    def findings(self) -> list[str]:
        """What was found, in words with numbers."""
        return findings(self.claims)

    @property
    def summary(self) -> list[str]:
        """The verdict in a few lines: what was found, then counts."""
        cells = f"{'PARTIAL RUN: ' if self.partial else ''}{cells_text(self.cells)}."
        lines = [cells] if self.partial else []
        if self.partial and self.run.info.get("command"):
            lines.append(f"To finish it: {self.run.info['command']}")
        lines += [
            *self.findings,
            *verdict_lines(self.claims, [r.verdict for r in self.references], "paper"),
        ]
        lines += [cells] if not self.partial else []
        if self.run.altered:
            lines.append(
                "run.json was modified after it was written; rerun before trusting this report."
            )
        if self.run.unreadable:
            lines.append(
                f"{counted(len(self.run.unreadable), 'record')} altered or damaged, and left out."
            )
        if self.run.unsound:
            lines.append(
                f"The test scores of {counted(len(self.run.unsound), 'cell')} are missing or damaged."
            )
        earlier = sum(record.protocol != PROTOCOL for record in self.run.cells.values())
        if earlier:
            were = "cell was" if earlier == 1 else "cells were"
            lines.append(
                f"{earlier} {were} computed by an earlier version of mtlrun (protocol 1)."
            )
        return lines

    @property
    def _lack_of_numbers(self) -> list[str]:
        """A line on a table whose published numbers the experiment does not have."""
        paper = self.run.info.get("paper") or {}
        item = str(paper.get("artefact", ""))
        if self.references:
            return []
        if re.fullmatch(r"Table \w+", item) is None:
            return []
        return [f"No published numbers of {item} are stored: see the claims."]

    @property
    def seconds(self) -> float:
        """Seconds of computing, what was copied from other runs left out."""
        return computing_seconds(self.run)

    @property
    def check_problems(self) -> list[str]:
        """What makes ``--check`` fail: numbers out of tolerance and claims that the numbers contradict."""
        problems = [
            f"{r.dataset} / {r.method}: {r.quantity} is {r.ours:.6g}, the {r.source} says {r.value:.6g}; "
            f"the difference {r.difference:+.3g} exceeds the tolerance {r.tolerance:.3g} ({r.why})"
            for r in self.references
            if r.verdict == Verdict.OUTSIDE
        ]
        problems += [
            f"claim {c.id}: {c.verdict}: {c.why}" for c in self.claims if not c.accepted
        ]
        return problems


def _as_text(table: Section) -> Section:
    return Section(table.title, grids=[with_printed(table.grids[0])])


def cells_text(cells: Mapping[str, int]) -> str:
    """Say how many cells have a number and what became of the others; `cells` as of `Report`."""
    return ", ".join(
        [
            f"{cells['done']} of {counted(cells['planned'], 'cell')} done",
            *trouble_texts(cells),
        ]
    )


def trouble_texts(cells: Mapping[str, int]) -> list[str]:
    """Say what became of the cells without a number: ``2 failed``, ``1 not computed yet``."""
    return [f"{cells[name]} {text}" for name, text in TROUBLE.items() if cells[name]]


def verdict_lines(
    claims: Sequence[ClaimVerdict], numbers: Sequence[str], papers: str
) -> list[str]:
    """Count the verdicts on claims, by whose they are, and on reference numbers, a line each where there are any."""
    lines = []
    for source, text in CLAIM_SOURCES.items():
        if found := [claim for claim in claims if claim.source == source]:
            what = f"{counted(len(found), 'claim')} {text.format(papers=papers)}"
            lines.append(f"{what}: {counts_text(found)}.")
    if numbers:
        counts = Counter(numbers)
        told = ", ".join(
            f"{counts[verdict]} {verdict.said}"
            for verdict in NUMBERS
            if counts[verdict]
        )
        lines.append(f"{counted(len(numbers), 'printed number')}: {told}.")
    return lines


def _alone(run: Run) -> list[Run]:
    """Return the run under other readings, each with the cells that none before has."""
    return [replace(other, planned=own) for other, own in run.begun]


def build_report(folder: Path) -> Report:
    """Build the report of a run folder, finished or not.

    Parameters
    ----------
    folder : Path
        Of the run; its records lie packed in it, or in the ``cells/`` of the output folder.

    Raises
    ------
    DataError
        If the folder is not one of a run.
    """
    run = read_run(folder)
    main = judged(run)
    others = [judged(other) for other, _ in run.begun]
    claims = over_readings(main, others)
    tables = printed_tables(main)
    measured = [*measurement_sections(run), *map(group_section, main.groups)]
    measured += matrix_sections(run)
    sections = [
        readings_section(main, others, claims),
        *measured,
        tests_section(run, claims),
        comparison_section(run, main.rows),
        *run_sections(run, main.rows, _alone(run)),
    ]
    return Report(
        main,
        claims,
        [section for section in sections if not section.empty],
        run_figures(main, tables),
        measured,
        others,
        tables,
        side_by_side(
            {main.name: tables, **_other_tables(run, others, tables)},
            printed_axes(main),
        ),
    )


def _other_tables(
    run: Run, others: Sequence[JudgedRun], shown: Sequence[Section]
) -> dict[str, list[Section]]:
    """Return the tables of readings with cells of their own; of the others those of quantities not shown yet."""
    titles, shared = (
        {table.title for table in shown},
        {cell.key for cell in run.planned},
    )
    found = {}
    for one in others:
        own = any(cell.key not in shared for cell in one.run.planned)
        tables = [
            table for table in printed_tables(one) if own or table.title not in titles
        ]
        if own or tables:
            found[one.name] = tables
    return found


# ---------------------------------------------------------------------- Markdown, JSON, CSV and LaTeX

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
    head = [
        f"# {info.get('title', info.get('id', 'Report'))}",
        f"`{info.get('id')}`, profile `{report.run.profile}`",
    ]
    outcome = Section("Outcome", [f"* {line}" for line in report.summary])
    figures = [
        f"![{figure.caption}](figures/{figure.name}.svg)" for figure in report.figures
    ]
    published = published_line(report.run) if figures else None
    rest = [
        Section("Figures", [*figures, *filter(None, [published])]),
        Section(
            "Claims",
            grids=[claims_grid(report.run, report.claims)] if report.claims else [],
        ),
        Section("What the verdicts rest on", claim_lines(report)),
        reference_section(report.references),
        *report.interpretation_sections,
        *report.sections,
    ]
    blocks = [
        *head,
        ". ".join(source),
        markdown_section(outcome),
        "## Results",
        _tables(report),
    ]
    blocks += [markdown_section(section) for section in rest if not section.empty]
    return escape_html("\n\n".join(filter(None, blocks)) + "\n")


def _tables(report: Report) -> str:
    """Return the tables as the paper prints them, each with its title."""
    blocks = []
    for section in report.results:
        if section.title:
            blocks.append(f"**{escape_markdown(section.title)}**")
        blocks += map(markdown_grid, section.grids)
    return "\n\n".join([*blocks, *report.notes()])


def csv_table(report: Report) -> str:
    """Return table.csv: raw numbers, empty where unknown."""
    return csv_grid(result_grid(report.run, report.rows))


def json_report(report: Report) -> str:
    """Return the report as JSON."""
    info = report.run.info
    header: dict[str, Any] = {
        k: info[k]
        for k in ("id", "title", "kind", "paper", "overrides", "command", "seed")
        if k in info
    }
    content: dict[str, Any] = {
        "schema": SCHEMA,
        **header,
        "profile": report.run.profile,
        "partial": report.partial,
        "cells": {
            name: count
            for name, count in report.cells.items()
            if count or name != "stopped"
        },
        "summary": report.summary,
        "claims": [claim.to_dict() for claim in report.claims],
        "table": result_grid(report.run, report.rows).records(),
        "trials": [
            {"dataset": r.dataset, "method": r.method, "values": r.samples}
            for r in report.rows
            if r.samples
        ],
        "reference": [verdict.to_dict() for verdict in report.references],
        "sections": [
            {
                "title": s.title,
                "lines": s.lines,
                "tables": [grid.records() for grid in s.grids if grid.rows],
            }
            for s in (*report.interpretation_sections, *report.sections)
        ],
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


def latex(
    report: Report, *, transpose: bool = False, metrics: Sequence[str] = ()
) -> str:
    """Return a file for LaTeX, to be input in a document: booktabs tables.

    Parameters
    ----------
    report : Report
    transpose : bool, default=False
        Whether rows and columns of the tables change places.
    metrics : sequence of str
        Quantities, such as ``auc``, whose numbers are written, and nothing else.
        Default: all tables, the claims and the reference numbers.

    Raises
    ------
    UnknownNameError
        For a quantity that no table shows.
    """
    name = escape_tex(
        f"{report.run.info.get('title', '')} ({report.run.info.get('id')}, profile {report.run.profile})"
    )
    blocks = [TEX_HEAD]
    tables = [(section.title, section.grids[0]) for section in report.tables]
    if metrics:
        tables = _tables_of(tables, metrics)
    _, column_axis = printed_axes(report.main)
    for heading, grid in tables:
        title = name
        if heading:
            title = f"{name}: {escape_tex(heading)}"
        if transpose:
            grid = transposed(grid, column_axis)
        blocks.append(tex_grid(with_printed(grid), caption=title))
    if metrics:
        return "\n\n".join(blocks) + "\n"
    if report.claims:
        grid = ReportTable.of(
            "claim",
            "text",
            "verdict",
            rows=([c.id, c.text, said(c.verdict)] for c in report.claims),
        )
        blocks.append(tex_grid(grid, "lp{0.6\\linewidth}l", "Claims"))
    if report.references:
        grid = reference_grid(report.references)
        blocks.append(
            tex_grid(
                grid.part(range(len(grid.columns) - 1)), caption="Reference numbers"
            )
        )
    return "\n\n".join(blocks) + "\n"


def _tables_of(
    tables: Sequence[tuple[str, ReportTable]], metrics: Sequence[str]
) -> list[tuple[str, ReportTable]]:
    """Return the tables with the numbers of some quantities alone.

    Raises
    ------
    UnknownNameError
        For a quantity that no table shows.
    """
    shown = set()
    for _, grid in tables:
        shown |= quantities_in(grid)
    for name in metrics:
        if name not in shown:
            raise UnknownNameError("metric of this table", name, shown)
    parts = [(title, only_quantities(grid, metrics)) for title, grid in tables]
    return [(title, grid) for title, grid in parts if grid.rows]


def claim_lines(report: Report, *, brief: bool = False) -> list[str]:
    """Return the claims one by one, those tested with what was found, `brief` without the single comparisons."""
    lines = []
    for claim in report.judged:
        where = f" ({claim.place})" if claim.place else ""
        told = replace(claim, why=claim.why.split("; ")[0]) if brief else claim
        lines.append(
            f"* **{said(claim.verdict)}**: {claim.id}{where}: {claim.text.rstrip('.')}. {told.found}"
        )
    return lines + [
        f"* **{Verdict.NOT_TESTABLE.said}**: {line}" for line in report.untestable
    ]


# ---------------------------------------------------------------------- HTML

TEMPLATES = Path(__file__).parent / "templates"
#: Classes of verdicts and statuses.
TONES = {
    **page.STATUS_TONES,
    PARTIAL: "part",
    **{
        word: verdict.tone
        for verdict in Verdict
        for word in (verdict.value, verdict.said)
    },
}


def html_report(report: Report) -> str:
    """Return a run as an HTML page: verdict, claims, tables, figures, protocol, and every cell behind it."""
    run = report.run
    anchors = {
        (row.dataset, row.method): f"cell-{place}"
        for place, row in enumerate(report.rows)
    }
    shown = [*report.tables, *report.interpretations]
    paths = (
        [] if run.config.get("sweep") else path_figures(run)
    )  # there is one per value of an axis
    figures: list[Drawing] = [
        *report.figures,
        *rank_diagrams(run, report.rows),
    ]
    return page.render(
        _environment(),
        "report.html",
        title=str(run.info.get("title", run.info.get("id", "Report"))),
        report=report,
        run=run,
        paper=run.info.get("paper") or {},
        anchors=anchors,
        titles=list(dict.fromkeys(table.title for table in shown)),
        main_titles={table.title for table in report.tables},
        claims=claims_grid(run, report.claims),
        references=reference_section(report.references),
        figures=page.images(figures),
        tuning=page.images(paths),
        published=published_line(run),
        found=sum(not section.empty for section in report.measured),
        cells=[(row, *row_cells(run, row)) for row in report.rows],
    )


@cache
def _environment() -> jinja2.Environment:
    return page.environment(
        [TEMPLATES, page.TEMPLATES],
        TONES,
        said=said,
        csv=lambda grid: quote(csv_grid(with_printed(grid, exact=True))),
        tex=lambda grid: quote(tex_grid(with_printed(grid))),
    )


# ---------------------------------------------------------------------- files

FORMATS: dict[str, Callable[[Report], str]] = {
    "md": markdown,
    "json": json_report,
    "csv": csv_table,
    "tex": latex,
    "html": html_report,
}
#: What is written beside the page and the figures; the other formats are made on demand.
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
    """Write all files of the report, its figures included, into a folder and return their paths."""
    paths = [*write_texts(report, folder), Path(folder) / PAGE]
    write_atomic(paths[-1], html_report(report))
    for figure in report.figures:
        from mtlrun.tables.drawing import write_drawing

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
    return there and read_text_file(written) == render(report, "md")


def _figure_path(folder: Path, figure: Drawing) -> Path:
    return Path(folder) / FIGURES / f"{figure.name}.svg"
