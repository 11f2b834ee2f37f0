"""Compute a job. A fit: split, features, choice of parameters, fit, score, time.

`fit_job` computes a fit, `score_candidates` one fold of the search before it, `run_analysis` calls a measure, and
checks and records what it returns; none knows experiment files.
"""

from __future__ import annotations

import gc
import inspect
import math
import statistics
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT, fold_rows, split_rows
from mtlrun.engine.analysis import AnalysisResult, Declaration, analysis_path
from mtlrun.engine.evaluation import Scores, TrainTestData
from mtlrun.engine.job import (
    HALVING,
    Features,
    Job,
    Timing,
    mean_score,
    strong_to_weak,
    with_params,
)
from mtlrun.engine.record import NOT_CONVERGED, OK, Record, candidates, host_facts
from mtlrun.errors import one_line
from mtlrun.estimators.registry import build, load_class
from mtlrun.metrics import get_metric
from mtlrun.utils.io import sha256_json
from mtlrun.utils.plugins import import_named
from mtlrun.utils.processes import limited_threads

UNTIMED = Timing(warmup=False)
_SCALERS = {"max-abs": MaxAbsScaler, "min-max": MinMaxScaler, "unit-rows": Normalizer}
#: What was fitted in this process before: compiled code, thread pools and caches of the libraries are then warm.
_warm: set[str] = set()


@dataclass(frozen=True)
class Fitted:
    """A fitted model with the feature step before it, the rows it was fitted on, its test scores and its record."""

    model: Any
    step: Any
    part: TrainTestData
    scores: np.ndarray
    record: Record


def fit_job(job: Job, data: Dataset, chosen: Mapping[str, Any] | None = None) -> Fitted:
    """Compute a fit.

    Parameters
    ----------
    job : Job
        Of the family ``fit``.
    data : Dataset
        The data set of the job.
    chosen : mapping, optional
        Parameters that the search chose.

    Raises
    ------
    Diverged
        If predictions are not finite.
    Exception
        Whatever splitting, fitting or predicting raises.
    """
    started = time.perf_counter()
    part, step = _shared_part(job, data)
    params = with_params(job.method.params, chosen or {})
    timing = job.scoring.timing or UNTIMED
    with limited_threads(timing.threads):
        fitted = _timed_fit(
            lambda: build({"estimator": job.method.estimator, "params": params}),
            job,
            part,
            timing,
        )
        begun = time.perf_counter()
        predicted = part.predict(fitted.model, many=not job.timed)
        seconds = {
            "fit": fitted.seconds,
            "fit_all": fitted.all_seconds,
            "predict": time.perf_counter() - begun,
        }
        scores = part.score(
            fitted.model, predicted, list(job.scoring.metrics), job.scoring.average
        )
    converged, solver = _solver_facts(fitted)
    record = job.record(
        status=OK if converged else NOT_CONVERGED,
        log="\n".join(dict.fromkeys(fitted.warnings)) or None,
        params=params,
        metrics={name: score.mean for name, score in scores.items()},
        per_task={name: score.per_task.tolist() for name, score in scores.items()},
        counts=_counts(part, scores),
        seconds={
            **seconds,
            **_blocks(fitted.model),
            "total": time.perf_counter() - started,
        },
        solver={
            **solver,
            **_truth_error(fitted.model, part),
            **_robust_parts(fitted.model, part),
        },
        environment={**timing.to_dict(), **host_facts()},
        result={"tasks": list(data.tasks)},
    )
    return Fitted(fitted.model, step, part, predicted, record)


def score_candidates(job: Job, data: Dataset) -> Record:
    """Compute a fold of a search, or all folds of one that halves: fit every candidate and score it.

    Candidates are visited from the most to the least regularised one, each starting from the one before, where the
    estimator has `warm_start`; else in the order of the file. A candidate that fails is an entry of `errors`.

    Returns
    -------
    Record
        `selection` has lists with one entry per candidate: `scores` (None where undefined or failed), `undefined`
        (tasks left out), `errors` (text or None), `not_converged`; and `warm_started`.

    Raises
    ------
    DataError, ValueError
        If the data cannot be split.
    """
    assert job.search is not None
    started = time.perf_counter()
    found = candidates(job.search.grid)
    warm = len(found) > 1 and _starts_warm(job)
    with limited_threads(1):
        results = (_halving if job.search.on == HALVING else _visit_all)(
            job, data, found, warm
        )
    selection: dict[str, Any] = {
        "scores": [result["score"] for result in results],
        "undefined": [result["undefined"] for result in results],
        "errors": [result["error"] for result in results],
        "not_converged": [result["not_converged"] for result in results],
        "warm_started": warm,
    }
    seconds = {"total": time.perf_counter() - started}
    return job.record(
        selection=selection, seconds=seconds, environment={"threads": 1, **host_facts()}
    )


