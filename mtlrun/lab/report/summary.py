"""The summary of many runs: cells, claims, reference numbers and cost together, as text, pages and on a terminal."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from mtlrun.engine.stored import RUN_FILE
from mtlrun.errors import DataError, counted
from mtlrun.lab.report.build import (
    TONES,
    TROUBLE,
    Report,
    build_report,
    cells_text,
    claim_lines,
    plain_models,
    trouble_texts,
    verdict_lines,
)
from mtlrun.lab.report.checks import NUMBERS, STYLES, VERDICTS, Verdict
from mtlrun.lab.report.claims import ClaimVerdict
from mtlrun.lab.report.interpretations import ReferenceVerdict
from mtlrun.lab.report.sections import (
    AUDIT,
    COLUMNS,
    MOST_FINDINGS,
    OTHER_DATA,
    OURS,
    claim_row,
    computing_seconds,
    counts_text,
    edge_hits,
    failures_section,
    finding,
    findings,
)
from mtlrun.lab.stored import read_json
from mtlrun.tables.figures import SQUARES, Strip, StripRow
from mtlrun.tables.page import html_page
from mtlrun.tables.report_table import (
    Column,
    ReportTable,
    Section,
    Styled,
    duration,
    escape_html,
    json_text,
    markdown_section,
    text_rows,
)
from mtlrun.utils.io import write_atomic

SCHEMA = 1
#: Runs lie in <paper>/<artefact>/<profile> below the folder of the results.
DEPTH = 3
#: Comparisons lie in <folder of the results>/compare/<name>.
COMPARE = "compare"
#: The summary of all runs, and its formats.
INDEX = "index"
FORMATS = ("md", "json", "html")
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunReport:
    """One run.

    Attributes
    ----------
    place : str
        Its folder, below that of all runs, with slashes.
    report : Report
    """

    place: str
    report: Report

    @property
    def id(self) -> str:
        """``<paper>/<artefact>``."""
        return str(self.report.run.info.get("id", self.place))

    @property
    def paper(self) -> str:
        """First part of the id."""
        return self.id.partition("/")[0]


@dataclass
class Overview:
    """Runs, and what they say together.

    A claim or number that several runs of an artefact judge counts once, by the run that tests the most of it.

    Attributes
    ----------
    entries : list of RunReport
        In the order of their folders.
    left_out : dict of str to str
        Artefact -> why there is no run of it here.
    profile : str or None
        The only profile that was looked at.
    command : str or None
        One line that makes all of it.
    comparisons : list of dict
        Of methods on people's own data, each with place, title and verdict; with a profile there are none.
    """

    entries: list[RunReport]
    left_out: dict[str, str] = field(default_factory=dict)
    profile: str | None = None
    command: str | None = None
    comparisons: list[dict[str, str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Heading of the page."""
        return f"All artefacts, profile {self.profile}" if self.profile else "All runs"

    @property
    def papers(self) -> dict[str, list[RunReport]]:
        """Runs by paper."""
        found: dict[str, list[RunReport]] = {}
        for entry in self.entries:
            found.setdefault(entry.paper, []).append(entry)
        return found

    def claims(
        self, entries: Iterable[RunReport] | None = None
    ) -> list[tuple[RunReport, ClaimVerdict]]:
        """Return every claim once, with the run that judges it."""
        entries = self.entries if entries is None else entries
        return _decisive(
            (entry, claim.id, claim.tested, claim)
            for entry in entries
            for claim in entry.report.claims
        )

    def theirs(
        self, entries: Iterable[RunReport]
    ) -> list[tuple[RunReport, ClaimVerdict]]:
        """Return the claims of a paper that a run reproduces, on its data."""
        return [
            (entry, claim)
            for entry, claim in self.claims(entries)
            if claim.source not in (AUDIT, OTHER_DATA, OURS)
        ]

    def on_other_data(
        self, entries: Iterable[RunReport]
    ) -> list[tuple[RunReport, ClaimVerdict]]:
        """Return the claims asked of data that the paper does not have, such as
        simulated ones: they say nothing for or against what it found on its own."""
        return [
            (entry, claim)
            for entry, claim in self.claims(entries)
            if claim.source == OTHER_DATA
        ]

    def audits(
        self, entries: Iterable[RunReport]
    ) -> list[tuple[RunReport, ClaimVerdict]]:
        """Return the claims checked against printed numbers or files of the authors."""
        return [
            (entry, claim)
            for entry, claim in self.claims(entries)
            if claim.source == AUDIT
        ]

    def ours(
        self, entries: Iterable[RunReport]
    ) -> list[tuple[RunReport, ClaimVerdict]]:
        """Return our own claims."""
        return [
            (entry, claim)
            for entry, claim in self.claims(entries)
            if claim.source == OURS
        ]

    def under_readings(
        self, entry: RunReport, claim: ClaimVerdict
    ) -> tuple[RunReport, ClaimVerdict]:
        """Return the run that has a claim under most readings, with its verdicts: this run if it has any."""
        if claim.readings:
            return entry, claim
        others = (
            (e, c)
            for e in self.entries
            if e.id == entry.id
            for c in e.report.claims
            if c.id == claim.id
        )
        return max([(entry, claim), *others], key=lambda found: len(found[1].readings))

    def references(
        self, entries: Iterable[RunReport] | None = None
    ) -> list[tuple[RunReport, ReferenceVerdict]]:
        """Return every reference number once, with the run that has it."""
        entries = self.entries if entries is None else entries
        found = (
            (entry, number) for entry in entries for number in entry.report.references
        )
        return _decisive(
            (entry, (n.dataset, n.method, n.quantity, n.source, n.value), n.n, n)
            for entry, n in found
        )

    @property
    def summary(self) -> list[str]:
        """The verdict in a few lines."""
        artefacts = len({entry.id for entry in self.entries})
        runs = f" in {len(self.entries)} runs" if len(self.entries) > artefacts else ""
        left_out = f"; {len(self.left_out)} left out" if self.left_out else ""
        lines = [
            f"{counted(artefacts, 'artefact')}{runs}, {cells_text(_cells(self.entries))}{left_out}."
        ]
        claims = [claim for _, claim in self.claims()]
        lines += verdict_lines(
            claims, [number.verdict for _, number in self.references()], "papers"
        )
        lines.append(
            f"Cost: {duration(_seconds(self.entries))} of computing (cells and parameter searches)."
        )
        return lines


