"""Which code a number depends on, and what a class or function can be given.

`code_of` follows imports from file to file, without importing anything, and hashes what it finds: modules of mtlrun and
of the user. `facts` imports what it describes once and remembers the answer until that code changes: a run that is up
to date imports no solver. Both keep what they found in ``code.json`` in the user's cache folder, under the content that
it belongs to.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import json
import os
import pkgutil
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mtlrun.errors import ConfigError, suggest
from mtlrun.papers.measure import measure
from mtlrun.utils.io import sealed, unsealed, write_atomic
from mtlrun.utils.ownmodules import current_folder, import_named

OWN = "mtlrun"
SOURCE = tuple(importlib.machinery.SOURCE_SUFFIXES)
_INSTALLED = frozenset({"site-packages", "dist-packages"})

#: Modules of mtlrun that change no number, and import only each other and no numpy.
EXEMPT = frozenset(
    {
        "mtlrun",
        "mtlrun.errors",
        "mtlrun.utils.arrays",
        "mtlrun.utils.ownmodules",
        "mtlrun.utils.io",
        "mtlrun.utils.paths",
        "mtlrun.utils.plugins",
        "mtlrun.utils.sizes",
        "mtlrun.utils.text",
        "mtlrun.utils.yaml",
        "mtlrun.estimators.facts",
        "mtlrun.estimators.registry",
        "mtlrun.papers.measure",
        "mtlrun.provenance",
        "mtlrun.record",
    }
)
#: Entries of the cache; where there are more, those that the process did not use are dropped.
_MOST_ENTRIES = 5000
_REMEDY = "Is it installed, or its folder on PYTHONPATH?"
#: Modules, and names of them, that a file imports.
Imports = list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Facts:
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
    """

    names: tuple[str, ...]
    open: bool = False
    keyword_only: tuple[str, ...] = ()
    is_class: bool = False
    fits: bool = False
    rules: dict[str, Any] = field(default_factory=dict)


def code_of(starts: Iterable[str]) -> dict[str, str]:
    """Hash the code that some modules run, with everything that they import; nothing is imported.

    Imports inside functions count, imports for type checkers do not. A file is hashed without comments, docstrings,
    layout, the class attribute `facts` and what measures declare; a module without source by its bytes. What is
    installed from elsewhere is not entered: it counts by its version where it is a start, and not at all where it is
    imported.

    Parameters
    ----------
    starts : iterable of str
        ``package.module`` or ``package.module:name``; the name counts for nothing.

    Returns
    -------
    dict
        File, named from its package on (``mtlrun/solvers/convex/fista.py``) -> 16 hex digits, or installed package ->
        ``version 1.2.3``.

    Raises
    ------
    ConfigError
        If there is no such module, or a file is not Python or cannot be read.
    """
    return _Walk(starts).prints


def facts(path: str) -> Facts:
    """Return what ``package.module:name`` can be given; its module is imported unless the answer is known.

    Raises
    ------
    ConfigError
        If there is no such module, class or function, or the module cannot be imported.
    """
    known = _MEMO[-1] if _MEMO else {}
    if path not in known:
        known[path] = _facts(path)
    return known[path]


#: Answers of `facts`, once for every `remembering` that is open.
_MEMO: list[dict[str, Facts]] = []


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Ask once for every class and function inside the ``with`` block: sources are taken not to change there."""
    _MEMO.append(_MEMO[-1] if _MEMO else {})
    try:
        yield
    finally:
        _MEMO.pop()


def _facts(path: str) -> Facts:
    walk = _Walk([path])
    key = _digest("facts", path, json.dumps(walk.prints), *map(_stamp, sorted(walk.outside)))
    known = walk.cache.get(key)
    if known is not None:
        return Facts(**{**known, "names": tuple(known["names"]), "keyword_only": tuple(known["keyword_only"])})
    found = _inspected(path)
    if _IMPORTED.get(path.partition(":")[0], 0) > walk.changed:  # what something else imported may be out of date
        walk.cache.put(key, asdict(found))
        walk.cache.save()
    return found


#: What a module at a place and with a digest imports; it stays so while the process lives.
_IMPORTS: dict[tuple[Module, str], list[Module]] = {}


class _Walk:
    """A walk through imports.

    Attributes
    ----------
    prints : dict
        Result of `code_of`.
    outside : set of str
        Installed packages that are imported.
    changed : int
        When the newest of the files was changed, in nanoseconds.
    """

    def __init__(self, starts: Iterable[str]) -> None:
        self.outside: set[str] = set()
        self.changed = 0
        self.cache = _cache()
        self._prints: dict[str, str] = {}
        self._seen: set[Module] = set()
        self._finder = Finder()
        for start in starts:
            self._start(start)
        self.prints = dict(sorted(self._prints.items()))
        self.cache.save()

    def _start(self, start: str) -> None:
        name = start.partition(":")[0]
        top = name.partition(".")[0]
        module = self._finder.find(name) if name else None
        if module is None:
            raise ConfigError(f"no module {name!r} for {start!r}", _REMEDY)
        if module.installed:
            self._prints[top] = f"version {self._version(top)}"
        waiting = [module]
        while waiting:
            module = waiting.pop()
            if module in self._seen or module.name in EXEMPT:
                continue
            self._seen.add(module)
            if module.installed:
                self.outside.add(module.name.partition(".")[0])
            else:
                waiting += self._enter(module)

    def _enter(self, module: Module) -> list[Module]:
        """Hash a module; return the package that it is in and what it imports."""
        if module.file is None:
            return self._around(module.name)[:-1]
        try:
            stat = os.stat(module.file)
            digest, imports = _read(module.file, self.cache, stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError as error:
            raise ConfigError(f"cannot read {module.file}: {error.strerror}") from None
        self._prints[module.label] = digest
        self.changed = max(self.changed, stat.st_mtime_ns)
        if (module, digest) not in _IMPORTS:
            found = [*self._around(module.name), *self._imported(module, imports)]
            _IMPORTS[module, digest] = [*dict.fromkeys(found)]
        return _IMPORTS[module, digest]

    def _imported(self, module: Module, imports: Imports) -> Iterator[Module]:
        ours = module.name.partition(".")[0] == OWN
        for text, names in imports:
            if ours and text.partition(".")[0] in sys.stdlib_module_names:
                continue
            base = importlib.util.resolve_name(text, module.package)
            yield from (around := self._around(base))
            if around and around[-1].folders and not around[-1].installed:
                for name in names:
                    if inside := self._finder.find(f"{base}.{name}"):
                        yield inside

    def _around(self, name: str) -> list[Module]:
        """Return the packages of a module, which are run first, and itself."""
        parts = name.split(".")
        found = [self._finder.find(".".join(parts[: i + 1])) for i in range(len(parts))]
        return [module for module in found if module is not None]

    def _version(self, package: str) -> str:
        key = _digest("version", _stamp(package))
        known = self.cache.get(key) or _version(package)
        if known:
            self.cache.put(key, known)
        return str(known or "unknown")


@functools.lru_cache(maxsize=2048)
def _read(file: str, cache: _Cache, mtime: int, size: int, inode: int) -> tuple[str, Imports]:
    """Return the digest of a file and what it imports."""
    with open(file, "rb") as stream:
        data = stream.read()
    key = hashlib.sha256(data).hexdigest()
    if not file.endswith(SOURCE):
        return key[:16], []
    known = cache.get(key)
    if known is None:
        try:
            tree = ast.parse(data)
            for function, call in [*declarations(tree)]:
                function.decorator_list.remove(call)
            known = [_digest(_text(tree))[:16], sorted(_imports(tree))]
        except SyntaxError as error:
            raise ConfigError(f"{os.path.basename(file)}:{error.lineno}:{error.offset}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested too deeply
            raise ConfigError(f"{os.path.basename(file)}: {error or 'the code is too large'}") from None
        cache.put(key, known)
    return known[0], known[1]


def declarations(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, ast.Call]]:
    """Yield the measures of a module, with the call of the decorator that declares what they return."""
    names = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == measure.__module__
        for alias in node.names
        if alias.name == measure.__name__
    }
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            for node in function.decorator_list:
                if isinstance(node, ast.Call) and getattr(node.func, "id", None) in names:
                    yield function, node


def _text(node: object) -> str:
    """Write a syntax tree as text that depends neither on its layout nor on the version of Python."""
    if isinstance(node, ast.AST):
        fields = []
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or value == [] or name in ("ctx", "type_comment", "type_ignores", "kind"):
                continue
            if name == "body" and isinstance(value, list):
                value = _without_words(node, value)
            fields.append(f"{name}={_text(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    return repr(node)


def _without_words(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a body without a docstring, and without the attribute `facts` of a class."""
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        body = body[1:]
    return [part for part in body if "facts" not in _assigned(part)] if isinstance(node, ast.ClassDef) else body


