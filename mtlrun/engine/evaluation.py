"""Training and test rows: fit models, predict and score.

A search fits hundreds of models to the same rows. `TaskRows` gives the same numbers as
`fit` and `predict` of the models, but keeps everything that does not depend on the
model: checked arrays, scaled targets, containers of the solvers with their
decompositions, and the positions of the tasks.
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
from mtlrun.data.roles.weights import weighted_moments
from mtlrun.data.splits import GROUP, NEW_TASK, WEIGHT
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
from mtlrun.metrics.classification import labels_from_scores
from mtlrun.metrics.inputs import average
from mtlrun.metrics.registry import get_metric
from mtlrun.problem.taskdata import TaskData, is_sparse

Array = np.ndarray[Any, np.dtype[Any]]


class TaskRows:
    """Rows of some tasks.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    y : ndarray of shape (n,) or (n, T)
    task_id : ndarray of shape (n,), optional
    weights : ndarray of shape (n,) or (n, T), optional
    groups : ndarray of shape (n,), optional
        Rows of a group stay together in the splits of an estimator.
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
        #: Rows as models of a kind read them, and the attributes that reading sets.
        self._data_by_kind: dict[Any, tuple[TaskData, dict[str, Any]]] = {}
        #: Array of tasks, which must stay in memory because its id is in the key, and
        #: the positions of the tasks of the rows in it.
        self._codes: dict[tuple[int, str], tuple[Array, Array]] = {}

    def fit(self, estimator: Any) -> Any:
        """Fit an estimator to the rows and return the fitted model.

        An estimator for a single task is fitted per task (`for_tasks`).
        """
        estimator = for_tasks(estimator, self.y, self.task_id, self.weights)
        if isinstance(estimator, ScaledTargets):
            rows, center, scale = self._scaled
            estimator.begin(self.y, self.task_id, center, scale, self.weights)
            rows.fit(estimator.estimator_)
            return estimator.finish(self.X.shape[1])
        if not _reads_like_base(estimator):
            with config_context(assume_finite=self._is_finite):
                return self.fit_alone(estimator)
        # The steps of `BaseMTL.fit`, with rows that other models have read.
        check_params(estimator, estimator._rules)
        kind = (
            type(estimator)._read_X,
            type(estimator)._read_y,
            type(estimator)._all_weights,
            repr(getattr(estimator, "class_weight", None)),
        )
        if kind not in self._data_by_kind:
            reader = clone(estimator)
            data = reader._prepare(
                self.X, self.y, task_id=self.task_id, sample_weight=self.weights
            )
            data.share_decompositions()
            attributes = dict(vars(reader))
            for name in reader.get_params(deep=False):
                attributes.pop(name, None)
            self._data_by_kind[kind] = (data, attributes)
        data, attributes = self._data_by_kind[kind]
        vars(estimator).update(attributes)
        estimator._require_memory(data)
        estimator._publish(estimator._fit_data(data))
        return estimator

    def fit_alone(self, estimator: Any) -> Any:
        """Fit an estimator as `fit`, but let it read and check the rows itself."""
        estimator = for_tasks(estimator, self.y, self.task_id, self.weights)
        groups = self.groups if takes_groups(estimator) else None
        return estimator.fit(
            self.X,
            self.y,
            **given(task_id=self.task_id, sample_weight=self.weights, groups=groups),
        )

    def predict(self, estimator: Any) -> Array:
        """Return the decision function of the rows, or the predictions without one."""
        if isinstance(estimator, ScaledTargets):
            scaled_scores = self.predict(estimator.estimator_)
            return np.asarray(estimator.unscaled(scaled_scores, self.task_id))
        n_columns = self.X.shape[1]
        if not _reads_like_base(estimator) or estimator.n_features_in_ != n_columns:
            with config_context(assume_finite=self._is_finite):
                return predict_scores(estimator, self.X, self.task_id)
        if self.task_id is None:
            scores = estimator._scores_of_tasks(self._design)
            return np.asarray(estimator._of_all_tasks(scores))
        # The models of a search share one array of tasks.
        tasks = estimator.tasks_
        key = (id(tasks), estimator.unseen)
        if key not in self._codes:
            codes = task_codes(np.asarray(self.task_id), tasks, estimator.unseen)
            self._codes[key] = (tasks, codes)
        _, codes = self._codes[key]
        return np.asarray(estimator._scores_of_rows(self._design, codes))

    @cached_property
    def _scaled(self) -> tuple[TaskRows, Array, Array]:
        """Rows with targets of mean 0 and variance 1, the means and the deviations."""
        y, center, scale = scaled_targets(self.y, self.weights)
        rows = TaskRows(self.X, y, self.task_id, self.weights, self.groups)
        return rows, center, scale

    @cached_property
    def _design(self) -> Any:
        """X as a checked array or CSR matrix of float64."""
        return check_array(self.X, accept_sparse="csr", dtype=np.float64)

    @cached_property
    def _is_finite(self) -> bool:
        """Whether X is known to have neither NaN nor infinite values."""
        values = self.X.data if is_sparse(self.X) else np.asarray(self.X)
        if values.dtype.kind in "biu":
            return True
        return values.dtype.kind == "f" and bool(np.isfinite(values).all())


