"""Block coordinate descent for ``1/2 ||B - A W||^2 + alpha sum_j ||W_j||_2`` of a (k, T) matrix W.

One column makes it a Lasso. `descend` works through a Gram matrix: ``Q = c - G W`` is kept up to date, so that a row
that does not move costs T operations and one that moves k T. `descend_residual` works through the residuals, for sets
with more features than their columns have entries: visiting a row costs T times the non-zeros of its column, so rows
that are zero are left out of most epochs.

There A = X - ones means', and the means are never subtracted: with F = B - X W (up to a multiple of `ones` in every
column) and s = ones'F, the residual is F - ones s' / |ones|^2, because the columns of A and B are orthogonal to `ones`.

Only the epochs are compiled, as plain loops: they take half a second to compile, array expressions take ten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mtlrun.problem.taskdata import Design
from mtlrun.utils.jit import summing as compiled

#: Changes of iterates that an extrapolation combines.
DEPTH = 5


def descend(
    G: np.ndarray,
    W: np.ndarray,
    Q: np.ndarray,
    square: float,
    alpha: float,
    target: float,
    max_epochs: int,
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
    used = np.flatnonzero(W.any(axis=1))
    c = Q + G[:, used] @ W[used] if len(used) else Q.copy()
    energy = square + float(np.vdot(W, Q)) + float(np.vdot(W, c))
    return _until(G, W, Q, c, energy, alpha, np.array([target, 0.0]), max_epochs)[0]


def descend_all(
    G: np.ndarray,
    W: np.ndarray,
    c: np.ndarray,
    energy: np.ndarray,
    alpha: float,
    targets: tuple[float, float],
    max_epochs: int,
    *,
    by_entry: bool,
) -> tuple[int, float, float]:
    """Lower the function of all features, or that with ``alpha sum_jt |W_jt|``, which is one problem per task.

    Parameters
    ----------
    G, W, alpha, max_epochs
        As of `descend`.
    c : ndarray of shape (k, T)
        A'B.
    energy : ndarray of shape (T,)
        Squared norms of the columns of B.
    targets : (float, float)
        The gap of every problem may be so large: absolute, and relative to its value.
    by_entry : bool

    Returns
    -------
    epochs : int
        The most of all problems.
    primal, dual : float
    """
    used = np.flatnonzero(W.any(axis=1))
    Q = c - G[:, used] @ W[used]
    stop = np.array(targets)
    if not by_entry:
        return _until(G, W, Q, c, float(energy.sum()), alpha, stop, max_epochs)
    columns = [np.ascontiguousarray(array.T)[:, :, None] for array in (W, Q, c)]
    tasks = zip(*columns, energy.tolist(), strict=True)
    results = [
        _until(G, w, q, n_used, size, alpha, stop, max_epochs)
        for w, q, n_used, size in tasks
    ]
    W[:] = columns[0][:, :, 0].T
    epochs, primal, dual = zip(*results, strict=True)
    return max(epochs), sum(primal), sum(dual)


def descend_tasks(
    G: np.ndarray,
    c: np.ndarray,
    energy: np.ndarray,
    alpha: float,
    tol: float,
    max_epochs: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve the Lassos of tasks with designs of their own from zero, all of them in one compiled loop.

    Every task takes the steps that `descend` takes for it alone.

    Parameters
    ----------
    G : ndarray of shape (T, k, k)
    c : ndarray of shape (k, T)
    energy : ndarray of shape (T,)
    alpha : float
        Positive.
    tol : float
        The gap of a task may be so large, relative to its energy.
    max_epochs : int

    Returns
    -------
    W : ndarray of shape (k, T)
    epochs : ndarray of int, shape (T,)
    """
    T, k, _ = G.shape
    c = np.ascontiguousarray(c.T)[:, :, None]
    W = np.zeros_like(c)
    Q = c.copy()
    past = np.zeros((T, 2, DEPTH + 1, k, 1))
    stop = np.column_stack([tol * energy, np.zeros(T)])
    epochs = np.zeros(T, dtype=np.int64)
    open_ = np.arange(T)
    while True:
        done = np.minimum(DEPTH, max_epochs - epochs[open_])
        _epochs_of_tasks(G, W, Q, c, energy, alpha, stop, past, open_, done)
        epochs[open_] += np.abs(done)
        open_ = open_[(done == DEPTH) & (epochs[open_] < max_epochs)]
        if not open_.size:
            return W[:, :, 0].T, epochs
        weights = _combinations(past[open_, 0, :, :, 0])[:, None, :]
        new_W, new_Q = (
            (weights @ past[open_, i, 1:, :, 0])[:, 0, :, None] for i in range(2)
        )
        better = _values(new_W, new_Q, c[open_], alpha) < _values(
            W[open_], Q[open_], c[open_], alpha
        )
        W[open_[better]], Q[open_[better]] = new_W[better], new_Q[better]


