"""Numbers so large or so small that their squares leave the range of floats are refused where data are read.

Solvers square what they get: beyond about 1e154 a square is infinite, below about 1e-154 it is hardly anything, and
what comes out is an error deep inside or, worse, a model that has not seen the column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mtlrun.errors import DataError

if TYPE_CHECKING:
    from mtlrun.data.dataset import Dataset

#: Largest absolute value of a number, and least one of the largest number of a column that is not zero.
LARGEST, SMALLEST = 1e150, 1e-150


def check_magnitudes(data: Dataset, name: str, where: Callable[[int], str] | None = None) -> None:
    """Refuse a data set with features, targets or weights of which no squares can be taken.

    Parameters
    ----------
    data : Dataset
    name : str
        The file or data set, for messages.
    where : callable, optional
        ``where(row)`` says where a row of `data` stands; by default the row is counted from 1.

    Raises
    ------
    DataError
        For a number beyond 1e150, and for a feature or target whose numbers are not all zero and all below 1e-150;
        names the column, the value and the remedy.
    """
    if not data.strings:
        check_large(data.X, name, data.features, where)
        _check_small(data.X, name, "feature", data.features)
    if data.task_type == "regression":
        targets = data.tasks if data.y.ndim == 2 else []
        y = data.y.reshape(len(data.y), -1)
        check_large(y, name, targets, where, kind="target")
        _check_small(y, name, "target", targets)
    for part, values in data.source.items():
        if values.dtype.kind == "f":
            check_large(values[:, None], name, [], where, kind=part)


def check_large(
    X: Any,
    name: str,
    columns: Sequence[str] = (),
    where: Callable[[int], str] | None = None,
    kind: str = "feature",
) -> None:
    """Refuse a matrix, dense or sparse, with a number beyond 1e150; NaN passes.

    Raises
    ------
    DataError
        With the place of the first such number.
    """
    values = X.data if sparse.issparse(X) else X
    # Two passes without a copy of the matrix; a NaN hides nothing from fmax and fmin, and is never larger.
    if values.size == 0:
        return
    if not (np.fmax.reduce(values, axis=None) > LARGEST or np.fmin.reduce(values, axis=None) < -LARGEST):
        return
    entries = sparse.coo_array(X) if sparse.issparse(X) else None
    at = int(np.argmax(np.abs(X if entries is None else entries.data) > LARGEST))
    row, column = divmod(at, X.shape[1]) if entries is None else (int(entries.row[at]), int(entries.col[at]))
    value = float(X[row, column] if entries is None else entries.data[at])
    place = where(row) if where else f"{name}: row {row + 1}"
    raise DataError(
        f"{place}: {_called(kind, columns, column, X.shape[1])} holds {value:.4g}, and numbers beyond {LARGEST:g} "
        "cannot be squared",
        "Rescale the column (divide it by a power of ten), or mend the cell.",
    )


def _check_small(X: Any, name: str, kind: str, columns: Sequence[str]) -> None:
    """Refuse a matrix with a column whose numbers are not all zero and all so small that their squares vanish."""
    values = X.data if sparse.issparse(X) else X
    if not ((np.abs(values) < SMALLEST) & (values != 0)).any():  # nearly always: nothing is so small
        return
    largest = abs(X).max(axis=0).toarray().ravel() if sparse.issparse(X) else np.fmax.reduce(np.abs(X), axis=0)
    bad = np.flatnonzero((largest > 0) & (largest < SMALLEST))
    if not len(bad):
        return
    raise DataError(
        f"{name}: the largest number of {_called(kind, columns, int(bad[0]), X.shape[1])} is "
        f"{float(largest[bad[0]]):.4g}, and the squares of numbers below {SMALLEST:g} vanish",
        "Rescale the column (multiply it by a power of ten), or leave it out.",
    )


def _called(kind: str, columns: Sequence[str], column: int, count: int) -> str:
    if columns:
        return f"the {kind} {columns[column]!r}"
    return f"the {kind}" if count == 1 and kind != "feature" else f"{kind} {column + 1}"
