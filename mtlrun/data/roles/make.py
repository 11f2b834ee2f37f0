"""From a table to a `Dataset`: the roles of its columns.

A column is a target, task, weight, group, time or feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy import sparse

from mtlrun.data.clock import Clock
from mtlrun.data.dataset import ELAPSED, TASK_TYPES, Dataset, check_read
from mtlrun.data.reading.names import Names
from mtlrun.data.reading.odd_columns import (
    MIN_NUMBERED,
    MIN_TEXTS,
    constant_within_tasks,
    is_numbering,
    repeated_ids,
)
from mtlrun.data.reading.table import Table
from mtlrun.data.roles.builder import MOST_COLUMNS, DatasetBuilder
from mtlrun.data.roles.check import tidy
from mtlrun.data.roles.class_labels import class_names, classes_of_tasks, label_columns
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import UnknownTasks, gap_warning
from mtlrun.data.roles.weights import (
    drop_unweighted_rows,
    normalize_weights,
    weights_of,
)
from mtlrun.data.splits import GROUP, NEW_TASK, ORDER, ORDER_TASK, TIME, WEIGHT
from mtlrun.data.times import holds_dates
from mtlrun.data.transforms import transform_named
from mtlrun.errors import DataError, UnknownNameError, counted, listed

#: A column of words with more different ones than this, in more than half of its filled
#: cells, is an identifier; with empty cells, more than `MIN_NUMBERED` are enough.
MAX_WORDS = 50
#: Names of kinds of identifiers, and hints for them.
NUMBERED = "identifiers (a different whole number in every row)"
HARDLY_REPEATED = "identifiers (words that hardly repeat)"
HINTS = {NUMBERED: "; --keep COLUMN keeps one as a feature"}
#: Tasks with fewer rows than this are mentioned: they lack training or test rows in
#: some folds.
FEW_ROWS = 4
#: Columns that a message names, and those among which it looks for one of tasks.
SHOWN = 12
#: Published split of the data set made from --test, --group or --time.
TEST_SPLIT = "test"


def make_dataset(
    table: Table,
    roles: Roles,
    test: Table | None = None,
    clock: Clock | None = None,
) -> Dataset:
    """Make a data set of a table.

    Words become categories: X holds their number in ``Dataset.categories`` and NaN
    where a cell is missing, to be handled by a feature step learned on training rows.
    Row weights, groups and times are in ``Dataset.source``, the split by test file in
    ``Dataset.splits``; the decisions taken are in ``Dataset.notes``.

    Parameters
    ----------
    table : Table
    roles : Roles
    test : Table, optional
        Rows to test on, of the same columns.
    clock : Clock, optional
        Of an earlier fit to rows of this table, by which times are read.

    Raises
    ------
    UnknownNameError
        For a column that does not exist, with the nearest names.
    DataError
        For a target with one value, too few rows of a task, mixed types, numbers that
        cannot be squared, and roles that contradict each other.
    """
    check_roles(table, roles)
    n_train = len(table.frame)
    targets = list(roles.targets or table.default_targets)
    task = roles.task
    if not task and not roles.targets:
        # A format names a column of tasks only with its own targets.
        task = table.default_task
    if not targets:
        remedy = "Say --target COLUMN, --targets A,B,C or --labels FILE.xml."
        raise DataError(
            f"{table.name}: no target",
            f"{remedy} The columns are {listed(table.columns, SHOWN)}.",
        )
    if test is not None:
        needed = [name for name in table.columns if name not in roles.drop]
        table = table.stacked(test, needed)
    notes = list(table.notes)
    if roles.weight:
        table, n_train, weight_notes = drop_unweighted_rows(
            table, roles.weight, n_train, task
        )
        notes += weight_notes
    table, n_train, edits = tidy(table, n_train, roles)
    make = DatasetBuilder(table, roles, n_train, notes)
    make.refuse_unusable(task)
    y, task_type, tasks, labels = _targets(make, targets, task)
    task_id = None
    if task is not None:
        task_names = make.full(task, "task").sorted(make.first_tasks(task))
        task_id = task_names.codes
        tasks = task_names.names
    levels = {name: make.full(name, "group").sorted() for name in roles.also_grouped_by}
    clock, elapsed = make.start_clock(clock, task_id, tasks)
    single_columns = {task, roles.weight, roles.group, roles.time}
    taken = {*targets, *single_columns, *roles.drop, *roles.also_grouped_by}
    X, features, categories = _features(make, taken, clock, elapsed)
    targets = [name for name in targets if name not in make.left_out]
    source = _source(make, task_id, elapsed)
    keep, tasks, task_id = _kept(make, y, task_type, tasks, task_id)
    X = X[keep]
    y = y[keep]
    if task_id is not None and not sparse.issparse(X):
        make.notes += constant_within_tasks(X, task_id, features)
    if task_id is not None and labels:
        words = labels[targets[0]]
        if task_type == "multiclass":
            # Each class of a task becomes a task on the rows of all tasks.
            y, tasks, labels = classes_of_tasks(make, keep, y, task_id, tasks, words)
            task_type = "binary"
            task_id = None
            if roles.new_tasks:
                # The tasks are columns of one design.
                raise DataError(
                    "tasks with more than two labels cannot be left out as a whole",
                    "Say --positive LABEL for one label against the others.",
                )
        else:
            labels = dict.fromkeys(tasks, words)
    source = {name: values[keep] for name, values in source.items()}
    level_names = {name: list(groups.names) for name, groups in levels.items()}
    if WEIGHT in source:
        # Mean 1 in the training rows alone: test rows decide nothing.
        source[WEIGHT] = normalize_weights(source[WEIGHT], keep < n_train)
    data = Dataset(
        X=X,
        y=y,
        task_type=task_type,
        task_id=task_id,
        tasks=tasks,
        features=features,
        categories=categories,
        source=source,
        levels={name: groups.codes[keep] for name, groups in levels.items()},
        level_names=level_names,
        targets=targets,
        labels=labels,
        label_types=make.label_types,
        notes="\n".join(make.notes),
        edits=edits,
        clock=clock,
    )
    if test is not None:
        if keep.max() < n_train:
            raise DataError(
                f"{test.name}: no row has a target of a task that is kept",
                "Test rows need their targets; `mtlrun predict` predicts rows without.",
            )
        data.splits = {TEST_SPLIT: [_published(data, keep >= n_train, roles)]}
        train, test_rows = data.splits[TEST_SPLIT][0]
        unknown = _only_tested(data, train, test_rows)
        make.notes += [f"test rows: {text}" for text in unknown.sentences()]
        if GROUP in data.source:
            groups = data.source[GROUP]
            n_shared = len(np.intersect1d(groups[train], groups[test_rows]))
            if n_shared:
                groups_have = counted(n_shared, "group has", "groups have")
                make.notes.append(
                    f"{groups_have} rows in the table and in the test rows"
                )
        data.notes = "\n".join(make.notes)
    check_read(data, table.name, lambda row: table.where(int(keep[row])))
    return data


# --- targets ---


class Targets(NamedTuple):
    """The targets of a table.

    Attributes
    ----------
    y : ndarray
        Of shape (n,) with a task column: numbers, -1/+1, or numbers of classes. Else of
        shape (n, n_tasks).
    task_type : str
        ``multiclass`` only with a task column.
    names : list of str
        Names of the columns of `y`.
    labels : dict of str to list of str
        See `Dataset`; by target.
    """

    y: np.ndarray
    task_type: str
    names: list[str]
    labels: dict[str, list[str]]


def _targets(make: DatasetBuilder, names: list[str], task: str | None) -> Targets:
    columns = {}
    left_out = make.left_out
    for name in names:
        column = make.typed(name)
        values = column[: make.n_train].dropna()
        if not len(values):
            left_out[name] = "no values"
        elif _count_values(values) > 1:
            columns[name] = column
        else:
            left_out[name] = f"a single value ({values.iloc[0]})"
    if not columns:
        name, only = next(iter(left_out.items()))
        raise DataError(
            f"{make.table.name}: the target {name!r} has {only}",
            "There is nothing to predict.",
        )
    if left_out:
        make.notes.append(
            f"{counted(len(left_out), 'target')} left out, "
            f"there is nothing to predict: {listed(make.single_values())}"
        )
    names = list(columns)
    # Test rows decide nothing.
    kind = _task_type(make, {name: columns[name][: make.n_train] for name in columns})
    labels: dict[str, list[str]] = {}
    if len(names) == 1 and task is None and kind != "multiclass":
        constants = "".join(f"; {text}" for text in make.single_values())
        # A column of tasks has few names, each in several rows; words come first.
        similar = []
        for name in make.table.columns[:MOST_COLUMNS]:
            column = make.table.column(name)
            count = column.nunique()
            is_free = name != names[0] and name not in make.roles.drop
            if is_free and 2 <= count <= len(column) / 4:
                similar.append((is_numeric_dtype(column), count, name))
        example = ""
        if similar:
            example = f" (for example --task {min(similar)[2]})"
        raise DataError(
            "one target and no task column: there is a single task, "
            f"{names[0]!r}{constants}",
            f"Which column holds the groups? Add --task COLUMN{example}, "
            "or name several targets with --targets A,B,C.",
        )
    if kind == "regression":
        for name, column in columns.items():
            if not is_numeric_dtype(column):
                text = f"the target {name!r} contains words, not numbers"
                raise DataError(text, "Say --task-type binary or multiclass.")
        y = np.column_stack([make.target_numbers(name) for name in names])
    elif make.roles.transform:
        raise DataError(
            "--transform needs targets that are numbers", "Leave it out for labels."
        )
    elif kind == "binary" or task is None:
        y, names, labels = label_columns(make, columns, kind)
        kind = "binary"
    else:
        classes = class_names(make, names[0])
        make.notes.append(f"each class of {names[0]!r} is a task, one against the rest")
        y = np.where(classes.codes < 0, np.nan, classes.codes)[:, None]
        labels = {names[0]: classes.names}
    if task:
        y = y[:, 0]
    return Targets(y, kind, names, labels)


def _task_type(make: DatasetBuilder, columns: Mapping[str, pd.Series]) -> str:
    """Return the requested task type, or the type of the targets."""
    requested = make.roles.task_type or (make.roles.positive and "binary")
    if requested is not None:
        kind = requested
    else:
        kinds = {}
        for name, column in columns.items():
            if _count_values(column) == 2:
                kinds[name] = "binary"
            elif is_numeric_dtype(column):
                kinds[name] = "regression"
            else:
                kinds[name] = "multiclass"
        kinds_present = set(kinds.values())
        numbers = all(map(is_numeric_dtype, columns.values()))
        if "regression" in kinds_present and len(kinds_present) > 1 and not numbers:
            text = listed([f"{name} ({kind})" for name, kind in kinds.items()])
            raise DataError(
                f"targets of different types: {text}",
                "Compare each type in a run of its own, or say --task-type.",
            )
        # A target of two classes may come with one of more, or with numbers.
        if "regression" in kinds_present:
            kind = "regression"
        else:
            kind = max(kinds_present)
    if make.roles.task_type is None:
        make.notes.append(f"the task type is inferred from the targets: {kind}")
        if kind == "multiclass":
            # Texts that hardly repeat cannot be labels.
            for name, column in columns.items():
                count = len(Names.of(column).names)
                if count > max(MIN_TEXTS, 0.5 * column.count()):
                    raise DataError(
                        f"the target {name!r} contains {count} different texts "
                        f"in {column.count()} rows, no categories",
                        "Choose a column of numbers or of a few labels, "
                        "or derive one from the texts.",
                    )
    return kind


def _count_values(column: pd.Series) -> int:
    """Return the number of different numbers or names of a column."""
    if is_numeric_dtype(column):
        return int(column.nunique())
    return len(Names.of(column).names)


# --- tasks and rows ---


def _kept(
    make: DatasetBuilder,
    y: np.ndarray,
    kind: str,
    tasks: list[str],
    task_id: np.ndarray | None,
) -> tuple[np.ndarray, list[str], np.ndarray | None]:
    """Return the rows that stay, and their tasks.

    Rows have a target, and tasks enough rows and more than one class.
    """
    has_labels = kind != "regression"
    has_several_classes = kind == "multiclass"
    is_missing = np.isnan(y.reshape(len(y), -1))
    rows = np.flatnonzero(~is_missing.all(axis=1))
    if task_id is not None:
        min_rows = make.roles.min_rows or 1
        task_of_row = task_id[rows]
        is_training = rows < make.n_train
        # Test rows decide only about tasks without training rows.
        is_counted = is_training | ~np.isin(task_of_row, task_of_row[is_training])
        sizes = np.bincount(task_of_row[is_counted], minlength=len(tasks))
        is_small = sizes < min_rows
        _note_small_tasks(make, sizes)
        has_one_class = np.zeros_like(is_small)
        if has_labels:
            for t in np.flatnonzero(~is_small):
                labels_of_task = np.unique(y[rows[is_counted & (task_of_row == t)]])
                has_one_class[t] = len(labels_of_task) == 1
        # A task of one label is fitted like the others, and has scores other than AUC.
        # With more than two classes, it would become a task without any class.
        is_left_out = has_one_class & has_several_classes
        if has_one_class.any() and not has_several_classes:
            names = listed([tasks[t] for t in np.flatnonzero(has_one_class)])
            make.notes.append(
                f"{counted(has_one_class.sum(), 'task')} with only one class, left "
                f"out of AUC and its gain: {names}"
            )
        reason = "no row with a target"
        if min_rows > 1:
            reason = f"fewer than {min_rows} rows"
        for gone, why in ((is_small, reason), (is_left_out, "only one class")):
            if gone.any():
                names = listed([tasks[t] for t in np.flatnonzero(gone)])
                make.notes.append(
                    f"{counted(gone.sum(), 'task')} with {why} left out: {names}"
                )
        left = np.flatnonzero(~is_small & ~is_left_out)
        if not len(left):
            text = f"{make.table.name}: no task has {min_rows} rows"
            if has_several_classes:
                text += " of more than one class"
            raise DataError(text, "Choose another task column or --min-rows.")
        is_kept = np.isin(task_of_row, left)
        trained = y[rows[is_kept & is_training]]
        if len(trained) and (trained == trained[0]).all():
            raise DataError(
                f"{make.table.name}: the target has a single value in the tasks that "
                "are kept",
                "There is nothing to predict. A smaller --min-rows keeps more tasks.",
            )
        n_rows = int((~is_kept).sum())
        if n_rows:
            make.notes.append(f"{counted(n_rows, 'row')} of tasks left out")
        n_without_target = len(y) - len(rows)
        rows = rows[is_kept]
        tasks = [tasks[t] for t in left]
        task_id = np.searchsorted(left, task_id[rows])
    else:
        n_without_target = len(y) - len(rows)
    if n_without_target:
        make.notes.append(
            f"{counted(n_without_target, 'row')} without a target left out"
        )
    return rows, tasks, task_id


def _note_small_tasks(make: DatasetBuilder, sizes: np.ndarray) -> None:
    """Note that small tasks are kept, unless an option says which ones are."""
    if make.roles.min_rows is not None:
        return
    n_few = int(((sizes > 0) & (sizes < FEW_ROWS)).sum())
    if not n_few:
        return
    n_single = int((sizes == 1).sum())
    with_one = ""
    if n_single:
        with_one = f" ({n_single} of them have one row)"
    swapped = ""
    if 2 * n_single > len(sizes):
        swapped = "; are --target and --task swapped?"
    make.notes.append(
        f"{n_few} of {counted(len(sizes), 'task')} with fewer than {FEW_ROWS} rows are "
        f"kept{with_one}: they train what tasks share, and are scored where they have "
        f"rows to train and to test on; --min-rows N leaves small tasks out{swapped}"
    )


def _source(
    make: DatasetBuilder, task_id: np.ndarray | None, elapsed: np.ndarray | None
) -> dict[str, np.ndarray]:
    roles = make.roles
    source: dict[str, np.ndarray] = {}
    if elapsed is not None:
        source[ELAPSED] = elapsed
    if roles.new_tasks and task_id is not None:
        source[NEW_TASK] = task_id
    if roles.weight:
        source[WEIGHT] = weights_of(make.table, roles.weight)
    if roles.group:
        source[GROUP] = make.full(roles.group, "group").codes
    if roles.time:
        values = pd.Series(make.times[roles.time].values)
        rank = values.rank(method="dense").to_numpy(dtype=float)
        if roles.time_blocks or task_id is None:
            source[TIME] = rank
        else:
            source[ORDER] = rank
            source[ORDER_TASK] = task_id
    return source


def _published(
    data: Dataset, tested: np.ndarray, roles: Roles
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the table and the rows of the test table."""
    train = np.flatnonzero(~tested)
    test = np.flatnonzero(tested)
    unknown = _only_tested(data, train, test)
    if unknown.names and roles.unseen == "error":
        tasks_occur = counted(len(unknown.names), "task occurs", "tasks occur")
        remedy = "Say --unseen mean to predict them with the mean of all tasks' models."
        if unknown.similar:
            remedy = f"{unknown.similar_clause()}. {remedy}"
        raise DataError(
            f"{tasks_occur} only in the test rows: {listed(sorted(unknown.names))}",
            remedy,
        )
    return train, test


