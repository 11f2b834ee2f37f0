"""Convex multi-task models: a loss, one penalty per part of W, and a solver chosen
for them.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import clone, is_classifier

from mtlrun.estimators.base import BaseMTL, WeightedClassifierMTL, usual_bytes
from mtlrun.estimators.params import Count, NonNegative, choice
from mtlrun.problem.levels import ShrunkenLevels
from mtlrun.problem.losses import LOSSES, Loss
from mtlrun.problem.objective import optimal_intercept
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.result import SolverResult
from mtlrun.problem.rotation import Rotation, prepare
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import Array, TaskData
from mtlrun.solvers.convex.auto import (
    choose_solver,
    decomposed,
    solve_convex,
    solver_bytes,
)
from mtlrun.solvers.convex.lasso import solve_lasso_path

ClassLoss = Literal["logistic", "squared_hinge", "squared"]
#: Solvers of all convex models. A model with more of them has a wider rule, which a
#: Literal would not allow.
ConvexSolver = Annotated[str, choice("auto", "admm", "fista")]
Intercepts = Literal["free", "shrunken"]


class ConvexWarmStart(NamedTuple):
    """State that a fit with ``warm_start=True`` leaves for the next one on the same
    data.
    """

    key: tuple[str, str, str, bool]
    data: TaskData
    rotation: Rotation | None
    result: SolverResult


class ConvexMTL(BaseMTL):
    """Base of models that minimize a loss plus penalties, one for each part of the
    coefficients.

    A subclass returns its penalties from `_penalties`; the coefficients are the sum of
    as many parts. The loss is the squared loss unless there is a parameter `loss`.

    Parameters
    ----------
    solver : {"auto", "admm", "fista"}, default "auto"
        ADMM in eigenbases of the designs, or accelerated proximal gradient. "auto" is
        ADMM unless the bases would take more than 2 GB; for classification with at most
        2000 labels it is FISTA, and for the trace norm on a very wide design subspace
        descent (`mtlrun.solvers.convex.auto`).
    fit_intercept : bool, default True
        Whether to fit an intercept per task.
    intercepts : {"free", "shrunken"}, default "free"
        Whether intercepts are free, or shrunken towards their mean. "shrunken" adds
        ``rho / 2 sum_t (b_t - m)^2`` to the objective, with b_t the prediction of task
        t at the mean row of X, their mean m, and rho, the variance of the noise over
        the variance of the levels of the tasks. m and rho are estimated by REML of a
        model with common coefficients, so there is nothing to tune
        (`mtlrun.problem.levels`). Only for the squared loss and a dense X; it makes no
        difference unless rows belong to tasks.
    tol : float, default 1e-4
        The solver stops at this relative duality gap, (P - D) / max(|P|, |D|, P0 /
        1000), where P0 is the objective of zero coefficients (with the means of the
        tasks as intercepts for the squared loss).
    max_iter : int, default 5000
        Largest number of iterations.
    warm_start : bool, default False
        Keep the decomposition of the data and the state of the solver: another `fit` on
        data of the same content (a digest is compared) starts from there. Use it for
        paths of regularization strengths.
    """

    _by_sums = True

    _: KW_ONLY
    solver: ConvexSolver = "auto"
    fit_intercept: bool = True
    intercepts: Intercepts = "free"
    tol: NonNegative = 1e-4
    max_iter: Count = 5000
    warm_start: bool = False

    @abstractmethod
    def _penalties(self) -> list[Penalty]:
        """Return one penalty per part."""

    def _loss(self) -> Loss:
        return LOSSES[getattr(self, "loss", "squared")]()

    def _fit_data(self, data: TaskData) -> SolverResult:
        inner_data = self._without_levels(data)
        if not self.warm_start:
            return self._with_levels(data, self._solve(inner_data))
        key = (
            inner_data.digest,
            self._solver_for(inner_data),
            type(self._loss()).__name__,
            self._solves_intercepts,
        )
        kept: ConvexWarmStart | None = getattr(self, "warm_start_", None)
        if kept is None or kept.key != key:
            start = None
            rotation = self._decompose(inner_data)
        else:
            # Equal data, but only this object belongs to the stored rotation.
            inner_data = kept.data
            start = kept.result
            rotation = kept.rotation
        result = self._solve(inner_data, start=start, rotation=rotation)
        self.warm_start_ = ConvexWarmStart(key, inner_data, rotation, result)
        return self._with_levels(data, result)

    @property
    def _shrinks_intercepts(self) -> bool:
        """Whether intercepts have a penalty; a fit then removes them from the data."""
        is_shrunken = self.fit_intercept and self.intercepts == "shrunken"
        return is_shrunken and self._layout == "ragged"

    @property
    def _solves_intercepts(self) -> bool:
        """Whether the solver fits intercepts."""
        return self.fit_intercept and not self._shrinks_intercepts

    def _without_levels(self, data: TaskData) -> TaskData:
        """Return the data that the solver fits: penalized intercepts are minimized out.

        Raises
        ------
        ValueError
            If the loss is not the squared one, or the design is sparse.
        """
        if not self._shrinks_intercepts:
            return data
        if not isinstance(self._loss(), LOSSES["squared"]):
            raise ValueError(
                "intercepts='shrunken' needs the squared loss. Use intercepts='free'"
            )
        reduced = ShrunkenLevels.of(data).data
        if data.shares_decompositions:
            reduced.share_decompositions()
        return reduced

    def _with_levels(self, data: TaskData, result: SolverResult) -> SolverResult:
        """Return a result of `_without_levels` with the intercepts that belong to
        it.
        """
        if not self._shrinks_intercepts:
            return result
        # A warm start keeps the result of the solver as it is.
        completed = copy(result)
        completed.intercept = ShrunkenLevels.of(data).intercepts(result.W)
        return completed

    def _fit_sums(self, statistics: TaskStatistics) -> Array:
        if self._shrinks_intercepts:
            raise ValueError(
                "intercepts='shrunken' needs the rows. Use fit, or intercepts='free'"
            )
        return super()._fit_sums(statistics)

    def _bytes(self, data: TaskData) -> float:
        penalties = self._penalties()
        solver = self._solver_for(data)
        fields = 12
        # Labels are checked before they are encoded as numbers.
        if is_classifier(self):
            fields = 22
        usual = usual_bytes(
            data,
            coefficients=8 * len(penalties) + (10 if solver == "admm" else 14),
            fields=fields,
        )
        return usual + solver_bytes(data, self._loss(), penalties, solver)

    def _solver_for(self, data: TaskData) -> str:
        """Return the solver, chosen where it is "auto"."""
        if self.solver == "auto":
            return choose_solver(data, self._loss(), self._penalties())
        return self.solver

    def _decompose(self, data: TaskData) -> Rotation | None:
        """Return the eigenbases that the solver needs, None if it needs none."""
        if self._solver_for(data) != "admm":
            return None
        return prepare(self._designs(data), self._solves_intercepts)

    def _designs(self, data: TaskData) -> TaskData:
        """Return the data whose eigenbases the solver uses."""
        return decomposed(data, self._loss())

    def _solve(
        self,
        data: TaskData,
        *,
        start: SolverResult | None = None,
        rotation: Rotation | None = None,
    ) -> SolverResult:
        """Run the solver on checked data."""
        self._warn_of(data)
        if self.solver == "auto" and rotation is not None:
            solver = "admm"
        else:
            solver = self._solver_for(data)
        return solve_convex(
            data,
            self._loss(),
            self._penalties(),
            solver,
            rotation=rotation,
            start=start,
            fit_intercept=self._solves_intercepts,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _warn_of(self, data: TaskData) -> None:
        """Warn of parameters that make no sense for data of these sizes."""

    def _gradient_at_zero(
        self, X: Any, y: Any, task_id: Any, sample_weight: Any
    ) -> Array:
        """Return the gradient (d, T) of the loss at zero coefficients and their best
        intercepts; the data are read.
        """
        return self._zero_gradient(
            self._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        )

    def _zero_gradient(self, data: TaskData) -> Array:
        """Return the gradient (d, T) of the loss at zero coefficients and their best
        intercepts.
        """
        loss = self._loss()
        data = self._without_levels(data)
        z = np.zeros(data.targets.shape)
        if self._solves_intercepts:
            z = data.shifted(z, optimal_intercept(data, loss, z))
        return TaskOperator(data).adjoint(
            loss.gradient(z, data.targets, data.effective_weights())
        )


class Path(NamedTuple):
    """Solutions along regularization strengths.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        The largest first.
    coef : ndarray of shape (n_alphas, n_tasks, n_features)
    intercept : ndarray of shape (n_alphas, n_tasks)
    gap : ndarray of shape (n_alphas,)
        Relative duality gaps; NaN where the solver has no certificate.
    n_iter : ndarray of shape (n_alphas,)
    converged : ndarray of bool, shape (n_alphas,)
    """

    alphas: Array
    coef: Array
    intercept: Array
    gap: Array
    n_iter: Array
    converged: Array


class PathMTL(ConvexMTL):
    """Base of models with one strength, beyond which all coefficients are zero."""

    def path(
        self,
        X: Any,
        y: Any,
        *,
        alphas: Any = 50,
        min_ratio: float = 1e-3,
        task_id: Any = None,
        sample_weight: Any = None,
    ) -> Path:
        """Solve for many strengths of regularization, each fit starting from the
        previous one.

        Parameters
        ----------
        X, y, task_id, sample_weight
            As in `fit`.
        alphas : int or array-like, default 50
            Strengths, or their number: logarithmically spaced, from the smallest one
            for which all coefficients are zero.
        min_ratio : float, default 1e-3
            The smallest strength relative to the largest.

        Returns
        -------
        Path
            The model itself is not changed.
        """
        model = clone(self)
        data = model._prepare(X, y, task_id=task_id, sample_weight=sample_weight)
        strengths = model._strengths(data, alphas, min_ratio)
        return model._walk(data, strengths)

    def _at(self, alpha: float) -> Self:
        """Return a copy of the model, as far as it is fitted, of another strength."""
        model = copy(self)
        model.__dict__["alpha"] = alpha
        return model

    def _edge(self, gradient: Array) -> float:
        """Return the smallest strength for which all coefficients are zero.

        This is the largest dual norm of the gradient (d, T) of the loss at zero. A
        model with penalties that are not norms has a formula instead, or none.

        Raises
        ------
        NotImplementedError
            If a penalty is not a norm.
        """
        penalties = self._at(1.0)._penalties()
        for penalty in penalties:
            if not penalty.is_norm:
                raise NotImplementedError(
                    f"{type(self).__name__} has no alpha_max: "
                    f"{type(penalty).__name__} is not a norm. Define _edge, which "
                    "returns it for a gradient, or set alpha_max = None in the class."
                )
        return max(penalty.dual_norm(gradient) for penalty in penalties)

    def _strengths(self, data: TaskData, alphas: Any, min_ratio: float) -> Array:
        """Return the strengths of a path, the largest first."""
        if np.ndim(alphas) == 1:
            strengths = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
            if strengths.size and np.isfinite(strengths).all() and strengths[-1] > 0:
                return strengths
            raise ValueError(
                "alphas must be strengths in (0, inf), or how many of them to take"
            )
        model = self._at(1.0)
        top = model._edge(model._zero_gradient(data)) or 1.0
        return np.geomspace(top, top * min_ratio, int(alphas))

    def _walk(self, data: TaskData, alphas: Array) -> Path:
        """Solve for decreasing strengths, each started from the solution of the
        previous one.
        """
        solved = self._without_levels(data)
        path = self._walk_together(solved, alphas)
        if path is not None:
            return path
        results: list[SolverResult] = []
        rotation = self._at(float(alphas[-1]))._decompose(solved)
        for alpha in alphas.tolist():
            start = results[-1] if results else None
            result = self._at(alpha)._solve(solved, start=start, rotation=rotation)
            results.append(result)
        results = [self._with_levels(data, result) for result in results]
        return Path(
            alphas,
            np.stack([result.W.T for result in results]),
            np.stack([result.intercept for result in results]),
            # None, where a solver knows no gap, becomes NaN.
            np.array([result.gap for result in results], dtype=float),
            np.array([result.n_iter for result in results]),
            np.array([result.converged for result in results]),
        )

    def _walk_together(
        self, data: TaskData | TaskStatistics, alphas: Array
    ) -> Path | None:
        """Solve for all strengths at once; None where that is not possible."""
        penalties = self._at(1.0)._penalties()
        if self.solver not in ("auto", "cd") or len(penalties) != 1:
            return None
        path = solve_lasso_path(
            data,
            self._loss(),
            penalties[0],
            alphas,
            fit_intercept=self._solves_intercepts,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        if path is None:
            return None
        return Path(alphas, *path, np.ones(len(alphas), dtype=bool))


class PenalizedMTL(PathMTL):
    """Base of models that minimize a loss plus norms, all multiplied by a strength
    `alpha`.

    A subclass names its norm (`_penalty`), or returns several from `_penalties`.

    Parameters
    ----------
    alpha : float, default 1.0
        Regularization strength. `alpha_max` returns the smallest value for which all
        coefficients are zero.
    """

    alpha: NonNegative = 1.0
    _penalty: ClassVar[type[Penalty]]

    def _penalties(self) -> list[Penalty]:
        return [self._penalty(self.alpha)]

    def alpha_max(
        self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the smallest `alpha` for which all coefficients are zero.

        It is a dual norm of the gradient of the loss at zero, with the best intercepts
        there, given the other parameters. Arguments are those of `fit`; the model
        itself is not changed.
        """
        model = clone(self)
        return model._edge(model._gradient_at_zero(X, y, task_id, sample_weight))


class ConvexClassifierMTL(WeightedClassifierMTL):
    """Classification by a convex loss of the margins ``m = y z`` of scores z and labels
    y = -1 or +1.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "squared"}, default "logistic"
        Loss of the margin: log(1 + exp(-m)), 1/2 max(0, 1 - m)^2, or 1/2 (1 - m)^2.
    """

    _: KW_ONLY
    loss: ClassLoss = "logistic"
