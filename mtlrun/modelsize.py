"""What a model archive would take of memory, found out before anything in it is read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from mtlrun.errors import DataError

#: An archive may expand to so many bytes, or so many times its own size, whichever is more.
LIMIT, TIMES = 256 << 20, 20
SCHEMA = "schema.json"
_REMEDY = "Train the model again, or take it from somebody whom you trust."


def refuse_large(archive: bytes, name: str) -> None:
    """Refuse a model that would take far more memory than its archive.

    `save_model` stores members as they are. Only sparse matrices are compressed, as npz files of scipy; and an array
    that several objects name is read for each of them.

    Parameters
    ----------
    archive : bytes
        What skops wrote.
    name : str
        The file, for messages.

    Raises
    ------
    DataError
        If a member is compressed, or what would be read is too large.
    zipfile.BadZipFile, KeyError, ValueError, RecursionError
        If it is no such archive.
    """
    limit = max(LIMIT, TIMES * len(archive))
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        infos = members.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise DataError(f"{name}: its members are compressed, which mtlrun never does", _REMEDY)
        _check(sum(info.file_size for info in infos), limit, name)
        total, sizes = 0, {info.filename: info.file_size for info in infos}
        for file in _files(json.loads(members.read(SCHEMA))):
            if file.endswith(".npz") and file in sizes:
                sizes[f"{file}/"] = sizes.get(f"{file}/") or _expanded(members.read(file))
            total += sizes.get(f"{file}/", sizes.get(file, 0))
            _check(total, limit, name)


def _check(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise DataError(f"{name}: expands to more than {limit} bytes", _REMEDY)


def _expanded(content: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        return sum(info.file_size for info in members.infolist())


def _files(schema: Any) -> Iterator[str]:
    """Yield the member that every object of a schema is read from."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(file := value.get("file"), str):
                yield file
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
