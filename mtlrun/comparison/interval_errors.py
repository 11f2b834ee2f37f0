"""Errors of the best method on rows that it was not fitted to, for its intervals.

They come from the folds of the comparison, or from fitting the method again without
each of a few folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from mtlrun.catalog.registry import build
from mtlrun.comparison.evaluation import Evaluation
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import NEW_TASK, SPLIT_KEYS, fold_rows
from mtlrun.engine.evaluation import TrainTestData, predict_std
from mtlrun.engine.fit import prepare_rows, with_features
from mtlrun.engine.job import Job, Split, with_params
from mtlrun.model.intervals import (
    LEVEL,
    MIN_TASK_ERRORS,
    TASK_LIMITS,
    Errors,
    Intervals,
    TaskCoverage,
    advice,
    is_covered,
)

Array = np.ndarray

#: Number of folds for fitting a method again.
N_FOLDS = 5
#: Names of the kinds of tasks, for messages.
KINDS = {"known": "known tasks", "new": "new tasks"}


def errors_of_folds(evaluation: Evaluation, predicted: Mapping[int, Array]) -> Errors:
    """Return the errors of a method on the test rows of the first repeat.

    Parameters
    ----------
    evaluation : Evaluation
    predicted : mapping of int to ndarray
        Predictions of the test rows, by split.
    """
    parts = []
    for split in range(evaluation.n_folds):
        if split not in predicted:
            continue
        # Tasks without training rows do not count, as in the verdict.
        is_counted = np.asarray(~evaluation.new[split])
        rows = evaluation.rows[split][is_counted]
        scores = np.asarray(predicted[split], dtype=float)[is_counted]
        tasks = _tasks_of(rows, evaluation.row_index.task_id)
        parts.append(_errors(evaluation.y[rows], scores, tasks, split))
    return _joined(parts)


def errors_of_refits(
    job: Job, dataset: Dataset, params: Mapping[str, Any], *, new_tasks: bool
) -> Errors:
    """Fit a method again without the rows of each fold, and return its errors there.

    Parameters
    ----------
    job : Job
        Names the method and its feature step.
    dataset : Dataset
    params : mapping
        Parameters of the saved model.
    new_tasks : bool
        Whether each fold leaves out tasks with all their rows.
    """
    has_new_tasks = NEW_TASK in dataset.source
    source = dict(dataset.source)
    if new_tasks:
        for key in SPLIT_KEYS:
            source.pop(key, None)
        source[NEW_TASK] = np.asarray(dataset.task_id)
    else:
        source.pop(NEW_TASK, None)
    folds = list(fold_rows(replace(dataset, source=source), N_FOLDS, job.split.seed))
    method = {
        "estimator": job.method.estimator,
        "params": with_params(job.method.params, params),
    }
    parts = []
    for fold, (train, test) in enumerate(folds):
        if new_tasks == has_new_tasks:
            # A comparison with as many folds has prepared and decomposed these rows.
            split = Split("kfold", trial=fold, seed=job.split.seed, folds=N_FOLDS)
            part, _ = prepare_rows(replace(job, split=split), dataset)
        else:
            part_of_fold = TrainTestData.of(dataset, train, test)
            part, _ = with_features(part_of_fold, job.features)
        model = part.rows.fit(build(method))
        scores = part.predict(model)
        stds = predict_std(model, part.test.X, part.test.task_id)
        tasks = _tasks_of(test, dataset.task_id)
        parts.append(_errors(dataset.y[test], scores, tasks, fold, stds))
    return _joined(parts)


def _tasks_of(rows: Array, task_id: Array | None) -> Array | None:
    """Return the tasks of some rows; None if tasks share their rows."""
    if task_id is None:
        return None
    return task_id[rows]


def _errors(
    y: Array,
    scores: Array,
    tasks: Array | None,
    fold: int,
    stds: Array | None = None,
) -> Errors:
    """Return the errors of the targets that are not missing.

    Parameters
    ----------
    y, scores : ndarray of shape (n_rows,) or (n_rows, n_tasks)
        Targets and predictions.
    tasks : ndarray of shape (n_rows,) or None
    fold : int
    stds : ndarray, optional
        Standard deviations of the predictions, by the model.
    """
    has_target = ~np.isnan(y)
    if tasks is None:
        codes = np.broadcast_to(np.arange(y.shape[1]), y.shape)[has_target]
    else:
        codes = tasks[has_target]
    if stds is not None:
        stds = np.asarray(stds).reshape(y.shape)[has_target]
    scores = scores.reshape(y.shape)
    values = (y - scores)[has_target]
    folds = np.full(len(values), fold)
    return Errors(values, scores[has_target], codes, folds, stds)


def _joined(parts: list[Errors]) -> Errors:
    """Join the errors of several folds."""
    values = []
    predicted = []
    tasks = []
    folds = []
    stds = []
    for part in parts:
        values.append(part.values)
        predicted.append(part.predicted)
        tasks.append(part.tasks)
        folds.append(part.folds)
        if part.deviations is not None:
            stds.append(np.asarray(part.deviations))
    has_stds = len(stds) == len(parts)
    return Errors(
        np.concatenate(values),
        np.concatenate(predicted),
        np.concatenate(tasks),
        np.concatenate(folds),
        np.concatenate(stds) if has_stds else None,
    )


def interval_facts(
    errors: Mapping[str, Errors], dataset: Dataset
) -> tuple[dict[str, Any], list[str]]:
    """Calibrate the intervals of a model.

    Parameters
    ----------
    errors : mapping of str to Errors
        Errors on ``known`` and on ``new`` tasks, if there are any.
    dataset : Dataset

    Returns
    -------
    facts : dict
        Entries of ``model.json``.
    lines : list of str
        A sentence about each kind of tasks.
    """
    is_shared = dataset.task_id is None
    coverage: dict[str, float] = {}
    facts: dict[str, Any] = {"level": LEVEL, "coverage": coverage}
    lines = []
    n_tasks = dataset.n_tasks
    for kind, kind_errors in errors.items():
        is_new = kind == "new"
        intervals = Intervals.of(
            kind_errors, n_tasks, is_shared=is_shared, is_new=is_new
        )
        is_inside = is_covered(kind_errors, n_tasks, is_shared=is_shared, is_new=is_new)
        share = float(is_inside.mean())
        facts[kind] = intervals.to_dict()
        coverage[kind] = share
        if is_new and kind_errors.deviations is not None:
            scale = "the standard deviations of the model"
        elif is_new:
            scale = "errors on tasks that were left out"
        elif kind_errors.deviations is not None:
            scale = "the standard deviations of the model and the errors of each task"
        else:
            scale = "the errors of each task, of small tasks those of all"
        line = (
            f"{LEVEL:.0%} intervals for {KINDS[kind]} contained {share:.1%} of "
            f"{len(kind_errors.values):,} test targets (conformal, from {scale})"
        )
        if not is_new:
            by_task = TaskCoverage.of(is_inside, kind_errors.tasks)
            if by_task.n_tasks > 0:
                facts["coverage_by_task"] = asdict(by_task)
                low, high = TASK_LIMITS
                line += (
                    f"; worst task {by_task.worst:.1%}, best {by_task.best:.1%}, "
                    f"{by_task.n_outside} of {by_task.n_tasks} outside "
                    f"{100 * low:.0f} to {high:.0%} (tasks with at least "
                    f"{MIN_TASK_ERRORS} test targets)"
                )
        lines.append(line)
    return facts, lines


def transform_advice(errors: Mapping[str, Errors], dataset: Dataset) -> list[str]:
    """Return a line that suggests a transformation, if the errors call for one."""
    if dataset.options.get("transform"):
        return []
    y = np.asarray(dataset.y, dtype=float)
    for kind_errors in errors.values():
        name = advice(kind_errors, y)
        if name:
            return [
                "errors are skewed or grow with the prediction, and all targets are "
                f"positive: --transform {name} would compare on that scale"
            ]
    return []
