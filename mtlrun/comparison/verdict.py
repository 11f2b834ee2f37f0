"""Whether multi-task learning pays on a table: the strategies that are compared, and what is said of their difference.

In every training part the methods of a family compete by their inner cross-validation score. The winner among the
multi-task methods is tested against the winner among independent and pooled ones: nothing is chosen by test scores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from mtlrun.comparison.gain import (
    Gain,
    Layout,
    auc_gain,
    concordances,
    correction,
    error_losses,
    log_losses,
    relative_gain,
    squared_losses,
    task_scales,
)
from mtlrun.errors import counted
from mtlrun.report.run import std
from mtlrun.report.statistics import task_means

Array = np.ndarray

TRIVIAL, INDEPENDENT, POOLED, MULTITASK = "trivial", "independent", "pooled", "multi-task"
#: Trees of several outputs take no part in the verdict, as little as classes of the user's that are of no named family.
NATIVE, OWN = "native multi-output", "own"
FAMILIES = (TRIVIAL, INDEPENDENT, POOLED, MULTITASK, NATIVE, OWN)
#: Families that strategies are chosen from: with multi-task learning, and two without.
STRATEGIES = (MULTITASK, INDEPENDENT, POOLED)
#: The better of the last two.
WITHOUT = "without"

HELPS, NO_DIFFERENCE, WORSE = "helps", "no difference that matters", "worse"
CANNOT_TELL, NO_VERDICT = "cannot tell", "no verdict"
AUC, NMSE, ERROR_RATE, LOG_LOSS = "AUC", "nMSE", "error rate", "log loss"
#: Fewer independent rows or groups, or blocks of time, give no verdict.
MIN_UNITS, MIN_BLOCKS = 20, 5
#: Where every task is so small and there are so many, the interval is somewhat too narrow.
MANY_TASKS, SMALL_TASK = 100, 10
#: Smallest gain of interest where none is given: of the AUC, and of errors.
SMALLEST_AUC, SMALLEST = 0.005, 0.01


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
    inner : dict of int to float
        Score of the inner cross-validation in the training rows, by split; the smaller the better.
    losses : dict of int to ndarray
        Of every tested row, by split; see `Evaluation.losses`.
    seconds : list of float
        Search and fit, of every split.
    fit_seconds : list of float
        The last fit alone.
    failures : dict of int to str
        What went wrong, by split.
    chosen : dict of int to dict
        Parameters found, by split.
    notes : list of str
        Not converged, an end of the grid chosen ...
    """

    label: str
    family: str
    scores: dict[int, float] = field(default_factory=dict)
    tasks: dict[int, list[float | None]] = field(default_factory=dict)
    inner: dict[int, float] = field(default_factory=dict)
    losses: dict[int, Array] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    chosen: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def score(self) -> float | None:
        """Mean over the splits, None without a number."""
        known = [value for value in self.scores.values() if not math.isnan(value)]
        return fmean(known) if known else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the splits, None below two of them."""
        return std(value for value in self.scores.values() if not math.isnan(value))

    @property
    def errors(self) -> list[str]:
        """What went wrong, each text once."""
        return list(dict.fromkeys(self.failures.values()))

    def task_means(self, splits: Sequence[int]) -> list[float | None]:
        """Return the mean of every task over the splits where it is defined."""
        return task_means([self.tasks[s] for s in splits if s in self.tasks])

    def over(self, splits: Iterable[int]) -> bool:
        """Whether all of these splits were computed, whatever came of them."""
        return all(s in self.losses or s in self.failures for s in splits)


@dataclass(frozen=True)
class Evaluation:
    """Which rows were tested in which split, and what a difference is measured in.

    Attributes
    ----------
    y : field
        Targets; labels -1/+1.
    layout : Layout
    rows : list of ndarray of int
        Test rows of every split; the folds of the first repeat, then those of the next one.
    new : list of ndarray of bool
        Which of them belong to tasks without training rows: they do not count.
    idle : list of ndarray of bool, shape (n_tasks,)
        Tasks whose training labels are of one class, by split: their AUC says nothing, as in the leaderboard. Empty for
        other measures.
    folds, repeats : int
    measure : str
        nMSE, AUC, error rate or log loss.
    smallest : float
        Smallest gain of interest.
    separate : bool
        Whether the test rows are a file of their own.
    blocks : bool
        Whether the units are blocks of time.
    metric : str
        Of the leaderboard.
    """

    y: Array
    layout: Layout
    rows: list[Array]
    new: list[Array]
    folds: int
    repeats: int
    measure: str
    smallest: float
    separate: bool = False
    blocks: bool = False
    metric: str = ""
    idle: list[Array] = field(default_factory=list)

    @cached_property
    def scales(self) -> Array:
        """Variance of every task."""
        return task_scales(self.y, self.layout)

    @cached_property
    def pairs(self) -> list[Array]:
        """Rows of the other class that every tested row is compared with, split by split."""
        every = [self._concordances(split, np.zeros(self.y[rows].shape))[1] for split, rows in enumerate(self.rows)]
        return [np.where(self._silent(split), np.nan, pairs) for split, pairs in enumerate(every)]

    def losses(self, split: int, scores: Array) -> Array:
        """Return the loss of every tested row, a field; of the AUC, how many rows it is ordered rightly with."""
        rows = self.rows[split]
        y = self.y[rows]
        scores = np.asarray(scores, dtype=float)
        if self.measure == AUC:
            found = self._concordances(split, scores)[0]
        elif self.measure == NMSE:
            ids = self.layout.task_id
            found = squared_losses(y, scores, self.scales, None if ids is None else ids[rows])
        else:
            found = (log_losses if self.measure == LOG_LOSS else error_losses)(y, scores)
        return np.where(self._silent(split), np.nan, found)

    def _silent(self, split: int) -> Array:
        """Return which entries of the test rows of a split do not count, in a shape that fits a field."""
        new, ids, rows = self.new[split], self.layout.task_id, self.rows[split]
        if not self.idle:
            return new if self.y.ndim == 1 else new[:, np.newaxis]
        idle = self.idle[split]
        return new | idle[ids[rows]] if ids is not None else new[:, np.newaxis] | idle

    def gain(self, first: Mapping[int, Array], second: Mapping[int, Array], repeats: int) -> Gain | None:
        """Return how much better some losses are than others, both by split, over the splits that both have."""
        return next(self._gains(first, second, repeats, [slice(None)]), None)

    def task_gains(self, first: Mapping[int, Array], second: Mapping[int, Array], repeats: int) -> list[Gain | None]:
        """Return the same for each task."""
        of = self.layout.task_id
        tasks = range(self.layout.n_tasks)
        return list(self._gains(first, second, repeats, [(slice(None), t) if of is None else of == t for t in tasks]))

    def _gains(
        self, first: Mapping[int, Array], second: Mapping[int, Array], repeats: int, parts: Iterable[Any]
    ) -> Iterator[Gain | None]:
        splits = [s for s in range(self.folds * repeats) if s in first and s in second]
        if not splits:
            return
        factor = correction(self.folds, repeats, self.separate)
        one, two = self._whole(first, splits), self._whole(second, splits)
        pairs = self._whole(dict(enumerate(self.pairs)), splits) if self.measure == AUC else None
        for part in parts:
            alone = np.full(one.shape, np.nan)
            alone[part] = one[part]  # the other field is compared where this one is known
            if pairs is None:
                yield relative_gain(alone, two, self.layout, factor)
            else:
                yield auc_gain(alone, two, pairs, self.y > 0, self.layout, factor)

    def _whole(self, parts: Mapping[int, Array], splits: list[int]) -> Array:
        """Return the mean of every row over the splits that tested it; of the AUC, the sum."""
        total, times = np.zeros(self.y.shape), np.zeros(self.y.shape)
        for split in splits:
            known = ~np.isnan(parts[split])
            total[self.rows[split]] += np.where(known, parts[split], 0.0)
            times[self.rows[split]] += known
        times = np.where(times > 0, times, np.nan)
        return total + 0 * times if self.measure == AUC else total / times

    def _concordances(self, split: int, scores: Array) -> tuple[Array, Array]:
        rows = self.rows[split]
        return concordances(self.y[rows], scores, self.layout, rows)

    @property
    def n_rows(self) -> int:
        """Rows that were tested."""
        return len(np.unique(np.concatenate(self.rows)))

    @property
    def n_new(self) -> int:
        """Tasks that were tested without training rows."""
        if self.layout.task_id is None:
            return 0
        found = [self.layout.task_id[rows[new]] for rows, new in zip(self.rows, self.new, strict=True)]
        return len(np.unique(np.concatenate(found)))


@dataclass(frozen=True)
class Strategy:
    """The methods that the inner scores choose, and their losses.

    Attributes
    ----------
    picked : dict of int to str
        Label by split.
    losses : dict of int to ndarray
        By split.
    """

    picked: dict[int, str]
    losses: dict[int, Array]

    @classmethod
    def of(cls, entries: Sequence[Entry], splits: Sequence[int]) -> Strategy | None:
        """Choose in every split; None where no method can be chosen in one of them."""
        members = [entry for entry in entries if entry.over(splits)]
        picked, losses = {}, {}
        for split in splits:
            able = [e for e in members if split in e.losses and not math.isnan(e.inner.get(split, math.nan))]
            if not able:
                return None
            best = min(able, key=lambda entry: entry.inner[split])
            picked[split], losses[split] = best.label, best.losses[split]
        return cls(picked, losses)

    @property
    def text(self) -> str:
        """What was chosen, and in how many splits."""
        found = Counter(self.picked.values()).most_common()
        if len(found) == 1:
            return f"{found[0][0]} in all {counted(len(self.picked), 'split')}"
        return f"{', '.join(f'{label} in {n}' for label, n in found)} of {counted(len(self.picked), 'split')}"


@dataclass(frozen=True)
class Answer:
    """The verdict of a comparison.

    Attributes
    ----------
    kind : str
        helps, no difference that matters, worse, cannot tell, or no verdict.
    sentence : str
        The answer, and what else must be known with it.
    details : list of str
        Support, statistics, what was chosen and what failed, a sentence each.
    gain : Gain or None
        Of the best multi-task strategy against the best one without it.
    independent, pooled : Gain or None
        Of the same against the best independent and the best pooled strategy.
    picked : dict of str to dict
        Strategy -> method -> number of training parts in which it was chosen.
    provisional : bool
        Whether only one repeat is done.
    brief : list of str
        The details for a terminal, without the names of tests.
    """

    kind: str
    sentence: str
    details: list[str] = field(default_factory=list)
    gain: Gain | None = None
    independent: Gain | None = None
    pooled: Gain | None = None
    picked: dict[str, dict[str, int]] = field(default_factory=dict)
    provisional: bool = False
    brief: list[str] = field(default_factory=list)


def kind_of(low: float, high: float, smallest: float, points: Iterable[float]) -> str:
    """Return the verdict for an interval; `points` are the gains over independent and over pooled models."""
    if high < 0:
        return WORSE
    if high < smallest:
        return NO_DIFFERENCE
    return HELPS if low > 0 and all(value > 0 for value in points) else CANNOT_TELL


def answer(entries: Sequence[Entry], tested: Evaluation) -> Answer:
    """Compare the best multi-task strategy with the best one without it, on as many repeats as are done."""
    sides: dict[str, Strategy | None] = {}
    repeats = tested.repeats
    for repeats in range(tested.repeats, 0, -1):
        splits = range(tested.folds * repeats)
        families = {**{family: (family,) for family in STRATEGIES}, WITHOUT: (INDEPENDENT, POOLED)}
        sides = {name: Strategy.of([e for e in entries if e.family in some], splits) for name, some in families.items()}
        if sides[MULTITASK] and sides[WITHOUT]:
            break
    joint, without = sides[MULTITASK], sides[WITHOUT]
    if joint is None or without is None:
        return Answer(NO_VERDICT, _nothing(entries, joint, range(tested.folds)))
    found = tested.gain(joint.losses, without.losses, repeats)
    why = _too_few(found, tested)
    if found is None or why:
        return Answer(NO_VERDICT, f"No verdict: {why}.")
    over = {f: tested.gain(joint.losses, side.losses, repeats) for f in STRATEGIES[1:] if (side := sides[f])}
    support = {f: gain for f, gain in over.items() if gain is not None}
    kind = kind_of(found.low, found.high, tested.smallest, [gain.value for gain in support.values()])
    provisional = not tested.separate and repeats < 2
    said = _Words(tested)
    sentence = "Provisional, from one repeat: " * provisional + said.sentence(kind, found)
    pooled, alone = sides[POOLED], sides[INDEPENDENT]
    if kind != HELPS and pooled and alone:
        one = tested.gain(pooled.losses, alone.losses, repeats)
        if one is not None and one.low > 0:
            better = said.end(one.value)
            sentence += (
                f" One model for all tasks helps: {better} than a model per task ({said.span(one.low, one.high)})."
            )
    sentence += _native(entries, joint, without, tested, repeats)
    chances = said.posterior(found)
    rest = [f"Chosen by inner cross-validation: multi-task: {joint.text}; baseline: {without.text}."]
    rest += _remarks(entries, tested, range(tested.folds * repeats), found)
    beaten = said.support(support, found)
    read = "(the interval read as a posterior with a flat prior)"
    details = [beaten, said.statistics(found, repeats), f"{chances} {read}.", *rest]
    brief = [beaten, said.interval(found), f"{chances}.", *rest]
    counts = {name: dict(Counter(side.picked.values())) for name, side in sides.items() if side}
    return Answer(
        kind, sentence, details, found, support.get(INDEPENDENT), support.get(POOLED), counts, provisional, brief
    )


def _nothing(entries: Sequence[Entry], joint: Strategy | None, splits: range) -> str:
    """Say why there is nothing to compare."""
    families = (MULTITASK,) if joint is None else (INDEPENDENT, POOLED)
    side = [e for e in entries if e.family in families]
    what = "multi-task method" if joint is None else "independent or pooled method"
    if not side:
        return f"No verdict: no {what} was compared."
    done = [e for e in side if e.over(splits)]
    if all(e.failures and not e.losses for e in side):
        return f"No verdict: every {what} failed."
    if failed := [s + 1 for s in splits if done and all(s in e.failures for e in done)]:
        return f"No verdict: every {what} failed in training part {failed[0]}."
    return f"No verdict yet: no {what} is finished on all {len(splits)} training parts."


def _too_few(gain: Gain | None, tested: Evaluation) -> str:
    """Return why there is no verdict, empty if there is one."""
    if gain is None:
        return "no task can be compared"
    if not tested.separate and tested.folds < 3:
        return "two folds cannot show how much scores vary; use at least three, preferably five"
    least, unit = (MIN_BLOCKS, "block") if tested.blocks else (MIN_UNITS, "row")
    if tested.layout.units is not None and not tested.blocks:
        unit = "group"
    if gain.units < least:
        return f"only {counted(gain.units, unit)} to test on, and {least} are needed"
    undefined = len(gain.tasks) - gain.better[1]
    if undefined > len(gain.tasks) / 2:
        return f"{undefined} of {len(gain.tasks)} tasks cannot be compared"
    return ""


def _native(entries: Sequence[Entry], joint: Strategy, without: Strategy, tested: Evaluation, repeats: int) -> str:
    """Name the best forest of several outputs, if it does better than both strategies."""
    found = []
    for entry in entries:
        if entry.family == NATIVE and entry.over(range(tested.folds * repeats)):
            gains = [tested.gain(entry.losses, side.losses, repeats) for side in (joint, without)]
            found.append((min((gain.value for gain in gains if gain is not None), default=0.0), entry.label))
    least, label = max(found, default=(0.0, ""))
    if least <= 0:
        return ""
    return f" {label} beats both by {_Words(tested).size(least)}, but it is a forest, not multi-task learning."


def _remarks(entries: Sequence[Entry], tested: Evaluation, splits: range, gain: Gain) -> list[str]:
    """Return what failed, what is unfinished, and what weakens the answer."""
    inside = [e for e in entries if e.family in STRATEGIES]
    failed = [
        f"{e.label} failed in {n} of {counted(len(splits), 'training part')}"
        for e in inside
        if (n := sum(s in e.failures for s in splits))
    ]
    waiting = [e.label for e in inside if not e.over(splits)]
    undefined = len(gain.tasks) - gain.better[1]
    many = len(gain.tasks) >= MANY_TASKS and len(tested.y) < SMALL_TASK * len(gain.tasks) and tested.y.ndim == 1
    remarks = {
        f"{'; '.join(failed)}, and could not be chosen there.": failed,
        f"Not part of the verdict because unfinished: {', '.join(waiting)}.": waiting,
        f"{counted(tested.n_new, 'task')} left out: no training rows.": tested.n_new,
        f"{counted(undefined, 'task')} left out: cannot be compared.": undefined,
        "With many tasks of few rows the interval is slightly too narrow.": many,
        "The interval holds for these fitted models, not for models trained on other rows.": tested.separate,
    }
    return [text for text, applies in remarks.items() if applies]


@dataclass(frozen=True)
class _Words:
    """The sentences of a verdict in the units of its measure."""

    tested: Evaluation

    @property
    def auc(self) -> bool:
        return self.tested.measure == AUC

    @property
    def error(self) -> str:
        return "error" if self.tested.measure == NMSE else self.tested.measure

    @property
    def data(self) -> str:
        return counted(self.tested.n_rows, "row")

    def number(self, value: float) -> str:
        if self.auc:
            return f"{value:.3f}"
        return f"{100 * value:.0f}" if abs(value) >= 0.0995 else f"{100 * value:.1f}".removesuffix(".0")

    def size(self, value: float) -> str:
        return self.number(value) + "%" * (not self.auc)

    def span(self, low: float, high: float) -> str:
        return f"{self.number(low)} to {self.size(high)}"

    def end(self, value: float) -> str:
        return f"{self.size(abs(value))} {'worse' if value < 0 else 'better'}"

    def sentence(self, kind: str, gain: Gain) -> str:
        low, high, least = gain.low, gain.high, self.size(self.tested.smallest)
        if kind == WORSE:
            amount, span = self.size(-gain.value), self.span(-high, -low)
            more = f"an AUC lower by {amount}" if self.auc else f"{amount} more {self.error}"
            return f"Multi-task learning does worse: {more} ({span}) than the best model without it."
        if kind == NO_DIFFERENCE:
            real = "the gain is real, but" if low > 0 else "any gain is"
            return f"Multi-task learning is not worth it: {real} below {least} ({self.span(low, high)})."
        if kind == HELPS:
            verb = "raises the AUC" if self.auc else f"reduces the {self.error}"
            span = self.span(low, high)
            if self.tested.metric == "rmse":
                span += f"; of the RMSE: {self.size(1 - math.sqrt(1 - min(gain.value, 1)))}"
            amount = self.size(gain.value)
            return f"Multi-task learning {verb} by {amount} ({span}) compared with the best model without it."
        return (
            f"Inconclusive: {self.end(low)} to {self.end(high)} ({self.data}); four times the rows would halve "
            "this range."
        )

    def support(self, gains: Mapping[str, Gain], main: Gain) -> str:
        name = {INDEPENDENT: "separate models", POOLED: "pooling"}
        texts = [f"{self.end(g.value)} than {name[f]} ({self.span(g.low, g.high)})" for f, g in gains.items()]
        better, of = main.better
        return (
            f"Multi-task learning: {', '.join(texts)}; beats the better baseline in {better} of {counted(of, 'task')}."
        )

    def statistics(self, gain: Gain, repeats: int) -> str:
        tested = self.tested
        how = f"{tested.folds} blocks of time" if tested.blocks else f"{tested.folds}-fold x{repeats}"
        how = "separate test rows" if tested.separate else how
        factor = correction(tested.folds, repeats, tested.separate)
        unit = "block" if tested.blocks else "row" if tested.layout.units is None else "group"
        return (
            f"Statistics: multi-task against the better baseline, {how}, {tested.measure}, G = {gain.value:.3f}, "
            f"95% CI {gain.low:.3f} to {gain.high:.3f}, p = {gain.pvalue:.2g} ({unit}-level Nadeau-Bengio, "
            f"c = {factor:.3g}, df = {gain.df:,})."
        )

    def interval(self, gain: Gain) -> str:
        overlap = "" if self.tested.separate else ", allowing for overlapping training rows"
        return f"95% interval {self.span(gain.low, gain.high)}, p = {gain.pvalue:.2g}{overlap}."

    def posterior(self, gain: Gain) -> str:
        above, within, below = gain.probabilities(self.tested.smallest)
        least = self.size(self.tested.smallest)
        return (
            f"{above:.0%} chance of improving by over {least}, {below:.0%} of getting worse by over {least}, "
            f"{within:.0%} of neither"
        )
