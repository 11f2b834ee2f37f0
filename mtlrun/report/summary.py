"""The summary of many runs: cells, claims, reference numbers and cost together, as text, pages and on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mtlrun.errors import DataError, UnknownNameError, counted
from mtlrun.report.build import TROUBLE, Report, build_report, cells_text, verdicts_text
from mtlrun.report.checks import NUMBERS, STYLES, VERDICTS, Verdict
from mtlrun.report.claims import ClaimVerdict
from mtlrun.report.grid import Column, Grid, Link, Marks, Section, duration, harmless, json_text, markdown_section
from mtlrun.report.references import ReferenceVerdict
from mtlrun.report.run import RUN_FILE, read_json
from mtlrun.report.sections import computing_seconds
from mtlrun.utils.io import write_atomic

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA = 1
#: Runs lie in <paper>/<artefact>/<profile> below the folder of the results.
DEPTH = 3
#: Comparisons lie in <folder of the results>/compare/<name>.
COMPARE = "compare"
#: The page of a run, the summary of all runs, and the formats of a summary.
PAGE, INDEX = "report.html", "index"
FORMATS = ("md", "json", "html")
#: Heads of columns that are not called as what they count.
SHORT = {str(Verdict.NOT_TESTABLE): "not testable", "seconds": "computing"}
#: What the columns of counts are.
COUNTS = (
    "* Columns: cells; claims by verdict; reference numbers within tolerance, out of tolerance, not run; "
    "computing time."
)
#: Verdicts on claims as symbols, and what they mean.
SYMBOLS: dict[str, str] = dict(zip(VERDICTS, "✓◕◐✗◇?·", strict=True))
LEGEND = "  ".join(f"{symbol} {verdict}" for verdict, symbol in SYMBOLS.items())
MATRIX = "A symbol per claim, in the order of the report: over all readings, then under each, the main one first."
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


@dataclass(frozen=True)
class Comparison:
    """What ``mtlrun compare`` left in a folder.

    Attributes
    ----------
    place : str
        Its folder, as for `RunReport`.
    title, verdict : str
    """

    place: str
    title: str
    verdict: str


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
    comparisons : list of Comparison
        Of methods on people's own data; with a profile there are none.
    """

    entries: list[RunReport]
    left_out: dict[str, str] = field(default_factory=dict)
    profile: str | None = None
    command: str | None = None
    comparisons: list[Comparison] = field(default_factory=list)

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

    def claims(self, entries: Iterable[RunReport] | None = None) -> list[tuple[RunReport, ClaimVerdict]]:
        """Return every claim once, with the run that judges it."""
        return _decisive(
            self.entries if entries is None else entries,
            lambda report: report.claims,
            lambda claim: claim.id,
            lambda claim: claim.tested,
        )

    def references(self, entries: Iterable[RunReport] | None = None) -> list[tuple[RunReport, ReferenceVerdict]]:
        """Return every reference number once, with the run that has it."""
        return _decisive(
            self.entries if entries is None else entries,
            lambda report: report.references,
            lambda number: (number.dataset, number.method, number.quantity, number.source, number.value),
            lambda number: number.n,
        )

    @property
    def summary(self) -> list[str]:
        """The verdict in a few lines."""
        artefacts = len({entry.id for entry in self.entries})
        runs = f" in {len(self.entries)} runs" * (len(self.entries) > artefacts)
        left_out = f"; {len(self.left_out)} left out" * bool(self.left_out)
        lines = [f"{counted(artefacts, 'artefact')}{runs}, {cells_text(_cells(self.entries))}{left_out}."]
        claims = [claim.verdict for _, claim in self.claims()]
        numbers = [number.verdict for _, number in self.references()]
        if claims:
            lines.append(f"{counted(len(claims), 'claim')} of the papers: {verdicts_text(claims)}.")
        if numbers:
            lines.append(f"{counted(len(numbers), 'reference number')}: {verdicts_text(numbers)}.")
        lines.append(f"Cost: {duration(_seconds(self.entries))} of computing (cells and parameter searches).")
        return lines


# ---------------------------------------------------------------- reading


def run_folders(root: Path) -> list[Path]:
    """Return the folders of the runs below a folder, in alphabetical order."""
    return sorted(path.parent for path in Path(root).glob(f"{'*/' * DEPTH}{RUN_FILE}"))


def read_overview(root: Path, profile: str | None = None, *, known: Iterable[str] = ()) -> Overview:
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
    if profile is None:
        _add_comparisons(found, root)
    have = {entry.id for entry in found.entries}
    for name in known:
        if name not in have and name.partition("/")[0] in found.papers:
            found.left_out.setdefault(name, "no run here")
    return found


def _add_comparisons(found: Overview, root: Path) -> None:
    for path in sorted(Path(root).glob(f"{COMPARE}/*/leaderboard.json")):
        place = path.parent.relative_to(root).as_posix()
        try:
            content = read_json(path) or {}
        except DataError as error:
            found.left_out[place] = str(error.message)
            continue
        found.comparisons.append(Comparison(place, str(content.get("title", place)), str(content.get("verdict", ""))))


