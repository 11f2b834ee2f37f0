"""Handwritten words of Kassel and Taskar, letter by letter, from the container of the Shogun project."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.makers import make_tasks
from mtlrun.data.readers.mat import read_mat
from mtlrun.errors import DataError

HEIGHT, WIDTH = 16, 8
PIXELS = HEIGHT * WIDTH


def read(files: Mapping[str, DataFile], card: Card, *, tasks: str | Mapping[str, Any] | None = None) -> Dataset:
    """Read all letters as upright 16 x 8 images, one row of 128 binary pixels each (row by row), a..z as classes.

    Parameters
    ----------
    files : mapping of str to DataFile
        The first one is read: cells ``patterns_*`` of (129, word length), pixels column by column and a last row of
        ones that is dropped, and ``labels_*`` with 0 for a.
    card : Card
    tasks : str or mapping, optional
        See `mtlrun.data.makers.make_tasks`.

    Returns
    -------
    Dataset
        Multi-class; ``splits["words"]`` is the file's division into training and test words, so that letters of one
        word stay together.

    Raises
    ------
    DataError
        For cells of another shape, pixels that are not 0/1, labels outside 0..25.
    """
    file = next(iter(files.values()))
    name = file.where()
    variables = ("patterns_train", "labels_train", "patterns_test", "labels_test")
    with file.open() as stream:
        content = read_mat(stream, name, variables)
    parts = [_letters(content[f"patterns_{p}"], content[f"labels_{p}"], p, name) for p in ("train", "test")]
    pixels, labels = (np.concatenate(piece) for piece in zip(*parts, strict=True))
    cut = len(parts[0][1])
    whole = Dataset(
        X=pixels.astype(np.float64),
        y=labels,
        task_type="multiclass",
        tasks=list(string.ascii_lowercase),
        features=[f"r{i}c{j}" for i in range(HEIGHT) for j in range(WIDTH)],
        splits={"words": [(np.arange(cut), np.arange(cut, len(labels)))]},
    )
    return make_tasks(whole, tasks)


def _letters(patterns: Any, labels: Any, part: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(patterns, list) or not isinstance(labels, list) or len(patterns) != len(labels):
        raise DataError(f"{name}: patterns_{part} and labels_{part} must be cell arrays with one cell per word")
    for k, (pattern, label) in enumerate(zip(patterns, labels, strict=True), start=1):
        if pattern.ndim != 2 or pattern.shape[0] != PIXELS + 1 or label.size != pattern.shape[1]:
            raise DataError(
                f"{name}: word {k} of the {part} part has patterns of shape {pattern.shape} and {label.size} labels, "
                f"expected ({PIXELS + 1}, letters) and one label per letter"
            )
    stacked, codes = np.hstack(patterns), np.concatenate([label.ravel() for label in labels]).astype(np.int64)
    if not np.isin(stacked[:PIXELS], (0, 1)).all() or not (stacked[PIXELS] == 1).all():
        raise DataError(f"{name}: the {part} part has pixels that are not 0/1, or a last row that is not 1")
    if codes.min() < 0 or codes.max() > 25:
        raise DataError(f"{name}: labels of the {part} part run from {codes.min()} to {codes.max()}, expected 0..25")
    upright = stacked[:PIXELS].T.reshape(-1, WIDTH, HEIGHT).transpose(0, 2, 1)
    return upright.reshape(-1, PIXELS), codes
