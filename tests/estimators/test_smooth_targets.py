"""Smooth models of several targets on the same rows."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from smooth_tables import SmoothTable

from mtlrun.engine.evaluation import TaskRows
from mtlrun.estimators import SmoothIndependent, SmoothMTL, SmoothPooled
from mtlrun.solvers.hierarchical.smooth import SmoothOptions
from mtlrun.solvers.hierarchical.smooth_targets import (
    TARGET_PARTS,
    SeparateFits,
    TargetData,
    convex_weights,
    fit_forests,
    fit_outputs,
    fit_targets,
    mix,
    principal_components,
)

pytestmark = pytest.mark.usefixtures("few_trees")

QUICK = {"n_centers": 20}


def rows_and_targets(n=60, n_targets=4, noise=0.3, seed=0):
    """Return rows and targets that are mixtures of two functions of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    functions = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    loadings = rng.normal(size=(2, n_targets))
    return X, functions @ loadings + noise * rng.normal(size=(n, n_targets))


def separate_fits(X, Y, weight=None):
    """Return fits of each target alone, before they are made."""
    weight = np.ones(len(X)) if weight is None else weight
    table = SmoothTable.of(X, Y[:, 0], np.zeros(len(X)), weight, task_parts=(), **QUICK)
    weights = np.repeat(weight[:, None], Y.shape[1], axis=1)
    data = TargetData(table.data.design, table.data.rows, Y, weights)
    return SeparateFits(data, SmoothOptions())


@pytest.fixture(scope="module")
def fitted():
    X, Y = rows_and_targets()
    return SmoothMTL(**QUICK).fit(X, Y), X, Y


def same_model(model, fitted, X=None, columns=None):
    """Assert that a model predicts like the fitted one for all rows."""
    expected, rows, _ = fitted
    mean, std = model.predict(rows if X is None else X, return_std=True)
    columns = np.arange(mean.shape[1]) if columns is None else columns
    wanted_mean, wanted_std = expected.predict(rows, return_std=True)
    assert_allclose(mean[:, columns], wanted_mean, atol=1e-7)
    assert_allclose(std[:, columns], wanted_std, atol=1e-7)


# ---------------------------------------------------------------------- pieces


def test_mixing_weights_match_the_best_on_a_grid():
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 2.0, size=40)
    grid = np.linspace(0, 1, 41)
    for _ in range(5):
        y = rng.normal(size=40)
        columns = y[:, None] + rng.normal(size=(40, 3)) * [0.5, 1.0, 2.0]
        errors = columns - y[:, None]
        mixing = convex_weights((errors.T * weights) @ errors)
        assert (mixing >= 0).all()
        assert_allclose(mixing.sum(), 1.0)

        def error(mixture, columns=columns, y=y):
            return float(weights @ np.square(columns @ mixture - y))

        points = [(a, b, 1 - a - b) for a, b in product(grid, grid) if a + b <= 1]
        assert error(mixing) <= min(error(np.array(point)) for point in points) + 1e-9


def test_components_rotate_back_to_the_targets():
    _, Y = rows_and_targets()
    Y[:, 2] = 5.0
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(Y))
    center, rotation, scores = principal_components(Y, weights)
    assert len(rotation) == 3
    assert_allclose(center + scores @ rotation, Y, atol=1e-12)
    covariance = (scores.T * weights) @ scores
    assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)


def test_leave_one_out_errors_of_targets_match_fits_without_the_row():
    X, Y = rows_and_targets(n=30, n_targets=2)
    parts = {"target_parts": ("targets",), "common_parts": ("linear",)}
    model = SmoothMTL(**parts).fit(X, Y)
    design = np.column_stack([X - X.mean(axis=0), np.ones(30)])
    std = X.std(axis=0)
    for j in range(2):
        # Over the rows, the function of variance 1 has an expected variance of 1.
        shares = model.variance_shares_
        ratio = shares["linear"][j] / shares["noise"][j]
        penalty = np.append(len(std) * std**2 / ratio, 0.0)
        hat = design @ np.linalg.solve(design.T @ design + np.diag(penalty), design.T)
        expected = Y[:, j] - (Y[:, j] - hat @ Y[:, j]) / (1 - np.diag(hat))
        assert_allclose(model.loo_[:, j], expected, atol=1e-6)


