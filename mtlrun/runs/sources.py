"""Modules, imports and constructors, read from source files without importing them: checking a file loads no solver."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeVar

from mtlrun.core.errors import ConfigError, suggest
from mtlrun.core.ownmodules import current_folder

_MAX_HOPS = 20
Definition = TypeVar("Definition", ast.ClassDef, ast.FunctionDef)


@dataclass(frozen=True)
class Constructor:
    """Parameters of a class or of a function.

    Attributes
    ----------
    names : tuple of str
        Parameters in order, without self.
    open : bool
        Whether it takes ``**kwargs``, so that any name is allowed.
    """

    names: tuple[str, ...]
    open: bool = False


def find_module(name: str) -> Path | None:
    """Return the file of a module (``__init__.py`` of a package), importing nothing; None when there is none."""
    parts = name.split(".")
    loaded = sys.modules.get(parts[0])
    search = getattr(loaded, "__path__", None) if loaded is not None else None
    if search is not None and len(parts) == 1:
        return _source_file(getattr(loaded, "__file__", None))
    start = 2 if search is not None else 1
    locations = list(search) if search is not None else None
    spec = None
    for end in range(start, len(parts) + 1):
        with current_folder():
            spec = PathFinder.find_spec(".".join(parts[:end]), locations)
        if spec is None:
            return None
        locations = list(spec.submodule_search_locations or [])
    return _source_file(spec.origin if spec else None)


def constructor(class_path: str) -> Constructor | None:
    """Return the constructor of ``package.module:Class``, None where the source does not tell.

    Raises
    ------
    ConfigError
        If the module or the class does not exist, the class has no `fit`, or the source is no Python.
    """
    module, name = _existing_module(class_path)
    found = _find(module, name, ast.ClassDef)
    if found is None:
        raise ConfigError(f"module {module!r} defines no class {name!r}", _near(module, name, ast.ClassDef))
    if not _may_fit(class_path, path.stat().st_mtime_ns if (path := find_module(found[0])) else 0):
        raise ConfigError(f"{class_path!r} is no estimator: the class has no fit")
    return _constructor_of(*found, _MAX_HOPS)


def function(path: str) -> Constructor:
    """Return the parameters of ``package.module:function`` that must be given by name.

    Raises
    ------
    ConfigError
        If the module or the function does not exist, or the source is no Python.
    """
    module, name = _existing_module(path)
    found = _find(module, name, ast.FunctionDef)
    if found is None:
        raise ConfigError(f"module {module!r} defines no function {name!r}", _near(module, name, ast.FunctionDef))
    arguments = found[1].args
    return Constructor(tuple(a.arg for a in arguments.kwonlyargs), arguments.kwarg is not None)


def definition(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """Return the module that defines a class and its definition, following re-exports; None when there is none."""
    return _find(module, name, ast.ClassDef)


def _existing_module(path: str) -> tuple[str, str]:
    """Return module and name of ``package.module:name``, where the module has a source."""
    module, _, name = path.partition(":")
    if find_module(module) is None:
        top = module.partition(".")[0]
        if find_module(top) is None:
            raise ConfigError(f"no module {top!r} for {path!r}", "Is it installed, or its folder on PYTHONPATH?")
        raise ConfigError(f"no Python source for module {module!r} of {path!r}")
    return module, name


def _near(module: str, name: str, kind: type[Definition]) -> str | None:
    near = suggest(name, _names(module, kind), 1)
    return f"Did you mean {near[0]!r}?" if near else None


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file.

    Raises
    ------
    ConfigError
        If it is no Python.
    """
    return _parse(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _parse(path: Path, mtime: int) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ConfigError(f"{path.name}:{error.lineno}:{error.offset}: {error.msg}") from None


def imports_of(
    tree: ast.AST, module: str, is_package: bool, only: str | None = None
) -> list[tuple[str, str, str | None]]:
    """List (local name, module, attribute or None) of the import statements in a tree, wherever they stand.

    With `only` those of one local name.
    """
    package = module if is_package else module.rpartition(".")[0]
    found: list[tuple[str, str, str | None]] = []
    for node in walk_runtime(tree):
        if isinstance(node, ast.Import):
            found += [(a.asname or a.name.partition(".")[0], a.name, None) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            for a in node.names:
                if only is not None and only != (a.asname or a.name):
                    continue
                if find_module(f"{base}.{a.name}") is not None:
                    found.append((a.asname or a.name, f"{base}.{a.name}", None))
                else:
                    found.append((a.asname or a.name, base, a.name))
    return found


def walk_runtime(node: ast.AST) -> Iterable[ast.AST]:
    """Walk a tree, leaving out what only a type checker sees."""
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for statement in node.orelse:
            yield from walk_runtime(statement)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from walk_runtime(child)


def _source_file(origin: str | None) -> Path | None:
    return Path(origin) if origin and origin.endswith(".py") else None


def _find(module: str, name: str, kind: type[Definition], hops: int = _MAX_HOPS) -> tuple[str, Definition] | None:
    """Return the module that defines a class or function and its definition, following re-exports."""
    path = find_module(module)
    if path is None or hops == 0:
        return None
    tree = parse(path)
    for node in tree.body:
        if isinstance(node, kind) and node.name == name:
            return module, node
    for local, source, attribute in imports_of(tree, module, path.name == "__init__.py", only=name):
        if local == name and attribute is not None:
            return _find(source, attribute, kind, hops - 1)
    return None


def _names(module: str, kind: type[Definition]) -> list[str]:
    path = find_module(module)
    if path is None:
        return []
    tree = parse(path)
    imported = [name for name, _, attribute in imports_of(tree, module, path.name == "__init__.py") if attribute]
    return [node.name for node in tree.body if isinstance(node, kind)] + imported


def _constructor_of(module: str, node: ast.ClassDef, hops: int) -> Constructor | None:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            args = item.args
            names = [a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs]][1:]
            return Constructor(tuple(names), args.kwarg is not None)
    for base in node.bases:
        found = _find(module, base.id, ast.ClassDef) if isinstance(base, ast.Name) and hops else None
        inherited = _constructor_of(*found, hops - 1) if found else None
        if inherited is not None:
            return inherited
    return None


@lru_cache(maxsize=256)
def _may_fit(class_path: str, mtime: int) -> bool:
    """Tell whether a class may have a method `fit`; all of mtlrun's own that can be named have one."""
    module, _, name = class_path.partition(":")
    found = None if module.partition(".")[0] == "mtlrun" else _find(module, name, ast.ClassDef)
    return found is None or _may_have(*found, "fit", _MAX_HOPS)


def _may_have(module: str, node: ast.ClassDef, name: str, hops: int) -> bool:
    """Tell whether a class has a method, as far as sources tell: yes wherever it may come from elsewhere."""
    names = {getattr(item, "name", getattr(item, "id", None)) for part in node.body for item in ast.walk(part)}
    if node.decorator_list or node.keywords or name in names:
        return True
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id == "object":
            continue
        found = _find(module, base.id, ast.ClassDef) if isinstance(base, ast.Name) and hops else None
        if found is None or _may_have(*found, name, hops - 1):
            return True
    return False
