"""A look at a table before anything is fitted.

`check_table` lists what may be wrong in a table: cells that are far from all others,
names that are written in several ways, columns that give the target away. It states
what was found and what that does to an answer, and changes nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy import linalg, sparse

from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.names import Names, alike_names
from mtlrun.data.reading.odd_columns import is_numbering
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import (
    TARGET,
    TASK,
    Table,
    default_names,
    table_of_frame,
)
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.weights import drop_unweighted_rows
from mtlrun.data.times import DATE, TimeSchema, holds_dates
from mtlrun.errors import DataError, counted, listed, with_arguments

Array = np.ndarray

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
#: less than a factor of `UNIT_SPREAD` (a standard deviation of logarithms), and the next
#: task is nearer by a factor of `UNIT_GAP` on the scale of logarithms.
UNITS = (10.0, 100.0, 1000.0)
UNIT_TOLERANCE = 1.5
UNIT_SPREAD = 1.4
UNIT_GAP = 1.5
MIN_TASKS = 4
MIN_ROWS = 3
#: Share of repeated rows from which on folds share rows.
MANY_REPEATED = 0.2
#: A column determines the target if all but this share of the variance is explained.
UNEXPLAINED = 1e-9
#: Columns that are sums of others are looked for among this many columns, in this many
#: rows. Columns with a smaller weight, of columns of variance 1, are no part of a sum.
MAX_SUMMED = 200
SUM_ROWS = 2000
MIN_WEIGHT = 1e-3
#: Rows that share their value of such a column and have a rare target.
MIN_SHARED = 5
#: Names of columns of numbers that are times.
_TIME_NAME = re.compile(
    r"(?i)(.*[^a-z])?(time|date|day|week|month|year|hour|minute|visit|wave|age"
    r"|session|occasion)s?([^a-z].*)?"
)
#: A table is sorted by time if its tasks have at least this many steps forward, and at
#: most one step back or this share of them.
MIN_STEPS = 10
MAX_STEPS_BACK = 0.02
#: Names in a sentence.
SHOWN = 5
#: Findings that are printed before a fit.
MAX_ALARMS = 3


@dataclass(frozen=True, kw_only=True)
class TableFinding:
    """Something in a table that may be wrong.

    Attributes
    ----------
    kind : str
        ``far cell``, ``alike names``, ``other unit``, ``gives target away``,
        ``repeated rows``, ``time runs backwards``, ``constant column``,
        ``equal columns``, ``sum of columns``, ``row numbers``, ``empty task`` or
        ``task of one row``.
    column : str
        Empty if it is about rows.
    location : str
        Row as ``file:line``, empty if it is about a column.
    task : str
    text : str
        What was found.
    effect : str
        What it does to an answer.
    is_alarm : bool
        Whether it can change the advice of a comparison. Only these findings are printed
        before a comparison.
    rows : tuple of int
        Positions of the rows that ``drop_rows`` leaves out.
    nearest : float or None
        What ``clip`` writes into a far cell: the nearest of the other numbers.
    """

    kind: str
    column: str
    location: str = ""
    task: str = ""
    text: str
    effect: str
    is_alarm: bool = True
    rows: tuple[int, ...] = ()
    nearest: float | None = None

    @property
    def sentence(self) -> str:
        """The finding and its effect, for messages."""
        return f"{self.text}: {self.effect}"


@with_arguments
def check_table(
    data: Any,
    *,
    target: str | Sequence[str] = (),
    task: str | None = None,
    time: str | None = None,
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
    time : str, optional
        Column of a number or a date. Without it, columns of dates, and columns of numbers
        with a name such as ``day``, are times.
    drop : str or sequence of str, optional
        Columns that are not looked at.

    Returns
    -------
    DataFrame
        A row per finding, alarms first, with the first attributes of `TableFinding` as
        columns: ``kind`` to ``is_alarm``.
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
    roles = Roles(targets=target, task=task, time=time, drop=drop)
    for name in (*roles.targets, *filter(None, [task, time]), *roles.drop):
        table.column(name)
    table_findings = findings(table, roles)
    columns = [field.name for field in fields(TableFinding)][:-2]
    return pd.DataFrame(
        [asdict(finding) for finding in table_findings], columns=columns
    )


def findings(table: Table, roles: Roles) -> list[TableFinding]:
    """Return what may be wrong in a table, alarms first; see `check_table`.

    Rows of weight 0 are not looked at, and what `roles` change is not found any more.
    """
    n_rows = len(table.frame)
    if roles.weight:
        table, n_rows, _ = drop_unweighted_rows(table, roles.weight, n_rows, roles.task)
    table, _, _ = tidy(table, n_rows, roles)
    return _findings(table, roles)


def tidy(table: Table, n_train: int, roles: Roles) -> tuple[Table, int, list[str]]:
    """Return a table without what ``drop_rows`` and ``clip`` change, if they are set.

    Parameters
    ----------
    table : Table
        Without rows of weight 0.
    n_train : int
        Number of training rows, which come first. Test rows are left as they are.
    roles : Roles

    Returns
    -------
    table : Table
    n_train : int
    edits : list of str
        Sentences about what was changed.
    """
    if not roles.drop_rows and not roles.clip:
        return table, n_train, []
    train = table.taken(np.arange(n_train))
    edits = []
    if roles.drop_rows:
        alarms = [finding for finding in _findings(train, roles) if finding.is_alarm]
        dropped = sorted({row for finding in alarms for row in finding.rows})
        places = listed([table.where(row) for row in dropped], SHOWN)
        text = f"--drop-rows: {counted(len(dropped), 'row')} dropped"
        if dropped:
            text += f" ({places})"
        edits.append(text)
        table = table.taken(np.setdiff1d(np.arange(len(table.frame)), dropped))
        n_train -= len(dropped)
        train = table.taken(np.arange(n_train))
    if roles.clip:
        frame = table.frame.copy()
        texts = []
        for finding in _findings(train, roles):
            if finding.nearest is not None:
                column = frame[finding.column].astype(float)
                before = column.iloc[finding.rows[0]]
                column.iloc[finding.rows[0]] = finding.nearest
                frame[finding.column] = column
                texts.append(
                    f"{before:.10g} to {finding.nearest:.10g} in column "
                    f"{finding.column!r} ({finding.location})"
                )
        text = f"--clip: {counted(len(texts), 'cell')} clipped"
        if texts:
            text += f": {listed(texts, SHOWN)}"
        edits.append(text)
        table = replace(table, frame=frame)
    return table, n_train, edits


def _findings(table: Table, roles: Roles) -> list[TableFinding]:
    """Return what may be wrong in rows of positive weight."""
    if table.sparse is not None:
        return []
    dropped = [name for name in roles.drop if name in table.frame.columns]
    task = roles.task
    if not task and not roles.targets:
        task = table.default_task
    tasks = None
    if task is not None:
        tasks = Names.of(table.column(task))
    look = _Look(
        table,
        table.frame.drop(columns=dropped),
        tuple(roles.targets or table.default_targets),
        task,
        tasks,
        roles.time or roles.since_first,
    )
    table_findings = [
        *look.far_cells(),
        *look.alike_names(),
        *look.other_units(),
        *look.target_columns(),
        *look.sums(),
        *look.repeated_rows(),
        *look.backward_times(),
        *look.useless_columns(),
        *look.rows_without_task(),
        *look.tasks_of_one_row(),
    ]
    return sorted(table_findings, key=lambda finding: not finding.is_alarm)


def dataset_findings(dataset: Dataset) -> list[TableFinding]:
    """Return what may be wrong in a data set, whose rows are counted from 1.

    Empty for sparse features and strings.
    """
    if sparse.issparse(dataset.X) or dataset.strings:
        return []
    features = dataset.features or default_names(dataset.n_features, dataset.id)
    columns = dict(zip(features, dataset.X.T, strict=True))
    for name, words in dataset.categories.items():
        codes = np.nan_to_num(columns[name], nan=-1).astype(np.int64)
        columns[name] = pd.Categorical.from_codes(codes, words).astype(object)
    names = [f"{TARGET} {name}" for name in dataset.tasks]
    if dataset.y.ndim == 1:
        names = [TARGET]
    columns |= dict(zip(names, np.atleast_2d(dataset.y.T), strict=True))
    task = None
    if dataset.task_id is not None:
        task = TASK
        columns[task] = np.asarray(dataset.tasks, dtype=object)[dataset.task_id]
    table = Table(f"data set {dataset.id}", pd.DataFrame(columns))
    return findings(table, Roles(targets=names, task=task))


def alarm_lines(table_findings: Sequence[TableFinding]) -> list[str]:
    """Return lines about the findings that can change an answer."""
    alarms = [finding for finding in table_findings if finding.is_alarm]
    lines = [f"look at the table: {alarm.sentence}" for alarm in alarms[:MAX_ALARMS]]
    if len(alarms) > MAX_ALARMS:
        n_more = counted(len(alarms) - MAX_ALARMS, "more finding")
        lines.append(f"look at the table: {n_more}; mtlrun data check TABLE lists all")
    return lines


@dataclass(frozen=True)
class _TimeColumn:
    """Times of all rows.

    Attributes
    ----------
    values : ndarray of shape (n,)
        NaN where a cell is empty.
    are_dates : bool
        Whether they count the days since 1970.
    """

    values: Array
    are_dates: bool


@dataclass(frozen=True)
class _Look:
    """A table with the roles of its columns.

    Attributes
    ----------
    table : Table
    frame : DataFrame
        Its columns, without dropped ones.
    targets : tuple of str
    task : str or None
        Column of tasks.
    tasks : Names or None
        Task of each row.
    time : str or None
        Column of times.
    """

    table: Table
    frame: pd.DataFrame
    targets: tuple[str, ...]
    task: str | None
    tasks: Names | None
    time: str | None

    @cached_property
    def numbering(self) -> set[str]:
        """Names of the columns that number the rows."""
        return {str(n) for n, column in self.frame.items() if is_numbering(column)}

    def numbers(self) -> Iterator[tuple[str, Array]]:
        """Yield the columns of numbers except tasks, NaN where a cell is empty."""
        for name, column in self.frame.items():
            if name == self.task or is_bool_dtype(column):
                continue
            if is_numeric_dtype(column) and name not in self.numbering:
                yield str(name), column.to_numpy(dtype=float, na_value=np.nan)

    @cached_property
    def times(self) -> dict[str, _TimeColumn]:
        """Columns of times: a named one, dates, and names such as ``day``."""
        times = {}
        for name, column in self.frame.items():
            if name in self.targets or name == self.task or is_bool_dtype(column):
                continue
            cells = column.dropna()
            is_time = name == self.time
            if is_numeric_dtype(column):
                is_time |= _TIME_NAME.fullmatch(str(name)) is not None
            elif not is_time:
                # Most columns of words show in their first cells that they are none.
                is_time = holds_dates(cells.iloc[:MIN_NUMBERS]) and holds_dates(cells)
            if not is_time or not len(cells):
                continue
            try:
                schema = TimeSchema.of(cells, self.table)
                read = schema.read(cells, self.table)
            except DataError:
                # Only a time that is used has to be readable, and is refused there.
                continue
            values = np.full(len(column), np.nan)
            values[column.notna().to_numpy()] = read
            times[str(name)] = _TimeColumn(values, schema.kind == DATE)
        return times

    def without_numbering(self) -> pd.DataFrame:
        """Return the columns that do not number the rows."""
        return self.frame.drop(columns=[*self.numbering.difference(self.targets)])

    def task_of(self, row: int) -> str:
        """Return the task of a row, empty if it has none."""
        if self.tasks is None or self.tasks.codes[row] < 0:
            return ""
        return self.tasks.names[self.tasks.codes[row]]

    def far_cells(self) -> Iterator[TableFinding]:
        """Find numbers and dates far from all others, or from the others of their task."""
        columns = dict(self.numbers())
        for name, times in self.times.items():
            if times.are_dates:
                columns[name] = times.values
        for name, values in columns.items():
            are_dates = name in self.times and self.times[name].are_dates
            far = _far(values, has_logs=not are_dates)
            within = np.zeros(0, dtype=np.int64)
            if self.tasks is not None and not len(far):
                groups = pd.Series(values).groupby(self.tasks.codes)
                medians = groups.transform("median")
                # NaN for tasks of few rows, and for rows without a task.
                medians = medians.where(groups.transform("count") >= MIN_ROWS)
                within = _far(values - medians.to_numpy(), has_logs=False)
            effect = (
                "it pulls slopes and pooled models, and the interval of the gain widens"
            )
            if name in self.targets:
                effect = (
                    "its error outweighs those of the other rows, and the interval of "
                    "the gain widens"
                )
            others = values.copy()
            others[[*far, *within]] = np.nan
            for row in (*far, *within):
                task = self.task_of(row)
                smallest = self.shown(name, int(np.nanargmin(others)), others)
                largest = self.shown(name, int(np.nanargmax(others)), others)
                compared = f"all others ({smallest} to {largest})"
                neighbors = others
                if self.tasks is not None and len(within):
                    compared = f"the others of task {task!r}"
                    neighbors = others[self.tasks.codes == self.tasks.codes[row]]
                nearest = None
                if not are_dates:
                    ends = np.nanmin(neighbors), np.nanmax(neighbors)
                    nearest = float(np.clip(values[row], *ends))
                yield TableFinding(
                    kind="far cell",
                    column=name,
                    location=self.table.where(int(row)),
                    task=task,
                    text=(
                        f"{self.shown(name, row, values)} in column {name!r} "
                        f"({self.table.where(int(row))}) is far from {compared}"
                    ),
                    effect=effect,
                    rows=(int(row),),
                    nearest=nearest,
                )

    def shown(self, name: str, row: int, values: Array) -> str:
        """Return a number or a date of a column as text."""
        if name in self.times and self.times[name].are_dates:
            return str(np.datetime64(int(values[row]), "D"))
        return f"{values[row]:.10g}"

    def backward_times(self) -> Iterator[TableFinding]:
        """Find rows of a sorted table that stand behind a later row of their task."""
        codes = np.zeros(len(self.frame), dtype=np.int64)
        if self.tasks is not None:
            codes = self.tasks.codes
        for name, times in self.times.items():
            rows = np.flatnonzero(np.isfinite(times.values) & (codes >= 0))
            # Rows of a task, in the order of the table.
            rows = rows[np.argsort(codes[rows], kind="stable")]
            is_step = np.diff(codes[rows]) == 0
            steps = np.where(is_step, np.diff(times.values[rows]), 0)
            back = np.flatnonzero(steps < 0)
            n_forward = np.count_nonzero(steps > 0)
            n_allowed = max(1, MAX_STEPS_BACK * n_forward)
            if n_forward < MIN_STEPS or not 0 < len(back) <= n_allowed:
                continue
            before, row = rows[back[0] : back[0] + 2]
            text = f"column {name!r} runs backwards"
            if self.tasks is not None:
                text += f" in task {self.task_of(row)!r}"
            text += (
                f": {self.shown(name, before, times.values)} "
                f"({self.table.where(int(before))}) stands before "
                f"{self.shown(name, row, times.values)} ({self.table.where(int(row))})"
            )
            if len(back) > 1:
                text += f", and in {counted(len(back) - 1, 'other row')}"
            yield TableFinding(
                kind="time runs backwards",
                column=name,
                location=self.table.where(int(row)),
                task=self.task_of(row),
                text=text,
                effect=(
                    "with a mistyped time, later rows train the model that is tested "
                    "on earlier ones"
                ),
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
                    effect=(
                        "if they are the same, it has fewer rows than it could, and "
                        "sharing seems to gain more"
                    ),
                )

    def other_units(self) -> Iterator[TableFinding]:
        """Find tasks whose numbers are 10, 100 or 1000 times larger than elsewhere."""
        if self.tasks is None:
            return
        for name, values in self.numbers():
            groups = pd.Series(values).groupby(self.tasks.codes)
            medians = groups.median()[groups.count() >= MIN_ROWS]
            medians = medians[medians.index >= 0]
            if len(medians) < MIN_TASKS or not (medians > 0).all():
                continue
            logs = np.log(medians)
            distance = (logs - logs.median()).abs()
            spread = 1.4826 * distance.median()
            if spread > np.log(UNIT_SPREAD):
                continue
            tolerance = np.log(UNIT_TOLERANCE)
            next_task = distance[distance < np.log(UNITS[0]) - tolerance].max()
            for unit in UNITS:
                is_near = (distance - np.log(unit)).abs() < tolerance
                if not 0 < is_near.sum() <= len(medians) / 5:
                    continue
                if distance[is_near].min() < UNIT_GAP * next_task:
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
                    effect=(
                        "in another unit, these tasks share no coefficients, and sharing "
                        "seems to gain less"
                    ),
                )

    def target_columns(self) -> Iterator[TableFinding]:
        """Find columns that determine a target."""
        # Rows that repeat would determine it by any of their numbers.
        rows = self.without_numbering().drop_duplicates()
        others = [name for name in rows if name not in {*self.targets, self.task}]
        for target in self.targets:
            for name in others:
                if target in rows and _determines(rows[name], rows[target]):
                    yield TableFinding(
                        kind="gives target away",
                        column=name,
                        text=f"column {name!r} determines the target {target!r}",
                        effect=(
                            "all methods predict it perfectly, and none gains; --drop "
                            f"{name}"
                        ),
                    )

    def sums(self) -> Iterator[TableFinding]:
        """Find targets and columns that are weighted sums of several columns."""
        columns = dict(self.numbers())
        if len(columns) < 2:
            return
        is_filled = np.ones(len(self.frame), dtype=bool)
        for values in columns.values():
            is_filled &= np.isfinite(values)
        rows = np.flatnonzero(is_filled)
        n_rows = min(len(rows), SUM_ROWS)
        chosen = rows[np.linspace(0, len(rows) - 1, n_rows).astype(int)]
        varying = {}
        for name, values in columns.items():
            cells = values[chosen]
            if (cells != cells[:1]).any():
                varying[name] = cells
        sample = pd.DataFrame(varying)
        targets = [name for name in self.targets if name in varying]
        names = [name for name in varying if name not in targets]
        too_few_rows = n_rows < MIN_NUMBERS + 2 * len(names)
        if too_few_rows or not 2 <= len(names) <= MAX_SUMMED:
            return
        standardized = (sample - sample.mean()) / sample.std()
        Q, R, order = linalg.qr(standardized[names], mode="economic", pivoting=True)
        is_free = np.abs(np.diag(R)) > np.sqrt(UNEXPLAINED * n_rows)
        rank = np.count_nonzero(is_free)
        products = {names[order[j]]: R[:rank, j] for j in range(rank, len(names))}
        for name in targets:
            products[name] = Q[:, :rank].T @ standardized[name]
        for name, product in products.items():
            weights = np.zeros(len(names))
            weights[order[:rank]] = linalg.solve_triangular(R[:rank, :rank], product)
            weights[np.abs(weights) < MIN_WEIGHT] = 0
            error = standardized[name] - standardized[names] @ weights
            summed = [names[k] for k in np.flatnonzero(weights)]
            # One other column: equal columns, or a column that determines the target.
            if len(summed) < 2 or (error**2).mean() > UNEXPLAINED:
                continue
            subject = f"column {name!r}"
            effect = "their coefficients cannot be told apart"
            if name in targets:
                subject = f"the target {name!r}"
                effect = (
                    "all methods predict it perfectly, and none gains; --drop "
                    f"{summed[0]}"
                )
            yield TableFinding(
                kind="sum of columns",
                column=name,
                text=f"{subject} is a weighted sum of {listed(summed, SHOWN)}",
                effect=effect,
                is_alarm=name in targets,
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
            location=self.table.where(row),
            task=self.task_of(row),
            text=(
                f"{counted(int(is_repeated.sum()), 'row')} of {len(rows):,} repeat an "
                f"earlier one, the first in {self.table.where(row)}"
            ),
            effect=(
                "training and test parts share rows: errors are too small, and the "
                "model that learns rows by heart seems best"
            ),
            is_alarm=bool(is_fine and share >= MANY_REPEATED),
            rows=tuple(np.flatnonzero(is_repeated).tolist()),
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

    def rows_without_task(self) -> Iterator[TableFinding]:
        """Find rows whose task is empty."""
        if self.tasks is None:
            return
        rows = np.flatnonzero(self.tasks.codes < 0)
        if len(rows):
            location = self.table.where(int(rows[0]))
            yield TableFinding(
                kind="empty task",
                column=str(self.task),
                location=location,
                text=f"{counted(len(rows), 'row')} without a task, the first in {location}",
                effect="fill in the cell or delete the row: every row needs its task",
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


def _about_column(kind: str, column: str, fact: str, effect: str) -> TableFinding:
    text = f"column {column!r} {fact}"
    return TableFinding(
        kind=kind, column=column, text=text, effect=effect, is_alarm=False
    )


def _far(values: Array, *, has_logs: bool) -> Array:
    """Return the rows whose values are far from all others.

    Parameters
    ----------
    values : ndarray of shape (n,)
        NaN where a cell is empty.
    has_logs : bool
        Whether positive numbers are also compared on the scale of logarithms. Dates, and
        differences from the medians of tasks, are not.
    """
    rows = np.flatnonzero(np.isfinite(values))
    x = values[rows]
    if len(x) < MIN_NUMBERS or np.ptp(x) == 0:
        return rows[:0]
    from_median = _deviations(x)
    far = _beyond(from_median, FAR, GAP)
    if not has_logs or x.min() <= 0:
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
    many values as rows goes with one value of the target. A value of one row shows
    nothing, so most rows must share theirs with others, also those without the most
    frequent target.
    """
    both = column.notna() & y.notna()
    x = column[both]
    y = y[both]
    # Arrays: this is done for each pair of a column and a target.
    x_codes, x_values = pd.factorize(x)
    y_codes, y_values = pd.factorize(y)
    if len(y) < MIN_NUMBERS or min(len(x_values), len(y_values)) < 2:
        return False
    if all(is_numeric_dtype(z) and not is_bool_dtype(z) for z in (x, y)):
        correlation = np.corrcoef(x.to_numpy(dtype=float), y.to_numpy(dtype=float))
        if 1 - correlation[0, 1] ** 2 < UNEXPLAINED:
            return True
    pairs = np.unique(x_codes * len(y_values) + y_codes)
    if not len(pairs) <= len(x_values) <= len(x) / 2:
        return False
    is_rare = y != y.mode()[0]
    n_shared = np.count_nonzero(is_rare & (np.bincount(x_codes)[x_codes] > 1))
    return not n_shared < max(MIN_SHARED, is_rare.sum() / 2)
