"""Multi-task MKL: optima, certificates, limits; the printed algorithm cycles."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import SVC

from mtlrun.papers.mtmkl.update import block_descent
from mtlrun.solvers.mkl.kernels import GaussianKernel, LinearKernel, PolynomialKernel
from mtlrun.solvers.mkl.machines import GramStore, SvmTasks
from mtlrun.solvers.mkl.mkl import solve_alternating, solve_group_mkl
from mtlrun.solvers.pairwise import pair_distances

KERNELS = [
    LinearKernel(),
    PolynomialKernel(),
    *(GaussianKernel(spread=s) for s in (0.5, 1.0, 2.0, 4.0)),
]


def toy(seed=0, n=60):
    """Return five tasks: quadratic in two features, or a wave along a third."""
    rng = np.random.default_rng(seed)
    designs = [rng.normal(size=(n, 4)) for _ in range(5)]
    kinds = [
        lambda X: X[:, 0] + X[:, 1] ** 2 - 1,
        lambda X: 2 * np.sin(2 * X[:, 2]) + X[:, 3],
    ]
    labels = [
        np.sign(kinds[t >= 3](X) + 0.3 * rng.normal(size=n))
        for t, X in enumerate(designs)
    ]
    return designs, labels


def machines(data=None, C=1.0, accuracy=1e-5, kernels=KERNELS, max_bytes=1e9):
    designs, labels = toy() if data is None else data
    return SvmTasks(
        GramStore(kernels, designs, max_bytes),
        labels,
        [np.full(len(y), C) for y in labels],
        accuracy,
    )


@pytest.mark.parametrize("lam", [0.0, 0.1, 1.0, 5.0, 20.0])
def test_the_gap_closes_and_the_objective_never_increases(lam):
    tasks = machines()
    solution = solve_group_mkl(tasks, lam, tol=1e-4)
    assert solution.converged
    assert solution.gap <= 1e-4
    assert np.all(np.diff(solution.objective) <= 0)
    theta = solution.theta
    assert np.all(theta >= 0)
    assert np.all(theta.sum(axis=1) <= 1 + 1e-12)
    primal = sum(
        _primal_of_libsvm(tasks, t, theta[t]) for t in range(5)
    ) + lam * pair_distances(theta)
    assert solution.objective[-1] == pytest.approx(primal, rel=1e-4)


def _primal_of_libsvm(tasks, t, theta):
    K, y = np.tensordot(theta, tasks.grams[t], axes=1), tasks.labels[t]
    svc = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, y)
    a = np.zeros(len(y))
    a[svc.support_] = svc.dual_coef_[0]
    return 0.5 * a @ K @ a + np.maximum(0, 1 - y * (K @ a + svc.intercept_)).sum()


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_value_and_weights_are_those_of_a_general_solver(lam):
    """Solve min over theta of max over alpha as one conic problem."""
    designs, labels = toy(n=20)
    designs, labels = designs[1:4], labels[1:4]
    kernels = KERNELS[:3]
    theta = cp.Variable((3, 3), nonneg=True)
    limits = [cp.sum(theta, axis=1) <= 1]
    value = lam * sum(
        cp.norm(theta[s] - theta[t]) for s in range(3) for t in range(s + 1, 3)
    )
    for t in range(3):
        score = cp.Variable()
        for m, kernel in enumerate(kernels):
            values, vectors = np.linalg.eigh(kernel(designs[t]))
            root = vectors * np.sqrt(np.maximum(values, 0))
            w, square = cp.Variable(20), cp.Variable()
            limits.append(cp.quad_over_lin(w, theta[t, m]) <= square)
            value += 0.5 * square
            score = score + root @ w
        value += cp.sum(cp.pos(1 - cp.multiply(labels[t], score)))
    oracle = cp.Problem(cp.Minimize(value), limits)
    oracle.solve(solver="CLARABEL")
    solution = solve_group_mkl(
        machines((designs, labels), kernels=kernels, accuracy=1e-7),
        lam,
        tol=1e-5,
        max_iter=3000,
    )
    assert solution.objective[-1] == pytest.approx(oracle.value, rel=1e-4)
    assert solution.gaps[-1][2] <= oracle.value * (1 + 1e-6)
    assert_allclose(solution.theta, theta.value, atol=0.03)


def test_bounds_hold_from_the_first_iteration():
    best = solve_group_mkl(machines(), 0.1, tol=1e-5, max_iter=2000)
    rough = solve_group_mkl(machines(), 0.1, tol=1e-2)
    assert all(dual <= best.objective[-1] for _, _, dual in rough.gaps)
    assert rough.n_iter < best.n_iter


def test_similar_tasks_share_their_weights():
    """Between the limits, weights are equal within the two kinds of tasks only."""
    rng = np.random.default_rng(0)
    designs = [rng.normal(size=(60, 2)) for _ in range(6)]
    labels = [
        np.sign(X[:, 0] if t < 3 else X[:, 0] ** 2 - X[:, 1] ** 2)
        for t, X in enumerate(designs)
    ]
    labels = [np.where(rng.uniform(size=60) < 0.1, -y, y) for y in labels]
    kernels = [KERNELS[0], KERNELS[1], KERNELS[4]]
    theta = solve_group_mkl(
        machines((designs, labels), kernels=kernels), 1.0, tol=1e-4
    ).theta
    distance = np.linalg.norm(theta[:, None] - theta[None], axis=2)
    within = max(distance[:3, :3].max(), distance[3:, 3:].max())
    assert within < 0.02
    assert distance[:3, 3:].min() > 0.3
    apart = solve_group_mkl(
        machines((designs, labels), kernels=kernels), 0.0, tol=1e-4
    ).theta
    assert np.ptp(apart[:3], axis=0).max() > 0.1


def test_the_limits_are_independent_tasks_and_one_kernel():
    tasks = machines()
    apart = solve_group_mkl(tasks, 0.0, tol=1e-5)
    designs, labels = toy()
    for t in range(2):
        alone = solve_group_mkl(
            machines((designs[t : t + 1], labels[t : t + 1])), 7.0, tol=1e-5
        )
        assert_allclose(alone.theta[0], apart.theta[t], atol=0.02)
    together = solve_group_mkl(tasks, np.inf, tol=1e-5)
    assert np.ptp(together.theta, axis=0).max() == 0
    strong = solve_group_mkl(tasks, 1e3, tol=1e-5)
    assert strong.objective[-1] == pytest.approx(together.objective[-1], rel=1e-4)
    assert_allclose(strong.theta, together.theta, atol=0.02)


@pytest.mark.parametrize("lam", [0.1, 5.0])
def test_the_printed_algorithm_cycles_where_the_corrected_one_converges(lam):
    printed = solve_alternating(machines(), lam)
    corrected = solve_group_mkl(machines(), lam)
    assert not printed.converged
    assert len(printed.info["cycle"]) >= 2
    assert f"cycles with period {len(printed.info['cycle'])}" in printed.message
    assert printed.gap > 0.05
    assert corrected.converged
    assert max(printed.objective) > 1.2 * corrected.objective[-1]
    assert max(np.diff(printed.objective)) > 1.0, "the printed algorithm is no descent"
    # Continuing repeats the cycle: the period and the values do not change.
    again = solve_alternating(machines(), lam, start=printed)
    assert len(again.info["cycle"]) == len(printed.info["cycle"])
    assert_allclose(
        sorted(again.info["cycle"]), sorted(printed.info["cycle"]), rtol=1e-3
    )


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_block_descent_on_the_primal_reaches_the_optimum_and_never_rises(lam):
    data = toy(n=30)
    kernels = KERNELS[:3]
    descent = block_descent(machines(data, kernels=kernels), lam, tol=2e-3)
    tasks = machines(data, kernels=kernels)
    best = solve_group_mkl(tasks, lam, tol=1e-4).objective[-1]
    assert descent.converged
    assert descent.objective[-1] == pytest.approx(best, rel=2e-3)
    assert len(descent.objective) > 10
    assert max(np.diff(descent.objective)) <= 1e-6 * best


def test_the_printed_algorithm_converges_if_one_kernel_is_best_for_all_tasks():
    # The other kernel is constant up to rounding and useless for all tasks.
    solution = solve_alternating(
        machines(kernels=[KERNELS[1], GaussianKernel(spread=1e4)]), 1.0
    )
    assert solution.converged
    assert solution.info["cycle"] == []
    assert solution.gap <= 1e-3


def test_the_printed_algorithm_stops_at_its_iteration_limit():
    solution = solve_alternating(machines(), 0.1, max_iter=2)
    assert (solution.n_iter, solution.converged) == (2, False)
    assert "max_iter=2" in solution.message


def test_a_warm_start_saves_most_machines():
    tasks = machines(accuracy=1e-4)
    first = solve_group_mkl(tasks, 0.1)
    trained = tasks.n_fits
    again = solve_group_mkl(tasks, 0.1, start=first)
    assert tasks.n_fits - trained <= 2 * tasks.n_tasks
    assert again.converged
    near = solve_group_mkl(machines(accuracy=1e-4), 0.12, start=first)
    assert near.converged
    assert near.n_iter < first.n_iter
    with pytest.raises(ValueError, match="weights of shape"):
        solve_group_mkl(machines(kernels=KERNELS[:2]), 0.1, start=first)


def test_matrices_beyond_the_memory_limit_are_recomputed():
    designs, _ = toy()
    size = 6 * 60 * 60 * 8
    some = machines(max_bytes=2.5 * size)
    solution = solve_group_mkl(some, 0.1)
    assert (
        sum(some.grams[t] is some.grams[t] for t in range(5)) == 2
    )  # The others are recomputed each time.
    assert_allclose(solution.theta, solve_group_mkl(machines(), 0.1).theta, atol=1e-2)
    shared = GramStore(KERNELS, [designs[0]] * 5, 1.5 * size)
    assert all(shared[t] is shared[0] for t in range(5))


def test_a_task_of_a_single_class_predicts_that_class():
    designs, labels = toy()
    labels[1] = np.full(60, -1.0)
    solution = solve_group_mkl(machines((designs, labels)), 1.0)
    assert solution.converged
    assert solution.points[1].intercept == -1.0
    assert not solution.points[1].dual.any()


def test_machines_reach_the_requested_accuracy_even_for_a_large_cost():
    tasks = machines(C=300.0, accuracy=1e-4)
    points = [tasks.solve(t, np.full(6, 1 / 6)) for t in range(5)]
    assert all(p.high - p.low <= 1e-4 * p.high for p in points)
    assert tasks.solve(2, np.full(6, 1 / 6)) is points[2]


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_machines_match_libsvm_from_any_start(C):
    tasks = machines(C=C, accuracy=1e-8)
    first, theta = np.full(6, 1 / 6), np.array([0.3, 0.0, 0.5, 0.0, 0.2, 0.0])
    cold = tasks.solve(1, theta)
    svc = SVC(C=C, kernel="precomputed", tol=1e-9).fit(
        np.tensordot(theta, tasks.grams[1], axes=1), tasks.labels[1]
    )
    dual = np.zeros(60)
    dual[svc.support_] = svc.dual_coef_[0]
    assert_allclose(cold.dual, dual, atol=1e-4 * C)
    # From other weights, from another cost, and with costs that change by different
    # factors
    tasks.solve(1, first)
    dearer = machines(C=3 * C, accuracy=1e-8)
    dearer.solve(1, first)
    for start in (tasks, dearer.again(tasks.costs, 1e-8)):
        warm = start.solve(1, theta)
        assert warm.low == pytest.approx(cold.low, rel=1e-7)
        assert_allclose(warm.images, tasks.grams[1] @ warm.dual, atol=1e-10 * (1 + C))
        assert warm.dual.sum() == pytest.approx(0.0, abs=1e-10 * (1 + C))
    rows = np.linspace(0.5, 2.0, 60)
    unequal = [C * rows] * 5
    weighted = tasks.again(unequal, 1e-8).solve(1, theta)
    anew = SvmTasks(tasks.grams, tasks.labels, unequal, 1e-8).solve(1, theta)
    assert weighted.low == pytest.approx(anew.low, rel=1e-7)
    assert np.all(weighted.dual * tasks.labels[1] <= C * rows)


def test_without_any_kernel_the_machine_predicts_the_larger_class():
    designs, labels = toy()
    labels[0] = np.where(np.arange(60) < 40, 1.0, -1.0)
    point = machines((designs, labels)).solve(0, np.zeros(6))
    assert point.intercept == 1.0
    assert point.low == point.high == pytest.approx(40.0)
    assert point.dual.sum() == pytest.approx(0.0)


def test_slopes_match_derivatives():
    tasks, theta = machines(accuracy=1e-9), np.array([0.2, 0.1, 0.1, 0.3, 0.2, 0.1])
    base = tasks.solve(0, theta)
    for m in range(6):
        step = np.zeros(6)
        step[m] = 1e-4
        numeric = (
            tasks.solve(0, theta + step).low - tasks.solve(0, theta - step).low
        ) / 2e-4
        assert numeric == pytest.approx(base.slope[m], rel=1e-2, abs=1e-2)


def test_a_callback_stops_the_run():
    seen = []
    solution = solve_group_mkl(
        machines(), 0.1, callback=lambda *values: seen.append(values) or len(seen) >= 3
    )
    assert len(seen) == 3
    assert not solution.converged
    assert "callback" in solution.message


@pytest.mark.parametrize("lam", [-1.0, np.nan])
def test_an_invalid_strength_is_rejected(lam):
    with pytest.raises(ValueError, match="must not be negative"):
        solve_group_mkl(machines(), lam)


def test_a_bound_that_rounding_puts_above_its_value_does_not_stop_the_descent():
    """As with exact machines on Image: each dual value is one unit of the last digit
    above the primal one.
    """
    designs, labels = toy()
    data = designs[2:4], labels[2:4]
    tasks = machines(data)
    solve, calls = tasks.solve, []

    def rounded(t, theta, *args):
        calls.append(t)
        assert len(calls) < 5000, "no step is ever good enough"
        point = solve(t, theta, *args)
        return replace(point, low=np.nextafter(point.high, np.inf))

    tasks.solve = rounded
    solution = solve_group_mkl(tasks, 1024.0, tol=1e-14, max_iter=20)
    assert np.isfinite(solution.theta).all()
    assert_allclose(
        solution.objective[-1],
        solve_group_mkl(machines(data), 1024.0, tol=1e-5).objective[-1],
        rtol=1e-4,
    )
