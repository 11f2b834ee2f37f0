"""``mtlrun train``: train the model of a training file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.base import is_classifier

from mtlrun.chunks.table import ChunkedTable, chunk_files
from mtlrun.comparison.chunked import Chunked, candidate_of
from mtlrun.comparison.summed import FoldSearch, Training, values_of
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import data_file
from mtlrun.data.load import load_dataset
from mtlrun.engine.job import TABLE_KINDS, Job, grid_edges
from mtlrun.engine.pool import Pool
from mtlrun.engine.progress import Progress
from mtlrun.engine.run import Runner
from mtlrun.errors import ConfigError
from mtlrun.estimators.baselines import takes_task_id
from mtlrun.estimators.metadata import Scale
from mtlrun.estimators.registry import build
from mtlrun.lab.plan import plan
from mtlrun.lab.spec import ChunkTraining, Experiment
from mtlrun.model.train import (
    PAGE,
    Trained,
    TrainingJob,
    TrainingSummary,
    check_settings,
    fit_training,
    save_training,
    up_to_date,
)
from mtlrun.utils.io import write_atomic, writing


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

    Searches and the fit on the training rows are jobs in ``<output>/cells``: an interrupted training continues where
    it stopped, and an experiment or a comparison with the same job shares its result.

    Parameters
    ----------
    training : Experiment
        A training file.
    output : Path
        The results lie in ``<output>/<id>``.
    data_dir : Path, optional
    jobs : int, default 1
        Processes for the search.
    force : bool
        Recompute everything, and replace a model with other settings in that folder.
    retries : int, default 0
        Compute a part that fails so many times again.
    progress : Progress, optional
        Default: silent.

    Raises
    ------
    ConfigError
        If the method cannot be made or fitted as the file says, or the features cannot be used with the data.
    DataError
        If the data are missing or damaged.
    UserError
        If the folder holds a model with other settings, or cannot be written.
    """
    folder = output / training.id
    progress = progress or Progress()
    check_settings(folder, training.config, force)
    made = plan(training, data_dir=data_dir, output=output)
    job = training_job(training, made.rows[0].job)
    if not force and (result := up_to_date(folder, job)) is not None:
        return TrainingSummary(folder, result, up_to_date=True)
    dataset = load_dataset(
        training.spec.dataset.id, data_dir=data_dir, **training.spec.dataset.options
    )
    check_training(training, dataset)
    runner = Runner(
        made, Pool(jobs, seconds=made.limit), progress, force=force, retries=retries
    )
    trained = fit_training(job, dataset, runner)
    with writing(folder, "Free some space, or choose another folder with --output."):
        save_training(trained, folder)
        write_atomic(folder / PAGE, trained.page())
    return TrainingSummary(folder, trained.result)


def training_job(training: Experiment, job: Job) -> TrainingJob:
    """Return the model to train for a training file and its job."""
    spec = training.spec
    return TrainingJob(
        job=job,
        id=training.id,
        source=training.source,
        dataset_name=spec.dataset.name,
        dataset_options=spec.dataset.options,
        estimator=spec.method.estimator,
        refit=spec.refit,
        config=training.config,
    )


def check_training(training: Experiment, dataset: Dataset) -> None:
    """Refuse features that cannot be used with the data, and estimators that cannot take its classes.

    Raises
    ------
    ConfigError
        Names the remedy.
    """
    spec, features, method = training.spec, training.spec.features, training.spec.method
    kind = None if features.kind == "none" else features.kind
    gaps = dataset.X.dtype.kind == "f" and bool(
        np.isnan(getattr(dataset.X, "data", dataset.X)).any()
    )
    if (dataset.categories or gaps) and kind not in TABLE_KINDS:
        raise ConfigError(
            f"{spec.id}: {dataset.id} has text or missing values",
            "Add the line: features: table",
        )
    if (
        kind is None
        and dataset.strings
        and ":" not in method.estimator
        and "features" not in method.params
    ):
        raise ConfigError(
            f"{spec.id}: the rows of {dataset.id} are strings",
            "Add the line: features: one-hot",
        )
    if kind is not None and dataset.strings != features.strings:
        what = "strings" if dataset.strings else "numbers"
        raise ConfigError(
            f"{spec.id}: features: {kind} cannot be used with {dataset.id}, whose rows are {what}"
        )
    if dataset.zero_one and not is_classifier(
        build({"estimator": method.estimator, "params": method.params})
    ):
        text = f"{spec.id}: a regression model that is saved takes labels from the signs of its predictions"
        raise ConfigError(text, "Leave out coding: 0/1, or use a classifier.")
    if dataset.task_type == "multiclass":
        estimator = build({"estimator": method.estimator, "params": method.params})
        if takes_task_id(estimator) or not is_classifier(estimator):
            raise ConfigError(
                f"{spec.id}: {dataset.id} has {dataset.n_tasks} classes, but {method.estimator} needs binary tasks",
                f"Make one task per class: dataset: {{id: {dataset.id}, tasks: one-vs-rest}}",
            )


def train_chunks(
    training: ChunkTraining,
    *,
    output: Path,
    pool: Pool,
    force: bool = False,
    say: Callable[[str], None],
) -> TrainingSummary:
    """Train a model on a table in chunks; raises as `train`."""
    folder = output / training.id
    check_settings(folder, training.config, force)
    name, K = training.method.estimator, training.folds
    candidate = candidate_of(name, Scale(1, 2))
    params = {**candidate.params, **training.method.params}
    candidate = replace(candidate, params=params, grid=dict(training.method.grid))
    for values in values_of(candidate)[:1]:
        build({"estimator": candidate.estimator, "params": {**params, **values}})
    roles = training.data.model_dump(exclude={"files"})
    files = chunk_files(training.files)
    if not files:
        data_file(training.files)
        files = [training.files]
    data = Chunked.read(ChunkedTable.of(files, **roles), pool, K, training.seed, say)
    search = FoldSearch(data.folds, [candidate])
    search.run((0, other) for other in range(1, K))
    params, score = search.best(candidate, 0)
    say(f"fitting {name}")
    fitted_to = Training.of(data.folds.without(0))
    started = time.perf_counter()
    fitted = fitted_to.fit(candidate, params)
    seconds = {
        "fit": time.perf_counter() - started,
        "search": search.seconds[candidate.label],
    }
    found = data.scores(0, *fitted[:2])
    converged = bool(getattr(fitted[2], "converged_", True))
    if training.refit:
        fitted_to = Training.of(data.folds.whole)
        fitted = fitted_to.fit(candidate, params)
    result = {
        "schema": 1,
        "id": training.id,
        "dataset": training.config["data"]["files"],
        "method": name,
        "status": "ok" if converged else "not converged",
        "params": params,
        "metrics": {key: float(np.nanmean(values)) for key, values in found.items()},
        "per_task": {key: values.tolist() for key, values in found.items()},
        "counts": {
            "n_tasks": len(data.tasks),
            **{f"undefined_{k}": int(np.isnan(v).sum()) for k, v in found.items()},
        },
        "seconds": seconds,
        "solver": {},
        "selection": {
            "chosen": params,
            "metric": "nmse",
            "score": score,
            "edges": grid_edges(candidate.grid, params),
        }
        if candidate.grid
        else {},
        "refit": training.refit,
    }
    facts = {
        "name": training.id,
        "refit": training.refit,
        "metrics": result["metrics"],
        "config": training.config,
    }
    with writing(folder, "Free some space, or choose another folder with --output."):
        save_training(
            Trained(data.model(name, fitted_to, fitted, facts), result, ""), folder
        )
    return TrainingSummary(folder, result)
