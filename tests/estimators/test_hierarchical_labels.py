"""Hierarchical classification: attributes, new tasks, single classes, layouts."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import expit
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from mtlrun.estimators import (
    HierarchicalMTLClassifier,
    IndependentLogistic,
    PooledLogistic,
)
from mtlrun.metrics import auc_per_task
from mtlrun.solvers.hierarchical.label_posterior import log_probability


def table(seed=0, T=30, n=20, spread=(1.0, 0.8, 0.0), mean=(0.5, 1.0, -1.0)):
    """Return labels of tasks with random coefficients, and the coefficients."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    W = np.array(mean) + rng.normal(size=(T, 3)) * np.array(spread)
    odds = W[ids, 0] + (X * W[ids, 1:]).sum(axis=1)
    return X, np.where(rng.random(T * n) < expit(odds), "yes", "no"), ids, W


def shared(seed=0, n=80, T=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 2
    return X, np.where(
        (X - 2) @ rng.normal(size=(3, T)) + 2 * rng.normal(size=(n, T)) > 0, 1.0, -1.0
    )


def test_true_coefficients_are_recovered_in_the_units_of_the_data():
    X, y, ids, W = table(T=300, n=40)
    model = HierarchicalMTLClassifier("diagonal").fit(
        X * [1.0, 100.0] + [0.0, 5.0], y, task_id=ids
    )
    assert model.classes_.tolist() == ["no", "yes"]
    assert_allclose(model.mean_coef_, [1.0, -0.01], rtol=0.15)
    assert_allclose(np.sqrt(np.diag(model.covariance_))[:2], [1.0, 0.8], rtol=0.15)
    assert model.covariance_[2, 2] < 2e-6
    assert model.mean_coef_std_[0] == pytest.approx(0.8 / np.sqrt(300), rel=0.3)
    assert sum(model.variance_shares_.values()) == pytest.approx(1.0)
    assert model.heterogeneity_.sum() == pytest.approx(model.variance_shares_["tasks"])
    total = 2.0 + 1.64 + np.pi**2 / 3
    assert_allclose(
        list(model.variance_shares_.values()),
        np.array([2.0, 1.64, np.pi**2 / 3]) / total,
        rtol=0.25,
    )
    assert 0 <= model.gap_ == model.stop_crit_ < 1e-6
    inside = np.abs(W[:, 1] - model.coef_[:, 0]) < 1.96 * model.coef_std_[:, 0]
    assert 0.9 < inside.mean() < 0.98
    assert model.intercept_std_.shape == (300,)


def test_the_objective_is_the_likelihood_plus_the_ridge_penalty():
    X, y, ids, _ = table()
    model = HierarchicalMTLClassifier("diagonal", ridge=2.0).fit(X, y, task_id=ids)
    scale = X.std(axis=0)
    level = model.mean_intercept_ + X.mean(axis=0) @ model.mean_coef_
    price_of_means = level**2 / 50 + np.square(model.mean_coef_ * scale).sum()
    variances = np.diag(model.covariance_) * np.append(1.0, scale**2)
    price_of_variances = variances[0] / 5 + variances[1:].sum()
    assert model.objective_[-1] == pytest.approx(
        -2 * model.log_likelihood_ + 2.0 * (price_of_means + price_of_variances),
        rel=1e-9,
    )


def test_a_single_task_is_logistic_regression():
    X, Y = shared()
    y = Y[:, 0]
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(X, y)
    model = HierarchicalMTLClassifier(ridge=0.0).fit(X, y)
    assert model.structure_ == "none"
    assert_allclose(
        np.append(model.intercept_, model.coef_),
        np.append(plain.intercept_, plain.coef_),
        rtol=1e-4,
    )
    A, p = np.column_stack([np.ones(80), X]), plain.predict_proba(X)[:, 1]
    errors = np.sqrt(np.diag(np.linalg.inv((A.T * (p * (1 - p))) @ A)))
    assert_allclose(np.append(model.intercept_std_, model.coef_std_), errors, rtol=1e-3)
    odds, averaged = plain.decision_function(X), model.decision_function(X)
    variances = (A @ np.linalg.inv((A.T * (p * (1 - p))) @ A) * A).sum(axis=1)
    assert_allclose(averaged, odds / np.sqrt(1 + np.pi * variances / 8), rtol=1e-3)
    estimates = model.estimates()
    assert_allclose(estimates.alone, estimates.pooled, atol=2e-3)


@pytest.mark.slow
def test_partial_pooling_predicts_better_than_separate_or_pooled_models():
    scores = []
    for seed in range(4):
        X, y, ids, W = table(seed, T=30, n=20)
        new, labels, where, _ = table(seed + 100, T=30, n=200)
        odds = W[where, 0] + (new * W[where, 1:]).sum(axis=1)
        labels = np.where(
            np.random.default_rng(seed).random(len(odds)) < expit(odds), 1.0, -1.0
        )
        models = HierarchicalMTLClassifier(), IndependentLogistic(), PooledLogistic()
        fits = [
            model.fit(X, y, task_id=ids).decision_function(new, task_id=where)
            for model in models
        ]
        scores.append(
            [np.nanmean(auc_per_task(labels, score, task_id=where)) for score in fits]
        )
    hierarchical, alone, pooled = np.mean(scores, axis=0)
    assert hierarchical > max(alone, pooled)


def test_a_new_task_gets_the_mean():
    X, y, ids, _ = table()
    model = HierarchicalMTLClassifier("scalar", unseen="mean").fit(X, y, task_id=ids)
    odds = X[:3] @ model.mean_coef_ + model.mean_intercept_
    averaged = model.decision_function(X[:3], task_id=[-1] * 3)
    assert (np.abs(averaged) < np.abs(odds)).all()
    assert (np.sign(averaged) == np.sign(odds)).all()
    assert (
        model.predict(X[:3], task_id=[-1] * 3).tolist()
        == np.where(odds > 0, "yes", "no").tolist()
    )
    with pytest.raises(ValueError, match="has not seen"):
        HierarchicalMTLClassifier().fit(X, y, task_id=ids).predict(X[:1], task_id=[99])


@pytest.mark.parametrize("covariance", ["auto", "intercept", "scalar", "diagonal"])
def test_tasks_of_a_single_class_are_fitted_and_reported(covariance):
    X, y, ids, _ = table()
    y[ids == 3], y[ids == 7] = "yes", "no"
    model = HierarchicalMTLClassifier(covariance).fit(X, y, task_id=ids)
    assert np.flatnonzero(model.single_class_).tolist() == [3, 7]
    assert model.intercept_[3] > model.mean_intercept_ > model.intercept_[7]
    assert np.abs(model.coef_).max() < 10
    assert np.isnan(model.estimates().alone[[3, 7]]).all()
    only = HierarchicalMTLClassifier(covariance).fit(
        X, np.full(len(y), "yes"), task_id=ids
    )
    assert only.single_class_.all()
    assert set(only.predict(X, task_id=ids)) == {"yes"}


def test_separated_classes_have_finite_coefficients():
    X, _, ids, _ = table()
    y = np.where(X[:, 0] > 0, 1, 0)
    model = HierarchicalMTLClassifier().fit(X, y, task_id=ids)
    assert model.converged_
    assert model.score(X, y, task_id=ids) > 0.97
    assert np.abs(model.coef_).max() < 100


def test_columns_with_equal_slopes_have_one_coefficient():
    X, y, ids, _ = table()
    frame = pd.DataFrame(X, columns=["price", "promo"])
    model = HierarchicalMTLClassifier("diagonal", slopes=["price"]).fit(
        frame, y, task_id=ids
    )
    assert np.ptp(model.coef_[:, 1]) < 1e-12
    assert np.ptp(model.coef_[:, 0]) > 0.3
    assert model.estimates().names == ["level", "price", "promo"]
    with pytest.raises(ValueError, match="no column"):
        HierarchicalMTLClassifier(slopes=["prize"]).fit(frame, y, task_id=ids)
    with pytest.raises(ValueError, match="fit_intercept=True"):
        HierarchicalMTLClassifier("intercept", fit_intercept=False).fit(
            X, y, task_id=ids
        )


@pytest.mark.parametrize("layout", ["shared", "masked", "ragged"])
def test_all_layouts_equal_the_stacked_rows(layout):
    X, Y = shared()
    rows, tasks = np.nonzero(np.ones(Y.shape))
    if layout == "masked":
        Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.2, np.nan, Y)
        rows, tasks = np.nonzero(np.isfinite(Y))
    stacked = HierarchicalMTLClassifier("scalar").fit(
        X[rows], Y[rows, tasks], task_id=tasks
    )
    if layout == "ragged":
        other = HierarchicalMTLClassifier("scalar").fit(
            sp.csr_array(X[rows]), Y[rows, tasks], task_id=tasks
        )
    else:
        other = HierarchicalMTLClassifier("scalar").fit(X, Y)
    assert other.objective_[-1] == pytest.approx(
        stacked.objective_[-1], abs=0.2 if layout == "masked" else 1e-6
    )
    atol = (
        0.1 if layout == "masked" else 1e-3
    )  # Columns are standardized over other rows.
    assert_allclose(other.coef_, stacked.coef_, atol=atol)


