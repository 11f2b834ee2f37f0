"""From an estimator named in a file to its class, its parameters and an instance.

``{estimator: RobustMTL, params: {...}}`` may stand for a parameter (the base of a divide-and-conquer model), and
``base__alpha`` then means `alpha` of that estimator.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from mtlrun.runs.sources import constructor


def class_path(name: str) -> str:
    """Return ``package.module:Class`` of a registered method or of a class path, which must exist.

    Raises
    ------
    UserError
        If there is no such method, module or class.
    """
    path = _path_of(name)
    constructor(path)
    return path


def parameter_names(name: str) -> tuple[str, ...] | None:
    """Return the constructor parameters of an estimator; None when any name may be right.

    Raises
    ------
    UserError
        If there is no such method, module or class.
    """
    found = constructor(_path_of(name))
    return None if found is None or found.open else found.names


def has_parameter(name: str, params: Mapping[str, Any], parameter: str) -> bool:
    """Tell whether an estimator with these parameters has a parameter; ``base__alpha`` is looked up in its `base`."""
    first, _, rest = parameter.partition("__")
    known = parameter_names(name)
    if known is not None and first not in known:
        return False
    inner = params.get(first)
    return not rest or (is_nested(inner) and has_parameter(inner["estimator"], inner.get("params") or {}, rest))


def is_nested(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a parameter value stands for an estimator."""
    return (
        isinstance(value, Mapping) and isinstance(value.get("estimator"), str) and set(value) <= {"estimator", "params"}
    )


def complete(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those that the registry gives a method by default, such as the base of a meta-model."""
    from mtlrun.estimators.registry import METHODS

    defaults = METHODS[name].default_params if name in METHODS else {}
    return {**copy.deepcopy(defaults), **params}


def with_params(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of parameters with some replaced; ``base__alpha`` reaches into the estimator given as `base`."""
    result = copy.deepcopy(dict(params))
    for name, value in changes.items():
        first, _, rest = name.partition("__")
        if rest:
            inner = result[first]
            result[first] = {**inner, "params": with_params(inner.get("params") or {}, {rest: value})}
        else:
            result[name] = copy.deepcopy(value)
    return result


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


def metric_path(name: str) -> str:
    """Return ``package.module:function`` of a metric.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    from mtlrun.core.metrics import get_metric

    function = get_metric(name).function
    return f"{function.__module__}:{function.__name__}"


def _path_of(name: str) -> str:
    if ":" in name:
        return name
    from mtlrun.estimators.registry import get_method

    return get_method(name).class_path
