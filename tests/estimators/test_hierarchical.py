"""Hierarchical regression: attributes, intervals, tests, mixtures."""

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.stats import chi2, norm
from scipy.stats import f as f_distribution
from scipy.stats import t as student_t
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from mtlrun.estimators import HierarchicalMTL
from mtlrun.estimators.baselines import ScaledTargets
from mtlrun.problem.statistics import TaskStatistics
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.hierarchical import mixtures
from mtlrun.solvers.hierarchical.compress import of_data
from mtlrun.solvers.hierarchical.fit import HierarchicalProblem, refitted
from mtlrun.solvers.hierarchical.inference import half_chi2
from mtlrun.solvers.hierarchical.profile import profile_interval


def table(seed=0, T=30, n=10, spread=(1.0, 0.8, 0.0), noise=0.5, mean=(3.0, 1.0, -1.0)):
    """Return tasks with intercepts and slopes around a mean."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    W = np.array(mean) + rng.normal(size=(T, 3)) * np.array(spread)
    return (
        X,
        W[ids, 0] + (X * W[ids, 1:]).sum(axis=1) + noise * rng.normal(size=T * n),
        ids,
        W,
    )


@pytest.fixture
def sleepstudy():
    """Return reaction times of 18 drivers over ten days, starting with driver 308
    (Belenky et al. 2003).
    """
    path = (
        Path(os.environ.get("MTLRUN_DATA") or "absent")
        / "grouped"
        / "sleepstudy.csv.gz"
    )
    if not path.is_file():
        pytest.skip("MTLRUN_DATA does not hold grouped/sleepstudy.csv.gz")
    frame = pd.read_csv(path)
    return (
        frame[["Days"]].to_numpy(float),
        frame["Reaction"].to_numpy(),
        frame["Subject"].to_numpy(),
    )


def shared(seed=0, n=30, T=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 2
    return X, X @ rng.normal(size=(3, T)) + rng.normal(size=(n, T))


def test_attributes_have_the_units_of_the_data():
    X, y, ids, _ = table(T=200)
    model = HierarchicalMTL("diagonal").fit(
        X * [1.0, 100.0] + [0.0, 5.0], y, task_id=ids
    )
    assert_allclose(model.mean_coef_, [1.0, -0.01], rtol=0.1)
    assert model.noise_variance_ == pytest.approx(0.25, rel=0.1)
    assert_allclose(np.sqrt(np.diag(model.covariance_))[:2], [1.0, 0.8], rtol=0.15)
    assert model.covariance_[2, 2] < 1e-5
    assert sum(model.variance_shares_.values()) == pytest.approx(1.0)
    assert model.heterogeneity_.sum() == pytest.approx(model.variance_shares_["tasks"])
    total = 2.0 + 1.0 + 0.64 + 0.25
    assert model.variance_shares_["tasks"] == pytest.approx(1.64 / total, rel=0.2)
    units = 2 * np.log((X * [1.0, 100.0]).std(axis=0)).sum()
    assert model.log_likelihood_ == pytest.approx(-0.5 * (model.objective_[-1] + units))
    assert 0 <= model.gap_ == model.stop_crit_ < 1e-8
    assert model.coef_std_.shape == (200, 2)
    assert model.intercept_std_.shape == (200,)


@pytest.mark.data
def test_likelihood_and_variances_of_the_sleep_study_match_lme4(sleepstudy):
    """Reaction ~ Days + (Days | Subject), and without the correlation: numbers printed
    in the lme4 paper.
    """
    X, y, ids = sleepstudy
    full = HierarchicalMTL("full").fit(X, y, task_id=ids)
    assert -2 * full.log_likelihood_ == pytest.approx(1743.6283, abs=2e-4)
    assert_allclose(
        [full.mean_intercept_, *full.mean_coef_], [251.405, 10.467], atol=1e-3
    )
    assert full.noise_variance_ == pytest.approx(654.94, abs=0.05)
    assert full.covariance_[1, 1] == pytest.approx(35.07, abs=0.05)
    level = (
        full.covariance_[0, 0]
        - 2 * X.mean() * full.covariance_[0, 1]
        + X.mean() ** 2 * full.covariance_[1, 1]
    )
    assert level == pytest.approx(612.1, abs=0.5)
    assert_allclose(full.mean_coef_std_, [1.546], atol=1e-3)


def test_a_single_task_is_least_squares_with_its_standard_errors():
    X, y = shared(T=1)
    model = HierarchicalMTL().fit(X, y[:, 0])
    A = np.column_stack([np.ones(30), X])
    solution, squares = np.linalg.lstsq(A, y[:, 0], rcond=None)[:2]
    errors = np.sqrt(np.diag(squares[0] / 26 * np.linalg.inv(A.T @ A)))
    assert model.structure_ == "none"
    assert_allclose(np.append(model.intercept_, model.coef_), solution, rtol=1e-8)
    assert_allclose(np.append(model.intercept_std_, model.coef_std_), errors, rtol=1e-6)
    point, std = model.predict(X[:2], return_std=True)
    variance = (
        squares[0]
        / 26
        * (1 + np.einsum("ij,jk,ik->i", A[:2], np.linalg.inv(A.T @ A), A[:2]))
    )
    assert_allclose(std**2, variance, rtol=1e-6)
    assert point.shape == (2,)
    estimates = model.estimates()
    assert_allclose(estimates.pooled, estimates.alone, rtol=1e-6)
    assert_allclose(estimates.pooled[0, 1:], model.coef_[0], rtol=1e-8)
    assert_allclose(
        estimates.pooled[0, 0], y.mean(), rtol=1e-8
    )  # The level at the mean of the columns


def test_a_category_with_a_column_per_word_leaves_the_other_coefficients_identified():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 12)
    is_first = rng.random(48) < 0.5
    dose = rng.normal(size=48)
    X = np.column_stack([dose, is_first, ~is_first])
    y = 3 * dose + is_first + rng.normal(size=48)
    alone = HierarchicalMTL().fit(X, y, task_id=task).estimates().alone
    assert np.isnan(alone[:, 2:]).all(), "only the difference of the words is known"
    rows = task == 1
    full = np.column_stack([np.ones(12), dose[rows], is_first[rows]])
    expected = np.linalg.lstsq(full, y[rows], rcond=None)[0]
    assert_allclose(alone[1, 1], expected[1], rtol=1e-8)


@pytest.mark.parametrize("T", [8, 40])
def test_intervals_have_their_nominal_coverage(T):
    inside, new, coefficients = [], [], []
    for seed in range(15):
        X, y, ids, W = table(seed, T=T + 10, n=16)
        train = (ids < T) & (np.arange(len(ids)) % 2 == 0)
        model = HierarchicalMTL(unseen="mean", covariance="scalar").fit(
            X[train], y[train], task_id=ids[train]
        )
        seen, unseen = (ids < T) & ~train, ids >= T
        for rows, shares in ((seen, inside), (unseen, new)):
            mean, std = model.predict(X[rows], task_id=ids[rows], return_std=True)
            shares.append(np.mean(np.abs(y[rows] - mean) < 1.96 * std))
        coefficients.append(
            np.mean(np.abs(W[:T, 1:] - model.coef_) < 1.96 * model.coef_std_)
        )
    assert 0.92 < np.mean(inside) < 0.975
    assert 0.91 < np.mean(new) < 0.98
    assert 0.90 < np.mean(coefficients) < 0.98


def test_a_new_task_gets_the_mean_and_the_variance_between_tasks():
    X, y, ids, _ = table()
    model = HierarchicalMTL("scalar", unseen="mean").fit(X, y, task_id=ids)
    mean, std = model.predict(X[:3], task_id=[-1, -1, -1], return_std=True)
    assert_allclose(mean, X[:3] @ model.mean_coef_ + model.mean_intercept_)
    assert (std > model.predict(X[:3], task_id=ids[:3], return_std=True)[1]).all()
    with pytest.raises(ValueError, match="has not seen"):
        HierarchicalMTL().fit(X, y, task_id=ids).predict(X[:1], task_id=[99])


@pytest.mark.parametrize("layout", ["shared", "masked", "ragged"])
@pytest.mark.parametrize("covariance", ["auto", "diagonal"])
def test_standard_deviations_have_the_shape_of_predictions(layout, covariance):
    X, y = shared()
    ids = {}
    if layout == "masked":
        y = np.where(np.random.default_rng(1).random(y.shape) < 0.2, np.nan, y)
    if layout == "ragged":
        ids = {"task_id": np.arange(30) % 4}
        y = y[np.arange(30), ids["task_id"]]
    model = HierarchicalMTL(covariance).fit(X, y, **ids)
    mean, std = model.predict(X, **ids, return_std=True)
    assert mean.shape == std.shape == y.shape
    assert_allclose(mean, model.predict(X, **ids))
    assert (std > np.sqrt(model.noise_variance_)).all()


def test_rows_of_a_shared_fit_may_name_their_task():
    X, y = shared()
    model = HierarchicalMTL("diagonal").fit(X, y)
    all_tasks, one_task = (
        model.predict(X, return_std=True),
        model.predict(X, task_id=np.full(30, 2), return_std=True),
    )
    assert_allclose(one_task[0], all_tasks[0][:, 2])
    assert_allclose(one_task[1], all_tasks[1][:, 2])


def test_columns_with_equal_slopes_have_one_coefficient():
    X, y, ids, _ = table()
    frame = pd.DataFrame(X, columns=["price", "promo"])
    model = HierarchicalMTL("diagonal", slopes=["price"]).fit(frame, y, task_id=ids)
    assert np.ptp(model.coef_[:, 1]) < 1e-12
    assert np.ptp(model.coef_[:, 0]) > 0.5
    assert_allclose(
        HierarchicalMTL("diagonal", slopes=[0]).fit(X, y, task_id=ids).coef_,
        model.coef_,
    )
    for wrong in (["prize"], [7]):
        with pytest.raises(ValueError, match="no column"):
            HierarchicalMTL(slopes=wrong).fit(frame, y, task_id=ids)
    with pytest.raises(ValueError, match="fit_intercept=True"):
        HierarchicalMTL("intercept", fit_intercept=False).fit(X, y, task_id=ids)


def test_more_columns_than_rows_have_a_ridge_mean():
    rng = np.random.default_rng(0)
    ids, X = np.repeat(np.arange(6), 5), rng.normal(size=(30, 50))
    y = X[:, 0] * 2 + rng.normal(size=30)
    model = HierarchicalMTL("intercept").fit(X, y, task_id=ids)
    assert model.converged_
    assert np.abs(model.mean_coef_).argmax() == 0
    assert np.abs(model.mean_coef_).max() < 2.0  # Shrunken
    assert model.predict(X, task_id=ids, return_std=True)[1].shape == (30,)


# ---------------------------------------------------------------------- tests


def test_tests_detect_differing_slopes():
    X, y, ids, _ = table(T=40, spread=(1.0, 0.8, 0.0))
    model = HierarchicalMTL().fit(
        pd.DataFrame(X, columns=["price", "promo"]), y, task_id=ids
    )
    assert model.test().p_value == pytest.approx(0.001)
    for method in ("score", "f"):
        assert model.test("slopes", method=method).p_value < 0.01
    price, promo = model.test(each=True)
    assert (price.tested, price.method) == ("price", "lrt")
    assert price.p_value < 1e-6
    assert promo.p_value > 0.05
    assert model.test("promo").p_value == pytest.approx(
        promo.p_value
    )  # The larger p-value is not adjusted.
    assert model.test("price", method="bootstrap", draws=19).p_value == 0.05
    assert model.test([0, 1], method="f").p_value < 0.01
    with pytest.raises(ValueError, match="one variance"):
        model.test([0, 1], method="lrt")


def test_simulated_tables_of_a_bootstrap_have_the_unit_of_y():
    X, y, ids = three_slopes()
    p_values = []
    for unit in (1.0, 2.0**-10):
        model = HierarchicalMTL("diagonal").fit(X, unit * y, task_id=ids)
        tests = [model.test(name, method="bootstrap", draws=19) for name in ("u", "w")]
        p_values.append([test.p_value for test in tests])
    differs, alike = p_values[0]
    assert differs == 0.05
    assert alike > 0.2
    assert p_values[1] == p_values[0]


def three_slopes():
    """Return tasks where one slope of three differs clearly and one slightly."""
    rng = np.random.default_rng(5)
    n_tasks = 25
    n = 12 * n_tasks
    ids = np.arange(n) % n_tasks
    X = rng.normal(size=(n, 3))
    slopes = rng.normal(size=(n_tasks, 3)) * [0.4, 0.1, 0.0]
    y = ((1 + slopes[ids]) * X).sum(axis=1) + rng.normal(size=n)
    return pd.DataFrame(X, columns=["u", "v", "w"]), y, ids


@pytest.mark.parametrize("tested", [["u"], ["w", "u"], "slopes"])
def test_holm_counts_all_slopes_that_may_differ_whichever_are_tested(tested):
    X, y, ids = three_slopes()
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=ids)
    # A single test without `each` is not adjusted.
    raw = {name: model.test(name, method="lrt").p_value for name in X}
    p_values = {t.tested: t.p_value for t in model.test(tested, each=True)}
    names = list(X) if tested == "slopes" else tested
    assert list(p_values) == names
    largest = 0.0
    for rank, name in enumerate(sorted(names, key=raw.get)):
        largest = max(largest, min(1.0, (3 - rank) * raw[name]))
        assert p_values[name] == pytest.approx(largest)
    assert p_values["u"] == pytest.approx(3 * raw["u"])


def same_designs(seed, spread):
    """Return tasks with the same designs: the score test orders tables like F."""
    rng = np.random.default_rng(seed)
    n_tasks = 8
    ids = np.repeat(np.arange(n_tasks), 6)
    x = np.tile(np.linspace(-1, 1, 6), n_tasks)
    slopes = 1 + spread * rng.normal(size=n_tasks)
    return x, slopes[ids] * x + rng.normal(size=len(ids)), ids


def sums_of_squares(x, y, ids):
    """Return the residual sums of squares with a common slope and with one per task."""
    levels = np.eye(ids.max() + 1)[ids]
    sums = []
    for columns in (x[:, np.newaxis], levels * x[:, np.newaxis]):
        design = np.column_stack([levels, columns])
        residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        sums.append(residual @ residual)
    return sums


@pytest.mark.parametrize(("seed", "spread"), [(0, 0.0), (1, 0.5), (2, 0.7)])
def test_exact_tests_have_the_p_value_of_the_f_test(seed, spread):
    x, y, ids = same_designs(seed, spread)
    common, separate = sums_of_squares(x, y, ids)
    statistic = ((common - separate) / 7) / (separate / (48 - 16))
    expected = f_distribution.sf(statistic, 7, 48 - 16)
    model = HierarchicalMTL("diagonal").fit(x[:, np.newaxis], y, task_id=ids)
    by_f = model.test("slopes", method="f")
    assert by_f.statistic == pytest.approx(statistic)
    assert by_f.p_value == pytest.approx(expected)
    by_score = model.test("slopes", method="score", draws=3999)
    assert by_score.p_value == pytest.approx(expected, abs=0.025)


def test_the_ratio_of_one_variance_uses_half_a_chi_square():
    # 2.7055 is the 90% quantile of a chi-square with one degree of freedom, 5.4119 its
    # 98% quantile.
    assert half_chi2(2.7055) == pytest.approx(0.05, abs=1e-4)
    assert half_chi2(5.4119) == pytest.approx(0.01, abs=1e-4)
    assert half_chi2(0.0) == 1.0
    X, y, ids = three_slopes()
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=ids)
    tests = model.test("u", method="lrt")
    assert tests.p_value == pytest.approx(0.5 * chi2.sf(tests.statistic, 1))


def test_a_bootstrap_counts_the_original_table():
    X, y, ids = three_slopes()
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=ids)
    assert model.test("u", method="bootstrap", draws=9).p_value == pytest.approx(0.1)
    assert model.test("w", method="bootstrap", draws=9).p_value <= 1


@pytest.fixture(scope="module")
def models_of_equal_slopes():
    models = []
    for seed in range(50):
        X, y, ids, _ = table(seed, T=12, n=6, spread=(1.0, 0.0, 0.0))
        models.append(HierarchicalMTL("intercept").fit(X, y, task_id=ids))
    return models


@pytest.mark.slow
@pytest.mark.parametrize("method", ["score", "f"])
def test_exact_tests_have_uniform_p_values_under_the_null_hypothesis(
    models_of_equal_slopes, method
):
    p = [
        model.test("slopes", method=method, draws=99).p_value
        for model in models_of_equal_slopes
    ]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.09
    assert 0.4 < np.mean(p) < 0.6


def test_tasks_with_too_few_rows_for_a_test_get_no_p_value():
    X, y, ids, _ = table(T=20, n=2)
    model = HierarchicalMTL("intercept").fit(X, y, task_id=ids)
    assert np.isnan(model.test("slopes", method="f").p_value)
    assert 0 < model.test("slopes").p_value <= 1


# ----------------------------------------------------------- sufficient statistics


@pytest.mark.parametrize("covariance", ["scalar", "diagonal", "full"])
def test_chunks_statistics_and_rows_have_one_likelihood(covariance):
    X, y, ids, _ = table(T=15)
    weights = np.random.default_rng(1).random(len(y)) + 0.5
    rows = HierarchicalMTL(covariance).fit(X, y, task_id=ids, sample_weight=weights)
    sums = HierarchicalMTL(covariance).fit_statistics(
        TaskStatistics.of(X, y, ids, weights)
    )
    chunks = HierarchicalMTL(covariance)
    for k in range(3):
        chunks.partial_fit(
            X[k::3], y[k::3], task_id=ids[k::3], sample_weight=weights[k::3]
        )
    for other in (sums, chunks):
        assert other.objective_[-1] == pytest.approx(rows.objective_[-1], rel=1e-8)
        assert_allclose(other.coef_, rows.coef_, atol=1e-5)
        assert_allclose(other.coef_std_, rows.coef_std_, rtol=1e-4)
        assert_allclose(
            other.predict(X, task_id=ids, return_std=True)[1],
            rows.predict(X, task_id=ids, return_std=True)[1],
            rtol=1e-4,
        )
    assert chunks.test(draws=99).p_value == rows.test(draws=99).p_value


# -------------------------------------------------------------- few tasks, other priors


def levels(seed, T, n, std, slope_std=0.0, n_columns=1):
    """Return tasks that differ in their level, and in the slopes of the columns."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, n_columns))
    slopes = 1 + slope_std * rng.normal(size=(T, n_columns))
    y = std * rng.normal(size=T)[ids] + (slopes[ids] * X).sum(axis=1)
    return X, y + rng.normal(size=T * n), ids


