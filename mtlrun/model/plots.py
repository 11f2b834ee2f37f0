"""Figures of a saved model: how similar its tasks are, its coefficients, and the search that chose its parameters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.engine.evaluation import innermost
from mtlrun.engine.stored import TRAINED, read_json
from mtlrun.errors import DataError, UserError
from mtlrun.model.baseline import search_panels
from mtlrun.model.curves import curve_panels, variances_line
from mtlrun.model.files import (
    COEFFICIENTS,
    OWN_TABLE,
    Model,
    finished,
    load_model,
    read_facts,
    transformed_names,
)
from mtlrun.tables.figures import Figure, HeatMap, Line, Panel
from mtlrun.tables.report_table import Column, ReportTable, number
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.outputs import write_output
from mtlrun.utils.text import sanitize

#: Features in the figure of the coefficients: those with the largest mean absolute coefficient.
MOST_FEATURES = 40
KINDS = ("tasks", "coefficients", "path", "shrinkage", "curve")
#: Methods that learn or use how similar tasks are.
WITH_SIMILARITY = ("FETR", "MTFRL", "MTRL", "GraphMTL", "ClusteredMTL", "Whom", "MKL")
#: Most tasks with names below their coefficients, and with names at their points. Points
#: get names in the order of their distance from the separate fit.
MAX_NAMED = 40
MAX_NAMED_POINTS = 8
#: Named points are at least this share of the axis apart.
NAME_GAP = 0.06
#: Columns whose coefficients are drawn with intervals: those in which tasks differ most; and half the length of these.
MOST_COLUMNS, HALF = 4, 1.96


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
        Of the model.
    kind : {"tasks", "coefficients", "path", "shrinkage", "curve"}
        The similarities of the tasks (`mtlrun.estimators.base.task_similarity`), the coefficients (of a model
        that has them, with intervals), the scores along the grid of the search that chose the parameters, of a
        hierarchical model the coefficients fitted per task and pooled, or of a smooth model how its predictions
        depend on one column.
    out : Path
        Its ending says the format.
    trust : iterable of str
        Types that may be loaded, see `load_model`; not needed for ``path``.
    column : str, optional
        Column of the table, for ``curve`` only. Default: the first one of numbers.
    tasks : sequence of str, optional
        Tasks with a panel of their own, for ``curve`` only. Default: three tasks.

    Returns
    -------
    list of str
        The file, and for ``curve`` a line about the variance of the target.

    Raises
    ------
    UnknownNameError
        If there is no such kind, column or task.
    UserError
        If the model has nothing of the kind, the format is unknown, or options do not
        fit the kind.
    """
    from mtlrun.tables.drawing import check_drawing, write_drawing  # matplotlib

    check_drawing("kind of figure of a model", kind, KINDS, out)
    if kind != "curve" and (column is not None or tasks):
        raise UserError(
            f"--column and --tasks do not go with --kind {kind}",
            "They are for --kind curve.",
        )
    lines = [str(out)]
    folder = finished(folder)
    facts = read_facts(folder)
    if kind == "curve" and column is None:
        column = _first_column(facts)
    panels: list[Panel | HeatMap]
    if kind == "path":
        panels = [*_paths(folder)]
    elif kind == "tasks":
        panels = [_tasks(folder, load_model(folder, trust))]
    elif kind == "curve":
        if column is None:
            raise UserError(f"{folder}: no column of numbers", "Add --column NAME.")
        model = load_model(folder, trust)
        panels = [*curve_panels(folder, model, column, tasks)]
        shares = variances_line(model)
        if shares is not None:
            lines.append(shares)
    elif kind == "shrinkage":
        panels = [*_shrinkage(folder, load_model(folder, trust))]
    elif "HierarchicalMTL" in json.dumps(facts["estimator"]):  # it has intervals
        panels = [*_intervals(load_model(folder, trust))]
    else:
        panels = [_coefficients(folder)]
    data = facts["dataset"] or {}
    dataset = str(data.get("id") or "").removeprefix(OWN_TABLE)
    title = " on ".join(filter(None, (_method_name(facts), dataset)))
    write_drawing(Figure(kind, title, panels), out, write_output)
    return lines


