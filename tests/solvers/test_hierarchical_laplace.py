"""Laplace's approximation: derivatives, brute force, invariances, degenerate tables."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import t as student_t
from scipy.stats import ttest_1samp

from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import standardized
from mtlrun.solvers.hierarchical.logistic import (
    Laplace,
    LogisticProblem,
    Prices,
    fit_logistic,
    pooled,
    predicts_better,
    rows_of,
)


def table(seed=0, T=20, rows=(3, 15), d=2, spread=(1.0, 0.0, 0.8)):
    """Return labels 0 and 1 of ragged tasks; some coefficients differ."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), rng.integers(*rows, size=T))
    X = rng.normal(size=(len(ids), d))
    W = rng.normal(size=d + 1) + rng.normal(size=(T, d + 1)) * np.array(spread[: d + 1])
    odds = W[ids, 0] + (X * W[ids, 1:]).sum(axis=1)
    return X, (rng.random(len(ids)) < expit(odds)).astype(float), ids


def problem(X, y, ids, *, random=None, ridge=0.0, weights=None, **options):
    data = TaskData.from_stacked(X, np.where(y > 0, 1.0, -1.0), ids, weights=weights)
    p = X.shape[1] + 1
    random = np.arange(p) if random is None else np.array(random)
    rows = rows_of(data, standardized(data, True))
    m = Laplace(rows, data.n_tasks, random, Prices.equal(ridge, p))
    return LogisticProblem(m, **options)


def criterion(layout, random):
    X, y, ids = table(T=6, rows=(1, 9))
    weights = (
        np.random.default_rng(1).random(len(y)) * 2 if layout == "weighted" else None
    )
    if layout in ("ragged", "weighted"):
        return problem(X, y, ids, random=random, ridge=0.3, weights=weights).m
    Y = np.random.default_rng(2).choice([-1.0, 1.0], size=(12, 4))
    if layout == "masked":
        Y[np.random.default_rng(3).random(Y.shape) < 0.3] = np.nan
    data = TaskData.from_matrix(np.random.default_rng(4).normal(size=(12, 2)), Y)
    rows = rows_of(data, standardized(data, True))
    return Laplace(rows, 4, np.array(random), Prices.equal(0.3, 3))


# ---------------------------------------------------------------- value and derivatives


@pytest.mark.cover
@pytest.mark.parametrize("random", [[0, 1, 2], [0], [0, 2]])
@pytest.mark.parametrize("layout", ["ragged", "weighted", "shared", "masked"])
def test_the_gradient_matches_finite_differences(layout, random):
    m = criterion(layout, random)
    rng, q, step = np.random.default_rng(5), len(random), 1e-5
    root = rng.normal(size=(q, q))
    mu, Theta = rng.normal(size=3), root @ root.T
    at = m(mu, Theta)
    shifts = step * np.eye(3)
    numeric = [
        (m(mu + e, Theta).criterion - m(mu - e, Theta).criterion) / (2 * step)
        for e in shifts
    ]
    assert_allclose(at.g_mu, numeric, atol=1e-6 * np.abs(numeric).max())
    numeric = np.zeros((q, q))
    for i, j in itertools.product(range(q), repeat=2):
        E = np.zeros((q, q))
        E[i, j] += 0.5 * step
        E[j, i] += 0.5 * step
        numeric[i, j] = (m(mu, Theta + E).criterion - m(mu, Theta - E).criterion) / (
            2 * step
        )
    assert_allclose(at.G, numeric, atol=1e-6 * np.abs(numeric).max())


def test_a_matrix_and_its_diagonal_have_the_same_value_and_zero_variances_add_nothing():
    m = criterion("ragged", [0, 1, 2])
    mu, theta = np.array([0.5, -1.0, 0.3]), np.array([0.7, 0.0, 2.0])
    a, b = m(mu, theta), m(mu, np.diag(theta))
    assert a.criterion == pytest.approx(b.criterion, rel=1e-12)
    assert_allclose(a.G, b.G, atol=1e-10)
    without = m.with_random(np.array([0, 2]))(mu, theta[[0, 2]])
    assert a.criterion == pytest.approx(without.criterion, rel=1e-12)


def test_the_value_consists_of_height_and_curvature_at_the_mode():
    X, y, ids = table(T=5, rows=(2, 8))
    m = problem(X, y, ids).m
    mu, Theta = np.array([0.3, 1.0, -0.5]), np.diag([0.8, 0.5, 1.5]) + 0.2
    A = np.column_stack([np.ones(len(y)), (X - X.mean(axis=0)) / X.std(axis=0)])
    inverse, expected = np.linalg.inv(Theta), 0.0
    for t in range(5):
        in_task = ids == t

        def cost(u, in_task=in_task):
            odds = A[in_task] @ (mu + u)
            return (
                -log_expit(np.where(y[in_task] > 0, odds, -odds)).sum()
                + 0.5 * u @ inverse @ u
            )

        mode = minimize(cost, np.zeros(3), tol=1e-14).x
        p = expit(A[in_task] @ (mu + mode))
        curvature = inverse + (A[in_task].T * (p * (1 - p))) @ A[in_task]
        expected += (
            2 * cost(mode)
            + np.linalg.slogdet(Theta)[1]
            + np.linalg.slogdet(curvature)[1]
        )
    assert m(mu, Theta).criterion == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("n", [3, 30, 300])
