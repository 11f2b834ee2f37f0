"""Binary tasks made of the classes of a multi-class set, and the balanced parts of the multi-kernel paper.

One-vs-one tasks are ragged (a task has the rows of its two classes), one-vs-rest tasks share all rows. Every made row
remembers its row and class in the multi-class set (`Dataset.source`), so that a split can keep an example on one side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.errors import DataError, UnknownNameError

MAKES = ("one-vs-one", "one-vs-rest")
KEYS = ("make", "pairs", "classes", "per_class", "per_task", "seed")


def make_tasks(dataset: Dataset, tasks: str | Mapping[str, Any] | None) -> Dataset:
    """Apply the `tasks` option of a multi-class reader.

    Parameters
    ----------
    dataset : Dataset
        A multi-class set.
    tasks : None, str or mapping
        None leaves the set as it is. ``"one-vs-one"`` and ``"one-vs-rest"`` are short for ``{make: ...}``. Keys:

        * ``make``: one of the two; without it (and without ``pairs``) the set stays multi-class.
        * ``pairs``: for one-vs-one, pairs of class names, the first being +1; default all pairs in class order.
        * ``classes``: names of the classes to keep, in this order.
        * ``per_class``: at most so many rows of every class, drawn without replacement.
        * ``per_task``: at most so many rows of every one-vs-one task, drawn after the tasks were made.
        * ``seed``: seed of the draws, default 0.

    Returns
    -------
    Dataset

    Raises
    ------
    UnknownNameError
        For an unknown key, make or class.
    DataError
        If the set is not multi-class, or a number is out of range.
    """
    if tasks is None:
        return dataset
    wanted: dict[str, Any] = {"make": tasks} if isinstance(tasks, str) else dict(tasks)
    for key in wanted:
        if key not in KEYS:
            raise UnknownNameError("key of the option tasks", str(key), KEYS)
    make, pairs, seed = wanted.get("make"), wanted.get("pairs"), wanted.get("seed", 0)
    if make is not None and make not in MAKES:
        raise UnknownNameError("way to make tasks", str(make), MAKES)
    if pairs is not None and make == "one-vs-rest":
        raise DataError("the option tasks has pairs, but makes one-vs-rest tasks", "Leave one of the two out.")
    _require_multiclass(dataset)
    classes = wanted.get("classes")
    if classes is None and pairs is not None:
        classes = list(dict.fromkeys(str(name) for pair in pairs for name in pair))
    rows, labels, names = _chosen_rows(dataset, classes, wanted.get("per_class"), seed)
    per_task = wanted.get("per_task")
    if per_task is not None and (make == "one-vs-rest" or (make is None and pairs is None)):
        raise DataError(
            "the option tasks has per_task, but makes no one-vs-one tasks", "Add make: one-vs-one, or use per_class."
        )
    if make == "one-vs-rest":
        return _shared_tasks(dataset, rows, labels, names)
    if make == "one-vs-one" or pairs is not None:
        return _pair_tasks(dataset, rows, labels, names, pairs, per_task, seed)
    return _rebuilt(dataset, rows, labels.astype(np.int64), "multiclass", names)


def one_vs_one(dataset: Dataset, pairs: Sequence[tuple[str, str]] | None = None) -> Dataset:
    """Return one ragged binary task per pair of classes, named ``a/b``; a is +1.

    Parameters
    ----------
    dataset : Dataset
        A multi-class set.
    pairs : sequence of pairs of class names, optional
        All pairs in the order of the classes by default.

    Raises
    ------
    UnknownNameError, DataError
        As `make_tasks`.
    """
    return make_tasks(dataset, {"make": "one-vs-one"} if pairs is None else {"pairs": pairs})


def one_vs_rest(dataset: Dataset) -> Dataset:
    """Return one binary task per class on a shared design: +1 for the class, -1 for all others.

    Raises
    ------
    DataError
        If the set is not multi-class.
    """
    return make_tasks(dataset, "one-vs-rest")


def per_class_rows(labels: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Return the sorted rows of at most `per_class` examples of every class.

    The draw of a class depends on its number and the seed only, so that leaving out other classes changes nothing.
    """
    _require_count("per_class", per_class)
    chosen = [_shuffled(labels, c, seed)[:per_class] for c in np.unique(labels)]
    return np.sort(np.concatenate(chosen))


