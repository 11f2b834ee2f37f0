"""Squared loss on a wide shared design for `subspace`: products in one precision, deflation, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtlrun.problem.taskdata import TaskData
from mtlrun.utils.jit import summing

Array = np.ndarray[Any, np.dtype[Any]]

# Eigenvalues of the Hessian that many times above its mean are deflated, at most so many.
_OUTLIER, _DEFLATED = 4.0, 6


@dataclass
class Certificate:
    """Objective and dual value at a point, minus the gradient of the loss, the norms of its columns, and its singular
    values with the vectors on the side of the tasks, in ascending order."""

    primal: float
    dual: float
    gradient: Array
    columns: Array
    sigma: Array
    right: Array


@summing
def _sparse_product(indptr: Array, indices: Array, values: Array, B: Array, out: Array) -> None:
    """Write a CSR matrix times a dense one into `out`; eight entries of a row at a time, so that rows stay in cache."""
    for i in range(len(indptr) - 1):
        row = out[i]
        row[:] = 0
        p, end = indptr[i], indptr[i + 1]
        while p + 8 <= end:
            v0, v1, v2, v3 = values[p], values[p + 1], values[p + 2], values[p + 3]
            v4, v5, v6, v7 = values[p + 4], values[p + 5], values[p + 6], values[p + 7]
            b0, b1, b2, b3 = B[indices[p]], B[indices[p + 1]], B[indices[p + 2]], B[indices[p + 3]]
            b4, b5, b6, b7 = B[indices[p + 4]], B[indices[p + 5]], B[indices[p + 6]], B[indices[p + 7]]
            for k in range(len(row)):
                row[k] += (v0 * b0[k] + v1 * b1[k] + v2 * b2[k] + v3 * b3[k]) + (
                    v4 * b4[k] + v5 * b5[k] + v6 * b6[k] + v7 * b7[k]
                )
            p += 8
        while p < end:
            v0, b0 = values[p], B[indices[p]]
            for k in range(len(row)):
                row[k] += v0 * b0[k]
            p += 1


def column_products(A: Array, B: Array) -> Array:
    """Return the inner products of the columns of two matrices; blocks of rows are added in double precision."""
    blocks = (slice(i, i + 128) for i in range(0, len(A), 128))
    return sum((np.einsum("ij,ij->j", A[block], B[block]) for block in blocks), np.zeros(A.shape[1]))


@dataclass
class WideProblem:
    """Squared loss with rows weighted and centred, in one precision: ``scale/2 ||Y - A W||^2 + ||L||_* + lam ||E||``.

    ``A = diag(root) (X - 1 mean')``; `mean` is None without intercepts. `vectors` are eigenvectors of A'A with the
    largest eigenvalues, `level` the mean of the others.
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
    def of(cls, data: TaskData, scale: float, lam: float, fit_intercept: bool) -> WideProblem:
        """Return the problem in double precision."""
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        root = np.sqrt(weights)
        mean, y_mean = None, np.zeros(data.n_tasks)
        if fit_intercept:
            mean, y_mean = (data.X.T @ weights) / weights.sum(), (weights @ data.targets) / weights.sum()
        plain = data.weights is None
        if data.sparse:
            A = sp.csr_array(data.X) if plain else sp.csr_array(sp.diags_array(root) @ data.X)
            At = sp.csr_array(A.T)
        else:
            A = data.X if plain else root[:, None] * data.X
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

    def astype(self, dtype: Any) -> WideProblem:
        """Return the problem in another precision."""
        A = self.A.astype(dtype)
        mean = None if self.mean is None else self.mean.astype(dtype)
        At = self.At.astype(dtype) if sp.issparse(A) else A.T
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
        return R if self.mean is None else R - self.root[:, None] * (self.mean @ W)

    def adjoint(self, R: Array) -> Array:
        """Return A'R."""
        Q = _product(self.At, R)
        return Q if self.mean is None else Q - self.mean[:, None] * (self.root @ R)

    def hessian(self, W: Array) -> Array:
        """Return A'A W."""
        return self.adjoint(self.forward(W))

    def intercept(self, W: Array) -> Array:
        """Return the best intercepts (T,) for coefficients."""
        return self.y_mean if self.mean is None else self.y_mean - self.mean @ W

    def _prepared(self) -> WideProblem:
        """Find the eigenvalues of A'A that stand out, by subspace iteration."""
        d = self.shape[0]
        size = min(_DEFLATED + 2, d)
        Q = np.linalg.qr(np.random.default_rng(0).normal(size=(d, size)))[0]
        for _ in range(6):
            Q = np.linalg.qr(self.hessian(np.ascontiguousarray(Q)))[0]
        Q = np.ascontiguousarray(Q)
        values, V = np.linalg.eigh(Q.T @ self.hessian(Q))
        trace = _squares(self.A) - (
            0.0 if self.mean is None else float(self.root @ self.root * (self.mean @ self.mean))
        )
        level = max(trace, 1e-300) / max(min(self.A.shape), 1)
        for _ in range(2):  # the mean of the others
            out = values > _OUTLIER * level
            out[: max(0, size - _DEFLATED)] = False
            level = max(trace - float(values[out].sum()), 1e-12 * max(trace, 1e-300)) / max(min(self.A.shape), 1)
        self.values, self.vectors, self.level = values[out], np.ascontiguousarray(Q @ V[:, out]), level
        return self

    def precondition(self, R: Array, mu: Array) -> Array:
        """Return (A'A + mu)^-1 R, but for a factor by column, if all eigenvalues that do not stand out were equal."""
        factors = (self.level + mu) / (self.values[:, None] + mu) - 1.0
        return R + self.vectors @ ((self.vectors.T @ R) * factors.astype(self.dtype))

    def solve(self, R: Array, mu: Array, steps: int) -> tuple[Array, Array]:
        """Return conjugate gradient iterates D of (A'A + mu) D = R, column by column, and A'A D."""
        narrow = mu.astype(self.dtype)
        residual = R.copy()
        z = self.precondition(residual, mu)
        p, rz = z, column_products(residual, z)
        D, HD = np.zeros_like(R), np.zeros_like(R)
        for i in range(steps):
            Hp = self.hessian(p)
            curve = column_products(p, Hp) + mu * column_products(p, p)
            a = (rz / np.maximum(curve, 1e-300)).astype(self.dtype)
            D += p * a
            HD += Hp * a
            if i == steps - 1:
                break
            residual -= Hp * a
            residual -= p * (narrow * a)
            z = self.precondition(residual, mu)
            new = column_products(residual, z)
            p = z + p * (new / np.maximum(rz, 1e-300)).astype(self.dtype)
            rz = new
        return D, HD

    def certify(self, W: Array, penalty: float) -> Certificate:
        """Return the objective at coefficients with this penalty, and the dual value of the residuals made feasible.

        Columns of X'theta are scaled down to `lam`; then its singular values are clipped at 1 on the side of the tasks,
        theta V diag(min(1, 1/sigma)) V', which lets no column grow and only changes the directions that are too long.
        """
        theta = self.forward(W)
        np.subtract(self.Y, theta, out=theta)
        primal = 0.5 * self.scale * float(column_products(theta, theta).sum()) + penalty
        theta *= self.scale
        gradient = self.adjoint(theta)
        gram = (gradient.T @ gradient).astype(np.float64)
        columns = np.sqrt(np.maximum(np.diag(gram), 0.0))
        squared, right = np.linalg.eigh(gram)
        sigma = np.sqrt(np.maximum(squared, 0.0))
        c = np.minimum(1.0, self.lam / np.maximum(columns, 1e-300))
        capped, V = (squared, right) if np.all(c == 1.0) else np.linalg.eigh(gram * c[:, None] * c)
        capped = np.sqrt(np.maximum(capped, 0.0)) * (1.0 + 4 * np.finfo(self.dtype).eps)
        long = capped > 1.0
        theta *= c.astype(self.dtype)
        if long.any():
            Z = V[:, long].astype(self.dtype)
            theta -= (theta @ Z) @ (Z * (1.0 - 1.0 / capped[long]).astype(self.dtype)).T
        value = column_products(theta, self.Y) - column_products(theta, theta) / (2.0 * self.scale)
        return Certificate(primal, max(float(value.sum()), 0.0), gradient, columns, sigma, right)


def _product(A: Any, B: Array) -> Array:
    if not sp.issparse(A):
        return A @ B
    B = np.ascontiguousarray(B)
    out = np.empty((A.shape[0], B.shape[1]), A.dtype)
    _sparse_product(A.indptr, A.indices, A.data, B, out)
    return out


def _squares(A: Any) -> float:
    values = A.data if sp.issparse(A) else A.ravel()
    return float(np.vdot(values, values))
