"""Estimators and analyses named in files: parameters, declarations and versions.

The value of a parameter may be an estimator, such as the base of a divide-and-conquer
model: ``{estimator: RobustMTL, params: {...}}``. ``base__alpha`` then is the parameter
`alpha` of that estimator. No module of mtlrun is imported to look this up, see
`mtlrun.catalog.interfaces`.

The key of a job includes the versions of the code that computes it:

- Each class, analysis, reader and generator of mtlrun has a version, and so has the
  protocol (splits, features, search, scoring, timing). A developer raises it, with a
  reason, when results change.
- An installed package has the version of its distribution.
- A module that is not installed, such as a file of the user, has a digest of its
  source.
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
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, TypeGuard

from mtlrun.catalog import analysis, registry
from mtlrun.catalog.analysis import ANALYSES, Declaration
from mtlrun.catalog.interfaces import Interface, interface, version_of
from mtlrun.catalog.registry import METHODS
from mtlrun.data.sets.load import SOURCE_CHANGES
from mtlrun.errors import ConfigError, UnknownNameError, UserError
from mtlrun.estimators.params import Rule, rule_of
from mtlrun.utils.io import as_list, jsonable, published_path, read_file
from mtlrun.utils.plugins import current_folder

#: Parameters of analyses that the runner sets, not the file.
_RESERVED = ("seed",)
#: Parameter of analyses that names files of published numbers. Their content is part of
#: the key.
PUBLISHED = "published"

#: One reason for each change of splits, features, searches, scores or timings. The
#: version of the protocol is one more than their number. Each change outdates all
#: results stored before it.
PROTOCOL_CHANGES: tuple[str, ...] = ()


# --- a method in the key of a job


@dataclass(frozen=True)
class Method:
    """An estimator or an analysis, with its parameters.

    Classes and analyses of mtlrun are identified by their names, others by
    ``package.module:name``.

    Attributes
    ----------
    estimator : str
        Empty for an analysis.
    measure : str
        Name of the analysis; empty for an estimator.
    params : dict
        Includes nested estimators and random states.
    published : dict of str to str
        Name and sha256 of each file of published numbers that the analysis reads.
    """

    estimator: str = ""
    measure: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)

    @functools.cached_property
    def plain(self) -> dict[str, Any]:
        """Fields that are not empty, as JSON holds them."""
        fields = {
            "estimator": self.estimator,
            "measure": self.measure,
            "params": self.params,
            "published": self.published,
        }
        return dict(jsonable(without_empty(fields)))


def is_nested(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the value of a parameter describes an estimator."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("estimator"), str)
        and set(value) <= {"estimator", "params"}
    )


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dictionary without None and without empty texts, lists and mappings."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", (), [], {})
    }


# --- estimators


#: Interfaces of the methods of mtlrun that have been named, by their names.
_ESTIMATORS: dict[str, Interface] = {}


def estimator_interface(name: str) -> Interface:
    """Return the interface of an estimator.

    Parameters
    ----------
    name : str
        Name of a registered method, or a class path.

    Raises
    ------
    UserError
        If there is no such method, module or class.
    """
    if name in _ESTIMATORS:
        return _ESTIMATORS[name]
    path = registry.class_path(name)
    entry = interface(path)
    if not entry.is_class:
        raise ConfigError(f"{path!r} is not an estimator: it is not a class")
    if not entry.fits:
        raise ConfigError(f"{path!r} is not an estimator: the class has no fit")
    if path.startswith(f"{PACKAGE}."):
        _ESTIMATORS[name] = entry
    return entry


def class_path(name: str) -> str:
    """Return the class path ``package.module:Class`` of an estimator.

    Raises the errors of `estimator_interface`.
    """
    return estimator_interface(name).path


def parameter_names(name: str) -> tuple[str, ...] | None:
    """Return the constructor parameters of an estimator; None if it takes any name.

    Raises the errors of `estimator_interface`.
    """
    entry = estimator_interface(name)
    if entry.open:
        return None
    return entry.names


def owner_of(
    name: str, params: Mapping[str, Any], parameter: str
) -> tuple[str, Mapping[str, Any], str] | None:
    """Return the estimator that a parameter belongs to.

    ``base__alpha`` belongs to the estimator that is the value of `base`.

    Returns
    -------
    (name, params, parameter) or None
        Name and parameters of the estimator, and the name of the parameter there. None
        if there is no such estimator.
    """
    first, _, rest = parameter.partition("__")
    if not rest:
        return name, params, first
    nested = complete(name, params).get(first)
    if not is_nested(nested):
        return None
    nested_params = nested.get("params") or {}
    return owner_of(nested["estimator"], nested_params, rest)


def has_parameter(name: str, params: Mapping[str, Any], parameter: str) -> bool:
    """Whether an estimator, or a nested one, has a parameter; see `owner_of`."""
    owner = owner_of(name, params, parameter)
    if owner is None:
        return False
    owner_name, _, owner_parameter = owner
    names = parameter_names(owner_name)
    return names is None or owner_parameter in names


def parameter_rule(name: str, params: Mapping[str, Any], parameter: str) -> Rule | None:
    """Return the rule for the values of a parameter.

    None if there is no rule, or if only the class itself can check it. Raises the
    errors of `estimator_interface`.
    """
    owner = owner_of(name, params, parameter)
    if owner is None:
        return None
    owner_name, _, owner_parameter = owner
    plain_rule = estimator_interface(owner_name).rules.get(owner_parameter)
    if not plain_rule:
        return None
    return rule_of(plain_rule)


def complete(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Add the default parameters that the registry has for a method.

    Meta-models have such defaults, for example for their base estimator.
    """
    if name not in METHODS:
        return dict(params)
    return {**copy.deepcopy(METHODS[name].default_params), **params}