# ---------------------------------------------------------------- Markdown, JSON and HTML


def overview_sections(overview: Overview, ending: Callable[[str], str] = lambda path: "md") -> list[Section]:
    """Return the tables: papers, runs, claims, what is left out.

    Parameters
    ----------
    overview : Overview
    ending : callable, optional
        Gets the path of the page of a run without its ending, and returns the ending to link to.
    """

    def link(place: str, page: str = "report", anchor: str = "", text: str = "") -> Link:
        path = f"{place}/{page}"
        return Link(text or place, f"{path}.{ending(path)}{anchor}")

    groups = overview.papers
    cites = [f"* {paper}: {_cite(entries)}" for paper, entries in groups.items() if _cite(entries)]
    papers = [([p, len({e.id for e in es})], _counts(overview, es)) for p, es in groups.items()]
    titles = [
        ([link(e.place), str(e.report.run.info.get("title", ""))], _counts(overview, [e])) for e in overview.entries
    ]
    claims = [
        [link(e.place, anchor="#claims", text=c.id), e.place, c.verdict, _readings(c), c.text, c.why]
        for e, c in overview.claims()
    ]
    compared = [[link(c.place, "leaderboard"), c.title, c.verdict] for c in overview.comparisons]
    left_out = [[name, why] for name, why in overview.left_out.items()]
    matrix = [
        [link(e.place, anchor="#claims"), *claim_marks(e)] for es in groups.values() for e in es if e.report.claims
    ]
    widest = max(map(len, matrix), default=0)
    glance = _text_grid(
        ("run", "claims", *["main reading"] * (widest > 2), *(f"reading {n}" for n in range(2, widest - 1))),
        [[*row, *[None] * (widest - len(row))] for row in matrix],
    )
    tables = [
        Section("Claims at a glance", [f"{MATRIX} {LEGEND}"], [glance]),
        Section("Papers", [*cites, *[COUNTS] * bool(groups)], [_count_grid(["paper", "artefacts"], papers)]),
        Section("Runs", [], [_count_grid(["run", "title"], titles)]),
        Section("Claims", [], [_text_grid(("claim", "run", "verdict", "readings", "text", "why"), claims)]),
        Section("Comparisons of methods", [], [_text_grid(("comparison", "title", "verdict"), compared)]),
        Section("Left out", [], [_text_grid(("artefact", "why"), left_out)]),
    ]
    return [section for section in tables if section.grids[0].rows]


def overview_markdown(overview: Overview) -> str:
    """Return the summary as Markdown."""
    blocks = [f"# {overview.title}", "\n".join(f"* {line}" for line in overview.summary)]
    blocks += [f"Made with `{overview.command}`."] * bool(overview.command)
    blocks += [markdown_section(section) for section in overview_sections(overview)]
    return harmless("\n\n".join(blocks) + "\n")


def overview_json(overview: Overview) -> str:
    """Return the summary as JSON."""
    content = {
        "schema": SCHEMA,
        "title": overview.title,
        "profile": overview.profile,
        "command": overview.command,
        "summary": overview.summary,
        "total": _counts(overview, overview.entries),
        "papers": {paper: {"cite": _cite(e), **_counts(overview, e)} for paper, e in overview.papers.items()},
        "runs": [{"run": e.place, "id": e.id, **_counts(overview, [e])} for e in overview.entries],
        "claims": [
            {"id": c.id, "run": e.place, "verdict": c.verdict, "readings": c.readings, "text": c.text, "why": c.why}
            for e, c in overview.claims()
        ],
        "comparisons": [asdict(comparison) for comparison in overview.comparisons],
        "left_out": overview.left_out,
    }
    return json_text(content)


def overview_html(overview: Overview, root: Path) -> str:
    """Return a page; it leads to the pages of the runs, to their Markdown where no page was made."""
    from mtlrun.report.html import html_page  # loads a template engine

    sections = overview_sections(overview, lambda path: "html" if (Path(root) / f"{path}.html").is_file() else "md")
    lines = [*overview.summary, *([f"Made with `{overview.command}`."] if overview.command else [])]
    return html_page(overview.title, lines, sections)


def render_overview(overview: Overview, form: str, root: Path) -> str:
    """Return the summary in one of `FORMATS`; its links are relative to the folder of the runs.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    """
    if form not in FORMATS:
        raise UnknownNameError("format of a summary", form, FORMATS)
    if form == "html":
        return overview_html(overview, root)
    return overview_json(overview) if form == "json" else overview_markdown(overview)


def write_overview(overview: Overview, root: Path, forms: tuple[str, ...] = FORMATS) -> list[Path]:
    """Write ``index.*`` over all runs below a folder, or ``summary-<profile>.*`` over those of a profile."""
    name = f"summary-{overview.profile}" if overview.profile else INDEX
    paths = [Path(root) / f"{name}.{form}" for form in forms]
    for path, form in zip(paths, forms, strict=True):
        write_atomic(path, render_overview(overview, form, root))
    return paths


def write_page(report: Report, folder: Path) -> Path:
    """Write ``report.html`` into a run folder; returns its path."""
    from mtlrun.report.html import html_report

    path = Path(folder) / PAGE
    write_atomic(path, html_report(report))
    return path


