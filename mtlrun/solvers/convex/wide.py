"""Least squares with a low-rank part and outlier tasks on a wide shared design.

`WideProblem` has the products, the deflated conjugate gradients and the certificate
that `mtlrun.solvers.convex.subspace` needs, in single or double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from mtlrun.problem.taskdata import Array, Design, TaskData
from mtlrun.utils.jit import summing

# Eigenvalues of the Hessian this many times above its mean are deflated, but not more
# than the number below.
_OUTLIER = 4.0
_DEFLATED = 6


@dataclass
class Certificate:
    """Objective, dual value and gradient at a point.

    Attributes
    ----------
    primal, dual : float
    gradient : ndarray of shape (d, T)
        Minus the gradient of the loss.
    columns : ndarray of shape (T,)
        Norms of its columns.
    sigma : ndarray of shape (T,)
        Its singular values, in ascending order.
    right : ndarray of shape (T, T)
        Its singular vectors on the side of the tasks, in the same order.
    """

    primal: float
    dual: float
    gradient: Array
    columns: Array
    sigma: Array
    right: Array


@summing
def _sparse_product(
    indptr: Array,
    indices: Array,
    values: Array,
    B: Array,
    out: Array,
) -> None:
    """Write the product of a CSR matrix and a dense one into `out`.

    Eight entries of a row are multiplied at a time, so that rows stay in cache.
    """
    for i in range(len(indptr) - 1):
        row = out[i]
        row[:] = 0
        p = indptr[i]
        end = indptr[i + 1]
        while p + 8 <= end:
            v0 = values[p]
            v1 = values[p + 1]
            v2 = values[p + 2]
            v3 = values[p + 3]
            v4 = values[p + 4]
            v5 = values[p + 5]
            v6 = values[p + 6]
            v7 = values[p + 7]
            b0 = B[indices[p]]
            b1 = B[indices[p + 1]]
            b2 = B[indices[p + 2]]
            b3 = B[indices[p + 3]]
            b4 = B[indices[p + 4]]
            b5 = B[indices[p + 5]]
            b6 = B[indices[p + 6]]
            b7 = B[indices[p + 7]]
            for k in range(len(row)):
                row[k] += (v0 * b0[k] + v1 * b1[k] + v2 * b2[k] + v3 * b3[k]) + (
                    v4 * b4[k] + v5 * b5[k] + v6 * b6[k] + v7 * b7[k]
                )
            p += 8
        while p < end:
            v0 = values[p]
            b0 = B[indices[p]]
            for k in range(len(row)):
                row[k] += v0 * b0[k]
            p += 1


def column_products(A: Array, B: Array) -> Array:
    """Return the inner products of the columns of two matrices, in double precision.

    Sums over blocks of rows are in the precision of the matrices: the blocks are short
    enough for that, and no copy in double precision is made.
    """
    total = np.zeros(A.shape[1])
    for start in range(0, len(A), 128):
        block = slice(start, start + 128)
        total = total + np.einsum("ij,ij->j", A[block], B[block])
    return total


@dataclass
class WideProblem:
    """Squared loss of weighted and centered rows, in one precision.

    The objective is ``scale/2 ||Y - A W||^2 + ||L||_* + lam ||E||_{1,2}`` with W = L +
    E and ``A = diag(root) (X - 1 mean')``.

    Attributes
    ----------
    A, At : ndarray or csr_array of shape (n, d) and (d, n)
        Weighted design and its transpose, not centered.
    Y : ndarray of shape (n, T)
        Weighted and centered targets.
    root : ndarray of shape (n,)
        Square roots of the weights.
    mean : ndarray of shape (d,) or None
        Mean of the rows; None without intercepts.
    y_mean : ndarray of shape (T,)
    scale, lam : float
    values, vectors : ndarray of shape (k,) and (d, k)
        Eigenvalues of A'A that stand out, and their eigenvectors.
    level : float
        Mean of the other eigenvalues.
    """

    A: Any
    At: Any
    Y: Array
    root: Array
    mean: Array | None
    y_mean: Array
    scale: float
    lam: float
    values: Array = field(default_factory=lambda: np.zeros(0))
    vectors: Array = field(default_factory=lambda: np.zeros((0, 0)))
    level: float = 1.0

    @classmethod
    def of(
        cls,
        data: TaskData,
        scale: float,
        lam: float,
        fit_intercept: bool,
    ) -> WideProblem:
        """Return the problem in double precision."""
        weights = data.row_weights()
        root = np.sqrt(weights)
        mean = None
        y_mean = np.zeros(data.n_tasks)
        # The design is not centered itself: that would fill a sparse one.
        if fit_intercept:
            mean = (data.X.T @ weights) / weights.sum()
            y_mean = (weights @ data.targets) / weights.sum()
        if data.sparse:
            A = sp.csr_array(data.X)
            if data.weights is not None:
                A = sp.csr_array(sp.diags_array(root) @ data.X)
            At = sp.csr_array(A.T)
        else:
            A = data.X
            if data.weights is not None:
                A = root[:, None] * data.X
            At = A.T
        Y = root[:, None] * (data.targets - y_mean)
        return cls(A, At, Y, root, mean, y_mean, scale, lam)._prepared()

    @property
    def dtype(self) -> Any:
        return self.Y.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Features and tasks."""
        return self.A.shape[1], self.Y.shape[1]

    def astype(self, dtype: DTypeLike) -> WideProblem:
        """Return the problem in another precision."""
        A = self.A.astype(dtype)
        At = A.T
        if sp.issparse(A):
            # The transpose of a CSR matrix is CSC: it has a copy in CSR.
            At = self.At.astype(dtype)
        mean = self.mean
        if mean is not None:
            mean = mean.astype(dtype)
        return replace(
            self,
            A=A,
            At=At,
            Y=self.Y.astype(dtype),
            root=self.root.astype(dtype),
            mean=mean,
            vectors=self.vectors.astype(dtype),
        )

    def forward(self, W: Array) -> Array:
        """Return A W."""
        R = _product(self.A, W)
        if self.mean is None:
            return R
        return R - self.root[:, None] * (self.mean @ W)

    def adjoint(self, R: Array) -> Array:
        """Return A'R."""
        Q = _product(self.At, R)
        if self.mean is None:
            return Q
        return Q - self.mean[:, None] * (self.root @ R)

    def hessian(self, W: Array) -> Array:
        """Return A'A W."""
        return self.adjoint(self.forward(W))

    def intercept(self, W: Array) -> Array:
        """Return the best intercepts (T,) for coefficients."""
        if self.mean is None:
            return self.y_mean
        return self.y_mean - self.mean @ W

    def _prepared(self) -> WideProblem:
        """Find the eigenvalues of A'A that stand out, by subspace iteration.

        They need not be accurate: they only precondition.
        """
        d = self.shape[0]
        # Two more vectors than are used: the last ones converge slowly.
        size = min(_DEFLATED + 2, d)
        start = np.random.default_rng(0).normal(size=(d, size))
        Q, _ = np.linalg.qr(start)
        for _ in range(6):
            image = self.hessian(np.ascontiguousarray(Q))
            Q, _ = np.linalg.qr(image)
        Q = np.ascontiguousarray(Q)
        values, V = np.linalg.eigh(Q.T @ self.hessian(Q))
        # The trace of A'A without the means, which A still contains.
        mean_squares = 0.0
        if self.mean is not None:
            mean_square = self.mean @ self.mean
            mean_squares = float(self.root @ self.root * mean_square)
        entries = self.A.data if sp.issparse(self.A) else self.A.ravel()
        trace = float(np.vdot(entries, entries)) - mean_squares
        rank = max(min(self.A.shape), 1)
        level = max(trace, 1e-300) / rank
        # The eigenvalues that stand out depend on the mean of the others, and
        # conversely.
        for _ in range(2):
            out = values > _OUTLIER * level
            out[: max(0, size - _DEFLATED)] = False
            others = trace - float(values[out].sum())
            level = max(others, 1e-12 * max(trace, 1e-300)) / rank
        self.values = values[out]
        self.vectors = np.ascontiguousarray(Q @ V[:, out])
        self.level = level
        return self

    def precondition(self, R: Array, mu: Array) -> Array:
        """Approximate (A'A + mu)^-1 R, up to a factor for each column.

        It is exact if all eigenvalues that do not stand out are equal.
        """
        # (level + mu) (A'A + mu)^-1 is the identity but for the deflated directions.
        factors = (self.level + mu) / (self.values[:, None] + mu) - 1.0
        leading = (self.vectors.T @ R) * factors.astype(self.dtype)
        return R + self.vectors @ leading

    def solve(self, R: Array, mu: Array, steps: int) -> tuple[Array, Array]:
        """Approximate the solution D of (A'A + mu) D = R by conjugate gradients.

        Each column of R has its own mu, of shape (T,). Return D and A'A D.
        """
        narrow = mu.astype(self.dtype)
        residual = R.copy()
        z = self.precondition(residual, mu)
        p = z
        rz = column_products(residual, z)
        D = np.zeros_like(R)
        HD = np.zeros_like(R)
        for i in range(steps):
            Hp = self.hessian(p)
            curve = column_products(p, Hp) + mu * column_products(p, p)
            # Columns whose residual is 0 have a step of 0.
            step = rz / np.maximum(curve, 1e-300)
            a = step.astype(self.dtype)
            D += p * a
            HD += Hp * a
            if i == steps - 1:
                break
            residual -= Hp * a
            residual -= p * (narrow * a)
            z = self.precondition(residual, mu)
            new = column_products(residual, z)
            ratio = new / np.maximum(rz, 1e-300)
            p = z + p * ratio.astype(self.dtype)
            rz = new
        return D, HD

    def certify(self, W: Array, penalty: float) -> Certificate:
        """Return objective and dual value at coefficients with this penalty.

        The dual point is made of the residuals theta. Columns of A'theta are scaled
        down to `lam`. Then its singular values are clipped at 1 on the side of the
        tasks, theta V diag(min(1, 1/sigma)) V', which lets no column grow and only
        changes the directions that are too long.
        """
        # In place: residuals are as large as the targets.
        theta = self.forward(W)
        np.subtract(self.Y, theta, out=theta)
        residual_square = float(column_products(theta, theta).sum())
        primal = 0.5 * self.scale * residual_square + penalty
        theta *= self.scale
        gradient = self.adjoint(theta)
        # The singular values of d x T matrices from T x T ones.
        gram = (gradient.T @ gradient).astype(np.float64)
        columns = np.sqrt(np.maximum(np.diag(gram), 0.0))
        squared, right = np.linalg.eigh(gram)
        sigma = np.sqrt(np.maximum(squared, 0.0))
        c = np.minimum(1.0, self.lam / np.maximum(columns, 1e-300))
        scaled_squared = squared
        V = right
        # Without long columns the decomposition above serves again.
        if not np.all(c == 1.0):
            scaled_squared, V = np.linalg.eigh(gram * c[:, None] * c)
        # A little larger than computed: the dual point stays feasible after rounding.
        rounding = 1.0 + 4 * np.finfo(self.dtype).eps
        lengths = np.sqrt(np.maximum(scaled_squared, 0.0)) * rounding
        is_long = lengths > 1.0
        theta *= c.astype(self.dtype)
        if is_long.any():
            Z = V[:, is_long].astype(self.dtype)
            excess = (1.0 - 1.0 / lengths[is_long]).astype(self.dtype)
            theta -= (theta @ Z) @ (Z * excess).T
        # <theta, Y> - |theta|^2 / (2 scale), task by task.
        squares = column_products(theta, theta) / (2.0 * self.scale)
        dual = column_products(theta, self.Y) - squares
        return Certificate(
            primal=primal,
            dual=max(float(dual.sum()), 0.0),
            gradient=gradient,
            columns=columns,
            sigma=sigma,
            right=right,
        )


def _product(A: Design, B: Array) -> Array:
    """Return A B; sparse products are ours, which are faster for many columns."""
    if not sp.issparse(A):
        return A @ B
    B = np.ascontiguousarray(B)
    out = np.empty((A.shape[0], B.shape[1]), A.dtype)
    _sparse_product(A.indptr, A.indices, A.data, B, out)
    return out
