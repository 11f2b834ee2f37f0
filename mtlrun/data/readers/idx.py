"""The IDX format of the MNIST files: a magic number, the sizes, then the values, all big-endian."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.makers import make_tasks
from mtlrun.data.readers import file_called
from mtlrun.errors import DataError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(stream: IO[bytes], name: str, *, ndim: int | None = None) -> np.ndarray:
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
    try:
        values = np.frombuffer(content, dtype=dtype, offset=start).reshape(shape)
    except ValueError as error:  # no values, or values of size 1 in more dimensions than arrays have
        raise DataError(f"{name}: no array of that shape: {error}", "Fetch the file again.") from None
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("="))


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    parts: Sequence[tuple[str, str]],
    scale: float = 1.0,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read labelled images, one row of pixels each (row by row), as a multi-class set.

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    parts : list of (images, labels)
        Pairs of files; with two of them ``splits["original"]`` is the first against the second.
    scale : float, default=1.0
        Every pixel is divided by this (255 gives 0..1).
    tasks : str or mapping, optional
        See `mtlrun.data.makers.make_tasks`; rows are chosen before pixels become float64.

    Raises
    ------
    DataError
        For wrong files, images and labels of unequal number, or images of unequal size.
    """
    if not scale > 0:
        raise DataError(f"data set {card.id}: scale must be positive, not {scale}")
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for image_name, label_name in parts:
        picture_file, label_file = file_called(files, image_name, card), file_called(files, label_name, card)
        pictures, marks = _array(picture_file, 3), _array(label_file, 1)
        if len(pictures) != len(marks):
            raise DataError(f"{label_file.where()}: {len(marks)} labels for the {len(pictures)} images of {image_name}")
        if images and pictures[0].size != images[0].shape[1]:
            raise DataError(
                f"{picture_file.where()}: {pictures[0].size} pixels where {parts[0][0]} has {images[0].shape[1]}"
            )
        images.append(pictures.reshape(len(pictures), -1))
        labels.append(marks)
    classes, y = np.unique(np.concatenate(labels), return_inverse=True)
    cut = len(labels[0])
    whole = Dataset(
        X=np.concatenate(images),
        y=y.astype(np.int64),
        task_type="multiclass",
        tasks=[str(c) for c in classes],
        splits={"original": [(np.arange(cut), np.arange(cut, len(y)))]} if len(parts) == 2 else {},
    )
    made = make_tasks(whole, tasks)
    return replace(made, X=made.X / np.float64(scale))


def _array(file: DataFile, ndim: int) -> np.ndarray:
    with file.open() as stream:
        return read_idx(stream, file.where(), ndim=ndim)
