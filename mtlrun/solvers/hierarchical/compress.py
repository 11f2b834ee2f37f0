"""Every task in at most p rows that have the same normal likelihood as all of its rows.

The likelihood sees the rows of a task through X'X, X'y, y'y and their number alone. A
QR factorization of [X y] gives k = min(n, p) rows R and targets z with R'R = X'X and
R'z = X'y, and what no coefficients explain, rest = y'y - z'z. Rows of zeros change
nothing, so tasks of about the same k are padded to one array, a `Block`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData, dense

Array = np.ndarray[Any, np.dtype[Any]]

#: Standard deviations below this share of the mean mark a constant column.
CONSTANT = 1e-7
#: Tasks within which a column has to vary before its slope gets a variance.
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
    """All tasks, on standardized columns with the intercept (if any) in front.

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
            if positions.size:
                return block.R[positions[0] if len(block.R) > 1 else 0], block.z[
                    positions[0]
                ]
        raise IndexError(f"no task {t}")

    def can_differ(self, intercept: bool) -> Array:
        """Return the columns whose coefficients may differ between tasks, (p,)."""
        varies = np.zeros((self.T, self.p), dtype=bool)
        for block in self.blocks:
            varies[block.tasks] = varies_within(block.R, intercept)
        return can_differ(varies)

    def moments(self) -> Array:
        """Return the mean of x x' over all rows, (p, p)."""
        total = sum(
            block.copies * np.tensordot(block.R, block.R, ([0, 1], [0, 1]))
            for block in self.blocks
        )
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
    # Taking the mean off first keeps the digits that a difference of sums would lose.
    means = np.einsum("mk,mkp->mp", level, R) / np.maximum(rows, 1e-300)[:, None]
    inside = np.square(R - level[:, :, None] * means[:, None, :]).sum(axis=1)
    inside[:, 0] = rows
    return inside > threshold


def can_differ(varies: Array) -> Array:
    """Return the columns whose coefficients get a variance between tasks, (p,).

    The slope of a column that varies within one task cannot be distinguished from the
    mean of the slopes, and its likelihood is flat: any variance fits as well as none.
    Two slopes say hardly more. So a column needs `VARYING_TASKS` tasks within which it
    varies; of two tasks, both.

    Parameters
    ----------
    varies : ndarray of bool, shape (T, p)
    """
    needed = min(VARYING_TASKS, len(varies))
    return np.asarray(varies.sum(axis=0) >= needed)


def weighted(data: Compressed, v: Array) -> Compressed:
    """Return tasks with rows divided by the roots of v (T,): rows of noises s2 v have the noise s2."""
    root = np.sqrt(v)
    blocks = [
        Block(b.tasks, b.R / root[b.tasks, None, None], b.z / root[b.tasks, None])
        for b in data.blocks
    ]
    return replace(data, blocks=blocks, rest=data.rest / v)


@dataclass(frozen=True)
class Columns:
    """How columns and targets were standardized.

    Attributes
    ----------
    mean, scale : ndarray of shape (d,)
        Taken off and divided by; without an intercept the mean is 0 and the scale the
        root mean square.
    center : float
        Taken off all targets.
    intercept : bool
    """

    mean: Array
    scale: Array
    center: float
    intercept: bool

    @classmethod
    def of_moments(
        cls, mean: Array, squares: Array, center: float, intercept: bool
    ) -> Columns:
        """Take means of columns, mean squares about them, and the mean target."""
        std = np.sqrt(np.maximum(squares, 0.0))
        varies = std > CONSTANT * np.abs(mean)
        if not intercept:
            size = np.sqrt(np.square(std) + np.square(mean))
            return cls(0.0 * mean, np.where(size > 0, size, 1.0), 0.0, False)
        # A constant column adds nothing to the intercept: an infinite scale makes it
        # zero.
        return cls(mean, np.where(varies, std, np.inf), center, True)

    @property
    def units(self) -> Array:
        """Factors (p,) that turn standardized coefficients into units of X, the level of an intercept staying."""
        return np.append(np.ones(int(self.intercept)), 1.0 / self.scale)

    def apply(self, X: Array) -> Array:
        """Return standardized rows (n, p), the intercept in front."""
        scaled = (X - self.mean) / self.scale
        if self.intercept:
            return np.column_stack([np.ones(len(X)), scaled])
        return scaled

    def back(self) -> Array:
        """Return the matrix (d + 1, p) that turns standardized coefficients into intercept and slopes in units of X.

        Without an intercept its first row is zero.
        """
        d = len(self.mean)
        first = int(self.intercept)
        L = np.zeros((d + 1, d + first))
        L[1:, first:] = np.diag(1.0 / self.scale)
        if first:
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
        blocks, rest = _factorised(take, data.sizes, X.shape[1] + int(intercept))
        if weights is None:
            n = data.sizes.astype(float)
        else:
            n = data.sum_by_task(weights)
        if data.offsets is not None:
            rows = float(n.sum())
        else:
            rows = float(n.max())
    return Compressed(
        blocks, rest, n, rows, _variance(blocks, rest, n, columns.intercept)
    ), columns


