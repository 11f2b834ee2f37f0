"""Relationship learning: W-solvers, precision updates, descent, limits."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import expm

from mtlrun.errors import MemoryLimitError
from mtlrun.papers.fetr.seconds import solve_projected_gradient
from mtlrun.penalties.norms import SquaredTraceNorm
from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.objective import null_objective, primal_value, relative_gap
from mtlrun.problem.quadratic import Gram
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm
from mtlrun.solvers.convex.ridge import solve_ridge
from mtlrun.solvers.relationship.fetr import (
    FetrProblem,
    FetrState,
    Precision,
    check_box,
    exact_precision,
    feature_moment,
    project,
    root_covariance,
    rotate,
    solve_alternating,
    solve_fetr,
    task_moment,
)
from mtlrun.solvers.relationship.wsystem import (
    CoupledSystem,
    box_spectrum,
    closed_form_bytes,
    solve_cg,
    solve_closed,
    solve_eigen,
    solve_gradient,
    solve_sylvester,
    solve_w,
)

LAYOUTS = ["shared", "ragged", "masked", "weighted"]


def spd(size, rng, low=0.3, high=3.0):
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return (Q * rng.uniform(low, high, size=size)) @ Q.T


def make_data(layout, n=40, d=5, m=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5
    W = rng.normal(size=(d, 2)) @ rng.normal(size=(2, m))
    Y = X @ W + 1 + 0.3 * rng.normal(size=(n, m))
    if layout == "shared":
        return TaskData.from_matrix(X, Y)
    if layout == "masked":
        return TaskData.from_matrix(
            X, np.where(rng.uniform(size=Y.shape) < 0.2, np.nan, Y)
        )
    if layout == "weighted":
        return TaskData.from_matrix(X, Y, weights=rng.uniform(0.5, 2, size=Y.shape))
    rows = [
        rng.permutation(n)[: 3 + 7 * t] for t in range(m)
    ]  # The first task has fewer rows than features.
    return TaskData.from_list(
        [X[r] for r in rows], [Y[r, t] for t, r in enumerate(rows)]
    )


def make_system(layout, seed=0, eta=0.7, rho=1.3, **shape):
    rng = np.random.default_rng(seed)
    data = make_data(layout, seed=seed, **shape)
    form = Gram(data, True)
    S1, S2 = spd(data.n_features, rng), spd(data.n_tasks, rng)
    return CoupledSystem(form.gram, form.cross, S1, S2, eta, rho)


# ---------------------------------------------------------------- W


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_w_solvers_agree(layout):
    system = make_system(layout)
    assert system.shared == (layout == "shared")
    methods = ["closed", "cg", "gradient", "auto"] + (
        ["sylvester", "eigen"] if system.shared else []
    )
    expected = solve_closed(system).W
    for method in methods:
        solution = solve_w(system, method, tol=1e-12, max_iter=100_000)
        assert_allclose(
            solution.W,
            expected,
            rtol=0,
            atol=1e-8 * np.abs(expected).max(),
            err_msg=method,
        )
        assert solution.residual <= 1e-11, method


@given(
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(2, 20),
    st.floats(1e-2, 1e2),
    st.floats(1e-2, 1e2),
    st.integers(0, 99),
)
def test_the_diagonalized_solver_solves_the_equations(d, m, n, eta, rho, seed):
    system = make_system("shared", seed, eta, rho, n=n, d=d, m=m)
    W = solve_eigen(system).W
    size = (
        np.linalg.norm(system.apply(np.abs(W))) + np.linalg.norm(system.cross) + 1e-12
    )
    assert np.linalg.norm(system.residual(W)) <= 1e-11 * size


def test_the_shared_solution_equals_the_ragged_one_on_repeated_rows():
    shared = make_system("shared")
    repeated = CoupledSystem(
        np.stack([shared.gram] * 4),
        shared.cross,
        shared.feature_precision,
        shared.task_precision,
        0.7,
        1.3,
    )
    assert_allclose(solve_cg(repeated, tol=1e-13).W, solve_eigen(shared).W, atol=1e-10)
    # The mean Gram matrix is the true one: the preconditioner is the inverse.
    assert solve_cg(repeated, tol=1e-12).n_iter <= 2


def test_the_papers_step_contracts_at_the_theoretical_rate_unlike_the_full_gradient():
    system = make_system("ragged", rho=0.2)
    for low, high in (system.spectrum, box_spectrum(system, 0.3, 3.0)):
        exact = solve_closed(system).W
        rate = (high - low) / (high + low)
        for steps in (1, 5, 25):
            W = solve_gradient(system, tol=0.0, max_iter=steps, spectrum=(low, high)).W
            assert np.linalg.norm(W - exact) <= rate**steps * np.linalg.norm(exact) * (
                1 + 1e-12
            )
    low, high = system.spectrum
    doubled = solve_gradient(
        system, tol=0.0, max_iter=200, spectrum=(low / 2, high / 2)
    )
    assert doubled.residual > 1e3


def test_bounds_of_the_spectrum_contain_it():
    system = make_system("ragged")
    d, m = system.cross.shape
    columns = [system.apply(e.reshape(d, m)).ravel() for e in np.eye(d * m)]
    values = np.linalg.eigvalsh(np.array(columns))
    low, high = system.spectrum
    wide_low, wide_high = box_spectrum(system, 0.3, 3.0)
    assert wide_low <= low <= values[0] * (1 + 1e-12)
    assert values[-1] * (1 - 1e-12) <= high <= wide_high


def test_a_warm_start_at_the_solution_needs_no_iteration():
    system = make_system("ragged")
    W = solve_closed(system).W
    assert solve_cg(system, start=W, tol=1e-10).n_iter == 0
    assert solve_gradient(system, start=W, tol=1e-10).n_iter == 0


def test_the_closed_form_error_names_its_memory(free_memory):
    free_memory(20e9)
    assert closed_form_bytes(1000, 1000) == 8 * 10**12
    big = CoupledSystem(
        np.eye(300), np.zeros((300, 200)), np.eye(300), np.eye(200), 1.0, 1.0
    )
    with pytest.raises(
        MemoryLimitError,
        match=r"300 features and 200 tasks needs 28\.8 GB[^\0]*w_solver='auto'",
    ):
        solve_closed(big)


@pytest.mark.parametrize("method", [solve_sylvester, solve_eigen])
def test_solvers_for_shared_designs_reject_designs_by_task(method):
    with pytest.raises(
        ValueError,
        match=r"needs one design for all tasks.*there is no Sylvester equation",
    ):
        method(make_system("masked"))


def test_an_unknown_method_is_rejected():
    with pytest.raises(ValueError, match="got 'newton'"):
        solve_w(make_system("shared"), "newton")


# ---------------------------------------------------------------- precision matrices


@pytest.mark.cover(2)
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("count", [3, 7])
@pytest.mark.parametrize("box", [(0.01, 100.0), (0.5, 2.0)])
def test_the_precision_update_matches_a_generic_solver(rank, count, box):
    rng = np.random.default_rng(rank)
    factor = rng.normal(size=(4, rank)) * 2
    A = factor @ factor.T
    ours = exact_precision(A, count, *box).matrix
    S = cp.Variable((4, 4), symmetric=True)
    constraints = [S >> box[0] * np.eye(4), S << box[1] * np.eye(4)]
    problem = cp.Problem(
        cp.Minimize(cp.trace(S @ A) - count * cp.log_det(S)), constraints
    )
    best = problem.solve(solver=cp.SCS, eps=1e-8, max_iters=50_000)
    value = np.trace(ours @ A) - count * np.linalg.slogdet(ours)[1]
    assert value == pytest.approx(best, rel=1e-5)
    assert np.linalg.eigvalsh(ours)[0] >= box[0] * (1 - 1e-10)
    assert np.linalg.eigvalsh(ours)[-1] <= box[1] * (1 + 1e-10)


def test_precision_updates_match_hand_calculations():
    A = np.diag([0.0, 1.0, 4.0, 1e6])
    assert_allclose(
        exact_precision(A, 2, 0.01, 100.0).matrix, np.diag([100, 2, 0.5, 0.01])
    )
    assert_allclose(
        exact_precision(A, 2, 0.01, 100.0, 0.5).matrix, np.diag([2, 1, 0.4, 0.01])
    )
    assert_allclose(
        project(np.diag([-3.0, 1.0, 200.0]), 0.01, 100.0).matrix,
        np.diag([0.01, 1, 100]),
    )


def test_moments_are_the_derivatives_of_the_trace():
    rng = np.random.default_rng(0)
    W, S1, S2 = rng.normal(size=(4, 3)), spd(4, rng), spd(3, rng)
    trace = np.trace(S1 @ W @ S2 @ W.T)
    assert np.vdot(feature_moment(W, S2), S1) == pytest.approx(trace)
    assert np.vdot(task_moment(W, S1), S2) == pytest.approx(trace)


def test_a_precision_has_its_inverse_logarithm_and_determinant():
    S = spd(5, np.random.default_rng(1))
    P = project(S, 1e-3, 1e3)
    assert_allclose(P.matrix, S, atol=1e-12)
    assert_allclose(P.covariance @ S, np.eye(5), atol=1e-12)
    assert P.logdet == pytest.approx(np.linalg.slogdet(S)[1])
    assert_allclose(Precision.scalar(3, 2.0).matrix, 2 * np.eye(3))


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, np.inf)]
)
def test_an_empty_box_is_rejected(lower, upper):
    with pytest.raises(ValueError, match=r"0.*lower="):
        check_box(lower, upper)


# ---------------------------------------------------------------- FETR


def objective_by_definition(data, W, b, S1, S2, eta, rho):
    loss = 0.0
    for t in range(data.n_tasks):
        X, y, w = data.task(t)
        loss += np.sum((1.0 if w is None else w) * (y - X @ W[:, t] - b[t]) ** 2)
    d, m = W.shape
    prior = (
        np.trace(S1 @ W @ S2 @ W.T)
        - m * np.linalg.slogdet(S1)[1]
        - d * np.linalg.slogdet(S2)[1]
    )
    return loss + eta * np.sum(W**2) + rho * prior


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_objective_is_that_of_the_paper_and_never_increases(layout, intercept):
    data = make_data(layout)
    states = []
    result = solve_fetr(
        data,
        0.5,
        2.0,
        fit_intercept=intercept,
        tol=1e-9,
        callback=lambda *args: states.append(args),
    )
    assert result.converged
    state = result.info["state"]
    value = objective_by_definition(
        data,
        result.W,
        result.intercept,
        state.feature.matrix,
        state.task.matrix,
        0.5,
        2.0,
    )
    assert result.objective[-1] == pytest.approx(value, rel=1e-9)
    assert np.all(np.diff(result.objective) <= 1e-9 * abs(value))
    assert [args[1] for args in states] == result.objective[: len(states)]
    assert np.any(result.intercept) == intercept


def test_the_objective_does_not_determine_the_scales_of_the_precisions():
    problem = FetrProblem(make_data("shared"), 0.5, 0.8, 1e-6, 1e6)
    rng = np.random.default_rng(1)
    values = [np.linalg.eigh(spd(size, rng)) for size in (problem.d, problem.m)]
    W = rng.normal(size=(problem.d, problem.m))
    objective = [
        problem.objective(
            FetrState(
                W,
                Precision(c * values[0][0], values[0][1]),
                Precision(values[1][0] / c, values[1][1]),
            )
        )
        for c in (0.01, 1.0, 100.0)
    ]
    assert_allclose(objective, objective[1], rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_result_is_stationary_in_every_block(layout):
    """No other W, and no S1 or S2 in the box, is better for the other two blocks fixed,
    according to a generic solver.
    """
    data = make_data(layout)
    result = solve_fetr(data, 0.5, 0.3, tol=1e-13, max_iter=5000, fit_intercept=True)
    state, problem = (
        result.info["state"],
        FetrProblem(data, 0.5, 0.3, 0.01, 100.0, True),
    )
    assert result.info["residual"] < 1e-4
    best = problem.objective(state)
    d, m = result.W.shape
    feature = exact_precision(
        feature_moment(result.W, state.task.matrix), m, 0.01, 100.0
    )
    task = exact_precision(task_moment(result.W, state.feature.matrix), d, 0.01, 100.0)
    W = solve_closed(problem.system(state.feature, state.task)).W
    for better in (
        FetrState(W, state.feature, state.task),
        FetrState(result.W, feature, state.task),
    ):
        assert problem.objective(better) >= best - 1e-6 * abs(best)
    assert_allclose(task.matrix, state.task.matrix, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("solver", ["eigen", "cg", "gradient", "sylvester", "closed"])
def test_the_fit_does_not_depend_on_the_w_solver(solver):
    data = make_data("shared")
    expected = solve_fetr(data, 1.0, 0.5, tol=1e-10).W
    result = solve_fetr(data, 1.0, 0.5, tol=1e-10, accelerate=False, w_solver=solver)
    assert_allclose(result.W, expected, atol=1e-4)
    assert np.all(np.diff(result.objective) <= 1e-9 * abs(result.objective[-1]))


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_without_the_prior_it_is_ridge(layout):
    data = make_data(layout)
    W = solve_fetr(data, 0.8, 1e-10, fit_intercept=True, tol=1e-13).W
    for t in range(data.n_tasks):
        X, y, _ = data.task(t)
        ridge, *_ = solve_ridge(TaskData.from_matrix(X, y[:, None]), 0.8)
        assert_allclose(W[:, t], ridge[:, 0], atol=1e-6)


@pytest.mark.slow
def test_acceleration_saves_rounds_and_keeps_descending():
    data = make_data("shared", n=60, d=8, m=6, seed=2)
    fast = solve_fetr(data, 0.1, 5.0, tol=1e-8, max_iter=5000)
    assert fast.converged
    rounds = 10 * fast.n_iter
    plain = solve_fetr(data, 0.1, 5.0, accelerate=False, tol=1e-8, max_iter=rounds)
    assert not plain.converged
    assert fast.objective[-1] < plain.objective[-1] + 1e-6 * abs(plain.objective[-1])
    assert np.all(np.diff(fast.objective) <= 1e-9 * abs(fast.objective[-1]))


def test_an_increasing_objective_is_an_error(monkeypatch):
    """With an S-step that minimizes nothing, the run stops with an error."""
    import mtlrun.solvers.relationship.fetr as module

    rounds = iter(range(100))

    def worse(moment, count, lower, upper, fudge):
        return Precision.scalar(len(moment), lower if next(rounds) < 2 else upper)

    monkeypatch.setattr(module, "exact_precision", worse)
    with pytest.raises(ArithmeticError, match="FETR"):
        solve_fetr(make_data("shared"), 1.0, 1.0, accelerate=False)


@pytest.mark.cover
@pytest.mark.parametrize("name", ["eta", "rho"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_strengths_must_be_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
        solve_fetr(make_data("shared"), **{"eta": 1.0, "rho": 1.0, name: value})


def test_gram_matrices_that_exceed_the_memory_are_rejected(free_memory):
    free_memory(100, always=True)
    with pytest.raises(MemoryLimitError, match=r"5 features and 4 tasks"):
        solve_fetr(make_data("ragged"), 1.0, 1.0)


def test_the_callback_stops_the_run():
    result = solve_fetr(
        make_data("shared"), 1.0, 1.0, tol=0.0, callback=lambda it, *_: it == 3
    )
    assert result.n_iter == 3
    assert not result.converged
    assert result.message == "stopped by the callback"


# ---------------------------------------------------------------- projected gradient


def test_flip_flop_ends_at_its_fixed_point():
    data = make_data("shared")
    result = solve_fetr(data, 1.0, 0.5, fudge=1e-2, tol=1e-11, max_iter=3000)
    assert result.converged
    state = result.info["state"]
    again = exact_precision(
        task_moment(result.W, state.feature.matrix), data.n_features, 0.01, 100.0, 1e-2
    )
    assert_allclose(again.matrix, state.task.matrix, rtol=1e-4, atol=1e-8)
    # In a wide box the fudge factor has a cost: the objective ends above that of the
    # exact updates.
    wide = {"lower": 1e-4, "upper": 1e4, "tol": 1e-12, "max_iter": 3000}
    exact = solve_fetr(data, 1.0, 0.5, **wide)
    biased = solve_fetr(data, 1.0, 0.5, fudge=1e-2, **wide)
    problem = FetrProblem(data, 1.0, 0.5, 1e-4, 1e4)
    assert problem.objective(biased.info["state"]) > exact.objective[-1]


def ill_conditioned_data(seed):
    """Return ragged tasks of rank 2 with correlated columns of mixed scales."""
    rng = np.random.default_rng(seed)
    d, m = 10, 12
    sizes = rng.integers(4, 20, size=m)
    ids = np.repeat(np.arange(m), sizes)
    X = rng.normal(size=(len(ids), d)) * np.logspace(0, -1.5, d)
    X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    W = rng.normal(size=(d, 2)) @ rng.normal(size=(2, m))
    y = (X * W.T[ids]).sum(axis=1) + rng.normal(size=len(ids))
    return TaskData.from_stacked(X, y, ids)


@pytest.mark.cover
@pytest.mark.slow
@pytest.mark.parametrize("fudge", [0.0, 1e-3])
@pytest.mark.parametrize("rho", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_convergence_means_that_the_objective_is_within_tol_of_its_limit(
    seed, rho, fudge
):
    data = ill_conditioned_data(seed)
    options = {"fudge": fudge, "fit_intercept": True}
    tol = 1e-5
    result = solve_fetr(data, 0.01, rho, tol=tol, **options)
    limit = solve_fetr(data, 0.01, rho, tol=tol / 1000, max_iter=5000, **options)
    assert result.converged
    assert limit.converged
    unit = FetrProblem(data, 0.01, rho, 0.01, 100.0, True).fit_term(limit.W)
    assert result.objective[-1] - limit.objective[-1] <= 2 * tol * unit
    assert np.all(np.diff(result.objective) <= 1e-9 * abs(result.objective[-1]))


def test_rotations_leave_the_prior_and_lower_the_loss():
    problem = FetrProblem(ill_conditioned_data(0), 0.1, 2.0, 0.01, 100.0)
    rng = np.random.default_rng(0)
    feature, task = np.linalg.eigh(spd(10, rng)), np.linalg.eigh(spd(12, rng))
    W = rng.normal(size=(10, 12))
    state = FetrState(W, Precision(*feature), Precision(*task))
    for _ in range(30):
        before = state
        state = rotate(problem, state)
        assert problem.prior(state) == pytest.approx(problem.prior(before), rel=1e-9)
        assert problem.fit_term(state.W) <= problem.fit_term(before.W)
    # The singular values stay; no nearby rotation is better.
    values = np.linalg.svd(state.W, compute_uv=False)
    assert_allclose(values, np.linalg.svd(W, compute_uv=False), rtol=1e-9)
    best = problem.fit_term(state.W)
    for _ in range(20):
        K, L = 1e-3 * rng.normal(size=(10, 10)), 1e-3 * rng.normal(size=(12, 12))
        turned = expm(K - K.T) @ state.W @ expm(L - L.T)
        assert problem.fit_term(turned) >= best * (1 - 1e-9)


@pytest.mark.parametrize("w_step", ["gradient", "exact"])
def test_projected_gradient_descends_to_the_same_objective(w_step):
    data = make_data("shared")
    best = solve_fetr(data, 1.0, 1.0, lower=0.5, upper=2.0, tol=1e-13)
    other = solve_projected_gradient(
        data, 1.0, 1.0, lower=0.5, upper=2.0, w_step=w_step
    )
    assert other.converged
    assert np.all(np.diff(other.objective) <= 1e-9 * abs(other.objective[-1]))
    assert other.objective[-1] == pytest.approx(best.objective[-1], rel=1e-6)
    with pytest.raises(ValueError, match="w_step must be"):
        solve_projected_gradient(data, 1.0, 1.0, w_step="newton")


@pytest.mark.every(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("over", ["tasks", "features"])
def test_the_alternation_descends_and_its_gap_is_certified(layout, over):
    data = make_data(layout)
    result = solve_alternating(
        data, 0.5, ridge=0.2, over=over, tol=1e-12, max_iter=300, fit_intercept=True
    )
    assert np.all(np.diff(result.objective) <= 1e-9 * result.objective[-1])
    penalty = SquaredTraceNorm(0.5, ridge=0.2)
    best = solve_admm(data, SquaredLoss(), [penalty], fit_intercept=True, tol=1e-9)
    primal = primal_value(data, SquaredLoss(), [penalty], [result.W], result.intercept)
    null = null_objective(data, SquaredLoss())
    distance = relative_gap(primal, best.objective[-1], null=null)
    assert -1e-9 <= distance <= result.gap < 0.5
    assert distance < 0.02
    covariance = result.info["covariance"].matrix
    assert np.trace(covariance) == pytest.approx(1)
    assert len(covariance) == (data.n_tasks if over == "tasks" else data.n_features)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
def test_the_covariance_of_a_matrix_of_rank_one_has_rank_one(shape):
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=shape[0]), rng.normal(size=shape[1])
    assert_allclose(
        root_covariance(np.outer(u, v))[0].matrix, np.outer(u, u) / (u @ u), atol=1e-13
    )


def test_the_covariance_minimizes_the_trace_term():
    W = np.random.default_rng(0).normal(size=(4, 6))
    D, trace = root_covariance(W)
    best = np.trace(W.T @ D.covariance @ W)
    assert best == pytest.approx(np.linalg.svd(W, compute_uv=False).sum() ** 2)
    for seed in range(5):
        other = spd(4, np.random.default_rng(seed))
        other /= np.trace(other)
        assert np.trace(W.T @ np.linalg.solve(other, W)) >= best
    assert trace**2 == pytest.approx(best)
    assert_allclose(root_covariance(np.zeros((3, 5)))[0].matrix, np.eye(3) / 3)
