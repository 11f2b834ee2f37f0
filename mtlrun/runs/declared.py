"""What measures declare, read off their source: their modules, which load solvers, are not imported."""

from __future__ import annotations

import ast
import functools
import os

from mtlrun.papers.measure import Declaration
from mtlrun.runs.code import declarations
from mtlrun.runs.modules import SOURCE, Finder


def declared(path: str) -> tuple[str, Declaration] | None:
    """Return the first line of the docstring of a measure, ``package.module:function``, and what it declares.

    None where nothing can be read off: without the decorator or without source, in an installed package, where the
    declaration is not written out in literals, and where the file is damaged.
    """
    name, _, function = path.partition(":")
    module = Finder().find(name) if name else None
    if module is None or module.installed or not (module.file or "").endswith(SOURCE):
        return None
    try:
        stat = os.stat(module.file or "")
        return _read(module.file or "", stat.st_mtime_ns, stat.st_size, stat.st_ino).get(function)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # `facts` tells what is wrong
        return None


@functools.lru_cache(maxsize=256)
def _read(file: str, mtime: int, size: int, inode: int) -> dict[str, tuple[str, Declaration]]:
    with open(file, "rb") as stream:
        tree = ast.parse(stream.read())
    found = {}
    for function, call in declarations(tree):
        try:
            arguments = [ast.literal_eval(node) for node in call.args]
            named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
            found[function.name] = _summary(function), Declaration(*arguments, **named)
        except (TypeError, ValueError):  # so does importing the module
            continue
    return found


def _summary(function: ast.FunctionDef) -> str:
    return (ast.get_docstring(function) or "").partition("\n")[0].rstrip(".").replace("`", "")
