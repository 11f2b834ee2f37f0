"""Curves of a saved smooth model: how its predictions depend on one column.

A curve is the partial dependence of the estimator: predictions averaged over rows of
training in which the column takes each of its values. Axes have the names and the units
of the table that the model was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.data.reading.names import separated
from mtlrun.engine.evaluation import innermost
from mtlrun.errors import UnknownNameError, UserError, listed
from mtlrun.features.table import TableFeatures
from mtlrun.model.files import Model, transformed_names
from mtlrun.show.figures import Line, Panel

Array = np.ndarray[Any, np.dtype[Any]]

#: Largest number of curves of single tasks behind the common curve. If there are more
#: tasks, evenly spaced ones are drawn.
MAX_BACKGROUND_CURVES = 60
#: Largest number of tasks with a panel each, and their default number.
MAX_PANELS = 24
N_DEFAULT_TASKS = 3
#: Free space above and below the curves, as a share of their range.
MARGIN = 0.05


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

    def line(self, label: str, place: int) -> Line:
        """Return the curve with its band."""
        return Line(
            label,
            self.values.tolist(),
            self.mean.tolist(),
            low=self.low.tolist(),
            high=self.high.tolist(),
            place=place,
            smooth=True,
        )

    def background(self, label: str) -> Line:
        """Return the curve as one of many behind the others."""
        return Line(label, self.values.tolist(), self.mean.tolist(), background=True)


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
        self.tasks: list[str] = list(model.about["tasks"])
        #: Whether each task is a target that has its own unit.
        self.has_targets_as_tasks = not model.ragged
        self._column_position, self.column = number_column(model, column)
        self._position = self._feature_position(self.column)
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

    def _feature_position(self, column: str) -> int:
        """Return the position of the feature that a column became."""
        step = self.model.step
        can_invert = isinstance(step, TableFeatures) or hasattr(
            step, "inverse_transform"
        )
        features = list(transformed_names(self.model))
        if step is None or (can_invert and not features):
            return self._column_position
        if can_invert and column in features:
            return features.index(column)
        raise UserError(
            f"{self.folder}: the features of this model are not its columns",
            "Train it with features of kind table, standardize, max-abs or min-max.",
        )

    def original_values(self) -> Array:
        """Return the values of the column in its original units."""
        step = self.model.step
        if step is None:
            return self._values
        if isinstance(step, TableFeatures):
            return step.original_values(self._column_position, self._values)
        # Scalers treat each column by itself: what the others hold does not matter.
        n_features = self.model.about["input"]["n_features"]
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
        if self.model.about["task_type"] == "regression" and hasattr(outer, "scale_"):
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
        facts = self.model.about
        if self.has_targets_as_tasks and task is not None:
            name = self.tasks[task]
        else:
            name = (facts.get("targets") or ["prediction"])[0]
        if facts["task_type"] == "regression":
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
    inputs = model.about["input"]
    names = list(inputs["names"])
    if not names:
        names = list(map(str, range(inputs["n_features"])))
    categories = inputs.get("categories") or {}
    numbers = [name for name in names if name not in categories]
    if not numbers:
        raise UserError(
            "the model has no column of numbers", "Draw another --kind of picture."
        )
    if column is None:
        column = numbers[0]
    if column in categories:
        raise UserError(
            f"column {column!r} holds categories, and a line needs numbers",
            f"Columns of numbers: {listed(numbers)}. To compare categories, predict rows "
            "that differ in it: mtlrun predict.",
        )
    roles = {inputs.get("task_column"): "tasks"}
    roles |= dict.fromkeys(model.about.get("targets") or [], "targets")
    if column in roles and column not in names:
        raise UserError(
            f"column {column!r} holds the {roles[column]} of the model, and a line is "
            "drawn over a feature",
            f"Columns of numbers: {listed(numbers)}.",
        )
    if column not in names:
        raise UnknownNameError("column of the model", column, numbers)
    return names.index(column), column


def method_name(facts: Mapping[str, Any]) -> str:
    """Return the method of a model, without wrappers that scale targets.

    Parameters
    ----------
    facts : mapping
        Content of ``model.json``.
    """
    estimator = facts["estimator"] or {}
    name = estimator.get("name") or ""
    parameters = estimator.get("params") or {}
    inner = parameters.get("estimator")
    while isinstance(inner, Mapping):
        name = inner["estimator"]
        parameters = inner.get("params") or {}
        inner = parameters.get("estimator")
    return str(name).rpartition(":")[2]


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


def curve_panels(
    folder: Path,
    model: Model,
    column: str | None = None,
    tasks: Sequence[str] | None = None,
) -> list[Panel]:
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
    list of Panel
        All tasks, then single tasks, with the same vertical axis. If each task is a
        target that has its own unit, a panel per target.

    Raises
    ------
    UnknownNameError, UserError
        As `ModelCurves`, and for unknown tasks.
    """
    curves = ModelCurves(folder, model, column)
    if curves.has_targets_as_tasks:
        names = tasks or curves.tasks[:MAX_PANELS]
        positions = checked_tasks(names, curves.tasks)
        return [_target_panel(curves, task) for task in positions]
    selected: list[int] = []
    if tasks:
        selected = checked_tasks(tasks, curves.tasks)
    n_tasks = len(curves.tasks)
    n_shown = min(n_tasks, MAX_BACKGROUND_CURVES)
    # Evenly spaced tasks, as curves of thousands would only fill the panel.
    background_tasks = np.linspace(0, n_tasks - 1, n_shown).round().astype(int).tolist()
    by_task = {task: curves.curve(task) for task in background_tasks}

    def height(task: int) -> float:
        return float(by_task[task].mean.mean())

    if not tasks:
        # From the lowest curve to the highest, evenly spaced in this order.
        by_height = sorted(background_tasks, key=height)
        n_selected = min(n_shown, N_DEFAULT_TASKS)
        places = np.linspace(0, n_shown - 1, n_selected).round().astype(int)
        selected = [by_height[place] for place in places]
    for task in selected:
        # Tasks that the user names may not be among the gray ones.
        if task not in by_task:
            by_task[task] = curves.curve(task)
    common = curves.curve(None)
    gray_label = "curves of single tasks"
    if n_shown < n_tasks:
        gray_label = f"curves of {n_shown} of {n_tasks} tasks"
    lines = [by_task[task].background(gray_label) for task in background_tasks]
    common_line = common.line("all tasks, 95% band", 0)
    quantity = curves.quantity(None)
    drawn = [common.low, common.high]
    drawn += [by_task[task].mean for task in background_tasks]
    for task in selected:
        drawn += [by_task[task].low, by_task[task].high]
    # The same for all panels, so that their curves compare.
    limits = _limits(drawn)
    panels = [
        Panel(
            quantity,
            log=False,
            curves=[*lines, common_line],
            axis=curves.column,
            title="all tasks",
            limits=limits,
        )
    ]
    reference = Line(
        common_line.label, common_line.x, common_line.y, place=0, smooth=True
    )
    for task in selected:
        line = by_task[task].line("one task, 95% band", 3)
        panels.append(
            Panel(
                quantity,
                log=False,
                curves=[reference, line],
                axis=curves.column,
                title=curves.tasks[task],
                limits=limits,
            )
        )
    return panels


def _target_panel(curves: ModelCurves, task: int) -> Panel:
    line = curves.curve(task).line("one target, 95% band", 3)
    return Panel(
        curves.quantity(task),
        log=False,
        curves=[line],
        axis=curves.column,
        title=curves.tasks[task],
    )


def _limits(drawn: Sequence[Array]) -> tuple[float, float]:
    """Return the ends of an axis that shows all these curves."""
    low = min(float(values.min()) for values in drawn)
    high = max(float(values.max()) for values in drawn)
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


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
