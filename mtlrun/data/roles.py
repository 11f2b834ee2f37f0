"""From a table to a `Dataset`: which column is target, task, weight, group, time or feature."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy import sparse

from mtlrun.data.cards import Card
from mtlrun.data.dataset import TASK_TYPES, Dataset
from mtlrun.data.files import DataFile, file_called
from mtlrun.data.numbers import is_number
from mtlrun.data.ranges import check_read
from mtlrun.data.splits import GROUP, TIME, WEIGHT
from mtlrun.data.table import Table, coded, names_of, read_table_file
from mtlrun.errors import DataError, UnknownNameError, counted, listed

#: A column of words with more different ones than this, in more than half of the rows, is an identifier.
MAX_WORDS = 50
#: A target of up to so many different texts holds categories.
MIN_TEXTS = 20
#: A number with a decimal comma, groups of thousands, a currency or a percent sign.
_WRITTEN_NUMBER = re.compile(r"[$€£]?\s?[-+]?\s?(?:\d{1,3}(?:[ ,.'’]\d{3})+|\d+)(?:[.,]\d+)?\s?[%€$£]?")
#: Rows that a task needs at least: training and test rows, and training rows in every inner fold.
MIN_ROWS = 4
#: What to do with tasks that occur only in the test rows.
UNSEEN = ("error", "mean")
#: Published split of the data set made from --test, --group or --time.
TEST_SPLIT = "test"


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are.

    Attributes
    ----------
    targets : tuple of str
        One column; several columns are the tasks of a shared design. Empty: those that the format names.
    task : str or None
        Column that names the task of every row (one target only).
    task_type : str or None
        binary, regression or multiclass; inferred if None.
    positive : str or None
        The label that means +1; by default the larger (or alphabetically later) one.
    weight, group, time : str or None
        Column of row weights; of groups that must not be split; of the time by which rows are split.
    drop, categorical : tuple of str
        Columns left out; columns of numbers that are names.
    min_rows : int or None
        Leave out tasks with fewer rows instead of refusing them.
    unseen : {"error", "mean"}
        What to do with tasks that occur only in the test rows.
    """

    targets: tuple[str, ...] = ()
    task: str | None = None
    task_type: str | None = None
    positive: str | None = None
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    min_rows: int | None = None
    unseen: str = "error"


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
) -> Dataset:
    """Read a table of words, numbers and empty cells; `mtlrun compare` writes cards for this reader.

    Parameters
    ----------
    data, test : str
        Files of the card: rows, and rows to test on (the published split ``test``). Their suffix determines the format.
    targets, task, task_type, positive, weight, group, time, drop, categorical, min_rows, unseen
        As of `Roles`.

    Raises
    ------
    DataError
        As `mtlrun.data.table.read_table` and `make_dataset`.
    """
    roles = Roles(
        tuple(targets),
        task,
        task_type,
        positive,
        weight,
        group,
        time,
        tuple(drop),
        tuple(categorical),
        min_rows,
        unseen,
    )
    rows = read_table_file(file_called(files, data, card), PurePosixPath(data).suffix.lower())
    more = None
    if test is not None:
        more = read_table_file(file_called(files, test, card), PurePosixPath(test).suffix.lower(), rows)
    return make_dataset(rows, roles, more)


