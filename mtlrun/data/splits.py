"""Splits of rows: scikit-learn splitters, and splits and folds of experiments."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from mtlrun.data.dataset import Dataset
from mtlrun.data.groups import group_folds, group_split, strata_of
from mtlrun.data.reading.frames import plain_values, take_column
from mtlrun.errors import DataError, counted, listed
from mtlrun.utils.io import derive_seed

Array = np.ndarray

Rows = Array

#: Rows that a task keeps if only a part is trained on: enough for the folds of a
#: search.
MIN_PART = 4

#: Keys of `Dataset.source` that splits and fits respect.
GROUP = "group"
#: Rank of the time of a row, for calendar blocks over all tasks.
TIME = "time"
#: Rank of the time of a row, where the last rows of each task are tested.
ORDER = "order"
#: Task of a row, by which these times are ordered.
ORDER_TASK = "order within"
#: Task of a row, where whole tasks are left out.
NEW_TASK = "new task"
WEIGHT = "weight"
#: Keys that decide which rows are tested together.
SPLIT_KEYS = frozenset({GROUP, TIME, ORDER, NEW_TASK})


def random_split(n: int, train: float, seed: int) -> tuple[Array, Array]:
    """Split n rows at random, whatever their tasks.

    Parameters
    ----------
    n : int
        Rows.
    train : float
        Part of the rows to train on, in (0, 1).
    seed : int

    Returns
    -------
    train, test : ndarray of int
        The first ``int(train * n)`` of ``default_rng(seed).permutation(n)``, and the
        rest.

    Raises
    ------
    ValueError
        If one of the parts would be empty.

    Examples
    --------
    >>> from mtlrun.data import random_split
    >>> train, test = random_split(10, 0.4, seed=0)
    >>> train.tolist(), len(test)
    ([4, 6, 2, 7], 6)
    """
    count = int(train * n)
    if not 0 < count < n:
        raise ValueError(
            f"train={train} of n={n} rows leaves a part empty "
            f"({count} rows to train on)"
        )
    order = np.random.default_rng(seed).permutation(n)
    return order[:count], order[count:]


def time_folds(time: Array, n_folds: int) -> Iterator[tuple[Array, Array]]:
    """Yield (train, test) rows of each fold.

    Fold k is tested after training on all rows before it, as often as times allow.
    """
    probabilities = np.arange(1, n_folds + 1) / (n_folds + 1)
    # Quantiles that are times of rows: rows of one time are not separated.
    borders = np.quantile(time, probabilities, method="higher")
    borders = np.unique(borders)
    ends = [*borders[1:], np.inf]
    for start, end in zip(borders, ends, strict=True):
        train = np.flatnonzero(time < start)
        test = np.flatnonzero((time >= start) & (time < end))
        if train.size and test.size:
            yield train, test


def next_row_folds(
    order: Array, task_id: Array, n_folds: int
) -> Iterator[tuple[Array, Array]]:
    """Yield (train, test) rows: the last rows of each task after its earlier ones.

    The first fold tests the last block of times of each task, the second fold the block
    before it, and so on, each after training on the earlier rows of all tasks. A block
    is one time, or several if a task has at least ``4 * n_folds`` times, so that at
    least half of the rows of a long task are only trained on. Rows of a task with the
    same time stay together. The first time of a task is always trained on, so that a
    task with a single time is never tested. Folds without test rows are left out.

    Parameters
    ----------
    order : ndarray of shape (n,)
        Time of each row.
    task_id : ndarray of shape (n,)
    n_folds : int
    """
    if not len(order):
        return
    pairs = np.column_stack([task_id, order])
    # Sorted by task, then by time: consecutive numbers within a task.
    times, number = np.unique(pairs, axis=0, return_inverse=True)
    number = number.reshape(-1)
    _, first, n_times = np.unique(times[:, 0], return_index=True, return_counts=True)
    task_of_time = np.repeat(np.arange(len(first)), n_times)
    rank = np.arange(len(times)) - first[task_of_time]
    from_end = n_times[task_of_time] - 1 - rank
    block_length = np.maximum(1, n_times // (2 * n_folds))
    block = from_end // block_length[task_of_time]
    is_first = rank == 0
    for k in range(n_folds):
        is_tested = (block == k) & ~is_first
        is_trained_on = (block > k) | is_first
        train = np.flatnonzero(is_trained_on[number])
        test = np.flatnonzero(is_tested[number])
        if test.size:
            yield train, test


#: Pattern of the warning of `TaskStratifiedKFold` about small tasks.
SHORT_TASKS = ".* fewer rows than n_splits"


class _TaskSplitter(BaseCrossValidator):
    """Base class of the splitters: task ids, and stratification by labels."""

    # Task ids may be routed under either name; scikit-learn calls them groups.
    __metadata_request__split = {"groups": True, "task_id": True}  # noqa: RUF012

    n_splits: int
    labels: bool
    task_column: int | str | None

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, task_id: Any = None
    ) -> int:
        """Return the number of splits."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, task_id: Any = None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield (train, test) row indices.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), optional
            Class labels; needed with ``labels=True``.
        groups, task_id : array-like of shape (n,), optional
            Task of each row (two names for the same thing). Without them all rows are
            one task.

        Raises
        ------
        ValueError
            If lengths differ, there are fewer rows than folds, or y holds no class
            labels but they are needed.
        """
        tasks = self._tasks(X, groups, task_id)
        strata = np.zeros(len(tasks), dtype=np.int64)
        if self.labels:
            if y is None:
                raise ValueError("labels=True needs y")
            y = plain_values(np.asarray(y), "y")[0]
            if y.ndim != 1 or type_of_target(y) not in ("binary", "multiclass"):
                raise ValueError(
                    "labels=True needs one class label per row, not a target of kind "
                    f"{type_of_target(y)!r}"
                )
            strata = np.unique(y, return_inverse=True)[1]
        yield from self._parts(tasks, strata)

    @abstractmethod
    def _parts(self, tasks: Array, strata: Array) -> Iterator[tuple[Array, Array]]:
        """Yield training and test rows of each split.

        `tasks` and `strata` are the numbers of each row's task and label.
        """

    def _tasks(self, X: Any, groups: Any, task_id: Any) -> Array:
        """Return the number 0..T-1 of each row's task.

        Without ids, all rows are one task.
        """
        if hasattr(X, "shape"):
            n = X.shape[0]
        else:
            n = len(X)
        ids = groups if task_id is None else task_id
        if ids is None and self.task_column is not None:
            ids = take_column(X, self.task_column)[0]
        if ids is None:
            return np.zeros(n, dtype=np.int64)
        ids = np.asarray(ids)
        if ids.shape != (n,):
            raise ValueError(f"there are {n} rows but task ids of shape {ids.shape}")
        return np.unique(ids, return_inverse=True)[1]


class TaskStratifiedKFold(_TaskSplitter):
    """K folds, each with its share of each task.

    With `labels`, each fold also has its share of each label of a task.

    Sizes of a fold's part of a task differ by at most one row, and so do the sizes of
    the folds. A task with fewer rows than folds is missing in some test parts, which is
    warned of; a task of one row is missing in a training part.

    Parameters
    ----------
    n_splits : int, default=5
    shuffle : bool, default=True
        Draw the rows of a fold at random; otherwise rows are dealt out in their order.
    labels : bool, default=False
        Stratify by task and label; y must hold class labels.
    task_column : int or str, optional
        Column of X with the task ids, used when neither `groups` nor `task_id` is
        given.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.data.splits import TaskStratifiedKFold
    >>> tasks = np.array([0, 0, 1, 1])
    >>> folds = TaskStratifiedKFold(2, shuffle=False)
    >>> for train, test in folds.split(np.zeros((4, 1)), groups=tasks):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2] [1 3]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        labels: bool = False,
        task_column: int | str | None = None,
        random_state: Any = None,
    ) -> None:
        if not isinstance(n_splits, (int, np.integer)) or n_splits < 2:
            raise ValueError(
                f"n_splits must be an integer of at least 2, not {n_splits!r}"
            )
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.labels = labels
        self.task_column = task_column
        self.random_state = random_state

    def _parts(self, tasks: Array, strata: Array) -> Iterator[tuple[Array, Array]]:
        sizes = np.bincount(tasks)
        if len(tasks) < self.n_splits:
            raise ValueError(
                f"{self.n_splits} folds need as many rows, there are {len(tasks)}"
            )
        if sizes.min() < self.n_splits:
            few = int((sizes < self.n_splits).sum())
            warnings.warn(
                f"{few} of {len(sizes)} tasks have fewer rows than "
                f"n_splits={self.n_splits}: some folds lack them",
                UserWarning,
                stacklevel=3,
            )
        n = len(tasks)
        if self.shuffle:
            tie = check_random_state(self.random_state).permutation(n)
        else:
            tie = np.arange(n)
        order = np.lexsort((tie, strata, tasks))
        fold = np.empty(n, dtype=np.int64)
        fold[order] = (
            np.arange(n) % self.n_splits
        )  # dealt out like cards: every stratum evenly
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


