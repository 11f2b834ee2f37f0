"""Multi-task multiple kernel learning: kernel weights per task, pulled together in
pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mtlrun.estimators.base import BaseMTL, WeightedClassifierMTL, content_key
from mtlrun.estimators.metadata import POWERS, MethodMetadata
from mtlrun.estimators.params import (
    ClassWeight,
    Count,
    NonNegative,
    Positive,
    TaskColumn,
    Unseen,
    real,
)
from mtlrun.problem.memory import fits
from mtlrun.problem.taskdata import Array, TaskData, dense, is_sparse
from mtlrun.solvers.mkl.kernels import InnerProducts, Kernel, make_kernels
from mtlrun.solvers.mkl.machines import GramStore, SvmTasks
from mtlrun.solvers.mkl.mkl import MklResult, solve_alternating, solve_group_mkl

# The machines are this much more accurate than the requested tolerance.
_MACHINES = 0.1
# Merging the equal rows of a task takes this many times the memory of their dense
# table.
_TABLES = 4


_MACHINES_COST = (
    "T SVMs per iteration, each from O(n_t^2) to O(n_t^3); kernel matrices once"
)


class KernelWarmStart(NamedTuple):
    """State that a fit with ``warm_start=True`` leaves for the next one on the same
    data, and for predictions.
    """

    key: str
    tasks: SvmTasks
    weights: list[Array]
    result: MklResult


class _KernelMTL(WeightedClassifierMTL, BaseMTL):
    """SVMs of all tasks with learned combinations of kernels; a subclass defines lam.

    Parameters
    ----------
    C : float, default 1.0
        Cost of margin violations; multiplied by the sample weights.
    kernels : sequence of Kernel or str, default None
        `mtlrun.solvers.mkl.kernels` objects, or ``"linear"``, ``"polynomial(2)"``,
        ``"gaussian(4)"`` for normalized ones. None stands for the paper's ten: linear,
        polynomial of degree 2, Gaussian with spreads 2^0 to 2^7; ``"mean"`` alone is
        their mean, an SVM with equal weights. They use the features unscaled, so scale
        them first.
    tol : float, default 1e-3
        The solver stops at this relative gap between the objective and a rigorous lower
        bound.
    max_iter : int, default 500
        Largest number of iterations.
    cache_size : float, default 1000.0
        Megabytes for kernel matrices; matrices of tasks beyond it are computed anew
        whenever they are needed.
    warm_start : bool, default False
        Keep the kernel matrices and the solution: another `fit` on data of the same
        content with other `C` or `lam` starts from there.

    Attributes
    ----------
    theta_ : ndarray of shape (n_tasks, n_kernels)
        Kernel weights.
    kernels_ : list of Kernel
        The kernels used.
    dual_coef_ : list of n_tasks ndarrays
        alpha_i y_i of the support vectors.
    support_vectors_ : list of n_tasks arrays or sparse arrays
        Support vectors of each task.
    gap_ : float
        Certified relative gap of the solution.
    cycle_ : list of float
        Objective values that repeat for ever; empty unless the variant is "paper" and
        it cycles.
    n_svm_fits_ : int
        Number of SVMs trained.

    Notes
    -----
    Equal rows of a task are merged and rows are sorted before the machines see them, so
    that a weight of k is exactly k repetitions and the order of rows has no influence.
    The score of an unseen task (``unseen="mean"``) is the mean of the scores of all
    tasks.

    References
    ----------
    N. Yousefi, M. Georgiopoulos and G. C. Anagnostopoulos, "Multi-task learning with
    group-specific feature space sharing", ECML PKDD 2015.
    """

    _without = ("coef_",)

    #: Strength of the coupling of the tasks.
    lam = 1.0

    C: Positive = 1.0
    _: KW_ONLY
    kernels: Sequence[str | Kernel] | None = None
    tol: Positive = 1e-3
    max_iter: Count = 500
    cache_size: NonNegative = 1000.0
    warm_start: bool = False

    @property
    def kernels_(self) -> list[Kernel]:
        """The kernels that `fit` was given; made from their names, so that a saved
        model holds no kernel objects.
        """
        return make_kernels(self._specs)

    def _fit_data(self, data: TaskData) -> Any:
        self._specs: Sequence[str | Kernel] | None = self.kernels
        if isinstance(self.kernels, list | tuple):
            self._specs = list(self.kernels)
        kernels = self.kernels_
        warm_start: KernelWarmStart | None = (
            getattr(self, "warm_start_", None) if self.warm_start else None
        )
        key = ""
        if self.warm_start:
            key = content_key(data, kernels)
        start = None
        if warm_start is not None and warm_start.key == key:
            weights = warm_start.weights
            start = warm_start.result
            tasks = warm_start.tasks.again(
                [self.C * w for w in weights], _MACHINES * self.tol
            )
        else:
            designs, labels, weights = _canonical(data)
            grams = GramStore(kernels, designs, self.cache_size * 1e6)
            tasks = SvmTasks(
                grams, labels, [self.C * w for w in weights], _MACHINES * self.tol
            )
        result = self._solve(tasks, start)
        if self.warm_start:
            self.warm_start_ = KernelWarmStart(key, tasks, weights, result)
        chosen = [np.flatnonzero(point.dual) for point in result.points]
        self.support_vectors_ = [
            tasks.grams.designs[t][rows] for t, rows in enumerate(chosen)
        ]
        self.dual_coef_ = [
            point.dual[rows] for point, rows in zip(result.points, chosen, strict=True)
        ]
        return result

    def _solve(self, tasks: SvmTasks, start: MklResult | None) -> MklResult:
        return solve_group_mkl(
            tasks, float(self.lam), start=start, tol=self.tol, max_iter=self.max_iter
        )

    def _publish(self, result: Any) -> None:
        self.theta_ = result.theta
        self.intercept_ = np.array([point.intercept for point in result.points])
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.objective_ = list(result.objective)
        self.gap_ = self.stop_crit_ = result.gap
        self.n_svm_fits_ = result.info["n_fits"]
        self.cycle_ = list(result.info.get("cycle", []))
        if not result.converged:
            warnings.warn(
                self._convergence_message(result), ConvergenceWarning, stacklevel=3
            )

    def _convergence_message(self, result: Any) -> str:
        if not self.cycle_:
            return super()._convergence_message(result)
        return (
            f"{type(self).__name__} did not converge: {result.message}. The best "
            f"objective is at least {result.gaps[-1][2]:.6g}; variant='corrected' "
            "reaches it."
        )

    def _scores_of_tasks(self, X: Any) -> Array:
        return np.column_stack(
            [self._scores_of_task(X, t) for t in range(len(self.tasks_))]
        )

    def _scores_of_rows(self, X: Any, codes: Array) -> Array:
        scores = np.empty(X.shape[0])
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            part = X[rows]
            scores[rows] = (
                self._scores_of_task(part, code)
                if code >= 0
                else self._scores_of_tasks(part).mean(axis=1)
            )
        return scores

    def _scores_of_task(self, X: Any, t: int) -> Array:
        """Return the scores of all rows by one task's machine, (n,)."""
        warm_start: KernelWarmStart | None = None
        if self.warm_start:
            warm_start = getattr(self, "warm_start_", None)
        if warm_start is not None and not is_sparse(X):
            # The last fit has kept its kernels, and with them the training rows.
            point = warm_start.result.points[t]
            used = np.flatnonzero(self.theta_[t])
            grams = warm_start.tasks.grams.cross(t, X)
            images = grams[used] @ point.dual
            return np.asarray(self.intercept_[t] + self.theta_[t, used] @ images)
        scores = np.full(X.shape[0], self.intercept_[t])
        if self.dual_coef_[t].size:
            products = InnerProducts(X, self.support_vectors_[t])
            for weight, kernel in zip(self.theta_[t], self.kernels_, strict=True):
                if weight > 0:
                    gram = kernel.of(products)
                    scores += weight * (gram @ self.dual_coef_[t])
        return scores


