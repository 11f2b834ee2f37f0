"""Training and test rows of a data set: what is fitted on and scored."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT
from mtlrun.errors import MtlrunError
from mtlrun.estimators.baselines import predict_scores
from mtlrun.estimators.rows import TaskRows
from mtlrun.metrics import Metric, average, get_metric, labels_from_scores

#: Metrics that say nothing about a task whose training labels are of one class: its scores are constant or arbitrary.
NEEDS_BOTH_CLASSES = ("auc", "auc_frequent", "average_precision")


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
        Of all rows of every task, training and test; NaN where labels are not numbers.
    test_rows : ndarray of int
        Of the test part, in the data set.
    """

    train: Dataset
    test: Dataset
    one_class: np.ndarray
    variance: np.ndarray
    test_rows: np.ndarray

    @classmethod
    def of(cls, dataset: Dataset, train: np.ndarray, test: np.ndarray) -> Part:
        """Take rows of a data set."""
        part = dataset.subset(train)
        rows = np.union1d(train, test)
        return cls(part, dataset.subset(test), one_class(part), _variances(dataset, rows), test)

    def fit(self, estimator: Any) -> Any:
        """Fit on the training rows, wrapped per task where that is needed (`for_tasks`), and return what was fitted."""
        return self.rows.fit_alone(estimator)

    @cached_property
    def rows(self) -> TaskRows:
        """The training rows, for many models."""
        return _rows(self.train)

    @cached_property
    def new_rows(self) -> TaskRows:
        """The test rows, for many models."""
        return _rows(self.test)

    def predict(self, estimator: Any, *, many: bool = False) -> np.ndarray:
        """Return the scores of the test rows: `decision_function`, else `predict`.

        Parameters
        ----------
        estimator : object
            Fitted.
        many : bool, default False
            Whether the same rows are predicted with many models: `new_rows` does it, in less time.

        Raises
        ------
        Diverged
            If they are not finite.
        """
        if many:
            scores = self.new_rows.predict(estimator)
        else:
            scores = predict_scores(estimator, self.test.X, self.test.task_id)
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
            if is_classifier(estimator):
                values = estimator.predict(self.test.X, **_task_ids(self.test))
            elif self.train.zero_one:
                values = labels_from_scores(scores - 0.5, negative=0)
            else:
                values = labels_from_scores(scores)
        layout: dict[str, Any] = (
            {} if self.test.task_id is None else {"task_id": self.test.task_id, "tasks": range(self.test.n_tasks)}
        )
        if metric.task_variance:
            layout["variance"] = self.variance
        per_task = metric(self.test.y, np.asarray(values), weights=self.test.source.get(WEIGHT), **layout)
        if metric.name in NEEDS_BOTH_CLASSES:
            per_task = np.where(self.one_class, np.nan, per_task)
        mean, undefined = average(
            per_task, self.test.sum_by_task(~np.isnan(self.test.y)), "sample" if how == "sample" else "task"
        )
        return Scores(mean, undefined, per_task)


def innermost(estimator: Any) -> Any:
    """Return the fitted estimator inside scaled targets, calibrated scores and the like."""
    while hasattr(estimator, "estimator_"):
        estimator = estimator.estimator_
    return estimator


def predict_deviations(estimator: Any, X: Any, task_id: np.ndarray | None) -> np.ndarray | None:
    """Return the standard deviations of new targets in the shape of the predictions, None where there are none."""
    if "return_std" not in inspect.signature(innermost(estimator).predict).parameters:
        return None
    ids = {} if task_id is None else {"task_id": task_id}
    return np.asarray(estimator.predict(X, **ids, return_std=True)[1])


def predict_labels(estimator: Any, X: Any, task_id: np.ndarray | None) -> np.ndarray:
    """Return labels: those of a classifier, the signs of the scores of a regressor that was fitted on -1/+1."""
    if hasattr(estimator, "classes_"):
        return np.asarray(estimator.predict(X) if task_id is None else estimator.predict(X, task_id=task_id))
    return np.asarray(labels_from_scores(predict_scores(estimator, X, task_id)))


def _rows(dataset: Dataset) -> TaskRows:
    return TaskRows(dataset.X, dataset.y, dataset.task_id, dataset.source.get(WEIGHT))


def _task_ids(dataset: Dataset) -> dict[str, np.ndarray]:
    return {} if dataset.task_id is None else {"task_id": dataset.task_id}


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


def one_class(dataset: Dataset) -> np.ndarray:
    """Return the tasks whose labels are all the same; False throughout for regression."""
    positive, negative = dataset.sum_by_task(dataset.y > 0), dataset.sum_by_task(dataset.y <= 0)
    return np.asarray((dataset.task_type == "binary") & ((positive == 0) | (negative == 0)))
