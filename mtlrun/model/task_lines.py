"""One task's data over a column, with the lines of all strategies.

`task_picture` shows the rows of a task, the lines of a model of this task alone, of one
model for all tasks and of the fitted model, and the lines of the other tasks behind.
Lines and points have the units of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import config_context

from mtlrun.catalog.registry import METHODS, build
from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.load import load_dataset
from mtlrun.engine.evaluation import TrainTestData, innermost
from mtlrun.errors import DataError, UserError, counted
from mtlrun.model.curves import checked_tasks, number_column
from mtlrun.model.files import load_model
from mtlrun.model.fitted import Model
from mtlrun.problem.taskdata import dense
from mtlrun.show.palette import STRATEGIES
from mtlrun.show.pictures import PanelsPicture, TaskPanel

Array = np.ndarray

#: Default number of tasks, and largest number of lines of other tasks. If there are
#: more tasks, evenly spaced ones are drawn.
N_DEFAULT_TASKS = 6
MAX_BACKGROUND_LINES = 60
N_GRID = 60
#: A penalty so small that ridge regression is least squares.
LEAST_SQUARES = {"alpha": 1e-6}
#: Methods of the other lines, next to the line of the model, in the order of `STRATEGIES`, by
#: whether it is smooth and whether targets are labels.
ALTERNATIVES: dict[tuple[bool, bool], tuple[str | dict[str, Any], ...]] = {
    (False, False): (
        {"estimator": "IndependentRidge", "params": LEAST_SQUARES},
        {"estimator": "PooledRidge", "params": LEAST_SQUARES},
        "HierarchicalMTL",
    ),
    (False, True): (
        "IndependentLogistic",
        "PooledLogistic",
        "HierarchicalMTLClassifier",
    ),
    (True, False): ("SmoothIndependent", "SmoothPooled", "SmoothMTL"),
    (True, True): (
        "SmoothIndependentClassifier",
        "SmoothPooledClassifier",
        "SmoothMTLClassifier",
    ),
}
#: Panels share their axes unless the values of one span less than this share of those
#: of all.
MIN_SHARE_OF_AXIS = 0.2
#: Methods whose line lies between the lines of the task and of all tasks.
PARTIAL = ("HierarchicalMTL", "SmoothMTL")
#: Half the length of a 95% band in standard deviations.
HALF_LENGTH = 1.96


def training_rows(folder: Path, model: Model, data_dir: Path | None = None) -> Dataset:
    """Return the rows that a saved model was fitted on.

    The model of a comparison has them in the folder ``data`` next to it. Other models
    were fitted on a data set of the data directory.

    Raises
    ------
    UserError
        If they are not there, or have changed since.
    """
    stored = model.description.dataset
    homes = [data_dir, folder.resolve().parent / "data"]
    reason = "the model does not say which rows it was fitted on"
    for home in homes:
        try:
            dataset = load_dataset(stored.id, data_dir=home, **stored.options)
        except (UserError, OSError, KeyError) as error:
            reason = getattr(error, "message", str(error))
            continue
        if dataset.fingerprint == stored.fingerprint:
            return dataset
        reason = f"data set {stored.id} has changed since the model was fitted"
    raise UserError(
        f"{folder}: the rows of the tasks are not at hand: {reason}",
        "Name the folder of the data with --data-dir, or fit the model again.",
    )


def plot_task(
    model: Model | str | Path,
    tasks: Sequence[str] | None = None,
    *,
    column: str | None = None,
    table: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the rows of tasks over a column, with the lines of all strategies.

    Each panel shows a task: its rows, the lines of a model of this task alone, of one
    model for all tasks and of the fitted model with its 95% band, and the lines of the
    other tasks behind. Lines hold for the typical values of the other columns in the
    task.

    Parameters
    ----------
    model : Model or path
        Model, or the folder of a saved one.
    tasks : sequence of str, optional
        At most 24. Default: six tasks, evenly spaced by their number of rows.
    column : str, optional
        Column of numbers. Default: the first one.
    table : data frame, optional
        The table that the model was fitted on, with its targets. Default: the rows
        that lie next to a saved model.
    ax : matplotlib Axes, optional
        Its area is filled with the panels. Default: a new figure.

    Returns
    -------
    ndarray of Axes
        One per task.

    Raises
    ------
    UnknownNameError
        If there is no such task or column.
    UserError
        If there are no rows, the table has other tasks or categories than the model,
        the column holds categories, there are too many tasks, or the model predicts no
        probabilities.

    Examples
    --------
    >>> from mtlrun import load_model, plot_task
    >>> model = load_model("results/runs/compare/gapminder/model")  # doctest: +SKIP
    >>> plot_task(model, ["Chile"], column="year", table=frame)  # doctest: +SKIP
    """
    # matplotlib takes long to import.
    from mtlrun.show.drawing import draw_in_notebook

    folder = None
    if not isinstance(model, Model):
        folder = Path(model)
        model = load_model(folder)
    if table is not None:
        dataset = model.dataset(table)
        if (dataset.tasks, dataset.categories) != (
            model.task_names,
            dict(model.schema.categories),
        ):
            raise DataError(
                "the table has other tasks or categories than the model",
                "Give the table that the model was fitted on, with all its rows.",
            )
    elif folder is None:
        raise UserError(
            "a model in memory does not keep its rows",
            "Give the table that it was fitted on: plot_task(model, table=...).",
        )
    else:
        dataset = training_rows(folder, model)
    return draw_in_notebook(task_picture(model, dataset, column, tasks), ax)


