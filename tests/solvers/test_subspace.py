"""Locally optimal subspace descent reaches the optimum without an eigenbasis."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.estimators import RobustMTL, RobustMTLClassifier
from mtlrun.penalties.norms import L12, L21, TraceNorm
from mtlrun.problem.losses import LogisticLoss, SquaredLoss
from mtlrun.problem.objective import primal_value
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex import subspace
from mtlrun.solvers.convex.admm import solve_admm
from mtlrun.solvers.convex.auto import choose_solver, solver_bytes
from mtlrun.solvers.convex.subspace import solve_subspace, subspace_pays
from mtlrun.solvers.convex.wide import WideProblem

ROBUST = [TraceNorm(1.0), L12(0.5)]


def wide(sparse=True, weights=False, seed=0):
    """Return two common directions, three separate tasks and one large feature."""
    rng = np.random.default_rng(seed)
    n, d, T = 80, 60, 12
    X = rng.normal(size=(n, d))
    if sparse:
        X *= rng.random((n, d)) < 0.3
    X[:, 0] += 4
    W = rng.normal(size=(d, 2)) @ rng.normal(size=(2, T))
    W[:, :3] += 2 * rng.normal(size=(d, 3))
    Y = X @ W + 3 * rng.normal(size=(n, T)) + 1
    return TaskData.from_matrix(
        sp.csr_array(X) if sparse else X, Y, weights=rng.random(n) if weights else None
    )


@pytest.mark.every(3)
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_reaches_the_optimum(sparse, weights, intercept, tol):
    data, loss = wide(sparse, weights), SquaredLoss(0.05)
    best = solve_admm(
        data, loss, ROBUST, fit_intercept=intercept, tol=1e-10, max_iter=50000
    )
    solution = solve_subspace(data, loss, ROBUST, fit_intercept=intercept, tol=tol)
    value = primal_value(data, loss, ROBUST, solution.parts, solution.intercept)
    assert solution.converged
    assert solution.objective[-1] == pytest.approx(value, rel=1e-7)
    assert (
        best.objective[-1] * (1 - 1e-9) <= value <= best.objective[-1] * (1 + 2 * tol)
    )
    assert solution.gaps[-1][2] <= best.objective[-1] * (
        1 + 1e-7
    )  # The dual value is a bound.
    assert solution.info["rank"] > 0
    assert solution.info["outliers"] > 0


@pytest.mark.parametrize(
    "penalties",
    [[TraceNorm(3.0)], [L12(2.0), TraceNorm(3.0)], [TraceNorm(1.0), L12(5.0)]],
)
def test_penalties_may_have_any_order_and_strength(penalties):
    data, loss = wide(), SquaredLoss(0.3)
    best = solve_admm(data, loss, penalties, tol=1e-10, max_iter=50000)
    solution = solve_subspace(data, loss, penalties, tol=1e-8)
    assert solution.parts.shape == (len(penalties), 60, 12)
    assert solution.objective[-1] == pytest.approx(best.objective[-1], rel=1e-7)
    assert_allclose(solution.W, best.W, atol=1e-3 * np.abs(best.W).max())


def test_a_penalty_too_strong_gives_zero_at_once():
    solution = solve_subspace(wide(), SquaredLoss(1e-6), ROBUST)
    assert solution.converged
    assert solution.n_iter == 1
    assert not solution.parts.any()


def test_a_warm_start_continues_from_the_last_solution():
    data, loss = wide(), SquaredLoss(0.05)
    cold = solve_subspace(data, loss, ROBUST, tol=1e-6)
    for start in (cold, cold.parts):
        again = solve_subspace(data, loss, ROBUST, tol=1e-6, start=start)
        assert again.n_iter <= 2 < cold.n_iter
        assert again.objective[-1] <= cold.objective[-1] * (1 + 1e-9)


def test_a_step_that_increases_the_objective_is_undone(monkeypatch):
    data, loss, calls = wide(), SquaredLoss(0.05), []
    step = subspace._step

    def spoiled(problem, point, at, gap, careful):
        new = step(problem, point, at, gap, careful)
        calls.append(careful)
        if len(calls) in (3, 6, 7, 8):  # Three in a row double the precision.
            new.E *= 1.5
        return new

    monkeypatch.setattr(subspace, "_step", spoiled)
    solution = solve_subspace(data, loss, ROBUST, tol=1e-4)
    assert solution.converged
    assert max(calls) == 2
    best = solve_admm(data, loss, ROBUST, tol=1e-10, max_iter=50000)
    assert solution.objective[-1] <= best.objective[-1] * (1 + 2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_equal_those_of_the_centered_and_weighted_design(dtype):
    data = wide(weights=True)
    problem = WideProblem.of(data, 1.0, 1.0, True).astype(dtype)
    X, w = data.X.toarray(), data.weights
    A = np.sqrt(w)[:, None] * (X - w @ X / w.sum())
    rng = np.random.default_rng(0)
    W, R = (
        rng.normal(size=(60, 5)).astype(dtype),
        rng.normal(size=(80, 5)).astype(dtype),
    )
    close = {
        "rtol": 1e-4 if dtype == np.float32 else 1e-12,
        "atol": 1e-4 if dtype == np.float32 else 1e-11,
    }
    assert_allclose(problem.forward(W), A @ W, **close)
    assert_allclose(problem.adjoint(R), A.T @ R, **close)
    D, image = problem.solve(W, np.full(5, 0.5), 60)
    assert_allclose(image, A.T @ (A @ D), rtol=1e-3, atol=1e-3)
    if dtype == np.float64:
        assert_allclose(
            D, np.linalg.solve(A.T @ A + 0.5 * np.eye(60), W), rtol=1e-5, atol=1e-5
        )


def test_outlying_eigenvalues_are_deflated():
    data = wide(sparse=False)
    problem = WideProblem.of(data, 1.0, 1.0, False)
    exact = np.linalg.eigvalsh(data.X.T @ data.X)
    assert len(problem.values) == 1
    assert problem.values[0] == pytest.approx(exact[-1], rel=1e-6)
    assert problem.level == pytest.approx(exact[:-1].sum() / 60, rel=1e-6)


def test_the_clipped_certificate_is_at_least_that_of_a_common_factor():
    data = wide()
    problem = WideProblem.of(data, 0.1, 0.5, False)
    W = solve_admm(data, SquaredLoss(0.1), ROBUST, max_iter=5, tol=0).W
    dual = problem.certify(W, 0.0).dual
    theta = 0.1 * (data.targets - data.X @ W)
    theta = theta * np.minimum(1, 0.5 / np.linalg.norm(data.X.T @ theta, axis=0))
    length = np.linalg.norm(data.X.T @ theta, 2)
    theta /= length
    assert length > 1.1
    assert dual > np.sum(theta * data.targets) - np.sum(theta**2) / 0.2
    assert (
        dual
        <= solve_admm(
            data, SquaredLoss(0.1), ROBUST, tol=1e-10, max_iter=50000
        ).objective[-1]
    )


@pytest.mark.parametrize(
    ("data", "loss", "penalties"),
    [
        (wide(), LogisticLoss(), ROBUST),
        (wide(), SquaredLoss(), [L21(1.0)]),
        (wide(), SquaredLoss(), [L12(1.0)]),
        (
            TaskData.from_list([np.ones((3, 2))] * 2, [np.ones(3)] * 2),
            SquaredLoss(),
            ROBUST,
        ),
        (
            TaskData.from_matrix(np.ones((3, 2)), [[1, np.nan], [np.nan, 1], [1, 1]]),
            SquaredLoss(),
            ROBUST,
        ),
    ],
)
def test_other_problems_are_rejected(data, loss, penalties):
    with pytest.raises(ValueError, match="TraceNorm and L12"):
        solve_subspace(data, loss, penalties)


def test_auto_selects_it_for_designs_whose_eigenbasis_is_more_expensive():
    loss = SquaredLoss()
    for n, chosen in ((500, "admm"), (6000, "subspace")):
        X = sp.random_array(
            (n, n), density=1e-4, rng=np.random.default_rng(0), format="csr"
        )
        data = TaskData.from_matrix(X, np.ones((n, 3)))
        assert choose_solver(data, loss, ROBUST) == chosen
        assert subspace_pays(data) == (chosen == "subspace")
    assert solver_bytes(data, loss, ROBUST, "subspace") < 0.1 * solver_bytes(
        data, loss, ROBUST, "admm"
    )
    assert choose_solver(data, loss, [L21(1.0)]) == "lasso"


def test_the_model_selects_it_by_name():
    data = wide(sparse=False)
    options = {"lam": 0.5, "beta": 0.05, "tol": 1e-7}
    ours = RobustMTL(solver="subspace", **options).fit(data.X, data.targets)
    other = RobustMTL(solver="admm", max_iter=50000, **options).fit(
        data.X, data.targets
    )
    assert ours.objective_[-1] == pytest.approx(other.objective_[-1], rel=1e-6)
    classifier = RobustMTLClassifier(solver="subspace", loss="logistic")
    with pytest.raises(ValueError, match="SquaredLoss"):
        classifier.fit(data.X, np.sign(data.targets))
