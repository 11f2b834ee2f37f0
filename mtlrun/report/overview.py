"""What all runs below a folder say together: cells, claims, reference numbers and cost, from their reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mtlrun.errors import DataError, counted
from mtlrun.report.account import computing_seconds
from mtlrun.report.build import Report, build_report
from mtlrun.report.checks import NOT_TESTABLE, VERDICTS
from mtlrun.report.claims import ClaimVerdict
from mtlrun.report.folder import RUN_FILE, read_json
from mtlrun.report.reference import NOT_RUN, OUTSIDE, WITHIN, ReferenceVerdict
from mtlrun.report.text import Column, Grid, Link, Section, duration, exact, harmless, markdown_section

SCHEMA = 1
#: Runs lie in <paper>/<artefact>/<profile> below the folder of the results.
DEPTH = 3
#: Comparisons lie in <folder of the results>/compare/<name>.
COMPARE = "compare"
#: Options of a comparison and the keys of its cells.
COMPARED = "compare.json"
#: Verdicts on reference numbers, as columns and sentences call them.
NUMBERS = {WITHIN: "within tolerance", OUTSIDE: "outside", NOT_RUN: "not run"}
#: What may have become of cells that are not done.
TROUBLE = {"failed": "failed", "missing": "not computed yet", "stopped": "stopped at the limit of seconds"}
#: Heads of columns that are not called as what they count.
SHORT = {NOT_TESTABLE: "not testable", "seconds": "computing"}
#: What the columns of counts are.
COUNTS = (
    "* Columns: cells; claims by verdict; reference numbers within tolerance, outside it, not run; time of computing."
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Entry:
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
        Its folder, as for `Entry`.
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
    entries : list of Entry
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

    entries: list[Entry]
    left_out: dict[str, str] = field(default_factory=dict)
    profile: str | None = None
    command: str | None = None
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Heading of the page."""
        return f"All artefacts, profile {self.profile}" if self.profile else "All runs"

    @property
    def papers(self) -> dict[str, list[Entry]]:
        """Runs by paper."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.paper, []).append(entry)
        return found

    def claims(self, entries: Iterable[Entry] | None = None) -> list[tuple[Entry, ClaimVerdict]]:
        """Return every claim once, with the run that judges it."""
        return _decisive(
            self.entries if entries is None else entries,
            lambda report: report.claims,
            lambda claim: claim.id,
            lambda claim: sum(f.holds is not None for f in claim.findings),
        )

    def references(self, entries: Iterable[Entry] | None = None) -> list[tuple[Entry, ReferenceVerdict]]:
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
        lines = [f"{counted(artefacts, 'artefact')}{runs}, {_cells_text(self.entries)}."]
        if self.left_out:
            lines[0] = f"{lines[0][:-1]}; {len(self.left_out)} left out."
        verdicts = [claim.verdict for _, claim in self.claims()]
        numbers = [number.verdict for _, number in self.references()]
        if verdicts:
            lines.append(f"{counted(len(verdicts), 'claim')} of the papers: {_counted(verdicts, VERDICTS)}.")
        if numbers:
            told = _counted([NUMBERS[verdict] for verdict in numbers], NUMBERS.values())
            lines.append(f"{counted(len(numbers), 'reference number')}: {told}.")
        lines.append(f"Cost: {duration(_seconds(self.entries))} of computing (cells and parameter searches).")
        return lines


@dataclass(frozen=True)
class Linked:
    """A section with one table whose first column leads to reports.

    Attributes
    ----------
    section : Section
    places : list of str
        Run folder of every row; empty for none.
    page : str
        Name of the page in such a folder, without its ending.
    anchor : str
        Part of the page.
    """

    section: Section
    places: Sequence[str] = ()
    page: str = "report"
    anchor: str = ""

    def addresses(self, ending: Callable[[str], str]) -> list[str]:
        """Return where the rows lead; `ending` gets the path of a page without its ending."""
        paths = (f"{place}/{self.page}" for place in self.places)
        return [f"{path}.{ending(path)}{'#' * bool(self.anchor)}{self.anchor}" for path in paths]


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
                found.entries.append(Entry(place, build_report(folder)))
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


def overview_sections(overview: Overview) -> list[Linked]:
    """Return the tables: papers, runs, claims, what is left out."""
    groups = overview.papers
    papers = _grid(
        ["paper", "artefacts"], [([p, len({e.id for e in es})], _counts(overview, es)) for p, es in groups.items()]
    )
    cites = [f"* {paper}: {_cite(entries)}" for paper, entries in groups.items() if _cite(entries)]
    titles = [([e.place, str(e.report.run.info.get("title", ""))], _counts(overview, [e])) for e in overview.entries]
    runs = _grid(["run", "title"], titles)
    claims = Grid([Column(name) for name in ("claim", "run", "verdict", "text", "why")])
    judged = overview.claims()
    claims.rows = [[c.id, e.place, c.verdict, c.text, c.why] for e, c in judged]
    compared = Grid([Column(name) for name in ("comparison", "title", "verdict")])
    compared.rows = [[c.place, c.title, c.verdict] for c in overview.comparisons]
    lost = Grid([Column("artefact"), Column("why")], [[name, why] for name, why in overview.left_out.items()])
    found = [
        Linked(Section("Papers", [*cites, *([COUNTS] if groups else [])], [papers])),
        Linked(Section("Runs", [], [runs]), [e.place for e in overview.entries]),
        Linked(Section("Claims", [], [claims]), [e.place for e, _ in judged], anchor="claims"),
        Linked(
            Section("Comparisons of methods", [], [compared]), [c.place for c in overview.comparisons], "leaderboard"
        ),
        Linked(Section("Left out", [], [lost])),
    ]
    return [linked for linked in found if any(grid.rows for grid in linked.section.grids)]


def overview_markdown(overview: Overview) -> str:
    """Return the summary as Markdown."""
    blocks = [f"# {overview.title}", "\n".join(f"* {line}" for line in overview.summary)]
    blocks += [f"Made with `{overview.command}`."] * bool(overview.command)
    for linked in overview_sections(overview):
        section = linked.section
        grids = [Grid(grid.columns, [list(row) for row in grid.rows]) for grid in section.grids]
        for row, address in zip(grids[0].rows, linked.addresses(lambda path: "md"), strict=False):
            row[0] = Link(row[0], address)
        blocks.append(markdown_section(Section(section.title, section.lines, grids)))
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
            {"id": c.id, "run": e.place, "verdict": c.verdict, "text": c.text, "why": c.why}
            for e, c in overview.claims()
        ],
        "comparisons": [asdict(comparison) for comparison in overview.comparisons],
        "left_out": overview.left_out,
    }
    return json.dumps(exact(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _grid(columns: Sequence[str], rows: Sequence[tuple[Sequence[Any], dict[str, Any]]]) -> Grid:
    """Return a table of runs or papers: what names them, then counts; what says nothing is left out."""
    counts = rows[0][1] if rows else {}
    plain = ["done"] * all(count["done"] == count["cells"] for _, count in rows)
    plain += [name for name in TROUBLE if not any(count[name] for _, count in rows)]
    shown = [name for name in counts if name not in plain]
    kinds = [Column(SHORT.get(name, name), "duration" if name == "seconds" else "count") for name in shown]
    first = [Column(name, "count" if name == "artefacts" else "text") for name in columns]
    return Grid([*first, *kinds], [[*head, *(count[name] for name in shown)] for head, count in rows])


def _counts(overview: Overview, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the counts of some runs, and the seconds that they took."""
    claims = Counter(claim.verdict for _, claim in overview.claims(entries))
    numbers = Counter(number.verdict for _, number in overview.references(entries))
    return {
        **_cells(entries),
        **{verdict: claims[verdict] for verdict in VERDICTS},
        **{verdict: numbers[verdict] for verdict in NUMBERS},
        "seconds": _seconds(entries),
    }


