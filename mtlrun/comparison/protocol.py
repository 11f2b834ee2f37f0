"""Protocol of a comparison: splits, metric and measure, and sentences about them.

The protocol follows from the table and the options. `facts_of` describes it for users.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from mtlrun.comparison.candidates import (
    FORESTS,
    MAX_TREE_ROWS,
    Candidate,
    nested_levels,
)
from mtlrun.comparison.evaluation import ERROR_RATE, LOG_LOSS, Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.options import SPLITS, CompareOptions
from mtlrun.comparison.verdict import (
    MARGIN,
    MARGIN_AUC,
    MIN_UNITS,
    SMALLEST,
    SMALLEST_AUC,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.roles.make import TEST_SPLIT
from mtlrun.data.roles.roles import Roles
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
from mtlrun.engine.job import TABLE_WITH_LEVELS, Split, split_seed
from mtlrun.errors import ConfigError, DataError, counted, listed
from mtlrun.metrics.registry import METRICS, get_metric
from mtlrun.show.quantities import AUC, NMSE
from mtlrun.utils.io import stored_fields


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Attributes
    ----------
    split : Split
        Of the kind ``kfold``, with a number of folds, or ``published``, with the name
        of a split of the data set. Each split has its trial and seed.
    n_splits : int
        Number of splits of all repeats.
    n_inner_folds : int
        Number of folds of the search inside the training rows.
    metric : str
        Metric of the leaderboard.
    seed : int
    n_repeats : int
        How often the folds of the comparison are drawn.
    smallest : float or None
        Smallest gain of interest.
    has_all_partitions : bool
        Whether another repeat would have the folds of an earlier one, as where each
        fold is a single task, group or row.
    margin : float or None
        Loss that is accepted for a model that may be better.
    """

    split: Split
    n_splits: int
    n_inner_folds: int
    metric: str
    seed: int
    n_repeats: int = 1
    smallest: float | None = None
    has_all_partitions: bool = False
    margin: float | None = None

    @classmethod
    def of(cls, dataset: Dataset, options: CompareOptions) -> Protocol:
        """Return the protocol for a data set.

        It depends on the size of the data and on the options, but not on any score.

        Raises
        ------
        ConfigError
            If the metric cannot be computed for the targets.
        """
        protocol = cls(
            split=Split("kfold", folds=options.splits),
            n_splits=1,
            n_inner_folds=options.folds,
            metric=_metric(options.metric, dataset),
            seed=options.seed,
            smallest=options.smallest_gain,
            margin=options.margin,
        )
        protocol = protocol._with_splits(dataset, options)
        is_auc = protocol.metric == "auc" and options.metric is None
        if is_auc and protocol.lacks_auc(dataset):
            return replace(protocol, metric="log_loss")
        return protocol

    def _with_splits(self, dataset: Dataset, options: CompareOptions) -> Protocol:
        """Return the protocol with its folds and repeats, or with the test file."""
        if dataset.splits:
            name, splits = next(iter(dataset.splits.items()))
            split = Split("published", name=name)
            return replace(self, split=split, n_splits=len(splits))
        if ORDER in dataset.source:
            # Later folds have fewer training rows, in which nothing can be searched.
            n_folds = 0
            folds = fold_rows(dataset, options.splits, options.seed)
            for fold, (train, _) in enumerate(folds, 1):
                train_data = dataset.subset(train)
                if not list(fold_rows(train_data, options.folds, options.seed)):
                    break
                n_folds = fold
        elif dataset.task_id is not None or dataset.source.keys() & SPLIT_KEYS:
            n_folds = len(list(fold_rows(dataset, options.splits, options.seed)))
        else:
            n_folds = min(options.splits, dataset.n_samples)
        protocol = replace(
            self,
            split=Split("kfold", folds=max(n_folds, 2)),
            n_splits=n_folds,
        )
        if n_folds < 2 or dataset.source.keys() & {TIME, ORDER}:
            return protocol
        partitions = set()
        for repeat in range(options.repeats):
            seed = protocol._split_seed(dataset, repeat * n_folds)
            repeated_folds = fold_rows(dataset, n_folds, seed)
            partition = frozenset(test.tobytes() for _, test in repeated_folds)
            # The same folds, counted twice, would only narrow the intervals.
            if partition in partitions:
                break
            partitions.add(partition)
        n_repeats = len(partitions)
        return replace(
            protocol,
            n_splits=n_folds * n_repeats,
            n_repeats=n_repeats,
            has_all_partitions=n_repeats < options.repeats,
        )

    def lacks_auc(self, dataset: Dataset) -> bool:
        """Whether the AUC of most tasks is undefined, as of tasks with few rows.

        It is undefined where no test part has rows of both classes.
        """
        if dataset.task_type == "regression" or dataset.task_id is None:
            return False
        has_auc = np.zeros(dataset.n_tasks, dtype=bool)
        for trial in range(self.n_splits):
            _, test = self.rows(dataset, trial)
            has_auc |= ~one_class(dataset.subset(test))
        return bool(np.mean(has_auc) < 0.5)

    @property
    def train(self) -> float:
        """Approximate share of the rows that is trained on."""
        folds = self.split.folds or SPLITS
        return (1 - 1 / float(folds)) * self.train_share

    @property
    def train_share(self) -> float:
        """Share of the training rows of each task that is trained on."""
        return 1.0 if self.split.train is None else float(self.split.train)

    def with_train_share(self, share: float) -> Protocol:
        """Return the protocol with a share of the training rows of each task."""
        if share == 1:
            return self
        return replace(self, split=replace(self.split, train=share))

    def evaluation(self, dataset: Dataset) -> Evaluation:
        """Return which rows are tested, and the measure of gains."""
        parts = [self.rows(dataset, trial) for trial in range(self.n_splits)]
        test_rows = [test for _, test in parts]
        design = question_of(dataset)
        units, unit_name = _units(dataset, test_rows)
        needs = get_metric(self.metric).needs
        default_smallest = SMALLEST
        default_margin = MARGIN
        if needs == "value":
            measure = NMSE
        elif needs == "label":
            measure = ERROR_RATE
        elif self.metric == "log_loss":
            measure = LOG_LOSS
        else:
            measure = AUC
            default_smallest = SMALLEST_AUC
            default_margin = MARGIN_AUC
        is_new = []
        for train, test in parts:
            if dataset.task_id is None or design == NEW_TASKS:
                # Where new tasks are the question, they count.
                is_new.append(np.zeros(len(test), dtype=bool))
            else:
                tasks = dataset.task_id
                is_new.append(~np.isin(tasks[test], tasks[train]))
        is_single_class = []
        if measure == AUC and design != NEW_TASKS:
            is_single_class = [one_class(dataset.subset(train)) for train, _ in parts]
        return Evaluation(
            y=np.asarray(dataset.y, dtype=float),
            row_index=RowIndex(
                n_tasks=dataset.n_tasks,
                task_id=dataset.task_id,
                # Rows of a test file are all tested by the same models.
                units=None if dataset.splits else units,
                weights=dataset.source.get(WEIGHT),
            ),
            rows=test_rows,
            new=is_new,
            n_folds=self.n_splits // self.n_repeats,
            n_repeats=self.n_repeats,
            measure=measure,
            smallest=default_smallest if self.smallest is None else self.smallest,
            margin=default_margin if self.margin is None else self.margin,
            n_train=[len(train) for train, _ in parts],
            train_share=self.train_share,
            has_test_file=bool(dataset.splits),
            has_time_blocks=design == TIME_BLOCKS,
            metric=self.metric,
            is_single_class=is_single_class,
            unit=unit_name,
            has_one_order=design in (NEXT_ROWS, TIME_BLOCKS),
        )

    def rows(self, dataset: Dataset, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows of a split."""
        seed = self._split_seed(dataset, trial)
        split = replace(self.split, trial=trial, seed=seed)
        train, _, test = split_rows(dataset, **stored_fields(split))
        return train, test

    def _split_seed(self, dataset: Dataset, trial: int) -> int:
        """Return the seed of a split."""
        return split_seed(
            self.seed,
            dataset.id,
            kind=self.split.kind,
            folds=self.split.folds,
            trial=trial,
        )


def _units(
    dataset: Dataset, test_rows: list[np.ndarray]
) -> tuple[np.ndarray | None, str]:
    """Return the independent pieces of evidence, given the test rows of each split.

    Returns
    -------
    numbers : ndarray of int, shape (n_rows,), or None
        Unit of each row; None if each row is one.
    name : str
        What the units are; empty for rows.
    """
    design = question_of(dataset)
    if design == TIME_BLOCKS:
        return _fold_of_rows(dataset, test_rows), "block"
    if design == NEW_TASKS:
        return dataset.source[NEW_TASK], "task"
    if design == NEXT_ROWS:
        tasks = dataset.source[ORDER_TASK]
        tested = np.unique(np.concatenate(test_rows))
        if len(np.unique(tasks[tested])) >= MIN_UNITS:
            return tasks, "task"
        n_folds = len(test_rows)
        blocks = tasks * (n_folds + 1) + _fold_of_rows(dataset, test_rows)
        return blocks, "block"
    if GROUP in dataset.source:
        return dataset.source[GROUP], "group"
    return None, ""


def _fold_of_rows(dataset: Dataset, test_rows: list[np.ndarray]) -> np.ndarray:
    """Return the number of the fold that tests each row, -1 for untested rows."""
    fold_of_row = np.full(dataset.n_samples, -1)
    for fold, rows in enumerate(test_rows):
        fold_of_row[rows] = fold
    return fold_of_row


def _metric(name: str | None, dataset: Dataset) -> str:
    """Return the metric of the leaderboard; refuse a metric of other targets."""
    is_regression = dataset.task_type == "regression"
    if name is None:
        if any(len(words) > 2 for words in dataset.labels.values()):
            # Scores of several classes are compared with each other: their scale
            # counts.
            return "log_loss"
        if dataset.task_type != "regression":
            return "auc"
        if dataset.task_id is None:
            # Targets on the same rows have different units.
            return "nmse"
        return "rmse"
    if (get_metric(name).needs == "value") != is_regression:
        names = [
            metric.name
            for metric in METRICS.values()
            if (metric.needs == "value") == is_regression
        ]
        kind = "numbers" if is_regression else "labels"
        raise ConfigError(
            f"the metric {name!r} cannot be computed for targets that are {kind}",
            f"Use one of: {', '.join(names)}.",
        )
    if dataset.task_id is not None:
        return get_metric(name).shrunken or name
    return name


def check_parts(dataset: Dataset, protocol: Protocol) -> None:
    """Refuse data for which no method could be searched, fitted or tested.

    Raises
    ------
    DataError
        With a single task, or where no rows can be tested or held out in the search.
    """
    if dataset.n_tasks < 2:
        raise DataError(
            f"{dataset.title}: all rows belong to one task, {dataset.tasks[0]!r}: "
            "there is nothing to share",
            "Name another column with --task, add rows of more tasks, or train a "
            "single model with scikit-learn.",
        )
    if protocol.n_splits < 1:
        text, remedy = _NOTHING_TO_TEST[question_of(dataset)]
        if GROUP in dataset.source:
            text = (
                "no task has rows of two groups, so none can be trained on one and "
                "tested on another"
            )
            remedy = _OTHER_GROUPS
        raise DataError(f"{dataset.title}: {text}", remedy)
    if dataset.task_id is None and not dataset.source.keys() & SPLIT_KEYS:
        return
    train_rows = [
        protocol.rows(dataset, trial)[0] for trial in range(protocol.n_splits)
    ]
    # The final model is searched on all rows.
    all_rows = np.arange(dataset.n_samples)
    for rows in [*train_rows, all_rows]:
        train_data = dataset.subset(rows)
        key = GROUP
        unit = "group"
        if NEW_TASK in train_data.source:
            key = NEW_TASK
            unit = "task"
        if key in train_data.source and len(np.unique(train_data.source[key])) < 2:
            text = (
                f"all training rows belong to one {unit}, so parameters cannot be "
                "chosen on another one"
            )
            raise DataError(text, f"Choose another column with --{unit}.")
        if list(fold_rows(train_data, protocol.n_inner_folds, protocol.seed)):
            continue
        text = (
            "no task has two training rows in some split, so parameters cannot be "
            "chosen on other rows of known tasks"
        )
        remedy = _NOTHING_TO_TEST[NEW_ROWS][1]
        if TIME in train_data.source or ORDER in train_data.source:
            text = (
                "all training rows have the same time, so parameters cannot be chosen "
                "on later ones"
            )
            remedy = "Choose another column with --time."
        elif GROUP in train_data.source:
            text = (
                "no task has rows of two groups among some training rows, so "
                "parameters cannot be chosen on other rows of known tasks"
            )
            remedy = _OTHER_GROUPS
        raise DataError(text, remedy)


#: Questions that a comparison answers.
NEW_ROWS = "new rows of known tasks"
NEXT_ROWS = "next rows of known tasks"
TIME_BLOCKS = "later blocks of time"
NEW_TASKS = "new tasks"
TEST_FILE = "the rows of the test file"

#: Remedy where the rows of each task belong to one group.
_OTHER_GROUPS = (
    "Choose another column with --group, or --new-tasks, which tests whole tasks."
)

#: Question -> why nothing can be tested, and the remedy.
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


def question_of(dataset: Dataset) -> str:
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


def _question_fact(dataset: Dataset) -> str:
    """Return a line about the question that is answered, and its baselines."""
    design = question_of(dataset)
    if design == TEST_FILE:
        return f"the question: {design}"
    other_questions = {
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
        other_questions = "--time COLUMN asks about later rows"
    return f"the question: {design}{baselines} ({other_questions})"


def _untested_facts(dataset: Dataset, protocol: Protocol) -> list[str]:
    """Return a line about tasks and rows that are trained on, but never tested."""
    if dataset.task_id is None or dataset.splits:
        return []
    parts = [protocol.rows(dataset, trial)[1] for trial in range(protocol.n_splits)]
    tested = np.unique(np.concatenate(parts))
    if len(tested) == dataset.n_samples:
        return []
    n_tasks = len(np.unique(dataset.task_id[tested]))
    n_untested = dataset.n_tasks - n_tasks
    tasks = ""
    if n_untested:
        verb = "has" if n_untested == 1 else "have"
        tasks = (
            f" of {counted(n_tasks, 'task')}; the other {counted(n_untested, 'task')} "
            f"{verb} no row that can be tested"
        )
    return [
        f"{len(tested):,} of {counted(dataset.n_samples, 'row')} are tested{tasks}; "
        "all rows are trained on in the saved model"
    ]


def facts_of(
    dataset: Dataset, protocol: Protocol, roles: Roles, candidates: list[Candidate]
) -> list[str]:
    """Return sentences about the data, the protocol and the methods."""
    facts = _data_facts(dataset)
    if dataset.task_type == "regression":
        facts.append(
            "targets are standardized inside every fit; scores and coefficients are in "
            "original units"
        )
    if roles.transform:
        facts.append(
            f"methods predict the {roles.transform} of the target: scores and gains "
            "are on that scale; predictions are medians in the units of the target, and so "
            "are intervals"
        )
    if roles.weight:
        facts.append(
            f"rows are weighted by {roles.weight!r}, normalized to mean 1, in fits and "
            "scores"
        )
    if protocol.metric == "log_loss" and protocol.lacks_auc(dataset):
        facts.append(
            "the AUC of most tasks is undefined: no test part has both of their classes"
        )
    if get_metric(protocol.metric).shrinks_variance:
        facts.append(
            f"{protocol.metric}: errors in units of the variance of the task, that of "
            "small tasks shrunken towards the average, as in the gain"
        )
    facts += [_question_fact(dataset), _split_fact(dataset, protocol, roles)]
    facts += _untested_facts(dataset, protocol)
    if protocol.split.folds is not None:
        sentence = short_tasks(dataset, protocol.split.folds)
        if sentence:
            facts.append(sentence)
    facts.append(
        f"parameters are chosen by {protocol.n_inner_folds}-fold cross-validation on "
        "the training rows"
    )
    if dataset.levels:
        nested = nested_levels(dataset)
        users = listed([c.label for c in candidates if c.features == TABLE_WITH_LEVELS])
        for name, codes in dataset.levels.items():
            n_groups = counted(len(np.unique(codes)), "group")
            how = "nested in" if name in nested else "crossed with"
            line = f"{n_groups} of {name!r} are {how} the tasks; used by {users} alone"
            if name == roles.group:
                line += "; tested rows are of groups without training rows"
            facts.append(line)
    if roles.unseen == "mean":
        facts.append(
            "tasks without training rows are predicted with the mean of all task models"
        )
    labels_by_family: dict[str, list[str]] = {}
    for candidate in candidates:
        labels_by_family.setdefault(candidate.family, []).append(candidate.label)
    for family, labels in labels_by_family.items():
        facts.append(f"{family}: {', '.join(labels)}")
    forests = [c.label for c in candidates if c.label in FORESTS]
    if forests and dataset.n_samples > MAX_TREE_ROWS:
        facts.append(f"{' and '.join(forests)}: each tree uses {MAX_TREE_ROWS:,} rows")
    facts += [candidate.note for candidate in candidates if candidate.note]
    halved = [candidate.label for candidate in candidates if candidate.halving]
    if halved:
        facts.append(
            f"{' and '.join(halved)}: after every fold of the search only the better "
            "half of the values goes on"
        )
    return facts


def brief_facts(dataset: Dataset, candidates: list[Candidate]) -> list[str]:
    """Return the sentences of `facts_of` by which a wrong reading is noticed."""
    *data_facts, _ = _data_facts(dataset)
    n_methods = counted(len(candidates), "method")
    return [*data_facts, _question_fact(dataset), f"{n_methods} are compared"]


def _data_facts(dataset: Dataset) -> list[str]:
    """Return lines about the size of the data and the preprocessing."""
    layout = "all tasks share the same rows"
    if dataset.task_id is not None:
        layout = "every row belongs to one task"
    sizes = sizes_of(dataset)
    per_task = f"{min(sizes)} to {max(sizes)} targets"
    if min(sizes) == max(sizes):
        per_task = counted(max(sizes), "target")
    facts = [
        f"{dataset.title}: {counted(dataset.n_samples, 'row')}, "
        f"{counted(dataset.n_features, 'feature')}, {counted(dataset.n_tasks, 'task')} "
        f"({dataset.task_type}; {layout}; {per_task} per task)",
        *dataset.notes.splitlines(),
    ]
    n_missing = int(np.isnan(dataset.y).sum())
    if n_missing:
        missing = counted(n_missing, "missing target")
        facts.append(f"{missing} left out of fits and scores")
    if sparse.issparse(dataset.X):
        preprocessing = "scaled by the largest absolute value (sparse)"
    else:
        has_gaps = np.isnan(dataset.X).any(axis=0)
        names = [
            name
            for name, has_gap in zip(dataset.features, has_gaps, strict=True)
            if has_gap and name not in dataset.categories
        ]
        steps = []
        if names:
            columns = counted(len(names), "column")
            steps.append(
                f"missing values in {columns} imputed (median) and flagged "
                f"({listed(names)})"
            )
        steps.append("numeric columns standardized")
        if dataset.categories:
            columns = counted(len(dataset.categories), "text column")
            steps.append(
                f"{columns} one-hot encoded ({listed(list(dataset.categories))})"
            )
        preprocessing = ", ".join(steps)
    facts.append(f"features, learned on the training rows only: {preprocessing}")
    return facts


def _split_fact(dataset: Dataset, protocol: Protocol, roles: Roles) -> str:
    """Return a line about the splits of the comparison."""
    n_folds = protocol.n_splits // protocol.n_repeats
    repeats = counted(protocol.n_repeats, "repeat")
    if protocol.has_all_partitions:
        repeats += " (another one would have the same folds)"
    if protocol.split.name == TEST_SPLIT:
        return "one split: the rows of the test file are tested"
    if NEW_TASK in dataset.source:
        return (
            f"{n_folds}-fold cross-validation over tasks, {repeats}: whole tasks are "
            "left out"
        )
    if ORDER in dataset.source:
        return (
            f"{counted(n_folds, 'fold')} by {roles.time!r}: the last rows of each task "
            "are tested after training on its earlier ones"
        )
    if TIME in dataset.source:
        return (
            f"{counted(n_folds, 'block')} of time by {roles.time!r}, each tested after "
            "training on all earlier rows"
        )
    fact = f"{n_folds}-fold cross-validation, {repeats}"
    if GROUP in dataset.source:
        return f"{fact}; rows with the same {roles.group!r} stay together"
    if dataset.task_id is not None:
        fact += ", with the same share of every task in every fold"
    return fact


def sizes_of(dataset: Dataset) -> list[int]:
    """Return the number of targets of each task."""
    return [int(n) for n in dataset.sum_by_task(~np.isnan(dataset.y))]
