"""The object that every reader and simulator returns, and the range of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mtlrun.errors import DataError
from mtlrun.utils.sizes import LARGEST, LARGEST_X, LARGEST_Y, SMALLEST, SMALLEST_FITTED

Array = np.ndarray

if TYPE_CHECKING:
    from mtlrun.data.clock import Clock
    from mtlrun.problem.taskdata import TaskData

TASK_TYPES = ("binary", "regression", "multiclass")
#: Key of `Dataset.source`: time of each row since the first row of its task.
ELAPSED = "elapsed"


def signs(labels: Array, name: str) -> Array:
    """Return binary labels, 0/1 or -1/+1, as -1/+1 float64; NaN stays.

    Raises
    ------
    DataError
        For other labels; starts with `name`.
    """
    values = np.asarray(labels, dtype=np.float64)
    is_missing = np.isnan(values)
    values_present = set(np.unique(values[~is_missing]).tolist())
    if not (values_present <= {0, 1} or values_present <= {-1, 1}):
        examples = ", ".join(f"{v:g}" for v in sorted(values_present)[:5])
        raise DataError(
            f"{name}: binary labels must be 0/1 or -1/+1, found {examples}",
            "Recode them first.",
        )
    coded = np.where(values > 0, 1.0, -1.0)
    return np.where(is_missing, np.nan, coded)


def check_sizes(**sizes: Any) -> None:
    """Refuse options that are not integers of at least 1.

    Raises
    ------
    DataError
        Naming the option and its value.
    """
    for name, value in sizes.items():
        # A boolean is an integer for Python.
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_integer or value < 1:
            raise DataError(f"{name} must be an integer of at least 1, not {value!r}")


@dataclass
class Dataset:
    """A data set: the arguments of an estimator's ``fit``, with names and origin.

    A *ragged* set has 1-D `y` and a `task_id` per row; a *shared* set has one X for all
    tasks, 2-D `y` (one column per task, NaN where a target is missing) and no
    `task_id`. A multi-class set has 1-D `y` of class numbers 0..k-1.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, d), or ndarray of shape (n,) and dtype S<d>
        Features, float64; string sets hold byte strings of d letters each.
    y : ndarray of shape (n,) or (n, n_tasks)
        Targets, float64; -1/+1 for binary tasks (0/1 if `load_dataset` got that
        option). Class numbers (int64) for multi-class sets.
    task_type : {"binary", "regression", "multiclass"}
    task_id : ndarray of shape (n,) or None
        Index into `tasks` (0..T-1) of each row of a ragged set.
    tasks : list of str
        Names of the tasks (of the classes, in a multi-class set); ``task 0`` ... when
        not given.
    features : list of str
        Names of the columns of X; empty when they have none.
    id, title, simulated, fingerprint, notes : str, str, bool, str, str
        Filled in by ``load_dataset`` from the card.
    edits : list of str
        What ``drop_rows`` and ``clip`` changed in a table of a user.
    options : dict
        The reader's options that were used.
    truth : dict of str to ndarray
        Parameters of a simulator: ``W`` (d, T), ``outliers``, ``noise`` ... Empty for
        real data.
    splits : dict of str to list of (train, test)
        Published splits as pairs of row-index arrays.
    source : dict of str to ndarray
        For tasks made of classes: ``row`` and ``label`` of each row in the multi-class
        set. Rows of one source row are the same example and belong into the same part
        of a split. For tables of a user, as far as its roles say: ``weight`` of each
        row (positive, with mean 1 over the training rows), its ``group`` (stays on one
        side of a split) or its ``time`` (later rows are test rows).
    categories : dict of str to list of str
        Words of the features that hold words: X has the position of the word, NaN where
        the cell is empty. Numeric features of such sets may be NaN as well; both need a
        feature step.
    levels : dict of str to ndarray of int
        Further groups of a user's table: a column of names, as the position of the name
        of each row in `level_names`. They are not columns of X, see `with_levels`.
    level_names : dict of str to list of str
        Names of the groups of each column of `levels`.
    targets : list of str
        Columns of a user's table that hold the targets.
    labels : dict of str to list of str
        Meaning of the labels of a user's table, in its own words, by target of a shared
        design or by task of a ragged one. Two words mean -1 and +1. More are classes of
        which each has a task of its own, against the rest; where they are ragged tasks,
        `y` is 2-D, and NaN outside of the task of a row.
    label_types : dict of str to {"number", "bool", "text"}
        Of what type the labels of a target are in the table.
    clock : Clock or None
        When each task of a user's table begins, where a column of times has a role. The
        time of each row since then is ``source["elapsed"]``.

    Raises
    ------
    DataError
        If shapes, task ids or labels contradict each other.
    """

    X: Any
    y: Array
    task_type: str
    task_id: Array | None = None
    tasks: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    id: str = ""
    title: str = ""
    simulated: bool = False
    fingerprint: str = ""
    notes: str = ""
    edits: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    truth: dict[str, Any] = field(default_factory=dict)
    splits: dict[str, list[tuple[Array, Array]]] = field(default_factory=dict)
    source: dict[str, Array] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    levels: dict[str, Array] = field(default_factory=dict)
    level_names: dict[str, list[str]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)
    label_types: dict[str, str] = field(default_factory=dict)
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.task_type not in TASK_TYPES:
            types = ", ".join(TASK_TYPES)
            raise DataError(f"task_type must be one of {types}, not {self.task_type!r}")
        n_dimensions = 2
        if self.strings:
            n_dimensions = 1
        if self.X.ndim != n_dimensions or self.X.shape[0] != len(self.y):
            raise DataError(
                f"X of shape {self.X.shape} and y of shape {self.y.shape} do not "
                "belong together"
            )
        if not self.tasks:
            self.tasks = [f"task {t}" for t in range(self._count_tasks())]
        if self.task_id is None:
            expected = self._count_tasks()
            if self.task_type != "multiclass" and len(self.tasks) != expected:
                raise DataError(f"{len(self.tasks)} task names for {expected} tasks")
        elif self.y.ndim != 1 or self.task_id.shape != self.y.shape:
            raise DataError(
                f"task_id of shape {self.task_id.shape} needs y of the same 1-D shape, "
                f"not {self.y.shape}"
            )
        elif self.task_id.min() < 0 or self.task_id.max() >= len(self.tasks):
            id_range = f"{self.task_id.min()} to {self.task_id.max()}"
            raise DataError(
                f"task_id runs from {id_range}, tasks 0..{len(self.tasks) - 1}"
            )
        if self.features and len(self.features) != self.n_features:
            raise DataError(
                f"{len(self.features)} feature names for {self.n_features} columns"
            )
        if self.task_type == "binary":
            negative = -1.0
            if self.zero_one:
                negative = 0.0
            is_label = (self.y == 1) | (self.y == negative)
            if not (is_label | np.isnan(self.y)).all():
                raise DataError(
                    "binary labels must be -1/+1 or 0/1 throughout (NaN where missing)"
                )

    def _count_tasks(self) -> int:
        if self.task_id is not None:
            return int(np.max(self.task_id)) + 1
        if self.y.ndim == 2:
            return self.y.shape[1]
        if self.task_type == "multiclass":
            return int(np.max(self.y)) + 1
        return 1

    @property
    def zero_one(self) -> bool:
        """Whether binary labels are coded 0/1, not -1/+1."""
        return self.task_type == "binary" and bool((self.y == 0).any())

    @property
    def shared(self) -> bool:
        """Whether all tasks share one X."""
        return self.task_id is None

    @property
    def strings(self) -> bool:
        """Whether X holds byte strings, one per row."""
        return self.X.dtype.kind == "S"

    @property
    def n_samples(self) -> int:
        """Rows of X."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Columns of X; letters per row in a string set."""
        if self.strings:
            return int(self.X.dtype.itemsize)
        return int(self.X.shape[1])

    @property
    def n_tasks(self) -> int:
        """Number of tasks (classes of a multi-class set)."""
        return len(self.tasks)

    def subset(self, rows: Array) -> Dataset:
        """Return the data set of these rows, in this order.

        Published splits are dropped, tasks are kept.
        """
        if self.task_id is None:
            task_id = None
        else:
            task_id = self.task_id[rows]
        source = {name: values[rows] for name, values in self.source.items()}
        levels = {name: codes[rows] for name, codes in self.levels.items()}
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            task_id=task_id,
            source=source,
            levels=levels,
            splits={},
        )

    def with_levels(self) -> Dataset:
        """Return the data set with the columns of further groups as last columns of X.

        They are columns of words: X has the position of the name of each row.
        """
        if not self.levels or set(self.levels) <= set(self.features):
            return self
        codes = np.column_stack(list(self.levels.values())).astype(float)
        if sparse.issparse(self.X):
            X = sparse.hstack([self.X, codes], format="csr")
        else:
            X = np.column_stack([self.X, codes])
        return replace(
            self,
            X=X,
            features=[*self.features, *self.levels],
            categories={**self.categories, **self.level_names},
        )

    def with_elapsed(self) -> Dataset:
        """Return the data set with the time since the first row as last column of X.

        Raises
        ------
        DataError
            If the times can be ranked, but not counted.
        """
        if self.clock is None:
            return self
        self.clock.refuse_ambiguous()
        last_column = self.clock.last_column
        if self.features[-1:] == [last_column]:
            return self
        elapsed = self.source[ELAPSED][:, np.newaxis]
        if sparse.issparse(self.X):
            X = sparse.hstack([self.X, elapsed], format="csr")
        else:
            X = np.column_stack([self.X, elapsed])
        return replace(self, X=X, features=[*self.features, last_column])

    def sum_by_task(self, values: Array) -> Array:
        """Sum values of the shape of `y` over the rows of each task.

        A 1-D `y` without tasks is a single task.
        """
        if self.task_id is not None:
            return np.bincount(self.task_id, weights=values, minlength=self.n_tasks)
        return np.atleast_1d(values.sum(axis=0)).astype(float)

    def taskdata(self) -> TaskData:
        """Return the rows as `TaskData`, the container that solvers take.

        Raises
        ------
        DataError
            For a multi-class set: make one-vs-rest or one-vs-one tasks of it first.
        """
        from mtlrun.problem.taskdata import TaskData

        if self.task_type == "multiclass":
            raise DataError(
                f"{self.id or 'this set'} is multi-class: make tasks of its classes "
                "first"
            )
        if self.task_id is not None:
            return TaskData.from_stacked(self.X, self.y, self.task_id)
        if self.y.ndim == 2:
            Y = self.y
        else:
            Y = self.y[:, None]
        return TaskData.from_matrix(self.X, Y, tasks=self.tasks)

    def statistics(self) -> dict[str, int | float]:
        """Return the statistics that a card states and `data info` prints.

        Returns
        -------
        dict
            ``n`` rows, ``d`` features, ``tasks``, ``x_nnz`` non-zeros of X,
            ``x_density`` (not of strings). Binary: ``positives``; with a shared design
            also ``cardinality`` (labels per row), ``density`` (cardinality / tasks),
            ``labelsets`` (distinct label rows), ``unlabelled`` (rows without a label),
            ``label_min`` and ``label_max`` (positives of the rarest and of the most
            frequent label). Regression: ``y_mean``, ``y_var`` (pooled). Ragged:
            ``task_min`` and ``task_max`` rows per task. ``missing`` targets where there
            are any.
        """
        n = self.n_samples
        d = self.n_features
        statistics: dict[str, int | float] = {"n": n, "d": d, "tasks": self.n_tasks}
        if not self.strings:
            # Stored zeros of a sparse matrix do not count.
            if sparse.issparse(self.X):
                nnz = int(self.X.count_nonzero())
            else:
                nnz = int(np.count_nonzero(self.X))
            statistics.update(x_nnz=nnz, x_density=nnz / max(1, n * d))
        if self.task_type == "multiclass":
            counts = np.bincount(self.y.astype(np.int64), minlength=self.n_tasks)
            return {
                **statistics,
                "class_min": int(counts.min()),
                "class_max": int(counts.max()),
            }
        if self.task_id is not None:
            sizes = np.bincount(self.task_id, minlength=self.n_tasks)
            statistics.update(task_min=int(sizes.min()), task_max=int(sizes.max()))
        missing = np.isnan(self.y)
        if missing.any():
            statistics["missing"] = int(missing.sum())
        if self.task_type == "regression":
            targets = self.y[~missing]
            return {
                **statistics,
                "y_mean": float(targets.mean()),
                "y_var": float(targets.var()),
            }
        positive = self.y > 0
        statistics["positives"] = int(positive.sum())
        if positive.ndim == 2:
            per_row = positive.sum(axis=1)
            per_label = positive.sum(axis=0)
            # A set of bytes is much faster than `np.unique` of rows, and small when
            # packed.
            packed = np.packbits(positive, axis=1)
            labelsets = {row.tobytes() for row in packed}
            statistics.update(
                cardinality=float(per_row.mean()),
                density=float(positive.mean()),
                labelsets=len(labelsets),
                unlabelled=int((per_row == 0).sum()),
                label_min=int(per_label.min()),
                label_max=int(per_label.max()),
            )
        return statistics


