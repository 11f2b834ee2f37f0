"""Columns of a user's table as features.

Missing values are filled, numbers standardized, and words one-hot encoded.
"""

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

from mtlrun.data.dataset import Dataset
from mtlrun.data.roles.weights import weighted_median
from mtlrun.problem.taskdata import Array, as_weights

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

#: Decorator: scikit-learn's transformers return arrays, whatever the global settings
#: are.
as_arrays: Callable[[Decorated], Decorated] = config_context(
    transform_output="default",
)

#: Maximum number of columns of a column of words; rarer words share one.
MAX_CATEGORIES = 50


class TableFeatures(  # type: ignore[call-arg]
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # always arrays, whatever is set globally
):
    """Learns from training rows how columns become features.

    Numbers: a missing value becomes the median of its column, and a 0/1 column says
    where it was missing; then mean 0 and variance 1. Words, given by their numbers: one
    0/1 column per word that occurs, the rarest ones sharing one beyond 50; a missing
    cell is a word of its own, a new word is all zeros. Numbers of a sparse X are
    divided by the largest absolute value of their column. All by scikit-learn
    (SimpleImputer, StandardScaler, OneHotEncoder, MaxAbsScaler).

    Parameters
    ----------
    words : mapping of int to list of str, default none
        Columns that hold words, and the words.
    n_levels : int, default 0
        So many last columns hold groups, given by their numbers, or a time. They are
        passed on as they are, after all features; a missing cell is -1.

    Attributes
    ----------
    transformer_ : fitted ColumnTransformer or MaxAbsScaler
    encoder_ : fitted OneHotEncoder
        Only for a sparse X with words.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [3.0, 1.0]])
    >>> TableFeatures({1: ["a", "b"]}).fit_transform(X).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        words: Mapping[int, Sequence[str]] | None = None,
        *,
        n_levels: int = 0,
    ) -> None:
        self.words = words
        self.n_levels = n_levels

    @as_arrays
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn medians, scales and the words that occur.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            NaN where a cell is missing; only stored entries of a sparse matrix count.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight k counts as k rows in medians, means, variances and in how
            rare a word is; a row of weight 0 does not count at all.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If weights are negative, not finite or all 0.
        """
        self.n_features_in_ = X.shape[1]
        if sample_weight is not None:
            weights = as_weights(sample_weight, [(X.shape[0],)], "sample_weight")
            positive = weights > 0
            if not positive.any():
                raise ValueError("sample_weight is zero everywhere: no row counts")
            if not positive.all():
                kept = np.flatnonzero(positive)
                X = X[kept]
                weights = weights[positive]
            self._fit_rows(X)
            self._reweight(X, weights)
            return self
        return self._fit_rows(X)

    def _fit_rows(self, X: Any) -> Self:
        """Learn from rows that count equally."""
        n_columns = X.shape[1] - self.n_levels
        X = X[:, :n_columns]
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
                codes = X[:, words].toarray()
                self.encoder_ = encode.fit(codes)
            return self
        fill = SimpleImputer(
            strategy="median",
            add_indicator=True,
            keep_empty_features=True,
        )
        is_gap = np.isnan(X[:, numbers])
        if is_gap.any():
            scale = make_pipeline(fill, StandardScaler())
        else:
            scale = StandardScaler()
        steps: list[tuple[str, Any, list[int]]] = []
        if numbers:
            steps.append(("numbers", scale, numbers))
        if words:
            steps.append(("words", encode, words))
        columns = ColumnTransformer(steps, verbose_feature_names_out=False)
        self.transformer_ = columns.set_output(transform="default").fit(X)
        return self

    def _reweight(self, X: Any, weights: Array) -> None:
        """Replace what was learned from equal rows by what weighted ones say.

        The largest absolute values of a sparse X do not depend on positive weights.
        """
        words, numbers = self._columns()
        if sparse.issparse(X):
            if words:
                codes = X.tocsc()[:, words].toarray()
                rows = _by_rank(codes, weights)
                self.encoder_.fit(rows)
            return
        steps = self.transformer_.named_transformers_
        if words:
            rows = _by_rank(X[:, words], weights)
            steps["words"].fit(rows)
        if not numbers:
            return
        values = X[:, numbers]
        scaler = steps["numbers"]
        if not isinstance(scaler, StandardScaler):
            imputer, scaler = (step for _, step in scaler.steps)
            medians = [weighted_median(column, weights) for column in values.T]
            # A column without any value is filled with zeros, as by SimpleImputer.
            imputer.statistics_ = np.nan_to_num(np.array(medians))
            values = imputer.transform(values)
        # Relative weights: weights too large for sums count as well. Rounding
        # makes the weighted variance of a constant column slightly negative;
        # StandardScaler takes its root before it replaces the scale by 1.
        relative_weights = weights / weights.max()
        with np.errstate(invalid="ignore"):
            scaler.fit(values, sample_weight=relative_weights)

    @as_arrays
    def transform(self, X: Any) -> Any:
        """Return the features in the layout (dense or CSR) of the training rows."""
        check_is_fitted(self)
        if not self.n_levels:
            return self._features(X)
        n_columns = X.shape[1] - self.n_levels
        features = self._features(X[:, :n_columns])
        codes = X[:, n_columns:]
        if sparse.issparse(codes):
            codes = codes.toarray()
        codes = np.where(np.isnan(codes), -1.0, codes)
        if sparse.issparse(features):
            return sparse.hstack([features, codes], format="csr")
        return np.column_stack([features, codes])

    def _features(self, X: Any) -> Any:
        """Return the features of rows without columns of groups."""
        if not isinstance(self.transformer_, MaxAbsScaler):
            if sparse.issparse(X):
                X = X.toarray()
            scaler = self.transformer_.named_transformers_.get("numbers")
            if isinstance(scaler, StandardScaler) and np.isnan(X).any():
                # Columns without gaps in training: new gaps get the mean, which is zero
                # after scaling.
                _, _, columns = self.transformer_.transformers_[0]
                values = X[:, columns]
                filled = np.where(np.isnan(values), scaler.mean_, values)
                X = X.copy()
                X[:, columns] = filled
            features = self.transformer_.transform(X)
            return np.asarray(features, dtype=np.float64)
        words, numbers = self._columns()
        X = sparse.csc_matrix(X)
        if not words:
            return self.transformer_.transform(X).tocsr()
        parts = []
        if numbers:
            scaled = self.transformer_.transform(X[:, numbers])
            parts.append(scaled)
        codes = X[:, words].toarray()
        parts.append(self.encoder_.transform(codes))
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
                imputer = step[0]
                with_gaps = imputer.indicator_.features_
                complete += np.delete(columns, with_gaps).tolist()
            elif kind == "words":
                # A gap in a column of words is a category.
                for j, codes in zip(columns, step.categories_, strict=True):
                    if not np.isnan(codes).any():
                        complete.append(j)
        n_columns = self.n_features_in_ - self.n_levels
        levels = range(n_columns, self.n_features_in_)
        return [*sorted(complete), *levels]

    def original_values(self, column: int, features: Array) -> Array:
        """Return values of a column of numbers from values of its feature.

        Parameters
        ----------
        column : int
            Position among the columns of the table.
        features : ndarray of shape (n_values,)
            Values of the feature that the column became.

        Returns
        -------
        ndarray of shape (n_values,)
            In the units of the column.
        """
        check_is_fitted(self)
        _, numbers = self._columns()
        scaler = self.transformer_
        if not isinstance(scaler, MaxAbsScaler):
            scaler = scaler.named_transformers_["numbers"]
        if not isinstance(scaler, StandardScaler | MaxAbsScaler):
            # After the imputer, whose indicators follow the numbers.
            scaler = scaler[-1]
        position = numbers.index(column)
        values = features * scaler.scale_[position]
        if isinstance(scaler, StandardScaler):
            values = values + scaler.mean_[position]
        return np.asarray(values)

    def _columns(self) -> tuple[list[int], list[int]]:
        """Return the columns of words and the columns of numbers."""
        words = sorted(int(j) for j in self.words or {})
        n_columns = self.n_features_in_ - self.n_levels
        numbers = np.setdiff1d(np.arange(n_columns), words)
        return words, numbers.tolist()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features.

        They are ``color=red`` for words, and ``age is missing`` for gaps.
        """
        check_is_fitted(self)
        if input_features is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        else:
            names = list(input_features)
        levels = names[len(names) - self.n_levels :]
        names_out: list[str] = []
        if isinstance(self.transformer_, MaxAbsScaler):
            words, numbers = self._columns()
            names_out = [names[j] for j in numbers]
            if words:
                word_columns = [names[j] for j in words]
                names_out += self._word_names(self.encoder_, word_columns, words)
            return np.asarray([*names_out, *levels], dtype=object)
        for kind, step, columns in self.transformer_.transformers_:
            column_names = [names[j] for j in columns]
            if kind == "numbers":
                names_out += column_names
                if not isinstance(step, StandardScaler):
                    # Indicators of gaps follow the numbers.
                    imputer = step[0]
                    gaps = imputer.indicator_.features_
                    names_out += [f"{column_names[j]} is missing" for j in gaps]
            elif kind == "words":
                names_out += self._word_names(step, column_names, columns)
        return np.asarray([*names_out, *levels], dtype=object)

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Fit, and return the features of the same rows."""
        self.fit(X, y, sample_weight)
        return self.transform(X)

    def _word_names(
        self,
        encoder: OneHotEncoder,
        names: list[str],
        columns: Sequence[int],
    ) -> list[str]:
        names_out = []
        words_of = self.words or {}
        table = {int(j): list(words) for j, words in words_of.items()}
        no_rare_words = [None] * len(names)
        rare = getattr(encoder, "infrequent_categories_", no_rare_words)
        for name, column, codes, few in zip(
            names,
            columns,
            encoder.categories_,
            rare,
            strict=True,
        ):
            kept = codes
            if few is not None:
                is_rare = np.isin(codes, few)
                kept = codes[~is_rare]
            words = table[int(column)]
            for code in kept:
                word = "missing" if np.isnan(code) else words[int(code)]
                names_out.append(f"{name}={word}")
            # The encoder puts the column of rare words last.
            if few is not None:
                names_out.append(f"{name}=rare")
        return names_out


