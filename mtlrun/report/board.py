"""A finished comparison: the scores of its methods, and how they stand against independent learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtlrun.report.table import mean
from mtlrun.stats import PairedTest, average_ranks, holm, paired_test
from mtlrun.utils.text import cleaned

#: Fewer tasks carry too little evidence for a test over tasks; splits are then tested.
MIN_TASKS = 10
MULTITASK, INDEPENDENT, TRIVIAL = "multi-task", "independent", "trivial"


@dataclass
class Entry:
    """One method of a comparison.

    Attributes
    ----------
    label, family : str
    scores : dict of int to float
        Mean over the tasks, by split.
    tasks : dict of int to list of float or None
        Value of every task, by split.
    seconds : list of float
        Search and fit, of every split.
    fit_seconds : list of float
        The last fit alone.
    errors : list of str
    chosen : dict of int to dict
        Parameters found, by split.
    notes : list of str
        Not converged, grid made smaller, an end of the grid chosen ...
    searched : str
        Part of the grid that was searched, such as ``2 of 5 combinations``; empty for all of it.
    """

    label: str
    family: str
    scores: dict[int, float] = field(default_factory=dict)
    tasks: dict[int, list[float | None]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    chosen: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: str = ""

    @property
    def score(self) -> float | None:
        """Mean over the splits, None without a number."""
        known = [value for value in self.scores.values() if not math.isnan(value)]
        return mean(known) if known else None

    def task_means(self, splits: Sequence[int]) -> list[float | None]:
        """Return the mean of every task over the splits where it is defined."""
        rows = [self.tasks[s] for s in splits if s in self.tasks]
        columns = zip(*rows, strict=True)
        return [mean(known) if (known := [v for v in column if _is_number(v)]) else None for column in columns]


@dataclass(frozen=True)
class Versus:
    """A method against independent learning: wins, ties and losses are tasks."""

    wins: int
    ties: int
    losses: int
    gain: float
    pvalue: float | None
    adjusted: float | None
    unit: str


@dataclass
class Board:
    """A finished comparison.

    Attributes
    ----------
    title, metric : str
    greater : bool
        Whether greater values of the metric are better.
    tasks : list of str
    sizes : list of int
        Rows of every task.
    entries : list of Entry
    n_splits : int
    test_over_train : float
        Of a split, for the corrected t test.
    facts : list of str
        Data, split, search and preprocessing in sentences.
    left_out : list of str
        What was not run, and why.
    """

    title: str
    metric: str
    greater: bool
    tasks: list[str]
    sizes: list[int]
    entries: list[Entry]
    n_splits: int
    test_over_train: float
    facts: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Names of tasks and columns, and messages that quote them, come from the user's table.
        self.title, self.tasks = cleaned(self.title), cleaned(self.tasks)
        self.facts, self.left_out = cleaned(self.facts), cleaned(self.left_out)
        for entry in self.entries:
            entry.errors, entry.notes = cleaned(entry.errors), cleaned(entry.notes)

    def ranked(self) -> list[Entry]:
        """Return the methods that have a score, the best first; of equal ones the earlier in the list of methods."""
        sign = -1.0 if self.greater else 1.0
        return sorted((e for e in self.entries if e.score is not None), key=lambda e: sign * (e.score or 0.0))

    def judged(self) -> list[Entry]:
        """Return the ranked methods without those of which only a part of the grid was searched."""
        return [e for e in self.ranked() if not e.searched]

    def reduced(self) -> list[Entry]:
        """Return the ranked methods of which only a part of the grid was searched."""
        return [e for e in self.ranked() if e.searched]

    def best(self, *families: str) -> Entry | None:
        """Return the best judged method of some families (of all without any)."""
        return next((e for e in self.judged() if not families or e.family in families), None)

    @property
    def reference(self) -> Entry | None:
        """Independent learning: the best of the methods that learn every task alone.

        The trivial method takes their place where they failed, but not where only a part of their grids was searched.
        """
        trivial = None if any(e.family == INDEPENDENT for e in self.reduced()) else self.best(TRIVIAL)
        return self.best(INDEPENDENT) or trivial

    def gains(self, entry: Entry, other: Entry) -> list[float | None]:
        """Return how much better a method is than another, task by task; None where one of them is undefined."""
        splits = sorted(set(entry.tasks) & set(other.tasks))
        sign = 1.0 if self.greater else -1.0
        pairs = zip(entry.task_means(splits), other.task_means(splits), strict=True)
        return [None if a is None or b is None else 0.0 if equal_scores(a, b) else sign * (a - b) for a, b in pairs]

    def test(self, entry: Entry, other: Entry) -> tuple[PairedTest, str] | None:
        """Test one method against another: signed ranks over tasks, with few tasks the corrected t over splits."""
        gains = [gain for gain in self.gains(entry, other) if gain is not None]
        if len(gains) >= MIN_TASKS:
            return paired_test(gains, [0.0] * len(gains)), "tasks"
        splits = sorted(set(entry.scores) & set(other.scores))
        if len(splits) < 2:
            return None
        first, second = [entry.scores[s] for s in splits], [other.scores[s] for s in splits]
        return paired_test(first, second, "corrected_t", test_over_train=self.test_over_train), "splits"

    def against_reference(self) -> dict[str, Versus]:
        """Return every method against independent learning; p-values also adjusted by Holm's method."""
        base = self.reference
        if base is None:
            return {}
        others = [e for e in self.judged() if e is not base]
        tests = {e.label: self.test(e, base) for e in others}
        raw = [float("nan") if t is None or t[0].pvalue is None else t[0].pvalue for t in tests.values()]
        found = {}
        for entry, pvalue, adjusted in zip(others, raw, holm(raw), strict=True):
            gains = [gain for gain in self.gains(entry, base) if gain is not None]
            test = tests[entry.label]
            found[entry.label] = Versus(
                wins=sum(gain > 0 for gain in gains),
                ties=sum(gain == 0 for gain in gains),
                losses=sum(gain < 0 for gain in gains),
                gain=mean(gains) if gains else float("nan"),
                pvalue=None if math.isnan(pvalue) else pvalue,
                adjusted=None if math.isnan(pvalue) else float(adjusted),
                unit="" if test is None else test[1],
            )
        return found

    def average_ranks(self) -> dict[str, float]:
        """Return average ranks over splits of the judged methods that have a score wherever any method has one."""
        splits = sorted({s for e in self.entries for s in e.scores})
        whole = [e for e in self.judged() if all(not math.isnan(e.scores.get(s, math.nan)) for s in splits)]
        if not whole:
            return {}
        table = [[e.scores[s] for e in whole] for s in splits]
        ranks = average_ranks(table, greater_is_better=self.greater)
        return {e.label: float(rank) for e, rank in zip(whole, ranks, strict=True)}

    def hurt(self, entry: Entry) -> list[tuple[str, float, bool]]:
        """Return the tasks that a method makes worse than independent learning does, the worst first.

        Each with its loss and whether it is worse in every split (of at least two).
        """
        base = self.reference
        if base is None:
            return []
        sign = 1.0 if self.greater else -1.0
        splits = sorted(set(entry.tasks) & set(base.tasks))
        found = []
        for t, gain in enumerate(self.gains(entry, base)):
            if gain is not None and gain < 0:
                pairs = [(entry.tasks[s][t], base.tasks[s][t]) for s in splits]
                always = [sign * (a - b) < 0 for a, b in pairs if a is not None and b is not None]
                found.append((self.tasks[t], -gain, len(always) > 1 and all(always)))
        return sorted(found, key=lambda item: -item[1])


def equal_scores(a: float | None, b: float | None) -> bool:
    """Whether two scores differ by rounding errors at most."""
    return a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)


def _is_number(value: float | None) -> bool:
    return value is not None and not math.isnan(value)
