"""Graph-regularised SVMs by second-order methods: few dense solves with all T * D coefficients, for small T * D.

Squared hinge and logistic loss: Newton's method on the primal. Hinge: a primal-dual interior-point method on the dual,
whose only constraints are box constraints, and at the end the exact solution on the support vectors it has found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.result import Callback, SolverResult, Tracker
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.dcd import SVM_LOSSES, check_problem, costs, start_alpha, svm_result
from mtlrun.solvers.svm.kernel import certify_kernel, polish

Array = np.ndarray[Any, np.dtype[Any]]

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

    def __init__(self, data: TaskData, coupling: TaskCoupling, C: float, fit_intercept: bool) -> None:
        self.coupling = coupling
        self.shared_shape = data.targets.shape if data.shared else None
        field = costs(data, C)
        self.used = (field.T if data.shared else field).ravel() > 0
        self.cap = (field.T if data.shared else field).ravel()[self.used]
        dense = data.X.toarray() if data.sparse else data.X
        self.X, counts = [], []
        for t in range(data.n_tasks):
            rows = slice(None) if data.offsets is None else slice(data.offsets[t], data.offsets[t + 1])
            c, y = (field[:, t], data.targets[:, t]) if data.shared else (field[rows], data.targets[rows])
            X = dense[rows][c > 0] * y[c > 0, None]
            self.X.append(np.column_stack([X, y[c > 0]]) if fit_intercept else X)
            counts.append(len(X))
        self.cuts = np.cumsum(counts)[:-1]
        self.width = self.X[0].shape[1]

    def margins(self, W: Array) -> Array:
        """Return y_i w_t(i)'x_i of all entries for coefficients W (T, D)."""
        return np.concatenate([X @ w for X, w in zip(self.X, W, strict=True)])

    def sums(self, alpha: Array) -> Array:
        """Return V (T, D) with v_t = sum of alpha_i y_i x_i."""
        return np.stack([X.T @ a for X, a in zip(self.X, np.split(alpha, self.cuts), strict=True)])

    def coefficients(self, alpha: Array) -> Array:
        """Return W = M V."""
        return self.coupling.apply(self.sums(alpha))

    def factor(self, weights: Array) -> tuple[tuple[Array, bool], Array]:
        """Factorise M^{-1} x I + blockdiag_t(X_t' diag(weights) X_t), scaled to a unit diagonal.

        Returns the Cholesky factor and the scale. Where rounding leaves the matrix indefinite (features of 1e10 beside
        an intercept), the diagonal is raised until it is not: the factor is for directions only.
        """
        T, D = len(self.X), self.width
        H = np.kron(self.coupling.inverse, np.eye(D))
        for t, (X, q) in enumerate(zip(self.X, np.split(weights, self.cuts), strict=True)):
            H.reshape(T, D, T, D)[t, :, t, :] += X.T @ (q[:, None] * X)
        scale = 1.0 / np.sqrt(np.diagonal(H))
        H *= scale
        H *= scale[:, None]
        raised, more = 0.0, len(H) * np.finfo(np.float64).eps
        while True:
            try:
                return cho_factor(H, lower=True, check_finite=False), scale
            except LinAlgError:
                if raised > 1.0:
                    raise
                H[np.diag_indices_from(H)] += more - raised
                raised, more = more, 100.0 * more

    def solve(self, factor: tuple[tuple[Array, bool], Array], V: Array) -> Array:
        """Solve with a factor for a right-hand side (T, D)."""
        triangle, scale = factor
        return (scale * cho_solve(triangle, scale * V.ravel(), check_finite=False)).reshape(V.shape)

    def field(self, alpha: Array) -> Array:
        """Put dual variables back into the layout of the targets."""
        full = np.zeros(len(self.used))
        full[self.used] = alpha
        return full if self.shared_shape is None else np.ascontiguousarray(full.reshape(self.shared_shape[::-1]).T)


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
    """Minimise the objective of `solve_block_dcd` by a second-order method; same arguments, result and certificate.

    An iteration costs O(N D^2 + (T D)^3 / 3) and memory (T D)^2; 10 to 50 are needed for a relative gap of 1e-10.
    The run goes on below `tol`, since the last iterations gain most. `start` is used by the smooth losses only.
    """
    check_problem(data, coupling, loss, C)
    tracker = Tracker(min(tol, _AIM[loss]), max_iter, callback)
    problem = SmallProblem(data, coupling, C, fit_intercept)
    if loss == "hinge":
        W, alpha = _interior_point(problem, tracker)
    else:
        given = start_alpha(start, costs(data, C), loss)
        alpha = (given.T if data.shared else given).ravel()[problem.used]
        W, alpha = _newton(problem, tracker, loss, problem.coefficients(alpha))
    tracker.settle(tol)
    return svm_result(tracker, W.T, fit_intercept, problem.field(alpha))


# ---------------------------------------------------------------- smooth losses


