"""The linear operator of a multi-task model, W -> (X_t w_t)_t: adjoint, Gram matrices, norm; conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mtlrun.problem.taskdata import Design, TaskData, dense, is_sparse

# Up to this size the norm of a design comes from an exact eigenvalue of its smaller
# Gram matrix.
_EXACT_NORM_SIZE = 2000
# Lanczos approaches an eigenvalue from below; step sizes need an upper bound.
_LANCZOS_MARGIN = 1e-6
# Mean entries of a dense task below which the call per task costs more than its
# product.
_BATCH_ENTRIES = 5_000


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

    def __init__(self, data: TaskData, shift: np.ndarray | None = None) -> None:
        self.data = data
        self.shift = shift

    def forward(self, W: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """Return the predictions of coefficients W (d, T) and intercepts b (T,), a new field."""
        out = self._products(W)
        moved = None
        if self.shift is not None:
            if self.shift.ndim == 1:
                moved = -(self.shift @ W)
            else:
                moved = -np.einsum("ij,ij->j", self.shift, W)
        if b is not None:
            moved = b if moved is None else moved + b
        if moved is not None:
            out += self.data.spread(moved)
        return out

    def adjoint(self, field: np.ndarray) -> np.ndarray:
        """Return (X_t' r_t)_t, shape (d, T), for a field r."""
        out = self._adjoint_products(field)
        if self.shift is not None:
            if self.shift.ndim == 1:
                shift = self.shift[:, None]
            else:
                shift = self.shift
            out = out - shift * self.data.sum_by_task(field)
        return out

    def gram(self, weights: np.ndarray | None = None) -> np.ndarray:
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
        return np.stack(
            [_gram(*self._design(t, weights)) for t in range(self.data.n_tasks)]
        )

    def outer_gram(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return diag(sqrt(weights)) X X' diag(sqrt(weights)), (n, n), of a design and weights that tasks share."""
        return _outer(self.data.X, weights, self.shift)

    def squares(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the diagonal of X' diag(weights) X, (d,), of a design, weights (n,) and a shift that tasks share.

        Exact where the shift is the weighted mean, or none.
        """
        X = self.data.X
        w = np.ones(X.shape[0]) if weights is None else weights
        if self.data.sparse:
            squares = np.asarray(X.multiply(X).T @ w)
        else:
            squares = np.einsum("ij,ij->j", X, X if weights is None else w[:, None] * X)
        if self.shift is not None:
            squares = squares - w.sum() * np.square(self.shift)
        return np.maximum(squares, 0.0)

    def norm(self, weights: np.ndarray | None = None) -> float:
        """Return max over tasks of the largest singular value of diag(sqrt(weights)) X_t.

        This is the norm of the operator; the stacked matrix of a shared design would be
        sqrt(T) times too large.

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
        return max(
            _design_norm(*self._design(t, weights)) for t in range(self.data.n_tasks)
        )

    # ------------------------------------------------------------------ products by layout

    def _products(self, W: np.ndarray) -> np.ndarray:
        data = self.data
        if data.shared:
            return data.X @ W
        if data.sparse:
            return self._block_design @ W.ravel()
        if self._batch is not None:
            padded, positions = self._batch
            return np.matmul(padded, W.T[:, :, None]).reshape(-1)[positions]
        out = np.empty(data.n_rows)
        columns = np.ascontiguousarray(W.T)
        for t, (a, b) in enumerate(self._ranges):
            np.dot(data.X[a:b], columns[t], out=out[a:b])
        return out

    def _adjoint_products(self, field: np.ndarray) -> np.ndarray:
        data = self.data
        if data.shared:
            return data.X.T @ field
        if data.sparse:
            return (self._block_design.T @ field).reshape(data.n_features, data.n_tasks)
        if self._batch is not None:
            padded, positions = self._batch
            rows = np.zeros(padded.shape[0] * padded.shape[1])
            rows[positions] = field
            return np.matmul(rows.reshape(len(padded), 1, -1), padded)[:, 0].T
        out = np.empty((data.n_tasks, data.n_features))
        for t, (a, b) in enumerate(self._ranges):
            np.dot(field[a:b], data.X[a:b], out=out[t])
        return out.T

    @cached_property
    def _ranges(self) -> list[tuple[int, int]]:
        offsets = self.data.offsets
        assert offsets is not None
        return list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))

    @cached_property
    def _batch(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Dense ragged tasks padded to (T, longest, d) and the position of each row, or None if that is slower."""
        sizes = self.data.sizes
        data = self.data
        entries = data.n_tasks * int(sizes.max())
        if (
            entries > 2 * data.n_rows
            or data.n_rows * data.n_features > _BATCH_ENTRIES * data.n_tasks
        ):
            return None
        first = np.arange(data.n_tasks) * sizes.max() - np.array(
            [a for a, _ in self._ranges]
        )
        positions = np.arange(data.n_rows) + np.repeat(first, sizes)
        padded = np.zeros((entries, data.n_features))
        padded[positions] = data.X
        return padded.reshape(data.n_tasks, -1, data.n_features), positions

    @cached_property
    def _block_design(self) -> sp.csr_array:
        """Sparse ragged tasks as one (N, d * T) matrix that acts on ``W.ravel()``; shares the values of X."""
        X = self.data.X
        n_tasks = self.data.n_tasks
        task = np.repeat(np.arange(n_tasks), self.data.sizes)
        columns = X.indices.astype(np.int64) * n_tasks + np.repeat(
            task, np.diff(X.indptr)
        )
        return sp.csr_array(
            (X.data, columns, X.indptr.astype(np.int64)),
            shape=(X.shape[0], X.shape[1] * n_tasks),
        )

    # ------------------------------------------------------------------ designs one by one

    def _uniform(self, weights: np.ndarray | None) -> bool:
        """Whether all tasks have the same design, row weights and shift."""
        one_shift = self.shift is None or self.shift.ndim == 1
        return self.data.shared and one_shift and (weights is None or weights.ndim == 1)

    def _design(
        self, t: int, weights: np.ndarray | None
    ) -> tuple[Design, np.ndarray | None, np.ndarray | None]:
        if self.shift is None or self.shift.ndim == 1:
            shift = self.shift
        else:
            shift = self.shift[:, t]
        if self.data.shared:
            if weights is None or weights.ndim == 1:
                w = weights
            else:
                w = weights[:, t]
            return self.data.X, w, shift
        a, b = self._ranges[t]
        return self.data.task(t)[0], None if weights is None else weights[a:b], shift


def _gram(X: Design, w: np.ndarray | None, m: np.ndarray | None) -> np.ndarray:
    """Return (X - 1 m')' diag(w) (X - 1 m')."""
    if w is None:
        G = dense(X.T @ X)
    else:
        G = dense(X.T @ (sp.diags_array(w) @ X if is_sparse(X) else w[:, None] * X))
    if m is not None:
        ones = np.ones(X.shape[0]) if w is None else w
        cross = np.outer(X.T @ ones, m)
        G = G - cross - cross.T + float(ones.sum()) * np.outer(m, m)
    return G


def _outer(X: Design, w: np.ndarray | None, m: np.ndarray | None) -> np.ndarray:
    """Return diag(sqrt(w)) (X - 1 m') (X - 1 m')' diag(sqrt(w))."""
    K = dense(X @ X.T)
    if m is not None:
        u = X @ m
        K = K - u[:, None] - u[None, :] + m @ m
    if w is None:
        return K
    return K * np.sqrt(np.outer(w, w))


def _design_norm(X: Design, w: np.ndarray | None, m: np.ndarray | None) -> float:
    n, d = X.shape
    if min(n, d) > _EXACT_NORM_SIZE:
        return _lanczos_norm(X, w, m)
    G = _gram(X, w, m) if d <= n else _outer(X, w, m)
    last = G.shape[0] - 1
    top = scipy.linalg.eigh(G, eigvals_only=True, subset_by_index=[last, last])[0]
    return float(np.sqrt(max(top, 0.0)))


def _lanczos_norm(X: Design, w: np.ndarray | None, m: np.ndarray | None) -> float:
    d = X.shape[1]

    def product(v: np.ndarray) -> np.ndarray:
        if m is None:
            z = X @ v.ravel()
        else:
            z = X @ v.ravel() - m @ v.ravel()
        z = z if w is None else w * z
        if m is None:
            return X.T @ z
        return X.T @ z - m * z.sum()

    normal = LinearOperator((d, d), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(
        size=d
    )  # ones would lie in the null space of centred one-hot features
    if not np.any(product(start)):  # ARPACK refuses a zero operator
        return 0.0
    try:
        top = eigsh(
            normal, k=1, which="LA", v0=start, tol=1e-8, return_eigenvectors=False
        )[0]
    except ArpackError as error:
        raise ArithmeticError(
            f"the norm of a {X.shape} design could not be computed: {error}"
        ) from error
    return float(np.sqrt(max(top, 0.0))) * (1.0 + _LANCZOS_MARGIN)


# ---------------------------------------------------------------------- conjugate gradients for many right-hand sides


class ConjugateSolution(NamedTuple):
    """Solution X, its residual (the right-hand side minus the operator at X), and whether all columns are accurate."""

    X: np.ndarray
    residual: np.ndarray
    n_iter: int
    converged: bool


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    *,
    diagonal: np.ndarray | None = None,
    tol: float = 1e-13,
    max_iter: int = 2000,
) -> ConjugateSolution:
    """Solve A X = right, column by column, for a symmetric positive (semi)definite operator.

    Parameters
    ----------
    apply : callable
        Returns A V for V of the shape of `right`.
    right : ndarray of shape (n, k)
        In the range of A; the solution of least norm is returned where there are many
        (without `diagonal`).
    diagonal : ndarray of shape (n,) or (n, k), optional
        Positive numbers near the diagonal of A, to precondition with.
    tol : float, default 1e-13
        Norm of the residual of a column, relative to its right-hand side.
    max_iter : int, default 2000
    """
    X = np.zeros_like(right)
    R = right.copy()
    if diagonal is None:
        scale = None
    else:
        scale = 1.0 / (diagonal[:, None] if diagonal.ndim == 1 else diagonal)
    target = tol * np.linalg.norm(right, axis=0)
    P = np.zeros_like(right)
    before = np.ones(right.shape[1])
    iteration = 0
    open_ = np.linalg.norm(R, axis=0) > target
    while open_.any() and iteration < max_iter:
        iteration += 1
        Z = R if scale is None else scale * R
        product = _columns(R, Z)
        P *= product / before
        P += Z
        image = apply(P)
        curvature = _columns(P, image)
        step = np.divide(
            product,
            curvature,
            out=np.zeros_like(product),
            where=open_ & (curvature > 0),
        )
        X += step * P
        if (
            iteration % 50 == 0
        ):  # the recursion drifts from the true residual by rounding
            R = right - apply(X)
        else:
            image *= step
            R -= image
        before = np.where(product > 0, product, 1.0)
        open_ = np.linalg.norm(R, axis=0) > target
    R = right - apply(X)
    accurate = np.linalg.norm(R, axis=0) <= 10.0 * target
    return ConjugateSolution(X, R, iteration, bool(accurate.all()))


def _columns(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->j", A, B))