# ---------------------------------------------------------- numbers that can be squared


def check_fitted(values: Any, name: str) -> None:
    """Refuse features or targets on whose scale no solver can calculate.

    Parameters
    ----------
    values : float ndarray or sparse matrix
        NaN is ignored.
    name : {"X", "y"}

    Raises
    ------
    ValueError
        With the largest absolute value and the remedy.
    """
    largest = _largest(values)
    limit = LARGEST_Y
    if name == "X":
        limit = LARGEST_X
    remedy = "Change its unit."
    if name == "X":
        remedy = "Scale it, for instance with sklearn.preprocessing.StandardScaler."
    if largest > limit:
        raise ValueError(
            f"{name} holds a number of absolute value {largest:.4g}; beyond {limit:g} "
            f"the solvers lose all precision. {remedy}"
        )
    if 0 < largest < SMALLEST_FITTED:
        raise ValueError(
            f"the largest absolute value in {name} is {largest:.4g}; squares of "
            f"numbers below {SMALLEST_FITTED:g} vanish. {remedy}"
        )


def check_read(
    data: Dataset, name: str, where: Callable[[int], str] | None = None
) -> None:
    """Refuse a data set whose features, targets or weights cannot be squared.

    Parameters
    ----------
    data : Dataset
    name : str
        The file or data set, for messages.
    where : callable, optional
        ``where(row)`` says where a row of `data` is; by default rows are counted from
        1.

    Raises
    ------
    DataError
        For a number beyond 1e150, and for a feature or target whose numbers are not all
        zero and all below 1e-150; names the column, the value and the remedy.
    """
    parts: list[tuple[Any, str, Sequence[str]]] = []
    if not data.strings:
        parts.append((data.X, "feature", data.features))
    if data.task_type == "regression":
        target_names = []
        if data.y.ndim == 2:
            target_names = data.tasks
        parts.append((data.y.reshape(len(data.y), -1), "target", target_names))
    for part, values in data.source.items():
        if values.dtype.kind == "f":
            parts.append((values[:, None], part, []))
    for values, kind, columns in parts:
        check_large(values, name, columns, where, kind)
        entries = values
        if sparse.issparse(values):
            entries = values.data
        # Nearly always, nothing is that small.
        if not ((np.abs(entries) < SMALLEST) & (entries != 0)).any():
            continue
        if sparse.issparse(values):
            largest = abs(values).max(axis=0).toarray().ravel()
        else:
            largest = np.fmax.reduce(np.abs(values), axis=0)
        is_vanishing = (largest > 0) & (largest < SMALLEST)
        if is_vanishing.any():
            column = int(np.argmax(is_vanishing))
            name_of_column = _called(kind, columns, column, values.shape[1])
            raise DataError(
                f"{name}: the largest number in {name_of_column} is "
                f"{float(largest[column]):.4g}; squares of numbers below {SMALLEST:g} "
                "vanish",
                "Rescale the column (multiply it by a power of ten), or leave it out.",
            )