def _reads_like_base(estimator: Any) -> bool:
    """Whether a model reads and scores rows as the base class does."""
    if not isinstance(estimator, BaseMTL) or not estimator._reads_like_base():
        return False
    scorer = getattr(type(estimator), "decision_function", None)
    is_multi_task = isinstance(estimator, ClassifierMTL)
    return not is_multi_task or scorer is ClassifierMTL.decision_function


# ---------------------------------------------------------------- scores

#: Metrics that are meaningless for a task whose training labels are all equal, because
#: its scores are constant or arbitrary.
NEEDS_BOTH_CLASSES = ("auc", "auc_frequent", "average_precision")


class Diverged(MtlrunError):
    """Predictions are not finite."""


@dataclass(frozen=True)
class Scores:
    """A metric of test rows.

    Attributes
    ----------
    mean : float
        Average over tasks; NaN if it is undefined for all tasks.
    undefined : int
        Number of tasks left out of the mean.
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
        Tasks whose training labels are all equal; False for regression.
    variance : ndarray of shape (n_tasks,)
        Variance of the targets of each task over training and test rows; NaN for
        labels.
    test_rows : ndarray of int
        Positions of the test rows in the data set.
    shrunken_variance : ndarray of shape (n_tasks,) or None
        The variances as gains use them: small tasks with rows of their own have
        variances that are shrunken towards the average.
    """

    train: Dataset
    test: Dataset
    one_class: np.ndarray
    variance: np.ndarray
    test_rows: np.ndarray
    shrunken_variance: np.ndarray | None = None

    @classmethod
    def of(cls, dataset: Dataset, train: np.ndarray, test: np.ndarray) -> TrainTestData:
        """Return the training and test rows of a data set, given their positions."""
        train_data = dataset.subset(train)
        variances, shrunken = _variances(dataset, np.union1d(train, test))
        return cls(
            train=train_data,
            test=dataset.subset(test),
            one_class=one_class(train_data),
            variance=variances,
            test_rows=test,
            shrunken_variance=shrunken,
        )

    def fit(self, estimator: Any) -> Any:
        """Fit an estimator to the training rows and return the fitted model.

        An estimator for a single task is fitted per task (`for_tasks`).
        """
        return self.rows.fit_alone(estimator)

    @cached_property
    def rows(self) -> TaskRows:
        """Training rows, for many models."""
        return _rows(self.train)

    @cached_property
    def new_rows(self) -> TaskRows:
        """Test rows, for many models."""
        return _rows(self.test)

    def predict(self, estimator: Any, *, many: bool = False) -> np.ndarray:
        """Return the scores of the test rows: `decision_function`, else `predict`.

        Parameters
        ----------
        estimator : object
            Fitted.
        many : bool, default False
            Whether many models predict the same rows. They then share `new_rows`, which
            takes less time.

        Raises
        ------
        Diverged
            If the scores are not finite.
        """
        if many:
            scores = self.new_rows.predict(estimator)
        else:
            scores = predict_scores(estimator, self.test.X, self.test.task_id)
        if scores.dtype.kind == "f":
            is_finite = np.isfinite(scores)
            if not is_finite.all():
                share = (~is_finite).mean()
                raise Diverged(f"{share:.0%} of the predictions are not finite")
        return scores

    def score(
        self, estimator: Any, scores: np.ndarray, metrics: list[str], how: str
    ) -> dict[str, Scores]:
        """Return metrics of the test rows by name.

        Parameters
        ----------
        estimator : object
            Fitted; predicts the labels for metrics that need them.
        scores : ndarray
            Result of `predict`.
        metrics : list of str
        how : {"task", "sample"}
            Average over tasks: each task counts equally, or by its number of rows.
        """
        test = self.test
        options: dict[str, Any] = {}
        if test.task_id is not None:
            options = {"task_id": test.task_id, "tasks": range(test.n_tasks)}
        weights = test.source.get(WEIGHT)
        observed = (~np.isnan(test.y)).astype(float)
        if weights is not None:
            observed *= weights if observed.ndim == 1 else weights[:, np.newaxis]
        # The number of targets of each task, or the sum of their weights.
        sizes = test.sum_by_task(observed)
        results = {}
        for name in metrics:
            metric = get_metric(name)
            values = scores
            if metric.needs == "label":
                values = self._labels(estimator, scores)
            variance: dict[str, Any] = {}
            if metric.task_variance:
                variance["variance"] = self.variance
            if metric.shrinks_variance:
                variance["variance"] = self.shrunken_variance
            per_task = metric(
                test.y, np.asarray(values), weights=weights, **options, **variance
            )
            # Other tasks predict new tasks, which have no training labels.
            if name in NEEDS_BOTH_CLASSES and NEW_TASK not in test.source:
                per_task = np.where(self.one_class, np.nan, per_task)
            mean, undefined = average(
                per_task, sizes, "sample" if how == "sample" else "task"
            )
            results[name] = Scores(mean, undefined, per_task)
        return results

    def _labels(self, estimator: Any, scores: np.ndarray) -> np.ndarray:
        """Return the predicted labels of the test rows."""
        if is_classifier(estimator):
            task_id = given(task_id=self.test.task_id)
            return np.asarray(estimator.predict(self.test.X, **task_id))
        if self.train.zero_one:
            return labels_from_scores(scores - 0.5, negative=0)
        return labels_from_scores(scores)


