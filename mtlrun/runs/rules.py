"""Rules of constructor parameters, read from the source of a class without importing it.

An estimator of mtlrun keeps them in the class attribute `_rules`: a mapping of names to rules of
`mtlrun.estimators.params`, built from literals, module constants and the `_rules` of other classes.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from mtlrun.core.errors import UserError
from mtlrun.estimators import params as vocabulary
from mtlrun.estimators.params import Rule, choice, instance, integer, real
from mtlrun.runs.methods import class_path, complete, is_nested
from mtlrun.runs.sources import definition, find_module, imports_of, parse

ATTRIBUTE = "_rules"
_BUILTINS: dict[str, Any] = {kind.__name__: kind for kind in (bool, dict, float, int, list, str, tuple)}
#: Functions that make rules; nothing else is called.
_MAKERS = (choice, instance, integer, real)


class _Unknown(Exception):
    """An expression of which the source does not tell the value."""


def parameter_rule(estimator: str, params: Mapping[str, Any], name: str) -> Rule | None:
    """Return the rule of a constructor parameter; ``base__alpha`` is that of `alpha` of the estimator given as `base`.

    Parameters
    ----------
    estimator : str
        Name of the registry, or ``package.module:Class``.
    params : mapping
        Parameters that the estimator is given.
    name : str

    Returns
    -------
    Rule or None
        None where the source tells none, and for an estimator that does not exist.
    """
    first, _, rest = name.partition("__")
    if rest:
        inner = complete(estimator, params).get(first)
        return parameter_rule(inner["estimator"], inner.get("params") or {}, rest) if is_nested(inner) else None
    try:
        return rules_of(class_path(estimator)).get(first)
    except UserError:
        return None  # reported where the estimator is named


def rules_of(path: str) -> Mapping[str, Rule]:
    """Return the rules of ``package.module:Class`` as far as its source tells them."""
    module, _, name = path.partition(":")
    file = find_module(module)
    return _rules(module, name, file.stat().st_mtime_ns if file else 0)


@lru_cache(maxsize=256)
def _rules(module: str, name: str, mtime: int) -> Mapping[str, Rule]:
    found = definition(module, name)
    if found is None:
        return {}
    module, node = found
    value = _assigned(node.body, ATTRIBUTE)
    if value is not None:
        entries = dict(_entries(value, module))
        return {key: rule for key, rule in entries.items() if rule is not None}
    for base in node.bases:
        rules = rules_of(f"{module}:{base.id}") if isinstance(base, ast.Name) else {}
        if rules:
            return rules
    return {}


def _entries(node: ast.expr, module: str) -> Iterator[tuple[str, Rule | None]]:
    """Yield the entries of a mapping, with None for a rule that the source does not tell."""
    if not isinstance(node, ast.Dict):
        found = _known(node, module)
        yield from (found.items() if isinstance(found, Mapping) else ())
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            yield from _entries(value, module)
        elif isinstance(key, ast.Constant):
            rule = _known(value, module)
            yield str(key.value), rule if isinstance(rule, Rule) else None


def _known(node: ast.expr, module: str) -> Any:
    """Return the value of an expression, None where the source does not tell it."""
    try:
        return _value(node, module)
    except (_Unknown, AttributeError, RecursionError, TypeError, ValueError):  # a class may hold anything
        return None


def _value(node: ast.expr, module: str) -> Any:
    """Return the value of an expression as it stands in rules."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _named(node.id, module)
        case ast.Dict():
            return dict(_entries(node, module))
        case ast.Tuple() | ast.List():
            return tuple(_values(node.elts, module))
        case ast.Attribute(value=ast.Name(id="math"), attr="inf"):
            return math.inf
        case ast.Attribute(value=ast.Name(id=owner), attr="_rules"):
            return rules_of(f"{module}:{owner}")
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, module)
        case ast.BinOp(op=ast.BitOr()):
            return _value(node.left, module) | _value(node.right, module)
        case ast.Call() if not any(keyword.arg is None for keyword in node.keywords):
            function = _value(node.func, module)
            if function in _MAKERS:
                keywords = {str(keyword.arg): _value(keyword.value, module) for keyword in node.keywords}
                return function(*_values(node.args, module), **keywords)
    raise _Unknown


def _values(nodes: list[ast.expr], module: str) -> Iterator[Any]:
    for node in nodes:
        if isinstance(node, ast.Starred):
            yield from _value(node.value, module)
        else:
            yield _value(node, module)


def _named(name: str, module: str) -> Any:
    """Return the value of a name: a rule, a module constant, perhaps imported, or a builtin type."""
    if module == vocabulary.__name__:
        return getattr(vocabulary, name)
    file = find_module(module)
    if file is None:
        raise _Unknown
    tree = parse(file)
    assigned = _assigned(tree.body, name)
    if assigned is not None:
        return _value(assigned, module)
    imports = ast.Module([item for item in tree.body if isinstance(item, ast.ImportFrom)], [])
    for _, source, attribute in imports_of(imports, module, file.name == "__init__.py", only=name):
        if attribute is not None:
            return _named(attribute, source)
    if name in _BUILTINS:
        return _BUILTINS[name]
    raise _Unknown


def _assigned(body: list[ast.stmt], name: str) -> ast.expr | None:
    """Return what is assigned to a name in a class or module."""
    for item in body:
        targets = (
            item.targets if isinstance(item, ast.Assign) else [item.target] if isinstance(item, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return item.value  # type: ignore[attr-defined]
    return None
