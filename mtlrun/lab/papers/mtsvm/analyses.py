"""Graph-regularized SVMs: sizes of the data, objective against seconds, seconds against rows, transfer, and an audit.

Solvers are the variants of `GraphSVC` ("block" is block-wise dual coordinate ascent, "paper" the printed algorithm),
"newton", and two with the multi-task kernel: "kernel", our kernel solver on the same problem without intercept, and
"mtk-intercept", LIBSVM. LIBSVM has no callback and is run again and again, with more steps and smaller tolerances.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.engine.analysis import AnalysisResult, Curve, analysis, published_path
from mtlrun.estimators.svm import GraphSVC
from mtlrun.features.dna import WeightedDegree
from mtlrun.lab.papers.mtsvm.runs import (
    DEGREE,
    TOLERANCES,
    Ladder,
    ReferenceOptimum,
    TimedCertificate,
    ascend,
    certificates,
    couple,
    first_time,
    kernel_optimum,
    optimum_of,
    part_of,
    task_data,
    time_to,
    warm_up,
)
from mtlrun.metrics import auc_per_task
from mtlrun.utils.io import read_text_file
from mtlrun.utils.yaml import load_text

Array = np.ndarray[Any, np.dtype[Any]]

#: Differences relative to the optimum whose seconds are reported, by the name of the quantity.
LEVELS = {
    "seconds_to_1e-2": 1e-2,
    "seconds_to_1e-4": 1e-4,
    "seconds_to_1e-6": 1e-6,
    "seconds_to_1e-8": 1e-8,
}
#: Solvers with the multi-task kernel; the second is LIBSVM, which always has an intercept.
KERNEL_SOLVERS = ("kernel", LIBSVM := "mtk-intercept")
#: The solver that the others are compared with: coordinate ascent as printed.
BASELINE = "paper"
# Relative gap at which the runs that are followed end: from there on rounding decides.
_END = 1e-12
# Parts of the steps of LIBSVM's first run that the early points of its curve take.
_EARLY = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7)


@analysis(
    {
        "dimension": "features; weighted-degree features of strings",
        "examples": "examples in all tasks",
        "tasks": "tasks",
        "smallest_task": "examples of the smallest task",
        "largest_task": "examples of the largest task",
        "positive_share": "share of the labels that are positive",
    },
)
def svm_statistics(dataset: Dataset, *, seed: int) -> AnalysisResult:
    """Count examples, tasks, and the features that the SVM sees: weighted-degree features of strings.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Without effect.
    """
    width = dataset.n_features
    if dataset.strings:
        width = WeightedDegree(DEGREE).fit(dataset.X[:1]).n_features_out_
    sizes = dataset.sum_by_task(~np.isnan(dataset.y))
    values = {
        "dimension": float(width),
        "examples": float(sizes.sum()),
        "tasks": float(dataset.n_tasks),
        "smallest_task": float(sizes.min()),
        "largest_task": float(sizes.max()),
        "positive_share": float(np.mean(dataset.y > 0)),
    }
    return AnalysisResult(values, per_task={"rows": sizes.astype(float).tolist()})


@analysis(
    {
        "function_difference": "smallest |obj* - obj| of the run (none where obj* is not known well enough to tell)",
        "relative_difference": "the same divided by obj*",
        "difference_at_dcd_time": "|obj* - obj| when the printed algorithm is at 1e-12 of the optimum, relative",
        "seconds_to_1e-2": "seconds to within 1e-2 of the optimum, relative",
        "seconds_to_1e-4": "seconds to within 1e-4 of the optimum, relative",
        "seconds_to_1e-6": "seconds to within 1e-6 of the optimum, relative",
        "seconds_to_1e-8": "seconds to within 1e-8 of the optimum, relative",
        "primal_function_difference": "smallest |obj* - obj| of the run with the primal objective",
        "primal_relative_difference": "the same of the primal objective, divided by obj*",
        "primal_difference_at_dcd_time": "|obj* - obj| with the primal objective at that time, relative",
        "primal_seconds_to_1e-2": "seconds to within 1e-2 of the optimum with the primal objective, relative",
        "primal_seconds_to_1e-4": "seconds to within 1e-4 of the optimum with the primal objective, relative",
        "primal_seconds_to_1e-6": "seconds to within 1e-6 of the optimum with the primal objective, relative",
        "primal_seconds_to_1e-8": "seconds to within 1e-8 of the optimum with the primal objective, relative",
        "dcd_seconds": "seconds of the printed algorithm to 1e-12 of the optimum, relative",
        "seconds_run": "seconds of the whole run (of all runs, for LIBSVM)",
        "optimum": "obj*, of the problem that the solver solves",
        "accuracy": "half the width of the certified interval that holds obj*",
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

    obj is the primal objective; of kernel solvers the dual one, which converges first, and in the quantities and the
    curve that say ``primal`` the primal one of the same runs.

    obj* is the middle between the best primal and dual values that block-wise coordinate ascent with exact steps, or
    for few coefficients the interior-point method, reaches in `reference_seconds`; with LIBSVM's intercept it is that
    of an active-set method that begins where LIBSVM ends. A difference below twice the accuracy of obj* is no number:
    that bound is reported if it is at most 1e-8, and else nothing.

    Parameters
    ----------
    dataset : Dataset
        The tasks are coupled by the similarity among its `truth`, else by ones plus the identity.
    seed : int
        Of the order of rows.
    solver : {"block", "block-printed", "corrected", "paper", "newton", "kernel", "mtk-intercept"}, default "block"
        "kernel" is our kernel solver on the problem without intercept, which the others solve; "mtk-intercept" LIBSVM.
    C : float
    seconds : float, default 60
        The solver is stopped then, at its next certificate; LIBSVM after about that time for all runs together.
    reference_seconds : float, default 600
        For the reference, and for the printed algorithm, which is run first, to 1e-12 of the optimum: where is `solver`
        when it is there?
    tolerances : list of float
        LIBSVM's, in the order in which they are tried. Its early points are runs with a part of the steps of the first.

    Returns
    -------
    AnalysisResult
        Curves ``function difference`` and, of kernel solvers, ``function difference, primal``; the quantities are
        declared above.

    Raises
    ------
    ValueError
        For an unknown solver.
    """
    data, links = task_data(dataset), couple(dataset)
    warm_up(dataset)
    reference = optimum_of(data, links, C, reference_seconds)
    goal = _END * max(1.0, abs(reference.optimum))
    race = certificates(ascend(BASELINE, data, links, C, _END, seed, reference_seconds))
    dcd_seconds = first_time(
        [p.seconds for p in race],
        np.array([p.primal for p in race]) <= reference.optimum + goal,
    )
    points: list[TimedCertificate] = []
    if solver == LIBSVM:
        ladder = Ladder(data, links, C, seconds)
        ladder.climb(tolerances[:1])
        ladder.begin(_EARLY)
        ladder.climb(tolerances[1:])
        reference = kernel_optimum(ladder)
        points += ladder.rungs
        n_iter, ran = ladder.rungs[-1].n_iter, sum(point.seconds for point in points)
    else:
        aim = reference.optimum + 2 * reference.accuracy
        result = ascend(
            solver, data, links, C, _END, seed, seconds, lambda primal: primal <= aim
        )
        points += certificates(result)
        n_iter, ran = result.n_iter, points[-1].seconds
    gap = points[-1].primal - points[-1].dual
    points.sort(key=lambda point: point.seconds)
    at = [point.seconds for point in points]
    primal = np.array([point.primal for point in points])
    dual = np.array([point.dual for point in points])
    if solver == BASELINE:
        dcd_seconds = first_time(
            at,
            np.maximum(np.abs(primal - reference.optimum), reference.accuracy) <= goal,
        )
    of_primal, differences = _followed(
        at, primal, C * data.n_rows, reference, dcd_seconds
    )
    found, curves = of_primal, {"function difference": differences}
    if solver in KERNEL_SOLVERS:
        curves = {"function difference, primal": differences}
        found, curves["function difference"] = _followed(
            at, dual, 0.0, reference, dcd_seconds
        )
    return AnalysisResult(
        {
            **found,
            **{f"primal_{name}": value for name, value in of_primal.items()},
            "dcd_seconds": dcd_seconds,
            "seconds_run": ran,
            "optimum": reference.optimum,
            "accuracy": reference.accuracy,
        },
        curves={
            name: Curve(at, y.tolist(), "seconds", "|obj* - obj|", "xy")
            for name, y in curves.items()
        },
        lines=[_sentence(dataset, solver, reference)],
        solver={
            "n_iter": n_iter,
            "gap": gap / max(1.0, abs(reference.optimum)),
            "converged": True,
        },
    )


