"""Sums over files, added up by worker processes and kept in a folder.

The files of a table are divided into leaves (`mtlrun.chunks.sums.leaves_of`). A worker
adds up a leaf, and writes its sums into the folder. Then a worker takes each fold: it
adds the sums of the leaves, always in the order of the files, and writes the statistics
of the fold. All other processes map these files into memory. Between the processes
travel the names and counts of the sums only.

The numbers are those of `mtlrun.chunks.sums.add_up`, to the last bit.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.chunks.sums import (
    Folds,
    Key,
    Products,
    ReadProgress,
    Sums,
    fold_statistics,
    leaves_of,
    sums_of,
    task_names,
)
from mtlrun.chunks.table import ChunkedTable
from mtlrun.engine.outcome import WorkItem
from mtlrun.engine.pool import Pool
from mtlrun.engine.record import OK
from mtlrun.errors import ConfigError, DataError, MtlrunError
from mtlrun.problem.statistics import TaskStatistics

Array = np.ndarray[Any, np.dtype[Any]]

#: Arrays of the statistics of a fold, a file each.
_ARRAYS = ("weight", "x", "xx", "y", "yy", "xy", "x_shift", "y_shift", "n_rows")


@dataclass(frozen=True)
class LeafSummary:
    """What a worker tells about the sums of a leaf.

    Attributes
    ----------
    sizes : dict of Key to int
        Rows of the square products, in the order in which they were written.
    counts : dict of Key to int
        Rows of the table in every product.
    weights : dict of Key to float
        Total weight of these rows.
    n_rows : int
        Rows read.
    """

    sizes: dict[Key, int]
    counts: dict[Key, int]
    weights: dict[Key, float]
    n_rows: int


def uses_files(pool: Pool) -> bool:
    """Whether sums are kept in a folder: several processes of this machine work."""
    return not pool.is_serial and pool.backend in (None, "loky")


def run_in_order(
    pool: Pool, function: Callable[..., Any], items: Iterable[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    """Call a function in worker processes; yield what it returns in the order of items.

    Parameters
    ----------
    pool : Pool
    function : callable
        Defined at the top level of a module.
    items : iterable of tuple
        Arguments of each call.

    Raises
    ------
    MtlrunError
        What the function raises. Other errors become a ConfigError.
    """
    work: Iterable[WorkItem] = (
        (index, (function, arguments)) for index, arguments in enumerate(items)
    )
    finished: dict[int, Any] = {}
    next_index = 0
    for index, outcome in pool.run(_call, work):
        if outcome.status != OK:
            raise ConfigError(str(outcome.error), "Run the command again.")
        if isinstance(outcome.value, MtlrunError):
            raise outcome.value
        finished[index] = outcome.value
        while next_index in finished:
            yield finished.pop(next_index)
            next_index += 1


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function in a worker; an error for users is returned as it is."""
    try:
        return function(*arguments)
    except MtlrunError as error:
        return error


def read_folds(
    table: ChunkedTable,
    folder: Path,
    pool: Pool,
    n_folds: int,
    seed: int,
    say: Callable[[str], None],
) -> tuple[ChunkedTable, Folds, list[str]]:
    """Read all files once, and keep the statistics of every fold in a folder.

    Returns
    -------
    table : ChunkedTable
        With the mean weight of all rows as its unit.
    folds : Folds
    tasks : list of str
        Names of the tasks.
    """
    progress = ReadProgress(say, len(table.files))
    leaves = []
    arguments = [
        (folder, index, table, files, n_folds, seed)
        for index, files in enumerate(leaves_of(table.files))
    ]
    for (*_, files, _, _), leaf in zip(
        arguments, run_in_order(pool, _store_leaf, arguments), strict=True
    ):
        leaves.append(leaf)
        progress.add(leaf.n_rows, len(files))
    progress.end()
    unit = 1.0
    if table.weight is not None and any(leaf.n_rows for leaf in leaves):
        unit = _mean_weight(leaves)
    keys = {key for leaf in leaves for key in leaf.sizes}
    names = task_names(table, keys, sum(leaf.n_rows for leaf in leaves))
    scaled = replace(table, weight_unit=table.weight_unit * unit)
    folds = [
        (folder, fold, _of_fold(leaves, fold), table, names, unit)
        for fold in range(n_folds)
    ]
    for _ in run_in_order(pool, _store_fold, folds):
        pass
    shutil.rmtree(folder / "leaves")
    return scaled, stored_folds(folder, n_folds, table.task is None), names


