"""Figures of saved models.

They show the similarity of tasks, coefficients, shrinkage, the curves of columns, and
the search for parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.data.reading.names import distinct
from mtlrun.engine.evaluation import innermost
from mtlrun.engine.job import OWN_TABLE
from mtlrun.engine.stored import TRAINED, read_json
from mtlrun.errors import DataError, UserError
from mtlrun.model.baseline import search_panels
from mtlrun.model.curves import curve_panels, variances_line
from mtlrun.model.files import (
    COEFFICIENTS,
    Model,
    load_model,
    read_facts,
    refuse_incomplete,
    transformed_names,
)
from mtlrun.show.figures import Figure, HeatMap, Line, Panel
from mtlrun.show.report_table import Column, ReportTable, fixed_kind, show
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.outputs import write_output
from mtlrun.utils.text import sanitize

#: Largest number of features in the figure of coefficients, which shows the features
#: with the largest mean absolute coefficients.
MAX_FEATURES = 40
KINDS = ("tasks", "coefficients", "path", "shrinkage", "curve")
#: Methods that learn or use the similarity of tasks.
WITH_SIMILARITY = ("FETR", "MTFRL", "MTRL", "GraphMTL", "ClusteredMTL", "Whom", "MKL")
#: Largest number of tasks with names below their coefficients, and of points with
#: names. The points furthest from the separate fit have names.
MAX_NAMED = 40
MAX_NAMED_POINTS = 8
#: Smallest distance of named points, as a share of the axis.
NAME_GAP = 0.06
#: Number of columns whose coefficients are drawn with intervals. In these columns tasks
#: differ most.
MAX_COLUMNS = 4
#: Half the length of a 95% interval in standard deviations.
HALF_LENGTH = 1.96


def plot_model(
    folder: Path,
    kind: str,
    out: Path,
    *,
    trust: Iterable[str] = (),
    column: str | None = None,
    tasks: Sequence[str] | None = None,
) -> list[str]:
    """Draw a figure of a model into a file.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    kind : {"tasks", "coefficients", "path", "shrinkage", "curve"}
        ``tasks``: similarity of tasks (`mtlrun.estimators.base.task_similarity`).
        ``coefficients``: with intervals if the model has them. ``path``: scores along
        the grid of the search for parameters. ``shrinkage``: coefficients of a
        hierarchical model, pooled and separate per task. ``curve``: how the
        predictions of a smooth model depend on a column.
    out : Path
        File of the figure; its suffix determines the format.
    trust : iterable of str
        Types that may be loaded, see `load_model`. Not needed for ``path``.
    column : str, optional
        Column of the table, only for ``curve``. Default: the first numeric column.
    tasks : sequence of str, optional
        Tasks that have a panel each, only for ``curve``. Default: three tasks.

    Returns
    -------
    list of str
        Name of the file, and for ``curve`` a line about the variance of the target.

    Raises
    ------
    UnknownNameError
        If there is no such kind, column or task.
    UserError
        If the model cannot be drawn this way, the format is unknown, or options do not
        fit the kind.
    """
    # Imported here because matplotlib is slow to import.
    from mtlrun.show.drawing import check_drawing, write_drawing

    check_drawing("kind of figure of a model", kind, KINDS, out)
    if kind != "curve" and (column is not None or tasks):
        raise UserError(
            f"--column and --tasks do not go with --kind {kind}",
            "They are for --kind curve.",
        )
    lines = [str(out)]
    refuse_incomplete(folder)
    facts = read_facts(folder)
    if kind == "curve" and column is None:
        column = _first_column(facts)
    panels: list[Panel | HeatMap]
    if kind == "curve":
        if column is None:
            raise UserError(f"{folder}: no column of numbers", "Add --column NAME.")
        model = load_model(folder, trust)
        panels = [*curve_panels(folder, model, column, tasks)]
        shares = variances_line(model)
        if shares is not None:
            lines.append(shares)
    else:
        panels = panels_of(folder, kind, trust)
    data = facts["dataset"] or {}
    dataset = str(data.get("id") or "").removeprefix(OWN_TABLE)
    # The innermost method, without wrappers that scale targets.
    estimator = facts["estimator"] or {}
    name = estimator.get("name") or ""
    parameters = estimator.get("params") or {}
    inner = parameters.get("estimator")
    while isinstance(inner, Mapping):
        name = inner["estimator"]
        parameters = inner.get("params") or {}
        inner = parameters.get("estimator")
    method_name = str(name).rpartition(":")[2]
    title = " on ".join(filter(None, (method_name, dataset)))
    write_drawing(Figure(kind, title, panels), out, write_output)
    return lines


def panels_of(
    folder: Path, kind: str, trust: Iterable[str] = ()
) -> list[Panel | HeatMap]:
    """Return the panels of a figure of a model.

    Parameters
    ----------
    folder : Path
    kind : str
        One of `KINDS`, apart from ``curve``.
    trust : iterable of str
        As of `load_model`.

    Raises
    ------
    UserError
        If the model cannot be drawn this way.
    """
    if kind == "path":
        return [*_paths(folder)]
    if kind == "tasks":
        return [_tasks(folder, load_model(folder, trust))]
    if kind == "shrinkage":
        return [*_shrinkage(folder, load_model(folder, trust))]
    if "HierarchicalMTL" in json.dumps(read_facts(folder)["estimator"]):
        return [*_intervals(load_model(folder, trust))]
    return [_coefficients(folder)]


def fitting_kinds(folder: Path) -> list[str]:
    """Return the kinds of figures that a model has numbers for, the best one first."""
    refuse_incomplete(folder)
    estimator = json.dumps(read_facts(folder)["estimator"])
    kinds = []
    if (folder / COEFFICIENTS).is_file():
        kinds.append("coefficients")
    if "HierarchicalMTL" in estimator:
        kinds.append("shrinkage")
    if "Smooth" in estimator:
        kinds.append("curve")
    if any(name in estimator for name in WITH_SIMILARITY):
        kinds.append("tasks")
    try:
        _paths(folder)
    except UserError:
        return kinds
    return [*kinds, "path"]


def default_kind(folder: Path, column: str | None = None) -> str:
    """Return the kind of figure that is most informative for a model.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    column : str, optional
        Column of the figure; only curves have one.

    Raises
    ------
    UserError
        If the model has neither coefficients, nor curves, nor a search.
    """
    if column is not None:
        return "curve"
    kinds = fitting_kinds(folder)
    if not kinds:
        raise UserError(
            f"{folder}: there is nothing to draw: the model has neither coefficients "
            "nor curves, and no parameter was searched",
            f"What it predicts: mtlrun show {folder}",
        )
    return kinds[0]


def _first_column(facts: Mapping[str, Any]) -> str | None:
    """Return the first numeric column of the table of a model; None if it has none."""
    inputs = facts["input"]
    for name in inputs["names"]:
        if name not in inputs["categories"]:
            return str(name)
    return None


def _tasks(folder: Path, model: Model) -> HeatMap:
    """Return a heat map of the similarity of tasks."""
    estimator = innermost(model.estimator)
    tasks = model.about["tasks"]
    try:
        similarity = estimator.task_similarity_
    except AttributeError as error:
        raise UserError(
            f"{folder}: {error}",
            "FETR, MTFRL, MTRL, GraphMTL, ClusteredMTL, Whom and MT-MKL have one; try "
            "--kind coefficients.",
        ) from None
    return HeatMap("similarity of tasks", similarity.tolist(), tasks, tasks, centre=0.0)


def _coefficients(folder: Path) -> HeatMap:
    """Return a heat map of the largest coefficients."""
    file = folder / COEFFICIENTS
    if not file.is_file():
        raise UserError(
            f"{folder}: this model is not linear: it has no coefficients",
            "Try --kind tasks or path.",
        )
    try:
        with NpzArchive(file, str(file)) as stored:
            coef = stored.array("coef")
            tasks = stored.array("tasks")
            features = stored.array("features")
    except (OSError, ValueError) as error:
        raise DataError(str(error), "Train the model again.") from None
    is_consistent = (
        coef.ndim == 2
        and coef.dtype.kind == "f"
        and tasks.shape == coef.shape[:1]
        and features.shape in ((0,), coef.shape[1:])
    )
    if not is_consistent:
        raise DataError(
            f"{file}: its arrays do not fit together", "Train the model again."
        )
    sizes = np.abs(coef).mean(axis=0)
    by_size = np.argsort(-sizes, kind="stable")
    # The order of the features is kept.
    order = np.sort(by_size[:MAX_FEATURES])
    n_features = coef.shape[1]
    title = "coefficients"
    if len(order) < n_features:
        title = f"coefficients ({len(order)} largest of {n_features} features)"
    names = [str(feature) for feature in order]
    if features.size:
        names = [str(name) for name in features[order]]
    values = coef[:, order].T
    return HeatMap(title, values.tolist(), names, tasks.tolist(), centre=0.0)


def estimates_of(model: Model) -> tuple[Any, list[int]]:
    """Return the coefficients of a hierarchical model in the units of the targets.

    Returns
    -------
    estimates : object
        As `estimates` of the innermost estimator returns them.
    columns : list of int
        Columns in which tasks differ most.
    """
    estimator = innermost(model.estimator)
    estimates = estimator.estimates()
    if hasattr(model.estimator, "scale_"):
        n_tasks = len(estimates.pooled)
        scale = np.broadcast_to(model.estimator.scale_, n_tasks)[:, np.newaxis]
        center = np.broadcast_to(model.estimator.center_, n_tasks)[:, np.newaxis]
        # Only the level, which is the intercept, moves with the center of the targets.
        n_columns = len(estimates.names)
        n_intercepts = n_columns - innermost(model.estimator).n_features_in_
        is_level = np.zeros(n_columns, dtype=bool)
        is_level[:n_intercepts] = True
        level = is_level * center
        mean_scale = scale.mean()
        estimates = replace(
            estimates,
            alone=estimates.alone * scale + level,
            pooled=estimates.pooled * scale + level,
            std=estimates.std * scale,
            mean=estimates.mean * mean_scale + level.mean(axis=0),
            mean_std=estimates.mean_std * mean_scale,
        )
    # "level" is the name of the intercept: a feature of this name gets another one.
    names = distinct(transformed_names(model), ("level",))
    n_intercepts = len(estimates.names) - len(names)
    if names and n_intercepts >= 0:
        intercepts = estimates.names[:n_intercepts]
        estimates = replace(estimates, names=[*intercepts, *names])
    heterogeneity = np.asarray(estimator.heterogeneity_)
    by_heterogeneity = np.argsort(-heterogeneity, kind="stable")
    return estimates, by_heterogeneity[:MAX_COLUMNS].tolist()


def interval_panels(model: Model) -> list[Panel]:
    """Return panels of coefficients with intervals; empty for a model without them."""
    if hasattr(innermost(model.estimator), "estimates"):
        return _intervals(model)
    return []


def interval_grid(model: Model, tasks: Sequence[str]) -> ReportTable:
    """Return a table of the coefficients of each task with their 95% intervals.

    It has the columns in which tasks differ most.
    """
    estimates, columns = estimates_of(model)
    rows: list[list[Any]] = [[sanitize(task)] for task in tasks]
    table = ReportTable.of("task", rows=rows)
    for column in columns:
        values = estimates.pooled[:, column]
        half = HALF_LENGTH * estimates.std[:, column]
        low = values - half
        high = values + half
        # One number of decimals for a whole column, so that its cells compare.
        kind = fixed_kind([*low, *high], digits=3)
        cells = []
        for numbers in zip(values, low, high, strict=True):
            texts = [show(float(value), kind) for value in numbers]
            cells.append("{} ({} to {})".format(*texts))
        name = sanitize(estimates.names[column])
        table.add(Column(name, "number"), cells)
    return table


def _intervals(model: Model) -> list[Panel]:
    """Return a panel for each column in which tasks differ most.

    It shows the tasks in the order of their coefficients, with intervals, and the mean
    of all tasks.
    """
    estimates, columns = estimates_of(model)
    tasks = _task_names(model)
    panels = []
    for column in columns:
        order = np.argsort(estimates.pooled[:, column], kind="stable")
        positions = list(range(1, len(order) + 1))
        coefficients = Line(
            "tasks, 95% intervals",
            positions,
            estimates.pooled[order, column].tolist(),
            (HALF_LENGTH * estimates.std[order, column]).tolist(),
            points="filled",
        )
        mean = float(estimates.mean[column])
        half = HALF_LENGTH * float(estimates.mean_std[column])
        low = mean - half
        high = mean + half
        common = Line(
            "mean of all tasks",
            [positions[0], positions[-1]],
            [mean, mean],
            low=[low, low],
            high=[high, high],
        )
        panel = Panel(
            estimates.names[column],
            log=False,
            curves=[coefficients, common],
            axis="tasks by coefficient",
        )
        if len(tasks) == len(order) <= MAX_NAMED:
            panel.x_names = [tasks[task] for task in order]
            panel.axis = "task"
        panels.append(panel)
    return panels


def _task_names(model: Model) -> list[str]:
    """Return the names of the tasks as in the user's table."""
    tasks = model.about.get("tasks", ())
    return [str(task) for task in tasks]


