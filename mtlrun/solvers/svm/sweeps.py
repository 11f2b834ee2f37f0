"""Compiled sweeps of dual coordinate ascent for graph-regularized SVMs.

Their certificate is here, too.

An *entry* is a pair (task, row), so that ragged data and a shared design look alike.
Task t has the entries ``offsets[t] .. offsets[t + 1] - 1``. With
v_t = sum_e alpha_e y_e x_e over the entries of task t, the coefficients are
w_t = sum_s M_ts v_s.

All functions work in place on `State`. They are compiled once for all losses, dense and
CSR designs, and once more for strings. numba does not notice changes of imported
functions: touch this file after editing `mtlrun.features.rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mtlrun.features.rows import (
    Rows,
    bounds,
    dense_add,
    dense_dot,
    expand,
    sparse_add,
    sparse_dot,
)
from mtlrun.utils.jit import compiled, inner

Array = np.ndarray

HINGE = 0
SQUARED_HINGE = 1
LOGISTIC = 2
_MAX_PASSES = 10


class Problem(NamedTuple):
    """The constants of a problem; arrays over entries have shape (E,).

    Attributes
    ----------
    rows : Rows
    loss : int
    offsets : ndarray of shape (T + 1,), int64
    task, row : ndarray of int32
        Of every entry.
    y, cap : ndarray
        Labels, and C times the weight of each entry; 0 leaves an entry out.
    curvature : ndarray
        Divisor of the step: M_tt ||x||^2, or the one of a variant.
    matrix : ndarray of shape (T, T)
        M; empty where `common` says it all.
    diagonal : ndarray of shape (T,)
        Diagonal of M.
    common : bool
        Whether M = a I + b 11' with ``b = share``.
    share : float
    mixing : ndarray of shape (T, R)
        The coefficients of an entry of task t are ``mixing[t] @ W`` for the matrix W
        (R, D) that a sweep changes: M for the rows of V, ones where W has the
        coefficients of the task at hand.
    gain : ndarray of shape (T,)
        By what a step along v_t moves them: 1, or M_tt.
    row_cost, entry_cost : float
        Mean number of non-zeros per row; what entering and leaving a task costs, in
        rows.
    """

    rows: Rows
    loss: int
    offsets: Array
    task: Array
    row: Array
    y: Array
    cap: Array
    curvature: Array
    matrix: Array
    diagonal: Array
    common: bool
    share: float
    mixing: Array
    gain: Array
    row_cost: float
    entry_cost: float


class State(NamedTuple):
    """The state that the sweeps change.

    Attributes
    ----------
    alpha : ndarray of shape (E,)
    V : ndarray of shape (T, D)
    total : ndarray of shape (D,)
        Sum of the rows of V; empty if there is one task.
    w : ndarray of shape (1, D)
        Coefficients of the task at hand; V itself if there is one task.
    rest : ndarray of shape (D,)
        The part that does not come from the task's own row of V; empty if there is one
        task.
    active : ndarray of shape (E,), int32
        The entries of each task, active ones first.
    n_active : ndarray of shape (T,), int64
    limits : ndarray of shape (3,)
        Entries at a bound are left out when their gradient is above the first or below
        the second. The third is the part of the extreme gradients that makes a limit: 1
        in LIBLINEAR, less leaves out more.
    random : ndarray of shape (1,), uint64
        State of the random generator, not 0.
    """

    alpha: Array
    V: Array
    total: Array
    w: Array
    rest: Array
    active: Array
    n_active: Array
    limits: Array
    random: Array


@inner
def random_below(random: Array, n: int) -> np.int64:
    """Return a random integer below n < 2^32 (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    # The upper half of x, as a fraction of 2^32, times n: no division, which is slow.
    upper_half = x >> np.uint64(32)
    return np.int64((upper_half * np.uint64(n)) >> np.uint64(32))


@inner
def _logistic_step(alpha: float, cap: float, z: float, q: float) -> float:
    """Return alpha = cap / (1 + exp(-u)) at the root u of a function.

    The function is u + z + q (cap / (1 + exp(-u)) - alpha).
    """
    # The function increases in u, and the fraction lies in (0, cap): the root is
    # between the values of u for both ends.
    low = -z - q * (cap - alpha)
    high = -z + q * alpha
    # Start at the u of the present alpha, which is the root after convergence.
    share = alpha / cap
    if 0.0 < share < 1.0:
        u = np.log(share / (1.0 - share))
    else:
        u = low
    if not low < u < high:
        u = 0.5 * (low + high)
    for _ in range(60):
        # exp(710) is infinite.
        p = 1.0 / (1.0 + np.exp(-u)) if u > -700.0 else 0.0
        h = u + z + q * (cap * p - alpha)
        if h > 0.0:
            high = u
        else:
            low = u
        # Newton's step, or a bisection where that leaves the bracket.
        slope = 1.0 + q * cap * p * (1.0 - p)
        new = u - h / slope
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - u) <= 1e-14 * (1.0 + abs(u)):
            break
        u = new
    if u > -700.0:
        return cap / (1.0 + np.exp(-u))
    return 0.0


