"""Marginal likelihood of hierarchical models: derivatives, invariances, closed forms,
optima of other packages.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import Block, of_data, of_statistics
from mtlrun.solvers.hierarchical.covariance import (
    FactorCovariance,
    FullCovariance,
    GroupedVariances,
    newton,
)
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, fit_covariance
from mtlrun.solvers.hierarchical.marginal import Marginal, inverse_by_halves
from mtlrun.solvers.hierarchical.posterior import posterior_of


def ragged(seed=0, T=25, rows=(2, 12), d=3, noise=1.0, spread=(0.8, 0.0, 1.0, 0.3)):
    """Return ragged tasks; the coefficients of some columns differ."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), rng.integers(*rows, size=T))
    X = (
        rng.normal(size=(len(ids), d)) * np.array([1.0, 100.0, 0.01])[:d]
        + np.array([0.0, 50.0, 0.0])[:d]
    )
    W = rng.normal(size=d + 1) + rng.normal(size=(T, d + 1)) * np.array(spread[: d + 1])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return (
        X,
        W[ids, 0] + (Z * W[ids, 1:]).sum(axis=1) + noise * rng.normal(size=len(ids)),
        ids,
    )


def with_columns_of_tasks(seed=0):
    """Return ragged tasks with two columns that are constant within each task."""
    X, y, ids = ragged(seed, rows=(2, 30))
    levels = np.random.default_rng(seed + 1).normal(size=(25, 2))
    return np.column_stack([X, levels[ids]]), y + levels[ids] @ [1.0, -2.0], ids


def problem(X, y, ids, **options):
    data = of_data(TaskData.from_stacked(X, y, ids))[0]
    return HierarchicalProblem(data, np.arange(data.p), **options)


def shared(seed=0, n=20, T=6, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=(d, T)) + rng.normal(size=T) + rng.normal(size=(n, T))


def compressed(layout):
    if layout == "ragged":
        return of_data(TaskData.from_stacked(*ragged()))[0]
    X, Y = shared(n=4 if layout == "short" else 20)
    if layout == "masked":
        Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.3, np.nan, Y)
    return of_data(TaskData.from_matrix(X, Y))[0]


# ---------------------------------------------------------------------- derivatives


@pytest.mark.cover(2)
@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("method", ["reml", "ml"])
@pytest.mark.parametrize("layout", ["ragged", "shared", "short", "masked"])
def test_gradient_and_hessian_match_finite_differences(layout, method, shrink):
    data = compressed(layout)
    p = data.p
    m = Marginal(data, None, method, np.arange(1, p) if shrink else None)
    x = np.append(0.1 + np.random.default_rng(2).random(p), [0.7] * shrink)

    def at(x):
        return m(x[:p], x[p] if shrink else None)

    def slope(x):
        v = at(x)
        return np.append(v.G, [v.g_kappa] * shrink)

    steps = 1e-5 * np.eye(len(x))
    numeric = np.array(
        [(at(x + e).criterion - at(x - e).criterion) / 2e-5 for e in steps]
    )
    assert_allclose(slope(x), numeric, atol=1e-6 * np.abs(numeric).max())
    exact, expected = m.hessian(at(x), np.eye(p))
    numeric = np.array([(slope(x + e) - slope(x - e)) / 2e-5 for e in steps])
    assert_allclose(exact, numeric, atol=1e-6 * np.abs(numeric).max())
    assert np.linalg.eigvalsh(expected)[0] > -1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["full", "factor"])
