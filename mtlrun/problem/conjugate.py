"""Conjugate gradients for many right-hand sides at once, without a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Solved(NamedTuple):
    """Solution X, its residual (the right-hand side minus the operator at X), and whether all columns are accurate."""

    X: np.ndarray
    residual: np.ndarray
    n_iter: int
    converged: bool


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    *,
    diagonal: np.ndarray | None = None,
    tol: float = 1e-13,
    max_iter: int = 2000,
) -> Solved:
    """Solve A X = right, column by column, for a symmetric positive (semi)definite operator.

    Parameters
    ----------
    apply : callable
        Returns A V for V of the shape of `right`.
    right : ndarray of shape (n, k)
        In the range of A; the solution of least norm is returned where there are many (without `diagonal`).
    diagonal : ndarray of shape (n,) or (n, k), optional
        Positive numbers near the diagonal of A, to precondition with.
    tol : float, default 1e-13
        Norm of the residual of a column, relative to its right-hand side.
    max_iter : int, default 2000
    """
    X, R = np.zeros_like(right), right.copy()
    scale = None if diagonal is None else 1.0 / (diagonal[:, None] if diagonal.ndim == 1 else diagonal)
    target = tol * np.linalg.norm(right, axis=0)
    P = np.zeros_like(right)
    before = np.ones(right.shape[1])
    iteration, open_ = 0, np.linalg.norm(R, axis=0) > target
    while open_.any() and iteration < max_iter:
        iteration += 1
        Z = R if scale is None else scale * R
        product = _columns(R, Z)
        P *= product / before
        P += Z
        image = apply(P)
        curvature = _columns(P, image)
        step = np.divide(product, curvature, out=np.zeros_like(product), where=open_ & (curvature > 0))
        X += step * P
        if iteration % 50 == 0:  # the recursion drifts from the true residual by rounding
            R = right - apply(X)
        else:
            image *= step
            R -= image
        before = np.where(product > 0, product, 1.0)
        open_ = np.linalg.norm(R, axis=0) > target
    R = right - apply(X)
    accurate = np.linalg.norm(R, axis=0) <= 10.0 * target
    return Solved(X, R, iteration, bool(accurate.all()))


def _columns(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->j", A, B))
