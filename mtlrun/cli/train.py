"""``mtlrun train``: fit, evaluate and save one model from one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say
from mtlrun.cli.options import OUTPUT_DEFAULT

Config = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG", help="Path of a training file, or the name of one that comes with mtlrun (train/school)."
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", "-f", help="Replace a model of another configuration.", rich_help_panel=options.HOW),
]


def train(
    config: Config,
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    data_dir: options.DataDir = None,
    jobs: options.Jobs = 1,
    force: Force = False,
    yes: options.Yes = False,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Train one model: choose parameters, fit, score the test rows, save model, metrics and predictions."""
    from mtlrun.cli.fetching import ensure_data
    from mtlrun.runs.load import load_training

    training = load_training(config, overrides=overrides or (), seed=seed, data_dir=data_dir)
    ensure_data(training, data_dir, yes=yes)
    from mtlrun.runs.progress import make_progress
    from mtlrun.runs.train import train as fit

    progress = make_progress(quiet=quiet)
    outcome = fit(training, output=output_dir, data_dir=data_dir, jobs=jobs, force=force, progress=progress)
    if outcome.up_to_date:
        say("up to date: the model is the one that this file makes")
    for line in summary(outcome.result):
        say(line)
    say(f"written: {outcome.folder}")
    if outcome.result["status"] != "ok":
        why = outcome.result["solver"].get("message") or "the solver stopped before its tolerance was reached"
        say(f"warning: not converged: {why}", error=True)


def summary(result: Mapping[str, Any]) -> list[str]:
    """Return the lines that say how a training went."""
    lines = []
    found = result["selection"]
    if found:
        chosen = ", ".join(f"{name}={value}" for name, value in found["chosen"].items())
        lines.append(f"chosen: {chosen} ({found['metric']} {found['score']:.4g} in cross-validation)")
        for name, end in found["edges"].items():
            lines.append(f"  {name} is the {end} end of its grid: widen it")
    width = max(len(name) for name in result["metrics"])
    for name, mean in result["metrics"].items():
        undefined = result["counts"][f"undefined_{name}"]
        note = f"  ({undefined} of {result['counts']['n_tasks']} tasks undefined)" if undefined else ""
        lines.append(f"{name:{width}}  {'undefined' if mean != mean else f'{mean:.4f}'}{note}")
    lines.append(f"fitted in {result['seconds']['fit']:.3g} s")
    return lines
