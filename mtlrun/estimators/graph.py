"""Tasks whose coefficients are pulled together along a graph, or towards their mean."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from sklearn.base import clone

from mtlrun.estimators.base import RegressorMTL
from mtlrun.estimators.convex import (
    ClassLoss,
    ConvexClassifierMTL,
    ConvexMTL,
    ConvexSolver,
    Intercepts,
)
from mtlrun.estimators.metadata import FEW, SHRINK_COST, STRENGTHS, MethodMetadata
from mtlrun.estimators.params import (
    ClassWeight,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    choice,
    satisfies,
)
from mtlrun.penalties.coupled import (
    ChainForm,
    CoupledL1,
    DenseForm,
    MeanForm,
    SparseForm,
    TaskForm,
    TaskQuadratic,
)
from mtlrun.penalties.graph import check_similarity, laplacian
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData, is_sparse

_MATRIX = satisfies(
    "a similarity matrix",
    lambda value: not isinstance(value, str) and hasattr(value, "__len__"),
)
TaskGraph = Annotated[Any, choice("mean", "chain") | _MATRIX]


class _Graph(ConvexMTL):
    """loss + alpha/2 tr(W L W') + ridge/2 ||W||_F^2 + sparsity ||W||_1.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the coupling.
    graph : "mean", "chain", array-like or sparse of shape (n_tasks, n_tasks), or DataFrame, default "mean"
        Similarities A of the tasks, in the order of `tasks_` or as a DataFrame named by
        the tasks. "mean" is 1/n_tasks for every pair, "chain" is 1 for tasks that are
        next to each other in `tasks_`. The diagonal has no effect. For thousands of
        tasks pass a sparse matrix, which is kept sparse.
    sparsity : float, default 0.0
        Strength of the l1 norm. `sparsity_max` returns the smallest value for which all
        coefficients are zero.
    ridge : float, default 1.0
        Strength of the squared norm. It must be positive: it makes the solution unique
        and its duality gap computable.

    References
    ----------
    T. Evgeniou and M. Pontil, "Regularized multi-task learning", KDD 2004.
    """

    metadata = MethodMetadata(
        cite=("evgeniou2004",),
        elsewhere={
            "MALSAR `Least_SRMTL`": "alpha = 2 rho1, sparsity = rho2, ridge = 2 rho_L2"
        },
        complexity=f"{SHRINK_COST}, and d T^2 for the coupling",
        default_grid={"alpha": STRENGTHS, "ridge": FEW},
        search=lambda scale: {
            "alpha": scale.times((0.01, 0.1, 1.0, 10.0), -1.0),
            "ridge": scale.times((0.001, 0.1)),
        },
    )
    _remedy = (
        "Use fewer tasks, features or rows; with sparsity=0, a graph that is 'mean', "
        "'chain' or sparse needs no matrix of all pairs of tasks."
    )

    alpha: NonNegative = 1.0
    graph: TaskGraph = "mean"
    sparsity: NonNegative = 0.0
    ridge: Positive = 1.0

    def _penalties(self) -> list[Penalty]:
        M = task_laplacian(self.graph, self.tasks_).scaled(self.alpha, self.ridge)
        # The strength in front only sets the scale of a solver's first step.
        if self.sparsity > 0:
            return [CoupledL1(self.sparsity, M)]
        return [TaskQuadratic(1.0, M)]

    def _bytes(self, data: TaskData) -> float:
        is_dense_graph = not isinstance(self.graph, str) and not is_sparse(self.graph)
        n_matrices = 0
        if is_dense_graph:
            n_matrices += 8
        if self.sparsity > 0:
            n_matrices += 8
        return super()._bytes(data) + 8.0 * n_matrices * data.n_tasks**2

    def task_relation(self) -> np.ndarray:
        """Return (alpha L + ridge I)^-1 (n_tasks, n_tasks): the covariance of the
        tasks that the penalty stands for.
        """
        return np.linalg.inv(
            task_laplacian(self.graph, self.tasks_)
            .scaled(self.alpha, self.ridge)
            .matrix
        )

    def sparsity_max(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the smallest `sparsity` for which all coefficients are zero, whatever
        `alpha` and `ridge`.

        `alpha` and `ridge` have no such value: quadratic terms make no coefficient
        exactly zero. Arguments as in `fit`; the model itself is not changed.
        """
        return float(
            np.abs(clone(self)._gradient_at_zero(X, y, task_id, sample_weight)).max()
        )


def task_laplacian(graph: Any, tasks: np.ndarray) -> TaskForm:
    """Return the Laplacian (T, T) of a graph of tasks, as a matrix only for a graph
    that is one.

    Parameters
    ----------
    graph : "mean", "chain", array-like or sparse matrix of shape (T, T), or DataFrame
        "mean": all pairs, with weights 1/T, so that tr(W L W') is the sum of squared
        distances from the mean; "chain": consecutive tasks in the order of `tasks`,
        with weights 1; or similarities.
    tasks : ndarray of shape (T,)
        Labels, for a DataFrame named by them.

    Raises
    ------
    ValueError
        If the similarities are of a wrong shape, negative, not finite or not symmetric.
    """
    if isinstance(graph, str):
        if graph == "mean":
            return MeanForm(len(tasks))
        return ChainForm(len(tasks))
    L = laplacian(check_similarity(graph, tasks, isolated=True))
    if is_sparse(L):
        return SparseForm(L)
    return DenseForm(L)


class GraphMTL(RegressorMTL, _Graph):
    """Multi-task regression with coefficients pulled together along a graph of tasks,
    or towards their mean.

    Minimizes::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha/2 sum_{s<t} A_st ||w_s - w_t||^2
                                            + ridge/2 sum_t ||w_t||^2 + sparsity sum_tj |w_tj|

    With the default graph the second term is ``alpha/2 sum_t ||w_t - mean||^2``:
    mean-regularized multi-task learning. For ``alpha = 0`` the tasks are separate ridge
    problems. As `alpha` grows, the tasks that the graph connects get the same
    coefficients, as in a pooled ridge model with strength ``n_tasks * ridge`` and one
    intercept per task.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import GraphMTL
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = np.column_stack([X[:, 0], X[:, 0] + 0.2 * X[:, 1]])
    >>> GraphMTL(alpha=1e6, ridge=1e-3).fit(X, Y).coef_.round(1).tolist()
    [[1.0, 0.1, 0.0], [1.0, 0.1, 0.0]]
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        graph: TaskGraph = "mean",
        sparsity: NonNegative = 0.0,
        ridge: Positive = 1.0,
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
        self.graph = graph
        self.sparsity = sparsity
        self.ridge = ridge
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class GraphMTLClassifier(ConvexClassifierMTL, _Graph):
    """Multi-task classification with coefficients pulled together along a graph of
    tasks, or towards their mean.

    Minimizes::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha/2 sum_{s<t} A_st ||w_s - w_t||^2
                                             + ridge/2 sum_t ||w_t||^2 + sparsity sum_tj |w_tj|
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        graph: TaskGraph = "mean",
        sparsity: NonNegative = 0.0,
        ridge: Positive = 1.0,
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
        self.graph = graph
        self.sparsity = sparsity
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
