"""Least-squares problems by their sums over rows, which can be subtracted: training part = whole - test part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData

# Eigenvalues of a Gram matrix below this, relative to the largest and times its size, are rounding.
_ROUNDING = 8.0 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over weighted rows (x, y): all that the squared loss depends on.

    Features have one entry (G = 1) where all tasks share rows and weights, else one per task (G = T).

    Attributes
    ----------
    weight : ndarray of shape (G,)
        Of the rows.
    x, xx : ndarray of shape (G, d) and (G, d, d)
        Sums of x and x x'.
    y, yy : ndarray of shape (T,)
        Sums of y and y^2.
    xy : ndarray of shape (d, T)
    """

    weight: np.ndarray
    x: np.ndarray
    xx: np.ndarray
    y: np.ndarray
    yy: np.ndarray
    xy: np.ndarray

    @classmethod
    def of(cls, data: TaskData, *, by_task: bool) -> Moments:
        """Sum up data; `by_task` makes G = T, which data that are not uniform need."""
        operator, w = TaskOperator(data), data.effective_weights()
        full = np.ones_like(data.targets) if w is None else w
        weighted = data.targets if w is None else w * data.targets
        if by_task:
            weight, x = data.sum_by_task(full), operator.adjoint(full).T
            xx = operator.gram(np.ascontiguousarray(full) if data.shared else data.weights)
        else:
            rows = np.ones(data.n_rows) if data.weights is None else data.weights
            weight, x, xx = rows.sum(keepdims=True), (data.X.T @ rows)[None, :], operator.gram(data.weights)[None]
        y, yy = data.sum_by_task(weighted), data.sum_by_task(data.targets * weighted)
        return cls(weight, x, xx, y, yy, operator.adjoint(weighted))

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __sub__(self, other: Moments) -> Moments:
        return Moments(*(a - b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def condensed(self, tasks: np.ndarray, *, centred: bool) -> tuple[TaskData, np.ndarray, np.ndarray]:
        """Return data of d + 1 rows per design with the same loss, whatever the coefficients.

        Parameters
        ----------
        tasks : ndarray of shape (T,)
        centred : bool
            Take the means off first: the loss then is the one with the best intercepts, ``y_mean - x_mean'W``.

        Returns
        -------
        data : TaskData
        x_mean : ndarray of shape (G, d)
            Zeros unless centred.
        y_mean : ndarray of shape (T,)
        """
        G, d = self.x.shape
        x_mean, y_mean = np.zeros_like(self.x), np.zeros_like(self.y)
        if centred:
            x_mean, y_mean = self.x / self.weight[:, None], self.y / self.weight
        xx = self.xx - self.x[:, :, None] * x_mean[:, None, :]
        xy = (self.xy - self.x.T * y_mean).T  # (T, d)
        values, vectors = np.linalg.eigh(xx)
        kept = values > _ROUNDING * d * np.maximum(values[:, -1:], 0.0)
        roots = np.sqrt(np.where(kept, values, 0.0))
        targets = (np.matmul(xy[:, None, :], vectors)[:, 0] if G > 1 else xy @ vectors[0]) * kept
        targets = np.divide(targets, roots, out=np.zeros_like(targets), where=kept | np.zeros_like(targets, dtype=bool))
        rest = np.sqrt(np.maximum(self.yy - self.y * y_mean - np.square(targets).sum(axis=1), 0.0))
        X = np.concatenate([roots[:, :, None] * vectors.transpose(0, 2, 1), np.zeros((G, 1, d))], axis=1)
        Y = np.column_stack([targets, rest])  # (T, d + 1)
        if len(tasks) > G or G == 1:
            return TaskData(X[0], np.ascontiguousarray(Y.T), tasks), x_mean, y_mean
        offsets = np.arange(G + 1) * (d + 1)
        return TaskData(X.reshape(-1, d), Y.ravel(), tasks, offsets=offsets), x_mean, y_mean
