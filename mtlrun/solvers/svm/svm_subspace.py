"""Exact steps for the free support vectors of a (squared) hinge SVM: projected Newton on a small part of the dual.

Coordinate ascent finds the support vectors fast and then needs many sweeps to balance them against each other; with
few of them their kernel matrix is small, and second-order steps do the same at once, across all tasks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.arrays import is_sparse
from mtlrun.solvers.svm.dcd_kernels import HINGE, LOGISTIC, Problem, State

Array = np.ndarray[Any, np.dtype[Any]]

#: More free variables than that are left to the sweeps.
MAX_FREE = 1200
_ROUNDS = 12
# How much faster a product of matrices is than the same number of operations on single rows.
_BLAS = 8.0


def free_variables(p: Problem, s: State) -> Array:
    """Return the entries whose dual variables are strictly between their bounds; none for the logistic loss."""
    if p.loss == LOGISTIC:
        return np.empty(0, dtype=np.intp)
    inside = (s.alpha > 0) & (p.cap > 0)
    if p.loss == HINGE:
        inside &= s.alpha < p.cap
    return np.flatnonzero(inside)


def step_cost(p: Problem, n_free: int) -> float:
    """Return about how many row visits cost as much as `climb` does."""
    products = n_free**2 * p.row_cost + _ROUNDS / 2 * n_free**3 / 3
    return products / (2.0 * p.row_cost * _BLAS)


def climb(X: Any, p: Problem, s: State, free: Array, coupling: TaskCoupling) -> None:
    """Increase the dual in the variables `free`, the others fixed; V must belong to alpha, which changes.

    Two-metric projection: Newton's direction in the variables that no bound stops, clipped, halved until it gains.
    """
    task = np.searchsorted(p.offsets, free, side="right") - 1
    K, margin = _kernel(X, p, s, free, task, coupling)
    cap, a = p.cap[free], s.alpha[free].copy()
    if p.loss != HINGE:
        K[np.diag_indices_from(K)] += 1 / (2 * cap)
        margin = margin + a / (2 * cap)
        cap = np.full_like(cap, np.inf)
    gradient = 1.0 - margin
    ridge = 1e-13 * np.trace(K) / len(K)
    for _ in range(_ROUNDS):
        open_ = np.flatnonzero(~(((a <= 0) & (gradient <= 0)) | ((a >= cap) & (gradient >= 0))))
        part = K[np.ix_(open_, open_)]
        part[np.diag_indices_from(part)] += ridge
        try:
            step = cho_solve(cho_factor(part, lower=True, check_finite=False), gradient[open_], check_finite=False)
        except LinAlgError:  # rounding made it indefinite
            ridge *= 100
            continue
        moved = _project(a[open_], step, cap[open_], gradient[open_], part)
        if moved is None:
            break
        a[open_] = np.clip(a[open_] + moved, 0.0, cap[open_])
        gradient -= K[:, open_] @ moved
        if np.array_equal(moved, step) and np.all(np.abs(gradient[open_]) < 1e-9):
            break
    s.alpha[free] = a


def _kernel(X: Any, p: Problem, s: State, free: Array, task: Array, coupling: TaskCoupling) -> tuple[Array, Array]:
    """Return the kernel matrix of the free rows, labels included, and their margins."""
    rows = X[free - p.shifts[task]]
    rows = rows.tocsr() if hasattr(rows, "tocsr") else rows
    y = p.y[free]
    products = rows @ rows.T
    products = products.toarray() if is_sparse(products) else products
    K = coupling.part(task) * (products + p.rows.bias**2) * np.outer(y, y)
    margin = np.empty(len(free))
    width = rows.shape[1]
    for t in np.unique(task):
        w = coupling.row(t, s.V)
        mine = task == t
        margin[mine] = y[mine] * (rows[mine] @ w[:width] + (p.rows.bias * w[-1] if p.rows.bias else 0.0))
    return K, margin


def _project(a: Array, step: Array, cap: Array, gradient: Array, K: Array) -> Array | None:
    """Return a clipped multiple of `step` with enough gain, `step` itself if it stays inside, None if there is none."""
    if np.all((a + step >= 0) & (a + step <= cap)):
        return step
    for _ in range(30):
        moved = np.clip(a + step, 0.0, cap) - a
        slope = float(gradient @ moved)
        if slope > 0 and slope - 0.5 * float(moved @ (K @ moved)) >= 1e-3 * slope:
            return moved
        step = step / 2
    return None
