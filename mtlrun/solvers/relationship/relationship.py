"""The alternations that MTFL and MTRL were published with: W for a given covariance, then the covariance of W."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlrun.penalties.norms import SquaredTraceNorm
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.memory import require
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.covariance import Precision
from mtlrun.solvers.relationship.fetr import gram_form
from mtlrun.solvers.relationship.wsystem import CoupledSystem, solve_w

# Matrices of the size of the covariance that the alternation has at a time.
_SQUARES = 8
# Singular values below this, relative to the largest, are rounding.
_RANK = 1e-14


@dataclass(frozen=True, eq=False)
class LowRank:
    """The matrix U diag(values) U' of trace 1, or I / size where W is zero; a (size, size) matrix only on demand.

    Attributes
    ----------
    values : ndarray of shape (r,)
        Positive.
    vectors : ndarray of shape (size, r)
    """

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def root(cls, W: np.ndarray) -> LowRank:
        """Return (W W')^{1/2} / tr((W W')^{1/2}): `root_covariance` of W in its singular vectors."""
        U, sigma, _ = np.linalg.svd(W, full_matrices=False)
        rank = int(np.count_nonzero(sigma > _RANK * sigma.max(initial=0.0)))
        return cls(sigma[:rank] / sigma[:rank].sum(), np.ascontiguousarray(U[:, :rank]))

    def matrix(self, what: str) -> np.ndarray:
        """Return the matrix.

        Raises
        ------
        MemoryLimitError
            If it would not fit into memory; `what` is its name.
        """
        size = len(self.vectors)
        require(
            2 * 8 * size**2,
            f"the covariance of {size} {what}",
            "Use the coefficients: their singular vectors are its own.",
        )
        if not len(self.values):
            return np.eye(size) / size
        scaled = self.vectors * np.sqrt(self.values)
        return np.asarray(scaled @ scaled.T)


def root_covariance(A: np.ndarray, eps: float = 0.0) -> tuple[Precision, float]:
    """Return D = (A A' + eps I)^{1/2} / trace and the trace of that root.

    D minimises tr(A'D^{-1}A) over the matrices of trace 1. It is I / k for A = 0.

    Parameters
    ----------
    A : ndarray of shape (k, m)
        W for a covariance of features, W' for one of tasks.
    eps : float, default 0.0

    Returns
    -------
    covariance : Precision
        Of size k.
    trace : float
    """
    size = len(A)
    if A.shape[1] > size:
        A = np.linalg.qr(A.T).R.T
    # Not from eigenvalues of A A': an exact zero comes out as 1e-16 there, and its root as 1e-8.
    U, sigma, _ = np.linalg.svd(A)
    roots = np.sqrt(np.square(np.pad(sigma, (0, size - len(sigma)))) + eps)
    trace = float(roots.sum())
    return Precision(roots / trace if trace > 0 else np.full(size, 1.0 / size), U), trace


def solve_alternating(
    data: TaskData,
    alpha: float,
    *,
    ridge: float = 0.0,
    over: str = "tasks",
    eps: float = 1e-6,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_iter: int = 3000,
) -> SolverResult:
    """Minimise ``sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + ridge/2 ||W||_F^2 + alpha tr(D^{-1} (moment + eps I))`` in turn.

    The variables are W and a matrix D of trace 1, the moment is W'W (``over="tasks"``: MTRL) or W W'
    (``over="features"``: MTFL). Without eps, minimising over D leaves ``alpha ||W||_*^2`` in both cases; eps keeps D
    invertible, moves the solution, and makes the iteration crawl where singular values of W vanish.

    Parameters
    ----------
    data : TaskData
    alpha : float
        Positive.
    ridge : float, default 0.0
    over : {"tasks", "features"}
    eps : float, default 1e-6
        Positive.
    fit_intercept : bool, default False
    tol : float, default 1e-6
        Largest relative decrease of the objective (with eps) in one round to stop at.
    max_iter : int, default 3000

    Returns
    -------
    SolverResult
        `gap` is the true relative duality gap, of the problem without eps; `stop_crit` is the relative decrease.
        `info` has ``covariance`` (`Precision`, D).

    Raises
    ------
    ValueError
        If one Gram matrix per task, or the covariance, would take too much memory.
    """
    size = data.n_tasks if over == "tasks" else data.n_features
    require(
        _SQUARES * 8 * size**2,
        f"the alternation over the covariance of {size} {over}",
        "Use variant='corrected', which needs no such matrix, or fewer of them.",
    )
    form = gram_form(data, fit_intercept)  # loss without 1/2: all weights below are doubled
    d, T = data.n_features, data.n_tasks
    D, W = Precision.scalar(size, 1.0 / size), np.zeros((d, T))
    objective: list[float] = []
    decrease, converged, it = np.inf, False, 0
    for it in range(1, max_iter + 1):
        inverse = D.covariance
        S1, S2 = (np.eye(d), inverse) if over == "tasks" else (inverse, np.eye(T))
        W = solve_w(CoupledSystem(form.gram, form.cross, S1, S2, ridge, 2.0 * alpha), start=W, tol=1e-10).W
        D, trace = root_covariance(W.T if over == "tasks" else W, eps)
        # tr(D^{-1} (moment + eps I)) at this D is the square of the trace of the root.
        loss = 0.5 * form.value(form.point(W))
        objective.append(loss + 0.5 * ridge * float(np.vdot(W, W)) + alpha * trace**2)
        if it > 1:
            decrease = (objective[-2] - objective[-1]) / max(1.0, abs(objective[-1]))
            if decrease <= tol:
                converged = True
                break
    b = form.intercept(form.point(W))
    penalty = SquaredTraceNorm(alpha, ridge)
    gap = duality_gap(data, SquaredLoss(), [penalty], [W], b if fit_intercept else None).relative
    message = f"relative decrease {decrease:.1e} after {it} rounds"
    return SolverResult(W[np.newaxis], b, converged, it, objective, gap, [], decrease, message, {"covariance": D})