@pytest.mark.parametrize(
    ("T", "std"),
    [
        (4, 2.0),
        pytest.param(2, 0.5, marks=pytest.mark.slow),
        pytest.param(10, 0.5, marks=pytest.mark.slow),
        pytest.param(11, 2.0, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_a_new_task_have_their_coverage_with_few_tasks(T, std):
    covered = []
    widths = []
    for seed in range(15):
        X, y, ids = levels(seed, T, n=8, std=std)
        model = HierarchicalMTL("intercept", unseen="mean").fit(X, y, task_id=ids)
        mean, deviation = model.predict([[0.0]], task_id=[99], return_std=True)
        # A new target is normal around 0.
        total_std = np.hypot(std, 1.0)
        ends = (mean[0] + np.array([-1.96, 1.96]) * deviation[0]) / total_std
        covered.append(np.diff(norm.cdf(ends))[0])
        widths.append(deviation[0])
    known_std = np.sqrt(std**2 * (1 + 1 / T) + 1 + 1 / (8 * T))
    assert 0.93 <= np.mean(covered) <= (0.98 if T > 2 else 1.0)
    assert np.median(widths) < (2.2 if T > 2 else 4.6) * known_std


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["scalar", "full"])
def test_intervals_of_a_new_task_have_their_coverage_with_slopes(covariance):
    rng = np.random.default_rng(0)
    covered = []
    for seed in range(40):
        X, y, ids = levels(seed, 5, n=12, std=1.0, slope_std=0.7)
        model = HierarchicalMTL(covariance, unseen="mean").fit(X, y, task_id=ids)
        rows = rng.normal(size=(20, 1))
        mean, deviation = model.predict(rows, task_id=[99] * 20, return_std=True)
        total_std = np.sqrt(1 + np.square(0.7 * rows[:, 0]) + 1)
        lower = (mean - rows[:, 0] - 1.96 * deviation) / total_std
        upper = (mean - rows[:, 0] + 1.96 * deviation) / total_std
        covered.append(np.mean(norm.cdf(upper) - norm.cdf(lower)))
    assert 0.93 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize(
    "covariance", ["scalar", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_t_intervals_of_the_mean_slope_have_their_coverage(covariance):
    inside = []
    for seed in range(25):
        X, y, ids = levels(seed, 12, n=10, std=1.0, slope_std=0.3, n_columns=2)
        model = HierarchicalMTL(covariance).fit(X, y, task_id=ids)
        half = student_t.ppf(0.975, model.mean_coef_df_) * model.mean_coef_std_
        inside += (np.abs(model.mean_coef_ - 1) < half).tolist()
    assert 0.925 <= np.mean(inside) <= 0.98


def test_degrees_of_freedom_count_the_tasks_in_which_a_column_varies():
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(12), 10)
    X = rng.normal(size=(120, 4))
    X[ids >= 7, 1] = 0.0  # varies within seven tasks
    X[:, 2] = rng.normal(size=12)[ids]  # varies between tasks only
    y = X.sum(axis=1) + rng.normal(size=12)[ids] + rng.normal(size=120)
    model = HierarchicalMTL("diagonal", slopes=[0, 1]).fit(X, y, task_id=ids)
    assert model.mean_coef_df_[:3].tolist() == [11, 6, 10]
    # 120 rows less 12 levels, 3 other coefficients and up to 19 slopes.
    assert 120 - 12 - 3 - 19 <= model.mean_coef_df_[3] <= 120 - 12
    assert model.estimates().mean_df[0] == 10
    pooled = HierarchicalMTL("intercept", slopes=[]).fit(X[:, :2], y, task_id=ids)
    assert (pooled.mean_coef_df_ > 100).all()


def test_first_three_drivers_have_the_shares_of_reml(sleepstudy):
    X, y, ids = sleepstudy
    first = np.isin(ids, pd.unique(ids)[:3])
    model = HierarchicalMTL("diagonal").fit(X[first], y[first], task_id=ids[first])
    assert model.variance_shares_["tasks"] == pytest.approx(0.767, abs=0.001)
    assert model.variance_shares_["mean"] == pytest.approx(0.116, abs=0.001)
    interval = model.variance_interval()
    assert interval.share == model.variance_shares_["tasks"]
    assert interval.share_low < 0.6
    assert 0.9 < interval.share_high < 1.0


def test_the_interval_of_a_level_equals_the_profile_of_dense_rows():
    X, y, ids = levels(0, T=6, n=5, std=1.0)
    model = HierarchicalMTL("intercept").fit(X, y, task_id=ids)
    interval = model.variance_interval("level")
    A = np.column_stack([np.ones(30), X])
    same_task = np.equal.outer(ids, ids)

    def criterion(ratio):
        V = np.eye(30) + ratio * same_task
        inverse = np.linalg.inv(V)
        information = A.T @ inverse @ A
        residual = y - A @ np.linalg.solve(information, A.T @ inverse @ y)
        s2 = residual @ inverse @ residual / 28
        logdets = np.linalg.slogdet(V)[1] + np.linalg.slogdet(information)[1]
        return 28 * np.log(s2) + logdets, s2

    limit = criterion(model.covariance_[0, 0] / model.noise_variance_)[0]
    limit += chi2.ppf(0.95, 1)
    for start, end in ((1e-6, interval.low), (1e3, interval.high)):
        estimate = model.covariance_[0, 0] / model.noise_variance_
        ratio = brentq(lambda r: criterion(r)[0] - limit, *sorted((start, estimate)))
        assert end == pytest.approx(ratio * criterion(ratio)[1], rel=0.02)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_the_profile_is_below_a_slice_and_at_the_limit(covariance):
    X, y, ids, _ = table(T=12)
    data, _ = of_data(TaskData.from_stacked(X, y, ids))
    result = refitted(HierarchicalProblem(data, np.arange(data.p)), covariance)
    K = data.moments()
    ends = profile_interval(result, K, 0.95)
    for end in ends:
        assert end.criterion - result.criterion == pytest.approx(3.84, abs=0.1)
        # The same total along the fitted covariance fits no better.
        theta = result.fit.value.Theta
        ratio = np.sum(K * as_matrix(end.Theta)) / np.sum(K * as_matrix(theta))
        assert end.criterion <= result.m(ratio * theta).criterion + 1e-3


def as_matrix(theta):
    return np.diag(theta) if theta.ndim == 1 else theta


def test_a_coefficient_that_does_not_differ_has_an_interval_of_zeros():
    X, y, ids, _ = table(T=12)
    model = HierarchicalMTL("diagonal", slopes=[0]).fit(X, y, task_id=ids)
    interval = model.variance_interval(1)
    assert (interval.variance, interval.low, interval.high) == (0.0, 0.0, 0.0)


def test_an_estimate_of_zero_has_an_upper_end():
    X, y, ids = levels(0, T=8, n=5, std=0.0)
    task_means = np.bincount(ids, y) / 5
    model = HierarchicalMTL("intercept").fit(X, y - task_means[ids], task_id=ids)
    interval = model.variance_interval()
    assert (interval.variance, interval.low) == (0.0, 0.0)
    assert 0.0 < interval.share_high < 0.5


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_an_interval_needs_a_probability(level):
    X, y, ids, _ = table(T=5)
    with pytest.raises(ValueError, match="level"):
        HierarchicalMTL().fit(X, y, task_id=ids).variance_interval(level=level)


def test_a_prior_that_was_removed_is_refused_with_the_remedy():
    X, y, ids, _ = table(T=5, n=8)
    with pytest.raises(ValueError, match="prior='normal'"):
        HierarchicalMTL(prior="student").fit(X, y, task_id=ids)


def test_a_saved_model_with_a_prior_that_was_removed_is_not_restored():
    X, y, ids, _ = table(T=5, n=8)
    model = HierarchicalMTL().fit(X, y, task_id=ids)
    assert_array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)
    model.prior = "student"
    with pytest.raises(ValueError, match="prior='normal'"):
        pickle.loads(pickle.dumps(model))


def test_clusters_are_detected_and_named():
    X, y, ids, _ = table(T=40, n=12, spread=(0.1, 0.1, 0.1))
    kind = np.arange(40) % 2
    y = y + np.where(kind[ids] == 1, 4 * X[:, 1], 0.0)
    model = HierarchicalMTL(prior="clusters").fit(X, y, task_id=ids)
    assert len(np.unique(model.labels_)) == 2
    assert (
        len({tuple(pair) for pair in np.column_stack([kind, model.labels_]).tolist()})
        == 2
    )
    X, y, ids, _ = table(T=40)
    assert not HierarchicalMTL(prior="clusters").fit(X, y, task_id=ids).labels_.any()


def test_starts_with_the_same_clusters_are_run_once(monkeypatch):
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(12), 15)
    X = rng.normal(size=(180, 2))
    weights = np.repeat([[3.0, 0.0], [-3.0, 1.0]], 6, axis=0)
    y = (X * weights[ids]).sum(axis=1) + rng.normal(size=180)
    find = KMeans.fit_predict
    solve = np.linalg.solve

    def count_steps(n_partitions):
        """Return the number of steps with two clusters and `n_partitions` starts."""
        starts = []
        shapes = []

        def partition(kmeans, points):
            labels = find(kmeans, points)
            if kmeans.n_clusters == 2:
                # Some tasks move to the other cluster, and the numbers are exchanged.
                labels[: len(starts) % n_partitions] ^= 1
                labels ^= len(starts) % 2
                starts.append(labels)
            return labels

        def note(left, right):
            shapes.append(left.shape)
            return solve(left, right)

        with monkeypatch.context() as patch:
            patch.setattr(KMeans, "fit_predict", partition)
            patch.setattr(np.linalg, "solve", note)
            HierarchicalMTL(prior="clusters").fit(X, y, task_id=ids)
        assert len(starts) == 3
        return shapes.count((2, 3, 3))

    counts = [count_steps(n_partitions) for n_partitions in (1, 2, 3)]
    assert np.diff(counts).tolist() == [mixtures.SHORT, mixtures.SHORT]


@pytest.mark.every(6)
@pytest.mark.parametrize("prior", ["normal", "clusters"])
@pytest.mark.parametrize(
    "covariance", ["auto", "intercept", "scalar", "diagonal", "factor", "full"]
)
def test_unusual_tables_cause_no_errors(covariance, prior):
    rng = np.random.default_rng(0)
    X, y, ids, _ = table(T=6, n=3)
    alone = np.arange(len(y))
    tables = [
        (X, y, alone, None),  # Tasks with a single row
        (np.column_stack([X, np.ones(len(y)), X.sum(axis=1)]), y, ids, None),
        (rng.normal(size=(len(y), 20)), y, ids, None),  # More columns than rows
        (X, y, ids, (rng.random(len(y)) < 0.9) * 1.0 + (alone % 3 == 0)),
        (X, np.round(X[:, 0]), ids, None),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for X2, y2, ids2, w in tables:
            model = HierarchicalMTL(covariance, prior=prior, max_iter=10).fit(
                X2, y2, task_id=ids2, sample_weight=w
            )
            mean, std = model.predict(X2, task_id=ids2, return_std=True)
            assert np.isfinite(mean).all()
            assert np.isfinite(std).all()
            assert 0 <= model.test(draws=19).p_value <= 1


def test_scaling_columns_gives_an_equivalent_model():
    X, y, ids, _ = table()
    factors = np.array([2.0, 0.01])
    direct = HierarchicalMTL("diagonal", unseen="mean").fit(X + 3, y, task_id=ids)
    moved = (
        HierarchicalMTL("diagonal", unseen="mean")
        .fit((X + 3) * factors, y, task_id=ids)
        .with_columns_of(factors)
    )
    assert_allclose(moved.coef_, direct.coef_, atol=1e-6)
    assert_allclose(moved.covariance_, direct.covariance_, atol=1e-6)
    for ids2 in (ids, np.full(len(ids), -1)):
        for a, b in zip(
            *(m.predict(X, task_id=ids2, return_std=True) for m in (moved, direct)),
            strict=True,
        ):
            assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_scaled_targets_scale_the_standard_deviations(layout):
    X, y = shared()
    y = y * [1.0, 10.0, 100.0, 1000.0] if layout == "shared" else y[:, 0] * 100
    ids = {} if layout == "shared" else {"task_id": np.arange(30) % 3}
    model = ScaledTargets(HierarchicalMTL("scalar")).fit(X, y, **ids)
    mean, std = model.predict(X, **ids, return_std=True)
    assert_allclose(mean, model.predict(X, **ids))
    inner = model.estimator_.predict(X, **ids, return_std=True)[1]
    assert_allclose(std, inner * model.scale_)
    if layout == "shared":
        predicted = model.predict(X, task_id=np.full(30, 3), return_std=True)
        assert_allclose(predicted[0], mean[:, 3])
        assert_allclose(predicted[1], std[:, 3])


# ------------------------------------------------------------- noise by task


def noisy(seed=0, T=30, n=20, spread=0.8):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2)) * [1.0, 50.0] + [3.0, 0.0]
    W = rng.normal(size=(T, 2)) * [0.5, 0.01]
    noise = np.exp(spread * rng.normal(size=T))
    return (
        X,
        10 + (X * W[ids]).sum(axis=1) + noise[ids] * rng.normal(size=T * n),
        ids,
        noise,
    )


