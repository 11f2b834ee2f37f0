"""Graph-regularized SVMs by dual coordinate ascent, one block per task, or by second-order methods; with a duality gap.

Coordinate ascent finds the support vectors fast and then needs many sweeps to balance them against each other. While
they are few, their kernel matrix is small, and second-order steps across all tasks (`climb`) do the same at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.utils.extmath import row_norms

from mtlrun.features.rows import CSR, DENSE, STRINGS, Rows, make_rows, squared_norms
from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.losses import HingeLoss, LogisticLoss, Loss, SquaredHingeLoss
from mtlrun.problem.objective import null_objective
from mtlrun.problem.result import Callback, SolverResult, Tracker
from mtlrun.problem.taskdata import Design, TaskData, dense, is_sparse
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

Array = np.ndarray[Any, np.dtype[Any]]

#: C times these is the loss of the objective: LIBLINEAR's squared hinge has no 1/2.
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
    """Return dual variables to start from: those given, moved into their bounds, or zeros.

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
            f"start must be finite dual variables of shape {cap.shape}, got shape {alpha.shape}"
        )
    if loss == "squared_hinge":
        upper = np.where(cap > 0, np.inf, 0.0)
    else:
        upper = cap
    return np.clip(alpha, 0.0, upper)


def svm_result(
    tracker: Tracker, W: Array, fit_intercept: bool, alpha: Array
) -> SolverResult:
    """Return the result; the last row of W (D, T) are the intercepts when there are any.

    `info` has ``alpha`` (a field) and ``seconds`` (of the certificates).
    """
    if fit_intercept:
        intercept = W[-1].copy()
    else:
        intercept = np.zeros(W.shape[1])
    parts = (W[:-1] if fit_intercept else W)[np.newaxis]
    result = tracker.result(parts, intercept, alpha=alpha, seconds=tracker.seconds)
    result.n_iter = max(1, result.n_iter)
    return result


#: More free variables than that are left to the sweeps.
MAX_FREE = 1200
_ROUNDS = 12
# How much faster a product of matrices is than the same number of operations on single rows.
_BLAS = 8.0


def free_variables(p: Problem, s: State) -> Array:
    """Return the entries whose dual variables are strictly between their bounds; none for the logistic loss."""
    if p.loss == LOGISTIC:
        return np.empty(0, dtype=np.intp)
    inside = (s.alpha > 0) & (p.cap > 0)
    if p.loss == HINGE:
        inside &= s.alpha < p.cap
    return np.flatnonzero(inside)


def step_cost(p: Problem, n_free: int) -> float:
    """Return about how many row visits cost as much as `climb` does."""
    products = n_free**2 * p.row_cost + _ROUNDS / 2 * n_free**3 / 3
    return products / (2.0 * p.row_cost * _BLAS)


