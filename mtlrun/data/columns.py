"""Columns of data frames, arrays and sparse matrices by name or position, and entries of dtype object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from mtlrun.problem.arrays import is_sparse

Array = np.ndarray[Any, np.dtype[Any]]


def column_names(table: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame (pandas, polars, pyarrow); None for anything else."""
    # Of the class: a pandas frame offers its columns as attributes, and one may have this name.
    names = getattr(table, "column_names" if hasattr(type(table), "column_names") else "columns", None)
    return None if names is None else list(names)


def take_column(X: Any, column: int | str, what: str = "task_column") -> tuple[Array, int]:
    """Return one column of X and its position.

    Parameters
    ----------
    X : data frame, ndarray, sparse matrix or nested list
    column : int or str
        Position (negative ones count from the end) or, for a data frame, name.
    what : str
        The argument that chose the column, for messages.

    Returns
    -------
    values : ndarray of shape (n,)
    position : int

    Raises
    ------
    ValueError
        If X has not two dimensions, no such column, or several of that name.
    """
    X = _indexable(X)
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions, got {len(X.shape)}. Reshape your data.")
    position = _position(column, column_names(X), X.shape[1], what)
    if is_sparse(X):
        return X[:, [position]].toarray().ravel(), position
    return np.asarray(_safe_indexing(X, position, axis=1)), position


def ordered_columns(y: Any, names: Sequence[Any]) -> Any:
    """Return targets with their columns in the order of the names; those without names of their own stay as they are.

    Parameters
    ----------
    y : array-like or data frame
    names : sequence
        Of the targets of a model.

    Raises
    ------
    ValueError
        If columns have names, and these are others.
    """
    found = column_names(y)
    wanted = list(names)
    if found is None or len(getattr(y, "shape", ())) != 2 or found == wanted or found == list(range(len(found))):
        return y
    if sorted(map(str, found)) != sorted(map(str, wanted)):
        if len(found) == len(wanted) == 1:
            return y
        raise ValueError(f"the columns of y are {found}, but the targets of the model are {wanted}")
    order = [str(name) for name in found]
    return _safe_indexing(y, [order.index(str(name)) for name in wanted], axis=1)


def _position(column: int | str, names: list[Any] | None, n_columns: int, what: str) -> int:
    if names is not None and column in names:
        if names.count(column) > 1:
            raise ValueError(f"X has {names.count(column)} columns named {column!r}")
        return names.index(column)
    if isinstance(column, str):
        if names is None:
            raise ValueError(f"{what}={column!r} is a name, but X has no column names; give its position")
        raise ValueError(f"X has no column {column!r} ({what}); its columns are {names}")
    if not -n_columns <= column < n_columns:
        raise ValueError(f"{what}={column}, but X has only {n_columns} columns")
    return column % n_columns


def drop_column(X: Any, position: int) -> Any:
    """Return X without one column: a data frame of the same kind, CSR for a sparse matrix, else an ndarray."""
    X = _indexable(X)
    rest = _safe_indexing(X, [j for j in range(X.shape[1]) if j != position], axis=1)
    return sp.csr_array(rest) if is_sparse(rest) else rest


def _indexable(X: Any) -> Any:
    """Return X as something whose columns can be chosen."""
    if is_sparse(X):
        return sp.csc_array(X)
    return X if hasattr(X, "shape") else np.asarray(X, dtype=object)


def plain_ids(values: Any) -> Array:
    """Return ids as an array in which equal ones are equal: dates, of whatever unit and type, as datetime64 in UTC.

    The unit is the microsecond, but for dates that need a finer one.
    """
    ids = np.asarray(values)
    if ids.dtype.kind == "O" and pd.api.types.infer_dtype(ids.ravel(), skipna=True) in ("date", "datetime"):
        ids = pd.to_datetime(pd.Series(ids.ravel()), utc=True).dt.tz_localize(None).to_numpy().reshape(ids.shape)
    if ids.dtype.kind == "M":
        coarse = ids.astype("datetime64[us]")
        return coarse if (pd.isna(ids) | (coarse == ids)).all() else ids
    return ids


def plain_values(values: Array, name: str) -> tuple[Array, Array]:
    """Return an array of objects as numbers or booleans, where all are such, and where entries are missing.

    Missing are NaN, None, NaT and pandas' NA. All become NaN, booleans then numbers. Strings stay objects, and an array
    that does not hold objects stays as it is.

    Parameters
    ----------
    values : ndarray
    name : str
        For messages.

    Returns
    -------
    values : ndarray of the same shape
    missing : bool ndarray of the same shape

    Raises
    ------
    ValueError
        If strings are mixed with other types.
    """
    missing = np.asarray(pd.isna(values))
    if values.dtype.kind != "O":
        return values, missing
    given = values[~missing]
    words = {isinstance(value, str) for value in given.tolist()}
    if len(words) > 1:
        raise ValueError(f"{name} mixes strings with other types; make all entries strings or all numbers")
    if True not in words and (plain := np.asarray(given.tolist())).shape == given.shape:
        given = plain
    if not missing.any():
        return given.reshape(values.shape), missing
    out = np.full(values.shape, np.nan, dtype=np.float64 if given.dtype.kind in "biuf" else object)
    out[~missing] = given
    return out, missing
