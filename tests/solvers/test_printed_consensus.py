"""Algorithm 2 of the MT-MKL paper as printed and with corrected updates."""

import numpy as np
import pytest

from mtlrun.papers.mtmkl.update import FIXES, consensus
from mtlrun.solvers.pairwise import Flows, SimplexQuadratic, fuse, pair_distances

T, M, LAM = 5, 4, 0.6
START = np.full((T, M), 1.0 / M)
SLOPES = -np.random.default_rng(0).uniform(0, 5, size=(T, M))


def test_as_printed_it_diverges():
    solution = consensus(START, SLOPES, LAM)
    assert not solution.stopped
    assert solution.sizes[0] < 10
    assert solution.sizes[-1] > 1e9
    assert np.all(np.diff(solution.sizes[50:]) > 0)
    assert solution.residual > 0.1


@pytest.fixture(scope="module")
def corrected():
    """Return the weights after all corrections, which reach the optimum."""
    best = fuse(
        START,
        SimplexQuadratic(SLOPES, np.zeros((T, 1))),
        LAM,
        Flows(T, M),
        sigma=0.3,
        tol=1e-8,
    )
    theta = consensus(START, SLOPES, LAM, FIXES, max_iter=3000, stop=False).theta
    assert float(np.vdot(SLOPES, theta)) + LAM * pair_distances(theta) == pytest.approx(
        best.primal, abs=1e-4
    )
    return theta


@pytest.mark.slow
@pytest.mark.parametrize("left", FIXES)
def test_each_single_correction_misses_the_optimum(corrected, left):
    fixes = [name for name in FIXES if name != left]
    wrong = consensus(START, SLOPES, LAM, fixes, max_iter=300, stop=False).theta
    assert not np.allclose(wrong, corrected, atol=1e-2)


def test_corrected_it_stops_near_the_optimum_after_tens_of_iterations():
    best = fuse(
        START,
        SimplexQuadratic(SLOPES, np.zeros((T, 1))),
        LAM,
        Flows(T, M),
        sigma=0.3,
        tol=1e-8,
    )
    solution = consensus(START, SLOPES, LAM, FIXES)
    assert solution.stopped
    assert 5 < solution.n_iter < 100
    assert solution.residual < 0.05
    value = float(np.vdot(SLOPES, solution.theta)) + LAM * pair_distances(
        solution.theta
    )
    assert value == pytest.approx(best.primal, rel=0.05)
