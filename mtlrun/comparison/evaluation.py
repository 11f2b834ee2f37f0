"""Results of compared methods, tested rows, and gains between methods.

A comparison has a `ComparedMethod` for each method, with its scores and losses by split,
and one `Evaluation`, which turns predictions into losses and losses into gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from mtlrun.comparison.gain import (
    Gain,
    RowIndex,
    auc_gain,
    concordances,
    correction,
    error_losses,
    log_losses,
    relative_gain,
    task_scales,
)
from mtlrun.show.quantities import AUC, NMSE
from mtlrun.stats import std, task_means

Array = np.ndarray

ERROR_RATE = "error rate"
LOG_LOSS = "log loss"


@dataclass
class ComparedMethod:
    """Results of one method in a comparison, by split.

    Attributes
    ----------
    label, family : str
    scores : dict of int to float
        Mean of the metric over the tasks.
    tasks : dict of int to list of float or None
        Metric of each task.
    inner : dict of int to float
        Score of the inner cross-validation in the training rows; lower is better.
    fold_losses : dict of int to list of float or None
        Score of each inner fold with the selected parameters; lower is better. Their
        mean is `inner`.
    losses : dict of int to ndarray
        Loss of each tested row; see `Evaluation.losses`.
    seconds : list of float
        Time of the search and the fit.
    fit_seconds : list of float
        Time of the last fit alone.
    failures : dict of int to str
        Error messages.
    stopped : dict of int to float
        Distance to the best method of its family on the first inner folds, for splits
        in which it was not searched further; see `mtlrun.comparison.racing`.
    chosen : dict of int to dict
        Selected parameters.
    grid_losses : dict of int to list of float or None
        Mean inner loss of each candidate of the search; lower is better.
    notes : list of str
        Warnings, for instance about convergence or a parameter at the end of its grid.
    """

    label: str
    family: str
    scores: dict[int, float] = field(default_factory=dict)
    tasks: dict[int, list[float | None]] = field(default_factory=dict)
    inner: dict[int, float] = field(default_factory=dict)
    fold_losses: dict[int, list[float | None]] = field(default_factory=dict)
    losses: dict[int, Array] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    stopped: dict[int, float] = field(default_factory=dict)
    chosen: dict[int, dict[str, Any]] = field(default_factory=dict)
    grid_losses: dict[int, list[float | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def score(self) -> float | None:
        """Mean over the splits, None without a number."""
        scores = self._defined_scores()
        if not scores:
            return None
        return fmean(scores)

    @property
    def score_std(self) -> float | None:
        """Standard deviation over the splits, None for fewer than two."""
        return std(self._defined_scores())

    def _defined_scores(self) -> list[float]:
        return [score for score in self.scores.values() if not math.isnan(score)]

    @property
    def errors(self) -> list[str]:
        """Error messages, each text once."""
        return list(dict.fromkeys(self.failures.values()))

    def task_means(self, splits: Sequence[int]) -> list[float | None]:
        """Return the mean of each task over the splits where it is defined."""
        return task_means([self.tasks[s] for s in splits if s in self.tasks])

    def is_complete(self, splits: Iterable[int]) -> bool:
        """Whether it was computed, failed or was stopped in each of these splits."""
        return all(
            split in self.losses or split in self.failures or split in self.stopped
            for split in splits
        )


@dataclass(frozen=True)
class Evaluation:
    """Tested rows of each split, and the measure of gains.

    A target array has the shape of `y`: (n, n_tasks) where tasks share their rows, (n,)
    where each row belongs to one task.

    Attributes
    ----------
    y : target array
        Targets; labels are -1 and +1.
    row_index : RowIndex
    rows : list of ndarray of int
        Test rows of each split: the folds of the first repeat, then of the next one.
    new : list of ndarray of bool
        Which of these rows belong to tasks without training rows. They do not count.
    n_folds, n_repeats : int
        Number of folds of a repeat, and of repeats.
    measure : str
        `NMSE`, `AUC`, `ERROR_RATE` or `LOG_LOSS`.
    smallest : float
        Smallest gain of interest.
    has_test_file : bool
        Whether the test rows are a file of their own.
    has_time_blocks : bool
        Whether the units are blocks of time.
    metric : str
        Metric of the leaderboard.
    unit : str
        Name of the units; empty for rows.
    has_one_order : bool
        Whether the folds follow the time, so that they cannot be drawn again.
    is_single_class : list of ndarray of bool, shape (n_tasks,)
        By split, tasks whose training labels are of one class. Their AUC says nothing,
        as in the leaderboard. Empty for other measures.
    margin : float
        Loss that is accepted for a model that may be better; 0 for none.
    n_train : list of int
        Number of training rows of each split. Empty if each split is trained on all
        rows that it does not test.
    train_share : float
        Share of the training rows of each task that is trained on.
    """

    y: Array
    row_index: RowIndex
    rows: list[Array]
    new: list[Array]
    n_folds: int
    n_repeats: int
    measure: str
    smallest: float
    has_test_file: bool = False
    has_time_blocks: bool = False
    metric: str = ""
    unit: str = ""
    has_one_order: bool = False
    is_single_class: list[Array] = field(default_factory=list)
    margin: float = 0.0
    n_train: list[int] = field(default_factory=list)
    train_share: float = 1.0

    @cached_property
    def scales(self) -> Array:
        """Variance of each task."""
        return task_scales(self.y, self.row_index)

    @cached_property
    def pairs(self) -> list[Array]:
        """Number of rows of the other class that each tested row is compared with.

        One array per split.
        """
        pairs_by_split = []
        for split, rows in enumerate(self.rows):
            # The number of pairs does not depend on the scores.
            _, pairs = self._concordances(split, np.zeros(self.y[rows].shape))
            pairs_by_split.append(np.where(self._is_excluded(split), np.nan, pairs))
        return pairs_by_split

    def losses(self, split: int, scores: Array) -> Array:
        """Return the loss of each tested row of a split.

        For the AUC, the number of rows of the other class that it is ordered rightly
        with, where greater is better.

        Parameters
        ----------
        split : int
        scores : ndarray
            Predictions for the test rows, in the shape of their targets.
        """
        rows = self.rows[split]
        y = self.y[rows]
        scores = np.asarray(scores, dtype=float)
        if self.measure == AUC:
            losses, _ = self._concordances(split, scores)
        elif self.measure == NMSE:
            # Squared errors in units of the variance of the task.
            scales = self.scales
            if self.row_index.task_id is not None:
                scales = scales[self.row_index.task_id[rows]]
            losses = (y - scores) ** 2 / scales
        elif self.measure == LOG_LOSS:
            losses = log_losses(y, scores)
        else:
            losses = error_losses(y, scores)
        return np.where(self._is_excluded(split), np.nan, losses)

    def _is_excluded(self, split: int) -> Array:
        """Return which targets of a split do not count.

        Targets of tasks without training rows, and of tasks with a single class in the
        training rows. The shape can be broadcast to the one of the targets.
        """
        is_new = self.new[split]
        ids = self.row_index.task_id
        if self.y.ndim == 2:
            is_new = is_new[:, np.newaxis]
        if not self.is_single_class:
            return is_new
        is_single_class = self.is_single_class[split]
        if ids is not None:
            is_single_class = is_single_class[ids[self.rows[split]]]
        return is_new | is_single_class

    def gain(
        self, first: Mapping[int, Array], second: Mapping[int, Array], repeats: int
    ) -> Gain | None:
        """Return how much better one method is than another.

        Parameters
        ----------
        first, second : mapping of int to ndarray
            Losses of the two methods, by split. Splits that both have are compared.
        repeats : int
            Number of repeats that count.

        Returns
        -------
        Gain or None
            None if nothing can be compared.
        """
        compared = self._compared_losses(first, second, repeats)
        if compared is None:
            return None
        return self._gain_of(compared, slice(None))

    def task_gains(
        self, first: Mapping[int, Array], second: Mapping[int, Array], repeats: int
    ) -> list[Gain | None]:
        """Return the gain of each task; parameters are as of `gain`.

        The list is empty if no split has both methods.
        """
        compared = self._compared_losses(first, second, repeats)
        if compared is None:
            return []
        task_id = self.row_index.task_id
        gains = []
        for task in range(self.row_index.n_tasks):
            selection: Any = (slice(None), task)
            if task_id is not None:
                selection = task_id == task
            gains.append(self._gain_of(compared, selection))
        return gains

    def _compared_losses(
        self, first: Mapping[int, Array], second: Mapping[int, Array], repeats: int
    ) -> _ComparedLosses | None:
        """Return the losses of two methods in the splits that both have."""
        splits = [
            split
            for split in range(self.n_folds * repeats)
            if split in first and split in second
        ]
        if not splits:
            return None
        pairs = None
        if self.measure == AUC:
            pairs = self._combine(self.pairs, splits)
        return _ComparedLosses(
            first=self._combine(first, splits),
            second=self._combine(second, splits),
            pairs=pairs,
            correction=self.correction(repeats),
        )

    def correction(self, repeats: int) -> float:
        """Return the factor of standard errors for some repeats.

        It is 1 for a test file, whose rows are all tested by the same models.
        """
        if self.has_test_file:
            return 1.0
        if not self.n_train:
            return correction(self.n_folds, 1, max(self.n_folds - 1, 1))
        n_splits = self.n_folds * repeats
        n_test = sum(len(rows) for rows in self.rows[:n_splits])
        return correction(self.n_folds, n_test, sum(self.n_train[:n_splits]))

    def _gain_of(self, compared: _ComparedLosses, selection: Any) -> Gain | None:
        """Return the gain on a selection of the targets."""
        # A target is compared where both losses are defined, so it is enough to remove
        # the losses of the first method elsewhere.
        first = np.full(compared.first.shape, np.nan)
        first[selection] = compared.first[selection]
        if compared.pairs is None:
            return relative_gain(
                first, compared.second, self.row_index, compared.correction
            )
        return auc_gain(
            first,
            compared.second,
            compared.pairs,
            self.y > 0,
            self.row_index,
            compared.correction,
        )

    def _combine(
        self, parts: Mapping[int, Array] | Sequence[Array], splits: list[int]
    ) -> Array:
        """Return a target array from the test rows of some splits.

        Losses are averaged over the splits that tested a row. For the AUC, they are
        numbers of pairs, which are added.
        """
        total = np.zeros(self.y.shape)
        n_tests = np.zeros(self.y.shape)
        for split in splits:
            rows = self.rows[split]
            is_defined = ~np.isnan(parts[split])
            total[rows] += np.where(is_defined, parts[split], 0.0)
            n_tests[rows] += is_defined
        n_tests = np.where(n_tests > 0, n_tests, np.nan)
        if self.measure == AUC:
            # NaN where a row was not tested.
            return total + 0 * n_tests
        return total / n_tests

    def _concordances(self, split: int, scores: Array) -> tuple[Array, Array]:
        rows = self.rows[split]
        return concordances(self.y[rows], scores, self.row_index, rows)

    @property
    def n_rows(self) -> int:
        """Number of rows that were tested."""
        return len(np.unique(np.concatenate(self.rows)))

    @property
    def n_new(self) -> int:
        """Number of tasks that were tested without training rows."""
        task_id = self.row_index.task_id
        if task_id is None:
            return 0
        new_tasks = [
            task_id[rows[is_new]]
            for rows, is_new in zip(self.rows, self.new, strict=True)
        ]
        return len(np.unique(np.concatenate(new_tasks)))

    @property
    def has_shared_rows(self) -> bool:
        """Whether each row has targets of several tasks."""
        return self.y.ndim == 2

    @property
    def unit_name(self) -> str:
        """Name of the independent pieces of evidence: row, group, block or task."""
        if self.has_time_blocks:
            return "block"
        if self.row_index.units is None:
            return "row"
        return self.unit or "group"

    @property
    def can_repeat(self) -> bool:
        """Whether the folds are drawn at random, so that they can be drawn again."""
        return not (self.has_test_file or self.has_one_order)


@dataclass(frozen=True)
class _ComparedLosses:
    """Losses of two methods on all tested rows.

    Attributes
    ----------
    first, second : target array
    pairs : target array or None
        Pairs of rows of both classes, for the AUC.
    correction : float
        Factor of standard errors.
    """

    first: Array
    second: Array
    pairs: Array | None
    correction: float
