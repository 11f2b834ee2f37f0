"""The convex relaxation of clustered tasks and of a shared subspace (they are the
same).

The penalty depends on the singular values of W alone, so the model has two sides: its
leading directions among the tasks are clusters (`ClusteredMTL`), those among the
features a shared subspace (`ConvexASO`, another name of the same model).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np

from mtlrun.estimators.base import DegenerateModelWarning, RegressorMTL
from mtlrun.estimators.convex import (
    ClassLoss,
    ConvexClassifierMTL,
    ConvexMTL,
    ConvexSolver,
    Intercepts,
)
from mtlrun.estimators.metadata import BOX_COST, STRENGTHS, MethodMetadata
from mtlrun.estimators.params import (
    ClassWeight,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
)
from mtlrun.penalties.norms import SpectralBox, fill_boxes
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import Array, TaskData


class _Spectral(ConvexMTL):
    """loss + SpectralBox(alpha, eta, k); a subclass names the parameter k.

    Parameters
    ----------
    alpha : float, default 1.0
        Regularization strength. There is no `alpha_max`: the penalty is quadratic, and
        no strength makes coefficients exactly zero.
    eta : float, default 1.0
        Positive; the smaller, the more the leading directions are preferred.
    """

    alpha: NonNegative = 1.0
    eta: Positive = 1.0
    _k: ClassVar[str]

    def _penalties(self) -> list[Penalty]:
        return [SpectralBox(self.alpha, self.eta, getattr(self, self._k))]

    def _warn_of(self, data: TaskData) -> None:
        k = getattr(self, self._k)
        rank = min(data.n_features, data.n_tasks)
        if k >= rank:
            text = (
                f"{self._k}={k} for {data.n_tasks} tasks with {data.n_features} "
                "features: the model is a ridge regression of every task with "
                f"strength 2 * alpha * eta. Take {self._k} < {rank}."
            )
            warnings.warn(text, DegenerateModelWarning, stacklevel=5)

    def task_relation(self) -> Array:
        """Return M (n_tasks, n_tasks) of the fitted model; tasks of one cluster have
        large entries together.
        """
        tasks, _, q = self._directions()
        return (tasks * q) @ tasks.T

    def shared_subspace(self) -> tuple[Array, Array]:
        """Return directions (r, n_features) of the features that tasks share, and
        their weights (r,) in (0, 1].
        """
        _, features, q = self._directions()
        used = q > 0
        return features.T[used], q[used]

    def _directions(self) -> tuple[Array, Array, Array]:
        """Return singular vectors of `coef_` on the sides of tasks and features
        (columns), and their weights q.
        """
        U, sigma, Vt = np.linalg.svd(self.coef_, full_matrices=False)
        return U, Vt.T, fill_boxes(sigma, self.eta, getattr(self, self._k))


def _metadata(
    k: str, few: tuple[int, ...], cite: str, there: str, alias_of: str = ""
) -> MethodMetadata:
    """Return the metadata of a model whose number of directions is called `k`; a
    search tries `few` of them.
    """
    return MethodMetadata(
        cite=(cite,),
        alias_of=alias_of,
        elsewhere={there: "alpha = rho1, eta = rho2 / rho1"},
        complexity=BOX_COST,
        default_grid={"alpha": STRENGTHS, "eta": (0.01, 0.1, 1.0), k: (2, 5, 10)},
        search=lambda scale: {
            "alpha": scale.times((0.005, 0.03, 0.2), 0.5),
            "eta": [0.1],
            k: [number for number in few if number < scale.tasks] or [1],
        },
    )


class _Clustered(_Spectral):
    """The leading directions on the side of the tasks.

    Parameters
    ----------
    n_clusters : int, default 2
        Number of clusters of tasks.

    Notes
    -----
    M relaxes the matrix that says which tasks are in one cluster; `task_relation`
    returns it. `shared_subspace` returns the same directions among the features, hence
    the model's other name, `ConvexASO`. For a given W the best M is known in closed
    form, which leaves a penalty on the singular values of W: the `n_clusters` leading
    directions cost alpha eta times the square, the others alpha (1 + eta). Hence
    nothing is alternated, and the solution has a duality gap. For ``n_clusters >=
    min(n_tasks, n_features)`` the model is a ridge regression of each task, and `fit`
    gives a `DegenerateModelWarning`.

    References
    ----------
    J. Zhou, J. Chen and J. Ye, "Clustered multi-task learning via alternating structure
    optimization", NIPS 2011.
    """

    metadata = _metadata(
        "n_clusters", (1, 2, 3, 5), "zhou2011clustered", "MALSAR `Least_CMTL`"
    )
    _k = "n_clusters"

    n_clusters: Count = 2


class ClusteredMTL(RegressorMTL, _Clustered):
    """Multi-task regression with clusters of tasks (convex relaxation of CMTL).

    Minimizes over W, with one column per task, and a symmetric matrix M of the tasks::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha eta (1 + eta) tr(W (eta I + M)^{-1} W')
        subject to 0 <= M <= I, tr(M) = n_clusters

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import ClusteredMTL
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> W = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, -1], [0, 0, 1, -1]]).T
    >>> model = ClusteredMTL(alpha=1.0, eta=0.1, n_clusters=2).fit(X, X @ W)
    >>> (model.task_relation() > 0.25).astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        eta: Positive = 1.0,
        n_clusters: Count = 2,
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
        self.eta = eta
        self.n_clusters = n_clusters
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class ClusteredMTLClassifier(ConvexClassifierMTL, _Clustered):
    """Multi-task classification with clusters of tasks (convex relaxation of CMTL).

    Minimizes over W, with one column per task, and a symmetric matrix M of the tasks::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha eta (1 + eta) tr(W (eta I + M)^{-1} W')
        subject to 0 <= M <= I, tr(M) = n_clusters
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        eta: Positive = 1.0,
        n_clusters: Count = 2,
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
        self.eta = eta
        self.n_clusters = n_clusters
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


class _SharedSubspace(_Spectral):
    """Another name of the model of `ClusteredMTL`, with the parameter of its paper.

    Parameters
    ----------
    n_components : int, default 2
        Dimension of the shared subspace.

    Notes
    -----
    This is `ClusteredMTL` with ``n_clusters = n_components``: both penalties depend on
    the singular values of W alone, and are equal. M relaxes the projection on the
    shared subspace, which `shared_subspace` returns; `task_relation` returns the same
    directions among the tasks. For ``n_components >= min(n_tasks, n_features)`` the
    model is a ridge regression of each task, and `fit` gives a
    `DegenerateModelWarning`.

    References
    ----------
    J. Chen, L. Tang, J. Liu and J. Ye, "A convex formulation for learning shared
    structures from multiple tasks", ICML 2009.
    """

    metadata = _metadata(
        "n_components",
        (1, 3),
        "chen2009",
        "MALSAR `Least_CASO`",
        alias_of="ClusteredMTL",
    )
    _k = "n_components"

    n_components: Count = 2


class ConvexASO(RegressorMTL, _SharedSubspace):
    """Convex alternating structure optimization (cASO): another name of `ClusteredMTL`.

    Minimizes over W, with one column per task, and a symmetric matrix M of the
    features::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha eta (1 + eta) tr(W' (eta I + M)^{-1} W)
        subject to 0 <= M <= I, tr(M) = n_components
    """

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        eta: Positive = 1.0,
        n_components: Count = 2,
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
        self.eta = eta
        self.n_components = n_components
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start


class ConvexASOClassifier(ConvexClassifierMTL, _SharedSubspace):
    """cASO for labels: another name of `ClusteredMTLClassifier`.

    Minimizes over W, with one column per task, and a symmetric matrix M of the
    features::

        sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha eta (1 + eta) tr(W' (eta I + M)^{-1} W)
        subject to 0 <= M <= I, tr(M) = n_components
    """

    metadata = replace(_SharedSubspace.metadata, alias_of="ClusteredMTLClassifier")

    def __init__(
        self,
        alpha: NonNegative = 1.0,
        eta: Positive = 1.0,
        n_components: Count = 2,
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
        self.eta = eta
        self.n_components = n_components
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