class GroupMKLClassifier(_KernelMTL):
    """Support vector machines with kernel weights per task that are pulled together in
    pairs (MT-MKL).

    Minimizes over machines (w_t^m, b_t) and kernel weights theta_t of each task::

        sum_t sum_m ||w_t^m||^2 / (2 theta_t^m) + C sum_t sum_i max(0, 1 - y_ti f_t(x_ti))
            + lam sum_{s<t} ||theta_s - theta_t||_2,      theta_t >= 0,  sum_m theta_t^m <= 1

    with f_t = sum_m <w_t^m, phi_m> + b_t. The problem is convex. Tasks that gain from
    it end up with *equal* weights and form a group. ``lam=0`` learns each task
    separately (`IndependentMKLClassifier`); from ``lam = max ||q_s - q_t|| / T`` on all
    weights are equal (`SharedMKLClassifier`).

    Parameters
    ----------
    lam : float, default 1.0
        Strength of the coupling, from 0 to infinity.
    variant : {"corrected", "paper"}, default "corrected"
        Proximal gradient, which descends and is certified; or the alternating algorithm
        as printed, which cycles on most data and reports it (`cycle_`).

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import GroupMKLClassifier
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> Y = np.sign(np.column_stack([X[:, 0], X[:, 0] ** 2 - X[:, 1] ** 2]))
    >>> model = GroupMKLClassifier(lam=0.1, kernels=["linear", "polynomial(2)"])
    >>> model = model.fit(X, Y)
    >>> model.theta_.argmax(axis=1).tolist()
    [0, 1]
    """

    metadata = MethodMetadata(
        digits=2,
        cite=("yousefi2015",),
        complexity=f"{_MACHINES_COST}; O(T^2 M) per iteration of the theta-step",
        default_grid={"C": POWERS, "lam": POWERS},
        fast={"variant": "corrected"},
        losses=("hinge",),
    )

    def __init__(
        self,
        C: Positive = 1.0,
        lam: Annotated[float, real(0, closed="both")] = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        class_weight: ClassWeight = None,
        kernels: Sequence[str | Kernel] | None = None,
        tol: Positive = 1e-3,
        max_iter: Count = 500,
        cache_size: NonNegative = 1000.0,
        warm_start: bool = False,
        variant: Literal["corrected", "paper"] = "corrected",
    ) -> None:
        self.C = C
        self.lam = lam
        self.task_column = task_column
        self.unseen = unseen
        self.class_weight = class_weight
        self.kernels = kernels
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.variant = variant

    def _solve(self, tasks: SvmTasks, start: MklResult | None) -> MklResult:
        if self.variant == "corrected":
            return super()._solve(tasks, start)
        return solve_alternating(
            tasks, float(self.lam), start=start, tol=self.tol, max_iter=self.max_iter
        )


