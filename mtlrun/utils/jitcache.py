"""Compiled functions on disk: valid for the sources that they were compiled from, and compiled again when damaged.

numba knows the file of a function only; machine code also holds what the function calls and the constants it names,
which may come from other files. Imports numba.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile

_DIGEST = hashlib.sha256().digest_size


def source_digest(function: Callable[..., Any]) -> bytes:
    """Return a digest of all sources behind the machine code of a function.

    These are the files of the function, of the compiled functions that it reaches and of the classes they name, and the
    values of the other globals that they name.
    """
    files: set[str] = set()
    constants: list[str] = []
    waiting: list[Any] = [function]
    seen: set[Any] = set()
    while waiting:
        reached = waiting.pop()
        seen.add(reached)
        files.add(reached.__code__.co_filename)
        for name in sorted(_names(reached.__code__) & reached.__globals__.keys()):
            value = reached.__globals__[name]
            inside = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
            if hasattr(inside, "__code__"):
                waiting += [inside] if inside not in seen else []
            elif callable(value):
                files.add(getattr(sys.modules.get(value.__module__ or ""), "__file__", None) or "")
            elif not isinstance(value, ModuleType):
                constants.append(f"{reached.__module__}.{name}={_text(value)}")
    parts = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if Path(file).is_file()]
    return hashlib.sha256("\n".join(sorted(parts) + sorted(constants)).encode()).digest()


def _names(code: CodeType) -> set[str]:
    """Return the globals and attributes that code names, with that of the functions inside of it."""
    inside = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inside)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):  # its repr leaves numbers out
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    return repr(value)


class SourceCache(FunctionCache):
    """numba's cache of one function, in numba's folders.

    Raises
    ------
    RuntimeError
        If there is no folder to write to.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = source_digest(function)
        self._cache_file = _SealedFile(self._cache_path, self._impl.filename_base, stamp)

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
        name, _, place = base.rpartition("-")
        for file in Path(self._cache_path).glob(f"{glob.escape(name)}-*.{place.partition('.')[2]}.*"):
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
        whole = Path(self._data_path(name)).read_bytes()
        if whole[-_DIGEST:] != self._seal(whole[:-_DIGEST]):
            raise ValueError(f"{name} is damaged, or of other sources")
        return super()._load_data(name)

    def _seal(self, content: bytes) -> bytes:
        return hashlib.sha256(self._source_stamp + content).digest()
