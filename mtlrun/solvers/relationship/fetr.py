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
from mtlrun.problem.quadratic import GRAM_COPIES, Gram, gram_bytes
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.wsystem import CoupledSystem, solve_w

Array = np.ndarray


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
        return _assemble(self.values, self.vectors)

    @property
    def covariance(self) -> Array:
        """The inverse."""
        return _assemble(1.0 / self.values, self.vectors)

    @property
    def log(self) -> Array:
        """The matrix logarithm."""
        return _assemble(np.log(self.values), self.vectors)

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


def exact_precision(moment: Array, count: int, lower: float, upper: float) -> Precision:
    """Minimize tr(S A) - count log|S| subject to lower I <= S <= upper I.

    With A = U diag(nu) U' the solution is U diag(clip(count / nu, lower, upper)) U'; nu
    = 0 gives `upper`.

    Parameters
    ----------
    moment : ndarray of shape (k, k)
        A, positive semidefinite.
    count : int
    lower, upper : float
        0 < lower < upper.
    """
    nu, U = scipy.linalg.eigh(moment, driver="evd", check_finite=False)
    # count / nu <= upper exactly where nu >= count / upper; this also meets nu = 0 and
    # negative rounding.
    return Precision(np.clip(count / np.maximum(nu, count / upper), lower, upper), U)


def flip_flop_precision(
    moment: Array,
    count: int,
    lower: float,
    upper: float,
    fudge: float,
) -> Precision:
    """Return (A / count + fudge I)^{-1}, its eigenvalues clipped to [lower, upper].

    The maximum-likelihood update of Zhang and Schneider (2010) with their fudge factor,
    which biases it.
    """
    nu, U = scipy.linalg.eigh(moment, driver="evd", check_finite=False)
    return Precision(
        np.clip(1.0 / (np.maximum(nu, 0.0) / count + fudge), lower, upper), U
    )


def project(S: Array, lower: float, upper: float) -> Precision:
    """Return the nearest matrix with eigenvalues in [lower, upper] to a symmetric one.

    It is nearest in the Frobenius norm.
    """
    values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    return Precision(np.clip(values, lower, upper), vectors)


def from_log(L: Array, lower: float, upper: float) -> Precision:
    """Return the exponential of a symmetric matrix with clipped eigenvalues.

    Those of the result lie in [lower, upper].
    """
    values, vectors = scipy.linalg.eigh(L, driver="evd", check_finite=False)
    return Precision(np.exp(np.clip(values, np.log(lower), np.log(upper))), vectors)


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


def _assemble(values: Array, vectors: Array) -> Array:
    return _symmetric((vectors * values) @ vectors.T)


def _symmetric(A: Array) -> Array:
    return 0.5 * (A + A.T)


FetrCallback = Callable[[int, float, "FetrState"], Any]

# The objective carries rounding of about eps * condition * (sum of the sizes of its
# terms); a rise beyond this fraction is an error of the algorithm.
_ROUNDING = 1e-9
# An inexact W-step shrinks its residual by this factor: more would be lost in the next
# S-step.
_INEXACT = 0.01
# Rounds that an extrapolation looks back on, and the cut-off of its least-squares
# problem.
_DEPTH = 6
_RCOND = 1e-8
# Rounds that still gain more than this fraction are not extrapolated.
_EARLY = 1e-3


@dataclass(frozen=True, eq=False)
class FetrState:
    """An iterate: W (d, m) and the precision matrices of its rows and columns."""

    W: Array
    feature: Precision
    task: Precision


