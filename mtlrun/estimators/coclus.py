"""Linear classifiers with co-clusters of tasks and features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mtlrun.estimators.base import COMMON_RULES, BaseMTL, ClassifierMTL, usual_bytes
from mtlrun.estimators.clustered import CLUSTERS, resolve_clusters
from mtlrun.estimators.convex import CLASS_LOSSES
from mtlrun.estimators.params import BOOLEAN, Rule, integer, real
from mtlrun.problem.losses import LOSSES
from mtlrun.problem.quadratic import preparation_bytes
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.clustered.coclus import solve_coclus


class CoClus(ClassifierMTL, BaseMTL):
    """Co-clusters of tasks and features (Xu, Huang, Chen and Chen): a global part plus a part near rank k.

    Minimises over w_t = p_t + q_t::

        loss + shared sum_t ||p_t - mean(p)||^2 + low_rank sum_{i>k} sigma_i(Q)^2

    with the loss summed over all entries and sigma_i the singular values of Q in descending order: k co-clusters cost
    nothing. Not convex; solved by alternating between W = P + Q for a given subspace of tasks and the subspace, so
    `gap_` is None and `stop_crit_` the decrease in the last round. The objective never rises. (The source takes
    proximal alternating linearised steps, which need thousands of iterations where features are correlated.)

    ``shared = 0`` or ``low_rank = 0`` learns every task alone by least squares; both large give one common model plus a
    part of rank k. Our reading: the squared loss by default; the mean of P is not penalised.

    Parameters
    ----------
    shared : float, default 1.0
        Strength of the global part (their lambda_1).
    low_rank : float, default 1.0
        Strength of the co-clusters (lambda_2).
    n_task_clusters : int or float, optional
        k, or a part of the tasks (between 0 and 1); by default half the tasks.
    loss : {"squared", "logistic", "squared_hinge"}, default "squared"
        As of `CMTL`.
    fit_intercept : bool, default True
    tol : float, default 1e-5
        Decrease of the objective in one round, relative to the objective at zero.
    max_iter : int, default 500
        Rounds.
    task_column, unseen
        As of `SparseMTL`.

    Attributes
    ----------
    shared_, own_ : ndarray of shape (n_tasks, n_features)
        P and Q; `coef_` is their sum.
    n_task_clusters_ : int
    coef_, intercept_, tasks_, classes_, objective_, stop_crit_, n_iter_, converged_, n_features_in_

    References
    ----------
    Xu, Huang, Chen and Chen, Exploiting task-feature co-clusters in multi-task learning, AAAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import CoClus
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> y = np.where(X @ np.column_stack([[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2) > 0, 1, -1)
    >>> model = CoClus(shared=1.0, low_rank=1.0, n_task_clusters=2).fit(X, y)
    >>> model.coef_.shape, bool((model.predict(X) == y).mean() > 0.9)
    ((4, 4), True)
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "shared": real(0),
        "low_rank": real(0),
        "n_task_clusters": CLUSTERS,
        "loss": CLASS_LOSSES,
        "fit_intercept": BOOLEAN,
        "tol": real(0, closed="neither"),
        "max_iter": integer(1),
    }

    def __init__(
        self,
        shared: float = 1.0,
        low_rank: float = 1.0,
        n_task_clusters: float | None = None,
        *,
        loss: str = "squared",
        fit_intercept: bool = True,
        tol: float = 1e-5,
        max_iter: int = 500,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.shared = shared
        self.low_rank = low_rank
        self.n_task_clusters = n_task_clusters
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    def _bytes(self, data: TaskData) -> float:
        bases = preparation_bytes(data, invariant=False)
        return usual_bytes(data, coefficients=20, fields=30) + bases + 8.0 * 8 * data.n_tasks**2

    def _fit_data(self, data: TaskData) -> SolverResult:
        self.n_task_clusters_ = resolve_clusters(self.n_task_clusters, data.n_tasks)
        return solve_coclus(
            data,
            LOSSES[self.loss](),
            self.shared,
            self.low_rank,
            self.n_task_clusters_,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _publish(self, result: SolverResult) -> None:
        super()._publish(result)
        self.shared_ = np.ascontiguousarray(result.parts[0].T)
        self.own_ = np.ascontiguousarray(result.parts[1].T)
