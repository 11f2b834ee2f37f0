"""Train the model of a training file whose data come in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.catalog.registry import build
from mtlrun.chunks.compare import Chunked, candidate_of
from mtlrun.chunks.summed import FoldSearch, Training, values_of
from mtlrun.chunks.table import ChunkedTable, chunk_files
from mtlrun.data.reading.files import data_file
from mtlrun.engine.job import grid_edges
from mtlrun.estimators.metadata import Scale
from mtlrun.lab.experiment.spec import ChunkTraining
from mtlrun.lab.training import CANNOT_WRITE_REMEDY
from mtlrun.model.train import Trained, TrainingSummary, check_settings, save_training
from mtlrun.parallel.pool import Pool
from mtlrun.utils.io import refuse_links, writing

Array = np.ndarray

#: Fold that is tested; the others select parameters.
_TEST_FOLD = 0


def train_chunks(
    training: ChunkTraining,
    *,
    output: Path,
    pool: Pool,
    force: bool = False,
    say: Callable[[str], None],
) -> TrainingSummary:
    """Train, evaluate and save a model on a table in chunks.

    Parameters
    ----------
    training : ChunkTraining
    output : Path
        The files are written into ``<output>/<id>``.
    pool : Pool
        Workers that read the chunks.
    force : bool, default=False
        Whether to replace a model with other settings.
    say : callable
        Called with a line on each step.

    Raises
    ------
    UserError
        As `mtlrun.lab.training.train`.
    """
    folder = output / training.id
    refuse_links(output, folder)
    check_settings(folder, training.config, force)
    method = training.method
    # The grid of the file replaces the default grid, so the size of the data is not
    # used.
    candidate = candidate_of(method.estimator, Scale(1, 2))
    params = {**candidate.params, **method.params}
    candidate = replace(candidate, params=params, grid=dict(method.grid))
    for combination in values_of(candidate)[:1]:
        # A wrong parameter is reported before the data are read.
        build({"estimator": candidate.estimator, "params": {**params, **combination}})
    table = ChunkedTable.of(
        _files(training.files),
        **training.data.model_dump(exclude={"files"}),
        n_folds=training.folds,
        seed=training.seed,
    )
    data = Chunked.read(table, pool, say)
    search = FoldSearch(data.folds, [candidate], say=say)
    search.run((_TEST_FOLD, fold) for fold in range(1, training.folds))
    params, search_score = search.best(candidate, _TEST_FOLD)
    name = training.method.estimator
    say(f"fitting {name}")
    rows = Training.of(data.folds.without(_TEST_FOLD))
    fitted = rows.fit(candidate, params)
    fit_seconds = fitted.seconds
    metrics = {}
    per_task = {}
    counts = {"n_tasks": len(data.tasks)}
    scores = data.scores(_TEST_FOLD, fitted.coef, fitted.intercept)
    for metric, values in scores.items():
        metrics[metric] = float(np.nanmean(values))
        per_task[metric] = values.tolist()
        counts[f"undefined_{metric}"] = int(np.isnan(values).sum())
    selection: dict[str, Any] = {}
    if candidate.grid:
        selection = {
            "chosen": params,
            "metric": "nmse",
            "score": search_score,
            "edges": grid_edges(candidate.grid, params),
        }
    status = "ok"
    if not fitted.converged:
        status = "not converged"
    search_seconds = search.seconds[candidate.label]
    result = {
        "schema": 1,
        "id": training.id,
        "dataset": training.config["data"]["files"],
        "method": name,
        "status": status,
        "params": params,
        "metrics": metrics,
        "per_task": per_task,
        "counts": counts,
        "seconds": {"fit": fit_seconds, "search": search_seconds},
        "solver": {},
        "selection": selection,
        "refit": training.refit,
    }
    if training.refit:
        rows = Training.of(data.folds.whole)
        fitted = rows.fit(candidate, params)
    about_model = {
        "name": training.id,
        "refit": training.refit,
        "metrics": metrics,
        "config": training.config,
    }
    saved_model = data.model(name, rows, fitted, about_model)
    with writing(folder, CANNOT_WRITE_REMEDY):
        save_training(Trained(saved_model, result, ""), folder)
    return TrainingSummary(folder, result)


def _files(path: Path) -> list[Path]:
    """Return the files of a path or pattern."""
    files = chunk_files(path)
    if not files:
        # Raises an error that says what is wrong with a single file.
        data_file(path)
        files = [path]
    return files
