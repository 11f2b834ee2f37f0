"""Eigenbases of the designs, in which the squared loss is diagonal.

With X = U S V' (one design for all tasks) every penalty that does not change under
rotations of the features keeps its value in the coordinates Q = V'W, and iterates that
start in the row space of X stay there; so a solver can work on matrices of min(n, d)
rows with an elementwise data step. Tasks with designs of their own have one such basis
each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from mtlrun.problem import memory
from mtlrun.problem.losses import Loss, SquaredLoss, is_graded, right_singular
from mtlrun.problem.objective import Centred
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import CONDITION, ROUNDING, Quadratic
from mtlrun.problem.taskdata import EIGENVECTORS, Array, TaskData, dense, quotient

# X'U/s is orthonormal to about eps * (s_max / s_min)^2; up to this departure it is good
# enough to lift a solution.
_ORTHONORMAL = 1e-8
# Decomposing takes about this many times the memory of the bases.
_COPIES = 4
# An accurate decomposition of graded columns takes this many copies of the rows.
_DENSE_COPIES = 4
_REMEDY = "Use solver='fista' (solve_fista), which needs none, or fewer features."
# The basis of the row space is used when it has at most this part of the features.
_PAYS = 0.75
# Coordinates in that basis below this, relative to the length of the row, are rounding.
_ZERO = 1e-13


class Rotation(Quadratic):
    """Coordinates in which the loss is diagonal, for every task.

    `prepare` computes it once for all fits on the same data, with any penalties. r is
    the rank of a shared design, or the largest rank of a task.

    Attributes
    ----------
    squares : ndarray of shape (r, 1) or (r, T)
        Squared singular values of the (weighted) designs.
    """

    squares: Array
    _graded: Array  # whether columns differ much in scale, of the design or by task

    @property
    def rank(self) -> int:
        """Number of coordinates r."""
        return self.squares.shape[0]

    @property
    def largest(self) -> float:
        return float(self.squares.max())

    @cached_property
    def doubtful(self) -> bool:
        least = self.squares.min(axis=0)
        n_rows: int | Array = self.data.n_rows
        if self.squares.shape[1] > 1:
            n_rows = self.data.sizes
        full_rank = np.minimum(n_rows - self.fit_intercept, self.data.n_features)
        has_lost_directions = self.rank < full_rank
        is_ill_conditioned = least * CONDITION <= self.squares.max(axis=0)
        # Decompositions of graded designs are accurate in any case.
        is_doubtful = (has_lost_directions | is_ill_conditioned) & ~self._graded
        return bool(np.any(is_doubtful))

    @property
    def graded(self) -> bool:
        return bool(self._graded.any())

    @cached_property
    def explained(self) -> Array:
        by_coordinate = quotient(np.square(self.cross), self.squares)
        # Rounding must not make the residual squares negative.
        return np.minimum(by_coordinate.sum(axis=0), self.energy)

    def belongs_to(self, data: TaskData, fit_intercept: bool) -> bool:
        """Whether `prepare` would make the same of these data."""
        has_same_arrays = (
            self.data.X is data.X
            and self.data.targets is data.targets
            and self.data.offsets is data.offsets
            and self.data.weights is data.weights
            and self.data.observed is data.observed
        )
        return has_same_arrays and self.fit_intercept == fit_intercept

    def image(self, Q: Array) -> Array:
        return self.squares * Q

    def slope(self, W: Array) -> Array:
        Q = self.rotate(W)
        return self.lift(self.cross - self.squares * Q)

    def solve(self, Z: Array) -> Array:
        Q = quotient(self.rotate(Z), self.squares)
        return self.lift(Q)

    def uncentred(self, W: Array, b: Array) -> Array:
        """Return intercepts of original designs, from intercepts of centered ones."""
        if self._centred is None:
            return b
        return b + self._centred.intercept(W) - self._centred.y_mean

    @abstractmethod
    def rotate(self, W: Array) -> Array:
        """Return the coordinates (r, T) of W (d, T)."""

    @abstractmethod
    def lift(self, Q: Array) -> Array:
        """Return the coefficients (d, T) of coordinates Q (r, T)."""

    def _rows(self, t: int) -> tuple[Array, Array]:
        """Return the dense, centered and weighted rows of a task, and norms of columns.

        The norms are those before centering.
        """
        X, _, w = self.data.task(t)
        X = dense(X)
        root: Array | float = 1.0
        if w is not None:
            root = np.sqrt(w)[:, None]
        sizes = np.linalg.norm(root * X, axis=0)
        if self._centred is not None:
            mean = self._centred.x_mean
            if mean.ndim == 2:
                mean = mean[:, t]
            X = X - mean
        return root * X, sizes

    def _dense_fits(self) -> bool:
        """Whether the rows may be made dense for an accurate decomposition."""
        dense_bytes = 8 * self.data.n_rows * self.data.n_features
        return memory.fits(_DENSE_COPIES * dense_bytes)

    def scores(self, Q: Array) -> Array:
        """Return predictions, a field, of coordinates Q for unweighted data.

        The designs are centered if an intercept is fitted.
        """
        return self.operator.forward(self.lift(Q))

    def pull(self, field: Array) -> Array:
        """Return the adjoint of `scores`, (r, T)."""
        return self.rotate(self.operator.adjoint(field))


class SharedRotation(Rotation):
    """One basis for all tasks: X = U diag(s) V'.

    X is centered, and its rows are multiplied by the roots of their weights. The
    eigenvectors come from the Gram matrix of the smaller side, so that a sparse X is
    never densified beyond min(n, d) x d. With n < d only U is formed, and V when a
    caller needs it.
    """

    def __init__(self, data: TaskData, fit_intercept: bool = False) -> None:
        super().__init__(data, fit_intercept)
        eigen = _shared_eigenvectors(data, fit_intercept)
        if eigen is not None:
            self._wide = False
            self._root = None
            self._graded = np.zeros((), dtype=bool)
            all_values, all_vectors = eigen
            values, self._vectors = _significant(all_values[0], all_vectors[0])
            self.squares = values[:, None]
            self._project()
            return
        self._wide = data.n_rows < data.n_features
        if data.weights is None:
            self._root = None
        else:
            self._root = np.sqrt(data.weights)[:, None]
        if self._wide:
            gram = self.operator.outer_gram(data.weights)
            squares = self.operator.squares(data.weights)
        else:
            gram = self.operator.gram(data.weights)
            squares = np.diag(gram)
        self._graded = self._are_graded(squares) & self._dense_fits()
        if self._graded:
            # From now on the basis spans the features.
            self._wide = False
            values, self._vectors = right_singular(*self._rows(0))
        else:
            values, vectors = scipy.linalg.eigh(
                gram,
                overwrite_a=True,
                check_finite=False,
                driver="evd",
            )
            values, self._vectors = _significant(values, vectors)
        self.squares = values[:, None]
        self._project()

    def retarget(self, data: TaskData) -> SharedRotation:
        """Return the rotation of data with the same X and weights but other targets.

        An example is a block of tasks.
        """
        other = object.__new__(SharedRotation)
        for name, value in self.__dict__.items():
            # Cached numbers that depend on the targets.
            if name not in ("energy", "explained"):
                other.__dict__[name] = value
        centred = self._centred
        if centred is not None:
            centred = _recentre(centred, data)
        other._use(data, centred)
        other._project()
        return other

    def diagonal_data(self) -> TaskData:
        """Return data with a diagonal design and the same least-squares problem.

        The rows must be unweighted. There is one row per coordinate, diag(s) with the
        targets U'y_t, and a row of zeros whose target is the length of the part of y_t
        that no coefficients can fit. For each task this is an orthogonal transformation
        of the rows of the (centered) design and targets.
        """
        s = np.sqrt(self.squares[:, 0])
        targets = quotient(self.cross, s[:, None])
        rest = np.sqrt(np.maximum(self.energy - self.explained, 0.0))
        zero_row = sp.csr_array((1, len(s)))
        design = sp.csr_array(sp.vstack([sp.diags_array(s), zero_row]))
        return TaskData.from_matrix(
            design,
            np.vstack([targets, rest]),
            tasks=self.data.tasks,
        )

    def rotate(self, W: Array) -> Array:
        return self.basis.T @ W

    def lift(self, Q: Array) -> Array:
        if self._has_basis:
            return self.basis @ Q
        field = self._scaled(self._vectors @ (Q / self._roots))
        return self.operator.adjoint(field)

    def slope(self, W: Array) -> Array:
        if self._has_basis:
            return super().slope(W)
        # From the rows, as V itself takes far longer. They give V'V = I + E where
        # squares are inexact, and the coordinates of which W is made are (I + E)^-1 V'W
        # = (2 - V'V) V'W up to the square of E.
        Q = self._coordinates(W)
        image = self._coordinates(self.lift(Q))
        corrected = 2.0 * Q - image
        return self.lift(self.cross - self.squares * corrected)

    def scores(self, Q: Array) -> Array:
        if self._wide:
            return self._vectors @ (self._roots * Q)
        return super().scores(Q)

    def pull(self, field: Array) -> Array:
        if self._wide:
            return self._roots * (self._vectors.T @ field)
        return super().pull(field)

    @cached_property
    def basis(self) -> Array:
        """V of shape (d, r), with orthonormal columns; zero for a wide zero design."""
        if not self._wide:
            return self._vectors
        d = self.data.n_features
        if not self.squares.any():
            return np.zeros((d, self.rank))
        memory.require(
            _COPIES * 8 * d * self.rank,
            f"a basis of rank {self.rank} for {d} features",
            _REMEDY,
        )
        V = self.operator.adjoint(self._scaled(self._vectors / self._roots.T))
        # Small singular values make V'V = R'R depart from I a little; X = U diag(s) R
        # (V / R)', diag(s) R ~ diag(s).
        factor = scipy.linalg.cholesky(V.T @ V, check_finite=False)
        return scipy.linalg.solve_triangular(
            factor,
            V.T,
            trans="T",
            check_finite=False,
        ).T

    def _coordinates(self, W: Array) -> Array:
        """Return V'W = diag(1 / s) U'X W, without V."""
        predictions = self._scaled(self.operator.forward(W))
        return np.asarray(self._vectors.T @ predictions / self._roots)

    @property
    def _has_basis(self) -> bool:
        """Whether V is there, or needed for accuracy."""
        if not self._wide or "basis" in self.__dict__:
            return True
        # V from the rows would be far from orthonormal.
        smallest = self.squares[0, 0]
        largest = self.squares[-1, 0]
        return bool(smallest * _ORTHONORMAL < np.finfo(np.float64).eps * largest)

    @property
    def _roots(self) -> Array:
        """Singular values s, whose squares are not below the smallest number."""
        tiny = np.finfo(np.float64).tiny
        return np.sqrt(np.maximum(self.squares, tiny))

    def _project(self) -> None:
        """Set V'X'y, which is diag(s) U'y where only U is there."""
        if self._wide:
            targets = self._scaled(self._moved.targets)
            self.cross = self._roots * (self._vectors.T @ targets)
            return
        products = self.operator.adjoint(self._weighted_targets)
        self.cross = self._vectors.T @ products

    def _scaled(self, field: Array) -> Array:
        """Return a field times the roots of the weights."""
        if self._root is None:
            return field
        return self._root * field


