"""Tasks in an order, such as one target at successive times: coefficients that change little between neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mtlrun.estimators.base import ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import CLASS_LOSSES, StrengthMTL
from mtlrun.estimators.graph import task_laplacian
from mtlrun.estimators.params import Rule, real
from mtlrun.penalties.coupled import CoupledL21, TaskQuadratic
from mtlrun.penalties.fused import FusedGroup, total_variation_prox
from mtlrun.penalties.norms import L1, L21
from mtlrun.problem.penalty import Penalty

Array = np.ndarray[Any, np.dtype[Any]]


class _Temporal(StrengthMTL):
    """loss + alpha ||W||_{2,1} + smoothness/2 ||W R||_F^2 + ridge/2 ||W||_F^2, R the differences of neighbours."""

    _rules: ClassVar[dict[str, Rule]] = {**StrengthMTL._rules, "smoothness": real(0), "ridge": real(0)}
    smoothness: float
    ridge: float

    def _penalties(self) -> list[Penalty]:
        M = task_laplacian("chain", self.tasks_).scaled(self.smoothness, self.ridge)
        if self.ridge == 0 and (self.smoothness == 0 or len(self.tasks_) == 1):
            return [L21(self.alpha)]
        if self.alpha > 0:
            return [CoupledL21(self.alpha, M)]
        if self.ridge == 0:
            raise ValueError("alpha and ridge are both 0: coefficients that are equal for all tasks would be free")
        return [TaskQuadratic(1.0, M)]

    def _edge(self, gradient: Array) -> float:
        return L21(1.0).polar(gradient)


class _Fused(StrengthMTL):
    """loss + alpha ||W||_{2,1} + fusion ||W R||_1 + sparsity ||W||_1, R the differences of neighbours."""

    _rules: ClassVar[dict[str, Rule]] = {**StrengthMTL._rules, "fusion": real(0), "sparsity": real(0)}
    fusion: float
    sparsity: float

    def _penalties(self) -> list[Penalty]:
        return [FusedGroup(self.alpha, self.sparsity, self.fusion)]

    def _edge(self, gradient: Array) -> float:
        smooth = total_variation_prox(gradient, self.fusion)
        return L21(1.0).polar(L1(self.sparsity).prox(smooth, 1.0))


class TemporalGroupLasso(RegressorMTL, _Temporal):
    """Tasks in an order: features selected jointly, coefficients that change smoothly.

    Minimises::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_j ||(w_1j, ..., w_Tj)||_2
                                            + smoothness/2 sum_t ||w_{t+1} - w_t||^2 + ridge/2 sum_t ||w_t||^2

    The order of the tasks is that of `tasks_`: sorted task ids, or the columns of a 2-D `y`.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the joint selection; `alpha_max` returns the value from which on all coefficients are zero.
    smoothness : float, default 1.0
        Strength of the squared differences of neighbours.
    ridge : float, default 0.0
        Strength of the squared norm; must be positive when `alpha` is 0.
    solver : {"auto", "admm", "fista"}, default "auto"
        ADMM in eigenbases of the designs, or accelerated proximal gradient; "auto" is ADMM unless the bases would
        take more than 2 GB (and FISTA for classification with at most 2000 labels).
    fit_intercept : bool, default True
        One intercept per task, not penalised.
    tol : float, default 1e-4
        Relative duality gap (P - D) / max(1, |P|, |D|) to stop at.
    max_iter : int, default 5000
    warm_start : bool, default False
        Keep the decomposition of the data and the state of the solver; another `fit` on data of the same content
        (a digest is compared) with other parameters goes on from there.
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
    Zhou, Yuan, Liu and Ye, A multi-task learning formulation for predicting disease progression, KDD 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.temporal import TemporalGroupLasso
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = X[:, :1] * np.array([1.0, 1.1, 1.2, 1.3])
    >>> model = TemporalGroupLasso(alpha=0.1).fit(X, Y)
    >>> np.flatnonzero(abs(model.coef_).max(axis=0) > 0.05).tolist()
    [0]
    """

    def __init__(
        self,
        alpha: float = 1.0,
        smoothness: float = 1.0,
        ridge: float = 0.0,
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
        self.smoothness = smoothness
        self.ridge = ridge
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class TemporalGroupLassoClassifier(ClassifierMTL, _Temporal):
    """Classification tasks in an order: features selected jointly, coefficients that change smoothly.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_j ||(w_1j, ..., w_Tj)||_2 +
    smoothness/2 sum_t ||w_{t+1} - w_t||^2 + ridge/2 sum_t ||w_t||^2`` with labels -1/+1 inside.

    Parameters
    ----------
    alpha, smoothness, ridge
        As of `TemporalGroupLasso`.
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `TemporalGroupLasso`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `TemporalGroupLasso`.
    """

    _rules: ClassVar[dict[str, Rule]] = {**_Temporal._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        smoothness: float = 1.0,
        ridge: float = 0.0,
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
        self.smoothness = smoothness
        self.ridge = ridge
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class FusedMTL(RegressorMTL, _Fused):
    """Tasks in an order: coefficients that change seldom (fused sparse group lasso).

    Minimises::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_j ||(w_1j, ..., w_Tj)||_2
                                            + fusion sum_t ||w_{t+1} - w_t||_1 + sparsity sum_tj |w_tj|

    The order of the tasks is that of `tasks_`: sorted task ids, or the columns of a 2-D `y`.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the joint selection; `alpha_max` returns the value from which on all coefficients are zero.
    fusion : float, default 1.0
        Strength of the absolute differences of neighbours.
    sparsity : float, default 0.0
        Strength of the l1 norm; must be positive when `alpha` is 0 and `fusion` is not.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `TemporalGroupLasso`.

    Attributes
    ----------
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `TemporalGroupLasso`.

    References
    ----------
    Zhou, Liu, Narayan and Ye, Modeling disease progression via fused sparse group lasso, KDD 2012.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        fusion: float = 1.0,
        sparsity: float = 0.0,
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
        self.fusion = fusion
        self.sparsity = sparsity
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class FusedMTLClassifier(ClassifierMTL, _Fused):
    """Classification tasks in an order: coefficients that change seldom.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_j ||(w_1j, ..., w_Tj)||_2 +
    fusion sum_t ||w_{t+1} - w_t||_1 + sparsity sum_tj |w_tj|`` with labels -1/+1 inside.

    Parameters
    ----------
    alpha, fusion, sparsity
        As of `FusedMTL`.
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `TemporalGroupLasso`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `TemporalGroupLasso`.
    """

    _rules: ClassVar[dict[str, Rule]] = {**_Fused._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        fusion: float = 1.0,
        sparsity: float = 0.0,
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
        self.fusion = fusion
        self.sparsity = sparsity
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen
