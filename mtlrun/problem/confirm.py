"""Runs on a condensed form of the squared loss: is what they say of their end true of the rows?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mtlrun.problem.objective import relative_gap
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Quadratic
from mtlrun.problem.result import SolverResult

#: A key of `SolverResult.info`: what helps is another scale of the data, not more iterations.
BADLY_SCALED = "badly_scaled"
# A gap from the rows has rounding of its own: relative to the tolerance, and absolute.
_SLACK, _FLOATS = 1e-2, 1e-13


def confirm(
    result: SolverResult,
    form: Quadratic,
    penalties: Sequence[Penalty],
    parts: Sequence[np.ndarray] | np.ndarray,
    *,
    scale: float,
    tol: float,
    at: Callable[[], np.ndarray] | None = None,
) -> None:
    """Take back that a run has converged where the gap computed from the rows is larger than `tol`.

    Nothing is computed where rounding cannot have mattered.

    Parameters
    ----------
    result : SolverResult
        Changed: `converged`, `gap`, `stop_crit`, `message` and `info`.
    form : Quadratic
        What the run used in place of the rows.
    penalties : sequence of Penalty
    parts : sequence of ndarray of shape (d, T)
        One per penalty.
    scale : float
        Of the loss.
    tol : float
    at : callable, optional
        Returns the coefficients (d, T) whose residual makes the dual point; default the sum of the parts.
    """
    if not result.converged:
        return
    _, primal, dual = result.gaps[-1] if result.gaps else (0, result.objective[-1], -np.inf)
    digits = form.keeps_digits(primal, tol, scale)
    if digits and not form.doubtful and not form.graded:
        return
    W = np.sum(parts, axis=0) if at is None else at()
    if digits and not form.graded and form.agrees(W, tol):
        return
    if form.graded or not digits:
        primal = form.row_primal(parts, penalties, scale)
    if form.doubtful or not form.graded:
        dual = form.row_dual(W, penalties, scale)
        if relative_gap(primal, dual) > tol and not any(p.is_zero for p in penalties):
            dual = max(dual, form.row_dual(W, penalties, scale, sharp=True))
    take_back(result, relative_gap(primal, dual), tol)


def take_back(result: SolverResult, gap: float, tol: float) -> None:
    """Note that a run has not converged if the gap computed from the rows says so."""
    if gap <= (1.0 + _SLACK) * tol + _FLOATS:
        return
    result.converged, result.gap, result.stop_crit = False, gap, gap
    result.message = f"computed from the rows, the relative duality gap is {gap:.1e}: the data are too badly scaled"
    result.info[BADLY_SCALED] = True
