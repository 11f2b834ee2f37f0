"""Names of measures and of the quantities that they return. Imports no third-party package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A number that a measure returns.

    Attributes
    ----------
    text : str
        What it is, with its unit.
    greater_is_better : bool or None
        None where neither is better.
    """

    text: str
    greater_is_better: bool | None = None


@dataclass(frozen=True)
class MeasureInfo:
    """A measure.

    Attributes
    ----------
    name : str
        Value of `measure` in experiment files.
    path : str
        ``module:function``.
    summary : str
        One line.
    quantities : dict of str to Quantity
        What it can return.
    needs_data : bool
        False for measures of published numbers.
    """

    name: str
    path: str
    summary: str
    quantities: dict[str, Quantity]
    needs_data: bool = True


#: In alphabetical order.
MEASURES: dict[str, MeasureInfo] = {info.name: info for info in ()}
