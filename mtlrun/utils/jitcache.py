"""Folders for compiled functions, named after the sources of the functions.

Machine code holds what the function calls and the constants it names, which may come
from other files, while numba looks at the file of the function only. Therefore numba
keeps the code of each module in a folder that is named after the version of the package
and a digest of all sources which can be part of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import pickletools
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from mtlrun.utils.io import read_text_file

#: Folders that no process has used for this long are removed.
MAX_UNUSED_S = 30 * 24 * 3600
#: Nothing is kept on a disk with less space: numba raises an error when it is full.
MIN_FREE_BYTES = 64 << 20
#: Held while the folder of numba is another one.
_FOLDER_LOCK = threading.Lock()


@lru_cache
def source_digest(module: str) -> str:
    """Return a digest of the files of a module and of what it imports from its package.

    Only imports at the start of a line count. A function compiled from the module may
    contain any function, and name any constant, of these files.
    """
    package = module.partition(".")[0]
    waiting = [module]
    sources: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if (
            name not in sources
            and name.partition(".")[0] == package
            and file
            and Path(file).is_file()
        ):
            sources[name] = read_text_file(file)
            imports = re.findall(
                r"^(?:from ([\w.]+) )?import ([\w., ]*)", sources[name], re.MULTILINE
            )
            for origin, imported in imports:
                waiting.append(origin)
                for imported_name in imported.split(", "):
                    waiting.append(f"{origin}.{imported_name}".strip("."))
    text = "\n".join(sources[name] for name in sorted(sources))
    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def folder_of_machine_code(module: str) -> Iterator[bool]:
    """Let numba keep the functions that are defined in the block in the module's
    folder.

    Yields whether there is a folder to write to.
    """
    import numba

    # Its annotations lack the settings.
    config: Any = numba.config
    with _FOLDER_LOCK:
        previous = config.CACHE_DIR
        folder = _create_folder(module, previous)
        if folder is None:
            yield False
            return
        config.CACHE_DIR = str(folder)
        try:
            yield True
        finally:
            config.CACHE_DIR = previous


@lru_cache
def _create_folder(module: str, numba_folder: str) -> Path | None:
    """Return the folder for the machine code of a module, None if there is none.

    It is in ``NUMBA_CACHE_DIR`` if that is set, otherwise in the ``__pycache__`` of the
    module if that can be written, otherwise in the user's cache.
    """
    package = importlib.import_module(module.partition(".")[0])
    version = getattr(package, "__version__", "0")
    name = f"{version}-{source_digest(module)[:16]}"
    for base in _possible_bases(module, numba_folder):
        siblings = base / module
        folder = siblings / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
        except OSError:
            continue
        has_space = shutil.disk_usage(folder).free > MIN_FREE_BYTES
        if not has_space or not os.access(folder, os.W_OK):
            continue
        _remove_unused(siblings)
        _remove_damaged(folder)
        return folder
    return None


def _possible_bases(module: str, numba_folder: str) -> list[Path]:
    if numba_folder:
        return [Path(numba_folder)]
    bases = []
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is not None:
        bases.append(Path(file).parent / "__pycache__")
    bases.append(user_cache_path("mtlrun") / "machine-code")
    return bases


def _remove_unused(siblings: Path) -> None:
    """Remove the folders of earlier sources that no process uses any more."""
    with contextlib.suppress(OSError):
        for folder in siblings.iterdir():
            if time.time() - folder.stat().st_mtime > MAX_UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)


def _remove_damaged(folder: Path) -> None:
    """Remove the files of numba that are not whole, and indices that lead to them.

    A computer that loses its power may leave empty or cut files, on which numba raises
    an error.
    """
    for file in [*folder.rglob("*.nbc"), *folder.rglob("*.nbi")]:
        with contextlib.suppress(OSError):
            if not _is_whole(file.read_bytes(), n_pickles=1 + (file.suffix == ".nbi")):
                file.unlink()


def _is_whole(content: bytes, n_pickles: int) -> bool:
    """Return whether a file consists of some pickles. They are not executed."""
    stream = io.BytesIO(content)
    try:
        for _ in range(n_pickles):
            for _ in pickletools.genops(stream):
                pass
    except Exception:
        # Whatever decoding damaged bytes raises.
        return False
    return not stream.read()
