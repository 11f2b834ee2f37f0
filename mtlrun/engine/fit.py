"""Compute jobs: fits, folds of searches, and analyses.

`fit_job` computes a fit: it splits the rows, learns the feature step, fits the method
with the parameters that its search selected, and scores the test rows.
`score_candidates` computes a fold of the search: it fits and scores all candidates.
`run_analysis` calls a function, and checks and records its result. None of them reads
experiment files.
"""

from __future__ import annotations

import gc
import inspect
import math
import statistics
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.validation import has_fit_parameter

from mtlrun.catalog.analysis import AnalysisResult, analysis_path
from mtlrun.catalog.methods import without_empty
from mtlrun.catalog.registry import build, load_class
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import WEIGHT, fold_rows, split_rows
from mtlrun.engine.environment import host_info
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.job import (
    HALVING,
    TABLE_KINDS,
    TABLE_WITH_ELAPSED,
    TABLE_WITH_LEVELS,
    Features,
    Job,
    Timing,
    mean_score,
    strong_to_weak,
    with_params,
)
from mtlrun.engine.record import (
    Record,
    SearchResult,
    Seconds,
    SolverOutcome,
    candidates,
)
from mtlrun.errors import DataError, listed, one_line
from mtlrun.metrics.registry import get_metric
from mtlrun.parallel.status import NOT_CONVERGED, OK
from mtlrun.utils.io import sha256_json, stored_fields
from mtlrun.utils.plugins import import_named
from mtlrun.utils.processes import limited_threads

UNTIMED = Timing(warmup=False)
_SCALERS = {"max-abs": MaxAbsScaler, "min-max": MinMaxScaler, "unit-rows": Normalizer}
#: Keys of the fits that this process has done before: their compiled code, thread pools
#: and caches are warm.
_warm_keys: set[str] = set()


@dataclass(frozen=True)
class Fitted:
    """Result of a fit.

    Attributes
    ----------
    model : estimator
    step : transformer or None
        Fitted feature step.
    part : TrainTestData
        Rows that the model was fitted to and scored on, after the feature step.
    scores : ndarray
        Scores of the test rows, see `TrainTestData.predict`.
    record : Record
    """

    model: Any
    step: Any
    part: TrainTestData
    scores: np.ndarray
    record: Record


def fit_job(
    job: Job, data: Dataset, best_params: Mapping[str, Any] | None = None
) -> Fitted:
    """Compute a fit.

    Parameters
    ----------
    job : Job
        Of the kind `JobKind.FIT`.
    data : Dataset
        The data set of the job.
    best_params : mapping, optional
        Parameters that the search of the job selected.

    Raises
    ------
    Diverged
        If predictions are not finite.
    Exception
        Whatever splitting, fitting or predicting raises.
    """
    start_time = time.perf_counter()
    part, step = prepare_rows(job, data)
    params = with_params(job.method.params, best_params or {})
    timing = job.scoring.timing or UNTIMED
    method = {"estimator": job.method.estimator, "params": params}

    with limited_threads(timing.threads):
        fit = _timed_fit(method, job, part, timing)
        predict_start = time.perf_counter()
        # Timed predictions include reading the rows, which other jobs share.
        test_scores = part.predict(fit.model, many=not job.timed)
        predict_seconds = time.perf_counter() - predict_start
        results = part.score(
            fit.model, test_scores, list(job.scoring.metrics), job.scoring.average
        )
    metrics = {}
    per_task = {}
    counts = {
        "n_tasks": part.train.n_tasks,
        "n_train": part.train.n_samples,
        "n_test": part.test.n_samples,
        "one_class_train": int(part.one_class.sum()),
    }
    for name, result in results.items():
        metrics[name] = result.mean
        per_task[name] = result.per_task.tolist()
        counts[f"undefined_{name}"] = result.undefined
    solver = _solver_outcome(fit)
    seconds = Seconds(
        fit=fit.seconds,
        fit_all=fit.all_seconds,
        predict=predict_seconds,
        total=time.perf_counter() - start_time,
    )
    block_seconds = getattr(fit.model, "block_seconds_", None)
    if block_seconds is not None and len(block_seconds):
        seconds.blocks_sum = float(np.sum(block_seconds))
        seconds.blocks_max = float(np.max(block_seconds))
    record = job.record(
        status=OK if solver.converged else NOT_CONVERGED,
        log=_log(fit.warnings),
        params=params,
        metrics=metrics,
        per_task=per_task,
        counts=counts,
        seconds=seconds,
        solver={**stored_fields(solver), **_structure(fit.model, part)},
        environment={**stored_fields(timing), **asdict(host_info())},
        result={"tasks": list(data.tasks)},
    )
    return Fitted(fit.model, step, part, test_scores, record)


