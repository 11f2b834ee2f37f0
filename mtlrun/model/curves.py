"""Curves of a saved smooth model: how its predictions depend on one column.

A curve is the partial dependence of the estimator: predictions averaged over rows of
training in which the column takes each of its values. Axes have the names and the units
of the table that the model was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.data.reading.names import separated
from mtlrun.engine.evaluation import innermost
from mtlrun.errors import UnknownNameError, UserError, listed
from mtlrun.features.table import TableFeatures
from mtlrun.model.files import Model, transformed_names
from mtlrun.show.pictures import PanelsPicture, TaskPanel

Array = np.ndarray[Any, np.dtype[Any]]

#: Largest number of curves of single tasks behind the common curve. If there are more
#: tasks, evenly spaced ones are drawn.
MAX_BACKGROUND_CURVES = 60
#: Largest number of tasks with a panel each, and their default number.
MAX_PANELS = 24
N_DEFAULT_TASKS = 3


@dataclass(frozen=True)
class ColumnCurve:
    """A curve with its pointwise 95% band, in the units of the table.

    Attributes
    ----------
    values : ndarray of shape (n_values,)
        Values of the column.
    mean, low, high : ndarray of shape (n_values,)
        Curve and band, in units of the target; log-odds for labels.
    """

    values: Array
    mean: Array
    low: Array
    high: Array

    @property
    def line(self) -> list[tuple[float, float]]:
        """Points of the curve."""
        return list(zip(self.values.tolist(), self.mean.tolist(), strict=True))

    @property
    def band(self) -> list[tuple[float, float, float]]:
        """Points of the band."""
        columns = (self.values.tolist(), self.low.tolist(), self.high.tolist())
        return list(zip(*columns, strict=True))


class ModelCurves:
    """Curves of one column of a model.

    Parameters
    ----------
    folder : Path
        Folder of the model, for messages.
    model : Model
    column : str
        Name of a column of numbers; its position if columns have no names.

    Raises
    ------
    UnknownNameError
        If the model has no such column.
    UserError
        If the model has no curves, or the column holds categories or is constant.
    """

    def __init__(self, folder: Path, model: Model, column: str | None) -> None:
        self.model = model
        self.folder = folder
        self.estimator = innermost(model.estimator)
        if not hasattr(self.estimator, "partial_dependence"):
            raise UserError(
                f"{folder}: {type(self.estimator).__name__} is not a smooth model, and "
                "has no curves",
                "SmoothMTL has; --kind task draws the lines of any model.",
            )
        self.tasks: list[str] = list(model.description.tasks)
        #: Whether each task is a target that has its own unit.
        self.has_targets_as_tasks = not model.ragged
        self._column_position, self.column = number_column(model, column)
        # Position of the feature that the column became.
        self._position = self._column_position
        step = model.step
        can_invert = isinstance(step, TableFeatures) or hasattr(
            step, "inverse_transform"
        )
        features = list(transformed_names(model))
        if can_invert and self.column in features:
            self._position = features.index(self.column)
        elif step is not None and (features or not can_invert):
            raise UserError(
                f"{folder}: the features of this model are not its columns",
                "Train it with features of kind table, standardize, max-abs or min-max.",
            )
        task = None
        if self.has_targets_as_tasks:
            task = self.estimator.tasks_[0]
        try:
            self._values: Array = self.estimator.partial_dependence(
                self._position, task=task
            ).values
        except ValueError as error:
            raise UserError(
                f"{folder}: {error}", "Name another column with --column."
            ) from None

    def original_values(self) -> Array:
        """Return the values of the column in its original units."""
        step = self.model.step
        if step is None:
            return self._values
        if isinstance(step, TableFeatures):
            return step.original_values(self._column_position, self._values)
        # Scalers treat each column by itself: what the others hold does not matter.
        n_features = self.model.description.input.n_features
        features = np.zeros((len(self._values), n_features))
        features[:, self._position] = self._values
        return np.asarray(step.inverse_transform(features)[:, self._position])

    def curve(self, task: int | None) -> ColumnCurve:
        """Return the curve of a task by its position; of all tasks for None."""
        estimator = self.estimator
        fitted_task = None
        if task is not None:
            fitted_task = estimator.tasks_[task]
        dependence = estimator.partial_dependence(
            self._position, task=fitted_task, values=self._values
        )
        low, high = dependence.interval(0.95)
        center = 0.0
        scale = 1.0
        outer = self.model.estimator
        if self.model.is_regression and hasattr(outer, "scale_"):
            # Unless tasks are targets, they share one center and scale.
            index = 0
            if self.has_targets_as_tasks and task is not None:
                index = task
            center = float(outer.center_[index])
            scale = float(outer.scale_[index])
        return ColumnCurve(
            values=self.original_values(),
            mean=center + scale * dependence.mean,
            low=center + scale * low,
            high=center + scale * high,
        )

    def quantity(self, task: int | None) -> str:
        """Return the label of the vertical axis."""
        description = self.model.description
        if self.has_targets_as_tasks and task is not None:
            name = self.tasks[task]
        else:
            name = (description.targets or ["prediction"])[0]
        if self.model.is_regression:
            return str(name)
        labels = next(iter(self.model.words.values()))
        if self.has_targets_as_tasks:
            return f"log-odds of {name}"
        return f"log-odds of {name} = {labels[1]}"


def number_column(model: Model, column: str | None) -> tuple[int, str]:
    """Return the position and the name of a column of numbers of a model.

    Parameters
    ----------
    model : Model
    column : str or None
        Name of the column; its position if columns have no names. None for the first
        column of numbers.

    Raises
    ------
    UnknownNameError
        If the model has no such column.
    UserError
        If the column holds categories, or no column holds numbers.
    """
    inputs = model.description.input
    names = list(inputs.names)
    if not names:
        names = list(map(str, range(inputs.n_features)))
    numbers = [name for name in names if name not in inputs.categories]
    if not numbers:
        raise UserError(
            "the model has no column of numbers", "Draw another --kind of picture."
        )
    if column is None:
        column = numbers[0]
    if column in inputs.categories:
        raise UserError(
            f"column {column!r} holds categories, and a line needs numbers",
            f"Columns of numbers: {listed(numbers)}. To compare categories, predict rows "
            "that differ in it: mtlrun predict.",
        )
    roles = {inputs.task_column: "tasks"}
    roles |= dict.fromkeys(model.description.targets, "targets")
    if column in roles and column not in names:
        raise UserError(
            f"column {column!r} holds the {roles[column]} of the model, and a line is "
            "drawn over a feature",
            f"Columns of numbers: {listed(numbers)}.",
        )
    if column not in names:
        raise UnknownNameError("column of the model", column, numbers)
    return names.index(column), column


def checked_tasks(texts: Sequence[str], tasks: Sequence[str]) -> list[int]:
    """Return the positions of tasks, named one by one or separated by commas.

    Raises
    ------
    UnknownNameError
        If the model has no such task.
    UserError
        If there are too many for one figure.
    """
    names: list[str] = []
    for text in [texts] if isinstance(texts, str) else texts:
        names += separated(str(text), tasks)
    for name in names:
        if name not in tasks:
            raise UnknownNameError("task of the model", name, tasks)
    names = list(dict.fromkeys(names))
    if len(names) > MAX_PANELS:
        raise UserError(
            f"--tasks names {len(names)} tasks; a figure shows at most {MAX_PANELS}",
            "Draw several figures.",
        )
    return [tasks.index(name) for name in names]


def curve_picture(
    folder: Path,
    model: Model,
    column: str | None = None,
    tasks: Sequence[str] | None = None,
) -> PanelsPicture:
    """Return the curves of a column, of all and of single tasks, with 95% bands.

    Parameters
    ----------
    folder : Path
        Folder of the model, for messages.
    model : Model
    column : str, optional
        Default: the first column of numbers.
    tasks : sequence of str, optional
        Tasks with a panel each. Default: the tasks with the lowest, the middle and the
        highest curve.

    Returns
    -------
    PanelsPicture
        All tasks, then single tasks, with the same axes. If each task is a target that
        has its own unit, a panel per target.

    Raises
    ------
    UnknownNameError, UserError
        As `ModelCurves`, and for unknown tasks.
    """
    curves = ModelCurves(folder, model, column)
    has_targets = curves.has_targets_as_tasks
    n_tasks = len(curves.tasks)
    if has_targets:
        names = tasks or curves.tasks[:MAX_PANELS]
        selected = checked_tasks(names, curves.tasks)
        by_task = {task: curves.curve(task) for task in selected}
        common = None
    else:
        selected = checked_tasks(tasks or [], curves.tasks)
        n_shown = min(n_tasks, MAX_BACKGROUND_CURVES)
        # Evenly spaced tasks, as curves of thousands would only fill the panel.
        places = np.linspace(0, n_tasks - 1, n_shown).round().astype(int)
        background = places.tolist()
        by_task = {task: curves.curve(task) for task in {*background, *selected}}
        common = curves.curve(None)
    if not selected:
        # From the lowest curve to the highest, evenly spaced in this order.
        by_height = sorted(background, key=lambda task: by_task[task].mean.mean())
        n_selected = min(n_shown, N_DEFAULT_TASKS)
        places = np.linspace(0, n_shown - 1, n_selected).round().astype(int)
        selected = [by_height[place] for place in places]
    panels = []
    if common is not None:
        note = "gray: single tasks"
        if n_shown < n_tasks:
            note = f"gray: {n_shown} of {n_tasks} tasks"
        lines = {"multi-task": common.line}
        behind = [by_task[task].line for task in background]
        panels.append(TaskPanel("all tasks", note, [], [], lines, common.band, behind))
    for task in selected:
        lines = {"multi-task": by_task[task].line}
        if common is not None:
            lines["pooled"] = common.line
        name = curves.tasks[task]
        panels.append(TaskPanel(name, "", [], [], lines, by_task[task].band))
    quantity = "target" if has_targets else curves.quantity(None)
    return PanelsPicture(
        f"{model.description.estimator.method}: {quantity} over {curves.column}",
        curves.column,
        quantity,
        panels,
        "Curves of a column with their 95% bands.",
        shares_axes=not has_targets,
        labels={"multi-task": "curve, 95% band", "pooled": "all tasks"},
    )


def variances_line(model: Model) -> str | None:
    """Return the shares of the parts in the variance of the target as a sentence.

    Parts that explain less than half a percent are left out. Shares of several targets
    are averaged. None for a model without parts.
    """
    shares = getattr(innermost(model.estimator), "variance_shares_", None)
    if not isinstance(shares, dict):
        return None
    averages = {name: float(np.mean(share)) for name, share in shares.items()}
    parts = sorted(averages.items(), key=lambda item: -item[1])
    texts = [f"{name} {share:.0%}" for name, share in parts if share >= 0.005]
    return f"shares of the variance: {', '.join(texts)}"
