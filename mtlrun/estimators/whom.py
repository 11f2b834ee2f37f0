"""Groups of tasks that share a subspace each (learning with whom to share)."""

from __future__ import annotations

from typing import Any, ClassVar

from mtlrun.estimators.base import ClassifierMTL
from mtlrun.estimators.clustered import CLUSTERS, resolve_clusters
from mtlrun.estimators.convex import CLASS_LOSSES, ConvexMTL
from mtlrun.estimators.params import Rule, integer, real
from mtlrun.penalties.clusters import GroupTrace
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Rotation
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.clustered.whom import Groups, merge_tasks, move_tasks


class Whom(ClassifierMTL, ConvexMTL):
    """Learning with whom to share (Kang, Grauman and Sha): tasks of a group share a subspace of features.

    Minimises over W and over the partitions of the tasks into groups g::

        loss + alpha sum_g ||W_g||_*^2

    with W_g the columns of the group and the loss summed over all entries. For given groups the problem is convex: the
    final solution is certified by a duality gap (`gap_`); the groups themselves are a local optimum.

    Our reading: the source relaxes the groups to diagonal Q_g with sum_g Q_g = I and descends along a square root of Q.
    The objective is concave in Q, so its minima are partitions; here partitions are searched directly. Tasks that were
    learnt alone are merged greedily, then W is solved for and single tasks moved to other groups, in turn, until no
    move lowers the objective: monotone, and without random starts.

    One group is the trace norm for all tasks; as many groups as tasks is ridge regression of every task alone.

    Parameters
    ----------
    alpha : float, default 1.0
    n_task_clusters : int or float, optional
        Number of groups, or a part of the tasks (between 0 and 1); by default half the tasks.
    loss : {"logistic", "squared", "squared_hinge"}, default "logistic"
        As in the source. See `CMTL`.
    max_moves : int, default 10
        Rounds of solving for W and moving tasks.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `SparseMTL`.

    Attributes
    ----------
    groups_ : list of lists of int
        Positions in `tasks_`.
    n_task_clusters_ : int
    coef_, intercept_, tasks_, classes_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `SparseMTLClassifier`; `objective_`, `gap_`, `n_iter_` of the last solution for W.

    References
    ----------
    Kang, Grauman and Sha, Learning with whom to share in multi-task feature learning, ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import Whom
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 6))
    >>> W = np.zeros((6, 4))
    >>> W[0, :2], W[1, :2], W[3, 2:], W[4, 2:] = [2, -1], [1, 2], [2, 1], [-1, 2]
    >>> y = np.where(X @ W > 0, 1, -1)
    >>> model = Whom(alpha=0.5, n_task_clusters=2).fit(X, y)
    >>> float(model.score(X, y)) > 0.8
    True
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **ConvexMTL._rules,
        "alpha": real(0),
        "n_task_clusters": CLUSTERS,
        "loss": CLASS_LOSSES,
        "max_moves": integer(1),
    }

    def __init__(
        self,
        alpha: float = 1.0,
        n_task_clusters: float | None = None,
        *,
        loss: str = "logistic",
        max_moves: int = 10,
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
        self.loss = loss
        self.max_moves = max_moves
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
        self.groups_: Groups = [[t] for t in range(data.n_tasks)]
        return data

    def _penalties(self) -> list[Penalty]:
        return [GroupTrace(self.alpha, tuple(tuple(g) for g in self.groups_))]

    def _solve(
        self, data: TaskData, *, start: SolverResult | None = None, rotation: Rotation | None = None
    ) -> SolverResult:
        rotation = self._decompose(data) if rotation is None else rotation
        self.groups_ = [[t] for t in range(data.n_tasks)]
        result = super()._solve(data, start=start, rotation=rotation)
        if self.n_task_clusters_ == data.n_tasks:
            return result
        groups = merge_tasks(result.W, self.n_task_clusters_)
        for _ in range(self.max_moves):
            if groups == self.groups_:
                break
            self.groups_ = groups
            result = super()._solve(data, start=result, rotation=rotation)
            groups = move_tasks(result.W, groups)
        return result
