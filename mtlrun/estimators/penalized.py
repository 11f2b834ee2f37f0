"""Models with one norm of the coefficients: sparse, jointly selected features, and
low rank.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from mtlrun.estimators.base import RegressorMTL
from mtlrun.estimators.convex import (
    ClassLoss,
    ConvexClassifierMTL,
    ConvexSolver,
    Intercepts,
    PenalizedMTL,
)
from mtlrun.estimators.metadata import (
    SHRINK_COST,
    SHRINKAGES,
    SPECTRAL_COST,
    STRENGTHS,
    MethodMetadata,
)
from mtlrun.estimators.params import (
    ClassWeight,
    Count,
    NonNegative,
    TaskColumn,
    Unseen,
    choice,
)
from mtlrun.penalties.norms import L1, L21, TraceNorm

_LASSO_COST = (
    "shared squared loss: per epoch features in use times rows, features or entries, "
    f"times T; else {SHRINK_COST}"
)

#: Solvers of models with a norm that selects features.
SparseSolver = Annotated[str, choice("auto", "cd", "admm", "fista")]


class _SparseNorm(PenalizedMTL):
    """A loss plus alpha times a norm that selects features.

    Parameters
    ----------
    solver : {"auto", "cd", "admm", "fista"}, default "auto"
        Coordinate descent with working sets (squared loss with an l1,1 or l2,1 norm on
        a shared design without missing targets), ADMM in eigenbases of the designs, or
        accelerated proximal gradient. "auto" is coordinate descent where it applies,
        with ADMM behind it for weak penalties; else ADMM unless the bases would take
        more than 2 GB; for classification with at most 2000 labels it is FISTA.
    """

    _: KW_ONLY
    solver: SparseSolver = "auto"


class _Sparse(_SparseNorm):
    """The l1,1 norm.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", Journal of the
    Royal Statistical Society B, 1996.
    """

    metadata = MethodMetadata(
        cite=("tibshirani1996",),
        elsewhere={
            "scikit-learn `Lasso(a)`": "alpha = n a",
            "MALSAR `Least_Lasso`": "alpha = rho1",
        },
        complexity=_LASSO_COST,
        default_grid={"alpha": STRENGTHS},
        search=lambda scale: {"alpha": scale.times((0.001, 0.005, 0.02, 0.1, 0.3))},
    )
    _penalty = L1


class SparseMTL(RegressorMTL, _Sparse):
    """Multi-task regression with sparse coefficients (l1,1 norm).

    Minimizes::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_tj |w_tj|

    The penalty does not couple the tasks: this is scikit-learn's Lasso with ``alpha /
    n_samples`` for every task. `IndependentLasso` solves the same problem with
    scikit-learn's coordinate descent.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import SparseMTL
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = np.column_stack([X[:, 0], 2 * X[:, 1]])
    >>> model = SparseMTL(alpha=0.01).fit(X, Y)
    >>> (abs(model.coef_) > 0.1).tolist()
    [[True, False, False], [False, True, False]]
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class SparseMTLClassifier(ConvexClassifierMTL, _Sparse):
    """Multi-task classification with sparse coefficients (l1,1 norm).

    Minimizes::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_tj |w_tj|
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.loss = loss


class _JointFeature(_SparseNorm):
    """The l2,1 norm.

    References
    ----------
    G. Obozinski, B. Taskar and M. I. Jordan, "Joint covariate selection and joint
    subspace selection for multiple classification problems", Statistics and Computing,
    2010.
    """

    metadata = MethodMetadata(
        cite=("obozinski2010",),
        elsewhere={
            "scikit-learn `MultiTaskLasso(a)`": "alpha = n a",
            "MALSAR `Least_L21`": "alpha = rho1",
        },
        complexity=_LASSO_COST,
        default_grid={"alpha": STRENGTHS},
        search=lambda scale: {"alpha": scale.times(SHRINKAGES, 0.5)},
    )
    _penalty = L21


class JointFeatureMTL(RegressorMTL, _JointFeature):
    """Multi-task regression with features selected jointly for all tasks (l2,1 norm).

    Minimizes::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_j ||(w_1j, ..., w_Tj)||_2

    On a shared design this is scikit-learn's MultiTaskLasso with ``alpha / n_samples``.

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
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class JointFeatureMTLClassifier(ConvexClassifierMTL, _JointFeature):
    """Multi-task classification with features selected jointly for all tasks (l2,1
    norm).

    Minimizes::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_j ||(w_1j, ..., w_Tj)||_2
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: SparseSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.loss = loss


class _TraceNorm(PenalizedMTL):
    """The trace norm.

    References
    ----------
    S. Ji and J. Ye, "An accelerated gradient method for trace norm minimization", ICML
    2009.
    """

    metadata = MethodMetadata(
        cite=("ji2009",),
        elsewhere={"MALSAR `Least_Trace`": "alpha = rho1"},
        complexity=SPECTRAL_COST,
        default_grid={"alpha": STRENGTHS},
        search=lambda scale: {"alpha": scale.times(SHRINKAGES, 0.5)},
    )
    _penalty = TraceNorm


class TraceNormMTL(RegressorMTL, _TraceNorm):
    """Multi-task regression with a coefficient matrix of low rank (trace norm).

    Minimizes::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha ||W||_*

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

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class TraceNormMTLClassifier(ConvexClassifierMTL, _TraceNorm):
    """Multi-task classification with a coefficient matrix of low rank (trace norm).

    Minimizes::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha ||W||_*

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

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "logistic",
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.loss = loss
