"""Tune parameters on the training rows, fit, score the test rows, save model and results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mtlrun.data.dataset import Dataset
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.fit import Fitted, fit_job, with_features, with_last_columns
from mtlrun.engine.job import Job, with_params
from mtlrun.engine.record import Record
from mtlrun.engine.run import Runner
from mtlrun.engine.store import check_folder
from mtlrun.errors import ConfigError, DataError, UserError, counted
from mtlrun.estimators.baselines import PerTask
from mtlrun.estimators.registry import build
from mtlrun.model.baseline import (
    BASELINE_LINE,
    COMPARISON_TONES,
    WORSE,
    Tested,
    baseline_scores,
    baseline_warnings,
    score_table,
    search_panels,
    task_table,
)
from mtlrun.model.files import (
    COEFFICIENTS,
    FACTS,
    OWN_TABLE,
    finished,
    load_model,
    read_facts,
    save_model,
    transformed_names,
)
from mtlrun.model.fitted import Model
from mtlrun.model.prediction_tables import tested_table, to_csv
from mtlrun.tables.figures import Figure, Line, Panel
from mtlrun.tables.page import STATUS_TONES, html_page
from mtlrun.tables.report_table import Column, ReportTable, Section, Styled, show
from mtlrun.utils.io import file_json, jsonable, read_text_file, write_atomic
from mtlrun.utils.outputs import publish

METRICS, PREDICTIONS, CONFIG, PAGE = (
    "metrics.json",
    "predictions.csv",
    "config.json",
    "report.html",
)
SCHEMA = 1


@dataclass(frozen=True)
class TrainingSummary:
    """What a training did.

    Attributes
    ----------
    folder : Path
        With ``model.skops``, ``model.json``, ``coefficients.npz`` (linear models), ``metrics.json``,
        ``predictions.csv`` (of the test rows), ``config.json`` and ``report.html``.
    result : dict
        Content of ``metrics.json``: ``params, metrics, per_task, counts, seconds, solver, selection`` ...
    up_to_date : bool
        Whether the model was there already.
    """

    folder: Path
    result: dict[str, Any]
    up_to_date: bool = False


@dataclass(frozen=True)
class TrainingJob:
    """A model to train: its job, and what the files in its folder say about it.

    Attributes
    ----------
    job : Job
        A fit, with the search before it.
    id : str
        ``<paper>/<name>``, as the training file has it.
    source : str
        Where it was asked for, as messages call it.
    dataset_name : str
    dataset_options : dict
        Arguments of `load_dataset`.
    estimator : str
        As the training file names it.
    refit : bool or dict
        Whether the saved model is fitted to all rows, and parameters that it then has.
    config : dict
        The training file with its defaults.
    """

    job: Job
    id: str
    source: str
    dataset_name: str
    dataset_options: dict[str, Any]
    estimator: str
    refit: bool | dict[str, Any]
    config: dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A trained model, what `metrics.json` says of it, predictions of the test rows as CSV, and these rows by task.

    The rows are not at hand where the model was read from a folder.
    """

    model: Model
    result: dict[str, Any]
    predictions: str
    tested: Tested = ()

    def page(self) -> str:
        """Return ``report.html``."""
        facts, model = self.model.about, self.model.estimator
        names = transformed_names(self.model)
        coefficients = (
            (np.asarray(model.coef_), names) if hasattr(model, "coef_") else None
        )
        regression = facts["task_type"] == "regression"
        return training_page(
            self.result,
            facts["config"],
            self.tested,
            coefficients,
            regression=regression,
        )


