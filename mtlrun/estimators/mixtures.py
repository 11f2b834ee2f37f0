"""Coefficients that are the sum of a part shared by the tasks and a part of their
own, each with its norm.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from mtlrun.estimators.base import DegenerateModelWarning, RegressorMTL
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
    Positive,
    TaskColumn,
    Unseen,
)
from mtlrun.penalties.norms import L1, L12, L21, L1Inf, TraceNorm, mixture_range
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData


class _Mixture(PenalizedMTL):
    """loss + alpha (shared(P) + lam own(Q)), W = P + Q; a subclass names the two norms.

    Parameters
    ----------
    lam : float, default 0.6
        Price of the tasks' own part relative to the shared part.

    Attributes
    ----------
    shared_, own_ : ndarray of shape (n_tasks, n_features)
        The two parts P' and Q'; their sum is `coef_`.
    """

    lam: Positive = 0.6
    _shared: ClassVar[type[Penalty]]
    _unshared: ClassVar[type[Penalty]]
    _part_names = ("shared_", "own_")

    def _penalties(self) -> list[Penalty]:
        return [self._shared(self.alpha), self._unshared(self.alpha * self.lam)]

    def _warn_of(self, data: TaskData) -> None:
        warn_if_degenerate(self, data)


def warn_if_degenerate(model: Any, data: TaskData) -> None:
    """Warn if the price `lam` of the second part of the coefficients is such that
    one of the two parts is zero.
    """
    first, second = model._penalties()
    low, high = mixture_range(
        type(first), type(second), (data.n_features, data.n_tasks)
    )
    if low < model.lam < high:
        return
    zero = model._part_names[1 if model.lam >= high else 0]
    inside = "There is no second part"
    if low < high:
        inside = f"Both parts need {low:.3g} < lam < {high:.3g}"
    sizes = f"{data.n_features} features, {data.n_tasks} tasks"
    text = f"lam={model.lam:g}: {zero} is zero. {inside} ({sizes})."
    warnings.warn(text, DegenerateModelWarning, stacklevel=6)


class _RobustFeature(_Mixture):
    """l2,1 norm of the features of P, l2 norms of the tasks of Q.

    Notes
    -----
    Both parts can be non-zero only for ``1/sqrt(n_tasks) < lam < sqrt(n_features)``:
    for a larger `lam` Q is zero and the model is `JointFeatureMTL`, for a smaller one P
    is zero and the tasks are separate. Outside of this interval `fit` gives a
    `DegenerateModelWarning`.

    References
    ----------
    P. Gong, J. Ye and C. Zhang, "Robust multi-task feature learning", KDD 2012.
    """

    metadata = MethodMetadata(
        cite=("gong2012",),
        elsewhere={
            "MALSAR `Least_rMTFL` (no 1/2)": "alpha = rho1 / 2, lam = rho2 / rho1"
        },
        complexity=SHRINK_COST,
        default_grid={"alpha": STRENGTHS, "lam": (0.5, 0.8, 1.2)},
        search=lambda scale: {
            "alpha": scale.times(SHRINKAGES, 0.5),
            "lam": [0.5, 1.0],
        },
    )
    _shared = L21
    _unshared = L12


class RobustFeatureMTL(RegressorMTL, _RobustFeature):
    """Multi-task regression with jointly selected features and outlier tasks (rMTFL).

    The coefficients W = P + Q (one column per task) minimize::

        sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2 + alpha (sum_j ||p^j||_2 + lam sum_t ||q_t||_2)

    with p^j the rows (features) of P. A task whose column of Q is not zero is an
    outlier that uses features of its own.

    Examples
    --------
    Five tasks use the same two features, the sixth uses others:

    >>> import numpy as np
    >>> from mtlrun.estimators import RobustFeatureMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> W = np.zeros((8, 6))
    >>> W[:2, :5] = 1.0
    >>> W[3:, 5] = 2.0
    >>> model = RobustFeatureMTL(alpha=20.0, lam=0.9).fit(X, X @ W)
    >>> np.flatnonzero(np.linalg.norm(model.own_, axis=1) > 0.5).tolist()
    [5]
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        lam: Positive = 0.6,
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
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class RobustFeatureMTLClassifier(ConvexClassifierMTL, _RobustFeature):
    """Multi-task classification with jointly selected features and outlier tasks
    (rMTFL).

    The coefficients W = P + Q minimize::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha (sum_j ||p^j||_2 + lam sum_t ||q_t||_2)

    with p^j the rows (features) of P.
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        lam: Positive = 0.6,
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
        self.lam = lam
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


class _SparseLowRank(_Mixture):
    """Trace norm of P, l1,1 norm of Q.

    Notes
    -----
    The paper bounds the trace norm instead of penalizing it. Both parts can be non-zero
    only for ``1/sqrt(n_features n_tasks) < lam < 1``: for a larger `lam` Q is zero and
    the model is `TraceNormMTL`, for a smaller one P is zero and the model is
    `SparseMTL`. Outside of this interval `fit` gives a `DegenerateModelWarning`.

    References
    ----------
    J. Chen, J. Liu and J. Ye, "Learning incoherent sparse and low-rank patterns from
    multiple tasks", KDD 2010.
    """

    metadata = MethodMetadata(
        cite=("chen2010",),
        complexity=SPECTRAL_COST,
        default_grid={"alpha": STRENGTHS, "lam": (0.2, 0.4, 0.7)},
        search=lambda scale: {
            "alpha": scale.times(SHRINKAGES, 0.5),
            "lam": scale.ratios(),
        },
    )
    _shared = TraceNorm
    _unshared = L1


class SparseLowRankMTL(RegressorMTL, _SparseLowRank):
    """Multi-task regression with low-rank plus sparse coefficients.

    The coefficients W = P + Q (one column per task) minimize::

        sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2 + alpha (||P||_* + lam sum_tj |q_tj|)

    The tasks share few directions (P), from which single coefficients depart (Q).
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        lam: Positive = 0.6,
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
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class SparseLowRankMTLClassifier(ConvexClassifierMTL, _SparseLowRank):
    """Multi-task classification with low-rank plus sparse coefficients.

    The coefficients W = P + Q minimize::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha (||P||_* + lam sum_tj |q_tj|)
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        lam: Positive = 0.6,
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
        self.lam = lam
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


class _Dirty(_Mixture):
    """l1,inf norm of the features of P, l1,1 norm of Q.

    Notes
    -----
    Both parts can be non-zero only for ``1/n_tasks < lam < 1``: for a larger `lam` Q is
    zero and the l1,inf norm remains, for a smaller one P is zero and the model is
    `SparseMTL`. Outside of this interval `fit` gives a `DegenerateModelWarning`.

    References
    ----------
    A. Jalali, P. Ravikumar, S. Sanghavi and C. Ruan, "A dirty model for multi-task
    learning", NIPS 2010.
    """

    metadata = MethodMetadata(
        cite=("jalali2010",),
        elsewhere={
            "MALSAR `Least_Dirty` (no 1/2)": "alpha = rho1 / 2, lam = rho2 / rho1"
        },
        complexity=f"{SHRINK_COST}, and a sort of every row",
        default_grid={"alpha": STRENGTHS, "lam": (0.3, 0.5, 0.8)},
        search=lambda scale: {
            "alpha": scale.times(SHRINKAGES, 0.7),
            "lam": scale.ratios(),
        },
    )
    _shared = L1Inf
    _unshared = L1


class DirtyMTL(RegressorMTL, _Dirty):
    """Multi-task regression with features shared by all tasks plus single features of
    single tasks (dirty model).

    The coefficients W = P + Q (one column per task) minimize::

        sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2 + alpha (sum_j max_t |p_tj| + lam sum_tj |q_tj|)

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import DirtyMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> W = np.zeros((5, 4))
    >>> W[0], W[4, 2] = 1.0, 2.0
    >>> model = DirtyMTL(alpha=8.0, lam=0.6).fit(X, X @ W)
    >>> (abs(model.coef_) > 0.1).astype(int).tolist()
    [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]]
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        lam: Positive = 0.6,
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
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class DirtyMTLClassifier(ConvexClassifierMTL, _Dirty):
    """Multi-task classification with features shared by all tasks plus single features
    of single tasks (dirty model).

    The coefficients W = P + Q minimize::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha (sum_j max_t |p_tj| + lam sum_tj |q_tj|)
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        lam: Positive = 0.6,
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
        self.lam = lam
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
