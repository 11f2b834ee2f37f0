"""The automatic choice of a solver for convex models, row by row of its table."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mtlrun.penalties.norms import L1, L12, L21, TraceNorm
from mtlrun.problem.losses import LogisticLoss, SquaredLoss
from mtlrun.problem.objective import primal_value
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.auto import choose_solver, solve_convex, solver_bytes

ROBUST = [TraceNorm(1.0), L12(0.7)]


@pytest.mark.parametrize(
    ("layout", "penalties", "chosen"),
    [
        ("shared", [L21(1.0)], "lasso"),
        ("weighted", [L1(1.0)], "lasso"),
        ("ragged", [L21(1.0)], "admm"),
        ("cell-weighted", [L21(1.0)], "admm"),
        ("masked", [L1(1.0)], "admm"),
        ("shared", ROBUST, "admm"),
    ],
)
def test_least_squares_uses_the_expected_solver(small, layout, penalties, chosen):
    assert choose_solver(small.make(layout), SquaredLoss(), penalties) == chosen


def test_few_labels_use_fista_and_many_use_admm():
    rng = np.random.default_rng(0)
    for n_rows, solver in ((1000, "fista"), (1001, "admm")):
        X = [rng.normal(size=(n, 4)) for n in (n_rows, 1000)]
        labels = [np.sign(x[:, 0]) for x in X]
        data = TaskData.from_list(X, labels)
        assert choose_solver(data, LogisticLoss(), ROBUST) == solver


def test_too_large_eigenbases_are_avoided(small, cache_memory):
    data = small.make("ragged")
    assert solver_bytes(data, SquaredLoss(), ROBUST, "admm") > 0
    cache_memory(10)
    assert choose_solver(data, SquaredLoss(), ROBUST) == "fista"
    assert solver_bytes(data, SquaredLoss(), ROBUST, "fista") == 0


def test_all_solvers_reach_the_same_optimum(small):
    data, loss, penalties = small.make("shared"), SquaredLoss(), [L21(1.0)]
    options = {"start": None, "fit_intercept": True, "tol": 1e-9, "max_iter": 20000}
    results = [
        solve_convex(data, loss, penalties, s, **options)
        for s in ("auto", "lasso", "cd", "admm", "fista")
    ]
    values = [
        primal_value(data, loss, penalties, result.parts, result.intercept)
        for result in results
    ]
    assert_allclose(values, values[0], rtol=1e-8)
    for result in results:
        assert result.converged
        assert_allclose(result.W, results[0].W, atol=1e-3 * np.abs(results[0].W).max())
