"""Compression of each task to at most p rows with the same normal likelihood.

The likelihood depends on the rows of a task only through X'X, X'y, y'y and their
number. A QR factorization of [X y] gives k = min(n, p) rows R and targets z with R'R =
X'X and R'z = X'y, and the squares that no coefficients explain, rest = y'y - z'z. Rows
of zeros change nothing. So tasks of about the same k are padded to one array, a
`Block`, and computed at once, and rows that no task needs are left out where columns
are constant within tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import Array, TaskData, dense

#: Standard deviations below this share of the mean mark a constant column.
CONSTANT = 1e-7
#: Number of tasks within which a column must vary before its slope gets a variance.
VARYING_TASKS = 3
#: Variation within a task below this share of the root of all squares of the task is
#: rounding, also of sums of products.
_VARIES = 1e-6
#: Numbers in the padded rows of tasks that are factorized at a time.
_BATCH = 1 << 22
# Padding all tasks to the longest may make this many times the work before they are
# split by length.
_WASTE = 4.0


@dataclass(frozen=True)
class Block:
    """Compressed tasks of about the same number of rows.

    Attributes
    ----------
    tasks : ndarray of int, shape (m,)
        Positions of the tasks.
    R : ndarray of shape (m, k, p), or (1, k, p) where the tasks share their rows
    z : ndarray of shape (m, k)
    """

    tasks: Array
    R: Array
    z: Array

    @property
    def copies(self) -> float:
        """Tasks per design."""
        return len(self.tasks) / len(self.R)


@dataclass(frozen=True)
class Compressed:
    """All tasks on standardized columns, of which the intercept (if any) is first.

    Attributes
    ----------
    blocks : list of Block
    rest : ndarray of shape (T,)
        Squares that no coefficients of the task explain.
    n : ndarray of shape (T,)
        Rows of each task; a weight of k counts as k rows.
    rows : float
        Rows that tell coefficients of the mean apart: `N`, or the number of rows of a
        design that all tasks share.
    variance : float
        Of the targets about their mean.
    """

    blocks: list[Block]
    rest: Array
    n: Array
    rows: float
    variance: float

    @property
    def T(self) -> int:
        """Number of tasks."""
        return len(self.n)

    @property
    def p(self) -> int:
        """Number of columns, with the intercept."""
        return self.blocks[0].R.shape[2]

    @property
    def N(self) -> float:
        """Rows of all tasks."""
        return float(self.n.sum())

    def task(self, t: int) -> tuple[Array, Array]:
        """Return the rows R (k, p) and targets z (k,) of task t."""
        for block in self.blocks:
            positions = np.flatnonzero(block.tasks == t)
            if not positions.size:
                continue
            position = positions[0]
            if len(block.R) > 1:
                return block.R[position], block.z[position]
            return block.R[0], block.z[position]
        raise IndexError(f"no task {t}")

    def varies(self, intercept: bool) -> Array:
        """Return which columns vary within each task, (T, p)."""
        varies = np.zeros((self.T, self.p), dtype=bool)
        for block in self.blocks:
            varies[block.tasks] = varies_within(block.R, intercept)
        return varies

    def can_differ(self, intercept: bool) -> Array:
        """Return the columns whose coefficients may differ between tasks, (p,)."""
        return can_differ(self.varies(intercept))

    def moments(self) -> Array:
        """Return the mean of x x' over all rows, (p, p)."""
        total: Any = 0
        for block in self.blocks:
            # Summed over tasks and their rows.
            gram = np.tensordot(block.R, block.R, ([0, 1], [0, 1]))
            total = total + block.copies * gram
        return np.asarray(total / max(self.N, 1e-300))


def varies_within(R: Array, intercept: bool) -> Array:
    """Return which columns vary within each task.

    Parameters
    ----------
    R : ndarray of shape (m, k, p)
        Rows of tasks, or compressed rows; rows of zeros change nothing.
    intercept : bool
        Whether column 0 is the intercept. Without one, a column varies where it is not
        zero.

    Returns
    -------
    ndarray of bool, shape (m, p)
        The intercept counts as varying in every task that has rows.
    """
    squares = np.square(R).sum(axis=1)
    threshold = np.square(_VARIES) * squares.sum(axis=1, keepdims=True)
    if not intercept:
        return squares > threshold
    level = R[:, :, 0]
    rows = np.square(level).sum(axis=1)
    # Subtracting the mean first keeps the digits that a difference of sums would lose.
    sums = np.einsum("mk,mkp->mp", level, R)
    weights = np.maximum(rows, 1e-300)
    means = sums / weights[:, None]
    deviations = R - level[:, :, None] * means[:, None, :]
    within = np.square(deviations).sum(axis=1)
    within[:, 0] = rows
    return within > threshold