#: Stands for the random state of an estimator until `with_seed`.
OPEN_SEED = object()


def resolved(
    name: str, params: Mapping[str, Any], seed: object = OPEN_SEED
) -> dict[str, Any]:
    """Return an estimator and all its parameters in the form that is part of a key.

    Classes of mtlrun are identified by name, so that they may move to another module;
    other classes by their path. A parameter `random_state` that is None becomes `seed`,
    so that every fit can be repeated.

    Returns
    -------
    dict
        ``{"estimator": name, "params": {...}}``; nested estimators have the same form.
    """
    all_params: dict[str, Any] = {}
    for key, value in complete(name, params).items():
        if is_nested(value):
            nested_params = value.get("params") or {}
            all_params[key] = resolved(value["estimator"], nested_params, seed)
        else:
            all_params[key] = copy.deepcopy(value)
    entry = estimator_interface(name)
    is_seeded = "random_state" in entry.names and not entry.open
    if is_seeded and all_params.get("random_state") is None:
        all_params["random_state"] = seed
    return {"estimator": registry.short_name(entry.path), "params": all_params}


def resolved_method(method: Method) -> Method:
    """Return a method as a part of a key; `with_seed` completes it.

    Estimators get all their parameters, as in `resolved`. Analyses get their name and
    the digests of the files that they read.
    """
    if method.measure:
        return Method(
            measure=analysis.analysis_name(analysis_path(method.measure)),
            params=method.params,
            published=published_hash(method.params),
        )
    return Method(**resolved(method.estimator, method.params))


def with_seed(method: Method, seed: int) -> Method:
    """Return a resolved method whose open random states are `seed`."""
    params = _with_seed(method.params, seed)
    if params is method.params:
        return method
    return replace(method, params=params)


