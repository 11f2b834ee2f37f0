"""ADMM that also splits off the predictions: for any loss with a closed-form prox, in eigenbases of the designs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mtlrun.problem.intercept import optimal_intercept
from mtlrun.problem.losses import Loss
from mtlrun.problem.objective import dual_value
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.common import Callback, Tracker, start_parts
from mtlrun.solvers.convex.balancing import RELAXATION, balance, guess_rho, next_balance, total
from mtlrun.solvers.convex.presolve import needed_parts
from mtlrun.solvers.convex.rotation import Rotation, prepare

# Where the residuals of the predictions should balance; with 1 the number of iterations triples on hard problems.
_FIELD_BIAS = 0.45


@dataclasses.dataclass
class SplitState:
    """Where a run of `solve_split` ended, for a warm start.

    Attributes
    ----------
    Z, U : list of ndarray of shape (d, T)
        Prox copies and scaled multipliers of all parts.
    M, V : ndarray
        Fields: split predictions and their scaled multipliers.
    rho, rho_field : float
        Penalty parameters.
    """

    Z: list[np.ndarray]
    U: list[np.ndarray]
    M: np.ndarray
    V: np.ndarray
    rho: float
    rho_field: float


def solve_split(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | np.ndarray | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 10000,
    presolve: bool = True,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise loss + penalties over parts W_1..W_K (and intercepts) by ADMM on parts and predictions.

    ::

        sum_i w_i l(M_i, y_i) + sum_k penalty_k(Z_k)   s.t.   Z_k = W_k,   M = X sum_k W_k + b

    The step in (W, b) is a ridge problem with the designs of all tasks, elementwise in their eigenbases; weights and
    masks belong to the prox of the loss, so that masked shared data need one basis only. Both penalty parameters are
    balanced during the first 300 iterations. The primal value is taken at the prox copies with the best intercepts for
    them, the dual value at the multipliers of the predictions, which always lie in the domain of the conjugate.

    Parameters
    ----------
    data : TaskData
    loss : Loss
        Any, the hinge included.
    penalties : sequence of Penalty
        One per part.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start: the result of an earlier run on data of the same shape, or parts.
    rotation : Rotation, optional
        From `prepare` for data with the same X and tasks, without weights and mask.
    fit_intercept : bool, default False
        Unpenalised intercepts.
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 10000
    presolve : bool, default True
        Leave out parts that cannot be needed (`needed_parts`).
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every check of the gap; stops the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``state`` (`SplitState`), ``rho``, ``rho_field``, ``relative_reduced`` and ``needed``.

    Raises
    ------
    ValueError
        If the rotation belongs to other data or has weights, or `start` has a wrong shape.
    """
    rotation = _checked_rotation(rotation, data, fit_intercept)
    shape = (data.n_features, data.n_tasks)
    needed = needed_parts(penalties, shape) if presolve else list(range(len(penalties)))
    run = _Run(data, loss, [penalties[k] for k in needed], rotation)
    first = start_parts(start, len(penalties), shape)
    state = start.info.get("state") if isinstance(start, SolverResult) else None
    if isinstance(state, SplitState) and state.M.shape == data.targets.shape:
        run.resume(state, needed)
    elif first is not None:
        run.begin_at(first, needed)
    tracker = Tracker(tol, max_iter, callback)
    run.until(tracker)
    parts, b = tracker.best
    full = np.zeros((len(penalties), *shape))
    for k, part in zip(needed, parts, strict=True):
        full[k] = run.coefficients(part)
    b = rotation.uncentred(full.sum(axis=0), b)
    return tracker.result(
        full, b, needed=needed, state=run.state(needed, len(penalties)), rho=run.rho, rho_field=run.rho_field
    )


