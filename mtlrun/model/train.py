"""Train a model: search parameters, fit, score the test rows, save the results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mtlrun.catalog.registry import build
from mtlrun.data.dataset import Dataset
from mtlrun.data.roles.schema import training_ranges
from mtlrun.engine.evaluation import TrainTestData
from mtlrun.engine.fit import Fitted, fit_job, with_features, with_last_columns
from mtlrun.engine.job import (
    OWN_TABLE,
    TABLE_KINDS,
    TABLE_WITH_ELAPSED,
    TABLE_WITH_LEVELS,
    Job,
    with_params,
)
from mtlrun.engine.record import Record, SearchResult
from mtlrun.engine.run import Runner
from mtlrun.engine.store import check_folder
from mtlrun.errors import ConfigError, DataError, UserError, counted
from mtlrun.estimators.baselines import PerTask
from mtlrun.model.baseline import (
    BASELINE_LINE,
    COMPARISON_TONES,
    WORSE,
    Tested,
    TrainingResult,
    baseline_scores,
    baseline_warnings,
    headline,
    score_table,
    search_panels,
    task_table,
)
from mtlrun.model.files import (
    COEFFICIENTS,
    FACTS,
    load_model,
    read_facts,
    refuse_incomplete,
    save_model,
    transformed_names,
)
from mtlrun.model.fitted import Model, tested_table, to_csv
from mtlrun.show.figures import Figure, Line, Panel
from mtlrun.show.page import STATUS_TONES, html_page
from mtlrun.show.report_table import Column, ReportTable, Section, Styled, show
from mtlrun.utils.io import (
    file_json,
    jsonable,
    read_fields,
    read_text_file,
    stored_fields,
    write_atomic,
)
from mtlrun.utils.outputs import publish

#: Names of files in the folder of a training.
METRICS = "metrics.json"
PREDICTIONS = "predictions.csv"
CONFIG = "config.json"
PAGE = "report.html"
#: Version of the content of ``metrics.json``.
SCHEMA = 1


@dataclass(frozen=True)
class TrainingSummary:
    """Result of a training.

    Attributes
    ----------
    folder : Path
        Contains ``model.skops``, ``model.json``, ``coefficients.npz`` (linear models),
        ``metrics.json``, ``predictions.csv`` (of the test rows), ``config.json`` and
        ``report.html``.
    result : dict
        Content of ``metrics.json``: ``params``, ``metrics``, ``per_task``, ``counts``,
        ``seconds``, ``solver``, ``selection`` and others.
    up_to_date : bool
        Whether the model existed already.
    """

    folder: Path
    result: dict[str, Any]
    up_to_date: bool = False


@dataclass(frozen=True)
class TrainingJob:
    """Model to train.

    Attributes
    ----------
    job : Job
        Fit, with the search before it.
    id : str
        ``<paper>/<name>`` in the training file.
    source : str
        Name of the training file in messages.
    dataset_name : str
    dataset_options : dict
        Arguments of `load_dataset`.
    estimator : str
        Name of the method in the training file.
    refit : bool or dict
        Whether the saved model is fitted to all rows; parameters that change for this
        fit.
    config : dict
        Content of the training file with its defaults.
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
    """Trained model and its results.

    Attributes
    ----------
    model : Model
    result : dict
        Content of ``metrics.json``.
    predictions : str
        Predictions of the test rows as CSV.
    tested : sequence of (str, ndarray, ndarray)
        Test rows by task, see `tested`; empty if the model was loaded from a folder.
    """

    model: Model
    result: dict[str, Any]
    predictions: str
    tested: Tested = ()

    def page(self) -> str:
        """Return ``report.html``."""
        description = self.model.description
        estimator = self.model.estimator
        coefficients = None
        if hasattr(estimator, "coef_"):
            names = transformed_names(self.model)
            coefficients = (np.asarray(estimator.coef_), names)
        return training_page(
            read_fields(TrainingResult, self.result),
            description.config,
            self.tested,
            coefficients,
            regression=self.model.is_regression,
        )


