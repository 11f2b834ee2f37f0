"""Time since the first row of a task, a feature that baselines of next rows need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.reading.frames import typed
from mtlrun.data.reading.table import Table
from mtlrun.data.times import DATE, NUMBER, TimeSchema
from mtlrun.errors import DataError


@dataclass(frozen=True)
class Times:
    """The times of all rows, and how they are read.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Numbers; dates are days since 1970.
    schema : TimeSchema
    """

    values: np.ndarray
    schema: TimeSchema

    @classmethod
    def of(
        cls, table: Table, column: str, n_train: int, schema: TimeSchema | None = None
    ) -> Times:
        """Read a column of times.

        Parameters
        ----------
        table : Table
        column : str
        n_train : int
            Number of training rows, which come first. The others are read like them.
        schema : TimeSchema, optional
            How the column is read; inferred from the training rows by default.

        Raises
        ------
        DataError
            As `TimeSchema.of` and `TimeSchema.read`.
        """
        cells = table.column(column)
        train = cells.iloc[:n_train]
        if schema is None:
            # Test rows of another type make objects of the whole column.
            schema = TimeSchema.of(typed(train), table)
        values = [schema.read(train, table)]
        if n_train < len(cells):
            values.append(schema.read(cells.iloc[n_train:], table, n_train))
        return cls(np.concatenate(values), schema)


@dataclass(frozen=True)
class Clock:
    """When each task begins.

    Attributes
    ----------
    column : str
        Column of times: numbers, or dates, which are counted in days.
    feature : str
        Name of the column with the time since the first row of the task.
    times : TimeSchema or None
        How the column is read. None for models of earlier versions whose times may have
        been numbers or dates.
    first : mapping of str to float
        Earliest time of each task.
    is_feature : bool
        Whether this column is a feature of all methods.
    span : (float, float) or None
        Earliest and latest time of all rows; None for models of earlier versions.
    longest : float or None
        Longest time of a row since the first row of its task.
    """

    column: str
    feature: str
    times: TimeSchema | None = None
    first: Mapping[str, float] = field(default_factory=dict)
    is_feature: bool = False
    span: tuple[float, float] | None = None
    longest: float | None = None

    @property
    def last_column(self) -> str:
        """Name of the same column if it is the last one, for methods that need it."""
        return f"{self.feature} (last column)"

    @property
    def columns(self) -> tuple[str, str]:
        """Names of all columns that are derived from the column of times."""
        return self.feature, self.last_column

    def to_dict(self) -> dict[str, Any]:
        """Return the clock as plain data, as ``model.json`` holds it."""
        times = None
        if self.times is not None:
            times = self.times.to_dict()
        return {
            "column": self.column,
            "feature": self.feature,
            "times": times,
            "first": dict(self.first),
            "is_feature": self.is_feature,
            "span": self.span,
            "longest": self.longest,
        }

    def of_model(self, names: Sequence[str], categories: Mapping[str, Any]) -> Clock:
        """Return the stored clock of a model, with the schema of its times.

        A model of an earlier version does not say how its times are read. They are
        numbers if the column itself is a feature. If ``--since-first`` names the column
        and it is not a feature, they are dates.

        Parameters
        ----------
        names : sequence of str
            Columns that the model reads.
        categories : mapping
            Those of text.

        Raises
        ------
        DataError
            As `TimeSchema.refuse_unknown_formats`.
        """
        if self.times is not None:
            self.times.refuse_unknown_formats()
            return self
        if self.column in names and self.column not in categories:
            return replace(self, times=TimeSchema(NUMBER, is_assumed=True))
        if self.is_feature:
            return replace(self, times=TimeSchema(DATE, is_assumed=True))
        return self

    @property
    def has_dates(self) -> bool:
        """Whether the column holds dates. They are not a feature themselves."""
        return self.times is not None and self.times.kind == DATE

    def refuse_ambiguous(self) -> None:
        """Refuse times that can be ranked, but not counted.

        Raises
        ------
        DataError
        """
        if self.times is not None:
            self.times.refuse_counting(self.column)

    def describe_assumption(self) -> list[str]:
        """Return a sentence about how a model of an earlier version reads times."""
        if self.times is None or not self.times.is_assumed:
            return []
        return self.times.describe(self.column)

    def is_beyond(
        self, times: np.ndarray, elapsed: np.ndarray, features: Sequence[str]
    ) -> np.ndarray:
        """Return which rows lie outside the times of the training rows.

        The time itself counts only where it is a feature. Otherwise new rows are always
        later, and the model does not see that.

        Parameters
        ----------
        times, elapsed : ndarray of shape (n,)
            As `elapsed` returns them.
        features : sequence of str
            Columns that the model uses.
        """
        is_beyond = np.zeros(len(times), dtype=bool)
        # Models of earlier versions do not store the limits.
        if self.longest is not None:
            is_beyond |= (elapsed < 0) | (elapsed > self.longest)
        if self.span is not None and self.column in features:
            earliest, latest = self.span
            is_beyond |= (times < earliest) | (times > latest)
        return is_beyond

    def elapsed(
        self, table: Table, tasks: Sequence[str] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the times of new rows, and since the first row of their task.

        A task without training rows begins with the first of the new rows.

        Parameters
        ----------
        table : Table
        tasks : sequence of str or None
            Task of each row; None if all tasks share their rows.

        Raises
        ------
        DataError
            If the column of times is missing, or a cell is not written as in the
            training rows; if the model does not store how these were written.
        """
        if self.column not in table.columns:
            raise DataError(
                f"{table.name}: the column {self.column!r} is missing",
                "The model needs the time of each row.",
            )
        if self.times is None:
            raise DataError(
                f"{table.name}: the model is of an earlier version, which did not store "
                f"whether the times of {self.column!r} are numbers or dates",
                "Train it again: mtlrun compare or mtlrun train, as before.",
            )
        times = self.times.read(table.column(self.column), table)
        names = [""] * len(times) if tasks is None else list(tasks)
        first = pd.Series(times).groupby(names).min().to_dict()
        first.update(self.first)
        begins = np.array([first[name] for name in names], dtype=float)
        return times, times - begins
