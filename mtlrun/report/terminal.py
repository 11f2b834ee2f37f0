"""The report on a terminal: its own sections as text, readable at 80 columns, without colours elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from mtlrun.errors import counted
from mtlrun.record import OK, Place
from mtlrun.report.build import Report
from mtlrun.report.checks import STYLES, Verdict, said
from mtlrun.report.grid import Grid, Section, Styled, duration, show
from mtlrun.report.outcome import counts_text, finding
from mtlrun.report.printed import measured_grid
from mtlrun.report.references import reference_section
from mtlrun.report.sections import edge_hits
from mtlrun.report.summary import Overview, RunReport, run_counts

MAX_FAILURES = 10
MAX_EDGES = 5


def print_report(console: Console, report: Report) -> None:
    """Print the outcome, the tables, the claims one by one and what was measured; failures and warnings come last."""
    for line in report.summary:
        _print_line(console, Text(line))
    for section in _results(console, report):
        console.print()
        print_section(console, section)
    if not report.tables:
        print_section(console, reference_section(report.references))
    for line in report.notes(bold=console.is_terminal) if report.tables else ():
        _print_line(console, Text(line))
    if report.claims:
        console.print()
    for claim in report.judged:
        # The page has the comparisons one by one.
        found = claim.found_briefly if console.is_terminal else claim.found
        print_verdict(console, claim.verdict, f"{claim.id}: {claim.text.rstrip('.')}. {found}")
    for line in report.untestable:
        print_verdict(console, Verdict.NOT_TESTABLE, line)
    for section in report.measured:
        print_section(console, Section(section.title, section.lines))
    hits = edge_hits(report.run)
    for hit in hits[:MAX_EDGES]:
        print_verdict(console, "end of the grid", hit, style="yellow")
    if len(hits) > MAX_EDGES:
        console.print(
            Text(f"... and {len(hits) - MAX_EDGES} more searches that ended at an end of their grid, see report.md")
        )
    print_failures(console, report)


def _results(console: Console, report: Report) -> list[Section]:
    """Return the tables as the paper prints them, else a list per data set: with few columns where it is too wide."""
    if report.tables:
        return report.bare_results
    run, sections = report.run, []
    for dataset in run.datasets:
        if rows := [row for row in report.rows if row.dataset == dataset]:
            grid = measured_grid(run, rows, with_dataset=False)
            whole = sum(width + 2 for width in _widths(grid)) <= console.width + 2
            title = run.title_of(dataset) if run.has_data(dataset) else ""
            sections.append(Section(title, grids=[grid if whole else grid.transposed(1)]))
    return sections


def print_section(console: Console, section: Section) -> None:
    """Print the title of a section, its tables and its sentences; nothing of an empty one."""
    if section.empty:
        return
    if section.title:
        console.print(Text(section.title, style="bold"))
    for grid in section.grids:
        print_grid(console, grid)
    for line in section.lines:
        _print_line(console, Text(line.removeprefix("* ")))


def print_grid(console: Console, grid: Grid) -> None:
    """Print a table: as many columns as fit beside the first one, then the next ones; heads are not wrapped."""
    widths, stop = _widths(grid), 1
    while stop < len(widths):
        places = [0, stop]
        while (
            places[-1] + 1 < len(widths) and sum(widths[i] + 2 for i in [*places, places[-1] + 1]) <= console.width + 2
        ):
            places.append(places[-1] + 1)
        stop = places[-1] + 1
        for row in [[Text(column.name, style="bold") for column in grid.columns], *grid.rows]:
            entries = [_entry(row[i], grid.columns[i].kind, grid.columns[i].name, widths[i]) for i in places]
            line = Text("  ").join(entries)
            line.rstrip()
            console.print(line, soft_wrap=True)


def _widths(grid: Grid) -> list[int]:
    rows = [[column.name for column in grid.columns], *grid.texts()]
    return [max(map(len, texts)) for texts in zip(*rows, strict=True)]


def _entry(value: Any, kind: str, name: str, width: int) -> Text:
    """Return a value, padded: the best number in bold, a printed one and a status in the colour of what it says."""
    text = value.copy() if isinstance(value, Text) else Text(show(value, kind))
    if isinstance(value, Styled):
        text.stylize("bold" if value.bold else STYLES[value.tone.tone] if isinstance(value.tone, Verdict) else "")
    elif name == "status" and isinstance(value, str):
        text.stylize("green" if value == OK else "red")
    (text.pad_right if kind == "text" else text.pad_left)(width - len(text))
    return text


def print_failures(console: Console, report: Report) -> None:
    """Print the first line of every failure, splits with the same one together, and the file that has the rest."""
    groups: dict[tuple[str, str, str, str], list[Place]] = {}
    for cell in (cell for run in report.runs for cell in run.failed):
        record = report.run.cells[cell.key]
        error = (record.error or "no message").strip().splitlines()[0]
        groups.setdefault((record.status, cell.dataset, cell.method, error), []).append(cell)
    for (status, dataset, method, error), cells in list(groups.items())[:MAX_FAILURES]:
        trials = f"{'trials' if len(cells) > 1 else 'trial'} {', '.join(str(c.trial) for c in cells)}"
        text = f"{dataset} / {method} / {trials}: {error} [cells/{cells[0].key[:12]}...]"
        print_verdict(console, status, text, style="red")
    if len(groups) > MAX_FAILURES:
        console.print(Text(f"... and {len(groups) - MAX_FAILURES} more failures, see report.md"))


def print_verdict(console: Console, word: str, text: str, style: str | None = None) -> None:
    """Print a word and what it is about."""
    line = Text(f"{said(word)}: ", style=style or (STYLES[word.tone] if isinstance(word, Verdict) else ""))
    _print_line(console, line.append(text, style="default"))


def _print_line(console: Console, line: Text) -> None:
    """Print a sentence; in a file or a pipe it is one line, to be searched and counted."""
    console.print(line, soft_wrap=not console.is_terminal)


# ---------------------------------------------------------------- the summary of many runs


def print_overview(console: Console, overview: Overview) -> None:
    """Print failures and what is left out, then a table per paper with its counts of claims; the totals come last."""
    if not console.is_terminal:  # a file can be searched; on a screen the counts do, and the index tells the rest
        for entry, claim in overview.claims():
            _print_line(console, Text(f"{entry.place}: {claim.id}: {finding(claim)}"))
    for entry in overview.entries:
        if failed := len(entry.report.run.failed):
            text = f"{entry.place}: {counted(failed, 'cell')}, see its report.md"
            print_verdict(console, "failed", text, style="red")
    for comparison in overview.comparisons:
        print_verdict(console, "comparison", f"{comparison['place']}: {comparison['verdict']}", style="bold")
    for name, why in overview.left_out.items():
        print_verdict(console, "left out", f"{name}: {why}", style="yellow")
    for paper, entries in overview.papers.items():
        console.print(Text(paper, style="bold"))
        print_grid(console, _runs_grid(overview, entries))
    for line in overview.summary:
        _print_line(console, Text(line))


def _runs_grid(overview: Overview, entries: Sequence[RunReport]) -> Grid:
    """Return the table of a paper; below it a run is called without it, and without the profile where all have one."""
    grid = Grid.of("artefact", "cells:count", "numbers:count", "computing:count", "claims")
    for entry in entries:
        name = entry.id.partition("/")[2] or entry.id
        cells, numbers = run_counts(entry)
        grid.rows.append(
            [
                name if overview.profile else f"{name} ({entry.report.run.profile})",
                cells,
                numbers or "",
                duration(entry.report.seconds),
                counts_text(entry.report.claims),
            ]
        )
    return grid
