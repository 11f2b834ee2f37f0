"""Training and test rows of a data set: what is fitted on and scored.

A search fits hundreds of models to the same rows. `TaskRows` does what `fit` and `predict` of the models do, with the
same numbers, and keeps what does not depend on the model: checked arrays, scaled targets, the containers of the solvers
with their decompositions, the tasks of the rows.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.utils import check_array

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import GROUP, NEW_TASK, WEIGHT
from mtlrun.data.weights import weighted_moments
from mtlrun.errors import MtlrunError
from mtlrun.estimators.base import BaseMTL, ClassifierMTL
from mtlrun.estimators.baselines import (
    ScaledTargets,
    for_tasks,
    given,
    predict_scores,
    scaled_targets,
)
from mtlrun.estimators.inputs import takes_groups, task_codes
from mtlrun.estimators.params import check_params
from mtlrun.metrics import Metric, average, get_metric, labels_from_scores
from mtlrun.problem.taskdata import TaskData, is_sparse

Array = np.ndarray[Any, np.dtype[Any]]

#: Methods of a class that decide how it reads rows.
_READERS = ("fit", "_prepare", "_read_X", "_read_design", "_task_data", "_scores")


class TaskRows:
    """Rows of some tasks.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    y : ndarray of shape (n,) or (n, T)
    task_id : ndarray of shape (n,), optional
    weights : ndarray of shape (n,) or (n, T), optional
    groups : ndarray of shape (n,), optional
        Rows that splits inside of an estimator keep together.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        task_id: Array | None = None,
        weights: Array | None = None,
        groups: Array | None = None,
    ) -> None:
        self.X = X
        self.y = y
        self.task_id = task_id
        self.weights = weights
        self.groups = groups
        self._read: dict[Any, tuple[TaskData, dict[str, Any]]] = {}
        self._codes: dict[tuple[int, str], tuple[Array, Array]] = {}

    def fit(self, estimator: Any) -> Any:
        """Fit an estimator to the rows, wrapped per task where that is needed, and return what was fitted."""
        estimator = for_tasks(estimator, self.y, self.task_id)
        if isinstance(estimator, ScaledTargets):
            rows, center, scale = self._scaled
            estimator.begin(self.y, self.task_id, center, scale)
            rows.fit(estimator.estimator_)
            return estimator.finish(self.X.shape[1])
        if not _reads_plainly(estimator):
            with config_context(assume_finite=self._finite):
                return self.fit_alone(estimator)
        check_params(estimator, estimator._rules)
        data, learnt = self._data(estimator)
        vars(estimator).update(learnt)
        estimator._require_memory(data)
        estimator._publish(estimator._fit_data(data))
        return estimator

    def fit_alone(self, estimator: Any) -> Any:
        """Do what `fit` does by the method of the estimator, which reads and checks the rows itself."""
        estimator = for_tasks(estimator, self.y, self.task_id)
        groups = self.groups if takes_groups(estimator) else None
        return estimator.fit(
            self.X,
            self.y,
            **given(task_id=self.task_id, sample_weight=self.weights, groups=groups),
        )

    def predict(self, estimator: Any) -> Array:
        """Return the decision function of the rows where there is one, else the predictions."""
        if isinstance(estimator, ScaledTargets):
            return np.asarray(
                estimator.unscaled(self.predict(estimator.estimator_), self.task_id)
            )
        if _reads_plainly(estimator) and estimator.n_features_in_ == self.X.shape[1]:
            if self.task_id is None:
                return np.asarray(
                    estimator._of_all_tasks(estimator._scores_of_tasks(self._design))
                )
            codes = self._codes_of(estimator.tasks_, estimator.unseen)
            return np.asarray(estimator._scores_of_rows(self._design, codes))
        with config_context(assume_finite=self._finite):
            return predict_scores(estimator, self.X, self.task_id)

    def _data(self, estimator: BaseMTL) -> tuple[TaskData, dict[str, Any]]:
        """Return the rows as such a model reads them, and the attributes that it sets then."""
        key = (
            type(estimator)._read_y,
            type(estimator)._all_weights,
            repr(getattr(estimator, "class_weight", None)),
        )
        if key not in self._read:
            probe = clone(estimator)
            data = probe._prepare(
                self.X, self.y, task_id=self.task_id, sample_weight=self.weights
            )
            data.share_decompositions()
            params = probe.get_params(deep=False)
            self._read[key] = (
                data,
                {
                    name: value
                    for name, value in vars(probe).items()
                    if name not in params
                },
            )
        return self._read[key]

    @cached_property
    def _scaled(self) -> tuple[TaskRows, Array, Array]:
        """The rows with targets of mean 0 and variance 1, the means and the deviations."""
        y, center, scale = scaled_targets(self.y, self.weights)
        return self._with_targets(y), center, scale

    def _with_targets(self, y: Array) -> TaskRows:
        """Return the rows with other targets."""
        return TaskRows(self.X, y, self.task_id, self.weights, self.groups)

    @cached_property
    def _design(self) -> Any:
        """X as the models need it."""
        return check_array(self.X, accept_sparse="csr", dtype=np.float64)

    @cached_property
    def _finite(self) -> bool:
        values = self.X.data if is_sparse(self.X) else np.asarray(self.X)
        return values.dtype.kind in "biu" or (
            values.dtype.kind == "f" and bool(np.isfinite(values).all())
        )

    def _codes_of(self, tasks: Array, unseen: str) -> Array:
        """Return the positions of the tasks of the rows; the models of a search share one array of tasks."""
        key = (id(tasks), unseen)
        if key not in self._codes:
            assert self.task_id is not None
            self._codes[key] = (
                tasks,
                task_codes(np.asarray(self.task_id), tasks, unseen),
            )
        return self._codes[key][1]


