"""Reports and summaries on a terminal, in a file or in a pipe."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import STYLES, verdict_label
from mtlrun.lab.report.build import (
    Report,
    job_counts_text,
    notes,
    result_sections,
    tested_claims,
    unshared_runs,
)
from mtlrun.lab.report.findings import (
    OTHER_DATA,
    OURS,
    counts_text,
    finding,
    numbers_of,
)
from mtlrun.lab.report.formats import TONES, claim_lines
from mtlrun.lab.report.run import data_names
from mtlrun.lab.report.sections import edge_hits, failures_section
from mtlrun.lab.report.summary import (
    COMPARISONS,
    LEFT_OUT,
    RUNS,
    Overview,
    distinct_claims,
    overview_lines,
    overview_sections,
)
from mtlrun.show.report_table import (
    Column,
    ReportTable,
    Section,
    Styled,
    text_rows,
)
from mtlrun.utils.text import sanitize

#: Number of claims in the last lines of a report.
MAX_SHORT_CLAIMS = 6
#: Columns that the text of a claim has at least in the last lines of a report.
MIN_CLAIM_WIDTH = 20
#: Number of failures and ends of grids that are shown; the report has all.
MAX_LINES = 10


def print_report(console: Console, report: Report) -> None:
    """Print the outcome, tables, claims and findings of a report.

    Ends of grids and failures come last.
    """
    tables = result_sections(report) or [Section("")]
    tables[-1].lines += notes(report, bold=console.is_terminal)
    measured = [Section(section.title, section.lines) for section in report.measured]
    edges = [f"end of the grid: {hit}" for hit in edge_hits(report.run)]
    failures = failures_section(report.run, unshared_runs(report.run))
    sections = [
        Section("", report.summary),
        *tables,
        Section("", claim_lines(report, brief=True)),
        *measured,
        Section("", _shortened(edges, "ends of grids")),
        Section("", _shortened(failures.lines, "failures")),
        Section("In short", short_lines(report, console.width)),
    ]
    print_sections(console, sections)


def short_lines(report: Report, width: int) -> list[str]:
    """Return in at most ten lines what was computed, what the paper says and what holds.

    Parameters
    ----------
    report : Report
    width : int
        Number of columns; longer lines are cut.
    """
    run = report.run
    lines = [
        f"computed: {run.spec.id} on {data_names(run)}, "
        f"{job_counts_text(report.job_counts)}"
    ]
    # Our own claims are in the report.
    claims = [claim for claim in tested_claims(report) if claim.source != OURS]
    shown = claims[:MAX_SHORT_CLAIMS]
    word = "claim"
    if shown:
        word = "further claim"
        source = "our numbers"
        if all(claim.source == OTHER_DATA for claim in claims):
            source = "data other than its own"
        lines.append(f"the paper says, and what {source} say of it:")
    for claim in shown:
        verdict = verdict_label(claim.verdict)
        ours = numbers_of(claim)[1]
        numbers = "" if ours == "-" else f" (ours: {ours})"
        # The text is cut rather than the numbers behind it.
        room = max(width - len(verdict) - len(numbers) - 2, MIN_CLAIM_WIDTH)
        text = textwrap.shorten(claim.text, room, placeholder="...")
        lines.append(f"{verdict}: {text}{numbers}")
    names = [claim.id for claim in shown]
    rest = [claim for claim in report.claims if claim.id not in names]
    if rest:
        lines.append(f"{counted(len(rest), word)}: {counts_text(rest)}")
    lines.append("all comparisons, with data and versions, are in the report:")
    return [textwrap.shorten(line, max(width, 40), placeholder="...") for line in lines]


def _shortened(lines: Sequence[str], name: str) -> list[str]:
    """Return the first `MAX_LINES` lines, and a line on the others if there are
    some.
    """
    n_others = len(lines) - MAX_LINES
    if n_others <= 0:
        return list(lines)
    return [*lines[:MAX_LINES], f"... and {n_others} more {name}, see report.md"]


def print_overview(console: Console, overview: Overview) -> None:
    """Print the tables of the summary and the totals.

    In a file or a pipe, which can be searched, all claims come first.
    """
    sections = []
    if not console.is_terminal:
        claims = []
        for entries, claim in distinct_claims(overview.entries):
            paths = ", ".join(entry.path for entry in entries)
            claims.append(f"{paths}: {claim.id}: {finding(claim)}")
        sections.append(Section("", claims))
    by_title = {section.title: section for section in overview_sections(overview)}
    runs = by_title.get(RUNS)
    if runs:
        # The last column, the title of the experiment, does not fit.
        table = runs.grids[0]
        runs.grids = [table.part(range(len(table.columns) - 1))]
    for title in (RUNS, COMPARISONS, LEFT_OUT):
        if title in by_title:
            sections.append(by_title[title])
    sections.append(Section("", overview_lines(overview)))
    print_sections(console, sections)


def print_sections(console: Console, sections: Iterable[Section]) -> None:
    """Print sections that are not empty, with tables that keep to the width.

    In a file or a pipe each sentence is one line.
    """
    is_first = True
    for section in sections:
        if section.empty:
            continue
        if not is_first:
            console.print()
        is_first = False
        if section.title:
            console.print(Text(sanitize(section.title), style="bold"))
        for table in section.grids:
            for part in table.within(console.width):
                _print_table(console, part)
        for line in section.lines:
            # A line breaks at words on a terminal only.
            # A line without Markdown, in which a verdict before a colon has its
            # color.
            plain = re.sub(r"^\* (\*\*(.+?)\*\*)?", r"\2", sanitize(line))
            word, *rest = plain.partition(": ")
            style = ""
            if word in TONES:
                style = STYLES[TONES[word]]
            text = Text.assemble((word, style), *rest)
            console.print(text, soft_wrap=not console.is_terminal)


def _print_table(console: Console, table: ReportTable) -> None:
    """Print a table with its header."""
    rows = [table.columns, *table.rows]
    for values, texts in zip(rows, text_rows(table), strict=True):
        cells = []
        for value, text in zip(values, texts, strict=True):
            # Headers and the best numbers are bold. Published numbers have the color of
            # their verdict.
            style = ""
            if isinstance(value, Column) or (isinstance(value, Styled) and value.bold):
                style = "bold"
            elif isinstance(value, Styled) and value.tone in TONES:
                style = STYLES[TONES[value.tone]]
            cells.append(Text(sanitize(text), style))
        row = Text("  ").join(cells)
        row.rstrip()
        console.print(row, soft_wrap=True)