def test_noise_levels_of_tasks_are_estimated_and_intervals_are_right():
    X, y, ids, noise = noisy(n=100)
    train = np.arange(len(y)) % 2 == 0
    order, covered = np.argsort(noise), {}
    for kind in ("common", "task"):
        model = HierarchicalMTL("scalar", noise=kind).fit(
            X[train], y[train], task_id=ids[train]
        )
        mean, std = model.predict(X[~train], task_id=ids[~train], return_std=True)
        inside = np.abs(y[~train] - mean) < 1.96 * std
        covered[kind] = [
            inside[np.isin(ids[~train], part)].mean() for part in np.split(order, 3)
        ]
    assert covered["common"][0] == 1.0
    assert covered["common"][2] < 0.9
    assert_allclose(covered["task"], 0.95, atol=0.03)
    assert np.corrcoef(np.log(model.noise_variances_), np.log(noise))[0, 1] > 0.8
    assert 2 < model.noise_degrees_ < np.inf
    assert model.gap_ < 1e-6
    assert sum(model.variance_shares_.values()) == pytest.approx(1.0)
    assert model.variance_shares_["noise"] == pytest.approx(
        model.noise_variances_.mean() / y[train].var(), rel=0.2
    )


def test_a_new_task_has_the_mean_noise():
    X, y, ids, _ = noisy()
    model = HierarchicalMTL("scalar", noise="task", unseen="mean").fit(
        X, y, task_id=ids
    )
    common = HierarchicalMTL("scalar", unseen="mean").fit(X, y, task_id=ids)
    std = model.predict(X[:1], task_id=[99], return_std=True)[1]
    between = (
        common.predict(X[:1], task_id=[99], return_std=True)[1] ** 2
        - common.noise_variance_
    )
    assert std**2 - model.noise_variance_ == pytest.approx(between, rel=0.5)
    assert (
        model.noise_variances_.min()
        < model.noise_variance_
        < model.noise_variances_.max()
    )


