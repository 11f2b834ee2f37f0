"""Validation of arrays: everything becomes float64 in C order, or CSR; arrays that are so already are not copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

# A float64 C-ordered ndarray or a csr_array; their common operations have no common static type.
Design = Any


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse array or matrix (scipy's own test would narrow its static type too far)."""
    return bool(sp.issparse(X))


def as_design(X: Any, name: str = "X") -> Design:
    """Return a design as C-ordered float64 or canonical float64 CSR, without copying where it is that already.

    Raises
    ------
    ValueError
        If it is not two-dimensional and numeric, has no features, or holds values that are not finite.
    """
    if is_sparse(X):
        if X.ndim != 2:
            raise ValueError(f"{name} must have two dimensions, got {X.ndim}")
        design: Design = sp.csr_array(X)
        if design.dtype != np.float64:
            design = design.astype(np.float64)
        if not design.has_canonical_format:
            design = design.copy()
            design.sum_duplicates()
        if design.indices.dtype != np.int32 and max(design.nnz, *design.shape) <= np.iinfo(np.int32).max:
            indices, indptr = design.indices.astype(np.int32), design.indptr.astype(np.int32)
            design = sp.csr_array((design.data, indices, indptr), shape=design.shape)  # scikit-learn's solvers want it
        check_finite(design.data, name)
    else:
        design = as_array(X, name, ndim=2)
        check_finite(design, name)
    if design.shape[1] == 0:
        raise ValueError(f"{name} has no features")
    return design


def row_slice(X: Design, a: int, b: int) -> Design:
    """Return rows a..b-1; values and indices of a CSR array stay views."""
    if not is_sparse(X):
        return X[a:b]
    i, j = X.indptr[a], X.indptr[b]
    return sp.csr_array((X.data[i:j], X.indices[i:j], X.indptr[a : b + 1] - i), shape=(b - a, X.shape[1]))


def stack_designs(designs: list[Design]) -> Design:
    """Put designs below each other; CSR when any of them is."""
    if any(is_sparse(X) for X in designs):
        return sp.csr_array(sp.vstack([sp.csr_array(X) for X in designs], format="csr"))
    return np.concatenate(designs, axis=0)


def as_array(values: Any, name: str, ndim: int) -> np.ndarray:
    """Return a dense float64 array of `ndim` dimensions in C order, or raise an error that names the argument."""
    if is_sparse(values):
        raise ValueError(f"{name} must be dense")
    array = np.asarray(values)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim}")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric: {error}") from None


def check_finite(array: np.ndarray, name: str) -> None:
    """Raise an error that names the argument if an array has NaN or infinite values."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):  # one pass without a temporary; only a failure needs the exact test
            return
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinite values")


def as_weights(weights: Any, shapes: list[tuple[int, ...]], name: str = "weights") -> np.ndarray:
    """Return finite, non-negative float64 weights of one of the shapes, or raise an error that names the argument."""
    ndim = np.ndim(weights)
    array = as_array(weights, name, ndim=ndim)
    if array.shape not in shapes:
        raise ValueError(f"{name} must have shape {' or '.join(map(str, shapes))}, got {array.shape}")
    check_finite(array, name)
    if np.any(array < 0):
        raise ValueError(f"{name} must not be negative")
    return array


def _label_array(labels: list[Any]) -> np.ndarray:
    """Return labels as a one-dimensional array that keeps tuples and does not turn numbers into strings."""
    kinds = set(map(type, labels))
    if tuple not in kinds and (str not in kinds or len(kinds) == 1):
        return np.asarray(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def as_labels(tasks: Iterable[Any] | None, n_tasks: int) -> np.ndarray:
    """Return distinct task labels as a one-dimensional array; 0..T-1 when None."""
    if tasks is None:
        return np.arange(n_tasks)
    labels = list(tasks)
    if len(labels) != n_tasks:
        raise ValueError(f"tasks has {len(labels)} labels for {n_tasks} tasks")
    if len(set(labels)) != n_tasks:
        raise ValueError("tasks has repeated labels")
    return _label_array(labels)


def unique_labels(task_id: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted labels and the position of every row's label among them."""
    labels = _label_array(list(task_id)) if isinstance(task_id, list | tuple) else np.asarray(task_id)
    if labels.ndim != 1:
        raise ValueError(f"task_id must have 1 dimension, got {labels.ndim}")
    if any(label != label for label in (labels if labels.dtype.kind in "fO" else ())):
        raise ValueError("task_id contains missing labels")
    try:
        tasks, index = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"task_id has labels that cannot be sorted: {error}") from None
    return tasks, index.ravel()
