"""Models with one norm: a table of penalties, each for regression and for classification."""

from __future__ import annotations

from typing import ClassVar

from mtlrun.estimators.base import ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import CLASS_LOSSES, SinglePenaltyMTL
from mtlrun.estimators.params import Rule
from mtlrun.penalties.norms import L1, L21, TraceNorm
from mtlrun.problem.penalty import Penalty


class _Regressor(RegressorMTL, SinglePenaltyMTL):
    """Squared loss."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class _Classifier(ClassifierMTL, SinglePenaltyMTL):
    """A loss for two classes."""

    _rules: ClassVar[dict[str, Rule]] = {**SinglePenaltyMTL._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        loss: str = "logistic",
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class SparseMTL(_Regressor):
    """Multi-task regression with sparse coefficients: the l1,1 norm ("One Norm").

    Minimises::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_{t,j} |w_tj|

    The penalty decouples the tasks: this is scikit-learn's Lasso with ``alpha / n_samples`` for every task
    (`IndependentLasso` solves the same by coordinate descent).

    Parameters
    ----------
    alpha : float, default 1.0
        Strength; `alpha_max` returns the value from which on all coefficients are zero.
    solver : {"auto", "cd", "admm", "fista"}, default "auto"
        Coordinate descent with working sets (squared loss with L1 or L21 on a shared design without missing targets),
        ADMM in eigenbases of the designs, or accelerated proximal gradient. "auto" is coordinate descent where it
        applies, with ADMM behind it for weak penalties; else ADMM unless the bases would take more than 2 GB (and
        FISTA for classification with at most 2000 labels).
    fit_intercept : bool, default True
        One intercept per task, not penalised.
    tol : float, default 1e-4
        Relative duality gap (P - D) / max(1, |P|, |D|) to stop at.
    max_iter : int, default 5000
    warm_start : bool, default False
        Keep the decomposition of the data and the state of the solver; another `fit` on data of the same content
        (a digest is compared) with other parameters goes on from there. For paths of `alpha`.
    task_column : int or str, optional
        Column of X (position, or name in a DataFrame) that holds the task ids and is no feature.
    unseen : {"error", "mean"}, default "error"
        What `predict` does with a task that was not in the training data: refuse, or use the mean of all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    tasks_ : ndarray of shape (n_tasks,)
        Sorted task ids, or the columns of a 2-D `y`.
    objective_ : list of float
        Values along the iterations; the last one belongs to `coef_`.
    gap_ : float
        Relative duality gap reached; `stop_crit_` is the same here.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
        Without the task column.

    References
    ----------
    Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.catalogue import SparseMTL
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = np.column_stack([X[:, 0], 2 * X[:, 1]])
    >>> model = SparseMTL(alpha=0.01).fit(X, Y)
    >>> (abs(model.coef_) > 0.1).tolist()
    [[True, False, False], [False, True, False]]
    """

    _penalty: ClassVar[type[Penalty]] = L1


class SparseMTLClassifier(_Classifier):
    """Multi-task classification with sparse coefficients.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum |w_tj|`` with labels -1/+1 inside.

    Parameters
    ----------
    alpha : float, default 1.0
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `SparseMTL`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `SparseMTL`.
    """

    _penalty: ClassVar[type[Penalty]] = L1


class JointFeatureMTL(_Regressor):
    """Multi-task regression that selects features jointly for all tasks: the l2,1 norm.

    Minimises::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_j ||(w_1j, ..., w_Tj)||_2

    On a shared design this is scikit-learn's MultiTaskLasso with ``alpha / n_samples``.
    Parameters and attributes as of `SparseMTL`.

    References
    ----------
    Obozinski, Taskar and Jordan, Joint covariate selection and joint subspace selection for multiple classification
    problems, Statistics and Computing 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import JointFeatureMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = X @ [[2.0, 1.0], [1.0, -1.0], [0.0, 0.0]]
    >>> model = JointFeatureMTL(alpha=5.0).fit(X, Y)
    >>> (model.coef_ != 0).tolist()
    [[True, True, False], [True, True, False]]
    >>> model.converged_, model.gap_ <= 1e-4
    (True, True)
    """

    _penalty: ClassVar[type[Penalty]] = L21


class JointFeatureMTLClassifier(_Classifier):
    """Multi-task classification that selects features jointly for all tasks.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_j ||(w_1j, ..., w_Tj)||_2``.
    Parameters and attributes as of `SparseMTLClassifier`.
    """

    _penalty: ClassVar[type[Penalty]] = L21


class TraceNormMTL(_Regressor):
    """Multi-task regression with a coefficient matrix of low rank: the trace norm.

    Minimises::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha ||W||_*

    Parameters and attributes as of `SparseMTL`.

    References
    ----------
    Ji and Ye, An accelerated gradient method for trace norm minimization, ICML 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import TraceNormMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.outer(X[:, 0], [1, 2, 3]) + 0.1 * rng.normal(size=(40, 3))
    >>> model = TraceNormMTL(alpha=5.0).fit(X, Y)
    >>> int(np.linalg.matrix_rank(model.coef_))
    1
    """

    _penalty: ClassVar[type[Penalty]] = TraceNorm


class TraceNormMTLClassifier(_Classifier):
    """Multi-task classification with a coefficient matrix of low rank.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha ||W||_*``.
    Parameters and attributes as of `SparseMTLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import TraceNormMTLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, town = rng.normal(size=(60, 2)), np.repeat(["A", "B", "C"], 20)
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = TraceNormMTLClassifier(alpha=1.0).fit(X, y, task_id=town)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]], task_id=["A", "C"]).tolist()
    ['yes', 'no']
    """

    _penalty: ClassVar[type[Penalty]] = TraceNorm
