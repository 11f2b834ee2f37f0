"""``mtlrun report``: the report of a run, rebuilt from its finished cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import output, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.pages import HTML, writing
from mtlrun.errors import UnknownNameError, UserError
from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from mtlrun.report.build import Report

#: In place of an experiment: all of them.
ALL = "all"
#: The report for people, in the folder of the run.
REPORT = "report.md"
#: Conflicts of a merge that are named one by one.
MAX_CONFLICTS = 10


def report(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET|FOLDER", help="Experiment, the folder of a run, or a folder of many runs: their summary."
        ),
    ],
    profile: options.Profile = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    form: options.Format = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the --format to this file instead of stdout (html: instead of the folder of the run).",
            rich_help_panel=options.OUT,
        ),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            "--merge",
            metavar="DIR",
            help="First take the finished cells of this run folder, of another machine for instance; repeatable.",
            rich_help_panel=options.WHAT,
        ),
    ] = None,
    check: options.Check = False,
    debug: options.Debug = False,
) -> None:
    """Print and write the report of a run again, from its cells alone: no data, no solver is touched.

    html: one file with everything in it, report.html in the folder of the run, and an index.html over all runs.
    Of a folder of many runs (results/runs, or `all`): their summary, with --profile over those of one profile.
    """
    from mtlrun.report.build import build_report
    from mtlrun.report.writers import write_report

    if out is not None and form is None:
        raise UserError("--out needs a --format", "Add --format html, md, json, csv or tex.")
    root = output_dir if target == ALL else Path(target)
    if target == ALL or holds_runs(root):
        from mtlrun.cli.summary import report_many

        raise typer.Exit(report_many(root, profile, form, out, merge, check))
    folder = run_folder(target, profile, output_dir)
    for other in merge or ():
        _merge(folder, other)
    made = build_report(folder)
    # A format asked for goes to stdout or its file and nowhere else: the folder may be read-only, or of someone else.
    if form is None or merge:
        writing(folder, lambda: write_report(made, folder))
    print_report(made, form, folder, out)
    good = say_check(made) if check else True
    raise typer.Exit(0 if good and not made.run.failed else 1)


def run_folder(target: str, profile: str | None, output_dir: Path) -> Path:
    """Return the folder of a run, given itself or the name of its experiment."""
    given = Path(target)
    if (given / "run.json").is_file():
        return given
    from mtlrun.runs.load import run_of

    try:
        return output_dir / run_of(target, profile=profile)
    except UnknownNameError:
        if given.is_dir():
            return given  # reading it will tell what is missing there
        raise


def print_report(made: Report, form: str | None, folder: Path, out: Path | None = None) -> str:
    """Print a report as a table for people, or in one of the formats as it is in the file; html goes into a file.

    Returns
    -------
    str
        The text of the table, as it was printed.
    """
    from mtlrun.report.terminal import print_report as print_table
    from mtlrun.report.writers import render

    if out is not None and form is not None:
        from mtlrun.utils.io import write_atomic

        writing(out, lambda: write_atomic(out, render(made, form)))
        say(f"report: {out}")
    elif form == HTML:
        _write_page(made, folder)
    elif form is not None:
        typer.echo(render(made, form), nl=False)
    else:
        console = output()
        with console.capture() as captured:
            print_table(console, made)
            console.print(sanitize(f"report: {folder / REPORT}"), soft_wrap=True, markup=False, highlight=False)
        typer.echo(captured.get(), nl=False)
        return captured.get()
    return ""


def say_check(made: Report) -> bool:
    """Name what ``--check`` refuses: the cell, both numbers and the tolerance; return whether all is well."""
    for problem in made.check_problems:
        say(f"check: {problem}", error=True)
    if not made.check_problems:
        say("check: nothing is out of tolerance, no claim is contradicted", error=True)
    return not made.check_problems


def holds_runs(folder: Path) -> bool:
    """Whether a folder is one of many runs."""
    from mtlrun.report.summary import COMPARE, run_folders

    return not (folder / "run.json").is_file() and bool(run_folders(folder) or (folder / COMPARE).is_dir())


def _write_page(made: Report, folder: Path) -> None:
    """Write the page of a run, and the index of the runs beside it."""
    from mtlrun.report.summary import read_overview, results_root, write_overview, write_page
    from mtlrun.report.writers import write_report

    def write() -> None:
        write_report(made, folder)
        say(f"report: {write_page(made, folder)}")
        root = results_root(made, folder)
        if root is not None:
            say(f"index: {write_overview(read_overview(root), root, (HTML,))[0]}")

    writing(folder, write)


def _merge(folder: Path, other: Path) -> None:
    """Take the cells of another folder; name those that contradict ours."""
    from mtlrun.runs.merge import merge

    def take() -> None:
        merged = merge(folder, other)
        say(f"{other}: {merged}", error=True)
        for line in merged.conflicts[:MAX_CONFLICTS]:
            say(f"conflict: {line}", error=True)
        if len(merged.conflicts) > MAX_CONFLICTS:
            say(f"... and {len(merged.conflicts) - MAX_CONFLICTS} more conflicts", error=True)

    writing(folder, take)
