"""The methods by name: metadata, location of classes, construction. Standard library
only.

The generated module `mtlrun.estimators.declarations` has their metadata.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeGuard

from mtlrun.errors import ConfigError, UnknownNameError, suggest
from mtlrun.estimators import HOMES, declarations
from mtlrun.estimators.metadata import MethodInfo
from mtlrun.utils.plugins import METHODS_GROUP, Plugin, import_named, plugins

__all__ = [
    "BASELINES",
    "METHODS",
    "MethodInfo",
    "build",
    "class_path",
    "get_method",
    "load_class",
    "short_name",
]


def _described(plugin: Plugin) -> MethodInfo:
    """Return what is known of a method of another package without importing it."""
    kind = "regressor"
    if plugin.name.endswith("Classifier"):
        kind = "classifier"
    summary = f"Method of the package {plugin.source}."
    return MethodInfo(
        plugin.name, plugin.value, summary, kind=kind, losses=[], source=plugin.source
    )


#: All methods by name: the methods of mtlrun, then those from other packages.
METHODS: dict[str, MethodInfo] = {
    name: MethodInfo(**record)
    for name, record in json.loads(declarations.METHODS).items()
}
#: Other models of `mtlrun compare`, by their names in its leaderboards.
BASELINES: dict[str, MethodInfo] = {
    name: MethodInfo(**record)
    for name, record in json.loads(declarations.BASELINES).items()
}
METHODS |= {
    plugin.name: _described(plugin)
    for plugin in plugins(METHODS_GROUP)
    if plugin.name not in METHODS
}


def get_method(name: str) -> MethodInfo:
    """Return the metadata of a method or of a baseline of `mtlrun compare`.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    if name in BASELINES:
        return BASELINES[name]
    if name not in METHODS:
        raise UnknownNameError("method", name, [*METHODS, *BASELINES])
    return METHODS[name]


def class_path(name: str) -> str:
    """Return ``package.module:Class`` of a method, of a public class of
    `mtlrun.estimators`, or of such a path.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    if ":" in name:
        return name
    if name not in METHODS and name in HOMES:
        return f"{HOMES[name]}:{name}"
    return get_method(name).class_path


def short_name(path: str) -> str:
    """Return the name that stands for a class of mtlrun wherever its module is;
    other paths as they are.
    """
    module, _, name = path.partition(":")
    ours = module.startswith("mtlrun.") and (name in METHODS or name in HOMES)
    if ours and class_path(name) == path:
        return name
    return path


def load_class(name: str) -> type:
    """Import the class of a method.

    Parameters
    ----------
    name : str
        Name of a method or a class of `mtlrun.estimators`, or ``package.module:Class``
        for any class with scikit-learn's interface.

    Raises
    ------
    UnknownNameError
        If it is neither.
    ConfigError
        If the module cannot be imported, has no such class, or the class has no `fit`.
    """
    module_name, _, class_name = class_path(name).partition(":")
    try:
        module = import_named(module_name)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"cannot import {module_name!r} for the estimator {name!r}: {error}",
            "The module must be installed or on PYTHONPATH.",
        ) from error
    cls = getattr(module, class_name, None)
    if not _is_estimator(cls):
        problem = "no class with a fit method"
        if cls is None:
            problem = "no such class"
        near = suggest(
            class_name, [n for n, value in vars(module).items() if _is_estimator(value)]
        )
        raise ConfigError(
            f"{name!r}: {class_name!r} is {problem} in {module_name!r}",
            f"Did you mean {near[0]!r}?" if near else None,
        )
    return cls


def build(spec: str | Mapping[str, Any]) -> Any:
    """Make an estimator from a name or from a mapping ``{estimator: name, params:
    {...}}``.

    Parameters whose value is such a mapping are made first, to any depth; a parameter
    ``base__lam`` sets `lam` of the nested `base`.

    Raises
    ------
    UnknownNameError, ConfigError
        For an unknown estimator, key or parameter.
    """
    if isinstance(spec, str):
        spec = {"estimator": spec}
    unknown = set(spec) - {"estimator", "params"}
    if unknown or not isinstance(spec.get("estimator"), str):
        problem = "no name under 'estimator'"
        if unknown:
            problem = f"unknown key {sorted(unknown)[0]!r}"
        raise ConfigError(
            f"estimator {dict(spec)!r}: {problem}",
            "Write {estimator: NAME, params: {...}}.",
        )
    name = spec["estimator"]
    cls = load_class(name)
    values = {
        **(METHODS[name].default_params if name in METHODS else {}),
        **(spec.get("params") or {}),
    }
    params = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and "estimator" in value:
            params[key] = build(value)
        else:
            params[key] = value
    _check_names(name, cls, params)
    nested = {key: value for key, value in params.items() if "__" in key}
    estimator = cls(
        **{key: value for key, value in params.items() if key not in nested}
    )
    if nested:
        try:
            estimator.set_params(**nested)
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"{name}: {error}") from error
    return estimator


def _is_estimator(value: Any) -> TypeGuard[type]:
    return isinstance(value, type) and hasattr(value, "fit")


@cache
def _names_of(cls: type) -> list[str] | None:
    """Return the names of the parameters of a class, None where it takes any;
    searches make one thousands of times.
    """
    signature = inspect.signature(cls).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in signature):
        return None
    return [p.name for p in signature]


def _check_names(name: str, cls: type, params: Mapping[str, Any]) -> None:
    names = _names_of(cls)
    if names is None:
        return
    for key in params:
        if key.partition("__")[0] not in names:
            near = suggest(key, names)
            if near:
                hint = f"Did you mean {near[0]!r}?"
            else:
                hint = f"It has: {', '.join(names)}."
            raise ConfigError(f"{name} has no parameter {key!r}", hint)
