"""Noise levels by task: derivatives, optima, another package, recovery."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import gammaln

from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical import fit as fits
from mtlrun.solvers.hierarchical.compress import of_data, weighted
from mtlrun.solvers.hierarchical.fit import (
    HierarchicalProblem,
    OwnNoise,
    fit_covariance,
    own_noise,
    solved,
)


def rows(seed=0, T=12, n=(4, 15), spread=0.8, shared=False):
    """Return tasks with noise levels whose logarithms have the std `spread`."""
    rng = np.random.default_rng(seed)
    noises = np.exp(spread * rng.normal(size=T))
    W = rng.normal(size=3) + 0.6 * rng.normal(size=(T, 3))
    if shared:
        X = rng.normal(size=(20, 2))
        Y = W[:, 0] + X @ W[:, 1:].T + noises * rng.normal(size=(20, T))
        return TaskData.from_matrix(X, Y), noises
    ids = np.repeat(np.arange(T), rng.integers(*n, size=T))
    X = rng.normal(size=(len(ids), 2))
    y = (
        W[ids, 0]
        + (X * W[ids, 1:]).sum(axis=1)
        + noises[ids] * rng.normal(size=len(ids))
    )
    return TaskData.from_stacked(X, y, ids), noises


def ids_of(data):
    return np.repeat(np.arange(data.n_tasks), data.sizes)


def problem_of(data, **options):
    compressed = of_data(data)[0]
    return HierarchicalProblem(compressed, np.arange(compressed.p), **options)


def common(problem, name):
    result = fit_covariance(problem, name)
    fit, v = result.fit, np.ones(problem.data.T)
    return OwnNoise(
        result,
        v,
        v,
        np.inf,
        fit.path,
        fit.predicted_reduction,
        fit.converged,
        result.criterion,
        fit.n_evaluations,
    )


@pytest.mark.cover(2)
@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("method", ["reml", "ml"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["scalar", "full"])
def test_derivatives_in_the_noise_levels_match_finite_differences(
    shared, method, shrink, name
):
    problem = problem_of(rows(shared=shared)[0], method=method, shrink=shrink)
    v = np.exp(0.5 * np.random.default_rng(1).normal(size=problem.data.T))
    kappa = 0.7 if shrink else None
    start = fit_covariance(problem, name)

    def at(logs):  # At a fixed covariance relative to s2
        m = replace(problem, data=weighted(problem.data, np.exp(logs))).marginal()
        value = m(start.fit.value.Theta, kappa)
        return replace(
            start, m=m, fit=replace(start.fit, value=value)
        ), value.criterion + problem.data.n @ logs

    derivatives, step = fits._noise_derivatives(at(np.log(v))[0], v)[0], 1e-5
    for t, e in enumerate(np.eye(len(v))):
        difference = (at(np.log(v) + step * e)[1] - at(np.log(v) - step * e)[1]) / (
            2 * step
        )
        assert derivatives[t] == pytest.approx(difference, abs=1e-6, rel=1e-6)


def dense(data, method):
    """Return the criterion F of dense rows in (log noise, log variances of levels and
    slopes), implemented independently.
    """
    X = np.column_stack(
        [np.ones(data.n_rows), (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)]
    )
    y, ids = data.targets - data.targets.mean(), ids_of(data)
    same = ids[:, None] == ids

    def criterion(x, degrees):
        s2, theta = np.exp(x[: data.n_tasks]), np.exp(x[[-2, -1, -1]])
        V = np.diag(s2[ids]) + same * ((X * theta) @ X.T)
        solved_X = np.linalg.solve(V, X)
        M = X.T @ solved_X
        left = y - X @ np.linalg.solve(M, solved_X.T @ y)
        D = np.linalg.slogdet(V)[1] + left @ np.linalg.solve(V, left)
        D += (len(y) - 3 * (method == "reml")) * np.log(2 * np.pi)
        return D + np.linalg.slogdet(M)[1] if method == "reml" else D

    return criterion


@pytest.mark.parametrize("method", ["reml", "ml"])
def test_the_optimum_matches_another_solver_on_dense_rows(method):
    data, _ = rows(T=5, n=(5, 9))
    problem = problem_of(data, method=method)
    solution = solved(problem, common(problem, "scalar"), 6.0)
    assert solution.converged
    F, T = dense(data, method), data.n_tasks

    def penalised(x):  # The last number is log s2.
        logs = x[:T] - x[-1]
        norm = -2 * (3.0 * np.log(3.0) - gammaln(3.0))
        return F(x[:-1], 6.0) + (6.0 * (logs + np.exp(-logs)) + norm).sum()

    s2, theta = solution.result.fit.value.s2, solution.result.fit.value.Theta
    x = np.concatenate([np.log(s2 * solution.v), np.log(s2 * theta[:2]), [np.log(s2)]])
    assert solution.path[-1] == pytest.approx(penalised(x), abs=1e-6)
    other = minimize(
        penalised,
        np.zeros(T + 3),
        method="BFGS",
        options={"gtol": 1e-5, "maxiter": 2000},
    )
    assert solution.path[-1] == pytest.approx(other.fun, abs=1e-5)
    assert_allclose(x, other.x, atol=1e-2)


def test_the_covariance_matches_statsmodels_on_weighted_rows():
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    data, _ = rows(T=30, n=(8, 15))
    problem = problem_of(data)
    solution = solved(problem, common(problem, "full"), 4.0)
    ids = ids_of(data)
    root = np.sqrt(solution.v)[ids]
    Z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    A = np.column_stack([np.ones(len(Z)), Z]) / root[:, None]
    other = mixed.MixedLM(
        (data.targets - data.targets.mean()) / root, A, ids, exog_re=A
    ).fit(reml=True)
    assert solution.result.criterion == pytest.approx(-2 * other.llf, abs=1e-4)
    assert_allclose(
        solution.result.fit.value.s2 * solution.result.fit.value.Theta,
        other.cov_re,
        atol=5e-3,
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["intercept", "scalar", "diagonal", "factor", "full"])
@pytest.mark.parametrize("shared", [False, True])
def test_the_objective_never_increases_and_ends_with_a_certificate(name, shared):
    problem = problem_of(rows(seed=3, shared=shared)[0])
    noise = own_noise(problem, fit_covariance(problem, name))
    assert noise.converged
    assert noise.predicted_reduction < 1e-5
    assert np.isfinite(noise.degrees)
    assert all(b < a for a, b in zip(noise.path, noise.path[1:], strict=False))


@pytest.mark.parametrize("degrees", [4.0, 16.0])
def test_noise_levels_and_their_degrees_of_freedom_are_recovered(degrees):
    rng = np.random.default_rng(0)
    v = degrees / rng.chisquare(degrees, size=300)
    ids = np.repeat(np.arange(300), 30)
    X = rng.normal(size=(9000, 2))
    W = rng.normal(size=(300, 3))
    y = (
        W[ids, 0]
        + (X * W[ids, 1:]).sum(axis=1)
        + 2 * np.sqrt(v)[ids] * rng.normal(size=9000)
    )
    problem = problem_of(TaskData.from_stacked(X, y, ids))
    noise = own_noise(problem, fit_covariance(problem, "scalar"))
    assert noise.degrees in (degrees / 2, degrees, 2 * degrees)
    assert noise.result.fit.value.s2 == pytest.approx(4.0, rel=0.1)
    assert np.corrcoef(np.log(noise.v), np.log(v))[0, 1] > 0.8


def test_equal_noise_levels_become_a_common_one():
    chosen = []
    for seed in range(20):
        problem = problem_of(rows(seed, T=25, n=(6, 12), spread=0.0)[0])
        result = fit_covariance(problem, "scalar")
        noise = own_noise(problem, result)
        assert noise.criterion <= result.criterion
        chosen.append(noise.degrees)
    assert (
        np.isinf(chosen).sum() >= 12
    )  # Half of them, where noise levels differ more by chance


def test_a_perfect_fit_has_positive_noise():
    data, _ = rows(T=8)
    y = data.targets.copy()
    y[ids_of(data) == 0] = 1.0
    y[ids_of(data) == 1] *= 1e4
    problem = problem_of(TaskData.from_stacked(data.X, y, ids_of(data)))
    noise = own_noise(problem, fit_covariance(problem, "scalar"))
    assert np.isfinite(noise.path).all()
    assert (noise.v > 0).all()
    assert noise.v[1] == noise.v.max()
