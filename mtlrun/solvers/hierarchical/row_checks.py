"""Check what tests of differences between tasks assume, and correct the rows for it.

The tests of `mtlrun.solvers.hierarchical.inference` assume, for row i of task t,

    y_i = x_i' w_t + e_i,    e_i independent and normal, of one variance.

If tasks do not differ, three things can make them look different:

curves
    A curve that all tasks share has another slope where a task has other values of x.
    F tests show whether a quadratic spline of a column, or a product of two, explains
    more than the column. Those that do become columns with a common coefficient.
correlation
    If neighboring rows of a task are alike, slopes along their order vary more than
    independent rows explain. The lag-one correlation of the residuals is compared with
    that of independent rows, in the order of the rows and along each column. Where it
    is larger, the rows are divided by an autoregressive process of order one (Prais and
    Winsten 1954): r times the row before is subtracted from each row. Tests that take
    the estimated r for the true one reject too often. It is therefore larger than the
    estimate, by a part of its standard error.
noise
    Slopes vary more in tasks with more noise. Bartlett's statistic of the residual
    variances of the tasks is compared with draws of normal noise; heavy tails make it
    large, too.

The residuals of the last two checks are those of a model with a level per task and
those slopes that seem to differ, so that tasks may differ. They take tasks with more
than two rows per coefficient; others say too little about their noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import f as f_distribution
from scipy.stats import norm

from mtlrun.problem.taskdata import Array, TaskData, dense
from mtlrun.solvers.hierarchical.compress import (
    Columns,
    Compressed,
    by_length,
    of_rows,
)

#: Levels of the checks. A correction that is not needed costs little power.
CURVE_LEVEL = 0.05
PRODUCT_LEVEL = 0.01
CORRELATION_LEVEL = 0.1
NOISE_LEVEL = 0.05
#: The correlation is larger than its estimate by this many standard errors. With 0, .75,
#: 1 and 1.25, and a true correlation of .6, 13, 7, 5 and 3% of likelihood ratio tests at
#: 5% rejected (20 tasks of ten rows, slopes along time, 150 tables).
CORRELATION_MARGIN = 1.0
MAX_CORRELATION = 0.98
#: Quantiles of a column between which its curve is quadratic.
KNOTS = (0.25, 0.5, 0.75)
#: Columns with fewer values have no curve.
MIN_VALUES = 3
#: Rows that must be left per column of a curve.
ROWS_PER_CURVE = 10
#: With fewer rows, correlation and noise are not checked.
MIN_CHECKED_ROWS = 20
#: With more pairs of columns, products are not checked.
MAX_PAIRS = 100
#: Tasks have residuals if they have more rows per coefficient than this.
ROWS_PER_COEFFICIENT = 2
#: Largest number of slopes per task in residuals, and of rows that are checked.
MAX_SLOPES = 10
MAX_ROWS = 20_000
#: Tasks that are checked if there are too many rows.
MIN_TASKS = 50
NOISE_DRAWS = 199
# Numbers in the padded rows of tasks that are projected at a time.
_BATCH = 1 << 22
# Singular values below this, relative to the largest, are zero.
_ZERO = 1e-9


@dataclass(frozen=True)
class RowChecks:
    """What the checks showed.

    Attributes
    ----------
    curves : list of tuple of int
        Standardized columns with a common curve, and pairs with a common product.
    basis : ndarray of shape (N, c)
        Columns of these curves.
    order : ndarray of shape (N,)
        The order of the correlated rows.
    correlation : float
        Estimated lag-one correlation of the noise; 0 without a sign of any.
    correlation_p : float
        Its p-value against independent rows, adjusted for the number of orders.
    removed_correlation : float
        The correlation by which the rows are divided.
    along : int or None
        Standardized column that orders them; None for the order of the table.
    noise_differs : bool
        Whether the variance of the noise differs between tasks, or has heavy tails.
    """

    curves: list[tuple[int, ...]]
    basis: Array
    order: Array
    correlation: float = 0.0
    correlation_p: float = 1.0
    removed_correlation: float = 0.0
    along: int | None = None
    noise_differs: bool = False


@dataclass(frozen=True)
class _Rows:
    """Rows sorted by task.

    Attributes
    ----------
    A : ndarray of shape (N, p)
        Standardized columns, the level first, times the roots of weights.
    y : ndarray of shape (N,)
    sizes : ndarray of shape (T,)
        Rows per task.
    """

    A: Array
    y: Array
    sizes: Array

    @property
    def starts(self) -> Array:
        """First row of each task, (T,)."""
        return np.cumsum(self.sizes) - self.sizes

    def batches(self, width: int) -> Iterator[tuple[Array, Array]]:
        """Return the rows of tasks of about the same size, and which of the padded rows
        (m, n) these are.
        """
        starts = self.starts
        for tasks, n in by_length(self.sizes, width, _BATCH):
            positions = np.arange(n)
            is_row = positions < self.sizes[tasks, None]
            rows = (starts[tasks, None] + positions)[is_row]
            yield rows, is_row

    def followers(self) -> Array:
        """Return the rows that follow a row of the same task."""
        is_first = np.zeros(len(self.y), dtype=bool)
        is_first[self.starts] = True
        return np.flatnonzero(~is_first)

    def whitened(self, correlation: float) -> _Rows:
        """Divide rows by an autoregressive process of order one."""
        after = self.followers()
        both = np.column_stack([self.A, self.y])
        white = np.sqrt(1.0 - correlation**2) * both
        white[after] = both[after] - correlation * both[after - 1]
        return replace(self, A=white[:, :-1], y=white[:, -1])

    def taken(self, rows: Array, sizes: Array) -> _Rows:
        """Return some rows, sorted by task."""
        return _Rows(self.A[rows], self.y[rows], sizes)


def check_rows(data: TaskData, columns: Columns, random: Array) -> RowChecks:
    """Check the rows of tasks.

    Of many rows, a part is checked.

    Parameters
    ----------
    data : TaskData
        Ragged tasks, in the order of the table within tasks.
    columns : Columns
        Standardization, with an intercept.
    random : ndarray of int
        Standardized columns whose coefficients may differ.
    """
    X = columns.apply(dense(data.X))
    sample, sizes = _sample(data.sizes)
    rows = _weighted_rows(data, columns, X).taken(sample, sizes)
    curves = _common_curves(rows, X[sample])
    basis = np.column_stack([X[:, :0], *(_curve(X[:, name]) for name in curves)])
    rows = replace(rows, A=np.column_stack([rows.A, rows.A[:, :1] * basis[sample]]))
    slopes = _varying_slopes(rows, random[random > 0])
    is_long = sizes > ROWS_PER_COEFFICIENT * (1 + len(slopes))
    of_long_tasks = np.repeat(is_long, sizes)
    rows = rows.taken(of_long_tasks, sizes[is_long])
    plain = RowChecks(curves, basis, order=np.arange(len(X)))
    if len(rows.y) < MIN_CHECKED_ROWS:
        return plain
    checks = plain
    order = _correlated_order(rows, X[sample][of_long_tasks], slopes)
    if order is not None:
        rows = rows.taken(order.rows, rows.sizes)
        checks = replace(
            plain,
            correlation=_correlation(rows, slopes, margin=0.0),
            correlation_p=order.p_value,
            removed_correlation=_correlation(rows, slopes, CORRELATION_MARGIN),
            order=_order(X, data.sizes, order.along),
            along=order.along,
        )
        rows = rows.whitened(checks.removed_correlation)
    rest = _residuals(rows, slopes)
    squares = np.add.reduceat(np.square(rest.values), rows.starts)
    return replace(checks, noise_differs=noise_differs(squares, rest.degrees))


def corrected(
    data: TaskData, columns: Columns, checks: RowChecks, compressed: Compressed
) -> Compressed:
    """Return rows without their correlation, with common curves as last columns.

    Parameters
    ----------
    data : TaskData
    columns : Columns
    checks : RowChecks
        Of the same data.
    compressed : Compressed
        The rows without corrections.
    """
    if not checks.curves and checks.removed_correlation == 0:
        return compressed
    X = columns.apply(dense(data.X))
    rows = _weighted_rows(data, columns, X)
    A = np.column_stack([rows.A, rows.A[:, :1] * checks.basis])
    rows = replace(rows, A=A).taken(checks.order, data.sizes)
    rows = rows.whitened(checks.removed_correlation)
    return of_rows(rows.A, rows.y, rows.sizes, compressed)


def _weighted_rows(data: TaskData, columns: Columns, X: Array) -> _Rows:
    y = data.targets - columns.center
    weights = data.effective_weights()
    if weights is None:
        return _Rows(X, y, data.sizes)
    root = np.sqrt(weights)
    return _Rows(root[:, None] * X, root * y, data.sizes)


def _sample(sizes: Array) -> tuple[Array, Array]:
    """Return the rows that are checked, and their number per task."""
    starts = np.cumsum(sizes) - sizes
    step = max(1, min(int(sizes.sum()) // MAX_ROWS, len(sizes) // MIN_TASKS))
    tasks = np.arange(0, len(sizes), step)
    tasks = tasks[sizes[tasks] > 0]
    n_kept = np.minimum(sizes[tasks], max(MAX_ROWS // len(tasks), MIN_TASKS))
    if n_kept.sum() > MAX_ROWS:
        n_kept = np.minimum(n_kept, int(np.median(n_kept)))
    within = np.arange(n_kept.sum()) - np.repeat(np.cumsum(n_kept) - n_kept, n_kept)
    return np.repeat(starts[tasks], n_kept) + within, n_kept


def _order(X: Array, sizes: Array, along: int | None) -> Array:
    """Return rows sorted by task, and within tasks by a column."""
    if along is None:
        return np.arange(len(X))
    task = np.repeat(np.arange(len(sizes)), sizes)
    return np.lexsort((X[:, along], task))


# ---------------------------------------------------------------------- residuals


@dataclass(frozen=True)
class _Residuals:
    """Residuals of a model with a level and slopes per task.

    Attributes
    ----------
    values : ndarray of shape (N,)
    Q : ndarray of shape (N, q)
        Orthonormal columns within each task, which span its level and slopes.
    degrees : ndarray of shape (T,)
        Rows minus coefficients of each task.
    """

    values: Array
    Q: Array
    degrees: Array


def _without_tasks(rows: _Rows, slopes: Array, V: Array) -> tuple[Array, Array]:
    """Remove levels and slopes of tasks from the columns of V (N, c).

    Returns
    -------
    rest : ndarray of shape (N, c)
    Q : ndarray of shape (N, q)
        See `_Residuals`.
    """
    B = rows.A[:, [0, *slopes]]
    q = B.shape[1]
    Q = np.zeros_like(B)
    rest = np.zeros_like(V)
    for positions, is_row in rows.batches(q + V.shape[1]):
        padded = np.zeros((*is_row.shape, q))
        padded[is_row] = B[positions]
        U, s, _ = np.linalg.svd(padded, full_matrices=False)
        largest = np.maximum(s.max(axis=1, keepdims=True), 1e-300)
        U = U * (s > _ZERO * largest)[:, None, :]
        values = np.zeros((*is_row.shape, V.shape[1]))
        values[is_row] = V[positions]
        values -= U @ (U.transpose(0, 2, 1) @ values)
        rest[positions] = values[is_row]
        Q[positions, : U.shape[2]] = U[is_row]
    return rest, Q


def _residuals(rows: _Rows, slopes: Array) -> _Residuals:
    """Return residuals of coefficients of the tasks and common coefficients."""
    both = np.column_stack([rows.A[:, 1:], rows.y])
    rest, Q = _without_tasks(rows, slopes, both)
    common = _orthonormal(rest[:, :-1])
    values = rest[:, -1] - common @ (common.T @ rest[:, -1])
    ranks = np.add.reduceat(np.square(Q).sum(axis=1), rows.starts)
    return _Residuals(values, Q, rows.sizes - np.round(ranks))


def _orthonormal(V: Array) -> Array:
    """Return orthonormal columns that span those of V (N, c)."""
    if not V.shape[1]:
        return V
    values, vectors = np.linalg.eigh(V.T @ V)
    is_kept = values > _ZERO * max(values[-1], 1e-300)
    return np.asarray(V @ (vectors[:, is_kept] / np.sqrt(values[is_kept])))


def _varying_slopes(rows: _Rows, slopes: Array) -> Array:
    """Return the slopes that seem to vary, the clearest first, but at least one.

    The squared sum of column times residual over a task, summed over tasks, is compared
    with the sum of squares over rows, its mean if nothing varies.
    """
    columns = np.column_stack([rows.A[:, slopes], rows.y])
    rest, _ = _without_tasks(rows, slopes[:0], columns)
    common = _orthonormal(rest[:, :-1])
    residuals = rest[:, -1:] - common @ (common.T @ rest[:, -1:])
    products = rest[:, :-1] * residuals
    by_task = np.add.reduceat(products, rows.starts, axis=0)
    expected = np.add.reduceat(np.square(products), rows.starts, axis=0)
    error = np.sqrt(2 * np.square(expected).sum(axis=0))
    excess = np.square(by_task).sum(axis=0) - expected.sum(axis=0)
    z = excess / np.maximum(error, 1e-300)
    n_varying = min(max(int((z > 1).sum()), 1), MAX_SLOPES)
    return slopes[np.argsort(-z, kind="stable")[:n_varying]]


# ---------------------------------------------------------------------- curves


def _common_curves(rows: _Rows, X: Array) -> list[tuple[int, ...]]:
    """Return columns with a common curve, and pairs with a common product.

    Parameters
    ----------
    rows : _Rows
    X : ndarray of shape (N, p)
        The same rows, without weights.
    """
    positions = range(1, X.shape[1])
    singles: list[tuple[int, ...]] = [(j,) for j in positions]
    pairs: list[tuple[int, ...]] = list(combinations(positions, 2))
    if len(pairs) > MAX_PAIRS:
        pairs = []
    curves: list[tuple[int, ...]] = []
    accepted = rows.A[:, 1:]
    for names, level in ((singles, CURVE_LEVEL), (pairs, PRODUCT_LEVEL)):
        both = np.column_stack([accepted, rows.y])
        rest, _ = _without_tasks(rows, np.zeros(0, dtype=int), both)
        linear = _orthonormal(rest[:, :-1])
        y = rest[:, -1] - linear @ (linear.T @ rest[:, -1])
        n_left = len(X) - len(rows.sizes) - linear.shape[1]
        bases = [rows.A[:, :1] * _curve(X[:, name]) for name in names]
        stacked = np.column_stack([rows.A[:, :0], *bases])
        within, _ = _without_tasks(rows, np.zeros(0, dtype=int), stacked)
        ends = np.cumsum([basis.shape[1] for basis in bases], dtype=int)
        for name, basis, end in zip(names, bases, ends, strict=True):
            k = basis.shape[1]
            if n_left > ROWS_PER_CURVE * k > 0:
                columns = within[:, end - k : end]
                if _p_of_curve(columns, linear, y, n_left) < level:
                    curves.append(name)
                    accepted = np.column_stack([accepted, basis])
    return curves


def _p_of_curve(within: Array, linear: Array, y: Array, n_left: int) -> float:
    """Return the p-value of an F test of columns beyond linear ones.

    Parameters
    ----------
    within : ndarray of shape (N, c)
        Columns without the levels of tasks.
    linear : ndarray of shape (N, k)
        Orthonormal columns.
    y : ndarray of shape (N,)
        Residuals of levels and linear columns.
    n_left : int
        Degrees of freedom of y.
    """
    size = np.square(within).sum(axis=0)
    within = within - linear @ (linear.T @ within)
    # What linear columns span leaves rounding.
    is_new = np.square(within).sum(axis=0) > _ZERO * size
    curve = _orthonormal(within[:, is_new])
    k = curve.shape[1]
    if k == 0:
        return 1.0
    explained = float(np.square(curve.T @ y).sum())
    noise = (float(y @ y) - explained) / (n_left - k)
    return float(f_distribution.sf(explained / k / max(noise, 1e-300), k, n_left - k))


def _curve(x: Array) -> Array:
    """Return a quadratic spline of a column (N, 1), or the product of two (N, 2)."""
    if x.shape[1] == 2:
        return x[:, :1] * x[:, 1:]
    values = np.unique(x)
    if len(values) < MIN_VALUES:
        return np.zeros((len(x), 0))
    knots = np.unique(np.quantile(x, KNOTS))
    inner = knots[(knots > values[1]) & (knots < values[-2])]
    return np.column_stack([x**2, np.square(np.maximum(x - inner, 0.0))])


# ---------------------------------------------------------------------- correlation


def _excess(rest: _Residuals, order: Array, rows: _Rows) -> tuple[float, float]:
    """Return the lag-one correlation of residuals above that of independent rows, and
    its standard error.

    Parameters
    ----------
    rest : _Residuals
    order : ndarray of shape (N,)
    rows : _Rows
    """
    r = rest.values[order]
    Q = rest.Q[order]
    after = rows.followers()
    degrees = float(rest.degrees.sum())
    # W has 1/2 for neighbors, M = I - QQ'. Of independent e, the quadratic form e'MWMe
    # has mean tr(MW) and variance 2 tr(MWMW); W has no diagonal.
    WQ = np.zeros_like(Q)
    WQ[after] += Q[after - 1] / 2
    WQ[after - 1] += Q[after] / 2
    products = np.add.reduceat(Q[:, :, None] * WQ[:, None, :], rows.starts)
    trace = -float((Q * WQ).sum())
    both = len(after) / 2 - 2 * np.square(WQ).sum() + np.square(products).sum()
    # The form is divided by the residual squares, which vary with it.
    variance = max(2 * (both - trace**2 / degrees), 1e-300)
    observed = float(r[after - 1] @ r[after]) / max(float(r @ r), 1e-300)
    return observed - trace / degrees, float(np.sqrt(variance)) / degrees


@dataclass(frozen=True)
class _RowOrder:
    """An order of rows: by task, and along a column or (None) as in the table.

    `p_value` is that of their correlation.
    """

    along: int | None
    rows: Array
    p_value: float = 1.0


def _correlated_order(rows: _Rows, X: Array, slopes: Array) -> _RowOrder | None:
    """Return the order along which rows are most clearly correlated.

    None without a sign of a correlation.
    """
    rest = _residuals(rows, slopes)
    after = rows.followers()
    orders = [_RowOrder(None, np.arange(len(X)))]
    for j in slopes.tolist():
        order = _order(X, rows.sizes, j)
        values = X[order, j]
        # Rows of the same value have no order.
        if (values[after] > values[after - 1]).mean() > 0.5:
            orders.append(_RowOrder(j, order))
    clearest = None
    smallest_p = CORRELATION_LEVEL
    for candidate in orders:
        excess, error = _excess(rest, candidate.rows, rows)
        # The order of the table counts as much as all columns together.
        n_orders = 1 if candidate.along is None else len(orders) - 1
        p_value = 2 * n_orders * float(norm.sf(excess / error))
        if p_value < smallest_p:
            smallest_p = p_value
            clearest = replace(candidate, p_value=p_value)
    return clearest


def _correlation(rows: _Rows, slopes: Array, margin: float) -> float:
    """Return the correlation that leaves residuals of independent rows.

    Parameters
    ----------
    rows : _Rows
    slopes : ndarray of int
    margin : float
        Standard errors by which it is larger.
    """
    order = np.arange(len(rows.y))

    def remaining(correlation: float) -> float:
        rest = _residuals(rows.whitened(correlation), slopes)
        excess, error = _excess(rest, order, rows)
        return excess + margin * error

    if remaining(MAX_CORRELATION) > 0:
        return MAX_CORRELATION
    return float(brentq(remaining, 0.0, MAX_CORRELATION, xtol=1e-3))


# ---------------------------------------------------------------------- noise


def noise_differs(squares: Array, degrees: Array) -> bool:
    """Return whether residual squares of tasks speak for different variances.

    Parameters
    ----------
    squares, degrees : ndarray of shape (T,)
        Residual squares and their degrees of freedom.
    """
    is_used = degrees >= 1
    n = degrees[is_used]
    if len(n) < 2 or not squares[is_used].sum() > 0:
        return False
    draws = np.random.default_rng(0).chisquare(n, (NOISE_DRAWS, len(n)))
    n_larger = int((_bartlett(draws, n) >= _bartlett(squares[is_used], n)).sum())
    return (1 + n_larger) / (NOISE_DRAWS + 1) <= NOISE_LEVEL


def _bartlett(squares: Array, degrees: Array) -> Array:
    """Return Bartlett's statistic of sums of squares (..., T)."""
    pooled = squares.sum(axis=-1) / degrees.sum()
    variances = np.maximum(squares / degrees, 1e-12 * pooled[..., None])
    return np.asarray(degrees.sum() * np.log(pooled) - np.log(variances) @ degrees)
