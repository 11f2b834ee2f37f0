"""Graphs of tasks: from similarities to the matrix that couples the coefficients of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.core.arrays import as_array, check_finite

# Entries of a similarity that differ by less than this, relative to the largest, count as equal.
_SYMMETRY = 1e-12


@dataclass(frozen=True, eq=False)
class TaskCoupling:
    """How tasks share what they learn: M = (I + coupling * L)^{-1} for a graph Laplacian L.

    The penalty ``1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t`` is ``1/2 tr(W M^{-1} W')``. M is symmetric,
    has eigenvalues in (0, 1], non-negative entries and rows that sum to one.

    Attributes
    ----------
    matrix : ndarray of shape (T, T)
        M.
    inverse : ndarray of shape (T, T)
        I + coupling * L.
    common : (float, float) or None
        (a, b) with M = a I + b 11' when all pairs of tasks are equally similar; then ``W M`` costs O(d T).
    """

    matrix: np.ndarray
    inverse: np.ndarray
    common: tuple[float, float] | None

    @property
    def n_tasks(self) -> int:
        """Number of tasks T."""
        return len(self.matrix)

    def factor(self) -> np.ndarray:
        """Return F (T, r) with F F' = M: two non-zeros per row for equally similar tasks, else lower triangular."""
        if self.common is None or self.n_tasks == 1:
            return np.linalg.cholesky(self.matrix)
        a, b = self.common
        return np.column_stack([np.full(self.n_tasks, np.sqrt(b)), np.sqrt(a) * np.eye(self.n_tasks)])


def check_similarity(graph: Any, tasks: np.ndarray, *, isolated: bool = False) -> np.ndarray:
    """Return a task similarity as a (T, T) array in the order of `tasks`.

    Parameters
    ----------
    graph : "all", array-like of shape (T, T), or DataFrame
        "all" stands for all ones plus the identity, as in the published runs. A DataFrame whose rows and columns are
        named by the tasks is put into their order.
    tasks : ndarray of shape (T,)
        Labels of the tasks.
    isolated : bool, default False
        Whether a task may have no similarity to any other.

    Raises
    ------
    ValueError
        If the shape is wrong, an entry is NaN, infinite or negative, the matrix is not symmetric, or a task has no
        similarity to any other (which would be a problem of its own) though `isolated` is False.
    """
    n_tasks = len(tasks)
    if isinstance(graph, str):
        if graph != "all":
            raise ValueError(f"graph must be 'all' or a similarity matrix of the tasks, got {graph!r}")
        return np.ones((n_tasks, n_tasks)) + np.eye(n_tasks)
    if hasattr(graph, "reindex"):
        graph = _reorder(graph, tasks)
    A = as_array(graph, "graph", ndim=2)
    if A.shape != (n_tasks, n_tasks):
        raise ValueError(f"graph must have one row and one column per task, ({n_tasks}, {n_tasks}), got {A.shape}")
    check_finite(A, "graph")
    names = tasks.tolist()
    if np.any(A < 0):
        s, t = np.argwhere(A < 0)[0]
        raise ValueError(f"graph must not be negative: the similarity of {names[s]!r} and {names[t]!r} is {A[s, t]:g}")
    skew = np.abs(A - A.T)
    if skew.max() > _SYMMETRY * A.max():
        s, t = np.unravel_index(np.argmax(skew), A.shape)
        raise ValueError(
            f"graph must be symmetric: {A[s, t]:g} from {names[s]!r} to {names[t]!r} but {A[t, s]:g} back; "
            "(A + A.T) / 2 is"
        )
    degrees = A.sum(axis=1) - np.diag(A)
    if n_tasks > 1 and not isolated and np.any(degrees == 0):
        lonely = [names[t] for t in np.flatnonzero(degrees == 0)]
        raise ValueError(
            f"graph has isolated tasks, similar to no other: {lonely}. Give each a positive similarity to another "
            "task, fit them apart (IndependentSVC), or set coupling=0 to learn every task alone"
        )
    return (A + A.T) / 2


def _reorder(graph: Any, tasks: np.ndarray) -> Any:
    """Put a DataFrame named by the tasks into their order; one with default names stays as it is."""
    names = tasks.tolist()
    rows, columns = list(graph.index), list(graph.columns)
    if set(rows) == set(names) and set(columns) == set(names):
        return graph.loc[names, names].to_numpy()
    if rows == columns == list(range(len(names))):
        return graph.to_numpy()
    raise ValueError(f"graph has rows {rows} and columns {columns}, but the tasks are {names}")


def laplacian(similarity: np.ndarray) -> np.ndarray:
    """Return the Laplacian diag(A 1) - A of a similarity; the diagonal of A has no effect."""
    A = similarity - np.diag(np.diag(similarity))
    return np.diag(A.sum(axis=1)) - A


def couple_tasks(similarity: np.ndarray, coupling: float = 1.0) -> TaskCoupling:
    """Return M = (I + coupling * L)^{-1} for the Laplacian L of a checked similarity.

    Parameters
    ----------
    similarity : ndarray of shape (T, T)
        As `check_similarity` returns it.
    coupling : float, default 1.0
        0 leaves the tasks independent; for a connected graph, M tends to 11'/T (one pooled model) as it grows.

    Raises
    ------
    ValueError
        If `coupling` is negative or not finite.
    """
    if not (np.isfinite(coupling) and coupling >= 0):
        raise ValueError(f"coupling must be non-negative and finite, got {coupling}")
    L = laplacian(similarity)
    n_tasks = len(L)
    inverse = np.eye(n_tasks) + coupling * L
    # The Laplacian of n_tasks equally similar tasks is similarity * (T I - 11'), whose inverse is known.
    other = similarity[~np.eye(n_tasks, dtype=bool)]
    if n_tasks == 1 or coupling == 0 or np.all(other == other[0]):
        a = 1.0 if n_tasks == 1 else 1.0 / (1.0 + coupling * other[0] * n_tasks) if coupling else 1.0
        b = (1.0 - a) / n_tasks
        return TaskCoupling(a * np.eye(n_tasks) + b, inverse, (a, b))
    values, vectors = np.linalg.eigh(L)
    M = (vectors / (1.0 + coupling * np.maximum(values, 0.0))) @ vectors.T
    return TaskCoupling((M + M.T) / 2, inverse, None)
