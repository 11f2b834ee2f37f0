"""What a comparison was asked for, the protocol that follows from it and the table, and both in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.data.dataset import Dataset
from mtlrun.data.roles import GROUP_SPLIT, TEST_SPLIT, TIME_SPLIT, Roles
from mtlrun.data.splits import GROUP, TIME, fold_rows, split_rows
from mtlrun.errors import ConfigError, DataError, counted, suggest
from mtlrun.metrics import METRICS, get_metric
from mtlrun.runs.candidates import MAX_TREE_ROWS, TREES, Candidate
from mtlrun.runs.experiment import Experiment
from mtlrun.runs.pool import Pool
from mtlrun.utils.seeds import derive_seed

#: Numbers in X times tasks up to which there are five splits, and up to which there are three; beyond, two.
MANY_SPLITS, SOME_SPLITS = 1_000_000, 5_000_000
FOLDS = 3
FEATURES = "table"


@dataclass(frozen=True)
class Settings:
    """Options of `compare` other than the roles of the columns.

    Attributes
    ----------
    methods : tuple of str
        Empty: the default methods.
    metric : str or None
        Default: AUC for labels, RMSE for one target in many tasks, normalised MSE for several targets.
    budget : float or None
        Minutes.
    splits, folds : int or None
        Number of random splits (default: depending on the size of the data) and of folds of the parameter search.
    train : float
        Fraction of the rows of every task to train on.
    seed, jobs : int
    retries : int
        How often a fit that fails is tried again.
    calibrate : bool
        Whether the saved classifier predicts probabilities.
    """

    methods: tuple[str, ...] = ()
    metric: str | None = None
    budget: float | None = None
    splits: int | None = None
    folds: int = FOLDS
    train: float = 0.7
    seed: int = 0
    jobs: int = 1
    retries: int = 0
    calibrate: bool = False

    def __post_init__(self) -> None:
        for name, low in (("splits", 1), ("folds", 2), ("seed", 0), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and not value >= low:
                raise ConfigError(f"{name} must be at least {low}, not {value:g}")
        if self.budget is not None and not self.budget > 0:  # also NaN
            raise ConfigError(f"budget must be more than 0 minutes, not {self.budget:g}")
        if not 0 < self.train < 1:
            raise ConfigError(f"train must be a fraction between 0 and 1, not {self.train:g}")
        Pool(self.jobs)  # refuses an impossible number of processes


def read_settings(options: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Return the settings, and the options that are roles of columns.

    Raises
    ------
    TypeError
        For an unknown option; names the nearest.
    ConfigError
        For an impossible value.
    """
    own = set(Settings.__dataclass_fields__)
    roles = set(Roles.__dataclass_fields__) - {"targets", "task", *own}
    for name in options:
        if name not in own | roles:
            near = suggest(name, own | roles)
            raise TypeError(f"compare has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    given = {name: value for name, value in options.items() if value is not None}
    for name in {"methods", "drop", "categorical"} & given.keys():
        given[name] = several(given[name])
    settings = Settings(**{name: value for name, value in given.items() if name in own})
    return settings, {name: value for name, value in given.items() if name in roles}


def several(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return names that may be given as one text."""
    return (names,) if isinstance(names, str) else tuple(names)


def roles_of(names: tuple[str, ...], task: str | None, settings: Settings, given: dict[str, Any]) -> Roles:
    """Return the roles of the columns, which include how rows are split only where a column says it."""
    split: dict[str, Any] = {}
    if given.get("group") or given.get("time"):
        split["train"] = settings.train
    if given.get("group"):
        split |= {"seed": settings.seed, "splits": settings.splits or 3}
    return Roles(targets=names, task=task, **split, **given)


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Attributes
    ----------
    split : dict
        As of a training file: ``{"kind": "random", "train": 0.7}`` or ``{"kind": "published", "name": ...}``.
    n_splits, folds : int
        Number of splits, and of folds of the search inside the training rows.
    metric : str
    seed : int
    """

    split: dict[str, Any]
    n_splits: int
    folds: int
    metric: str
    seed: int

    @classmethod
    def of(cls, dataset: Dataset, settings: Settings) -> Protocol:
        """Return the protocol for a data set.

        Raises
        ------
        ConfigError
            If the metric does not suit the targets.
        """
        split: dict[str, Any] = {"kind": "random", "train": settings.train}
        size = dataset.n_samples * dataset.n_features * (dataset.n_tasks if dataset.task_id is None else 1)
        n_splits = settings.splits or (5 if size <= MANY_SPLITS else 3 if size <= SOME_SPLITS else 2)
        if dataset.splits:
            name, splits = next(iter(dataset.splits.items()))
            split, n_splits = {"kind": "published", "name": name}, len(splits)
        return cls(split, n_splits, settings.folds, _metric(settings.metric, dataset), settings.seed)

    def experiment(self, candidates: list[Candidate], dataset: Dataset) -> Experiment:
        """Return the methods as an experiment, with a row for each on every split."""
        config: dict[str, Any] = {
            **self._common(dataset),
            "title": f"Methods on {dataset.title}",
            "datasets": [dataset.id],
            "methods": [{"label": candidate.label, **candidate.method} for candidate in candidates],
            "split": {**self.split, "trials": self.n_splits},
            "selection": self._selection(),
        }
        return Experiment.of(config, dataset.title)

    def training(self, candidate: Candidate, dataset: Dataset) -> Experiment:
        """Return a method as a training file; its cell is that of the first split."""
        config: dict[str, Any] = {
            **self._common(dataset),
            "kind": "train",
            "title": f"{candidate.label} on {dataset.title}",
            "dataset": {"id": dataset.id},
            "method": candidate.method,
            "split": self.split,
            "refit": True,
            **({"selection": self._selection()} if candidate.grid else {}),
        }
        return Experiment.of(config, dataset.title)

    def rows(self, dataset: Dataset, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows of a split."""
        seed = derive_seed(self.seed, dataset.id, trial)
        train, _, test = split_rows(dataset, **self.split, trial=trial, seed=seed)
        return train, test

    def _common(self, dataset: Dataset) -> dict[str, Any]:
        same = {"schema": 1, "id": f"compare/{dataset.id}", "features": FEATURES}
        return {**same, "metrics": [self.metric], "seed": self.seed}

    def _selection(self) -> dict[str, Any]:
        return {"folds": self.folds, "metric": self.metric}


def _metric(name: str | None, dataset: Dataset) -> str:
    regression = dataset.task_type == "regression"
    if name is None:
        return "auc" if not regression else "nmse" if dataset.task_id is None else "rmse"
    if (get_metric(name).needs == "value") != regression:
        fit = ", ".join(m.name for m in METRICS.values() if (m.needs == "value") == regression)
        kind = "numbers" if regression else "labels"
        raise ConfigError(f"the metric {name!r} does not suit targets that are {kind}", f"Use one of: {fit}.")
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
            "Name another column with --task-column, add rows of more tasks, or train a single model with "
            "scikit-learn.",
        )
    if not dataset.source.keys() & {GROUP, TIME}:
        return
    splits = [protocol.rows(dataset, trial) for trial in range(protocol.n_splits)]
    for train in [train for train, _ in splits] + [np.arange(dataset.n_samples)]:
        inside = dataset.subset(train)
        if len(np.unique(inside.source.get(GROUP, [0, 1]))) < 2:
            text = "all training rows belong to one group, so parameters cannot be chosen on another one"
            raise DataError(text, "Choose another column with --split-group.")
        folds = [(train[a], train[b]) for a, b in fold_rows(inside, protocol.folds, protocol.seed)]
        if not folds:
            text = "all training rows have the same time, so parameters cannot be chosen on later ones"
            raise DataError(text, "Choose another column with --time.")
        splits += folds
    if dataset.task_id is None or unseen == "mean":
        return
    new = [np.setdiff1d(dataset.task_id[test], dataset.task_id[train]) for train, test in splits]
    names = [dataset.tasks[t] for t in sorted(set(np.concatenate(new).tolist()))]
    if names:
        raise DataError(
            f"{len(names)} of {dataset.n_tasks} tasks have no training rows in some split or fold: "
            f"{', '.join(names[:5])}",
            "Add --unseen mean to predict them with the mean of all task models.",
        )


def facts_of(dataset: Dataset, protocol: Protocol, roles: Roles, candidates: list[Candidate]) -> list[str]:
    """Return what is compared on what, in sentences."""
    design = "all tasks share the same rows" if dataset.task_id is None else "every row belongs to one task"
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
        found.append(f"{counted(missing, 'missing target')} left out of fits and scores")
    found.append(f"features, learned on the training rows only: {_preprocessing(dataset)}")
    if dataset.task_type == "regression":
        found.append("targets are standardized inside every fit; scores and coefficients are in original units")
    if roles.weight:
        found.append(f"rows are weighted by {roles.weight!r} in fits and scores")
    found.append(_split_fact(dataset, protocol, roles))
    found.append(f"parameters are chosen by {protocol.folds}-fold cross-validation on the training rows")
    if roles.unseen == "mean":
        found.append("tasks without training rows are predicted with the mean of all task models")
    trees = [c.label for c in candidates if c.label in TREES]
    if trees and dataset.n_samples > MAX_TREE_ROWS:
        forest = f"; each tree of the forest uses {MAX_TREE_ROWS:,} rows" if TREES[-1] in trees else ""
        found.append(f"{' and '.join(trees)}: not tuned, as there are more than {MAX_TREE_ROWS:,} rows{forest}")
    return found


def _split_fact(dataset: Dataset, protocol: Protocol, roles: Roles) -> str:
    name, splits = protocol.split.get("name", ""), counted(protocol.n_splits, "random split")
    if name == TEST_SPLIT:
        return "one split: the rows of the test file are tested"
    if name == TIME_SPLIT:
        return f"one split: the latest rows by {roles.time!r} are tested"
    if name == GROUP_SPLIT:
        return f"{splits}; rows with the same {roles.group!r} stay together"
    by_task = " of every task" if dataset.task_id is not None else ""
    return f"{splits}, {protocol.split.get('train', 0):.0%} of the rows{by_task} for training"


def _preprocessing(dataset: Dataset) -> str:
    if sparse.issparse(dataset.X):
        return "scaled by the largest absolute value (sparse)"
    gaps = [n for n, bad in zip(dataset.features, np.isnan(dataset.X).any(axis=0), strict=True) if bad]
    numeric = [name for name in gaps if name not in dataset.categories]
    steps = []
    if numeric:
        steps.append(
            f"missing values in {counted(len(numeric), 'column')} imputed (median) and flagged "
            f"({', '.join(numeric[:5])})"
        )
    steps.append("numeric columns standardized")
    if dataset.categories:
        columns = counted(len(dataset.categories), "text column")
        steps.append(f"{columns} one-hot encoded ({', '.join(dataset.categories)})")
    return ", ".join(steps)


def sizes_of(dataset: Dataset) -> list[int]:
    """Return the number of targets of every task."""
    if dataset.task_id is not None:
        return [int(n) for n in np.bincount(dataset.task_id, minlength=dataset.n_tasks)]
    return [int(n) for n in (~np.isnan(dataset.y)).sum(axis=0)]
