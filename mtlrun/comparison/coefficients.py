"""Coefficients of the tasks, and how far a hierarchical model shrinks them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mtlrun.comparison.gallery import longest_arrows
from mtlrun.data.reading.names import distinct
from mtlrun.engine.evaluation import innermost
from mtlrun.errors import UnknownNameError
from mtlrun.model.fitted import Model
from mtlrun.model.plots import estimates_of
from mtlrun.show.pictures import Shrinkage, ShrinkagePicture
from mtlrun.show.report_table import Column, ReportTable, fixed_kind
from mtlrun.utils.text import sanitize

if TYPE_CHECKING:
    from mtlrun.estimators.hierarchical import Estimates

#: Features in the table of coefficients on the page.
MAX_SHOWN_FEATURES = 12


def coefficient_title(name: str) -> str:
    """Return the title of a picture of the coefficients or levels of the tasks."""
    if name == "level":
        return "Level of each task"
    return f"Coefficient of {name}"


def coefficient_arrows(
    model: Model, tasks: Sequence[str], column: str | None = None
) -> list[ShrinkagePicture]:
    """Return the shrinkage of the coefficients in which tasks differ most.

    Arrows lead from the coefficient estimated from the rows of a task alone to the
    coefficient of the model. Tasks with too few rows for a separate estimate have no
    arrow.

    Parameters
    ----------
    model : Model
    tasks : sequence of str
        Names of the tasks.
    column : str, optional
        Only this column. Default: the columns in which tasks differ most.

    Returns
    -------
    list of ShrinkagePicture
        A picture per column; empty for a model that is not hierarchical.

    Raises
    ------
    UnknownNameError
        If there is no such column.
    """
    if not hasattr(innermost(model.estimator), "estimates"):
        return []
    estimates, columns = estimates_of(model)
    names = [str(name) for name in estimates.names]
    if column is not None:
        if column not in names:
            raise UnknownNameError("column", column, names)
        columns = [names.index(column)]
    pictures = []
    for j in columns:
        arrows = _arrows(estimates, tasks, j)
        if not arrows:
            continue
        arrows, selection = longest_arrows(arrows)
        name = sanitize(names[j])
        caption = (
            "Shrinkage: arrows lead from the estimate of a task alone to that of the "
            f"hierarchical model; cross: mean of all tasks.{selection}"
        )
        title = coefficient_title(name)
        center = "mean of all tasks"
        pictures.append(ShrinkagePicture(title, name, arrows, caption, center))
    return pictures


def _arrows(estimates: Estimates, tasks: Sequence[str], column: int) -> list[Shrinkage]:
    """Return the arrows of the tasks that have a separate estimate of a column."""
    mean = float(estimates.mean[column])
    arrows = []
    for t, task in enumerate(tasks):
        separate = float(estimates.alone[t, column])
        if math.isfinite(separate):
            shrunken = float(estimates.pooled[t, column])
            arrows.append(Shrinkage(sanitize(task), separate, shrunken, mean))
    return arrows


def coefficient_frame(
    tasks: Sequence[str],
    intercepts: np.ndarray,
    coef: np.ndarray,
    features: Sequence[str],
) -> pd.DataFrame:
    """Return a row per task with its intercept and coefficients.

    A feature that is called "task" or "intercept" gets another name.
    """
    return pd.DataFrame(
        np.column_stack([intercepts, coef]),
        index=pd.Index(tasks, name="task"),
        columns=["intercept", *distinct(features, ("task", "intercept"))],
    )


def is_common(coefficients: pd.DataFrame) -> bool:
    """Whether several tasks have the same intercept and coefficients."""
    is_equal = coefficients == coefficients.iloc[0]
    return len(coefficients) > 1 and bool(is_equal.all(axis=None))


def coefficient_table(coefficients: pd.DataFrame) -> ReportTable:
    """Return the intercept and the features with the largest coefficients.

    A model that is the same for all tasks has a single row.
    """
    if is_common(coefficients):
        coefficients = coefficients.iloc[:1].set_axis(["all tasks"])
    features = coefficients.drop(columns="intercept")
    sizes = features.abs().mean().sort_values(ascending=False, kind="stable")
    names = ["intercept", *sizes.index[:MAX_SHOWN_FEATURES]]
    columns = []
    for name in names:
        columns.append(Column(sanitize(name), fixed_kind(coefficients[name])))
    rows = []
    for task, values in coefficients[names].iterrows():
        rows.append([sanitize(str(task)), *map(float, values)])
    return ReportTable.of("task", *columns, rows=rows)
