"""What multi-task learning gains on a table with so many training rows per task, and what the table was like before.

The measure of the artefact ``atlas/gain``: methods, search, strategies, gain and interval are those of `compare`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.comparison.candidates import Candidate, default_candidates
from mtlrun.comparison.evaluation import AUC, ComparedMethod, Evaluation
from mtlrun.comparison.gain import Gain
from mtlrun.comparison.jobs import ComparisonJobs
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.verdict import (
    INDEPENDENT,
    MIN_UNITS,
    MULTITASK,
    POOLED,
    Strategy,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import fewer_rows, fold_rows
from mtlrun.engine.analysis import AnalysisResult, analysis
from mtlrun.engine.fit import (
    fit_job,
    learned_features,
    make_step,
    score_candidates,
)
from mtlrun.engine.job import TABLE, Features, Job, choice_of
from mtlrun.engine.record import Record
from mtlrun.errors import DataError, one_line
from mtlrun.estimators.baselines import scaled_targets
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.metrics import get_metric
from mtlrun.utils.io import derive_seed

#: Name of the splits that a table is given.
SPLITS = "rows per task"
#: Columns that the properties of a table are measured on; of a table with more, so many principal components.
MOST_COLUMNS = 40
#: So many methods stand first in the list of `compare` and are part of every comparison.
BASELINES = 4
#: How the labels of linear methods that do not share begin. All multi-task methods of the default list are linear but
#: SmoothMTL, which the profile quick of atlas/gain does not have.
LINEAR = (
    *(
        f"{how}{what}"
        for how in ("Independent", "Pooled")
        for what in ("Ridge", "Logistic")
    ),
    "IndependentLasso",
    "IndependentSVC",
)
#: The better of independent and pooled methods in each split. The atlas asks for the
#: gain over it, as `compare` did when its numbers were computed.
BASELINE = "without"
#: Columns of the table of methods in a record.
COLUMNS = [
    "method",
    "family",
    "error",
    "gain",
    "low",
    "high",
    "over alone",
    "chosen",
    "seconds",
]


@analysis(
    {
        "gain": "relative reduction of the error (nMSE, or 1 - AUC) by the best multi-task method against the best "
        "method that does not share; each chosen by inner cross-validation",
        "low": "lower end of the 95% interval",
        "high": "upper end of the 95% interval",
        "over_independent": "the same gain against the best independent method",
        "over_pooled": "the same gain against the best pooled method",
        "over_linear": "the same gain against the best linear method that does not share",
        "error": "error of the best method that does not share",
        "helps": "1 where the verdict of compare is that multi-task learning helps, else 0",
        "worse": "1 where the verdict is that it is worse, else 0",
        "rows_per_task": "mean number of training rows of a task",
        "tasks": "number of tasks",
        "features": "number of columns after the feature step",
        "tasks_share": "share of the variance that differences between tasks explain (hierarchical model)",
        "mean_share": "share of the variance that a model common to all tasks explains (hierarchical model)",
        "noise": "share of the variance that neither explains (hierarchical model)",
        "rank": "effective rank of the single-task coefficients over the largest possible",
        "better_tasks": "share of the tasks that gain",
    },
    higher=[
        "gain",
        "low",
        "high",
        "over_independent",
        "over_pooled",
        "over_linear",
        "helps",
        "better_tasks",
    ],
    lower=["error", "worse"],
)
def gain(
    dataset: Dataset,
    *,
    seed: int,
    rows: int = 20,
    methods: Sequence[str] = (),
    folds: int = 5,
    search: int = 3,
) -> AnalysisResult:
    """Compare multi-task learning with the best method without it, trained on few rows of every task.

    The rows are cross-validated; outside of a fold, `rows` random rows of every task are trained on, of a task with
    fewer all of them. A larger `rows` adds to the rows of a smaller one.

    Parameters
    ----------
    dataset : Dataset
        Regression or binary labels; tasks with rows of their own, or on the same rows.
    seed : int
        Of folds, rows and methods.
    rows : int, default 20
        Training rows of a task.
    methods : sequence of str, default all that `compare` tries
        Those of them that are tried, beside the four baselines of every comparison; classifiers go by the names of the
        models.
    folds, search : int, default 5 and 3
        Folds that are tested in turn, and of the search inside the training rows.

    Raises
    ------
    DataError
        If less than half of the tasks have so many training rows.
    """
    data, train = with_splits(dataset, rows, folds, seed)
    protocol = protocol_of(data, folds, search, seed)
    evaluation = replace(protocol.evaluation(data), has_test_file=False)
    standard = default_candidates(data, len(train) / data.n_samples)
    wanted = [
        not methods or c.label.removesuffix("Classifier") in methods for c in standard
    ]
    # Every value is searched on every fold, as it was when the atlas was computed.
    candidates = [
        _as_in_atlas(c, data)
        for place, c in enumerate(standard)
        if place < BASELINES or wanted[place]
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = _computed(candidates, protocol, data, evaluation)
        traits = properties(data.subset(train))
    strategies = _strategies(entries, folds)
    total = _gain_over(strategies, BASELINE, evaluation)
    undefined = 0 if total is None else len(total.tasks) - total.better[1]
    if total is None or undefined > data.n_tasks / 2 or total.units < MIN_UNITS:
        raise DataError(
            f"{dataset.id} with {rows} rows per task: too few rows, tasks or methods "
            "can be compared",
            "Leave it out.",
        )
    alone = _gain_over(strategies, INDEPENDENT, evaluation)
    pooled = _gain_over(strategies, POOLED, evaluation)
    scale = _scale(total.second, evaluation)
    better, compared = total.better
    points = [one.value for one in (alone, pooled) if one is not None]
    is_practical = total.high >= evaluation.smallest
    helps = is_practical and total.low > 0 and all(value > 0 for value in points)
    linear = _over(
        [e for e in entries if e.label.startswith(LINEAR)], entries, evaluation
    )
    values = {
        "gain": scale * total.value,
        "low": scale * total.low,
        "high": scale * total.high,
        "over_independent": _reduction(alone, evaluation),
        "over_pooled": _reduction(pooled, evaluation),
        "over_linear": _reduction(linear, evaluation),
        "error": 1 - total.second if evaluation.measure == AUC else total.second,
        "helps": float(helps),
        "worse": float(total.high < 0),
        "better_tasks": better / compared if compared else math.nan,
        **traits,
    }
    failed = [
        f"{e.label} failed in {len(e.failures)} folds: {e.errors[0]}"
        for e in entries
        if e.failures
    ]
    table = {
        "columns": COLUMNS,
        "rows": _method_rows(entries, evaluation, strategies),
    }
    return AnalysisResult(values, lines=failed, tables={"methods": table})


def with_splits(
    dataset: Dataset, rows: int, folds: int, seed: int
) -> tuple[Dataset, np.ndarray]:
    """Return the data set with few training rows in every fold as its splits, and those of the first fold."""
    splits = []
    for train, test in fold_rows(dataset, folds, seed):
        splits.append(
            (fewer_rows(dataset, train, rows, derive_seed(seed, SPLITS)), test)
        )
    ids, first = dataset.task_id, splits[0][0]
    sizes = (
        np.array([len(first)])
        if ids is None
        else np.bincount(ids[first], minlength=dataset.n_tasks)
    )
    if (sizes >= rows).mean() < 0.5:
        text = f"{dataset.id}: {rows} training rows are more than most tasks have ({np.median(sizes):g})"
        raise DataError(text, "Use fewer rows per task.")
    return replace(dataset, id=dataset.id or "table", splits={SPLITS: splits}), first


def _as_in_atlas(candidate: Candidate, data: Dataset) -> Candidate:
    """Return a default method of `compare` as it was when the atlas was computed.

    No search was halved, intercepts were free, and the prior of the hierarchical model
    was searched for targets on the same rows, too.
    """
    params = dict(candidate.params)
    inner = params.get("estimator")
    if inner and "intercepts" in (inner.get("params") or {}):
        kept = {k: v for k, v in inner["params"].items() if k != "intercepts"}
        params["estimator"] = {**inner, "params": kept}
    grid = candidate.grid
    if candidate.label == "HierarchicalMTL" and data.task_id is None:
        priors = HierarchicalMTL.metadata.default_grid["prior"]
        grid = {"estimator__prior": list(priors)}
    return replace(candidate, halving=False, params=params, grid=grid)


def protocol_of(data: Dataset, folds: int, search: int, seed: int) -> Protocol:
    """Return how a data set with splits of `with_splits` is compared."""
    metric = (
        "auc"
        if data.task_type == "binary"
        else "nmse"
        if data.task_id is None
        else "rmse"
    )
    return Protocol({"kind": "published", "name": SPLITS}, folds, search, metric, seed)


def _computed(
    candidates: list[Candidate],
    protocol: Protocol,
    data: Dataset,
    evaluation: Evaluation,
) -> list[ComparedMethod]:
    """Return what the methods do in every fold; a method that fails there is not chosen there."""
    maker = ComparisonJobs(protocol, data)
    entries = [
        ComparedMethod(candidate.label, candidate.family) for candidate in candidates
    ]
    for split in range(protocol.n_splits):
        searched: dict[str, Record] = {}  # of methods that search the same way
        for entry, candidate in zip(entries, candidates, strict=True):
            try:
                job = maker.job(candidate, split)
                evaluate_split(entry, split, job, data, evaluation, searched)
            except Exception as error:  # as in `compare`, it is an entry of the result
                entry.failures[split] = one_line(error)
    return entries


def evaluate_split(
    entry: ComparedMethod,
    split: int,
    job: Job,
    data: Dataset,
    evaluation: Evaluation,
    searched: dict[str, Record],
) -> None:
    """Search, fit and score a method in one fold."""
    chosen: dict[str, Any] = {}
    for fold in job.folds:
        if fold.key not in searched:
            searched[fold.key] = score_candidates(fold, data)
    if job.search is not None:
        selection = choice_of(job, [searched[fold.key] for fold in job.folds])
        if selection["chosen"] is None:
            raise ValueError("no candidate of the search has a score")
        chosen = selection["chosen"]
        sign = -1 if get_metric(selection["metric"]).greater_is_better else 1
        entry.inner[split] = sign * selection["score"]
        entry.seconds.append(selection["seconds"])
    fitted = fit_job(job, data, chosen)
    entry.losses[split] = evaluation.losses(split, fitted.scores)
    entry.seconds.append(fitted.record.seconds["total"])


def _scale(second: float, evaluation: Evaluation) -> float:
    """Return what makes a relative reduction of a gain: a difference of the AUC is divided by 1 - AUC."""
    return 1 / max(1 - second, 1e-3) if evaluation.measure == AUC else 1.0


def _reduction(found: Any, evaluation: Evaluation) -> float:
    return math.nan if found is None else _scale(found.second, evaluation) * found.value


def _strategies(
    entries: list[ComparedMethod], folds: int
) -> dict[str, Strategy | None]:
    """Return the strategies of multi-task methods, of both alternatives, and `BASELINE`."""
    families = {
        MULTITASK: (MULTITASK,),
        INDEPENDENT: (INDEPENDENT,),
        POOLED: (POOLED,),
        BASELINE: (INDEPENDENT, POOLED),
    }
    return {
        name: Strategy.of([e for e in entries if e.family in members], range(folds))
        for name, members in families.items()
    }


def _gain_over(
    strategies: dict[str, Strategy | None], name: str, evaluation: Evaluation
) -> Gain | None:
    """Return the gain of multi-task learning over another strategy."""
    multitask = strategies[MULTITASK]
    other = strategies[name]
    if multitask is None or other is None:
        return None
    return evaluation.gain(multitask.losses, other.losses, 1)


def _over(
    others: list[ComparedMethod], entries: list[ComparedMethod], evaluation: Evaluation
) -> Any:
    """Return the gain of the best multi-task method over the best of some others, all chosen by inner scores."""
    splits = range(evaluation.n_folds)
    joint, best = (
        Strategy.of(e, splits)
        for e in ([e for e in entries if e.family == MULTITASK], others)
    )
    return (
        None
        if joint is None or best is None
        else evaluation.gain(joint.losses, best.losses, 1)
    )


def _method_rows(
    entries: list[ComparedMethod],
    evaluation: Evaluation,
    strategies: dict[str, Strategy | None],
) -> list[list[Any]]:
    """Return the table of methods: each against the best without sharing, and against the best independent one."""
    folds = evaluation.n_folds
    without = strategies[BASELINE]
    alone = strategies[INDEPENDENT]
    assert without is not None  # there is a gain
    found = []
    for entry in entries:
        mine = (
            evaluation.gain(entry.losses, without.losses, 1)
            if len(entry.losses) == folds
            else None
        )
        if mine is None:
            continue
        other = (
            None if alone is None else evaluation.gain(entry.losses, alone.losses, 1)
        )
        scale = _scale(mine.second, evaluation)
        error = 1 - mine.first if evaluation.measure == AUC else mine.first
        numbers = [
            error,
            scale * mine.value,
            scale * mine.low,
            scale * mine.high,
            _reduction(other, evaluation),
        ]
        family = MULTITASK if entry.family == MULTITASK else BASELINE
        strategy = strategies[family]
        chosen = 0
        if strategy is not None:
            chosen = list(strategy.selected.values()).count(entry.label)
        rounded = [None if math.isnan(v) else round(v, 6) for v in numbers]
        found.append(
            [entry.label, entry.family, *rounded, chosen, round(sum(entry.seconds), 3)]
        )
    return found


def properties(data: Dataset) -> dict[str, float]:
    """Measure a table before any method is tuned on it.

    Parameters
    ----------
    data : Dataset
        The training rows; labels are taken as numbers.

    Returns
    -------
    dict of str to float
        ``rows_per_task``, ``tasks``, ``features``; ``tasks_share``, ``mean_share`` and ``noise``, the shares of the
        variance of a hierarchical model with a variance per column; ``rank``, the effective rank of the coefficients
        of a ridge regression per task (exponential of the entropy of the squared singular values), over the smaller of
        the numbers of tasks and of columns.
    """
    X = learned_features(make_step(Features(TABLE), data), data.X)
    X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
    width = X.shape[1]
    if width > MOST_COLUMNS:
        left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        X = left[:, :MOST_COLUMNS] * values[:MOST_COLUMNS]
    y = np.asarray(data.y, dtype=float)
    if data.task_id is None:  # targets on the same rows have units of their own
        y = scaled_targets(y)[0]
    entries = float((y == y).sum())
    found = {
        "rows_per_task": entries / data.n_tasks,
        "tasks": float(data.n_tasks),
        "features": float(width),
    }
    shares = (
        HierarchicalMTL("diagonal").fit(X, y, task_id=data.task_id).variance_shares_
    )
    found |= {
        "tasks_share": shares["tasks"],
        "mean_share": shares["mean"],
        "noise": shares["noise"],
    }
    return {**found, "rank": _effective_rank(_coefficients(X, y, data.task_id))}


def _coefficients(
    X: np.ndarray, y: np.ndarray, task_id: np.ndarray | None
) -> np.ndarray:
    """Return the coefficients of a ridge regression per task of more than one row, as strong as there are columns."""
    tasks = range(y.shape[1]) if task_id is None else np.unique(task_id)
    found = []
    for t in tasks:
        mine, target = (
            (X, y[:, t]) if task_id is None else (X[task_id == t], y[task_id == t])
        )
        mine, target = mine[~np.isnan(target)], target[~np.isnan(target)]
        if len(target) > 1:
            centred = mine - mine.mean(axis=0)
            gram = centred.T @ centred + X.shape[1] * np.eye(X.shape[1])
            found.append(np.linalg.solve(gram, centred.T @ (target - target.mean())))
    return np.array(found)


def _effective_rank(W: np.ndarray) -> float:
    values = np.linalg.svd(W, compute_uv=False) ** 2
    part = values[values > 0] / values.sum() if values.sum() > 0 else np.ones(1)
    return float(np.exp(-np.sum(part * np.log(part))) / min(W.shape))