@compiled
def _epochs_of_tasks(
    G: np.ndarray,
    W: np.ndarray,
    Q: np.ndarray,
    c: np.ndarray,
    energy: np.ndarray,
    alpha: float,
    stop: np.ndarray,
    past: np.ndarray,
    open_: np.ndarray,
    done: np.ndarray,
) -> None:
    """Do the epochs that `done` allows each of the open tasks, and note there what `_epochs` returns."""
    move = np.empty(1)
    values = np.empty(2)
    for i in range(len(open_)):
        t = open_[i]
        past[t, 0, 0], past[t, 1, 0] = W[t], Q[t]
        done[i] = _epochs(
            G[t],
            W[t],
            Q[t],
            c[t],
            energy[t],
            alpha,
            stop[t],
            past[t],
            move,
            values,
            done[i],
        )


def _until(
    G: np.ndarray,
    W: np.ndarray,
    Q: np.ndarray,
    c: np.ndarray,
    energy: float,
    alpha: float,
    stop: np.ndarray,
    max_epochs: int,
) -> tuple[int, float, float]:
    """Return the epochs done, the value of the function and that of its dual."""
    past = np.empty((2, DEPTH + 1, *W.shape))
    move = np.empty(W.shape[1])
    epochs = 0
    values = np.empty(2)
    while True:
        past[0, 0], past[1, 0] = W, Q
        done = _epochs(
            G,
            W,
            Q,
            c,
            energy,
            alpha,
            stop,
            past,
            move,
            values,
            min(DEPTH, max_epochs - epochs),
        )
        epochs += abs(done)
        if done < DEPTH or epochs == max_epochs:
            return epochs, float(values[0]), float(values[1])
        weights = combination(past[0])
        new_W, new_Q = (_combined(weights, iterates) for iterates in past)
        if _value(new_W, new_Q, c, alpha) < _value(W, Q, c, alpha):
            W[:], Q[:] = new_W, new_Q


@compiled
def _epochs(
    G: np.ndarray,
    W: np.ndarray,
    Q: np.ndarray,
    c: np.ndarray,
    energy: float,
    alpha: float,
    stop: np.ndarray,
    past: np.ndarray,
    move: np.ndarray,
    values: np.ndarray,
    max_epochs: int,
) -> int:
    """Minimise over every row up to `max_epochs` times; return how often, negative if the gap is small or nothing moved."""
    k, T = W.shape
    for epoch in range(1, max_epochs + 1):
        moved = False
        for j in range(k):
            curvature = G[j, j]
            if curvature <= 0.0:
                continue
            square = 0.0
            for t in range(T):
                move[t] = Q[j, t] + curvature * W[j, t]
                square += move[t] * move[t]
            norm = np.sqrt(square)
            shrink = 0.0
            if norm > alpha:
                shrink = (1.0 - alpha / norm) / curvature
            changed = False
            for t in range(T):
                new = shrink * move[t]
                move[t] = new - W[j, t]
                changed |= move[t] != 0.0
                W[j, t] = new
            if not changed:
                continue
            moved = True
            # Numbers outside of the inner loops are read once: for all that is known, Q and G may overlap.
            if T == 1:  # no loop within the loop
                factor = move[0]
                for i in range(k):
                    Q[i, 0] -= factor * G[j, i]
            else:
                for i in range(k):
                    factor = G[j, i]
                    for t in range(T):
                        Q[i, t] -= factor * move[t]
        # The dual point is the residual, scaled down until it is feasible.
        largest = 0.0
        norms = 0.0
        along = energy
        linear = 0.0
        for j in range(k):
            size = 0.0
            length = 0.0
            for t in range(T):
                w = W[j, t]
                q = Q[j, t]
                past[0, epoch, j, t], past[1, epoch, j, t] = w, q
                size += q * q
                length += w * w
                along -= w * c[j, t]
                linear += w * q
            largest = max(largest, size)
            norms += np.sqrt(length)
        scale = 1.0
        if largest > 0.0:
            scale = min(1.0, alpha / np.sqrt(largest))
        square = along - linear
        values[0] = 0.5 * square + alpha * norms
        values[1] = scale * along - 0.5 * scale * scale * square
        if not moved or values[0] - values[1] <= max(stop[0], stop[1] * values[0]):
            return -epoch
    return max_epochs


