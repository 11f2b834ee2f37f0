"""Tables with a class column, as the UCI repository has them, and its splice-junction file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.makers import make_tasks
from mtlrun.data.readers.csv import read_table
from mtlrun.data.readers.fasta import clean_sequence, drop_repeats
from mtlrun.errors import DataError


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    label: int,
    delimiter: str | None = ",",
    header: bool = False,
    skip: int = 0,
    classes: Sequence[str | Sequence[str]] | None = None,
    features: Sequence[str] = (),
    split: str | None = None,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read one or more tables of the same columns, stacked in the order of the card, as a multi-class set.

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    label : int
        Position of the class column; negative ones count from the end.
    delimiter : str or None, default=","
        None stands for any run of blanks.
    header : bool, default=False
        Whether the first line names the columns.
    skip : int, default=0
        Lines to leave out at the start of every file.
    classes : list of str or of (str, str), optional
        The labels that may occur in the order of the class numbers, each alone or with the name to use; without it, all
        labels that occur, sorted.
    features : list of str, optional
        Names of the other columns, where there is no header.
    split : str, optional
        Name for the published split: all files but the last for training, the last one for test.
    tasks : str or mapping, optional
        See `mtlrun.data.makers.make_tasks`.

    Raises
    ------
    DataError
        For what `read_table` refuses, files of unequal width, and labels outside `classes`.
    """
    names = None if classes is None else _class_names(classes)
    frames: list[pd.DataFrame] = []
    for file in files.values():
        with file.open() as stream:
            frame = read_table(stream, file.where(), delimiter=delimiter, header=header, skip=skip, text=[label])
        if frames and list(frame.columns) != list(frames[0].columns):
            raise DataError(f"{file.where()}: {frame.shape[1]} columns where the first file has {frames[0].shape[1]}")
        _check_labels(frame[frame.columns[label]], names, file)
        frames.append(frame)
    table = pd.concat(frames, ignore_index=True)
    column = table.columns[label]
    if names is None:
        names = {v: v for v in sorted(set(table[column]))}
    number = {key: k for k, key in enumerate(names)}
    values = table.drop(columns=column)
    if features and len(features) != values.shape[1]:
        raise DataError(f"{card.path}: {len(features)} feature names for {values.shape[1]} columns")
    start = len(table) - len(frames[-1])
    whole = Dataset(
        X=values.to_numpy(dtype=np.float64),
        y=table[column].map(number).to_numpy(dtype=np.int64),
        task_type="multiclass",
        tasks=list(names.values()),
        features=list(features) or ([str(c) for c in values.columns] if header else []),
        splits={split: [(np.arange(start), np.arange(start, len(table)))]} if split else {},
    )
    return make_tasks(whole, tasks)


def read_splice(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    classes: Sequence[str] = ("EI", "IE", "N"),
    distinct: bool = False,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read the splice-junction file: lines of class, name and 60 bases, separated by commas and blanks.

    Parameters
    ----------
    files : mapping of str to DataFile
        The first one is read.
    card : Card
    classes : list of str
        The labels in the order of the class numbers: exon/intron (donor), intron/exon (acceptor), neither.
    distinct : bool, default=False
        Keep the first of equal sequences of one class; the file repeats some.
    tasks : str or mapping, optional
        See `mtlrun.data.makers.make_tasks`.

    Returns
    -------
    Dataset
        Multi-class; `X` is an array of byte strings.

    Raises
    ------
    DataError
        With line and column: not three fields, an unknown class, a letter outside IUPAC, another length.
    """
    file = next(iter(files.values()))
    sequences: list[bytes] = []
    labels: list[int] = []
    for number, line in enumerate(file.lines(), start=1):
        if line.strip():
            label, sequence = _splice_line(line, file, number, classes, len(sequences[0]) if sequences else None)
            labels.append(label)
            sequences.append(sequence)
    if not sequences:
        raise DataError(f"{file.where()}: no rows", "Fetch the file again.")
    X, y = np.array(sequences, dtype=f"S{len(sequences[0])}"), np.array(labels, dtype=np.int64)
    notes = ""
    if distinct:
        keep = np.sort(np.concatenate([np.flatnonzero(y == c)[drop_repeats(X[y == c])] for c in np.unique(y)]))
        notes = f"{len(y) - len(keep)} repeated sequences dropped"
        X, y = X[keep], y[keep]
    return make_tasks(Dataset(X=X, y=y, task_type="multiclass", tasks=list(classes), notes=notes), tasks)


def _splice_line(
    line: str, file: DataFile, number: int, classes: Sequence[str], length: int | None
) -> tuple[int, bytes]:
    fields = line.split(",")
    if len(fields) != 3:
        raise DataError(f"{file.where(number, 1)}: {len(fields)} fields where class, name and sequence are expected")
    label, sequence = fields[0].strip(), fields[2].strip()
    column = line.rindex(fields[2]) + len(fields[2]) - len(fields[2].lstrip()) + 1
    if label not in classes:
        raise DataError(f"{file.where(number, 1)}: the class {label!r} is none of {', '.join(classes)}")
    if length is not None and len(sequence) != length:
        raise DataError(
            f"{file.where(number, column)}: a sequence of {len(sequence)} bases where the first has {length}",
            "All sequences must have one length; fetch the file again.",
        )
    return classes.index(label), clean_sequence(sequence.encode(), file.where(), number, column - 1)


def _class_names(classes: Sequence[str | Sequence[str]]) -> dict[str, str]:
    pairs = [(item, item) if isinstance(item, str) else (item[0], item[-1]) for item in classes]
    return {str(label): str(name) for label, name in pairs}


def _check_labels(column: pd.Series, names: Mapping[str, str] | None, file: DataFile) -> None:
    for row, value in enumerate(column, start=1):
        if not value or (names is not None and value not in names):
            wanted = f"none of {', '.join(names)}" if names else "empty"
            raise DataError(
                f"{file.where()}: the class {value!r} of row {row} is {wanted}", "Is it the file on the card?"
            )
