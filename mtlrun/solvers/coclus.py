"""Co-clusters of tasks and features: a part near the mean of the tasks plus a part of low rank, not convex."""

from __future__ import annotations

import numpy as np

from mtlrun.core.losses import Loss
from mtlrun.core.result import SolverResult
from mtlrun.core.taskdata import TaskData
from mtlrun.solvers.smooth import Point, SmoothLoss, smooth_loss

# How often the values are noted and the criterion is tested.
_EVERY = 5


def deviation_prox(P: np.ndarray, strength: float) -> np.ndarray:
    """Return the prox of strength * sum_t ||p_t - mean||^2: the mean stays, deviations shrink by 1 + 2 strength."""
    mean = P.mean(axis=1, keepdims=True)
    return mean + (P - mean) / (1.0 + 2.0 * strength)


def residual_prox(Q: np.ndarray, strength: float, k: int) -> np.ndarray:
    """Return a prox of strength * sum_{i>k} sigma_i(Q)^2: the k leading directions stay, others shrink."""
    top = leading_part(Q, k)
    return top + (Q - top) / (1.0 + 2.0 * strength)


def leading_part(Q: np.ndarray, k: int) -> np.ndarray:
    """Return the best approximation of Q of rank k."""
    if k >= min(Q.shape):
        return Q.copy()
    if Q.shape[1] <= Q.shape[0]:
        V = np.linalg.eigh(Q.T @ Q)[1][:, -k:]
        return (Q @ V) @ V.T
    U = np.linalg.eigh(Q @ Q.T)[1][:, -k:]
    return U @ (U.T @ Q)


def penalty_values(P: np.ndarray, Q: np.ndarray, k: int) -> tuple[float, float]:
    """Return sum_t ||p_t - mean||^2 and sum_{i>k} sigma_i(Q)^2."""
    deviations = P - P.mean(axis=1, keepdims=True)
    rest = Q - leading_part(Q, k)
    return float(np.vdot(deviations, deviations)), float(np.vdot(rest, rest))


def solve_coclus(
    data: TaskData,
    loss: Loss,
    shared: float,
    low_rank: float,
    k: int,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> SolverResult:
    """Minimise loss(P + Q) + shared sum_t ||p_t - mean||^2 + low_rank sum_{i>k} sigma_i(Q)^2.

    Proximal alternating linearised minimisation (Bolte, Sabach and Teboulle 2014), started at zero: a proximal gradient
    step in P (with the intercepts), then one in Q, each with a step found by backtracking. The objective never rises;
    the limit is a critical point.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        Smooth.
    shared, low_rank : float
        Non-negative.
    k : int
        Rank that costs nothing, at least 1.
    fit_intercept : bool, default True
    tol : float, default 1e-4
        Largest length of a proximal gradient step times its curvature, relative to the gradient at the start.
    max_iter : int, default 5000

    Returns
    -------
    SolverResult
        parts (P, Q); `gap` is None (the problem is not convex), `stop_crit` the criterion reached.
    """
    smooth = smooth_loss(data, loss, fit_intercept)
    run = _Palm(smooth, shared, low_rank, k)
    objective, crit, it = [run.objective()], np.inf, 0
    for it in range(1, max_iter + 1):
        crit = run.step()
        if it % _EVERY == 0 or it == max_iter or crit <= tol:
            objective.append(run.objective())
        if crit <= tol:
            break
    return SolverResult(
        parts=np.stack([run.P, run.Q]),
        intercept=smooth.intercept(run.at),
        converged=crit <= tol,
        n_iter=it,
        objective=objective,
        stop_crit=crit,
        message=f"proximal gradient {crit:.2e} against tol {tol:g}",
    )


class _Palm:
    """P, Q, and the point of their sum."""

    def __init__(self, smooth: SmoothLoss, shared: float, low_rank: float, k: int) -> None:
        self.smooth, self.shared, self.low_rank, self.k = smooth, shared, low_rank, k
        self.P = np.zeros((smooth.data.n_features, smooth.data.n_tasks))
        self.Q = np.zeros_like(self.P)
        self.at = smooth.point(self.P)
        first = smooth.gradient(self.at)
        self.scale = float(np.sqrt(np.vdot(first.W, first.W) + np.vdot(first.b, first.b))) or 1.0
        bound = max(smooth.curvature, np.finfo(np.float64).tiny)
        self.curvature = [bound / 4.0, bound / 4.0]
        self.bound = [bound * (2.0 if smooth.with_b else 1.0), bound]
        self.b_units = smooth.curvature_b / smooth.curvature if smooth.with_b and smooth.curvature > 0 else 1.0

    def objective(self) -> float:
        of_P, of_Q = penalty_values(self.P, self.Q, self.k)
        return self.smooth.value(self.at) + self.shared * of_P + self.low_rank * of_Q

    def step(self) -> float:
        """Make one step in P and one in Q; return the criterion."""
        length = self._block(0) + self._block(1)
        return float(np.sqrt(length)) / self.scale

    def _block(self, block: int) -> float:
        gradient = self.smooth.gradient(self.at)
        old = self.P if block == 0 else self.Q
        rest = self.Q if block == 0 else self.P
        with_b = self.smooth.with_b and block == 0
        curvature = 0.9 * self.curvature[block]
        while True:
            moved = old - gradient.W / curvature
            if block == 0:
                part = deviation_prox(moved, self.shared / curvature)
            else:
                part = residual_prox(moved, self.low_rank / curvature, self.k)
            b = self.at.b - gradient.b / (curvature * self.b_units) if with_b else self.at.b
            new: Point = self.smooth.point(rest + part, b)
            change = float(np.sum(np.square(part - old)))
            model = change + self.b_units * float(np.sum(np.square(b - self.at.b)))
            if curvature >= self.bound[block] or self.smooth.excess(self.at, gradient, new) <= 0.5 * curvature * model:
                break
            curvature = min(2.0 * curvature, self.bound[block])
        self.curvature[block] = curvature
        if block == 0:
            self.P = part
        else:
            self.Q = part
        self.at = new
        return curvature**2 * model
