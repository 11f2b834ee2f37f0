"""Intercepts of penalized models that are shrunken towards their mean."""

import functools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from mtlrun.catalog.registry import build
from mtlrun.estimators import (
    DivideAndConquerRMTL,
    GraphMTL,
    JointFeatureMTL,
    RobustMTL,
    TraceNormMTL,
)
from mtlrun.estimators.hierarchical import HierarchicalMTL
from mtlrun.problem.levels import ShrunkenLevels
from mtlrun.problem.taskdata import TaskData

N_TASKS = 7
SIZES = np.array([3, 5, 8, 4, 12, 6, 9])
IDS = np.repeat(np.arange(N_TASKS), SIZES)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(len(IDS), 3)) + 0.5 * IDS[:, np.newaxis]
LEVELS = 10 + 2 * RNG.normal(size=N_TASKS)
Y = LEVELS[IDS] + X @ [1.0, -1.0, 0.0] + RNG.normal(size=len(IDS))
WEIGHTS = RNG.integers(1, 4, size=len(IDS)).astype(float)


def levels_of(weights=None):
    return ShrunkenLevels.of(TaskData.from_stacked(X, Y, IDS, weights=weights))


def test_the_fits_to_the_same_rows_share_their_levels():
    data = TaskData.from_stacked(X, Y, IDS)
    assert ShrunkenLevels.of(data) is ShrunkenLevels.of(data)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_fit_minimizes_the_documented_objective(weights):
    model = GraphMTL(alpha=2.0, ridge=0.5, intercepts="shrunken", tol=1e-10)
    model.fit(X, Y, task_id=IDS, sample_weight=weights)
    levels = levels_of(weights)
    v = np.ones(len(Y)) if weights is None else weights

    def objective(values):
        W = values[: 3 * N_TASKS].reshape(3, N_TASKS)
        b = values[3 * N_TASKS :]
        residuals = Y - np.einsum("ij,ji->i", X, W[:, IDS]) - b[IDS]
        at_mean_row = b + np.average(X, axis=0, weights=v) @ W
        shrinkage = levels.ratio / 2 * np.sum((at_mean_row - levels.mean) ** 2)
        differences = W - W.mean(axis=1, keepdims=True)
        penalty = 2.0 / 2 * np.sum(differences**2) + 0.5 / 2 * np.sum(W**2)
        return 0.5 * v @ residuals**2 + penalty + shrinkage

    fitted = np.concatenate([model.coef_.T.ravel(), model.intercept_])
    best = minimize(objective, np.zeros(len(fitted)), method="BFGS", tol=1e-9)
    assert objective(fitted) == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(model.intercept_, best.x[3 * N_TASKS :], atol=1e-3)
    assert model.objective_[-1] == pytest.approx(objective(fitted), rel=1e-6)


@functools.cache
def robust(solver):
    """Return a model that tests do not modify."""
    model = RobustMTL(intercepts="shrunken", solver=solver, tol=1e-8)
    return model.fit(X, Y, task_id=IDS)


@pytest.mark.parametrize("solver", ["fista", "apg", "ladm"])
def test_all_solvers_find_the_same_intercepts(solver):
    first = robust("admm")
    second = robust(solver)
    np.testing.assert_allclose(first.intercept_, second.intercept_, atol=1e-2)
    assert first.objective_[-1] == pytest.approx(second.objective_[-1], rel=1e-6)


def test_the_ratio_is_the_reml_estimate_of_a_model_with_random_intercepts():
    ids = np.repeat(np.arange(30), 8)
    rng = np.random.default_rng(1)
    design = rng.normal(size=(len(ids), 2))
    y = 3 * rng.normal(size=30)[ids] + design[:, 0] + 2 * rng.normal(size=len(ids))
    levels = ShrunkenLevels.of(TaskData.from_stacked(design, y, ids))
    model = HierarchicalMTL("intercept").fit(design, y, task_id=ids)
    ratio = model.noise_variance_ / model.covariance_[0, 0]
    assert levels.ratio == pytest.approx(ratio, rel=0.02)
    assert 0.1 < ratio < 10


