"""ADMM in the eigenbases of the designs, stopped on the duality gap.

It takes any sum of penalties with a closed-form prox. `solve_admm` is the two-block
form for the squared loss. `solve_split` also splits off the predictions and takes any
loss with a closed-form prox.

With parts W_k, prox copies Z_k, scaled multipliers U_k and the penalty parameter rho,
an iteration of `solve_admm` is, but for over-relaxation::

    W   = argmin  loss(sum_k W_k) + rho/2 sum_k ||W_k - Z_k + U_k||^2
    Z_k = prox of penalty_k / rho at W_k + U_k
    U_k = U_k + W_k - Z_k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from mtlrun.penalties.norms import kept_parts, needed_parts
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import (
    dual_value,
    null_objective,
    optimal_intercept,
)
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import confirm
from mtlrun.problem.result import (
    Callback,
    SolverResult,
    Tracker,
    start_info,
    start_parts,
)
from mtlrun.problem.rotation import Rotation, SharedRotation, prepare
from mtlrun.problem.taskdata import Array, TaskData, without_weights

# Over-relaxation, schedule and limits were found by trial on school, enron and
# simulated data, from 0.01 to 100 times the best rho; balancing for ever need not
# converge.
RELAXATION = 1.6
_LAST_BALANCE = 300
_DEAD_ZONE = 1.3
_LARGEST_CHANGE = 10.0
# Where the residuals of the predictions should balance; with 1 the number of iterations
# triples on hard problems.
_FIELD_BIAS = 0.45
_TINY = float(np.finfo(np.float64).tiny)


def solve_admm(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | Array | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 5000,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize squared loss and penalties by ADMM in eigenbases of the designs.

    The variables are parts W_1..W_K and intercepts. Rows are weighted if the data have
    weights::

        scale/2 sum_t ||y_t - X_t sum_k w_kt - b_t||^2 + sum_k penalty_k(W_k)

    The data step is elementwise in the eigenbasis (one for a shared design, else one
    per task). If the design is shared and all penalties are invariant under rotations,
    the run has only min(n, d) x T coordinates. Parts that cannot be needed are
    left out (`needed_parts`). The penalty parameter rho is guessed from a ridge
    solution, balanced during the first 300 iterations and frozen then. The certificate
    takes the primal value at the prox copies and the dual value at the data-step
    variable, scaled per task where a penalty allows; the best of both are kept.

    Parameters
    ----------
    data : TaskData
    loss : SquaredLoss
    penalties : sequence of Penalty
        One per part.
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start: the result of an earlier run on the same data (its multipliers are
        used too) or parts.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; computed if not given.
    fit_intercept : bool, default False
        Unpenalized intercepts.
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 5000
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every check of the gap; stops
        the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``rho``, ``state`` (`AdmmState`) and ``needed`` (positions of parts).

    Raises
    ------
    ValueError
        If the loss is not the squared loss, the rotation belongs to other data, or
        `start` has a wrong shape.
    """
    if not isinstance(loss, SquaredLoss):
        raise ValueError(
            f"solve_admm needs SquaredLoss, got {type(loss).__name__}; use solve_split "
            "or solve_fista"
        )
    rotation = prepare(data, fit_intercept, rotation)
    shape = (data.n_features, data.n_tasks)
    needed = needed_parts(penalties, shape)
    space = _Space(rotation, [penalties[k] for k in needed])
    Z, U, rho = _first_iterate(space, loss.scale, needed, len(penalties), start)
    tracker = Tracker(tol, max_iter, callback, null=loss.scale * rotation.null)
    Z, U, rho = _iterate(space, loss.scale, Z, U, rho, tracker)
    parts = space.all_parts(needed, tracker.best[0], len(penalties))
    kept_Z = dict(zip(needed, Z, strict=True))
    kept_U = dict(zip(needed, U, strict=True))
    state = AdmmState(rotation, space.rotated, kept_Z, kept_U, rho)
    result = tracker.result(
        parts,
        rotation.intercept(parts.sum(axis=0)),
        rho=rho,
        state=state,
        needed=needed,
    )
    # The coordinates q of the best dual value are lifted only if `confirm` needs them.
    _, best_q = tracker.best_dual
    at = partial(rotation.lift, best_q)
    confirm(
        result,
        rotation,
        space.penalties,
        parts[needed],
        scale=loss.scale,
        tol=tol,
        at=at,
    )
    return result


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
    Z: dict[int, Array]
    U: dict[int, Array]
    rho: float

    def fits(self, space: _Space, needed: list[int]) -> bool:
        """Whether an iteration over `space` can go on from here."""
        same = self.rotation is space.rotation and self.rotated == space.rotated
        return same and set(needed) <= set(self.Z)


