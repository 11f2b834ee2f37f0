"""DNA strings as features: packed with two bits per letter; weighted-degree features, stored or made on the fly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mtlrun.data.formats.sequences import BASES, IUPAC
from mtlrun.features.rows import STRINGS, Rows, empty_rows, expand, multiply, storage
from mtlrun.utils.jit import compiled

Array = np.ndarray[Any, np.dtype[Any]]

_UNKNOWN = 4
_WRONG = 5
_CHUNK = 1 << 16


def _letter_codes() -> Array:
    codes = np.full(256, _WRONG, dtype=np.uint8)
    for group, code in (
        (IUPAC, _UNKNOWN),
        (b"U", 3),
        *((BASES[k : k + 1], k) for k in range(4)),
    ):
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
        is_known = self.unknown.shape[0] == 0
        return PackedDNA(
            self.letters[rows],
            self.unknown if is_known else self.unknown[rows],
            self.length,
        )

    def count_runs(self, degree: int) -> Array:
        """Return, for every string and k = 1..degree, how many k-mers have known letters only: (n, degree)."""
        if self.unknown.shape[0] == 0:
            counts = np.maximum(self.length - np.arange(degree), 0)
            return np.broadcast_to(counts, (len(self), degree))
        known_bases = (
            np.unpackbits(self.unknown, axis=1, count=self.length, bitorder="little")
            == 0
        )
        counts = np.zeros((len(self), degree))
        run = known_bases
        for k in range(min(degree, self.length)):
            run = known_bases if k == 0 else run[:, :-1] & known_bases[:, k:]
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
            f"X must be a one-dimensional array of strings, got dtype {strings.dtype} and shape {strings.shape}"
        )
    if not len(strings):
        raise ValueError("X has no strings")
    if strings.dtype.kind != "S":
        strings = np.array(
            [_ascii(i, value) for i, value in enumerate(strings.tolist())]
        )
    lengths = np.char.str_len(strings)
    if lengths.max() == 0:
        raise ValueError("X has only empty strings")
    if np.any(lengths != lengths[0]):
        i = int(np.argmax(lengths != lengths[0]))
        raise ValueError(
            f"strings of unequal length: string {i} has {lengths[i]} letters, string 0 has {lengths[0]}"
        )
    return (
        np.ascontiguousarray(strings)
        .view(np.uint8)
        .reshape(len(strings), -1)[:, : lengths[0]]
    )


def _ascii(i: int, value: Any) -> bytes:
    if not isinstance(value, str | bytes):
        raise ValueError(f"X must hold strings, but string {i} is {value!r}")
    if isinstance(value, str):
        return value.encode("ascii", "replace")
    return value


def pack(letters: Array) -> PackedDNA:
    """Pack an array of letters (n, length), in pieces of bounded size.

    Raises
    ------
    ValueError
        With string and position (counted from 1) of the first letter that is none of
        IUPAC's for DNA.
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
        packed[begin : begin + _CHUNK] = (
            quads << np.array([0, 2, 4, 6], dtype=np.uint8)
        ).sum(axis=2, dtype=np.uint8)
    return PackedDNA(
        packed, unknown if unknown.any() else np.empty((0, 0), dtype=np.uint8), length
    )


#: The code of a k-mer has two bits per letter and must fit into 62 of them.
MAX_DEGREE = 31
_MAX_EXACT = np.iinfo(np.int32).max


