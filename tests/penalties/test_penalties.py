"""Penalties: values, duals, edge cases."""

import numpy as np
import pytest

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
W = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("penalty", "value", "dual_norm"),
    [
        (L1(2.0), 14, 2),
        (L21(2.0), 10, 2.5),
        (L12(2.0), 14, 2),
        (TraceNorm(2.0), 10, 2.5),
    ],
)
def test_values_and_dual_norms_match_hand_calculations(penalty, value, dual_norm):
    assert penalty.value(W) == pytest.approx(value)
    assert penalty.dual_norm(W) == pytest.approx(dual_norm)
    assert penalty.is_norm


def test_the_squared_frobenius_norm_matches_a_hand_calculation():
    penalty = SquaredFrobenius(2.0)
    assert penalty.value(W) == 25.0
    assert penalty.conjugate(W) == 6.25
    np.testing.assert_allclose(penalty.prox(W, 0.5), W / 2)
    assert not penalty.is_norm
    with pytest.raises(TypeError, match="not a norm"):
        penalty.dual_norm(W)


def test_proximal_operators_match_hand_calculations():
    np.testing.assert_allclose(L1(1.0).prox(W, 0.5), [[2.5, -3.5, 0], [0, 0, 0]])
    np.testing.assert_allclose(L21(1.0).prox(W, 2.5), [[1.5, -2, 0], [0, 0, 0]])
    np.testing.assert_allclose(L12(1.0).prox(W, 3.5), [[0, -0.5, 0], [0, 0, 0]])
    np.testing.assert_allclose(TraceNorm(1.0).prox(W, 2.5), W / 2, atol=1e-15)


@pytest.mark.parametrize("penalty_class", ALL)
def test_zero_strength_means_no_penalty(penalty_class):
    penalty = penalty_class(0.0)
    assert penalty.is_zero
    assert penalty.value(W) == 0
    np.testing.assert_allclose(penalty.prox(W, 3.0), W, atol=1e-15)
    assert penalty.conjugate(np.zeros_like(W)) == 0.0
    assert penalty.conjugate(W) == np.inf


@pytest.mark.parametrize("penalty_class", ALL)
def test_the_prox_of_zero_is_zero_and_a_new_array(penalty_class):
    zero = np.zeros((3, 2))
    out = penalty_class(1.5).prox(zero, 1.0)
    assert np.all(out == 0)
    assert not np.shares_memory(out, zero)
    assert not np.shares_memory(penalty_class(0.0).prox(W, 1.0), W)


@pytest.mark.parametrize("penalty_class", ALL)
def test_prox_value_is_the_value_at_the_prox(penalty_class):
    Z = np.random.default_rng(0).normal(size=(6, 4))
    penalty = penalty_class(1.3)
    V, value = penalty.prox_value(Z, 0.6)
    np.testing.assert_allclose(V, penalty.prox(Z, 0.6))
    assert value == pytest.approx(penalty.value(V), rel=1e-12)


@pytest.mark.cover
@pytest.mark.parametrize("penalty_class", ALL)
@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
def test_the_strength_must_be_finite_and_not_negative(penalty_class, alpha):
    with pytest.raises(ValueError, match="alpha"):
        penalty_class(alpha)


@pytest.mark.parametrize("penalty_class", ALL)
def test_rotation_invariant_penalties_are_invariant(penalty_class):
    rng = np.random.default_rng(1)
    Z, Q = rng.normal(size=(5, 3)), np.linalg.qr(rng.normal(size=(5, 5)))[0]
    penalty = penalty_class(0.7)
    same = penalty.value(Q @ Z) == pytest.approx(penalty.value(Z), rel=1e-12)
    assert same == penalty.rotation_invariant
    if penalty.rotation_invariant:
        np.testing.assert_allclose(
            penalty.prox(Q @ Z, 0.9), Q @ penalty.prox(Z, 0.9), atol=1e-12
        )


@pytest.mark.parametrize("penalty_class", NORMS)
def test_column_norms_have_their_dual_norms(penalty_class):
    Z = np.random.default_rng(2).normal(size=(5, 3))
    penalty = penalty_class(0.7)
    if penalty.by_column:
        columns = [penalty.dual_norm(Z[:, [t]]) for t in range(3)]
        np.testing.assert_allclose(penalty.column_dual_norms(Z), columns)
        assert penalty.dual_norm(Z) == pytest.approx(max(columns))
    else:
        with pytest.raises(TypeError, match="columns"):
            penalty.column_dual_norms(Z)


def test_the_squared_trace_norm_matches_hand_calculations():
    penalty = SquaredTraceNorm(2.0)
    assert penalty.value(W) == pytest.approx(50)  # One singular value, 5
    assert penalty.conjugate(W) == pytest.approx(25 / 8)
    # c = 0.5: k = 1, S = 5 / (1 + 2c), so sigma = S
    np.testing.assert_allclose(penalty.prox(W, 0.25), W / 2, atol=1e-15)
    # Singular values 3 and 1, c = 0.25: S = 4 / 2, both are reduced by 1.
    np.testing.assert_allclose(
        penalty.prox(np.diag([3.0, 1.0]), 0.125), np.diag([2.0, 0.0]), atol=1e-15
    )
    with_ridge = SquaredTraceNorm(2.0, ridge=1.0)
    assert with_ridge.value(W) == pytest.approx(62.5)
    assert not SquaredTraceNorm(0.0, ridge=1.0).is_zero
    with pytest.raises(ValueError, match="ridge must be non-negative"):
        SquaredTraceNorm(1.0, ridge=-1.0)


@pytest.mark.parametrize("norm", NORMS)
def test_the_conjugate_of_a_norm_is_the_indicator_of_its_dual_ball(norm):
    Z = np.array([[2.0], [0.0]])
    assert norm(2.0).conjugate(Z) == 0.0
    assert norm(2.0).conjugate(1.01 * Z) == np.inf


def test_missing_properties_of_a_penalty_are_reported_with_its_name():
    with pytest.raises(TypeError, match="SquaredFrobenius"):
        SquaredFrobenius(1.0).dual_norm(W)
    with pytest.raises(TypeError, match="a sum over columns"):
        L21(1.0).column_dual_norms(W)
