"""Seconds and precision of solvers of graph-regularized SVMs, and sizes of the data.

The solvers are the variants of `GraphSVC` ("block" is block-wise dual coordinate
ascent, "paper" the printed algorithm), "newton", and two with the multi-task kernel:
"kernel", our kernel solver of the same problem without intercept, and "mtk-intercept",
LIBSVM. LIBSVM has no callback and runs repeatedly, with more steps and smaller
tolerances.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mtlrun.catalog.analysis import AnalysisResult, Curve, analysis
from mtlrun.data.dataset import Dataset
from mtlrun.features.dna import WeightedDegree
from mtlrun.papers.mtsvm.runs import (
    DEGREE,
    TOLERANCES,
    ReferenceOptimum,
    TimedCertificate,
    ToleranceSweep,
    certificates,
    couple,
    first_time,
    kernel_optimum,
    optimum_of,
    part_of,
    run_solver,
    seconds_of,
    task_data,
    time_to,
    values_of,
    warm_up,
)
from mtlrun.problem.result import SolverResult

Array = np.ndarray[Any, np.dtype[Any]]

#: Quantity -> difference relative to the optimum to which seconds are reported.
LEVELS = {
    "seconds_to_1e-2": 1e-2,
    "seconds_to_1e-4": 1e-4,
    "seconds_to_1e-6": 1e-6,
    "seconds_to_1e-8": 1e-8,
}
#: LIBSVM, which always has an intercept.
LIBSVM = "mtk-intercept"
#: Solvers with the multi-task kernel.
KERNEL_SOLVERS = ("kernel", LIBSVM)
#: Solver that the others are compared to: coordinate ascent as printed.
BASELINE = "paper"
#: Relative gap at which runs end that are followed; below it rounding decides.
_END_GAP = 1e-12
#: Shares of the steps of LIBSVM's first run that the early points of its curve take.
_EARLY_SHARES = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7)
#: Runs of this time are repeated, for a median.
_SHORT_SECONDS = 1
#: Largest number of runs of which the median is taken.
_N_SHORT_RUNS = 3


# ---------------------------------------------------------------- sizes


@analysis(
    {
        "dimension": "features; weighted-degree features of strings",
        "examples": "examples in all tasks",
        "tasks": "tasks",
        "smallest_task": "examples of the smallest task",
        "largest_task": "examples of the largest task",
        "positive_share": "share of the labels that are positive",
    },
    name="svm-statistics",
)
def svm_statistics(dataset: Dataset, *, seed: int) -> AnalysisResult:
    """Count examples, tasks and the features that the SVM sees.

    The features of strings are weighted-degree features.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Without effect.
    """
    n_features = dataset.n_features
    if dataset.strings:
        n_features = WeightedDegree(DEGREE).fit(dataset.X[:1]).n_features_out_
    sizes = dataset.sum_by_task(~np.isnan(dataset.y))
    values = {
        "dimension": float(n_features),
        "examples": float(sizes.sum()),
        "tasks": float(dataset.n_tasks),
        "smallest_task": float(sizes.min()),
        "largest_task": float(sizes.max()),
        "positive_share": float(np.mean(dataset.y > 0)),
    }
    return AnalysisResult(values, per_task={"rows": sizes.astype(float).tolist()})


# ---------------------------------------------------------------- objective over time


@analysis(
    {
        "function_difference": "smallest |obj* - obj| of the run (none where obj* is "
        "not known well enough to tell)",
        "relative_difference": "the same divided by obj*",
        "difference_at_dcd_time": "|obj* - obj| when the printed algorithm is at 1e-12 "
        "of the optimum, relative",
        "seconds_to_1e-2": "seconds to within 1e-2 of the optimum, relative",
        "seconds_to_1e-4": "seconds to within 1e-4 of the optimum, relative",
        "seconds_to_1e-6": "seconds to within 1e-6 of the optimum, relative",
        "seconds_to_1e-8": "seconds to within 1e-8 of the optimum, relative",
        "primal_function_difference": "smallest |obj* - obj| of the run with the "
        "primal objective",
        "primal_relative_difference": "the same of the primal objective, divided by "
        "obj*",
        "primal_difference_at_dcd_time": "|obj* - obj| with the primal objective at "
        "that time, relative",
        "primal_seconds_to_1e-2": "seconds to within 1e-2 of the optimum with the "
        "primal objective, relative",
        "primal_seconds_to_1e-4": "seconds to within 1e-4 of the optimum with the "
        "primal objective, relative",
        "primal_seconds_to_1e-6": "seconds to within 1e-6 of the optimum with the "
        "primal objective, relative",
        "primal_seconds_to_1e-8": "seconds to within 1e-8 of the optimum with the "
        "primal objective, relative",
        "dcd_seconds": "seconds of the printed algorithm to 1e-12 of the optimum, "
        "relative",
        "seconds_run": "seconds of the whole run (of all runs, for LIBSVM)",
        "optimum": "obj*, of the problem that the solver solves",
        "accuracy": "half the width of the certified interval that holds obj*",
    },
    name="svm-convergence",
    labels={
        "function_difference": "distance from the optimum",
    },
    lower=("*difference*", "*seconds_to*", "dcd_seconds", "accuracy"),
    varies=("*difference*", "*seconds*", "accuracy"),
)
def svm_convergence(
    dataset: Dataset,
    *,
    seed: int,
    solver: str = "block",
    C: float = 10.0,
    seconds: float = 60.0,
    reference_seconds: float = 600.0,
    tolerances: Sequence[float] = TOLERANCES,
) -> AnalysisResult:
    """Follow ``|obj* - obj|`` over the seconds of a solver.

    obj is the primal objective. For kernel solvers it is the dual one, which converges
    first; the quantities and the curve named ``primal`` have the primal objective of
    the same runs.

    obj* is the middle between the best primal and dual values that block-wise
    coordinate ascent with exact steps reaches in `reference_seconds` or, for few
    coefficients, the interior-point method. With LIBSVM's intercept, obj* comes from an
    active-set method that starts where LIBSVM ends. A difference below twice the
    accuracy of obj* is unknown: this bound is reported if it is at most 1e-8, and
    nothing otherwise.

    Parameters
    ----------
    dataset : Dataset
        The tasks are coupled by the similarity in its `truth`, otherwise by ones plus
        the identity.
    seed : int
        Seed of the order of the rows.
    solver : str, default "block"
        One of "block", "block-printed", "corrected", "paper", "newton", "kernel" and
        "mtk-intercept". "kernel" is our kernel solver of the problem without intercept,
        which the others solve; "mtk-intercept" is LIBSVM.
    C : float, default 10.0
    seconds : float, default 60
        The solver is stopped after this time, at its next certificate; LIBSVM after
        about this time for all runs together.
    reference_seconds : float, default 600
        Time of the reference, and of the printed algorithm, which runs first, to 1e-12
        of the optimum. How close is `solver` at the time when it arrives?
    tolerances : list of float
        Tolerances of LIBSVM in the order in which they are tried. Its early points are
        runs with shares of the steps of the first one.

    Returns
    -------
    AnalysisResult
        Curves ``function difference`` and, for kernel solvers, ``function difference,
        primal``; the quantities are declared above.

    Raises
    ------
    ValueError
        If there is no such solver.
    """
    data = task_data(dataset)
    coupling = couple(dataset)
    warm_up(dataset)
    reference = optimum_of(data, coupling, C, reference_seconds)
    goal = _END_GAP * max(1.0, abs(reference.optimum))
    baseline = certificates(
        run_solver(BASELINE, data, coupling, C, _END_GAP, seed, reference_seconds)
    )
    baseline_primal, _ = values_of(baseline)
    dcd_seconds = first_time(
        seconds_of(baseline), baseline_primal <= reference.optimum + goal
    )
    if solver == LIBSVM:
        sweep = ToleranceSweep(data, coupling, C, seconds)
        sweep.run_tolerances(tolerances[:1])
        sweep.add_early_runs(_EARLY_SHARES)
        sweep.run_tolerances(tolerances[1:])
        reference = kernel_optimum(sweep)
        points: list[TimedCertificate] = [*sweep.runs]
        n_iter = sweep.runs[-1].n_iter
        seconds_run = sum(seconds_of(points))
    else:
        # Below this value the distance from the optimum is not known.
        resolved_limit = reference.optimum + 2 * reference.accuracy
        result = run_solver(
            solver,
            data,
            coupling,
            C,
            _END_GAP,
            seed,
            seconds,
            lambda primal: primal <= resolved_limit,
        )
        points = certificates(result)
        n_iter = result.n_iter
        seconds_run = points[-1].seconds
    gap = points[-1].primal - points[-1].dual
    points.sort(key=lambda point: point.seconds)
    times = seconds_of(points)
    primal, dual = values_of(points)
    if solver == BASELINE:
        distance = np.maximum(np.abs(primal - reference.optimum), reference.accuracy)
        dcd_seconds = first_time(times, distance <= goal)
    primal_values, primal_differences = _compare_to_optimum(
        times, primal, C * data.n_rows, reference, dcd_seconds
    )
    if solver in KERNEL_SOLVERS:
        values, differences = _compare_to_optimum(
            times, dual, 0.0, reference, dcd_seconds
        )
        curves = {
            "function difference, primal": _difference_curve(times, primal_differences),
            "function difference": _difference_curve(times, differences),
        }
    else:
        values = primal_values
        curves = {"function difference": _difference_curve(times, primal_differences)}
    intercept = "with LIBSVM's intercept, " if solver == LIBSVM else ""
    reference_line = (
        f"{dataset.title or dataset.id}: obj* = {reference.optimum:.10g} "
        f"({intercept}by {reference.method}), known to {reference.accuracy:.1e}; "
        "smaller differences cannot be distinguished from it."
    )
    return AnalysisResult(
        {
            **values,
            **{f"primal_{name}": value for name, value in primal_values.items()},
            "dcd_seconds": dcd_seconds,
            "seconds_run": seconds_run,
            "optimum": reference.optimum,
            "accuracy": reference.accuracy,
        },
        curves=curves,
        lines=[reference_line],
        solver={
            "n_iter": n_iter,
            "gap": gap / max(1.0, abs(reference.optimum)),
            "converged": True,
        },
    )


def _compare_to_optimum(
    times: Sequence[float],
    objective: Array,
    start_objective: float,
    reference: ReferenceOptimum,
    dcd_seconds: float,
) -> tuple[dict[str, float], Array]:
    """Compare the objectives of a run to the optimum.

    Parameters
    ----------
    times : list of float
        Seconds of the objectives, ascending.
    objective : ndarray
    start_objective : float
        Objective of zero coefficients.
    reference : ReferenceOptimum
    dcd_seconds : float
        Time at which the printed algorithm has reached the optimum.

    Returns
    -------
    values : dict
        Quantities of the analysis.
    differences : ndarray
        Distances from the optimum, as far as they are known.
    """
    optimum = abs(reference.optimum)
    differences = np.abs(objective - reference.optimum)
    upper_bounds = np.maximum(differences, reference.accuracy)
    differences = reference.resolved(differences)
    start_difference = abs(reference.optimum - start_objective)
    values = {
        "function_difference": float(differences.min()),
        "relative_difference": float(differences.min()) / optimum,
        "difference_at_dcd_time": _difference_at(
            dcd_seconds, times, differences, start_difference
        ),
    }
    for name, level in LEVELS.items():
        values[name] = first_time(times, upper_bounds <= level * optimum)
    return values, differences


def _difference_at(
    when: float, times: Sequence[float], differences: Array, start_difference: float
) -> float:
    """Return the smallest difference until a moment; NaN if the moment never comes.

    Before the first certificate it is the difference of zero coefficients.
    """
    if np.isnan(when):
        return np.nan
    earlier = differences[np.array(times) <= when]
    if len(earlier) == 0:
        return float(start_difference)
    return float(earlier.min())


def _difference_curve(times: list[float], differences: Array) -> Curve:
    return Curve(times, differences.tolist(), "seconds", "|obj* - obj|", "xy")


# ---------------------------------------------------------------- seconds


@dataclass(frozen=True)
class _TimedRuns:
    """Runs of a solver to a relative precision.

    Attributes
    ----------
    points : list of TimedCertificate
        Certificates of the first run, or of all runs of LIBSVM.
    n_iter : int
    seconds_to_precision : float
        NaN if the precision was not reached.
    seconds_run : float
        Seconds of all runs.
    """

    points: list[TimedCertificate]
    n_iter: int
    seconds_to_precision: float
    seconds_run: float


@analysis(
    {
        "n": "rows trained on",
        "seconds_to_precision": "seconds to the relative precision",
        "seconds_run": "seconds of all runs",
        "microseconds_per_row": "seconds to the relative precision per million rows",
        "relative_gap": "relative duality gap at the end",
        "peak_gb": "largest memory of the process so far in GiB",
    },
    name="svm-seconds",
    lower=("seconds_to_precision", "microseconds_per_row", "relative_gap", "peak_gb"),
    varies=("seconds*", "microseconds_per_row", "relative_gap", "peak_gb"),
)
def svm_seconds(
    dataset: Dataset,
    *,
    seed: int,
    solver: str = "block",
    C: float = 10.0,
    fraction: float = 1.0,
    tol: float = 1e-4,
    precision: str = "gap",
    seconds: float = 3600.0,
    tolerances: Sequence[float] = TOLERANCES,
    trace: bool = False,
    clock: str = "wall",
) -> AnalysisResult:
    """Measure the seconds that a solver needs to a relative precision.

    Coordinate ascent checks its precision while it runs; short runs are repeated up to
    three times, for the median. LIBSVM cannot: it runs with smaller and smaller
    tolerances, and the loosest that is precise enough counts (which nobody knows
    beforehand). The seconds of this one run include the kernel matrix or the features.
    Packing the letters of strings is not counted.

    Parameters
    ----------
    dataset, seed, solver, C, tolerances
        As of `svm_convergence`.
    fraction : float, default 1.0
        Share of the rows of each task.
    tol : float, default 1e-4
    precision : {"gap", "dual", "text"}, default "gap"
        "gap": relative duality gap; "dual": distance of the dual value from its
        optimum, which is known to a tenth of `tol` in the end; "text": the same for
        kernel solvers, and the distance of the primal value for coordinate ascent.
    seconds : float, default 3600
        A solver that has not reached `tol` after this time is stopped, and its seconds
        are NaN.
    trace : bool, default False
        Whether to return the curve ``relative gap`` over the seconds, too.
    clock : {"wall", "processor"}, default "wall"
        Elapsed time, or processor time, which leaves out the time that the processor
        spends on other programs.
    """
    dataset = part_of(dataset, fraction, seed)
    n_rows = dataset.n_samples
    coupling = couple(dataset)
    warm_up(dataset)
    data = task_data(dataset)
    # The strings in addition to the packed letters would double the memory.
    del dataset
    if precision == "text":
        precision = "dual" if solver in KERNEL_SOLVERS else "primal"
    # The dual optimum has to be known more precisely than the distance from it.
    target_gap = tol if precision == "gap" else tol / 10
    if solver == LIBSVM:
        sweep = ToleranceSweep(data, coupling, C, seconds, clock)
        sweep.run_tolerances(tolerances, target_gap)
        points: list[TimedCertificate] = [*sweep.runs]
        runs = _TimedRuns(
            points=points,
            n_iter=sweep.runs[-1].n_iter,
            seconds_to_precision=time_to(points, tol, precision),
            seconds_run=sum(seconds_of(points)),
        )
    else:
        run = partial(
            run_solver,
            solver,
            data,
            coupling,
            C,
            target_gap,
            seed,
            seconds,
            clock=clock,
        )
        runs = _repeat_short_runs(run, tol, precision)
    gap = runs.points[-1].gap
    seconds_to_precision = runs.seconds_to_precision
    lines = []
    if np.isnan(seconds_to_precision):
        lines.append(
            f"{solver}, {n_rows} rows: not at {tol:g} after {runs.seconds_run:.0f} s "
            f"(relative gap {gap:.1e})."
        )
    curves = {}
    if trace:
        curves["relative gap"] = Curve(
            seconds_of(runs.points),
            [point.gap for point in runs.points],
            "seconds",
            "relative duality gap",
            "xy",
        )
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return AnalysisResult(
        {
            "n": float(n_rows),
            "seconds_to_precision": seconds_to_precision,
            "seconds_run": runs.seconds_run,
            "microseconds_per_row": 1e6 * seconds_to_precision / n_rows,
            "relative_gap": gap,
            "peak_gb": peak_kb / 2**20,
        },
        curves=curves,
        lines=lines,
        solver={
            "n_iter": int(runs.n_iter),
            "gap": gap,
            "converged": bool(np.isfinite(seconds_to_precision)),
        },
    )


def _repeat_short_runs(
    run: Callable[[], SolverResult], tol: float, precision: str
) -> _TimedRuns:
    """Run a solver, repeatedly if the run is short; return medians over the runs."""
    results = [run()]
    first_points = certificates(results[0])
    while first_points[-1].seconds < _SHORT_SECONDS and len(results) < _N_SHORT_RUNS:
        results.append(run())
    all_points = [certificates(result) for result in results]
    times = [time_to(points, tol, precision) for points in all_points]
    return _TimedRuns(
        points=first_points,
        n_iter=results[0].n_iter,
        seconds_to_precision=float(np.median(times)),
        seconds_run=sum(points[-1].seconds for points in all_points),
    )


@analysis(
    {
        "seconds_to_precision": "seconds to the relative precision with the largest "
        "size finished",
        "largest_n": "largest number of rows finished",
        "times_block": "seconds divided by those of block-wise coordinate ascent, same "
        "rows, largest size of both",
        "times_paper": "seconds divided by those of the printed algorithm, same rows, "
        "largest size of both",
        "exponent": "b of seconds ~ rows^b over the sizes finished",
        "microseconds_per_row": "seconds per million rows with the largest size "
        "finished",
        "relative_gap": "relative duality gap with the largest size finished",
        "peak_gb": "largest memory of the process so far in GiB",
    },
    name="svm-scaling",
    labels={
        "largest_n": "rows",
        "times_paper": "seconds over those of DCD as printed",
        "times_block": "seconds over those of DCD by blocks",
        "exponent": "exponent of seconds in rows",
    },
    lower=(
        "seconds_to_precision",
        "exponent",
        "microseconds_per_row",
        "relative_gap",
        "peak_gb",
    ),
    higher=("largest_n",),
    varies=(
        "seconds*",
        "largest_n",
        "times_*",
        "exponent",
        "microseconds_per_row",
        "relative_gap",
        "peak_gb",
    ),
)
def svm_scaling(
    dataset: Dataset,
    *,
    seed: int,
    solver: str = "block",
    against: Sequence[str] = (),
    C: float = 10.0,
    fractions: Sequence[float] = (0.1, 0.215, 0.464, 1.0),
    tol: float = 1e-4,
    precision: str = "gap",
    seconds: float = 600.0,
    tolerances: Sequence[float] = TOLERANCES,
    clock: str = "wall",
) -> AnalysisResult:
    """Measure the seconds to a relative precision on growing parts of the rows.

    `svm_seconds` measures each size; the first one not finished in `seconds` is the
    last. A kernel solver is not tried on a size for which it would exceed `seconds`, if
    the seconds of all runs grow with the square of the rows.

    Parameters
    ----------
    dataset, seed, solver, C, tol, precision, tolerances, clock
        As of `svm_seconds`.
    against : list of {"block", "paper"}
        Solvers that are timed on the same rows, to the same precision, right after each
        other.
    fractions : list of float
        Shares of the rows of each task.
    seconds : float, default 600
        For one size.

    Returns
    -------
    AnalysisResult
        Curve ``seconds to precision`` over the rows. The quantities belong to the
        largest size that was finished; the result counts as converged if there is one.
    """
    measure = partial(
        svm_seconds,
        dataset,
        seed=seed,
        C=C,
        tol=tol,
        precision=precision,
        seconds=seconds,
        tolerances=tolerances,
        clock=clock,
    )
    sizes: list[float] = []
    times: list[float] = []
    lines: list[str] = []
    last: AnalysisResult | None = None
    times_others = {f"times_{other}": np.nan for other in against}
    for fraction in sorted(fractions):
        n_rows = fraction * dataset.n_samples
        expected_seconds = 0.0
        if last is not None and solver in KERNEL_SOLVERS:
            growth = (n_rows / sizes[-1]) ** 2
            expected_seconds = last.values["seconds_run"] * growth
        if expected_seconds > seconds:
            lines.append(
                f"{solver}: {n_rows:.0f} rows would take about "
                f"{expected_seconds:.0f} s and were not tried."
            )
            break
        run = measure(solver=solver, fraction=fraction)
        if np.isnan(run.values["seconds_to_precision"]):
            lines += run.lines
            break
        last = run
        sizes.append(run.values["n"])
        times.append(run.values["seconds_to_precision"])
        for other in against:
            other_run = measure(solver=other, fraction=fraction)
            ratio = times[-1] / other_run.values["seconds_to_precision"]
            if np.isfinite(ratio):
                times_others[f"times_{other}"] = ratio
                lines.append(
                    f"{solver}, {sizes[-1]:.0f} rows: {ratio:.3g} times the seconds "
                    f"of {other}."
                )
    exponent = np.nan
    if len(sizes) > 1:
        exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    values = {
        "largest_n": sizes[-1] if sizes else 0.0,
        **times_others,
        "exponent": exponent,
    }
    solver_info: dict[str, Any] = {"converged": last is not None}
    if last is not None:
        solver_info["gap"] = last.solver["gap"]
    for name in (
        "seconds_to_precision",
        "microseconds_per_row",
        "relative_gap",
        "peak_gb",
    ):
        values[name] = np.nan if last is None else last.values[name]
    curves = {}
    if sizes:
        curves["seconds to precision"] = Curve(
            sizes, times, "rows", f"seconds to {tol:g}", "xy"
        )
    return AnalysisResult(values, curves=curves, lines=lines, solver=solver_info)
