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
    if table is None:
        return None
    if axis == 0 and type(table) is np.ndarray and isinstance(positions, np.ndarray):
        # The usual case. scikit-learn's function returns the same rows, but it first
        # asks narwhals whether the array is a data frame (as of 1.9). This took longer
        # than to fit a ridge regression to a task of 20 rows.
        return table[positions, ...]
    # scikit-learn has no public function that takes rows of arrays, sparse matrices,
    # lists, and frames of pandas, Polars and pyarrow alike (as of 1.9).
    from sklearn.utils import _safe_indexing

    return _safe_indexing(table, positions, axis=axis)
