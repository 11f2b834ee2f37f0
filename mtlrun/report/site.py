"""Pages: that of a run in its folder, and a summary of the runs below a folder."""

from __future__ import annotations

from pathlib import Path

from mtlrun.errors import UnknownNameError
from mtlrun.report.build import Report
from mtlrun.report.html import html_index, html_report
from mtlrun.report.overview import (
    DEPTH,
    Overview,
    overview_json,
    overview_markdown,
    overview_sections,
)
from mtlrun.utils.io import write_atomic

PAGE, INDEX = "report.html", "index"
#: Formats of a summary.
FORMATS = ("md", "json", "html")


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


def render_overview(overview: Overview, form: str, root: Path) -> str:
    """Return the summary in one of `FORMATS`; its links are relative to the folder of the runs.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    """
    if form == "html":
        return _html(overview, root)
    if form not in FORMATS:
        raise UnknownNameError("format of a summary", form, FORMATS)
    return overview_json(overview) if form == "json" else overview_markdown(overview)


def write_overview(overview: Overview, root: Path, forms: tuple[str, ...] = FORMATS) -> list[Path]:
    """Write ``index.*`` over all runs below a folder, or ``summary-<profile>.*`` over those of a profile."""
    name = f"summary-{overview.profile}" if overview.profile else INDEX
    paths = []
    for form in forms:
        path = Path(root) / f"{name}.{form}"
        write_atomic(path, render_overview(overview, form, root))
        paths.append(path)
    return paths


def _html(overview: Overview, root: Path) -> str:
    """Return a page; it leads to the pages of the runs, to their Markdown where no page was made."""
    tables = overview_sections(overview)

    def ending(path: str) -> str:
        return "html" if (Path(root) / f"{path}.html").is_file() else "md"

    links = [table.addresses(ending) for table in tables]
    lines = [*overview.summary, *([f"Made with `{overview.command}`."] if overview.command else [])]
    return html_index(overview.title, lines, [t.section for t in tables], links)
