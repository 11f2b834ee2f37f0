"""MTFL and MTRL: certificates, equivalences, the printed alternations."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from mtlrun.estimators.independent import IndependentRidge
from mtlrun.estimators.relationship import FETR, MTFL, MTRL

TIGHT = {"tol": 1e-10, "max_iter": 50_000}


def problem(layout="shared", n=40, d=5, T=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1
    Y = (
        X @ rng.normal(size=(d, 2)) @ rng.normal(size=(2, T))
        + 2
        + 0.5 * rng.normal(size=(n, T))
    )
    if layout == "shared":
        return X, Y, None
    if layout == "masked":
        return X, np.where(rng.uniform(size=Y.shape) < 0.2, np.nan, Y), None
    ids = np.arange(n) % T
    return X, Y[np.arange(n), ids], ids


@pytest.mark.parametrize("solver", ["admm", "fista"])
def test_a_generic_solver_gives_the_same_solution(solver):
    X, Y, _ = problem()
    W, b = cp.Variable((5, 4)), cp.Variable((1, 4))
    loss = 0.5 * cp.sum_squares(Y - X @ W - np.ones((40, 1)) @ b)
    penalty = 3.0 / 2 * cp.sum_squares(W) + 5.0 / 2 * cp.square(cp.normNuc(W))
    cp.Problem(cp.Minimize(loss + penalty)).solve(
        solver=cp.SCS, eps=1e-9, max_iters=100_000
    )
    model = MTRL(3.0, 5.0, solver=solver, **TIGHT).fit(X, Y)
    assert_allclose(model.coef_.T, W.value, atol=1e-4)
    assert_allclose(model.intercept_, b.value[0], atol=1e-4)
    assert model.gap_ <= 1e-10


@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_mtfl_is_mtrl_without_ridge(layout):
    X, y, ids = problem(layout)
    features = MTFL(1.5, **TIGHT).fit(X, y, task_id=ids)
    tasks = MTRL(0.0, 3.0, **TIGHT).fit(X, y, task_id=ids)
    assert_allclose(features.coef_, tasks.coef_, atol=1e-4)
    assert features.objective_[-1] == pytest.approx(tasks.objective_[-1], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "layout"),
    [(MTFL(0.5), "shared"), (MTFL(0.5), "ragged"), (MTRL(0.5, 1.0), "masked")],
    ids=str,
)
def test_the_printed_alternation_comes_close_and_its_gap_shows_how_close(model, layout):
    X, y, ids = problem(layout)
    direct = clone(model).set_params(**TIGHT).fit(X, y, task_id=ids)
    printed = clone(model).set_params(variant="paper", tol=1e-5).fit(X, y, task_id=ids)
    best = direct.objective_[-1]
    assert best * (1 - 1e-8) <= printed.objective_[-1] <= best * 1.02
    assert direct.gap_ <= 1e-10 < printed.gap_ < 0.5
    assert np.all(np.diff(printed.objective_) <= 1e-9 * best)


def test_the_covariance_minimizes_its_trace_term():
    X, Y, _ = problem()
    model = MTFL(0.1, **TIGHT).fit(X, Y)
    assert model.feature_covariance_.shape == (5, 5)
    assert not hasattr(model, "task_covariance_")
    assert not hasattr(model, "feature_precision_")
    assert np.trace(model.feature_covariance_) == pytest.approx(1)
    expected = np.linalg.svd(model.coef_, compute_uv=False).sum() ** 2
    assert np.trace(
        model.coef_ @ np.linalg.pinv(model.feature_covariance_) @ model.coef_.T
    ) == pytest.approx(expected)
    tasks = MTRL(0.1, 0.1, **TIGHT).fit(X, Y).task_covariance_
    assert tasks.shape == (4, 4)
    assert np.trace(tasks) == pytest.approx(1)
    assert np.linalg.eigvalsh(tasks)[0] >= -1e-12


@pytest.mark.every(2)
@pytest.mark.parametrize("variant", ["corrected", "paper"])
@pytest.mark.parametrize("cls", [MTFL, MTRL])
def test_more_rows_give_the_covariance_of_all_rows(cls, variant):
    X, Y, _ = problem()
    model = cls(variant=variant, **TIGHT)
    full_fit = clone(model).fit(X, Y)
    for rows in (slice(0, 15), slice(15, None)):
        model.partial_fit(X[rows], Y[rows])
    name = "feature_covariance_" if cls is MTFL else "task_covariance_"
    assert_allclose(getattr(model, name), getattr(full_fit, name), atol=1e-6)
    assert_allclose(model.coef_, full_fit.coef_, atol=1e-6)


def test_without_the_trace_term_it_is_ridge():
    X, Y, _ = problem()
    model = MTRL(2.0, 1e-10, **TIGHT).fit(X, Y)
    assert_allclose(model.coef_, IndependentRidge(2.0).fit(X, Y).coef_, atol=1e-5)


def test_a_path_continues_from_the_last_fit():
    X, Y, _ = problem()
    model = MTFL(1.0, warm_start=True, tol=1e-8).fit(X, Y)
    again = model.set_params(gamma=1.01).fit(X, Y)
    assert_allclose(again.coef_, MTFL(1.01, tol=1e-8).fit(X, Y).coef_, atol=1e-3)
    assert again.feature_covariance_.shape == (5, 5)


@pytest.mark.parametrize(
    "model", [MTFL(variant="paper"), MTRL(), MTFL(), MTRL(variant="paper")], ids=str
)
def test_constant_targets_and_unusual_columns_are_fitted(model):
    X, Y, _ = problem()
    model.fit(X, np.full((40, 2), 3.0))
    assert_allclose(model.coef_, 0, atol=1e-10)
    odd = np.column_stack([X, np.ones(40), X[:, 0]])
    assert np.isfinite(model.fit(odd, Y).coef_).all()
    ids = np.repeat([0, 1], [39, 1])  # A task with a single sample
    assert np.isfinite(model.fit(X, Y[:, 0], task_id=ids).coef_).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MTFL(0.0), r"gamma must be a float in \(0, inf\)"),
        (MTRL(-1.0), r"lam1 must be a float in \[0, inf\)"),
        (MTRL(lam2=0.0), "lam2 must be"),
        (MTFL(eps=0.0), "eps must be"),
        (MTRL(variant="papre"), "did you mean 'paper'"),
    ],
)
def test_invalid_parameters_are_reported(model, message):
    X, Y, _ = problem()
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


@pytest.mark.slow
def test_a_slow_run_goes_on_until_little_is_left():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    W = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5))
    Y = X @ W + rng.normal(size=(200, 5))
    params = {"eta": 0.1, "rho": 10.0, "accelerate": False, "max_iter": 20_000}
    model = FETR(tol=1e-5, **params).fit(X, Y)
    exact = FETR(tol=1e-8, **params).fit(X, Y)
    fit_term = np.sum((Y - model.predict(X)) ** 2) + 0.1 * np.sum(model.coef_**2)
    left = (model.objective_[-1] - exact.objective_[-1]) / fit_term
    assert model.rate_ > 0.9
    assert 0 < left <= model.stop_crit_ <= 1e-5