def _reads_plainly(estimator: Any) -> bool:
    """Whether a model reads rows, and scores them, as the base class does."""
    cls = type(estimator)
    if not isinstance(estimator, BaseMTL) or estimator.task_column is not None:
        return False
    scores = (
        cls.decision_function is ClassifierMTL.decision_function
        if isinstance(estimator, ClassifierMTL)
        else True
    )
    return scores and all(
        getattr(cls, name) is getattr(BaseMTL, name) for name in _READERS
    )


# ---------------------------------------------------------------------- scores

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
class TrainTestData:
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
    def of(cls, dataset: Dataset, train: np.ndarray, test: np.ndarray) -> TrainTestData:
        """Take rows of a data set."""
        part = dataset.subset(train)
        rows = np.union1d(train, test)
        return cls(
            part, dataset.subset(test), one_class(part), _variances(dataset, rows), test
        )

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
            raise Diverged(
                f"{(~np.isfinite(scores)).mean():.0%} of the predictions are not finite"
            )
        return scores

    def score(
        self, estimator: Any, scores: np.ndarray, metrics: list[str], how: str
    ) -> dict[str, Scores]:
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
        return {
            name: self._score(estimator, get_metric(name), scores, how)
            for name in metrics
        }

    def _score(
        self, estimator: Any, metric: Metric, scores: np.ndarray, how: str
    ) -> Scores:
        values = scores
        if metric.needs == "label":
            if is_classifier(estimator):
                values = estimator.predict(
                    self.test.X, **given(task_id=self.test.task_id)
                )
            elif self.train.zero_one:
                values = labels_from_scores(scores - 0.5, negative=0)
            else:
                values = labels_from_scores(scores)
        layout: dict[str, Any] = (
            {}
            if self.test.task_id is None
            else {"task_id": self.test.task_id, "tasks": range(self.test.n_tasks)}
        )
        if metric.task_variance:
            layout["variance"] = self.variance
        per_task = metric(
            self.test.y,
            np.asarray(values),
            weights=self.test.source.get(WEIGHT),
            **layout,
        )
        # New tasks have no training labels: other tasks predict them.
        if metric.name in NEEDS_BOTH_CLASSES and NEW_TASK not in self.test.source:
            per_task = np.where(self.one_class, np.nan, per_task)
        mean, undefined = average(
            per_task,
            _task_sizes(self.test),
            "sample" if how == "sample" else "task",
        )
        return Scores(mean, undefined, per_task)


def innermost(estimator: Any) -> Any:
    """Return the fitted estimator inside scaled targets, calibrated scores and the like."""
    while hasattr(estimator, "estimator_"):
        estimator = estimator.estimator_
    return estimator


def has_std(estimator: Any) -> bool:
    """Whether a fitted estimator predicts standard deviations of new targets."""
    predict = innermost(estimator).predict
    return "return_std" in inspect.signature(predict).parameters


def predict_std(
    estimator: Any, X: Any, task_id: np.ndarray | None
) -> np.ndarray | None:
    """Return the standard deviations of new targets in the shape of the predictions, None where there are none."""
    if not has_std(estimator):
        return None
    return np.asarray(
        estimator.predict(X, **given(task_id=task_id), return_std=True)[1]
    )


def predict_labels(estimator: Any, X: Any, task_id: np.ndarray | None) -> np.ndarray:
    """Return labels: those of a classifier, the signs of the scores of a regressor that was fitted on -1/+1."""
    if hasattr(estimator, "classes_"):
        return np.asarray(estimator.predict(X, **given(task_id=task_id)))
    return np.asarray(labels_from_scores(predict_scores(estimator, X, task_id)))


def _rows(dataset: Dataset) -> TaskRows:
    return TaskRows(
        dataset.X,
        dataset.y,
        dataset.task_id,
        dataset.source.get(WEIGHT),
        dataset.source.get(GROUP),
    )


def _task_sizes(dataset: Dataset) -> np.ndarray:
    """Return the number of targets of every task, or their weight."""
    observed = (~np.isnan(dataset.y)).astype(float)
    weights = dataset.source.get(WEIGHT)
    if weights is not None:
        observed *= weights if observed.ndim == 1 else weights[:, np.newaxis]
    return dataset.sum_by_task(observed)


def _variances(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the weighted population variance of the targets of every task over rows.

    Missing targets do not count. NaN where labels are not numbers.
    """
    if dataset.task_type != "regression":
        return np.full(dataset.n_tasks, np.nan)
    y = dataset.y[rows]
    weights = dataset.source.get(WEIGHT)
    if dataset.task_id is None:
        if weights is None:
            return np.atleast_1d(np.nanvar(y, axis=0))
        return np.atleast_1d(weighted_moments(y, weights[rows])[1])
    codes = dataset.task_id[rows]
    n_tasks = dataset.n_tasks
    if weights is None:
        sizes: np.ndarray = np.bincount(codes, minlength=n_tasks)
        row_weights = np.ones(len(rows))
    else:
        row_weights = weights[rows]
        sizes = np.bincount(codes, weights=row_weights, minlength=n_tasks)
    sizes = np.where(sizes > 0, sizes, 1)
    means = np.bincount(codes, weights=row_weights * y, minlength=n_tasks) / sizes
    squares = row_weights * (y - means[codes]) ** 2
    return np.bincount(codes, weights=squares, minlength=n_tasks) / sizes


def one_class(dataset: Dataset) -> np.ndarray:
    """Return the tasks whose labels are all the same; False throughout for regression."""
    positive, negative = (
        dataset.sum_by_task(dataset.y > 0),
        dataset.sum_by_task(dataset.y <= 0),
    )
    return np.asarray(
        (dataset.task_type == "binary") & ((positive == 0) | (negative == 0))
    )
