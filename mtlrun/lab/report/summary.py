"""Summary of many runs: jobs, claims, published numbers and cost, as text and pages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from mtlrun.engine.stored import RUN_FILE, read_json
from mtlrun.errors import DataError, counted
from mtlrun.lab.experiment.claims import NUMBERS, VERDICTS, Verdict
from mtlrun.lab.report.build import (
    NO_RESULT_TEXTS,
    Report,
    build_report,
    job_counts_text,
    no_result_texts,
    paper_verdicts,
    verdict_lines,
)
from mtlrun.lab.report.claims import ClaimVerdict
from mtlrun.lab.report.findings import (
    AUDIT,
    CLAIM_COLUMNS,
    MAX_FINDINGS,
    OTHER_DATA,
    OURS,
    PAPER,
    claim_row,
    counts_text,
    findings,
)
from mtlrun.lab.report.formats import TONES, plain_models
from mtlrun.lab.report.interpretations import joined_claim
from mtlrun.lab.report.references import ReferenceVerdict
from mtlrun.lab.report.run import COMPLETE
from mtlrun.lab.report.sections import computing_seconds
from mtlrun.show.figures import SQUARES, Strip, StripRow
from mtlrun.show.page import html_page
from mtlrun.show.report_table import (
    ReportTable,
    Section,
    Styled,
    duration,
    escape_html,
    json_text,
    markdown_section,
)
from mtlrun.utils.io import write_atomic

#: Version of the format of index.json.
SCHEMA = 1
#: Number of folders of a run below the folder of results: <paper>/<item>/<profile>.
DEPTH = 3
#: Folder of comparisons, below the folder of results.
COMPARE = "compare"
#: Name of the summary of all runs.
INDEX = "index"
#: Formats of the summary.
FORMATS = ("md", "json", "html")
#: Titles of sections that the terminal and Markdown select.
RUNS = "Runs"
COMPARISONS = "Comparisons of methods"
LEFT_OUT = "Left out"
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunReport:
    """Report of one of many runs.

    Attributes
    ----------
    path : str
        Folder of the run relative to the folder of results, with slashes.
    report : Report
    """

    path: str
    report: Report

    @property
    def id(self) -> str:
        """Experiment of the run, ``<paper>/<item>``."""
        return self.report.run.spec.id

    @property
    def paper(self) -> str:
        """First part of the id."""
        return self.id.partition("/")[0]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Data set -> fingerprint of its data, as far as there are records."""
        fingerprints = {}
        for job in self.report.run.planned:
            record = self.report.run.records.get(job.key)
            if record is not None and "dataset" in record.inputs:
                fingerprints[job.dataset] = record.inputs["dataset"]["fingerprint"]
        return fingerprints


@dataclass
class Overview:
    """Reports of many runs.

    Attributes
    ----------
    entries : list of RunReport
        Sorted by folder.
    left_out : dict of str to str
        Experiment or folder -> reason why there is no report of it.
    profile : str or None
        Profile of the runs; None for all profiles.
    command : str or None
        Command that computes all runs.
    comparisons : list of dict
        Comparisons on users' tables, each with ``place`` (its folder), ``title`` and
        ``verdict``. There are none for a single profile.
    """

    entries: list[RunReport]
    left_out: dict[str, str] = field(default_factory=dict)
    profile: str | None = None
    command: str | None = None
    comparisons: list[dict[str, str]] = field(default_factory=list)


#: Claim with the runs that test it, the largest first.
RunClaim = tuple[tuple[RunReport, ...], ClaimVerdict]
#: Published number with the run that has it.
RunReference = tuple[RunReport, ReferenceVerdict]


# ------------------------------------------------------------ reading


def run_folders(root: Path) -> list[Path]:
    """Return the folders of the runs below a folder, in alphabetical order."""
    pattern = f"{'*/' * DEPTH}{RUN_FILE}"
    return sorted(path.parent for path in Path(root).glob(pattern))


