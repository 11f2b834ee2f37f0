"""Verdicts of a stored run of ``atlas/verdicts`` with the bounds of today.

Records of version 1 of the analysis ``atlas-verdict`` have the ends of intervals of 95%
for the smaller gain, with twice the standard error of the rows, and a sentence with both
gains, rounded. Both standard errors follow from them, and with the numbers of training
and test rows also the bounds and the verdict that `mtlrun.comparison` has today. Nothing
is fitted. Later records have these bounds themselves, and are not changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from mtlrun.comparison.gain import TAIL, Gain, SmallestGain, correction
from mtlrun.comparison.verdict import (
    ALTERNATIVES,
    MARGIN,
    MARGIN_AUC,
    SMALLEST,
    SMALLEST_AUC,
    decide,
)
from mtlrun.engine.record import Record

#: Name of the analysis, and the version whose records have other bounds.
ANALYSIS = "atlas-verdict"
OLD_VERSION = 1
#: Factor of the standard error in these records.
OLD_FACTOR = 2.0
N_FOLDS = 5
_NUMBER = r"(-?[\d.]+)%?"
_NAMES = "|".join(ALTERNATIVES.values())
#: Forms of the two gains in a sentence: each has the two ends of the interval.
_FORMS = re.compile(
    rf"(?:{_NUMBER} worse to {_NUMBER} better"
    rf"|{_NUMBER} to {_NUMBER} (better|worse)"
    rf"|(more error|less error|lower by {_NUMBER}|higher by {_NUMBER}|by {_NUMBER})"
    rf" \({_NUMBER}(?: to {_NUMBER})?\))"
    rf" (?:than|compared with) (?:{_NAMES})"
)


@dataclass(frozen=True)
class VerdictNumbers:
    """Verdict and numbers of the smallest gain, as shares of the error."""

    decision: str
    gain: float
    low: float
    high: float


def numbers_of(record: Record, kind: str, decision: str) -> VerdictNumbers:
    """Return verdict, gain and bounds of a record.

    Parameters
    ----------
    record : Record
    kind : {"groups", "targets", "labels", "simulated"}
        Kind of the table.
    decision : str
        Verdict of the record.
    """
    metrics = record.metrics
    stored = [float(metrics[name] or 0.0) for name in ("gain", "low", "high")]
    if record.versions.get(ANALYSIS) != OLD_VERSION:
        return VerdictNumbers(decision, *stored)
    return _recompute(record, kind, *stored)


def _recompute(
    record: Record, kind: str, value: float, low: float, high: float
) -> VerdictNumbers:
    """Return the verdict of a record of the old version."""
    (sentence,) = record.result["lines"]
    printed = printed_intervals(sentence)
    lows = [interval[0] for interval in printed]
    highs = [interval[1] for interval in printed]
    # Gains of the AUC are printed in points, and stored as shares of the error.
    scale = (high - low) / (min(highs) - min(lows))
    is_auc = "%" not in sentence
    if not is_auc:
        scale = 1.0
    lows = [scale * end for end in lows]
    highs = [scale * end for end in highs]
    # The ends of the smaller gain are stored with all digits.
    lowest = lows.index(min(lows))
    lows[lowest] = low
    highest = highs.index(min(highs))
    highs[highest] = high
    values = [(a + b) / 2 for a, b in zip(lows, highs, strict=True)]
    closest = values.index(min(values))
    if closest in (lowest, highest):
        values[closest] = value
    counts = record.counts
    n_rows = counts["n_samples"]
    n_tasks = 1
    df = n_rows - 1
    if kind == "groups":
        n_tasks = counts["n_tasks"]
        df = n_rows - n_tasks
    n_test = n_rows / N_FOLDS
    n_train = min(record.params["rows"] * n_tasks, n_rows - n_test)
    factor = correction(N_FOLDS, n_test, n_train) / OLD_FACTOR
    gains = {}
    for index, gain_value in enumerate(values):
        # Upper ends are at most 1.
        half_width = gain_value - lows[index]
        error = factor * half_width / float(student.isf(TAIL, df))
        gains[str(index)] = Gain(
            gain_value, error, df, n_rows, math.nan, math.nan, tasks=np.empty(0)
        )
    smallest = SmallestGain(gains)
    decision = decide(
        smallest.low / scale,
        smallest.high / scale,
        SMALLEST_AUC if is_auc else SMALLEST,
        MARGIN_AUC if is_auc else MARGIN,
    )
    return VerdictNumbers(decision, value, smallest.low, smallest.high)


def printed_intervals(sentence: str) -> Sequence[tuple[float, float]]:
    """Return the interval of each gain in a sentence, as shares or points of AUC."""
    unit = 100 if "%" in sentence else 1
    intervals = []
    for match in _FORMS.finditer(sentence):
        worse, better, first, second, direction, words, *numbers = match.groups()
        if worse is not None:
            ends = (-float(worse), float(better))
        else:
            if words is not None:
                first, second = numbers[3], numbers[4] or numbers[3]
            ends = (float(first), float(second))
            is_loss = direction == "worse"
            if words is not None:
                is_loss = words.startswith(("more", "lower"))
            if is_loss:
                ends = (-ends[1], -ends[0])
        intervals.append((ends[0] / unit, ends[1] / unit))
    # A later sentence may compare the alternatives with each other.
    return intervals[:2]