class TaskShuffleSplit(_TaskSplitter):
    """Random splits with a given part of each task (the papers' "x % of each task").

    Parameters
    ----------
    n_splits : int, default=10
    train_size : float or int, default=0.75
        Part (in (0, 1)) or number of rows of each task to train on. A task of two rows
        or more has at least one row in either part; a task of one row is trained on.
    labels : bool, default=False
        Stratify by task and label: every label's part differs from `train_size` by less
        than one row.
    task_column : int or str, optional
        Column of X with the task ids, used when neither `groups` nor `task_id` is
        given.
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        n_splits: int = 10,
        *,
        train_size: float = 0.75,
        labels: bool = False,
        task_column: int | str | None = None,
        random_state: Any = None,
    ) -> None:
        if not isinstance(n_splits, (int, np.integer)) or n_splits < 1:
            raise ValueError(
                f"n_splits must be an integer of at least 1, not {n_splits!r}"
            )
        is_count = isinstance(train_size, (int, np.integer)) and not isinstance(
            train_size, bool
        )
        if not (train_size >= 1 if is_count else 0 < train_size < 1):
            raise ValueError(
                "train_size must be a part in (0, 1) or a number of rows, not "
                f"{train_size!r}"
            )
        self.n_splits = n_splits
        self.train_size = train_size
        self.labels = labels
        self.task_column = task_column
        self.random_state = random_state

    def _parts(self, tasks: Array, strata: Array) -> Iterator[tuple[Array, Array]]:
        n_rows = len(tasks)
        sizes = np.bincount(tasks)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            # By task, then by stratum, at random within a stratum.
            order = np.lexsort((rng.permutation(n_rows), strata, tasks))
            is_train = np.zeros(n_rows, dtype=bool)
            for first, last in pairwise(starts):
                size = last - first
                if isinstance(self.train_size, (int, np.integer)):
                    count = self.train_size
                else:
                    count = int(self.train_size * size)
                # Both parts keep a row; a single row is a training row.
                count = max(min(count, size - 1), 1)
                # `count` of `size` places at even distances, so that each stratum has
                # its share, from a random phase, so that no place is preferred.
                phase = rng.uniform()
                steps = np.floor(np.arange(size + 1) * count / size + phase)
                rows = order[first:last]
                is_train[rows] = np.diff(steps) > 0
            yield np.flatnonzero(is_train), np.flatnonzero(~is_train)


def split_rows(
    dataset: Dataset,
    kind: str,
    *,
    trial: int,
    seed: int,
    train: float | None = None,
    folds: int | None = None,
    name: str | None = None,
    validation: float | None = None,
) -> tuple[Rows, Rows, Rows]:
    """Return the training, validation and test rows of one trial.

    Without `validation`, the validation part is empty.

    Parameters
    ----------
    dataset : Dataset
    kind : {"random", "kfold", "published", "balanced"}
        See `mtlrun.lab.experiment.spec.SplitSpec`. The training rows of a random split do not
        depend on `validation`, which is taken out of its test rows; a published split
        gives some of its training rows to validation.
    trial : int
        From 0: number of the fold (further partitions follow the first), or of the
        published split.
    seed : int
        Of this trial; of all folds of a partition, for ``kfold``.
    train, folds, name, validation
        As the kind needs them.

    Raises
    ------
    DataError
        If the data set has no such published split.
    ValueError
        If a part would be empty.
    """
    if kind == "balanced":
        if GROUP in dataset.source:
            raise DataError(
                "a split of kind balanced does not keep groups together",
                "Use a split of kind random or kfold.",
            )
        return paper_partition(dataset, train or 0.0, seed)
    if kind == "published":
        fit, test = _published(dataset, name or "", trial)
    elif kind == "kfold":
        # Each trial tests one fold of the same partition.
        all_folds = list(fold_rows(dataset, folds or 0, seed))
        fit, test = all_folds[trial % (folds or 1)]
        if train is not None:
            fit = fewer_rows(dataset, fit, train, derive_seed(seed, "part"))
    elif GROUP in dataset.source:
        fit, test = group_split(
            dataset.source[GROUP],
            _group_strata(dataset),
            dataset.y,
            train or 0.0,
            seed,
        )
    elif dataset.task_id is None:
        fit, test = random_split(dataset.n_samples, train or 0.0, seed)
    else:
        splitter = TaskShuffleSplit(1, train_size=train or 0.0, random_state=seed)
        fit, test = next(iter(splitter.split(dataset.X, groups=dataset.task_id)))
    if validation is None:
        return fit, np.array([], dtype=int), test
    # The test part of a published split stays as it is: validation rows come from its
    # training part. Other splits divide the rows that are not trained on.
    validation_seed = derive_seed(seed, "validation")
    if kind == "published":
        fit, held = _take(dataset, fit, validation, fit, validation_seed)
    else:
        all_rows = np.arange(dataset.n_samples)
        test, held = _take(dataset, test, validation, all_rows, validation_seed)
    return fit, held, test


def _rows_by_task(dataset: Dataset, rows: Rows, seed: int) -> dict[int, Rows]:
    """Return the rows of each task in a random order.

    In a shared design, all rows belong to one task.
    """
    if dataset.task_id is None:
        tasks = np.zeros(dataset.n_samples, dtype=int)
    else:
        tasks = dataset.task_id
    order = np.random.default_rng(seed).permutation(rows)
    return {int(task): order[tasks[order] == task] for task in np.unique(tasks[rows])}


def fewer_rows(dataset: Dataset, rows: Rows, part: float, seed: int) -> Rows:
    """Return a random part of rows, of each task for ragged data.

    A larger part contains the smaller ones. A task keeps at least `MIN_PART` rows. An
    integer is the number of rows of each task; a smaller task keeps all its rows. Rows
    of groups are taken from all groups of a task in turn, so that searches have groups
    to hold out.
    """
    parts = []
    for mine in _rows_by_task(dataset, rows, seed).values():
        if GROUP in dataset.source:
            # The first row of each group comes before the second ones.
            groups = dataset.source[GROUP][mine]
            order = np.argsort(groups, kind="stable")
            sorted_groups = groups[order]
            first_of_group = np.searchsorted(sorted_groups, sorted_groups)
            rank = np.empty(len(mine), dtype=np.int64)
            rank[order] = np.arange(len(mine)) - first_of_group
            mine = mine[np.argsort(rank, kind="stable")]
        size = part
        if not isinstance(size, int):
            size = max(MIN_PART, round(size * len(mine)))
        parts.append(mine[:size])
    return np.sort(np.concatenate(parts))


def fold_rows(dataset: Dataset, n_folds: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield (train, test) rows of a k-fold partition, stratified by task and label.

    Labels are stratified where there is one per row. Rows with a group stay together
    (`mtlrun.data.groups`), rows with a time are tested after earlier ones, and whole
    tasks are left out where new tasks are to be predicted (`Dataset.source`). In all
    other cases, rows of tasks without training rows are not tested.
    """
    if NEW_TASK in dataset.source:
        tasks = dataset.source[NEW_TASK]
        yield from group_folds(
            tasks, np.ones((len(tasks), 1)), dataset.y, n_folds, seed
        )
        return
    if GROUP in dataset.source:
        folds = list(_folds_of_groups(dataset, n_folds, seed))
    elif ORDER in dataset.source:
        tasks = dataset.source[ORDER_TASK]
        folds = list(next_row_folds(dataset.source[ORDER], tasks, n_folds))
    elif TIME in dataset.source:
        folds = list(time_folds(dataset.source[TIME], n_folds))
    else:
        labels = dataset.y.ndim == 1 and dataset.task_type != "regression"
        # Few rows make fewer folds, as few groups do.
        n_folds = min(n_folds, max(dataset.n_samples, 2))
        stratified = TaskStratifiedKFold(n_folds, labels=labels, random_state=seed)
        y = dataset.y if labels else None
        with warnings.catch_warnings():
            # Every fit would repeat the warning; reports have the text of `short_tasks`
            # once.
            warnings.filterwarnings("ignore", message=SHORT_TASKS)
            folds = list(stratified.split(dataset.X, y, groups=dataset.task_id))
    if dataset.task_id is None:
        yield from folds
        return
    tested = []
    for train, test in folds:
        has_training_rows = np.isin(dataset.task_id[test], dataset.task_id[train])
        tested.append(test[has_training_rows])
    if not any(map(len, tested)):
        return
    for (train, test), test_with_training in zip(folds, tested, strict=True):
        if len(test_with_training):
            yield train, test_with_training
        else:
            # A fold with rows of new tasks only stays a fold: callers rely on n_folds.
            yield train, test


def _folds_of_groups(
    dataset: Dataset, n_folds: int, seed: int
) -> Iterator[tuple[Rows, Rows]]:
    """Yield (train, test) rows of folds of whole groups.

    A task whose rows are all in one group has no training rows when that group is
    tested. Groups with such tasks only are always trained on, so that every fold has
    rows to test.
    """
    groups = dataset.source[GROUP]
    strata = _group_strata(dataset)
    has_other_groups = np.ones(len(groups), dtype=bool)
    if dataset.task_id is not None:
        pairs = np.unique(np.column_stack([dataset.task_id, groups]), axis=0)
        # A task has as many pairs as groups.
        n_groups = np.bincount(pairs[:, 0].astype(int))
        has_other_groups = n_groups[dataset.task_id] > 1
    is_drawn = np.isin(groups, groups[has_other_groups])
    if len(np.unique(groups[is_drawn])) < 2:
        is_drawn[:] = True
    drawn = np.flatnonzero(is_drawn)
    always = np.flatnonzero(~is_drawn)
    parts = group_folds(
        groups[drawn],
        strata[drawn],
        dataset.y[drawn],
        n_folds,
        seed,
    )
    for train, test in parts:
        train_rows = np.concatenate([drawn[train], always])
        yield np.sort(train_rows), drawn[test]