def test_a_model_stores_no_rows():
    X, y, ids, _ = table(T=10, n=1000)
    model = HierarchicalMTLClassifier("scalar").fit(X, y, task_id=ids)
    assert len(pickle.dumps(model)) < 20_000


# --------------------------------------------------------------------- do tasks differ?


@pytest.mark.parametrize(
    ("spread", "all_tests", "slopes"),
    [
        ((0.0, 0.0, 0.0), False, False),
        ((1.0, 0.0, 0.0), True, False),
        ((0.5, 1.0, 0.0), True, True),
    ],
)
def test_tests_detect_in_which_coefficients_tasks_differ(spread, all_tests, slopes):
    X, y, ids, _ = table(T=40, n=30, spread=spread)
    model, rows = HierarchicalMTLClassifier(), {"task_id": ids}
    tests = model.test(X, y, **rows), model.test(X, y, "slopes", **rows)
    assert [test.p_value < 0.01 for test in tests] == [all_tests, slopes]
    assert [test.tested for test in tests] == ["all", "slopes"]
    columns = model.test(pd.DataFrame(X, columns=["a", "b"]), y, ["b", "a"], **rows)
    assert [(test.tested, test.p_value < 0.01) for test in columns] == [
        ("b", False),
        ("a", slopes),
    ]
    assert all(test.method == "lrt" for test in (*tests, *columns))


