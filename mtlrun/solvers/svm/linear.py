"""Graph-regularized linear SVMs: dual coordinate ascent, and second-order methods.

`solve_block_dcd` states the objective. Both kinds of methods stop on its duality gap.

Coordinate ascent finds the support vectors quickly, but then needs many sweeps to
adjust their dual variables to each other. If the support vectors are few, their kernel
matrix is small, and `climb` adjusts them together, across all tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.utils.extmath import row_norms

from mtlrun.features.rows import DENSE, make_rows, squared_norms
from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.losses import HingeLoss, LogisticLoss, Loss, SquaredHingeLoss
from mtlrun.problem.objective import null_objective
from mtlrun.problem.result import Callback, SolverResult, Tracker
from mtlrun.problem.taskdata import Array, Design, TaskData, dense, is_sparse
from mtlrun.solvers.svm.kernel import certify_kernel, polish
from mtlrun.solvers.svm.sweeps import (
    HINGE,
    LOGISTIC,
    SQUARED_HINGE,
    Problem,
    State,
    block_sweeps,
    certify,
    example_sweeps,
    rebuild,
)

#: Losses, to be multiplied by C. The squared hinge has a factor of 2 because
#: `SquaredHingeLoss` has a factor of 1/2, and the one of LIBLINEAR has none.
SVM_LOSSES: dict[str, Loss] = {
    "hinge": HingeLoss(),
    "squared_hinge": SquaredHingeLoss(2.0),
    "logistic": LogisticLoss(),
}


def check_problem(data: TaskData, coupling: TaskCoupling, loss: str, C: float) -> None:
    """Refuse arguments that the solvers cannot take.

    Raises
    ------
    ValueError
        If the loss is unknown, C is not positive and finite, the coupling has another
        number of tasks, or the labels are not -1 and +1.
    """
    if loss not in SVM_LOSSES:
        raise ValueError(f"loss must be one of {', '.join(SVM_LOSSES)}, got {loss!r}")
    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive and finite, got {C}")
    if coupling.n_tasks != data.n_tasks:
        raise ValueError(
            f"the coupling is of {coupling.n_tasks} tasks, the data have {data.n_tasks}"
        )
    SVM_LOSSES[loss].check_targets(data.targets, data.effective_weights())


def costs(data: TaskData, C: float) -> Array:
    """Return C times the weight of each entry, a field."""
    weights = data.effective_weights()
    if weights is None:
        return np.full(data.targets.shape, float(C))
    return C * weights


def start_alpha(start: Array | None, cap: Array, loss: str) -> Array:
    """Return initial dual variables: `start` clipped to the bounds, or zeros.

    Raises
    ------
    ValueError
        If the shape does not fit or a value is not finite.
    """
    if start is None:
        return np.zeros_like(cap)
    alpha = np.asarray(start, dtype=np.float64)
    if alpha.shape != cap.shape or not np.isfinite(alpha).all():
        raise ValueError(
            f"start must be finite dual variables of shape {cap.shape}, got shape "
            f"{alpha.shape}"
        )
    if loss == "squared_hinge":
        upper = np.where(cap > 0, np.inf, 0.0)
    else:
        upper = cap
    return np.clip(alpha, 0.0, upper)


def svm_result(
    tracker: Tracker,
    W: Array,
    fit_intercept: bool,
    alpha: Array,
) -> SolverResult:
    """Return the result of a run.

    Parameters
    ----------
    tracker : Tracker
    W : ndarray of shape (D, T)
        If intercepts are fitted, they are its last row.
    fit_intercept : bool
    alpha : ndarray
        Dual variables in the layout of the targets.

    Returns
    -------
    SolverResult
        ``info`` has ``alpha``, and the ``seconds`` at which the gap was computed.
    """
    if fit_intercept:
        coef = W[:-1]
        intercept = W[-1].copy()
    else:
        coef = W
        intercept = np.zeros(W.shape[1])
    parts = coef[np.newaxis]
    result = tracker.result(parts, intercept, alpha=alpha, seconds=tracker.seconds)
    result.n_iter = max(1, result.n_iter)
    return result


#: Maximum number of free variables for `climb`; with more, sweeps are faster.
MAX_FREE = 1200
# Maximum number of Newton steps of `climb`.
_MAX_ROUNDS = 12
# Speed of products of matrices, relative to the same operations on single rows.
_BLAS_SPEEDUP = 8.0


def free_variables(p: Problem, s: State) -> Array:
    """Return the entries whose dual variables are strictly between their bounds.

    For the logistic loss, `climb` does not apply, and no entries are returned.
    """
    if p.loss == LOGISTIC:
        return np.empty(0, dtype=np.intp)
    inside = (s.alpha > 0) & (p.cap > 0)
    if p.loss == HINGE:
        inside &= s.alpha < p.cap
    return np.flatnonzero(inside)


def climb(X: Design, p: Problem, s: State, free: Array, coupling: TaskCoupling) -> None:
    """Maximize the dual over the variables `free`; the others stay fixed.

    This is a two-metric projection method: a Newton step in the variables that no bound
    blocks is clipped to the bounds, and halved until the dual increases enough.

    `s.V` must belong to `s.alpha`. Only `s.alpha` is changed, so call `rebuild` next.
    """
    task = p.task[free]
    K, margin = _kernel(X, p, s, free, task, coupling)
    cap = p.cap[free]
    a = s.alpha[free].copy()
    if p.loss != HINGE:
        K[np.diag_indices_from(K)] += 1 / (2 * cap)
        margin = margin + a / (2 * cap)
        cap = np.full_like(cap, np.inf)
    gradient = 1.0 - margin
    ridge = 1e-13 * np.trace(K) / len(K)
    for _ in range(_MAX_ROUNDS):
        is_at_zero = (a <= 0) & (gradient <= 0)
        is_at_cap = (a >= cap) & (gradient >= 0)
        unblocked = np.flatnonzero(~(is_at_zero | is_at_cap))
        part = K[np.ix_(unblocked, unblocked)]
        part[np.diag_indices_from(part)] += ridge
        try:
            factor = cho_factor(part, lower=True, check_finite=False)
        except LinAlgError:
            # Rounding made the matrix indefinite.
            ridge *= 100
            continue
        step = cho_solve(factor, gradient[unblocked], check_finite=False)
        moved = _project(a[unblocked], step, cap[unblocked], gradient[unblocked], part)
        if moved is None:
            break
        a[unblocked] = np.clip(a[unblocked] + moved, 0.0, cap[unblocked])
        gradient -= K[:, unblocked] @ moved
        if np.array_equal(moved, step) and np.all(np.abs(gradient[unblocked]) < 1e-9):
            break
    s.alpha[free] = a


def _kernel(
    X: Design,
    p: Problem,
    s: State,
    free: Array,
    task: Array,
    coupling: TaskCoupling,
) -> tuple[Array, Array]:
    """Return the kernel matrix of the free entries, with labels, and their margins."""
    rows = X[p.row[free]]
    if hasattr(rows, "tocsr"):
        # A sparse matrix, or strings whose features are computed on the fly.
        rows = rows.tocsr()
    y = p.y[free]
    products = rows @ rows.T
    if is_sparse(products):
        products = products.toarray()
    K = coupling.part(task) * (products + p.rows.bias**2) * np.outer(y, y)
    margin = np.empty(len(free))
    width = rows.shape[1]
    for t in np.unique(task):
        w = coupling.row(t, s.V)
        of_task = task == t
        constant = 0.0
        if p.rows.bias:
            constant = p.rows.bias * w[-1]
        scores = rows[of_task] @ w[:width] + constant
        margin[of_task] = y[of_task] * scores
    return K, margin


def _project(
    a: Array,
    step: Array,
    cap: Array,
    gradient: Array,
    K: Array,
) -> Array | None:
    """Return a step that stays within the bounds and increases the dual enough.

    This is `step` itself if it stays within the bounds; otherwise, halves of it are
    clipped (Armijo's rule with 1e-3). None if no half of it increases the dual enough.
    """
    target = a + step
    if np.all((target >= 0) & (target <= cap)):
        return step
    for _ in range(30):
        moved = np.clip(a + step, 0.0, cap) - a
        slope = float(gradient @ moved)
        curvature = float(moved @ (K @ moved))
        if slope > 0 and slope - 0.5 * curvature >= 1e-3 * slope:
            return moved
        step = step / 2
    return None


_CODES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}
#: A certificate costs about as much as a sweep over all rows. So between two of them,
#: each row is visited at least this often on average, ...
_VISITS_PER_CHECK = 4
#: ... and the number of visits is at least this share of all visits so far.
_CHECK_SHARE = 0.1
#: In fast runs, a variable at a bound is left out if its gradient exceeds this share of
#: the largest gradient of the previous sweep. LIBLINEAR has 1, which leaves out fewer.
_SHRINKING_SHARE = 0.1
#: `climb` is called if it costs at most this share of the visits so far.
_CLIMB_SHARE = 0.5
_NO_VARIABLES = np.empty(0, dtype=np.intp)


def solve_block_dcd(
    data: TaskData,
    coupling: TaskCoupling,
    *,
    loss: str = "hinge",
    C: float = 1.0,
    fit_intercept: bool = False,
    start: Array | None = None,
    tol: float = 1e-4,
    max_iter: int = 10000,
    seed: int = 0,
    form: str = "block",
    step: str = "exact",
    fast: bool | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Fit a linear SVM with a graph of tasks by dual coordinate ascent.

    The objective is ``1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i
    weight_i l(y_i w_t(i)'x_i)``.

    l is ``max(0, 1 - z)``, its square, or ``log(1 + exp(-z))``. The dual has one
    variable per entry and ``w_t = sum_s M_ts v_s``, ``v_t = sum_{i in t} alpha_i y_i
    x_i``; every step maximizes it exactly in one variable. Tasks are visited in random
    order, and w_t is kept while the rows of task t are visited in random order: a row
    costs O(nnz), entering a task O(T d), or O(d) when all tasks are equally similar.

    Parameters
    ----------
    data : TaskData
        Labels -1 and +1. The design may be dense, CSR, or a `StringDesign`.
    coupling : TaskCoupling
    loss : {"hinge", "squared_hinge", "logistic"}, default "hinge"
    C : float, default 1.0
    fit_intercept : bool, default False
        Adds a constant feature 1, penalized and coupled like the others.
    start : ndarray, optional
        Dual variables, a field: ``info["alpha"]`` of a run with another C, say.
    tol : float, default 1e-4
        Relative duality gap. The gap is a sum of non-negative terms and as accurate as
        the floats it is made of.
    max_iter : int, default 10000
        Visits of as many rows as there are. There are more sweeps: variables that are
        likely to stay at their bounds are left out until the next certificate, which
        looks at all of them again.
    seed : int, default 0
        Of the random orders.
    form : {"block", "example"}, default "block"
        "example" visits the examples of all tasks in one random order and computes
        w_t'x from all v_s, O(T nnz), as the paper's algorithm does.
    step : {"exact", "printed"}, default "exact"
        "printed" divides by ||x||^2 as equation 17 of the paper does, "exact" by M_tt
        ||x||^2.
    fast : bool, optional
        Leave more variables out than LIBLINEAR does, and solve for the free support
        vectors together, across all tasks, where they are few and it is cheap compared
        with the sweeps so far (not for the logistic loss). Default: in block form with
        the exact step.
    callback : callable, optional
        Called with (iteration, primal, dual); a true answer stops.

    Returns
    -------
    SolverResult
        ``info``: ``alpha`` (a field) and ``seconds`` of the certificates. An iteration
        is as much work as a visit of all rows.

    Raises
    ------
    ValueError
        For an argument out of range or labels other than -1 and +1.
    """
    check_problem(data, coupling, loss, C)
    if form not in ("block", "example") or step not in ("exact", "printed"):
        raise ValueError(
            "form must be 'block' or 'example', step 'exact' or 'printed', got "
            f"{form!r} and {step!r}"
        )
    if fast is None:
        fast = (form, step) == ("block", "exact")
    null = C * null_objective(data, SVM_LOSSES[loss])
    tracker = Tracker(tol, max_iter, callback, null=null)
    bias = 0.0
    if fit_intercept:
        bias = 1.0
    problem, state = _prepare(data, coupling, loss, C, bias, start, step, seed, form)
    sweep: Callable[..., Any] = example_sweeps
    if form == "block":
        sweep = block_sweeps
    _ascend(data.X, coupling, problem, state, tracker, sweep, fast)
    if data.shared:
        alpha = state.alpha.reshape(data.targets.shape[::-1]).T
    else:
        alpha = state.alpha
    return svm_result(
        tracker,
        coupling.apply(state.V).T,
        fit_intercept,
        np.ascontiguousarray(alpha),
    )


def _ascend(
    X: Design,
    coupling: TaskCoupling,
    p: Problem,
    s: State,
    tracker: Tracker,
    sweep: Callable[..., Any],
    fast: bool,
) -> None:
    """Alternate sweeps and certificates until the tracker stops the run.

    Fast runs also call `climb` if it is cheap compared with the sweeps so far.

    Parameters
    ----------
    X : Design
    coupling : TaskCoupling
    p : Problem
    s : State
        Modified in place.
    tracker : Tracker
    sweep : callable
        `block_sweeps` or `example_sweeps`.
    fast : bool
        See `solve_block_dcd`.
    """
    # A float: with integers, numba would compile the sweeps once more.
    n_entries = float(np.count_nonzero(p.cap))
    s.limits[2] = 1.0
    if fast:
        s.limits[2] = _SHRINKING_SHARE
    eps = min(1.0, max(0.1, 10 * tracker.tol**0.5))
    n_visits = 0.0
    rebuild(p, s)
    primal, gap = certify(p, s)
    while not tracker.check_gap(int(np.ceil(n_visits / n_entries)), primal, gap):
        is_complete = s.n_active.sum() == n_entries
        max_visits = max(_VISITS_PER_CHECK * n_entries, _CHECK_SHARE * n_visits)
        max_visits = min(max_visits, tracker.max_iter * n_entries - n_visits)
        gradient_range, n_new_visits, n_changes = sweep(p, s, eps, max_visits)
        n_visits += n_new_visits
        tracker.exhausted = n_changes == 0 and is_complete
        primal, gap = certify(p, s)
        free = _NO_VARIABLES
        if fast:
            free = free_variables(p, s)
        # The approximate cost of `climb` in visits of a row: the kernel matrix, and
        # Cholesky factors in half of the rounds.
        n_free = len(free)
        n_operations = n_free**2 * p.row_cost + _MAX_ROUNDS / 2 * n_free**3 / 3
        cost = n_operations / (2.0 * p.row_cost * _BLAS_SPEEDUP)
        can_climb = (
            0 < n_free <= MAX_FREE
            and cost <= _CLIMB_SHARE * n_visits
            and tracker.max_iter * n_entries > n_visits + cost
        )
        if can_climb:
            climb(X, p, s, free, coupling)
            n_visits += cost
        if can_climb or tracker.relative(primal, gap) <= tracker.tol:
            # `climb` changes alpha only, and in sweeps the rounding errors of V add up.
            # The result has the V that belongs to alpha exactly.
            rebuild(p, s)
            primal, gap = certify(p, s)
        if gradient_range <= eps:
            # The gap shrinks about as fast as the gradients. Too small an `eps` costs
            # more than another certificate.
            shrinkage = 0.1
            if tracker.gap.relative > 0:
                shrinkage = tracker.tol / tracker.gap.relative
            eps *= min(0.5, max(0.1, shrinkage))
            s.limits[:2] = (np.inf, -np.inf)


def _prepare(
    data: TaskData,
    coupling: TaskCoupling,
    loss: str,
    C: float,
    bias: float,
    start: Array | None,
    step: str,
    seed: int,
    form: str,
) -> tuple[Problem, State]:
    """Return problem and state for compiled code, with the entries task by task."""
    n_tasks = data.n_tasks
    n_rows = data.n_rows
    cap = costs(data, C)
    alpha = start_alpha(start, cap, loss)
    row = np.arange(n_rows, dtype=np.int32)
    if data.shared:
        offsets = np.arange(n_tasks + 1) * n_rows
        row = np.tile(row, n_tasks)
        y, cap, alpha = (
            np.ascontiguousarray(field.T).ravel()
            for field in (data.targets, cap, alpha)
        )
    else:
        offsets = np.asarray(data.offsets, dtype=np.int64)
        y = np.require(data.targets, requirements=["C", "W"])
        alpha = alpha.copy()
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), np.diff(offsets))
    rows = make_rows(data.X, bias)
    width = data.n_features + (bias != 0)
    # A contiguous copy: the sweeps are compiled for contiguous arrays only.
    diagonal = coupling.diagonal.copy()
    # Squared norms and the mean number of non-zeros of the rows
    if rows.strings is not None:
        norms = np.empty(n_rows)
        squared_norms(rows, norms, np.zeros((1, width)))
        row_cost = float((len(rows.strings.start) - 1) * (len(rows.strings.level) - 1))
    else:
        norms = np.asarray(row_norms(data.X, squared=True)) + bias**2
        if rows.kind == DENSE:
            row_cost = float(max(1, rows.dense.shape[1]))
        else:
            row_cost = max(1.0, len(rows.values) / n_rows)
    curvature = norms[row]
    if step == "exact":
        curvature *= diagonal[task]
    # The sweeps take M as a matrix, or the share of all other tasks if tasks are
    # equally similar. Sweeps by example compute w from all tasks in each step.
    share = None
    matrix = np.zeros((0, 0))
    # Operations per coefficient when a sweep enters and leaves a task.
    n_operations = 4
    if coupling.common is None:
        matrix = coupling.matrix
        n_operations = 3 + n_tasks
    else:
        share = coupling.common[1]
    if n_tasks == 1:
        n_operations = 0
    mixing = np.ones((n_tasks, 1))
    gain = diagonal
    if form == "example":
        mixing = coupling.matrix
        gain = np.ones(n_tasks)

    problem = Problem(
        rows=rows,
        loss=_CODES[loss],
        offsets=offsets,
        task=task,
        row=row,
        y=y,
        cap=cap,
        curvature=curvature,
        matrix=matrix,
        diagonal=diagonal,
        common=share is not None,
        share=share or 0.0,
        mixing=mixing,
        gain=gain,
        row_cost=row_cost,
        # In visits of a row, each of which takes about 2 * row_cost operations.
        entry_cost=width * n_operations / (2.0 * row_cost),
    )
    # The state before the first sweep, whose V and w are not computed yet.
    V = np.zeros((n_tasks, width))
    if n_tasks == 1:
        # M = 1: w is V, and nothing comes from other tasks.
        w = V
        n_shared = 0
    else:
        w = np.zeros((1, width))
        n_shared = width
    state = State(
        alpha=alpha,
        V=V,
        total=np.zeros(n_shared),
        w=w,
        rest=np.zeros(n_shared),
        active=np.empty(len(alpha), dtype=np.int32),
        n_active=np.zeros(n_tasks, dtype=np.int64),
        limits=np.array([np.inf, -np.inf, 1.0]),
        random=np.array([2 * (seed % 2**32) + 0x9E3779B97F4A7C15], dtype=np.uint64),
    )
    return problem, state