def _only_tested(data: Dataset, train: np.ndarray, test: np.ndarray) -> UnknownTasks:
    """Return the tasks of test rows that no training row has."""
    if data.task_id is None:
        return UnknownTasks()
    trained = {data.tasks[t] for t in np.unique(data.task_id[train])}
    return UnknownTasks.of([data.tasks[t] for t in data.task_id[test]], trained)


# --- features ---


def _features(
    make: DatasetBuilder,
    taken: set[str | None],
    clock: Clock | None,
    elapsed: np.ndarray | None,
) -> tuple[Any, list[str], dict[str, list[str]]]:
    """Return X, the names of its columns, and the words of the columns of categories.

    The time since the first row of the task is the last of the dense columns, where it
    is a feature.
    """
    table = make.table
    columns: dict[str, np.ndarray] = {}
    categories: dict[str, list[str]] = {}
    left_out: dict[str, list[str]] = {}
    dense = list(map(str, table.frame.columns))
    dense += [name for name in table.names if name in make.roles.categorical]
    if clock is not None and clock.is_feature and clock.has_dates:
        # The model extrapolates to other dates, so a date is not a category.
        taken = {*taken, clock.column}
    free = [name for name in dense if name not in taken]
    wanted = {*make.roles.categorical, *make.roles.keep}
    if "*" in make.roles.keep:
        wanted.update(free)
    unused = []
    for name in free:
        if name not in wanted and is_numbering(make.typed(name)[: make.n_train]):
            unused.append(name)
    if table.sparse is None and len(unused) == len(free):
        # There is nothing else to learn from.
        unused = []
    for name in free:
        column = make.typed(name)
        training_cells = column[: make.n_train]
        categorical = make.is_category(name)
        if training_cells.isna().all():
            left_out.setdefault("empty", []).append(name)
        elif name in unused:
            left_out.setdefault(NUMBERED, []).append(name)
        elif is_numeric_dtype(column) and not categorical:
            columns[name] = make.numbers(name)
        else:
            cells = make.named(name)
            words = sorted(cells.names)
            n_words = len(Names.of(training_cells).names)
            n_filled = int(training_cells.notna().sum())
            n_allowed = MAX_WORDS
            if n_filled != len(training_cells):
                # Remarks fill few cells, and each is different.
                n_allowed = MIN_NUMBERED
            if name not in wanted and n_words > max(n_allowed, 0.5 * n_filled):
                # Words that hardly repeat say nothing about other rows.
                kind = HARDLY_REPEATED
                if holds_dates(training_cells):
                    kind = "dates"
                left_out.setdefault(kind, []).append(name)
                continue
            codes = cells.sorted(words).codes
            categories[name] = words
            columns[name] = np.where(codes < 0, np.nan, codes)
    if not make.roles.group and not make.roles.time:
        candidates = [make.typed(name)[: make.n_train] for name in columns]
        make.notes += repeated_ids(candidates)
    if make.n_train < len(table.frame):
        gaps = {}
        for name, values in columns.items():
            missing = np.isnan(values)
            if missing.any() and not missing[: make.n_train].any():
                gaps[name] = int(missing.sum())
        make.notes += [f"test rows: {line}" for line in gap_warning(gaps)]
    remarks = []
    for kind, names in left_out.items():
        remarks.append(f"left out as {kind}: {listed(names)}{HINTS.get(kind, '')}")
    if "dates" in left_out:
        remarks.append(
            "--time COLUMN splits by a date, --since-first COLUMN makes the time since "
            "the first row of the task a feature"
        )
    make.notes += remarks
    if clock is not None and clock.is_feature and elapsed is not None:
        columns[clock.feature] = elapsed
    names = list(columns)
    if table.sparse is not None:
        used = {*taken, *dense}
        names += [name for name in table.names if name not in used]
    if not names:
        raise DataError(
            "; ".join([f"{table.name}: no column is left as a feature", *remarks]),
            "Name fewer columns in the options, "
            "or say --categorical COLUMN for one that holds categories.",
        )
    X = table.features(names, columns)
    if sparse.issparse(X):
        entries = sparse.coo_array(X[:, len(columns) :])
        is_missing = np.isnan(entries.data)
        if is_missing.any():
            row = int(entries.row[np.argmax(is_missing)])
            raise DataError(
                f"{table.where(row)}: a value is missing, and the rows are sparse",
                "Fill the gap, or write dense rows.",
            )
    return X, names, categories


