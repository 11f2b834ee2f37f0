"""Compiled functions on disk: valid for the sources that they were compiled from, and compiled again when damaged.

numba knows the file of a function only; machine code also holds what the function calls and the constants it names,
which may come from other files. Imports numba.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from mtlrun.utils.io import read_file, read_text_file

_DIGEST = hashlib.sha256().digest_size


@lru_cache
def source_digest(module: str) -> bytes:
    """Return a digest of the files of a module and of what it imports from its package, at the start of a line.

    A function compiled from it may contain any function, and name any constant, of these.
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
    return hashlib.sha256(text.encode()).digest()


class SourceCache(FunctionCache):
    """numba's cache of one function, in numba's folders.

    Raises
    ------
    RuntimeError
        If there is no folder to write to.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = source_digest(function.__module__)
        self._cache_file = _SealedFile(
            self._cache_path, self._impl.filename_base, stamp
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function, None where there is none that is whole."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # what unpickling a damaged file raises
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled function; a full disk, or a folder that has gone, only costs the cache."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)
            self._tidy()

    def _tidy(self) -> None:
        """Remove what was compiled when the function stood at another line of its file."""
        base = self._impl.filename_base  # module.function-LINE.PYTHON
        name, _, folder = base.rpartition("-")
        for file in Path(self._cache_path).glob(
            f"{glob.escape(name)}-*.{folder.partition('.')[2]}.*"
        ):
            if not file.name.startswith(f"{base}."):
                file.unlink(missing_ok=True)


class _SealedFile(IndexDataCacheFile):
    """Index and data files; data end with a digest of themselves and of the sources, behind what numba reads.

    The index alone would not do: processes of two versions of the sources may write at the same time.
    """

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(content + self._seal(content))

    def _load_data(self, name: str) -> Any:
        content = read_file(self._data_path(name))
        if content[-_DIGEST:] != self._seal(content[:-_DIGEST]):
            raise ValueError(f"{name} is damaged, or of other sources")
        return super()._load_data(name)

    def _seal(self, content: bytes) -> bytes:
        return hashlib.sha256(self._source_stamp + content).digest()
