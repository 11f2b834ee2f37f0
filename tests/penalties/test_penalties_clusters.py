"""Penalties of clusters: values against definitions, proximal operators against a
general solver, conjugates.
"""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mtlrun.penalties.clusters import ClusterNorm, FeatureClusters, GroupTrace

PENALTIES = [
    ClusterNorm(0.7, 3, 0.5, 1.0, 6.0),
    ClusterNorm(0.7, 1, 0.5, 1.0, 6.0),
    ClusterNorm(0.7, 6, 0.5, 1.0, 6.0),
    ClusterNorm(0.7, 3, 0.5, 2.0, 2.0),
    GroupTrace(0.3, ((0, 2, 3), (1,), (4, 5))),
    FeatureClusters(0.05, 0.4),
]


def matrix(seed=0, d=4, T=6):
    return np.random.default_rng(seed).normal(size=(d, T))


@pytest.mark.cover
@pytest.mark.parametrize("p", PENALTIES, ids=lambda p: repr(p)[:30])
@pytest.mark.parametrize("step", [0.1, 1.0, 7.0])
def test_the_prox_is_optimal(p, step):
    """Three-point inequality: value(V) + <.., ..> is minimal at the prox, compared with
    random and nearby points.
    """
    W = matrix()
    V = p.prox(W, step)
    best = step * p.value(V) + 0.5 * np.sum((V - W) ** 2)
    for seed in range(20):
        for size in (1e-4, 0.1, 2.0):
            other = V + size * matrix(seed + 1)
            value = step * p.value(other) + 0.5 * np.sum((other - W) ** 2)
            # The prox objective is 1-strongly convex.
            assert value >= best + 0.5 * np.sum((other - V) ** 2) - 1e-9


@pytest.mark.parametrize("p", PENALTIES, ids=lambda p: repr(p)[:30])
def test_the_conjugate_is_tight_at_a_prox(p):
    """Fenchel: value(V) + conjugate(Z) >= <V, Z>, with equality for Z = W - prox(W)."""
    W = matrix(3)
    V = p.prox(W, 1.0)
    Z = W - V
    assert p.value(V) + p.conjugate(Z) == pytest.approx(np.vdot(V, Z), rel=1e-9)
    for seed in range(10):
        other = matrix(seed + 50)
        assert p.value(other) + p.conjugate(Z) >= np.vdot(other, Z) - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_zero_singular_values_stay_zero(seed):
    rng = np.random.default_rng(seed)
    W = np.outer(rng.normal(size=8), rng.normal(size=6))
    p = GroupTrace(0.3, ((0, 2, 3), (1, 4, 5)))
    assert p.value(W) == pytest.approx(0.3 * np.sum(W**2), rel=1e-12)


def test_the_cluster_norm_uses_the_best_covariance():
    W, p = matrix(5), ClusterNorm(0.7, 3, 0.5, 1.0, 6.0)
    D = W - W.mean(axis=1, keepdims=True)
    squares = (
        np.linalg.svd(D, compute_uv=False)[:5]
        if min(W.shape) > 5
        else np.linalg.svd(D, compute_uv=False)
    )
    squares = np.concatenate([squares**2, np.zeros(5 - len(squares))])
    s = cp.Variable(5)
    low, high = 1 / 6.0, 1.0
    task = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(squares, cp.inv_pos(s)))),
        [s >= low, s <= high, cp.sum(s) == 2 * high + 3 * low],
    )
    task.solve(solver="CLARABEL")
    expected = 0.7 * (0.5 * 6 * np.sum(W.mean(axis=1) ** 2) + task.value)
    assert p.value(W) == pytest.approx(expected, rel=1e-6)


def test_tasks_in_r_clusters_pay_only_the_between_penalty():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(10, 3))[:, [0, 0, 1, 1, 2, 2]]
    D = W - W.mean(axis=1, keepdims=True)
    p = ClusterNorm(1.0, 3, 1e-9, 1.0, 1e6)
    assert p.value(W) == pytest.approx(np.sum(D**2), rel=1e-5)
    spread = W + 0.1 * rng.normal(size=W.shape)
    D = spread - spread.mean(axis=1, keepdims=True)
    assert p.value(spread) > 1.1 * np.sum(D**2)


def test_all_pairs_of_a_feature_are_counted():
    W, p = matrix(6), FeatureClusters(0.2, 0.4)
    pairs = sum(abs(W[:, s] - W[:, t]).sum() for s in range(6) for t in range(s))
    assert p.value(W) == pytest.approx(0.2 * pairs + 0.4 * np.sum(W**2))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rows_of_any_size_are_clustered_separately(scale):
    """All rows share one isotonic regression, and none may influence another."""
    W = (
        matrix(7, d=50)
        * scale
        * np.random.default_rng(1).uniform(0.01, 10, size=(50, 1))
    )
    p = FeatureClusters(0.1, 1e-9)
    together = p.prox(W, scale)
    alone = np.vstack([p.prox(row[None], scale) for row in W])
    assert_allclose(together, alone, atol=1e-10 * scale)


def test_a_strong_penalty_makes_rows_equal():
    W = matrix(8)
    V = FeatureClusters(100.0, 1e-9).prox(W, 1.0)
    assert_allclose(V, np.repeat(W.mean(axis=1, keepdims=True), 6, axis=1), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClusterNorm(1.0, 0, 1.0, 1.0, 2.0), "n_clusters must be at least 1"),
        (lambda: ClusterNorm(1.0, 2, 1.0, 3.0, 2.0), "between <= within"),
        (lambda: FeatureClusters(1.0, 0.0), "ridge must be positive"),
        (lambda: GroupTrace(-1.0, ((0,),)), "alpha must be non-negative"),
    ],
)
def test_invalid_parameters_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_with_zero_strength_only_zero_has_a_finite_conjugate():
    for p in (ClusterNorm(0.0, 2, 1.0, 1.0, 2.0), GroupTrace(0.0, ((0, 1),))):
        assert p.conjugate(np.zeros((2, 2))) == 0.0
        assert p.conjugate(np.ones((2, 2))) == np.inf
