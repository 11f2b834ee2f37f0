"""Convex relaxations of clustered tasks and of a shared subspace: one spectral penalty, two readings."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from mtlrun.estimators.base import ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import CLASS_LOSSES, ConvexMTL
from mtlrun.estimators.params import Rule, integer, real
from mtlrun.estimators.robust import DegenerateModelWarning
from mtlrun.penalties.spectral import SpectralBox, fill_boxes
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Rotation
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData

Array = np.ndarray[Any, np.dtype[Any]]


class _Spectral(ConvexMTL):
    """loss + SpectralBox(alpha, eta, k); a subclass names the parameter k."""

    _k: ClassVar[str]
    _rules: ClassVar[dict[str, Rule]] = {**ConvexMTL._rules, "alpha": real(0), "eta": real(0, closed="neither")}
    alpha: float
    eta: float

    def _penalties(self) -> list[Penalty]:
        return [SpectralBox(self.alpha, self.eta, getattr(self, self._k))]

    def _solve(
        self, data: TaskData, *, start: SolverResult | None = None, rotation: Rotation | None = None
    ) -> SolverResult:
        k, rank = getattr(self, self._k), min(data.n_features, data.n_tasks)
        if k >= rank:
            text = (
                f"{self._k}={k} for {data.n_tasks} tasks with {data.n_features} features: the model is a ridge "
                f"regression of every task with strength 2 * alpha * eta. Take {self._k} < {rank}."
            )
            warnings.warn(text, DegenerateModelWarning, stacklevel=4)
        return super()._solve(data, start=start, rotation=rotation)

    def _directions(self) -> tuple[Array, Array, Array]:
        """Return singular vectors of `coef_` on the sides of tasks and features (columns), and their weights q."""
        U, sigma, Vt = np.linalg.svd(self.coef_, full_matrices=False)
        return U, Vt.T, fill_boxes(sigma, self.eta, getattr(self, self._k))


class _Clustered(_Spectral):
    _k: ClassVar[str] = "n_clusters"
    _rules: ClassVar[dict[str, Rule]] = {**_Spectral._rules, "n_clusters": integer(1)}
    n_clusters: int

    def task_relation(self) -> Array:
        """Return M (n_tasks, n_tasks) of the fitted model; tasks of one cluster have large entries together."""
        tasks, _, q = self._directions()
        return (tasks * q) @ tasks.T


class _SharedSubspace(_Spectral):
    _k: ClassVar[str] = "n_components"
    _rules: ClassVar[dict[str, Rule]] = {**_Spectral._rules, "n_components": integer(1)}
    n_components: int

    def shared_subspace(self) -> tuple[Array, Array]:
        """Return directions (r, n_features) of the features that tasks share, and their weights (r,) in (0, 1]."""
        _, features, q = self._directions()
        used = q > 0
        return features.T[used], q[used]


class ClusteredMTL(RegressorMTL, _Clustered):
    """Clustered multi-task learning, convex relaxation (CMTL).

    Minimises over W and a symmetric matrix M of the tasks::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha eta (1 + eta) tr(W (eta I + M)^{-1} W')

    subject to ``0 <= M <= I`` and ``tr(M) = n_clusters``, W with the tasks as columns. M relaxes the matrix that says
    which tasks are in one cluster. For a given W the best M is known in closed form, which leaves a penalty on the
    singular values of W (`SpectralBox`): the `n_clusters` leading directions cost alpha eta, the others
    alpha (1 + eta), times the square. So nothing is alternated and the answer has a duality gap. For
    ``n_clusters >= min(n_tasks, n_features)`` the model is a ridge regression of every task, of which a
    `DegenerateModelWarning` is given.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength. There is no `alpha_max`: the penalty is quadratic, no strength makes coefficients exactly zero.
    eta : float, default 1.0
        Positive; the smaller, the more the leading directions are preferred.
    n_clusters : int, default 2
        Number of clusters of tasks.
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
    Zhou, Chen and Ye, Clustered multi-task learning via alternating structure optimization, NIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators.clustered_convex import ClusteredMTL
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> W = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, -1], [0, 0, 1, -1]]).T
    >>> model = ClusteredMTL(alpha=1.0, eta=0.1, n_clusters=2).fit(X, X @ W)
    >>> (model.task_relation() > 0.25).astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """

    def __init__(
        self,
        alpha: float = 1.0,
        eta: float = 1.0,
        n_clusters: int = 2,
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
        self.eta = eta
        self.n_clusters = n_clusters
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class ClusteredMTLClassifier(ClassifierMTL, _Clustered):
    """Clustered multi-task classification, convex relaxation.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha eta (1 + eta) min_M tr(W (eta I + M)^{-1} W')`` with M as
    of `ClusteredMTL` and labels -1/+1 inside.

    Parameters
    ----------
    alpha, eta, n_clusters
        As of `ClusteredMTL`.
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `ClusteredMTL`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `ClusteredMTL`.
    """

    _rules: ClassVar[dict[str, Rule]] = {**_Clustered._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        eta: float = 1.0,
        n_clusters: int = 2,
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
        self.eta = eta
        self.n_clusters = n_clusters
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class ConvexASO(RegressorMTL, _SharedSubspace):
    """Alternating structure optimisation, convex relaxation (cASO): tasks that share a subspace of the features.

    Minimises over W and a symmetric matrix M of the features::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + alpha eta (1 + eta) tr(W' (eta I + M)^{-1} W)

    subject to ``0 <= M <= I`` and ``tr(M) = n_components``. M relaxes the projection on the shared subspace, returned
    by `shared_subspace`. The penalty depends on the singular values of W alone and is the one of `ClusteredMTL` with
    ``n_clusters = n_components``: the two models are the same, seen from the features or from the tasks. For
    ``n_components >= min(n_tasks, n_features)`` it is a ridge regression of every task, of which a
    `DegenerateModelWarning` is given.

    Parameters
    ----------
    alpha : float, default 1.0
    eta : float, default 1.0
    n_components : int, default 2
        Dimension of the shared subspace.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `ClusteredMTL`.

    Attributes
    ----------
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `ClusteredMTL`.

    References
    ----------
    Chen, Tang, Liu and Ye, A convex formulation for learning shared structures from multiple tasks, ICML 2009.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        eta: float = 1.0,
        n_components: int = 2,
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
        self.eta = eta
        self.n_components = n_components
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class ConvexASOClassifier(ClassifierMTL, _SharedSubspace):
    """Convex alternating structure optimisation for classification.

    Minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha eta (1 + eta) min_M tr(W' (eta I + M)^{-1} W)`` with M as
    of `ConvexASO` and labels -1/+1 inside.

    Parameters
    ----------
    alpha, eta, n_components
        As of `ConvexASO`.
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `ClusteredMTL`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `ClusteredMTL`.
    """

    _rules: ClassVar[dict[str, Rule]] = {**_SharedSubspace._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        eta: float = 1.0,
        n_components: int = 2,
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
        self.eta = eta
        self.n_components = n_components
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen
