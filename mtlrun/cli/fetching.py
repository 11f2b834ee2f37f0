"""Download the data that an experiment needs, after asking; otherwise say what to do instead."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mtlrun.cli.console import confirm, interactive, messages, say
from mtlrun.cli.options import data_dir_option
from mtlrun.errors import DataError, UserError, counted

if TYPE_CHECKING:
    from mtlrun.data.cards import Card, FileSpec
    from mtlrun.runs.experiment import Experiment

DEMO = "demo"
#: Files that are named one by one.
MAX_NAMES = 3
Missing = list[tuple["Card", "str | None", "list[FileSpec]"]]


def ensure_data(experiment: Experiment, data_dir: Path | None, *, yes: bool, options: Sequence[str] = ()) -> None:
    """Fetch the files that an experiment needs and that are missing, after saying what and how much.

    `options` are further words of the command line, for the command that is named as a remedy.

    Raises
    ------
    UserError
        If that is refused or fails; names the remedy, and the demo profile where the experiment has one.
    """
    missing = missing_data(experiment, data_dir)
    if not missing:
        return
    from mtlrun.data.fetch import fetch_dataset
    from mtlrun.data.files import data_directory

    folder = data_directory(data_dir)
    for card, _, files in missing:
        more = f" and {len(files) - MAX_NAMES} more" if len(files) > MAX_NAMES else ""
        names = ", ".join(spec.name for spec in files[:MAX_NAMES]) + more
        say(f"data set {card.id} is not in {folder}: {names} ({size_of(files)}); licence: {card.licence}", error=True)
    try:
        unavailable = [card.id for card, _, files in missing if not all(spec.urls for spec in files)]
        if unavailable:
            raise DataError(
                f"there is no download address for the files of {', '.join(unavailable)}",
                "\n".join(
                    f"If you have the file of {id}: mtlrun data add {id} FILE{data_dir_option(data_dir)}"
                    for id in unavailable
                ),
            )
        confirm(f"Download {size_of([f for _, _, files in missing for f in files])}?", yes=yes, doing="downloaded")
        with download_progress() as report:
            for card, variant, _ in missing:
                fetch_dataset(card, variant=variant, data_dir=folder, report=report)
                say(f"data set {card.id}: downloaded and verified", error=True)
    except UserError as error:
        raise DataError(error.message, _with_demo(error.remedy, experiment, data_dir, options)) from None


def missing_data(experiment: Experiment, data_dir: Path | None) -> Missing:
    """Return (card, variant, missing files) for the data sets of an experiment."""
    from mtlrun.data.cards import load_card
    from mtlrun.data.fetch import missing_files
    from mtlrun.data.files import data_directory

    folder = data_directory(data_dir)
    found: Missing = []
    specs = (spec for one in (experiment, *experiment.others) for spec in one.spec.datasets)
    needed = dict.fromkeys((spec.id, spec.options.get("variant")) for spec in specs)
    for name, variant in needed:
        card = load_card(name, folder)
        files = missing_files(card, variant, folder)
        if files and not any(known.id == name and files == others for known, _, others in found):
            found.append((card, variant, files))
    return found


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Yield what draws a progress bar on a terminal, None elsewhere."""
    if not interactive(sys.stderr):
        yield None
        return
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=messages(), transient=True) as bar:

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield report


def size_of(files: Sequence[FileSpec]) -> str:
    """Return how many files, and how large, a download is."""
    known = [spec.bytes for spec in files if spec.bytes is not None]
    if not known:
        return f"{counted(len(files), 'file')} of unknown size"
    more = " and more" if len(known) < len(files) else ""
    return f"{counted(len(files), 'file')}, {sum(known) / 1e6:.1f} MB unpacked{more}"


def _with_demo(remedy: str | None, experiment: Experiment, data_dir: Path | None, options: Sequence[str]) -> str:
    from mtlrun.runs.plan import rerun_command

    lines = [remedy] if remedy else []
    if DEMO in experiment.profiles and experiment.profile != DEMO:
        command = rerun_command(dataclasses.replace(experiment, profile=DEMO, overrides=(), others=()), data_dir)
        lines.append(f"To run without any download: {' '.join([command, *map(shlex.quote, options)])}")
    return "\n".join(lines)
