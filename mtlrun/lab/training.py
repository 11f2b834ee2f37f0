"""Train the model of a training file, as ``mtlrun train`` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from mtlrun.catalog.registry import build
from mtlrun.data.dataset import Dataset
from mtlrun.data.roles.check import alarm_lines
from mtlrun.data.sets.load import load_dataset, loaded_findings
from mtlrun.engine.job import TABLE_KINDS
from mtlrun.engine.run import Runner
from mtlrun.errors import ConfigError
from mtlrun.estimators.baselines import takes_task_id
from mtlrun.lab.experiment.spec import Experiment
from mtlrun.lab.plan import plan
from mtlrun.model.train import (
    PAGE,
    TrainingJob,
    TrainingSummary,
    check_settings,
    fit_training,
    save_training,
    up_to_date,
)
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.progress import Progress
from mtlrun.utils.io import refuse_links, write_atomic, writing

#: Remedy when the folder of a model cannot be written.
CANNOT_WRITE_REMEDY = "Free some space, or choose another folder with --output."


def train(
    training: Experiment,
    *,
    output: Path,
    data_dir: Path | None = None,
    jobs: int = 1,
    force: bool = False,
    retries: int = 0,
    progress: Progress | None = None,
) -> TrainingSummary:
    """Train, evaluate and save a model.

    Searches and the fit on the training rows are jobs in ``<output>/cells``. Thus an
    interrupted training continues where it stopped, and an experiment or a comparison
    with the same job shares its result.

    Parameters
    ----------
    training : Experiment
        Training file.
    output : Path
        The files are written into ``<output>/<id>``.
    data_dir : Path, default=None
        Data directory.
    jobs : int, default=1
        Number of processes for the search.
    force : bool, default=False
        Whether to recompute everything, and replace a model with other settings.
    retries : int, default=0
        Number of times that a failed job is computed again.
    progress : Progress, default=None
        Display of the progress; None for none.

    Raises
    ------
    ConfigError
        If the method cannot be made or fitted as the file says, or if the features
        cannot be used with the data.
    DataError
        If the data are missing or damaged.
    UserError
        If the folder contains a model with other settings, or cannot be written.
    """
    folder = output / training.id
    refuse_links(output, folder)
    check_settings(folder, training.config, force)
    training_plan = plan(training, data_dir=data_dir, output=output)
    spec = training.spec
    dataset_spec = spec.dataset
    job = TrainingJob(
        # The job that evaluates the model.
        job=training_plan.rows[0].job,
        id=training.id,
        source=training.source,
        dataset_name=dataset_spec.name,
        dataset_options=dataset_spec.options,
        estimator=spec.method.estimator,
        refit=spec.refit,
        config=training.config,
    )
    if not force:
        result = up_to_date(folder, job)
        if result is not None:
            return TrainingSummary(folder, result, up_to_date=True)
    dataset = load_dataset(dataset_spec.id, data_dir=data_dir, **dataset_spec.options)
    check_training(training, dataset)
    progress = progress or Progress()
    oddities = loaded_findings(dataset, data_dir=data_dir, **dataset_spec.options)
    for line in alarm_lines(oddities):
        progress.message(line)
    runner = Runner(
        # Jobs that run in this process need not load the data set again.
        replace(training_plan, dataset=dataset),
        Pool(jobs, seconds=training_plan.limit),
        progress,
        force=force,
        retries=retries,
    )
    trained = fit_training(job, dataset, runner)
    with writing(folder, CANNOT_WRITE_REMEDY):
        save_training(trained, folder)
        write_atomic(folder / PAGE, trained.page())
    return TrainingSummary(folder, trained.result)


def check_training(training: Experiment, dataset: Dataset) -> None:
    """Refuse features and an estimator that do not fit the data.

    Raises
    ------
    ConfigError
        With the remedy.
    """
    spec = training.spec
    method = spec.method
    features = spec.features
    has_step = features.kind != "none"
    values = dataset.X
    if sparse.issparse(values):
        values = values.data
    has_gaps = values.dtype.kind == "f" and np.isnan(values).any()
    if (dataset.categories or has_gaps) and features.kind not in TABLE_KINDS:
        raise ConfigError(
            f"{spec.id}: {dataset.id} has text or missing values",
            "Add the line: features: table",
        )
    # An estimator of another package, or one with `features`, may take strings itself.
    takes_strings = ":" in method.estimator or "features" in method.params
    if dataset.strings and not has_step and not takes_strings:
        raise ConfigError(
            f"{spec.id}: the rows of {dataset.id} are strings",
            "Add the line: features: one-hot",
        )
    is_for_strings = features.kind in ("one-hot", "weighted-degree")
    if has_step and dataset.strings != is_for_strings:
        rows = "numbers"
        if dataset.strings:
            rows = "strings"
        raise ConfigError(
            f"{spec.id}: features: {features.kind} cannot be used with {dataset.id}, "
            f"whose rows are {rows}"
        )
    is_multiclass = dataset.task_type == "multiclass"
    if not dataset.zero_one and not is_multiclass:
        return
    estimator = build({"estimator": method.estimator, "params": method.params})
    if dataset.zero_one and not is_classifier(estimator):
        raise ConfigError(
            f"{spec.id}: a regression model that is saved takes labels from the signs "
            "of its predictions",
            "Leave out coding: 0/1, or use a classifier.",
        )
    needs_binary_tasks = takes_task_id(estimator) or not is_classifier(estimator)
    if is_multiclass and needs_binary_tasks:
        raise ConfigError(
            f"{spec.id}: {dataset.id} has {dataset.n_tasks} classes, but "
            f"{method.estimator} needs binary tasks",
            f"Make one task per class: dataset: {{id: {dataset.id}, tasks: "
            "one-vs-rest}",
        )
