"""Forms of the covariance Theta of coefficients as functions of free parameters x, in units of the data.

Variances are squares of parameters and factors enter as L L': no bounds, and an exact zero can be reached. Zero is then
stationary whatever the derivative in Theta, so a fit must look at that as well (`factored`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Structure(Protocol):
    """What a solver needs of a form of Theta."""

    @property
    def size(self) -> int:
        """Number of entries of x."""
        ...

    @property
    def parameters(self) -> int:
        """Number of free parameters, without rotations of a factor."""
        ...

    def theta(self, x: Array) -> Array:
        """Return Theta, (p, p), or (p,) for a diagonal."""
        ...

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in x from that in Theta."""
        ...


def group_scale(scale: Array, groups: Array) -> Array:
    """Return one unit of variance for every column, the same within a group."""
    mean = np.bincount(groups, 1.0 / scale) / np.bincount(groups)
    return np.asarray(1.0 / mean[groups])


@dataclass(frozen=True)
class Tied:
    """A diagonal with one variance per group of columns.

    Parameters
    ----------
    scale : ndarray of shape (p,)
        Unit of every variance.
    groups : ndarray of int, shape (p,)
        Columns of the same number, from 0, have the same variance.
    """

    scale: Array
    groups: Array

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    parameters = size

    @property
    def unit(self) -> Array:
        """Unit of the variance of every column, the same within a group."""
        return group_scale(self.scale, self.groups)

    def tie(self) -> Array:
        """Return the matrix (p, g) that gives every column the variance of its group."""
        return np.eye(self.size)[self.groups].reshape(len(self.groups), self.size)

    def theta(self, x: Array) -> Array:
        """Return the diagonal."""
        return self.unit * np.square(x)[self.groups]

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in the roots of the variances."""
        return 2 * x * np.bincount(self.groups, G * self.unit, self.size)


@dataclass(frozen=True)
class Full:
    """Any covariance, by a lower triangular factor in units of `scale` (p,)."""

    scale: Array

    @property
    def size(self) -> int:
        """Entries of the factor."""
        return len(self.scale) * (len(self.scale) + 1) // 2

    parameters = size

    def of(self, Theta: Array) -> Array:
        """Return parameters of a covariance, moved off the boundary."""
        root = np.sqrt(self.scale)
        C = (np.diag(Theta) if Theta.ndim == 1 else Theta) / np.outer(root, root)
        C = C + max(1e-4 * np.trace(C) / len(C), 1e-4) * np.eye(len(C))
        return np.linalg.cholesky(C)[np.tril_indices(len(C))]

    def factor(self, x: Array) -> Array:
        """Return L, lower triangular."""
        L = np.zeros((len(self.scale), len(self.scale)))
        L[np.tril_indices(len(L))] = x
        return L

    def theta(self, x: Array) -> Array:
        """Return the covariance."""
        L = np.sqrt(self.scale)[:, None] * self.factor(x)
        return L @ L.T

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in the factor."""
        root = np.sqrt(self.scale)
        return (2 * (root[:, None] * G * root) @ self.factor(x))[np.tril_indices(len(root))]


@dataclass(frozen=True)
class Factor:
    """A few directions in which tasks differ together, beside tied variances: F F' + diagonal."""

    base: Tied
    rank: int

    @property
    def size(self) -> int:
        """Entries of F and of the base."""
        return len(self.base.groups) * self.rank + self.base.size

    @property
    def parameters(self) -> int:
        """Free parameters: F may be rotated."""
        return self.size - self.rank * (self.rank - 1) // 2

    def parts(self, x: Array) -> tuple[Array, Array]:
        """Return F (p, rank) and the roots of the variances."""
        cut = len(self.base.groups) * self.rank
        return x[:cut].reshape(-1, self.rank), x[cut:]

    def theta(self, x: Array) -> Array:
        """Return the covariance."""
        F, roots = self.parts(x)
        F = np.sqrt(self.base.unit)[:, None] * F
        return F @ F.T + np.diag(self.base.theta(roots))

    def chain(self, x: Array, G: Array) -> Array:
        """Return the gradient in F and the roots."""
        F, roots = self.parts(x)
        root = np.sqrt(self.base.unit)
        inner = 2 * (root[:, None] * G * root) @ F
        return np.concatenate([inner.ravel(), self.base.chain(roots, np.diag(G))])
