"""Progress displays: silent, one line per finished job, or a live bar on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

from mtlrun.utils.text import sanitize

#: A live bar advances without a line of text after jobs with these statuses.
SUCCESSFUL_STATUSES = ("ok", "done")


class Progress:
    """Display that passes messages on and shows nothing else; the base of the others.

    Parameters
    ----------
    say : callable, optional
        Receives each message.
    """

    def __init__(self, say: Callable[[str], object] = lambda _: None) -> None:
        self.say = say

    def start(self, total: int) -> None:
        """Begin a run that computes `total` jobs."""

    def message(self, text: str) -> None:
        """Show a line of text."""
        self.say(text)

    def begin(self, name: str) -> None:
        """Begin a job."""

    def job(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Finish a job."""

    def stop(self) -> None:
        """End the run."""


class PlainProgress(Progress):
    """One line per finished job, free of control characters.

    Parameters
    ----------
    stream : text file, default stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(self._print)
        self.stream = stream or sys.stderr
        self.total = 0
        self.n_finished = 0

    def _print(self, text: str) -> None:
        print(sanitize(text), file=self.stream, flush=True)

    def start(self, total: int) -> None:
        """Store the number of jobs, which every line repeats."""
        self.total = total
        self.n_finished = 0

    def job(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Print the line of a finished job."""
        self.n_finished += 1
        # For example [ 3/50] enron/APG-RMTL/trial 0  ok  1.24 s
        width = len(str(self.total))
        parts = [f"[{self.n_finished:>{width}}/{self.total}] {name}", status]
        if seconds is not None:
            n_decimals = 2 if seconds < 100 else 0
            parts.append(f"{seconds:.{n_decimals}f} s")
        if note:
            parts.append(note)
        self.message("  ".join(parts))


class LiveProgress(PlainProgress):
    """Progress bar that shows the current job and the estimated time left.

    Messages, and jobs that failed, are printed above the bar.

    Parameters
    ----------
    stream : text file, default stderr
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich import progress
        from rich.console import Console

        super().__init__(stream)
        self.bar = progress.Progress(
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.description}", markup=False),
            console=Console(file=self.stream),
            transient=True,
        )
        self.task = self.bar.add_task("", total=None)

    def start(self, total: int) -> None:
        """Show the bar."""
        super().start(total)
        self.bar.reset(self.task, total=total)
        self.bar.start()

    def message(self, text: str) -> None:
        """Print a message above the bar, broken between words."""
        self.bar.console.print(sanitize(text), markup=False, highlight=False)

    def begin(self, name: str) -> None:
        """Show the name of the current job."""
        self.bar.update(self.task, description=sanitize(name))

    def job(self, name: str, status: str, seconds: float | None, note: str) -> None:
        """Advance the bar; print a line only if the job was not successful."""
        self.bar.advance(self.task)
        if status in SUCCESSFUL_STATUSES:
            self.n_finished += 1
        else:
            super().job(name, status, seconds, note)

    def stop(self) -> None:
        """Remove the bar."""
        self.bar.stop()


def make_progress(*, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """Return the display that suits a stream.

    It is live on a terminal, and plain in pipes, in continuous integration, with
    NO_COLOR and on dumb terminals.

    Parameters
    ----------
    quiet : bool, default False
        Return a display that shows nothing.
    stream : text file, default stderr
    """
    if quiet:
        return Progress()
    stream = stream or sys.stderr
    if os.environ.get("NO_COLOR") or os.environ.get("CI"):
        return PlainProgress(stream)
    if os.environ.get("TERM") == "dumb" or not stream.isatty():
        return PlainProgress(stream)
    return LiveProgress(stream)
