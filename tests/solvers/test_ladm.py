"""LADM-RMTL: the printed algorithms; the corrected ones reach the optimum."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import duality_gap
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm, solve_split
from mtlrun.solvers.robust import solve_apg, solve_ladm

ROBUST = [TraceNorm(1.0), L12(0.7)]


def problem(n, d=20, T=8, labels=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = X @ rng.normal(size=(d, 2)) @ rng.normal(size=(2, T)) / 2 + 0.3 * rng.normal(
        size=(n, T)
    )
    Y[:, 0] += X @ rng.normal(size=d)
    return TaskData.from_matrix(X, np.sign(Y) if labels else Y)


# ---------------------------------------------------------------------- as printed


@pytest.mark.parametrize(
    "loss",
    [SquaredLoss(2.0), SquaredHingeLoss(2.0)],
    ids=lambda loss: type(loss).__name__,
)
@pytest.mark.parametrize("n", [10, 60])
def test_as_printed_it_stops_at_once_with_zeros(loss, n):
    data = problem(n, labels=loss.labels)
    sigma = np.linalg.norm(data.X.T @ data.Y, 2)
    assert 1e-6 * sigma < 1.0  # The condition, for all columns: 1e-6 ||X'y_i|| < lam
    assert 1e-6 * np.linalg.norm(data.X.T @ data.Y, axis=0).max() < 0.7
    result = solve_ladm(data, loss, ROBUST, variant="paper")
    assert result.n_iter == 1
    assert result.converged
    assert "rule (25)" in result.message
    assert not result.W.any()


def test_past_zero_it_continues_and_stops_by_the_same_rule():
    data = problem(10)
    result = solve_ladm(data, SquaredLoss(2.0), ROBUST, variant="paper-past-zero")
    assert result.converged
    assert result.n_iter > 10
    assert result.W.any()
    assert max(result.stop_crit, 0.0) <= 1e-5


def test_as_printed_it_moves_if_the_condition_fails():
    data = problem(60)
    sigma = np.linalg.norm(data.X.T @ data.Y, 2)
    for mu, moves in ((0.9 / sigma, False), (1.1 / sigma, True)):
        result = solve_ladm(
            data, SquaredLoss(1.0), [TraceNorm(1.0), L12(10.0)], variant="paper", mu=mu
        )
        assert (result.n_iter > 1) == moves
        assert result.W.any() == moves


def test_with_more_rows_than_features_the_printed_algorithm_is_least_squares():
    data = problem(60, T=2)
    ols = np.linalg.lstsq(data.X, data.Y, rcond=None)[0]
    for lam in (0.4, 0.7, 1.5):
        result = solve_ladm(
            data, SquaredLoss(2.0), [TraceNorm(1.0), L12(lam)], variant="paper", mu=0.05
        )
        assert_allclose(result.W, ols, rtol=1e-2, atol=1e-2)
        assert result.info["feasibility"] > 1e-2  # No solution exists.
        assert result.info["objective"] == "constrained"


def test_the_stacked_step_is_too_small_by_the_number_of_tasks():
    data = problem(10)
    ragged = TaskData.from_list([data.X] * 8, list(data.Y.T))
    corrected = solve_ladm(
        data, SquaredLoss(), ROBUST, variant="sequential", max_iter=1
    ).info["tau"]
    assert corrected == pytest.approx(1 / (1.02 * np.linalg.norm(data.X, 2) ** 2))
    for same in (data, ragged):
        assert solve_ladm(same, SquaredLoss(), ROBUST, variant="paper").info[
            "tau"
        ] == pytest.approx(corrected / 8)


def test_the_printed_schedule_freezes_before_the_optimum():
    data = problem(10, T=2)
    printed = solve_ladm(data, SquaredLoss(), ROBUST, variant="paper", mu=1e-2)
    assert printed.info["feasibility"] < 1e-2
    assert printed.objective[-1] > 1.01 * constrained_optimum(data, 0.7)


def constrained_optimum(data, lam):
    L, E = (
        cp.Variable((data.n_features, data.n_tasks)),
        cp.Variable((data.n_features, data.n_tasks)),
    )
    value = cp.normNuc(L) + lam * cp.sum(cp.norm(E, 2, axis=0))
    return cp.Problem(cp.Minimize(value), [data.X @ (L + E) == data.Y]).solve(
        solver=cp.CLARABEL
    )


# ---------------------------------------------------------------------- corrected


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "layout", ["shared", "sparse", "weighted", "ragged", "masked", "cell-weighted"]
)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_corrected_algorithm_reaches_the_optimum_of_least_squares(
    small, layout, fit_intercept
):
    data, loss = small.make(layout), SquaredLoss(1.0)
    result = solve_ladm(data, loss, ROBUST, eps=1e-6, fit_intercept=fit_intercept)
    best = solve_admm(data, loss, ROBUST, fit_intercept=fit_intercept, tol=1e-7)
    assert result.converged
    assert result.info["objective"] == "penalised"
    assert result.objective[-1] == pytest.approx(best.objective[-1], rel=1e-3)
    assert 0 <= result.gap < 0.02
    assert (result.objective[-1] - best.objective[-1]) / max(
        1.0, best.objective[-1]
    ) <= result.gap + 1e-7


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "loss",
    [SquaredHingeLoss(1.0), LogisticLoss(1.0), HingeLoss(0.5)],
    ids=lambda loss: type(loss).__name__,
)
@pytest.mark.parametrize("layout", ["shared", "wide", "ragged", "masked"])
def test_the_corrected_algorithm_reaches_the_optimum_of_losses_for_labels(
    small, loss, layout
):
    data = small.make(layout, labels=True)
    for fit_intercept in (False, True):
        if fit_intercept and layout == "wide":
            continue
        result = solve_ladm(data, loss, ROBUST, eps=1e-6, fit_intercept=fit_intercept)
        best = solve_split(data, loss, ROBUST, fit_intercept=fit_intercept, tol=1e-6)
        assert result.converged
        assert result.objective[-1] == pytest.approx(best.objective[-1], rel=2e-3)


# ---------------------------------------------------------------------- accelerated


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "layout", ["shared", "sparse", "weighted", "ragged", "masked", "cell-weighted"]
)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("variant", ["accelerated", "balanced"])
def test_decreasing_mu_certifies_the_optimum_of_least_squares(
    small, layout, fit_intercept, variant
):
    data, loss = small.make(layout), SquaredLoss(1.0)
    how = {
        "variant": variant,
        "stop": "gap",
        "tol": 1e-5,
        "fit_intercept": fit_intercept,
    }
    result = solve_ladm(data, loss, ROBUST, **how)
    best = solve_admm(data, loss, ROBUST, fit_intercept=fit_intercept, tol=1e-8)
    assert result.converged
    assert 0 <= result.gap <= 1e-5
    assert result.objective[-1] == pytest.approx(best.objective[-1], rel=1.1e-5)
    warm = solve_ladm(data, loss, ROBUST, start=result, **how)
    assert warm.objective[-1] == pytest.approx(best.objective[-1], rel=1.1e-5)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "loss",
    [SquaredHingeLoss(1.0), LogisticLoss(1.0)],
    ids=lambda loss: type(loss).__name__,
)
@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("variant", ["accelerated", "balanced"])
def test_decreasing_mu_certifies_the_optimum_of_losses_for_labels(
    small, loss, layout, fit_intercept, variant
):
    data = small.make(layout, labels=True)
    how = {"stop": "gap", "tol": 1e-4, "fit_intercept": fit_intercept}
    result = solve_ladm(data, loss, ROBUST, variant=variant, **how)
    best = solve_split(data, loss, ROBUST, fit_intercept=fit_intercept, tol=1e-7)
    assert result.converged
    assert result.objective[-1] == pytest.approx(best.objective[-1], rel=1.1e-4)


def test_accelerated_mu_decreases_like_one_over_the_iterations_with_curvature(
    small,
):
    data, loss = problem(60), SquaredLoss(3.0)
    weighted = small.make("weighted")
    for it in (10, 100):
        how = {"variant": "accelerated", "stop": "gap", "tol": 1e-14, "max_iter": it}
        assert solve_ladm(data, loss, ROBUST, **how).info["mu"] == pytest.approx(
            3.0 / it, rel=0.35
        )
        heaviest = 3.0 * weighted.effective_weights().max()
        assert solve_ladm(weighted, loss, ROBUST, **how).info["mu"] == pytest.approx(
            heaviest / it, rel=0.35
        )
    hinge = [
        solve_ladm(
            problem(60, labels=True), HingeLoss(0.5), ROBUST, variant=variant
        ).n_iter
        for variant in ("accelerated", "corrected")
    ]
    assert hinge[0] == hinge[1]


@pytest.mark.every(3)
@pytest.mark.parametrize("scale", [0.3, 1.0, 30.0])
@pytest.mark.parametrize("beta", [0.02, 0.5])
def test_accelerated_needs_fewer_iterations_than_apg_at_the_same_gap_for_any_scale(
    scale, beta
):
    rng = np.random.default_rng(3)
    X = scale * (
        rng.random((80, 120)) < rng.uniform(0.01, 0.5, 120)
    )  # Badly conditioned, like word counts
    data = TaskData.from_matrix(
        X, np.sign(X @ rng.normal(size=(120, 3)) @ rng.normal(size=(3, 15)) + 0.1)
    )
    how = {"stop": "gap", "tol": 1e-3}
    apg = solve_apg(data, SquaredLoss(2 * beta), [TraceNorm(1.0), L12(0.5)], **how)
    ladm = solve_ladm(
        data,
        SquaredLoss(2 * beta),
        [TraceNorm(1.0), L12(0.5)],
        variant="accelerated",
        **how,
    )
    assert ladm.converged
    assert ladm.n_iter <= apg.n_iter


@pytest.mark.parametrize("beta", [0.02, 5.0])
def test_balanced_needs_fewer_iterations_than_apg_even_for_a_large_loss_weight(beta):
    rng = np.random.default_rng(5)
    X = rng.random((600, 120)) < np.geomspace(
        0.005, 0.2, 120
    )  # Like word counts of a text; much of y cannot be explained.
    data = TaskData.from_matrix(
        X.astype(float), np.sign(X @ rng.normal(size=(120, 15)) - 1.5)
    )
    problem = (data, SquaredLoss(2 * beta), [TraceNorm(1.0), L12(0.3)])
    apg = solve_apg(*problem, variant="paper", stop="gap", tol=1e-3)
    taken = {
        variant: solve_ladm(*problem, variant=variant, stop="gap", tol=1e-3)
        for variant in ("accelerated", "balanced")
    }
    assert taken["balanced"].converged
    assert taken["balanced"].n_iter <= apg.n_iter
    assert taken["balanced"].n_iter <= 1.15 * taken["accelerated"].n_iter
    assert (
        duality_gap(data, problem[1], problem[2], list(taken["balanced"].parts)).primal
        <= apg.objective[-1] * 1.001
    )


def test_warm_start_and_callback_work():
    data, loss = problem(60), SquaredLoss(2.0)
    cold = solve_ladm(data, loss, ROBUST)
    warm = solve_ladm(data, loss, ROBUST, start=cold)
    assert warm.n_iter < cold.n_iter
    assert warm.objective[-1] == pytest.approx(cold.objective[-1], rel=1e-3)
    from_parts = solve_ladm(data, loss, ROBUST, start=cold.parts)
    assert from_parts.objective[-1] == pytest.approx(cold.objective[-1], rel=2e-3)
    stopped = solve_ladm(data, loss, ROBUST, callback=lambda *a: True)
    assert stopped.n_iter == 1
    assert "callback" in stopped.message
    assert solve_ladm(data, loss, ROBUST, max_iter=3).message.startswith(
        "stopped after max_iter=3"
    )


def test_unsupported_problems_are_rejected():
    data = problem(10, labels=True)
    with pytest.raises(ValueError, match="variant"):
        solve_ladm(data, SquaredLoss(), ROBUST, variant="printed")
    with pytest.raises(ValueError, match="stop='gap'"):
        solve_ladm(data, SquaredLoss(), ROBUST, variant="paper", stop="gap")
    with pytest.raises(ValueError, match="not LogisticLoss"):
        solve_ladm(data, LogisticLoss(), ROBUST, variant="paper")
    with pytest.raises(ValueError, match="use variant='accelerated'"):
        solve_ladm(
            data, SquaredHingeLoss(), ROBUST, variant="paper", fit_intercept=True
        )
