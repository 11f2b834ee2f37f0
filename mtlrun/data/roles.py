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
    lists = {"targets": tuple(targets), "drop": tuple(drop), "categorical": tuple(categorical)}
    roles = Roles(
        **lists,
        task=task,
        task_type=task_type,
        positive=positive,
        weight=weight,
        group=group,
        time=time,
        min_rows=min_rows,
        unseen=unseen,
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
    if not targets:
        raise DataError(f"{table.name}: no target", "Say --target COLUMN, --targets A,B,C or --labels FILE.xml.")
    if test is not None:
        table = table.stacked(test, [name for name in table.columns if name not in roles.drop])
    make = _Building(table, roles)
    y, task_type, tasks, labels = _targets(make, targets, task)
    task_id = None
    if task is not None:
        codes, values = pd.factorize(make.full(task, "task"))
        task_id, tasks = codes.astype(np.int64), names_of(pd.Series(values, name=task))
    X, features, categories = _features(make, {*targets, task, roles.weight, roles.group, roles.time, *roles.drop})
    source = _source(make)
    keep, tasks, task_id = _kept(make, y, task_type == "multiclass", tasks, task_id)
    y = y[keep]
    if task_id is not None and labels:
        words = labels[targets[0]]
        if task_type == "multiclass":
            y, tasks, labels = _classes_of_tasks(y, task_id, tasks, words)
            task_type, task_id = "binary", None
        else:
            labels = dict.fromkeys(tasks, words)
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
        notes="\n".join(make.notes),
    )
    if test is not None:
        data.splits = {TEST_SPLIT: [_published(data, keep >= n_train, roles)]}
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

    def refuse_odd_words(self, name: str) -> None:
        """Refuse a column of numbers and words, and one whose words are numbers such as 1,5 or 12% or $3."""
        column = self.table.column(name)
        if is_numeric_dtype(column):
            return
        texts = column.astype("string")
        numbers = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
        words = column.notna().to_numpy() & ~numbers
        if not words.any():
            return
        if numbers.any():
            odd = words if words.sum() <= numbers.sum() else numbers
            text = f"column {name!r} mixes numbers and words: {column.iloc[int(np.argmax(odd))]!r} here"
            self.refuse(odd, text, f"Fix the cell, or say --categorical {name} if all its values are names.")
        if column.nunique() > 2 and texts.dropna().str.strip().str.fullmatch(_WRITTEN_NUMBER).all():
            text = f"column {name!r} contains numbers as text: {column.iloc[int(np.argmax(words))]!r}"
            remedy = f"Write them like 1.5, say --categorical {name} if they are names, or --drop {name}."
            self.refuse(words, text, remedy)


def _check_roles(table: Table, roles: Roles) -> None:
    single = [name for name in (roles.task, roles.weight, roles.group, roles.time) if name]
    for name in (*roles.targets, *single, *roles.drop, *roles.categorical):
        if name not in table.columns:
            raise UnknownNameError(f"column of {table.name}", name, table.columns)
    named = [*roles.targets, *single]
    twice = [name for name in named if named.count(name) > 1]
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

#: The targets of a table: `y`, 1-D with a task column (numbers, -1/+1, or numbers of classes), else a column per task;
#: the task type, ``multiclass`` only with a task column; the names of the columns of `y`; the labels of `Dataset`, by
#: target.
_Targets = tuple[np.ndarray, str, list[str], dict[str, list[str]]]


def _targets(make: _Building, names: list[str], task: str | None) -> _Targets:
    columns = {name: make.table.column(name) for name in names}
    for name, column in columns.items():
        values = column.dropna()
        if values.nunique() < 2:
            only = f"a single value ({values.iloc[0]})" if len(values) else "no values"
            raise DataError(f"{make.table.name}: the target {name!r} has {only}", "There is nothing to predict.")
        make.refuse_odd_words(name)
    kind = _task_type(make, columns)
    labels: dict[str, list[str]] = {}
    if len(names) == 1 and task is None and kind != "multiclass":
        raise DataError(
            f"one target and no task column: there is a single task, {names[0]!r}",
            "Name the column that says to which task a row belongs (--task), or more targets (--targets A,B,C).",
        )
    if kind == "regression":
        words = [name for name, column in columns.items() if not is_numeric_dtype(column)]
        if words:
            text = f"the target {words[0]!r} contains words, not numbers"
            raise DataError(text, "Say --task-type binary or multiclass.")
        y = np.column_stack([make.numbers(name) for name in names])
    elif kind == "binary" or task is None:
        y, names, labels = _labels(make, columns, kind)
        kind = "binary"
    else:
        column = columns[names[0]]
        classes = _classes(column)
        make.notes.append(f"each class of {names[0]!r} is a task, one against the rest")
        y = column.map({value: float(k) for k, value in enumerate(classes)}).to_numpy(dtype=float)[:, None]
        labels = {names[0]: _words(classes)}
    return y[:, 0] if task else y, kind, names, labels


