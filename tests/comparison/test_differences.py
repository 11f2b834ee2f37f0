"""The line that `compare` prints before the fits: how tasks differ."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mtlrun.comparison.differences import differences
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import ORDER
from mtlrun.estimators import HierarchicalMTL


def dataset(kind, spread, seed=0, T=40, n=30, **more):
    """Return tasks whose level and two slopes vary around a mean."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    W = np.array([0.5, 1.0, -1.0]) + rng.normal(size=(T, 3)) * np.array(spread)
    y = W[ids, 0] + (X * W[ids, 1:]).sum(axis=1) + rng.logistic(size=T * n)
    y = y if kind == "regression" else np.where(y > 0, 1.0, -1.0)
    tasks = [f"t{t}" for t in range(T)]
    return Dataset(
        X=X,
        y=y,
        task_type=kind,
        task_id=ids,
        tasks=tasks,
        features=["price", "promo"],
        **more,
    )


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_the_line_names_the_coefficients_in_which_tasks_differ(kind):
    test, of = {
        "regression": ("score", "of the variance beyond"),
        "binary": ("likelihood ratio", "of the variance behind the labels beyond"),
    }[kind]
    size = {"T": 16, "n": 20}
    assert differences(dataset(kind, (0, 0, 0), **size)).startswith(
        f"no sign that the tasks differ ({test} test, p = "
    )
    line = differences(dataset(kind, (1, 0, 0), **size))
    assert of in line
    assert "; they differ in level only; the tests assume " in line
    line = differences(dataset(kind, (1, 0, 2), **size))
    assert "slopes differ in promo (" in line
    assert "price" not in line


def test_levels_beside_slow_drift_are_not_said_to_be_equal():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(20, 12))
    drift = 3 * rng.normal(size=(20, 1)) + steps.cumsum(axis=1)
    data = dataset("regression", (0, 0, 0), T=20)
    ids = np.repeat(np.arange(20), 12)
    X = rng.normal(size=(240, 2))
    line = differences(replace(data, X=X, y=drift.ravel(), task_id=ids))
    assert "no sign" not in line


def test_variance_shares_of_labels_refer_to_the_latent_scale():
    line = differences(dataset("binary", (1.5, 0, 0), T=100))
    share = 1.5**2 / (1.5**2 + 2 + np.pi**2 / 3)
    assert int(line.removeprefix("tasks explain ").partition("%")[0]) == pytest.approx(
        100 * share, abs=6
    )


def test_the_numbers_in_the_line_equal_those_of_the_model_and_its_tests():
    rng = np.random.default_rng(7)
    n_tasks = 20
    ids = np.repeat(np.arange(n_tasks), 15)
    X = rng.normal(size=(len(ids), 4))
    slopes = 1 + rng.normal(size=(n_tasks, 4)) * [0.5, 0.12, 0.0, 0.9]
    y = (slopes[ids] * X).sum(axis=1) + rng.normal(size=n_tasks)[ids]
    y += rng.normal(size=len(ids))
    names = ["u", "v", "w", "z"]
    data = Dataset(
        X=X,
        y=y,
        task_type="regression",
        task_id=ids,
        tasks=[f"t{t}" for t in range(n_tasks)],
        features=names,
    )
    line = differences(data)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    frame = pd.DataFrame(standardized, columns=names)
    model = HierarchicalMTL("diagonal").fit(frame, y, task_id=ids)
    p = {t.tested: t.p_value for t in model.test("slopes", method="lrt", each=True)}
    share = dict(zip(names, model.heterogeneity_[1:], strict=True))
    # A slope with a small, uncertain difference is not named.
    assert share["v"] > 0
    assert p["v"] > 0.05
    sure = sorted((name for name in names if p[name] <= 0.05), key=share.get)[::-1]
    assert sure == ["z", "u"]
    listed = ", ".join(f"{name} ({share[name]:.0%})" for name in sure)
    assert f"; slopes differ in {listed}; the tests assume " in line
    shares = model.variance_shares_
    assert line.startswith(f"tasks explain {shares['tasks']:.0%} of the variance")
    assert f"common model's {shares['mean']:.0%};" in line
    interval = model.variance_interval()
    ends = f"{interval.share_low:.0%} to {interval.share_high:.0%}"
    assert f"interval of the share of tasks {ends};" in line
    # By hand: tasks explain the variance of levels and slopes of standardized columns.
    by_hand = 1 + 0.5**2 + 0.12**2 + 0.9**2
    assert shares["tasks"] == pytest.approx(by_hand / (by_hand + 4 + 1), abs=0.12)


def test_the_line_is_omitted_if_it_would_take_long():
    # Rows times squared columns are just above 20 million.
    size = {"T": 3, "n": 1855}
    X = np.random.default_rng(0).normal(size=(3 * 1855, 60))
    for kind, has_line in (("binary", False), ("regression", True)):
        data = dataset(kind, (1, 0, 0), **size)
        names = [f"x{j}" for j in range(60)]
        wide = replace(data, X=X, features=names)
        assert (differences(wide) is not None) == has_line


def test_tasks_on_the_same_rows_have_no_line():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=(50, 3))
    data = Dataset(
        X=rng.normal(size=(50, 2)), y=y, task_type="binary", tasks=["a", "b", "c"]
    )
    assert differences(data) is None


def test_the_line_says_what_the_tests_assume_after_looking_at_the_rows():
    data = dataset("regression", (1, 0, 0), T=30, n=12)
    assert differences(data).endswith(
        "the tests assume independent rows, equal noise and linear effects"
    )
    rng = np.random.default_rng(1)
    noisy = data.task_id % 2 == 1
    y = data.y + np.where(noisy, 6.0, 0.0) * rng.normal(size=len(data.y))
    line = differences(replace(data, y=y + data.X[:, 0] ** 2))
    assert "noise that differs between tasks" in line
    assert "common curves in price" in line


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_rows_along_time_are_correlated_whatever_their_order_in_the_table(kind):
    rng = np.random.default_rng(3)
    n_tasks = 20
    n = 20
    noise = np.zeros((n_tasks, n))
    for i in range(n):
        noise[:, i] = 0.9 * noise[:, i - 1] * (i > 0) + rng.normal(size=n_tasks)
    ids = np.repeat(np.arange(n_tasks), n)
    time = np.tile(np.arange(float(n)), n_tasks)
    y = 0.1 * time + 2 * noise.ravel()
    if kind == "binary":
        y = np.where(y > 0.5, 1.0, -1.0)
    order = rng.permutation(len(y))
    data = Dataset(
        X=rng.normal(size=(len(y), 1)),
        y=y[order],
        task_type=kind,
        task_id=ids[order],
        tasks=[f"t{t}" for t in range(n_tasks)],
        features=["price"],
    )
    clear = re.compile(r"rows correlated with the next one by 0\.[3-9]")
    assert not clear.search(differences(data))
    line = differences(replace(data, source={ORDER: time[order]}))
    assert clear.search(line)
    # Labels cannot be corrected, so nothing is said about tasks.
    assert ("the tests assume" in line) == (kind == "regression")