def part_of(job: Job, data: Dataset) -> tuple[TrainTestData, Any]:
    """Return the rows that a fit or a fold trains on and is scored on, and its feature step fitted on the former."""
    split = job.split.to_dict()
    train, validation, test = split_rows(data, **split)
    if job.fold is not None and job.search is not None:
        if job.search.on == "validation":
            test = validation
        else:
            data = data.subset(train)
            folds = list(fold_rows(data, job.search.folds, job.search.seed))
            train, test = folds[
                job.fold % len(folds)
            ]  # few times or groups make fewer folds: some count twice
    return with_features(TrainTestData.of(data, train, test), job.features)


#: Parts that this process has prepared with their feature steps, their bytes, and the most that these may add up to.
_parts: OrderedDict[Any, tuple[Dataset, TrainTestData, Any, int]] = OrderedDict()
_PART_BYTES = 256 << 20


def _shared_part(job: Job, data: Dataset) -> tuple[TrainTestData, Any]:
    """Return what `part_of` does; the methods of a table share it, and what their fits keep of the rows."""
    search = job.search if job.fold is not None else None
    fold = None if search is None else (search.on, search.folds, search.seed, job.fold)
    key = (id(data), job.split, fold, job.features)
    if key not in _parts:
        part, step = part_of(job, data)
        _parts[key] = data, part, step, _bytes(part)
        while (
            len(_parts) > 1 and sum(size for *_, size in _parts.values()) > _PART_BYTES
        ):
            _parts.popitem(last=False)
    _parts.move_to_end(key)
    return _parts[key][1:3]


def _bytes(part: TrainTestData) -> int:
    """Return the bytes of a prepared part: its rows, and what solvers keep of them, about as much again."""
    arrays = [part.train.X, part.test.X]
    size = sum(
        X.data.nbytes + X.indices.nbytes if issparse(X) else X.nbytes for X in arrays
    )
    return int(4 * (size + part.train.y.nbytes + part.test.y.nbytes))


def with_features(
    part: TrainTestData, features: Features | None
) -> tuple[TrainTestData, Any]:
    """Return a part with a feature step applied, which is learned on its training rows, and the step."""
    if features is None:
        return part, None
    part = replace(
        part,
        train=with_last_columns(part.train, features),
        test=with_last_columns(part.test, features),
    )
    step = make_step(features, part.train)
    train_X = learned_features(step, part.train.X, part.train.source.get(WEIGHT))
    with config_context(transform_output="default"):
        test_X = step.transform(part.test.X)
    train = replace(part.train, X=train_X, features=[])
    test = replace(part.test, X=test_X, features=[])
    return replace(part, train=train, test=test), step


def with_last_columns(data: Dataset, features: Features | None) -> Dataset:
    """Return a data set with the last columns that a feature step needs."""
    if features is None:
        return data
    if features.has_levels:
        return data.with_levels()
    if features.has_elapsed:
        return data.with_elapsed()
    return data


def learned_features(step: Any, X: Any, weights: np.ndarray | None = None) -> Any:
    """Fit a feature step to rows, weighted if it takes weights; return the features.

    They are an array or sparse matrix, whatever scikit-learn's global settings are.
    """
    with config_context(transform_output="default"):
        if weights is None or not has_fit_parameter(step, "sample_weight"):
            return step.fit_transform(X)
        return step.fit(X, sample_weight=weights).transform(X)


