"""Logistic tasks integrated by quadrature: dense integrals, derivatives, invariances.

The oracles are trapezoidal sums over dense grids, and the maximum of their likelihood.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mtlrun.estimators import HierarchicalMTLClassifier
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical.compress import standardized
from mtlrun.solvers.hierarchical.label_posterior import normal_averaged_odds
from mtlrun.solvers.hierarchical.logistic import (
    Laplace,
    LogisticProblem,
    Prices,
    fit_logistic,
    rows_of,
)
from mtlrun.solvers.hierarchical.quadrature import Quadrature, fit_labels

THETAS = {
    "level": ([0], np.array([4.0])),
    "slope": ([1], np.array([1.5])),
    "level and slope": ([0, 1], np.array([4.0, 1.0])),
    "correlated": ([0, 1], np.array([[4.0, -1.2], [-1.2, 1.0]])),
    "no slope": ([0, 1], np.array([4.0, 0.0])),
}
MU = np.array([-1.0, 0.8, -0.3])


def table(seed=0, T=12, rows=(1, 5), sd=2.0, mean=-1.0):
    """Return labels 0 and 1 of tasks of few rows, whose levels differ."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), rng.integers(*rows, size=T))
    X = rng.normal(size=(len(ids), 2))
    odds = mean + sd * rng.normal(size=T)[ids] + X[:, 0]
    return X, (rng.random(len(ids)) < expit(odds)).astype(float), ids


def laplace(X, y, ids, random, ridge=0.0, weights=None):
    data = TaskData.from_stacked(X, np.where(y > 0, 1.0, -1.0), ids, weights=weights)
    rows = rows_of(data, standardized(data, True))
    prices = Prices.equal(ridge, X.shape[1] + 1)
    return Laplace(rows, data.n_tasks, np.array(random), prices)


def placed(m, mu, Theta):
    return Quadrature(m, mu, Theta, np.zeros((m.T, len(m.random))))


def dense(X, y, ids, random, mu, Theta, n=161, left_out=None):
    """Return log p_t, differences u (K, q) and posterior shares (T, K) on a grid."""
    A = np.column_stack([np.ones(len(y)), (X - X.mean(axis=0)) / X.std(axis=0)])
    Theta = np.diag(Theta) if Theta.ndim == 1 else Theta
    values, vectors = np.linalg.eigh(Theta)
    grid = np.linspace(-8.0, 8.0, n)
    v = np.stack(np.meshgrid(*[grid] * len(random)), axis=-1).reshape(-1, len(random))
    u = v @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    odds = (A @ mu)[:, None] + A[:, random] @ u.T
    log_p = log_expit(np.where(y[:, None] > 0, odds, -odds))
    if left_out is not None:
        log_p[left_out] = 0.0
    step = (grid[1] - grid[0]) / np.sqrt(2 * np.pi)
    terms = np.array([log_p[ids == t].sum(axis=0) for t in np.unique(ids)])
    terms = np.exp(terms - 0.5 * np.square(v).sum(axis=1)) * step ** len(random)
    p = terms.sum(axis=1)
    return np.log(p), u, terms / p[:, None]


@pytest.mark.parametrize("case", THETAS)
def test_the_value_is_that_of_a_dense_integral(case):
    random, Theta = THETAS[case]
    X, y, ids = table()
    log_p, u, share = dense(X, y, ids, random, MU, Theta)
    m = placed(laplace(X, y, ids, random), MU, Theta)
    value = m(MU, Theta)
    assert value.likelihood == pytest.approx(-2 * log_p.sum(), abs=2e-3)
    means = m.coefficients(value)[:, random] - MU[random]
    assert_allclose(means, share @ u, atol=2e-3)
    # Without the uncertainty of the mean, standard deviations are those of the grid.
    squares = share @ np.square(u) - np.square(share @ u)
    normal = m.posterior(value)
    given_mean = type(normal)(
        normal.Theta, np.zeros((3, 3)), normal.roots, normal.random, normal.nodes
    )
    for position, column in enumerate(random):
        row = np.eye(3)[[column]]
        variances = [given_mean.variances(row, t)[0] for t in range(m.T)]
        assert_allclose(variances, squares[:, position], rtol=0.01)


