"""Print results to stdout and messages to stderr, and ask before downloads.

Outside a terminal the output is plain text without colors or line breaks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
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

    from mtlrun.data.sets.cards import Card, FileSpec
    from mtlrun.lab.experiment.spec import Experiment

#: Greatest width of a line of prose, in columns, however wide the terminal is.
MAX_PROSE_WIDTH = 100
#: A number in a warning.
_NUMBER = re.compile(r"\d[\d.e+-]*")
#: A last column of less width is not broken.
MIN_COLUMN_WIDTH = 16
#: A numbered line of a file, or the carets that mark a place in it.
_EXCERPT = re.compile(r" +(\d+ \||\^)")


def interactive(stream: TextIO) -> bool:
    """Return whether to use colors and progress bars.

    They are used on a terminal, unless an environment variable asks for plain text.
    """
    if os.environ.get("CI") or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def output() -> Console:
    """Return the console for results."""
    return _console(sys.stdout)


def messages() -> Console:
    """Return the console for errors, warnings and progress."""
    return _console(sys.stderr)


def terminal_properties() -> list[object]:
    """Return what decides how `output` shows a text, besides the text."""
    console = output()
    return [
        console.width,
        console.is_terminal,
        console.color_system,
        console.encoding,
        console.legacy_windows,
    ]


def say(text: str, *, error: bool = False, style: str | None = None) -> None:
    """Print a text without markup or wrapping.

    Control characters, which could rewrite the screen, are escaped.

    Parameters
    ----------
    text : str
    error : bool, default False
        Print to stderr. This call drops a message that cannot be written there; hints
        and progress that are written in other ways still end the command, with code 2.
    style : str, default=None
        Color on a terminal; None for the color of the terminal.
    """
    options: dict[str, Any] = {"soft_wrap": True, "markup": False, "highlight": False}
    if not error:
        output().print(sanitize(text), style=style, **options)
        return
    with contextlib.suppress(OSError):
        messages().print(sanitize(text), style=style, **options)


def say_prose(text: str) -> None:
    """Print sentences; a terminal breaks them between words, a file has one line."""
    for line in prose_lines(text, output()):
        say(line)


#: Warnings that were printed, with # for each number.
_printed_warnings: set[str] = set()


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a Python warning in one line, without the place in the code.

    Warnings that differ only in numbers are printed once: those of all folds, say.
    Replaces `warnings.showwarning`.
    """
    text = " ".join(str(message).split())
    pattern = _NUMBER.sub("#", text)
    if pattern not in _printed_warnings:
        _printed_warnings.add(pattern)
        say(f"warning: {text}", error=True)


def prose_lines(text: str, console: Console) -> list[str]:
    """Return the lines of sentences on a console.

    A file or a pipe, which can be searched, gets one line. On a terminal lines end at
    blanks, at the width of the console or `MAX_PROSE_WIDTH` columns; a path without
    blanks is never broken. Further lines are indented by two columns more than the
    first. Excerpts of files stay as they are, because carets mark places in them.
    """
    width = min(console.width, MAX_PROSE_WIDTH)
    is_short = len(text) <= width
    if not console.is_terminal or is_short or _EXCERPT.match(text):
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
    """Print a value as JSON.

    NaN becomes null, and control characters, which could rewrite the screen, are
    escaped.
    """
    typer.echo(json.dumps(io.jsonable(value), indent=1))


def say_columns(rows: Sequence[Sequence[object]], *, style: str | None = None) -> None:
    """Print rows in aligned columns; columns with numbers are aligned to the right.

    A terminal breaks the last column between words, and shows the others in a style.
    """
    from rich.text import Text

    console = output()
    columns = []
    for column in zip(*rows, strict=True):
        texts = [str(cell) for cell in column]
        width = max(map(len, texts))
        has_numbers = any(isinstance(cell, int | float) for cell in column)
        align = str.rjust if has_numbers else str.ljust
        columns.append([align(text, width) for text in texts])
    for row in zip(*columns, strict=True):
        start = "  ".join(row[:-1])
        space = min(console.width, MAX_PROSE_WIDTH) - len(start) - 2
        lines = [row[-1].rstrip()]
        # NO_COLOR asks for no colors, not for long lines.
        if console.file.isatty() and space >= MIN_COLUMN_WIDTH:
            lines = textwrap.wrap(row[-1], space, break_long_words=False) or [""]
        for line in lines:
            text = Text(sanitize(start), style=style or "")
            text.append(sanitize(f"  {line}".rstrip() if start else line), style="")
            text.rstrip()
            console.print(text, soft_wrap=True, markup=False, highlight=False)
            start = " " * len(start)


def complain(message: str, remedy: str | None = None) -> None:
    """Print an error and what to do about it; a terminal breaks lines between words."""
    console = messages()
    for text in filter(None, (f"error: {message}", remedy)):
        for paragraph in text.split("\n"):
            for line in prose_lines(paragraph, console):
                say(line, error=True)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    # `interactive` decides instead of rich, so that FORCE_COLOR does not put color
    # codes into the log of a CI job.
    is_interactive = interactive(stream)
    return Console(
        file=stream,
        force_terminal=is_interactive,
        no_color=not is_interactive,
        highlight=False,
        markup=False,
        emoji=False,
    )