# ------------------------------------------------ second-order methods
#
# A few dense solves with all T * D coefficients, for small T * D. The squared hinge and
# the logistic loss use Newton's method on the primal. The hinge loss uses a primal-dual
# interior-point method on the dual, which has box constraints only, and at the end the
# exact solution for the support vectors that it has found.

#: At this relative gap, the method tries to read off which variables are at a bound.
_SUPPORT_GAP = 1e-5
#: Maximum number of free support vectors for the exact solution. More than there are
#: coefficients are dependent: then the bounds are not the right ones yet.
SMALL_FREE = 2000


class SmallProblem:
    """Rows times their labels, stacked by task, and products with them.

    Entries with a weight of 0 are left out.

    Parameters
    ----------
    data : TaskData
        Sparse rows are converted to dense ones.
    coupling : TaskCoupling
    C : float
    fit_intercept : bool
        Adds a constant feature.

    Attributes
    ----------
    X : list of ndarray of shape (n_t, D)
        y_i x_i.
    cap : ndarray of shape (E,)
        C times the weights, without zeros.
    used : ndarray of bool
        The entries in use, task by task.
    """

    def __init__(
        self,
        data: TaskData,
        coupling: TaskCoupling,
        C: float,
        fit_intercept: bool,
    ) -> None:
        self.coupling = coupling
        self.shared_shape: tuple[int, ...] | None = None
        if data.shared:
            self.shared_shape = data.targets.shape
        field = costs(data, C)
        entry_costs = field.ravel()
        if data.shared:
            entry_costs = field.T.ravel()
        self.used = entry_costs > 0
        self.cap = entry_costs[self.used]
        design = dense(data.X)
        self.X = []
        counts = []
        for t in range(data.n_tasks):
            if data.offsets is None:
                rows = design
                c = field[:, t]
                y = data.targets[:, t]
            else:
                part = slice(data.offsets[t], data.offsets[t + 1])
                rows = design[part]
                c = field[part]
                y = data.targets[part]
            used = c > 0
            X = rows[used] * y[used, None]
            if fit_intercept:
                X = np.column_stack([X, y[used]])
            self.X.append(X)
            counts.append(len(X))
        self.cuts = np.cumsum(counts)[:-1]
        self.width = self.X[0].shape[1]

    def margins(self, W: Array) -> Array:
        """Return y_i w_t(i)'x_i of all entries for coefficients W (T, D)."""
        return np.concatenate([X @ w for X, w in zip(self.X, W, strict=True)])

    def sums(self, alpha: Array) -> Array:
        """Return V (T, D) with v_t = sum of alpha_i y_i x_i."""
        parts = np.split(alpha, self.cuts)
        return np.stack([X.T @ a for X, a in zip(self.X, parts, strict=True)])

    def coefficients(self, alpha: Array) -> Array:
        """Return W = M V."""
        return self.coupling.apply(self.sums(alpha))

    def factor(self, weights: Array) -> tuple[tuple[Array, bool], Array]:
        """Factorize M^{-1} x I + blockdiag_t(X_t' diag(weights) X_t).

        Return the Cholesky factor of the matrix scaled to a unit diagonal, and the
        scale. If rounding leaves the matrix indefinite (features of 1e10 and an
        intercept), the diagonal is raised until it is not: the factor is for directions
        only.
        """
        T = len(self.X)
        D = self.width
        H = np.kron(self.coupling.inverse, np.eye(D))
        blocks = H.reshape(T, D, T, D)
        weights_by_task = np.split(weights, self.cuts)
        for t, (X, q) in enumerate(zip(self.X, weights_by_task, strict=True)):
            blocks[t, :, t, :] += X.T @ (q[:, None] * X)
        scale = 1.0 / np.sqrt(np.diagonal(H))
        H *= scale
        H *= scale[:, None]
        raised = 0.0
        jitter = len(H) * np.finfo(np.float64).eps
        while True:
            try:
                return cho_factor(H, lower=True, check_finite=False), scale
            except LinAlgError:
                if raised > 1.0:
                    raise
                H[np.diag_indices_from(H)] += jitter - raised
                raised = jitter
                jitter *= 100.0

    def solve(self, factor: tuple[tuple[Array, bool], Array], V: Array) -> Array:
        """Solve with a factor for a right-hand side (T, D)."""
        triangle, scale = factor
        solved = cho_solve(triangle, scale * V.ravel(), check_finite=False)
        return (scale * solved).reshape(V.shape)

    def field(self, alpha: Array) -> Array:
        """Return dual variables in the layout of the targets, 0 for unused entries."""
        full = np.zeros(len(self.used))
        full[self.used] = alpha
        if self.shared_shape is None:
            return full
        return np.ascontiguousarray(full.reshape(self.shared_shape[::-1]).T)


