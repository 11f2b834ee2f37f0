"""The report of `mtlrun compare`: the verdict, every method against a fixed one, tasks hurt, the gain curve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.comparison.evaluation import (
    AUC,
    ERROR_RATE,
    LOG_LOSS,
    NMSE,
    ComparedMethod,
    Evaluation,
)
from mtlrun.comparison.gain import Gain, SmallestGain
from mtlrun.comparison.verdict import (
    ALTERNATIVES,
    CANNOT_TELL,
    HELPS,
    MULTITASK,
    NO_VERDICT,
    ComparisonVerdict,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.errors import counted, listed
from mtlrun.tables.report_table import (
    Column,
    ReportTable,
    Section,
    json_text,
    markdown_section,
)
from mtlrun.utils.text import cleaned

SCHEMA = 3
#: Metrics of squared errors, which rank by the gain.
SQUARED_METRICS = (
    "rmse",
    "mse",
    "nmse",
    "nmse_all",
    "nmse_shrunken",
    "r2",
    "r2_shrunken",
    "explained_variance",
)
#: Methods shown in tables per task.
MAX_COLUMNS = 8


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
        Rows of every task.
    entries : list of ComparedMethod
    evaluation : Evaluation
        The rows that were tested in every split.
    against : str
        Label of the method that every other one is compared with in the leaderboard.
    facts : list of str
        Data, split, search and preprocessing in sentences.
    left_out : list of str
        What was not run, and why.
    interval_lines : list of str
        How many test targets lie in the intervals of the saved model.
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
    _gain_values: dict[tuple[str, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Names of tasks and columns, and messages that quote them, come from the user's table.
        self.title, self.tasks = cleaned(self.title), cleaned(self.tasks)
        self.facts, self.left_out = cleaned(self.facts), cleaned(self.left_out)
        for entry in self.entries:
            entry.failures = {
                split: cleaned(text) for split, text in entry.failures.items()
            }
            entry.notes = cleaned(entry.notes)

    @property
    def n_splits(self) -> int:
        """Number of splits that any method was tested on."""
        return max((len(entry.scores) for entry in self.entries), default=0)

    def ranked(self) -> list[ComparedMethod]:
        """Return the methods that have a score, the best first.

        Methods with fewer splits than others come later. Metrics of squared errors rank
        by the gain, which divides errors by shrunken variances of the tasks; other
        metrics, and methods without a gain, by their score.
        """
        sign = -1.0 if self.greater else 1.0
        base = self.reference
        scored = [e for e in self.entries if e.score is not None]
        values: dict[str, float] = {}
        if base is not None and self.metric in SQUARED_METRICS:
            values = {e.label: self._gain_value(e, base) for e in scored}
        if not values or any(math.isnan(value) for value in values.values()):
            values = {e.label: -sign * (e.score or 0.0) for e in scored}
        return sorted(scored, key=lambda e: (-len(e.scores), -values[e.label]))

    def _gain_value(self, entry: ComparedMethod, base: ComparedMethod) -> float:
        """Return the gain of a method over the reference, NaN where there is none."""
        if entry is base:
            return 0.0
        key = (entry.label, len(entry.losses), len(base.losses))
        if key not in self._gain_values:
            gain = self.gain(entry, base)
            self._gain_values[key] = math.nan if gain is None else gain.value
        return self._gain_values[key]

    def best(self, *families: str) -> ComparedMethod | None:
        """Return the method of some families (of all without any) with the best score."""
        return next(
            (e for e in self.ranked() if not families or e.family in families), None
        )

    @property
    def reference(self) -> ComparedMethod | None:
        """The method that the others are compared with, if it has a score."""
        return next(
            (
                e
                for e in self.entries
                if e.label == self.against and e.score is not None
            ),
            None,
        )

    def gain(self, entry: ComparedMethod, other: ComparedMethod) -> Gain | None:
        """Return how much better a method is than another: a function of the losses of these two alone."""
        return self.evaluation.gain(
            entry.losses, other.losses, self._repeats(entry, other)
        )

    def _repeats(self, entry: ComparedMethod, other: ComparedMethod) -> int:
        done = range(self.evaluation.n_folds * self.evaluation.n_repeats)
        return (
            self.evaluation.n_repeats
            if all(s in entry.losses and s in other.losses for s in done)
            else 1
        )

    @cached_property
    def answer(self) -> ComparisonVerdict:
        """The verdict."""
        return judge(self.entries, self.evaluation)

    def hurt(self, entry: ComparedMethod) -> list[tuple[str, float, bool]]:
        """Return the tasks that a method makes worse than the reference does, the worst first.

        Each with its loss and whether it is worse in every split (of at least two).
        """
        base = self.reference
        if base is None:
            return []
        sign = 1.0 if self.greater else -1.0
        splits = sorted(set(entry.tasks) & set(base.tasks))
        found = []
        means = zip(
            self.tasks, entry.task_means(splits), base.task_means(splits), strict=True
        )
        for t, (name, ours, theirs) in enumerate(means):
            if (
                ours is None
                or theirs is None
                or equal_scores(ours, theirs)
                or sign * ours > sign * theirs
            ):
                continue
            pairs = [(entry.tasks[s][t], base.tasks[s][t]) for s in splits]
            worse = [
                sign * a < sign * b for a, b in pairs if a is not None and b is not None
            ]
            found.append((name, abs(ours - theirs), len(worse) > 1 and all(worse)))
        return sorted(found, key=lambda item: -item[1])


def equal_scores(a: float | None, b: float | None) -> bool:
    """Whether two scores differ by rounding errors at most."""
    return (
        a is not None
        and b is not None
        and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)
    )


# ---------------------------------------------------------------- the report


def next_steps(board: Leaderboard) -> list[str]:
    """Return what to do next, in two sentences at most."""
    joint, best, kind = board.best(MULTITASK), board.best(), board.answer.decision
    if best is None:
        return []
    if joint is None or kind in (CANNOT_TELL, NO_VERDICT):
        return [
            "To decide, get more rows, or let more splits run (--repeats, a larger --budget). "
            f"Until then use {best.label}, which has the best score."
        ]
    if kind != HELPS:
        simple = board.best(*ALTERNATIVES)
        return [
            f"{(simple or best).label} has the best score of the models without multi-task learning."
        ]
    always = [name for name, _, every in board.hurt(joint) if every]
    text = f"{joint.label} has the best score of the multi-task methods."
    if always:
        text += f" First look at the tasks that it makes worse in every split: {listed(always)}."
    return [text]


#: What gains are shares of, by `Evaluation.measure`.
_ERRORS = {NMSE: "squared error", ERROR_RATE: "error rate", LOG_LOSS: "log loss"}


def caption(board: Leaderboard) -> str:
    """Return what the columns of the leaderboard mean, in a few sentences."""
    base, n = board.reference, max(len(board.ranked()) - 1, 0)
    text = (
        f"{board.metric}: mean over the tasks and {counted(board.n_splits, 'split')}; "
        f"{'greater' if board.greater else 'smaller'} is better."
    )
    if base is None or not n:
        return text
    measure = board.evaluation.measure
    what = f"how far the AUC, averaged over the tasks, is above that of {base.label}"
    if measure != AUC:
        what = f"the share of the {_ERRORS[measure]} of {base.label}, averaged over the tasks, that a method removes"
    gain = (
        f"{text} Gain ({measure}): {what}, with its 95% interval and p. The verdict's gains are computed differently: "
        "the methods selected in each split, compared with separate models and with one model for all tasks."
    )
    if (board.metric, board.evaluation.measure) == ("rmse", NMSE):
        gain += " Ranks are those of the gain, which weighs tasks equally; the RMSE weighs them by their scale."
    return f"{gain} p is not corrected for multiple tests."


def leaderboard_grid(board: Leaderboard) -> ReportTable:
    """Return the leaderboard: one row per method, failed ones last."""
    numbers = (
        Column(board.metric, "score"),
        "std:score",
        "gain:gain",
        "low:gain",
        "high:gain",
    )
    rest = ("p (exploratory):small", "better in", "splits:count", "seconds:seconds")
    grid = ReportTable.of("rank:count", "method", "kind", *numbers, *rest)
    base = board.reference
    places: dict[str, int] = {}
    ranked = board.ranked()
    for place, entry in enumerate(ranked, start=1):
        above = ranked[place - 2] if place > 1 else None
        places[entry.label] = (
            places[above.label]
            if above and equal_scores(above.score, entry.score)
            else place
        )
        found = (
            board.gain(entry, base) if base is not None and entry is not base else None
        )
        gain = (
            [None] * 4
            if found is None
            else [found.value, found.low, found.high, found.pvalue]
        )
        wins = (
            "reference"
            if entry is base
            else None
            if found is None
            else "{} of {}".format(*found.better)
        )
        head = [
            places[entry.label],
            entry.label,
            entry.family,
            entry.score,
            entry.score_std,
        ]
        grid.rows.append([*head, *gain, wins, len(entry.scores), fmean(entry.seconds)])
    for entry in board.entries:
        if entry.score is None:
            state = "failed" if entry.failures else None
            if entry.stopped:
                state = "stopped"
            grid.rows.append(
                [
                    None,
                    entry.label,
                    entry.family,
                    *[None] * 6,
                    state,
                    0 if state else None,
                    None,
                ]
            )
    return grid


def task_grid(board: Leaderboard, limit: int | None = None) -> ReportTable:
    """Return the value of every task for every method, best methods first; at most `limit` methods."""
    shown = board.ranked()[:limit]
    rows = zip(
        board.tasks,
        board.sizes,
        *(e.task_means(sorted(e.tasks)) for e in shown),
        strict=True,
    )
    return ReportTable.of(
        "task", "rows:count", *(Column(e.label, "score") for e in shown), rows=rows
    )


def sections(board: Leaderboard) -> list[Section]:
    """Return the sections of the report."""
    search = ReportTable.of("method", "chosen", "notes")
    for entry in board.entries:
        chosen = "; ".join(
            dict.fromkeys(_params_text(c) for c in entry.chosen.values() if c)
        )
        search.rows.append(
            [
                entry.label,
                chosen or "-",
                "; ".join([*entry.notes, *entry.errors]) or "-",
            ]
        )
    many = len(board.ranked()) > MAX_COLUMNS
    found = [
        Section(
            "Verdict",
            [
                f"{board.answer.headline}.",
                board.answer.sentence,
                *next_steps(board),
                *(f"* {line}" for line in board.answer.details),
            ],
        ),
        Section(
            "Leaderboard",
            [
                f"{caption(board)} Std: standard deviation over the splits. "
                "Better in: tasks with less error than with the reference. Seconds: search and fit of one split."
            ],
            [leaderboard_grid(board)],
        ),
        Section("What was done", [f"* {line}" for line in board.facts]),
        Section("Left out", [f"* {line}" for line in board.left_out]),
        Section(
            "Parameters",
            ["Chosen in every split, by cross-validation inside its training part."],
            [search],
        ),
        Section(
            "Tasks",
            [f"The best {MAX_COLUMNS} methods; tasks.csv has all."] * many,
            [task_grid(board, MAX_COLUMNS)],
        ),
    ]
    return [section for section in found if not section.empty]


def markdown(board: Leaderboard) -> str:
    """Return leaderboard.md."""
    has_time_blocks = [
        f"# {board.title}",
        *(markdown_section(section) for section in sections(board)),
    ]
    return "\n\n".join(has_time_blocks) + "\n"


def leaderboard_json(board: Leaderboard) -> str:
    """Return leaderboard.json."""
    joint, base, found = board.best(MULTITASK), board.reference, board.answer
    entries = []
    for entry in [*board.ranked(), *(e for e in board.entries if e.score is None)]:
        gain = (
            board.gain(entry, base)
            if base is not None and entry is not base and entry.losses
            else None
        )
        names = (
            "seconds",
            "fit_seconds",
            "scores",
            "inner",
            "tasks",
            "chosen",
            "notes",
            "errors",
        )
        head = {
            "method": entry.label,
            "kind": entry.family,
            "score": entry.score,
            "std": entry.score_std,
        }
        entries.append(
            {
                **head,
                "gain": _gain_json(gain),
                **{name: getattr(entry, name) for name in names},
            }
        )
    content = {
        "schema": SCHEMA,
        "title": board.title,
        "verdict": found.sentence,
        "answer": {
            "kind": found.decision,
            "headline": found.headline,
            "details": found.details,
            "provisional": found.provisional,
            "measure": board.evaluation.measure,
            "smallest_gain": board.evaluation.smallest,
            "gain": _gain_json(found.gain),
            "over_independent": _gain_json(found.versus_separate),
            "over_pooled": _gain_json(found.versus_pooled),
            "chosen": found.times_selected,
        },
        "metric": board.metric,
        "greater_is_better": board.greater,
        "splits": board.n_splits,
        "folds": board.evaluation.n_folds,
        "repeats": board.evaluation.n_repeats,
        "reference": board.against,
        "hurt": [
            {"task": t, "loss": loss, "every_split": e}
            for t, loss, e in board.hurt(joint)
        ]
        if joint
        else [],
        "tasks": [
            {"task": t, "rows": n}
            for t, n in zip(board.tasks, board.sizes, strict=True)
        ],
        "facts": board.facts,
        "left_out": board.left_out,
        "methods": entries,
    }
    return json_text(content)


def _gain_json(gain: Gain | SmallestGain | None) -> dict[str, Any] | None:
    if gain is None:
        return None
    names = ("value", "low", "high", "pvalue", "df", "first", "second")
    numbers = {
        name: value if math.isfinite(value := getattr(gain, name)) else None
        for name in names
    }
    better, of = gain.better
    return {**numbers, "better": better, "of": of}


def _params_text(params: dict[str, Any]) -> str:
    shown = {name.replace("estimator__", ""): value for name, value in params.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


# ---------------------------------------------------------------------- the gain against the rows per task

#: Parts of the training rows of every task.
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
        The verdict after training on a part of the rows.
    dataset : Dataset
    rows : callable
        Returns the training rows of the first split for a part.

    Returns
    -------
    DataFrame
        ``part, rows per task`` (the median), mean loss (or AUC) over the tasks of
        ``multi-task`` learning and of the ``best alternative`` to it, the smaller
        ``gain`` with its 95 % interval ``low, high``, and ``verdict``. Empty cells
        where there is no gain to tell.
    """
    found = []
    for part, verdict in sorted(answers.items()):
        gain = verdict.gain
        numbers = (
            [None] * 5
            if gain is None
            else [gain.first, gain.second, gain.value, gain.low, gain.high]
        )
        found.append(
            [part, rows_per_task(dataset, rows(part)), *numbers, verdict.decision]
        )
    return pd.DataFrame(found, columns=list(CURVE_COLUMNS))


def rows_per_task(dataset: Dataset, rows: np.ndarray) -> float:
    """Return the median number of targets of a task among some rows."""
    if dataset.task_id is not None:
        return float(
            np.median(np.bincount(dataset.task_id[rows], minlength=dataset.n_tasks))
        )
    return float(np.median((~np.isnan(dataset.y[rows])).sum(axis=0)))


def curve_grid(curve: pd.DataFrame) -> ReportTable:
    """Return the curve as a table of the report."""
    kinds = {"part": "seconds", "rows per task": "count", "verdict": "text"}
    kinds |= dict.fromkeys(("gain", "low", "high"), "gain")
    rows: list[list[Any]] = [
        [None if pd.isna(v) else v for v in row]
        for row in curve.itertuples(index=False)
    ]
    return ReportTable(
        [Column(name, kinds.get(name, "score")) for name in curve.columns], rows
    )


def curve_text(evaluation: Evaluation) -> str:
    """Say what the table of the curve shows."""
    return (
        "Multi-task learning and the better of separate models and one model for all tasks, trained on parts of the "
        "rows of every task and tested on the same rows. Multi-task and best alternative: mean over the tasks of the "
        f"{evaluation.measure}; gain: as in the verdict, with its 95% interval."
    )