def _followed(
    at: Sequence[float],
    values: Array,
    cold: float,
    reference: ReferenceOptimum,
    dcd_seconds: float,
) -> tuple[dict[str, float], Array]:
    """Return the quantities of a curve of objectives, and its distances from the optimum.

    `cold` is the objective of zero coefficients.
    """
    optimum = abs(reference.optimum)
    differences = np.abs(values - reference.optimum)
    reached = np.maximum(differences, reference.accuracy)
    differences = reference.resolved(differences)
    found = {
        "function_difference": float(differences.min()),
        "relative_difference": float(differences.min()) / optimum,
        "difference_at_dcd_time": _at_time(
            dcd_seconds, at, differences, abs(reference.optimum - cold)
        ),
        **{
            name: first_time(at, reached <= level * optimum)
            for name, level in LEVELS.items()
        },
    }
    return found, differences


@analysis(
    {
        "n": "rows trained on",
        "seconds_to_precision": "seconds to the relative precision",
        "seconds_run": "seconds of all runs",
        "microseconds_per_row": "seconds to the relative precision per million rows",
        "relative_gap": "relative duality gap at the end",
        "peak_gb": "largest memory of the process so far in GiB",
    },
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
    """Measure the seconds that a solver needs to a relative precision `tol`, on a part of the rows.

    Coordinate ascent looks at its precision while it runs; short runs are made three times, for the median. LIBSVM
    cannot: it is run with smaller and smaller tolerances, and the loosest that is precise enough is taken (which nobody
    knows beforehand). The seconds are those of this one run, kernel matrix or features included. Reading strings into
    packed letters is not counted.

    Parameters
    ----------
    dataset, seed, solver, C, tolerances
        As of `svm_convergence`.
    fraction : float, default 1.0
        Part of the rows of every task.
    tol : float, default 1e-4
    precision : {"gap", "dual"}, default "gap"
        "gap": relative duality gap; "dual": distance of the dual value from its optimum, which is known to a tenth of
        `tol` in the end.
    seconds : float, default 3600
        A solver that has not come to `tol` by then is stopped, and has no seconds to it (NaN).
    trace : bool, default False
        Return the curve ``relative gap`` over the seconds, too.
    clock : {"wall", "processor"}, default "wall"
        Whether seconds are those that pass, or those of the processor, which do not count
        the time that it spends on other programs.
    """
    dataset = part_of(dataset, fraction, seed)
    n, links = dataset.n_samples, couple(dataset)
    warm_up(dataset)
    data = task_data(dataset)
    del dataset  # strings beside packed letters would double the memory
    aim = tol if precision == "gap" else tol / 10
    points: list[TimedCertificate] = []
    if solver == LIBSVM:
        ladder = Ladder(data, links, C, seconds, clock)
        ladder.climb(tolerances, aim)
        points += ladder.rungs
        reached, n_iter = time_to(points, tol, precision), ladder.rungs[-1].n_iter
        ran = sum(point.seconds for point in points)
    else:
        runs = [ascend(solver, data, links, C, aim, seed, seconds, clock=clock)]
        points, n_iter = certificates(runs[0]), runs[0].n_iter
        while points[-1].seconds < 1 and len(runs) < 3:
            run = ascend(solver, data, links, C, aim, seed, seconds, clock=clock)
            runs.append(run)
        reached = float(
            np.median([time_to(certificates(run), tol, precision) for run in runs])
        )
        ran = sum(certificates(run)[-1].seconds for run in runs)
    gap = points[-1].gap
    values = {
        "n": float(n),
        "seconds_to_precision": reached,
        "seconds_run": ran,
        "microseconds_per_row": 1e6 * reached / n,
        "relative_gap": gap,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    late = f"{solver}, {n} rows: not at {tol:g} after {ran:.0f} s (relative gap {gap:.1e})."
    curve = Curve(
        [p.seconds for p in points],
        [p.gap for p in points],
        "seconds",
        "relative duality gap",
        "xy",
    )
    return AnalysisResult(
        values,
        curves={"relative gap": curve} if trace else {},
        lines=[late] if np.isnan(reached) else [],
        solver={
            "n_iter": int(n_iter),
            "gap": gap,
            "converged": bool(np.isfinite(reached)),
        },
    )


@analysis(
    {
        "seconds_to_precision": "seconds to the relative precision with the largest size finished",
        "largest_n": "largest number of rows finished",
        "times_block": "seconds divided by those of block-wise coordinate ascent, same rows, largest size of both",
        "times_paper": "seconds divided by those of the printed algorithm, same rows, largest size of both",
        "exponent": "b of seconds ~ rows^b over the sizes finished",
        "microseconds_per_row": "seconds per million rows with the largest size finished",
        "relative_gap": "relative duality gap with the largest size finished",
        "peak_gb": "largest memory of the process so far in GiB",
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
    """Measure the seconds to a relative precision on growing parts of the rows, as `svm_seconds` does.

    It ends with the first size that is not finished in `seconds`. A kernel solver is not given a size when the seconds
    of all runs of the last one, growing with the square of the rows, would exceed `seconds`.

    Parameters
    ----------
    dataset, seed, solver, C, tol, precision, tolerances, clock
        As of `svm_seconds`.
    against : list of {"block", "paper"}
        Solvers that are timed on the same rows, to the same precision, right after each other.
    fractions : list of float
        Parts of the rows of every task.
    seconds : float, default 600
        For one size.

    Returns
    -------
    AnalysisResult
        Curve ``seconds to precision`` over the rows. The quantities are those of the largest size finished; it counts
        as converged if there is one.
    """
    options: dict[str, Any] = {
        "seed": seed,
        "C": C,
        "tol": tol,
        "precision": precision,
        "seconds": seconds,
    }
    options["tolerances"] = tolerances
    options["clock"] = clock
    n: list[float] = []
    took: list[float] = []
    lines: list[str] = []
    last = None
    times: dict[str, float] = {}
    for fraction in sorted(fractions):
        rows = fraction * dataset.n_samples
        likely = (
            last.values["seconds_run"] * (rows / n[-1]) ** 2
            if last is not None and solver in KERNEL_SOLVERS
            else 0
        )
        if likely > seconds:
            lines.append(
                f"{solver}: {rows:.0f} rows would take about {likely:.0f} s and were not tried."
            )
            break
        run = svm_seconds(dataset, solver=solver, fraction=fraction, **options)
        if np.isnan(run.values["seconds_to_precision"]):
            lines += run.lines
            break
        last = run
        n.append(run.values["n"])
        took.append(run.values["seconds_to_precision"])
        for other in against:
            theirs = svm_seconds(dataset, solver=other, fraction=fraction, **options)
            if np.isfinite(ratio := took[-1] / theirs.values["seconds_to_precision"]):
                times[f"times_{other}"] = ratio
                lines.append(
                    f"{solver}, {n[-1]:.0f} rows: {ratio:.3g} times the seconds of {other}."
                )
    values = {
        "largest_n": n[-1] if n else 0.0,
        **{f"times_{other}": np.nan for other in against},
        **times,
    }
    values["exponent"] = (
        float(np.polyfit(np.log(n), np.log(took), 1)[0]) if len(n) > 1 else np.nan
    )
    kept = ("seconds_to_precision", "microseconds_per_row", "relative_gap", "peak_gb")
    values |= {name: np.nan if last is None else last.values[name] for name in kept}
    curve = Curve(n, took, "rows", f"seconds to {tol:g}", "xy")
    facts = {
        "converged": last is not None,
        **({} if last is None else {"gap": last.solver["gap"]}),
    }
    return AnalysisResult(
        values,
        curves={"seconds to precision": curve} if n else {},
        lines=lines,
        solver=facts,
    )


def _at_time(
    when: float, at: Sequence[float], differences: Array, cold: float
) -> float:
    """Return the smallest difference known at a moment; that of zero coefficients before the first; NaN if never."""
    if np.isnan(when):
        return np.nan
    known = differences[np.array(at) <= when]
    return float(known.min()) if len(known) else float(cold)


def _sentence(dataset: Dataset, solver: str, reference: ReferenceOptimum) -> str:
    own = "with LIBSVM's intercept, " if solver == LIBSVM else ""
    return (
        f"{dataset.title or dataset.id}: obj* = {reference.optimum:.10g} ({own}by {reference.how}), "
        f"known to {reference.accuracy:.1e}; smaller differences cannot be distinguished from it."
    )


# ---------------------------------------------------------------- transfer to a task with few rows

#: Couplings of the three models; that of "multi-task" is chosen among those given.
_POOLED = 1e6
MODELS = ("multi-task", "pooled", "independent")


@analysis(
    {
        "auc_target": "AUC of the task with few rows",
        "auc": "mean AUC of all tasks",
        "C": "C chosen by cross-validation",
        "coupling": "coupling chosen by cross-validation",
    },
    higher=("auc_target", "auc"),
)
def svm_transfer(
    dataset: Dataset,
    *,
    seed: int,
    model: str = "multi-task",
    target: str = "H. sapiens",
    target_rows: int = 200,
    other_rows: int = 2000,
    test_rows: int = 4000,
    costs: Sequence[float] = (0.03, 0.3, 3.0),
    couplings: Sequence[float] = (0.1, 1.0, 10.0),
    degree: int = DEGREE,
    folds: int = 3,
) -> AnalysisResult:
    """Train on `target_rows` rows of one task and `other_rows` of every other; report the AUC on rows held out.

    The models are `GraphSVC` with the hinge loss on normalized weighted-degree features: coupled by ones plus the
    identity, pooled (one SVM for all tasks, as the limit of a strong coupling), and independent (no coupling). C, and
    the coupling of the coupled one, have the best AUC of the target task in a cross-validation on the training rows;
    of equally good ones the first. All models see the same rows, and larger `target_rows` contain the smaller.

    Parameters
    ----------
    dataset : Dataset
        Strings in several tasks.
    seed : int
        Of the choice of rows.
    model : {"multi-task", "pooled", "independent"}
    target : str
        Name of the task with few rows.
    target_rows, other_rows, test_rows : int
        Rows per task; `test_rows` are held out of every task first.
    costs, couplings : list of float
        What is tried.
    degree : int, default 8
    folds : int, default 3

    Returns
    -------
    AnalysisResult
        ``auc_target``, ``auc`` (mean over the tasks), ``C``, ``coupling``; per task ``auc``.

    Raises
    ------
    ValueError
        For an unknown model or task, or more rows than there are.
    """
    if dataset.task_id is None or not dataset.strings:
        raise ValueError("svm-transfer needs strings in several tasks")
    if model not in MODELS or target not in dataset.tasks:
        raise ValueError(
            f"unknown model {model!r} or task {target!r}: models {MODELS}, tasks {tuple(dataset.tasks)}"
        )
    few = dataset.tasks.index(target)
    train, test = _rows(dataset, few, target_rows, other_rows, test_rows, seed)
    tried = {"multi-task": couplings, "pooled": (_POOLED,), "independent": (0.0,)}[
        model
    ]
    candidates = [
        GraphSVC(
            C=C,
            coupling=coupling,
            tol=1e-2,
            features=WeightedDegree(degree, normalize=True),
        )
        for coupling, C in product(tried, costs)
    ]
    chosen = candidates[0]
    if len(candidates) > 1:
        scores = [
            _validated(candidate, dataset, train, few, folds)
            for candidate in candidates
        ]
        chosen = candidates[int(np.argmax(scores))]
    aucs = _aucs(chosen, dataset, train, test)
    values = {
        "auc_target": float(aucs[few]),
        "auc": float(np.nanmean(aucs)),
        "C": float(chosen.C),
        "coupling": float(chosen.coupling),
    }
    return AnalysisResult(values, per_task={"auc": [float(a) for a in aucs]})


def _rows(
    dataset: Dataset,
    few: int,
    target_rows: int,
    other_rows: int,
    test_rows: int,
    seed: int,
) -> tuple[Array, Array]:
    """Return the training rows, half of them positive, and the test rows of all tasks."""
    train, test = [], []
    for t in range(dataset.n_tasks):
        rows = np.flatnonzero(dataset.task_id == t)
        rows = rows[np.random.default_rng([seed, t]).permutation(len(rows))]
        wanted = target_rows if t == few else other_rows
        test.append(rows[:test_rows])
        rest = rows[test_rows:]
        positive = dataset.y[rest] > 0
        parts = [rest[positive][: wanted // 2], rest[~positive][: wanted - wanted // 2]]
        if sum(map(len, parts)) < wanted:
            raise ValueError(
                f"{dataset.tasks[t]} has {len(rows)} rows, too few to train on {wanted} of them"
            )
        train += parts
    return np.concatenate(train), np.concatenate(test)


def _validated(
    model: GraphSVC, dataset: Dataset, rows: Array, few: int, folds: int
) -> float:
    """Return the mean AUC of the target task over folds of the training rows."""
    fold = np.zeros(len(rows), dtype=np.int64)
    strata = 2 * np.asarray(dataset.task_id)[rows] + (dataset.y[rows] > 0)
    for stratum in np.unique(strata):  # rows are in random order
        inside = np.flatnonzero(strata == stratum)
        fold[inside] = np.arange(len(inside)) % folds
    return float(
        np.nanmean(
            [
                _aucs(model, dataset, rows[fold != k], rows[fold == k])[few]
                for k in range(folds)
            ]
        )
    )


def _aucs(model: GraphSVC, dataset: Dataset, train: Array, test: Array) -> Array:
    """Return the AUC of every task on the test rows."""
    owner = np.asarray(dataset.task_id)
    model.fit(dataset.X[train], dataset.y[train], task_id=owner[train])
    scores = model.decision_function(dataset.X[test], task_id=owner[test])
    return auc_per_task(dataset.y[test], scores, task_id=owner[test])


# ---------------------------------------------------------------- what the authors' stored result files say; no fits

#: Curves of Figure 1 in our run, made by ``scripts/mtsvm_curves.py``.
OUR_CURVES = "mtsvm/curves/fig1.yaml"
#: Curves of Figures 1 and 2, read from the authors' files.
PUBLISHED = ("mtsvm/published/fig1.yaml", "mtsvm/published/fig2.yaml")
# Times its first moment that the first phase of a curve lasts.
_FIRST_PHASE = 10.0
# A difference from the optimum, relative to it, from which on a solution is of use.
_USEFUL = 1e-2


@analysis(
    {
        "dcd_difference": "smallest |obj* - obj| of DCD in Figure 1",
        "kernel_difference": "smallest |obj* - obj| of the kernel solver in Figure 1",
        "orders_at_one_time": "most orders of magnitude by which DCD is more precise at one time",
        "times_more_precise": "share of the stored times at which DCD is more precise",
        "speed_up": "largest ratio of the seconds to a difference that both reach",
        "speed_up_precision": "that difference, relative to obj*",
        "speed_up_useful": "largest ratio of the seconds to a difference of at most 1e-2, relative to obj*",
        "speed_up_rows": "largest ratio of the seconds for the same rows in Figure 2",
        "speed_up_all_rows": "ratio of the seconds for all rows in Figure 2",
        "dcd_first_pace": "orders of magnitude that DCD gains in its first tenfold time, divided by its mean",
        "kernel_first_pace": "the same of the kernel solver",
        "first_pace": "the larger of the two",
        "first_tenth": "the same in plain time: ten times the share that the first tenth of a run gains",
        "mean_steepness": "mean orders of magnitude in a tenfold time, the kernel solver's divided by DCD's",
        "steepness": "most orders of magnitude in a tenfold time, the kernel solver's divided by DCD's",
        "exponent_difference": "b of seconds ~ rows^b in Figure 2, the kernel solver's minus DCD's",
        "kernel_rows": "most rows that the kernel solver was given in Figure 2",
    },
    needs_data=False,
    changes=[
        "paces, steepness, the growth with the rows and the most rows are read off, too",
        "the paces of both solvers together, in logarithmic and in plain time, and mean steepness",
    ],
)
def stored_runs(
    dataset: Dataset,
    *,
    seed: int,
    data_set: str,
    optimum: float,
    published: Sequence[str] = PUBLISHED,
) -> AnalysisResult:
    """Read speed-ups and precisions off the curves of DCD and the kernel solver that the authors stored.

    At a time the last value known counts, as long as the kernel solver was followed; DCD was until it had converged.
    Seconds are compared at every difference that one of the curves has and both come to. The pace of a curve is in
    orders of magnitude of the difference per tenfold time, as the figure shows it; its mean is that of the run until
    its smallest difference, its largest that between two neighbors of the stored points.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    data_set : str
        Whose curves.
    optimum : float
        Its obj*, of the same files.
    published : (str, str)
        Files of the curves of Figures 1 and 2 below the folder of the experiments.
    """
    ours, theirs = _curves(published[0], data_set)
    (few_n, few), (many_n, many) = _curves(published[1], data_set)
    n, mine, other = np.intersect1d(
        few_n, many_n, return_indices=True
    )  # rows that both were given
    few, many = few[mine], many[other]
    levels = np.unique(np.concatenate([ours[1], theirs[1]]))
    levels = levels[levels >= max(ours[1].min(), theirs[1].min())]
    ratios = np.array([_first(theirs, level) / _first(ours, level) for level in levels])
    at = np.unique(np.concatenate([ours[0], theirs[0]]))
    at = at[(at >= max(ours[0][0], theirs[0][0])) & (at <= theirs[0][-1])]
    orders = np.array(
        [np.log10(_known(theirs, time) / _known(ours, time)) for time in at]
    )
    useful = levels <= _USEFUL * optimum
    best, most, rows = (
        int(np.argmax(ratios)),
        int(np.argmax(orders)),
        int(np.argmax(many / few)),
    )
    values = {
        "dcd_difference": ours[1].min(),
        "kernel_difference": theirs[1].min(),
        "orders_at_one_time": orders[most],
        "times_more_precise": np.mean(orders > 0),
        "speed_up": ratios[best],
        "speed_up_precision": levels[best] / optimum,
        "speed_up_useful": ratios[useful].max() if useful.any() else np.nan,
        "speed_up_rows": many[rows] / few[rows],
        "speed_up_all_rows": many[-1] / few[-1],
        **_phases(ours, theirs),
        "exponent_difference": np.polyfit(np.log(n), np.log(many / few), 1)[0]
        if len(n) > 1
        else np.nan,
        "kernel_rows": n[-1],
    }
    return AnalysisResult(
        {name: float(value) for name, value in values.items()},
        lines=[
            f"DCD is at most {ratios[best]:.3g} times as fast in Figure 1, to a difference of "
            f"{levels[best] / optimum:.2g} of obj*, and {many[rows] / few[rows]:.3g} times in Figure 2, with "
            f"{n[rows]:.0f} rows. At {at[most]:.3g} s it is more precise by {orders[most]:.1f} orders of magnitude."
        ],
    )


@analysis(
    {
        "dcd_first_pace": "orders of magnitude that DCD gains in its first tenfold time, divided by its mean",
        "kernel_first_pace": "the same of the kernel solver",
        "first_pace": "the larger of the two",
        "dcd_first_tenth": "the same of DCD in plain time: ten times the share that its first tenth gains",
        "kernel_first_tenth": "the same of the kernel solver",
        "first_tenth": "the larger of the two",
        "mean_steepness": "mean orders of magnitude in a tenfold time, the kernel solver's divided by DCD's",
        "steepness": "most orders of magnitude in a tenfold time, the kernel solver's divided by DCD's",
    },
    needs_data=False,
)
def curve_phases(
    dataset: Dataset,
    *,
    seed: int,
    data_set: str,
    kernel: str = "MTK with intercept",
    published: str = OUR_CURVES,
) -> AnalysisResult:
    """Read slow phases and steepness off our curves of Figure 1, as `stored_runs` does off the authors'.

    The curve of a kernel solver is made of separate runs where it is LIBSVM. At a time the
    best value counts that one of them had delivered. A curve that takes less than ten times
    as long as to its first point has no first phase: its first pace is NaN.

    Parameters
    ----------
    dataset : None
    seed : int
        Without effect.
    data_set : str
        Label of the data set of the curves.
    kernel : {"MTK with intercept", "MTK"}, default "MTK with intercept"
        LIBSVM, or our kernel solver without an intercept.
    published : str
        File of the curves below the folder of the experiments.

    Raises
    ------
    ValueError
        If the file does not have both curves.
    """
    curves = _curves_of(published, data_set)
    missing = {"DCD as printed", kernel} - curves.keys()
    if missing:
        raise ValueError(
            f"configs/{published} has no curve of {', '.join(sorted(missing))} on "
            f"{data_set!r}: make it with scripts/mtsvm_curves.py"
        )
    dcd = _lowered(curves["DCD as printed"])
    theirs = _lowered(curves[kernel])
    values = {
        **_phases(dcd, theirs),
        "dcd_first_tenth": _first_tenth(dcd),
        "kernel_first_tenth": _first_tenth(theirs),
    }
    for name, curve in (("dcd_first_pace", dcd), ("kernel_first_pace", theirs)):
        if curve[0][np.argmin(curve[1])] < _FIRST_PHASE * curve[0][0]:
            values[name] = np.nan
            values["first_pace"] = np.nan
    return AnalysisResult({name: float(value) for name, value in values.items()})


def _phases(ours: tuple[Array, Array], theirs: tuple[Array, Array]) -> dict[str, float]:
    """Return paces and steepness of the curves of DCD and of a kernel solver."""
    return {
        "dcd_first_pace": _first_pace(ours),
        "kernel_first_pace": _first_pace(theirs),
        "first_pace": max(_first_pace(ours), _first_pace(theirs)),
        "first_tenth": max(_first_tenth(ours), _first_tenth(theirs)),
        "mean_steepness": _mean_pace(theirs) / _mean_pace(ours),
        "steepness": _steepest(theirs) / _steepest(ours),
    }


def _lowered(curve: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return a curve with the smallest value so far, one point for each moment."""
    at, difference = curve
    lowest = np.minimum.accumulate(difference)
    is_last = np.append(np.diff(at) > 0, True)
    return at[is_last], lowest[is_last]


def _curves_of(name: str, data_set: str) -> dict[str, tuple[Array, Array]]:
    """Return x and y of the curves of a data set, by solver."""
    document = load_text(read_text_file(published_path(name)), f"configs/{name}")
    return {
        curve["method"]: (np.array(curve["x"]), np.array(curve["y"]))
        for curve in document.data["curves"]
        if curve["dataset"] == data_set
    }


def _curves(name: str, data_set: str) -> list[tuple[Array, Array]]:
    """Return x and y of DCD and of the kernel solver."""
    curves = _curves_of(name, data_set)
    if len(curves) != 2:
        raise ValueError(
            f"configs/{name} has {len(curves)} curves of {data_set!r}, need those of two solvers"
        )
    return [curves["DCD as printed"], curves["MTK"]]


def _first(curve: tuple[Array, Array], level: float) -> float:
    """Return when a curve comes to a level."""
    return float(curve[0][np.argmax(curve[1] <= level)])


def _known(curve: tuple[Array, Array], time: float) -> float:
    """Return the last value of a curve at a time."""
    return float(curve[1][np.searchsorted(curve[0], time, side="right") - 1])


def _first_pace(curve: tuple[Array, Array]) -> float:
    """Return the pace in the first tenfold time, or of the whole run if it is shorter, divided by the mean pace."""
    at, difference = curve
    tenfold = min(_FIRST_PHASE, at[np.argmin(difference)] / at[0])
    gained = np.log10(difference[0] / _known(curve, tenfold * at[0]))
    return float(gained / np.log10(tenfold) / _mean_pace(curve))


def _mean_pace(curve: tuple[Array, Array]) -> float:
    """Return the orders of magnitude per tenfold time until the smallest difference."""
    at, difference = curve
    end = int(np.argmin(difference))
    return float(np.log10(difference[0] / difference[end]) / np.log10(at[end] / at[0]))


def _first_tenth(curve: tuple[Array, Array]) -> float:
    """Return the share of its orders of magnitude that a run gains in the first tenth of its time, times ten."""
    at, difference = curve
    end = int(np.argmin(difference))
    known = _known(curve, max(at[0], at[end] / 10))
    return float(
        10 * np.log10(difference[0] / known) / np.log10(difference[0] / difference[end])
    )


def _steepest(curve: tuple[Array, Array]) -> float:
    """Return the most orders of magnitude per tenfold time between two neighbors."""
    return float(np.max(-np.diff(np.log10(curve[1])) / np.diff(np.log10(curve[0]))))
