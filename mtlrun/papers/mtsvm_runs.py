"""Runs of graph-regularised SVMs for measures: parts of data sets, coordinate ascent, LIBSVM's ladder, optima."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.estimators.svm import VARIANTS, MultiTaskKernelSVC, augmented_features
from mtlrun.features.dna import WeightedDegree
from mtlrun.penalties.graph import TaskCoupling, check_similarity, couple_tasks
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.dcd import solve_block_dcd
from mtlrun.solvers.svm.newton import solve_svm_newton

Array = np.ndarray[Any, np.dtype[Any]]

#: LIBSVM's tolerances; below the last one its single-precision kernel matrix gains nothing.
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
_MAX_ITER = 10**7
# Relative gap that references are computed to, as far as floats allow.
_FINEST = 1e-14
# Coefficients up to which the interior-point method is tried for a reference.
_SMALL = 500
# Value of the constant feature that stands for LIBSVM's intercept b in its reference: its penalty is b^2 / 2e4.
_CONSTANT = 100.0


# ---------------------------------------------------------------- data


def part_of(dataset: Dataset, fraction: float, seed: int) -> Dataset:
    """Return a random part of the rows of every task, at least two; parts of one seed contain each other.

    Raises
    ------
    ValueError
        If the fraction is not in (0, 1].
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be in (0, 1], got {fraction}")
    if fraction == 1:
        return dataset
    owner = np.zeros(dataset.n_samples, dtype=np.int64) if dataset.task_id is None else dataset.task_id
    chosen = []
    for t in range(int(owner.max()) + 1):
        rows = np.flatnonzero(owner == t)
        order = np.random.default_rng([seed, t]).permutation(len(rows))
        chosen.append(rows[order[: max(2, round(fraction * len(rows)))]])
    return dataset.subset(np.sort(np.concatenate(chosen)))


def task_data(dataset: Dataset, *, degree: int = 8, normalize: bool = False, scale: float = 1.0) -> TaskData:
    """Return the rows for the solvers; strings as weighted-degree features made on the fly."""
    if not dataset.strings:
        data = dataset.taskdata()
        return data if scale == 1 else data.with_design(data.X / scale)
    design = WeightedDegree(degree, normalize=normalize).fit_design(dataset.X)
    data = TaskData.from_stacked(np.zeros((len(design), 1)), dataset.y, dataset.task_id)
    return data.with_design(design if data.order is None else design[data.order])


def warm_up() -> None:
    """Compile the solvers, or load what was compiled, before anything is timed."""
    rng = np.random.default_rng(0)
    data = TaskData.from_list(list(rng.normal(size=(2, 30, 3))), list(np.sign(rng.normal(size=(2, 30)))))
    links = couple_tasks(check_similarity("all", data.tasks))
    for form in ("block", "example"):
        solve_block_dcd(data, links, form=form)
    solve_svm_newton(data, links)


def needed(dataset: Dataset | None) -> Dataset:
    """Return the data set; a measure without one raises ValueError."""
    if dataset is None:
        raise ValueError("this measure needs a data set")
    return dataset


# ---------------------------------------------------------------- runs


def ascend(
    solver: str,
    data: TaskData,
    links: TaskCoupling,
    C: float,
    tol: float,
    seed: int,
    seconds: float,
    reached: Callable[[float], bool] = lambda _: False,
) -> SolverResult:
    """Run a variant of coordinate ascent, or the second-order method, until `tol`, `seconds` or a primal value.

    Raises
    ------
    ValueError
        If there is no such solver.
    """
    if solver == "newton":
        return solve_svm_newton(data, links, C=C, tol=tol)
    if solver not in VARIANTS:
        raise ValueError(f"solver must be one of {', '.join(VARIANTS)}, newton, mtk, got {solver!r}")
    form, step = VARIANTS[solver]
    late = until(seconds)
    return solve_block_dcd(
        data,
        links,
        C=C,
        tol=tol,
        max_iter=_MAX_ITER,
        seed=seed,
        form=form,
        step=step,
        callback=lambda i, primal, dual: reached(primal) or late(i, primal, dual),
    )


def until(seconds: float) -> Callable[[int, float, float], bool]:
    """Return a callback that stops a run when its time is over."""
    begun = time.perf_counter()
    return lambda *_: time.perf_counter() - begun > seconds


@dataclass(frozen=True)
class Rung:
    """One run of LIBSVM."""

    tol: float
    seconds: float
    primal: float
    dual: float
    gap: float
    n_iter: int


