"""``mtlrun clean``: delete runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtlrun.cli import complete, options
from mtlrun.cli.console import confirm, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import UserError, counted


def clean(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="Experiment. Default: all runs in the output folder.",
            autocompletion=complete.targets,
        ),
    ] = None,
    profile: options.Profile = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    yes: options.Yes = False,
    debug: options.Debug = False,
) -> None:
    """Delete runs and their cells, after asking.

    Without --profile, the runs of all profiles are deleted. Only files that mtlrun wrote are deleted: a folder that
    holds other files is kept, with these files. Cells that another run, model or comparison uses are kept, too.
    """
    from mtlrun.runs.clean import cells_of, delete_runs, refuse_busy

    folders = _runs(_below(target, output_dir), profile)
    if not folders:
        say("nothing to delete")
        return
    refuse_busy(output_dir)
    for folder in folders:
        say(f"{folder}: {counted(cells_of(folder, output_dir), 'cell')}")
    runs = counted(len(folders), "run")
    confirm(f"Delete {runs}?", yes=yes, doing="deleted")
    try:
        kept = delete_runs(folders, output_dir)
    except OSError as error:
        message = f"cannot delete {error.filename or output_dir}: {error.strerror or error}"
        raise UserError(message, "Check the permissions and run the command again.") from error
    for folder in folders:
        if folder in kept:
            say(f"kept: {folder} holds files that mtlrun did not write", error=True)
        else:
            _drop_empty_parents(folder, output_dir)
    say(f"deleted {runs}")


def _below(target: str | None, output_dir: Path) -> list[Path]:
    """Return the folders that may be those of runs: all, or those of an experiment."""
    from mtlrun.report.summary import run_folders

    folders = run_folders(output_dir)
    if target is None:
        return folders
    from mtlrun.runs.load import load_experiment

    place = load_experiment(target).folder(output_dir).parent
    return [folder for folder in folders if folder.parent == place]


def _runs(folders: list[Path], profile: str | None) -> list[Path]:
    """Return those that are folders of runs; the others are left alone, with the reason."""
    from mtlrun.runs.clean import why_no_run

    runs = []
    for folder in folders:
        if profile not in (None, folder.name):
            continue
        if (why := why_no_run(folder)) is None:
            runs.append(folder)
        else:
            say(f"skipped: {why}", error=True)
    return runs


def _drop_empty_parents(folder: Path, stop: Path) -> None:
    for parent in folder.parents:
        if parent in (stop, *stop.parents) or (parent.exists() and any(parent.iterdir())):
            return
        if parent.exists():
            parent.rmdir()
