"""Leaderboard of a comparison, and the report that is made from it.

The report has the verdict, a row per method with its gain over a fixed reference, the
values of the tasks, and the gain by number of training rows. Its texts go into
leaderboard.md, leaderboard.json and leaderboard.html.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mtlrun.comparison.evaluation import (
    ERROR_RATE,
    LOG_LOSS,
    ComparedMethod,
    Evaluation,
)
from mtlrun.comparison.gain import Gain, SmallestGain
from mtlrun.comparison.schedule import BoardProgress
from mtlrun.comparison.verdict import (
    ALTERNATIVES,
    MULTITASK,
    NO_VERDICT,
    ComparisonVerdict,
    judge,
    most_frequent,
    strategies_of,
)
from mtlrun.data.dataset import Dataset
from mtlrun.errors import counted, listed
from mtlrun.metrics.registry import get_metric
from mtlrun.show.quantities import AUC, NMSE
from mtlrun.show.report_table import (
    Column,
    ReportTable,
    Section,
    json_text,
    markdown_section,
)
from mtlrun.utils.text import cleaned

#: Version of the format of leaderboard.json.
SCHEMA = 4
#: Number of methods in tables with a row per task.
MAX_COLUMNS = 8
#: Largest relative and absolute difference of scores that is taken for rounding.
EQUAL_REL_TOL = 1e-9
EQUAL_ABS_TOL = 1e-15


class TaskLoss(NamedTuple):
    """Task on which a method is worse than the reference.

    Attributes
    ----------
    task : str
    loss : float
        Difference of the mean scores, not negative.
    in_every_split : bool
        Whether the method is worse in every split, of at least two.
    """

    task: str
    loss: float
    in_every_split: bool


@dataclass
class Leaderboard:
    """A comparison, finished or not.

    Attributes
    ----------
    title, metric : str
    greater : bool
        Whether greater values of the metric are better.
    tasks : list of str
    sizes : list of int
        Number of rows of each task.
    entries : list of ComparedMethod
    evaluation : Evaluation
        Rows that were tested in each split.
    against : str
        Label of the reference: the method that all others are compared with.
    facts : list of str
        Data, split, search and preprocessing in sentences.
    left_out : list of str
        What was not tested or not finished, with the reason.
    interval_lines : list of str
        Share of test targets inside the intervals of the saved model, in sentences.
    progress : BoardProgress or None
        How far an unfinished comparison is; None for a finished one.
    """

    title: str
    metric: str
    greater: bool
    tasks: list[str]
    sizes: list[int]
    entries: list[ComparedMethod]
    evaluation: Evaluation
    against: str
    facts: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    interval_lines: list[str] = field(default_factory=list)
    progress: BoardProgress | None = None
    _gain_values: dict[tuple[str, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Names of tasks and columns, and the messages that quote them, come from the
        # user's table and may hold control characters.
        self.title = cleaned(self.title)
        self.tasks = cleaned(self.tasks)
        self.facts = cleaned(self.facts)
        self.left_out = cleaned(self.left_out)
        for entry in self.entries:
            failures = entry.failures.items()
            entry.failures = {split: cleaned(text) for split, text in failures}
            entry.notes = cleaned(entry.notes)

    @property
    def n_splits(self) -> int:
        """Number of splits that any method was tested on."""
        return max((len(entry.scores) for entry in self.entries), default=0)

    def ranked(self) -> list[ComparedMethod]:
        """Return the methods that have a score, best first.

        Methods that lack splits of the verdict come later, unless the comparison is
        still running. Then all rank by the gain, since their scores are of different
        splits. So do metrics of squared errors, whose gain divides errors by shrunken
        variances of the tasks. Other metrics rank by the score, as do all methods if
        one of them has no gain.
        """
        scored = [entry for entry in self.entries if entry.score is not None]
        base = self.reference
        values = {}
        is_running = self.progress is not None
        # Metrics of numbers are squared errors, which rank by the gain.
        is_squared = get_metric(self.metric).needs == "value"
        if base is not None and (is_running or is_squared):
            for entry in scored:
                # Gains of an unfinished comparison change with the number of finished
                # splits.
                key = (entry.label, len(entry.losses), len(base.losses))
                if entry is base:
                    self._gain_values[key] = 0.0
                elif key not in self._gain_values:
                    gain = self.gain(entry, base)
                    self._gain_values[key] = math.nan if gain is None else gain.value
                values[entry.label] = self._gain_values[key]
        if not values or any(math.isnan(value) for value in values.values()):
            for entry in scored:
                score = entry.score or 0.0
                values[entry.label] = score if self.greater else -score
        n_needed = 0
        if not is_running:
            # Splits in which strategies are compared.
            strategies, _ = strategies_of(self.entries, self.evaluation)
            n_splits = [len(strategy.selected) for strategy in strategies.values()]
            n_needed = max(n_splits, default=0)

        def place(entry: ComparedMethod) -> tuple[int, float]:
            n_missing = max(n_needed - len(entry.scores), 0)
            return n_missing, -values[entry.label]

        return sorted(scored, key=place)

    def best(self, *families: str) -> ComparedMethod | None:
        """Return the best method of some families, or of all without arguments."""
        for entry in self.ranked():
            if not families or entry.family in families:
                return entry
        return None

    @property
    def reference(self) -> ComparedMethod | None:
        """Method that the others are compared with; None without a score."""
        for entry in self.entries:
            if entry.label == self.against and entry.score is not None:
                return entry
        return None

    def gain(self, entry: ComparedMethod, other: ComparedMethod) -> Gain | None:
        """Return the gain of a method over another one.

        It depends on the losses of these two methods alone. Repeats count once both
        methods have finished all of them.
        """
        n_repeats = self.evaluation.n_repeats
        splits = range(self.evaluation.n_folds * n_repeats)
        if not entry.losses.keys() & other.losses.keys() >= set(splits):
            n_repeats = 1
        return self.evaluation.gain(entry.losses, other.losses, n_repeats)

    @cached_property
    def answer(self) -> ComparisonVerdict:
        """Verdict of the comparison."""
        return judge(self.entries, self.evaluation)

    def hurt(self, entry: ComparedMethod) -> list[TaskLoss]:
        """Return the tasks on which a method is worse than the reference, worst first.

        The list is empty without a reference.
        """
        base = self.reference
        if base is None:
            return []
        splits = sorted(set(entry.tasks) & set(base.tasks))
        means = zip(entry.task_means(splits), base.task_means(splits), strict=True)
        losses = []
        for t, (mean, base_mean) in enumerate(means):
            if mean is None or base_mean is None or equal_scores(mean, base_mean):
                continue
            if self._is_better(mean, base_mean):
                continue
            is_worse = []
            for split in splits:
                value = entry.tasks[split][t]
                base_value = base.tasks[split][t]
                if value is not None and base_value is not None:
                    is_worse.append(self._is_better(base_value, value))
            in_every_split = len(is_worse) > 1 and all(is_worse)
            losses.append(
                TaskLoss(self.tasks[t], abs(mean - base_mean), in_every_split)
            )
        return sorted(losses, key=lambda loss: -loss.loss)

    def _is_better(self, score: float, other: float) -> bool:
        if self.greater:
            return score > other
        return score < other


def equal_scores(a: float | None, b: float | None) -> bool:
    """Whether two scores differ by rounding errors at most."""
    if a is None or b is None:
        return False
    return math.isclose(a, b, rel_tol=EQUAL_REL_TOL, abs_tol=EQUAL_ABS_TOL)


# ---------------------------------------------------------------- the report


def next_steps(board: Leaderboard, saved: str = "") -> list[str]:
    """Return the recommendation, in at most two sentences.

    Nothing is recommended if the best method of the advised kind is `saved`, unless
    inner cross-validation selected another one.
    """
    best = board.best()
    if best is None:
        return []
    multitask = board.best(MULTITASK)
    if not any(entry.family == MULTITASK for entry in board.entries):
        return [
            "For a verdict, name a multi-task method, too: --methods HierarchicalMTL, "
            "for example, or --methods default. Until then use "
            f"{best.label}, which has the best score."
        ]
    if multitask is None or board.answer.decision == NO_VERDICT:
        return [
            "For a verdict, get more rows, or let more splits run (a larger --budget). "
            f"Until then use {best.label}, which has the best score."
        ]
    if not board.answer.advises_multitask:
        simple = board.best(*ALTERNATIVES) or best
        if simple.label == saved:
            return []
        return [
            f"{simple.label} has the best score of the models without multi-task "
            "learning."
        ]
    text = f"{multitask.label} has the best score of the multi-task methods"
    times_selected = board.answer.times_selected.get(MULTITASK)
    if times_selected and most_frequent(times_selected) != multitask.label:
        # Another method than the advised one may be best on the test rows.
        text = (
            f"{most_frequent(times_selected)} was selected most often by inner "
            f"cross-validation, which does not see the test rows; {text} on the test "
            "rows"
        )
    elif multitask.label == saved:
        return []
    text += "."
    always = [loss.task for loss in board.hurt(multitask) if loss.in_every_split]
    if always:
        text += (
            " First look at the tasks that it makes worse in every split: "
            f"{listed(always)}."
        )
    return [text]


#: Quantity that a gain is a share of, by `Evaluation.measure`.
_ERRORS = {NMSE: "squared error", ERROR_RATE: "error rate", LOG_LOSS: "log loss"}


def caption(board: Leaderboard) -> list[str]:
    """Return the sentences below the leaderboard, which explain its columns."""
    base = board.reference
    measure = board.evaluation.measure
    direction = "greater" if board.greater else "smaller"
    sentences = [
        f"{board.metric}: mean over the tasks and {counted(board.n_splits, 'split')}; "
        f"{direction} is better."
    ]
    if base is None or len(board.ranked()) < 2:
        return sentences
    if measure == AUC:
        meaning = (
            f"how far the AUC, averaged over the tasks, is above that of {base.label}"
        )
    else:
        meaning = (
            f"the share of the {_ERRORS[measure]} of {base.label}, averaged over the "
            "tasks, that a method removes"
        )
    sentences += [
        f"Gain ({measure}): {meaning}, with its 95% interval and p.",
        "The verdict's gains are computed differently: the methods selected in each "
        "split, compared with separate models and with one model for all tasks.",
    ]
    if board.metric == "rmse" and measure == NMSE:
        sentences.append(
            "Ranks are those of the gain, which weighs tasks equally; the RMSE weighs "
            "them by their scale."
        )
    elif get_metric(board.metric).needs == "value":
        sentences.append("Methods rank by the gain.")
    return [*sentences, "p is not corrected for multiple tests."]


def leaderboard_grid(board: Leaderboard) -> ReportTable:
    """Return the leaderboard: one row per method, stopped and failed ones last.

    Methods that have not run have no row; `left_out` names them.
    """
    grid = ReportTable.of(
        "rank:count",
        "method",
        "kind",
        Column(board.metric, "score"),
        "std:score",
        "gain:gain",
        "low:gain",
        "high:gain",
        "p (exploratory):pvalue",
        "better in",
        "splits:count",
        "seconds:fixed-2",
    )
    ranked = board.ranked()
    ranks: list[int] = []
    for position, entry in enumerate(ranked):
        if position and equal_scores(ranked[position - 1].score, entry.score):
            ranks.append(ranks[-1])
        else:
            ranks.append(position + 1)
    base = board.reference
    for rank, entry in zip(ranks, ranked, strict=True):
        # Gain, low, high, p and "better in".
        gain_cells: list[Any] = [None] * 5
        if entry is base:
            gain_cells[-1] = "reference"
        elif base is not None:
            gain = board.gain(entry, base)
            if gain is not None:
                n_better, n_tasks = gain.better
                better = f"{n_better} of {n_tasks}"
                gain_cells = [gain.value, gain.low, gain.high, gain.pvalue, better]
        grid.rows.append(
            [
                rank,
                entry.label,
                entry.family,
                entry.score,
                entry.score_std,
                *gain_cells,
                len(entry.scores),
                fmean(entry.seconds),
            ]
        )
    for entry in board.entries:
        if entry.score is None and (entry.stopped or entry.failures):
            state = "stopped" if entry.stopped else "failed"
            empty_numbers = [None] * len(("score", "std", "gain", "low", "high", "p"))
            row = [None, entry.label, entry.family, *empty_numbers, state, 0, None]
            grid.rows.append(row)
    return grid


def task_grid(board: Leaderboard, limit: int | None = None) -> ReportTable:
    """Return the value of each task for each method, best methods first.

    Parameters
    ----------
    board : Leaderboard
    limit : int, optional
        Number of methods. Default: all.
    """
    entries = board.ranked()[:limit]
    columns = [Column(entry.label, "score") for entry in entries]
    means = [entry.task_means(sorted(entry.tasks)) for entry in entries]
    rows = zip(board.tasks, board.sizes, *means, strict=True)
    return ReportTable.of("task", "rows:count", *columns, rows=rows)


def sections(board: Leaderboard) -> list[Section]:
    """Return the sections of the report that have content."""
    task_texts = []
    if len(board.ranked()) > MAX_COLUMNS:
        task_texts.append(f"The best {MAX_COLUMNS} methods; tasks.csv has all.")
    verdict = board.answer
    verdict_texts = [
        f"{verdict.headline}.",
        verdict.sentence,
        *next_steps(board),
        *_as_items(verdict.details),
    ]
    grid = ReportTable.of("method", "chosen", "notes")
    for entry in board.entries:
        texts = []
        for params in entry.chosen.values():
            parts = []
            for name, value in params.items():
                parts.append(f"{name.replace('estimator__', '')}={value}")
            if parts:
                texts.append(", ".join(parts))
        # Splits often choose the same parameters, which are listed once.
        chosen = "; ".join(dict.fromkeys(texts))
        notes = "; ".join([*entry.notes, *entry.errors])
        grid.rows.append([entry.label, chosen or "-", notes or "-"])
    all_sections = [
        Section("Verdict", verdict_texts),
        Section(
            "Leaderboard",
            [
                f"{' '.join(caption(board))} Std: standard deviation over the splits. "
                "Better in: tasks with less error than with the reference. Seconds: "
                "search and fit of one split."
            ],
            [leaderboard_grid(board)],
        ),
        Section("What was done", _as_items(board.facts)),
        Section("Stopped or left out", _as_items(board.left_out)),
        Section(
            "Parameters",
            ["Chosen in every split, by cross-validation inside its training part."],
            [grid],
        ),
        Section("Tasks", task_texts, [task_grid(board, MAX_COLUMNS)]),
    ]
    return [section for section in all_sections if not section.empty]


def _as_items(lines: Iterable[str]) -> list[str]:
    """Return lines as items of a list in Markdown."""
    return [f"* {line}" for line in lines]


def markdown(board: Leaderboard) -> str:
    """Return the content of leaderboard.md."""
    parts = [f"# {board.title}"]
    for section in sections(board):
        parts.append(markdown_section(section))
    return "\n\n".join(parts) + "\n"


def leaderboard_json(board: Leaderboard) -> str:
    """Return the content of leaderboard.json."""
    verdict = board.answer
    multitask = board.best(MULTITASK)
    hurt = []
    if multitask is not None:
        for task, loss, in_every_split in board.hurt(multitask):
            hurt.append({"task": task, "loss": loss, "every_split": in_every_split})
    tasks = []
    for task, n_rows in zip(board.tasks, board.sizes, strict=True):
        tasks.append({"task": task, "rows": n_rows})
    without_score = [entry for entry in board.entries if entry.score is None]
    base = board.reference
    methods = []
    for entry in [*board.ranked(), *without_score]:
        gain = None
        if base is not None and entry is not base and entry.losses:
            gain = board.gain(entry, base)
        methods.append(
            {
                "method": entry.label,
                "kind": entry.family,
                "score": entry.score,
                "std": entry.score_std,
                "gain": None if gain is None else _gain_json(gain, gain.pvalue),
                "seconds": entry.seconds,
                "fit_seconds": entry.fit_seconds,
                "scores": entry.scores,
                "inner": entry.inner,
                "tasks": entry.tasks,
                "chosen": entry.chosen,
                "notes": entry.notes,
                "errors": entry.errors,
            }
        )
    content = {
        "schema": SCHEMA,
        "title": board.title,
        "verdict": verdict.sentence,
        "answer": {
            "kind": verdict.decision,
            "headline": verdict.headline,
            "details": verdict.details,
            "measure": board.evaluation.measure,
            "smallest_gain": board.evaluation.smallest,
            "margin": board.evaluation.margin,
            "gain": _tested_gain_json(verdict.gain),
            "over_independent": _tested_gain_json(verdict.versus_separate),
            "over_pooled": _tested_gain_json(verdict.versus_pooled),
            "over_last_value": _tested_gain_json(verdict.versus_last_value),
            "best_bet": verdict.best_bet,
            "chance": verdict.chance,
            "at_worst": verdict.at_worst,
            "open_alternatives": verdict.open_alternatives,
            "what_decides": verdict.what_decides,
            "chosen": verdict.times_selected,
        },
        "metric": board.metric,
        "greater_is_better": board.greater,
        "splits": board.n_splits,
        "folds": board.evaluation.n_folds,
        "repeats": board.evaluation.n_repeats,
        "reference": board.against,
        "hurt": hurt,
        "tasks": tasks,
        "facts": board.facts,
        "left_out": board.left_out,
        "methods": methods,
    }
    return json_text(content)


def _tested_gain_json(gain: Gain | SmallestGain | None) -> dict[str, Any] | None:
    """Return a gain of the verdict with its bounds and its one-sided p-value."""
    if gain is None:
        return None
    if isinstance(gain, SmallestGain):
        return _gain_json(gain, gain.pvalue)
    return _gain_json(gain, gain.one_sided_pvalue)


def _gain_json(gain: Gain | SmallestGain, pvalue: float) -> dict[str, Any]:
    n_better, n_tasks = gain.better
    return {
        "value": gain.value,
        "low": gain.low,
        "high": gain.high,
        "pvalue": pvalue,
        "df": gain.df,
        "first": gain.first,
        "second": gain.second,
        "better": n_better,
        "of": n_tasks,
    }


# ---------------------------------------------------------------- gain by training rows

#: Shares of the training rows of each task that the comparison is repeated with.
PARTS = (0.1, 0.2, 0.5, 1.0)
CURVE_COLUMNS = (
    "part",
    "rows per task",
    "multi-task",
    "best alternative",
    "gain",
    "low",
    "high",
    "verdict",
)


def curve_of(
    answers: dict[float, ComparisonVerdict],
    dataset: Dataset,
    rows: Callable[[float], np.ndarray],
) -> pd.DataFrame:
    """Return a row per part of the training rows.

    Parameters
    ----------
    answers : dict of float to ComparisonVerdict
        Verdict after training on a part of the rows.
    dataset : Dataset
    rows : callable
        Returns the training rows of the first split for a part.

    Returns
    -------
    DataFrame
        ``part``, ``rows per task`` (the median), mean loss (or AUC) over the tasks of
        ``multi-task`` learning and of the ``best alternative`` to it, the smallest
        ``gain`` with the bounds of the verdict, ``low`` and ``high``, and ``verdict``.
        Cells are empty where there is no gain.
    """
    table_rows = []
    for part, verdict in sorted(answers.items()):
        gain = verdict.gain
        numbers: list[float | None] = [None] * 5
        if gain is not None:
            numbers = [gain.first, gain.second, gain.value, gain.low, gain.high]
        n_rows = rows_per_task(dataset, rows(part))
        table_rows.append([part, n_rows, *numbers, verdict.decision])
    return pd.DataFrame(table_rows, columns=list(CURVE_COLUMNS))


def rows_per_task(dataset: Dataset, rows: np.ndarray) -> float:
    """Return the median number of targets of a task among some rows."""
    if dataset.task_id is None:
        n_targets = (~np.isnan(dataset.y[rows])).sum(axis=0)
    else:
        n_targets = np.bincount(dataset.task_id[rows], minlength=dataset.n_tasks)
    return float(np.median(n_targets))


def curve_grid(curve: pd.DataFrame) -> ReportTable:
    """Return the curve as a table of the report."""
    kinds = {
        "part": "fixed-2",
        "rows per task": "count",
        "gain": "gain",
        "low": "gain",
        "high": "gain",
        "verdict": "text",
    }
    columns = [Column(name, kinds.get(name, "score")) for name in curve.columns]
    grid = ReportTable(columns)
    known_values = curve.astype(object).where(curve.notna(), None)
    grid.rows += map(list, known_values.itertuples(index=False))
    return grid
