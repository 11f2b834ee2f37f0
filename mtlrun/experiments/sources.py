"""Modules, imports and constructors, read from source files without importing them: checking a file loads no solver."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from mtlrun.core.errors import ConfigError, suggest

_MAX_HOPS = 20


@dataclass(frozen=True)
class Constructor:
    """Parameters of a class.

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
        If the module or the class does not exist, or the source is no Python.
    """
    module, _, name = class_path.partition(":")
    if find_module(module) is None:
        top = module.partition(".")[0]
        if find_module(top) is None:
            raise ConfigError(f"no module {top!r} for {class_path!r}", "Is it installed, or its folder on PYTHONPATH?")
        raise ConfigError(f"no Python source for module {module!r} of {class_path!r}")
    found = _find_class(module, name)
    if found is None:
        near = suggest(name, _classes(module), 1)
        hint = f"Did you mean {near[0]!r}?" if near else None
        raise ConfigError(f"module {module!r} defines no class {name!r}", hint)
    return _constructor_of(*found, _MAX_HOPS)


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


def imports_of(tree: ast.AST, module: str, is_package: bool) -> list[tuple[str, str, str | None]]:
    """List (local name, module, attribute or None) of the import statements in a tree, wherever they stand."""
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


def _find_class(module: str, name: str, hops: int = _MAX_HOPS) -> tuple[str, ast.ClassDef] | None:
    """Return the module that defines a class and its definition, following re-exports."""
    path = find_module(module)
    if path is None or hops == 0:
        return None
    tree = parse(path)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    for local, source, attribute in imports_of(tree, module, path.name == "__init__.py"):
        if local == name and attribute is not None:
            return _find_class(source, attribute, hops - 1)
    return None


def _classes(module: str) -> list[str]:
    path = find_module(module)
    if path is None:
        return []
    tree = parse(path)
    imported = [name for name, _, attribute in imports_of(tree, module, path.name == "__init__.py") if attribute]
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)] + imported


def _constructor_of(module: str, node: ast.ClassDef, hops: int) -> Constructor | None:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            args = item.args
            names = [a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs]][1:]
            return Constructor(tuple(names), args.kwarg is not None)
    for base in node.bases:
        found = _find_class(module, base.id) if isinstance(base, ast.Name) and hops else None
        inherited = _constructor_of(*found, hops - 1) if found else None
        if inherited is not None:
            return inherited
    return None
