"""Tasks whose coefficients are pulled together along a graph, or towards their mean."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mtlrun.estimators.base import ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import CLASS_LOSSES, ConvexMTL
from mtlrun.estimators.params import Rule, choice, real, satisfies
from mtlrun.penalties.coupled import CoupledL1, TaskQuadratic
from mtlrun.penalties.graph import check_similarity, laplacian
from mtlrun.penalties.taskforms import ChainForm, DenseForm, MeanForm, SparseForm, TaskForm
from mtlrun.problem.arrays import is_sparse
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData

_MATRIX = satisfies("a similarity matrix", lambda value: not isinstance(value, str) and hasattr(value, "__len__"))


class _Graph(ConvexMTL):
    """loss + alpha/2 tr(W L W') + ridge/2 ||W||_F^2 + sparsity ||W||_1."""

    _rules: ClassVar[dict[str, Rule]] = {
        **ConvexMTL._rules,
        "alpha": real(0),
        "graph": choice("mean", "chain") | _MATRIX,
        "sparsity": real(0),
        "ridge": real(0, closed="neither"),
    }
    _remedy = (
        "Use fewer tasks, features or rows; with sparsity=0, a graph that is 'mean', 'chain' or sparse needs no matrix "
        "of all pairs of tasks."
    )
    alpha: float
    graph: Any
    sparsity: float
    ridge: float

    def _penalties(self) -> list[Penalty]:
        M = task_laplacian(self.graph, self.tasks_).scaled(self.alpha, self.ridge)
        # The strength in front only sets the scale of a solver's first step.
        return [CoupledL1(self.sparsity, M)] if self.sparsity > 0 else [TaskQuadratic(1.0, M)]

    def _bytes(self, data: TaskData) -> float:
        given = not isinstance(self.graph, str) and not is_sparse(self.graph)
        matrices = (8 if given else 0) + (8 if self.sparsity > 0 else 0)
        return super()._bytes(data) + 8.0 * matrices * data.n_tasks**2

    def sparsity_max(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> float:
        """Return the smallest `sparsity` for which all coefficients are zero, whatever `alpha` and `ridge`.

        There is no such value of `alpha` or `ridge`: quadratic terms make no coefficient exactly zero. Arguments as of
        `fit`; the model itself stays as it is.
        """
        return float(np.abs(clone(self)._gradient_at_zero(X, y, task_id, sample_weight)).max())


def task_laplacian(graph: Any, tasks: np.ndarray) -> TaskForm:
    """Return the Laplacian (T, T) of a graph of tasks, as a matrix only for a graph that is one.

    Parameters
    ----------
    graph : "mean", "chain", array-like or sparse matrix of shape (T, T), or DataFrame
        "mean": all pairs, with weights 1/T, so that tr(W L W') is the sum of squared distances from the mean;
        "chain": consecutive tasks in the order of `tasks`, with weights 1; or similarities.
    tasks : ndarray of shape (T,)
        Labels, for a DataFrame named by them.

    Raises
    ------
    ValueError
        If the similarities are of a wrong shape, negative, not finite or not symmetric.
    """
    if isinstance(graph, str):
        return MeanForm(len(tasks)) if graph == "mean" else ChainForm(len(tasks))
    L = laplacian(check_similarity(graph, tasks, isolated=True))
    return SparseForm(L) if is_sparse(L) else DenseForm(L)


class GraphMTL(RegressorMTL, _Graph):
    """Regression tasks with similar coefficients: a graph of tasks, or their mean.

    Minimises::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha/2 sum_{s<t} A_st ||w_s - w_t||^2
                                            + ridge/2 sum_t ||w_t||^2 + sparsity sum_tj |w_tj|

    With the default graph the second term is ``alpha/2 sum_t ||w_t - mean||^2``: mean-regularised multi-task learning.
    For ``alpha = 0`` the tasks are separate ridge problems; as alpha grows, all tasks connected by the graph get the
    same coefficients (of a pooled ridge model with strength ``n_tasks * ridge`` and one intercept per task).

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the coupling.
    graph : "mean", "chain", array-like or sparse of shape (n_tasks, n_tasks), or DataFrame, default "mean"
        Similarities A of the tasks (in the order of `tasks_`, or a DataFrame named by the tasks): "mean" has 1/n_tasks
        for every pair, "chain" has 1 for tasks next to each other in `tasks_`. The diagonal has no effect. For
        thousands of tasks give a sparse matrix: it stays one.
    sparsity : float, default 0.0
        Strength of the l1 norm; `sparsity_max` returns the value from which on all coefficients are zero.
    ridge : float, default 1.0
        Strength of the squared norm, positive: it makes the solution unique and its duality gap computable. Take a
        small one to do without.
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
    Evgeniou and Pontil, Regularized multi-task learning, KDD 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.graph import GraphMTL
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Y = np.column_stack([X[:, 0], X[:, 0] + 0.2 * X[:, 1]])
    >>> GraphMTL(alpha=1e6, ridge=1e-3).fit(X, Y).coef_.round(1).tolist()
    [[1.0, 0.1, 0.0], [1.0, 0.1, 0.0]]
    """

    def __init__(
        self,
        alpha: float = 1.0,
        graph: Any = "mean",
        sparsity: float = 0.0,
        ridge: float = 1.0,
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
        self.graph = graph
        self.sparsity = sparsity
        self.ridge = ridge
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class GraphMTLClassifier(ClassifierMTL, _Graph):
    """Classification tasks with similar coefficients: a graph of tasks, or their mean.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha/2 sum_{s<t} A_st ||w_s - w_t||^2 +
    ridge/2 sum_t ||w_t||^2 + sparsity sum_tj |w_tj|`` with labels -1/+1 inside.

    Parameters
    ----------
    alpha, graph, sparsity, ridge
        As of `GraphMTL`.
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `GraphMTL`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `GraphMTL`.
    """

    _rules: ClassVar[dict[str, Rule]] = {**_Graph._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        graph: Any = "mean",
        sparsity: float = 0.0,
        ridge: float = 1.0,
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
        self.graph = graph
        self.sparsity = sparsity
        self.ridge = ridge
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen
