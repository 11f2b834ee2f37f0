"""``mtlrun status``: what is done, what is missing, and why something would be recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mtlrun.cli import options
from mtlrun.cli.console import say, say_columns, say_json
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import counted

if TYPE_CHECKING:
    from mtlrun.runs.plan import CellState, Plan

STATES = ("done", "failed", "damaged", "outdated", "missing")


def status(
    target: options.Target,
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    reading: options.Reading = None,
    seed: options.Seed = None,
    only: options.Only = None,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show how many cells of an experiment are done, failed, out of date or missing, and why."""
    from mtlrun.runs.load import load_experiment
    from mtlrun.runs.plan import other_versions, plan, rerun_reasons, survey, unused_cells

    experiment = load_experiment(target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir)
    made = plan(experiment, data_dir=data_dir, only=only, reading=reading, output=output_dir)
    states = survey(made)
    if as_json:
        cells = [
            {
                "reading": row.reading,
                "dataset": row.dataset,
                "method": row.method,
                "trial": row.trial,
                "key": row.cell.key,
            }
            | {"state": state.name, "reason": state.reason}
            for row, state in zip(made.rows, states, strict=True)
            if row.wanted
        ]
        facts = {"id": experiment.id, "profile": experiment.profile, "folder": str(made.folder)}
        say_json({**facts, "counts": Counter(cell["state"] for cell in cells), "cells": cells})
        return
    say(f"{experiment.id}, profile {experiment.profile}: {made.folder}")
    _table(made, states)
    for line in rerun_reasons(made, states):
        say(line)
    for line in [*filter(None, [other_versions(made, states)]), *_made(made, states), *_own_code(made)]:
        say(line)
    unused = unused_cells(made.output)
    if unused:
        say(f"no run, comparison or model needs {counted(len(unused), 'cell')} of {made.output}: they may be deleted")
    say(totals(made, states))


def _made(plan: Plan, states: Sequence[CellState]) -> list[str]:
    """Say which commits made the finished cells, and whether the present code still gives the same."""
    from mtlrun.record import commits_since
    from mtlrun.report.stored import VERIFIED, made_and_verified, read_sound

    def age(commit: str) -> str:
        number = commits_since(commit)
        return "" if number is None else f", {counted(number, 'commit')} ago" if number else ", the present commit"

    commits = [state.commit for row, state in zip(plan.rows, states, strict=True) if row.wanted]
    return made_and_verified(commits, read_sound(plan.folder / VERIFIED), age)


def _own_code(plan: Plan) -> list[str]:
    """Say how far the code of classes and measures of the user's own counts."""
    from mtlrun.runs.code import OWN_CODE

    names = {name for row in plan.wanted for name in row.cell.versions if name.endswith(OWN_CODE)}
    if not names:
        return []
    return [f"own code, followed as far as it is imported by name: {', '.join(sorted(names))}"]


def totals(plan: Plan, states: Sequence[CellState]) -> str:
    """Return one line on the cells: ``12 cells: 10 done, 2 missing``."""
    counts = Counter[str](state.name for row, state in zip(plan.rows, states, strict=True) if row.wanted)
    shown = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{counted(len(plan.wanted), 'cell')}: {shown}"


def _table(plan: Plan, states: Sequence[CellState]) -> None:
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for row, state in zip(plan.rows, states, strict=True):
        if row.wanted:
            counts.setdefault((row.reading, row.dataset, row.method), Counter())[state.name] += 1
    shown = [state for state in STATES if any(count[state] for count in counts.values())]
    first = 0 if any(reading for reading, *_ in counts) else 1
    rows = [[*names[first:], *(count[state] or "" for state in shown)] for names, count in counts.items()]
    say_columns([["reading", "data set", "method"][first:] + shown, *rows])
