"""Duality gaps: how far from optimal an iterate can be at most.

Primal: min over parts W_k and unpenalised b of  sum_i w_i l((X sum_k W_k + b)_i, y_i) + sum_k Omega_k(W_k).
Dual:   max over fields theta of  -l*(-theta) - sum_k Omega_k*(X'theta), theta summing to 0 in every task with free b.
For a norm, Omega* is the indicator of polar(X'theta) <= 1; theta = -gradient, scaled until that holds, is a dual point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtlrun.problem.intercept import optimal_intercept
from mtlrun.problem.losses import Loss
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import TaskData


@dataclass(frozen=True)
class Gap:
    """A certificate.

    Attributes
    ----------
    primal, dual : float
    relative : float
        (primal - dual) / max(1, |primal|, |dual|).
    relative_reduced : float
        The same after taking `unavoidable` off both values.
    """

    primal: float
    dual: float
    relative: float
    relative_reduced: float

    @classmethod
    def of(cls, primal: float, dual: float, unavoidable: float = 0.0) -> Gap:
        """Make a gap of two values; `unavoidable` is a loss that no coefficients get below."""
        reduced = relative_gap(primal - unavoidable, dual - unavoidable)
        return cls(primal, dual, relative_gap(primal, dual), reduced)


def relative_gap(primal: float, dual: float) -> float:
    """Return (primal - dual) / max(1, |primal|, |dual|); inf where a value is infinite or NaN."""
    if not (np.isfinite(primal) and np.isfinite(dual)):
        return float("inf")
    return (primal - dual) / max(1.0, abs(primal), abs(dual))


def feasible_scale(Z: np.ndarray, penalties: Sequence[Penalty]) -> np.ndarray:
    """Return factors c (T,) in [0, 1] such that Z * c satisfies every norm's dual constraint.

    Columns are scaled one by one for the penalties that are sums over columns, then all by one factor for the others.

    Parameters
    ----------
    Z : ndarray of shape (d, T)
        X'theta.
    penalties : sequence of Penalty
        Those whose conjugate is finite everywhere ask for nothing.
    """
    scale = np.ones(Z.shape[1])
    norms = [p for p in penalties if p.constrains_dual]
    for p in norms:
        if p.by_column:
            scale = np.minimum(scale, 1.0 / np.maximum(1.0, p.column_polar(Z)))
    rest = [p for p in norms if not p.by_column]
    if rest:
        scaled = Z * scale
        scale = scale / max(1.0, *(p.polar(scaled) for p in rest))
    return scale


def dual_point(
    theta: np.ndarray,
    data: TaskData,
    penalties: Sequence[Penalty],
    *,
    intercept: bool = False,
    loss: Loss | None = None,
    operator: TaskOperator | None = None,
) -> np.ndarray:
    """Return a feasible dual point near theta.

    Parameters
    ----------
    theta : ndarray
        Field, usually minus the gradient of the loss.
    data : TaskData
    penalties : sequence of Penalty
    intercept : bool, default False
        Whether intercepts are free, hence theta must sum to zero in every task.
    loss : Loss, optional
        Needed with `intercept` for losses on classes, whose theta has the sign of y.
    operator : TaskOperator, optional
        Default: that of `data`.
    """
    return _feasible(theta, data, penalties, intercept, loss, operator)[0]


def dual_value(
    theta: np.ndarray,
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    intercept: bool = False,
    operator: TaskOperator | None = None,
) -> float:
    """Return the dual objective at the feasible point made from theta, at least 0 (the value at theta = 0)."""
    theta, Z = _feasible(theta, data, penalties, intercept, loss, operator)
    value = -loss.conjugate(-theta, data.targets, data.effective_weights())
    value -= sum(p.conjugate(Z) for p in penalties if not p.is_norm)
    return max(value, 0.0) + 0.0  # no negative zero


def primal_value(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    parts: Sequence[np.ndarray] | np.ndarray,
    intercept: np.ndarray | None = None,
    *,
    operator: TaskOperator | None = None,
) -> float:
    """Return the objective at `parts` (one (d, T) matrix per penalty) and intercepts (T,)."""
    operator = TaskOperator(data) if operator is None else operator
    z = operator.forward(_total(parts, penalties), intercept)
    return _primal(data, loss, penalties, parts, z)


def duality_gap(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    parts: Sequence[np.ndarray] | np.ndarray,
    intercept: np.ndarray | None = None,
    *,
    theta: np.ndarray | None = None,
    operator: TaskOperator | None = None,
    unavoidable: float = 0.0,
) -> Gap:
    """Certify an iterate.

    Parameters
    ----------
    data : TaskData
    loss : Loss
    penalties : sequence of Penalty
    parts : sequence of ndarray of shape (d, T), or ndarray of shape (n_parts, d, T)
        One matrix per penalty.
    intercept : ndarray of shape (T,), optional
        Unpenalised intercepts; None when the model has none.
    theta : ndarray, optional
        Field from which to make the dual point; default: minus the gradient of the loss at the iterate, with the
        intercepts that are best for its coefficients.
    operator : TaskOperator, optional
        Default: that of `data`.
    unavoidable : float, default 0.0
        Loss that no coefficients get below, for `Gap.relative_reduced`; for the squared loss and a shared design
        scale/2 ||Y_perp||^2 with Y_perp the part of Y outside the range of X.

    Raises
    ------
    ValueError
        If the numbers of parts and penalties differ.

    Examples
    --------
    >>> import numpy as np
    >>> from mtlrun.problem.objective import duality_gap
    >>> from mtlrun.problem.losses import SquaredLoss
    >>> from mtlrun.penalties.norms import TraceNorm
    >>> from mtlrun.problem.taskdata import TaskData
    >>> data = TaskData.from_matrix(np.eye(2), np.diag([3.0, 1.0]))
    >>> gap = duality_gap(data, SquaredLoss(), [TraceNorm(1.0)], [np.diag([2.0, 0.0])])
    >>> gap.primal, gap.dual, gap.relative
    (3.0, 3.0, 0.0)
    """
    operator = TaskOperator(data) if operator is None else operator
    z = operator.forward(_total(parts, penalties))
    fitted = z if intercept is None else z + data.spread(intercept)
    primal = _primal(data, loss, penalties, parts, fitted)
    if theta is None:
        if intercept is not None:
            fitted = z + data.spread(optimal_intercept(data, loss, z, start=intercept))
        theta = -loss.gradient(fitted, data.targets, data.effective_weights())
    dual = dual_value(theta, data, loss, penalties, intercept=intercept is not None, operator=operator)
    return Gap.of(primal, dual, unavoidable)


def _total(parts: Sequence[np.ndarray] | np.ndarray, penalties: Sequence[Penalty]) -> np.ndarray:
    if len(parts) != len(penalties):
        raise ValueError(f"parts holds {len(parts)} matrices for {len(penalties)} penalties")
    return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)


def _primal(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    parts: Sequence[np.ndarray] | np.ndarray,
    z: np.ndarray,
) -> float:
    value = loss.value(z, data.targets, data.effective_weights())
    return value + sum(p.value(W) for p, W in zip(penalties, parts, strict=True))


def _feasible(
    theta: np.ndarray,
    data: TaskData,
    penalties: Sequence[Penalty],
    intercept: bool,
    loss: Loss | None,
    operator: TaskOperator | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dual point and X' times it."""
    operator = TaskOperator(data) if operator is None else operator
    if intercept:
        theta = _balance_classes(theta, data) if loss is not None and loss.labels else _recentre(theta, data)
    Z = operator.adjoint(theta)
    if any(p.is_zero for p in penalties):
        return _annihilate(theta, Z, data, operator, intercept), np.zeros_like(Z)
    scale = feasible_scale(Z, penalties)
    if np.all(scale == 1.0):
        return theta, Z
    return theta * data.spread(scale), Z * scale


