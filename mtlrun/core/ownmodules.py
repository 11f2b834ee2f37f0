"""Modules of the user's own, which may lie in the current folder. Standard library only."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from types import ModuleType


@contextlib.contextmanager
def current_folder() -> Iterator[None]:
    """Let modules of the current folder be found, after all that is installed; not with ``python -P``.

    Only while a module is looked for that was named: libraries try to import what they can do without, and a file
    called like it, such as ``pyarrow.py``, would be run.
    """
    if sys.flags.safe_path:
        yield
        return
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the module itself may have changed the path
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def import_named(name: str) -> ModuleType:
    """Import a module that the user named, which may lie in the current folder.

    A module there that needs another of the folder imports it when it is imported itself, not later.
    """
    if PathFinder.find_spec(name.partition(".")[0], [os.getcwd()]) is None:
        return importlib.import_module(name)
    with current_folder():
        return importlib.import_module(name)
