"""Two-block ADMM for the squared loss and any sum of penalties with a closed-form prox, stopped on the duality gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import feasible_scale
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.common import Callback, Tracker, start_parts
from mtlrun.solvers.convex.balancing import RELAXATION, balance, guess_rho, next_balance, total
from mtlrun.solvers.convex.presolve import needed_parts
from mtlrun.solvers.convex.rotation import Rotation, prepare


@dataclass
class AdmmState:
    """Where a run of `solve_admm` ended, for a warm start on the same data.

    Attributes
    ----------
    rotation : Rotation
    rotated : bool
        Whether the arrays are coordinates (r, T) rather than coefficients (d, T).
    Z, U : dict of int to ndarray
        Prox copies and scaled multipliers of the parts that were needed.
    rho : float
    """

    rotation: Rotation
    rotated: bool
    Z: dict[int, np.ndarray]
    U: dict[int, np.ndarray]
    rho: float

    def fits(self, space: _Space, needed: list[int]) -> bool:
        """Whether an iteration over `space` can go on from here."""
        same = self.rotation is space.rotation and self.rotated == space.rotated
        return same and set(needed) <= set(self.Z)


def solve_admm(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | np.ndarray | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 5000,
    rho: float | None = None,
    presolve: bool = True,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise squared loss + penalties over parts W_1..W_K (and intercepts) by ADMM in eigenbases of the designs.

    ::

        scale/2 sum_t ||y_t - X_t sum_k w_kt - b_t||^2 + sum_k penalty_k(W_k)      (rows weighted, if data have weights)

    The data step is elementwise in the eigenbasis (one for a shared design, else one per task). If the design is shared
    and all penalties are invariant under rotations, everything happens in min(n, d) x T coordinates. The penalty
    parameter rho is balanced during the first 300 iterations and frozen then. The certificate takes the primal value at
    the prox copies and the dual value at the data-step variable, scaled per task where a penalty allows; the best of
    both are kept.

    Parameters
    ----------
    data : TaskData
    loss : SquaredLoss
    penalties : sequence of Penalty
        One per part.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start: the result of an earlier run on the same data (its multipliers are used too) or parts.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; computed if not given.
    fit_intercept : bool, default False
        Unpenalised intercepts.
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000
    rho : float, optional
        First penalty parameter; by default guessed from a ridge solution.
    presolve : bool, default True
        Leave out parts that cannot be needed (`needed_parts`).
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every check of the gap; stops the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``rho``, ``state`` (`AdmmState`), ``unavoidable`` (loss that no coefficients can remove),
        ``relative_reduced`` (the gap relative to the objective without it) and ``needed`` (positions of parts).

    Raises
    ------
    ValueError
        If the loss is not the squared loss, the rotation belongs to other data, or `start` has a wrong shape.
    """
    if not isinstance(loss, SquaredLoss):
        raise ValueError(f"solve_admm needs SquaredLoss, got {type(loss).__name__}; use solve_split or solve_fista")
    rotation = _checked_rotation(rotation, data, fit_intercept)
    shape = (data.n_features, data.n_tasks)
    needed = needed_parts(penalties, shape) if presolve else list(range(len(penalties)))
    space = _Space(rotation, [penalties[k] for k in needed], loss.scale)
    Z, U, rho = _first_iterate(space, needed, len(penalties), start, rho)
    tracker = Tracker(tol, max_iter, callback, unavoidable=0.5 * loss.scale * rotation.unexplained)
    Z, U, rho = _iterate(space, Z, U, rho, tracker)
    parts = np.zeros((len(penalties), *shape))
    for k, best in zip(needed, tracker.best, strict=True):
        parts[k] = space.coefficients(best)
    state = AdmmState(
        rotation, space.rotated, dict(zip(needed, Z, strict=True)), dict(zip(needed, U, strict=True)), rho
    )
    return tracker.result(parts, rotation.intercept(parts.sum(axis=0)), rho=rho, state=state, needed=needed)


