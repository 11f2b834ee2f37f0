"""What the iterative solvers share: certificates over time, stopping, warm starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mtlrun.problem.objective import Gap
from mtlrun.problem.result import SolverResult

Callback = Callable[[int, float, float], Any]


class Tracker:
    """Keeps the best primal and the best dual value of a run and decides when it is over.

    Parameters
    ----------
    tol : float
        Relative duality gap to stop at.
    max_iter : int
    callback : callable, optional
        Called with (iteration, best primal, best dual); a true answer stops the run.
    unavoidable : float, default 0.0
        Loss that no coefficients get below, for the reduced gap.

    Attributes
    ----------
    best : object
        What `check` was given with the best primal value.
    """

    def __init__(self, tol: float, max_iter: int, callback: Callback | None = None, unavoidable: float = 0.0) -> None:
        if not tol >= 0:
            raise ValueError(f"tol must be non-negative, got {tol}")
        if max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {max_iter}")
        self.tol = tol
        self.max_iter = max_iter
        self.best: Any = None
        self.gap: Gap | None = None
        self.converged = False
        self.message = f"stopped after max_iter={max_iter} iterations"
        self.objective: list[float] = []
        self.gaps: list[tuple[int, float, float]] = []
        self.n_iter = 0
        self._callback = callback
        self._unavoidable = unavoidable
        self._primal, self._dual = np.inf, -np.inf

    def due(self, iteration: int) -> bool:
        """Whether the gap should be checked: often at first, then about every tenth of a hundred iterations."""
        every = 5 if iteration <= 50 else 10 if iteration <= 500 else 25
        return iteration % every == 0 or iteration == 1 or iteration == self.max_iter

    def check(self, iteration: int, primal: float, dual: float, point: Any) -> bool:
        """Note the values of one iterate; return whether to stop. `point` is kept if its primal value is the best."""
        if primal < self._primal:
            self._primal, self.best = primal, point
        self._dual = max(self._dual, dual)
        self.n_iter = iteration
        self.objective.append(self._primal)
        self.gaps.append((iteration, self._primal, self._dual))
        self.gap = Gap.of(self._primal, self._dual, self._unavoidable)
        if self.gap.relative <= self.tol:
            self.converged = True
            self.message = f"relative duality gap {self.gap.relative:.2e} <= tol {self.tol:g}"
            return True
        if not np.isfinite(primal):
            self.message = f"the objective is not finite at iteration {iteration}"
            return True
        if self._callback is not None and self._callback(iteration, self._primal, self._dual):
            self.message = "stopped by the callback"
            return True
        return False

    def result(self, parts: np.ndarray, intercept: np.ndarray, **info: Any) -> SolverResult:
        """Make the result of a run whose last iterate was checked."""
        assert self.gap is not None
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
            info={"unavoidable": self._unavoidable, "relative_reduced": self.gap.relative_reduced, **info},
        )


def start_parts(start: SolverResult | np.ndarray | None, n_parts: int, shape: tuple[int, int]) -> np.ndarray | None:
    """Return the parts of a warm start as an array (n_parts, d, T), None without one.

    Raises
    ------
    ValueError
        If the shape does not fit.
    """
    if start is None:
        return None
    parts = np.asarray(start.parts if isinstance(start, SolverResult) else start, dtype=np.float64)
    if parts.shape != (n_parts, *shape):
        raise ValueError(f"start has shape {parts.shape}, need {(n_parts, *shape)}")
    return parts


def relative_changes(new: np.ndarray, old: np.ndarray) -> list[float]:
    """Return ||new_k - old_k||_F / max(1, ||old_k||_F) for every part, equation (25) of Pan et al. (2015)."""
    return [float(np.linalg.norm(a - b)) / max(1.0, float(np.linalg.norm(b))) for a, b in zip(new, old, strict=True)]