def test_a_ratio_is_the_decrease_of_the_objective_and_p_values_are_adjusted_for_all_slopes():
    X, y, ids, _ = table(T=20, n=30)
    fits = {
        name: HierarchicalMTLClassifier(name, ridge=0.01, tol=1e-9)
        .fit(X, y, task_id=ids)
        .objective_[-1]
        for name in ("intercept", "scalar", "diagonal")
    }
    test = HierarchicalMTLClassifier().test(X, y, "slopes", task_id=ids)
    assert test.statistic == pytest.approx(fits["intercept"] - fits["scalar"], abs=1e-5)
    assert test.p_value == pytest.approx(chi2.sf(test.statistic, 1) / 2, rel=1e-9)
    fixed = (
        HierarchicalMTLClassifier("diagonal", slopes=[1], ridge=0.01, tol=1e-9)
        .fit(X, y, task_id=ids)
        .objective_[-1]
    )
    single = HierarchicalMTLClassifier().test(X, y, 0, task_id=ids)
    assert single.statistic == pytest.approx(fixed - fits["diagonal"], abs=1e-5)
    assert single.p_value == pytest.approx(
        chi2.sf(single.statistic, 1), rel=1e-9
    )  # Half, for each of two slopes


def test_two_variances_use_the_mixture_of_three_chi_squares():
    # For any model, the printed p-value is the tail of a mixture, 1/4, 1/2 and 1/4, of
    # chi-squares with 0, 1 and 2 degrees of freedom; draws from it give the same value.
    X, y, ids, _ = table(seed=6, T=20, spread=(0.25, 0.2, 0.0))
    tests = HierarchicalMTLClassifier("diagonal").test(X, y, task_id=ids)
    rng = np.random.default_rng(0)
    parts = np.clip(rng.normal(size=(400_000, 2)), 0.0, None)
    draws = np.square(parts).sum(axis=1)
    # The p-value is far above the tolerance, so that other mixtures would differ.
    assert 0.1 < tests.p_value < 0.2
    assert tests.p_value == pytest.approx(np.mean(draws >= tests.statistic), abs=0.003)
    slopes = HierarchicalMTLClassifier("diagonal").test(X, y, "slopes", task_id=ids)
    half_tail = np.mean(np.square(parts[:, 0]) >= slopes.statistic)
    assert slopes.p_value == pytest.approx(half_tail, abs=0.003)


