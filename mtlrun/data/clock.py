"""Time since the first row of a task, a feature that baselines of next rows need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from mtlrun.data.frames import instants
from mtlrun.data.table import Table
from mtlrun.errors import DataError

if TYPE_CHECKING:
    from mtlrun.data.roles import Roles

_SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True)
class Clock:
    """When each task begins.

    Attributes
    ----------
    column : str
        Column of times: numbers, or dates, which are counted in days.
    feature : str
        Name of the column with the time since the first row of the task.
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
        return {
            "column": self.column,
            "feature": self.feature,
            "first": dict(self.first),
            "is_feature": self.is_feature,
            "span": self.span,
            "longest": self.longest,
        }

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
            If the column of times is missing, or a cell is neither a number nor a date.
        """
        if self.column not in table.columns:
            raise DataError(
                f"{table.name}: the column {self.column!r} is missing",
                "The model needs the time of each row.",
            )
        times = times_of(table, self.column)
        names = [""] * len(times) if tasks is None else list(tasks)
        first = pd.Series(times).groupby(names).min().to_dict()
        first.update(self.first)
        begins = np.array([first[name] for name in names], dtype=float)
        return times, times - begins


def feature_name(column: str, taken: Sequence[str]) -> str:
    """Return a name for the time since the first row by a column of times."""
    name = f"{column} since first row"
    while name in taken:
        name += " (2)"
    return name


def times_of(table: Table, column: str) -> np.ndarray:
    """Return a column of times as numbers; dates are days since 1970.

    Raises
    ------
    DataError
        If a cell is neither a number nor a date.
    """
    values = instants(table.column(column), table.name)
    missing = np.flatnonzero(values.isna())
    if missing.size:
        raise DataError(
            f"{table.where(int(missing[0]))}: the time column {column!r} contains "
            "neither a number nor a date",
            "Fix the cell, or choose another column of times.",
        )
    if is_numeric_dtype(values):
        return values.to_numpy(dtype=float)
    if getattr(values.dtype, "tz", None) is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    seconds = values.to_numpy(dtype="datetime64[us]").astype(np.int64) / 1e6
    return seconds / _SECONDS_PER_DAY


def start_clock(
    table: Table, roles: Roles, task_id: np.ndarray | None, tasks: Sequence[str]
) -> tuple[Clock | None, np.ndarray | None]:
    """Return when each task begins, and the time of each row since then.

    Both are None where no column of times has a role.

    Parameters
    ----------
    table : Table
    roles : Roles
    task_id : ndarray of shape (n,) or None
        Task of each row; None if all tasks share their rows.
    tasks : sequence of str
    """
    column = roles.since_first or roles.time
    if column is None:
        return None, None
    times = times_of(table, column)
    if task_id is None:
        codes = np.zeros(len(times), dtype=int)
        names = [""]
    else:
        codes = task_id
        names = list(tasks)
    first = np.full(len(names), np.inf)
    np.minimum.at(first, codes, times)
    elapsed = times - first[codes]
    clock = Clock(
        column,
        feature_name(column, table.columns),
        dict(zip(names, first.tolist(), strict=True)),
        is_feature=roles.since_first is not None,
        span=(float(times.min()), float(times.max())),
        longest=float(elapsed.max()),
    )
    return clock, elapsed
