"""Algorithms 1 and 2 of multi-task MKL, as printed and corrected."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, Curve, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import paper_partition
from mtlrun.errors import check_choice
from mtlrun.papers.mtmkl.common import (
    KERNEL_CACHE_BYTES,
    make_machines,
    rows_by_task,
)
from mtlrun.papers.mtmkl.update import FIXES, block_descent, consensus
from mtlrun.solvers.mkl.kernels import make_kernels
from mtlrun.solvers.mkl.machines import GramStore, SvmTasks
from mtlrun.solvers.mkl.mkl import (
    Coupling,
    MklResult,
    solve_alternating,
    solve_group_mkl,
)

#: Algorithm 1 in its two forms, and block descent on the primal problem (2).
_OUTER_LOOPS: dict[str, Callable[..., MklResult]] = {
    "paper": solve_alternating,
    "corrected": solve_group_mkl,
    "primal": block_descent,
}
#: Updates of Algorithm 2 that are corrected.
_CORRECTED_UPDATES: dict[str, tuple[str, ...]] = {"paper": (), "corrected": FIXES}


@analysis(
    {
        "gap": "certified relative gap at the end",
        "objective": "objective at the end",
        "best_objective": "smallest objective of all iterations",
        "cycle_length": "iterations after which the weights come back, 0 if they do "
        "not",
        "cycle_spread": "largest minus smallest objective within the cycle, relative",
        "n_iter": "outer iterations",
        "svm_fits": "machines trained",
    },
    name="mtmkl-algorithm",
    labels={
        "cycle_length": "length of a cycle",
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
    """Follow the objective of Algorithm 1, or of another outer loop, in one fit.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split.
    variant : {"paper", "corrected", "primal"}, default "paper"
        "primal" is descent in the two blocks w and theta of the primal problem.
    train : float, default 0.1
        Share of the training part.
    C, lam, kernels, tol, max_iter
        As of `GroupMKLClassifier`.

    Returns
    -------
    AnalysisResult
        Curves ``objective`` and ``lower bound`` over the iterations.
    """
    check_choice("variant", variant, *_OUTER_LOOPS)
    machines = _machines(dataset, train, seed, kernels, C, tol=0.1 * tol)
    result = _OUTER_LOOPS[variant](machines, lam, tol=tol, max_iter=max_iter)
    objectives = {iteration: float(primal) for iteration, primal, _ in result.gaps}
    bounds = {iteration: float(bound) for iteration, _, bound in result.gaps}
    n_iter = max(objectives)
    #: Objectives of the iterations after which the weights come back.
    cycle = result.info.get("cycle", [])
    cycle_spread = 0.0
    marks = {}
    lines = []
    if cycle:
        cycle_spread = (max(cycle) - min(cycle)) / min(cycle)
        marks = {"returns": float(n_iter - len(cycle) + 1)}
        lines = [result.message]
    return AnalysisResult(
        {
            "gap": float(result.gap),
            "objective": objectives[n_iter],
            "best_objective": min(objectives.values()),
            "cycle_length": float(len(cycle)),
            "cycle_spread": cycle_spread,
            "n_iter": float(n_iter),
            "svm_fits": float(result.info["n_fits"]),
        },
        curves={
            "objective": _over_iterations(objectives, "objective", marks),
            "lower bound": _over_iterations(bounds, "certified lower bound", {}),
        },
        lines=lines,
        # The analysis measures that the algorithm does not converge, so its result is
        # not marked as such.
        solver={"n_iter": n_iter, "converged": True, "gap": float(result.gap)},
    )


def _machines(
    dataset: Dataset,
    train: float,
    seed: int,
    kernels: Sequence[str] | None,
    C: float,
    tol: float,
) -> SvmTasks:
    """Return the SVMs of the tasks on the training part of a balanced split."""
    train_rows, _, _ = paper_partition(dataset, train, seed)
    designs, labels = rows_by_task(dataset.subset(train_rows))
    grams = GramStore(make_kernels(kernels), designs, KERNEL_CACHE_BYTES)
    return make_machines(grams, labels, C, tol)


def _over_iterations(
    values: dict[int, float], name: str, marks: dict[str, float]
) -> Curve:
    iterations = [float(iteration) for iteration in values]
    return Curve(iterations, list(values.values()), "iteration", name, marks=marks)


@analysis(
    {
        "residual": "distance of the copies from the weights at the end, relative",
        "iterations": "iterations until residuals are small (1e-4 absolute, 1e-2 "
        "relative), at most 1000",
        "largest": "largest absolute weight at the end; a run that comes to 1e9 is "
        "ended",
        "over_best": "objective at the end minus the best one, relative to that",
    },
    name="mtmkl-consensus",
    labels={
        "over_best": "objective above the best one",
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
    """Run Algorithm 2, the consensus iteration for the weights, once from equal ones.

    The machines with equal weights give the slopes.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Seed of the split.
    variant : {"paper", "corrected"}, default "paper"
        Equations (12) and (14) to (18) as printed, or corrected.
    train : float, default 0.1
        Share of the training part.
    C, kernels
        As of `GroupMKLClassifier`.
    lam : float, default 0.1
        Relative to the largest slope.

    Returns
    -------
    AnalysisResult
        Curve ``largest weight`` over the iterations.
    """
    check_choice("variant", variant, *_CORRECTED_UPDATES)
    machines = _machines(dataset, train, seed, kernels, C, tol=1e-4)
    n_tasks = machines.n_tasks
    n_kernels = machines.n_kernels
    theta = np.full((n_tasks, n_kernels), 1.0 / n_kernels)
    slopes = np.array([machines.solve(t, theta[t]).slope for t in range(n_tasks)])
    scale = float(np.abs(slopes).max())
    run = consensus(theta, slopes, lam * scale, _CORRECTED_UPDATES[variant])
    coupling = Coupling(lam * scale, *theta.shape)
    best, _ = coupling.step(theta, slopes, np.zeros((len(theta), 1)), 1e-4 * scale)

    def objective(weights: np.ndarray) -> float:
        return float(np.vdot(slopes, weights)) + coupling.value(weights)

    best_objective = objective(best)
    excess = objective(run.theta) - best_objective
    sizes = dict(enumerate(run.sizes, 1))
    return AnalysisResult(
        {
            "residual": run.residual,
            "iterations": float(run.n_iter),
            "largest": run.sizes[-1],
            "over_best": excess / abs(best_objective),
        },
        curves={
            "largest weight": _over_iterations(sizes, "largest absolute weight", {})
        },
        # The analysis measures whether the iteration stops.
        solver={"n_iter": run.n_iter, "converged": True},
    )


#: Rounds of Algorithm 2 over which the seconds of one are averaged.
N_ROUNDS = 100
#: Measurements of which the fastest counts.
N_MEASUREMENTS = 5


@analysis(
    {
        "kernels_rows": "exponent of the seconds of the kernel matrices in the rows "
        "of a task",
        "kernels_tasks": "exponent of the seconds of the kernel matrices in the tasks",
        "machines_rows": "exponent of the seconds of the machines in the rows of a "
        "task",
        "machines_tasks": "exponent of the seconds of the machines in the tasks",
        "worker_tasks": "exponent of the seconds of the slowest machine in the tasks",
        "round_tasks": "exponent of the seconds of a round of Algorithm 2 in the tasks",
    },
    name="mtmkl-cost",
    labels={
        "kernels_rows": "kernel matrices, rows",
        "kernels_tasks": "kernel matrices, tasks",
        "machines_rows": "machines, rows",
        "machines_tasks": "machines, tasks",
        "worker_tasks": "slowest machine, tasks",
        "round_tasks": "round of Algorithm 2, tasks",
    },
    digits=1,
    varies=("*",),
)
def iteration_cost(
    dataset: Dataset,
    *,
    seed: int,
    tasks: Sequence[int] = (5, 10, 20, 40),
    rows: Sequence[int] = (50, 100, 200, 400),
    C: float = 1.0,
    lam: float = 0.1,
    kernels: Sequence[str] | None = None,
) -> AnalysisResult:
    """Measure how the processor seconds of an iteration of Algorithm 1 grow.

    Seconds ~ size^exponent is fitted to sizes that double. Tasks grow at the second
    smallest number of rows, rows at the smallest number of tasks. Kernel weights are
    equal.

    Parameters
    ----------
    dataset : Dataset
        With the largest number of tasks, and of rows in each, at least.
    seed : int
        Seed of the draw of the rows.
    tasks, rows : sequence of int
        Numbers of tasks, and of rows per task.
    C, lam, kernels
        As of `algorithm_2`.

    Returns
    -------
    AnalysisResult
        Curves of the seconds over the tasks.
    """

    def seconds_of(n_tasks: int, n_rows: int) -> np.ndarray:
        # Other programs can only make a measurement longer, and so can the first call
        # of a compiled function.
        measured = []
        for _ in range(N_MEASUREMENTS):
            parts = _seconds_of_parts(dataset, seed, n_tasks, n_rows, C, lam, kernels)
            measured.append(parts)
        return np.min(measured, axis=0)

    by_tasks = np.array([seconds_of(n, rows[1]) for n in tasks])
    by_rows = np.array([seconds_of(tasks[0], n) for n in rows])

    def exponent(sizes: Sequence[int], seconds: np.ndarray) -> float:
        return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])

    names = ["kernel matrices", "machines", "slowest machine", "round of Algorithm 2"]
    curves = {}
    for name, seconds in zip(names, by_tasks.T, strict=True):
        curves[name] = Curve(list(map(float, tasks)), seconds.tolist(), "tasks", name)
    return AnalysisResult(
        {
            "kernels_rows": exponent(rows, by_rows[:, 0]),
            "kernels_tasks": exponent(tasks, by_tasks[:, 0]),
            "machines_rows": exponent(rows, by_rows[:, 1]),
            "machines_tasks": exponent(tasks, by_tasks[:, 1]),
            "worker_tasks": exponent(tasks, by_tasks[:, 2]),
            "round_tasks": exponent(tasks, by_tasks[:, 3]),
        },
        curves=curves,
    )


def _seconds_of_parts(
    dataset: Dataset,
    seed: int,
    n_tasks: int,
    n_rows: int,
    C: float,
    lam: float,
    kernels: Sequence[str] | None,
) -> tuple[float, float, float, float]:
    """Return the processor seconds of the parts of an iteration.

    The parts are the kernel matrices, all machines, the slowest machine and a round of
    Algorithm 2.
    """
    rng = np.random.default_rng(seed)
    designs = []
    labels = []
    for X, y in zip(*rows_by_task(dataset), strict=True):
        drawn = rng.permutation(len(y))[:n_rows]
        designs.append(X[drawn])
        labels.append(y[drawn])
    grams = GramStore(make_kernels(kernels), designs[:n_tasks], KERNEL_CACHE_BYTES)
    machines = make_machines(grams, labels[:n_tasks], C, 1e-4)
    kernel_seconds = 0.0
    machine_seconds = []
    slopes = []
    theta = np.full((n_tasks, machines.n_kernels), 1.0 / machines.n_kernels)
    for task, weights in enumerate(theta):
        start = time.process_time()
        _ = grams[task]
        kernels_end = time.process_time()
        slopes.append(machines.solve(task, weights).slope)
        machine_seconds.append(time.process_time() - kernels_end)
        kernel_seconds += kernels_end - start
    strength = lam * float(np.abs(slopes).max())
    start = time.process_time()
    consensus(theta, np.array(slopes), strength, FIXES, max_iter=N_ROUNDS, stop=False)
    round_seconds = (time.process_time() - start) / N_ROUNDS
    return kernel_seconds, sum(machine_seconds), max(machine_seconds), round_seconds
