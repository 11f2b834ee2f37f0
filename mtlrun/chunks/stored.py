"""Sums over files, added up by worker processes and kept in a folder.

The files of a table are divided into leaves (`mtlrun.chunks.sums.leaves_of`). A worker
adds up a leaf and writes its sums into the folder. Then a worker takes each fold: it
adds the sums of the leaves, always in the order of the files, and writes the statistics
of the fold. All other processes map these files into memory. Only the names and counts
of the sums are sent between processes.

The numbers are equal to the last bit to the sums of `mtlrun.chunks.sums.add_up`.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from mtlrun.chunks.sums import (
    Folds,
    Key,
    ReadProgress,
    Sums,
    fold_statistics,
    leaves_of,
    rows_of,
    run_in_order,
    sums_of,
    task_names,
)
from mtlrun.chunks.table import ChunkedTable
from mtlrun.errors import DataError
from mtlrun.parallel.pool import Pool
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.utils.io import file_json, read_text_file, sha256_json, write_atomic

Array = np.ndarray[Any, np.dtype[Any]]

#: Arrays of the statistics of a fold, each in a file of its own.
_ARRAYS = (
    "tasks",
    "weight",
    "x",
    "xx",
    "y",
    "yy",
    "xy",
    "x_shift",
    "y_shift",
    "n_rows",
)


class StoredProduct(NamedTuple):
    """A square product V V' in the file of a leaf.

    Attributes
    ----------
    size : int
        Number of its rows, and columns.
    n_rows : int
        Number of rows of the table in it.
    weight : float
        Total weight of these rows.
    """

    size: int
    n_rows: int
    weight: float


@dataclass(frozen=True)
class LeafSummary:
    """What the files of a leaf hold.

    Attributes
    ----------
    products : dict of Key to StoredProduct
        In the order in which they were written.
    n_rows : int
        Number of rows that were read.
    """

    products: dict[Key, StoredProduct]
    n_rows: int


def uses_files(pool: Pool) -> bool:
    """Whether sums are kept in a folder.

    They are if several processes of this machine work.
    """
    # Dask's workers may run on other machines, which do not see the folder.
    return not pool.is_serial and pool.has_processes


def read_folds(
    table: ChunkedTable,
    folder: Path,
    pool: Pool,
    say: Callable[[str], None],
) -> tuple[ChunkedTable, Folds, list[str]]:
    """Read all files once, and keep the statistics of each fold in a folder.

    Parameters
    ----------
    table : ChunkedTable
    folder : Path
    pool : Pool
    say : callable
        Takes a line of progress.

    Returns
    -------
    table : ChunkedTable
        With the mean weight of all rows as its unit.
    folds : Folds
    tasks : list of str
        Names of the tasks.

    Raises
    ------
    DataError
        If a file is damaged, there are no rows, or the disk is full.
    """
    progress = ReadProgress(say, table.files)
    groups = leaves_of(table.files)
    arguments = []
    for index, files in enumerate(groups):
        arguments.append((folder, index, table, files))
    results = run_in_order(pool, _store_leaf, arguments)
    leaves: list[LeafSummary] = []
    for files, leaf in zip(groups, results, strict=True):
        leaves.append(leaf)
        progress.add(leaf.n_rows, len(files))
    progress.show(is_final=True)
    n_rows = sum(leaf.n_rows for leaf in leaves)
    weights: dict[Key, float] = {}
    n_weighted = 0
    for leaf in leaves:
        for key, product in leaf.products.items():
            weights[key] = weights.get(key, 0.0) + product.weight
            n_weighted += product.n_rows
    unit = 1.0
    if table.weight is not None and n_rows:
        # As `Sums.normalize_weights`, to the bit.
        unit = math.fsum(weights.values()) / n_weighted
    names = task_names(table, weights, n_rows)
    folds = []
    for fold in range(table.n_folds):
        products_by_leaf = []
        for leaf in leaves:
            products = {k: p for k, p in leaf.products.items() if k[0] == fold}
            products_by_leaf.append(products)
        folds.append((folder, fold, products_by_leaf, table, names, unit))
    # The workers return nothing: the results are the files.
    for _ in run_in_order(pool, _store_fold, folds):
        pass
    # They are large, and not read again.
    shutil.rmtree(folder / "leaves")
    scaled = replace(table, weight_unit=table.weight_unit * unit)
    return scaled, stored_folds(folder, table.n_folds, table.task is None), names


@lru_cache(maxsize=1)
def stored_folds(folder: Path, n_folds: int, is_shared: bool) -> Folds:
    """Return the statistics of all folds, mapped into memory."""
    parts = [_load_statistics(folder, fold, is_shared) for fold in range(n_folds)]
    return Folds(parts, folder)


#: File of the state of a first pass, written when it is complete.
_STATE = "state.json"
#: Sums of more bytes are not kept by a single process.
MAX_KEPT_BYTES = 1 << 30


def kept_folder(output: Path, table: ChunkedTable) -> Path:
    """Return the folder that keeps the sums of a table if its comparison is interrupted.

    Its name depends on the files, their sizes and times, and on the columns and folds.
    """
    files = []
    for file in table.files:
        stat = file.stat()
        files.append([str(file.absolute()), stat.st_size, stat.st_mtime_ns])
    content = [files, table.columns, len(table.targets), table.task, table.weight]
    key = sha256_json([*content, table.n_folds, table.seed])
    return output / f"sums-{key[:12]}"


def keep_state(
    folder: Path, table: ChunkedTable, folds: Folds, tasks: list[str]
) -> None:
    """Write what a later run needs to go on behind the first pass."""
    if folds.folder != folder:
        if sum(part.xx.nbytes for part in folds.parts) > MAX_KEPT_BYTES:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for fold, part in enumerate(folds.parts):
            store_statistics(folder, fold, part)
    state = {"tasks": tasks, "weight_unit": float(table.weight_unit).hex()}
    write_atomic(folder / _STATE, file_json(state))


def kept_state(
    folder: Path, table: ChunkedTable
) -> tuple[ChunkedTable, Folds, list[str]] | None:
    """Return the result of an earlier first pass, None unless it was complete."""
    try:
        state = json.loads(read_text_file(folder / _STATE))
        folds = stored_folds(folder, table.n_folds, table.task is None)
        unit = float.fromhex(state["weight_unit"])
        return replace(table, weight_unit=unit), folds, list(state["tasks"])
    except (OSError, ValueError, KeyError):
        return None


def _leaf_file(folder: Path, index: int, fold: int) -> Path:
    return folder / "leaves" / f"{index}-{fold}.npy"


def _store_leaf(
    folder: Path,
    index: int,
    table: ChunkedTable,
    files: Sequence[Path],
) -> LeafSummary:
    """Add up the rows of some files in a worker, and write the sums."""
    sums = sums_of(rows_of, table, files)
    (folder / "leaves").mkdir(exist_ok=True)
    needed = sums.nbytes
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{folder}: the sums of the files take {needed / 1e9:.3g} GB, more than "
            f"the {free / 1e9:.3g} GB that are free there",
            "Set TMPDIR to a folder on a larger disk, or use --jobs 1.",
        )
    for fold in range(table.n_folds):
        halves = [np.empty(0)]
        for key, product in sums.products.items():
            if key[0] == fold:
                halves.append(product[np.triu_indices(len(product))])
        np.save(_leaf_file(folder, index, fold), np.concatenate(halves))
    products = {}
    for key, product in sums.products.items():
        weight = float(product[0, 0])
        products[key] = StoredProduct(len(product), sums.counts[key], weight)
    return LeafSummary(products, sums.rows)


def _store_fold(
    folder: Path,
    fold: int,
    leaves: Sequence[Mapping[Key, StoredProduct]],
    table: ChunkedTable,
    names: Sequence[str],
    unit: float,
) -> None:
    """Add the sums of all leaves in a worker, and write the statistics of a fold."""
    totals: dict[Key, Array] = {}
    sums = Sums()
    for index, leaf in enumerate(leaves):
        content = np.load(_leaf_file(folder, index, fold), allow_pickle=False)
        begin = 0
        for key, product in leaf.items():
            end = begin + product.size * (product.size + 1) // 2
            # In the order of the files: floating-point addition is not associative.
            if key in totals:
                totals[key] += content[begin:end]
            else:
                totals[key] = content[begin:end].copy()
            sums.counts[key] = sums.counts.get(key, 0) + product.n_rows
            begin = end
    for key, half in totals.items():
        if unit != 1.0:
            half = half / unit
        # The half has size * (size + 1) / 2 entries.
        size = (math.isqrt(8 * len(half) + 1) - 1) // 2
        upper = np.zeros((size, size))
        upper[np.triu_indices(size)] = half
        lower = np.triu(upper, 1).T  # without the diagonal, which is in `upper`
        sums.products[key] = upper + lower
    store_statistics(folder, fold, fold_statistics(table, sums, fold, names))


def store_statistics(folder: Path, fold: int, statistics: TaskStatistics) -> None:
    """Write the statistics of a fold, for `stored_folds`."""
    arrays = {
        "tasks": statistics.tasks,
        "weight": statistics.weight,
        "x": statistics.x,
        "xx": statistics.xx,
        "y": statistics.y,
        "yy": statistics.yy,
        "xy": statistics.xy,
        "x_shift": statistics.x_shift,
        "y_shift": statistics.y_shift,
        "n_rows": statistics.n_rows,
    }
    for name, array in arrays.items():
        np.save(_array_file(folder, fold, name), np.ascontiguousarray(array))
    _features_file(folder, fold).write_text("\n".join(statistics.features))


def _array_file(folder: Path, fold: int, name: str) -> Path:
    return folder / f"{fold}-{name}.npy"


def _features_file(folder: Path, fold: int) -> Path:
    return folder / f"{fold}-features.txt"


def _load_statistics(folder: Path, fold: int, is_shared: bool) -> TaskStatistics:
    """Return the statistics of a fold; the large sums stay in their file."""
    arrays = {}
    for name in _ARRAYS:
        # The sums of products of features are large, and read as they are needed.
        mode: Literal["r"] | None = None
        if name == "xx":
            mode = "r"
        path = _array_file(folder, fold, name)
        array = np.load(path, mmap_mode=mode, allow_pickle=False)
        arrays[name] = np.asarray(array)
    features = tuple(_features_file(folder, fold).read_text().split("\n"))
    return TaskStatistics(shared=is_shared, features=features, **arrays)