def short_tasks(dataset: Dataset, n_folds: int) -> str:
    """Return a sentence about tasks with fewer rows than folds, empty if none has."""
    if dataset.task_id is None or dataset.source.keys() & SPLIT_KEYS:
        return ""
    sizes = np.bincount(dataset.task_id, minlength=dataset.n_tasks)
    short = np.flatnonzero(sizes < n_folds)
    if not short.size:
        return ""
    names = listed([f"{dataset.tasks[t]} ({sizes[t]})" for t in short])
    tasks = counted(short.size, "task has", "tasks have")
    missing = "them"
    if short.size == 1:
        missing = "it"
    return (
        f"{tasks} fewer rows than the {n_folds} folds, so some folds lack {missing}: "
        f"{names}"
    )


def _group_strata(dataset: Dataset) -> Any:
    """Return the columns of which each fold is to get its share, see `strata_of`."""
    has_labels = dataset.task_type != "regression"
    return strata_of(dataset.y, dataset.task_id, labels=has_labels)


def _published(dataset: Dataset, name: str, trial: int) -> tuple[Rows, Rows]:
    """Return the training and test rows of a published split."""
    published = dataset.splits.get(name)
    if published is None or trial >= len(published):
        names = [f"{split} ({len(parts)})" for split, parts in dataset.splits.items()]
        available = ", ".join(names) or "none"
        raise DataError(
            f"{dataset.id} has no published split {name!r} number {trial}; it has: "
            f"{available}"
        )
    return published[trial]


