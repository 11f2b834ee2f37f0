"""Card readers of text tables: with targets and tasks, or with a column of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.roles import Roles, make_dataset
from mtlrun.data.table import text_table
from mtlrun.data.tasks import make_tasks
from mtlrun.errors import DataError, listed


def read_csv(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    target: str | Sequence[str],
    task: str | None = None,
    drop: Sequence[str] = (),
    positive: str | None = None,
    delimiter: str | None = ",",
) -> Dataset:
    """Read the first file, a text table with a header: ragged with a task column, shared with several targets.

    Parameters
    ----------
    target : str or list of str
        Column of the targets; several columns are the tasks of a shared design, in which values may be missing.
    task : str, optional
        Column that names the task of every row.
    drop : list of str
        Columns that are not features.
    positive : str, optional
        The label that means +1, if binary labels are neither 0/1 nor -1/+1.
    delimiter : str or None, default=","
        None stands for any run of blanks.

    Raises
    ------
    DataError
        As `mtlrun.data.roles.make_dataset`.
    """
    targets = (target,) if isinstance(target, str) else tuple(target)
    table = text_table(next(iter(files.values())), delimiter=delimiter, header=True)
    return make_dataset(
        table, Roles(targets, task, card.task_type, positive, drop=tuple(drop), keep=("*",), min_rows=1)
    )


def read_uci(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    label: int,
    delimiter: str | None = ",",
    header: bool = False,
    skip: int = 0,
    classes: Sequence[str | Sequence[str]] = (),
    features: Sequence[str] = (),
    split: str | None = None,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read text tables with a class column, stacked in the order of the card, as a multi-class data set.

    Parameters
    ----------
    label : int
        Position of the class column; negative ones count from the end.
    delimiter : str or None, default=","
        None stands for any run of blanks.
    header : bool, default=False
        Whether the first line names the columns.
    skip : int, default=0
        Lines to skip at the start of every file.
    classes : list of str or of (str, str), optional
        The labels that may occur in the order of the class numbers, each alone or with the name to use; default: all
        labels that occur, sorted.
    features : list of str, optional
        Names of the other columns, if there is no header.
    split : str, optional
        Name for the published split: all files but the last for training, the last one for test.
    tasks : str or mapping, optional
        See `mtlrun.data.tasks.make_tasks`.

    Raises
    ------
    DataError
        With file, line and column of what is not a number; for files of unequal width, and labels outside `classes`.
    """
    pairs = [(item, item) if isinstance(item, str) else (item[0], item[-1]) for item in classes]
    known = {str(word): str(name) for word, name in pairs}
    tables = [text_table(f, delimiter=delimiter, header=header, skip=skip, text=[label]) for f in files.values()]
    columns = tables[0].columns
    rest = [name for name in columns if name != columns[label]]
    for table in tables:
        if table.columns != columns:
            raise DataError(f"{table.name}: {len(table.columns)} columns where the first file has {len(columns)}")
        words = table.frame[columns[label]]
        wrong = ~words.isin(list(known)) if known else words == ""
        if wrong.any():
            row = int(np.argmax(wrong))
            what = f"{words[row]!r} is none of {listed(list(known), 20)}" if words[row] else "is empty"
            raise DataError(f"{table.where(row)}: the class {what}", "Is it the file on the card?")
    if features and len(features) != len(rest):
        raise DataError(f"{card.path}: {len(features)} feature names for {len(rest)} columns")
    X = np.vstack([table.numbers(rest) for table in tables])
    words = pd.concat([table.frame[columns[label]] for table in tables])
    order = list(known) or sorted(set(words))
    start = len(X) - len(tables[-1].frame)
    data = Dataset(
        X=X,
        y=words.map({word: k for k, word in enumerate(order)}).to_numpy(dtype=np.int64),
        task_type="multiclass",
        tasks=[known.get(word, word) for word in order],
        features=list(features) or (rest if header else []),
        splits={split: [(np.arange(start), np.arange(start, len(X)))]} if split else {},
    )
    return make_tasks(data, tasks)
