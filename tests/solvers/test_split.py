"""ADMM split at the predictions: optima for every loss and layout, masks with one
basis, warm starts.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mtlrun.penalties.norms import L1, L12, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import HingeLoss, LogisticLoss, SquaredHingeLoss, SquaredLoss
from mtlrun.problem.objective import primal_value
from mtlrun.problem.rotation import prepare
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.convex.admm import solve_admm, solve_split
from mtlrun.solvers.convex.fista import solve_fista

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
LOSSES = [SquaredHingeLoss(0.8), HingeLoss(0.7), LogisticLoss(1.5), SquaredLoss(0.7)]
MODELS = {
    "robust": [TraceNorm(0.9), L12(0.7)],
    "sparse + low rank": [L1(0.5), TraceNorm(0.9)],
}


@pytest.mark.every(2)
@pytest.mark.cover(2, layout=LAYOUTS, loss=LOSSES, model=MODELS)
def test_the_optimum_matches_cvxpy(small, layout, loss, model):
    data, penalties = small.make(layout, labels=loss.labels), MODELS[model]
    for fit_intercept in (False, True):
        if (
            fit_intercept
            and isinstance(loss, LogisticLoss)
            and layout in ("wide", "short")
        ):
            continue  # Separable by the intercept alone: no minimizer exists.
        result = solve_split(
            data, loss, penalties, fit_intercept=fit_intercept, tol=1e-6
        )
        value = primal_value(data, loss, penalties, result.parts, result.intercept)
        assert result.converged
        assert result.objective[-1] == pytest.approx(value, rel=1e-9)
        best = small.optimum(data, loss, penalties, fit_intercept)
        assert value == pytest.approx(best, rel=1e-5, abs=2e-6)
        assert result.gaps[-1][2] <= best + 1e-5 * max(1.0, best)


def badly_scaled(labels=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 15)) * np.logspace(0, 1, 15) + 1.0
    Y = X @ rng.normal(size=(15, 2)) @ rng.normal(size=(2, 6)) + rng.normal(
        size=(50, 6)
    )
    return TaskData.from_matrix(
        X, np.where(np.median(Y, axis=0) < Y, 1.0, -1.0) if labels else Y
    )


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "loss",
    [SquaredHingeLoss(0.2), LogisticLoss(0.2)],
    ids=lambda loss: type(loss).__name__,
)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_it_agrees_with_fista(small, loss, fit_intercept):
    data, penalties = badly_scaled(), [TraceNorm(1.0), L12(0.7)]
    ours = solve_split(data, loss, penalties, fit_intercept=fit_intercept, tol=1e-5)
    theirs = solve_fista(
        data, loss, penalties, fit_intercept=fit_intercept, tol=1e-5, max_iter=50000
    )
    assert ours.converged
    assert theirs.converged
    assert ours.objective[-1] == pytest.approx(theirs.objective[-1], rel=2e-5)


def test_it_agrees_with_the_two_block_admm_for_the_squared_loss(small):
    data, penalties = badly_scaled(labels=False), [TraceNorm(1.0), L12(0.7)]
    ours = solve_split(data, SquaredLoss(1.0), penalties, fit_intercept=True, tol=1e-6)
    theirs = solve_admm(data, SquaredLoss(1.0), penalties, fit_intercept=True, tol=1e-6)
    assert ours.objective[-1] == pytest.approx(theirs.objective[-1], rel=2e-6)
    assert_allclose(ours.intercept, theirs.intercept, rtol=0.02, atol=0.05)


def test_masked_data_need_only_one_basis(small):
    data = small.make("masked", labels=True)
    result = solve_split(data, SquaredHingeLoss(1.0), MODELS["robust"], tol=1e-6)
    state = result.info["state"]
    assert state.M.shape == data.targets.shape
    assert_allclose(
        state.V[~data.observed], 0.0, atol=1e-12
    )  # Missing targets have no influence.


@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_warm_starts_save_iterations(small, layout):
    data, loss, penalties = (
        small.make(layout, labels=True),
        SquaredHingeLoss(1.0),
        MODELS["robust"],
    )
    first = solve_split(data, loss, penalties, fit_intercept=True, tol=1e-6)
    kept = [
        a.copy()
        for a in (*first.info["state"].Z, *first.info["state"].U, first.info["state"].V)
    ]
    again = solve_split(
        data, loss, penalties, start=first, fit_intercept=True, tol=1e-6
    )
    assert again.n_iter <= 15
    near = [TraceNorm(0.95), L12(0.72)]
    cold = solve_split(data, loss, near, fit_intercept=True, tol=1e-6)
    for start in (first, first.parts):
        warm = solve_split(data, loss, near, start=start, fit_intercept=True, tol=1e-6)
        assert warm.objective[-1] == pytest.approx(cold.objective[-1], rel=3e-6)
    merged = solve_split(
        data,
        loss,
        [TraceNorm(0.9), L12(2.0)],
        start=first.parts,
        fit_intercept=True,
        tol=1e-6,
    )
    assert not merged.parts[1].any()
    for before, now in zip(
        kept,
        (*first.info["state"].Z, *first.info["state"].U, first.info["state"].V),
        strict=True,
    ):
        assert_array_equal(before, now)


def test_a_rotation_can_be_reused_with_other_weights(small):
    plain, weighted = (
        small.make("shared", labels=True),
        small.make("weighted", labels=True),
    )
    rotation = prepare(plain)
    result = solve_split(plain, HingeLoss(), [SquaredFrobenius(1.0)], rotation=rotation)
    assert result.converged
    with pytest.raises(ValueError, match="other data"):
        solve_split(weighted, HingeLoss(), [SquaredFrobenius(1.0)], rotation=rotation)
    with pytest.raises(ValueError, match="data or weights"):
        solve_split(
            weighted, HingeLoss(), [SquaredFrobenius(1.0)], rotation=prepare(weighted)
        )
    with pytest.raises(ValueError, match="fit_intercept"):
        solve_split(
            plain,
            HingeLoss(),
            [SquaredFrobenius(1.0)],
            rotation=rotation,
            fit_intercept=True,
        )


def test_every_gap_on_the_way_bounds_the_true_distance(small):
    data, loss, penalties = (
        badly_scaled(),
        SquaredHingeLoss(0.2),
        [TraceNorm(1.0), L12(0.7)],
    )
    best = small.optimum(data, loss, penalties, True)
    result = solve_split(data, loss, penalties, fit_intercept=True, tol=1e-4)
    for _, primal, dual in result.gaps:
        assert primal >= best * (1 - 1e-6)
        assert dual <= best * (1 + 1e-6)
