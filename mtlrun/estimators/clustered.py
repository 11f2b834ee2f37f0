"""Linear classifiers whose tasks form clusters, convex: in the space of tasks (CMTL), feature by feature (FlexClus)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mtlrun.estimators.base import ClassifierMTL
from mtlrun.estimators.convex import CLASS_LOSSES, ConvexMTL
from mtlrun.estimators.params import NONE, Rule, integer, real
from mtlrun.penalties.clusters import ClusterNorm, FeatureClusters
from mtlrun.penalties.norms import SquaredFrobenius
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData

#: Values of `n_task_clusters`: a number, a part of the tasks strictly between 0 and 1, or None.
CLUSTERS = integer(1) | real(0, 1, closed="neither") | NONE


def resolve_clusters(n_clusters: float | None, n_tasks: int) -> int:
    """Return the number of clusters of tasks: an int as it is, a part of the tasks rounded, None for half of them.

    The number is at least one; halves are rounded down.

    Raises
    ------
    ValueError
        If there are more clusters than tasks.
    """
    if n_clusters is None:
        n_clusters = 0.5
    if n_clusters < 1:
        return max(1, int(np.ceil(n_clusters * n_tasks - 0.5)))
    if n_clusters > n_tasks:
        raise ValueError(
            f"n_task_clusters={n_clusters}, but there are only {n_tasks} tasks; use at most {n_tasks}, "
            "or None for half of them"
        )
    return int(n_clusters)


class CMTL(ClassifierMTL, ConvexMTL):
    """Clustered multi-task learning (Jacob, Bach and Vert): tasks near the centres of r clusters.

    Minimises, with w_mean the mean of the tasks and D the deviations from it::

        loss + alpha (mean * T ||w_mean||^2 + min_S tr(D S^{-1} D'))

    S has eigenvalues between 1/within and 1/between and trace (r - 1)/between + (T - r)/within: the convex relaxation
    of ``between * variance between clusters + within * variance within clusters``. The loss is a sum over all entries.
    Convex; solved with the closed prox of the relaxation (no alternation) and certified by a duality gap.
    (`ClusteredMTL` is another relaxation, without the mean part.)

    ``between = within = mean`` is ridge regression of every task alone; one cluster with large `within` is one model
    for all tasks. Our reading: the squared loss by default, and the weights `mean`, `between`, `within` (their eps_M,
    eps_B, eps_W) fixed while `alpha` and the number of clusters are tuned; the source leaves them to the user.

    Parameters
    ----------
    alpha : float, default 1.0
    n_task_clusters : int or float, optional
        r, or a part of the tasks (between 0 and 1); by default half the tasks.
    mean, between, within : float, default 0.1, 1.0, 10.0
        Positive, between <= within.
    loss : {"squared", "logistic", "squared_hinge"}, default "squared"
        1/2 (1 - m)^2, log(1 + exp(-m)) or 1/2 max(0, 1 - m)^2 of the margin m = y (x'w_t + b_t).
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `SparseMTL`.

    Attributes
    ----------
    n_task_clusters_ : int
        Number of clusters used.
    coef_, intercept_, tasks_, classes_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `SparseMTLClassifier`.

    References
    ----------
    Jacob, Bach and Vert, Clustered multi-task learning: a convex formulation, NIPS 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import CMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 3))
    >>> Y = X @ np.column_stack([[1, 1, 0], [1, 1, 0], [0, -1, 1], [0, -1, 1]])
    >>> y = np.where(Y + 0.5 * rng.normal(size=Y.shape) > 0, 1, -1)
    >>> model = CMTL(alpha=1.0, n_task_clusters=2).fit(X, y)
    >>> apart = np.linalg.norm(model.coef_[:, None] - model.coef_, axis=2)
    >>> bool(apart[0, 1] < apart[0, 2])
    True
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **ConvexMTL._rules,
        "alpha": real(0),
        "n_task_clusters": CLUSTERS,
        "mean": real(0, closed="neither"),
        "between": real(0, closed="neither"),
        "within": real(0, closed="neither"),
        "loss": CLASS_LOSSES,
    }

    def __init__(
        self,
        alpha: float = 1.0,
        n_task_clusters: float | None = None,
        *,
        mean: float = 0.1,
        between: float = 1.0,
        within: float = 10.0,
        loss: str = "squared",
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.n_task_clusters = n_task_clusters
        self.mean = mean
        self.between = between
        self.within = within
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen

    def _prepare(self, X: Any, y: Any, *, task_id: Any, sample_weight: Any) -> TaskData:
        data = super()._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        self.n_task_clusters_ = resolve_clusters(self.n_task_clusters, data.n_tasks)
        return data

    def _penalties(self) -> list[Penalty]:
        return [ClusterNorm(self.alpha, self.n_task_clusters_, self.mean, self.between, self.within)]


class FlexClus(ClassifierMTL, ConvexMTL):
    """Flexible clusters (Zhong and Kwok): in every feature the tasks may form other clusters.

    Minimises over w_t = u_t + v_t::

        loss + alpha sum_features sum_{s<t} |u_s - u_t| + ridge ||U||_F^2 + own ||V||_F^2

    with the loss summed over all entries. Convex; the prox of a feature is an isotonic regression; certified by a
    duality gap. Equal entries of a row of `shared_` are a cluster; `own_` holds what is left to the task.

    ``alpha = 0`` learns every task alone (ridge regression); large `alpha` and `own` give one model for all tasks.
    Our reading: the squared loss by default, as in the source's experiments.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the clusters (their lambda_1).
    ridge : float, default 0.1
        Positive (lambda_2).
    own : float, default 1.0
        Positive (lambda_3).
    loss : {"squared", "logistic", "squared_hinge"}, default "squared"
        As of `CMTL`.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `SparseMTL`.

    Attributes
    ----------
    shared_, own_ : ndarray of shape (n_tasks, n_features)
        U and V; `coef_` is their sum.
    coef_, intercept_, tasks_, classes_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `SparseMTLClassifier`.

    References
    ----------
    Zhong and Kwok, Convex multitask learning with flexible task clusters, ICML 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import FlexClus
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 3))
    >>> Y = X @ np.column_stack([[1, 1, 0], [1, 1, 0], [0, -1, 1], [0, -1, 1]])
    >>> y = np.where(Y + 0.5 * rng.normal(size=Y.shape) > 0, 1, -1)
    >>> model = FlexClus(alpha=1.0).fit(X, y)
    >>> apart = np.linalg.norm(model.coef_[:, None] - model.coef_, axis=2)
    >>> bool(apart[0, 1] < apart[0, 2])
    True
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **ConvexMTL._rules,
        "alpha": real(0),
        "ridge": real(0, closed="neither"),
        "own": real(0, closed="neither"),
        "loss": CLASS_LOSSES,
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        ridge: float = 0.1,
        own: float = 1.0,
        loss: str = "squared",
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.alpha = alpha
        self.ridge = ridge
        self.own = own
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen

    def _penalties(self) -> list[Penalty]:
        return [FeatureClusters(self.alpha, self.ridge), SquaredFrobenius(2.0 * self.own)]

    def _publish(self, result: SolverResult) -> None:
        super()._publish(result)
        self.shared_ = np.ascontiguousarray(result.parts[0].T)
        self.own_ = np.ascontiguousarray(result.parts[1].T)
