"""The csv files that ``scripts/atlas_tables.py`` and ``scripts/atlas_pairs.py`` make."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mtlrun.engine.stored import PROVENANCE
from mtlrun.lab.report.run import Run


def last_day(run: Run) -> str:
    """Return the day on which a run ended, as text."""
    provenance = json.loads((run.folder / PROVENANCE).read_text(encoding="utf-8"))
    last = provenance["runs"][-1]
    # A run that was interrupted has no end.
    return str(last["finished"] or last["started"])[:10]


def write_lines(path: Path, comment: str, lines: Iterable[Sequence[Any]]) -> None:
    """Write lines as csv below a comment."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {comment}\n")
        csv.writer(file, lineterminator="\n").writerows(lines)