class TaskRotation(Rotation):
    """One basis per task, padded to the same number of coordinates: (T, d, r)."""

    def __init__(self, data: TaskData, fit_intercept: bool = False) -> None:
        super().__init__(data, fit_intercept)
        if data.shared:
            longest = data.n_rows
        else:
            longest = int(data.sizes.max())
        eigen = _shared_eigenvectors(data, fit_intercept)
        if eigen is not None:
            squares, self.bases = eigen
            self._graded = np.zeros(data.n_tasks, dtype=bool)
        elif longest < data.n_features:
            # Tasks with fewer rows than features are decomposed one by one.
            squares = np.zeros((data.n_tasks, longest))
            self.bases = np.zeros((data.n_tasks, data.n_features, longest))
            self._graded = np.zeros(data.n_tasks, dtype=bool)
            for task in range(data.n_tasks):
                A, sizes = self._rows(task)
                column_squares = np.einsum("ij,ij->j", A, A)
                self._graded[task] = is_graded(column_squares, np.square(sizes))
                if self._graded[task]:
                    values, V = right_singular(A, sizes)
                else:
                    _, s, Vt = np.linalg.svd(A, full_matrices=False)
                    values = np.square(s)
                    V = Vt.T
                squares[task], self.bases[task] = _padded(values, V, longest)
        else:
            gram = self.operator.gram(data.weights)
            squares, self.bases = np.linalg.eigh(gram)
            column_squares = np.einsum("tii->ti", gram)
            self._graded = self._are_graded(column_squares) & self._dense_fits()
            for t in np.flatnonzero(self._graded):
                values, V = right_singular(*self._rows(int(t)))
                squares[t], self.bases[t] = _padded(values, V, data.n_features)
        largest = squares.max(axis=1, initial=0.0)[:, None]
        rounding = ROUNDING * squares.shape[1] * largest
        # Decompositions of graded tasks have left out noise themselves.
        threshold = np.where(self._graded[:, None], 0.0, rounding)
        significant = squares > threshold
        self.squares = np.where(significant, squares, 0.0).T
        products = self.operator.adjoint(self._weighted_targets)
        self.cross = self.rotate(products) * significant.T

    def rotate(self, W: Array) -> Array:
        coordinates = np.matmul(W.T[:, None, :], self.bases)
        return coordinates[:, 0, :].T

    def lift(self, Q: Array) -> Array:
        coefficients = np.matmul(self.bases, Q.T[:, :, None])
        return coefficients[:, :, 0].T


