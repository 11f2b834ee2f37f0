"""Tables as the solver of smooth models reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.estimators.smooth_base import FlatRows
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.smooth_blocks import SmoothData
from mtlrun.solvers.hierarchical.smooth_parts import (
    COMMON_PARTS,
    TASK_PARTS,
    SmoothRows,
    Standardizer,
    make_design,
)


@dataclass(frozen=True)
class SmoothTable:
    """Rows for the solver, and how further rows are read.

    Attributes
    ----------
    data : SmoothData
        In the order of the tasks; targets are not standardized.
    standardizer : Standardizer
    """

    data: SmoothData
    standardizer: Standardizer

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        task: np.ndarray,
        weight: np.ndarray | None = None,
        **parts: Any,
    ) -> SmoothTable:
        """Return a table with all parts, or those named as in `make_design`."""
        stacked = TaskData.from_stacked(X, y, task, weights=weight)
        flat = FlatRows.of(stacked)
        standardizer = Standardizer.fit(stacked.X, flat.weight)
        rows = read(standardizer, stacked.X)
        parts = {"common_parts": COMMON_PARTS, "task_parts": TASK_PARTS, **parts}
        design = make_design(rows, flat.weight, **parts)
        noise = 1 / flat.weight
        return cls(
            SmoothData(design, rows, flat.code, flat.target, noise), standardizer
        )

    def rows(self, X: np.ndarray) -> SmoothRows:
        """Return further rows."""
        return read(self.standardizer, X)


def read(standardizer: Standardizer, X: np.ndarray) -> SmoothRows:
    """Return rows without further grouping factors."""
    return SmoothRows(standardizer.transform(X), np.zeros((len(X), 0), dtype=int))