@lru_cache(maxsize=1)
def stored_folds(folder: Path, n_folds: int, is_shared: bool) -> Folds:
    """Return the statistics of all folds, mapped into memory."""
    return Folds(
        [_load_statistics(folder, fold, is_shared) for fold in range(n_folds)], folder
    )


def _mean_weight(leaves: Sequence[LeafSummary]) -> float:
    """Return the mean weight of all rows, as `Sums.mean_weight` has it."""
    totals: dict[Key, float] = {}
    n_rows = 0
    for leaf in leaves:
        for key, weight in leaf.weights.items():
            totals[key] = totals[key] + weight if key in totals else weight
        n_rows += sum(leaf.counts.values())
    return math.fsum(totals.values()) / n_rows


def _of_fold(
    leaves: Sequence[LeafSummary], fold: int
) -> list[tuple[dict[Key, int], dict[Key, int]]]:
    """Return sizes and counts of the products of a fold, by leaf."""
    return [
        (
            {key: size for key, size in leaf.sizes.items() if key[0] == fold},
            {key: count for key, count in leaf.counts.items() if key[0] == fold},
        )
        for leaf in leaves
    ]


def _leaf_file(folder: Path, index: int, fold: int) -> Path:
    return folder / "leaves" / f"{index}-{fold}.npy"


def _store_leaf(
    folder: Path,
    index: int,
    table: ChunkedTable,
    files: Sequence[Path],
    n_folds: int,
    seed: int,
) -> LeafSummary:
    """Add up the rows of some files, and write the sums; a worker runs this."""
    sums = sums_of(Products(), table, files, n_folds, seed)
    (folder / "leaves").mkdir(exist_ok=True)
    needed = sums.nbytes
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{folder}: the sums of the files take {needed / 1e9:.3g} GB, more than "
            f"the {free / 1e9:.3g} GB that are free there",
            "Set TMPDIR to a folder on a larger disk, or use --jobs 1.",
        )
    for fold in range(n_folds):
        halves = [
            product[np.triu_indices(len(product))]
            for key, product in sums.products.items()
            if key[0] == fold
        ]
        content = np.concatenate(halves) if halves else np.empty(0)
        np.save(_leaf_file(folder, index, fold), content)
    return LeafSummary(
        sizes={key: len(product) for key, product in sums.products.items()},
        counts=sums.counts,
        weights={key: float(p[0, 0]) for key, p in sums.products.items()},
        n_rows=sums.rows,
    )


def _store_fold(
    folder: Path,
    fold: int,
    leaves: Sequence[tuple[Mapping[Key, int], Mapping[Key, int]]],
    table: ChunkedTable,
    names: Sequence[str],
    unit: float,
) -> None:
    """Add the sums of all leaves, and write the statistics of a fold; a worker runs this."""
    totals: dict[Key, Array] = {}
    sums = Sums()
    for index, (sizes, counts) in enumerate(leaves):
        content = np.load(_leaf_file(folder, index, fold), allow_pickle=False)
        begin = 0
        for key, size in sizes.items():
            end = begin + size * (size + 1) // 2
            # In the order of the files: floating-point addition is not associative.
            if key in totals:
                totals[key] += content[begin:end]
            else:
                totals[key] = content[begin:end].copy()
            sums.counts[key] = sums.counts.get(key, 0) + counts[key]
            begin = end
    for key, half in totals.items():
        size = (math.isqrt(8 * len(half) + 1) - 1) // 2
        product = np.zeros((size, size))
        product[np.triu_indices(size)] = half / unit if unit != 1.0 else half
        sums.products[key] = product + np.triu(product, 1).T
    statistics = fold_statistics(table, sums, fold, names)
    for name in _ARRAYS:
        np.save(
            folder / f"{fold}-{name}.npy",
            np.ascontiguousarray(getattr(statistics, name)),
        )
    np.save(folder / f"{fold}-tasks.npy", statistics.tasks)
    (folder / f"{fold}-features.txt").write_text("\n".join(statistics.features))


def _load_statistics(folder: Path, fold: int, is_shared: bool) -> TaskStatistics:
    """Return the statistics of a fold; the large sums stay in their file."""
    arrays = {}
    for name in (*_ARRAYS, "tasks"):
        path = folder / f"{fold}-{name}.npy"
        if name == "xx":
            # The sums of products are large, and read as they are needed.
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            array = np.load(path, allow_pickle=False)
        arrays[name] = np.asarray(array)
    features = tuple((folder / f"{fold}-features.txt").read_text().split("\n"))
    return TaskStatistics(shared=is_shared, features=features, **arrays)