def test_the_value_approaches_the_integral_with_more_rows_per_task(n):
    rng = np.random.default_rng(6)
    T, sd, mean = 4, 1.2, 0.4
    y = rng.integers(0, 2, size=(T, n)).astype(float)
    y[:, :2] = [0.0, 1.0]
    m = problem(
        np.zeros((T * n, 1)), y.ravel(), np.repeat(np.arange(T), n), random=[0]
    ).m
    exact = 0.0
    for ones in y.sum(axis=1):

        def log_density(u, ones=ones):
            return (
                ones * log_expit(mean + u)
                + (n - ones) * log_expit(-mean - u)
                - 0.5 * (u / sd) ** 2
            )

        top = max(log_density(u) for u in np.linspace(-5, 5, 2001))
        area = quad(
            lambda u, f=log_density, top=top: np.exp(f(u) - top),
            -8,
            8,
            points=[-1, 0, 1],
            limit=200,
        )[0]
        exact += -2 * (np.log(area) + top - 0.5 * np.log(2 * np.pi * sd**2))
    assert m(np.array([mean, 0.0]), np.array([sd**2])).criterion == pytest.approx(
        exact, abs=0.6 * T / n
    )


# ---------------------------------------------------------------------- the solver


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(["intercept", "scalar", "diagonal"]),
)
def test_the_criterion_never_increases_and_ends_with_a_certificate(seed, name):
    rng = np.random.default_rng(seed)
    X, y, ids = table(
        seed, T=int(rng.integers(4, 20)), rows=(3, 12), spread=2 * rng.random(3)
    )
    model = fit_logistic(problem(X, y, ids, ridge=1e-3), name)
    assert (np.diff(model.fit.path) <= 1e-12 * (1 + abs(model.fit.path[0]))).all()
    assert model.fit.converged
    assert model.fit.value.criterion == model.fit.path[-1]
    slopes = np.bincount(model.structure.groups, np.diag(model.fit.value.G))
    assert (slopes[model.fit.x == 0] > -0.1).all()
    assert_allclose((slopes * model.fit.x)[np.abs(model.fit.x) < 49], 0.0, atol=2e-3)
    assert_allclose(
        model.fit.value.g_mu / np.sqrt(np.diag(model.fit.value.information)),
        0.0,
        atol=3e-3,
    )


@pytest.mark.slow
def test_more_freedom_never_fits_worse():
    data = problem(*table(T=40, rows=(15, 30)), ridge=1e-3)
    names = ("none", "intercept", "scalar", "diagonal", "factor", "full")
    fits = [fit_logistic(data, name) for name in names]
    criteria = [model.fit.value.criterion for model in fits]
    assert all(
        later <= earlier + 1e-5 for earlier, later in itertools.pairwise(criteria)
    )
    assert all(model.fit.converged for model in fits)
    assert np.linalg.eigvalsh(fits[-1].fit.value.G)[0] > -1e-1
    auto = fit_logistic(data, "auto")
    assert auto.aic <= min(model.aic for model in fits[1:4]) + 1e-5


@pytest.mark.parametrize("name", ["scalar", "diagonal", "full"])
def test_order_units_positions_and_class_names_do_not_matter(name):
    X, y, ids = table(1, T=25, rows=(8, 20))
    order = np.random.default_rng(7).permutation(len(y))
    moved = (X * [1e4, 1e-3] + [5.0, 1.0])[order, ::-1]
    base, other = (
        fit_logistic(problem(*rows, ridge=1e-3), name)
        for rows in ((X, y, ids), (moved, 1 - y[order], ids[order]))
    )
    assert other.fit.value.criterion == pytest.approx(
        base.fit.value.criterion, abs=1e-5
    )


def test_weights_count_rows():
    X, y, ids = table(T=10)
    weights = np.random.default_rng(8).integers(0, 4, size=len(y))
    weights[np.unique(ids, return_index=True)[1]] = 1
    weighted = problem(X, y, ids, weights=weights.astype(float))
    repeated = problem(*(np.repeat(a, weights, axis=0) for a in (X, y, ids)))
    a, b = (fit_logistic(layout, "diagonal") for layout in (weighted, repeated))
    assert a.fit.value.criterion == pytest.approx(b.fit.value.criterion, abs=1e-6)
    assert_allclose(
        a.m.coefficients(a.fit.value), b.m.coefficients(b.fit.value), atol=2e-3
    )