def _take(
    dataset: Dataset, rows: Rows, part: float, of: Rows, seed: int
) -> tuple[Rows, Rows]:
    """Return the rows that are left, and randomly taken ones.

    For each task, as many are taken as `part` of the rows `of`.
    """
    if GROUP in dataset.source:
        inside = dataset.subset(rows)
        train = 1 - part * len(of) / len(rows)
        kept, taken_rows = group_split(
            inside.source[GROUP], _group_strata(inside), inside.y, train, seed
        )
        return rows[kept], rows[taken_rows]
    candidates = _rows_by_task(dataset, rows, seed)
    rows_by_task = _rows_by_task(dataset, of, seed)
    taken = []
    for task, task_rows in candidates.items():
        if task not in rows_by_task:
            continue
        # A task with rows keeps one.
        size = int(part * len(rows_by_task[task]))
        taken.append(task_rows[: min(size, len(task_rows) - 1)])
    validation = np.sort(np.concatenate(taken))
    rest = rows[~np.isin(rows, validation)]
    if not len(validation) or not len(rest):
        raise ValueError(
            f"validation={part} leaves a part empty ({len(validation)} of {len(rows)} "
            "rows)"
        )
    return rest, validation


def paper_partition(
    dataset: Dataset, fraction: float, seed: int
) -> tuple[Rows, Rows, Rows]:
    """Split as in the paper on multiple-kernel learning.

    A fraction of each task is for training; the rest is halved.

    Parameters
    ----------
    dataset : Dataset
        If its tasks were made from classes, the examples of the multi-class set are
        split: an example is in the same part in all tasks, and every class has as many
        training rows as the smallest class. Other ragged data sets are split task by
        task.
    fraction : float
        Training part, strictly between 0 and 1.
    seed : int

    Returns
    -------
    train, validation, test : ndarrays of int
        Sorted rows; an odd row of a task goes to the test part.

    Raises
    ------
    DataError
        If the tasks share their rows and were not made from classes, the fraction is
        out of range, or a part of a task would be empty.
    """
    if "label" in dataset.source:
        source_rows = dataset.source["row"]
        _, first, example = np.unique(
            source_rows, return_index=True, return_inverse=True
        )
        labels = dataset.source["label"][first]
        parts = _halved_rest(labels, fraction, seed, equal=True)
        train, validation, test = (
            np.flatnonzero(np.isin(example, part)) for part in parts
        )
        return train, validation, test
    return task_partition(dataset, fraction, seed)