def test_chain_rules_of_the_factors_match_finite_differences(kind):
    m = Marginal(compressed("ragged"))
    diagonal = GroupedVariances(m.scale, np.minimum(np.arange(4), 1))
    structure = (
        FullCovariance(m.scale) if kind == "full" else FactorCovariance(diagonal, 2)
    )
    x = np.random.default_rng(3).normal(size=structure.n_parameters)
    gradient = structure.gradient(x, m(structure.theta(x)).G)
    steps = 1e-6 * np.eye(len(x))
    numeric = [
        (m(structure.theta(x + e)).criterion - m(structure.theta(x - e)).criterion)
        / 2e-6
        for e in steps
    ]
    assert_allclose(gradient, numeric, atol=2e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("method", ["reml", "ml"])
def test_wide_designs_have_the_value_of_their_normal_equations(method, shrink):
    """Large matrices are inverted by LAPACK's own routines, small ones by NumPy."""
    X, Y = shared(n=70, d=66, T=3)
    data = of_data(TaskData.from_matrix(X, Y))[0]
    columns = np.arange(1, data.p) if shrink else None
    m = Marginal(data, None, method, columns)
    Theta = np.random.default_rng(4).random(data.p)
    kappa = 0.7 if shrink else None
    value = m(Theta, kappa)
    by_lapack = m.hessian(value, np.eye(data.p))
    # As tasks with rows of their own: without these routines for their matrices, and
    # with the trace of the matrix of the shrunk columns.
    ids = np.repeat(np.arange(3), 70)
    stacked = TaskData.from_stacked(np.tile(X, (3, 1)), Y.T.ravel(), ids)
    data, units = of_data(stacked)
    m = Marginal(data, None, method, columns)
    by_numpy = m(Theta, kappa)
    if not shrink:
        A = units.apply(X)
        solved_A = np.linalg.solve(np.eye(70) + (A * Theta) @ A.T, A)
        total = (Y - units.center).sum(axis=1)
        mu = np.linalg.solve(3 * solved_A.T @ A, solved_A.T @ total)
        assert_allclose(value.mu, mu, rtol=1e-8, atol=1e-10)
    assert value.criterion == pytest.approx(by_numpy.criterion, rel=1e-12)
    assert_allclose(value.mu, by_numpy.mu, rtol=1e-10, atol=1e-12)
    assert_allclose(value.G, by_numpy.G, rtol=1e-10, atol=1e-10)
    assert value.g_kappa == pytest.approx(by_numpy.g_kappa, rel=1e-10)
    for matrix, other in zip(
        by_lapack, m.hessian(by_numpy, np.eye(data.p)), strict=True
    ):
        assert_allclose(matrix, other, rtol=1e-8, atol=1e-10 * np.abs(other).max())


def test_a_matrix_and_its_diagonal_have_the_same_value():
    m = Marginal(compressed("ragged"))
    theta = np.array([0.5, 0.1, 2.0, 0.0])
    a, b = m(theta), m(np.diag(theta))
    assert a.criterion == pytest.approx(b.criterion, rel=1e-13)
    assert_allclose(a.G, np.diag(b.G), rtol=1e-10)


def test_the_value_is_that_of_the_normal_density():
    X, y, ids = ragged(T=6, rows=(2, 6))
    data, columns = of_data(TaskData.from_stacked(X, y, ids))
    theta = np.array([0.5, 0.1, 2.0, 0.3])
    A, z = columns.apply(X), y - columns.center
    V = np.eye(len(y)) + (ids[:, None] == ids) * ((A * theta) @ A.T)
    inverse = np.linalg.inv(V)
    M = A.T @ inverse @ A
    mu = np.linalg.solve(M, A.T @ inverse @ z)
    r2 = (z - A @ mu) @ inverse @ (z - A @ mu)
    for method, nu, options in (
        ("reml", len(y) - 4, np.linalg.slogdet(M)[1]),
        ("ml", len(y), 0.0),
    ):
        v = Marginal(data, None, method)(theta)
        D = nu * (np.log(2 * np.pi * r2 / nu) + 1) + np.linalg.slogdet(V)[1] + options
        assert v.criterion == pytest.approx(D, abs=1e-6)
        assert_allclose(v.mu, mu, rtol=1e-9)
        assert v.s2 == pytest.approx(r2 / nu, rel=1e-8)


# ---------------------------------------------------------------------- the solver


@given(
    seed=st.integers(0, 10**6),
    shrink=st.booleans(),
    method=st.sampled_from(["reml", "ml"]),
)
def test_newton_never_increases_and_ends_with_a_certificate(seed, shrink, method):
    rng = np.random.default_rng(seed)
    d, T = int(rng.integers(1, 4)), int(rng.integers(3, 30))
    X, y, ids = ragged(
        seed,
        T=T,
        rows=(2, 10),
        d=d,
        noise=10 ** rng.uniform(-1, 1),
        spread=2 * rng.random(4),
    )
    data = problem(X, y, ids, method=method, shrink=shrink)
    m = data.marginal()
    structure = data.grouped_variances(m, "diagonal")
    fit = newton(m, structure)
    assert (np.diff(fit.path) < 0).all()
    assert fit.converged
    # No coordinate step lowers D: variances at zero have a nonnegative gradient.
    scaled = fit.value.G * structure.unit
    assert (scaled[fit.x == 0] > -1e-3).all()
    assert_allclose((scaled * np.square(fit.x))[fit.x > 0], 0.0, atol=1e-2)


@pytest.mark.parametrize("method", ["reml", "ml"])
def test_an_em_step_lowers_the_criterion_and_stays_at_its_minimum(method):
    m = Marginal(compressed("ragged"), None, method)
    before = m(np.diag(np.array([0.5, 0.1, 2.0, 0.3])))
    after = m(before.Theta - before.Theta @ before.G @ before.Theta / m.data.T)
    assert after.criterion < before.criterion
    end = newton(m, GroupedVariances(m.scale, np.arange(4)), tol=1e-12).value
    step = end.Theta * end.G * end.Theta / m.data.T
    assert_allclose(step, 0.0, atol=1e-6 * end.Theta.max())


def test_more_freedom_never_fits_worse():
    data = problem(*ragged(T=40, rows=(6, 20)))
    fits = [
        fit_covariance(data, name)
        for name in ("none", "intercept", "scalar", "diagonal", "factor", "full")
    ]
    criteria = [fit.criterion for fit in fits]
    assert all(
        later <= earlier + 1e-6 for earlier, later in itertools.pairwise(criteria)
    )
    assert all(fit.fit.converged for fit in fits)
    full = fits[-1]
    root = np.sqrt(full.m.scale)
    scaled = root[:, None] * full.fit.value.G * root
    assert np.linalg.eigvalsh(scaled)[0] > -1e-2  # No direction to add
    assert_allclose(full.fit.value.G @ full.fit.value.Theta, 0.0, atol=1e-2)


@pytest.mark.parametrize("name", ["scalar", "diagonal", "full"])
def test_order_units_and_positions_do_not_matter(name):
    X, y, ids = ragged(T=30, rows=(5, 15))
    order = np.random.default_rng(4).permutation(len(y))
    moved = (X * [1e3, 1.0, 1e-4] + 7.0)[order][:, [2, 0, 1]]
    base = fit_covariance(problem(X, y, ids), name)
    other = fit_covariance(problem(moved, 10.0 * y[order] + 3.0, ids[order]), name)
    shift = 2 * np.log(10.0) * (len(y) - 4)
    assert other.criterion - shift == pytest.approx(
        base.criterion, abs=1e-6 + 1e-7 * abs(base.criterion)
    )


def test_one_row_per_task_gives_no_information_about_levels():
    X, y, _ = ragged(T=30, rows=(2, 3))
    data = problem(X, y, np.arange(len(y)))
    fit = fit_covariance(data, "intercept")
    assert fit.fit.x.tolist() == [0.0]
    assert fit.fit.converged


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["intercept", "scalar", "diagonal", "full", "auto"])
def test_degenerate_tables_have_a_solution(name):
    X, y, ids = ragged(T=8, rows=(2, 5))
    tables = {
        "constant column": (np.column_stack([X, np.full(len(X), 7.3)]), y),
        "collinear columns": (np.column_stack([X, X[:, 0] + X[:, 1]]), y),
        "no noise": (X, X[:, 0]),
        "constant target": (X, np.full(len(X), 2.0)),
        "few rows": (np.random.default_rng(0).normal(size=(len(X), len(X) + 2)), y),
    }
    for X2, y2 in tables.values():
        for shrink in (False, True):
            result = fit_covariance(
                problem(X2, y2, ids, shrink=shrink, max_iter=5), name
            )
            assert np.isfinite(result.criterion)
            assert np.isfinite(result.posterior().W).all()


