"""Baselines, and wrappers that make any scikit-learn estimator one of several tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    has_fit_parameter,
)

from mtlrun.data.groups import group_folds, strata_of
from mtlrun.data.reading.frames import (
    column_names,
    ordered_columns,
    plain_ids,
    plain_values,
    take,
    take_column,
)
from mtlrun.data.roles.weights import weighted_moments
from mtlrun.estimators.inputs import (
    KeepsGroups,
    TaskLayout,
    check_columns,
    check_groups,
    check_task_id,
    check_weights,
    drop_unweighted,
    parameters_of,
    refuse_list_of_arrays,
    signs,
    takes_groups,
    task_codes,
    warn_of_row_order,
)
from mtlrun.estimators.params import NamedParameters
from mtlrun.metrics.classification import accuracy_per_task
from mtlrun.metrics.regression import r2_per_task
from mtlrun.problem import memory

Array = np.ndarray

#: Copies of its features that an estimator makes, about.
_COPIES = 3


def takes_task_id(estimator: Any) -> bool:
    """Return whether ``fit`` has a parameter `task_id`, as in all estimators of
    mtlrun.
    """
    return "task_id" in parameters_of(getattr(estimator.fit, "__func__", estimator.fit))


def for_tasks(
    estimator: Any, y: Any, task_id: Any = None, sample_weight: Any = None
) -> Any:
    """Return an estimator that can be fitted to these targets: itself, or a `PerTask`
    of it.

    An estimator is wrapped if its ``fit`` takes no `task_id`, there are several tasks,
    and it cannot fit them at once: with task ids, with missing targets, with weights of
    entries, or if its tags declare a classifier or a single-output regressor. Any other
    2-D `y` is passed unchanged to a multi-output regressor, and to a class without
    tags.
    """
    y = np.asarray(y)
    if takes_task_id(estimator) or (task_id is None and y.ndim == 1):
        return estimator
    if y.ndim == 2 and (y == y).all() and np.ndim(sample_weight) < 2:
        if not hasattr(estimator, "__sklearn_tags__"):
            return estimator
        tags = get_tags(estimator)
        # scikit-learn's classifiers of several outputs have no scores in one array,
        # which metrics need.
        if tags.estimator_type == "regressor" and tags.target_tags.multi_output:
            return estimator
        if tags.estimator_type not in ("classifier", "regressor"):
            return estimator
    return PerTask(estimator)


class _Tasks(TaskLayout, BaseEstimator):
    """Reads the three layouts for estimators that need no `TaskData`."""

    def _read(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any
    ) -> tuple[Array, Array | None, Array | None]:
        """Return targets, task codes (None for a shared design) and weights."""
        refuse_list_of_arrays(X)
        self._check_columns(X, reset=True)
        warn_of_row_order(X, y=y, task_id=task_id, sample_weight=sample_weight)
        if y is None:
            raise ValueError(
                "This estimator requires y to be passed, but the target y is None."
            )
        names = column_names(y)
        if names is not None:
            sample_weight = ordered_columns(sample_weight, names)
        y = plain_values(np.asarray(y), "y")[0]
        check_consistent_length(X, y)
        if not len(y):
            raise ValueError("X and y have no rows; at least one row is needed")
        weights = check_weights(sample_weight, y.shape)
        if task_id is None:
            ids = None
        else:
            ids = check_task_id(task_id, len(y))
        self._layout = self._layout_of(y, ids)
        if self._layout == "shared":
            if names is None:
                self.tasks_ = np.arange(y.shape[1])
            else:
                self.tasks_ = np.asarray(names)
            return y, None, weights
        self.tasks_, codes = np.unique(
            np.zeros(len(y), dtype=int) if ids is None else ids, return_inverse=True
        )
        return y, codes, weights

    def _observed(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any, *, labels: bool = False
    ) -> tuple[Array, Array, Array, Array | None]:
        """Return row of X, task code, target and weight of each observed entry.

        Targets are numbers; `labels` keep their type.
        """
        y, codes, weights = self._read(X, y, task_id, sample_weight)
        if not labels:
            y = y.astype(np.float64)
        if codes is not None:
            return np.arange(len(y)), codes, y, weights
        is_observed = y == y  # NaN is not equal to itself
        if weights is not None and weights.ndim == 2:
            is_observed &= weights > 0
        codes, rows = np.nonzero(is_observed.T)
        if weights is not None:
            weights = np.broadcast_to(weights.T, y.T.shape)[codes, rows]
        return rows, codes, y[rows, codes], weights

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Remember number and names of the columns in `fit`, and compare them later.

        X may be anything with rows; other than tables are left to the estimator inside.
        """
        if getattr(X, "ndim", 2) == 2:
            check_columns(self, X, reset=reset)

    def _codes(self, X: Any, task_id: Any) -> Array | None:
        """Return the task of each row, -1 if unknown; None stands for all tasks."""
        check_is_fitted(self, "tasks_")
        self._check_columns(X, reset=False)
        warn_of_row_order(X, task_id=task_id)
        ids = None if task_id is None else check_task_id(task_id, X.shape[0])
        return self._task_of_rows(ids)