def _cells(entries: Sequence[Entry]) -> dict[str, int]:
    return {
        "cells": sum(e.report.planned for e in entries),
        "done": sum(e.report.done for e in entries),
        "failed": sum(len(e.report.run.failed) for e in entries),
        "missing": sum(len(e.report.run.missing) for e in entries),
        "stopped": sum(len(e.report.run.stopped) for e in entries),
    }


def _cells_text(entries: Sequence[Entry]) -> str:
    cells = _cells(entries)
    told = "".join(f", {cells[name]} {text}" for name, text in TROUBLE.items() if cells[name])
    return f"{cells['done']} of {cells['cells']} cells done{told}"


def _seconds(entries: Sequence[Entry]) -> float:
    return computing_seconds(*(entry.report.run for entry in entries))


def _decisive(
    entries: Iterable[Entry],
    items: Callable[[Report], Sequence[_T]],
    name: Callable[[_T], Any],
    tested: Callable[[_T], int],
) -> list[tuple[Entry, _T]]:
    """Return every item of the artefacts once: that of the run that tests the most of it, then of the largest run."""
    best: dict[Any, tuple[tuple[int, int], Entry, _T]] = {}
    for entry in entries:
        for item in items(entry.report):
            rank = (tested(item), entry.report.done)
            key = (entry.id, name(item))
            if key not in best or rank > best[key][0]:
                best[key] = (rank, entry, item)
    return [(entry, item) for _, entry, item in best.values()]


def _cite(entries: Sequence[Entry]) -> str:
    """Return the paper of some runs: the shortest form, some name a second source."""
    return min((str((e.report.run.info.get("paper") or {}).get("cite", "")) for e in entries), key=len, default="")


def _counted(words: Iterable[str], order: Iterable[str]) -> str:
    counts: Mapping[str, int] = Counter(words)
    return ", ".join(f"{counts[word]} {word}" for word in order if counts.get(word))
