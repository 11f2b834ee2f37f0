"""DNA strings of one length: FASTA files and the UCI splice junctions.

They are kept as NumPy byte strings.

Letters: A, C, G, T and IUPAC's letters for sets of bases (R Y S W K M B D H V N); U is
read as T, lower case as upper case. A k-mer with a letter for a set has no
weighted-degree feature. Anything else, gaps ('-', '.') included, is refused with line
and column.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from mtlrun.data.dataset import Dataset
from mtlrun.data.files import DataFile, file_called
from mtlrun.data.tasks import make_tasks
from mtlrun.errors import DataError, UnknownNameError, shorten

if TYPE_CHECKING:
    from mtlrun.data.cards import Card

BASES = b"ACGT"
IUPAC = b"ACGTURYSWKMBDHVN"
_CAPITALS = bytes.maketrans(b"acgturyswkmbdhvnU", b"ACGTTRYSWKMBDHVNT")
_LETTERS = IUPAC + IUPAC.lower()
#: Kinds of files of a task and their label; 0: the labels are in the headers.
KINDS = {"positive": 1.0, "negative": -1.0, "labelled": 0.0}


def clean_sequence(raw: bytes, name: str, line: int, offset: int = 0) -> bytes:
    """Return a piece of a sequence in upper case, with T for U.

    Parameters
    ----------
    raw : bytes
        The letters, without line end.
    name, line, offset : str, int, int
        File, line, and characters before `raw` in that line, for messages.

    Raises
    ------
    DataError
        With line and column of the first character that is not an IUPAC letter.
    """
    wrong = raw.translate(None, _LETTERS)
    if wrong:
        column = raw.index(wrong[:1]) + 1
        if 32 <= wrong[0] < 127:
            letter = repr(chr(wrong[0]))
        else:
            letter = f"byte 0x{wrong[0]:02x}"
        raise DataError(
            f"{name}:{line}:{offset + column}: {letter} is not an IUPAC letter of DNA",
            f"Allowed: {IUPAC.decode()} in upper or lower case; gaps and stops are "
            "not.",
        )
    return raw.translate(_CAPITALS)


def drop_repeats(sequences: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the rows of the first occurrence of each (sequence, label), sorted."""
    kept = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        kept.append(rows[np.unique(sequences[rows], return_index=True)[1]])
    return np.sort(np.concatenate(kept))


def _unequal(location: str, length: int, expected: int) -> DataError:
    return DataError(
        f"{location}: a sequence of {length} bases where the first has {expected}",
        "All sequences must have the same length; cut windows of equal length first.",
    )


# --- FASTA ---


def iterate_fasta(stream: IO[bytes], name: str) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield (header without '>', sequence, line of the header) of each record.

    One record is in memory at a time.

    Sequences may run over several lines; empty lines are skipped.

    Raises
    ------
    DataError
        For text before the first header, a header without a sequence, and letters
        outside IUPAC.
    """
    header: bytes | None = None
    pieces: list[bytes] = []
    start = 0
    for number, raw in enumerate(stream, start=1):
        line = (raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw).rstrip()
        if line[:1] == b">":
            if header is not None:
                yield header, _joined(pieces, name, start), start
            header = line[1:].strip()
            pieces = []
            start = number
        elif line:
            if header is None:
                raise DataError(
                    f"{name}:{number}:1: sequence before the first header",
                    "A FASTA record starts with '>'.",
                )
            pieces.append(clean_sequence(line, name, number))
    if header is None:
        raise DataError(
            f"{name}: contains no FASTA record", "A FASTA record starts with '>'."
        )
    yield header, _joined(pieces, name, start), start


def _joined(pieces: list[bytes], name: str, line: int) -> bytes:
    if not pieces:
        raise DataError(
            f"{name}:{line}: a header without a sequence",
            "The file may be truncated; fetch it again.",
        )
    return b"".join(pieces)


def read_fasta(
    stream: IO[bytes],
    name: str,
    *,
    window: Sequence[int] | None = None,
    label: str | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Read sequences of one length into an array of byte strings, at one byte per base.

    Parameters
    ----------
    stream : binary file
    name : str
        File name for messages.
    window : (start, stop), optional
        Keep ``sequence[start:stop]`` (0-based, half open) of each record.
    label : str, optional
        Regular expression whose first group, in the header, is the number +1 or -1.

    Returns
    -------
    sequences : ndarray of shape (n,) and dtype S<length>
    labels : ndarray of shape (n,), float64, or None without `label`

    Raises
    ------
    DataError
        For unequal lengths, a window that does not fit, headers without a label, and
        what `iterate_fasta` refuses.
    """
    pattern = None
    if label:
        pattern = re.compile(label.encode())
    buffer = bytearray()
    labels = []
    length = 0
    for header, sequence, line in iterate_fasta(stream, name):
        if not buffer:
            length = len(sequence)
            start, stop = window or (0, length)
            if not 0 <= start < stop <= length:
                raise DataError(
                    f"{name}: the window {start}:{stop} does not fit into sequences of "
                    f"{length} bases"
                )
        elif len(sequence) != length:
            raise _unequal(f"{name}:{line + 1}", len(sequence), length)
        buffer += sequence[start:stop]
        if pattern is not None:
            labels.append(_header_label(pattern.search(header), name, line))
    return np.frombuffer(bytes(buffer), dtype=f"S{stop - start}"), np.array(
        labels
    ) if pattern else None


def _header_label(match: re.Match[bytes] | None, name: str, line: int) -> float:
    text = None
    if match:
        text = match.group(1).decode(errors="replace")
    if text not in ("1", "+1", "-1"):
        problem = "the header has no label"
        if text:
            problem = f"the label {shorten(text, 40)!r} is not +1 or -1"
        raise DataError(
            f"{name}:{line}: {problem}",
            "The option 'label' of the card says how labels are written.",
        )
    return float(text)


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
        strings, signs = _read_task(files, card, task, label)
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


def _read_task(
    files: Mapping[str, DataFile],
    card: Card,
    task: Mapping[str, Any],
    label: str | None,
) -> tuple[np.ndarray, np.ndarray]:
    parts = []
    labels = []
    for kind, sign in KINDS.items():
        for name in task.get(kind, ()):
            file = file_called(files, name, card)
            with file.open() as stream:
                strings, header_labels = read_fasta(
                    stream,
                    file.where(),
                    window=task.get("window"),
                    label=None if sign else label,
                )
            parts.append(strings)
            labels.append(
                np.full(len(strings), sign) if header_labels is None else header_labels
            )
    return _stacked(parts, f"data set {card.id}, task {task['name']}"), np.concatenate(
        labels
    )


# --- the splice junctions of the UCI repository ---


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
            raise _unequal(file.where(number), len(sequences[-1]), len(sequences[0]))
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
