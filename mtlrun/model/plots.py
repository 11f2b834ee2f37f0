"""Figures of saved models.

They show the similarity of tasks, coefficients, shrinkage, the curves of columns, and
the search for parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun.data.reading.names import distinct
from mtlrun.engine.evaluation import innermost
from mtlrun.engine.job import OWN_TABLE
from mtlrun.engine.record import SearchResult
from mtlrun.engine.stored import TRAINED, fields_of_file, read_json
from mtlrun.errors import DataError, UnknownNameError, UserError, listed
from mtlrun.model.baseline import TrainingResult, search_panels
from mtlrun.model.curves import curve_picture, variances_line
from mtlrun.model.explanation import step_of
from mtlrun.model.files import (
    COEFFICIENTS,
    Model,
    load_model,
    read_facts,
    refuse_incomplete,
    transformed_names,
)
from mtlrun.model.task_lines import task_picture, training_rows
from mtlrun.show.figures import Drawing, Figure, HeatMap, Panel
from mtlrun.show.pictures import (
    MAX_SHRINKAGE_ROWS,
    FacetsPicture,
    Picture,
    Shrinkage,
    ShrinkagePicture,
)
from mtlrun.show.report_table import Column, ReportTable, fixed_kind, show
from mtlrun.utils.arrays import NpzArchive
from mtlrun.utils.outputs import write_output
from mtlrun.utils.text import sanitize

#: Largest number of features in the figure of coefficients, which shows the features
#: with the largest mean absolute coefficients.
MAX_FEATURES = 40
KINDS = ("tasks", "coefficients", "path", "shrinkage", "curve", "task")
#: Methods that learn or use the similarity of tasks.
WITH_SIMILARITY = ("FETR", "MTFRL", "MTRL", "GraphMTL", "ClusteredMTL", "Whom", "MKL")
#: Kinds with a panel per task over a column.
WITH_COLUMN = ("curve", "task")
#: Name of the intercept among the coefficients.
INTERCEPT = "intercept"
#: Coefficients of tasks that differ less than this share are the same.
SAME = 1e-9
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
    data_dir: Path | None = None,
) -> list[str]:
    """Draw a picture of a model into a file.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    kind : str
        One of `KINDS`. ``tasks``: similarity of tasks
        (`mtlrun.estimators.base.task_similarity`). ``coefficients``: with intervals if
        the model has them. ``path``: scores along the grid of the search for
        parameters. ``shrinkage``: coefficients of a hierarchical model, separate and
        partially pooled. ``curve``: how the predictions of a smooth model depend on a
        column. ``task``: rows of tasks over a column with the lines of all strategies.
    out : Path
        File of the picture; its suffix determines the format.
    trust : iterable of str
        Types that may be loaded, see `load_model`. Not needed for ``path``.
    column : str, optional
        Column of the table, only for ``curve`` and ``task``. Default: the first column
        of numbers.
    tasks : sequence of str, optional
        Tasks that have a panel each, only for ``curve`` (default: three) and ``task``
        (default: six).
    data_dir : Path, optional
        Data directory with the rows of ``task``, unless they lie next to the model.

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
    if kind not in WITH_COLUMN and (column is not None or tasks):
        raise UserError(
            f"--column and --tasks do not go with --kind {kind}",
            f"They are for --kind {' and '.join(WITH_COLUMN)}.",
        )
    refuse_incomplete(folder)
    lines = [str(out)]
    picture: Drawing | Picture
    match kind:
        case "task":
            model = load_model(folder, trust)
            rows = training_rows(folder, model, data_dir)
            picture = task_picture(model, rows, column, tasks)
            lines.append(picture.caption)
        case "curve":
            model = load_model(folder, trust)
            picture = curve_picture(folder, model, column, tasks)
            shares = variances_line(model)
            if shares is not None:
                lines.append(shares)
        case _:
            picture = picture_of(folder, kind, trust)
    write_drawing(picture, out, write_output)
    return lines


def _title(folder: Path) -> str:
    """Return the method of a model and its data."""
    description = read_facts(folder)
    dataset = description.dataset.id.removeprefix(OWN_TABLE)
    return " on ".join(filter(None, (description.estimator.method, dataset)))


