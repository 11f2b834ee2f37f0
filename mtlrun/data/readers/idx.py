"""The IDX format of the MNIST files: a magic number, the sizes, then the values, all big-endian."""

from __future__ import annotations

import math
from typing import BinaryIO

import numpy as np

from mtlrun.core.errors import DataError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(stream: BinaryIO, name: str, *, ndim: int | None = None) -> np.ndarray:
    """Read one array.

    Parameters
    ----------
    stream : binary file
    name : str
        File name for messages.
    ndim : int, optional
        Number of dimensions that the file must have (1 for labels, 3 for images).

    Returns
    -------
    ndarray
        In the file's type (native byte order), C-contiguous.

    Raises
    ------
    DataError
        If the magic number, the number of dimensions or the length is wrong.
    """
    content = stream.read()
    magic = content[:4]
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES or magic[3] == 0:
        raise DataError(
            f"{name}: wrong magic number 0x{magic.hex()} for an IDX file",
            "An IDX file starts with two zero bytes, a type (0x08 for images and labels of MNIST) and the number of "
            "dimensions; decompress the file if it is an archive.",
        )
    dims = magic[3]
    if ndim is not None and dims != ndim:
        raise DataError(f"{name}: {dims} dimensions where {ndim} are expected", "Were images and labels interchanged?")
    start = 4 + 4 * dims
    if len(content) < start:
        raise DataError(f"{name}: the file ends inside its header of {start} bytes", "Fetch the file again.")
    shape = tuple(int(k) for k in np.frombuffer(content, dtype=">u4", count=dims, offset=4))
    dtype = np.dtype(TYPES[magic[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        sizes = " x ".join(map(str, shape))
        raise DataError(
            f"{name}: {len(content)} bytes where the header ({sizes}) asks for {expected}",
            "The file was cut or has something appended; fetch it again.",
        )
    values = np.frombuffer(content, dtype=dtype, offset=start).reshape(shape)
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("="))
