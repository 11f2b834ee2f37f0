"""Report of a run as plain data: verdicts, tables, figures and sections.

`mtlrun.lab.report.formats` writes it as Markdown, JSON, CSV, LaTeX and HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.engine.record import PROTOCOL
from mtlrun.errors import counted
from mtlrun.lab.experiment.claims import CLAIM_SOURCES, NUMBERS, PAPER_SOURCE, Verdict
from mtlrun.lab.report.claims import ClaimVerdict, tests_section
from mtlrun.lab.report.figures import matrix_sections, run_figures
from mtlrun.lab.report.findings import counts_text, findings
from mtlrun.lab.report.frames import tidy_frame
from mtlrun.lab.report.interpretations import (
    JudgedRun,
    ReferenceVerdict,
    judged,
    over_readings,
    readings_section,
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
from mtlrun.lab.report.side_by_side import side_by_side
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
    run : Run
        Run under its main interpretation.
    rows : list of MethodResult
        Results of each method on each data set.
    references : list of ReferenceVerdict
        Published numbers next to ours.
    claims : list of ClaimVerdict
        Claims with their verdicts over all interpretations.
    others : list of JudgedRun
        Run under the other interpretations with at least one finished job.
    job_counts : dict of str to int
        Number of planned jobs (``planned``) and of jobs with each outcome (``done``,
        ``failed``, ``missing``, ``stopped``), over all interpretations.
    tables : list of Section
        Tables in the layout of the paper.
    axes : (str, str)
        What the rows and the columns of `tables` stand for.
    interpretation_tables : list of Section
        Tables that other interpretations change or add, a column per interpretation.
    measured : list of Section
        Sections of `sections` that come from analyses and tests of ranks.
    sections : list of Section
        Sections below the tables that are not empty.
    figures : list of Drawing
        Drawn by `mtlrun.show.drawing`.
    summary : list of str
        Findings, and counts of verdicts and jobs, in sentences.
    """

    run: Run
    rows: list[MethodResult]
    references: list[ReferenceVerdict]
    claims: list[ClaimVerdict]
    others: list[JudgedRun]
    job_counts: dict[str, int]
    tables: list[Section]
    axes: tuple[str, str]
    interpretation_tables: list[Section]
    measured: list[Section]
    sections: list[Section]
    figures: list[Drawing]
    summary: list[str]

    def frame(self) -> pd.DataFrame:
        """Return a table of results, one row per job, see `mtlrun.load_results`."""
        return tidy_frame(self.run)

    def __repr__(self) -> str:
        experiment = self.run.info.get("id")
        jobs = job_counts_text(self.job_counts)
        return f"<Report {experiment}, profile {self.run.profile}: {jobs}>"

    def _repr_html_(self) -> str:
        title = str(self.run.info.get("title", ""))
        return html_block(title, self.summary, result_sections(self))


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
    main = judged(run)
    others = [judged(other) for other, _ in started_others(run)]
    claims = over_readings(main, others)
    tables = printed_tables(main)
    axes = printed_axes(main)
    unshared = unshared_runs(run)
    # Computed results beside the tables; the other sections comment on the run.
    measured = list(map(group_section, main.groups))
    if run.has_analyses:
        measured = [*measurement_sections(run), *measured, *matrix_sections(run)]
    sections = [
        readings_section(main, others, claims),
        *measured,
        tests_section(run, claims),
        comparison_section(run, main.rows),
        *run_sections(run, main.rows, unshared),
    ]
    tables_by_interpretation = {main.name: tables, **_other_tables(run, others, tables)}
    job_counts = count_jobs([run, *unshared])
    return Report(
        run=run,
        rows=main.rows,
        references=main.references,
        claims=claims,
        others=others,
        job_counts=job_counts,
        tables=tables,
        axes=axes,
        interpretation_tables=side_by_side(tables_by_interpretation, axes),
        measured=measured,
        sections=[section for section in sections if not section.empty],
        figures=run_figures(main, tables),
        summary=_summary_lines(run, claims, main.references, job_counts),
    )


def unshared_runs(run: Run) -> list[Run]:
    """Return the run under its other interpretations.

    Each has only the jobs that no interpretation before it has, and interpretations
    without a finished job are left out.
    """
    return [replace(other, planned=unshared) for other, unshared in started_others(run)]