@inner
def dual_step(
    loss: int,
    alpha: float,
    cap: float,
    z: float,
    q: float,
) -> tuple[float, float]:
    """Return the best value of one dual variable, and the present gradient.

    The gradient belongs to minus the dual.
    """
    if loss == HINGE:
        g = z - 1.0
        if q > 0.0:
            return min(max(alpha - g / q, 0.0), cap), g
        # A row of zeros: the dual is linear, and best at a bound.
        return (cap if g < 0.0 else alpha), g
    if loss == SQUARED_HINGE:
        # The conjugate of the loss adds alpha^2 / (4 cap) to minus the dual.
        g = z - 1.0 + alpha / (2.0 * cap)
        curvature = q + 1.0 / (2.0 * cap)
        return max(alpha - g / curvature, 0.0), g
    new = _logistic_step(alpha, cap, z, q)
    # A lower bound of the size of the gradient: it is 0 at `new`, and the conjugate of
    # the loss has a second derivative of at least 4 / cap. The logarithms of the gradient
    # itself are infinite at the bounds.
    return new, (alpha - new) * (q + 4.0 / cap)


@inner
def projected(loss: int, alpha: float, cap: float, g: float) -> float:
    """Return the gradient without what a bound stops."""
    if loss != LOGISTIC and alpha <= 0.0:
        return min(g, 0.0)
    if loss == HINGE and alpha >= cap:
        return max(g, 0.0)
    return g


@inner
def is_stuck(
    loss: int,
    alpha: float,
    cap: float,
    g: float,
    upper: float,
    lower: float,
) -> bool:
    """Return whether a variable is at a bound and likely to stay there."""
    if loss == LOGISTIC:
        return False
    return (alpha <= 0.0 and g > upper) or (
        loss == HINGE and alpha >= cap and g < lower
    )


@inner
def _enter(
    p: Problem,
    V: Array,
    total: Array,
    w: Array,
    rest: Array,
    t: int,
) -> None:
    """Set w and rest for task t."""
    matrix = p.matrix
    common = p.common
    share = p.share
    own_share = p.diagonal[t]
    # w_t = rest + M_tt v_t. Where all tasks are equally similar, the sum over tasks
    # stands for the others, and entering costs O(D); else it costs O(D) per neighbor.
    for j in range(len(rest)):
        rest[j] = share * (total[j] - V[t, j]) if common else 0.0
    for k in range(len(matrix)):
        if k != t and matrix[t, k] != 0.0:
            for j in range(len(rest)):
                rest[j] += matrix[t, k] * V[k, j]
    for j in range(len(rest)):
        w[0, j] = rest[j] + own_share * V[t, j]


@inner
def _leave(
    own_share: float,
    V: Array,
    total: Array,
    w: Array,
    rest: Array,
    t: int,
) -> None:
    """Take what w has gained back into V and total."""
    # `rest` stayed as it was: all changes of w belong to v_t.
    for j in range(len(rest)):
        new = (w[0, j] - rest[j]) / own_share
        total[j] += new - V[t, j]
        V[t, j] = new


@inner
def _visit(p: Problem, s: State, W: Array, active: Array, n: int, seen: Array) -> int:
    """Go once through the first n of some entries, in random order.

    Return how many stay active.

    `W` is changed (see `Problem.mixing`); `seen` collects extremes of gradients, visits
    and changes.
    """
    # Taken out of the tuples once: numba counts references each time.
    kind, bias, dense, values, columns, indptr, strings, buckets = p.rows
    _, loss, _, task, row, ys, caps, curvatures, _, _, _, _, mixing, gain, _, _ = p
    alphas, _, _, _, _, _, _, limits, random = s
    upper = limits[0]
    lower = limits[1]
    k = 0
    changes = 0
    top = -np.inf
    bottom = np.inf
    seen[2] += n
    while k < n:
        # A random one of the entries that are left moves to position k: each is visited
        # once, and the shuffled order stays for the next sweep.
        j = k + random_below(random, n - k)
        e = active[j]
        active[j] = active[k]
        active[k] = e
        i = row[e]
        t = task[e]
        low, high = bounds(kind, indptr, i)
        high += expand(strings, buckets, i, columns, values)
        # The margin y x'w_t. The last column of W belongs to the constant feature.
        z = 0.0
        for r in range(W.shape[0]):
            if mixing[t, r] != 0.0:
                part = dense_dot(dense, i, W, r) + sparse_dot(
                    columns, values, low, high, W, r
                )
                z += mixing[t, r] * (part + bias * W[r, -1])
        z *= ys[e]
        alpha = alphas[e]
        cap = caps[e]
        new, g = dual_step(loss, alpha, cap, z, curvatures[e])
        if is_stuck(loss, alpha, cap, g, upper, lower):
            # Behind the active entries, until `certify` looks at all of them again.
            n -= 1
            active[k] = active[n]
            active[n] = e
            continue
        g = projected(loss, alpha, cap, g)
        top = max(top, g)
        bottom = min(bottom, g)
        if new != alpha:
            alphas[e] = new
            step = gain[t] * (new - alpha) * ys[e]
            r = t if W.shape[0] > 1 else 0
            dense_add(dense, i, step, W, r)
            sparse_add(columns, values, low, high, step, W, r)
            W[r, -1] += step * bias
            changes += 1
        k += 1
    seen[0] = top
    seen[1] = bottom
    seen[3] += changes
    return n