def fit_training(training: TrainingJob, dataset: Dataset, runner: Runner) -> Trained:
    """Train and evaluate a model on a data set in memory.

    Parameters
    ----------
    training : TrainingJob
    dataset : Dataset
        Data set of the job.
    runner : Runner
        Computes the search of the job and stores its record.

    Raises
    ------
    ConfigError
        If the method cannot be fitted as the file describes, or no candidate of its
        grid has a score.
    """
    job = training.job
    report = runner.progress.message
    with runner.working():
        runner.progress.start(len(job.folds))
        failed = runner.search([job])
    if failed:
        raise ConfigError(f"{training.source}: {training.estimator}: {failed[0].error}")
    choice = runner.choices.get(job.key, SearchResult())
    best_params = choice.chosen or {}
    report(f"fitting {' '.join([training.estimator, *_assignments(best_params)])}")
    try:
        fitted = fit_job(job, dataset, best_params)
        record = runner.finish_fit(job, fitted.record, fitted.scores)
        rows = counted(dataset.n_samples, "row")
        features = counted(dataset.n_features, "feature")
        tasks = counted(dataset.n_tasks, "task")
        n_train = fitted.part.train.n_samples
        n_test = fitted.part.test.n_samples
        report(
            f"{training.dataset_name}: {rows} ({n_train} for training, {n_test} for "
            f"testing), {features}, {tasks}"
        )
        result = {
            "schema": SCHEMA,
            "id": training.id,
            "dataset": training.dataset_name,
            "method": training.estimator,
            "status": record.status,
            "params": record.params,
            "metrics": record.metrics,
            "per_task": record.per_task,
            "counts": record.counts,
            "seconds": stored_fields(record.seconds),
            "solver": record.solver,
            "environment": record.environment,
            "log": record.log,
            "selection": stored_fields(record.selection),
            "refit": training.refit,
            "cell": record.key,
            "baseline": baseline_scores(fitted.part, job.scoring),
            "edits": dataset.edits,
        }
        changes = dict(best_params)
        if isinstance(training.refit, dict):
            changes |= training.refit
        params = with_params(job.method.params, changes)
        description = _description(training, dataset, fitted.model, record, params)
        # The test rows have been transformed already, so this model has no feature
        # step.
        tested_model = Model(fitted.model, None, description)
        tested_rows = tested_table(
            tested_model, fitted.part.test, fitted.part.test_rows
        )
        predictions = to_csv(tested_rows, safe=False)
        model = Model(fitted.model, fitted.step, description)
        if training.refit:
            report("refitting on all rows")
            all_rows = np.arange(dataset.n_samples)
            # There is nothing to test, but a data set needs at least one row.
            part = TrainTestData.of(dataset, all_rows, all_rows[:1])
            transformed, step = with_features(part, job.features)
            spec = {"estimator": job.method.estimator, "params": params}
            model = Model(transformed.fit(build(spec)), step, description)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{training.source}: {training.estimator}: {error}"
        ) from error
    return Trained(model, result, predictions, tested(fitted))


def _assignments(params: Mapping[str, Any]) -> list[str]:
    """Return texts such as ``alpha=1.0``."""
    return [f"{name}={value}" for name, value in params.items()]


def tested(fitted: Fitted) -> Tested:
    """Return the test rows by task: name, true values and scores.

    If each row belongs to one of several classes, a class counts as a task.
    """
    test = fitted.part.test
    scores = fitted.scores
    by_task = []
    if test.task_id is not None:
        for task in range(test.n_tasks):
            rows = test.task_id == task
            task_truth = test.y[rows]
            task_scores = scores[rows]
            by_task.append((test.tasks[task], task_truth, task_scores))
        return by_task
    if test.y.ndim == 1 and scores.ndim == 1:
        return [(test.tasks[0], test.y, scores)]
    truth = test.y
    if test.y.ndim == 1:
        # A column per class: whether the row belongs to it.
        classes = np.arange(scores.shape[1])
        truth = test.y[:, np.newaxis] == classes
    is_missing = np.isnan(np.asarray(truth, dtype=float))
    for task in range(truth.shape[1]):
        rows = ~is_missing[:, task]
        task_truth = truth[rows, task]
        task_scores = scores[rows, task]
        by_task.append((test.tasks[task], task_truth, task_scores))
    return by_task


