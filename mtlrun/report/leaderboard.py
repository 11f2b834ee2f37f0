"""The report of `mtlrun compare`: how methods stand against independent learning, the verdict, tasks that are hurt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtlrun.errors import counted
from mtlrun.report.grid import Column, Grid, Section, json_text, markdown_section, show
from mtlrun.report.run import mean, std
from mtlrun.report.statistics import holm_adjusted, task_means
from mtlrun.stats import PairedTest, average_ranks, paired_test
from mtlrun.utils.text import cleaned

SCHEMA = 1
LEVEL = 0.05
#: Tasks named in the verdict, methods shown in tables per task.
MAX_NAMED, MAX_COLUMNS = 8, 8
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
        return task_means([self.tasks[s] for s in splits if s in self.tasks])

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the splits, None below two of them."""
        return std(value for value in self.scores.values() if not math.isnan(value))


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

    def test(self, entry: Entry, other: Entry) -> tuple[PairedTest | None, str]:
        """Test one method against another: signed ranks over tasks, with few tasks the corrected t over splits."""
        gains = [gain for gain in self.gains(entry, other) if gain is not None]
        if len(gains) >= MIN_TASKS:
            return paired_test(gains, [0.0] * len(gains)), "tasks"
        splits = sorted(set(entry.scores) & set(other.scores))
        if len(splits) < 2:
            return None, ""
        first, second = [entry.scores[s] for s in splits], [other.scores[s] for s in splits]
        return paired_test(first, second, "corrected_t", test_over_train=self.test_over_train), "splits"

    def against_reference(self) -> dict[str, Versus]:
        """Return every method against independent learning; p-values also adjusted by Holm's method."""
        base = self.reference
        if base is None:
            return {}
        others = [e for e in self.judged() if e is not base]
        tests = [self.test(e, base) for e in others]
        adjusted = holm_adjusted([test for test, _ in tests])
        found = {}
        for entry, (test, unit), corrected in zip(others, tests, adjusted, strict=True):
            gains = [gain for gain in self.gains(entry, base) if gain is not None]
            found[entry.label] = Versus(
                wins=sum(gain > 0 for gain in gains),
                ties=sum(gain == 0 for gain in gains),
                losses=sum(gain < 0 for gain in gains),
                gain=mean(gains) if gains else float("nan"),
                pvalue=None if test is None else test.pvalue,
                adjusted=corrected,
                unit=unit,
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


# ---------------------------------------------------------------- the report


def verdict(board: Board) -> str:
    """Say in one sentence whether multi-task learning helped, and which tasks it hurt."""
    joint, base = board.best(MULTITASK), board.reference
    if joint is None or base is None:
        return _no_verdict(board)
    versus = board.against_reference()[joint.label]
    numbers = (
        f"{joint.label} has {board.metric} {show(joint.score, 'score')} against {show(base.score, 'score')} of "
        f"{base.label}, better on {versus.wins} of {versus.wins + versus.ties + versus.losses} tasks"
        f"{_evidence(versus)}"
    )
    sure = versus.adjusted is not None and versus.adjusted <= LEVEL and not _tied(joint, base)
    better, worse = sure and versus.gain > 0, sure and versus.gain < 0
    rival = next(e for e in board.judged() if e.family != MULTITASK)
    beaten = board.judged()[0].family == MULTITASK or _tied(joint, rival)
    if better and beaten:
        text = f"Multi-task learning helped: {numbers}."
    elif better:
        text = (
            f"Multi-task learning helped against independent learning ({numbers}), but {rival.label} "
            f"({show(rival.score, 'score')}) does better without it."
        )
    elif worse:
        text = f"Multi-task learning hurt: {numbers}."
    elif beaten:
        text = f"Multi-task learning made no clear difference: {numbers}."
    else:
        text = (
            f"Multi-task learning made no clear difference ({numbers}), and {rival.label} "
            f"({show(rival.score, 'score')}) does better without it."
        )
    return text + _hurt_text(board, joint, base) + _reduced_text(board)


def _no_verdict(board: Board) -> str:
    """Say why there is no verdict: a side has no method, or only a part of the grids of its methods was searched."""
    found = {e.family for e in board.ranked()}
    if MULTITASK not in found:
        return "No multi-task method finished, so nothing can be said about multi-task learning here."
    if not board.reduced():
        return "No method that learns every task alone finished, so nothing can be said about multi-task learning here."
    side = "multi-task method" if board.best(MULTITASK) is None else "method that learns every task alone"
    return (
        f"No verdict on multi-task learning: no {side} was searched over its whole grid within the budget. "
        f"A larger budget, or fewer methods, would give one.{_reduced_text(board)}"
    )


def _reduced_text(board: Board) -> str:
    """Name the methods that the verdict leaves out."""
    names = [e.label for e in board.reduced()]
    if not names:
        return ""
    return f" Not part of the verdict, as the budget reduced their search: {', '.join(names)}."


def _evidence(versus: Versus) -> str:
    if versus.adjusted is None:
        return " (one split: no test)"
    return f" (p = {show(versus.adjusted, 'small')}, paired over {versus.unit}, Holm)"


def _hurt_text(board: Board, joint: Entry, base: Entry) -> str:
    hurt = board.hurt(joint)
    if not hurt:
        return f" It made no task worse than {base.label}."
    always = [name for name, _, every in hurt if every]
    count = len(hurt)
    text = f" It hurt {counted(count, 'task')}"
    if board.n_splits > 1:
        text += ", in every split" if len(always) == count else f", {len(always) or 'none'} of them in every split"
    names = [*always, *(name for name, _, every in hurt if not every)]
    more = f" and {count - MAX_NAMED} more" if count > MAX_NAMED else ""
    return f"{text}: {', '.join(names[:MAX_NAMED])}{more}."


def leaderboard_grid(board: Board) -> Grid:
    """Return the leaderboard: one row per method, failed ones last."""
    columns = [
        Column("rank", "count"),
        Column("method"),
        Column("kind"),
        Column(board.metric, "score"),
        Column("std", "score"),
        Column("avg rank", "seconds"),
        Column("seconds", "seconds"),
        Column("win-tie-loss"),
        Column("p", "small"),
        Column("p (Holm)", "small"),
    ]
    if board.reduced():
        columns.append(Column("searched"))
    grid = Grid(columns)
    versus, ranks, base = board.against_reference(), board.average_ranks(), board.reference
    places: dict[str, int] = {}
    for place, entry in enumerate(board.ranked(), start=1):
        above = board.ranked()[place - 2] if place > 1 else None
        places[entry.label] = places[above.label] if above and equal_scores(above.score, entry.score) else place
        found = versus.get(entry.label)
        wins = "reference" if entry is base else f"{found.wins}-{found.ties}-{found.losses}" if found else None
        grid.rows.append(
            [
                places[entry.label],
                entry.label,
                entry.family,
                entry.score,
                entry.deviation,
                ranks.get(entry.label),
                mean(entry.seconds),
                wins,
                found and found.pvalue,
                found and found.adjusted,
                entry.searched or "all",
            ]
        )
    for entry in board.entries:
        if entry.score is None:
            grid.rows.append([None, entry.label, entry.family, *[None] * 4, "failed", None, None, None])
    grid.rows = [row[: len(columns)] for row in grid.rows]
    return grid


def task_grid(board: Board, limit: int | None = None) -> Grid:
    """Return the value of every task for every method, best methods first; at most `limit` methods."""
    shown = board.ranked()[:limit]
    columns = [Column("task"), Column("rows", "count"), *(Column(e.label, "score") for e in shown)]
    means = [e.task_means(sorted(e.tasks)) for e in shown]
    rows: list[list[Any]] = [
        [name, size, *(values[t] for values in means)]
        for t, (name, size) in enumerate(zip(board.tasks, board.sizes, strict=True))
    ]
    return Grid(columns, rows)


def sections(board: Board) -> list[Section]:
    """Return the sections of the report."""
    base = board.reference
    explanation = (
        f"{board.metric}: mean over the tasks, then over {counted(board.n_splits, 'split')}; "
        f"{'greater' if board.greater else 'smaller'} is better. Seconds: search and fit of one split. Wins, ties and "
        f"losses: tasks against {base.label if base else 'nothing'}, the best of the independent methods; p: paired "
        f"test of the same (signed ranks over tasks, with fewer than {MIN_TASKS} tasks the corrected t over splits)."
    )
    if board.reduced():
        explanation += (
            " Searched: the part of its grid that the budget left a method. Where it is not all, the score may be too "
            "poor: such a method is neither tested nor part of the verdict."
        )
    search = Grid([Column("method"), Column("chosen"), Column("notes")])
    for entry in board.entries:
        chosen = "; ".join(dict.fromkeys(_params_text(c) for c in entry.chosen.values() if c))
        search.rows.append([entry.label, chosen or "-", "; ".join([*entry.notes, *entry.errors]) or "-"])
    many = len(board.ranked()) > MAX_COLUMNS
    found = [
        Section("Verdict", [verdict(board)]),
        Section("Leaderboard", [explanation], [leaderboard_grid(board)]),
        Section("What was done", [f"* {line}" for line in board.facts]),
        Section("Left out", [f"* {line}" for line in board.left_out]),
        Section("Parameters", ["Chosen in every split, by cross-validation inside its training part."], [search]),
        Section(
            "Tasks",
            [f"The best {MAX_COLUMNS} methods; tasks.csv has all."] * many,
            [task_grid(board, MAX_COLUMNS)],
        ),
    ]
    return [section for section in found if not section.empty]


def markdown(board: Board) -> str:
    """Return leaderboard.md."""
    blocks = [f"# {board.title}", *(markdown_section(section) for section in sections(board))]
    return "\n\n".join(blocks) + "\n"


def leaderboard_json(board: Board) -> str:
    """Return leaderboard.json."""
    versus, ranks, joint = board.against_reference(), board.average_ranks(), board.best(MULTITASK)
    entries = []
    for entry in [*board.ranked(), *(e for e in board.entries if e.score is None)]:
        found = versus.get(entry.label)
        entries.append(
            {
                "method": entry.label,
                "kind": entry.family,
                "score": entry.score,
                "std": entry.deviation,
                "average_rank": ranks.get(entry.label),
                "seconds": entry.seconds,
                "fit_seconds": entry.fit_seconds,
                "versus_independent": None if found is None else vars(found),
                "scores": entry.scores,
                "tasks": entry.tasks,
                "chosen": entry.chosen,
                "searched": entry.searched or "all",
                "notes": entry.notes,
                "errors": entry.errors,
            }
        )
    content = {
        "schema": SCHEMA,
        "title": board.title,
        "verdict": verdict(board),
        "metric": board.metric,
        "greater_is_better": board.greater,
        "splits": board.n_splits,
        "reference": board.reference.label if board.reference else None,
        "hurt": [{"task": t, "loss": loss, "every_split": e} for t, loss, e in board.hurt(joint)] if joint else [],
        "tasks": [{"task": t, "rows": n} for t, n in zip(board.tasks, board.sizes, strict=True)],
        "facts": board.facts,
        "left_out": board.left_out,
        "methods": entries,
    }
    return json_text(content)


def _params_text(params: dict[str, Any]) -> str:
    shown = {name.replace("estimator__", ""): value for name, value in params.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _tied(entry: Entry, other: Entry) -> bool:
    """Whether the scores of two methods read the same, so that neither is called better."""
    return show(entry.score, "score") == show(other.score, "score")
