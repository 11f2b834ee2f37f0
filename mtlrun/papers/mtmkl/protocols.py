"""The protocol of the authors' code for multi-task MKL, compared with a clean one.

According to their MATLAB code, the authors' protocol leaks in several ways:

- In the SVM step, each task selects its own C by its validation accuracy.
- The score of a lam is the largest validation accuracy of the first 10 outer
  iterations.
- The machines that are tested have LIBSVM's default C = 1.
- The protocol reports the largest *test* accuracy of 15 outer iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, Curve, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.papers.mtmkl.common import (
    KERNEL_CACHE_BYTES,
    make_machines,
    rows_by_task,
    score_candidates,
    split_parts,
)
from mtlrun.papers.mtmkl.update import repaired_update
from mtlrun.solvers.mkl.kernels import Kernel, make_kernels
from mtlrun.solvers.mkl.machines import GramStore, SvmPoint, SvmTasks
from mtlrun.solvers.mkl.mkl import Coupling

#: Outer iterations of the authors' code.
N_OUTER_ITERATIONS = 15
#: Number of the first outer iterations that count for the validation score.
N_SCORED_ITERATIONS = 10
#: Accuracy of the theta-step relative to the largest slope.
_STEP_TOLERANCE = 1e-3
#: C of the machines that are tested.
_TESTED_C = 1.0
#: Machines stop by LIBSVM's default tolerance, as in the authors' code: any accuracy is
#: good enough.
_ANY_ACCURACY = float("inf")

#: Returns the next kernel weights, given the present ones and the slopes of the tasks.
ThetaStep = Callable[[np.ndarray, np.ndarray], np.ndarray]


@analysis(
    {
        "clean": "test accuracy, parameters chosen on the validation part",
        "authors": "what the authors' protocol reports: its largest test accuracy",
        "authors_last": "test accuracy of the last iteration of the authors' protocol",
        "excess": "authors minus clean",
        "leak": "authors minus authors_last: what the maximum over test accuracies "
        "adds",
        "clean_best_on_test": "largest test accuracy of all candidates of the clean "
        "protocol",
        "authors_lam": "lam chosen by the authors' protocol",
    },
    name="mtmkl-protocols",
    labels={
        "excess": "authors' accuracy minus clean",
        "clean": "accuracy, clean protocol",
        "authors": "accuracy, authors' protocol",
        "authors_last": "accuracy at its last iteration",
        "leak": "gain by choosing on test rows",
    },
    higher=("clean", "authors", "authors_last", "clean_best_on_test"),
    digits=2,
    differences=("excess", "leak"),
)
def protocols(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.2,
    features: str = "none",
    C: Sequence[float] = (0.0625, 1.0, 16.0),
    lam: Sequence[float] = (0.0625, 1.0, 16.0),
    task_C: Sequence[float] = (2.0**-17, 2.0**-8, 1.0, 2.0**8, 2.0**17),
    split: str = "balanced",
    kernels: Sequence[str] | None = None,
) -> AnalysisResult:
    """Run both protocols on one split into training, validation and test part.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split.
    train : float, default 0.2
        Share of the training part; the rest is halved.
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling, learned on the training rows.
    C, lam : sequence of float
        Candidates of the clean protocol, chosen on the validation part. The authors'
        protocol has the same candidates for lam.
    task_C : sequence of float
        Candidates of each task in the SVM step of the authors' protocol.
    split : {"balanced", "random"}, default "balanced"
        "random" splits each task by itself, whatever the classes, as the authors' code
        does.
    kernels : sequence of str, optional
        Default: the ten kernels of the paper.

    Returns
    -------
    AnalysisResult
        Curve ``test accuracy`` of the authors' protocol over the outer iterations.
    """
    on_validation, on_test = split_parts(dataset, train, seed, features, split)
    all_kernels = make_kernels(kernels)
    scores = score_candidates(
        on_validation, on_test, C, sorted(lam, reverse=True), all_kernels
    )
    best = max(product(C, lam), key=lambda candidate: scores[candidate][0])
    clean = scores[best][1]
    steps: dict[float, ThetaStep] = {}
    for strength in lam:
        coupling = Coupling(strength, dataset.n_tasks, len(all_kernels))
        steps[strength] = partial(_exact_step, coupling)
    runs = _run_authors_protocol(on_validation, on_test, kernels, task_C, steps)
    chosen = _best_run(runs)
    # The first accuracy belongs to the weights before the first iteration.
    reported = runs[chosen].test_accuracies[1:]
    authors = max(reported)
    last = reported[-1]
    return AnalysisResult(
        {
            "clean": clean,
            "authors": authors,
            "authors_last": last,
            "excess": authors - clean,
            "leak": authors - last,
            "clean_best_on_test": max(test for _, test in scores.values()),
            "authors_lam": float(chosen),
        },
        curves={"test accuracy": _over_iterations(reported)},
        lines=[
            f"the authors' protocol reports {authors:.4f}, the largest test accuracy "
            f"of {N_OUTER_ITERATIONS} outer iterations; the last one has {last:.4f}, "
            f"the clean protocol {clean:.4f}"
        ],
    )


def _exact_step(
    coupling: Coupling, theta: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """Return the best weights for given slopes.

    The search starts where the previous step of this coupling ended.
    """
    largest_slope = max(float(np.abs(slopes).max()), np.finfo(np.float64).tiny)
    tol = _STEP_TOLERANCE * largest_slope
    return coupling.step(theta, slopes, np.zeros((len(theta), 1)), tol)[0]


@analysis(
    {
        "first": "test accuracy of the first iterate: equal weights, C = 1",
        "reported": "largest test accuracy of 15 iterates, the first one included",
        "last": "test accuracy of the last of them",
        "gain": "reported minus first",
        "chosen_mu": "mu with the largest validation score",
        "off_equal_small": "largest distance of a weight from 1/M at the end, with the "
        "smallest mu",
        "off_equal_large": "the same with the largest mu",
    },
    name="mtmkl-repaired",
    labels={
        "off_equal_small": "distance from equal weights, weakest coupling",
        "off_equal_large": "distance from equal weights, strongest coupling",
    },
    higher=("first", "reported", "last"),
    digits=2,
    differences=("gain",),
)
def repaired(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.1,
    features: str = "standardize",
    mu: Sequence[float] = (0.0625, 1.0, 16.0),
    task_C: Sequence[float] = (2.0**-17, 2.0**-8, 1.0, 2.0**8, 2.0**17),
    split: str = "balanced",
    kernels: Sequence[str] | None = None,
) -> AnalysisResult:
    """Run the authors' protocol with their own update of the weights, repaired.

    Parameters
    ----------
    dataset, seed, train, features, task_C, split, kernels
        As of `protocols`.
    mu : sequence of float
        Strengths of the coupling in `repaired_update`. The one with the largest
        validation score of 10 iterations is chosen.

    Returns
    -------
    AnalysisResult
        Curve ``test accuracy`` over the outer iterations.
    """
    on_validation, on_test = split_parts(dataset, train, seed, features, split)
    steps: dict[float, ThetaStep] = {
        strength: partial(_repaired_step, strength) for strength in sorted(mu)
    }
    runs = _run_authors_protocol(on_validation, on_test, kernels, task_C, steps)
    chosen = _best_run(runs)
    # The first weights count as the first of the iterates here.
    accuracies = runs[chosen].test_accuracies[:N_OUTER_ITERATIONS]
    return AnalysisResult(
        {
            "first": accuracies[0],
            "reported": max(accuracies),
            "last": accuracies[-1],
            "gain": max(accuracies) - accuracies[0],
            "chosen_mu": float(chosen),
            "off_equal_small": _distance_from_equal(runs[min(mu)].theta),
            "off_equal_large": _distance_from_equal(runs[max(mu)].theta),
        },
        curves={"test accuracy": _over_iterations(accuracies)},
    )


def _repaired_step(mu: float, theta: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    return repaired_update(theta, slopes, mu)[0]


def _distance_from_equal(theta: np.ndarray) -> float:
    """Return the largest distance of a weight from 1/M, for theta of shape (T, M)."""
    return float(np.abs(theta - 1 / theta.shape[1]).max())


def _over_iterations(accuracies: list[float]) -> Curve:
    iterations = [float(i) for i in range(1, N_OUTER_ITERATIONS + 1)]
    return Curve(iterations, accuracies, "outer iteration", "test accuracy")


# ---------------------------------------------------------------- the authors' protocol


@dataclass(frozen=True)
class _AuthorsRun:
    """Run of the authors' protocol with one strength of the coupling.

    Attributes
    ----------
    score : float
        Largest validation accuracy of the iterations that count.
    test_accuracies : list of float
        Of the first weights and of the weights after each outer iteration.
    theta : ndarray of shape (n_tasks, n_kernels)
        Last weights.
    """

    score: float
    test_accuracies: list[float]
    theta: np.ndarray


def _run_authors_protocol(
    on_validation: TrainTestData,
    on_test: TrainTestData,
    kernels: Sequence[str] | None,
    task_C: Sequence[float],
    steps: Mapping[float, ThetaStep],
) -> dict[float, _AuthorsRun]:
    """Run the authors' protocol with each strength of the coupling.

    Parameters
    ----------
    on_validation, on_test : TrainTestData
        The training rows with the validation rows, and with the test rows.
    kernels : sequence of str or None
    task_C : sequence of float
        Candidates of each task in the SVM step.
    steps : dict of float to callable
        Strength -> update of the weights.
    """
    return {
        strength: _authors_run(on_validation, on_test, kernels, task_C, step)
        for strength, step in steps.items()
    }


def _best_run(runs: Mapping[float, _AuthorsRun]) -> float:
    """Return the strength with the largest score; of equal ones the first."""
    return max(runs, key=lambda strength: runs[strength].score)


def _authors_run(
    on_validation: TrainTestData,
    on_test: TrainTestData,
    kernels: Sequence[str] | None,
    task_C: Sequence[float],
    step: ThetaStep,
) -> _AuthorsRun:
    """Run the authors' protocol from equal weights, with one update of the weights."""
    designs, labels = rows_by_task(on_validation.train)
    all_kernels = make_kernels(kernels)
    grams = GramStore(all_kernels, designs, KERNEL_CACHE_BYTES)
    tasks = range(len(labels))
    costs = sorted(task_C)
    machines = {
        cost: make_machines(grams, labels, cost, _ANY_ACCURACY)
        for cost in (*costs, _TESTED_C)
    }
    validation = _NewRows(on_validation, all_kernels)
    test = _NewRows(on_test, all_kernels)

    def test_accuracy(theta: np.ndarray) -> float:
        tested = machines[_TESTED_C]
        accuracies = [test.accuracy(t, tested.solve(t, theta[t])) for t in tasks]
        return float(np.mean(accuracies))

    theta = np.full((len(labels), len(all_kernels)), 1.0 / len(all_kernels))
    scores = []
    test_accuracies = [test_accuracy(theta)]
    for _ in range(N_OUTER_ITERATIONS):
        slopes = np.empty_like(theta)
        accuracies = np.empty(len(labels))
        for t in tasks:
            points = solutions_of_task(machines, t, theta[t], costs)
            accuracy_by_cost = [validation.accuracy(t, point) for point in points]
            best = int(np.argmax(accuracy_by_cost))
            accuracies[t] = accuracy_by_cost[best]
            slopes[t] = points[best].slope
        scores.append(float(np.mean(accuracies)))
        theta = step(theta, slopes)
        test_accuracies.append(test_accuracy(theta))
    return _AuthorsRun(max(scores[:N_SCORED_ITERATIONS]), test_accuracies, theta)