# ---------------------------------------------------------------- reading


def run_folders(root: Path) -> list[Path]:
    """Return the folders of the runs below a folder, in alphabetical order."""
    return sorted(path.parent for path in Path(root).glob(f"{'*/' * DEPTH}{RUN_FILE}"))


def read_overview(
    root: Path, profile: str | None = None, *, known: Iterable[str] = ()
) -> Overview:
    """Read all runs below a folder; what cannot be read is among those left out, with the reason.

    Parameters
    ----------
    root : Path
        Holds ``<paper>/<artefact>/<profile>/``.
    profile : str, optional
        Only this one.
    known : iterable of str
        Ids of artefacts: those of the papers found here that have no run are left out, too.
    """
    found = Overview([], profile=profile)
    for folder in run_folders(root):
        if profile in (None, folder.name):
            place = folder.relative_to(root).as_posix()
            try:
                found.entries.append(RunReport(place, build_report(folder)))
            except DataError as error:
                found.left_out[place] = str(error.message)
    for path in (
        sorted(Path(root).glob(f"{COMPARE}/*/leaderboard.json"))
        if profile is None
        else ()
    ):
        place = path.parent.relative_to(root).as_posix()
        try:
            content = read_json(path) or {}
            texts = {name: str(content.get(name, "")) for name in ("title", "verdict")}
            found.comparisons.append({"place": place, **texts})
        except DataError as error:
            found.left_out[place] = str(error.message)
    have = {entry.id for entry in found.entries}
    for name in known:
        if name not in have and name.partition("/")[0] in found.papers:
            found.left_out.setdefault(name, "no run here")
    return found


# ---------------------------------------------------------------- Markdown, JSON and HTML