def training_sizes(counts: np.ndarray, fraction: float) -> np.ndarray:
    """Return the rows of every class for training: min(round(p N / K), floor(p N_class)), equal where classes allow.

    Parameters
    ----------
    counts : ndarray of shape (K,)
        Examples per class, N in all.
    fraction : float
        p, strictly between 0 and 1. Halves are rounded up.

    Raises
    ------
    DataError
        If `fraction` is out of range or a class would be left without training rows.
    """
    counts = np.asarray(counts)
    if not 0 < fraction < 1:
        raise DataError(f"the training fraction must lie strictly between 0 and 1, not {fraction}")
    # 0.1 * 730 must give 73: products like 72.99999999999999 are rounding noise.
    equal = int(np.floor(fraction * counts.sum() / len(counts) + 0.5 + 1e-9))
    sizes = np.minimum(equal, np.floor(fraction * counts + 1e-9).astype(np.int64))
    if (sizes < 1).any():
        raise DataError(
            f"a training part of {fraction:g} leaves class {int(np.argmin(sizes))} without rows",
            "Use a larger training part or more rows per class.",
        )
    return sizes


def balanced_partition(labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split rows into a class-balanced training part and equal validation and test parts.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Class numbers.
    fraction : float
        p of `training_sizes`.
    seed : int

    Returns
    -------
    train, validation, test : ndarrays of int
        Sorted rows; in every class the rest is halved, an odd row goes to the test part.
    """
    classes, counts = np.unique(labels, return_counts=True)
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for c, size in zip(classes, training_sizes(counts, fraction), strict=True):
        rows = _shuffled(labels, c, seed)
        middle = size + (len(rows) - size) // 2
        for part, piece in zip(parts, (rows[:size], rows[size:middle], rows[middle:]), strict=True):
            part.append(piece)
    train, validation, test = (np.sort(np.concatenate(part)) for part in parts)
    return train, validation, test


def balanced_task_partition(dataset: Dataset, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`balanced_partition` of the examples behind made tasks; returns rows of `dataset`.

    An example that several one-vs-one tasks use is in the same part everywhere.

    Raises
    ------
    DataError
        If the set was not made of classes.
    """
    if not dataset.source:
        raise DataError(
            f"the tasks of {dataset.id or 'this set'} were not made of classes", "Split it by task instead."
        )
    _, first, inverse = np.unique(dataset.source["row"], return_index=True, return_inverse=True)
    parts = balanced_partition(dataset.source["label"][first], fraction, seed)
    train, validation, test = (np.flatnonzero(np.isin(inverse, part)) for part in parts)
    return train, validation, test


def paper_partition(dataset: Dataset, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split as the multi-kernel paper does: a part of every task for training, the rest halved.

    Parameters
    ----------
    dataset : Dataset
        Tasks made of classes are split with `balanced_task_partition`, other ragged sets task by task.
    fraction : float
        Training part, strictly between 0 and 1.
    seed : int

    Returns
    -------
    train, validation, test : ndarrays of int
        Sorted rows; an odd row of a task goes to the test part.

    Raises
    ------
    DataError
        If the tasks share their rows without being made of classes, a fraction is out of range, or a part of a task
        would be empty.
    """
    if dataset.source and "label" in dataset.source:
        return balanced_task_partition(dataset, fraction, seed)
    if dataset.task_id is None:
        raise DataError(f"the tasks of {dataset.id or 'this set'} share their rows", "Split its rows instead.")
    if not 0 < fraction < 1:
        raise DataError(f"the training fraction must lie strictly between 0 and 1, not {fraction}")
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for t in range(dataset.n_tasks):
        rows = _shuffled(dataset.task_id, t, seed)
        size = int(np.floor(fraction * len(rows) + 1e-9))
        middle = size + (len(rows) - size) // 2
        if size < 1 or middle == size:
            raise DataError(
                f"a training part of {fraction:g} leaves {dataset.tasks[t]} ({len(rows)} rows) an empty part",
                "Use another training part.",
            )
        for part, piece in zip(parts, (rows[:size], rows[size:middle], rows[middle:]), strict=True):
            part.append(piece)
    train, validation, test = (np.sort(np.concatenate(part)) for part in parts)
    return train, validation, test


def _require_multiclass(dataset: Dataset) -> None:
    if dataset.task_type != "multiclass":
        raise DataError(f"{dataset.id or 'this set'} is {dataset.task_type}, not multi-class: its tasks exist already")


def _require_count(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise DataError(f"{name} must be a whole number of at least 1, not {value!r}")


def _shuffled(labels: np.ndarray, label: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, int(label)]).permutation(np.flatnonzero(labels == label))


def _chosen_rows(
    dataset: Dataset, classes: Sequence[Any] | None, per_class: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return source rows, their new class numbers and the class names."""
    names = dataset.tasks if classes is None else [str(c) for c in classes]
    for name in names:
        if name not in dataset.tasks:
            raise UnknownNameError(f"class of {dataset.id or 'the data set'}", name, dataset.tasks)
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(f"two or more different classes are needed, got {', '.join(names) or 'none'}")
    rows = np.arange(dataset.n_samples) if per_class is None else per_class_rows(dataset.y, per_class, seed)
    number = np.full(len(dataset.tasks), -1)
    number[[dataset.tasks.index(name) for name in names]] = np.arange(len(names))
    labels = number[dataset.y[rows]]
    return rows[labels >= 0], labels[labels >= 0], list(names)


def _pair_tasks(
    dataset: Dataset,
    rows: np.ndarray,
    labels: np.ndarray,
    names: list[str],
    pairs: Sequence[Sequence[Any]] | None,
    per_task: int | None,
    seed: int,
) -> Dataset:
    if per_task is not None:
        _require_count("per_task", per_task)
    chosen = list(combinations(names, 2)) if pairs is None else [tuple(str(name) for name in pair) for pair in pairs]
    taken, signs, owner = [], [], []
    for t, pair in enumerate(chosen):
        if len(pair) != 2 or pair[0] == pair[1] or not set(pair) <= set(names):
            raise DataError(f"{list(pair)} is no pair of two of the classes {', '.join(names)}")
        a, b = (names.index(name) for name in pair)
        inside = np.flatnonzero((labels == a) | (labels == b))
        if per_task is not None and per_task < len(inside):
            inside = np.sort(np.random.default_rng([seed, a, b]).permutation(inside)[:per_task])
        taken.append(inside)
        signs.append(np.where(labels[inside] == a, 1.0, -1.0))
        owner.append(np.full(len(inside), t))
    where = np.concatenate(taken)
    made = _rebuilt(
        dataset, rows[where], np.concatenate(signs), "binary", ["/".join(p) for p in chosen], np.concatenate(owner)
    )
    made.source["label"] = labels[where]
    return made


def _shared_tasks(dataset: Dataset, rows: np.ndarray, labels: np.ndarray, names: list[str]) -> Dataset:
    Y = np.where(labels[:, None] == np.arange(len(names)), 1.0, -1.0)
    made = _rebuilt(dataset, rows, Y, "binary", names)
    made.source["label"] = labels
    return made


def _rebuilt(
    dataset: Dataset,
    rows: np.ndarray,
    y: np.ndarray,
    task_type: str,
    tasks: list[str],
    task_id: np.ndarray | None = None,
) -> Dataset:
    """Return a data set of source rows with new targets; published splits follow their rows."""
    splits = {
        name: [(np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test))) for train, test in pairs]
        for name, pairs in dataset.splits.items()
    }
    return Dataset(
        X=dataset.X[rows],
        y=y,
        task_type=task_type,
        task_id=task_id,
        tasks=tasks,
        features=dataset.features,
        id=dataset.id,
        title=dataset.title,
        simulated=dataset.simulated,
        notes=dataset.notes,
        splits=splits,
        source={"row": rows} if task_type == "binary" else {},
    )
