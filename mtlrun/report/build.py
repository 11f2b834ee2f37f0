"""The report of a run in memory; every writer starts from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.errors import counted
from mtlrun.record import PROTOCOL
from mtlrun.report.cells import COMPLETE, MethodResult, Run, read_run, tidy_frame
from mtlrun.report.checks import CLAIM_SOURCES, NUMBERS, Verdict
from mtlrun.report.claims import ClaimVerdict, tests_section
from mtlrun.report.figures import (
    Figure,
    RankDiagram,
    matrix_figures,
    measured_ranks,
    printed_figures,
    sweep_figures,
    trace_figures,
)
from mtlrun.report.grid import Section, html_block
from mtlrun.report.printed import (
    measurement_sections,
    printed_tables,
    result_notes,
    table_notes,
    table_sections,
)
from mtlrun.report.readings import JudgedRun, ReferenceVerdict, judged, over_readings, readings_section
from mtlrun.report.sections import computing_seconds, counts_text, findings, run_sections, spread_lines
from mtlrun.report.statistics import comparison_section, group_section

if TYPE_CHECKING:
    import pandas as pd

#: What may have become of cells that have no number.
TROUBLE = {"failed": "failed", "missing": "not computed yet", "stopped": "stopped at the time limit"}


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
    figures : list of Figure or RankDiagram
        Drawn by `mtlrun.report.drawing`.
    measured : list of Section
        Those of `sections` that measurements and tests of ranks contribute.
    readings : list of JudgedRun
        The run under the readings other than the main one, as far as they were begun.
    tables : list of Section
        As the paper prints them.
    other_tables : dict of str to list of Section
        Those of the readings that have cells of their own, else of the quantities that the main one does not show.
    """

    main: JudgedRun
    claims: list[ClaimVerdict]
    sections: list[Section]
    figures: list[Figure | RankDiagram] = field(default_factory=list)
    measured: list[Section] = field(default_factory=list)
    readings: list[JudgedRun] = field(default_factory=list)
    tables: list[Section] = field(default_factory=list)
    other_tables: dict[str, list[Section]] = field(default_factory=dict)

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
        return html_block(str(self.run.info.get("title", "")), self.summary, self.results)

    def frame(self) -> pd.DataFrame:
        """Return one row per cell, see `mtlrun.load_results`."""
        return tidy_frame(self.run)

    @property
    def results(self) -> list[Section]:
        """The tables as the paper prints them, a titled section each; the list of the rows where there are none."""
        sections = self.bare_results
        sections[-1].lines += self.notes()
        return sections

    @property
    def bare_results(self) -> list[Section]:
        """The same without their notes."""
        return table_sections(self.run, self.rows, self.tables)

    def notes(self, *, bold: bool = True) -> list[str]:
        """Return how the tables are to be read, where the best numbers are in bold or cannot be."""
        return [*result_notes(self.run, self.rows), *table_notes(self.run, self.rows, self.tables, bold=bold)]

    @property
    def other_results(self) -> list[Section]:
        """The tables under the other readings."""
        return [
            replace(part, title=": ".join(filter(None, [f"Interpretation {one.name}", part.title])))
            for one in self.readings
            if one.name in self.other_tables
            for part in table_sections(one.run, one.rows, self.other_tables[one.name])
        ]

    @property
    def runs(self) -> list[Run]:
        """The run under its main reading, and the cells that only the others have, as far as those were begun."""
        return [self.run, *_alone(self.run)]

    @property
    def cells(self) -> dict[str, int]:
        """Cells of the plan, those with a number, and the others by what became of them, of all readings begun."""
        outcomes = Counter(run.outcome(cell) for run in self.runs for cell in run.planned)
        return {"planned": outcomes.total(), **{outcome: outcomes[outcome] for outcome in (COMPLETE, *TROUBLE)}}

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
        return [f"{counted(sum(map(len, reasons.values())), 'claim')}: {shown}."] if reasons else []

    @property
    def partial(self) -> bool:
        """Whether cells still have to be computed."""
        return any(run.missing for run in self.runs)

    @property
    def findings(self) -> list[str]:
        """What was found, in words with numbers."""
        return findings(self.claims) or ([] if self.references else spread_lines(self.run, self.rows))

    @property
    def summary(self) -> list[str]:
        """The verdict in a few lines: what was found, then counts."""
        cells = f"{'PARTIAL RUN: ' if self.partial else ''}{cells_text(self.cells)}."
        lines = [cells] if self.partial else []
        if self.partial and self.run.info.get("command"):
            lines.append(f"To finish it: {self.run.info['command']}")
        lines += [*self.findings, *verdict_lines(self.claims, [r.verdict for r in self.references], "paper")]
        lines += [cells] if not self.partial else []
        if self.run.altered:
            lines.append("run.json was modified after it was written; rerun before trusting this report.")
        if self.run.unreadable:
            lines.append(f"{counted(len(self.run.unreadable), 'record')} altered or damaged, and left out.")
        if self.run.unsound:
            lines.append(f"The test scores of {counted(len(self.run.unsound), 'cell')} are missing or damaged.")
        earlier = sum(record.protocol != PROTOCOL for record in self.run.cells.values())
        if earlier:
            were = "cell was" if earlier == 1 else "cells were"
            lines.append(f"{earlier} {were} computed by an earlier version of mtlrun (protocol 1).")
        return lines

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
        problems += [f"claim {c.id}: {c.verdict}: {c.why}" for c in self.claims if not c.accepted]
        return problems


def cells_text(cells: Mapping[str, int]) -> str:
    """Say how many cells have a number and what became of the others; `cells` as of `Report`."""
    trouble = "".join(f", {cells[name]} {text}" for name, text in TROUBLE.items() if cells[name])
    return f"{cells['done']} of {counted(cells['planned'], 'cell')} done{trouble}"


def verdict_lines(claims: Sequence[ClaimVerdict], numbers: Sequence[str], papers: str) -> list[str]:
    """Count the verdicts on claims, by whose they are, and on reference numbers, a line each where there are any."""
    lines = []
    for source, text in CLAIM_SOURCES.items():
        if found := [claim for claim in claims if claim.source == source]:
            what = f"{counted(len(found), 'claim')} {text.format(papers=papers)}"
            lines.append(f"{what}: {counts_text(found)}.")
    if numbers:
        counts = Counter(numbers)
        told = ", ".join(f"{counts[verdict]} {verdict.said}" for verdict in NUMBERS if counts[verdict])
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
        [
            *printed_figures(run, main.references),
            *sweep_figures(run, main.rows),
            *trace_figures(run),
            *matrix_figures(run),
            *measured_ranks(run),
        ],
        measured,
        others,
        tables,
        _other_tables(run, others, tables),
    )


def _other_tables(run: Run, others: Sequence[JudgedRun], shown: Sequence[Section]) -> dict[str, list[Section]]:
    """Return the tables of readings with cells of their own; of the others those of quantities not shown yet."""
    titles, shared = {table.title for table in shown}, {cell.key for cell in run.planned}
    found = {}
    for one in others:
        own = any(cell.key not in shared for cell in one.run.planned)
        tables = [table for table in printed_tables(one) if own or table.title not in titles]
        if own or tables:
            found[one.name] = tables
    return found
