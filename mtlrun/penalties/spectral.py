"""Singular values through the smaller Gram matrix: thresholding, norms."""

from __future__ import annotations

import numpy as np
import scipy.linalg

# Eigenvalues of a Gram matrix carry an error of about eps * sigma_1^2, so singular values near a threshold tau carry
# eps * sigma_1^2 / tau; below this ratio tau / sigma_1 the full SVD is taken instead.
_GRAM_RATIO = 1e-5


def small_gram(Z: np.ndarray) -> np.ndarray:
    """Return Z'Z or ZZ', whichever is smaller.

    Its eigenvalues are squared singular values with an error of eps * sigma_1^2: an exact zero may come out as
    1e-16 sigma_1^2, and its root as 1e-8 sigma_1. They serve for the largest singular value and where only squares
    count; a sum of singular values takes the SVD.
    """
    return Z.T @ Z if Z.shape[1] <= Z.shape[0] else Z @ Z.T


def spectral_norm(Z: np.ndarray) -> float:
    """Return the largest singular value of Z (0 for an empty matrix), to machine precision.

    Raises
    ------
    ValueError
        If Z holds values that are not finite.
    """
    size = min(Z.shape)
    if size == 0:
        return 0.0
    top = scipy.linalg.eigh(small_gram(Z), eigvals_only=True, subset_by_index=[size - 1, size - 1])
    return float(np.sqrt(max(top[0], 0.0)))


def trace_norm(Z: np.ndarray) -> float:
    """Return the sum of the singular values of Z."""
    return float(np.linalg.svd(Z, compute_uv=False).sum())


def svt(Z: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Soft-threshold the singular values of Z: the prox of threshold * trace norm.

    One eigendecomposition of the smaller Gram matrix, of which only the part above the threshold is computed;
    where that would lose accuracy (a threshold below 1e-5 of the largest singular value) the full SVD is used.

    Parameters
    ----------
    Z : ndarray of shape (d, T)
    threshold : float
        Non-negative.

    Returns
    -------
    matrix : ndarray of shape (d, T)
        A new array.
    sigma : ndarray of shape (rank,)
        Positive singular values of `matrix` (already shrunk), in descending order; their sum is its trace norm.

    Raises
    ------
    ValueError
        If Z holds values that are not finite or the threshold is negative.
    """
    if threshold < 0:
        raise ValueError(f"threshold must not be negative, got {threshold}")
    gram = small_gram(Z)
    bound = float(np.sqrt(max(np.trace(gram), 0.0)))  # Frobenius norm, at least sigma_1
    if not np.isfinite(bound):
        raise ValueError("Z holds NaN or infinite values")
    if threshold >= bound:
        return np.zeros_like(Z), np.zeros(0)
    if threshold < _GRAM_RATIO * bound:
        return svt_full(Z, threshold)
    values, V = scipy.linalg.eigh(gram, subset_by_value=(threshold**2, np.inf))
    sigma = np.sqrt(values)[::-1]
    V = V[:, ::-1]
    scaled = V * (1.0 - threshold / sigma)
    matrix = (Z @ scaled) @ V.T if Z.shape[1] <= Z.shape[0] else scaled @ (V.T @ Z)
    return matrix, sigma - threshold


def svt_full(Z: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Do the same as `svt` through the full SVD, as the papers' algorithms do."""
    if threshold < 0:
        raise ValueError(f"threshold must not be negative, got {threshold}")
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    kept = int(np.count_nonzero(sigma > threshold))
    shrunk = sigma[:kept] - threshold
    return (U[:, :kept] * shrunk) @ Vt[:kept], shrunk