@pytest.mark.parametrize("case", THETAS)
def test_the_gradient_at_held_nodes_matches_finite_differences(case):
    random, Theta = THETAS[case]
    m = placed(laplace(*table(), random, ridge=0.3), MU, Theta)
    value = m(MU, Theta)
    step = 1e-5
    for j in range(3):
        e = step * np.eye(3)[j]
        rise = m(MU + e, Theta).criterion - m(MU - e, Theta).criterion
        assert value.g_mu[j] == pytest.approx(rise / (2 * step), abs=1e-4)
    full = np.diag(Theta) if Theta.ndim == 1 else Theta
    for i in range(len(random)):
        for j in range(i + 1):
            E = np.zeros_like(full)
            E[i, j] += 0.5 * step
            E[j, i] += 0.5 * step
            if full[i, i] == 0 or full[j, j] == 0:
                # One-sided: a variance cannot be negative.
                if i != j:
                    continue
                rise = m(MU, full + E).criterion - m(MU, full).criterion
                assert value.G[i, i] == pytest.approx(rise / step, abs=2e-3)
                continue
            rise = m(MU, full + E).criterion - m(MU, full - E).criterion
            assert value.G[i, j] == pytest.approx(rise / (2 * step), abs=1e-3)


@pytest.mark.parametrize("case", ["level", "level and slope"])
def test_probabilities_are_averages_over_the_dense_posterior(case):
    random, Theta = THETAS[case]
    X, y, ids = table()
    _, u, share = dense(X, y, ids, random, MU, Theta)
    m = placed(laplace(X, y, ids, random), MU, Theta)
    value = m(MU, Theta)
    posterior = m.posterior(value)
    certain = type(posterior)(
        posterior.Theta, np.zeros((3, 3)), posterior.roots, posterior.random,
        posterior.nodes,
    )  # fmt: skip
    A = np.column_stack([np.ones(5), np.random.default_rng(1).normal(size=(5, 2))])
    for t in range(m.T):
        at_mean = A @ m.coefficients(value)[t]
        averaged = expit(certain.averaged_odds(A, at_mean, t))
        at_nodes = expit((A @ MU)[:, None] + A[:, random] @ u.T)
        assert_allclose(averaged, at_nodes @ share[t], atol=1e-3)
    # The odds of a new task are normal: their average is a sum over 40 nodes.
    std = np.sqrt(np.square(A) @ np.diag(m.covariance(Theta)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    expected = expit((A @ MU)[:, None] + std[:, None] * nodes) @ weights
    averaged = expit(certain.averaged_odds(A, A @ MU, -1))
    assert_allclose(averaged, expected / weights.sum(), atol=5e-3)


def test_leave_one_out_losses_are_exact_for_given_variances():
    random, Theta = THETAS["level"]
    X, y, ids = table()
    m = placed(laplace(X, y, ids, random), MU, Theta)
    losses = m.leave_one_out(m(MU, Theta))
    log_p, _, _ = dense(X, y, ids, random, MU, Theta)
    for t in range(m.T):
        expected = 0.0
        for i in np.flatnonzero(ids == t):
            # Without the row, the labels of the task have a larger probability.
            rest, _, _ = dense(X, y, ids, random, MU, Theta, left_out=i)
            expected += rest[t] - log_p[t]
        assert losses[t] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("std", [0.0, 0.3, 3.0, 12.0])
def test_the_mean_probability_of_normal_log_odds_is_exact(std):
    odds = np.array([-20.0, -3.0, 0.0, 0.5, 6.0])
    v = np.linspace(-10, 10, 40_001)
    density = np.exp(-0.5 * v**2)
    expected = expit(odds[:, None] + std * v) @ density / density.sum()
    averaged = normal_averaged_odds(odds, np.full(5, std**2))
    assert_allclose(expit(averaged), expected, rtol=1e-4, atol=1e-12)


# ---------------------------------------------------------------------- estimates


def simulated(seed, sd, T=600, n=2):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    x = rng.normal(size=T * n)
    odds = -0.75 * sd + sd * rng.normal(size=T)[ids] + x
    return x[:, None], (rng.random(T * n) < expit(odds)).astype(int), ids


def maximum_likelihood(X, y, ids, n_tasks):
    """Return standard deviation of the level, log-likelihood and slope."""
    v = np.linspace(-8.0, 8.0, 121)
    log_prior = -0.5 * v**2 - np.log(np.exp(-0.5 * v**2).sum())
    sign = np.where(y > 0, 1.0, -1.0)[:, None]

    def cost(x):
        odds = (x[0] + X[:, 0] * x[2])[:, None] + np.exp(x[1]) * v
        terms = log_expit(sign * odds)
        by_task = terms.reshape(n_tasks, -1, len(v)).sum(axis=1) + log_prior
        top = by_task.max(axis=1)
        return -(top + np.log(np.exp(by_task - top[:, None]).sum(axis=1))).sum()

    fits = [minimize(cost, [0.0, np.log(start), 0.5]) for start in (1.0, 4.0)]
    best = min(fits, key=lambda fit: fit.fun)
    return np.exp(best.x[1]), -best.fun, best.x[2]


@pytest.mark.slow
@pytest.mark.parametrize("sd", [1.0, 4.0])
def test_estimates_from_pairs_are_near_the_exact_maximum_likelihood(sd):
    X, y, ids = simulated(3, sd)
    exact, log_likelihood, slope = maximum_likelihood(X, y, ids, 600)
    for ridge, tolerance in ((1.0, 0.15), (0.0, 0.08)):
        model = HierarchicalMTLClassifier("intercept", ridge=ridge)
        model.fit(X, y, task_id=ids)
        estimate = np.sqrt(model.covariance_[0, 0])
        assert model.converged_
        assert estimate == pytest.approx(exact, rel=tolerance)
        assert model.mean_coef_[0] == pytest.approx(slope, rel=tolerance)
        # A poor local optimum has a likelihood that is lower by more.
        assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=1.0)
        assert (np.diff(model.objective_) <= 1e-8).all()


def test_estimates_are_those_of_glmer_with_25_nodes():
    X, y, ids = table(seed=2, T=200, rows=(2, 4), sd=3.0)
    model = HierarchicalMTLClassifier("intercept", ridge=0.0).fit(X, y, task_id=ids)
    # lme4 1.1-31 (R 4.2.2), nAGQ = 25: glmer(y ~ a + b + (1 | task), binomial), with
    # bobyqa. With nAGQ = 1 the standard deviation is 2.459.
    assert np.sqrt(model.covariance_[0, 0]) == pytest.approx(2.8169905108, rel=1e-3)
    assert model.log_likelihood_ == pytest.approx(-275.4152454799, abs=2e-3)
    assert_allclose(model.mean_coef_, [0.7091035237, -0.1202943134], atol=5e-4)


def test_fits_where_laplace_suffices_do_not_change():
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(10), 60)
    X = rng.normal(size=(600, 2))
    odds = 0.7 * rng.normal(size=10)[ids] + X[:, 0]
    y = (rng.random(600) < expit(odds)).astype(float)
    for name in ("intercept", "auto"):
        problem = LogisticProblem(laplace(X, y, ids, [0, 1, 2], ridge=1.0))
        fits = [fit(problem, name) for fit in (fit_logistic, fit_labels)]
        assert not isinstance(fits[1].m, Quadrature)
        assert fits[0].fit.path == fits[1].fit.path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["intercept", "diagonal"])
