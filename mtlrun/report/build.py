"""The report of a run in memory; every writer starts from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.errors import counted
from mtlrun.record import PROTOCOL
from mtlrun.report.checks import NUMBERS, VERDICTS, Verdict
from mtlrun.report.claims import ClaimVerdict, over_readings, tests_section
from mtlrun.report.figures import Figure, run_figures
from mtlrun.report.grid import Section, html_block
from mtlrun.report.printed import PrintedTable, printed_tables, table_notes, table_sections
from mtlrun.report.readings import Judged, judged, readings_section
from mtlrun.report.references import ReferenceVerdict
from mtlrun.report.run import Row, Run, read_run
from mtlrun.report.sections import computing_seconds, run_sections
from mtlrun.report.statistics import comparison_section, statistics_sections
from mtlrun.report.tables import measurement_sections, result_notes

if TYPE_CHECKING:
    import pandas as pd

#: What may have become of cells that have no number.
TROUBLE = {"failed": "failed", "missing": "not computed yet", "stopped": "stopped at the time limit"}


@dataclass(repr=False)
class Report:
    """Everything that is said about a run. In a notebook it shows outcome and tables.

    Attributes
    ----------
    run : Run
    rows : list of Row
        The table.
    claims : list of ClaimVerdict
    references : list of ReferenceVerdict
    sections : list of Section
        Everything below the table, empty ones left out.
    figures : list of Figure
        Drawn by `mtlrun.report.drawing`.
    findings : list of Section
        Those of `sections` that measurements and tests of ranks contribute.
    readings : list of Judged
        The run under the readings other than the main one, as far as they were begun.
    tables : list of PrintedTable
        As the paper prints them.
    other_tables : dict of str to list of PrintedTable
        Those of the readings that have cells of their own.
    """

    run: Run
    rows: list[Row]
    claims: list[ClaimVerdict]
    references: list[ReferenceVerdict]
    sections: list[Section]
    figures: list[Figure] = field(default_factory=list)
    findings: list[Section] = field(default_factory=list)
    readings: list[Judged] = field(default_factory=list)
    tables: list[PrintedTable] = field(default_factory=list)
    other_tables: dict[str, list[PrintedTable]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Report {self.run.info.get('id')}, profile {self.run.profile}: {cells_text(self.cells)}>"

    def _repr_html_(self) -> str:
        return html_block(str(self.run.info.get("title", "")), self.summary, self.results)

    def frame(self) -> pd.DataFrame:
        """Return one row per cell, see `mtlrun.load_results`."""
        from mtlrun.report.frames import frame_of_run

        return frame_of_run(self.run)

    @property
    def results(self) -> list[Section]:
        """The tables as the paper prints them, a titled section each; the list of the rows where there are none."""
        sections = table_sections(self.run, self.rows, self.tables)
        sections[-1].lines += [*result_notes(self.run, self.rows), *table_notes(self.tables)]
        return sections

    @property
    def other_results(self) -> list[Section]:
        """The tables under the other readings."""
        return [
            replace(part, title=f"Reading {one.name}" + f": {part.title}" * bool(part.title))
            for one in self.readings
            if one.name in self.other_tables
            for part in table_sections(one.run, one.rows, self.other_tables[one.name])
        ]

    @property
    def runs(self) -> list[Run]:
        """The run under its main reading, and the cells that only the others have, as far as those were begun."""
        return [self.run, *_alone(self.run, self.readings)]

    @property
    def cells(self) -> dict[str, int]:
        """Cells of the plan, those with a number, and the others by what became of them, of all readings begun."""
        trouble = {name: sum(len(getattr(run, name)) for run in self.runs) for name in TROUBLE}
        planned = sum(len(run.planned) for run in self.runs)
        return {"planned": planned, "done": planned - sum(trouble.values()), **trouble}

    @property
    def judged(self) -> list[ClaimVerdict]:
        """The claims that could be tested here."""
        return [claim for claim in self.claims if claim.verdict != Verdict.NOT_TESTABLE]

    @property
    def untestable(self) -> list[str]:
        """The other claims in a line: how many, which, and why."""
        rest = [claim for claim in self.claims if claim.verdict == Verdict.NOT_TESTABLE]
        if not rest:
            return []
        reasons: dict[str, list[str]] = {}
        for claim in rest:
            reasons.setdefault(claim.why.rstrip("."), []).append(claim.id)
        told = "; ".join(f"{', '.join(ids)} ({why})" for why, ids in reasons.items())
        return [f"{counted(len(rest), 'claim')}: {told}."]

    @property
    def partial(self) -> bool:
        """Whether cells still have to be computed."""
        return any(run.missing for run in self.runs)

    @property
    def summary(self) -> list[str]:
        """The verdict in a few lines."""
        lines = []
        claims, references = [c.verdict for c in self.claims], [r.verdict for r in self.references]
        if claims:
            lines.append(f"{counted(len(claims), 'claim')} of the paper: {verdicts_text(claims)}.")
        if references:
            lines.append(f"{counted(len(references), 'reference number')}: {verdicts_text(references)}.")
        lines.append(f"{'PARTIAL RUN: ' if self.partial else ''}{cells_text(self.cells)}.")
        if self.partial and self.run.info.get("command"):
            lines.append(f"To finish it: {self.run.info['command']}")
        if self.run.altered:
            lines.append("run.json is not as it was written: do not trust this report before the run is made again.")
        if self.run.unreadable:
            lines.append(f"{counted(len(self.run.unreadable), 'record')} altered or damaged, and left out.")
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
    told = "".join(f", {cells[name]} {text}" for name, text in TROUBLE.items() if cells[name])
    return f"{cells['done']} of {counted(cells['planned'], 'cell')} done{told}"


def verdicts_text(verdicts: Iterable[str]) -> str:
    """Count verdicts in a sentence: ``2 confirmed, 1 partly``."""
    counts = Counter(verdicts)
    names = {**{verdict: verdict.value for verdict in VERDICTS}, **NUMBERS}
    return ", ".join(f"{counts[verdict]} {name}" for verdict, name in names.items() if counts[verdict])


def _alone(run: Run, others: Sequence[Judged]) -> list[Run]:
    """Return the run under other readings, each with the cells that the main one does not share."""
    return [replace(one.run, planned=run.own(one.run)) for one in others]


def build_report(folder: Path) -> Report:
    """Build the report of a run folder, finished or not.

    Parameters
    ----------
    folder : Path
        Holds run.json and cells/.

    Raises
    ------
    DataError
        If the folder is not one of a run.
    """
    run = read_run(folder)
    main = judged(run)
    others = [judged(other) for other in run.others if run.begun(other)]
    rows, claims = list(main.rows), main.claims
    if others:
        decisive = [one.name for one in (main, *others) if one.about.get("plausible", True)]
        claims = over_readings(main.name, claims, {one.name: one.claims for one in others}, decisive)
    findings = [*measurement_sections(run), *statistics_sections(main.evidence.groups)]
    compared = [tests_section(run, claims), comparison_section(run, rows)]
    readings = readings_section(main, others, claims)
    sections = [
        s for s in (readings, *findings, *compared, *run_sections(run, rows, _alone(run, others))) if not s.empty
    ]
    other_tables = {one.name: printed_tables(one) for one in others if run.own(one.run)}
    figures, tables = run_figures(run, rows, main.references), printed_tables(main)
    return Report(run, rows, claims, main.references, sections, figures, findings, others, tables, other_tables)
