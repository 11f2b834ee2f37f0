"""Rows and columns of whatever scikit-learn takes as a table. Imports scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Positions = np.ndarray[Any, Any] | Sequence[int] | slice | int


def take(table: Any, positions: Positions, axis: int = 0) -> Any:
    """Return some rows, or columns, of a table.

    Parameters
    ----------
    table : array, sparse matrix, data frame, list or None
        None stays None.
    positions : array, list, slice or int
        Positions, or a mask; an int takes a single row or column.
    axis : {0, 1}, default=0
        0: rows, 1: columns.

    Returns
    -------
    table of the same type
    """
    # scikit-learn has no public function that takes rows of arrays, sparse matrices,
    # lists, and frames of pandas, Polars and pyarrow alike (as of 1.9).
    from sklearn.utils import _safe_indexing

    if table is None:
        return None
    return _safe_indexing(table, positions, axis=axis)
