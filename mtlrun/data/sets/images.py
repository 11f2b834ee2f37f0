"""Images: IDX files of MNIST, digits of scikit-learn, and handwritten letters.

The letters are those collected by Kassel and Taskar.
"""

from __future__ import annotations

import math
import string
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.mat import read_mat
from mtlrun.data.sets.files import file_called
from mtlrun.data.tasks import make_tasks
from mtlrun.errors import DataError

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card

#: Types of the values of an IDX file, by their code.
TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
#: Size of the handwritten letters.
HEIGHT = 16
WIDTH = 8
PIXELS = HEIGHT * WIDTH


def read_idx(stream: IO[bytes], name: str, *, ndim: int | None = None) -> np.ndarray:
    """Read one array in the IDX format.

    It has a magic number, the sizes, then the values, all big-endian.

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
            "An IDX file starts with two zero bytes, a type and the number of "
            "dimensions; decompress an archive.",
        )
    dims = magic[3]
    dtype = np.dtype(TYPES[magic[2]])
    if ndim is not None and dims != ndim:
        raise DataError(
            f"{name}: {dims} dimensions where {ndim} are expected",
            "Were images and labels swapped?",
        )
    shape = struct.unpack_from(f">{dims}I", content.ljust(4 + 4 * dims, b"\0"), 4)
    expected = 4 + 4 * dims + math.prod(shape) * dtype.itemsize
    try:
        if len(content) != expected:
            raise ValueError(
                f"{len(content)} bytes where the header "
                f"({' x '.join(map(str, shape))}) requires {expected}"
            )
        values = np.frombuffer(content, dtype=dtype, offset=4 + 4 * dims).reshape(shape)
    except ValueError as error:
        # Also without values, or with values of size 1 in more dimensions than arrays
        # may have.
        raise DataError(
            f"{name}: {error}",
            "The file was truncated or has something appended; fetch it again.",
        ) from None
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("="))


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    parts: Sequence[tuple[str, str]],
    scale: float = 1.0,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read labeled images as a multi-class data set.

    Each row of X holds the pixels of an image, row by row.

    Parameters
    ----------
    parts : list of (images, labels)
        Pairs of files; with two of them ``splits["original"]`` is the first against the
        second.
    scale : float, default=1.0
        Every pixel is divided by this (255 gives 0..1).
    tasks : str or mapping, optional
        See `mtlrun.data.tasks.make_tasks`; rows are chosen before pixels become
        float64.

    Raises
    ------
    DataError
        For wrong files, images and labels of unequal number, or images of unequal size.
    """
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for image_name, label_name in parts:
        image_file = file_called(files, image_name, card)
        label_file = file_called(files, label_name, card)
        pictures = _array(image_file, 3)
        marks = _array(label_file, 1)
        if len(pictures) != len(marks):
            raise DataError(
                f"{label_file.where()}: {len(marks)} labels for the {len(pictures)} "
                f"images of {image_name}"
            )
        if images and pictures[0].size != images[0].shape[1]:
            raise DataError(
                f"{image_file.where()}: {pictures[0].size} pixels where {parts[0][0]} "
                f"has {images[0].shape[1]}"
            )
        images.append(pictures.reshape(len(pictures), -1))
        labels.append(marks)
    classes, y = np.unique(np.concatenate(labels), return_inverse=True)
    splits = {}
    if len(parts) == 2:
        cut = len(labels[0])
        splits["original"] = [(np.arange(cut), np.arange(cut, len(y)))]
    dataset = Dataset(
        X=np.concatenate(images),
        y=y.astype(np.int64),
        task_type="multiclass",
        tasks=list(map(str, classes)),
        splits=splits,
    )
    tasks_dataset = make_tasks(dataset, tasks)
    return replace(tasks_dataset, X=tasks_dataset.X / np.float64(scale))


def _array(file: DataFile, ndim: int) -> np.ndarray:
    with file.open() as stream:
        return read_idx(stream, file.where(), ndim=ndim)


def read_digits(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    scale: float = 16.0,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Return scikit-learn's 8 x 8 digits as ten one-vs-rest tasks with a shared design.

    They need no file.

    Parameters
    ----------
    scale : float, default=16.0
        The pixels (0..16) are divided by it.
    tasks : str or mapping, optional
        Other tasks: see `mtlrun.data.tasks.make_tasks`.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    digits = Dataset(
        X=bunch.data / scale,
        y=bunch.target.astype(np.int64),
        task_type="multiclass",
        tasks=list(map(str, range(10))),
        features=list(bunch.feature_names),
    )
    if tasks is not None:
        return make_tasks(digits, tasks)
    return replace(
        digits,
        y=np.where(bunch.target[:, None] == np.arange(10), 1.0, -1.0),
        task_type="binary",
    )


def read_letter(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read the letters of handwritten words as classes a..z.

    They are in the container of the Shogun project.

    The first file holds cells ``patterns_*`` of shape (129, word length), with the
    pixels column by column, and ``labels_*`` with 0 for a. The last row of a cell holds
    ones and is dropped. A row of X is one upright 16 x 8 image, row by row.

    Parameters
    ----------
    tasks : str or mapping, optional
        See `mtlrun.data.tasks.make_tasks`.

    Returns
    -------
    Dataset
        Multi-class; ``splits["words"]`` is the file's division into training and test
        words, so that the letters of one word stay together.
    """
    file = next(iter(files.values()))
    variables = ["patterns_train", "labels_train", "patterns_test", "labels_test"]
    with file.open() as stream:
        content = read_mat(stream, file.where(), variables)
    pixels_of_parts = []
    labels_of_parts = []
    for part in ("train", "test"):
        # The upright images and the labels of all letters of all words.
        patterns = np.hstack(list(content[f"patterns_{part}"]))[:PIXELS]
        upright = patterns.T.reshape(-1, WIDTH, HEIGHT).transpose(0, 2, 1)
        pixels_of_parts.append(upright.reshape(-1, PIXELS))
        word_labels = [word.ravel() for word in content[f"labels_{part}"]]
        labels_of_parts.append(np.concatenate(word_labels).astype(np.int64))
    pixels = np.concatenate(pixels_of_parts)
    labels = np.concatenate(labels_of_parts)
    cut = len(labels_of_parts[0])
    dataset = Dataset(
        X=pixels.astype(np.float64),
        y=labels,
        task_type="multiclass",
        tasks=list(string.ascii_lowercase),
        features=[f"r{i}c{j}" for i in range(HEIGHT) for j in range(WIDTH)],
        splits={"words": [(np.arange(cut), np.arange(cut, len(labels)))]},
    )
    return make_tasks(dataset, tasks)
