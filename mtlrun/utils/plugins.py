"""Additions of installed packages and of the user's modules. Standard library only.

Packages declare methods and data sets as entry points:
``[project.entry-points."mtlrun.methods"]`` has lines ``Name = "package.module:Class"``,
and ``[project.entry-points."mtlrun.datasets"]`` lines ``name = "package"``, the package
whose folder holds data cards.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

METHODS_GROUP = "mtlrun.methods"
DATASETS_GROUP = "mtlrun.datasets"


@dataclass(frozen=True)
class Plugin:
    """A line of entry points: its name, what it points to, and the distribution that
    declares it.
    """

    name: str
    value: str
    source: str


@functools.cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """Return what installed packages declare for a group, sorted by name, each name
    once; nothing is imported.
    """
    from importlib import (
        metadata,
    )  # with the modules of e-mail: slower than all else that a command loads first

    by_name: dict[str, Plugin] = {}
    for point in metadata.entry_points(group=group):
        source = "an installed package"
        if point.dist:
            source = f"{point.dist.name} {point.dist.version}"
        by_name.setdefault(
            point.name, Plugin(point.name, point.value.replace(" ", ""), source)
        )
    return tuple(by_name[name] for name in sorted(by_name))


def card_folders() -> list[Path]:
    """Return the folders of the packages that bring data cards."""
    folders = []
    for plugin in plugins(DATASETS_GROUP):
        folder = _folder(plugin.value)
        if folder is not None:
            folders.append(folder)
    return folders


def _folder(package: str) -> Path | None:
    """Return the folder of a package without importing it or its parents, None where
    there is none.
    """
    places: list[str] | None = None
    for part in package.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, places)
        if spec is None or spec.submodule_search_locations is None:
            return None
        places = list(spec.submodule_search_locations)
    if places:
        return Path(places[0])
    return None


# -------------------------------------------------------- modules in the current folder

#: Python's own variable keeps the current folder off the path of processes that are
#: started; ours tells them whether the command itself was started so (``python -P``),
#: in which case it does not look there for named modules either.
_PATHLESS = "PYTHONSAFEPATH"
_SAFE = "MTLRUN_SAFE_PATH"


def pathless() -> dict[str, str]:
    """Return variables with which a Python process starts without the current folder on
    its path.

    Otherwise ``joblib.py`` in that folder is what a worker process imports first.
    """
    return {_PATHLESS: "1", _SAFE: str(int(_safe_path()))}


def _safe_path() -> bool:
    return bool(int(os.environ.get(_SAFE, sys.flags.safe_path)))


@contextlib.contextmanager
def current_folder() -> Iterator[None]:
    """Let modules of the current folder be found, after all that is installed; not with
    ``python -P``.

    Nothing may be imported meanwhile: see `import_named`.
    """
    if _safe_path():
        yield
        return
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        with contextlib.suppress(
            ValueError
        ):  # the module itself may have changed the path
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def import_named(name: str) -> ModuleType:
    """Import a module that the user named, which may lie in the current folder, as may
    modules that it imports.

    Libraries that they import find nothing there: they try to import what they can do
    without, and a file called like it, such as ``pyarrow.py``, would be run. A module
    of the folder imports its neighbors when it is imported itself, not later.
    """
    # Modules of the package never lie in the current folder.
    if name in sys.modules or name.startswith("mtlrun."):
        return importlib.import_module(name)
    finder = _Neighbours(os.getcwd(), name.partition(".")[0])
    if _safe_path() or finder.find_spec(finder.named) is None:
        return importlib.import_module(name)
    sys.meta_path.append(finder)  # after all that is installed
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)


class _Neighbours:
    """Finds modules of a folder: the named one, and the modules that files of the
    folder import.
    """

    def __init__(self, folder: str, named: str) -> None:
        self.folder = folder
        self.named = named

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return where a module is, None where others must look for it."""
        if path is not None or not (name == self.named or self._asks()):
            return None
        return PathFinder.find_spec(name, [self.folder])

    def _asks(self) -> bool:
        """Whether the import that is under way stands in a file of the folder, not
        of an environment inside it.
        """
        frame = sys._getframe(2)
        while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        path = Path(frame.f_code.co_filename)
        inside = path.is_relative_to(self.folder)
        return inside and not {"site-packages", "dist-packages"}.intersection(
            path.parts
        )
