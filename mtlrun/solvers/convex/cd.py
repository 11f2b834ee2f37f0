"""Compiled block coordinate descent for ``1/2 ||B - A W||^2 + alpha sum_j ||W_j||_2`` of a (k, T) matrix W.

One column makes it a Lasso. `descend` works through a Gram matrix: ``Q = c - G W`` is kept up to date, so that a row
that does not move costs T operations and one that moves k T. `descend_residual` works through the residuals, for sets
with more features than their columns have entries: visiting a row costs T times the non-zeros of its column, so rows
that are zero are left out of most epochs.

There A = X - ones means', and the means are never subtracted: with F = B - X W (up to a multiple of `ones` in every
column) and s = ones'F, the residual is F - ones s' / |ones|^2, because the columns of A and B are orthogonal to `ones`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mtlrun.utils.jit import summing as compiled

#: Changes of iterates that an extrapolation combines.
DEPTH = 5


@compiled
def descend(
    G: np.ndarray, W: np.ndarray, Q: np.ndarray, square: float, alpha: float, target: float, max_epochs: int
) -> int:
    """Lower the function until its duality gap is at most `target`.

    Parameters
    ----------
    G : ndarray of shape (k, k)
        Gram matrix.
    W, Q : ndarray of shape (k, T)
        Coefficients and c - G W, both changed in place.
    square : float
        Squared norm of the residual at W.
    alpha : float
        Positive.
    target : float
        Absolute.
    max_epochs : int

    Returns
    -------
    int
        Epochs done; fewer than allowed where the gap is small enough or no coefficient moves any more.
    """
    k, T = W.shape
    c = Q.copy()
    move = np.zeros(T)
    for j in range(k):
        if row_norm(W, j) > 0.0:
            for t in range(T):
                move[t] = W[j, t]
            subtract(c, G, j, move, -1.0)
    energy = square + inner(W, Q) + inner(W, c)
    past = np.empty((2, DEPTH + 1, k, T))
    kept = 0
    for epoch in range(1, max_epochs + 1):
        if kept == 0:
            past[0, 0], past[1, 0] = W, Q
        moved = sweep(G, W, Q, alpha, move)
        if not moved or duality_gap(W, Q, c, energy, alpha) <= target:
            return epoch
        kept += 1
        past[0, kept], past[1, kept] = W, Q
        if kept == DEPTH:
            extrapolate(past, W, Q, c, alpha)
            kept = 0
    return max_epochs


@compiled
def _minimise_row(W: np.ndarray, j: int, curvature: float, alpha: float, move: np.ndarray) -> bool:
    """Minimise over row j and return whether it moved; `move` holds its products with the residual, then its change."""
    T = W.shape[1]
    square = 0.0
    for t in range(T):
        move[t] += curvature * W[j, t]
        square += move[t] * move[t]
    norm = np.sqrt(square)
    shrink = (1.0 - alpha / norm) / curvature if norm > alpha else 0.0
    moved = False
    for t in range(T):
        new = shrink * move[t]
        move[t] = new - W[j, t]
        moved |= move[t] != 0.0
        W[j, t] = new
    return moved


@compiled
def sweep(G: np.ndarray, W: np.ndarray, Q: np.ndarray, alpha: float, move: np.ndarray) -> bool:
    """Minimise over every row once; return whether one moved."""
    k, T = W.shape
    any_moved = False
    for j in range(k):
        curvature = G[j, j]
        if curvature <= 0.0:
            continue
        for t in range(T):
            move[t] = Q[j, t]
        if _minimise_row(W, j, curvature, alpha, move):
            any_moved = True
            subtract(Q, G, j, move, 1.0)
    return any_moved


@compiled
def subtract(Q: np.ndarray, G: np.ndarray, j: int, move: np.ndarray, sign: float) -> None:
    """Subtract sign times the outer product of column j of G and the move from Q."""
    k, T = Q.shape
    if T == 1:  # no loop within the loop
        step = sign * move[0]
        for i in range(k):
            Q[i, 0] -= step * G[j, i]
        return
    for i in range(k):
        factor = sign * G[j, i]
        for t in range(T):
            Q[i, t] -= factor * move[t]


@compiled
def row_norm(A: np.ndarray, j: int) -> float:
    """Return the l2 norm of a row."""
    square = 0.0
    for t in range(A.shape[1]):
        square += A[j, t] * A[j, t]
    return np.sqrt(square)


@compiled
def inner(A: np.ndarray, B: np.ndarray) -> float:
    """Return the sum of products."""
    total = 0.0
    for j in range(A.shape[0]):
        for t in range(A.shape[1]):
            total += A[j, t] * B[j, t]
    return total


@compiled
def duality_gap(W: np.ndarray, Q: np.ndarray, c: np.ndarray, energy: float, alpha: float) -> float:
    """Return the gap to the dual point that is the residual, scaled down until it is feasible."""
    largest, norms = 0.0, 0.0
    for j in range(W.shape[0]):
        largest = max(largest, row_norm(Q, j))
        norms += row_norm(W, j)
    scale = min(1.0, alpha / largest) if largest > 0.0 else 1.0
    along = energy - inner(W, c)  # <residual at 0, residual>
    square = along - inner(W, Q)
    return 0.5 * square + alpha * norms - scale * along + 0.5 * scale * scale * square


@compiled
def extrapolate(past: np.ndarray, W: np.ndarray, Q: np.ndarray, c: np.ndarray, alpha: float) -> None:
    """Move to the combination of the last iterates that `combination` names, if the function is lower there."""
    weights = combination(past[0])
    if not np.isfinite(weights).all():
        return
    new_W, new_Q = np.zeros_like(W), np.zeros_like(Q)
    for a in range(DEPTH):
        new_W += weights[a] * past[0, a + 1]
        new_Q += weights[a] * past[1, a + 1]
    if _value(new_W, new_Q, c, alpha) < _value(W, Q, c, alpha):
        W[:] = new_W
        Q[:] = new_Q


@compiled
def combination(past: np.ndarray) -> np.ndarray:
    """Return the weights, of sum 1, for which the combination of the last changes is least; NaN if there are none.

    Parameters
    ----------
    past : ndarray of shape (DEPTH + 1, k, T)
        Iterates, the oldest first.

    Returns
    -------
    ndarray of shape (DEPTH,)
        Of the iterates from the second on.
    """
    _, k, T = past.shape
    M = np.empty((DEPTH, DEPTH))
    trace = 0.0
    for a in range(DEPTH):
        for b in range(a + 1):
            total = 0.0
            for j in range(k):
                for t in range(T):
                    total += (past[a + 1, j, t] - past[a, j, t]) * (past[b + 1, j, t] - past[b, j, t])
            M[a, b] = M[b, a] = total
        trace += M[a, a]
    for a in range(DEPTH):
        M[a, a] += 1e-12 * trace
    return _solve(M)


@compiled
def _solve(M: np.ndarray) -> np.ndarray:
    """Return x with M x = 1, divided by its sum; M is positive definite and overwritten."""
    n = len(M)
    x = np.ones(n)
    for a in range(n):
        for b in range(a + 1, n):
            factor = M[b, a] / M[a, a]
            x[b] -= factor * x[a]
            for i in range(a, n):
                M[b, i] -= factor * M[a, i]
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            x[a] -= M[a, b] * x[b]
        x[a] /= M[a, a]
    return x / x.sum()


@compiled
def _value(W: np.ndarray, Q: np.ndarray, c: np.ndarray, alpha: float) -> float:
    """Return the function without energy / 2."""
    total = 0.0
    for j in range(W.shape[0]):
        total += alpha * row_norm(W, j)
    return total - 0.5 * (inner(W, c) + inner(W, Q))


class Columns(NamedTuple):
    """Columns of A; the arrays of the kind that is not used are empty.

    Attributes
    ----------
    dense : ndarray of shape (k, n)
        One column after the other.
    values, rows, indptr : ndarray
        Compressed columns.
    means : ndarray of shape (k,)
        Zeros where nothing is subtracted.
    total : float
        |ones|^2.
    squares : ndarray of shape (k,)
        Squared norms of the columns of A.
    """

    dense: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    indptr: np.ndarray
    means: np.ndarray
    total: float
    squares: np.ndarray


@compiled
def descend_residual(A: Columns, W: np.ndarray, F: np.ndarray, alpha: float, target: float, max_epochs: int) -> int:
    """Lower the function until its duality gap is at most `target`.

    Parameters
    ----------
    A : Columns
    W : ndarray of shape (k, T)
        Changed in place.
    F : ndarray of shape (n, T), (T, n) for dense columns
        The residual at W; overwritten.
    alpha : float
        Positive.
    target : float
        Absolute; the gap is computed after every fifth epoch.
    max_epochs : int

    Returns
    -------
    int
        Epochs done; fewer than allowed where the gap is small enough or no coefficient moves any more.
    """
    s = np.zeros(W.shape[1])
    move = np.zeros(W.shape[1])
    past_W, past_F, past_s = (
        np.empty((DEPTH + 1, *W.shape)),
        np.empty((DEPTH + 1, *F.shape)),
        np.empty((DEPTH + 1, len(s))),
    )
    kept = 0
    for epoch in range(1, max_epochs + 1):
        if kept == 0:
            past_W[0], past_F[0], past_s[0] = W, F, s
        if not _sweep(A, W, F, s, alpha, move, 0 < kept < DEPTH - 1) and not 0 < kept < DEPTH - 1:
            return epoch
        kept += 1
        past_W[kept], past_F[kept], past_s[kept] = W, F, s
        if kept == DEPTH:
            _extrapolate(A, past_W, past_F, past_s, W, F, s, alpha)
            kept = 0
            if _gap(A, W, F, s, alpha, move) <= target:
                return epoch
    return max_epochs


@compiled
def _sweep(
    A: Columns, W: np.ndarray, F: np.ndarray, s: np.ndarray, alpha: float, move: np.ndarray, only_used: bool
) -> bool:
    """Minimise over every row once, or over those that are not zero; return whether one moved."""
    any_moved = False
    for j in range(len(W)):
        curvature = A.squares[j]
        if curvature <= 0.0 or (only_used and row_norm(W, j) == 0.0):
            continue
        _pull(A, j, F, s, move)
        if _minimise_row(W, j, curvature, alpha, move):
            any_moved = True
            _push(A, j, F, s, move)
    return any_moved


@compiled
def _pull(A: Columns, j: int, F: np.ndarray, s: np.ndarray, out: np.ndarray) -> None:
    """Write the products of column j with the residual."""
    if A.dense.shape[0] > 0:
        for t in range(len(out)):
            out[t] = _dot(A.dense[j], F[t])
    else:
        _sparse_pull(A.values, A.rows, A.indptr[j], A.indptr[j + 1], F, out)
    for t in range(len(out)):
        out[t] -= A.means[j] * s[t]


@compiled
def _push(A: Columns, j: int, F: np.ndarray, s: np.ndarray, move: np.ndarray) -> None:
    """Subtract the outer product of column j and the move from the residual."""
    if A.dense.shape[0] > 0:
        for t in range(len(move)):
            _subtract(F[t], A.dense[j], move[t])
    else:
        _sparse_push(A.values, A.rows, A.indptr[j], A.indptr[j + 1], F, move)
    for t in range(len(move)):
        s[t] -= A.total * A.means[j] * move[t]


# Arrays that stand in a tuple are not used within loops: numba would count references to them.
@compiled
def _dot(x: np.ndarray, y: np.ndarray) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@compiled
def _subtract(y: np.ndarray, x: np.ndarray, factor: float) -> None:
    for i in range(len(x)):
        y[i] -= factor * x[i]


@compiled
def _sparse_pull(values: np.ndarray, rows: np.ndarray, first: int, last: int, F: np.ndarray, out: np.ndarray) -> None:
    T = len(out)
    out[:] = 0.0
    if T == 1:
        total = 0.0
        for p in range(first, last):
            total += values[p] * F[rows[p], 0]
        out[0] = total
        return
    for p in range(first, last):
        for t in range(T):
            out[t] += values[p] * F[rows[p], t]


@compiled
def _sparse_push(values: np.ndarray, rows: np.ndarray, first: int, last: int, F: np.ndarray, move: np.ndarray) -> None:
    T = len(move)
    if T == 1:
        for p in range(first, last):
            F[rows[p], 0] -= values[p] * move[0]
        return
    for p in range(first, last):
        for t in range(T):
            F[rows[p], t] -= values[p] * move[t]


@compiled
def _square(A: Columns, F: np.ndarray, s: np.ndarray) -> float:
    """Return the squared norm of the residual."""
    return inner(F, F) - (s * s).sum() / A.total


@compiled
def _gap(A: Columns, W: np.ndarray, F: np.ndarray, s: np.ndarray, alpha: float, move: np.ndarray) -> float:
    """Return the gap to the dual point that is the residual, scaled down until it is feasible."""
    largest, norms, linear = 0.0, 0.0, 0.0
    for j in range(W.shape[0]):
        _pull(A, j, F, s, move)
        size = 0.0
        for t in range(W.shape[1]):
            size += move[t] * move[t]
            linear += move[t] * W[j, t]
        largest = max(largest, np.sqrt(size))
        norms += row_norm(W, j)
    square = _square(A, F, s)
    scale = min(1.0, alpha / largest) if largest > 0.0 else 1.0
    return 0.5 * square + alpha * norms - scale * (square + linear) + 0.5 * scale * scale * square


@compiled
def _extrapolate(
    A: Columns,
    past_W: np.ndarray,
    past_F: np.ndarray,
    past_s: np.ndarray,
    W: np.ndarray,
    F: np.ndarray,
    s: np.ndarray,
    alpha: float,
) -> None:
    """Move to the combination of the last iterates that `combination` names, if the function is lower there."""
    weights = combination(past_W)
    if not np.isfinite(weights).all():
        return
    new_W, new_F, new_s = np.zeros_like(W), np.zeros_like(F), np.zeros_like(s)
    for a in range(DEPTH):
        new_W += weights[a] * past_W[a + 1]
        new_F += weights[a] * past_F[a + 1]
        new_s += weights[a] * past_s[a + 1]
    old, new = 0.5 * _square(A, F, s), 0.5 * _square(A, new_F, new_s)
    for j in range(W.shape[0]):
        old += alpha * row_norm(W, j)
        new += alpha * row_norm(new_W, j)
    if new < old:
        W[:], F[:], s[:] = new_W, new_F, new_s
