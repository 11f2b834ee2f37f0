"""The summary of many runs: printed, and written beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mtlrun.cli.console import output, say
from mtlrun.cli.pages import HTML, writing
from mtlrun.errors import UnknownNameError, UserError

if TYPE_CHECKING:
    from mtlrun.report.summary import Overview, RunReport


def check_summary_format(form: str | None) -> None:
    """Refuse a --format that a summary does not have.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    """
    from mtlrun.report.summary import FORMATS

    if form is not None and form not in FORMATS:
        raise UnknownNameError("format of a summary", form, FORMATS)


def report_many(
    root: Path, profile: str | None, form: str | None, out: Path | None, merge: Sequence[Path] | None, check: bool
) -> int:
    """Print the summary of the runs below a folder, write it, and return the exit code.

    Without a format all reports, all pages and the summary are written; `html` writes the pages and the index; `md` and
    `json` are printed and nothing is written.

    Raises
    ------
    UserError
        If there is no run, or cells should be merged into many runs at once.
    """
    from mtlrun.report.summary import read_overview
    from mtlrun.runs.artefacts import artefacts

    check_summary_format(form)
    if merge:
        raise UserError("--merge goes with one run", "Name the experiment or the folder of its run.")
    overview = read_overview(root, profile, known=[entry.id for entry in artefacts()])
    if not (overview.entries or overview.comparisons):
        which = f"run of the profile {profile!r}" if profile else "run"
        raise UserError(f"{root}: no {which} here", "Make them: mtlrun reproduce all --profile quick.")
    if out is None and form in (None, HTML):
        for entry in overview.entries:
            write_run(entry, root, tell=form == HTML)
    print_summary(overview, root, form, out)
    good = say_checks(overview) if check else True
    return 0 if good and not any(entry.report.run.failed for entry in overview.entries) else 1


def write_run(entry: RunReport, root: Path, *, tell: bool = False) -> None:
    """Write all files of a run, its page included."""
    from mtlrun.report.summary import write_page
    from mtlrun.report.writers import write_report

    folder = root / entry.place

    def write() -> None:
        write_report(entry.report, folder)
        page = write_page(entry.report, folder)
        if tell:
            say(f"report: {page}")

    writing(folder, write)


def print_summary(overview: Overview, root: Path, form: str | None, out: Path | None = None) -> None:
    """Write the summary as Markdown, HTML and JSON and print it for people, or print it in one format."""
    from mtlrun.report.summary import print_overview, render_overview, write_overview

    if out is not None and form is not None:
        from mtlrun.utils.io import write_atomic

        writing(out, lambda: write_atomic(out, render_overview(overview, form, root)))
        say(f"summary: {out}")
    elif form == HTML:
        writing(root, lambda: say(f"index: {write_overview(overview, root, (HTML,))[0]}"))
    elif form is not None:
        typer.echo(render_overview(overview, form, root), nl=False)
    else:
        print_overview(output(), overview)
        writing(root, lambda: say(f"summary: {', '.join(map(str, write_overview(overview, root)))}"))


def say_checks(overview: Overview) -> bool:
    """Name what ``--check`` refuses, run by run; return whether all is well."""
    problems = [f"{entry.place}: {text}" for entry in overview.entries for text in entry.report.check_problems]
    for problem in problems:
        say(f"check: {problem}", error=True)
    if not problems:
        say("check: nothing is out of tolerance, no claim is contradicted", error=True)
    return not problems