def test_the_noise_of_tasks_is_chosen_by_their_residuals():
    for spread, chosen in ((0.0, "common"), (1.0, "task")):
        X, y, ids, _ = noisy(T=15, spread=spread)
        automatic = HierarchicalMTL("scalar", noise="auto").fit(X, y, task_id=ids)
        expected = HierarchicalMTL("scalar", noise=chosen).fit(X, y, task_id=ids)
        assert_allclose(automatic.coef_, expected.coef_)
        assert automatic.noise_degrees_ == expected.noise_degrees_


def test_noise_by_task_converges_if_categories_add_up_to_the_intercept():
    X, y, ids, _ = noisy()
    category = np.eye(3)[ids % 3]
    model = HierarchicalMTL("scalar", noise="task")
    model.fit(np.hstack([X, category]), y, task_id=ids)
    assert model.converged_


def test_equal_noise_levels_leave_the_model_unchanged():
    X, y, ids, _ = noisy(spread=0.0)
    common = HierarchicalMTL("scalar").fit(X, y, task_id=ids)
    model = HierarchicalMTL("scalar", noise="task").fit(X, y, task_id=ids)
    assert model.noise_degrees_ == np.inf
    assert model.coef_.tolist() == common.coef_.tolist()
    assert model.objective_ == common.objective_
    assert model.noise_variances_.tolist() == [common.noise_variance_] * 30


