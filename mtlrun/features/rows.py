"""Rows of any design in compiled code: dense, CSR, or DNA strings.

One set of compiled functions serves all three: `Rows` has the arrays of each kind,
empty where they are not used. Dense and CSR designs share the machine code. Strings
have code of their own, since the other designs need not wait until the expansion of
strings is compiled. With NUMBA_DISABLE_JIT=1 the same functions run as plain Python.

Loops over rows unpack `Rows` once and call the small functions below with single
arrays: numba counts references to every array that it takes out of a tuple or hands to
a function with branches, which costs more than a short row. The arrays of strings stay
together: expanding a string takes longer. Loops over the entries of a
row count with unsigned integers, and columns are unsigned: a signed index might be
negative and is tested at every access, which makes them 2.5 times slower.

Weighted-degree features of a string of L letters (A C G T = 0 1 2 3): for every
position p and k = 1..K with p + k <= L one indicator per k-mer that starts at p, with
the value sqrt(2 (K - k + 1) / (K (K + 1))). Its index is ``start[p] + (4^k - 4) / 3 +
code``, where `code` has the letters as digits of base 4, the first one highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from mtlrun.utils.jit import compiled, inner, summing

Array = np.ndarray

DENSE = 0
CSR = 1
STRINGS = 2

# Compiled code is made for contiguous, aligned and writeable arrays only.
_LAYOUT: Sequence[Literal["C", "A", "W"]] = ("C", "A", "W")
# Columns of a CSR design have 32-bit indices.
_MAX_COLUMNS = int(np.iinfo(np.int32).max)


class Rows(NamedTuple):
    """Arrays of a design for compiled code.

    `bias` is the value of a constant feature behind the others, or 0.

    Attributes
    ----------
    kind : int
        DENSE, CSR or STRINGS.
    bias : float
    dense : ndarray of shape (n, d)
    values, columns, indptr : ndarray
        CSR; uint32 columns, int64 indptr. For strings, room for the features of a row.
    strings : Strings or None
        None unless the rows are strings, so that only these compile how strings are
        expanded.
    buckets : int
        0 for the exact index, else a power of two: features are hashed into this many
        signed columns.
    """

    kind: int
    bias: float
    dense: Array
    values: Array
    columns: Array
    indptr: Array
    strings: Strings | None
    buckets: int


class Strings(NamedTuple):
    """Arrays of DNA strings for compiled code.

    Attributes
    ----------
    letters : ndarray of shape (n, ceil(L / 4)), uint8
        Four letters per byte, the first in the lowest bits.
    unknown : ndarray of shape (n, ceil(L / 8)) or (0, 0), uint8
        Bits of the letters that stand for several bases; empty if there are none.
    scale : ndarray of shape (n,)
        Factor of all features of a string.
    level : ndarray of shape (K + 1,)
        Value of the features of k-mers; ``level[0]`` is not used.
    start : ndarray of shape (L + 1,), int64
        Index of the first feature of each position, and the number of features.
    """

    letters: Array
    unknown: Array
    scale: Array
    level: Array
    start: Array


def make_rows(design: Any, bias: float = 0.0) -> Rows:
    """Return the rows of a design.

    Parameters
    ----------
    design : float64 ndarray, csr_array, or an object with a method `rows`
        See `mtlrun.features`.
    bias : float, default 0.0

    Raises
    ------
    ValueError
        If a sparse design has more columns than 32 bits can count.
    """
    if hasattr(design, "rows"):
        return design.rows(bias)
    if isinstance(design, np.ndarray):
        # Compiled code knows writeable arrays only: a read-only one (a memory map) is
        # copied.
        dense = np.require(design, np.float64, _LAYOUT)
        return empty_rows(DENSE, bias)._replace(dense=dense)
    n_columns = design.shape[1]
    if n_columns > _MAX_COLUMNS:
        raise ValueError(
            f"X has {n_columns} columns, at most {_MAX_COLUMNS} are possible: hash them"
        )
    values = np.require(design.data, np.float64, _LAYOUT)
    columns = np.require(design.indices, np.int32, _LAYOUT)
    indptr = np.require(design.indptr, np.int64, _LAYOUT)
    return empty_rows(CSR, bias)._replace(
        values=values,
        columns=columns.view(np.uint32),
        indptr=indptr,
    )


def empty_rows(kind: int, bias: float) -> Rows:
    """Return rows of a kind with all arrays empty."""
    return Rows(
        kind=kind,
        bias=float(bias),
        dense=np.empty((0, 0)),
        values=np.empty(0),
        columns=np.empty(0, dtype=np.uint32),
        indptr=np.empty(0, dtype=np.int64),
        strings=None,
        buckets=0,
    )


@inner
def _letter(letters: Array, i: int, p: int) -> int:
    """Return the code of letter p of string i: two bits of byte p / 4."""
    byte = int(letters[i, p >> 2])
    shift = 2 * (p & 3)
    return (byte >> shift) & 3


@inner
def _hashed(p: int, k: int, code: int, buckets: int) -> tuple[int, float]:
    """Return bucket and sign of a k-mer.

    All products stay below 2^63, so that plain Python gives the same numbers.
    """
    prime = 2147483647
    h = (p * 64 + k + 1) % prime
    h = (h * 1664525 + (code & 1073741823) + 1) % prime
    h = (h * 69069 + (code >> 30) + 1) % prime
    h = (h * 48271 + 11) % prime
    bucket = h & (buckets - 1)
    sign = -1.0
    if (h // buckets) & 1:
        sign = 1.0
    return bucket, sign


@inner
def expand(
    strings: Strings | None,
    buckets: int,
    i: int,
    columns: Array,
    values: Array,
) -> int:
    """Write columns and values of string i, and return their number.

    A k-mer with an unknown letter has none. Other rows have nothing to expand.
    """
    # numba decides this when it compiles, from the type.
    if strings is None:
        return 0
    letters, unknown, scale, level, start = strings
    degree = len(level) - 1
    length = len(start) - 1
    bit = np.uint64(1)
    two = np.uint64(2)
    # `window` holds the codes of the `degree` letters from p on, two bits each; the
    # code of a k-mer is its k highest pairs of bits. Letters behind the end count as 0.
    mask = (bit << np.uint64(2 * degree)) - bit
    window = np.uint64(0)
    count = np.uint64(0)
    for p in range(min(degree - 1, length)):
        letter = np.uint64(_letter(letters, i, p))
        window = (window << two) | letter
    if length < degree - 1:
        n_missing = degree - 1 - length
        window <<= np.uint64(2 * n_missing)
    # The first position looks for an unknown letter.
    gap = -1
    factor = scale[i]
    for p in range(length):
        last = 0
        if p + degree <= length:
            last = _letter(letters, i, p + degree - 1)
        window = (window << two) | np.uint64(last)
        window &= mask
        if gap < p:
            # The next position whose letter stands for several bases
            gap = length
            if unknown.shape[0]:
                gap = p
                while gap < length:
                    marks = int(unknown[i, gap >> 3])
                    if (marks >> (gap & 7)) & 1:
                        break
                    gap += 1
        base = np.uint64(start[p])
        width = np.uint64(4)
        shift = np.uint64(2 * degree)
        # K-mers end before the next unknown letter.
        longest = min(degree, gap - p)
        for k in range(1, longest + 1):
            shift -= two
            code = window >> shift
            if buckets:
                number: Any = np.int64(code)
                bucket, sign = _hashed(p, k, number, buckets)
                columns[count] = bucket
                values[count] = sign * factor * level[k]
            else:
                columns[count] = base + code
                values[count] = factor * level[k]
                base += width
                width <<= two
            count += bit
    return np.int64(count)  # type: ignore[return-value]


@inner
def bounds(kind: int, indptr: Array, i: int) -> tuple[int, int]:
    """Return where in the storage row i is; empty unless the design is CSR."""
    if kind == CSR:
        return indptr[i], indptr[i + 1]
    return 0, 0


@summing
def dense_dot(dense: Array, i: int, W: Array, t: int) -> float:
    """Return the product of row i of a dense design with row t of W.

    It is 0 for other designs, which have no columns here.
    """
    total = 0.0
    for j in range(dense.shape[1]):
        total += dense[i, j] * W[t, j]
    return total


@inner
def sparse_dot(
    columns: Array,
    values: Array,
    low: int,
    high: int,
    W: Array,
    t: int,
) -> float:
    """Return the product of the entries low..high-1 of the storage with row t of W."""
    total = 0.0
    for j in range(np.uint64(low), np.uint64(high)):
        total += values[j] * W[t, columns[j]]
    return total


@inner
def dense_add(dense: Array, i: int, step: float, W: Array, t: int) -> None:
    """Add step * row i of a dense design to row t of W."""
    for j in range(dense.shape[1]):
        W[t, j] += step * dense[i, j]


@inner
def sparse_add(
    columns: Array,
    values: Array,
    low: int,
    high: int,
    step: float,
    W: Array,
    t: int,
) -> None:
    """Add step * the entries low..high-1 of the storage to row t of W."""
    for j in range(np.uint64(low), np.uint64(high)):
        W[t, columns[j]] += step * values[j]


@compiled
def squared_norms(rows: Rows, out: Array, room: Array) -> None:
    """Write ||x_i||^2 for all rows, including the constant feature.

    `room` is zero, of shape (1, number of features).
    """
    kind, bias, dense, values, columns, indptr, strings, buckets = rows
    only = len(room) - 1
    for i in range(len(out)):
        low, high = bounds(kind, indptr, i)
        high += expand(strings, buckets, i, columns, values)
        total = bias * bias
        for j in range(dense.shape[1]):
            total += dense[i, j] * dense[i, j]
        if buckets:  # columns may repeat
            sparse_add(columns, values, low, high, 1.0, room, only)
            total += sparse_dot(columns, values, low, high, room, only)
            for j in range(low, high):
                room[only, columns[j]] = 0.0
        else:
            for j in range(low, high):
                total += values[j] * values[j]
        out[i] = total


@compiled
def multiply(rows: Rows, W: Array, out: Array) -> None:
    """Write the products of all rows with the only row of W."""
    kind, bias, dense, values, columns, indptr, strings, buckets = rows
    only = len(W) - 1
    for i in range(len(out)):
        low, high = bounds(kind, indptr, i)
        high += expand(strings, buckets, i, columns, values)
        # One of the two products is 0: a design is dense or sparse.
        z = dense_dot(dense, i, W, only)
        z += sparse_dot(columns, values, low, high, W, only)
        out[i] = z + bias * W[only, -1]
