"""Splits that keep every task in every part, in scikit-learn's splitter interface."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, GroupShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from mtlrun.data.columns import plain_values, take_column
from mtlrun.errors import DataError

#: Names of the row facts in `Dataset.source` that splits and fits obey.
GROUP, TIME, WEIGHT = "group", "time", "weight"


def random_split(n: int, train: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
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
        The first ``int(train * n)`` of ``default_rng(seed).permutation(n)``, and the rest.

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
        raise ValueError(f"train={train} of n={n} rows leaves a part empty ({count} rows to train on)")
    order = np.random.default_rng(seed).permutation(n)
    return order[:count], order[count:]


def group_split(groups: np.ndarray, train: float, n_splits: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split rows at random so that no group is on both sides.

    Parameters
    ----------
    groups : ndarray of shape (n,)
    train : float
        Part of the groups to train on.
    n_splits, seed : int

    Returns
    -------
    list of (train, test) row indices

    Raises
    ------
    DataError
        If there are fewer than two groups.
    """
    if len(np.unique(groups)) < 2:
        raise DataError("a split by groups needs at least two groups", "Choose another column with --split-group.")
    splitter = GroupShuffleSplit(n_splits, train_size=train, random_state=seed)
    return [(np.sort(a), np.sort(b)) for a, b in splitter.split(groups, groups=groups)]


def time_split(time: np.ndarray, train: float) -> tuple[np.ndarray, np.ndarray]:
    """Train on the earlier rows and test on the later ones; rows of one time stay together.

    Raises
    ------
    DataError
        If all rows have the same time.
    """
    border = np.sort(time)[min(int(train * len(time)), len(time) - 1)]
    if border == time.min():
        later = time[time > border]
        if not later.size:
            raise DataError("a split by time needs at least two times", "Choose another column with --time.")
        border = later.min()
    return np.flatnonzero(time < border), np.flatnonzero(time >= border)


def time_folds(time: np.ndarray, folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train, test) rows: fold k is tested after training on all rows before it, as often as times allow."""
    borders = np.unique(np.quantile(time, np.arange(1, folds + 1) / (folds + 1), method="higher"))
    ends = [*borders[1:], np.inf]
    for start, end in zip(borders, ends, strict=True):
        train, test = np.flatnonzero(time < start), np.flatnonzero((time >= start) & (time < end))
        if train.size and test.size:
            yield train, test


class _TaskSplitter(BaseCrossValidator):
    """What the splitters share: where task ids come from, and the strata."""

    # The ids may be routed under either name; sklearn's own word for them is groups.
    __metadata_request__split = {"groups": True, "task_id": True}  # noqa: RUF012

    n_splits: int
    labels: bool
    task_column: int | str | None

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits

    def _tasks(self, X: Any, groups: Any, task_id: Any) -> np.ndarray:
        """Return the number 0..T-1 of every row's task; all rows are one task when there are no ids."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        ids = groups if task_id is None else task_id
        if ids is None and self.task_column is not None:
            ids = take_column(X, self.task_column)[0]
        if ids is None:
            return np.zeros(n, dtype=np.int64)
        ids = np.asarray(ids)
        if ids.shape != (n,):
            raise ValueError(f"there are {n} rows but task ids of shape {ids.shape}")
        return np.unique(ids, return_inverse=True)[1]

    def _strata(self, tasks: np.ndarray, y: Any) -> np.ndarray:
        """Return the number of every row's label, or zeros when labels do not matter."""
        if not self.labels:
            return np.zeros(len(tasks), dtype=np.int64)
        if y is None:
            raise ValueError("labels=True needs y")
        y = plain_values(np.asarray(y), "y")[0]
        if y.ndim != 1 or type_of_target(y) not in ("binary", "multiclass"):
            raise ValueError(f"labels=True needs one class label per row, not a target of kind {type_of_target(y)!r}")
        return np.unique(y, return_inverse=True)[1]


