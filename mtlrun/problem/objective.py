"""Objectives and certificates: best intercepts, dual points and duality gaps.

The primal problem minimizes, over parts W_k and unpenalized intercepts b::

    sum_i w_i l((X sum_k W_k + b)_i, y_i) + sum_k Omega_k(W_k)

The dual problem maximizes, over fields theta that sum to 0 in each task with a free
intercept::

    -l*(-theta) - sum_k Omega_k*(X'theta)

For a norm, Omega* is the indicator of dual_norm(X'theta) <= 1: the negative gradient,
scaled until that holds, is a dual point. The gap between both values bounds how far an
iterate is from the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mtlrun.problem.losses import Loss
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.penalty import Penalty
from mtlrun.problem.taskdata import Array, TaskData, quotient

# Largest derivative of the loss in an intercept, relative to the scale of the loss times
# the total weight of the task.
_SLOPE_TOL = 1e-12
#: The least objective that a gap is divided by, as a part of the null objective.
#: Without a least value, the gap of a model that fits its targets exactly would be 0 /
#: 0.
NULL_SHARE = 1e-3


class Gap(NamedTuple):
    """A certificate: two values of the objective, and their `relative_gap`."""

    primal: float
    dual: float
    relative: float


def gap_scale(primal: float, dual: float, null: float) -> float:
    """Return the size that gaps are relative to: max(|primal|, |dual|, null / 1000).

    It has the units of the objective: other units of the targets, with strengths
    rescaled as the objective requires, leave all relative gaps as they are.

    Parameters
    ----------
    primal, dual : float
        Values of the objective and of its dual.
    null : float
        The objective of zero coefficients, as of `null_objective`.
    """
    return max(abs(primal), abs(dual), NULL_SHARE * null)


def relative_gap(
    primal: float,
    dual: float,
    *,
    null: float,
    gap: float | None = None,
) -> float:
    """Return (primal - dual) / max(|primal|, |dual|, null / 1000).

    Parameters
    ----------
    primal, dual, null : float
        As of `gap_scale`.
    gap : float, optional
        The difference of the values, where it is known without cancellation.

    Returns
    -------
    float
        At least 0: a negative difference is rounding. Infinite where a value is
        infinite or NaN; 0 where all values are 0.
    """
    if not (np.isfinite(primal) and np.isfinite(dual)):
        return float("inf")
    difference = primal - dual if gap is None else gap
    size = gap_scale(primal, dual, null)
    if size > 0:
        return max(difference, 0.0) / size
    return 0.0


def null_objective(data: TaskData, loss: Loss) -> float:
    """Return the loss of zero coefficients, at which all penalties are zero.

    For the squared loss every task has its mean as intercept, whether or not the model
    has intercepts, so that targets far from zero do not make all gaps look small.
    Losses of labels are taken at scores of 0: labels have no units, and the loss of a
    task of one class would vanish with its best intercept.
    """
    z = np.zeros(data.targets.shape)
    if not loss.labels:
        z = data.shifted(z, optimal_intercept(data, loss, z))
    return loss.value(z, data.targets, data.effective_weights())


def feasible_scale(Z: Array, penalties: Sequence[Penalty]) -> Array:
    """Return factors c (T,) in [0, 1] such that Z * c satisfies all dual constraints.

    Columns are first scaled one by one for penalties that are sums over columns, then
    all by one factor for the other penalties.

    Parameters
    ----------
    Z : ndarray of shape (d, T)
        X'theta.
    penalties : sequence of Penalty
        Those whose conjugate is finite everywhere impose no constraint.
    """
    scale = np.ones(Z.shape[1])
    norms = [p for p in penalties if p.constrains_dual]
    for p in norms:
        if p.by_column:
            column_norms = np.maximum(1.0, p.column_dual_norms(Z))
            scale = np.minimum(scale, 1.0 / column_norms)
    rest = [p for p in norms if not p.by_column]
    if rest:
        scaled = Z * scale
        scale = scale / max(1.0, *(p.dual_norm(scaled) for p in rest))
    return scale


def dual_point(
    theta: Array,
    data: TaskData,
    penalties: Sequence[Penalty],
    *,
    intercept: bool = False,
    loss: Loss | None = None,
    operator: TaskOperator | None = None,
) -> tuple[Array, Array]:
    """Return a feasible dual point near theta, and X' times it.

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
        Default: the operator of `data`.
    """
    if operator is None:
        operator = TaskOperator(data)
    if intercept:
        if loss is not None and loss.labels:
            # Scale down the heavier class of each task so that theta sums to zero.
            up = data.sum_by_task(np.maximum(theta, 0.0))
            down = data.sum_by_task(np.maximum(-theta, 0.0))
            smaller = np.minimum(up, down)
            up_factors = data.spread(quotient(smaller, up))
            down_factors = data.spread(quotient(smaller, down))
            theta = theta * np.where(theta > 0, up_factors, down_factors)
        else:
            theta = _recentre(theta, data)
    Z = operator.adjoint(theta)
    if any(p.is_zero for p in penalties):
        return _annihilate(theta, Z, data, operator, intercept), np.zeros_like(Z)
    scale = feasible_scale(Z, penalties)
    if np.all(scale == 1.0):
        return theta, Z
    return theta * data.spread(scale), Z * scale


def dual_value(
    theta: Array,
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    *,
    intercept: bool = False,
    operator: TaskOperator | None = None,
) -> float:
    """Return the dual objective at the feasible point made from theta.

    It is at least 0, the value at theta = 0.
    """
    theta, Z = dual_point(
        theta,
        data,
        penalties,
        intercept=intercept,
        loss=loss,
        operator=operator,
    )
    return value_at_dual(theta, Z, data, loss, penalties)


def value_at_dual(
    theta: Array,
    Z: Array,
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
) -> float:
    """Return the dual objective at a feasible point theta with Z = X'theta.

    It is at least 0, the value at theta = 0.
    """
    value = -loss.conjugate(-theta, data.targets, data.effective_weights())
    value -= sum(p.conjugate(Z) for p in penalties if not p.is_norm)
    # Adding 0 turns a negative zero into a positive one.
    return max(value, 0.0) + 0.0


def primal_value(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    parts: Sequence[Array] | Array,
    intercept: Array | None = None,
    *,
    operator: TaskOperator | None = None,
) -> float:
    """Return the objective at parts, one (d, T) matrix per penalty, and intercepts."""
    if operator is None:
        operator = TaskOperator(data)
    z = operator.forward(_total(parts, penalties), intercept)
    return _primal(data, loss, penalties, parts, z)


def duality_gap(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    parts: Sequence[Array] | Array,
    intercept: Array | None = None,
    *,
    operator: TaskOperator | None = None,
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
        Unpenalized intercepts; None when the model has none.
    operator : TaskOperator, optional
        Default: the operator of `data`.

    Raises
    ------
    ValueError
        If the numbers of parts and penalties differ.

    Notes
    -----
    The dual point is made from minus the gradient of the loss at the iterate, with the
    intercepts that are best for its coefficients.

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
    if operator is None:
        operator = TaskOperator(data)
    z = operator.forward(_total(parts, penalties))
    if intercept is None:
        fitted = z
    else:
        fitted = data.shifted(z, intercept)
    primal = _primal(data, loss, penalties, parts, fitted)
    if intercept is not None:
        fitted = data.shifted(z, optimal_intercept(data, loss, z, start=intercept))
    theta = -loss.gradient(fitted, data.targets, data.effective_weights())
    dual = dual_value(
        theta,
        data,
        loss,
        penalties,
        intercept=intercept is not None,
        operator=operator,
    )
    relative = relative_gap(primal, dual, null=null_objective(data, loss))
    return Gap(primal, dual, relative)


def _total(parts: Sequence[Array] | Array, penalties: Sequence[Penalty]) -> Array:
    if len(parts) != len(penalties):
        raise ValueError(
            f"parts holds {len(parts)} matrices for {len(penalties)} penalties"
        )
    if len(parts) == 1:
        return parts[0]
    return np.sum(parts, axis=0)


def _primal(
    data: TaskData,
    loss: Loss,
    penalties: Sequence[Penalty],
    parts: Sequence[Array] | Array,
    z: Array,
) -> float:
    value = loss.value(z, data.targets, data.effective_weights())
    return value + sum(p.value(W) for p, W in zip(penalties, parts, strict=True))


def _recentre(theta: Array, data: TaskData) -> Array:
    """Move theta so that it sums to zero in each task.

    It moves as by an exact change of the intercepts for the squared loss.
    """
    w = data.effective_weights()
    if w is None:
        return theta - data.spread(data.sum_by_task(theta) / data.sizes)
    return theta - w * data.spread(data.sum_by_task(theta) / data.sum_by_task(w))


def _annihilate(
    theta: Array,
    Z: Array,
    data: TaskData,
    operator: TaskOperator,
    intercept: bool,
) -> Array:
    """Move theta so that X'theta = 0 up to rounding, as an unpenalized part requires.

    The residuals of a least-squares fit of theta have this property.
    """
    if intercept:
        # The fit must keep the sums over tasks at zero.
        full = data.full_weights()
        mean = operator.adjoint(full) / data.sum_by_task(full)
        old = operator.shift
        if old is None:
            old = np.zeros(data.n_features)
        if old.ndim == 1:
            old = old[:, None]
        operator = TaskOperator(data, shift=mean + old)
    grams = operator.gram(data.weights)
    # Columns are scaled to one size: none of them is lost next to a larger one.
    sizes = np.sqrt(np.einsum("...ii->...i", grams))
    sizes = np.where(sizes > 0, sizes, 1.0)
    products = sizes[..., None, :] * sizes[..., :, None]
    inverse = np.linalg.pinv(grams / products, hermitian=True) / products
    if grams.ndim == 2:
        V = inverse @ Z
    else:
        V = np.einsum("tij,jt->it", inverse, Z)
    return theta - data.weighted(operator.forward(V))


@dataclass(frozen=True, eq=False)
class Centred:
    """Centered data: an intercept is not needed for the same coefficients.

    It holds for the squared loss.

    Attributes
    ----------
    data : TaskData
        Centered targets, the original weights. Its `X` is centered only where the
        operator has no `shift`.
    operator : TaskOperator
        Products with the centered design; solvers use this one, never `data.X`.
    x_mean : ndarray of shape (d,) or (d, T)
        Weighted feature means; one vector for a shared design with one weight per row.
    y_mean : ndarray of shape (T,)
        Weighted target means.
    """

    data: TaskData
    operator: TaskOperator
    x_mean: Array
    y_mean: Array

    def intercept(self, W: Array) -> Array:
        """Return the optimal intercepts (T,) of coefficients W for the data."""
        if self.x_mean.ndim == 1:
            return self.y_mean - self.x_mean @ W
        return self.y_mean - np.einsum("ij,ij->j", self.x_mean, W)


# A column is far from zero where its squared mean is more than this many times its
# variance. The columns together are far from zero where the squared means of such
# columns sum to more than this many times the sum of the variances of all columns.
_FAR = 100.0


def is_far_from_zero(data: TaskData) -> bool:
    """Return whether the means of columns, within tasks, hide what varies.

    A column of years is an example. With it, an intercept and the coefficients are hard
    to distinguish, and first-order methods crawl.
    """
    full = data.full_weights()
    total = data.sum_by_task(full)
    if data.sparse:
        squared_X = data.X.multiply(data.X)
    else:
        squared_X = np.square(data.X)
    squared_means = np.square(TaskOperator(data).adjoint(full) / total)
    squares = TaskOperator(data.with_design(squared_X)).adjoint(full) / total
    variances = np.maximum(squares - squared_means, 0.0)
    far_means = np.where(squared_means > _FAR * variances, squared_means, 0.0)
    return bool(np.sum(total * far_means) > _FAR * np.sum(total * variances))


def centre(data: TaskData, *, targets: bool = True) -> Centred:
    """Remove the weighted mean of each task from the design, and from the targets.

    Dense designs are copied and centered; a sparse one, and a shared one with weights
    or missing targets by task, stays as it is and the operator subtracts the means.
    With the centered operator A and targets y, the Gram form is
    ``A.gram(data.weights)`` and ``A.adjoint(w * y)``.

    Parameters
    ----------
    data : TaskData
    targets : bool, default True
        False leaves the targets as they are; `y_mean` is then zero.
    """
    is_plain = data.uniform and data.weights is None
    if is_plain:
        total = np.full(data.n_tasks, float(data.n_rows))
    else:
        full = data.full_weights()
        total = data.sum_by_task(full)
    y_mean = np.zeros(data.n_tasks)
    moved = data
    if targets:
        y_mean = data.sum_by_task(data.weighted(data.targets)) / total
        residuals = data.targets - data.spread(y_mean)
        if data.observed is not None:
            residuals = np.where(data.observed, residuals, 0.0)
        moved = data.with_targets(residuals)
    if data.uniform:
        row_weights = np.ones(data.n_rows) if is_plain else data.weights
        x_mean = (data.X.T @ row_weights) / total[0]
    else:
        x_mean = TaskOperator(data).adjoint(full) / total
    if data.sparse or (data.shared and x_mean.ndim == 2):
        return Centred(moved, TaskOperator(moved, shift=x_mean), x_mean, y_mean)
    X = data.X - (
        x_mean if x_mean.ndim == 1 else np.repeat(x_mean.T, data.sizes, axis=0)
    )
    moved = moved.with_design(X)
    return Centred(moved, TaskOperator(moved), x_mean, y_mean)


def optimal_intercept(
    data: TaskData,
    loss: Loss,
    z: Array,
    start: Array | None = None,
) -> Array:
    """Return b (T,) that minimizes the loss of z + b, task by task.

    Safeguarded Newton steps on the derivative, which increases in b, for all tasks at
    once; one step for the squared loss. A task of one class has no minimizer under the
    logistic loss; its b makes the derivative vanish within `_SLOPE_TOL`.

    Parameters
    ----------
    data : TaskData
    loss : Loss
    z : ndarray
        Field of predictions without intercept.
    start : ndarray of shape (T,), optional
        First guess; default zeros.
    """
    w = data.effective_weights()
    total = data.sum_by_task(data.full_weights())
    if start is None:
        b = np.zeros(data.n_tasks)
    else:
        b = np.array(start, dtype=np.float64)
    low = np.full_like(b, -np.inf)
    high = np.full_like(b, np.inf)
    radius = np.full_like(b, 1.0 if loss.labels else np.inf)
    for _ in range(200):
        prediction = data.shifted(z, b)
        slope = data.sum_by_task(loss.gradient(prediction, data.targets, w))
        width = high - low
        open_ = (np.abs(slope) > _SLOPE_TOL * loss.scale * total) & ~(
            width <= 1e-15 * (1.0 + np.abs(b))
        )
        if not open_.any():
            break
        low = np.where(slope < 0, np.maximum(low, b), low)
        high = np.where(slope > 0, np.minimum(high, b), high)
        curve = data.sum_by_task(loss.hessian(prediction, data.targets, w))
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # flat losses and open brackets
            step = np.where(curve > 0, -slope / curve, -np.sign(slope) * np.inf)
            new = b + np.clip(step, -radius, radius)
            halfway = 0.5 * (low + high)
        radius = np.where(np.abs(step) > radius, 2.0 * radius, radius)
        new = np.where(
            ((new <= low) | (new >= high)) & np.isfinite(halfway), halfway, new
        )
        b = np.where(open_, new, b)
    return b
