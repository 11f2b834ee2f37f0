"""One split of one data set: rows, fitting, scoring. What a cell does, shared by selection and evaluation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold

from mtlrun.core.errors import DataError, MtlrunError
from mtlrun.core.metrics import Metric, average, get_metric, labels_from_scores
from mtlrun.data.dataset import Dataset
from mtlrun.data.load import load_dataset
from mtlrun.data.makers import paper_partition
from mtlrun.data.splitters import (
    GROUP,
    TIME,
    WEIGHT,
    TaskShuffleSplit,
    TaskStratifiedKFold,
    random_split,
    time_folds,
)
from mtlrun.estimators.pertask import for_tasks
from mtlrun.experiments.seeds import derive_seed

#: Metrics that say nothing about a task whose training labels are of one class: its scores are constant or arbitrary.
NEEDS_BOTH_CLASSES = ("auc", "average_precision")


class Diverged(MtlrunError):
    """Predictions are not finite."""


@dataclass(frozen=True)
class Scores:
    """A metric on one test part.

    Attributes
    ----------
    mean : float
        NaN when no task is defined.
    undefined : int
        Tasks left out of the mean.
    per_task : ndarray of shape (n_tasks,)
    """

    mean: float
    undefined: int
    per_task: np.ndarray


@dataclass(frozen=True)
class Part:
    """Training and test rows of a data set.

    Attributes
    ----------
    train, test : Dataset
    one_class : ndarray of bool, shape (n_tasks,)
        Tasks whose training labels are all the same; False throughout for regression.
    variance : ndarray of shape (n_tasks,)
        Of all rows of every task, training and test; NaN where labels are no numbers.
    """

    train: Dataset
    test: Dataset
    one_class: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, dataset: Dataset, train: np.ndarray, test: np.ndarray) -> Part:
        """Take rows of a data set."""
        part = dataset.subset(train)
        return cls(part, dataset.subset(test), _one_class(part), _variances(dataset, np.union1d(train, test)))

    def fit(self, estimator: Any) -> Any:
        """Fit on the training rows, wrapped per task where that is needed (`for_tasks`), and return what was fitted."""
        weights = {} if WEIGHT not in self.train.source else {"sample_weight": self.train.source[WEIGHT]}
        estimator = for_tasks(estimator, self.train.y, self.train.task_id)
        return estimator.fit(self.train.X, self.train.y, **_task_ids(self.train), **weights)

    def predict(self, estimator: Any) -> np.ndarray:
        """Return the scores of the test rows: `decision_function`, else `predict`.

        Raises
        ------
        Diverged
            If they are not finite.
        """
        function = estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict
        scores = np.asarray(function(self.test.X, **_task_ids(self.test)))
        if scores.dtype.kind == "f" and not np.isfinite(scores).all():
            raise Diverged(f"{(~np.isfinite(scores)).mean():.0%} of the predictions are not finite")
        return scores

    def score(self, estimator: Any, scores: np.ndarray, metrics: list[str], how: str) -> dict[str, Scores]:
        """Return metrics of the test rows.

        Parameters
        ----------
        estimator : object
            Fitted; asked for labels by metrics that need them.
        scores : ndarray
            From `predict`.
        metrics : list of str
        how : {"task", "sample"}
            Average over tasks.
        """
        return {name: self._score(estimator, get_metric(name), scores, how) for name in metrics}

    def _score(self, estimator: Any, metric: Metric, scores: np.ndarray, how: str) -> Scores:
        values = scores
        if metric.needs == "label":
            classifier = is_classifier(estimator)
            values = (
                estimator.predict(self.test.X, **_task_ids(self.test)) if classifier else labels_from_scores(scores)
            )
        layout: dict[str, Any] = (
            {} if self.test.task_id is None else {"task_id": self.test.task_id, "tasks": range(self.test.n_tasks)}
        )
        if metric.task_variance:
            layout["variance"] = self.variance
        per_task = metric(self.test.y, np.asarray(values), weights=self.test.source.get(WEIGHT), **layout)
        if metric.name in NEEDS_BOTH_CLASSES:
            per_task = np.where(self.one_class, np.nan, per_task)
        mean, undefined = average(per_task, _sizes(self.test), "sample" if how == "sample" else "task")
        return Scores(mean, undefined, per_task)


def load_trial(inputs: Mapping[str, Any], data_dir: str | None) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Return the data set of a cell and its training and test rows.

    Parameters
    ----------
    inputs : mapping
        Of the cell.
    data_dir : str or None

    Raises
    ------
    DataError
        If the files are not those of the plan any more.
    ValueError
        If the split is impossible.
    """
    dataset = load_data(inputs, data_dir)
    return dataset, *split_rows(dataset, inputs["split"])


def load_data(inputs: Mapping[str, Any], data_dir: str | None) -> Dataset:
    """Return the data set of a cell.

    Raises
    ------
    DataError
        If the files are not those of the plan any more.
    """
    data = inputs["dataset"]
    return _load(data["id"], json.dumps(data["options"], sort_keys=True), data_dir, data["fingerprint"])


