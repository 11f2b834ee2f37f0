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
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pandas as pd

from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.names import TrainingColumns
from mtlrun.data.reading.table import SEQUENCE, Table
from mtlrun.errors import DataError, shorten

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


def unequal_length(location: str, length: int, expected: int) -> DataError:
    """Return the error of a sequence whose length differs from the first one's."""
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


def fasta_table(file: DataFile, like: TrainingColumns | None = None) -> Table:
    """Return a FASTA file as a table of one column of sequences."""
    with file.open() as stream:
        sequences = read_fasta(stream, file.where())[0]
    return Table(file.where(), pd.DataFrame({SEQUENCE: sequences.astype(str)}))


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
            raise unequal_length(f"{name}:{line + 1}", len(sequence), length)
        buffer += sequence[start:stop]
        if pattern is not None:
            match = pattern.search(header)
            text = ""
            if match is not None:
                text = match.group(1).decode(errors="replace")
            if text not in ("1", "+1", "-1"):
                problem = "the header has no label"
                if text:
                    problem = f"the label {shorten(text, 40)!r} is not +1 or -1"
                raise DataError(
                    f"{name}:{line}: {problem}",
                    "The option 'label' of the card says how labels are written.",
                )
            labels.append(float(text))
    return np.frombuffer(bytes(buffer), dtype=f"S{stop - start}"), np.array(
        labels
    ) if pattern else None


# --- the splice junctions of the UCI repository ---
