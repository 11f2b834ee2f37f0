"""Transfer to a task with few rows, by graph-regularized SVMs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.estimators.svm import GraphSVC
from mtlrun.features.dna import WeightedDegree
from mtlrun.metrics import auc_per_task
from mtlrun.papers.mtsvm.runs import DEGREE

Array = np.ndarray[Any, np.dtype[Any]]

MODELS = ("multi-task", "pooled", "independent")
#: Coupling of the pooled model, as strong as if all tasks had the same coefficients.
_POOLED_COUPLING = 1e6
#: Relative gap of the fits.
_TOL = 1e-2


@analysis(
    {
        "auc_target": "AUC of the task with few rows",
        "auc": "mean AUC of all tasks",
        "C": "C chosen by cross-validation",
        "coupling": "coupling chosen by cross-validation",
    },
    name="svm-transfer",
    labels={
        "auc_target": "AUC of the task with few rows",
    },
    higher=("auc_target", "auc"),
)
def svm_transfer(
    dataset: Dataset,
    *,
    seed: int,
    model: str = "multi-task",
    target: str = "H. sapiens",
    target_rows: int = 200,
    other_rows: int = 2000,
    test_rows: int = 4000,
    costs: Sequence[float] = (0.03, 0.3, 3.0),
    couplings: Sequence[float] = (0.1, 1.0, 10.0),
    degree: int = DEGREE,
    folds: int = 3,
) -> AnalysisResult:
    """Train on few rows of one task and many rows of the others.

    The models are `GraphSVC` with the hinge loss on normalized weighted-degree
    features: coupled by ones plus the identity, pooled (one SVM for all tasks, as the
    limit of a strong coupling), and independent (no coupling). Cross-validation on the
    training rows selects C, and the coupling of the coupled model, by the AUC of the
    target task; of equally good values it selects the first. All models see the same
    rows, and a larger `target_rows` contains the rows of a smaller one.

    Parameters
    ----------
    dataset : Dataset
        Strings in several tasks.
    seed : int
        Seed of the choice of rows.
    model : {"multi-task", "pooled", "independent"}, default "multi-task"
    target : str, default "H. sapiens"
        Name of the task with few rows.
    target_rows, other_rows : int, default 200 and 2000
        Training rows of the target task and of each other task.
    test_rows : int, default 4000
        Rows of each task that are held out first.
    costs, couplings : list of float
        Candidates for C and for the coupling.
    degree : int, default 8
    folds : int, default 3

    Returns
    -------
    AnalysisResult
        Has the AUC per task, too.

    Raises
    ------
    ValueError
        If there is no such model or task, or if there are too few rows.
    """
    if dataset.task_id is None or not dataset.strings:
        raise ValueError("svm-transfer needs strings in several tasks")
    if model not in MODELS or target not in dataset.tasks:
        raise ValueError(
            f"unknown model {model!r} or task {target!r}: models {MODELS}, "
            f"tasks {tuple(dataset.tasks)}"
        )
    target_task = dataset.tasks.index(target)
    train, test = sample_rows(
        dataset, target_task, target_rows, other_rows, test_rows, seed
    )
    couplings_by_model = {
        "multi-task": couplings,
        "pooled": (_POOLED_COUPLING,),
        "independent": (0.0,),
    }
    candidates = []
    for coupling, C in product(couplings_by_model[model], costs):
        features = WeightedDegree(degree, normalize=True)
        candidates.append(GraphSVC(C=C, coupling=coupling, tol=_TOL, features=features))
    best = candidates[0]
    if len(candidates) > 1:
        scores = [
            _cross_validate(candidate, dataset, train, target_task, folds)
            for candidate in candidates
        ]
        best = candidates[int(np.argmax(scores))]
    aucs = _auc_per_task(best, dataset, train, test)
    values = {
        "auc_target": float(aucs[target_task]),
        "auc": float(np.nanmean(aucs)),
        "C": float(best.C),
        "coupling": float(best.coupling),
    }
    return AnalysisResult(values, per_task={"auc": [float(auc) for auc in aucs]})


def sample_rows(
    dataset: Dataset,
    target_task: int,
    target_rows: int,
    other_rows: int,
    test_rows: int,
    seed: int,
) -> tuple[Array, Array]:
    """Return the training rows, half of them positive, and the test rows."""
    train = []
    test = []
    for task in range(dataset.n_tasks):
        rows = np.flatnonzero(dataset.task_id == task)
        rows = rows[np.random.default_rng([seed, task]).permutation(len(rows))]
        n_wanted = target_rows if task == target_task else other_rows
        n_positive = n_wanted // 2
        test.append(rows[:test_rows])
        rest = rows[test_rows:]
        is_positive = dataset.y[rest] > 0
        positive = rest[is_positive][:n_positive]
        negative = rest[~is_positive][: n_wanted - n_positive]
        if len(positive) + len(negative) < n_wanted:
            raise ValueError(
                f"{dataset.tasks[task]} has {len(rows)} rows, too few to train on "
                f"{n_wanted} of them"
            )
        train += [positive, negative]
    return np.concatenate(train), np.concatenate(test)


def _cross_validate(
    model: GraphSVC, dataset: Dataset, rows: Array, target_task: int, n_folds: int
) -> float:
    """Return the mean AUC of the target task over folds of the training rows."""
    fold = np.zeros(len(rows), dtype=np.int64)
    strata = 2 * np.asarray(dataset.task_id)[rows] + (dataset.y[rows] > 0)
    # The rows of a stratum are in random order.
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        fold[members] = np.arange(len(members)) % n_folds
    scores = []
    for k in range(n_folds):
        aucs = _auc_per_task(model, dataset, rows[fold != k], rows[fold == k])
        scores.append(aucs[target_task])
    return float(np.nanmean(scores))


def _auc_per_task(
    model: GraphSVC, dataset: Dataset, train: Array, test: Array
) -> Array:
    """Fit a model to the training rows; return the AUC of each task on the test
    rows.
    """
    task_id = np.asarray(dataset.task_id)
    model.fit(dataset.X[train], dataset.y[train], task_id=task_id[train])
    scores = model.decision_function(dataset.X[test], task_id=task_id[test])
    return auc_per_task(dataset.y[test], scores, task_id=task_id[test])
