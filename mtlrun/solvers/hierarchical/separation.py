"""Columns that separate two classes: their coefficients have no finite optimum.

The classes s_i = +-1 are separated, perhaps with ties, if a direction b has
s_i x_i'b >= 0 for all rows and more than 0 for some. A linear program finds such a
direction. In most cases a single column is one, which is checked first.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

Array = np.ndarray

#: Larger tables than this (numbers, columns) are not searched by linear programs, of
#: which one per column is solved.
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
        Standardized rows, with the intercept (if any) as first column.
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
    n_columns = A.shape[1]
    slopes = range(first, n_columns)
    single = [j for j in slopes if _separates(A[:, j], sign, intercept)]
    is_too_large = A.size > MAX_ENTRIES or n_columns > MAX_COLUMNS
    if single or is_too_large:
        return single
    rows = sign[:, None] * A
    columns = np.arange(n_columns)
    if not _has_direction(rows):
        return []
    # A direction of few columns says more than any direction: columns that are not
    # needed are left out.
    for j in slopes:
        fewer = columns[columns != j]
        if _has_direction(rows[:, fewer]):
            columns = fewer
    return [int(j) for j in columns if j >= first]


def _separates(x: Array, sign: Array, intercept: bool) -> bool:
    """Return whether a column separates the classes; without intercept, at zero."""
    if not intercept:
        products = sign * x
        is_never_negative = bool((products >= 0).all())
        is_never_positive = bool((products <= 0).all())
        has_same_sign = is_never_negative or is_never_positive
        return has_same_sign and bool(products.any())
    if np.ptp(x) <= _ROUNDING:
        return False
    negative = x[sign < 0]
    positive = x[sign > 0]
    is_above = positive.min() >= negative.max()
    is_below = positive.max() <= negative.min()
    return bool(is_above or is_below)


def _has_direction(rows: Array) -> bool:
    """Return whether a direction separates the rows s_i x_i (n, p).

    Maximize sum_i s_i x_i'b over b in a box, subject to s_i x_i'b >= 0: the maximum is
    0 unless b separates.
    """
    if not rows.shape[1]:
        return False
    objective = -rows.sum(axis=0)
    zeros = np.zeros(len(rows))
    solution = linprog(
        objective,
        A_ub=-rows,
        b_ub=zeros,
        bounds=(-1.0, 1.0),
    )
    rounding = _ROUNDING * len(rows)
    return bool(solution.status == 0 and -solution.fun > rounding)
