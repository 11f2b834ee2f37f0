"""Write what the runs below results/ say: README's outcome, results/summary.md, a page
per paper, the reports.

``python scripts/results_pages.py --write`` after a run was added or a verdict changed;
``--check`` ends with 1 when the files are not what the runs say. Nothing is computed
again. Figures are drawn where a report shows one that is not there yet; those that join
published numbers to ours, and the strip of verdicts, are drawn anew each time.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from mtlrun.errors import listed
from mtlrun.lab.experiment.claims import HOLDING, VERDICTS, Verdict, verdict_label
from mtlrun.lab.report.build import Report, paper_verdicts
from mtlrun.lab.report.claims import ClaimVerdict
from mtlrun.lab.report.figures import FIGURES, published_line
from mtlrun.lab.report.findings import (
    AUDIT,
    CLAIM_COLUMNS,
    OTHER_DATA,
    OURS,
    PAPER,
    claim_row,
    counts_text,
    finding,
    numbers_of,
)
from mtlrun.lab.report.formats import FILES
from mtlrun.lab.report.summary import (
    Overview,
    RunClaim,
    RunReport,
    claims_from,
    counts_line,
    distinct_claims,
    distinct_references,
    overview_markdown,
    read_overview,
    runs_by_paper,
    verdict_strip,
    with_most_interpretations,
)
from mtlrun.show.drawing import write_drawing
from mtlrun.show.figures import SQUARES, Drawing, Dumbbell, Strip
from mtlrun.show.report_table import Column, ReportTable, Styled, markdown_grid

ROOT = Path(__file__).resolve().parents[1]
README, RESULTS, SUMMARY = "README.md", "results", "results/summary.md"
INDEX, STRIP = "docs/papers/index.md", "docs/papers/verdicts.svg"
PAGES, ERRATA, WORDS = (
    "docs/papers",
    "configs/errata.md",
    Path(__file__).with_name("papers.yaml"),
)
#: Every claim of a paper, beside its runs; `{}` is the paper.
CLAIMS = "results/{}/claims.md"
BEGIN, END = (
    "<!-- results: begin (scripts/results_pages.py) -->",
    "<!-- results: end -->",
)
INDEX_BEGIN, INDEX_END = (
    "<!-- verdicts: begin (scripts/results_pages.py) -->",
    "<!-- verdicts: end -->",
)
#: A range of numbers that are 0 but for rounding.
ROUNDING = re.compile(r"[\d.]+e-1[5-9](?: to [\d.]+e-1[5-9])?")
#: Figures of a run on the page of its paper; its report has all.
MOST_FIGURES = 2
#: Claims that hold which the README names one by one.
MOST_HELD = 6

#: What the columns and verdicts of a table of claims mean.
LEGEND = (
    "The *threshold* is the value that a claim needs to hold: the number printed in"
    " the paper or, if there is none, our bound. *Ours* is the range of our results"
    " over data sets and methods, under our main interpretation of the paper. A "
    "claim *holds in part* if more than half of its comparisons hold; a claim with "
    '"usually" or "probably" then *holds*, and a claim with "every", "consistently"'
    ' or "best" needs all of them. The verdict also counts the other plausible '
    "interpretations (below): a claim *depends on the interpretation* if it holds "
    "under some and not under others. It is *undecided* if the difference is below "
    "two standard errors, if a number is missing, or if a fit did not converge and "
    "the remaining improvement could change the verdict. It *holds by arithmetic* if "
    "it follows from a calculation. Claims without a comparison were *not run*, need "
    "data that are *not public* or not at hand, or are *not testable* at all. A point of AUC or "
    "accuracy is 0.01. Each verdict links to the report with all comparisons behind"
    " it; where a second run tests the claim, its data link to that report."
)

#: Above the table of claims on other data.
OTHER_DATA_LEGEND = (
    "These rows test claims of the paper on data that the paper does not use: "
    "simulated replacements of its own data, and public tables of the same kind. "
    "They neither support nor refute its numbers."
)

#: Above the table of audits.
AUDIT_LEGEND = (
    "These rows recompute no results. They check whether the numbers printed in the"
    " paper, or the files published by its authors, support a sentence of its text."
)

#: Above the table of our claims.
OURS_LEGEND = (
    "These claims are ours and do not count above: statements about our own solvers"
    " and about the methods, and statements that can be read off the paper's tables"
    " and figures but that its text does not make."
)
#: Parts of a paper other than its tables and figures, which have their own names.
THEORY = "theory"
ALGORITHMS = "algorithms"
TEXT = "text"


def part_of_paper(claim: ClaimVerdict) -> str:
    """Return the part of the paper that a claim is about.

    A table that refutes a statement is one part, however many claims are read off it.
    """
    location = (claim.where or "").lower()
    if re.search(r"theorem|lemma|proposition|\(theory\)", location):
        return THEORY
    if "algorithm" in location:
        return ALGORITHMS
    match = re.search(r"\b(table|figure)s? (\w+)", location)
    if match is None:
        return TEXT
    return f"{match[1].capitalize()} {match[2].upper()}"


def claims_by_part(claims: Iterable[ClaimVerdict]) -> dict[str, list[ClaimVerdict]]:
    """Return claims by the part of the paper.

    Theory and algorithms come first, then tables and figures by name, then the text.
    """
    parts: dict[str, list[ClaimVerdict]] = {}
    for claim in claims:
        parts.setdefault(part_of_paper(claim), []).append(claim)
    positions = {THEORY: 0, ALGORITHMS: 1, TEXT: 3}
    names = sorted(parts, key=lambda name: (positions.get(name, 2), name))
    return {name: parts[name] for name in names}


def part_table(claims: Iterable[ClaimVerdict]) -> ReportTable:
    """Return the number of claims with each verdict, for each part of the paper."""
    # Several verdicts may share a label, which has one column.
    labels = dict.fromkeys(verdict.label for verdict in VERDICTS)
    table = ReportTable.of("part of the paper", "claims:count")
    for label in labels:
        table.columns.append(Column(label, "count"))
    for name, part in claims_by_part(claims).items():
        counts = Counter(verdict_label(claim.verdict) for claim in part)
        # An empty entry is easier to read than a zero.
        by_label = [counts[label] or None for label in labels]
        table.rows.append([name, len(part), *by_label])
    return table


def verdict_rank(claim: ClaimVerdict) -> int:
    """Return the sort key of a claim: holding ones first, undecided ones last."""
    words = [verdict.singular for verdict in VERDICTS]
    return words.index(Verdict(claim.verdict).singular)


def outcome(
    overview: Overview, paper: str, words: dict[str, Any], *, brief: bool = False
) -> list[str]:
    """Return the outcome of a paper in a few sentences; a `brief` account names the
    claims that hold, if they are few.

    The page of the paper lists them.
    """
    entries = runs_by_paper(overview.entries)[paper]
    named = {
        claim.id: claim for _, claim in reversed(distinct_claims(entries))
    }  # of one claim the first counts
    told = [
        f"{finding(named[name], text)}"
        for name, text in words.get("headlines", {}).items()
        if name in named
    ]
    theirs = claims_from(entries, PAPER)
    held = _holding(theirs, words)
    if brief and 0 < len(held) <= MOST_HELD:
        told.insert(
            0,
            f"{'What holds' if len(held) > 1 else 'It holds that'}: {'; '.join(held)}",
        )
    counts = counts_line(theirs) if theirs else ""
    if elsewhere := claims_from(entries, OTHER_DATA):
        # Other data say nothing for or against what the paper found on its own.
        counts += f" On other data: {counts_text(claim for _, claim in elsewhere)}."
    if audits := claims_from(entries, AUDIT):
        # Audits reproduce nothing: they have a count of their own.
        counts += (
            f" Audits of its printed numbers or its authors' files: "
            f"{counts_text(claim for _, claim in audits)}."
        )
    return [counts.strip(), *(f"{text[0].upper()}{text[1:]}." for text in told)]


def _holding(claims: Sequence[RunClaim], words: dict[str, Any]) -> list[str]:
    """Return the claims that hold with our numbers, in their short form where there
    is one.
    """
    short = words.get("headlines", {}) | words.get("short", {})
    held = sorted(
        (claim for _, claim in claims if claim.verdict in HOLDING),
        key=lambda c: [*short, c.id].index(c.id),
    )
    lines = []
    for claim in held:
        ours = numbers_of(claim)[1]
        told = any(
            word in ours for word in ("times", "points")
        )  # other numbers say little without their report
        lines.append(short.get(claim.id, claim.text) + (f" ({ours})" if told else ""))
    return lines


def block(strip: Strip | None, papers: Sequence[str], overview: Overview) -> str:
    """Return what stands between the markers of the README: the counts of verdicts,
    and how many printed numbers ours agree with.
    """
    grid = markdown_grid(count_table(strip, papers, f"{PAGES}/")) if strip else ""
    about = yaml.safe_load(WORDS.read_text("utf-8"))
    lines = []
    for paper in papers:
        _, *main_claims = outcome(overview, paper, about[paper])
        name = about[paper].get("name", paper)
        lines += [f"* [{name}]({PAGES}/{paper}.md): {text}" for text in main_claims[:1]]
    main_claims = (
        _wrapped("The main claim of each:\n\n" + "\n".join(lines)) if lines else ""
    )
    parts = [BEGIN, grid, main_claims, _printed_numbers(overview.entries), END]
    return "\n\n".join(filter(None, parts))


def _printed_numbers(entries: Iterable[RunReport]) -> str:
    """Return how many published numbers ours agree with, in a sentence."""
    numbers = [number for _, number in distinct_references(entries)]
    verdicts = paper_verdicts(numbers)
    n_within = verdicts.count(Verdict.WITHIN)
    n_outside = verdicts.count(Verdict.OUTSIDE)
    if not n_within + n_outside:
        return ""
    return _wrapped(
        f"The published tables have {n_within + n_outside} numbers that we compare with "
        f"ours: {n_within} are within tolerance, {n_outside} are not."
    )


def count_table(strip: Strip, papers: Sequence[str], folder: str = "") -> ReportTable:
    """Return how many claims of each paper have each verdict; names of papers lead
    to their pages in `folder`.
    """
    kinds = [kind for kind in SQUARES if any(kind in row.counts for row in strip.rows)]
    table = ReportTable.of("paper", "claims:count")
    table.columns += [Column(SQUARES[kind], "count") for kind in kinds]
    for row, paper in zip(strip.rows, papers, strict=True):
        link = Styled(row.title, address=f"{folder}{paper}.md")
        counts = [row.counts.get(kind, 0) for kind in kinds]
        table.rows.append([link, len(row.squares), *counts])
    return table


def index_block(
    strip: Strip, papers: Sequence[str], overview: Overview, about: dict[str, Any]
) -> str:
    """Return what stands between the markers of the index of the papers: the strip,
    its counts as a table, and the main claims of each paper.
    """
    picture = f"![{strip.caption}]({Path(STRIP).name})"
    lines = []
    for paper in papers:
        words = about[paper]
        speed = words.get("speed", "")
        _, *headlines = outcome(overview, paper, words, brief=True)
        lines.append(f"* **[{words.get('name', paper)}]({paper}.md)**")
        lines += [f"  * {text}" for text in filter(None, [*headlines, speed])]
    main_claims = _wrapped("The main claims:\n\n" + "\n".join(lines))
    table = markdown_grid(count_table(strip, papers))
    return "\n\n".join([INDEX_BEGIN, picture, table, main_claims, INDEX_END])


def _between(text: str, name: str, begin: str, end: str, content: str) -> str:
    """Return a text with what stands between two markers replaced; `content` includes
    the markers.

    Raises
    ------
    SystemExit
        If the text does not have both markers, in their order.
    """
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise SystemExit(f"{name}: the lines {begin!r} and {end!r} must be there")
    return before + content + after


def page(overview: Overview, paper: str, words: dict[str, Any], root: Path) -> str:
    """Return the page of a paper: what it claims, what holds and what does not."""
    entries = runs_by_paper(overview.entries)[paper]
    theirs = claims_from(entries, PAPER)
    blocks = [
        f"# {words.get('name', paper)}",
        f"{_citation(entries)}.",
        words.get("about", ""),
        "## Outcome",
        *_outcome_blocks(overview, paper, words),
        _listed(
            "What holds, with our numbers in parentheses:", _holding(theirs, words)
        ),
        _listed("What does not hold:", _failing(theirs, words)),
        words.get("speed", ""),
        markdown_grid(part_table(claim for _, claim in theirs)) if theirs else "",
        _printed_numbers(entries),
        f"[Every claim](../../{CLAIMS.format(paper)}) has its threshold, our numbers, "
        "its verdict under each interpretation, and a link to its report. What the "
        f"paper leaves open, and what we chose: [choices](../../configs/{paper}/README.md).",
        *_own(words.get("own")),
        *_figures(entries, root, words.get("figures", "")),
        *_errata(words.get("errata"), root),
    ]
    return _joined(blocks)


def _outcome_blocks(overview: Overview, paper: str, words: dict[str, Any]) -> list[str]:
    """Return the counts of claims, and the main claims as a list."""
    counts, *main_claims = outcome(overview, paper, words)
    return [counts, _listed("The main claims:", main_claims)]


def claims_page(overview: Overview, paper: str, words: dict[str, Any]) -> str:
    """Return the page with every claim of a paper, which stands beside its runs."""
    entries = runs_by_paper(overview.entries)[paper]
    theirs = claims_from(entries, PAPER)
    elsewhere = claims_from(entries, OTHER_DATA)
    audits = claims_from(entries, AUDIT)
    blocks = [
        f"# Claims: {words.get('name', paper)}",
        f"The [page of the paper](../../{PAGES}/{paper}.md) has the outcome in short.",
        words.get("note", "").replace("](../../results/", "](../"),
    ]
    for heading, legend, claims in (
        ("## What the paper claims", LEGEND, theirs),
        ("## On other data", OTHER_DATA_LEGEND, elsewhere),
        ("## Audits", AUDIT_LEGEND, audits),
        ("## What we claim", OURS_LEGEND, claims_from(entries, OURS)),
    ):
        if claims:
            grid = markdown_grid(_table(overview, claims))
            blocks += [heading, legend, grid]
    blocks += _readings(overview, [*theirs, *elsewhere, *audits])
    reports = ReportTable.of("report", "what it is", "made with", "code")
    for e in entries:
        run = e.report.run
        name = e.path.partition("/")[2]
        link = Styled(name, address=f"{name}/report.md")
        row = [
            link,
            run.spec.title,
            f"`{_command(e.report)}`",
            _state_of_code(e.report),
        ]
        reports.rows.append(row)
    return _joined([*blocks, "## Reports", markdown_grid(reports)])


def _command(report: Report) -> str:
    """Return the command of a run, which names the interpretations it has."""
    experiment = report.run.experiment
    names = [judged.name for judged in report.others]
    n_planned = sum(entry.config is not None for entry in experiment.readings.values())
    option = " --interpretation all"
    if len(names) == n_planned or option not in experiment.command:
        return experiment.command
    command = experiment.command.replace(option, "")
    commands = [command]
    commands += [f"{command} --interpretation {shlex.quote(name)}" for name in names]
    return "; ".join(commands)


def _state_of_code(report: Report) -> str:
    """Return whether all cells of a run were computed from a clean commit."""
    records = report.run.records.values()
    n_changed = sum(bool((record.made_by or {}).get("dirty")) for record in records)
    if not n_changed:
        return "clean commit"
    return f"uncommitted changes for {n_changed} of {len(records)} cells"


def _joined(blocks: Sequence[str]) -> str:
    """Return a page from its paragraphs, tables and headings."""
    return "\n\n".join(filter(None, (_wrapped(part) for part in blocks))) + "\n"


def _citation(entries: Sequence[RunReport]) -> str:
    return min((e.report.run.spec.paper.cite for e in entries), key=len)


def _listed(intro: str, texts: Sequence[str]) -> str:
    """Return a list below a line, or nothing."""
    items = [f"* {text[0].upper()}{text[1:]}" for text in texts]
    return "\n".join([intro, "", *items]) if items else ""


def _failing(claims: Sequence[RunClaim], words: dict[str, Any]) -> list[str]:
    """Return the claims that do not hold, in their short form where there is one."""
    short = words.get("headlines", {}) | words.get("short", {})
    return [
        short.get(claim.id, claim.text)
        for _, claim in claims
        if claim.verdict == Verdict.NOT_CONFIRMED
    ]


def _own(own: dict[str, str] | None) -> list[str]:
    """Return how to use the method of the paper on the user's table: a sentence and
    commands.
    """
    return (
        ["## On your own table", own["text"], f"```sh\n{own['command']}\n```"]
        if own
        else []
    )


def _table(overview: Overview, claims: Sequence[RunClaim]) -> ReportTable:
    grid = ReportTable.of("id", *CLAIM_COLUMNS)
    for pair in sorted(claims, key=lambda pair: verdict_rank(pair[1])):
        entries, claim = pair
        runs = [entry.report.run for entry in entries]
        text, threshold, ours, verdict, data = claim_row(runs, claim)
        if ROUNDING.fullmatch(ours):
            ours = "0 (rounding)"
        why = ""
        if claim.verdict == Verdict.DEPENDS:
            why = _dependence(with_most_interpretations(overview, pair)[1])
        folders = [entry.path.partition("/")[2] for entry in entries]
        addresses = [f"{folder}/report.md#claims" for folder in folders]
        link = Styled(verdict + why, address=addresses[0])
        # The first report is linked to the verdict, the second one to the data.
        if len(addresses) > 1:
            data = Styled(data, address=addresses[1])
        grid.rows.append([claim.id, text, threshold, ours, link, data])
    return grid


def _dependence(claim: Any) -> str:
    """State under which of the counted interpretations a claim holds or fails,
    whichever are fewer.

    If some leave it undecided, both lists are given, since neither implies the other.
    """
    decisive = {
        name: verdict
        for name, verdict in claim.readings.items()
        if name not in claim.compared_only
    }
    holds = [repr(name) for name, verdict in decisive.items() if verdict in HOLDING]
    fails = [
        repr(name)
        for name, verdict in decisive.items()
        if verdict == Verdict.NOT_CONFIRMED
    ]
    if len(holds) + len(fails) < len(decisive):
        return (
            f": holds only under {listed(holds)}, does not hold under {listed(fails)}"
        )
    if len(fails) <= len(holds):
        return f": does not hold under {listed(fails)}"
    return f": holds only under {listed(holds)}"


def _figures(entries: Sequence[RunReport], root: Path, note: str) -> list[str]:
    """Return the figures that show published numbers beside ours, of the first run of
    each experiment; reports have all.

    A `note` of papers.yaml above them says which figures there are not, and why.
    """
    found = []
    shown: set[str] = set()
    for entry in entries:
        source = published_line(entry.report.run)
        folder = f"{RESULTS}/{entry.path}/{FIGURES}"
        figures = [
            figure
            for figure in entry.report.figures
            if source or isinstance(figure, Dumbbell)
        ]
        names = sorted(f"{figure.name}.svg" for figure in figures)
        drawn = [name for name in names if (root / folder / name).is_file()]
        if drawn and entry.id in shown:
            continue
        if drawn:
            shown.add(entry.id)
            title = entry.report.run.spec.title
            found.append(f"**{title}** (`{entry.path}`). {source or ''}".strip())
        for name in drawn[:MOST_FIGURES]:
            words = Path(name).stem.replace("-", " ")
            found.append(f"![{title}: {words}](../../{folder}/{name})")
    if not found:
        return []
    heading = ["## Figures"]
    if note:
        heading.append(note)
    return heading + found


def _readings(overview: Overview, claims: Sequence[RunClaim]) -> list[str]:
    """Return the verdicts under every interpretation of what the paper leaves open."""
    grid = ReportTable.of("id", "overall", "under each interpretation")
    for pair in claims:
        _, claim = pair
        _, found = with_most_interpretations(overview, pair)
        if found.readings:
            grid.rows.append(
                [claim.id, verdict_label(claim.verdict), found.under_readings]
            )
    if not grid.rows:
        return []
    return [
        "## Interpretations",
        "The paper leaves choices open. Where we tried several, the verdict under each:",
        markdown_grid(grid),
    ]


def _errata(title: str | None, root: Path) -> list[str]:
    """Return how many errors the page of errata lists for a paper."""
    path = root / ERRATA
    if not title or not path.is_file():
        return []
    heading = re.compile(
        rf"^## ({re.escape(title)}\b.*?)\n(.*?)(?=^## |\Z)", re.M | re.S
    )
    part = heading.search(path.read_text("utf-8"))
    rows = re.findall(r"^\| (?!where)[^-]", part[2], re.M) if part else []
    if not rows:
        return []
    return [
        "## Errata",
        f"The [errata](../../configs/errata.md) list {len(rows)} errors in the paper: what shows "
        "each, and what mtlrun does instead.",
    ]


def _wrapped(text: str) -> str:
    """Break prose at 100 characters; tables, pictures and headings stay on their
    line.
    """
    if text.startswith(("|", "#", "!", "<", "```")):
        return text
    intro, _, bullets = text.partition("\n\n")
    fill = {"width": 100, "break_long_words": False, "break_on_hyphens": False}
    lines = []
    for line in bullets.splitlines():
        indent = len(line) - len(line.lstrip()) + len("* ")
        lines.append(textwrap.fill(line, **fill, subsequent_indent=" " * indent))
    return "\n\n".join(
        filter(None, [textwrap.fill(" ".join(intro.split()), **fill), "\n".join(lines)])
    )


def texts(root: Path, overview: Overview | None = None) -> dict[str, str]:
    """Return what the generated files of a checkout should hold, by their names.

    Raises
    ------
    SystemExit
        If README.md or the index of the papers does not have both markers, in their
        order.
    """
    overview = read_overview(root / RESULTS) if overview is None else overview
    about = yaml.safe_load(WORDS.read_text("utf-8"))
    readme = (root / README).read_text(encoding="utf-8")
    papers = [
        paper for paper in runs_by_paper(overview.entries) if paper in about
    ]  # and not the atlas, which is our own
    addresses = {paper: f"{paper}/claims.md" for paper in papers}
    outcomes = {
        paper: " ".join(outcome(overview, paper, about[paper], brief=True))
        for paper in papers
    }
    strip, with_claims = _strip(overview)
    found = {
        README: _between(
            readme, README, BEGIN, END, block(strip, with_claims, overview)
        ),
        SUMMARY: overview_markdown(overview, addresses, outcomes),
    }
    if strip is not None and (root / INDEX).is_file():
        index = (root / INDEX).read_text(encoding="utf-8")
        content = index_block(strip, with_claims, overview, about)
        found[INDEX] = _between(index, INDEX, INDEX_BEGIN, INDEX_END, content)
    found |= {
        f"{PAGES}/{paper}.md": page(overview, paper, about[paper], root)
        for paper in papers
    }
    found |= {
        CLAIMS.format(paper): claims_page(overview, paper, about[paper])
        for paper in papers
    }
    return found | {
        f"{RESULTS}/{e.path}/{name}": text
        for e in overview.entries
        for name, text in _files(e.report)
    }


def _strip(overview: Overview) -> tuple[Strip | None, list[str]]:
    """Return the strip of verdicts under the names of the papers, and which papers
    it has.
    """
    about = yaml.safe_load(WORDS.read_text("utf-8"))
    titles = {paper: str(words.get("name", paper)) for paper, words in about.items()}
    with_claims = [
        paper
        for paper, entries in runs_by_paper(overview.entries).items()
        if paper in titles and claims_from(entries, PAPER)
    ]
    return verdict_strip(overview, titles), with_claims


def stale_drawings(root: Path, overview: Overview) -> dict[str, Drawing | None]:
    """Return the files of figures to be drawn, with the figure, and those to be
    removed, with None.

    A drawing depends on the version of matplotlib, so that figures are compared by the
    numbers and verdicts that stand in them: the strip by its claims and words, the
    others by whether they are there.
    """
    found: dict[str, Drawing | None] = {}
    for entry in overview.entries:
        folder = root / RESULTS / entry.path / FIGURES
        figures = {f"{figure.name}.svg": figure for figure in entry.report.figures}
        present = {path.name for path in folder.glob("*.svg")}
        where = f"{RESULTS}/{entry.path}/{FIGURES}"
        for name, figure in figures.items():
            if name not in present:
                found[f"{where}/{name}"] = figure
        for name in sorted(present - figures.keys()):
            found[f"{where}/{name}"] = None
    strip, _ = _strip(overview)
    if strip is not None and (root / INDEX).is_file():
        path = root / STRIP
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        wanted = {f"{kind}-{name}" for row in strip.rows for kind, name in row.squares}
        drawn = re.findall(rf'id="((?:{"|".join(SQUARES)})-[^"]+)"', text)
        words = {SQUARES[kind] for row in strip.rows for kind in row.counts}
        has_words = all(f">{word}<" in text for word in words)
        if wanted != set(drawn) or not has_words:
            found[STRIP] = strip
    return found


def dumbbell_drawings(overview: Overview) -> dict[str, Drawing | None]:
    """Return the figures of published numbers and ours of all runs, by their files."""
    return {
        f"{RESULTS}/{entry.path}/{FIGURES}/{figure.name}.svg": figure
        for entry in overview.entries
        for figure in entry.report.figures
        if isinstance(figure, Dumbbell)
    }


def write_drawings(root: Path, drawings: dict[str, Drawing | None]) -> None:
    """Draw the figures into their files, and remove the files without a figure."""
    for name, figure in drawings.items():
        path = root / name
        if figure is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_drawing(figure, path)


def _files(report: Report) -> list[tuple[str, str]]:
    return [(name, writer(report)) for name, writer in FILES.items()]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", action="store_true")
    group.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    overview = read_overview(root / RESULTS)
    drawings = stale_drawings(root, overview)
    if options.write:
        # The page of a paper shows figures that are there: they come first.
        write_drawings(root, dumbbell_drawings(overview) | drawings)
    stale = {
        name: text
        for name, text in texts(root, overview).items()
        if not (root / name).is_file()
        or (root / name).read_text(encoding="utf-8") != text
    }
    for name, text in stale.items():
        if options.write:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    told = (
        "written"
        if options.write
        else "not what the runs say; run scripts/results_pages.py --write"
    )
    for name in (*drawings, *stale):
        sys.stdout.write(f"{name}: {told}\n")
    return int(bool(stale or drawings) and options.check)


if __name__ == "__main__":
    sys.exit(main())
