"""The linear operator W -> (X_t w_t)_t of a multi-task model.

It has an adjoint, Gram matrices and a norm. `conjugate_gradients` solves linear
equations with many right-hand sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mtlrun.problem.taskdata import Array, Design, TaskData, dense, is_sparse

# Up to this size, an exact eigenvalue of the smaller Gram matrix gives the norm of a
# design. Beyond it, Lanczos iterations are faster.
_EXACT_NORM_SIZE = 2000
# Lanczos approaches an eigenvalue from below; step sizes need an upper bound.
_LANCZOS_MARGIN = 1e-6
# Mean entries of a dense task below which the call per task costs more than its
# product.
_BATCH_ENTRIES = 5_000


@dataclass(eq=False)
class TaskOperator:
    """Products with the designs of all tasks.

    Parameters
    ----------
    data : TaskData
        Its weights and mask are *not* applied: they belong to the loss.
    shift : ndarray of shape (d,) or (d, T), optional
        Subtracted from each row (of each task) without touching the design: X_t becomes
        X_t - 1 shift_t'.
    """

    data: TaskData
    shift: Array | None = None

    def forward(self, W: Array, b: Array | None = None) -> Array:
        """Return predictions, a new field.

        Parameters
        ----------
        W : ndarray of shape (d, T)
            Coefficients.
        b : ndarray of shape (T,), optional
            Intercepts.
        """
        data = self.data
        if data.shared:
            out = data.X @ W
        elif data.sparse:
            out = self._block_design @ W.ravel()
        elif self._batch is not None:
            padded, positions = self._batch
            products = np.matmul(padded, W.T[:, :, None])
            out = products.reshape(-1)[positions]
        else:
            out = np.empty(data.n_rows)
            columns = np.ascontiguousarray(W.T)
            for t, (start, stop) in enumerate(self._ranges):
                np.dot(data.X[start:stop], columns[t], out=out[start:stop])
        constants = b
        if self.shift is not None:
            if self.shift.ndim == 1:
                constants = -(self.shift @ W)
            else:
                constants = -np.einsum("ij,ij->j", self.shift, W)
            if b is not None:
                constants = constants + b
        if constants is not None:
            out += data.spread(constants)
        return out

    def adjoint(self, field: Array) -> Array:
        """Return (X_t' r_t)_t, shape (d, T), for a field r."""
        data = self.data
        if data.shared:
            out = data.X.T @ field
        elif data.sparse:
            products = self._block_design.T @ field
            out = products.reshape(data.n_features, data.n_tasks)
        elif self._batch is not None:
            padded, positions = self._batch
            n_tasks, longest, _ = padded.shape
            padded_field = np.zeros(n_tasks * longest)
            padded_field[positions] = field
            products = np.matmul(padded_field.reshape(n_tasks, 1, longest), padded)
            out = products[:, 0].T
        else:
            by_task = np.empty((data.n_tasks, data.n_features))
            for t, (start, stop) in enumerate(self._ranges):
                np.dot(field[start:stop], data.X[start:stop], out=by_task[t])
            out = by_task.T
        if self.shift is not None:
            if self.shift.ndim == 1:
                shift = self.shift[:, None]
            else:
                shift = self.shift
            out = out - shift * data.sum_by_task(field)
        return out

    def gram(self, weights: Array | None = None) -> Array:
        """Return X' diag(weights) X.

        Parameters
        ----------
        weights : ndarray of shape (n,), (n, T) or (N,), optional
            As in `TaskData.weights`; default all ones.

        Returns
        -------
        ndarray
            Shape (d, d) for a shared design with one weight per row and one shift, else
            one Gram per task, (T, d, d).
        """
        if self._uniform(weights):
            return _gram(self.data.X, weights, self.shift)
        tasks = range(self.data.n_tasks)
        return np.stack([_gram(*self._design(t, weights)) for t in tasks])

    def outer_gram(self, weights: Array | None = None) -> Array:
        """Return diag(sqrt(weights)) X X' diag(sqrt(weights)), shape (n, n).

        All tasks must share the design and the weights.
        """
        return _outer(self.data.X, weights, self.shift)

    def squares(self, weights: Array | None = None) -> Array:
        """Return the diagonal of X' diag(weights) X, shape (d,).

        All tasks must share the design, the weights (n,) and the shift. The result is
        right if there is no shift, or if it is the weighted mean.
        """
        X = self.data.X
        w = weights
        if w is None:
            w = np.ones(X.shape[0])
        if self.data.sparse:
            squares = np.asarray(X.multiply(X).T @ w)
        else:
            weighted_X = X
            if weights is not None:
                weighted_X = w[:, None] * X
            squares = np.einsum("ij,ij->j", X, weighted_X)
        if self.shift is not None:
            # sum w (x - m)^2 = sum w x^2 - m^2 sum w for the weighted mean m
            squares = squares - w.sum() * np.square(self.shift)
        return np.maximum(squares, 0.0)

    def norm(self, weights: Array | None = None) -> float:
        """Return the largest singular value of diag(sqrt(weights)) X_t over all tasks.

        This is the norm of the operator. For a shared design, the norm of the stacked
        matrix would be sqrt(T) times too large.

        Parameters
        ----------
        weights : ndarray of shape (n,), (n, T) or (N,), optional
            With shape (n, T), the upper bound from the largest weight of each row is
            returned.

        Returns
        -------
        float
            Exact where min(n_t, d) is at most 2000, else from Lanczos iterations with a
            margin of 1e-6.
        """
        if self.data.shared and weights is not None and weights.ndim == 2:
            weights = weights.max(axis=1)
        if self._uniform(weights):
            return _design_norm(self.data.X, weights, self.shift)
        tasks = range(self.data.n_tasks)
        return max(_design_norm(*self._design(t, weights)) for t in tasks)

    # -------------------------------------------------------------- products by layout

    @cached_property
    def _ranges(self) -> list[tuple[int, int]]:
        """First and last position of the rows of each task, the last one excluded."""
        offsets = self.data.offsets
        assert offsets is not None
        starts = offsets[:-1].tolist()
        stops = offsets[1:].tolist()
        return list(zip(starts, stops, strict=True))

    @cached_property
    def _batch(self) -> tuple[Array, Array] | None:
        """Dense ragged tasks padded to (T, longest, d), and the position of each row.

        None if products of the padded tasks would be slower: tasks differ in size, or
        are large.
        """
        sizes = self.data.sizes
        data = self.data
        longest = sizes.max()
        entries = data.n_tasks * int(longest)
        has_much_padding = entries > 2 * data.n_rows
        n_numbers = data.n_rows * data.n_features
        if has_much_padding or n_numbers > _BATCH_ENTRIES * data.n_tasks:
            return None
        starts = np.array([a for a, _ in self._ranges])
        # Row i of task t moves from starts[t] + i to t * longest + i.
        moves = np.arange(data.n_tasks) * longest - starts
        positions = np.arange(data.n_rows) + np.repeat(moves, sizes)
        padded = np.zeros((entries, data.n_features))
        padded[positions] = data.X
        return padded.reshape(data.n_tasks, -1, data.n_features), positions

    @cached_property
    def _block_design(self) -> sp.csr_array:
        """Sparse ragged tasks as one (N, d * T) matrix that acts on ``W.ravel()``.

        It shares the values of X. Its column numbers may exceed 32 bits.
        """
        X = self.data.X
        n_rows, n_features = X.shape
        n_tasks = self.data.n_tasks
        task_of_row = np.repeat(np.arange(n_tasks), self.data.sizes)
        entries_per_row = np.diff(X.indptr)
        task_of_entry = np.repeat(task_of_row, entries_per_row)
        # Entry (j, t) of W is at j * T + t.
        columns = X.indices.astype(np.int64) * n_tasks + task_of_entry
        indptr = X.indptr.astype(np.int64)
        shape = (n_rows, n_features * n_tasks)
        return sp.csr_array((X.data, columns, indptr), shape=shape)

    # -------------------------------------------------------------- designs one by one

    def _uniform(self, weights: Array | None) -> bool:
        """Whether all tasks have the same design, row weights and shift."""
        has_one_shift = self.shift is None or self.shift.ndim == 1
        has_row_weights = weights is None or weights.ndim == 1
        return self.data.shared and has_one_shift and has_row_weights

    def _design(
        self,
        t: int,
        weights: Array | None,
    ) -> tuple[Design, Array | None, Array | None]:
        """Return the design, weights and shift of task t."""
        shift = self.shift
        if shift is not None and shift.ndim == 2:
            shift = shift[:, t]
        if self.data.shared:
            if weights is not None and weights.ndim == 2:
                weights = weights[:, t]
            return self.data.X, weights, shift
        X, _, _ = self.data.task(t)
        if weights is not None:
            a, b = self._ranges[t]
            weights = weights[a:b]
        return X, weights, shift


def _gram(X: Design, w: Array | None, m: Array | None) -> Array:
    """Return (X - 1 m')' diag(w) (X - 1 m')."""
    # No name for the weighted copy of X, which can be large: it goes at once.
    if w is None:
        G = dense(X.T @ X)
    elif is_sparse(X):
        G = dense(X.T @ (sp.diags_array(w) @ X))
    else:
        G = dense(X.T @ (w[:, None] * X))
    if m is not None:
        if w is None:
            w = np.ones(X.shape[0])
        # X'WX - X'w m' - m w'X + (sum w) m m'
        cross = np.outer(X.T @ w, m)
        G = G - cross - cross.T + float(w.sum()) * np.outer(m, m)
    return G


def _outer(X: Design, w: Array | None, m: Array | None) -> Array:
    """Return diag(sqrt(w)) (X - 1 m') (X - 1 m')' diag(sqrt(w))."""
    K = dense(X @ X.T)
    if m is not None:
        u = X @ m
        K = K - u[:, None] - u[None, :] + m @ m
    if w is None:
        return K
    return K * np.sqrt(np.outer(w, w))


def _design_norm(X: Design, w: Array | None, m: Array | None) -> float:
    """Return the largest singular value of diag(sqrt(w)) (X - 1 m')."""
    n, d = X.shape
    if min(n, d) > _EXACT_NORM_SIZE:
        return _lanczos_norm(X, w, m)
    if d <= n:
        G = _gram(X, w, m)
    else:
        G = _outer(X, w, m)
    last = G.shape[0] - 1
    largest_only = scipy.linalg.eigh(
        G,
        eigvals_only=True,
        subset_by_index=[last, last],
    )
    top = largest_only[0]
    return float(np.sqrt(max(top, 0.0)))


def _lanczos_norm(X: Design, w: Array | None, m: Array | None) -> float:
    """Return `_design_norm` by Lanczos iterations, without a Gram matrix."""
    d = X.shape[1]

    def product(v: Array) -> Array:
        z = X @ v.ravel()
        if m is not None:
            z = z - m @ v.ravel()
        if w is not None:
            z = w * z
        if m is None:
            return X.T @ z
        return X.T @ z - m * z.sum()

    normal = LinearOperator((d, d), matvec=product, dtype=np.float64)
    # A vector of ones would lie in the null space of centered one-hot features.
    start = np.random.default_rng(0).normal(size=d)
    # ARPACK refuses a zero operator.
    if not np.any(product(start)):
        return 0.0
    try:
        top = eigsh(
            normal,
            k=1,
            which="LA",
            v0=start,
            tol=1e-8,
            return_eigenvectors=False,
        )[0]
    except ArpackError as error:
        raise ArithmeticError(
            f"the norm of a {X.shape} design could not be computed: {error}"
        ) from error
    norm = float(np.sqrt(max(top, 0.0)))
    return norm * (1.0 + _LANCZOS_MARGIN)


# ---------------------------------- conjugate gradients for many right-hand sides


class ConjugateSolution(NamedTuple):
    """Result of `conjugate_gradients`.

    Attributes
    ----------
    X : ndarray of shape (n, k)
    residual : ndarray of shape (n, k)
        The right-hand side minus the operator at X.
    n_iter : int
    converged : bool
        Whether all columns are accurate.
    """

    X: Array
    residual: Array
    n_iter: int
    converged: bool


def conjugate_gradients(
    apply: Callable[[Array], Array],
    right: Array,
    *,
    diagonal: Array | None = None,
    tol: float = 1e-13,
    max_iter: int = 2000,
) -> ConjugateSolution:
    """Solve A X = right for a symmetric positive (semi)definite operator.

    Each column has its own steps; one call of the operator serves all columns.

    Parameters
    ----------
    apply : callable
        Returns A V for V of the shape of `right`.
    right : ndarray of shape (n, k)
        In the range of A. If there are many solutions, the one of smallest norm is
        returned (without `diagonal`).
    diagonal : ndarray of shape (n,) or (n, k), optional
        Positive numbers near the diagonal of A, for preconditioning.
    tol : float, default 1e-13
        Norm of the residual of a column, relative to its right-hand side.
    max_iter : int, default 2000
    """
    X = np.zeros_like(right)
    R = right.copy()
    scale = None
    if diagonal is not None:
        if diagonal.ndim == 1:
            diagonal = diagonal[:, None]
        scale = 1.0 / diagonal
    target = tol * np.linalg.norm(right, axis=0)
    P = np.zeros_like(right)
    before = np.ones(right.shape[1])
    iteration = 0
    is_open = np.linalg.norm(R, axis=0) > target
    while is_open.any() and iteration < max_iter:
        iteration += 1
        Z = R
        if scale is not None:
            Z = scale * R
        product = _columns(R, Z)
        P *= product / before
        P += Z
        image = apply(P)
        curvature = _columns(P, image)
        # Columns that have converged stay as they are.
        moves = is_open & (curvature > 0)
        step = np.divide(product, curvature, out=np.zeros_like(product), where=moves)
        X += step * P
        # The recursion of the residual drifts away from the true one by rounding.
        if iteration % 50 == 0:
            R = right - apply(X)
        else:
            image *= step
            R -= image
        before = np.where(product > 0, product, 1.0)
        is_open = np.linalg.norm(R, axis=0) > target
    R = right - apply(X)
    # Some room for the difference between the recursion and the true residual.
    is_accurate = np.linalg.norm(R, axis=0) <= 10.0 * target
    return ConjugateSolution(
        X,
        residual=R,
        n_iter=iteration,
        converged=bool(is_accurate.all()),
    )


def _columns(A: Array, B: Array) -> Array:
    """Return the inner products of the columns of A and B."""
    return np.asarray(np.einsum("ij,ij->j", A, B))
