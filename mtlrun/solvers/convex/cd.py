"""Block coordinate descent for the group lasso of a (k, T) coefficient matrix W.

The objective is::

    1/2 ||B - A W||^2 + alpha sum_j ||W_j||_2

where W_j is row j; with T = 1 it is a Lasso. There are two ways to minimize it:

* `descend` uses the Gram matrix G = A'A and keeps Q = c - G W up to date, with c = A'B.
  A row that does not move costs T operations, a row that moves costs k T.
* `descend_residual` keeps the residual, for more features than their columns have
  entries. A visit costs T times the non-zeros of the column, so most epochs leave out
  the rows that are zero.

In `descend_residual`, A = X - ones means', and the means are never subtracted. Let F =
B - X W, up to a multiple of `ones` in each column, and s = ones'F. Columns of A and B
are orthogonal to `ones`, so the residual is F - ones s' / |ones|^2.

Only the epochs are compiled, as plain loops. Plain loops compile in half a second,
array expressions in ten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mtlrun.problem.taskdata import Design
from mtlrun.utils.jit import summing as compiled

Array = np.ndarray

#: Number of changes of the iterates that an extrapolation combines.
DEPTH = 5


def descend(
    G: Array,
    W: Array,
    Q: Array,
    square: float,
    alpha: float,
    target: float,
    max_epochs: int,
) -> int:
    """Minimize the objective to a duality gap of at most `target`.

    Parameters
    ----------
    G : ndarray of shape (k, k)
        Gram matrix.
    W, Q : ndarray of shape (k, T)
        Coefficients and c - G W, both changed in place.
    square : float
        Squared norm of the residual at W.
    alpha : float
        Strength, positive.
    target : float
        Absolute duality gap at which to stop.
    max_epochs : int
        Maximum number of epochs.

    Returns
    -------
    int
        Number of epochs. It is below the maximum if the gap is small enough or no
        coefficient moves any more.
    """
    used = np.flatnonzero(W.any(axis=1))
    if len(used):
        c = Q + G[:, used] @ W[used]
    else:
        c = Q.copy()
    # |B|^2 = |R|^2 + <W, Q> + <W, c> for the residual R = B - A W.
    energy = square + float(np.vdot(W, Q)) + float(np.vdot(W, c))
    stop = np.array([target, 0.0])
    epochs, _, _ = _until(G, W, Q, c, energy, alpha, stop, max_epochs)
    return epochs


def descend_all(
    G: Array,
    W: Array,
    c: Array,
    energy: Array,
    alpha: float,
    targets: tuple[float, float],
    max_epochs: int,
    *,
    by_entry: bool,
) -> tuple[int, float, float]:
    """Minimize the objective over all features.

    Parameters
    ----------
    G, W, alpha, max_epochs
        See `descend`.
    c : ndarray of shape (k, T)
        A'B.
    energy : ndarray of shape (T,)
        Squared norms of the columns of B.
    targets : (float, float)
        Duality gaps at which to stop: absolute, and relative to the objective. The
        larger one counts.
    by_entry : bool
        Use the penalty ``alpha sum_jt |W_jt|`` instead: one problem per task.

    Returns
    -------
    epochs : int
        Number of epochs; with `by_entry`, the maximum over the tasks.
    primal, dual : float
        Objective and dual objective, summed over the problems.
    """
    used = np.flatnonzero(W.any(axis=1))
    Q = c - G[:, used] @ W[used]
    stop = np.array(targets)
    if not by_entry:
        total_energy = float(energy.sum())
        return _until(G, W, Q, c, total_energy, alpha, stop, max_epochs)
    # One problem (k, 1) per task, with contiguous columns for the compiled loops.
    W_tasks = np.ascontiguousarray(W.T)[:, :, None]
    Q_tasks = np.ascontiguousarray(Q.T)[:, :, None]
    c_tasks = np.ascontiguousarray(c.T)[:, :, None]
    tasks = zip(W_tasks, Q_tasks, c_tasks, energy.tolist(), strict=True)
    results = []
    for w, q, cross, square in tasks:
        result = _until(G, w, q, cross, square, alpha, stop, max_epochs)
        results.append(result)
    W[:] = W_tasks[:, :, 0].T
    epochs, primal, dual = zip(*results, strict=True)
    return max(epochs), sum(primal), sum(dual)


def descend_tasks(
    G: Array,
    c: Array,
    energy: Array,
    alpha: float,
    tol: float,
    max_epochs: int,
) -> tuple[Array, Array]:
    """Solve one Lasso per task, each with its own design, in one compiled loop.

    Each task starts from zero and takes the same steps as in `descend`.

    Parameters
    ----------
    G : ndarray of shape (T, k, k)
        Gram matrices.
    c : ndarray of shape (k, T)
        Products of the design of each task with its targets.
    energy : ndarray of shape (T,)
        Squared norms of the targets.
    alpha : float
        Strength, positive.
    tol : float
        Duality gap at which a task stops, relative to its energy.
    max_epochs : int
        Maximum number of epochs of each task.

    Returns
    -------
    W : ndarray of shape (k, T)
        Coefficients.
    epochs : ndarray of int, shape (T,)
        Number of epochs of each task.
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
        # Outside of the compiled function: numba takes seconds to compile a copy of
        # arrays, because of the message for arrays of different shapes.
        past[open_, 0, 0] = W[open_]
        past[open_, 1, 0] = Q[open_]
        _epochs_of_tasks(G, W, Q, c, energy, alpha, stop, past, open_, done)
        epochs[open_] += np.abs(done)
        # A task that has stopped reports a negative number of epochs.
        goes_on = (done == DEPTH) & (epochs[open_] < max_epochs)
        open_ = open_[goes_on]
        if not open_.size:
            return W[:, :, 0].T, epochs
        weights = _combinations(past[open_, 0, :, :, 0])[:, None, :]
        new_W = (weights @ past[open_, 0, 1:, :, 0])[:, 0, :, None]
        # Q is linear in W but for the constant c, and the weights sum to 1: the same
        # combination, without a product with G.
        new_Q = (weights @ past[open_, 1, 1:, :, 0])[:, 0, :, None]
        # The objective is not quadratic where rows become zero: an extrapolation that
        # does not lower it is dropped.
        new_values = _values(new_W, new_Q, c[open_], alpha)
        old_values = _values(W[open_], Q[open_], c[open_], alpha)
        better = new_values < old_values
        W[open_[better]] = new_W[better]
        Q[open_[better]] = new_Q[better]


