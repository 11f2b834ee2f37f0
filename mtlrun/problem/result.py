"""The result of a solver, and what iterative solvers share.

They share certificates over time, stopping rules and warm starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtlrun.problem.objective import Gap, relative_gap

Array = np.ndarray

Callback = Callable[[int, float, float], Any]

# A gap below the first threshold that is not halved in this many checks will not
# improve.
_FLOATS = 1e-13
_PATIENCE = 3
# Decreases that the rate of a descent is fitted to, and the factor on what is left by
# this rate. Of 294 runs on School, SARCOS and simulated data, 4 stopped too early:
# their objectives had all but stood still for many rounds and fell again later.
_WINDOW = 10
_CAUTION = 10.0
# A decrease below this fraction of the terms of an objective is rounding.
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass
class SolverResult:
    """Solution of a solver, with the history of the run.

    Attributes
    ----------
    parts : ndarray of shape (n_parts, n_features, n_tasks)
        One matrix per penalty; their sum is the coefficient matrix.
    intercept : ndarray of shape (n_tasks,)
        Unpenalized intercepts, zeros when none were fitted.
    converged : bool
        Whether the stopping rule was met within the iterations allowed.
    n_iter : int
        Iterations done.
    objective : list of float
        Primal values at the iterations where they were computed; the last one belongs
        to `parts`.
    gap : float or None
        Last relative duality gap, None where the solver has no certificate.
    gaps : list of (iteration, primal, dual)
        History of the certificate.
    stop_crit : float or None
        Final value of the stopping criterion (the gap unless another rule was
        requested).
    message : str
        Why the solver stopped.
    info : dict
        Further results of the particular solver.
    """

    parts: Array
    intercept: Array
    converged: bool
    n_iter: int
    objective: list[float] = field(default_factory=list)
    gap: float | None = None
    gaps: list[tuple[int, float, float]] = field(default_factory=list)
    stop_crit: float | None = None
    message: str = ""
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def W(self) -> Array:
        """Coefficients, shape (n_features, n_tasks)."""
        return self.parts.sum(axis=0)


class Tracker:
    """History of the certificates of a run; decides when it is over.

    Parameters
    ----------
    tol : float
        Relative duality gap to stop at.
    max_iter : int
    callback : callable, optional
        Called with (iteration, primal, dual). Stops the run by returning True.
    null : float
        Objective of zero coefficients, in the unit of the primal values.

    Attributes
    ----------
    gap : Gap
        Last certificate; `check` puts the best values so far into it.
    converged : bool
        Whether the relative gap has reached `tol`.
    message : str
        Why the run is over.
    gaps : list of (iteration, primal, dual)
        All certificates.
    best : object
        The `point` that `check` got with the best primal value.
    best_dual : object
        The `point` that `check` got with the best dual value.
    exhausted : bool
        Set by a solver that cannot do better: the next check ends the run.
    seconds : list of float
        When each certificate was known, since the start, without the time of callbacks.
    """

    def __init__(
        self,
        tol: float,
        max_iter: int,
        callback: Callback | None = None,
        *,
        null: float,
    ) -> None:
        if not tol >= 0:
            raise ValueError(f"tol must be non-negative, got {tol}")
        if max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {max_iter}")
        self.tol = tol
        self.max_iter = max_iter
        self.null = null
        self.best: Any = None
        self.best_dual: Any = None
        self.gap = Gap(np.inf, -np.inf, np.inf)
        self.converged = False
        self.exhausted = False
        self.message = f"stopped after max_iter={max_iter} iterations"
        self.gaps: list[tuple[int, float, float]] = []
        self.seconds: list[float] = []
        self._callback = callback
        self._idle = 0
        self._least = np.inf
        self._began = time.perf_counter()

    @property
    def watched(self) -> bool:
        """Whether a callback wants to see the run."""
        return self._callback is not None

    @property
    def n_iter(self) -> int:
        """Iteration of the last check."""
        return self.gaps[-1][0]

    @property
    def objective(self) -> list[float]:
        """Primal values of all checks."""
        return [primal for _, primal, _ in self.gaps]

    def due(self, iteration: int) -> bool:
        """Whether to check the gap: often at first, less often later."""
        if iteration <= 50:
            interval = 5
        else:
            interval = 25
            if iteration <= 500:
                interval = 10
        return iteration % interval == 0 or iteration == 1 or iteration == self.max_iter

    def check(self, iteration: int, primal: float, dual: float, point: object) -> bool:
        """Record the values of an iterate, and return whether to stop.

        The gap is between the best primal and the best dual value.
        """
        least = self.gap.primal
        if primal < least:
            least = primal
            self.best = point
        if dual > self.gap.dual or self.best_dual is None:
            self.best_dual = point
        dual = max(self.gap.dual, dual)
        self.gap = Gap(least, dual, relative_gap(least, dual, null=self.null))
        return self._note(iteration, finite=bool(np.isfinite(primal)))

    def check_gap(self, iteration: int, primal: float, gap: float) -> bool:
        """Record a primal value and an absolute gap, and return whether to stop.

        The gap is computed without cancellation, and the last one counts. The run also
        ends when floating-point numbers cannot make the gap smaller.
        """
        self.gap = Gap(primal, primal - gap, self.relative(primal, gap))
        if self._least / 2 < self.gap.relative <= _FLOATS:
            self._idle = self._idle + 1
        else:
            self._idle = 0
        self._least = min(self._least, self.gap.relative)
        return self._note(iteration)

    def relative(self, primal: float, gap: float) -> float:
        """Return a gap, known without cancellation, relative to the objective."""
        return relative_gap(primal, primal - gap, null=self.null, gap=gap)

    def result(self, parts: Array, intercept: Array, **info: object) -> SolverResult:
        """Make the result of a run whose last iterate was checked."""
        return SolverResult(
            parts=parts,
            intercept=intercept,
            converged=self.converged,
            n_iter=self.n_iter,
            objective=self.objective,
            gap=self.gap.relative,
            gaps=self.gaps,
            stop_crit=self.gap.relative,
            message=self.message,
            info=info,
        )

    def _note(self, iteration: int, finite: bool = True) -> bool:
        """Store the present gap, and return whether to stop."""
        self.seconds.append(time.perf_counter() - self._began)
        self.gaps.append((iteration, self.gap.primal, self.gap.dual))
        if self.gap.relative <= self.tol:
            self.converged = True
            self.message = (
                f"relative duality gap {self.gap.relative:.2e} <= tol {self.tol:g}"
            )
            return True
        if not finite:
            self.message = f"the objective is not finite at iteration {iteration}"
            return True
        if self._callback is not None:
            paused = time.perf_counter()
            wanted = self._callback(iteration, self.gap.primal, self.gap.dual)
            self._began += time.perf_counter() - paused
            if wanted:
                self.message = "stopped by the callback"
                return True
        if self.exhausted or self._idle == _PATIENCE:
            self.message = "nothing improves any more, at the accuracy of floats"
            return True
        return iteration >= self.max_iter


class RemainingDecrease:
    """Estimate of how much further rounds of a descent would lower its objective.

    Rounds that gain little each may have much left. A linearly convergent descent with
    the rate r has g r / (1 - r) left after a round that gained g. Here r is fitted to
    the logarithms of the last ten decreases, and g is the largest of them. Rates still
    grow while fast components die out, so that the estimate is ten times this.

    Attributes
    ----------
    last_decrease : float
        Decrease of the last round, as a fraction of its unit; infinite at first.
    rate : float
        r; infinite in the first rounds.
    remaining : float
        The estimate, as a fraction of the unit; infinite in the first rounds, and where
        decreases grow. It is 0 after ten rounds that changed the value by rounding.
    """

    def __init__(self) -> None:
        self.last_decrease = np.inf
        self.rate = np.inf
        self.remaining = np.inf
        self._value = np.inf
        self._decreases: list[float] = []

    def restart(self) -> None:
        """Forget the rate: the next rounds are of another kind."""
        self._decreases.clear()

    def add(self, value: float, *, unit: float, size: float) -> None:
        """Record the objective after a round.

        Parameters
        ----------
        value : float
        unit : float
            Positive; what fractions are relative to.
        size : float
            Sum of the sizes of the terms of the objective, of which rounding is a part.
        """
        decrease = self._value - value
        self._value = value
        self.last_decrease = decrease / unit
        self.remaining = np.inf
        if np.isinf(decrease):
            return
        self._decreases = [*self._decreases[1 - _WINDOW :], decrease]
        if len(self._decreases) < _WINDOW:
            return
        rounding = _ROUNDING * size
        if sum(self._decreases) <= rounding:
            self.remaining = 0.0
            return
        decreases = np.maximum(self._decreases, rounding)
        slope = np.polyfit(range(_WINDOW), np.log(decreases), deg=1)[0]
        self.rate = float(np.exp(slope))
        if self.rate < 1:
            share = self.rate / (1 - self.rate)
            self.remaining = _CAUTION * float(decreases.max()) / unit * share


def start_parts(
    start: SolverResult | Array | None,
    n_parts: int,
    shape: tuple[int, int],
) -> Array | None:
    """Return the parts of a warm start as an array (n_parts, d, T), None without one.

    Raises
    ------
    ValueError
        If the shape does not fit.
    """
    if start is None:
        return None
    parts = np.asarray(
        start.parts if isinstance(start, SolverResult) else start, dtype=np.float64
    )
    if parts.shape != (n_parts, *shape):
        raise ValueError(f"start has shape {parts.shape}, need {(n_parts, *shape)}")
    return parts


def start_info(start: SolverResult | Array | None, name: str = "state") -> Any:
    """Return what an earlier run has left in its `info`, None without it."""
    if isinstance(start, SolverResult):
        return start.info.get(name)
    return None


def relative_changes(new: Array, old: Array, least: float = 1.0) -> list[float]:
    """Return ||new_k - old_k||_F / max(least, ||old_k||_F) for every part.

    With `least` 1 this is equation (25) of Pan et al. (2015), which depends on the
    units of the targets.
    """
    return [
        float(np.linalg.norm(a - b)) / max(least, float(np.linalg.norm(b)))
        for a, b in zip(new, old, strict=True)
    ]
