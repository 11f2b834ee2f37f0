"""The csv files that ``scripts/atlas_tables.py`` and ``scripts/atlas_pairs.py`` make."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mtlrun.lab.report.run import Run
from mtlrun.utils.io import write_atomic


def last_day(run: Run) -> str:
    """Return the day on which a run ended, as text."""
    last = run.provenance[-1]
    # A run that was interrupted has no end.
    return str(last.finished or last.started)[:10]


def write_lines(path: Path, comment: str, lines: Iterable[Sequence[Any]]) -> None:
    """Write lines as csv below a comment."""
    text = io.StringIO()
    text.write(f"# {comment}\n")
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_atomic(path, text.getvalue())
