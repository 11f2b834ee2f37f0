"""Where modules are and whose they are, without importing them."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from mtlrun.utils.ownmodules import current_folder

OWN = "mtlrun"
SOURCE = tuple(importlib.machinery.SOURCE_SUFFIXES)
_SUFFIXES = (*importlib.machinery.EXTENSION_SUFFIXES, *SOURCE, *importlib.machinery.BYTECODE_SUFFIXES)
_INSTALLED = frozenset({"site-packages", "dist-packages"})


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
        """Whether a version tells what is in it: it is neither mtlrun's nor the user's own."""
        top = self.name.partition(".")[0]
        return top != OWN and _is_installed(top, self.file or self.folders[0])


class Finder:
    """Finds modules as Python does. It looks once at a folder: a new finder sees what changed."""

    def __init__(self) -> None:
        self._found: dict[str, Module | None] = {}
        self._listed: dict[str, frozenset[str]] = {}

    def find(self, name: str) -> Module | None:
        """Return where a module is, None if there is none; for one in an installed package, where that package is."""
        if name not in self._found:
            package, _, last = name.rpartition(".")
            parent = self.find(package) if package else None
            inside = parent and (parent if parent.installed else self._below(parent, last))
            self._found[name] = inside if package else find_top(name)
        return self._found[name]

    def _below(self, parent: Module, last: str) -> Module | None:
        """Return a submodule: packages come before modules, and compiled code before sources."""
        name, spaces = f"{parent.name}.{last}", []
        for folder in parent.folders:
            here = os.path.join(folder, last)
            names = self._names_in(folder)
            inside = self._names_in(here) if last in names else frozenset[str]()
            for suffix in _SUFFIXES:
                if f"__init__{suffix}" in inside:
                    return Module(name, os.path.join(here, f"__init__{suffix}"), (here,))
            for suffix in _SUFFIXES:
                if last + suffix in names:
                    return Module(name, here + suffix)
            if last in names and os.path.isdir(here):
                spaces.append(here)
        return Module(name, None, tuple(spaces)) if spaces else None

    def _names_in(self, folder: str) -> frozenset[str]:
        if folder not in self._listed:
            self._listed[folder] = frozenset()
            with contextlib.suppress(OSError):
                self._listed[folder] = frozenset(os.listdir(folder))
        return self._listed[folder]


def find_top(name: str) -> Module | None:
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


def version(package: str) -> str | None:
    """Return the version of the distribution that an installed package is of, None if there is none."""
    if package in sys.stdlib_module_names:
        return "{}.{}".format(*sys.version_info)
    names = importlib.metadata.packages_distributions().get(package, [package])
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(names[0])
    return None


@functools.lru_cache(maxsize=256)
def stamp(package: str) -> str:
    """Return a text that changes when another version of a package is installed."""
    module = find_top(package)
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
    """Tell whether a distribution beside a package contains it, as ``pip install --target`` leaves them."""
    with contextlib.suppress(OSError):
        lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
        return any(line.startswith((f"{top}/", f"{top}.py,")) for line in lines)
    return False
