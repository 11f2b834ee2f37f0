"""Graph-regularised SVMs by dual coordinate ascent, block by block (one block per task), with a duality gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from mtlrun.features.rows import CSR, DENSE, Rows, make_rows, squared_norms
from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.common import Callback
from mtlrun.solvers.svm.dcd_example import example_sweeps
from mtlrun.solvers.svm.dcd_kernels import (
    HINGE,
    LOGISTIC,
    SQUARED_HINGE,
    Problem,
    State,
    block_sweeps,
    certify,
)
from mtlrun.solvers.svm.svm import Account, check_problem, costs, relative, start_alpha
from mtlrun.solvers.svm.svm_subspace import MAX_FREE, climb, free_variables, step_cost

Array = np.ndarray[Any, np.dtype[Any]]

_CODES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}
#: A certificate costs about as much as a sweep over all rows: at least so many rows are visited in between,
_VISITS_PER_CHECK = 4
#: and at least this part of all visits so far.
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
    shrinking: bool = True,
    fast: bool | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise ``1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t + C sum_i weight_i l(y_i w_t(i)'x_i)``.

    l is ``max(0, 1 - z)``, its square, or ``log(1 + exp(-z))``. The dual has one variable per entry and
    ``w_t = sum_s M_ts v_s``, ``v_t = sum_{i in t} alpha_i y_i x_i``; every step maximises it exactly in one variable.
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
        Adds a constant feature 1, penalised and coupled like the others.
    start : ndarray, optional
        Dual variables, a field: ``info["alpha"]`` of a run with another C, say.
    tol : float, default 1e-4
        Relative duality gap. The gap is a sum of non-negative terms and as accurate as the floats it is made of.
    max_iter : int, default 10000
        Visits of as many rows as there are; with shrinking many more sweeps.
    seed : int, default 0
        Of the random orders.
    form : {"block", "example"}, default "block"
        "example" visits the examples of all tasks in one random order and computes w_t'x from all v_s, O(T nnz), as
        the paper's algorithm does.
    step : {"exact", "printed"}, default "exact"
        "printed" divides by ||x||^2 as equation 17 of the paper does, "exact" by M_tt ||x||^2.
    shrinking : bool, default True
        Leave out variables that are likely to stay at their bounds; each certificate looks at all of them again.
    fast : bool, optional
        Shrink more boldly than LIBLINEAR (each certificate mends what was wrongly left out), and solve for the free
        support vectors together, across all tasks, where they are few and it is cheap compared with the sweeps so far
        (not for the logistic loss). Default: in block form with the exact step.
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
    check_problem(data, coupling, loss, C, tol, max_iter)
    if form not in ("block", "example") or step not in ("exact", "printed"):
        raise ValueError(f"form must be 'block' or 'example', step 'exact' or 'printed', got {form!r} and {step!r}")
    fast = (form, step) == ("block", "exact") if fast is None else fast
    account = Account(tol, max_iter, callback)
    problem, state = _prepare(
        data, coupling, loss, C, 1.0 if fit_intercept else 0.0, start, step, seed, form == "example"
    )
    sweep = block_sweeps if form == "block" else example_sweeps
    _ascend(data.X, coupling, problem, state, account, sweep, shrinking, fast)
    alpha = state.alpha.reshape(data.targets.shape[::-1]).T if data.shared else state.alpha
    return account.result(coupling.apply(state.V).T, fit_intercept, np.ascontiguousarray(alpha))


def _ascend(
    X: Any,
    coupling: TaskCoupling,
    p: Problem,
    s: State,
    account: Account,
    sweep: Any,
    shrinking: bool,
    fast: bool,
) -> None:
    """Alternate sweeps and certificates until the account says stop; in between exact steps where they are cheap."""
    size = float(np.count_nonzero(p.cap))  # integers would make numba compile the sweeps once more
    s.limits[2] = _BOLDNESS if fast else 1.0
    eps, work = min(1.0, max(0.1, 10 * account.tol**0.5)), 0.0
    primal, gap = certify(p, s, shrinking, bool(s.alpha.any()))  # V is zero as it should be, where alpha is
    while not account.note(int(np.ceil(work / size)), primal, gap):
        complete = s.n_active.sum() == size
        budget = max(_VISITS_PER_CHECK * size, _CHECK_SHARE * work)
        spread, done, changes = sweep(p, s, eps, min(budget, account.max_iter * size - work))
        work += done
        account.exhausted = changes == 0 and complete
        primal, gap = certify(p, s, shrinking, False)
        free = free_variables(p, s) if fast else _NONE
        cost = step_cost(p, len(free))
        if 0 < len(free) <= MAX_FREE and cost <= _EXACT_SHARE * work and account.max_iter * size > work + cost:
            climb(X, p, s, free, coupling)
            work += cost
            primal, gap = certify(p, s, shrinking, True)
        elif relative(primal, gap) <= account.tol:
            primal, gap = certify(p, s, shrinking, True)  # what is published belongs to alpha exactly
        if spread <= eps:
            # The gap shrinks about as fast as the gradients; overshooting costs more than another certificate.
            eps *= min(0.5, max(0.1, account.tol / account.gap if account.gap > 0 else 0.1))
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
    pairs: bool,
) -> tuple[Problem, State]:
    """Lay the data out for compiled code; `pairs` says that the sweeps need M itself, however simple it is."""
    n_tasks, n_rows = data.n_tasks, data.n_rows
    cap = costs(data, C)
    alpha = start_alpha(start, cap, loss)
    if data.shared:  # task by task
        offsets = np.arange(n_tasks + 1) * n_rows
        shifts = offsets[:-1].copy()
        y, cap, alpha = (np.ascontiguousarray(field.T).ravel() for field in (data.targets, cap, alpha))
    else:
        offsets, shifts = np.asarray(data.offsets, dtype=np.int64), np.zeros(n_tasks, dtype=np.int64)
        y, alpha = np.require(data.targets, requirements=["C", "W"]), alpha.copy()
    rows = make_rows(data.X, bias)
    width = data.n_features + (bias != 0)
    norms = np.empty(n_rows)
    squared_norms(rows, norms, np.zeros((1, width)))
    curvature = np.tile(norms, n_tasks) if data.shared else norms
    if step == "exact":
        curvature *= np.repeat(coupling.diagonal, np.diff(offsets))
    problem = Problem(
        rows=rows,
        loss=_CODES[loss],
        offsets=offsets,
        shifts=shifts,
        y=y,
        cap=cap,
        curvature=curvature,
        matrix=coupling.matrix if pairs or coupling.common is None else np.zeros((0, 0)),
        own=coupling.diagonal,
        common=coupling.common is not None,
        share=0.0 if coupling.common is None else coupling.common[1],
        row_cost=_row_cost(rows, n_rows),
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


def _row_cost(rows: Rows, n_rows: int) -> float:
    """Return the mean number of non-zeros of a row."""
    if rows.kind == DENSE:
        return float(max(1, rows.dense.shape[1]))
    if rows.kind == CSR:
        return max(1.0, len(rows.values) / n_rows)
    return float((len(rows.start) - 1) * (len(rows.level) - 1))
