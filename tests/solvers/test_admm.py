"""ADMM: optima in all layouts, valid gaps, warm starts, degenerate models."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso, MultiTaskLasso, Ridge

from mtlrun.penalties.norms import L1, L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import LogisticLoss, SquaredLoss
from mtlrun.problem.objective import duality_gap, primal_value
from mtlrun.problem.rotation import prepare
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm

LAYOUTS = [
    "shared",
    "wide",
    "sparse",
    "weighted",
    "ragged",
    "short",
    "ragged-weighted",
    "masked",
    "cell-weighted",
]
MODELS = {
    "l1": [L1(2.0)],
    "rows": [L21(2.5)],
    "columns": [L12(2.0)],
    "trace": [TraceNorm(3.0)],
    "ridge": [SquaredFrobenius(1.5)],
    "robust": [TraceNorm(3.0), L12(2.2)],
    "rMTFL": [L21(3.0), L12(2.5)],
    "sparse + low rank": [L1(1.5), TraceNorm(3.0)],
    "trace + ridge": [TraceNorm(2.0), SquaredFrobenius(4.0)],
    "three": [L1(1.5), TraceNorm(3.0), L12(2.2)],
}


@pytest.mark.every(2)
@pytest.mark.cover(2, model=MODELS, layout=LAYOUTS)
def test_the_optimum_matches_cvxpy(small, model, layout):
    data, loss, penalties = small.make(layout), SquaredLoss(0.7), MODELS[model]
    for fit_intercept in (False, True):
        result = solve_admm(
            data, loss, penalties, fit_intercept=fit_intercept, tol=1e-8
        )
        value = primal_value(data, loss, penalties, result.parts, result.intercept)
        assert result.converged
        assert result.gap <= 1e-8
        assert result.objective[-1] == pytest.approx(value, rel=1e-9)
        assert value == pytest.approx(
            small.optimum(data, loss, penalties, fit_intercept), rel=1e-5
        )
        assert np.any(result.intercept) == fit_intercept


@pytest.mark.cover(2, model=MODELS, layout=LAYOUTS)
def test_every_gap_on_the_way_bounds_the_true_distance(small, model, layout):
    data, loss, penalties = small.make(layout, seed=1), SquaredLoss(1.0), MODELS[model]
    best = solve_admm(
        data, loss, penalties, fit_intercept=True, tol=1e-10, max_iter=20000
    )
    result = solve_admm(data, loss, penalties, fit_intercept=True, tol=1e-3)
    lowest, slack = best.gaps[-1][2], 1e-9 * abs(best.objective[-1])
    for _, primal, dual in result.gaps:
        assert (
            dual <= best.objective[-1] + slack
        )  # Every dual value is below every primal value.
        assert primal >= lowest - slack
    primals, duals = [p for _, p, _ in result.gaps], [d for _, _, d in result.gaps]
    assert primals == sorted(primals, reverse=True)
    assert duals == sorted(duals)
    assert (
        result.gap
        >= (result.objective[-1] - best.objective[-1])
        / max(1.0, abs(result.objective[-1]))
        - 1e-9
    )


def test_the_reported_gap_is_confirmed_in_the_original_coordinates(small):
    # The solver computes its certificate in the eigenbasis; that of core uses no basis.
    for layout in ("shared", "wide", "ragged"):
        data, loss, penalties = small.make(layout), SquaredLoss(1.0), MODELS["robust"]
        result = solve_admm(data, loss, penalties, tol=1e-10, max_iter=20000)
        assert abs(duality_gap(data, loss, penalties, result.parts).relative) <= 1e-4
        assert result.gap <= 1e-10


# ---------------------------------------------------------------------- oracles


def regression(n=40, d=12, T=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    W = rng.normal(size=(d, T)) * (rng.random((d, 1)) < 0.4)
    return X, X @ W + rng.normal(size=(n, T)) + 3.0


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(40, 12), (10, 25)])
def test_the_multi_task_lasso_matches_scikit_learn(fit_intercept, shape):
    X, Y = regression(*shape)
    theirs = MultiTaskLasso(
        alpha=0.8, fit_intercept=fit_intercept, tol=1e-12, max_iter=100000
    ).fit(X, Y)
    data = TaskData.from_matrix(X, Y)
    ours = solve_admm(
        data,
        SquaredLoss(1.0),
        [L21(0.8 * len(X))],
        fit_intercept=fit_intercept,
        tol=1e-11,
    )
    assert_allclose(ours.W.T, theirs.coef_, atol=1e-4)
    assert_allclose(ours.intercept, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_lasso_per_task_with_weights_matches_scikit_learn(fit_intercept):
    X, Y = regression()
    w = np.random.default_rng(1).uniform(0.2, 2.0, len(X))
    data = TaskData.from_matrix(X, Y, weights=w)
    ours = solve_admm(
        data,
        SquaredLoss(1.0),
        [L1(0.3 * w.sum())],
        fit_intercept=fit_intercept,
        tol=1e-11,
    )
    for t in range(Y.shape[1]):
        theirs = Lasso(
            0.3, fit_intercept=fit_intercept, tol=1e-12, max_iter=100000
        ).fit(X, Y[:, t], sample_weight=w)
        assert_allclose(ours.W[:, t], theirs.coef_, atol=1e-5)


def test_ridge_on_ragged_tasks_matches_scikit_learn(small):
    data = small.make("ragged")
    ours = solve_admm(
        data, SquaredLoss(1.0), [SquaredFrobenius(2.0)], fit_intercept=True, tol=1e-12
    )
    for t in range(data.n_tasks):
        X, y, _ = data.task(t)
        theirs = Ridge(2.0).fit(X, y)
        assert_allclose(ours.W[:, t], theirs.coef_, atol=1e-5)
        assert ours.intercept[t] == pytest.approx(theirs.intercept_, abs=1e-4)


def test_weights_are_repetitions():
    X, Y = regression(20, 5, 3)
    counts = np.random.default_rng(2).integers(0, 4, 20)
    counts[0] = 1
    weighted = TaskData.from_matrix(X, Y, weights=counts.astype(float))
    repeated = TaskData.from_matrix(
        np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0)
    )
    results = [
        solve_admm(d, SquaredLoss(1.0), MODELS["robust"], fit_intercept=True, tol=1e-9)
        for d in (weighted, repeated)
    ]
    assert results[0].objective[-1] == pytest.approx(results[1].objective[-1], rel=1e-8)
    assert_allclose(results[0].W, results[1].W, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 12), (10, 25)])
@pytest.mark.parametrize("penalties", [MODELS["robust"], MODELS["rMTFL"]])
def test_sparse_equals_dense(shape, penalties):
    X, Y = regression(*shape)
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    results = [
        solve_admm(
            TaskData.from_matrix(A, Y),
            SquaredLoss(1.0),
            penalties,
            fit_intercept=True,
            tol=1e-9,
        )
        for A in (X, sp.csr_array(X))
    ]
    assert results[0].objective[-1] == pytest.approx(results[1].objective[-1], rel=1e-8)
    assert_allclose(results[0].W, results[1].W, atol=1e-4)


def test_a_shared_design_equals_its_ragged_copy():
    X, Y = regression()
    ragged = TaskData.from_list([X] * 4, list(Y.T))
    results = [
        solve_admm(d, SquaredLoss(1.0), MODELS["robust"], fit_intercept=True, tol=1e-9)
        for d in (TaskData.from_matrix(X, Y), ragged)
    ]
    assert results[0].objective[-1] == pytest.approx(results[1].objective[-1], rel=1e-8)


# -------------------------------------------------------------------- degenerate models


def test_lam_of_one_or_more_is_the_trace_norm(small):
    data, loss = small.make("shared"), SquaredLoss(2.0)
    trace = solve_admm(data, loss, [TraceNorm(1.0)], tol=1e-9)
    for lam in (1.0, 1.7):
        robust = solve_admm(data, loss, [TraceNorm(1.0), L12(lam)], tol=1e-9)
        assert robust.objective[-1] == pytest.approx(trace.objective[-1], rel=1e-8)
        assert_allclose(robust.W, trace.W, atol=1e-4)


def test_a_small_lam_leaves_no_low_rank_part(small):
    data, loss = small.make("shared"), SquaredLoss(2.0)
    lam = 0.99 / np.sqrt(3)
    robust = solve_admm(data, loss, [TraceNorm(1.0), L12(lam)], tol=1e-9)
    columns = solve_admm(data, loss, [L12(lam)], tol=1e-9)
    assert robust.objective[-1] == pytest.approx(columns.objective[-1], rel=1e-8)
    assert_allclose(robust.parts[0], 0.0, atol=1e-4)
    assert_allclose(robust.parts[1], columns.W, atol=1e-4)


def test_strong_penalties_give_exact_zeros_and_the_mean(small):
    data = small.make("ragged")
    result = solve_admm(data, SquaredLoss(1.0), [TraceNorm(1e5)], fit_intercept=True)
    assert not result.W.any()
    assert_allclose(result.intercept, [data.task(t)[1].mean() for t in range(3)])
    assert result.converged


@pytest.mark.parametrize("layout", ["shared", "wide", "ragged", "short"])
def test_an_unpenalized_part_is_least_squares(small, layout):
    data = small.make(layout)
    result = solve_admm(data, SquaredLoss(1.0), [TraceNorm(0.0), L12(1.0)], tol=1e-9)
    residual = 0.0
    for t in range(3):
        X, y, _ = data.task(t)
        residual += 0.5 * np.sum((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2)
    assert result.objective[-1] == pytest.approx(residual, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("shape", [(1, 4, 3), (6, 1, 3), (6, 4, 1), (1, 1, 1)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_one_row_one_feature_and_one_task_are_fitted(small, shape, fit_intercept):
    n, d, T = shape
    rng = np.random.default_rng(0)
    data = TaskData.from_matrix(rng.normal(size=(n, d)), rng.normal(size=(n, T)))
    penalties = [TraceNorm(0.1), L12(0.08)]
    result = solve_admm(
        data, SquaredLoss(1.0), penalties, fit_intercept=fit_intercept, tol=1e-8
    )
    assert result.converged
    assert result.objective[-1] == pytest.approx(
        small.optimum(data, SquaredLoss(1.0), penalties, fit_intercept),
        rel=1e-5,
        abs=1e-7,
    )


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize("layout", ["shared", "wide", "ragged", "masked"])
@pytest.mark.parametrize("model", ["robust", "rMTFL"])
def test_a_warm_start_ends_at_the_cold_solution(small, layout, model):
    data, loss, penalties = small.make(layout), SquaredLoss(1.0), MODELS[model]
    near = [type(p)(1.05 * p.alpha) for p in penalties]
    rotation = prepare(data, fit_intercept=True)
    options = {"rotation": rotation, "fit_intercept": True, "tol": 1e-8}
    first = solve_admm(data, loss, near, **options)
    cold = solve_admm(data, loss, penalties, **options)
    warm = solve_admm(data, loss, penalties, start=first, **options)
    from_parts = solve_admm(data, loss, penalties, start=first.parts, **options)
    for result in (warm, from_parts):
        assert result.objective[-1] == pytest.approx(cold.objective[-1], rel=1e-7)
        assert_allclose(result.W, cold.W, atol=1e-3)
    again = solve_admm(data, loss, penalties, start=cold, **options)
    assert again.n_iter <= 5


@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_a_path_of_warm_starts_is_shorter(layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    Y = X @ rng.normal(size=(30, 3)) @ rng.normal(size=(3, 20)) + 3 * rng.normal(
        size=(60, 20)
    )
    data = (
        TaskData.from_matrix(X, Y)
        if layout == "shared"
        else TaskData.from_list([X] * 20, list(Y.T))
    )
    rotation, warm, cold, previous = prepare(data), 0, 0, None
    for lam in (0.5, 0.49, 0.48, 0.47, 0.46):
        penalties = [TraceNorm(10.0), L12(10.0 * lam)]
        cold += solve_admm(data, SquaredLoss(1.0), penalties, rotation=rotation).n_iter
        previous = solve_admm(
            data, SquaredLoss(1.0), penalties, rotation=rotation, start=previous
        )
        warm += previous.n_iter
    assert warm < 0.8 * cold


def test_a_start_may_include_parts_that_are_not_needed(small):
    data, loss = small.make("shared"), SquaredLoss(1.0)
    mixed = solve_admm(data, loss, [TraceNorm(1.0), L12(0.8)], tol=1e-8)
    trace = solve_admm(data, loss, [TraceNorm(1.0), L12(1.2)], start=mixed, tol=1e-8)
    assert trace.objective[-1] == pytest.approx(
        solve_admm(data, loss, [TraceNorm(1.0)], tol=1e-8).objective[-1]
    )
    back = solve_admm(data, loss, [TraceNorm(1.0), L12(0.8)], start=trace, tol=1e-8)
    assert back.objective[-1] == pytest.approx(mixed.objective[-1], rel=1e-7)


def test_a_start_is_not_modified(small):
    data, loss, penalties = small.make("shared"), SquaredLoss(1.0), MODELS["robust"]
    first = solve_admm(data, loss, penalties)
    state = first.info["state"]
    copies = [a.copy() for a in (*state.Z.values(), *state.U.values(), first.parts)]
    solve_admm(data, loss, penalties, start=first, rotation=state.rotation, tol=1e-8)
    for copy, kept in zip(
        copies, (*state.Z.values(), *state.U.values(), first.parts), strict=True
    ):
        assert_array_equal(copy, kept)


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_units_of_the_targets_do_not_matter(small, factor):
    data = small.make("shared")
    scaled = data.with_targets(factor * data.targets)
    plain = solve_admm(data, SquaredLoss(1.0), MODELS["robust"], tol=1e-7)
    other = solve_admm(
        scaled,
        SquaredLoss(1.0),
        [type(p)(factor * p.alpha) for p in MODELS["robust"]],
        tol=0.0,
        max_iter=200,
    )
    assert_allclose(other.W / factor, plain.W, atol=1e-3)


def test_the_callback_sees_the_gaps_and_can_stop(small):
    data, seen = small.make("shared"), []
    result = solve_admm(
        data,
        SquaredLoss(1.0),
        MODELS["robust"],
        tol=1e-9,
        callback=lambda *a: seen.append(a),
    )
    assert seen == result.gaps[:-1]  # A converged run does not call it.
    stopped = solve_admm(
        data, SquaredLoss(1.0), MODELS["robust"], tol=1e-9, callback=lambda *a: True
    )
    assert stopped.n_iter == 1
    assert not stopped.converged
    assert "callback" in stopped.message


def test_too_few_iterations_are_reported(small):
    result = solve_admm(
        small.make("shared"), SquaredLoss(1.0), MODELS["robust"], tol=1e-12, max_iter=7
    )
    assert not result.converged
    assert result.n_iter == 7
    assert result.gap > 1e-12
    assert "max_iter=7" in result.message


def test_unsupported_problems_are_rejected(small):
    data, penalties = small.make("shared"), MODELS["robust"]
    with pytest.raises(ValueError, match="needs SquaredLoss"):
        solve_admm(data, LogisticLoss(), penalties)
    with pytest.raises(ValueError, match="other data"):
        solve_admm(data, SquaredLoss(), penalties, rotation=prepare(small.make("wide")))
    with pytest.raises(ValueError, match="fit_intercept"):
        solve_admm(
            data, SquaredLoss(), penalties, rotation=prepare(data), fit_intercept=True
        )
    with pytest.raises(ValueError, match="start has shape"):
        solve_admm(data, SquaredLoss(), penalties, start=np.zeros((2, 5, 3)))
    with pytest.raises(ValueError, match="tol"):
        solve_admm(data, SquaredLoss(), penalties, tol=-1.0)
    with pytest.raises(ValueError, match="max_iter"):
        solve_admm(data, SquaredLoss(), penalties, max_iter=0)
