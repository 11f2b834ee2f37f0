"""Support vector machines of multi-task multiple kernel learning.

Each solves one task at fixed kernel weights.

Sequential minimal optimization of the dual with a weighted sum of kernels, from any
feasible point. The pair of a step is chosen by second-order information (Fan, Chen and
Lin 2005, the rule of LIBSVM). In contrast to LIBSVM it starts from the last solution,
forms only those rows of the summed kernel matrix that it visits, and keeps the image of
the solution under every kernel, from which the gradient at other kernel weights follows
without a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np

from mtlrun.problem.memory import require
from mtlrun.problem.objective import gap_scale
from mtlrun.solvers.mkl.kernels import Kernel, kernel_stack
from mtlrun.utils.jit import compiled, summing

Array = np.ndarray

# Curvature of a pair with equal rows.
_FLAT = 1e-12


@compiled
def ascend(
    stack: Array,
    theta: Array,
    y: Array,
    costs: Array,
    dual: Array,
    images: Array,
    tol: float,
    max_steps: int,
) -> tuple[float, int]:
    """Maximize y'dual - 1/2 dual'K dual with K = sum_m theta_m K^m.

    The constraints are sum(dual) = 0 and 0 <= y_i dual_i <= costs_i.

    Parameters
    ----------
    stack : ndarray of shape (M, n, n)
        The kernel matrices.
    theta : ndarray of shape (M,)
    y : ndarray of shape (n,)
        -1 and +1.
    costs : ndarray of shape (n,)
    dual : ndarray of shape (n,)
        Feasible; changed in place.
    images : ndarray of shape (M, n)
        K^m dual of each kernel; kept up to date.
    tol : float
        Largest violation of the optimality conditions to stop at.
    max_steps : int

    Returns
    -------
    intercept : float
        The middle of the optimal ones.
    steps : int
    """
    M, n = images.shape
    start = dual.copy()
    # np.where takes numba longer to compile than all of the rest.
    upper = np.zeros(n)
    lower = np.zeros(n)
    for k in range(n):
        if y[k] > 0:
            upper[k] = costs[k]
        else:
            lower[k] = -costs[k]
    # The gradient y - K dual, and the diagonal of K. Rows of K are formed when a step
    # needs them: most variables are never chosen.
    gain = y.copy()
    diagonal = np.zeros(n)
    rows = np.empty((n, n))
    is_formed = np.zeros(n, dtype=np.bool_)
    for m in range(M):
        if theta[m] != 0.0:
            gain -= theta[m] * images[m]
            for i in range(n):
                diagonal[i] += theta[m] * stack[m, i, i]
    best = np.inf
    worst = -np.inf
    steps = 0
    while steps < max_steps:
        # A pair (i, j) moves along dual_i + s, dual_j - s, which keeps the sum. i has
        # the largest gradient of the variables that can grow; its difference to the
        # smallest gradient of variables that can fall is the violation.
        i = -1
        best = -np.inf
        worst = np.inf
        for k in range(n):
            if dual[k] < upper[k] and gain[k] > best:
                i = k
                best = gain[k]
            if dual[k] > lower[k] and gain[k] < worst:
                worst = gain[k]
        if best - worst <= tol:
            break
        _form(stack, theta, i, rows, is_formed)
        first = rows[i]
        # j is the partner with which the unbounded step would gain most:
        # slope^2 / (2 curvature).
        j = -1
        max_rise = -1.0
        for k in range(n):
            slope = best - gain[k]
            if slope > 0.0 and dual[k] > lower[k]:
                rise = (
                    slope
                    * slope
                    / max(diagonal[i] + diagonal[k] - 2.0 * first[k], _FLAT)
                )
                if rise > max_rise:
                    j = k
                    max_rise = rise
        _form(stack, theta, j, rows, is_formed)
        second = rows[j]
        step = (best - gain[j]) / max(diagonal[i] + diagonal[j] - 2.0 * first[j], _FLAT)
        room = upper[i] - dual[i]
        left = dual[j] - lower[j]
        step = min(step, room, left)
        # Bounds are met exactly: a point that is short of its bound by rounding would
        # be chosen again and again.
        dual[i] = upper[i] if step == room else dual[i] + step
        dual[j] = lower[j] if step == left else dual[j] - step
        for k in range(n):
            gain[k] -= step * (first[k] - second[k])
        steps += 1
    _add_images(stack, dual - start, images)
    return 0.5 * (best + worst), steps


@summing
def _form(
    stack: Array,
    theta: Array,
    i: int,
    rows: Array,
    is_formed: Array,
) -> None:
    """Make row i of the summed kernel matrix, once."""
    if is_formed[i]:
        return
    is_formed[i] = True
    row = rows[i]
    row[:] = 0.0
    for m in range(len(theta)):
        weight = theta[m]
        if weight != 0.0:
            some = stack[m, i]
            for k in range(len(row)):
                row[k] += weight * some[k]


@summing
def _add_images(stack: Array, change: Array, images: Array) -> None:
    """Add K^m change to the images, four columns at a time."""
    moved = np.flatnonzero(change)
    full = len(moved) - len(moved) % 4
    for m in range(len(images)):
        K = stack[m]
        image = images[m]
        for at in range(0, full, 4):
            a = K[moved[at]]
            b = K[moved[at + 1]]
            c = K[moved[at + 2]]
            d = K[moved[at + 3]]
            p = change[moved[at]]
            q = change[moved[at + 1]]
            r = change[moved[at + 2]]
            s = change[moved[at + 3]]
            for k in range(len(image)):
                image[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * d[k])
        for at in range(full, len(moved)):
            a = K[moved[at]]
            p = change[moved[at]]
            for k in range(len(image)):
                image[k] += p * a[k]


# ---------------------------------------------------------------------- machines

# Violation of the optimality conditions to stop at: first (LIBSVM's default), the
# smallest tried, and by what it is multiplied when a machine is not accurate.
_LOOSE = 1e-3
_TIGHT = 1e-10
_REDUCE = 0.1
# Up to this relative difference, the middle of the optimal intercepts is taken, not the
# lowest.
_ROUNDING = 1e-12
# Steps of one machine at most: this many, or this many per row.
_STEPS = 10_000_000
_STEPS_PER_ROW = 100


@dataclass(frozen=True, eq=False)
class SvmPoint:
    """A solution of the SVM of one task with the kernel sum_m theta_m K^m.

    Attributes
    ----------
    theta : ndarray of shape (M,)
    dual : ndarray of shape (n,)
        alpha_i y_i.
    images : ndarray of shape (M, n)
        K^m dual of each kernel.
    intercept : float
    total : float
        Sum of alpha.
    slope : ndarray of shape (M,)
        q_m = -1/2 alpha'Y K^m Y alpha, the gradient of J with respect to theta.
    low, high : float
        Dual and primal value of the SVM: J lies between them.
    """

    theta: Array
    dual: Array
    images: Array
    intercept: float
    total: float
    slope: Array
    low: float
    high: float


class GramStore:
    """Kernel matrices of all tasks.

    Matrices that fit into memory are kept, the others are computed when needed.

    Parameters
    ----------
    kernels : sequence of Kernel
    designs : sequence of ndarray or sparse matrix
        One per task; tasks with the same object share their matrices.
    max_bytes : float
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        designs: Sequence[Any],
        max_bytes: float,
    ) -> None:
        self.kernels = list(kernels)
        self.designs = list(designs)
        self._kept: dict[int, Array] = {}
        self._crosses: dict[tuple[int, str], Array] = {}
        self._free = float(max_bytes)

    def __getitem__(self, t: int) -> Array:
        """Return the matrices of task t, shape (M, n, n)."""
        X = self.designs[t]
        if id(X) in self._kept:
            return self._kept[id(X)]
        n = X.shape[0]
        kinds = len(self.kernels)
        require(
            2 * 8 * kinds * n**2,
            f"a stack of {kinds} kernel matrices of {n} rows",
            "Use fewer kernels, or fewer rows.",
        )
        stack = kernel_stack(self.kernels, X)
        if stack.nbytes <= self._free:
            self._free -= stack.nbytes
            self._kept[id(X)] = stack
        return stack

    def cross(self, t: int, X: Array) -> Array:
        """Return kernels of other rows with the rows of task t, shape (M, n, n_t).

        They are kept like the matrices.
        """
        key = t, str(joblib.hash(X, hash_name="sha1"))
        if key in self._crosses:
            return self._crosses[key]
        stack = kernel_stack(self.kernels, X, self.designs[t])
        if stack.nbytes <= self._free:
            self._free -= stack.nbytes
            self._crosses[key] = stack
        return stack


