"""What the solvers of graph-regularised SVMs share: the objective, its three losses, and the result."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mtlrun.penalties.graph import TaskCoupling
from mtlrun.problem.losses import HingeLoss, LogisticLoss, Loss, SquaredHingeLoss
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.common import Callback

Array = np.ndarray[Any, np.dtype[Any]]

#: C times these is the loss of the objective: LIBLINEAR's squared hinge has no 1/2.
SVM_LOSSES: dict[str, Loss] = {
    "hinge": HingeLoss(),
    "squared_hinge": SquaredHingeLoss(2.0),
    "logistic": LogisticLoss(),
}


def check_problem(data: TaskData, coupling: TaskCoupling, loss: str, C: float, tol: float, max_iter: int) -> None:
    """Refuse arguments that the solvers cannot take.

    Raises
    ------
    ValueError
    """
    if loss not in SVM_LOSSES:
        raise ValueError(f"loss must be one of {', '.join(SVM_LOSSES)}, got {loss!r}")
    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive and finite, got {C}")
    if not tol >= 0:
        raise ValueError(f"tol must be non-negative, got {tol}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")
    if coupling.n_tasks != data.n_tasks:
        raise ValueError(f"the coupling is of {coupling.n_tasks} tasks, the data have {data.n_tasks}")
    SVM_LOSSES[loss].check_targets(data.targets, data.effective_weights())


def costs(data: TaskData, C: float) -> Array:
    """Return C times the weight of every entry, a field."""
    weights = data.effective_weights()
    return np.full(data.targets.shape, float(C)) if weights is None else C * weights


def start_alpha(start: Any, cap: Array, loss: str) -> Array:
    """Return dual variables to start from: those given, moved into their bounds, or zeros.

    Raises
    ------
    ValueError
        If the shape does not fit or a value is not finite.
    """
    if start is None:
        return np.zeros_like(cap)
    alpha = np.asarray(start, dtype=np.float64)
    if alpha.shape != cap.shape or not np.isfinite(alpha).all():
        raise ValueError(f"start must be finite dual variables of shape {cap.shape}, got shape {alpha.shape}")
    upper = np.where(cap > 0, np.inf, 0.0) if loss == "squared_hinge" else cap
    return np.clip(alpha, 0.0, upper)


def relative(primal: float, gap: float) -> float:
    """Return gap / max(1, |primal|, |dual|) for a gap known without cancellation."""
    return gap / max(1.0, abs(primal), abs(primal - gap)) if np.isfinite(gap) else np.inf


#: A gap below the first that is not halved in so many notes will not get better.
_FLOATS, _PATIENCE = 1e-13, 3


class Account:
    """History of certificates; decides when a run is over.

    Parameters
    ----------
    tol : float
        Relative gap (P - D) / max(1, |P|, |D|) to stop at.
    max_iter : int
    callback : callable, optional
        Called with (iteration, primal, dual); a true answer stops the run.

    Attributes
    ----------
    gap : float
        Last relative gap.
    gaps : list of (iteration, primal, dual)
    exhausted : bool
        Set by a solver that cannot do better: the next note ends the run.
    seconds : list of float
        When each of them was known, since the account was opened; without the time of callbacks.
    """

    def __init__(self, tol: float, max_iter: int, callback: Callback | None) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.gap = np.inf
        self.gaps: list[tuple[int, float, float]] = []
        self.seconds: list[float] = []
        self.converged = False
        self.exhausted = False
        self.message = ""
        self._idle, self._least = 0, np.inf
        self._callback = callback
        self._began = time.perf_counter()

    def note(self, iteration: int, primal: float, gap: float) -> bool:
        """Note a primal value and its (absolute) gap; return whether to stop."""
        self.seconds.append(time.perf_counter() - self._began)
        self.gap = relative(primal, gap)
        dual = primal - gap
        self.gaps.append((iteration, primal, dual))
        self.converged = self.gap <= self.tol
        self._idle = self._idle + 1 if self._least / 2 < self.gap <= _FLOATS else 0
        self._least = min(self._least, self.gap)
        if self.converged:
            self.message = f"relative duality gap {self.gap:.2e} <= tol {self.tol:g}"
            return True
        if self._callback is not None:
            paused = time.perf_counter()
            wanted = self._callback(iteration, primal, dual)
            self._began += time.perf_counter() - paused
            if wanted:
                self.message = "stopped by the callback"
                return True
        if self.exhausted or self._idle == _PATIENCE:
            self.message = "nothing improves any more, at the accuracy of floats"
            return True
        if iteration >= self.max_iter:
            self.message = f"stopped after max_iter={self.max_iter} iterations"
            return True
        return False

    def settle(self, tol: float) -> None:
        """Judge the end of a run that went for more than it had to."""
        if not self.converged and self.gap <= tol:
            self.converged = True
            self.message = f"relative duality gap {self.gap:.2e} <= tol {tol:g}"

    def result(self, W: Array, fit_intercept: bool, alpha: Array, **info: Any) -> SolverResult:
        """Return the result; the last row of W (D, T) are the intercepts when there are any.

        `info` has ``alpha`` (a field) and ``seconds`` beside what is given.
        """
        intercept = W[-1].copy() if fit_intercept else np.zeros(W.shape[1])
        return SolverResult(
            parts=(W[:-1] if fit_intercept else W)[np.newaxis],
            intercept=intercept,
            converged=self.converged,
            n_iter=max(1, self.gaps[-1][0]),
            objective=[primal for _, primal, _ in self.gaps],
            gap=self.gap,
            gaps=self.gaps,
            stop_crit=self.gap,
            message=self.message,
            info={"alpha": alpha, "seconds": self.seconds, **info},
        )