def picture_of(
    folder: Path, kind: str, trust: Iterable[str] = ()
) -> Figure | FacetsPicture:
    """Return a picture of a model that needs no rows.

    Parameters
    ----------
    folder : Path
    kind : str
        One of `KINDS`, apart from ``curve`` and ``task``.
    trust : iterable of str
        As of `load_model`.

    Raises
    ------
    UserError
        If the model cannot be drawn this way.
    """
    title = _title(folder)
    if kind == "path":
        return Figure(kind, title, _paths(folder))
    if kind == "tasks":
        return Figure(kind, title, [_tasks(folder, load_model(folder, trust))])
    is_hierarchical = read_facts(folder).estimator.mentions("HierarchicalMTL")
    if kind == "coefficients" and not is_hierarchical:
        return _coefficients(folder, title)
    model = load_model(folder, trust)
    pictures = estimate_pictures(model, with_separate=kind == "shrinkage")
    if not pictures:
        raise UserError(
            f"{folder}: this model does not shrink coefficients towards a mean",
            _remedy(folder),
        )
    return FacetsPicture(f"{kind.capitalize()} of {title}", pictures)


def fitting_kinds(folder: Path) -> list[str]:
    """Return the kinds of figures that a model has numbers for, the best one first."""
    refuse_incomplete(folder)
    estimator = read_facts(folder).estimator
    kinds = []
    if (folder / COEFFICIENTS).is_file():
        kinds.append("coefficients")
    if estimator.mentions("HierarchicalMTL"):
        kinds.append("shrinkage")
    if estimator.mentions("Smooth"):
        kinds.append("curve")
    if any(map(estimator.mentions, WITH_SIMILARITY)):
        kinds.append("tasks")
    if kinds:
        # All models have predictions, which is no reason to choose this kind.
        kinds.append("task")
    try:
        _paths(folder)
    except UserError:
        return kinds
    return [*kinds, "path"]


def _remedy(folder: Path) -> str:
    """Return what to do if a model has no picture of a kind."""
    return f"This model has --kind {listed(fitting_kinds(folder) or ['task'])}."


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
    kinds = fitting_kinds(folder)
    if column is not None:
        return "curve" if "curve" in kinds else "task"
    if not kinds:
        raise UserError(
            f"{folder}: there is nothing to draw: the model has neither coefficients "
            "nor curves, and no parameter was searched",
            f"What it predicts: mtlrun show {folder}, or --kind task.",
        )
    return kinds[0]


def _tasks(folder: Path, model: Model) -> HeatMap:
    """Return a heat map of the similarity of tasks."""
    estimator = innermost(model.estimator)
    tasks = model.about["tasks"]
    try:
        similarity = estimator.task_similarity_
    except AttributeError:
        raise UserError(
            f"{folder}: {type(estimator).__name__} has no similarity of tasks",
            _remedy(folder),
        ) from None
    return HeatMap("similarity of tasks", similarity.tolist(), tasks, tasks, centre=0.0)


