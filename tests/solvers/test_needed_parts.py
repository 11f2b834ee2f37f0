"""A part is left out if the penalty of the other part is never larger."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mtlrun.penalties.norms import (
    L1,
    L12,
    L21,
    SquaredFrobenius,
    TraceNorm,
    needed_parts,
)
from mtlrun.problem.losses import SquaredLoss
from mtlrun.solvers.convex.admm import solve_admm

NORMS = [L1, L12, L21, TraceNorm]
SHAPES = [(4, 4), (4, 3), (2, 5), (1, 4), (4, 1), (1, 1)]


def test_robust_mtl_has_three_ranges_of_lam():
    shape = (10, 16)
    assert needed_parts([TraceNorm(1.0), L12(1.0)], shape) == [0]
    assert needed_parts([TraceNorm(1.0), L12(0.99)], shape) == [0, 1]
    assert needed_parts([TraceNorm(1.0), L12(0.26)], shape) == [0, 1]
    assert needed_parts([TraceNorm(1.0), L12(0.25)], shape) == [1]


def least_alpha(p, q, shape):
    """Return the smallest alpha with p(alpha) left out beside q(1) (bisection)."""
    low, high = 0.1, 100.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (
            (low, middle)
            if 0 not in needed_parts([p(middle), q(1.0)], shape)
            else (middle, high)
        )
    return high


@pytest.mark.cover(3, p=NORMS, q=NORMS, shape=SHAPES)
def test_a_part_is_left_out_if_the_other_never_costs_more(p, q, shape):
    rng = np.random.default_rng(0)
    d, T = shape
    corner, row, column = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    corner[0, 0], row[0], column[:, 0] = 1.0, 1.0, 1.0
    trials = [
        corner,
        row,
        column,
        np.ones(shape),
        np.eye(d, T),
        *rng.normal(size=(20, d, T)),
    ]
    if shape == (4, 4):
        trials.append(
            np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
        )
    worst = max(q(1.0).value(W) / p(1.0).value(W) for W in trials)
    assert least_alpha(p, q, shape) >= worst * (1 - 1e-9)
    if shape == (4, 4):  # No later than necessary
        assert least_alpha(p, q, shape) == pytest.approx(worst)


def test_penalties_without_a_dual_norm_and_single_ones_are_kept():
    assert needed_parts([SquaredFrobenius(5.0), L1(0.1)], (3, 3)) == [0, 1]
    assert needed_parts([L12(1.0)], (3, 3)) == [0]
    assert needed_parts([L12(1.0), L12(1.0)], (3, 3)) == [0]
    assert needed_parts([L21(2.0), L21(1.0)], (3, 3)) == [1]


class UnknownNorm(TraceNorm):
    """A norm of which nobody knows how it compares with others."""


@pytest.mark.parametrize("lam", [0.2, 1.0, 1.5])
def test_the_optimum_is_the_same_with_and_without_the_part(small, lam):
    data = small.make("shared")
    loss, second = SquaredLoss(2.0), L12(lam)
    with_ = solve_admm(data, loss, [TraceNorm(1.0), second], tol=1e-8)
    without = solve_admm(data, loss, [UnknownNorm(1.0), second], tol=1e-8)
    assert len(with_.info["needed"]) == 1
    assert without.info["needed"] == [0, 1]
    assert_allclose(without.W, with_.W, atol=1e-4)
    assert with_.objective[-1] == pytest.approx(without.objective[-1], rel=1e-7)
    unneeded = ({0, 1} - set(with_.info["needed"])).pop()
    assert not with_.parts[unneeded].any()
