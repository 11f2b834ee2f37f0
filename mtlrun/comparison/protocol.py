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
    NMSE,
    SMALLEST,
    SMALLEST_AUC,
    Evaluation,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.roles import TEST_SPLIT, Roles
from mtlrun.data.splits import (
    GROUP,
    TIME,
    WEIGHT,
    fold_rows,
    short_tasks,
    split_rows,
)
from mtlrun.engine.evaluation import one_class
from mtlrun.engine.job import purpose_of
from mtlrun.errors import ConfigError, DataError, counted, listed
from mtlrun.metrics import METRICS, get_metric
from mtlrun.utils.io import derive_seed


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
        if GROUP in dataset.source or TIME in dataset.source:
            n = len(list(fold_rows(dataset, options.splits, options.seed)))
        repeats = 1 if TIME in dataset.source else options.repeats
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

    def evaluation(self, dataset: Dataset) -> Evaluation:
        """Return which rows are tested, and what gains are measured in."""
        parts = [self.rows(dataset, trial) for trial in range(self.n_splits)]
        rows = [test for _, test in parts]
        ids, units = dataset.task_id, dataset.source.get(GROUP)
        new = [
            np.zeros(len(test), dtype=bool)
            if ids is None
            else ~np.isin(ids[test], ids[train])
            for train, test in parts
        ]
        has_time_blocks = TIME in dataset.source and not dataset.splits
        if has_time_blocks:
            units = np.full(dataset.n_samples, -1)
            for number, test in enumerate(rows):
                units[test] = number
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
            if measure == AUC
            else [],
        )

    def rows(self, dataset: Dataset, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows of a split."""
        purpose = purpose_of(self.split["kind"], self.split.get("folds"), trial)
        seed = derive_seed(self.seed, dataset.id, *purpose)
        train, _, test = split_rows(dataset, **self.split, trial=trial, seed=seed)
        return train, test


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
    return name


def check_parts(dataset: Dataset, protocol: Protocol, unseen: str) -> None:
    """Refuse tasks, groups or times with which no method could be searched, fitted or tested.

    Raises
    ------
    DataError
        With a single task, where training rows make no folds, or, unless `unseen` is ``"mean"``, where a task is tested
        without training rows.
    """
    if dataset.n_tasks < 2:
        raise DataError(
            f"{dataset.title}: all rows belong to one task, {dataset.tasks[0]!r}: there is nothing to share",
            "Name another column with --task, add rows of more tasks, or train a single model with scikit-learn.",
        )
    if not dataset.source.keys() & {GROUP, TIME}:
        return
    splits = [protocol.rows(dataset, trial) for trial in range(protocol.n_splits)]
    for train in [train for train, _ in splits] + [np.arange(dataset.n_samples)]:
        inside = dataset.subset(train)
        if len(np.unique(inside.source.get(GROUP, [0, 1]))) < 2:
            text = "all training rows belong to one group, so parameters cannot be chosen on another one"
            raise DataError(text, "Choose another column with --group.")
        folds = [
            (train[a], train[b])
            for a, b in fold_rows(inside, protocol.folds, protocol.seed)
        ]
        if not folds:
            text = "all training rows have the same time, so parameters cannot be chosen on later ones"
            raise DataError(text, "Choose another column with --time.")
        splits += folds
    if dataset.task_id is None or unseen == "mean":
        return
    new = [
        np.setdiff1d(dataset.task_id[test], dataset.task_id[train])
        for train, test in splits
    ]
    names = [dataset.tasks[t] for t in sorted(set(np.concatenate(new).tolist()))]
    if names:
        remedy = "Add --unseen mean to predict them with the mean of all task models."
        if GROUP in dataset.source:
            remedy += " To be fitted in every split a task needs three groups."
        raise DataError(
            f"{len(names)} of {dataset.n_tasks} tasks have no training rows in some split or fold: {listed(names)}",
            remedy,
        )


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
    if roles.weight:
        found.append(
            f"rows are weighted by {roles.weight!r}, normalized to mean 1, in fits and "
            "scores"
        )
    found.append(_split_fact(dataset, protocol, roles))
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
    users = listed([candidate.label for candidate in candidates if candidate.features])
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
