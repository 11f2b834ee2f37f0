"""Rows that many models are fitted to: read and checked once, not once for every model.

A search fits hundreds of models to the same rows. `TaskRows` does what `fit` and `predict` of the models do, with the
same numbers, and keeps what does not depend on the model: checked arrays, scaled targets, the containers of the solvers
with their decompositions, the tasks of the rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import check_array

from mtlrun.estimators.base import BaseMTL, ClassifierMTL
from mtlrun.estimators.baselines import ScaledTargets, for_tasks, given, predict_scores, scaled_targets
from mtlrun.estimators.inputs import task_codes
from mtlrun.estimators.params import check_params
from mtlrun.problem.arrays import is_sparse
from mtlrun.problem.taskdata import TaskData

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
    """

    def __init__(self, X: Any, y: Array, task_id: Array | None = None, weights: Array | None = None) -> None:
        self.X, self.y, self.task_id, self.weights = X, y, task_id, weights
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
        return estimator.fit(self.X, self.y, **given(task_id=self.task_id, sample_weight=self.weights))

    def predict(self, estimator: Any) -> Array:
        """Return the decision function of the rows where there is one, else the predictions."""
        if isinstance(estimator, ScaledTargets):
            return np.asarray(estimator.unscaled(self.predict(estimator.estimator_), self.task_id))
        if _reads_plainly(estimator) and estimator.n_features_in_ == self.X.shape[1]:
            if self.task_id is None:
                return np.asarray(estimator._of_all_tasks(estimator._scores_of_tasks(self._design)))
            codes = self._codes_of(estimator.tasks_, estimator.unseen)
            return np.asarray(estimator._scores_of_rows(self._design, codes))
        with config_context(assume_finite=self._finite):
            return predict_scores(estimator, self.X, self.task_id)

    def _data(self, estimator: BaseMTL) -> tuple[TaskData, dict[str, Any]]:
        """Return the rows as such a model reads them, and the attributes that it sets then."""
        key = (type(estimator)._read_y, type(estimator)._all_weights, repr(getattr(estimator, "class_weight", None)))
        if key not in self._read:
            probe = clone(estimator)
            data = probe._prepare(self.X, self.y, task_id=self.task_id, sample_weight=self.weights)
            params = probe.get_params(deep=False)
            self._read[key] = data, {name: value for name, value in vars(probe).items() if name not in params}
        return self._read[key]

    @cached_property
    def _scaled(self) -> tuple[TaskRows, Array, Array]:
        """The rows with targets of mean 0 and variance 1, the means and the deviations."""
        y, center, scale = scaled_targets(self.y)
        return TaskRows(self.X, y, self.task_id, self.weights), center, scale

    @cached_property
    def _design(self) -> Any:
        """X as the models need it."""
        return check_array(self.X, accept_sparse="csr", dtype=np.float64)

    @cached_property
    def _finite(self) -> bool:
        values = self.X.data if is_sparse(self.X) else np.asarray(self.X)
        return values.dtype.kind in "biu" or (values.dtype.kind == "f" and bool(np.isfinite(values).all()))

    def _codes_of(self, tasks: Array, unseen: str) -> Array:
        """Return the positions of the tasks of the rows; the models of a search share one array of tasks."""
        key = (id(tasks), unseen)
        if key not in self._codes:
            assert self.task_id is not None
            self._codes[key] = tasks, task_codes(np.asarray(self.task_id), tasks, unseen)
        return self._codes[key][1]


def _reads_plainly(estimator: Any) -> bool:
    """Whether a model reads rows, and scores them, as the base class does."""
    cls = type(estimator)
    if not isinstance(estimator, BaseMTL) or estimator.task_column is not None:
        return False
    scores = cls.decision_function is ClassifierMTL.decision_function if isinstance(estimator, ClassifierMTL) else True
    return scores and all(getattr(cls, name) is getattr(BaseMTL, name) for name in _READERS)
