"""APG-RMTL: iteration, step and stopping rules of the paper; the fast variant; the gap
as a rule.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.penalties.norms import L12, TraceNorm
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm
from mtlrun.solvers.robust import solve_apg

ROBUST = [TraceNorm(0.9), L12(0.7)]
LOSSES = [SquaredLoss(0.7), SquaredHingeLoss(0.8), LogisticLoss(1.5)]


def backtracked(X, Y, beta, lam, steps):
    """Run accelerated steps, doubling the curvature of the loss, line by line."""
    d, T = X.shape[1], Y.shape[1]
    old = now = np.zeros((2, d, T))
    t_old, gamma = 1.0, 2.0 * beta
    for _ in range(steps):
        t = (1 + np.sqrt(1 + 4 * t_old**2)) / 2
        look = now + (t_old - 1) / t * (now - old)
        at = beta * np.sum((X @ look.sum(axis=0) - Y) ** 2)
        G = 2 * beta * X.T @ (X @ look.sum(axis=0) - Y)
        while True:
            U, s, Vt = np.linalg.svd(look[0] - G / gamma, full_matrices=False)
            E = look[1] - G / gamma
            new = np.stack(
                [
                    (U * np.maximum(s - 1 / gamma, 0)) @ Vt,
                    E * np.maximum(0, 1 - lam / gamma / np.linalg.norm(E, axis=0)),
                ]
            )
            bound = (
                at + np.sum(G * (new - look)) + gamma / 2 * np.sum((new - look) ** 2)
            )
            if beta * np.sum((X @ new.sum(axis=0) - Y) ** 2) <= bound * (1 + 1e-12):
                break
            gamma *= 2
        old, now, t_old = now, new, t
    return now


@pytest.mark.parametrize("shape", [(30, 6), (5, 12)])
def test_iterates_of_backtracking_match_a_line_by_line_version(shape):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 4))
    how = {"variant": "backtracking", "form": "paper", "stop": "gap", "tol": 1e-14}
    result = solve_apg(
        TaskData.from_matrix(X, Y),
        SquaredLoss(0.6),
        [TraceNorm(1.0), L12(0.6)],
        max_iter=10,
        **how,
    )
    assert_allclose(result.parts, backtracked(X, Y, 0.3, 0.6, 10), atol=1e-9)
    with pytest.raises(ValueError, match="needs form='paper'"):
        solve_apg(
            TaskData.from_matrix(X, Y), SquaredLoss(), ROBUST, variant="backtracking"
        )


def written_out(X, Y, beta, lam, steps):
    """Run the method of Chen, Zhou & Ye (2011) for least squares, line by line."""
    d, T = X.shape[1], Y.shape[1]
    L = 4.0 * beta * np.linalg.norm(X, 2) ** 2
    old = now = np.zeros((2, d, T))
    t_old = 1.0
    for _ in range(steps):
        t = (1 + np.sqrt(1 + 4 * t_old**2)) / 2
        look = now + (t_old - 1) / t * (now - old)
        G = 2 * beta * X.T @ (X @ (look[0] + look[1]) - Y)
        U, s, Vt = np.linalg.svd(look[0] - G / L, full_matrices=False)
        E = look[1] - G / L
        columns = np.maximum(0, 1 - lam / L / np.linalg.norm(E, axis=0))
        old, now, t_old = (
            now,
            np.stack([(U * np.maximum(s - 1 / L, 0)) @ Vt, E * columns]),
            t,
        )
    return now


@pytest.mark.parametrize("shape", [(30, 6), (5, 12)])
@pytest.mark.parametrize("sparse", [False, True])
def test_iterates_match_those_of_the_paper(shape, sparse):
    rng = np.random.default_rng(0)
    X = np.where(rng.random(shape) < 0.6, rng.normal(size=shape), 0.0)
    Y = rng.normal(size=(shape[0], 4))
    data = TaskData.from_matrix(sp.csr_array(X) if sparse else X, Y)
    result = solve_apg(
        data, SquaredLoss(0.6), [TraceNorm(1.0), L12(0.6)], eps=0.0, max_iter=20
    )
    assert_allclose(result.parts, written_out(X, Y, 0.3, 0.6, 20), atol=1e-10)
    assert result.n_iter == 20
    assert not result.converged
    assert result.info["rule"] is None


@pytest.mark.every(3)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    "layout", ["shared", "wide", "sparse", "weighted", "ragged", "masked"]
)
def test_all_variants_reach_the_optimum_by_the_gap(small, loss, layout):
    data = small.make(layout, labels=loss.labels)
    penalties = [TraceNorm(2.0), L12(1.5)]
    best = small.optimum(data, loss, penalties, False)
    for variant, form in (
        ("paper", "eigenbasis"),
        ("fast", "eigenbasis"),
        ("backtracking", "paper"),
    ):
        result = solve_apg(
            data, loss, penalties, variant=variant, form=form, stop="gap", tol=1e-5
        )
        assert result.converged
        assert result.info["rule"] == "gap"
        assert result.objective[-1] == pytest.approx(best, rel=2e-5)
        assert result.gap <= 1e-5


def test_the_squared_loss_has_intercepts(small):
    data = small.make("shared")
    ours = solve_apg(
        data, SquaredLoss(1.0), ROBUST, stop="gap", fit_intercept=True, tol=1e-7
    )
    admm = solve_admm(data, SquaredLoss(1.0), ROBUST, fit_intercept=True, tol=1e-7)
    assert_allclose(ours.intercept, admm.intercept, atol=1e-3)


def test_rule_26_compares_objectives(small):
    data, eps = small.make("shared"), 1e-3
    result = solve_apg(data, SquaredLoss(1.0), ROBUST, eps=eps)
    F = result.objective
    changes = np.abs(np.diff(F)) / np.abs(F[:-1])
    assert result.info["rule"] == "26"
    assert changes[-1] <= eps
    assert np.all(changes[:-1] > eps)
    assert result.stop_crit == pytest.approx(changes[-1])
    assert len(F) == result.n_iter + 1  # The value at the start comes first.
    assert result.gap == pytest.approx((F[-1] - result.gaps[-1][2]) / max(1.0, F[-1]))


def test_rule_25_compares_every_part(small):
    # A start at the optimum does not move: both rules hold, and (25) is checked first.
    data = small.make("shared")
    best = solve_admm(data, SquaredLoss(1.0), ROBUST, tol=1e-12, max_iter=20000)
    result = solve_apg(data, SquaredLoss(1.0), ROBUST, start=best)
    assert result.info["rule"] == "25"
    assert result.n_iter == 1
    assert result.converged


def test_the_papers_rules_stop_far_from_the_optimum_if_convergence_is_slow():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 20)) + 5.0  # Not centered, hence badly conditioned
    Y = X @ rng.normal(size=(20, 2)) @ rng.normal(size=(2, 10)) + rng.normal(
        size=(80, 10)
    )
    data, penalties = TaskData.from_matrix(X, Y), [TraceNorm(20.0), L12(12.0)]
    stopped = solve_apg(data, SquaredLoss(1.0), penalties)
    certified = solve_admm(data, SquaredLoss(1.0), penalties, tol=1e-6)
    assert stopped.converged
    assert stopped.gap > 1e-3
    assert stopped.objective[-1] > certified.objective[-1] * (1 + 1e-4)


def test_callbacks_are_called(small):
    data, seen = small.make("shared"), []
    result = solve_apg(
        data,
        SquaredLoss(1.0),
        ROBUST,
        callback=lambda *a: seen.append(a),
        max_iter=5,
        eps=0.0,
    )
    assert [a[:2] for a in seen] == list(enumerate(result.objective))[1:]
    stopped = solve_apg(data, SquaredLoss(1.0), ROBUST, callback=lambda *a: True)
    assert stopped.n_iter == 1
    assert "callback" in stopped.message


def test_unsupported_problems_are_rejected(small):
    data = small.make("shared", labels=True)
    with pytest.raises(ValueError, match="variant"):
        solve_apg(data, SquaredLoss(), ROBUST, variant="quick")
    with pytest.raises(ValueError, match="stop"):
        solve_apg(data, SquaredLoss(), ROBUST, stop="26")
    with pytest.raises(ValueError, match="not smooth"):
        solve_apg(data, HingeLoss(), ROBUST)
