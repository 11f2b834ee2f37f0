"""Multi-task feature learning and multi-task relationship learning: squared trace norm."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mtlrun.estimators.base import RegressorMTL
from mtlrun.estimators.convex import ConvexMTL
from mtlrun.estimators.params import Rule, choice, real
from mtlrun.penalties.norms import SquaredTraceNorm
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.fetr import LowRank, solve_alternating


class _SquaredTrace(RegressorMTL, ConvexMTL):
    """1/2 sum of squares + alpha ||W||_*^2 + ridge/2 ||W||_F^2."""

    _rules: ClassVar[dict[str, Rule]] = {
        **ConvexMTL._rules,
        "variant": choice("corrected", "paper"),
        "eps": real(0, closed="neither"),
    }
    #: What the matrix learned describes.
    _over: ClassVar[str]
    variant: str
    eps: float

    @abstractmethod
    def _penalty(self) -> SquaredTraceNorm:
        """Return the penalty that is left when the matrix is minimised out."""

    def _penalties(self) -> list[Penalty]:
        return [self._penalty()]

    def _fit_data(self, data: TaskData) -> SolverResult:
        if self.variant == "corrected":
            result = super()._fit_data(data)
            root = LowRank.root(result.W if self._over == "features" else result.W.T)
            self._covariance: Any = (root.values, root.vectors)  # arrays alone: a saved model holds nothing else
        else:
            penalty = self._penalty()
            result = solve_alternating(
                data,
                penalty.alpha,
                ridge=penalty.ridge,
                over=self._over,
                eps=self.eps,
                fit_intercept=self.fit_intercept,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            self._covariance = result.info["covariance"].matrix
        return result

    def _learnt(self) -> np.ndarray:
        """Return the matrix learnt; made when it is asked for, since it may be much larger than the coefficients."""
        try:
            found = self._covariance
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None
        return np.asarray(LowRank(*found).matrix(self._over) if isinstance(found, tuple) else found)


class MTFL(_SquaredTrace):
    """Multi-task feature learning (MTFL): a feature covariance shared by all tasks.

    Minimises over W (d, T) and D (d, d), positive semidefinite with trace at most 1::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + gamma tr(W' D^{-1} W)

    Minimising D out leaves the convex problem with gamma ||W||_*^2 (squared trace norm), which is solved directly and
    certified; D follows from its solution. It is `MTRL` with ``lam1=0, lam2=2 * gamma``.

    Parameters
    ----------
    gamma : float, default 1.0
        Positive.
    variant : {"corrected", "paper"}, default "corrected"
        "paper" alternates between W and D = (WW' + eps I)^{1/2} / tr(...), which needs the eps and crawls; it stops on
        the relative decrease of its objective, and `gap_` tells how far that is from the solution.
    eps : float, default 1e-6
        Of the paper's variant.
    solver : {"auto", "admm", "fista"}, default "auto"
        Of the direct variant, as of `TraceNormMTL`.
    fit_intercept : bool, default True
        One intercept per task, not penalised.
    tol : float, default 1e-4
        Relative duality gap to stop at (paper's variant: relative decrease).
    max_iter : int, default 5000
    warm_start : bool, default False
        As of `TraceNormMTL`; not in the paper's variant.
    task_column, unseen
        As of `TraceNormMTL`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    tasks_ : ndarray of shape (n_tasks,)
    feature_covariance_ : ndarray of shape (n_features, n_features)
        D, of trace 1; singular when W has not full rank, so that there is no precision matrix. Made when it is asked
        for.
    gap_ : float
        Relative duality gap.
    objective_, stop_crit_, n_iter_, converged_, n_features_in_

    References
    ----------
    Evgeniou and Pontil, Multi-task feature learning, NIPS 2007; Argyriou, Evgeniou and Pontil, Convex multi-task
    feature learning, Machine Learning 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import MTFL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 4))
    >>> Y = np.outer(X[:, 0] - X[:, 1], [1, 2, 3]) + 0.1 * rng.normal(size=(40, 3))
    >>> model = MTFL(gamma=1.0).fit(X, Y)
    >>> int(np.linalg.matrix_rank(model.coef_)), model.gap_ <= 1e-4
    (1, True)
    """

    _rules: ClassVar[dict[str, Rule]] = {**_SquaredTrace._rules, "gamma": real(0, closed="neither")}
    _over: ClassVar[str] = "features"
    gamma: float

    def __init__(
        self,
        gamma: float = 1.0,
        *,
        variant: str = "corrected",
        eps: float = 1e-6,
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.gamma = gamma
        self.variant = variant
        self.eps = eps
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen

    def _penalty(self) -> SquaredTraceNorm:
        return SquaredTraceNorm(float(self.gamma))

    @property
    def feature_covariance_(self) -> np.ndarray:
        return self._learnt()


class MTRL(_SquaredTrace):
    """Multi-task relationship learning (MTRL): a covariance of the tasks.

    Minimises over W (d, T) and Omega (T, T), positive semidefinite with trace 1::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + lam1/2 ||W||_F^2 + lam2/2 tr(W Omega^{-1} W')

    Minimising Omega out leaves lam1/2 ||W||_F^2 + lam2/2 ||W||_*^2, solved directly and certified.

    Parameters
    ----------
    lam1 : float, default 1.0
        Non-negative.
    lam2 : float, default 1.0
        Positive.
    variant : {"corrected", "paper"}, default "corrected"
        "paper" alternates between W and Omega = (W'W + eps I)^{1/2} / tr(...), as described for `MTFL`.
    eps, solver, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `MTFL`.

    Attributes
    ----------
    task_covariance_ : ndarray of shape (n_tasks, n_tasks)
        Omega, of trace 1, in the order of `tasks_`; singular when W has not full rank. Made when it is asked for.
    coef_, intercept_, tasks_, gap_, objective_, stop_crit_, n_iter_, converged_, n_features_in_
        As of `MTFL`.

    References
    ----------
    Zhang and Yeung, A convex formulation for learning task relationships in multi-task learning, UAI 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import MTRL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 4))
    >>> Y = np.outer(X[:, 0], [1, 1, -1]) + 0.1 * rng.normal(size=(40, 3))
    >>> model = MTRL(lam1=0.1, lam2=1.0).fit(X, Y)
    >>> np.sign(model.task_covariance_).astype(int).tolist()
    [[1, 1, -1], [1, 1, -1], [-1, -1, 1]]
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **_SquaredTrace._rules,
        "lam1": real(0),
        "lam2": real(0, closed="neither"),
    }
    _over: ClassVar[str] = "tasks"
    lam1: float
    lam2: float

    def __init__(
        self,
        lam1: float = 1.0,
        lam2: float = 1.0,
        *,
        variant: str = "corrected",
        eps: float = 1e-6,
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.variant = variant
        self.eps = eps
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen

    def _penalty(self) -> SquaredTraceNorm:
        return SquaredTraceNorm(0.5 * float(self.lam2), ridge=float(self.lam1))

    @property
    def task_covariance_(self) -> np.ndarray:
        return self._learnt()
