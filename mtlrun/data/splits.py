"""Which rows of a data set are for training, validation and test in one trial, and the folds of a search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import GroupKFold

from mtlrun.data.dataset import Dataset
from mtlrun.data.makers import paper_partition
from mtlrun.data.splitters import GROUP, TIME, TaskShuffleSplit, TaskStratifiedKFold, random_split, time_folds
from mtlrun.errors import DataError
from mtlrun.utils.seeds import derive_seed

Rows = np.ndarray


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
    """Return the training, validation and test rows of one trial; without `validation` that part is empty.

    Parameters
    ----------
    dataset : Dataset
    kind : {"random", "kfold", "published", "balanced"}
        See `mtlrun.runs.spec.Split`. The training rows of a random split do not depend on `validation`, which is taken
        out of its test rows; that of a published split is taken out of its training rows.
    trial : int
        From 0: number of the fold, or of the published split.
    seed : int
        Of this trial; of all folds, for ``kfold``.
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
        return paper_partition(dataset, train or 0.0, seed)
    if kind == "published":
        fit, test = _published(dataset, name or "", trial)
    elif kind == "kfold":
        fit, test = list(fold_rows(dataset, folds or 0, seed))[trial]
    elif dataset.task_id is None:
        fit, test = random_split(dataset.n_samples, train or 0.0, seed)
    else:
        splitter = TaskShuffleSplit(1, train_size=train or 0.0, random_state=seed)
        fit, test = next(iter(splitter.split(dataset.X, groups=dataset.task_id)))
    if validation is None:
        return fit, np.array([], dtype=int), test
    own = derive_seed(seed, "validation")
    if kind == "published":
        fit, held = _take(dataset, fit, validation, fit, own)
    else:
        test, held = _take(dataset, test, validation, np.arange(dataset.n_samples), own)
    return fit, held, test


def fold_rows(dataset: Dataset, folds: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield (train, test) rows of a k-fold partition, stratified by task and, for one label per row, by label.

    Rows with a group stay together, rows with a time are tested after earlier ones (`Dataset.source`).
    """
    if GROUP in dataset.source:
        groups = dataset.source[GROUP]
        splitter = GroupKFold(min(folds, len(np.unique(groups))))
        yield from splitter.split(groups, groups=groups)
        return
    if TIME in dataset.source:
        yield from time_folds(dataset.source[TIME], folds)
        return
    labels = dataset.y.ndim == 1 and dataset.task_type != "regression"
    stratified = TaskStratifiedKFold(folds, labels=labels, random_state=seed)
    yield from stratified.split(dataset.X, dataset.y if labels else None, groups=dataset.task_id)


def _published(dataset: Dataset, name: str, trial: int) -> tuple[Rows, Rows]:
    published = dataset.splits.get(name)
    if published is None or trial >= len(published):
        have = ", ".join(f"{known} ({len(parts)})" for known, parts in dataset.splits.items()) or "none"
        raise DataError(f"{dataset.id} has no published split {name!r} number {trial}; it has: {have}")
    return published[trial]


def _take(dataset: Dataset, rows: Rows, part: float, of: Rows, seed: int) -> tuple[Rows, Rows]:
    """Return rows without those taken at random, and those: as many as `part` of the rows `of`, task by task."""
    tasks = np.zeros(dataset.n_samples, dtype=int) if dataset.task_id is None else dataset.task_id
    order = np.random.default_rng(seed).permutation(rows)
    taken = []
    for task in np.unique(tasks[of]):
        mine = order[tasks[order] == task]
        count = int(part * np.sum(tasks[of] == task))
        taken.append(mine[: max(0, min(count, len(mine) - 1))])  # a task with rows keeps one
    validation = np.sort(np.concatenate(taken))
    rest = rows[~np.isin(rows, validation)]
    if not len(validation) or not len(rest):
        raise ValueError(f"validation={part} leaves a part empty ({len(validation)} of {len(rows)} rows)")
    return rest, validation
