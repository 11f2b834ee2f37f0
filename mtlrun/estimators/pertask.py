"""Any scikit-learn estimator as a multi-task baseline: one clone per task."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mtlrun.data.columns import column_names, plain_values
from mtlrun.estimators.inputs import check_task_id, check_weights, refuse_list_of_arrays, task_codes
from mtlrun.metrics import accuracy_per_task, average, r2_per_task

Array = np.ndarray[Any, np.dtype[Any]]


def takes_task_id(estimator: Any) -> bool:
    """Return whether ``fit`` of an estimator has a parameter `task_id`, as all estimators of mtlrun do."""
    return "task_id" in inspect.signature(estimator.fit).parameters


def for_tasks(estimator: Any, y: Any, task_id: Any = None) -> Any:
    """Return an estimator that can be fitted to these targets: itself, or a `PerTask` of it.

    An estimator is wrapped if its ``fit`` takes no `task_id`, there are several tasks, and it cannot take them at once:
    with task ids, with missing targets, or if its tags declare a classifier or a regressor of one output. A 2-D `y`
    without gaps is handed as it is to a regressor of several outputs, and to a class that declares nothing.

    Parameters
    ----------
    estimator : estimator with scikit-learn's interface
    y : array of shape (n_samples,) or (n_samples, n_tasks)
    task_id : array of shape (n_samples,), optional
    """
    y = np.asarray(y)
    if takes_task_id(estimator) or (task_id is None and y.ndim == 1):
        return estimator
    together = y.ndim == 2 and not np.isnan(y).any() and not _declares_one_output(estimator)
    return estimator if together else PerTask(estimator)


def _declares_one_output(estimator: Any) -> bool:
    if not hasattr(estimator, "__sklearn_tags__"):
        return False
    tags = get_tags(estimator)
    # scikit-learn's classifiers of several outputs have no scores in one array, which metrics need.
    several = tags.estimator_type == "regressor" and tags.target_tags.multi_output
    return tags.estimator_type in ("classifier", "regressor") and not several


class PerTask(BaseEstimator):
    """Fits a clone of a scikit-learn estimator for every task, on the rows of that task.

    Makes an estimator that knows nothing of tasks usable wherever those of mtlrun are: `task_id` for ragged data, a 2-D
    `y` for a shared design, NaN for a missing target. A classifier's task with labels of one class is fitted by the
    constant of that class.

    Parameters
    ----------
    estimator : scikit-learn regressor or classifier

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        Sorted task ids; column numbers (or names) of a 2-D `y`.
    estimators_ : list of n_tasks fitted estimators
    classes_ : ndarray
        All labels that occur; classifiers only.
    n_one_class_ : int
        Tasks fitted by a constant.
    coef_ : ndarray of shape (n_tasks, n_features)
        Only where the fitted clones have a linear `coef_`, as has `intercept_` (n_tasks,).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> model = PerTask(LinearRegression()).fit(X, [0.0, 1.0, 0.0, -1.0], task_id=["a", "a", "b", "b"])
    >>> model.coef_.ravel().round(6).tolist()
    [1.0, -1.0]
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> Self:
        """Fit all tasks.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame with n_samples rows
            Handed to the estimator as it is, rows chosen.
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
        task_id : array-like of shape (n_samples,), optional
            The task of every row, for a 1-D `y`.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_tasks), optional
            Only for estimators that take it.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a list of arrays, task ids with a 2-D `y`, or a task without observed targets.
        """
        refuse_list_of_arrays(X)
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        X = _indexable(X)
        names = column_names(y)
        targets = plain_values(np.asarray(y), "y")[0]
        check_consistent_length(X, targets)
        weights = check_weights(sample_weight, targets.shape)
        if targets.ndim == 2:
            if task_id is not None:
                raise ValueError("task ids together with a 2-D y: a 2-D y already has one column per task")
            self._layout = "shared"
            self.tasks_ = np.arange(targets.shape[1]) if names is None else np.asarray(names)
            groups = [(np.flatnonzero(column == column), column) for column in targets.T]
        elif task_id is None:
            self._layout, self.tasks_ = "single", np.array([0])
            groups = [(np.arange(len(targets)), targets)]
        else:
            self._layout = "ragged"
            self.tasks_, codes = np.unique(check_task_id(task_id, len(targets)), return_inverse=True)
            groups = [(np.flatnonzero(codes == t), targets) for t in range(len(self.tasks_))]
        if len(X.shape) == 2:
            self.n_features_in_ = X.shape[1]
        self.n_one_class_ = 0
        self.estimators_ = [self._fit_one(X, *group, _column(weights, t)) for t, group in enumerate(groups)]
        if is_classifier(self.estimator):
            self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))
        return self

    def _fit_one(self, X: Any, rows: Array, y: Array, weights: Array | None) -> Any:
        if not rows.size:
            raise ValueError("a task has no observed target")
        model = clone(self.estimator)
        if is_classifier(model) and self._layout != "single" and len(np.unique(y[rows])) == 1:
            self.n_one_class_ += 1
            model = DummyClassifier(strategy="most_frequent")
        extra = {} if weights is None else {"sample_weight": weights[rows]}
        return model.fit(_safe_indexing(X, rows), y[rows], **extra)

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Predict targets or labels: (n_samples, n_tasks) for a shared design without task ids, else (n_samples,).

        Raises
        ------
        ValueError
            If task ids are missing or unknown.
        """
        return self._collect(X, task_id, lambda model, part: model.predict(part))

    @available_if(lambda self: is_classifier(self.estimator))
    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return scores whose sign separates the two classes, shaped as `predict`.

        The estimator's decision function, else the log-odds of its probabilities, else +1 and -1 of its labels.
        """
        return self._collect(X, task_id, lambda model, part: _scores(model, part, self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task_id: Any = None) -> float:
        """Return R2 or accuracy: over all rows for a 1-D `y`, else the mean over the tasks where it is defined."""
        metric = accuracy_per_task if is_classifier(self.estimator) else r2_per_task
        targets = plain_values(np.asarray(y), "y")[0]
        return average(metric(targets, self.predict(X, task_id=task_id), weights=sample_weight))[0]

    @property
    def coef_(self) -> Array:
        """Coefficients of linear estimators, shape (n_tasks, n_features)."""
        return np.vstack([_linear(model, "coef_") for model in self.estimators_])

    @property
    def intercept_(self) -> Array:
        """Intercepts of linear estimators, shape (n_tasks,)."""
        return np.concatenate([_linear(model, "intercept_") for model in self.estimators_])

    def _collect(self, X: Any, task_id: Any, call: Any) -> Array:
        check_is_fitted(self)
        X = _indexable(X)
        if task_id is None:
            if self._layout == "ragged" and len(self.tasks_) > 1:
                raise ValueError(f"task_id is required: the model was fitted on {len(self.tasks_)} tasks")
            columns = [np.asarray(call(model, X)) for model in self.estimators_]
            return np.column_stack(columns) if self._layout == "shared" else columns[0]
        codes = task_codes(check_task_id(task_id, X.shape[0]), self.tasks_, "error")
        parts = [(rows, model) for t, model in enumerate(self.estimators_) if (rows := np.flatnonzero(codes == t)).size]
        values = [np.asarray(call(model, _safe_indexing(X, rows))) for rows, model in parts]
        order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
        return np.concatenate(values)[order]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags.required, tags.target_tags.multi_output = True, True
        return tags


def _indexable(X: Any) -> Any:
    return sp.csr_matrix(X) if sp.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)


def _column(weights: Array | None, t: int) -> Array | None:
    return weights[:, t] if weights is not None and weights.ndim == 2 else weights


def _scores(model: Any, X: Any, classes: Array) -> Array:
    if isinstance(model, DummyClassifier):
        return np.full(X.shape[0], 1.0 if model.classes_[0] == classes[-1] else -1.0)
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(X)
        return logit(np.clip(probability[:, 1], 1e-12, 1 - 1e-12)) if probability.shape[1] == 2 else probability
    return np.where(model.predict(X) == classes[-1], 1.0, -1.0)


def _linear(model: Any, name: str) -> Array:
    """Return a 1-D attribute of one linear model; AttributeError where it has none."""
    if isinstance(model, DummyClassifier):
        raise AttributeError(f"a task of one class has no {name}")
    return np.atleast_1d(np.squeeze(np.asarray(getattr(model, name))))
