"""Binary tasks made from the classes of a multi-class data set.

One-vs-one tasks are ragged (a task has the rows of its two classes); one-vs-rest tasks
share all rows. Every row keeps the number and the class of its example in the
multi-class set (`Dataset.source`), so that a split can put all rows of an example in
the same part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset, check_sizes
from mtlrun.data.splits import class_rows
from mtlrun.errors import DataError, UnknownNameError

Array = np.ndarray

ONE_VS_ONE = "one-vs-one"
ONE_VS_REST = "one-vs-rest"


@dataclass(frozen=True)
class ClassTasks:
    """How tasks are made of classes: the keys of the option `tasks`.

    Attributes
    ----------
    make : {"one-vs-one", "one-vs-rest"} or None
        None, and no `pairs`: the data set stays multi-class.
    pairs : sequence of (str, str) or None
        For one-vs-one, pairs of class names, the first being +1. Default: all pairs in
        class order.
    classes : sequence of str or None
        Names of the classes to keep, in this order.
    per_class : int or None
        At most this many rows per class, drawn without replacement.
    per_task : int or None
        At most this many rows per one-vs-one task, drawn after the tasks were made.
    seed : int
        Seed of the draws.
    """

    make: str | None = None
    pairs: Sequence[Sequence[Any]] | None = None
    classes: Sequence[Any] | None = None
    per_class: int | None = None
    per_task: int | None = None
    seed: int = 0

    @classmethod
    def of(cls, tasks: str | Mapping[str, Any]) -> ClassTasks:
        """Read the option.

        Raises
        ------
        UnknownNameError
            For an unknown key or make.
        DataError
            For keys that do not belong together.
        """
        if isinstance(tasks, str):
            options = cls(make=tasks)
        else:
            keys = [field.name for field in fields(cls)]
            for key in tasks:
                if key not in keys:
                    raise UnknownNameError("key of the option tasks", str(key), keys)
            options = cls(**tasks)
        make = options.make or None
        if make is None and options.pairs is not None:
            make = ONE_VS_ONE
        if make not in (None, ONE_VS_ONE, ONE_VS_REST):
            raise UnknownNameError(
                "way to make tasks", str(make), [ONE_VS_ONE, ONE_VS_REST]
            )
        for key in ("pairs", "per_task"):
            if getattr(options, key) is not None and make != ONE_VS_ONE:
                raise DataError(
                    f"the option tasks has {key}, but makes no one-vs-one tasks",
                    f"Remove {key} or make.",
                )
        classes = options.classes
        if classes is None and options.pairs is not None:
            names = [str(name) for pair in options.pairs for name in pair]
            classes = list(dict.fromkeys(names))
        return replace(options, make=make, classes=classes)


def make_tasks(dataset: Dataset, tasks: str | Mapping[str, Any] | None) -> Dataset:
    """Apply the option `tasks` of the readers of multi-class data.

    Parameters
    ----------
    dataset : Dataset
        A multi-class data set.
    tasks : None, str or mapping
        None returns the data set unchanged. ``"one-vs-one"`` and ``"one-vs-rest"`` are
        short for ``{make: ...}``. The keys are the attributes of `ClassTasks`.

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
    options = ClassTasks.of(tasks)
    if dataset.task_type != "multiclass":
        raise DataError(
            f"{dataset.id or 'this data set'} is {dataset.task_type}, not multi-class: "
            "it has its tasks already"
        )
    names = dataset.tasks
    if options.classes is not None:
        names = [str(c) for c in options.classes]
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
    if options.per_class is not None:
        check_sizes(per_class=options.per_class)
        # The draw of a class does not depend on which other classes are kept.
        drawn = [
            class_rows(dataset.y, c, options.seed)[: options.per_class]
            for c in np.unique(dataset.y)
        ]
        rows = np.sort(np.concatenate(drawn))
    new_labels = np.full(len(dataset.tasks), -1)
    for new_label, name in enumerate(names):
        new_labels[dataset.tasks.index(name)] = new_label
    labels = new_labels[dataset.y[rows]]
    rows = rows[labels >= 0]
    labels = labels[labels >= 0]
    names = list(names)
    if options.make == ONE_VS_REST:
        Y = np.where(labels[:, None] == np.arange(len(names)), 1.0, -1.0)
        return _remade(dataset, rows, Y, names, labels)
    if options.make == ONE_VS_ONE:
        return _pair_tasks(dataset, rows, labels, names, options)
    return _remade(dataset, rows, labels.astype(np.int64), names)


def _pair_tasks(
    dataset: Dataset,
    rows: Array,
    labels: Array,
    names: list[str],
    options: ClassTasks,
) -> Dataset:
    per_task = options.per_task
    if per_task is not None:
        check_sizes(per_task=per_task)
    chosen: list[tuple[str, ...]]
    if options.pairs is None:
        chosen = list(combinations(names, 2))
    else:
        chosen = [tuple(map(str, pair)) for pair in options.pairs]
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
            rng = np.random.default_rng([options.seed, a, b])
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