def can_differ(varies: Array) -> Array:
    """Return the columns whose coefficients get a variance between tasks, (p,).

    Where a column is constant within tasks, a variance of its slope makes the variance
    of the levels depend on the column. That can raise the likelihood, but no task shows
    its slope. One or two slopes say hardly anything about a variance. A column must
    therefore vary within at least `VARYING_TASKS` tasks, or within both of two tasks.

    Parameters
    ----------
    varies : ndarray of bool, shape (T, p)
    """
    needed = min(VARYING_TASKS, len(varies))
    return np.asarray(varies.sum(axis=0) >= needed)


def weighted(data: Compressed, v: Array) -> Compressed:
    """Return tasks with rows divided by the roots of v (T,).

    Rows with noise of variance s2 v then have noise of variance s2.
    """
    root = np.sqrt(v)
    blocks = []
    for block in data.blocks:
        R = block.R / root[block.tasks, None, None]
        z = block.z / root[block.tasks, None]
        blocks.append(Block(block.tasks, R, z))
    return replace(data, blocks=blocks, rest=data.rest / v)


@dataclass(frozen=True)
class Columns:
    """How columns and targets were standardized.

    Attributes
    ----------
    mean, scale : ndarray of shape (d,)
        Columns are centered by the mean and divided by the scale. Without an intercept
        the mean is 0 and the scale the root mean square.
    center : float
        Subtracted from all targets.
    intercept : bool
    """

    mean: Array
    scale: Array
    center: float
    intercept: bool

    @classmethod
    def of_moments(
        cls,
        mean: Array,
        squares: Array,
        center: float,
        intercept: bool,
    ) -> Columns:
        """Return the standardization for means and mean squares about them.

        Parameters
        ----------
        mean, squares : ndarray of shape (d,)
            Means of columns, and mean squares about them.
        center : float
            Mean target.
        intercept : bool
        """
        std = np.sqrt(np.maximum(squares, 0.0))
        if not intercept:
            root_mean_square = np.sqrt(np.square(std) + np.square(mean))
            scale = np.where(root_mean_square > 0, root_mean_square, 1.0)
            return cls(0.0 * mean, scale, 0.0, False)
        # A constant column adds nothing to the intercept: an infinite scale makes it
        # zero.
        varies = std > CONSTANT * np.abs(mean)
        scale = np.where(varies, std, np.inf)
        return cls(mean, scale, center, True)

    @property
    def units(self) -> Array:
        """Factors (p,) that turn standardized coefficients into units of X.

        The factor of the intercept is 1.
        """
        intercept_units = np.ones(int(self.intercept))
        return np.append(intercept_units, 1.0 / self.scale)

    def apply(self, X: Array) -> Array:
        """Return standardized rows (n, p), with the intercept as first column."""
        scaled = (X - self.mean) / self.scale
        if self.intercept:
            return np.column_stack([np.ones(len(X)), scaled])
        return scaled

    def back(self) -> Array:
        """Return the matrix (d + 1, p) from standardized coefficients to units of X.

        Its first row gives the intercept (zero without one), the others the slopes.
        """
        d = len(self.mean)
        first = int(self.intercept)
        inverse_scale = 1.0 / self.scale
        L = np.zeros((d + 1, d + first))
        L[1:, first:] = np.diag(inverse_scale)
        if self.intercept:
            # The intercept at a zero row, not at the mean row.
            L[0, 1:] = -self.mean / self.scale
            L[0, 0] = 1.0
        return L


# ---------------------------------------------------------------------- from rows


