"""Two protocols of multi-task MKL on the same splits: a clean one, and that of the authors' public code, which leaks.

The authors' protocol (facts read off their MATLAB code): inside the SVM step every task takes its own C by its
validation accuracy; the score of a lam is the largest validation accuracy of the first 10 outer iterations; the final
machines have LIBSVM's default C = 1; the reported test accuracy is the largest *test* accuracy of 15 outer iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from mtlrun.core.errors import DataError
from mtlrun.core.kernels import Kernel, make_kernels
from mtlrun.data.dataset import Dataset
from mtlrun.data.makers import paper_partition
from mtlrun.estimators.group_mkl import GroupMKLClassifier
from mtlrun.evaluation import Part
from mtlrun.experiments.measures.measurement import Curve, Measurement
from mtlrun.solvers.couplings import Apart, Coupling, Pairs
from mtlrun.solvers.pairwise import Flows
from mtlrun.solvers.svms import GramStore, SvmPoint, SvmTasks

#: Outer iterations of the authors' code, and how many of them count for the validation score.
OUTER, SCORED = 15, 10
# Accuracy of the theta-step relative to the largest slope.
_STEP = 1e-3
# LIBSVM stops by its default tolerance, as there: any accuracy is good enough.
_MACHINES = float("inf")
#: Memory for kernel matrices.
CACHE_BYTES = 1e9


def protocols(
    dataset: Dataset | None,
    *,
    seed: int,
    train: float = 0.2,
    features: str = "none",
    C: Sequence[float] = (0.0625, 1.0, 16.0),
    lam: Sequence[float] = (0.0625, 1.0, 16.0),
    task_C: Sequence[float] = (2.0**-17, 2.0**-8, 1.0, 2.0**8, 2.0**17),
    kernels: Sequence[str] | None = None,
) -> Measurement:
    """Run both protocols on one split into training, validation and test part.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    train : float, default 0.2
        Training part; the rest is halved.
    features : {"none", "standardize"}, default "none"
        Scaling learned on the training rows.
    C, lam : sequence of float
        Candidates of the clean protocol, chosen on the validation part; `lam` also those of the authors' protocol.
    task_C : sequence of float
        Candidates of every task in the SVM step of the authors' protocol.
    kernels : sequence of str, optional
        The paper's ten by default.
    """
    if dataset is None:
        raise DataError("this measure needs a data set", "Name it under datasets.")
    rows, validation, test = paper_partition(dataset, train, seed)
    if features == "standardize":
        scaler = StandardScaler().fit(dataset.X[rows])
        dataset = dataclasses.replace(dataset, X=scaler.transform(dataset.X))
    checked, final = Part.of(dataset, rows, validation), Part.of(dataset, rows, test)
    clean, leaked = _clean(checked, final, C, lam, kernels)
    runs = [_authors(checked, final, strength, task_C, make_kernels(kernels)) for strength in lam]
    run = max(runs, key=lambda r: r.score)
    values = {
        "clean": clean,
        "authors": float(max(run.test)),
        "authors_last": float(run.test[-1]),
        "excess": float(max(run.test)) - clean,
        "leak": float(max(run.test)) - float(run.test[-1]),
        "clean_best_on_test": leaked,
        "authors_lam": float(run.lam),
    }
    steps = [float(i) for i in range(1, OUTER + 1)]
    return Measurement(
        values,
        curves={"test accuracy": Curve(steps, run.test, "outer iteration", "test accuracy")},
        lines=[
            f"the authors' protocol reports {values['authors']:.4f}, the largest test accuracy of {OUTER} outer "
            f"iterations; the last one has {values['authors_last']:.4f}, the clean protocol {clean:.4f}"
        ],
    )


def _clean(
    checked: Part, final: Part, C: Sequence[float], lam: Sequence[float], kernels: Sequence[str] | None
) -> tuple[float, float]:
    """Return the test accuracy of the candidate that is best on the validation part, and the best of all candidates."""
    found: dict[tuple[float, float], tuple[float, float]] = {}
    for c in C:
        model = GroupMKLClassifier(C=c, kernels=kernels, warm_start=True)
        for strength in sorted(lam, reverse=True):
            checked.fit(model.set_params(lam=strength))
            found[c, strength] = _accuracy(checked, model), _accuracy(final, model)
    order = [(c, strength) for c in C for strength in lam]
    best = max(order, key=lambda key: (found[key][0], -order.index(key)))
    return found[best][1], max(test for _, test in found.values())


@dataclass(frozen=True)
class _Run:
    """The authors' protocol for one lam: its validation score and the test accuracy after every outer iteration."""

    lam: float
    score: float
    test: list[float]


