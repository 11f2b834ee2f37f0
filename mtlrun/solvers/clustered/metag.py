"""Least squares with tasks pulled together in pairs, by the iteration of `mtlrun.solvers.pairwise`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mtlrun.problem.objective import relative_gap
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import RowSpace
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.pairwise import Flows, TaskTerm, fuse, pair_distances
from mtlrun.utils.jit import compiled

# The first step of the flows is this part of the typical curvature. These multiples of the last step are tried in the
# order given, until one of them solves the problem; the best one goes on.
_FIRST = 0.3
_TRIALS = (1.0, 0.1, 10.0)
_TRIAL_LENGTH = 30
# Iterations between trials.
_ROUND = 300


class LeastSquares(TaskTerm):
    """1/2 sum_t ||y_t - X_t w_t||^2 + ridge/2 ||W||_F^2 (centred where intercepts are fitted, rows weighted).

    Parameters
    ----------
    space : RowSpace
    ridge : float, default 0.0
    """

    def __init__(self, space: RowSpace, ridge: float = 0.0) -> None:
        self.space, self.rotation, self.ridge = space, space.rotation, ridge

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
        """Return W with all tasks moved by the vector that lowers the loss and the ridge most; differences stay."""
        values, vectors = self.space.pooled
        slope = self._negative_gradient(W).sum(axis=0)
        along = vectors.T @ slope
        move = vectors @ (along / (values + len(W) * self.ridge))
        if self.ridge > 0:  # what no task sees
            move += (slope - vectors @ along) / (len(W) * self.ridge)
        return W + move

    def alone(self) -> np.ndarray:
        """Return the solution of each task, of smallest norm, (T, d)."""
        squares = np.broadcast_to(self.rotation.squares + self.ridge, self.rotation.cross.shape)
        positive = squares > 0
        q = np.where(positive, self.rotation.cross / np.where(positive, squares, 1.0), 0.0)
        return self.rotation.lift(q).T

    def flows(self, W: np.ndarray) -> Flows:
        """Return the flows that hold W in place, whatever their length: for equal coefficients the best ones."""
        slope, flows = self._negative_gradient(W) / len(W), Flows(*W.shape)
        first, second = np.triu_indices(len(W), 1)
        flows.values[:] = slope[first] - slope[second]
        return flows

    def _negative_gradient(self, W: np.ndarray) -> np.ndarray:
        """Return minus the gradient of the loss and the ridge, (T, r)."""
        q = self.rotation.rotate(W.T)
        return self.rotation.lift(self.rotation.cross - self.rotation.squares * q).T - self.ridge * W


def solve_metag(
    data: TaskData,
    lam: float,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 5000,
    space: RowSpace | None = None,
    start: SolverResult | None = None,
) -> SolverResult:
    """Minimise 1/2 sum_t ||y_t - X_t w_t - b_t||^2 + lam sum_{s<t} ||w_s - w_t||_2 + ridge/2 ||W||_F^2.

    Parameters
    ----------
    data : TaskData
    lam : float
        Not negative; 0 gives the solution of each task, of smallest norm.
    ridge : float, default 0.0
        Not negative.
    fit_intercept : bool, default True
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000
    space : RowSpace, optional
        That of these data with this `fit_intercept`; made if it is not given.
    start : SolverResult, optional
        Of the same data and `space` with other strengths: begin there.

    Returns
    -------
    SolverResult
        One part; `info` holds where another run can start.
    """
    space = RowSpace.of(data, fit_intercept) if space is None else space
    term = LeastSquares(space, ridge)
    gaps: list[tuple[int, float, float]] = []
    if lam == 0 or data.n_tasks == 1:
        W = term.alone()
        at = Node(W, Flows(*W.shape))
        gaps.append((1, term.value(W), term.bound(*at, 0.0)))
    else:
        places = [_equal(term)] if start is None else [_equal(term), start.info["at"]]
        at = min(places, key=lambda place: term.value(place.W) + lam * pair_distances(place.W))
        at = _descend(term, at, lam, tol, max_iter, gaps)
    it, primal, dual = gaps[-1]
    gap = relative_gap(primal, dual)
    return SolverResult(
        parts=space.lift(np.ascontiguousarray(at.W.T)[None]),
        intercept=space.rotation.intercept(at.W.T),
        converged=gap <= tol,
        n_iter=it,
        objective=[value for _, value, _ in gaps],
        gap=gap,
        gaps=gaps,
        stop_crit=gap,
        message=f"relative duality gap {gap:.2e} against tol {tol:g}",
        info={"at": at},
    )


class Node(NamedTuple):
    """Coefficients (T, r) in coordinates, and flows."""

    W: np.ndarray
    flows: Flows


def _equal(term: LeastSquares) -> Node:
    """Return the best place where all tasks have equal coefficients: the solution if no flow is longer than lam."""
    W = term.centre(np.zeros((term.rotation.data.n_tasks, term.rotation.data.n_features)))
    return Node(W, term.flows(W))


def _descend(
    term: LeastSquares, at: Node, lam: float, tol: float, max_iter: int, gaps: list[tuple[int, float, float]]
) -> Node:
    """Run `fuse` in rounds, each beginning with short trials of the step of the flows; append to `gaps`."""

    def value(W: np.ndarray) -> float:
        return term.value(W) + lam * pair_distances(W)

    W, flows = at.W, at.flows.copy()
    flows.shrink_to(lam)
    squares = term.rotation.squares
    sigma = _FIRST * float(squares[squares > 0].mean()) / len(W) if np.any(squares > 0) else 1.0
    done, best, bound = 0, value(W), term.bound(W, flows, lam)
    gaps.append((1, best, bound))
    while done < max_iter and relative_gap(best, bound) > tol:
        goal = tol * max(1.0, best)
        trials = []
        for factor in _TRIALS:
            own, length = flows.copy(), min(_TRIAL_LENGTH, max_iter - done)
            trials.append(
                (fuse(W, term, lam, own, sigma=factor * sigma, tol=goal, max_iter=length), own, factor * sigma)
            )
            if trials[-1][0].converged:
                break
        found, flows, sigma = min(trials, key=lambda trial: trial[0].primal - trial[0].bound)
        done += found.n_iter
        bound = max(bound, found.bound)
        if not found.converged:
            length = min(_ROUND, max(max_iter - done, 1))
            found = fuse(found.W, term, lam, flows, sigma=sigma, tol=goal, max_iter=length)
            done += found.n_iter
            bound = max(bound, found.bound)
        if found.primal < best:
            W = term.centre(found.W)
            best = min(found.primal, value(W))
        gaps.append((done, best, bound))
    return Node(W, flows)


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
