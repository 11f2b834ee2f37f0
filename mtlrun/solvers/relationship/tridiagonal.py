"""Symmetric matrices as P T P' with T tridiagonal: enough for shifted systems, and cheaper than eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dormqr, dpotrf, dsygst, dsytrd, dsytrd_lwork


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """A symmetric matrix P T P' of size n.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
    off : ndarray of shape (n - 1,)
        The entries of T.
    reflectors : ndarray of shape (n - 1, n - 1)
        Fortran order; LAPACK's elementary reflectors of P, which leaves the first coordinate as it is.
    scales : ndarray of shape (n - 1,)
        Their factors.
    """

    diagonal: np.ndarray
    off: np.ndarray
    reflectors: np.ndarray
    scales: np.ndarray

    @classmethod
    def reduce(cls, A: np.ndarray) -> Tridiagonal:
        """Reduce a symmetric matrix in Fortran order, which is overwritten; its lower triangle is read."""
        packed, diagonal, off, scales, _ = dsytrd(
            A, lower=1, lwork=int(dsytrd_lwork(len(A), lower=1)[0]), overwrite_a=1
        )
        return cls(diagonal, off, np.asfortranarray(packed[1:, :-1]), scales)

    def solve(self, shifts: np.ndarray, R: np.ndarray, *, factor: float = 1.0) -> np.ndarray:
        """Return X with (factor A + shifts_j I) x_j = r_j, positive definite for every column.

        Parameters
        ----------
        shifts : ndarray of shape (k,)
        R : ndarray of shape (n, k)
            C order; overwritten by the solution.
        factor : float, default 1.0
        """
        self._rotate(R, "N")
        _solve_shifted(factor * self.diagonal, factor * self.off, shifts, R)
        self._rotate(R, "T")
        return R

    def _rotate(self, R: np.ndarray, trans: str) -> None:
        """Replace R by P'R ("N") or P R ("T"): in Fortran order its transpose is multiplied from the right."""
        if len(self.diagonal) < 2:
            return
        rows = R.T[:, 1:]
        workspace = 64 * (R.shape[1] + 65)  # LAPACK's largest block
        product, _, _ = dormqr("R", trans, self.reflectors, self.scales, rows, workspace, overwrite_c=1)
        if not np.shares_memory(product, rows):  # R was not contiguous
            rows[...] = product


def reduce_pencil(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L and M = L^{-1} A L^{-T} (lower triangles, Fortran order) with B = L L'.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, Fortran order; overwritten by M.
    B : ndarray of shape (n, n)
        Positive definite; left as it is.

    Raises
    ------
    scipy.linalg.LinAlgError
        If B is not positive definite.
    """
    L, info = dpotrf(B.T, lower=1, clean=0)
    if info != 0:
        raise LinAlgError(f"the matrix is not positive definite: pivot {info} of its Cholesky factor vanishes")
    M, _ = dsygst(A, L, lower=1, overwrite_a=1)
    return L, M


def _solve_shifted(diagonal: np.ndarray, off: np.ndarray, shifts: np.ndarray, R: np.ndarray) -> None:
    """Solve (T + shifts_j I) x_j = r_j by L D L' factors of all columns at once, into R."""
    pivots = diagonal[:, np.newaxis] + shifts
    work = np.empty_like(shifts)
    multiply, subtract, divide = np.multiply, np.subtract, np.divide  # small systems spend their time on such lookups
    pivot = pivots[0]
    for square, below in zip((off * off).tolist(), pivots[1:], strict=True):
        divide(square, pivot, work)
        subtract(below, work, below)
        pivot = below
    ratios = off[:, np.newaxis] / pivots[:-1]
    row = R[0]
    for ratio, below in zip(ratios, R[1:], strict=True):
        multiply(ratio, row, work)
        subtract(below, work, below)
        row = below
    R /= pivots
    row = R[-1]
    for ratio, above in zip(ratios[::-1], R[-2::-1], strict=True):
        multiply(ratio, row, work)
        subtract(above, work, above)
        row = above
