"""Sums of products of the rows of a large table, by fold and task, in one pass.

Each row of a table is a column of a matrix V. A pass over the files adds up the
products V V' of the rows of each fold and task. In the first pass (`rows_of`), V holds
ones, features and targets; in the second (`Losses`), ones, weights and losses.
Subtracting some folds from the sums of all rows gives the statistics of a training part
(`Folds`).

Notation: d features, k targets, T tasks, M methods.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.chunks.table import Chunk, ChunkedTable, count_rows, release_memory
from mtlrun.engine.evaluation import shrunken_variances
from mtlrun.errors import ConfigError, DataError, MtlrunError, counted
from mtlrun.parallel.outcome import WorkItem
from mtlrun.parallel.pool import Pool
from mtlrun.parallel.status import OK
from mtlrun.problem import memory
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]
#: Fold and task. The task is a name if rows have one; in a shared design it is None for
#: rows with all targets, and the number of a target for the other rows that have it.
Key = tuple[int, str | int | None]

#: Number of groups of files whose sums are added up before the groups are. It must not
#: depend on the number of processes: the order of additions decides the last digits.
MAX_LEAVES = 32
#: Seconds between lines of progress.
PROGRESS_SECONDS = 5.0
#: Free memory is checked whenever the sums have grown by 2 to this power (64 MB).
_LOG2_CHECKED_BYTES = 26


# ------------------------------------------------------------ one pass over the files


@dataclass
class Sums:
    """Sums of products V V' and numbers of rows, by fold and task.

    Products are symmetric: only one half of each is sent between processes.

    Attributes
    ----------
    products : dict of Key to ndarray
    counts : dict of Key to int
        Number of rows in each product.
    rows : int
        Number of rows that were read.
    """

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

    def normalize_weights(self) -> float:
        """Divide the weights of rows by their mean, in sums of `rows_of`; return it."""
        # The first row of V is ones: the first entry of V V' is the weight of the rows.
        weights = [float(product[0, 0]) for product in self.products.values()]
        mean = math.fsum(weights) / sum(self.counts.values())
        for product in self.products.values():
            product /= mean
        return mean

    @property
    def nbytes(self) -> int:
        """Number of bytes that are sent between processes."""
        n_bytes = 0
        for product in self.products.values():
            size = len(product)
            n_bytes += 8 * size * (size + 1) // 2
        return n_bytes

    def __getstate__(self) -> dict[str, Any]:
        halves = {}
        for key, product in self.products.items():
            size = len(product)
            halves[key] = (size, product[np.triu_indices(size)])
        return {"products": halves, "counts": self.counts, "rows": self.rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.counts = state["counts"]
        self.rows = state["rows"]
        self.products = {}
        for key, (size, half) in state["products"].items():
            upper = np.zeros((size, size))
            upper[np.triu_indices(size)] = half
            lower = np.triu(upper, 1).T  # without the diagonal, which is in `upper`
            self.products[key] = upper + lower


#: Yields fold and task of some rows of a chunk, and their V: `rows_of`, `Losses.groups`.
Groups = Callable[[Chunk, ChunkedTable], Iterator[tuple[Key, Array]]]


def rows_of(chunk: Chunk, table: ChunkedTable) -> Iterator[tuple[Key, Array]]:
    """Yield fold and task of some rows, and their V: ones, features and targets.

    Weighted rows are multiplied by the square root of their weight.
    """
    for fold, task, Z, weights in chunk.groups(len(table.targets)):
        key = (fold, task)
        if weights is None:
            yield key, Z
        else:
            # V V' then has each row times its weight.
            yield key, Z * np.sqrt(weights)


@dataclass(frozen=True)
class Losses:
    """The second pass: V are ones, weights, and the weighted losses of M methods.

    Each method is fitted without the fold of the row.

    Attributes
    ----------
    coef : ndarray of shape (n_folds, M, d, T)
    intercept : ndarray of shape (n_folds, M, T)
        By fold, for features and targets less their shifts.
    scales : ndarray of shape (T,)
        Variance that squared errors of each task are divided by.
    totals : ndarray of shape (T,)
        Weight of the rows of each task.
    tasks : dict of str to int
        Numbers of the tasks by their names.
    folder : Path or None
        Folder where coefficients are stored, so that they need not be sent to the
        processes that read.
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
            del state["coef"]
            del state["intercept"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.folder is not None:
            self.__dict__["coef"] = np.load(self.folder / "coef.npy", mmap_mode="r")
            self.__dict__["intercept"] = np.load(self.folder / "intercept.npy")

    def groups(self, chunk: Chunk, table: ChunkedTable) -> Iterator[tuple[Key, Array]]:
        """Yield fold and task of some rows, and their V.

        In a shared design, rows come once for each task that has a target, and once for
        the task None, with the sum of their losses over the tasks.
        """
        k = len(table.targets)
        for fold, task, Z, weights in chunk.groups(k, by_target=False):
            n_rows = Z.shape[1]
            ones = np.ones(n_rows)
            if weights is None:
                weights = ones
            if isinstance(task, str):
                task_number = self.tasks[task]
                losses = self._losses(fold, [task_number], Z, weights)
                V = np.vstack([ones, weights, losses[:, 0]])
                yield (fold, task), V
                continue
            targets = list(range(k))
            losses = self._losses(fold, targets, Z, weights)
            for target in targets:
                has_target = ~np.isnan(losses[0, target])
                V = np.vstack([ones, weights, losses[:, target]])
                yield (fold, target), V[:, has_target]
            # Over the weight of its rows: each task counts the same.
            shares = losses / self.totals[targets, None]
            sums = np.nansum(shares, axis=1)
            V = np.vstack([ones, weights, sums])
            yield (fold, None), V

    def _losses(
        self,
        fold: int,
        tasks: list[int],
        Z: Array,
        weights: Array,
    ) -> Array:
        """Return the weighted losses of rows, of shape (M, n_tasks, n_rows).

        They are NaN where a target is missing.
        """
        coef = self.coef[fold][:, :, tasks]
        coef = coef.transpose(0, 2, 1)
        intercept = self.intercept[fold][:, tasks]
        n_methods, n_tasks, d = coef.shape
        features = Z[1 : d + 1]
        targets = Z[d + 1 :]
        # One product of two matrices for all methods and tasks.
        predicted = coef.reshape(-1, d) @ features
        errors = targets - predicted.reshape(n_methods, n_tasks, -1)
        errors -= intercept[:, :, None]
        losses: Array = weights * errors**2 / self.scales[tasks, None]
        return losses


def sums_of(
    groups: Groups,
    table: ChunkedTable,
    files: Sequence[Path],
    progress: Callable[[int, int], None] | None = None,
) -> Sums:
    """Add up the rows of some files.

    Parameters
    ----------
    groups : callable
        `rows_of`, or `Losses.groups`.
    table : ChunkedTable
    files : sequence of Path
    progress : callable, optional
        Takes the numbers of rows and of files read so far, after each chunk. Workers
        have none: their results are counted when they arrive.
    """
    sums = Sums()
    for n_files, file in enumerate(files):
        for chunk in table.chunks(file):
            for key, V in groups(chunk, table):
                size, n_rows = V.shape
                if key not in sums.products:
                    n_products = len(sums.products) + 1
                    n_bytes = 16 * size**2
                    before = (n_products - 1) * n_bytes >> _LOG2_CHECKED_BYTES
                    after = n_products * n_bytes >> _LOG2_CHECKED_BYTES
                    if before != after:
                        n_folds = counted(n_products, "fold")
                        n_features = counted(len(table.features), "feature")
                        memory.require(
                            n_products * n_bytes,
                            f"the sums of {n_folds} of tasks with {n_features}",
                            "Leave out features (--drop), or take fewer folds.",
                        )
                sums.add(key, V @ V.T, n_rows)
            sums.rows += chunk.Z.shape[1]
            if progress is not None:
                progress(sums.rows, n_files)
    release_memory()
    return sums


def run_in_order(
    pool: Pool,
    function: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    names: Sequence[object] = (),
) -> Generator[Any, None, None]:
    """Call a function in worker processes, and yield its results in order.

    Parameters
    ----------
    pool : Pool
    function : callable
        Defined at the top level of a module.
    items : iterable of tuple
        Arguments of each call.
    names : sequence, optional
        Names of the calls, for messages.

    Raises
    ------
    MtlrunError
        Raised by the function. Its other errors become a ConfigError.
    """
    work: Iterable[WorkItem] = (
        (index, (function, arguments)) for index, arguments in enumerate(items)
    )
    finished: dict[int, Any] = {}
    next_index = 0
    for index, outcome in pool.run(_call, work):
        if outcome.status != OK:
            message = str(outcome.error)
            if names:
                message = f"{names[index]}: {message}"
            raise ConfigError(message, "Run the command again.")
        if isinstance(outcome.value, MtlrunError):
            raise outcome.value
        finished[index] = outcome.value
        # A result waits here for the results of all earlier items.
        while next_index in finished:
            yield finished.pop(next_index)
            next_index += 1


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function in a worker, and return its error if it is one for users."""
    try:
        return function(*arguments)
    except MtlrunError as error:
        return error


def add_up(
    groups: Groups,
    table: ChunkedTable,
    pool: Pool,
    say: Callable[[str], None],
) -> Sums:
    """Read all files once.

    The result does not depend on which process reads which files, nor on workers that
    die.

    Parameters
    ----------
    groups : callable
        `rows_of`, or `Losses.groups`.
    table : ChunkedTable
    pool : Pool
    say : callable
        Takes a line of progress.

    Raises
    ------
    DataError
        For files that are damaged, or cells that are not numbers.
    ConfigError
        If a part could not be read for another reason.
    """
    progress = ReadProgress(say, table.files)
    leaves = leaves_of(table.files)
    parts: Iterator[Sums]
    if pool.is_serial:
        parts = (sums_of(groups, table, files, progress.show) for files in leaves)
    else:
        items = [(groups, table, files) for files in leaves]
        first_files = [files[0] for files in leaves]
        parts = run_in_order(pool, sums_of, items, first_files)
    sums = Sums()
    n_bytes = 0
    # Floating-point addition is not associative: merging in the order of the files
    # gives the same bits whichever worker finishes first.
    for files, part in zip(leaves, parts, strict=True):
        n_bytes += part.nbytes
        sums.merge(part)
        progress.add(part.rows, len(files))
    progress.show(is_final=True)
    if not pool.is_serial:
        say(f"{n_bytes / 1e6:.1f} MB of sums sent by the processes that read")
    return sums


def leaves_of(files: Sequence[Path]) -> list[Sequence[Path]]:
    """Return the groups of files whose sums are added up first, in their order."""
    n_files = len(files)
    n_leaves = min(n_files, MAX_LEAVES)
    edges = np.linspace(0, n_files, n_leaves + 1).astype(int)
    return [files[begin:end] for begin, end in pairwise(edges)]


@dataclass
class ReadProgress:
    """Display of the number of rows read, updated at most every few seconds.

    Attributes
    ----------
    say : callable
        Takes a line of progress.
    files : sequence of Path
        All files.
    """

    say: Callable[[str], None]
    files: Sequence[Path]

    def __post_init__(self) -> None:
        self._n_rows = count_rows(self.files)
        self._started = time.monotonic()
        self._last = self._started
        self._rows = 0
        self._files = 0

    def add(self, rows: int, files: int) -> None:
        """Count rows and files that have been read."""
        self._rows += rows
        self._files += files
        self.show()

    def show(self, rows: int = 0, files: int = 0, *, is_final: bool = False) -> None:
        """Show the progress, unless it was shown a few seconds ago.

        Parameters
        ----------
        rows, files : int, default=0
            Numbers of rows and files to add to those counted with `add`.
        is_final : bool, default=False
            Whether all rows are read, so that it is shown in any case.
        """
        if not is_final and time.monotonic() - self._last <= PROGRESS_SECONDS:
            return
        self._last = time.monotonic()
        n_rows = self._rows + rows
        rate = n_rows / max(self._last - self._started, 1e-9)
        total = ""
        if self._n_rows:
            total = f"of {self._n_rows} "
        self.say(
            f"{n_rows:,} {total}rows, {self._files + files} of "
            f"{counted(len(self.files), 'file')}, {rate:,.0f} rows per second"
        )


def statistics_of(
    table: ChunkedTable, sums: Sums
) -> tuple[list[TaskStatistics], list[str]]:
    """Take the statistics of all folds out of the sums.

    Returns
    -------
    statistics : list of TaskStatistics
        By fold.
    names : list of str
        Names of the tasks.

    Raises
    ------
    DataError
        If there are no rows.
    """
    names = task_names(table, sums.products, sums.rows)
    parts = [fold_statistics(table, sums, k, names) for k in range(table.n_folds)]
    return parts, names


def task_names(table: ChunkedTable, keys: Iterable[Key], n_rows: int) -> list[str]:
    """Return the names of the tasks: the targets, or the tasks that occur in sums.

    Raises
    ------
    DataError
        If there are no rows.
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
    """Take the statistics of a fold out of the sums."""
    if table.task is None:
        return _shared(table, sums, fold)
    return _by_task(table, sums, [(fold, name) for name in names], shared=False)


def _shared(table: ChunkedTable, sums: Sums, fold: int) -> TaskStatistics:
    """Take the statistics of a fold of a shared design out of the sums.

    They cover the rows with all targets, and for each target the other rows that have
    it.
    """
    d = len(table.features)
    k = len(table.targets)
    size = 1 + d + k
    S = sums.products.pop((fold, None), np.zeros((size, size)))
    n_rows = sums.counts.get((fold, None), 0)
    # Rows and columns of S are ones, features and targets.
    x = slice(1, 1 + d)
    y = slice(1 + d, None)
    x_shift, y_shift = np.split(table.shift, [d])
    complete_rows = TaskStatistics(
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
        n_rows=np.full(k, n_rows),
        features=table.features,
    )
    keys: list[Key] = [(fold, target) for target in range(k)]
    if not sums.products.keys() & set(keys):
        return complete_rows
    return complete_rows + _by_task(table, sums, keys, shared=True)


def _by_task(
    table: ChunkedTable, sums: Sums, keys: Sequence[Key], *, shared: bool
) -> TaskStatistics:
    """Take statistics out of sums that have a key for each task."""
    d = len(table.features)
    n_tasks = len(keys)
    n_rows = [sums.counts.get(key, 0) for key in keys]
    x_shift, y_shift = np.split(table.shift, [d])
    if not shared:
        # All tasks have the same column of targets.
        y_shift = np.full(n_tasks, y_shift[0])
    statistics = TaskStatistics(
        tasks=np.arange(n_tasks),
        shared=shared,
        weight=np.zeros(n_tasks),
        x=np.zeros((n_tasks, d)),
        xx=np.zeros((n_tasks, d, d)),
        y=np.zeros(n_tasks),
        yy=np.zeros(n_tasks),
        xy=np.zeros((d, n_tasks)),
        x_shift=x_shift,
        y_shift=y_shift,
        n_rows=np.array(n_rows),
        features=table.features,
    )
    for t, key in enumerate(keys):
        # Taken out of the sums: its memory is released when the next one is copied.
        S = sums.products.pop(key, None)
        if S is None:
            continue
        # The rows of V are ones, features, and the target of the task.
        statistics.weight[t] = S[0, 0]
        statistics.x[t] = S[0, 1:-1]
        statistics.xx[t] = S[1:-1, 1:-1]
        statistics.y[t] = S[0, -1]
        statistics.yy[t] = S[-1, -1]
        statistics.xy[:, t] = S[1:-1, -1]
    return statistics


# -------------------------------------------------------- cross-validation without rows
# Training parts come from subtracting folds, and errors from the statistics of a fold.


@dataclass(frozen=True)
class Folds:
    """Statistics of all folds.

    Attributes
    ----------
    parts : sequence of TaskStatistics
        By fold.
    folder : Path or None
        Folder where they are stored, if other processes may read them there.
    """

    parts: Sequence[TaskStatistics]
    folder: Path | None = None

    @cached_property
    def whole(self) -> TaskStatistics:
        """Statistics of all rows."""
        return reduce(add, self.parts)

    def without(self, *left_out: int) -> TaskStatistics:
        """Return the statistics of all rows outside some folds."""
        statistics = self.whole
        for fold in left_out:
            statistics = statistics - self.parts[fold]
        return statistics

    @cached_property
    def weights(self) -> Array:
        """Weight of the rows by fold and task."""
        # The tasks of a shared design have one weight.
        weights = [np.broadcast_to(part.weight, part.n_tasks) for part in self.parts]
        return np.array(weights)

    @cached_property
    def scales(self) -> Array:
        """Variance that divides squared errors of each task.

        See `mtlrun.comparison.gain.task_scales`.
        """
        _, variances = target_moments(self.whole)
        if not self.whole.shared:
            variances = shrunken_variances(variances, self.whole.weight)
        return np.where(variances > 0, variances, np.nan)


def target_moments(statistics: TaskStatistics) -> tuple[Array, Array]:
    """Return mean and variance of the targets of each task; 0 without rows."""
    has_rows = statistics.weight > 0
    weight = np.where(has_rows, statistics.weight, 1.0)
    # Sums are of targets less their shift.
    shifted_mean = statistics.y / weight
    mean_square = statistics.yy / weight
    variance = mean_square - np.square(shifted_mean)
    mean = statistics.y_shift + shifted_mean
    # Rounding may make the variance of constant targets negative.
    return mean, np.maximum(variance, 0.0)


@dataclass(frozen=True, eq=False)
class KeptStatistics(TaskStatistics):
    """Statistics that keep their condensed rows for the next fit.

    Attributes
    ----------
    condensed : dict of bool to tuple
        What `sufficient_statistics` returned, by whether it is centered.
    """

    condensed: dict[bool, tuple[TaskData, Array, Array]] = field(default_factory=dict)

    def sufficient_statistics(self, *, centred: bool) -> tuple[TaskData, Array, Array]:
        """Return condensed rows with the same sums; see `TaskStatistics`."""
        if centred not in self.condensed:
            condensed = super().sufficient_statistics(centred=centred)
            condensed[0].share_decompositions()
            self.condensed[centred] = condensed
        return self.condensed[centred]

    def release(self) -> None:
        """Forget the condensed rows with their decompositions."""
        for data, _, _ in self.condensed.values():
            data.decompositions.clear()
        self.condensed.clear()
