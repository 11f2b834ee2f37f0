"""LADM-RMTL (Pan, Xia, Yin, Liu, 2015): linearised alternating directions, as printed and corrected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.linalg

from mtlrun.problem.losses import Loss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import Gap, centre, dual_value
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Rotation, SharedRotation, find_basis
from mtlrun.problem.result import Callback, SolverResult, Tracker, relative_changes, start_parts
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import RELAXATION
from mtlrun.solvers.robust.apg import with_full_svd

# Constants of Algorithms 3 and 4.
MU_FIRST, MU_GROWTH, MU_MAX = 1e-6, 1.9, 1e10
_STEP_MARGIN = 1.02
# Iterates move slowly when mu * sqrt(eta) * ||change||_F / ||Y||_F is below this times eps (LADMAP, eq. 24).
_SLOW = 0.1
# What this and mu are multiplied by when iterates hardly move and the gap is still too large.
_FINER = 0.1


def solve_ladm(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    variant: Literal["corrected", "sequential", "paper"] = "corrected",
    objective: Literal["auto", "constrained", "penalised"] = "auto",
    step: Literal["auto", "stacked", "operator"] = "auto",
    form: Literal["eigenbasis", "paper"] = "eigenbasis",
    stop: Literal["paper", "gap"] = "paper",
    eps: float = 1e-5,
    feasibility: float = 1e-5,
    start: SolverResult | np.ndarray | None = None,
    rotation: Rotation | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int = 20000,
    mu: float | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Run LADM on ||L||_* + lam ||E||_{1,2} (or other penalties) with least squares or squared hinge.

    ``variant="paper"`` is what is printed. Least squares (Algorithm 3) solves the constrained problem
    ``min sum_k penalty_k(W_k) s.t. y_i = X_i w_i`` (`loss.scale` does not appear), the squared hinge (Algorithm 4) its
    penalised problem; tau = 1 / (1.02 sigma_max^2) of the *stacked* designs, mu grows by 1.9 at every iteration, and
    rule (25) alone stops. As mu starts at 1e-6, both shrinkages annihilate the first iterates and the rule holds at
    once with W = 0, whenever 1e-6 sigma_max(A'Y) < 1 (and 1e-6 ||X_i'y_i|| < lam for all tasks).

    ``variant="corrected"`` takes tau from the operator norm max_i sigma_max(X_i), lets mu grow only while the iterates
    move slowly (LADMAP: Lin, Liu & Su 2011), and stops on rule (25) together with a feasibility test. Least squares is
    the constrained problem where that has a solution for any Y, that is if all X_i have full row rank, else the
    penalised one, which it always is for the squared hinge: ``sum_i w_i l(M_i, y_i) + sum_k penalty_k(W_k)`` subject to
    ``M = A(W)``, with a joint linearised step in all parts (half the printed length for two, over-relaxed by 1.6) and
    an exact one in M. ``variant="sequential"`` instead updates part after part with the printed step and without
    over-relaxation, in the order of Algorithm 4.

    Least squares on a shared design without gaps and weights is run in the eigenbasis of the design, where its products
    are elementwise; this changes no iterate (`SharedRotation.diagonal_data`). With ``form="paper"`` products are with X
    itself, and the SVD of every iterate is full.

    Parameters
    ----------
    data : TaskData
        Weights count in the penalised objective; the constrained one knows observed (positive weight) or not.
    loss : SquaredLoss or SquaredHingeLoss
        All but ``variant="paper"`` take any loss with a prox.
    penalties : sequence of Penalty
    variant : {"corrected", "sequential", "paper"}
    objective : {"auto", "constrained", "penalised"}
        For the squared loss unless as printed.
    step : {"auto", "stacked", "operator"}
        The sigma_max of tau: of the stacked designs (printed) or of the operator (corrected).
    form : {"eigenbasis", "paper"}
        Whether an eigenbasis of the design may be used.
    stop : {"paper", "gap"}
        Rule (25), or the relative duality gap `tol` of the penalised objective.
    eps : float, default 1e-5
        Rule (25): ||W_k - previous||_F <= eps max(1, ||previous||_F) for every part.
    feasibility : float, default 1e-5
        Corrected: largest ||violation of the constraint||_F / max(1, ||Y||_F).
    start : SolverResult or ndarray of shape (n_parts, d, T), optional
        Warm start of the parts; with the constraint and as printed also of mu, if a result of this function.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; made if not given and needed.
    fit_intercept : bool, default False
        Unpenalised intercepts: by centring for the squared loss; as variables in the corrected variant for others.
    tol : float, default 1e-4
        For ``stop="gap"``.
    max_iter : int, default 20000
    mu : float, optional
        First penalty parameter; default 1e-6, as printed.
    callback : callable, optional
        Called with (iteration, objective, nan) at every iteration; stops the run by returning True.

    Returns
    -------
    SolverResult
        `objective` holds the values of the objective that is solved (constrained: of the penalties alone). `gap` is the
        relative duality gap of the penalised objective at the end, None for a constrained run. `info` has
        ``objective``, ``mu``, ``tau`` and ``feasibility``.

    Raises
    ------
    ValueError
        If an option is unknown, the loss does not fit the variant, the rotation belongs to other data, or `start` has
        a wrong shape.
    """
    _check_options(variant, objective, step, form, stop, loss, fit_intercept)
    basis = None
    if form == "paper":
        penalties = with_full_svd(penalties)
    else:
        basis = find_basis(data, loss, penalties, fit_intercept, rotation, weighted=False)
    if isinstance(loss, SquaredLoss) and (variant == "paper" or objective == "constrained"):
        constrained = True
    elif isinstance(loss, SquaredLoss) and objective == "auto":
        constrained = solvable(data, fit_intercept) if basis is None else _full_rows(basis)
    else:
        constrained = False
    working, centred = (data, fit_intercept) if basis is None else (basis.diagonal_data(), False)
    if constrained and stop == "gap":
        raise ValueError("stop='gap' needs the penalised objective: the constrained one has no certificate")
    run = _make_run(_Problem(working, loss, penalties, variant == "paper", centred, step), constrained, variant)
    first = start_parts(start, len(penalties), (data.n_features, data.n_tasks))
    if first is not None:
        run.begin_at(first if basis is None else basis.rotate(first))
        # The corrected run takes a mu of its own: the last one, grown to stop that run, would freeze this one.
        if isinstance(start, SolverResult) and "mu" in start.info and not isinstance(run, _PenalisedRun):
            run.mu = start.info["mu"]
    if mu is not None:
        run.mu = mu
    if stop == "gap":
        result = _until_gap(run, eps, feasibility, Tracker(tol, max_iter, callback))
    else:
        result = _iterate(run, eps, feasibility, max_iter, callback)
    if basis is not None:
        result.parts = np.stack([basis.lift(Q) for Q in result.parts])
        result.intercept = basis.intercept(result.W)
    return result