def score_candidates(job: Job, data: Dataset) -> Record:
    """Compute a fold of a search, or all folds of a search with halving.

    All candidates are fitted and scored. If the estimator has `warm_start`, they are
    visited from the most to the least regularized one, and each fit starts from the
    previous solution. Otherwise they are visited in the order of the file. An error of
    a candidate is recorded and does not stop the search.

    Returns
    -------
    Record
        `selection` has lists with one entry per candidate: `scores` (None if undefined
        or failed), `undefined` (number of tasks left out), `errors` (message or None)
        and `not_converged` (bool). `warm_started` is a bool.

    Raises
    ------
    DataError, ValueError
        If the data cannot be split.
    """
    assert job.search is not None
    start_time = time.perf_counter()
    all_params = candidates(job.search.grid)
    # Ensembles and networks cannot start from the solution for other parameters: with
    # `warm_start` they extend the model that they have.
    path = job.method.estimator
    is_extended = path.startswith(("sklearn.ensemble", "sklearn.neural_network"))
    names = inspect.signature(load_class(path)).parameters
    warm_start = len(all_params) > 1 and "warm_start" in names
    warm_start &= not is_extended and "n_estimators" not in names
    score = _score_by_halving if job.search.on == HALVING else _score_on_fold
    with limited_threads(1):
        results = score(job, data, all_params, warm_start)
    selection = SearchResult(warm_started=warm_start)
    selection.scores = [result.score for result in results]
    selection.undefined = [result.undefined for result in results]
    selection.errors = [result.error for result in results]
    selection.not_converged = [result.not_converged for result in results]
    seconds = Seconds(total=time.perf_counter() - start_time)
    environment = {"threads": 1, **asdict(host_info())}
    return job.record(selection=selection, seconds=seconds, environment=environment)


# ---------------------------------------------------------------- rows and features


def train_test_data(job: Job, data: Dataset) -> tuple[TrainTestData, Any]:
    """Return the rows that a fit or a fold trains on and is scored on.

    Returns
    -------
    part : TrainTestData
        After the feature step.
    step : transformer or None
        Feature step, fitted to the training rows.
    """
    train, validation, test = split_rows(data, **stored_fields(job.split))
    if job.fold is not None and job.search is not None:
        if job.search.on == "validation":
            test = validation
        else:
            data = data.subset(train)
            folds = list(fold_rows(data, job.search.folds, job.search.seed))
            # Few time points or groups make fewer folds; some then count twice.
            train, test = folds[job.fold % len(folds)]
    return with_features(TrainTestData.of(data, train, test), job.features)


@dataclass(frozen=True)
class _PreparedRows:
    """Rows after the feature step, kept for the next job that needs them.

    Attributes
    ----------
    data : Dataset
        The data set must stay in memory, because its id is a part of the key.
    part : TrainTestData
    step : transformer or None
    n_bytes : int
    """

    data: Dataset
    part: TrainTestData
    step: Any
    n_bytes: int


#: The rows that this process has prepared, the most recently used ones last.
_prepared: OrderedDict[Any, _PreparedRows] = OrderedDict()
#: Largest sum of the bytes of prepared rows.
MAX_PREPARED_BYTES = 256 << 20


