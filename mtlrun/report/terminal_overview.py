"""The summary of many runs on a terminal, readable at 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtlrun.report.checks import NOT_TESTABLE, VERDICTS
from mtlrun.report.overview import Entry, Overview
from mtlrun.report.reference import NOT_RUN, WITHIN
from mtlrun.report.terminal import print_verdict
from mtlrun.report.text import duration

LEGEND = "claims: confirmed, partly, not confirmed, not testable here; numbers: within tolerance of those run"


def print_overview(console: Console, overview: Overview) -> None:
    """Print a table per paper, a line per claim, failures and what is left out; the counts come last."""
    for paper, entries in overview.papers.items():
        console.print(Text(paper, style="bold"))
        console.print(_table(overview, entries))
    if overview.entries:
        console.print(Text(LEGEND), soft_wrap=not console.is_terminal)
    for entry, claim in overview.claims():
        why = claim.why if claim.verdict == NOT_TESTABLE else ""
        print_verdict(console, claim.verdict, f"{entry.place}: {claim.id}: {claim.text.rstrip('.')}.", why)
    for entry in overview.entries:
        failed = len(entry.report.run.failed)
        if failed:
            text = f"{entry.place}: {failed} cell{'s' * (failed > 1)}, see its report.md"
            print_verdict(console, "failed", text, style="red")
    for comparison in overview.comparisons:
        print_verdict(console, "comparison", f"{comparison.place}: {comparison.verdict}", style="bold")
    for name, why in overview.left_out.items():
        print_verdict(console, "left out", f"{name}: {why}", style="yellow")
    for line in overview.summary:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def _table(overview: Overview, entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("artefact", no_wrap=True, min_width=max(len(_name(overview, e)) for e in entries))
    for name in ("cells", "claims", "numbers", "computing"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        report = entry.report
        verdicts = [claim.verdict for claim in report.claims]
        numbers = [number.verdict for number in report.references if number.verdict != NOT_RUN]
        table.add_row(
            _name(overview, entry),
            Text(f"{report.done}/{report.planned}", style="" if report.done == report.planned else "red"),
            " ".join(str(verdicts.count(verdict)) for verdict in VERDICTS) if verdicts else "",
            f"{numbers.count(WITHIN)}/{len(numbers)}" if numbers else "",
            duration(report.seconds),
        )
    return table


def _name(overview: Overview, entry: Entry) -> str:
    """Return how a run is called below its paper: without the profile that all have."""
    name = entry.id.partition("/")[2] or entry.id
    return name if overview.profile else f"{name} ({entry.report.run.profile})"
