"""Penalties of the catalogue: proximal operators, dual norms and conjugates against
their definitions and cvxpy.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mtlrun.penalties.coupled import (
    CoupledL1,
    CoupledL21,
    DenseForm,
    FusedGroup,
    TaskQuadratic,
    total_variation_prox,
)
from mtlrun.penalties.norms import (
    L1,
    L21,
    L1Inf,
    SpectralBox,
    SquaredFrobenius,
    TraceNorm,
    fill_boxes,
    mixture_range,
)
from mtlrun.problem.objective import feasible_scale

cp = pytest.importorskip("cvxpy")

entries = st.floats(-100, 100, allow_subnormal=False).map(
    lambda v: 0.0 if abs(v) < 1e-6 else v
)
matrices = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=entries
)
strengths = st.floats(1e-3, 50)
seeds = st.integers(0, 2**32 - 1)


def chain(T):
    """Return the Laplacian of a path."""
    D = np.diff(np.eye(T), axis=0)
    return D.T @ D


NORMS = {
    "l1,inf": lambda a, T: L1Inf(a),
    "fused": lambda a, T: FusedGroup(a, 0.3 * a, 0.7 * a),
    "fused, no groups": lambda a, T: FusedGroup(0.0, a, 2.0 * a),
    "fused, no sparsity": lambda a, T: FusedGroup(a, 0.0, a),
}
OTHERS = {
    "spectral box": lambda a, T: SpectralBox(a, 0.3, 2),
    "spectral box, one": lambda a, T: SpectralBox(a, 5.0, 1),
    "quadratic": lambda a, T: TaskQuadratic(a, DenseForm(chain(T) + 0.2 * np.eye(T))),
    "rows, definite": lambda a, T: CoupledL21(
        a, DenseForm(3.0 * chain(T) + 0.2 * np.eye(T))
    ),
    "rows, singular": lambda a, T: CoupledL21(a, DenseForm(3.0 * chain(T))),
    "entries": lambda a, T: CoupledL1(a, DenseForm(3.0 * chain(T) + 0.2 * np.eye(T))),
}
ALL = NORMS | OTHERS


def moreau(penalty, V, Z, step):
    return step * penalty.value(V) + 0.5 * np.sum((V - Z) ** 2)


@pytest.mark.parametrize("name", ALL)
@given(Z=matrices, alpha=strengths, step=strengths, seed=seeds)
def test_prox_satisfies_the_three_point_inequality(name, Z, alpha, step, seed):
    penalty, rng, kept = (
        ALL[name](alpha, Z.shape[1]),
        np.random.default_rng(seed),
        Z.copy(),
    )
    P, value = penalty.prox_value(Z, step)
    np.testing.assert_array_equal(Z, kept)
    assert value == pytest.approx(penalty.value(P), rel=1e-7, abs=1e-9 * alpha)
    lowest = moreau(penalty, P, Z, step)
    for V in [P + size * rng.normal(size=Z.shape) for size in (1e-3, 1.0, 100.0)] + [
        np.zeros_like(Z),
        0.9 * P,
    ]:
        bound = lowest + 0.5 * np.sum((V - P) ** 2)
        assert moreau(penalty, V, Z, step) >= bound - 1e-8 * (1.0 + abs(bound))


@pytest.mark.parametrize("name", ALL)
@given(Z=matrices, alpha=strengths, step=strengths, seed=seeds)
def test_prox_points_are_dual_pairs(name, Z, alpha, step, seed):
    """G = (Z - P) / step is a subgradient at P: value(P) + conjugate(G) = <P, G>;
    elsewhere it is an inequality.
    """
    penalty, rng = ALL[name](alpha, Z.shape[1]), np.random.default_rng(seed)
    P = penalty.prox(Z, step)
    G = (Z - P) / step
    scale = 1.0 + np.linalg.norm(Z) ** 2 / step + penalty.value(P)
    if penalty.is_norm:
        assert penalty.dual_norm(G) <= 1.0 + 1e-9 * (
            1.0 + np.abs(Z).max() / (step * alpha)
        )
        assert np.vdot(P, G) == pytest.approx(penalty.value(P), abs=1e-9 * scale)
        return
    G = G * feasible_scale(G, [penalty])  # Rounding
    assert penalty.value(P) + penalty.conjugate(G) == pytest.approx(
        np.vdot(P, G), abs=1e-7 * scale
    )
    for W in (rng.normal(size=Z.shape), 30 * rng.normal(size=Z.shape), 2 * P):
        assert penalty.value(W) + penalty.conjugate(G) >= np.vdot(W, G) - 1e-7 * (
            scale + penalty.value(W)
        )


@pytest.mark.parametrize("name", NORMS)
@given(Z=matrices, alpha=strengths, seed=seeds)
def test_dual_norm_bounds_all_inner_products(name, Z, alpha, seed):
    """<Z, W> <= dual_norm(Z) value(W); the prox is 0 from dual_norm(Z) on."""
    penalty, W = (
        NORMS[name](alpha, Z.shape[1]),
        np.random.default_rng(seed).normal(size=Z.shape),
    )
    edge = penalty.dual_norm(Z)
    product = edge * penalty.value(W)
    assert np.vdot(Z, W) <= product * (1 + 1e-9) + 1e-12
    assume(edge > 1e-3)
    assert not np.any(
        np.abs(penalty.prox(Z, edge * (1 + 1e-7))) > 1e-6 * np.abs(Z).max()
    )
    assert np.any(penalty.prox(Z, edge * (1 - 1e-5)))


@pytest.mark.parametrize("name", ["spectral box", "quadratic"])
@given(Z=matrices, alpha=strengths, step=strengths, seed=seeds)
def test_rotations_of_the_features_change_nothing(name, Z, alpha, step, seed):
    penalty = ALL[name](alpha, Z.shape[1])
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(Z), len(Z))))
    assert penalty.rotation_invariant
    assert penalty.value(Q @ Z) == pytest.approx(penalty.value(Z), rel=1e-7, abs=1e-9)
    np.testing.assert_allclose(
        penalty.prox(Q @ Z, step), Q @ penalty.prox(Z, step), atol=1e-7
    )


# ---------------------------------------------------------------- special cases


@given(Z=matrices, alpha=strengths, step=strengths)
def test_degenerate_cases_equal_simple_penalties(Z, alpha, step):
    T = Z.shape[1]
    eye = np.eye(T)
    pairs = [
        (FusedGroup(alpha), L21(alpha)),
        (FusedGroup(0.0, alpha), L1(alpha)),
        (CoupledL21(alpha, DenseForm(0.0 * eye)), L21(alpha)),
        (TaskQuadratic(alpha, DenseForm(eye)), SquaredFrobenius(alpha)),
        (TaskQuadratic(1.0, DenseForm(alpha * eye)), SquaredFrobenius(alpha)),
        (CoupledL1(0.0, DenseForm(0.4 * eye)), SquaredFrobenius(0.4)),
        (SpectralBox(alpha, 0.7, T), SquaredFrobenius(2 * 0.7 * alpha)),
    ]
    for special, simple in pairs:
        np.testing.assert_allclose(
            special.prox(Z, step), simple.prox(Z, step), atol=1e-8
        )
        assert special.value(Z) == pytest.approx(simple.value(Z), rel=1e-9)
        if special.is_norm:
            assert special.dual_norm(Z) == pytest.approx(simple.dual_norm(Z), rel=1e-7)
        elif not simple.is_norm:
            assert special.conjugate(Z) == pytest.approx(simple.conjugate(Z), rel=1e-9)
    if T == 1:
        np.testing.assert_allclose(
            L1Inf(alpha).prox(Z, step), L1(alpha).prox(Z, step), atol=1e-9
        )
    # A sparse entry with a ridge: shrink, then scale.
    expected = L1(alpha).prox(Z, step) / (1 + 0.5 * step)
    np.testing.assert_allclose(
        CoupledL1(alpha, DenseForm(0.5 * eye)).prox(Z, step), expected, atol=1e-8
    )


def test_small_eta_is_the_squared_k_support_norm():
    """For k = 1 and eta -> 0 the penalty is r ||W||_*^2, r = alpha eta (1 + eta)."""
    W, eta = np.random.default_rng(0).normal(size=(4, 3)), 1e-9
    penalty = SpectralBox(1.0 / eta, eta, 1)
    assert penalty.value(W) == pytest.approx(TraceNorm(1.0).value(W) ** 2, rel=1e-6)


@given(
    a=arrays(
        np.float64,
        st.integers(1, 8),
        elements=st.floats(0, 100).map(lambda v: 0.0 if v < 1e-6 else v),
    ),
    c=st.floats(1e-3, 10),
    k=st.integers(1, 8),
)
def test_boxes_are_filled_completely(a, c, k):
    q = fill_boxes(a, c, k)
    assert np.all((q >= 0) & (q <= 1))
    assert q.sum() == pytest.approx(min(k, np.count_nonzero(a)), rel=1e-9)
    # Where q is inside, the slopes a^2 / (c + q)^2 agree; empty boxes have smaller
    # slopes, full ones larger.
    slopes = a / (c + q)
    inside = (q > 1e-9) & (q < 1 - 1e-9)
    if inside.any() and np.count_nonzero(a) > k:
        level = slopes[inside].mean()
        np.testing.assert_allclose(slopes[inside], level, rtol=1e-6)
        assert np.all(slopes[q <= 1e-9] <= level * (1 + 1e-6))
        assert np.all(slopes[q >= 1 - 1e-9] >= level * (1 - 1e-6))


@given(z=arrays(np.float64, st.integers(1, 12), elements=entries), strength=strengths)
def test_total_variation_satisfies_its_optimality_conditions(z, strength):
    v = total_variation_prox(z[None], strength)[0]
    u = np.cumsum(z - v)  # Multipliers of the differences
    tolerance = 1e-9 * (1 + np.abs(z).sum())
    assert abs(u[-1]) <= tolerance
    assert np.all(np.abs(u[:-1]) <= strength + tolerance)
    jumps = np.diff(v)
    np.testing.assert_allclose(
        -u[:-1] * np.sign(jumps), strength * (jumps != 0), atol=tolerance * 10
    )


# ---------------------------------------------------------------- comparison with cvxpy


def oracle_value(penalty, V, T):
    """Return the formulas of the docstrings in cvxpy."""
    if isinstance(penalty, L1Inf):
        return penalty.alpha * cp.sum(cp.max(cp.abs(V), axis=1))
    if isinstance(penalty, FusedGroup):
        rows = penalty.alpha * cp.sum(
            cp.norm(V, 2, axis=1)
        ) + penalty.sparsity * cp.sum(cp.abs(V))
        return rows + penalty.fusion * cp.sum(cp.abs(cp.diff(V, axis=1)))
    if isinstance(penalty, SpectralBox):
        M = cp.Variable((T, T), symmetric=True)
        box = [M >> 0, np.eye(T) - M >> 0, cp.trace(M) <= penalty.k]
        return penalty.strength * cp.matrix_frac(V.T, penalty.eta * np.eye(T) + M), box
    quadratic = (
        cp.sum_squares(V @ np.linalg.cholesky(penalty.form.matrix + 1e-13 * np.eye(T)))
        / 2
    )
    if isinstance(penalty, CoupledL21):
        return penalty.alpha * cp.sum(cp.norm(V, 2, axis=1)) + quadratic
    if isinstance(penalty, CoupledL1):
        return penalty.alpha * cp.sum(cp.abs(V)) + quadratic
    return penalty.alpha * quadratic


@pytest.mark.parametrize("name", ALL)
def test_prox_agrees_with_a_conic_solver(name):
    rng = np.random.default_rng(3)
    Z, T = rng.normal(size=(5, 4)), 4
    penalty, V = ALL[name](0.4, T), cp.Variable((5, T))
    form = oracle_value(penalty, V, T)
    form, constraints = form if isinstance(form, tuple) else (form, [])
    program = cp.Problem(
        cp.Minimize(0.6 * form + cp.sum_squares(V - Z) / 2), constraints
    )
    program.solve(
        solver="SCS" if constraints else "CLARABEL",
        **({"eps": 1e-9} if constraints else {}),
    )
    P = penalty.prox(Z, 0.6)
    assert moreau(penalty, P, Z, 0.6) == pytest.approx(program.value, rel=1e-5)
    np.testing.assert_allclose(P, V.value, atol=2e-3)


# -------------------------------------------------------------- parameters and mixtures


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpectralBox(1.0, 0.0, 2), "eta must be positive"),
        (lambda: SpectralBox(1.0, 1.0, 0), "k must be at least 1"),
        (lambda: FusedGroup(0.0, 0.0, 1.0), "equal for all tasks would be free"),
        (lambda: FusedGroup(1.0, -1.0, 1.0), "sparsity must be non-negative"),
        (lambda: CoupledL1(1.0, DenseForm(chain(3))), "positive definite"),
        (lambda: L1Inf(-1.0), "alpha must be non-negative"),
    ],
)
def test_invalid_parameters_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_conjugates_are_infinite_outside_their_domain():
    Z = np.array([[1.0, 1.0]])
    assert TaskQuadratic(1.0, DenseForm(chain(2))).conjugate(Z) == np.inf
    assert TaskQuadratic(1.0, DenseForm(chain(2))).conjugate(
        np.array([[1.0, -1.0]])
    ) == pytest.approx(0.5)
    assert TaskQuadratic(0.0, DenseForm(np.eye(2))).conjugate(Z) == np.inf
    assert TaskQuadratic(0.0, DenseForm(np.eye(2))).conjugate(0 * Z) == 0
    assert CoupledL21(1.0, DenseForm(chain(2))).conjugate(Z) == np.inf
    assert CoupledL21(1.5, DenseForm(chain(2))).conjugate(Z) == 0
    assert SpectralBox(0.0, 1.0, 1).conjugate(Z) == np.inf
    assert SpectralBox(0.0, 1.0, 1).conjugate(0 * Z) == 0
    assert FusedGroup(0.0, 0.0, 0.0).dual_norm(Z) == np.inf


@pytest.mark.parametrize(("first", "second"), [(L1Inf, L1), (TraceNorm, L1)])
@given(W=matrices)
def test_mixture_ranges_match_the_norms(first, second, W):
    """If lam <= low, the second norm is never larger, so the first part is not needed;
    and the reverse.
    """
    low, high = mixture_range(first, second, W.shape)
    assert low * second(1.0).value(W) <= first(1.0).value(W) * (1 + 1e-9) + 1e-12
    assert first(1.0).value(W) <= high * second(1.0).value(W) * (1 + 1e-9) + 1e-12
