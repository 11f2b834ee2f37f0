"""Sequential minimal optimisation of one SVM dual with a weighted sum of kernels, from any feasible point.

The pair of a step is chosen by second-order information (Fan, Chen and Lin 2005, the rule of LIBSVM). In contrast to
LIBSVM it starts from the last solution, forms only those rows of the summed kernel matrix that it visits, and keeps the
image of the solution under every kernel, from which the gradient at other kernel weights follows without a product.
"""

from __future__ import annotations

import numpy as np

from mtlrun.utils.jit import compiled, summing

# Curvature of a pair with equal rows.
_FLAT = 1e-12


@compiled
def ascend(
    stack: np.ndarray,
    theta: np.ndarray,
    y: np.ndarray,
    costs: np.ndarray,
    dual: np.ndarray,
    images: np.ndarray,
    tol: float,
    max_steps: int,
) -> tuple[float, int]:
    """Maximise y'dual - 1/2 dual'K dual, K = sum_m theta_m K^m, over sum(dual) = 0 and 0 <= y_i dual_i <= costs_i.

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
        K^m dual of every kernel; kept up to date.
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
    upper, lower = np.where(y > 0, costs, 0.0), np.where(y > 0, 0.0, -costs)
    gain, diagonal = y.copy(), np.zeros(n)
    rows, known = np.empty((n, n)), np.zeros(n, dtype=np.bool_)
    for m in range(M):
        if theta[m] != 0.0:
            gain -= theta[m] * images[m]
            for i in range(n):
                diagonal[i] += theta[m] * stack[m, i, i]
    best, worst, steps = np.inf, -np.inf, 0
    while steps < max_steps:
        i, best, worst = -1, -np.inf, np.inf
        for k in range(n):
            if dual[k] < upper[k] and gain[k] > best:
                i, best = k, gain[k]
            if dual[k] > lower[k] and gain[k] < worst:
                worst = gain[k]
        if best - worst <= tol:
            break
        _form(stack, theta, i, rows, known)
        first = rows[i]
        j, most = -1, -1.0
        for k in range(n):
            slope = best - gain[k]
            if slope > 0.0 and dual[k] > lower[k]:
                rise = slope * slope / max(diagonal[i] + diagonal[k] - 2.0 * first[k], _FLAT)
                if rise > most:
                    j, most = k, rise
        _form(stack, theta, j, rows, known)
        second = rows[j]
        step = (best - gain[j]) / max(diagonal[i] + diagonal[j] - 2.0 * first[j], _FLAT)
        room, left = upper[i] - dual[i], dual[j] - lower[j]
        step = min(step, room, left)
        # Bounds are met exactly: a point that is short of its bound by rounding would be chosen again and again.
        dual[i] = upper[i] if step == room else dual[i] + step
        dual[j] = lower[j] if step == left else dual[j] - step
        for k in range(n):
            gain[k] -= step * (first[k] - second[k])
        steps += 1
    _add_images(stack, dual - start, images)
    return 0.5 * (best + worst), steps


@summing
def _form(stack: np.ndarray, theta: np.ndarray, i: int, rows: np.ndarray, known: np.ndarray) -> None:
    """Make row i of the summed kernel matrix, once."""
    if known[i]:
        return
    known[i] = True
    row = rows[i]
    row[:] = 0.0
    for m in range(len(theta)):
        weight = theta[m]
        if weight != 0.0:
            some = stack[m, i]
            for k in range(len(row)):
                row[k] += weight * some[k]


@summing
def _add_images(stack: np.ndarray, change: np.ndarray, images: np.ndarray) -> None:
    """Add K^m change to the images, four columns at a time."""
    moved = np.flatnonzero(change)
    full = len(moved) - len(moved) % 4
    for m in range(len(images)):
        K, image = stack[m], images[m]
        for at in range(0, full, 4):
            a, b, c, d = K[moved[at]], K[moved[at + 1]], K[moved[at + 2]], K[moved[at + 3]]
            p, q, r, s = change[moved[at]], change[moved[at + 1]], change[moved[at + 2]], change[moved[at + 3]]
            for k in range(len(image)):
                image[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * d[k])
        for at in range(full, len(moved)):
            a, p = K[moved[at]], change[moved[at]]
            for k in range(len(image)):
                image[k] += p * a[k]
