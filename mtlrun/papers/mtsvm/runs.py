"""Timed runs of solvers of graph-regularized SVMs, and optima to compare them with.

Times are seconds of a clock of `CLOCKS`. A certificate is a pair of a primal and a dual
value, which bound the optimum from above and from below.
"""

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

#: Clocks that runs are timed by: the time that passes, or the time that the processor
#: works for this process, whatever else it does meanwhile.
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}
#: Degree of the weighted-degree features of strings.
DEGREE = 8
#: Tolerances of LIBSVM. Below the last one its kernel matrix of single precision gains
#: nothing, unless the objective is near 0, as for raw pixels, for which experiments
#: list further tolerances.
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
#: LIBSVM reaches this tolerance in no run whose number of steps is given.
_UNREACHED_TOLERANCE = 1e-6
#: Steps of the first run of LIBSVM, from which the time of a step is estimated.
_PROBE_STEPS = 1000
#: Largest number of steps that LIBSVM takes, a 32-bit integer.
_MAX_LIBSVM_STEPS = 2**31 - 1
#: Shortest time of the steps of a run that is used in that estimate, in seconds.
_MIN_STEPS_SECONDS = 1e-4
#: Cache of LIBSVM in megabytes.
_CACHE_MB = 2000
#: Largest kernel matrix that is computed beforehand.
_MAX_MATRIX_BYTES = 3 << 30
_MAX_ITER = 10**7
_MAX_KERNEL_STEPS = 10**15
#: A run with a smaller tolerance of the solver is not repeated.
_MIN_SOLVER_TOL = 1e-12
#: Relative gap of references, as small as floats allow.
_FINEST_GAP = 1e-14
#: Relative gap to which the second-order method runs at least: its last iterations gain
#: most.
_NEWTON_GAP = 1e-9
#: Largest bound of an unresolved difference that is reported in its place.
_MAX_UNRESOLVED = 1e-8
#: Largest number of coefficients for which the interior-point method is tried.
_MAX_NEWTON_SIZE = 500
#: Value of the constant feature that stands for LIBSVM's intercept in that method.
_CONSTANT_FEATURE = 100.0


# ---------------------------------------------------------------- data