def make_dataset(table: Table, roles: Roles, test: Table | None = None) -> Dataset:
    """Make a data set of a table.

    Words become categories: X holds their number in ``Dataset.categories`` and NaN where a cell is missing, to be
    handled by a feature step learned on training rows. Row weights, groups and times are in ``Dataset.source``, the
    split by test file in ``Dataset.splits``; the decisions taken are in ``Dataset.notes``.

    Parameters
    ----------
    table : Table
    roles : Roles
    test : Table, optional
        Rows to test on, of the same columns.

    Raises
    ------
    UnknownNameError
        For a column that does not exist, with the nearest names.
    DataError
        For a target with one value, too few rows of a task, mixed types, numbers that cannot be squared, and roles that
        contradict each other.
    """
    _check_roles(table, roles)
    n_train = len(table.frame)
    targets = list(roles.targets or table.default_targets)
    task = roles.task or (table.default_task if not roles.targets else None)
    if test is not None:
        table = table.stacked(test, [name for name in table.columns if name not in roles.drop])
    make = _Building(table, roles)
    if not targets:
        raise DataError(f"{table.name}: no target", "Say --target COLUMN, --targets A,B,C or --labels FILE.xml.")
    found = _targets(make, targets, task)
    y, task_type, labels = found.y, found.kind, found.labels
    task_id, tasks = (None, found.tasks) if task is None else _tasks(make, task)
    X, features, categories = _features(make, {*targets, task, roles.weight, roles.group, roles.time, *roles.drop})
    source = _source(make)
    known = ~np.isnan(y) if y.ndim == 1 else ~np.isnan(y).all(axis=1)
    keep, tasks, task_id = _large_enough(make, known, tasks, task_id)
    if task_type == "multiclass" and task_id is not None:
        keep, tasks, task_id = _several_classes(make, y, keep, tasks, task_id)
    y = y[keep]
    if task_id is not None and labels:
        words = labels[targets[0]]
        if task_type == "multiclass":
            y, tasks, labels = _classes_of_tasks(y, task_id, tasks, words)
            task_type, task_id = "binary", None
        else:
            labels = dict.fromkeys(tasks, words)
    if len(keep) < len(known):
        make.notes.append(f"{counted(len(known) - len(keep), 'row')} without a target or of small tasks left out")
    data = Dataset(
        X=X[keep],
        y=y,
        task_type=task_type,
        task_id=task_id,
        tasks=tasks,
        features=features,
        categories=categories,
        source={name: values[keep] for name, values in source.items()},
        targets=targets,
        labels=labels,
    )
    data.splits = _splits(make, data, keep, n_train if test is not None else None)
    data.notes = "\n".join(make.notes)
    check_read(data, table.name, lambda row: table.where(int(keep[row])))
    return data


@dataclass
class _Building:
    """What is known while a data set is made."""

    table: Table
    roles: Roles
    notes: list[str] = field(default_factory=list)

    def refuse(self, wrong: Any, text: str, remedy: str) -> None:
        """Raise a DataError with the place of the first row that is wrong, if there is one."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            raise DataError(f"{self.table.where(int(rows[0]))}: {text}", remedy)

    def full(self, name: str, part: str) -> pd.Series:
        """Return a column in which no cell may be empty."""
        column = self.table.column(name)
        self.refuse(column.isna(), f"the {part} column {name!r} is empty", f"Every row needs its {part}.")
        return column

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of numbers, NaN where they are missing."""
        values = self.table.column(name).to_numpy(dtype=float, na_value=np.nan)
        text = f"column {name!r} contains an infinite value"
        self.refuse(np.isinf(values), text, "Fix the cell or leave it empty.")
        return values

    def refuse_mixed(self, name: str) -> None:
        """Refuse a column in which some cells are numbers and others are words."""
        column = self.table.column(name)
        if is_numeric_dtype(column):
            return
        numbers = pd.to_numeric(column.astype("string"), errors="coerce").notna().to_numpy()
        words = column.notna().to_numpy() & ~numbers
        if numbers.any() and words.any():
            odd = words if words.sum() <= numbers.sum() else numbers
            text = f"column {name!r} mixes numbers and words: {column.iloc[int(np.argmax(odd))]!r} here"
            self.refuse(odd, text, f"Fix the cell, or say --categorical {name} if all its values are names.")

    def refuse_written_numbers(self, name: str) -> None:
        """Refuse a column in which all cells are numbers with something around them, such as 1,5 or 12% or $3."""
        column = self.table.column(name).dropna()
        if is_numeric_dtype(column) or column.nunique() < 3:
            return
        first = str(column.iloc[0])
        if is_number(first.strip()):
            return  # a frame of texts that read as numbers: names
        if column.astype("string").str.strip().str.fullmatch(_WRITTEN_NUMBER).all():
            text = (
                f"{self.table.where(int(column.index[0]), name)}: column {name!r} contains numbers as text: {first!r}"
            )
            raise DataError(text, f"Write them like 1.5, say --categorical {name} if they are names, or --drop {name}.")


