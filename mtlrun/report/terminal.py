"""The report on a terminal: one table per data set, readable at 80 columns, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mtlrun.errors import counted
from mtlrun.record import OK, Place
from mtlrun.report.build import Report
from mtlrun.report.checks import STYLES, Verdict
from mtlrun.report.grid import Grid, Styled, duration, show
from mtlrun.report.printed import measured_grid
from mtlrun.report.references import ReferenceVerdict
from mtlrun.report.sections import edge_hits
from mtlrun.report.summary import LEGEND, Overview, RunReport, claim_marks

MAX_FAILURES = 10
MAX_EDGES = 5
MAX_NAMES = 4


def print_report(console: Console, report: Report) -> None:
    """Print measurements, edges of grids and claims, then the tables; failures and the outcome come last."""
    for section in report.measured:
        if section.lines:
            _block(console, Text(section.title, style="bold"), [line.removeprefix("* ") for line in section.lines])
    if not report.tables:
        print_references(console, report)
    hits = edge_hits(report.run)
    for hit in hits[:MAX_EDGES]:
        print_verdict(console, "edge of the grid", hit, style="yellow")
    if len(hits) > MAX_EDGES:
        console.print(Text(f"... and {len(hits) - MAX_EDGES} more searches at an edge of their grid, see report.md"))
    for claim in report.judged:
        why = claim.why.split("; ")[0] if console.is_terminal else claim.why  # the page has the comparisons one by one
        more = ". ".join(filter(None, (why.rstrip("."), claim.holding)))
        print_verdict(console, claim.verdict, f"{claim.id}: {claim.text.rstrip('.')}.", more)
    for line in report.untestable:
        print_verdict(console, Verdict.NOT_TESTABLE, line)
    print_tables(console, report)
    print_failures(console, report)
    for line in report.summary:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def print_references(console: Console, report: Report) -> None:
    """Print a line per reference number; those that were not run for one reason together."""
    waiting: dict[str, list[ReferenceVerdict]] = {}
    for r in report.references:
        if r.ours is None:
            waiting.setdefault(str(r.why), []).append(r)
            continue
        found = f"ours {r.ours:.5g}, {r.source} {r.value:.5g}, tolerance {r.tolerance:.3g}"
        print_verdict(console, r.verdict, f"{r.dataset} / {r.method}: {r.quantity}: {found}")
    for why, group in waiting.items():
        names = list(dict.fromkeys(r.dataset for r in group))
        places = ", ".join(names) if len(names) <= MAX_NAMES else f"{len(names)} data sets"
        print_verdict(console, Verdict.NOT_RUN, f"{counted(len(group), 'reference number')} of {places}: {why}")


def print_tables(console: Console, report: Report) -> None:
    """Print the tables as the paper prints them, in parts where they are wider than the terminal."""
    run = report.run
    if not report.tables:
        for dataset in run.datasets:
            if rows := [row for row in report.rows if row.dataset == dataset]:
                grid = measured_grid(run, rows, with_dataset=False)
                # Where the quantities are too many for the width, they are the lines.
                whole = _fits(console, _table(grid))
                _print_table(console, run.title_of(dataset) if run.has_data(dataset) else "", grid, whole)
        return
    for place, section in enumerate(report.results):
        if place:
            console.print()
        _print_table(console, section.title, section.grids[0], True)
        for line in section.lines:
            console.print(Text(line), soft_wrap=not console.is_terminal)


def _print_table(console: Console, title: str, grid: Grid, upright: bool) -> None:
    """Print a table whose heads are not wrapped: as many columns as fit beside the first one, then the next ones."""
    if title:
        console.print(Text(title, style="bold"))  # a table breaks a title that is wider than itself
    grid = grid if upright else grid.turned(1)
    start, end = 1, len(grid.columns)
    while start < end:
        for stop in range(end, start, -1):
            table = _table(grid.part([0, *range(start, stop)]))
            if _fits(console, table):
                break
        console.print(table)
        start = stop


def _fits(console: Console, table: Table) -> bool:
    wide = console.options.update(width=10_000)
    return console.measure(table, options=wide).maximum <= console.width


def print_failures(console: Console, report: Report) -> None:
    """Print the first line of every failure, splits with the same one together, and the file that has the rest."""
    groups: dict[tuple[str, str, str, str], list[Place]] = {}
    for cell in (cell for run in report.runs for cell in run.failed):
        record = report.run.cells[cell.key]
        error = (record.error or "no message").strip().splitlines()[0]
        groups.setdefault((record.status, cell.dataset, cell.method, error), []).append(cell)
    for (status, dataset, method, error), cells in list(groups.items())[:MAX_FAILURES]:
        trials = f"trial{'s' * (len(cells) > 1)} {', '.join(str(c.trial) for c in cells)}"
        text = f"{dataset} / {method} / {trials}: {error} [cells/{cells[0].key[:12]}...]"
        print_verdict(console, status, text, style="red")
    if len(groups) > MAX_FAILURES:
        console.print(Text(f"... and {len(groups) - MAX_FAILURES} more failures, see report.md"))


def plain_table() -> Table:
    """Return an empty table with a line below its head, and no other."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