class _Space:
    """The coordinates in which an iteration runs.

    Rotated: (r, T) coordinates of a shared basis, where all penalties allow it.
    Otherwise (d, T) coefficients, rotated for the data step only.
    """

    def __init__(self, rotation: Rotation, penalties: list[Penalty]) -> None:
        self.rotation = rotation
        self.penalties = penalties
        self.rotated = isinstance(rotation, SharedRotation) and all(
            p.rotation_invariant for p in penalties
        )
        if self.rotated:
            rows = rotation.rank
        else:
            rows = rotation.data.n_features
        self.shape = (rows, rotation.data.n_tasks)

    def coefficients(self, Z: Array) -> Array:
        """Return the (d, T) coefficients of a matrix of the iteration."""
        if self.rotated:
            return self.rotation.lift(Z)
        return Z

    def working(self, W: Array) -> Array:
        """Return the matrix of the iteration that stands for (d, T) coefficients."""
        if self.rotated:
            return self.rotation.rotate(W)
        return W

    def coordinates(self, Z: Array) -> Array:
        """Return the coordinates, in the eigenbases, of a matrix of the iteration."""
        if self.rotated:
            return Z
        return self.rotation.rotate(Z)

    def lift(self, Q: Array) -> Array:
        """Return the matrix of the iteration with given coordinates."""
        if self.rotated:
            return Q
        return self.rotation.lift(Q)

    def start(self, parts: Array, needed: list[int]) -> list[Array]:
        """Return the matrices of the needed parts.

        The first one absorbs the other parts.
        """
        return [self.working(part) for part in kept_parts(parts, needed)]

    def all_parts(self, needed: list[int], Z: Sequence[Array], n_parts: int) -> Array:
        """Return the coefficients (n_parts, d, T) of all parts.

        Parts that are not needed are zero.
        """
        data = self.rotation.data
        full = np.zeros((n_parts, data.n_features, data.n_tasks))
        for k, part in zip(needed, Z, strict=True):
            full[k] = self.coefficients(part)
        return full


def _iterate(
    space: _Space,
    scale: float,
    Z: list[Array],
    U: list[Array],
    rho: float,
    tracker: Tracker,
) -> tuple[list[Array], list[Array], float]:
    """Iterate until the tracker stops the run; `U` is overwritten, `Z` is not."""
    rotation = space.rotation
    K = len(Z)
    balance_at = next_balance(0)
    # The divisor of the data step, which changes only with rho.
    below = rotation.squares + rho / K / scale
    for it in range(1, tracker.max_iter + 1):
        due = tracker.due(it)
        # q are the coordinates of S = argmin scale/2 ||y - X S||^2 + rho/(2 K) ||S -
        # sum_k (z_k - u_k)||^2
        start = space.coordinates(total(Z) - total(U))
        change = rotation.cross - rotation.squares * start
        change /= below
        # Only the certificate needs q itself.
        q = start + change if due else start
        # Each part moves by the same share of the change of S.
        moved = space.lift(change)
        if K > 1:
            moved /= K
        W = []
        if it == balance_at:
            W = [z - u + moved for z, u in zip(Z, U, strict=True)]
        before = Z
        values = []
        Z = []
        moved *= RELAXATION
        step = 1.0 / rho
        for p, z, u in zip(space.penalties, before, U, strict=True):
            # u + RELAXATION * (z - u + moved) + (1 - RELAXATION) * z, the point whose
            # prox is taken, in place of u
            u *= 1.0 - RELAXATION
            u += z
            u += moved
            if due:
                prox, value = p.prox_value(u, step)
                values.append(value)
            else:
                prox = p.prox(u, step)
            u -= prox
            Z.append(prox)
        if due:
            loss = scale * rotation.value(space.coordinates(total(Z)))
            primal = loss + sum(values)
            dual = rotation.dual(q, space.penalties, scale, lifted=not space.rotated)
            if tracker.check(it, primal, dual, (Z, q)):
                break
        if it == balance_at:
            factor = balance(W, before, Z, U)
            rho *= factor
            below = rotation.squares + rho / K / scale
            # The multipliers rho u themselves stay the same.
            for u in U:
                u /= factor
            balance_at = next_balance(it)
    return Z, U, rho


def _first_iterate(
    space: _Space,
    scale: float,
    needed: list[int],
    n_parts: int,
    start: SolverResult | Array | None,
) -> tuple[list[Array], list[Array], float]:
    """Return prox copies, scaled multipliers and rho of a cold or warm start."""
    rotation = space.rotation
    state = start_info(start)
    if isinstance(state, AdmmState) and state.fits(space, needed):
        Z = [state.Z[k] for k in needed]
        U = [state.U[k].copy() for k in needed]
        return Z, U, state.rho
    rho = guess_rho(space.penalties, rotation, space.shape, scale)
    shape = (rotation.data.n_features, rotation.data.n_tasks)
    parts = start_parts(start, n_parts, shape)
    if parts is None or not np.any(parts):
        Z = [np.zeros(space.shape) for _ in needed]
        U = [np.zeros(space.shape) for _ in needed]
        return Z, U, rho
    Z = space.start(parts, needed)
    # At an optimum every rho U_k is minus the gradient of the loss.
    q = space.coordinates(total(Z))
    negative_gradient = scale * (rotation.cross - rotation.image(q))
    multiplier = space.lift(negative_gradient) / rho
    return Z, [multiplier.copy() for _ in Z], rho


def solve_split(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    start: SolverResult | Array | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 10000,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimize loss and penalties by ADMM on parts and predictions.

    The variables are parts W_1..W_K and intercepts b::

        sum_i w_i l(M_i, y_i) + sum_k penalty_k(Z_k)
        subject to  Z_k = W_k,  M = X sum_k W_k + b

    The step in (W, b) is a ridge problem with the designs of all tasks, elementwise in
    their eigenbases; weights and masks belong to the prox of the loss, so that masked
    shared data need one basis only. Both penalty parameters are balanced during the
    first 300 iterations. The primal value is taken at the prox copies with the best
    intercepts for them, the dual value at the multipliers of the predictions, which
    always lie in the domain of the conjugate.

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
        Unpenalized intercepts.
    tol : float, default 1e-4
        Relative duality gap to stop at.
    max_iter : int, default 10000
    callback : callable, optional
        Called with (iteration, best primal, best dual) at every check of the gap; stops
        the run by returning True.

    Returns
    -------
    SolverResult
        `info` has ``state`` (`SplitState`) and ``needed``.

    Raises
    ------
    ValueError
        If the rotation belongs to other data or has weights, or `start` has a wrong
        shape.
    """
    rotation = prepare(without_weights(data), fit_intercept, rotation)
    shape = (data.n_features, data.n_tasks)
    needed = needed_parts(penalties, shape)
    space = _Space(rotation, [penalties[k] for k in needed])
    run = _SplitRun(data, loss, space)
    first = start_parts(start, len(penalties), shape)
    state = start_info(start)
    if isinstance(state, SplitState) and state.M.shape == data.targets.shape:
        run.resume(state, needed)
    elif first is not None:
        run.begin_at(first, needed)
    tracker = Tracker(tol, max_iter, callback, null=null_objective(data, loss))
    run.until(tracker)
    best, b = tracker.best
    parts, Z, U = (
        run.space.all_parts(needed, arrays, len(penalties))
        for arrays in (best, run.Z, run.U)
    )
    return tracker.result(
        parts,
        rotation.uncentred(parts.sum(axis=0), b),
        needed=needed,
        state=SplitState(Z, U, run.M, run.V, run.rho, run.rho_field),
    )


@dataclass
class SplitState:
    """Where a run of `solve_split` ended, for a warm start.

    Attributes
    ----------
    Z, U : ndarray of shape (n_parts, d, T)
        Prox copies and scaled multipliers of all parts.
    M, V : ndarray
        Fields: split predictions and their scaled multipliers.
    rho, rho_field : float
        Penalty parameters.
    """

    Z: Array
    U: Array
    M: Array
    V: Array
    rho: float
    rho_field: float


class _SplitRun:
    """The iteration of `solve_split`."""

    def __init__(self, data: TaskData, loss: Loss, space: _Space) -> None:
        self.data = data
        self.loss = loss
        self.space = space
        self.rotation = space.rotation
        self.rho = guess_rho(space.penalties, space.rotation, space.shape, loss.scale)
        self.rho_field = loss.scale
        self.Z = [np.zeros(space.shape) for _ in space.penalties]
        self.U = [np.zeros(space.shape) for _ in space.penalties]
        self.M = np.zeros_like(data.targets)
        self.V = np.zeros_like(data.targets)
        self._weights = data.effective_weights()
        self._operator = TaskOperator(data)
        self._b = np.zeros(data.n_tasks)

    def resume(self, state: SplitState, needed: list[int]) -> None:
        """Go on from the end of another run."""
        self.rho = state.rho
        self.rho_field = state.rho_field
        self.Z = [self.space.working(state.Z[k]) for k in needed]
        # Copies: multipliers are changed in place.
        self.U = [np.array(self.space.working(state.U[k])) for k in needed]
        self.M = state.M.copy()
        self.V = state.V.copy()

    def begin_at(self, parts: Array, needed: list[int]) -> None:
        """Start at parts, with the multipliers that they would have at an optimum."""
        self.Z = self.space.start(parts, needed)
        z = self._scores(total(self.Z))
        self.M = self.data.shifted(z, self._best_intercept(z))
        slope = self.loss.gradient(self.M, self.data.targets, self._weights)
        self.V = slope / self.rho_field
        if self.space.rotated:
            pulled = self.rotation.pull(slope)
        else:
            pulled = self.rotation.operator.adjoint(slope)
        self.U = [pulled / -self.rho for _ in needed]

    def until(self, tracker: Tracker) -> None:
        """Iterate until the tracker stops the run."""
        balance_at = next_balance(0)
        for it in range(1, tracker.max_iter + 1):
            W, z = self._ridge_step()
            Z = self.Z
            M = self.M
            values = self._prox_step(W, z)
            if tracker.due(it) and self._check(tracker, it, sum(values)):
                break
            if it == balance_at:
                # Balance both penalty parameters; Z and M are from before the
                # iteration.
                factor = balance(W, Z, self.Z, self.U)
                self.rho *= factor
                for u in self.U:
                    u /= factor
                factor = balance([z], [M], [self.M], [self.V], bias=_FIELD_BIAS)
                self.rho_field *= factor
                self.V /= factor
                balance_at = next_balance(it)

    def _check(self, tracker: Tracker, it: int, penalty: float) -> bool:
        """Whether the run stops. Its arrays of the size of the data are then free."""
        z = self._scores(total(self.Z))
        b = self._best_intercept(z)
        predictions = self.data.shifted(z, b)
        loss = self.loss.value(predictions, self.data.targets, self._weights)
        # rho_field V is a subgradient of the loss at M: in the domain of its conjugate.
        theta = -self.rho_field * self.V
        if self._weights is not None:
            # Anything else there is rounding.
            theta[self._weights == 0] = 0.0
        dual = dual_value(
            theta,
            self.data,
            self.loss,
            self.space.penalties,
            intercept=self.rotation.fit_intercept,
            operator=self._operator,
        )
        return tracker.check(it, loss + penalty, dual, (self.Z, b))

    def _ridge_step(self) -> tuple[list[Array], Array]:
        """Return the parts W_k and predictions nearest to Z - U and M - V.

        Intercepts are included.
        """
        A = [z - u for z, u in zip(self.Z, self.U, strict=True)]
        a = total(A)
        target = self.M - self.V
        b = None
        if self.rotation.fit_intercept:
            # The centred designs predict with mean zero: the means are for b.
            unweighted = self.rotation.data
            means = unweighted.sum_by_task(target) / unweighted.sizes
            b = self.data.spread(means)
            target -= b
        # The sum S of the parts minimizes rho/(2 K) ||S - a||^2 + rho_field/2
        # ||X S - target||^2, elementwise in the eigenbases.
        kappa = len(A) * self.rho_field / self.rho
        squares = self.rotation.squares
        q = self.space.coordinates(a)
        slope = self.rotation.pull(target) - squares * q
        moved = self.space.lift(kappa * slope / (1.0 + kappa * squares))
        z = self._scores(a + moved)
        if b is not None:
            z += b
        moved /= len(A)
        return [x + moved for x in A], z

    def _prox_step(self, W: list[Array], z: Array) -> list[float]:
        """Update Z, U, M and V, over-relaxed; return the values of the penalties."""
        values = []
        old = self.Z
        self.Z = []
        step = 1.0 / self.rho
        for p, w, z_old, u in zip(self.space.penalties, W, old, self.U, strict=True):
            u += RELAXATION * w + (1.0 - RELAXATION) * z_old
            prox, value = p.prox_value(u, step)
            u -= prox
            self.Z.append(prox)
            values.append(value)
        self.V += RELAXATION * z + (1.0 - RELAXATION) * self.M
        self.M = self.loss.prox(
            self.V,
            self.data.targets,
            1.0 / self.rho_field,
            self._weights,
        )
        self.V -= self.M
        return values

    def _scores(self, Z: Array) -> Array:
        if self.space.rotated:
            return self.rotation.scores(Z)
        return self.rotation.operator.forward(Z)

    def _best_intercept(self, z: Array) -> Array:
        if self.rotation.fit_intercept:
            self._b = optimal_intercept(self.data, self.loss, z, start=self._b)
        return self._b


# ---------------------------------------------------------------- penalty parameters


def next_balance(iteration: int) -> int:
    """Return the iteration at which to balance next, 0 for never."""
    if iteration >= _LAST_BALANCE:
        return 0
    return iteration + (3 if iteration < 60 else 10)


def balance(
    W: Sequence[Array],
    before: Sequence[Array],
    Z: Sequence[Array],
    U: Sequence[Array],
    bias: float = 1.0,
) -> float:
    """Return the factor for rho that balances the relative primal and dual residuals.

    1.0 leaves rho as it is.

    Parameters
    ----------
    W, before, Z, U : sequences of ndarray
        Data-step variables, prox copies before and after the iteration, scaled
        multipliers.
    bias : float, default 1.0
        Below one rho ends lower, where the primal residual is 1 / bias^2 times the dual
        one.
    """
    primal_size = max(_norm(W), _norm(Z), _TINY)
    dual_size = max(_norm(U), _TINY)
    primal = _distance(W, Z) / primal_size
    dual = _distance(Z, before) / dual_size
    # Also at a solution, where both are 0.
    if primal == dual:
        return 1.0
    factor = bias * float(np.sqrt(primal / max(dual, _TINY)))
    factor = min(max(factor, 1.0 / _LARGEST_CHANGE), _LARGEST_CHANGE)
    # Small changes disturb the iteration more than they help it.
    if 1.0 / _DEAD_ZONE < factor < _DEAD_ZONE:
        return 1.0
    return factor


def guess_rho(
    penalties: Sequence[Penalty],
    rotation: Rotation,
    shape: tuple[int, int],
    scale: float = 1.0,
) -> float:
    """Guess rho as (size of the multipliers) / (size of a ridge solution).

    Parameters
    ----------
    penalties : sequence of Penalty
    rotation : Rotation
    shape : (int, int)
        Of the matrices of the iteration.
    scale : float, default 1.0
        Of the loss.
    """
    alpha = max((p.alpha for p in penalties), default=0.0)
    squares = rotation.squares
    cross = rotation.cross
    # A ridge as large as the mean eigenvalue: the solution is elementwise.
    ridge = float(squares.mean())
    size = 0.0
    if ridge > 0:
        solution = cross / (squares + ridge)
        size = float(np.linalg.norm(solution))
    if alpha > 0 and size > 0:
        return float(alpha * min(shape) ** 0.25 / size)
    # Nothing is known about the multipliers: the curvature of the loss instead.
    return max(scale * ridge, 1.0)


def total(arrays: Sequence[Array]) -> Array:
    """Return the sum of the arrays; a single one is not copied."""
    return reduce(np.add, arrays)


def _norm(arrays: Sequence[Array]) -> float:
    """Return the Frobenius norm of several arrays together."""
    square = sum(float(np.vdot(A, A)) for A in arrays)
    return float(np.sqrt(square))


def _distance(A: Sequence[Array], B: Sequence[Array]) -> float:
    """Return the Frobenius norm of the differences of two sequences of arrays."""
    return _norm([a - b for a, b in zip(A, B, strict=True)])
