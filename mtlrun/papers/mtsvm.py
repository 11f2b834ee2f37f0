"""Graph-regularised SVMs: sizes of the data, objective against seconds, seconds against rows, and transfer.

Solvers are the variants of `GraphSVC` ("block" is block-wise dual coordinate ascent, "paper" the printed algorithm),
"newton", and "mtk": LIBSVM with the multi-task kernel, which has no callback and is run at a ladder of tolerances.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.estimators.svm import GraphSVC
from mtlrun.features.dna import WeightedDegree
from mtlrun.metrics import auc_per_task
from mtlrun.papers.measure import Curve, Measurement, measure
from mtlrun.papers.mtsvm_runs import (
    TOLERANCES,
    Reference,
    Rung,
    ascend,
    best_of,
    cheapest,
    climb_ladder,
    first_time,
    kernel_optimum,
    needed,
    optimum_of,
    part_of,
    task_data,
    warm_up,
)
from mtlrun.penalties.graph import check_similarity, couple_tasks
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]

#: Differences relative to the optimum whose seconds are reported, by the name of the quantity.
LEVELS = {"seconds_to_1e-2": 1e-2, "seconds_to_1e-4": 1e-4, "seconds_to_1e-6": 1e-6, "seconds_to_1e-8": 1e-8}
# Relative gap at which the runs that are followed end: from there on rounding decides.
_END = 1e-12


@measure(
    {
        "dimension": "features; weighted-degree features of strings",
        "examples": "examples in all tasks",
        "tasks": "tasks",
        "smallest_task": "examples of the smallest task",
        "largest_task": "examples of the largest task",
        "positive_share": "share of the labels that are positive",
    },
)
def svm_statistics(dataset: Dataset | None, *, seed: int, degree: int = 8) -> Measurement:
    """Count examples, tasks, and the features that the SVM sees: weighted-degree features of strings.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Without effect.
    degree : int, default 8
        Of the features of strings.
    """
    dataset = needed(dataset)
    width = dataset.n_features
    if dataset.strings:
        width = WeightedDegree(degree).fit(dataset.X[:1]).n_features_out_
    sizes = np.bincount(dataset.task_id) if dataset.task_id is not None else np.full(dataset.n_tasks, len(dataset.y))
    values = {
        "dimension": float(width),
        "examples": float(sizes.sum()),
        "tasks": float(dataset.n_tasks),
        "smallest_task": float(sizes.min()),
        "largest_task": float(sizes.max()),
        "positive_share": float(np.mean(dataset.y > 0)),
    }
    return Measurement(values, per_task={"rows": sizes.astype(float).tolist()})


@measure(
    {
        "function_difference": "smallest |obj* - obj| of the run",
        "relative_difference": "the same divided by obj*",
        "difference_at_dcd_time": "|obj* - obj| when coordinate ascent is at 1e-8 of its optimum",
        "dcd_seconds": "seconds of block-wise coordinate ascent to 1e-8 of its optimum",
        "seconds_to_1e-2": "seconds to within 1e-2 of the optimum, relative",
        "seconds_to_1e-4": "seconds to within 1e-4 of the optimum, relative",
        "seconds_to_1e-6": "seconds to within 1e-6 of the optimum, relative",
        "seconds_to_1e-8": "seconds to within 1e-8 of the optimum, relative",
        "seconds_at_least": "seconds to 1e-4, else all seconds of the (longest) run",
        "seconds_run": "seconds of the whole run (of all tolerances, for LIBSVM)",
        "optimum": "obj*, of the problem that the solver solves",
        "optimum_gap": "relative width of the interval that holds obj*",
    },
    lower=(
        "function_difference",
        "relative_difference",
        "difference_at_dcd_time",
        "dcd_seconds",
        "seconds_to_1e-2",
        "seconds_to_1e-4",
        "seconds_to_1e-6",
        "seconds_to_1e-8",
        "seconds_at_least",
        "optimum_gap",
    ),
)
def svm_convergence(
    dataset: Dataset | None,
    *,
    seed: int,
    solver: str = "block",
    C: float = 10.0,
    coupling: float = 1.0,
    fraction: float = 1.0,
    scale: float = 1.0,
    degree: int = 8,
    seconds: float = 60.0,
    reference_seconds: float = 600.0,
    tolerances: Sequence[float] = TOLERANCES,
) -> Measurement:
    """Follow ``|obj* - obj|`` over the seconds of a solver; similarity of the tasks: ones plus the identity.

    obj is the primal objective, for "mtk" the dual one, as in the paper. obj* is the solver's own optimum: LIBSVM has
    an intercept, the others have none. It is the middle between the best primal and dual values that block-wise
    coordinate ascent with exact steps, or for few coefficients the interior-point method, reaches in
    `reference_seconds`; differences below its accuracy are reported as that accuracy.

    Parameters
    ----------
    dataset : Dataset
    seed : int
        Of the rows of a fraction and of the order of rows.
    solver : {"block", "block-printed", "corrected", "paper", "newton", "mtk"}, default "block"
    C, coupling : float
    fraction : float, default 1.0
        Part of the rows of every task.
    scale : float, default 1.0
        Features are divided by it.
    degree : int, default 8
        Of the weighted-degree features of strings.
    seconds : float, default 60
        The solver is stopped then, at its next certificate; LIBSVM is given no smaller tolerance then.
    reference_seconds : float, default 600
    tolerances : list of float
        LIBSVM's, from loose to tight.

    Returns
    -------
    Measurement
        Curve ``function difference``; the quantities are declared above.
    """
    dataset = part_of(needed(dataset), fraction, seed)
    data = task_data(dataset, degree=degree, scale=scale)
    links = couple_tasks(check_similarity("all", data.tasks), coupling)
    warm_up()
    reference = optimum_of(data, links, C, reference_seconds)
    dcd_seconds = reference.seconds
    if solver == "mtk":
        rungs = climb_ladder(dataset, C, coupling, scale, degree, tolerances, seconds, lambda _: False)
        reference = kernel_optimum(data, links, C) or best_of(rungs)
        at, values, last = [r.seconds for r in rungs], [r.dual for r in rungs], rungs[-1]
        facts = {"n_iter": last.n_iter, "gap": last.gap, "objective": last.primal}
    else:
        aim = reference.optimum + 2 * reference.accuracy
        result = ascend(solver, data, links, C, _END, seed, seconds, lambda primal: primal <= aim)
        at, values = list(map(float, result.info["seconds"])), result.objective
        facts = {"n_iter": result.n_iter, "gap": float(result.gap or 0.0), "objective": float(values[-1])}
    differences = np.maximum(np.abs(np.array(values) - reference.optimum), reference.accuracy)
    return Measurement(
        {
            **_reached(at, differences, abs(reference.optimum)),
            "difference_at_dcd_time": _at_time(dcd_seconds, at, differences, abs(reference.optimum)),
            "dcd_seconds": dcd_seconds,
            "seconds_run": float(sum(at) if solver == "mtk" else at[-1]),
            "optimum": reference.optimum,
            "optimum_gap": 2 * reference.accuracy / max(1.0, abs(reference.optimum)),
        },
        curves={"function difference": Curve(at, differences.tolist(), "seconds", "|obj* - obj|", "xy")},
        lines=[_sentence(dataset, solver, reference)],
        solver={**facts, "converged": True},
    )


def _reached(at: Sequence[float], differences: Array, size: float) -> dict[str, float]:
    """Return the smallest difference and the seconds to every level."""
    found = {
        "function_difference": float(differences.min()),
        "relative_difference": float(differences.min() / size),
    }
    for name, level in LEVELS.items():
        found[name] = first_time(at, differences <= level * size)
    least = found["seconds_to_1e-4"]
    return {**found, "seconds_at_least": float(max(at)) if np.isnan(least) else least}


@measure(
    {
        "n": "rows trained on",
        "seconds_to_precision": "seconds to the relative precision",
        "seconds_at_least": "the same, else all seconds of the (longest) run",
        "seconds_run": "seconds of the whole run (of all tolerances, for LIBSVM)",
        "microseconds_per_row": "seconds to the relative precision per million rows",
        "relative_gap": "relative duality gap at the end",
        "peak_gb": "largest memory of the process so far in GB",
    },
    lower=("seconds_to_precision", "seconds_at_least", "microseconds_per_row", "relative_gap", "peak_gb"),
)
def svm_seconds(
    dataset: Dataset | None,
    *,
    seed: int,
    solver: str = "block",
    C: float = 10.0,
    coupling: float = 1.0,
    fraction: float = 1.0,
    scale: float = 1.0,
    degree: int = 8,
    tol: float = 1e-4,
    seconds: float = 3600.0,
    tolerances: Sequence[float] = TOLERANCES,
    trace: bool = False,
) -> Measurement:
    """Measure the seconds that a solver needs to a relative precision `tol`, on a part of the rows.

    Coordinate ascent stops at a certified relative duality gap of `tol`. LIBSVM cannot be told a gap: of its ladder of
    tolerances, the loosest is taken whose dual value is within `tol` of its own optimum (which it could not know). That
    is the interior-point method's for few coefficients, else the best dual value of the ladder, which then goes on to
    a relative gap of ``tol / 10``. The seconds are those of this one run, kernel matrix or features included. Reading
    strings into packed letters is not counted.

    Parameters
    ----------
    dataset, seed, solver, C, coupling, fraction, scale, degree, tolerances
        As of `svm_convergence`.
    tol : float, default 1e-4
    seconds : float, default 3600
        A solver that has not come to `tol` by then is stopped, and has no seconds to it (NaN).
    trace : bool, default False
        Return the curve ``relative gap`` over the seconds, too.
    """
    dataset = part_of(needed(dataset), fraction, seed)
    n = dataset.n_samples
    warm_up()
    if solver == "mtk":
        run = _time_ladder(dataset, C, coupling, scale, degree, tol, tolerances, seconds)
    else:
        data = task_data(dataset, degree=degree, scale=scale)
        del dataset  # strings beside packed letters would double the memory
        run = _time_ascent(solver, data, coupling, C, tol, seed, seconds)
    values = {
        "n": float(n),
        "seconds_to_precision": run.needed,
        "seconds_at_least": run.longest if np.isnan(run.needed) else run.needed,
        "seconds_run": run.ran,
        "microseconds_per_row": 1e6 * run.needed / n,
        "relative_gap": run.gap,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    late = f"{solver}, {n} rows: not at {tol:g} after {run.ran:.0f} s (relative gap {run.gap:.1e})."
    return Measurement(
        values,
        curves={"relative gap": run.curve} if trace and run.curve else {},
        lines=[late] if np.isnan(run.needed) else [],
        solver={"n_iter": run.n_iter, "gap": run.gap, "converged": bool(np.isfinite(run.needed))},
    )


@measure(
    {
        "seconds_to_precision": "seconds to the relative precision with the largest size finished",
        "seconds_at_least": "seconds to the relative precision with all rows, else the longest run",
        "largest_n": "largest number of rows finished",
        "exponent": "b of seconds ~ rows^b over the sizes finished",
        "microseconds_per_row": "seconds per million rows with the largest size finished",
        "relative_gap": "relative duality gap with the largest size finished",
        "peak_gb": "largest memory of the process so far in GB",
    },
    lower=("seconds_to_precision", "seconds_at_least", "exponent", "microseconds_per_row", "relative_gap", "peak_gb"),
    higher=("largest_n",),
)
def svm_scaling(
    dataset: Dataset | None,
    *,
    seed: int,
    solver: str = "block",
    C: float = 10.0,
    coupling: float = 1.0,
    fractions: Sequence[float] = (0.1, 0.215, 0.464, 1.0),
    scale: float = 1.0,
    degree: int = 8,
    tol: float = 1e-4,
    seconds: float = 600.0,
    tolerances: Sequence[float] = TOLERANCES,
) -> Measurement:
    """Measure the seconds to a relative precision on growing parts of the rows, as `svm_seconds` does.

    It ends with the first size that is not finished in `seconds`. LIBSVM cannot be stopped: a size is not tried when
    the seconds of all tolerances of the last one, growing with the square of the rows, would exceed `seconds`.

    Parameters
    ----------
    dataset, seed, solver, C, coupling, scale, degree, tol, tolerances
        As of `svm_seconds`.
    fractions : list of float
        Parts of the rows of every task.
    seconds : float, default 600
        For one size.

    Returns
    -------
    Measurement
        Curve ``seconds to precision`` over the rows. ``seconds_at_least`` is that of all rows, or the longest measured
        where not all were finished; the other quantities are those of the largest size finished.
    """
    dataset = needed(dataset)
    options: dict[str, Any] = {"solver": solver, "C": C, "coupling": coupling, "scale": scale, "degree": degree}
    options |= {"seed": seed, "tol": tol, "seconds": seconds, "tolerances": tolerances}
    n: list[float] = []
    took: list[float] = []
    lines: list[str] = []
    last, longest = None, 0.0
    for fraction in sorted(fractions):
        rows = fraction * dataset.n_samples
        likely = last.values["seconds_run"] * (rows / n[-1]) ** 2 if last is not None and solver == "mtk" else 0.0
        if likely > seconds:
            lines.append(f"{solver}: {rows:.0f} rows would take about {likely:.0f} s and were not tried.")
            break
        run = svm_seconds(dataset, fraction=fraction, **options)
        longest = max(longest, run.values["seconds_at_least"])
        if np.isnan(run.values["seconds_to_precision"]):
            lines += run.lines
            break
        last = run
        n.append(run.values["n"])
        took.append(run.values["seconds_to_precision"])
    values = {"seconds_at_least": longest, "largest_n": n[-1] if n else 0.0}
    values["exponent"] = float(np.polyfit(np.log(n), np.log(took), 1)[0]) if len(n) > 1 else np.nan
    kept = ("seconds_to_precision", "microseconds_per_row", "relative_gap", "peak_gb")
    values |= {name: np.nan if last is None else last.values[name] for name in kept}
    curve = Curve(n, took, "rows", f"seconds to {tol:g}", "xy")
    facts = {"converged": len(n) == len(fractions), **({} if last is None else {"gap": last.solver["gap"]})}
    return Measurement(values, curves={"seconds to precision": curve} if n else {}, lines=lines, solver=facts)


@dataclass(frozen=True)
class Timed:
    """Seconds to the precision (NaN if not reached), of the longest single run, and in all; the last gap."""

    needed: float
    longest: float
    ran: float
    gap: float
    n_iter: int
    curve: Curve | None = None


def _time_ascent(
    solver: str, data: TaskData, coupling: float, C: float, tol: float, seed: int, seconds: float
) -> Timed:
    links = couple_tasks(check_similarity("all", data.tasks), coupling)
    result = ascend(solver, data, links, C, tol, seed, seconds)
    at, gap = list(map(float, result.info["seconds"])), float(result.gap or 0.0)
    gaps = [(primal - dual) / max(1.0, abs(primal)) for _, primal, dual in result.gaps]
    curve = Curve(at, gaps, "seconds", "relative duality gap", "xy")
    return Timed(at[-1] if gap <= tol else np.nan, at[-1], at[-1], gap, int(result.n_iter), curve)


def _time_ladder(
    dataset: Dataset,
    C: float,
    coupling: float,
    scale: float,
    degree: int,
    tol: float,
    tolerances: Sequence[float],
    seconds: float,
) -> Timed:
    known = None
    if not dataset.strings:
        data = task_data(dataset, scale=scale)
        known = kernel_optimum(data, couple_tasks(check_similarity("all", data.tasks), coupling), C)
    optimum = None if known is None else known.optimum

    def enough(rung: Rung) -> bool:
        return rung.gap <= tol / 10 or (optimum is not None and cheapest([rung], tol, optimum) is not None)

    rungs = climb_ladder(dataset, C, coupling, scale, degree, tolerances, seconds, enough)
    chosen = cheapest(rungs, tol, optimum)
    ran, longest = sum(r.seconds for r in rungs), max(r.seconds for r in rungs)
    if chosen is None:
        return Timed(np.nan, longest, ran, rungs[-1].gap, rungs[-1].n_iter)
    return Timed(chosen.seconds, longest, ran, chosen.gap, chosen.n_iter)


def _at_time(moment: float, at: Sequence[float], differences: Array, start: float) -> float:
    """Return the smallest difference known at a moment; that of zero coefficients' dual, or C n, before the first."""
    known = differences[np.array(at) <= moment]
    return float(known.min()) if len(known) else float(start)


