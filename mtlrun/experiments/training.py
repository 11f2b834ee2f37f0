"""``mtlrun train``: choose parameters inside the training rows, fit, score the test rows, save what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mtlrun.core.errors import ConfigError, DataError, UserError, counted
from mtlrun.core.publish import publish
from mtlrun.core.records import jsonable, write_atomic, writing
from mtlrun.core.seeds import derive_seed
from mtlrun.data.dataset import Dataset
from mtlrun.data.load import load_dataset
from mtlrun.estimators.pertask import PerTask, takes_task_id
from mtlrun.estimators.registry import build
from mtlrun.experiments.evaluate import measure
from mtlrun.experiments.featuresteps import with_features
from mtlrun.experiments.models import COEFFICIENTS, FACTS, Model, finished, predict_labels, read_facts, save_model
from mtlrun.experiments.predictions import predictions_table, to_csv
from mtlrun.experiments.selection import combine, search_part
from mtlrun.experiments.trial import Part, fold_rows, split_rows
from mtlrun.runs.cell import with_params
from mtlrun.runs.folders import check_folder
from mtlrun.runs.methods import complete, resolved
from mtlrun.runs.trainspec import Training, TrainSpec

METRICS, PREDICTIONS, CONFIG = "metrics.json", "predictions.csv", "config.json"
SCHEMA = 1


@dataclass(frozen=True)
class Outcome:
    """What a training did.

    Attributes
    ----------
    folder : Path
        With ``model.skops``, ``model.json``, ``coefficients.npz`` (linear models), ``metrics.json``,
        ``predictions.csv`` (of the test rows) and ``config.json``.
    result : dict
        Content of ``metrics.json``: ``params, metrics, per_task, counts, seconds, solver, selection`` ...
    """

    folder: Path
    result: dict[str, Any]


def train(
    training: Training,
    *,
    output: Path,
    data_dir: Path | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Train, evaluate and save a model.

    Parameters
    ----------
    training : Training
    output : Path
        The results lie in ``output/<id>``.
    data_dir : Path, optional
    force : bool
        Replace a model of another configuration in that folder.
    say : callable
        Told what happens, one line at a time.

    Raises
    ------
    ConfigError
        If the method cannot be made or fitted as the file says, or the features do not go with the data.
    DataError
        If the data are missing or damaged.
    UserError
        If the folder holds a model of another configuration, or cannot be written.
    """
    spec = training.spec
    folder = output / training.id
    _check_folder(folder, training, force)
    dataset = load_dataset(spec.dataset.id, data_dir=data_dir, **spec.dataset.options)
    _check_features(spec, dataset)
    trained = fit_training(training, dataset, say=say)
    with writing(folder, "Make room, or choose another folder with --output."):
        save_training(trained, folder)
    return Outcome(folder, trained.result)


@dataclass(frozen=True)
class Trained:
    """A trained model, what `metrics.json` says of it, and the predictions of the test rows as CSV."""

    model: Model
    result: dict[str, Any]
    predictions: str


def fit_training(training: Training, dataset: Dataset, *, say: Callable[[str], None] = lambda _: None) -> Trained:
    """Train and evaluate a model on a data set that is at hand; see `train`.

    Raises
    ------
    ConfigError
        If the method cannot be made or fitted as the file says.
    """
    spec = training.spec
    rows = _split(spec, dataset)
    say(
        f"{spec.dataset.name}: {counted(dataset.n_samples, 'row')} ({len(rows[0])} for training, {len(rows[1])} for "
        f"test), {counted(dataset.n_features, 'feature')}, {counted(dataset.n_tasks, 'task')}"
    )
    try:
        fitted = fit_split(spec, dataset, rows, say=say)
        estimator, step = fitted.estimator, fitted.step
        predictions = _test_predictions(fitted.part, rows[1], estimator)
        if spec.refit:
            say("fitting again on all rows")
            whole, step = with_features(Part.of(dataset, np.arange(dataset.n_samples), rows[1]), spec.step)
            estimator = whole.fit(build(fitted.method.with_params(fitted.chosen)))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{training.source}: {spec.method.estimator}: {error}") from error
    result = {"schema": SCHEMA, "id": training.id, "dataset": spec.dataset.name, "method": spec.method.estimator}
    result |= {**fitted.fields, "selection": fitted.selection, "refit": spec.refit}
    return Trained(
        Model(estimator, step, _facts(training, dataset, fitted.method, estimator, result)), result, predictions
    )


