"""Printing results (stdout) and messages (stderr), plainly outside a terminal, and asking before downloads."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from mtlrun.cli.options import data_dir_option
from mtlrun.errors import DataError, UserError, counted
from mtlrun.utils import io
from mtlrun.utils.outputs import write_output
from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from rich.console import Console

    from mtlrun.data.cards import Card, FileSpec
    from mtlrun.lab.spec import Experiment

#: Columns of a line of sentences, on wider terminals too.
MAX_PROSE = 100


def interactive(stream: TextIO) -> bool:
    """Whether colours and progress bars are welcome: on a terminal, unless plain text was asked for."""
    wished_plain = (
        any(os.environ.get(name) for name in ("CI", "NO_COLOR"))
        or os.environ.get("TERM") == "dumb"
    )
    return stream.isatty() and not wished_plain


def output() -> Console:
    """Return the console for results."""
    return _console(sys.stdout)


def messages() -> Console:
    """Return the console for errors, warnings and progress."""
    return _console(sys.stderr)


def say(text: str, *, error: bool = False, style: str | None = None) -> None:
    """Print a text without markup or wrapping.

    Control characters, which could rewrite the screen, are escaped.

    Parameters
    ----------
    text : str
    error : bool, default False
        Print to stderr. This call drops a message that cannot be written there; hints
        and progress that are written in other ways still end the command, with code 2.
    style : str, optional
        Color on a terminal. Default: that of the terminal.
    """
    options: dict[str, Any] = {"soft_wrap": True, "markup": False, "highlight": False}
    if not error:
        output().print(sanitize(text), style=style, **options)
        return
    with contextlib.suppress(OSError):
        messages().print(sanitize(text), style=style, **options)


def say_prose(text: str) -> None:
    """Print sentences: broken between words on a terminal, on one line in a file or a pipe."""
    console = output()
    for line in prose_lines(text, console):
        say(line)


def prose_lines(text: str, console: Console) -> list[str]:
    """Return the lines of sentences on a console.

    A file or a pipe, which can be searched, gets one line. On a terminal lines end
    between words, at the width of the console or `MAX_PROSE` columns; paths are never
    broken, and further lines are indented by two columns more than the first.
    """
    width = min(console.width, MAX_PROSE)
    if not console.is_terminal or len(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def say_json(value: object) -> None:
    """Print a value as JSON, NaN as null; characters that could rewrite the screen are escaped."""
    typer.echo(json.dumps(io.jsonable(value), indent=1))


def say_columns(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns; those that hold numbers are aligned to the right."""
    columns = []
    for column in zip(*rows, strict=True):
        texts = [str(cell) for cell in column]
        width = max(map(len, texts))
        numbers = any(isinstance(cell, int | float) for cell in column)
        columns.append(
            [text.rjust(width) if numbers else text.ljust(width) for text in texts]
        )
    for cells in zip(*columns, strict=True):
        say("  ".join(cells).rstrip())


def complain(message: str, remedy: str | None = None) -> None:
    """Print an error and what to do about it."""
    say(f"error: {message}", error=True)
    if remedy:
        say(remedy, error=True)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    lively = interactive(stream)
    # Only this decides on colours: FORCE_COLOR must not put colour codes into a CI log.
    return Console(
        file=stream,
        force_terminal=lively,
        no_color=not lively,
        highlight=False,
        markup=False,
        emoji=False,
    )


def confirm(question: str, *, yes: bool, doing: str) -> None:
    """Ask before something is downloaded or deleted; without a terminal only --yes counts.

    Parameters
    ----------
    question : str
    yes : bool
        Whether --yes was given.
    doing : str
        What does not happen without consent, as in "nothing was deleted".

    Raises
    ------
    UserError
        If the answer is no, or if there is no terminal and --yes was not given.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(
            f"nothing was {doing}: there is no terminal to ask for confirmation",
            "Add --yes to go ahead.",
        )
    if not typer.confirm(question):
        raise UserError(f"nothing was {doing}")


#: Turns a full disk or a read-only folder into an error that names the alternatives.
writing = partial(
    io.writing,
    remedy="Print the report with --format md (or json, csv, tex), or choose another --out.",
)


def write_or_print(
    text: str, path: Path, remedy: str, inputs: Iterable[Path] = ()
) -> bool:
    """Write a text to a file that is no input, or print it where that is called ``-``; return whether there is one."""
    if str(path) == "-":
        typer.echo(text, nl=False)
        return False
    with io.writing(path, remedy):
        write_output(path, text, inputs=inputs)
    return True


def open_page(path: Path) -> None:
    """Show a page in the browser; where there is none, say where the page is."""
    if typer.launch(path.absolute().as_uri()) != 0:
        say(f"no browser could be started: open {path}", error=True)


# ---------------------------------------------------------------------- downloads

DEMO = "demo"
#: Files that are named one by one.
MAX_NAMES = 3
Missing = list[tuple["Card", "str | None", "list[FileSpec]"]]


def ensure_data(
    experiment: Experiment,
    data_dir: Path | None,
    *,
    yes: bool,
    options: Sequence[str] = (),
) -> None:
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
        say(
            f"data set {card.id} is not in {folder}: {names} ({size_of(files)}); licence: {card.licence}",
            error=True,
        )
    try:
        unavailable = [
            card.id
            for card, _, files in missing
            if not all(spec.urls for spec in files)
        ]
        if unavailable:
            raise DataError(
                f"there is no download address for the files of {', '.join(unavailable)}",
                "\n".join(
                    f"If you have the file of {id}: mtlrun data add {id} FILE{data_dir_option(data_dir)}"
                    for id in unavailable
                ),
            )
        confirm(
            f"Download {size_of([f for _, _, files in missing for f in files])}?",
            yes=yes,
            doing="downloaded",
        )
        with download_progress() as report:
            for card, variant, _ in missing:
                fetch_dataset(card, variant=variant, data_dir=folder, report=report)
                say(f"data set {card.id}: downloaded and verified", error=True)
    except UserError as error:
        raise DataError(
            error.message, _with_demo(error.remedy, experiment, data_dir, options)
        ) from None


def missing_data(experiment: Experiment, data_dir: Path | None) -> Missing:
    """Return (card, variant, missing files) for the data sets of an experiment."""
    from mtlrun.data.cards import load_card
    from mtlrun.data.files import data_directory, missing_files

    folder = data_directory(data_dir)
    found: Missing = []
    specs = (
        spec for one in (experiment, *experiment.others) for spec in one.spec.datasets
    )
    needed = dict.fromkeys((spec.id, spec.options.get("variant")) for spec in specs)
    for name, variant in needed:
        card = load_card(name, folder)
        files = missing_files(card, variant, folder)
        if files and not any(
            known.id == name and files == others for known, _, others in found
        ):
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


def _with_demo(
    remedy: str | None,
    experiment: Experiment,
    data_dir: Path | None,
    options: Sequence[str],
) -> str:
    from mtlrun.lab.plan import rerun_command

    lines = [remedy] if remedy else []
    if DEMO in experiment.profiles and experiment.profile != DEMO:
        command = rerun_command(
            dataclasses.replace(experiment, profile=DEMO, overrides=(), others=()),
            data_dir,
        )
        lines.append(
            f"To run without any download: {' '.join([command, *map(shlex.quote, options)])}"
        )
    return "\n".join(lines)
