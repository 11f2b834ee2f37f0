"""Consoles for results (stdout) and for messages (stderr); plain text outside a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from rich.console import Console


def interactive(stream: TextIO) -> bool:
    """Tell whether colours and moving progress bars are welcome: a terminal, and no wish for plain text."""
    wished_plain = any(os.environ.get(name) for name in ("CI", "NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not wished_plain


def output() -> Console:
    """Return the console for results."""
    return _console(sys.stdout)


def messages() -> Console:
    """Return the console for errors, warnings and progress."""
    return _console(sys.stderr)


def say(text: str, *, error: bool = False) -> None:
    """Print a text as it is: no markup, no folding; control characters, which could rewrite the screen, written out."""
    console = messages() if error else output()
    console.print(sanitize(text), soft_wrap=True, markup=False, highlight=False)


def complain(message: str, remedy: str | None = None) -> None:
    """Print an error and what to do about it."""
    say(f"error: {message}", error=True)
    if remedy:
        say(remedy, error=True)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    lively = interactive(stream)
    # Colour codes are decided here and nowhere else: FORCE_COLOR in a CI log must not bring them back.
    return Console(file=stream, force_terminal=lively, no_color=not lively, highlight=False, markup=False, emoji=False)
