"""scikit-learn's checks of X and y, with limits of magnitude: what lies beyond is refused before a solver squares it.

Both functions return what scikit-learn's return, or raise: no number depends on this file.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_array as sklearn_check_array
from sklearn.utils.validation import validate_data as sklearn_validate_data

from mtlrun.data.ranges import check_fitted


def validate_data(estimator: Any, X: Any, **options: Any) -> Any:
    """Return scikit-learn's ``validate_data(estimator, X, **options)``.

    Raises
    ------
    ValueError
        As scikit-learn's, and for an X whose largest entry is beyond 1e15 or (but for zero) below 1e-75.
    """
    X = sklearn_validate_data(estimator, X, **options)
    check_fitted(X, "X")
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
        check_fitted(y, "y")
    return y