# ---------------------------------------------------------------------- oracles


def test_a_balanced_one_way_layout_has_the_variances_of_its_mean_squares():
    rng = np.random.default_rng(5)
    T, n = 12, 7
    y = rng.normal(size=(T, 1)) * 1.5 + rng.normal(size=(T, n))
    within = y.var(axis=1, ddof=1).mean()
    between = n * y.mean(axis=1).var(ddof=1)
    data = of_data(
        TaskData.from_stacked(
            np.zeros((T * n, 1)), y.ravel(), np.repeat(np.arange(T), n)
        )
    )[0]
    reml = fit_covariance(
        HierarchicalProblem(data, np.arange(2), tol=1e-13), "intercept"
    ).posterior()
    assert reml.s2 == pytest.approx(within, rel=1e-6)
    assert reml.Sigma[0, 0] == pytest.approx((between - within) / n, rel=1e-6)
    assert reml.mean_covariance[0, 0] == pytest.approx(between / (n * T), rel=1e-6)
    ml = fit_covariance(
        HierarchicalProblem(data, np.arange(2), method="ml", tol=1e-13), "intercept"
    ).posterior()
    assert ml.Sigma[0, 0] == pytest.approx(
        (between * (T - 1) / T - within) / n, rel=1e-6
    )


def test_a_negative_variance_between_tasks_becomes_zero():
    y = np.tile([-1.0, 0.0, 1.0], 5) + np.repeat([0.01, -0.01, 0.0, 0.0, 0.0], 3)
    data = of_data(
        TaskData.from_stacked(np.zeros((15, 1)), y, np.repeat(np.arange(5), 3))
    )[0]
    fit = fit_covariance(HierarchicalProblem(data, np.arange(2)), "intercept")
    assert fit.fit.x.tolist() == [0.0]
    assert fit.fit.converged
    assert fit.posterior().s2 == pytest.approx(y.var(ddof=1), rel=1e-6)


