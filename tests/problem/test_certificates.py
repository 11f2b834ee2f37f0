"""Duality gaps: feasibility, values at known optima, intercepts, unpenalized parts."""

import numpy as np
import pytest
import scipy.sparse as sp

from mtlrun.penalties.norms import L1, L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import (
    centre,
    dual_point,
    dual_value,
    duality_gap,
    feasible_scale,
    primal_value,
    relative_gap,
)
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def shared_data(rng, n=12, d=4, T=3, labels=False):
    X = rng.normal(size=(n, d)) + 0.5
    Y = X @ rng.normal(size=(d, T)) + rng.normal(size=(n, T))
    return TaskData.from_matrix(X, np.where(Y >= 0, 1.0, -1.0) if labels else Y)


def test_relative_gaps_are_computed():
    assert relative_gap(10.0, 9.0, null=20.0) == pytest.approx(0.1)
    assert relative_gap(1e-9, 0.5e-9, null=2e-9) == pytest.approx(0.5)
    assert relative_gap(0.5, 0.25, null=1e4) == pytest.approx(0.025)
    assert relative_gap(0.0, 0.0, null=0.0) == 0.0
    assert relative_gap(np.inf, 0.0, null=1.0) == np.inf
    assert relative_gap(1.0, np.nan, null=1.0) == np.inf
    assert (
        relative_gap(1e20, 1e20, null=0.0, gap=1.0) == 1e-20
    )  # A gap known without cancellation


# ---------------------------------------------------------------------- feasibility


@pytest.mark.parametrize(
    "penalties",
    [
        [L1(0.5)],
        [L21(0.5)],
        [L12(0.5)],
        [TraceNorm(0.5)],
        [TraceNorm(0.7), L12(0.4)],
        [L21(0.7), L12(0.6)],
        [L1(0.3), TraceNorm(0.9), SquaredFrobenius(1.0)],
    ],
)
def test_scaled_points_are_feasible_and_touch_a_constraint(rng, penalties):
    data = shared_data(rng)
    theta = dual_point(100 * data.targets, data, penalties)[0]
    dual_norms = [
        p.dual_norm(TaskOperator(data).adjoint(theta)) for p in penalties if p.is_norm
    ]
    assert max(dual_norms) == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_array_equal(
        dual_point(1e-6 * data.targets, data, penalties)[0], 1e-6 * data.targets
    )


def test_columns_are_scaled_before_the_whole_matrix(rng):
    Z = np.diag([10.0, 1.0])
    np.testing.assert_allclose(feasible_scale(Z, [L12(1.0)]), [0.1, 1.0])
    np.testing.assert_allclose(feasible_scale(Z, [TraceNorm(1.0)]), [0.1, 0.1])
    np.testing.assert_allclose(
        feasible_scale(Z, [TraceNorm(0.5), L12(1.0)]), [0.05, 0.5]
    )
    np.testing.assert_allclose(feasible_scale(Z, [SquaredFrobenius(1.0)]), [1.0, 1.0])


def test_zero_strength_leaves_only_zero():
    assert feasible_scale(np.ones((2, 2)), [L12(0.0)]).tolist() == [0, 0]
    assert feasible_scale(np.ones((2, 2)), [TraceNorm(0.0)]).tolist() == [0, 0]


# --------------------------------------------------------------- values at known optima


@pytest.mark.parametrize("sparse", [False, True])
def test_ridge_has_no_gap(rng, sparse):
    data = shared_data(rng)
    X = data.X
    if sparse:
        data = TaskData.from_matrix(sp.csr_array(X), data.Y)
    W = np.linalg.solve(X.T @ X + 3.0 * np.eye(4), X.T @ data.Y)
    gap = duality_gap(data, SquaredLoss(), [SquaredFrobenius(3.0)], [W])
    assert gap.primal == pytest.approx(
        0.5 * np.sum((data.Y - X @ W) ** 2) + 1.5 * np.sum(W**2)
    )
    assert abs(gap.relative) < 1e-13


