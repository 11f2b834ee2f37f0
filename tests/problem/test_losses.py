"""Losses: values, stability, domains, errors."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize_scalar

from mtlrun.problem.losses import (
    LOSSES,
    HingeLoss,
    LogisticLoss,
    SquaredHingeLoss,
    SquaredLoss,
)

SMOOTH = [SquaredLoss, LogisticLoss, SquaredHingeLoss]


def targets(loss_class, rng, size):
    return rng.choice([-1.0, 1.0], size) if loss_class.labels else rng.normal(size=size)


def test_losses_are_registered():
    assert set(LOSSES) == {"squared", "logistic", "squared_hinge", "hinge"}
    assert all(LOSSES[name](2.0).scale == 2.0 for name in LOSSES)


@pytest.mark.cover
@pytest.mark.parametrize("loss_class", LOSSES.values())
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_the_scale_must_be_positive(loss_class, scale):
    with pytest.raises(ValueError, match="scale"):
        loss_class(scale)


def test_values_match_hand_calculations():
    z, y = np.array([0.5, -2.0, 3.0]), np.array([1.0, 1.0, -1.0])
    m = y * z
    assert SquaredLoss(4.0).value(z, y) == pytest.approx(2.0 * np.sum((y - z) ** 2))
    assert LogisticLoss(2.0).value(z, y) == pytest.approx(
        2.0 * np.log1p(np.exp(-m)).sum()
    )
    assert SquaredHingeLoss(4.0).value(z, y) == pytest.approx(2.0 * (0.25 + 9 + 16))
    assert HingeLoss(3.0).value(z, y) == pytest.approx(3.0 * (0.5 + 3 + 4))
    assert HingeLoss(3.0).value(z, y, np.array([2.0, 0.0, 1.0])) == pytest.approx(
        3.0 * (1 + 4)
    )


def test_losses_have_the_scaling_of_the_papers():
    beta, z, y = 0.3, np.array([0.2, 1.5]), np.array([1.0, -1.0])
    assert SquaredLoss(2 * beta).value(z, y) == pytest.approx(
        beta * np.sum((z - y) ** 2)
    )
    assert SquaredHingeLoss(2 * beta).value(z, y) == pytest.approx(
        beta * np.sum(np.maximum(0, 1 - y * z) ** 2)
    )


@pytest.mark.parametrize("loss_class", SMOOTH)
def test_gradient_and_hessian_match_finite_differences(loss_class):
    rng = np.random.default_rng(0)
    loss, z = loss_class(1.7), rng.normal(size=12)
    y, w = targets(loss_class, rng, 12), rng.random(12)
    assert (
        check_grad(lambda v: loss.value(v, y, w), lambda v: loss.gradient(v, y, w), z)
        < 1e-6
    )
    h = 1e-6
    slope = (loss.gradient(z + h, y, w) - loss.gradient(z - h, y, w)) / (2 * h)
    np.testing.assert_allclose(loss.hessian(z, y, w), slope, atol=1e-7)
    assert np.all(loss.hessian(z, y) <= loss.curvature * (1 + 1e-12))


def test_the_hinge_has_a_subgradient():
    z, y = np.array([2.0, 0.0, 1.0]), np.ones(3)
    assert HingeLoss(2.0).gradient(z, y).tolist() == [0, -2, 0]
    assert HingeLoss().curvature == np.inf
    assert not HingeLoss.smooth
    assert HingeLoss().hessian(z, y).tolist() == [0, 0, 0]


def test_the_logistic_loss_is_stable_for_huge_margins():
    loss, z, y = LogisticLoss(), np.array([1e4, -1e4, 800.0, -800.0]), np.ones(4)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(loss.values(z, y), [0, 1e4, 0, 800])
        np.testing.assert_allclose(loss.derivative(z, y), [0, -1, 0, -1])
        np.testing.assert_allclose(loss.second_derivative(z, y), 0, atol=1e-300)
        prox = loss.prox(z, y, 1e3)
    np.testing.assert_allclose(prox[:3], [1e4, -9e3, 800], rtol=1e-12)
    assert prox[3] - 1e3 / (1 + np.exp(prox[3])) == pytest.approx(-800.0, rel=1e-12)


@pytest.mark.cover
@pytest.mark.parametrize("loss_class", LOSSES.values())
@pytest.mark.parametrize("step", [1e-3, 1.0, 1e3])
def test_the_prox_matches_a_scalar_search(loss_class, step):
    rng = np.random.default_rng(1)
    loss, z = loss_class(0.8), np.array([-30.0, -2.0, 0.0, 0.3, 0.99, 1.0, 5.0])
    y = targets(loss_class, rng, 7)
    for u, zi, yi in zip(loss.prox(z, y, step), z, y, strict=True):

        def objective(v, zi=zi, yi=yi):
            return float(step * loss.values(v, yi) + 0.5 * (v - zi) ** 2)

        best = minimize_scalar(objective, bracket=(zi - 1, zi + 1), tol=1e-12)
        assert objective(u) <= best.fun + 1e-9 * (1 + abs(best.fun))


@pytest.mark.parametrize("loss_class", LOSSES.values())
def test_a_prox_with_weight_zero_does_nothing(loss_class):
    z = np.array([0.3, -0.2])
    np.testing.assert_array_equal(
        loss_class().prox(z, np.array([0.0, 1.0]), 2.0, np.zeros(2)), z
    )


@pytest.mark.parametrize("loss_class", LOSSES.values())
def test_masked_entries_do_not_count(loss_class):
    rng = np.random.default_rng(2)
    loss, y, z = (
        loss_class(1.3),
        targets(loss_class, rng, (5, 2)),
        rng.normal(size=(5, 2)),
    )
    w = np.ones((5, 2))
    w[0, 0] = w[3, 1] = 0.0
    used = w > 0
    masked = np.where(used, y, 0.0)
    assert loss.value(z, masked, w) == pytest.approx(loss.value(z[used], y[used]))
    gradient = loss.gradient(z, masked, w)
    assert np.all(gradient[~used] == 0)
    assert loss.conjugate(gradient, masked, w) == pytest.approx(
        loss.conjugate(gradient[used], y[used])
    )
    assert loss.conjugate(gradient + ~used, masked, w) == np.inf
    loss.check_targets(masked, w)


def test_conjugates_are_infinite_outside_their_domain():
    y = np.array([1.0, -1.0])
    inside, outside, wrong_sign = (
        np.array([-0.5, 0.5]),
        np.array([-1.5, 0.5]),
        np.array([0.1, 0.1]),
    )
    for loss in (LogisticLoss(), HingeLoss()):
        assert np.isfinite(loss.conjugate(inside, y))
        assert loss.conjugate(outside, y) == np.inf
        assert np.isfinite(loss.conjugate(outside, y, np.array([2.0, 1.0])))
        assert loss.conjugate(wrong_sign, y) == np.inf
    assert np.isfinite(SquaredHingeLoss().conjugate(outside, y))
    assert SquaredHingeLoss().conjugate(wrong_sign, y) == np.inf
    assert np.isfinite(SquaredLoss().conjugate(wrong_sign, y))


def test_the_logistic_conjugate_is_right_at_the_ends_of_its_domain():
    loss, y = LogisticLoss(3.0), np.array([1.0, -1.0])
    assert loss.conjugate(np.zeros(2), y) == 0.0
    assert loss.conjugate(np.array([-3.0, 3.0]), y) == 0.0
    assert loss.conjugate(np.array([-1.5, 1.5]), y) == pytest.approx(-6.0 * np.log(2))


@pytest.mark.parametrize("loss_class", [LogisticLoss, SquaredHingeLoss, HingeLoss])
def test_labels_are_checked(loss_class):
    with pytest.raises(ValueError, match=r"must be -1 or \+1, got 0"):
        loss_class().check_targets(np.array([1.0, 0.0]))
    loss_class().check_targets(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    SquaredLoss().check_targets(np.array([0.5]))


def test_labels_of_any_positive_weight_are_checked():
    y = np.array([1.0, 3.0])
    LogisticLoss().check_targets(y, np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"LogisticLoss.*-1.*\+1.*3"):
        LogisticLoss().check_targets(y, np.array([1.0, 0.25]))


def test_the_squared_hinge_is_flat_beyond_its_kink():
    z = np.array([0.5, 1.0, 2.0])
    np.testing.assert_array_equal(
        SquaredHingeLoss(3.0).hessian(z, np.ones(3)), [3.0, 0.0, 0.0]
    )


@pytest.mark.parametrize("loss_class", LOSSES.values())
def test_second_derivatives_have_the_shape_of_both_arguments(loss_class):
    loss = loss_class(2.0)
    assert loss.hessian(np.zeros((2, 1)), np.ones(3)).shape == (2, 3)
    assert loss.hessian(np.zeros(3), np.ones((2, 1))).shape == (2, 3)