def _padded(values: Array, V: Array, size: int) -> tuple[Array, Array]:
    """Return squares and bases with zeros up to a number of coordinates."""
    n_missing = size - len(values)
    padded_values = np.pad(values, (0, n_missing))
    padded_V = np.pad(V, ((0, 0), (0, n_missing)))
    return padded_values, padded_V


def prepare(
    data: TaskData,
    fit_intercept: bool = False,
    rotation: Rotation | None = None,
) -> Rotation:
    """Decompose the designs of all tasks, once for all fits on the same data.

    Data that share their decompositions (`TaskData.share_decompositions`) keep the
    result for later calls, unless it takes more memory than the rows.

    Parameters
    ----------
    data : TaskData
        A shared design with one weight per row gives a `SharedRotation`; ragged tasks,
        and shared ones with missing targets or weights by task, a `TaskRotation`.
    fit_intercept : bool, default False
        Center every task (with its weights), which removes an unpenalized intercept; a
        sparse X stays sparse.
    rotation : Rotation, optional
        Returned if it was made from these data.

    Raises
    ------
    ValueError
        If `rotation` belongs to other data or another `fit_intercept`.
    MemoryLimitError
        If the bases would not fit into memory.
    """
    if rotation is not None:
        if not rotation.belongs_to(data, fit_intercept):
            raise ValueError(
                "the rotation was prepared from other data or weights, or with another "
                "fit_intercept"
            )
        return rotation
    key = ("rotation", fit_intercept)
    if data.shares_decompositions and key in data.decompositions:
        shared: Rotation = data.decompositions[key]
        return shared
    sizes = f"{data.n_rows} rows, {data.n_features} features and {data.n_tasks} tasks"
    memory.require(
        preparation_bytes(data), f"an eigenbasis of the designs ({sizes})", _REMEDY
    )
    result: Rotation
    if data.uniform:
        result = SharedRotation(data, fit_intercept)
    else:
        result = TaskRotation(data, fit_intercept)
    _share(data, key, result)
    return result


