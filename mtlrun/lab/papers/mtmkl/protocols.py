"""Multi-task MKL: kernel weights of the tasks, the printed algorithm beside the corrected one, and two protocols.

The authors' protocol (facts read off their MATLAB code) leaks: inside the SVM step every task takes its own C by its
validation accuracy; the score of a lam is the largest validation accuracy of the first 10 outer iterations; the final
machines have LIBSVM's default C = 1; it reports the largest *test* accuracy of 15 outer iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import paper_partition, task_partition
from mtlrun.engine.analysis import AnalysisResult, Curve, Matrix, analysis
from mtlrun.engine.evaluation import Scores, TrainTestData
from mtlrun.estimators.mkl import GroupMKLClassifier, IndependentMKLClassifier
from mtlrun.lab.papers.mtmkl.update import FIXES, consensus, repaired_update
from mtlrun.solvers.mkl.kernels import Kernel, MeanKernel, make_kernels
from mtlrun.solvers.mkl.machines import GramStore, SvmPoint, SvmTasks
from mtlrun.solvers.mkl.mkl import Coupling, solve_alternating, solve_group_mkl

_SCALERS = {
    "standardize": StandardScaler,
    "min-max": MinMaxScaler,
    "unit-rows": Normalizer,
}
_SPLITS = {"balanced": paper_partition, "random": task_partition}
_SOLVERS = {"paper": solve_alternating, "corrected": solve_group_mkl}
#: Kernel weights of two tasks count as the same up to this distance.
SAME = 0.02
#: Tasks whose weights are the same at a training part of 10%, by the text of the paper.
CLAIMED_GROUP = ("a/g", "a/o", "g/y")
#: Outer iterations of the authors' code, and how many of them count for the validation score.
OUTER, SCORED = 15, 10
# A coupling that can be neglected, and the relative gap to which its weights are compared.
_NEARLY_NONE = 1e-6
# Accuracy of the theta-step relative to the largest slope.
_STEP = 1e-3
# Machines stop by LIBSVM's default tolerance, as there: any accuracy is good enough.
_ANY_ACCURACY = float("inf")
#: Memory for kernel matrices.
CACHE_BYTES = 1e9


@analysis(
    {
        "accuracy": "test accuracy",
        "chosen_C": "C",
        "chosen_lam": "lam",
        "groups": "groups of tasks with the same kernel weights (within 0.02)",
        "groups_fewest": "fewest groups of all candidates with the best validation accuracy",
        "groups_most": "most groups of all candidates with the best validation accuracy",
        "groups_strong": "groups with the largest lam",
        "groups_between": "strengths of lam at which there are fewer groups than tasks, and more than one",
        "groups_rise": "most groups that there are more at a lam than at the next smaller one",
        "off_alone": "largest distance of a weight, lam nearly 0, from that of tasks trained alone",
        "smallest_distance": "smallest distance between the weights of two tasks",
        "claimed_distance": "largest distance between the weights of A/G, A/O and G/Y",
        "others_distance": "smallest distance from the weights of A/G, A/O and G/Y to those of another task",
        "off_line": "largest distance of the sum of a task's weights from 1",
        "ties": "other candidates with the same validation accuracy",
    },
    higher=("accuracy",),
    digits=2,
    varies=("off_line", "off_alone"),
    changes=[
        "the groups at the largest lam are counted, too",
        "so are strengths with several groups and rises from one to the next; the distance from tasks trained alone",
        "the fewest and the most groups of all candidates that are equally good on the validation part",
    ],
)
def kernel_weights(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.1,
    features: str = "none",
    kernels: Sequence[str] = ("gaussian(2)", "gaussian(256)"),
    C: Sequence[float] = (1.0,),
    lam: Sequence[float] = (1.0,),
    tol: float = 1e-4,
) -> AnalysisResult:
    """Learn the kernel weights of all tasks, C and lam chosen on the validation part.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    train : float, default 0.1
        Training part; the rest is halved into validation and test.
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling learned on the training rows.
    kernels : sequence of str
    C, lam : sequence of float
        Candidates; the first best one in this order is taken, lam varying fastest.
    tol : float, default 1e-4
        Certified relative gap.
    """
    part, final = _parts(dataset, train, seed, features)
    scores, groups = {}, {}
    for at, model in _fitted(part, C, sorted(lam, reverse=True), kernels, tol=tol):
        scores[at], groups[at] = _accuracy(part, model), count_groups(model.theta_)
    best = max(product(C, lam), key=lambda at: scores[at])
    # The validation part cannot tell these candidates apart, so that the number of
    # groups is a range.
    tied_groups = [groups[at] for at, score in scores.items() if score == scores[best]]
    model = final.fit(
        GroupMKLClassifier(C=best[0], lam=best[1], kernels=list(kernels), tol=tol)
    )
    theta = model.theta_
    alike: dict[str, Any] = {
        "C": best[0],
        "kernels": list(kernels),
        "tol": _NEARLY_NONE,
    }
    nearly, alone = (
        final.fit(m)
        for m in (
            GroupMKLClassifier(lam=_NEARLY_NONE, **alike),
            IndependentMKLClassifier(**alike),
        )
    )
    path = [float(groups[best[0], strength]) for strength in sorted(lam)]
    values = {
        "accuracy": _accuracy(final, model),
        "chosen_C": float(best[0]),
        "chosen_lam": float(best[1]),
        "groups": float(count_groups(theta)),
        "groups_fewest": float(min(tied_groups)),
        "groups_most": float(max(tied_groups)),
        "groups_strong": path[-1],
        "groups_between": float(sum(1 < count < len(theta) for count in path)),
        "groups_rise": max(0.0, *np.diff(path).tolist()) if len(path) > 1 else 0.0,
        "off_alone": float(np.abs(nearly.theta_ - alone.theta_).max()),
        **_distances(theta, dataset),
        "off_line": float(np.abs(1.0 - theta.sum(axis=1)).max()),
        "ties": float(len(tied_groups) - 1),
    }
    return AnalysisResult(
        values,
        curves={
            "groups": Curve(
                sorted(map(float, lam)),
                path,
                "lam",
                "groups of tasks",
                log="x",
                marks={"chosen": best[1]},
            )
        },
        matrices={
            "kernel weights": Matrix(theta.tolist(), list(dataset.tasks), list(kernels))
        },
        lines=[
            _group_line(theta, dataset.tasks),
            f"chosen on the validation part: C = {best[0]:g}, lam = {best[1]:g}; {values['ties']:.0f} other candidates "
            "are as good there",
        ],
        solver={
            "n_iter": model.n_iter_,
            "converged": bool(model.converged_),
            "gap": float(model.gap_),
        },
    )


def _distances(theta: np.ndarray, dataset: Dataset) -> dict[str, float]:
    """Return distances between the kernel weights of tasks, a row of theta each.

    Those of the group that the paper names are NaN for data sets without these tasks.
    """
    apart = np.linalg.norm(theta[:, None] - theta[None], axis=2)
    claimed_distance = np.nan
    others_distance = np.nan
    if all(name in dataset.tasks for name in CLAIMED_GROUP):
        claimed = [dataset.tasks.index(name) for name in CLAIMED_GROUP]
        others = [t for t in range(dataset.n_tasks) if t not in claimed]
        claimed_distance = float(apart[np.ix_(claimed, claimed)].max())
        others_distance = float(apart[np.ix_(claimed, others)].min())
    return {
        "smallest_distance": float(apart[np.triu_indices(len(theta), 1)].min()),
        "claimed_distance": claimed_distance,
        "others_distance": others_distance,
    }


@analysis(
    {
        "gap": "certified relative gap at the end",
        "objective": "objective at the end",
        "best_objective": "smallest objective of all iterations",
        "cycle_length": "iterations after which the weights come back, 0 if they do not",
        "cycle_spread": "largest minus smallest objective within the cycle, relative",
        "n_iter": "outer iterations",
        "svm_fits": "machines trained",
    },
    lower=("gap", "objective", "best_objective"),
    digits=2,
    varies=("gap", "cycle_spread"),
)
def algorithm(
    dataset: Dataset,
    *,
    seed: int,
    variant: str = "paper",
    train: float = 0.1,
    C: float = 1.0,
    lam: float = 0.1,
    kernels: Sequence[str] | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
) -> AnalysisResult:
    """Follow the objective of one fit over the iterations, for the printed algorithm or the corrected one.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    variant : {"paper", "corrected"}, default "paper"
    train : float, default 0.1
        Training part.
    C, lam, kernels, tol, max_iter
        As of `GroupMKLClassifier`.
    """
    if variant not in _SOLVERS:
        raise ValueError(
            f"variant must be one of {', '.join(map(repr, _SOLVERS))}, got {variant!r}"
        )
    rows, _, _ = paper_partition(dataset, train, seed)
    designs, labels = by_task(dataset.subset(rows))
    machines = _machines(
        GramStore(make_kernels(kernels), designs, CACHE_BYTES), labels, C, 0.1 * tol
    )
    result = _SOLVERS[variant](machines, lam, tol=tol, max_iter=max_iter)
    values = {it: float(primal) for it, primal, _ in result.gaps}
    bounds = {it: float(bound) for it, _, bound in result.gaps}
    cycle = result.info.get("cycle", [])
    marks = {"returns": float(max(values) - len(cycle) + 1)} if cycle else {}
    return AnalysisResult(
        {
            "gap": float(result.gap),
            "objective": values[max(values)],
            "best_objective": min(values.values()),
            "cycle_length": float(len(cycle)),
            "cycle_spread": (max(cycle) - min(cycle)) / min(cycle) if cycle else 0.0,
            "n_iter": float(max(values)),
            "svm_fits": float(result.info["n_fits"]),
        },
        curves={
            "objective": _along(values, "objective", marks),
            "lower bound": _along(bounds, "certified lower bound", {}),
        },
        lines=[result.message] if cycle else [],
        # That it does not converge is the measurement.
        solver={"n_iter": max(values), "converged": True, "gap": float(result.gap)},
    )


def _along(values: dict[int, float], name: str, marks: dict[str, float]) -> Curve:
    return Curve(
        [float(it) for it in values],
        list(values.values()),
        "iteration",
        name,
        marks=marks,
    )


@analysis(
    {
        "residual": "distance of the copies from the weights at the end, relative",
        "iterations": "iterations until residuals are small (1e-4 absolute, 1e-2 relative), at most 1000",
        "largest": "largest absolute weight at the end; a run that comes to 1e9 is ended",
        "over_best": "objective at the end minus the best one, relative to that",
    },
    lower=("residual", "iterations", "over_best"),
    digits=2,
    changes=["`excess` is called `over_best`"],
)
def algorithm_2(
    dataset: Dataset,
    *,
    seed: int,
    variant: str = "paper",
    train: float = 0.1,
    C: float = 1.0,
    lam: float = 0.1,
    kernels: Sequence[str] | None = None,
) -> AnalysisResult:
    """Run the consensus iteration for the weights once, from equal ones, on the slopes that the machines have there.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    variant : {"paper", "corrected"}, default "paper"
        Equations (12) and (14) to (18) as printed, or corrected.
    train : float, default 0.1
        Training part.
    C, kernels
        As of `GroupMKLClassifier`.
    lam : float, default 0.1
        Relative to the largest slope.
    """
    if variant not in _SOLVERS:
        raise ValueError(
            f"variant must be one of {', '.join(map(repr, _SOLVERS))}, got {variant!r}"
        )
    rows, _, _ = paper_partition(dataset, train, seed)
    designs, labels = by_task(dataset.subset(rows))
    grams = GramStore(make_kernels(kernels), designs, CACHE_BYTES)
    machines = _machines(grams, labels, C, 1e-4)
    theta = np.full((len(labels), len(grams.kernels)), 1.0 / len(grams.kernels))
    slopes = np.array([machines.solve(t, theta[t]).slope for t in range(len(labels))])
    scale = float(np.abs(slopes).max())
    found = consensus(
        theta, slopes, lam * scale, FIXES if variant == "corrected" else ()
    )
    coupling = Coupling(lam * scale, *theta.shape)
    best, _ = coupling.step(theta, slopes, np.zeros((len(theta), 1)), 1e-4 * scale)

    def objective(weights: np.ndarray) -> float:
        return float(np.vdot(slopes, weights)) + coupling.value(weights)

    return AnalysisResult(
        {
            "residual": found.residual,
            "iterations": float(found.n_iter),
            "largest": found.sizes[-1],
            "over_best": (objective(found.theta) - objective(best))
            / abs(objective(best)),
        },
        curves={
            "largest weight": _along(
                dict(enumerate(found.sizes, 1)), "largest absolute weight", {}
            )
        },
        # Whether it stops is the measurement.
        solver={"n_iter": found.n_iter, "converged": True},
    )


def count_groups(theta: np.ndarray) -> int:
    """Return how many groups of tasks with the same weights there are (T, M); nearness is passed on within a group."""
    return int(_groups(theta).max()) + 1


def _groups(theta: np.ndarray) -> np.ndarray:
    """Return the group of every task."""
    near = np.linalg.norm(theta[:, None] - theta[None], axis=2) <= SAME
    return np.asarray(connected_components(near, directed=False)[1])


def _group_line(theta: np.ndarray, tasks: Sequence[str]) -> str:
    groups = _groups(theta)
    members = [
        [tasks[t] for t in np.flatnonzero(groups == group).tolist()]
        for group in np.unique(groups)
    ]
    shared = [f"{{{', '.join(names)}}}" for names in members if len(names) > 1]
    if not shared:
        return f"every task has its own kernel weights (no two within {SAME:g} of each other)"
    return f"tasks with the same kernel weights (within {SAME:g}): {'; '.join(shared)}"


def _accuracy(part: TrainTestData, model: Any) -> float:
    return _accuracies(part, model).mean


def _accuracies(part: TrainTestData, model: Any) -> Scores:
    """Return the accuracy on the test rows, averaged and task by task."""
    scores = part.predict(model)
    by_metric = part.score(model, scores, ["accuracy"], "task")
    return by_metric["accuracy"]


def _fitted(
    part: TrainTestData,
    C: Sequence[float],
    lam: Sequence[float],
    kernels: Sequence[str | Kernel],
    tol: float = 1e-3,
) -> Iterator[tuple[tuple[float, float], GroupMKLClassifier]]:
    """Yield (C, lam) and the model fitted with them, from one lam to the next."""
    for c in C:
        model = GroupMKLClassifier(C=c, kernels=list(kernels), tol=tol, warm_start=True)
        for strength in lam:
            yield (c, strength), part.fit(model.set_params(lam=strength))


# ---------------------------------------------------------------- protocols


@analysis(
    {
        "clean": "test accuracy, parameters chosen on the validation part",
        "authors": "what the authors' protocol reports: its largest test accuracy",
        "authors_last": "test accuracy of the last iteration of the authors' protocol",
        "excess": "authors minus clean",
        "leak": "authors minus authors_last: what the maximum over test accuracies adds",
        "clean_best_on_test": "largest test accuracy of all candidates of the clean protocol",
        "authors_lam": "lam chosen by the authors' protocol",
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
        Of the split.
    train : float, default 0.2
        Training part; the rest is halved.
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling learned on the training rows.
    C, lam : sequence of float
        Candidates of the clean protocol, chosen on the validation part; `lam` also those of the authors' protocol.
    task_C : sequence of float
        Candidates of every task in the SVM step of the authors' protocol.
    split : {"balanced", "random"}, default "balanced"
        "random" is that of the authors' code: every task by itself, whatever the classes.
    kernels : sequence of str, optional
        The paper's ten by default.
    """
    checked, final = _parts(dataset, train, seed, features, split)
    made = make_kernels(kernels)
    found = _path(checked, final, C, sorted(lam, reverse=True), made)
    _, clean = max((found[at] for at in product(C, lam)), key=lambda score: score[0])
    couplings = {
        strength: Coupling(strength, dataset.n_tasks, len(made)) for strength in lam
    }
    runs = {
        at: _authors(
            checked, final, kernels, task_C, partial(_exact_step, couplings[at])
        )
        for at in lam
    }
    chosen = max(runs, key=lambda strength: runs[strength][0])
    reported = runs[chosen][1][1:]
    values = {
        "clean": clean,
        "authors": max(reported),
        "authors_last": reported[-1],
        "excess": max(reported) - clean,
        "leak": max(reported) - reported[-1],
        "clean_best_on_test": max(test for _, test in found.values()),
        "authors_lam": float(chosen),
    }
    return AnalysisResult(
        values,
        curves={"test accuracy": _per_iteration(reported)},
        lines=[
            f"the authors' protocol reports {values['authors']:.4f}, the largest test accuracy of {OUTER} outer "
            f"iterations; the last one has {values['authors_last']:.4f}, the clean protocol {clean:.4f}"
        ],
    )