@pytest.mark.parametrize("method", ["reml", "ml"])
@pytest.mark.parametrize("name", ["intercept", "full"])
def test_statsmodels_has_the_same_optimum(name, method):
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    X, y, ids = ragged(6, T=40, rows=(5, 15), d=2, spread=(1.0, 0.7, 0.5))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    A = np.column_stack([np.ones(len(y)), Z])
    random = A if name == "full" else A[:, :1]
    theirs = mixed.MixedLM(y, A, ids, exog_re=random).fit(
        reml=method == "reml", gtol=1e-8, method=["bfgs", "lbfgs"]
    )
    ours = fit_covariance(problem(X, y, ids, method=method), name)
    assert -2 * theirs.llf == pytest.approx(ours.criterion, abs=1e-4)
    posterior = ours.posterior()
    k = random.shape[1]
    assert_allclose(posterior.Sigma[:k, :k], theirs.cov_re, atol=2e-3)
    assert_allclose(
        np.sqrt(np.diag(posterior.mean_covariance)), theirs.bse_fe, rtol=2e-3
    )
    effects = np.array([theirs.random_effects[t] for t in range(40)])
    assert_allclose((posterior.W - posterior.mu)[:, :k], effects, atol=5e-3)


def test_the_posterior_is_that_of_one_large_regression():
    X, y, ids = ragged(7, T=7, rows=(1, 7))
    data = problem(X, y, ids)
    columns = of_data(TaskData.from_stacked(X, y, ids))[1]
    A, z = columns.apply(X), y - columns.center
    m = data.marginal()
    theta = np.array([0.5, 0.1, 2.0, 0.3])
    posterior = posterior_of(m, m(theta))
    task_designs = np.concatenate([A * (ids == t)[:, None] for t in range(7)], axis=1)
    both = np.column_stack([A, task_designs])
    precision = both.T @ both + np.diag(
        np.concatenate([np.zeros(4), np.tile(1 / theta, 7)])
    )
    covariance = posterior.s2 * np.linalg.inv(precision)
    mean = covariance @ both.T @ z / posterior.s2
    for t in range(7):
        pick = np.hstack([np.eye(4), *(np.eye(4) * (k == t) for k in range(7))])
        assert_allclose(posterior.W[t], pick @ mean, atol=1e-8)
        assert_allclose(posterior.covariance(t), pick @ covariance @ pick.T, atol=1e-8)
    assert_allclose(
        posterior.covariance(-1),
        posterior.s2 * np.diag(theta) + posterior.mean_covariance,
    )