def _shared_eigenvectors(
    data: TaskData, fit_intercept: bool
) -> tuple[Array, Array] | None:
    """Return the stored eigenvalues and eigenvectors of Gram matrices, or None."""
    if fit_intercept or not data.shares_decompositions:
        return None
    return data.decompositions.get(EIGENVECTORS)


def _share(data: TaskData, key: tuple[str, bool], result: Rotation | RowSpace) -> None:
    """Store a result for other fits, unless it takes more memory than the rows."""
    if not data.shares_decompositions:
        return
    if data.sparse:
        row_bytes = data.X.data.nbytes + data.X.indices.nbytes
    else:
        row_bytes = data.X.nbytes
    if rotation_bytes(data) <= row_bytes:
        data.decompositions[key] = result


def rotation_bytes(data: TaskData, *, invariant: bool = True) -> int:
    """Return the size of the bases that `prepare` would keep.

    ``invariant=False`` adds the size of the features' side of a wide design, which is
    made on demand: penalties that change under rotations need it.
    """
    if data.uniform:
        smaller = min(data.n_rows, data.n_features)
        width = smaller
        if not invariant and smaller < data.n_features:
            width = smaller + data.n_features
        return 8 * smaller * width
    if data.shared:
        longest = data.n_rows
    else:
        longest = int(data.sizes.max())
    return 8 * data.n_tasks * data.n_features * min(longest, data.n_features)


