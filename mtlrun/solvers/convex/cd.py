"""Block coordinate descent for the group lasso of a (k, T) coefficient matrix W.

The objective is::

    1/2 ||B - A W||^2 + alpha sum_j ||W_j||_2

where W_j is row j; with T = 1 it is a Lasso. There are two ways to minimize it:

* `descend` uses the Gram matrix G = A'A and keeps Q = c - G W up to date, with c = A'B.
  A row that does not move costs T operations, a row that moves costs k T. It solves for
  many strengths, each started from the solution of the one before.
* `descend_residual` keeps the residual, for more features than their columns have
  entries. A visit costs T times the non-zeros of the column, so most epochs leave out
  the rows that are zero.

In `descend_residual`, A = X - ones means', and the means are never subtracted. Let F =
B - X W, up to a multiple of `ones` in each column, and s = ones'F. Columns of A and B
are orthogonal to `ones`, so the residual is F - ones s' / |ones|^2.

Compiled functions are plain loops over few arrays. Plain loops compile in less than a
second, array expressions in ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mtlrun.problem.taskdata import Array, Design
from mtlrun.utils.jit import compiled, inner, summing

#: Number of changes of the iterates that an extrapolation combines.
DEPTH = 5


class Descent(NamedTuple):
    """Solutions for some strengths.

    Attributes
    ----------
    coef : ndarray of shape (n_alphas, T, k)
        The transposed coefficients W'.
    epochs : ndarray of shape (n_alphas,)
        Number of epochs; with `by_task`, the maximum over the tasks. It is below the
        maximum if the gap is small enough or no coefficient moves any more.
    primal, dual : ndarray of shape (n_alphas,)
        Objective and dual objective; with `by_task`, summed over the tasks.
    """

    coef: Array
    epochs: Array
    primal: Array
    dual: Array


def descend(
    G: Array,
    cross: Array,
    energy: Array,
    alphas: Sequence[float] | Array,
    *,
    absolute: Array | float = 0.0,
    relative: float = 0.0,
    max_epochs: int,
    by_task: bool = False,
    start: Array | None = None,
) -> Descent:
    """Minimize the objective for each strength, from products of columns.

    Parameters
    ----------
    G : ndarray of shape (k, k); also (T, k, k) with `by_task`
        Gram matrices A'A.
    cross : ndarray of shape (T, k)
        B'A, the transpose of c.
    energy : ndarray of shape (T,)
        Squared norms of the columns of B.
    alphas : array-like of shape (n_alphas,)
        Strengths, positive. Each one starts from the solution of the one before.
    absolute : float, or ndarray of shape (T,) with `by_task`, default 0
        Duality gap at which a problem is solved.
    relative : float, default 0
        The same, relative to the objective; the larger one counts.
    max_epochs : int
        Maximum number of epochs for each strength.
    by_task : bool, default False
        Use the penalty ``alpha sum_jt |W_jt|`` instead: one problem per task.
    start : ndarray of shape (T, k), optional
        Coefficients to start from, default zeros.

    Returns
    -------
    Descent
    """
    T, k = cross.shape
    strengths = np.array(alphas, dtype=np.float64)
    shape = (1, T, k)
    if by_task:
        shape = (T, 1, k)
    else:
        energy = energy.sum(keepdims=True)
    n_problems = shape[0]
    cross = np.ascontiguousarray(cross).reshape(shape)
    targets = np.broadcast_to(absolute, n_problems)
    W = np.empty((n_problems, len(strengths), *shape[1:]))
    certificates = np.empty((n_problems, len(strengths), 3))
    state = np.zeros((2, *shape[1:]))
    past = np.zeros((DEPTH + 1, state.size))
    equations = np.empty((DEPTH, DEPTH + 1))
    for p in range(n_problems):
        state[0] = 0.0 if start is None else start[p : p + shape[1]]
        _descend_path(
            G if G.ndim == 2 else G[p],
            cross[p],
            energy[p],
            strengths,
            targets[p],
            relative,
            max_epochs,
            W[p],
            certificates[p],
            state.reshape(-1),
            state[0],
            state[1],
            past,
            equations,
        )
    return Descent(
        W.swapaxes(0, 1).reshape(len(strengths), T, k),
        certificates[:, :, 0].max(axis=0, initial=0.0).astype(int),
        certificates[:, :, 1].sum(axis=0),
        certificates[:, :, 2].sum(axis=0),
    )


@compiled
def _descend_path(
    G: Array,
    cross: Array,
    energy: float,
    alphas: Array,
    target: float,
    relative: float,
    max_epochs: int,
    W: Array,
    certificates: Array,
    state: Array,
    w: Array,
    q: Array,
    past: Array,
    equations: Array,
) -> None:
    """Solve one problem for each strength.

    `w` and `q` are W' and Q' of shape (T, k), and `state` has the entries of both in
    one piece. `certificates` receives the number of epochs, the objective and the dual
    objective. `past` and `equations` are overwritten.
    """
    T, k = cross.shape
    for a in range(alphas.shape[0]):
        alpha = alphas[a]
        for t in range(T):
            for j in range(k):
                q[t, j] = cross[t, j]
            for j in range(k):
                if w[t, j] != 0.0:
                    for i in range(k):
                        q[t, i] -= w[t, j] * G[j, i]
        best = np.inf
        epochs = 0
        step = 0
        moved = True
        while True:
            # The dual point is the residual, scaled down until it is feasible.
            largest = 0.0
            norms = 0.0
            along = energy
            linear = 0.0
            for j in range(k):
                square = 0.0
                length = 0.0
                for t in range(T):
                    square += q[t, j] * q[t, j]
                    length += w[t, j] * w[t, j]
                    along -= w[t, j] * cross[t, j]
                    linear += w[t, j] * q[t, j]
                if square > largest:
                    largest = square
                norms += np.sqrt(length)
            scale = 1.0
            if largest > alpha * alpha:
                scale = alpha / np.sqrt(largest)
            # `along` is <B, R> = |B|^2 - <W, c>, `linear` is <A W, R>, their difference
            # |R|^2. The dual objective of a multiple s R is s <B, R> - s^2/2 |R|^2.
            square = along - linear
            primal = 0.5 * square + alpha * norms
            dual = scale * along - 0.5 * scale * scale * square
            gap = primal - dual
            if step == 0:
                # The objective is not quadratic where rows become zero: an
                # extrapolation that does not lower it is dropped.
                if not primal < best:
                    for p in range(state.shape[0]):
                        state[p] = past[DEPTH, p]
            elif (
                not moved
                or gap <= target
                or gap <= relative * primal
                or epochs >= max_epochs
            ):
                break
            for p in range(state.shape[0]):
                past[step, p] = state[p]
            if step == DEPTH:
                best = primal
                _extrapolate(past, equations, state)
                step = 0
                continue
            step += 1
            epochs += 1
            moved = False
            for j in range(k):
                # In row w alone, the objective is curvature/2 |w|^2 - <v, w> + alpha
                # |w|, with v = q + curvature w: the minimizer is v, shortened by alpha,
                # over the curvature.
                curvature = G[j, j]
                square = 0.0
                for t in range(T):
                    v = q[t, j] + curvature * w[t, j]
                    square += v * v
                shrink = 0.0
                if square > alpha * alpha and curvature > 0.0:
                    shrink = (1.0 - alpha / np.sqrt(square)) / curvature
                for t in range(T):
                    new = shrink * (q[t, j] + curvature * w[t, j])
                    change = new - w[t, j]
                    if change != 0.0:
                        moved = True
                        w[t, j] = new
                        for i in range(k):
                            q[t, i] -= change * G[j, i]
        certificates[a, 0] = epochs
        certificates[a, 1] = primal
        certificates[a, 2] = dual
        for t in range(T):
            for j in range(k):
                W[a, t, j] = w[t, j]


@inner
def _extrapolate(past: Array, equations: Array, state: Array) -> None:
    """Combine iterates as in `combination`, in place; Q is linear in W but for the
    constant c, and the weights sum to 1: the same combination serves both.
    """
    size = past.shape[1] // 2
    for i in range(DEPTH):
        for j in range(DEPTH):
            equations[i, j] = 0.0
        equations[i, DEPTH] = 1.0
    for p in range(size):
        for i in range(DEPTH):
            change = past[i + 1, p] - past[i, p]
            for j in range(DEPTH):
                equations[i, j] += change * (past[j + 1, p] - past[j, p])
    trace = 0.0
    for i in range(DEPTH):
        trace += equations[i, i]
    for i in range(DEPTH):
        equations[i, i] += 1e-12 * trace
    # Gauss-Jordan elimination: the matrix is positive definite.
    for i in range(DEPTH):
        for j in range(DEPTH):
            if j != i:
                factor = equations[j, i] / equations[i, i]
                for column in range(i, DEPTH + 1):
                    equations[j, column] -= factor * equations[i, column]
    total = 0.0
    for i in range(DEPTH):
        total += equations[i, DEPTH] / equations[i, i]
    for p in range(2 * size):
        state[p] = 0.0
        for i in range(DEPTH):
            weight = equations[i, DEPTH] / equations[i, i] / total
            state[p] += weight * past[i + 1, p]


def combination(past: Array) -> Array:
    """Return the weights of an extrapolation (Anderson acceleration).

    The weights sum to 1 and minimize the norm of the combined last changes.

    Parameters
    ----------
    past : ndarray of shape (DEPTH + 1, ...)
        Iterates, the oldest first.

    Returns
    -------
    ndarray of shape (DEPTH,)
        Weights of all iterates but the first. The last one has weight 1 if nothing
        changed.
    """
    changes = np.diff(past, axis=0).reshape(DEPTH, -1)
    M = changes @ changes.T
    # Near the solution all changes are nearly parallel, and M nearly singular.
    M[np.diag_indices(DEPTH)] += 1e-12 * np.trace(M)
    try:
        weights = np.linalg.solve(M, np.ones(DEPTH))
    except np.linalg.LinAlgError:
        weights = np.eye(DEPTH)[-1]
    total = weights.sum()
    if np.isfinite(total) and total != 0.0:
        return weights / total
    return np.eye(DEPTH)[-1]


class DesignColumns(NamedTuple):
    """Columns of A, either dense or compressed. The arrays of the other kind are empty.

    Attributes
    ----------
    dense : ndarray of shape (k, n)
        The columns, one per row of the array.
    values, rows, indptr : ndarray
        The compressed columns.
    means : ndarray of shape (k,)
        Means to subtract from the columns, or zeros.
    total : float
        |ones|^2.
    squares : ndarray of shape (k,)
        Squared norms of the columns of A.
    """

    dense: Array
    values: Array
    rows: Array
    indptr: Array
    means: Array
    total: float
    squares: Array


def descend_residual(
    A: DesignColumns,
    X: Design,
    W: Array,
    F: Array,
    alpha: float,
    target: float,
    max_epochs: int,
) -> int:
    """Minimize the objective to a duality gap of at most `target`, through residuals.

    Parameters
    ----------
    A : DesignColumns
    X : array or sparse array of shape (n, k)
        The same columns without centering.
    W : ndarray of shape (k, T)
        Coefficients, changed in place.
    F : ndarray of shape (n, T); (T, n) for dense columns or one task
        The residual at W, overwritten.
    alpha : float
        Strength, positive.
    target : float
        Absolute duality gap at which to stop. It is computed after every fifth epoch.
    max_epochs : int
        Maximum number of epochs.

    Returns
    -------
    int
        Number of epochs. It is below the maximum if the gap is small enough or no
        coefficient moves any more.
    """
    T = W.shape[1]
    # Products with a dense column need the residual of a task in one piece; entries of
    # a compressed column serve all tasks at once.
    by_task = F.shape[0] == T and (T == 1 or A.dense.size > 0)
    s = np.zeros(T)
    move = np.zeros(T)
    state = (W, F, s)
    past = [np.empty((DEPTH + 1, *part.shape)) for part in state]
    n_changes = 0
    for epoch in range(1, max_epochs + 1):
        # The first and the last epoch before an extrapolation visit all rows.
        only_used = 0 < n_changes < DEPTH - 1
        for history, part in zip(past, state, strict=True):
            history[n_changes] = part
        has_moved = _sweep(*A, *state, alpha, move, only_used)
        if not has_moved and not only_used:
            return epoch
        n_changes += 1
        if n_changes < DEPTH:
            continue
        for history, part in zip(past, state, strict=True):
            history[n_changes] = part
        n_changes = 0
        weights = combination(past[0])
        new_W, new_F, new_s = (np.tensordot(weights, h[1:], axes=1) for h in past)
        if _objective(A, new_W, new_F, new_s, alpha) < _objective(A, *state, alpha):
            W[:] = new_W
            F[:] = new_F
            s[:] = new_s
        residual = F.T if by_task else F
        if _residual_gap(A, X, W, residual, s, alpha) <= target:
            return epoch
    return max_epochs


@summing
def _sweep(
    dense: Array,
    values: Array,
    rows: Array,
    indptr: Array,
    means: Array,
    total: float,
    squares: Array,
    W: Array,
    F: Array,
    s: Array,
    alpha: float,
    move: Array,
    only_used: bool,
) -> bool:
    """Minimize over each row or each non-zero row once; return whether any moved."""
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
        # `move` holds the products of the column with the residual, and later the
        # changes of the coefficients.
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
        # The products of the centered column with the residual, x'F - mean s', and the
        # step as in `_descend_path`.
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
            # ones'x of column x is |ones|^2 times its mean.
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


def _square(A: DesignColumns, F: Array, s: Array) -> float:
    """Return the squared norm of the residual."""
    return float(np.vdot(F, F) - s @ s / A.total)


def _objective(
    A: DesignColumns,
    W: Array,
    F: Array,
    s: Array,
    alpha: float,
) -> float:
    """Return the objective at W with the residual of F and s."""
    norms = float(np.linalg.norm(W, axis=1).sum())
    return 0.5 * _square(A, F, s) + alpha * norms


def _residual_gap(
    A: DesignColumns,
    X: Design,
    W: Array,
    F: Array,
    s: Array,
    alpha: float,
) -> float:
    """Return the duality gap; the dual point is the residual, scaled to be feasible.

    F has shape (n, T).
    """
    # A'R for the residual R, whose largest row decides whether R is feasible.
    Z = X.T @ F - np.outer(A.means, s)
    norms = np.linalg.norm(Z, axis=1)
    largest = float(norms.max(initial=0.0))
    square = _square(A, F, s)
    scale = 1.0
    if largest > 0.0:
        scale = min(1.0, alpha / largest)
    # <B, R> = |R|^2 + <A W, R>
    along = square + float(np.vdot(Z, W))
    primal = _objective(A, W, F, s, alpha)
    return primal - scale * along + 0.5 * scale * scale * square