def overview_sections(
    overview: Overview, ending: Callable[[str], str] = lambda path: "md"
) -> list[Section]:
    """Return the tables: the claims of every paper, our own, the runs, comparisons, what is left out.

    Parameters
    ----------
    overview : Overview
    ending : callable, optional
        Gets the path of the page of a run without its ending, and returns the ending to link to.
    """

    def link(
        place: str, page: str = "report", anchor: str = "", text: str = ""
    ) -> Styled:
        path = f"{place}/{page}"
        return Styled(text or place, address=f"{path}.{ending(path)}{anchor}")

    def grid(found: Sequence[tuple[RunReport, ClaimVerdict]]) -> ReportTable:
        rows = (
            [link(e.place, anchor="#claims"), c.id, *claim_row(e.report.run, c)]
            for e, c in found
        )
        return ReportTable.of("run", "id", *COLUMNS, rows=rows)

    sections = []
    for paper, entries in overview.papers.items():
        theirs = overview.theirs(entries)
        elsewhere = overview.on_other_data(entries)
        if theirs or elsewhere:
            lines = []
            if theirs:
                lines.append(counts_line(theirs))
            if elsewhere:
                lines.append(f"On other data: {counts_line(elsewhere)}")
            lines += findings([claim for _, claim in theirs])[:MOST_FINDINGS]
            sections.append(
                Section(
                    _cite(entries) or paper,
                    [f"* {line}" for line in lines],
                    [grid([*theirs, *elsewhere])],
                    fold=True,
                )
            )
    compared = [
        [link(c["place"], "leaderboard"), c["title"], c["verdict"]]
        for c in overview.comparisons
    ]
    left_out = [[name, why] for name, why in overview.left_out.items()]
    runs = ReportTable.of(
        "run",
        "cells done:count",
        "numbers met:count",
        "computing:duration",
        "outcome",
        "what it is",
    )
    runs.rows = [
        [link(e.place), *run_counts(e), str(e.report.run.info.get("title", ""))]
        for e in overview.entries
    ]
    audits = overview.audits(overview.entries)
    sections += [
        Section(
            "Audits of printed numbers and of the authors' files",
            [],
            [grid(audits)],
            fold=True,
        ),
        Section(
            "Our own claims", [], [grid(overview.ours(overview.entries))], fold=True
        ),
        Section("Runs", [], [runs]),
        Section(
            "Comparisons of methods",
            [],
            [ReportTable.of("comparison", "title", "verdict", rows=compared)],
        ),
        Section("Left out", [], [ReportTable.of("artefact", "why", rows=left_out)]),
    ]
    return [section for section in sections if section.grids[0].rows]


#: Kinds of squares of the strip: those whose words are the words of the verdict.
_SQUARE_OF = {
    verdict: kind
    for verdict in VERDICTS
    for kind, words in SQUARES.items()
    if words == verdict.said
}


def verdict_strip(
    overview: Overview, titles: Mapping[str, str] | None = None
) -> Strip | None:
    """Return the verdicts on the claims of all papers as one figure, None without any.

    Parameters
    ----------
    overview : Overview
    titles : mapping of str to str, optional
        Paper -> heading of its line; papers that are not in it are left out. Default:
        the authors and title of each paper.
    """
    rows = []
    for paper, entries in overview.papers.items():
        claims = overview.theirs(entries)
        if not claims or (titles is not None and paper not in titles):
            continue
        title = (_cite(entries) or paper) if titles is None else titles[paper]
        squares = [
            (_SQUARE_OF[Verdict(claim.verdict)], claim.id) for _, claim in claims
        ]
        rows.append(StripRow(title, squares))
    return Strip("verdicts", "Claims of the papers", rows) if rows else None


def counts_line(claims: Sequence[tuple[RunReport, ClaimVerdict]]) -> str:
    """Say how many of some claims hold."""
    return f"Of {counted(len(claims), 'claim')}, {counts_text(claim for _, claim in claims)}."


def run_counts(entry: RunReport) -> list[Any]:
    """Return how many cells of a run are done, how many printed numbers are met, the seconds, and what came out."""
    cells = entry.report.cells
    numbers = [
        number.verdict
        for number in entry.report.references
        if number.verdict != Verdict.NOT_RUN
    ]
    met = f"{numbers.count(Verdict.WITHIN)} of {len(numbers)}" if numbers else None
    outcome = ", ".join(
        filter(None, [*trouble_texts(cells), counts_text(entry.report.claims)])
    )
    return [
        f"{cells['done']} of {cells['planned']}",
        met,
        entry.report.seconds,
        outcome,
    ]