def fit_training(training: TrainingJob, dataset: Dataset, runner: Runner) -> Trained:
    """Train and evaluate a model on a data set in memory.

    Parameters
    ----------
    training : TrainingJob
    dataset : Dataset
        The data set of the job.
    runner : Runner
        Computes the search of the job, and keeps its record.

    Raises
    ------
    ConfigError
        If the method cannot be fitted as the file says, or no candidate of its grid has a score.
    """
    job = training.job
    say = runner.progress.message
    with runner.working():
        runner.progress.start(len(job.folds))
        lost = runner.search([job])
    if lost:
        raise ConfigError(f"{training.source}: {training.estimator}: {lost[0].error}")
    choice = runner.choices.get(job.key, {})
    chosen = choice.get("chosen") or {}
    say(
        f"fitting {training.estimator}"
        + "".join(f" {name}={value}" for name, value in chosen.items())
    )
    try:
        fitted = fit_job(job, dataset, chosen)
        record = runner.finish_fit(job, fitted.record, fitted.scores)
        say(
            f"{training.dataset_name}: {counted(dataset.n_samples, 'row')} ({fitted.part.train.n_samples} for training, "
            f"{fitted.part.test.n_samples} for testing), {counted(dataset.n_features, 'feature')}, "
            f"{counted(dataset.n_tasks, 'task')}"
        )
        result = _result(training, record)
        result["baseline"] = baseline_scores(fitted.part, job.scoring)
        refitted = training.refit if isinstance(training.refit, dict) else {}
        params = with_params(job.method.params, {**chosen, **refitted})
        facts = _facts(training, dataset, fitted.model, result, params)
        tested_rows = tested_table(
            Model(fitted.model, None, facts), fitted.part.test, fitted.part.test_rows
        )
        predictions = to_csv(tested_rows, safe=False)
        model, step = fitted.model, fitted.step
        if training.refit:
            say("refitting on all rows")
            rows = np.arange(dataset.n_samples)
            whole, step = with_features(
                TrainTestData.of(dataset, rows, rows[:1]), job.features
            )
            model = whole.fit(
                build({"estimator": job.method.estimator, "params": params})
            )
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{training.source}: {training.estimator}: {error}"
        ) from error
    return Trained(Model(model, step, facts), result, predictions, tested(fitted))


def tested(fitted: Fitted) -> Tested:
    """Return the test rows by task: name, truth and scores; of classes a task per class."""
    test, scores = fitted.part.test, fitted.scores
    if test.task_id is not None:
        groups = [(t, test.task_id == t) for t in range(test.n_tasks)]
        return [(test.tasks[t], test.y[rows], scores[rows]) for t, rows in groups]
    if test.y.ndim == 1 and scores.ndim == 1:
        return [(test.tasks[0], test.y, scores)]
    truth = (
        test.y if test.y.ndim == 2 else test.y[:, None] == np.arange(scores.shape[1])
    )
    known = [~np.isnan(column) for column in np.asarray(truth, dtype=float).T]
    return [
        (test.tasks[t], truth[rows, t], scores[rows, t]) for t, rows in enumerate(known)
    ]


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
        for name, value in (
            (CONFIG, trained.model.about["config"]),
            (METRICS, trained.result),
        ):
            write_atomic(new / name, file_json(value))
        if trained.predictions:  # none of rows in chunks
            write_atomic(new / PREDICTIONS, trained.predictions)
        save_model(new, trained.model)


def check_settings(folder: Path, config: Mapping[str, Any], force: bool) -> None:
    """Refuse a folder with a model that was trained with other settings (`config`), unless by force.

    Raises
    ------
    UserError
    """
    check_folder(folder)
    finished(folder)
    if force or not (folder / FACTS).exists():
        return
    try:
        before = read_facts(folder).get("config")
    except DataError as error:
        raise UserError(f"{error.message}", "Add --force to replace it.") from None
    if before != jsonable(config):
        raise UserError(
            f"{folder} holds a model that was trained with other settings",
            "Add --force to replace it, choose another --output, or change the id in the file.",
        )


def up_to_date(folder: Path, training: TrainingJob) -> dict[str, Any] | None:
    """Return the results in a folder, None unless they are those of the job and all files are there."""
    try:
        facts = read_facts(folder)
        result = json.loads(read_text_file(folder / METRICS))
    except (DataError, OSError, ValueError):
        return None
    same = facts.get("cell") == training.job.key and facts.get("config") == jsonable(
        training.config
    )
    whole = all(
        (folder / name).is_file() for name in (PREDICTIONS, CONFIG, *facts["files"])
    )
    return result if same and whole and isinstance(result, dict) else None


def load_trained(folder: Path, training: TrainingJob) -> Trained | None:
    """Return what an earlier training of the same job saved in a folder; None where it has to be trained."""
    try:
        finished(folder)
        result = up_to_date(folder, training)
        if result is None:
            return None
        return Trained(
            load_model(folder),
            result,
            read_text_file(folder / PREDICTIONS),
        )
    except (
        UserError,
        OSError,
        ValueError,
    ):  # damaged, or of types that only the user can trust
        return None


def _result(training: TrainingJob, record: Record) -> dict[str, Any]:
    """Return the content of `metrics.json`."""
    return {
        "schema": SCHEMA,
        "id": training.id,
        "dataset": training.dataset_name,
        "method": training.estimator,
        "status": record.status,
        "params": record.params,
        "metrics": record.metrics,
        "per_task": record.per_task,
        "counts": record.counts,
        "seconds": record.seconds,
        "solver": record.solver,
        "environment": record.environment,
        "log": record.log,
        "selection": record.selection,
        "refit": training.refit,
        "cell": record.key,
    }