def fitting_kinds(folder: Path) -> list[str]:
    """Return the kinds of figures that a model has numbers for, the best one first."""
    folder = finished(folder)
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
    """Return the kind of figure that says most about a model.

    Parameters
    ----------
    folder : Path
        Of the model.
    column : str, optional
        Of the figure; only curves have one.

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
            f"{folder}: there is nothing to draw: the model has neither coefficients nor "
            "curves, and no parameter was searched",
            f"What it predicts: mtlrun show {folder}",
        )
    return kinds[0]


def _first_column(facts: Mapping[str, Any]) -> str | None:
    """Return the first numeric column of a model's table, None where there is none."""
    inputs = facts["input"]
    for name in inputs["names"]:
        if name not in inputs["categories"]:
            return str(name)
    return None


def _method_name(facts: Mapping[str, Any]) -> str:
    """Return the name of the method, not of what scales its targets around it."""
    estimator = facts["estimator"] or {}
    name = estimator.get("name") or ""
    parameters = estimator.get("params") or {}
    while isinstance(inner := parameters.get("estimator"), Mapping):
        name = inner["estimator"]
        parameters = inner.get("params") or {}
    return str(name).rpartition(":")[2]


def _tasks(folder: Path, model: Model) -> HeatMap:
    estimator, tasks = innermost(model.estimator), (model.facts or {})["tasks"]
    try:
        similarity = estimator.task_similarity_
    except AttributeError as error:
        remedy = "FETR, MTFRL, MTRL, GraphMTL, ClusteredMTL, Whom and MT-MKL have one; try --kind coefficients."
        raise UserError(f"{folder}: {error}", remedy) from None
    return HeatMap("similarity of tasks", similarity.tolist(), tasks, tasks, centre=0.0)


def _coefficients(folder: Path) -> HeatMap:
    file = folder / COEFFICIENTS
    if not file.is_file():
        raise UserError(
            f"{folder}: this model is not linear: it has no coefficients",
            "Try --kind tasks or path.",
        )
    try:
        with NpzArchive(file, str(file)) as stored:
            coef, tasks, features = (
                stored.array(name) for name in ("coef", "tasks", "features")
            )
    except (OSError, ValueError) as error:
        raise DataError(str(error), "Train the model again.") from None
    fitting = (
        coef.ndim == 2
        and tasks.shape == coef.shape[:1]
        and features.shape in ((0,), coef.shape[1:])
    )
    if not fitting or coef.dtype.kind != "f":
        raise DataError(
            f"{file}: its arrays do not fit together", "Train the model again."
        )
    order = np.sort(
        np.argsort(-np.abs(coef).mean(axis=0), kind="stable")[:MOST_FEATURES]
    )
    left_out = coef.shape[1] - len(order)
    title = (
        f"coefficients ({len(order)} largest of {coef.shape[1]} features)"
        if left_out
        else "coefficients"
    )
    names = [str(features[j]) if features.size else str(j) for j in order]
    return HeatMap(title, coef[:, order].T.tolist(), names, tasks.tolist(), centre=0.0)


def estimates_of(model: Model) -> tuple[Any, list[int]]:
    """Return coefficients in the units of the targets, and the columns in which tasks differ most.

    The model is hierarchical: its innermost estimator has `estimates`.
    """
    estimator = innermost(model.estimator)
    found = estimator.estimates()
    outer = model.estimator if hasattr(model.estimator, "scale_") else None
    if outer is not None:
        scale, center = (
            np.broadcast_to(a, len(found.pooled))[:, None]
            for a in (outer.scale_, outer.center_)
        )
        level = np.array([name == "level" for name in found.names]) * center
        middle, shift = scale.mean(), level.mean(axis=0)
        found = replace(
            found,
            alone=found.alone * scale + level,
            pooled=found.pooled * scale + level,
            std=found.std * scale,
            mean=found.mean * middle + shift,
            mean_std=found.mean_std * middle,
        )
    names = list(transformed_names(model))
    first = len(found.names) - len(names)
    if names and first >= 0:
        found = replace(found, names=[*found.names[:first], *names])
    order = np.argsort(-np.asarray(estimator.heterogeneity_), kind="stable")[
        :MOST_COLUMNS
    ]
    return found, [int(j) for j in order]


def interval_panels(model: Model) -> list[Panel]:
    """Return coefficients with intervals as panels, nothing for a model without."""
    return _intervals(model) if hasattr(innermost(model.estimator), "estimates") else []


