"""Binary tasks made from the classes of a multi-class data set.

One-vs-one tasks are ragged (a task has the rows of its two classes); one-vs-rest tasks
share all rows. Every row keeps the number and the class of its example in the
multi-class set (`Dataset.source`), so that a split can put all rows of an example in
the same part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset, check_sizes
from mtlrun.data.splits import class_rows
from mtlrun.errors import DataError, UnknownNameError

Array = np.ndarray

ONE_VS_ONE = "one-vs-one"
ONE_VS_REST = "one-vs-rest"
KEYS = ("make", "pairs", "classes", "per_class", "per_task", "seed")


def make_tasks(dataset: Dataset, tasks: str | Mapping[str, Any] | None) -> Dataset:
    """Apply the option `tasks` of the readers of multi-class data.

    Parameters
    ----------
    dataset : Dataset
        A multi-class data set.
    tasks : None, str or mapping
        None returns the data set unchanged. ``"one-vs-one"`` and ``"one-vs-rest"`` are
        short for ``{make: ...}``. Keys:

        * ``make``: one of the two; without it (and without ``pairs``) the data set
          stays multi-class.
        * ``pairs``: for one-vs-one, pairs of class names, the first being +1; default
          all pairs in class order.
        * ``classes``: names of the classes to keep, in this order.
        * ``per_class``: at most this many rows per class, drawn without replacement.
        * ``per_task``: at most this many rows per one-vs-one task, drawn after the
          tasks were made.
        * ``seed``: seed of the draws, default 0.

    Returns
    -------
    Dataset

    Raises
    ------
    UnknownNameError
        For an unknown key, make or class.
    DataError
        If the data set is not multi-class, or a number is out of range.
    """
    if tasks is None:
        return dataset
    options: dict[str, Any]
    if isinstance(tasks, str):
        options = {"make": tasks}
    else:
        options = dict(tasks)
    for key in options:
        if key not in KEYS:
            raise UnknownNameError("key of the option tasks", str(key), KEYS)
    pairs = options.get("pairs")
    seed = options.get("seed", 0)
    make = options.get("make") or None
    if make is None and pairs is not None:
        make = ONE_VS_ONE
    if make not in (None, ONE_VS_ONE, ONE_VS_REST):
        raise UnknownNameError(
            "way to make tasks", str(make), [ONE_VS_ONE, ONE_VS_REST]
        )
    for key in ("pairs", "per_task"):
        if options.get(key) is not None and make != ONE_VS_ONE:
            raise DataError(
                f"the option tasks has {key}, but makes no one-vs-one tasks",
                f"Remove {key} or make.",
            )
    if dataset.task_type != "multiclass":
        raise DataError(
            f"{dataset.id or 'this data set'} is {dataset.task_type}, not multi-class: "
            "it has its tasks already"
        )
    classes = options.get("classes")
    if classes is None and pairs is not None:
        classes = list(dict.fromkeys(str(name) for pair in pairs for name in pair))
    rows, labels, names = _chosen_rows(dataset, classes, options.get("per_class"), seed)
    if make == ONE_VS_REST:
        Y = np.where(labels[:, None] == np.arange(len(names)), 1.0, -1.0)
        return _remade(dataset, rows, Y, names, labels)
    if make == ONE_VS_ONE:
        return _pair_tasks(
            dataset, rows, labels, names, pairs, options.get("per_task"), seed
        )
    return _remade(dataset, rows, labels.astype(np.int64), names)


def _chosen_rows(
    dataset: Dataset, classes: Sequence[Any] | None, per_class: int | None, seed: int
) -> tuple[Array, Array, list[str]]:
    """Return the chosen rows, their new class numbers and the class names."""
    if classes is None:
        names = dataset.tasks
    else:
        names = [str(c) for c in classes]
    for name in names:
        if name not in dataset.tasks:
            raise UnknownNameError(
                f"class of {dataset.id or 'the data set'}", name, dataset.tasks
            )
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(
            "two or more different classes are needed, got "
            f"{', '.join(names) or 'none'}"
        )
    rows = np.arange(dataset.n_samples)
    if per_class is not None:
        check_sizes(per_class=per_class)
        # The draw of a class does not depend on which other classes are kept.
        chosen = [
            class_rows(dataset.y, c, seed)[:per_class] for c in np.unique(dataset.y)
        ]
        rows = np.sort(np.concatenate(chosen))
    new_labels = np.full(len(dataset.tasks), -1)
    for new_label, name in enumerate(names):
        new_labels[dataset.tasks.index(name)] = new_label
    labels = new_labels[dataset.y[rows]]
    return rows[labels >= 0], labels[labels >= 0], list(names)


def _pair_tasks(
    dataset: Dataset,
    rows: Array,
    labels: Array,
    names: list[str],
    pairs: Sequence[Sequence[Any]] | None,
    per_task: int | None,
    seed: int,
) -> Dataset:
    if per_task is not None:
        check_sizes(per_task=per_task)
    chosen: list[tuple[str, ...]]
    if pairs is None:
        chosen = list(combinations(names, 2))
    else:
        chosen = [tuple(map(str, pair)) for pair in pairs]
    taken = []
    signs = []
    owner = []
    for t, pair in enumerate(chosen):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise DataError(
                f"{list(pair)} is not a pair of two of the classes {', '.join(names)}"
            )
        for name in set(pair) - set(names):
            raise UnknownNameError("class among those chosen", name, names)
        a, b = map(names.index, pair)
        inside = np.flatnonzero((labels == a) | (labels == b))
        if per_task is not None and per_task < len(inside):
            # The draw of a pair does not depend on the other pairs.
            rng = np.random.default_rng([seed, a, b])
            inside = np.sort(rng.permutation(inside)[:per_task])
        taken.append(inside)
        signs.append(np.where(labels[inside] == a, 1.0, -1.0))
        owner.append(np.full(len(inside), t))
    where = np.concatenate(taken)
    tasks = ["/".join(pair) for pair in chosen]
    return _remade(
        dataset,
        rows[where],
        np.concatenate(signs),
        tasks,
        labels[where],
        np.concatenate(owner),
    )


def _remade(
    dataset: Dataset,
    rows: Array,
    y: Array,
    tasks: list[str],
    labels: Array | None = None,
    task_id: Array | None = None,
) -> Dataset:
    """Return these rows with new targets; published splits follow.

    The tasks are binary if `labels`, the class of each row, are present.
    """
    splits = {}
    for name, pairs in dataset.splits.items():
        splits[name] = [(_positions(rows, a), _positions(rows, b)) for a, b in pairs]
    task_type = "multiclass"
    source = {}
    if labels is not None:
        task_type = "binary"
        source = {"row": rows, "label": labels}
    return replace(
        dataset,
        X=dataset.X[rows],
        y=y,
        task_type=task_type,
        task_id=task_id,
        tasks=tasks,
        splits=splits,
        source=source,
    )


def _positions(rows: Array, part: Array) -> Array:
    """Return the positions of the rows that belong to a part of a split."""
    return np.flatnonzero(np.isin(rows, part))
