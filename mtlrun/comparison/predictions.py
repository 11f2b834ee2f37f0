"""Predictions of the tested rows by each strategy, and errors for intervals.

A strategy (separate models, one pooled model, multi-task learning) chooses a method in
each training part by its inner cross-validation. This module puts the predictions of
the chosen methods together, so that each tested row has one prediction per strategy. It
reads them from the records of the comparison; nothing is computed again.

The prediction intervals of the best method need its errors on rows that it was not
fitted to. They come from the folds of the comparison, or from fitting the method again
without each of a few folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from mtlrun.catalog.registry import build
from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK, POOLED, Strategy
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
from mtlrun.utils.arrays import NpzArchive, npz

Array = np.ndarray

#: Names of the strategies in pictures, tables and files, by family.
STRATEGY_NAMES = {INDEPENDENT: "separate", POOLED: "pooled", MULTITASK: "multi-task"}
#: Largest number of predictions that are kept, which are evenly spaced. Pictures do not
#: show more.
MAX_ENTRIES = 1_000_000

#: Returns the scores of a method on the test rows of a split; None if they are lost.
ReadScores = Callable[[str, int], Array | None]


@dataclass(frozen=True)
class HeldOutPredictions:
    """Targets of tested rows and the predictions of each strategy, one entry each.

    A row that several splits test is taken from the first of them.

    Attributes
    ----------
    rows : ndarray of int, shape (n_entries,)
        Position among the rows that the comparison uses: those with a target, a
        positive weight and enough rows of their task.
    tasks : ndarray of int, shape (n_entries,)
    observed : ndarray of shape (n_entries,)
        Targets in their own units; labels -1/+1.
    predicted : dict of str to ndarray of shape (n_entries,)
        By the name of the strategy, in `STRATEGY_NAMES`. For labels these are scores:
        log-odds if the method has probabilities.
    methods : dict of str to list of str
        Methods chosen by each strategy.
    """

    rows: Array
    tasks: Array
    observed: Array
    predicted: dict[str, Array]
    methods: dict[str, list[str]] = field(default_factory=dict)

    def probabilities(self, name: str) -> Array:
        """Return 1 / (1 + exp(-score)) of the predictions of a strategy."""
        return np.asarray(expit(self.predicted[name]))

    def is_of_tasks(self, n_tasks: int) -> bool:
        """Whether all entries belong to the first `n_tasks` tasks."""
        return bool(((self.tasks >= 0) & (self.tasks < n_tasks)).all())

    def frame(self, task_names: Sequence[str]) -> pd.DataFrame:
        """Return a row per target: row, task, observed, and a column per strategy."""
        columns = {
            "row": self.rows,
            "task": [task_names[t] for t in self.tasks],
            "observed": self.observed,
            **self.predicted,
        }
        return pd.DataFrame(columns)

    def dump(self) -> bytes:
        """Return the content of ``predictions.npz``, in single precision."""
        arrays = {
            "row": self.rows,
            "task": self.tasks,
            "observed": self.observed.astype(np.float32),
        }
        for name, values in self.predicted.items():
            arrays[name] = values.astype(np.float32)
        return npz(arrays)

    @classmethod
    def read(cls, file: Path, methods: Mapping[str, list[str]]) -> HeldOutPredictions:
        """Read ``predictions.npz``.

        Raises
        ------
        OSError, ValueError
            If the file is missing or damaged.
        """
        with NpzArchive(file, str(file)) as stored:
            rows = stored.array("row").astype(int)
            tasks = stored.array("task").astype(int)
            observed = stored.array("observed").astype(float)
            predicted = {}
            for name in methods:
                predicted[name] = stored.array(name).astype(float)
        lengths = {len(tasks), len(observed), *map(len, predicted.values())}
        if lengths != {len(rows)}:
            raise ValueError(f"{file}: its arrays do not fit together")
        return cls(rows, tasks, observed, predicted, dict(methods))


def held_out_predictions(
    evaluation: Evaluation,
    strategies: Mapping[str, Strategy],
    read_scores: ReadScores,
) -> HeldOutPredictions | None:
    """Put together the predictions of the methods that each strategy chose.

    Parameters
    ----------
    evaluation : Evaluation
    strategies : mapping of str to Strategy
        By family. A family that is missing has no predictions.
    read_scores : callable
        Takes the label of a method and a split.

    Returns
    -------
    HeldOutPredictions or None
        None if no strategy has predictions or no row was tested.
    """
    split_of_row = np.full(len(evaluation.y), -1)
    for split, rows in enumerate(evaluation.rows):
        counted_rows = rows[~evaluation.new[split]]
        unseen = counted_rows[split_of_row[counted_rows] < 0]
        split_of_row[unseen] = split
    scores: dict[str, Array] = {}
    methods: dict[str, list[str]] = {}
    for family, name in STRATEGY_NAMES.items():
        strategy = strategies.get(family)
        if strategy is None:
            continue
        values = _scores_of(strategy, evaluation, split_of_row, read_scores)
        if values is not None:
            scores[name] = values
            methods[name] = list(dict.fromkeys(strategy.selected.values()))
    if not scores:
        return None
    is_tested = evaluation.row_index.is_weighted(~np.isnan(evaluation.y))
    # Strategies are compared on the rows that all of them predict.
    for values in scores.values():
        is_tested = is_tested & ~np.isnan(values)
    rows, tasks = evaluation.row_index.entries(is_tested)
    if not len(rows):
        return None
    step = -(-len(rows) // MAX_ENTRIES)
    kept = slice(None, None, step)
    predicted = {name: values[is_tested][kept] for name, values in scores.items()}
    return HeldOutPredictions(
        rows=rows[kept],
        tasks=tasks[kept],
        observed=evaluation.y[is_tested][kept],
        predicted=predicted,
        methods=methods,
    )


def _scores_of(
    strategy: Strategy,
    evaluation: Evaluation,
    split_of_row: Array,
    read_scores: ReadScores,
) -> Array | None:
    """Return the scores of a strategy in the shape of the targets.

    They are None if the scores of some split are lost.
    """
    values = np.full(evaluation.y.shape, np.nan)
    for split in np.unique(split_of_row[split_of_row >= 0]).tolist():
        if split not in strategy.selected:
            continue
        scores = read_scores(strategy.selected[split], split)
        if scores is None:
            return None
        rows = evaluation.rows[split]
        is_first = split_of_row[rows] == split
        values[rows[is_first]] = scores[is_first]
    return values


# ---------------------------------------------------------------- prediction intervals

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
        task_id = evaluation.row_index.task_id
        parts.append(_errors(evaluation.y, task_id, rows, scores, split))
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
        errors = _errors(dataset.y, dataset.task_id, test, scores, fold, stds)
        parts.append(errors)
    return _joined(parts)


def _errors(
    y: Array,
    task_id: Array | None,
    rows: Array,
    scores: Array,
    fold: int,
    stds: Array | None = None,
) -> Errors:
    """Return the errors of the targets of some rows that are not missing.

    Parameters
    ----------
    y : ndarray of shape (n,) or (n, n_tasks)
        Targets.
    task_id : ndarray of shape (n,) or None
    rows : ndarray of int
    scores : ndarray
        Predictions of these rows.
    fold : int
    stds : ndarray, optional
        Standard deviations of the predictions, by the model.
    """
    y = y[rows]
    has_target = ~np.isnan(y)
    if task_id is None:
        codes = np.broadcast_to(np.arange(y.shape[1]), y.shape)[has_target]
    else:
        codes = task_id[rows][has_target]
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
