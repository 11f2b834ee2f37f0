"""FETR and MTFRL as estimators: attributes, layouts, limits, bad input."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone

from mtlrun.data.sets.load import load_dataset
from mtlrun.data.splits import TaskShuffleSplit
from mtlrun.errors import DataError
from mtlrun.estimators.independent import IndependentRidge
from mtlrun.estimators.relationship import FETR, MTFRL

BOTH = [FETR(), MTFRL()]


def problem(n=60, d=5, T=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1
    W = rng.normal(size=(d, 1)) @ np.array([[1.0, 1.0, -1.0, -1.0]])[:, :T]
    return X, X @ W + 2 + 0.1 * rng.normal(size=(n, T))


@pytest.mark.parametrize("model", [FETR, MTFRL])
def test_parameters_may_be_positional(model):
    positional = model(1.0, 2.0, 0.1, 10.0, "cg", False, 1e-3, 7)
    names = (
        "eta",
        "rho",
        "lower",
        "upper",
        "w_solver",
        "fit_intercept",
        "tol",
        "max_iter",
    )
    assert [getattr(positional, name) for name in names] == [
        1.0,
        2.0,
        0.1,
        10.0,
        "cg",
        False,
        1e-3,
        7,
    ]


@pytest.mark.parametrize("model", BOTH, ids=str)
def test_precisions_and_covariances_are_inverse_and_in_the_box(model):
    X, Y = problem()
    model = clone(model).set_params(lower=0.05, upper=20.0).fit(X, Y)
    for precision, covariance, size in (
        (model.feature_precision_, model.feature_covariance_, 5),
        (model.task_precision_, model.task_covariance_, 4),
    ):
        assert_allclose(precision @ covariance, np.eye(size), atol=1e-10)
        values = np.linalg.eigvalsh(precision)
        assert values[0] >= 0.05 * (1 - 1e-12)
        assert values[-1] <= 20 * (1 + 1e-12)


@pytest.mark.parametrize("model", BOTH, ids=str)
def test_the_task_covariance_shows_related_tasks(model):
    X, Y = problem()
    covariance = (
        clone(model).fit(X, pd.DataFrame(Y, columns=list("abcd"))).task_covariance_
    )
    assert covariance[0, 1] > 0
    assert covariance[2, 3] > 0
    assert np.all(covariance[:2, 2:] < 0)


@pytest.mark.parametrize("model", BOTH, ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_repeated_rows_with_task_ids_equal_the_shared_design(model, kind):
    X, Y = problem()
    # The same iteration with exact and inexact W-steps is equal up to the tolerance.
    model = clone(model).set_params(tol=1e-12, max_iter=3000, lower=0.5, upper=2.0)
    shared = clone(model).fit(kind(X), Y)
    ragged = clone(model).fit(
        kind(np.vstack([X] * 4)), Y.T.ravel(), task_id=np.repeat(np.arange(4), len(X))
    )
    assert_allclose(ragged.coef_, shared.coef_, atol=1e-4)
    assert_allclose(ragged.intercept_, shared.intercept_, atol=1e-3)
    assert shared.gap_ is None
    assert 0 <= shared.stop_crit_ <= 1e-12


def test_without_the_prior_it_is_ridge_also_with_missing_targets():
    X, Y = problem()
    Y[::5, 1] = np.nan
    model = FETR(eta=2.0, rho=1e-10, tol=1e-13).fit(X, Y)
    ridge = IndependentRidge(alpha=2.0).fit(X, Y)
    assert_allclose(model.coef_, ridge.coef_, atol=1e-6)
    assert_allclose(model.intercept_, ridge.intercept_, atol=1e-5)


def test_weights_are_repetitions():
    X, Y = problem()
    w = np.random.default_rng(1).integers(0, 3, size=60)
    rows = np.repeat(np.arange(60), w)
    weighted = FETR(tol=1e-9).fit(X, Y, sample_weight=w)
    assert_allclose(
        weighted.coef_, FETR(tol=1e-9).fit(X[rows], Y[rows]).coef_, atol=1e-6
    )


# ---------------------------------------------------------------- bad input


@pytest.mark.cover
@pytest.mark.parametrize("model", BOTH, ids=str)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"eta": 0.0}, r"eta must be a float in \(0, inf\), got 0.0"),
        ({"rho": -1.0}, r"rho must be a float in \(0, inf\), got -1.0"),
        (
            {"lower": 1.0, "upper": 1.0},
            "0 < lower < upper < inf, got lower=1.0 and upper=1.0",
        ),
        ({"lower": 10.0, "upper": 1.0}, "0 < lower < upper"),
        ({"lower": 0.0}, r"lower must be a float in \(0, inf\)"),
        ({"w_solver": "eigne"}, "did you mean 'eigen'"),
    ],
)
def test_invalid_parameters_are_reported(model, params, message):
    X, Y = problem()
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(**params).fit(X, Y)


def test_a_fudge_factor_of_zero_is_rejected():
    with pytest.raises(ValueError, match="fudge must be"):
        MTFRL(fudge=0.0).fit(*problem())


@pytest.mark.parametrize("solver", ["sylvester", "eigen"])
def test_solvers_for_shared_designs_reject_ragged_tasks(solver):
    X, Y = problem()
    with pytest.raises(ValueError, match="one design"):
        FETR(w_solver=solver).fit(X, Y[:, 0], task_id=np.arange(60) % 3)


def test_the_closed_form_error_names_its_memory(free_memory):
    free_memory(10e9)
    X, Y = np.random.default_rng(0).normal(size=(5, 2000)), np.ones((5, 20))
    with pytest.raises(ValueError, match=r"2000 features and 20 tasks needs 12\.8 GB"):
        FETR(w_solver="closed").fit(X, Y)


@pytest.mark.parametrize("model", BOTH, ids=str)
def test_tasks_with_a_single_sample_are_fitted(model):
    X, Y = problem()
    ids = np.repeat([0, 1, 2, 3], [30, 28, 1, 1])
    model = clone(model).fit(X, Y[np.arange(60), ids], task_id=ids)
    assert np.isfinite(model.coef_).all()
    # Centered, such a task has no information: its line passes through its only point.
    assert_allclose(
        model.predict(X[58:], task_id=ids[58:]), Y[[58, 59], [2, 3]], atol=1e-8
    )


@pytest.mark.parametrize("model", BOTH, ids=str)
def test_constant_and_collinear_columns_are_fitted(model):
    X, Y = problem()
    odd = np.column_stack([X, np.full(60, 7.0), X[:, 0], 2 * X[:, 1]])
    model = clone(model).fit(odd, Y)
    assert model.converged_
    assert_allclose(model.coef_[:, 5], 0, atol=1e-8)
    assert_allclose(model.coef_[:, 0], model.coef_[:, 6], atol=1e-6)
    assert model.score(odd, Y) > 0.95


@pytest.mark.parametrize("model", BOTH, ids=str)
def test_constant_targets_give_zero_coefficients(model):
    X, _ = problem()
    model = clone(model).fit(X, np.full((60, 3), 4.0))
    assert_allclose(model.coef_, 0, atol=1e-12)
    assert_allclose(model.intercept_, 4)
    assert model.converged_


def test_stopping_early_warns():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(
        ConvergenceWarning, match=r"FETR did not converge.*Increase max_iter"
    ):
        FETR(max_iter=2, tol=1e-12).fit(*problem())


@pytest.mark.data
def test_fetr_beats_ridge_on_school():
    """On 139 ragged tasks, many with fewer training rows than features, FETR predicts
    better than ridge.
    """
    try:
        school = load_dataset("school")
    except Exception as error:
        if type(error).__name__ != "DataError":
            raise
        pytest.skip(str(error))
    X = school.X - school.X.mean(axis=0)
    X = X / X.std(axis=0)
    test = np.random.default_rng(0).uniform(size=len(X)) < 0.25
    scores = {}
    for model in (IndependentRidge(1.0), FETR(1.0, 100.0)):
        model.fit(X[~test], school.y[~test], task_id=school.task_id[~test])
        scores[type(model).__name__] = model.score(
            X[test], school.y[test], task_id=school.task_id[test]
        )
    assert scores["FETR"] > scores["IndependentRidge"] + 0.02


@pytest.mark.data
@pytest.mark.parametrize("model", [FETR(0.01, 100.0), MTFRL(0.01, 100.0)], ids=str)
def test_the_default_tolerance_has_the_error_of_a_small_one_on_school(model):
    """Normalized errors of 139 schools, trained on a fifth of the students."""
    try:
        school = load_dataset("school")
    except DataError as error:
        pytest.skip(str(error))
    splitter = TaskShuffleSplit(1, train_size=0.2, random_state=0)
    train, test = next(splitter.split(school.X, groups=school.task_id))
    std = school.X[train].std(axis=0)
    X = (school.X - school.X[train].mean(axis=0)) / np.where(std > 0, std, 1.0)
    variances = [np.var(school.y[school.task_id == t]) for t in range(139)]

    def fit(tol):
        fitted = clone(model).set_params(tol=tol, max_iter=3000)
        fitted.fit(X[train], school.y[train], task_id=school.task_id[train])
        predicted = fitted.predict(X[test], task_id=school.task_id[test])
        squares = np.square(predicted - school.y[test])
        counts = np.bincount(school.task_id[test])
        mse = np.bincount(school.task_id[test], squares) / counts
        return fitted, np.mean(mse / variances)

    usual, error = fit(1e-5)
    limit, least_error = fit(1e-7)
    assert usual.converged_
    assert usual.n_iter_ < 100
    assert error == pytest.approx(least_error, rel=2e-3)
    assert usual.objective_[-1] == pytest.approx(limit.objective_[-1], rel=2e-5)
