"""``mtlrun report``: the report of a run, rebuilt from its finished cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import output, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.core.errors import UnknownNameError, UserError

if TYPE_CHECKING:
    from mtlrun.report.build import Report


def report(
    target: Annotated[str, typer.Argument(metavar="TARGET|FOLDER", help="Experiment, or the folder of a run.")],
    profile: options.Profile = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    form: options.Format = None,
    check: options.Check = False,
    debug: options.Debug = False,
) -> None:
    """Print and write the report of a run again, from its cells alone: no data, no solver is touched."""
    from mtlrun.report.build import build_report
    from mtlrun.report.writers import write_report

    folder = run_folder(target, profile, output_dir)
    made = build_report(folder)
    # A format asked for goes to stdout and nowhere else: the folder may be read-only, or of someone else.
    if form is None:
        try:
            write_report(made, folder)
        except OSError as error:
            message = f"cannot write into {folder}: {error.strerror or error}"
            raise UserError(message, "Print it instead: --format md (or json, csv, tex).") from error
    print_report(made, form, folder)
    good = say_check(made) if check else True
    raise typer.Exit(0 if good and not made.run.failed else 1)


def run_folder(target: str, profile: str | None, output_dir: Path) -> Path:
    """Return the folder of a run, given itself or the name of its experiment."""
    given = Path(target)
    if (given / "run.json").is_file():
        return given
    from mtlrun.experiments.load import load_experiment

    try:
        return load_experiment(target, profile=profile).folder(output_dir)
    except UnknownNameError:
        if given.is_dir():
            return given  # reading it will tell what is missing there
        raise


def print_report(made: Report, form: str | None, folder: Path) -> None:
    """Print a report as a table for people, or in one of the formats as it is in the file."""
    from mtlrun.report.terminal import print_report as print_table
    from mtlrun.report.writers import render

    if form is not None:
        typer.echo(render(made, form), nl=False)
        return
    print_table(output(), made)
    say(f"report: {folder / 'report.md'}")


def say_check(made: Report) -> bool:
    """Name what ``--check`` refuses: the cell, both numbers and the tolerance; return whether all is well."""
    for problem in made.check_problems:
        say(f"check: {problem}", error=True)
    if not made.check_problems:
        say("check: nothing is out of tolerance, no claim is contradicted", error=True)
    return not made.check_problems