def save_training(trained: Trained, folder: Path) -> None:
    """Write the files of a training into a folder: all of them or none.

    They replace the files of an earlier training.

    Raises
    ------
    UserError
        If the model cannot be stored without pickle.
    OSError
        If the folder cannot be written.
    """
    with publish(folder, obsolete=[COEFFICIENTS]) as new:
        write_atomic(
            new / CONFIG, file_json(jsonable(trained.model.description.config))
        )
        write_atomic(new / METRICS, file_json(jsonable(trained.result)))
        # A training on chunks of rows has no predictions.
        if trained.predictions:
            write_atomic(new / PREDICTIONS, trained.predictions)
        save_model(new, trained.model)


def check_settings(folder: Path, config: Mapping[str, Any], force: bool) -> None:
    """Refuse a folder with a model that was trained with other settings.

    Parameters
    ----------
    folder : Path
    config : mapping
        Present settings.
    force : bool
        Whether to replace such a model.

    Raises
    ------
    UserError
    """
    check_folder(folder)
    if force or not (folder / FACTS).exists():
        return
    try:
        before = read_facts(folder).config
    except DataError as error:
        raise UserError(f"{error.message}", "Add --force to replace it.") from None
    if before != jsonable(config):
        raise UserError(
            f"{folder} holds a model that was trained with other settings",
            "Add --force to replace it, choose another --output, or change the id in "
            "the file.",
        )


def up_to_date(folder: Path, training: TrainingJob) -> dict[str, Any] | None:
    """Return the results in a folder; None unless they are complete and up to date."""
    if not folder.is_dir():
        return None
    try:
        refuse_incomplete(folder)
        description = read_facts(folder)
        result = json.loads(read_text_file(folder / METRICS))
    except (DataError, OSError, ValueError):
        # Damaged files are replaced by training again.
        return None
    if description.cell != training.job.key:
        return None
    if description.config != jsonable(training.config):
        return None
    for name in (PREDICTIONS, CONFIG, *description.files):
        if not (folder / name).is_file():
            return None
    return result if isinstance(result, dict) else None


def load_trained(folder: Path, training: TrainingJob) -> Trained | None:
    """Return the saved result of an earlier training of the same job.

    None if there is no complete result, so that the job has to be trained.
    """
    try:
        result = up_to_date(folder, training)
        if result is None:
            return None
        predictions = read_text_file(folder / PREDICTIONS)
        return Trained(load_model(folder), result, predictions)
    except (UserError, OSError, ValueError):
        # The files are damaged, or contain types that only the user can trust.
        return None