@compiled
def _epochs_of_tasks(
    G: Array,
    W: Array,
    Q: Array,
    c: Array,
    energy: Array,
    alpha: float,
    stop: Array,
    past: Array,
    open_: Array,
    done: Array,
) -> None:
    """Run `_epochs` for each open task.

    `done` holds the maximum numbers of epochs; the results overwrite it.
    """
    move = np.empty(1)
    values = np.empty(2)
    for i in range(len(open_)):
        t = open_[i]
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
    G: Array,
    W: Array,
    Q: Array,
    c: Array,
    energy: float,
    alpha: float,
    stop: Array,
    max_epochs: int,
) -> tuple[int, float, float]:
    """Run epochs with extrapolation until the gap is small enough.

    Returns
    -------
    epochs : int
    primal, dual : float
        Objective and dual objective at the end.
    """
    past = np.empty((2, DEPTH + 1, *W.shape))
    move = np.empty(W.shape[1])
    epochs = 0
    values = np.empty(2)
    while True:
        past[0, 0] = W
        past[1, 0] = Q
        n_allowed = min(DEPTH, max_epochs - epochs)
        done = _epochs(G, W, Q, c, energy, alpha, stop, past, move, values, n_allowed)
        epochs += abs(done)
        if done < DEPTH or epochs == max_epochs:
            return epochs, float(values[0]), float(values[1])
        # As in `descend_tasks`.
        weights = combination(past[0])
        new_W = _combined(weights, past[0])
        new_Q = _combined(weights, past[1])
        if _value(new_W, new_Q, c, alpha) < _value(W, Q, c, alpha):
            W[:] = new_W
            Q[:] = new_Q