class _Problem:
    """Data, operator and step sizes."""

    def __init__(
        self, data: TaskData, loss: Loss, penalties: Sequence[Penalty], paper: bool, fit_intercept: bool, step: str
    ) -> None:
        self.loss, self.penalties, self.paper = loss, penalties, paper
        self.centred = centre(data) if fit_intercept and isinstance(loss, SquaredLoss) else None
        self.with_b = fit_intercept and self.centred is None
        self.data = data if self.centred is None else self.centred.data
        self.operator = TaskOperator(data) if self.centred is None else self.centred.operator
        self.weights = self.data.effective_weights()
        self.observed = None if self.weights is None else (self.weights > 0).astype(np.float64)
        stacked = step == "stacked" or (step == "auto" and paper)
        square = _stacked_square(self.operator) if stacked else self.operator.norm() ** 2
        self.tau = 1.0 / (_STEP_MARGIN * square) if square > 0 else 1.0
        self.size = max(1.0, float(np.linalg.norm(self.data.targets)))

    def observed_only(self, field: np.ndarray) -> np.ndarray:
        """Return D . field: zero where targets are missing."""
        return field if self.observed is None else self.observed * field

    def intercept(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return b if self.centred is None else self.centred.intercept(W)


class _Run:
    """What the loops share. `image` is A(sum of parts) + b, `C` the multiplier of the constraint."""

    constrained = False

    def __init__(self, problem: _Problem) -> None:
        self.problem = problem
        d, T = problem.data.n_features, problem.data.n_tasks
        self.mu = MU_FIRST
        self.parts = np.zeros((len(problem.penalties), d, T))
        self.b = np.zeros(T)
        self.image = np.zeros_like(problem.data.targets)
        self.C = np.zeros_like(problem.data.targets)
        self.values: list[float] = []
        self.violation = np.inf

    def begin_at(self, parts: np.ndarray) -> None:
        self.parts = parts
        self.image = self.problem.operator.forward(parts.sum(axis=0))

    def step(self) -> None:
        """Make one iteration: update parts, image, C, the penalties' values and the violation."""
        raise TypeError("use a subclass")

    def objective(self) -> float:
        problem = self.problem
        fit = 0.0 if self.constrained else problem.loss.value(self.image, problem.data.targets, problem.weights)
        return fit + sum(self.values)

    def theta(self) -> np.ndarray:
        """Return a dual point for the penalised objective."""
        problem = self.problem
        return -problem.loss.gradient(self.image, problem.data.targets, problem.weights)

    def _prox(self, k: int, W: np.ndarray, gradient: np.ndarray, tau: float) -> tuple[np.ndarray, float]:
        return self.problem.penalties[k].prox_value(W - tau * gradient, tau / self.mu)

    def _sequential_parts(self, offset: np.ndarray, sign: np.ndarray | float) -> None:
        """Update part after part on mu/2 ||sign . A(W) + offset||^2, linearised."""
        problem = self.problem
        parts, self.values = self.parts.copy(), []
        for k in range(len(parts)):
            residual = problem.observed_only(sign * self.image + offset)
            gradient = problem.operator.adjoint(sign * residual)
            parts[k], value = self._prox(k, parts[k], gradient, problem.tau)
            self.values.append(value)
            self.image = problem.operator.forward(parts.sum(axis=0))
        self.parts = parts


class _ConstrainedRun(_Run):
    """Algorithm 3: y = A(sum of parts) where observed."""

    constrained = True

    def step(self) -> None:
        problem = self.problem
        self._sequential_parts(self.C / self.mu - problem.data.targets, 1.0)
        residual = problem.observed_only(self.image - problem.data.targets)
        self.C = self.C + self.mu * residual
        self.violation = float(np.linalg.norm(residual)) / problem.size


class _PrintedHingeRun(_Run):
    """Algorithm 4: M = D - F . A(sum of parts), F = D . Y, loss beta ||max(0, M)||^2; M is updated last."""

    def __init__(self, problem: _Problem) -> None:
        super().__init__(problem)
        self.M = np.zeros_like(problem.data.targets)

    def step(self) -> None:
        problem = self.problem
        D = np.ones_like(self.M) if problem.observed is None else problem.observed
        F = problem.observed_only(problem.data.targets)
        self._sequential_parts(self.M - D + self.C / self.mu, F)
        B = D - F * self.image - self.C / self.mu
        beta = 0.5 * problem.loss.scale
        shrink = self.mu / (2.0 * beta * (1.0 if problem.weights is None else problem.weights) + self.mu)
        self.M = np.where(B <= 0, B, shrink * B)
        residual = self.M - D + F * self.image
        self.C = self.C + self.mu * residual
        self.violation = float(np.linalg.norm(residual)) / problem.size


class _PenalisedRun(_Run):
    """Corrected: sum_i w_i l(M_i, y_i) with M = A(sum of parts) + b; (parts, b) linearised together, M exact."""

    def __init__(self, problem: _Problem) -> None:
        super().__init__(problem)
        self.M: np.ndarray | None = None
        blocks = len(problem.penalties) + (1 if problem.with_b else 0)
        self.tau = problem.tau / blocks
        self.tau_b = 1.0 / (_STEP_MARGIN * blocks * problem.data.sizes.max())
        if problem.data.shared:
            self.tau_b = 1.0 / (_STEP_MARGIN * blocks * problem.data.n_rows)

    def begin_at(self, parts: np.ndarray) -> None:
        super().begin_at(parts)
        problem = self.problem
        self.M = self.image
        self.C = problem.loss.gradient(self.image, problem.data.targets, problem.weights)
        # Too small a mu would blow up what the multiplier lacks in accuracy.
        self.mu = 1.0 / max(float(np.linalg.norm(problem.operator.adjoint(problem.data.targets))), 1.0)

    def step(self) -> None:
        problem = self.problem
        if self.M is None:
            self._update_M(self.image)
        residual = self.image - self.M + self.C / self.mu
        gradient = problem.operator.adjoint(residual)
        parts, self.values = np.empty_like(self.parts), []
        for k, W in enumerate(self.parts):
            parts[k], value = self._prox(k, W, gradient, self.tau)
            self.values.append(value)
        self.parts = parts
        b = None
        if problem.with_b:
            b = self.b = self.b - self.tau_b * problem.data.sum_by_task(residual)
        self.image = problem.operator.forward(parts.sum(axis=0), b)
        assert self.M is not None
        relaxed = RELAXATION * self.image + (1.0 - RELAXATION) * self.M
        self._update_M(relaxed)
        self.violation = float(np.linalg.norm(self.image - self.M)) / problem.size

    def theta(self) -> np.ndarray:
        theta = -self.C
        if self.problem.weights is not None:
            theta = np.where(self.problem.weights > 0, theta, 0.0)
        return theta

    def _update_M(self, image: np.ndarray) -> None:
        """Update M and the multiplier for an image, which may be over-relaxed."""
        problem = self.problem
        at = image + self.C / self.mu
        self.M = problem.loss.prox(at, problem.data.targets, 1.0 / self.mu, problem.weights)
        self.C = self.mu * (at - self.M)


class _SequentialRun(_PenalisedRun):
    """The same problem with part after part, each with the whole step, then M; nothing is over-relaxed."""

    def step(self) -> None:
        problem = self.problem
        if self.M is None:
            self._update_M(self.image)
        assert self.M is not None
        self._sequential_parts(self.C / self.mu - self.M, 1.0)
        self._update_M(self.image)
        self.violation = float(np.linalg.norm(self.image - self.M)) / problem.size


def _make_run(problem: _Problem, constrained: bool, variant: str) -> _Run:
    if constrained:
        return _ConstrainedRun(problem)
    if problem.paper:
        return _PrintedHingeRun(problem)
    return _SequentialRun(problem) if variant == "sequential" else _PenalisedRun(problem)


def _full_rows(basis: SharedRotation) -> bool:
    """`solvable`, from the eigenbasis; centring takes one dimension."""
    return basis.squares[0, 0] > 0 and basis.rank >= basis.data.n_rows - int(basis.fit_intercept)


def _iterate(run: _Run, eps: float, feasibility: float, max_iter: int, callback: Callback | None) -> SolverResult:
    problem = run.problem
    slow = _slow_change(problem, eps)
    objective: list[float] = []
    converged, crit, it = False, np.inf, 0
    message = f"stopped after max_iter={max_iter} iterations"
    for it in range(1, max_iter + 1):
        before = run.parts
        run.step()
        objective.append(run.objective())
        crit = max(relative_changes(run.parts, before))
        if crit <= eps and (problem.paper or run.violation <= feasibility):
            converged = True
            message = f"rule (25): {crit:.2e} <= eps {eps:g}; relative violation {run.violation:.2e}"
            break
        if callback is not None and callback(it, objective[-1], np.nan):
            message = "stopped by the callback"
            break
        _grow_mu(run, before, slow)
    return SolverResult(
        parts=run.parts,
        intercept=problem.intercept(run.parts.sum(axis=0), run.b),
        converged=converged,
        n_iter=it,
        objective=objective,
        gap=None if run.constrained else Gap.of(objective[-1], _dual(run)).relative,
        stop_crit=crit,
        message=message,
        info=_facts(run),
    )


def _until_gap(run: _Run, eps: float, feasibility: float, tracker: Tracker) -> SolverResult:
    problem = run.problem
    slow = _slow_change(problem, eps)
    for it in range(1, tracker.max_iter + 1):
        before = run.parts
        run.step()
        if tracker.due(it) and tracker.check(it, run.objective(), _dual(run), (run.parts, run.b)):
            break
        if max(relative_changes(run.parts, before)) <= eps and run.violation <= feasibility:
            # Rule (25) holds too early: a smaller mu takes longer steps, and must not grow for as little.
            eps, slow, run.mu = _FINER * eps, _FINER * slow, _FINER * run.mu
        else:
            _grow_mu(run, before, slow)
    parts, b = tracker.best
    return tracker.result(parts, problem.intercept(parts.sum(axis=0), b), **_facts(run))


def _slow_change(problem: _Problem, eps: float) -> float:
    """Return mu times the change of the parts below which mu grows."""
    return _SLOW * eps * problem.size * float(np.sqrt(problem.tau))


def _grow_mu(run: _Run, before: np.ndarray, slow: float) -> None:
    moved = max(float(np.linalg.norm(a - b)) for a, b in zip(run.parts, before, strict=True))
    if run.problem.paper or run.mu * moved < slow:
        run.mu = min(MU_GROWTH * run.mu, MU_MAX)


def _facts(run: _Run) -> dict[str, Any]:
    return {
        "objective": "constrained" if run.constrained else "penalised",
        "mu": run.mu,
        "tau": run.problem.tau,
        "feasibility": run.violation,
    }


def solvable(data: TaskData, fit_intercept: bool = False) -> bool:
    """Return whether y_i = X_i w_i (+ b_i) has a solution for all targets: every X_i has full row rank."""
    designs = [data.X] if data.shared and not data.masked else (data.task(t)[0] for t in range(data.n_tasks))
    for X in designs:
        if X.shape[0] > X.shape[1] + int(fit_intercept):
            return False
        gram = X @ X.T
        gram = gram.toarray() if data.sparse else gram
        if fit_intercept:
            gram = gram + np.trace(gram) / len(gram)  # a column of ones, as large as the others
        values = scipy.linalg.eigvalsh(gram)
        if values[0] <= 4.0 * np.finfo(np.float64).eps * len(values) * values[-1]:
            return False
    return True


def _dual(run: _Run) -> float:
    """Return the value of the dual of the penalised objective at the point that the multiplier gives."""
    problem = run.problem
    return dual_value(
        run.theta(),
        problem.data,
        problem.loss,
        problem.penalties,
        intercept=problem.with_b,
        operator=problem.operator,
    )


def _stacked_square(operator: TaskOperator) -> float:
    """Return sigma_max^2 of the designs of all tasks below each other."""
    data = operator.data
    if data.shared:
        return data.n_tasks * operator.norm() ** 2
    if operator.shift is None:
        one_task = TaskData.from_stacked(data.X, data.targets, np.zeros(data.n_rows))
        return TaskOperator(one_task).norm() ** 2
    return float(np.linalg.eigvalsh(operator.gram().sum(axis=0))[-1])


def _check_options(
    variant: str, objective: str, step: str, form: str, stop: str, loss: Loss, fit_intercept: bool
) -> None:
    for name, value, known in (
        ("variant", variant, ("corrected", "sequential", "paper")),
        ("objective", objective, ("auto", "constrained", "penalised")),
        ("step", step, ("auto", "stacked", "operator")),
        ("form", form, ("eigenbasis", "paper")),
        ("stop", stop, ("paper", "gap")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    if variant == "paper" and not isinstance(loss, SquaredLoss | SquaredHingeLoss):
        raise ValueError(f"the paper's LADM has the squared or the squared hinge loss, not {type(loss).__name__}")
    if variant == "paper" and fit_intercept and not isinstance(loss, SquaredLoss):
        raise ValueError("the paper's LADM with the squared hinge has no intercept; use variant='corrected'")
    if variant == "sequential" and fit_intercept and not isinstance(loss, SquaredLoss):
        raise ValueError("variant='sequential' has intercepts with the squared loss only; use variant='corrected'")
    if objective == "constrained" and not isinstance(loss, SquaredLoss):
        raise ValueError("only least squares has the constrained objective")