class StringDesign:
    """A design matrix of weighted-degree features that is never stored: rows are made from packed DNA when needed.

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

    def __init__(
        self, dna: PackedDNA, scale: Array, level: Array, start: Array, buckets: int
    ) -> None:
        self.dna = dna
        self.scale = scale
        self.level = level
        self.start = start
        self.buckets = buckets

    @property
    def shape(self) -> tuple[int, int]:
        """Strings and features."""
        return len(self.scale), self.buckets or int(self.start[-1])

    def __len__(self) -> int:
        return len(self.scale)

    def __getitem__(self, rows: Any) -> StringDesign:
        return StringDesign(
            self.dna[rows], self.scale[rows], self.level, self.start, self.buckets
        )

    def __matmul__(self, W: Array) -> Array:
        """Return the products with a vector (d,) or a matrix (d, k).

        Raises
        ------
        ValueError
            If there are not as many coefficients as features.
        """
        if len(W) != self.shape[1]:
            raise ValueError(f"{len(W)} coefficients for {self.shape[1]} features")
        rows = self.rows(0.0)
        out = np.empty((W.shape[1] if W.ndim == 2 else 1, len(self)))
        for column, w in zip(out, W.T if W.ndim == 2 else W[np.newaxis], strict=True):
            multiply(
                rows, np.require(w[np.newaxis], np.float64, ["C", "A", "W"]), column
            )
        if W.ndim == 2:
            return out.T
        return out[0]

    def rows(self, bias: float) -> Rows:
        """Return the arrays for compiled code (see `mtlrun.features.rows`)."""
        return empty_rows(STRINGS, bias)._replace(
            letters=self.dna.letters,
            unknown=self.dna.unknown,
            scale=self.scale,
            level=self.level,
            start=self.start,
            buckets=self.buckets,
        )

    @classmethod
    def stack(cls, designs: Sequence[StringDesign]) -> StringDesign:
        """Return the rows of several designs of one `WeightedDegree` below each other."""
        if len(designs) == 1:
            return designs[0]
        first = designs[0]
        letters = np.concatenate([design.dna.letters for design in designs])
        unknown = np.concatenate([design.dna.unknown for design in designs])
        scale = np.concatenate([design.scale for design in designs])
        return StringDesign(
            PackedDNA(letters, unknown, first.dna.length),
            scale,
            first.level,
            first.start,
            0,
        )

    @property
    def has_kernel(self) -> bool:
        """Whether `kernel` can be taken: k-mers that share a bucket have other inner products."""
        return self.buckets == 0

    def kernel(self) -> Array:
        """Return the inner products of all pairs of strings from the runs of letters that they share: (n, n)."""
        letters = np.unpackbits(self.dna.letters, axis=1, bitorder="little").reshape(
            len(self), -1, 2
        )
        codes = (letters[:, :, 0] + 2 * letters[:, :, 1])[:, : self.dna.length]
        if self.dna.unknown.shape[0]:
            unknown = np.unpackbits(
                self.dna.unknown, axis=1, count=self.dna.length, bitorder="little"
            )
            codes[unknown == 1] = _UNKNOWN
        return _shared_runs(
            np.ascontiguousarray(codes), np.cumsum(self.level**2), self.scale
        )

    def tocsr(self) -> sp.csr_array:
        """Return the matrix; k-mers in one bucket are added."""
        indptr, columns, values = _all_rows(self.rows(0.0))
        if indptr[-1] <= np.iinfo(np.int32).max:  # scikit-learn takes no 64-bit indices
            indptr = indptr.astype(np.int32)
        matrix = sp.csr_array((values, columns, indptr), shape=self.shape)
        matrix.sum_duplicates()
        return matrix


@compiled
def _shared_runs(codes: Array, value: Array, scale: Array) -> Array:
    """Return the kernel matrix; a position that begins k shared letters is worth ``value[k]``, at most the last."""
    n, length = codes.shape
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            run = 0
            total = 0.0
            for p in range(length - 1, -1, -1):
                same = codes[i, p] == codes[j, p] and codes[i, p] != _UNKNOWN
                run = min(run + 1, len(value) - 1) if same else 0
                total += value[run]
            K[i, j] = K[j, i] = total * scale[i] * scale[j]
    return K


@compiled
def _all_rows(rows: Rows) -> tuple[Array, Array, Array]:
    _, _, _, _, _, _, letters, unknown, scale, level, start, buckets = rows
    columns, values = storage(rows)
    n = len(scale)
    indptr = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        indptr[i + 1] = indptr[i] + expand(
            letters, unknown, scale, level, start, buckets, i, columns, values
        )
    all_columns = np.empty(indptr[n], dtype=np.int32)
    all_values = np.empty(indptr[n])
    for i in range(n):
        count = expand(
            letters, unknown, scale, level, start, buckets, i, columns, values
        )
        for j in range(count):
            all_columns[indptr[i] + j] = columns[j]
            all_values[indptr[i] + j] = values[j]
    return indptr, all_columns, all_values


class WeightedDegree(TransformerMixin, BaseEstimator):
    """Weighted-degree features of DNA strings of one length, whose inner products are the weighted-degree kernel.

    For every position p and k = 1..degree with room for k letters there is an indicator
    of the k-mer that starts at p, with the value ``sqrt(beta_k)``, ``beta_k = 2 (degree
    - k + 1) / (degree (degree + 1))``. Its column is ``offset(p, k) + code``; the code
    has the letters A C G T = 0 1 2 3 as digits of base 4. Small letters count as
    capitals and U as T. A k-mer with one of IUPAC's letters for sets of bases (R Y S W
    K M B D H V N) has no feature; any other letter is refused.

    ``transform`` gives a CSR matrix, 12 bytes per feature.
    ``GraphSVC(features=WeightedDegree())`` makes the same features on the fly from a
    quarter of a byte per letter instead.

    Parameters
    ----------
    degree : int, default 8
        Longest k-mers, 1..31.
    normalize : bool, default False
        Divide by sqrt(k(x, x)), so that C means the same as for other features; else
        k(x, x) of a string of 42 letters is 39.67.
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
        self, degree: int = 8, *, normalize: bool = False, hash_bits: int | None = None
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
        start = self._starts(letters.shape[1])
        self.length_ = letters.shape[1]
        if self.hash_bits is None:
            self.n_features_out_ = int(start[-1])
        else:
            self.n_features_out_ = 2**self.hash_bits
        return self

    def _starts(self, length: int) -> Array:
        """Return the first feature of each position, and the number of features (zeros if hashed).

        Compiled code uses them as indices: they are computed, never read from a file.
        """
        _check_int("degree", self.degree, 1, MAX_DEGREE)
        if self.hash_bits is not None:
            _check_int("hash_bits", self.hash_bits, 1, 28)
            return np.zeros(length + 1, dtype=np.int64)
        # Python integers: 4^32 does not fit into 64 bits.
        sizes = [
            (4 ** (min(self.degree, length - p) + 1) - 4) // 3 for p in range(length)
        ]
        if sum(sizes) > _MAX_EXACT:
            raise ValueError(
                f"degree={self.degree} makes {sum(sizes)} features for strings of {length} letters, more than "
                f"{_MAX_EXACT}; hash them (hash_bits=22, say) or lower the degree"
            )
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

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
        return self._fit_letters(letters)._design(letters)

    def _design(self, letters: Array) -> StringDesign:
        if letters.shape[1] != self.length_:
            raise ValueError(
                f"strings of {letters.shape[1]} letters, fitted on strings of {self.length_}"
            )
        dna = pack(letters)
        k = np.arange(1, self.degree + 1)
        level = np.sqrt(
            np.append(
                0.0, 2 * (self.degree - k + 1) / (self.degree * (self.degree + 1))
            )
        )
        buckets = 0 if self.hash_bits is None else 2**self.hash_bits
        scale = np.ones(len(letters))
        design = StringDesign(dna, scale, level, self._starts(self.length_), buckets)
        if self.normalize:
            kernel = dna.count_runs(self.degree) @ level[1:] ** 2
            design.scale = 1 / np.sqrt(np.where(kernel > 0, kernel, 1.0))
        return design

    def transform(self, X: Any) -> sp.csr_array:
        """Return the features as a CSR array of shape ``(n, n_features_out_)``."""
        return self.design(X).tocsr()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return names such as ``3:GAT``, the k-mer GAT at the third letter; only for the exact index."""
        check_is_fitted(self)
        if self.hash_bits is not None:
            raise ValueError("hashed features have no names")
        names = []
        for p in range(self.length_):
            words = [""]
            for _ in range(min(self.degree, self.length_ - p)):
                words = [word + letter for word in words for letter in "ACGT"]
                names += [f"{p + 1}:{word}" for word in words]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


def _check_int(name: str, value: Any, low: int, high: int) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or not low <= value <= high
    ):
        raise ValueError(f"{name} must be an int from {low} to {high}, got {value!r}")