def _table(grid: Grid) -> Table:
    table = plain_table()
    for column in grid.columns:
        # Numbers may fold at their ± on a narrow terminal; names must stay whole to be copied.
        whole = column.name in ("dataset", "method", "status") or column is grid.columns[0]
        right = column.kind != "text"
        table.add_column(column.name, justify="right" if right else "left", no_wrap=whole, overflow="fold")
    table.columns[0].min_width = max(len(cells[0]) for cells in grid.texts())
    for row in grid.rows:
        cells = [_styled(value, column.kind) for value, column in zip(row, grid.columns, strict=True)]
        if grid.columns[-1].name == "status":
            cells[-1].stylize("green" if row[-1] == OK else "red")
        table.add_row(*cells)
    return table


def _styled(value: Any, kind: str) -> Text:
    """Return a value as text: the best number in bold, a printed one in the colour of its verdict."""
    text = Text(show(value, kind))
    if isinstance(value, Styled):
        text.stylize("bold" if value.bold else STYLES[value.tone.tone] if isinstance(value.tone, Verdict) else "")
    return text


def print_verdict(console: Console, word: str, text: str, more: str = "", style: str | None = None) -> None:
    """Print a word and what it is about; on a terminal what follows is set below it."""
    line = Text(f"{word}: ", style=style or (STYLES[word.tone] if isinstance(word, Verdict) else ""))
    line.append(text, style="default")
    if console.is_terminal:
        _block(console, line, [more] * bool(more))
    else:  # in a file or a pipe one message is one line, to be searched and counted
        console.print(line.append(f" {more}" * bool(more)), soft_wrap=True)


def _block(console: Console, head: Text, lines: Sequence[str]) -> None:
    """Print lines below a first one, all but that indented."""
    if not console.is_terminal:
        for message in (head, *map(Text, lines)):
            console.print(message, soft_wrap=True)
        return
    first, *rest = head.wrap(console, console.width - 2)
    console.print(first)
    for part in rest:
        console.print(Padding(part, (0, 0, 0, 2)))
    for text in lines:
        console.print(Padding(Text(text), (0, 0, 0, 2)))


# ---------------------------------------------------------------- the summary of many runs


def print_overview(console: Console, overview: Overview) -> None:
    """Print failures and what is left out, then a table per paper with a symbol per claim; the counts come last."""
    if not console.is_terminal:  # a file can be searched; on a screen the symbols do, and the index tells the rest
        for entry, claim in overview.claims():
            why = claim.why if claim.verdict == Verdict.NOT_TESTABLE else ""
            print_verdict(console, claim.verdict, f"{entry.place}: {claim.id}: {claim.text.rstrip('.')}.", why)
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
        console.print(_runs_table(overview, entries))
    for line in [f"claims: {LEGEND}"] * bool(overview.entries) + overview.summary:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def _runs_table(overview: Overview, entries: Sequence[RunReport]) -> Table:
    table = plain_table()
    # Below its paper a run is called without it, and without the profile where all have the same.
    names = [e.id.partition("/")[2] or e.id for e in entries]
    if not overview.profile:
        names = [f"{name} ({e.report.run.profile})" for name, e in zip(names, entries, strict=True)]
    table.add_column("artefact", no_wrap=True, min_width=max(map(len, names)))
    for column in ("cells", "claims", "numbers", "computing"):
        table.add_column(column, justify="left" if column == "claims" else "right", no_wrap=column != "claims")
    for name, entry in zip(names, entries, strict=True):
        cells = entry.report.cells
        numbers = [number.verdict for number in entry.report.references if number.verdict != Verdict.NOT_RUN]
        table.add_row(
            name,
            Text(f"{cells['done']}/{cells['planned']}", style="" if cells["done"] == cells["planned"] else "red"),
            Text(" ").join(map(_marks, claim_marks(entry))),
            f"{numbers.count(Verdict.WITHIN)}/{len(numbers)}" if numbers else "",
            duration(entry.report.seconds),
        )
    return table


def _marks(group: Styled) -> Text:
    return Text.assemble(*((symbol, STYLES[word.tone]) for symbol, word, _ in group.marks if isinstance(word, Verdict)))