def read_overview(
    root: Path, profile: str | None = None, *, expected_ids: Iterable[str] = ()
) -> Overview:
    """Read all runs below a folder.

    Runs that cannot be read are left out, with the reason.

    Parameters
    ----------
    root : Path
        Folder that contains ``<paper>/<item>/<profile>/``.
    profile : str, optional
        Default: all profiles.
    expected_ids : iterable of str
        Experiments. Those without a run are listed as left out, if there are other runs
        of their paper.
    """
    root = Path(root)
    overview = Overview([], profile=profile)
    for folder in run_folders(root):
        if profile not in (None, folder.name):
            continue
        path = folder.relative_to(root).as_posix()
        try:
            overview.entries.append(RunReport(path, build_report(folder)))
        except DataError as error:
            overview.left_out[path] = str(error.message)
    comparison_files: list[Path] = []
    if profile is None:
        comparison_files = sorted(root.glob(f"{COMPARE}/*/leaderboard.json"))
    for file in comparison_files:
        path = file.parent.relative_to(root).as_posix()
        try:
            content = read_json(file) or {}
        except DataError as error:
            overview.left_out[path] = str(error.message)
            continue
        comparison = {
            "place": path,
            "title": str(content.get("title", "")),
            "verdict": str(content.get("verdict", "")),
        }
        overview.comparisons.append(comparison)
    papers = set()
    ids = set()
    for entry in overview.entries:
        papers.add(entry.paper)
        ids.add(entry.id)
    for name in expected_ids:
        if name not in ids and name.partition("/")[0] in papers:
            overview.left_out.setdefault(name, "no run here")
    return overview


def results_root(report: Report, folder: Path) -> Path | None:
    """Return the folder of results that contains a run folder; None if none does."""
    path = Path(os.path.realpath(folder))
    run = report.run
    expected = (*run.spec.id.split("/"), run.experiment.profile)
    if path.parts[-DEPTH:] != expected:
        return None
    return path.parents[DEPTH - 1]


# ------------------------------------------------------------ claims and numbers


def runs_by_paper(entries: Iterable[RunReport]) -> dict[str, list[RunReport]]:
    """Return the runs of each paper."""
    papers: dict[str, list[RunReport]] = {}
    for entry in entries:
        papers.setdefault(entry.paper, []).append(entry)
    return papers


def distinct_claims(
    entries: Iterable[RunReport], name: str | None = None
) -> list[RunClaim]:
    """Return each claim of an experiment once, judged by all runs that test it.

    With a name, only the claims of this name.
    """
    by_name: dict[tuple[str, str], list[tuple[RunReport, ClaimVerdict]]] = {}
    for entry in entries:
        for claim in entry.report.claims:
            if name in (None, claim.id):
                by_name.setdefault((entry.id, claim.id), []).append((entry, claim))
    claims = []
    for pairs in by_name.values():
        pairs.sort(key=_test_size, reverse=True)
        testing = [pair for pair in pairs if pair[1].tested] or pairs[:1]
        runs = tuple(entry for entry, _ in testing)
        data = [entry.fingerprints for entry in runs]
        claims.append((runs, joined_claim([claim for _, claim in testing], data)))
    return claims


def _test_size(pair: tuple[RunReport, ClaimVerdict]) -> tuple[int, int]:
    """Return the sort key of a claim in a run: comparisons, then finished jobs."""
    entry, claim = pair
    return claim.tested, entry.report.job_counts[COMPLETE]


def claims_from(entries: Iterable[RunReport], source: str) -> list[RunClaim]:
    """Return the claims of a source, one of `CLAIM_SOURCES`."""
    return [pair for pair in distinct_claims(entries) if pair[1].source == source]


def distinct_references(entries: Iterable[RunReport]) -> list[RunReference]:
    """Return each published number once; the run with most splits of it counts, and of
    several the largest run.
    """
    best: dict[Hashable, tuple[tuple[int, int], RunReport, ReferenceVerdict]] = {}
    for entry in entries:
        for r in entry.report.references:
            name = (entry.id, r.dataset, r.method, r.quantity, r.source, r.value)
            rank = (r.n, entry.report.job_counts[COMPLETE])
            if name not in best or rank > best[name][0]:
                best[name] = (rank, entry, r)
    return [(entry, reference) for _, entry, reference in best.values()]


def with_most_interpretations(overview: Overview, pair: RunClaim) -> RunClaim:
    """Return a claim from the runs that have it under most interpretations.

    That is `pair` if it has any besides the main one.
    """
    entries, claim = pair
    if claim.readings:
        return pair
    candidates = [pair]
    for other in distinct_claims(overview.entries, claim.id):
        if other[0][0].id != entries[0].id:
            candidates.append(other)
    return max(candidates, key=lambda candidate: len(candidate[1].readings))