# ---------------------------------------------------------------------- invariances


@pytest.mark.slow
def test_the_order_of_rows_columns_and_targets_does_not_matter(fitted):
    _, X, Y = fitted
    rng = np.random.default_rng(3)
    rows = rng.permutation(len(X))
    same_model(SmoothMTL(**QUICK).fit(X[rows], Y[rows]), fitted)
    columns = rng.permutation(X.shape[1])
    model = SmoothMTL(**QUICK).fit(X[:, columns], Y)
    same_model(model, fitted, X[:, columns])
    targets = rng.permutation(Y.shape[1])
    model = SmoothMTL(**QUICK).fit(X, Y[:, targets])
    same_model(model, fitted, columns=np.argsort(targets))


def test_units_of_columns_and_targets_do_not_matter(fitted):
    expected, X, Y = fitted
    moved = X * [1.0, 100.0, 1e-3] + 7.0
    same_model(SmoothMTL(**QUICK).fit(moved, Y), fitted, moved)
    scale = np.array([1.0, 10.0, 1e4, 1e-4])
    model = SmoothMTL(**QUICK).fit(X, scale * Y + 3.0)
    assert_allclose(model.predict(X), scale * expected.predict(X) + 3.0, rtol=1e-5)


def test_a_constant_factor_of_all_weights_changes_nothing():
    X, Y = rows_and_targets()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, size=len(X))
    expected = SmoothMTL(**QUICK).fit(X, Y, sample_weight=weights)
    for others in (1e3 * weights, np.tile(weights[:, None], 4)):
        model = SmoothMTL(**QUICK).fit(X, Y, sample_weight=others)
        same_model(model, (expected, X, Y))


def test_rows_with_weight_zero_or_without_targets_are_left_out():
    X, Y = rows_and_targets()
    kept = np.arange(len(X)) % 5 > 0
    expected = SmoothMTL(**QUICK).fit(X[kept], Y[kept])
    wrong = np.where(kept[:, None], Y, 1e3)
    model = SmoothMTL(**QUICK).fit(X, wrong, sample_weight=kept.astype(float))
    same_model(model, (expected, X, Y))
    assert np.isnan(model.loo_[~kept]).all()
    missing = np.where(kept[:, None], Y, np.nan)
    model = SmoothMTL(**QUICK).fit(X, missing)
    same_model(model, (expected, X, Y))
    assert_allclose(model.loo_[kept], expected.loo_, atol=1e-7)


# ---------------------------------------------------------------------- results


def test_components_and_forests_are_mixed_with_the_targets():
    X, Y = rows_and_targets(seed=2)
    model = SmoothMTL(**QUICK).fit(X, Y)
    assert list(model.mixture_) == list(TARGET_PARTS)
    assert_allclose(sum(model.mixture_.values()), 1.0)
    assert model.mixture_["components"].max() > 0
    for parts in (("targets",), ("forest",), ("targets", "components")):
        other = SmoothMTL(target_parts=parts, **QUICK).fit(X, Y)
        used = [name for name, weight in other.mixture_.items() if weight.any()]
        assert set(used) <= set(parts)
        # The mixture has smaller errors on unseen rows.
        assert np.square(model.loo_ - Y).mean() < np.square(other.loo_ - Y).mean()


@pytest.mark.slow
def test_the_mixture_of_a_single_target_is_best_for_unseen_rows():
    separate = separate_fits(*rows_and_targets())
    Y = separate.data.targets
    errors = []
    for parts in (("targets",), ("forest",), ("ridge",), TARGET_PARTS):
        fit = fit_targets(separate, parts, is_joint=False)
        errors.append(np.square(fit.leave_one_out - Y).mean(axis=0))
    assert (errors[-1] <= np.min(errors[:-1], axis=0) + 1e-9).all()


