"""Arrays in ``.npz`` files: written the same to the byte, and read only where they are what their header says.

NumPy is imported where it is used: this module is imported by the commands that only look at records.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from mtlrun.utils.sizes import DEFLATE_TIMES, SizeError, allow, allow_expansion

if TYPE_CHECKING:
    import numpy as np

_END = ".npy"
#: What the modules of archives raise about damaged, forged and encrypted ones.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, TypeError, ValueError, RuntimeError)
_REMEDY = "The file was altered: take it from where it was made."


def npz(arrays: Mapping[str, Any]) -> bytes:
    """Return an ``.npz`` file, the same bytes for the same arrays.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Floats keep their precision; all else becomes float64.
    """
    import numpy as np

    kept: dict[str, Any] = {name: _floats(values) for name, values in arrays.items()}
    content = io.BytesIO()
    np.savez_compressed(content, **kept)
    return content.getvalue()


def array_digest(values: Any) -> str:
    """Return the sha256 of the numbers of an array, with their type and shape."""
    array = _floats(values)
    head = f"{array.dtype.str}{array.shape}"
    return hashlib.sha256(head.encode() + array.tobytes()).hexdigest()


def _floats(values: Any) -> np.ndarray:
    import numpy as np

    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


class NpzArchive:
    """The arrays of an ``.npz`` file, each read when it is asked for.

    Parameters
    ----------
    source : Path or bytes
        The file, or its content.
    name : str
        For messages.

    Raises
    ------
    ValueError
        If it is no zip archive.
    OSError
        If it cannot be read.
    """

    def __init__(self, source: Path | bytes, name: str) -> None:
        self.name = name
        content: Path | IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else source
        self.size = len(source) if isinstance(source, bytes) else source.stat().st_size
        try:
            self.zip = zipfile.ZipFile(content)
        except _DAMAGE as error:
            raise ValueError(f"{name} is no .npz archive: {error}") from None
        self.names = {i.filename.removesuffix(_END) for i in self.zip.infolist() if i.filename.endswith(_END)}

    def __enter__(self) -> NpzArchive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.zip.close()

    def read(self, name: str) -> np.ndarray:
        """Return an array.

        Raises
        ------
        ValueError
            If there is none of this name, it is damaged, or its header claims another size than there is.
        """
        import numpy as np

        if name not in self.names:
            raise ValueError(f"{self.name} has no array {name!r}")
        info, place = self.zip.getinfo(f"{name}{_END}"), f"{self.name}({name})"
        try:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise TypeError("it is compressed in a way that numpy does not use")
            allow(place, info.file_size, DEFLATE_TIMES * self.size, "bytes in its directory", _REMEDY)
            allow_expansion(place, info.file_size, self.size)
            with self.zip.open(info) as stream:
                _check_header(stream, info.file_size)
            with self.zip.open(info) as stream:
                found = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
                stream.read(1)  # the checksum is looked at where the member ends
                return found
        except SizeError:
            raise
        except (*_DAMAGE, OSError, MemoryError) as error:
            raise ValueError(f"{self.name} is damaged: {error}") from None


def _check_header(stream: IO[bytes], size: int) -> None:
    """Refuse an array whose type and shape make another size than its member has."""
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise TypeError(f"version {version} of the format")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise TypeError("it holds Python objects")
    if math.prod(map(int, shape)) * dtype.itemsize + stream.tell() != size:
        raise TypeError(f"its header claims {shape} of {dtype}, which is not its size")