class _Space:
    """The problem in the coordinates in which the iteration runs.

    Rotated: (r, T) coordinates of a shared basis. Otherwise (d, T) coefficients, rotated for the data step only.
    """

    def __init__(self, rotation: Rotation, penalties: list[Penalty], scale: float) -> None:
        self.rotation = rotation
        self.penalties = penalties
        self.scale = scale
        self.rotated = rotation.shared and all(p.rotation_invariant for p in penalties)
        rows = rotation.rank if self.rotated else rotation.data.n_features
        self.shape = (rows, rotation.data.n_tasks)

    def coefficients(self, Z: np.ndarray) -> np.ndarray:
        return self.rotation.lift(Z) if self.rotated else Z

    def working(self, W: np.ndarray) -> np.ndarray:
        return self.rotation.rotate(W) if self.rotated else W

    def data_step(self, a: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return S - a and the coordinates of S, S = argmin scale/2 ||y - X S||^2 + ridge/2 ||S - a||^2."""
        squares, r = self.rotation.squares, ridge / self.scale
        q = a if self.rotated else self.rotation.rotate(a)
        moved = self.rotation.cross - squares * q
        moved /= squares + r
        return (moved, q + moved) if self.rotated else (self.rotation.lift(moved), q + moved)

    def primal(self, Z: list[np.ndarray], values: list[float]) -> float:
        W = total(Z)
        q = W if self.rotated else self.rotation.rotate(W)
        linear, square = self._moments(q)
        fit = 0.5 * self.scale * float(np.sum(self.rotation.energy - 2.0 * linear + square))
        return max(fit, 0.0) + sum(values)

    def dual(self, q: np.ndarray) -> float:
        """Return the dual value at the point made from the residual of coordinates q.

        theta = scale * (c * (projection of y on the range of X - X q) + Y_perp): what lies outside the range of X is
        free, only the rest is scaled by task to become feasible.
        """
        rotation = self.rotation
        if any(p.is_zero for p in self.penalties):
            return 0.5 * self.scale * rotation.unexplained
        G = self.negative_gradient(q)
        c = feasible_scale(G, self.penalties)
        linear, square = self._moments(q)
        value = c * (rotation.explained - linear) - 0.5 * c**2 * (rotation.explained - 2.0 * linear + square)
        conjugates = [p.conjugate(G * c) for p in self.penalties if not p.is_norm]
        return max(0.0, self.scale * (float(value.sum()) + 0.5 * rotation.unexplained) - sum(conjugates))

    def negative_gradient(self, q: np.ndarray) -> np.ndarray:
        """Return X'(y - X q) * scale, in the space of the iteration."""
        G = self.scale * (self.rotation.cross - self.rotation.squares * q)
        return G if self.rotated else self.rotation.lift(G)

    def _moments(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return y'Xq and ||Xq||^2 per task."""
        linear = np.einsum("ij,ij->j", self.rotation.cross, q)
        return linear, np.einsum("ij,ij,ij->j", np.broadcast_to(self.rotation.squares, q.shape), q, q)


def _iterate(
    space: _Space, Z: list[np.ndarray], U: list[np.ndarray], rho: float, tracker: Tracker
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Run until the tracker says stop; `U` is overwritten, `Z` is not."""
    K, balance_at = len(Z), next_balance(0)
    for it in range(1, tracker.max_iter + 1):
        moved, q = space.data_step(total(Z) - total(U), rho / K)
        moved /= K
        W = [z - u + moved for z, u in zip(Z, U, strict=True)] if it == balance_at else []
        before, values = Z, []
        Z = []
        moved *= RELAXATION
        for p, z, u in zip(space.penalties, before, U, strict=True):
            # u + RELAXATION * (z - u + moved) + (1 - RELAXATION) * z, the point whose prox is taken, in place of u
            u *= 1.0 - RELAXATION
            u += z
            u += moved
            prox, value = p.prox_value(u, 1.0 / rho)
            u -= prox
            Z.append(prox)
            values.append(value)
        if tracker.due(it) and tracker.check(it, space.primal(Z, values), space.dual(q), Z):
            break
        if it == balance_at:
            factor = balance(W, before, Z, U)
            rho *= factor
            for u in U:
                u /= factor
            balance_at = next_balance(it)
    return Z, U, rho


def _checked_rotation(rotation: Rotation | None, data: TaskData, fit_intercept: bool) -> Rotation:
    if rotation is None:
        return prepare(data, fit_intercept)
    if rotation.data is not data or rotation.fit_intercept != fit_intercept:
        raise ValueError("the rotation was prepared from other data or another fit_intercept")
    return rotation


def _first_iterate(
    space: _Space, needed: list[int], n_parts: int, start: SolverResult | np.ndarray | None, rho: float | None
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Return prox copies, scaled multipliers and rho of a cold or warm start."""
    state = start.info.get("state") if isinstance(start, SolverResult) else None
    if isinstance(state, AdmmState) and state.fits(space, needed):
        rho_ = state.rho if rho is None else rho
        return [state.Z[k] for k in needed], [state.U[k] * (state.rho / rho_) for k in needed], rho_
    rho_ = guess_rho(space.penalties, space.rotation, space.shape, space.scale) if rho is None else rho
    if not (np.isfinite(rho_) and rho_ > 0):
        raise ValueError(f"rho must be positive and finite, got {rho_}")
    shape = (space.rotation.data.n_features, space.rotation.data.n_tasks)
    parts = start_parts(start, n_parts, shape)
    if parts is None or not np.any(parts):
        return [np.zeros(space.shape) for _ in needed], [np.zeros(space.shape) for _ in needed], rho_
    Z = [space.working(parts[k]) for k in needed]
    for k in set(range(n_parts)) - set(needed):
        Z[0] = Z[0] + space.working(parts[k])
    # At an optimum every rho U_k is minus the gradient of the loss.
    W = total(Z)
    U = space.negative_gradient(W if space.rotated else space.rotation.rotate(W)) / rho_
    return Z, [U.copy() for _ in Z], rho_
