"""Card readers of tables of numbers: every column is a number, but for the targets, the tasks and what is dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset, signs
from mtlrun.data.files import DataFile, file_called
from mtlrun.data.numbers import number_name
from mtlrun.data.table import TARGET, TASK, Table, arff_table, svmlight_table, text_table
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
        With file, line and column of what is not a number; for columns that do not exist, and labels of another kind.
    """
    targets = [target] if isinstance(target, str) else list(target)
    labels = targets if card.task_type == "multiclass" or positive is not None else []
    text = [*labels, *([task] if task else []), *drop]
    table = text_table(next(iter(files.values())), delimiter=delimiter, header=True, text=text)
    return _dataset(table, card, targets, task, drop, positive)


def read_arff(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    target: str | Sequence[str],
    task: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read the one file, in ARFF; `target` and `task` as of `read_csv`. Nominal features become their numbers."""
    if len(files) != 1:
        raise DataError(f"{card.path}: the arff reader takes one file, the card names {len(files)}")
    table = arff_table(next(iter(files.values())), encoding)
    return _dataset(table, card, [target] if isinstance(target, str) else list(target), task)


def read_svmlight(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    file: str | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    dense: bool = False,
) -> Dataset:
    """Read one svmlight file; every distinct ``qid`` is a task.

    Parameters
    ----------
    file : str, optional
        The file's name on the card, if there are several.
    n_features, zero_based
        See `mtlrun.data.formats.svmlight.read_svmlight`.
    dense : bool, default=False
        Return a dense X.
    """
    source = file_called(files, file, card) if file else next(iter(files.values()))
    table = svmlight_table(source, n_features=n_features, zero_based=zero_based)
    data = _dataset(table, card, [TARGET], None if card.task_type == "multiclass" else table.default_task, [TASK])
    if dense:
        data.X = data.X.toarray()
    return data


def read_uci(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    label: int,
    delimiter: str | None = ",",
    header: bool = False,
    skip: int = 0,
    classes: Sequence[str | Sequence[str]] | None = None,
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
    pairs = [(item, item) if isinstance(item, str) else (item[0], item[-1]) for item in classes or ()]
    known = {str(word): str(name) for word, name in pairs}
    parts: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    names: list[str] = []
    for file in files.values():
        table = text_table(file, delimiter=delimiter, header=header, skip=skip, text=[label])
        if parts and table.columns != names:
            raise DataError(f"{file.where()}: {len(table.columns)} columns where the first file has {len(names)}")
        names = table.columns
        column = table.frame[names[label]]
        wrong = next((k for k, word in enumerate(column) if not word or (known and word not in known)), None)
        if wrong is not None:
            what = f"{column[wrong]!r} is none of {listed(list(known), 20)}" if column[wrong] else "is empty"
            raise DataError(f"{table.where(wrong, names[label])}: the class {what}", "Is it the file on the card?")
        parts.append(table.numbers([name for name in names if name != names[label]]))
        labels.append(column.to_numpy(dtype=str))
    X, words = np.vstack(parts), np.concatenate(labels)
    order = list(known) or sorted(set(words.tolist()))
    if features and len(features) != X.shape[1]:
        raise DataError(f"{card.path}: {len(features)} feature names for {X.shape[1]} columns")
    start = len(X) - len(parts[-1])
    data = Dataset(
        X=X,
        y=pd.Series(words).map({word: k for k, word in enumerate(order)}).to_numpy(dtype=np.int64),
        task_type="multiclass",
        tasks=[known.get(word, word) for word in order],
        features=list(features) or ([name for name in names if name != names[label]] if header else []),
        splits={split: [(np.arange(start), np.arange(start, len(X)))]} if split else {},
    )
    return make_tasks(data, tasks)


def _dataset(
    table: Table,
    card: Card,
    targets: Sequence[str],
    task: str | None,
    drop: Sequence[str] = (),
    positive: str | None = None,
) -> Dataset:
    """Return a table as a data set of the task type of its card."""
    shared = len(targets) > 1
    if task is not None and (shared or card.task_type == "multiclass"):
        raise DataError(f"{card.path}: a task column requires one target, binary or numeric")
    names, task_id = list(targets), None
    if card.task_type == "multiclass":
        names, y = _categories(table, targets[0])
    else:
        y = np.column_stack([_target(table, name, card.task_type, positive, shared) for name in targets])
        if task is not None:
            names, task_id = _categories(table, task, appearance=True)
        y = y if shared else y[:, 0]
    features = [name for name in table.columns if name not in {*targets, *drop, task}]
    X = table.numbers(features)
    if table.sparse is not None and not sparse.issparse(X):
        X = sparse.csr_matrix(X)
    return Dataset(
        X=X,
        y=y,
        task_type=card.task_type,
        task_id=task_id,
        tasks=names,
        features=features if table.named else [],
    )


def _categories(table: Table, name: str, appearance: bool = False) -> tuple[list[str], np.ndarray]:
    """Return the names in a column, and the number of every cell's name.

    Declared words keep their order, numbers are sorted, other words are sorted or keep the order of their appearance.
    """
    column = table.column(name)
    if name in table.words and not appearance:
        return table.words[name], table.number_column(name).astype(np.int64)
    if pd.api.types.is_numeric_dtype(column) or name in table.words:
        values, codes = np.unique(table.number_column(name), return_inverse=True)
        return [table.words[name][int(v)] if name in table.words else number_name(v) for v in values], codes
    if appearance:
        codes, words = pd.factorize(column)
        return [str(word) for word in words], codes.astype(np.int64)
    words, codes = np.unique(column.to_numpy(dtype=str), return_inverse=True)
    return [str(word) for word in words], codes


def _target(table: Table, name: str, task_type: str, positive: str | None, gaps: bool) -> np.ndarray:
    if task_type == "binary" and positive is not None:
        values = table.column(name).to_numpy(dtype=str)
        found = sorted(set(values.tolist()))
        if len(found) != 2 or positive not in found:
            raise DataError(
                f"{table.name}: column {name!r}: two labels are needed, {positive!r} and another, "
                f"found {listed(found)}",
                "The option 'positive' names the label that means +1.",
            )
        return np.where(values == positive, 1.0, -1.0)
    values = table.number_column(name, gaps=gaps)
    return values if task_type == "regression" else signs(values, f"{table.name}: column {name!r}")
