"""The School data of MALSAR, with ten folds of ours and the ten published splits of Argyriou, Evgeniou and Pontil."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile, file_called
from mtlrun.data.formats import mat
from mtlrun.data.splits import TaskStratifiedKFold
from mtlrun.errors import DataError


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    data: str = "school.mat",
    argyriou: Sequence[str] = (),
    bias: bool = False,
    folds: int = 10,
    seed: int = 0,
) -> Dataset:
    """Read the 139 schools.

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    data : str
        The file with the cells X (27 features and a column of ones) and Y.
    argyriou : list of str
        Files with the variables ``tr`` and ``tst``, 1-based rows; they become ``splits["argyriou"]``.
    bias : bool, default=False
        Keep the column of ones as a 28th feature (papers whose models have no intercept do).
    folds : int, default=10
        Folds of ``splits["folds"]``, each with its share of every school (`TaskStratifiedKFold`). The paper that uses
        ten folds does not say how it drew them.
    seed : int, default=0
        Seed of the folds.

    Raises
    ------
    DataError
        For wrong files, or split files that are not a partition of the rows.
    """
    dataset = mat.read({data: file_called(files, data, card)}, card, n_features=28, drop_bias=not bias)
    dataset.features = [f"x{j + 1}" for j in range(27)] + (["bias"] if bias else [])
    if not 2 <= folds <= dataset.n_samples:
        raise DataError(f"folds must lie between 2 and the number of rows, not {folds}")
    splitter = TaskStratifiedKFold(folds, random_state=seed)
    dataset.splits["folds"] = list(splitter.split(dataset.X, groups=dataset.task_id))
    if argyriou:
        dataset.splits["argyriou"] = [
            _published(file_called(files, name, card), dataset.n_samples) for name in argyriou
        ]
    return dataset


def _published(file: DataFile, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    name = file.where()
    with file.open() as stream:
        content = mat.read_mat(stream, name, ("tr", "tst"))
    # Stored in the smallest integer type that holds them: subtracting 1 needs a wider one.
    train, test = (mat.expect_shape(content[k], (1, None), name, k).ravel().astype(np.int64) - 1 for k in ("tr", "tst"))
    if not np.array_equal(np.sort(np.concatenate((train, test))), np.arange(n_samples)):
        raise DataError(
            f"{name}: {len(train)} training and {len(test)} test rows are not a partition of {n_samples} students",
            "Is it a split of these data?",
        )
    return np.sort(train), np.sort(test)
