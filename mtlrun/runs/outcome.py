"""What becomes of a piece of work, wherever it is done."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mtlrun.errors import one_line
from mtlrun.problem.memory import shared_by
from mtlrun.record import DIVERGED, FAILED, OK

Unit = tuple[Any, tuple[Any, ...]]
Result = tuple[Any, "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What became of a piece of work.

    Attributes
    ----------
    status : str
        ok, failed, diverged or timeout.
    value : object
        What the function returned, None unless ok.
    error : str or None
        One line.
    log : str or None
        Traceback, without the folders of this machine.
    """

    status: str
    value: Any = None
    error: str | None = None
    log: str | None = None


def attempt(function: Callable[..., Any], *arguments: Any) -> Outcome:
    """Call a function; an exception becomes the outcome."""
    try:
        return Outcome(OK, function(*arguments))
    except Exception as error:  # the point of this function: a failure is a row of the table, not the end of the run
        status = DIVERGED if type(error).__name__ == "Diverged" else FAILED
        return Outcome(status, error=one_line(error), log=_without_folders("".join(traceback.format_exception(error))))


def attempt_alone(processes: int, function: Callable[..., Any], *arguments: Any) -> Outcome:
    """Call a function in one of so many workers: all are busy, so it gets its part of the memory and works alone."""
    from joblib import parallel_config

    with parallel_config(backend="sequential"), shared_by(processes):
        return attempt(function, *arguments)


def in_flight(
    units: Iterator[Unit],
    width: Callable[[], int],
    submit: Callable[[Unit], Any],
    wait: Callable[[Iterable[Any]], Iterable[tuple[Any, Any]]],
    cancel: Callable[[list[Any]], object],
) -> Generator[tuple[Unit, Any, Any], None, None]:
    """Yield (unit, future, result) as they are finished, with at most `width()` of them in flight.

    With a width of one the next unit is taken when the caller comes back for it; otherwise before, so that nobody waits
    while the caller is busy with a result. What is in flight at the end, as after an interrupt, is cancelled.
    """
    flying: dict[Any, Unit] = {}

    def fill() -> None:
        while len(flying) < max(1, width()) and (unit := next(units, None)) is not None:
            flying[submit(unit)] = unit

    try:
        fill()
        while flying:
            for future, result in wait(flying):
                unit = flying.pop(future)
                if width() > 1:
                    fill()
                yield unit, future, result
            fill()
    finally:
        cancel(list(flying))


def _without_folders(text: str) -> str:
    for folder in sorted({os.getcwd(), *filter(None, sys.path)}, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text
