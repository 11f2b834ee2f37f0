"""Unpenalised intercepts: centring for the squared loss, exact minimisation over b for all losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlrun.problem.losses import Loss
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData


@dataclass(frozen=True, eq=False)
class Centred:
    """Data whose squared-loss problem without intercept has the coefficients of the original one with intercept.

    Attributes
    ----------
    data : TaskData
        Centred targets, the original weights. Its `X` is centred only where `implicit` is False.
    operator : TaskOperator
        Products with the centred design; solvers use this one, never `data.X`.
    x_mean : ndarray of shape (d,) or (d, T)
        Weighted feature means; one vector for a shared design with one weight per row.
    y_mean : ndarray of shape (T,)
        Weighted target means.
    """

    data: TaskData
    operator: TaskOperator
    x_mean: np.ndarray
    y_mean: np.ndarray

    @property
    def implicit(self) -> bool:
        """Whether the operator subtracts the means (sparse designs, weights or masks by task)."""
        return self.operator.shift is not None

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """Return the optimal intercepts (T,) of coefficients W (d, T) for the original data."""
        if self.x_mean.ndim == 1:
            return self.y_mean - self.x_mean @ W
        return self.y_mean - np.einsum("ij,ij->j", self.x_mean, W)


def centre(data: TaskData) -> Centred:
    """Remove the weighted mean of every task from design and targets.

    Dense designs are copied and centred; a sparse one, and a shared one with weights or missing targets by task, stays
    as it is and the operator subtracts the means. With the centred operator A and targets y, the Gram form is
    ``A.gram(data.weights)`` and ``A.adjoint(w * y)``.
    """
    plain = TaskOperator(data)
    w = data.effective_weights()
    total = data.sum_by_task(np.ones_like(data.targets) if w is None else w)
    y_mean = data.sum_by_task(data.targets if w is None else w * data.targets) / total
    targets = data.targets - data.spread(y_mean)
    if data.observed is not None:
        targets = np.where(data.observed, targets, 0.0)
    if data.shared and (data.weights is None or data.weights.ndim == 1):
        row_weights = np.ones(data.n_rows) if data.weights is None else data.weights
        x_mean = (data.X.T @ row_weights) / total[0]
    else:
        x_mean = plain.adjoint(np.ones_like(data.targets) if w is None else w) / total
    moved = data.with_targets(targets)
    if data.sparse or (data.shared and x_mean.ndim == 2):
        return Centred(moved, TaskOperator(moved, shift=x_mean), x_mean, y_mean)
    X = data.X - (x_mean if x_mean.ndim == 1 else np.repeat(x_mean.T, data.sizes, axis=0))
    moved = moved.with_design(X)
    return Centred(moved, TaskOperator(moved), x_mean, y_mean)


def optimal_intercept(
    data: TaskData, loss: Loss, z: np.ndarray, start: np.ndarray | None = None, tol: float = 1e-12
) -> np.ndarray:
    """Return b (T,) that minimises the loss of z + b, task by task.

    Safeguarded Newton steps on the derivative, which increases in b, for all tasks at once; one step for the squared
    loss. A task of one class has no minimiser under the logistic loss; its b makes the derivative vanish within `tol`.

    Parameters
    ----------
    data : TaskData
    loss : Loss
    z : ndarray
        Field of predictions without intercept.
    start : ndarray of shape (T,), optional
        First guess; default zeros.
    tol : float, default 1e-12
        Largest derivative allowed, relative to scale times the total weight of the task.
    """
    w = data.effective_weights()
    total = data.sum_by_task(np.ones_like(data.targets) if w is None else w)
    b = np.zeros(data.n_tasks) if start is None else np.array(start, dtype=np.float64)
    low, high = np.full_like(b, -np.inf), np.full_like(b, np.inf)
    radius = np.full_like(b, 1.0 if loss.labels else np.inf)
    for _ in range(200):
        prediction = z + data.spread(b)
        slope = data.sum_by_task(loss.gradient(prediction, data.targets, w))
        width = high - low
        open_ = (np.abs(slope) > tol * loss.scale * total) & ~(width <= 1e-15 * (1.0 + np.abs(b)))
        if not open_.any():
            break
        low = np.where(slope < 0, np.maximum(low, b), low)
        high = np.where(slope > 0, np.minimum(high, b), high)
        curve = data.sum_by_task(loss.hessian(prediction, data.targets, w))
        with np.errstate(divide="ignore", invalid="ignore"):  # flat losses and open brackets
            step = np.where(curve > 0, -slope / curve, -np.sign(slope) * np.inf)
            new = b + np.clip(step, -radius, radius)
            halfway = 0.5 * (low + high)
        radius = np.where(np.abs(step) > radius, 2.0 * radius, radius)
        new = np.where(((new <= low) | (new >= high)) & np.isfinite(halfway), halfway, new)
        b = np.where(open_, new, b)
    return b
