"""Interfaces of the classes, functions and metrics that a file can name.

The generated module `mtlrun.estimators.declarations` has the interfaces of mtlrun, so that a run
that is up to date imports none of its modules. Other modules are imported and
inspected. This module needs only the standard library.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mtlrun.errors import ConfigError, suggest
from mtlrun.estimators import declarations
from mtlrun.utils.plugins import import_named

#: Version of an installed distribution, whose metadata are read once per process.
version_of = functools.lru_cache(importlib.metadata.version)

#: Module of the class of declarations, which the decorator of an analysis attaches.
_DECLARATION_MODULE = "mtlrun.catalog.analysis"
#: Module of the class of rules for parameters.
_RULE_MODULE = "mtlrun.estimators.params"


@dataclass(frozen=True)
class Interface:
    """Parameters and properties of a class or function.

    Attributes
    ----------
    names : tuple of str
        Parameters in order, without self.
    open : bool
        Whether it takes ``**kwargs``, so that any name is allowed.
    keyword_only : tuple of str
        Parameters that must be passed by name.
    is_class : bool
    fits : bool
        Whether it is a class with a method `fit`.
    rules : dict
        Parameter -> its rule as plain data (`mtlrun.estimators.params.Rule.plain`);
        only for classes with rules.
    summary : str
        First line of the docstring.
    declaration : dict or None
        Declaration of an analysis (`mtlrun.catalog.analysis.Declaration`), as plain
        data.
    changes : tuple of str
        Reason of each version after the first.
    path : str
        ``package.module:name``.
    """

    names: tuple[str, ...]
    open: bool = False
    keyword_only: tuple[str, ...] = ()
    is_class: bool = False
    fits: bool = False
    rules: dict[str, Any] = field(default_factory=dict)
    summary: str = ""
    declaration: dict[str, Any] | None = None
    changes: tuple[str, ...] = ()
    path: str = field(default="", compare=False)


@dataclass(frozen=True)
class MetricInfo:
    """Properties of a metric; the attributes are described in
    `mtlrun.metrics.Metric`.
    """

    greater_is_better: bool
    needs: str
    task_variance: bool = False


_STORED_INTERFACES = json.loads(declarations.INTERFACES)
#: Name of a metric -> its properties.
METRIC_INFO = {
    name: MetricInfo(**stored)
    for name, stored in json.loads(declarations.METRICS).items()
}
#: Quantity of an analysis -> its words in tables and figures.
QUANTITY_LABELS: dict[str, str] = {}
for _stored in _STORED_INTERFACES.values():
    QUANTITY_LABELS |= _stored.get("declaration", {}).get("labels", {})


#: Interfaces that have been read, by path. Classes and functions of the user, which may
#: change while the program runs, are not among them.
_READ: dict[str, Interface] = {}


def interface(path: str) -> Interface:
    """Return the interface of ``package.module:name``.

    Raises
    ------
    ConfigError
        If there is no such module, class or function, or the module cannot be imported.
    """
    if path in _READ:
        return _READ[path]
    # Reports need only metrics, and do not load the registry of estimators.
    from mtlrun.catalog.registry import METHODS

    method = METHODS.get(path.partition(":")[2])
    if method is not None and method.class_path == path and path.startswith("mtlrun."):
        keyword_only = []
        rules = {}
        for parameter_name, parameter in method.parameters.items():
            if parameter["keyword_only"]:
                keyword_only.append(parameter_name)
            if parameter["rule"]:
                rules[parameter_name] = parameter["rule"]
        entry = Interface(
            path=method.class_path,
            names=tuple(method.parameters),
            keyword_only=tuple(keyword_only),
            is_class=True,
            fits=True,
            rules=rules,
            changes=tuple(method.changes),
        )
    else:
        stored = _STORED_INTERFACES.get(path)
        if stored is None or not _is_installed(stored.get("package")):
            return inspect_interface(path)
        fields = {name: value for name, value in stored.items() if name != "package"}
        for name in ("names", "keyword_only", "changes"):
            if name in fields:
                fields[name] = tuple(fields[name])
        entry = Interface(path=path, **fields)
    _READ[path] = entry
    return entry


def _is_installed(package: Mapping[str, str] | None) -> bool:
    """Whether the inspected package is installed in the same version.

    Parameters
    ----------
    package : dict or None
        Name -> version; None for modules of mtlrun and of the standard library.
    """
    if package is None:
        return True
    try:
        for name, version in package.items():
            if version_of(name) != version:
                return False
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def inspect_interface(path: str) -> Interface:
    """Import ``package.module:name`` and return its interface.

    Raises the errors of `interface`.
    """
    target = _import(path)
    is_class = isinstance(target, type)
    takes_any_name = False
    names = []
    keyword_only = []
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        # Some compiled functions have no signature.
        parameters = []
        takes_any_name = True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any_name = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            names.append(parameter.name)
        if parameter.kind is parameter.KEYWORD_ONLY:
            keyword_only.append(parameter.name)

    # Classes and functions of other packages may have any attributes.
    declaration = getattr(target, "declaration", None)
    metadata = getattr(target, "metadata", None)
    plain_declaration = None
    is_declaration = type(declaration).__module__ == _DECLARATION_MODULE
    if declaration is not None and is_declaration:
        plain_declaration = declaration.plain()
    first_paragraph = (inspect.getdoc(target) or "").partition("\n\n")[0]
    summary = " ".join(first_paragraph.split())
    return Interface(
        path=path,
        names=tuple(names),
        open=takes_any_name,
        keyword_only=tuple(keyword_only),
        is_class=is_class,
        fits=is_class and callable(getattr(target, "fit", None)),
        rules=_rules(target) if is_class else {},
        summary=summary.rstrip(".").replace("`", ""),
        declaration=plain_declaration,
        changes=tuple(getattr(declaration or metadata, "changes", ())),
    )


def _rules(target: type) -> dict[str, Any]:
    """Return the rules of a class for its parameters as plain data."""
    rules = getattr(target, "_rules", None)
    # Classes of other packages may use the name for something else.
    if not isinstance(rules, dict):
        return {}
    plain_rules = {}
    for name, rule in rules.items():
        if type(rule).__module__ == _RULE_MODULE and rule.plain:
            plain_rules[str(name)] = rule.plain
    return plain_rules


def _import(path: str) -> Any:
    """Import the class or function ``package.module:name``."""
    module, _, name = path.partition(":")
    try:
        loaded = import_named(module)
    except (Exception, SystemExit) as error:
        # A module of the user may raise anything.
        remedy = "Is it installed, or its folder on PYTHONPATH?"
        raise ConfigError(
            f"cannot import {module!r} for {path!r}: {type(error).__name__}: {error}",
            remedy,
        ) from error
    target = getattr(loaded, name, None)
    if callable(target):
        return target
    candidates = []
    for other_name, value in vars(loaded).items():
        if inspect.isclass(value) or inspect.isfunction(value):
            candidates.append(other_name)
    hint = None
    for similar in suggest(name, candidates, 1):
        hint = f"Did you mean {similar!r}?"
    raise ConfigError(f"module {module!r} defines no class or function {name!r}", hint)