# ------------------------------------------------------------ counts


def _count_all(entries: Sequence[RunReport]) -> dict[str, Any]:
    """Return counts of jobs and verdicts, and seconds, as index.json has them."""
    claims: Counter[str] = Counter()
    for _, claim in distinct_claims(entries):
        claims[claim.verdict] += 1
    numbers: Counter[str] = Counter()
    for _, number in distinct_references(entries):
        numbers[number.verdict] += 1
    jobs = _total_job_counts(entries)
    counts: dict[str, Any] = {"cells": jobs.pop("planned"), **jobs}
    for verdict in VERDICTS:
        counts[str(verdict)] = claims[verdict]
    for verdict in NUMBERS:
        counts[str(verdict)] = numbers[verdict]
    counts["seconds"] = _total_seconds(entries)
    return counts


def _without_runs(pairs: Iterable[tuple[Any, _T]]) -> list[_T]:
    """Return claims or published numbers alone, without the runs that judge them."""
    return [item for _, item in pairs]


def _total_job_counts(entries: Sequence[RunReport]) -> dict[str, int]:
    """Return the sums of `Report.job_counts`."""
    totals = dict.fromkeys(("planned", COMPLETE, *NO_RESULT_TEXTS), 0)
    for entry in entries:
        for name in totals:
            totals[name] += entry.report.job_counts[name]
    return totals


def _total_seconds(entries: Iterable[RunReport]) -> float:
    return computing_seconds(entry.report.run for entry in entries)


def counts_line(claims: Sequence[RunClaim]) -> str:
    """Return a sentence on how many of some claims hold."""
    counts = counts_text(_without_runs(claims))
    return f"Of {counted(len(claims), 'claim')}, {counts}."


def run_counts(entry: RunReport) -> list[Any]:
    """Return the entries of a run in the table of runs, after its name.

    They are the finished jobs, the published numbers within tolerance, the seconds of
    computing, and the outcome in words.
    """
    report = entry.report
    counts = report.job_counts
    verdicts = [reference.verdict for reference in report.references]
    compared = [verdict for verdict in verdicts if verdict != Verdict.NOT_RUN]
    within = None
    if compared:
        within = f"{compared.count(Verdict.WITHIN)} of {len(compared)}"
    outcomes = no_result_texts(counts)
    if report.claims:
        outcomes.append(counts_text(report.claims))
    return [
        f"{counts[COMPLETE]} of {counts['planned']}",
        within,
        computing_seconds([report.run]),
        ", ".join(outcomes),
    ]


# ------------------------------------------------------------ sections


def overview_title(overview: Overview) -> str:
    """Return the heading of the summary."""
    if overview.profile:
        return f"All artifacts, profile {overview.profile}"
    return "All runs"


def overview_lines(overview: Overview) -> list[str]:
    """Return counts of experiments, jobs and verdicts, and the cost, in sentences."""
    entries = overview.entries
    n_experiments = len({entry.id for entry in entries})
    counts = counted(n_experiments, "artifact")
    if len(entries) > n_experiments:
        counts += f" in {len(entries)} runs"
    counts += f", {job_counts_text(_total_job_counts(entries))}"
    if overview.left_out:
        counts += f"; {len(overview.left_out)} left out"
    claims = _without_runs(distinct_claims(entries))
    references = _without_runs(distinct_references(entries))
    seconds = duration(_total_seconds(entries))
    return [
        f"{counts}.",
        *verdict_lines(claims, paper_verdicts(references), "papers"),
        f"Cost: {seconds} of computing (results and parameter searches).",
    ]