def task_partition(
    dataset: Dataset, fraction: float, seed: int
) -> tuple[Rows, Rows, Rows]:
    """Split each task separately, regardless of its classes.

    Parameters, parts and errors are as in `paper_partition`. If tasks were made from
    classes, an example can be in different parts of two tasks.
    """
    if dataset.task_id is None:
        name = dataset.id or "this data set"
        raise DataError(
            f"the tasks of {name} share their rows and were not made from classes",
            "Use a split of kind random.",
        )
    return _halved_rest(dataset.task_id, fraction, seed)


def _halved_rest(
    labels: Rows, fraction: float, seed: int, equal: bool = False
) -> tuple[Rows, Rows, Rows]:
    """Return a fraction of the rows of each label, and two halves of the others.

    All labels can have equally many rows in the fraction.
    """
    if not 0 < fraction < 1:
        raise DataError(
            f"the training fraction must lie strictly between 0 and 1, not {fraction}"
        )
    classes, counts = np.unique(labels, return_counts=True)
    # 0.1 * 730 must give 73: products such as 72.99999999999999 are rounding noise.
    sizes = np.floor(fraction * counts + 1e-9).astype(int)
    if equal:
        sizes[:] = sizes.min()
    train: list[Rows] = []
    validation: list[Rows] = []
    test: list[Rows] = []
    for label, count, size in zip(classes, counts, sizes, strict=True):
        if size < 1 or count - size < 2:
            raise DataError(
                f"a training part of {fraction:g} leaves label or task {label} "
                f"({count} rows) an empty part",
                "Use another training part, or more rows.",
            )
        rows = class_rows(labels, label, seed)
        middle = size + (len(rows) - size) // 2
        train.append(rows[:size])
        validation.append(rows[size:middle])
        test.append(rows[middle:])
    return (
        np.sort(np.concatenate(train)),
        np.sort(np.concatenate(validation)),
        np.sort(np.concatenate(test)),
    )


def class_rows(labels: Rows, label: int, seed: int) -> Rows:
    """Return the rows of one class in a random order.

    The order depends on the number of the class and the seed only.
    """
    rng = np.random.default_rng([seed, int(label)])
    return rng.permutation(np.flatnonzero(labels == label))
