"""Clusters of tasks: around centers, feature by feature, with a common subspace,
with equal coefficients.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from mtlrun.estimators.base import (
    BaseMTL,
    WeightedClassifierMTL,
    content_key,
    usual_bytes,
)
from mtlrun.estimators.convex import (
    ClassLoss,
    ConvexClassifierMTL,
    ConvexMTL,
    ConvexSolver,
    Intercepts,
)
from mtlrun.estimators.metadata import BOX_COST, POWERS, MethodMetadata
from mtlrun.estimators.params import (
    NONE,
    ClassWeight,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    integer,
    real,
)
from mtlrun.penalties.clusters import ClusterNorm, FeatureClusters, GroupTrace
from mtlrun.penalties.norms import SquaredFrobenius
from mtlrun.problem.losses import LOSSES
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation, RowSpace, preparation_bytes
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.clustered import (
    Groups,
    merge_tasks,
    move_tasks,
    random_groups,
    solve_coclus,
    solve_metag,
)

#: Rounds in which `Whom` solves for W and moves tasks, at most.
MAX_MOVES = 10
#: A number of clusters, a fraction of the tasks, or None.
Clusters = Annotated[float | None, integer(1) | real(0, 1, closed="neither") | NONE]


def resolve_clusters(n_clusters: float | None, n_tasks: int) -> int:
    """Return the number of clusters of tasks: an int as it is, a fraction of the tasks
    rounded, None for half of them.

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
            f"n_task_clusters={n_clusters}, but there are only {n_tasks} tasks; use at "
            f"most {n_tasks}, or None for half of them"
        )
    return int(n_clusters)


class _Grouped(BaseMTL):
    """Tasks in a number of clusters.

    Attributes
    ----------
    n_task_clusters_ : int
        Number of clusters used.
    """

    def _prepare(self, X: Any, y: Any, *, task_id: Any, sample_weight: Any) -> TaskData:
        data = super()._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        wanted = self.n_task_clusters  # a parameter of the subclasses, in their order
        self.n_task_clusters_ = resolve_clusters(wanted, data.n_tasks)
        return data


class _SquaredByDefault(ConvexClassifierMTL):
    """The squared loss, as in the experiments of the papers, unless another one is
    chosen.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "squared"}, default "squared"
        Loss of the margin m = y (x'w_t + b_t): log(1 + exp(-m)), 1/2 max(0, 1 - m)^2,
        or 1/2 (1 - m)^2.
    """

    _: KW_ONLY
    loss: ClassLoss = "squared"


class CMTL(_SquaredByDefault, _Grouped, ConvexMTL):
    """Classification tasks near the centers of clusters, by a convex relaxation (CMTL).

    Minimizes, with w_mean the mean of the tasks and D their deviations from it::

        loss + alpha (mean T ||w_mean||^2 + min_S tr(D S^{-1} D'))
        subject to I/within <= S <= I/between, tr(S) = (r - 1)/between + (T - r)/within

    where S is symmetric and acts on the T - 1 directions of the tasks that are
    orthogonal to their mean. This relaxes ``between * variance between clusters +
    within * variance within clusters``. It is solved with the closed form of the
    proximal step, without alternation. (`ClusteredMTL` is another relaxation, without
    the mean.)

    ``between = within = mean`` is a separate ridge regression per task; one cluster
    with a large `within` is one model for all tasks.

    Parameters
    ----------
    alpha : float, default 1.0
        Regularization strength.
    n_task_clusters : int or float, default None
        Number r of clusters, or a fraction of the tasks (between 0 and 1); None is half
        the tasks.
    mean : float, default 0.1
        Weight of the mean of the tasks.
    between : float, default 1.0
        Weight of the variance between clusters, at most `within`.
    within : float, default 10.0
        Weight of the variance within clusters.

    Notes
    -----
    Our interpretation of the paper: the squared loss by default, and the weights
    `mean`, `between` and `within` (its eps_M, eps_B, eps_W) fixed while `alpha` and the
    number of clusters are tuned; the paper leaves them to the user.

    References
    ----------
    L. Jacob, F. Bach and J.-P. Vert, "Clustered multi-task learning: a convex
    formulation", NIPS 2008.

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

    metadata = MethodMetadata(
        cite=("jacob2008",), complexity=BOX_COST, default_grid={"alpha": POWERS}
    )

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        n_task_clusters: Clusters = None,
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
        loss: ClassLoss = "squared",
        mean: Positive = 0.1,
        between: Positive = 1.0,
        within: Positive = 10.0,
    ) -> None:
        self.alpha = alpha
        self.n_task_clusters = n_task_clusters
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
        self.mean = mean
        self.between = between
        self.within = within

    def _penalties(self) -> list[Penalty]:
        return [
            ClusterNorm(
                self.alpha, self.n_task_clusters_, self.mean, self.between, self.within
            )
        ]


class FlexClus(_SquaredByDefault, ConvexMTL):
    """Classification tasks with clusters that may differ from feature to feature
    (FlexClus).

    The coefficients w_t = u_t + v_t minimize::

        loss + alpha sum_features sum_{s<t} |u_s - u_t| + ridge ||U||_F^2 + own ||V||_F^2

    The proximal step of a feature is an isotonic regression. Tasks with equal entries
    in a column of `shared_` are a cluster for that feature; `own_` is the rest of each
    task.

    ``alpha = 0`` learns each task separately (ridge regression); large `alpha` and
    `own` give one model for all tasks.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the clusters (lambda_1 of the paper).
    ridge : float, default 0.1
        Strength of the squared norm of the shared part (lambda_2).
    own : float, default 1.0
        Strength of the squared norm of the tasks' own part (lambda_3).

    Attributes
    ----------
    shared_, own_ : ndarray of shape (n_tasks, n_features)
        The two parts U' and V'; their sum is `coef_`.

    References
    ----------
    L. W. Zhong and J. T. Kwok, "Convex multitask learning with flexible task clusters",
    ICML 2012.

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

    metadata = MethodMetadata(
        cite=("zhong2012",),
        complexity="O(N d + d T log T) per iteration",
        default_grid={"alpha": POWERS, "own": POWERS},
    )
    _part_names = ("shared_", "own_")

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
        loss: ClassLoss = "squared",
        ridge: Positive = 0.1,
        own: Positive = 1.0,
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
        self.ridge = ridge
        self.own = own

    def _penalties(self) -> list[Penalty]:
        return [
            FeatureClusters(self.alpha, self.ridge),
            SquaredFrobenius(2.0 * self.own),
        ]


