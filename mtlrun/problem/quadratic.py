"""The squared loss as a quadratic in the coefficients: through Gram matrices, or in eigenbases of the designs.

`Gram` keeps X'X and X'y, whose products cost d^2 instead of n d per task. A `Rotation` keeps eigenbases, in which the
Hessian is diagonal. With X = U S V' (one design for all tasks) every penalty that does not change under rotations of
the features keeps its value in the coordinates Q = V'W, and iterates that start in the row space of X stay there; so a
solver can work on matrices of min(n, d) rows with an elementwise data step. Tasks with designs of their own have one
such basis each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from mtlrun.problem import memory
from mtlrun.problem.losses import Loss, SquaredLoss
from mtlrun.problem.objective import Centred, centre, feasible_scale
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData

# Eigenvalues of a Gram matrix below this, relative to the largest and times its size, are rounding.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# X'U/s is orthonormal to about eps * (s_max / s_min)^2; up to this departure it is good enough to lift a solution.
_ORTHONORMAL = 1e-8
# Decomposing takes about so many times the memory of the bases, making and using Gram matrices so many times theirs.
_COPIES, GRAM_COPIES = 4, 3
_REMEDY = "Use solver='fista' (solve_fista), which needs none, or fewer features."
# A dense product runs about this many times as fast per multiplication as one with a sparse matrix.
_DENSE_ADVANTAGE = 50
# Up to this size the largest eigenvalue of a Gram matrix is computed exactly.
EXACT_SIZE = 2000
# The basis of the row space is used when it has at most this part of the features.
_PAYS = 0.75


class Quadratic(ABC):
    """``1/2 sum_t ||y_t - X_t w_t||^2``, rows weighted, every task centred where intercepts are fitted.

    Coordinates of the coefficients are (r, T) arrays: the (d, T) coefficients themselves for a `Gram`.

    Attributes
    ----------
    data : TaskData
    fit_intercept : bool
        Whether an unpenalised intercept is fitted, by centring.
    operator : TaskOperator
        Products with the (centred) designs.
    cross : ndarray of shape (r, T)
        X'y in coordinates.
    energy, explained : ndarray of shape (T,)
        Squared norms of the (centred, weighted) targets and of their projections on the range of X.
    """

    cross: np.ndarray

    def __init__(self, data: TaskData, fit_intercept: bool = False) -> None:
        self.fit_intercept = fit_intercept
        self._use(data, centre(data) if fit_intercept else None)

    def _use(self, data: TaskData, centred: Centred | None) -> None:
        self.data, self._centred = data, centred
        self.operator = TaskOperator(data) if centred is None else centred.operator

    @cached_property
    def energy(self) -> np.ndarray:
        return self.data.sum_by_task(self._targets * self._weighted_targets)

    @property
    @abstractmethod
    def explained(self) -> np.ndarray:
        """Squared norms (T,) of the projections of the targets on the range of X."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """Largest eigenvalue of the Hessian."""

    @property
    def unexplained(self) -> float:
        """Sum of squares that no coefficients can fit, ||Y_perp||^2."""
        return float(np.sum(self.energy - self.explained))

    @abstractmethod
    def image(self, Q: np.ndarray) -> np.ndarray:
        """Return X'X w_t of coordinates Q, in coordinates; the gradient is ``image(Q) - cross``."""

    def lift(self, Q: np.ndarray) -> np.ndarray:
        """Return the coefficients (d, T) of coordinates Q."""
        return Q

    def value(self, Q: np.ndarray, image: np.ndarray | None = None) -> float:
        """Return the loss at coordinates Q."""
        linear, square = self._moments(Q, image)
        return max(0.0, 0.5 * float(np.sum(self.energy - 2.0 * linear + square)))

    def dual_fit(self, Q: np.ndarray, scale: np.ndarray | float, image: np.ndarray | None = None) -> float:
        """Return minus the conjugate of the loss at the residual of Q, its part in the range of X scaled per task.

        What lies outside the range of X is free and stays as it is; only the rest must be scaled to become feasible.
        """
        linear, square = self._moments(Q, image)
        value = scale * (self.explained - linear) - 0.5 * scale**2 * (self.explained - 2.0 * linear + square)
        return float(value.sum()) + 0.5 * self.unexplained

    def dual(
        self,
        Q: np.ndarray,
        penalties: Sequence[Penalty],
        scale: float = 1.0,
        *,
        image: np.ndarray | None = None,
        lifted: bool = False,
    ) -> float:
        """Return the dual value of `scale` times this loss + penalties at the feasible point made from the residual.

        Parameters
        ----------
        Q : ndarray of shape (r, T)
        penalties : sequence of Penalty
        scale : float, default 1.0
        image : ndarray of shape (r, T), optional
            That of Q, where it is known.
        lifted : bool, default False
            Whether the penalties are on coefficients, not on coordinates.
        """
        if any(p.is_zero for p in penalties):
            return 0.5 * scale * self.unexplained
        image = self.image(Q) if image is None else image
        Z = scale * (self.cross - image)
        Z = self.lift(Z) if lifted else Z
        c = feasible_scale(Z, penalties)
        conjugates = sum(p.conjugate(Z * c) for p in penalties if not p.is_norm)
        return max(0.0, scale * self.dual_fit(Q, c, image) - conjugates)

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """Return the optimal intercepts (T,) of W (d, T) under the squared loss; zeros without intercept."""
        return np.zeros(self.data.n_tasks) if self._centred is None else self._centred.intercept(W)

    def _moments(self, Q: np.ndarray, image: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return y'Xw and ||Xw||^2 per task."""
        image = self.image(Q) if image is None else image
        return np.einsum("ij,ij->j", self.cross, Q), np.einsum("ij,ij->j", Q, image)

    @property
    def _targets(self) -> np.ndarray:
        return self.data.targets if self._centred is None else self._centred.data.targets

    @property
    def _weighted_targets(self) -> np.ndarray:
        w = self.data.effective_weights()
        return self._targets if w is None else w * self._targets


class Gram(Quadratic):
    """One Gram matrix (d, d) for a shared design, else one per task, (T, d, d), in `gram`.

    Parameters
    ----------
    data : TaskData
    fit_intercept : bool, default False
    sharp : bool, default True
        Leave what no coefficients can fit out of the scaling of dual points, which takes the eigenvectors of the Gram
        matrices (once); without it, dual values are valid but lower.

    Raises
    ------
    MemoryLimitError
        If the matrices would not fit into memory.
    """

    def __init__(self, data: TaskData, fit_intercept: bool = False, *, sharp: bool = True) -> None:
        sizes = f"{data.n_features} features and {data.n_tasks} tasks"
        memory.require(GRAM_COPIES * gram_bytes(data), f"Gram matrices of {sizes}", "Use fewer features.")
        super().__init__(data, fit_intercept)
        self.sharp = sharp
        self.gram = self.operator.gram(data.weights)
        self.cross = self.operator.adjoint(self._weighted_targets)

    @cached_property
    def largest(self) -> float:
        if self.gram.ndim == 3 or "_eigen" in self.__dict__:
            return float(self._eigen[0].max())
        last = len(self.gram) - 1
        if not self.gram.any():
            return 0.0
        if last < EXACT_SIZE:
            top = scipy.linalg.eigvalsh(self.gram, subset_by_index=[last, last])[0]
        else:  # Lanczos comes from below
            top = eigsh(self.gram, k=1, v0=np.ones(last + 1), return_eigenvectors=False)[0] * (1.0 + 1e-6)
        return max(float(top), 0.0)

    @cached_property
    def explained(self) -> np.ndarray:
        """All of the energy if not sharp."""
        if not self.sharp:
            return self.energy
        values, vectors = self._eigen
        limit = _ROUNDING * values.shape[-1] * values.max(axis=-1, keepdims=True)
        inverse = np.where(values > limit, 1.0 / np.where(values > limit, values, 1.0), 0.0)
        if self.gram.ndim == 2:
            part = inverse @ np.square(vectors.T @ self.cross)
        else:
            part = np.sum(inverse * np.square(np.matmul(self.cross.T[:, None, :], vectors)[:, 0]), axis=1)
        return np.minimum(part, self.energy)

    def image(self, Q: np.ndarray) -> np.ndarray:
        return times_gram(self.gram, Q)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.eigh(self.gram)


def times_gram(gram: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the products of one Gram matrix (d, d), or of one per task (T, d, d), with the columns of W (d, T)."""
    return gram @ W if gram.ndim == 2 else np.matmul(W.T[:, None, :], gram)[:, 0].T


def gram_bytes(data: TaskData) -> int:
    """Return the size of the matrices of a `Gram`."""
    return 8 * data.n_features**2 * (1 if data.uniform else data.n_tasks)


def gram_pays(data: TaskData) -> bool:
    """Whether products with Gram matrices are cheaper than those with the designs, and the matrices are kept."""
    d, T = data.n_features, data.n_tasks
    if not memory.fits(gram_bytes(data)):
        return False
    if data.sparse:
        direct = 2.0 * _DENSE_ADVANTAGE * data.X.nnz * (T if data.shared else 1)
        return d * d * T < direct and min(data.sizes.mean(), data.n_rows) >= d
    return d * d * T < 2.0 * d * (data.n_rows * T if data.shared else data.n_rows)


class Rotation(Quadratic):
    """Coordinates in which the loss is diagonal, for every task.

    Built by `prepare`; may be used for any number of fits on the same data, whatever the penalties. r is the rank of a
    shared design or the largest rank of a task.

    Attributes
    ----------
    squares : ndarray of shape (r, 1) or (r, T)
        Squared singular values of the (weighted) designs.
    """

    squares: np.ndarray

    @property
    def rank(self) -> int:
        """Number of coordinates r."""
        return self.squares.shape[0]

    @property
    def largest(self) -> float:
        return float(self.squares.max())

    @cached_property
    def explained(self) -> np.ndarray:
        positive = self.squares > 0
        part = np.square(self.cross) / np.where(positive, self.squares, 1.0)
        return np.minimum(np.where(positive, part, 0.0).sum(axis=0), self.energy)

    def belongs_to(self, data: TaskData, fit_intercept: bool) -> bool:
        """Whether `prepare` would make the same of these data."""
        names = ("X", "targets", "offsets", "weights", "observed")
        same = all(getattr(self.data, name) is getattr(data, name) for name in names)
        return same and self.fit_intercept == fit_intercept

    def image(self, Q: np.ndarray) -> np.ndarray:
        return self.squares * Q

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


class SharedRotation(Rotation):
    """One basis for all tasks: X (centred, rows times the root of their weights) = U diag(s) V'.

    The eigenvectors come from the Gram matrix of the smaller side, so that a sparse X is never densified beyond
    min(n, d) x d; with n < d only U is formed, and V when a caller needs it.
    """

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
        """Return the rotation of data with the very same X and weights but other targets (a block of tasks, say)."""
        other = object.__new__(SharedRotation)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("energy", "explained")})
        other._use(data, None if self._centred is None else _recentre(self._centred, data))
        other._project()
        return other

    def diagonal_data(self) -> TaskData:
        """Return data with a diagonal design that have this least-squares problem, for unweighted rows.

        One row per coordinate, diag(s) against U'y_t, and a row of zeros against the length of what no coefficients
        can fit: for every task an orthogonal transformation of the rows of the (centred) design and targets.
        """
        s = np.sqrt(self.squares[:, 0])
        targets = np.divide(self.cross, s[:, None], out=np.zeros_like(self.cross), where=s[:, None] > 0)
        rest = np.sqrt(np.maximum(self.energy - self.explained, 0.0))
        design = sp.csr_array(sp.vstack([sp.diags_array(s), sp.csr_array((1, len(s)))]))
        return TaskData.from_matrix(design, np.vstack([targets, rest]), tasks=self.data.tasks)

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
        memory.require(_COPIES * 8 * d * self.rank, f"a basis of rank {self.rank} for {d} features", _REMEDY)
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
        T, d = self.data.n_tasks, self.data.n_features
        squares, bases = np.zeros((T, longest)), np.zeros((T, d, longest))
        means = np.zeros((d, T)) if self._centred is None else self._centred.x_mean.reshape(d, -1)
        for t in range(T):
            X, _, w = self.data.task(t)
            X = (X.toarray() if self.data.sparse else X) - means[:, t % means.shape[1]]
            _, s, Vt = np.linalg.svd(X if w is None else np.sqrt(w)[:, None] * X, full_matrices=False)
            squares[t, : len(s)] = np.square(s)
            bases[t, :, : len(s)] = Vt.T
        return squares, bases


def prepare(data: TaskData, fit_intercept: bool = False, given: Rotation | None = None) -> Rotation:
    """Decompose the designs of all tasks, once for all fits on the same data.

    Parameters
    ----------
    data : TaskData
        A shared design with one weight per row gives a `SharedRotation`; ragged tasks, and shared ones with missing
        targets or weights by task, a `TaskRotation`.
    fit_intercept : bool, default False
        Centre every task (with its weights), which removes an unpenalised intercept; a sparse X stays sparse.
    given : Rotation, optional
        Returned if it was made from these data.

    Raises
    ------
    ValueError
        If `given` belongs to other data or another `fit_intercept`.
    MemoryLimitError
        If the bases would not fit into memory.
    """
    if given is not None:
        if not given.belongs_to(data, fit_intercept):
            raise ValueError("the rotation was prepared from other data or weights, or with another fit_intercept")
        return given
    sizes = f"{data.n_rows} rows, {data.n_features} features and {data.n_tasks} tasks"
    memory.require(preparation_bytes(data), f"an eigenbasis of the designs ({sizes})", _REMEDY)
    return SharedRotation(data, fit_intercept) if data.uniform else TaskRotation(data, fit_intercept)


def rotation_bytes(data: TaskData, *, invariant: bool = True) -> int:
    """Return the size of the bases that `prepare` would keep.

    With ``invariant=False`` also that of the features' side of a wide design, which is made on demand: penalties that
    change under rotations need it.
    """
    if data.uniform:
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


def _significant(values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop what is rounding (ascending order is kept); at least one coordinate stays."""
    first = int(np.searchsorted(values, _ROUNDING * len(values) * max(values[-1], 0.0), side="right"))
    first = min(first, len(values) - 1)
    return np.maximum(values[first:], 0.0), vectors[:, first:]


def find_basis(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    fit_intercept: bool,
    rotation: Rotation | None = None,
    *,
    weighted: bool = True,
) -> SharedRotation | None:
    """Return the eigenbasis in which a first-order method can run without changing its iterates, None without one.

    Parameters
    ----------
    data, loss, penalties, fit_intercept
        The problem.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; made if not given.
    weighted : bool, default True
        Whether the method allows row weights.

    Raises
    ------
    ValueError
        If the rotation belongs to other data or another `fit_intercept`.
    """
    one_design = data.uniform and not data.masked and (data.weights is None or weighted)
    invariant = isinstance(loss, SquaredLoss) and all(p.rotation_invariant for p in penalties)
    if rotation is None and not (one_design and invariant and memory.fits(rotation_bytes(data))):
        return None
    basis = prepare(data, fit_intercept, rotation)
    return basis if isinstance(basis, SharedRotation) and one_design and invariant else None


def in_row_space(data: TaskData) -> tuple[TaskData, np.ndarray | None]:
    """Return ragged data in coordinates of the span of their rows, and the basis (d, r); else the data and None.

    Tasks made one-vs-one share their examples: 45 tasks of 80 rows may have 400 distinct rows in 784 features. Where
    penalties keep their value under rotations of the features, the solution lies in the span of the rows, and every
    product is that many times cheaper in an orthonormal basis of it.

    Parameters
    ----------
    data : TaskData
        Shared and sparse designs are left as they are.
    """
    if data.shared or data.sparse:
        return data, None
    distinct = _distinct_rows(data.X)
    if len(distinct) > _PAYS * data.n_features:
        return data, None
    basis = scipy.linalg.qr(distinct.T, mode="economic", check_finite=False)[0]
    return data.with_design(np.ascontiguousarray(data.X @ basis)), basis


def _distinct_rows(X: np.ndarray) -> np.ndarray:
    """Return the rows of X without repetitions, or all of them if telling them apart by a projection fails."""
    key = X @ np.random.default_rng(0).normal(size=X.shape[1])
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return X[first] if np.array_equal(X[first][group], X) else X