def make_step(features: Features, data: Dataset) -> Any:
    """Return the transformer of a feature step for a data set, not fitted."""
    from mtlrun.features import WeightedDegree
    from mtlrun.features.table import table_step

    if features.is_table:
        return table_step(data)
    # Arrays, whatever sklearn.set_config(transform_output=...) says.
    if features.kind == "standardize":
        scaler = StandardScaler(with_mean=isinstance(data.X, np.ndarray))
        return scaler.set_output(transform="default")
    if features.kind in _SCALERS:
        return _SCALERS[features.kind]().set_output(transform="default")
    if features.kind == "one-hot":
        return WeightedDegree(degree=1).set_output(transform="default")
    options = features.to_dict()
    del options["kind"]
    return WeightedDegree(**options).set_output(transform="default")


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Collect the texts of all warnings; those about convergence start with `NOT_CONVERGED_MARK`."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield texts
        finally:
            for warning in caught:
                mark = (
                    NOT_CONVERGED_MARK
                    if issubclass(warning.category, ConvergenceWarning)
                    else ""
                )
                texts.append(f"{mark}{warning.message}")


NOT_CONVERGED_MARK = "not converged: "


@dataclass(frozen=True)
class _TimedFit:
    """A fitted model, its seconds, and the warnings of the repeat nearest to the median."""

    model: Any
    all_seconds: list[float]
    warnings: list[str]

    @property
    def seconds(self) -> float:
        return statistics.median(self.all_seconds)


