"""Tasks in an order, such as one target at successive times: coefficients that
change little between neighbors.
"""

from __future__ import annotations

import warnings

import numpy as np

from mtlrun.data.reading.names import name_order
from mtlrun.estimators.base import RegressorMTL
from mtlrun.estimators.convex import (
    ClassLoss,
    ConvexClassifierMTL,
    ConvexSolver,
    Intercepts,
    PenalizedMTL,
)
from mtlrun.estimators.metadata import FEW, SHRINK_COST, STRENGTHS, MethodMetadata
from mtlrun.estimators.params import ClassWeight, Count, NonNegative, TaskColumn, Unseen
from mtlrun.penalties.coupled import (
    ChainForm,
    CoupledL21,
    FusedGroup,
    TaskQuadratic,
    total_variation_prox,
)
from mtlrun.penalties.norms import L1, L21
from mtlrun.problem.penalty import Penalty

Array = np.ndarray


def _check_order(model: PenalizedMTL) -> None:
    """Warn where ids are texts whose order as texts differs from the order of the
    numbers in them: w10 before w2.
    """
    tasks = model.tasks_.tolist()
    if (
        model._layout == "ragged"
        and all(isinstance(task, str) for task in tasks)
        and name_order(tasks) != tasks
    ):
        names = ", ".join(tasks[:5]) + (", ..." if len(tasks) > 5 else "")
        text = (
            f"tasks that are texts are sorted as texts, so the chain is {names}; pass "
            "numbers or dates as task ids"
        )
        warnings.warn(text, UserWarning, stacklevel=2)


class _Temporal(PenalizedMTL):
    """loss + alpha ||W||_{2,1} + smoothness/2 ||W R||_F^2 + ridge/2 ||W||_F^2, R the
    differences of neighbors.

    Parameters
    ----------
    smoothness : float, default 1.0
        Strength of the squared differences of neighboring tasks.
    ridge : float, default 0.0
        Strength of the squared norm; must be positive when `alpha` is 0.

    Notes
    -----
    The tasks are ordered as in `tasks_`: sorted task ids, or the columns of a 2-D `y`.
    Texts are sorted as texts, ``w10`` before ``w2``, which is warned of: pass numbers
    or dates.

    References
    ----------
    J. Zhou, L. Yuan, J. Liu and J. Ye, "A multi-task learning formulation for
    predicting disease progression", KDD 2011.
    """

    metadata = MethodMetadata(
        cite=("zhou2011",),
        elsewhere={
            "MALSAR `Least_TGL`": "ridge = 2 rho1, smoothness = 2 rho2, alpha = rho3"
        },
        complexity=f"{SHRINK_COST}, and d T^2 for the coupling",
        default_grid={"alpha": STRENGTHS, "smoothness": FEW},
    )

    smoothness: NonNegative = 1.0
    ridge: NonNegative = 0.0

    def _penalties(self) -> list[Penalty]:
        _check_order(self)
        M = ChainForm(len(self.tasks_)).scaled(self.smoothness, self.ridge)
        if self.ridge == 0 and (self.smoothness == 0 or len(self.tasks_) == 1):
            return [L21(self.alpha)]
        if self.alpha > 0:
            return [CoupledL21(self.alpha, M)]
        if self.ridge == 0:
            raise ValueError(
                "alpha and ridge are both 0: coefficients that are equal for all tasks "
                "would be free"
            )
        return [TaskQuadratic(1.0, M)]

    def _edge(self, gradient: Array) -> float:
        return L21(1.0).dual_norm(gradient)


class TemporalGroupLasso(RegressorMTL, _Temporal):
    """Regression of ordered tasks with jointly selected features and coefficients that
    change smoothly.

    Minimizes::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_j ||(w_1j, ..., w_Tj)||_2
                                            + smoothness/2 sum_t ||w_{t+1} - w_t||^2 + ridge/2 sum_t ||w_t||^2

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import TemporalGroupLasso
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = X[:, :1] * np.array([1.0, 1.1, 1.2, 1.3])
    >>> model = TemporalGroupLasso(alpha=0.1).fit(X, Y)
    >>> np.flatnonzero(abs(model.coef_).max(axis=0) > 0.05).tolist()
    [0]
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        smoothness: NonNegative = 1.0,
        ridge: NonNegative = 0.0,
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
        self.smoothness = smoothness
        self.ridge = ridge
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class TemporalGroupLassoClassifier(ConvexClassifierMTL, _Temporal):
    """Classification of ordered tasks with jointly selected features and coefficients
    that change smoothly.

    Minimizes::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_j ||(w_1j, ..., w_Tj)||_2
                                             + smoothness/2 sum_t ||w_{t+1} - w_t||^2 + ridge/2 sum_t ||w_t||^2
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        smoothness: NonNegative = 1.0,
        ridge: NonNegative = 0.0,
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
        self.smoothness = smoothness
        self.ridge = ridge
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


class _Fused(PenalizedMTL):
    """loss + alpha ||W||_{2,1} + fusion ||W R||_1 + sparsity ||W||_1, R the differences
    of neighbors.

    Parameters
    ----------
    fusion : float, default 1.0
        Strength of the absolute differences of neighboring tasks.
    sparsity : float, default 0.0
        Strength of the l1 norm; must be positive when `alpha` is 0 and `fusion` is not.

    Notes
    -----
    The tasks are ordered as in `tasks_`: sorted task ids, or the columns of a 2-D `y`.
    Texts are sorted as texts, ``w10`` before ``w2``, which is warned of: pass numbers
    or dates.

    References
    ----------
    J. Zhou, J. Liu, V. A. Narayan and J. Ye, "Modeling disease progression via fused
    sparse group lasso", KDD 2012.
    """

    metadata = MethodMetadata(
        cite=("zhou2012",),
        elsewhere={
            "MALSAR `Least_CFGLasso`": "sparsity = rho1, fusion = rho2, alpha = rho3"
        },
        complexity=SHRINK_COST,
        default_grid={"alpha": STRENGTHS, "fusion": FEW},
    )

    fusion: NonNegative = 1.0
    sparsity: NonNegative = 0.0

    def _penalties(self) -> list[Penalty]:
        _check_order(self)
        return [FusedGroup(self.alpha, self.sparsity, self.fusion)]

    def _edge(self, gradient: Array) -> float:
        smooth = total_variation_prox(gradient, self.fusion)
        return L21(1.0).dual_norm(L1(self.sparsity).prox(smooth, 1.0))


class FusedMTL(RegressorMTL, _Fused):
    """Regression of ordered tasks with coefficients that change seldom (fused sparse
    group lasso).

    Minimizes::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha sum_j ||(w_1j, ..., w_Tj)||_2
                                            + fusion sum_t ||w_{t+1} - w_t||_1 + sparsity sum_tj |w_tj|
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        fusion: NonNegative = 1.0,
        sparsity: NonNegative = 0.0,
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
        self.fusion = fusion
        self.sparsity = sparsity
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class FusedMTLClassifier(ConvexClassifierMTL, _Fused):
    """Classification of ordered tasks with coefficients that change seldom (fused
    sparse group lasso).

    Minimizes::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha sum_j ||(w_1j, ..., w_Tj)||_2
                                             + fusion sum_t ||w_{t+1} - w_t||_1 + sparsity sum_tj |w_tj|
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        fusion: NonNegative = 1.0,
        sparsity: NonNegative = 0.0,
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
        self.fusion = fusion
        self.sparsity = sparsity
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
