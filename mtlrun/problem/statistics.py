"""Data of several tasks as sums over their rows.

Models with the squared loss need no more than these d^2 numbers per design. Sums can be
added and subtracted: rows may come in chunks, from several sites, or leave
as the test part of a fold.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mtlrun.errors import DataError
from mtlrun.problem.losses import is_graded
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import EIGENVECTORS, Array, Design, TaskData
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.outputs import write_output

_SCHEMA = 1
# Eigenvalues of a Gram matrix below this, relative to the largest and times its size,
# are rounding.
_ROUNDING = 8.0 * np.finfo(np.float64).eps
# Arrays of a file, by the names of the attributes.
_ARRAYS = ("weight", "x", "xx", "y", "yy", "xy", "n_rows", "x_shift", "y_shift")


@dataclass(frozen=True, eq=False)
class TaskStatistics:
    """Weighted sums of rows, by task or for all tasks that share their rows.

    ``a + b`` are the statistics of the rows of both, ``a - b`` the statistics of a
    without the rows of b. A sum has the tasks of both, sorted. Sums are taken about
    `x_shift` and `y_shift`, best near the means, since sums of large numbers cancel.
    The sums of a second chunk are moved to the shift of the first.

    Attributes
    ----------
    tasks : ndarray of shape (T,)
        Sorted labels of the tasks; of a shared design the names or positions of the
        targets.
    shared : bool
        Whether all tasks have the same rows and weights.
    weight : ndarray of shape (G,)
        Sum of the weights of the rows; G is 1 where all tasks share rows and weights,
        else T.
    x, xx : ndarray of shape (G, d) and (G, d, d)
        Weighted sums of x and x x', of ``x - x_shift``.
    y, yy : ndarray of shape (T,)
        Those of y and y^2, of ``y - y_shift``.
    xy : ndarray of shape (d, T)
    x_shift : ndarray of shape (d,)
    y_shift : ndarray of shape (T,)
    n_rows : ndarray of shape (T,)
        Rows of each task; the rows of a shared design count for each.
    features : tuple of str
        Names of the features; empty without any.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.problem.statistics import TaskStatistics
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(100, 3)), rng.normal(size=(100, 2))
    >>> whole = TaskStatistics.of(X[:60], Y[:60]) + TaskStatistics.of(X[60:], Y[60:])
    >>> whole.n_rows.tolist(), whole.n_features
    ([100, 100], 3)
    """

    tasks: Array
    shared: bool
    weight: Array
    x: Array
    xx: Array
    y: Array
    yy: Array
    xy: Array
    x_shift: Array
    y_shift: Array
    n_rows: Array
    features: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        X: Design,
        y: ArrayLike,
        task_id: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        features: Sequence[str] = (),
        like: TaskStatistics | None = None,
    ) -> TaskStatistics:
        """Sum up rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,) or (n, T)
            One target per row with `task_id`; else one column per task, NaN where a
            target is missing.
        task_id : array-like of shape (n,), optional
        sample_weight : array-like of shape (n,) or (n, T), optional
        features : sequence of str, optional
            Names of the columns.
        like : TaskStatistics, optional
            Take its shift, as for the chunks after the first; default: the means of
            these rows.

        Raises
        ------
        ValueError
            For values that are missing or infinite, or shapes that do not fit.
        """
        y = np.asarray(y, dtype=np.float64)
        if task_id is not None or y.ndim == 1:
            if task_id is None:
                ids = np.zeros(len(y), dtype=int)
            else:
                ids = np.asarray(task_id)
            data = TaskData.from_stacked(X, y, ids, weights=sample_weight)
        else:
            data = TaskData.from_matrix(X, y, weights=sample_weight)
        return cls.of_data(data, features=features, like=like)

    @classmethod
    def of_data(
        cls,
        data: TaskData,
        *,
        features: Sequence[str] = (),
        like: TaskStatistics | None = None,
    ) -> TaskStatistics:
        """Sum up checked data; arguments as of `of`."""
        total = data.sum_by_task(data.full_weights())
        sums = data.sum_by_task(data.weighted(data.targets))
        # Shifts of features and targets are those of `like`, or else the means. A
        # sparse design would become dense.
        y_shift = sums / np.where(total > 0, total, 1.0)
        x_shift = np.zeros(data.n_features)
        if not data.sparse:
            if like is None or not like.x_shift.any():
                x_shift = data.X.mean(axis=0)
            else:
                x_shift = like.x_shift
            data = data.with_design(data.X - x_shift)
        if like is not None:
            # A task that the earlier rows lack takes its own mean.
            shifts = dict(zip(like.tasks.tolist(), like.y_shift.tolist(), strict=True))
            pairs = zip(data.tasks.tolist(), y_shift, strict=True)
            y_shift = np.array([shifts.get(task, mean) for task, mean in pairs])
        data = data.with_targets(data.targets - data.spread(y_shift))
        operator = TaskOperator(data)
        full = data.full_weights()
        weighted = data.weighted(data.targets)
        if data.uniform:
            rows = data.row_weights()
            weight = rows.sum(keepdims=True)
            x = (data.X.T @ rows)[None, :]
            xx = operator.gram(data.weights)[None]
        else:
            weight = data.sum_by_task(full)
            x = operator.adjoint(full).T
            gram_weights = data.weights
            if data.shared:
                # One Gram matrix per task, although the rows are shared: entries are
                # missing, or have weights.
                gram_weights = np.ascontiguousarray(full)
            xx = operator.gram(gram_weights)
        return cls(
            tasks=np.asarray(data.tasks),
            shared=data.shared,
            weight=weight,
            x=x,
            xx=xx,
            y=data.sum_by_task(weighted),
            yy=data.sum_by_task(data.targets * weighted),
            xy=operator.adjoint(weighted),
            x_shift=x_shift,
            y_shift=y_shift,
            n_rows=data.sizes,
            features=tuple(features),
        )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.x_shift)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    def __add__(self, other: TaskStatistics) -> TaskStatistics:
        mine, theirs = self._aligned(other)
        return mine._plus(theirs, 1)

    def __sub__(self, other: TaskStatistics) -> TaskStatistics:
        mine, theirs = self._aligned(other)
        if (mine.n_rows < theirs.n_rows).any():
            raise ValueError(
                "rows are taken away that are not there: a task has more in the second "
                "statistics"
            )
        return mine._plus(theirs, -1)

    def _plus(self, other: TaskStatistics, sign: int) -> TaskStatistics:
        """Add or subtract sums of the same tasks about the same shifts."""
        return replace(
            self,
            weight=self.weight + sign * other.weight,
            x=self.x + sign * other.x,
            xx=self.xx + sign * other.xx,
            y=self.y + sign * other.y,
            yy=self.yy + sign * other.yy,
            xy=self.xy + sign * other.xy,
            n_rows=self.n_rows + sign * other.n_rows,
        )

    @property
    def mean(self) -> Array:
        """Mean of the features over the rows of all tasks, (d,)."""
        return self.x_shift + self.x.sum(axis=0) / self.weight.sum()

    @property
    def std(self) -> Array:
        """Standard deviation of the features over the rows of all tasks, (d,)."""
        total = self.weight.sum()
        mean = self.x.sum(axis=0) / total
        mean_squares = np.einsum("gii->i", self.xx) / total
        variances = mean_squares - np.square(mean)
        return np.sqrt(np.maximum(variances, 0.0))

    def scaled(
        self,
        factors: Array,
        targets: Array | float = 1.0,
        center: Array | float = 0.0,
    ) -> TaskStatistics:
        """Return the statistics of scaled features and targets.

        Parameters
        ----------
        factors : ndarray of shape (d,)
            Factors of the features; ``1 / std`` standardizes them.
        targets, center : ndarray of shape (T,) or float
            `center` is subtracted from the targets, which are then multiplied by
            `targets`.
        """
        f = np.asarray(factors, dtype=np.float64)
        return replace(
            self,
            x=self.x * f,
            xx=self.xx * f[:, None] * f,
            y=self.y * targets,
            yy=self.yy * np.square(targets),
            xy=self.xy * f[:, None] * targets,
            x_shift=self.x_shift * f,
            y_shift=(self.y_shift - center) * targets,
        )

    def pooled(self) -> TaskStatistics:
        """Return the statistics of a single task with the rows of all tasks.

        Shared rows count once for each target.
        """
        # Sums about different shifts cannot be added.
        y_shift = np.full(self.n_tasks, self.y_shift.mean())
        stats = self._about(self.x_shift, y_shift)
        # Sums over shared rows are stored once for all targets.
        times = self.n_tasks // len(self.weight)
        return replace(
            stats,
            tasks=np.zeros(1, dtype=int),
            shared=True,
            weight=times * stats.weight.sum(axis=0, keepdims=True),
            x=times * stats.x.sum(axis=0, keepdims=True),
            xx=times * stats.xx.sum(axis=0, keepdims=True),
            y=stats.y.sum(keepdims=True),
            yy=stats.yy.sum(keepdims=True),
            xy=stats.xy.sum(axis=1, keepdims=True),
            y_shift=stats.y_shift[:1],
            n_rows=stats.n_rows.sum(keepdims=True),
        )

    def squared_errors(self, W: Array, b: Array) -> Array:
        """Return the weighted squared errors of the tasks (T,).

        Parameters
        ----------
        W : ndarray of shape (d, T)
            Coefficients.
        b : ndarray of shape (T,)
            Intercepts.
        """
        # The error of a row is the error about the shifts plus this constant.
        constant = self.y_shift - self.x_shift @ W - b
        images = np.matmul(self.xx, W.T[:, :, None])[:, :, 0]
        quadratic = np.einsum("dt,td->t", W, images)
        x = np.broadcast_to(self.x, W.T.shape)
        error_sums = self.y - np.einsum("dt,td->t", W, x)
        linear = 2.0 * constant * error_sums
        cross = 2 * (W * self.xy).sum(axis=0)
        errors = self.yy - cross + quadratic + linear + self.weight * constant**2
        # Rounding can make small errors negative.
        return np.maximum(errors, 0.0)

    def sufficient_statistics(self, *, centred: bool) -> tuple[TaskData, Array, Array]:
        """Return data of d + 1 rows per design with the same squared loss.

        If `centred`, the means are subtracted, and the loss is the loss with the best
        intercepts, ``y_mean - x_mean w``.

        Returns
        -------
        data : TaskData
        x_mean : ndarray of shape (1, d) or (T, d)
        y_mean : ndarray of shape (T,)

        Raises
        ------
        ValueError
            If a task has no rows, or weights of 0 only.
        """
        is_empty = np.broadcast_to(self.weight <= 0, self.n_tasks)
        empty = [str(task) for task in self.tasks[is_empty]]
        if empty:
            raise ValueError(
                f"no rows of {len(empty)} tasks: {', '.join(empty[:5])}; leave them out"
            )
        s = self
        x_mean = self.x / self.weight[:, None]
        y_mean = self.y / self.weight
        if not centred:
            s = self._about(0 * self.x_shift, 0 * self.y_shift)
            x_mean = 0 * x_mean
            y_mean = 0 * y_mean
        # Products of centered columns, (G, d, d), and with centered targets, (T, d).
        G, d = s.x.shape
        xx = s.xx - s.x[:, :, None] * x_mean[:, None, :]
        xy = (s.xy - s.x.T * y_mean).T
        squares = np.einsum("gii->gi", xx)
        uncentered_squares = squares + self.weight[:, None] * np.square(x_mean)
        graded = is_graded(squares, uncentered_squares, sums=True)
        # Any root of X'X will do. With columns of different sizes, take the root for
        # columns scaled to one size.
        is_scaled = graded[:, None] & (squares > 0)
        lengths = np.sqrt(np.maximum(squares, 0.0))
        sizes = np.where(is_scaled, lengths, 1.0)
        scaled_xx = xx / (sizes[:, None, :] * sizes[:, :, None])
        values, vectors = np.linalg.eigh(scaled_xx)
        xy = xy / sizes
        largest = np.maximum(values[:, -1:], 0.0)
        kept = values > _ROUNDING * d * largest
        roots = np.sqrt(np.where(kept, values, 0.0))
        # X = S V' with the roots in S, and targets S^-1 V'X'y.
        if G > 1:
            products = np.matmul(xy[:, None, :], vectors)[:, 0]
        else:
            products = xy @ vectors[0]
        products = products * kept
        targets = np.divide(
            products,
            roots,
            out=np.zeros_like(products),
            where=kept | np.zeros_like(products, dtype=bool),
        )
        # A row of zeros with the part of the targets that no coefficients fit.
        total = s.yy - s.y * y_mean
        rest_square = total - np.square(targets).sum(axis=1)
        rest = np.sqrt(np.maximum(rest_square, 0.0))
        X = roots[:, :, None] * vectors.transpose(0, 2, 1) * sizes[:, None, :]
        X = np.concatenate([X, np.zeros((G, 1, d))], axis=1)
        Y = np.column_stack([targets, rest])
        if G == 1:
            data = TaskData(X[0], np.ascontiguousarray(Y.T), self.tasks)
        else:
            data = TaskData(
                X.reshape(-1, d),
                Y.ravel(),
                self.tasks,
                offsets=np.arange(G + 1) * (d + 1),
            )
        if not graded.any():
            # Fits with shared decompositions reuse the eigenvectors.
            squares = np.where(kept, values, 0.0)
            data.decompositions[EIGENVECTORS] = (squares, vectors)
        return data, x_mean + s.x_shift, y_mean + s.y_shift

    def save(self, path: str | Path) -> Path:
        """Write the sums into a .npz file, without pickle.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        path = Path(path)
        buffer = io.BytesIO()
        header = {
            "schema": _SCHEMA,
            "shared": self.shared,
            "features": self.features,
            "tasks": self.tasks.tolist(),
        }
        np.savez(
            buffer,
            about=np.array(json.dumps(header)),
            weight=self.weight,
            x=self.x,
            xx=self.xx,
            y=self.y,
            yy=self.yy,
            xy=self.xy,
            n_rows=self.n_rows,
            x_shift=self.x_shift,
            y_shift=self.y_shift,
        )
        write_output(path, buffer.getvalue())
        return path

    @classmethod
    def load(cls, path: str | Path) -> TaskStatistics:
        """Read what `save` has written.

        Raises
        ------
        DataError
            If there is no such file, or it is something else.
        """
        try:
            with NpzArchive(Path(path), str(path)) as stored:
                header = json.loads(str(stored.array("about")))
                arrays = {name: stored.array(name) for name in _ARRAYS}
            if header["schema"] != _SCHEMA:
                raise DataError(
                    f"{path}: written by another version of mtlrun",
                    "Compute the statistics again.",
                )
            tasks = np.asarray(header["tasks"])
            shared = bool(header["shared"])
            features = tuple(header["features"])
        except (
            OSError,
            EOFError,
            KeyError,
            TypeError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            raise DataError(
                f"{path}: {error}", "Give a file written by TaskStatistics.save."
            ) from None
        return cls(tasks=tasks, shared=shared, features=features, **arrays)

    def _aligned(self, other: TaskStatistics) -> tuple[TaskStatistics, TaskStatistics]:
        """Return both with the same tasks, groups and shifts."""
        for label, ours, others in (
            ("features", self.n_features, other.n_features),
            ("names of features", self.features, other.features),
            ("design", self.shared, other.shared),
        ):
            if ours != others:
                raise ValueError(
                    "statistics of different data cannot be combined: "
                    f"{label} {ours} and {others}"
                )
        if self.shared and not np.array_equal(self.tasks, other.tasks):
            raise ValueError(
                "statistics of different data cannot be combined: their targets have "
                "other names"
            )
        tasks = self.tasks
        if not self.shared:
            tasks = np.union1d(self.tasks, other.tasks)
        # One set of sums for all tasks only where both have one.
        by_task = len(self.weight) != 1 or len(other.weight) != 1 or not self.shared
        a = self._spread(tasks, by_task)
        b = other._spread(tasks, by_task)
        y_shift = np.where(a.n_rows > 0, a.y_shift, b.y_shift)
        return a._about(a.x_shift, y_shift), b._about(a.x_shift, y_shift)

    def _spread(self, tasks: Array, by_task: bool) -> TaskStatistics:
        """Return the statistics with more tasks, which have no rows.

        If `by_task`, sums over shared rows are repeated for each task.
        """
        # Targets of shared rows have the order of their columns, not of their names.
        order = np.argsort(tasks)
        positions = order[np.searchsorted(tasks, self.tasks, sorter=order)]

        def wider(values: Array) -> Array:
            out = np.zeros((len(tasks), *values.shape[1:]), values.dtype)
            # Sums that all tasks share are repeated.
            out[positions] = values
            return out

        wide = replace(
            self,
            tasks=tasks,
            y=wider(self.y),
            yy=wider(self.yy),
            xy=wider(self.xy.T).T,
            y_shift=wider(self.y_shift),
            n_rows=wider(self.n_rows),
        )
        if not by_task:
            return wide
        return replace(
            wide,
            weight=wider(self.weight),
            x=wider(self.x),
            xx=wider(self.xx),
        )

    def _about(self, x_shift: Array, y_shift: Array) -> TaskStatistics:
        """Return the statistics about other shifts."""
        dx = self.x_shift - x_shift
        dy = self.y_shift - y_shift
        if not (dx.any() or dy.any()):
            return self
        # sum (x + dx)(x + dx)' = sum x x' + (sum x) dx' + dx (sum x)' + w dx dx', and
        # so on for the other sums.
        outer = self.x[:, :, None] * dx
        weight = self.weight
        xx = self.xx + outer
        xx += outer.transpose(0, 2, 1)
        xx += weight[:, None, None] * np.outer(dx, dx)
        xy = self.xy + np.outer(dx, self.y)
        xy = xy + self.x.T * dy
        xy = xy + np.outer(dx, weight * dy)
        return replace(
            self,
            x=self.x + weight[:, None] * dx,
            xx=xx,
            y=self.y + weight * dy,
            yy=self.yy + 2.0 * dy * self.y + weight * dy**2,
            xy=xy,
            x_shift=x_shift,
            y_shift=y_shift,
        )