def _with_seed(params: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the same parameters if no random state is open."""
    changed: dict[str, Any] = {}
    for name, value in params.items():
        if value is OPEN_SEED:
            changed[name] = seed
        elif is_nested(value):
            nested = _with_seed(value["params"], seed)
            if nested is not value["params"]:
                changed[name] = {**value, "params": nested}
    return {**params, **changed} if changed else params


def class_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the class paths of a resolved estimator and of the nested ones."""
    yield registry.class_path(spec["estimator"])
    for value in spec["params"].values():
        if is_nested(value):
            yield from class_paths(value)


def method_paths(method: Method) -> tuple[str, ...]:
    """Return ``package.module:name`` of the analysis or of the classes of a method.

    Nested estimators are included.
    """
    if method.measure:
        return (analysis.analysis_path(method.measure),)
    spec = {"estimator": method.estimator, "params": method.params}
    return tuple(class_paths(spec))


# --- analyses


def analysis_path(name: str) -> str:
    """Return the path ``package.module:function`` of an analysis.

    Parameters
    ----------
    name : str
        Short name of the analysis, or its path.

    Raises
    ------
    UserError
        If there is no such analysis, module or function.
    """
    if ":" not in name and name not in ANALYSES:
        raise UnknownNameError("measure", name, ANALYSES)
    path = analysis.analysis_path(name)
    _function_interface(path)
    return path


def analysis_parameters(name: str) -> tuple[str, ...] | None:
    """Return the parameters that a file can set; None if the analysis takes any name.

    Raises the errors of `analysis_path`.
    """
    function = _function_interface(analysis_path(name))
    if function.open:
        return None
    return tuple(name for name in function.keyword_only if name not in _RESERVED)


def quantities_of(names: Iterable[str]) -> dict[str, dict[str, Any]] | None:
    """Return the quantities that analyses declare.

    Returns
    -------
    dict or None
        Name -> ``{"text", "greater_is_better"}``. None if one of the analyses does not
        declare its quantities.
    """
    quantities: dict[str, dict[str, Any]] = {}
    for name in names:
        summary_and_declaration = declared(name)
        if summary_and_declaration is None:
            return None
        _, declaration = summary_and_declaration
        quantities |= declaration.facts()
    return quantities


def needs_data(name: str) -> bool:
    """Whether an analysis declares that it needs a data set."""
    summary_and_declaration = declared(name)
    if summary_and_declaration is None:
        return False
    _, declaration = summary_and_declaration
    return declaration.needs_data


def declared(name: str) -> tuple[str, Declaration] | None:
    """Return the summary and the declaration of an analysis; None if it has none.

    Returns
    -------
    summary : str
        First line of the docstring.
    declaration : Declaration
    """
    try:
        function = interface(analysis.analysis_path(name))
    except ConfigError:
        # `analysis_path` reports the error.
        return None
    if function.declaration is None:
        return None
    return function.summary, Declaration(**function.declaration)


def published_hash(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the name and sha256 of the files of published numbers in parameters."""
    hashes = {}
    for name in as_list(params.get(PUBLISHED)):
        if isinstance(name, str):
            content = read_file(published_path(name))
            hashes[name] = hashlib.sha256(content).hexdigest()
    return hashes


def _function_interface(path: str) -> Interface:
    function = interface(path)
    if function.is_class:
        raise ConfigError(f"{path!r} is not a measure: it is a class, not a function")
    return function


# ---------------------------------------------------------------- versions

Versions = dict[str, int | str]
PACKAGE = "mtlrun"
#: Suffixes of files of code that is not installed.
CODE_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
_INSTALLATION_FOLDERS = {"site-packages", "dist-packages"}
#: Package -> its distributions. Reads the metadata of all installed packages, once.
_distributions_by_package = functools.lru_cache(maxsize=1)(
    importlib.metadata.packages_distributions
)
#: Distribution of the package that every plan looks up, so that most plans need not
#: read the metadata of all installed packages.
_KNOWN_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def versions_of(paths: Iterable[str], source: str = "") -> Versions:
    """Return the versions of the code that computes a job, sorted by name.

    Parameters
    ----------
    paths : iterable of str
        ``package.module:name`` of the classes, or of the analysis.
    source : str
        Source of the data, such as ``reader:mulan`` or ``generator:rmtl``; empty
        without data.

    Returns
    -------
    dict
        Versions of classes and analyses of mtlrun, of the source and the protocol, by
        name; versions of other packages, by package; digests of files that are not
        installed (16 hexadecimal digits), by their path from the package on.

    Raises
    ------
    ConfigError
        If there is no such module, class or function, or a file that is not installed
        is not valid Python.
    """
    versions: Versions = {"protocol": 1 + len(PROTOCOL_CHANGES)}
    if source:
        versions[source] = 1 + len(_source_changes(source))
    for path in paths:
        module = path.partition(":")[0]
        package = module.partition(".")[0]
        if package == PACKAGE:
            name = registry.short_name(path)
            if name == path:
                # Not an estimator, so it is an analysis.
                name = analysis.analysis_name(path)
            versions[name] = 1 + len(_changes_of(path))
            continue
        package_version = _installed_version(package)
        if package_version is None:
            versions |= source_digests(module)
        else:
            versions[package] = package_version
    return dict(sorted(versions.items()))


def _changes_of(path: str) -> tuple[str, ...]:
    """Return the reasons for which the version of a class or analysis was raised."""
    method = METHODS.get(path.partition(":")[2])
    if method is not None and method.class_path == path:
        return tuple(method.changes)
    return interface(path).changes


def _source_changes(source: str) -> tuple[str, ...]:
    """Return the reasons for which the version of a source was raised.

    They include the reasons of the roles of columns in ``reader:table+role``.
    """
    reader, *roles = source.split("+")
    changes = SOURCE_CHANGES.get(reader, ())
    for role in roles:
        changes += SOURCE_CHANGES.get(f"{reader}+{role}", ())
    return changes


def reason_of(name: str, old: int, new: int) -> str:
    """Return the reasons for which a version was raised from `old` to `new`.

    Empty if they cannot be found.
    """
    if name == "protocol":
        changes = PROTOCOL_CHANGES
    elif ":" in name:
        changes = _source_changes(name)
    else:
        try:
            path = ANALYSES.get(name) or registry.class_path(name)
            changes = _changes_of(path)
        except UserError:
            # The method has been removed since.
            changes = ()
    first = max(old, 1) - 1
    return "; ".join(changes[first : new - 1])


def source_digests(module: str) -> dict[str, str]:
    """Return the digests of a module that is not installed, and of those it imports.

    Imports anywhere in the code count, and so do literal names in
    ``importlib.import_module("name")``. Code that is loaded in other ways, such as by
    computed names, is not seen. Comments and layout do not change a digest.

    Parameters
    ----------
    module : str
        Name of the module. Its packages are included.

    Returns
    -------
    dict
        Path from the package on -> first 16 hexadecimal digits of the sha256.
    """
    digests: dict[str, str] = {}
    pending = [module]
    visited = set()
    while pending:
        name = pending.pop()
        package = name.rpartition(".")[0]
        if package:
            pending.append(package)
        if name in visited:
            continue
        visited.add(name)
        root = name.partition(".")[0]
        # The package is checked first, because finding a submodule imports its
        # packages. Installed packages have a version in place of a digest.
        if root in ("", PACKAGE) or _installed_version(root) is not None:
            continue
        spec = _find_spec(name)
        if spec is None or not spec.has_location or not spec.origin:
            continue
        file = Path(spec.origin)
        if file.name == "__init__.py":
            package = name
        tree = _parse(file)
        if tree is None:
            content = read_file(file)
        else:
            content = ast.unparse(tree).encode("utf-8", "surrogatepass")
            pending += _imported_names(tree, package)
        parts = [*filter(None, package.split(".")), file.name]
        path = "/".join(parts)
        digests[path] = hashlib.sha256(content).hexdigest()[:16]
    return digests


def _parse(file: Path) -> ast.AST | None:
    """Return the syntax tree of a file; None for compiled code."""
    if file.suffix != ".py":
        return None
    try:
        return ast.parse(read_file(file))
    except SyntaxError as error:
        raise ConfigError(
            f"{file.name}:{error.lineno}:{error.offset}: {error.msg}"
        ) from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        # The file has null bytes, or its code is nested too deeply.
        raise ConfigError(f"{file.name}: {error or 'the code is too large'}") from None


def _imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that code imports, and the names that may be modules.

    Parameters
    ----------
    tree : ast.AST
    package : str
        Package of the code, for relative imports.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            relative_name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(relative_name, package)
            yield module
            for alias in node.names:
                yield f"{module}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args:
            function = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            name = getattr(node.args[0], "value", None)
            is_import = function in ("import_module", "__import__")
            if is_import and isinstance(name, str) and not name.startswith("."):
                yield name


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        with current_folder():
            return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        # The module does not exist, or has no file, as `__main__`.
        return None


def _installed_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    if package in sys.stdlib_module_names:
        return "{}.{}".format(*sys.version_info)
    paths: Iterable[str | None] = ()
    spec = _find_spec(package)
    if spec is not None and spec.has_location:
        paths = [spec.origin]
    elif spec is not None:
        # The folders of a namespace package.
        paths = spec.submodule_search_locations or ()
    folders: set[str] = set()
    for path in filter(None, paths):
        folders.update(Path(path).parts)
    distribution = _KNOWN_DISTRIBUTIONS.get(package)
    if distribution is not None and any(
        importlib.metadata.distributions(name=distribution)
    ):
        distributions = [distribution]
    else:
        distributions = _distributions_by_package().get(package, [])
    is_installed = not folders.isdisjoint(_INSTALLATION_FOLDERS)
    if not is_installed and not any(_lists(name, package) for name in distributions):
        return None
    if not distributions:
        return "unknown"
    return version_of(distributions[0])


def _lists(distribution: str, package: str) -> bool:
    """Whether a distribution contains the files of a package.

    This is so after ``pip install --target``, but not for editable installations.
    """
    record = importlib.metadata.distribution(distribution).read_text("RECORD") or ""
    starts = (f"{package}/", f"{package}.py,")
    return any(line.startswith(starts) for line in record.split("\n"))