def prepare_rows(job: Job, data: Dataset) -> tuple[TrainTestData, Any]:
    """Return the result of `train_test_data`, which jobs on the same rows share.

    They also share what their fits keep of the rows, such as decompositions.

    Where not all rows can be kept, those of other data sets are dropped first, then
    those used last: one method after the other visits all splits and folds in the same
    order, so the rows used last are needed last.
    """
    fold = None
    if job.fold is not None and job.search is not None:
        fold = (job.search.on, job.search.folds, job.search.seed, job.fold)
    key = (id(data), job.split, fold, job.features)
    if key not in _prepared:
        part, step = train_test_data(job, data)
        n_bytes = part.train.y.nbytes + part.test.y.nbytes
        for X in (part.train.X, part.test.X):
            n_bytes += X.data.nbytes + X.indices.nbytes if issparse(X) else X.nbytes
        # Solvers keep copies and decompositions of the rows: the factor is a rough
        # allowance.
        new_rows = _PreparedRows(data, part, step, 4 * n_bytes)
        total_bytes = new_rows.n_bytes
        total_bytes += sum(rows.n_bytes for rows in _prepared.values())
        while _prepared and total_bytes > MAX_PREPARED_BYTES:
            oldest = next(iter(_prepared.values()))
            _, dropped = _prepared.popitem(last=oldest.data is data)
            total_bytes -= dropped.n_bytes
        _prepared[key] = new_rows
    _prepared.move_to_end(key)
    return _prepared[key].part, _prepared[key].step


def with_features(
    part: TrainTestData, features: Features | None
) -> tuple[TrainTestData, Any]:
    """Learn a feature step on the training rows and apply it.

    Returns
    -------
    part : TrainTestData
        With the transformed training and test rows.
    step : transformer or None
        The fitted step; None without features.

    Raises
    ------
    DataError
        If columns hold text, which only steps of tables can use.
    """
    if features is None:
        refuse_text(part.train, "none")
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
    """Return a data set with the columns that a feature step adds at the end."""
    if features is None:
        return data
    if features.kind == TABLE_WITH_LEVELS:
        return data.with_levels()
    if features.kind == TABLE_WITH_ELAPSED:
        return data.with_elapsed()
    return data


def learned_features(step: Any, X: Any, weights: np.ndarray | None = None) -> Any:
    """Fit a feature step and return the transformed rows.

    The result is an array or a sparse matrix, whatever the global settings of
    scikit-learn are.

    Parameters
    ----------
    step : transformer
    X : array or sparse matrix
    weights : ndarray, optional
        Used if the step takes sample weights.
    """
    with config_context(transform_output="default"):
        if weights is None or not has_fit_parameter(step, "sample_weight"):
            return step.fit_transform(X)
        return step.fit(X, sample_weight=weights).transform(X)


def refuse_text(data: Dataset, kind: str) -> None:
    """Refuse columns of text, whose numbers in X are no quantities.

    Raises
    ------
    DataError
        With the columns and the feature step that they need.
    """
    if data.categories:
        columns = listed([repr(name) for name in data.categories])
        raise DataError(
            f"{data.id}: features: {kind} cannot be used with columns of text: "
            f"{columns}",
            "Say features: table, which makes an indicator of each word, or leave "
            "these columns out.",
        )


def make_step(features: Features, data: Dataset) -> Any:
    """Return the unfitted transformer of a feature step for a data set.

    Raises
    ------
    DataError
        If columns hold text, which only steps of tables can use.
    """
    if features.kind in TABLE_KINDS:
        from mtlrun.features.table import table_step

        return table_step(data)
    refuse_text(data, features.kind)
    # The output is an array, whatever sklearn.set_config(transform_output=...) says.
    if features.kind == "standardize":
        scaler = StandardScaler(with_mean=isinstance(data.X, np.ndarray))
        return scaler.set_output(transform="default")
    if features.kind in _SCALERS:
        return _SCALERS[features.kind]().set_output(transform="default")
    # Imported here because tables, which most comparisons are about, need no strings.
    from mtlrun.features import WeightedDegree

    if features.kind == "one-hot":
        return WeightedDegree(degree=1).set_output(transform="default")
    options = stored_fields(features)
    del options["kind"]
    return WeightedDegree(**options).set_output(transform="default")


# ---------------------------------------------------------------- fits

