"""Compiled block coordinate descent on a quadratic of a (k, T) matrix plus row norms, through a Gram matrix.

The function is ``1/2 (energy - 2 <c, W> + <W, G W>) + alpha sum_j ||W_j||_2``; one column makes it a Lasso.
``Q = c - G W`` is kept up to date, so that a row that does not move costs T operations and one that moves k T.
`cd_residual` does the same through residuals; the Anderson acceleration of both is here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Compiled once per machine. Sums may be reordered (vectorised); NaN and infinities keep their meaning.
compiled = njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})

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
def sweep(G: np.ndarray, W: np.ndarray, Q: np.ndarray, alpha: float, move: np.ndarray) -> bool:
    """Minimise over every row once; return whether one moved."""
    k, T = W.shape
    any_moved = False
    for j in range(k):
        curvature = G[j, j]
        if curvature <= 0.0:
            continue
        square = 0.0
        for t in range(T):
            move[t] = curvature * W[j, t] + Q[j, t]
            square += move[t] * move[t]
        norm = np.sqrt(square)
        shrink = (1.0 - alpha / norm) / curvature if norm > alpha else 0.0
        moved = False
        for t in range(T):
            new = shrink * move[t]
            move[t] = new - W[j, t]
            moved |= move[t] != 0.0
            W[j, t] = new
        if moved:
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
