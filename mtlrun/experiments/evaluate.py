"""What an evaluation cell does: fit with the chosen parameters, take the time, score the test rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mtlrun.core.records import NOT_CONVERGED, OK, sha256_json
from mtlrun.estimators.registry import build
from mtlrun.experiments.featuresteps import cell_part
from mtlrun.experiments.timing import TimedFit, timed_fit
from mtlrun.experiments.trial import NOT_CONVERGED_MARK, Part, Scores, load_trial
from mtlrun.provenance import host_facts
from mtlrun.runs.cell import with_params


def evaluate(
    inputs: Mapping[str, Any], data_dir: str | None, chosen: Mapping[str, Any], serial: bool
) -> dict[str, Any]:
    """Compute one evaluation cell.

    Parameters
    ----------
    inputs : mapping
        Of the cell.
    data_dir : str or None
    chosen : mapping
        Parameters from the selection.
    serial : bool
        Whether nothing else of this run computes at the same time; only recorded.

    Returns
    -------
    dict
        Fields of a `CellRecord`: status, params, metrics, per_task, counts, seconds, solver, result, environment, log;
        and `scores`, the predictions of the test rows, where the cell keeps them.

    Raises
    ------
    Diverged
        If predictions are not finite.
    Exception
        Whatever loading, fitting or predicting raises.
    """
    started = time.perf_counter()
    dataset, train, test = load_trial(inputs, data_dir)
    _, fields = measure(inputs, cell_part(inputs, dataset, train, test), chosen, serial)
    fields["result"] = {"tasks": list(dataset.tasks)}
    fields["seconds"]["total"] = time.perf_counter() - started
    return fields


def measure(
    inputs: Mapping[str, Any], part: Part, chosen: Mapping[str, Any], serial: bool
) -> tuple[Any, dict[str, Any]]:
    """Fit on the training rows and score the test rows of a part; return the estimator and what `evaluate` returns."""
    timing = inputs["timing"] or {"repeats": 1, "threads": 1, "warmup": False}
    name, fixed = inputs["estimator"]["estimator"], inputs["estimator"]["params"]
    params = with_params(fixed, chosen)
    what = sha256_json([name, _without_seeds(fixed), part.train.id, type(part.train.X).__name__])
    with threadpool_limits(limits=timing["threads"]):
        fitted = timed_fit(
            lambda: build({"estimator": name, "params": params}),
            part.fit,
            repeats=timing["repeats"],
            warmup=timing["warmup"],
            what=what,
        )
        begun = time.perf_counter()
        predicted = part.predict(fitted.estimator)
        predict_seconds = time.perf_counter() - begun
        scores = part.score(fitted.estimator, predicted, inputs["metrics"], inputs["average"])
    failed = [text.removeprefix(NOT_CONVERGED_MARK) for text in fitted.warnings if text.startswith(NOT_CONVERGED_MARK)]
    converged = not failed and getattr(fitted.estimator, "converged_", True) is not False
    fields: dict[str, Any] = {
        "status": OK if converged else NOT_CONVERGED,
        "params": params,
        "metrics": {metric: score.mean for metric, score in scores.items()},
        "per_task": {metric: score.per_task.tolist() for metric, score in scores.items()},
        "counts": _counts(part, scores),
        "seconds": {
            "fit": fitted.median,
            "fit_all": fitted.seconds,
            "predict": predict_seconds,
            **_blocks(fitted.estimator),
        },
        "solver": {**_solver_facts(fitted, converged, failed), **_truth(fitted.estimator, part)},
        "environment": {**timing, "serial": serial, **host_facts()},
        "log": "\n".join(dict.fromkeys(fitted.warnings)) or None,
    }
    if "predictions" in inputs.get("keep", ()):
        fields["scores"] = np.asarray(predicted, dtype=np.float32)
    return fitted.estimator, fields


def _without_seeds(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without random states: another seed runs the same code."""
    kept = {name: value for name, value in params.items() if name != "random_state"}
    return {name: _without_seeds(value) if isinstance(value, Mapping) else value for name, value in kept.items()}


def _counts(part: Part, scores: Mapping[str, Scores]) -> dict[str, int]:
    return {
        "n_tasks": part.train.n_tasks,
        "n_train": part.train.n_samples,
        "n_test": part.test.n_samples,
        "one_class_train": int(part.one_class.sum()),
        **{f"undefined_{metric}": score.undefined for metric, score in scores.items()},
    }


def _blocks(estimator: Any) -> dict[str, float]:
    """Return the seconds of a block method: one block after the other, and each on a worker of its own."""
    seconds = getattr(estimator, "block_seconds_", None)
    return {} if seconds is None else {"blocks_sum": float(np.sum(seconds)), "blocks_max": float(np.max(seconds))}


def _truth(estimator: Any, part: Part) -> dict[str, float]:
    """Return the relative error of the coefficients of a regression with known truth, else nothing."""
    truth, coef = part.train.truth.get("W"), getattr(estimator, "coef_", None)
    if part.train.task_type != "regression" or truth is None or coef is None or np.shape(coef) != truth.T.shape:
        return {}
    return {"truth_error": float(np.linalg.norm(coef - truth.T) / np.linalg.norm(truth))}


def _solver_facts(fitted: TimedFit, converged: bool, messages: list[str]) -> dict[str, Any]:
    estimator = fitted.estimator
    facts: dict[str, Any] = {"converged": converged}
    for name, attribute in (("n_iter", "n_iter_"), ("gap", "gap_"), ("stop_crit", "stop_crit_")):
        value = getattr(estimator, attribute, None)
        if value is not None:
            facts[name] = np.max(value).item()
    history = getattr(estimator, "objective_", None)
    if history is not None and np.size(history):
        facts["objective"] = float(np.ravel(history)[-1])
    if messages:
        facts["message"] = messages[0]
    return facts
