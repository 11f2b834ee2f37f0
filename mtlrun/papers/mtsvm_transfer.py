"""Does sharing help? AUC of coupled, pooled and independent SVMs when one task has few rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.estimators.svm import GraphSVC
from mtlrun.features.dna import WeightedDegree
from mtlrun.metrics import auc_per_task
from mtlrun.papers.measure import Measurement, measure

Array = np.ndarray[Any, np.dtype[Any]]

#: Couplings of the three models; that of "multi-task" is chosen among those given.
_POOLED = 1e6
MODELS = ("multi-task", "pooled", "independent")


@measure(
    {
        "auc_target": "AUC of the task with few rows",
        "auc": "mean AUC of all tasks",
        "C": "C chosen by cross-validation",
        "coupling": "coupling chosen by cross-validation",
    },
    higher=("auc_target", "auc"),
)
def svm_transfer(
    dataset: Dataset | None,
    *,
    seed: int,
    model: str = "multi-task",
    target: str = "H. sapiens",
    target_rows: int = 200,
    other_rows: int = 2000,
    test_rows: int = 4000,
    costs: Sequence[float] = (0.03, 0.3, 3.0),
    couplings: Sequence[float] = (0.1, 1.0, 10.0),
    degree: int = 8,
    folds: int = 3,
) -> Measurement:
    """Train on `target_rows` rows of one task and `other_rows` of every other; report the AUC on rows held out.

    The models are `GraphSVC` with the hinge loss on normalised weighted-degree features: coupled by ones plus the
    identity, pooled (one SVM for all tasks, as the limit of a strong coupling), and independent (no coupling). C, and
    the coupling of the coupled one, have the best AUC of the target task in a cross-validation on the training rows;
    of equally good ones the first. All models see the same rows, and larger `target_rows` contain the smaller.

    Parameters
    ----------
    dataset : Dataset
        Strings in several tasks.
    seed : int
        Of the choice of rows.
    model : {"multi-task", "pooled", "independent"}
    target : str
        Name of the task with few rows.
    target_rows, other_rows, test_rows : int
        Rows per task; `test_rows` are held out of every task first.
    costs, couplings : list of float
        What is tried.
    degree : int, default 8
    folds : int, default 3

    Returns
    -------
    Measurement
        ``auc_target``, ``auc`` (mean over the tasks), ``C``, ``coupling``; per task ``auc``.

    Raises
    ------
    ValueError
        For an unknown model or task, or more rows than there are.
    """
    if dataset is None or dataset.task_id is None or not dataset.strings:
        raise ValueError("svm-transfer needs strings in several tasks")
    if model not in MODELS or target not in dataset.tasks:
        raise ValueError(f"unknown model {model!r} or task {target!r}: models {MODELS}, tasks {tuple(dataset.tasks)}")
    few = dataset.tasks.index(target)
    train, test = _rows(dataset, few, target_rows, other_rows, test_rows, seed)
    tried = {"multi-task": couplings, "pooled": (_POOLED,), "independent": (0.0,)}[model]
    candidates = [
        GraphSVC(C=C, coupling=coupling, tol=1e-2, features=WeightedDegree(degree, normalize=True))
        for coupling, C in product(tried, costs)
    ]
    chosen = candidates[0]
    if len(candidates) > 1:
        scores = [_validated(candidate, dataset, train, few, folds) for candidate in candidates]
        chosen = candidates[int(np.argmax(scores))]
    aucs = _aucs(chosen, dataset, train, test)
    values = {
        "auc_target": float(aucs[few]),
        "auc": float(np.nanmean(aucs)),
        "C": float(chosen.C),
        "coupling": float(chosen.coupling),
    }
    return Measurement(values, per_task={"auc": [float(a) for a in aucs]})


def _rows(
    dataset: Dataset, few: int, target_rows: int, other_rows: int, test_rows: int, seed: int
) -> tuple[Array, Array]:
    """Return the training rows, half of them positive, and the test rows of all tasks."""
    train, test = [], []
    for t in range(dataset.n_tasks):
        rows = np.flatnonzero(dataset.task_id == t)
        rows = rows[np.random.default_rng([seed, t]).permutation(len(rows))]
        wanted = target_rows if t == few else other_rows
        test.append(rows[:test_rows])
        rest = rows[test_rows:]
        positive = dataset.y[rest] > 0
        parts = [rest[positive][: wanted // 2], rest[~positive][: wanted - wanted // 2]]
        if sum(map(len, parts)) < wanted:
            raise ValueError(f"{dataset.tasks[t]} has {len(rows)} rows, too few to train on {wanted} of them")
        train += parts
    return np.concatenate(train), np.concatenate(test)


def _validated(model: GraphSVC, dataset: Dataset, rows: Array, few: int, folds: int) -> float:
    """Return the mean AUC of the target task over folds of the training rows."""
    fold = np.zeros(len(rows), dtype=np.int64)
    strata = 2 * np.asarray(dataset.task_id)[rows] + (dataset.y[rows] > 0)
    for stratum in np.unique(strata):  # rows are in random order
        inside = np.flatnonzero(strata == stratum)
        fold[inside] = np.arange(len(inside)) % folds
    return float(np.nanmean([_aucs(model, dataset, rows[fold != k], rows[fold == k])[few] for k in range(folds)]))


def _aucs(model: GraphSVC, dataset: Dataset, train: Array, test: Array) -> Array:
    """Return the AUC of every task on the test rows."""
    owner = np.asarray(dataset.task_id)
    model.fit(dataset.X[train], dataset.y[train], task_id=owner[train])
    scores = model.decision_function(dataset.X[test], task_id=owner[test])
    return auc_per_task(dataset.y[test], scores, task_id=owner[test])