def test_a_model_without_tasks_is_logistic_regression():
    X, y, ids = table(T=10, d=2)
    data = problem(X, y, ids, tol=1e-12)
    model = pooled(data)
    A = np.column_stack([np.ones(len(y)), (X - X.mean(axis=0)) / X.std(axis=0)])
    assert_allclose(A.T @ (y - expit(A @ model.fit.value.mu)), 0.0, atol=1e-6)
    p = expit(A @ model.fit.value.mu)
    assert_allclose(
        model.fit.value.information, (A.T * (p * (1 - p))) @ A, rtol=1e-9, atol=1e-9
    )


def test_standard_deviations_are_those_of_the_joint_curvature():
    X, y, ids = table(T=5, rows=(2, 8))
    data = TaskData.from_stacked(X, np.where(y > 0, 1.0, -1.0), ids)
    n_tasks = data.n_tasks + 1
    rows = rows_of(data, standardized(data, True))
    m = Laplace(rows, n_tasks, np.arange(3), Prices.equal(0.0, 3))
    Theta = np.diag([0.8, 0.5, 1.5]) + 0.2
    value = m(np.array([0.3, 1.0, -0.5]), Theta)
    A = np.column_stack([np.ones(len(y)), (X - X.mean(axis=0)) / X.std(axis=0)])
    # Second derivatives in the mean and the deviations of all tasks; the last has no
    # rows.
    H = np.kron(np.eye(1 + n_tasks), np.linalg.inv(Theta))
    H[:3, :3] = 0.0
    for t in range(5):
        rows = A[ids == t]
        p = expit(rows @ m.coefficients(value)[t])
        of_rows = (rows.T * (p * (1 - p))) @ rows
        deviations = slice(3 + 3 * t, 6 + 3 * t)
        H[:3, :3] += of_rows
        H[:3, deviations] += of_rows
        H[deviations, :3] += of_rows
        H[deviations, deviations] += of_rows
    covariance = np.linalg.inv(H)
    L = np.array([[1.0, 0, 0], [0.2, -1.0, 2.0]])
    expected = np.zeros((n_tasks, 2))
    for t in range(n_tasks):
        of_task = np.zeros((2, len(H)))
        of_task[:, :3] = L
        of_task[:, 3 + 3 * t : 6 + 3 * t] = L
        expected[t] = np.sqrt(np.diag(of_task @ covariance @ of_task.T))
    assert_allclose(m.predict_std(value, L), expected, rtol=1e-6)


@pytest.mark.parametrize("n_tasks", [1, 2, 3, 12])
@pytest.mark.parametrize("p_value", [0.02, 0.03])
def test_a_larger_structure_needs_lower_losses_of_left_out_rows(n_tasks, p_value):
    differences = np.linspace(-1.0, 1.0, n_tasks)
    if n_tasks > 1:
        error = differences.std(ddof=1) / np.sqrt(n_tasks)
        differences += student_t.ppf(p_value, n_tasks - 1) * error
        assert ttest_1samp(differences, 0, alternative="less").pvalue == pytest.approx(
            p_value
        )

    def fitted(losses):
        m = SimpleNamespace(T=n_tasks, leave_one_out=lambda value: losses)
        return SimpleNamespace(m=m, fit=SimpleNamespace(value=None))

    losses = np.full(n_tasks, 5.0)
    is_better = predicts_better(fitted(losses + differences), fitted(losses))
    assert is_better == (p_value < 0.025 and n_tasks > 1)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name", ["none", "intercept", "scalar", "diagonal", "full", "auto"]
)
def test_degenerate_tables_have_a_solution(name):
    X, y, ids = table(T=8, rows=(2, 6))
    tables = {
        "every task of one class": (X, (ids % 2).astype(float), ids),
        "all rows of one class": (X, np.ones(len(y)), ids),
        "separated by a column": (X, (X[:, 0] > 0).astype(float), ids),
        "separated in every task": (
            X,
            (X[:, 0] * np.where(ids % 2, 1, -1) > 0).astype(float),
            ids,
        ),
        "constant column": (np.column_stack([X, np.full(len(y), 7.3)]), y, ids),
        "collinear columns": (np.column_stack([X, X[:, 0] + X[:, 1]]), y, ids),
        "one row per task": (X, y, np.arange(len(y))),
        "few rows": (np.random.default_rng(0).normal(size=(len(y), 40)), y, ids),
    }
    for X2, y2, ids2 in tables.values():
        model = fit_logistic(problem(X2, y2, ids2, ridge=1e-3), name)
        assert np.isfinite(model.fit.value.criterion)
        assert np.isfinite(model.m.coefficients(model.fit.value)).all()
        assert np.isfinite(
            model.m.predict_std(model.fit.value, np.eye(model.m.p))
        ).all()
        assert (np.diff(model.fit.path) <= 1e-12 * (1 + abs(model.fit.path[0]))).all()


def test_tasks_of_very_different_sizes_are_processed_separately():
    X, y, ids = table(T=30, rows=(1, 4))
    X2, y2, ids2 = table(seed=1, T=1, rows=(300, 301))
    both = problem(np.vstack([X, X2]), np.append(y, y2), np.append(ids, ids2 + 30)).m
    assert len(both.blocks) > 2
    assert sum(block.w.size for block in both.blocks) < 2 * (len(y) + len(y2))
