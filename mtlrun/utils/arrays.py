"""Arrays in ``.npz`` files: written the same to the byte, and read only where they are
what their header says.

NumPy is imported where it is used: this module is imported by the commands that only
look at records.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mtlrun.utils.io import open_regular
from mtlrun.utils.sizes import SizeError, allow_expansion

if TYPE_CHECKING:
    import numpy as np

_END = ".npy"
#: Errors of the modules of archives for damaged, forged and encrypted files.
_DAMAGE = (
    *(
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        tokenize.TokenError,
        SyntaxError,
        EOFError,
    ),
    *(LookupError, TypeError, ValueError, RuntimeError),
)


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
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float64)


class NpzArchive(zipfile.ZipFile):
    """The arrays of an ``.npz`` file, each read on access.

    Parameters
    ----------
    source : Path or bytes
        The file, or its content.
    name : str
        For messages.

    Raises
    ------
    ValueError
        If the file is not a zip archive.
    OSError
        If it cannot be read.
    """

    #: None until the file is open: archives are also closed after an error.
    _source: IO[bytes] | None = None

    def __init__(self, source: Path | bytes, name: str) -> None:
        self.name = name
        if isinstance(source, bytes):
            self._source = io.BytesIO(source)
        else:
            self._source = open_regular(source)
        self.size = self._source.seek(0, io.SEEK_END)
        try:
            super().__init__(self._source)
        except _DAMAGE as error:
            self._source.close()
            raise ValueError(f"{name} is no .npz archive: {error}") from None

    def close(self) -> None:
        """Close the archive and the file that it is read from."""
        super().close()
        if self._source is not None:
            self._source.close()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name; see `array`."""
        names = [
            name.removesuffix(_END) for name in self.namelist() if name.endswith(_END)
        ]
        return {name: self.array(name) for name in names}

    def array(self, name: str) -> np.ndarray:
        """Return an array.

        Raises
        ------
        ValueError
            If there is none of this name, it is damaged, or its header claims another
            size than there is.
        """
        import numpy as np

        try:
            info = self.getinfo(f"{name}{_END}")
            allow_expansion(f"{self.name}({name})", info.file_size, self.size)
            with self.open(info) as stream:
                array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
                if stream.read(1):  # the checksum is looked at where the member ends
                    raise ValueError(f"{name} is longer than its header claims")
            return array
        except SizeError:
            raise
        except (*_DAMAGE, OSError, MemoryError) as error:
            raise ValueError(f"{self.name} is damaged: {error}") from None
