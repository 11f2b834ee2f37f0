"""Coefficients that are a sum of a part shared by the tasks and a part of their own, each with a norm."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from mtlrun.estimators.base import ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import CLASS_LOSSES, StrengthMTL
from mtlrun.estimators.params import Rule, real
from mtlrun.estimators.robust import DegenerateModelWarning
from mtlrun.penalties.norms import L1, L12, L21, L1Inf, TraceNorm, mixture_range
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Rotation
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData


class _Mixture(StrengthMTL):
    """loss + alpha (shared(P) + lam own(Q)), W = P + Q; a subclass names the two norms."""

    _shared: ClassVar[type[Penalty]]
    _own: ClassVar[type[Penalty]]
    _rules: ClassVar[dict[str, Rule]] = {**StrengthMTL._rules, "lam": real(0, closed="neither")}
    lam: float

    def _penalties(self) -> list[Penalty]:
        return [self._shared(self.alpha), self._own(self.alpha * self.lam)]

    def _solve(
        self, data: TaskData, *, start: SolverResult | None = None, rotation: Rotation | None = None
    ) -> SolverResult:
        self._warn_if_degenerate((data.n_features, data.n_tasks))
        return super()._solve(data, start=start, rotation=rotation)

    def _warn_if_degenerate(self, shape: tuple[int, int]) -> None:
        low, high = mixture_range(self._shared, self._own, shape)
        if low < self.lam < high:
            return
        what = "own part of the tasks" if self.lam >= high else "part shared by the tasks"
        inside = f"Both parts need {low:.3g} < lam < {high:.3g}" if low < high else "There is no second part"
        text = f"lam={self.lam:g}: the {what} is zero. {inside} ({shape[0]} features, {shape[1]} tasks)."
        warnings.warn(text, DegenerateModelWarning, stacklevel=5)

    def _publish(self, result: SolverResult) -> None:
        super()._publish(result)
        self.shared_ = np.ascontiguousarray(result.parts[0].T)
        self.own_ = np.ascontiguousarray(result.parts[1].T)


class _Regressor(RegressorMTL, _Mixture):
    """Squared loss."""

    def __init__(
        self,
        alpha: float = 1.0,
        lam: float = 0.6,
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
        self.lam = lam
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class _Classifier(ClassifierMTL, _Mixture):
    """A loss for two classes."""

    _rules: ClassVar[dict[str, Rule]] = {**_Mixture._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        alpha: float = 1.0,
        lam: float = 0.6,
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
        self.lam = lam
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class RobustFeatureMTL(_Regressor):
    """Robust multi-task feature learning (rMTFL): features selected jointly, plus outlier tasks.

    W = P + Q (columns are tasks) minimises::

        sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2 + alpha (sum_j ||p^j||_2 + lam sum_t ||q_t||_2)

    with p^j the rows (features) of P. A task whose column of Q is not zero is an outlier that uses features of its own.
    Only ``1/sqrt(n_tasks) < lam < sqrt(n_features)`` is a true mixture: from above Q is zero (`JointFeatureMTL`), from
    below P is zero and the tasks are separate. Outside a `DegenerateModelWarning` is given.

    Parameters
    ----------
    alpha : float, default 1.0
        Strength; `alpha_max` returns the value from which on all coefficients are zero.
    lam : float, default 0.6
        Price of the own part of a task relative to the shared part.
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
        (a digest is compared) with other parameters goes on from there. For paths of `alpha` and `lam`.
    task_column : int or str, optional
        Column of X (position, or name in a DataFrame) that holds the task ids and is no feature.
    unseen : {"error", "mean"}, default "error"
        What `predict` does with a task that was not in the training data: refuse, or use the mean of all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    shared_, own_ : ndarray of shape (n_tasks, n_features)
        P' and Q'; their sum is `coef_`.
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
    Gong, Ye and Zhang, Robust multi-task feature learning, KDD 2012.

    Examples
    --------
    Five tasks use the same two features, the sixth uses others:

    >>> import numpy as np
    >>> from mtlrun.estimators.mixtures import RobustFeatureMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> W = np.zeros((8, 6))
    >>> W[:2, :5] = 1.0
    >>> W[3:, 5] = 2.0
    >>> model = RobustFeatureMTL(alpha=20.0, lam=0.9).fit(X, X @ W)
    >>> np.flatnonzero(np.linalg.norm(model.own_, axis=1) > 0.5).tolist()
    [5]
    """

    _shared: ClassVar[type[Penalty]] = L21
    _own: ClassVar[type[Penalty]] = L12


class RobustFeatureMTLClassifier(_Classifier):
    """Robust multi-task feature learning for classification.

    W = P + Q minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha (sum_j ||p^j||_2 + lam sum_t ||q_t||_2)`` with
    labels -1/+1 inside.

    Parameters
    ----------
    alpha : float, default 1.0
    lam : float, default 0.6
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        l(m) = log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `RobustFeatureMTL`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, shared_, own_, intercept_, tasks_, objective_, gap_, n_iter_, converged_, n_features_in_
        As of `RobustFeatureMTL`.
    """

    _shared: ClassVar[type[Penalty]] = L21
    _own: ClassVar[type[Penalty]] = L12


class SparseLowRankMTL(_Regressor):
    """Low rank plus sparse coefficients.

    W = P + Q minimises::

        sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2 + alpha (||P||_* + lam sum_tj |q_tj|)

    The tasks share few directions (P), and single coefficients depart from them (Q). The paper bounds the trace norm
    instead of penalising it. Only ``1/sqrt(n_features n_tasks) < lam < 1`` is a true mixture: from above Q is zero
    (`TraceNormMTL`), from below P is (`SparseMTL`). Outside a `DegenerateModelWarning` is given.

    Parameters and attributes as of `RobustFeatureMTL`.

    References
    ----------
    Chen, Liu and Ye, Learning incoherent sparse and low-rank patterns from multiple tasks, KDD 2010.
    """

    _shared: ClassVar[type[Penalty]] = TraceNorm
    _own: ClassVar[type[Penalty]] = L1


class SparseLowRankMTLClassifier(_Classifier):
    """Low rank plus sparse coefficients, for classification.

    W = P + Q minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha (||P||_* + lam sum_tj |q_tj|)``.
    Parameters and attributes as of `RobustFeatureMTLClassifier`.
    """

    _shared: ClassVar[type[Penalty]] = TraceNorm
    _own: ClassVar[type[Penalty]] = L1


class DirtyMTL(_Regressor):
    """The dirty model: features shared by all tasks, plus single features of single tasks.

    W = P + Q minimises::

        sum_t 1/2 ||y_t - X_t (p_t + q_t) - b_t||^2 + alpha (sum_j max_t |p_tj| + lam sum_tj |q_tj|)

    Only ``1/n_tasks < lam < 1`` is a true mixture: from above Q is zero (the l1,inf norm alone), from below P is
    (`SparseMTL`). Outside a `DegenerateModelWarning` is given.

    Parameters and attributes as of `RobustFeatureMTL`.

    References
    ----------
    Jalali, Ravikumar, Sanghavi and Ruan, A dirty model for multi-task learning, NIPS 2010.

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

    _shared: ClassVar[type[Penalty]] = L1Inf
    _own: ClassVar[type[Penalty]] = L1


class DirtyMTLClassifier(_Classifier):
    """The dirty model for classification.

    W = P + Q minimises ``sum_t sum_i l(y_ti (x_ti'w_t + b_t)) + alpha (sum_j max_t |p_tj| + lam sum_tj |q_tj|)``.
    Parameters and attributes as of `RobustFeatureMTLClassifier`.
    """

    _shared: ClassVar[type[Penalty]] = L1Inf
    _own: ClassVar[type[Penalty]] = L1
