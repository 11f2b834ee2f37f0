"""Report of a run as plain data: verdicts, tables, figures and sections.

`mtlrun.lab.report.formats` writes it as Markdown, JSON, CSV, LaTeX and HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.engine.record import PROTOCOL
from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import (
    CLAIM_SOURCES,
    NUMBERS,
    PAPER_SOURCE,
    UNTESTED,
    Verdict,
)
from mtlrun.lab.report.claims import ClaimVerdict, JudgedRun, tests_section
from mtlrun.lab.report.figures import (
    dumbbells,
    matrix_figures,
    matrix_sections,
    measured_ranks,
    sweep_figures,
    trace_figures,
)
from mtlrun.lab.report.findings import counts_text, findings
from mtlrun.lab.report.frames import tidy_frame
from mtlrun.lab.report.interpretations import (
    over_readings,
    readings_section,
    side_by_side,
)
from mtlrun.lab.report.method_results import MethodResult
from mtlrun.lab.report.printed import (
    measurement_sections,
    printed_axes,
    printed_tables,
    result_notes,
    table_notes,
    with_printed,
)
from mtlrun.lab.report.references import ReferenceVerdict
from mtlrun.lab.report.run import (
    COMPLETE,
    MISSING,
    STOPPED,
    Run,
    outcome_of,
    read_run,
    started_others,
)
from mtlrun.lab.report.sections import run_sections
from mtlrun.lab.report.statistics import comparison_section, group_section
from mtlrun.show.figures import Drawing
from mtlrun.show.report_table import Section, html_block

if TYPE_CHECKING:
    import pandas as pd

#: Outcomes of jobs without a result, with their texts.
NO_RESULT_TEXTS = {
    "failed": "failed",
    MISSING: "not computed yet",
    STOPPED: "stopped at the time limit",
}


@dataclass(repr=False)
class Report:
    """Report of a run. A notebook displays its outcome and tables.

    Attributes
    ----------
    main : JudgedRun
        Run under its main interpretation.
    others : list of JudgedRun
        Run under the other interpretations with at least one finished job.
    claims : list of ClaimVerdict
        Claims with their verdicts over all interpretations.
    run : Run
        Run under its main interpretation.
    rows : list of MethodResult
        Results of each method on each data set.
    references : list of ReferenceVerdict
        Published numbers next to ours.
    """

    main: JudgedRun
    others: list[JudgedRun]
    claims: list[ClaimVerdict]
    run: Run = field(init=False)
    rows: list[MethodResult] = field(init=False)
    references: list[ReferenceVerdict] = field(init=False)

    def __post_init__(self) -> None:
        self.run = self.main.run
        self.rows = self.main.rows
        self.references = self.main.references

    @cached_property
    def job_counts(self) -> dict[str, int]:
        """Number of planned jobs (``planned``) and of jobs with each outcome.

        The outcomes are ``done``, ``failed``, ``missing`` and ``stopped``. Jobs of all
        interpretations count.
        """
        outcomes: Counter[str] = Counter()
        for run in [self.run, *unshared_runs(self.run)]:
            for job in run.planned:
                outcomes[outcome_of(run, job)] += 1
        counts = {"planned": outcomes.total()}
        for outcome in (COMPLETE, *NO_RESULT_TEXTS):
            counts[outcome] = outcomes[outcome]
        return counts

    @cached_property
    def tables(self) -> list[Section]:
        """Tables in the layout of the paper."""
        return printed_tables(self.main)

    @cached_property
    def axes(self) -> tuple[str, str]:
        """What the rows and the columns of `tables` stand for."""
        return printed_axes(self.main)

    @cached_property
    def interpretation_tables(self) -> list[Section]:
        """Tables that other interpretations change or add, with a column for each.

        An interpretation without jobs of its own has the numbers of the main tables, so
        only its tables of further quantities count.
        """
        if not self.others:
            return []
        tables_by_name = {self.main.name: self.tables}
        main_titles = {table.title for table in self.tables}
        main_keys = {job.key for job in self.run.planned}
        for other in self.others:
            tables = printed_tables(other)
            if {job.key for job in other.run.planned} <= main_keys:
                tables = [table for table in tables if table.title not in main_titles]
            if tables:
                tables_by_name[other.name] = tables
        return side_by_side(tables_by_name, self.axes)

    @cached_property
    def measured(self) -> list[Section]:
        """Sections of `sections` that come from analyses and tests of ranks."""
        ranks = list(map(group_section, self.main.groups))
        if not self.run.spec.is_analysis:
            return ranks
        return [*measurement_sections(self.run), *ranks, *matrix_sections(self.run)]

    @cached_property
    def sections(self) -> list[Section]:
        """Sections below the tables that are not empty."""
        sections = [
            readings_section(self.main, self.others, self.claims),
            *self.measured,
            tests_section(self.run, self.claims),
            comparison_section(self.run, self.rows),
            *run_sections(self.run, self.rows, unshared_runs(self.run)),
        ]
        return [section for section in sections if not section.empty]

    @cached_property
    def figures(self) -> list[Drawing]:
        """Figures, which `mtlrun.show.drawing` draws."""
        figures: list[Drawing] = []
        if self.references:
            figures += dumbbells(self.main, self.tables)
        if self.run.spec.sweep:
            figures += sweep_figures(self.run, self.rows)
        if self.run.spec.is_analysis:
            # Only analyses store curves, matrices and rankings.
            figures += trace_figures(self.run)
            figures += matrix_figures(self.run)
            figures += measured_ranks(self.run)
        return figures

    @cached_property
    def summary(self) -> list[str]:
        """Findings, counts of verdicts and jobs, and warnings about the files."""
        run = self.run
        lines = []
        jobs = f"{job_counts_text(self.job_counts)}."
        # Missing jobs come first, because they put everything below into question.
        if is_partial(self):
            lines.append(f"PARTIAL RUN: {jobs}")
            if run.experiment.command:
                lines.append(f"To finish it: {run.experiment.command}")
        lines += findings(self.claims)
        verdicts = paper_verdicts(self.references)
        lines += verdict_lines(self.claims, verdicts, "paper")
        if not is_partial(self):
            lines.append(jobs)
        if run.altered:
            lines.append(
                "run.json was modified after it was written; rerun before trusting this "
                "report."
            )
        if run.unreadable:
            records = counted(len(run.unreadable), "record")
            lines.append(f"{records} altered or damaged, and left out.")
        if run.unsound:
            results = counted(len(run.unsound), "result")
            lines.append(f"The test scores of {results} are missing or damaged.")
        n_earlier = sum(record.protocol != PROTOCOL for record in run.records.values())
        if n_earlier:
            verb = "results were"
            if n_earlier == 1:
                verb = "result was"
            lines.append(
                f"{n_earlier} {verb} computed by an earlier version of mtlrun (protocol 1)."
            )
        return lines

    def frame(self) -> pd.DataFrame:
        """Return a table of results, one row per job, see `mtlrun.load_results`."""
        return tidy_frame(self.run)

    def __repr__(self) -> str:
        jobs = job_counts_text(self.job_counts)
        profile = self.run.experiment.profile
        return f"<Report {self.run.spec.id}, profile {profile}: {jobs}>"

    def _repr_html_(self) -> str:
        return html_block(self.run.spec.title, self.summary, result_sections(self))


# ------------------------------------------------------------ building


def build_report(folder: Path) -> Report:
    """Build the report of a run, finished or not.

    Parameters
    ----------
    folder : Path
        Folder of the run. Its records are packed in it, or in the folder ``cells`` of
        the output folder.

    Raises
    ------
    DataError
        If it is not the folder of a run.
    """
    run = read_run(folder)
    main = JudgedRun.of(run)
    others = [JudgedRun.of(other) for other, _ in started_others(run)]
    return Report(main, others, over_readings(main, others))


def unshared_runs(run: Run) -> list[Run]:
    """Return the run under its other interpretations.

    Each has only the jobs that no interpretation before it has, and interpretations
    without a finished job are left out.
    """
    return [replace(other, planned=unshared) for other, unshared in started_others(run)]


# ------------------------------------------------------------ parts of a report


def result_sections(report: Report) -> list[Section]:
    """Return the tables in the layout of the paper, with the published numbers."""
    sections = []
    for table in report.tables:
        sections.append(Section(table.title, grids=[with_printed(table.grids[0])]))
    return sections


def interpretation_sections(report: Report) -> list[Section]:
    """Return the tables under all interpretations, each with a heading."""
    sections = []
    for table in report.interpretation_tables:
        heading = "Interpretations side by side"
        if table.title:
            heading += f": {table.title}"
        grids = table.grids
        # Only a table in its printed form has lines; it includes published numbers.
        if table.lines:
            grids = [with_printed(grid) for grid in grids]
        sections.append(Section(heading, table.lines, grids))
    return sections


def notes(report: Report, *, bold: bool = True) -> list[str]:
    """Return notes on how to read the tables.

    Parameters
    ----------
    report : Report
    bold : bool, default=True
        Whether the output can show the best numbers in bold.
    """
    lines = result_notes(report.run, report.rows)
    lines += table_notes(
        report.run,
        report.rows,
        report.tables,
        bold=bold,
        has_paper_values=bool(paper_verdicts(report.references)),
    )
    paper = report.run.spec.paper
    is_table = paper and re.fullmatch(r"Table \w+", paper.artefact)
    if paper and is_table and not report.references:
        lines.append(
            f"No published numbers of {paper.artefact} are stored: see the claims."
        )
    return lines


def tested_claims(report: Report) -> list[ClaimVerdict]:
    """Return the claims that could be tested."""
    return [claim for claim in report.claims if claim.verdict not in UNTESTED]


def untested_claims_lines(report: Report) -> list[str]:
    """Return a line for each verdict without a test, with its claims by reason."""
    ids_by_reason: dict[Verdict, dict[str, list[str]]] = {}
    for claim in report.claims:
        if claim.verdict in UNTESTED:
            reasons = ids_by_reason.setdefault(Verdict(claim.verdict), {})
            reasons.setdefault(claim.why.rstrip("."), []).append(claim.id)
    lines = []
    for verdict, reasons in ids_by_reason.items():
        n_claims = 0
        parts = []
        for why, ids in reasons.items():
            n_claims += len(ids)
            parts.append(f"{', '.join(ids)} ({why})")
        lines.append(
            f"{verdict.label}: {counted(n_claims, 'claim')}: {'; '.join(parts)}."
        )
    return lines


def check_problems(report: Report) -> list[str]:
    """Return what makes ``--check`` fail.

    These are numbers out of tolerance, and claims that the numbers contradict.
    """
    problems = []
    for number in report.references:
        if number.verdict == Verdict.OUTSIDE:
            problems.append(
                f"{number.dataset} / {number.method}: {number.quantity} is "
                f"{number.ours:.6g}, the {number.source} says {number.value:.6g}; the "
                f"difference {number.difference:+.3g} exceeds the tolerance "
                f"{number.tolerance:.3g} ({number.why})"
            )
    for claim in report.claims:
        if not claim.accepted:
            problems.append(f"claim {claim.id}: {claim.verdict}: {claim.why}")
    return problems


# ------------------------------------------------------------ counts and summary


def is_partial(report: Report) -> bool:
    """Return whether jobs still have to be computed."""
    return report.job_counts[MISSING] > 0


def job_counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of finished jobs and the outcomes of the others, as text.

    Parameters
    ----------
    counts : mapping of str to int
        See `Report.job_counts`.
    """
    finished = f"{counts[COMPLETE]} of {counted(counts['planned'], 'result')} done"
    return ", ".join([finished, *no_result_texts(counts)])


