"""Properties of every loss for any predictions, targets and weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.problem.losses import LOSSES

CLASSES = list(LOSSES.values())
SMOOTH = [c for c in CLASSES if c.smooth]

seeds = st.integers(0, 2**32 - 1)
scales = st.floats(1e-3, 100)
steps = st.floats(1e-4, 1e4)
sizes = st.floats(1e-2, 1e3)


def draw(loss_class, seed, size, n=8):
    """Return predictions (some at a margin of one), targets and weights."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n) if loss_class.labels else rng.normal(size=n)
    z = size * rng.normal(size=n)
    z[0] = y[0]
    return z, y, rng.uniform(0.1, 3.0, n)


@pytest.mark.parametrize("loss_class", SMOOTH)
@given(seed=seeds, scale=scales, size=st.floats(1e-2, 10))
def test_the_gradient_is_the_slope(loss_class, seed, scale, size):
    loss = loss_class(scale)
    z, y, w = draw(loss_class, seed, size)
    h = 1e-5
    slope = (loss.values(z + h, y) - loss.values(z - h, y)) / (2 * h)
    np.testing.assert_allclose(
        loss.gradient(z, y, w), w * slope, rtol=1e-5, atol=1e-4 * scale
    )


@pytest.mark.parametrize("loss_class", SMOOTH)
@given(seed=seeds, scale=scales, size=sizes)
def test_the_gradient_is_lipschitz_and_monotone(loss_class, seed, scale, size):
    loss = loss_class(scale)
    z, y, _ = draw(loss_class, seed, size)
    v = z + np.random.default_rng(seed + 1).normal(size=z.shape)
    change = loss.gradient(z, y) - loss.gradient(v, y)
    assert np.all(
        np.abs(change)
        <= loss.curvature * np.abs(z - v) * (1 + 1e-9) + 1e-11 * scale * size
    )
    assert np.all(change * (z - v) >= -1e-12)


@pytest.mark.parametrize("loss_class", CLASSES)
@given(seed=seeds, scale=scales, size=sizes)
def test_fenchel_young_equality_at_the_gradient(loss_class, seed, scale, size):
    loss = loss_class(scale)
    z, y, w = draw(loss_class, seed, size)
    theta = loss.gradient(z, y, w)
    total, product = (
        loss.value(z, y, w) + loss.conjugate(theta, y, w),
        np.vdot(theta, z),
    )
    assert total == pytest.approx(product, rel=1e-9, abs=1e-9 * scale * (1 + size**2))


@pytest.mark.parametrize("loss_class", CLASSES)
@given(seed=seeds, scale=scales, size=sizes)
def test_fenchel_young_inequality_holds_elsewhere(loss_class, seed, scale, size):
    loss = loss_class(scale)
    z, y, w = draw(loss_class, seed, size)
    rng = np.random.default_rng(seed + 1)
    theta = rng.uniform(size=z.shape) * loss.gradient(
        size * rng.normal(size=z.shape), y, w
    )
    conjugate = loss.conjugate(theta, y, w)
    assert np.isfinite(conjugate)
    assert loss.value(z, y, w) + conjugate >= np.vdot(theta, z) - 1e-9 * scale * (
        1 + size**2
    )


@pytest.mark.parametrize("loss_class", CLASSES)
@given(seed=seeds, scale=scales, size=sizes, step=steps)
def test_prox_satisfies_the_three_point_inequality(loss_class, seed, scale, size, step):
    loss = loss_class(scale)
    z, y, w = draw(loss_class, seed, size)
    p = loss.prox(z, y, step, w)

    def moreau(v):
        return step * w * loss.values(v, y) + 0.5 * (v - z) ** 2

    rng = np.random.default_rng(seed + 1)
    for distance in (1e-3, 1.0, 1e3):
        v = p + distance * rng.normal(size=z.shape)
        bound = moreau(p) + 0.5 * (v - p) ** 2
        assert np.all(moreau(v) >= bound - 1e-9 * (1.0 + bound))


@pytest.mark.parametrize("loss_class", SMOOTH)
@given(seed=seeds, scale=scales, size=sizes, step=steps)
def test_prox_solves_its_equation(loss_class, seed, scale, size, step):
    loss = loss_class(scale)
    z, y, w = draw(loss_class, seed, size)
    p = loss.prox(z, y, step, w)
    np.testing.assert_allclose(
        p + step * loss.gradient(p, y, w), z, rtol=1e-9, atol=1e-9 * (1 + step * scale)
    )


@pytest.mark.parametrize("loss_class", CLASSES)
@given(seed=seeds, scale=scales, size=sizes, repeats=st.integers(1, 4))
def test_weights_are_repetitions(loss_class, seed, scale, size, repeats):
    loss = loss_class(scale)
    z, y, _ = draw(loss_class, seed, size)
    w = np.full(z.shape, float(repeats))
    again = np.tile(y, repeats)
    assert loss.value(z, y, w) == pytest.approx(loss.value(np.tile(z, repeats), again))
    theta = loss.gradient(z, y)
    assert loss.conjugate(repeats * theta, y, w) == pytest.approx(
        loss.conjugate(np.tile(theta, repeats), again),
        rel=1e-9,
        abs=1e-9 * scale * (1 + size**2),
    )
