"""Multi-task multiple kernel learning with group-specific sharing.

Proximal gradient steps update the kernel weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtlrun.problem.objective import gap_scale
from mtlrun.problem.result import Callback, Tracker
from mtlrun.solvers.mkl.machines import SvmPoint, SvmTasks
from mtlrun.solvers.pairwise import (
    Flows,
    SimplexQuadratic,
    fuse,
    linear_minimum,
    minimize_on_simplex_ball,
    pair_distances,
)

Array = np.ndarray

# The step of the flows, relative to the spread of the slopes over the tasks.
_SPREAD = 0.2


class Coupling:
    """Coupling lam * sum_{s<t} ||theta_s - theta_t|| on simplex balls.

    They are theta_t >= 0 with sum(theta_t) <= 1.

    Parameters
    ----------
    lam : float
        0: every task has its own weights; infinity: one vector of weights for all
        tasks.
    n_tasks, n_kernels : int
    flows : Flows, optional
        Multipliers to start from, updated by every step. None if lam is 0 or infinite.

    Raises
    ------
    ValueError
        If lam is negative.
    """

    def __init__(
        self,
        lam: float,
        n_tasks: int,
        n_kernels: int,
        flows: Flows | None = None,
    ) -> None:
        if not lam >= 0:
            raise ValueError(f"lam must not be negative, got {lam}")
        self.lam = lam if n_tasks > 1 else 0.0
        self.flows = None
        if 0 < self.lam < np.inf:
            if flows is None:
                self.flows = Flows(n_tasks, n_kernels)
            else:
                self.flows = flows

    def step(
        self,
        theta: Array,
        slopes: Array,
        curvature: Array,
        tol: float,
    ) -> tuple[Array, Array]:
        """Minimize linear terms, distances from theta and the coupling.

        The objective is sum_t <slopes_t, new_t> + c_t/2 ||new_t - theta_t||^2 +
        coupling(new).

        Parameters
        ----------
        theta, slopes : ndarray of shape (T, M)
        curvature : ndarray of shape (T, 1)
            c_t: all positive, or all 0 for the linear problem.
        tol : float
            Absolute accuracy.

        Returns
        -------
        new : ndarray of shape (T, M)
        pull : ndarray of shape (T, M)
            With <pull, theta> <= coupling(theta) for all theta: what makes the lower
            bound.
        """
        if self.lam == 0:
            return minimize_on_simplex_ball(
                slopes - curvature * theta, curvature
            ), np.zeros_like(theta)
        if self.flows is None:
            mean, c = slopes.mean(axis=0), curvature.mean(axis=0, keepdims=True)
            new = minimize_on_simplex_ball(mean[None] - c * theta[:1], c)
            return np.repeat(new, len(theta), axis=0), mean - slopes
        spread = np.sqrt(np.mean(np.sum((slopes - slopes.mean(axis=0)) ** 2, axis=1)))
        sigma = max(
            _SPREAD * float(spread), float(curvature.mean()), np.finfo(np.float64).eps
        ) / len(theta)
        term = SimplexQuadratic(slopes - curvature * theta, curvature)
        fused = fuse(theta, term, self.lam, self.flows, sigma=sigma, tol=tol)
        return fused.W, self.flows.divergence()

    def value(self, theta: Array) -> float:
        """Return lam * sum of the distances."""
        if self.flows is None:
            return 0.0
        return self.lam * pair_distances(theta)


# A step that does not descend is repeated with this many times the curvature.
_BACKTRACK = 2.0
# Smallest decrease required, relative to curvature * ||step||^2.
_DECREASE = 1e-3
# A task's curvature estimate is kept within these multiples of the estimate for all
# tasks.
_FLATTER = 1e-2
_STEEPER = 1e3
# The smallest curvature relative to the slope: where all alpha are at their bounds, J_t
# is linear, and the projection of a step of any length would leave the simplex ball by
# rounding.
_FLATTEST = 1e-6
# Accuracy of the theta-step relative to tol * objective; tightened when the step is too
# coarse to move.
_INNER = 0.05
# A theta this close to an earlier one counts as the same: the alternating algorithm
# cycles.
_SAME = 1e-3


@dataclass
class MklResult:
    """Solution of multi-task MKL, with the history of the run.

    Attributes
    ----------
    theta : ndarray of shape (T, M)
    points : list of SvmPoint
        The machines at theta.
    converged : bool
    n_iter : int
    objective : list of float
        Primal values; for the corrected variant the best so far, the last one belonging
        to theta.
    gap : float
        Relative gap between the primal value at theta and a rigorous lower bound.
    gaps : list of (iteration, primal, dual)
    message : str
    info : dict
        ``n_fits`` (SVMs trained), ``curvature``, ``flows`` and, for the printed
        algorithm, ``cycle``: the objective values that repeat (empty when none do).
    """

    theta: Array
    points: list[SvmPoint]
    converged: bool
    n_iter: int
    objective: list[float]
    gap: float
    gaps: list[tuple[int, float, float]]
    message: str
    info: dict[str, Any] = field(default_factory=dict)


def solve_group_mkl(
    tasks: SvmTasks,
    lam: float,
    *,
    start: MklResult | None = None,
    tol: float = 1e-3,
    max_iter: int = 500,
    callback: Callback | None = None,
) -> MklResult:
    """Learn kernel weights of all tasks, pulled together in pairs.

    The weights theta_t of each task lie in the simplex ball {theta >= 0, sum(theta) <=
    1}, and minimize::

        F(theta) = sum_t J_t(theta_t) + lam sum_{s<t} ||theta_s - theta_t||_2
        J_t(theta_t) = max_alpha 1'alpha - 1/2 sum_m theta_t^m alpha'Y_t K_t^m Y_t
        alpha,  0 <= alpha <= C, alpha'y = 0

    F is convex, and J_t has the gradient q_t^m = -1/2 alpha'Y K^m Y alpha. The method
    is proximal gradient descent. The curvature of a step starts from the last move,
    task by task (Barzilai and Borwein; the SpaRSA method of Wright, Nowak and
    Figueiredo 2009), and is raised until F decreases. Consensus ADMM
    (`mtlrun.solvers.pairwise`) computes the prox of the pairs and the simplex balls;
    its flows are carried over.

    The certificate is rigorous: the upper bound is the primal value of the machines at
    (theta, alpha, b), not their dual value. The lower bound is sum_t 1'alpha_t + min(0,
    min_m (q_t + div p_t)^m) with flows p_st of norm at most lam.

    Parameters
    ----------
    tasks : SvmTasks
    lam : float
        0 (independent tasks) to infinity (one vector of weights for all tasks).
    start : MklResult, optional
        Warm start from a run on tasks of the same shape, with any lam and C.
    tol : float, default 1e-3
        Relative gap to stop at.
    max_iter : int, default 500
    callback : callable, optional
        Called with (iteration, best primal, best bound); stops the run by returning
        True.

    Returns
    -------
    MklResult

    References
    ----------
    Yousefi, Georgiopoulos and Anagnostopoulos, Multi-task learning with group-specific
    feature space sharing, ECML PKDD 2015: the objective. Their alternating algorithm is
    `solve_alternating`.
    """
    coupling, theta = _begin(tasks, lam, start)
    tracker = Tracker(tol, max_iter, callback, null=tasks.null)
    points = [tasks.solve(t, theta[t]) for t in range(tasks.n_tasks)]
    slopes = _slopes(points)
    curvature = _first_curvature(slopes, start)
    pull = np.zeros_like(theta)
    inner = _INNER
    for it in range(1, max_iter + 1):
        primal = _primal(points, coupling, theta)
        if it > 1 and tracker.check(
            it,
            primal,
            _bound(points, slopes, pull),
            (theta, points),
        ):
            break
        accuracy = tol * inner * gap_scale(primal, 0.0, tasks.null)
        new, pull = coupling.step(theta, slopes, curvature, accuracy)
        if tracker.check(it, primal, _bound(points, slopes, pull), (theta, points)):
            break
        while True:
            new_points = [tasks.solve(t, new[t]) for t in range(tasks.n_tasks)]
            # A lower bound against an upper one: inexact SVMs must not make a good step
            # look bad. Nor must rounding, which can put the bound of an exact SVM above
            # its value; no step is shorter than none.
            low = sum(p.low for p in new_points) + coupling.value(new)
            enough = _DECREASE * float(np.sum(curvature * np.square(new - theta)))
            if low <= primal - enough or np.array_equal(new, theta):
                break
            curvature = _BACKTRACK * curvature
            new, pull = coupling.step(theta, slopes, curvature, accuracy)
        if np.array_equal(new, theta):
            inner *= 0.1
        new_slopes = _slopes(new_points)
        curvature = _curvature(curvature, new - theta, new_slopes - slopes, new_slopes)
        theta = new
        points = new_points
        slopes = new_slopes
    return _finish(tasks, coupling, tracker, {"curvature": curvature})


def _first_curvature(slopes: Array, start: MklResult | None) -> Array:
    if start is not None:
        return np.asarray(np.maximum(start.info["curvature"], _least_curvature(slopes)))
    return np.full((len(slopes), 1), float(np.abs(slopes).max(initial=0.0)) or 1.0)


def _least_curvature(slopes: Array) -> Array:
    return _FLATTEST * np.abs(slopes).max(axis=1, keepdims=True)


def _curvature(last: Array, moved: Array, changed: Array, slopes: Array) -> Array:
    """Estimate the curvature of each J_t along its last move, (T, 1).

    If t has not moved, it is the estimate for all tasks.
    """
    least = _least_curvature(slopes)
    gains = np.maximum(np.sum(moved * changed, axis=1, keepdims=True), 0.0)
    squares = np.sum(moved * moved, axis=1, keepdims=True)
    if not (gains.sum() > 0 and squares.sum() > 0):
        return np.maximum(last / _BACKTRACK, least)
    common = gains.sum() / squares.sum()
    tiny = np.finfo(np.float64).eps * squares.max()
    estimate = np.where(squares > tiny, gains / np.maximum(squares, tiny), common)
    return np.asarray(
        np.maximum(np.clip(estimate, _FLATTER * common, _STEEPER * common), least)
    )


def solve_alternating(
    tasks: SvmTasks,
    lam: float,
    *,
    start: MklResult | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    step: Callable[[Array, Array], Array] | None = None,
) -> MklResult:
    """Alternate between the SVMs at theta and the weights theta at their solution.

    As published, theta minimizes the *linear* problem at fixed alpha. These are
    alternating best responses at a saddle point, not descent, and they cycle on most
    data. The run ends when an earlier theta comes back (`info["cycle"]` then holds the
    objective values that repeat), or when the gap is closed. The inner consensus ADMM
    is the correct one: the published updates (12) and (14) to (17) diverge. `step`
    replaces the linear problem: it returns new weights, given the old ones and the
    slopes of their machines.

    Other parameters and the return value are as in `solve_group_mkl`, which has a
    callback in addition; `theta` is the last iterate, whatever its objective.
    """
    coupling, theta = _begin(tasks, lam, start)
    tracker = Tracker(tol, max_iter, null=tasks.null)
    visited: list[Array] = []
    cycle: list[float] = []
    bound = -np.inf
    while True:
        points = [tasks.solve(t, theta[t]) for t in range(tasks.n_tasks)]
        slopes = _slopes(points)
        primal = _primal(points, coupling, theta)
        new, pull = coupling.step(
            theta,
            slopes,
            np.zeros((len(theta), 1)),
            tol * _INNER * gap_scale(primal, 0.0, tasks.null),
        )
        bound = max(bound, _bound(points, slopes, pull))
        visited.append(theta)
        stop = tracker.check_gap(len(visited), primal, primal - bound)
        if tracker.converged:
            break
        if step is not None:
            new = step(theta, slopes)
        elif period := _period(visited, new):
            cycle = tracker.objective[-period:]
            values = ", ".join(f"{value:.6g}" for value in cycle)
            tracker.message = (
                f"the alternating algorithm cycles with period {period}: objective "
                f"{values}"
            )
            break
        if stop:
            break
        theta = new
    tracker.best = theta, points
    return _finish(
        tasks,
        coupling,
        tracker,
        {"curvature": _first_curvature(slopes, None), "cycle": cycle},
    )


def _period(visited: list[Array], new: Array) -> int:
    """Return how many steps ago the weights `new` were there, 0 if never."""
    for back, old in enumerate(reversed(visited), start=1):
        if np.abs(old - new).max() <= _SAME:
            return back
    return 0


def _begin(
    tasks: SvmTasks,
    lam: float,
    start: MklResult | None,
) -> tuple[Coupling, Array]:
    """Return the coupling, and admissible weights to start from."""
    shape = (tasks.n_tasks, tasks.n_kernels)
    if start is None:
        return Coupling(lam, *shape), np.full(shape, 1.0 / tasks.n_kernels)
    if start.theta.shape != shape:
        raise ValueError(
            f"start has weights of shape {start.theta.shape}, need {shape}"
        )
    theta = start.theta
    if np.isinf(lam):
        theta = np.repeat(theta.mean(axis=0, keepdims=True), len(theta), axis=0)
    return Coupling(lam, *shape, start.info["flows"]), theta


def _slopes(points: list[SvmPoint]) -> Array:
    return np.array([p.slope for p in points])


def _primal(points: list[SvmPoint], coupling: Coupling, theta: Array) -> float:
    return sum(p.high for p in points) + coupling.value(theta)


def _bound(points: list[SvmPoint], slopes: Array, pull: Array) -> float:
    """Return the minimum over theta of the saddle function at fixed alpha.

    For the alpha of the machines it is below the optimum.
    """
    return sum(p.total for p in points) + linear_minimum(slopes + pull)


def _finish(
    tasks: SvmTasks,
    coupling: Coupling,
    tracker: Tracker,
    info: dict[str, Any],
) -> MklResult:
    theta, points = tracker.best
    info |= {"n_fits": tasks.n_fits, "flows": coupling.flows}
    return MklResult(
        theta,
        points,
        tracker.converged,
        tracker.n_iter,
        tracker.objective,
        tracker.gap.relative,
        tracker.gaps,
        tracker.message,
        info,
    )