def results_root(report: Report, folder: Path) -> Path | None:
    """Return the folder of the results that a run folder lies in, None when it lies elsewhere."""
    place = Path(folder).resolve()
    expected = (*str(report.run.info.get("id")).split("/"), report.run.profile)
    return place.parents[DEPTH - 1] if place.parts[-DEPTH:] == expected else None


def claim_marks(entry: RunReport) -> list[Marks]:
    """Return the verdicts on the claims of a run as symbols: over all readings, then under each, the main one first."""
    claims = entry.report.claims
    names = list(dict.fromkeys(name for claim in claims for name in claim.readings))
    found = [[(claim.verdict, claim.text) for claim in claims]]
    found += [[(claim.readings.get(n, Verdict.NOT_TESTABLE), f"reading {n}") for claim in claims] for n in names]
    return [
        Marks(tuple((SYMBOLS[v], v, f"{c.id}, {v}: {text}") for c, (v, text) in zip(claims, group, strict=True)))
        for group in found
    ]


def _text_grid(columns: Sequence[str], rows: list[list[Any]]) -> Grid:
    return Grid([Column(name) for name in columns], rows)


def _count_grid(columns: Sequence[str], rows: Sequence[tuple[list[Any], dict[str, Any]]]) -> Grid:
    """Return a table of runs or papers: what names them, then counts; what says nothing is left out."""
    counts = rows[0][1] if rows else {}
    plain = ["done"] * all(count["done"] == count["cells"] for _, count in rows)
    plain += [name for name in (*TROUBLE, *VERDICTS, *NUMBERS) if not any(count[name] for _, count in rows)]
    shown = [name for name in counts if name not in plain]
    kinds = [Column(SHORT.get(name, name), "duration" if name == "seconds" else "count") for name in shown]
    first = [Column(name, "count" if name == "artefacts" else "text") for name in columns]
    return Grid([*first, *kinds], [[*head, *(count[name] for name in shown)] for head, count in rows])


# ---------------------------------------------------------------- on a terminal


def print_overview(console: Console, overview: Overview) -> None:
    """Print failures and what is left out, then a table per paper with a symbol per claim; the counts come last."""
    from rich.text import Text

    from mtlrun.report.terminal import print_verdict

    if not console.is_terminal:  # a file can be searched; on a screen the symbols do, and the index tells the rest
        for entry, claim in overview.claims():
            why = claim.why if claim.verdict == Verdict.NOT_TESTABLE else ""
            print_verdict(console, claim.verdict, f"{entry.place}: {claim.id}: {claim.text.rstrip('.')}.", why)
    for entry in overview.entries:
        if failed := len(entry.report.run.failed):
            text = f"{entry.place}: {counted(failed, 'cell')}, see its report.md"
            print_verdict(console, "failed", text, style="red")
    for comparison in overview.comparisons:
        print_verdict(console, "comparison", f"{comparison.place}: {comparison.verdict}", style="bold")
    for name, why in overview.left_out.items():
        print_verdict(console, "left out", f"{name}: {why}", style="yellow")
    for paper, entries in overview.papers.items():
        console.print(Text(paper, style="bold"))
        console.print(_table(overview, entries))
    for line in [f"claims: {LEGEND}"] * bool(overview.entries) + overview.summary:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def _table(overview: Overview, entries: Sequence[RunReport]) -> Table:
    from rich.text import Text

    from mtlrun.report.terminal import plain_table

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
            Text.assemble(*_styled_marks(entry)),
            f"{numbers.count(Verdict.WITHIN)}/{len(numbers)}" if numbers else "",
            duration(entry.report.seconds),
        )
    return table


def _styled_marks(entry: RunReport) -> Iterator[tuple[str, str]]:
    for place, group in enumerate(claim_marks(entry)):
        yield " " * (place > 0), ""
        yield from ((symbol, STYLES[word.tone]) for symbol, word, _ in group.marks if isinstance(word, Verdict))


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
    entries: Iterable[RunReport],
    items: Callable[[Report], Sequence[_T]],
    name: Callable[[_T], Any],
    tested: Callable[[_T], int],
) -> list[tuple[RunReport, _T]]:
    """Return every item of the artefacts once: that of the run that tests the most of it, then of the largest run."""
    best: dict[Any, tuple[tuple[int, int], RunReport, _T]] = {}
    for entry in entries:
        for item in items(entry.report):
            rank = (tested(item), entry.report.cells["done"])
            key = (entry.id, name(item))
            if key not in best or rank > best[key][0]:
                best[key] = (rank, entry, item)
    return [(entry, item) for _, entry, item in best.values()]


def _readings(claim: ClaimVerdict) -> str:
    """Write the verdict under every reading."""
    return "; ".join(f"{name}: {verdict}" for name, verdict in claim.readings.items())


def _cite(entries: Sequence[RunReport]) -> str:
    """Return the paper of some runs: the shortest form, some name a second source."""
    return min((str((e.report.run.info.get("paper") or {}).get("cite", "")) for e in entries), key=len, default="")