#: Ways to treat tasks that occur only in the test rows.
UNSEEN = ("error", "mean")


#: Ways to treat columns that mix numbers and words.
MIXED = ("error", "categories")


def check_roles(table: Table, roles: Roles) -> None:
    """Refuse columns that do not exist, and roles that contradict each other.

    Raises
    ------
    UnknownNameError
        For a column, or a value of an option, that does not exist.
    DataError
        For two roles of one column, and for designs that exclude each other.
    """
    single = [
        name for name in (roles.task, roles.weight, roles.group, roles.time) if name
    ]
    if roles.since_first and roles.since_first not in table.columns:
        wrong = f"{table.name} has no column {roles.since_first!r}"
        raise UnknownNameError("column", roles.since_first, table.columns, wrong)
    kept = [name for name in roles.keep if name != "*"]
    lists = (*roles.drop, *roles.categorical, *kept, *roles.also_grouped_by)
    for name in (*roles.targets, *single, *lists):
        if name not in table.columns:
            wrong = f"{table.name} has no column {name!r}"
            if "," in name and (name,) == roles.targets:
                raise DataError(
                    wrong, f"For several columns to predict: --targets {name}"
                )
            raise UnknownNameError("column", name, table.columns, wrong)
    named = [*roles.targets, *single]
    twice = [name for name in named if named.count(name) > 1]
    if twice and set(twice) != {roles.task} & {roles.group}:
        raise DataError(
            f"column {twice[0]!r} is given two roles", "Give every column one role."
        )
    for option, column in (
        ("--time", roles.time),
        ("--since-first", roles.since_first),
    ):
        if column is not None and column in roles.categorical:
            raise DataError(
                f"column {column!r} is given to {option} and to --categorical",
                "Times are no categories: leave it out of one of the two.",
            )
    # Rows of a group that stay together are still rows of the same level.
    without_group = [*roles.targets, roles.task, roles.weight, roles.time]
    for name in roles.also_grouped_by:
        if name in without_group:
            raise DataError(
                f"column {name!r} is given two roles",
                "Leave it out of --also-grouped-by: a task has a level anyway.",
            )
        if name in (*roles.drop, *roles.categorical, *kept):
            raise DataError(
                f"column {name!r} is given to --also-grouped-by, so it is no feature",
                "Leave it out of --drop, --categorical and --keep.",
            )
    if roles.task and len(roles.targets) > 1:
        raise DataError(
            "a task column requires a single target",
            "Name the task column (ragged) or several targets (shared), not both.",
        )
    has_tasks = roles.task or (table.default_task and not roles.targets)
    if roles.task_order and not has_tasks:
        raise DataError(
            "an order of tasks needs a column of tasks",
            "Name several targets in their order instead.",
        )
    if roles.group and roles.time:
        raise DataError(
            "rows cannot be split by group and by time at once",
            "Choose --group or --time.",
        )
    if roles.time_blocks and not roles.time:
        raise DataError(
            "--time-blocks needs a column of times",
            "Name it with --time COLUMN.",
        )
    if roles.new_tasks:
        if not has_tasks:
            raise DataError(
                "--new-tasks needs a column of tasks: columns to predict are no tasks that "
                "new rows could add",
                "Name the column with --task, or leave out --new-tasks.",
            )
        for option, column in (("--time", roles.time), ("--group", roles.group)):
            if column:
                raise DataError(
                    f"{option} and --new-tasks ask different questions",
                    f"Run two comparisons: one with {option}, one with --new-tasks.",
                )
    if roles.transform is not None:
        transform_named(roles.transform)
    if roles.task_type not in (None, *TASK_TYPES):
        raise UnknownNameError("task type", str(roles.task_type), TASK_TYPES)
    if roles.positive is not None and roles.task_type not in (None, "binary"):
        text = f"a positive label requires binary targets, not {roles.task_type}"
        raise DataError(text, "Remove --positive or --task-type.")
    if roles.mixed not in MIXED:
        raise UnknownNameError("value of --mixed", roles.mixed, MIXED)
    if roles.unseen not in UNSEEN:
        raise UnknownNameError("value of --unseen", roles.unseen, UNSEEN)