def test_order_of_rows_names_of_tasks_and_names_of_classes_do_not_matter(name):
    X, y, ids = table(seed=1, T=60, rows=(1, 5), sd=3.0)
    X = X[:, :1]
    order = np.random.default_rng(7).permutation(len(y))
    base = HierarchicalMTLClassifier(name, tol=1e-9).fit(X, y, task_id=ids)
    tables = [
        (X[order] * 100 + 7, y[order], 1000 - ids[order]),
        (X, 1 - y, ids),
    ]
    for X2, y2, ids2 in tables:
        other = HierarchicalMTLClassifier(name, tol=1e-9).fit(X2, y2, task_id=ids2)
        assert other.objective_[-1] == pytest.approx(base.objective_[-1], abs=1e-2)
        assert other.covariance_[0, 0] == pytest.approx(
            base.covariance_[0, 0], rel=0.02
        )


def test_a_weight_of_two_is_a_row_twice():
    X, y, ids = table(seed=1, T=80, rows=(1, 4), sd=3.0)
    weights = np.random.default_rng(2).integers(1, 3, size=len(y))
    weighted = HierarchicalMTLClassifier("intercept", unseen="mean")
    weighted.fit(X, y, task_id=ids, sample_weight=weights)
    twice = HierarchicalMTLClassifier("intercept", unseen="mean")
    X2, y2, ids2 = (np.repeat(values, weights, axis=0) for values in (X, y, ids))
    twice.fit(X2, y2, task_id=ids2)
    assert_allclose(weighted.covariance_[0, 0], twice.covariance_[0, 0], rtol=1e-3)
    for tasks in (ids[:9], np.full(9, -1)):
        probabilities = [
            model.predict_proba(X[:9], task_id=tasks) for model in (weighted, twice)
        ]
        assert_allclose(probabilities[0], probabilities[1], atol=1e-3)