#: Start of the texts of warnings about convergence.
NOT_CONVERGED_MARK = "not converged: "


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the texts of all warnings, complete after the block.

    The texts of warnings about convergence start with `NOT_CONVERGED_MARK`.
    """
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield texts
        finally:
            for warning in caught:
                text = str(warning.message)
                if issubclass(warning.category, ConvergenceWarning):
                    text = NOT_CONVERGED_MARK + text
                texts.append(text)


def _is_about_convergence(texts: Iterable[str]) -> bool:
    """Whether one of the texts of `collect_warnings` is about convergence."""
    return any(text.startswith(NOT_CONVERGED_MARK) for text in texts)


def _log(texts: Iterable[str]) -> str | None:
    """Return the texts of warnings, each once; None if there are none."""
    return "\n".join(dict.fromkeys(texts)) or None


@dataclass(frozen=True)
class _TimedFit:
    """Fit whose seconds are the median of all repeats.

    Attributes
    ----------
    model : estimator
    seconds : float
        Median of `all_seconds`.
    all_seconds : list of float
    warnings : list of str
        Warnings of the repeat nearest to the median, which has also made the model.
    """

    model: Any
    seconds: float
    all_seconds: list[float]
    warnings: list[str]


def _timed_fit(
    method: Mapping[str, Any], job: Job, part: TrainTestData, timing: Timing
) -> _TimedFit:
    """Fit `timing.repeats` times, and measure the seconds of each fit.

    An untimed fit comes first, unless this process has fitted the method to such data
    before.
    """
    warm_key = sha256_json(
        [
            job.method.estimator,
            _without_seeds(job.method.params),
            part.train.id,
            type(part.train.X).__name__,
        ]
    )
    if timing.warmup and warm_key not in _warm_keys:
        with collect_warnings():
            part.fit(build(method))
    _warm_keys.add(warm_key)
    # A timed fit includes reading the rows. Other fits share the rows that are read.
    fit = part.fit if job.timed else part.rows.fit
    models = []
    all_seconds = []
    all_warnings = []
    for _ in range(timing.repeats):
        model = build(method)
        with collect_warnings() as texts:
            # As `timeit`, measure without garbage collection.
            was_enabled = gc.isenabled()
            gc.disable()
            try:
                start_time = time.perf_counter()
                model = fit(model)
                all_seconds.append(time.perf_counter() - start_time)
            finally:
                if was_enabled:
                    gc.enable()
        models.append(model)
        all_warnings.append(texts)
    by_seconds = sorted(range(timing.repeats), key=all_seconds.__getitem__)
    middle = by_seconds[(timing.repeats - 1) // 2]
    return _TimedFit(
        models[middle],
        statistics.median(all_seconds),
        all_seconds,
        all_warnings[middle],
    )


def _without_seeds(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without random states: another seed runs the same code."""
    kept: dict[str, Any] = {}
    for name, value in params.items():
        if name == "random_state":
            continue
        kept[name] = _without_seeds(value) if isinstance(value, Mapping) else value
    return kept


# ---------------------------------------------------------------- searches


@dataclass
class _CandidateResult:
    """Result of a candidate on a fold.

    Attributes
    ----------
    score : float or None
        None if it is undefined, or the candidate failed or was not scored.
    undefined : int or None
        Number of tasks left out.
    error : str or None
    not_converged : bool
    """

    score: float | None = None
    undefined: int | None = None
    error: str | None = None
    not_converged: bool = False


def _score_by_halving(
    job: Job, data: Dataset, all_params: list[dict[str, Any]], warm_start: bool
) -> list[_CandidateResult]:
    """Score candidates fold by fold; after each fold only the better half goes on.

    The score of a candidate is its mean over all folds; None if it was dropped.
    """
    assert job.search is not None
    greater_is_better = get_metric(job.search.metric).greater_is_better

    results: list[list[_CandidateResult]] = [[] for _ in all_params]
    # Means over the folds so far, of the candidates that the last fold has scored.
    means: dict[int, float | None] = {}

    def loss(position: int) -> float:
        mean = means[position]
        if mean is None:
            return math.inf
        return -mean if greater_is_better else mean

    remaining = list(range(len(all_params)))
    for number in range(job.search.n_visited):
        search = replace(job.search, on="folds", visited=None)
        fold = replace(job, fold=number, search=search)
        params = [all_params[position] for position in remaining]
        fold_results = _score_on_fold(fold, data, params, warm_start)
        means = {}
        for position, result in zip(remaining, fold_results, strict=True):
            results[position].append(result)
            # A candidate that failed has no mean, and so it does not go on.
            if not result.error:
                scores = [earlier.score for earlier in results[position]]
                means[position] = mean_score(scores)
        n_kept = math.ceil(len(remaining) / 2)
        remaining = sorted(sorted(means, key=loss)[:n_kept])

    summaries = []
    for position, fold_results in enumerate(results):
        summary = _CandidateResult()
        if position in remaining:
            summary.score = means.get(position)
        for result in fold_results:
            if result.undefined is not None:
                summary.undefined = max(summary.undefined or 0, result.undefined)
            summary.error = summary.error or result.error
            summary.not_converged |= result.not_converged
        summaries.append(summary)
    return summaries


