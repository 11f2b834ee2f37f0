"""The support vector machines of multi-task multiple kernel learning: one task at given kernel weights, by LIBSVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.svm import SVC

from mtlrun.problem.memory import require
from mtlrun.solvers.mkl.kernels import Kernel

# LIBSVM's stopping tolerance: first, the smallest tried (it holds kernels in single precision), and by what it is
# multiplied when a machine is not accurate.
_LOOSE, _TIGHT, _REDUCE = 1e-3, 1e-7, 0.1


@dataclass(frozen=True, eq=False)
class SvmPoint:
    """A solution of the SVM of one task with the kernel sum_m theta_m K^m.

    Attributes
    ----------
    theta : ndarray of shape (M,)
    dual : ndarray of shape (n,)
        alpha_i y_i.
    intercept : float
    total : float
        Sum of alpha.
    slope : ndarray of shape (M,)
        q_m = -1/2 alpha'Y K^m Y alpha, the gradient of J with respect to theta.
    low, high : float
        Dual and primal value of the SVM: J lies between them.
    """

    theta: np.ndarray
    dual: np.ndarray
    intercept: float
    total: float
    slope: np.ndarray
    low: float
    high: float


class GramStore:
    """Kernel matrices of all tasks: those that fit into memory are kept, the others computed when needed.

    Parameters
    ----------
    kernels : sequence of Kernel
    designs : sequence of ndarray or sparse matrix
        One per task; tasks with the same object share their matrices.
    max_bytes : float
    """

    def __init__(self, kernels: Sequence[Kernel], designs: Sequence[Any], max_bytes: float) -> None:
        self.kernels = list(kernels)
        self.designs = list(designs)
        self._kept: dict[int, np.ndarray] = {}
        self._free = float(max_bytes)

    def __getitem__(self, t: int) -> np.ndarray:
        """Return the matrices of task t, shape (M, n, n)."""
        X = self.designs[t]
        if id(X) in self._kept:
            return self._kept[id(X)]
        n, kinds = X.shape[0], len(self.kernels)
        require(
            2 * 8 * kinds * n**2, f"a stack of {kinds} kernel matrices of {n} rows", "Use fewer kernels, or fewer rows."
        )
        stack = np.stack([kernel(X) for kernel in self.kernels])
        if stack.nbytes <= self._free:
            self._free -= stack.nbytes
            self._kept[id(X)] = stack
        return stack

    @property
    def n_kept(self) -> int:
        """Number of designs whose matrices are in memory."""
        return len(self._kept)


class SvmTasks:
    """The SVMs of all tasks as functions of the kernel weights.

    Parameters
    ----------
    grams : GramStore
    labels : sequence of ndarray of shape (n_t,)
        -1 and +1; a task may have one class only (its machine is the constant of that class).
    costs : sequence of ndarray of shape (n_t,)
        C times the weight of the row, positive.
    accuracy : float
        Largest gap between primal and dual value of a machine, relative to the primal value, as far as LIBSVM's
        single precision allows.
    """

    def __init__(
        self, grams: GramStore, labels: Sequence[np.ndarray], costs: Sequence[np.ndarray], accuracy: float
    ) -> None:
        self.grams = grams
        self.labels = list(labels)
        self.costs = list(costs)
        self.accuracy = accuracy
        self.n_fits = 0
        self._tol = [_LOOSE] * len(self.labels)
        self._last: dict[int, SvmPoint] = {}

    @property
    def n_tasks(self) -> int:
        return len(self.labels)

    @property
    def n_kernels(self) -> int:
        return len(self.grams.kernels)

    def again(self, costs: Sequence[np.ndarray], accuracy: float) -> SvmTasks:
        """Return machines with other costs on the same data, which reuse the solutions that are still valid."""
        other = SvmTasks(self.grams, self.labels, costs, accuracy)
        other._tol = list(self._tol)
        if accuracy >= self.accuracy and all(map(np.array_equal, costs, self.costs)):
            other._last = dict(self._last)
        return other

    def solve(self, t: int, theta: np.ndarray) -> SvmPoint:
        """Return the machine of task t with kernel weights theta (M,); the last one where they are the same."""
        last = self._last.get(t)
        if last is None or not np.array_equal(last.theta, theta):
            last = self._last[t] = self._solve(t, theta)
        return last

    def _solve(self, t: int, theta: np.ndarray) -> SvmPoint:
        y, C = self.labels[t], self.costs[t]
        if np.all(y == y[0]):
            nothing = np.zeros(self.n_kernels)
            return SvmPoint(theta, np.zeros(len(y)), float(y[0]), 0.0, nothing, 0.0, 0.0)
        stack = self.grams[t]
        M, n, _ = stack.shape
        used = np.flatnonzero(theta)
        if not used.size:
            return self._without_kernel(t, stack)
        some = stack if len(used) == M else stack[used]
        K = (theta[used] @ some.reshape(len(used), n * n)).reshape(n, n)
        while True:
            point = self._point(theta, *self._fit(K, y, C, self._tol[t]), stack, y, C)
            inaccurate = point.high - point.low > self.accuracy * max(point.high, 1.0 / self.n_tasks)
            if not inaccurate or self._tol[t] <= _TIGHT:
                return point
            self._tol[t] *= _REDUCE

    def _fit(self, K: np.ndarray, y: np.ndarray, C: np.ndarray, tol: float) -> tuple[np.ndarray, float]:
        """Train one machine; return alpha * y and the intercept."""
        self.n_fits += 1
        uniform = bool(np.ptp(C) == 0)
        machine = SVC(C=float(C[0]) if uniform else 1.0, kernel="precomputed", tol=tol, cache_size=500)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            machine.fit(K, y, sample_weight=None if uniform else C)
        dual = np.zeros(len(y))
        dual[machine.support_] = machine.dual_coef_[0]
        return dual, float(machine.intercept_[0])

    @staticmethod
    def _point(
        theta: np.ndarray, dual: np.ndarray, b: float, stack: np.ndarray, y: np.ndarray, C: np.ndarray
    ) -> SvmPoint:
        images = stack @ dual
        slope = -0.5 * (images @ dual)
        smooth = float(theta @ slope)
        total = float(dual @ y)
        hinge, b = min((_hinge(theta @ images, at, y, C), at) for at in (b, _best_intercept(theta @ images, y, C)))
        return SvmPoint(theta, dual, b, total, slope, total + smooth, hinge - smooth)

    def _without_kernel(self, t: int, stack: np.ndarray) -> SvmPoint:
        """Return the machine without any kernel: a constant, with any feasible alpha."""
        y, C = self.labels[t], self.costs[t]
        positive, negative = C[y > 0].sum(), C[y < 0].sum()
        total = min(positive, negative)
        dual = np.where(y > 0, C * (total / positive), -C * (total / negative))
        slope = -0.5 * ((stack @ dual) @ dual)
        b = 1.0 if positive >= negative else -1.0
        return SvmPoint(np.zeros(len(stack)), dual, b, 2.0 * total, slope, 2.0 * total, 2.0 * total)


def _hinge(scores: np.ndarray, b: float, y: np.ndarray, C: np.ndarray) -> float:
    return float(C @ np.maximum(0.0, 1.0 - y * (scores + b)))


def _best_intercept(scores: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
    """Return a b that minimises sum_i C_i max(0, 1 - y_i (scores_i + b)), a weighted quantile of y - scores."""
    breaks = y - scores
    order = np.argsort(breaks)
    # The slope in b is minus the cost of the positives at first, and rises by C_i at every break.
    first = np.searchsorted(np.cumsum(C[order]), C[y > 0].sum())
    return float(breaks[order[min(first, len(order) - 1)]])