@pytest.mark.every(3)
@pytest.mark.parametrize("covariance", ["scalar", "diagonal", "full"])
def test_units_and_order_do_not_change_noise_levels(covariance):
    X, y, ids, _ = noisy()
    options = {"covariance": covariance, "noise": "task", "tol": 1e-10}
    model = HierarchicalMTL(**options).fit(X, y, task_id=ids)
    order = np.random.default_rng(1).permutation(len(y))
    other = HierarchicalMTL(**options).fit(
        X[order] * [100.0, 0.1], 5 * y[order] - 3, task_id=ids[order]
    )
    assert_allclose(other.noise_variances_, 25 * model.noise_variances_, rtol=1e-4)
    assert_allclose(other.coef_ * [100.0, 0.1], 5 * model.coef_, rtol=1e-4, atol=1e-5)
    assert other.log_likelihood_ == pytest.approx(
        model.log_likelihood_ - 597 * np.log(5) - np.log(10), abs=1e-4
    )


def test_targets_on_the_same_rows_have_their_own_noise_levels():
    rng = np.random.default_rng(0)
    X, scale = rng.normal(size=(60, 4)), np.array([0.1, 1.0, 3.0, 0.3, 0.1, 2.0])
    Y = X @ (
        rng.normal(size=(4, 1)) + 0.3 * rng.normal(size=(4, 6))
    ) + scale * rng.normal(size=(60, 6))
    model = HierarchicalMTL("scalar", noise="task").fit(X, Y)
    assert_allclose(np.sqrt(model.noise_variances_), scale, rtol=0.35)
    std = model.predict(X, return_std=True)[1]
    assert std.shape == Y.shape
    assert_allclose(std.mean(axis=0), scale, rtol=0.4)
    stacked = HierarchicalMTL("scalar", noise="task").fit(
        np.tile(X, (6, 1)), Y.T.ravel(), task_id=np.repeat(np.arange(6), 60)
    )
    assert_allclose(stacked.coef_, model.coef_, rtol=1e-5)
    assert_allclose(stacked.noise_variances_, model.noise_variances_, rtol=1e-5)


