"""Progress while cells are computed: a live bar on a terminal, one plain line per cell elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO


class Progress:
    """What `run` tells while it computes; this one passes messages on, and shows nothing else.

    Parameters
    ----------
    say : callable, optional
        Called with every message.
    """

    def __init__(self, say: Callable[[str], object] = lambda _: None) -> None:
        self.say = say

    def start(self, total: int) -> None:
        """Begin the work: so many cells will be computed."""

    def message(self, text: str) -> None:
        """Show a line of text."""
        self.say(text)

    def begin(self, name: str) -> None:
        """Begin a cell."""

    def cell(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Finish a cell."""

    def stop(self) -> None:
        """End the work."""


class Plain(Progress):
    """One line per cell, without control characters.

    Parameters
    ----------
    stream : text file, default stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(lambda text: print(text, file=self.stream, flush=True))
        self.stream = stream or sys.stderr
        self.total = self.done = 0

    def start(self, total: int) -> None:
        """Remember how many cells there are."""
        self.total, self.done = total, 0

    def cell(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Print the line of a finished cell."""
        self.done += 1
        self.message(cell_line(self.done, self.total, name, status, seconds, note))


class Live(Plain):
    """A progress bar with the current cell and the time left; above it, only failures and messages.

    Parameters
    ----------
    stream : text file, default stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        super().__init__(stream)
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self.bar = Bar(*columns, console=Console(file=self.stream), transient=True)
        self.task = self.bar.add_task("", total=None)

    def start(self, total: int) -> None:
        """Show the bar."""
        super().start(total)
        self.bar.reset(self.task, total=total)
        self.bar.start()

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, name: str) -> None:
        """Show which cell is being computed."""
        self.bar.update(self.task, description=name)

    def cell(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Move the bar, and print the line of a cell that did not go well."""
        self.bar.advance(self.task)
        if status in ("ok", "done"):
            self.done += 1
        else:
            super().cell(name, status, seconds, note)

    def stop(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def make_progress(*, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """Return a suitable display: live on a terminal, plain for pipes, CI, NO_COLOR and dumb terminals."""
    if quiet:
        return Progress()
    target = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return Plain(target) if plain or not target.isatty() else Live(target)


def cell_line(done: int, total: int, name: str, status: str, seconds: float | None, note: str) -> str:
    """Return ``[ 3/50] enron/APG-RMTL/trial 0  ok  1.24 s``."""
    width = len(str(total))
    took = "" if seconds is None else f"  {seconds:.2f} s" if seconds < 100 else f"  {seconds:.0f} s"
    return f"[{done:>{width}}/{total}] {name}  {status}{took}{f'  {note}' if note else ''}"