def overview_sections(
    overview: Overview, ending: Callable[[str], str] = lambda page: "md"
) -> list[Section]:
    """Return the tables of claims, runs, comparisons, and experiments left out.

    Parameters
    ----------
    overview : Overview
    ending : callable
        Function that returns the ending of the file to which a link leads, given the
        path of the page without its ending. Default: ``md`` for all.
    """
    entries = overview.entries
    sections = []
    for paper, runs_of_paper in runs_by_paper(entries).items():
        claims = claims_from(runs_of_paper, PAPER)
        elsewhere = claims_from(runs_of_paper, OTHER_DATA)
        lines = []
        if claims:
            lines.append(counts_line(claims))
        if elsewhere:
            lines.append(f"On other data: {counts_line(elsewhere)}")
        lines += findings(_without_runs(claims))[:MAX_FINDINGS]
        table = _claim_table([*claims, *elsewhere], ending)
        bullets = [f"* {line}" for line in lines]
        title = _citation(runs_of_paper) or paper
        sections.append(Section(title, bullets, [table], fold=True))
    audits = _claim_table(claims_from(entries, AUDIT), ending)
    ours = _claim_table(claims_from(entries, OURS), ending)
    runs = ReportTable.of(
        "run",
        "results done:count",
        "numbers met:count",
        "computing:duration",
        "outcome",
        "what it is",
    )
    for entry in entries:
        title = entry.report.run.spec.title
        runs.rows.append([_link(entry.path, ending), *run_counts(entry), title])
    sections += [
        Section(
            "Audits of printed numbers and of the authors' files",
            grids=[audits],
            fold=True,
        ),
        Section("Our own claims", grids=[ours], fold=True),
        Section(RUNS, grids=[runs]),
    ]
    comparisons = ReportTable.of("comparison", "title", "verdict")
    for comparison in overview.comparisons:
        link = _link(comparison["place"], ending, page="leaderboard")
        comparisons.rows.append([link, comparison["title"], comparison["verdict"]])
    sections.append(Section(COMPARISONS, grids=[comparisons]))
    left_out = ReportTable.of("artifact", "why", rows=overview.left_out.items())
    sections.append(Section(LEFT_OUT, grids=[left_out]))
    return [section for section in sections if section.grids[0].rows]


def _claim_table(
    claims: Sequence[RunClaim], ending: Callable[[str], str]
) -> ReportTable:
    """Return a table of claims with links to the reports that judge them."""
    table = ReportTable.of("run", "id", *CLAIM_COLUMNS)
    for entries, claim in claims:
        # A cell has one link: to the run that tests most of the claim.
        link = _link(entries[0].path, ending, anchor="#claims")
        runs = [entry.report.run for entry in entries]
        table.rows.append([link, claim.id, *claim_row(runs, claim)])
    return table


def _link(
    path: str, ending: Callable[[str], str], page: str = "report", anchor: str = ""
) -> Styled:
    """Return a folder as a link to a page in it."""
    target = f"{path}/{page}"
    return Styled(path, address=f"{target}.{ending(target)}{anchor}")


def _citation(entries: Sequence[RunReport]) -> str:
    """Return the paper of some runs; the shortest form, as some name a second
    source.
    """
    citations = []
    for entry in entries:
        paper = entry.report.run.spec.paper
        if paper is not None:
            citations.append(paper.cite)
    return min(citations, key=len, default="")


def squares_of_verdicts() -> dict[Verdict, str]:
    """Return the kind of square in the strip for each verdict, which has its label."""
    kinds = {label: kind for kind, label in SQUARES.items()}
    return {verdict: kinds[verdict.label] for verdict in VERDICTS}


def verdict_strip(
    overview: Overview, titles: Mapping[str, str] | None = None
) -> Strip | None:
    """Return the verdicts on the claims of all papers as one figure, None without any.

    Parameters
    ----------
    overview : Overview
    titles : mapping of str to str, optional
        Paper -> title of its row. Other papers are left out. Default: the authors and
        title of each paper.
    """
    kinds = squares_of_verdicts()
    rows = []
    for paper, entries in runs_by_paper(overview.entries).items():
        claims = _without_runs(claims_from(entries, PAPER))
        if not claims:
            continue
        if titles is None:
            title = _citation(entries) or paper
        elif paper in titles:
            title = titles[paper]
        else:
            continue
        squares = [(kinds[Verdict(claim.verdict)], claim.id) for claim in claims]
        rows.append(StripRow(title, squares))
    if not rows:
        return None
    return Strip("verdicts", "Claims of the papers", rows)


# ------------------------------------------------------------ Markdown, JSON and HTML