def overview_markdown(
    overview: Overview,
    pages: Mapping[str, str] | None = None,
    outcomes: Mapping[str, str] | None = None,
) -> str:
    """Return the summary as Markdown, on two screens: per paper what was found, and its reports; counts come last.

    Parameters
    ----------
    overview : Overview
    pages : mapping of str to str, optional
        Paper -> address of its page.
    outcomes : mapping of str to str, optional
        Paper -> what was found, in the place of its first claims.
    """
    blocks = [
        f"# {overview.title}",
        f"Made with `{overview.command}`." if overview.command else "",
    ]
    for paper, entries in overview.papers.items():
        claims = overview.theirs(entries)
        if not claims:
            claims = overview.on_other_data(entries)
        if not claims:
            claims = overview.ours(entries)
        told, outcome = (
            findings([claim for _, claim in claims]),
            (outcomes or {}).get(paper),
        )
        page = (pages or {}).get(paper)
        more = [f"[Every claim with its numbers]({page})."] if page else []
        links = ", ".join(f"[{e.place}]({e.place}/report.md)" for e in entries)
        lines = [outcome or (counts_line(claims) if claims else ""), *more]
        blocks += [
            f"## {_cite(entries) or paper}",
            " ".join(filter(None, lines)),
            "" if outcome else "\n".join(f"* {line}" for line in told[:MOST_FINDINGS]),
        ]
        blocks.append(f"Reports: {links}.")
    blocks += ["## In numbers", "\n".join(f"* {line}" for line in overview.summary)]
    rest = [
        s
        for s in overview_sections(overview)
        if s.title in ("Comparisons of methods", "Left out")
    ]
    blocks += [markdown_section(section) for section in rest]
    return escape_html("\n\n".join(filter(None, blocks)) + "\n")


def overview_json(overview: Overview) -> str:
    """Return the summary as JSON."""
    content = {
        "schema": SCHEMA,
        "title": overview.title,
        "profile": overview.profile,
        "command": overview.command,
        "summary": overview.summary,
        "total": _counts(overview, overview.entries),
        "papers": {
            paper: {"cite": _cite(e), **_counts(overview, e)}
            for paper, e in overview.papers.items()
        },
        "runs": [
            {"run": e.place, "id": e.id, **_counts(overview, [e])}
            for e in overview.entries
        ],
        "claims": [
            {
                "id": c.id,
                "run": e.place,
                "verdict": c.verdict,
                **_readings(overview, e, c),
                "text": c.text,
                "why": c.why,
            }
            for e, c in overview.claims()
        ],
        "comparisons": overview.comparisons,
        "left_out": overview.left_out,
    }
    return json_text(plain_models(content))


def _readings(
    overview: Overview, entry: RunReport, claim: ClaimVerdict
) -> dict[str, Any]:
    other, found = overview.under_readings(entry, claim)
    return {
        "readings": found.readings,
        **({"readings_run": other.place} if other is not entry else {}),
    }


def render_overview(overview: Overview, form: str, root: Path) -> str:
    """Return the summary in one of `FORMATS`; its links are relative to the folder of the runs."""
    if (
        form == "html"
    ):  # it leads to the pages of the runs, to their Markdown where no page was made
        sections = overview_sections(
            overview,
            lambda path: "html" if (Path(root) / f"{path}.html").is_file() else "md",
        )
        lines = [
            *overview.summary,
            *([f"Made with `{overview.command}`."] if overview.command else []),
        ]
        strip = verdict_strip(overview)
        figures = [] if strip is None else [strip]
        return html_page(overview.title, lines, sections, figures, tones=TONES)
    return overview_json(overview) if form == "json" else overview_markdown(overview)


def write_overview(
    overview: Overview, root: Path, forms: tuple[str, ...] = FORMATS
) -> list[Path]:
    """Write ``index.*`` over all runs below a folder, or ``summary-<profile>.*`` over those of a profile."""
    name = f"summary-{overview.profile}" if overview.profile else INDEX
    paths = [Path(root) / f"{name}.{form}" for form in forms]
    for path, form in zip(paths, forms, strict=True):
        write_atomic(path, render_overview(overview, form, root))
    return paths


def results_root(report: Report, folder: Path) -> Path | None:
    """Return the folder of the results that a run folder lies in, None when it lies elsewhere."""
    place = Path(os.path.realpath(folder))
    expected = (*str(report.run.info.get("id")).split("/"), report.run.profile)
    return place.parents[DEPTH - 1] if place.parts[-DEPTH:] == expected else None


# ---------------------------------------------------------------- counts


def _counts(overview: Overview, entries: Sequence[RunReport]) -> dict[str, Any]:
    """Return the counts of some runs, and the seconds that they took."""
    claims = Counter(claim.verdict for _, claim in overview.claims(entries))
    numbers = Counter(number.verdict for _, number in overview.references(entries))
    cells = _cells(entries)
    return {
        "cells": cells.pop("planned"),
        **cells,
        **{str(verdict): claims[verdict] for verdict in VERDICTS},
        **{str(verdict): numbers[verdict] for verdict in NUMBERS},
        "seconds": _seconds(entries),
    }


