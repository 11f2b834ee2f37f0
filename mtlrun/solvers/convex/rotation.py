"""Eigenbases of the designs, in which the Hessian of the squared loss is diagonal.

With X = U S V' (one design for all tasks) every penalty that does not change under rotations of the features keeps its
value in the coordinates Q = V'W, and the solution lies in the row space of X; so a solver can work on matrices of
min(n, d) rows with an elementwise data step. Tasks with designs of their own have one such basis each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.linalg

from mtlrun.problem.memory import require
from mtlrun.problem.objective import Centred, centre
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData

# Eigenvalues of a Gram matrix below this, relative to the largest and times its size, are rounding.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# X'U/s is orthonormal to about eps * (s_max / s_min)^2; up to this departure it is good enough to lift a solution.
_ORTHONORMAL = 1e-8
# Decomposing takes about so many times the memory of the bases.
_COPIES = 4
_REMEDY = "Use solver='fista' (solve_fista), which needs none, or fewer features."


class Rotation(ABC):
    """Coordinates in which ``sum_i w_i (y_i - x_i'w_t - b_t)^2`` is diagonal, for every task.

    Built by `prepare`; may be used for any number of fits on the same data, whatever the penalties.
    Coordinates are (r, T) arrays, with r = rank of a shared design or the largest rank of a task.

    Attributes
    ----------
    data : TaskData
    fit_intercept : bool
        Whether the basis belongs to the centred designs.
    operator : TaskOperator
        Products with the centred designs.
    squares : ndarray of shape (r, 1) or (r, T)
        Squared singular values of the (weighted) designs.
    cross : ndarray of shape (r, T)
        X'y in these coordinates.
    energy, explained : ndarray of shape (T,)
        Squared norms of the (centred, weighted) targets and of their projections on the range of X.
    """

    #: Whether all tasks have the same basis.
    shared: ClassVar[bool]
    squares: np.ndarray
    cross: np.ndarray

    def __init__(self, data: TaskData, fit_intercept: bool) -> None:
        self.data = data
        self._centred = centre(data) if fit_intercept else None
        self.operator = TaskOperator(data) if self._centred is None else self._centred.operator

    @property
    def fit_intercept(self) -> bool:
        return self._centred is not None

    @property
    def rank(self) -> int:
        """Number of coordinates r."""
        return self.squares.shape[0]

    @cached_property
    def energy(self) -> np.ndarray:
        return self.data.sum_by_task(self._targets * self._weighted_targets)

    @cached_property
    def explained(self) -> np.ndarray:
        positive = self.squares > 0
        part = np.square(self.cross) / np.where(positive, self.squares, 1.0)
        return np.minimum(np.where(positive, part, 0.0).sum(axis=0), self.energy)

    @property
    def unexplained(self) -> float:
        """Sum of squares that no coefficients can fit, ||Y_perp||^2."""
        return float(np.sum(self.energy - self.explained))

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """Return the optimal intercepts (T,) of W (d, T) under the squared loss; zeros without intercept."""
        return np.zeros(self.data.n_tasks) if self._centred is None else self._centred.intercept(W)

    def uncentred(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the intercepts for the designs as given that equal intercepts b for the centred ones."""
        return b if self._centred is None else b + self._centred.intercept(W) - self._centred.y_mean

    @abstractmethod
    def rotate(self, W: np.ndarray) -> np.ndarray:
        """Return the coordinates (r, T) of W (d, T)."""

    @abstractmethod
    def lift(self, Q: np.ndarray) -> np.ndarray:
        """Return the coefficients (d, T) of coordinates Q (r, T)."""

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Return the predictions, a field, that coordinates Q make with the (centred) designs of unweighted data."""
        return self.operator.forward(self.lift(Q))

    def pull(self, field: np.ndarray) -> np.ndarray:
        """Return the adjoint of `scores`, (r, T)."""
        return self.rotate(self.operator.adjoint(field))

    @property
    def _targets(self) -> np.ndarray:
        return self.data.targets if self._centred is None else self._centred.data.targets

    @property
    def _weighted_targets(self) -> np.ndarray:
        w = self.data.effective_weights()
        return self._targets if w is None else w * self._targets


class SharedRotation(Rotation):
    """One basis for all tasks: X (centred, rows times the root of their weights) = U diag(s) V'.

    The eigenvectors come from the Gram matrix of the smaller side, so that a sparse X is never densified beyond
    min(n, d) x d; with n < d only U is formed, and V when a caller needs it.
    """

    shared = True

    def __init__(self, data: TaskData, fit_intercept: bool = False) -> None:
        super().__init__(data, fit_intercept)
        self._wide = data.n_rows < data.n_features
        self._root = None if data.weights is None else np.sqrt(data.weights)[:, None]
        gram = self.operator.outer_gram(data.weights) if self._wide else self.operator.gram(data.weights)
        values, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
        values, vectors = _significant(values, vectors)
        self.squares = values[:, None]
        self._vectors = vectors
        self._project()

    def retarget(self, data: TaskData) -> SharedRotation:
        """Return the rotation of data that have the same X and weights but other targets (a block of tasks, say).

        Raises
        ------
        ValueError
            If `data` has another design or other weights.
        """
        if data.X is not self.data.X or data.weights is not self.data.weights or not data.shared:
            raise ValueError("retarget needs data with the same X and weights, as TaskData.subset_tasks returns")
        other = object.__new__(SharedRotation)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("energy", "explained")})
        other.data = data
        if self._centred is None:
            other.operator = TaskOperator(data)
        else:
            other._centred = _recentre(self._centred, data)
            other.operator = other._centred.operator
        other._project()
        return other

    def rotate(self, W: np.ndarray) -> np.ndarray:
        return self.basis.T @ W

    def lift(self, Q: np.ndarray) -> np.ndarray:
        if not self._wide or self._skewed or "basis" in self.__dict__:
            return self.basis @ Q
        return self._from_rows(self._vectors @ (Q / self._roots))

    def scores(self, Q: np.ndarray) -> np.ndarray:
        return self._vectors @ (self._roots * Q) if self._wide else super().scores(Q)

    def pull(self, field: np.ndarray) -> np.ndarray:
        return self._roots * (self._vectors.T @ field) if self._wide else super().pull(field)

    @cached_property
    def basis(self) -> np.ndarray:
        """V, shape (d, r), with orthonormal columns (zero for a wide design of zeros)."""
        if not self._wide:
            return self._vectors
        d = self.data.n_features
        if not self.squares.any():
            return np.zeros((d, self.rank))
        require(_COPIES * 8 * d * self.rank, f"a basis of rank {self.rank} for {d} features", _REMEDY)
        V = self._from_rows(self._vectors / self._roots.T)
        # Small singular values make V'V = R'R depart from I a little; X = U diag(s) R (V / R)', diag(s) R ~ diag(s).
        factor = scipy.linalg.cholesky(V.T @ V, check_finite=False)
        return scipy.linalg.solve_triangular(factor, V.T, trans="T", check_finite=False).T

    @property
    def _roots(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.squares, np.finfo(np.float64).tiny))

    @property
    def _skewed(self) -> bool:
        return bool(self.squares[0, 0] * _ORTHONORMAL < np.finfo(np.float64).eps * self.squares[-1, 0])

    def _project(self) -> None:
        if not self._wide:
            self.cross = self._vectors.T @ self.operator.adjoint(self._weighted_targets)
            return
        y = self._targets if self._root is None else self._root * self._targets
        self.cross = self._roots * (self._vectors.T @ y)

    def _from_rows(self, field: np.ndarray) -> np.ndarray:
        return self.operator.adjoint(field if self._root is None else self._root * field)


class TaskRotation(Rotation):
    """One basis per task, padded to the same number of coordinates and stored together, (T, d, r)."""

    shared = False

    def __init__(self, data: TaskData, fit_intercept: bool = False) -> None:
        super().__init__(data, fit_intercept)
        longest = data.n_rows if data.shared else int(data.sizes.max())
        if longest < data.n_features:
            squares, self.bases = self._short_tasks(longest)
        else:
            squares, self.bases = np.linalg.eigh(self.operator.gram(data.weights))
        top = squares.max(axis=1, initial=0.0)[:, None]
        significant = squares > _ROUNDING * squares.shape[1] * top
        self.squares = np.where(significant, squares, 0.0).T
        self.cross = self.rotate(self.operator.adjoint(self._weighted_targets)) * significant.T

    def rotate(self, W: np.ndarray) -> np.ndarray:
        return np.matmul(W.T[:, None, :], self.bases)[:, 0, :].T

    def lift(self, Q: np.ndarray) -> np.ndarray:
        return np.matmul(self.bases, Q.T[:, :, None])[:, :, 0].T

    def _short_tasks(self, longest: int) -> tuple[np.ndarray, np.ndarray]:
        """Decompose tasks with fewer rows than features, one by one (only here, at set-up)."""
        data, T = self.data, self.data.n_tasks
        squares = np.zeros((T, longest))
        bases = np.zeros((T, data.n_features, longest))
        for t in range(T):
            X = self._dense_task(t)
            _, s, Vt = np.linalg.svd(X, full_matrices=False)
            squares[t, : len(s)] = np.square(s)
            bases[t, :, : len(s)] = Vt.T
        return squares, bases

    def _dense_task(self, t: int) -> np.ndarray:
        X, _, w = self.data.task(t)
        X = X.toarray() if self.data.sparse else X
        if self._centred is not None:
            means = self._centred.x_mean
            X = X - (means if means.ndim == 1 else means[:, t])
        return X if w is None else np.sqrt(w)[:, None] * X


def prepare(data: TaskData, fit_intercept: bool = False) -> Rotation:
    """Decompose the designs of all tasks, once for all fits on the same data.

    Parameters
    ----------
    data : TaskData
        A shared design with one weight per row gives a `SharedRotation`; ragged tasks, and shared ones with missing
        targets or weights by task, a `TaskRotation`.
    fit_intercept : bool, default False
        Centre every task (with its weights), which removes an unpenalised intercept; a sparse X stays sparse.

    Raises
    ------
    MemoryLimitError
        If the bases would not fit into memory.
    """
    sizes = f"{data.n_rows} rows, {data.n_features} features and {data.n_tasks} tasks"
    require(preparation_bytes(data), f"an eigenbasis of the designs ({sizes})", _REMEDY)
    return SharedRotation(data, fit_intercept) if _uniform(data) else TaskRotation(data, fit_intercept)


def rotation_bytes(data: TaskData, *, invariant: bool = True) -> int:
    """Return the size of the bases that `prepare` would keep.

    With ``invariant=False`` also that of the features' side of a wide design, which is made on demand: penalties that
    change under rotations need it.
    """
    if _uniform(data):
        smaller = min(data.n_rows, data.n_features)
        wide = not invariant and smaller < data.n_features
        return 8 * smaller * (smaller + (data.n_features if wide else 0))
    longest = data.n_rows if data.shared else int(data.sizes.max())
    return 8 * data.n_tasks * data.n_features * min(longest, data.n_features)


def preparation_bytes(data: TaskData, *, invariant: bool = True) -> int:
    """Return what making these bases takes while it works."""
    return _COPIES * rotation_bytes(data, invariant=invariant)


def _recentre(centred: Centred, data: TaskData) -> Centred:
    """Centre other targets of the same design and row weights."""
    y_mean = np.average(data.targets, axis=0, weights=data.weights)
    moved = data.with_design(centred.data.X).with_targets(data.targets - y_mean)
    operator = TaskOperator(moved, shift=centred.operator.shift)
    return Centred(moved, operator, centred.x_mean, y_mean)


def _uniform(data: TaskData) -> bool:
    return data.shared and (data.weights is None or data.weights.ndim == 1)


def _significant(values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop what is rounding (ascending order is kept); at least one coordinate stays."""
    first = int(np.searchsorted(values, _ROUNDING * len(values) * max(values[-1], 0.0), side="right"))
    first = min(first, len(values) - 1)
    return np.maximum(values[first:], 0.0), vectors[:, first:]
