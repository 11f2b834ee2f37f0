"""SVMs with the multi-task kernel.

There are kernel matrices, LIBSVM, certificates, optima, and a solver without an
intercept.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lstsq
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from mtlrun.features.dna import StringDesign
from mtlrun.features.rows import make_rows, squared_norms
from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.result import Callback, SolverResult, Tracker
from mtlrun.problem.taskdata import Array, Design
from mtlrun.utils.jit import comparing, compiled, inner

#: Megabytes for rows of a kernel matrix that are made when they are needed.
CACHE_MB = 200.0
# Rows with more non-zeros than that make LIBSVM's own products of rows slower than a
# matrix made beforehand.
_FEW_ENTRIES = 32
# Changes of the set of free support vectors that `polish` solves for, and margins that
# count as violated.
_ROUNDS = 60
_SLACK = 1e-10


def kernel_bytes(n: int) -> float:
    """Return the memory that a run with the kernel matrix of n rows takes."""
    return 8.0 * float(n) ** 2 * 1.1


def matrix_pays(entries: float) -> bool:
    """Return whether a kernel matrix is faster than LIBSVM's products of rows.

    The matrix must fit into memory. The rows have this many non-zeros.
    """
    return entries > _FEW_ENTRIES


def augmented_features(designs: Sequence[Any], coupling: TaskCoupling) -> Any:
    """Return rows F_t x (a Kronecker product) with F F' = M.

    Their linear kernel is the multi-task kernel.

    Parameters
    ----------
    designs : list of ndarray, csr_array or StringDesign of shape (n_t, d)
    coupling : TaskCoupling

    Returns
    -------
    csr_array of shape (N, r * d), or of the columns that have entries where these are
    too many
        With two copies of each row when all tasks are equally similar.
    """
    F = coupling.factor()
    blocks = [
        sp.kron(F[[t]], sp.csr_array(stored(X)), format="csr")
        for t, X in enumerate(designs)
    ]
    Z = sp.csr_array(sp.vstack(blocks, format="csr"))
    n_rows, n_columns = Z.shape
    if n_columns > np.iinfo(np.int32).max:
        # LIBSVM counts in 32 bits, and columns without entries change no product.
        used, columns = np.unique(Z.indices, return_inverse=True)
        Z = sp.csr_array((Z.data, columns, Z.indptr), shape=(n_rows, len(used)))
    Z.indices = Z.indices.astype(np.int32)
    Z.indptr = Z.indptr.astype(np.int32)
    return Z


def stored(X: Design) -> Any:
    """Return a design as an array or a sparse matrix.

    The features of strings are written out.
    """
    if isinstance(X, StringDesign):
        return X.tocsr()
    return X


def _owners(designs: Sequence[Any]) -> Array:
    """Return the task of each row."""
    return np.repeat(np.arange(len(designs)), [X.shape[0] for X in designs])


def kernel_matrix(designs: Sequence[Any], coupling: TaskCoupling) -> Array:
    """Return ``M_st x'x`` of all pairs of rows as a dense matrix.

    It takes one product of matrices, or one pass over pairs of strings.

    Parameters
    ----------
    designs : list of ndarray, csr_array or StringDesign of shape (n_t, d)
    coupling : TaskCoupling
    """
    owner = _owners(designs)
    # K-mers that share a bucket have other inner products.
    if all(isinstance(X, StringDesign) and X.buckets == 0 for X in designs):
        K = StringDesign.stack(designs).kernel()
    else:
        X = [stored(X) for X in designs]
        if not sp.issparse(X[0]):
            rows = np.vstack(X)
            K = rows @ rows.T
        else:
            rows = sp.csr_array(sp.vstack(X, format="csr"))
            n_rows, n_columns = rows.shape
            if n_columns <= n_rows:
                # No larger than the result, and products of dense matrices are faster.
                dense = rows.toarray()
                K = dense @ dense.T
            else:
                K = (rows @ rows.T).toarray()
    # Row x of task s and row z of task t: M_st x'z.
    for t, M in enumerate(coupling.matrix):
        start, stop = np.searchsorted(owner, [t, t + 1])
        K[start:stop] *= M[owner]
    return K


def run_libsvm(
    Z: Array | sp.csr_array,
    y: Array,
    cost: Array,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = CACHE_MB,
) -> tuple[Array, float, int, bool]:
    """Return dual variables, intercept, steps, and whether LIBSVM converged.

    Parameters
    ----------
    Z : ndarray of shape (n, n) or csr_array of shape (n, r)
        Kernel matrix, or rows whose inner products are the kernel.
    y, cost : ndarray of shape (n,)
    tol : float, default 1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default -1
        Steps; -1 for no limit.
    cache_size : float, default 200
        Megabytes.
    """
    kernel = "linear" if sp.issparse(Z) else "precomputed"
    # The weights of the rows are their costs.
    model = SVC(
        C=1.0,
        kernel=kernel,
        tol=tol,
        max_iter=max_iter,
        cache_size=cache_size,
    )
    with warnings.catch_warnings():
        # Whoever calls says more.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Z, y, sample_weight=cost)
    alpha = np.zeros(len(y))
    dual = model.dual_coef_
    if sp.issparse(dual):
        dual = dual.toarray()
    # LIBSVM's coefficients are alpha_i y_i.
    alpha[model.support_] = np.abs(dual.ravel())
    n_iter = int(np.max(model.n_iter_))
    done = model.fit_status_ == 0
    return alpha, float(model.intercept_[0]), n_iter, done


@dataclass(frozen=True)
class KernelPoint:
    """Dual variables and what follows from them.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
    intercept : float
    W : ndarray of shape (n_tasks, d)
    margins : ndarray of shape (n,)
    primal, gap : float
        The gap is a sum of non-negative terms, valid for dual variables whose sum over
        the labels is 0 (any, without intercept).
    """

    alpha: Array
    intercept: float
    W: Array
    margins: Array
    primal: float
    gap: float

    @property
    def dual(self) -> float:
        """Value of the dual."""
        return self.primal - self.gap


def certify_kernel(
    designs: Sequence[Any],
    coupling: TaskCoupling,
    y: Array,
    cost: Array,
    alpha: Array,
    b: float,
) -> KernelPoint:
    """Return coefficients, objective and duality gap of dual variables.

    The designs are arrays or sparse.
    """
    ends = np.cumsum([X.shape[0] for X in designs])
    dual_by_task = np.split(alpha * y, ends[:-1])
    V = np.stack([X.T @ a for X, a in zip(designs, dual_by_task, strict=True)])
    W = coupling.apply(V)
    scores = [X @ w for X, w in zip(designs, W, strict=True)]
    z = y * (np.concatenate(scores) + b)
    h = np.maximum(0.0, 1.0 - z)
    penalty = 0.5 * float(np.sum(V * W))
    primal = penalty + float(cost @ h)
    # cost h - alpha + alpha z by row, without cancellation: see `_loss_and_gap` in
    # sweeps.py. The intercept adds nothing if alpha sums to 0 over the labels.
    terms = np.where(h > 0, (cost - alpha) * h, alpha * (z - 1.0))
    gap = float(np.sum(terms)) - b * float(alpha @ y)
    return KernelPoint(alpha, b, W, z, primal, gap)


def polish(
    designs: Sequence[Any],
    coupling: TaskCoupling,
    y: Array,
    cost: Array,
    alpha: Array,
    *,
    fit_intercept: bool = True,
    max_free: int = 4000,
) -> KernelPoint | None:
    """Return the optimum to floating-point accuracy.

    An active-set method starts at `alpha`.

    The support vectors off their bounds have margins of exactly 1, and with intercept
    the dual variables sum to 0 over the labels: one system of equations. Variables that
    leave their bounds, and rows whose margins are on the wrong side of 1, are moved,
    until there are none. Returns the best point on the way, None if there is none that
    is feasible.

    Parameters
    ----------
    designs, coupling, y, cost
        As of `certify_kernel`.
    alpha : ndarray of shape (n,)
        Near the optimum.
    fit_intercept : bool, default True
    max_free : int, default 4000
        Support vectors off their bounds that are solved for.
    """
    owner = _owners(designs)
    if sp.issparse(designs[0]):
        rows = sp.vstack(designs, format="csr")
    else:
        rows = np.concatenate(designs)
    low = alpha <= 1e-9 * cost
    high = alpha >= (1 - 1e-9) * cost
    best = None
    for _ in range(_ROUNDS):
        free = np.flatnonzero(~(low | high))
        if len(free) > max_free or (fit_intercept and not len(free)):
            break
        polished = np.where(high, cost, 0.0)
        b = 0.0
        labels = y[free]
        if len(free):
            products = rows[free] @ rows[free].T
            if sp.issparse(products):
                products = products.toarray()
            system = coupling.part(owner[free]) * products * np.outer(labels, labels)
            # The margins that the variables at their upper bounds leave to be made.
            bounded = certify_kernel(designs, coupling, y, cost, polished, 0.0)
            right = 1.0 - bounded.margins[free]
            if fit_intercept:
                system = np.block([[system, labels[:, None]], [labels, np.zeros(1)]])
                right = np.append(right, -float(polished @ y))
            # The system is singular where support vectors are dependent.
            solved, *_ = lstsq(system, right, check_finite=False)
            polished[free] = solved[: len(free)]
            b = float(solved[-1]) if fit_intercept else 0.0
        below = polished < 0
        above = polished > cost
        point = certify_kernel(
            designs,
            coupling,
            y,
            cost,
            np.clip(polished, 0.0, cost),
            b,
        )
        imbalance = abs(float(point.alpha @ y))
        feasible = not fit_intercept or imbalance <= 1e-9 * float(cost.max())
        if feasible and (best is None or abs(point.gap) < abs(best.gap)):
            best = point
        # At the lower bound margins must be at least 1, at the upper one at most 1.
        wrong_low = low & (point.margins < 1 - _SLACK)
        wrong_high = high & (point.margins > 1 + _SLACK)
        wrong = wrong_low | wrong_high
        if not (below.any() or above.any() or wrong.any()):
            break
        low = (low & ~wrong) | below
        high = (high & ~wrong) | above
    return best


# ------------------------------------------------ without an intercept
#
# The dual variables are then tied by nothing but their bounds, so that a step can move
# a single one. The gradient of all variables is kept. In turn, variables that are free
# or violate the optimality conditions most are chosen; with the kernel matrix of these
# few, the one whose exact step gains most is moved, again and again; then rows of the
# kernel, made when needed and kept in a cache, bring the gradient of all others up to
# date.

# Rows whose largest gain is noted together.
_BLOCK = 64
# Up to this many features, computing a row of the kernel is faster than reading it from
# memory.
_NARROW = 16
# A part has twice as many variables as are free, within these bounds.
_LEAST = 1000
_MOST = 4000
# Without parts, steps pause this often per variable.
_PAUSE = 4
# A part is left after this many steps per variable, or when its largest violation has
# fallen by this factor.
_VISITS = 100
_FALL = 0.1


class _Kernel(NamedTuple):
    """Rows of the kernel with the labels multiplied in and a diagonal of ones.

    Attributes
    ----------
    full_matrix : ndarray of shape (n, n)
        The matrix, or empty: then rows are made of features.
    dense : ndarray of shape (d, n)
        Features of a dense design, columns times label over the root of the diagonal;
        else empty.
    values, columns, indptr : ndarray
        The same of a sparse design, row by row.
    down, places, starts : ndarray
        The same, feature by feature.
    offsets : ndarray of shape (T + 1,)
        First row of each task.
    owner : ndarray of shape (n,)
    mixing : ndarray of shape (T, T)
        M, or empty when it is `share` off its diagonal `diagonal`.
    diagonal, share : float
    """

    full_matrix: Array
    dense: Array
    values: Array
    columns: Array
    indptr: Array
    down: Array
    places: Array
    starts: Array
    offsets: Array
    owner: Array
    mixing: Array
    diagonal: float
    share: float


class _Cache(NamedTuple):
    """Rows of the kernel that were made last.

    Attributes
    ----------
    rows : ndarray of shape (slots, n)
    slot : ndarray of shape (n,)
        Where a row is, or -1.
    holds, used : ndarray of shape (slots,)
        Which row a place holds, or -1, and when it was used last.
    clock : ndarray of shape (1,)
    """

    rows: Array
    slot: Array
    holds: Array
    used: Array
    clock: Array


@dataclass
class _State:
    """Variables and gradient of shape (n,).

    Their units are such that the diagonal of the kernel is 1.
    """

    alpha: Array
    cap: Array
    gradient: Array
    root: Array

    @property
    def free(self) -> Array:
        """Which variables are strictly between their bounds."""
        return (self.alpha > 0) & (self.alpha < self.cap)

    def wrong(self) -> Array:
        """Return the gradient where a step along it is possible, else 0."""
        stuck_low = (self.gradient > 0) & (self.alpha <= 0)
        stuck_high = (self.gradient < 0) & (self.alpha >= self.cap)
        return np.where(stuck_low | stuck_high, 0.0, self.gradient)

    def judge(self) -> tuple[float, float, float]:
        """Return the primal value, the duality gap and the largest violation.

        The gap is a sum of non-negative terms.
        """
        # The gradient is K alpha - 1 / root, the margin minus 1 in these units.
        missed = np.maximum(0.0, -self.gradient)
        image = self.gradient + 1.0 / self.root
        primal = 0.5 * float(self.alpha @ image) + float(self.cap @ missed)
        room = self.cap - self.alpha
        terms = np.where(missed > 0, room * missed, self.alpha * self.gradient)
        return primal, float(terms.sum()), self.violation

    @property
    def violation(self) -> float:
        """Largest violation of the optimality conditions, in units of margins."""
        return float(np.max(np.abs(self.wrong()) * self.root, initial=0.0))


def solve_without_intercept(
    designs: Sequence[Any],
    coupling: TaskCoupling,
    y: Array,
    cost: Array,
    *,
    tol: float = 1e-3,
    gap: float = 0.0,
    max_iter: int = 1_000_000,
    precompute: bool = True,
    cache_size: float = CACHE_MB,
    callback: Callback | None = None,
) -> SolverResult:
    """Fit an SVM with the multi-task kernel by greedy steps in its dual.

    The objective is ``1/2 tr(W M^{-1} W') + sum_i cost_i max(0, 1 - y_i x_i'w_t(i))``.

    Parameters
    ----------
    designs : list of ndarray, csr_array or StringDesign of shape (n_t, d)
    coupling : TaskCoupling
    y : ndarray of shape (N,)
        Labels -1 and +1, task by task.
    cost : ndarray of shape (N,)
        At least 0.
    tol : float, default 1e-3
        Largest violation of the optimality conditions to stop at.
    gap : float, default 0.0
        Relative duality gap to stop at, if that comes first.
    max_iter : int, default 1,000,000
        Steps.
    precompute : bool, default True
        Make the kernel matrix beforehand, by products of matrices, in 8 N^2 bytes; else
        rows when they are needed.
    cache_size : float, default 200
        Megabytes for rows made when needed; of more than 16 dense features: fewer are
        faster made again.
    callback : callable, optional
        Called with (iteration, primal, dual) after every twentieth part of the steps;
        stops the run by returning True.

    Returns
    -------
    SolverResult
        ``info``: ``alpha`` (N,), ``violation``, and ``seconds`` of the certificates
        since the call, including the time of the kernel. Before a run counts as
        converged, the gradient is computed again, without the rounding of the steps.

    Raises
    ------
    ValueError
        If `gap` is negative or `max_iter` below 1.

    References
    ----------
    Steinwart, Hush and Scovel, Training SVMs without offset, Journal of Machine
    Learning Research, 2011, for single variables and their choice by gain.
    """
    tracker = Tracker(gap, max_iter, callback, null=float(cost.sum()))
    owner = _owners(designs)
    squares = np.concatenate([_norms(X) for X in designs])
    diagonal = coupling.diagonal[owner] * squares
    # A row of zeros cannot be classified: its variable is at its bound.
    alpha = np.where(diagonal > 0, 0.0, cost)
    rest = float(alpha.sum())
    used = (diagonal > 0) & (cost > 0)
    ends = np.cumsum([X.shape[0] for X in designs])
    used_by_task = np.split(used, ends[:-1])
    parts = [X[rows] for X, rows in zip(designs, used_by_task, strict=True)]
    # Variables times the root: the kernel has a diagonal of ones, and the step of a
    # variable is minus its gradient.
    root = np.sqrt(diagonal[used])
    kernel = _make_kernel(parts, coupling, owner[used], y[used] / root, precompute)
    cache = _make_cache(kernel, len(root), cache_size)
    state = _State(np.zeros(len(root)), cost[used] * root, -1.0 / root, root)
    done = 0
    fresh = True
    stalled = False
    while True:
        primal, excess, violation = state.judge()
        primal += rest
        near = violation <= tol or tracker.relative(primal, excess) <= gap or stalled
        # The steps leave rounding in the gradient: a run ends on a fresh one only.
        if near and not fresh:
            state.gradient = -1.0 / root
            _update(kernel, cache, state.gradient, state.alpha)
            fresh = True
            stalled = False
            continue
        tracker.exhausted = violation <= tol or stalled
        if tracker.check_gap(done, primal, excess):
            break
        steps, stalled = _improve(kernel, cache, state, coupling, max_iter - done)
        done = done + steps
        fresh = steps == 0
    # Back to the units of alpha; rounding must not move it off its bound.
    used_cost = cost[used]
    rescaled = np.minimum(state.alpha / root, used_cost)
    alpha[used] = np.where(state.alpha >= state.cap, used_cost, rescaled)
    stored_designs = [stored(X) for X in designs]
    point = certify_kernel(stored_designs, coupling, y, cost, alpha, 0.0)
    result = tracker.result(
        point.W.T[np.newaxis],
        np.zeros(len(designs)),
        alpha=alpha,
        seconds=tracker.seconds,
        violation=violation,
    )
    if violation <= tol:
        result.message = f"largest violation {violation:.2e} <= tol {tol:g}"
    result.converged = result.converged or violation <= tol or stalled
    return result


def greedy_bytes(n: int) -> float:
    """Return the bytes for n variables besides the kernel.

    They are for a part of the variables, and for the cache.
    """
    part_bytes = 3 * 8.0 * min(n, _MOST) ** 2
    cache_bytes = min(8.0 * float(n) ** 2, CACHE_MB * 2**20)
    return part_bytes + cache_bytes


def _norms(X: Design) -> Array:
    """Return the squared norms of the rows."""
    out = np.empty(X.shape[0])
    squared_norms(make_rows(X), out, np.zeros((1, X.shape[1])))
    return out


def _make_kernel(
    designs: Sequence[Any],
    coupling: TaskCoupling,
    owner: Array,
    factor: Array,
    precompute: bool,
) -> _Kernel:
    """Return the kernel of rows that are multiplied by their factors."""
    flat = np.empty(0)
    count = np.zeros(1, dtype=np.int64)
    matrix = np.empty((0, 0))
    dense = np.empty((0, 0))
    by_row = by_feature = (flat, np.empty(0, dtype=np.int32), count)
    if precompute:
        matrix = kernel_matrix(designs, coupling)
        matrix *= factor
        matrix *= factor[:, np.newaxis]
    elif isinstance(designs[0], np.ndarray):
        dense = np.ascontiguousarray(np.concatenate(designs).T)
        dense *= factor
    else:
        rows = sp.csr_array(sp.vstack([stored(X) for X in designs], format="csr"))
        rows.data = rows.data * np.repeat(factor, np.diff(rows.indptr))
        by_row = _arrays(rows)
        by_feature = _arrays(rows.tocsc())
    offsets = np.searchsorted(owner, np.arange(len(designs) + 1))
    mixing = np.empty((0, 0))
    diagonal = 1.0
    share = 0.0
    if coupling.common is None:
        mixing = np.require(coupling.matrix, np.float64, ["C", "A", "W"])
    else:
        diagonal = sum(coupling.common)
        share = coupling.common[1]
    return _Kernel(
        matrix,
        dense,
        *by_row,
        *by_feature,
        offsets,
        owner,
        mixing,
        float(diagonal),
        float(share),
    )


def _arrays(X: Design) -> tuple[Array, Array, Array]:
    return (
        X.data,
        X.indices.astype(np.int32, copy=False),
        X.indptr.astype(np.int64, copy=False),
    )


def _make_cache(kernel: _Kernel, n: int, megabytes: float) -> _Cache:
    """Return an empty cache; one of a single row where rows are made fast."""
    slots = 1
    if not kernel.full_matrix.size and not 0 < len(kernel.dense) <= _NARROW:
        slots = max(1, min(n, int(megabytes * 2**20 / (8 * max(n, 1)))))
    times = np.zeros(slots, dtype=np.int64)
    clock = np.zeros(1, dtype=np.int64)
    return _Cache(
        np.empty((slots, n)),
        np.full(n, -1),
        np.full(slots, -1),
        times,
        clock,
    )


def _improve(
    kernel: _Kernel,
    cache: _Cache,
    s: _State,
    coupling: TaskCoupling,
    max_steps: int,
) -> tuple[int, bool]:
    """Solve for a part of the variables.

    Return the number of steps, and whether none changes anything any more.
    """
    n = len(s.alpha)
    free = int(s.free.sum())
    if 2 * free > _MOST:
        # No part can hold the free variables: take steps among all variables, each with
        # a row of the kernel.
        limit = _FALL * s.violation / s.root
        before = s.alpha.copy()
        n_until_pause = -(-n // _PAUSE)
        steps = _climb(
            kernel,
            cache,
            s.gradient,
            s.alpha,
            s.cap,
            limit,
            min(n_until_pause, max_steps),
        )
        return steps, np.array_equal(before, s.alpha)
    size = max(_LEAST, 2 * free)
    chosen = _choose(s, min(size, n))
    alpha = s.alpha[chosen].copy()
    cap = s.cap[chosen]
    gradient = s.gradient[chosen].copy()
    wanted = min(_VISITS * len(chosen), max_steps)
    root = s.root[chosen]
    violations = np.abs(s.wrong()[chosen]) * root
    largest = float(np.max(violations, initial=0.0))
    limit = _FALL * largest / root
    if len(kernel.dense):
        columns = kernel.dense[:, chosen]
        matrix = coupling.part(kernel.owner[chosen]) * (columns.T @ columns)
    else:
        matrix = np.empty((len(chosen), len(chosen)))
        _gather(kernel, cache, chosen, matrix)
    part = kernel._replace(full_matrix=matrix)
    steps = _climb(part, cache, gradient, alpha, cap, limit, wanted)
    change = np.zeros(n)
    change[chosen] = alpha - s.alpha[chosen]
    s.alpha[chosen] = alpha
    _update(kernel, cache, s.gradient, change)
    return steps, not change.any()


def _choose(s: _State, size: int) -> Array:
    """Return the variables of the next part.

    They are the free ones, and those whose steps gain most.
    """
    # The gain of the exact step of a single variable, with a curvature of 1.
    moved = np.clip(s.alpha - s.gradient, 0.0, s.cap) - s.alpha
    gain = -moved * (s.gradient + 0.5 * moved)
    first = np.where(s.free, np.inf, gain)
    chosen = np.sort(np.argpartition(-first, size - 1)[:size])
    return chosen[first[chosen] > 0]


@comparing
def _move(
    gradient: Array,
    alpha: Array,
    cap: Array,
    step: float,
    row: Array,
    best: Array,
) -> None:
    """Add a multiple of a row to the gradient.

    Record the largest gain of a step in each block.
    """
    for k in range(len(best)):
        top = 0.0
        for j in range(k * _BLOCK, min(len(gradient), (k + 1) * _BLOCK)):
            slope = gradient[j] + step * row[j]
            gradient[j] = slope
            moved = min(max(alpha[j] - slope, 0.0), cap[j]) - alpha[j]
            top = max(top, -moved * (slope + 0.5 * moved))
        best[k] = top


@inner
def _find(gradient: Array, alpha: Array, cap: Array, best: Array) -> tuple[int, float]:
    """Return the variable whose step gains most and the step; -1 if none gains."""
    block = -1
    top = 0.0
    for k in range(len(best)):
        if best[k] > top:
            block = k
            top = best[k]
    index = -1
    step = 0.0
    top = 0.0
    if block >= 0:
        for j in range(block * _BLOCK, min(len(gradient), (block + 1) * _BLOCK)):
            moved = min(max(alpha[j] - gradient[j], 0.0), cap[j]) - alpha[j]
            gain = -moved * (gradient[j] + 0.5 * moved)
            if gain > top:
                index = j
                step = moved
                top = gain
    return index, step


@inner
def _row(kernel: _Kernel, s: _Cache, i: int) -> Array:
    """Return a row of the kernel, from the cache or computed.

    A computed row replaces the least recently used one.
    """
    (
        full_matrix,
        dense,
        values,
        columns,
        indptr,
        down,
        places,
        starts,
        offsets,
        owner,
        mixing,
        diagonal,
        share,
    ) = kernel
    if len(full_matrix):
        return full_matrix[i]
    s.clock[0] += 1
    position = s.slot[i]
    if position < 0:
        position = np.argmin(s.used)
        if s.holds[position] >= 0:
            s.slot[s.holds[position]] = -1
        s.slot[i] = position
        s.holds[position] = i
        out = s.rows[position]
        if len(dense):
            np.dot(dense[:, i].copy(), dense, out)
        else:
            out[:] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                value = values[e]
                for k in range(starts[columns[e]], starts[columns[e] + 1]):
                    out[places[k]] += value * down[k]
        t = owner[i]
        for u in range(len(offsets) - 1):
            if len(mixing):
                mixed = mixing[t, u]
            elif t == u:
                mixed = diagonal
            else:
                mixed = share
            for j in range(offsets[u], offsets[u + 1]):
                out[j] *= mixed
    s.used[position] = s.clock[0]
    return s.rows[position]


@compiled
def _climb(
    kernel: _Kernel,
    cache: _Cache,
    gradient: Array,
    alpha: Array,
    cap: Array,
    limit: Array,
    steps: int,
) -> int:
    """Take steps until no entry of the gradient is above its limit; return how many.

    Only entries that a step can follow count.
    """
    best = np.zeros((len(alpha) + _BLOCK - 1) // _BLOCK)
    _move(gradient, alpha, cap, 0.0, gradient, best)
    for done in range(steps):
        i, step = _find(gradient, alpha, cap, best)
        if i < 0 or alpha[i] + step == alpha[i]:
            return done
        if abs(gradient[i]) <= limit[i]:
            is_calm = True
            for j in range(len(alpha)):
                g = gradient[j]
                if abs(g) > limit[j] and (
                    (g < 0.0 and alpha[j] < cap[j]) or (g > 0.0 and alpha[j] > 0.0)
                ):
                    is_calm = False
                    break
            if is_calm:
                return done
        row = _row(kernel, cache, i)
        alpha[i] += step
        _move(gradient, alpha, cap, step, row, best)
    return steps


@compiled
def _gather(kernel: _Kernel, cache: _Cache, chosen: Array, matrix: Array) -> None:
    """Write the kernel matrix of some rows."""
    for a in range(len(chosen)):
        row = _row(kernel, cache, chosen[a])
        for b in range(len(chosen)):
            matrix[a, b] = row[chosen[b]]


@compiled
def _update(kernel: _Kernel, cache: _Cache, gradient: Array, change: Array) -> None:
    """Add what changed variables change in the gradient."""
    for i in range(len(change)):
        if change[i] != 0.0:
            row = _row(kernel, cache, i)
            for j in range(len(gradient)):
                gradient[j] += change[i] * row[j]
