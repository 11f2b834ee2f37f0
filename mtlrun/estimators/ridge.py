"""Ridge regression in closed form: dense or sparse, weighted, one factorisation for all tasks of a shared design."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from mtlrun.core.intercept import centre
from mtlrun.core.operator import TaskOperator
from mtlrun.core.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]


def solve_ridge(data: TaskData, alpha: float, *, fit_intercept: bool = True) -> tuple[Array, Array]:
    """Minimise 1/2 sum_ti w_i (y_ti - x_i'w_t - b_t)^2 + alpha/2 ||W||_F^2 through the smaller Gram matrix of X.

    Parameters
    ----------
    data : TaskData
        Shared design of shape (n, d) with at most one weight per row. A sparse one stays sparse; only a
        min(n, d) square matrix is dense.
    alpha : float
        With 0 the solution of least norm is returned.
    fit_intercept : bool, default True

    Returns
    -------
    W : ndarray of shape (d, T)
    b : ndarray of shape (T,)
        Zeros without intercept.
    """
    centred = centre(data) if fit_intercept else None
    operator = TaskOperator(data) if centred is None else centred.operator
    targets = data.targets if centred is None else centred.data.targets
    w = np.ones(data.n_rows) if data.weights is None else data.weights
    if data.n_features <= data.n_rows:
        W = _solve_positive(operator.gram(data.weights), alpha, operator.adjoint(w[:, np.newaxis] * targets))
    else:
        root = np.sqrt(w)[:, np.newaxis]
        W = operator.adjoint(root * _solve_positive(operator.outer_gram(data.weights), alpha, root * targets))
    return W, np.zeros(data.n_tasks) if centred is None else centred.intercept(W)


def _solve_positive(gram: Array, alpha: float, right: Array) -> Array:
    """Solve (gram + alpha I) Z = right for a positive semidefinite Gram matrix."""
    if alpha == 0:
        return np.asarray(scipy.linalg.pinvh(gram) @ right)
    shifted = gram + alpha * np.eye(len(gram))
    factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(scipy.linalg.cho_solve(factor, right, check_finite=False))