def _score_on_fold(
    job: Job, data: Dataset, all_params: list[dict[str, Any]], warm_start: bool
) -> list[_CandidateResult]:
    """Fit and score the candidates on one fold."""
    assert job.search is not None
    part, _ = prepare_rows(job, data)
    order: Sequence[int] = range(len(all_params))
    if warm_start:
        order = strong_to_weak(all_params)
    survivors = job.search.survivors
    results = [_CandidateResult() for _ in all_params]
    model: Any = None
    for position in order:
        if survivors is None or position in survivors:
            params = all_params[position]
            model, results[position] = _score_candidate(
                job, part, params, model, warm_start
            )
    return results


def _score_candidate(
    job: Job,
    part: TrainTestData,
    params: Mapping[str, Any],
    previous: BaseEstimator | None,
    warm_start: bool,
) -> tuple[Any, _CandidateResult]:
    """Fit and score one candidate; an error becomes a part of its result.

    Returns
    -------
    model : estimator or None
        Starting point of the next candidate; None: it starts from scratch.
    result : _CandidateResult
    """
    assert job.search is not None
    metric = job.search.metric
    result = _CandidateResult()
    unfitted = None
    model = None
    with collect_warnings() as texts:
        try:
            if previous is not None:
                unfitted = previous.set_params(**params)
            else:
                all_params = with_params(job.method.params, params)
                if warm_start:
                    all_params["warm_start"] = True
                path = job.method.estimator
                unfitted = build({"estimator": path, "params": all_params})
            model = part.rows.fit(unfitted)
            test_scores = part.predict(model, many=True)
            scores = part.score(model, test_scores, [metric], job.scoring.average)
            mean = scores[metric].mean
            result.score = None if math.isnan(mean) else mean
            result.undefined = scores[metric].undefined
        except Exception as error:
            # A candidate may be impossible. The record says so, and the search goes on.
            result.error = one_line(error)
            model = None
    result.not_converged = _is_about_convergence(texts)
    # A model that is fitted per task consists of clones, which start from scratch.
    was_fitted_in_place = model is unfitted
    if not warm_start or not was_fitted_in_place:
        model = None
    return model, result


# ---------------------------------------------------------------- fields of records


#: Singular values and columns of a robust model count if they exceed this share of the
#: largest one of its coefficients. Smaller ones are left over by a stopped solver.
PART_TOLERANCE = 1e-6


def _structure(model: BaseEstimator, part: TrainTestData) -> dict[str, float]:
    """Return how far coefficients are from the truth, if that is available.

    Of a robust model L + E also the rank of L and the number of outlier tasks.
    """
    info: dict[str, float] = {}
    truth = part.train.truth.get("W")
    coef: Any = getattr(model, "coef_", None)
    is_regression = part.train.task_type == "regression"
    if is_regression and truth is not None and np.shape(coef) == truth.T.shape:
        error = np.linalg.norm(coef - truth.T) / np.linalg.norm(truth)
        info["truth_error"] = float(error)
    low_rank = getattr(model, "low_rank_", None)
    outlier = getattr(model, "outlier_", None)
    if low_rank is None or outlier is None:
        return info
    coef = low_rank + outlier
    singular_values = np.linalg.svd(low_rank, compute_uv=False)
    task_norms = np.linalg.norm(outlier, axis=1)
    largest_value = np.linalg.norm(coef, ord=2)
    largest_norm = np.linalg.norm(coef, axis=1).max(initial=0.0)
    info |= {
        "rank": int(np.sum(singular_values > PART_TOLERANCE * largest_value)),
        "n_outliers": int(np.sum(task_norms > PART_TOLERANCE * largest_norm)),
    }
    truth = part.train.truth.get("L")
    if truth is not None and np.shape(low_rank) == truth.T.shape:
        difference = np.linalg.norm(low_rank - truth.T)
        info["low_rank_error"] = float(difference / np.linalg.norm(truth))
    return info


