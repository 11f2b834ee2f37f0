"""The kernel SVM without intercept: optima, row types, degenerate problems."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.svm import SVC

from mtlrun.features import WeightedDegree
from mtlrun.penalties.graph import couple_tasks
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.svm import kernel as svm_kernel
from mtlrun.solvers.svm.kernel import (
    certify_kernel,
    kernel_matrix,
    polish,
    solve_without_intercept,
)
from mtlrun.solvers.svm.linear import solve_block_dcd

SIZES = (40, 7, 1, 25)
GRAPHS = {
    "all": np.ones((4, 4)),
    "chain": np.diag([1.0, 3.0, 0.2], 1) + np.diag([1.0, 3.0, 0.2], -1),
}
EXACT = {"tol": 1e-9, "max_iter": 10**8}


def problem(seed=0, width=5, scale=1.0):
    """Return ragged tasks with different costs, one of them with a single row."""
    rng = np.random.default_rng(seed)
    designs = [
        scale * rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.7)
        for n in SIZES
    ]
    y = np.sign(
        np.concatenate([X[:, 0] for X in designs])
        + 0.4 * scale * rng.normal(size=sum(SIZES))
    )
    return designs, y, rng.uniform(0.1, 3.0, size=len(y))


def mirrored(designs, coupling, y, cost):
    """Return LIBSVM's dual variables for rows (x, y) and (-x, -y) with half the cost
    each: the optimum has no intercept.
    """
    K = kernel_matrix(designs, coupling)
    model = SVC(kernel="precomputed", C=1.0, tol=1e-10)
    model.fit(
        np.block([[K, -K], [-K, K]]),
        np.append(y, -y),
        sample_weight=np.append(cost, cost) / 2,
    )
    alpha = np.zeros(2 * len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    return alpha.reshape(2, -1).sum(axis=0)


def gap_of(designs, coupling, y, cost, alpha):
    """Return the relative duality gap of feasible dual variables."""
    assert (alpha >= 0).all()
    assert (alpha <= cost).all()
    point = certify_kernel(
        [sp.csr_array(X) for X in designs], coupling, y, cost, alpha, 0.0
    )
    return point.gap / max(1.0, point.primal)


@pytest.mark.cover(2)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("precompute", [True, False])
def test_the_optimum_matches_three_other_solvers(graph, kind, precompute):
    designs, y, cost = problem()
    coupling = couple_tasks(GRAPHS[graph], 1.3)
    rows = [sp.csr_array(X) for X in designs] if kind == "sparse" else designs
    solution = solve_without_intercept(
        rows, coupling, y, cost, precompute=precompute, **EXACT
    )
    assert solution.converged
    assert solution.info["violation"] <= 1e-9
    assert gap_of(designs, coupling, y, cost, solution.info["alpha"]) <= 1e-9
    libsvm = certify_kernel(
        designs, coupling, y, cost, mirrored(designs, coupling, y, cost), 0.0
    )
    exact = polish(designs, coupling, y, cost, libsvm.alpha, fit_intercept=False)
    assert exact.gap <= 1e-11 * exact.primal
    data = TaskData.from_list(
        designs,
        np.split(y, np.cumsum(SIZES)[:-1]),
        weights=np.split(cost, np.cumsum(SIZES)[:-1]),
    )
    linear = solve_block_dcd(data, coupling, C=1.0, tol=1e-12)
    for W in (exact.W, linear.W.T):
        assert_allclose(solution.W.T, W, atol=1e-7)
    assert_allclose(
        solution.W.T, libsvm.W, atol=1e-4
    )  # LIBSVM stores its kernel in single precision.
    assert solution.objective[-1] == pytest.approx(exact.primal, rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"hash_bits": 8}])
@pytest.mark.parametrize("precompute", [True, False])
def test_strings_equal_their_features(options, precompute):
    rng = np.random.default_rng(0)
    strings = np.array(
        [
            "".join(word)
            for word in rng.choice(list("ACGTN"), p=[0.24] * 4 + [0.04], size=(60, 8))
        ]
    )
    X = WeightedDegree(degree=3, **options).fit_design(strings)
    y, cost, coupling = (
        np.sign(rng.normal(size=60)),
        np.full(60, 2.0),
        couple_tasks(np.ones((2, 2))),
    )
    dense, sparse = (
        solve_without_intercept(
            [Z[:23], Z[23:]], coupling, y, cost, precompute=precompute, **EXACT
        )
        for Z in (X, X.tocsr())
    )
    assert_allclose(dense.W, sparse.W, atol=1e-7)
    assert (
        gap_of([X[:23].tocsr(), X[23:].tocsr()], coupling, y, cost, dense.info["alpha"])
        <= 1e-8
    )


@pytest.mark.cover
@pytest.mark.parametrize(
    ("least", "most", "cache"), [(6, 10, 1e-9), (6, 10, 0.002), (20, 40, 200)]
)
@pytest.mark.parametrize("kind", ["narrow", "wide", "sparse"])
def test_small_parts_and_caches_give_the_same_optimum(
    monkeypatch, kind, least, most, cache
):
    for name, size in (("_LEAST", least), ("_MOST", most)):
        monkeypatch.setattr(svm_kernel, name, size)
    designs, y, cost = problem(width=30 if kind == "wide" else 5)
    rows = [sp.csr_array(X) for X in designs] if kind == "sparse" else designs
    coupling = couple_tasks(GRAPHS["all"])
    solution = solve_without_intercept(
        rows, coupling, y, cost, precompute=False, cache_size=cache, **EXACT
    )
    exact = polish(
        designs, coupling, y, cost, solution.info["alpha"], fit_intercept=False
    )
    assert solution.converged
    assert len(solution.gaps) > 3
    assert_allclose(solution.W.T, exact.W, atol=1e-7)


def test_least_used_rows_leave_the_cache():
    designs, y, _ = problem()
    coupling = couple_tasks(GRAPHS["chain"])
    owner = np.repeat(np.arange(4), SIZES)
    kernel = svm_kernel._make_kernel(
        [sp.csr_array(X) for X in designs], coupling, owner, y, precompute=False
    )
    cache = svm_kernel._make_cache(kernel, len(y), 3 * 8 * len(y) / 2**20)
    expected = kernel_matrix(designs, coupling) * np.outer(y, y)
    for i in (5, 1, 5, 60, 5, 2, 1):
        change = np.zeros(len(y))
        change[i] = 1.0
        gradient = np.zeros(len(y))
        svm_kernel._update(kernel, cache, gradient, change)
        assert_allclose(gradient, expected[i], atol=1e-12)
    assert sorted(cache.holds) == [1, 2, 5]
    assert sorted(np.flatnonzero(cache.slot >= 0)) == [1, 2, 5]


@pytest.mark.parametrize("precompute", [True, False])
def test_single_classes_zero_costs_zero_rows_and_duplicates_are_handled(precompute):
    designs, y, cost = problem()
    coupling = couple_tasks(GRAPHS["all"])
    single_class = solve_without_intercept(
        designs, coupling, np.ones(len(y)), cost, precompute=precompute, **EXACT
    )
    assert (
        gap_of(designs, coupling, np.ones(len(y)), cost, single_class.info["alpha"])
        <= 1e-9
    )
    cost[::3] = 0.0
    designs[0][:4] = 0.0
    solution = solve_without_intercept(
        designs, coupling, y, cost, precompute=precompute, **EXACT
    )
    assert gap_of(designs, coupling, y, cost, solution.info["alpha"]) <= 1e-9
    assert_allclose(solution.info["alpha"][:4], cost[:4])
    twice = [np.concatenate([X, X]) for X in designs]
    labels = np.concatenate(
        [np.tile(part, 2) for part in np.split(y, np.cumsum(SIZES)[:-1])]
    )
    costs = np.concatenate(
        [np.tile(part, 2) / 2 for part in np.split(cost, np.cumsum(SIZES)[:-1])]
    )
    double = solve_without_intercept(
        twice, coupling, labels, costs, precompute=precompute, **EXACT
    )
    assert_allclose(double.W, solution.W, atol=1e-7)
    assert double.objective[-1] == pytest.approx(solution.objective[-1], rel=1e-9)


@pytest.mark.parametrize("nothing", ["cost", "features"])
def test_without_information_the_solution_is_zero(nothing):
    designs, y, cost = problem()
    if nothing == "cost":
        cost[:] = 0.0
    else:
        designs = [np.zeros_like(X) for X in designs]
    solution = solve_without_intercept(designs, couple_tasks(GRAPHS["all"]), y, cost)
    assert solution.converged
    assert not solution.W.any()
    assert solution.objective == [pytest.approx(cost.sum())]
    assert_allclose(solution.info["alpha"], cost)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_the_violation_stops_in_the_units_of_the_margins(scale):
    designs, y, cost = problem(scale=scale)
    coupling = couple_tasks(GRAPHS["all"])
    cost /= scale**2
    for tol in (0.5, 1e-2, 1e-5):
        solution = solve_without_intercept(
            designs, coupling, y, cost, tol=tol, max_iter=10**8
        )
        alpha = solution.info["alpha"]
        slope = certify_kernel(designs, coupling, y, cost, alpha, 0.0).margins - 1
        worst = max(
            np.max(-slope[alpha < cost], initial=0.0),
            np.max(slope[alpha > 0], initial=0.0),
        )
        assert solution.converged
        assert worst <= tol * (1 + 1e-6)
        assert worst == pytest.approx(solution.info["violation"], rel=1e-6, abs=1e-10)


def test_gap_steps_and_callbacks_stop_a_run():
    designs, y, cost = problem()
    arguments = designs, couple_tasks(GRAPHS["all"]), y, cost
    solution = solve_without_intercept(*arguments, tol=0.0, gap=1e-3, max_iter=10**8)
    assert solution.converged
    assert solution.gap <= 1e-3 < solution.gaps[0][1] - solution.gaps[0][2]
    assert len(solution.info["seconds"]) == len(solution.gaps)
    few = solve_without_intercept(*arguments, max_iter=5)
    assert (few.n_iter, few.converged) == (5, False)
    seen = []
    stopped = solve_without_intercept(
        *arguments, callback=lambda *values: seen.append(values) or True
    )
    assert not stopped.converged
    assert seen == [(0, pytest.approx(cost.sum()), pytest.approx(0.0, abs=1e-10))]
    with pytest.raises(ValueError, match="max_iter"):
        solve_without_intercept(*arguments, max_iter=0)
    with pytest.raises(ValueError, match="tol"):
        solve_without_intercept(*arguments, gap=-1.0)


def test_rounding_ends_a_run():
    designs, y, cost = problem()
    solution = solve_without_intercept(
        designs, couple_tasks(GRAPHS["all"]), y, cost, tol=0.0, max_iter=10**15
    )
    assert solution.converged
    assert solution.gap <= 1e-12
