"""Columns of data frames by what their cells are, whatever type holds them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_integer_dtype, is_numeric_dtype, is_object_dtype


def typed(column: pd.Series) -> pd.Series:
    """Return a column as numbers, booleans, dates or texts of one kind, whatever holds them.

    Decimals become floats, and columns of objects the type that all their cells have. Categories stay categories, also
    of numbers. Integers and booleans with gaps stay what they are (``Int64``, ``boolean``); times lose their zone and
    are UTC. A column of objects of several types stays as it is.

    Raises
    ------
    TypeError
        For complex numbers, of which a part would be lost.
    """
    dtype = column.dtype
    if is_complex_dtype(dtype):
        raise TypeError(f"column {column.name!r} has complex numbers")
    if isinstance(dtype, np.dtype) and dtype.kind in "fiubM":
        return column
    if isinstance(dtype, pd.CategoricalDtype):
        return column
    if isinstance(dtype, pd.DatetimeTZDtype):
        return column.dt.tz_convert(None)
    if isinstance(dtype, pd.StringDtype):
        return column
    if isinstance(dtype, pd.SparseDtype):
        return pd.Series(np.asarray(column), index=column.index, name=column.name)
    if is_bool_dtype(dtype) or is_numeric_dtype(dtype):
        return _without_gaps(column)
    if not is_object_dtype(dtype):  # periods, durations, and what other packages store
        return _of_objects(column.astype(object))
    return _of_objects(column)


def _without_gaps(column: pd.Series) -> pd.Series:
    """Return numbers or booleans of a nullable type as numpy's, where no cell is missing or they are floats."""
    kind = "b" if is_bool_dtype(column.dtype) else "i" if is_integer_dtype(column.dtype) else "f"
    if kind == "f" and getattr(column.dtype, "numpy_dtype", None) == np.float32:  # its names have its own digits
        return column.astype(np.float32)
    if column.isna().any():
        return column.astype({"b": "boolean", "i": "Int64", "f": "Float64"}[kind]).pipe(
            lambda c: c.astype(np.float64) if kind == "f" else c
        )
    return column.astype({"b": bool, "i": np.int64, "f": np.float64}[kind])


def _of_objects(column: pd.Series) -> pd.Series:
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "boolean":
        return _without_gaps(column.where(column.notna(), None).astype("boolean"))
    if kind in ("decimal", "floating", "mixed-integer-float"):
        return column.where(column.notna(), np.nan).astype(np.float64)
    if kind == "integer":
        try:
            return _without_gaps(column.where(column.notna(), None).astype("Int64"))
        except (OverflowError, TypeError, ValueError):
            return column.where(column.notna(), np.nan).astype(np.float64)
    if kind in ("date", "datetime", "datetime64"):
        found = pd.to_datetime(column, utc=True, errors="coerce")
        return found.dt.tz_convert(None) if (found.isna() == column.isna()).all() else column.astype(str)
    if kind in ("timedelta", "timedelta64", "period", "time", "interval"):
        return column.where(column.notna(), None).map(str, na_action="ignore")
    return column


def nameable(column: pd.Series) -> bool:
    """Whether the cells of a column can be names: lists cannot."""
    return not (is_object_dtype(column.dtype) and pd.api.types.infer_dtype(column, skipna=True) == "mixed")


def no_date(cell: Any) -> Any:
    """Return a cell that is no number only because pandas would count the nanoseconds of a date."""
    return str(cell) if isinstance(cell, dt.date | np.datetime64) else cell
