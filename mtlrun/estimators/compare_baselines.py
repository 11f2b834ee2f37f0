"""Models without multi-task learning that `mtlrun compare` tries, under the names that
they have in its leaderboards. A plus in such a name is left out here.

`mtlrun.comparison.candidates` builds them with the parameters of a comparison, which
depend on the size of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sklearn import kernel_ridge
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge

from mtlrun.estimators.baselines import LastValue, PerTask, TaskFeature, TaskMean
from mtlrun.estimators.tuned import TunedKernelRidge, TunedLogistic, TunedRidge

#: Parameters of boosted trees, whose number of leaves is searched. With 20 rows in a
#: leaf, the default of scikit-learn, tasks of fewer than 40 rows would have no split.
BOOSTING: dict[str, Any] = {
    "max_iter": 40,
    "learning_rate": 0.15,
    "min_samples_leaf": 5,
}
#: All parameters of boosted trees that do not depend on the table.
TREES: dict[str, Any] = {
    **BOOSTING,
    "max_bins": 63,
    "early_stopping": False,
    "random_state": 0,
}
#: Parameters of boosted trees whose first feature is the task.
TASK_CATEGORY: dict[str, Any] = {"categorical_features": [0], "max_bins": 255}
#: Histogram trees take at most this many tasks as categories. With more tasks, the
#: position of the task is a number.
MAX_CATEGORIES = 255
N_TREES = 100
#: Rows that a leaf of a forest has at least.
MIN_LEAF_ROWS = 3
#: Parameters of forests.
FOREST: dict[str, Any] = {
    "n_estimators": N_TREES,
    "min_samples_leaf": MIN_LEAF_ROWS,
    "random_state": 0,
}
#: Share of the features that a split of a forest looks at, for targets that are numbers.
FOREST_FEATURES = 0.33
#: Greatest number of iterations of scikit-learn's logistic regression.
LOGISTIC_ITERATIONS = 300

TaskType = Literal["regression", "binary"]


def _boosted_trees(task_type: str, params: dict[str, Any]) -> Any:
    """Return boosted trees for numbers or for labels."""
    if task_type == "binary":
        return HistGradientBoostingClassifier(**params)
    if task_type == "regression":
        return HistGradientBoostingRegressor(**params)
    raise ValueError(f"task_type must be 'regression' or 'binary', not {task_type!r}")


class IndependentRidgeCV(PerTask):
    """Ridge regression, separate per task, each task with a strength of its own.

    Strengths are chosen by leave-one-out cross-validation inside `fit`, see
    `mtlrun.estimators.TunedRidge`.

    Parameters
    ----------
    alphas : sequence of float
        Strengths to choose from.
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict the mean of all tasks.

    Examples
    --------
    >>> from mtlrun.estimators import IndependentRidgeCV
    >>> X = [[0.0], [1.0], [2.0], [0.0], [1.0], [2.0]]
    >>> y = [0.0, 1.0, 2.0, 0.0, -1.0, -2.0]
    >>> model = IndependentRidgeCV(alphas=[1e-9]).fit(X, y, task_id=[0, 0, 0, 1, 1, 1])
    >>> model.coef_.ravel().round(3).tolist()
    [1.0, -1.0]
    """

    def __init__(
        self, alphas: Sequence[float] = (0.1, 1.0, 10.0), *, unseen: str = "error"
    ) -> None:
        self.alphas = alphas
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of a task."""
        return TunedRidge(self.alphas)


class IndependentLogisticCV(PerTask):
    """Logistic regression, separate per task, each task with a strength of its own.

    Strengths are chosen by cross-validation inside `fit`, see
    `mtlrun.estimators.TunedLogistic`.

    Parameters
    ----------
    alphas : sequence of float
        Strengths to choose from: scikit-learn's ``1 / C``.
    folds : int, default 3
    tol : float, default 1e-3
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict the mean of all tasks.
    """

    def __init__(
        self,
        alphas: Sequence[float] = (0.1, 1.0, 10.0),
        *,
        folds: int = 3,
        tol: float = 1e-3,
        unseen: str = "error",
    ) -> None:
        self.alphas = alphas
        self.folds = folds
        self.tol = tol
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of a task."""
        return TunedLogistic(self.alphas, folds=self.folds, tol=self.tol)


class IndependentKernelRidge(PerTask):
    """Kernel ridge regression with a Gaussian kernel, separate per task.

    Strength and width are chosen by leave-one-out cross-validation inside `fit`, see
    `mtlrun.estimators.TunedKernelRidge`. Labels -1 and +1 are numbers here.

    Parameters
    ----------
    alphas, widths : sequence of float
        Strengths, and widths of the kernel, to choose from.
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict the mean of all tasks.
    """

    def __init__(
        self,
        alphas: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        widths: Sequence[float] = (0.5, 1.0, 2.0),
        *,
        unseen: str = "error",
    ) -> None:
        self.alphas = alphas
        self.widths = widths
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of a task."""
        return TunedKernelRidge(self.alphas, self.widths)