def _other_tables(
    run: Run, others: Sequence[JudgedRun], main_tables: Sequence[Section]
) -> dict[str, list[Section]]:
    """Return the tables of the other interpretations.

    An interpretation without jobs of its own has the numbers of the main tables, so
    only its tables of further quantities are returned.
    """
    main_titles = {table.title for table in main_tables}
    main_keys = _keys_of(run)
    tables_by_name = {}
    for other in others:
        tables = printed_tables(other)
        if _keys_of(other.run) <= main_keys:
            tables = [table for table in tables if table.title not in main_titles]
            if not tables:
                continue
        tables_by_name[other.name] = tables
    return tables_by_name


def _keys_of(run: Run) -> set[str]:
    return {job.key for job in run.planned}


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
    return [
        *result_notes(report.run, report.rows),
        *table_notes(
            report.run,
            report.rows,
            report.tables,
            bold=bold,
            has_paper_values=bool(paper_verdicts(report.references)),
        ),
        *_missing_references_note(report),
    ]


def _missing_references_note(report: Report) -> list[str]:
    """Return a note for a table of a paper whose published numbers are not stored."""
    paper = report.run.info.get("paper") or {}
    item = str(paper.get("artefact", ""))
    if report.references or re.fullmatch(r"Table \w+", item) is None:
        return []
    return [f"No published numbers of {item} are stored: see the claims."]


def tested_claims(report: Report) -> list[ClaimVerdict]:
    """Return the claims that could be tested."""
    return [claim for claim in report.claims if claim.verdict != Verdict.NOT_TESTABLE]


def untested_claims_lines(report: Report) -> list[str]:
    """Return a line with the claims that could not be tested, by reason."""
    ids_by_reason: dict[str, list[str]] = {}
    for claim in report.claims:
        if claim.verdict == Verdict.NOT_TESTABLE:
            ids_by_reason.setdefault(claim.why.rstrip("."), []).append(claim.id)
    if not ids_by_reason:
        return []
    n_claims = 0
    parts = []
    for why, ids in ids_by_reason.items():
        n_claims += len(ids)
        parts.append(f"{', '.join(ids)} ({why})")
    return [f"{counted(n_claims, 'claim')}: {'; '.join(parts)}."]


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


def count_jobs(runs: Iterable[Run]) -> dict[str, int]:
    """Return the number of planned jobs and of jobs with each outcome.

    The jobs of all `runs` must differ.
    """
    outcomes: Counter[str] = Counter()
    for run in runs:
        for job in run.planned:
            outcomes[outcome_of(run, job)] += 1
    counts = {"planned": outcomes.total()}
    for outcome in (COMPLETE, *NO_RESULT_TEXTS):
        counts[outcome] = outcomes[outcome]
    return counts


def job_counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of finished jobs and the outcomes of the others, as text.

    Parameters
    ----------
    counts : mapping of str to int
        See `Report.job_counts`.
    """
    finished = f"{counts[COMPLETE]} of {counted(counts['planned'], 'cell')} done"
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


def _summary_lines(
    run: Run,
    claims: Sequence[ClaimVerdict],
    references: Sequence[ReferenceVerdict],
    job_counts: Mapping[str, int],
) -> list[str]:
    """Return findings, counts, and warnings about damaged or old files."""
    lines = []
    jobs = f"{job_counts_text(job_counts)}."
    # Missing jobs come first, because they put everything below into question.
    has_missing = job_counts[MISSING] > 0
    if has_missing:
        lines.append(f"PARTIAL RUN: {jobs}")
        if run.info.get("command"):
            lines.append(f"To finish it: {run.info['command']}")
    lines += findings(claims)
    verdicts = paper_verdicts(references)
    lines += verdict_lines(claims, verdicts, "paper")
    if not has_missing:
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
        cells = counted(len(run.unsound), "cell")
        lines.append(f"The test scores of {cells} are missing or damaged.")
    n_earlier = sum(record.protocol != PROTOCOL for record in run.records.values())
    if n_earlier:
        verb = "cells were"
        if n_earlier == 1:
            verb = "cell was"
        lines.append(
            f"{n_earlier} {verb} computed by an earlier version of mtlrun (protocol 1)."
        )
    return lines
