"""Kernels as objects: linear, polynomial, Gaussian and precomputed.

They can be normalized to k(x, x) = 1.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from mtlrun.errors import suggest
from mtlrun.problem.taskdata import (
    Array,
    Design,
    as_array,
    as_design,
    check_finite,
    is_sparse,
)

# Eigenvalues of a precomputed kernel above minus this times the largest count as
# rounding.
_INDEFINITE = 1e-8


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive semidefinite function of two rows.

    Parameters
    ----------
    normalise : bool, default True
        Use ``k(x, z) / sqrt(k(x, x) k(z, z))`` instead of k(x, z), and 0 where that is
        0 / 0.
    """

    normalise: bool = True

    def __call__(self, X: Design, Z: Design = None) -> Array:
        """Return the kernel of the rows of X and Z, shape (n, m).

        Parameters
        ----------
        X, Z : ndarray or sparse matrix of shape (n, d), (m, d)
        """
        return self.of(InnerProducts(X, Z))

    def of(self, products: InnerProducts) -> Array:
        """Return the kernel of rows, given their scalar products if known.

        Kernels of the same rows share scalar products.
        """
        K = self._raw(products)
        if not self.normalise:
            return K
        left_diagonal = self._diagonal(products.X, products.left)
        left = _inverse_roots(left_diagonal)
        right = left
        if not products.same:
            right_diagonal = self._diagonal(products.Z, products.right)
            right = _inverse_roots(right_diagonal)
        # In place: `_raw` returns a new array.
        K *= left[:, None]
        K *= right
        return K

    @abstractmethod
    def _raw(self, products: InnerProducts) -> Array:
        """Return the kernel before it is normalized, a new array."""

    @abstractmethod
    def _diagonal(self, X: Design, squares: Array) -> Array:
        """Return k(x, x) of all rows from their squared norms, before normalization."""


class InnerProducts:
    """Scalar products of the rows of X and Z, computed when they are first needed.

    Parameters
    ----------
    X, Z : ndarray or sparse matrix of shape (n, d), (m, d)

    Attributes
    ----------
    same : bool
        Whether Z is X.
    left, right : ndarray of shape (n,), (m,)
        Squared norms of the rows.
    """

    def __init__(self, X: Design, Z: Design = None) -> None:
        # Sparse, with duplicate entries summed: norms of rows would take them one by
        # one.
        if is_sparse(X):
            X = as_design(X)
        Z = as_design(Z) if is_sparse(Z) else Z
        self.same = Z is None
        self.X = X
        self.Z = X if Z is None else Z
        self.left = np.asarray(row_norms(X, squared=True))
        if Z is None:
            self.right = self.left
        else:
            self.right = np.asarray(row_norms(Z, squared=True))

    @cached_property
    def inner(self) -> Array:
        """X Z', shape (n, m)."""
        return np.asarray(safe_sparse_dot(self.X, self.Z.T, dense_output=True))

    @cached_property
    def distances(self) -> Array:
        """Squared distances of the rows, shape (n, m)."""
        squares = self.left[:, None] - 2.0 * self.inner + self.right
        # Differences of large numbers: rounding must not make a distance negative, nor
        # the distance of a row from itself positive.
        np.maximum(squares, 0.0, out=squares)
        if self.same:
            np.fill_diagonal(squares, 0.0)
        return squares


def kernel_stack(kernels: Sequence[Kernel], X: Design, Z: Design = None) -> Array:
    """Return the matrices of several kernels, shape (M, n, m)."""
    products = InnerProducts(X, Z)
    n = products.X.shape[0]
    m = products.Z.shape[0]
    stack = np.empty((len(kernels), n, m))
    for k, kernel in enumerate(kernels):
        stack[k] = kernel.of(products)
    return stack


@dataclass(frozen=True)
class LinearKernel(Kernel):
    """k(x, z) = x'z."""

    def _raw(self, products: InnerProducts) -> Array:
        return products.inner.copy()

    def _diagonal(self, X: Design, squares: Array) -> Array:
        return squares