@dataclass(frozen=True)
class FittedSplit:
    """What was learned on the training rows of one split.

    Attributes
    ----------
    part : Part
        With the feature step applied.
    step : fitted transformer or None
    estimator : fitted estimator
    fields : dict
        Metrics, seconds and solver facts, as of an evaluation cell.
    selection : dict
        What the search found, {} without a grid.
    chosen : dict
        Parameters found.
    method : _Method
    """

    part: Part
    step: Any
    estimator: Any
    fields: dict[str, Any]
    selection: dict[str, Any]
    chosen: dict[str, Any]
    method: _Method


def fit_split(
    spec: TrainSpec,
    dataset: Dataset,
    rows: tuple[np.ndarray, np.ndarray],
    *,
    trial: int = 0,
    threads: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> FittedSplit:
    """Choose parameters inside the training rows, fit on all of them, score the test rows.

    Parameters
    ----------
    spec : TrainSpec
    dataset : Dataset
    rows : (train, test) row indices
    trial : int, default 0
        Number of the split; the seed of the search depends on it.
    threads : int, optional
        BLAS threads; as they are when None.
    say : callable

    Raises
    ------
    ConfigError
        If the method does not go with the data, or no candidate has a score.
    ValueError, TypeError, Diverged
        What fitting raises.
    """
    part, step = with_features(Part.of(dataset, *rows), spec.step)
    method = _Method.of(spec, dataset)
    found = _select(spec, method, dataset.subset(rows[0]), trial, say)
    chosen = found.get("chosen", {})
    say(f"fitting {spec.method.estimator}" + "".join(f" {k}={v}" for k, v in chosen.items()))
    estimator, fields = measure(method.inputs(spec, threads), part, chosen, True)
    return FittedSplit(part, step, estimator, fields, found, chosen, method)


@dataclass(frozen=True)
class _Method:
    """The estimator of a training file as a resolved specification, for the fit and for the search."""

    spec: Mapping[str, Any]
    select: Mapping[str, Any]
    grid: Mapping[str, list[Any]]

    @classmethod
    def of(cls, spec: TrainSpec, dataset: Dataset) -> _Method:
        """Make it for a data set."""
        method = spec.method
        seed = derive_seed(spec.seed, spec.dataset.id, 0, "estimator")
        plain = resolved(method.estimator, method.params, seed)
        select = resolved(
            method.estimator, with_params(complete(method.estimator, method.params), method.select_with), seed
        )
        estimator = build(plain)
        if dataset.task_type == "multiclass" and (takes_task_id(estimator) or not is_classifier(estimator)):
            raise ConfigError(
                f"{spec.id}: {dataset.id} has {dataset.n_tasks} classes, {method.estimator} takes tasks of two",
                f"Make tasks of the classes: dataset: {{id: {dataset.id}, tasks: one-vs-rest}}",
            )
        return cls(plain, select, method.grid)

    def inputs(self, spec: TrainSpec, threads: int | None) -> dict[str, Any]:
        """Return the inputs of an evaluation; None leaves BLAS threads as they are."""
        timing = {"repeats": 1, "threads": threads, "warmup": False}
        return {"estimator": self.spec, "metrics": spec.metrics, "average": spec.average, "timing": timing}

    def with_params(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the specification with the chosen parameters."""
        return {**self.spec, "params": with_params(self.spec["params"], chosen)}


def _select(
    spec: TrainSpec, method: _Method, inside: Dataset, trial: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Search the grid by cross-validation inside the training rows; {} without a grid."""
    if not method.grid or spec.selection is None:
        return {}
    seed = derive_seed(spec.seed, spec.dataset.id, trial, "selection")
    search = {"folds": spec.selection.folds, "metric": spec.selection_metric, "seed": seed}
    inputs = {"estimator": method.select, "grid": method.grid, "search": search, "average": spec.average}
    folds = []
    for k, rows in enumerate(fold_rows(inside, spec.selection.folds, seed)):
        say(f"searching parameters: fold {k + 1} of {spec.selection.folds}")
        folds.append(search_part(inputs, with_features(Part.of(inside, *rows), spec.step)[0]))
    found = combine(inputs, folds)
    if found["chosen"] is None:
        reasons = [text for row in found["candidates"] for text in row["errors"]] or ["the metric is undefined"]
        raise ConfigError(f"{spec.method.estimator}: no candidate of the grid has a score: {reasons[0]}")
    return found


def _split(spec: TrainSpec, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    split = {**spec.split.model_dump(), "trial": 0, "seed": derive_seed(spec.seed, spec.dataset.id, 0)}
    try:
        return split_rows(dataset, split)
    except ValueError as error:
        raise ConfigError(f"{spec.id}: split: {error}") from None


def _check_features(spec: TrainSpec, dataset: Dataset) -> None:
    features, method = spec.features, spec.method
    table = features is not None and features.kind == "table"
    if (dataset.categories or (dataset.X.dtype.kind == "f" and _gaps(dataset.X))) and not table:
        raise ConfigError(f"{spec.id}: {dataset.id} has words or empty cells", "Add the line: features: table")
    if features is None and dataset.strings and ":" not in method.estimator and "features" not in method.params:
        raise ConfigError(f"{spec.id}: {dataset.id} holds strings of letters", "Add the line: features: one-hot")
    if features is not None and dataset.strings != features.strings:
        what = "strings of letters" if dataset.strings else "numbers"
        raise ConfigError(f"{spec.id}: features: {features.kind} does not go with {dataset.id}, which holds {what}")


def _gaps(X: Any) -> bool:
    return bool(np.isnan(X if isinstance(X, np.ndarray) else X.data).any())


def _check_folder(folder: Path, training: Training, force: bool) -> None:
    check_folder(folder)
    finished(folder)
    if force or not (folder / FACTS).exists():
        return
    try:
        before = read_facts(folder).get("config")
    except DataError as error:
        raise UserError(f"{error.message}", "Say --force to replace it.") from None
    if before != jsonable(training.config):
        raise UserError(
            f"{folder} holds a model of another configuration",
            "Say --force to replace it, choose another --output, or give this one another id.",
        )


def _facts(
    training: Training, dataset: Dataset, method: _Method, estimator: Any, result: Mapping[str, Any]
) -> dict[str, Any]:
    design = "ragged" if dataset.task_id is not None else "shared" if dataset.y.ndim == 2 else "single"
    return {
        "name": training.id,
        "task_type": dataset.task_type,
        "design": design,
        "tasks": dataset.tasks,
        "input": {
            "n_features": dataset.n_features,
            "names": dataset.features,
            "strings": dataset.strings,
            "categories": dataset.categories,
            "task_column": dataset.options.get("task"),
            "table": training.spec.features is not None and training.spec.features.kind == "table",
        },
        "estimator": {
            "name": training.spec.method.estimator,
            "class": method.spec["estimator"],
            "per_task": isinstance(estimator, PerTask),
            "params": result["params"],
        },
        "dataset": {
            "id": dataset.id,
            "options": training.spec.dataset.options,
            "fingerprint": dataset.fingerprint,
            "simulated": dataset.simulated,
        },
        "metrics": result["metrics"],
        "config": training.config,
    }


def _test_predictions(part: Part, rows: np.ndarray, estimator: Any) -> str:
    """Return the predictions of the test rows as CSV; those of a shared design without the targets."""
    test, flat = part.test, part.test.y.ndim == 1
    scores = part.predict(estimator)
    labels = predict_labels(estimator, test.X, test.task_id) if test.task_type != "regression" else None
    return to_csv(
        predictions_table(
            scores,
            task_type=test.task_type,
            tasks=test.tasks,
            rows=rows,
            task_id=test.task_id,
            labels=labels,
            targets=test.y if flat else None,
        )
    )


def save_training(trained: Trained, folder: Path) -> None:
    """Write all files into a folder, in place of those of an earlier training: all of them or none.

    Raises
    ------
    UserError
        If the model cannot be stored without pickle.
    OSError
        If the folder cannot be written.
    """
    with publish(folder, obsolete=[COEFFICIENTS]) as new:
        for name, value in ((CONFIG, trained.model.facts["config"]), (METRICS, trained.result)):
            write_atomic(new / name, json.dumps(jsonable(value), indent=1, ensure_ascii=False) + "\n")
        write_atomic(new / PREDICTIONS, trained.predictions)
        save_model(new, trained.model)