def _description(
    training: TrainingJob,
    dataset: Dataset,
    estimator: BaseEstimator,
    record: Record,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of ``model.json``.

    Parameters
    ----------
    training : TrainingJob
    dataset : Dataset
    estimator : estimator
        Fitted.
    record : Record
        Of the fit.
    params : mapping
        Parameters of the saved model.
    """
    job = training.job
    design = "single"
    if dataset.task_id is not None:
        design = "ragged"
    elif dataset.y.ndim == 2:
        design = "shared"
    kind = None
    if job.features is not None:
        kind = job.features.kind
    # Further groups and the elapsed time are columns that the model reads, but not
    # features of the data set.
    read = with_last_columns(dataset, job.features)
    optional_inputs: dict[str, Any] = {}
    if kind == TABLE_WITH_LEVELS:
        optional_inputs["levels"] = list(read.levels)
    clock = dataset.clock
    if clock is not None and (clock.is_feature or kind == TABLE_WITH_ELAPSED):
        optional_inputs["clock"] = clock.to_dict()
    # Columns that predictions show next to the task, although no feature uses them.
    kept = [dataset.options.get(role) for role in ("time", "since_first", "group")]
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
            "table": kind in TABLE_KINDS,
            "ranges": training_ranges(read),
            "kept": [name for name in kept if name],
            **optional_inputs,
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
            "edits": dataset.edits,
        },
        "metrics": record.metrics,
        "config": training.config,
    }


# ---------------------------------------------------------------- report of a training

#: Largest number of tasks that have a color each.
MAX_COLORS = 7
#: Largest number of points of a scatter plot.
MAX_POINTS = 1500
#: Largest number of rows of the table of coefficients.
MAX_FEATURES = 20
#: Number of features that are shown for a task.
MAX_FEATURES_OF_TASK = 5
OWN_LINE = (
    "A task's own weight of a feature is its coefficient less the mean of all tasks, "
    "which they share."
)
ALL_TASKS_LABEL = "rows of all tasks"


def training_page(
    result: TrainingResult,
    config: Mapping[str, Any],
    tested: Tested,
    coefficients: tuple[np.ndarray, Sequence[str]] | None,
    *,
    regression: bool,
) -> str:
    """Return the page of a training as HTML.

    Parameters
    ----------
    result : TrainingResult
    config : mapping
        Content of the training file with its defaults.
    tested : sequence of (str, ndarray, ndarray)
        Test rows by task, see `tested`.
    coefficients : (ndarray of shape (n_tasks, n_features), sequence of str) or None
        Coefficients and the names of the features, which may be empty. None if the
        model has no coefficients.
    regression : bool
        Whether targets are numbers.
    """
    sections = [
        Section("Scores and baseline", [BASELINE_LINE], [score_table(result)]),
        Section("Parameters", grids=[_json_table("parameter", result.params)]),
        Section("Largest coefficients", *largest_coefficients(coefficients, tested)),
        Section("Scores per task", grids=[task_table(result, tested)]),
        Section("Settings", grids=[_json_table("setting", config)]),
    ]
    figures = []
    # A task of one label has no ROC curve, and equal targets make a vertical line.
    if any(len(np.unique(truth)) > 1 for _, truth, _ in tested):
        draw = prediction_figure if regression else roc_figure
        figures.append(draw(tested))
    panels = search_panels(result.selection)
    if panels:
        figures.append(Figure("search", "Search for the parameters", panels))
    method = str(result.method).rpartition(":")[2]
    title = f"{method} on {str(result.dataset).removeprefix(OWN_TABLE)}"
    summary: list[str | Styled] = []
    first = headline(result)
    if first is not None:
        summary.append(first)
    for line in baseline_warnings(result):
        # The headline has the first score already.
        score, _, _ = line.partition(":")
        if score not in str(first):
            summary.append(Styled(line, tone=WORSE))
    summary += parameter_lines(result)
    if first is None:
        # With a baseline, the table of scores begins the sections.
        summary += score_lines(result)
    return html_page(
        title,
        summary,
        [section for section in sections if not section.empty],
        figures,
        tones=STATUS_TONES | COMPARISON_TONES,
    )


def _json_table(name: str, values: Mapping[str, Any]) -> ReportTable:
    """Return a table of names and their values as JSON."""
    table = ReportTable.of(name, "value")
    for key, value in values.items():
        table.rows.append([key, json.dumps(value)])
    return table


def parameter_lines(result: TrainingResult) -> list[str]:
    """Return lines of text with the parameters that were selected."""
    lines = [*result.edits]
    selection = result.selection
    if selection.chosen is not None:
        params = ", ".join(_assignments(selection.chosen))
        score = f"{selection.metric} {selection.score:.4g}"
        lines.append(f"chosen: {params} (cross-validated {score})")
        for name, end in (selection.edges or {}).items():
            lines.append(
                f"  {name} is at the {end} end of its grid: consider widening it"
            )
    refit = result.refit
    if isinstance(refit, dict):
        params = ", ".join(_assignments(refit))
        lines.append(f"the saved model is fitted to all rows with: {params}")
    return lines


def score_lines(result: TrainingResult) -> list[str]:
    """Return lines of text with the scores and the time of the fit."""
    lines = []
    width = max(map(len, result.metrics))
    n_tasks = counted(result.counts["n_tasks"], "task")
    for name, mean in result.metrics.items():
        text = "undefined" if math.isnan(mean) else f"{mean:.4f}"
        line = f"{name:{width}}  {text}"
        n_undefined = result.counts[f"undefined_{name}"]
        if n_undefined:
            line += f"  (undefined for {n_undefined} of {n_tasks})"
        lines.append(line)
    lines.append(f"fitted in {result.seconds.fit:.3g} s")
    return lines


def prediction_figure(tested: Tested) -> Figure:
    """Return a figure of predictions over true values.

    If there are few tasks, each has a color. If there are many rows, only every n-th
    row is drawn.
    """
    n_rows = sum(len(truth) for _, truth, _ in tested)
    step = math.ceil(n_rows / MAX_POINTS)
    curves = []
    for name, truth, predicted in _groups(tested):
        x = np.asarray(truth, dtype=float)[::step]
        y = np.asarray(predicted, dtype=float)[::step]
        curves.append(Line(name, x.tolist(), y.tolist(), points="filled"))
    panel = Panel("predicted", False, curves, axis="true", x_log=False, diagonal=True)
    title = "Predictions of the test rows"
    if step > 1:
        title += f" (one of {step})"
    return Figure("predictions", title, [panel])


def roc_figure(tested: Tested) -> Figure:
    """Return a figure of ROC curves.

    If there are few tasks, each has a curve; otherwise one curve is over all rows.
    """
    # Imported here because it is slow.
    from sklearn.metrics import roc_curve

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
    """Return the tasks, or all rows as one task if there are not enough colors."""
    if len(tested) <= MAX_COLORS:
        return tested
    _, truths, scores = zip(*tested, strict=True)
    return [(ALL_TASKS_LABEL, np.concatenate(truths), np.concatenate(scores))]


def largest_coefficients(
    coefficients: tuple[np.ndarray, Sequence[str]] | None, tested: Tested
) -> tuple[list[str], list[ReportTable]]:
    """Return the lines and tables about the largest coefficients.

    The mean coefficient of a feature is the part that all tasks share. The difference
    from the mean is the own part of a task.
    """
    if coefficients is None:
        return [], []
    matrix = np.atleast_2d(coefficients[0])
    names = list(coefficients[1])
    if not names:
        names = [show(feature) for feature in range(matrix.shape[1])]
    n_tasks = len(matrix)
    lines = [f"Over {counted(n_tasks, 'task')}, of features as the model gets them."]
    size = np.abs(matrix).mean(axis=0)
    statistics = {
        "mean absolute value": size,
        "shared (mean)": matrix.mean(axis=0),
        "smallest": matrix.min(axis=0),
        "largest": matrix.max(axis=0),
    }
    table = ReportTable([Column("feature")])
    for head in statistics:
        table.columns.append(Column(head, "score"))
    values = np.stack(list(statistics.values()))
    by_size = np.argsort(-size, kind="stable")
    for feature in by_size[:MAX_FEATURES]:
        cells = values[:, feature].tolist()
        table.rows.append([names[feature], *cells])
    tables = [table]
    if n_tasks > 1:
        tasks = [str(task) for task in range(n_tasks)]
        if len(tested) == n_tasks:
            tasks = [name for name, *_ in tested]
        lines.append(OWN_LINE)
        table = ReportTable(
            [Column("task"), Column("coefficients furthest from the shared mean")]
        )
        differences_by_task = matrix - matrix.mean(axis=0)
        for task, differences in zip(tasks, differences_by_task, strict=True):
            largest = np.argsort(-np.abs(differences), kind="stable")
            texts = []
            for feature in largest[:MAX_FEATURES_OF_TASK]:
                if differences[feature]:
                    texts.append(f"{names[feature]} {differences[feature]:+.3g}")
            table.rows.append([task, ", ".join(texts) or "none"])
        tables.append(table)
    return lines, tables