def test_ridge_with_intercept_has_no_gap(rng):
    data = shared_data(rng)
    moved = centre(data)
    W = np.linalg.solve(
        moved.operator.gram() + 2.0 * np.eye(4),
        moved.operator.adjoint(moved.data.targets),
    )
    gap = duality_gap(
        data, SquaredLoss(), [SquaredFrobenius(2.0)], [W], moved.intercept(W)
    )
    assert abs(gap.relative) < 1e-13
    same = duality_gap(
        moved.data, SquaredLoss(), [SquaredFrobenius(2.0)], [W], operator=moved.operator
    )
    assert same.primal == pytest.approx(gap.primal)
    assert same.dual == pytest.approx(gap.dual)


def test_soft_threshold_on_an_orthogonal_design_has_no_gap(rng):
    data = TaskData.from_matrix(np.eye(5), rng.normal(size=(5, 3)))
    for penalty in (L1(0.4), L21(0.8), L12(0.8), TraceNorm(0.9)):
        W = penalty.prox(data.Y, 1.0)
        assert abs(duality_gap(data, SquaredLoss(), [penalty], [W]).relative) < 1e-12


@pytest.mark.parametrize(
    "loss", [SquaredLoss(0.7), LogisticLoss(), SquaredHingeLoss(2.0), HingeLoss()]
)
def test_zero_is_optimal_for_strong_penalties(rng, loss):
    data = shared_data(rng, labels=True)
    gap = duality_gap(data, loss, [TraceNorm(1e4), L12(1e4)], np.zeros((2, 4, 3)))
    assert abs(gap.relative) < 1e-14


def test_the_dual_value_matches_the_formulas_of_the_papers(rng):
    beta, data = 0.4, shared_data(rng, labels=True)
    penalties = [TraceNorm(1.0), L12(0.6)]
    operator, Y = TaskOperator(data), data.Y
    theta = dual_point(2 * beta * Y * 0.7, data, penalties)[0]
    value = np.sum(theta * Y) - np.sum(theta**2) / (4 * beta)
    assert dual_value(theta, data, SquaredLoss(2 * beta), penalties) == pytest.approx(
        value
    )
    a = Y * theta
    value = np.sum(a - a**2 / (4 * beta))
    assert dual_value(
        theta, data, SquaredHingeLoss(2 * beta), penalties, operator=operator
    ) == pytest.approx(value)


def test_the_primal_value_adds_parts_and_penalties(rng):
    data = shared_data(rng)
    parts, b = rng.normal(size=(2, 4, 3)), rng.normal(size=3)
    penalties = [TraceNorm(1.0), L12(0.5)]
    z = data.X @ parts.sum(axis=0) + b
    expected = (
        SquaredLoss().value(z, data.Y)
        + penalties[0].value(parts[0])
        + penalties[1].value(parts[1])
    )
    assert primal_value(data, SquaredLoss(), penalties, parts, b) == pytest.approx(
        expected
    )
    assert duality_gap(
        data, SquaredLoss(), penalties, parts, b
    ).primal == pytest.approx(expected)


def test_numbers_of_parts_and_penalties_must_agree(rng):
    with pytest.raises(ValueError, match="1 matrices for 2 penalties"):
        duality_gap(
            shared_data(rng), SquaredLoss(), [L1(1.0), L12(1.0)], np.zeros((1, 4, 3))
        )


# ---------------------------------------------------------------------- free intercepts


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), SquaredHingeLoss()])
@pytest.mark.parametrize("weighted", [False, True])
def test_free_intercepts_require_sums_of_zero(rng, loss, weighted):
    data = shared_data(rng, labels=True)
    if weighted:
        data = TaskData.from_matrix(data.X, data.Y, weights=rng.random(12))
    theta = -loss.gradient(rng.normal(size=(12, 3)), data.Y, data.effective_weights())
    point = dual_point(theta, data, [L12(0.5)], intercept=True, loss=loss)[0]
    np.testing.assert_allclose(data.sum_by_task(point), 0, atol=1e-13)
    assert np.isfinite(loss.conjugate(-point, data.Y, data.effective_weights()))


