"""SVMs with the multi-task kernel: kernel matrices, LIBSVM, certificates, and optima by an active-set method."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lstsq
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from mtlrun.features.dna import StringDesign
from mtlrun.penalties.graph import TaskCoupling

Array = np.ndarray[Any, np.dtype[Any]]

# Rows with more non-zeros than that make LIBSVM's own products of rows slower than a matrix made beforehand.
_FEW_ENTRIES = 32
# Changes of the set of free support vectors that `polish` solves for, and margins that count as violated.
_ROUNDS, _SLACK = 60, 1e-10


def kernel_bytes(n: int) -> float:
    """Return the memory that a run with the kernel matrix of n rows takes."""
    return 8.0 * float(n) ** 2 * 1.1


def matrix_pays(entries: float) -> bool:
    """Return whether a kernel matrix, where it fits, is faster than LIBSVM's products of rows of so many non-zeros."""
    return entries > _FEW_ENTRIES


def augmented_features(designs: Sequence[Any], coupling: TaskCoupling) -> Any:
    """Return rows F_t x (a Kronecker product) with F F' = M: their linear kernel is the multi-task kernel.

    Parameters
    ----------
    designs : list of ndarray, csr_array or StringDesign of shape (n_t, d)
    coupling : TaskCoupling

    Returns
    -------
    csr_array of shape (N, r * d), or of the columns that have entries where these are too many
        With two copies of every row when all tasks are equally similar.
    """
    F = coupling.factor()
    blocks = [sp.kron(F[[t]], sp.csr_array(stored(X)), format="csr") for t, X in enumerate(designs)]
    Z = sp.csr_array(sp.vstack(blocks, format="csr"))
    if Z.shape[1] > np.iinfo(np.int32).max:  # LIBSVM counts in 32 bits, and columns without entries change no product
        used, columns = np.unique(Z.indices, return_inverse=True)
        Z = sp.csr_array((Z.data, columns, Z.indptr), shape=(Z.shape[0], len(used)))
    Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)
    return Z


def stored(X: Any) -> Any:
    """Return a design that is an array or a sparse matrix: the features of strings are written out."""
    return X.tocsr() if isinstance(X, StringDesign) else X


def kernel_matrix(designs: Sequence[Any], coupling: TaskCoupling) -> Array:
    """Return ``M_st x'x`` of all pairs of rows, dense, by one product of matrices, or one pass over pairs of strings.

    Parameters
    ----------
    designs : list of ndarray, csr_array or StringDesign of shape (n_t, d)
    coupling : TaskCoupling
    """
    owner = np.repeat(np.arange(len(designs)), [X.shape[0] for X in designs])
    if all(isinstance(X, StringDesign) and X.has_kernel for X in designs):
        K = StringDesign.stack(designs).kernel()
    else:
        X = [stored(X) for X in designs]
        if not sp.issparse(X[0]):
            K = (rows := np.vstack(X)) @ rows.T
        else:
            rows = sp.csr_array(sp.vstack(X, format="csr"))
            narrow = rows.shape[1] <= rows.shape[0]
            K = (dense := rows.toarray()) @ dense.T if narrow else (rows @ rows.T).toarray()
    for t, M in enumerate(coupling.matrix):
        K[slice(*np.searchsorted(owner, [t, t + 1]))] *= M[owner]
    return K