def no_result_texts(counts: Mapping[str, int]) -> list[str]:
    """Return the outcomes of jobs without a result: ``2 failed``, ``1 not computed
    yet``.

    Parameters
    ----------
    counts : mapping of str to int
        See `Report.job_counts`.
    """
    texts = []
    for outcome, text in NO_RESULT_TEXTS.items():
        if counts[outcome]:
            texts.append(f"{counts[outcome]} {text}")
    return texts


def paper_verdicts(references: Iterable[ReferenceVerdict]) -> list[str]:
    """Return the verdicts on numbers of the paper; other sources are left out."""
    return [r.verdict for r in references if r.source == PAPER_SOURCE]


def verdict_lines(
    claims: Sequence[ClaimVerdict], verdicts: Sequence[str], papers: str
) -> list[str]:
    """Return counts of the verdicts, a line for each source of claims and one for
    numbers.

    Parameters
    ----------
    claims : sequence of ClaimVerdict
    verdicts : sequence of Verdict
        Verdicts on the published numbers.
    papers : {"paper", "papers"}
        Word for the sources of the claims.
    """
    lines = []
    for source, text in CLAIM_SOURCES.items():
        from_source = [claim for claim in claims if claim.source == source]
        if from_source:
            count = counted(len(from_source), "claim")
            origin = text.format(papers=papers)
            lines.append(f"{count} {origin}: {counts_text(from_source)}.")
    if verdicts:
        counts = Counter(verdicts)
        texts = []
        for verdict in NUMBERS:
            if counts[verdict]:
                texts.append(f"{counts[verdict]} {verdict.label}")
        count = counted(len(verdicts), "printed number")
        lines.append(f"{count}: {', '.join(texts)}.")
    return lines
