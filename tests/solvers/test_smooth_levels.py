"""Smooth models of labels with integrated levels: derivatives and dense integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from smooth_tables import SmoothTable

from mtlrun.estimators import SmoothMTLClassifier
from mtlrun.solvers.hierarchical.smooth_labels import LabelMarginal
from mtlrun.solvers.hierarchical.smooth_levels import LevelMarginal

LINEAR = {"common_parts": ("linear",), "task_parts": ("level",)}


def table(seed=0, T=60, rows=(1, 5), sd=2.0):
    """Return labels of tasks of few rows, whose levels differ."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), rng.integers(*rows, size=T))
    X = rng.normal(size=(len(ids), 2))
    odds = sd * rng.normal(size=T)[ids] + X[:, 0] + np.sin(2 * X[:, 1]) - 0.5 * sd
    return X, (rng.random(len(ids)) < expit(odds)).astype(int), ids


@pytest.fixture(scope="module")
def table_rows():
    """Return the rows of the default table as the solver sees them."""
    return SmoothTable.of(*table()).data


@pytest.mark.parametrize("variance", [0.04, 2.5, 20.0])
def test_the_gradient_at_held_nodes_matches_finite_differences(table_rows, variance):
    criterion = LevelMarginal(table_rows)
    theta = np.full(8, 0.3)
    theta[criterion.level] = variance
    criterion.place(theta)
    gradient = criterion(theta).gradient
    for part in range(8):
        step = np.zeros(8)
        step[part] = 1e-3 * theta[part]
        above = criterion.solve(theta + step).criterion
        below = criterion.solve(theta - step).criterion
        numeric = (above - below) / (2 * step[part])
        assert gradient[part] == pytest.approx(numeric, rel=1e-3, abs=1e-3)


def test_without_variance_of_levels_the_criterion_is_that_of_laplace(table_rows):
    criterion = LevelMarginal(table_rows)
    theta = np.full(8, 0.3)
    theta[criterion.level] = 0.0
    criterion.place(theta)
    laplace = LabelMarginal(table_rows)(theta)
    value = criterion(theta)
    assert value.criterion == pytest.approx(laplace.criterion, abs=1e-5)
    others = np.arange(8) != criterion.level
    assert_allclose(value.gradient[others], laplace.gradient[others], atol=1e-4)


@pytest.mark.parametrize(
    ("sd", "n_tasks"),
    [(6.0, 150), pytest.param(1.0, 150, marks=pytest.mark.slow)],
)
def test_levels_and_probabilities_are_near_the_exact_ones(sd, n_tasks):
    X, y, ids = table(seed=1, T=n_tasks, rows=(2, 4), sd=sd)
    model = SmoothMTLClassifier(**LINEAR, unseen="mean").fit(X, y, task_id=ids)
    assert model.converged_
    v = np.linspace(-8.0, 8.0, 121)
    log_prior = -0.5 * v**2 - np.log(np.exp(-0.5 * v**2).sum())
    starts = np.flatnonzero(np.append(True, np.diff(ids) > 0))

    def posterior(x):
        odds = (x[0] + X @ x[2:])[:, None] + np.exp(x[1]) * v
        terms = log_expit(np.where(y[:, None] > 0, odds, -odds))
        joint = np.add.reduceat(terms, starts, axis=0) + log_prior
        top = joint.max(axis=1, keepdims=True)
        density = np.exp(joint - top)
        return (top[:, 0] + np.log(density.sum(axis=1))).sum(), density

    best = minimize(lambda x: -posterior(x)[0], [-0.5 * sd, np.log(sd), 1.0, 0.5]).x
    estimate = np.sqrt(model.variances_["task level"])
    assert estimate == pytest.approx(np.exp(best[1]), rel=0.1)
    _, density = posterior(best)
    share = density / density.sum(axis=1, keepdims=True)
    new = np.exp(log_prior)[None]
    at_nodes = expit((best[0] + X[:20] @ best[2:])[:, None] + np.exp(best[1]) * v)
    for tasks, expected in ((ids[:20], share[ids[:20]]), (np.full(20, -1), new)):
        probabilities = model.predict_proba(X[:20], task_id=tasks)[:, 1]
        exact = (at_nodes * expected).sum(axis=1)
        assert_allclose(probabilities, exact, atol=0.9 / np.sqrt(n_tasks))


def test_many_rows_per_task_keep_laplaces_approximation():
    X, y, ids = table(T=12, rows=(60, 61), sd=0.6)
    model = SmoothMTLClassifier(**LINEAR).fit(X, y, task_id=ids)
    assert model.integration_ == "laplace"
    assert model.variances_["task level"] > 0


def test_a_weight_of_two_is_a_row_twice_in_any_order():
    X, y, ids = table(seed=2, T=80, rows=(1, 4), sd=3.0)
    weights = np.random.default_rng(2).integers(1, 3, size=len(y))
    weighted = SmoothMTLClassifier(**LINEAR)
    weighted.fit(X, y, task_id=ids, sample_weight=weights)
    order = np.random.default_rng(3).permutation(weights.sum())
    X2, y2, ids2 = (np.repeat(values, weights, axis=0)[order] for values in (X, y, ids))
    twice = SmoothMTLClassifier(**LINEAR).fit(X2, y2, task_id=ids2)
    assert weighted.integration_ == "quadrature"
    assert weighted.variances_ == pytest.approx(twice.variances_, rel=1e-2)
    first = weighted.predict_proba(X[:9], task_id=ids[:9])
    assert_allclose(first, twice.predict_proba(X[:9], task_id=ids[:9]), atol=5e-3)


def test_the_test_of_the_level_sees_large_levels():
    X, y, ids = table(seed=1, T=100, rows=(2, 4), sd=3.0)
    model = SmoothMTLClassifier(**LINEAR).fit(X, y, task_id=ids)
    tests = {test.part: test for test in model.part_tests()}
    assert tests["task level"].p_value < 1e-4
