"""FASTA and the string data sets: DNA windows of one length, kept as numpy byte strings.

Letters: A, C, G, T and IUPAC's letters for sets of bases (R Y S W K M B D H V N); U is read as T, small letters as
capitals. A k-mer with a letter for a set has no weighted-degree feature. Everything else, gaps ('-', '.') included, is
refused with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from mtlrun.data.cards import Card
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile
from mtlrun.data.readers import file_called
from mtlrun.errors import DataError, UnknownNameError, shorten

BASES = b"ACGT"
IUPAC = b"ACGTURYSWKMBDHVN"
_CAPITALS = bytes.maketrans(b"acgturyswkmbdhvnU", b"ACGTTRYSWKMBDHVNT")
#: Kinds of files of a task and their label; 0: the labels are in the headers.
KINDS = {"positive": 1.0, "negative": -1.0, "labelled": 0.0}
_ALLOWED = IUPAC + IUPAC.lower()


def clean_sequence(raw: bytes, name: str, line: int, offset: int = 0) -> bytes:
    """Return a piece of sequence in capitals, with T for U.

    Parameters
    ----------
    raw : bytes
        The letters, without line end.
    name, line, offset : str, int, int
        File, line, and characters before `raw` in that line, for messages.

    Raises
    ------
    DataError
        With line and column of the first character that is no IUPAC letter.
    """
    wrong = raw.translate(None, _ALLOWED)
    if wrong:
        column = raw.index(wrong[:1]) + 1
        raise DataError(
            f"{name}:{line}:{offset + column}: {_show(wrong[0])} is no IUPAC letter of DNA",
            f"Allowed: {IUPAC.decode()} and small letters; gaps and stops are not.",
        )
    return raw.translate(_CAPITALS)


def iterate_fasta(stream: IO[bytes], name: str) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield (header without '>', sequence, line of the header), one record in memory at a time.

    Sequences may run over several lines; empty lines are skipped.

    Raises
    ------
    DataError
        For text before the first header, a header without sequence, and letters outside IUPAC.
    """
    header: bytes | None = None
    pieces: list[bytes] = []
    start = 0
    for number, raw in enumerate(stream, start=1):
        line = raw.rstrip()
        if line[:1] == b">":
            if header is not None:
                yield header, _join(pieces, name, start), start
            header, pieces, start = line[1:].strip(), [], number
        elif line:
            if header is None:
                raise DataError(
                    f"{name}:{number}:1: sequence before the first header", "A FASTA record starts with '>'."
                )
            pieces.append(clean_sequence(line, name, number))
    if header is None:
        raise DataError(f"{name}: no FASTA record in it", "A FASTA record starts with '>'.")
    yield header, _join(pieces, name, start), start


