"""Predictions of the tested rows by each strategy.

A strategy (separate models, one pooled model, multi-task learning) chooses a method in
each training part by its inner cross-validation. This module puts the predictions of
the chosen methods together, so that each tested row has one prediction per strategy. It
reads them from the records of the comparison; nothing is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.verdict import INDEPENDENT, MULTITASK, POOLED, Strategy
from mtlrun.utils.arrays import NpzArchive, npz

Array = np.ndarray

#: Names of the strategies in pictures, tables and files, by family.
STRATEGY_NAMES = {INDEPENDENT: "separate", POOLED: "pooled", MULTITASK: "multi-task"}
#: Largest number of predictions that are kept, which are evenly spaced. Pictures do not
#: show more.
MAX_ENTRIES = 1_000_000

#: Returns the scores of a method on the test rows of a split; None if they are lost.
ReadScores = Callable[[str, int], Array | None]


@dataclass(frozen=True)
class HeldOutPredictions:
    """Targets of tested rows and the predictions of each strategy, one entry each.

    A row that several splits test is taken from the first of them.

    Attributes
    ----------
    rows : ndarray of int, shape (n_entries,)
        Position among the rows that the comparison uses: those with a target, a
        positive weight and enough rows of their task.
    tasks : ndarray of int, shape (n_entries,)
    observed : ndarray of shape (n_entries,)
        Targets in their own units; labels -1/+1.
    predicted : dict of str to ndarray of shape (n_entries,)
        By the name of the strategy, in `STRATEGY_NAMES`. For labels these are scores:
        log-odds if the method has probabilities.
    methods : dict of str to list of str
        Methods chosen by each strategy.
    """

    rows: Array
    tasks: Array
    observed: Array
    predicted: dict[str, Array]
    methods: dict[str, list[str]] = field(default_factory=dict)

    def probabilities(self, name: str) -> Array:
        """Return 1 / (1 + exp(-score)) of the predictions of a strategy."""
        return np.asarray(expit(self.predicted[name]))

    def is_of_tasks(self, n_tasks: int) -> bool:
        """Whether all entries belong to the first `n_tasks` tasks."""
        return bool(((self.tasks >= 0) & (self.tasks < n_tasks)).all())

    def frame(self, task_names: Sequence[str]) -> pd.DataFrame:
        """Return a row per target: row, task, observed, and a column per strategy."""
        columns = {
            "row": self.rows,
            "task": [task_names[t] for t in self.tasks],
            "observed": self.observed,
            **self.predicted,
        }
        return pd.DataFrame(columns)

    def dump(self) -> bytes:
        """Return the content of ``predictions.npz``, in single precision."""
        arrays = {
            "row": self.rows,
            "task": self.tasks,
            "observed": self.observed.astype(np.float32),
        }
        for name, values in self.predicted.items():
            arrays[name] = values.astype(np.float32)
        return npz(arrays)

    @classmethod
    def read(cls, file: Path, methods: Mapping[str, list[str]]) -> HeldOutPredictions:
        """Read ``predictions.npz``.

        Raises
        ------
        OSError, ValueError
            If the file is missing or damaged.
        """
        with NpzArchive(file, str(file)) as stored:
            rows = stored.array("row").astype(int)
            tasks = stored.array("task").astype(int)
            observed = stored.array("observed").astype(float)
            predicted = {}
            for name in methods:
                predicted[name] = stored.array(name).astype(float)
        lengths = {len(tasks), len(observed), *map(len, predicted.values())}
        if lengths != {len(rows)}:
            raise ValueError(f"{file}: its arrays do not fit together")
        return cls(rows, tasks, observed, predicted, dict(methods))


def held_out_predictions(
    evaluation: Evaluation,
    strategies: Mapping[str, Strategy],
    read_scores: ReadScores,
) -> HeldOutPredictions | None:
    """Put together the predictions of the methods that each strategy chose.

    Parameters
    ----------
    evaluation : Evaluation
    strategies : mapping of str to Strategy
        By family. A family that is missing has no predictions.
    read_scores : callable
        Takes the label of a method and a split.

    Returns
    -------
    HeldOutPredictions or None
        None if no strategy has predictions or no row was tested.
    """
    split_of_row = np.full(len(evaluation.y), -1)
    for split, rows in enumerate(evaluation.rows):
        counted_rows = rows[~evaluation.new[split]]
        unseen = counted_rows[split_of_row[counted_rows] < 0]
        split_of_row[unseen] = split
    scores: dict[str, Array] = {}
    methods: dict[str, list[str]] = {}
    for family, name in STRATEGY_NAMES.items():
        strategy = strategies.get(family)
        if strategy is None:
            continue
        values = _scores_of(strategy, evaluation, split_of_row, read_scores)
        if values is not None:
            scores[name] = values
            methods[name] = list(dict.fromkeys(strategy.selected.values()))
    if not scores:
        return None
    is_tested = evaluation.row_index.is_weighted(~np.isnan(evaluation.y))
    # Strategies are compared on the rows that all of them predict.
    for values in scores.values():
        is_tested = is_tested & ~np.isnan(values)
    rows, tasks = evaluation.row_index.entries(is_tested)
    if not len(rows):
        return None
    step = -(-len(rows) // MAX_ENTRIES)
    kept = slice(None, None, step)
    predicted = {name: values[is_tested][kept] for name, values in scores.items()}
    return HeldOutPredictions(
        rows=rows[kept],
        tasks=tasks[kept],
        observed=evaluation.y[is_tested][kept],
        predicted=predicted,
        methods=methods,
    )


def _scores_of(
    strategy: Strategy,
    evaluation: Evaluation,
    split_of_row: Array,
    read_scores: ReadScores,
) -> Array | None:
    """Return the scores of a strategy in the shape of the targets.

    They are None if the scores of some split are lost.
    """
    values = np.full(evaluation.y.shape, np.nan)
    for split in np.unique(split_of_row[split_of_row >= 0]).tolist():
        if split not in strategy.selected:
            continue
        scores = read_scores(strategy.selected[split], split)
        if scores is None:
            return None
        rows = evaluation.rows[split]
        is_first = split_of_row[rows] == split
        values[rows[is_first]] = scores[is_first]
    return values