def combination(past: np.ndarray) -> np.ndarray:
    """Return the weights, of sum 1, for which the combination of the last changes is least.

    Parameters
    ----------
    past : ndarray of shape (DEPTH + 1, ...)
        Iterates, the oldest first.

    Returns
    -------
    ndarray of shape (DEPTH,)
        Of the iterates from the second on; all on the last one if nothing changed.
    """
    changes = np.diff(past, axis=0).reshape(DEPTH, -1)
    M = changes @ changes.T
    M[np.diag_indices(DEPTH)] += 1e-12 * np.trace(M)
    try:
        weights = np.linalg.solve(M, np.ones(DEPTH))
    except np.linalg.LinAlgError:
        weights = np.eye(DEPTH)[-1]
    total = weights.sum()
    if np.isfinite(total) and total != 0.0:
        return weights / total
    return np.eye(DEPTH)[-1]


def _combinations(past: np.ndarray) -> np.ndarray:
    """Return what `combination` does for iterates of several problems, (m, DEPTH + 1, k), as (m, DEPTH)."""
    changes = np.diff(past, axis=1)
    M = changes @ changes.transpose(0, 2, 1)
    M += 1e-12 * np.trace(M, axis1=1, axis2=2)[:, None, None] * np.eye(DEPTH)
    try:
        weights = np.linalg.solve(M, np.ones((len(M), DEPTH, 1)))[:, :, 0]
    except np.linalg.LinAlgError:
        return np.array([combination(iterates) for iterates in past])
    total = weights.sum(axis=1, keepdims=True)
    usable = np.isfinite(total) & (total != 0.0)
    return np.where(usable, weights / np.where(usable, total, 1.0), np.eye(DEPTH)[-1])


def _values(W: np.ndarray, Q: np.ndarray, c: np.ndarray, alpha: float) -> np.ndarray:
    """Return what `_value` does for problems of one column each, (m, k, 1), as (m,)."""
    return np.asarray((alpha * np.abs(W) - 0.5 * W * (c + Q)).sum(axis=(1, 2)))


def _combined(weights: np.ndarray, past: np.ndarray) -> np.ndarray:
    """Return the iterates from the second on, weighted and summed."""
    return np.asarray(weights @ past[1:].reshape(DEPTH, -1)).reshape(past.shape[1:])


def _value(W: np.ndarray, Q: np.ndarray, c: np.ndarray, alpha: float) -> float:
    """Return the function without energy / 2."""
    norms = np.sqrt(np.einsum("jt,jt->j", W, W)).sum()
    return float(alpha * norms - 0.5 * np.vdot(W, c + Q))


class DesignColumns(NamedTuple):
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