def read_fasta(
    stream: IO[bytes], name: str, *, window: tuple[int, int] | None = None, label: str | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Read sequences of one length into an array of byte strings, at one byte per base.

    Parameters
    ----------
    stream : binary file
    name : str
        File name for messages.
    window : (start, stop), optional
        Keep ``sequence[start:stop]`` (0-based, half open) of every record.
    label : str, optional
        Regular expression whose first group, in the header, is the number +1 or -1.

    Returns
    -------
    sequences : ndarray of shape (n,) and dtype S<length>
    labels : ndarray of shape (n,), float64, or None without `label`

    Raises
    ------
    DataError
        For unequal lengths, a window that does not fit, headers without label, and what `iterate_fasta` refuses.
    """
    pattern = re.compile(label.encode()) if label else None
    buffer, labels, length = bytearray(), [], 0
    for header, sequence, line in iterate_fasta(stream, name):
        if not buffer:
            length = len(sequence)
            cut = _cut(window, length, name)
        elif len(sequence) != length:
            raise DataError(
                f"{name}:{line + 1}: a sequence of {len(sequence)} bases where the first has {length}",
                "All sequences must have one length; cut windows of equal length first.",
            )
        buffer += sequence[cut]
        if pattern is not None:
            labels.append(_label(pattern.search(header), name, line))
    width = cut.stop - cut.start
    return np.frombuffer(bytes(buffer), dtype=f"S{width}"), np.array(labels) if pattern else None


def drop_repeats(sequences: np.ndarray) -> np.ndarray:
    """Return the sorted indices of the first occurrence of every distinct sequence."""
    return np.sort(np.unique(sequences, return_index=True)[1])


def read(
    files: Mapping[str, DataFile],
    card: Card,
    *,
    tasks: Sequence[Mapping[str, Any]],
    label: str | None = None,
    organisms: Sequence[str] | None = None,
    distinct: bool = True,
) -> Dataset:
    """Read a binary string data set with one task per organism (or other origin).

    Parameters
    ----------
    files : mapping of str to DataFile
    card : Card
    tasks : list of mapping
        Per task its ``name``, lists of files under ``positive`` and ``negative`` or under ``labelled`` (see `label`),
        and under ``window`` the [start, stop] of the part of the sequences to keep, if not all.
    label : str, optional
        Regular expression that finds +1 or -1 in the headers of ``labelled`` files.
    organisms : list of str, optional
        The tasks to read, in this order; all by default.
    distinct : bool, default=True
        Keep the first of equal sequences of one task and label. Repeats that fell into both parts of a split would
        make the test too easy.

    Returns
    -------
    Dataset
        `X` is a 1-D array of byte strings; `notes` say how many repeats were dropped.

    Raises
    ------
    DataError
        If a file is wrong, lengths differ between files, or `organisms` names an unknown one.
    """
    parts: list[np.ndarray] = []
    labels, owner, notes = [], [], []
    chosen = _chosen(tasks, organisms, card)
    for t, task in enumerate(chosen):
        strings, signs = _read_task(files, card, task, label)
        if distinct:
            keep = _first_of_equal(strings, signs)
            if len(keep) < len(strings):
                notes.append(f"{task['name']}: {len(strings) - len(keep)} repeated sequences dropped")
            strings, signs = strings[keep], signs[keep]
        if parts and parts[0].dtype != strings.dtype:
            raise DataError(
                f"data set {card.id}: sequences of {strings.dtype.itemsize} bases in task {task['name']}, "
                f"{parts[0].dtype.itemsize} in task {chosen[0]['name']}",
                "Give windows of one length.",
            )
        parts.append(strings)
        labels.append(signs)
        owner.append(np.full(len(strings), t))
    return Dataset(
        X=np.concatenate(parts),
        y=np.concatenate(labels),
        task_id=np.concatenate(owner),
        task_type="binary",
        tasks=[str(task["name"]) for task in chosen],
        notes="; ".join(notes),
    )


def _first_of_equal(strings: np.ndarray, signs: np.ndarray) -> np.ndarray:
    kept = [np.flatnonzero(signs == s)[drop_repeats(strings[signs == s])] for s in (1.0, -1.0)]
    return np.sort(np.concatenate(kept))


def _read_task(
    files: Mapping[str, DataFile], card: Card, task: Mapping[str, Any], label: str | None
) -> tuple[np.ndarray, np.ndarray]:
    window = (task["window"][0], task["window"][1]) if "window" in task else None
    parts: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for kind, sign in KINDS.items():
        for name in task.get(kind, ()):
            file = file_called(files, name, card)
            with file.open() as stream:
                strings, found = read_fasta(stream, file.where(), window=window, label=None if sign else label)
            if parts and parts[0].dtype != strings.dtype:
                raise DataError(
                    f"{file.where()}: sequences of {strings.dtype.itemsize} bases, {parts[0].dtype.itemsize} in the "
                    f"other files of task {task['name']}"
                )
            parts.append(strings)
            labels.append(np.full(len(strings), sign) if found is None else found)
    return np.concatenate(parts), np.concatenate(labels)


def _chosen(tasks: Sequence[Mapping[str, Any]], organisms: Sequence[str] | None, card: Card) -> list[Mapping[str, Any]]:
    for task in tasks:
        for key in task:
            if key not in ("name", "window", *KINDS):
                raise UnknownNameError("key of a task", key, ["name", "window", *KINDS])
        if "name" not in task or not any(task.get(kind) for kind in KINDS):
            raise DataError(f"{card.path}: every task needs a name and files under {', '.join(KINDS)}")
    table = {str(task["name"]): task for task in tasks}
    names = list(table) if organisms is None else list(organisms)
    if not names:
        raise DataError(f"data set {card.id}: no task is named", "Name one or more tasks.")
    for name in names:
        if name not in table:
            raise UnknownNameError(f"organism of {card.id}", name, table)
    return [table[name] for name in names]


def _join(pieces: list[bytes], name: str, line: int) -> bytes:
    if not pieces:
        raise DataError(f"{name}:{line}: a header without sequence", "The file may be cut; fetch it again.")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _cut(window: tuple[int, int] | None, length: int, name: str) -> slice:
    start, stop = window or (0, length)
    if not 0 <= start < stop <= length:
        raise DataError(f"{name}: the window {start}:{stop} does not fit into sequences of {length} bases")
    return slice(start, stop)


def _label(match: re.Match[bytes] | None, name: str, line: int) -> float:
    text = match.group(1).decode(errors="replace") if match else None
    if text not in ("1", "+1", "-1"):
        raise DataError(
            f"{name}:{line}: "
            + (f"the label {shorten(text, 40)!r} is not +1 or -1" if text else "the header has no label"),
            "The card's option 'label' says how labels are written.",
        )
    return float(text)


def _show(byte: int) -> str:
    return repr(chr(byte)) if 32 <= byte < 127 else f"byte 0x{byte:02x}"