class TaskStratifiedKFold(_TaskSplitter):
    """K folds, each with its share of every task (and of every label within the task, when asked).

    Sizes of a fold's part of a task differ by at most one row, and so do the sizes of the folds. A task with fewer rows
    than folds is missing in some test parts, which is warned of; a task of one row is missing in a training part.

    Parameters
    ----------
    n_splits : int, default=5
    shuffle : bool, default=True
        Draw the rows of a fold at random; otherwise rows are dealt out in their order.
    labels : bool, default=False
        Stratify by task and label; y must hold class labels.
    task_column : int or str, optional
        Column of X with the task ids, used when neither `groups` nor `task_id` is given.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.data.splitters import TaskStratifiedKFold
    >>> tasks = np.array([0, 0, 1, 1])
    >>> for train, test in TaskStratifiedKFold(2, shuffle=False).split(np.zeros((4, 1)), groups=tasks):
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
            raise ValueError(f"n_splits must be a whole number of at least 2, not {n_splits!r}")
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.labels = labels
        self.task_column = task_column
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, task_id: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (train, test) row indices.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), optional
            Class labels; needed with ``labels=True``.
        groups, task_id : array-like of shape (n,), optional
            Task of every row (two names for the same thing). Without them all rows are one task.

        Raises
        ------
        ValueError
            If lengths differ, there are fewer rows than folds, or y holds no class labels but they are asked for.
        """
        tasks = self._tasks(X, groups, task_id)
        sizes = np.bincount(tasks)
        if len(tasks) < self.n_splits:
            raise ValueError(f"{self.n_splits} folds need as many rows, there are {len(tasks)}")
        if sizes.min() < self.n_splits:
            few = int((sizes < self.n_splits).sum())
            warnings.warn(
                f"{few} of {len(sizes)} tasks have fewer rows than n_splits={self.n_splits}: some folds lack them",
                UserWarning,
                stacklevel=2,
            )
        n = len(tasks)
        tie = check_random_state(self.random_state).permutation(n) if self.shuffle else np.arange(n)
        order = np.lexsort((tie, self._strata(tasks, y), tasks))
        fold = np.empty(n, dtype=np.int64)
        fold[order] = np.arange(n) % self.n_splits  # dealt out like cards: every stratum evenly
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


class TaskShuffleSplit(_TaskSplitter):
    """Random splits with a given part of every task (the papers' "x % of each task").

    Parameters
    ----------
    n_splits : int, default=10
    train_size : float or int, default=0.75
        Part (in (0, 1)) or number of rows to train on, of every task when `per_task`, else of all rows. A task of two
        rows or more has at least one row in either part; a task of one row is trained on.
    per_task : bool, default=True
        Split every task by itself; otherwise all rows together, tasks ignored.
    labels : bool, default=False
        Stratify by task and label: every label's part differs from `train_size` by less than one row.
    task_column : int or str, optional
        Column of X with the task ids, used when neither `groups` nor `task_id` is given.
    random_state : int, RandomState or None, default=None
    """

    def __init__(
        self,
        n_splits: int = 10,
        *,
        train_size: float = 0.75,
        per_task: bool = True,
        labels: bool = False,
        task_column: int | str | None = None,
        random_state: Any = None,
    ) -> None:
        if not isinstance(n_splits, (int, np.integer)) or n_splits < 1:
            raise ValueError(f"n_splits must be a whole number of at least 1, not {n_splits!r}")
        whole = isinstance(train_size, (int, np.integer)) and not isinstance(train_size, bool)
        if not (train_size >= 1 if whole else 0 < train_size < 1):
            raise ValueError(f"train_size must be a part in (0, 1) or a number of rows, not {train_size!r}")
        self.n_splits = n_splits
        self.train_size = train_size
        self.per_task = per_task
        self.labels = labels
        self.task_column = task_column
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, task_id: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (train, test) row indices; parameters and errors as in `TaskStratifiedKFold.split`.

        Raises
        ------
        ValueError
            If lengths differ, or y holds no class labels but they are asked for.
        """
        tasks = self._tasks(X, groups, task_id)
        if not self.per_task:
            tasks = np.zeros_like(tasks)
        strata = self._strata(tasks, y)
        starts = np.concatenate([[0], np.cumsum(np.bincount(tasks))])
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            order = np.lexsort((rng.permutation(len(tasks)), strata, tasks))
            train = np.zeros(len(tasks), dtype=bool)
            for first, last in pairwise(starts):
                size = last - first
                count = self._train_count(size)
                # count of size places, evenly spread over the strata, from a random phase
                steps = np.floor(np.arange(size + 1) * count / size + rng.uniform())
                train[order[first:last]] = np.diff(steps) > 0
            yield np.flatnonzero(train), np.flatnonzero(~train)

    def _train_count(self, size: int) -> int:
        if size == 1:
            return 1
        wanted = self.train_size if isinstance(self.train_size, (int, np.integer)) else int(self.train_size * size)
        return int(min(max(wanted, 1), size - 1))
