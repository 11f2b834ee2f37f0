"""Tables of the coefficients of the tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mtlrun.data.reading.names import distinct
from mtlrun.show.report_table import Column, ReportTable, fixed_kind
from mtlrun.utils.text import sanitize

#: Features in the table of coefficients on the page.
MAX_SHOWN_FEATURES = 12


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