class IndependentGradientBoosting(PerTask):
    """Gradient boosted trees, separate per task, by scikit-learn's histograms.

    Parameters
    ----------
    max_leaf_nodes : int, default 8
        Number of leaves of a tree.
    max_features : float, default 1.0
        Share of the features that a split looks at.
    task_type : {"regression", "binary"}, default "regression"
        Whether targets are numbers or labels.
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict the mean of all tasks.
    """

    def __init__(
        self,
        max_leaf_nodes: int = 8,
        *,
        max_features: float = 1.0,
        task_type: TaskType = "regression",
        unseen: str = "error",
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.max_features = max_features
        self.task_type = task_type
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of a task."""
        params = {
            **TREES,
            "max_leaf_nodes": self.max_leaf_nodes,
            "max_features": self.max_features,
        }
        return _boosted_trees(self.task_type, params)


class PooledRidgeTask(TaskFeature):
    """Ridge regression, one model for the rows of all tasks with a level per task.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength, of the levels as well.
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict without a level.
    """

    encoding = "one-hot"

    def __init__(self, alpha: float = 1.0, *, unseen: str = "error") -> None:
        self.alpha = alpha
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of all rows."""
        return Ridge(alpha=self.alpha)


class PooledLogisticTask(TaskFeature):
    """Logistic regression, one model for the rows of all tasks with a level per task.

    Parameters
    ----------
    C : float, default 1.0
        Inverse of the strength, of the levels as well.
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict without a level.
    """

    encoding = "one-hot"

    def __init__(self, C: float = 1.0, *, unseen: str = "error") -> None:
        self.C = C
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of all rows."""
        return LogisticRegression(C=self.C, max_iter=LOGISTIC_ITERATIONS)


class GradientBoostingTask(TaskFeature):
    """Gradient boosted trees, one model for the rows of all tasks with the task as a
    feature.

    The task is a category, or its position with more than 255 tasks.

    Parameters
    ----------
    max_leaf_nodes : int, default 16
        Number of leaves of a tree.
    task_type : {"regression", "binary"}, default "regression"
        Whether targets are numbers or labels.
    unseen : {"error", "mean"}, default "error"
        For rows of an unknown task, raise an error or predict without a task.
    """

    encoding = "number"

    def __init__(
        self,
        max_leaf_nodes: int = 16,
        *,
        task_type: TaskType = "regression",
        unseen: str = "error",
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.task_type = task_type
        self.unseen = unseen

    @property  # type: ignore[misc]
    def estimator(self) -> Any:
        """Model of all rows."""
        params = {**TREES, "max_leaf_nodes": self.max_leaf_nodes}
        # `fit` finds the tasks before it makes the estimator.
        if len(getattr(self, "tasks_", ())) <= MAX_CATEGORIES:
            params |= TASK_CATEGORY
        return _boosted_trees(self.task_type, params)


class LastValueDrift(LastValue):
    """Predicts the line through the first and the last value of the task.

    It is `LastValue` with ``drift=True``.

    Parameters
    ----------
    unseen : {"error", "mean"}, default "error"
        Rows of an unknown task: refuse them, or predict the mean of the last values.
    """

    def __init__(self, unseen: str = "error") -> None:
        super().__init__(drift=True, unseen=unseen)


class KernelRidge(kernel_ridge.KernelRidge):
    """Kernel ridge regression with a Gaussian kernel, for all targets on the same rows.

    It is scikit-learn's, with one strength and one width for all targets.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength.
    gamma : float, optional
        Width of the kernel ``exp(-gamma |x - z|^2)``. Default: 1 / number of features.
    """

    def __init__(self, alpha: float = 1.0, *, gamma: float | None = None) -> None:
        super().__init__(alpha=alpha, kernel="rbf", gamma=gamma)


class MultiOutputExtraTrees(ExtraTreesRegressor):
    """Extremely randomized trees for all targets on the same rows, by scikit-learn.

    Labels -1 and +1 are numbers here.

    Parameters
    ----------
    n_estimators : int, default 100
        Number of trees.
    max_features : float or "sqrt", default 0.33
        Features that a split looks at. `mtlrun compare` uses "sqrt" for labels.
    random_state : int, default 0
    """

    def __init__(
        self,
        n_estimators: int = N_TREES,
        *,
        max_features: Any = FOREST_FEATURES,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            n_estimators,
            min_samples_leaf=MIN_LEAF_ROWS,
            max_features=max_features,
            random_state=random_state,
        )


class MultiOutputRandomForest(RandomForestRegressor):
    """Random forest for all targets on the same rows, by scikit-learn.

    Labels -1 and +1 are numbers here.

    Parameters
    ----------
    n_estimators : int, default 100
        Number of trees.
    max_features : float or "sqrt", default 0.33
        Features that a split looks at. `mtlrun compare` uses "sqrt" for labels.
    random_state : int, default 0
    """

    def __init__(
        self,
        n_estimators: int = N_TREES,
        *,
        max_features: Any = FOREST_FEATURES,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            n_estimators,
            min_samples_leaf=MIN_LEAF_ROWS,
            max_features=max_features,
            random_state=random_state,
        )


#: Class -> name in leaderboards.
LEADERBOARD_NAMES: dict[type, str] = {
    TaskMean: "TaskMean",
    LastValue: "LastValue",
    IndependentRidgeCV: "IndependentRidgeCV",
    IndependentLogisticCV: "IndependentLogisticCV",
    IndependentKernelRidge: "IndependentKernelRidge",
    IndependentGradientBoosting: "IndependentGradientBoosting",
    PooledRidgeTask: "PooledRidge+Task",
    PooledLogisticTask: "PooledLogistic+Task",
    GradientBoostingTask: "GradientBoosting+Task",
    LastValueDrift: "LastValue+Drift",
    KernelRidge: "KernelRidge",
    MultiOutputExtraTrees: "MultiOutputExtraTrees",
    MultiOutputRandomForest: "MultiOutputRandomForest",
}