@dataclass(frozen=True)
class PolynomialKernel(LinearKernel):
    """k(x, z) = (x'z + shift)^degree.

    Parameters
    ----------
    degree : int, default 2
    shift : float, default 0.0
        Non-negative. 0 is the homogeneous kernel of the authors' code.

    Raises
    ------
    ValueError
        If degree is below 1 or shift is negative.
    """

    degree: int = 2
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.degree, int | np.integer) and self.degree >= 1):
            raise ValueError(
                f"degree must be an int of at least 1, got {self.degree!r}"
            )
        if not (np.isfinite(self.shift) and self.shift >= 0):
            raise ValueError(
                f"shift must be non-negative and finite, got {self.shift!r}"
            )

    def _raw(self, products: InnerProducts) -> Array:
        return np.asarray((products.inner + self.shift) ** self.degree)

    def _diagonal(self, X: Design, squares: Array) -> Array:
        return np.asarray((squares + self.shift) ** self.degree)


@dataclass(frozen=True)
class GaussianKernel(Kernel):
    """k(x, z) = exp(-||x - z||^2 / (2 spread^2)), which is normalized as it is.

    Parameters
    ----------
    spread : float, default 1.0
        Positive, in the units of the features.

    Raises
    ------
    ValueError
        If spread is not positive.
    """

    spread: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.spread) and self.spread > 0):
            raise ValueError(f"spread must be positive and finite, got {self.spread!r}")

    def _raw(self, products: InnerProducts) -> Array:
        K = products.distances * (-0.5 / self.spread**2)
        return np.asarray(np.exp(K, out=K))

    def _diagonal(self, X: Design, squares: Array) -> Array:
        return np.ones(len(squares))


@dataclass(frozen=True, eq=False)
class PrecomputedKernel(Kernel):
    """A precomputed matrix.

    Rows of X then hold, in one column, the position of the item in the matrix.

    Parameters
    ----------
    matrix : array-like of shape (n_items, n_items)
        Symmetric and positive semidefinite; of training and test items together.
    column : int, default 0
        Column of X with the positions, whole numbers from 0.

    Raises
    ------
    ValueError
        If the matrix is not square, not finite, not symmetric or indefinite.
    """

    matrix: Any = None
    column: int = 0

    def __post_init__(self) -> None:
        K = as_array(self.matrix, "a precomputed kernel", ndim=2)
        if K.shape[0] != K.shape[1]:
            raise ValueError(
                "a precomputed kernel must be square, one row and column per item; got "
                f"shape {K.shape}"
            )
        check_finite(K, "a precomputed kernel")
        scale = np.abs(K).max(initial=0.0)
        if np.abs(K - K.T).max(initial=0.0) > 1e-10 * scale:
            raise ValueError("a precomputed kernel must be symmetric; (K + K.T) / 2 is")
        lowest = float(np.linalg.eigvalsh(K)[0]) if len(K) else 0.0
        if lowest < -_INDEFINITE * max(scale, np.trace(K)):
            raise ValueError(
                "a precomputed kernel must be positive semidefinite, but its smallest "
                f"eigenvalue is {lowest:.3g}; clip the negative eigenvalues, or add "
                "their size to the diagonal"
            )
        # The class is frozen.
        object.__setattr__(self, "matrix", K)

    def __deepcopy__(self, memo: dict[int, Any]) -> PrecomputedKernel:
        # Immutable: clones of an estimator share the matrix.
        return self

    def _raw(self, products: InnerProducts) -> Array:
        left = self._positions(products.X)
        right = self._positions(products.Z)
        return np.array(self.matrix[np.ix_(left, right)])

    def _diagonal(self, X: Design, squares: Array) -> Array:
        diagonal = np.diag(self.matrix)
        return np.asarray(diagonal[self._positions(X)])

    def _positions(self, X: Design) -> Array:
        """Return the positions of the rows of X in the matrix.

        Raises
        ------
        ValueError
            If a value is no position.
        """
        n_items = len(self.matrix)
        values = X[:, [self.column]]
        if hasattr(values, "toarray"):
            values = values.toarray()
        values = np.asarray(values).ravel()
        positions = values.astype(np.intp)
        is_fraction = positions != values
        outside = is_fraction | (positions < 0) | (positions >= n_items)
        if outside.any():
            raise ValueError(
                f"the precomputed kernel has {n_items} items, but column {self.column} "
                f"of X holds {values[outside][0]:g}; it must hold positions "
                f"0..{n_items - 1}"
            )
        return positions