def part_of(dataset: Dataset, fraction: float, seed: int) -> Dataset:
    """Return a random part of the rows of each task.

    Parameters
    ----------
    dataset : Dataset
    fraction : float
        Share of the rows of each task; at least two rows are kept.
    seed : int
        A larger fraction contains the rows of a smaller one with the same seed.

    Raises
    ------
    ValueError
        If the fraction is not in (0, 1].
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be in (0, 1], got {fraction}")
    if fraction == 1:
        return dataset
    task_id = dataset.task_id
    if task_id is None:
        task_id = np.zeros(dataset.n_samples, dtype=np.int64)
    chosen = []
    for task in range(int(task_id.max()) + 1):
        rows = np.flatnonzero(task_id == task)
        order = np.random.default_rng([seed, task]).permutation(len(rows))
        n_kept = max(2, round(fraction * len(rows)))
        chosen.append(rows[order[:n_kept]])
    return dataset.subset(np.sort(np.concatenate(chosen)))


def task_data(dataset: Dataset) -> TaskData:
    """Return the rows for the solvers.

    Weighted-degree features of strings are computed when they are needed.
    """
    if not dataset.strings:
        return dataset.taskdata()
    design = WeightedDegree(DEGREE).fit_design(dataset.X)
    task_id = dataset.task_id
    assert task_id is not None, "string sets have a task per row"
    data = TaskData.from_stacked(np.zeros((len(design), 1)), dataset.y, task_id)
    if data.order is not None:
        design = design[data.order]
    return data.with_design(design)


def couple(dataset: Dataset) -> TaskCoupling:
    """Return how the tasks are coupled.

    Simulated data have a similarity of the tasks in their truth; otherwise it is ones
    plus the identity.
    """
    similarity = dataset.truth.get("similarity", "all")
    return couple_tasks(check_similarity(similarity, np.arange(dataset.n_tasks)))


def warm_up(dataset: Dataset) -> None:
    """Compile the solvers, or load them, for dense rows and for rows of a data set."""
    rng = np.random.default_rng(0)
    designs = list(rng.normal(size=(2, 30, 3)))
    labels = list(np.sign(rng.normal(size=(2, 30))))
    dense_data = TaskData.from_list(designs, labels)
    dense_coupling = couple_tasks(check_similarity("all", dense_data.tasks))
    solve_svm_newton(dense_data, dense_coupling)
    two_rows_per_task = part_of(dataset, 1e-9, seed=0)
    cases = [
        (dense_data, dense_coupling),
        (task_data(two_rows_per_task), couple(two_rows_per_task)),
    ]
    for data, coupling in cases:
        for form in ("block", "example"):
            solve_block_dcd(data, coupling, form=form)
        solve_kernel(data, coupling, 1.0, 1e-4)


# ---------------------------------------------------------------- runs


def never(_: float) -> bool:
    """Return False for each primal value, so that a run is not stopped by it."""
    return False


def run_solver(
    solver: str,
    data: TaskData,
    coupling: TaskCoupling,
    C: float,
    tol: float,
    seed: int,
    seconds: float,
    reached: Callable[[float], bool] = never,
    clock: str = "wall",
) -> SolverResult:
    """Run a solver without intercept to a relative gap, a time or a primal value.

    Parameters
    ----------
    solver : {"block", "block-printed", "corrected", "paper", "newton", "kernel"}
        A variant of coordinate ascent, the second-order method, or the solver with the
        multi-task kernel.
    data : TaskData
    coupling : TaskCoupling
    C : float
    tol : float
        Relative gap at which the run ends.
    seed : int
        Seed of the order of the rows.
    seconds : float
        Time after which the run ends, at the next certificate. The second-order method
        has no limit.
    reached : callable, optional
        The run ends when it returns True for a primal value. Default: never.
    clock : {"wall", "processor"}, default "wall"
        Clock of `seconds` and of the certificates of the result. The second-order
        method only has the first.

    Raises
    ------
    ValueError
        If there is no such solver.
    """
    if solver == "newton":
        return solve_svm_newton(data, coupling, C=C, tol=min(tol, _NEWTON_GAP))
    solver_tol = tol
    while True:
        watch = Stopwatch(seconds, reached, clock)
        result = watch.timed(
            _run_once(solver, data, coupling, C, solver_tol, seed, watch)
        )
        gap = certificates(result)[-1].gap
        if gap <= tol or not result.converged or solver_tol < _MIN_SOLVER_TOL:
            return result
        # The solvers compare a gap to a thousandth of the objective of zero
        # coefficients, which is far above the smallest objective where rows are
        # separable. Then the run is repeated with a smaller tolerance, and only its own
        # seconds count.
        solver_tol *= min(0.5, tol / gap)


def _run_once(
    solver: str,
    data: TaskData,
    coupling: TaskCoupling,
    C: float,
    tol: float,
    seed: int,
    watch: Stopwatch,
) -> SolverResult:
    """Run a first-order solver without intercept once."""
    if solver == "kernel":
        return solve_kernel(data, coupling, C, tol, watch)
    if solver not in VARIANTS:
        names = ", ".join(VARIANTS)
        raise ValueError(
            f"solver must be one of {names}, newton, kernel, mtk-intercept, "
            f"got {solver!r}"
        )
    form, step = VARIANTS[solver]
    return solve_block_dcd(
        data,
        coupling,
        C=C,
        tol=tol,
        max_iter=_MAX_ITER,
        seed=seed,
        form=form,
        step=step,
        callback=watch,
    )


def solve_kernel(
    data: TaskData,
    coupling: TaskCoupling,
    C: float,
    tol: float,
    callback: Callback | None = None,
) -> SolverResult:
    """Run the kernel solver without intercept to a relative gap.

    Parameters
    ----------
    data : TaskData
        Tasks with rows of their own.
    coupling : TaskCoupling
    C, tol : float
    callback : callable, optional
    """
    designs = [data.task(t)[0] for t in range(data.n_tasks)]
    return solve_without_intercept(
        designs,
        coupling,
        data.targets,
        np.full(len(data.targets), float(C)),
        tol=0.0,
        gap=tol,
        max_iter=_MAX_KERNEL_STEPS,
        precompute=_precomputes(data),
        cache_size=_CACHE_MB,
        callback=callback,
    )


def _precomputes(data: TaskData) -> bool:
    """Whether the kernel matrix is computed beforehand."""
    if not matrix_pays(_n_entries(data)):
        return False
    return kernel_bytes(data.n_rows) <= _MAX_MATRIX_BYTES


def _n_entries(data: TaskData) -> float:
    """Return the number of nonzero entries of a row, on average."""
    if hasattr(data.X, "rows"):
        # Features of strings, which are computed when they are needed.
        return np.inf
    if data.sparse:
        return data.X.nnz / data.n_rows
    return data.n_features


def stop_after(seconds: float) -> Callable[[int, float, float], bool]:
    """Return a callback that stops a run when its time is over."""
    start = time.perf_counter()

    def is_over(_iteration: int, _primal: float, _dual: float) -> bool:
        return time.perf_counter() - start > seconds

    return is_over


class Stopwatch:
    """Callback that stops a run when its time is over, and times its certificates.

    Parameters
    ----------
    seconds : float
        Time of the run.
    reached : callable
        Called with the primal value of a certificate; stops the run by returning True.
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
        # A run that reached its tolerance ended without a call for its last
        # certificate.
        n_missing = len(result.gaps) - len(self.seconds)
        end = CLOCKS[self.clock]() - self._start
        seconds = [*self.seconds, *[end] * n_missing]
        return replace(result, info={**result.info, "seconds": seconds})


