"""Sums of products of the rows of a large table, by fold and task, in one pass."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any, Self

import numpy as np

from mtlrun.chunks.table import Chunk, ChunkedTable, release_memory
from mtlrun.engine.averages import shrunken_variances
from mtlrun.engine.pool import Pool
from mtlrun.engine.record import OK
from mtlrun.errors import ConfigError, DataError, counted, listed
from mtlrun.problem import memory
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]
Key = tuple[int, str | int | None]

#: Groups of files whose sums are added up before they are added to each other. Their
#: number must not depend on the number of processes: the order of additions decides the
#: last digits.
MAX_LEAVES = 32
#: Seconds between lines of progress.
EVERY = 5.0
# A standard deviation below this, relative to the mean, is rounding.
_CONSTANT = 1e-10


# ---------------------------------------------------------------------- one pass over the files


@dataclass
class Sums:
    """Sums of products V V' and numbers of rows, by fold and task. Half of a product travels between processes."""

    products: dict[Key, Array] = field(default_factory=dict)
    counts: dict[Key, int] = field(default_factory=dict)
    rows: int = 0

    def add(self, key: Key, product: Array, count: int) -> None:
        """Add a product of the rows of a fold and task."""
        if key in self.products:
            self.products[key] += product
        else:
            self.products[key] = product
        self.counts[key] = self.counts.get(key, 0) + count

    def merge(self, other: Sums) -> None:
        """Add the sums of other rows."""
        for key, product in other.products.items():
            self.add(key, product, other.counts[key])
        self.rows += other.rows

    def mean_weight(self) -> float:
        """Return the mean weight of rows, from sums of `Products`."""
        total = math.fsum(float(product[0, 0]) for product in self.products.values())
        return total / sum(self.counts.values())

    def divide(self, weight: float) -> None:
        """Divide the weights of all rows."""
        for product in self.products.values():
            product /= weight

    @property
    def nbytes(self) -> int:
        """Bytes that travel."""
        return sum(8 * len(p) * (len(p) + 1) // 2 for p in self.products.values())

    def __getstate__(self) -> dict[str, Any]:
        halves = {
            key: (len(p), p[np.triu_indices(len(p))])
            for key, p in self.products.items()
        }
        return {"products": halves, "counts": self.counts, "rows": self.rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.products, self.counts, self.rows = {}, state["counts"], state["rows"]
        for key, (size, half) in state["products"].items():
            product = np.zeros((size, size))
            product[np.triu_indices(size)] = half
            self.products[key] = product + np.triu(product, 1).T


@dataclass(frozen=True)
class Products:
    """The first pass: V are ones, features and targets, weighted."""

    def groups(self, chunk: Chunk, table: ChunkedTable) -> Iterator[tuple[Key, Array]]:
        """Yield fold and task of some rows, and their V."""
        for fold, task, Z, weights in chunk.groups(len(table.targets)):
            yield (fold, task), Z if weights is None else Z * np.sqrt(weights)


@dataclass(frozen=True)
class Losses:
    """The second pass: V are ones, weights, and the weighted losses of M methods, each fitted without the fold.

    Attributes
    ----------
    coef, intercept : ndarray of shape (K, M, d, T) and (K, M, T)
        By fold, for features and targets less their shifts.
    scales : ndarray of shape (T,)
        What squared errors are divided by.
    totals : ndarray of shape (T,)
        Weight of the rows of every task.
    tasks : dict of str to int
    folder : Path or None
        Where coefficients are stored, so that they need not be sent to the processes
        that read.
    """

    coef: Array
    intercept: Array
    scales: Array
    totals: Array
    tasks: dict[str, int]
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            np.save(self.folder / "coef.npy", self.coef, allow_pickle=False)
            np.save(self.folder / "intercept.npy", self.intercept, allow_pickle=False)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self.folder is not None:
            del state["coef"], state["intercept"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.folder is not None:
            self.__dict__["coef"] = np.load(self.folder / "coef.npy", mmap_mode="r")
            self.__dict__["intercept"] = np.load(self.folder / "intercept.npy")

    def groups(self, chunk: Chunk, table: ChunkedTable) -> Iterator[tuple[Key, Array]]:
        """Yield fold and task of some rows and their V; rows of a shared design as well with the sum over the tasks."""
        d, k = len(table.features), len(table.targets)
        for fold, task, Z, weights in chunk.groups(k, by_target=False):
            w = np.ones(Z.shape[1]) if weights is None else weights
            which = [self.tasks[task]] if isinstance(task, str) else list(range(k))
            coef = self.coef[fold][:, :, which].transpose(0, 2, 1)  # (M, t, d)
            errors = Z[d + 1 :] - (coef.reshape(-1, d) @ Z[1 : d + 1]).reshape(
                *coef.shape[:2], -1
            )
            errors -= self.intercept[fold][:, which, None]
            losses = w * errors**2 / self.scales[which, None]  # (M, t, n)
            if isinstance(task, str):
                yield (fold, task), np.vstack([np.ones_like(w), w, losses[:, 0]])
                continue
            for t in which:
                known = ~np.isnan(losses[0, t])
                yield (fold, t), np.vstack([np.ones_like(w), w, losses[:, t]])[:, known]
            together = np.nansum(losses / self.totals[which, None], axis=1)
            yield (fold, None), np.vstack([np.ones_like(w), w, together])


def sums_of(
    work: Products | Losses,
    table: ChunkedTable,
    files: Sequence[Path],
    folds: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda rows, files: None,
) -> Sums:
    """Add up the rows of some files; `progress` hears of the rows and of the files read so far."""
    sums = Sums()
    for number, file in enumerate(files):
        for chunk in table.chunks(file, folds, seed):
            for key, V in work.groups(chunk, table):
                if key not in sums.products:
                    _allow_one_more(sums, len(V), table)
                sums.add(key, V @ V.T, V.shape[1])
            sums.rows += chunk.Z.shape[1]
            progress(sums.rows, number)
    release_memory()
    return sums


def _allow_one_more(sums: Sums, size: int, table: ChunkedTable) -> None:
    """Refuse more sums, size x size each, than fit into memory; the machine is looked at after every 64 MB."""
    count, each = len(sums.products), 16 * size**2
    if count * each >> 26 != (count + 1) * each >> 26:
        what = f"the sums of {counted(count + 1, 'fold')} of tasks with {counted(len(table.features), 'feature')}"
        memory.require(
            (count + 1) * each,
            what,
            "Leave out features (--drop), or take fewer folds.",
        )


def add_up(
    work: Products | Losses,
    table: ChunkedTable,
    pool: Pool,
    folds: int,
    seed: int,
    say: Callable[[str], None],
) -> Sums:
    """Read all files once; the result does not depend on who reads what, nor on workers that die.

    Raises
    ------
    DataError
        For files that are damaged, or cells that are no numbers.
    ConfigError
        If a part could not be read for another reason.
    """
    progress = ReadProgress(say, len(table.files))
    leaves = leaves_of(table.files)
    sums = Sums()
    if pool.is_serial:
        for files in leaves:
            part = sums_of(work, table, files, folds, seed, progress.show)
            sums.merge(part)
            progress.add(part.rows, len(files))
        progress.end()
        return sums
    items = [
        (index, (work, table, files, folds, seed)) for index, files in enumerate(leaves)
    ]
    finished: dict[int, Sums] = {}
    next_leaf = 0
    n_bytes = 0
    for index, outcome in pool.run(_part, items):
        if isinstance(outcome.value, DataError):
            raise outcome.value
        if outcome.status != OK:
            raise ConfigError(
                f"{leaves[index][0]}: {outcome.error}", "Run the command again."
            )
        finished[index] = outcome.value
        n_bytes += outcome.value.nbytes
        # Floating-point addition is not associative: merging in the order of the files
        # gives the same bits whichever worker finishes first.
        while next_leaf in finished:
            part = finished.pop(next_leaf)
            sums.merge(part)
            progress.add(part.rows, len(leaves[next_leaf]))
            next_leaf += 1
    progress.end()
    say(f"{n_bytes / 1e6:.1f} MB of sums sent by the processes that read")
    return sums


def leaves_of(files: Sequence[Path]) -> list[Sequence[Path]]:
    """Return the groups of files whose sums are added up first, in their order."""
    n_leaves = min(len(files), MAX_LEAVES)
    edges = np.linspace(0, len(files), n_leaves + 1).astype(int)
    return [files[a:b] for a, b in pairwise(edges)]


@dataclass
class ReadProgress:
    """Tells how many rows have been read, at most every few seconds.

    Attributes
    ----------
    say : callable
    n_files : int
    """

    say: Callable[[str], None]
    n_files: int

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._last = self._started
        self._rows = 0
        self._files = 0

    def add(self, rows: int, files: int) -> None:
        """Count rows and files that have been read."""
        self._rows += rows
        self._files += files
        self.show(0, 0)

    def show(self, rows: int, files: int) -> None:
        """Tell the progress with some more rows and files, unless it was told lately."""
        if time.monotonic() - self._last > EVERY:
            self._say(rows, files)

    def end(self) -> None:
        """Tell the total."""
        self._say(0, 0)

    def _say(self, rows: int, files: int) -> None:
        self._last = time.monotonic()
        n_rows = self._rows + rows
        rate = n_rows / max(self._last - self._started, 1e-9)
        self.say(
            f"{n_rows:,} rows of {self._files + files} of "
            f"{counted(self.n_files, 'file')}, {rate:,.0f} rows per second"
        )


def _part(*arguments: Any) -> Sums | DataError:
    """Return the sums of a part, or what is wrong with a file; another process runs this."""
    try:
        return sums_of(*arguments)
    except DataError as error:
        return error


def statistics_of(
    table: ChunkedTable, sums: Sums, folds: int
) -> tuple[list[TaskStatistics], list[str]]:
    """Return the statistics of every fold, taken out of the sums, and the names of the tasks.

    Raises
    ------
    DataError
        Without rows.
    """
    names = task_names(table, sums.products, sums.rows)
    return [fold_statistics(table, sums, fold, names) for fold in range(folds)], names


def task_names(table: ChunkedTable, keys: Iterable[Key], n_rows: int) -> list[str]:
    """Return the names of the tasks: of the targets, or those that occur in sums.

    Raises
    ------
    DataError
        Without rows.
    """
    if not n_rows:
        raise DataError(
            f"{table.files[0].parent}: no rows with a target and a positive weight"
        )
    if table.task is None:
        return list(table.targets)
    return sorted({str(task) for _, task in keys})


def fold_statistics(
    table: ChunkedTable, sums: Sums, fold: int, names: Sequence[str]
) -> TaskStatistics:
    """Return the statistics of a fold, taken out of the sums."""
    if table.task is None:
        return _shared(table, sums, fold)
    return _by_task(table, sums, [(fold, name) for name in names], shared=False)


def _shared(table: ChunkedTable, sums: Sums, fold: int) -> TaskStatistics:
    """Return the statistics of a fold: of the rows with all targets, and of each target of the others."""
    d, k = len(table.features), len(table.targets)
    S = sums.products.pop((fold, None), np.zeros((1 + d + k, 1 + d + k)))
    x, y = slice(1, 1 + d), slice(1 + d, None)
    x_shift, y_shift = np.split(table.shift, [d])
    whole = TaskStatistics(
        tasks=np.arange(k),
        shared=True,
        weight=S[0, :1],
        x=S[:1, x],
        xx=S[x, x][None],
        y=S[0, y],
        yy=np.diagonal(S)[y],
        xy=S[x, y],
        x_shift=x_shift,
        y_shift=y_shift,
        n_rows=np.full(k, sums.counts.get((fold, None), 0)),
        features=table.features,
    )
    keys: list[Key] = [(fold, t) for t in range(k)]
    return (
        whole + _by_task(table, sums, keys, shared=True)
        if sums.products.keys() & set(keys)
        else whole
    )


def _by_task(
    table: ChunkedTable, sums: Sums, keys: Sequence[Key], *, shared: bool
) -> TaskStatistics:
    d, T = len(table.features), len(keys)
    x_shift, y_shift = np.split(table.shift, [d])
    found = TaskStatistics(
        tasks=np.arange(T),
        shared=shared,
        weight=np.zeros(T),
        x=np.zeros((T, d)),
        xx=np.zeros((T, d, d)),
        y=np.zeros(T),
        yy=np.zeros(T),
        xy=np.zeros((d, T)),
        x_shift=x_shift,
        y_shift=y_shift if shared else np.full(T, y_shift[0]),
        n_rows=np.array([sums.counts.get(key, 0) for key in keys]),
        features=table.features,
    )
    for t, key in enumerate(keys):
        S = sums.products.pop(key, None)
        if S is not None:
            found.weight[t], found.x[t], found.xx[t] = (
                S[0, 0],
                S[0, 1:-1],
                S[1:-1, 1:-1],
            )
            found.y[t], found.yy[t], found.xy[:, t] = S[0, -1], S[-1, -1], S[1:-1, -1]
    return found


def check_tasks(rows: Array, names: Sequence[str], folds: int) -> None:
    """Refuse tasks with so few rows that folds of them are empty; `rows` are those of all but two folds, at the least.

    Raises
    ------
    DataError
        Names the tasks.
    """
    poor = [name for name, n in zip(names, rows, strict=True) if n < 1]
    if poor:
        text = f"{counted(len(poor), 'task')} of so few rows that some training parts have none: {listed(poor)}"
        raise DataError(text, f"Take their rows out, or take fewer folds than {folds}.")


# ---------------------------------------------------------------------- cross-validation without rows
# Training parts are all rows less the folds left out, errors come from the sums.


@dataclass(frozen=True)
class Folds:
    """The statistics of every fold.

    Attributes
    ----------
    parts : sequence of TaskStatistics
    folder : Path or None
        Where they are stored, if other processes may read them there.
    """

    parts: Sequence[TaskStatistics]
    folder: Path | None = None

    @cached_property
    def whole(self) -> TaskStatistics:
        """Statistics of all rows."""
        return reduce(add, self.parts)

    def without(self, *left_out: int) -> TaskStatistics:
        """Return the statistics of all rows but those of some folds."""
        return reduce(lambda rest, fold: rest - self.parts[fold], left_out, self.whole)

    @cached_property
    def weights(self) -> Array:
        """Weight of the rows by fold and task."""
        return np.array(
            [np.broadcast_to(part.weight, part.n_tasks) for part in self.parts]
        )

    @cached_property
    def scales(self) -> Array:
        """Variance that divides squared errors of each task.

        See `mtlrun.comparison.gain.task_scales`.
        """
        variances = target_moments(self.whole)[1]
        if not self.whole.shared:
            variances = shrunken_variances(variances, self.whole.weight)
        return np.where(variances > 0, variances, np.nan)


def target_moments(statistics: TaskStatistics) -> tuple[Array, Array]:
    """Return mean and variance of the targets of every task; 0 without rows."""
    weight = np.where(statistics.weight > 0, statistics.weight, 1.0)
    mean = statistics.y / weight
    return statistics.y_shift + mean, np.maximum(
        statistics.yy / weight - np.square(mean), 0.0
    )


@dataclass(frozen=True, eq=False)
class KeptStatistics(TaskStatistics):
    """Statistics that keep their condensed rows for the next fit."""

    made: dict[bool, tuple[TaskData, Array, Array]] = field(default_factory=dict)

    def sufficient_statistics(self, *, centred: bool) -> tuple[TaskData, Array, Array]:
        if centred not in self.made:
            self.made[centred] = super().sufficient_statistics(centred=centred)
            self.made[centred][0].share_decompositions()
        return self.made[centred]

    def release(self) -> None:
        """Forget the condensed rows with their decompositions."""
        for data, _, _ in self.made.values():
            data.decompositions.clear()
        self.made.clear()


@dataclass(frozen=True)
class ScaledStatistics:
    """Statistics of training rows, their features standardized and their targets as `ScaledTargets` has them.

    Attributes
    ----------
    statistics : TaskStatistics
    factors : ndarray of shape (d,)
        What the features were multiplied by.
    center, scale : ndarray of shape (T,)
        Of the targets.
    """

    statistics: KeptStatistics
    factors: Array
    center: Array
    scale: Array

    @classmethod
    def of(cls, statistics: TaskStatistics) -> Self:
        """Standardize statistics."""
        std = np.where(
            statistics.std > _CONSTANT * np.abs(statistics.mean), statistics.std, 0.0
        )
        means, variances = target_moments(statistics)
        if not statistics.shared:  # the targets of all tasks have one unit
            weights = statistics.weight / statistics.weight.sum()
            center = np.sum(weights * means)
            variances = np.full_like(
                means, np.sum(weights * (variances + np.square(means - center)))
            )
            means = np.full_like(means, center)
        factors, scale = (
            np.where(s > 0, 1 / np.where(s > 0, s, 1.0), 1.0)
            for s in (std, np.sqrt(variances))
        )
        return cls(
            KeptStatistics(**vars(statistics.scaled(factors, scale, means))),
            factors,
            means,
            1 / scale,
        )

    @cached_property
    def pooled(self) -> KeptStatistics:
        """The same rows as those of one task."""
        return KeptStatistics(**{**vars(self.statistics.pooled()), "made": {}})
