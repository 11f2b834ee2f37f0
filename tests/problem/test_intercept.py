"""Unpenalized intercepts: centering and exact minimization."""

import numpy as np
import pytest
import scipy.sparse as sp
from all_cases import all_cases

from mtlrun.problem.losses import (
    LOSSES,
    HingeLoss,
    LogisticLoss,
    SquaredHingeLoss,
    SquaredLoss,
)
from mtlrun.problem.objective import centre, optimal_intercept
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData


def problems():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)) + 5.0, rng.normal(size=(9, 2)) - 4.0
    holes = Y.copy()
    holes[0, 0] = holes[4, 1] = np.nan
    ids = np.array([0, 1, 0, 1, 1, 0, 1, 0, 1])
    return {
        "shared": TaskData.from_matrix(X, Y),
        "shared sparse": TaskData.from_matrix(sp.csr_array(X), Y),
        "row weights": TaskData.from_matrix(X, Y, weights=rng.random(9)),
        "sparse row weights": TaskData.from_matrix(
            sp.csr_array(X), Y, weights=rng.random(9)
        ),
        "entry weights": TaskData.from_matrix(X, Y, weights=rng.random((9, 2))),
        "masked": TaskData.from_matrix(X, holes),
        "masked sparse weights": TaskData.from_matrix(
            sp.csr_array(X), holes, weights=rng.random(9)
        ),
        "ragged": TaskData.from_stacked(X, Y[:, 0], ids),
        "ragged weights": TaskData.from_stacked(X, Y[:, 0], ids, weights=rng.random(9)),
        "ragged sparse weights": TaskData.from_stacked(
            sp.csr_array(X), Y[:, 0], ids, weights=rng.random(9)
        ),
    }


PROBLEMS = problems()
IMPLICIT = {
    name for name in PROBLEMS if "sparse" in name or name in ("entry weights", "masked")
}


@all_cases("name", PROBLEMS)
def test_the_centered_problem_has_the_coefficients_of_the_original(name):
    data = PROBLEMS[name]
    centred = centre(data)
    assert (centred.operator.shift is not None) == (name in IMPLICIT)
    w = data.effective_weights()
    w = np.ones_like(data.targets) if w is None else w
    grams, right = (
        centred.operator.gram(data.weights),
        centred.operator.adjoint(w * centred.data.targets),
    )
    W = np.stack(
        [
            np.linalg.solve(grams if grams.ndim == 2 else grams[t], right[:, t])
            for t in range(2)
        ],
        axis=1,
    )
    b = centred.intercept(W)
    for t in range(2):
        X, y, v = data.task(t)
        X = X.toarray() if sp.issparse(X) else X
        root = np.sqrt(np.ones(len(y)) if v is None else v)
        truth = np.linalg.lstsq(
            root[:, None] * np.column_stack([X, np.ones(len(y))]), root * y, rcond=None
        )[0]
        np.testing.assert_allclose(np.append(W[:, t], b[t]), truth, rtol=1e-8)


@all_cases("name", PROBLEMS)
def test_centered_products_do_not_change_the_original(name):
    data = PROBLEMS[name]
    targets = data.targets.copy()
    X = data.X.toarray() if data.sparse else data.X.copy()
    centred = centre(data)
    W = np.random.default_rng(1).normal(size=(3, 2))
    w = data.effective_weights()
    residual = centred.operator.forward(W) - centred.data.targets
    full = TaskOperator(data).forward(W, centred.intercept(W)) - data.targets
    used = np.ones(full.shape, dtype=bool) if data.observed is None else data.observed
    np.testing.assert_allclose(residual[used], full[used], atol=1e-12)
    np.testing.assert_allclose(
        data.sum_by_task(full if w is None else w * full), 0, atol=1e-11
    )
    np.testing.assert_array_equal(data.targets, targets)
    np.testing.assert_array_equal(data.X.toarray() if data.sparse else data.X, X)


def test_centering_a_sparse_design_keeps_it_sparse():
    data = PROBLEMS["shared sparse"]
    assert centre(data).data.X is data.X


def test_centered_targets_stay_zero_where_masked():
    data = PROBLEMS["masked"]
    assert np.all(centre(data).data.targets[~data.observed] == 0)


@pytest.mark.cover(2)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("loss_class", LOSSES.values())
def test_the_optimal_intercept_minimizes(name, loss_class):
    data = PROBLEMS[name]
    loss = loss_class(2.0)
    rng = np.random.default_rng(3)
    if loss.labels:
        labels = np.where(rng.random(data.targets.shape) < 0.3, 1.0, -1.0)
        data = data.with_targets(
            labels if data.observed is None else labels * data.observed
        )
    z, w = 4.0 * rng.normal(size=data.targets.shape), data.effective_weights()
    b = optimal_intercept(data, loss, z)

    def total(b):
        values = loss.values(z + data.spread(b), data.targets)
        return data.sum_by_task(values if w is None else w * values)

    best = total(b)
    for h in (1e-5, 1e-3, 0.1, 1.0, 10.0):
        assert np.all(total(b + h) >= best - 1e-9 * (1 + best))
        assert np.all(total(b - h) >= best - 1e-9 * (1 + best))


def test_the_squared_loss_needs_no_search():
    data = TaskData.from_matrix(np.ones((3, 1)), np.array([[1.0], [2.0], [1e6]]))
    b = optimal_intercept(data, SquaredLoss(5.0), np.zeros((3, 1)))
    assert b[0] == pytest.approx(1000003.0 / 3.0, rel=1e-14)


def test_extreme_predictions_have_an_optimal_intercept():
    data = TaskData.from_matrix(
        np.ones((4, 1)), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    )
    z = np.array([[1e5], [2e5], [1e5 - 1], [3e5]])
    for loss in (LogisticLoss(), SquaredHingeLoss()):
        b = optimal_intercept(data, loss, z)
        assert abs(data.sum_by_task(loss.gradient(z + b, data.targets))[0]) < 1e-9


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredHingeLoss(), HingeLoss()])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_a_task_of_a_single_class_has_zero_loss(loss, label):
    data = TaskData.from_matrix(np.ones((4, 1)), np.full((4, 1), label))
    z = np.array([[0.0], [-3.0], [7.0], [1.0]])
    b = optimal_intercept(data, loss, z)
    assert np.isfinite(b[0])
    assert loss.value(z + b, data.targets) < 1e-10