def overview_markdown(
    overview: Overview,
    pages: Mapping[str, str] | None = None,
    outcomes: Mapping[str, str] | None = None,
) -> str:
    """Return the summary as Markdown: findings and reports of each paper, then counts.

    Parameters
    ----------
    overview : Overview
    pages : mapping of str to str, optional
        Paper -> address of its page.
    outcomes : mapping of str to str, optional
        Paper -> findings, in place of the first claims.
    """
    blocks = [f"# {overview_title(overview)}"]
    if overview.command:
        blocks.append(f"Made with `{overview.command}`.")
    for paper, entries in runs_by_paper(overview.entries).items():
        page = (pages or {}).get(paper)
        outcome = (outcomes or {}).get(paper)
        # The first kind of claims that there are.
        pairs: list[RunClaim] = []
        for source in (PAPER, OTHER_DATA, OURS):
            pairs = pairs or claims_from(entries, source)
        claims = _without_runs(pairs)
        sentences = []
        if outcome:
            sentences.append(outcome)
        elif claims:
            sentences.append(counts_line(pairs))
        if page:
            sentences.append(f"[Every claim with its numbers]({page}).")
        blocks.append(f"## {_citation(entries) or paper}")
        if sentences:
            blocks.append(" ".join(sentences))
        lines = findings(claims)[:MAX_FINDINGS]
        if lines and not outcome:
            blocks.append("\n".join(f"* {line}" for line in lines))
        links = [f"[{entry.path}]({entry.path}/report.md)" for entry in entries]
        blocks.append(f"Reports: {', '.join(links)}.")
    counts = "\n".join(f"* {line}" for line in overview_lines(overview))
    blocks += ["## In numbers", counts]
    for section in overview_sections(overview):
        if section.title in (COMPARISONS, LEFT_OUT):
            blocks.append(markdown_section(section))
    return escape_html("\n\n".join(blocks) + "\n")


def overview_json(overview: Overview) -> str:
    """Return the summary as JSON."""
    papers = {}
    for paper, entries in runs_by_paper(overview.entries).items():
        papers[paper] = {"cite": _citation(entries), **_count_all(entries)}
    runs = []
    for entry in overview.entries:
        runs.append({"run": entry.path, "id": entry.id, **_count_all([entry])})
    claims: list[dict[str, Any]] = []
    for pair in distinct_claims(overview.entries):
        testing, claim = pair
        others, interpreted = with_most_interpretations(overview, pair)
        content: dict[str, Any] = {
            "id": claim.id,
            "run": testing[0].path,
            "verdict": claim.verdict,
            "readings": interpreted.readings,
        }
        if len(testing) > 1:
            content["runs"] = [entry.path for entry in testing]
        if others is not testing:
            content["readings_run"] = others[0].path
        claims.append({**content, "text": claim.text, "why": claim.why})
    index = {
        "schema": SCHEMA,
        "title": overview_title(overview),
        "profile": overview.profile,
        "command": overview.command,
        "summary": overview_lines(overview),
        "total": _count_all(overview.entries),
        "papers": papers,
        "runs": runs,
        "claims": claims,
        "comparisons": overview.comparisons,
        "left_out": overview.left_out,
    }
    return json_text(plain_models(index))


def overview_html(overview: Overview, root: Path) -> str:
    """Return the summary as a page in the folder `root` of the results."""

    def existing_ending(page: str) -> str:
        """Return html, or md for a run without a page."""
        if (Path(root) / f"{page}.html").is_file():
            return "html"
        return "md"

    lines = overview_lines(overview)
    if overview.command:
        lines.append(f"Made with `{overview.command}`.")
    strip = verdict_strip(overview)
    strips = []
    if strip is not None:
        strips.append(strip)
    return html_page(
        overview_title(overview),
        lines,
        overview_sections(overview, existing_ending),
        strips,
        tones=TONES,
    )


def render_overview(overview: Overview, form: str, root: Path) -> str:
    """Return the summary in one of `FORMATS`, with links relative to `root`."""
    if form == "html":
        return overview_html(overview, root)
    if form == "json":
        return overview_json(overview)
    return overview_markdown(overview)


def write_overview(
    overview: Overview, root: Path, forms: Sequence[str] = FORMATS
) -> list[Path]:
    """Write the summary into the folder of results, and return its paths.

    Its name is ``index``, or ``summary-<profile>`` for the runs of one profile.
    """
    name = f"summary-{overview.profile}" if overview.profile else INDEX
    paths = []
    for form in forms:
        path = Path(root) / f"{name}.{form}"
        write_atomic(path, render_overview(overview, form, root))
        paths.append(path)
    return paths