def run_libsvm(
    Z: Array | sp.csr_array,
    y: Array,
    cost: Array,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = 200,
) -> tuple[Array, float, int, bool]:
    """Return dual variables, intercept, steps, and whether LIBSVM converged.

    Parameters
    ----------
    Z : ndarray of shape (n, n) or csr_array of shape (n, r)
        Kernel matrix, or rows whose inner products are the kernel.
    y, cost : ndarray of shape (n,)
    tol : float, default 1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default -1
        Steps; -1 for no limit.
    cache_size : float, default 200
        Megabytes.
    """
    kernel = "linear" if sp.issparse(Z) else "precomputed"
    model = SVC(C=1.0, kernel=kernel, tol=tol, max_iter=max_iter, cache_size=cache_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # whoever calls says more
        model.fit(Z, y, sample_weight=cost)
    alpha, dual = np.zeros(len(y)), model.dual_coef_
    alpha[model.support_] = np.abs((dual.toarray() if sp.issparse(dual) else dual).ravel())
    n_iter, done = int(np.max(model.n_iter_)), model.fit_status_ == 0
    return alpha, float(model.intercept_[0]), n_iter, done


@dataclass(frozen=True)
class KernelPoint:
    """Dual variables and what follows from them.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
    intercept : float
    W : ndarray of shape (n_tasks, d)
    margins : ndarray of shape (n,)
    primal, gap : float
        The gap is a sum of non-negative terms, valid for dual variables whose sum over the labels is 0 (any, without
        intercept).
    """

    alpha: Array
    intercept: float
    W: Array
    margins: Array
    primal: float
    gap: float

    @property
    def dual(self) -> float:
        """Value of the dual."""
        return self.primal - self.gap


def certify_kernel(
    designs: Sequence[Any], coupling: TaskCoupling, y: Array, cost: Array, alpha: Array, b: float
) -> KernelPoint:
    """Return coefficients, objective and duality gap of dual variables; the designs are arrays or sparse."""
    cuts = np.cumsum([X.shape[0] for X in designs])[:-1]
    V = np.stack([X.T @ a for X, a in zip(designs, np.split(alpha * y, cuts), strict=True)])
    W = coupling.apply(V)
    z = y * (np.concatenate([X @ w for X, w in zip(designs, W, strict=True)]) + b)
    h = np.maximum(0.0, 1.0 - z)
    primal = 0.5 * float(np.sum(V * W)) + float(cost @ h)
    gap = float(np.sum(np.where(h > 0, (cost - alpha) * h, alpha * (z - 1.0)))) - b * float(alpha @ y)
    return KernelPoint(alpha, b, W, z, primal, gap)


def polish(
    designs: Sequence[Any],
    coupling: TaskCoupling,
    y: Array,
    cost: Array,
    alpha: Array,
    *,
    fit_intercept: bool = True,
    max_free: int = 4000,
) -> KernelPoint | None:
    """Return the optimum to the accuracy of floats, by an active-set method that begins at `alpha`.

    The support vectors off their bounds have margins of exactly 1, and with intercept the dual variables sum to 0 over
    the labels: one system of equations. Variables that leave their bounds, and rows whose margins are on the wrong side
    of 1, are moved, until there are none. Returns the best point on the way, None if there is none that is feasible.

    Parameters
    ----------
    designs, coupling, y, cost
        As of `certify_kernel`.
    alpha : ndarray of shape (n,)
        Near the optimum.
    fit_intercept : bool, default True
    max_free : int, default 4000
        Support vectors off their bounds that are solved for.
    """
    owner = np.repeat(np.arange(len(designs)), [X.shape[0] for X in designs])
    rows = sp.vstack(designs, format="csr") if sp.issparse(designs[0]) else np.concatenate(designs)
    low, high = alpha <= 1e-9 * cost, alpha >= (1 - 1e-9) * cost
    best = None
    for _ in range(_ROUNDS):
        free = np.flatnonzero(~(low | high))
        if len(free) > max_free or (fit_intercept and not len(free)):
            break
        found, b, labels = np.where(high, cost, 0.0), 0.0, y[free]
        if len(free):
            products = rows[free] @ rows[free].T
            products = products.toarray() if sp.issparse(products) else products
            system = coupling.part(owner[free]) * products * np.outer(labels, labels)
            right = 1.0 - certify_kernel(designs, coupling, y, cost, found, 0.0).margins[free]
            if fit_intercept:
                system = np.block([[system, labels[:, None]], [labels, np.zeros(1)]])
                right = np.append(right, -float(found @ y))
            solved = lstsq(system, right, check_finite=False)[0]
            found[free] = solved[: len(free)]
            b = float(solved[-1]) if fit_intercept else 0.0
        below, above = found < 0, found > cost
        point = certify_kernel(designs, coupling, y, cost, np.clip(found, 0.0, cost), b)
        feasible = not fit_intercept or abs(float(point.alpha @ y)) <= 1e-9 * float(cost.max())
        if feasible and (best is None or abs(point.gap) < abs(best.gap)):
            best = point
        wrong = (low & (point.margins < 1 - _SLACK)) | (high & (point.margins > 1 + _SLACK))
        if not (below.any() or above.any() or wrong.any()):
            break
        low, high = (low & ~wrong) | below, (high & ~wrong) | above
    return best
