"""``mtlrun validate``: check experiment and training files."""

from __future__ import annotations

from typing import Annotated

import typer

from mtlrun.cli import complete
from mtlrun.cli.console import complain, say
from mtlrun.cli.options import DataDir, Debug


def validate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="Files or names of experiments. Default: all that come with mtlrun.",
            autocompletion=complete.targets,
        ),
    ] = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Check experiment and training files, with all profiles, without running them.

    All problems are listed at once, each with file, line and column.
    """
    from mtlrun.errors import UserError
    from mtlrun.runs.catalogue import catalogue
    from mtlrun.runs.load import validate_file

    targets = paths or [str(entry.path) for entry in catalogue()]
    bad = 0
    for target in targets:
        try:
            document = validate_file(target, data_dir=data_dir)
        except UserError as error:
            bad += 1
            complain(error.message, error.remedy)
        else:
            say(f"{document.name}: ok")
    if bad and len(targets) > 1:
        say(f"problems in {bad} of {len(targets)} files", error=True)
    if bad:
        raise typer.Exit(2)