def test_the_mixture_weights_the_errors_of_all_targets_like_those_of_one():
    data = separate_fits(*rows_and_targets()).data
    noise = np.random.default_rng(2).normal(size=(2, *data.targets.shape))
    std = data.targets.std(axis=0)
    held_out = [data.targets + std * scale for scale in noise]
    mixture = mix(held_out, data, np.ones(2, dtype=bool), is_joint=True)
    # The weights of two predictions minimize a parabola.
    products = np.einsum("knj,lnj->jkl", noise, noise)
    errors = products + products.mean(axis=0)
    first = errors[:, 1, 1] - errors[:, 0, 1]
    expected = first / (first + errors[:, 0, 0] - errors[:, 0, 1])
    assert_allclose(mixture[0], expected, atol=1e-9)


def test_ridge_predictions_of_left_out_rows_match_fits_without_them():
    X, Y = rows_and_targets(n=25, n_targets=2)
    weight = np.random.default_rng(4).uniform(0.5, 2.0, size=25)
    model = SmoothMTL(target_parts=("ridge",), **QUICK)
    model.fit(X, Y, sample_weight=weight)
    ridge, _ = separate_fits(X, Y, weight).ridge
    weight = weight / weight.mean()
    mean = weight @ X / 25
    z = (X - mean) / np.sqrt(weight @ np.square(X - mean) / 25)
    for j in range(2):
        for row in range(0, 25, 6):
            rest = np.arange(25) != row
            lone = Ridge(ridge.strength[j])
            lone.fit(z[rest], Y[rest, j], sample_weight=weight[rest])
            expected = lone.predict(z[[row]])[0]
            assert_allclose(model.loo_[row, j], expected, atol=1e-8)


def test_noisy_targets_borrow_strength_from_each_other():
    X, Y = rows_and_targets(n=80, n_targets=8, noise=1.0)
    new_X, _ = rows_and_targets(n=500, n_targets=8, seed=9)
    loadings = np.random.default_rng(0)
    loadings.normal(size=(80, 3))
    truth = np.column_stack([np.sin(new_X[:, 0]), new_X[:, 1]])
    truth = truth @ loadings.normal(size=(2, 8))
    errors = []
    for parts in (("targets",), ("targets", "components")):
        model = SmoothMTL(target_parts=parts, **QUICK).fit(X, Y)
        errors.append(np.mean(np.square(model.predict(new_X) - truth)))
    assert errors[1] < 0.9 * errors[0]


def test_missing_targets_are_predicted_from_the_observed_ones():
    X, Y = rows_and_targets(n=80)
    holes = Y.copy()
    holes[np.random.default_rng(4).random(Y.shape) < 0.3] = np.nan
    model = SmoothMTL(**QUICK).fit(X, holes)
    assert (np.isnan(model.loo_) == np.isnan(holes)).all()
    explained = 1 - np.square(model.predict(X) - Y).mean(axis=0) / Y.var(axis=0)
    assert (explained > 0.5).all()


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10])
def test_few_rows_and_a_constant_target_are_fitted(n):
    X, Y = rows_and_targets(n=n)
    Y[:, 3] = 4.0
    model = SmoothMTL(**QUICK).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert_allclose(mean[:, 3], 4.0)


def test_a_single_target_column_is_a_single_task():
    X, Y = rows_and_targets()
    wide = SmoothMTL(**QUICK).fit(X, Y[:, :1])
    long = SmoothMTL(**QUICK).fit(X, Y[:, 0])
    assert_allclose(wide.predict(X)[:, 0], long.predict(X), atol=1e-9)
    assert not hasattr(wide, "mixture_")


def test_constant_columns_leave_only_the_means():
    _, Y = rows_and_targets()
    model = SmoothMTL(**QUICK).fit(np.ones((len(Y), 2)), Y)
    assert_allclose(model.predict(np.ones((1, 2)))[0], Y.mean(axis=0), atol=1e-9)
    assert list(model.mixture_) == ["targets", "components"]


def test_intervals_have_about_their_nominal_coverage():
    X, Y = rows_and_targets(n=150, noise=0.5)
    model = SmoothMTL(**QUICK).fit(X[:75], Y[:75])
    mean, std = model.predict(X[75:], return_std=True)
    share = np.mean(np.abs(mean - Y[75:]) < 1.96 * std)
    assert 0.9 < share < 0.99


