"""Properties of every penalty for any matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mtlrun.penalties.norms import (
    L1,
    L12,
    L21,
    SquaredFrobenius,
    SquaredTraceNorm,
    TraceNorm,
)

NORMS = [L1, L21, L12, TraceNorm]
ALL = [*NORMS, SquaredFrobenius, SquaredTraceNorm]

entries = st.floats(-100, 100, allow_subnormal=False).map(
    lambda v: 0.0 if abs(v) < 1e-6 else v
)
matrices = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=entries
)
strengths = st.floats(1e-3, 50)
seeds = st.integers(0, 2**32 - 1)


def moreau(penalty, V, Z, step):
    return step * penalty.value(V) + 0.5 * np.sum((V - Z) ** 2)


def project(penalty, Z, radius):
    """Project on {dual_norm(Z / radius) <= 1}, independently of any prox."""
    bound = radius * penalty.alpha
    if isinstance(penalty, L1):
        return np.clip(Z, -bound, bound)
    if isinstance(penalty, TraceNorm):
        U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
        return (U * np.minimum(sigma, bound)) @ Vt
    norms = np.linalg.norm(Z, axis=1 if isinstance(penalty, L21) else 0, keepdims=True)
    return Z * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


@pytest.mark.parametrize("penalty_class", ALL)
@given(Z=matrices, alpha=strengths, step=strengths, seed=seeds)
def test_prox_satisfies_the_three_point_inequality(penalty_class, Z, alpha, step, seed):
    penalty, rng = penalty_class(alpha), np.random.default_rng(seed)
    P = penalty.prox(Z, step)
    lowest = moreau(penalty, P, Z, step)
    for size in (1e-3, 1.0, 100.0):
        V = P + size * rng.normal(size=Z.shape)
        bound = lowest + 0.5 * np.sum((V - P) ** 2)
        assert moreau(penalty, V, Z, step) >= bound - 1e-9 * (1.0 + abs(bound))


@pytest.mark.parametrize("penalty_class", NORMS)
@given(Z=matrices, alpha=strengths, step=strengths)
def test_moreau_identity(penalty_class, Z, alpha, step):
    penalty = penalty_class(alpha)
    np.testing.assert_allclose(
        penalty.prox(Z, step) + project(penalty, Z, step), Z, atol=1e-9
    )


@pytest.mark.parametrize("penalty_class", NORMS)
@given(Z=matrices, alpha=strengths, seed=seeds)
def test_dual_norm_bounds_all_inner_products(penalty_class, Z, alpha, seed):
    penalty, W = penalty_class(alpha), np.random.default_rng(seed).normal(size=Z.shape)
    product = penalty.dual_norm(Z) * penalty.value(W)
    assert np.vdot(Z, W) <= product * (1 + 1e-12) + 1e-12
    # The bound is attained: the direction in which the projection on the unit ball
    # moves Z is a maximizer.
    if np.any(Z):
        best = Z - project(penalty, Z, 0.999999 * penalty.dual_norm(Z))
        assert np.vdot(Z, best) >= penalty.dual_norm(Z) * penalty.value(best) * (
            1 - 1e-5
        )


@pytest.mark.parametrize("penalty_class", ALL)
@given(Z=matrices, alpha=strengths, step=strengths)
def test_prox_points_are_dual_pairs(penalty_class, Z, alpha, step):
    """G = (Z - P) / step is a subgradient at P: value(P) + conjugate(G) = <P, G>."""
    penalty = penalty_class(alpha)
    P = penalty.prox(Z, step)
    G = (Z - P) / step
    scale = 1.0 + np.linalg.norm(Z) ** 2 / step + penalty.value(P)
    if penalty.is_norm:
        assert penalty.dual_norm(G) <= 1.0 + 1e-9 * (
            1.0 + np.abs(Z).max() / (step * alpha)
        )
        assert np.vdot(P, G) == pytest.approx(penalty.value(P), abs=1e-9 * scale)
    else:
        assert penalty.value(P) + penalty.conjugate(G) == pytest.approx(
            np.vdot(P, G), abs=1e-9 * scale
        )


@pytest.mark.parametrize("penalty_class", ALL)
@given(Z=matrices, alpha=strengths, step=strengths)
def test_prox_uses_strength_and_step_only_as_a_product_and_keeps_its_argument(
    penalty_class, Z, alpha, step
):
    kept = Z.copy()
    np.testing.assert_allclose(
        penalty_class(alpha).prox(Z, step),
        penalty_class(step).prox(Z, alpha),
        atol=1e-11,
    )
    np.testing.assert_array_equal(Z, kept)


@given(Z=matrices, alpha=strengths, ridge=strengths, step=strengths, seed=seeds)
def test_squared_trace_norm_with_ridge(Z, alpha, ridge, step, seed):
    """Prox and conjugate of the sum: inequality, dual pairs, Fenchel-Young."""
    penalty, rng = SquaredTraceNorm(alpha, ridge), np.random.default_rng(seed)
    P = penalty.prox(Z, step)
    lowest = moreau(penalty, P, Z, step)
    for size in (1e-3, 1.0, 100.0):
        V = P + size * rng.normal(size=Z.shape)
        bound = lowest + 0.5 * np.sum((V - P) ** 2)
        assert moreau(penalty, V, Z, step) >= bound - 1e-9 * (1.0 + abs(bound))
    G = (Z - P) / step
    scale = 1.0 + np.linalg.norm(Z) ** 2 / step
    assert penalty.value(P) + penalty.conjugate(G) == pytest.approx(
        np.vdot(P, G), abs=1e-9 * scale
    )
    W = rng.normal(size=Z.shape)
    assert penalty.value(W) + penalty.conjugate(Z) >= np.vdot(W, Z) - 1e-9 * (
        1.0 + penalty.conjugate(Z)
    )