@compiled
def _epochs(
    G: Array,
    W: Array,
    Q: Array,
    c: Array,
    energy: float,
    alpha: float,
    stop: Array,
    past: Array,
    move: Array,
    values: Array,
    max_epochs: int,
) -> int:
    """Minimize over each row in turn, in at most `max_epochs` epochs.

    Returns the number of epochs, with a minus sign if the gap is small enough or
    nothing moved. `values` receives the objective and the dual objective.
    """
    k, T = W.shape
    for epoch in range(1, max_epochs + 1):
        moved = False
        for j in range(k):
            curvature = G[j, j]
            if curvature <= 0.0:
                continue
            # In row w alone, the objective is curvature/2 |w|^2 - <move, w> + alpha
            # |w|: the minimizer is move, shortened by alpha, over the curvature.
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
            # Read numbers once, outside of the inner loops: the compiler has to assume
            # that Q and G overlap. With T = 1 there is no loop within the loop.
            if T == 1:
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
                past[0, epoch, j, t] = w
                past[1, epoch, j, t] = q
                size += q * q
                length += w * w
                along -= w * c[j, t]
                linear += w * q
            largest = max(largest, size)
            norms += np.sqrt(length)
        scale = 1.0
        if largest > 0.0:
            scale = min(1.0, alpha / np.sqrt(largest))
        # `along` is <B, R> = |B|^2 - <W, c>, `linear` is <A W, R>, their difference
        # |R|^2. The dual objective of a multiple s R is s <B, R> - s^2/2 |R|^2.
        square = along - linear
        values[0] = 0.5 * square + alpha * norms
        values[1] = scale * along - 0.5 * scale * scale * square
        if not moved or values[0] - values[1] <= max(stop[0], stop[1] * values[0]):
            return -epoch
    return max_epochs


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


def _combinations(past: Array) -> Array:
    """Return the weights (m, DEPTH) of iterates (m, DEPTH + 1, k) of m problems."""
    changes = np.diff(past, axis=1)
    M = changes @ changes.transpose(0, 2, 1)
    M += 1e-12 * np.trace(M, axis1=1, axis2=2)[:, None, None] * np.eye(DEPTH)
    try:
        weights = np.linalg.solve(M, np.ones((len(M), DEPTH, 1)))[:, :, 0]
    except np.linalg.LinAlgError:
        return np.array([combination(iterates) for iterates in past])
    total = weights.sum(axis=1, keepdims=True)
    usable = np.isfinite(total) & (total != 0.0)
    divisor = np.where(usable, total, 1.0)
    last_only = np.eye(DEPTH)[-1]
    return np.where(usable, weights / divisor, last_only)


def _values(W: Array, Q: Array, c: Array, alpha: float) -> Array:
    """Return `_value` for m problems of one column each, from arrays (m, k, 1)."""
    terms = alpha * np.abs(W) - 0.5 * W * (c + Q)
    return np.asarray(terms.sum(axis=(1, 2)))


def _combined(weights: Array, past: Array) -> Array:
    """Return the weighted sum of all iterates but the first."""
    iterates = past[1:].reshape(DEPTH, -1)
    return np.asarray(weights @ iterates).reshape(past.shape[1:])


def _value(W: Array, Q: Array, c: Array, alpha: float) -> float:
    """Return the objective less energy / 2, from Q = c - G W."""
    norms = np.sqrt(np.einsum("jt,jt->j", W, W)).sum()
    # 1/2 <W, G W> - <W, c> with G W = c - Q.
    return float(alpha * norms - 0.5 * np.vdot(W, c + Q))


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
    past_W = np.empty((DEPTH + 1, *W.shape))
    past_F = np.empty((DEPTH + 1, *F.shape))
    past_s = np.empty((DEPTH + 1, *s.shape))
    n_changes = 0
    for epoch in range(1, max_epochs + 1):
        if n_changes == 0:
            past_W[0] = W
            past_F[0] = F
            past_s[0] = s
        # The first and the last epoch before an extrapolation visit all rows.
        only_used = 0 < n_changes < DEPTH - 1
        has_moved = _sweep(*A, W, F, s, alpha, move, only_used)
        if not has_moved and not only_used:
            return epoch
        n_changes += 1
        past_W[n_changes] = W
        past_F[n_changes] = F
        past_s[n_changes] = s
        if n_changes < DEPTH:
            continue
        n_changes = 0
        weights = combination(past_W)
        new_W = _combined(weights, past_W)
        new_F = _combined(weights, past_F)
        new_s = _combined(weights, past_s)
        if _objective(A, new_W, new_F, new_s, alpha) < _objective(A, W, F, s, alpha):
            W[:] = new_W
            F[:] = new_F
            s[:] = new_s
        residual = F.T if by_task else F
        if _residual_gap(A, X, W, residual, s, alpha) <= target:
            return epoch
    return max_epochs


@compiled
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
        # step as in `_epochs`.
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
