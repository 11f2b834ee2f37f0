"""Robust MTL on real data, compared with optimal values known to seven digits."""

import os
from functools import lru_cache

import numpy as np
import pytest

from mtlrun.data.sets.cards import load_card
from mtlrun.data.sets.files import missing_files
from mtlrun.data.sets.load import load_dataset
from mtlrun.estimators.robust import RobustMTL, RobustMTLClassifier

pytestmark = [
    pytest.mark.data,
    pytest.mark.filterwarnings("ignore::mtlrun.estimators.base.DegenerateModelWarning"),
]


@lru_cache
def load(name, **options):
    if not os.environ.get("MTLRUN_DATA") or missing_files(load_card(name)):
        pytest.skip(f"MTLRUN_DATA does not hold {name}")
    return load_dataset(name, **options)


def enron():
    """Return the 40% split of seed 0 without scaling."""
    data = load("enron")
    n = data.X.shape[0]
    rows = np.random.default_rng(0).permutation(n)[: int(0.4 * n)]
    return data.X[rows], data.y[rows]


def check(model, optimum):
    """Assert that the objective exceeds the optimum by at most the gap."""
    assert model.converged_
    assert -1e-6 <= model.objective_[-1] / optimum - 1 <= model.gap_ + 1e-6
    assert model.gap_ <= 1e-4


@pytest.mark.parametrize(
    ("lam", "beta", "optimum"),
    [
        (1.0, 0.01, 75.2555),
        (1.0, 0.1, 226.7194),
        (0.5, 0.01, 65.81924),
        (0.5, 0.1, 175.69880),
        (0.3, 0.01, 57.70312),
        (0.3, 0.1, 145.38159),
    ],
)
def test_least_squares_reaches_the_optimum_on_enron(lam, beta, optimum):
    check(RobustMTL(lam, beta, fit_intercept=False).fit(*enron()), optimum)


def test_squared_hinge_reaches_the_optimum_on_enron():
    check(
        RobustMTLClassifier(0.5, 0.01, loss="squared_hinge", fit_intercept=False).fit(
            *enron()
        ),
        58.04646,
    )


@pytest.mark.parametrize(
    ("r1", "r2", "optimum"), [(500, 300, 1544432.30783), (500, 100, 1518668.19732)]
)
def test_ragged_tasks_of_school_reach_the_optimum(r1, r2, optimum):
    """The objective: squares + r1 ||L||_* + r2 ||E||_{1,2}, with a constant feature."""
    data = load("school", variant="bias")
    assert data.X.shape[1] == 28
    model = RobustMTL(r2 / r1, 1 / r1, fit_intercept=False).fit(
        data.X, data.y, task_id=data.task_id
    )
    check(model, optimum / r1)
    assert len(model.tasks_) == 139
