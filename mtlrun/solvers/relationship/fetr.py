"""Feature and task relationship learning, and the alternations before it.

FETR is by Zhao, Stretcu, Smola and Gordon (2017).

The matrix-normal prior gives rho [tr(S1 W S2 W') - m log|S1| - d log|S2|] for W (d, m),
as a function of one of the precision matrices: rho [tr(S A) - k log|S|] with the moment
A = W S2 W' and k = m, or A = W'S1 W and k = d. `solve_fetr` descends over W and both
matrices in turn. `solve_alternating` is what MTFL and MTRL were published with: W for a
given covariance, then the covariance of W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from mtlrun.penalties.norms import SquaredTraceNorm
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.memory import require
from mtlrun.problem.objective import duality_gap, gap_scale
from mtlrun.problem.quadratic import GRAM_COPIES, Gram, gram_bytes, times_gram
from mtlrun.problem.result import RemainingDecrease, SolverResult
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.relationship.wsystem import CoupledSystem, solve_w


@dataclass(frozen=True, eq=False)
class Precision:
    """A symmetric positive definite matrix with its spectral decomposition.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive eigenvalues.
    vectors : ndarray of shape (k, k)
        Orthonormal eigenvectors in columns.
    """

    values: Array
    vectors: Array

    @classmethod
    def scalar(cls, size: int, value: float) -> Precision:
        """Return value * I."""
        return cls(np.full(size, value), np.eye(size))

    @property
    def matrix(self) -> Array:
        """The matrix itself, exactly symmetric."""
        return _symmetric((self.vectors * self.values) @ self.vectors.T)

    @property
    def covariance(self) -> Array:
        """The inverse."""
        return _symmetric((self.vectors * (1.0 / self.values)) @ self.vectors.T)

    @property
    def logdet(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self.values).sum())


def feature_moment(W: Array, task_precision: Array) -> Array:
    """Return W S2 W', shape (d, d)."""
    return _symmetric(W @ task_precision @ W.T)


def task_moment(W: Array, feature_precision: Array) -> Array:
    """Return W'S1 W, shape (m, m)."""
    return _symmetric(W.T @ feature_precision @ W)


def exact_precision(
    moment: Array,
    count: int,
    lower: float,
    upper: float,
    fudge: float = 0.0,
) -> Precision:
    """Minimize tr(S (A + count fudge I)) - count log|S|, lower I <= S <= upper I.

    With A = U diag(nu) U' the solution is U diag(clip(count / nu, lower, upper)) U',
    where count fudge is added to each nu; nu = 0 gives `upper`. With a fudge factor it
    is the maximum-likelihood ("flip-flop") update of Zhang and Schneider (2010).

    Parameters
    ----------
    moment : ndarray of shape (k, k)
        A, positive semidefinite.
    count : int
    lower, upper : float
        0 < lower < upper.
    fudge : float, default 0.0
        Not negative.
    """
    nu, U = scipy.linalg.eigh(moment, driver="evd", check_finite=False)
    if fudge > 0:
        nu = np.maximum(nu, 0.0) + count * fudge
    # count / nu <= upper exactly where nu >= count / upper; this also meets nu = 0 and
    # negative rounding.
    return Precision(np.clip(count / np.maximum(nu, count / upper), lower, upper), U)


def project(S: Array, lower: float, upper: float) -> Precision:
    """Return the nearest matrix with eigenvalues in [lower, upper] to a symmetric one.

    It is nearest in the Frobenius norm.
    """
    values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    return Precision(np.clip(values, lower, upper), vectors)


def check_box(lower: float, upper: float) -> None:
    """Refuse an empty box.

    Raises
    ------
    ValueError
        Unless 0 < lower < upper < inf.
    """
    if not 0 < lower < upper < np.inf:
        raise ValueError(
            "lower and upper bound the eigenvalues of both precision matrices and must "
            f"satisfy 0 < lower < upper < inf, got lower={lower!r} and upper={upper!r}"
        )


def _symmetric(A: Array) -> Array:
    return 0.5 * (A + A.T)


FetrCallback = Callable[[int, float, "FetrState"], Any]