def _coefficients(folder: Path, figure_title: str) -> Figure | FacetsPicture:
    """Return the largest coefficients: a heat map, or the distribution of many tasks.

    A model that is the same for all tasks has a single column.
    """
    file = folder / COEFFICIENTS
    if not file.is_file():
        raise UserError(
            f"{folder}: this model is not linear: it has no coefficients",
            _remedy(folder),
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
    task_names = [str(task) for task in tasks]
    if len(values.T) > 1 and (values == values[:, :1]).all():
        values = values[:, :1]
        task_names = ["all tasks"]
    if len(task_names) > MAX_SHRINKAGE_ROWS:
        # Features whose coefficients differ most between tasks.
        by_spread = np.argsort(-values.std(axis=1), kind="stable")[:MAX_COLUMNS]
        facets = []
        for j in by_spread.tolist():
            arrows = [
                Shrinkage(sanitize(name), None, float(value))
                for name, value in zip(task_names, values[j], strict=True)
            ]
            facets.append(
                ShrinkagePicture(names[j], "coefficient", arrows, "", "coefficient")
            )
        return FacetsPicture(f"Coefficients of {figure_title}", facets)
    panel = HeatMap(title, values.tolist(), names, task_names, centre=0.0)
    return Figure("coefficients", figure_title, [panel])


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
    # A feature called "intercept" gets another name.
    names = distinct(transformed_names(model), (INTERCEPT,))
    n_intercepts = len(estimates.names) - len(names)
    if names and n_intercepts >= 0:
        estimates = replace(estimates, names=[*[INTERCEPT] * n_intercepts, *names])
    heterogeneity = np.asarray(estimator.heterogeneity_)
    by_heterogeneity = np.argsort(-heterogeneity, kind="stable")
    return estimates, by_heterogeneity[:MAX_COLUMNS].tolist()


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


def estimate_pictures(
    model: Model, column: str | None = None, *, with_separate: bool = True
) -> list[ShrinkagePicture]:
    """Return the coefficients of a hierarchical model, a picture per column.

    Coefficients that are the same for all tasks share one picture with a row each.

    Parameters
    ----------
    model : Model
    column : str, optional
        Only this column, or ``intercept``. Default: the columns in which tasks differ
        most.
    with_separate : bool, default=True
        Whether to show the estimates from the rows of a task alone. Tasks with too few
        rows have none.

    Returns
    -------
    list of ShrinkagePicture
        Empty for a model that is not hierarchical.

    Raises
    ------
    UnknownNameError
        If there is no such column.
    """
    if not hasattr(innermost(model.estimator), "estimates"):
        return []
    estimates, columns = estimates_of(model)
    names = [str(name) for name in estimates.names]
    is_common = np.ptp(estimates.pooled, axis=0) <= SAME * np.abs(estimates.mean)
    if column is not None:
        if column not in names:
            raise UnknownNameError("column", column, names)
        columns = [names.index(column)]
        is_common[:] = False
    tasks = [sanitize(str(name)) for name in model.description.tasks]
    explanation = (
        "Estimate of each task with its 95% interval; band: mean of all tasks."
    )
    if with_separate:
        explanation = (
            "Arrows lead from the estimate of a task alone (open) to the partially "
            "pooled one (filled) with its 95% interval; band: mean of all tasks."
        )
    pictures = []
    for j in columns:
        if is_common[j]:
            continue
        arrows = []
        for t, task in enumerate(tasks):
            separate = float(estimates.alone[t, j])
            value = float(estimates.pooled[t, j])
            half = HALF_LENGTH * float(estimates.std[t, j])
            arrows.append(
                Shrinkage(
                    task,
                    separate if with_separate and math.isfinite(separate) else None,
                    value,
                    low=value - half,
                    high=value + half,
                )
            )
        mean = float(estimates.mean[j])
        half = HALF_LENGTH * float(estimates.mean_std[j])
        title = "Intercept"
        axis = _target_name(model)
        if names[j] != INTERCEPT:
            title = f"Coefficient of {names[j]}"
            # Columns of a table are scaled, so a step is one standard deviation.
            step = step_of(model, names[j]) or "unit"
            axis += f" per {step} of {sanitize(names[j])}"
        pictures.append(
            ShrinkagePicture(
                title,
                axis,
                arrows,
                explanation,
                "partially pooled",
                (mean, mean - half, mean + half),
            )
        )
    arrows = []
    for j in np.flatnonzero(is_common).tolist():
        mean = float(estimates.mean[j])
        half = HALF_LENGTH * float(estimates.mean_std[j])
        arrows.append(Shrinkage(names[j], None, mean, None, mean - half, mean + half))
    if arrows:
        pictures.append(
            ShrinkagePicture(
                "The same in all tasks",
                _target_name(model),
                arrows,
                "Coefficients that tasks share, with their 95% intervals.",
                "partially pooled",
            )
        )
    return pictures


def _target_name(model: Model) -> str:
    """Return the unit of predictions: the target, or log-odds."""
    if not model.is_regression:
        return "log-odds"
    targets = model.description.targets or ["target"]
    return sanitize(str(targets[0])) if len(targets) == 1 else "target"


def _paths(folder: Path) -> list[Panel]:
    """Return a panel per parameter with the best mean score at each value."""
    path = folder / TRAINED
    content = read_json(path)
    selection = SearchResult()
    if content is not None:
        selection = fields_of_file(TrainingResult, content, path).selection
    grid = selection.grid or {}
    if not any(len(values) > 1 for values in grid.values()):
        raise UserError(
            f"{folder}: no search over the values of a parameter chose this model",
            "Give it a grid.",
        )
    panels = search_panels(selection)
    if not panels:
        raise UserError(
            f"{folder}: the values of the search are not numbers",
            "Use mtlrun plot without --kind.",
        )
    return panels