def test_task_ids_select_targets_and_unknown_ones_get_the_mean(fitted):
    _, X, Y = fitted
    model = SmoothMTL(unseen="mean", **QUICK).fit(X, Y)
    mean, std = model.predict(X[:2], return_std=True)
    picked, deviation = model.predict(X[:2], task_id=[3, 99], return_std=True)
    assert_allclose(picked, [mean[0, 3], mean[1].mean()])
    assert_allclose(deviation[0], std[0, 3])
    assert deviation[1] >= np.sqrt(mean[1].var())


def test_parts_are_tested_and_drawn_for_each_target(fitted):
    model, X, _ = fitted
    tests = model.part_tests()
    assert [test.task for test in tests] == np.repeat(range(4), 4).tolist()
    assert all(test.part in model.variances_ for test in tests)
    curve = model.partial_dependence(0, task=1)
    assert curve.mean.shape == curve.std.shape == curve.values.shape
    assert (curve.std < model.predict(X, return_std=True)[1][:, 1].max()).all()
    with pytest.raises(ValueError, match="targets"):
        model.partial_dependence(0)


def test_the_variances_of_each_target_add_up_with_the_noise(fitted):
    model, _, Y = fitted
    total = sum(model.variance_shares_.values())
    assert_allclose(total, np.ones(Y.shape[1]))
    assert model.noise_variance_.shape == (Y.shape[1],)


def test_levels_of_groups_are_estimated_for_all_targets():
    X, Y = rows_and_targets(n=90, noise=0.1)
    group = np.arange(90) % 6
    shift = np.linspace(-3, 3, 6)
    Y = Y + shift[group][:, None]
    table = np.column_stack([X, group])
    model = SmoothMTL(levels=(3,), **QUICK).fit(table, Y)
    assert (model.variances_["levels of 3"] > 1).all()
    unknown = table[:1].copy()
    unknown[0, 3] = 17
    std = model.predict(np.vstack([table[:1], unknown]), return_std=True)[1]
    assert (std[1] > 2 * std[0]).all()


def test_the_independent_baseline_fits_each_target_separately():
    X, Y = rows_and_targets()
    model = SmoothIndependent(**QUICK).fit(X, Y)
    assert list(model.mixture_) == ["targets", "forest", "ridge"]
    changed = Y.copy()
    changed[:, 1:] = np.random.default_rng(5).normal(size=(len(X), 3))
    other = SmoothIndependent(**QUICK).fit(X, changed)
    assert_allclose(other.predict(X)[:, 0], model.predict(X)[:, 0], atol=1e-9)


def test_the_pooled_baseline_has_one_function_for_all_targets():
    X, Y = rows_and_targets()
    predicted = SmoothPooled(**QUICK).fit(X, Y).predict(X)
    assert_allclose(np.ptp(predicted - predicted[:1], axis=1), 0, atol=1e-9)


def test_small_forests_are_left_out():
    X, Y = rows_and_targets(n=9)
    assert "forest" not in SmoothMTL(**QUICK).fit(X, Y).mixture_


# ---------------------------------------------------------------------- work


@pytest.mark.slow
def test_models_of_the_same_rows_share_the_fits_of_single_targets(watch_calls):
    X, Y = rows_and_targets()
    fits = []
    watch_calls(fit_outputs, fits.append)
    rows = TaskRows(X, Y)
    rows.fit(SmoothMTL(**QUICK))
    assert len(fits) == 2, "targets and components"
    shared = rows.fit(SmoothIndependent(**QUICK))
    assert len(fits) == 2
    alone = SmoothIndependent(**QUICK).fit(X, Y)
    assert_array_equal(shared.predict(X), alone.predict(X))
    fits.clear()
    rows.fit(SmoothIndependent(n_centers=15))
    assert len(fits) == 1, "other centers are other functions"


def test_the_trees_of_a_forest_share_one_generator(monkeypatch):
    X, Y = rows_and_targets()
    n_generators = 0

    class Counted(np.random.RandomState):
        def __init__(self, *args):
            nonlocal n_generators
            n_generators += 1
            super().__init__(*args)

    monkeypatch.setattr(np.random, "RandomState", Counted)
    data = separate_fits(X, Y).data
    fit_forests(data.rows, Y, np.ones(len(X)), seed=0, is_joint=True)
    assert n_generators == 1