def _columns(
    data: TaskData, X: Array, weights: Array | None, intercept: bool
) -> Columns:
    """Return means and scales over the rows of all tasks, the targets about their mean over all."""
    if weights is None:
        w = np.full(len(X), 1.0 / len(X))
        center = float(data.targets.mean())
    else:
        w = weights if weights.ndim == 1 else weights.sum(axis=1)
        center = float((weights * data.targets).sum())
        w = w / w.sum()
        center = center / float(weights.sum())
    mean = w @ X
    return Columns.of_moments(mean, w @ np.square(X - mean), center, intercept)


def standardised(data: TaskData, intercept: bool) -> Columns:
    """Return means and scales of columns over the rows of all tasks, targets left as they are (labels)."""
    X = dense(data.X)
    return replace(_columns(data, X, data.effective_weights(), intercept), center=0.0)


def _shared(A: Array, Y: Array) -> tuple[Array, Array, Array]:
    """Return R (1, k, p), z (T, k) and the rest (T,) of a design that all columns of Y share."""
    if len(A) <= A.shape[1]:
        return A[None], np.ascontiguousarray(Y.T), np.zeros(Y.shape[1])
    Q, R = np.linalg.qr(A)
    z = Q.T @ Y
    return R[None], np.ascontiguousarray(z.T), np.square(Y - Q @ z).sum(axis=0)


def _taker(
    data: TaskData, X: Array, y: Array, weights: Array | None, columns: Columns
) -> Callable[[Array, int], Array]:
    """Return a function (tasks, n) -> their rows [A y], padded with zeros to n."""
    offsets = data.offsets
    sizes = data.sizes

    def take(tasks: Array, n: int) -> Array:
        inside = np.arange(n) < sizes[tasks, None]
        if offsets is not None:
            rows = (offsets[tasks, None] + np.arange(n))[inside]
            entry: Any = rows
        else:  # a shared design with entries missing, or weights of their own
            if data.observed is None:
                observed = np.ones(y.shape, dtype=bool)
            else:
                observed = data.observed
            rows = np.concatenate([np.flatnonzero(observed[:, t]) for t in tasks])
            entry = (rows, np.repeat(tasks, sizes[tasks]))
        flat = np.column_stack([columns.apply(X[rows]), y[entry]])
        if weights is not None:
            flat *= np.sqrt(weights[entry])[:, None]
        out = np.zeros((len(tasks), n, flat.shape[1]))
        out[inside] = flat
        return out

    return take


def _factorised(
    take: Callable[[Array, int], Array], sizes: Array, p: int
) -> tuple[list[Block], Array]:
    """Return blocks of tasks of about the same number of rows, and the rest of each task."""
    rest = np.zeros(len(sizes))
    lengths = np.minimum(sizes, p)
    max_length = int(lengths.max())
    split = (
        len(lengths) * float(max_length) ** 2
        > _WASTE * np.square(lengths, dtype=float).sum()
    )
    pieces: dict[int, list[Block]] = {}
    for tasks, n in by_length(sizes, p + 1, _BATCH):
        k = min(1 << (n - 1).bit_length(), max_length) if split else max_length
        rows = take(tasks, n)
        if n > p:
            rows = np.asarray(np.linalg.qr(rows, mode="r"))
            rest[tasks] = np.square(rows[:, p, p]) if rows.shape[1] > p else 0.0
            rows = rows[:, :p]
        out = np.zeros((len(tasks), k, p + 1))
        out[:, : rows.shape[1]] = rows
        pieces.setdefault(k, []).append(Block(tasks, out[:, :, :p], out[:, :, p]))
    return [_joined(piece) for piece in pieces.values()], rest