def test_noise_by_task_works_with_clusters():
    X, y, ids, noise = noisy()
    model = HierarchicalMTL("scalar", "clusters", noise="task").fit(X, y, task_id=ids)
    assert np.corrcoef(np.log(model.noise_variances_), np.log(noise))[0, 1] > 0.8
    assert np.isfinite(model.predict(X, task_id=ids, return_std=True)[1]).all()


def test_noise_levels_from_sums_match_those_from_rows():
    X, y, ids, _ = noisy()
    model = HierarchicalMTL("scalar", noise="task").fit(X, y, task_id=ids)
    data = TaskData.from_stacked(X, y, ids)
    sums = HierarchicalMTL("scalar", noise="task").fit_statistics(
        TaskStatistics.of_data(data)
    )
    assert_allclose(sums.noise_variances_, model.noise_variances_, rtol=1e-6)
    assert sums.noise_degrees_ == model.noise_degrees_


# ------------------------------------------- flat likelihoods and invariances


def rare_category(seed=0, T=40, n=15):
    """Return tasks with different slopes and a category in one training row."""
    X, y, ids, _ = table(seed, T=T, n=n)
    rare = np.zeros(len(y))
    rare[np.random.default_rng(seed).integers(len(y))] = 1.0
    return np.column_stack([X, rare]), y, ids