def _sentence(dataset: Dataset, solver: str, reference: Reference) -> str:
    own = "with LIBSVM's intercept, " if solver == "mtk" else ""
    return (
        f"{dataset.title or dataset.id}: obj* = {reference.optimum:.10g} ({own}by {reference.how}), "
        f"known to {reference.accuracy:.1e}; smaller differences cannot be told from it."
    )


# ---------------------------------------------------------------- transfer to a task with few rows

#: Couplings of the three models; that of "multi-task" is chosen among those given.
_POOLED = 1e6
MODELS = ("multi-task", "pooled", "independent")


@measure(
    {
        "auc_target": "AUC of the task with few rows",
        "auc": "mean AUC of all tasks",
        "C": "C chosen by cross-validation",
        "coupling": "coupling chosen by cross-validation",
    },
    higher=("auc_target", "auc"),
)
def svm_transfer(
    dataset: Dataset | None,
    *,
    seed: int,
    model: str = "multi-task",
    target: str = "H. sapiens",
    target_rows: int = 200,
    other_rows: int = 2000,
    test_rows: int = 4000,
    costs: Sequence[float] = (0.03, 0.3, 3.0),
    couplings: Sequence[float] = (0.1, 1.0, 10.0),
    degree: int = 8,
    folds: int = 3,
) -> Measurement:
    """Train on `target_rows` rows of one task and `other_rows` of every other; report the AUC on rows held out.

    The models are `GraphSVC` with the hinge loss on normalised weighted-degree features: coupled by ones plus the
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
    Measurement
        ``auc_target``, ``auc`` (mean over the tasks), ``C``, ``coupling``; per task ``auc``.

    Raises
    ------
    ValueError
        For an unknown model or task, or more rows than there are.
    """
    if dataset is None or dataset.task_id is None or not dataset.strings:
        raise ValueError("svm-transfer needs strings in several tasks")
    if model not in MODELS or target not in dataset.tasks:
        raise ValueError(f"unknown model {model!r} or task {target!r}: models {MODELS}, tasks {tuple(dataset.tasks)}")
    few = dataset.tasks.index(target)
    train, test = _rows(dataset, few, target_rows, other_rows, test_rows, seed)
    tried = {"multi-task": couplings, "pooled": (_POOLED,), "independent": (0.0,)}[model]
    candidates = [
        GraphSVC(C=C, coupling=coupling, tol=1e-2, features=WeightedDegree(degree, normalize=True))
        for coupling, C in product(tried, costs)
    ]
    chosen = candidates[0]
    if len(candidates) > 1:
        scores = [_validated(candidate, dataset, train, few, folds) for candidate in candidates]
        chosen = candidates[int(np.argmax(scores))]
    aucs = _aucs(chosen, dataset, train, test)
    values = {
        "auc_target": float(aucs[few]),
        "auc": float(np.nanmean(aucs)),
        "C": float(chosen.C),
        "coupling": float(chosen.coupling),
    }
    return Measurement(values, per_task={"auc": [float(a) for a in aucs]})