@dataclass(frozen=True)
class MeanKernel(Kernel):
    """Mean of kernels: what equal weights make of them.

    Parameters
    ----------
    kernels : tuple of Kernel, optional
        Default: `default_kernels`.
    """

    kernels: tuple[Kernel, ...] | None = None

    def _raw(self, products: InnerProducts) -> Array:
        members = self.members
        total = sum(kernel.of(products) for kernel in members)
        return np.asarray(total / len(members))

    def _diagonal(self, X: Design, squares: Array) -> Array:
        diagonals = []
        for kernel in self.members:
            diagonal = kernel._diagonal(X, squares)
            if kernel.normalise:
                # After normalization k(x, x) is 1, or 0 where it was 0.
                diagonal = (diagonal > 0).astype(float)
            diagonals.append(diagonal)
        return np.asarray(sum(diagonals) / len(diagonals))

    @property
    def members(self) -> tuple[Kernel, ...]:
        """The kernels that are averaged."""
        if self.kernels is None:
            return tuple(default_kernels())
        return self.kernels


#: Kernels by name, with the parameter that may stand in brackets.
_FAMILIES: dict[str, tuple[Callable[..., Kernel], str | None]] = {
    "linear": (LinearKernel, None),
    "polynomial": (PolynomialKernel, "degree"),
    "gaussian": (GaussianKernel, "spread"),
    "mean": (MeanKernel, None),
}
_SPEC = re.compile(
    r"\s*(\w+)\s*(?:\(\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*\))?\s*"
)


def make_kernel(spec: str | Kernel) -> Kernel:
    """Return a normalized kernel by name.

    Names are ``linear``, ``polynomial``, ``polynomial(3)``, ``gaussian(0.5)`` and
    ``mean``.

    Raises
    ------
    ValueError
        For another name, with the nearest one, or a parameter out of range.
    """
    if isinstance(spec, Kernel):
        return spec
    # A name, and the number in brackets if there is one.
    name: Any = spec
    argument = None
    family = None
    parameter = None
    if isinstance(spec, str) and (match := _SPEC.fullmatch(spec)):
        name = match[1]
        argument = match[2]
        family, parameter = _FAMILIES.get(name, (None, None))
    has_surplus_argument = argument is not None and parameter is None
    if family is None or has_surplus_argument:
        near = []
        if isinstance(name, str):
            near = suggest(name, _FAMILIES, n=1)
        hint = ""
        if near and near[0] != name:
            hint = f"; did you mean {near[0]!r}?"
        raise ValueError(
            "a kernel must be 'linear', 'polynomial(degree)', 'gaussian(spread)', "
            f"'mean' or a Kernel, got {spec!r}{hint}"
        )
    if argument is None or parameter is None:
        return family()
    value: float = float(argument)
    # A degree that is no whole number is refused by the kernel, with a message.
    if parameter == "degree" and value.is_integer():
        value = int(value)
    return family(**{parameter: value})


def make_kernels(specs: Iterable[str | Kernel] | None) -> list[Kernel]:
    """Return kernels from names or objects; None stands for `default_kernels`.

    Raises
    ------
    ValueError
        If there is none, or for what `make_kernel` refuses.
    """
    if specs is None:
        return default_kernels()
    if isinstance(specs, str | Kernel):
        specs = [specs]
    kernels = [make_kernel(spec) for spec in specs]
    if not kernels:
        raise ValueError(
            "kernels is empty; give at least one, or None for the default set of ten"
        )
    return kernels


def default_kernels() -> list[Kernel]:
    """Return the ten kernels of Yousefi et al.

    They are linear, polynomial of degree 2, and Gaussian with spreads 1, 2, 4, ...,
    128.
    """
    return [
        LinearKernel(),
        PolynomialKernel(degree=2),
        *(GaussianKernel(spread=2.0**k) for k in range(8)),
    ]


def _inverse_roots(diagonal: Array) -> Array:
    """Return 1 / sqrt(k(x, x)), and 0 where k(x, x) is not positive."""
    positive = diagonal > 0
    safe = np.where(positive, diagonal, 1.0)
    return np.where(positive, 1.0 / np.sqrt(safe), 0.0)
