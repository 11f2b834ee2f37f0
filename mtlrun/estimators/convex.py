"""Convex multi-task models: a loss, one penalty per part of W, and a solver chosen for them."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from mtlrun.estimators.base import COMMON_RULES, BaseMTL, usual_bytes
from mtlrun.estimators.params import BOOLEAN, Rule, choice, integer, real
from mtlrun.problem.losses import LOSSES, Loss
from mtlrun.problem.objective import optimal_intercept, primal_value
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.quadratic import Rotation, prepare
from mtlrun.problem.result import SolverResult
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.auto import choose_solver, decomposed, solve_convex, solver_bytes

Array = np.ndarray[Any, np.dtype[Any]]


#: Losses that classifiers offer.
CLASS_LOSSES = choice("logistic", "squared_hinge", "squared")


class Memory(NamedTuple):
    """What a fit with ``warm_start=True`` leaves for the next one on the same data."""

    key: tuple[Any, ...]
    data: TaskData
    rotation: Rotation | None
    result: SolverResult


class ConvexMTL(BaseMTL):
    """loss + sum of penalties, one per part, W the sum of the parts.

    A subclass names its penalties; the loss is the squared one unless it has a parameter `loss`.
    """

    _rules: ClassVar[dict[str, Rule]] = {
        **COMMON_RULES,
        "solver": choice("auto", "admm", "fista"),
        "fit_intercept": BOOLEAN,
        "tol": real(0),
        "max_iter": integer(1),
        "warm_start": BOOLEAN,
    }
    solver: str
    fit_intercept: bool
    tol: float
    max_iter: int
    warm_start: bool

    @abstractmethod
    def _penalties(self) -> list[Penalty]:
        """Return one penalty per part."""

    def _loss(self) -> Loss:
        return LOSSES[getattr(self, "loss", "squared")]()

    def _fit_data(self, data: TaskData) -> SolverResult:
        if not self.warm_start:
            return self._solve(data)
        key = (_content(data), self._solver_for(data), type(self._loss()), self.fit_intercept)
        kept: Memory | None = getattr(self, "_memory", None)
        if kept is None or kept.key != key:
            start, rotation = None, self._decompose(data)
        else:
            # Of the same content; the decomposition belongs to the object kept.
            data, start, rotation = kept.data, kept.result, kept.rotation
        result = self._solve(data, start=start, rotation=rotation)
        self._memory = Memory(key, data, rotation, result)
        return result

    def _bytes(self, data: TaskData) -> float:
        penalties, solver = self._penalties(), self._solver_for(data)
        usual = usual_bytes(data, coefficients=8 * len(penalties) + (10 if solver == "admm" else 14), fields=12)
        return usual + solver_bytes(data, self._loss(), penalties, solver)

    def _solver_for(self, data: TaskData) -> str:
        """Return the solver, chosen where it is "auto"."""
        return choose_solver(data, self._loss(), self._penalties()) if self.solver == "auto" else self.solver

    def _decompose(self, data: TaskData) -> Rotation | None:
        """Return the eigenbases that the solver needs, None if it needs none."""
        if self._solver_for(data) != "admm":
            return None
        return prepare(self._designs(data), self.fit_intercept)

    def _designs(self, data: TaskData) -> TaskData:
        """Return the data whose eigenbases the solver uses."""
        return decomposed(data, self._loss())

    def _solve(
        self, data: TaskData, *, start: SolverResult | None = None, rotation: Rotation | None = None
    ) -> SolverResult:
        """Run the solver on checked data."""
        return solve_convex(
            data,
            self._loss(),
            self._penalties(),
            self._solver_for(data),
            rotation=rotation,
            start=start,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _gradient_at_zero(self, X: Any, y: Any, task_id: Any, sample_weight: Any) -> Array:
        """Return the gradient (d, T) of the loss at zero coefficients and their best intercepts; the data are read."""
        data, loss = self._prepare(X, y, task_id=task_id, sample_weight=sample_weight), self._loss()
        z = np.zeros(data.targets.shape)
        if self.fit_intercept:
            z = z + data.spread(optimal_intercept(data, loss, z))
        return TaskOperator(data).adjoint(loss.gradient(z, data.targets, data.effective_weights()))

    def _objective(self, data: TaskData, parts: Array, intercept: Array) -> float:
        """Return the value of the objective."""
        return primal_value(data, self._loss(), self._penalties(), parts, intercept)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_memory"}


class StrengthMTL(ConvexMTL):
    """loss + norms that a strength `alpha` multiplies (further terms may have weights of their own)."""

    _rules: ClassVar[dict[str, Rule]] = {**ConvexMTL._rules, "alpha": real(0)}
    alpha: float

    def alpha_max(self, X: Any, y: Any, *, task_id: Any = None, sample_weight: Any = None) -> float:
        """Return the smallest `alpha` for which all coefficients are zero, the other parameters being as they are.

        A dual norm of the gradient of the loss at zero (with the best intercepts there). Arguments as of `fit`; the
        model itself stays as it is.
        """
        model = clone(self)
        return model._edge(model._gradient_at_zero(X, y, task_id, sample_weight))

    def _edge(self, gradient: Array) -> float:
        """Return `alpha_max` given the gradient (d, T) at zero; may change `alpha`, the model is a copy."""
        self.alpha = 1.0
        return max(p.polar(gradient) for p in self._penalties())


class SinglePenaltyMTL(StrengthMTL):
    """loss + alpha * one norm; a subclass names the norm."""

    _rules: ClassVar[dict[str, Rule]] = {**StrengthMTL._rules, "solver": choice("auto", "cd", "admm", "fista")}
    _penalty: ClassVar[type[Penalty]]

    def _penalties(self) -> list[Penalty]:
        return [self._penalty(self.alpha)]


def _content(data: TaskData) -> str:
    """Return a digest of everything in the data but the names of the tasks."""
    X = data.X
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    arrays += [a for a in (data.targets, data.offsets, data.weights, data.observed) if a is not None]
    digest = hashlib.sha1(repr([(a.shape, a.dtype.str) for a in arrays]).encode(), usedforsecurity=False)
    for a in arrays:
        digest.update(np.ascontiguousarray(a).view(np.uint8).data)
    return digest.hexdigest()