class Whom(ConvexClassifierMTL, _Grouped, ConvexMTL):
    """Classification tasks in groups that share a subspace of the features (learning
    with whom to share).

    Minimizes over W and over the partitions of the tasks into groups g::

        loss + alpha sum_g ||W_g||_*^2

    with W_g the columns of the group. For given groups the problem is convex, and the
    final solution is certified by a duality gap; the groups themselves are a local
    optimum. One group is the trace norm for all tasks; as many groups as tasks is a
    separate ridge regression per task.

    Parameters
    ----------
    alpha : float, default 1.0
        Regularization strength.
    n_task_clusters : int or float, default None
        Number of groups, or a fraction of the tasks (between 0 and 1); None is half the
        tasks.
    n_init : int, default 5
        Number of starts; the solution with the lowest objective is kept.
    random_state : int, RandomState or None, default 0
        Of the random starts.

    Attributes
    ----------
    groups_ : list of lists of int
        Positions in `tasks_` of the tasks of each group.

    Notes
    -----
    The paper relaxes the groups to diagonal matrices Q_g with sum_g Q_g = I and
    descends along a square root of Q. The objective is concave in Q, so its minima are
    partitions, and mtlrun searches these directly: separately learned tasks are merged
    greedily (the first start; others are random groups). Then solving for W and moving
    single tasks to other groups alternate until no move lowers the objective, which
    never increases but ends in a local optimum. `objective_`, `gap_` and `n_iter_`
    belong to the last solution for W.

    References
    ----------
    Z. Kang, K. Grauman and F. Sha, "Learning with whom to share in multi-task feature
    learning", ICML 2011.

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

    metadata = MethodMetadata(
        cite=("kang2011",),
        complexity=(
            "per iteration one SVD per group; O(T^2) small eigenvalue problems per "
            "round of moves"
        ),
        default_grid={"alpha": POWERS},
        changes=("random groups and moves follow no order of the tasks any more",),
    )

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        n_task_clusters: Clusters = None,
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
        n_init: Count = 5,
        random_state: Any = 0,
    ) -> None:
        self.alpha = alpha
        self.n_task_clusters = n_task_clusters
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
        self.n_init = n_init
        self.random_state = random_state

    def _prepare(self, X: Any, y: Any, *, task_id: Any, sample_weight: Any) -> TaskData:
        data = super()._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        self.groups_: Groups = [[t] for t in range(data.n_tasks)]
        return data

    def _bytes(self, data: TaskData) -> float:
        return super()._bytes(data) + 8.0 * 8 * data.n_tasks**2  # gains of all pairs

    def _penalties(self) -> list[Penalty]:
        return [GroupTrace(self.alpha, tuple(tuple(g) for g in self.groups_))]

    def _solve(
        self,
        data: TaskData,
        *,
        start: SolverResult | None = None,
        rotation: Rotation | None = None,
    ) -> SolverResult:
        if rotation is None:
            rotation = self._decompose(data)
        solve = super()._solve
        self.groups_ = [[t] for t in range(data.n_tasks)]
        alone = solve(data, start=start, rotation=rotation)
        k = self.n_task_clusters_
        seen = list[Groups]()
        if k == data.n_tasks:
            return alone
        best = alone
        best_groups = self.groups_
        rng = check_random_state(self.random_state)
        # Random groups are drawn, and tasks moved, in the order of the size of their
        # coefficients: names and positions of tasks must not matter.
        order = np.argsort(np.linalg.norm(alone.W, axis=0), kind="stable")
        for i in range(self.n_init if k > 1 else 1):
            groups = merge_tasks(alone.W[:, order], k)
            if i > 0:
                groups = random_groups(data.n_tasks, k, rng)
            result = alone
            for _ in range(MAX_MOVES):
                if groups in seen:  # the rest is known, or there is no more to gain
                    break
                seen.append(groups)
                # Ranks become positions, in the order of their first task.
                positions = [sorted(order[group].tolist()) for group in groups]
                self.groups_ = sorted(positions)
                result = solve(data, start=result, rotation=rotation)
                if len(seen) == 1 or result.objective[-1] < best.objective[-1]:
                    best = result
                    best_groups = self.groups_
                groups = move_tasks(result.W[:, order], groups)
        self.groups_ = best_groups
        return best


class ClusteredWarmStart(NamedTuple):
    """State that a fit with ``warm_start=True`` leaves for the next one on the same
    data.
    """

    key: str
    space: RowSpace
    result: SolverResult | None = None


class _WarmInRowSpace(BaseMTL):
    """Models that are fitted in the row space of the data.

    Parameters
    ----------
    fit_intercept : bool, default True
        Whether to fit an intercept per task. Intercepts are not penalized.
    """

    _: KW_ONLY
    fit_intercept: bool = True
    warm_start: bool = False

    def _recall(self, data: TaskData) -> ClusteredWarmStart:
        """Return what an earlier fit on data of this content left, or else the
        decomposition alone.
        """
        key = ""
        if self.warm_start:
            key = content_key(data, self.fit_intercept)
        kept: ClusteredWarmStart | None = (
            getattr(self, "warm_start_", None) if self.warm_start else None
        )
        if kept is not None and kept.key == key:
            return kept
        return ClusteredWarmStart(key, RowSpace.of(data, self.fit_intercept))


class CoClus(_SquaredByDefault, _Grouped, _WarmInRowSpace):
    """Classification tasks with co-clusters of tasks and features: a global part plus a
    part near rank k (CoClus).

    The coefficients w_t = p_t + q_t minimize::

        loss + shared sum_t ||p_t - mean(p)||^2 + low_rank sum_{i>k} sigma_i(Q)^2 + ridge ||W||_F^2

    with sigma_i the singular values of Q in descending order: k co-clusters are not
    penalized. The problem is not convex. The solver alternates between W = P + Q for a
    given subspace of tasks, and the subspace; the objective never increases. (The paper
    uses proximal alternating linearized steps, which need thousands of iterations if
    features are correlated.)

    ``shared = 0`` or ``low_rank = 0`` learns each task separately by least squares;
    large values of both give one common model plus a part of rank k. The mean of P is
    not penalized.

    Parameters
    ----------
    shared : float, default 1.0
        Strength of the global part (lambda_1 of the paper).
    low_rank : float, default 1.0
        Strength of the co-clusters (lambda_2).
    n_task_clusters : int or float, default None
        Number k of co-clusters, or a fraction of the tasks (between 0 and 1); None is
        half the tasks.
    ridge : float, default 0.0
        Strength of the squared norm. The paper has none; without it, nothing penalizes
        the common part and the k co-clusters, which overfits tasks with fewer rows than
        features.
    tol : float, default 1e-5
        The solver stops when further rounds would lower the objective by at most this
        fraction of the objective at zero, as the rate of the last rounds predicts.
    max_iter : int, default 500
        Largest number of rounds. With few rows per feature more may be needed.
    warm_start : bool, default False
        Keep the decomposition of the data for another `fit` on data of the same content
        (a digest is compared). The solution is not kept: which local optimum is found
        must not depend on earlier fits.

    Attributes
    ----------
    shared_, own_ : ndarray of shape (n_tasks, n_features)
        The two parts P' and Q'; their sum is `coef_`.
    stop_crit_ : float
        The fraction that `tol` bounds; `gap_` is None.

    References
    ----------
    L. Xu, A. Huang, J. Chen and E. Chen, "Exploiting task-feature co-clusters in
    multi-task learning", AAAI 2015.

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

    metadata = MethodMetadata(
        cite=("xu2015",),
        complexity=(
            "O(N d) per step of conjugate gradients; once an eigendecomposition of "
            "every task's X"
        ),
        default_grid={"shared": POWERS, "low_rank": POWERS},
        changes=(
            "The descent stops when little is left to gain; it used to stop when one "
            "round gained little.",
        ),
    )
    _part_names = ("shared_", "own_")

    def __init__(
        self,
        shared: NonNegative = 1.0,
        low_rank: NonNegative = 1.0,
        n_task_clusters: Clusters = None,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        loss: ClassLoss = "squared",
        ridge: NonNegative = 0.0,
        tol: Positive = 1e-5,
        max_iter: Count = 500,
    ) -> None:
        self.shared = shared
        self.low_rank = low_rank
        self.n_task_clusters = n_task_clusters
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.loss = loss
        self.ridge = ridge
        self.tol = tol
        self.max_iter = max_iter

    def _bytes(self, data: TaskData) -> float:
        bases = preparation_bytes(data, invariant=False)
        return (
            usual_bytes(data, coefficients=20, fields=30)
            + bases
            + 8.0 * 8 * data.n_tasks**2
        )

    def _fit_data(self, data: TaskData) -> SolverResult:
        warm_start = self._recall(data)
        result = solve_coclus(
            data,
            LOSSES[self.loss](),
            self.shared,
            self.low_rank,
            self.n_task_clusters_,
            ridge=self.ridge,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            space=warm_start.space,
        )
        if self.warm_start:
            self.warm_start_ = warm_start
        return result