def check_large(
    X: Any,
    name: str,
    columns: Sequence[str] = (),
    where: Callable[[int], str] | None = None,
    kind: str = "feature",
) -> None:
    """Refuse a matrix, dense or sparse, with a number beyond 1e150; NaN passes.

    Raises
    ------
    DataError
        With the place of the first such number.
    """
    if _largest(X) <= LARGEST:
        return
    if sparse.issparse(X):
        entries = sparse.coo_array(X)
        position = int(np.argmax(np.abs(entries.data) > LARGEST))
        row = int(entries.row[position])
        column = int(entries.col[position])
        value = float(entries.data[position])
    else:
        position = int(np.argmax(np.abs(X) > LARGEST))
        row, column = divmod(position, X.shape[1])
        value = float(X[row, column])
    if where:
        location = where(row)
    else:
        location = f"{name}: row {row + 1}"
    name_of_column = _called(kind, columns, column, X.shape[1])
    raise DataError(
        f"{location}: {name_of_column} contains {value:.4g}; numbers beyond "
        f"{LARGEST:g} cannot be squared",
        "Rescale the column (divide it by a power of ten), or fix the cell.",
    )


def _largest(values: Any) -> float:
    """Return the largest absolute value without a copy of the matrix; ignore NaN."""
    entries = values
    if sparse.issparse(values):
        entries = values.data
    if not entries.size:
        return 0.0
    # The reductions ignore NaN, and are NaN only if all entries are.
    highest = np.fmax.reduce(entries, axis=None)
    lowest = np.fmin.reduce(entries, axis=None)
    largest = max(highest, -lowest)
    if np.isnan(largest):
        return 0.0
    return float(largest)


def _called(kind: str, columns: Sequence[str], column: int, count: int) -> str:
    """Return what messages call a column: by its name if there is one."""
    if columns:
        return f"the {kind} {columns[column]!r}"
    if count == 1 and kind != "feature":
        return f"the {kind}"
    return f"{kind} {column + 1}"
