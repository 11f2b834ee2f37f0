"""``mtlrun status``: what is done, what is missing, and why something would be computed again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mtlrun.cli import options
from mtlrun.cli.console import output, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.core.errors import counted

if TYPE_CHECKING:
    from mtlrun.experiments.plan import Plan

STATES = ("done", "failed", "damaged", "stale", "missing")


def status(
    target: options.Target,
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    only: options.Only = None,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    debug: options.Debug = False,
) -> None:
    """Say which cells are done, failed, out of date or missing; compute nothing."""
    from mtlrun.experiments.load import load_experiment
    from mtlrun.experiments.plan import plan, rerun_reasons

    experiment = load_experiment(target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir)
    made = plan(experiment, data_dir=data_dir, only=only, output=output_dir)
    say(f"{experiment.id}, profile {experiment.profile}: {made.folder}")
    _table(made)
    for line in rerun_reasons(made.wanted):
        say(line)
    for line in copies(made):
        say(line)
    say(totals(made))


def totals(plan: Plan) -> str:
    """Return one line on the evaluation cells: ``12 cells: 10 done, 2 missing``."""
    counts = Counter[str](cell.state for cell in plan.wanted)
    told = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{counted(len(plan.wanted), 'cell')}: {told}"


def copies(plan: Plan) -> list[str]:
    """Return one line per (artefact, data set, method) on cells that a run would copy instead of computing them."""
    from mtlrun.experiments.siblings import find_siblings

    found = find_siblings(plan, plan.todo()[1])
    counts = Counter((one.artefact, one.cell.dataset, one.cell.method) for one in found)
    return [f"{dataset}/{method}: {n} to copy from {artefact}" for (artefact, dataset, method), n in counts.items()]


def _table(plan: Plan) -> None:
    from rich import box
    from rich.table import Table

    counts: dict[tuple[str, str], Counter[str]] = {}
    for cell in plan.wanted:
        counts.setdefault((cell.dataset, cell.method), Counter())[cell.state] += 1
    shown = [state for state in STATES if any(count[state] for count in counts.values())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for name in ("dataset", "method"):
        table.add_column(name, no_wrap=True)
    for state in shown:
        table.add_column(state, justify="right")
    for (dataset, method), count in counts.items():
        table.add_row(dataset, method, *(str(count[state]) if count[state] else "" for state in shown))
    output().print(table)
