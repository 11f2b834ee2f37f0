"""Data set built from the columns of a table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from mtlrun.data.clock import Clock, Times
from mtlrun.data.reading.names import Names, drop_option, quoted_list, separated
from mtlrun.data.reading.odd_columns import (
    OddCell,
    decimal_tasks,
    mixed_cell,
    written_number,
)
from mtlrun.data.reading.table import Table
from mtlrun.data.roles.roles import Roles
from mtlrun.data.times import NUMBER
from mtlrun.data.transforms import transform_named
from mtlrun.errors import DataError, UnknownNameError, listed

#: Columns that a message names.
MOST_COLUMNS = 60


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
        self, clock: Clock | None, task_id: np.ndarray | None, tasks: Sequence[str]
    ) -> tuple[Clock | None, np.ndarray | None]:
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

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of numbers, NaN where they are missing."""
        values = self.typed(name).to_numpy(dtype=float, na_value=np.nan)
        text = f"column {name!r} contains an infinite value"
        self.refuse(np.isinf(values), text, "Fix the cell or leave it empty.")
        return values

    def target_numbers(self, name: str) -> np.ndarray:
        """Return a target on the scale on which it is predicted."""
        values = self.numbers(name)
        if self.roles.transform is None:
            return values
        transform = transform_named(self.roles.transform)
        self.refuse(
            ~np.isnan(values) & ~transform.allows(values),
            f"the target {name!r} is not {transform.requirement}",
            f"Leave out --transform {transform.name}, or the row.",
        )
        return transform.forward(values)

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
            example = None
            if name not in self.table.words:
                # Declared values are categories, whatever they look like.
                example = mixed_cell(self.typed(name), self.table.column(name))
            if example is not None:
                mixed[name] = example
                continue
            example = written_number(self.typed(name), self.table.column(name))
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