# ---------------------------------------------------------------------- sums


@pytest.mark.parametrize("layout", ["ragged", "shared", "masked"])
@pytest.mark.parametrize("intercept", [True, False])
def test_statistics_of_chunks_have_the_likelihood_of_the_rows(layout, intercept):
    rng = np.random.default_rng(8)
    if layout == "ragged":
        X, y, ids = ragged(T=20, rows=(4, 15))
    else:
        (X, y), ids = shared(n=30), None
        if layout == "masked":
            y = np.where(rng.random(y.shape) < 0.2, np.nan, y)
    w = rng.random(len(X)) + 0.2
    data = (
        TaskData.from_matrix(X, y, weights=w)
        if ids is None
        else TaskData.from_stacked(X, y, ids, weights=w)
    )
    rows, a = of_data(data, intercept)
    halves = [
        TaskStatistics.of(X[k::2], y[k::2], None if ids is None else ids[k::2], w[k::2])
        for k in (0, 1)
    ]
    sums, b = of_statistics(halves[0] + halves[1], intercept)
    assert_allclose(a.scale, b.scale, rtol=1e-9)
    assert_allclose(rows.n, sums.n)
    for name in ("scalar", "diagonal"):
        first, second = (
            fit_covariance(HierarchicalProblem(d, np.arange(d.p), intercept), name)
            for d in (rows, sums)
        )
        assert first.criterion == pytest.approx(second.criterion, rel=1e-8)


def test_a_weight_of_two_equals_a_repeated_row():
    X, y, ids = ragged(T=10, rows=(3, 9))
    w = np.random.default_rng(9).integers(0, 3, size=len(y))
    w[np.unique(ids, return_index=True)[1]] = 2
    weighted = of_data(TaskData.from_stacked(X, y, ids, weights=w))[0]
    repeated = of_data(
        TaskData.from_stacked(*(np.repeat(a, w, axis=0) for a in (X, y, ids)))
    )[0]
    fits = [
        fit_covariance(HierarchicalProblem(d, np.arange(d.p)), "diagonal")
        for d in (weighted, repeated)
    ]
    assert fits[0].criterion == pytest.approx(fits[1].criterion, abs=1e-7)
    assert_allclose(fits[0].posterior().W, fits[1].posterior().W, atol=1e-6)


def test_tasks_of_very_different_sizes_are_split_and_have_the_same_likelihood():
    rng = np.random.default_rng(10)
    sizes = np.append(np.full(40, 2), 60)
    ids = np.repeat(np.arange(41), sizes)
    X, y = rng.normal(size=(len(ids), 20)), rng.normal(size=len(ids))
    data = of_data(TaskData.from_stacked(X, y, ids))[0]
    assert len(data.blocks) == 2
    v = Marginal(data)(np.full(21, 0.3))
    columns = of_data(TaskData.from_stacked(X, y, ids))[1]
    A, z = columns.apply(X), y - columns.center
    V = np.eye(len(y)) + 0.3 * (ids[:, None] == ids) * (A @ A.T)
    M = A.T @ np.linalg.solve(V, A)
    assert_allclose(v.mu, np.linalg.solve(M, A.T @ np.linalg.solve(V, z)), atol=1e-9)


@pytest.mark.parametrize("k", [1, 8, 9, 28])
def test_triangular_matrices_are_inverted_by_halves(k):
    C = np.tril(np.random.default_rng(k).normal(size=(3, k, k))) / np.sqrt(
        k
    ) + 2 * np.eye(k)
    assert_allclose(inverse_by_halves(C), np.linalg.inv(C), atol=1e-12)


