"""Columns that separate two classes: their coefficients have no finite optimum.

Classes are separated, perhaps with ties, where a direction b has s_i x_i'b >= 0 for all
rows, s_i = +-1 the class, and more than 0 for some. A linear program finds such a
direction; most often a single column is one, which needs none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

Array = np.ndarray[Any, np.dtype[Any]]

#: Numbers in a table, and columns, at most, for which a linear program is solved, or
#: one per column.
MAX_ENTRIES = 5_000_000
MAX_COLUMNS = 50
# Sums of s_i x_i'b below this, with b and the columns of order one, are rounding.
_ROUNDING = 1e-7


def separating_columns(A: Array, y: Array, intercept: bool) -> list[int]:
    """Return the columns of a direction that separates the classes.

    The list is empty if there is none, or if the table is too large.

    Parameters
    ----------
    A : ndarray of shape (n, p)
        Standardized rows, the intercept (if any) in front.
    y : ndarray of shape (n,)
        0 or 1.
    intercept : bool
        Whether column 0 is the intercept. It is returned alone where all labels are of
        one class, else left out.
    """
    sign = np.where(y > 0, 1.0, -1.0)
    if intercept and (sign == sign[0]).all():
        return [0]
    first = int(intercept)
    single = [
        j for j in range(first, A.shape[1]) if _separates(A[:, j], sign, intercept)
    ]
    if single or A.size > MAX_ENTRIES or A.shape[1] > MAX_COLUMNS:
        return single
    rows = sign[:, None] * A
    columns = np.arange(A.shape[1])
    if not _has_direction(rows):
        return []
    # A direction of few columns says more than any direction: columns that are not
    # needed are left out.
    for j in range(first, A.shape[1]):
        fewer = columns[columns != j]
        if _has_direction(rows[:, fewer]):
            columns = fewer
    return [int(j) for j in columns if j >= first]


def _separates(x: Array, sign: Array, intercept: bool) -> bool:
    """Return whether a column separates the classes; without intercept, at zero."""
    if not intercept:
        products = sign * x
        same_sign = bool((products >= 0).all() or (products <= 0).all())
        return same_sign and bool(products.any())
    if np.ptp(x) <= _ROUNDING:
        return False
    low = x[sign < 0]
    high = x[sign > 0]
    return bool(low.max() <= high.min() or high.max() <= low.min())


def _has_direction(rows: Array) -> bool:
    if not rows.shape[1]:
        return False
    solution = linprog(
        -rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1.0, 1.0)
    )
    return bool(solution.status == 0 and -solution.fun > _ROUNDING * len(rows))