def test_equal_intercepts_are_merged_and_different_ones_stay():
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(20), 10)
    design = rng.normal(size=(200, 2))
    spread = []
    for std in (0.0, 100.0):
        y = std * rng.normal(size=20)[ids] + design[:, 0] + rng.normal(size=200)
        free = GraphMTL().fit(design, y, task_id=ids)
        shrunken = GraphMTL(intercepts="shrunken").fit(design, y, task_id=ids)
        spread.append(np.ptp(shrunken.intercept_) / np.ptp(free.intercept_))
    assert spread[0] < 0.5
    assert spread[1] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("model", [GraphMTL, JointFeatureMTL, TraceNormMTL])
def test_a_shift_of_the_targets_shifts_the_intercepts(model):
    fits = []
    for shift in (0.0, 1000.0):
        estimator = model(intercepts="shrunken", tol=1e-9)
        fits.append(estimator.fit(X, Y + shift, task_id=IDS))
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-4)
    np.testing.assert_allclose(fits[0].intercept_ + 1000, fits[1].intercept_, atol=1e-3)


def test_a_path_has_the_solutions_of_single_fits():
    alphas = [30.0, 3.0]
    path = JointFeatureMTL(intercepts="shrunken", tol=1e-8).path(
        X, Y, alphas=alphas, task_id=IDS
    )
    for index, alpha in enumerate(alphas):
        single = JointFeatureMTL(alpha=alpha, intercepts="shrunken", tol=1e-8)
        single.fit(X, Y, task_id=IDS)
        np.testing.assert_allclose(path.coef[index], single.coef_, atol=1e-3)
        np.testing.assert_allclose(path.intercept[index], single.intercept_, atol=1e-3)


def test_all_coefficients_are_zero_from_the_largest_strength_on():
    model = JointFeatureMTL(intercepts="shrunken", tol=1e-8)
    largest = model.alpha_max(X, Y, task_id=IDS)
    for factor, is_zero in ((1.001, True), (0.99, False)):
        model.alpha = factor * largest
        model.fit(X, Y, task_id=IDS)
        assert (np.abs(model.coef_).max() < 1e-9) == is_zero


def test_targets_on_the_same_rows_keep_free_intercepts():
    targets = RNG.normal(size=(20, 3))
    free = GraphMTL().fit(X[:20], targets)
    shrunken = GraphMTL(intercepts="shrunken").fit(X[:20], targets)
    np.testing.assert_array_equal(free.intercept_, shrunken.intercept_)


def test_a_warm_start_changes_nothing():
    model = GraphMTL(intercepts="shrunken", warm_start=True, tol=1e-9)
    model.fit(X, Y, task_id=IDS)
    cold = GraphMTL(alpha=5.0, intercepts="shrunken", tol=1e-9)
    cold.fit(X, Y, task_id=IDS)
    model.set_params(alpha=5.0).fit(X, Y, task_id=IDS)
    np.testing.assert_allclose(model.intercept_, cold.intercept_, atol=1e-4)


def test_more_columns_than_rows_are_supported():
    wide = RNG.normal(size=(len(IDS), 80))
    model = TraceNormMTL(intercepts="shrunken").fit(wide, Y, task_id=IDS)
    assert np.isfinite(model.intercept_).all()
    assert np.ptp(model.intercept_) > 0


@pytest.mark.parametrize(
    ("model", "design", "y", "remedy"),
    [
        ("GraphMTL", sparse.csr_matrix(X), Y, "toarray"),
        ("GraphMTLClassifier", X, np.where(Y > 10, 1, -1), "free"),
    ],
)
def test_impossible_cases_are_rejected_with_a_remedy(model, design, y, remedy):
    estimator = build(model).set_params(intercepts="shrunken")
    with pytest.raises(ValueError, match=remedy):
        estimator.fit(design, y, task_id=IDS)


def test_blocks_of_tasks_are_rejected():
    model = DivideAndConquerRMTL(RobustMTL(intercepts="shrunken"), n_blocks=2)
    with pytest.raises(ValueError, match="free"):
        model.fit(X, Y, task_id=IDS)


def test_sufficient_statistics_are_rejected():
    with pytest.raises(ValueError, match="needs the rows"):
        GraphMTL(intercepts="shrunken").partial_fit(X, Y, task_id=IDS)