def table_step(data: Dataset) -> TableFeatures:
    """Return the step of a table, not fitted.

    Columns of further groups, and the time that some baselines need, come last.
    """
    words = {
        data.features.index(name): words
        for name, words in data.categories.items()
        if name not in data.levels
    }
    last_columns = set(data.levels)
    if data.clock is not None:
        last_columns.add(data.clock.last_column)
    n_levels = sum(name in last_columns for name in data.features)
    return TableFeatures(words, n_levels=n_levels)


def _by_rank(codes: Array, weights: Array) -> Array:
    """Return rows in which frequent words of each column occur twice, rare ones once.

    `OneHotEncoder` takes no weights: it counts rows to decide which words share a
    column. To make it count weights, it gets each word that keeps a separate column
    twice, and the other words once. More rows of the most frequent word make all
    columns equally long.
    """
    relative_weights = weights / weights.max()
    columns = []
    fillers = []
    for column in codes.T:
        # A missing cell is a separate word, which sorts last.
        words, places = np.unique(column, return_inverse=True)
        totals = np.bincount(places.reshape(-1), relative_weights)
        # Words that are as frequent must not differ by rounding. Of these the last
        # ones keep their columns, as in OneHotEncoder.
        frequencies = np.round(totals / totals.max(), 12)
        order = np.argsort(frequencies, kind="stable")
        if len(words) <= MAX_CATEGORIES:
            frequent = order
        else:
            frequent = order[1 - MAX_CATEGORIES :]
        columns.append(np.concatenate([words, words[frequent]]))
        most_frequent = order[-1]
        fillers.append(words[most_frequent])
    length = max(len(column) for column in columns)
    filled = []
    for column, filler in zip(columns, fillers, strict=True):
        n_missing = length - len(column)
        rest = np.full(n_missing, filler)
        filled.append(np.concatenate([column, rest]))
    return np.column_stack(filled)
