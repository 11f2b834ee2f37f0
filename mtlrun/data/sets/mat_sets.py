"""Data sets in MATLAB files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mtlrun.data.dataset import Dataset, signs
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.mat import read_mat, task_cells
from mtlrun.data.sets.files import file_called
from mtlrun.data.splits import TaskStratifiedKFold
from mtlrun.errors import DataError

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    X: str = "X",
    Y: str = "Y",
    n_features: int | None = None,
    drop_bias: bool = False,
) -> Dataset:
    """Read ragged data from two cell arrays in the first file.

    One has a cell of features per task, the other a cell of targets.

    Parameters
    ----------
    X, Y : str
        Names of the variables.
    n_features : int, optional
        Columns that every cell of X must have (before `drop_bias`).
    drop_bias : bool, default=False
        Leave out the last column, which must be 1 everywhere.

    Raises
    ------
    DataError
        For what `read_mat` and `task_cells` refuse, empty cells, NaN, and a last column
        that is not constant.
    """
    file = next(iter(files.values()))
    name = file.where()
    with file.open() as stream:
        content = read_mat(stream, name, (X, Y))
    tasks, targets = task_cells(content[X], content[Y], name, X, Y, n_features)
    sizes = [len(task) for task in tasks]
    if 0 in sizes:
        raise DataError(f"{name}: task {sizes.index(0) + 1} has no rows")
    stacked = np.vstack(tasks)
    y = np.concatenate(targets)
    for variable, values in ((X, stacked), (Y, y[:, None])):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            text = (
                f"{name}: {variable} contains {values[tuple(bad[0])]} at row "
                f"{bad[0][0] + 1}, column {bad[0][1] + 1}"
            )
            raise DataError(text, "Replace or drop missing values first.")
    if drop_bias:
        if (stacked[:, -1] != 1).any():
            raise DataError(f"{name}: the last column of {X} is not 1 everywhere")
        stacked = np.ascontiguousarray(stacked[:, :-1])
    if card.task_type == "binary":
        y = signs(y, f"{name}: {Y}")
    return Dataset(
        X=stacked,
        y=y,
        task_type=card.task_type,
        task_id=np.repeat(np.arange(len(tasks)), sizes),
        tasks=[str(t + 1) for t in range(len(tasks))],
    )


def read_school(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    data: str = "school.mat",
    argyriou: Sequence[str] = (),
    bias: bool = False,
    folds: int = 10,
    seed: int = 0,
) -> Dataset:
    """Read the 139 schools of MALSAR, with our ten folds and published splits.

    The published splits are by Argyriou et al.

    Parameters
    ----------
    data : str
        The file with the cells X (27 features and a column of ones) and Y.
    argyriou : list of str
        Files with the variables ``tr`` and ``tst``, 1-based rows; they become
        ``splits["argyriou"]``.
    bias : bool, default=False
        Keep the column of ones as a 28th feature (papers whose models have no intercept
        do).
    folds : int, default=10
        Folds of ``splits["folds"]``, each with its share of each school
        (`TaskStratifiedKFold`). The paper that uses ten folds does not say how it drew
        them.
    seed : int, default=0
        Seed of the folds.

    Raises
    ------
    DataError
        For wrong files.
    """
    dataset = read(
        {data: file_called(files, data, card)}, card, n_features=28, drop_bias=not bias
    )
    dataset.features = [f"x{j + 1}" for j in range(27)]
    if bias:
        dataset.features.append("bias")
    splitter = TaskStratifiedKFold(folds, random_state=seed)
    dataset.splits["folds"] = list(splitter.split(dataset.X, groups=dataset.task_id))
    published = []
    for name in argyriou:
        file = file_called(files, name, card)
        with file.open() as stream:
            content = read_mat(stream, file.where(), ("tr", "tst"))
        # Stored in the smallest integer type that holds them: subtracting 1 needs a
        # wider one.
        train, test = (
            np.sort(np.asarray(content[key]).ravel().astype(np.int64)) - 1
            for key in ("tr", "tst")
        )
        published.append((train, test))
    if published:
        dataset.splits["argyriou"] = published
    return dataset


def matrix(file: DataFile, variable: str, shape: tuple[int, int]) -> np.ndarray:
    """Return a matrix of a file as float64.

    Raises
    ------
    DataError
        For what `read_mat` refuses, and another shape.
    """
    with file.open() as stream:
        value = read_mat(stream, file.where(), (variable,))[variable]
    if np.shape(value) != shape or isinstance(value, list):
        wanted, got = (
            " x ".join(map(str, sizes)) for sizes in (shape, np.shape(value))
        )
        text = f"{file.where()}: {variable} is {got} where {wanted} is expected"
        raise DataError(text, "Is it the file that the card names?")
    return value.astype(np.float64)
