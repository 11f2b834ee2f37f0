"""From a model of one task to a model of several: every task alone, or one model for the rows of all tasks."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mtlrun.estimators.base import BaseMTL, usual_bytes
from mtlrun.problem.arrays import stack_designs
from mtlrun.problem.losses import Loss
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]


# Bytes of the objects that belong to the solution of one task.
_PER_TASK = 1000


class Solo(NamedTuple):
    """Solution of one single-task problem."""

    coef: Array
    intercept: float
    n_iter: int
    converged: bool


class SingleTask(BaseMTL):
    """What the two ways of using a single-task model share."""

    @abstractmethod
    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> Solo:
        """Solve one problem."""

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of the objective."""

    @abstractmethod
    def _penalty(self) -> Penalty:
        """Return the penalty of the objective."""

    def _result(
        self, data: TaskData, W: Array, b: Array, penalised: Array, n_iter: int, converged: bool
    ) -> SolverResult:
        predicted = TaskOperator(data).forward(W, b)
        value = self._loss().value(predicted, data.targets, data.effective_weights())
        value += self._penalty().value(penalised)
        return SolverResult(W[np.newaxis], b, converged, n_iter, objective=[value])


class Independent(SingleTask):
    """One model per task."""

    def _bytes(self, data: TaskData) -> float:
        rows = data.n_rows if data.shared else int(data.sizes.max())
        entries = 2.0 * data.X.nnz * rows / data.n_rows if data.sparse else float(rows) * data.n_features
        designs = 0 if data.shared else 1  # predictions of ragged tasks are made from products, entry by entry
        return usual_bytes(data, coefficients=6, designs=designs) + 8.0 * 4 * entries + _PER_TASK * data.n_tasks

    def _fit_data(self, data: TaskData) -> SolverResult:
        self.n_one_class_ = count_one_class(data)
        fits = [self._fit_one(*data.task(t)) for t in range(data.n_tasks)]
        W = np.column_stack([fit.coef for fit in fits])
        b = np.array([fit.intercept for fit in fits])
        return self._result(data, W, b, W, max(fit.n_iter for fit in fits), all(fit.converged for fit in fits))


class Pooled(SingleTask):
    """One model for the rows of all tasks; the penalty is counted once."""

    def _bytes(self, data: TaskData) -> float:
        entries = 2.0 * data.X.nnz if data.sparse else float(data.n_rows) * data.n_features
        return usual_bytes(data, coefficients=6, designs=0) + 8.0 * 4 * entries

    def _fit_data(self, data: TaskData) -> SolverResult:
        fit = self._fit_one(*pool(data, labels=self._loss().labels))
        W = np.repeat(fit.coef[:, np.newaxis], data.n_tasks, axis=1)
        b = np.full(data.n_tasks, fit.intercept)
        return self._result(data, W, b, fit.coef[:, np.newaxis], fit.n_iter, fit.converged)


def pool(data: TaskData, *, labels: bool) -> tuple[Any, Array, Array | None]:
    """Return one problem with the same loss up to a constant; a shared X appears once (twice for labels)."""
    if not data.shared:
        return data.X, data.targets, data.weights
    weights = data.effective_weights()
    weights = np.ones(data.targets.shape) if weights is None else weights
    if labels:
        positive = (weights * (data.targets > 0)).sum(axis=1)
        negative = weights.sum(axis=1) - positive
        X = stack_designs([data.X, data.X])
        return X, np.repeat([1.0, -1.0], data.n_rows), np.concatenate([positive, negative])
    total = weights.sum(axis=1)
    mean = np.divide((weights * data.targets).sum(axis=1), total, out=np.zeros(data.n_rows), where=total > 0)
    return data.X, mean, total


def count_one_class(data: TaskData) -> int:
    """Count the tasks whose entries of positive weight all have the same target."""
    tasks = (data.task(t) for t in range(data.n_tasks))
    return sum(is_constant(y, weights) for _, y, weights in tasks)


def is_constant(y: Array, weights: Array | None) -> bool:
    """Return whether all entries of positive weight are equal."""
    used = y if weights is None else y[weights > 0]
    return bool(np.all(used == used[0]))


def with_mirror(X: Any, y: Array, weights: Array | None) -> tuple[Any, Array, Array]:
    """Give a one-class problem without intercept a second class: half of a row becomes (-x, -y), of the same loss."""
    weights = np.ones(len(y)) if weights is None else weights.copy()
    row = int(np.argmax(weights))
    weights[row] /= 2
    return stack_designs([X, -X[[row]]]), np.append(y, -y[row]), np.append(weights, weights[row])


def fit_sklearn(model: Any, X: Any, y: Array, weights: Array | None) -> Solo:
    """Fit a scikit-learn model; its iterations tell whether it converged, the warning comes once for all tasks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weights)
    n_iter = int(np.max(model.n_iter_))
    return Solo(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]), n_iter, n_iter < model.max_iter)