def test_untestable_coefficients_are_reported():
    X, y, ids, _ = table(T=6)
    with pytest.raises(ValueError, match="slopes"):
        HierarchicalMTLClassifier(slopes=[0]).test(X, y, [1], task_id=ids)
    with pytest.raises(ValueError, match="positions 0 to 1"):
        HierarchicalMTLClassifier().test(X, y, 2, task_id=ids)
    assert np.isnan(
        HierarchicalMTLClassifier().test(X, y, task_id=np.zeros(len(y))).p_value
    )


# ------------------------------------- priors, averages, and unidentified coefficients


def switching(seed=3, T=60, n=6):
    """Return labels that switch at most once per task, so variances are large."""
    rng = np.random.default_rng(seed)
    ids, time = np.repeat(np.arange(T), n), np.tile(np.arange(n), T).astype(float)
    change = np.where(rng.random(T) < 0.5, -1.0, rng.uniform(0, n, T))
    y = time < change[ids]
    y = np.where(rng.random(T * n) < 0.03, ~y, y).astype(int)
    return np.column_stack([time, rng.normal(size=T * n)]), y, ids


def test_probabilities_are_averages_over_the_posterior():
    X, y, ids, _ = table(spread=(2.0, 1.0, 0.0))
    model = HierarchicalMTLClassifier("diagonal", unseen="mean").fit(X, y, task_id=ids)
    odds = X[:5] @ model.mean_coef_ + model.mean_intercept_
    rows = np.column_stack([np.ones(5), X[:5] - X.mean(axis=0)])
    std = np.sqrt(np.einsum("ij,jk,ik->i", rows, model.covariance_, rows))
    draws = np.random.default_rng(0).normal(size=20_000)
    expected = expit(odds[:, None] + std[:, None] * draws).mean(axis=1)
    probabilities = model.predict_proba(X[:5], task_id=[-1] * 5)
    assert_allclose(probabilities[:, 1], expected, atol=0.02)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.abs(expit(odds) - expected).max() > 0.04
    seen = model.predict_proba(X, task_id=ids)[:, 1]
    plain = expit((X * model.coef_[ids]).sum(axis=1) + model.intercept_[ids])
    assert (np.abs(seen - 0.5) <= np.abs(plain - 0.5)).all()


@pytest.mark.parametrize("layout", ["shared", "masked"])
def test_probabilities_of_a_shared_design_are_those_of_its_rows(layout):
    X, Y = shared()
    if layout == "masked":
        Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.2, np.nan, Y)
    model = HierarchicalMTLClassifier("scalar").fit(X, Y)
    probabilities = model.predict_proba(X)
    for t in range(Y.shape[1]):
        task_probabilities = model.predict_proba(X, task_id=np.full(len(X), t))
        assert_allclose(probabilities[:, t], task_probabilities[:, 1])


def test_variances_that_do_not_improve_predictions_are_not_selected():
    X, y, ids = switching(seed=11)
    models = {
        name: HierarchicalMTLClassifier(name).fit(X, y, task_id=ids)
        for name in ("intercept", "diagonal", "auto")
    }
    # AIC would prefer the diagonal, with two more variances.
    fall = models["intercept"].objective_[-1] - models["diagonal"].objective_[-1]
    assert fall > 4
    assert models["auto"].structure_ == "intercept"


def test_variances_that_improve_predictions_are_selected():
    X, y, ids, _ = table(T=40, n=40, spread=(0.5, 2.0, 0.0))
    model = HierarchicalMTLClassifier().fit(X, y, task_id=ids)
    assert model.structure_ != "intercept"
    assert model.coef_[:, 0].std() > 1


@pytest.mark.parametrize("covariance", ["auto", "scalar", "diagonal", "full"])
def test_tasks_of_a_single_class_keep_log_odds_moderate(covariance):
    X, y, ids = switching()
    model = HierarchicalMTLClassifier(covariance).fit(X, y, task_id=ids)
    assert np.sqrt(np.diag(model.covariance_))[0] < 6
    assert np.abs(model.decision_function(X, task_id=ids)).max() < 15


def test_a_category_with_a_single_row_has_no_slope_variance():
    X, y, ids, _ = table()
    rare = np.zeros(len(y))
    rare[7] = 1.0
    X = np.column_stack([X, rare])
    model = HierarchicalMTLClassifier("scalar").fit(X, y, task_id=ids)
    assert model.covariance_[3, 3] == 0
    assert np.ptp(model.coef_[:, 2]) < 1e-12
    test = HierarchicalMTLClassifier().test(X, y, [0, 2], task_id=ids)
    assert np.isfinite(test[0].p_value)
    assert np.isnan(test[1].p_value)


