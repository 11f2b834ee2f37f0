"""DNA strings as features.

Strings are packed with two bits per letter. Weighted-degree features are stored, or
computed when they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mtlrun.data.reading.formats.sequences import BASES, IUPAC
from mtlrun.features.rows import (
    STRINGS,
    Rows,
    Strings,
    empty_rows,
    expand,
    multiply,
)
from mtlrun.utils.jit import compiled

Array = np.ndarray

# Codes of letters besides A C G T = 0 1 2 3: a set of bases, and no letter of IUPAC's.
_UNKNOWN = 4
_WRONG = 5
# Strings that are packed at a time.
_CHUNK = 1 << 16


def _letter_codes() -> Array:
    """Return the code of each byte."""
    codes = np.full(256, _WRONG, dtype=np.uint8)
    # IUPAC's letters include the four bases, whose codes replace `_UNKNOWN`.
    letters_of_codes = [(IUPAC, _UNKNOWN), (b"U", 3)]
    for k in range(4):
        base = BASES[k : k + 1]
        letters_of_codes.append((base, k))
    for letters, code in letters_of_codes:
        codes[list(letters)] = code
        codes[list(letters.lower())] = code
    return codes


_CODES = _letter_codes()


@dataclass(frozen=True, eq=False)
class PackedDNA:
    """Strings of A C G T, four letters per byte.

    Letters that stand for several bases are marked.

    Attributes
    ----------
    letters : ndarray of shape (n, ceil(length / 4)), uint8
        Codes A C G T = 0 1 2 3, the first letter in the lowest bits; 0 where the base
        is not known.
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
        unknown = self.unknown
        if self.has_unknown:
            unknown = unknown[rows]
        return PackedDNA(self.letters[rows], unknown, self.length)

    @property
    def has_unknown(self) -> bool:
        """Whether a letter stands for several bases."""
        return self.unknown.shape[0] > 0

    def is_unknown(self) -> Array:
        """Return whether each letter stands for several bases, (n, length)."""
        bits = np.unpackbits(
            self.unknown,
            axis=1,
            count=self.length,
            bitorder="little",
        )
        return bits == 1

    def count_runs(self, degree: int) -> Array:
        """Return the number of k-mers with known letters only, (n, degree).

        Column k - 1 of a row belongs to k.
        """
        shape = (len(self), degree)
        if not self.has_unknown:
            n_positions = self.length - np.arange(degree)
            counts = np.maximum(n_positions, 0)
            return np.broadcast_to(counts, shape)
        is_known = ~self.is_unknown()
        counts = np.zeros(shape)
        # Whether the k + 1 letters from each position on are known.
        run = is_known
        longest = min(degree, self.length)
        for k in range(longest):
            if k > 0:
                run = run[:, :-1] & is_known[:, k:]
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
        If X holds something else, nothing, empty strings, or strings of different
        lengths.
    """
    strings = np.asarray(X)
    if strings.ndim == 2 and strings.shape[1] == 1:
        strings = strings[:, 0]
    if strings.ndim != 1 or strings.dtype.kind not in "SUO":
        raise ValueError(
            "X must be a one-dimensional array of strings, got dtype "
            f"{strings.dtype} and shape {strings.shape}"
        )
    if not len(strings):
        raise ValueError("X has no strings")
    if strings.dtype.kind != "S":
        values = strings.tolist()
        for i, value in enumerate(values):
            if isinstance(value, str):
                # Letters outside of ASCII become wrong ones.
                values[i] = value.encode("ascii", "replace")
            elif not isinstance(value, bytes):
                raise ValueError(f"X must hold strings, but string {i} is {value!r}")
        strings = np.array(values)
    lengths = np.char.str_len(strings)
    if lengths.max() == 0:
        raise ValueError("X has only empty strings")
    differs = lengths != lengths[0]
    if np.any(differs):
        i = int(np.argmax(differs))
        raise ValueError(
            f"strings of unequal length: string {i} has {lengths[i]} letters, string 0 "
            f"has {lengths[0]}"
        )
    # A view of the bytes: no copy, and no object per string.
    n = len(strings)
    letters = np.ascontiguousarray(strings).view(np.uint8)
    padded = letters.reshape(n, -1)
    return padded[:, : lengths[0]]


def pack(letters: Array) -> PackedDNA:
    """Pack an array of letters (n, length), in pieces of bounded size.

    Raises
    ------
    ValueError
        With string and position (counted from 1) of the first letter that is none of
        IUPAC's for DNA.
    """
    n, length = letters.shape
    n_bytes = math.ceil(length / 4)
    n_mark_bytes = math.ceil(length / 8)
    packed = np.empty((n, n_bytes), dtype=np.uint8)
    unknown = np.zeros((n, n_mark_bytes), dtype=np.uint8)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8)
    for begin in range(0, n, _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        codes = _CODES[letters[chunk]]
        if codes.max() == _WRONG:
            wrong = np.argwhere(codes == _WRONG)
            row, p = wrong[0]
            i = begin + row
            letter = bytes(letters[i, p : p + 1])
            printable = letter.decode("ascii", "backslashreplace")
            raise ValueError(
                f"string {i}, position {p + 1}: {printable!r} is no IUPAC letter of "
                f"DNA ({IUPAC.decode()})"
            )
        marks = codes == _UNKNOWN
        unknown[chunk] = np.packbits(marks, axis=1, bitorder="little")
        codes[marks] = 0
        # Zeros fill the last byte of a string.
        padded_shape = (len(codes), 4 * n_bytes)
        padded = np.zeros(padded_shape, dtype=np.uint8)
        padded[:, :length] = codes
        quads = padded.reshape(len(codes), -1, 4)
        # The pairs of bits do not overlap: their sum is the byte.
        shifted = quads << shifts
        packed[chunk] = shifted.sum(axis=2, dtype=np.uint8)
    if not unknown.any():
        # Compiled code skips the marks of strings without unknown letters.
        unknown = np.empty((0, 0), dtype=np.uint8)
    return PackedDNA(packed, unknown, length)


#: The code of a k-mer has two bits per letter and must fit into 62 bits.
MAX_DEGREE = 31
# Columns of the exact index: scikit-learn's solvers need 32-bit indices.
_MAX_EXACT = np.iinfo(np.int32).max


@dataclass(eq=False)
class StringDesign:
    """A design matrix of weighted-degree features that is never stored.

    Rows are computed from packed DNA when they are needed.

    It has what the solvers and linear models ask of a design: `shape`, rows by index or
    slice, products with coefficients, and `rows` for compiled code.
    `WeightedDegree.design` makes it.

    Parameters
    ----------
    dna : PackedDNA
    scale : ndarray of shape (n,)
        Factor of the features of each string.
    level : ndarray of shape (degree + 1,)
        Value of the features of k-mers.
    start : ndarray of shape (length + 1,), int64
        Index of the first feature of each position; the last entry counts all features.
    buckets : int
        Number of hashed columns, 0 for the exact index.
    """

    ndim = 2

    dna: PackedDNA
    scale: Array
    level: Array
    start: Array
    buckets: int

    @property
    def shape(self) -> tuple[int, int]:
        """Strings and features."""
        n_features = self.buckets
        if n_features == 0:
            n_features = int(self.start[-1])
        return len(self.scale), n_features

    def __len__(self) -> int:
        return len(self.scale)

    def __getitem__(self, rows: Any) -> StringDesign:
        return StringDesign(
            self.dna[rows],
            self.scale[rows],
            self.level,
            self.start,
            self.buckets,
        )

    def __matmul__(self, W: Array) -> Array:
        """Return the products with a vector (d,) or a matrix (d, k).

        Raises
        ------
        ValueError
            If there are not as many coefficients as features.
        """
        n_rows, n_features = self.shape
        if len(W) != n_features:
            raise ValueError(f"{len(W)} coefficients for {n_features} features")
        rows = self.rows(0.0)
        is_matrix = W.ndim == 2
        columns = W[np.newaxis]
        if is_matrix:
            columns = W.T
        out = np.empty((len(columns), n_rows))
        for k, w in enumerate(columns):
            # Compiled code is made for this type and layout only.
            coefficients = np.require(w[np.newaxis], np.float64, ["C", "A", "W"])
            multiply(rows, coefficients, out[k])
        if is_matrix:
            return out.T
        return out[0]

    def rows(self, bias: float) -> Rows:
        """Return the arrays for compiled code (see `mtlrun.features.rows`)."""
        # One feature per position and length of a k-mer, at the most.
        n_positions = len(self.start) - 1
        degree = len(self.level) - 1
        n_values = n_positions * degree
        return empty_rows(STRINGS, bias)._replace(
            values=np.empty(n_values),
            columns=np.empty(n_values, dtype=np.uint32),
            strings=Strings(
                letters=self.dna.letters,
                unknown=self.dna.unknown,
                scale=self.scale,
                level=self.level,
                start=self.start,
            ),
            buckets=self.buckets,
        )

    @classmethod
    def stack(cls, designs: Sequence[StringDesign]) -> StringDesign:
        """Return the rows of several designs of one `WeightedDegree`, stacked."""
        if len(designs) == 1:
            return designs[0]
        first = designs[0]
        letters = np.concatenate([design.dna.letters for design in designs])
        unknown = np.concatenate([design.dna.unknown for design in designs])
        scale = np.concatenate([design.scale for design in designs])
        dna = PackedDNA(letters, unknown, first.dna.length)
        return StringDesign(
            dna,
            scale,
            first.level,
            first.start,
            buckets=0,
        )

    def kernel(self) -> Array:
        """Return the inner products of all pairs of strings, (n, n).

        They are those without buckets, and computed from the runs of letters that two strings share.
        """
        dna = self.dna
        bits = np.unpackbits(dna.letters, axis=1, bitorder="little")
        pairs = bits.reshape(len(self), -1, 2)
        low = pairs[:, :, 0]
        high = pairs[:, :, 1]
        padded = low + 2 * high
        codes = padded[:, : dna.length]
        if dna.has_unknown:
            codes[dna.is_unknown()] = _UNKNOWN
        codes = np.ascontiguousarray(codes)
        # A run of k shared letters shares one feature of each length up to k.
        squares = self.level**2
        values = np.cumsum(squares)
        return _shared_runs(codes, values, self.scale)

    def tocsr(self) -> sp.csr_array:
        """Return the matrix; k-mers in one bucket are added."""
        rows = self.rows(0.0)
        indptr, columns, values = _all_rows(rows, len(self))
        # scikit-learn's solvers need 32-bit indices.
        n_entries = indptr[-1]
        if n_entries <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        matrix = sp.csr_array((values, columns, indptr), shape=self.shape)
        matrix.sum_duplicates()
        return matrix


@compiled
def _shared_runs(codes: Array, value: Array, scale: Array) -> Array:
    """Return the kernel matrix.

    A position at which k shared letters start adds ``value[k]``, or the last value.
    """
    n, length = codes.shape
    longest = len(value) - 1
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            run = 0
            total = 0.0
            for p in range(length - 1, -1, -1):
                # From the last position back, `run` is the shared letters from p on.
                letter = codes[i, p]
                if letter == codes[j, p] and letter != _UNKNOWN:
                    run = min(run + 1, longest)
                else:
                    run = 0
                total += value[run]
            product = total * scale[i] * scale[j]
            K[i, j] = product
            K[j, i] = product
    return K


@compiled
def _all_rows(rows: Rows, n: int) -> tuple[Array, Array, Array]:
    """Return the arrays of the CSR matrix of n rows: indptr, columns and values.

    Rows are computed twice: a first pass for their sizes takes less memory than lists
    that grow.
    """
    values = rows.values
    columns = rows.columns
    strings = rows.strings
    buckets = rows.buckets

    indptr = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        count = expand(strings, buckets, i, columns, values)
        indptr[i + 1] = indptr[i] + count
    n_entries = indptr[n]
    all_columns = np.empty(n_entries, dtype=np.int32)
    all_values = np.empty(n_entries)
    for i in range(n):
        count = expand(strings, buckets, i, columns, values)
        first = indptr[i]
        for j in range(count):
            all_columns[first + j] = columns[j]
            all_values[first + j] = values[j]
    return indptr, all_columns, all_values


class WeightedDegree(TransformerMixin, BaseEstimator):
    """Weighted-degree features of DNA strings of one length.

    Their inner products are the weighted-degree kernel.

    For each position p and each k = 1..degree with k letters left, an indicator marks
    the k-mer that starts at p. Its value is ``sqrt(beta_k)`` with ``beta_k = 2 (degree
    - k + 1) / (degree (degree + 1))``. Its column is ``offset(p, k) + code``, where the
    code has the letters A C G T = 0 1 2 3 as digits of base 4. Lower-case letters count
    as upper-case ones, and U as T. A k-mer with one of IUPAC's letters for sets of
    bases (R Y S W K M B D H V N) has no feature. Any other letter raises an error.

    ``transform`` returns a CSR matrix, which takes 12 bytes per feature.
    ``GraphSVC(features=WeightedDegree())`` computes the same features when it needs
    them, from a quarter of a byte per letter.

    Parameters
    ----------
    degree : int, default 8
        Longest k-mers, 1..31.
    normalize : bool, default False
        Divide by sqrt(k(x, x)), so that C has the same meaning as for other features.
        Otherwise k(x, x) of a string of 42 letters is 39.67.
    hash_bits : int, optional
        Hash features into ``2^hash_bits`` columns (1..28) with random signs, for
        degrees whose exact index would be too long: it has about ``length * 4^(degree +
        1) / 3`` columns.

    Attributes
    ----------
    length_ : int
        Letters per string.
    n_features_out_ : int
        Columns.

    References
    ----------
    Rätsch and Sonnenburg, Accurate splice site prediction for C. elegans, 2004; on the
    fly: Sonnenburg and Franc, COFFIN: a computational framework for linear SVMs, ICML
    2010.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.features import WeightedDegree
    >>> X = WeightedDegree(degree=2).fit_transform(np.array([b"AAC", b"AAN"]))
    >>> X.shape, (X @ X.T).toarray().round(3).tolist()
    ((2, 44), [[2.667, 1.667], [1.667, 1.667]])
    """

    def __init__(
        self,
        degree: int = 8,
        *,
        normalize: bool = False,
        hash_bits: int | None = None,
    ) -> None:
        self.degree = degree
        self.normalize = normalize
        self.hash_bits = hash_bits

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the length of the strings.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1), bytes or str
        y : ignored

        Raises
        ------
        ValueError
            For a parameter out of range, no strings, or strings of different lengths.
        """
        return self._fit_letters(letters_of(X))

    def _fit_letters(self, letters: Array) -> Self:
        _, length = letters.shape
        start = self._starts(length)
        self.length_ = length
        if self.hash_bits is None:
            self.n_features_out_ = int(start[-1])
        else:
            self.n_features_out_ = 2**self.hash_bits
        return self

    def _starts(self, length: int) -> Array:
        """Return the first feature of each position, and the number of features.

        The first features are zeros if features are hashed.

        Compiled code uses them as indices: they are computed, never read from a file.
        """
        _check_int("degree", self.degree, 1, MAX_DEGREE)
        if self.hash_bits is not None:
            _check_int("hash_bits", self.hash_bits, 1, 28)
            return np.zeros(length + 1, dtype=np.int64)
        # Python integers: 4^32 does not fit into 64 bits.
        sizes = []
        for p in range(length):
            longest = min(self.degree, length - p)
            # The sum of 4^k over k = 1..longest.
            n_kmers = (4 ** (longest + 1) - 4) // 3
            sizes.append(n_kmers)
        n_features = sum(sizes)
        if n_features > _MAX_EXACT:
            raise ValueError(
                f"degree={self.degree} makes {n_features} features for strings of "
                f"{length} letters, more than {_MAX_EXACT}; hash them (hash_bits=22, "
                "say) or lower the degree"
            )
        ends = np.cumsum(sizes)
        return np.concatenate([[0], ends]).astype(np.int64)

    def design(self, X: Any) -> StringDesign:
        """Return the features as a design that makes its rows on the fly.

        Raises
        ------
        ValueError
            For another length than in `fit`, or a letter that is none of IUPAC's (with
            string and position).
        """
        check_is_fitted(self)
        return self._design(letters_of(X))

    def fit_design(self, X: Any) -> StringDesign:
        """Do `fit` and `design` in one pass over X."""
        letters = letters_of(X)
        self._fit_letters(letters)
        return self._design(letters)

    def _design(self, letters: Array) -> StringDesign:
        n_strings, length = letters.shape
        if length != self.length_:
            raise ValueError(
                f"strings of {length} letters, fitted on strings of {self.length_}"
            )
        dna = pack(letters)
        degree = self.degree
        k = np.arange(1, degree + 1)
        n_pairs = degree * (degree + 1)
        beta = 2 * (degree - k + 1) / n_pairs
        level = np.sqrt(np.append(0.0, beta))
        buckets = 0
        if self.hash_bits is not None:
            buckets = 2**self.hash_bits
        scale = np.ones(n_strings)
        if self.normalize:
            # k(x, x) follows from the numbers of k-mers, without any feature.
            kernel = dna.count_runs(degree) @ level[1:] ** 2
            # A string without any known k-mer has no features to scale.
            positive = np.where(kernel > 0, kernel, 1.0)
            scale = 1 / np.sqrt(positive)
        return StringDesign(
            dna,
            scale,
            level,
            start=self._starts(length),
            buckets=buckets,
        )

    def transform(self, X: Any) -> sp.csr_array:
        """Return the features as a CSR array of shape ``(n, n_features_out_)``."""
        return self.design(X).tocsr()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return names such as ``3:GAT``, the k-mer GAT at the third letter.

        Only the exact index has names.
        """
        check_is_fitted(self)
        if self.hash_bits is not None:
            raise ValueError("hashed features have no names")
        names = []
        for p in range(self.length_):
            longest = min(self.degree, self.length_ - p)
            words = [""]
            for _ in range(longest):
                # In the order of the codes: the first letter is the highest digit.
                words = [word + letter for word in words for letter in "ACGT"]
                names += [f"{p + 1}:{word}" for word in words]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


def _check_int(
    name: str,
    value: Any,
    low: int,
    high: int,
) -> None:
    # A boolean is an integer for Python.
    is_bool = isinstance(value, bool)
    is_int = isinstance(value, int | np.integer) and not is_bool
    if not is_int or not low <= value <= high:
        raise ValueError(f"{name} must be an int from {low} to {high}, got {value!r}")
