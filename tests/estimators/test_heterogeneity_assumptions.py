"""Tests of differences check what they assume, and keep their size where it fails."""

import pickle

import numpy as np
import pytest

from mtlrun.estimators import HierarchicalMTL, HierarchicalMTLClassifier

N_TASKS = 20


def autoregressive(rng, n):
    noise = rng.normal(size=(N_TASKS, n))
    for i in range(1, n):
        noise[:, i] = 0.6 * noise[:, i - 1] + 0.8 * noise[:, i]
    return noise.ravel()


def table(scenario, seed, slope_std=0.0):
    """Return column, targets and tasks that do not differ beyond their level."""
    rng = np.random.default_rng(seed)
    n = 10 if scenario == "along time" else 6
    task = np.repeat(np.arange(N_TASKS), n)
    x = rng.normal(size=len(task))
    noise = rng.normal(size=len(task))
    curve = 0.0
    match scenario:
        case "along time":
            x = np.tile(np.arange(n), N_TASKS) - 4.5
            noise = autoregressive(rng, n)
        case "curve":
            x = rng.normal(size=N_TASKS)[task] + 0.7 * x
            curve = 0.3 * x**2
            noise = 0.7 * noise
        case "noise":
            factor = np.where(task % 2 == 1, 3.0, 1.0)
            x = factor * x
            noise = factor * noise
        case "heavy tails":
            noise = rng.standard_t(3, size=len(task))
    slope = 1 + slope_std * rng.normal(size=N_TASKS)[task]
    y = rng.normal(size=N_TASKS)[task] + slope * x + curve + noise
    return x[:, None], y, task


def rejected(scenario, slope_std=0.0, *, n_tables):
    """Return how often slopes seem to differ, jointly and in the column."""
    jointly = 0
    single = 0
    for seed in range(n_tables):
        X, y, task = table(scenario, seed, slope_std)
        model = HierarchicalMTL("diagonal").fit(X, y, task_id=task)
        jointly += model.test("slopes", draws=199).p_value < 0.05
        single += model.test(0).p_value < 0.05
    return jointly / n_tables, single / n_tables


@pytest.mark.parametrize("scenario", ["along time", "curve"])
def test_slopes_rarely_seem_to_differ_where_an_assumption_fails(scenario):
    # Without checks .97 and .7 rejected.
    assert max(rejected(scenario, n_tables=6)) < 0.4


def test_noise_that_differs_does_not_look_like_different_slopes():
    # With equal noise in the test, both p-values are .1.
    X, y, task = table("noise", 28)
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=task)
    assert model.test("slopes", draws=199).p_value > 0.3
    assert model.test(0).p_value > 0.3


def test_levels_of_tasks_that_drift_slowly_are_called_untestable():
    rng = np.random.default_rng(0)
    task, time = np.divmod(np.arange(600), 30)
    y = rng.normal(size=(20, 30)).cumsum(axis=1).ravel()
    model = HierarchicalMTL("diagonal").fit(time[:, None], y, task_id=task)
    assert "slow drift" in model.test("all").untestable
    steady = HierarchicalMTL("diagonal").fit(
        time[:, None], np.diff(y, prepend=0), task_id=task
    )
    assert steady.test("all").untestable == ""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["along time", "curve", "noise", "heavy tails"])
def test_slopes_do_not_seem_to_differ_where_an_assumption_fails(scenario):
    # Above 8% plus 2.3 standard errors. Without checks .97, .7, .23 and .08 rejected.
    assert max(rejected(scenario, n_tables=15)) < 0.2


@pytest.mark.parametrize("scenario", ["along time", "curve", "noise"])
def test_slopes_that_differ_are_found_in_spite_of_a_correction(scenario):
    assert min(rejected(scenario, slope_std=1.5, n_tables=6)) > 0.7


@pytest.mark.parametrize(
    ("scenario", "assumption"),
    [
        ("along time", "rows correlated with the next one by 0."),
        ("curve", "common curves in 0"),
        ("noise", "noise that differs between tasks"),
        ("plain", "independent rows, equal noise and linear effects"),
    ],
)
def test_a_test_says_what_it_assumes_after_a_look_at_the_rows(scenario, assumption):
    X, y, task = table(scenario, 3)
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=task)
    assert assumption in model.test("slopes").assumes


def test_a_saved_model_carries_no_rows_and_says_what_it_did_not_check():
    X, y, task = table("curve", 0)
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=task)
    longer = HierarchicalMTL("diagonal")
    longer.fit(np.tile(X, (9, 1)), np.tile(y, 9), task_id=np.tile(task, 9))
    text = pickle.dumps(model)
    assert len(pickle.dumps(longer)) < len(text) + y.nbytes
    saved = pickle.loads(text)
    assert "unchecked: independent rows" in saved.test().assumes
    assert "unchecked" not in model.test().assumes


def test_unequal_noise_is_noticed_in_sums_of_rows():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(30), 12)
    X = rng.normal(size=(360, 2))
    y = X.sum(axis=1) + np.where(task % 2 == 1, 4.0, 1.0) * rng.normal(size=360)
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=task)
    saved = pickle.loads(pickle.dumps(model))
    assert "noise that differs" in saved.test("slopes").assumes


def test_a_common_curve_of_log_odds_does_not_look_like_different_slopes():
    n_rejected = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(40), 20)
        x = 1.5 * rng.normal(size=40)[task] + 0.7 * rng.normal(size=800)
        y = x**2 - 1 + rng.logistic(size=800) > 0
        model = HierarchicalMTLClassifier("diagonal")
        test = model.test(x[:, None], y, "slopes", task_id=task)
        assert "common curves in 0" in test.assumes
        n_rejected += test.p_value < 0.05
    assert n_rejected <= 1


def test_the_choice_of_many_rows_for_the_checks_keeps_tasks_together():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(300), 100)
    X = rng.normal(size=(30_000, 2))
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=30_000)
    model = HierarchicalMTL("diagonal").fit(X, y, task_id=task)
    test = model.test("slopes", draws=99)
    assert "product of 0 and 1" in test.assumes
    assert test.p_value > 0.01
