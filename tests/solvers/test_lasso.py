"""Block coordinate descent: optima, certificates, choices of sets and Gram matrices."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.linear_model import Lasso, MultiTaskLasso

from mtlrun.estimators import JointFeatureMTL
from mtlrun.penalties.norms import L1, L21, TraceNorm
from mtlrun.problem.losses import LogisticLoss, SquaredLoss
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex import lasso
from mtlrun.solvers.convex.admm import solve_admm
from mtlrun.solvers.convex.lasso import cd_applies, solve_block_cd, solve_lasso

LOSS = SquaredLoss(0.7)


def problem(n, d, T, sparse=False, weights=False, seed=0):
    """Return data with correlated features of different scales, few relevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1)) + 0.3
    X *= rng.uniform(0.5, 3.0, d)
    if sparse:
        X = np.where(rng.random((n, d)) < 0.1, X, 0.0)
    W = np.zeros((d, T))
    W[:5] = rng.normal(size=(5, T))
    Y = X @ W + 2.0 + rng.normal(size=(n, T))
    row_weights = rng.uniform(0.0, 3.0, n) if weights else None
    return TaskData.from_matrix(
        sp.csr_array(X) if sparse else X, Y, weights=row_weights
    )


def strength(data, penalty, share):
    """Return a fraction of the smallest strength with zero coefficients."""
    X = data.X.toarray() if data.sparse else data.X
    w = np.ones(len(X)) if data.weights is None else data.weights
    Y = data.targets - np.average(data.targets, axis=0, weights=w)
    return penalty(share * penalty(1.0).dual_norm(LOSS.scale * X.T @ (w[:, None] * Y)))


@pytest.mark.cover(2)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("layout", ["shared", "wide", "sparse", "weighted"])
@pytest.mark.parametrize("penalty", [L21(0.6), L1(0.4)], ids=["rows", "entries"])
def test_the_optimum_matches_cvxpy(small, penalty, layout, fit_intercept):
    data = small.make(layout)
    result = solve_block_cd(
        data, LOSS, [penalty], fit_intercept=fit_intercept, tol=1e-8
    )
    assert result.converged
    best = small.optimum(data, LOSS, [penalty], fit_intercept)
    assert result.objective[-1] == pytest.approx(best, rel=1e-5, abs=1e-6)


@pytest.fixture
def set_limits(monkeypatch):
    """Return a function that sets the sizes by which the solver chooses its way."""

    def change(**limits):
        for name, value in limits.items():
            monkeypatch.setattr(lasso, name, value)

    return change


#: Sizes that lead to each way for 150 columns.
LIMITS = {
    "sets": {"_LARGEST": 149, "_WIDE": 10**6},
    "full Gram matrix": {"_LARGEST": 10**6, "_WIDE": 10**6, "_SETS": 10**6},
    "residuals": {"_LARGEST": 0, "_WIDE": 0},
}