def _timed_fit(
    make: Callable[[], Any], job: Job, part: TrainTestData, timing: Timing
) -> _TimedFit:
    """Fit `repeats` times after an untimed first fit, unless this process has fitted the method on such data before."""
    what = sha256_json(
        [
            job.method.estimator,
            _without_seeds(job.method.params),
            part.train.id,
            type(part.train.X).__name__,
        ]
    )
    if timing.warmup and what not in _warm:
        with noted_warnings():
            part.fit(make())
    fit = part.fit if job.timed else part.rows.fit
    _warm.add(what)
    runs = []
    for _ in range(timing.repeats):
        model = make()
        with noted_warnings() as texts, _no_collection():
            started = time.perf_counter()
            model = fit(model)
            seconds = time.perf_counter() - started
        runs.append((seconds, model, texts))
    middle = sorted(range(len(runs)), key=lambda i: runs[i][0])[(len(runs) - 1) // 2]
    return _TimedFit(
        runs[middle][1], [seconds for seconds, _, _ in runs], runs[middle][2]
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from running in between, as `timeit` does."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _without_seeds(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without random states: another seed runs the same code."""
    kept = {name: value for name, value in params.items() if name != "random_state"}
    return {
        name: _without_seeds(value) if isinstance(value, Mapping) else value
        for name, value in kept.items()
    }


def _starts_warm(job: Job) -> bool:
    """Whether `fit` can start from the solution for other parameters.

    Ensembles and networks cannot: with `warm_start` they add to the model that they have, whatever the parameters are.
    """
    path = job.method.estimator
    names = inspect.signature(load_class(path)).parameters
    grows = "n_estimators" in names or path.startswith(
        ("sklearn.ensemble", "sklearn.neural_network")
    )
    return "warm_start" in names and not grows


def _halving(
    job: Job, data: Dataset, found: list[dict[str, Any]], warm: bool
) -> list[dict[str, Any]]:
    """Score candidates on one fold after the other, after each of them only the better half.

    A candidate that is dropped has no score; that of the others is their mean over all folds.
    """
    assert job.search is not None
    sign = -1.0 if get_metric(job.search.metric).greater_is_better else 1.0
    folds: list[list[dict[str, Any]]] = [[] for _ in found]
    left = list(range(len(found)))
    for k in range(job.search.n_visited):
        fold = replace(
            job, fold=k, search=replace(job.search, on="folds", visited=None)
        )
        for i, result in zip(
            left, _visit_all(fold, data, [found[i] for i in left], warm), strict=True
        ):
            folds[i].append(result)
        means = {
            i: mean_score([result["score"] for result in folds[i]])
            for i in left
            if not folds[i][-1]["error"]
        }
        ranked = sorted(
            means, key=lambda i: math.inf if (mean := means[i]) is None else sign * mean
        )
        left = sorted(ranked[: math.ceil(len(left) / 2)])
    return [
        _of_folds(results, means.get(i) if i in left else None)
        for i, results in enumerate(folds)
    ]


def _of_folds(results: list[dict[str, Any]], score: float | None) -> dict[str, Any]:
    """Return the result of a candidate on several folds with its mean score."""
    errors = [result["error"] for result in results if result["error"]]
    not_converged = any(result["not_converged"] for result in results)
    undefined = max(
        (result["undefined"] for result in results if result["undefined"] is not None),
        default=None,
    )
    return {
        "score": score,
        "undefined": undefined,
        "error": (errors or [None])[0],
        "not_converged": not_converged,
    }


def _visit_all(
    job: Job, data: Dataset, found: list[dict[str, Any]], warm: bool
) -> list[dict[str, Any]]:
    """Fit and score every candidate on one fold."""
    assert job.search is not None
    part, _ = _shared_part(job, data)
    results = [_unscored() for _ in found]
    model: Any = None
    survivors = job.search.survivors
    for i in strong_to_weak(found) if warm else range(len(found)):
        if survivors is not None and i not in survivors:
            continue
        model, results[i] = _visit(job, part, found[i], model, warm)
    return results


def _visit(
    job: Job,
    part: TrainTestData,
    values: Mapping[str, Any],
    model: BaseEstimator,
    warm: bool,
) -> tuple[Any, dict[str, Any]]:
    """Fit and score one candidate; what goes wrong is its result. Return the model to start the next one from."""
    assert job.search is not None
    metric = job.search.metric
    result = _unscored()
    made = None
    with noted_warnings() as texts:
        try:
            made = _next_model(job, values, model, warm)
            model = part.rows.fit(made)
            scores = part.score(
                model, part.predict(model, many=True), [metric], job.scoring.average
            )[metric]
            result["score"] = None if math.isnan(scores.mean) else scores.mean
            result["undefined"] = scores.undefined
        except Exception as error:  # a candidate may be impossible; the record says so and the search goes on
            result["error"] = one_line(error)
            model = None
    result["not_converged"] = any(text.startswith(NOT_CONVERGED_MARK) for text in texts)
    # Fitted per task, every clone starts from nothing.
    return model if warm and model is made else None, result


def _unscored() -> dict[str, Any]:
    """Return the result of a candidate that was not scored on a fold."""
    return {
        "score": None,
        "undefined": None,
        "error": None,
        "not_converged": False,
    }


def _next_model(
    job: Job, values: Mapping[str, Any], model: BaseEstimator, warm: bool
) -> Any:
    if model is not None:
        return model.set_params(**values)
    params = with_params(job.method.params, values)
    return build(
        {
            "estimator": job.method.estimator,
            "params": {**params, **({"warm_start": True} if warm else {})},
        }
    )


def _counts(part: TrainTestData, scores: Mapping[str, Scores]) -> dict[str, int]:
    return {
        "n_tasks": part.train.n_tasks,
        "n_train": part.train.n_samples,
        "n_test": part.test.n_samples,
        "one_class_train": int(part.one_class.sum()),
        **{f"undefined_{metric}": score.undefined for metric, score in scores.items()},
    }


def _blocks(model: BaseEstimator) -> dict[str, float]:
    """Return the seconds of a block method: one block after the other, and each on a worker of its own."""
    seconds = getattr(model, "block_seconds_", None)
    return (
        {}
        if seconds is None
        else {
            "blocks_sum": float(np.sum(seconds)),
            "blocks_max": float(np.max(seconds)),
        }
    )


def _truth_error(model: BaseEstimator, part: TrainTestData) -> dict[str, float]:
    """Return the relative error of the coefficients of a regression with known truth, else nothing."""
    truth, coef = part.train.truth.get("W"), getattr(model, "coef_", None)
    if (
        part.train.task_type != "regression"
        or truth is None
        or coef is None
        or np.shape(coef) != truth.T.shape
    ):
        return {}
    return {
        "truth_error": float(np.linalg.norm(coef - truth.T) / np.linalg.norm(truth))
    }


#: Singular values and columns of a robust model count from this share of the largest of
#: its coefficients on; what is smaller is left over by a solver that was stopped.
PART_TOLERANCE = 1e-6


def _robust_parts(model: BaseEstimator, part: TrainTestData) -> dict[str, float]:
    """Return the rank of L and the number of outlier tasks of a robust model L + E.

    With known truth also the relative error of L. A model of another kind has none.
    """
    low_rank = getattr(model, "low_rank_", None)
    outlier = getattr(model, "outlier_", None)
    if low_rank is None or outlier is None:
        return {}
    coef = low_rank + outlier
    values = np.linalg.svd(low_rank, compute_uv=False)
    norms = np.linalg.norm(outlier, axis=1)
    largest_value = np.linalg.norm(coef, ord=2)
    largest_norm = np.linalg.norm(coef, axis=1).max(initial=0.0)
    facts: dict[str, float] = {
        "rank": int(np.sum(values > PART_TOLERANCE * largest_value)),
        "n_outliers": int(np.sum(norms > PART_TOLERANCE * largest_norm)),
    }
    truth = part.train.truth.get("L")
    if truth is not None and np.shape(low_rank) == truth.T.shape:
        difference = np.linalg.norm(low_rank - truth.T)
        facts["low_rank_error"] = float(difference / np.linalg.norm(truth))
    return facts


def _solver_facts(fitted: _TimedFit) -> tuple[bool, dict[str, Any]]:
    """Return whether the solver converged, and what it says of itself."""
    model = fitted.model
    failed = [
        text.removeprefix(NOT_CONVERGED_MARK)
        for text in fitted.warnings
        if text.startswith(NOT_CONVERGED_MARK)
    ]
    converged = not failed and getattr(model, "converged_", True) is not False
    facts: dict[str, Any] = {"converged": converged}
    for name, attribute in (
        ("n_iter", "n_iter_"),
        ("gap", "gap_"),
        ("stop_crit", "stop_crit_"),
    ):
        value = getattr(model, attribute, None)
        if value is not None:
            facts[name] = np.max(value).item()
    history = getattr(model, "objective_", None)
    if history is not None and np.size(history):
        facts["objective"] = float(np.ravel(history)[-1])
    if failed:
        facts["message"] = failed[0]
    return converged, facts


# ---------------------------------------------------------------------- measures


def run_analysis(job: Job, data: Dataset | None) -> Record:
    """Compute a measurement.

    Parameters
    ----------
    job : Job
        Of the family ``measure``.
    data : Dataset or None
        None for measures of published numbers; a feature step is learned on all its rows.

    Raises
    ------
    TypeError, ValueError
        If the measure returns no `AnalysisResult`, or a quantity that is not its own.
    Exception
        Whatever the measure raises.
    """
    started = time.perf_counter()
    if data is not None and job.features is not None:
        step = make_step(job.features, data)
        X = learned_features(step, data.X, data.source.get(WEIGHT))
        data = replace(data, X=X, features=[])
    module, _, name = analysis_path(job.method.measure).partition(":")
    measure = getattr(import_named(module), name)
    threads = (job.scoring.timing or UNTIMED).threads
    with threadpool_limits(limits=threads), noted_warnings() as texts:
        found = measure(data, seed=job.split.seed, **job.method.params)
    _check(found, job.method.measure, getattr(measure, "declaration", None))
    converged = found.solver.get(
        "converged", not any(text.startswith(NOT_CONVERGED_MARK) for text in texts)
    )
    return job.record(
        status=OK if converged else NOT_CONVERGED,
        log="\n".join(
            dict.fromkeys(text.removeprefix(NOT_CONVERGED_MARK) for text in texts)
        )
        or None,
        params=dict(job.method.params),
        metrics={name: float(value) for name, value in found.values.items()},
        per_task=found.per_task,
        counts={}
        if data is None
        else {
            "n_tasks": data.n_tasks,
            "n_samples": data.n_samples,
            "n_features": data.n_features,
        },
        seconds={"total": time.perf_counter() - started},
        solver=found.solver,
        environment={"threads": threads, **host_facts()},
        result={
            **_result(found),
            **(
                {}
                if data is None or not found.per_task
                else {"tasks": list(data.tasks)}
            ),
        },
    )


def _check(found: object, path: str, declaration: Declaration | None) -> None:
    """Refuse what is no measurement, and quantities that the measure does not declare."""
    if not isinstance(found, AnalysisResult):
        raise TypeError(
            f"{path} returned a {type(found).__name__}, not a AnalysisResult"
        )
    unknown = [
        name
        for name in found.values
        if declaration and name not in declaration.quantities
    ]
    if unknown:
        raise ValueError(
            f"{path} returned quantities that it does not declare: {', '.join(unknown)}"
        )


def _result(found: AnalysisResult) -> dict[str, Any]:
    """Return curves, matrices, rankings, lines and tables as plain data, without those that are empty."""
    plain: dict[str, Any] = {
        "curves": {name: curve.to_dict() for name, curve in found.curves.items()},
        "matrices": {name: matrix.to_dict() for name, matrix in found.matrices.items()},
        "rankings": [scores.to_dict() for scores in found.rankings],
        "lines": list(found.lines),
        "tables": dict(found.tables),
    }
    return {name: part for name, part in plain.items() if part}