def _cells(entries: Sequence[RunReport]) -> dict[str, int]:
    """Return the cells of all runs together, as `Report.cells` has those of one."""
    names = ("planned", "done", *TROUBLE)
    return {name: sum(e.report.cells[name] for e in entries) for name in names}


def _seconds(entries: Sequence[RunReport]) -> float:
    return computing_seconds(*(entry.report.run for entry in entries))


def _decisive(
    found: Iterable[tuple[RunReport, Any, int, _T]],
) -> list[tuple[RunReport, _T]]:
    """Return every item of the artefacts once: that of the run that tests the most of it, then of the largest run.

    Parameters
    ----------
    found : iterable of (run, name of the item, how much of it is tested, item)
    """
    best: dict[Any, tuple[tuple[int, int], RunReport, _T]] = {}
    for entry, name, tested, item in found:
        rank, key = (tested, entry.report.cells["done"]), (entry.id, name)
        if key not in best or rank > best[key][0]:
            best[key] = (rank, entry, item)
    return [(entry, item) for _, entry, item in best.values()]


def _cite(entries: Sequence[RunReport]) -> str:
    """Return the paper of some runs: the shortest form, some name a second source."""
    return min(
        (str((e.report.run.info.get("paper") or {}).get("cite", "")) for e in entries),
        key=len,
        default="",
    )


# ---------------------------------------------------------------------- terminal

#: Failures, and ends of grids, that are shown; the report has all.
MOST_LINES = 10


def print_report(console: Console, report: Report) -> None:
    """Print the report's own outcome, tables, claims and findings; ends of grids and failures come last."""
    tables = report.results or [Section("")]
    tables[-1].lines += report.notes(bold=console.is_terminal)
    edges = [f"end of the grid: {hit}" for hit in edge_hits(report.run)]
    failures = failures_section(report.run, report.runs[1:]).lines
    print_sections(
        console,
        [
            Section("", report.summary),
            *tables,
            Section("", claim_lines(report, brief=True)),
            *(Section(section.title, section.lines) for section in report.measured),
            *(
                Section("", _first(lines, what))
                for lines, what in ((edges, "ends of grids"), (failures, "failures"))
            ),
        ],
    )


def _first(lines: list[str], what: str) -> list[str]:
    rest = len(lines) - MOST_LINES
    return [
        *lines[:MOST_LINES],
        *([f"... and {rest} more {what}, see report.md"] if rest > 0 else []),
    ]


def print_overview(console: Console, overview: Overview) -> None:
    """Print the tables of the summary and the totals; in a file or a pipe, which can be searched, all claims first."""
    shown = {section.title: section for section in overview_sections(overview)}
    if runs := shown.get("Runs"):
        runs.grids = [runs.grids[0].part(range(len(runs.grids[0].columns) - 1))]
    claims = [] if console.is_terminal else overview.claims()
    print_sections(
        console,
        [
            Section(
                "",
                [
                    f"{entry.place}: {claim.id}: {finding(claim)}"
                    for entry, claim in claims
                ],
            ),
            *(
                shown[title]
                for title in ("Runs", "Comparisons of methods", "Left out")
                if title in shown
            ),
            Section("", overview.summary),
        ],
    )


def print_sections(console: Console, sections: Iterable[Section]) -> None:
    """Print sections, tables in parts that keep to the width; a sentence is one line in a file or a pipe."""
    for place, section in enumerate(
        section for section in sections if not section.empty
    ):
        if place:
            console.print()
        if section.title:
            console.print(Text(section.title, style="bold"))
        for part in (
            part for grid in section.grids for part in grid.within(console.width)
        ):
            for values, texts in zip(
                [part.columns, *part.rows], text_rows(part), strict=True
            ):
                row = Text("  ").join(
                    Text(text, _style(value))
                    for text, value in zip(texts, values, strict=True)
                )
                row.rstrip()
                console.print(row, soft_wrap=True)
        for line in section.lines:
            word, *rest = re.sub(r"^\* (\*\*(.+?)\*\*)?", r"\2", line).partition(": ")
            text = Text.assemble(
                (word, STYLES[TONES[word]] if word in TONES else ""), *rest
            )
            console.print(text, soft_wrap=not console.is_terminal)


def _style(value: object) -> str:
    """Return the style of a table's entry: heads and the best numbers are bold, a printed one as its verdict."""
    if isinstance(value, Column) or (isinstance(value, Styled) and value.bold):
        return "bold"
    return (
        STYLES[TONES[value.tone]]
        if isinstance(value, Styled) and value.tone in TONES
        else ""
    )