# The objective carries rounding of about eps * condition * (sum of the sizes of its
# terms); a rise beyond this fraction is an error of the algorithm.
_ROUNDING = 1e-9
# An inexact W-step shrinks its residual by this factor: more would be lost in the next
# S-step.
_INEXACT = 0.01
# Rounds that still gain more than this fraction are not followed by a rotation.
_EARLY = 1e-3
# Conjugate gradients for a rotation, at most; shorter and shorter steps along it.
_MAX_CG = 60
_TRIALS = 4


@dataclass(frozen=True, eq=False)
class FetrState:
    """An iterate: W (d, m) and the precision matrices of its rows and columns."""

    W: Array
    feature: Precision
    task: Precision


class FetrProblem:
    """Data in Gram form and the objective

    ``sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2 + rho [tr(S1 W S2 W') - m log|S1|
    - d log|S2| + fudge (m tr S1 + d tr S2)]``.

    Parameters
    ----------
    data : TaskData
        Any layout, d features, m tasks.
    eta, rho : float
        Positive.
    lower, upper : float
        Both precision matrices have their eigenvalues in [lower, upper].
    fit_intercept : bool, default False
        Unpenalized intercepts, by centring every task.
    fudge : float, default 0.0
        Not negative; bounds the precision matrices as a prior does.

    Raises
    ------
    ValueError
        For parameters out of range, or if one Gram matrix per task would not fit into
        memory.
    """

    def __init__(
        self,
        data: TaskData,
        eta: float,
        rho: float,
        lower: float,
        upper: float,
        fit_intercept: bool = False,
        fudge: float = 0.0,
    ) -> None:
        check_box(lower, upper)
        for name, value in (("eta", eta), ("rho", rho)):
            if not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
        if not 0 <= fudge < np.inf:
            raise ValueError(f"fudge must be at least 0 and finite, got {fudge!r}")
        self.eta = float(eta)
        self.rho = float(rho)
        self.lower = float(lower)
        self.upper = float(upper)
        self.fudge = float(fudge)
        self.form = Gram(data, fit_intercept)
        self.d = data.n_features
        self.m = data.n_tasks

    @property
    def energy(self) -> float:
        """Sum of the squared (centred, weighted) targets."""
        return float(self.form.energy.sum())

    def start(self) -> FetrState:
        """Return W = 0 and, for both matrices, a multiple of I.

        It is in the middle of the box.

        The middle is the geometric mean, which is 1 for the default box and has the
        unit of a precision for any other.
        """
        middle = float(np.sqrt(self.lower * self.upper))
        return FetrState(
            np.zeros((self.d, self.m)),
            Precision.scalar(self.d, middle),
            Precision.scalar(self.m, middle),
        )

    def system(self, feature: Precision, task: Precision) -> CoupledSystem:
        """Return the equations of the W-step."""
        spectrum = task.values, task.vectors
        return CoupledSystem(
            self.form.gram,
            self.form.cross,
            feature.matrix,
            task.matrix,
            self.eta,
            self.rho,
            spectrum,
        )

    def fit_term(self, W: Array) -> float:
        """Return the loss plus eta ||W||_F^2."""
        return 2.0 * self.form.value(W) + self.eta * float(np.vdot(W, W))

    def objective(self, state: FetrState) -> float:
        """Return the objective."""
        return self.fit_term(state.W) + self.prior(state)

    def prior(self, state: FetrState) -> float:
        """Return the objective without `fit_term`."""
        trace = float(
            np.vdot(state.W, state.feature.matrix @ state.W @ state.task.matrix)
        )
        penalty = trace - self.m * state.feature.logdet - self.d * state.task.logdet
        if self.fudge > 0:
            feature_trace = float(state.feature.values.sum())
            task_trace = float(state.task.values.sum())
            penalty += self.fudge * (self.m * feature_trace + self.d * task_trace)
        return self.rho * penalty


def fetr_bytes(data: TaskData) -> int:
    """Return the bytes that `solve_fetr` takes.

    They are for Gram matrices, precision matrices and rotations.
    """
    return GRAM_COPIES * gram_bytes(data) + 8 * 24 * (
        data.n_features**2 + data.n_tasks**2
    )


