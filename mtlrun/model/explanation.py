"""Sentences about a saved model: what it is, how it predicts, what explains the target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtlrun.engine.evaluation import innermost
from mtlrun.errors import counted, listed
from mtlrun.estimators.baselines import LastValue, PerTask, TaskMean
from mtlrun.estimators.summary import summary_lines
from mtlrun.features.table import TableFeatures
from mtlrun.model.curves import variances_line
from mtlrun.model.files import Model, load_model, read_facts, transformed_names
from mtlrun.show.report_table import number

#: Features with a line of their own: those with the largest mean absolute coefficient.
MAX_FEATURES = 5
#: Tasks whose means are listed, and whose coefficients are.
MAX_TASKS = 10
MAX_TASKS_IN_LINE = 4


def prediction_lines(model: Model) -> list[str]:
    """Return how a prediction comes about, with the numbers that it is made of.

    Empty for models that predict no simple sum, such as trees and curves.
    """
    estimator = innermost(model.estimator)
    # Names as in the user's table.
    tasks = [str(task) for task in model.description.tasks]
    scale_note = ""
    if model.description.transform:
        scale_note = f"; on the scale of {model.description.transform}"
    if isinstance(estimator, TaskMean):
        rows = np.zeros((len(tasks), estimator.n_features_in_))
        if model.ragged:
            positions = np.arange(len(tasks))
            means = np.asarray(model.estimator.predict(rows, task_id=positions))
        else:
            means = np.asarray(model.estimator.predict(rows))[0]
        if not model.is_regression:
            # Labels are -1 and +1: the share of positive rows.
            means = (1 + means) / 2
        texts = []
        for task, value in zip(tasks, means.tolist(), strict=True):
            texts.append(f"{task} {value:.4g}")
        n_more = len(tasks) - MAX_TASKS
        if n_more > 0:
            texts = texts[:MAX_TASKS]
            texts.append(f"and {n_more} more")
        values_text = ", ".join(texts)
        task_values = f"  {values_text}{scale_note}"
        return [
            "prediction: the mean of the task in its training rows; no column is used",
            task_values,
        ]
    if isinstance(estimator, LastValue):
        line = "prediction: the last value of the task; no column is used"
        if estimator.drift:
            line = (
                "prediction: the line through the first and the last value of the "
                "task, at the time of the new row"
            )
        return [line]
    coef = getattr(model.estimator, "coef_", None)
    if coef is None or np.ndim(coef) != 2:
        return []
    coef = np.asarray(coef, dtype=float)
    unit = ""
    if isinstance(model.step, TableFeatures):
        unit = (
            "; columns of numbers are standardized: a coefficient is the change for "
            "the step in brackets"
        )
    quantity = "prediction"
    if not model.is_regression:
        quantity = "score (its sign is the label)"
        if hasattr(model.estimator, "predict_proba"):
            quantity = "log-odds"
    lines = [
        f"{quantity} = intercept of the task + sum of coefficient x value of "
        f"each feature{unit}{scale_note}"
    ]
    n_features = coef.shape[1]
    intercept = getattr(model.estimator, "intercept_", None)
    if intercept is not None and np.shape(intercept) == (len(tasks),):
        lines.append(_range_line("intercept", np.asarray(intercept), tasks))
    names = [str(name) for name in transformed_names(model)]
    if len(names) != n_features:
        names = [f"feature {index}" for index in range(n_features)]
    # Targets on the same rows have units of their own: the coefficients of each task are
    # compared with its largest one.
    magnitudes = np.abs(coef)
    maxima = magnitudes.max(axis=1, keepdims=True)
    # A task without coefficients keeps its zeros.
    divisors = np.where(maxima > 0, maxima, np.ones_like(maxima))
    sizes = (magnitudes / divisors).mean(axis=0)
    order = np.argsort(-sizes, kind="stable")[:MAX_FEATURES]
    largest = order[sizes[order] > 0].tolist()
    for j in largest:
        name = names[j]
        if step := step_of(model, name):
            name = f"{name} (per {step})"
        lines.append(_range_line(name, coef[:, j], tasks))
    n_others = n_features - len(largest)
    if n_others > 0:
        lines.append(f"  and {counted(n_others, 'feature')} with smaller coefficients")
    return lines


def step_of(model: Model, name: str) -> str | None:
    """Return the step of a scaled column of numbers: one standard deviation.

    None for categories, and for columns that are not scaled.
    """
    names = model.description.input.names
    is_number = name in names and name not in model.description.input.categories
    if not is_number or not isinstance(model.step, TableFeatures):
        return None
    values = model.step.original_values(names.index(name), np.array([0.0, 1.0]))
    return number(values[1] - values[0], 3)


def _range_line(name: str, values: np.ndarray, tasks: Sequence[str]) -> str:
    """Return the coefficients of all tasks; for many tasks their range and median."""
    low = int(np.argmin(values))
    high = int(np.argmax(values))
    if values[low] == values[high]:
        return f"  {name}: {values[low]:.3g} in every task"
    if len(tasks) <= MAX_TASKS_IN_LINE:
        pairs = zip(tasks, values.tolist(), strict=True)
        texts = [f"{value:.3g} ({task})" for task, value in pairs]
        return f"  {name}: {', '.join(texts)}"
    middle = float(np.median(values))
    return (
        f"  {name}: from {values[low]:.3g} ({tasks[low]}) to {values[high]:.3g} "
        f"({tasks[high]}), median {middle:.3g}"
    )


#: Targets on the same rows whose parts are tested; of more, the first ones.
MAX_TESTED_TARGETS = 3


def part_lines(model: Model) -> list[str]:
    """Return the shares of the parts in the variance, and a likelihood-ratio test each.

    What limits the fit follows. Empty for a model without parts.
    """
    shares = variances_line(model)
    if shares is None:
        return []
    estimator = innermost(model.estimator)
    lines = [shares]
    mixture = getattr(estimator, "mixture_", None)
    if mixture is not None:
        texts = [f"{name} {np.mean(weight):.0%}" for name, weight in mixture.items()]
        lines.append(f"mixed predictions, mean weights: {', '.join(texts)}")
    if not hasattr(estimator, "part_tests"):
        return lines
    names = dict(
        zip(estimator.tasks_.tolist(), map(str, model.description.tasks), strict=True)
    )
    tested = list(names)[:MAX_TESTED_TARGETS]
    for test in estimator.part_tests():
        if test.task is None:
            lines.append(test.sentence)
        elif test.task in tested:
            lines.append(f"{names[test.task]}: {test.sentence}")
    return [*lines, *estimator.notes()]


def saved_part_lines(folder: Path) -> list[str]:
    """Return `part_lines` of the model in a folder, which is loaded if it has parts."""
    if not read_facts(folder).estimator.mentions("Smooth"):
        return []
    return part_lines(load_model(folder))


def model_lines(model: Model) -> list[str]:
    """Return what a model is, what it was trained on, and how it predicts."""
    description = model.description
    tasks = list(map(str, description.tasks))
    names = list(map(str, description.input.names))
    lines: list[str] = []
    title = description.config.get("title")
    if title:
        lines.append(str(title))
    estimator = innermost(model.estimator)
    method = type(estimator).__name__
    if isinstance(estimator, PerTask):
        method = f"a {type(estimator.estimator).__name__} per task"
    lines += [
        f"method: {method} ({description.task_type})",
        f"tasks: {counted(len(tasks), 'task')} ({listed(tasks)})",
    ]
    features = counted(description.input.n_features, "feature")
    if names:
        features += f" ({listed(names)})"
    lines.append(f"features: {features}")
    lines += [*prediction_lines(model), *part_lines(model)]
    if hasattr(estimator, "summary"):
        columns = model.step.get_feature_names_out(names or None)
        positions = map(str, range(len(columns)))
        summary = estimator.summary().rename(
            index=dict(zip(positions, map(str, columns), strict=True)), level="name"
        )
        title = "summary, for columns as they are prepared"
        scale = np.unique(getattr(model.estimator, "scale_", [1.0]))
        if len(scale) == 1 and scale[0] != 1:
            title += f" and the target in units of {scale[0]:.4g}"
        lines += [f"{title}:", *summary_lines(summary)]
    return lines
