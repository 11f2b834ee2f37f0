"""The same learner with and without sharing: the jobs of ``atlas/pairs``.

A job has one table, one learner and one seed. It trains the methods of the learner on a
growing number of rows per task and records their errors. The experiment names the
methods and their levels of sharing:

* ``none``: a model per task;
* ``partial``: a model per task that learns from the other tasks;
* ``full``: one model for all tasks, at most with a level of its own for each task.

Folds, search and errors agree with `compare`. An error is the mean squared error in
units of the variance of the task, or 1 - AUC.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, analysis
from mtlrun.comparison.candidates import (
    Candidate,
    default_candidates,
    with_unseen,
)
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import Gain
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.schedule import ComparisonJobs
from mtlrun.comparison.verdict import (
    CANNOT_TELL,
    HELPS,
    INDEPENDENT,
    MIN_UNITS,
    MULTITASK,
    NO_DIFFERENCE,
    POOLED,
    SAFE,
    WORSE,
    Strategy,
    judge,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import NEW_TASK
from mtlrun.engine.record import Record
from mtlrun.errors import ConfigError, DataError, one_line
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.papers.atlas.gain import (
    evaluate_split,
    protocol_of,
    with_splits,
)
from mtlrun.show.quantities import AUC

#: Levels of sharing, and the family that a method of each belongs to in `compare`.
FAMILY_OF_LEVEL = {"none": INDEPENDENT, "partial": MULTITASK, "full": POOLED}
LEVELS = tuple(FAMILY_OF_LEVEL)
#: Name of the method of a level that the inner scores select in each fold.
SELECTED = "selected"
#: Name of the units where whole tasks are tested.
TASK_UNIT = "task"
#: Fewer new tasks have no mean error.
MIN_NEW_TASKS = 6
#: Columns of the table of a record.
COLUMNS = ["rows", "method", "sharing", "error", "inner", "seconds"]
#: Smallest error that a ratio is taken of: an AUC of 1 has no logarithm of its error.
SMALLEST_ERROR = 1e-4
#: Verdicts of `compare`, by the number that stands for each in a record.
DECISIONS = (HELPS, NO_DIFFERENCE, WORSE, CANNOT_TELL, SAFE)
#: Digits of the numbers of the table, to keep records small.
DIGITS = 5

_TABULAR = "mtlrun.estimators.baselines"
_TREES = "mtlrun.papers.atlas.trees"
_SCALED = f"{_TABULAR}:{ScaledTargets.__name__}"

#: Trees that only this module has, not `compare`. They are grown alike in all learners.
TREES_PER_TASK = "Trees"
TREES_WITH_TASK = "Trees+Task"
TREES_WITHOUT_TASK = "PooledTrees"
FOREST_PER_TASK = "ExtraTrees"
FOREST_OF_ALL = "MultiOutputExtraTrees"
_FOREST = {"n_estimators": 100, "min_samples_leaf": 3, "random_state": 0}


@dataclass(frozen=True)
class Setting:
    """Data and protocol on which the methods are trained and tested.

    Attributes
    ----------
    data : Dataset
    protocol : Protocol
    evaluation : Evaluation
    train_share : float
        Share of the rows that the first split trains on.
    """

    data: Dataset
    protocol: Protocol
    evaluation: Evaluation
    train_share: float


@analysis(
    {
        "partial": "mean over the numbers of rows of log(error without sharing / error "
        "with partial sharing); 0.01 is 1% less error",
        "full": "the same for full sharing",
        "settings": "numbers of training rows per task that the table has rows for",
        "processor_seconds": "processor seconds of all methods",
    },
    name="atlas-pairs",
    higher=["partial", "full"],
    varies=["processor_seconds"],
)
def pairs(
    dataset: Dataset,
    *,
    seed: int,
    learner: str,
    sharing: Mapping[str, str],
    rows: Sequence[int],
    folds: int = 5,
    search: int = 3,
    new_tasks: bool = False,
) -> AnalysisResult:
    """Train a learner with and without sharing on growing numbers of rows per task.

    Numbers of rows that less than half of the tasks have are left out.

    Parameters
    ----------
    dataset : Dataset
        Regression or two labels.
    seed : int
        Seed of folds, rows and methods.
    learner : str
        Name of the learner, for reports.
    sharing : dict of str to {"none", "partial", "full"}
        Method of the learner -> its level of sharing. Classifiers have the names of the
        models. Methods that a table cannot have are left out.
    rows : sequence of int
        Training rows of a task, in ascending order.
    folds, search : int, default 5 and 3
        Folds that are tested in turn, and folds of the search inside the training rows.
    new_tasks : bool, default False
        Test on tasks without training rows instead.

    Raises
    ------
    DataError
        If the table does not have enough rows for any of these numbers.
    ConfigError
        If a level of sharing has another name.
    """
    unknown = sorted(set(sharing.values()) - set(LEVELS))
    if unknown:
        raise ConfigError(
            f"sharing {unknown[0]!r} of learner {learner!r} is no level",
            f"Levels are {', '.join(LEVELS)}.",
        )
    table: list[list[Any]] = []
    lines: list[str] = []
    gains: dict[str, list[float]] = {"partial": [], "full": []}
    seconds = 0.0
    for n_rows in rows:
        try:
            setting = make_setting(dataset, n_rows, folds, search, seed, new_tasks)
        except DataError as error:
            lines.append(error.message)
            break
        methods = evaluate(setting, sharing)
        seconds += sum(sum(method.seconds) for method, _ in methods)
        for method, _ in methods:
            if method.failures:
                lines.append(
                    f"{n_rows} rows: {method.label} failed in {len(method.failures)} "
                    f"folds: {method.errors[0]}"
                )
        errors = error_table(setting, methods)
        if not errors:
            lines.append(f"{n_rows} rows: too few tasks or methods can be compared")
            continue
        table += [[n_rows, *line] for line in errors]
        selected = {}
        for name, level, level_error, *_ in errors:
            if name == SELECTED:
                selected[level] = level_error
        for level, level_gains in gains.items():
            if level in selected and "none" in selected:
                level_gains.append(log_ratio(selected["none"], selected[level]))
    if not table:
        raise DataError(
            f"{dataset.id}: no number of rows can be compared: {lines[-1]}",
            "Leave the table out, or use fewer rows per task.",
        )
    n_settings = len({line[0] for line in table})
    values = {
        "partial": _mean(gains["partial"]),
        "full": _mean(gains["full"]),
        "settings": float(n_settings),
        "processor_seconds": seconds,
    }
    return AnalysisResult(
        values, lines=lines, tables={"errors": {"columns": COLUMNS, "rows": table}}
    )


def log_ratio(without: float, with_sharing: float) -> float:
    """Return log(error without / error with sharing): positive where sharing helps."""
    return math.log(max(without, SMALLEST_ERROR) / max(with_sharing, SMALLEST_ERROR))


def make_setting(
    dataset: Dataset, rows: int, folds: int, search: int, seed: int, new_tasks: bool
) -> Setting:
    """Return a table with `rows` training rows per task in each fold.

    Raises
    ------
    DataError
        If less than half of the tasks have enough rows, or if tasks that share their
        rows are to be tested as new tasks.
    """
    if new_tasks:
        if dataset.task_id is None:
            raise DataError(
                f"{dataset.id}: targets of the same rows have no new tasks",
                "Use a table with groups.",
            )
        source = {**dataset.source, NEW_TASK: dataset.task_id}
        dataset = replace(dataset, source=source)
    data, first_train = with_splits(dataset, rows, folds, seed)
    protocol = protocol_of(data, folds, search, seed)
    evaluation = replace(protocol.evaluation(data), has_test_file=False)
    if new_tasks:
        row_index = replace(evaluation.row_index, units=evaluation.row_index.task_id)
        evaluation = replace(
            evaluation,
            row_index=row_index,
            new=[np.zeros(len(rows), dtype=bool) for rows in evaluation.rows],
            is_single_class=[],
            unit=TASK_UNIT,
        )
    return Setting(data, protocol, evaluation, len(first_train) / data.n_samples)


def candidates_of(setting: Setting, sharing: Mapping[str, str]) -> list[Candidate]:
    """Return the methods that a table can have, in the order of `sharing`.

    A table can have the methods that `compare` tries by default, and trees.
    """
    data = setting.data
    available = {}
    for candidate in default_candidates(data, setting.train_share):
        available[candidate.label.removesuffix("Classifier")] = candidate
    available |= tree_candidates(data)
    candidates = []
    for name, level in sharing.items():
        if name not in available:
            continue
        candidate = replace(
            available[name],
            label=name,
            family=FAMILY_OF_LEVEL[level],
            halving=False,
        )
        if NEW_TASK in data.source:
            candidate = with_unseen(candidate, "mean")
        candidates.append(candidate)
    return candidates


def tree_candidates(data: Dataset) -> dict[str, Candidate]:
    """Return the trees of this module that a table can have, by name."""
    is_binary = data.task_type == "binary"
    kind = "Classifier" if is_binary else "Regressor"
    boosted: dict[str, Any] = {"estimator": f"{_TREES}:StoppedTrees{kind}"}
    with_task = {**boosted, "params": {"categorical_features": [0]}}
    forest_features: str | float = "sqrt" if is_binary else 0.33
    forest_params = {**_FOREST, "max_features": forest_features}
    # Labels -1 and +1 are numbers here; the trees are the same as a classifier's.
    forest_path = "sklearn.ensemble:ExtraTreesRegressor"
    forest = {"estimator": forest_path, "params": forest_params}
    per_task = f"{_TABULAR}:PerTask"
    task_feature = f"{_TABULAR}:TaskFeature"
    specs: dict[str, tuple[str, dict[str, Any]]] = {
        TREES_PER_TASK: (per_task, {"estimator": boosted}),
        TREES_WITH_TASK: (
            task_feature,
            {"estimator": with_task, "encoding": "number"},
        ),
    }
    if data.task_id is not None:
        specs[TREES_WITHOUT_TASK] = (f"{_TREES}:WithoutTask", {"estimator": boosted})
    elif not (data.y != data.y).any():
        specs[FOREST_PER_TASK] = (per_task, {"estimator": forest})
        specs[FOREST_OF_ALL] = (forest_path, forest_params)
    candidates = {}
    for name, (estimator, params) in specs.items():
        candidate = Candidate(name, INDEPENDENT, estimator, params)
        if not is_binary:
            inner = {"estimator": estimator, "params": params}
            candidate = replace(
                candidate, estimator=_SCALED, params={"estimator": inner}
            )
        candidates[name] = candidate
    return candidates


def evaluate(
    setting: Setting, sharing: Mapping[str, str]
) -> list[tuple[ComparedMethod, str]]:
    """Fit and score the methods in each fold.

    Their seconds are processor time, so that other work on the machine does not count.
    A method that fails in a fold has no losses there.

    Returns
    -------
    list of (ComparedMethod, str)
        Each method with its level of sharing.
    """
    jobs = ComparisonJobs(setting.protocol, setting.data)
    methods = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for candidate in candidates_of(setting, sharing):
            method = ComparedMethod(candidate.label, candidate.family)
            seconds = []
            for split in range(setting.protocol.n_splits):
                start = time.process_time()
                searched: dict[str, Record] = {}
                try:
                    job = jobs.job(candidate, split)
                    evaluate_split(
                        method, split, job, setting.data, setting.evaluation, searched
                    )
                except Exception as error:
                    # As in `compare`, a failure is part of the result.
                    method.failures[split] = one_line(error)
                seconds.append(time.process_time() - start)
            # `evaluate_split` has added elapsed seconds.
            method.seconds = seconds
            methods.append((method, sharing[candidate.label]))
    return methods


def error_table(
    setting: Setting, methods: Sequence[tuple[ComparedMethod, str]]
) -> list[list[Any]]:
    """Return a line per method: name, level, error, inner score and seconds.

    Each level also has a line for the method that the inner scores select in each fold.
    The table is empty if too few tasks or rows can be compared.
    """
    evaluation = setting.evaluation
    splits = range(setting.protocol.n_splits)
    lines: list[list[Any]] = []
    for method, level in methods:
        error = error_of(evaluation, method.losses)
        if error is None or len(method.losses) < len(splits):
            continue
        inner = _mean([method.inner.get(split, math.nan) for split in splits])
        lines.append([method.label, level, error, inner, sum(method.seconds)])
    for level in LEVELS:
        members = [method for method, method_level in methods if method_level == level]
        strategy = Strategy.of(members, splits)
        if strategy is None:
            continue
        error = error_of(evaluation, strategy.losses)
        if error is None:
            continue
        inner = _mean([_selected_score(members, strategy, split) for split in splits])
        seconds = sum(sum(method.seconds) for method in members)
        lines.append([SELECTED, level, error, inner, seconds])
    rounded = []
    for name, level, *numbers in lines:
        rounded.append([name, level, *[_rounded(number) for number in numbers]])
    return rounded


def error_of(evaluation: Evaluation, losses: Mapping[int, Any]) -> float | None:
    """Return the mean error over the tasks; None if most tasks are undefined."""
    # The gain of a method over itself has its error on both sides.
    gain: Gain | None = evaluation.gain(losses, losses, 1)
    min_units = MIN_UNITS
    if evaluation.unit == TASK_UNIT:
        min_units = MIN_NEW_TASKS
    if gain is None or gain.units < min_units:
        return None
    n_undefined = len(gain.tasks) - gain.better[1]
    if n_undefined > len(gain.tasks) / 2 or math.isnan(gain.first):
        return None
    if evaluation.measure == AUC:
        return 1 - gain.first
    return gain.first


def _selected_score(
    members: Sequence[ComparedMethod], strategy: Strategy, split: int
) -> float:
    """Return the inner score of the method that is selected in a fold."""
    label = strategy.selected[split]
    return next(method.inner[split] for method in members if method.label == label)


def _mean(values: Sequence[float]) -> float:
    """Return the mean; NaN without values."""
    return sum(values) / len(values) if values else math.nan


def _rounded(value: float) -> float | None:
    """Return a number with `DIGITS` significant digits; None for NaN."""
    if math.isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}")


# ---------------------------------------------------------------- verdicts of compare


@analysis(
    {
        "gain": "relative reduction of the error over the closer alternative",
        "low": "lower bound of the verdict",
        "high": "upper bound of the verdict",
        "decision": f"verdict of compare: its place in {', '.join(DECISIONS)}",
        "processor_seconds": "processor seconds of all methods",
    },
    name="atlas-verdict",
    higher=["gain", "low", "high"],
    changes=[
        "bounds are one-sided, with the numbers of training and test rows",
        "hierarchical models of few tasks have the variances of REML, and the noise of "
        "their tasks may differ",
    ],
    varies=["processor_seconds"],
)
def verdict(
    dataset: Dataset,
    *,
    seed: int,
    rows: int,
    sharing: Mapping[str, str],
    folds: int = 5,
    search: int = 3,
) -> AnalysisResult:
    """Return the verdict of `compare` on a table with few training rows per task.

    Each seed draws folds and rows anew, so the verdict of one seed can be compared with
    the gains of the others. Gains of the AUC are divided by the error of the
    alternative.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of folds, rows and methods.
    rows : int
        Training rows of a task.
    sharing : dict of str to {"none", "partial", "full"}
        Method -> its level of sharing. Methods that a table cannot have are left out.
    folds, search : int, default 5 and 3
        Folds that are tested in turn, and folds of the search inside the training rows.

    Raises
    ------
    DataError
        If there is no verdict, or if less than half of the tasks have enough rows.
    """
    setting = make_setting(dataset, rows, folds, search, seed, new_tasks=False)
    methods = [method for method, _ in evaluate(setting, sharing)]
    judged = judge(methods, setting.evaluation)
    gain = judged.gain
    if gain is None:
        raise DataError(
            f"{dataset.id} has no verdict: {judged.sentence}", "Leave it out."
        )
    scale = 1.0
    if setting.evaluation.measure == AUC:
        scale = 1 / max(1 - gain.second, SMALLEST_ERROR)
    values = {
        "gain": scale * gain.value,
        "low": scale * gain.low,
        "high": scale * gain.high,
        "decision": float(DECISIONS.index(judged.decision)),
        "processor_seconds": sum(sum(method.seconds) for method in methods),
    }
    return AnalysisResult(values, lines=[judged.sentence])