def _newton(p: SmallProblem, tracker: Tracker, loss_name: str, W: Array) -> tuple[Array, Array]:
    """Newton's method with backtracking from W. With alpha = -C l'(z), half a gradient's M-norm squared is the gap."""
    loss, ones = SVM_LOSSES[loss_name], np.ones(len(p.cap))

    def value(W: Array, z: Array) -> float:
        return 0.5 * float(np.sum(W * (p.coupling.inverse @ W))) + loss.value(z, ones, p.cap)

    z = p.margins(W)
    primal, iteration = value(W, z), 0
    while True:
        alpha = -loss.gradient(z, ones, p.cap)
        gradient = p.coupling.inverse @ W - p.sums(alpha)
        gap = 0.5 * float(np.sum(gradient * p.coupling.apply(gradient)))
        if tracker.check_gap(iteration, primal, max(gap, 0.0)):
            return W, alpha
        iteration += 1
        step = -p.solve(p.factor(loss.hessian(z, ones, p.cap)), gradient)
        slope = float(np.sum(step * gradient))
        moved, length = p.margins(step), 1.0
        while value(W + length * step, z + length * moved) > primal + 1e-4 * length * slope:
            length /= 2
            if length < 1e-9:  # floats cannot tell the values apart any more; the full step still helps the gradient
                length, tracker.exhausted = 1.0, True
                break
        W, z = W + length * step, z + length * moved
        primal = value(W, z)


# ---------------------------------------------------------------- hinge


def _interior_point(p: SmallProblem, tracker: Tracker) -> tuple[Array, Array]:
    """Follow the central path of the dual: alpha s = mu and (cap - alpha) r = mu with s - r = z - 1.

    s and r are the multipliers of the bounds 0 and cap. Mehrotra's predictor and corrector, with one factor. At the
    end the support vectors that complementarity suggests are solved for exactly.
    """
    alpha, ones = 0.5 * p.cap, np.ones(len(p.cap))
    point = certify_kernel(p.X, p.coupling, ones, p.cap, alpha, 0.0)
    s = r = np.mean(np.abs(point.margins - 1.0) * p.cap) / alpha
    iteration, best = 0, np.inf
    while not tracker.check_gap(iteration, point.primal, point.gap):
        if tracker.gap.relative <= _SETS_KNOWN:
            sets = np.where(alpha < s * p.cap, 0.0, np.where(p.cap - alpha < r * p.cap, p.cap, alpha))
            exact = polish(p.X, p.coupling, ones, p.cap, sets, fit_intercept=False, max_free=SMALL_FREE)
            if exact is not None and exact.gap < point.gap:
                point, tracker.exhausted = exact, True
                continue
        tracker.exhausted = tracker.gap.relative < 1e-6 and point.gap > 0.9 * best
        best = min(best, point.gap)
        iteration += 1
        step, d_alpha, d_s, d_r = _central_step(p, alpha, s, r, point.margins)
        alpha, s, r = alpha + step * d_alpha, s + step * d_s, r + step * d_r
        point = certify_kernel(p.X, p.coupling, ones, p.cap, alpha, 0.0)
    return point.W, point.alpha


def _central_step(p: SmallProblem, alpha: Array, s: Array, r: Array, z: Array) -> tuple[float, Array, Array, Array]:
    """Return step length and directions of alpha, s and r towards a point further along the path."""
    room, size = p.cap - alpha, 2 * len(alpha)
    weights = 1.0 / (s / alpha + r / room)
    factor = p.factor(weights)
    residual = z - 1.0 - s + r

    def direction(target: float, bend_s: Array | float, bend_r: Array | float) -> tuple[Array, Array, Array]:
        to_s, to_r = (target - bend_s) / alpha - s, (target + bend_r) / room - r
        rhs = to_s - to_r - residual
        dW = p.solve(factor, p.sums(weights * rhs))
        d_alpha = weights * (rhs - p.margins(dW))
        return d_alpha, to_s - s / alpha * d_alpha, to_r + r / room * d_alpha

    def longest(d_alpha: Array, d_s: Array, d_r: Array) -> float:
        ratios = [-np.min(d / x, initial=0.0) for x, d in ((alpha, d_alpha), (room, -d_alpha), (s, d_s), (r, d_r))]
        return 1.0 / max(1.0, *ratios)

    mu = (alpha @ s + room @ r) / size
    d_alpha, d_s, d_r = direction(0.0, 0.0, 0.0)
    step = longest(d_alpha, d_s, d_r)
    ahead = ((alpha + step * d_alpha) @ (s + step * d_s) + (room - step * d_alpha) @ (r + step * d_r)) / size
    d_alpha, d_s, d_r = direction(mu * (ahead / mu) ** 3, d_alpha * d_s, d_alpha * d_r)
    return 0.995 * longest(d_alpha, d_s, d_r), d_alpha, d_s, d_r
