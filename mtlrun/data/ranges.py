"""Numbers too large or too small to be squared are refused, where data are read and before a model is fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mtlrun.errors import DataError
from mtlrun.utils.sizes import LARGEST, LARGEST_X, LARGEST_Y, SMALLEST, SMALLEST_FITTED

if TYPE_CHECKING:
    from mtlrun.data.dataset import Dataset


def check_fitted(values: Any, name: str) -> None:
    """Refuse features or targets on whose scale no solver can calculate.

    Parameters
    ----------
    values : float ndarray or sparse matrix
        NaN is ignored.
    name : {"X", "y"}

    Raises
    ------
    ValueError
        With the largest absolute value and the remedy.
    """
    largest = _largest(values)
    limit = LARGEST_X if name == "X" else LARGEST_Y
    remedy = "Scale it, for instance with sklearn.preprocessing.StandardScaler." if name == "X" else "Change its unit."
    if largest > limit:
        raise ValueError(
            f"{name} holds a number of absolute value {largest:.4g}; beyond {limit:g} the solvers lose all "
            f"precision. {remedy}"
        )
    if 0 < largest < SMALLEST_FITTED:
        raise ValueError(
            f"the largest absolute value in {name} is {largest:.4g}; squares of numbers below {SMALLEST_FITTED:g} "
            f"vanish. {remedy}"
        )


def check_read(data: Dataset, name: str, where: Callable[[int], str] | None = None) -> None:
    """Refuse a data set whose features, targets or weights cannot be squared.

    Parameters
    ----------
    data : Dataset
    name : str
        The file or data set, for messages.
    where : callable, optional
        ``where(row)`` says where a row of `data` is; by default rows are counted from 1.

    Raises
    ------
    DataError
        For a number beyond 1e150, and for a feature or target whose numbers are not all zero and all below 1e-150;
        names the column, the value and the remedy.
    """
    parts: list[tuple[Any, str, Sequence[str]]] = [] if data.strings else [(data.X, "feature", data.features)]
    if data.task_type == "regression":
        parts.append((data.y.reshape(len(data.y), -1), "target", data.tasks if data.y.ndim == 2 else []))
    parts += [(values[:, None], part, []) for part, values in data.source.items() if values.dtype.kind == "f"]
    for values, kind, columns in parts:
        check_large(values, name, columns, where, kind)
        _check_small(values, name, kind, columns)


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
    if _largest(X) <= LARGEST:
        return
    entries = sparse.coo_array(X) if sparse.issparse(X) else None
    at = int(np.argmax(np.abs(X if entries is None else entries.data) > LARGEST))
    row, column = divmod(at, X.shape[1]) if entries is None else (int(entries.row[at]), int(entries.col[at]))
    value = float(X[row, column] if entries is None else entries.data[at])
    place = where(row) if where else f"{name}: row {row + 1}"
    raise DataError(
        f"{place}: {_called(kind, columns, column, X.shape[1])} contains {value:.4g}; "
        f"numbers beyond {LARGEST:g} cannot be squared",
        "Rescale the column (divide it by a power of ten), or fix the cell.",
    )


def _check_small(X: Any, name: str, kind: str, columns: Sequence[str]) -> None:
    """Refuse a matrix with a column whose numbers are not all zero and all so small that their squares vanish."""
    values = X.data if sparse.issparse(X) else X
    if not ((np.abs(values) < SMALLEST) & (values != 0)).any():  # nearly always: nothing is so small
        return
    largest = abs(X).max(axis=0).toarray().ravel() if sparse.issparse(X) else np.fmax.reduce(np.abs(X), axis=0)
    bad = np.flatnonzero((largest > 0) & (largest < SMALLEST))
    if len(bad):
        raise DataError(
            f"{name}: the largest number in {_called(kind, columns, int(bad[0]), X.shape[1])} is "
            f"{float(largest[bad[0]]):.4g}; squares of numbers below {SMALLEST:g} vanish",
            "Rescale the column (multiply it by a power of ten), or leave it out.",
        )


def _largest(values: Any) -> float:
    """Return the largest absolute value, without a copy of the matrix; NaN is ignored."""
    entries = values.data if sparse.issparse(values) else values
    if not entries.size:
        return 0.0
    largest = max(np.fmax.reduce(entries, axis=None), -np.fmin.reduce(entries, axis=None))
    return 0.0 if np.isnan(largest) else float(largest)


def _called(kind: str, columns: Sequence[str], column: int, count: int) -> str:
    if columns:
        return f"the {kind} {columns[column]!r}"
    return f"the {kind}" if count == 1 and kind != "feature" else f"{kind} {column + 1}"
