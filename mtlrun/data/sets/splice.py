"""Data sets of DNA sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.sequences import (
    KINDS,
    clean_sequence,
    drop_repeats,
    read_fasta,
    unequal_length,
)
from mtlrun.data.sets.files import file_called
from mtlrun.data.tasks import make_tasks
from mtlrun.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    tasks: Sequence[Mapping[str, Any]],
    label: str | None = None,
    distinct: bool = True,
) -> Dataset:
    """Read FASTA files as binary data with one task per organism (or other origin).

    Parameters
    ----------
    tasks : list of mapping
        Per task its ``name``, lists of files under ``positive`` and ``negative`` or
        under ``labelled`` (see `label`), and under ``window`` the [start, stop] of the
        part of the sequences to keep, if not all.
    label : str, optional
        Regular expression that finds +1 or -1 in the headers of ``labelled`` files.
    distinct : bool, default=True
        Keep the first of equal sequences of one task and label. Repeats that fall into
        both parts of a split would make the test too easy.

    Returns
    -------
    Dataset
        `X` is a 1-D array of byte strings; `notes` say how many repeats were dropped.

    Raises
    ------
    DataError
        If a file is wrong, or lengths differ between files.
    """
    parts = []
    labels = []
    owner = []
    notes = []
    for t, task in enumerate(tasks):
        for key in task:
            if key not in ("name", "window", *KINDS):
                raise UnknownNameError("key of a task", key, ["name", "window", *KINDS])
        if "name" not in task or not any(task.get(kind) for kind in KINDS):
            raise DataError(
                f"{card.path}: every task needs a name and files under "
                f"{', '.join(KINDS)}"
            )
        parts_of_task = []
        labels_of_task = []
        for kind, sign in KINDS.items():
            for name in task.get(kind, ()):
                file = file_called(files, name, card)
                with file.open() as stream:
                    sequences, header_labels = read_fasta(
                        stream,
                        file.where(),
                        window=task.get("window"),
                        label=None if sign else label,
                    )
                parts_of_task.append(sequences)
                if header_labels is None:
                    header_labels = np.full(len(sequences), sign)
                labels_of_task.append(header_labels)
        strings = _stacked(parts_of_task, f"data set {card.id}, task {task['name']}")
        signs = np.concatenate(labels_of_task)
        if distinct:
            keep = drop_repeats(strings, signs)
            if len(keep) < len(strings):
                notes.append(
                    f"{task['name']}: {len(strings) - len(keep)} repeated sequences "
                    "dropped"
                )
            strings = strings[keep]
            signs = signs[keep]
        parts.append(strings)
        labels.append(signs)
        owner.append(np.full(len(strings), t))
    return Dataset(
        X=_stacked(parts, f"data set {card.id}"),
        y=np.concatenate(labels),
        task_id=np.concatenate(owner),
        task_type="binary",
        tasks=[str(task["name"]) for task in tasks],
        notes="; ".join(notes),
    )


def _stacked(parts: list[np.ndarray], name: str) -> np.ndarray:
    sizes = sorted({part.dtype.itemsize for part in parts})
    if len(sizes) > 1:
        text = f"{name}: its files have sequences of {', '.join(map(str, sizes))} bases"
        raise DataError(text, "Give windows of the same length.")
    return np.concatenate(parts)


def read_splice(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    classes: Sequence[str] = ("EI", "IE", "N"),
    distinct: bool = False,
    tasks: str | Mapping[str, Any] | None = None,
) -> Dataset:
    """Read the splice-junction file.

    Its lines have a class, a name and 60 bases, separated by commas and blanks.

    Parameters
    ----------
    classes : list of str
        The labels in the order of the class numbers: exon/intron (donor), intron/exon
        (acceptor), neither.
    distinct : bool, default=False
        Keep the first of equal sequences of one class; the file repeats some.
    tasks : str or mapping, optional
        See `mtlrun.data.tasks.make_tasks`.

    Returns
    -------
    Dataset
        Multi-class; `X` is an array of byte strings.

    Raises
    ------
    DataError
        With line and column: not three fields, an unknown class, a letter outside
        IUPAC, another length.
    """
    file = next(iter(files.values()))
    sequences: list[bytes] = []
    labels: list[int] = []
    for number, line in enumerate(file.lines(), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3 or fields[0] not in classes:
            text = (
                f"{file.where(number)}: not a line of class ({', '.join(classes)}), "
                "name and sequence"
            )
            raise DataError(text, "Is it the file on the card?")
        sequences.append(
            clean_sequence(
                fields[2].encode(), file.where(), number, line.rindex(fields[2])
            )
        )
        labels.append(classes.index(fields[0]))
        if len(sequences[-1]) != len(sequences[0]):
            raise unequal_length(
                file.where(number), len(sequences[-1]), len(sequences[0])
            )
    if not sequences:
        raise DataError(f"{file.where()}: no rows", "Fetch the file again.")
    X = np.array(sequences)
    y = np.array(labels, dtype=np.int64)
    notes = ""
    if distinct:
        keep = drop_repeats(X, y)
        notes = f"{len(y) - len(keep)} repeated sequences dropped"
        X = X[keep]
        y = y[keep]
    return make_tasks(
        Dataset(X=X, y=y, task_type="multiclass", tasks=list(classes), notes=notes),
        tasks,
    )