def climb_ladder(
    dataset: Dataset,
    C: float,
    coupling: float,
    scale: float,
    degree: int,
    tolerances: Sequence[float],
    seconds: float,
    enough: Callable[[Rung], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> list[Rung]:
    """Run LIBSVM with one tolerance after the other, until a run is good enough or the time is over.

    The seconds of a run are those of fitting, certificate and validation included.
    """
    X = dataset.X if dataset.strings or scale == 1 else dataset.X / scale
    features = WeightedDegree(degree) if dataset.strings else None
    rungs: list[Rung] = []
    for tol in tolerances:
        model = MultiTaskKernelSVC(C=C, coupling=coupling, tol=tol, max_iter=-1, features=features, cache_size=2000)
        begun = clock()
        model.fit(X, dataset.y, task_id=dataset.task_id)
        took = clock() - begun
        primal, gap = model.objective_[-1], float(model.gap_ or 0.0)
        dual = primal - gap * max(1.0, abs(primal))
        rungs.append(Rung(tol, took, primal, dual, gap, model.n_iter_))
        if enough(rungs[-1]) or sum(r.seconds for r in rungs) > seconds:
            break
    return rungs


def cheapest(rungs: Sequence[Rung], tol: float, optimum: float | None) -> Rung | None:
    """Return the loosest run within `tol` of the optimum, or of the best dual if that can stand for it."""
    if optimum is None:
        if rungs[-1].gap > 10 * tol:
            return None
        optimum = max(r.dual for r in rungs)
    return next((r for r in rungs if r.dual >= optimum - tol * max(1.0, abs(optimum))), None)


# ---------------------------------------------------------------- references


@dataclass(frozen=True)
class Reference:
    """An optimum, half the width of the interval that it lies in, and the seconds of coordinate ascent to 1e-8."""

    optimum: float
    accuracy: float
    seconds: float
    how: str


def optimum_of(data: TaskData, links: TaskCoupling, C: float, seconds: float) -> Reference:
    """Return the optimum without intercept."""
    result = solve_block_dcd(data, links, C=C, tol=_FINEST, max_iter=_MAX_ITER, callback=until(seconds))
    low, high, how = *_bracket(result), "block-wise coordinate ascent with exact steps"
    if data.n_tasks * data.n_features <= _SMALL and high - low > 1e-11 * abs(high):
        other = _bracket(solve_svm_newton(data, links, C=C, tol=_FINEST))
        if other[1] - other[0] < high - low:
            low, high, how = *other, "the interior-point method"
    optimum = (low + high) / 2
    near = np.abs(np.array(result.objective) - optimum) <= 1e-8 * abs(optimum)
    at = result.info["seconds"]
    reached = first_time(at, near)
    return Reference(optimum, _accuracy(low, high), at[-1] if np.isnan(reached) else reached, how)


def kernel_optimum(data: TaskData, links: TaskCoupling, C: float) -> Reference | None:
    """Return the optimum with LIBSVM's intercept by the interior-point method; None if that is not cheap."""
    if data.n_tasks * data.n_features > _SMALL or hasattr(data.X, "rows"):
        return None
    blocks = [data.task(t) for t in range(data.n_tasks)]
    Z = augmented_features([X for X, _, _ in blocks], links).toarray()
    Z = np.column_stack([Z, np.full(len(Z), _CONSTANT)])
    y = np.concatenate([y for _, y, _ in blocks])
    alone = couple_tasks(np.ones((1, 1)))
    result = solve_svm_newton(TaskData.from_matrix(Z, y[:, None]), alone, C=C, tol=_FINEST)
    penalty = 0.5 * float(result.W[-1, 0]) ** 2
    low, high = _bracket(result)
    low, high = low - 2 * penalty, high - penalty  # without the penalty of the intercept, with a margin
    how = "the interior-point method with a nearly free intercept"
    return Reference((low + high) / 2, _accuracy(low, high), np.nan, how)


def best_of(rungs: Sequence[Rung]) -> Reference:
    """Return the optimum as LIBSVM's runs bracket it."""
    low, high = max(r.dual for r in rungs), min(r.primal for r in rungs)
    return Reference((low + high) / 2, _accuracy(low, high), np.nan, "LIBSVM's best primal and dual values")


def _bracket(result: SolverResult) -> tuple[float, float]:
    """Return the best dual and the best primal value of a run."""
    return max(dual for _, _, dual in result.gaps), min(primal for _, primal, _ in result.gaps)


def _accuracy(low: float, high: float) -> float:
    return max((high - low) / 2, float(np.finfo(float).eps) * max(1.0, abs(high)))


def first_time(at: Sequence[float], reached: Array) -> float:
    """Return the first time at which something is reached, NaN if never."""
    return float(at[int(np.argmax(reached))]) if np.any(reached) else np.nan