@dataclass(frozen=True)
class TimedCertificate:
    """Primal and dual value, and the seconds after which they were known."""

    seconds: float
    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """The relative duality gap."""
        return (self.primal - self.dual) / max(1.0, abs(self.primal))


def certificates(result: SolverResult) -> list[TimedCertificate]:
    """Return the certificates of a run."""
    points = []
    for seconds, (_, primal, dual) in zip(
        result.info["seconds"], result.gaps, strict=True
    ):
        points.append(TimedCertificate(float(seconds), primal, dual))
    return points


def seconds_of(points: Sequence[TimedCertificate]) -> list[float]:
    """Return the seconds of certificates."""
    return [point.seconds for point in points]


def values_of(points: Sequence[TimedCertificate]) -> tuple[Array, Array]:
    """Return the primal and the dual values of certificates."""
    primal = np.array([point.primal for point in points])
    dual = np.array([point.dual for point in points])
    return primal, dual


def time_to(points: Sequence[TimedCertificate], tol: float, precision: str) -> float:
    """Return the first time at which a run has a relative precision, else NaN.

    Parameters
    ----------
    points : list of TimedCertificate
    tol : float
    precision : {"gap", "dual", "primal"}
        "gap" requires a relative duality gap of `tol`; "dual" and "primal" require such
        a value within `tol` of the best dual one, which must be certified to
        ``tol / 10``.

    Raises
    ------
    ValueError
        If there is no such precision.
    """
    seconds = seconds_of(points)
    if precision == "gap":
        return first_time(seconds, np.array([point.gap <= tol for point in points]))
    if precision not in ("dual", "primal"):
        raise ValueError(f"precision must be gap, dual or primal, got {precision!r}")
    primal, dual = values_of(points)
    best = float(dual.max())
    scale = max(1.0, abs(best))
    if float(primal.min()) - best > tol / 10 * scale:
        return np.nan
    if precision == "primal":
        return first_time(seconds, primal <= best + tol * scale)
    return first_time(seconds, dual >= best - tol * scale)


def first_time(seconds: Sequence[float], is_reached: Array) -> float:
    """Return the first time at which something is reached, else NaN."""
    if not np.any(is_reached):
        return np.nan
    return float(seconds[int(np.argmax(is_reached))])


# ---------------------------------------------------------------- LIBSVM


@dataclass(frozen=True)
class LibsvmRun(TimedCertificate):
    """One run of LIBSVM.

    Attributes
    ----------
    n_iter : int
    is_done : bool
        Whether it reached its tolerance.
    alpha : ndarray
        Dual variables.
    """

    n_iter: int
    is_done: bool
    alpha: Array


