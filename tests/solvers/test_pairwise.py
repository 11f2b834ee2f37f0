"""Tasks coupled in pairs: a general convex solver, limits of lam, and certificates."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mtlrun.solvers.mkl.mkl import Coupling
from mtlrun.solvers.pairwise import (
    Flows,
    SimplexQuadratic,
    fuse,
    linear_minimum,
    minimize_on_simplex_ball,
    pair_distances,
    project_simplex_ball,
)


def problem(T=5, M=4, seed=0):
    rng = np.random.default_rng(seed)
    return -rng.uniform(0, 5, size=(T, M)), np.full((T, M), 1.0 / M)


def exact(slopes, curvature, lam):
    """Solve the theta-step by cvxpy."""
    T, M = slopes.shape
    W = cp.Variable((T, M), nonneg=True)
    value = cp.sum(cp.multiply(slopes, W)) + 0.5 * cp.sum(
        cp.multiply(curvature, cp.square(W))
    )
    pairs = sum(cp.norm(W[s] - W[t]) for s in range(T) for t in range(s + 1, T))
    task = cp.Problem(cp.Minimize(value + lam * pairs), [cp.sum(W, axis=1) <= 1])
    task.solve(solver="CLARABEL")
    return W.value, task.value


@pytest.mark.cover
@pytest.mark.parametrize("lam", [0.01, 0.2, 0.6, 3.0])
@pytest.mark.parametrize("curvature", [0.0, 0.5, 8.0])
def test_the_theta_step_matches_a_general_solver(lam, curvature):
    slopes, start = problem()
    c = np.full((5, 1), curvature) * np.linspace(0.5, 1.5, 5)[:, None]
    oracle, value = exact(slopes, c * np.ones_like(slopes), lam)
    fused = fuse(
        start,
        SimplexQuadratic(slopes, c),
        lam,
        Flows(5, 4),
        sigma=0.2,
        tol=1e-7,
        max_iter=20000,
    )
    assert fused.converged
    assert fused.primal == pytest.approx(value, abs=1e-5)
    assert fused.bound <= value + 1e-6
    if curvature:
        assert_allclose(fused.W, oracle, atol=2e-3)


def test_flows_are_a_certificate_at_any_time():
    slopes, start = problem(seed=1)
    term, flows = SimplexQuadratic(slopes, np.zeros((5, 1))), Flows(5, 4)
    value = exact(slopes, np.zeros((5, 4)), 0.3)[1]
    for _ in range(5):
        fused = fuse(start, term, 0.3, flows, sigma=0.3, tol=0.0, max_iter=3)
        assert np.all(np.linalg.norm(flows.values, axis=1) <= 0.3 * (1 + 1e-12))
        assert fused.bound <= value + 1e-6 <= fused.primal + 2e-6
        assert_allclose(flows.divergence().sum(axis=0), 0.0, atol=1e-12)


def test_a_warm_start_takes_fewer_iterations():
    slopes, start = problem(T=8, seed=2)
    term, flows = SimplexQuadratic(slopes, np.full((8, 1), 2.0)), Flows(8, 4)
    options = {"sigma": 0.3, "tol": 1e-6, "max_iter": 5000, "check_every": 1}
    cold = fuse(start, term, 0.1, flows, **options)
    warm = fuse(cold.W, term, 0.1, flows, **options)
    assert warm.n_iter < cold.n_iter / 3


def test_flows_are_shortened_for_a_smaller_lam():
    flows = Flows(3, 2)
    flows.values[:] = [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]
    flows.shrink_to(1.0)
    assert_allclose(flows.values, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


def test_the_limits_of_lam_are_the_other_couplings():
    slopes, start = problem(seed=3)
    c = np.full((5, 1), 3.0)
    weak, _ = Coupling(1e-7, 5, 4).step(start, slopes, c, 1e-8)
    assert_allclose(
        weak, Coupling(0.0, 5, 4).step(start, slopes, c, 1e-8)[0], atol=1e-5
    )
    threshold = max(np.linalg.norm(p - q) for p in slopes for q in slopes) / 5
    strong, _ = Coupling(threshold, 5, 4).step(start, slopes, c, 1e-10)
    common, pull = Coupling(np.inf, 5, 4).step(start, slopes, c, 0.0)
    assert_allclose(strong, common, atol=1e-3)
    assert_allclose(pull.sum(axis=0), 0.0, atol=1e-12)
    assert np.ptp(common, axis=0).max() == 0


@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(0.01, 30))
def test_the_projection_is_the_nearest_point_of_the_simplex_ball(seed, M, scale):
    rng = np.random.default_rng(seed)
    V = scale * rng.normal(size=(3, M))
    W = project_simplex_ball(V)
    assert np.all(W >= 0)
    assert np.all(W.sum(axis=1) <= 1 + 1e-12)
    corners = np.vstack([np.zeros(M), np.eye(M)])
    # The variational inequality at all corners characterizes a projection.
    assert np.all(
        ((V - W)[:, None] * (corners - W[:, None])).sum(axis=2) <= 1e-9 * (1 + scale)
    )


def test_linear_functions_are_minimized_at_corners():
    G = np.array([[1.0, 2.0], [-1.0, -3.0], [0.0, 0.0]])
    W = minimize_on_simplex_ball(G, np.zeros((3, 1)))
    assert W.tolist() == [[0, 0], [0, 1], [0, 0]]
    assert linear_minimum(G) == -3.0 == np.vdot(G, W)


def test_pair_distances_cover_all_pairs():
    W = np.random.default_rng(0).normal(size=(6, 3))
    expected = sum(np.linalg.norm(W[s] - W[t]) for s in range(6) for t in range(s))
    assert pair_distances(W) == pytest.approx(expected)
    assert pair_distances(W[:, ::2]) == pytest.approx(
        sum(np.linalg.norm((W[s] - W[t])[::2]) for s in range(6) for t in range(s))
    )
