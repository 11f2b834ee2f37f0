"""Blocks of the covariance of a smooth model: the rows of single tasks.

Within task t the covariance in units of s2, without the common parts, is::

    B_t = W_t^-1 + sum over own parts k of theta_k K_kt,   W the weights of the rows

`KernelBlock` holds the matrices K_kt of tasks of about the same size, padded by rows of
zeros, which change nothing. `FeatureBlock` holds one task with many rows through
features, K_kt = F_k F_k', so that after one pass over its rows an evaluation costs q^3
for q features (Woodbury's identity).

Notation: C = [A 1 y] are the rows of a block: common features, a column of ones, and
the target. Every vector of interest is B^-1 C times a matrix of coefficients that is
the same for all blocks: U with B^-1 - U U' = P, and a = P y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.linalg.lapack import dpotri, dtrtri

from mtlrun.solvers.hierarchical.smooth_parts import SmoothDesign, SmoothRows

Array = np.ndarray

#: Tasks with more rows have features in place of exact kernels.
MAX_EXACT_ROWS = 400
#: Bytes of blocks that are kept between evaluations; beyond, they are made again.
MAX_KEPT_BYTES = 1 << 30
#: Inverses of larger matrices are made of Cholesky factors, one by one.
MIN_LAPACK_ROWS = 64
#: Bytes of one block of many small tasks.
MAX_BLOCK_BYTES = 1 << 26
#: Columns of products that are computed together where half of a product is enough.
STRIP_COLUMNS = 64


@dataclass(frozen=True)
class OwnSums:
    """Sums over the tasks of a block for the derivatives in theta of K own parts.

    Attributes
    ----------
    traces : ndarray of shape (K,)
        tr(K_k P).
    squares : ndarray of shape (K,)
        a' K_k a.
    """

    traces: Array
    squares: Array

    def __add__(self, other: OwnSums) -> OwnSums:
        return OwnSums(self.traces + other.traces, self.squares + other.squares)


@dataclass(frozen=True)
class CurvatureSums:
    """Sums over the tasks of a block that the second derivatives in theta need.

    K is the number of requested own parts, r the number of columns of U, and
    c the number of requested common features.

    Attributes
    ----------
    pairs : ndarray of shape (K, K)
        tr(B^-1 K_k B^-1 K_l) - 2 tr(U' K_k B^-1 K_l U).
    inner : ndarray of shape (K, r, r)
        U' K_k U.
    common : ndarray of shape (K, c)
        Diagonal of (P A)' K_k P A.
    products : ndarray of shape (K, K)
        a' K_k B^-1 K_l a.
    images : ndarray of shape (m + 1, K)
        [A 1]' B^-1 K_k a.
    """

    pairs: Array
    inner: Array
    common: Array
    products: Array
    images: Array

    def __add__(self, other: CurvatureSums) -> CurvatureSums:
        return CurvatureSums(
            self.pairs + other.pairs,
            self.inner + other.inner,
            self.common + other.common,
            self.products + other.products,
            self.images + other.images,
        )


def product_without_zeros(left: Array, right: Array) -> Array:
    """Return left @ right for a matrix `right` with zeros, as in a triangular one.

    Strips of columns leave out the rows above the first and below the last nonzero.
    """
    is_nonzero = right != 0
    support = np.flatnonzero(is_nonzero.any(axis=1))
    n_columns = right.shape[1]
    if not len(support):
        return np.zeros((*left.shape[:-1], n_columns))
    # One product of matrices is faster than one per task.
    flat = left.reshape(-1, left.shape[-1])
    if support[-1] - support[0] >= len(support):
        flat = flat.take(support, axis=1)
        right = right[support]
        is_nonzero = is_nonzero[support]
    product = np.empty((len(flat), n_columns))
    for start in range(0, n_columns, STRIP_COLUMNS):
        stop = start + STRIP_COLUMNS
        rows = np.flatnonzero(is_nonzero[:, start:stop].any(axis=1))
        part = slice(0, 0)
        if len(rows):
            part = slice(rows[0], rows[-1] + 1)
        np.matmul(flat[:, part], right[part, start:stop], out=product[:, start:stop])
    return product.reshape(*left.shape[:-1], n_columns)


def symmetric_product(left: Array, right: Array) -> Array:
    """Return left' right, (m, m), where it is symmetric: about half of the work."""
    m = left.shape[1]
    product = np.empty((m, m))
    for start in range(0, m, STRIP_COLUMNS):
        stop = min(start + STRIP_COLUMNS, m)
        np.matmul(
            left[:, start:stop].T, right[:, :stop], out=product[start:stop, :stop]
        )
        product[:start, start:stop] = product[start:stop, :start].T
    return product


def inverse_of_factors(factors: Array, matrices: Array) -> Array:
    """Return the inverses of matrices (b, n, n) with Cholesky factors L, lower."""
    n = factors.shape[1]
    if n < MIN_LAPACK_ROWS:
        return np.asarray(np.linalg.inv(matrices))
    inverses = np.empty(factors.shape)
    diagonal = np.arange(n)
    for position, factor in enumerate(factors):
        # LAPACK reads L' without a copy, and returns the upper half of the inverse. The
        # lower half stays zero, as in L'.
        upper, _ = dpotri(factor.T, lower=False)
        inverses[position] = upper + upper.T
        inverses[position, diagonal, diagonal] = upper[diagonal, diagonal]
    return inverses


def _sum_of_products(left: Array, right: Array) -> Array:
    """Return the sum over tasks of left' right, (r, r), where it is symmetric."""
    # The rows of all tasks in one matrix: one product instead of b of them.
    left_rows = left.reshape(-1, left.shape[2])
    right_rows = right.reshape(-1, right.shape[2])
    return symmetric_product(left_rows, right_rows)


@dataclass
class KernelBlock:
    """Tasks of about the same number of rows, with exact kernels.

    Attributes
    ----------
    tasks : ndarray of int, shape (b,)
        Positions of the tasks.
    index : ndarray of int, shape (b, n)
        Position of each row in the arrays of the model; -1 for padding.
    kernels : ndarray of shape (K, b, n, n)
    rows : ndarray of shape (b, n, m + 2)
        C = [A 1 y].
    noise : ndarray of shape (b, n)
        Variance of the noise in units of s2; 1 for padding.
    roots : tuple of length K
        F_k (b, n, q) with K_k = F_k F_k' for kernels of low rank, None for others.
    """

    tasks: Array
    index: Array
    kernels: Array
    rows: Array
    noise: Array
    roots: tuple[Array | None, ...]
    inverse: Array = field(init=False, repr=False)
    solved: Array = field(init=False, repr=False)

    def factorize(
        self,
        theta: Array,
        columns: Array | None = None,
        is_used: Array | None = None,
    ) -> tuple[float, Array]:
        """Set B^-1 and B^-1 C for theta (K,); return log|B| and C' B^-1 C.

        With `columns` C has only these columns, here and in what is computed later.
        Parts that are not used make no difference here.
        """
        B = np.tensordot(theta, self.kernels, 1)
        diagonal = np.arange(B.shape[1])
        B[:, diagonal, diagonal] += self.noise
        factor = np.linalg.cholesky(B)
        pivots = np.diagonal(factor, axis1=1, axis2=2)
        logdet = 2 * np.log(pivots).sum()
        self.inverse = inverse_of_factors(factor, B)
        rows = self.rows
        if columns is not None:
            rows = rows[:, :, columns]
        self.solved = self.inverse @ rows
        flat = rows.reshape(-1, rows.shape[2])
        products = symmetric_product(flat, self.solved.reshape(flat.shape))
        return float(logdet), products

    def own_sums(self, U: Array, a: Array) -> OwnSums:
        """Return the sums for the gradient.

        U (m + 2, r) and a (m + 2,) are coefficients of B^-1 C.
        """
        u = product_without_zeros(self.solved, U)
        P = self.inverse - u @ u.transpose(0, 2, 1)
        v = self.solved @ a
        n_parts = len(self.kernels)
        # tr(K P) is the sum of the products of all entries: K and P are symmetric.
        flat_kernels = self.kernels.reshape(n_parts, -1)
        traces = flat_kernels @ P.reshape(-1)
        images = np.matmul(self.kernels, v[:, :, None])
        squares = images.reshape(n_parts, -1) @ v.reshape(-1)
        return OwnSums(traces, squares)

    def curvature_sums(
        self,
        U: Array,
        PA: Array,
        a: Array,
        parts: Array,
    ) -> CurvatureSums:
        """Return the sums for second derivatives of some own parts.

        PA (m + 2, c) are coefficients of P A for c common features; `parts` are
        positions of own parts.
        """
        u = product_without_zeros(self.solved, U)
        projected = product_without_zeros(self.solved, PA)
        kernels = self.kernels[parts]
        v = self.solved @ a
        images = np.matmul(kernels, v[:, :, None])[:, :, :, 0]
        solved_images = np.matmul(self.inverse, images[..., None])[..., 0]
        n_parts = len(parts)
        rank = U.shape[1]
        shape = (n_parts, *u.shape)
        solved_kernels = np.empty(kernels.shape)
        kernel_u = np.empty(shape)
        solved_u = np.empty(shape)
        inner = np.empty((n_parts, rank, rank))
        common = np.empty((n_parts, PA.shape[1]))
        for k, part in enumerate(parts):
            root = self.roots[part]
            if root is None:
                kernel = kernels[k]
                solved_kernels[k] = self.inverse @ kernel
                kernel_u[k] = kernel @ u
                solved_u[k] = self.inverse @ kernel_u[k]
                inner[k] = _sum_of_products(u, kernel_u[k])
                image = kernel @ projected
                image *= projected
                common[k] = image.sum(axis=(0, 1))
                continue
            # K = F F': products with F have q columns instead of n.
            transposed = root.transpose(0, 2, 1)
            solved_root = self.inverse @ root
            root_u = transposed @ u
            solved_kernels[k] = solved_root @ transposed
            kernel_u[k] = root @ root_u
            solved_u[k] = solved_root @ root_u
            inner[k] = _sum_of_products(root_u, root_u)
            images_of_common = transposed @ projected
            common[k] = np.square(images_of_common).sum(axis=(0, 1))
        # tr(X Y) is the sum of the products of the entries of X and Y'.
        mirrored = np.ascontiguousarray(solved_kernels.swapaxes(2, 3))
        flat_kernels = solved_kernels.reshape(n_parts, -1)
        flat_mirrored = mirrored.reshape(n_parts, -1)
        pairs = flat_kernels @ flat_mirrored.T
        flat_kernel_u = kernel_u.reshape(n_parts, -1)
        flat_solved_u = solved_u.reshape(n_parts, -1)
        pairs -= 2 * flat_kernel_u @ flat_solved_u.T
        flat_images = images.reshape(n_parts, -1)
        flat_solved_images = solved_images.reshape(n_parts, -1)
        products = flat_images @ flat_solved_images.T
        flat_solved = self.solved.reshape(-1, self.solved.shape[2])
        linear = (flat_images @ flat_solved[:, :-1]).T
        return CurvatureSums(
            pairs=pairs,
            inner=inner,
            common=common,
            products=products,
            images=linear,
        )

    def applied(self, coefficients: Array) -> Array:
        """Return B^-1 C coefficients for the rows that are not padding."""
        values = self.solved @ coefficients
        return np.asarray(values[self.is_row])

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of B^-1 for the rows that are not padding."""
        diagonals = np.diagonal(self.inverse, axis1=1, axis2=2)
        return np.asarray(diagonals[self.is_row])

    def own_bilinear(self, left: Array, right: Array) -> Array:
        """Return left' K_k right for every own part and values of the rows."""
        x = self._padded(left)
        y = self._padded(right)
        products = np.einsum("bi,kbij,bj->k", x, self.kernels, y, optimize=True)
        return np.asarray(products)

    def solve(self, values: Array) -> Array:
        """Return B^-1 values for values of the rows of the block, (n_rows,)."""
        x = self._padded(values)
        solved = self.inverse @ x[:, :, None]
        return np.asarray(solved[:, :, 0][self.is_row])

    def image(self, values: Array) -> Array:
        """Return C' B^-1 values, (m + 2,)."""
        solved = self.solved[self.is_row]
        return np.asarray(solved.T @ values)

    def _padded(self, values: Array) -> Array:
        """Return values of the rows as (b, n), with zeros for padding."""
        padded = np.zeros(self.index.shape)
        padded[self.is_row] = values
        return padded

    @property
    def common_features(self) -> Array:
        """A for the rows that are not padding, (n_rows, m)."""
        rows = self.rows[self.is_row]
        return np.asarray(rows[:, :-2])

    def set_target(self, target: Array, noise: Array) -> None:
        """Replace target and noise, arrays over all rows of the model."""
        self.rows[self.is_row, -1] = target[self.positions]
        self.noise[self.is_row] = noise[self.positions]

    @property
    def is_row(self) -> Array:
        """Whether a place holds a row and not padding, (b, n)."""
        return self.index >= 0

    @property
    def positions(self) -> Array:
        """Positions of the rows of the block in the arrays of the model."""
        return np.asarray(self.index[self.is_row])


@dataclass
class FeatureBlock:
    """One task with many rows, through features of its own parts.

    Without own parts the rows may belong to several tasks.

    Attributes
    ----------
    tasks : ndarray of int, shape (b,)
    positions : ndarray of int, shape (n,)
        Position of each row in the arrays of the model.
    features : ndarray of shape (n, q)
    groups : ndarray of int, shape (q,)
        Own part of each feature.
    n_parts : int
        Number K of own parts.
    rows : ndarray of shape (n, m + 2)
        C = [A 1 y].
    noise : ndarray of shape (n,)
    """

    tasks: Array
    positions: Array
    features: Array
    groups: Array
    n_parts: int
    rows: Array
    noise: Array
    gram: Array = field(init=False, repr=False)
    #: [F C]' B^-1 [F C].
    solved_gram: Array = field(init=False, repr=False)
    #: L^-1 S with L L' = I + S F'WF S, S the roots of theta of the features that were
    #: used. Features of parts without variance have columns of zeros and no rows.
    root: Array = field(init=False, repr=False)
    #: Columns of C, and own features, that the last factorization used.
    columns: Array = field(init=False, repr=False)
    used: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.columns = np.arange(self.rows.shape[1])
        self.used = np.arange(self.features.shape[1])
        self._sum_products()

    def _sum_products(self) -> None:
        joint = np.hstack([self.features, self.rows])
        weighted = joint / self.noise[:, None]
        self.gram = joint.T @ weighted

    def factorize(
        self,
        theta: Array,
        columns: Array | None = None,
        is_used: Array | None = None,
    ) -> tuple[float, Array]:
        """Set [F C]' B^-1 [F C] for theta (K,); return log|B| and C' B^-1 C.

        With `columns` C has only these columns, and with `is_used` F has only the
        features of these parts, here and in what is computed later. Parts that are not
        used must have a variance of zero.
        """
        n_features = self.features.shape[1]
        self.used = np.arange(n_features)
        if is_used is not None:
            self.used = np.flatnonzero(is_used[self.groups])
        self.columns = np.arange(self.rows.shape[1])
        if columns is not None:
            self.columns = columns
        gram = self.gram
        kept = np.concatenate([self.used, n_features + self.columns])
        if len(kept) < len(gram):
            gram = gram[np.ix_(kept, kept)]
        q = len(self.used)
        roots = np.sqrt(theta)
        scale = roots[self.used_groups]
        # Features of parts whose variance is zero have no share in B.
        active = np.flatnonzero(scale > 0)
        n_active = len(active)
        self.root = np.zeros((n_active, q))
        self.solved_gram = gram
        logdet = float(np.log(self.noise).sum())
        if n_active:
            # Woodbury: B^-1 = W - W F S M^-1 S F'W for M = I + S F'WF S, W = 1 / noise.
            s = scale[active]
            M = s[:, None] * gram[np.ix_(active, active)] * s
            M[np.diag_indices(n_active)] += 1.0
            factor = np.linalg.cholesky(M)
            inverse, _ = dtrtri(factor, lower=True)
            self.root[:, active] = inverse * s
            half = self.root[:, active] @ gram[active]
            self.solved_gram = gram - half.T @ half
            pivots = np.diag(factor)
            logdet += 2 * float(np.log(pivots).sum())
        return logdet, self.solved_gram[q:, q:]

    def _sum_by_part(self, values: Array, groups: Array) -> Array:
        """Return sums of values (q, ...) over the features of each part, (K, ...)."""
        out = np.zeros((self.n_parts, *values.shape[1:]))
        np.add.at(out, groups, values)
        return out

    @property
    def used_groups(self) -> Array:
        """Own part of each feature that the last factorization used."""
        return np.asarray(self.groups[self.used])

    def own_sums(self, U: Array, a: Array) -> OwnSums:
        """Return the sums for the gradient (see `KernelBlock.own_sums`).

        Those of parts that the last factorization left out are NaN.
        """
        q = len(self.used)
        groups = self.used_groups
        mixed = self.solved_gram[:q, q:]
        u = mixed @ U
        v = mixed @ a
        # The diagonal of F' P F.
        diagonal = np.diag(self.solved_gram)[:q] - np.square(u).sum(axis=1)
        traces = self._sum_by_part(diagonal, groups)
        squares = self._sum_by_part(np.square(v), groups)
        is_left_out = np.zeros(self.n_parts, dtype=bool)
        is_left_out[self.groups] = True
        is_left_out[groups] = False
        traces[is_left_out] = np.nan
        return OwnSums(traces, squares)

    def curvature_sums(
        self,
        U: Array,
        PA: Array,
        a: Array,
        parts: Array,
    ) -> CurvatureSums:
        """Return the sums for second derivatives (see `KernelBlock.curvature_sums`)."""
        q = len(self.used)
        groups = self.used_groups
        inside = self.solved_gram[:q, :q]
        mixed = self.solved_gram[:q, q:]
        u = mixed @ U
        v = mixed @ a
        columns = [np.flatnonzero(groups == part) for part in parts]
        n_parts = len(columns)
        rank = U.shape[1]
        inner = np.array([u[part].T @ u[part] for part in columns])
        inner = inner.reshape(n_parts, rank, rank)
        pairs = np.empty((n_parts, n_parts))
        products = np.empty((n_parts, n_parts))
        for k, left in enumerate(columns):
            for j, right in enumerate(columns):
                # F_k' B^-1 F_l, of which the sum of squares is needed.
                between = inside[np.ix_(left, right)]
                image = between @ u[right]
                crossed = (u[left] * image).sum()
                pairs[k, j] = np.square(between).sum() - 2 * crossed
                products[k, j] = v[left] @ between @ v[right]
        common_squares = np.square(mixed @ PA)
        common = self._sum_by_part(common_squares, groups)
        linear = self._sum_by_part(mixed[:, :-1] * v[:, None], groups)
        return CurvatureSums(
            pairs=pairs,
            inner=inner,
            common=common[parts],
            products=products,
            images=linear[parts].T,
        )

    def applied(self, coefficients: Array) -> Array:
        """Return B^-1 C coefficients for the rows, (n, ...)."""
        values = self.rows[:, self.columns] @ coefficients
        return self.solve(values)

    def solve(self, values: Array) -> Array:
        """Return B^-1 values, values of shape (n, ...)."""
        # A column that broadcasts against values of any number of dimensions.
        n_others = values.ndim - 1
        noise = self.noise.reshape(-1, *np.ones(n_others, dtype=int))
        weighted = values / noise
        features = self.used_features
        half = self.root @ (features.T @ weighted)
        inner = self.root.T @ half
        return np.asarray(weighted - (features @ inner) / noise)

    @property
    def used_features(self) -> Array:
        """Own features that the last factorization used."""
        if len(self.used) == self.features.shape[1]:
            return self.features
        return np.asarray(self.features[:, self.used])

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of B^-1."""
        half = (self.used_features @ self.root.T) / self.noise[:, None]
        squares = np.square(half).sum(axis=1)
        return np.asarray(1 / self.noise - squares)

    def own_bilinear(self, left: Array, right: Array) -> Array:
        """Return left' K_k right for every own part."""
        left_products = self.features.T @ left
        right_products = self.features.T @ right
        return self._sum_by_part(left_products * right_products, self.groups)

    def image(self, values: Array) -> Array:
        """Return C' B^-1 values, (m + 2,)."""
        rows = self.rows[:, self.columns]
        return np.asarray(rows.T @ self.solve(values))

    @property
    def common_features(self) -> Array:
        """A for the rows, (n, m)."""
        return self.rows[:, :-2]

    def set_target(self, target: Array, noise: Array) -> None:
        """Replace target and noise, arrays over all rows of the model."""
        self.rows[:, -1] = target[self.positions]
        self.noise = noise[self.positions]
        self._sum_products()


Block = KernelBlock | FeatureBlock


@dataclass(frozen=True)
class SmoothData:
    """Rows of all tasks with targets.

    Attributes
    ----------
    design : SmoothDesign
    rows : SmoothRows of n rows
    codes : ndarray of int, shape (n,)
        Position of the task of each row, in ascending order.
    target : ndarray of shape (n,)
    noise : ndarray of shape (n,)
        Variance of the noise of each row in units of s2.
    """

    design: SmoothDesign
    rows: SmoothRows
    codes: Array
    target: Array
    noise: Array

    def take(self, index: Array) -> SmoothData:
        """Return some of the rows, tasks numbered anew."""
        _, codes = np.unique(self.codes[index], return_inverse=True)
        return SmoothData(
            self.design,
            self.rows.take(index),
            codes,
            self.target[index],
            self.noise[index],
        )

    def select_parts(self, is_used: Array) -> SmoothData:
        """Return all rows with some of the parts of the model."""
        return replace(self, design=self.design.select(is_used))

    @property
    def sizes(self) -> Array:
        """Number of rows of each task, (T,)."""
        return np.bincount(self.codes)


class BlockList:
    """The blocks of all tasks, made again at every pass if they take too much memory.

    Parameters
    ----------
    data : SmoothData
    """

    def __init__(self, data: SmoothData) -> None:
        self.data = data
        ends = np.cumsum(data.sizes)
        self.starts = np.concatenate([[0], ends])
        n_columns = int(data.design.groups.size) + 2
        self._makers = self._plan(n_columns)
        # Per row: C and B^-1 C, and a row of each kernel and of B^-1.
        sizes = np.minimum(data.sizes, MAX_EXACT_ROWS).astype(float)
        n_matrices = len(data.design.own) + 1
        per_row = 2 * n_columns + n_matrices * sizes
        self.n_bytes = 8.0 * float(data.sizes @ per_row)
        self._kept: list[Block] | None = None

    def _plan(self, n_columns: int) -> list[Callable[[], Block]]:
        """Return functions that make the blocks: tasks of similar sizes together."""
        sizes = self.data.sizes
        makers: list[Callable[[], Block]] = []
        if not len(self.data.design.own):
            # Without own parts B is the noise: sums of products say everything, and
            # the rows of all tasks share them. Blocks have at least as many rows as
            # columns, so that the products take no more memory than the rows.
            n_rows = len(self.data.codes)
            step = max(n_columns, MAX_BLOCK_BYTES // (8 * n_columns))
            for start in range(0, n_rows, step):
                stop = min(start + step, n_rows)
                makers.append(partial(self._feature_block, start, stop))
            return makers
        is_large = sizes > MAX_EXACT_ROWS
        for task in np.flatnonzero(is_large):
            start = int(self.starts[task])
            stop = int(self.starts[task + 1])
            makers.append(partial(self._feature_block, start, stop))
        small = np.flatnonzero(~is_large)
        # Rounded up to multiples of 2 or 8: few lengths, and little padding.
        multiple = np.where(sizes <= 8, 2, 8)
        padded = -(-sizes // multiple) * multiple
        lengths = padded[small]
        for length in np.unique(lengths):
            tasks = small[lengths == length]
            per_row = 3 * length + 2 * n_columns
            per_task = 8 * length * per_row
            step = max(1, int(MAX_BLOCK_BYTES // per_task))
            for start in range(0, len(tasks), step):
                part = tasks[start : start + step]
                makers.append(partial(self._kernel_block, part, int(length)))
        return makers

    def __iter__(self) -> Iterator[Block]:
        if self._kept is None and self.n_bytes <= MAX_KEPT_BYTES:
            self._kept = [make() for make in self._makers]
        if self._kept is not None:
            yield from self._kept
            return
        for make in self._makers:
            yield make()

    def set_target(self, target: Array, noise: Array) -> None:
        """Replace target and noise of all rows."""
        self.data = replace(self.data, target=target, noise=noise)
        for block in self._kept or []:
            block.set_target(target, noise)

    @property
    def is_kept(self) -> bool:
        """Whether the blocks are kept between passes."""
        return self.n_bytes <= MAX_KEPT_BYTES

    def _matrix(self, index: Array) -> Array:
        """Return C = [A 1 y] for some rows."""
        data = self.data
        features = data.design.common_features(data.rows.take(index))
        ones = np.ones((len(index), 1))
        target = data.target[index, None]
        return np.hstack([features, ones, target])

    def _feature_block(self, start: int, stop: int) -> FeatureBlock:
        positions = np.arange(start, stop)
        rows = self.data.rows.take(positions)
        features, groups = self.data.design.own_features(rows, rows)
        return FeatureBlock(
            tasks=np.unique(self.data.codes[positions]),
            positions=positions,
            features=features,
            groups=groups,
            n_parts=len(self.data.design.own),
            rows=self._matrix(positions),
            noise=self.data.noise[positions],
        )

    def _kernel_block(self, tasks: Array, length: int) -> KernelBlock:
        within = np.arange(length)
        is_row = within < self.data.sizes[tasks, None]
        index = np.where(is_row, self.starts[tasks, None] + within, -1)
        padded = self.data.rows.take(np.maximum(index, 0))
        kernels = self.data.design.own_kernels(padded, padded)
        kernels *= is_row[:, :, None] & is_row[:, None, :]
        positions = index[is_row]
        matrix = self._matrix(positions)
        rows = np.zeros((*index.shape, matrix.shape[1]))
        rows[is_row] = matrix
        noise = np.ones(index.shape)
        noise[is_row] = self.data.noise[positions]
        roots = []
        for part in self.data.design.own:
            root = part.root(padded)
            roots.append(None if root is None else root * is_row[:, :, None])
        return KernelBlock(tasks, index, kernels, rows, noise, tuple(roots))
