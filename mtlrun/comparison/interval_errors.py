"""Errors of the best method on rows that it was not fitted to, for its intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mtlrun.comparison.evaluation import Evaluation
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import NEW_TASK, SPLIT_KEYS, fold_rows
from mtlrun.engine.evaluation import TrainTestData, predict_std
from mtlrun.engine.fit import with_features
from mtlrun.engine.job import Job, with_params
from mtlrun.estimators.registry import build
from mtlrun.model.intervals import LEVEL, Errors, Intervals, advice, coverage

Array = np.ndarray

#: Folds in which a method is fitted again, where its errors are not at hand.
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
        rows = evaluation.rows[split]
        counted = np.asarray(~evaluation.new[split])
        scores = np.asarray(predicted[split], dtype=float)[counted]
        rows = rows[counted]
        tasks = evaluation.row_index.task_id
        own_tasks = None if tasks is None else tasks[rows]
        parts.append(_errors(evaluation.y[rows], scores, own_tasks, split))
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
        The parameters of the saved model.
    new_tasks : bool
        Whether whole tasks are left out.
    """
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
    for number, (train, test) in enumerate(folds):
        whole = TrainTestData.of(dataset, train, test)
        part, _ = with_features(whole, job.features)
        model = part.rows.fit(build(method))
        scores = part.predict(model)
        deviations = predict_std(model, part.test.X, part.test.task_id)
        tasks = dataset.task_id
        own_tasks = None if tasks is None else tasks[test]
        parts.append(_errors(dataset.y[test], scores, own_tasks, number, deviations))
    return _joined(parts)


def _errors(
    y: Array,
    scores: Array,
    tasks: Array | None,
    fold: int,
    deviations: Array | None = None,
) -> Errors:
    scores = scores.reshape(y.shape)
    is_known = ~np.isnan(y)
    if tasks is None:
        codes = np.broadcast_to(np.arange(y.shape[1]), y.shape)[is_known]
    else:
        codes = tasks[is_known]
    if deviations is not None:
        deviations = np.asarray(deviations).reshape(y.shape)[is_known]
    values = (y - scores)[is_known]
    folds = np.full(len(values), fold)
    return Errors(values, scores[is_known], codes, folds, deviations)


def _joined(parts: list[Errors]) -> Errors:
    deviations = None
    if parts and all(part.deviations is not None for part in parts):
        deviations = np.concatenate([np.asarray(p.deviations) for p in parts])
    return Errors(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.predicted for part in parts]),
        np.concatenate([part.tasks for part in parts]),
        np.concatenate([part.folds for part in parts]),
        deviations,
    )


def interval_facts(
    errors: Mapping[str, Errors], dataset: Dataset
) -> tuple[dict[str, Any], list[str]]:
    """Return what ``model.json`` holds of intervals, and sentences about them.

    Parameters
    ----------
    errors : mapping
        ``known`` and ``new``, as far as there are errors of such tasks.
    dataset : Dataset
    """
    is_shared = dataset.task_id is None
    facts: dict[str, Any] = {"level": LEVEL, "coverage": {}}
    lines = []
    for kind, found in errors.items():
        is_new = kind == "new"
        n_tasks = dataset.n_tasks
        learnt = Intervals.of(found, n_tasks, is_shared=is_shared, is_new=is_new)
        share = coverage(found, n_tasks, is_shared=is_shared, is_new=is_new)
        facts[kind] = learnt.to_dict()
        facts["coverage"][kind] = share
        if found.deviations is not None:
            scale = "the standard deviations of the model"
        elif is_new:
            scale = "errors on tasks that were left out"
        else:
            scale = "the errors of each task, of small tasks those of all"
        lines.append(
            f"{LEVEL:.0%} intervals for {KINDS[kind]} held {share:.1%} of "
            f"{len(found.values):,} test targets (conformal, from {scale})"
        )
    return facts, lines


def transform_advice(errors: Mapping[str, Errors], dataset: Dataset) -> list[str]:
    """Return a line that suggests a transformation, if the errors ask for one."""
    if dataset.options.get("transform"):
        return []
    for found in errors.values():
        name = advice(found, np.asarray(dataset.y, dtype=float))
        if name:
            return [
                "errors are skewed or grow with the prediction, and all targets are "
                f"positive: --transform {name} would compare on that scale"
            ]
    return []
