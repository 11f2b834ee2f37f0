"""Models that learn how features, or tasks, are related: matrix-normal priors and
squared trace norms.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import ClassVar, Literal

import numpy as np

from mtlrun.estimators.base import BaseMTL, RegressorMTL, usual_bytes
from mtlrun.estimators.convex import ConvexMTL, ConvexSolver, Intercepts
from mtlrun.estimators.metadata import POWERS, SPECTRAL_COST, STRENGTHS, MethodMetadata
from mtlrun.estimators.params import Count, NonNegative, Positive, TaskColumn, Unseen
from mtlrun.penalties.norms import SquaredTraceNorm
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.relationship.fetr import (
    covariance_root,
    fetr_bytes,
    solve_alternating,
    solve_fetr,
)

WSolver = Literal["auto", "eigen", "cg", "gradient", "sylvester", "closed"]
_STOP_CHANGE = (
    "Rotations of W and the precision matrices speed up the descent, which stops when "
    "little is left to gain; it used to stop when one round gained little."
)


class _MatrixNormal(RegressorMTL, BaseMTL):
    """loss + eta ||W||^2 + rho * (minus the logarithm of a matrix-normal prior).

    Parameters
    ----------
    eta : float, default 1.0
        Positive strength of the ridge penalty.
    rho : float, default 1.0
        Positive strength of the matrix-normal prior.
    lower : float, default 0.01
        Smallest eigenvalue allowed in S1 and S2 (l in the paper).
    upper : float, default 100.0
        Largest eigenvalue allowed in S1 and S2 (u in the paper).
    w_solver : {"auto", "eigen", "cg", "gradient", "sylvester", "closed"}, default "auto"
        How W is found for given S1 and S2: by diagonalizing both sides (shared
        designs), by conjugate gradients (preconditioned where tasks have their own
        designs), or by one of the paper's three methods: gradient descent, the
        Sylvester equation (shared designs), or a dense system of d T equations (small
        problems). "auto" is "eigen" for a shared design with at most one weight per
        row, else "cg".
    fit_intercept : bool, default True
        Whether to fit an intercept per task. Intercepts are not penalized.
    tol : float, default 1e-5
        The solver stops when further rounds would lower the objective by at most this
        fraction of loss + eta ||W||^2, as the rate of the last rounds predicts.
    max_iter : int, default 500
        Largest number of rounds of the block steps.

    Attributes
    ----------
    feature_precision_, feature_covariance_ : ndarray of shape (n_features, n_features)
        S1 and its inverse.
    task_precision_, task_covariance_ : ndarray of shape (n_tasks, n_tasks)
        S2 and its inverse, in the order of `tasks_`.
    objective_ : list of float
        Values of the objective after every round.
    stop_crit_ : float
        The fraction that `tol` bounds; `gap_` is None, since there is no certificate.
    rate_ : float
        Linear rate of the last rounds: by how much a round lowers the objective,
        divided by how much the one before did. Infinite after a few rounds.
    """

    _by_sums = True

    eta: Positive = 1.0
    rho: Positive = 1.0
    lower: Positive = 0.01
    upper: Positive = 100.0
    w_solver: WSolver = "auto"
    fit_intercept: bool = True
    tol: NonNegative = 1e-5
    max_iter: Count = 500
    # Parameters of one of the models each.
    accelerate = True
    fudge = 0.0

    def _bytes(self, data: TaskData) -> float:
        return usual_bytes(data, coefficients=20) + fetr_bytes(data)

    def _fit_data(self, data: TaskData) -> SolverResult:
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
            accelerate=self.accelerate,
            fudge=self.fudge,
        )
        state = result.info["state"]
        self.rate_ = result.info["rate"]
        self.feature_precision_ = state.feature.matrix
        self.task_precision_ = state.task.matrix
        self.feature_covariance_ = state.feature.covariance
        self.task_covariance_ = state.task.covariance
        return result


class FETR(_MatrixNormal):
    """Multi-task regression that learns feature and task relationships together (FETR).

    Minimizes over the coefficients W (d, T) and the precision matrices S1 (d, d) of its
    rows and S2 (T, T) of its columns, with all eigenvalues of both between `lower` and
    `upper`::

        sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2 + rho [tr(S1 W S2 W') - T log|S1| - d log|S2|]

    as in the paper, without the 1/2 of other models. The problem is not convex: block
    coordinate descent from S1 = S2 = sqrt(lower upper) I, which is I for the defaults,
    finds a stationary point, and the objective never rises. For rho -> 0 this is
    `IndependentRidge` with ``alpha = eta``.

    A large `rho` ties W to the eigenvectors of S1 and S2, and the paper's three steps
    turn them by a little at a time. A fourth one turns W and them together, which
    leaves the prior as it is.

    Parameters
    ----------
    accelerate : bool, default True
        Whether to turn W and the precision matrices together; False is the paper's
        plain iteration.

    References
    ----------
    H. Zhao, O. Stretcu, A. J. Smola and G. J. Gordon, "Efficient multitask feature and
    relationship learning", 2017.

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

    metadata = MethodMetadata(
        cite=("zhao2017",),
        complexity=(
            "per round eigendecompositions of d and T and d T (d + T), ragged: times "
            "iterations of CG"
        ),
        default_grid={"eta": (0.01, 1.0, 100.0), "rho": POWERS},
        changes=(_STOP_CHANGE,),
    )

    def __init__(
        self,
        eta: Positive = 1.0,
        rho: Positive = 1.0,
        lower: Positive = 0.01,
        upper: Positive = 100.0,
        w_solver: WSolver = "auto",
        fit_intercept: bool = True,
        tol: NonNegative = 1e-5,
        max_iter: Count = 500,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        accelerate: bool = True,
    ) -> None:
        self.eta = eta
        self.rho = rho
        self.lower = lower
        self.upper = upper
        self.w_solver = w_solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen
        self.accelerate = accelerate


class MTFRL(_MatrixNormal):
    """Multi-task regression with a matrix-normal prior, fitted by flip-flop updates
    (MTFRL).

    The model and the W-step are the same as in `FETR`, but the precision matrices come
    from maximum-likelihood updates with a fudge factor, ``S1 = clip((W S2 W' / T +
    fudge I)^{-1})`` and ``S2 = clip((W' S1 W / d + fudge I)^{-1})``, where clip moves
    eigenvalues into [lower, upper]. The fudge factor keeps the inverses defined and
    biases them. These updates minimize, block by block::

        sum_t ||y_t - X_t w_t - b_t||^2 + eta ||W||_F^2 + rho [tr(S1 W S2 W') + T r(S1) + d r(S2)]

    with ``r(S) = fudge tr(S) - log|S|``, the objective of `FETR` with a penalty on
    large precisions. It is fitted by the same four steps.

    Parameters
    ----------
    fudge : float, default 1e-3
        Positive.

    References
    ----------
    Y. Zhang and J. G. Schneider, "Learning multiple tasks with a sparse matrix-normal
    penalty", NIPS 2010.
    """

    metadata = MethodMetadata(
        cite=("zhang2010sparse",),
        complexity="as FETR",
        default_grid={"eta": (0.01, 1.0, 100.0), "rho": POWERS},
        changes=(_STOP_CHANGE,),
    )

    def __init__(
        self,
        eta: Positive = 1.0,
        rho: Positive = 1.0,
        lower: Positive = 0.01,
        upper: Positive = 100.0,
        w_solver: WSolver = "auto",
        fit_intercept: bool = True,
        tol: NonNegative = 1e-5,
        max_iter: Count = 500,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        fudge: Positive = 1e-3,
    ) -> None:
        self.eta = eta
        self.rho = rho
        self.lower = lower
        self.upper = upper
        self.w_solver = w_solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.task_column = task_column
        self.unseen = unseen
        self.fudge = fudge


class _SquaredTrace(RegressorMTL, ConvexMTL):
    """1/2 sum of squares + alpha ||W||_*^2 + ridge/2 ||W||_F^2, or the alternations of
    which this is the limit.

    Parameters
    ----------
    variant : {"corrected", "paper"}, default "corrected"
        "corrected" solves the convex problem that is left when the covariance is
        minimized out. "paper" alternates between W and the covariance, which needs an
        `eps` and converges slowly: it stops when the relative decrease of its objective
        is at most `tol`, and `gap_` tells how far that is from the solution. It ignores
        `solver` and `warm_start`.
    eps : float, default 1e-6
        Added to the eigenvalues of WW' or W'W in the paper's variant.
    """

    _: KW_ONLY
    variant: Literal["corrected", "paper"] = "corrected"
    eps: Positive = 1e-6
    #: Meaning of the covariance.
    _over: ClassVar[str]

    @abstractmethod
    def _norm(self) -> SquaredTraceNorm:
        """Return the penalty that is left when the covariance is minimized out."""

    def _penalties(self) -> list[Penalty]:
        return [self._norm()]

    def _fit_data(self, data: TaskData) -> SolverResult:
        # The alternation uses no eigenbases, which a warm start would keep.
        if self.variant == "corrected":
            return super()._fit_data(data)
        if self._shrinks_intercepts:
            raise ValueError(
                "intercepts='shrunken' needs variant='corrected'. Use intercepts='free'"
            )
        return self._solve(data)

    def _solve(
        self,
        data: TaskData,
        *,
        start: SolverResult | None = None,
        rotation: Rotation | None = None,
    ) -> SolverResult:
        self._covariance: Array | None = None
        if self.variant == "corrected":
            return super()._solve(data, start=start, rotation=rotation)
        norm = self._norm()
        result = solve_alternating(
            data,
            norm.alpha,
            ridge=norm.ridge,
            over=self._over,
            eps=self.eps,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self._covariance = result.info["covariance"].matrix
        return result

    def _learned(self) -> Array:
        """Return the covariance; where the coefficients say what it is, on demand:
        it may be much larger than they.
        """
        if not hasattr(self, "coef_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        if isinstance(self._covariance, np.ndarray):
            return self._covariance
        return covariance_root(
            self.coef_.T if self._over == "features" else self.coef_, self._over
        )


class MTFL(_SquaredTrace):
    """Multi-task feature learning: regression with a feature covariance shared by all
    tasks (MTFL).

    Minimizes over W (d, T) and D (d, d), positive semidefinite with trace at most 1::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + gamma tr(W' D^{-1} W)

    Minimizing D out leaves the convex problem with the squared trace norm gamma
    ||W||_*^2, which is solved directly; D follows from its solution. It is `MTRL` with
    ``lam1=0, lam2=2 * gamma``.

    Parameters
    ----------
    gamma : float, default 1.0
        Positive regularization strength.

    Attributes
    ----------
    feature_covariance_ : ndarray of shape (n_features, n_features)
        D with trace 1, computed on demand. It is singular if W does not have full rank,
        so there is no precision matrix.

    References
    ----------
    T. Evgeniou and M. Pontil, "Multi-task feature learning", NIPS 2007.
    A. Argyriou, T. Evgeniou and M. Pontil, "Convex multi-task feature learning",
    Machine Learning, 2008.

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

    metadata = MethodMetadata(
        cite=("evgeniou2007",),
        complexity=SPECTRAL_COST,
        default_grid={"gamma": STRENGTHS},
        fast={"variant": "corrected"},
    )
    _over = "features"

    def __init__(
        self,
        gamma: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        variant: Literal["corrected", "paper"] = "corrected",
        eps: Positive = 1e-6,
    ) -> None:
        self.gamma = gamma
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.variant = variant
        self.eps = eps

    def _norm(self) -> SquaredTraceNorm:
        return SquaredTraceNorm(float(self.gamma))

    @property
    def feature_covariance_(self) -> Array:
        return self._learned()


class MTRL(_SquaredTrace):
    """Multi-task relationship learning: regression with a learned covariance of the
    tasks (MTRL).

    Minimizes over W (d, T) and Omega (T, T), positive semidefinite with trace 1::

        sum_t 1/2 ||y_t - X_t w_t - b_t||^2 + lam1/2 ||W||_F^2 + lam2/2 tr(W Omega^{-1} W')

    Minimizing Omega out leaves lam1/2 ||W||_F^2 + lam2/2 ||W||_*^2, which is solved
    directly.

    Parameters
    ----------
    lam1 : float, default 1.0
        Strength of the squared norm.
    lam2 : float, default 1.0
        Positive strength of the relationship.

    Attributes
    ----------
    task_covariance_ : ndarray of shape (n_tasks, n_tasks)
        Omega with trace 1, in the order of `tasks_`, computed on demand. It is singular
        if W does not have full rank.

    References
    ----------
    Y. Zhang and D.-Y. Yeung, "A convex formulation for learning task relationships in
    multi-task learning", UAI 2010.

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

    metadata = MethodMetadata(
        cite=("zhang2010convex",),
        complexity=SPECTRAL_COST,
        default_grid={"lam1": (0.01, 1.0, 100.0), "lam2": STRENGTHS},
        search=lambda scale: {
            "lam1": scale.times((0.01, 0.1)),
            "lam2": scale.times((0.001, 0.01, 0.1)),
        },
        fast={"variant": "corrected"},
    )
    _over = "tasks"

    def __init__(
        self,
        lam1: NonNegative = 1.0,
        lam2: Positive = 1.0,
        *,
        task_column: TaskColumn = None,
        unseen: Unseen = "error",
        solver: ConvexSolver = "auto",
        fit_intercept: bool = True,
        intercepts: Intercepts = "free",
        tol: NonNegative = 1e-4,
        max_iter: Count = 5000,
        warm_start: bool = False,
        variant: Literal["corrected", "paper"] = "corrected",
        eps: Positive = 1e-6,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.task_column = task_column
        self.unseen = unseen
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercepts = intercepts
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.variant = variant
        self.eps = eps

    def _norm(self) -> SquaredTraceNorm:
        return SquaredTraceNorm(0.5 * float(self.lam2), ridge=float(self.lam1))

    @property
    def task_covariance_(self) -> Array:
        return self._learned()
