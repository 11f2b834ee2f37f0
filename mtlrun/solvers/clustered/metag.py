"""Least squares with tasks pulled together in pairs, by the iteration of `mtlrun.solvers.pairwise`."""

from __future__ import annotations

import numpy as np

from mtlrun.problem.objective import relative_gap
from mtlrun.problem.quadratic import Rotation, in_row_space, prepare
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.pairwise import Flows, TaskTerm, fuse, pair_distances
from mtlrun.utils.jit import compiled

# The first steps of the flows are tried with these multiples of the typical curvature; the best one goes on.
_TRIALS = (0.03, 0.3, 3.0)
_TRIAL_LENGTH = 30
# Iterations between trials.
_ROUND = 300


class LeastSquares(TaskTerm):
    """1/2 sum_t ||y_t - X_t w_t||^2 + ridge/2 ||W||_F^2 (centred where intercepts are fitted, rows weighted).

    Parameters
    ----------
    rotation : Rotation
    ridge : float, default 0.0
    """

    def __init__(self, rotation: Rotation, ridge: float = 0.0) -> None:
        self.rotation, self.ridge = rotation, ridge
        if ridge > 0:
            return
        gram = rotation.operator.gram(rotation.data.weights)
        values, vectors = np.linalg.eigh(gram * rotation.data.n_tasks if gram.ndim == 2 else gram.sum(axis=0))
        kept = values > 4.0 * np.finfo(np.float64).eps * len(values) * max(float(values[-1]), 0.0)
        self._pooled = (vectors[:, kept], values[kept])

    def prox(self, V: np.ndarray, weight: float) -> np.ndarray:
        V = (weight / (weight + self.ridge)) * V
        weight = weight + self.ridge
        q = self.rotation.rotate(V.T)
        moved = (self.rotation.cross - self.rotation.squares * q) / (self.rotation.squares + weight)
        return V + self.rotation.lift(moved).T

    def value(self, W: np.ndarray) -> float:
        return self.rotation.value(self.rotation.rotate(W.T)) + 0.5 * self.ridge * float(np.vdot(W, W))

    def bound(self, W: np.ndarray, flows: Flows, lam: float) -> float:
        return self._conjugate(flows) if self.ridge > 0 else self._dual(W, flows, lam)

    def _conjugate(self, flows: Flows) -> float:
        """Return the minimum over W of the loss, the ridge and <div p, W>, in closed form."""
        pull = flows.divergence().T
        inside = self.rotation.rotate(pull)
        outside = float(np.sum(pull * pull)) - float(np.sum(inside * inside))
        gain = np.square(self.rotation.cross - inside) / (self.rotation.squares + self.ridge)
        return 0.5 * float(self.rotation.energy.sum() - gain.sum()) - 0.5 * max(outside, 0.0) / self.ridge

    def _dual(self, W: np.ndarray, flows: Flows, lam: float) -> float:
        """Return the dual value at the residuals of W, shifted and scaled to be feasible.

        A dual point theta needs X_t'theta_t = div p_t with flows of norm at most lam. Moving all tasks by one vector (a
        pooled least-squares fit) makes sum_t X_t'theta_t = 0; what is left between X'theta and div p is spread evenly
        over the pairs; then everything is scaled.
        """
        rotation, W = self.rotation, self.centre(W)
        slope = self._negative_gradient(W)
        rest = slope - flows.divergence()
        peak = float(_largest_flow(flows.values, rest / len(W)))
        c = 1.0 if peak <= lam else lam / peak
        return max(0.0, rotation.dual_fit(rotation.rotate(W.T), c))

    def centre(self, W: np.ndarray) -> np.ndarray:
        """Return W with all tasks moved by the vector that lowers the loss most; differences stay. Not with a ridge."""
        if self.ridge > 0:
            return W
        vectors, values = self._pooled
        return W + vectors @ ((vectors.T @ self._negative_gradient(W).sum(axis=0)) / values)

    def alone(self) -> np.ndarray:
        """Return the solution of every task alone, of smallest norm, (T, d)."""
        squares = np.broadcast_to(self.rotation.squares + self.ridge, self.rotation.cross.shape)
        positive = squares > 0
        q = np.where(positive, self.rotation.cross / np.where(positive, squares, 1.0), 0.0)
        return self.rotation.lift(q).T

    def _negative_gradient(self, W: np.ndarray) -> np.ndarray:
        q = self.rotation.rotate(W.T)
        return self.rotation.lift(self.rotation.cross - self.rotation.squares * q).T


