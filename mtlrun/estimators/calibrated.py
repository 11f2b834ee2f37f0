"""Probabilities for classifiers of several tasks: scores of held-out rows, calibrated by a sigmoid."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from mtlrun.estimators.pertask import for_tasks

Array = np.ndarray[Any, np.dtype[Any]]


class CalibratedTasks(BaseEstimator):
    """Platt's calibration of any estimator of mtlrun whose scores separate labels -1/+1.

    The estimator is fitted on all rows; its scores on held-out rows of a cross-validation fit one sigmoid
    ``p = 1 / (1 + exp(-(slope score + offset)))`` for all tasks. The offset then comes from the scores alone, so a task
    with its own base rate needs an estimator with intercepts per task (all of mtlrun have them).

    Parameters
    ----------
    estimator : estimator
        One whose ``fit`` takes no `task_id` is fitted to every task alone.
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
    Platt, Probabilistic outputs for support vector machines, Advances in Large Margin Classifiers 1999.
    """

    def __init__(self, estimator: Any, *, folds: int = 3) -> None:
        self.estimator = estimator
        self.folds = folds

    def fit(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> Self:
        """Fit the estimator and the sigmoid; labels are -1/+1, NaN in a 2-D `y` is missing.

        Raises
        ------
        ValueError
            If there is only one label.
        """
        y = np.asarray(y, dtype=np.float64)
        known = y[~np.isnan(y)]
        if not set(np.unique(known)) == {-1.0, 1.0}:
            raise ValueError("calibration needs labels -1 and +1, both of them")
        held = np.full(y.shape, np.nan)
        for train, test in KFold(self.folds, shuffle=True, random_state=0).split(y):
            model = self._fitted(X[train], y[train], _of(task_id, train), _of(sample_weight, train))
            ids = _of(task_id, test)
            if ids is not None:  # tasks without rows in this part have no score
                test = test[np.isin(ids, task_id[train])]
                ids = task_id[test]
            held[test] = _scores(model, X[test], ids)
        use = ~np.isnan(y) & ~np.isnan(held)
        weights = None
        if sample_weight is not None:
            spread = sample_weight if np.ndim(sample_weight) == y.ndim else np.asarray(sample_weight)[:, np.newaxis]
            weights = np.broadcast_to(spread, y.shape)[use]
        sigmoid = LogisticRegression(C=1e6).fit(held[use][:, np.newaxis], y[use], sample_weight=weights)
        self.slope_, self.offset_ = float(sigmoid.coef_[0, 0]), float(sigmoid.intercept_[0])
        self.estimator_ = self._fitted(X, y, task_id, sample_weight)
        self.classes_ = np.array([-1.0, 1.0])
        self.n_features_in_ = X.shape[1]
        for name in ("tasks_", "converged_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _fitted(self, X: Any, y: Array, task_id: Any, sample_weight: Any) -> Any:
        extra = {} if task_id is None else {"task_id": task_id}
        extra |= {} if sample_weight is None else {"sample_weight": sample_weight}
        return for_tasks(clone(self.estimator), y, task_id).fit(X, y, **extra)

    def decision_function(self, X: Any, *, task_id: Any = None) -> Array:
        """Return calibrated log-odds, in the shape of the estimator's scores."""
        check_is_fitted(self, "estimator_")
        return self.slope_ * _scores(self.estimator_, X, task_id) + self.offset_

    def predict_proba(self, X: Any, *, task_id: Any = None) -> Array:
        """Return probabilities: (n, T) of +1 for a shared design, else (n, 2)."""
        positive = expit(self.decision_function(X, task_id=task_id))
        return positive if positive.ndim == 2 else np.column_stack([1 - positive, positive])

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


def _of(values: Any, rows: Array) -> Any:
    return None if values is None else np.asarray(values)[rows]


def _scores(model: Any, X: Any, task_id: Any) -> Array:
    call = getattr(model, "decision_function", None) or model.predict
    return np.asarray(call(X) if task_id is None else call(X, task_id=task_id))