def _shrinkage(folder: Path, model: Model) -> list[Panel]:
    """Return a panel per column: pooled coefficients over separate ones."""
    if not hasattr(innermost(model.estimator), "estimates"):
        raise UserError(
            f"{folder}: this model does not shrink towards a mean",
            "HierarchicalMTL does.",
        )
    estimates, columns = estimates_of(model)
    tasks = _task_names(model)
    panels = []
    for column in columns:
        # Tasks with few rows have no separate coefficients.
        with_separate = np.flatnonzero(np.isfinite(estimates.alone[:, column]))
        if len(with_separate) < 2:
            continue
        separate = estimates.alone[with_separate, column]
        pooled = estimates.pooled[with_separate, column]
        std = estimates.std[with_separate, column]
        points = Line(
            "tasks, 95% intervals",
            separate.tolist(),
            pooled.tolist(),
            (HALF_LENGTH * std).tolist(),
            points="filled",
        )
        if len(tasks) == len(estimates.pooled):
            by_distance = np.argsort(-np.abs(separate - pooled), kind="stable")
            points.names = [""] * len(with_separate)
            min_distance = NAME_GAP * np.ptp(separate)
            named: list[int] = []
            for index in by_distance.tolist():
                distances = [abs(separate[index] - separate[other]) for other in named]
                if all(distance > min_distance for distance in distances):
                    named.append(index)
            for index in named[:MAX_NAMED_POINTS]:
                points.names[index] = tasks[with_separate[index]]
        panels.append(
            Panel(
                "pooled",
                log=False,
                curves=[points],
                axis=f"{estimates.names[column]}: separate per task",
                marks={"mean": float(estimates.mean[column])},
                diagonal=True,
            )
        )
    if not panels:
        text = f"{folder}: no two tasks have enough rows for coefficients of their own"
        raise UserError(text, "Try --kind coefficients.")
    return panels


def _paths(folder: Path) -> list[Panel]:
    """Return a panel per parameter with the best mean score at each value."""
    result = read_json(folder / TRAINED) or {}
    selection: Mapping[str, Any] = result.get("selection") or {}
    grid: Mapping[str, Any] = selection.get("grid") or {}
    if not any(len(values) > 1 for values in grid.values()):
        raise UserError(
            f"{folder}: no search over the values of a parameter chose this model",
            "Give it a grid.",
        )
    panels = search_panels(selection)
    if not panels:
        raise UserError(
            f"{folder}: the values of the search are not numbers",
            "Try --kind tasks or coefficients.",
        )
    return panels
