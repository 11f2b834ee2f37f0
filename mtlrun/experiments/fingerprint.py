"""Which code a number depends on: the definitions that are reachable from a class, hashed without comments.

An edit must re-run exactly the cells whose numbers it may change. Names are followed from definition to definition,
within a module and through imports, so that another class in the same file, a comment or a docstring counts for
nothing, while a helper three modules away counts. Nothing is imported: a finished run starts no solver.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mtlrun.experiments.sources import find_module, imports_of, parse, walk_runtime
from mtlrun.runs.modules import find_top

#: Modules of mtlrun that solvers and estimators import but that change no number.
NOT_NUMERICAL = frozenset(
    {
        "mtlrun",
        "mtlrun.core.errors",
        "mtlrun.core.records",
        "mtlrun.core.resources",
        "mtlrun.core.visible",
        "mtlrun.core.yamlmarks",
        "mtlrun.estimators.bibliography",
        "mtlrun.estimators.magnitude",  # refuses data, or gives back what scikit-learn gives back
        "mtlrun.estimators.methodinfo",
        "mtlrun.estimators.methods",
        "mtlrun.estimators.methods_composite",
        "mtlrun.estimators.methods_groups",
        "mtlrun.estimators.registry",
        "mtlrun.experiments.measures.measurement",
        "mtlrun.experiments.measures.registry",
    }
)

#: A definition in a module; None stands for all of them.
Target = tuple[str, str | None]


@dataclass(frozen=True)
class _Definition:
    """A function, class or constant: its digest, the names it uses, and what it imports itself."""

    digest: str
    uses: frozenset[str]
    imports: tuple[Target, ...]


@dataclass(frozen=True)
class _Module:
    """A source file: definitions by name, imported names, and statements that run when it is imported."""

    label: str
    definitions: dict[str, _Definition]
    imports: dict[str, list[Target]]
    statements: _Definition


def code_fingerprint(starts: Iterable[str]) -> dict[str, str]:
    """Hash all code that is reachable from some definitions.

    Parameters
    ----------
    starts : iterable of str
        ``package.module:name``. An installed third-party package is not entered: it counts by its version when it is
        a start, and not at all when it is imported.

    Returns
    -------
    dict
        File, named from its package on (``mtlrun/solvers/fista.py``) -> 16 hex digits of what is used of it, or
        ``package`` -> ``version``.
    """
    followed, versions = [], {}
    _enters.cache_clear()
    for start in starts:
        module, _, name = start.partition(":")
        if _enters(module):
            followed.append((module, name))
        else:
            package = module.partition(".")[0]
            versions[package] = _version(package)
    prints = {}
    for module, names in reachable(followed).items():
        found = _load(module)
        prints[found.label] = _digest_of(found, names)
    return dict(sorted({**prints, **versions}.items()))


def reachable(starts: Iterable[Target]) -> dict[str, set[str]]:
    """Return, for every module that is entered, the names of the definitions that may be used.

    Parameters
    ----------
    starts : iterable of (module, name or None)
        None stands for all definitions of the module.
    """
    reached: dict[str, set[str]] = {}
    waiting = list(starts)
    while waiting:
        module, name = waiting.pop()
        found = _load(module)
        if module not in reached:
            reached[module] = set()
            waiting += _targets(module, found, found.statements)
        for one in found.definitions if name is None else [name]:
            if one in found.definitions and one not in reached[module]:
                reached[module].add(one)
                waiting += _targets(module, found, found.definitions[one])
            elif one in found.imports:  # a re-export
                waiting += [target for target in found.imports[one] if _enters(target[0])]
    return reached


def _targets(module: str, found: _Module, definition: _Definition) -> list[Target]:
    """Return what a definition leads to."""
    inside: list[Target] = [(module, name) for name in definition.uses if name in found.definitions]
    outside = [target for name in definition.uses for target in found.imports.get(name, ())]
    return inside + [target for target in (*outside, *definition.imports) if _enters(target[0])]


def _digest_of(module: _Module, names: set[str]) -> str:
    parts = [f"{name} {module.definitions[name].digest}" for name in sorted(names)]
    return _digest("\n".join([*parts, module.statements.digest]))


@lru_cache(maxsize=1024)
def _enters(module: str) -> bool:
    """Whether a module is followed: it is mtlrun's or the user's own, and can change a number."""
    path = find_module(module)
    if path is None or module in NOT_NUMERICAL:
        return False
    if module.partition(".")[0] == "mtlrun":
        return True
    top = find_top(module.partition(".")[0])
    return top is not None and not top.installed


def _version(package: str) -> str:
    names = importlib.metadata.packages_distributions().get(package, [package])
    try:
        return f"version {importlib.metadata.version(names[0])}"
    except importlib.metadata.PackageNotFoundError:
        return "version unknown"


def _load(module: str) -> _Module:
    path = find_module(module)
    assert path is not None  # `_enters` has seen it
    return _read(path, path.stat().st_mtime_ns, module)


@lru_cache(maxsize=512)
def _read(path: Path, mtime: int, module: str) -> _Module:
    is_package = path.name == "__init__.py"
    definitions: dict[str, list[ast.stmt]] = defaultdict(list)
    statements: list[ast.stmt] = []
    imports: dict[str, list[Target]] = defaultdict(list)
    for node in parse(path).body:
        for name in _defined_by(node):
            definitions[name].append(node)
        if not _defined_by(node):
            for local, source, attribute in imports_of(node, module, is_package):
                imports[local].append((source, attribute))
            if not isinstance(node, ast.Import | ast.ImportFrom) and not _is_docstring(node):
                statements.append(node)
    return _Module(
        module.replace(".", "/") + ("/__init__.py" if is_package else ".py"),
        {name: _definition(nodes, module, is_package) for name, nodes in definitions.items()},
        dict(imports),
        _definition(statements, module, is_package),
    )


def _defined_by(node: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a module defines without doing anything else."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [n for target in targets for n in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [n.id for n in names if isinstance(n, ast.Name)] if all(isinstance(n, ast.Name) for n in names) else []


def _definition(nodes: list[ast.stmt], module: str, is_package: bool) -> _Definition:
    walked = [inner for node in nodes for inner in walk_runtime(node)]
    uses = frozenset(inner.id for inner in walked if isinstance(inner, ast.Name))
    imported = tuple((source, name) for node in nodes for _, source, name in imports_of(node, module, is_package))
    return _Definition(_digest("\n".join(_canonical(node) for node in nodes)), uses, imported)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(node: object) -> str:
    """Write a syntax tree as text: no positions, comments or docstrings, the same in every version of Python."""
    if isinstance(node, ast.AST):
        fields = []
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(value, list) and value and _is_docstring(value[0]):
                value = value[1:]
            if value is None or value == [] or name in ("ctx", "type_comment", "type_ignores", "kind"):
                continue
            fields.append(f"{name}={_canonical(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(_canonical(item) for item in node)}]"
    return repr(node)


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