class _Run:
    """The iteration, in (r, T) coordinates of a shared basis where all penalties allow it, else in coefficients."""

    def __init__(self, data: TaskData, loss: Loss, penalties: list[Penalty], rotation: Rotation) -> None:
        self.data, self.loss, self.penalties, self.rotation = data, loss, penalties, rotation
        self.rotated = rotation.shared and all(p.rotation_invariant for p in penalties)
        shape = (rotation.rank if self.rotated else data.n_features, data.n_tasks)
        self.rho = guess_rho(penalties, rotation, shape, loss.scale)
        self.rho_field = loss.scale
        self.Z = [np.zeros(shape) for _ in penalties]
        self.U = [np.zeros(shape) for _ in penalties]
        self.M, self.V = np.zeros_like(data.targets), np.zeros_like(data.targets)
        self._weights = data.effective_weights()
        self._operator = TaskOperator(data)

    def resume(self, state: SplitState, needed: list[int]) -> None:
        """Go on from the end of another run."""
        self.rho, self.rho_field = state.rho, state.rho_field
        self.Z = [self._working(state.Z[k]) for k in needed]
        self.U = [np.array(self._working(state.U[k])) for k in needed]  # changed in place
        self.M, self.V = state.M.copy(), state.V.copy()

    def begin_at(self, parts: np.ndarray, needed: list[int]) -> None:
        """Begin at given parts, with the multipliers that they would have at an optimum."""
        self.Z = [self._working(parts[k]) for k in needed]
        for k in set(range(len(parts))) - set(needed):
            self.Z[0] = self.Z[0] + self._working(parts[k])
        z = self._scores(total(self.Z))
        self.M = z + self.data.spread(self._best_intercept(z))
        slope = self.loss.gradient(self.M, self.data.targets, self._weights)
        self.V = slope / self.rho_field
        pulled = self.rotation.pull(slope) if self.rotated else self.rotation.operator.adjoint(slope)
        self.U = [pulled / -self.rho for _ in needed]

    def until(self, tracker: Tracker) -> None:
        """Iterate until the tracker says stop."""
        balance_at = next_balance(0)
        for it in range(1, tracker.max_iter + 1):
            W, z = self._ridge_step()
            Z, M = self.Z, self.M
            values = self._prox_step(W, z)
            if tracker.due(it) and self._check(tracker, it, values):
                break
            if it == balance_at:
                self._rebalance(W, z, Z, M)
                balance_at = next_balance(it)

    def state(self, needed: list[int], n_parts: int) -> SplitState:
        shape = (self.data.n_features, self.data.n_tasks)
        Z, U = [np.zeros(shape) for _ in range(n_parts)], [np.zeros(shape) for _ in range(n_parts)]
        for k, z, u in zip(needed, self.Z, self.U, strict=True):
            Z[k], U[k] = self.coefficients(z), self.coefficients(u)
        return SplitState(Z, U, self.M, self.V, self.rho, self.rho_field)

    def coefficients(self, Z: np.ndarray) -> np.ndarray:
        """Return (d, T) coefficients of a matrix of the iteration."""
        return self.rotation.lift(Z) if self.rotated else Z

    def _ridge_step(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the parts W_k and their predictions (intercepts included) nearest to Z - U and M - V."""
        A = [z - u for z, u in zip(self.Z, self.U, strict=True)]
        a, target, b = total(A), self.M - self.V, None
        if self.rotation.fit_intercept:  # the centred designs predict with mean zero
            b = self.data.spread(self.rotation.data.sum_by_task(target) / self.rotation.data.sizes)
            target -= b
        kappa = len(A) * self.rho_field / self.rho
        squares = self.rotation.squares
        q = a if self.rotated else self.rotation.rotate(a)
        moved = kappa * (self.rotation.pull(target) - squares * q) / (1.0 + kappa * squares)
        if not self.rotated:
            moved = self.rotation.lift(moved)
        z = self._scores(a + moved)
        if b is not None:
            z += b
        moved /= len(A)
        return [x + moved for x in A], z

    def _prox_step(self, W: list[np.ndarray], z: np.ndarray) -> list[float]:
        """Update Z, U, M and V, over-relaxed; return the values of the penalties."""
        values = []
        old, self.Z = self.Z, []
        for p, w, z_old, u in zip(self.penalties, W, old, self.U, strict=True):
            u += RELAXATION * w + (1.0 - RELAXATION) * z_old
            prox, value = p.prox_value(u, 1.0 / self.rho)
            u -= prox
            self.Z.append(prox)
            values.append(value)
        self.V += RELAXATION * z + (1.0 - RELAXATION) * self.M
        self.M = self.loss.prox(self.V, self.data.targets, 1.0 / self.rho_field, self._weights)
        self.V -= self.M
        return values

    def _check(self, tracker: Tracker, it: int, values: list[float]) -> bool:
        z = self._scores(total(self.Z))
        b = self._best_intercept(z)
        primal = self.loss.value(z + self.data.spread(b), self.data.targets, self._weights) + sum(values)
        theta = -self.rho_field * self.V
        if self._weights is not None:
            theta[self._weights == 0] = 0.0  # anything else there is rounding
        dual = dual_value(
            theta,
            self.data,
            self.loss,
            self.penalties,
            intercept=self.rotation.fit_intercept,
            operator=self._operator,
        )
        return tracker.check(it, primal, dual, (self.Z, b))

    def _rebalance(self, W: list[np.ndarray], z: np.ndarray, Z: list[np.ndarray], M: np.ndarray) -> None:
        factor = balance(W, Z, self.Z, self.U)
        self.rho *= factor
        for u in self.U:
            u /= factor
        factor = balance([z], [M], [self.M], [self.V], bias=_FIELD_BIAS)
        self.rho_field *= factor
        self.V /= factor

    def _working(self, W: np.ndarray) -> np.ndarray:
        return self.rotation.rotate(W) if self.rotated else W

    def _scores(self, Z: np.ndarray) -> np.ndarray:
        return self.rotation.scores(Z) if self.rotated else self.rotation.operator.forward(Z)

    def _best_intercept(self, z: np.ndarray) -> np.ndarray:
        if not self.rotation.fit_intercept:
            return np.zeros(self.data.n_tasks)
        return optimal_intercept(self.data, self.loss, z)


def _checked_rotation(rotation: Rotation | None, data: TaskData, fit_intercept: bool) -> Rotation:
    if rotation is None:
        return prepare(dataclasses.replace(data, weights=None, observed=None), fit_intercept)
    same = rotation.data.X is data.X and rotation.data.offsets is data.offsets and rotation.data.weights is None
    if not same or rotation.data.n_tasks != data.n_tasks or rotation.fit_intercept != fit_intercept:
        raise ValueError("the rotation was prepared from other data, with weights, or with another fit_intercept")
    return rotation
