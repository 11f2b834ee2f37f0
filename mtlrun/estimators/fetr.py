"""Estimators that learn the relationships of features and of tasks together."""

from __future__ import annotations

from typing import Any, ClassVar

from mtlrun.estimators.base import COMMON_RULES, BaseMTL, RegressorMTL, usual_bytes
from mtlrun.estimators.params import BOOLEAN, Rule, choice, integer, real
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.fetr import check_box, fetr_bytes, solve_fetr

W_SOLVERS = ("auto", "eigen", "cg", "gradient", "sylvester", "closed")


class _MatrixNormal(RegressorMTL, BaseMTL):
    """loss + eta ||W||^2 + rho * (minus the logarithm of a matrix-normal prior)."""

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "eta": real(0, closed="neither"),
        "rho": real(0, closed="neither"),
        "lower": real(0, closed="neither"),
        "upper": real(0, closed="neither"),
        "w_solver": choice(*W_SOLVERS),
        "fit_intercept": BOOLEAN,
        "tol": real(0),
        "max_iter": integer(1),
    }
    eta: float
    rho: float
    lower: float
    upper: float
    w_solver: str
    fit_intercept: bool
    tol: float
    max_iter: int

    def _bytes(self, data: TaskData) -> float:
        return usual_bytes(data, coefficients=20) + fetr_bytes(data)

    def _fit_data(self, data: TaskData) -> SolverResult:
        check_box(self.lower, self.upper)
        result = solve_fetr(
            data,
            self.eta,
            self.rho,
            lower=self.lower,
            upper=self.upper,
            w_solver=self.w_solver,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            **self._options(),
        )
        state = result.info["state"]
        self.feature_precision_, self.task_precision_ = state.feature.matrix, state.task.matrix
        self.feature_covariance_, self.task_covariance_ = state.feature.covariance, state.task.covariance
        return result

    def _options(self) -> dict[str, Any]:
        """Return further arguments of the solver."""
        return {}


class FETR(_MatrixNormal):
    """Multi-task regression that learns feature and task relationships (FETR).

    Minimises over the coefficients W (d, T) and the precision matrices S1 (d, d) of its rows and S2 (T, T) of its
    columns, with all eigenvalues of both in [lower, upper]::

        sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2 + rho [tr(S1 W S2 W') - T log|S1| - d log|S2|]

    as in the paper, without the 1/2 of the other models here. Not convex: block coordinate descent from S1 = S2 = I
    finds a stationary point. With rho -> 0 this is `IndependentRidge` with ``alpha = eta``.

    Parameters
    ----------
    eta : float, default 1.0
        Positive strength of the ridge penalty.
    rho : float, default 1.0
        Positive strength of the matrix-normal prior.
    lower, upper : float, default 0.01 and 100.0
        Smallest and largest eigenvalue allowed in S1 and S2 (the paper's l and u).
    w_solver : {"auto", "eigen", "cg", "gradient", "sylvester", "closed"}, default "auto"
        How W is found for given S1, S2: by diagonalising both sides (shared designs), by conjugate gradients
        (preconditioned where tasks have designs of their own), or by one of the paper's three: gradient descent, the
        Sylvester equation (shared designs), or a dense system of d T equations (small problems). "auto" is "eigen" for
        a shared design with at most one weight per row, else "cg".
    fit_intercept : bool, default True
        One intercept per task, not penalised.
    tol : float, default 1e-5
        Stop when a round lowers the objective by at most this fraction of loss + eta ||W||^2.
    max_iter : int, default 500
        Rounds of the three block steps.
    accelerate : bool, default True
        Extrapolate the precision matrices between rounds; False is the paper's plain iteration.
    task_column : int or str, optional
        Column of X (position, or name in a DataFrame) that holds the task ids and is no feature.
    unseen : {"error", "mean"}, default "error"
        What `predict` does with a task that was not in the training data: refuse, or use the mean of all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    intercept_ : ndarray of shape (n_tasks,)
    tasks_ : ndarray of shape (n_tasks,)
    feature_precision_, feature_covariance_ : ndarray of shape (n_features, n_features)
        S1 and its inverse.
    task_precision_, task_covariance_ : ndarray of shape (n_tasks, n_tasks)
        S2 and its inverse, in the order of `tasks_`.
    objective_ : list of float
        Value after every round; never rises.
    stop_crit_ : float
        Relative decrease in the last round; `gap_` is None, there is no certificate.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
        Without the task column.

    References
    ----------
    Zhao, Stretcu, Smola and Gordon, Efficient multitask feature and relationship learning, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.estimators import FETR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> Y = np.outer(X[:, 0] + 2 * X[:, 1], [1, -1]) + 0.1 * rng.normal(size=(50, 2))
    >>> model = FETR(rho=0.1).fit(X, Y)
    >>> bool(model.task_covariance_[0, 1] < 0)
    True
    """

    def __init__(
        self,
        eta: float = 1.0,
        rho: float = 1.0,
        lower: float = 0.01,
        upper: float = 100.0,
        w_solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-5,
        max_iter: int = 500,
        *,
        accelerate: bool = True,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.eta = eta
        self.rho = rho
        self.lower = lower
        self.upper = upper
        self.w_solver = w_solver
        self.fit_intercept = fit_intercept
        self.accelerate = accelerate
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    _rules: ClassVar[dict[str, Rule]] = {**_MatrixNormal._rules, "accelerate": BOOLEAN}

    def _options(self) -> dict[str, Any]:
        return {"accelerate": self.accelerate}


class MTFRL(_MatrixNormal):
    """Multi-task regression with a matrix-normal prior fitted by the flip-flop algorithm (MTFRL).

    The model of `FETR` with its W-step, but precision matrices from maximum-likelihood updates with a fudge factor::

        S1 = clip((W S2 W' / T + fudge I)^{-1}),   S2 = clip((W' S1 W / d + fudge I)^{-1})

    clip moving eigenvalues into [lower, upper]. The fudge factor keeps the inverses defined and biases them; the
    updates minimise nothing, so that `objective_` (that of `FETR`) may rise.

    Parameters
    ----------
    eta, rho, lower, upper, w_solver, fit_intercept, tol, max_iter, task_column, unseen
        As of `FETR`.
    fudge : float, default 1e-3
        Positive.

    Attributes
    ----------
    coef_, intercept_, tasks_, feature_precision_, feature_covariance_, task_precision_, task_covariance_, objective_
        As of `FETR`, also `stop_crit_`, `n_iter_`, `converged_` and `n_features_in_`.

    References
    ----------
    Zhang and Schneider, Learning multiple tasks with a sparse matrix-normal penalty, NIPS 2010.
    """

    def __init__(
        self,
        eta: float = 1.0,
        rho: float = 1.0,
        lower: float = 0.01,
        upper: float = 100.0,
        w_solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-5,
        max_iter: int = 500,
        *,
        fudge: float = 1e-3,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.eta = eta
        self.rho = rho
        self.fudge = fudge
        self.lower = lower
        self.upper = upper
        self.w_solver = w_solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen

    _rules: ClassVar[dict[str, Rule]] = {**_MatrixNormal._rules, "fudge": real(0, closed="neither")}

    def _options(self) -> dict[str, Any]:
        return {"fudge": self.fudge}
