"""Estimators and measures that a file names: class or function, what it can be given and declares, and its version.

``{estimator: RobustMTL, params: {...}}`` may be given for a parameter (the base of a divide-and-conquer model), and
``base__alpha`` then means `alpha` of that estimator. Nothing of mtlrun is imported for it (`mtlrun.engine.interfaces`).

A class, measure, reader or generator of mtlrun has a number that a person raises with a reason when what it returns
changes, and so has the protocol (splits, features, search, scoring, timing). An installed package counts by its
version, and a module of the user's own by its source. All of these are part of the key of a job.
"""

from __future__ import annotations

import ast
import copy
import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from mtlrun.data.load import SOURCE_CHANGES
from mtlrun.engine import analysis as measures
from mtlrun.engine.analysis import ANALYSES, Declaration, published_path
from mtlrun.engine.interfaces import Interface, interface
from mtlrun.engine.job import PROTOCOL_CHANGES, Method, is_nested
from mtlrun.errors import ConfigError, UnknownNameError, UserError
from mtlrun.estimators import registry
from mtlrun.estimators.params import Rule, rule_of
from mtlrun.estimators.registry import METHODS
from mtlrun.utils.io import as_list, read_file
from mtlrun.utils.plugins import current_folder

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


def owner_of(
    name: str, params: Mapping[str, Any], parameter: str
) -> tuple[str, Mapping[str, Any], str] | None:
    """Return the estimator that a parameter belongs to, its parameters and the name there.

    ``base__alpha`` is `alpha` of the estimator that is given, or set by default, as `base`; None if that is none.
    """
    first, _, rest = parameter.partition("__")
    if not rest:
        return name, params, first
    inner = complete(name, params).get(first)
    return (
        owner_of(inner["estimator"], inner.get("params") or {}, rest)
        if is_nested(inner)
        else None
    )


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
        key: resolved(value["estimator"], value.get("params") or {}, seed)
        if is_nested(value)
        else copy.deepcopy(value)
        for key, value in complete(name, params).items()
    }
    if inner.get("random_state") is None and "random_state" in (
        parameter_names(name) or ()
    ):
        inner["random_state"] = seed
    return {"estimator": registry.short_name(class_path(name)), "params": inner}


def class_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield all class paths of a resolved estimator."""
    yield registry.class_path(spec["estimator"])
    for value in spec["params"].values():
        if is_nested(value):
            yield from class_paths(value)


def method_paths(method: Method) -> tuple[str, ...]:
    """Return ``package.module:name`` of what a job names: its measure, or its classes, nested ones included."""
    if method.measure:
        return (measures.analysis_path(method.measure),)
    return tuple(class_paths({"estimator": method.estimator, "params": method.params}))


# --- measures


def analysis_path(name: str) -> str:
    """Return ``package.module:function`` of a measure, given by its short name or as such a path; it must exist.

    Raises
    ------
    UserError
        If there is no such measure, module or function.
    """
    if ":" not in name and name not in ANALYSES:
        raise UnknownNameError("measure", name, ANALYSES)
    path = measures.analysis_path(name)
    _function(path)
    return path


def analysis_parameters(name: str) -> tuple[str, ...] | None:
    """Return what a measure can be given in `params`; None when any name may be right; errors as `analysis_path`."""
    found = _function(analysis_path(name))
    return (
        None
        if found.open
        else tuple(n for n in found.keyword_only if n not in _RESERVED)
    )


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
        found = interface(measures.analysis_path(name))
    except ConfigError:  # `analysis_path` says what is wrong
        return None
    return (
        None
        if found.declaration is None
        else (found.summary, Declaration(**found.declaration))
    )


def published_hash(params: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name: sha256}`` of the files that a measure is given as `published`, {} without any."""
    names = [name for name in as_list(params.get(PUBLISHED)) if isinstance(name, str)]
    return {
        name: hashlib.sha256(read_file(published_path(name))).hexdigest()
        for name in names
    }


def _function(path: str) -> Interface:
    found = interface(path)
    if found.is_class:
        raise ConfigError(f"{path!r} is not a measure: it is a class, not a function")
    return found


# ---------------------------------------------------------------------- the versions of what computes a number

Versions = dict[str, int | str]
OWN = "mtlrun"
#: Ends of the names of files of the user's own.
OWN_CODE = (".py", ".pyc", ".so", ".pyd")
_INSTALLED = {"site-packages", "dist-packages"}
#: Packages -> the distributions that they belong to; looked up once.
_distributions = functools.lru_cache(maxsize=1)(
    importlib.metadata.packages_distributions
)
#: The package whose distribution every plan asks for, so that not all that is installed is read.
_KNOWN = {"sklearn": "scikit-learn"}


