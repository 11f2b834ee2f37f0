"""``mtlrun validate``: check experiment files without running anything."""

from __future__ import annotations

from typing import Annotated

import typer

from mtlrun.cli.console import complain, say
from mtlrun.cli.options import DataDir, Debug


def validate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="Experiment files or names; default: all that come with mtlrun."),
    ] = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Check experiment files, every profile of them; all problems are reported, none is run."""
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
        say(f"{bad} of {len(targets)} files have problems", error=True)
    if bad:
        raise typer.Exit(2)
