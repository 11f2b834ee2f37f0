"""Boosted trees whose number of rounds is chosen by early stopping inside `fit`.

They are the learner "boosted trees" of ``atlas/pairs``. The same class is fitted to
each task alone, to all tasks with the task as a category, and to all tasks without it,
so that these models differ only by what they share.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

Array = np.ndarray[Any, np.dtype[Any]]

#: Shrinkage of each tree.
LEARNING_RATE = 0.1
#: Largest number of rounds.
MAX_ROUNDS = 300
#: Boosting stops after this number of rounds without a better validation loss.
PATIENCE_ROUNDS = 10
#: Share of the rows whose loss decides when to stop.
VALIDATION_SHARE = 0.2
#: Largest number of leaves of a tree.
MAX_LEAVES = 8
#: Smallest number of rows of a leaf.
MIN_LEAF_ROWS = 5


class _StoppedTrees(BaseEstimator):
    """Common part of the regressor and the classifier.

    The number of rounds has the smallest loss on a fifth of the rows. Then the trees
    are grown again on all rows, so that no row is lost to the choice.
    """

    def __init__(
        self, categorical_features: Any = None, random_state: int | None = 0
    ) -> None:
        self.categorical_features = categorical_features
        self.random_state = random_state

    #: Estimator of scikit-learn that grows the trees.
    _trees: ClassVar[type]

    def predict(self, X: Any) -> Array:
        """Return the predicted targets or labels."""
        return np.asarray(self.model_.predict(np.asarray(X)))

    def _grow(self, X: Any, y: Array) -> None:
        """Choose the number of rounds and grow the trees on all rows."""
        self.n_rounds_ = self._choose_rounds(X, y)
        model = self._boosting(self.n_rounds_, early_stopping=False)
        self.model_ = model.fit(X, y)

    def _choose_rounds(self, X: Any, y: Array) -> int:
        """Return the number of rounds with the smallest loss on validation rows."""
        n_validation = round(VALIDATION_SHARE * len(y))
        order = np.random.default_rng(self.random_state).permutation(len(y))
        validation = order[:n_validation]
        train = order[n_validation:]
        # With fewer rows no tree can split, so all numbers of rounds give the mean.
        if len(train) < 2 * MIN_LEAF_ROWS or len(np.unique(y[train])) == 1:
            return 1
        model = self._boosting(MAX_ROUNDS, early_stopping=True)
        model.fit(X[train], y[train], X_val=X[validation], y_val=y[validation])
        # The first score belongs to the model without trees.
        return max(1, int(np.argmax(model.validation_score_)))

    def _boosting(self, n_rounds: int, early_stopping: bool) -> Any:
        """Return the unfitted estimator of scikit-learn."""
        # Each category needs a bin; numbers need fewer.
        max_bins = 63
        if self.categorical_features is not None:
            max_bins = 255
        return self._trees(
            learning_rate=LEARNING_RATE,
            max_iter=n_rounds,
            max_leaf_nodes=MAX_LEAVES,
            min_samples_leaf=MIN_LEAF_ROWS,
            max_bins=max_bins,
            categorical_features=self.categorical_features,
            early_stopping=early_stopping,
            n_iter_no_change=PATIENCE_ROUNDS,
            tol=0.0,
            random_state=self.random_state,
        )


class StoppedTreesRegressor(RegressorMixin, _StoppedTrees):
    """Boosted regression trees with early stopping.

    Parameters
    ----------
    categorical_features : list of int, optional
        Columns that are categories.
    random_state : int, default 0
        Seed of the choice of the rows that decide when to stop.

    Attributes
    ----------
    n_rounds_ : int
        Number of trees.
    """

    _trees = HistGradientBoostingRegressor

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the number of rounds and grow the trees."""
        self._grow(np.asarray(X), np.asarray(y, dtype=np.float64))
        return self


class StoppedTreesClassifier(ClassifierMixin, _StoppedTrees):
    """Boosted classification trees with early stopping, for two labels.

    Parameters
    ----------
    categorical_features : list of int, optional
        Columns that are categories.
    random_state : int, default 0
        Seed of the choice of the rows that decide when to stop.

    Attributes
    ----------
    n_rounds_ : int
        Number of trees.
    classes_ : ndarray
    """

    _trees = HistGradientBoostingClassifier

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the number of rounds and grow the trees."""
        y = np.asarray(y)
        self.classes_ = np.unique(y)
        self._grow(np.asarray(X), y)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of the second label."""
        return np.asarray(self.model_.decision_function(np.asarray(X)))


class WithoutTask(BaseEstimator):
    """Any estimator of scikit-learn on the rows of all tasks, which never sees the
    task.

    Parameters
    ----------
    estimator : regressor, or classifier of two labels
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, *, task_id: Any = None) -> Self:
        """Fit the estimator to all rows; `task_id` is not used."""
        estimator = clone(self.estimator)
        if isinstance(estimator, ClassifierMixin) and len(np.unique(y)) == 1:
            estimator = DummyClassifier()
        self.estimator_ = estimator.fit(X, y)
        return self

    def predict(self, X: Any, *, task_id: Any = None) -> Array:
        """Return the predictions, or log odds of a classifier; `task_id` is not
        used.
        """
        if hasattr(self.estimator_, "decision_function"):
            return np.asarray(self.estimator_.decision_function(X))
        return np.asarray(self.estimator_.predict(X))
