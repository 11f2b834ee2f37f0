"""Independent and pooled baselines against scikit-learn, task by task."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.svm import SVC, LinearSVC

from mtlrun.engine.evaluation import TaskRows
from mtlrun.estimators import shared_products
from mtlrun.estimators.independent import (
    IndependentLasso,
    IndependentLogistic,
    IndependentRidge,
    IndependentSVC,
    PooledLasso,
    PooledLogistic,
    PooledRidge,
    PooledSVC,
)
from mtlrun.problem.quadratic import Gram
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.cd import descend
from mtlrun.solvers.convex.ridge import solve_ridge

REGRESSORS = [
    IndependentRidge(),
    IndependentLasso(tol=1e-10),
    PooledRidge(),
    PooledLasso(tol=1e-10),
]
CLASSIFIERS = [
    IndependentLogistic(tol=1e-9),
    IndependentSVC(tol=1e-9, max_iter=100000),
    PooledLogistic(tol=1e-9),
    PooledSVC(tol=1e-9, max_iter=100000),
]


def problem(n, d, T, seed=0, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1
    X[rng.uniform(size=X.shape) < 0.3] = 0
    Y = X @ rng.normal(size=(d, T)) + 2 + rng.normal(size=(n, T))
    return X, np.where(np.median(Y, axis=0) < Y, 1, -1) if labels else Y


# ---------------------------------------------------------------- oracles


@pytest.mark.cover(2)
@pytest.mark.parametrize("shape", [(30, 5), (12, 20)])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_matches_scikit_learn(shape, intercept, kind, weighted):
    X, Y = problem(*shape, 3)
    w = np.random.default_rng(1).uniform(size=len(X)) if weighted else None
    oracle = Ridge(2.5, fit_intercept=intercept, solver="svd").fit(
        X, Y, sample_weight=w
    )
    model = IndependentRidge(2.5, fit_intercept=intercept).fit(
        kind(X), Y, sample_weight=w
    )
    assert_allclose(model.coef_, oracle.coef_, atol=1e-9)
    assert_allclose(model.intercept_, oracle.intercept_ * np.ones(3), atol=1e-9)


@pytest.mark.parametrize("shape", [(30, 5), (5, 8)])
@pytest.mark.parametrize("intercept", [True, False])
def test_without_penalty_ridge_is_minimum_norm_least_squares(shape, intercept):
    X, Y = problem(*shape, 2)
    X[:, 0] = X[:, 1]
    W, b, *_ = solve_ridge(TaskData.from_matrix(X, Y), 0.0, fit_intercept=intercept)
    shift = X.mean(axis=0) * intercept
    expected = np.linalg.lstsq(X - shift, Y - Y.mean(axis=0) * intercept, rcond=1e-10)[
        0
    ]
    assert_allclose(W, expected, atol=1e-8)
    assert_allclose(b, (Y.mean(axis=0) * intercept) - shift @ expected, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_lasso_matches_scikit_learn_per_task(intercept):
    X, Y = problem(40, 6, 2)
    model = IndependentLasso(5.0, fit_intercept=intercept, tol=1e-12).fit(X, Y)
    for t in range(2):
        oracle = Lasso(5.0 / 40, fit_intercept=intercept, tol=1e-12).fit(X, Y[:, t])
        assert_allclose(model.coef_[t], oracle.coef_, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_logistic_matches_scikit_learn_per_task(intercept):
    X, Y = problem(40, 6, 2, labels=True)
    model = IndependentLogistic(0.5, fit_intercept=intercept, tol=1e-10).fit(X, Y)
    for t in range(2):
        oracle = LogisticRegression(
            C=2.0, fit_intercept=intercept, tol=1e-10, solver="newton-cholesky"
        ).fit(X, Y[:, t])
        assert_allclose(model.coef_[t], oracle.coef_[0], atol=1e-5)
        assert_allclose(
            model.predict_proba(X)[:, t], oracle.predict_proba(X)[:, 1], atol=1e-5
        )


def test_svm_matches_liblinear_per_task():
    X, Y = problem(40, 6, 2, labels=True)
    model = IndependentSVC(0.3, tol=1e-10, max_iter=100000).fit(X, Y)
    for t in range(2):
        oracle = LinearSVC(
            C=0.3, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=100000
        ).fit(X, Y[:, t])
        assert_allclose(model.coef_[t], oracle.coef_[0], atol=1e-6)
    assert not model.intercept_.any()
    assert not hasattr(model, "predict_proba")


# ---------------------------------------------------------------- objectives


@pytest.mark.parametrize(
    "model", REGRESSORS + CLASSIFIERS, ids=lambda m: type(m).__name__
)
def test_no_nearby_point_has_a_smaller_objective(model):
    """The reported objective is the documented one, and the solution minimizes it."""
    X, Y = problem(50, 4, 2, labels=model in CLASSIFIERS)
    model.fit(X, Y)
    pooled = type(model).__name__.startswith("Pooled")

    def objective(coef, intercept):
        Z = X @ coef.T + intercept
        parts = coef[:1] if pooled else coef
        if "Ridge" in type(model).__name__:
            return 0.5 * np.sum((Y - Z) ** 2) + 0.5 * model.alpha * np.sum(parts**2)
        if "Lasso" in type(model).__name__:
            return 0.5 * np.sum((Y - Z) ** 2) + model.alpha * np.abs(parts).sum()
        if "Logistic" in type(model).__name__:
            return np.logaddexp(0, -Y * Z).sum() + 0.5 * model.alpha * np.sum(parts**2)
        return model.C * np.maximum(0, 1 - Y * Z).sum() + 0.5 * np.sum(parts**2)

    best = objective(model.coef_, model.intercept_)
    assert model.objective_[-1] == pytest.approx(best)
    rng = np.random.default_rng(0)
    for _ in range(30):
        step, shift = (
            1e-2 * rng.normal(size=model.coef_.shape),
            1e-2 * rng.normal(size=2),
        )
        if pooled:
            step[1], shift[1] = step[0], shift[0]
        if not getattr(model, "fit_intercept", True):
            shift[:] = 0
        assert objective(model.coef_ + step, model.intercept_ + shift) >= best - 1e-6


@pytest.mark.parametrize(
    "model", REGRESSORS + CLASSIFIERS, ids=lambda m: type(m).__name__
)
def test_shared_ragged_sparse_and_masked_agree(model):
    X, Y = problem(30, 4, 3, labels=model in CLASSIFIERS)
    Y = Y.astype(float)
    shared = model.fit(X, Y).coef_
    stacked = np.vstack([X] * 3), Y.T.ravel(), np.repeat([0, 1, 2], 30)
    assert_allclose(
        model.fit(*stacked[:2], task_id=stacked[2]).coef_, shared, atol=1e-6
    )
    assert_allclose(model.fit(sp.csr_array(X), Y).coef_, shared, atol=1e-6)
    extended = np.vstack([X, X[:3] + 5])
    assert_allclose(
        model.fit(extended, np.vstack([Y, np.full((3, 3), np.nan)])).coef_,
        shared,
        atol=1e-6,
    )


@pytest.mark.parametrize("cls", [PooledRidge, PooledLasso, PooledLogistic, PooledSVC])
def test_a_pooled_model_is_the_single_task_model_of_all_rows(cls):
    X, Y = problem(30, 4, 3, labels=cls in (PooledLogistic, PooledSVC))
    model = cls() if cls is PooledRidge else cls(tol=1e-10, max_iter=100000)
    coef = model.fit(X, Y).coef_
    assert_array_equal(coef, np.tile(coef[0], (3, 1)))
    assert_allclose(
        coef[0], model.fit(np.vstack([X] * 3), Y.T.ravel()).coef_[0], atol=1e-6
    )


# ---------------------------------------------------------- tasks of a single class


@pytest.mark.parametrize("rows", [8, 1])
@pytest.mark.parametrize("label", [-1, 1])
def test_an_svm_of_a_single_class_is_fitted_without_intercept(rows, label):
    """Without an intercept, rows and their mirror images with half of C each form the
    same problem with two classes.
    """
    X, _ = problem(rows, 4, 1)
    y = np.column_stack([np.full(rows, label), np.where(np.arange(rows) % 2, 1, -1)])
    model = IndependentSVC(0.1, tol=1e-10, max_iter=100000).fit(X, y)
    w = model.coef_[0]
    mirrored = np.vstack([X, -X]), np.concatenate([y[:, 0], -y[:, 0]])
    oracle = SVC(kernel="linear", C=0.05, tol=1e-10).fit(*mirrored)
    assert_allclose(w, oracle.coef_[0], atol=1e-5)
    assert (model.decision_function(X)[:, 0] * label > 0).mean() > 0.5


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_tasks_of_a_single_class_with_intercept_are_constant(kind):
    X, _ = problem(10, 4, 1)
    y = np.column_stack([np.ones(10), -np.ones(10), np.where(np.arange(10) % 2, 1, -1)])
    for model in (IndependentSVC(fit_intercept=True), IndependentLogistic()):
        model.fit(kind(X), y)
        assert not model.coef_[:2].any()
        assert_array_equal(np.sign(model.intercept_[:2]), [1, -1])
        assert model.coef_[2].any()


def test_a_logistic_task_of_a_single_class_is_fitted_without_intercept():
    X, _ = problem(10, 4, 1)
    y = np.column_stack([np.ones(10), np.where(np.arange(10) % 2, 1, -1)])
    w = IndependentLogistic(fit_intercept=False, tol=1e-10).fit(X, y).coef_[0]
    gradient = w - X.T @ (1 / (1 + np.exp(X @ w)))
    assert_allclose(gradient, 0, atol=1e-4)


def test_rows_of_weight_zero_do_not_add_a_class():
    X, _ = problem(10, 4, 1)
    y = np.append(np.ones(9), -1)
    model = IndependentLogistic().fit(X, y, sample_weight=np.append(np.ones(9), 0))
    assert (model.predict(X) == 1).all()


# ---------------------------------------------------------------- convergence


@pytest.mark.parametrize(
    "model",
    [
        IndependentLasso(0.01, max_iter=1, tol=1e-12),
        IndependentLogistic(max_iter=1),
        IndependentSVC(max_iter=1),
    ],
    ids=lambda m: type(m).__name__,
)
def test_stopping_early_warns_once_and_names_the_parameter(model):
    X, Y = problem(40, 6, 3, labels=not isinstance(model, IndependentLasso))
    with pytest.warns(
        ConvergenceWarning, match="did not converge.*Increase max_iter"
    ) as record:
        model.fit(X, Y)
    assert len(record) == 1
    assert model.converged_ is False


def test_convergence_does_not_warn():
    X, Y = problem(40, 6, 3, labels=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (
            IndependentRidge(),
            IndependentLasso(),
            IndependentLogistic(),
            IndependentSVC(),
        ):
            assert model.fit(X, Y).converged_


@pytest.mark.cover(2)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "d"), [(40, 6), (12, 30), (30, 200)])
def test_lasso_has_the_objective_of_scikit_learn(n, d, intercept, weighted):
    rng = np.random.default_rng(d)
    X, ids = rng.normal(size=(2 * n, d)) + 1, np.repeat([0, 1], n)
    y = X[:, 0] - X[:, 1] + rng.normal(size=2 * n)
    w = rng.integers(1, 4, 2 * n).astype(float) if weighted else np.ones(2 * n)
    for alpha in (0.5, 5.0, 1e4):
        model = IndependentLasso(alpha=alpha, fit_intercept=intercept, tol=1e-9)
        model.fit(X, y, task_id=ids, sample_weight=w if weighted else None)
        for t in (0, 1):
            rows, weights = ids == t, w[ids == t]
            other = Lasso(
                alpha / weights.sum(),
                fit_intercept=intercept,
                tol=1e-12,
                max_iter=100_000,
            )
            other.fit(X[rows], y[rows], sample_weight=weights)

            def value(coef, b, rows=rows, weights=weights, alpha=alpha):
                return (
                    0.5 * weights @ (y[rows] - X[rows] @ coef - b) ** 2
                    + alpha * np.abs(coef).sum()
                )

            best = value(other.coef_, other.intercept_)
            assert value(model.coef_[t], model.intercept_[t]) <= best + 1e-6 * max(
                best, 1
            )


@pytest.mark.cover
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("rows", "features", "alpha"),
    [
        ((7, 9, 12), 1, 1e-3),
        ((20, 31, 25, 40), 6, 1e-3),
        ((20, 31, 25, 40), 6, 3.0),
        ((5, 30, 11), 8, 0.3),  # One task has fewer rows than features.
        ((4, 3), 6, 0.3),  # All tasks have
    ],
)
def test_ragged_tasks_solved_together_have_the_objective_of_scikit_learn(
    rows, features, alpha, intercept
):
    rng = np.random.default_rng(features)
    ids = rng.permutation(np.repeat(np.arange(len(rows)), rows))
    X = rng.normal(size=(len(ids), features)) + 2.0
    y = (
        (X * rng.normal(size=(len(rows), features))[ids]).sum(axis=1)
        + rng.normal(size=len(ids))
        + ids
    )

    def objective(task, coef, constant, penalty):
        residual = y[ids == task] - X[ids == task] @ coef - constant
        return 0.5 * residual @ residual + penalty(coef)

    for ours, theirs, penalty in (
        (
            IndependentRidge(alpha, fit_intercept=intercept),
            lambda n: Ridge(alpha),
            lambda w: 0.5 * alpha * w @ w,
        ),
        (
            IndependentLasso(alpha, fit_intercept=intercept, tol=1e-12),
            lambda n: Lasso(alpha / n, tol=1e-12, max_iter=100_000),
            lambda w: alpha * np.abs(w).sum(),
        ),
    ):
        model = clone(ours).fit(X, y, task_id=ids)
        for task, n in enumerate(rows):
            alone = (
                theirs(n)
                .set_params(fit_intercept=intercept)
                .fit(X[ids == task], y[ids == task])
            )
            best = objective(task, alone.coef_, alone.intercept_, penalty)
            actual = objective(task, model.coef_[task], model.intercept_[task], penalty)
            assert actual == pytest.approx(best, rel=1e-6), (type(model).__name__, task)


def test_features_constant_within_tasks_allow_solving_a_lasso_together(
    watch_calls,
):
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(5), 21)
    X = rng.normal(size=(len(ids), 5)) * [1.0, 1e3, 1.0, 1.0, 1.0]
    X[:, 0], X[:, 3] = 0.1 * ids + 1 / 3, 1e5 / 7
    y = X @ [3.0, 1e-3, 1.0, 0.0, -1.0] + rng.normal(size=len(ids))
    alone = [
        Lasso(1e-3 / 21, tol=1e-12, max_iter=100_000).fit(X[ids == t], y[ids == t])
        for t in range(5)
    ]
    fits = []
    watch_calls(descend, fits.append)
    watch_calls(Lasso.fit, fits.append)
    model = IndependentLasso(1e-3, tol=1e-12).fit(X, y, task_id=ids)
    assert len(fits) == 1
    assert not model.coef_[:, [0, 3]].any()
    for t, other in enumerate(alone):
        actual, best = (
            0.5 * np.square(y[ids == t] - X[ids == t] @ w - b).sum()
            + 1e-3 * np.abs(w).sum()
            for w, b in (
                (model.coef_[t], model.intercept_[t]),
                (other.coef_, other.intercept_),
            )
        )
        assert actual == pytest.approx(best, rel=1e-6)


def test_models_of_one_search_do_not_recompute_products_of_columns(watch_calls):
    X, Y = problem(40, 3, 2)
    ids = np.repeat([0, 1], 20)
    gram_arguments = []
    watch_calls(Gram.__init__, gram_arguments.append)
    rows = TaskRows(X, Y[:, 0], ids)
    for alpha in (0.1, 1.0):
        rows.fit(IndependentRidge(alpha))
        rows.fit(IndependentLasso(alpha))
    assert len(gram_arguments) == 1


@pytest.mark.parametrize(
    ("alpha", "fit_intercept"), [(2.0, True), (40.0, True), (10.0, False)]
)
def test_lassos_from_shared_products_of_columns_are_those_of_scikit_learn(
    alpha, fit_intercept
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 150)) + 2.0
    X[:, 3] = 0.1  # Its mean is inexact, so centering leaves rounding
    Y = X[:, :4] @ rng.normal(size=(4, 3)) + rng.normal(size=(90, 3))
    data = TaskData(X, Y, np.arange(3))
    assert shared_products.has_shared_products(data)
    assert shared_products.shared_products(data, fit_intercept) is not None
    model = IndependentLasso(alpha, fit_intercept=fit_intercept).fit(X, Y)
    for t in range(3):
        alone = Lasso(alpha / 90, fit_intercept=fit_intercept, tol=1e-6, max_iter=10000)
        alone.fit(X, Y[:, t])
        assert np.allclose(model.coef_[t], alone.coef_, rtol=1e-9, atol=1e-10)
        assert np.isclose(model.intercept_[t], alone.intercept_, rtol=1e-9, atol=1e-9)
        assert np.array_equal(model.coef_[t] == 0, alone.coef_ == 0)


def test_shared_products_of_columns_in_large_units_pass_the_check_of_scikit_learn():
    # It compares the product of the two middle columns, here about zero, with its own.
    rows = np.arange(90)
    X = np.random.default_rng(0).normal(size=(90, 150))
    X[:, 75] = np.sin(2 * np.pi * 3 * rows / 90)
    X[:, 76] = np.cos(2 * np.pi * 5 * rows / 90)
    Y = X[:, :2] + X[:, 75:77]
    small = IndependentLasso(2.0).fit(X, Y)
    large = IndependentLasso(2.0 * 2**30).fit(X * 2**30, Y)
    assert np.array_equal(large.coef_ * 2**30, small.coef_)


def test_columns_of_mixed_scales_have_no_shared_products():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 150)) * np.logspace(0, 9, 150)
    Y = rng.normal(size=(90, 2))
    data = TaskData(X, Y, np.arange(2))
    assert shared_products.shared_products(data, True) is None


# ------------------------------------------------------- what a fit says of itself


def hard_and_easy_rows():
    """Return the rows of a task that takes many steps, before one that takes few."""
    rng = np.random.default_rng(0)
    ids = np.repeat(["a", "b"], 60)
    X = rng.normal(size=(120, 4))
    X[ids == "a"] = X[ids == "a"] * [1, 30, 1, 1] + 5
    y = np.where(ids == "a", X[:, 2] + rng.normal(size=120) > 5, X[:, 2] > 0)
    return X, y, ids


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_iterations_and_convergence_are_those_of_the_slowest_task():
    X, y, ids = hard_and_easy_rows()
    model = IndependentSVC(tol=1e-6, max_iter=50)
    first, last = (
        clone(model).fit(X[ids == name], y[ids == name], task_id=ids[ids == name])
        for name in "ab"
    )
    assert last.converged_
    assert first.n_iter_ > last.n_iter_
    model.fit(X, y, task_id=ids)
    assert model.n_iter_ == first.n_iter_
    assert not model.converged_


def test_the_gap_of_a_lasso_is_within_its_tolerance():
    X, Y = problem(40, 6, 1)
    y = Y[:, 0]
    for model in (IndependentLasso, PooledLasso):
        exact = model(tol=1e-12).fit(X, y).objective_[-1]
        reached = model(tol=1e-3).fit(X, y).objective_[-1]
        assert exact <= reached <= exact + 1e-3 * (y @ y)