def solutions_of_task(
    machines: Mapping[float, SvmTasks],
    task: int,
    theta: np.ndarray,
    costs: Sequence[float],
) -> list[SvmPoint]:
    """Return the machines of a task for ascending costs."""
    points: list[SvmPoint] = []
    for index, cost in enumerate(costs):
        # A machine without a dual variable at its bound is optimal for all larger
        # costs, too.
        if index > 0 and np.abs(points[-1].dual).max() < costs[index - 1]:
            points.append(points[-1])
        else:
            points.append(machines[cost].solve(task, theta))
    return points


class _NewRows:
    """Kernels of the test rows of a part with its training rows, task by task."""

    def __init__(self, part: TrainTestData, kernels: list[Kernel]) -> None:
        designs, _ = rows_by_task(part.train)
        new_designs, self.labels = rows_by_task(part.test)
        self._cross_grams = []
        for X_new, X in zip(new_designs, designs, strict=True):
            self._cross_grams.append(np.stack([kernel(X_new, X) for kernel in kernels]))

    def accuracy(self, task: int, point: SvmPoint) -> float:
        """Return the accuracy of a machine of a task."""
        used = np.flatnonzero(point.theta)
        scores = np.full(len(self.labels[task]), point.intercept)
        if used.size:
            scores += point.theta[used] @ (self._cross_grams[task][used] @ point.dual)
        predictions = np.where(scores > 0, 1.0, -1.0)
        return float(np.mean(predictions == self.labels[task]))
