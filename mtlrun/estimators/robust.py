"""Robust multi-task learning: a part of low rank shared by the tasks, plus outlier tasks."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

import numpy as np

from mtlrun.estimators.base import ClassifierMTL, RegressorMTL
from mtlrun.estimators.convex import CLASS_LOSSES, ConvexMTL
from mtlrun.estimators.params import Rule, choice, real
from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import LOSSES, Loss
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Rotation, find_basis
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.robust.apg import solve_apg
from mtlrun.solvers.robust.ladm import solve_ladm

#: Solvers of the paper, which have its variant and its stopping rules.
_PAPER_SOLVERS = ("apg", "ladm")


class DegenerateModelWarning(UserWarning):
    """A part of the model is zero whatever the data are, because of a parameter."""


class _Robust(ConvexMTL):
    """||L||_* + lam ||E||_{1,2} + beta * loss."""

    _rules: ClassVar[dict[str, Rule]] = {
        **ConvexMTL._rules,
        "lam": real(0, closed="neither"),
        "beta": real(0, closed="neither"),
        "solver": choice("auto", "admm", "fista", *_PAPER_SOLVERS),
        "variant": choice("corrected", "paper"),
        "stop": choice("auto", "gap", "paper"),
        "eps": real(0, closed="neither"),
    }
    lam: float
    beta: float
    variant: str
    stop: str
    eps: float

    def _penalties(self) -> list[Penalty]:
        return [TraceNorm(1.0), L12(float(self.lam))]

    def _loss(self) -> Loss:
        name = getattr(self, "loss", "squared")
        # beta multiplies whole squares, the losses of the core carry 1/2; the logistic loss has no such factor.
        return LOSSES[name](self.beta if name == "logistic" else 2.0 * self.beta)

    def _solve(
        self, data: TaskData, *, start: SolverResult | None = None, rotation: Rotation | None = None
    ) -> SolverResult:
        warn_if_degenerate(self.lam, data.n_tasks)
        if self.solver not in _PAPER_SOLVERS:
            for name in ("variant", "stop"):
                if getattr(self, name) == "paper":
                    raise ValueError(f"{name}='paper' needs solver='apg' or 'ladm', got solver={self.solver!r}")
            return super()._solve(data, start=start, rotation=rotation)
        options: dict[str, Any] = {
            "eps": self.eps,
            "start": start,
            "rotation": rotation,
            "fit_intercept": self.fit_intercept,
            "max_iter": self.max_iter,
        }
        if self.solver == "apg":
            variant = "paper" if self.variant == "paper" else "fast"
            options |= {"variant": variant, "stop": self._stop(), "tol": self.tol}
            return solve_apg(data, self._loss(), self._penalties(), **options)
        if self.stop == "gap":
            raise ValueError("solver='ladm' has the paper's stopping rule only; stop='gap' needs another solver")
        # The printed method for least squares has a constraint instead of the loss; corrected, beta counts.
        options |= {"variant": self.variant, "objective": "auto" if self.variant == "paper" else "penalised"}
        result = solve_ladm(data, self._loss(), self._penalties(), **options)
        if result.info["objective"] == "constrained":
            result.objective = [self._objective(data, result.parts, result.intercept)]
        return result

    def _decompose(self, data: TaskData) -> Rotation | None:
        if self.solver not in _PAPER_SOLVERS:
            return super()._decompose(data)
        return find_basis(data, self._loss(), self._penalties(), self.fit_intercept, weighted=self.solver == "apg")

    def _stop(self) -> str:
        if self.stop != "auto":
            return self.stop
        return "paper" if self.variant == "paper" or self.solver == "ladm" else "gap"

    def _knob(self) -> str:
        return "eps" if self._stop() == "paper" else "tol"

    def _publish(self, result: SolverResult) -> None:
        super()._publish(result)
        self.low_rank_ = np.ascontiguousarray(result.parts[0].T)
        self.outlier_ = np.ascontiguousarray(result.parts[1].T)


def warn_if_degenerate(lam: float, n_tasks: int) -> None:
    """Warn unless 1/sqrt(n_tasks) < lam < 1, the only values for which both parts can be non-zero."""
    low = 1.0 / math.sqrt(n_tasks)
    if lam >= 1.0:
        what = "the outlier part is zero and the model is the trace norm alone"
    elif lam <= low:
        what = "the low-rank part is zero and the tasks are learned one by one with the norm of their coefficients"
    else:
        return
    inside = f"Both parts need {low:.3g} < lam < 1." if n_tasks > 1 else "One task has no second part."
    warnings.warn(f"lam={lam:g} for {n_tasks} tasks: {what}. {inside}", DegenerateModelWarning, stacklevel=5)


class RobustMTL(RegressorMTL, _Robust):
    """Robust multi-task learning (RMTL): low rank plus outlier tasks.

    W = L + E (columns are tasks) minimises::

        ||L||_* + lam sum_t ||e_t||_2 + beta sum_t ||y_t - X_t (l_t + e_t) - b_t||^2

    The tasks share the low-rank part L; a task whose column of E is not zero is an outlier with a model of its own.
    Note the scaling, which is the paper's: the loss carries `beta`, without 1/2, and the trace norm carries no factor.
    Larger `beta` means less regularisation.

    Only ``1/sqrt(n_tasks) < lam < 1`` is a true mixture: for ``lam >= 1`` E is zero and the model is the trace norm;
    for ``lam <= 1/sqrt(n_tasks)`` L is zero and the tasks are separate. Outside a `DegenerateModelWarning` is given.

    Parameters
    ----------
    lam : float, default 0.5
        Price of an outlier task, relative to the trace norm.
    beta : float, default 1.0
        Weight of the sum of squares.
    solver : {"auto", "admm", "fista", "apg", "ladm"}, default "auto"
        "admm": two-block ADMM in eigenbases of the designs, the fastest, which is "auto" unless the bases would take
        more than 2 GB ("fista" then). "apg": the accelerated gradient method of Chen et al. "ladm": the linearised
        alternating direction method of Pan et al.
    variant : {"corrected", "paper"}, default "corrected"
        For "apg" and "ladm": as printed, or what must have been meant. APG as printed takes a full SVD in every
        iteration; corrected it restarts and uses the smaller Gram matrix. LADM as printed for least squares solves
        ``min ||L||_* + lam sum_t ||e_t||_2`` subject to ``y_t = X_t w_t``, in which `beta` has no part (`objective_`
        still is the value of the objective above), and its penalty starts so small that it often stops at zero;
        corrected it solves the objective above.
    stop : {"auto", "gap", "paper"}, default "auto"
        Relative duality gap `tol`, or the paper's relative changes (25)/(26) with `eps` (for "apg"; always for
        "ladm", corrected together with a test of feasibility). "auto" follows the variant.
    eps : float, default 1e-5
        For the paper's stopping rules.
    fit_intercept : bool, default True
        One intercept per task, not penalised. The paper has none.
    tol : float, default 1e-4
        Relative duality gap (P - D) / max(1, |P|, |D|) to stop at.
    max_iter : int, default 5000
    warm_start : bool, default False
        Keep the decomposition of the data and the state of the solver; another `fit` on data of the same content
        (a digest is compared) with other parameters goes on from there. For paths of `lam` and `beta`.
    task_column : int or str, optional
        Column of X (position, or name in a DataFrame) that holds the task ids and is no feature.
    unseen : {"error", "mean"}, default "error"
        What `predict` does with a task that was not in the training data: refuse, or use the mean of all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
    low_rank_, outlier_ : ndarray of shape (n_tasks, n_features)
        L' and E'; their sum is `coef_`.
    intercept_ : ndarray of shape (n_tasks,)
    tasks_ : ndarray of shape (n_tasks,)
    objective_ : list of float
        The objective above along the iterations; the last value belongs to `coef_`.
    gap_ : float or None
        Relative duality gap reached.
    stop_crit_ : float
        What the stopping rule looked at: the gap, or the paper's relative change.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
        Without the task column.

    References
    ----------
    Chen, Zhou and Ye, Integrating low-rank and group-sparse structures for robust multi-task learning, KDD 2011.
    Pan, Xia, Yin and Liu, A divide-and-conquer method for scalable robust multitask learning, IEEE TNNLS 2015.

    Examples
    --------
    Nine tasks with one common direction and one task of its own:

    >>> import numpy as np
    >>> from mtlrun.estimators.robust import RobustMTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> W = np.outer([1, 2, 3, 0, 0], np.arange(1, 11)).astype(float)
    >>> W[:, 9] = [0, 0, 0, 50, -50]
    >>> model = RobustMTL(lam=0.6, beta=1.0).fit(X, X @ W)
    >>> np.flatnonzero(np.linalg.norm(model.outlier_, axis=1) > 1).tolist()
    [9]
    """

    def __init__(
        self,
        lam: float = 0.5,
        beta: float = 1.0,
        *,
        solver: str = "auto",
        variant: str = "corrected",
        stop: str = "auto",
        eps: float = 1e-5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.lam = lam
        self.beta = beta
        self.solver = solver
        self.variant = variant
        self.stop = stop
        self.eps = eps
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen


class RobustMTLClassifier(ClassifierMTL, _Robust):
    """Robust multi-task learning for classification.

    W = L + E minimises ``||L||_* + lam sum_t ||e_t||_2 + beta sum_t sum_i l(y_ti (x_ti'w_t + b_t))`` with labels -1/+1
    inside and l(m) = (1 - m)^2 ("squared"), max(0, 1 - m)^2 ("squared_hinge") or log(1 + exp(-m)) ("logistic").

    Parameters
    ----------
    lam : float, default 0.5
    beta : float, default 1.0
    loss : {"squared", "squared_hinge", "logistic"}, default "squared"
    solver, variant, stop, eps, fit_intercept, tol, max_iter, warm_start, task_column, unseen
        As of `RobustMTL`; "auto" is FISTA for at most 2000 labels of the other two losses.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The same two for all tasks; a positive score means the second.
    coef_, low_rank_, outlier_, intercept_, tasks_, objective_, gap_, stop_crit_, n_iter_, converged_, n_features_in_
        As of `RobustMTL`.
    """

    _rules: ClassVar[dict[str, Rule]] = {**_Robust._rules, "loss": CLASS_LOSSES}

    def __init__(
        self,
        lam: float = 0.5,
        beta: float = 1.0,
        *,
        loss: str = "squared",
        solver: str = "auto",
        variant: str = "corrected",
        stop: str = "auto",
        eps: float = 1e-5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 5000,
        warm_start: bool = False,
        task_column: int | str | None = None,
        unseen: str = "error",
    ) -> None:
        self.lam = lam
        self.beta = beta
        self.loss = loss
        self.solver = solver
        self.variant = variant
        self.stop = stop
        self.eps = eps
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.task_column = task_column
        self.unseen = unseen