def of_data(data: TaskData, intercept: bool = True) -> tuple[Compressed, Columns]:
    """Compress the rows of tasks; a sparse design is made dense."""
    X = dense(data.X)
    weights = data.effective_weights()
    columns = _columns(data, X, weights, intercept)
    y = data.targets - columns.center
    if data.uniform:
        # All tasks have the same rows: one factorization serves them all.
        A = columns.apply(X)
        total = float(data.n_rows)
        if data.weights is not None:
            root = np.sqrt(data.weights)[:, None]
            A = root * A
            y = root * y
            total = float(data.weights.sum())
        R, z, rest = _shared(A, y)
        blocks = [Block(np.arange(data.n_tasks), R, z)]
        n = np.full(data.n_tasks, total)
        rows = total
    else:
        take = _taker(data, X, y, weights, columns)
        p = X.shape[1] + int(intercept)
        blocks, rest = _factorized(take, data.sizes, p)
        blocks = [_without_spare_rows(block, rest, intercept) for block in blocks]
        if weights is None:
            n = data.sizes.astype(float)
        else:
            n = data.sum_by_task(weights)
        if data.offsets is not None:
            rows = float(n.sum())
        else:
            rows = float(n.max())
    variance = _variance(blocks, rest, n)
    return Compressed(blocks, rest, n, rows, variance), columns


def of_rows(A: Array, y: Array, sizes: Array, original: Compressed) -> Compressed:
    """Compress rows that were changed, such as by an autoregressive process.

    Parameters
    ----------
    A : ndarray of shape (N, p)
        Rows sorted by task, the level (or what it became) first, times the roots of
        weights.
    y : ndarray of shape (N,)
    sizes : ndarray of shape (T,)
        Rows per task.
    original : Compressed
        The rows before, which are counted.
    """
    offsets = np.cumsum(sizes) - sizes

    def take(tasks: Array, n: int) -> Array:
        is_row = np.arange(n) < sizes[tasks, None]
        rows = (offsets[tasks, None] + np.arange(n))[is_row]
        out = np.zeros((len(tasks), n, A.shape[1] + 1))
        out[is_row] = np.column_stack([A[rows], y[rows]])
        return out

    blocks, rest = _factorized(take, sizes, A.shape[1])
    blocks = [_without_spare_rows(block, rest, True) for block in blocks]
    variance = _variance(blocks, rest, original.n)
    return replace(original, blocks=blocks, rest=rest, variance=variance)


def _columns(
    data: TaskData,
    X: Array,
    weights: Array | None,
    intercept: bool,
) -> Columns:
    """Return means and scales of columns, and the mean target, over all rows."""
    if weights is None:
        n = len(X)
        w = np.full(n, 1.0 / n)
        center = float(data.targets.mean())
    else:
        w = weights
        if weights.ndim == 2:
            w = weights.sum(axis=1)
        center = float((weights * data.targets).sum())
        w = w / w.sum()
        center = center / float(weights.sum())
    mean = w @ X
    deviations = X - mean
    squares = w @ np.square(deviations)
    return Columns.of_moments(mean, squares, center, intercept)


def standardized(data: TaskData, intercept: bool) -> Columns:
    """Return means and scales of columns over the rows of all tasks.

    Targets are not centered: they are labels.
    """
    X = dense(data.X)
    columns = _columns(data, X, data.effective_weights(), intercept)
    return replace(columns, center=0.0)


def _shared(A: Array, Y: Array) -> tuple[Array, Array, Array]:
    """Compress the targets Y (n, T) of a design A (n, p) that all tasks share.

    Return R (1, k, p), z (T, k) and the rest (T,).
    """
    n, p = A.shape
    if n <= p:
        # Not more rows than columns: the rows are as compressed as they can be.
        return A[None], np.ascontiguousarray(Y.T), np.zeros(Y.shape[1])
    Q, R = np.linalg.qr(A)
    z = Q.T @ Y
    residuals = Y - Q @ z
    rest = np.square(residuals).sum(axis=0)
    return R[None], np.ascontiguousarray(z.T), rest


def _taker(
    data: TaskData,
    X: Array,
    y: Array,
    weights: Array | None,
    columns: Columns,
) -> Callable[[Array, int], Array]:
    """Return a function (tasks, n) -> their rows [A y], padded with zeros to n."""
    offsets = data.offsets
    sizes = data.sizes

    def take(tasks: Array, n: int) -> Array:
        is_row = np.arange(n) < sizes[tasks, None]
        if offsets is not None:
            positions = offsets[tasks, None] + np.arange(n)
            rows = positions[is_row]
            entry: Any = rows
        else:
            # A shared design with missing entries, or with weights per entry.
            observed = data.observed
            if observed is None:
                observed = np.ones(y.shape, dtype=bool)
            rows = np.concatenate([np.flatnonzero(observed[:, t]) for t in tasks])
            task_of_row = np.repeat(tasks, sizes[tasks])
            entry = (rows, task_of_row)
        flat = np.column_stack([columns.apply(X[rows]), y[entry]])
        if weights is not None:
            root = np.sqrt(weights[entry])
            flat *= root[:, None]
        out = np.zeros((len(tasks), n, flat.shape[1]))
        out[is_row] = flat
        return out

    return take


