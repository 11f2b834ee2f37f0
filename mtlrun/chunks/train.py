"""Train the model of a training file whose data come in chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class _TestedFit:
    """Fit to the folds that are not tested, and its scores on the test fold.

    Attributes
    ----------
    n_tasks : int
    params : dict
        Selected parameters.
    search_score : float
        Score of these parameters in the search.
    has_converged : bool
    scores : dict of str to ndarray of shape (T,)
        Metric -> its value for each task.
    fit_seconds, search_seconds : float
    """

    n_tasks: int
    params: dict[str, Any]
    search_score: float
    has_converged: bool
    scores: dict[str, Array]
    fit_seconds: float
    search_seconds: float


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
    for values in values_of(candidate)[:1]:
        # A wrong parameter is reported before the data are read.
        build({"estimator": candidate.estimator, "params": {**params, **values}})
    table = ChunkedTable.of(
        _files(training.files), **training.data.model_dump(exclude={"files"})
    )
    data = Chunked.read(table, pool, training.folds, training.seed, say)
    search = FoldSearch(data.folds, [candidate])
    search.run((_TEST_FOLD, fold) for fold in range(1, training.folds))
    params, search_score = search.best(candidate, _TEST_FOLD)
    name = training.method.estimator
    say(f"fitting {name}")
    rows = Training.of(data.folds.without(_TEST_FOLD))
    start = time.perf_counter()
    fitted = rows.fit(candidate, params)
    fit_seconds = time.perf_counter() - start
    coef, intercepts, model = fitted
    tested = _TestedFit(
        n_tasks=len(data.tasks),
        params=params,
        search_score=search_score,
        has_converged=bool(getattr(model, "converged_", True)),
        scores=data.scores(_TEST_FOLD, coef, intercepts),
        fit_seconds=fit_seconds,
        search_seconds=search.seconds[candidate.label],
    )
    if training.refit:
        rows = Training.of(data.folds.whole)
        fitted = rows.fit(candidate, params)
    result = _result(training, candidate.grid, tested)
    about_model = {
        "name": training.id,
        "refit": training.refit,
        "metrics": result["metrics"],
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


def _result(
    training: ChunkTraining, grid: Mapping[str, Any], tested: _TestedFit
) -> dict[str, Any]:
    """Return the content of ``metrics.json``."""
    metrics = {}
    per_task = {}
    counts = {"n_tasks": tested.n_tasks}
    for metric, values in tested.scores.items():
        metrics[metric] = float(np.nanmean(values))
        per_task[metric] = values.tolist()
        counts[f"undefined_{metric}"] = int(np.isnan(values).sum())
    selection: dict[str, Any] = {}
    if grid:
        selection = {
            "chosen": tested.params,
            "metric": "nmse",
            "score": tested.search_score,
            "edges": grid_edges(grid, tested.params),
        }
    status = "ok"
    if not tested.has_converged:
        status = "not converged"
    return {
        "schema": 1,
        "id": training.id,
        "dataset": training.config["data"]["files"],
        "method": training.method.estimator,
        "status": status,
        "params": tested.params,
        "metrics": metrics,
        "per_task": per_task,
        "counts": counts,
        "seconds": {"fit": tested.fit_seconds, "search": tested.search_seconds},
        "solver": {},
        "selection": selection,
        "refit": training.refit,
    }
