"""scikit-learn's checks of X and y, with limits of magnitude: what lies beyond is refused before a solver squares it.

Both functions return what scikit-learn's return, or raise: no number depends on this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array as sklearn_check_array
from sklearn.utils.validation import validate_data as sklearn_validate_data

#: The largest entry of X or y must be zero or have an absolute value between these two. Next to the square of 1e15 an
#: intercept has no digits left; of a target the square has to exist.
LIMITS = {"X": (1e-75, 1e15), "y": (1e-75, 1e60)}


def validate_data(estimator: Any, X: Any, **options: Any) -> Any:
    """Return scikit-learn's ``validate_data(estimator, X, **options)``.

    Raises
    ------
    ValueError
        As scikit-learn's, and for an X whose largest entry is beyond 1e15 or (but for zero) below 1e-75.
    """
    X = sklearn_validate_data(estimator, X, **options)
    refuse_extremes(X, "X")
    return X


def check_array(y: Any, **options: Any) -> Any:
    """Return scikit-learn's ``check_array(y, **options)``, for targets.

    Raises
    ------
    ValueError
        As scikit-learn's, and for numbers (`dtype` was given: no labels) of which the largest is beyond 1e60 or (but
        for zero) below 1e-75.
    """
    y = sklearn_check_array(y, **options)
    if options.get("dtype") is not None:
        refuse_extremes(y, "y")
    return y


def refuse_extremes(values: Any, name: str) -> None:
    """Refuse numbers of a scale on which no solver can calculate.

    Parameters
    ----------
    values : float ndarray or sparse matrix
        NaN counts for nothing.
    name : {"X", "y"}

    Raises
    ------
    ValueError
        With the largest absolute value and the remedy.
    """
    entries = values.data if sp.issparse(values) else values
    if not entries.size:
        return
    # Two passes without a copy; fmax and fmin pass over NaN.
    largest = float(max(np.fmax.reduce(entries, axis=None), -np.fmin.reduce(entries, axis=None)))
    low, high = LIMITS[name]
    remedy = "Scale it, for instance with sklearn.preprocessing.StandardScaler." if name == "X" else "Change its unit."
    if largest > high:
        raise ValueError(
            f"{name} holds a number of absolute value {largest:.4g}; beyond {high:g} the solvers lose all precision. "
            f"{remedy}"
        )
    if 0 < largest < low:
        raise ValueError(
            f"the largest absolute value in {name} is {largest:.4g}; squares of numbers below {low:g} vanish. {remedy}"
        )