class _Wrapper(NamedParameters, BaseEstimator):
    """An estimator around another one, of the same type."""

    estimator: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


class PerTask(KeepsGroups, _Wrapper, _Tasks):
    """Fits a clone of a scikit-learn estimator for every task, on the rows of that
    task.

    An estimator that knows nothing of tasks then works like the estimators of mtlrun:
    with `task_id` for ragged data, a 2-D `y` for a shared design, NaN for a missing
    target. A classifier predicts the class of a task whose labels are all the same.

    Parameters
    ----------
    estimator : scikit-learn regressor or classifier
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict the mean of the models of
        all tasks, for labels the one that most models predict.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        Sorted task ids; column numbers (or names) of a 2-D `y`.
    estimators_ : list of n_tasks fitted estimators
    classes_ : ndarray
        All labels that occur; classifiers only.
    coef_ : ndarray of shape (n_tasks, n_features)
        Only where the fitted clones have a linear `coef_`, as has `intercept_`
        (n_tasks,).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> model = PerTask(LinearRegression()).fit(X, [0.0, 1.0, 0.0, -1.0], task_id=["a", "a", "b", "b"])
    >>> model.coef_.ravel().round(6).tolist()
    [1.0, -1.0]
    """

    def __init__(self, estimator: Any, *, unseen: str = "error") -> None:
        self.estimator = estimator
        self.unseen = unseen

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit all tasks.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame with n_samples rows
            Handed to the estimator as it is, rows chosen.
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
        task_id : array-like of shape (n_samples,), optional
            The task of each row, for a 1-D `y`.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_tasks), optional
            Only for estimators that take it. Rows and entries of weight 0 are left out.
        groups : array-like of shape (n_samples,), optional
            Passed on to estimators whose `fit` accepts it; inner splits keep the rows
            of a group together.

        Raises
        ------
        ValueError
            For a list of arrays, task ids with a 2-D `y`, or a task without observed
            targets.
        """
        groups = check_groups(groups, X, sample_weight)
        X, y, task_id, sample_weight = drop_unweighted(X, y, task_id, sample_weight)
        y, codes, weights = self._read(X, y, task_id, sample_weight)
        X = _indexable(X)
        if len(X.shape) == 2:
            self.n_features_in_ = X.shape[1]
        self.estimators_ = []
        for t in range(len(self.tasks_)):
            targets = y[:, t] if codes is None else y
            rows = np.flatnonzero(targets == targets if codes is None else codes == t)
            w = weights
            if weights is not None and weights.ndim == 2:
                w = weights[:, t]
                rows = rows[w[rows] > 0]
            if not rows.size:
                raise ValueError(
                    f"task '{self.tasks_[t]}' has no observed target: leave it out of y"
                )
            self.estimators_.append(self._fit_one(X, rows, targets, w, groups))
        if is_classifier(self.estimator):
            self.classes_ = np.unique(
                np.concatenate([model.classes_ for model in self.estimators_])
            )
        return self

    def _fit_one(
        self, X: Any, rows: Array, y: Array, weights: Array | None, groups: Any
    ) -> Any:
        model = clone(self.estimator)
        if (
            is_classifier(model)
            and self._layout != "single"
            and len(np.unique(y[rows])) == 1
        ):
            model = DummyClassifier(strategy="most_frequent")
        if weights is None:
            extra = {}
        else:
            extra = {"sample_weight": weights[rows]}
        if groups is not None and takes_groups(model):
            extra["groups"] = groups[rows]
        return model.fit(take(X, rows), y[rows], **extra)

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Predict targets or labels: (n_samples, n_tasks) for a shared design without
        task ids, else (n_samples,).

        Raises
        ------
        ValueError
            If task ids are missing or unknown.
        """
        has_votes = self.unseen == "mean" and is_classifier(self.estimator)
        if task_id is None or not has_votes:
            return self._collect(X, task_id, lambda model, part: model.predict(part))
        # Labels have no mean: the models of all tasks vote on rows of unknown tasks.
        votes = self._collect(
            X,
            task_id,
            lambda model, part: model.predict(part)[:, np.newaxis] == self.classes_,
        )
        return self.classes_[votes.argmax(axis=1)]

    @available_if(lambda self: is_classifier(self.estimator))
    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return scores whose sign separates the two classes, shaped as `predict`.

        The estimator's decision function, else the log-odds of its probabilities, else
        +1 and -1 of its labels.
        """
        return self._collect(
            X, task_id, lambda model, part: _class_scores(model, part, self.classes_)
        )

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, task_id: Any = None
    ) -> float:
        """Return R2 or accuracy, over all rows (1-D `y`) or averaged over tasks."""
        if is_classifier(self):
            return self._score(accuracy_per_task, X, y, sample_weight, task_id)
        return self._score(r2_per_task, X, y, sample_weight, task_id)

    @property
    def coef_(self) -> Array:
        """Coefficients of linear estimators, shape (n_tasks, n_features)."""
        return np.vstack([_linear(model, "coef_") for model in self.estimators_])

    @property
    def intercept_(self) -> Array:
        """Intercepts of linear estimators, shape (n_tasks,)."""
        return np.concatenate(
            [_linear(model, "intercept_") for model in self.estimators_]
        )

    def _collect(self, X: Any, task_id: Any, call: Any) -> Array:
        X = _indexable(X)
        codes = self._codes(X, task_id)
        if codes is None:
            columns = [np.asarray(call(model, X)) for model in self.estimators_]
            if self._layout == "shared":
                return np.column_stack(columns)
            return columns[0]
        parts: list[tuple[Array, Any]] = []
        for t, model in enumerate(self.estimators_):
            rows = np.flatnonzero(codes == t)
            if rows.size:
                parts.append((rows, model))
        values = [np.asarray(call(model, take(X, rows))) for rows, model in parts]
        new = np.flatnonzero(codes < 0)
        if new.size:
            parts.append((new, None))
            values.append(
                np.mean(
                    [call(model, take(X, new)) for model in self.estimators_],
                    axis=0,
                )
            )
        order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
        return np.concatenate(values)[order]


def _indexable(X: Any) -> Any:
    if sp.issparse(X):
        return sp.csr_matrix(X)
    if hasattr(X, "shape"):
        return X
    return np.asarray(X)


def _class_scores(model: Any, X: Any, classes: Array) -> Array:
    """Return the decision function of a model, else log-odds, else +1 and -1."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    p = None
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
    if p is None or p.shape[1] == 1:
        return signs(model.predict(X), classes)
    return np.asarray(
        logit(np.clip(p[:, 1], 1e-12, 1 - 1e-12)) if p.shape[1] == 2 else p
    )