def solve_fetr(
    data: TaskData,
    eta: float,
    rho: float,
    *,
    lower: float = 0.01,
    upper: float = 100.0,
    w_solver: str = "auto",
    accelerate: bool = True,
    fudge: float = 0.0,
    fit_intercept: bool = False,
    tol: float = 1e-5,
    max_iter: int = 500,
    callback: FetrCallback | None = None,
) -> SolverResult:
    """Minimize the objective of `FetrProblem` in turn over W, S1 and S2.

    The first S1 and S2 are sqrt(lower upper) I, which is I for the default box.

    The W-step is exact, or for the iterative solvers inexact from the last W, which
    never raises the objective either; the S-steps are exact in closed form. That a
    round does not raise the objective is checked every time.

    S1 and S2 hold W where it is: where some of their eigenvalues are much larger than
    others, W cannot leave the span of the small ones, and turns very slowly. The prior
    does not change if W and the eigenvectors of S1 and S2 turn together. A fourth step
    therefore minimizes the loss over such rotations (see `rotate`).

    Parameters
    ----------
    data : TaskData
    eta, rho : float
        Positive; eta/2 and rho/2 are the weights when the loss carries 1/2.
    lower, upper : float, default 0.01 and 100
        Box of the eigenvalues of S1 and S2.
    w_solver : {"auto", "eigen", "cg", "gradient", "sylvester", "closed"}
        As in `solve_w`; default "auto".
    accelerate : bool, default True
        Rotate once rounds gain little. False is the paper's plain iteration.
    fudge : float, default 0.0
        Fudge factor of the flip-flop S-steps (Zhang and Schneider, 2010). These
        minimize the objective with the traces that the factor adds.
    fit_intercept : bool, default False
        Unpenalized intercepts.
    tol : float, default 1e-5
        Stop when further rounds would lower the objective by at most this fraction of
        loss + eta ||W||^2 (not of the objective, which changes sign), as the rate of
        the last rounds predicts: see `RemainingDecrease`.
    max_iter : int, default 500
        Rounds.
    callback : callable, optional
        Called with (round, objective, `FetrState`) after every round; stops the run by
        returning True.

    Returns
    -------
    SolverResult
        `stop_crit` is the fraction that is bounded by `tol`; `objective` has the value
        after every round. `info`: ``state`` (`FetrState`), ``w_iterations`` (of each
        W-step), ``residual`` (of the equations for W, relative to X'y), and ``rate``
        (as of `RemainingDecrease`). The problem is not convex: there is no duality gap.

    Raises
    ------
    ValueError
        For parameters out of range, or a W-solver that these data do not allow.
    ArithmeticError
        If the objective rises by more than rounding.
    """
    problem = FetrProblem(data, eta, rho, lower, upper, fit_intercept, fudge)
    state = problem.start()
    objective: list[float] = []
    w_iterations: list[int] = []
    message = f"stopped after max_iter={max_iter} rounds"
    converged = False
    stop = RemainingDecrease()
    rotates = False
    rounds = 0
    for rounds in range(1, max_iter + 1):
        previous = state
        state, n_iter = _round(problem, state, w_solver)
        w_iterations.append(n_iter)
        if accelerate and not rotates and stop.last_decrease <= _EARLY:
            rotates = True
            stop.restart()
        if rotates:
            state = rotate(problem, state)
        fit = problem.fit_term(state.W)
        prior = problem.prior(state)
        scale = problem.energy + abs(fit) + abs(prior)
        value = fit + prior
        if objective and value > objective[-1] + _ROUNDING * scale:
            if fudge > 0:
                # MTFRL has no box to bound its precisions, which may differ by more
                # than the digits of a number where columns differ in their units.
                state = previous
                message = "rounding raised the objective; X is badly scaled"
                break
            raise ArithmeticError(
                f"the objective of FETR rose from {objective[-1]!r} to {value!r}; the "
                "data are too badly scaled for double precision"
            )
        objective.append(value)
        stop.add(value, unit=fit if fit > 0 else scale, size=scale)
        if stop.remaining <= tol:
            message = f"a fraction of {stop.remaining:.1e} is left <= tol {tol:g}"
            converged = True
            break
        if callback is not None and callback(rounds, value, state):
            message = "stopped by the callback"
            break
    W = state.W
    system = problem.system(state.feature, state.task)
    return SolverResult(
        parts=W[np.newaxis],
        intercept=problem.form.intercept(W),
        converged=converged,
        n_iter=rounds,
        objective=objective,
        stop_crit=stop.remaining,
        message=message,
        info={
            "rate": stop.rate,
            "state": state,
            "w_iterations": w_iterations,
            "residual": system.relative(system.residual(W)),
        },
    )


