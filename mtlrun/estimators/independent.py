"""Baselines without multi-task learning: ridge, lasso, logistic regression and SVM, per task or pooled."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC

from mtlrun.estimators.base import COMMON_RULES, ClassifierMTL, RegressorMTL
from mtlrun.estimators.params import BOOLEAN, Rule, integer, real
from mtlrun.estimators.ridge import ridge_bytes, solve_ridge
from mtlrun.estimators.single import Independent, Pooled, Solo, count_one_class, fit_sklearn, is_constant, with_mirror
from mtlrun.penalties.norms import L1, SquaredFrobenius
from mtlrun.problem.losses import HingeLoss, LogisticLoss, Loss, SquaredLoss
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]


class _RidgeModel(RegressorMTL):
    """Squared loss, squared penalty, closed form."""

    _rules: ClassVar[dict[str, Rule]] = {**COMMON_RULES, "alpha": real(0), "fit_intercept": BOOLEAN}

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.task_column = task_column
        self.unseen = unseen

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> Solo:
        data = TaskData(X, y[:, np.newaxis], np.zeros(1), weights=weights)
        found = solve_ridge(data, self.alpha, fit_intercept=self.fit_intercept)
        return Solo(found.W[:, 0], found.b[0], found.n_iter, found.converged)

    def _convergence_message(self, result: SolverResult) -> str:
        return (
            f"{type(self).__name__} did not converge after {result.n_iter} iterations of conjugate gradients. Scale "
            "the features, or take a larger alpha."
        )

    def _loss(self) -> Loss:
        return SquaredLoss()

    def _penalty(self) -> Penalty:
        return SquaredFrobenius(self.alpha)


class IndependentRidge(_RidgeModel, Independent):
    """Ridge regression of every task alone.

    Minimises for every task t::

        1/2 ||y_t - X_t w_t - b_t||^2 + alpha/2 ||w_t||^2

    which is scikit-learn's Ridge with the same `alpha`. A shared design without missing targets is factorised once
    for all tasks. Where the Gram matrix of a task would take too much memory (more than about 9000 rows and features),
    conjugate gradients with the features alone take its place.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength; 0 gives the least-squares solution of least norm.
    fit_intercept : bool, default True
        Intercepts are not penalised.
    task_column : int or str, optional
        Column of X (position, or name in a DataFrame) that holds the task ids and is no feature.
    unseen : {"error", "mean"}, default "error"
        What `predict` does with a task that was not in the training data: refuse, or use the mean of all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    tasks_ : ndarray of shape (n_tasks,)
    objective_ : list with the sum of the objectives
    n_iter_, converged_, n_features_in_ (without the task column)
    n_one_class_ : int
        Tasks with constant targets.

    References
    ----------
    Hoerl and Kennard, Ridge regression: biased estimation for nonorthogonal problems, Technometrics 1970.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.independent import IndependentRidge
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = IndependentRidge(alpha=0).fit(X, np.column_stack([2 * X[:, 0], 1 - X[:, 0]]))
    >>> model.coef_.round(6).tolist(), model.intercept_.round(6).tolist()
    ([[2.0], [-1.0]], [0.0, 1.0])
    """

    def _bytes(self, data: TaskData) -> float:
        rows = data.n_rows if data.shared else int(data.sizes.max())
        return super()._bytes(data) + _solving_bytes(data, rows)

    def _fit_data(self, data: TaskData) -> SolverResult:
        if not data.shared or data.masked or (data.weights is not None and data.weights.ndim == 2):
            return super()._fit_data(data)
        self.n_one_class_ = count_one_class(data)
        found = solve_ridge(data, self.alpha, fit_intercept=self.fit_intercept)
        return self._result(data, found.W, found.b, found.W, found.n_iter, found.converged)


class PooledRidge(_RidgeModel, Pooled):
    """One ridge regression for the rows of all tasks.

    Minimises ``1/2 sum_t ||y_t - X_t w - b||^2 + alpha/2 ||w||^2``. Parameters and attributes as of
    `IndependentRidge`; all rows of `coef_` are equal.
    """

    def _bytes(self, data: TaskData) -> float:
        return super()._bytes(data) + _solving_bytes(data, data.n_rows)


def _solving_bytes(data: TaskData, n_rows: int) -> float:
    """Return what `solve_ridge` takes for a task of so many rows, or for all tasks of a shared design."""
    tasks = data.n_tasks if data.shared else 1
    products = 6 * 8 * (n_rows + data.n_features) * tasks
    return ridge_bytes(n_rows, data.n_features, data.sparse) + products


class _LassoModel(RegressorMTL):
    """Squared loss, l1 penalty, scikit-learn's coordinate descent."""

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "alpha": real(0),
        "fit_intercept": BOOLEAN,
        "tol": real(0),
        "max_iter": integer(1),
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 10000,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> Solo:
        total = X.shape[0] if weights is None else weights.sum()
        model = Lasso(self.alpha / total, fit_intercept=self.fit_intercept, tol=self.tol, max_iter=self.max_iter)
        return fit_sklearn(model, X, y, weights)

    def _loss(self) -> Loss:
        return SquaredLoss()

    def _penalty(self) -> Penalty:
        return L1(self.alpha)


class IndependentLasso(_LassoModel, Independent):
    """Lasso of every task alone, by scikit-learn's coordinate descent.

    Minimises ``sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha ||w_t||_1``, the model of `SparseMTL` (the l1,1 penalty
    decouples) by another algorithm. scikit-learn's Lasso has ``alpha / n_samples`` instead.

    Parameters
    ----------
    alpha : float, default 1.0
    fit_intercept : bool, default True
    tol : float, default 1e-6
        scikit-learn's: duality gap relative to ||y||^2.
    max_iter : int, default 10000
        Epochs of coordinate descent per task.
    task_column, unseen
        As of `IndependentRidge`.

    Attributes
    ----------
    coef_, intercept_, tasks_, objective_, n_iter_, converged_, n_one_class_
        As of `IndependentRidge`; `n_iter_` is the largest of all tasks.

    References
    ----------
    Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 1996.
    """