def _factorized(
    take: Callable[[Array, int], Array],
    sizes: Array,
    p: int,
) -> tuple[list[Block], Array]:
    """Return blocks of tasks of similar numbers of rows, and the rest of each task."""
    rest = np.zeros(len(sizes))
    lengths = np.minimum(sizes, p)
    max_length = int(lengths.max())
    # One block is simplest. It pays off unless most of its work is with padding.
    padded_work = len(lengths) * float(max_length) ** 2
    work = np.square(lengths, dtype=float).sum()
    is_split = padded_work > _WASTE * work
    pieces: dict[int, list[Block]] = {}
    for tasks, n in by_length(sizes, p + 1, _BATCH):
        k = max_length
        if is_split:
            next_power_of_two = 1 << (n - 1).bit_length()
            k = min(next_power_of_two, max_length)
        rows = take(tasks, n)
        if n > p:
            # The last diagonal entry of the factor of [A y] is the root of the rest.
            rows = np.asarray(np.linalg.qr(rows, mode="r"))
            if rows.shape[1] > p:
                rest[tasks] = np.square(rows[:, p, p])
            rows = rows[:, :p]
        out = np.zeros((len(tasks), k, p + 1))
        out[:, : rows.shape[1]] = rows
        block = Block(tasks, R=out[:, :, :p], z=out[:, :, p])
        pieces.setdefault(k, []).append(block)
    return [_joined(piece) for piece in pieces.values()], rest


def _without_spare_rows(block: Block, rest: Array, intercept: bool) -> Block:
    """Drop rows beyond the largest rank, where few columns vary within tasks.

    Columns that are constant within each task, such as the kind of a school, leave rows
    that are zero but for rounding: of 28 compressed rows of School, 16 are left.

    Parameters
    ----------
    block : Block
    rest : ndarray of shape (T,)
        Squares that no coefficients of the task explain. The squares of the targets of
        the rows left out are added to it.
    intercept : bool
    """
    k = block.R.shape[1]
    n_varying = varies_within(block.R, intercept).sum(axis=1)
    if n_varying.max() >= k:
        # The factorization below takes as long as a few evaluations of the likelihood.
        return block
    U, values, rows = np.linalg.svd(block.R, full_matrices=False)
    rounding = 8 * np.finfo(float).eps * max(block.R.shape[1:]) * values[:, :1]
    rank = max(int((values > rounding).sum(axis=1).max()), 1)
    if rank >= k:
        return block
    U = U[:, :, :rank]
    z = np.matmul(block.z[:, None, :], U)[:, 0]
    # A residual keeps the digits that a difference of squares would lose.
    residual = block.z - np.matmul(U, z[:, :, None])[:, :, 0]
    rest[block.tasks] += np.square(residual).sum(axis=1)
    R = values[:, :rank, None] * rows[:, :rank]
    return Block(block.tasks, R, z)


