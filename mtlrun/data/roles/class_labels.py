"""The labels of targets: which class means +1, and a column of -1/+1 for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from mtlrun.data.reading.names import (
    Names,
    class_task,
    distinct,
    is_number,
    is_plain,
    name_order,
)
from mtlrun.errors import DataError, UnknownNameError, listed

Array = np.ndarray

if TYPE_CHECKING:
    from mtlrun.data.roles.builder import DatasetBuilder

#: Numbers of more different values than this are hardly labels.
FEW_LABELS = 6
#: Remedy for labels that occur only in test rows.
NEW_LABEL_REMEDY = (
    "Correct the cell or leave its row out. The kind of the problem and its classes come "
    "from the training rows, so a new class needs rows there."
)


def label_columns(
    make: DatasetBuilder, columns: Mapping[str, pd.Series], kind: str
) -> tuple[Array, list[str], dict[str, list[str]]]:
    """Return -1/+1 columns: one per target of two labels, one per class of the others.

    Parameters
    ----------
    make : DatasetBuilder
        Its notes say what +1 means.
    columns : mapping of str to Series
        The targets.
    kind : str
        The task type.

    Returns
    -------
    y : ndarray of shape (n, n_columns)
        NaN where a label is missing.
    names : list of str
        Of the columns.
    labels : dict of str to list of str
        Negative and positive label, or all classes, of each target.
    """
    parts: list[Array] = []
    part_names: list[str] = []
    labels: dict[str, list[str]] = {}
    codings: list[str] = []
    several_classes: list[str] = []
    for name in columns:
        classes = class_names(make, name)
        words = classes.names
        taken = _positive_classes(make, name, words, kind)
        labels[name] = words
        if len(taken) == 1:
            others = [word for word in words if word != taken[0]]
            negative = f"not {taken[0]}"
            if len(others) == 1:
                negative = others[0]
            labels[name] = [negative, taken[0]]
            if set(words) not in ({"0", "1"}, {"-1", "1"}):
                codings.append(f"{name}: +1 means {taken[0]}")
        else:
            several_classes.append(repr(name))
        for word in taken:
            if len(taken) == 1:
                part_names.append(name)
            elif len(columns) == 1:
                part_names.append(word)
            else:
                part_names.append(class_task(name, word))
            is_word = classes.codes == words.index(word)
            signs = np.where(is_word, 1.0, -1.0)
            is_missing = classes.codes < 0
            parts.append(np.where(is_missing, np.nan, signs))
    if several_classes:
        names = listed(several_classes)
        make.notes.append(f"each class of {names} is a task, one against the rest")
    if codings:
        make.notes.append(listed(codings))
    return np.column_stack(parts), distinct(part_names), labels


def _positive_classes(
    make: DatasetBuilder, name: str, words: list[str], kind: str
) -> list[str]:
    """Return the classes of a target that mean +1, each in a column of its own.

    Raises
    ------
    DataError
        For a binary target of more than two classes.
    UnknownNameError
        If the label that means +1 does not occur.
    """
    positive = make.roles.positive
    is_number_target = make.label_types[name] == "number"
    if positive is not None:
        taken = [word for word in words if word == positive]
        if not taken and is_number(positive):
            # The first that is the same number.
            numbers = filter(is_number, words)
            equal = [word for word in numbers if float(word) == float(positive)]
            taken = equal[:1]
        if not taken and len(words) > 2 and is_number_target:
            raise DataError(
                f"the target {name!r} has {len(words)} different numbers, "
                f"of which {positive!r} is none",
                "Leave out --positive, which names one of a few labels: "
                "numbers are predicted as they are.",
            )
        if not taken:
            raise UnknownNameError(f"label of {name}", positive, words)
        return taken
    if kind == "binary" and len(words) > 2:
        remedy = (
            "Say --positive LABEL for one class against the others, "
            "or another --task-type."
        )
        if is_number_target and len(words) > FEW_LABELS:
            remedy = "Leave out --task-type: numbers are predicted as they are."
        raise DataError(
            f"the target {name!r} has {len(words)} values, binary tasks have two",
            remedy,
        )
    if len(words) == 2:
        return words[1:]
    return words


def classes_of_tasks(
    make: DatasetBuilder,
    keep: Array,
    codes: Array,
    task_id: Array,
    tasks: Sequence[str],
    words: Sequence[str],
) -> tuple[Array, list[str], dict[str, list[str]]]:
    """Return a -1/+1 column per class of each task, and their names and labels.

    A task of two classes has one column. Rows of other tasks are NaN.

    Parameters
    ----------
    make : DatasetBuilder
    keep : ndarray of shape (n,)
        Rows of the table.
    codes, task_id : ndarray of shape (n,)
        Class and task of each of these rows.
    tasks, words : sequence of str
        Names of the tasks and of the classes.

    Raises
    ------
    DataError
        For a class that occurs only in test rows of a task.
    """
    is_training = keep < make.n_train
    places = []
    for t, task in enumerate(tasks):
        of_task = np.flatnonzero(task_id == t)
        classes, first = np.unique(codes[of_task], return_index=True)
        is_new = ~np.isin(classes, codes[of_task[is_training[of_task]]])
        for c, row in zip(classes[is_new], of_task[first[is_new]], strict=True):
            location = make.table.where(int(keep[row]))
            places.append(f"{words[int(c)]!r} of {task!r} ({location})")
    if places:
        raise DataError(
            f"labels of tasks that occur only in test rows: {listed(places)}",
            NEW_LABEL_REMEDY,
        )
    parts = []
    names = []
    labels = {}
    for t, task in enumerate(tasks):
        is_of_task = task_id == t
        classes = np.unique(codes[is_of_task])
        labels[task] = [words[int(c)] for c in classes]
        if len(classes) <= 2:
            # The second of two classes is +1.
            classes = classes[1:]
        for c in classes:
            signs = np.where(codes == c, 1.0, -1.0)
            parts.append(np.where(is_of_task, signs, np.nan))
            names.append(class_task(task, words[int(c)]))
    return np.column_stack(parts), distinct(names), labels


def class_names(make: DatasetBuilder, name: str) -> Names:
    """Return the sorted labels of a target: by value if numeric, else as texts.

    Their type is stored in ``make.label_types``. Numbers that a file of text writes in
    more than one way, or with zeros in front, are texts.

    Raises
    ------
    DataError
        For a label that occurs only in test rows.
    """
    names = make.named(name)
    column = make.typed(name)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = column.cat.categories.dtype
    kind = "text"
    if is_bool_dtype(dtype):
        kind = "bool"
    elif is_numeric_dtype(dtype) and is_plain(names.names):
        kind = "number"
        names = Names.of(column)
    make.label_types[name] = kind
    training_codes = np.append(names.codes[: make.n_train], -1)
    new_codes, rows = np.unique(names.codes, return_index=True)
    is_new = ~np.isin(new_codes, training_codes)
    places = []
    for code, row in zip(new_codes[is_new], rows[is_new], strict=True):
        places.append(f"{names.names[code]!r} ({make.table.where(int(row))})")
    if places:
        raise DataError(
            f"the target {name!r} has labels that occur only in test rows: "
            f"{listed(places)}",
            NEW_LABEL_REMEDY,
        )
    if kind == "text":
        return names.sorted(sorted(names.names))
    return names.sorted(name_order(names.names))
