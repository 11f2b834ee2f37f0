"""From an estimator or a measure named in a file to its class or function, what it can be given and what it declares.

``{estimator: RobustMTL, params: {...}}`` may be given for a parameter (the base of a divide-and-conquer model), and
``base__alpha`` then means `alpha` of that estimator. Nothing of mtlrun is imported for it (`mtlrun.interfaces`).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import mtlrun.estimators.registry as registry
from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.estimators.params import Rule, rule_of
from mtlrun.estimators.registry import METHODS
from mtlrun.interfaces import Interface, interface
from mtlrun.papers import measure as measures
from mtlrun.papers.measure import MEASURES, Declaration, published_path
from mtlrun.runs.cell import Method, is_nested
from mtlrun.utils.io import as_list

#: Given to a measure by the runner, not by the file.
_RESERVED = ("seed",)
#: Parameter of measures that names files of published numbers; their content is part of the key.
PUBLISHED = "published"


# --- estimators


def class_path(name: str) -> str:
    """Return ``package.module:Class`` of a registered method or of a class path, which must exist.

    Raises
    ------
    UserError
        If there is no such method, module or class.
    """
    path = registry.class_path(name)
    found = interface(path)
    if not found.fits:
        raise ConfigError(
            f"{path!r} is not an estimator: {'the class has no fit' if found.is_class else 'it is not a class'}"
        )
    return path


def parameter_names(name: str) -> tuple[str, ...] | None:
    """Return the constructor parameters of an estimator; None when any name may be right; errors as `class_path`."""
    found = interface(class_path(name))
    return None if found.open else found.names


def owner_of(name: str, params: Mapping[str, Any], parameter: str) -> tuple[str, Mapping[str, Any], str] | None:
    """Return the estimator that a parameter belongs to, its parameters and the name there.

    ``base__alpha`` is `alpha` of the estimator that is given, or set by default, as `base`; None if that is none.
    """
    first, _, rest = parameter.partition("__")
    if not rest:
        return name, params, first
    inner = complete(name, params).get(first)
    return owner_of(inner["estimator"], inner.get("params") or {}, rest) if is_nested(inner) else None


def has_parameter(name: str, params: Mapping[str, Any], parameter: str) -> bool:
    """Tell whether an estimator with these parameters has a parameter, which may be one of an estimator inside it."""
    owner = owner_of(name, params, parameter)
    known = owner and parameter_names(owner[0])
    return owner is not None and (known is None or owner[2] in known)


def parameter_rule(name: str, params: Mapping[str, Any], parameter: str) -> Rule | None:
    """Return the rule that the class of an estimator has for a parameter.

    None where there is no rule, or one that only the class itself can check; errors as `class_path`.
    """
    owner = owner_of(name, params, parameter)
    plain = owner and interface(class_path(owner[0])).rules.get(owner[2])
    return rule_of(plain) if plain else None


def complete(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those that the registry gives a method by default, such as the base of a meta-model."""
    defaults = METHODS[name].default_params if name in METHODS else {}
    return {**copy.deepcopy(defaults), **params}


def resolved(name: str, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return ``{"estimator": name, "params": {...}}``, nested estimators included: what a key is made of.

    A class of mtlrun goes by its name, so that it may move to another module; others by their path. A parameter
    `random_state` that is not given becomes `seed`, so that every fit can be repeated.
    """
    inner = {
        key: resolved(value["estimator"], value.get("params") or {}, seed) if is_nested(value) else copy.deepcopy(value)
        for key, value in complete(name, params).items()
    }
    if inner.get("random_state") is None and "random_state" in (parameter_names(name) or ()):
        inner["random_state"] = seed
    return {"estimator": registry.short_name(class_path(name)), "params": inner}


def class_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield all class paths of a resolved estimator."""
    yield registry.class_path(spec["estimator"])
    for value in spec["params"].values():
        if is_nested(value):
            yield from class_paths(value)


def method_paths(method: Method) -> tuple[str, ...]:
    """Return ``package.module:name`` of what a cell names: its measure, or its classes, nested ones included."""
    if method.measure:
        return (measures.measure_path(method.measure),)
    return tuple(class_paths({"estimator": method.estimator, "params": method.params}))


# --- measures


def measure_path(name: str) -> str:
    """Return ``package.module:function`` of a measure, given by its short name or as such a path; it must exist.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    if ":" not in name and name not in MEASURES:
        raise UnknownNameError("measure", name, MEASURES)
    path = measures.measure_path(name)
    _function(path)
    return path


def measure_parameters(name: str) -> tuple[str, ...] | None:
    """Return what a measure can be given in `params`; None when any name may be right; errors as `measure_path`."""
    found = _function(measure_path(name))
    return None if found.open else tuple(n for n in found.keyword_only if n not in _RESERVED)


def quantities_of(names: Iterable[str]) -> dict[str, dict[str, Any]] | None:
    """Return ``{"text", "greater_is_better"}`` of what some measures can return, None when one does not declare it."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        known = declared(name)
        if known is None:
            return None
        found |= known[1].facts()
    return found


def needs_data(name: str) -> bool:
    """Whether a measure declares that it needs a data set."""
    known = declared(name)
    return known is not None and known[1].needs_data


def declared(name: str) -> tuple[str, Declaration] | None:
    """Return the first line of the docstring of a measure and what it declares; None where it declares nothing."""
    try:
        found = interface(measures.measure_path(name))
    except ConfigError:  # `measure_path` says what is wrong
        return None
    return None if found.declaration is None else (found.summary, Declaration(**found.declaration))


def published_hash(params: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name: sha256}`` of the files that a measure is given as `published`, {} without any."""
    names = [name for name in as_list(params.get(PUBLISHED)) if isinstance(name, str)]
    return {name: hashlib.sha256(published_path(name).read_bytes()).hexdigest() for name in names}


def _function(path: str) -> Interface:
    found = interface(path)
    if found.is_class:
        raise ConfigError(f"{path!r} is not a measure: it is a class, not a function")
    return found