def _round(
    problem: FetrProblem,
    state: FetrState,
    w_solver: str,
) -> tuple[FetrState, int]:
    """Return the state after a step of W, S1 and S2, and iterations of the W-step."""
    p = problem
    system = p.system(state.feature, state.task)
    residual = system.relative(system.residual(state.W))
    w_tol = max(_INEXACT * residual, 1e-14)
    solution = solve_w(system, w_solver, start=state.W, tol=w_tol)
    W = solution.W
    feature = exact_precision(
        feature_moment(W, system.task_precision), p.m, p.lower, p.upper, p.fudge
    )
    task = exact_precision(
        task_moment(W, feature.matrix), p.d, p.lower, p.upper, p.fudge
    )
    return FetrState(W, feature, task), solution.n_iter


def rotate(problem: FetrProblem, state: FetrState) -> FetrState:
    """Lower the loss by A W B with rotations A and B, which turn S1 and S2 as well.

    With A S1 A' and B' S2 B in place of S1 and S2 the prior stays as it is. One step of
    Newton's method in the skew-symmetric K and L of A = exp(K) and B = exp(L).
    """
    W = state.W
    form = problem.form
    eta = problem.eta

    def curved(D: Array) -> Array:
        return times_gram(form.gram, D) + eta * D

    # Half the gradient of the loss (with the ridge) in W, and its products with W.
    P = curved(W) - form.cross
    PW = P @ W.T

    def hessian(move: Array) -> Array:
        """Multiply by half the second derivative of the loss of exp(K) W exp(L)."""
        K, L = unpack(move)
        KW = K @ W
        WL = W @ L
        Y = curved(KW + WL)
        left = Y @ W.T + P @ WL.T - 0.5 * (PW @ K + K @ PW)
        right = W.T @ Y + KW.T @ P - 0.5 * (W.T @ (P @ L) - WL.T @ P)
        return pack(left, right)

    def pack(left: Array, right: Array) -> Array:
        """Return the skew-symmetric parts of two matrices in one vector."""
        return np.concatenate([(left - left.T).ravel(), (right - right.T).ravel()]) / 2

    def unpack(move: Array) -> tuple[Array, Array]:
        cut = problem.d**2
        left = move[:cut].reshape(problem.d, problem.d)
        return left, move[cut:].reshape(problem.m, problem.m)

    move = _newton_step(hessian, pack(PW, W.T @ P))
    size = float(np.linalg.norm(move))
    if size == 0:
        return state
    length = min(1.0, 1.0 / size)
    fit = problem.fit_term(W)
    for _ in range(_TRIALS):
        K, L = unpack(length * move)
        A = _cayley(K)
        B = _cayley(L)
        rotated = A @ W @ B
        if problem.fit_term(rotated) < fit:
            feature = Precision(state.feature.values, A @ state.feature.vectors)
            task = Precision(state.task.values, B.T @ state.task.vectors)
            return FetrState(rotated, feature, task)
        length *= 0.25
    return state


def _newton_step(product: Callable[[Array], Array], gradient: Array) -> Array:
    """Return about -H^{-1} gradient by conjugate gradients, from products with H.

    They end where the curvature is not positive, or when a step gains less than half of
    the mean gain of the steps so far (Nash and Sofer, 1990).

    Gradient and curvature are divided by a power of two near the largest entry of the
    gradient. This does not round, and no product overflows for targets in large units.
    """
    move = np.zeros_like(gradient)
    _, exponent = np.frexp(np.abs(gradient).max(initial=0.0))
    scale = np.ldexp(1.0, int(exponent))
    residual = -gradient / scale
    direction = residual
    square = float(residual @ residual)
    gain = 0.0
    for step in range(1, _MAX_CG + 1):
        image = product(direction) / scale
        curvature = float(direction @ image)
        if curvature <= 0:
            return direction if step == 1 else move
        length = square / curvature
        move = move + length * direction
        residual = residual - length * image
        step_gain = 0.5 * length * square
        gain += step_gain
        if step * step_gain <= 0.5 * gain:
            break
        new_square = float(residual @ residual)
        direction = residual + (new_square / square) * direction
        square = new_square
    return move


