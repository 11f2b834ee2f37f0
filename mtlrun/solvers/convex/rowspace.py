"""Ragged tasks with few distinct rows: coordinates of the space that the rows span, for rotation-invariant penalties.

One-vs-one tasks share their examples: 45 tasks of 80 rows may have 400 distinct rows in 784 features. Where penalties
keep their value under rotations of the features, the solution lies in the span of the rows, and every product is that
many times cheaper in an orthonormal basis of it.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mtlrun.problem.taskdata import TaskData

# The basis is used when it has at most this part of the features.
_PAYS = 0.75


def in_row_space(data: TaskData) -> tuple[TaskData, np.ndarray | None]:
    """Return the data in coordinates of the span of their rows, and the basis (d, r); as they are with None otherwise.

    Parameters
    ----------
    data : TaskData
        Shared and sparse designs are left as they are.
    """
    if data.shared or data.sparse:
        return data, None
    distinct = _distinct_rows(data.X)
    if len(distinct) > _PAYS * data.n_features:
        return data, None
    basis = scipy.linalg.qr(distinct.T, mode="economic", check_finite=False)[0]
    return data.with_design(np.ascontiguousarray(data.X @ basis)), basis


def lift(basis: np.ndarray | None, W: np.ndarray) -> np.ndarray:
    """Return coefficients (..., d, T) of coordinates (..., r, T)."""
    return W if basis is None else basis @ W


def _distinct_rows(X: np.ndarray) -> np.ndarray:
    """Return the rows of X without repetitions, or all of them if telling them apart by a projection fails."""
    key = X @ np.random.default_rng(0).normal(size=X.shape[1])
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return X[first] if np.array_equal(X[first][group], X) else X