def interval_grid(model: Model, tasks: Sequence[str]) -> ReportTable:
    """Return the coefficient of every task with its 95% interval, of the columns in which tasks differ most."""
    found, columns = estimates_of(model)
    grid = ReportTable.of(
        "task", *(Column(sanitize(found.names[j]), "number") for j in columns)
    )
    for t, task in enumerate(tasks):
        ends = [
            (float(found.pooled[t, j]), HALF * float(found.std[t, j])) for j in columns
        ]
        texts = (
            f"{number(v, 3)} ({number(v - half, 3)} to {number(v + half, 3)})"
            for v, half in ends
        )
        grid.rows.append([sanitize(task), *texts])
    return grid


def _intervals(model: Model) -> list[Panel]:
    """Return a panel per column: the tasks in the order of their coefficients, with intervals, and the mean of all."""
    found, columns = estimates_of(model)
    tasks = _task_names(model)
    panels = []
    for j in columns:
        order = np.argsort(found.pooled[:, j], kind="stable")
        places = list(range(1, len(order) + 1))
        own = Line(
            "tasks, 95% intervals",
            places,
            found.pooled[order, j].tolist(),
            (HALF * found.std[order, j]).tolist(),
            points="filled",
        )
        mean, half = float(found.mean[j]), HALF * float(found.mean_std[j])
        ends = [places[0], places[-1]]
        common = Line(
            "mean of all tasks",
            ends,
            [mean] * 2,
            low=[mean - half] * 2,
            high=[mean + half] * 2,
        )
        panel = Panel(found.names[j], False, [own, common], axis="tasks by coefficient")
        if len(tasks) == len(order) <= MAX_NAMED:
            panel.x_names = [tasks[t] for t in order]
            panel.axis = "task"
        panels.append(panel)
    return panels


def _task_names(model: Model) -> list[str]:
    """Return the names of the tasks as in the user's table."""
    return [str(task) for task in (model.facts or {}).get("tasks", ())]


def _shrinkage(folder: Path, model: Model) -> list[Panel]:
    """Return a panel per column: what every task says alone, and what is left of it."""
    if not hasattr(innermost(model.estimator), "estimates"):
        raise UserError(
            f"{folder}: this model does not shrink towards a mean",
            "HierarchicalMTL does.",
        )
    found, columns = estimates_of(model)
    tasks = _task_names(model)
    panels = []
    for j in columns:
        known = np.flatnonzero(np.isfinite(found.alone[:, j]))
        if len(known) < 2:
            continue
        points = Line(
            "tasks, 95% intervals",
            found.alone[known, j].tolist(),
            found.pooled[known, j].tolist(),
            (HALF * found.std[known, j]).tolist(),
            points="filled",
        )
        if len(tasks) == len(found.pooled):
            moved = np.abs(found.alone[known, j] - found.pooled[known, j])
            named = _apart(found.alone[known, j], np.argsort(-moved, kind="stable"))
            points.names = [
                tasks[t] if index in named else "" for index, t in enumerate(known)
            ]
        axis = f"{found.names[j]}: separate per task"
        panels.append(
            Panel(
                "pooled",
                False,
                [points],
                axis=axis,
                marks={"mean": float(found.mean[j])},
                diagonal=True,
            )
        )
    if not panels:
        text = f"{folder}: no two tasks have enough rows for coefficients of their own"
        raise UserError(text, "Try --kind coefficients.")
    return panels


def _apart(x: np.ndarray, order: np.ndarray) -> list[int]:
    """Return the first points of an order whose names do not run into each other."""
    gap = NAME_GAP * np.ptp(x)
    named: list[int] = []
    for index in order.tolist():
        if all(abs(x[index] - x[other]) > gap for other in named):
            named.append(index)
    return named[:MAX_NAMED_POINTS]


def _paths(folder: Path) -> list[Panel]:
    """Return a panel per parameter: at every value the best mean score over the folds."""
    found: Mapping[str, Any] = (read_json(folder / TRAINED) or {}).get(
        "selection"
    ) or {}
    grid = {
        name: values
        for name, values in (found.get("grid") or {}).items()
        if len(values) > 1
    }
    if not grid:
        raise UserError(
            f"{folder}: no search over the values of a parameter chose this model",
            "Give it a grid.",
        )
    panels = search_panels(found)
    if not panels:
        raise UserError(
            f"{folder}: the values of the search are not numbers",
            "Try --kind tasks or coefficients.",
        )
    return panels
