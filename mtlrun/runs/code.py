"""The versions of the code that computes a number, which are part of the key of its cell.

A class, measure, reader or generator of mtlrun has a number that a person raises with a reason when what it returns
changes, and so has the protocol (splits, features, search, scoring, timing). An installed package counts by its
version, and a module of the user's own by its source.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from mtlrun.data.load import SOURCE_CHANGES
from mtlrun.errors import ConfigError, UserError
from mtlrun.estimators.registry import class_path, short_name
from mtlrun.interfaces import interface
from mtlrun.papers.measure import MEASURES, measure_name
from mtlrun.runs.cell import PROTOCOL_CHANGES
from mtlrun.utils.plugins import current_folder

Versions = dict[str, int | str]
OWN = "mtlrun"
#: Ends of the names of files of the user's own.
OWN_CODE = (".py", ".pyc", ".so", ".pyd")
_INSTALLED = {"site-packages", "dist-packages"}
#: Packages -> the distributions that they belong to; looked up once.
_distributions = functools.lru_cache(maxsize=1)(importlib.metadata.packages_distributions)
#: The package whose distribution every plan asks for, so that not all that is installed is read.
_KNOWN = {"sklearn": "scikit-learn"}


def versions_of(paths: Iterable[str], source: str = "") -> Versions:
    """Return the versions of what computes a cell.

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
    found |= {source: 1 + len(SOURCE_CHANGES.get(source, ()))} if source else {}
    for path in paths:
        module = path.partition(":")[0]
        top = module.partition(".")[0]
        if top == OWN:
            method = short_name(path)
            found[method if method != path else measure_name(path)] = 1 + len(interface(path).changes)
        elif (package := _package(top)) is not None:
            found[top] = package
        else:
            found |= own_files(module)
    return dict(sorted(found.items()))


def reason(name: str, old: int, new: int) -> str:
    """Say why a version was raised, in the words beside it; empty where they are not to be found."""
    if name == "protocol":
        changes = PROTOCOL_CHANGES
    elif ":" in name:
        changes = SOURCE_CHANGES.get(name, ())
    else:
        try:
            changes = interface(MEASURES[name] if name in MEASURES else class_path(name)).changes
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
            content = file.read_bytes() if tree is None else ast.unparse(tree).encode("utf-8", "surrogatepass")
            found["/".join([*filter(None, base.split(".")), file.name])] = hashlib.sha256(content).hexdigest()[:16]
            waiting += () if tree is None else _imports(tree, base)
    return found


def _parsed(file: Path) -> ast.AST | None:
    """Return the syntax tree of a file, None for compiled code."""
    try:
        return ast.parse(file.read_bytes()) if file.suffix == ".py" else None
    except SyntaxError as error:
        raise ConfigError(f"{file.name}:{error.lineno}:{error.offset}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested too deeply
        raise ConfigError(f"{file.name}: {error or 'the code is too large'}") from None


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Call) and node.args and _called(node.func) in ("import_module", "__import__"):
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            yield from (name,) if isinstance(name, str) and not name.startswith(".") else ()


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _own_file(name: str) -> Path | None:
    """Return the file of a module of the user's own, None for any other one and for what is no module."""
    top = name.partition(".")[0]
    # Looked up first: to find a submodule imports what it is in.
    spec = None if top in ("", OWN) or _package(top) is not None else _spec(name)
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _spec(name: str) -> ModuleSpec | None:
    try:
        with current_folder():
            return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # no module, or one without a file such as __main__
        return None


def _package(top: str) -> str | None:
    """Return the version of an installed package, None for a module of the user's own or none at all."""
    if top in sys.stdlib_module_names:
        return "{}.{}".format(*sys.version_info)
    spec = _spec(top)
    places = [] if spec is None else [spec.origin] if spec.has_location else spec.submodule_search_locations or []
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
    return any(line.startswith((f"{top}/", f"{top}.py,")) for line in record.split("\n"))
