"""Averages of numbers of which some may be missing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from statistics import fmean

#: The variance of a small task is shrunk towards that of the average task, as if it had
#: this many more rows.
VARIANCE_SHRINKAGE_ROWS = 10


def std(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation, None below two values."""
    values = list(values)
    return statistics.stdev(values) if len(values) > 1 else None


def task_means(lists: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Average the values of every task over the splits where they are defined; [] if the splits differ in their tasks.

    Parameters
    ----------
    lists : sequence of sequences
        The values of all tasks, split by split.
    """
    if len({len(values) for values in lists}) != 1:
        return []
    columns = zip(*lists, strict=True)
    return [
        fmean(known)
        if (known := [v for v in c if v is not None and not math.isnan(v)])
        else None
        for c in columns
    ]