def climb(X: Design, p: Problem, s: State, free: Array, coupling: TaskCoupling) -> None:
    """Increase the dual in the variables `free`, the others fixed; V must belong to alpha, which changes.

    Two-metric projection: Newton's direction in the variables that no bound stops, clipped, halved until it gains.
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
    for _ in range(_ROUNDS):
        open_ = np.flatnonzero(
            ~(((a <= 0) & (gradient <= 0)) | ((a >= cap) & (gradient >= 0)))
        )
        part = K[np.ix_(open_, open_)]
        part[np.diag_indices_from(part)] += ridge
        try:
            step = cho_solve(
                cho_factor(part, lower=True, check_finite=False),
                gradient[open_],
                check_finite=False,
            )
        except LinAlgError:  # rounding made it indefinite
            ridge *= 100
            continue
        moved = _project(a[open_], step, cap[open_], gradient[open_], part)
        if moved is None:
            break
        a[open_] = np.clip(a[open_] + moved, 0.0, cap[open_])
        gradient -= K[:, open_] @ moved
        if np.array_equal(moved, step) and np.all(np.abs(gradient[open_]) < 1e-9):
            break
    s.alpha[free] = a


def _kernel(
    X: Design, p: Problem, s: State, free: Array, task: Array, coupling: TaskCoupling
) -> tuple[Array, Array]:
    """Return the kernel matrix of the free rows, labels included, and their margins."""
    rows = X[p.row[free]]
    rows = rows.tocsr() if hasattr(rows, "tocsr") else rows
    y = p.y[free]
    products = rows @ rows.T
    if is_sparse(products):
        products = products.toarray()
    K = coupling.part(task) * (products + p.rows.bias**2) * np.outer(y, y)
    margin = np.empty(len(free))
    width = rows.shape[1]
    for t in np.unique(task):
        w = coupling.row(t, s.V)
        mine = task == t
        margin[mine] = y[mine] * (
            rows[mine] @ w[:width] + (p.rows.bias * w[-1] if p.rows.bias else 0.0)
        )
    return K, margin


def _project(
    a: Array, step: Array, cap: Array, gradient: Array, K: Array
) -> Array | None:
    """Return a clipped multiple of `step` with enough gain, `step` itself if it stays inside, None if there is none."""
    if np.all((a + step >= 0) & (a + step <= cap)):
        return step
    for _ in range(30):
        moved = np.clip(a + step, 0.0, cap) - a
        slope = float(gradient @ moved)
        if slope > 0 and slope - 0.5 * float(moved @ (K @ moved)) >= 1e-3 * slope:
            return moved
        step = step / 2
    return None


_CODES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}
#: A certificate costs about as much as a sweep over all rows. In between, each row is
#: visited at least this often on average,
_VISITS_PER_CHECK = 4
#: and the visits are at least this part of all visits so far.
_CHECK_SHARE = 0.1
#: Part of the extreme gradients from which on a variable at a bound is left out.
_BOLDNESS = 0.1
#: Exact steps may cost this part of the sweeps so far.
_EXACT_SHARE = 0.5
_NONE = np.empty(0, dtype=np.intp)


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
    """Minimize ``1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i l(y_i w_t(i)'x_i)``.

    l is ``max(0, 1 - z)``, its square, or ``log(1 + exp(-z))``. The dual has one variable per entry and
    ``w_t = sum_s M_ts v_s``, ``v_t = sum_{i in t} alpha_i y_i x_i``; every step maximizes it exactly in one variable.
    Tasks are visited in random order, and w_t is kept while the rows of task t are visited in random order: a row
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
        Relative duality gap. The gap is a sum of non-negative terms and as accurate as the floats it is made of.
    max_iter : int, default 10000
        Visits of as many rows as there are. There are more sweeps: variables that are likely to stay at their bounds
        are left out until the next certificate, which looks at all of them again.
    seed : int, default 0
        Of the random orders.
    form : {"block", "example"}, default "block"
        "example" visits the examples of all tasks in one random order and computes w_t'x from all v_s, O(T nnz), as
        the paper's algorithm does.
    step : {"exact", "printed"}, default "exact"
        "printed" divides by ||x||^2 as equation 17 of the paper does, "exact" by M_tt ||x||^2.
    fast : bool, optional
        Leave more variables out than LIBLINEAR does, and solve for the free support vectors together, across all
        tasks, where they are few and it is cheap compared with the sweeps so far (not for the logistic loss). Default:
        in block form with the exact step.
    callback : callable, optional
        Called with (iteration, primal, dual); a true answer stops.

    Returns
    -------
    SolverResult
        ``info``: ``alpha`` (a field) and ``seconds`` of the certificates. An iteration is as much work as a visit of
        all rows.

    Raises
    ------
    ValueError
        For an argument out of range or labels other than -1 and +1.
    """
    check_problem(data, coupling, loss, C)
    if form not in ("block", "example") or step not in ("exact", "printed"):
        raise ValueError(
            f"form must be 'block' or 'example', step 'exact' or 'printed', got {form!r} and {step!r}"
        )
    if fast is None:
        fast = (form, step) == ("block", "exact")
    null = C * null_objective(data, SVM_LOSSES[loss])
    tracker = Tracker(tol, max_iter, callback, null=null)
    bias = 1.0 if fit_intercept else 0.0
    problem, state = _prepare(data, coupling, loss, C, bias, start, step, seed, form)
    sweep = block_sweeps if form == "block" else example_sweeps
    _ascend(data.X, coupling, problem, state, tracker, sweep, fast)
    if data.shared:
        alpha = state.alpha.reshape(data.targets.shape[::-1]).T
    else:
        alpha = state.alpha
    return svm_result(
        tracker, coupling.apply(state.V).T, fit_intercept, np.ascontiguousarray(alpha)
    )


def _ascend(
    X: Design,
    coupling: TaskCoupling,
    p: Problem,
    s: State,
    tracker: Tracker,
    sweep: Design,
    fast: bool,
) -> None:
    """Alternate sweeps and certificates until the tracker says stop; in between exact steps where they are cheap."""
    size = float(
        np.count_nonzero(p.cap)
    )  # integers would make numba compile the sweeps once more
    s.limits[2] = _BOLDNESS if fast else 1.0
    eps = min(1.0, max(0.1, 10 * tracker.tol**0.5))
    work = 0.0
    rebuild(p, s)
    primal, gap = certify(p, s)
    while not tracker.check_gap(int(np.ceil(work / size)), primal, gap):
        complete = s.n_active.sum() == size
        budget = max(_VISITS_PER_CHECK * size, _CHECK_SHARE * work)
        spread, done, changes = sweep(
            p, s, eps, min(budget, tracker.max_iter * size - work)
        )
        work += done
        tracker.exhausted = changes == 0 and complete
        primal, gap = certify(p, s)
        free = free_variables(p, s) if fast else _NONE
        cost = step_cost(p, len(free))
        exact = (
            0 < len(free) <= MAX_FREE
            and cost <= _EXACT_SHARE * work
            and tracker.max_iter * size > work + cost
        )
        if exact:
            climb(X, p, s, free, coupling)
            work += cost
        if exact or tracker.relative(primal, gap) <= tracker.tol:
            rebuild(p, s)  # what is published belongs to alpha exactly
            primal, gap = certify(p, s)
        if spread <= eps:
            # The gap shrinks about as fast as the gradients; overshooting costs more than another certificate.
            eps *= min(
                0.5,
                max(
                    0.1,
                    tracker.tol / tracker.gap.relative
                    if tracker.gap.relative > 0
                    else 0.1,
                ),
            )
            s.limits[:2] = np.inf, -np.inf


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
    """Lay the data out for compiled code, entries task by task."""
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
    own_products = (
        coupling.diagonal.copy()
    )  # contiguous: the sweeps are compiled for no other array
    curvature = _squared_norms(data.X, rows, width)[row]
    if step == "exact":
        curvature *= own_products[task]
    if coupling.common is None:
        share = None
    else:
        share = coupling.common[1]
    blocks = form == "block"
    row_cost = _row_cost(rows, n_rows)
    if n_tasks == 1:
        entered = 0
    else:
        entered = 4
        if share is None:
            entered = 3 + n_tasks
    problem = Problem(
        rows=rows,
        loss=_CODES[loss],
        offsets=offsets,
        task=task,
        row=row,
        y=y,
        cap=cap,
        curvature=curvature,
        matrix=coupling.matrix if share is None else np.zeros((0, 0)),
        diagonal=own_products,
        common=share is not None,
        share=share or 0.0,
        mixing=np.ones((n_tasks, 1)) if blocks else coupling.matrix,
        gain=own_products if blocks else np.ones(n_tasks),
        row_cost=row_cost,
        entry_cost=width
        * entered
        / (2.0 * row_cost),  # its numbers are read in order, unlike the rows
    )
    V = np.zeros((n_tasks, width))
    alone = n_tasks == 1  # M = 1: w is V, and nothing comes from other tasks
    state = State(
        alpha=alpha,
        V=V,
        total=np.zeros(0 if alone else width),
        w=V if alone else np.zeros((1, width)),
        rest=np.zeros(0 if alone else width),
        active=np.empty(len(y), dtype=np.int32),
        n_active=np.zeros(n_tasks, dtype=np.int64),
        limits=np.array([np.inf, -np.inf, 1.0]),
        random=np.array([2 * (seed % 2**32) + 0x9E3779B97F4A7C15], dtype=np.uint64),
    )
    return problem, state


def _squared_norms(X: Design, rows: Rows, width: int) -> Array:
    """Return the squared norms of the rows, the constant feature included."""
    if rows.kind != STRINGS:
        return np.asarray(row_norms(X, squared=True)) + rows.bias**2
    norms = np.empty(len(X))
    squared_norms(rows, norms, np.zeros((1, width)))
    return norms


def _row_cost(rows: Rows, n_rows: int) -> float:
    """Return the mean number of non-zeros of a row."""
    if rows.kind == DENSE:
        return float(max(1, rows.dense.shape[1]))
    if rows.kind == CSR:
        return max(1.0, len(rows.values) / n_rows)
    return float((len(rows.start) - 1) * (len(rows.level) - 1))


# ---------------------------------------------------------------------- second-order methods
#
# Few dense solves with all T * D coefficients, for small T * D. Squared hinge and logistic loss: Newton's method on the
# primal. Hinge: a primal-dual interior-point method on the dual, whose only constraints are box constraints, and at the
# end the exact solution on the support vectors it has found.

#: Relative gaps that these methods go for at no great cost.
_AIM = {"hinge": 1e-9, "squared_hinge": 1e-14, "logistic": 1e-14}
#: Relative gap from which on the sets of support vectors are taken for known.
_SETS_KNOWN = 1e-5
#: Free support vectors up to which the last step solves for them exactly.
SMALL_FREE = 2000


class SmallProblem:
    """Rows with their labels multiplied in, stacked by task, and products with them; entries without cost left out.

    Parameters
    ----------
    data : TaskData
        Dense, or sparse with a size that allows to make it dense.
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
        self, data: TaskData, coupling: TaskCoupling, C: float, fit_intercept: bool
    ) -> None:
        self.coupling = coupling
        self.shared_shape: tuple[int, ...] | None = None
        if data.shared:
            self.shared_shape = data.targets.shape
        field = costs(data, C)
        self.used = (field.T if data.shared else field).ravel() > 0
        self.cap = (field.T if data.shared else field).ravel()[self.used]
        design = dense(data.X)
        self.X = []
        counts = []
        for t in range(data.n_tasks):
            if data.offsets is None:
                rows = slice(None)
            else:
                rows = slice(data.offsets[t], data.offsets[t + 1])
            c, y = (
                (field[:, t], data.targets[:, t])
                if data.shared
                else (field[rows], data.targets[rows])
            )
            X = design[rows][c > 0] * y[c > 0, None]
            self.X.append(np.column_stack([X, y[c > 0]]) if fit_intercept else X)
            counts.append(len(X))
        self.cuts = np.cumsum(counts)[:-1]
        self.width = self.X[0].shape[1]

    def margins(self, W: Array) -> Array:
        """Return y_i w_t(i)'x_i of all entries for coefficients W (T, D)."""
        return np.concatenate([X @ w for X, w in zip(self.X, W, strict=True)])

    def sums(self, alpha: Array) -> Array:
        """Return V (T, D) with v_t = sum of alpha_i y_i x_i."""
        return np.stack(
            [X.T @ a for X, a in zip(self.X, np.split(alpha, self.cuts), strict=True)]
        )

    def coefficients(self, alpha: Array) -> Array:
        """Return W = M V."""
        return self.coupling.apply(self.sums(alpha))

    def factor(self, weights: Array) -> tuple[tuple[Array, bool], Array]:
        """Factorize M^{-1} x I + blockdiag_t(X_t' diag(weights) X_t), scaled to a unit diagonal.

        Returns the Cholesky factor and the scale. Where rounding leaves the matrix
        indefinite (features of 1e10 and an intercept), the diagonal is raised until it
        is not: the factor is for directions only.
        """
        T = len(self.X)
        D = self.width
        H = np.kron(self.coupling.inverse, np.eye(D))
        for t, (X, q) in enumerate(
            zip(self.X, np.split(weights, self.cuts), strict=True)
        ):
            H.reshape(T, D, T, D)[t, :, t, :] += X.T @ (q[:, None] * X)
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
                raised, jitter = jitter, 100.0 * jitter

    def solve(self, factor: tuple[tuple[Array, bool], Array], V: Array) -> Array:
        """Solve with a factor for a right-hand side (T, D)."""
        triangle, scale = factor
        return (
            scale * cho_solve(triangle, scale * V.ravel(), check_finite=False)
        ).reshape(V.shape)

    def field(self, alpha: Array) -> Array:
        """Put dual variables back into the layout of the targets."""
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
    """Minimize the objective of `solve_block_dcd` by a second-order method; same arguments, result and certificate.

    An iteration costs O(N D^2 + (T D)^3 / 3) and memory (T D)^2; 10 to 50 are needed for a relative gap of 1e-10.
    The run goes on below `tol`, since the last iterations gain most. `start` is used by the smooth losses only.
    """
    check_problem(data, coupling, loss, C)
    null = C * null_objective(data, SVM_LOSSES[loss])
    tracker = Tracker(min(tol, _AIM[loss]), max_iter, callback, null=null)
    problem = SmallProblem(data, coupling, C, fit_intercept)
    if loss == "hinge":
        W, alpha = _interior_point(problem, tracker)
    else:
        start_values = start_alpha(start, costs(data, C), loss)
        alpha = (start_values.T if data.shared else start_values).ravel()[problem.used]
        W, alpha = _newton(problem, tracker, loss, problem.coefficients(alpha))
    tracker.settle(tol)
    return svm_result(tracker, W.T, fit_intercept, problem.field(alpha))