class PooledLasso(_LassoModel, Pooled):
    """One lasso for the rows of all tasks; parameters and attributes as of `IndependentLasso`."""


class _LogisticModel(ClassifierMTL):
    """Logistic loss, squared penalty, scikit-learn's L-BFGS."""

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "alpha": real(0, closed="neither"),
        "fit_intercept": BOOLEAN,
        "tol": real(0, closed="neither"),
        "max_iter": integer(1),
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> Solo:
        if is_constant(y, weights):
            if self.fit_intercept:
                # The loss has no minimiser in b: use the log-odds with half an observation of the other class.
                n = len(y) if weights is None else weights.sum()
                return Solo(np.zeros(X.shape[1]), float(y[0] * np.log(2 * n + 1)), 1, True)
            X, y, weights = with_mirror(X, y, weights)
        model = LogisticRegression(
            C=1 / self.alpha, fit_intercept=self.fit_intercept, tol=self.tol, max_iter=self.max_iter
        )
        return fit_sklearn(model, X, y, weights)

    def _is_logistic(self) -> bool:
        return True

    def _loss(self) -> Loss:
        return LogisticLoss()

    def _penalty(self) -> Penalty:
        return SquaredFrobenius(self.alpha)


class IndependentLogistic(_LogisticModel, Independent):
    """Logistic regression of every task alone, by scikit-learn's L-BFGS.

    Minimises ``sum_t sum_i log(1 + exp(-y_ti (x_ti'w_t + b_t))) + alpha/2 ||w_t||^2``: scikit-learn's ``C = 1/alpha``.
    A task with one class only gets zero coefficients and the log-odds with half an observation of the other class as
    intercept; without intercept it is fitted like the others.

    Parameters
    ----------
    alpha : float, default 1.0
    fit_intercept : bool, default True
    tol : float, default 1e-6
        Largest entry of the gradient (of the mean loss, as scikit-learn has it).
    max_iter : int, default 1000
    task_column, unseen
        As of `IndependentRidge`.

    Attributes
    ----------
    coef_, intercept_, tasks_, objective_, n_iter_, converged_
        As of `IndependentRidge`.
    classes_ : ndarray of shape (2,)
    n_one_class_ : int
        Tasks with one class only.

    References
    ----------
    Cox, The regression analysis of binary sequences, JRSS B 1958.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import IndependentLogistic
    >>> rng = np.random.default_rng(0)
    >>> X, town = rng.normal(size=(60, 2)), np.repeat(["A", "B", "C"], 20)
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = IndependentLogistic(alpha=1.0).fit(X, y, task_id=town)
    >>> model.classes_.tolist(), model.coef_.shape
    (['no', 'yes'], (3, 2))
    """


class PooledLogistic(_LogisticModel, Pooled):
    """One logistic regression for the rows of all tasks; parameters and attributes as of `IndependentLogistic`."""


class _SVCModel(ClassifierMTL):
    """Hinge loss, squared penalty, LIBLINEAR."""

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "C": real(0, closed="neither"),
        "fit_intercept": BOOLEAN,
        "tol": real(0, closed="neither"),
        "max_iter": integer(1),
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = 10000,
        random_state: Any = 0,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.task_column = task_column
        self.unseen = unseen

    def _fit_one(self, X: Any, y: Array, weights: Array | None) -> Solo:
        if is_constant(y, weights):
            if self.fit_intercept:
                return Solo(np.zeros(X.shape[1]), float(y[0]), 1, True)
            X, y, weights = with_mirror(X, y, weights)
        model = LinearSVC(
            loss="hinge",
            C=self.C,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        return fit_sklearn(model, X, y, weights)

    def _loss(self) -> Loss:
        return HingeLoss(self.C)

    def _penalty(self) -> Penalty:
        return SquaredFrobenius(1.0)


class IndependentSVC(_SVCModel, Independent):
    """Linear support vector machine of every task alone (IndSVM), by LIBLINEAR through scikit-learn.

    Minimises ``sum_t 1/2 ||w_t||^2 + C sum_i max(0, 1 - y_ti (x_ti'w_t + b_t))``; the paper's ``lam`` is ``1/C``.
    A task with one class only is fitted like the others (without intercept), or gets the score of its class
    everywhere (with intercept).

    Parameters
    ----------
    C : float, default 1.0
    fit_intercept : bool, default False
        As in the paper. LIBLINEAR penalises the intercept like a coefficient.
    tol : float, default 1e-4
        LIBLINEAR's: largest projected gradient of the dual.
    max_iter : int, default 10000
        Epochs of dual coordinate descent per task.
    random_state : int, RandomState or None, default 0
        Order of the coordinates.
    task_column, unseen
        As of `IndependentRidge`.

    Attributes
    ----------
    coef_, intercept_, tasks_, objective_, n_iter_, converged_
        As of `IndependentRidge`; `objective_` is without the penalty of the intercept.
    classes_ : ndarray of shape (2,)
    n_one_class_ : int
        Tasks with one class only.

    References
    ----------
    Fan et al., LIBLINEAR: a library for large linear classification, JMLR 2008.
    """


class PooledSVC(_SVCModel, Pooled):
    """One linear SVM for the rows of all tasks; parameters and attributes as of `IndependentSVC`."""