def _check_roles(table: Table, roles: Roles) -> None:
    named = [*roles.targets, roles.task, roles.weight, roles.group, roles.time, *roles.drop, *roles.categorical]
    for name in filter(None, named):
        if name not in table.columns:
            raise UnknownNameError(f"column of {table.name}", name, table.columns)
    single = [name for name in (roles.task, roles.weight, roles.group, roles.time) if name]
    twice = [name for name in {*roles.targets, *single} if [*roles.targets, *single].count(name) > 1]
    if twice and set(twice) != {roles.task} & {roles.group}:
        raise DataError(f"column {twice[0]!r} is given two roles", "Give every column one role.")
    if roles.task and len(roles.targets) > 1:
        raise DataError(
            "a task column requires a single target",
            "Name the task column (ragged) or several targets (shared), not both.",
        )
    if roles.group and roles.time:
        raise DataError("rows cannot be split by group and by time at once", "Choose --group or --time.")
    if roles.task_type not in (None, *TASK_TYPES):
        raise UnknownNameError("task type", str(roles.task_type), TASK_TYPES)
    if roles.positive is not None and roles.task_type not in (None, "binary"):
        text = f"a positive label requires binary targets, not {roles.task_type}"
        raise DataError(text, "Remove --positive or --task-type.")
    if roles.unseen not in UNSEEN:
        raise UnknownNameError("treatment of unseen tasks", roles.unseen, UNSEEN)


# --- targets ---


@dataclass
class _Targets:
    """The targets of a table.

    Attributes
    ----------
    y : ndarray
        1-D with a task column: numbers, -1/+1, or numbers of classes; else a column per task.
    kind : str
        Task type; ``multiclass`` only with a task column.
    tasks : list of str
        Names of the columns of `y`.
    labels : dict of str to list of str
        As of `Dataset`, by target.
    """

    y: np.ndarray
    kind: str
    tasks: list[str] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)


def _targets(make: _Building, names: list[str], task: str | None) -> _Targets:
    columns = {name: make.table.column(name) for name in names}
    for name, column in columns.items():
        values = column.dropna()
        if values.nunique() < 2:
            only = f"a single value ({values.iloc[0]})" if len(values) else "no values"
            raise DataError(f"{make.table.name}: the target {name!r} has {only}", "There is nothing to predict.")
        make.refuse_mixed(name)
        make.refuse_written_numbers(name)
    kind = _task_type(make, columns)
    if kind == "multiclass":
        return _classes_as_tasks(make, columns, task)
    words = [name for name, column in columns.items() if not is_numeric_dtype(column)]
    if kind == "regression" and words:
        text = f"the target {words[0]!r} contains words, not numbers"
        raise DataError(text, "Say --task-type binary or multiclass.")
    if len(names) == 1 and task is None:
        raise DataError(
            f"one target and no task column: there is a single task, {names[0]!r}",
            "Name the column that says to which task a row belongs (--task), or more targets (--targets A,B,C).",
        )
    labels: dict[str, list[str]] = {}
    if kind == "regression":
        y = np.column_stack([make.numbers(name) for name in names])
    else:
        y, labels = _signs(make, columns)
    return _Targets(y[:, 0] if task else y, kind, names, labels)


