"""Baselines and wrappers for comparisons on tables: task means, the task as a feature, targets on one scale."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from mtlrun.estimators.inputs import check_task_id, check_weights, task_codes
from mtlrun.estimators.pertask import for_tasks, takes_task_id
from mtlrun.problem import memory

Array = np.ndarray[Any, np.dtype[Any]]

#: Copies of its features that an estimator makes, about.
_COPIES = 3


class _Tasks(BaseEstimator):
    """Layout of the tasks: ragged with ids, shared with a 2-D y, or one task."""

    def _read(self, X: Any, y: Any, task_id: Any, sample_weight: Any) -> tuple[Array, Array, Array, Array | None]:
        """Return row of X, task code, target and weight of every observed entry."""
        y = np.asarray(y, dtype=np.float64)
        weights = check_weights(sample_weight, y.shape)
        if y.ndim == 2:
            if task_id is not None:
                raise ValueError("task ids together with a 2-D y: a 2-D y already has one column per task")
            self._layout, self.tasks_ = "shared", np.arange(y.shape[1])
            codes, rows = np.nonzero(~np.isnan(y.T))
            taken = None if weights is None else (weights[:, None] * np.ones(y.shape) if weights.ndim == 1 else weights)
            return rows, codes, y[rows, codes], None if taken is None else taken[rows, codes]
        if task_id is None:
            self._layout, self.tasks_, codes = "single", np.array([0]), np.zeros(len(y), dtype=np.intp)
        else:
            self._layout = "ragged"
            self.tasks_, codes = np.unique(check_task_id(task_id, len(y)), return_inverse=True)
        return np.arange(len(y)), codes, y, weights

    def _codes(self, X: Any, task_id: Any) -> Array | None:
        """Return the task of every row, None when all tasks of a shared design are wanted; -1 is an unknown task."""
        check_is_fitted(self, "tasks_")
        if task_id is None:
            if self._layout == "ragged" and len(self.tasks_) > 1:
                raise ValueError(f"task_id is required: the model was fitted on {len(self.tasks_)} tasks")
            return None if self._layout == "shared" else np.zeros(X.shape[0], dtype=np.intp)
        return task_codes(check_task_id(task_id, X.shape[0]), self.tasks_, getattr(self, "unseen", "error"))


class TaskMean(_Tasks):
    """Predicts the mean target of the task: what a model must beat.

    Labels -1/+1 are numbers here; the mean of an unknown task (``unseen="mean"``) is that of all tasks.

    Parameters
    ----------
    unseen : {"error", "mean"}, default "error"

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
    means_ : ndarray of shape (n_tasks,)
    """

    def __init__(self, unseen: str = "error") -> None:
        self.unseen = unseen

    def fit(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> Self:
        """Take the means; arguments as of every estimator of mtlrun."""
        _, codes, values, weights = self._read(X, y, task_id, sample_weight)
        weights = np.ones(len(values)) if weights is None else weights
        totals = np.bincount(codes, weights, len(self.tasks_))
        sums = np.bincount(codes, weights * values, len(self.tasks_))
        self.means_ = np.divide(sums, totals, out=np.zeros(len(sums)), where=totals > 0)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Return the means: (n, T) for a shared design without ids, else (n,)."""
        codes = self._codes(X, task_id)
        if codes is None:
            return np.tile(self.means_, (X.shape[0], 1))
        return np.append(self.means_, self.means_.mean())[codes]