def preparation_bytes(data: TaskData, *, invariant: bool = True) -> int:
    """Return what making these bases takes while it works."""
    return _COPIES * rotation_bytes(data, invariant=invariant)


def _recentre(centred: Centred, data: TaskData) -> Centred:
    """Center other targets of the same design and row weights."""
    y_mean = np.average(data.targets, axis=0, weights=data.weights)
    moved = data.with_design(centred.data.X).with_targets(data.targets - y_mean)
    operator = TaskOperator(moved, shift=centred.operator.shift)
    return Centred(moved, operator, centred.x_mean, y_mean)


def _significant(values: Array, vectors: Array) -> tuple[Array, Array]:
    """Drop eigenvalues that are rounding; at least one coordinate stays.

    Values are in ascending order.
    """
    rounding = ROUNDING * len(values) * max(values[-1], 0.0)
    first = int(np.searchsorted(values, rounding, side="right"))
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
    """Return the eigenbasis in which a first-order method has the same iterates.

    Return None if there is none, or if it would not fit into memory.

    Parameters
    ----------
    data, loss, penalties, fit_intercept
        The problem.
    rotation : Rotation, optional
        From `prepare` with the same data and `fit_intercept`; computed if not given.
    weighted : bool, default True
        Whether the method allows row weights.

    Raises
    ------
    ValueError
        If the rotation belongs to other data or another `fit_intercept`.
    """
    has_one_design = data.uniform and not data.masked
    allows_weights = data.weights is None or weighted
    has_invariant_penalties = all(p.rotation_invariant for p in penalties)
    is_invariant = isinstance(loss, SquaredLoss) and has_invariant_penalties
    applies = has_one_design and allows_weights and is_invariant
    if rotation is None and not (applies and memory.fits(rotation_bytes(data))):
        return None
    # A rotation that is passed in is checked even if it does not apply.
    basis = prepare(data, fit_intercept, rotation)
    if isinstance(basis, SharedRotation) and applies:
        return basis
    return None


