"""Ridge regression for dense or sparse, weighted data.

A shared design has one factorization for all tasks.

Where that would take too much memory, conjugate gradients for all tasks at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from mtlrun.problem import memory
from mtlrun.problem.losses import is_graded
from mtlrun.problem.objective import centre
from mtlrun.problem.operator import TaskOperator, conjugate_gradients
from mtlrun.problem.rotation import Rotation, prepare
from mtlrun.problem.taskdata import Array, TaskData, quotient

#: The direct solution takes about this many times the memory of the Gram matrix.
_GRAMS = 4
_TOL = 1e-12
_MAX_ITER = 5000
# Corrections in an accurate eigenbasis, and changes of the predictions that are none,
# relative to the targets.
_REFINEMENTS = 10
_STILL = 1e-7


class Ridge(NamedTuple):
    """Coefficients W (d, T) and intercepts b (T,), with iterations and success.

    Intercepts are zeros if none are fitted. A factorization counts as one iteration.
    """

    W: Array
    b: Array
    n_iter: int
    converged: bool


def solve_ridge(data: TaskData, alpha: float, *, fit_intercept: bool = True) -> Ridge:
    """Minimize 1/2 sum_ti w_i (y_ti - x_i'w_t - b_t)^2 + alpha/2 ||W||_F^2.

    Through the smaller Gram matrix of X where that fits into memory
    (`mtlrun.problem.memory.KEPT`), else by conjugate gradients with X alone.

    Parameters
    ----------
    data : TaskData
        Shared design of shape (n, d) with at most one weight per row. A sparse one
        stays sparse.
    alpha : float
        With 0 the solution of least norm is returned.
    fit_intercept : bool, default True

    Returns
    -------
    Ridge
    """
    centred = centre(data) if fit_intercept else None
    if centred is None:
        operator = TaskOperator(data)
        targets = data.targets
    else:
        operator = centred.operator
        targets = centred.data.targets
    w = data.row_weights()
    n_iter = 1
    converged = True
    is_direct = _direct(data.n_rows, data.n_features, data.sparse)
    rotation = None
    if is_direct and (alpha == 0 or data.n_features > data.n_rows):
        # Inner products of rows would lose columns that are small next to others.
        squares = operator.squares(w)
        if is_graded(squares, squares):
            rotation = prepare(data, fit_intercept)
    if not is_direct:
        W, n_iter, converged = _iterate(data, operator, w, alpha, targets)
    elif rotation is not None and rotation.graded:
        W, n_iter, converged = _refine(rotation, w[:, np.newaxis], alpha, targets)
    elif data.n_features <= data.n_rows:
        # (X'DX + alpha I) W = X'D Y with the weights in D
        gram = operator.gram(data.weights)
        cross = operator.adjoint(w[:, np.newaxis] * targets)
        W = _solve_positive(gram, alpha, cross)
    else:
        # W = X'D^1/2 (D^1/2 X X' D^1/2 + alpha I)^-1 D^1/2 Y: the smaller matrix.
        root = np.sqrt(w)[:, np.newaxis]
        gram = operator.outer_gram(data.weights)
        dual = _solve_positive(gram, alpha, root * targets)
        W = operator.adjoint(root * dual)
    if centred is None:
        b = np.zeros(data.n_tasks)
    else:
        b = centred.intercept(W)
    return Ridge(W, b, n_iter, converged)


def _refine(
    rotation: Rotation,
    weights: Array,
    alpha: float,
    targets: Array,
) -> tuple[Array, int, bool]:
    """Solve in an eigenbasis and correct by the residuals of the rows.

    It is repeated until the predictions do not change.
    """
    below = rotation.squares + alpha
    operator = rotation.operator
    W = np.zeros((rotation.data.n_features, rotation.data.n_tasks))
    size = float(np.linalg.norm(targets))
    for n_iter in range(1, _REFINEMENTS + 1):
        residuals = targets - operator.forward(W)
        negative_gradient = operator.adjoint(weights * residuals) - alpha * W
        slope = rotation.rotate(negative_gradient)
        move = rotation.lift(quotient(slope, below))
        W = W + move
        change = np.linalg.norm(operator.forward(move))
        if change <= _STILL * size:
            return W, n_iter, True
    return W, n_iter, False


def ridge_bytes(n_rows: int, n_features: int, sparse: bool) -> int:
    """Return the approximate bytes of `solve_ridge`.

    They are without its arguments, its result and copies of the design.
    """
    if _direct(n_rows, n_features, sparse):
        return _GRAMS * 8 * min(n_rows, n_features) ** 2
    return 0


def _direct(n_rows: int, n_features: int, sparse: bool) -> bool:
    """Return whether to factorize.

    Sparse designs are factorized only if that is small, since products with them are
    cheap.
    """
    n_grams = _GRAMS if sparse else 1
    gram_bytes = 8 * min(n_rows, n_features) ** 2
    return memory.fits(n_grams * gram_bytes)


def _iterate(
    data: TaskData,
    operator: TaskOperator,
    w: Array,
    alpha: float,
    targets: Array,
) -> tuple[Array, int, bool]:
    """Solve (X'X + alpha I) W = X'y by products with X.

    With alpha = 0 it is the solution of smallest norm.
    """
    weights = w[:, np.newaxis]
    # Preconditioned steps would end at another solution than the smallest one.
    diagonal = None
    if alpha != 0:
        diagonal = operator.squares(w) + alpha

    def apply(V: Array) -> Array:
        return operator.adjoint(weights * operator.forward(V)) + alpha * V

    solved = conjugate_gradients(
        apply,
        operator.adjoint(weights * targets),
        diagonal=diagonal,
        tol=_TOL,
        max_iter=_MAX_ITER,
    )
    return solved.X, max(1, solved.n_iter), solved.converged


def _solve_positive(gram: Array, alpha: float, right: Array) -> Array:
    """Solve (gram + alpha I) Z = right for a positive semidefinite Gram matrix."""
    if alpha == 0:
        # The solution of least norm, where the matrix is singular.
        return np.asarray(scipy.linalg.pinvh(gram) @ right)
    shifted = gram + alpha * np.eye(len(gram))
    factor = scipy.linalg.cho_factor(
        shifted,
        lower=True,
        overwrite_a=True,
        check_finite=False,
    )
    return np.asarray(scipy.linalg.cho_solve(factor, right, check_finite=False))
