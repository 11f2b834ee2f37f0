"""A look at a table before anything is fitted.

`check_table` lists what may be wrong in a table: cells that are far from all others,
names that are written in several ways, columns that give the target away. It states
what was found and what that does to an answer, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from mtlrun.data.reading.names import Names, alike_names
from mtlrun.data.reading.odd_columns import is_numbering
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import Table, table_of_frame
from mtlrun.errors import counted, listed, with_arguments

Array = np.ndarray[Any, np.dtype[Any]]

#: Columns with fewer numbers have no cells that are far from the others.
MIN_NUMBERS = 20
#: A cell is far if it is this many standard deviations from the median, and this many
#: times as far as the next one. The standard deviation is estimated by the median of
#: absolute deviations.
FAR = 12.0
GAP = 4.0
#: Columns of positive numbers are often skewed: far cells must be far on the scale of
#: logarithms, too. A cell that is far there needs `FAR_BELOW` on the scale of the column.
FAR_OF_LOG = 6.0
GAP_OF_LOG = 3.0
FAR_BELOW = 4.0
#: At most this many cells of a column are far, and this share of its rows.
MAX_FAR = 5
MAX_FAR_SHARE = 0.005
#: Medians of tasks in another unit are these multiples of the others, up to a factor of
#: `UNIT_TOLERANCE`, in at most a fifth of the tasks. Otherwise medians of tasks differ by
#: less than a factor of `UNIT_SPREAD` (a standard deviation of logarithms).
UNITS = (10.0, 100.0, 1000.0)
UNIT_TOLERANCE = 1.5
UNIT_SPREAD = 1.4
MIN_TASKS = 4
MIN_ROWS = 3
#: Share of repeated rows from which on folds share rows.
MANY_REPEATED = 0.2
#: A column determines the target if all but this share of the variance is explained.
UNEXPLAINED = 1e-9
#: Names in a sentence.
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class TableFinding:
    """Something in a table that may be wrong.

    Attributes
    ----------
    kind : str
        ``far cell``, ``alike names``, ``other unit``, ``gives target away``,
        ``repeated rows``, ``constant column``, ``equal columns``, ``row numbers`` or
        ``task of one row``.
    column : str
        Empty if it is about rows.
    place : str
        Row as ``file:line``, empty if it is about a column.
    task : str
    text : str
        What was found.
    effect : str
        What it does to an answer.
    is_alarm : bool
        Whether it can change the advice of a comparison. Only these findings are printed
        before a comparison.
    """

    kind: str
    column: str
    place: str = ""
    task: str = ""
    text: str
    effect: str
    is_alarm: bool = True

    @property
    def sentence(self) -> str:
        """What was found and what it does, for messages."""
        return f"{self.text}: {self.effect}"


@with_arguments
def check_table(
    data: Any,
    *,
    target: str | Sequence[str] = (),
    task: str | None = None,
    drop: str | Sequence[str] = (),
) -> pd.DataFrame:
    """List what may be wrong in a table, before anything is fitted.

    Parameters
    ----------
    data : DataFrame, or path of a file
    target : str or sequence of str, optional
        Columns to predict.
    task : str, optional
        Column of tasks. Cells are also compared with others of their task.
    drop : str or sequence of str, optional
        Columns that are not looked at.

    Returns
    -------
    DataFrame
        A row per finding, alarms first, with the attributes of `TableFinding` as columns.
        Empty for sparse tables.

    Raises
    ------
    DataError
        If the file cannot be read.
    UnknownNameError
        For a column that does not exist.

    Examples
    --------
    >>> import pandas as pd
    >>> weights = [70 + k % 7 for k in range(40)]
    >>> weights[3] = 7300
    >>> table = pd.DataFrame({"weight": weights, "height": range(150, 190)})
    >>> check_table(table, target="height").loc[0, "text"]
    "7300 in column 'weight' (data frame: row 4) is far from all others (70 to 76)"
    """
    if isinstance(data, str | Path):
        table = read_table(data)
    else:
        table = table_of_frame(data, "data frame")
    targets = (target,) if isinstance(target, str) else tuple(target)
    dropped = (drop,) if isinstance(drop, str) else tuple(drop)
    for name in (*targets, *filter(None, [task]), *dropped):
        table.column(name)
    found = findings(table, targets or tuple(table.default_targets), task, dropped)
    columns = [field.name for field in fields(TableFinding)]
    return pd.DataFrame([asdict(finding) for finding in found], columns=columns)


def findings(
    table: Table, targets: Sequence[str], task: str | None, drop: Sequence[str] = ()
) -> list[TableFinding]:
    """Return what may be wrong in a table, alarms first; see `check_table`."""
    if table.sparse is not None:
        return []
    frame = table.frame.drop(columns=[n for n in drop if n in table.frame.columns])
    tasks = None
    if task is not None:
        tasks = Names.of(table.column(task))
    look = _Look(table, frame, tuple(targets), task, tasks)
    found = [
        *look.far_cells(),
        *look.alike_names(),
        *look.other_units(),
        *look.target_columns(),
        *look.repeated_rows(),
        *look.useless_columns(),
        *look.tasks_of_one_row(),
    ]
    return sorted(found, key=lambda finding: not finding.is_alarm)


@dataclass(frozen=True)
class _Look:
    """A table with the roles of its columns.

    Attributes
    ----------
    table : Table
    frame : DataFrame
        Its columns without those that are dropped.
    targets : tuple of str
    task : str or None
        Column of tasks.
    tasks : Names or None
        Task of each row.
    """

    table: Table
    frame: pd.DataFrame
    targets: tuple[str, ...]
    task: str | None
    tasks: Names | None

    @cached_property
    def numbering(self) -> set[str]:
        """Names of the columns that number the rows."""
        return {str(n) for n, column in self.frame.items() if is_numbering(column)}

    def numbers(self) -> Iterator[tuple[str, Array]]:
        """Yield the columns of numbers that are no tasks, NaN where a cell is empty."""
        for name, column in self.frame.items():
            if name == self.task or is_bool_dtype(column):
                continue
            if is_numeric_dtype(column) and name not in self.numbering:
                yield str(name), column.to_numpy(dtype=float, na_value=np.nan)

    def without_numbering(self) -> pd.DataFrame:
        """Return the columns that do not number the rows."""
        return self.frame.drop(columns=[*self.numbering.difference(self.targets)])

    def task_of(self, row: int) -> str:
        """Return the task of a row, empty if it has none."""
        if self.tasks is None or self.tasks.codes[row] < 0:
            return ""
        return self.tasks.names[self.tasks.codes[row]]

    def far_cells(self) -> Iterator[TableFinding]:
        """Find numbers that are far from all others, or from those of their task."""
        for name, values in self.numbers():
            far = _far(values, is_centered=False)
            within = np.zeros(0, dtype=np.int64)
            if self.tasks is not None and not len(far):
                groups = pd.Series(values).groupby(self.tasks.codes)
                medians = groups.transform("median")
                # NaN for tasks of few rows, and for rows without a task.
                medians = medians.where(groups.transform("count") >= MIN_ROWS)
                within = _far(values - medians.to_numpy(), is_centered=True)
            effect = "it pulls slopes and pooled models"
            if name in self.targets:
                effect = "its error outweighs those of the other rows"
            others = np.delete(values, [*far, *within])
            for row in (*far, *within):
                task = self.task_of(row)
                least = np.nanmin(others)
                most = np.nanmax(others)
                compared = f"all others ({least:.6g} to {most:.6g})"
                if len(within):
                    compared = f"the others of task {task!r}"
                yield TableFinding(
                    kind="far cell",
                    column=name,
                    place=self.table.where(int(row)),
                    task=task,
                    text=(
                        f"{values[row]:.10g} in column {name!r} "
                        f"({self.table.where(int(row))}) is far from {compared}"
                    ),
                    effect=effect,
                )

    def alike_names(self) -> Iterator[TableFinding]:
        """Find tasks and categories that are probably the same, written differently."""
        for name, column in self.frame.items():
            is_task = name == self.task
            if is_numeric_dtype(column) or name in self.targets:
                continue
            names = Names.of(column).names
            for alike in alike_names(names):
                is_of = "tasks" if is_task else "categories"
                yield TableFinding(
                    kind="alike names",
                    column=str(name),
                    task=alike[0] if is_task else "",
                    text=(
                        f"{listed([repr(text) for text in alike], SHOWN)} in column "
                        f"{str(name)!r} are different {is_of}"
                    ),
                    effect="if they are the same, its rows are split",
                )

    def other_units(self) -> Iterator[TableFinding]:
        """Find tasks whose numbers are 10, 100 or 1000 times those of the others."""
        if self.tasks is None:
            return
        for name, values in self.numbers():
            groups = pd.Series(values).groupby(self.tasks.codes)
            medians = groups.median()[groups.count() >= MIN_ROWS]
            medians = medians[medians.index >= 0]
            if len(medians) < MIN_TASKS or not (medians > 0).all():
                continue
            logs = np.log(medians)
            distance = logs - logs.median()
            spread = 1.4826 * distance.abs().median()
            if spread > np.log(UNIT_SPREAD):
                continue
            for unit in UNITS:
                is_near = (distance.abs() - np.log(unit)).abs() < np.log(UNIT_TOLERANCE)
                if not 0 < is_near.sum() <= len(medians) / 5:
                    continue
                tasks = [self.tasks.names[code] for code in medians.index[is_near]]
                yield TableFinding(
                    kind="other unit",
                    column=name,
                    task=tasks[0],
                    text=(
                        f"the median of column {name!r} in {counted(len(tasks), 'task')} "
                        f"({listed(tasks, SHOWN)}) is about {unit:g} times larger or "
                        "smaller than in the other tasks"
                    ),
                    effect="with another unit, these tasks cannot share coefficients",
                )

    def target_columns(self) -> Iterator[TableFinding]:
        """Find columns that determine a target."""
        # Rows that repeat would determine it by any of their numbers.
        rows = self.without_numbering().drop_duplicates()
        for target in self.targets:
            if target not in self.frame.columns:
                continue
            y = rows[target]
            for name, column in rows.items():
                if name in self.targets or name == self.task:
                    continue
                if _determines(column, y):
                    yield TableFinding(
                        kind="gives target away",
                        column=str(name),
                        text=f"column {str(name)!r} determines the target {target!r}",
                        effect=f"all methods predict it perfectly; --drop {name}",
                    )

    def repeated_rows(self) -> Iterator[TableFinding]:
        """Find rows that occur several times."""
        rows = self.without_numbering()
        if rows.shape[1] < 2:
            return
        is_repeated = rows.duplicated().to_numpy()
        if not is_repeated.any():
            return
        row = int(np.argmax(is_repeated))
        # Rows of a few categories repeat by chance.
        is_fine = any(
            is_numeric_dtype(rows[name]) and rows[name].nunique() > len(rows) / 3
            for name in self.targets
            if name in rows.columns
        )
        share = is_repeated.mean()
        yield TableFinding(
            kind="repeated rows",
            column="",
            place=self.table.where(row),
            task=self.task_of(row),
            text=(
                f"{counted(int(is_repeated.sum()), 'row')} of {len(rows):,} repeat an "
                f"earlier one, the first in {self.table.where(row)}"
            ),
            effect="training and test parts share rows, and errors are too small",
            is_alarm=bool(is_fine and share >= MANY_REPEATED),
        )

    def useless_columns(self) -> Iterator[TableFinding]:
        """Find constant columns, equal ones, and numbers of rows."""
        first_of: dict[int, list[str]] = defaultdict(list)
        for name, column in self.frame.items():
            if name in self.targets or name == self.task:
                continue
            if column.nunique(dropna=False) == 1:
                yield _about_column(
                    "constant column", str(name), "has one value", "it predicts nothing"
                )
                continue
            if name in self.numbering:
                yield _about_column(
                    "row numbers", str(name), "numbers the rows", "it is no feature"
                )
                continue
            if is_numeric_dtype(column):
                values = column.to_numpy(dtype=float, na_value=np.nan)
            else:
                values, _ = pd.factorize(column)
            first_of[hash(values.tobytes())].append(str(name))
        for names in first_of.values():
            if len(names) > 1:
                yield _about_column(
                    "equal columns",
                    names[0],
                    f"says the same as {listed(names[1:], SHOWN)}",
                    "their coefficients cannot be told apart",
                )

    def tasks_of_one_row(self) -> Iterator[TableFinding]:
        """Find tasks that have a single row."""
        if self.tasks is None:
            return
        codes = self.tasks.codes
        counts = np.bincount(codes[codes >= 0], minlength=len(self.tasks.names))
        single = [
            name for name, n in zip(self.tasks.names, counts, strict=True) if n == 1
        ]
        if single:
            yield TableFinding(
                kind="task of one row",
                column=str(self.task),
                task=single[0],
                text=f"{counted(len(single), 'task')} of one row: {listed(single, SHOWN)}",
                effect="when the row is tested, the task is unknown",
                is_alarm=False,
            )


def _about_column(kind: str, column: str, what: str, effect: str) -> TableFinding:
    text = f"column {column!r} {what}"
    return TableFinding(
        kind=kind, column=column, text=text, effect=effect, is_alarm=False
    )


def _far(values: Array, *, is_centered: bool) -> Array:
    """Return the rows whose values are far from all others.

    Parameters
    ----------
    values : ndarray of shape (n,)
        NaN where a cell is empty.
    is_centered : bool
        Whether these are differences from the medians of tasks, which have no logarithms.
    """
    rows = np.flatnonzero(np.isfinite(values))
    x = values[rows]
    if len(x) < MIN_NUMBERS or np.ptp(x) == 0:
        return rows[:0]
    from_median = _deviations(x)
    far = _beyond(from_median, FAR, GAP)
    if is_centered or x.min() <= 0:
        return rows[far]
    from_median_of_log = _deviations(np.log(x))
    far = far[from_median_of_log[far] > FAR_OF_LOG]
    far_of_log = _beyond(from_median_of_log, FAR, GAP_OF_LOG)
    far_of_log = far_of_log[from_median[far_of_log] > FAR_BELOW]
    return rows[np.union1d(far, far_of_log)]


def _deviations(x: Array) -> Array:
    """Return absolute deviations from the median in standard deviations.

    Zeros if the standard deviation is estimated as zero.
    """
    deviations = np.abs(x - np.median(x))
    scale = 1.4826 * np.median(deviations)
    if scale == 0:
        # More than half of the numbers are equal.
        scale = np.quantile(deviations, 0.9) / 1.645
    if scale == 0:
        return np.zeros_like(x)
    return deviations / scale


def _beyond(deviations: Array, far: float, gap: float) -> Array:
    """Return the positions of the few deviations beyond a gap."""
    n_most = min(MAX_FAR, max(1, int(MAX_FAR_SHARE * len(deviations))))
    order = np.argsort(-deviations, kind="stable")
    largest = deviations[order[: n_most + 1]]
    is_gap = (largest[:-1] > far) & (largest[:-1] > gap * largest[1:])
    if not is_gap.any():
        return order[:0]
    return order[: int(np.flatnonzero(is_gap)[-1]) + 1]


def _determines(column: pd.Series, y: pd.Series) -> bool:
    """Whether a column determines a target, except for empty cells.

    Numbers do by a straight line; words and few numbers do if each of at most half as
    many values as rows goes with one value of the target.
    """
    both = column.notna() & y.notna()
    x = column[both]
    y = y[both]
    if len(y) < MIN_NUMBERS or y.nunique() < 2 or x.nunique() < 2:
        return False
    are_numbers = is_numeric_dtype(x) and is_numeric_dtype(y)
    if are_numbers and not is_bool_dtype(x) and not is_bool_dtype(y):
        correlation = np.corrcoef(x.to_numpy(dtype=float), y.to_numpy(dtype=float))
        if 1 - correlation[0, 1] ** 2 < UNEXPLAINED:
            return True
    if x.nunique() > len(x) / 2:
        return False
    return bool((y.groupby(x.to_numpy()).nunique() == 1).all())