class FetrProblem:
    """Data in Gram form and the objective

    ``sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2 + rho [tr(S1 W S2 W') - m log|S1|
    - d log|S2|]``.

    Parameters
    ----------
    data : TaskData
        Any layout, d features, m tasks.
    eta, rho : float
        Positive.
    lower, upper : float
        Both precision matrices have their eigenvalues in [lower, upper].
    fit_intercept : bool
        Unpenalized intercepts, by centring every task.

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
    ) -> None:
        check_box(lower, upper)
        for name, value in (("eta", eta), ("rho", rho)):
            if not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
        self.eta = float(eta)
        self.rho = float(rho)
        self.lower = float(lower)
        self.upper = float(upper)
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
        """Return rho [tr(S1 W S2 W') - m log|S1| - d log|S2|]."""
        trace = float(
            np.vdot(state.W, state.feature.matrix @ state.W @ state.task.matrix)
        )
        return self.rho * (
            trace - self.m * state.feature.logdet - self.d * state.task.logdet
        )


def fetr_bytes(data: TaskData) -> int:
    """Return the bytes that `solve_fetr` takes.

    They are for Gram matrices, precision matrices and the matrices of earlier rounds.
    """
    rounds = 4 * (_DEPTH + 1) + 12
    return GRAM_COPIES * gram_bytes(data) + 8 * rounds * (
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
    fudge: float | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-5,
    max_iter: int = 500,
    callback: FetrCallback | None = None,
    estimate_rate: bool = False,
) -> SolverResult:
    """Minimize the objective of `FetrProblem` in turn over W, S1 and S2.

    The first S1 and S2 are sqrt(lower upper) I, which is I for the default box.

    The W-step is exact, or for the iterative solvers inexact from the last W, which
    never raises the objective either; the S-steps are exact in closed form. That a
    round does not raise the objective is checked every time.

    Where W shrinks along a direction while its precision grows, rounds gain little
    each; Anderson's extrapolation of (log S1, log S2) over the last rounds speeds this
    up. An extrapolated round that raises the objective is undone, and the run ends only
    with rounds that were not extrapolated.

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
        False is the paper's plain iteration.
    fudge : float, optional
        Replace the exact S-steps by flip-flop ones with this fudge factor (Zhang and
        Schneider, 2010). These minimize nothing, so that the objective may rise and
        only the last iterate counts; there is no acceleration then.
    fit_intercept : bool, default False
        Unpenalized intercepts.
    tol : float, default 1e-5
        Stop when a round lowers the objective by at most this fraction of loss +
        eta ||W||^2 (not of the objective, which changes sign), and the squared norm of
        the gradient in W, in the metric of its Hessian (the gain of the W-step), is at
        most this fraction, too.
    max_iter : int, default 500
        Rounds of the three steps, those undone included.
    callback : callable, optional
        Called with (round, objective, `FetrState`) after every accepted round; stops
        the run by returning True.
    estimate_rate : bool, default False
        Estimate the linear rate of a run that converged, at the cost of one more round.

    Returns
    -------
    SolverResult
        `stop_crit` is the larger of the two fractions; `objective` has the value after
        every accepted round. `info`: ``state`` (`FetrState`), ``w_iterations`` (of each
        W-step), ``undone`` (extrapolations), ``residual`` (of the equations for W,
        relative to X'y), and ``rate``, the gain of a further round divided by the gain
        of the last one (None unless `estimate_rate`). The problem is not convex: there
        is no duality gap.

    Raises
    ------
    ValueError
        For parameters out of range, or a W-solver that these data do not allow.
    ArithmeticError
        If the objective rises by more than rounding (exact S-steps only).
    """
    problem = FetrProblem(data, eta, rho, lower, upper, fit_intercept)
    run = _FetrIteration(problem, w_solver, fudge, accelerate and fudge is None)
    message = f"stopped after max_iter={max_iter} rounds"
    converged = False
    rounds = 0
    for rounds in range(1, max_iter + 1):
        if not run.step(tol):
            continue
        if run.plain and run.criterion <= tol:
            message = f"a round gains a fraction of {run.criterion:.1e} <= tol {tol:g}"
            converged = True
            break
        if callback is not None and callback(rounds, run.objective[-1], run.state):
            message = "stopped by the callback"
            break
    criterion = run.criterion
    rate = None
    if converged and estimate_rate:
        rate = run.estimate_rate()
    W = run.state.W
    system = problem.system(run.state.feature, run.state.task)
    return SolverResult(
        parts=W[np.newaxis],
        intercept=problem.form.intercept(W),
        converged=converged,
        n_iter=rounds,
        objective=run.objective,
        stop_crit=criterion,
        message=message,
        info={
            "rate": rate,
            "state": run.state,
            "w_iterations": run.w_iterations,
            "undone": run.undone,
            "residual": system.relative(system.residual(W)),
        },
    )


class _FetrIteration:
    """The iteration.

    It keeps the best state, and the precision matrices from which the next round
    starts.
    """

    def __init__(
        self,
        problem: FetrProblem,
        w_solver: str,
        fudge: float | None,
        accelerate: bool,
    ) -> None:
        self.problem = problem
        self.w_solver = w_solver
        self.fudge = fudge
        self.state = problem.start()
        self.feature, self.task = self.state.feature, self.state.task
        self.plain = True  # whether the round starts from the state itself
        self.criterion = np.inf
        self.objective: list[float] = []
        self.w_iterations: list[int] = []
        self.undone = 0
        self._extrapolation: _Extrapolation | None = None
        if accelerate:
            self._extrapolation = _Extrapolation(problem)

    def step(self, tol: float) -> bool:
        """Make one round; return whether it was accepted."""
        p = self.problem
        system = p.system(self.feature, self.task)
        R = system.residual(self.state.W)
        w_tol = max(_INEXACT * system.relative(R), 1e-14)
        solution = solve_w(system, self.w_solver, start=self.state.W, tol=w_tol)
        self.w_iterations.append(solution.n_iter)
        W = solution.W
        feature = self._precision(feature_moment(W, system.task_precision), p.m)
        task = self._precision(task_moment(W, feature.matrix), p.d)
        new = FetrState(W, feature, task)
        fit = p.fit_term(W)
        prior = p.prior(new)
        if not self._accept(fit + prior, fit, p.energy + abs(fit) + abs(prior)):
            self._restart(self.state)
            return False
        gain = float(np.vdot(R, W - self.state.W))
        self.criterion = max(self._decrease, gain / fit if fit > 0 else gain)
        self.state = new
        self._choose_next(self.criterion <= tol)
        return True

    def estimate_rate(self) -> float | None:
        """Estimate the linear rate by one more plain round, which is not kept.

        The last round must have been plain. Returns None if there are too few rounds or
        the last one gained nothing.
        """
        if len(self.objective) < 2 or self.objective[-2] <= self.objective[-1]:
            return None
        state = self.state
        values = list(self.objective)
        undone = self.undone
        self._restart(state)
        accepted = self.step(np.inf)
        gain = values[-1] - self.objective[-1] if accepted else 0.0
        self.state = state
        self.objective = values
        self.undone = undone
        self.w_iterations.pop()
        return min(1.0, max(0.0, gain / (values[-2] - values[-1])))

    def _accept(self, value: float, fit: float, scale: float) -> bool:
        """Note the objective after a round unless an extrapolation has raised it."""
        if self.objective:
            rise = value - self.objective[-1]
            if rise > (_ROUNDING if self.plain else 0.0) * scale and self.fudge is None:
                if not self.plain:
                    self.undone += 1
                    return False
                raise ArithmeticError(
                    f"the objective of FETR rose from {self.objective[-1]!r} to "
                    f"{value!r}; the data are too badly scaled for double precision"
                )
            self._decrease = abs(rise) / fit if fit > 0 else abs(rise)
        else:
            self._decrease = np.inf
        self.objective.append(value)
        return True

    def _precision(self, moment: Array, count: int) -> Precision:
        p = self.problem
        if self.fudge is None:
            return exact_precision(moment, count, p.lower, p.upper)
        return flip_flop_precision(moment, count, p.lower, p.upper, self.fudge)

    def _choose_next(self, verify: bool) -> None:
        if self._extrapolation is None or verify or self._decrease > _EARLY:
            self._restart(self.state)
        else:
            self.feature, self.task, self.plain = self._extrapolation.next(
                self.feature,
                self.task,
                self.state.feature,
                self.state.task,
            )

    def _restart(self, state: FetrState) -> None:
        self.feature = state.feature
        self.task = state.task
        self.plain = True
        if self._extrapolation is not None:
            self._extrapolation.clear()


class _Extrapolation:
    """Anderson's method for the map of precision matrices by one round.

    It works on logarithms of the matrices.
    """

    def __init__(self, problem: FetrProblem) -> None:
        self._d = problem.d
        self._m = problem.m
        self._box = (problem.lower, problem.upper)
        self.clear()

    def clear(self) -> None:
        """Forget the rounds so far."""
        self._after: list[Array] = []
        self._moves: list[Array] = []

    def next(
        self,
        feature: Precision,
        task: Precision,
        new_feature: Precision,
        new_task: Precision,
    ) -> tuple[Precision, Precision, bool]:
        """Record one round, and return the start of the next one.

        Also return whether that is the end of the round.
        """
        after = _flat(new_feature, new_task)
        self._after = [*self._after[-_DEPTH:], after]
        self._moves = [*self._moves[-_DEPTH:], after - _flat(feature, task)]
        if len(self._moves) == 1:
            return new_feature, new_task, True
        differences = np.diff(self._moves, axis=0)
        weights = np.linalg.lstsq(differences.T, self._moves[-1], rcond=_RCOND)[0]
        theta = after - weights @ np.diff(self._after, axis=0)
        cut = self._d**2
        return (
            from_log(theta[:cut].reshape(self._d, self._d), *self._box),
            from_log(theta[cut:].reshape(self._m, self._m), *self._box),
            False,
        )


def _flat(feature: Precision, task: Precision) -> Array:
    return np.concatenate([feature.log.ravel(), task.log.ravel()])


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