class ToleranceSweep:
    """Runs of LIBSVM with the multi-task kernel and an intercept, by tolerance.

    LIBSVM has no callback, so it runs again for each tolerance. The seconds of a run
    include the kernel matrix, or the features that LIBSVM multiplies itself, but not
    the certificate. A run is stopped after as many steps as the time allows.

    Parameters
    ----------
    data : TaskData
        Tasks with rows of their own.
    coupling : TaskCoupling
    C : float
    seconds : float
        Time for all runs.
    clock : {"wall", "processor"}, default "wall"

    Attributes
    ----------
    runs : list of LibsvmRun
    coupling : TaskCoupling
    y, cost : ndarray of shape (n_rows,)
        Labels, and C of each row.
    designs : list
        Rows of each task.
    """

    def __init__(
        self,
        data: TaskData,
        coupling: TaskCoupling,
        C: float,
        seconds: float,
        clock: str = "wall",
    ) -> None:
        self.runs: list[LibsvmRun] = []
        self.coupling = coupling
        self.y = data.targets
        self.cost = np.full(len(data.targets), float(C))
        self._clock = CLOCKS[clock]
        designs = [data.task(t)[0] for t in range(data.n_tasks)]
        prepare = kernel_matrix if _precomputes(data) else augmented_features
        start = self._clock()
        self._deadline = start + seconds
        self._Z = prepare(designs, coupling)
        self._preparation_seconds = self._clock() - start
        self.designs = [stored(X) for X in designs]

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the time is over."""
        return self._deadline - self._clock()

    def run_tolerances(
        self, tolerances: Sequence[float], target_gap: float = 0.0
    ) -> None:
        """Run one tolerance after the other, until a relative gap or the deadline."""
        for tol in tolerances:
            # A run that ended before its tolerance is repeated with more steps, if
            # there is time for another one as long.
            while (
                not self.run_once(tol).is_done
                and self.remaining_seconds > 2 * self.runs[-1].seconds
            ):
                pass
            last = self.runs[-1]
            if (
                last.gap <= target_gap
                or not last.is_done
                or self.remaining_seconds <= 0
            ):
                break

    def add_early_runs(self, shares: Sequence[float]) -> None:
        """Add runs with shares of the steps of the last run: early points of a
        curve.
        """
        n_steps = self.runs[-1].n_iter
        for share in shares:
            self.run_once(_UNREACHED_TOLERANCE, max(1, int(share * n_steps)))

    def run_once(self, tol: float, max_iter: int | None = None) -> LibsvmRun:
        """Run once.

        Parameters
        ----------
        tol : float
        max_iter : int, optional
            Default: as many steps as the time allows.
        """
        start = self._clock()
        alpha, intercept, n_iter, is_done = run_libsvm(
            self._Z,
            self.y,
            self.cost,
            tol=tol,
            max_iter=self._affordable_steps() if max_iter is None else max_iter,
            cache_size=_CACHE_MB,
        )
        seconds = self._preparation_seconds + self._clock() - start
        point = certify_kernel(
            self.designs, self.coupling, self.y, self.cost, alpha, intercept
        )
        run = LibsvmRun(seconds, point.primal, point.dual, n_iter, is_done, alpha)
        self.runs.append(run)
        return run

    def _affordable_steps(self) -> int:
        """Return how many steps the time allows, estimated from the last run."""
        if not self.runs:
            return _PROBE_STEPS
        last = self.runs[-1]
        steps_seconds = max(
            last.seconds - self._preparation_seconds, _MIN_STEPS_SECONDS
        )
        seconds_per_step = steps_seconds / max(last.n_iter, 1)
        n_steps = max(_PROBE_STEPS, self.remaining_seconds / seconds_per_step)
        return int(min(n_steps, _MAX_LIBSVM_STEPS))


# ---------------------------------------------------------------- references


@dataclass(frozen=True)
class ReferenceOptimum:
    """Optimum to which the objective of a run is compared.

    Attributes
    ----------
    optimum : float
    accuracy : float
        Half of the width of the interval that certainly contains it.
    method : str
        How it was computed, for texts.
    """

    optimum: float
    accuracy: float
    method: str

    def resolved(self, differences: Array) -> Array:
        """Return differences from this optimum without meaningless digits.

        A difference below twice the accuracy becomes this bound, or NaN if the bound
        is large.
        """
        bound = 2 * self.accuracy
        substitute = bound if bound <= _MAX_UNRESOLVED else np.nan
        return np.where(differences > bound, differences, substitute)


def optimum_of(
    data: TaskData, coupling: TaskCoupling, C: float, seconds: float
) -> ReferenceOptimum:
    """Return the optimum without intercept.

    Coordinate ascent has `seconds`. If there are few coefficients and it leaves a gap,
    the interior-point method is tried, too.
    """
    result = solve_block_dcd(
        data,
        coupling,
        C=C,
        tol=_FINEST_GAP,
        max_iter=_MAX_ITER,
        callback=stop_after(seconds),
    )
    low, high = _bracket(result)
    method = "block-wise coordinate ascent with exact steps"
    n_coefficients = data.n_tasks * data.n_features
    if n_coefficients <= _MAX_NEWTON_SIZE and high - low > 1e-11 * abs(high):
        newton_low, newton_high = _bracket(
            solve_svm_newton(data, coupling, C=C, tol=_FINEST_GAP)
        )
        if newton_high - newton_low < high - low:
            low = newton_low
            high = newton_high
            method = "the interior-point method"
    return ReferenceOptimum((low + high) / 2, _accuracy(low, high), method)


def kernel_optimum(sweep: ToleranceSweep) -> ReferenceOptimum:
    """Return the optimum with LIBSVM's intercept.

    It is exact if an active-set method succeeds; otherwise LIBSVM's best values bound
    it. The method starts at LIBSVM's best run and, for few coefficients, also where the
    interior-point method ends if a constant feature stands for the intercept.
    """
    coupling = sweep.coupling
    y = sweep.y
    cost = sweep.cost
    best_run = max(sweep.runs, key=lambda run: run.dual)
    starts = [best_run.alpha]
    if coupling.n_tasks * sweep.designs[0].shape[1] <= _MAX_NEWTON_SIZE:
        starts.append(_newton_alpha(sweep))
    low = max(run.dual for run in sweep.runs)
    high = min(run.primal for run in sweep.runs)
    method = "LIBSVM's best primal and dual values"
    for start in starts:
        point = polish(sweep.designs, coupling, y, cost, start)
        if point is None:
            continue
        # The dual value holds for variables that sum to 0 over the labels; the
        # intercept weighs the rounding error of this sum.
        slack = abs(point.intercept * float(point.alpha @ y))
        if point.primal - point.dual + slack < high - low:
            low = point.dual - slack
            high = point.primal
            method = "an active-set method"
    return ReferenceOptimum((low + high) / 2, _accuracy(low, high), method)


def _newton_alpha(sweep: ToleranceSweep) -> Array:
    """Return the dual variables of the interior-point method.

    The tasks are pooled, with the features of the multi-task kernel and a constant one.
    """
    Z = augmented_features(sweep.designs, sweep.coupling).toarray()
    constant = np.full(len(Z), _CONSTANT_FEATURE)
    pooled = TaskData.from_matrix(np.column_stack([Z, constant]), sweep.y[:, None])
    single_task = couple_tasks(np.ones((1, 1)))
    result = solve_svm_newton(
        pooled, single_task, C=float(sweep.cost[0]), tol=_FINEST_GAP
    )
    return np.asarray(result.info["alpha"][:, 0])


def _bracket(result: SolverResult) -> tuple[float, float]:
    """Return the best dual and the best primal value of a run."""
    best_dual = max(dual for _, _, dual in result.gaps)
    best_primal = min(primal for _, primal, _ in result.gaps)
    return best_dual, best_primal


def _accuracy(low: float, high: float) -> float:
    """Return half of the width of an interval, at least the rounding error."""
    rounding = float(np.finfo(float).eps) * max(1.0, abs(high))
    return max((high - low) / 2, rounding)
