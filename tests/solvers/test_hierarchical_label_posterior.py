"""Posteriors of labels: variances, averages and leave-one-out losses against dense
algebra; separated classes.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import can_differ, standardized, varies_within
from mtlrun.solvers.hierarchical.label_posterior import averaged_odds
from mtlrun.solvers.hierarchical.logistic import Laplace, Prices, rows_of
from mtlrun.solvers.hierarchical.marginal import cholesky_of_one_plus
from mtlrun.solvers.hierarchical.separation import separating_columns

THETA = np.array([0.8, 0.3, 0.0])


def table(seed=0, T=8, n=12):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    odds = rng.normal(size=T)[ids] + X[:, 0]
    return X, np.where(rng.random(T * n) < expit(odds), 1.0, -1.0), ids


def laplace(X, y, ids, weights=None, columns=None):
    """Return the criterion, with columns standardized like those of another table."""
    data = TaskData.from_stacked(X, y, ids, weights=weights)
    scaled = columns or standardized(data, True)
    rows = rows_of(data, scaled)
    m = Laplace(rows, data.n_tasks, np.arange(3), Prices.equal(0.1, 3))
    return m, scaled


def at_best_mean(m, theta=THETA):
    """Return the value at the best mean for given variances."""
    value = m(np.zeros(3), theta)
    for _ in range(30):
        step = np.linalg.solve(value.information, value.g_mu)
        value = m(value.mu - 0.5 * step, theta, value.v)
    assert np.abs(value.g_mu).max() < 1e-6
    return value


@pytest.mark.parametrize("n", [2, 12])
def test_variances_of_log_odds_are_those_of_one_large_regression(n):
    X, y, ids = table(n=n)
    m, columns = laplace(X, y, ids)
    value = at_best_mean(m)
    posterior = m.posterior(value)
    A = columns.apply(X)
    odds = (A * m.coefficients(value)[ids]).sum(axis=1)
    curvature = expit(odds) * expit(-odds)
    # All log-odds together: V = A Sigma A' within tasks, and mu with covariance C.
    same = ids[:, None] == ids
    V = same * ((A * THETA) @ A.T)
    solved = np.linalg.inv(V + np.diag(1 / curvature))
    C = np.linalg.inv(A.T @ solved @ A + 0.1 * np.eye(3))
    assert_allclose(C, posterior.mean_covariance, atol=1e-6)
    left = A - V @ solved @ A
    expected = np.diag(V - V @ solved @ V) + np.diag(left @ C @ left.T)
    actual = np.concatenate([posterior.variances(A[ids == t], t) for t in range(8)])
    assert_allclose(actual, expected, rtol=1e-5)
    new = np.diag(A @ (np.diag(THETA) + C) @ A.T)
    assert_allclose(posterior.variances(A, -1), new, rtol=1e-5)


def test_leave_one_out_losses_match_fits_without_the_row():
    X, y, ids = table()
    m, columns = laplace(X, y, ids)
    losses = []
    for i in np.flatnonzero(ids < 2):
        rest = np.arange(len(y)) != i
        fewer, _ = laplace(X[rest], y[rest], ids[rest], columns=columns)
        value = at_best_mean(fewer)
        row = columns.apply(X[[i]])
        odds = row @ fewer.coefficients(value)[ids[i]]
        variance = fewer.posterior(value).variances(row, ids[i])
        averaged = averaged_odds(odds, variance)[0]
        losses.append(np.logaddexp(0.0, -y[i] * averaged))
    expected = np.bincount(ids[ids < 2], losses)
    of_tasks = m.leave_one_out(at_best_mean(m))
    assert len(of_tasks) == 8
    assert_allclose(of_tasks[:2], expected, rtol=0.02)


def test_a_weight_of_two_equals_a_repeated_row_when_left_out():
    X, y, ids = table()
    m, columns = laplace(X, y, ids, weights=np.full(len(y), 2.0))
    twice, _ = laplace(
        np.repeat(X, 2, axis=0), np.repeat(y, 2), np.repeat(ids, 2), columns=columns
    )
    assert_allclose(
        m.leave_one_out(at_best_mean(m)),
        twice.leave_one_out(at_best_mean(twice)),
        rtol=1e-6,
    )


# ---------------------------------------------------------------------- columns


def test_a_column_varies_if_it_differs_from_its_mean():
    R = np.zeros((3, 4, 3))
    R[:, :3, 0] = 1.0
    R[0, :3, 1] = [2.0, 2.0, 2.0]
    R[1, :3, 1] = [2.0, 2.0, 3.0]
    R[:, :3, 2] = 1e5
    assert varies_within(R, True)[:, 1:].tolist() == [
        [False, False],
        [True, False],
        [False, False],
    ]
    assert varies_within(R[:, :, 1:], False).tolist() == [
        [True, True],
        [True, True],
        [False, True],
    ]


@pytest.mark.parametrize(
    ("varying", "n_tasks", "expected"),
    [(2, 9, False), (3, 9, True), (2, 2, True), (1, 2, False), (1, 1, True)],
)
def test_a_coefficient_needs_three_tasks_or_all_of_fewer(varying, n_tasks, expected):
    varies = np.arange(n_tasks)[:, None] < varying
    assert can_differ(varies).tolist() == [expected]


def test_a_direction_of_few_columns_is_named():
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(60), rng.normal(size=(60, 4))])
    assert separating_columns(A, A[:, 2] + A[:, 4] > 0.3, True) == [2, 4]
    assert separating_columns(A, A[:, 3] > 0.3, True) == [3]
    assert separating_columns(A, A[:, 3] < 0.3, True) == [3]
    assert separating_columns(A, np.ones(60), True) == [0]
    assert separating_columns(A, rng.random(60) < 0.5, True) == []
    assert separating_columns(A[:, 1:], A[:, 3] > 0.0, False) == [2]
    assert separating_columns(A[:, 1:], A[:, 3] > 0.3, False) == []


def test_a_one_lost_in_rounding_is_not_an_error():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(1, 6, 2))
    V = 1e25 * V @ V.transpose(0, 2, 1)
    V[0, 0, 0] *= 1.0 - 1e-13
    factor = cholesky_of_one_plus(V.copy())
    assert_allclose(factor @ factor.transpose(0, 2, 1), V, rtol=1e-6, atol=1e20)
