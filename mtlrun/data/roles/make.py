"""From a table to a `Dataset`: the roles of its columns.

A column is a target, task, weight, group, time or feature.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy import sparse

from mtlrun.data.clock import Clock, Times
from mtlrun.data.dataset import ELAPSED, TASK_TYPES, Dataset, check_read
from mtlrun.data.reading.names import (
    Names,
    class_task,
    distinct,
    drop_option,
    is_number,
    is_plain,
    name_order,
    quoted_list,
    separated,
)
from mtlrun.data.reading.odd_columns import (
    MIN_NUMBERED,
    MIN_TEXTS,
    OddCell,
    constant_within_tasks,
    decimal_tasks,
    is_numbering,
    mixed_cell,
    repeated_ids,
    written_number,
)
from mtlrun.data.reading.table import Table
from mtlrun.data.roles.check import tidy
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import UnknownTasks, gap_warning
from mtlrun.data.roles.weights import (
    drop_unweighted_rows,
    normalize_weights,
    weights_of,
)
from mtlrun.data.splits import GROUP, NEW_TASK, ORDER, ORDER_TASK, TIME, WEIGHT
from mtlrun.data.times import NUMBER, holds_dates
from mtlrun.data.transforms import transform_named
from mtlrun.errors import DataError, UnknownNameError, counted, listed

Array = np.ndarray

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
#: Columns that a message about cells names, and in which one of tasks is looked for.
MOST_COLUMNS = 60
#: Numbers of more different values than this are hardly labels.
FEW_LABELS = 6
#: Remedy for labels that occur only in test rows.
NEW_LABEL_REMEDY = (
    "Correct the cell or leave its row out. The kind of the problem and its classes come "
    "from the training rows, so a new class needs rows there."
)
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
        edits=edits,
        clock=clock,
    )
    if test is not None:
        if keep.max() < n_train:
            raise DataError(
                f"{test.name}: no row has a target of a task that is kept",
                "Test rows need their targets; `mtlrun predict` predicts rows without.",
            )
        train = np.flatnonzero(keep < n_train)
        test_rows = np.flatnonzero(keep >= n_train)
        data.splits = {TEST_SPLIT: [(train, test_rows)]}
        make.notes += _notes_on_test_rows(data, train, test_rows, roles)
    data.notes = "\n".join(make.notes)
    check_read(data, table.name, lambda row: table.where(int(keep[row])))
    return data


# --- the columns in use ---


@dataclass
class DatasetBuilder:
    """The state while a data set is made."""

    table: Table
    roles: Roles
    n_train: int
    notes: list[str] = field(default_factory=list)
    label_types: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    mixed: tuple[str, ...] = ()
    times: dict[str, Times] = field(default_factory=dict)

    def refuse(self, wrong: Any, text: str, remedy: str) -> None:
        """Raise a DataError that names the first wrong row, if there is one."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            raise DataError(f"{self.table.where(int(rows[0]))}: {text}", remedy)

    def named(self, name: str) -> Names:
        """Return a column of names, and note names that are written in several ways."""
        names = Names.of(self.table.text(name))
        if names.merged:
            self.notes.append(
                "blanks at the ends, normal forms and the type of a cell do not tell "
                f"names of {name!r} apart: {listed(list(map(repr, names.merged)))}"
            )
        return names

    def full(self, name: str, part: str) -> Names:
        """Return a column of names in which no cell may be empty."""
        if part == "task":
            self.notes += decimal_tasks(self.table.column(name))
        names = self.named(name)
        is_missing = names.codes < 0
        if is_missing.any() and self.table.sparse is None:
            is_blank = self.table.frame.isna().all(axis=1).to_numpy(dtype=bool)
            self.refuse(
                is_missing & is_blank,
                "all cells of the row are empty",
                "Delete blank rows, in pandas with frame.dropna(how='all').",
            )
        self.refuse(
            is_missing,
            f"the {part} column {name!r} is empty",
            f"Every row needs its {part}: fill in the cell, or delete the row.",
        )
        return names

    def start_clock(
        self, clock: Clock | None, task_id: Array | None, tasks: Sequence[str]
    ) -> tuple[Clock | None, Array | None]:
        """Return when each task begins, and the time of each row since then.

        Both are None where no column of times has a role. Texts of times that are
        numbers become numbers in the table.

        Parameters
        ----------
        clock : Clock or None
            Of an earlier fit to rows of this table, whose schema is kept.
        task_id : ndarray of shape (n,) or None
            Task of each row; None if all tasks share their rows.
        tasks : sequence of str

        Raises
        ------
        DataError
            As `Times.of`; if the time is a feature, but can only be ranked.
        """
        for name in (self.roles.since_first, self.roles.time):
            if name is None or name in self.times:
                continue
            schema = None
            if clock is not None and clock.column == name:
                schema = clock.times
            times = Times.of(self.table, name, self.n_train, schema)
            self.times[name] = times
            self.notes += times.schema.describe(name)
            is_text = not is_numeric_dtype(self.table.column(name))
            if is_text and times.schema.kind == NUMBER:
                frame = self.table.frame.assign(**{name: times.values})
                self.table = replace(self.table, frame=frame)
        is_feature = self.roles.since_first is not None
        column = self.roles.since_first or self.roles.time
        if column is None:
            return None, None
        times = self.times[column]
        if is_feature:
            times.schema.refuse_counting(column)
        if task_id is None:
            task_id = np.zeros(len(times.values), dtype=int)
            tasks = [""]
        # A task begins with the first of its training rows, if it has any.
        first = np.full(len(tasks), np.inf)
        np.minimum.at(first, task_id[: self.n_train], times.values[: self.n_train])
        first_of_all = np.full(len(tasks), np.inf)
        np.minimum.at(first_of_all, task_id, times.values)
        first = np.where(np.isfinite(first), first, first_of_all)
        elapsed = times.values - first[task_id]
        feature = f"{column} since first row"
        while feature in self.table.columns:
            feature += " (2)"
        clock = Clock(
            column,
            feature,
            times.schema,
            dict(zip(tasks, first.tolist(), strict=True)),
            is_feature=is_feature,
            span=(float(times.values.min()), float(times.values.max())),
            longest=float(elapsed.max()),
        )
        return clock, elapsed

    def first_tasks(self, task: str) -> tuple[str, ...]:
        """Return the tasks whose order is given."""
        existing: set[str] = set()
        order: list[str] = []
        if self.roles.task_order:
            existing = set(Names.of(self.table.text(task)).names)
        for text in self.roles.task_order:
            order += separated(text, existing)
        for name in order:
            if name not in existing:
                raise UnknownNameError(
                    f"task in the order of tasks, as a name in column {task!r},",
                    name,
                    existing,
                )
        return tuple(dict.fromkeys(order))

    def typed(self, name: str) -> pd.Series:
        """Return a column of a feature or target.

        Numbers of which some are stored as texts, as in Excel, are numbers.
        """
        column = self.table.column(name)
        if column.dtype != object:
            return column
        cell_types = set(map(type, column.dropna()))
        are_texts = {issubclass(cell_type, str) for cell_type in cell_types}
        if len(are_texts) == 2:
            numbers = pd.to_numeric(column, errors="coerce")
            if (numbers.isna() == column.isna()).all():
                return numbers
        return column

    def numbers(self, name: str) -> Array:
        """Return a column of numbers, NaN where they are missing."""
        values = self.typed(name).to_numpy(dtype=float, na_value=np.nan)
        text = f"column {name!r} contains an infinite value"
        self.refuse(np.isinf(values), text, "Fix the cell or leave it empty.")
        return values

    def target_numbers(self, name: str) -> Array:
        """Return a target on the scale on which it is predicted."""
        values = self.numbers(name)
        if self.roles.transform is None:
            return values
        transform = transform_named(self.roles.transform)
        with np.errstate(all="ignore"):
            transformed = transform.forward(values)
        self.refuse(
            ~np.isnan(values) & ~np.isfinite(transformed),
            f"the target {name!r} is not {transform.requirement}",
            f"Leave out --transform {transform.name}, or the row.",
        )
        return transformed

    def single_values(self) -> list[str]:
        """Return a clause about each target left out: ``y has a single value (1)``."""
        return [f"{name} has {only}" for name, only in self.left_out.items()]

    def is_category(self, name: str) -> bool:
        """Whether a column is read as names because an option says so."""
        return name in self.roles.categorical or name in self.mixed

    def refuse_unusable(self, task: str | None) -> None:
        """Refuse cells and columns that cannot be used; all columns of a kind at once.

        Columns are unusable if they hold errors of spreadsheets, mix numbers and words,
        or write numbers as texts such as 1,5 or 12%. With ``mixed="categories"`` those
        that mix numbers and words become categories.

        Parameters
        ----------
        task : str or None
            Column of tasks, whose cells are names in any case.

        Raises
        ------
        DataError
            With an example of each column and the options that accept them.
        """
        names_only = {self.roles.weight, self.roles.group, task}
        # Times have a schema, which refuses such cells.
        names_only.update((self.roles.time, self.roles.since_first))
        names_only.update(self.roles.also_grouped_by)
        used = [str(name) for name in self.table.frame.columns]
        used = [name for name in used if name not in self.roles.drop]
        self.table.refuse_errors(used)
        mixed: dict[str, OddCell] = {}
        written: dict[str, OddCell] = {}
        for name in used:
            if name in names_only or self.is_category(name):
                continue
            if is_numeric_dtype(self.typed(name)):
                continue
            cells = Names.of(self.table.column(name))
            example = None
            if name not in self.table.words:
                # Declared values are categories, whatever they look like.
                example = mixed_cell(cells)
            if example is not None:
                mixed[name] = example
                continue
            example = written_number(cells)
            if example is not None:
                written[name] = example
        if self.roles.mixed == "categories":
            # A word in the test rows does not make categories of training numbers.
            for name in mixed:
                column = self.table.column(name)[: self.n_train]
                numbers = pd.to_numeric(column, errors="coerce")
                if not (numbers.isna() == column.isna()).all():
                    self.mixed = (*self.mixed, name)
            mixed = {name: mixed[name] for name in mixed if name not in self.mixed}
        if self.mixed:
            names = listed(list(self.mixed))
            self.notes.append(f"read as categories, mixing numbers and words: {names}")
        if mixed:
            raise self._refusal(
                mixed, "mixes numbers and words", "mix numbers and words"
            )
        if written:
            raise self._refusal(
                written, "contains numbers as text", "contain numbers as text"
            )

    def _refusal(
        self, examples: Mapping[str, OddCell], singular: str, plural: str
    ) -> DataError:
        names = list(examples)
        row = min(example.row for example in examples.values())
        option = f"--categorical {shlex.quote(quoted_list(names))}"
        if len(names) == 1:
            text = f"column {names[0]!r} {singular}: {examples[names[0]].odd!r} here"
        else:
            lines = [
                f"{name!r} ({example.odd!r} in row {example.row + 1}{example.others})"
                for name, example in examples.items()
            ]
            text = f"{len(names)} columns {plural}: {listed(lines, MOST_COLUMNS)}"
        if plural == "mix numbers and words":
            remedy = (
                f"Fix the cells, or read the columns as categories: {option} "
                "(or --mixed categories)"
            )
        else:
            remedy = (
                f"Write them like 1.5, read them as categories: {option}, "
                f"or leave them out: {drop_option(names)}"
            )
        return DataError(f"{self.table.where(row)}: {text}", remedy)


