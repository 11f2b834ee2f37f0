"""The report of `mtlrun compare`: leaderboard, verdict on multi-task learning, tasks that it hurts."""

from __future__ import annotations

import json
import math
from typing import Any

from mtlrun.errors import counted
from mtlrun.report.board import MIN_TASKS, MULTITASK, Board, Entry, Versus, equal_scores
from mtlrun.report.table import mean, std
from mtlrun.report.text import Column, Grid, Section, exact, markdown_section, show

SCHEMA = 1
LEVEL = 0.05
#: Tasks named in the verdict, methods shown in tables per task.
MAX_NAMED, MAX_COLUMNS = 8, 8


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
                _deviation(entry),
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


def json_text(board: Board) -> str:
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
                "std": _deviation(entry),
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
    return json.dumps(exact(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _params_text(params: dict[str, Any]) -> str:
    shown = {name.replace("estimator__", ""): value for name, value in params.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _deviation(entry: Entry) -> float | None:
    return std(value for value in entry.scores.values() if not math.isnan(value))


def _tied(entry: Entry, other: Entry) -> bool:
    """Whether the scores of two methods read the same, so that neither is called better."""
    return show(entry.score, "score") == show(other.score, "score")
