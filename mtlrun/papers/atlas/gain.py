"""Gain of multi-task learning with few training rows, and properties of the table.

The analysis of ``atlas/gain``. Methods, search, strategies, gain and interval are those
that `compare` had when the atlas was computed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from mtlrun.catalog.analysis import AnalysisResult, analysis
from mtlrun.comparison.candidates import Candidate, default_candidates
from mtlrun.comparison.evaluation import ComparedMethod, Evaluation
from mtlrun.comparison.gain import Gain
from mtlrun.comparison.protocol import Protocol
from mtlrun.comparison.schedule import ComparisonJobs
from mtlrun.comparison.verdict import (
    INDEPENDENT,
    MIN_UNITS,
    MULTITASK,
    POOLED,
    Strategy,
)
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import fewer_rows, fold_rows
from mtlrun.engine.fit import (
    fit_job,
    learned_features,
    make_step,
    score_candidates,
)
from mtlrun.engine.job import TABLE, Features, Job, Split, choice_of
from mtlrun.engine.record import Record
from mtlrun.errors import DataError, one_line
from mtlrun.estimators.baselines import scaled_targets
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.metrics import get_metric
from mtlrun.show.quantities import AUC
from mtlrun.utils.io import derive_seed

#: Factor of the standard errors of gains when the atlas was computed.
FACTOR = 2.0
#: Name of the splits that a table gets.
SPLITS = "rows per task"
#: Number of columns on which the properties of a table are measured. A table with more
#: is reduced to this number of principal components.
MAX_COLUMNS = 40
#: Number of methods at the start of the list of `compare` that are part of each
#: comparison.
N_BASELINES = 4
#: Labels of linear methods that do not share start with one of these. All multi-task
#: methods of the default list are linear except SmoothMTL, which is not part of the
#: profile quick of atlas/gain.
LINEAR = (
    "IndependentRidge",
    "IndependentLogistic",
    "PooledRidge",
    "PooledLogistic",
    "IndependentLasso",
    "IndependentSVC",
)
#: The better of independent and pooled methods in each split. The gain over it is what
#: `compare` reported when the numbers of the atlas were computed.
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
#: Smallest error 1 - AUC by which a difference of the AUC is divided.
_MIN_AUC_ERROR = 1e-3


@analysis(
    {
        "gain": "relative reduction of the error (nMSE, or 1 - AUC) by the best multi-task method against the best "
        "method that does not share; each chosen by inner cross-validation",
        "low": "lower end of the 95% interval",
        "high": "upper end of the 95% interval",
        "over_independent": "the same gain against the best independent method",
        "over_pooled": "the same gain against the best pooled method",
        "over_linear": "the same gain against the best linear method that does not "
        "share",
        "error": "error of the best method that does not share",
        "helps": "1 where the verdict of compare is that multi-task learning helps, "
        "else 0",
        "worse": "1 where the verdict is that it is worse, else 0",
        "rows_per_task": "mean number of training rows of a task",
        "tasks": "number of tasks",
        "features": "number of columns after the feature step",
        "tasks_share": "share of the variance that differences between tasks explain "
        "(hierarchical model)",
        "mean_share": "share of the variance that a model common to all tasks explains "
        "(hierarchical model)",
        "noise": "share of the variance that neither explains (hierarchical model)",
        "rank": "effective rank of the single-task coefficients over the largest "
        "possible",
        "better_tasks": "share of the tasks that gain",
    },
    name="atlas-gain",
    labels={
        "over_independent": "gain over separate models",
        "over_pooled": "gain over pooling",
        "over_linear": "gain over linear models without sharing",
        "helps": "verdict 'helps' (1) or not (0)",
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
    changes=[
        "hierarchical models of few tasks have the variances of REML, and the noise of "
        "their tasks may differ",
        "on targets of the same rows, hierarchical models are searched without "
        "Student's prior, which was removed",
    ],
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
    """Compare multi-task learning with its alternatives on few training rows per task.

    The rows are cross-validated. Outside of a fold, `rows` random rows of each task are
    trained on, or all rows of a task with fewer. A larger `rows` contains the rows of a
    smaller one.

    Parameters
    ----------
    dataset : Dataset
        Regression or binary labels; tasks with rows of their own, or on the same rows.
    seed : int
        Seed of folds, rows and methods.
    rows : int, default 20
        Training rows of a task.
    methods : sequence of str, default all that `compare` tries
        Methods that are tried in addition to the four baselines of each comparison.
        Classifiers have the names of the models.
    folds, search : int, default 5 and 3
        Folds that are tested in turn, and folds of the search inside the training rows.

    Raises
    ------
    DataError
        If less than half of the tasks have enough training rows.
    """
    data, train = with_splits(dataset, rows, folds, seed)
    protocol = protocol_of(data, folds, search, seed)
    evaluation = replace(protocol.evaluation(data), has_test_file=False)
    candidates = _candidates(data, len(train) / data.n_samples, methods)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = _evaluate(candidates, protocol, data, evaluation)
        traits = properties(data.subset(train))
    # Strategies choose by inner scores among their methods.
    families = {
        MULTITASK: (MULTITASK,),
        INDEPENDENT: (INDEPENDENT,),
        POOLED: (POOLED,),
        BASELINE: (INDEPENDENT, POOLED),
    }
    strategies = {}
    for name, members in families.items():
        of_members = [method for method in compared if method.family in members]
        strategies[name] = Strategy.of(of_members, range(folds))
    total = _gain_over(strategies, BASELINE, evaluation)
    # There must be enough units, and a gain for at least half of the tasks.
    is_defined = (
        total is not None
        and len(total.tasks) - total.better.n_compared <= data.n_tasks / 2
        and total.units >= MIN_UNITS
    )
    if total is None or not is_defined:
        raise DataError(
            f"{dataset.id} with {rows} rows per task: too few rows, tasks or methods "
            "can be compared",
            "Leave it out.",
        )
    over_independent = _gain_over(strategies, INDEPENDENT, evaluation)
    over_pooled = _gain_over(strategies, POOLED, evaluation)
    linear = [method for method in compared if method.label.startswith(LINEAR)]
    best_linear = Strategy.of(linear, range(evaluation.n_folds))
    over_linear = _gain_between(strategies[MULTITASK], best_linear, evaluation)
    n_better, n_compared = total.better
    helps = total.high >= evaluation.smallest and total.low > 0
    for alternative in (over_independent, over_pooled):
        if alternative is not None:
            helps = helps and alternative.value > 0
    scale = _scale(total.second, evaluation)
    values = {
        "gain": scale * total.value,
        "low": scale * total.low,
        "high": scale * total.high,
        "over_independent": _reduction(over_independent, evaluation),
        "over_pooled": _reduction(over_pooled, evaluation),
        "over_linear": _reduction(over_linear, evaluation),
        "error": _error(total.second, evaluation),
        "helps": float(helps),
        "worse": float(total.high < 0),
        "better_tasks": n_better / n_compared if n_compared else math.nan,
        **traits,
    }
    lines = []
    for method in compared:
        if method.failures:
            n_failed = len(method.failures)
            lines.append(
                f"{method.label} failed in {n_failed} folds: {method.errors[0]}"
            )
    table = {
        "columns": COLUMNS,
        "rows": _method_rows(compared, evaluation, strategies),
    }
    return AnalysisResult(values, lines=lines, tables={"methods": table})


# ---------------------------------------------------------------- set-up


def with_splits(
    dataset: Dataset, rows: int, folds: int, seed: int
) -> tuple[Dataset, np.ndarray]:
    """Add splits with few training rows per task to a data set.

    Returns
    -------
    dataset : Dataset
    train : ndarray of int
        Training rows of the first split.

    Raises
    ------
    DataError
        If less than half of the tasks have enough training rows.
    """
    splits = []
    for train, test in fold_rows(dataset, folds, seed):
        kept = fewer_rows(dataset, train, rows, derive_seed(seed, SPLITS))
        splits.append((kept, test))
    first_train, _ = splits[0]
    task_id = dataset.task_id
    if task_id is None:
        sizes = np.array([len(first_train)])
    else:
        sizes = np.bincount(task_id[first_train], minlength=dataset.n_tasks)
    if (sizes >= rows).mean() < 0.5:
        raise DataError(
            f"{dataset.id}: {rows} training rows are more than most tasks have "
            f"({np.median(sizes):g})",
            "Use fewer rows per task.",
        )
    name = dataset.id or "table"
    return replace(dataset, id=name, splits={SPLITS: splits}), first_train


def protocol_of(data: Dataset, folds: int, search: int, seed: int) -> Protocol:
    """Return how a data set with splits of `with_splits` is compared."""
    if data.task_type == "binary":
        metric = "auc"
    elif data.task_id is None:
        metric = "nmse"
    else:
        metric = "rmse"
    split = Split("published", name=SPLITS)
    return Protocol(split, folds, search, metric, seed)


def _candidates(
    data: Dataset, train_share: float, methods: Sequence[str]
) -> list[Candidate]:
    """Return the baselines, and the methods of `compare` that are wanted.

    All methods are wanted if none is named.
    """
    candidates = []
    for index, candidate in enumerate(default_candidates(data, train_share)):
        name = candidate.label.removesuffix("Classifier")
        if index < N_BASELINES or not methods or name in methods:
            candidates.append(_as_in_atlas(candidate, data))
    return candidates


def _as_in_atlas(candidate: Candidate, data: Dataset) -> Candidate:
    """Return a default method of `compare` as it was when the atlas was computed.

    No search was halved, intercepts were free, and the prior of the hierarchical model
    was searched for targets on the same rows, too (Student's prior was removed since).
    """
    params = dict(candidate.params)
    nested = params.get("estimator")
    if nested and "intercepts" in (nested.get("params") or {}):
        nested_params = dict(nested["params"])
        del nested_params["intercepts"]
        params["estimator"] = {**nested, "params": nested_params}
    grid = candidate.grid
    if candidate.label == "HierarchicalMTL" and data.task_id is None:
        priors = HierarchicalMTL.metadata.default_grid["prior"]
        grid = {"estimator__prior": list(priors)}
    return replace(candidate, halving=False, params=params, grid=grid)


# ---------------------------------------------------------------- fits


def _evaluate(
    candidates: list[Candidate],
    protocol: Protocol,
    data: Dataset,
    evaluation: Evaluation,
) -> list[ComparedMethod]:
    """Fit and score the methods in each fold.

    A method that fails in a fold has no losses there and is not chosen.
    """
    jobs = ComparisonJobs(protocol, data)
    compared = [
        ComparedMethod(candidate.label, candidate.family) for candidate in candidates
    ]
    for split in range(protocol.n_splits):
        # Methods that search in the same way share the records of their folds.
        searched: dict[str, Record] = {}
        for method, candidate in zip(compared, candidates, strict=True):
            try:
                job = jobs.job(candidate, split)
                evaluate_split(method, split, job, data, evaluation, searched)
            except Exception as error:
                # As in `compare`, a failure is part of the result.
                method.failures[split] = one_line(error)
    return compared


def evaluate_split(
    entry: ComparedMethod,
    split: int,
    job: Job,
    data: Dataset,
    evaluation: Evaluation,
    searched: dict[str, Record],
) -> None:
    """Search, fit and score a method in one fold, and add the results to its entry.

    Parameters
    ----------
    entry : ComparedMethod
    split : int
    job : Job
        Job of the method in this fold.
    data : Dataset
    evaluation : Evaluation
    searched : dict
        Key -> record of the folds of searches that have been computed; new ones are
        added.
    """
    best_params: dict[str, Any] = {}
    for fold in job.folds:
        if fold.key not in searched:
            searched[fold.key] = score_candidates(fold, data)
    if job.search is not None:
        selection = choice_of(job, [searched[fold.key] for fold in job.folds])
        if selection.chosen is None:
            raise ValueError("no candidate of the search has a score")
        best_params = selection.chosen
        # Inner scores are losses: lower is better.
        sign = -1 if get_metric(selection.metric or "").greater_is_better else 1
        entry.inner[split] = sign * (selection.score or 0.0)
        entry.seconds.append(selection.seconds or 0.0)
    fitted = fit_job(job, data, best_params)
    entry.losses[split] = evaluation.losses(split, fitted.scores)
    entry.seconds.append(fitted.record.seconds.total or 0.0)


# ---------------------------------------------------------------- gains


def _gain_over(
    strategies: dict[str, Strategy | None], name: str, evaluation: Evaluation
) -> Gain | None:
    """Return the gain of multi-task learning over another strategy."""
    return _gain_between(strategies[MULTITASK], strategies[name], evaluation)


def _gain_between(
    multitask: Strategy | None, other: Strategy | None, evaluation: Evaluation
) -> Gain | None:
    """Return the gain of one strategy over another; None without one of them."""
    if multitask is None or other is None:
        return None
    return _gain(multitask.losses, other.losses, evaluation)


def _gain(
    first: Mapping[int, np.ndarray],
    second: Mapping[int, np.ndarray],
    evaluation: Evaluation,
) -> Gain | None:
    """Return a gain with the factor of standard errors of the first edition."""
    gain = evaluation.gain(first, second, 1)
    if gain is None:
        return None
    return replace(gain, error=gain.error * FACTOR / evaluation.correction(1))


def _scale(second: float, evaluation: Evaluation) -> float:
    """Return the factor that makes a gain a relative reduction of the error.

    A difference of the AUC is divided by 1 - AUC of the second side.
    """
    if evaluation.measure == AUC:
        return 1 / max(1 - second, _MIN_AUC_ERROR)
    return 1.0


def _reduction(gain: Gain | None, evaluation: Evaluation) -> float:
    """Return a gain as a relative reduction of the error; NaN without a gain."""
    if gain is None:
        return math.nan
    return _scale(gain.second, evaluation) * gain.value


def _error(score: float, evaluation: Evaluation) -> float:
    """Return the error of one side of a gain: lower is better."""
    return 1 - score if evaluation.measure == AUC else score


def _method_rows(
    compared: list[ComparedMethod],
    evaluation: Evaluation,
    strategies: dict[str, Strategy | None],
) -> list[list[Any]]:
    """Return the table of methods with their gains.

    The gains are over `BASELINE`, and over the best independent method.
    """
    baseline = strategies[BASELINE]
    independent = strategies[INDEPENDENT]
    # Otherwise there is no gain, and `gain` has raised an error.
    assert baseline is not None
    rows = []
    for method in compared:
        if len(method.losses) != evaluation.n_folds:
            continue
        gain = _gain(method.losses, baseline.losses, evaluation)
        if gain is None:
            continue
        over_alone = None
        if independent is not None:
            over_alone = _gain(method.losses, independent.losses, evaluation)
        scale = _scale(gain.second, evaluation)
        numbers = [
            _error(gain.first, evaluation),
            scale * gain.value,
            scale * gain.low,
            scale * gain.high,
            _reduction(over_alone, evaluation),
        ]
        family = MULTITASK if method.family == MULTITASK else BASELINE
        strategy = strategies[family]
        n_chosen = 0
        if strategy is not None:
            n_chosen = list(strategy.selected.values()).count(method.label)
        row: list[Any] = [method.label, method.family]
        for number in numbers:
            row.append(None if math.isnan(number) else round(number, 6))
        row += [n_chosen, round(sum(method.seconds), 3)]
        rows.append(row)
    return rows


# ---------------------------------------------------------------- properties of a table


def properties(data: Dataset) -> dict[str, float]:
    """Measure a table before any method is tuned on it.

    Parameters
    ----------
    data : Dataset
        The training rows; labels count as numbers.

    Returns
    -------
    dict of str to float
        ``rows_per_task``, ``tasks`` and ``features``. ``tasks_share``, ``mean_share``
        and ``noise``: the shares of the variance of a hierarchical model with a
        variance per column. ``rank``: the effective rank of the coefficients of a ridge
        regression per task (exponential of the entropy of the squared singular values),
        divided by the smaller of the numbers of tasks and of columns.
    """
    X = learned_features(make_step(Features(TABLE), data), data.X)
    if sparse.issparse(X):
        X = X.toarray()
    X = np.asarray(X, dtype=float)
    n_features = X.shape[1]
    if n_features > MAX_COLUMNS:
        left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        X = left[:, :MAX_COLUMNS] * values[:MAX_COLUMNS]
    y = np.asarray(data.y, dtype=float)
    if data.task_id is None:
        # Targets on the same rows have units of their own.
        y = scaled_targets(y)[0]
    n_known = float((~np.isnan(y)).sum())
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=data.task_id)
    shares = model.variance_shares_
    return {
        "rows_per_task": n_known / data.n_tasks,
        "tasks": float(data.n_tasks),
        "features": float(n_features),
        "tasks_share": shares["tasks"],
        "mean_share": shares["mean"],
        "noise": shares["noise"],
        "rank": _effective_rank(_coefficients(X, y, data.task_id)),
    }


def _coefficients(
    X: np.ndarray, y: np.ndarray, task_id: np.ndarray | None
) -> np.ndarray:
    """Return the coefficients of a ridge regression per task with more than one row.

    The penalty is the number of columns.
    """
    n_features = X.shape[1]
    if task_id is None:
        task_rows = [(X, y[:, task]) for task in range(y.shape[1])]
    else:
        rows = [task_id == task for task in np.unique(task_id)]
        task_rows = [(X[mask], y[mask]) for mask in rows]
    coefs = []
    for X_task, y_task in task_rows:
        is_known = ~np.isnan(y_task)
        X_task = X_task[is_known]
        y_task = y_task[is_known]
        if len(y_task) > 1:
            centered = X_task - X_task.mean(axis=0)
            gram = centered.T @ centered + n_features * np.eye(n_features)
            moment = centered.T @ (y_task - y_task.mean())
            coefs.append(np.linalg.solve(gram, moment))
    return np.array(coefs)


def _effective_rank(W: np.ndarray) -> float:
    """Return the effective rank over the largest possible one."""
    values = np.linalg.svd(W, compute_uv=False) ** 2
    shares = np.ones(1)
    if values.sum() > 0:
        shares = values[values > 0] / values.sum()
    entropy = -np.sum(shares * np.log(shares))
    return float(np.exp(entropy) / min(W.shape))
