"""Sequences of letters as sparse 0/1 features: one per position and letter."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

Array = np.ndarray[Any, np.dtype[Any]]


class OneHotStrings(TransformerMixin, BaseEstimator):
    """Turns byte strings of one length into a CSR matrix with a column per position and letter.

    A letter outside the alphabet (N in DNA) makes all columns of its position zero; case does not matter.

    Parameters
    ----------
    alphabet : str, default="ACGT"

    Attributes
    ----------
    length_ : int
        Letters per string.

    Examples
    --------
    >>> import numpy as np
    >>> OneHotStrings("AC").fit_transform(np.array([b"AC", b"cN"])).toarray().astype(int).tolist()
    [[1, 0, 0, 1], [0, 1, 0, 0]]
    """

    def __init__(self, alphabet: str = "ACGT") -> None:
        self.alphabet = alphabet

    def fit(self, X: Array, y: Any = None) -> Self:
        """Learn the length of the strings.

        Parameters
        ----------
        X : ndarray of shape (n,) and dtype S<length>
        y : ignored

        Raises
        ------
        ValueError
            If X holds no byte strings, or the alphabet is empty or repeats a letter.
        """
        letters = str(self.alphabet).upper()
        if not letters or len(set(letters)) < len(letters) or not letters.isascii():
            raise ValueError(f"alphabet must be different ASCII letters, got {self.alphabet!r}")
        self.length_ = _letters(X).shape[1]
        return self

    def transform(self, X: Array) -> sparse.csr_matrix:
        """Return the features, shape (n, length * len(alphabet)).

        Raises
        ------
        ValueError
            If the strings have another length than those of `fit`.
        """
        check_is_fitted(self)
        letters = _letters(X)
        if letters.shape[1] != self.length_:
            raise ValueError(f"strings of {letters.shape[1]} letters, fitted on strings of {self.length_}")
        code = np.full(256, -1)
        for k, letter in enumerate(str(self.alphabet).upper()):
            code[[ord(letter), ord(letter.lower())]] = k
        codes = code[letters]
        rows, positions = np.nonzero(codes >= 0)
        columns = positions * len(self.alphabet) + codes[rows, positions]
        shape = (len(letters), self.length_ * len(self.alphabet))
        return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return names such as ``3=A``, positions counted from 1."""
        check_is_fitted(self)
        letters = str(self.alphabet).upper()
        return np.array([f"{i}={letter}" for i in range(1, self.length_ + 1) for letter in letters], dtype=object)


def _letters(X: Array) -> Array:
    strings = np.asarray(X)
    if strings.dtype.kind != "S" or strings.ndim != 1:
        raise ValueError(f"X must be a 1-D array of byte strings, got {strings.dtype} with {strings.ndim} dimensions")
    return np.ascontiguousarray(strings).view(np.uint8).reshape(len(strings), strings.dtype.itemsize)
