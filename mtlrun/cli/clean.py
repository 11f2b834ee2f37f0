"""``mtlrun clean``: delete runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say
from mtlrun.cli.options import OUTPUT_DEFAULT


def clean(
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="Experiment; default: all runs below the output folder.")
    ] = None,
    profile: options.Profile = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    yes: options.Yes = False,
    debug: options.Debug = False,
) -> None:
    """Delete the folders of runs with all their cells, after asking; without --profile, all profiles."""
    from mtlrun.cli.ask import confirm

    folders = _runs(_root(target, output_dir), profile)
    if not folders:
        say("nothing to delete")
        return
    for folder in folders:
        cells = folder / "cells"
        busy = " (a process may be computing here: it has locks)" if any(cells.glob("*.lock")) else ""
        say(f"{folder}: {len(list(cells.glob('*.json')))} cells{busy}")
    confirm(f"Delete {len(folders)} run{'s' * (len(folders) > 1)}?", yes=yes, doing="deleted")
    for folder in folders:
        shutil.rmtree(folder)
        _drop_empty_parents(folder, output_dir)
    say(f"deleted {len(folders)} run{'s' * (len(folders) > 1)}")


def _root(target: str | None, output_dir: Path) -> Path:
    if target is None:
        return output_dir
    from mtlrun.experiments.load import load_experiment

    return load_experiment(target).folder(output_dir).parent


def _runs(root: Path, profile: str | None) -> list[Path]:
    """Return the run folders below a folder, known by their run.json: nothing else is ever deleted."""
    found = sorted(path.parent for path in root.glob("**/run.json"))
    return [folder for folder in found if profile is None or folder.name == profile]


def _drop_empty_parents(folder: Path, stop: Path) -> None:
    for parent in folder.parents:
        if parent in (stop, *stop.parents) or any(parent.iterdir()):
            return
        parent.rmdir()
