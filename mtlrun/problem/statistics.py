"""Data of several tasks by their sums: all that squared-loss models need, in d^2 numbers per design.

Sums can be added and subtracted: rows may come in chunks, from several sites, or leave as the test part of a fold.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.errors import DataError
from mtlrun.problem.moments import Moments
from mtlrun.problem.taskdata import TaskData
from mtlrun.utils.io import write_atomic

Array = np.ndarray[Any, np.dtype[Any]]

_SCHEMA = 1


@dataclass(frozen=True, eq=False)
class TaskStatistics:
    """Weighted sums of rows, about a shift, by task or for all tasks that share their rows.

    ``a + b`` are the statistics of the rows of both, ``a - b`` those of a without the rows of b. Tasks of a sum are
    those of both, sorted. Sums are taken about `x_shift` and `y_shift`, best near the means, since sums of large
    numbers cancel; those of a second chunk are moved to the shift of the first.

    Attributes
    ----------
    tasks : ndarray of shape (T,)
        Sorted labels of the tasks; of a shared design the names or positions of the targets.
    shared : bool
        Whether all tasks have the same rows and weights.
    moments : Moments
        Of ``x - x_shift`` and ``y - y_shift``.
    x_shift : ndarray of shape (d,)
    y_shift : ndarray of shape (T,)
    n_rows : ndarray of shape (T,)
        Rows of every task; those of a shared design count for each.
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
    moments: Moments
    x_shift: Array
    y_shift: Array
    n_rows: Array
    features: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        task_id: Any = None,
        sample_weight: Any = None,
        *,
        features: Sequence[str] = (),
        like: TaskStatistics | None = None,
    ) -> TaskStatistics:
        """Sum up rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,) or (n, T)
            One target per row with `task_id`; else one column per task, NaN where a target is missing.
        task_id : array-like of shape (n,), optional
        sample_weight : array-like of shape (n,) or (n, T), optional
        features : sequence of str, optional
            Names of the columns.
        like : TaskStatistics, optional
            Take its shift, as for the chunks after the first; default: the means of these rows.

        Raises
        ------
        ValueError
            For values that are missing or infinite, or shapes that do not fit.
        """
        y = np.asarray(y, dtype=np.float64)
        if task_id is not None or y.ndim == 1:
            ids = np.zeros(len(y), dtype=int) if task_id is None else np.asarray(task_id)
            data = TaskData.from_stacked(X, y, ids, weights=sample_weight)
        else:
            data = TaskData.from_matrix(X, y, weights=sample_weight)
        return cls.of_data(data, features=features, like=like)

    @classmethod
    def of_data(
        cls, data: TaskData, *, features: Sequence[str] = (), like: TaskStatistics | None = None
    ) -> TaskStatistics:
        """Sum up checked data; arguments as of `of`."""
        x_shift, y_shift = cls._shifts(data, like)
        if not data.sparse:
            data = data.with_design(data.X - x_shift)
        data = data.with_targets(data.targets - data.spread(y_shift))
        counts = data.sizes if data.observed is None else data.observed.sum(axis=0)
        moments = Moments.of(data, by_task=not data.uniform)
        return cls(np.asarray(data.tasks), data.shared, moments, x_shift, y_shift, np.asarray(counts), tuple(features))

    @staticmethod
    def _shifts(data: TaskData, like: TaskStatistics | None) -> tuple[Array, Array]:
        """Return the shifts for data: those of `like` where it has them, else means."""
        w = data.effective_weights()
        total = data.sum_by_task(np.ones_like(data.targets) if w is None else w)
        means = data.sum_by_task(data.targets if w is None else w * data.targets) / np.where(total > 0, total, 1.0)
        if data.sparse:  # a shift would make it dense
            x_shift = np.zeros(data.n_features)
        else:
            x_shift = data.X.mean(axis=0) if like is None or not like.x_shift.any() else like.x_shift
        if like is None:
            return x_shift, means
        known = dict(zip(like.tasks.tolist(), like.y_shift.tolist(), strict=True))
        return x_shift, np.array([known.get(task, mean) for task, mean in zip(data.tasks.tolist(), means, strict=True)])

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
        moments = mine.moments + theirs.moments
        return replace(mine, moments=moments, n_rows=mine.n_rows + theirs.n_rows)

    def __sub__(self, other: TaskStatistics) -> TaskStatistics:
        mine, theirs = self._aligned(other)
        n_rows = mine.n_rows - theirs.n_rows
        if (n_rows < 0).any():
            raise ValueError("rows are taken away that are not there: a task has more in the second statistics")
        return replace(mine, moments=mine.moments - theirs.moments, n_rows=n_rows)

    @property
    def mean(self) -> Array:
        """Mean of the features over the rows of all tasks, (d,)."""
        m = self.moments
        return self.x_shift + m.x.sum(axis=0) / m.weight.sum()

    @property
    def std(self) -> Array:
        """Standard deviation of the features over the rows of all tasks, (d,)."""
        m, total = self.moments, self.moments.weight.sum()
        squares = np.einsum("gii->i", m.xx) / total - np.square(m.x.sum(axis=0) / total)
        return np.sqrt(np.maximum(squares, 0.0))

    def scaled(self, factors: Array) -> TaskStatistics:
        """Return the statistics of the features times factors (d,); ``1 / std`` standardizes them."""
        m, f = self.moments, np.asarray(factors, dtype=np.float64)
        moments = replace(m, x=m.x * f, xx=m.xx * f[:, None] * f, xy=m.xy * f[:, None])
        return replace(self, moments=moments, x_shift=self.x_shift * f)

    def condensed(self, *, centred: bool) -> tuple[TaskData, Array, Array]:
        """Return data of d + 1 rows per design with the same squared loss, and the means taken off if `centred`.

        With the means off, the loss is that with the best intercepts, ``y_mean - x_mean w``.

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
        empty = [str(task) for task in self.tasks[np.broadcast_to(self.moments.weight <= 0, self.n_tasks)]]
        if empty:
            raise ValueError(f"no rows of {len(empty)} tasks: {', '.join(empty[:5])}; leave them out")
        stats = self if centred else self._about(np.zeros(self.n_features), np.zeros(self.n_tasks))
        data, x_mean, y_mean = stats.moments.condensed(self.tasks, centred=centred)
        return data, x_mean + stats.x_shift, y_mean + stats.y_shift

    def save(self, path: str | Path) -> Path:
        """Write the sums into a .npz file, without pickle.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        path, buffer = Path(path), io.BytesIO()
        about = {"schema": _SCHEMA, "shared": self.shared, "features": self.features, "tasks": self.tasks.tolist()}
        arrays = {name: getattr(self.moments, name) for name in ("weight", "x", "xx", "y", "yy", "xy")}
        arrays |= {"x_shift": self.x_shift, "y_shift": self.y_shift, "n_rows": self.n_rows}
        np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
        write_atomic(path, buffer.getvalue())
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
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(str(stored["about"]))
                sums = {name: stored[name] for name in ("weight", "x", "xx", "y", "yy", "xy")}
                x_shift, y_shift, n_rows = (stored[name] for name in ("x_shift", "y_shift", "n_rows"))
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{path}: {error}", "Give a file written by TaskStatistics.save.") from None
        if about.get("schema") != _SCHEMA:
            raise DataError(f"{path}: written by another version of mtlrun", "Compute the statistics again.")
        tasks, features = np.asarray(about["tasks"]), tuple(about["features"])
        return cls(tasks, bool(about["shared"]), Moments(**sums), x_shift, y_shift, n_rows, features)

    def _aligned(self, other: TaskStatistics) -> tuple[TaskStatistics, TaskStatistics]:
        """Return both with the same tasks, groups and shifts."""
        for what, ours, others in (
            ("features", self.n_features, other.n_features),
            ("names of features", self.features, other.features),
            ("design", self.shared, other.shared),
        ):
            if ours != others:
                raise ValueError(f"statistics of different data cannot be combined: {what} {ours} and {others}")
        if self.shared and not np.array_equal(self.tasks, other.tasks):
            raise ValueError("statistics of different data cannot be combined: their targets have other names")
        tasks = np.union1d(self.tasks, other.tasks) if not self.shared else self.tasks
        by_task = len(self.moments.weight) != 1 or len(other.moments.weight) != 1 or not self.shared
        a, b = (stats._spread(tasks, by_task) for stats in (self, other))
        y_shift = np.where(a.n_rows > 0, a.y_shift, b.y_shift)
        return a._about(a.x_shift, y_shift), b._about(a.x_shift, y_shift)

    def _spread(self, tasks: Array, by_task: bool) -> TaskStatistics:
        """Return the statistics with more tasks, of zero rows, and with sums for every task if asked."""
        place = np.searchsorted(tasks, self.tasks)
        T, m = len(tasks), self.moments

        def wider(values: Array, repeat: bool = False) -> Array:
            values = np.repeat(values, self.n_tasks, axis=0) if repeat and len(values) == 1 != self.n_tasks else values
            out = np.zeros((T, *values.shape[1:]), values.dtype)
            out[place] = values
            return out

        if by_task:
            m = Moments(
                wider(m.weight, True), wider(m.x, True), wider(m.xx, True), wider(m.y), wider(m.yy), wider(m.xy.T).T
            )
        return replace(self, tasks=tasks, moments=m, y_shift=wider(self.y_shift), n_rows=wider(self.n_rows))

    def _about(self, x_shift: Array, y_shift: Array) -> TaskStatistics:
        """Return the statistics about other shifts."""
        dx, dy = self.x_shift - x_shift, self.y_shift - y_shift
        if not (dx.any() or dy.any()):
            return self
        m = self.moments
        outer = m.x[:, :, None] * dx
        moments = Moments(
            m.weight,
            m.x + m.weight[:, None] * dx,
            m.xx + outer + outer.transpose(0, 2, 1) + m.weight[:, None, None] * np.outer(dx, dx),
            m.y + m.weight * dy,
            m.yy + 2.0 * dy * m.y + m.weight * dy**2,
            m.xy + np.outer(dx, m.y) + m.x.T * dy + np.outer(dx, m.weight * dy),
        )
        return replace(self, moments=moments, x_shift=x_shift, y_shift=y_shift)
