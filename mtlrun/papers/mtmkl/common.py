"""Parts, machines and models that the analyses of multi-task MKL share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import paper_partition, task_partition
from mtlrun.engine.evaluation import Scores, TrainTestData
from mtlrun.errors import check_choice
from mtlrun.estimators.mkl import GroupMKLClassifier
from mtlrun.solvers.mkl.kernels import Kernel
from mtlrun.solvers.mkl.machines import GramStore, SvmTasks

#: Values of C and lam that are tried together.
Candidate = tuple[float, float]

#: Tasks that share one weighting of the kernels according to the text of the paper.
CLAIMED_GROUP = ("a/g", "a/o", "g/y")
#: Memory for kernel matrices.
KERNEL_CACHE_BYTES = 1e9

_SCALERS = {
    "standardize": StandardScaler,
    "min-max": MinMaxScaler,
    "unit-rows": Normalizer,
}
_PARTITIONS = {"balanced": paper_partition, "random": task_partition}


# ---------------------------------------------------------------- data


def split_parts(
    dataset: Dataset,
    train: float,
    seed: int,
    features: str = "none",
    split: str = "balanced",
) -> tuple[TrainTestData, TrainTestData]:
    """Split a data set into a training, a validation and a test part.

    Parameters
    ----------
    dataset : Dataset
    train : float
        Share of the training part; the rest is halved.
    seed : int
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling, learned on the training rows.
    split : {"balanced", "random"}, default "balanced"
        "random" splits each task by itself, whatever the classes, as the authors' code
        does.

    Returns
    -------
    on_validation, on_test : TrainTestData
        The training rows with the validation rows, and with the test rows.

    Raises
    ------
    ValueError
        If there is no such split or scaling.
    """
    check_choice("split", split, *_PARTITIONS)
    check_choice("features", features, "none", *_SCALERS)
    train_rows, validation_rows, test_rows = _PARTITIONS[split](dataset, train, seed)
    if features != "none":
        scaler = _SCALERS[features]().fit(dataset.X[train_rows])
        dataset = dataclasses.replace(dataset, X=scaler.transform(dataset.X))
    on_validation = TrainTestData.of(dataset, train_rows, validation_rows)
    on_test = TrainTestData.of(dataset, train_rows, test_rows)
    return on_validation, on_test


def rows_by_task(dataset: Dataset) -> tuple[list[Any], list[np.ndarray]]:
    """Return the rows and the labels of each task of a data set.

    Tasks must have rows of their own, which `split_parts` ensures.
    """
    task_id = dataset.task_id
    assert task_id is not None
    designs = []
    labels = []
    for task in range(dataset.n_tasks):
        rows = np.flatnonzero(task_id == task)
        designs.append(dataset.X[rows])
        labels.append(dataset.y[rows])
    return designs, labels


def named_tasks(dataset: Dataset) -> list[int]:
    """Return the indices of the tasks of `CLAIMED_GROUP`; empty if one is missing."""
    if not all(name in dataset.tasks for name in CLAIMED_GROUP):
        return []
    return [dataset.tasks.index(name) for name in CLAIMED_GROUP]


# ---------------------------------------------------------------- models


def make_machines(
    grams: GramStore, labels: list[np.ndarray], C: float, tol: float
) -> SvmTasks:
    """Return the SVMs of all tasks with the same C for all rows."""
    costs = [np.full(len(y), C) for y in labels]
    return SvmTasks(grams, labels, costs, tol)


def fit_candidates(
    part: TrainTestData,
    C: Sequence[float],
    lam: Sequence[float],
    kernels: Sequence[str | Kernel],
    tol: float = 1e-3,
) -> Iterator[tuple[Candidate, GroupMKLClassifier]]:
    """Fit a model with each C and lam to the training rows.

    Fits with the same C start from the weights of the previous lam.

    Yields
    ------
    candidate : (C, lam)
    model : GroupMKLClassifier
        Valid until the next one is requested.
    """
    for cost in C:
        model = GroupMKLClassifier(
            C=cost, kernels=list(kernels), tol=tol, warm_start=True
        )
        for strength in lam:
            yield (cost, strength), part.fit(model.set_params(lam=strength))


def accuracies(part: TrainTestData, model: Any) -> Scores:
    """Return the accuracy on the test rows of a part, on average and per task."""
    scores = part.predict(model)
    by_metric = part.score(model, scores, ["accuracy"], "task")
    return by_metric["accuracy"]


def accuracy(part: TrainTestData, model: Any) -> float:
    """Return the accuracy on the test rows of a part, averaged over the tasks."""
    return accuracies(part, model).mean


def score_candidates(
    on_validation: TrainTestData,
    on_test: TrainTestData,
    C: Sequence[float],
    lam: Sequence[float],
    kernels: Sequence[Kernel],
) -> dict[Candidate, tuple[float, float]]:
    """Return validation and test accuracy of the model with each C and lam."""
    scores = {}
    for candidate, model in fit_candidates(on_validation, sorted(C), lam, kernels):
        validation = accuracy(on_validation, model)
        scores[candidate] = (validation, accuracy(on_test, model))
    return scores
