"""What a class needs, read from source files without importing them: constructor, code fingerprint.

A finished run must start without loading a solver, and an edit must re-run exactly the cells whose numbers it may
change. Both need the modules behind an estimator, found by reading `import` statements.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from mtlrun.core.errors import ConfigError, suggest

#: Modules of mtlrun that an estimator may import but that change no number.
NOT_NUMERICAL = frozenset(
    {"mtlrun", "mtlrun.core.errors", "mtlrun.core.records", "mtlrun.core.resources", "mtlrun.estimators.registry"}
)
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
        if top != module and find_module(top) is None:
            raise ConfigError(f"no module {top!r} for {class_path!r}", "Is it installed, or its folder on PYTHONPATH?")
        raise ConfigError(f"no Python source for module {module!r} of {class_path!r}")
    found = _find_class(module, name)
    if found is None:
        near = suggest(name, _classes(module), 1)
        hint = f"Did you mean {near[0]!r}?" if near else None
        raise ConfigError(f"module {module!r} defines no class {name!r}", hint)
    return _constructor_of(*found, _MAX_HOPS)


def code_fingerprint(class_paths: Iterable[str], modules: Iterable[str] = ()) -> dict[str, str]:
    """Hash the syntax trees of all numerical sources behind some classes and modules.

    Parameters
    ----------
    class_paths : iterable of str
        ``package.module:Class``. Their own package is followed through its imports; an installed third-party
        package counts by its version.
    modules : iterable of str
        Further modules to start from.

    Returns
    -------
    dict
        File, named from its package on (``mtlrun/solvers/fista.py``) -> 16 hex digits, or ``package`` ->
        ``version``. Comments, docstrings and layout do not count.
    """
    starts = [p.partition(":")[0] for p in class_paths] + list(modules)
    prints: dict[str, str] = {}
    seen: set[str] = set()
    while starts:
        module = starts.pop()
        if module in seen or module in NOT_NUMERICAL:
            continue
        seen.add(module)
        path = find_module(module)
        if path is None or _is_third_party(module, path):
            prints[module.partition(".")[0]] = _version(module.partition(".")[0])
            continue
        digest, imported = _read(path, path.stat().st_mtime_ns, module)
        prints[_label(module, path)] = digest
        starts += imported
    return dict(sorted(prints.items()))


def _source_file(origin: str | None) -> Path | None:
    return Path(origin) if origin and origin.endswith(".py") else None


def _is_third_party(module: str, path: Path) -> bool:
    if module.partition(".")[0] == "mtlrun":
        return False
    installed = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(path.is_relative_to(folder) for folder in installed if folder)


@lru_cache(maxsize=64)
def _version(package: str) -> str:
    names = importlib.metadata.packages_distributions().get(package, [package])
    try:
        return f"version {importlib.metadata.version(names[0])}"
    except importlib.metadata.PackageNotFoundError:
        return "version unknown"


def _label(module: str, path: Path) -> str:
    return module.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")


@lru_cache(maxsize=512)
def _parse(path: Path, mtime: int) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ConfigError(f"{path.name}:{error.lineno}:{error.offset}: {error.msg}") from None


def _tree(path: Path) -> ast.Module:
    return _parse(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=512)
def _read(path: Path, mtime: int, module: str) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a source file and the modules of its own package that it imports."""
    tree = _parse(path, mtime)
    digest = hashlib.sha256(_canonical(tree).encode()).hexdigest()[:16]
    top = module.partition(".")[0]
    imported = {
        name for _, name, _ in _imports(tree, module, path.name == "__init__.py") if name.partition(".")[0] == top
    }
    return digest, tuple(sorted(imported))


def _imports(tree: ast.AST, module: str, is_package: bool) -> list[tuple[str, str, str | None]]:
    """List (local name, module, attribute or None) of every import statement, wherever it stands."""
    package = module if is_package else module.rpartition(".")[0]
    found: list[tuple[str, str, str | None]] = []
    for node in _walk_runtime(tree):
        if isinstance(node, ast.Import):
            found += [(a.asname or a.name, a.name, None) for a in node.names]
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


def _walk_runtime(node: ast.AST) -> Iterable[ast.AST]:
    """Walk a tree, leaving out what only a type checker sees."""
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for statement in node.orelse:
            yield from _walk_runtime(statement)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_runtime(child)


def _canonical(node: object) -> str:
    """Write a syntax tree as text: no positions, comments or docstrings, the same in every version of Python."""
    if isinstance(node, ast.AST):
        fields = []
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(value, list):
                value = _without_docstring(node, value)
            if value is None or value == [] or name in ("ctx", "type_comment", "type_ignores", "kind"):
                continue
            fields.append(f"{name}={_canonical(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(_canonical(item) for item in node)}]"
    return repr(node)


def _without_docstring(owner: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    documented = isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if documented and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[1:] if isinstance(body[0].value.value, str) else body
    return body


def _find_class(module: str, name: str, hops: int = _MAX_HOPS) -> tuple[str, ast.ClassDef] | None:
    """Return the module that defines a class and its definition, following re-exports."""
    path = find_module(module)
    if path is None or hops == 0:
        return None
    tree = _tree(path)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    for local, source, attribute in _imports(tree, module, path.name == "__init__.py"):
        if local == name and attribute is not None:
            return _find_class(source, attribute, hops - 1)
    return None


def _classes(module: str) -> list[str]:
    path = find_module(module)
    if path is None:
        return []
    tree = _tree(path)
    imported = [name for name, _, attribute in _imports(tree, module, path.name == "__init__.py") if attribute]
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
