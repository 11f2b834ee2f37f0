"""Tables of a user's own (csv, parquet, ARFF, MATLAB, svmlight) with the parts of their columns as options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.readers import file_called
from mtlrun.data.roles import Roles, make_dataset
from mtlrun.data.tables import read_table_file


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    data: str,
    test: str | None = None,
    targets: Sequence[str] = (),
    task: str | None = None,
    task_type: str | None = None,
    positive: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    min_rows: int | None = None,
    unseen: str = "error",
    splits: int = 3,
    train: float = 0.7,
    seed: int = 0,
) -> Dataset:
    """Read a table; `mtlrun compare` writes cards for this reader.

    Parameters
    ----------
    data, test : str
        Files of the card: rows, and rows to test on (the published split ``test``).
    targets, task, task_type, positive, weight, group, time, drop, categorical, min_rows, unseen, splits, train, seed
        As of `mtlrun.data.roles.Roles`.

    Raises
    ------
    DataError
        As `mtlrun.data.tables.read_user_table` and `mtlrun.data.roles.make_dataset`.
    """
    given: dict[str, Any] = {
        "task": task,
        "task_type": task_type,
        "positive": positive,
        "weight": weight,
        "group": group,
        "time": time,
        "min_rows": min_rows,
        "unseen": unseen,
        "splits": splits,
        "train": train,
        "seed": seed,
    }
    roles = Roles(targets=tuple(targets), drop=tuple(drop), categorical=tuple(categorical), **given)
    rows = read_table_file(file_called(files, data, card), PurePosixPath(data).suffix.lower())
    more = None
    if test is not None:
        more = read_table_file(file_called(files, test, card), PurePosixPath(test).suffix.lower(), rows)
    return make_dataset(rows, roles, more)