def by_length(sizes: Array, width: int, batch: int) -> list[tuple[Array, int]]:
    """Return batches of tasks of about the same number of rows.

    Parameters
    ----------
    sizes : ndarray of shape (T,)
        Rows per task. Tasks without rows are left out.
    width : int
        Numbers per row.
    batch : int
        Largest number of numbers in a batch whose tasks are padded to the longest one.

    Returns
    -------
    list of (tasks, n_rows)
        Positions of the tasks of a batch, and the rows of the longest one.
    """
    power = np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    has_rows = sizes > 0
    batches = []
    for size in np.unique(power[has_rows]):
        tasks = np.flatnonzero((power == size) & has_rows)
        n = int(sizes[tasks].max())
        step = max(1, batch // (n * width))
        for start in range(0, len(tasks), step):
            batches.append((tasks[start : start + step], n))
    return batches


def _joined(blocks: list[Block]) -> Block:
    """Return one block with the tasks of several."""
    if len(blocks) == 1:
        # R and z are slices of one array; concatenation below makes them contiguous.
        block = blocks[0]
        R = np.ascontiguousarray(block.R)
        z = np.ascontiguousarray(block.z)
        return Block(block.tasks, R, z)
    tasks = np.concatenate([block.tasks for block in blocks])
    R = np.concatenate([block.R for block in blocks])
    z = np.concatenate([block.z for block in blocks])
    return Block(tasks, R, z)


def _variance(blocks: list[Block], rest: Array, n: Array) -> float:
    """Return the mean square of the targets, which are centered with an intercept."""
    explained = sum(np.square(block.z).sum() for block in blocks)
    total = rest.sum() + explained
    return float(total / max(n.sum(), 1e-300))


# ---------------------------------------------------------------------- from sums


def of_statistics(
    s: TaskStatistics, intercept: bool = True
) -> tuple[Compressed, Columns]:
    """Compress sums over rows, which have half of the digits of the rows.

    Raises
    ------
    ValueError
        If a task has no rows, or weights of 0 only.
    """
    weight = np.broadcast_to(s.weight, s.n_tasks)
    empty = [str(task) for task in s.tasks[weight <= 0]]
    if empty:
        raise ValueError(
            f"no rows of {len(empty)} tasks: {', '.join(empty[:5])}; leave them out"
        )
    total = float(weight.sum())
    y_sums = s.y + weight * s.y_shift
    center = float(y_sums.sum() / total)
    columns = Columns.of_moments(s.mean, np.square(s.std), center, intercept)
    S, c, q = _gram(s, columns)
    R, z = _roots(S, c)
    rest = np.maximum(q - np.square(z).sum(axis=1), 0.0)
    n = np.array(weight, dtype=float)
    blocks = [Block(np.arange(s.n_tasks), R, z)]
    rows = total
    if s.shared:
        rows = float(n.max())
    variance = _variance(blocks, rest, n)
    return Compressed(blocks, rest, n, rows, variance), columns


def _gram(s: TaskStatistics, columns: Columns) -> tuple[Array, Array, Array]:
    """Return X'X (G, p, p), X'y (T, p) and y'y (T,) of standardized rows."""
    # The sums are about shifts of columns and targets. Moving them to the means of the
    # standardization changes products by sums of columns, and sums by weights.
    w = s.weight
    inverse_scale = 1.0 / columns.scale
    shift = (columns.mean - s.x_shift) * inverse_scale
    x = s.x * inverse_scale
    # sum (x - m)(x - m)' = sum x x' - (sum x) m' - m (sum x)' + w m m'
    xx = s.xx * np.outer(inverse_scale, inverse_scale)
    xx -= x[:, :, None] * shift
    xx -= shift[:, None] * x[:, None, :]
    xx += w[:, None, None] * np.outer(shift, shift)
    moved_x = x - w[:, None] * shift
    y_shift = s.y_shift - columns.center
    y = s.y + w * y_shift
    yy = s.yy + 2 * y_shift * s.y + w * np.square(y_shift)
    xy = s.xy.T * inverse_scale + y_shift[:, None] * x - y[:, None] * shift
    if not columns.intercept:
        return xx, xy, yy
    G, d = x.shape
    S = np.empty((G, d + 1, d + 1))
    S[:, 0, 0] = w
    S[:, 0, 1:] = moved_x
    S[:, 1:, 0] = moved_x
    S[:, 1:, 1:] = xx
    return S, np.column_stack([y, xy]), yy


def _roots(S: Array, c: Array) -> tuple[Array, Array]:
    """Return R (G, k, p) and z (T, k) with R'R = S and R'z = c.

    Eigenvalues that are rounding count as zero.
    """
    p = S.shape[1]
    values, vectors = np.linalg.eigh(S)
    largest = np.maximum(values[:, -1:], 0.0)
    rounding = 8 * np.finfo(float).eps * p * largest
    kept = values > rounding
    root = np.sqrt(np.where(kept, values, 0.0))
    # Eigenvalues are in ascending order: the last k rows hold all that are kept.
    n_kept = kept.sum(axis=1)
    k = max(int(n_kept.max()), 1)
    R = root[:, :, None] * vectors.transpose(0, 2, 1)
    if len(S) > 1:
        inner = np.matmul(c[:, None, :], vectors)[:, 0]
    else:
        inner = c @ vectors[0]
    divisor = np.where(kept, root, 1.0)
    z = np.where(kept, inner / divisor, 0.0)
    first = p - k
    return np.ascontiguousarray(R[:, first:]), np.ascontiguousarray(z[:, first:])
