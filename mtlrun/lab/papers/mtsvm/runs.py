"""Runs of graph-regularized SVMs for measures: parts of data sets, ascents, LIBSVM's ladder, optima."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.estimators.svm import VARIANTS
from mtlrun.features.dna import WeightedDegree
from mtlrun.penalties.graph import TaskCoupling, check_similarity, couple_tasks
from mtlrun.problem.result import Callback, SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm.kernel import (
    augmented_features,
    certify_kernel,
    kernel_bytes,
    kernel_matrix,
    matrix_pays,
    polish,
    run_libsvm,
    solve_without_intercept,
    stored,
)
from mtlrun.solvers.svm.linear import solve_block_dcd, solve_svm_newton

Array = np.ndarray[Any, np.dtype[Any]]

#: Of the weighted-degree features of strings.
DEGREE = 8
#: LIBSVM's tolerances. Below the last one its single-precision kernel matrix gains nothing, unless the objective is
#: near 0, as that of raw pixels: there, further ones are given.
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
# A tolerance that no run reaches before its steps are over, LIBSVM's steps of a first run, its cache in megabytes, and
# the largest kernel matrix made beforehand.
_LOOSE, _PROBE, _CACHE, _MATRIX = 1e-6, 1000, 2000, 3 << 30
_MAX_ITER, _MAX_STEPS = 10**7, 10**15
# Tolerance below which a run is not repeated with a smaller one.
_LEAST_TOL = 1e-12
# Relative gap that references are computed to, as far as floats allow.
_FINEST = 1e-14
# Bound on a difference that counts as an optimum reached.
_SURE = 1e-8
#: Clocks that runs are timed by: the time that passes, or the time that the processor
#: works for this process, whatever else it does meanwhile.
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}
# Coefficients up to which the interior-point method is tried for a reference, and the value of the constant feature
# that stands for LIBSVM's intercept there.
_SMALL, _CONSTANT = 500, 100.0


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
    owner = (
        np.zeros(dataset.n_samples, dtype=np.int64)
        if dataset.task_id is None
        else dataset.task_id
    )
    chosen = []
    for t in range(int(owner.max()) + 1):
        rows = np.flatnonzero(owner == t)
        order = np.random.default_rng([seed, t]).permutation(len(rows))
        chosen.append(rows[order[: max(2, round(fraction * len(rows)))]])
    return dataset.subset(np.sort(np.concatenate(chosen)))


def task_data(dataset: Dataset) -> TaskData:
    """Return the rows for the solvers; strings as weighted-degree features made on the fly."""
    if not dataset.strings:
        return dataset.taskdata()
    design = WeightedDegree(DEGREE).fit_design(dataset.X)
    task_id = dataset.task_id
    assert task_id is not None, "string sets have a task per row"
    data = TaskData.from_stacked(np.zeros((len(design), 1)), dataset.y, task_id)
    return data.with_design(design if data.order is None else design[data.order])


def couple(dataset: Dataset) -> TaskCoupling:
    """Return how the tasks are coupled: by the similarity that a simulation comes with, else by ones plus identity."""
    given = dataset.truth.get("similarity", "all")
    return couple_tasks(check_similarity(given, np.arange(dataset.n_tasks)))


def warm_up(dataset: Dataset) -> None:
    """Compile the solvers, or load what was compiled, for dense rows and for those of `dataset`."""
    rng = np.random.default_rng(0)
    data = TaskData.from_list(
        list(rng.normal(size=(2, 30, 3))), list(np.sign(rng.normal(size=(2, 30))))
    )
    links = couple_tasks(check_similarity("all", data.tasks))
    solve_svm_newton(data, links)
    few = part_of(dataset, 1e-9, seed=0)  # two rows of every task
    for rows, coupling in ((data, links), (task_data(few), couple(few))):
        for form in ("block", "example"):
            solve_block_dcd(rows, coupling, form=form)
        climb_kernel(rows, coupling, 1.0, 1e-4)


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
    clock: str = "wall",
) -> SolverResult:
    """Run a solver without intercept until a relative gap of `tol`, `seconds` or a primal value.

    Parameters
    ----------
    solver : {"block", "block-printed", "corrected", "paper", "newton", "kernel"}
        A variant of coordinate ascent, the second-order method, or the one with the multi-task kernel.
    clock : {"wall", "processor"}, default "wall"
        Clock of `seconds` and of the certificates of the result. The second-order method
        only has the first.

    Raises
    ------
    ValueError
        If there is no such solver.
    """
    if solver == "newton":
        return solve_svm_newton(data, links, C=C, tol=tol)
    solver_tol = tol
    while True:
        watch = Stopwatch(seconds, reached, clock)
        result = watch.timed(_run(solver, data, links, C, solver_tol, seed, watch))
        gap = certificates(result)[-1].gap
        if gap <= tol or not result.converged or solver_tol < _LEAST_TOL:
            return result
        # The solvers call a gap small beside a thousandth of the objective of no model,
        # which is far above the least objective where rows are separable. Then the run
        # is repeated with a smaller tolerance, and its seconds alone count.
        solver_tol *= min(0.5, tol / gap)


def _run(
    solver: str,
    data: TaskData,
    links: TaskCoupling,
    C: float,
    tol: float,
    seed: int,
    watch: Stopwatch,
) -> SolverResult:
    """Run a first-order solver without intercept once."""
    if solver == "kernel":
        return climb_kernel(data, links, C, tol, watch)
    if solver not in VARIANTS:
        raise ValueError(
            f"solver must be one of {', '.join(VARIANTS)}, newton, kernel, mtk-intercept, got {solver!r}"
        )
    form, step = VARIANTS[solver]
    return solve_block_dcd(
        data,
        links,
        C=C,
        tol=tol,
        max_iter=_MAX_ITER,
        seed=seed,
        form=form,
        step=step,
        callback=watch,
    )


def climb_kernel(
    data: TaskData,
    links: TaskCoupling,
    C: float,
    tol: float,
    callback: Callback | None = None,
) -> SolverResult:
    """Run the kernel solver without intercept to a relative gap; not on a shared design."""
    designs = [data.task(t)[0] for t in range(data.n_tasks)]
    return solve_without_intercept(
        designs,
        links,
        data.targets,
        np.full(len(data.targets), float(C)),
        tol=0.0,
        gap=tol,
        max_iter=_MAX_STEPS,
        precompute=_precomputes(data),
        cache_size=_CACHE,
        callback=callback,
    )


def _precomputes(data: TaskData) -> bool:
    """Return whether the kernel matrix is made beforehand."""
    return matrix_pays(_entries(data)) and kernel_bytes(data.n_rows) <= _MATRIX


def until(seconds: float) -> Callable[[int, float, float], bool]:
    """Return a callback that stops a run when its time is over."""
    begun = time.perf_counter()
    return lambda *_: time.perf_counter() - begun > seconds


class Stopwatch:
    """Callback that stops a run when its time is over, and times its certificates.

    Parameters
    ----------
    seconds : float
        Time of the run.
    reached : callable
        Called with the primal value of a certificate; a true answer stops, too.
    clock : {"wall", "processor"}
    """

    def __init__(
        self, seconds: float, reached: Callable[[float], bool], clock: str
    ) -> None:
        self.limit = seconds
        self.reached = reached
        self.clock = clock
        self.seconds: list[float] = []
        self._start = CLOCKS[clock]()

    def __call__(self, iteration: int, primal: float, dual: float) -> bool:
        """Note the time of a certificate; return whether to stop."""
        elapsed = CLOCKS[self.clock]() - self._start
        self.seconds.append(elapsed)
        return self.reached(primal) or elapsed > self.limit

    def timed(self, result: SolverResult) -> SolverResult:
        """Return the result with the seconds of this clock.

        Solvers time their certificates by the wall clock themselves.
        """
        if self.clock == "wall":
            return result
        # A run that reached its tolerance ended without a call for its last certificate.
        missing = len(result.gaps) - len(self.seconds)
        end = CLOCKS[self.clock]() - self._start
        seconds = [*self.seconds, *[end] * missing]
        return replace(result, info={**result.info, "seconds": seconds})


@dataclass(frozen=True)
class TimedCertificate:
    """The objective and its bound, and the seconds after which they were known."""

    seconds: float
    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """The relative duality gap."""
        return (self.primal - self.dual) / max(1.0, abs(self.primal))


@dataclass(frozen=True)
class Rung(TimedCertificate):
    """One run of LIBSVM, and what it found."""

    n_iter: int
    done: bool
    alpha: Array


class Ladder:
    """LIBSVM with the multi-task kernel and its intercept, run again and again, with other tolerances.

    The seconds of a run are those of the kernel matrix, or of the features that LIBSVM multiplies itself, and of
    LIBSVM; not those of the certificate. A run is stopped at as many steps as the time allows.

    Parameters
    ----------
    data : TaskData
        Not a shared design.
    links : TaskCoupling
    C : float
    seconds : float
        For all runs.
    clock : {"wall", "processor"}, default "wall"
    """

    def __init__(
        self,
        data: TaskData,
        links: TaskCoupling,
        C: float,
        seconds: float,
        clock: str = "wall",
    ) -> None:
        self.rungs: list[Rung] = []
        self._clock = CLOCKS[clock]
        self.links = links
        self.y, self.cost = data.targets, np.full(len(data.targets), float(C))
        designs = [data.task(t)[0] for t in range(data.n_tasks)]
        begun = self._clock()
        self._end = begun + seconds
        self._Z = (kernel_matrix if _precomputes(data) else augmented_features)(
            designs, links
        )
        self._made = self._clock() - begun
        self.designs = [stored(X) for X in designs]

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._end - self._clock()

    def climb(self, tolerances: Sequence[float], aim: float = 0.0) -> None:
        """Run one tolerance after the other, until the gap is small enough or the time is over."""
        for tol in tolerances:
            while not self.step(tol).done and self.left > 2 * self.rungs[-1].seconds:
                pass
            if self.rungs[-1].gap <= aim or not self.rungs[-1].done or self.left <= 0:
                break

    def begin(self, parts: Sequence[float]) -> None:
        """Add runs of so many parts of the steps of the last one: early points of its curve."""
        last = self.rungs[-1].n_iter
        for part in parts:
            self.step(_LOOSE, max(1, int(part * last)))

    def step(self, tol: float, max_iter: int | None = None) -> Rung:
        """Run once, as many steps as given or as the time allows."""
        begun = self._clock()
        alpha, b, n_iter, done = run_libsvm(
            self._Z,
            self.y,
            self.cost,
            tol=tol,
            max_iter=self._affordable() if max_iter is None else max_iter,
            cache_size=_CACHE,
        )
        took = self._made + self._clock() - begun
        point = certify_kernel(self.designs, self.links, self.y, self.cost, alpha, b)
        self.rungs.append(Rung(took, point.primal, point.dual, n_iter, done, alpha))
        return self.rungs[-1]

    def _affordable(self) -> int:
        if not self.rungs:
            return _PROBE
        last = self.rungs[-1]
        pace = max(last.seconds - self._made, 1e-4) / max(last.n_iter, 1)
        return int(min(max(_PROBE, self.left / pace), 2**31 - 1))


def _entries(data: TaskData) -> float:
    """Return the non-zeros of a row."""
    if hasattr(data.X, "rows"):
        return np.inf
    return data.X.nnz / data.n_rows if data.sparse else data.n_features


def certificates(result: SolverResult) -> list[TimedCertificate]:
    """Return the certificates of a run."""
    seconds = map(float, result.info["seconds"])
    return [
        TimedCertificate(at, primal, dual)
        for at, (_, primal, dual) in zip(seconds, result.gaps, strict=True)
    ]


def time_to(points: Sequence[TimedCertificate], tol: float, precision: str) -> float:
    """Return the first time at which a run is at a relative precision, NaN if it never is.

    Parameters
    ----------
    points : list of TimedCertificate
    tol : float
    precision : {"gap", "dual"}
        "gap" asks for a relative duality gap of `tol`, "dual" for a dual value within `tol` of the best one, which must
        be certified to ``tol / 10``.

    Raises
    ------
    ValueError
        For another precision.
    """
    at = [point.seconds for point in points]
    if precision == "gap":
        return first_time(at, np.array([point.gap <= tol for point in points]))
    if precision != "dual":
        raise ValueError(f"precision must be gap or dual, got {precision!r}")
    dual = np.array([point.dual for point in points])
    best = float(dual.max())
    if min(point.primal for point in points) - best > tol / 10 * max(1.0, abs(best)):
        return np.nan
    return first_time(at, dual >= best - tol * max(1.0, abs(best)))


# ---------------------------------------------------------------- references


@dataclass(frozen=True)
class ReferenceOptimum:
    """An optimum, half the width of the interval that it lies in, and how it was found."""

    optimum: float
    accuracy: float
    how: str

    def resolved(self, differences: Array) -> Array:
        """Return differences from this optimum; those below twice its accuracy become that bound, or NaN if large."""
        least = 2 * self.accuracy
        return np.where(
            differences > least, differences, least if least <= _SURE else np.nan
        )


def optimum_of(
    data: TaskData, links: TaskCoupling, C: float, seconds: float
) -> ReferenceOptimum:
    """Return the optimum without intercept."""
    result = solve_block_dcd(
        data, links, C=C, tol=_FINEST, max_iter=_MAX_ITER, callback=until(seconds)
    )
    low, high, how = *_bracket(result), "block-wise coordinate ascent with exact steps"
    if data.n_tasks * data.n_features <= _SMALL and high - low > 1e-11 * abs(high):
        other = _bracket(solve_svm_newton(data, links, C=C, tol=_FINEST))
        if other[1] - other[0] < high - low:
            low, high, how = *other, "the interior-point method"
    return ReferenceOptimum((low + high) / 2, _accuracy(low, high), how)


def kernel_optimum(ladder: Ladder) -> ReferenceOptimum:
    """Return the optimum with LIBSVM's intercept: exact where an active-set method succeeds, else LIBSVM's bounds.

    It begins at LIBSVM's best run, or for few coefficients where the interior-point method ends if a constant feature
    stands for the intercept.
    """
    links, y, cost = ladder.links, ladder.y, ladder.cost
    starts = [max(ladder.rungs, key=lambda rung: rung.dual).alpha]
    if links.n_tasks * ladder.designs[0].shape[1] <= _SMALL:
        Z = augmented_features(ladder.designs, links).toarray()
        alone = TaskData.from_matrix(
            np.column_stack([Z, np.full(len(Z), _CONSTANT)]), y[:, None]
        )
        found = solve_svm_newton(
            alone, couple_tasks(np.ones((1, 1))), C=float(cost[0]), tol=_FINEST
        )
        starts.append(found.info["alpha"][:, 0])
    low, high = (
        max(rung.dual for rung in ladder.rungs),
        min(rung.primal for rung in ladder.rungs),
    )
    how = "LIBSVM's best primal and dual values"
    for start in starts:
        point = polish(ladder.designs, links, y, cost, start)
        if point is not None:
            # The dual value holds for variables that sum to 0 over the labels; rounding is weighed by the intercept.
            slack = abs(point.intercept * float(point.alpha @ y))
            if point.primal - point.dual + slack < high - low:
                low, high = point.dual - slack, point.primal
                how = "an active-set method"
    return ReferenceOptimum((low + high) / 2, _accuracy(low, high), how)


def _bracket(result: SolverResult) -> tuple[float, float]:
    """Return the best dual and the best primal value of a run."""
    return max(dual for _, _, dual in result.gaps), min(
        primal for _, primal, _ in result.gaps
    )


def _accuracy(low: float, high: float) -> float:
    return max((high - low) / 2, float(np.finfo(float).eps) * max(1.0, abs(high)))


def first_time(at: Sequence[float], reached: Array) -> float:
    """Return the first time at which something is reached, NaN if never."""
    return float(at[int(np.argmax(reached))]) if np.any(reached) else np.nan