class SvmTasks:
    """The SVMs of all tasks as functions of the kernel weights.

    Parameters
    ----------
    grams : GramStore
    labels : sequence of ndarray of shape (n_t,)
        -1 and +1; a task may have one class only (its machine is the constant of that
        class).
    costs : sequence of ndarray of shape (n_t,)
        C times the weight of the row, positive.
    accuracy : float
        Largest gap between primal and dual value of a machine, relative to the primal
        value.
    """

    def __init__(
        self,
        grams: GramStore,
        labels: Sequence[Array],
        costs: Sequence[Array],
        accuracy: float,
    ) -> None:
        self.grams = grams
        self.labels = list(labels)
        self.costs = list(costs)
        self.accuracy = accuracy
        self.n_fits = 0
        self._tol = [_LOOSE] * len(self.labels)
        self._last: dict[int, SvmPoint] = {}
        # Where the machines start: feasible dual variables and their images.
        self._start: dict[int, tuple[Array, Array]] = {}

    @property
    def n_tasks(self) -> int:
        return len(self.labels)

    @property
    def null(self) -> float:
        """Objective of functions that are zero: the hinge loss of all rows."""
        return float(sum(cost.sum() for cost in self.costs))

    @property
    def n_kernels(self) -> int:
        return len(self.grams.kernels)

    def again(self, costs: Sequence[Array], accuracy: float) -> SvmTasks:
        """Return machines with other costs on the same data.

        They start from the solutions of these.
        """
        other = SvmTasks(self.grams, self.labels, costs, accuracy)
        other._tol = list(self._tol)
        for t, (dual, images) in self._start.items():
            scale = float(np.min(costs[t] / self.costs[t]))
            other._start[t] = scale * dual, scale * images
        if accuracy >= self.accuracy and all(map(np.array_equal, costs, self.costs)):
            other._last = dict(self._last)
        return other

    def solve(self, t: int, theta: Array) -> SvmPoint:
        """Return the machine of task t with kernel weights theta (M,).

        It is the last one if the weights are the same.
        """
        last = self._last.get(t)
        if last is None or not np.array_equal(last.theta, theta):
            last = self._last[t] = self._solve(t, theta)
        return last

    def _solve(self, t: int, theta: Array) -> SvmPoint:
        y = self.labels[t]
        C = self.costs[t]
        if np.all(y == y[0]):
            nothing = np.zeros(self.n_kernels)
            images = np.zeros((self.n_kernels, len(y)))
            return SvmPoint(
                theta,
                np.zeros(len(y)),
                images,
                float(y[0]),
                0.0,
                nothing,
                0.0,
                0.0,
            )
        stack = self.grams[t]
        if not theta.any():
            return self._without_kernel(t, stack)
        dual = np.zeros(len(y))
        images = np.zeros((self.n_kernels, len(y)))
        if t in self._start:
            dual, images = (values.copy() for values in self._start[t])
        self._start[t] = dual, images
        limit = max(_STEPS, _STEPS_PER_ROW * len(y))
        while True:
            self.n_fits += 1
            b, steps = ascend(stack, theta, y, C, dual, images, self._tol[t], limit)
            # J = total + theta'slope at the dual variables, and hinge - theta'slope at
            # the functions that belong to them.
            slope = -0.5 * (images @ dual)
            smooth = float(theta @ slope)
            total = float(dual @ y)
            scores = theta @ images
            # The intercept of the steps is optimal up to their tolerance only.
            best = _best_intercept(scores, y, C)
            hinge = _hinge(scores, b, y, C)
            least = _hinge(scores, best, y, C)
            if hinge > least * (1.0 + _ROUNDING):
                hinge = least
                b = best
            point = SvmPoint(
                theta,
                dual,
                images,
                b,
                total,
                slope,
                total + smooth,
                hinge - smooth,
            )
            allowed = self.accuracy * gap_scale(point.high, 0.0, float(C.sum()))
            inaccurate = point.high - point.low > allowed
            if not inaccurate or self._tol[t] <= _TIGHT or steps >= limit:
                return point
            self._tol[t] *= _REDUCE

    def _without_kernel(self, t: int, stack: Array) -> SvmPoint:
        """Return the machine without any kernel: a constant.

        Any feasible alpha does.
        """
        y = self.labels[t]
        C = self.costs[t]
        positive = C[y > 0].sum()
        negative = C[y < 0].sum()
        total = min(positive, negative)
        dual = np.where(y > 0, C * (total / positive), -C * (total / negative))
        images = stack @ dual
        slope = -0.5 * (images @ dual)
        b = 1.0 if positive >= negative else -1.0
        return SvmPoint(
            np.zeros(len(stack)),
            dual,
            images,
            b,
            2.0 * total,
            slope,
            2.0 * total,
            2.0 * total,
        )


def _hinge(scores: Array, b: float, y: Array, C: Array) -> float:
    """Return the hinge loss sum_i C_i max(0, 1 - y_i (scores_i + b))."""
    margins = y * (scores + b)
    return float(C @ np.maximum(0.0, 1.0 - margins))


def _best_intercept(scores: Array, y: Array, C: Array) -> float:
    """Return a b that minimizes sum_i C_i max(0, 1 - y_i (scores_i + b)).

    It is a weighted quantile of y - scores.
    """
    breaks = y - scores
    order = np.argsort(breaks)
    # The slope in b is minus the cost of the positives at first, and rises by C_i at
    # every break.
    risen = np.cumsum(C[order])
    first = np.searchsorted(risen, C[y > 0].sum())
    # Rounding of the sums may put it behind the last break.
    position = min(first, len(order) - 1)
    return float(breaks[order[position]])
