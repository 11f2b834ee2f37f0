"""Squared loss and one L1 or L21 penalty on a shared design: coordinate descent, and ADMM where that gets stuck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mtlrun.problem import memory
from mtlrun.problem.losses import Loss
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import AdmmState, solve_admm
from mtlrun.solvers.convex.block_cd import solve_block_cd
from mtlrun.solvers.convex.rotation import Rotation, rotation_bytes

#: ADMM is expected to take so many iterations.
_ITERATIONS = 50


def solve_lasso(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | np.ndarray | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> SolverResult:
    """Minimise by `solve_block_cd`; go on by `solve_admm` once that would have been cheaper from the beginning.

    Coordinate descent is the faster one while few features are in use. With weak penalties and correlated features it
    needs thousands of epochs, where ADMM needs tens of iterations after an eigendecomposition of the design.

    Parameters
    ----------
    data, loss, penalties, fit_intercept, tol
        As of `solve_block_cd`.
    start : SolverResult or ndarray of shape (1, d, T), optional
        Warm start. After a run on the same data that ended in ADMM, ADMM goes on.
    max_iter : int, default 5000
        Epochs and iterations together.

    Returns
    -------
    SolverResult

    Raises
    ------
    ValueError
        As of `solve_block_cd`.
    """
    options: dict[str, Any] = {"fit_intercept": fit_intercept, "tol": tol}
    rotation = _rotation(start, data, fit_intercept)
    if rotation is not None:
        return solve_admm(data, loss, penalties, start=start, rotation=rotation, max_iter=max_iter, **options)
    feasible = memory.fits(rotation_bytes(data))
    side = min(data.n_rows, data.n_features)
    work = side**3 + _ITERATIONS * side * data.n_features * data.n_tasks if feasible else np.inf
    first = solve_block_cd(data, loss, penalties, start=start, max_iter=max_iter, max_work=work, **options)
    if first.converged or first.n_iter >= max_iter or not feasible:
        return first
    second = solve_admm(data, loss, penalties, start=first.parts, max_iter=max_iter - first.n_iter, **options)
    second.n_iter += first.n_iter
    second.objective[:0] = first.objective
    return second


def _rotation(start: SolverResult | np.ndarray | None, data: TaskData, fit_intercept: bool) -> Rotation | None:
    """Return the decomposition of the data that an earlier run has left."""
    state = start.info.get("state") if isinstance(start, SolverResult) else None
    if not isinstance(state, AdmmState):
        return None
    rotation = state.rotation
    return rotation if rotation.data is data and rotation.fit_intercept == fit_intercept else None