def _assigned(node: ast.stmt) -> list[str | None]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [getattr(target, "id", None) for target in targets]


def _imports(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Yield what a tree imports, wherever it does: modules (``a.b``, ``..a``) and names of them."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
        for statement in node.orelse:
            yield from _imports(statement)
    elif isinstance(node, ast.Import):
        yield from ((alias.name, []) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
    elif not isinstance(node, ast.expr):
        for child in ast.iter_child_nodes(node):
            yield from _imports(child)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


#: When `facts` imported a module, in nanoseconds.
_IMPORTED: dict[str, int] = {}


def _inspected(path: str) -> Facts:
    found = _load(path)
    is_class = isinstance(found, type)
    parameters, unknown = _parameters(found)
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return Facts(
        tuple(p.name for p in named),
        unknown or any(p.kind is p.VAR_KEYWORD for p in parameters),
        tuple(p.name for p in named if p.kind is p.KEYWORD_ONLY),
        is_class,
        callable(getattr(found, "fit", None)) and is_class,
        _rules(found) if is_class else {},
    )


def _rules(found: type) -> dict[str, Any]:
    rules = getattr(found, "_rules", None)
    known = rules.items() if isinstance(rules, dict) else ()  # a class may hold anything
    return {str(k): v.plain for k, v in known if type(v).__module__ == "mtlrun.estimators.params" and v.plain}


def _parameters(function: Any) -> tuple[list[inspect.Parameter], bool]:
    """Return the parameters of a class or function, and whether they are unknown, as for some compiled code."""
    try:
        return list(inspect.signature(function).parameters.values()), False
    except (TypeError, ValueError):
        return [], True


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    begun, before = time.time_ns(), {*sys.modules}
    try:
        loaded = import_named(module)
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise ConfigError(f"cannot import {module!r} for {path!r}: {type(error).__name__}: {error}", _REMEDY) from error
    _IMPORTED.update(dict.fromkeys({*sys.modules} - before, begun))
    found = getattr(loaded, name, None) if name else None
    if not callable(found):
        known = [n for n, value in vars(loaded).items() if inspect.isclass(value) or inspect.isfunction(value)]
        near = suggest(name, known, 1)
        remedy = f"Did you mean {near[0]!r}?" if near else None
        raise ConfigError(f"module {module!r} defines no class or function {name!r}", remedy)
    return found


class _Cache:
    """What was found out, under the content that it belongs to, for all processes of a user.

    A file that is missing, damaged or of another version of this module counts as empty, and one that cannot be written
    is left as it is. Of two processes that write at once one wins; the other finds out again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made_by = _digest(Path(__file__).read_text(encoding="utf-8"))
        self._known = self._stored()
        self._used: dict[str, Any] = {}
        self._new = False

    def get(self, key: str) -> Any:
        if key in self._known:
            self._used[key] = self._known[key]
        return self._known.get(key)

    def put(self, key: str, value: Any) -> None:
        self._new = self._new or self._known.get(key) != value
        self._known[key] = self._used[key] = value

    def save(self) -> None:
        if self._new:
            self._new = False
            merged = {**self._stored(), **self._known}  # others may have written since
            self._known = merged if len(merged) <= _MOST_ENTRIES else {**self._used}
            text = json.dumps(sealed({"made by": self._made_by, "known": self._known}))
            with contextlib.suppress(OSError):
                write_atomic(self._path, text, durable=False)

    def _stored(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            content = unsealed(json.loads(self._path.read_text(encoding="utf-8")))
            if content["made by"] == self._made_by:
                return dict(content["known"])
        return {}


def _cache() -> _Cache:
    import platformdirs

    return _open(platformdirs.user_cache_dir("mtlrun"))


@functools.lru_cache(maxsize=4)
def _open(folder: str) -> _Cache:
    return _Cache(Path(folder) / "code.json")


# --- where modules are and whose they are


@dataclass(frozen=True)
class Module:
    """Where a module is.

    Attributes
    ----------
    name : str
        With its packages.
    file : str or None
        None for a namespace package.
    folders : tuple of str
        Where its submodules are; empty unless it is a package.
    """

    name: str
    file: str | None
    folders: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """What its relative imports start from."""
        return self.name if self.folders else self.name.rpartition(".")[0]

    @property
    def label(self) -> str:
        """File, named from the outermost package on."""
        return "/".join([*filter(None, self.package.split(".")), os.path.basename(self.file or "")])

    @property
    def installed(self) -> bool:
        """Whether its version identifies its content: it belongs neither to mtlrun nor to the user."""
        top = self.name.partition(".")[0]
        return top != OWN and _is_installed(top, self.file or self.folders[0])


class Finder:
    """Finds modules as Python does, without importing them. A new finder sees files that changed."""

    def __init__(self) -> None:
        self._found: dict[str, Module | None] = {}
        importlib.invalidate_caches()

    def find(self, name: str) -> Module | None:
        """Return where a module is, None if there is none; for one in an installed package, where that package is."""
        if name not in self._found:
            package = name.rpartition(".")[0]
            parent = self.find(package) if package else None
            inside = parent and (parent if parent.installed else _find_below(parent, name))
            self._found[name] = inside if package else _find_top(name)
        return self._found[name]


def _find_below(parent: Module, name: str) -> Module | None:
    """Return a submodule."""
    spaces: list[str] = []
    for folder in parent.folders:
        finder: Any = pkgutil.get_importer(folder)
        spec = finder.find_spec(name) if finder else None
        if spec is not None and spec.loader is not None:
            return Module(name, spec.origin, tuple(spec.submodule_search_locations or ()))
        spaces += (spec.submodule_search_locations if spec else None) or ()
    return Module(name, None, tuple(spaces)) if spaces else None


def _find_top(name: str) -> Module | None:
    """Return where a module is that is in no package, through whatever finds modules in this process."""
    try:
        with current_folder():
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module without a specification, such as __main__
        return None
    if spec is None:
        return None
    folders = tuple(spec.submodule_search_locations or ())
    file = spec.origin if spec.has_location or not folders else None
    return Module(name, file, folders)


def _version(package: str) -> str | None:
    """Return the version of the distribution that an installed package is of, None if there is none."""
    if package in sys.stdlib_module_names:
        return "{}.{}".format(*sys.version_info)
    names = importlib.metadata.packages_distributions().get(package, [package])
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(names[0])
    return None


@functools.lru_cache(maxsize=256)
def _stamp(package: str) -> str:
    """Return a text that changes when another version of a package is installed."""
    module = _find_top(package)
    path = module and (module.file or module.folders[0])
    try:
        stat = os.stat(path or "")
    except OSError:
        return package
    return f"{package} {path} {stat.st_mtime_ns} {stat.st_size} {stat.st_ino}"


@functools.lru_cache(maxsize=1024)
def _is_installed(top: str, path: str) -> bool:
    if not os.path.isabs(path) or not _INSTALLED.isdisjoint(Path(path).parts):  # not absolute: built in or frozen
        return True
    if any(Path(path).is_relative_to(folder) for folder in _library()):
        return True
    root = next((p.parent for p in (Path(path), *Path(path).parents) if p.stem == top), None)
    return root is not None and any(_lists(file, top) for file in root.glob("*.dist-info/RECORD"))


@functools.lru_cache(maxsize=1)
def _library() -> set[str]:
    return {path for key in ("stdlib", "platstdlib") if (path := sysconfig.get_path(key))}


def _lists(record: Path, top: str) -> bool:
    """Whether a distribution beside a package contains it, as after ``pip install --target``."""
    with contextlib.suppress(OSError):
        lines = record.read_text(encoding="utf-8", errors="replace").split("\n")
        return any(line.startswith((f"{top}/", f"{top}.py,")) for line in lines)
    return False
