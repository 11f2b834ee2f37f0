"""Designs whose columns differ so much in scale that a Gram matrix loses the small ones in the rounding of the large.

A Gram matrix has errors of eps times its largest eigenvalue: directions whose singular value is below sqrt(eps) of the
largest, about, are noise there. Scaling the columns would change the penalty. A Jacobi SVD of the rows has relative
errors that do not depend on the scales of the columns (Drmac and Veselic, 2008; LAPACK's dgejsv).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dgejsv

Array = np.ndarray[Any, np.dtype[Any]]

_EPS = float(np.finfo(np.float64).eps)
# Beyond this ratio of the norms of two columns, eigenvalues of a Gram matrix may be off by 1e-6 of themselves.
_RATIO = 1e5
# What centring leaves of a constant column, relative to its size: exactly, or where means are subtracted from sums.
_DUST, _DUST_OF_SUMS = 1e-13, 1e-7
# A singular value is noise below this times eps, relative to the columns that its vector combines, and their number.
_NOISE = 8.0


def is_graded(squares: Array, whole: Array, *, sums: bool = False) -> Array:
    """Return whether columns differ too much in scale for a Gram matrix, for one design or several.

    Parameters
    ----------
    squares : ndarray of shape (..., d)
        Squared norms of the columns.
    whole : ndarray of shape (..., d)
        Those before centring: what is tiny next to them is rounding of a constant column.
    sums : bool, default False
        Whether the means were subtracted from sums of squares, not from the rows.
    """
    if squares.size and squares.max() < _RATIO**2 * squares.min():
        return np.zeros(squares.shape[:-1], dtype=bool)
    dust = _DUST_OF_SUMS if sums else _DUST
    used = squares > dust**2 * whole
    least = np.min(squares, axis=-1, initial=np.inf, where=used)
    most = np.max(squares, axis=-1, initial=0.0, where=used)
    return np.asarray(least * _RATIO**2 < most)


def right_singular(A: Array, sizes: Array) -> tuple[Array, Array]:
    """Return squared singular values, in ascending order, and right singular vectors (d, r) of a matrix (n, d).

    Every singular value and every entry of the vectors is accurate relative to itself, as far as the condition of the
    matrix with columns (for n < d: and rows) of norm one allows. What is noise is left out, but for one direction.

    Parameters
    ----------
    A : ndarray of shape (n, d)
        Its columns may be of any scales.
    sizes : ndarray of shape (d,)
        Norms of the columns before centring: noise is relative to them.
    """
    used = np.flatnonzero(A.any(axis=0))
    if len(used) < A.shape[1]:  # LAPACK's routine is for columns and rows with entries
        squares, V = right_singular(A[:, used], sizes[used]) if len(used) else (np.zeros(1), np.zeros((0, 1)))
        whole = np.zeros((A.shape[1], V.shape[1]))
        whole[used] = V
        return squares, whole
    A = A[A.any(axis=1)]
    n, d = A.shape
    if n >= d:  # columns of any scale
        values, _, V, work, _, info = dgejsv(np.asfortranarray(A), joba=0, jobu=0, jobv=0, jobt=1, jobp=1)
    else:  # rows of any scale
        values, V, _, work, _, info = dgejsv(np.asfortranarray(A.T), joba=2, jobu=0, jobv=0, jobt=1, jobp=1)
    if info != 0:
        raise ArithmeticError(f"the singular values of a {A.shape} design could not be computed")
    values = values * (work[0] / work[1])
    kept = values > _NOISE * _EPS * max(n, d) * (sizes @ np.abs(V))
    kept[0] = True
    return np.ascontiguousarray(np.square(values[kept])[::-1]), np.ascontiguousarray(V[:, kept][:, ::-1])
