"""The report of a run in memory; every writer starts from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mtlrun.record import PROTOCOL
from mtlrun.report.account import (
    computing_seconds,
    cost_section,
    environment_section,
    failures_section,
    solver_section,
    timing_section,
)
from mtlrun.report.axis import axis_section, sweep_figures
from mtlrun.report.checks import VERDICTS
from mtlrun.report.claims import ClaimVerdict, judge_claims, tests_section
from mtlrun.report.comparison import comparison_section
from mtlrun.report.curves import trace_figures
from mtlrun.report.folder import Run, read_run
from mtlrun.report.matrices import matrix_figures
from mtlrun.report.measurements import measurement_sections
from mtlrun.report.panels import Figure
from mtlrun.report.protocol import data_section, deviations_section, protocol_section, rerun_section, search_section
from mtlrun.report.ranking import rank_groups, rank_rows, statistics_sections
from mtlrun.report.reference import NOT_RUN, OUTSIDE, WITHIN, ReferenceVerdict, compare_references
from mtlrun.report.table import Row, build_rows
from mtlrun.report.text import Section


@dataclass
class Report:
    """Everything that is said about a run.

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
        Drawn by `mtlrun.report.figures`.
    findings : list of Section
        Those of `sections` that measurements and tests of ranks contribute.
    """

    run: Run
    rows: list[Row]
    claims: list[ClaimVerdict]
    references: list[ReferenceVerdict]
    sections: list[Section]
    figures: list[Figure] = field(default_factory=list)
    findings: list[Section] = field(default_factory=list)

    @property
    def planned(self) -> int:
        """Cells of the plan."""
        return len(self.run.planned)

    @property
    def done(self) -> int:
        """Cells with a number."""
        return self.planned - len(self.run.failed) - len(self.run.missing) - len(self.run.stopped)

    @property
    def partial(self) -> bool:
        """Whether cells still have to be computed."""
        return bool(self.run.missing)

    @property
    def summary(self) -> list[str]:
        """The verdict in a few lines."""
        failed, missing, stopped = len(self.run.failed), len(self.run.missing), len(self.run.stopped)
        cells = f"{self.done} of {self.planned} cells done"
        cells += f", {failed} failed" * bool(failed) + f", {missing} not computed yet" * bool(missing)
        cells += f", {stopped} stopped at the limit of seconds" * bool(stopped)
        lines = [("PARTIAL RUN: " if self.partial else "") + cells + "."]
        earlier = sum(record.protocol != PROTOCOL for record in self.run.cells.values())
        if earlier:
            lines.append(f"{earlier} cell{'s' * (earlier > 1)} computed by an earlier version of mtlrun (protocol 1).")
        if self.claims:
            counts = Counter(c.verdict for c in self.claims)
            told = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
            lines.append(f"{len(self.claims)} claim{'s' * (len(self.claims) > 1)} of the paper: {told}.")
        if self.references:
            counts = Counter(r.verdict for r in self.references)
            names = {WITHIN: "within tolerance", OUTSIDE: "outside", NOT_RUN: "not run"}
            told = ", ".join(f"{counts[v]} {text}" for v, text in names.items() if counts[v])
            lines.append(f"{len(self.references)} reference number{'s' * (len(self.references) > 1)}: {told}.")
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
            if r.verdict == OUTSIDE
        ]
        problems += [f"claim {c.id}: {c.verdict}: {c.why}" for c in self.claims if not c.accepted]
        return problems


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
    rows = build_rows(run)
    groups = rank_groups(run, rows)
    claims = judge_claims(run, rows, groups)
    figures = sweep_figures(run, rows) + trace_figures(run) + matrix_figures(run)
    findings = measurement_sections(run) + statistics_sections(groups)
    sections = [
        *findings,
        tests_section(run, claims),
        axis_section(run, rows),
        comparison_section(run, rows),
        protocol_section(run),
        search_section(run),
        data_section(run),
        solver_section(run, rows),
        timing_section(run),
        environment_section(run),
        deviations_section(run),
        failures_section(run),
        cost_section(run),
        rerun_section(run),
    ]
    references = compare_references(run, [*rows, *rank_rows(groups)])
    return Report(run, rows, claims, references, [s for s in sections if not s.empty], figures, findings)
