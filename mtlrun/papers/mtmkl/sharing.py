"""Whether tasks gain from sharing kernel weights, and from learning in groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import product

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.engine.evaluation import Scores, TrainTestData
from mtlrun.papers.mtmkl.common import (
    Candidate,
    accuracies,
    accuracy,
    fit_candidates,
    named_tasks,
    score_candidates,
    split_parts,
)
from mtlrun.solvers.mkl.kernels import make_kernels

# ---------------------------------------------------------------- kernel weights


@analysis(
    {
        "stl": "test accuracy with kernel weights per task (lam = 0)",
        "mtl": "test accuracy with one vector of kernel weights (lam infinite)",
        "proposed": "test accuracy with lam chosen on the validation part",
        "one_kernel": "test accuracy with one kernel for all tasks, chosen on the "
        "validation part",
        "best_on_test": "largest test accuracy of all lam and C: an upper bound",
        "gain": "proposed minus that of stl and mtl which is better on the validation "
        "part",
        "gain_named": "the same for A/G, A/O and G/Y alone, the tasks that the paper "
        "names",
        "gain_over_stl": "proposed minus stl",
        "gain_over_one_kernel": "proposed minus one_kernel",
        "largest_gain": "best_on_test minus the same: an upper bound",
        "rows_per_task": "training rows of a task, on average",
    },
    name="mtmkl-sharing",
    labels={
        "gain_named": "gain of the three named tasks",
        "gain_over_stl": "gain over single tasks",
    },
    higher=(
        "stl",
        "mtl",
        "proposed",
        "one_kernel",
        "best_on_test",
        "gain",
        "gain_named",
        "gain_over_stl",
        "gain_over_one_kernel",
    ),
    digits=2,
    differences=("*gain*",),
    changes=["the gain of the tasks that the paper names is a number of its own"],
)
def sharing(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.1,
    features: str = "none",
    C: Sequence[float] = (0.0625, 1.0, 16.0),
    lam: Sequence[float] = (0.0625, 1.0, 16.0),
    kernels: Sequence[str] | None = None,
) -> AnalysisResult:
    """Compare shared kernel weights with separate ones, common ones and one kernel.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split.
    train : float, default 0.1
        Share of the training part; the rest is halved into validation and test part.
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling, learned on the training rows.
    C, lam : sequence of float
        Candidates. All four models choose from the same C.
    kernels : sequence of str, optional
        Default: the ten kernels of the paper.
    """
    on_validation, on_test = split_parts(dataset, train, seed, features)
    all_kernels = make_kernels(kernels)
    # lam = 0 gives separate weights, an infinite lam one vector for all tasks.
    strengths = [np.inf, *sorted(lam, reverse=True), 0.0]
    scores: dict[Candidate, tuple[float, Scores]] = {}
    for candidate, model in fit_candidates(
        on_validation, sorted(C), strengths, all_kernels
    ):
        validation = accuracy(on_validation, model)
        scores[candidate] = (validation, accuracies(on_test, model))
    single_kernel_scores: list[tuple[float, float]] = []
    for kernel in all_kernels:
        kernel_scores = score_candidates(on_validation, on_test, C, [0.0], [kernel])
        single_kernel_scores += kernel_scores.values()

    separate = _best_on_validation(scores, [0.0])
    common = _best_on_validation(scores, [np.inf])
    proposed = _best_on_validation(scores, lam)
    # The better of separate and common weights, chosen on the validation part, too.
    limit = _best_on_validation(scores, [0.0, np.inf])
    _, one_kernel = max(single_kernel_scores, key=lambda score: score[0])
    train_data = on_validation.train
    best_on_test = max(test.mean for _, test in scores.values())
    gains = proposed.per_task - limit.per_task
    return AnalysisResult(
        {
            "stl": separate.mean,
            "mtl": common.mean,
            "proposed": proposed.mean,
            "one_kernel": one_kernel,
            "best_on_test": best_on_test,
            "rows_per_task": train_data.n_samples / train_data.n_tasks,
            "gain": proposed.mean - limit.mean,
            "gain_named": mean_of_named(gains, dataset),
            "gain_over_stl": proposed.mean - separate.mean,
            "gain_over_one_kernel": proposed.mean - one_kernel,
            "largest_gain": best_on_test - limit.mean,
        }
    )


def _best_on_validation(
    scores: dict[Candidate, tuple[float, Scores]], strengths: Sequence[float]
) -> Scores:
    """Return the test accuracies of the best candidate with one of some lam.

    The candidate has the largest validation accuracy, and is the first of equal ones.
    """
    eligible = [pair for (_, lam), pair in scores.items() if lam in strengths]
    _, test = max(eligible, key=lambda pair: pair[0])
    return test


def mean_of_named(values: np.ndarray, dataset: Dataset) -> float:
    """Return the mean over the tasks that the paper names; NaN without one of them."""
    named = named_tasks(dataset)
    if not named:
        return np.nan
    return float(values[named].mean())


# ---------------------------------------------------------------- groups of tasks


@analysis(
    {
        "accuracy": "test accuracy, averaged over all tasks",
        "chosen_C": "C",
        "chosen_lam": "lam",
        "together": "tasks that are learned together, on average",
    },
    name="mtmkl-together",
    higher=("accuracy",),
    digits=2,
    # Several values often have the same validation accuracy; rounding decides then.
    varies=("chosen_C", "chosen_lam"),
)
def tasks_together(
    dataset: Dataset,
    *,
    seed: int,
    together: int = 2,
    train: float = 0.1,
    features: str = "none",
    C: Sequence[float] = (0.0625, 1.0, 16.0),
    lam: Sequence[float] = (0.0625, 1.0, 16.0),
    kernels: Sequence[str] | None = None,
) -> AnalysisResult:
    """Learn the tasks in random groups, and score all of them.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split and of the groups.
    together : int, default 2
        Largest number of tasks in a group.
    train, features, kernels
        As of `sharing`.
    C, lam : sequence of float
        Candidates, chosen on the validation part. All groups have the same ones.
    """
    on_validation, on_test = split_parts(dataset, train, seed, features)
    all_kernels = make_kernels(kernels)
    n_tasks = dataset.n_tasks
    order = np.random.default_rng(seed).permutation(n_tasks)
    # Rounded up: a group has at most `together` tasks.
    n_groups = -(-n_tasks // together)
    #: Candidate -> mean validation and test accuracy of all tasks.
    scores: dict[Candidate, np.ndarray] = {}
    for group in np.array_split(order, n_groups):
        group_scores = score_candidates(
            _of_tasks(on_validation, group),
            _of_tasks(on_test, group),
            C,
            sorted(lam, reverse=True),
            all_kernels,
        )
        share = len(group) / n_tasks
        for candidate, pair in group_scores.items():
            total = scores.get(candidate, np.zeros(2))
            scores[candidate] = total + share * np.array(pair)
    best = max(product(C, lam), key=lambda candidate: scores[candidate][0])
    best_C, best_lam = best
    return AnalysisResult(
        {
            "accuracy": float(scores[best][1]),
            "chosen_C": float(best_C),
            "chosen_lam": float(best_lam),
            "together": n_tasks / n_groups,
        }
    )


def _of_tasks(part: TrainTestData, tasks: np.ndarray) -> TrainTestData:
    """Return the rows of some tasks, which are numbered anew."""
    tasks = np.sort(tasks)

    def rows_of(data: Dataset) -> np.ndarray:
        return np.flatnonzero(np.isin(np.asarray(data.task_id), tasks))

    def restrict(data: Dataset) -> Dataset:
        kept = data.subset(rows_of(data))
        task_id = np.searchsorted(tasks, np.asarray(kept.task_id))
        names = [data.tasks[task] for task in tasks]
        return dataclasses.replace(kept, task_id=task_id, tasks=names)

    return TrainTestData(
        train=restrict(part.train),
        test=restrict(part.test),
        one_class=part.one_class[tasks],
        variance=part.variance[tasks],
        test_rows=part.test_rows[rows_of(part.test)],
    )