def solve_svm_newton(
    data: TaskData,
    coupling: TaskCoupling,
    *,
    loss: str = "hinge",
    C: float = 1.0,
    fit_intercept: bool = False,
    start: Array | None = None,
    tol: float = 1e-4,
    max_iter: int = 200,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize the objective of `solve_block_dcd` by a second-order method.

    Arguments, result and certificate are the same. An iteration takes
    O(N D^2 + (T D)^3 / 3) operations and (T D)^2 numbers of memory; 10 to 50 iterations
    reach a relative gap of 1e-10. `start` is ignored for the hinge loss.
    """
    check_problem(data, coupling, loss, C)
    null = C * null_objective(data, SVM_LOSSES[loss])
    tracker = Tracker(tol, max_iter, callback, null=null)
    problem = SmallProblem(data, coupling, C, fit_intercept)
    if loss == "hinge":
        W, alpha = _interior_point(problem, tracker)
    else:
        start_values = start_alpha(start, costs(data, C), loss)
        alpha = (start_values.T if data.shared else start_values).ravel()[problem.used]
        W, alpha = _newton(problem, tracker, loss, problem.coefficients(alpha))
    return svm_result(tracker, W.T, fit_intercept, problem.field(alpha))


# ---------------------------------------------------------------- smooth losses


def _newton(
    p: SmallProblem,
    tracker: Tracker,
    loss_name: str,
    W: Array,
) -> tuple[Array, Array]:
    """Minimize the primal by Newton's method with backtracking, starting from W.

    With the dual variables alpha = -C l'(z), the gap is half the squared norm of the
    gradient in the metric M.
    """
    loss = SVM_LOSSES[loss_name]
    ones = np.ones(len(p.cap))

    def value(W: Array, z: Array) -> float:
        return 0.5 * float(np.sum(W * (p.coupling.inverse @ W))) + loss.value(
            z, ones, p.cap
        )

    z = p.margins(W)
    primal = value(W, z)
    iteration = 0
    while True:
        alpha = -loss.gradient(z, ones, p.cap)
        gradient = p.coupling.inverse @ W - p.sums(alpha)
        gap = 0.5 * float(np.sum(gradient * p.coupling.apply(gradient)))
        if tracker.check_gap(iteration, primal, max(gap, 0.0)):
            return W, alpha
        iteration += 1
        step = -p.solve(p.factor(loss.hessian(z, ones, p.cap)), gradient)
        slope = float(np.sum(step * gradient))
        moved = p.margins(step)
        length = 1.0
        while (
            value(W + length * step, z + length * moved)
            > primal + 1e-4 * length * slope
        ):
            length /= 2
            if length < 1e-9:
                # Rounding hides the decrease of the objective. The full step still
                # reduces the gradient, and with it the gap.
                length = 1.0
                tracker.exhausted = True
                break
        W = W + length * step
        z = z + length * moved
        primal = value(W, z)


# ---------------------------------------------------------------- hinge


def _interior_point(p: SmallProblem, tracker: Tracker) -> tuple[Array, Array]:
    """Follow the central path of the dual by Mehrotra's predictor-corrector method.

    The path is alpha s = mu, (cap - alpha) r = mu and s - r = z - 1, with the margins z
    and the multipliers s and r of the bounds 0 and cap. Predictor and corrector share a
    factorization. At the end, `polish` computes the exact solution for the support
    vectors that complementarity suggests.
    """
    alpha = 0.5 * p.cap
    ones = np.ones(len(p.cap))
    point = certify_kernel(p.X, p.coupling, ones, p.cap, alpha, 0.0)
    s = r = np.mean(np.abs(point.margins - 1.0) * p.cap) / alpha
    iteration = 0
    best = np.inf
    while not tracker.check_gap(iteration, point.primal, point.gap):
        if tracker.gap.relative <= _SUPPORT_GAP:
            sets = np.where(
                alpha < s * p.cap,
                0.0,
                np.where(p.cap - alpha < r * p.cap, p.cap, alpha),
            )
            exact = polish(
                p.X,
                p.coupling,
                ones,
                p.cap,
                sets,
                fit_intercept=False,
                max_free=min(SMALL_FREE, p.coupling.n_tasks * p.width),
            )
            if exact is not None and exact.gap < point.gap:
                point = exact
                tracker.exhausted = True
                continue
        tracker.exhausted = tracker.gap.relative < 1e-6 and point.gap > 0.9 * best
        best = min(best, point.gap)
        iteration += 1
        step, d_alpha, d_s, d_r = _central_step(p, alpha, s, r, point.margins)
        alpha = alpha + step * d_alpha
        s = s + step * d_s
        r = r + step * d_r
        point = certify_kernel(p.X, p.coupling, ones, p.cap, alpha, 0.0)
    return point.W, point.alpha


def _central_step(
    p: SmallProblem,
    alpha: Array,
    s: Array,
    r: Array,
    z: Array,
) -> tuple[float, Array, Array, Array]:
    """Return the step length, and the directions of alpha, s and r along the path."""
    room = p.cap - alpha
    n_pairs = 2 * len(alpha)
    weights = 1.0 / (s / alpha + r / room)
    factor = p.factor(weights)
    residual = z - 1.0 - s + r

    def direction(
        target: float,
        bend_s: Array | float,
        bend_r: Array | float,
    ) -> tuple[Array, Array, Array]:
        to_s = (target - bend_s) / alpha - s
        to_r = (target + bend_r) / room - r
        rhs = to_s - to_r - residual
        dW = p.solve(factor, p.sums(weights * rhs))
        d_alpha = weights * (rhs - p.margins(dW))
        return d_alpha, to_s - s / alpha * d_alpha, to_r + r / room * d_alpha

    def max_step(d_alpha: Array, d_s: Array, d_r: Array) -> float:
        ratios = [
            -np.min(d / x, initial=0.0)
            for x, d in ((alpha, d_alpha), (room, -d_alpha), (s, d_s), (r, d_r))
        ]
        return 1.0 / max(1.0, *ratios)

    mu = (alpha @ s + room @ r) / n_pairs
    d_alpha, d_s, d_r = direction(0.0, 0.0, 0.0)
    step = max_step(d_alpha, d_s, d_r)
    predicted_mu = (
        (alpha + step * d_alpha) @ (s + step * d_s)
        + (room - step * d_alpha) @ (r + step * d_r)
    ) / n_pairs
    d_alpha, d_s, d_r = direction(
        mu * (predicted_mu / mu) ** 3, d_alpha * d_s, d_alpha * d_r
    )
    return 0.995 * max_step(d_alpha, d_s, d_r), d_alpha, d_s, d_r