def _task_type(make: _Building, columns: Mapping[str, pd.Series]) -> str:
    """Return the task type that is asked for, or that of the targets."""
    asked = make.roles.task_type or (make.roles.positive and "binary")
    if asked is not None:
        kind = asked
    else:
        kinds = {name: _kind(column) for name, column in columns.items()}
        found = set(kinds.values())
        numbers = all(map(is_numeric_dtype, columns.values()))
        if "regression" in found and len(found) > 1 and not numbers:
            text = listed([f"{name} ({kind})" for name, kind in kinds.items()])
            raise DataError(
                f"targets of different types: {text}", "Compare each type in a run of its own, or say --task-type."
            )
        # A target of two classes may stand beside one of more, or beside numbers.
        kind = "regression" if "regression" in found else max(found)
    if make.roles.task_type is None:
        make.notes.append(f"the task type is inferred from the targets: {kind}")
        for name, column in columns.items() if kind == "multiclass" else ():
            count = column.nunique()
            if count > max(MIN_TEXTS, 0.5 * column.count()):
                text = f"the target {name!r} contains {count} different texts in {column.count()} rows, no categories"
                raise DataError(text, "Choose a column of numbers or of a few labels, or derive one from the texts.")
    return kind


def _kind(column: pd.Series) -> str:
    if column.nunique() == 2:
        return "binary"
    return "regression" if is_numeric_dtype(column) else "multiclass"


def _labels(
    make: _Building, columns: Mapping[str, pd.Series], kind: str
) -> tuple[np.ndarray, list[str], dict[str, list[str]]]:
    """Return a -1/+1 column for each target of two labels and for each class of the others, their names and labels."""
    parts, labels, codings, several = {}, {}, [], []
    for name, column in columns.items():
        values, positive = _classes(column), make.roles.positive
        taken = values[1:] if len(values) == 2 else values
        if positive is not None:
            taken = [v for v in values if positive in (str(v), *_words([v]))][:1]
            if not taken:
                raise UnknownNameError(f"label of {name}", positive, map(str, values))
        elif kind == "binary" and len(values) > 2:
            raise DataError(
                f"the target {name!r} has {len(values)} values, binary tasks have two",
                "Say --positive LABEL for one class against the others, or another --task-type.",
            )
        labels[name], words = _words(values), _words(taken)
        if len(taken) == 1:
            others = [word for word in labels[name] if word != words[0]]
            labels[name] = [others[0] if len(others) == 1 else f"not {words[0]}", words[0]]
            if set(values) not in ({0, 1}, {-1, 1}):
                codings.append(f"{name}: +1 means {taken[0]}")
        else:
            several.append(repr(name))
        for value, word in zip(taken, words, strict=True):
            single = name if len(taken) == 1 else word if len(columns) == 1 else f"{name}={word}"
            parts[single] = _against_rest(column, value)
    if several:
        make.notes.append(f"each class of {listed(several)} is a task, one against the rest")
    if codings:
        make.notes.append(listed(codings))
    return np.column_stack(list(parts.values())), list(parts), labels


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


# --- tasks and rows ---