@inner
def _set_limits(limits: Array, high: float, low: float) -> None:
    """Set the limits of the next sweep.

    They are the extremes of the projected gradients of this one.
    """
    # An extreme of the wrong sign leaves out nothing.
    limits[0] = limits[2] * high if high > 0.0 else np.inf
    limits[1] = limits[2] * low if low < 0.0 else -np.inf


def block_sweeps(
    p: Problem,
    s: State,
    eps: float,
    max_work: float,
) -> tuple[float, float, float]:
    """Sweep over the tasks in random order, in O(nnz) per row.

    The coefficients of the present task are kept.

    Returns
    -------
    spread : float
        Largest minus smallest projected gradient of the last sweep; at most `eps` when
        that is why it ended.
    work : float
        Rows visited, and rows that could have been visited while tasks were entered.
    changes : float
        Variables changed.
    """
    # Arrays of numpy: compiled code would have to compile how they are made.
    order = np.arange(len(p.diagonal))
    seen = np.zeros(4)
    spread = _block_sweeps(p, s, order, seen, eps, max_work)
    return spread, seen[2], seen[3]


@compiled
def _block_sweeps(
    p: Problem, s: State, order: Array, seen: Array, eps: float, max_work: float
) -> float:
    offsets = p.offsets
    own_share = p.diagonal
    entry_cost = p.entry_cost
    _, V, total, w, rest, entries, n_active, limits, random = s
    # No task was entered yet.
    here = len(order)
    spread = np.inf
    while seen[2] < max_work:
        high = -np.inf
        low = np.inf
        for k in range(len(order)):
            j = k + random_below(random, len(order) - k)
            t = order[j]
            order[j] = order[k]
            order[k] = t
            if n_active[t] == 0:
                continue
            if t != here:
                if here < len(order):
                    _leave(own_share[here], V, total, w, rest, here)
                _enter(p, V, total, w, rest, t)
                here = t
                seen[2] += entry_cost
            # More than once where entering would dominate.
            for visit in range(min(_MAX_PASSES, 1 + int(entry_cost / n_active[t]))):
                active = entries[offsets[t] : offsets[t + 1]]
                n_active[t] = _visit(p, s, w, active, n_active[t], seen)
                # The spread of a sweep is that of the gradients before repeated passes.
                if visit == 0:
                    high = max(high, seen[0])
                    low = min(low, seen[1])
                if seen[0] - seen[1] <= eps:
                    break
        spread = high - low
        _set_limits(limits, high, low)
        if spread <= eps:
            break
    if here < len(order):
        _leave(own_share[here], V, total, w, rest, here)
    return spread


def example_sweeps(
    p: Problem,
    s: State,
    eps: float,
    max_work: float,
) -> tuple[float, float, float]:
    """Sweep over the active entries of all tasks in one random order.

    Parameters and results are as in `block_sweeps`.
    """
    entries = np.concatenate(
        [s.active[a : a + n] for a, n in zip(p.offsets[:-1], s.n_active, strict=True)]
    )
    seen = np.zeros(4)
    spread = _example_sweeps(p, s, entries, seen, eps, max_work)
    s.total[:] = s.V.sum(axis=0) if len(s.total) else 0.0
    return spread, seen[2], seen[3]


@compiled
def _example_sweeps(
    p: Problem, s: State, entries: Array, seen: Array, eps: float, max_work: float
) -> float:
    n = len(entries)
    spread = np.inf if n else -np.inf
    while seen[2] < max_work and n > 0:
        # No task is entered: each visit mixes the rows of V itself.
        n = _visit(p, s, s.V, entries, n, seen)
        spread = seen[0] - seen[1]
        _set_limits(s.limits, seen[0], seen[1])
        if spread <= eps:
            break
    return spread


