"""Columns of a user's table as features: missing values filled, numbers standardised, words one-hot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

#: Decorator: scikit-learn's transformers return arrays, whatever the global settings are.
as_arrays: Callable[[Decorated], Decorated] = config_context(transform_output="default")

#: A column of words becomes at most so many columns; rarer words share one.
MAX_CATEGORIES = 50


class TableFeatures(  # type: ignore[call-arg]
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # always arrays, whatever is set globally
):
    """Learns from training rows how columns become features.

    Numbers: a missing value becomes the median of its column, and a 0/1 column says where it was missing; then mean 0
    and variance 1. Words, given by their numbers: one 0/1 column per word that occurs, the rarest ones sharing one
    beyond 50; a missing cell is a word of its own, a new word is all zeros. Numbers of a sparse X are divided by the
    largest absolute value of their column. All by scikit-learn (SimpleImputer, StandardScaler, OneHotEncoder,
    MaxAbsScaler).

    Parameters
    ----------
    words : mapping of int to list of str, default none
        Columns that hold words, and the words.

    Attributes
    ----------
    transformer_ : fitted ColumnTransformer or MaxAbsScaler
    encoder_ : fitted OneHotEncoder
        Only for a sparse X with words.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> TableFeatures({1: ["a", "b"]}).fit_transform(np.array([[1.0, 0.0], [3.0, 1.0]])).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def __init__(self, words: Mapping[int, Sequence[str]] | None = None) -> None:
        self.words = words

    @as_arrays
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn medians, scales and the words that occur.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            NaN where a cell is missing; only stored entries of a sparse matrix count.

        Returns
        -------
        self
        """
        self.n_features_in_ = X.shape[1]
        words, numbers = self._columns()
        # Arrays, whatever sklearn.set_config(transform_output=...) says.
        encode = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=MAX_CATEGORIES,
            sparse_output=sparse.issparse(X),
            dtype=np.float64,
        ).set_output(transform="default")
        if sparse.issparse(X):
            X = X.tocsc()
            self.transformer_ = MaxAbsScaler().set_output(transform="default")
            if numbers:
                self.transformer_.fit(X[:, numbers])
            if words:
                self.encoder_ = encode.fit(X[:, words].toarray())
            return self
        fill = SimpleImputer(
            strategy="median", add_indicator=True, keep_empty_features=True
        )
        with_gaps = bool(np.isnan(X[:, numbers]).any())
        scale = make_pipeline(fill, StandardScaler()) if with_gaps else StandardScaler()
        steps = [
            step
            for step in (("numbers", scale, numbers), ("words", encode, words))
            if step[-1]
        ]
        columns = ColumnTransformer(steps, verbose_feature_names_out=False)
        self.transformer_ = columns.set_output(transform="default").fit(X)
        return self

    @as_arrays
    def transform(self, X: Any) -> Any:
        """Return the features, dense or CSR as those of the training rows."""
        check_is_fitted(self)
        if not isinstance(self.transformer_, MaxAbsScaler):
            X = X.toarray() if sparse.issparse(X) else X
            return np.asarray(
                self.transformer_.transform(self._filled(X)), dtype=np.float64
            )
        words, numbers = self._columns()
        X = sparse.csc_matrix(X)
        if not words:
            return self.transformer_.transform(X).tocsr()
        parts = [self.encoder_.transform(X[:, words].toarray())]
        if numbers:
            parts.insert(0, self.transformer_.transform(X[:, numbers]))
        return sparse.hstack(parts, format="csr")

    def complete_columns(self) -> list[int]:
        """Return the columns in which no training row lacked a value."""
        check_is_fitted(self)
        if isinstance(self.transformer_, MaxAbsScaler):  # sparse rows have no gaps
            return []
        complete: list[int] = []
        for kind, step, columns in self.transformer_.transformers_:
            if kind == "numbers" and isinstance(step, StandardScaler):
                complete += columns
            elif kind == "numbers":
                with_gaps = step[0].indicator_.features_
                complete += np.delete(columns, with_gaps).tolist()
            elif kind == "words":
                pairs = zip(columns, step.categories_, strict=True)
                complete += [j for j, codes in pairs if not np.isnan(codes).any()]
        return sorted(complete)

    def _columns(self) -> tuple[list[int], list[int]]:
        """Return the columns of words and those of numbers."""
        words = sorted(int(j) for j in self.words or {})
        return words, np.setdiff1d(np.arange(self.n_features_in_), words).tolist()

    def _filled(self, X: Any) -> Any:
        """Fill gaps of new rows in columns that had none in training: their mean, which is zero after scaling."""
        scaler = self.transformer_.named_transformers_.get("numbers")
        if not isinstance(scaler, StandardScaler) or not np.isnan(X).any():
            return X
        columns = self.transformer_.transformers_[0][2]
        X = X.copy()
        X[:, columns] = np.where(np.isnan(X[:, columns]), scaler.mean_, X[:, columns])
        return X

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features; ``color=red`` for words, ``age is missing`` for gaps."""
        check_is_fitted(self)
        names = (
            [f"x{j}" for j in range(self.n_features_in_)]
            if input_features is None
            else list(input_features)
        )
        found: list[str] = []
        if isinstance(self.transformer_, MaxAbsScaler):
            words, numbers = self._columns()
            found = [names[j] for j in numbers]
            if words:
                found += self._word_names(
                    self.encoder_, [names[j] for j in words], words
                )
            return np.asarray(found, dtype=object)
        for kind, step, columns in self.transformer_.transformers_:
            if kind == "numbers":
                found += [names[j] for j in columns]
                if not isinstance(step, StandardScaler):
                    gaps = step[0].indicator_.features_
                    found += [f"{names[columns[j]]} is missing" for j in gaps]
            elif kind == "words":
                found += self._word_names(step, [names[j] for j in columns], columns)
        return np.asarray(found, dtype=object)

    def _word_names(
        self, encoder: OneHotEncoder, names: list[str], columns: Sequence[int]
    ) -> list[str]:
        found = []
        table = {int(j): list(words) for j, words in (self.words or {}).items()}
        rare = getattr(encoder, "infrequent_categories_", [None] * len(names))
        for name, column, codes, few in zip(
            names, columns, encoder.categories_, rare, strict=True
        ):
            kept = codes if few is None else codes[~np.isin(codes, few)]
            found += [
                f"{name}={'missing' if np.isnan(code) else table[int(column)][int(code)]}"
                for code in kept
            ]
            found += [f"{name}=rare"] if few is not None else []
        return found
