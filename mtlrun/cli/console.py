"""Printing results (stdout) and messages (stderr), plainly outside a terminal, and asking for confirmation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mtlrun.errors import UserError
from mtlrun.utils import io
from mtlrun.utils.outputs import write_output
from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from rich.console import Console


def interactive(stream: TextIO) -> bool:
    """Whether colours and progress bars are welcome: on a terminal, unless plain text was asked for."""
    wished_plain = any(os.environ.get(name) for name in ("CI", "NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not wished_plain


def output() -> Console:
    """Return the console for results."""
    return _console(sys.stdout)


def messages() -> Console:
    """Return the console for errors, warnings and progress."""
    return _console(sys.stderr)


def say(text: str, *, error: bool = False) -> None:
    """Print a text without markup or wrapping; control characters, which could rewrite the screen, are escaped."""
    console = messages() if error else output()
    console.print(sanitize(text), soft_wrap=True, markup=False, highlight=False)


def say_json(value: object) -> None:
    """Print a value as JSON, NaN as null; characters that could rewrite the screen are escaped."""
    import json

    import typer

    typer.echo(json.dumps(io.jsonable(value), indent=1))


def say_columns(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns; those that hold numbers are aligned to the right."""
    columns = []
    for column in zip(*rows, strict=True):
        texts = [str(cell) for cell in column]
        width = max(map(len, texts))
        numbers = any(isinstance(cell, int | float) for cell in column)
        columns.append([text.rjust(width) if numbers else text.ljust(width) for text in texts])
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
    return Console(file=stream, force_terminal=lively, no_color=not lively, highlight=False, markup=False, emoji=False)


def has_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


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
    import typer

    if yes:
        return
    if not has_terminal():
        raise UserError(f"nothing was {doing}: there is no terminal to ask for confirmation", "Add --yes to go ahead.")
    if not typer.confirm(question):
        raise UserError(f"nothing was {doing}")


#: Turns a full disk or a read-only folder into an error that names the alternatives.
writing = partial(io.writing, remedy="Print the report with --format md (or json, csv, tex), or choose another --out.")


def write_or_print(text: str, path: Path, remedy: str, inputs: Iterable[Path] = ()) -> bool:
    """Write a text to a file that is no input, or print it where that is called ``-``; return whether there is one."""
    import typer

    if str(path) == "-":
        typer.echo(text, nl=False)
        return False
    with io.writing(path, remedy):
        write_output(path, text, inputs=inputs)
    return True


def open_page(path: Path) -> None:
    """Show a page in the browser; where there is none, say where the page is."""
    import typer

    if typer.launch(path.absolute().as_uri()) != 0:
        say(f"no browser could be started: open {path}", error=True)