@inner
def _loss_and_gap(loss: int, alpha: float, cap: float, z: float) -> tuple[float, float]:
    """Return C l(z) and C l(z) + C l*(-alpha / C) + alpha z.

    They are not negative, and computed without cancellation.
    """
    h = max(0.0, 1.0 - z)
    if loss == HINGE:
        # cap h - alpha + alpha z, where z = 1 - h if h is positive.
        return cap * h, ((cap - alpha) * h if h > 0.0 else alpha * (z - 1.0))
    if loss == SQUARED_HINGE:
        # cap h^2 + alpha^2 / (4 cap) - alpha + alpha z, a square if h is positive.
        d = h - alpha / (2.0 * cap)
        if h > 0.0:
            return cap * h * h, cap * d * d
        return 0.0, alpha * alpha / (4.0 * cap) + alpha * (z - 1.0)
    a = alpha / cap
    # log(1 + exp(-z)) and log(1 + exp(z)), minus the logarithms of the probabilities of
    # error and success
    up = np.log1p(np.exp(-abs(z)))
    wrong = up + max(z, 0.0)
    right = up + max(-z, 0.0)
    # The relative entropy of a and the probability of an error; 0 log 0 is 0.
    gap = 0.0
    if a > 0.0:
        gap += a * (np.log(a) + wrong)
    if a < 1.0:
        gap += (1.0 - a) * (np.log1p(-a) + right)
    return cap * right, max(cap * gap, 0.0)


def rebuild(p: Problem, s: State) -> None:
    """Compute V and total from alpha, free of the rounding that steps leave behind."""
    s.V[:] = 0.0
    _add_rows(p, s.alpha, s.V)
    s.total[:] = s.V.sum(axis=0) if len(s.total) else 0.0


@compiled
def _add_rows(p: Problem, alphas: Array, V: Array) -> None:
    kind, bias, dense, values, columns, indptr, strings, buckets = p.rows
    offsets = p.offsets
    row = p.row
    ys = p.y
    for t in range(len(V)):
        for e in range(offsets[t], offsets[t + 1]):
            if alphas[e] != 0.0:
                i = row[e]
                low, high = bounds(kind, indptr, i)
                high += expand(strings, buckets, i, columns, values)
                step = alphas[e] * ys[e]
                dense_add(dense, i, step, V, t)
                sparse_add(columns, values, low, high, step, V, t)
                V[t, -1] += step * bias


@compiled
def certify(p: Problem, s: State) -> tuple[float, float]:
    """Compute the primal value and the duality gap, and choose the active entries.

    Entries at a bound whose gradient is beyond `limits` are left out; all others, those
    wrongly left out before included, become active.

    Returns
    -------
    primal : float
        Value at the coefficients that belong to alpha.
    gap : float
        Primal minus dual value, as a sum of non-negative terms.
    """

    kind, bias, dense, values, columns, indptr, strings, buckets = p.rows
    _, loss, offsets, _, row, ys, caps, _, _, _, _, _, _, _, _, _ = p
    alphas, V, total, w, rest, active, n_active, limits, _ = s
    upper = limits[0]
    lower = limits[1]
    gap = 0.0
    losses = 0.0
    penalty = 0.0
    # The row of w: a constant 0 has another type, for which numba compiles once more.
    only = len(w) - 1
    # Without steps so far, all margins are 0.
    flat = True
    for alpha in alphas:
        if alpha != 0.0:
            flat = False
            break
    # The penalty is 1/2 sum_t v_t'w_t.
    for t in range(len(n_active)):
        _enter(p, V, total, w, rest, t)
        for j in range(V.shape[1]):
            penalty += V[t, j] * w[0, j]
        n = offsets[t]
        for e in range(offsets[t], offsets[t + 1]):
            alpha = alphas[e]
            cap = caps[e]
            if cap <= 0.0:
                continue
            i = row[e]
            z = 0.0
            if not flat:
                low, high = bounds(kind, indptr, i)
                high += expand(strings, buckets, i, columns, values)
                z = dense_dot(dense, i, w, only) + sparse_dot(
                    columns, values, low, high, w, only
                )
                z = ys[e] * (z + bias * w[0, -1])
            value, excess = _loss_and_gap(loss, alpha, cap, z)
            losses += value
            gap += excess
            g = z - 1.0
            if loss == SQUARED_HINGE:
                g += alpha / (2.0 * cap)
            if not is_stuck(loss, alpha, cap, g, upper, lower):
                active[n] = e
                n += 1
        n_active[t] = n - offsets[t]
    return 0.5 * penalty + losses, gap
