"""Measures by their names: where they are, what they take and what they return. Loads no measure."""

from __future__ import annotations

from collections.abc import Iterable

from mtlrun.core.errors import ConfigError, UnknownNameError
from mtlrun.experiments.measures.registry import MEASURES, Quantity
from mtlrun.runs.code import Facts, facts

#: Given by the runner, not by the file.
_RESERVED = ("seed",)


def measure_path(name: str) -> str:
    """Return ``package.module:function`` of a registered measure or of a function path, which must exist.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    if ":" not in name and name not in MEASURES:
        raise UnknownNameError("measure", name, MEASURES)
    path = name if ":" in name else MEASURES[name].path
    _function(path)
    return path


def measure_parameters(name: str) -> tuple[str, ...] | None:
    """Return what a measure can be given in `params`; None when any name may be right.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    found = _function(measure_path(name))
    return None if found.open else tuple(n for n in found.keyword_only if n not in _RESERVED)


def quantities_of(names: Iterable[str]) -> dict[str, Quantity] | None:
    """Return what some measures can return; None when one of them is a function that no registry describes."""
    found: dict[str, Quantity] = {}
    for name in names:
        if name not in MEASURES:
            return None
        found |= MEASURES[name].quantities
    return found


def needs_data(name: str) -> bool:
    """Whether a measure is taken of a data set; functions outside the registry say so by being given one."""
    return name in MEASURES and MEASURES[name].needs_data


def _function(path: str) -> Facts:
    found = facts(path)
    if found.is_class:
        raise ConfigError(f"{path!r} is no measure: it is a class, not a function")
    return found
