"""Summaries of hierarchical and smooth models agree with other packages."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from scipy.stats import t as student_t

from mtlrun.data import load_dataset
from mtlrun.errors import DataError
from mtlrun.estimators import (
    HierarchicalMTL,
    HierarchicalMTLClassifier,
    SmoothMTL,
    SmoothMTLClassifier,
    SmoothPooled,
)
from mtlrun.estimators.summary import summary_lines

MODELS = [HierarchicalMTL, HierarchicalMTLClassifier, SmoothMTL, SmoothMTLClassifier]


def table(n_tasks=25, n_rows=12, seed=0):
    """Return a frame of two columns and a target, and the tasks."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(loc=(2.0, 0.0), size=(len(task), 2))
    slope = 1 + rng.normal(size=n_tasks)
    y = 3 + 1.5 * rng.normal(size=n_tasks)[task] + slope[task] * X[:, 0] - X[:, 1]
    y += rng.normal(size=len(task))
    return pd.DataFrame(X, columns=["dose", "age"]), y, task


@pytest.fixture(scope="module")
def fitted():
    """Return a model of `table` whose slopes of the dose differ, and its summary."""
    X, y, task = table()
    model = HierarchicalMTL("full", slopes=["dose"]).fit(X, y, task_id=task)
    return model, model.summary()


def test_a_summary_of_sleepstudy_equals_that_of_lme4():
    try:
        data = load_dataset("sleepstudy")
    except DataError:
        pytest.skip("the files of sleepstudy are not on this machine")
    X = pd.DataFrame(data.X, columns=data.features)
    model = HierarchicalMTL("full").fit(X, data.y, task_id=data.task_id)
    summary = model.summary()
    # lme4 1.1-31 and lmerTest 3.1-3: lmer(Reaction ~ Days + (Days | Subject)).
    means = summary.loc["mean", ["estimate", "std_error", "df"]].to_numpy()
    lme4 = [[251.405105, 6.8245967, 17], [10.467286, 1.5457896, 17]]
    np.testing.assert_allclose(means, lme4, rtol=2e-5)
    stds = summary.loc["std", "estimate"]
    names = ["intercept", "Days", "noise"]
    np.testing.assert_allclose(stds[names], [24.740658, 5.922138, 25.591796], rtol=1e-4)
    assert summary.loc[("fit", "log-likelihood"), "estimate"] == pytest.approx(
        -871.8141, abs=1e-3
    )
    # lme4 profiles the likelihood, which is a little different from the restricted one.
    intervals = summary.loc["std", ["low", "high"]].loc[["Days", "noise"]]
    np.testing.assert_allclose(intervals, [[3.80, 8.75], [22.90, 28.86]], rtol=0.05)


def test_means_and_standard_deviations_equal_those_of_statsmodels(fitted):
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    X, y, task = table()
    _, summary = fitted
    design = np.column_stack([np.ones(len(y)), X])
    theirs = mixed.MixedLM(y, design, task, exog_re=design[:, :2]).fit()
    means = summary.loc["mean"]
    np.testing.assert_allclose(means["estimate"], theirs.fe_params, rtol=1e-4)
    np.testing.assert_allclose(means["std_error"], theirs.bse_fe, rtol=1e-3)
    stds = summary.loc["std", "estimate"]
    expected = np.sqrt([*np.diag(theirs.cov_re), theirs.scale])
    np.testing.assert_allclose(
        stds[["intercept", "dose", "noise"]], expected, rtol=1e-3
    )
    # A coefficient that does not differ between tasks has the rows to its credit, less
    # those that the coefficients use.
    *of_tasks, of_rows = means["df"]
    assert of_tasks == [24, 24]
    assert 300 - 2 * 25 - 2 < of_rows < 300 - 25 - 2
    width = student_t.ppf(0.975, means["df"]) * means["std_error"]
    np.testing.assert_allclose(means["low"], means["estimate"] - width)
    np.testing.assert_allclose(means["high"], means["estimate"] + width)
    noise = summary.loc[("std", "noise")]
    limits = noise["estimate"] * np.sqrt(of_rows / chi2.ppf([0.975, 0.025], of_rows))
    np.testing.assert_allclose(noise[["low", "high"]], limits)


def test_r2_is_that_of_nakagawa_and_schielzeth(fitted):
    X, y, _ = table()
    model, summary = fitted
    Z = np.column_stack([np.ones(len(y)), X - X.mean()])
    fixed = np.var(X.to_numpy() @ model.mean_coef_)
    differences = np.einsum("ij,jk,ik->i", Z, model.covariance_, Z).mean()
    total = fixed + differences + model.noise_variance_
    r2 = summary.loc["R2", "estimate"]
    assert r2["marginal"] == pytest.approx(fixed / total, rel=1e-6)
    assert r2["conditional"] == pytest.approx((fixed + differences) / total, rel=1e-6)
    between = summary.loc[("R2", "between tasks")]
    assert between["estimate"] == pytest.approx(differences / total, rel=1e-6)
    interval = model.variance_interval()
    assert between["low"] == interval.share_low < between["estimate"]
    assert between["high"] == interval.share_high > between["estimate"]


@pytest.mark.slow
def test_intervals_of_standard_deviations_cover_the_truth():
    covered = []
    for seed in range(3):
        X, y, task = table(seed=seed)
        summary = HierarchicalMTL("diagonal").fit(X, y, task_id=task).summary()
        stds = summary.loc["std"]
        for name in ("dose", "noise"):
            covered.append(stds.loc[name, "low"] < 1 < stds.loc[name, "high"])
    assert 0.88 <= np.mean(covered) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_printed_summary_fits_a_terminal(model):
    X, y, task = table()
    X = X.rename(columns={"age": "age of the oldest person in the household"})
    if model in (HierarchicalMTLClassifier, SmoothMTLClassifier):
        y = y > np.median(y)
    summary = model().fit(X, y, task_id=task).summary()
    lines = summary_lines(summary)
    assert max(map(len, lines)) <= 80
    assert len(lines) == len(summary) + 1
    fit = summary.loc["fit", "estimate"]
    assert fit[["tasks", "rows", "converged"]].tolist() == [25, 300, 1]
    r2 = summary.loc["R2", "estimate"]
    assert 0 < r2["marginal"] <= r2["conditional"] < 1
    assert summary.loc["std", "share"].dropna().between(0, 1).all()


def test_summaries_of_models_without_intercepts_few_tasks_or_zero_variances_work():
    X, y, task = table(n_tasks=3)
    for options in ({"fit_intercept": False}, {"noise": "task"}, {"prior": "clusters"}):
        frame = X[["dose"]]
        summary = HierarchicalMTL(**options).fit(frame, y, task_id=task).summary()
        of_arrays = HierarchicalMTL(**options).fit(frame.to_numpy(), y, task_id=task)
        np.testing.assert_allclose(of_arrays.summary(), summary, rtol=1e-6)
        assert np.isfinite(summary.loc["mean", "std_error"]).all()
    summary = HierarchicalMTL("intercept").fit(X, 0 * y + X["age"], task_id=task)
    assert summary.summary().loc[("std", "level"), "estimate"] < 1e-3
    pooled = SmoothPooled().fit(X, y, task_id=task).summary()
    assert pooled.loc[("fit", "tasks"), "estimate"] == 3
