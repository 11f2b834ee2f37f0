"""What a run says of itself: the line of a finished cell, how much there is to do, and what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mtlrun.errors import counted
from mtlrun.record import FOLD, Record

#: Numbers of a finished cell that are shown; measures may return many.
SHOWN = 6


@dataclass(frozen=True)
class Failure:
    """A row whose cell failed: its name for people, status, error in one line, and the file with the traceback."""

    name: str
    status: str
    error: str
    file: str


@dataclass
class RunSummary:
    """What a run did.

    Attributes
    ----------
    run_dir : Path
    n_ok, n_failed : int
        Rows whose cell was computed now: done (not converged included), and failed.
    n_cached : int
        Rows that were done before, or were done by another process meanwhile.
    n_left : int
        Rows neither done nor failed: interrupted, or stopped by `fail_fast`.
    failures : list of Failure
    interrupted : bool
    seconds : float
    """

    run_dir: Path
    n_ok: int = 0
    n_failed: int = 0
    n_cached: int = 0
    n_left: int = 0
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def unchanged(self) -> bool:
        """Whether all was there before."""
        return not (self.n_ok or self.n_failed or self.n_left or self.interrupted)

    @property
    def exit_code(self) -> int:
        """0 when all is well, 1 when a cell failed, 130 when interrupted."""
        return 130 if self.interrupted else 1 if self.n_failed else 0


def work_text(cells: int, folds: int, of: int) -> str:
    """Return ``3 of 8 cells to compute, after 6 folds of searches``."""
    searches = f", after {counted(folds, 'fold')} of searches" if folds else ""
    return f"{cells} of {counted(of, 'cell')} to compute{searches}"


def note(record: Record) -> str:
    """Return what is worth saying about a finished cell."""
    if not record.done:
        return record.error or ""
    if record.family == FOLD:
        scores = record.selection["scores"]
        return counted(len(scores), "candidate")
    shown = [f"{name} {value:.4g}" for name, value in record.metrics.items() if value is not None and value == value]
    if record.seconds.get("fit") is not None:
        shown.append(f"fit {record.seconds['fit']:.3g} s")
    return ", ".join(shown[:SHOWN] + ["..."] * (len(shown) > SHOWN))