def _kept(
    make: _Building, y: np.ndarray, classes: bool, tasks: list[str], task_id: np.ndarray | None
) -> tuple[np.ndarray, list[str], np.ndarray | None]:
    """Return the rows that stay, and their tasks: rows have a target, tasks enough rows and more than one class."""
    rows = np.flatnonzero(~np.isnan(y.reshape(len(y), -1)).all(axis=1))
    if task_id is not None:
        need = make.roles.min_rows or MIN_ROWS
        sizes = np.bincount(task_id[rows], minlength=len(tasks))
        small = sizes < need
        if small.any() and make.roles.min_rows is None:
            worst, others = int(np.argmin(sizes)), int(small.sum()) - 1
            more = f" (and {counted(others, 'more task is', 'more tasks are')} too small)" if others else ""
            raise DataError(
                f"{make.table.name}: task {tasks[worst]!r} has {counted(sizes[worst], 'row')}{more}; training, "
                f"selecting and testing take at least {MIN_ROWS}",
                f"Say --min-rows {MIN_ROWS} to leave out smaller tasks, or choose another task column.",
            )
        known = [np.unique(y[rows[task_id[rows] == t]]) for t in range(len(tasks))] if classes else []
        single = ~small & np.array([len(found) == 1 for found in known]) if classes else np.zeros_like(small)
        for gone, why in ((small, f"fewer than {need} rows"), (single, "only one class")):
            if gone.any():
                names = listed([tasks[t] for t in np.flatnonzero(gone)])
                make.notes.append(f"{counted(gone.sum(), 'task')} with {why} left out: {names}")
        left = np.flatnonzero(~small & ~single)
        if not len(left):
            text = f"{make.table.name}: no task has {need} rows" + " of more than one class" * classes
            raise DataError(text, "Choose another task column or --min-rows.")
        rows = rows[np.isin(task_id[rows], left)]
        tasks, task_id = [tasks[t] for t in left], np.searchsorted(left, task_id[rows])
    if len(rows) < len(y):
        make.notes.append(f"{counted(len(y) - len(rows), 'row')} without a target or of tasks left out")
    return rows, tasks, task_id


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


def _published(data: Dataset, tested: np.ndarray, roles: Roles) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the table and those of the test table."""
    train, test = np.flatnonzero(~tested), np.flatnonzero(tested)
    if data.task_id is not None and roles.unseen == "error":
        new = sorted({data.tasks[t] for t in np.setdiff1d(data.task_id[test], data.task_id[train])})
        if new:
            raise DataError(
                f"{counted(len(new), 'task occurs', 'tasks occur')} only in the test rows: {listed(new)}",
                "Say --unseen mean to predict them with the mean of all tasks' models.",
            )
    return train, test


# --- features ---


def _features(make: _Building, taken: set[str | None]) -> tuple[Any, list[str], dict[str, list[str]]]:
    """Return X, the names of its columns, and the words of those that hold categories."""
    table = make.table
    columns: dict[str, np.ndarray] = {}
    categories: dict[str, list[str]] = {}
    left_out: dict[str, list[str]] = {}
    for name in (str(c) for c in table.frame.columns if str(c) not in taken):
        column, categorical = table.frame[name], name in make.roles.categorical
        if column.isna().all():
            left_out.setdefault("empty", []).append(name)
        elif is_numeric_dtype(column) and not categorical:
            columns[name] = make.numbers(name)
        else:
            if not categorical:
                make.refuse_odd_words(name)
            words = sorted(set(names_of(column.dropna())))
            if len(words) > MAX_WORDS and len(words) > 0.5 * len(column) and not categorical:
                dates = pd.to_datetime(column.dropna(), errors="coerce", format="mixed").notna().all()
                left_out.setdefault("dates" if dates else "identifiers (words that hardly repeat)", []).append(name)
                continue
            categories[name] = words
            columns[name] = coded(column, words)
    gone = [f"left out as {kind}: {listed(names)}" for kind, names in left_out.items()]
    if "dates" in left_out:
        gone.append("--time COLUMN splits by a date; as features, use numbers such as year and month")
    make.notes += gone
    if table.sparse is not None:
        kept = [j for j, name in enumerate(table.names) if name not in taken]
        blocks = [sparse.csr_matrix(np.column_stack(list(columns.values())))] if columns else []
        X = sparse.hstack([*blocks, table.sparse[:, kept]], format="csr")
        return X, [*columns, *(table.names[j] for j in kept)], categories
    if not columns:
        remedy = "Name fewer columns in the options, or say --categorical COLUMN for one that holds categories."
        raise DataError("; ".join([f"{table.name}: no column is left as a feature", *gone]), remedy)
    return np.column_stack(list(columns.values())), list(columns), categories
