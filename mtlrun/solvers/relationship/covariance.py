"""Precision matrices of a matrix-normal prior: exact minimisation in a box, flip-flop, projections.

The prior gives rho [tr(S1 W S2 W') - m log|S1| - d log|S2|] for W (d, m), as a function of one of the precision
matrices: rho [tr(S A) - k log|S|] with the moment A = W S2 W' and k = m, or A = W'S1 W and k = d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg


@dataclass(frozen=True, eq=False)
class Precision:
    """A symmetric positive definite matrix with its spectral decomposition.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive eigenvalues.
    vectors : ndarray of shape (k, k)
        Orthonormal eigenvectors in columns.
    """

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def scalar(cls, size: int, value: float) -> Precision:
        """Return value * I."""
        return cls(np.full(size, value), np.eye(size))

    @property
    def matrix(self) -> np.ndarray:
        """The matrix itself, exactly symmetric."""
        return _assemble(self.values, self.vectors)

    @property
    def covariance(self) -> np.ndarray:
        """The inverse."""
        return _assemble(1.0 / self.values, self.vectors)

    @property
    def log(self) -> np.ndarray:
        """The matrix logarithm."""
        return _assemble(np.log(self.values), self.vectors)

    @property
    def logdet(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self.values).sum())


def feature_moment(W: np.ndarray, task_precision: np.ndarray) -> np.ndarray:
    """Return W S2 W', shape (d, d)."""
    return _symmetric(W @ task_precision @ W.T)


def task_moment(W: np.ndarray, feature_precision: np.ndarray) -> np.ndarray:
    """Return W'S1 W, shape (m, m)."""
    return _symmetric(W.T @ feature_precision @ W)


def exact_precision(moment: np.ndarray, count: int, lower: float, upper: float) -> Precision:
    """Minimise tr(S A) - count log|S| subject to lower I <= S <= upper I.

    With A = U diag(nu) U' the solution is U diag(clip(count / nu, lower, upper)) U'; nu = 0 gives `upper`.

    Parameters
    ----------
    moment : ndarray of shape (k, k)
        A, positive semidefinite.
    count : int
    lower, upper : float
        0 < lower < upper.
    """
    nu, U = scipy.linalg.eigh(moment, driver="evd", check_finite=False)
    # count / nu <= upper exactly where nu >= count / upper; this also meets nu = 0 and negative rounding.
    return Precision(np.clip(count / np.maximum(nu, count / upper), lower, upper), U)


def flip_flop_precision(moment: np.ndarray, count: int, lower: float, upper: float, fudge: float) -> Precision:
    """Return (A / count + fudge I)^{-1}, its eigenvalues clipped to [lower, upper].

    The maximum-likelihood update of Zhang and Schneider (2010) with their fudge factor, which biases it.
    """
    nu, U = scipy.linalg.eigh(moment, driver="evd", check_finite=False)
    return Precision(np.clip(1.0 / (np.maximum(nu, 0.0) / count + fudge), lower, upper), U)


def project(S: np.ndarray, lower: float, upper: float) -> Precision:
    """Return the nearest matrix (Frobenius) with eigenvalues in [lower, upper] to a symmetric one."""
    values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    return Precision(np.clip(values, lower, upper), vectors)


def from_log(L: np.ndarray, lower: float, upper: float) -> Precision:
    """Return the exponential of a symmetric matrix, its eigenvalues clipped to [lower, upper]."""
    values, vectors = scipy.linalg.eigh(L, driver="evd", check_finite=False)
    return Precision(np.exp(np.clip(values, np.log(lower), np.log(upper))), vectors)


def check_box(lower: float, upper: float) -> None:
    """Refuse an empty box.

    Raises
    ------
    ValueError
        Unless 0 < lower < upper < inf.
    """
    if not 0 < lower < upper < np.inf:
        raise ValueError(
            "lower and upper bound the eigenvalues of both precision matrices and must satisfy 0 < lower < upper < inf,"
            f" got lower={lower!r} and upper={upper!r}"
        )


def _assemble(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return _symmetric((vectors * values) @ vectors.T)


def _symmetric(A: np.ndarray) -> np.ndarray:
    return 0.5 * (A + A.T)
