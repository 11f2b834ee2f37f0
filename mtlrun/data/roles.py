"""From a table of the user's own to a `Dataset`: which column is target, task, weight, group, time or feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mtlrun.data.dataset import TASK_TYPES, Dataset
from mtlrun.data.magnitude import check_magnitudes
from mtlrun.data.splitters import GROUP, TIME, WEIGHT, group_split, time_split
from mtlrun.data.tables import Table, coded, names_of, stack_tables
from mtlrun.errors import DataError, UnknownNameError, counted

#: A column of words with more different ones than this, in more than half of the rows, is an identifier.
MAX_WORDS = 50
#: Rows that a task needs at least: training and test rows, and training rows in every inner fold.
MIN_ROWS = 4
#: What can become of tasks that only the test rows have.
UNSEEN = ("error", "mean")
#: Published split of the data set made from --test, --split-group or --time.
TEST_SPLIT, GROUP_SPLIT, TIME_SPLIT = "test", "groups", "time"


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
        binary, regression or multiclass; inferred when None.
    positive : str or None
        The label that means +1; by default the larger (or alphabetically later) one.
    weight, group, time : str or None
        Column of row weights; of groups that stay on one side of a split; of the time by which a split parts rows.
    drop, categorical : tuple of str
        Columns left out; columns of numbers that are names.
    min_rows : int or None
        Leave out tasks with fewer rows instead of refusing them.
    unseen : {"error", "mean"}
        What becomes of tasks that only the test rows have.
    splits, train, seed : int, float, int
        Number, part of training rows and seed of the splits by group or time.
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
    splits: int = 3
    train: float = 0.7
    seed: int = 0


@dataclass
class _Building:
    """What is known while a data set is made."""

    table: Table
    roles: Roles
    notes: list[str] = field(default_factory=list)

    def column(self, name: str) -> pd.Series:
        """Return a column, also one of a sparse table, as it stands in the file."""
        if name in self.table.frame.columns:
            return self.table.frame[name]
        j = self.table.feature_names.index(name)
        return pd.Series(self.table.features[:, [j]].toarray().ravel(), name=name)


def make_dataset(table: Table, roles: Roles, test: Table | None = None) -> Dataset:
    """Make a data set of a table.

    Words become categories: X holds their number in ``Dataset.categories`` and NaN where a cell is missing, to be
    handled by a feature step learned on training rows. Row weights, groups and times are in ``Dataset.source``, splits
    by test file, group or time in ``Dataset.splits``; what was decided is in ``Dataset.notes``.

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
        For a target with one value, too few rows of a task, mixed types, numbers whose squares no float holds, and
        roles that contradict each other.
    """
    _check_columns(table, roles)
    n_train = len(table.frame)
    targets = list(roles.targets or table.default_targets)
    task = roles.task or (table.default_task if not roles.targets else None)
    if test is not None:
        table = stack_tables(table, test, [name for name in table.columns if name not in roles.drop])
    make = _Building(table, roles)
    if not targets:
        raise DataError(f"{table.name}: no target", "Say --target COLUMN, --targets A,B,C or --labels FILE.xml.")
    y, task_type, classes = _targets(make, targets, task)
    task_id, tasks = (None, classes or targets) if task is None else _tasks(make, task)
    X, features, categories = _features(make, {*targets, task, roles.weight, roles.group, roles.time, *roles.drop})
    source = _source(make)
    known = ~np.isnan(y) if y.ndim == 1 else ~np.isnan(y).all(axis=1)
    keep, tasks, task_id = _enough(make, known, tasks, task_id)
    if len(keep) < len(y):
        make.notes.append(f"{counted(len(y) - len(keep), 'row')} without a target or of small tasks left out")
    data = Dataset(
        X=X[keep],
        y=y[keep],
        task_type=task_type,
        task_id=task_id,
        tasks=tasks,
        features=features,
        categories=categories,
        source={name: values[keep] for name, values in source.items()},
    )
    data.splits = _splits(make, data, keep, n_train if test is not None else None)
    data.notes = "\n".join(make.notes)
    check_magnitudes(data, table.name, lambda row: table.where(int(keep[row])))
    return data


def _check_columns(table: Table, roles: Roles) -> None:
    named = [*roles.targets, roles.task, roles.weight, roles.group, roles.time, *roles.drop, *roles.categorical]
    for name in filter(None, named):
        if name not in table.columns:
            raise UnknownNameError(f"column of {table.name}", name, table.columns)
    single = [name for name in (roles.task, roles.weight, roles.group, roles.time) if name]
    twice = [name for name in {*roles.targets, *single} if [*roles.targets, *single].count(name) > 1]
    if twice and set(twice) != {roles.task} & {roles.group}:
        raise DataError(f"column {twice[0]!r} is named for two things", "Give every column one part.")
    if roles.task and len(roles.targets) > 1:
        raise DataError(
            "a task column goes with one target", "Name the task column (ragged) or several targets (shared), not both."
        )
    if roles.group and roles.time:
        raise DataError("rows cannot be split by group and by time at once", "Choose --split-group or --time.")
    if roles.task_type not in (None, *TASK_TYPES):
        raise UnknownNameError("task type", str(roles.task_type), TASK_TYPES)
    if roles.positive is not None and roles.task_type not in (None, "binary"):
        text = f"a positive label goes with binary targets, not with {roles.task_type}"
        raise DataError(text, "Leave out --positive or --task-type.")
    if roles.unseen not in UNSEEN:
        raise UnknownNameError("way with unseen tasks", roles.unseen, UNSEEN)


# --- targets ---


def _targets(make: _Building, names: list[str], task: str | None) -> tuple[np.ndarray, str, list[str]]:
    """Return the targets (1-D with a task column), their type, and the classes of a multi-class target."""
    columns = [make.column(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        values = column.dropna()
        if values.nunique() < 2:
            only = f"one value ({values.iloc[0]})" if len(values) else "no values"
            raise DataError(f"{make.table.name}: the target {name!r} has {only}", "There is nothing to predict.")
        _refuse_mixed(make, name, column)
    asked = make.roles.task_type or (make.roles.positive and "binary")
    kinds = [asked or _kind(column) for column in columns]
    numbers = set(kinds) == {"regression", "binary"} and _all_numbers(columns)
    kind = "regression" if numbers else kinds[0]
    if len(set(kinds)) > 1 and not numbers:
        text = f"targets of different types: {', '.join(map('{} ({})'.format, names, kinds))}"
        raise DataError(text, "Compare each type in a run of its own, or say --task-type.")
    if make.roles.task_type is None:
        make.notes.append(f"task type inferred: {kind}")
    if kind == "multiclass":
        return (*_one_vs_rest(make, names, columns, task), [str(c) for c in _classes(columns[0])])
    if kind == "regression":
        if not _all_numbers(columns):
            words = next(n for n, column in zip(names, columns, strict=True) if not _all_numbers([column]))
            raise DataError(f"the target {words!r} holds words, no numbers", "Say --task-type binary or multiclass.")
        Y = np.column_stack([_finite(make, name, column) for name, column in zip(names, columns, strict=True)])
    else:
        Y = np.column_stack([_signs(make, name, column) for name, column in zip(names, columns, strict=True)])
    if len(names) == 1 and task is None:
        raise DataError(
            f"one target and no task column: there is one task only, {names[0]!r}",
            "Name the column that says to which task a row belongs (--task-column), or more targets (--targets A,B,C).",
        )
    return (Y[:, 0] if task else Y), kind, []


def _one_vs_rest(make: _Building, names: list[str], columns: list[Any], task: str | None) -> tuple[np.ndarray, str]:
    """Return one -1/+1 column per class."""
    if task is not None or len(names) > 1:
        raise DataError(
            f"the target {names[0]!r} has {columns[0].nunique()} classes in every task",
            "Without a task column the classes become the tasks, one against the rest. With one, say --positive LABEL "
            "for one class against the others, or --task-type regression if the classes are ordered numbers.",
        )
    known = columns[0].notna().to_numpy()
    make.notes.append(f"the classes of {names[0]!r} are the tasks, one against the rest")
    Y = np.column_stack([_against_rest(columns[0], c) for c in _classes(columns[0])])
    return np.where(known[:, None], Y, np.nan), "binary"


def _against_rest(column: pd.Series, value: Any) -> np.ndarray:
    """Return +1 where a column has a value and -1 elsewhere, also where it is missing."""
    return np.where((column == value).fillna(False).to_numpy(dtype=bool), 1.0, -1.0)


def _finite(make: _Building, name: str, column: pd.Series) -> np.ndarray:
    """Return a column of numbers, NaN where they are missing."""
    values = column.to_numpy(dtype=float)
    if np.isinf(values).any():
        place = make.table.where(int(np.argmax(np.isinf(values))))
        raise DataError(f"{place}: column {name!r} holds an infinite value", "Mend the cell or leave it empty.")
    return values


def _classes(column: pd.Series) -> list[Any]:
    return sorted(column.dropna().unique().tolist())


def _kind(column: pd.Series) -> str:
    values = column.dropna()
    if values.nunique() == 2:
        return "binary"
    return "regression" if pd.api.types.is_numeric_dtype(values) else "multiclass"


def _all_numbers(columns: Sequence[pd.Series]) -> bool:
    return all(pd.api.types.is_numeric_dtype(column) for column in columns)


def _signs(make: _Building, name: str, column: pd.Series) -> np.ndarray:
    values = _classes(column)
    positive = values[-1]
    if make.roles.positive is not None:
        match = [v for v in values if make.roles.positive in (str(v), *names_of(pd.Series([v], name=name)))]
        if not match:
            raise UnknownNameError(f"label of {name}", make.roles.positive, map(str, values))
        positive = match[0]
    elif len(values) > 2:
        raise DataError(
            f"the target {name!r} has {len(values)} values, binary tasks have two",
            "Say --positive LABEL for one class against the others, or another --task-type.",
        )
    if set(values) not in ({0, 1}, {-1, 1}):
        make.notes.append(f"{name}: +1 means {positive}")
    return np.where(column.isna(), np.nan, _against_rest(column, positive))


# --- tasks and rows ---


def _tasks(make: _Building, name: str) -> tuple[np.ndarray, list[str]]:
    """Return the task of every row and their names, in the order in which they appear."""
    codes, values = pd.factorize(_full(make, name, "task"))
    return codes.astype(np.int64), names_of(pd.Series(values, name=name))


def _full(make: _Building, name: str, part: str) -> pd.Series:
    """Return a column in which no cell may be empty."""
    column = make.column(name)
    if column.isna().any():
        place = make.table.where(int(np.argmax(column.isna())))
        raise DataError(f"{place}: the {part} column {name!r} is empty", f"Every row needs its {part}.")
    return column


def _enough(
    make: _Building, known: np.ndarray, tasks: list[str], task_id: np.ndarray | None
) -> tuple[np.ndarray, list[str], np.ndarray | None]:
    """Return the rows that stay, and their tasks; too small tasks are refused, or left out when `min_rows` says so."""
    rows = np.flatnonzero(known)
    if task_id is None:
        return rows, tasks, None
    sizes = np.bincount(task_id[rows], minlength=len(tasks))
    need = make.roles.min_rows or MIN_ROWS
    small = np.flatnonzero(sizes < need)
    if len(small) and make.roles.min_rows is None:
        worst = small[np.argmin(sizes[small])]
        more = f" (and {len(small) - 1} more tasks are too small)" if len(small) > 1 else ""
        count = f"{counted(sizes[worst], 'row')}"
        raise DataError(
            f"{make.table.name}: task {tasks[worst]!r} has {count}{more}; training, selecting and testing take "
            f"at least {MIN_ROWS}",
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
        weights = pd.to_numeric(make.column(roles.weight), errors="coerce").to_numpy(dtype=float)
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            place = make.table.where(int(np.argmax(bad)))
            text = f"{place}: the weight column {roles.weight!r} holds no number of at least 0"
            raise DataError(text, "Mend the cell; 0 leaves a row out.")
        found[WEIGHT] = weights
    if roles.group:
        found[GROUP] = pd.factorize(_full(make, roles.group, "group"))[0].astype(np.int64)
    if roles.time:
        column = make.column(roles.time)
        if not pd.api.types.is_numeric_dtype(column):
            column = pd.to_datetime(column, errors="coerce", format="mixed")
        if column.isna().any():
            place = make.table.where(int(np.argmax(column.isna())))
            text = f"{place}: the time column {roles.time!r} holds no number and no date"
            raise DataError(text, "Mend the cell, or choose another column with --time.")
        found[TIME] = column.rank(method="dense").to_numpy(dtype=float)
    return found


def _splits(make: _Building, data: Dataset, keep: np.ndarray, n_train: int | None) -> dict[str, Any]:
    roles = make.roles
    if n_train is not None:
        train, test = np.flatnonzero(keep < n_train), np.flatnonzero(keep >= n_train)
        _check_unseen(make, data, train, test)
        return {TEST_SPLIT: [(train, test)]}
    if roles.group:
        return {GROUP_SPLIT: group_split(data.source[GROUP], roles.train, roles.splits, roles.seed)}
    if roles.time:
        return {TIME_SPLIT: [time_split(data.source[TIME], roles.train)]}
    return {}


def _check_unseen(make: _Building, data: Dataset, train: np.ndarray, test: np.ndarray) -> None:
    if data.task_id is None:
        return
    new = sorted({data.tasks[t] for t in np.setdiff1d(data.task_id[test], data.task_id[train])})
    if new and make.roles.unseen == "error":
        raise DataError(
            f"the test rows have {counted(len(new), 'task')} without training rows: {', '.join(new[:5])}",
            "Say --unseen mean to predict them with the mean of all tasks' models.",
        )


# --- features ---


def _features(make: _Building, taken: set[str | None]) -> tuple[Any, list[str], dict[str, list[str]]]:
    """Return X, the names of its columns, and the words of those that hold categories."""
    frame = make.table.frame
    columns, names, categories = [], [], {}
    for name in (str(c) for c in frame.columns if str(c) not in taken):
        column = frame[name]
        if column.isna().all():
            make.notes.append(f"column {name!r} is empty: left out")
            continue
        if name in make.roles.categorical or not pd.api.types.is_numeric_dtype(column):
            if name not in make.roles.categorical:
                _refuse_mixed(make, name, column)
            words = sorted(set(names_of(column.dropna())))
            values = coded(column, words)
            if len(words) > MAX_WORDS and len(words) > 0.5 * len(column) and name not in make.roles.categorical:
                make.notes.append(_left_out(name, column, len(words)))
                continue
            categories[name] = words
        else:
            values = _finite(make, name, column)
        columns.append(values)
        names.append(name)
    if make.table.features is not None:
        kept = [j for j, name in enumerate(make.table.feature_names) if name not in taken]
        blocks = [sparse.csr_matrix(np.column_stack(columns))] if columns else []
        return (
            sparse.hstack([*blocks, make.table.features[:, kept]], format="csr"),
            [*names, *(make.table.feature_names[j] for j in kept)],
            categories,
        )
    if not columns:
        raise DataError(f"{make.table.name}: no column is left as a feature", "Name fewer columns in the options.")
    return np.column_stack(columns), names, categories


def _left_out(name: str, column: pd.Series, count: int) -> str:
    if pd.to_datetime(column.dropna(), errors="coerce", format="mixed").notna().all():
        return (
            f"column {name!r} holds {count} different dates: left out (--time {name} splits by it; "
            "for a feature make columns of numbers, such as year and month)"
        )
    return f"column {name!r} has {count} different words, an identifier: left out"


def _refuse_mixed(make: _Building, name: str, column: pd.Series) -> None:
    """Refuse a column in which some cells are numbers and others are words."""
    if pd.api.types.is_numeric_dtype(column):
        return
    numbers = pd.to_numeric(column.astype("string"), errors="coerce").notna().to_numpy()
    words = column.notna().to_numpy() & ~numbers
    if not (numbers.any() and words.any()):
        return
    row = int(np.argmax(words if words.sum() <= numbers.sum() else numbers))
    raise DataError(
        f"{make.table.where(row)}: column {name!r} mixes numbers and words: {column.iloc[row]!r} here",
        f"Mend the cell, or say --categorical {name} if all its values are names.",
    )