def versions_of(paths: Iterable[str], source: str = "") -> Versions:
    """Return the versions of what computes a job.

    Parameters
    ----------
    paths : iterable of str
        ``package.module:name`` of the classes, or of the measure.
    source : str
        Of the data: ``reader:mulan``, ``generator:rmtl``, empty without data.

    Returns
    -------
    dict
        Name -> version; package of others -> its version; file of the user's own, named from its package on -> 16 hex
        digits of its source.

    Raises
    ------
    ConfigError
        If there is no such module, class or function, or a file of the user's own is not Python.
    """
    found: Versions = {"protocol": 1 + len(PROTOCOL_CHANGES)}
    if source:
        found[source] = 1 + len(_source_changes(source))
    for path in paths:
        module = path.partition(":")[0]
        top = module.partition(".")[0]
        if top == OWN:
            method = registry.short_name(path)
            found[method if method != path else measures.analysis_name(path)] = 1 + len(
                interface(path).changes
            )
        elif (package := _package(top)) is not None:
            found[top] = package
        else:
            found |= own_files(module)
    return dict(sorted(found.items()))


def _source_changes(source: str) -> tuple[str, ...]:
    """Return why the version of a source was raised; roles of columns have reasons of their own."""
    reader, *roles = source.split("+")
    changes = SOURCE_CHANGES.get(reader, ())
    for role in roles:
        changes = (*changes, *SOURCE_CHANGES.get(f"{reader}+{role}", ()))
    return changes


def reason_of(name: str, old: int, new: int) -> str:
    """Say why a version was raised, in the words beside it; empty where they are not to be found."""
    if name == "protocol":
        changes = PROTOCOL_CHANGES
    elif ":" in name:
        changes = _source_changes(name)
    else:
        try:
            changes = interface(
                ANALYSES[name] if name in ANALYSES else registry.class_path(name)
            ).changes
        except UserError:  # it has gone since
            changes = ()
    return "; ".join(changes[max(old, 1) - 1 : new - 1])


def own_files(module: str) -> dict[str, str]:
    """Return the digests of a module of the user's own and of those that it imports by name, anywhere in their code.

    Names that are written in ``importlib.import_module("name")`` count, too; what is loaded in another way (computed
    names, files that are read) is not seen. Comments and layout do not count.
    """
    found: dict[str, str] = {}
    waiting, seen = [module], set()
    while waiting:
        name = waiting.pop()
        package = name.rpartition(".")[0]
        waiting += [package] if package else []
        file = None if name in seen else _own_file(name)
        seen.add(name)
        if file is not None:
            tree = _parsed(file)
            base = name if file.name == "__init__.py" else package
            content = (
                read_file(file)
                if tree is None
                else ast.unparse(tree).encode("utf-8", "surrogatepass")
            )
            found["/".join([*filter(None, base.split(".")), file.name])] = (
                hashlib.sha256(content).hexdigest()[:16]
            )
            waiting += () if tree is None else _imports(tree, base)
    return found


def _parsed(file: Path) -> ast.AST | None:
    """Return the syntax tree of a file, None for compiled code."""
    try:
        return ast.parse(read_file(file)) if file.suffix == ".py" else None
    except SyntaxError as error:
        raise ConfigError(
            f"{file.name}:{error.lineno}:{error.offset}: {error.msg}"
        ) from None
    except (
        OSError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # null bytes, or nested too deeply
        raise ConfigError(f"{file.name}: {error or 'the code is too large'}") from None


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name(
                "." * node.level + (node.module or ""), package
            )
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif (
            isinstance(node, ast.Call)
            and node.args
            and _called(node.func) in ("import_module", "__import__")
        ):
            name = (
                node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            )
            yield from (
                (name,) if isinstance(name, str) and not name.startswith(".") else ()
            )


def _called(function: ast.expr) -> str:
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else getattr(function, "id", "")
    )


def _own_file(name: str) -> Path | None:
    """Return the file of a module of the user's own, None for any other one and for what is no module."""
    top = name.partition(".")[0]
    # Looked up first: to find a submodule imports what it is in.
    spec = None if top in ("", OWN) or _package(top) is not None else _spec(name)
    return (
        Path(spec.origin)
        if spec is not None and spec.has_location and spec.origin
        else None
    )


def _spec(name: str) -> ModuleSpec | None:
    try:
        with current_folder():
            return importlib.util.find_spec(name)
    except (
        ImportError,
        ValueError,
        AttributeError,
    ):  # no module, or one without a file such as __main__
        return None


def _package(top: str) -> str | None:
    """Return the version of an installed package, None for a module of the user's own or none at all."""
    if top in sys.stdlib_module_names:
        return "{}.{}".format(*sys.version_info)
    spec = _spec(top)
    places = (
        []
        if spec is None
        else [spec.origin]
        if spec.has_location
        else spec.submodule_search_locations or []
    )
    parts = {part for place in places if place for part in Path(place).parts}
    names = _names(top)
    if parts.isdisjoint(_INSTALLED) and not any(_lists(name, top) for name in names):
        return None
    return importlib.metadata.version(names[0]) if names else "unknown"


def _names(top: str) -> list[str]:
    """Return the names of the distributions that a package belongs to."""
    name = _KNOWN.get(top)
    if name is not None and any(importlib.metadata.distributions(name=name)):
        return [name]
    return _distributions().get(top, [])


def _lists(distribution: str, top: str) -> bool:
    """Whether a distribution holds the files of a package, as after ``pip install --target``; no editable one does."""
    record = importlib.metadata.distribution(distribution).read_text("RECORD") or ""
    return any(
        line.startswith((f"{top}/", f"{top}.py,")) for line in record.split("\n")
    )