def by_length(sizes: Array, width: int, batch: int) -> list[tuple[Array, int]]:
    """Return tasks of about the same number of rows, of `width` numbers each, in batches, and the rows of the longest.

    A batch has at most `batch` numbers once all tasks are padded; tasks without rows
    are left out.
    """
    power = np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    batches = []
    for size in np.unique(power[sizes > 0]):
        mine = np.flatnonzero((power == size) & (sizes > 0))
        n = int(sizes[mine].max())
        step = max(1, batch // (n * width))
        batches += [(mine[i : i + step], n) for i in range(0, len(mine), step)]
    return batches


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        block = blocks[0]
        return Block(
            block.tasks, np.ascontiguousarray(block.R), np.ascontiguousarray(block.z)
        )
    tasks = np.concatenate([block.tasks for block in blocks])
    R = np.concatenate([block.R for block in blocks])
    z = np.concatenate([block.z for block in blocks])
    return Block(tasks, R, z)


def _variance(blocks: list[Block], rest: Array, n: Array, centred: bool) -> float:
    """Return the variance of the targets; they are about their mean where there is an intercept."""
    return float(
        (rest.sum() + sum(np.square(block.z).sum() for block in blocks))
        / max(n.sum(), 1e-300)
    )


# ---------------------------------------------------------------------- from sums


def of_statistics(
    s: TaskStatistics, intercept: bool = True
) -> tuple[Compressed, Columns]:
    """Compress sums over rows; they have half of the digits of the rows.

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
    columns = Columns.of_moments(
        s.mean,
        np.square(s.std),
        float((s.y + weight * s.y_shift).sum() / total),
        intercept,
    )
    S, c, q = _gram(s, columns)
    R, z = _roots(S, c)
    rest = np.maximum(q - np.square(z).sum(axis=1), 0.0)
    n = np.array(weight, dtype=float)
    blocks = [Block(np.arange(s.n_tasks), R, z)]
    rows = total if not s.shared else float(n.max())
    return Compressed(
        blocks, rest, n, rows, _variance(blocks, rest, n, intercept)
    ), columns


def _gram(s: TaskStatistics, columns: Columns) -> tuple[Array, Array, Array]:
    """Return X'X (G, p, p), X'y (T, p) and y'y (T,) of standardized rows."""
    w = s.weight
    inverse_scale = 1.0 / columns.scale
    shift = (
        columns.mean - s.x_shift
    ) * inverse_scale  # of the columns that the sums are about
    x = s.x * inverse_scale
    xx = (
        s.xx * np.outer(inverse_scale, inverse_scale)
        - x[:, :, None] * shift
        - shift[:, None] * x[:, None, :]
    )
    xx = xx + w[:, None, None] * np.outer(shift, shift)
    moved = x - w[:, None] * shift
    up = s.y_shift - columns.center
    y, yy = s.y + w * up, s.yy + 2 * up * s.y + w * np.square(up)
    xy = s.xy.T * inverse_scale + up[:, None] * x - y[:, None] * shift
    if not columns.intercept:
        return xx, xy, yy
    G, d = x.shape
    S = np.empty((G, d + 1, d + 1))
    S[:, 0, 0], S[:, 0, 1:], S[:, 1:, 0], S[:, 1:, 1:] = w, moved, moved, xx
    return S, np.column_stack([y, xy]), yy


def _roots(S: Array, c: Array) -> tuple[Array, Array]:
    """Return R (G, k, p) and z (T, k) with R'R = S and R'z = c; eigenvalues that are rounding count as zero."""
    p = S.shape[1]
    values, vectors = np.linalg.eigh(S)
    kept = values > 8 * np.finfo(float).eps * p * np.maximum(values[:, -1:], 0.0)
    root = np.sqrt(np.where(kept, values, 0.0))
    k = max(int(kept.sum(axis=1).max()), 1)
    R = (root[:, :, None] * vectors.transpose(0, 2, 1))[:, p - k :]
    if len(S) > 1:
        inner = np.matmul(c[:, None, :], vectors)[:, 0]
    else:
        inner = c @ vectors[0]
    z = np.where(kept, inner / np.where(kept, root, 1.0), 0.0)
    return np.ascontiguousarray(R), np.ascontiguousarray(z[:, p - k :])
