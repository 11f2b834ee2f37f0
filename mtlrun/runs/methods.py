"""From an estimator or a measure named in a file to its class or function, and what that can be given.

``{estimator: RobustMTL, params: {...}}`` may stand for a parameter (the base of a divide-and-conquer model), and
``base__alpha`` then means `alpha` of that estimator.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.papers.measure import MEASURES
from mtlrun.runs.cell import is_nested
from mtlrun.runs.code import Facts, facts
from mtlrun.runs.declared import declared

#: Given to a measure by the runner, not by the file.
_RESERVED = ("seed",)


def class_path(name: str) -> str:
    """Return ``package.module:Class`` of a registered method or of a class path, which must exist.

    Raises
    ------
    UserError
        If there is no such method, module or class.
    """
    path = _path_of(name)
    _estimator(path)
    return path


def parameter_names(name: str) -> tuple[str, ...] | None:
    """Return the constructor parameters of an estimator; None when any name may be right.

    Raises
    ------
    UserError
        If there is no such method, module or class.
    """
    found = _estimator(_path_of(name))
    return None if found.open else found.names


def has_parameter(name: str, params: Mapping[str, Any], parameter: str) -> bool:
    """Tell whether an estimator with these parameters has a parameter; ``base__alpha`` is looked up in its `base`."""
    first, _, rest = parameter.partition("__")
    known = parameter_names(name)
    if known is not None and first not in known:
        return False
    inner = params.get(first)
    return not rest or (is_nested(inner) and has_parameter(inner["estimator"], inner.get("params") or {}, rest))


def complete(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those that the registry gives a method by default, such as the base of a meta-model."""
    from mtlrun.estimators.registry import METHODS

    defaults = METHODS[name].default_params if name in METHODS else {}
    return {**copy.deepcopy(defaults), **params}


def resolved(name: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return ``{"estimator": class path, "params": {...}}``, nested estimators included: what a key is made of.

    A parameter `random_state` that is not given becomes `seed`, so that every fit can be repeated.
    """
    inner = {
        key: resolved(value["estimator"], value.get("params") or {}, seed) if is_nested(value) else copy.deepcopy(value)
        for key, value in complete(name, params).items()
    }
    if inner.get("random_state") is None and "random_state" in (parameter_names(name) or ()):
        inner["random_state"] = seed
    return {"estimator": class_path(name), "params": inner}


def class_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield all class paths of a resolved estimator."""
    yield spec["estimator"]
    for value in spec["params"].values():
        if is_nested(value):
            yield from class_paths(value)


def measure_path(name: str) -> str:
    """Return ``package.module:function`` of a measure, given by its short name or as such a path; it must exist.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    if ":" not in name and name not in MEASURES:
        raise UnknownNameError("measure", name, MEASURES)
    path = MEASURES.get(name, name)
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


def quantities_of(names: Iterable[str]) -> dict[str, dict[str, Any]] | None:
    """Return ``{"text", "greater_is_better"}`` of what some measures can return, None when one does not declare it."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        known = declared(MEASURES.get(name, name))
        if known is None:
            return None
        found |= known[1].facts()
    return found


def needs_data(name: str) -> bool:
    """Whether a measure declares that it is taken of a data set."""
    known = declared(MEASURES.get(name, name))
    return known is not None and known[1].needs_data


def _function(path: str) -> Facts:
    found = facts(path)
    if found.is_class:
        raise ConfigError(f"{path!r} is no measure: it is a class, not a function")
    return found


def _path_of(name: str) -> str:
    if ":" in name:
        return name
    from mtlrun.estimators.registry import get_method

    return get_method(name).class_path


def _estimator(path: str) -> Facts:
    found = facts(path)
    if not found.fits:
        raise ConfigError(f"{path!r} is no estimator: {'the class has no fit' if found.is_class else 'it is no class'}")
    return found