def solve_metag(
    data: TaskData,
    lam: float,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> SolverResult:
    """Minimise 1/2 sum_t ||y_t - X_t w_t - b_t||^2 + lam sum_{s<t} ||w_s - w_t||_2 + ridge/2 ||W||_F^2.

    Parameters
    ----------
    data : TaskData
    lam : float
        Not negative; 0 gives the solution of every task alone, of smallest norm.
    ridge : float, default 0.0
        Not negative.
    fit_intercept : bool, default True
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000

    Returns
    -------
    SolverResult
        One part.
    """
    data, basis = in_row_space(data)
    rotation = prepare(data, fit_intercept)
    term = LeastSquares(rotation, ridge)
    W, T = term.alone(), data.n_tasks
    gaps: list[tuple[int, float, float]] = []
    if lam == 0 or T == 1:
        gaps.append((1, term.value(W), term.bound(W, Flows(*W.shape), 0.0)))
    else:
        W = term.centre(np.repeat(W.mean(axis=0, keepdims=True), T, axis=0))
        W = _descend(term, W, lam, tol, max_iter, gaps)
    it, primal, dual = gaps[-1]
    gap = relative_gap(primal, dual)
    return SolverResult(
        parts=np.ascontiguousarray(W.T if basis is None else basis @ W.T)[None],
        intercept=rotation.intercept(W.T),
        converged=gap <= tol,
        n_iter=it,
        objective=[value for _, value, _ in gaps],
        gap=gap,
        gaps=gaps,
        stop_crit=gap,
        message=f"relative duality gap {gap:.2e} against tol {tol:g}",
    )


def _descend(
    term: LeastSquares, W: np.ndarray, lam: float, tol: float, max_iter: int, gaps: list[tuple[int, float, float]]
) -> np.ndarray:
    """Run `fuse` in rounds, each beginning with short trials of the step of the flows; append to `gaps`."""
    squares = term.rotation.squares
    sigma = float(squares[squares > 0].mean()) / len(W) if np.any(squares > 0) else 1.0
    flows, done, best, bound = Flows(*W.shape), 0, np.inf, -np.inf
    while done < max_iter:
        goal = tol * max(1.0, best if np.isfinite(best) else term.value(W))
        trials = []
        for factor in _TRIALS:
            own = flows.copy()
            length = min(_TRIAL_LENGTH, max_iter - done)
            trials.append(
                (fuse(W, term, lam, own, sigma=factor * sigma, tol=goal, max_iter=length), own, factor * sigma)
            )
        trial, flows, sigma = min(trials, key=lambda found: found[0].primal - found[0].bound)
        done += trial.n_iter
        found = fuse(trial.W, term, lam, flows, sigma=sigma, tol=goal, max_iter=min(_ROUND, max(max_iter - done, 1)))
        done += found.n_iter
        if found.primal < best:
            best, W = found.primal, term.centre(found.W)
            best = min(best, term.value(W) + lam * pair_distances(W))
        bound = max(bound, found.bound, trial.bound)
        gaps.append((done, best, bound))
        if relative_gap(best, bound) <= tol:
            break
    return W


@compiled
def _largest_flow(P: np.ndarray, rest: np.ndarray) -> float:
    """Return the largest norm of p_st + rest_s - rest_t."""
    T, d = rest.shape
    largest = 0.0
    i = 0
    for s in range(T):
        for t in range(s + 1, T):
            square = 0.0
            for j in range(d):
                square += (P[i, j] + rest[s, j] - rest[t, j]) ** 2
            largest = max(largest, square)
            i += 1
    return np.sqrt(largest)