def _task_type(make: _Building, columns: Mapping[str, pd.Series]) -> str:
    """Return the task type that is asked for, or that of the targets."""
    asked = make.roles.task_type or (make.roles.positive and "binary")
    kinds = [asked or _kind(column) for column in columns.values()]
    numbers = set(kinds) == {"regression", "binary"} and all(is_numeric_dtype(column) for column in columns.values())
    if "regression" in kinds and len(set(kinds)) > 1 and not numbers:
        text = listed([f"{name} ({kind})" for name, kind in zip(columns, kinds, strict=True)])
        raise DataError(
            f"targets of different types: {text}", "Compare each type in a run of its own, or say --task-type."
        )
    kind = "regression" if numbers else max(kinds)  # a target of two classes may stand beside one of more
    if make.roles.task_type is None:
        make.notes.append(f"the task type is inferred from the targets: {kind}")
        for name, column in columns.items() if kind == "multiclass" else ():
            count = column.nunique()
            if count > max(MIN_TEXTS, 0.5 * column.count()):
                text = f"the target {name!r} contains {count} different texts in {column.count()} rows, no categories"
                raise DataError(text, "Choose a column of numbers or of a few labels, or derive one from the texts.")
    return kind


def _kind(column: pd.Series) -> str:
    values = column.dropna()
    if values.nunique() == 2:
        return "binary"
    return "regression" if is_numeric_dtype(values) else "multiclass"


def _classes_as_tasks(make: _Building, columns: Mapping[str, pd.Series], task: str | None) -> _Targets:
    """Return one -1/+1 column per class, or with a task column the number of the class of every row."""
    classes = {name: _classes(column) for name, column in columns.items()}
    labels = {name: _words(values) for name, values in classes.items()}
    several = [name for name, values in classes.items() if len(values) > 2]
    if several:
        make.notes.append(f"each class of {listed([repr(name) for name in several])} is a task, one against the rest")
    if task is not None:
        name, column = next(iter(columns.items()))
        position = {value: float(k) for k, value in enumerate(classes[name])}
        return _Targets(column.map(position).to_numpy(dtype=float), "multiclass", labels=labels)
    parts = {}
    for name, column in columns.items():
        taken = classes[name] if len(classes[name]) > 2 else classes[name][1:]
        for value, word in zip(taken, labels[name][-len(taken) :], strict=True):
            single = name if len(taken) == 1 else word if len(columns) == 1 else f"{name}={word}"
            parts[single] = _against_rest(column, value)
    return _Targets(np.column_stack(list(parts.values())), "binary", list(parts), labels)


def _classes_of_tasks(
    codes: np.ndarray, task_id: np.ndarray, tasks: Sequence[str], words: Sequence[str]
) -> tuple[np.ndarray, list[str], dict[str, list[str]]]:
    """Return a -1/+1 column per class of each task (one for a task of two), NaN for the rows of other tasks."""
    parts, names, labels = [], [], {}
    for t, task in enumerate(tasks):
        mine = task_id == t
        found = np.unique(codes[mine])
        labels[task] = [words[int(c)] for c in found]
        for c in found if len(found) > 2 else found[1:]:
            parts.append(np.where(mine, np.where(codes == c, 1.0, -1.0), np.nan))
            names.append(f"{task}={words[int(c)]}")
    return np.column_stack(parts), names, labels


def _against_rest(column: pd.Series, value: Any) -> np.ndarray:
    """Return +1 where a column has a value, NaN where it is missing, -1 elsewhere."""
    return np.where(column.isna(), np.nan, np.where((column == value).fillna(False).to_numpy(dtype=bool), 1.0, -1.0))


def _classes(column: pd.Series) -> list[Any]:
    return sorted(column.dropna().unique().tolist())


def _words(values: list[Any]) -> list[str]:
    return names_of(pd.Series(values, dtype=object))


def _signs(make: _Building, columns: Mapping[str, pd.Series]) -> tuple[np.ndarray, dict[str, list[str]]]:
    """Return targets of two labels as -1/+1, and the labels."""
    parts, labels, told = [], {}, []
    for name, column in columns.items():
        values = _classes(column)
        positive = values[-1]
        if make.roles.positive is not None:
            match = [v for v in values if make.roles.positive in (str(v), *_words([v]))]
            if not match:
                raise UnknownNameError(f"label of {name}", make.roles.positive, map(str, values))
            positive = match[0]
        elif len(values) > 2:
            raise DataError(
                f"the target {name!r} has {len(values)} values, binary tasks have two",
                "Say --positive LABEL for one class against the others, or another --task-type.",
            )
        if set(values) not in ({0, 1}, {-1, 1}):
            told.append(f"{name}: +1 means {positive}")
        word = _words([positive])[0]
        others = [other for other in _words(values) if other != word]
        labels[name] = [others[0] if len(others) == 1 else f"not {word}", word]
        parts.append(_against_rest(column, positive))
    if told:
        make.notes.append(listed(told))
    return np.column_stack(parts), labels