def _rows(
    dataset: Dataset, few: int, target_rows: int, other_rows: int, test_rows: int, seed: int
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
            raise ValueError(f"{dataset.tasks[t]} has {len(rows)} rows, too few to train on {wanted} of them")
        train += parts
    return np.concatenate(train), np.concatenate(test)


def _validated(model: GraphSVC, dataset: Dataset, rows: Array, few: int, folds: int) -> float:
    """Return the mean AUC of the target task over folds of the training rows."""
    fold = np.zeros(len(rows), dtype=np.int64)
    strata = 2 * np.asarray(dataset.task_id)[rows] + (dataset.y[rows] > 0)
    for stratum in np.unique(strata):  # rows are in random order
        inside = np.flatnonzero(strata == stratum)
        fold[inside] = np.arange(len(inside)) % folds
    return float(np.nanmean([_aucs(model, dataset, rows[fold != k], rows[fold == k])[few] for k in range(folds)]))


def _aucs(model: GraphSVC, dataset: Dataset, train: Array, test: Array) -> Array:
    """Return the AUC of every task on the test rows."""
    owner = np.asarray(dataset.task_id)
    model.fit(dataset.X[train], dataset.y[train], task_id=owner[train])
    scores = model.decision_function(dataset.X[test], task_id=owner[test])
    return auc_per_task(dataset.y[test], scores, task_id=owner[test])