def task_picture(
    model: Model,
    dataset: Dataset,
    column: str | None = None,
    tasks: Sequence[str] | None = None,
) -> PanelsPicture:
    """Return the points and lines of tasks over a column.

    Lines hold for the typical row of a task: the mean of its other columns of numbers,
    and its most frequent categories. They run over the values that the task has.

    Parameters
    ----------
    model : Model
    dataset : Dataset
        Rows that the model was fitted on.
    column : str, optional
        Default: the first column of numbers.
    tasks : sequence of str, optional
        At most 24. Default: six tasks, evenly spaced by their number of rows.

    Raises
    ------
    UnknownNameError
        If there is no such column or task.
    UserError
        If the column holds categories, there are too many tasks, rows belong to classes
        or have no columns, or the model predicts no probabilities.
    """
    return _TaskLines(model, dataset, column).picture(tasks)


class _TaskLines:
    """Points and lines of the tasks of a model over one column."""

    def __init__(self, model: Model, dataset: Dataset, column: str | None) -> None:
        if dataset.task_type == "multiclass" or dataset.strings:
            raise UserError(
                "rows that belong to one of several classes, and texts, have no line "
                "over a column",
                "Use --kind coefficients or tasks.",
            )
        schema = model.schema
        dataset = dataset.with_levels()
        clock = schema.clock
        if clock is not None and clock.last_column in schema.features:
            dataset = dataset.with_elapsed()
        self.model = model
        self.dataset = dataset
        self.has_labels = not model.is_regression
        self.position, self.column = number_column(model, column)
        self.X: Array = dense(dataset.X)
        if self.X.shape[1] != schema.n_features:
            raise DataError(
                f"the table has {counted(self.X.shape[1], 'feature')}, but the model "
                f"needs {schema.n_features}",
                "Use the rows that the model was fitted on.",
            )
        y = np.asarray(dataset.y, dtype=float)
        if self.has_labels:
            y = np.where(np.isnan(y), np.nan, y > 0)
        else:
            y = model.in_units(y)
        self.y = y.reshape(len(y), -1)
        #: The method, and its strategy: the best method of a comparison may be a
        #: separate or a pooled one.
        self.method = model.description.estimator.method
        self.strategy = "separate"
        if self.method in METHODS and METHODS[self.method].multitask:
            self.strategy = "multi-task"
        elif "Pooled" in self.method:
            self.strategy = "pooled"

    @cached_property
    def models(self) -> Mapping[str, Model]:
        """Models of the strategies, with the feature step of the fitted model."""
        kind = (self.method.startswith("Smooth"), self.has_labels)
        estimators = dict(zip(STRATEGIES, ALTERNATIVES[kind], strict=True))
        step = self.model.step
        ready = replace(self.dataset, X=self.X)
        if step is not None:
            with config_context(transform_output="default"):
                ready = replace(ready, X=step.transform(self.X), features=[])
        rows = np.arange(ready.n_samples)
        part = TrainTestData.of(ready, rows, rows[:1])
        metadata = self.model.about
        models = {self.strategy: self.model}
        for name, estimator in estimators.items():
            if name != self.strategy:
                fitted = part.fit(build(estimator))
                models[name] = Model(fitted, step, metadata)
        return {name: models[name] for name in STRATEGIES}

    def rows_of(self, task: int) -> Array:
        """Return the positions of the rows of a task."""
        if self.dataset.task_id is None:
            is_present = np.isfinite(self.y[:, task])
            return np.flatnonzero(is_present)
        return np.flatnonzero(self.dataset.task_id == task)

    def typical_rows(self, task: int) -> Array:
        """Return the typical row of a task at values over the range of the column."""
        X = self.X[self.rows_of(task)]
        row = np.full(self.X.shape[1], np.nan)
        schema = self.model.schema
        names = schema.features or range(len(row))
        for j in range(len(row)):
            values = X[np.isfinite(X[:, j]), j]
            if not values.size:
                continue
            if names[j] in schema.categories:
                codes, counts = np.unique(values, return_counts=True)
                row[j] = codes[counts.argmax()]
            else:
                row[j] = values.mean()
        values = X[np.isfinite(X[:, self.position]), self.position]
        if not values.size or values.min() == values.max():
            # A task with a single value gets the range of all tasks.
            values = self.X[np.isfinite(self.X[:, self.position]), self.position]
        rows = np.tile(row, (N_GRID, 1))
        grid = np.linspace(values.min(), values.max(), N_GRID)
        rows[:, self.position] = grid
        return rows

    def line(self, strategy: str, task: int) -> list[tuple[float, float]]:
        """Return the line of a strategy; empty if a task has too few rows for its own.

        Least squares need more rows than coefficients.
        """
        n_coefficients = self.X.shape[1] + 1
        is_short = len(self.rows_of(task)) <= n_coefficients
        has_limit = strategy == "separate" and strategy != self.strategy
        if has_limit and not self.has_labels and is_short:
            return []
        rows = self.typical_rows(task)
        model = self.models[strategy]
        ids = None
        if self.dataset.task_id is not None:
            ids = np.full(N_GRID, task)
        if self.has_labels:
            values = model.probabilities(rows, ids)
        else:
            values = model.in_units(model.scores(rows, ids))
        predicted = values.reshape(N_GRID, -1)[:, task if ids is None else 0]
        x = rows[:, self.position].tolist()
        return list(zip(x, predicted.tolist(), strict=True))

    def band(self, task: int) -> list[tuple[float, float, float]]:
        """Return the 95% band of the multi-task line; empty if it is not known.

        The standard deviation of a new target includes the line and the noise.
        """
        model = self.models["multi-task"]
        inner = innermost(model.estimator)
        # One for each task, or one for all of them.
        noise = getattr(
            inner, "noise_variances_", getattr(inner, "noise_variance_", None)
        )
        if self.has_labels or noise is None or self.dataset.task_id is None:
            return []
        n_tasks = len(self.dataset.tasks)
        scale = getattr(model.estimator, "scale_", 1.0)
        scale = np.broadcast_to(scale, n_tasks)
        variances = np.broadcast_to(noise, n_tasks) * scale**2
        rows = self.typical_rows(task)
        ids = np.full(N_GRID, task)
        variance = model.deviations(rows, ids) ** 2 - variances[task]
        variance = np.maximum(variance, 0.0)
        half = HALF_LENGTH * np.sqrt(variance)
        scores = model.scores(rows, ids)
        low = model.in_units(scores - half).tolist()
        high = model.in_units(scores + half).tolist()
        x = rows[:, self.position].tolist()
        return list(zip(x, low, high, strict=True))

    def _have_similar_spans(self, panels: Sequence[TaskPanel]) -> bool:
        """Whether the values of each panel would be readable on a common axis."""
        if self.dataset.task_id is None:
            # Each target has its own unit.
            return False
        x_values = [panel.x for panel in panels]
        y_values = [panel.y for panel in panels]
        for values in (x_values, y_values):
            total = np.ptp(np.concatenate(values))
            if min(map(np.ptp, values)) < MIN_SHARE_OF_AXIS * total:
                return False
        return True

    def picture(self, tasks: Sequence[str] | None) -> PanelsPicture:
        """Return the picture of some tasks."""
        names: list[str] = self.dataset.tasks
        n_rows = [len(self.rows_of(task)) for task in range(len(names))]
        if tasks:
            selected = checked_tasks(tasks, names)
        else:
            by_size = np.argsort(n_rows, kind="stable")
            n_shown = min(len(names), N_DEFAULT_TASKS)
            places = np.linspace(0, len(names) - 1, n_shown).round().astype(int)
            selected = by_size[places].tolist()
        has_shared_rows = self.dataset.task_id is None
        background: dict[int, list[tuple[float, float]]] = {}
        if not has_shared_rows or self.has_labels:
            n_lines = min(len(names), MAX_BACKGROUND_LINES)
            behind = np.linspace(0, len(names) - 1, n_lines).round().astype(int)
            background = {t: self.line(self.strategy, t) for t in behind.tolist()}
        panels = []
        for task in selected:
            rows = self.rows_of(task)
            target = task if has_shared_rows else 0
            others = [line for t, line in background.items() if t != task]
            panel = TaskPanel(
                names[task],
                counted(n_rows[task], "row"),
                self.X[rows, self.position].tolist(),
                self.y[rows, target].tolist(),
                {strategy: self.line(strategy, task) for strategy in self.models},
                self.band(task),
                others,
            )
            panels.append(panel)
        targets = self.model.description.targets or ["target"]
        quantity = str(targets[0]) if len(targets) == 1 else "target"
        if self.has_labels:
            words = next(iter(self.model.words.values()))
            quantity = f"probability of {words[1]}"
            if not has_shared_rows:
                quantity = f"probability of {targets[0]} = {words[1]}"
        labels = {self.strategy: self.method}
        if self.strategy != "multi-task" or self.method.startswith(PARTIAL):
            labels["multi-task"] = "partially pooled"
        caption = (
            f"Rows of a task over {self.column}, and the lines of a model of this task "
            "alone, of one model for all tasks, and of a multi-task model, at the "
            f"typical values of the other columns in the task. The model is "
            f"{self.method}; the other lines are fitted without tuning."
        )
        if any(panel.band for panel in panels):
            caption += (
                " Band: 95%, of the multi-task line with its level and all other "
                "columns; the band of --kind curve is that of the column alone."
            )
        return PanelsPicture(
            f"{quantity} over {self.column}",
            self.column,
            quantity,
            panels,
            caption,
            is_probability=self.has_labels,
            shares_axes=self.has_labels or self._have_similar_spans(panels),
            labels=labels,
        )