@pytest.mark.every(3)
@pytest.mark.parametrize("way", ["sets", "full Gram matrix", "residuals"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("penalty", [L21, L1])
def test_all_variants_end_at_a_certified_optimum(
    set_limits, penalty, weights, sparse, way
):
    data = problem(60, 150, 4, sparse, weights)
    p = strength(data, penalty, 0.1)
    set_limits(_FIRST=10, **LIMITS[way])
    result = solve_block_cd(data, LOSS, [p], fit_intercept=True, tol=1e-7)
    assert result.converged
    # Certified by the code shared by all solvers, at the fitted intercepts
    gap = duality_gap(data, LOSS, [p], result.parts, result.intercept)
    assert gap.relative <= 1.01e-7
    assert gap.primal == pytest.approx(result.objective[-1], rel=1e-9)
    other = solve_admm(data, LOSS, [p], fit_intercept=True, tol=1e-7)
    assert result.objective[-1] == pytest.approx(other.objective[-1], rel=3e-7)
    assert (result.info["design"].complete) == (way == "full Gram matrix")


@pytest.mark.parametrize(("penalty", "oracle"), [(L21, MultiTaskLasso), (L1, Lasso)])
@pytest.mark.parametrize("shape", [(200, 30, 5), (40, 120, 5)])
def test_scikit_learn_gives_the_same_solution(penalty, oracle, shape):
    data = problem(*shape)
    p = strength(data, penalty, 0.2)
    ours = solve_block_cd(data, LOSS, [p], fit_intercept=True, tol=1e-12)
    theirs = oracle(
        alpha=p.alpha / LOSS.scale / shape[0], tol=1e-14, max_iter=100_000
    ).fit(data.X, data.targets)
    assert_allclose(ours.W.T, theirs.coef_, atol=1e-5)
    assert_allclose(ours.intercept, theirs.intercept_, atol=1e-5)


def test_sets_grow_and_a_gram_matrix_is_used_once_it_is_cheaper(set_limits):
    set_limits(_FIRST=2, _SETS=0, _GRADIENTS=0)
    data = problem(100, 60, 3)
    run = {}
    for share in (0.5, 0.01):
        run[share] = solve_block_cd(
            data, LOSS, [strength(data, L21, share)], fit_intercept=True, tol=1e-8
        )
        assert run[share].converged
    assert not run[0.5].info["design"].complete
    assert run[0.01].info["design"].complete


def test_ends_of_the_path_and_columns_without_information_are_handled():
    data = problem(50, 20, 3)
    for penalty in (L21, L1):
        above = solve_block_cd(
            data, LOSS, [strength(data, penalty, 1.0001)], fit_intercept=True, tol=1e-9
        )
        assert above.converged
        assert not above.W.any()
        assert_allclose(above.intercept, data.targets.mean(axis=0))
        below = solve_block_cd(
            data, LOSS, [strength(data, penalty, 0.999)], fit_intercept=True, tol=1e-9
        )
        assert below.W.any()
    X = data.X.copy()
    X[:, 3], X[:, 4] = 0.0, 7.0  # Zero; a constant, which is zero once centered
    for design in (X, sp.csr_array(X)):
        flat = TaskData.from_matrix(design, data.targets)
        result = solve_block_cd(flat, LOSS, [L21(0.5)], fit_intercept=True, tol=1e-9)
        assert result.converged
        assert not result.W[3].any()
        assert_allclose(result.W[4], 0.0, atol=1e-6)
    zeros = TaskData.from_matrix(np.zeros((5, 3)), np.ones((5, 2)))
    assert solve_block_cd(zeros, LOSS, [L1(1.0)]).converged


def test_warm_starts_reuse_the_design():
    data = problem(100, 40, 3)
    cold = solve_block_cd(
        data, LOSS, [strength(data, L21, 0.1)], fit_intercept=True, tol=1e-8
    )
    near = strength(data, L21, 0.095)
    warm = solve_block_cd(data, LOSS, [near], start=cold, fit_intercept=True, tol=1e-8)
    assert warm.info["design"] is cold.info["design"]
    fresh = solve_block_cd(data, LOSS, [near], fit_intercept=True, tol=1e-8)
    assert warm.n_iter <= fresh.n_iter
    assert warm.objective[-1] == pytest.approx(fresh.objective[-1], rel=2e-8)
    plain = solve_block_cd(data, LOSS, [near], start=cold, tol=1e-8)
    assert plain.info["design"] is not cold.info["design"]
    assert not plain.intercept.any()


def test_invalid_problems_are_rejected_and_limits_stop_a_run(small):
    data = problem(50, 20, 3)
    cases = [
        (data, LOSS, [TraceNorm(1.0)]),
        (data, LOSS, [L1(0.0)]),
        (data, LOSS, [L1(1.0), L21(1.0)]),
        (small.make("shared", labels=True), LogisticLoss(), [L1(1.0)]),
        (small.make("masked"), LOSS, [L1(1.0)]),
        (small.make("ragged"), LOSS, [L1(1.0)]),
    ]
    for case in cases:
        assert not cd_applies(*case)
        with pytest.raises(ValueError, match="the squared loss"):
            solve_block_cd(*case)
    short = solve_block_cd(
        data, LOSS, [strength(data, L21, 0.01)], tol=1e-12, max_iter=3
    )
    assert (short.converged, short.n_iter) == (False, 3)
    brief = solve_block_cd(
        data, LOSS, [strength(data, L21, 0.01)], tol=1e-12, max_work=1.0
    )
    assert not brief.converged
    assert "multiplications" in brief.message
    exact = solve_block_cd(data, LOSS, [strength(data, L1, 0.3)], tol=0.0, max_iter=500)
    assert exact.gap <= 1e-14
    seen = []
    solve_block_cd(
        data,
        LOSS,
        [L21(1.0)],
        tol=1e-9,
        callback=lambda *values: seen.append(values) or True,
    )
    assert len(seen) == 1


@pytest.mark.parametrize("penalty", [L21, L1])
def test_admm_takes_over_if_coordinate_descent_stalls(set_limits, penalty):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2)) @ rng.normal(size=(2, 60)) + 0.2 * rng.normal(
        size=(90, 60)
    )
    data = TaskData.from_matrix(X, rng.normal(size=(90, 3)))
    p = strength(data, penalty, 1e-3)
    alone = solve_block_cd(data, LOSS, [p], fit_intercept=True, tol=1e-6, max_iter=200)
    assert not alone.converged
    set_limits(_ITERATIONS=0)
    result = solve_lasso(data, LOSS, [p], fit_intercept=True, tol=1e-6, max_iter=20_000)
    assert result.converged
    assert duality_gap(
        data, LOSS, [p], result.parts, result.intercept
    ).primal == pytest.approx(result.objective[-1])
    assert "rho" in result.info  # Of ADMM
    again = solve_lasso(data, LOSS, [p], start=result, fit_intercept=True, tol=1e-6)
    assert again.n_iter <= 5
    easy = solve_lasso(
        data, LOSS, [strength(data, penalty, 0.5)], fit_intercept=True, tol=1e-6
    )
    assert easy.converged
    assert "rho" not in easy.info


def test_a_wide_fit_makes_one_copy_of_its_design():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20_000))
    Y = X[:, :3] @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(200, 4))
    alpha = 0.3 * JointFeatureMTL().alpha_max(X, Y)
    tracemalloc.start()
    try:
        JointFeatureMTL(alpha).fit(X, Y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The centered one, and one while it is centered; by column would be another.
    assert peak < 2.5 * X.nbytes
