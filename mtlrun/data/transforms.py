"""Transformations of targets: methods are fitted and compared on the new scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from mtlrun.errors import UnknownNameError

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Transform:
    """An increasing function of targets.

    Attributes
    ----------
    name : str
    forward, inverse : callable
    requirement : str
        Targets that have a value.
    allows : callable
        Returns whether targets have one.
    """

    name: str
    forward: Function
    inverse: Function
    requirement: str
    allows: Callable[[np.ndarray], np.ndarray]


def _squared(values: np.ndarray) -> np.ndarray:
    """Return the inverse of the square root; no target lies below 0."""
    return np.maximum(values, 0.0) ** 2


def _is_positive(values: np.ndarray) -> np.ndarray:
    return values > 0


def _is_nonnegative(values: np.ndarray) -> np.ndarray:
    return values >= 0


def _is_inside_unit_interval(values: np.ndarray) -> np.ndarray:
    return (values > 0) & (values < 1)


TRANSFORMS = {
    "log": Transform("log", np.log, np.exp, "above 0", _is_positive),
    "sqrt": Transform("sqrt", np.sqrt, _squared, "of at least 0", _is_nonnegative),
    "logit": Transform(
        "logit", logit, expit, "between 0 and 1", _is_inside_unit_interval
    ),
}


def transform_named(name: str) -> Transform:
    """Return a transformation.

    Raises
    ------
    UnknownNameError
    """
    if name not in TRANSFORMS:
        raise UnknownNameError("value of --transform", name, TRANSFORMS)
    return TRANSFORMS[name]
