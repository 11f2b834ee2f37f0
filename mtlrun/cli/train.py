"""``mtlrun train``: fit, evaluate and save one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import open_page, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import ConfigError


def train(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="Training file, or the name of one that comes with mtlrun, for example train/school.",
            autocompletion=options.trainings,
        ),
    ],
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    data_dir: options.DataDir = None,
    jobs: options.Jobs = 1,
    backend: options.Backend = None,
    scheduler: options.Scheduler = None,
    force: Annotated[
        bool,
        options.option(
            options.HOW,
            None,
            "Compute everything again, and replace a model that was trained with other settings.",
            "--force",
            "-f",
        ),
    ] = False,
    retries: options.Retries = 0,
    yes: options.Yes = False,
    output_dir: options.Output = OUTPUT_DEFAULT,
    show: options.Open = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Train one model: tune its parameters, fit it, evaluate it on test rows and save it.

    Model, metrics, test predictions and a page are written to DIR/<id of the training file>. `mtlrun init` writes a
    training file to start from.
    """
    from mtlrun.cli.console import ensure_data
    from mtlrun.runs.load import chunk_training, load_training
    from mtlrun.runs.pool import Pool, make_progress
    from mtlrun.runs.train import PAGE, training_lines
    from mtlrun.runs.train import train as fit

    if config.endswith((".yaml", ".yml")) and not Path(config).exists():
        raise ConfigError(
            f"{config}: no such file", "Write one to start from: mtlrun init DATASET (see mtlrun data list)."
        )
    progress = make_progress(quiet=quiet)
    chunked = chunk_training(config, overrides or (), seed)
    if chunked is not None:
        from mtlrun.comparison.chunked import train_chunks

        pool = Pool(jobs, backend, scheduler)
        trained = train_chunks(chunked, output=output_dir, pool=pool, force=force, say=progress.message)
    else:
        if backend or scheduler:
            raise ConfigError(
                "--backend and --scheduler apply only to training files with a `data` section", "Use --jobs."
            )
        training = load_training(config, overrides=overrides or (), seed=seed, data_dir=data_dir)
        ensure_data(training, data_dir, yes=yes)
        trained = fit(
            training, output=output_dir, data_dir=data_dir, jobs=jobs, force=force, retries=retries, progress=progress
        )
    if trained.up_to_date:
        say("up to date: this model has been trained before")
    for line in training_lines(trained.result):
        say(line)
    say(f"model: {trained.folder}")
    page = trained.folder / PAGE
    if page.is_file():
        say(f"report: {page}")
    if trained.result["status"] != "ok":
        why = trained.result["solver"].get("message") or "the solver stopped before it reached its tolerance"
        say(f"warning: not converged: {why}", error=True)
    if show and page.is_file():
        open_page(page)