def test_constant_targets_need_only_an_intercept(rng):
    data = TaskData.from_matrix(rng.normal(size=(6, 2)), np.full((6, 2), 3.0))
    gap = duality_gap(
        data, SquaredLoss(), [L1(0.1)], np.zeros((1, 2, 2)), np.full(2, 3.0)
    )
    assert gap.primal == gap.dual == 0


def test_the_gap_uses_the_best_intercept_for_the_dual_point(rng):
    data = shared_data(rng)
    b = data.Y.mean(axis=0)
    penalties, zero = [L12(1e6)], np.zeros((1, 4, 3))
    exact = duality_gap(data, SquaredLoss(), penalties, zero, b)
    assert abs(exact.relative) < 1e-12
    off = duality_gap(data, SquaredLoss(), penalties, zero, b + 1.0)
    assert off.dual == pytest.approx(exact.dual)
    assert off.primal > exact.primal


def test_a_task_of_a_single_class_has_an_intercept(rng):
    data = TaskData.from_matrix(rng.normal(size=(6, 2)), np.ones((6, 1)))
    for loss in (SquaredHingeLoss(), LogisticLoss()):
        gap = duality_gap(data, loss, [L12(1.0)], np.zeros((1, 2, 1)), np.array([40.0]))
        assert gap.dual == 0.0
        assert gap.relative < 1e-12


# ---------------------------------------------------------------- unpenalized parts


@pytest.mark.cover(2)
@pytest.mark.parametrize("penalty_class", [L1, L12, TraceNorm, SquaredFrobenius])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("layout", ["shared", "ragged", "masked", "weights", "sparse"])
def test_least_squares_is_certified(rng, penalty_class, intercept, layout):
    data = shared_data(rng)
    if layout == "ragged":
        data = TaskData.from_list(
            [data.X] * 3, list(data.Y.T), weights=[np.arange(1, 13)] * 3
        )
    elif layout == "masked":
        data = TaskData.from_matrix(
            data.X, np.where(rng.random((12, 3)) < 0.2, np.nan, data.Y)
        )
    elif layout == "weights":
        data = TaskData.from_matrix(data.X, data.Y, weights=rng.random(12))
    elif layout == "sparse":
        data = TaskData.from_matrix(sp.csr_array(data.X), data.Y)
    W, b = np.zeros((4, 3)), np.zeros(3)
    for t in range(3):
        X, y, w = data.task(t)
        X = X.toarray() if sp.issparse(X) else X
        X = np.column_stack([X, np.ones(len(y))]) if intercept else X
        root = np.ones(len(y)) if w is None else np.sqrt(w)
        solution = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
        W[:, t], b[t] = solution[:4], solution[4] if intercept else 0.0
    gap = duality_gap(
        data, SquaredLoss(), [penalty_class(0.0)], [W], b if intercept else None
    )
    assert abs(gap.relative) < 1e-12
    assert gap.primal > 0.1
    away = duality_gap(
        data, SquaredLoss(), [penalty_class(0.0)], [W + 0.1], b if intercept else None
    )
    assert away.dual == pytest.approx(gap.dual, rel=1e-9)


def test_unpenalized_logistic_regression_is_certified_at_its_optimum(rng):
    X = rng.normal(size=(40, 2))
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    data, loss, w = (
        TaskData.from_matrix(X, y[:, None]),
        LogisticLoss(),
        np.zeros((2, 1)),
    )
    for _ in range(30):
        z = X @ w
        w = w - np.linalg.solve(
            X.T @ (loss.hessian(z, data.Y) * X), X.T @ loss.gradient(z, data.Y)
        )
    assert abs(duality_gap(data, loss, [L1(0.0)], [w]).relative) < 1e-12
    assert duality_gap(data, loss, [L1(0.0)], [w + 3.0]).relative >= 0