def _recentre(theta: np.ndarray, data: TaskData) -> np.ndarray:
    """Move theta as an exact change of the intercepts would for the squared loss, so that tasks sum to zero."""
    w = data.effective_weights()
    if w is None:
        return theta - data.spread(data.sum_by_task(theta) / data.sizes)
    return theta - w * data.spread(data.sum_by_task(theta) / data.sum_by_task(w))


def _annihilate(
    theta: np.ndarray, Z: np.ndarray, data: TaskData, operator: TaskOperator, intercept: bool
) -> np.ndarray:
    """Move theta so that X'theta = 0 (to rounding), which an unpenalised part demands: a least-squares fit of theta."""
    w = data.effective_weights()
    if intercept:  # the fit must keep the sums over tasks at zero
        ones = np.ones_like(theta) if w is None else w
        mean = operator.adjoint(ones) / data.sum_by_task(ones)
        old = np.zeros(data.n_features) if operator.shift is None else operator.shift
        operator = TaskOperator(data, shift=mean + (old[:, None] if old.ndim == 1 else old))
    grams = operator.gram(data.weights)
    inverse = np.linalg.pinv(grams, hermitian=True)
    V = inverse @ Z if grams.ndim == 2 else np.einsum("tij,jt->it", inverse, Z)
    fit = operator.forward(V)
    return theta - (fit if w is None else w * fit)


def _balance_classes(theta: np.ndarray, data: TaskData) -> np.ndarray:
    """Scale down the heavier class of every task so that theta sums to zero and keeps its signs and bounds."""
    up = data.sum_by_task(np.maximum(theta, 0.0))
    down = data.sum_by_task(np.maximum(-theta, 0.0))
    least = np.minimum(up, down)
    shrink_up = np.divide(least, up, out=np.zeros_like(up), where=up > 0)
    shrink_down = np.divide(least, down, out=np.zeros_like(down), where=down > 0)
    return theta * np.where(theta > 0, data.spread(shrink_up), data.spread(shrink_down))
