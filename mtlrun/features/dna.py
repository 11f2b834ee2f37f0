"""DNA strings of one length, two bits per letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlrun.data.readers.fasta import BASES, IUPAC

Array = np.ndarray[Any, np.dtype[Any]]

_UNKNOWN, _WRONG = 4, 5
_CHUNK = 1 << 16


def _letter_codes() -> Array:
    codes = np.full(256, _WRONG, dtype=np.uint8)
    for group, code in ((IUPAC, _UNKNOWN), (b"U", 3), *((BASES[k : k + 1], k) for k in range(4))):
        codes[list(group)] = code
        codes[list(group.lower())] = code
    return codes


_CODES = _letter_codes()


@dataclass(frozen=True, eq=False)
class PackedDNA:
    """Strings of A C G T, four letters per byte, and marks for letters that stand for several bases.

    Attributes
    ----------
    letters : ndarray of shape (n, ceil(length / 4)), uint8
        Codes A C G T = 0 1 2 3, the first letter in the lowest bits; 0 where the base is not known.
    unknown : ndarray of shape (n, ceil(length / 8)), uint8
        A bit per letter, the first lowest; of shape (0, 0) when all bases are known.
    length : int
    """

    letters: Array
    unknown: Array
    length: int

    def __len__(self) -> int:
        return len(self.letters)

    def __getitem__(self, rows: Any) -> PackedDNA:
        known = self.unknown.shape[0] == 0
        return PackedDNA(self.letters[rows], self.unknown if known else self.unknown[rows], self.length)

    def count_runs(self, degree: int) -> Array:
        """Return, for every string and k = 1..degree, how many k-mers have known letters only: (n, degree)."""
        if self.unknown.shape[0] == 0:
            whole = np.maximum(self.length - np.arange(degree), 0)
            return np.broadcast_to(whole, (len(self), degree))
        known = np.unpackbits(self.unknown, axis=1, count=self.length, bitorder="little") == 0
        counts = np.zeros((len(self), degree))
        run = known
        for k in range(min(degree, self.length)):
            run = known if k == 0 else run[:, :-1] & known[:, k:]
            counts[:, k] = run.sum(axis=1)
        return counts


def letters_of(X: Any) -> Array:
    """Return strings as an array of bytes (n, length).

    Parameters
    ----------
    X : array-like of shape (n,) or (n, 1)
        Bytes or str.

    Raises
    ------
    ValueError
        If X holds something else, nothing, empty strings, or strings of different lengths.
    """
    strings = np.asarray(X)
    if strings.ndim == 2 and strings.shape[1] == 1:
        strings = strings[:, 0]
    if strings.ndim != 1 or strings.dtype.kind not in "SUO":
        raise ValueError(
            f"X must be a one-dimensional array of strings, got dtype {strings.dtype} and shape {strings.shape}"
        )
    if not len(strings):
        raise ValueError("X has no strings")
    if strings.dtype.kind == "O":
        strings = _from_objects(strings)
    lengths = np.char.str_len(strings)
    if lengths.max() == 0:
        raise ValueError("X has only empty strings")
    if np.any(lengths != lengths[0]):
        i = int(np.argmax(lengths != lengths[0]))
        raise ValueError(f"strings of unequal length: string {i} has {lengths[i]} letters, string 0 has {lengths[0]}")
    if strings.dtype.kind == "U":
        points = np.ascontiguousarray(strings).view(np.uint32).reshape(len(strings), -1)[:, : lengths[0]]
        return np.where(points < 128, points, 0).astype(np.uint8)
    return np.ascontiguousarray(strings).view(np.uint8).reshape(len(strings), -1)[:, : lengths[0]]


def _from_objects(strings: Array) -> Array:
    for i, value in enumerate(strings):
        if not isinstance(value, str | bytes):
            raise ValueError(f"X must hold strings, but string {i} is {value!r}")
    return np.array([value.encode("ascii", "replace") if isinstance(value, str) else value for value in strings])


def pack(letters: Array) -> PackedDNA:
    """Pack an array of letters (n, length), in pieces of bounded size.

    Raises
    ------
    ValueError
        With string and position (counted from 1) of the first letter that is none of IUPAC's for DNA.
    """
    n, length = letters.shape
    packed = np.empty((n, -(-length // 4)), dtype=np.uint8)
    unknown = np.zeros((n, -(-length // 8)), dtype=np.uint8)
    for begin in range(0, n, _CHUNK):
        codes = _CODES[letters[begin : begin + _CHUNK]]
        if codes.max() == _WRONG:
            i, p = np.argwhere(codes == _WRONG)[0]
            letter = bytes(letters[begin + i, p : p + 1])
            raise ValueError(
                f"string {begin + i}, position {p + 1}: {letter.decode('ascii', 'backslashreplace')!r} is no IUPAC "
                f"letter of DNA ({IUPAC.decode()})"
            )
        marks = codes == _UNKNOWN
        unknown[begin : begin + _CHUNK] = np.packbits(marks, axis=1, bitorder="little")
        codes[marks] = 0
        padded = np.zeros((len(codes), 4 * packed.shape[1]), dtype=np.uint8)
        padded[:, :length] = codes
        quads = padded.reshape(len(codes), -1, 4)
        packed[begin : begin + _CHUNK] = (quads << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    return PackedDNA(packed, unknown if unknown.any() else np.empty((0, 0), dtype=np.uint8), length)