@pytest.mark.parametrize("prior", ["normal", "clusters"])
@pytest.mark.parametrize("covariance", ["scalar", "diagonal", "full"])
def test_a_category_with_a_single_row_has_no_slope_variance(covariance, prior):
    if covariance == "full" and prior != "normal":
        pytest.skip("starts from the normal fit, which is the same case")
    X, y, ids = rare_category()
    model = HierarchicalMTL(covariance, prior=prior).fit(X, y, task_id=ids)
    if prior != "clusters":
        assert model.covariance_[3, 3] == 0
    new = X.copy()
    new[:, 2] = 1.0
    predicted = model.predict(new, task_id=ids)
    assert np.abs(predicted - y.mean()).max() < 3 * np.ptp(y)


@pytest.mark.parametrize(("n_tasks", "differs"), [(1, False), (2, False), (3, True)])
def test_a_slope_needs_three_tasks_in_which_its_column_varies(n_tasks, differs):
    X, y, ids, _ = table(T=12)
    column = np.where(ids < n_tasks, X[:, 0], 0.0) + 3.0 * ids
    y = y + np.array([0.0, 9.0, -9.0, *np.zeros(9)])[ids] * X[:, 0]
    model = HierarchicalMTL("diagonal").fit(
        np.column_stack([column, X]), y, task_id=ids
    )
    assert (model.covariance_[1, 1] > 0) == differs


def test_slopes_of_two_tasks_may_differ():
    X, y, ids, _ = table(T=2, n=40, spread=(0.0, 5.0, 0.0))
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=ids)
    assert model.covariance_[1, 1] > 0


@pytest.mark.parametrize("prior", ["normal", "clusters"])
@pytest.mark.parametrize("seed", [0, 2])
def test_units_and_offset_of_the_targets_change_no_prior(seed, prior):
    X, y, ids, _ = table(seed, T=12, n=8, noise=1.0)
    plain = HierarchicalMTL("diagonal", prior=prior).fit(X, y, task_id=ids)
    other = HierarchicalMTL("diagonal", prior=prior).fit(X, 1e6 * y + 3e6, task_id=ids)
    assert_allclose(
        other.predict(X, task_id=ids) / 1e6 - 3.0,
        plain.predict(X, task_id=ids),
        atol=5e-3,
    )
    assert other.labels_.tolist() == plain.labels_.tolist()