def confirm(question: str, *, yes: bool, doing: str) -> None:
    """Ask before something is downloaded or deleted.

    Without a terminal nobody can answer, and --yes is required.

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


#: Context manager that turns a full disk or a read-only folder into a `UserError`.
writing = partial(
    io.writing,
    remedy=(
        "Print the report with --format md (or json, csv, tex), or choose another "
        "--out."
    ),
)


def write_or_print(
    text: str, path: Path, remedy: str, inputs: Iterable[Path] = ()
) -> bool:
    """Write a text to a file, or print it if the path is ``-``.

    Parameters
    ----------
    text : str
    path : Path
    remedy : str
        What to do if the file cannot be written.
    inputs : iterable of Path
        Files that must not be overwritten.

    Returns
    -------
    bool
        Whether a file was written.
    """
    if str(path) == "-":
        typer.echo(text, nl=False)
        return False
    with io.writing(path, remedy):
        write_output(path, text, inputs=inputs)
    return True


def open_page(path: Path) -> None:
    """Open a page in the browser; without one, print the path of the page."""
    if typer.launch(path.absolute().as_uri()) != 0:
        say(f"no browser could be started: open {path}", error=True)


# ---------------------------------------------------------------------- downloads

#: Profile that needs no download.
DEMO = "demo"
#: Number of missing files whose names are printed.
MAX_NAMES = 3
#: Card, variant and missing files of each data set.
Missing = list[tuple["Card", "str | None", "list[FileSpec]"]]


def ensure_data(
    experiment: Experiment,
    data_dir: Path | None,
    *,
    yes: bool,
    options: Sequence[str] = (),
) -> None:
    """Download the missing files of an experiment after confirmation.

    Parameters
    ----------
    experiment : Experiment
    data_dir : Path or None
    yes : bool
        Whether to download without asking.
    options : sequence of str
        Further options of the command line, for the command that an error suggests.

    Raises
    ------
    DataError
        If the download is refused or fails. The remedy names the demo profile if the
        experiment has one.
    """
    missing = missing_data(experiment, data_dir)
    if not missing:
        return
    from mtlrun.data.sets.fetch import fetch_dataset
    from mtlrun.data.sets.files import data_directory

    folder = data_directory(data_dir)
    for card, _, files in missing:
        names = ", ".join(spec.name for spec in files[:MAX_NAMES])
        if len(files) > MAX_NAMES:
            names += f" and {len(files) - MAX_NAMES} more"
        say(
            f"data set {card.id} is not in {folder}: {names} ({size_of(files)}); "
            f"license: {card.license}",
            error=True,
        )
    try:
        unavailable = []
        for card, _, files in missing:
            if not all(spec.urls for spec in files):
                unavailable.append(card.id)
        if unavailable:
            remedies = []
            for name in unavailable:
                command = f"mtlrun data add {name} FILE{data_dir_option(data_dir)}"
                remedies.append(f"If you have the file of {name}: {command}")
            raise DataError(
                "there is no download address for the files of "
                f"{', '.join(unavailable)}",
                "\n".join(remedies),
            )
        all_files = [spec for _, _, files in missing for spec in files]
        confirm(f"Download {size_of(all_files)}?", yes=yes, doing="downloaded")
        with download_progress() as report:
            for card, variant, _ in missing:
                fetch_dataset(card, variant=variant, data_dir=folder, report=report)
                say(f"data set {card.id}: downloaded and verified", error=True)
    except UserError as error:
        # Add the command of the demo profile to a remedy.
        from mtlrun.lab.plan import rerun_command

        lines = [error.remedy] if error.remedy else []
        if DEMO in experiment.profiles and experiment.profile != DEMO:
            demo = dataclasses.replace(
                experiment, profile=DEMO, overrides=(), others=()
            )
            words = [rerun_command(demo, data_dir), *map(shlex.quote, options)]
            lines.append(f"To run without any download: {' '.join(words)}")
        remedy = "\n".join(lines)
        raise DataError(error.message, remedy) from None


def missing_data(experiment: Experiment, data_dir: Path | None) -> Missing:
    """Return card, variant and missing files of each incomplete data set."""
    from mtlrun.data.sets.cards import load_card
    from mtlrun.data.sets.files import data_directory, missing_files

    folder = data_directory(data_dir)
    variants: dict[tuple[str, Any], None] = {}
    for member in (experiment, *experiment.others):
        for spec in member.spec.datasets:
            variants[spec.id, spec.options.get("variant")] = None
    missing: Missing = []
    # Variants of a data set may share their files, which are downloaded once.
    seen: list[tuple[str, list[FileSpec]]] = []
    for name, variant in variants:
        card = load_card(name, folder)
        files = missing_files(card, variant, folder)
        if files and (name, files) not in seen:
            seen.append((name, files))
            missing.append((card, variant, files))
    return missing


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Yield a function that draws a progress bar, or None outside a terminal."""
    if not interactive(sys.stderr):
        yield None
        return
    from rich.markup import escape
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=messages(), transient=True) as bar:

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(escape(sanitize(name)), total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield report


def size_of(files: Sequence[FileSpec]) -> str:
    """Return the number of files and their size as text."""
    n_files = counted(len(files), "file")
    sizes = [spec.bytes for spec in files if spec.bytes is not None]
    if not sizes:
        return f"{n_files} of unknown size"
    text = f"{n_files}, {sum(sizes) / 1e6:.1f} MB unpacked"
    if len(sizes) < len(files):
        # The sizes of some files are unknown.
        text += " and more"
    return text