def test_a_boolean_mask_selects_the_columns_whose_slopes_differ():
    X, y, ids, _ = table()
    models = [
        HierarchicalMTLClassifier("diagonal", slopes=slopes).fit(X, y, task_id=ids)
        for slopes in ([True, False], [0])
    ]
    assert_allclose(models[0].coef_, models[1].coef_)
    with pytest.raises(ValueError, match="mask"):
        HierarchicalMTLClassifier(slopes=[True, False, True]).fit(X, y, task_id=ids)


SEPARATED = {
    "one column": (lambda X, noisy: X[:, 0] > 0.2, ["a"]),
    "two columns": (lambda X, noisy: X[:, 0] + X[:, 1] > 0.2, ["a", "b"]),
    "a category": (lambda X, noisy: noisy | (X[:, 2] > 0), ["c"]),
    "one class": (lambda X, noisy: np.ones(len(X), dtype=bool), ["level"]),
    "nothing": (lambda X, noisy: noisy, []),
}


@pytest.mark.cover
@pytest.mark.parametrize("ridge", [0, 1.0])
@pytest.mark.parametrize("case", SEPARATED)
def test_columns_that_separate_classes_without_a_prior_are_named(case, ridge):
    X, y, ids, _ = table()
    category = np.random.default_rng(2).random(len(X)) < 0.2
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": category.astype(float)})
    separate, names = SEPARATED[case]
    labels = np.where(separate(frame.to_numpy(), y == "yes"), "yes", "no")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = HierarchicalMTLClassifier("intercept", ridge=ridge).fit(
            frame, labels, task_id=ids
        )
    assert np.isfinite(model.coef_).all()
    if ridge or not names:
        assert not caught
        assert np.abs(model.mean_coef_).max() < 20
        return
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    named = str(caught[0].message).partition("separated by: ")[2].partition(".")[0]
    assert named.split(", ") == names


@pytest.mark.parametrize("weight", [1e300, 1e-300])
def test_weights_that_count_too_many_or_too_few_rows_are_rejected(weight):
    X, y, ids, _ = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"sample_weight.*mean"):
            HierarchicalMTLClassifier().fit(
                X, y, task_id=ids, sample_weight=np.full(len(y), weight)
            )


def test_large_weights_converge_quickly_to_the_same_optimum():
    X, y, ids, _ = table(T=12, n=40, mean=(0.0, 0.5, -0.5))
    models = [
        HierarchicalMTLClassifier("diagonal").fit(
            X, y, task_id=ids, sample_weight=np.full(len(y), weight)
        )
        for weight in (1e4, 1e6)
    ]
    assert all(model.converged_ and model.n_iter_ < 500 for model in models)
    assert_allclose(models[0].coef_, models[1].coef_, atol=5e-3)


@pytest.mark.every(3)
@pytest.mark.parametrize("covariance", ["auto", "diagonal"])
@pytest.mark.parametrize(("T", "n"), [(12, 8), (30, 20)])
@pytest.mark.parametrize("weight", [1e-4, 1e4, 1e6])
def test_large_weights_need_few_more_newton_steps(
    weight, T, n, covariance, watch_calls
):
    """With large weights the labels of some tasks are nearly certain at their modes,
    and "auto" has the information for more structures.
    """
    likelihoods = []
    watch_calls(log_probability, likelihoods.append)
    X, y, ids, _ = table(seed=3, T=T, n=n)

    def steps(weight):
        likelihoods.clear()
        with warnings.catch_warnings():
            # Weights are counts of rows: the estimator says so.
            warnings.simplefilter("ignore")
            model = HierarchicalMTLClassifier(covariance)
            model.fit(X, y, task_id=ids, sample_weight=np.full(len(y), weight))
        assert model.converged_
        return len(likelihoods)

    assert steps(weight) <= 10 * steps(1.0)


def test_log_probabilities_keep_their_digits_where_labels_are_nearly_certain():
    odds = np.array([-40.0, -5.0, 0.0, 5.0, 40.0, 700.0])
    assert_allclose(
        log_probability(odds, np.ones(6)),
        [-40.0, -5.006715348489118, -np.log(2), -0.006715348489118, -np.exp(-40), 0.0],
        rtol=1e-12,
        atol=1e-300,
    )
    assert_allclose(
        log_probability(-odds, np.zeros(6)), log_probability(odds, odds > -99)
    )