def in_row_space(data: TaskData) -> tuple[TaskData, Array | None]:
    """Return ragged data in an orthonormal basis of their rows, and the basis (d, r).

    If that would not save time, return the data and None.

    Tasks made one-vs-one share their examples: 45 tasks of 80 rows may have 400
    distinct rows in 784 features. Where penalties keep their value under rotations of
    the features, the solution lies in the span of the rows, and products in a basis of
    it are cheaper by the ratio of both numbers.

    Parameters
    ----------
    data : TaskData
        Shared and sparse designs are left as they are.
    """
    if data.shared or data.sparse:
        return data, None
    # A random projection tells rows apart. If it fails, keep repeated rows.
    direction = np.random.default_rng(0).normal(size=data.n_features)
    keys = data.X @ direction
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    distinct = data.X[first]
    if not np.array_equal(distinct[group], data.X):
        distinct = data.X
    if len(distinct) > _PAYS * data.n_features:
        return data, None
    squares = np.einsum("ij,ij->j", distinct, distinct)
    # Rounding would mix columns of different scales.
    if is_graded(squares, squares):
        return data, None
    basis, _ = scipy.linalg.qr(distinct.T, mode="economic", check_finite=False)
    rows = np.ascontiguousarray(data.X @ basis)
    # Coordinates of a row along directions of other rows are zero but for rounding.
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows[np.abs(rows) <= _ZERO * lengths] = 0.0
    return data.with_design(rows), basis


# ---------------------------------------------------------------------- row spaces


@dataclass(frozen=True)
class RowSpace:
    """The designs in a basis of their rows, where that is shorter, and decomposed.

    Attributes
    ----------
    basis : ndarray of shape (d, r) or None
        None where coordinates are the features themselves.
    rotation : Rotation
        Of the designs in these coordinates.
    """

    basis: Array | None
    rotation: Rotation

    @classmethod
    def of(cls, data: TaskData, fit_intercept: bool) -> RowSpace:
        """Return the row space of data; `fit_intercept` centers every task.

        Data that share their decompositions keep the space, as `prepare` does.
        """
        key = ("row space", fit_intercept)
        if data.shares_decompositions and key in data.decompositions:
            shared: RowSpace = data.decompositions[key]
            return shared
        rows, basis = in_row_space(data)
        space = cls(basis, prepare(rows, fit_intercept))
        _share(data, key, space)
        return space

    @property
    def data(self) -> TaskData:
        """The data in coordinates."""
        return self.rotation.data

    @cached_property
    def pooled(self) -> tuple[Array, Array]:
        """Positive eigenvalues (k,) and eigenvectors (r, k) of the pooled Gram matrix.

        It is the sum of the Gram matrices of the tasks.
        """
        rotation = self.rotation
        d = self.data.n_features
        if isinstance(rotation, SharedRotation):
            values = self.data.n_tasks * rotation.squares[:, 0]
            vectors = rotation.basis
        else:
            assert isinstance(rotation, TaskRotation)
            roots = rotation.bases * np.sqrt(rotation.squares).T[:, None, :]
            # The product of this matrix with its transpose is the sum.
            root = roots.transpose(1, 0, 2).reshape(d, -1)
            if rotation.graded:
                return right_singular(root.T, np.linalg.norm(root, axis=1))
            if d <= root.shape[1]:
                values, vectors = np.linalg.eigh(root @ root.T)
            else:
                vectors, singular, _ = np.linalg.svd(root, full_matrices=False)
                values = np.square(singular)
        rounding = ROUNDING * len(values) * values.max(initial=0.0)
        kept = values > rounding
        return values[kept], vectors[:, kept]

    def lift(self, parts: Array) -> Array:
        """Return coefficients (n_parts, d, T) of coordinates (n_parts, r, T)."""
        if self.basis is None:
            return parts
        return self.basis @ parts