# ---------------------------------------------------------------- rows of tasks


def complete_rows(data, intercept=True):
    """Return all rows of the tasks, padded with zeros."""
    compressed, columns = of_data(data, intercept)
    root = np.ones(data.n_rows) if data.weights is None else np.sqrt(data.weights)
    A = root[:, None] * columns.apply(data.X)
    y = root * (data.targets - columns.center)
    R = np.zeros((data.n_tasks, data.sizes.max(), A.shape[1]))
    z = np.zeros(R.shape[:2])
    ends = np.cumsum(data.sizes)
    for task, end in enumerate(ends):
        rows = slice(end - data.sizes[task], end)
        R[task, : data.sizes[task]] = A[rows]
        z[task, : data.sizes[task]] = y[rows]
    return replace(
        compressed,
        blocks=[Block(np.arange(data.n_tasks), R, z)],
        rest=np.zeros(data.n_tasks),
        variance=y @ y / (root @ root),
    )


@pytest.mark.parametrize("is_weighted", [False, True])
def test_columns_that_are_constant_within_tasks_need_no_rows(is_weighted):
    X, y, ids = with_columns_of_tasks()
    weights = np.random.default_rng(2).random(len(y)) + 0.5 if is_weighted else None
    data = TaskData.from_stacked(X, y, ids, weights=weights)
    short = of_data(data)[0]
    long = complete_rows(data)
    assert [block.R.shape[1] for block in short.blocks] == [4]  # Of six columns
    assert short.p == 6
    assert_allclose(short.moments(), long.moments(), rtol=1e-12, atol=1e-13)
    assert short.variance == pytest.approx(long.variance, rel=1e-12)
    Theta = np.array([0.5, 0.1, 0.0, 0.3, 2.0, 0.0])
    for matrix in (Theta, np.diag(Theta) + 0.1):
        values = [Marginal(d)(matrix) for d in (short, long)]
        assert values[0].criterion == pytest.approx(values[1].criterion, rel=1e-12)
        assert_allclose(values[0].mu, values[1].mu, rtol=1e-9, atol=1e-11)
        assert_allclose(values[0].G, values[1].G, rtol=1e-9, atol=1e-9)
    fits = [
        fit_covariance(HierarchicalProblem(d, np.arange(4)), "diagonal")
        for d in (short, long)
    ]
    assert fits[0].criterion == pytest.approx(fits[1].criterion, rel=1e-10)
    assert fits[0].fit.n_evaluations == fits[1].fit.n_evaluations


@pytest.mark.parametrize("intercept", [False, True])
def test_rows_are_left_out_of_short_and_long_tasks_alike(intercept):
    sizes = np.repeat([2, 80], 20)
    ids = np.repeat(np.arange(40), sizes)
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(len(ids), 3)), rng.normal(size=(40, 3))[ids]])
    y = X.sum(axis=1) + rng.normal(size=len(ids))
    data = TaskData.from_stacked(X, y, ids)
    short = of_data(data, intercept)[0]
    long = complete_rows(data, intercept)
    n_rows = max(block.R.shape[1] for block in short.blocks)
    # Columns that are constant within a task are multiples of the intercept. Without
    # one all columns count as varying, and no rows are left out.
    assert (n_rows, short.p) == ((4, 7) if intercept else (6, 6))
    assert_allclose(short.moments(), long.moments(), rtol=1e-12, atol=1e-13)
    values = [Marginal(d)(np.full(d.p, 0.5)) for d in (short, long)]
    assert values[0].criterion == pytest.approx(values[1].criterion, rel=1e-12)


def test_tasks_of_full_rank_keep_their_rows():
    kept = of_data(TaskData.from_stacked(*ragged(rows=(8, 12))))[0]
    R = kept.blocks[0].R
    assert R.shape[1] == kept.p
    # The triangles of a QR decomposition, not turned once more
    assert np.array_equal(R, np.triu(R))