# --- tasks and rows ---


def _tasks(make: _Building, name: str) -> tuple[np.ndarray, list[str]]:
    """Return the task of every row and their names, in the order in which they appear."""
    codes, values = pd.factorize(make.full(name, "task"))
    return codes.astype(np.int64), names_of(pd.Series(values, name=name))


def _several_classes(
    make: _Building, codes: np.ndarray, keep: np.ndarray, tasks: list[str], task_id: np.ndarray
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return the rows and tasks that stay: tasks whose rows all have one class are left out."""
    counts = [len(np.unique(codes[keep[task_id == t]])) for t in range(len(tasks))]
    left = np.flatnonzero(np.array(counts) > 1)
    if not len(left):
        text = f"{make.table.name}: all rows of every task have the same class"
        raise DataError(text, "There is nothing to predict; choose another task column.")
    if len(left) < len(tasks):
        single = [task for task, count in zip(tasks, counts, strict=True) if count == 1]
        make.notes.append(f"left out, as all rows have one class: {listed(single)}")
    mine = np.isin(task_id, left)
    return keep[mine], [tasks[t] for t in left], np.searchsorted(left, task_id[mine])


def _large_enough(
    make: _Building, known: np.ndarray, tasks: list[str], task_id: np.ndarray | None
) -> tuple[np.ndarray, list[str], np.ndarray | None]:
    """Return the rows that stay, and their tasks; too small tasks are refused, or left out if `min_rows` is given."""
    rows = np.flatnonzero(known)
    if task_id is None:
        return rows, tasks, None
    sizes = np.bincount(task_id[rows], minlength=len(tasks))
    need = make.roles.min_rows or MIN_ROWS
    small = np.flatnonzero(sizes < need)
    if len(small) and make.roles.min_rows is None:
        worst = small[np.argmin(sizes[small])]
        more = f" (and {counted(len(small) - 1, 'more task is', 'more tasks are')} too small)" if len(small) > 1 else ""
        raise DataError(
            f"{make.table.name}: task {tasks[worst]!r} has {counted(sizes[worst], 'row')}{more}; training, selecting "
            f"and testing take at least {MIN_ROWS}",
            f"Say --min-rows {MIN_ROWS} to leave out smaller tasks, or choose another task column.",
        )
    if len(small) == len(tasks):
        raise DataError(f"{make.table.name}: no task has {need} rows", "Choose another task column or --min-rows.")
    if len(small):
        make.notes.append(f"{counted(len(small), 'task')} with fewer than {need} rows left out")
    left = np.flatnonzero(sizes >= need)
    rows = rows[np.isin(task_id[rows], left)]
    return rows, [tasks[t] for t in left], np.searchsorted(left, task_id[rows])


def _source(make: _Building) -> dict[str, np.ndarray]:
    roles, found = make.roles, {}
    if roles.weight:
        weights = pd.to_numeric(make.table.column(roles.weight), errors="coerce").to_numpy(dtype=float)
        text = f"the weight column {roles.weight!r} does not contain a number of at least 0"
        make.refuse(~(np.isfinite(weights) & (weights >= 0)), text, "Fix the cell; 0 leaves a row out.")
        found[WEIGHT] = weights
    if roles.group:
        found[GROUP] = pd.factorize(make.full(roles.group, "group"))[0].astype(np.int64)
    if roles.time:
        column = make.table.column(roles.time)
        if not is_numeric_dtype(column):
            column = pd.to_datetime(column, errors="coerce", format="mixed")
        text = f"the time column {roles.time!r} contains neither a number nor a date"
        make.refuse(column.isna(), text, "Fix the cell, or choose another column with --time.")
        found[TIME] = column.rank(method="dense").to_numpy(dtype=float)
    return found


def _splits(make: _Building, data: Dataset, keep: np.ndarray, n_train: int | None) -> dict[str, Any]:
    roles = make.roles
    if n_train is not None:
        train, test = np.flatnonzero(keep < n_train), np.flatnonzero(keep >= n_train)
        if data.task_id is not None and roles.unseen == "error":
            new = sorted({data.tasks[t] for t in np.setdiff1d(data.task_id[test], data.task_id[train])})
            if new:
                raise DataError(
                    f"{counted(len(new), 'task occurs', 'tasks occur')} only in the test rows: {listed(new)}",
                    "Say --unseen mean to predict them with the mean of all tasks' models.",
                )
        return {TEST_SPLIT: [(train, test)]}
    return {}


# --- features ---


def _features(make: _Building, taken: set[str | None]) -> tuple[Any, list[str], dict[str, list[str]]]:
    """Return X, the names of its columns, and the words of those that hold categories."""
    table, columns, names, empty = make.table, [], [], []
    identifiers: dict[str, pd.Series] = {}
    categories: dict[str, list[str]] = {}
    for name in (str(c) for c in table.frame.columns if str(c) not in taken):
        column, categorical = table.frame[name], name in make.roles.categorical
        if column.isna().all():
            empty.append(name)
        elif categorical or not is_numeric_dtype(column):
            if not categorical:
                make.refuse_mixed(name)
                make.refuse_written_numbers(name)
            words = sorted(set(names_of(column.dropna())))
            if len(words) > MAX_WORDS and len(words) > 0.5 * len(column) and not categorical:
                identifiers[name] = column
                continue
            categories[name] = words
            columns.append(coded(column, words))
            names.append(name)
        else:
            columns.append(make.numbers(name))
            names.append(name)
    make.notes += _left_out(empty, identifiers)
    if table.sparse is not None:
        kept = [j for j, name in enumerate(table.names) if name not in taken]
        blocks = [sparse.csr_matrix(np.column_stack(columns))] if columns else []
        X = sparse.hstack([*blocks, table.sparse[:, kept]], format="csr")
        return X, [*names, *(table.names[j] for j in kept)], categories
    if not columns:
        gone = [*empty, *identifiers]
        text = f"; left out as empty or identifiers: {listed(gone)}" if gone else ""
        remedy = "Name fewer columns in the options, or say --categorical COLUMN for one that holds categories."
        raise DataError(f"{table.name}: no column is left as a feature{text}", remedy)
    return np.column_stack(columns), names, categories


def _left_out(empty: list[str], identifiers: Mapping[str, pd.Series]) -> list[str]:
    """Say which columns are no features and why: one sentence for each, of many one for all of a kind."""
    dates = [name for name, column in identifiers.items() if _dates(column)]
    words = [name for name in identifiers if name not in set(dates)]
    found = []
    for names, one, many in (
        (empty, "is empty", "are empty"),
        (words, "contains {} different words, an identifier", "contain different words in most rows, identifiers"),
        (dates, "contains {} different dates", "contain dates"),
    ):
        hint = (
            f" (--time {names[0]} splits by it; as features, use numbers such as year and month)"
            if names and names is dates
            else ""
        )
        if len(names) > 2:
            found.append(f"{len(names)} columns {many}: {listed(names)}: left out{hint}")
        else:
            found += [f"column {n!r} {one.format(_different(identifiers, n))}: left out{hint}" for n in names]
    return found


def _different(columns: Mapping[str, pd.Series], name: str) -> int:
    return columns[name].nunique() if name in columns else 0


def _dates(column: pd.Series) -> bool:
    return bool(pd.to_datetime(column.dropna(), errors="coerce", format="mixed").notna().all())
