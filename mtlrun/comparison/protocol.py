"""What a comparison was asked for, the protocol that follows from it and the table, and both in sentences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.comparison.candidates import (
    MAX_TREE_ROWS,
    TREES,
    Candidate,
    nested_levels,
)
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.options import SPLITS, CompareOptions
from mtlrun.comparison.verdict import (
    AUC,
    ERROR_RATE,
    LOG_LOSS,
    MIN_UNITS,
    NMSE,
    SMALLEST,
    SMALLEST_AUC,
    Evaluation,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.roles import TEST_SPLIT, Roles
from mtlrun.data.splits import (
    GROUP,
    NEW_TASK,
    ORDER,
    ORDER_TASK,
    SPLIT_KEYS,
    TIME,
    WEIGHT,
    fold_rows,
    short_tasks,
    split_rows,
)
from mtlrun.engine.evaluation import one_class
from mtlrun.engine.job import TABLE_WITH_LEVELS, purpose_of
from mtlrun.errors import ConfigError, DataError, counted, listed
from mtlrun.metrics import METRICS, get_metric
from mtlrun.utils.io import derive_seed

#: Metrics that divide by the variance of a task -> what takes their place where tasks
#: have rows of their own. A task may have two test rows, whose variance is no unit.
SHRUNKEN_METRICS = {
    "nmse": "nmse_shrunken",
    "nmse_all": "nmse_shrunken",
    "r2": "r2_shrunken",
}


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Attributes
    ----------
    split : dict
        As of a training file: ``{"kind": "kfold", "folds": 5}`` or ``{"kind": "published", "name": ...}``.
    n_splits, repeats, folds : int
        Number of splits of all repeats, of repeats, and of folds of the search inside the training rows.
    metric : str
    seed : int
    smallest : float or None
        Smallest gain of interest.
    """

    split: dict[str, Any]
    n_splits: int
    folds: int
    metric: str
    seed: int
    repeats: int = 1
    smallest: float | None = None

    @classmethod
    def of(cls, dataset: Dataset, options: CompareOptions) -> Protocol:
        """Return the protocol for a data set: a function of its size and the options, not of any score.

        Raises
        ------
        ConfigError
            If the metric cannot be computed for the targets.
        """
        split: dict[str, Any] = {"kind": "kfold", "folds": options.splits}
        made = cls(
            split, 1, options.folds, _metric(options.metric, dataset), options.seed
        )
        made = replace(made, smallest=options.smallest_gain)
        if dataset.splits:
            name, splits = next(iter(dataset.splits.items()))
            return replace(
                made, split={"kind": "published", "name": name}, n_splits=len(splits)
            )
        n = min(options.splits, dataset.n_samples)
        if dataset.task_id is not None or dataset.source.keys() & SPLIT_KEYS:
            n = len(list(fold_rows(dataset, options.splits, options.seed)))
        if ORDER in dataset.source:
            n = _n_searchable(dataset, options)
        is_ordered = bool(dataset.source.keys() & {TIME, ORDER})
        repeats = 1 if is_ordered else options.repeats
        return replace(
            made,
            split={"kind": "kfold", "folds": max(n, 2)},
            n_splits=n * repeats,
            repeats=repeats,
        )

    @property
    def train(self) -> float:
        """Part of the rows that is trained on, about."""
        folds = self.split.get("folds", SPLITS)
        return (1 - 1 / float(folds)) * float(self.split.get("train", 1))

    def with_train_share(self, share: float) -> Protocol:
        """Return the protocol with a share of the training rows of each task."""
        if share == 1:
            return self
        return replace(self, split={**self.split, "train": share})

    def evaluation(self, dataset: Dataset) -> Evaluation:
        """Return which rows are tested, and what gains are measured in."""
        parts = [self.rows(dataset, trial) for trial in range(self.n_splits)]
        rows = [test for _, test in parts]
        ids, units = dataset.task_id, dataset.source.get(GROUP)
        design = design_of(dataset)
        new = [
            np.zeros(len(test), dtype=bool)
            if ids is None or design == NEW_TASKS
            else ~np.isin(ids[test], ids[train])
            for train, test in parts
        ]
        has_time_blocks = design == TIME_BLOCKS
        unit = "" if units is None else "group"
        if has_time_blocks:
            units = _fold_of_rows(dataset, rows)
            unit = "block"
        elif design == NEW_TASKS:
            units = dataset.source[NEW_TASK]
            unit = "task"
        elif design == NEXT_ROWS:
            units, unit = _units_of_next_rows(dataset, rows)
        measure = _measure(self.metric)
        smallest = (
            self.smallest
            if self.smallest is not None
            else SMALLEST_AUC
            if measure == AUC
            else SMALLEST
        )
        return Evaluation(
            y=np.asarray(dataset.y, dtype=float),
            row_index=RowIndex(
                dataset.n_tasks,
                ids,
                None if dataset.splits else units,
                dataset.source.get(WEIGHT),
            ),
            rows=rows,
            new=new,
            folds=self.n_splits // self.repeats,
            repeats=self.repeats,
            measure=measure,
            smallest=smallest,
            has_test_file=bool(dataset.splits),
            has_time_blocks=has_time_blocks,
            metric=self.metric,
            is_single_class=[one_class(dataset.subset(train)) for train, _ in parts]
            if measure == AUC and design != NEW_TASKS
            else [],
            unit=unit,
            has_one_order=design in (NEXT_ROWS, TIME_BLOCKS),
        )

    def rows(self, dataset: Dataset, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows of a split."""
        purpose = purpose_of(self.split["kind"], self.split.get("folds"), trial)
        seed = derive_seed(self.seed, dataset.id, *purpose)
        train, _, test = split_rows(dataset, **self.split, trial=trial, seed=seed)
        return train, test


def _n_searchable(dataset: Dataset, options: CompareOptions) -> int:
    """Return the number of folds whose training rows can be searched in the same way.

    The first folds have the most training rows. In later ones, tasks with few times may
    have a single one left to train on, so that no later row can be held out.
    """
    n = 0
    for train, _ in fold_rows(dataset, options.splits, options.seed):
        inside = dataset.subset(train)
        if not list(fold_rows(inside, options.folds, options.seed)):
            break
        n += 1
    return n


def _fold_of_rows(dataset: Dataset, rows: list[np.ndarray]) -> np.ndarray:
    """Return the number of the fold that tests each row, -1 for rows that none tests."""
    numbers = np.full(dataset.n_samples, -1)
    for number, test in enumerate(rows):
        numbers[test] = number
    return numbers


def _units_of_next_rows(
    dataset: Dataset, rows: list[np.ndarray]
) -> tuple[np.ndarray, str]:
    """Return what counts as one piece of evidence: a task, or its rows in one fold.

    Consecutive rows of a task are alike, so its rows are taken together. With few tasks
    the rows of a task in one fold are, which are further apart than single rows.
    """
    tasks = dataset.source[ORDER_TASK]
    tested = np.unique(np.concatenate(rows))
    if len(np.unique(tasks[tested])) >= MIN_UNITS:
        return tasks, "task"
    n_folds = len(rows)
    return tasks * (n_folds + 1) + _fold_of_rows(dataset, rows), "block"


def _measure(metric: str) -> str:
    """Return what the verdict is on for a metric of the leaderboard."""
    needs = get_metric(metric).needs
    return (
        NMSE
        if needs == "value"
        else ERROR_RATE
        if needs == "label"
        else LOG_LOSS
        if metric == "log_loss"
        else AUC
    )


def _metric(name: str | None, dataset: Dataset) -> str:
    regression = dataset.task_type == "regression"
    if name is None and any(len(words) > 2 for words in dataset.labels.values()):
        return "log_loss"  # scores of classes are compared with each other, so their scale counts
    if name is None:
        return (
            "auc" if not regression else "nmse" if dataset.task_id is None else "rmse"
        )
    if (get_metric(name).needs == "value") != regression:
        fit = ", ".join(
            m.name for m in METRICS.values() if (m.needs == "value") == regression
        )
        kind = "numbers" if regression else "labels"
        raise ConfigError(
            f"the metric {name!r} cannot be computed for targets that are {kind}",
            f"Use one of: {fit}.",
        )
    if dataset.task_id is not None:
        return SHRUNKEN_METRICS.get(name, name)
    return name


def check_parts(dataset: Dataset, protocol: Protocol) -> None:
    """Refuse tasks, groups or times with which no method could be searched, fitted or tested.

    Raises
    ------
    DataError
        With a single task, or where no rows can be tested or held out in the search.
    """
    if dataset.n_tasks < 2:
        raise DataError(
            f"{dataset.title}: all rows belong to one task, {dataset.tasks[0]!r}: there is nothing to share",
            "Name another column with --task, add rows of more tasks, or train a single model with scikit-learn.",
        )
    if protocol.n_splits < 1:
        text, remedy = _NOTHING_TO_TEST[design_of(dataset)]
        raise DataError(f"{dataset.title}: {text}", remedy)
    if dataset.task_id is None and not dataset.source.keys() & SPLIT_KEYS:
        return
    trains = [protocol.rows(dataset, trial)[0] for trial in range(protocol.n_splits)]
    for train in [*trains, np.arange(dataset.n_samples)]:
        inside = dataset.subset(train)
        key = NEW_TASK if NEW_TASK in inside.source else GROUP
        if len(np.unique(inside.source.get(key, [0, 1]))) < 2:
            unit = "task" if key == NEW_TASK else "group"
            text = (
                f"all training rows belong to one {unit}, so parameters cannot be "
                "chosen on another one"
            )
            raise DataError(text, f"Choose another column with --{unit}.")
        if not list(fold_rows(inside, protocol.folds, protocol.seed)):
            raise _nothing_to_search(inside)


def _nothing_to_search(inside: Dataset) -> DataError:
    """Return the error for training rows without a fold to choose parameters on."""
    if TIME in inside.source or ORDER in inside.source:
        return DataError(
            "all training rows have the same time, so parameters cannot be chosen on "
            "later ones",
            "Choose another column with --time.",
        )
    if GROUP in inside.source:
        return DataError(
            "no task has rows of two groups among some training rows, so parameters "
            "cannot be chosen on other rows of known tasks",
            "Choose another column with --group, or --new-tasks, which tests whole "
            "tasks.",
        )
    return DataError(
        "no task has two training rows in some split, so parameters cannot be chosen on "
        "other rows of known tasks",
        _NOTHING_TO_TEST[NEW_ROWS][1],
    )


#: Questions that a comparison answers.
NEW_ROWS = "new rows of known tasks"
NEXT_ROWS = "next rows of known tasks"
TIME_BLOCKS = "later blocks of time"
NEW_TASKS = "new tasks"
TEST_FILE = "the rows of the test file"

#: Why nothing can be tested, and what helps.
_NOTHING_TO_TEST = {
    NEW_ROWS: (
        "no task has two rows, so none can be trained on and tested",
        "Are --target and --task swapped? --new-tasks tests whole tasks.",
    ),
    NEXT_ROWS: (
        "no task has rows at three different times: the last one to test, one before "
        "it to choose parameters on, and one to train on",
        "Choose another column with --time. --new-tasks tests whole tasks.",
    ),
    TIME_BLOCKS: (
        "no block of time has rows of tasks with earlier rows",
        "Choose another column with --time. --new-tasks tests whole tasks.",
    ),
    NEW_TASKS: ("there are too few tasks to leave some out", "Use more tasks."),
}


def design_of(dataset: Dataset) -> str:
    """Return which question a comparison on a data set answers."""
    if dataset.splits:
        return TEST_FILE
    if NEW_TASK in dataset.source:
        return NEW_TASKS
    if ORDER in dataset.source:
        return NEXT_ROWS
    if TIME in dataset.source:
        return TIME_BLOCKS
    return NEW_ROWS


def _question_fact(dataset: Dataset, protocol: Protocol) -> str:
    """Return one line that says which question is answered, and its baselines."""
    design = design_of(dataset)
    if design == TEST_FILE:
        return f"the question: {design}"
    others = {
        NEW_ROWS: "--time COLUMN asks about next rows, --new-tasks about new tasks",
        NEXT_ROWS: "without --time: other rows; --new-tasks: new tasks",
        TIME_BLOCKS: "without --time-blocks: the last rows of each task",
        NEW_TASKS: "without --new-tasks: new rows of known tasks",
    }[design]
    baselines = {
        NEW_ROWS: "",
        NEXT_ROWS: "; baselines: the last value of the task, and with drift",
        TIME_BLOCKS: "; baselines: the last value of the task, and with drift",
        NEW_TASKS: (
            "; baselines: one model for all tasks (PooledRidge), the mean of the "
            "models of all tasks (Independent...), the mean of all tasks (TaskMean)"
        ),
    }[design]
    if dataset.task_id is None and design == NEW_ROWS:
        others = "--time COLUMN asks about later rows"
    return f"the question: {design}{baselines} ({others})"


def _untested_fact(dataset: Dataset, protocol: Protocol) -> list[str]:
    """Return a line about tasks and rows that are trained on, but never tested."""
    if dataset.task_id is None or dataset.splits:
        return []
    parts = [protocol.rows(dataset, trial)[1] for trial in range(protocol.n_splits)]
    tested = np.unique(np.concatenate(parts))
    n_tasks = len(np.unique(dataset.task_id[tested]))
    n_untested = dataset.n_tasks - n_tasks
    n_rows = dataset.n_samples - len(tested)
    if not n_rows:
        return []
    tasks = ""
    if n_untested:
        tasks = (
            f" of {counted(n_tasks, 'task')}; the other {counted(n_untested, 'task')}"
        )
        verb = "has" if n_untested == 1 else "have"
        tasks += f" {verb} no row that can be tested"
    return [
        f"{len(tested):,} of {counted(dataset.n_samples, 'row')} are tested{tasks}; "
        "all rows are trained on in the saved model"
    ]


def facts_of(
    dataset: Dataset, protocol: Protocol, roles: Roles, candidates: list[Candidate]
) -> list[str]:
    """Return what is compared on what, in sentences."""
    design = (
        "all tasks share the same rows"
        if dataset.task_id is None
        else "every row belongs to one task"
    )
    sizes = sizes_of(dataset)
    low, high = min(sizes), max(sizes)
    per_task = counted(high, "target") if low == high else f"{low} to {high} targets"
    found = [
        f"{dataset.title}: {counted(dataset.n_samples, 'row')}, {counted(dataset.n_features, 'feature')}, "
        f"{counted(dataset.n_tasks, 'task')} ({dataset.task_type}; {design}; {per_task} per task)",
        *dataset.notes.splitlines(),
    ]
    missing = int(np.isnan(dataset.y).sum())
    if missing:
        found.append(
            f"{counted(missing, 'missing target')} left out of fits and scores"
        )
    found.append(
        f"features, learned on the training rows only: {_preprocessing(dataset)}"
    )
    if dataset.task_type == "regression":
        found.append(
            "targets are standardized inside every fit; scores and coefficients are in original units"
        )
    if roles.transform:
        found.append(
            f"methods predict the {roles.transform} of the target: scores and gains are "
            "on that scale; predictions are medians in the units of the target, and so "
            "are intervals"
        )
    if roles.weight:
        found.append(
            f"rows are weighted by {roles.weight!r}, normalized to mean 1, in fits and "
            "scores"
        )
    if protocol.metric in SHRUNKEN_METRICS.values():
        found.append(
            f"{protocol.metric}: errors in units of the variance of the task, that of "
            "small tasks shrunken towards the average, as in the gain"
        )
    found.append(_question_fact(dataset, protocol))
    found.append(_split_fact(dataset, protocol, roles))
    found += _untested_fact(dataset, protocol)
    if protocol.split["kind"] == "kfold":
        sentence = short_tasks(dataset, protocol.split["folds"])
        found += [sentence] if sentence else []
    found.append(
        f"parameters are chosen by {protocol.folds}-fold cross-validation on the training rows"
    )
    found += _level_facts(dataset, roles, candidates)
    if roles.unseen == "mean":
        found.append(
            "tasks without training rows are predicted with the mean of all task models"
        )
    found += [
        f"{family}: {', '.join(names)}"
        for family, names in _families(candidates).items()
    ]
    trees = [c.label for c in candidates if c.label in TREES[2:]]
    if trees and dataset.n_samples > MAX_TREE_ROWS:
        found.append(f"{' and '.join(trees)}: each tree uses {MAX_TREE_ROWS:,} rows")
    found += [candidate.note for candidate in candidates if candidate.note]
    halved = [c.label for c in candidates if c.halving]
    if halved:
        found.append(
            f"{' and '.join(halved)}: after every fold of the search only the better half of the values goes on"
        )
    return found


def _level_facts(
    dataset: Dataset, roles: Roles, candidates: list[Candidate]
) -> list[str]:
    """Return what the further groups are, and which methods use them."""
    nested = nested_levels(dataset)
    users = listed([c.label for c in candidates if c.features == TABLE_WITH_LEVELS])
    lines = []
    for name, codes in dataset.levels.items():
        n_groups = counted(len(np.unique(codes)), "group")
        how = "nested in" if name in nested else "crossed with"
        line = f"{n_groups} of {name!r} are {how} the tasks; used by {users} alone"
        if name == roles.group:
            line += "; tested rows are of groups without training rows"
        lines.append(line)
    return lines


def _families(candidates: list[Candidate]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for candidate in candidates:
        found.setdefault(candidate.family, []).append(candidate.label)
    return found


def _split_fact(dataset: Dataset, protocol: Protocol, roles: Roles) -> str:
    folds = protocol.n_splits // protocol.repeats
    if protocol.split.get("name") == TEST_SPLIT:
        return "one split: the rows of the test file are tested"
    if NEW_TASK in dataset.source:
        return (
            f"{folds}-fold cross-validation over tasks, "
            f"{counted(protocol.repeats, 'repeat')}: whole tasks are left out"
        )
    if ORDER in dataset.source:
        return (
            f"{counted(folds, 'fold')} by {roles.time!r}: the last rows of each task are "
            "tested after training on its earlier ones"
        )
    if TIME in dataset.source:
        return f"{counted(folds, 'block')} of time by {roles.time!r}, each tested after training on all earlier rows"
    how = f"{folds}-fold cross-validation, {counted(protocol.repeats, 'repeat')}"
    if GROUP in dataset.source:
        return f"{how}; rows with the same {roles.group!r} stay together"
    return how + (
        ""
        if dataset.task_id is None
        else ", with the same share of every task in every fold"
    )


def _preprocessing(dataset: Dataset) -> str:
    if sparse.issparse(dataset.X):
        return "scaled by the largest absolute value (sparse)"
    gaps = [
        n
        for n, bad in zip(
            dataset.features, np.isnan(dataset.X).any(axis=0), strict=True
        )
        if bad
    ]
    numeric = [name for name in gaps if name not in dataset.categories]
    steps = []
    if numeric:
        steps.append(
            f"missing values in {counted(len(numeric), 'column')} imputed (median) and flagged ({listed(numeric)})"
        )
    steps.append("numeric columns standardized")
    if dataset.categories:
        columns = counted(len(dataset.categories), "text column")
        steps.append(f"{columns} one-hot encoded ({listed(list(dataset.categories))})")
    return ", ".join(steps)


def sizes_of(dataset: Dataset) -> list[int]:
    """Return the number of targets of every task."""
    return [int(n) for n in dataset.sum_by_task(~np.isnan(dataset.y))]