def _parts(
    dataset: Dataset,
    train: float,
    seed: int,
    features: str = "none",
    split: str = "balanced",
) -> tuple[TrainTestData, TrainTestData]:
    """Return the training rows with the validation rows, and with the test rows."""
    for name, value, known in (
        ("split", split, [*_SPLITS]),
        ("features", features, ["none", *_SCALERS]),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    rows, validation, test = _SPLITS[split](dataset, train, seed)
    if features != "none":
        scaler = _SCALERS[features]().fit(dataset.X[rows])
        dataset = dataclasses.replace(dataset, X=scaler.transform(dataset.X))
    return TrainTestData.of(dataset, rows, validation), TrainTestData.of(
        dataset, rows, test
    )


def _per_iteration(accuracies: list[float]) -> Curve:
    return Curve(
        [float(i) for i in range(1, OUTER + 1)],
        accuracies,
        "outer iteration",
        "test accuracy",
    )


def _exact_step(
    coupling: Coupling, theta: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """Return the best weights for given slopes, beginning where the last step of this coupling ended."""
    tol = _STEP * max(float(np.abs(slopes).max()), np.finfo(np.float64).tiny)
    return coupling.step(theta, slopes, np.zeros((len(theta), 1)), tol)[0]


def _authors(
    checked: TrainTestData,
    final: TrainTestData,
    kernels: Sequence[str] | None,
    task_C: Sequence[float],
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[float, list[float], np.ndarray]:
    """Return the validation score of the authors' protocol, the test accuracy of all weights, and the last weights.

    The first weights are equal; every ``step(theta, slopes)`` makes others.
    """
    designs, labels = by_task(checked.train)
    made = make_kernels(kernels)
    grams, tasks = GramStore(made, designs, CACHE_BYTES), range(len(labels))
    costs = sorted(task_C)
    machines = {c: _machines(grams, labels, c, _ANY_ACCURACY) for c in (*costs, 1.0)}
    validation, test = _Rows(checked, made), _Rows(final, made)

    def tested(theta: np.ndarray) -> float:
        return float(
            np.mean([test.accuracy(t, machines[1.0].solve(t, theta[t])) for t in tasks])
        )

    theta = np.full((len(labels), len(made)), 1.0 / len(made))
    scores, reported = [], [tested(theta)]
    for _ in range(OUTER):
        slopes, accuracies = np.empty_like(theta), np.empty(len(labels))
        for t in tasks:
            points = _solutions(machines, t, theta[t], costs)
            of_costs = [validation.accuracy(t, point) for point in points]
            accuracies[t], slopes[t] = (
                max(of_costs),
                points[int(np.argmax(of_costs))].slope,
            )
        scores.append(float(np.mean(accuracies)))
        theta = step(theta, slopes)
        reported.append(tested(theta))
    return max(scores[:SCORED]), reported, theta


@analysis(
    {
        "first": "test accuracy of the first iterate: equal weights, C = 1",
        "reported": "largest test accuracy of 15 iterates, the first one included",
        "last": "test accuracy of the last of them",
        "gain": "reported minus first",
        "chosen_mu": "mu with the largest validation score",
        "off_equal_small": "largest distance of a weight from 1/M at the end, with the smallest mu",
        "off_equal_large": "the same with the largest mu",
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
    """Run the protocol of the authors' code with its own update of the weights (`repaired_update`), on one split.

    Parameters
    ----------
    dataset, seed, train, features, task_C, split, kernels
        As of `protocols`.
    mu : sequence of float
        Strengths of the coupling; the one with the largest validation score of 10 iterations is taken.
    """
    checked, final = _parts(dataset, train, seed, features, split)

    def run(strength: float) -> tuple[float, list[float], np.ndarray]:
        return _authors(
            checked,
            final,
            kernels,
            task_C,
            lambda theta, slopes: repaired_update(theta, slopes, strength)[0],
        )

    runs = {strength: run(strength) for strength in sorted(mu)}
    chosen = max(runs, key=lambda strength: runs[strength][0])
    accuracies = runs[chosen][1][:OUTER]
    small, large = (
        float(np.abs(at - 1 / at.shape[1]).max())
        for at in (runs[min(mu)][2], runs[max(mu)][2])
    )
    return AnalysisResult(
        {
            "first": accuracies[0],
            "reported": max(accuracies),
            "last": accuracies[-1],
            "gain": max(accuracies) - accuracies[0],
            "chosen_mu": float(chosen),
            "off_equal_small": small,
            "off_equal_large": large,
        },
        curves={"test accuracy": _per_iteration(accuracies)},
    )


def _solutions(
    machines: Mapping[float, SvmTasks],
    t: int,
    theta: np.ndarray,
    costs: Sequence[float],
) -> list[SvmPoint]:
    """Return the machines of task t for ascending costs; one without a dual variable at its bound serves all later."""
    points: list[SvmPoint] = []
    for k, cost in enumerate(costs):
        free = k > 0 and np.abs(points[-1].dual).max() < costs[k - 1]
        points.append(points[-1] if free else machines[cost].solve(t, theta))
    return points


def _machines(
    grams: GramStore, labels: list[np.ndarray], C: float, tol: float
) -> SvmTasks:
    return SvmTasks(grams, labels, [np.full(len(y), C) for y in labels], tol)


class _Rows:
    """The kernels of other rows with the training rows, task by task."""

    def __init__(self, part: TrainTestData, kernels: list[Kernel]) -> None:
        designs, _ = by_task(part.train)
        rows, self.labels = by_task(part.test)
        self._crosses = [
            np.stack([k(X, Z) for k in kernels])
            for X, Z in zip(rows, designs, strict=True)
        ]

    def accuracy(self, t: int, point: SvmPoint) -> float:
        """Return the accuracy of a machine of task t."""
        used = np.flatnonzero(point.theta)
        scores = np.full(len(self.labels[t]), point.intercept)
        if used.size:
            scores += point.theta[used] @ (self._crosses[t][used] @ point.dual)
        return float(np.mean(np.where(scores > 0, 1.0, -1.0) == self.labels[t]))


# ---------------------------------------------------------------- what sharing can matter


@analysis(
    {
        "stl": "test accuracy with kernel weights per task (lam = 0)",
        "mtl": "test accuracy with one vector of kernel weights (lam infinite)",
        "proposed": "test accuracy with lam chosen on the validation part",
        "one_kernel": "test accuracy with one kernel for all tasks, chosen on the validation part",
        "best_on_test": "largest test accuracy of all lam and C: an upper bound",
        "gain": "proposed minus that of stl and mtl which is better on the validation part",
        "gain_named": "the same for A/G, A/O and G/Y alone, the tasks that the paper names",
        "gain_over_stl": "proposed minus stl",
        "gain_over_one_kernel": "proposed minus one_kernel",
        "largest_gain": "best_on_test minus the same: an upper bound",
        "rows_per_task": "training rows of a task, on average",
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
    """Compare sharing of kernel weights with none, with one vector for all tasks and with a single kernel.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split.
    train : float, default 0.1
        Training part; the rest is halved into validation and test.
    features : {"none", "standardize", "min-max", "unit-rows"}, default "none"
        Scaling learned on the training rows.
    C, lam : sequence of float
        Candidates; all rows choose among the same C.
    kernels : sequence of str, optional
        The paper's ten by default.
    """
    checked, final = _parts(dataset, train, seed, features)
    all_kernels = make_kernels(kernels)
    strengths = [np.inf, *sorted(lam, reverse=True), 0.0]
    found = {}
    for at, model in _fitted(checked, sorted(C), strengths, all_kernels):
        validation = _accuracy(checked, model)
        test = _accuracies(final, model)
        found[at] = (validation, test)
    alone = [
        score
        for kernel in all_kernels
        for score in _path(checked, final, C, [0.0], [kernel]).values()
    ]

    def chosen(*strengths: float) -> Scores:
        candidates = [both for (_, at), both in found.items() if at in strengths]
        _, scores = max(candidates, key=lambda both: both[0])
        return scores

    proposed = chosen(*lam)
    limit = chosen(0.0, np.inf)
    values = {
        "stl": chosen(0.0).mean,
        "mtl": chosen(np.inf).mean,
        "proposed": proposed.mean,
        "one_kernel": max(alone, key=lambda score: score[0])[1],
        "best_on_test": max(test.mean for _, test in found.values()),
        "rows_per_task": checked.train.n_samples / checked.train.n_tasks,
    }
    gains = proposed.per_task - limit.per_task
    values |= {
        "gain": proposed.mean - limit.mean,
        "gain_named": _mean_of_named(gains, dataset),
        "gain_over_stl": values["proposed"] - values["stl"],
        "gain_over_one_kernel": values["proposed"] - values["one_kernel"],
        "largest_gain": values["best_on_test"] - limit.mean,
    }
    return AnalysisResult(values)


def _mean_of_named(values: np.ndarray, dataset: Dataset) -> float:
    """Return the mean over the tasks that the paper names; NaN without one of them."""
    if not all(name in dataset.tasks for name in CLAIMED_GROUP):
        return np.nan
    named = [dataset.tasks.index(name) for name in CLAIMED_GROUP]
    return float(values[named].mean())


def _path(
    checked: TrainTestData,
    final: TrainTestData,
    C: Sequence[float],
    lam: Sequence[float],
    kernels: Sequence[Kernel],
) -> dict[tuple[float, float], tuple[float, float]]:
    """Return validation and test accuracy by (C, lam)."""
    fitted = _fitted(checked, sorted(C), lam, kernels)
    return {
        at: (_accuracy(checked, model), _accuracy(final, model)) for at, model in fitted
    }


@analysis(
    {
        "accuracy": "test accuracy, averaged over all tasks",
        "chosen_C": "C",
        "chosen_lam": "lam",
        "together": "tasks that are learned together, on average",
    },
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
    """Learn the tasks in groups drawn at random, `together` at a time, and score all of them.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split and of the groups.
    together : int, default 2
        Tasks of a group, at most.
    train, features, kernels
        As of `sharing`.
    C, lam : sequence of float
        Candidates; all groups have the same ones, chosen on the validation part.
    """
    checked, final = _parts(dataset, train, seed, features)
    made, n_tasks = make_kernels(kernels), dataset.n_tasks
    order = np.random.default_rng(seed).permutation(n_tasks)
    scores: dict[tuple[float, float], np.ndarray] = {}
    groups = np.array_split(order, -(-n_tasks // together))
    for group in groups:
        found = _path(
            _of_tasks(checked, group),
            _of_tasks(final, group),
            C,
            sorted(lam, reverse=True),
            made,
        )
        for at, both in found.items():
            scores[at] = scores.get(at, np.zeros(2)) + len(group) / n_tasks * np.array(
                both
            )
    best = max(product(C, lam), key=lambda at: scores[at][0])
    return AnalysisResult(
        {
            "accuracy": float(scores[best][1]),
            "chosen_C": float(best[0]),
            "chosen_lam": float(best[1]),
            "together": n_tasks / len(groups),
        }
    )


def _of_tasks(part: TrainTestData, tasks: np.ndarray) -> TrainTestData:
    """Return the rows of some tasks, which are numbered anew."""
    tasks = np.sort(tasks)

    def rows(data: Dataset) -> np.ndarray:
        return np.flatnonzero(np.isin(np.asarray(data.task_id), tasks))

    def only(data: Dataset) -> Dataset:
        kept = data.subset(rows(data))
        ids = np.searchsorted(tasks, np.asarray(kept.task_id))
        return dataclasses.replace(
            kept, task_id=ids, tasks=[data.tasks[t] for t in tasks]
        )

    test_rows = part.test_rows[rows(part.test)]
    return TrainTestData(
        only(part.train),
        only(part.test),
        part.one_class[tasks],
        part.variance[tasks],
        test_rows,
    )


# ---------------------------------------------------------------- the bound of Theorem 1


@analysis(
    {
        "complexity": "empirical Rademacher complexity at gamma = 0 and R = 1, at least",
        "fails_below": "gamma up to which the printed bound (27) is below it",
        "gamma_most": "the largest gamma that any weights have",
        "bound_at_most": "the printed bound at that gamma",
    },
    digits=2,
)
def theorem_1(
    dataset: Dataset,
    *,
    seed: int,
    train: float = 0.1,
    features: str = "none",
    kernels: Sequence[str] | None = None,
    draws: int = 200,
) -> AnalysisResult:
    """Compare the bound of Theorem 1 with the complexity of machines whose tasks all have equal kernel weights.

    These are in the class for every gamma, so that their complexity is one that no bound may be below.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the split and of the signs.
    train, features, kernels
        As of `sharing`.
    draws : int, default 200
        Vectors of random signs, over which the complexity is averaged.
    """
    part, _ = _parts(dataset, train, seed, features)
    designs, _ = by_task(part.train)
    made, rng = make_kernels(kernels), np.random.default_rng(seed)
    equal = MeanKernel(kernels=tuple(made))
    rows, n_tasks, n_kernels = part.train.n_samples, len(designs), len(made)
    total = 0.0
    for X in designs:
        signs = rng.choice([-1.0, 1.0], size=(draws, len(X)))
        gram = equal(X, X)
        total += float(
            np.sqrt(
                np.maximum(
                    np.einsum("di,ij,dj->d", signs, gram, signs, optimize=True), 0.0
                )
            ).mean()
        )
    complexity = total / rows
    # Weights at the corners of the simplex, as evenly over the kernels as can be, are the farthest from each other.
    at_corner = np.bincount(np.arange(n_tasks) % n_kernels)
    gamma_most = float(np.sqrt(n_tasks**2 - np.sum(at_corner**2)))
    gammas = np.linspace(0.0, gamma_most, 41)
    bounds = np.sqrt(np.sqrt(3.0) * gammas * n_kernels / rows)
    fails_below = complexity**2 * rows / (np.sqrt(3.0) * n_kernels)
    ratio = Curve(
        gammas.tolist(),
        (bounds / complexity).tolist(),
        "gamma",
        "printed bound over complexity",
        marks={"equal": fails_below},
    )
    return AnalysisResult(
        {
            "complexity": complexity,
            "fails_below": fails_below,
            "gamma_most": gamma_most,
            "bound_at_most": float(bounds[-1]),
        },
        curves={"bound over complexity": ratio},
    )


def by_task(dataset: Dataset) -> tuple[list[Any], list[np.ndarray]]:
    """Return the rows and the labels of every task of a ragged set."""
    ids = dataset.task_id
    assert ids is not None  # paper_partition refuses shared designs
    rows = [np.flatnonzero(ids == t) for t in range(dataset.n_tasks)]
    return [dataset.X[r] for r in rows], [dataset.y[r] for r in rows]