#: Key in the record of a fit -> attribute of the model.
_SOLVER_ATTRIBUTES = {"n_iter": "n_iter_", "gap": "gap_", "stop_crit": "stop_crit_"}


def _solver_outcome(fit: _TimedFit) -> SolverOutcome:
    model = fit.model
    has_warned = _is_about_convergence(fit.warnings)
    info: dict[str, Any] = {}
    for name, attribute in _SOLVER_ATTRIBUTES.items():
        value = getattr(model, attribute, None)
        if value is not None:
            # There may be one value per task.
            info[name] = np.max(value).item()
    history = getattr(model, "objective_", None)
    objective = None
    if history is not None and np.size(history):
        objective = float(np.ravel(history)[-1])
    message = None
    for text in fit.warnings:
        if text.startswith(NOT_CONVERGED_MARK):
            message = text.removeprefix(NOT_CONVERGED_MARK)
            break
    return SolverOutcome(
        converged=not has_warned and getattr(model, "converged_", True) is not False,
        objective=objective,
        message=message,
        **info,
    )


# ---------------------------------------------------------------- analyses


def run_analysis(job: Job, data: Dataset | None) -> Record:
    """Compute an analysis.

    Parameters
    ----------
    job : Job
        Of the kind `JobKind.ANALYSIS`.
    data : Dataset or None
        None for analyses of published numbers. A feature step is learned on all rows.

    Raises
    ------
    TypeError, ValueError
        If the function does not return an `AnalysisResult`, or returns quantities that
        it does not declare.
    Exception
        Whatever the function raises.
    """
    start_time = time.perf_counter()
    if data is not None and job.features is not None:
        step = make_step(job.features, data)
        X = learned_features(step, data.X, data.source.get(WEIGHT))
        data = replace(data, X=X, features=[])
    module, _, name = analysis_path(job.method.measure).partition(":")
    analyze = getattr(import_named(module), name)
    timing = job.scoring.timing or UNTIMED
    with limited_threads(timing.threads), collect_warnings() as texts:
        result = analyze(data, seed=job.split.seed, **job.method.params)
    path = job.method.measure
    if not isinstance(result, AnalysisResult):
        kind = type(result).__name__
        raise TypeError(f"{path} returned a {kind}, not an AnalysisResult")
    declaration = getattr(analyze, "declaration", None)
    if declaration is not None:
        undeclared = result.values.keys() - declaration.quantities.keys()
        if undeclared:
            names = ", ".join(name for name in result.values if name in undeclared)
            raise ValueError(
                f"{path} returned quantities that it does not declare: {names}"
            )
    converged = result.solver.get("converged", not _is_about_convergence(texts))
    messages = [text.removeprefix(NOT_CONVERGED_MARK) for text in texts]
    counts = {}
    tasks: list[str] = []
    if data is not None:
        counts = {
            "n_tasks": data.n_tasks,
            "n_samples": data.n_samples,
            "n_features": data.n_features,
        }
        if result.per_task:
            tasks = list(data.tasks)
    # The fields of curves, matrices and rankings are the keys of the record.
    curves = {name: vars(curve) for name, curve in result.curves.items()}
    matrices = {name: vars(matrix) for name, matrix in result.matrices.items()}
    return job.record(
        status=OK if converged else NOT_CONVERGED,
        log=_log(messages),
        params=dict(job.method.params),
        metrics={name: float(value) for name, value in result.values.items()},
        per_task=result.per_task,
        counts=counts,
        seconds=Seconds(total=time.perf_counter() - start_time),
        solver=result.solver,
        environment={"threads": timing.threads, **asdict(host_info())},
        result=without_empty(
            {
                "curves": curves,
                "matrices": matrices,
                "rankings": list(map(vars, result.rankings)),
                "lines": list(result.lines),
                "tables": dict(result.tables),
                "tasks": tasks,
            }
        ),
    )
