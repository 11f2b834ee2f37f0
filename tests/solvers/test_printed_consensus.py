"""Algorithm 2 of the MT-MKL paper, taken literally, and with the updates corrected one by one."""

from itertools import combinations

import numpy as np
import pytest

from mtlrun.solvers.pairwise import Flows, SimplexQuadratic, fuse, pair_distances, project_simplex_ball

T, M, RHO, LAM = 5, 4, 10.0, 0.6
PAIRS = np.array(list(combinations(range(T), 2)))
SLOPES = -np.random.default_rng(0).uniform(0, 5, size=(T, M))
#: Update -> the equations that it corrects.
FIXES = ("pair", "theta", "projection")


def shrink(a, strength):
    """Return a, (N, 2, M), with every pair as a whole shrunk as in (13)."""
    norms = np.linalg.norm(a.reshape(len(a), -1), axis=1)
    return np.maximum(0.0, 1.0 - strength / np.maximum(norms, 1e-300))[:, None, None] * a


def shrink_difference(a, strength):
    """Keep the mean of the two halves and shrink their difference: the prox of strength * ||a_1 - a_2||."""
    mean, half = a.mean(axis=1, keepdims=True), (a[:, :1] - a[:, 1:]) / 2.0
    half = np.maximum(0.0, 1.0 - strength / np.maximum(np.linalg.norm(half, axis=2, keepdims=True), 1e-300)) * half
    return np.concatenate([mean + half, mean - half], axis=1)


def consensus(fixes, rounds):
    """Run Algorithm 2; `fixes` are updates that are corrected. Return theta and the largest entry of every round."""
    theta = np.full((T, M), 1.0 / M)
    s, z = theta[PAIRS], theta.copy()
    u, v, beta = np.zeros_like(s), np.zeros_like(theta), np.zeros_like(theta)
    sizes = []
    for _ in range(rounds):
        if "pair" in fixes:
            s = shrink_difference(theta[PAIRS] - u, LAM / RHO)
        else:
            s = shrink(theta[PAIRS] + u, LAM / RHO)  # (12)
        total = np.zeros_like(theta)
        np.add.at(total, PAIRS, s + u)
        theta = (total + z + v - SLOPES / RHO) / (T if "theta" in fixes else T - 1)  # (14)
        if "projection" in fixes:
            z = project_simplex_ball(theta - v)
        else:
            y = np.maximum(theta + v - beta, 0.0) / 2.0  # (16)
            z = y + beta - (y + beta).mean(axis=1, keepdims=True) + 1.0 / M  # (17)
            beta = beta + y - z  # (18)
        u, v = u + s - theta[PAIRS], v + z - theta
        sizes.append(np.abs(theta).max())
    return theta, np.array(sizes)


def test_taken_literally_it_diverges():
    sizes = consensus((), 100)[1]
    assert sizes[0] < 10
    assert sizes[-1] > 1e6
    assert np.all(np.diff(sizes[50:]) > 0)


@pytest.mark.parametrize("left", FIXES)
def test_each_of_the_three_updates_misses_the_optimum_by_itself(left):
    best = fuse(
        np.full((T, M), 1.0 / M), SimplexQuadratic(SLOPES, np.zeros((T, 1))), LAM, Flows(T, M), sigma=0.3, tol=1e-8
    )
    theta = consensus(FIXES, 3000)[0]
    assert float(np.vdot(SLOPES, theta)) + LAM * pair_distances(theta) == pytest.approx(best.primal, abs=1e-4)
    wrong = consensus([name for name in FIXES if name != left], 300)[0]
    assert not np.allclose(wrong, theta, atol=1e-2)