@pytest.mark.slow
def test_names_and_order_of_the_tasks_change_no_clusters():
    rng = np.random.default_rng(5)
    X, y, ids, _ = table(3, T=12, n=9, noise=1.0, spread=(1.0, 0.8, 0.8))
    plain = HierarchicalMTL("diagonal", prior="clusters").fit(X, y, task_id=ids)
    predicted = plain.predict(X, task_id=ids)
    for _ in range(4):
        names = rng.permutation(12)[ids]
        rows = rng.permutation(len(y))
        other = HierarchicalMTL("diagonal", prior="clusters").fit(
            X[rows], y[rows], task_id=names[rows]
        )
        assert_allclose(other.predict(X, task_id=names), predicted, atol=1e-3)
        assert other.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-3)


@pytest.mark.parametrize("noise", ["common", "task"])
def test_the_objective_is_the_likelihood_of_the_prior_used_to_predict(noise):
    X, y, ids, W = table(T=30, n=12)
    W = np.where(np.arange(30)[:, None] % 2, W + 4.0, W - 4.0)
    y = W[ids, 0] + (X * W[ids, 1:]).sum(axis=1) + 0.5 * np.sin(np.arange(len(y)))
    normal = HierarchicalMTL("diagonal", method="ml", noise=noise)
    model = HierarchicalMTL("diagonal", method="ml", noise=noise, prior="clusters")
    normal, model = (m.fit(X, y, task_id=ids) for m in (normal, model))
    assert model.converged_
    assert 0 <= model.gap_ == model.stop_crit_ < 0.01
    assert model.gap_ != normal.gap_
    assert np.diff(model.objective_).max() < 1e-6
    if noise == "common":
        assert model.objective_[-1] == pytest.approx(-2 * model.log_likelihood_)
    else:
        assert model.objective_[-1] - normal.objective_[-1] == pytest.approx(
            2 * (normal.log_likelihood_ - model.log_likelihood_), abs=1e-6
        )


def test_clusters_need_three_rows_per_mean_and_column():
    X, y, ids, _ = table(T=8, n=2)
    wide = np.column_stack([X, np.random.default_rng(0).normal(size=(len(y), 6))])
    model = HierarchicalMTL("scalar", prior="clusters").fit(wide, y, task_id=ids)
    assert model.labels_.tolist() == [0] * 8


# --------------------------------------------------------------- masks and weights

MASKS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "pandas": pd.Series,
    "nullable": lambda flags: pd.array(flags, dtype="boolean"),
}


@pytest.mark.parametrize("kind", MASKS)
def test_a_boolean_mask_selects_the_columns_whose_slopes_differ(kind):
    X, y, ids, _ = table()
    mask = MASKS[kind]([False, True])
    by_mask = HierarchicalMTL("diagonal", slopes=mask).fit(X, y, task_id=ids)
    by_position = HierarchicalMTL("diagonal", slopes=[1]).fit(X, y, task_id=ids)
    assert_allclose(by_mask.coef_, by_position.coef_)
    tested = HierarchicalMTL("diagonal").fit(X, y, task_id=ids).test(mask)
    assert tested.tested == "1"


@pytest.mark.parametrize(
    ("slopes", "message"),
    [
        ([True, False, True], "mask of 3 columns"),
        ([True], "mask of 1 columns"),
        ([True, 0], "mixes"),
        (True, "slopes must be"),
        (pd.array([True, None], dtype="boolean"), "slopes must be"),
    ],
)
def test_an_invalid_column_mask_is_rejected(slopes, message):
    X, y, ids, _ = table()
    with pytest.raises(ValueError, match=message):
        HierarchicalMTL("diagonal", slopes=slopes).fit(X, y, task_id=ids)


def test_a_single_boolean_is_not_a_column_to_test():
    X, y, ids, _ = table()
    with pytest.raises(ValueError, match="tested"):
        HierarchicalMTL("diagonal").fit(X, y, task_id=ids).test(True)


@pytest.mark.parametrize("weight", [1e300, 1e-300])
def test_weights_that_count_too_many_or_too_few_rows_are_rejected(weight):
    X, y, ids, _ = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"sample_weight.*mean"):
            HierarchicalMTL().fit(
                X, y, task_id=ids, sample_weight=np.full(len(y), weight)
            )


def test_a_row_with_negligible_weight_counts_as_absent():
    X, y, ids, _ = table()
    weights = np.where(np.arange(len(y)) % 5, 1.0, 1e-300)
    rows = weights == 1.0
    some = HierarchicalMTL("diagonal").fit(X, y, task_id=ids, sample_weight=weights)
    fewer = HierarchicalMTL("diagonal").fit(X[rows], y[rows], task_id=ids[rows])
    assert_allclose(some.coef_, fewer.coef_, rtol=1e-5)


def test_a_task_with_only_negligible_weights_is_named():
    X, y, ids, _ = table()
    weights = np.where(ids == 7, 1e-300, 1.0)
    with pytest.raises(ValueError, match=r"sample_weight.*task 7"):
        HierarchicalMTL().fit(X, y, task_id=ids, sample_weight=weights)


@pytest.mark.parametrize("prior", ["normal", "clusters"])
def test_a_column_that_varies_only_in_rows_of_negligible_weight_counts_as_constant(
    prior,
):
    X, y, ids, _ = table()
    rare = (np.arange(len(y)) % 7 == 0).astype(float)
    weights = np.where(rare > 0, 1e-200, 1.0)
    model = HierarchicalMTL("diagonal", prior=prior).fit(
        np.column_stack([X, rare]), y, task_id=ids, sample_weight=weights
    )
    assert (model.coef_[:, 2] == 0).all()