class TaskFeature(_Tasks):
    """Any scikit-learn estimator on the rows of all tasks together, with the task as a feature.

    The features are followed by one 0/1 column per task; a shared design is repeated, once per task. A row of an
    unknown task (``unseen="mean"``) has zeros there. Where a dense matrix would be too large (many tasks), an estimator
    that takes sparse ones gets a sparse one.

    Parameters
    ----------
    estimator : scikit-learn regressor or classifier
    encoding : {"one-hot", "number"}, default "one-hot"
        ``number`` adds one column with the position of the task instead, for trees on many tasks.
    unseen : {"error", "mean"}, default "error"

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
    estimator_ : fitted estimator
    classes_ : ndarray
        Classifiers only.
    """

    def __init__(self, estimator: Any, *, encoding: str = "one-hot", unseen: str = "error") -> None:
        self.estimator = estimator
        self.encoding = encoding
        self.unseen = unseen

    def fit(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> Self:
        """Fit one model; arguments as of every estimator of mtlrun.

        Raises
        ------
        ValueError
            For an unknown encoding, or weights when the estimator takes none.
        MemoryLimitError
            If the features with those of the tasks would not fit into memory; also a ValueError.
        """
        if self.encoding not in ("one-hot", "number"):
            raise ValueError(f"encoding must be 'one-hot' or 'number', not {self.encoding!r}")
        rows, codes, values, weights = self._read(X, y, task_id, sample_weight)
        extra = {} if weights is None else {"sample_weight": weights}
        if extra and not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(f"{type(self.estimator).__name__} takes no weights of rows")
        self.estimator_ = clone(self.estimator)
        if is_classifier(self.estimator) and len(np.unique(values)) == 1:
            self.estimator_ = DummyClassifier()
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
        """Predict targets or labels: (n, T) for a shared design without task ids, else (n,)."""
        return self._each(X, task_id, lambda part: self.estimator_.predict(part))

    @available_if(lambda self: is_classifier(self.estimator))
    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return the decision function, else the log-odds of the probabilities; shaped as `predict`."""
        return self._each(X, task_id, self._score)

    def _score(self, part: Any) -> Array:
        model = self.estimator_
        if hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(part))
        probability = model.predict_proba(part)
        if probability.shape[1] == 1:
            return np.full(len(probability), np.sign(model.classes_[0]))
        return np.asarray(logit(np.clip(probability[:, 1], 1e-6, 1 - 1e-6)))

    def _each(self, X: Any, task_id: Any, call: Any) -> Array:
        codes = self._codes(X, task_id)
        if codes is not None:
            return np.asarray(call(self._with_task(X, codes)))
        columns = [call(self._with_task(X, np.full(X.shape[0], t))) for t in range(len(self.tasks_))]
        return np.column_stack(columns)

    def _with_task(self, X: Any, codes: Array, rows: Array | None = None) -> Any:
        """Return these rows of X (default all) with the task of each."""
        X = self._within_memory(X, len(codes))
        X = X if rows is None else X[rows]
        if self.encoding == "number":
            return _beside(X, codes[:, np.newaxis].astype(np.float64))
        known = np.flatnonzero(codes >= 0)
        ones = sp.csr_matrix(
            (np.ones(len(known)), (known, codes[known])), shape=(len(codes), len(self.tasks_)), dtype=np.float64
        )
        return _beside(X, ones if sp.issparse(X) else ones.toarray())

    def _within_memory(self, X: Any, n_rows: int) -> Any:
        """Return X, as a sparse matrix where a dense one with columns of the tasks would be too large."""
        columns = len(self.tasks_) if self.encoding == "one-hot" else 1
        dense = 8.0 * _COPIES * n_rows * (X.shape[1] + columns)
        sparse = sp.issparse(X) or (not memory.fits(dense) and get_tags(self.estimator).input_tags.sparse)
        if sparse:
            X = X if sp.issparse(X) else sp.csr_matrix(X)
            dense = 12.0 * _COPIES * n_rows * (X.nnz / max(X.shape[0], 1) + 1)
        what = f"TaskFeature on {n_rows} rows, {X.shape[1]} features and {len(self.tasks_)} tasks"
        memory.require(dense, what, "Use encoding='number', fewer tasks or fewer rows.")
        return X

    def __sklearn_tags__(self) -> Any:
        return _tags_of(self, super().__sklearn_tags__())


class ScaledTargets(_Tasks):
    """Fits an estimator on targets of mean 0 and variance 1, and predicts in the units of the targets.

    One strength of regularisation then means the same for every task. The columns of a shared design are scaled one by
    one, since their units may differ; the targets of ragged tasks have one unit and are scaled together.

    Parameters
    ----------
    estimator : regressor
        One whose ``fit`` takes no `task_id` is fitted to every task alone, unless it takes several outputs at once.
    warm_start : bool, default False
        Passed on to an estimator of several tasks that has this parameter: `fit` starts from the solution before.

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

    def fit(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> Self:
        """Fit on scaled targets; arguments as of every estimator of mtlrun."""
        y = np.asarray(y, dtype=np.float64)
        self._layout = "shared" if y.ndim == 2 else "flat"
        columns = y if y.ndim == 2 else y[:, np.newaxis]
        self.center_ = np.nanmean(columns, axis=0)
        deviation = np.nanstd(columns, axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        scaled = ((columns - self.center_) / self.scale_).reshape(y.shape)
        params = self.estimator.get_params(deep=False)
        fitted = getattr(self, "estimator_", None) if self.warm_start else None
        if isinstance(fitted, type(self.estimator)):
            fitted.set_params(**{name: value for name, value in params.items() if name != "warm_start"})
        else:
            self.estimator_: Any = for_tasks(clone(self.estimator), y, task_id)
            if self.warm_start and "warm_start" in params and takes_task_id(self.estimator):
                self.estimator_.set_params(warm_start=True)
        extra = {} if task_id is None else {"task_id": task_id}
        extra |= {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_.fit(X, scaled, **extra)
        for name in ("tasks_", "converged_", "n_iter_", "objective_", "gap_", "stop_crit_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Predict in the units of the targets."""
        check_is_fitted(self, "estimator_")
        extra = {} if task_id is None else {"task_id": task_id}
        predicted = np.asarray(self.estimator_.predict(X, **extra))
        if predicted.ndim == 1 and len(self.scale_) > 1:  # rows of a shared design, each for the task of its id
            codes = task_codes(check_task_id(task_id, len(predicted)), self.tasks_, "error")
            return predicted * self.scale_[codes] + self.center_[codes]
        return predicted * self.scale_ + self.center_

    @property
    def coef_(self) -> Array:
        """Coefficients in the units of the targets."""
        return np.asarray(self.estimator_.coef_) * self.scale_[:, np.newaxis]

    @property
    def intercept_(self) -> Array:
        """Intercepts in the units of the targets."""
        return np.asarray(self.estimator_.intercept_) * self.scale_ + self.center_

    def __sklearn_tags__(self) -> Any:
        return _tags_of(self, super().__sklearn_tags__())


def _beside(X: Any, columns: Any) -> Any:
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_matrix(columns)], format="csr")
    return np.hstack([X, columns])


def _tags_of(wrapper: Any, tags: Any) -> Any:
    inner = get_tags(wrapper.estimator)
    tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
    tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
    tags.target_tags.required, tags.target_tags.multi_output = True, True
    return tags