def descend_residual(
    A: DesignColumns,
    X: Design,
    W: np.ndarray,
    F: np.ndarray,
    alpha: float,
    target: float,
    max_epochs: int,
) -> int:
    """Lower the function until its duality gap is at most `target`.

    Parameters
    ----------
    A : Columns
    X : array or sparse array of shape (n, k)
        The same columns, the means not subtracted.
    W : ndarray of shape (k, T)
        Changed in place.
    F : ndarray of shape (n, T); (T, n) for dense columns or one task
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
    T = W.shape[1]
    by_task = F.shape[0] == T and (T == 1 or A.dense.size > 0)
    s = np.zeros(T)
    move = np.zeros(T)
    past = [np.empty((DEPTH + 1, *array.shape)) for array in (W, F, s)]
    kept = 0
    for epoch in range(1, max_epochs + 1):
        if kept == 0:
            for kind, array in zip(past, (W, F, s), strict=True):
                kind[0] = array
        between = 0 < kept < DEPTH - 1
        if not _sweep(*A, W, F, s, alpha, move, between) and not between:
            return epoch
        kept += 1
        for kind, array in zip(past, (W, F, s), strict=True):
            kind[kept] = array
        if kept < DEPTH:
            continue
        kept = 0
        weights = combination(past[0])
        new_W, new_F, new_s = (_combined(weights, kind) for kind in past)
        if _objective(A, new_W, new_F, new_s, alpha) < _objective(A, W, F, s, alpha):
            W[:], F[:], s[:] = new_W, new_F, new_s
        if _residual_gap(A, X, W, F.T if by_task else F, s, alpha) <= target:
            return epoch
    return max_epochs


@compiled
def _sweep(
    dense: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    indptr: np.ndarray,
    means: np.ndarray,
    total: float,
    squares: np.ndarray,
    W: np.ndarray,
    F: np.ndarray,
    s: np.ndarray,
    alpha: float,
    move: np.ndarray,
    only_used: bool,
) -> bool:
    """Minimise over every row once, or over those that are not zero; return whether one moved."""
    k, T = W.shape
    is_dense = dense.shape[0] > 0
    any_moved = False
    for j in range(k):
        used = False
        for t in range(T):
            used |= W[j, t] != 0.0
        curvature = squares[j]
        if curvature <= 0.0 or (only_used and not used):
            continue
        # `move` holds the products of the column with the residual, then the change of the coefficients.
        for t in range(T):
            move[t] = 0.0
        if is_dense:
            for t in range(T):
                product = 0.0
                for i in range(dense.shape[1]):
                    product += dense[j, i] * F[t, i]
                move[t] = product
        elif T == 1:
            product = 0.0
            for p in range(indptr[j], indptr[j + 1]):
                product += values[p] * F[0, rows[p]]
            move[0] = product
        else:
            for p in range(indptr[j], indptr[j + 1]):
                value = values[p]
                row = rows[p]
                for t in range(T):
                    move[t] += value * F[row, t]
        square = 0.0
        for t in range(T):
            move[t] += curvature * W[j, t] - means[j] * s[t]
            square += move[t] * move[t]
        norm = np.sqrt(square)
        shrink = 0.0
        if norm > alpha:
            shrink = (1.0 - alpha / norm) / curvature
        moved = False
        for t in range(T):
            new = shrink * move[t]
            move[t] = new - W[j, t]
            moved |= move[t] != 0.0
            W[j, t] = new
            s[t] -= total * means[j] * move[t]
        if not moved:
            continue
        any_moved = True
        if is_dense:
            for t in range(T):
                change = move[t]
                for i in range(dense.shape[1]):
                    F[t, i] -= dense[j, i] * change
        elif T == 1:
            change = move[0]
            for p in range(indptr[j], indptr[j + 1]):
                F[0, rows[p]] -= values[p] * change
        else:
            for p in range(indptr[j], indptr[j + 1]):
                value = values[p]
                row = rows[p]
                for t in range(T):
                    F[row, t] -= value * move[t]
    return any_moved


def _square(A: DesignColumns, F: np.ndarray, s: np.ndarray) -> float:
    """Return the squared norm of the residual."""
    return float(np.vdot(F, F) - s @ s / A.total)


def _objective(
    A: DesignColumns, W: np.ndarray, F: np.ndarray, s: np.ndarray, alpha: float
) -> float:
    return 0.5 * _square(A, F, s) + alpha * float(np.linalg.norm(W, axis=1).sum())


def _residual_gap(
    A: DesignColumns,
    X: Design,
    W: np.ndarray,
    F: np.ndarray,
    s: np.ndarray,
    alpha: float,
) -> float:
    """Return the gap to the dual point that is the residual, scaled down until it is feasible; F is (n, T)."""
    Z = X.T @ F - np.outer(A.means, s)
    largest = float(np.linalg.norm(Z, axis=1).max(initial=0.0))
    square = _square(A, F, s)
    scale = min(1.0, alpha / largest) if largest > 0.0 else 1.0
    along = square + float(np.vdot(Z, W))
    return _objective(A, W, F, s, alpha) - scale * along + 0.5 * scale * scale * square
