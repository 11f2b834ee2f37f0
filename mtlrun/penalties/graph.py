"""Graphs of tasks: from similarities to the matrix that couples coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtlrun.problem.memory import require
from mtlrun.problem.taskdata import Array, as_array, as_design, check_finite, is_sparse

# An ndarray or a sparse array of shape (T, T), which have no common static type; where
# the user gives it, also "all" or a DataFrame.
Similarity = Any
# Entries of a similarity that differ by less than this, relative to the largest, count
# as equal.
_SYMMETRY = 1e-12


@dataclass(frozen=True, eq=False)
class TaskCoupling:
    """Coupling of tasks: M = (I + coupling * L)^{-1} for a graph Laplacian L.

    The penalty ``1/2 sum_t ||w_t||^2 + coupling/2 sum_st L_st w_s'w_t`` is ``1/2 tr(W
    M^{-1} W')``. M is symmetric, has eigenvalues in (0, 1], non-negative entries and
    rows that sum to one.

    Parameters
    ----------
    n_tasks : int
        Number of tasks T.
    common : (float, float) or None
        (a, b) with M = a I + b 11' when all pairs of tasks are equally similar; then
        ``W M`` costs O(d T), and no matrix of all pairs is made.
    given : (ndarray, ndarray) or None
        M and its inverse otherwise.
    """

    n_tasks: int
    common: tuple[float, float] | None = None
    given: tuple[Array, Array] | None = None

    @cached_property
    def matrix(self) -> Array:
        """M, shape (T, T)."""
        if self.given is not None:
            return self.given[0]
        a, b = self._common_pair()
        return a * np.eye(self.n_tasks) + b

    @cached_property
    def inverse(self) -> Array:
        """I + coupling * L, shape (T, T)."""
        if self.given is not None:
            return self.given[1]
        a, b = self._common_pair()
        # The inverse of a I + b 11', because a + T b = 1.
        scaled_identity = 1.0 / a * np.eye(self.n_tasks)
        return scaled_identity + -b / a

    @property
    def diagonal(self) -> Array:
        """The diagonal of M, shape (T,)."""
        if self.common is None:
            return np.diag(self.matrix)
        a, b = self.common
        return np.full(self.n_tasks, a + b)

    def apply(self, V: Array) -> Array:
        """Return M V for V of shape (T, k)."""
        if self.common is None:
            return np.asarray(self.matrix @ V)
        a, b = self.common
        # In place: V can be large, and needs only one copy.
        out = a * V
        out += b * V.sum(axis=0)
        return out

    def row(self, t: int, V: Array) -> Array:
        """Return row t of M V."""
        if self.common is None:
            return np.asarray(self.matrix[t] @ V)
        a, b = self.common
        total = V.sum(axis=0)
        return np.asarray(a * V[t] + b * total)

    def part(self, tasks: Array) -> Array:
        """Return the rows and columns of M of some tasks, which may be repeated."""
        if self.common is None:
            selection = np.ix_(tasks, tasks)
            return np.asarray(self.matrix[selection])
        a, b = self.common
        is_same_task = tasks[:, None] == tasks
        return a * is_same_task + b

    def factor(self) -> sp.csr_array:
        """Return F of shape (T, r) with F F' = M.

        It has two non-zeros per row for equally similar tasks, else it is lower
        triangular.
        """
        if self.common is None or self.n_tasks == 1:
            triangle = np.linalg.cholesky(self.matrix)
            return sp.csr_array(triangle)
        # F = [sqrt(b) 1, sqrt(a) I], so that F F' = b 11' + a I.
        a, b = self.common
        shared_column = np.full((self.n_tasks, 1), np.sqrt(b))
        task_columns = np.sqrt(a) * sp.eye_array(self.n_tasks)
        columns = sp.hstack(
            [sp.csr_array(shared_column), task_columns],
            format="csr",
        )
        return sp.csr_array(columns)

    def _common_pair(self) -> tuple[float, float]:
        """Return `common`, for a matrix of all pairs of tasks that fits into memory."""
        assert self.common is not None
        _require_pairs(self.n_tasks, 2)
        return self.common


def check_similarity(
    graph: Similarity,
    tasks: Array,
    *,
    isolated: bool = False,
) -> Similarity:
    """Return a task similarity as a (T, T) array in the order of `tasks`.

    A sparse similarity stays sparse.

    Parameters
    ----------
    graph : "all", array-like or sparse matrix of shape (T, T), or DataFrame
        "all" stands for ones plus the identity, as in the published runs. A DataFrame
        whose rows and columns are labeled by the tasks is put into their order.
    tasks : ndarray of shape (T,)
        Labels of the tasks.
    isolated : bool, default False
        Whether a task may have zero similarity to all others.

    Returns
    -------
    ndarray or csr_array of shape (T, T)

    Raises
    ------
    ValueError
        If the shape is wrong, an entry is NaN, infinite or negative, the matrix is not
        symmetric, or a task has zero similarity to all others (a separate problem)
        although `isolated` is False.
    MemoryLimitError
        If a dense matrix of all pairs would not fit into memory.
    """
    n_tasks = len(tasks)
    names = tasks.tolist()
    if isinstance(graph, str):
        if graph != "all":
            raise ValueError(
                "graph must be 'all' or a similarity matrix of the tasks, got "
                f"{graph!r}"
            )
        _require_pairs(n_tasks, 2)
        return np.ones((n_tasks, n_tasks)) + np.eye(n_tasks)
    if hasattr(graph, "reindex"):
        rows = list(graph.index)
        columns = list(graph.columns)
        # The default labels 0, 1, ... keep their order.
        if set(rows) == set(names) and set(columns) == set(names):
            graph = graph.loc[names, names].to_numpy()
        elif rows == columns == list(range(n_tasks)):
            graph = graph.to_numpy()
        else:
            raise ValueError(
                f"graph has rows {rows} and columns {columns}, but the tasks are {names}"
            )
    if is_sparse(graph):
        A = as_design(graph, "graph")
    else:
        A = as_array(graph, "graph", ndim=2)
    if A.shape != (n_tasks, n_tasks):
        raise ValueError(
            "graph must have one row and one column per task, "
            f"({n_tasks}, {n_tasks}), got {A.shape}"
        )
    if not is_sparse(A):
        _require_pairs(n_tasks, 4)
        check_finite(A, "graph")
    worst, s, t = _largest(-A)
    if worst > 0:
        raise ValueError(
            f"graph must not be negative: the similarity of {names[s]!r} and "
            f"{names[t]!r} is {-worst:g}"
        )
    skew, s, t = _largest(A - A.T)
    if skew > _SYMMETRY * A.max():
        raise ValueError(
            f"graph must be symmetric: {A[s, t]:g} from {names[s]!r} to {names[t]!r} "
            f"but {A[t, s]:g} back; (A + A.T) / 2 is"
        )
    degrees = A.sum(axis=1) - A.diagonal()
    isolated_tasks = tasks[np.asarray(degrees == 0)].tolist()
    if n_tasks > 1 and isolated_tasks and not isolated:
        raise ValueError(
            f"graph has isolated tasks, similar to no other: {isolated_tasks}. Give "
            "each a positive similarity to another task, fit them separately "
            "(IndependentSVC), or set coupling=0 to learn all tasks independently"
        )
    # Exactly symmetric, without the rounding that the check allows.
    symmetric = (A + A.T) / 2
    if is_sparse(A):
        return sp.csr_array(symmetric)
    return symmetric


def _largest(A: Similarity) -> tuple[float, int, int]:
    """Return the largest entry of a square matrix, and its row and column.

    If the largest entries of a sparse matrix are zeros, the position of one is
    returned.
    """
    position = int(A.argmax())
    row, column = np.unravel_index(position, A.shape)
    largest = float(A[row, column])
    return largest, int(row), int(column)


def _require_pairs(n_tasks: int, matrices: int) -> None:
    require(
        8 * matrices * n_tasks**2,
        f"the similarity of all pairs of {n_tasks} tasks",
        "Use fewer tasks, or a graph that needs no matrix of pairs: 'all' here, "
        "'mean', 'chain' or a sparse matrix in GraphMTL.",
    )


def laplacian(similarity: Similarity) -> Similarity:
    """Return the Laplacian diag(A 1) - A of a similarity A, sparse for a sparse one.

    The diagonal of A has no effect.
    """
    if is_sparse(similarity):
        diagonal = similarity.diagonal()
        degrees = similarity.sum(axis=1) - diagonal
        # The diagonal of the similarity is added here and subtracted with it.
        D = sp.diags_array(degrees + diagonal)
        return sp.csr_array(D - similarity)
    A = similarity - np.diag(np.diag(similarity))
    degrees = A.sum(axis=1)
    return np.diag(degrees) - A


def couple_graph(
    graph: Similarity,
    tasks: Array,
    coupling: float = 1.0,
) -> TaskCoupling:
    """Return the coupling of `couple_tasks` for a graph as in `check_similarity`.

    The graph "all" needs no matrix of pairs.
    """
    if isinstance(graph, str) and graph == "all":
        return _couple_equals(len(tasks), similarity=1.0, coupling=coupling)
    return couple_tasks(check_similarity(graph, tasks), coupling)


def couple_tasks(similarity: Similarity, coupling: float = 1.0) -> TaskCoupling:
    """Return M = (I + coupling * L)^{-1} for the Laplacian L of a checked similarity.

    Parameters
    ----------
    similarity : ndarray or csr_array of shape (T, T)
        As `check_similarity` returns it.
    coupling : float, default 1.0
        0 leaves the tasks independent; for a connected graph, M tends to 11'/T (one
        pooled model) as it grows.

    Raises
    ------
    MemoryLimitError
        If M would not fit into memory.
    """
    n_tasks = similarity.shape[0]
    _require_pairs(n_tasks, 8)
    if is_sparse(similarity):
        A = similarity.toarray()
    else:
        A = similarity
    if n_tasks == 1:
        return _couple_equals(n_tasks, similarity=0.0, coupling=coupling)
    is_diagonal = np.eye(n_tasks, dtype=bool)
    off_diagonal = A[~is_diagonal]
    first = float(off_diagonal[0])
    if coupling == 0 or np.all(off_diagonal == first):
        return _couple_equals(n_tasks, similarity=first, coupling=coupling)
    L = laplacian(A)
    values, vectors = np.linalg.eigh(L)
    # The eigenvalues of a Laplacian are not negative, but for rounding.
    inverse_values = 1.0 + coupling * np.maximum(values, 0.0)
    M = (vectors / inverse_values) @ vectors.T
    symmetric = (M + M.T) / 2
    inverse = np.eye(n_tasks) + coupling * L
    return TaskCoupling(n_tasks, given=(symmetric, inverse))


def _couple_equals(
    n_tasks: int,
    *,
    similarity: float,
    coupling: float,
) -> TaskCoupling:
    """Return the coupling of tasks that are all equally similar.

    Their Laplacian is similarity * (T I - 11'), so that M = a I + (1 - a)/T 11' with
    a = 1 / (1 + coupling * similarity * T).
    """
    a = 1.0
    if n_tasks > 1 and coupling:
        a = 1.0 / (1.0 + coupling * similarity * n_tasks)
    b = (1.0 - a) / n_tasks
    return TaskCoupling(n_tasks, common=(a, b))