class MeTaG(WeightedClassifierMTL, _WarmInRowSpace):
    """Classification tasks in groups with equal coefficients, by a penalty on pairwise
    differences (MeTaG).

    Minimizes::

        1/2 sum_t sum_i (y_ti - x_ti'w_t - b_t)^2 + alpha sum_{s<t} ||w_s - w_t||_2 + ridge/2 ||W||_F^2

    It is solved by the consensus ADMM that also makes the theta-step of
    `GroupMKLClassifier`, up to a duality gap. ``alpha = 0`` learns each task separately
    (the solution of smallest norm where it is not unique); from a finite `alpha` on
    there is one model for all tasks.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength of the differences.
    ridge : float, default 0.0
        Strength of the squared norm. The paper has none; without it, nothing penalizes
        the common part of all tasks, which overfits tasks with fewer rows than
        features.
    tol : float, default 1e-4
        The solver stops at this relative duality gap, (P - D) / max(|P|, |D|, P0 /
        1000), where P0 is the objective of zero coefficients (with the means of the
        tasks as intercepts for the squared loss).
    max_iter : int, default 5000
        Largest number of iterations.
    warm_start : bool, default False
        Keep the decomposition of the data and the solution: another `fit` on data of
        the same content (a digest is compared) with other strengths starts from there.

    Notes
    -----
    The paper has H levels, W = sum_h W_h, with the strengths alpha / phi^(h-1) of the
    *same* seminorm on every level. Such a sum of levels equals the single level with
    the smallest strength, so only one level is implemented: pass the strength of the
    last level.

    References
    ----------
    L. Han and Y. Zhang, "Learning multi-level task groups in multi-task learning", AAAI
    2015.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import MeTaG
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> y = np.where(X @ np.column_stack([[1, 1, 0]] * 2 + [[0, -1, 1]] * 2) > 0, 1, -1)
    >>> model = MeTaG(alpha=2.0, ridge=0.1).fit(X, y)
    >>> apart = np.linalg.norm(model.coef_[:, None] - model.coef_, axis=2)
    >>> bool(apart[0, 1] < apart[0, 2])
    True
    """

    metadata = MethodMetadata(
        cite=("han2015",),
        complexity=(
            "O(T^2 d) per iteration; once an eigendecomposition of every task's X"
        ),
        default_grid={"alpha": POWERS},
    )

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fit_intercept: bool = True,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        ridge: NonNegative = 0.0,
        tol: Positive = 1e-4,
        max_iter: Count = 5000,
    ) -> None:
        self.alpha = alpha
        self.task_column = task_column
        self.unseen = unseen
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.ridge = ridge
        self.tol = tol
        self.max_iter = max_iter

    def _fit_data(self, data: TaskData) -> SolverResult:
        warm_start = self._recall(data)
        result = solve_metag(
            data,
            self.alpha,
            ridge=self.ridge,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            space=warm_start.space,
            start=warm_start.result,
        )
        if self.warm_start:
            self.warm_start_ = warm_start._replace(result=result)
        return result