def split_rows(dataset: Dataset, split: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and test rows of one trial; rows for validation are in neither.

    Raises
    ------
    DataError
        If the data set has no such published split.
    ValueError
        If a part would be empty.
    """
    train, test, _ = split_three(dataset, split)
    return train, test


def split_three(dataset: Dataset, split: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the training, test and validation rows of one trial; see `split_rows`.

    The training rows of a random split are those that it has without a validation part, which is taken out of the
    others; that of a published split is taken out of its training rows.
    """
    if split["kind"] == "balanced":
        train, validation, test = paper_partition(dataset, split["train"], split["seed"])
        return train, test, validation
    train, test = _two_parts(dataset, split)
    part = split.get("validation")
    if part is None:
        return train, test, np.array([], dtype=int)
    seed = derive_seed(split["seed"], "validation")
    if split["kind"] == "published":
        train, validation = _take(dataset, train, part, train, seed)
        return train, test, validation
    test, validation = _take(dataset, test, part, np.arange(dataset.n_samples), seed)
    return train, test, validation


def _take(dataset: Dataset, rows: np.ndarray, part: float, of: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows without those taken at random, and those: as many as `part` of the rows `of`, task by task."""
    tasks = np.zeros(dataset.n_samples, dtype=int) if dataset.task_id is None else dataset.task_id
    order = np.random.default_rng(seed).permutation(rows)
    taken = []
    for task in np.unique(tasks[of]):
        mine = order[tasks[order] == task]
        count = int(part * np.sum(tasks[of] == task))
        taken.append(mine[: max(0, min(count, len(mine) - 1))])  # a task with rows keeps one
    validation = np.sort(np.concatenate(taken))
    rest = rows[~np.isin(rows, validation)]
    if not len(validation) or not len(rest):
        raise ValueError(f"validation={part} leaves a part empty ({len(validation)} of {len(rows)} rows)")
    return rest, validation


def _two_parts(dataset: Dataset, split: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    trial, seed = split["trial"], split["seed"]
    if split["kind"] == "published":
        published = dataset.splits.get(split["name"])
        if published is None or trial >= len(published):
            have = ", ".join(f"{name} ({len(parts)})" for name, parts in dataset.splits.items()) or "none"
            raise DataError(f"{dataset.id} has no published split {split['name']!r} number {trial}; it has: {have}")
        return published[trial]
    if split["kind"] == "kfold":
        return list(fold_rows(dataset, split["folds"], seed))[trial]
    if dataset.task_id is None:
        return random_split(dataset.n_samples, split["train"], seed)
    splitter = TaskShuffleSplit(1, train_size=split["train"], random_state=seed)
    return next(iter(splitter.split(dataset.X, groups=dataset.task_id)))


def fold_rows(dataset: Dataset, folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train, test) rows of a k-fold partition, stratified by task and, for one label per row, by label.

    Rows with a group stay together, rows with a time are tested after earlier ones (`Dataset.source`).
    """
    if GROUP in dataset.source:
        groups = dataset.source[GROUP]
        splitter = GroupKFold(min(folds, len(np.unique(groups))))
        yield from splitter.split(groups, groups=groups)
        return
    if TIME in dataset.source:
        yield from time_folds(dataset.source[TIME], folds)
        return
    labels = dataset.y.ndim == 1 and dataset.task_type != "regression"
    splitter = TaskStratifiedKFold(folds, labels=labels, random_state=seed)
    yield from splitter.split(dataset.X, dataset.y if labels else None, groups=dataset.task_id)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Collect the texts of all warnings; those about convergence start with ``not converged: ``."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield texts
        finally:
            for warning in caught:
                mark = NOT_CONVERGED_MARK if issubclass(warning.category, ConvergenceWarning) else ""
                texts.append(f"{mark}{warning.message}")


NOT_CONVERGED_MARK = "not converged: "


@lru_cache(maxsize=2)
def _load(id: str, options: str, data_dir: str | None, fingerprint: str) -> Dataset:
    dataset = load_dataset(id, data_dir=None if data_dir is None else Path(data_dir), **json.loads(options))
    if dataset.fingerprint != fingerprint:
        raise DataError(f"the files of {id} changed since the cells were planned", "Run the command again.")
    return dataset


def _task_ids(dataset: Dataset) -> dict[str, np.ndarray]:
    return {} if dataset.task_id is None else {"task_id": dataset.task_id}


def _sizes(dataset: Dataset) -> np.ndarray:
    if dataset.task_id is not None:
        return np.bincount(dataset.task_id, minlength=dataset.n_tasks)
    if dataset.y.ndim == 2:
        return np.asarray((~np.isnan(dataset.y)).sum(axis=0))
    return np.array([len(dataset.y)])


def _variances(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the population variance of the targets of every task over some rows; missing ones do not count."""
    if dataset.task_type != "regression":
        return np.full(dataset.n_tasks, np.nan)
    y = dataset.y[rows]
    if dataset.task_id is None:
        return np.atleast_1d(np.nanvar(y, axis=0))
    codes = dataset.task_id[rows]
    sizes = np.maximum(np.bincount(codes, minlength=dataset.n_tasks), 1)
    means = np.bincount(codes, weights=y, minlength=dataset.n_tasks) / sizes
    return np.bincount(codes, weights=(y - means[codes]) ** 2, minlength=dataset.n_tasks) / sizes


def _one_class(dataset: Dataset) -> np.ndarray:
    if dataset.task_type != "binary":
        return np.zeros(dataset.n_tasks if dataset.task_id is not None or dataset.y.ndim == 2 else 1, dtype=bool)
    if dataset.task_id is not None:
        positive = np.bincount(dataset.task_id, weights=dataset.y > 0, minlength=dataset.n_tasks)
        negative = np.bincount(dataset.task_id, weights=dataset.y < 0, minlength=dataset.n_tasks)
    else:
        y = dataset.y if dataset.y.ndim == 2 else dataset.y[:, None]
        positive, negative = (y > 0).sum(axis=0), (y < 0).sum(axis=0)
    return np.asarray((positive == 0) | (negative == 0))