def test_every_task_twice_doubles_the_likelihood():
    X, y, ids = table(seed=1, T=80, rows=(1, 4), sd=3.0)
    once = HierarchicalMTLClassifier("intercept", ridge=0).fit(X, y, task_id=ids)
    twice = HierarchicalMTLClassifier("intercept", ridge=0).fit(
        np.vstack([X, X]), np.append(y, y), task_id=np.append(ids, ids + 80)
    )
    assert twice.log_likelihood_ == pytest.approx(2 * once.log_likelihood_, abs=1e-2)
    assert_allclose(once.covariance_[0, 0], twice.covariance_[0, 0], rtol=1e-3)


@pytest.mark.slow
def test_auto_adds_a_slope_that_predicts_better():
    rng = np.random.default_rng(0)
    T, n = 100, 7
    ids, time = np.repeat(np.arange(T), n), np.tile(np.linspace(-1, 1, n), T)
    odds = 3 * rng.normal(size=T)[ids] + (3 * rng.normal(size=T)[ids] - 1) * time
    y = (rng.random(T * n) < expit(odds)).astype(int)
    noise = rng.normal(size=(T * n, 2))
    for X in (time[:, None], np.column_stack([noise, time])):
        model = HierarchicalMTLClassifier().fit(X, y, task_id=ids)
        assert model.structure_ != "intercept"
        slopes = np.sqrt(np.diag(model.covariance_))[1:]
        assert slopes[-1] == pytest.approx(3.0, rel=0.3)


def test_new_tasks_are_predicted_as_well_as_by_one_model_of_all_rows():
    X, y, ids = simulated(4, 4.0)
    X2, y2, _ = simulated(5, 4.0, T=4000)
    model = HierarchicalMTLClassifier(unseen="mean").fit(X, y, task_id=ids)
    pooled = HierarchicalMTLClassifier().fit(X, y, task_id=np.zeros(len(y)))
    losses = []
    for fitted, tasks in ((model, np.full(len(y2), 10**6)), (pooled, np.zeros(8000))):
        p = fitted.predict_proba(X2, task_id=tasks)[:, 1]
        losses.append(-np.log(np.where(y2 > 0, p, 1 - p)).mean())
    assert losses[0] < 1.01 * losses[1]
