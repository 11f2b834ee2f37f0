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
    """

    name: str
    forward: Function
    inverse: Function
    requirement: str


def _squared(values: np.ndarray) -> np.ndarray:
    """Return the inverse of the square root; no target lies below 0."""
    return np.maximum(values, 0.0) ** 2


TRANSFORMS = {
    "log": Transform("log", np.log, np.exp, "above 0"),
    "sqrt": Transform("sqrt", np.sqrt, _squared, "of at least 0"),
    "logit": Transform("logit", logit, expit, "between 0 and 1"),
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