# --- targets ---


def _targets(
    make: DatasetBuilder, names: list[str], task: str | None
) -> tuple[Array, str, list[str], dict[str, list[str]]]:
    """Return the targets of a table.

    Returns
    -------
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
    return y, kind, names, labels


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


# --- labels: which one means +1, and a column of -1/+1 for each class ---


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


# --- tasks and rows ---


def _kept(
    make: DatasetBuilder,
    y: Array,
    kind: str,
    tasks: list[str],
    task_id: Array | None,
) -> tuple[Array, list[str], Array | None]:
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
        n_few = int(((sizes > 0) & (sizes < FEW_ROWS)).sum())
        if n_few and make.roles.min_rows is None:
            # Small tasks are kept, unless an option says which ones are.
            n_single = int((sizes == 1).sum())
            with_one = ""
            if n_single:
                with_one = f" ({n_single} of them have one row)"
            swapped = ""
            if 2 * n_single > len(sizes):
                swapped = "; are --target and --task swapped?"
            make.notes.append(
                f"{n_few} of {counted(len(sizes), 'task')} with fewer than {FEW_ROWS} "
                f"rows are kept{with_one}: they train what tasks share, and are scored "
                "where they have rows to train and to test on; --min-rows N leaves "
                f"small tasks out{swapped}"
            )
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


def _source(
    make: DatasetBuilder, task_id: Array | None, elapsed: Array | None
) -> dict[str, Array]:
    roles = make.roles
    source: dict[str, Array] = {}
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


def _notes_on_test_rows(
    data: Dataset, train: Array, test: Array, roles: Roles
) -> list[str]:
    """Return notes on tasks and groups of the test rows.

    Raises
    ------
    DataError
        If a task has no training rows, unless `roles` say how to predict it.
    """
    unknown = UnknownTasks()
    if data.task_id is not None:
        trained = {data.tasks[t] for t in np.unique(data.task_id[train])}
        names = [data.tasks[t] for t in data.task_id[test]]
        unknown = UnknownTasks.of(names, trained)
    if unknown.names and roles.unseen == "error":
        tasks_occur = counted(len(unknown.names), "task occurs", "tasks occur")
        remedy = "Say --unseen mean to predict them with the mean of all tasks' models."
        if unknown.similar:
            remedy = f"{unknown.similar_clause()}. {remedy}"
        raise DataError(
            f"{tasks_occur} only in the test rows: {listed(sorted(unknown.names))}",
            remedy,
        )
    notes = [f"test rows: {text}" for text in unknown.sentences()]
    if GROUP in data.source:
        groups = data.source[GROUP]
        n_shared = len(np.intersect1d(groups[train], groups[test]))
        if n_shared:
            groups_have = counted(n_shared, "group has", "groups have")
            notes.append(f"{groups_have} rows in the table and in the test rows")
    return notes


# --- features ---


def _features(
    make: DatasetBuilder,
    taken: set[str | None],
    clock: Clock | None,
    elapsed: Array | None,
) -> tuple[Any, list[str], dict[str, list[str]]]:
    """Return X, the names of its columns, and the words of the columns of categories.

    The time since the first row of the task is the last of the dense columns, where it
    is a feature.
    """
    table = make.table
    columns: dict[str, Array] = {}
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
