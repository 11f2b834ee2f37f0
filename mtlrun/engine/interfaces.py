"""What the classes, functions and metrics that a file can name are and take. Standard library only.

Those of mtlrun stand in ``estimators/methods.json`` and ``interfaces.json``, which ``make generated`` writes, so that a
run that is up to date imports none of them. Others are imported and inspected.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.errors import ConfigError, suggest
from mtlrun.utils.plugins import import_named

STORED = Path(__file__).with_suffix(".json")
#: Module of what the decorator of a measure leaves on it.
_DECLARATION = "mtlrun.engine.analysis"


@dataclass(frozen=True)
class Interface:
    """What a class or a function can be given.

    Attributes
    ----------
    names : tuple of str
        Parameters in order, without self.
    open : bool
        Whether it takes ``**kwargs``, so that any name is allowed.
    keyword_only : tuple of str
        Those of `names` that must be given by name.
    is_class : bool
    fits : bool
        Whether it is a class with a method `fit`.
    rules : dict
        Parameter -> its rule as plain data (`mtlrun.estimators.params.Rule.plain`), for a class that has such.
    summary : str
        First line of the docstring.
    declaration : dict or None
        Of a measure: what it declares (`mtlrun.engine.analysis.Declaration`), as plain data.
    changes : tuple of str
        Why its numbers changed, once for every version after the first.
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


@dataclass(frozen=True)
class MetricFacts:
    """How a metric is used; attributes as of `mtlrun.metrics.Metric`."""

    greater_is_better: bool
    needs: str
    task_variance: bool = False


_STORED = json.loads(STORED.read_text(encoding="utf-8"))
METRIC_FACTS = {
    name: MetricFacts(**facts) for name, facts in _STORED["metrics"].items()
}


def interface(path: str) -> Interface:
    """Return what ``package.module:name`` can be given.

    Raises
    ------
    ConfigError
        If there is no such module, class or function, or the module cannot be imported.
    """
    from mtlrun.estimators.registry import (
        METHODS,
    )  # reports, which ask for metrics only, need no estimators

    name = path.partition(":")[2]
    if (
        name in METHODS
        and METHODS[name].class_path == path
        and path.startswith("mtlrun.")
    ):
        parameters = METHODS[name].parameters
        named = tuple(key for key, entry in parameters.items() if entry["keyword_only"])
        rules = {
            key: entry["rule"] for key, entry in parameters.items() if entry["rule"]
        }
        return Interface(
            tuple(parameters),
            False,
            named,
            True,
            True,
            rules,
            changes=tuple(METHODS[name].changes),
        )
    known = _STORED["interfaces"].get(path)
    if known is not None and _current(known.get("package")):
        lists = {
            key: tuple(known[key])
            for key in ("names", "keyword_only", "changes")
            if key in known
        }
        return Interface(
            **{
                **{key: value for key, value in known.items() if key != "package"},
                **lists,
            }
        )
    return inspected(path)


def _current(package: Mapping[str, str] | None) -> bool:
    """Whether a package that was inspected has the same version here."""
    if package is None:
        return True
    try:
        return all(
            importlib.metadata.version(name) == version
            for name, version in package.items()
        )
    except importlib.metadata.PackageNotFoundError:
        return False


def inspected(path: str) -> Interface:
    """Return what ``package.module:name`` can be given, by importing it; errors as `interface`."""
    found = _load(path)
    is_class = isinstance(found, type)
    try:
        parameters, unknown = list(inspect.signature(found).parameters.values()), False
    except (TypeError, ValueError):  # some compiled code
        parameters, unknown = [], True
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    declaration = getattr(found, "declaration", None)
    metadata = getattr(found, "metadata", None)
    return Interface(
        tuple(p.name for p in named),
        unknown or any(p.kind is p.VAR_KEYWORD for p in parameters),
        tuple(p.name for p in named if p.kind is p.KEYWORD_ONLY),
        is_class,
        callable(getattr(found, "fit", None)) and is_class,
        _rules(found) if is_class else {},
        (inspect.getdoc(found) or "").partition("\n")[0].rstrip(".").replace("`", ""),
        declaration.plain()
        if declaration is not None and type(declaration).__module__ == _DECLARATION
        else None,
        tuple(getattr(declaration or metadata, "changes", ())),
    )


def _rules(found: type) -> dict[str, Any]:
    rules = getattr(found, "_rules", None)
    known = (
        rules.items() if isinstance(rules, dict) else ()
    )  # a class may hold anything
    return {
        str(k): v.plain
        for k, v in known
        if type(v).__module__ == "mtlrun.estimators.params" and v.plain
    }


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        loaded = import_named(module)
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        remedy = "Is it installed, or its folder on PYTHONPATH?"
        raise ConfigError(
            f"cannot import {module!r} for {path!r}: {type(error).__name__}: {error}",
            remedy,
        ) from error
    found = getattr(loaded, name, None) if name else None
    if not callable(found):
        known = [
            n
            for n, value in vars(loaded).items()
            if inspect.isclass(value) or inspect.isfunction(value)
        ]
        near = suggest(name, known, 1)
        hint = f"Did you mean {near[0]!r}?" if near else None
        raise ConfigError(
            f"module {module!r} defines no class or function {name!r}", hint
        )
    return found
