"""The line of `compare` before anything is fitted: how tasks differ."""

import numpy as np
import pytest

from mtlrun.comparison import differences as module
from mtlrun.comparison.differences import differences
from mtlrun.data.dataset import Dataset


def dataset(kind, spread, seed=0, T=40, n=30, **more):
    """Tasks with a level and two slopes around a mean."""
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
def test_the_line_says_in_what_tasks_differ(kind):
    of = {
        "regression": "of the variance beyond",
        "binary": "of the variance behind the labels beyond",
    }[kind]
    assert differences(dataset(kind, (0, 0, 0))).startswith(
        "no sign that the tasks differ ("
    )
    line = differences(dataset(kind, (1, 0, 0)))
    assert of in line
    assert line.endswith("; they differ in level only")
    line = differences(dataset(kind, (1, 0, 1)))
    assert "slopes differ in promo (" in line
    assert "price" not in line


def test_the_shares_of_labels_are_those_behind_them():
    line = differences(dataset("binary", (1.5, 0, 0), T=200))
    share = 1.5**2 / (1.5**2 + 2 + np.pi**2 / 3)
    assert int(line.removeprefix("tasks explain ").partition("%")[0]) == pytest.approx(
        100 * share, abs=6
    )


def test_what_it_would_take_long_for_has_no_line(monkeypatch):
    monkeypatch.setattr(module, "MOST_PRODUCTS", 4 * 1200 - 1)
    assert differences(dataset("binary", (1, 0, 0))) is None
    assert differences(dataset("regression", (1, 0, 0)))


def test_tasks_on_the_same_rows_have_no_line():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=(50, 3))
    data = Dataset(
        X=rng.normal(size=(50, 2)), y=y, task_type="binary", tasks=["a", "b", "c"]
    )
    assert differences(data) is None