def innermost(estimator: Any) -> Any:
    """Return the fitted estimator within wrappers such as scaled targets.

    The `estimator_` of a forest is not fitted: it is the pattern of its `estimators_`.
    """
    while hasattr(estimator, "estimator_") and not hasattr(estimator, "estimators_"):
        estimator = estimator.estimator_
    return estimator


def has_std(estimator: Any) -> bool:
    """Whether a fitted estimator predicts standard deviations of new targets."""
    predict = innermost(estimator).predict
    return "return_std" in inspect.signature(predict).parameters


def predict_std(
    estimator: Any, X: Any, task_id: np.ndarray | None
) -> np.ndarray | None:
    """Return the standard deviations of new targets in the shape of the predictions.

    None if the estimator does not predict them.
    """
    if not has_std(estimator):
        return None
    _, std = estimator.predict(X, **given(task_id=task_id), return_std=True)
    return np.asarray(std)


def predict_labels(estimator: Any, X: Any, task_id: np.ndarray | None) -> np.ndarray:
    """Return the labels of a classifier, or the signs of the scores of a regressor.

    Regressors are fitted to labels -1 and +1.
    """
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


def _variances(dataset: Dataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted population variance of the targets of each task over rows.

    Missing targets do not count. NaN for labels. The second array has the shrunken
    variances of tasks with rows of their own; targets on the same rows may have
    different units, so they keep their variances.
    """
    if dataset.task_type != "regression":
        unknown = np.full(dataset.n_tasks, np.nan)
        return unknown, unknown
    y = dataset.y[rows]
    weights = dataset.source.get(WEIGHT)
    if dataset.task_id is None:
        if weights is None:
            of_targets = np.atleast_1d(np.nanvar(y, axis=0))
        else:
            of_targets = np.atleast_1d(weighted_moments(y, weights[rows])[1])
        return of_targets, of_targets
    codes = dataset.task_id[rows]
    n_tasks = dataset.n_tasks
    if weights is None:
        sizes: np.ndarray = np.bincount(codes, minlength=n_tasks)
        row_weights = np.ones(len(rows))
    else:
        row_weights = weights[rows]
        sizes = np.bincount(codes, weights=row_weights, minlength=n_tasks)
    divisors = np.where(sizes > 0, sizes, 1)
    means = np.bincount(codes, weights=row_weights * y, minlength=n_tasks) / divisors
    squares = row_weights * (y - means[codes]) ** 2
    variances = np.bincount(codes, weights=squares, minlength=n_tasks) / divisors
    return variances, shrunken_variances(variances, sizes)


def one_class(dataset: Dataset) -> np.ndarray:
    """Return whether the labels of each task are all equal; False for regression."""
    n_positive = dataset.sum_by_task(dataset.y > 0)
    n_negative = dataset.sum_by_task(dataset.y <= 0)
    has_one_class = (n_positive == 0) | (n_negative == 0)
    return np.asarray((dataset.task_type == "binary") & has_one_class)


#: The variance of a small task is shrunken towards the variance of the average task, as
#: if the task had this many more rows. `benchmarks/small_tasks.py` tries other numbers.
VARIANCE_SHRINKAGE_ROWS = 10


def shrunken_variances(variances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Shrink the variances of tasks in one unit towards their average.

    The variance of a task with n rows becomes ``(n v + k a) / (n + k)``, where a is the
    average variance of a row and k is `VARIANCE_SHRINKAGE_ROWS`. Errors of small tasks
    are divided by it: their own variance may be almost 0 by chance, and such a task
    would decide a comparison alone.

    Parameters
    ----------
    variances : ndarray of shape (n_tasks,)
        NaN or 0 for tasks without rows.
    sizes : ndarray of shape (n_tasks,)
        Rows of each task, or the sum of their weights.

    Returns
    -------
    ndarray of shape (n_tasks,)
    """
    total = sizes * np.nan_to_num(variances)
    average = total.sum() / sizes.sum()
    shrinkage = VARIANCE_SHRINKAGE_ROWS
    return np.asarray((total + shrinkage * average) / (sizes + shrinkage))
