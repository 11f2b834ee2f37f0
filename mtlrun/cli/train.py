"""``mtlrun train``: fit, evaluate and save one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mtlrun.cli import complete, options
from mtlrun.cli.console import say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import counted


def train(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="Training file, or the name of one that comes with mtlrun, for example train/school.",
            autocompletion=complete.trainings,
        ),
    ],
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    data_dir: options.DataDir = None,
    jobs: options.Jobs = 1,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            "-f",
            help="Compute everything again, and replace a model that was trained with other settings.",
            rich_help_panel=options.HOW,
        ),
    ] = False,
    retries: options.Retries = 0,
    yes: options.Yes = False,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Train one model: tune its parameters, fit it, evaluate it on test rows and save it.

    Model, metrics and test predictions are written to DIR/<id of the training file>. `mtlrun init` writes a training
    file to start from.
    """
    from mtlrun.cli.fetching import ensure_data
    from mtlrun.runs.load import load_training

    training = load_training(config, overrides=overrides or (), seed=seed, data_dir=data_dir)
    ensure_data(training, data_dir, yes=yes)
    from mtlrun.runs.progress import make_progress
    from mtlrun.runs.train import train as fit

    progress = make_progress(quiet=quiet)
    trained = fit(
        training, output=output_dir, data_dir=data_dir, jobs=jobs, force=force, retries=retries, progress=progress
    )
    if trained.up_to_date:
        say("up to date: this model has been trained before")
    for line in summary(trained.result):
        say(line)
    say(f"model: {trained.folder}")
    if trained.result["status"] != "ok":
        why = trained.result["solver"].get("message") or "the solver stopped before it reached its tolerance"
        say(f"warning: not converged: {why}", error=True)


def summary(result: Mapping[str, Any]) -> list[str]:
    """Return the lines that say how a training went."""
    lines = []
    found = result["selection"]
    if found:
        chosen = ", ".join(f"{name}={value}" for name, value in found["chosen"].items())
        lines.append(f"chosen: {chosen} (cross-validated {found['metric']} {found['score']:.4g})")
        for name, end in found["edges"].items():
            lines.append(f"  {name} is at the {end} end of its grid: consider widening it")
    width = max(len(name) for name in result["metrics"])
    for name, mean in result["metrics"].items():
        undefined = result["counts"][f"undefined_{name}"]
        note = f"  (undefined for {undefined} of {counted(result['counts']['n_tasks'], 'task')})" if undefined else ""
        lines.append(f"{name:{width}}  {'undefined' if mean != mean else f'{mean:.4f}'}{note}")
    lines.append(f"fitted in {result['seconds']['fit']:.3g} s")
    return lines
