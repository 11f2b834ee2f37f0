"""HTML files: the page of a run in its folder, and an index over the runs below a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from mtlrun.core.records import write_atomic
from mtlrun.report.build import Report
from mtlrun.report.checks import VERDICTS, as_list
from mtlrun.report.folder import RUN_FILE, read_json
from mtlrun.report.html import html_index, html_report
from mtlrun.report.reference import NOT_RUN, OUTSIDE, WITHIN
from mtlrun.report.text import Column, Grid, Section

PAGE, INDEX, DATA = "report.html", "index.html", "report.json"
#: Runs lie in <paper>/<artefact>/<profile> below the folder of the results.
DEPTH = 3


def run_folders(root: Path) -> list[Path]:
    """Return the folders of the runs below a folder, in alphabetical order."""
    return sorted(path.parent for path in Path(root).glob(f"{'*/' * DEPTH}{RUN_FILE}"))


def write_page(report: Report, folder: Path) -> Path:
    """Write ``report.html`` into a run folder; returns its path."""
    path = Path(folder) / PAGE
    write_atomic(path, html_report(report))
    return path


def results_root(report: Report, folder: Path) -> Path | None:
    """Return the folder of the results that a run folder lies in, None when it lies elsewhere."""
    place = Path(folder).resolve()
    expected = (*str(report.run.info.get("id")).split("/"), report.run.profile)
    return place.parents[DEPTH - 1] if place.parts[-DEPTH:] == expected else None


def write_index(root: Path) -> Path:
    """Write ``index.html`` over all runs below a folder that have a report; returns its path."""
    contents, links = [], []
    for folder in run_folders(root):
        content = read_json(folder / DATA)
        if content is not None:
            page = PAGE if (folder / PAGE).is_file() else "report.md"
            links.append((folder.relative_to(root) / page).as_posix())
            contents.append(content)
    columns = [Column("run"), Column("title"), Column("profile"), Column("cells")]
    columns += [Column(word, "count") for word in (*VERDICTS, WITHIN, OUTSIDE, NOT_RUN)]
    runs = Section("Runs", ["Claims by verdict, then reference numbers."], [Grid(columns, list(map(_row, contents)))])
    claims = Section("Claims", [], [Grid([Column(c) for c in ("claim", "run", "verdict", "text", "why")])])
    addresses = []
    for content, link in zip(contents, links, strict=True):
        for claim in as_list(content.get("claims")):
            run = f"{content.get('id')}, {content.get('profile')}"
            claims.grids[0].rows.append([claim["id"], run, claim["verdict"], claim["text"], claim["why"]])
            addresses.append(f"{link}#claims")
    path = Path(root) / INDEX
    write_atomic(path, html_index("Runs", _summary(contents), [runs, claims], [links, addresses]))
    return path


def _summary(contents: list[dict[str, Any]]) -> list[str]:
    """Say how many cells, claims and reference numbers there are in all runs, and what became of them."""
    cells = [content.get("cells") or {} for content in contents]
    done, planned = (sum(c.get(name, 0) for c in cells) for name in ("done", "planned"))
    lines = [f"{len(contents)} run{'s' * (len(contents) != 1)}, {done} of {planned} cells done."]
    for what, name in (("claim", "claims"), ("reference number", "reference")):
        counts = Counter(entry["verdict"] for content in contents for entry in as_list(content.get(name)))
        total = sum(counts.values())
        words = [word for word in (*VERDICTS, WITHIN, OUTSIDE, NOT_RUN) if counts[word]]
        told = ", ".join(f"{counts[word]} {word}" for word in words)
        lines += [f"{total} {what}{'s' * (total != 1)}: {told}."] * bool(total)
    return lines


def _row(content: dict[str, Any]) -> list[Any]:
    """Return the line of a run: how many cells are done, claims by verdict, reference numbers by verdict."""
    cells = content.get("cells") or {}
    claims = Counter(claim["verdict"] for claim in as_list(content.get("claims")))
    numbers = Counter(entry["verdict"] for entry in as_list(content.get("reference")))
    done = f"{cells.get('done', 0)} of {cells.get('planned', 0)}"
    head = [content.get("id"), content.get("title"), content.get("profile"), done]
    return [*head, *(claims[word] for word in VERDICTS), *(numbers[word] for word in (WITHIN, OUTSIDE, NOT_RUN))]
