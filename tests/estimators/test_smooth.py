"""Smooth hierarchical models: dense algebra, invariances and degenerate data."""

import os
import pickle
import tracemalloc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from smooth_tables import SmoothTable

from mtlrun.estimators import (
    HierarchicalMTL,
    SmoothIndependent,
    SmoothIndependentClassifier,
    SmoothMTL,
    SmoothMTLClassifier,
    SmoothPooled,
    SmoothPooledClassifier,
)
from mtlrun.solvers.hierarchical import smooth, smooth_blocks, smooth_fit
from mtlrun.solvers.hierarchical.smooth_labels import PRIOR_STD, LabelMarginal
from mtlrun.solvers.hierarchical.smooth_levels import fit_smooth_labels
from mtlrun.solvers.hierarchical.smooth_parts import (
    NystroemFeatures,
    SmoothDesign,
    SmoothRows,
)
from mtlrun.solvers.hierarchical.smooth_posterior import mean_at_zero

pytestmark = pytest.mark.usefixtures("few_trees")

COMMON = ("linear", "additive", "wide", "narrow")
OWN = ("level", "slopes", "smooth", "additive")


def table(n_tasks=8, p=3, seed=0, sizes=(3, 5, 8, 9, 12, 4, 30, 17)):
    """Return rows of tasks that differ in level, slope and curve."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), sizes)
    X = rng.normal(size=(len(task), p))
    shift = rng.normal(size=n_tasks)[task]
    y = np.sin(2 * X[:, 0] + shift) + shift + 0.3 * rng.normal(size=len(task))
    weight = rng.uniform(0.5, 2.0, len(task))
    order = rng.permutation(len(task))
    return X[order], y[order], task[order], weight[order]


def solved(table, **options):
    """Return the functions that the solver makes of a table."""
    data, _, _ = smooth.standardized(table.data)
    return smooth.fit_smooth(data, smooth.SmoothOptions(**options)).posterior


def std_at_known_variances(model, posterior, rows, task):
    """Return standard deviations of new targets, the variances taken as known."""
    _, variance = posterior.moments(rows, task)
    return np.sqrt((variance / posterior.s2 + 1) * model.noise_variance_)


def dense_covariance(model, solver_table, X, task):
    """Return the covariance of the functions in units of s2, by definition."""
    rows = solver_table.rows(X)
    z = rows.z
    clipped = np.clip(z, -3, 3)
    p = z.shape[1]
    squared = np.square(clipped[:, None] - clipped[None]).sum(axis=2)
    single = np.exp(-np.square(clipped[:, None] - clipped[None]) / (2 * 0.8**2))
    task_kernels = {
        "task level": np.ones((len(X), len(X))),
        "task slopes": z @ z.T / p,
        "task smooth": np.exp(-squared / (2 * 1.5**2 * p)),
        "task additive": single.mean(axis=2),
    }
    V = np.zeros((len(X), len(X)))
    for part in solver_table.data.design.common:
        F = part.features(rows)
        V += model.variances_[part.name] / model.noise_variance_ * F @ F.T
    for name, kernel in task_kernels.items():
        same = task[:, None] == task[None]
        V += model.variances_[name] / model.noise_variance_ * kernel * same
    return V


def dense_projection(V, weight):
    """Return P and V^-1 1 / f of V + diag(1 / weight)."""
    inverse = np.linalg.inv(V + np.diag(1 / weight))
    ones = inverse.sum(axis=1)
    return inverse - np.outer(ones, ones) / ones.sum(), ones / ones.sum(), inverse


@pytest.fixture
def set_sizes(monkeypatch):
    """Return a function that sets the sizes of blocks."""

    def change(**sizes):
        for name, size in sizes.items():
            monkeypatch.setattr(smooth_blocks, name, size)

    return change


@pytest.fixture(scope="module")
def fitted():
    X, y, task, weight = table()
    model = SmoothMTL(unseen="mean", prior_rate=0.0, tol=1e-9)
    return model.fit(X, y, task_id=task, sample_weight=weight), X, y, task, weight


@pytest.fixture(scope="module")
def solver_table():
    X, y, task, weight = table()
    return SmoothTable.of(X, y, task, weight / weight.mean())


@pytest.fixture(scope="module")
def training(solver_table):
    return smooth.standardized(solver_table.data)[0]


@pytest.fixture(scope="module")
def posterior(solver_table):
    return solved(solver_table, prior_rate=0.0, tol=1e-9)


# ---------------------------------------------------------------- dense algebra


def test_the_criterion_matches_dense_algebra(fitted, solver_table):
    model, X, y, task, weight = fitted
    w = weight / weight.mean()
    v = (y - np.average(y, weights=w)) / np.sqrt(
        np.average((y - np.average(y, weights=w)) ** 2, weights=w)
    )
    V = dense_covariance(model, solver_table, X, task)
    P, _, inverse = dense_projection(V, w)
    n = len(y)
    s2 = v @ P @ v / (n - 1)
    logdet = np.linalg.slogdet(V + np.diag(1 / w))[1] + np.log(inverse.sum())
    assert model.objective_[-1] == pytest.approx(
        (n - 1) * np.log(s2) + logdet, abs=1e-8
    )


def test_predictions_and_standard_deviations_match_dense_algebra(
    fitted, solver_table, posterior
):
    model, X, y, task, weight = fitted
    w = weight / weight.mean()
    rng = np.random.default_rng(1)
    X_new = rng.normal(size=(9, 3))
    task_new = np.array([0, 1, 2, 3, 4, 5, 6, 7, 99])
    rows = np.vstack([X, X_new])
    V = dense_covariance(model, solver_table, rows, np.append(task, task_new))
    n = len(y)
    _, mean_weights, inverse = dense_projection(V[:n, :n], w)
    mu = mean_weights @ y
    k = V[n:, :n]
    mean = mu + k @ inverse @ (y - mu)
    gap = 1 - k @ inverse.sum(axis=1)
    variance = np.diag(V[n:, n:]) - np.einsum("ij,jk,ik->i", k, inverse, k)
    variance += gap**2 / inverse.sum() + 1
    expected = np.sqrt(variance * model.noise_variance_)
    actual, std = model.predict(X_new, task_id=task_new, return_std=True)
    assert_allclose(actual, mean, atol=1e-8)
    assert_allclose(model.predict(X_new, task_id=task_new), mean, atol=1e-8)
    unit = np.sqrt(model.noise_variance_ / posterior.s2)
    for i, code in enumerate([*range(8), -1]):
        row = solver_table.rows(X_new[[i]])
        certain = std_at_known_variances(model, posterior, row, code)
        assert_allclose(certain, expected[[i]], atol=1e-8)
        _, target_variance = posterior.target_variance(row, code)
        assert_allclose(std[[i]], unit * np.sqrt(target_variance), atol=1e-8)


def test_derivatives_of_variances_match_finite_differences(
    fitted, solver_table, posterior
):
    theta = posterior.own_theta
    rows = solver_table.rows(fitted[1][:4] + 0.3)

    def variance(own_theta):
        """Return the prediction error of task 2 for known common functions."""
        task_rows = posterior.task_rows(2)
        kernels = posterior.data.design.own_kernels(task_rows.rows, task_rows.rows)
        between = posterior.data.design.own_kernels(rows, task_rows.rows)
        B = np.tensordot(own_theta, kernels, 1) + np.diag(task_rows.noise)
        k = np.tensordot(own_theta, between, 1)
        prior = own_theta @ posterior.data.design.own_diagonals(rows)
        return prior - np.einsum("ij,jk,ik->i", k, np.linalg.inv(B), k)

    covariance = np.zeros((len(theta), len(theta)))
    slopes, _ = posterior.own_slopes(rows, 2, covariance)
    for part in range(len(theta)):
        step = 1e-6 * np.eye(len(theta))[part]
        expected = (variance(theta + step) - variance(theta - step)) / 2e-6
        assert_allclose(slopes[:, part], np.maximum(expected, 0), atol=1e-6)


def test_the_error_of_estimated_weights_matches_finite_differences(
    fitted, solver_table, posterior
):
    theta = posterior.own_theta
    rows = solver_table.rows(fitted[1][:4] + 0.3)
    task_rows = posterior.task_rows(2)
    kernels = posterior.data.design.own_kernels(task_rows.rows, task_rows.rows)
    between = posterior.data.design.own_kernels(rows, task_rows.rows)

    def covariance_of_rows(own_theta):
        return np.tensordot(own_theta, kernels, 1) + np.diag(task_rows.noise)

    def weights(own_theta):
        k = np.tensordot(own_theta, between, 1)
        return k @ np.linalg.inv(covariance_of_rows(own_theta))

    root = np.random.default_rng(0).normal(size=(len(theta), len(theta)))
    B = covariance_of_rows(theta)
    expected = np.zeros(4)
    for direction in root.T:
        step = 1e-6 * direction
        change = (weights(theta + step) - weights(theta - step)) / 2e-6
        expected += np.einsum("ij,jk,ik->i", change, B, change)
    _, excess = posterior.own_slopes(rows, 2, 1e-6 * root @ root.T)
    assert_allclose(excess, 1e-6 * expected, rtol=1e-5, atol=1e-14)

    # Rough estimates: the rows of the task add no information, but do no harm.
    k = np.tensordot(theta, between, 1)
    _, excess = posterior.own_slopes(rows, 2, 1e12 * root @ root.T)
    assert_allclose(excess, (weights(theta) * k).sum(axis=1))


@pytest.mark.parametrize(
    ("slope", "rate", "limit", "mean"),
    [
        (4.0, 0.0, 1e9, 0.25),  # The standard deviation is half-normal
        (0.0, 2.0, 1e3, 0.5),  # Exponential
        (0.0, 0.0, 0.3, 0.1),  # Uniform
    ],
)
def test_the_mean_of_a_variance_estimated_as_zero_matches_its_density(
    slope, rate, limit, mean
):
    value = mean_at_zero(slope, curvature=0.0, rate=rate, limit=limit)
    assert value == pytest.approx(mean, rel=0.01)


def test_a_variance_of_zero_is_not_treated_as_certain():
    task = np.repeat(np.arange(6), 4)
    x = np.tile([-1.0, -0.5, 0.5, 1.0], 6)
    y = x + 0.1 * np.tile([1.0, -1.0, -1.0, 1.0], 6)
    model = SmoothMTL(task_parts=("level",), unseen="mean").fit(
        x[:, None], y, task_id=task
    )
    assert model.variances_["task level"] == 0
    solver_table = SmoothTable.of(x[:, None], y, task, task_parts=("level",))
    row = solver_table.rows(np.zeros((1, 1)))
    std = model.predict([[0.0]], task_id=[99], return_std=True)[1]
    posterior = solved(solver_table)
    expected = std_at_known_variances(model, posterior, row, -1)
    assert std[0] > 1.05 * expected[0]
    no_level = replace(posterior.uncertainty, missed=np.zeros(1))
    certain = replace(posterior, uncertainty=no_level)
    _, variance = posterior.target_variance(row, -1)
    assert variance > 1.001 * certain.target_variance(row, -1)[1]


def test_few_tasks_increase_the_standard_deviations_of_new_tasks():
    factors = []
    for n_tasks in (3, 30):
        rng = np.random.default_rng(0)
        task = np.repeat(np.arange(n_tasks), 8)
        X = rng.uniform(-2, 2, size=(len(task), 1))
        y = X[:, 0] + rng.normal(size=n_tasks)[task] + 0.3 * rng.normal(size=len(task))
        model = SmoothMTL(unseen="mean").fit(X, y, task_id=task)
        std = model.predict([[0.0]], task_id=[99], return_std=True)[1]
        solver_table = SmoothTable.of(X, y, task)
        row = solver_table.rows(np.zeros((1, 1)))
        certain_std = std_at_known_variances(model, solved(solver_table), row, -1)
        factors.append(float(std[0] / certain_std[0]))
    assert 1.2 < factors[0] <= np.sqrt(2) + 1e-9
    assert 1.0 < factors[1] < 1.1


def test_leave_one_out_predictions_match_fits_without_the_row(fitted, solver_table):
    model, X, y, task, weight = fitted
    w = weight / weight.mean()
    V = dense_covariance(model, solver_table, X, task)
    P, _, _ = dense_projection(V, w)
    assert_allclose(model.loo_, y - P @ y / np.diag(P), atol=1e-8)
    rest = np.arange(1, len(y))
    _, mean_weights, inverse = dense_projection(V[1:, 1:], w[rest])
    mu = mean_weights @ y[rest]
    alone = mu + V[0, 1:] @ inverse @ (y[rest] - mu)
    assert model.loo_[0] == pytest.approx(alone, abs=1e-8)


@pytest.mark.parametrize("m", [1, 64, 65, 150])
def test_products_in_strips_match_complete_products(m):
    rng = np.random.default_rng(m)
    left = rng.normal(size=(3, 4, m))
    triangular = np.triu(rng.normal(size=(m, m)))
    # Zero rows in the middle, and strips of columns without any entry.
    triangular[m // 3 : m // 2] = 0
    triangular[:, m // 2 :] = 0
    for right in (triangular, triangular[:, ::-1]):
        product = smooth_blocks.product_without_zeros(left, right)
        assert_allclose(product, left @ right, atol=1e-12)
    rows = rng.normal(size=(20, m))
    weighted = rows * rng.uniform(size=(20, 1))
    product = smooth_blocks.symmetric_product(rows, weighted)
    assert_allclose(product, rows.T @ weighted, atol=1e-12)
    assert_allclose(product, product.T, atol=1e-12)


@pytest.fixture(params=["kernels", "features"])
def marginal(request, set_sizes, training):
    """Return a criterion with kernels or features, and its dense matrices."""
    if request.param == "features":
        set_sizes(MAX_EXACT_ROWS=10)
    data = training
    design, rows, codes = data.design, data.rows, data.codes
    A = design.common_features(rows)
    parts = [A[:, design.groups == j] for j in range(len(design.common))]
    matrices = [F @ F.T for F in parts]
    same = codes[:, None] == codes[None]
    matrices += [kernel * same for kernel in design.own_kernels(rows, rows)]
    if request.param == "features":
        for t in np.flatnonzero(data.sizes > 10):
            index = np.flatnonzero(codes == t)
            F, groups = design.own_features(rows.take(index), rows.take(index))
            for k in range(len(design.own)):
                block = F[:, groups == k] @ F[:, groups == k].T
                matrices[len(design.common) + k][np.ix_(index, index)] = block
    criterion = smooth.SmoothMarginal(smooth_blocks.BlockList(data))
    return criterion, matrices, data


def test_derivatives_match_dense_algebra(marginal):
    criterion, matrices, data = marginal
    theta = np.random.default_rng(2).uniform(0.1, 1.0, len(matrices))
    value = criterion(theta)
    expected, exact = criterion.curvature(value)
    n = len(data.target)
    V = np.tensordot(theta, matrices, 1)
    P, _, _ = dense_projection(V, 1 / data.noise)
    a = P @ data.target
    s2 = data.target @ a / (n - 1)
    squares = np.array([a @ K @ a for K in matrices]) / s2
    traces = np.array([np.trace(P @ K) for K in matrices])
    assert_allclose(value.gradient, traces - squares, atol=1e-9)
    pairs = np.array([[np.trace(P @ K @ P @ L) for L in matrices] for K in matrices])
    inner = np.array([[a @ K @ P @ L @ a for L in matrices] for K in matrices]) / s2
    assert_allclose(
        expected, pairs - np.outer(traces, traces) / (n - 1), rtol=1e-3, atol=1e-3
    )
    assert_allclose(
        exact,
        2 * inner - pairs - np.outer(squares, squares) / (n - 1),
        rtol=1e-3,
        atol=1e-3,
    )


def test_the_gradient_matches_finite_differences(marginal):
    criterion, matrices, _ = marginal
    theta = np.random.default_rng(3).uniform(0.1, 1.0, len(matrices))
    gradient = criterion(theta).gradient
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        rise = criterion(theta + step).criterion - criterion(theta - step).criterion
        assert gradient[i] == pytest.approx(rise / 2e-5, abs=1e-6)


def test_parts_without_variance_can_be_left_out_of_an_evaluation(marginal):
    criterion, matrices, _ = marginal
    theta = np.linspace(0.1, 1.0, len(matrices))
    theta[[1, -2]] = 0.0
    parts = np.flatnonzero(theta)
    complete = criterion(theta)
    expected, exact = criterion.curvature(complete, parts)
    solution = criterion.solve(theta, needs_gradient=np.zeros(len(theta), dtype=bool))
    value = criterion.differentiate(solution)
    assert value.criterion == pytest.approx(complete.criterion, abs=1e-10)
    assert_allclose(value.gradient[parts], complete.gradient[parts], atol=1e-9)
    assert_allclose(criterion.curvature(value, parts)[0], expected, atol=1e-9)
    assert_allclose(criterion.curvature(value, parts)[1], exact, atol=1e-9)


def test_large_tasks_have_features_that_predict_like_kernels():
    rng = np.random.default_rng(0)
    n = smooth_blocks.MAX_EXACT_ROWS + 20
    task = np.repeat([0, 1], [n - 19, 19])
    X = rng.uniform(-2, 2, size=(n, 2))
    y = np.sin(2 * X[:, 0] + task) + 0.2 * rng.normal(size=n)
    model = SmoothMTL().fit(X, y, task_id=task)
    V = dense_covariance(model, SmoothTable.of(X, y, task), X, task)
    _, mean_weights, inverse = dense_projection(V, np.ones(n))
    mu = mean_weights @ y
    gap = 1 - V @ inverse.sum(axis=1)
    variance = np.diag(V - V @ inverse @ V) + gap**2 / inverse.sum() + 1
    mean, std = model.predict(X, task_id=task, return_std=True)
    assert_allclose(mean, mu + V @ inverse @ (y - mu), atol=0.03)
    assert_allclose(std, np.sqrt(variance * model.noise_variance_), atol=0.03)
    assert_allclose(model.predict(X, task_id=task), mean, atol=1e-9)


# ---------------------------------------------------------------- special cases


def test_with_only_linear_parts_it_is_the_hierarchical_model():
    rng = np.random.default_rng(4)
    task = np.repeat(np.arange(30), 12)
    X = rng.normal(size=(360, 3))
    slopes = 0.6 * rng.normal(size=(30, 3))
    y = X @ [1.0, 0.5, -0.5] + (X * slopes[task]).sum(axis=1)
    y += rng.normal(size=30)[task] + rng.normal(size=360)
    model = SmoothMTL(("linear",), ("level", "slopes"), tol=1e-10)
    model.fit(X, y, task_id=task)
    hierarchical = HierarchicalMTL("scalar", mean="ridge", tol=1e-12)
    hierarchical.fit(X, y, task_id=task)
    assert_allclose(
        model.predict(X, task_id=task),
        hierarchical.predict(X, task_id=task),
        atol=2e-3 * y.std(),
    )


def test_curves_of_tasks_are_recovered():
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(20), 30)
    X = rng.uniform(-1.7, 1.7, size=(600, 2))
    phase = rng.normal(size=20)[task]
    truth = np.sin(1.5 * X[:, 0] + phase) * 2 + X[:, 1]
    y = truth + 0.5 * rng.normal(size=600)
    smooth_error = SmoothMTL().fit(X, y, task_id=task).predict(X, task_id=task) - truth
    linear = HierarchicalMTL().fit(X, y, task_id=task)
    linear_error = linear.predict(X, task_id=task) - truth
    assert np.mean(smooth_error**2) < 0.4 * np.mean(linear_error**2)


# ---------------------------------------------------------------- certificate


def test_the_objective_never_increases_and_the_gap_bounds_the_rest():
    X, y, task, weight = table()
    rough = SmoothMTL(tol=0.5).fit(X, y, task_id=task, sample_weight=weight)
    fine = SmoothMTL(tol=1e-9).fit(X, y, task_id=task, sample_weight=weight)
    assert np.all(np.diff(fine.objective_) < 0)
    assert fine.converged_
    assert fine.gap_ <= 1e-9
    assert rough.objective_[-1] - fine.objective_[-1] < 1.0


def test_curves_with_which_a_search_has_ended_are_not_tried_again(training):
    criterion = smooth.SmoothMarginal(smooth_blocks.BlockList(training))
    prior = smooth.smooth_prior(training, smooth.SmoothOptions())
    search = smooth_fit.VarianceSearch(criterion, prior, tol=1e-6, max_iter=100)
    search.identify(np.ones(len(prior.rate), dtype=bool))
    search.descend(np.full(len(prior.rate), 0.1))
    nearby = 1.1 * search.best.theta
    n_evaluations = criterion.n_evaluations
    assert not search.try_start(nearby)
    assert criterion.n_evaluations == n_evaluations
    search.ends.clear()
    search.try_start(nearby)
    assert criterion.n_evaluations > n_evaluations


def variance_search(data, max_iter):
    """Return a search for the variances of a model, before its start."""
    criterion = smooth.SmoothMarginal(smooth_blocks.BlockList(data))
    prior = smooth.smooth_prior(data, smooth.SmoothOptions())
    search = smooth_fit.VarianceSearch(criterion, prior, 1e-6, max_iter)
    search.identify(np.ones(len(prior.rate), dtype=bool))
    return search


def test_curves_of_a_search_that_ran_out_of_steps_are_tried_again(training):
    search = variance_search(training, max_iter=1)
    search.descend(np.full(len(search.prior.rate), 0.1))
    assert not search.ends


def test_the_certificate_covers_parts_whose_trial_did_not_converge(training):
    search = variance_search(training, max_iter=100)
    search.prior = smooth_fit.VariancePrior(
        np.ones(len(search.prior.rate)), search.prior.precision
    )
    n_parts = len(search.prior.rate)
    search.descend(np.zeros(n_parts))
    gains = [search.addition(part)[1] for part in range(n_parts)]
    part = int(np.argmax(gains))
    trial = np.zeros(n_parts)
    trial[part] = search.addition(part)[0]
    # The trial starts above the best point and may take no step.
    search.objective = search.objective_of(search.solve(trial)) - 1.0
    search.max_iter = 0
    assert not search.add_part(part)
    assert search.result().predicted_reduction == pytest.approx(gains[part])


def test_a_search_that_ran_out_of_steps_continues_with_a_new_step():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48, 3))
    task = np.repeat(np.arange(6), 8)
    slopes = rng.normal(size=6)
    y = np.sin(2 * X[:, 0]) + slopes[task] * X[:, 1] + 0.3 * rng.normal(size=48)
    complete = SmoothMTL().fit(X, y, task_id=task)
    short = SmoothMTL(max_iter=3).fit(X, y, task_id=task)
    assert short.converged_
    assert short.objective_[-1] == pytest.approx(complete.objective_[-1], abs=1e-9)


def test_without_steps_the_variances_stay_where_they_started(training):
    criterion = smooth.SmoothMarginal(smooth_blocks.BlockList(training))
    prior = smooth.smooth_prior(training, smooth.SmoothOptions())
    fit = smooth_fit.fit_variances(criterion, prior, max_iter=0)
    assert not fit.converged
    assert set(fit.theta) <= {0.0, smooth_fit.START}


def test_no_single_variance_can_be_changed_for_a_lower_objective():
    X, y, task, _ = table()
    model = SmoothMTL().fit(X, y, task_id=task)
    fitted_theta = np.array(list(model.variances_.values())) / model.noise_variance_
    data, _, _ = smooth.standardized(SmoothTable.of(X, y, task).data)
    criterion = smooth.SmoothMarginal(smooth_blocks.BlockList(data))
    prior = smooth.smooth_prior(data, smooth.SmoothOptions())

    def objective(theta):
        return criterion.solve(theta).criterion + prior.value(theta)

    best = objective(fitted_theta)
    for part in range(len(fitted_theta)):
        for value in [0.0, 1e-3, 0.03, 0.3, 3.0, 1.1 * fitted_theta[part]]:
            theta = fitted_theta.copy()
            theta[part] = value
            assert objective(theta) >= best - 1e-5


# ---------------------------------------------------------------- invariances


def same_predictions(model, X, task, expected, atol=1e-6):
    assert_allclose(model.predict(X, task_id=task), expected, atol=atol)


@pytest.mark.parametrize("max_rows", [4000, 40])
def test_the_order_of_rows_columns_and_tasks_does_not_matter(max_rows):
    X, y, task, weight = table()
    expected = SmoothMTL(max_rows=max_rows, n_centers=20)
    expected.fit(X, y, task_id=task, sample_weight=weight)
    rng = np.random.default_rng(6)
    rows = rng.permutation(len(y))
    names = np.array(["h", "b", "z", "a", "q", "c", "y", "g"])
    model = SmoothMTL(max_rows=max_rows, n_centers=20)
    model.fit(
        X[rows][:, [2, 0, 1]],
        y[rows],
        task_id=names[task[rows]],
        sample_weight=weight[rows],
    )
    same_predictions(
        model, X[:, [2, 0, 1]], names[task], expected.predict(X, task_id=task)
    )
    assert_allclose(model.loo_, expected.loo_[rows], atol=1e-6)


@pytest.mark.parametrize("factor", [-3.0, 1e-6, 1e6])
def test_scale_and_shift_of_the_targets_do_not_matter(factor):
    X, y, task, _ = table()
    expected = SmoothMTL().fit(X, y, task_id=task)
    model = SmoothMTL().fit(X, factor * (y + 5.0), task_id=task)
    actual, std = model.predict(X, task_id=task, return_std=True)
    mean, expected_std = expected.predict(X, task_id=task, return_std=True)
    assert_allclose(actual / factor - 5.0, mean, atol=1e-6)
    assert_allclose(std / abs(factor), expected_std, atol=1e-6)


def test_scale_and_shift_of_the_columns_do_not_matter():
    X, y, task, _ = table()
    expected = SmoothMTL().fit(X, y, task_id=task)
    moved = X * [10.0, 0.1, 3.0] + [100.0, -5.0, 0.0]
    model = SmoothMTL().fit(moved, y, task_id=task)
    same_predictions(model, moved, task, expected.predict(X, task_id=task))


@pytest.mark.parametrize("factor", [0.01, 1.0, 7.0])
def test_a_constant_factor_of_all_weights_changes_nothing(factor):
    X, y, task, weight = table()
    expected = SmoothMTL().fit(X, y, task_id=task, sample_weight=weight)
    model = SmoothMTL().fit(X, y, task_id=task, sample_weight=factor * weight)
    same_predictions(model, X, task, expected.predict(X, task_id=task), atol=1e-8)
    assert model.noise_variance_ == pytest.approx(expected.noise_variance_)


def test_rows_without_weight_have_no_influence():
    X, y, task, _ = table()
    kept = np.arange(len(y)) % 4 > 0
    expected = SmoothMTL().fit(X[kept], y[kept], task_id=task[kept])
    wrong = np.where(kept, y, 1e3)
    model = SmoothMTL().fit(X, wrong, task_id=task, sample_weight=kept.astype(float))
    same_predictions(model, X, task, expected.predict(X, task_id=task))
    assert_allclose(model.loo_[kept], expected.loo_, atol=1e-6)
    assert np.isnan(model.loo_[~kept]).all()


def test_without_target_parts_columns_of_targets_are_tasks_like_others():
    X, _, _, _ = table()
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 1, X[:, 2] ** 2])
    Y[4, 1] = np.nan
    wide = SmoothMTL(target_parts=()).fit(X, Y)
    observed = ~np.isnan(Y)
    rows, codes = np.nonzero(observed)
    long = SmoothMTL().fit(X[rows], Y[observed], task_id=codes)
    assert wide.loo_.shape == Y.shape
    assert_allclose(wide.loo_[observed], long.loo_, atol=1e-6)
    assert_allclose(
        wide.predict(X)[:, 1], long.predict(X, task_id=np.ones(len(X), int)), atol=1e-6
    )


def test_other_centers_hardly_change_the_predictions():
    X, y, task, _ = table()
    models = [
        SmoothMTL(n_centers=40, random_state=seed).fit(X, y, task_id=task)
        for seed in (0, 1)
    ]
    first, second = (model.predict(X, task_id=task) for model in models)
    assert np.std(first - second) < 0.1 * np.std(y)


def test_a_pickled_model_predicts_the_same(fitted):
    model, X, _, task, _ = fitted
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(
        again.predict(X, task_id=task, return_std=True),
        model.predict(X, task_id=task, return_std=True),
    )


# ---------------------------------------------------------------- large tables


def test_variances_of_large_tables_are_estimated_from_complete_tasks():
    X, y, task, _ = table()
    model = SmoothMTL(max_rows=40).fit(X, y, task_id=task)
    data, _, _ = smooth.standardized(SmoothTable.of(X, y, task).data)
    index = smooth.estimation_rows(data, smooth.SmoothOptions(max_rows=40))
    kept = np.unique(data.codes[index])
    assert len(index) <= 40
    assert len(index) == data.sizes[kept].sum()
    assert len(model.loo_) == len(y)
    assert np.isfinite(model.predict(X, task_id=task, return_std=True)).all()


def test_blocks_that_exceed_the_memory_are_recomputed(set_sizes):
    X, y, task, _ = table()
    expected = SmoothMTL(max_rows=40).fit(X, y, task_id=task)
    n_bytes = smooth_blocks.BlockList(SmoothTable.of(X, y, task).data).n_bytes
    set_sizes(MAX_KEPT_BYTES=n_bytes - 1)
    model = SmoothMTL(max_rows=40).fit(X, y, task_id=task)
    assert_allclose(model.loo_, expected.loo_, atol=1e-9)


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_tasks_without_parts_of_their_own_share_blocks(training, set_sizes, n_blocks):
    linear = training.select_parts(np.array(training.design.names) == "linear")
    theta = np.ones(1)
    expected = smooth.SmoothMarginal(smooth_blocks.BlockList(linear))(theta)
    row_bytes = 8 * (len(linear.design.groups) + 2)
    limit = row_bytes * len(training.codes) // n_blocks
    set_sizes(MAX_BLOCK_BYTES=limit)
    blocks = smooth_blocks.BlockList(linear)
    assert len(list(blocks)) == n_blocks
    value = smooth.SmoothMarginal(blocks)(theta)
    assert value.criterion == pytest.approx(expected.criterion, abs=1e-10)
    assert_allclose(value.gradient, expected.gradient, atol=1e-10)


def test_the_blocks_of_the_search_are_released_before_others_are_made(watch_calls):
    marginals = []
    alive = []

    def count(arguments):
        marginal = arguments["self"]
        if marginal not in [reference() for reference in marginals]:
            marginals.append(weakref.ref(marginal))
            alive.append(sum(reference() is not None for reference in marginals))

    watch_calls(LabelMarginal.find_mode, count)
    X, y, task, _ = labelled_table(n_tasks=4)
    SmoothMTLClassifier().fit(X, y, task_id=task)
    assert alive == [1, 1]


# ---------------------------------------------------------------- degenerate data

CORNERS = {
    "one task": (np.zeros(40, int), None),
    "one row per task": (np.arange(40), None),
    "a single row": (np.zeros(1, int), None),
    "two rows": (np.zeros(2, int), None),
    "constant columns": (np.arange(40) % 4, lambda X: np.zeros_like(X)),
    "a duplicate column": (np.arange(40) % 4, lambda X: X[:, [0, 0, 1]]),
    "many columns": (
        np.arange(40) % 4,
        lambda X: np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 100))]),
    ),
    "binary columns": (np.arange(40) % 4, lambda X: (X > 0).astype(float)),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_degenerate_tables_give_finite_predictions(corner):
    task, change = CORNERS[corner]
    rng = np.random.default_rng(7)
    X = rng.normal(size=(len(task), 3))
    y = X[:, 0] + rng.normal(size=len(task))
    X = X if change is None else change(X)
    model = SmoothMTL().fit(X, y, task_id=task)
    assert np.isfinite(model.predict(X, task_id=task, return_std=True)).all()
    assert np.isfinite(model.loo_).all()
    assert model.converged_


def test_constant_targets_are_predicted_with_zero_standard_deviation():
    X, y, task, _ = table()
    model = SmoothMTL().fit(X, np.full(len(y), 1e6), task_id=task)
    mean, std = model.predict(X, task_id=task, return_std=True)
    assert_allclose(mean, 1e6)
    assert std.max() < 1e-2


def test_targets_without_noise_are_interpolated():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 2))
    task = np.arange(60) % 3
    y = X @ [1.0, 2.0] + task
    model = SmoothMTL().fit(X, y, task_id=task)
    assert_allclose(model.predict(X, task_id=task), y, atol=0.02)


def test_a_new_task_is_less_certain_than_a_known_one():
    X, y, task, _ = table()
    model = SmoothMTL(unseen="mean").fit(X, y, task_id=task)
    known_std = model.predict(X, task_id=np.full(len(X), 6), return_std=True)[1]
    new = model.predict(X, task_id=np.full(len(X), 99), return_std=True)[1]
    assert np.all(new > known_std)


def test_an_unknown_part_is_rejected_by_name():
    X, y, task, _ = table()
    with pytest.raises(ValueError, match="task_parts must be"):
        SmoothMTL(task_parts=("levels",)).fit(X, y, task_id=task)


# ---------------------------------------------------------------- additional groups


def grouped_table(nested, seed=9):
    rng = np.random.default_rng(seed)
    n = 400
    if nested:
        pupil = rng.integers(0, 60, n)
        task = pupil // 5
    else:
        pupil = rng.integers(0, 25, n)
        task = rng.integers(0, 12, n)
    x = rng.normal(size=n)
    y = x + rng.normal(size=60)[pupil] + rng.normal(size=12)[task]
    y += 0.5 * rng.normal(size=n)
    names = np.array([f"pupil {k}" for k in range(60)])[pupil]
    return pd.DataFrame({"x": x, "pupil": names}), y, task, pupil


@pytest.mark.parametrize("nested", [True, False])
def test_levels_of_additional_groups_match_dense_algebra(nested):
    frame, y, task, pupil = grouped_table(nested)
    parts = (("linear",), ("level", "slopes"))
    model = SmoothMTL(*parts, levels=("pupil",), unseen="mean", tol=1e-10)
    model.fit(frame, y, task_id=task)
    assert model.variances_["levels of pupil" if not nested else "task levels of pupil"]
    z = (frame["x"].to_numpy() - frame["x"].mean()) / frame["x"].std(ddof=0)
    same_task = task[:, None] == task
    kernels = {
        "linear": np.outer(z, z),
        "task level": same_task.astype(float),
        "task slopes": np.outer(z, z) * same_task,
        "levels of pupil": (pupil[:, None] == pupil).astype(float),
    }
    kernels["task levels of pupil"] = kernels["levels of pupil"]
    V = sum(value * kernels[name] for name, value in model.variances_.items())
    V = V / model.noise_variance_
    P, mean_weights, _ = dense_projection(V, np.ones(len(y)))
    mu = mean_weights @ y
    assert_allclose(model.predict(frame, task_id=task), mu + V @ P @ y, atol=1e-6)
    assert_allclose(model.loo_, y - P @ y / np.diag(P), atol=1e-6)


#: REML criterion of lme4 1.1-31 for the formula
#: y ~ 1 + (0 + z | one) + (1 | task) + (0 + z | task) + (1 | group),
#: z a standardized column and `one` a factor of one level; then the variances of tasks,
#: of groups and of the noise.
LME4 = {
    "ScotsSec": (
        ["attain", "verbal", "primary", "second"],
        [14858.31292462, 0.2747917, 0.01441621, 4.254541],
    ),
    "egsingle": (
        ["math", "year", "schoolid", "childid"],
        [16496.92640844, 0.18105518, 0.67221155, 0.32447884],
    ),
}


@pytest.mark.data
@pytest.mark.parametrize("name", LME4)
def test_crossed_and_nested_groups_have_the_criterion_of_lme4(name):
    path = Path(os.environ.get("MTLRUN_DATA") or "absent") / f"grouped/{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"MTLRUN_DATA does not hold grouped/{name}.csv.gz")
    (target, column, task, group), expected = LME4[name]
    frame = pd.read_csv(path).astype({task: str, group: str})
    model = SmoothMTL(("linear",), ("level", "slopes"), levels=(group,), max_rows=10**6)
    model.fit(frame[[column, group]], frame[target], task_id=frame[task])
    variances = model.variances_
    n = len(frame)
    unit = frame[target].std(ddof=0)
    criterion = model.objective_[-1] + (n - 1) * (1 + np.log(2 * np.pi * unit**2))
    levels = next(value for part, value in variances.items() if "levels" in part)
    actual = [criterion, variances["task level"], levels, model.noise_variance_]
    assert actual[0] == pytest.approx(expected[0], abs=1e-4)
    assert actual[1:] == pytest.approx(expected[1:], rel=1e-3)


def test_an_unknown_group_has_level_zero_and_its_variance():
    frame, y, task, _ = grouped_table(nested=False)
    model = SmoothMTL(levels=("pupil",)).fit(frame, y, task_id=task)
    new = frame.assign(pupil="somebody else")
    known_std = model.predict(frame, task_id=task, return_std=True)[1]
    unknown = model.predict(new, task_id=task, return_std=True)[1]
    assert np.all(unknown > known_std)


def test_groups_in_arrays_are_named_by_position():
    frame, y, task, pupil = grouped_table(nested=False)
    X = np.column_stack([task, pupil, frame["x"]])
    model = SmoothMTL(levels=(1,), task_column=0).fit(X, y)
    expected = SmoothMTL(levels=("pupil",)).fit(frame, y, task_id=task)
    assert_allclose(model.predict(X), expected.predict(frame, task_id=task), atol=1e-6)


def test_too_many_crossed_groups_are_rejected_with_the_limit():
    pupil = np.tile(np.arange(2001), 2)
    task = np.repeat([0, 1], 2001)
    y = np.random.default_rng(0).normal(size=len(pupil))
    frame = pd.DataFrame({"x": y, "pupil": [f"pupil {k}" for k in pupil]})
    with pytest.raises(ValueError, match=r"2001 groups .* at most 2000"):
        SmoothMTL(levels=("pupil",)).fit(frame, y, task_id=task)


# ---------------------------------------------------------------- attributes


def test_the_tests_of_parts_show_which_parts_are_needed():
    rng = np.random.default_rng(10)
    task = np.repeat(np.arange(20), 20)
    X = rng.uniform(-2, 2, size=(400, 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=20)[task] + 0.3 * rng.normal(size=400)
    model = SmoothMTL().fit(X, y, task_id=task)
    tests = {test.part: test for test in model.part_tests()}
    assert list(tests) == list(model.variances_)
    assert tests["task level"].p_value < 1e-6
    assert tests["additive"].p_value < 1e-6
    for part, variance in model.variances_.items():
        assert (tests[part].p_value == 1.0) == (variance == 0.0)
        assert tests[part].share == model.variance_shares_[part]
        assert tests[part].sentence


def test_the_statistic_of_a_part_compares_a_model_without_it():
    X, y, task, _ = table()
    parts = (("linear",), ("level", "slopes"))
    model = SmoothMTL(*parts, tol=1e-9).fit(X, y, task_id=task)
    without = SmoothMTL(("linear",), ("slopes",), tol=1e-9).fit(X, y, task_id=task)
    level = next(test for test in model.part_tests() if test.part == "task level")
    expected = without.objective_[-1] - model.objective_[-1]
    assert level.statistic == pytest.approx(expected, abs=1e-5)


def test_variance_shares_add_up():
    X, y, task, _ = table()
    shares = SmoothMTL().fit(X, y, task_id=task).variance_shares_
    assert sum(shares.values()) == pytest.approx(1.0)
    assert list(shares)[-1] == "noise"
    assert min(shares.values()) >= 0.0


def test_the_share_of_a_part_is_its_expected_variance_over_the_rows():
    X, y, task, weight = table()
    model = SmoothMTL()
    model.fit(X, y + 2 * X[:, 0], task_id=task, sample_weight=weight)
    assert model.variances_["linear"] > 0
    data = SmoothTable.of(X, y, task, weight).data
    same = data.codes[:, None] == data.codes
    expected = []
    for part in data.design.common:
        F = part.features(data.rows)
        expected.append(F @ F.T)
    expected += list(data.design.own_kernels(data.rows, data.rows) * same)
    expected = [np.diag(K).mean() - K.mean() for K in expected]
    values = np.array(expected) * list(model.variances_.values())
    noise = model.noise_variance_ * np.mean(weight.mean() / weight)
    shares = np.append(values, noise) / (values.sum() + noise)
    assert_allclose(list(model.variance_shares_.values()), shares, atol=1e-10)


def test_features_with_a_large_mean_keep_the_digits_of_their_spread(posterior):
    posterior = replace(posterior, theta=np.ones(len(posterior.theta)))
    blocks = smooth_blocks.BlockList(posterior.data)
    expected = posterior.part_variances(blocks)

    class ShiftedDesign(SmoothDesign):
        def common_features(self, rows):
            return super().common_features(rows) + 1e7

    shifted = ShiftedDesign(posterior.data.design.common, posterior.data.design.own)
    blocks = smooth_blocks.BlockList(replace(posterior.data, design=shifted))
    assert_allclose(posterior.part_variances(blocks), expected, rtol=1e-6)


def test_partial_dependence_is_the_average_prediction():
    X, y, task, _ = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SmoothMTL(unseen="mean").fit(frame, y, task_id=task)
    curve = model.partial_dependence("b", task=6, values=[-1.0, 0.5], n_rows=len(X))
    for value, mean in zip(curve.values, curve.mean, strict=True):
        rows = frame.assign(b=value)
        predicted = model.predict(rows, task_id=np.full(len(X), 6))
        assert mean == pytest.approx(predicted.mean())
    common = model.partial_dependence("b", values=[0.5], n_rows=len(X))
    new = model.predict(frame.assign(b=0.5), task_id=np.full(len(X), 99))
    assert common.mean[0] == pytest.approx(new.mean())
    lower, upper = common.interval()
    assert lower < common.mean < upper


def test_the_standard_deviation_of_a_single_row_matches_its_prediction():
    X, y, task, _ = table()
    model = SmoothMTL().fit(X[:, :1], y, task_id=task)
    curve = model.partial_dependence(0, task=3, values=[0.3], n_rows=1)
    solver_table = SmoothTable.of(X[:, :1], y, task)
    row = solver_table.rows(np.full((1, 1), 0.3))
    std = std_at_known_variances(model, solved(solver_table), row, 3)
    assert curve.std[0] ** 2 + model.noise_variance_ == pytest.approx(std[0] ** 2)


@pytest.mark.parametrize(
    ("column", "task"), [("d", None), (7, None), ("constant", None), ("a", 99)]
)
def test_inputs_without_a_curve_are_rejected_by_name(column, task):
    X, y, ids, _ = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(constant=1.0)
    model = SmoothMTL().fit(frame, y, task_id=ids)
    with pytest.raises(ValueError, match=str(task or column)):
        model.partial_dependence(column, task=task)


# ---------------------------------------------------------------- baselines


def test_baselines_share_all_or_nothing():
    X, y, task, _ = table()
    pooled = SmoothPooled().fit(X, y, task_id=task)
    assert [part for part in pooled.variances_ if "task" in part] == ["task level"]
    independent = SmoothIndependent().fit(X, y, task_id=task)
    assert all(part.startswith("task") for part in independent.variances_)
    # Except for its level, a pooled function is the same for all tasks.
    first, second = (pooled.predict(X, task_id=np.full(len(X), t)) for t in (2, 5))
    assert np.ptp(first - second) < 1e-9


# ---------------------------------------------------------------- labels


def labelled_table(seed=11, n_tasks=15, n=20):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n)
    X = rng.uniform(-2, 2, size=(len(task), 2))
    score = 3 * np.cos(2 * X[:, 0]) + rng.normal(size=n_tasks)[task]
    y = (score + rng.logistic(size=len(task)) > 0).astype(int)
    return X, y, task, rng.uniform(0.5, 2.0, len(task))


@pytest.mark.slow
@pytest.mark.parametrize("max_exact_rows", [400, 10])
def test_the_gradient_of_laplaces_criterion_matches_finite_differences(
    set_sizes, max_exact_rows
):
    X, y, task, weight = labelled_table()
    data = SmoothTable.of(X, y, task, weight).data
    set_sizes(MAX_EXACT_ROWS=max_exact_rows)
    criterion = LabelMarginal(data)
    theta = np.random.default_rng(12).uniform(0.2, 1.0, len(data.design.names))
    gradient = criterion(theta).gradient
    for i, step in enumerate(1e-4 * np.eye(len(theta))):
        rise = criterion(theta + step).criterion - criterion(theta - step).criterion
        assert gradient[i] == pytest.approx(rise / 2e-4, abs=2e-5)


def test_laplaces_criterion_matches_dense_algebra():
    X, y, task, weight = labelled_table()
    data = SmoothTable.of(X, y, task, weight).data
    criterion = LabelMarginal(data)
    theta = np.full(len(data.design.names), 0.5)
    value = criterion(theta).criterion
    design, groups = data.design, data.design.groups
    A = design.common_features(data.rows)
    same = data.codes[:, None] == data.codes[None]
    K = (
        0.5 * A @ A.T
        + 0.5 * design.own_kernels(data.rows, data.rows).sum(axis=0) * same
    )
    K = K + PRIOR_STD**2
    assert len(groups) == A.shape[1]
    labels = data.target
    w = 1 / data.noise
    eta = np.zeros(len(labels))
    for _ in range(50):
        p = 1 / (1 + np.exp(-eta))
        W = w * p * (1 - p)
        z = eta + w * (labels - p) / W
        eta = K @ np.linalg.solve(K + np.diag(1 / W), z)
    p = 1 / (1 + np.exp(-eta))
    W = w * p * (1 - p)
    likelihood = w @ (labels * eta - np.logaddexp(0, eta))
    quadratic = eta @ np.linalg.solve(K + 1e-10 * np.eye(len(K)), eta)
    logdet = np.linalg.slogdet(np.eye(len(K)) + K * W)[1]
    expected = -2 * likelihood + quadratic + logdet
    # The constant is the variance of the prior of the mean.
    assert value + np.log(PRIOR_STD**2) == pytest.approx(expected, abs=1e-5)


def test_weights_of_labels_are_numbers_of_rows():
    X, y, task, _ = labelled_table()
    counts = np.random.default_rng(13).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    precise = SmoothMTLClassifier(tol=1e-10)
    weighted = precise.fit(X, y, task_id=task, sample_weight=counts)
    expected = weighted.decision_function(X, task_id=task)
    repeated = SmoothMTLClassifier(tol=1e-10).fit(X[rows], y[rows], task_id=task[rows])
    assert_allclose(repeated.decision_function(X, task_id=task), expected, atol=1e-3)


def test_probabilities_are_averaged_over_the_posterior():
    X, y, task, _ = labelled_table()
    model = SmoothMTLClassifier(unseen="mean").fit(X, y, task_id=task)
    assert model.converged_
    solver_table = SmoothTable.of(X, y, task)
    fit = fit_smooth_labels(solver_table.data, smooth.SmoothOptions())
    mean, variance = fit.posterior.moments(solver_table.rows(X), -1)
    new = model.predict_proba(X, task_id=np.full(len(X), 99))[:, 1]
    draws = mean + np.sqrt(variance) * np.random.default_rng(14).normal(
        size=(4000, len(X))
    )
    assert_allclose(new, (1 / (1 + np.exp(-draws))).mean(axis=0), atol=0.03)
    assert np.abs(new - 0.5).max() < 0.5 - 1e-6


def test_tasks_of_a_single_class_are_fitted():
    X, y, task, _ = labelled_table()
    y = np.where(task < 3, 1, y)
    proba = SmoothMTLClassifier().fit(X, y, task_id=task).predict_proba(X, task_id=task)
    assert np.isfinite(proba).all()
    alone = SmoothMTLClassifier().fit(X, np.ones(len(y)), task_id=task)
    assert alone.predict(X, task_id=task).tolist() == [1.0] * len(y)


def test_baselines_of_labels_share_all_or_nothing():
    X, y, task, _ = labelled_table()
    pooled = SmoothPooledClassifier().fit(X, y, task_id=task)
    assert [part for part in pooled.variances_ if "task" in part] == ["task level"]
    independent = SmoothIndependentClassifier().fit(X, y, task_id=task)
    assert all(part.startswith("task") for part in independent.variances_)


def test_the_mean_of_features_over_many_rows_does_not_hold_all_features():
    rng = np.random.default_rng(0)
    rows = SmoothRows(rng.normal(size=(60_000, 2)), np.zeros((60_000, 0), dtype=int))
    radial = NystroemFeatures.fit(rng.normal(size=(100, 2)), np.arange(2), 1.0)
    weights = rng.uniform(size=60_000)
    tracemalloc.start()
    try:
        mean = radial.centered(rows, weights).offset
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_allclose(mean, weights @ radial(rows) / weights.sum(), rtol=1e-10)
    assert peak < 60_000 * 100 * 8