def _linear(model: Any, name: str) -> Array:
    """Return a 1-D attribute of one linear model; AttributeError where it has none."""
    if isinstance(model, DummyClassifier):
        raise AttributeError(f"a task of one class has no {name}")
    return np.atleast_1d(np.squeeze(np.asarray(getattr(model, name))))


class TaskMean(_Tasks):
    """Predicts the mean target of the task: what a model must beat.

    Labels -1/+1 are numbers here. For an unknown task, ``unseen="mean"`` predicts the
    mean of all tasks. The fitted means are `means_`, the tasks `tasks_`.
    """

    def __init__(self, unseen: str = "error") -> None:
        self.unseen = unseen

    def fit(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> Self:
        """Compute the means; arguments as for every estimator of mtlrun."""
        X, y, task_id, sample_weight = drop_unweighted(
            _indexable(X), y, task_id, sample_weight
        )
        _, codes, values, weights = self._observed(X, y, task_id, sample_weight)
        if weights is None:
            weights = np.ones(len(values))
        totals = np.bincount(codes, weights, len(self.tasks_))
        sums = np.bincount(codes, weights * values, len(self.tasks_))
        self.means_ = np.divide(sums, totals, out=np.zeros(len(sums)), where=totals > 0)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Return the means: (n, T) for a shared design without task ids, else (n,)."""
        X = _indexable(X)
        codes = self._codes(X, task_id)
        if codes is None:
            return self._of_all_tasks(np.tile(self.means_, (X.shape[0], 1)))
        return np.append(self.means_, self.means_.mean())[codes]


class LastValue(_Tasks):
    """Predicts the last value of the task, by the time in the last column of X.

    A model of next rows must beat it ("last value carried forward"). With
    drift, the prediction is the end of the line through the first and the last value
    of the task, at the time of the new row (the random walk with drift). Targets with
    the same time are averaged by their weights. Labels -1/+1 are numbers here.

    Parameters
    ----------
    drift : bool, default False
        A task with a single time has none.
    unseen : {"error", "mean"}, default "error"
        Rows of an unknown task: refuse them, or predict the mean of the last values.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
    last_values_, last_times_, drifts_ : ndarray of shape (n_tasks,)
        Drifts are changes per unit of time.

    References
    ----------
    Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 2021, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> time = np.array([[0.0], [1.0], [2.0]])
    >>> model = LastValue(drift=True).fit(time, [1.0, 5.0, 2.0], task_id=["a"] * 3)
    >>> model.predict([[4.0]], task_id=["a"]).tolist()
    [3.0]
    """

    def __init__(self, drift: bool = False, unseen: str = "error") -> None:
        self.drift = drift
        self.unseen = unseen

    def fit(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> Self:
        """Find the last values; arguments as for every estimator of mtlrun."""
        X, y, task_id, sample_weight = drop_unweighted(
            _indexable(X), y, task_id, sample_weight
        )
        rows, codes, values, weights = self._observed(X, y, task_id, sample_weight)
        if weights is None:
            weights = np.ones(len(values))
        times = _times(X)[rows]
        n_tasks = len(self.tasks_)
        last = _last_values(times, values, weights, codes, n_tasks)
        self.last_times_, self.last_values_ = last
        # The first rows are the last ones of time that runs backwards.
        minus_first_times, first_values = _last_values(
            -times, values, weights, codes, n_tasks
        )
        duration = self.last_times_ + minus_first_times
        self.drifts_ = np.divide(
            self.last_values_ - first_values,
            duration,
            out=np.zeros(n_tasks),
            where=duration > 0,
        )
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Return predictions: (n, T) for a shared design, else (n,)."""
        X = _indexable(X)
        codes = self._codes(X, task_id)
        times = _times(X)
        if codes is None:
            elapsed = times[:, np.newaxis] - self.last_times_
            return self._of_all_tasks(self._values(elapsed, slice(None)))
        tasks = np.maximum(codes, 0)
        predicted = self._values(times - self.last_times_[tasks], tasks)
        return np.where(codes < 0, self.last_values_.mean(), predicted)

    def _values(self, elapsed: Array, tasks: Any) -> Array:
        values = self.last_values_[tasks]
        if not self.drift:
            return values + 0 * elapsed
        return values + self.drifts_[tasks] * elapsed


def _times(X: Any) -> Array:
    """Return the last column of X."""
    return take_column(X, -1)[0].astype(np.float64)


def _last_values(
    times: Array, values: Array, weights: Array, codes: Array, n_tasks: int
) -> tuple[Array, Array]:
    """Return the last time of each task, and the mean of its values there."""
    last = np.full(n_tasks, -np.inf)
    np.maximum.at(last, codes, times)
    is_last = times == last[codes]
    tasks = codes[is_last]
    weights = weights[is_last]
    totals = np.bincount(tasks, weights, n_tasks)
    sums = np.bincount(tasks, weights * values[is_last], n_tasks)
    means = np.divide(sums, totals, out=np.zeros(n_tasks), where=totals > 0)
    return np.where(totals > 0, last, 0.0), means


class TaskFeature(KeepsGroups, _Wrapper, _Tasks):
    """A scikit-learn estimator on the rows of all tasks, with the task as a feature.

    One 0/1 column per task is appended to the features; a shared design is repeated
    once per task. Rows of an unknown task (``unseen="mean"``) have zeros there. If a
    dense matrix would be too large (many tasks), an estimator that accepts sparse
    matrices gets one.

    Parameters
    ----------
    estimator : scikit-learn regressor or classifier
    encoding : {"one-hot", "number"}, default "one-hot"
        ``number`` puts one column with the position of the task before the features
        instead, for trees on many tasks.
    unseen : {"error", "mean"}, default "error"

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
    estimator_ : fitted estimator
    coef_, intercept_ : ndarray of shape (n_tasks, n_features) and (n_tasks,)
        Only of linear estimators with ``encoding="one-hot"``.
    classes_ : ndarray
        Classifiers only.
    """

    def __init__(
        self, estimator: Any, *, encoding: str = "one-hot", unseen: str = "error"
    ) -> None:
        self.estimator = estimator
        self.encoding = encoding
        self.unseen = unseen

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit one model; arguments as of `PerTask.fit`.

        Raises
        ------
        ValueError
            For an unknown encoding, or weights when the estimator takes none.
        MemoryLimitError
            If the features with the features of the tasks would not fit into memory;
            also a ValueError.
        """
        if self.encoding not in ("one-hot", "number"):
            raise ValueError(
                f"encoding must be 'one-hot' or 'number', not {self.encoding!r}"
            )
        groups = check_groups(groups, X, sample_weight)
        X, y, task_id, sample_weight = drop_unweighted(
            _indexable(X), y, task_id, sample_weight
        )
        rows, codes, values, weights = self._observed(
            X, y, task_id, sample_weight, labels=is_classifier(self.estimator)
        )
        if weights is None:
            extra = {}
        else:
            extra = {"sample_weight": weights}
        if extra and not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(
                f"{type(self.estimator).__name__} takes no weights of rows"
            )
        self.estimator_ = clone(self.estimator)
        if is_classifier(self.estimator) and len(np.unique(values)) == 1:
            self.estimator_ = DummyClassifier()
        if groups is not None and takes_groups(self.estimator_):
            extra["groups"] = groups[rows]
        self.estimator_.fit(
            self._with_task(X, codes, rows if self._layout == "shared" else None),
            values,
            **extra,
        )
        self.n_features_in_ = X.shape[1]
        if is_classifier(self.estimator):
            self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Predict targets or labels: (n, T) for shared designs without ids, else
        (n,).
        """
        return self._each(X, task_id, lambda part: self.estimator_.predict(part))

    @available_if(lambda self: is_classifier(self.estimator))
    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return scores as of `PerTask`, shaped as `predict`."""
        return self._each(
            X, task_id, lambda part: _class_scores(self.estimator_, part, self.classes_)
        )

    @property
    def coef_(self) -> Array:
        """Coefficients of a linear estimator, the same in every task."""
        shared = self._linear_coef[: self.n_features_in_]
        return np.tile(shared, (len(self.tasks_), 1))

    @property
    def intercept_(self) -> Array:
        """Intercept of a linear estimator plus the coefficient of each task."""
        levels = self._linear_coef[self.n_features_in_ :]
        return _linear(self.estimator_, "intercept_") + levels

    @property
    def _linear_coef(self) -> Array:
        if self.encoding != "one-hot":
            raise AttributeError("a number for each task has no coefficient per task")
        return _linear(self.estimator_, "coef_")

    def _each(self, X: Any, task_id: Any, call: Any) -> Array:
        X = _indexable(X)
        codes = self._codes(X, task_id)
        if codes is not None:
            return np.asarray(call(self._with_task(X, codes)))
        columns = [
            call(self._with_task(X, np.full(X.shape[0], t)))
            for t in range(len(self.tasks_))
        ]
        if self._layout == "shared":
            return np.column_stack(columns)
        return np.asarray(columns[0])

    def _with_task(self, X: Any, codes: Array, rows: Array | None = None) -> Any:
        """Return these rows of X (default all) with the task of each."""
        n_rows = len(codes)
        columns = 1
        if self.encoding == "one-hot":
            columns = len(self.tasks_)
        n_bytes = 8.0 * _COPIES * n_rows * (X.shape[1] + columns)
        # Sparse, if a dense matrix with task columns would be too large
        is_sparse = sp.issparse(X) or (
            not memory.fits(n_bytes) and get_tags(self.estimator).input_tags.sparse
        )
        if is_sparse:
            X = X if sp.issparse(X) else sp.csr_matrix(X)
            n_bytes = 12.0 * _COPIES * n_rows * (X.nnz / max(X.shape[0], 1) + 1)
        work = f"TaskFeature on {n_rows} rows, {X.shape[1]} features and {len(self.tasks_)} tasks"
        memory.require(
            n_bytes, work, "Use encoding='number', fewer tasks or fewer rows."
        )
        if rows is not None:
            X = take(X, rows)
        if self.encoding == "number":
            return _beside(codes[:, np.newaxis].astype(np.float64), X)
        known_rows = np.flatnonzero(codes >= 0)
        ones = sp.csr_matrix(
            (np.ones(len(known_rows)), (known_rows, codes[known_rows])),
            shape=(len(codes), len(self.tasks_)),
            dtype=np.float64,
        )
        return _beside(X, ones if sp.issparse(X) else ones.toarray())


def _beside(first: Any, second: Any) -> Any:
    if sp.issparse(first) or sp.issparse(second):
        return sp.hstack([first, second], format="csr")
    return np.hstack([first, second])


def scaled_targets(
    y: Array, weights: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return targets of mean 0 and variance 1, the means and the standard deviations.

    Every column is scaled by itself; targets in one dimension are scaled together.

    Parameters
    ----------
    y : ndarray of shape (n,) or (n, T)
        NaN where missing.
    weights : ndarray of shape (n,) or (n, T), optional
        Weights of rows, or of entries, in means and deviations.
    """
    columns = y.reshape(len(y), -1)
    if weights is None:
        center = np.nanmean(columns, axis=0)
        deviation = np.nanstd(columns, axis=0)
    else:
        center, variance = weighted_moments(columns, weights)
        deviation = np.sqrt(variance)
    scale = np.where(deviation > 0, deviation, 1.0)
    return ((columns - center) / scale).reshape(y.shape), center, scale


def _numbers(y: Any, sample_weight: Any) -> tuple[Array, Array | None]:
    """Return targets as numbers, and their weights in the order of their columns.

    A missing target and an entry of weight 0 are NaN.
    """
    names = column_names(y)
    if names is not None:
        sample_weight = ordered_columns(sample_weight, names)
    y = plain_values(np.asarray(y), "y")[0].astype(np.float64)
    weights = check_weights(sample_weight, y.shape)
    if weights is not None and weights.ndim == 2:
        y = np.where(weights > 0, y, np.nan)
    return y, weights


class ScaledTargets(KeepsGroups, _Wrapper, _Tasks):
    """Fits an estimator to targets scaled to mean 0 and variance 1, and predicts in the
    original units.

    One strength of regularization then means the same for every task. The columns of a
    shared design are scaled one by one, since their units may differ; the targets of
    ragged tasks have one unit and are scaled together.

    Parameters
    ----------
    estimator : regressor
        An estimator whose ``fit`` has no `task_id` is fitted to each task separately,
        unless it accepts several outputs.
    warm_start : bool, default False
        Passed on to an estimator of several tasks that has this parameter: `fit` starts
        from the solution before.

    Attributes
    ----------
    estimator_ : fitted estimator
    tasks_, converged_, n_iter_, objective_, gap_, stop_crit_
        Those of the estimator, in scaled units, as far as it has them.
    coef_, intercept_ : ndarray of shape (n_tasks, n_features) and (n_tasks,)
        In the units of the targets; only where the estimator has them.
    center_, scale_ : ndarray of shape (n_tasks,) (shared) or (1,)
    """

    def __init__(self, estimator: Any, *, warm_start: bool = False) -> None:
        self.estimator = estimator
        self.warm_start = warm_start

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit on scaled targets; arguments as of `PerTask.fit`."""
        groups = check_groups(groups, X, sample_weight)
        X, y, task_id, sample_weight = drop_unweighted(
            _indexable(X), y, task_id, sample_weight
        )
        names = column_names(y)
        y, weights = _numbers(y, sample_weight)
        scaled, center, scale = scaled_targets(y, weights)
        self.begin(y, task_id, center, scale, weights)
        if not takes_groups(self.estimator_):
            groups = None
        arguments = given(task_id=task_id, sample_weight=weights, groups=groups)
        if names is not None:
            scaled = pd.DataFrame(scaled, columns=names)
        self.estimator_.fit(X, scaled, **arguments)
        return self.finish(X.shape[1])

    def begin(
        self, y: Array, task_id: Any, center: Array, scale: Array, weights: Array | None
    ) -> None:
        """Set all attributes that are known before the fit, and `estimator_`."""
        if y.ndim == 2:
            self._layout = "shared"
        else:
            self._layout = "flat"
        self.center_ = center
        self.scale_ = scale
        params = self.estimator.get_params(deep=False)
        fitted = None
        if self.warm_start:
            fitted = getattr(self, "estimator_", None)
        if isinstance(fitted, type(self.estimator)):
            fitted.set_params(
                **{
                    name: value
                    for name, value in params.items()
                    if name != "warm_start"
                }
            )
        else:
            self.estimator_: Any = for_tasks(clone(self.estimator), y, task_id, weights)
            if (
                self.warm_start
                and "warm_start" in params
                and takes_task_id(self.estimator)
            ):
                self.estimator_.set_params(warm_start=True)

    def finish(self, n_features: int) -> Self:
        """Set what the fitted estimator tells."""
        _adopt(
            self,
            ("tasks_", "converged_", "n_iter_", "objective_", "gap_", "stop_crit_"),
        )
        self.n_features_in_ = n_features
        return self

    def predict(self, X: Any, *, task_id: Any = None, return_std: bool = False) -> Any:
        """Predict in the units of the targets; `return_std` is scaled as well."""
        check_is_fitted(self, "estimator_")
        predictions = self.estimator_.predict(
            X, **given(task_id=task_id, return_std=return_std or None)
        )
        predicted, std = predictions if return_std else (np.asarray(predictions), None)
        return self.unscaled(predicted, task_id, std)

    def unscaled(self, predicted: Array, task_id: Any, std: Array | None = None) -> Any:
        """Return predictions, and deviations if any, in the units of the targets."""
        scale = self.scale_
        center = self.center_
        if (
            predicted.ndim == 1 and len(scale) > 1
        ):  # rows of a shared design, each for the task of its id
            codes = task_codes(
                check_task_id(task_id, len(predicted)), self.tasks_, "error"
            )
            scale = scale[codes]
            center = center[codes]
        scaled = predicted * scale + center
        if std is None:
            return scaled
        return (scaled, std * scale)

    @property
    def coef_(self) -> Array:
        """Coefficients in the units of the targets."""
        return np.asarray(self.estimator_.coef_) * self.scale_[:, np.newaxis]

    @property
    def intercept_(self) -> Array:
        """Intercepts in the units of the targets."""
        return np.asarray(self.estimator_.intercept_) * self.scale_ + self.center_


class CalibratedTasks(KeepsGroups, TaskLayout, BaseEstimator):
    """Platt's calibration of an estimator of mtlrun whose scores separate labels -1/+1.

    The estimator is fitted on all rows; its scores on held-out rows of a
    cross-validation fit one sigmoid ``p = 1 / (1 + exp(-(slope score + offset)))`` for
    all tasks. The offset then comes from the scores alone, so a task with its own base
    rate needs an estimator with intercepts per task (all of mtlrun have them).

    Parameters
    ----------
    estimator : estimator
        One whose ``fit`` takes no `task_id` is fitted to each task separately.
    folds : int, default 3

    Attributes
    ----------
    estimator_ : fitted estimator
    classes_ : ndarray, [-1, 1]
    slope_, offset_ : float
    tasks_, coef_, intercept_ : ndarray
        Of the estimator, as far as it has them.

    References
    ----------
    Platt, Probabilistic outputs for support vector machines, Advances in Large Margin
    Classifiers 1999.
    """

    def __init__(self, estimator: Any, *, folds: int = 3) -> None:
        self.estimator = estimator
        self.folds = folds

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        task_id: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit the estimator and the sigmoid; labels are -1/+1, NaN in a 2-D `y` is
        missing.

        With `groups` the rows of a group are held out together.

        Raises
        ------
        ValueError
            If there is only one label, or only one group.
        """
        groups = check_groups(groups, X, sample_weight)
        X, y, task_id, sample_weight = drop_unweighted(
            _indexable(X), y, task_id, sample_weight
        )
        names = column_names(y)
        y, weights = _numbers(y, sample_weight)
        if task_id is not None:
            task_id = plain_ids(task_id)
        if not set(np.unique(y[~np.isnan(y)])) == {-1.0, 1.0}:
            raise ValueError("calibration needs labels -1 and +1, both of them")
        held = np.full(y.shape, np.nan)
        for train, test in self._folds(y, task_id, groups):
            model = self._fitted(
                take(X, train),
                y[train],
                take(task_id, train),
                take(weights, train),
                take(groups, train),
            )
            if task_id is not None:  # tasks without rows in this part have no score
                test = test[np.isin(task_id[test], task_id[train])]
            if len(test):
                part = take(X, test)
                held[test] = predict_scores(model, part, take(task_id, test))
        use = ~np.isnan(y) & ~np.isnan(held)
        used_weights = None
        if weights is not None:
            used_weights = np.broadcast_to(weights.T, y.T.shape).T[use]
        sigmoid = LogisticRegression(C=1e6).fit(
            held[use][:, np.newaxis], y[use], sample_weight=used_weights
        )
        self.slope_ = float(sigmoid.coef_[0, 0])
        self.offset_ = float(sigmoid.intercept_[0])
        targets: Any = y
        if names is not None:
            targets = pd.DataFrame(y, columns=names)
        self.estimator_ = self._fitted(X, targets, task_id, weights, groups)
        self.classes_ = np.array([-1.0, 1.0])
        self.n_features_in_ = X.shape[1]
        _adopt(self, ("tasks_", "converged_"))
        return self

    def _folds(
        self, y: Array, task_id: Any, groups: Any
    ) -> Iterator[tuple[Array, Array]]:
        if groups is None:
            yield from KFold(self.folds, shuffle=True, random_state=0).split(y)
            return
        strata = strata_of(y, task_id, labels=True)
        yield from group_folds(groups, strata, y, self.folds, seed=0)

    def _fitted(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any, groups: Any
    ) -> Any:
        model = for_tasks(clone(self.estimator), y, task_id, sample_weight)
        if not takes_groups(model):
            groups = None
        arguments = given(task_id=task_id, sample_weight=sample_weight, groups=groups)
        return model.fit(X, y, **arguments)

    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return calibrated log-odds, in the shape of the estimator's scores."""
        check_is_fitted(self, "estimator_")
        return self.slope_ * predict_scores(self.estimator_, X, task_id) + self.offset_

    def predict_proba(self, X: Any, *, task_id: Any = None) -> Array:
        """Return probabilities: (n, T) of +1 for a shared design, else (n, 2)."""
        positive = expit(self.decision_function(X, task_id=task_id))
        if positive.ndim == 2:
            return positive
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Return labels: +1 where the probability exceeds one half."""
        return np.where(self.decision_function(X, task_id=task_id) > 0, 1.0, -1.0)

    @property
    def coef_(self) -> Array:
        """Coefficients of the scores, before calibration."""
        return np.asarray(self.estimator_.coef_)

    @property
    def intercept_(self) -> Array:
        """Intercepts of the scores, before calibration."""
        return np.asarray(self.estimator_.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags


def predict_scores(estimator: Any, X: Any, task_id: Any) -> Array:
    """Return the decision function where there is one, else the predictions."""
    call = getattr(estimator, "decision_function", None) or estimator.predict
    return np.asarray(call(X, **given(task_id=task_id)))


def given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def _adopt(wrapper: Any, names: tuple[str, ...]) -> None:
    """Set attributes of the fitted estimator on its wrapper, as far as it has them."""
    for name in names:
        if hasattr(wrapper.estimator_, name):
            setattr(wrapper, name, getattr(wrapper.estimator_, name))