# ---------------------------------------------------------------- smooth losses


def _newton(
    p: SmallProblem, tracker: Tracker, loss_name: str, W: Array
) -> tuple[Array, Array]:
    """Newton's method with backtracking from W. With alpha = -C l'(z), half a gradient's M-norm squared is the gap."""
    loss, ones = SVM_LOSSES[loss_name], np.ones(len(p.cap))

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
            if (
                length < 1e-9
            ):  # floats cannot tell the values apart any more; the full step still helps the gradient
                length = 1.0
                tracker.exhausted = True
                break
        W = W + length * step
        z = z + length * moved
        primal = value(W, z)


# ---------------------------------------------------------------- hinge


def _interior_point(p: SmallProblem, tracker: Tracker) -> tuple[Array, Array]:
    """Follow the central path of the dual: alpha s = mu and (cap - alpha) r = mu with s - r = z - 1.

    s and r are the multipliers of the bounds 0 and cap. Mehrotra's predictor and corrector, with one factor. At the
    end the support vectors that complementarity suggests are solved for exactly.
    """
    alpha = 0.5 * p.cap
    ones = np.ones(len(p.cap))
    point = certify_kernel(p.X, p.coupling, ones, p.cap, alpha, 0.0)
    s = r = np.mean(np.abs(point.margins - 1.0) * p.cap) / alpha
    iteration = 0
    best = np.inf
    while not tracker.check_gap(iteration, point.primal, point.gap):
        if tracker.gap.relative <= _SETS_KNOWN:
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
                max_free=SMALL_FREE,
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
    p: SmallProblem, alpha: Array, s: Array, r: Array, z: Array
) -> tuple[float, Array, Array, Array]:
    """Return step length and directions of alpha, s and r towards a point further along the path."""
    room, size = p.cap - alpha, 2 * len(alpha)
    weights = 1.0 / (s / alpha + r / room)
    factor = p.factor(weights)
    residual = z - 1.0 - s + r

    def direction(
        target: float, bend_s: Array | float, bend_r: Array | float
    ) -> tuple[Array, Array, Array]:
        to_s = (target - bend_s) / alpha - s
        to_r = (target + bend_r) / room - r
        rhs = to_s - to_r - residual
        dW = p.solve(factor, p.sums(weights * rhs))
        d_alpha = weights * (rhs - p.margins(dW))
        return d_alpha, to_s - s / alpha * d_alpha, to_r + r / room * d_alpha

    def longest(d_alpha: Array, d_s: Array, d_r: Array) -> float:
        ratios = [
            -np.min(d / x, initial=0.0)
            for x, d in ((alpha, d_alpha), (room, -d_alpha), (s, d_s), (r, d_r))
        ]
        return 1.0 / max(1.0, *ratios)

    mu = (alpha @ s + room @ r) / size
    d_alpha, d_s, d_r = direction(0.0, 0.0, 0.0)
    step = longest(d_alpha, d_s, d_r)
    ahead = (
        (alpha + step * d_alpha) @ (s + step * d_s)
        + (room - step * d_alpha) @ (r + step * d_r)
    ) / size
    d_alpha, d_s, d_r = direction(mu * (ahead / mu) ** 3, d_alpha * d_s, d_alpha * d_r)
    return 0.995 * longest(d_alpha, d_s, d_r), d_alpha, d_s, d_r
