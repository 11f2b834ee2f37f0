"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class SolverResult:
    """Solution and account of one run of a solver.

    Attributes
    ----------
    parts : ndarray of shape (n_parts, n_features, n_tasks)
        One matrix per penalty; their sum is the coefficient matrix.
    intercept : ndarray of shape (n_tasks,)
        Unpenalised intercepts, zeros when none were fitted.
    converged : bool
        Whether the stopping rule was met within the iterations allowed.
    n_iter : int
        Iterations done.
    objective : list of float
        Primal values at the iterations where they were computed; the last one belongs to `parts`.
    gap : float or None
        Last relative duality gap, None where the solver has no certificate.
    gaps : list of (iteration, primal, dual)
        History of the certificate.
    stop_crit : float or None
        Value of the stopping quantity at the end (the gap unless another rule was asked for).
    message : str
        Why the solver stopped.
    info : dict
        Facts of the particular solver.
    """

    parts: np.ndarray
    intercept: np.ndarray
    converged: bool
    n_iter: int
    objective: list[float] = field(default_factory=list)
    gap: float | None = None
    gaps: list[tuple[int, float, float]] = field(default_factory=list)
    stop_crit: float | None = None
    message: str = ""
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def W(self) -> np.ndarray:
        """Coefficients, shape (n_features, n_tasks)."""
        return self.parts.sum(axis=0)