def _facts(
    training: TrainingJob,
    dataset: Dataset,
    estimator: BaseEstimator,
    result: Mapping[str, Any],
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of ``model.json``; `params` are those of the saved model."""
    job = training.job
    features = job.features
    # What the model reads: groups are columns of it, unlike those of the data set.
    has_levels = features is not None and features.has_levels
    has_elapsed = features is not None and features.has_elapsed
    read = with_last_columns(dataset, features)
    extra: dict[str, Any] = {}
    if has_levels:
        extra["levels"] = list(read.levels)
    clock = dataset.clock
    if clock is not None and (clock.is_feature or has_elapsed):
        extra["clock"] = clock.to_dict()
    design = (
        "ragged"
        if dataset.task_id is not None
        else "shared"
        if dataset.y.ndim == 2
        else "single"
    )
    return {
        "name": training.id,
        "cell": job.key,
        "refit": training.refit,
        "task_type": dataset.task_type,
        "design": design,
        "tasks": dataset.tasks,
        "input": {
            "n_features": read.n_features,
            "names": read.features,
            "strings": read.strings,
            "categories": read.categories,
            "task_column": dataset.options.get("task"),
            "table": features is not None and features.is_table,
            **extra,
        },
        "targets": dataset.targets,
        "labels": dataset.labels,
        "label_types": dataset.label_types,
        "positive": dataset.options.get("positive"),
        "transform": dataset.options.get("transform"),
        "estimator": {
            "name": training.estimator,
            "class": job.method.estimator,
            "per_task": isinstance(estimator, PerTask),
            "params": params,
        },
        "dataset": {
            "id": dataset.id,
            "options": training.dataset_options,
            "fingerprint": dataset.fingerprint,
            "simulated": dataset.simulated,
        },
        "metrics": result["metrics"],
        "config": training.config,
    }


# ---------------------------------------------------------------------- report of a training

#: Tasks with a colour of their own, points of a scatter plot, and rows of the table of coefficients.
MOST_COLOURS, MOST_POINTS, MOST_FEATURES = 7, 1500, 20
#: Features of its own that are shown for a task.
MOST_OWN = 5
OWN_LINE = "A task's own weight of a feature is its coefficient less the mean of all tasks, which they share."
TOGETHER = "rows of all tasks"


def training_page(
    result: Mapping[str, Any],
    config: Mapping[str, Any],
    tested: Tested,
    coefficients: tuple[np.ndarray, Sequence[str]] | None,
    *,
    regression: bool,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    result : mapping
        Content of ``metrics.json``.
    config : mapping
        The training file with all its defaults.
    tested : sequence of (str, ndarray, ndarray)
    coefficients : (ndarray of shape (n_tasks, n_features), sequence of str) or None
        With the names of the features, which may be empty; None for a model that has none.
    regression : bool
    """
    tasks = task_table(result, tested)
    params = ReportTable(
        [Column("parameter"), Column("value")],
        [[k, json.dumps(v)] for k, v in result["params"].items()],
    )
    settings = ReportTable(
        [Column("setting"), Column("value")],
        [[k, json.dumps(v)] for k, v in config.items()],
    )
    sections = [
        Section("Scores and baseline", [BASELINE_LINE], [score_table(result)]),
        Section("Parameters", grids=[params]),
        Section("Largest coefficients", *_largest(coefficients, tested)),
        Section("Scores per task", grids=[tasks]),
        Section("Settings", grids=[settings]),
    ]
    draw = prediction_figure if regression else roc_figure
    figures = (
        [draw(tested)]
        if any(len(np.unique(truth)) > 1 for _, truth, _ in tested)
        else []
    )
    panels = search_panels(result["selection"] or {})
    if panels:
        figures.append(Figure("search", "Search for the parameters", panels))
    method = str(result["method"]).rpartition(":")[2]
    title = f"{method} on {str(result['dataset']).removeprefix(OWN_TABLE)}"
    warnings = [Styled(line, tone=WORSE) for line in baseline_warnings(result)]
    return html_page(
        title,
        [*warnings, *training_lines(result)],
        [s for s in sections if not s.empty],
        figures,
        tones=STATUS_TONES | COMPARISON_TONES,
    )


def training_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines that say how a training went."""
    lines = []
    found = result["selection"]
    if found:
        chosen = ", ".join(f"{name}={value}" for name, value in found["chosen"].items())
        lines.append(
            f"chosen: {chosen} (cross-validated {found['metric']} {found['score']:.4g})"
        )
        for name, end in found["edges"].items():
            lines.append(
                f"  {name} is at the {end} end of its grid: consider widening it"
            )
    refit = result.get("refit")  # results of earlier versions do not have it
    if isinstance(refit, dict):
        refitted = ", ".join(f"{name}={value}" for name, value in refit.items())
        lines.append(f"the saved model is fitted to all rows with: {refitted}")
    width = max(len(name) for name in result["metrics"])
    for name, mean in result["metrics"].items():
        undefined = result["counts"][f"undefined_{name}"]
        note = (
            f"  (undefined for {undefined} of {counted(result['counts']['n_tasks'], 'task')})"
            if undefined
            else ""
        )
        lines.append(
            f"{name:{width}}  {'undefined' if mean != mean else f'{mean:.4f}'}{note}"
        )
    lines.append(f"fitted in {result['seconds']['fit']:.3g} s")
    return lines


def prediction_figure(tested: Tested) -> Figure:
    """Return predictions over true values, a colour per task where they are few."""
    step = -(-sum(len(truth) for _, truth, _ in tested) // MOST_POINTS)
    curves = []
    for name, truth, predicted in _groups(tested):
        x, y = (
            np.asarray(values, dtype=float)[::step].tolist()
            for values in (truth, predicted)
        )
        curves.append(Line(name, x, y, points="filled"))
    panel = Panel("predicted", False, curves, axis="true", x_log=False, diagonal=True)
    title = "Predictions of the test rows" + f" (one of {step})" * (step > 1)
    return Figure("predictions", title, [panel])


def roc_figure(tested: Tested) -> Figure:
    """Return ROC curves, one per task where they are few, else one over the rows of all tasks."""
    from sklearn.metrics import roc_curve  # slow to load

    curves = []
    for name, truth, scores in _groups(tested):
        if len(np.unique(truth)) == 2:
            x, y, _ = roc_curve(truth, scores)
            curves.append(Line(name, x.tolist(), y.tolist()))
    panel = Panel(
        "true positive rate",
        False,
        curves,
        axis="false positive rate",
        x_log=False,
        diagonal=True,
    )
    return Figure("roc", "ROC curves of the test rows", [panel])


def _groups(tested: Tested) -> Tested:
    """Return the tasks, those that cannot all have a colour as one."""
    if len(tested) <= MOST_COLOURS:
        return tested
    _, truths, scores = zip(*tested, strict=True)
    return [(TOGETHER, np.concatenate(truths), np.concatenate(scores))]


def _largest(
    coefficients: tuple[np.ndarray, Sequence[str]] | None, tested: Tested
) -> tuple[list[str], list[ReportTable]]:
    """Return the features with the largest coefficients, shared and own.

    What tasks share of a feature is the mean of its coefficients, what is a task's own is the difference from it.
    """
    if coefficients is None:
        return [], []
    matrix, names = np.atleast_2d(coefficients[0]), coefficients[1]
    tasks = (
        [name for name, *_ in tested]
        if len(tested) == len(matrix)
        else [str(t) for t in range(len(matrix))]
    )
    size = np.abs(matrix).mean(axis=0)
    order = [int(j) for j in np.argsort(-size, kind="stable")[:MOST_FEATURES]]
    heads = ("mean absolute value", "shared (mean)", "smallest", "largest")
    grid = ReportTable([Column("feature"), *(Column(n, "score") for n in heads)])
    found = np.stack(
        [size, matrix.mean(axis=0), matrix.min(axis=0), matrix.max(axis=0)]
    )
    grid.rows = [
        [names[j] if len(names) else show(j), *found[:, j].tolist()] for j in order
    ]
    lines = [
        f"Over {counted(len(matrix), 'task')}, of features as the model gets them."
    ]
    return [*lines, OWN_LINE] if len(tasks) > 1 else lines, [
        grid,
        _own(matrix, names, tasks),
    ][: len(tasks)]


def _own(matrix: np.ndarray, names: Sequence[str], tasks: Sequence[str]) -> ReportTable:
    """Return for every task the features with the largest coefficients of its own."""
    grid = ReportTable([Column("task"), Column("largest weights of its own")])
    for task, own in zip(tasks, matrix - matrix.mean(axis=0), strict=True):
        order = [
            int(j) for j in np.argsort(-np.abs(own), kind="stable")[:MOST_OWN] if own[j]
        ]
        texts = [f"{names[j] if len(names) else show(j)} {own[j]:+.3g}" for j in order]
        grid.rows.append([task, ", ".join(texts) or "none"])
    return grid