class IndependentMKLClassifier(_KernelMTL):
    """Multiple kernel learning, separate per task ("STL").

    Minimizes the objective of `GroupMKLClassifier` with ``lam=0``::

        sum_t sum_m ||w_t^m||^2 / (2 theta_t^m) + C sum_t sum_i max(0, 1 - y_ti f_t(x_ti))
            subject to theta_t >= 0,  sum_m theta_t^m <= 1
    """

    metadata = replace(
        GroupMKLClassifier.metadata,
        complexity=_MACHINES_COST,
        default_grid={"C": POWERS},
        fast={},
        multitask=False,
    )

    lam = 0.0

    def __init__(
        self,
        C: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        class_weight: ClassWeight = None,
        kernels: Sequence[str | Kernel] | None = None,
        tol: Positive = 1e-3,
        max_iter: Count = 500,
        cache_size: NonNegative = 1000.0,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.task_column = task_column
        self.unseen = unseen
        self.class_weight = class_weight
        self.kernels = kernels
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start


class SharedMKLClassifier(_KernelMTL):
    """Multiple kernel learning with one vector of kernel weights for all tasks ("MTL").

    Minimizes the objective of `GroupMKLClassifier` with infinite `lam`::

        sum_t sum_m ||w_t^m||^2 / (2 theta^m) + C sum_t sum_i max(0, 1 - y_ti f_t(x_ti))
            subject to theta >= 0,  sum_m theta^m <= 1
    """

    metadata = replace(
        GroupMKLClassifier.metadata,
        complexity=_MACHINES_COST,
        default_grid={"C": POWERS},
        fast={},
    )

    lam = float("inf")

    def __init__(
        self,
        C: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        class_weight: ClassWeight = None,
        kernels: Sequence[str | Kernel] | None = None,
        tol: Positive = 1e-3,
        max_iter: Count = 500,
        cache_size: NonNegative = 1000.0,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.task_column = task_column
        self.unseen = unseen
        self.class_weight = class_weight
        self.kernels = kernels
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.warm_start = warm_start


def _canonical(data: TaskData) -> tuple[list[Any], list[Array], list[Array]]:
    """Return design, labels and weights of each task, without rows of weight 0, equal
    rows merged.

    A shared design with the same rows and weights for all tasks stays one object, so
    that its kernel matrices are made once.
    """
    if data.uniform:
        X, Y, w = _merge(data.X, data.Y, data.weights)
        return [X] * data.n_tasks, list(Y.T), [w] * data.n_tasks
    designs = []
    labels = []
    weights = []
    for t in range(data.n_tasks):
        task_X, task_y, task_weights = data.task(t)
        X, Y, w = _merge(task_X, task_y[:, None], task_weights)
        designs.append(X)
        labels.append(Y[:, 0])
        weights.append(w)
    return designs, labels, weights


def _merge(X: Any, Y: Array, w: Array | None) -> tuple[Any, Array, Array]:
    """Return distinct rows (of X and Y together) in sorted order with the sum of
    their weights.
    """
    if w is None:
        w = np.ones(len(Y))
    kept = np.flatnonzero(w > 0)
    X = X[kept]
    Y = Y[kept]
    w = w[kept]
    n_rows, n_features = X.shape
    # Merging saves time, but is not needed for the result.
    if not fits(_TABLES * 8 * n_rows * n_features):
        return X, Y, w
    table = np.column_stack([Y, dense(X)])
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return X[first], Y[first], np.bincount(group.ravel(), weights=w)