def _cayley(K: Array) -> Array:
    """Return the rotation (I - K/2)^{-1} (I + K/2), which is exp(K) to second order."""
    eye = np.eye(len(K))
    return np.linalg.solve(eye - 0.5 * K, eye + 0.5 * K)


# Matrices of the size of the covariance that the alternation has at a time.
_SQUARES = 8
# Singular values below this, relative to the largest, are rounding.
_RANK = 1e-14


def covariance_root(W: Array, name: str) -> Array:
    """Return (W W')^{1/2} / tr((W W')^{1/2}), or I / size where W is zero.

    Like `root_covariance` without eps, from the singular vectors of W alone.

    Raises
    ------
    MemoryLimitError
        If it would not fit into memory; `name` is the name of the rows of W.
    """
    size = len(W)
    require(
        2 * 8 * size**2,
        f"the covariance of {size} {name}",
        "Use the coefficients: their singular vectors are its own.",
    )
    U, sigma, _ = np.linalg.svd(W, full_matrices=False)
    rank = int(np.count_nonzero(sigma > _RANK * sigma.max(initial=0.0)))
    if rank == 0:
        return np.eye(size) / size
    scaled = np.ascontiguousarray(U[:, :rank]) * np.sqrt(
        sigma[:rank] / sigma[:rank].sum()
    )
    return np.asarray(scaled @ scaled.T)


def root_covariance(A: Array, eps: float = 0.0) -> tuple[Precision, float]:
    """Return D = (A A' + eps I)^{1/2} / trace and the trace of that root.

    D minimizes tr(A'D^{-1}A) over the matrices of trace 1. It is I / k for A = 0.

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
    # Not from eigenvalues of A A': an exact zero comes out as 1e-16 there, and its root
    # as 1e-8.
    U, sigma, _ = np.linalg.svd(A)
    roots = np.sqrt(np.square(np.pad(sigma, (0, size - len(sigma)))) + eps)
    trace = float(roots.sum())
    return Precision(
        roots / trace if trace > 0 else np.full(size, 1.0 / size), U
    ), trace


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
    """Minimize over coefficients and a covariance D in turn.

    The objective is ``sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + ridge/2 ||W||_F^2 + alpha
    tr(D^{-1} (moment + eps I))``.

    The variables are W and a matrix D of trace 1, the moment is W'W (``over="tasks"``:
    MTRL) or W W' (``over="features"``: MTFL). Without eps, minimizing over D leaves
    ``alpha ||W||_*^2`` in both cases; eps keeps D invertible, moves the solution, and
    makes the iteration crawl where singular values of W vanish.

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
        `gap` is the true relative duality gap, of the problem without eps; `stop_crit`
        is the relative decrease. `info` has ``covariance`` (`Precision`, D).

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
    form = Gram(
        data, fit_intercept
    )  # the system has the loss without 1/2: its weights are doubled
    d = data.n_features
    T = data.n_tasks
    D = Precision.scalar(size, 1.0 / size)
    W = np.zeros((d, T))
    objective: list[float] = []
    decrease = np.inf
    converged = False
    it = 0
    for it in range(1, max_iter + 1):
        inverse = D.covariance
        S1, S2 = (np.eye(d), inverse) if over == "tasks" else (inverse, np.eye(T))
        W = solve_w(
            CoupledSystem(form.gram, form.cross, S1, S2, ridge, 2.0 * alpha),
            start=W,
            tol=1e-10,
        ).W
        D, trace = root_covariance(W.T if over == "tasks" else W, eps)
        # tr(D^{-1} (moment + eps I)) at this D is the square of the trace of the root.
        loss = form.value(W)
        objective.append(loss + 0.5 * ridge * float(np.vdot(W, W)) + alpha * trace**2)
        if it > 1:
            unit = gap_scale(objective[-1], 0.0, form.null)
            decrease = (objective[-2] - objective[-1]) / unit
            if decrease <= tol:
                converged = True
                break
    b = form.intercept(W)
    penalty = SquaredTraceNorm(alpha, ridge)
    gap = duality_gap(
        data,
        SquaredLoss(),
        [penalty],
        [W],
        b if fit_intercept else None,
    ).relative
    message = f"relative decrease {decrease:.1e} after {it} rounds"
    return SolverResult(
        W[np.newaxis],
        b,
        converged,
        it,
        objective,
        gap,
        [],
        decrease,
        message,
        {"covariance": D},
    )