def _authors(checked: Part, final: Part, lam: float, task_C: Sequence[float], kernels: list[Kernel]) -> _Run:
    inside, validation = _Tasks(checked.train, kernels), _Rows(checked, kernels)
    test = _Rows(final, kernels)
    theta = np.full((inside.n_tasks, len(kernels)), 1.0 / len(kernels))
    coupling: Coupling = Pairs(lam, Flows(*theta.shape)) if lam > 0 else Apart()
    scores, reported = [], []
    for _ in range(OUTER):
        chosen = [_own_cost(inside, validation, t, theta[t], task_C) for t in range(inside.n_tasks)]
        scores.append(float(np.mean([accuracy for accuracy, _ in chosen])))
        slopes = np.array([point.slope for _, point in chosen])
        tol = _STEP * max(float(np.abs(slopes).max()), np.finfo(np.float64).tiny)
        theta, _ = coupling.step(theta, slopes, np.zeros((len(theta), 1)), tol)
        machines = [inside.machines(1.0).solve(t, theta[t]) for t in range(inside.n_tasks)]
        reported.append(float(np.mean([test.accuracy(t, point) for t, point in enumerate(machines)])))
    return _Run(lam, max(scores[:SCORED]), reported)


def _own_cost(
    inside: _Tasks, validation: _Rows, t: int, theta: np.ndarray, task_C: Sequence[float]
) -> tuple[float, SvmPoint]:
    """Return the best validation accuracy of task t over its C, and that machine."""
    points = [inside.machines(c).solve(t, theta) for c in task_C]
    accuracies = [validation.accuracy(t, point) for point in points]
    best = int(np.argmax(accuracies))
    return accuracies[best], points[best]


class _Tasks:
    """The machines of all tasks at any C."""

    def __init__(self, train: Dataset, kernels: list[Kernel]) -> None:
        self.designs, self.labels = by_task(train)
        self.n_tasks = len(self.labels)
        self._grams = GramStore(kernels, self.designs, CACHE_BYTES)
        self._machines: dict[float, SvmTasks] = {}

    def machines(self, c: float) -> SvmTasks:
        """Return the machines with cost c."""
        if c not in self._machines:
            costs = [np.full(len(y), c) for y in self.labels]
            self._machines[c] = SvmTasks(self._grams, self.labels, costs, _MACHINES)
        return self._machines[c]


class _Rows:
    """The kernels of other rows with the training rows, task by task."""

    def __init__(self, part: Part, kernels: list[Kernel]) -> None:
        designs, _ = by_task(part.train)
        rows, self.labels = by_task(part.test)
        self._crosses = [np.stack([k(X, Z) for k in kernels]) for X, Z in zip(rows, designs, strict=True)]

    def accuracy(self, t: int, point: SvmPoint) -> float:
        """Return the accuracy of a machine of task t."""
        used = np.flatnonzero(point.theta)
        scores = np.full(len(self.labels[t]), point.intercept)
        if used.size:
            scores += point.theta[used] @ (self._crosses[t][used] @ point.dual)
        return float(np.mean(np.where(scores > 0, 1.0, -1.0) == self.labels[t]))


def by_task(dataset: Dataset) -> tuple[list[Any], list[np.ndarray]]:
    """Return the rows and the labels of every task of a ragged set."""
    ids = dataset.task_id
    assert ids is not None  # paper_partition refuses shared designs
    rows = [np.flatnonzero(ids == t) for t in range(dataset.n_tasks)]
    return [dataset.X[r] for r in rows], [dataset.y[r] for r in rows]


def _accuracy(part: Part, model: Any) -> float:
    return part.score(model, part.predict(model), ["accuracy"], "task")["accuracy"].mean
