"""The theoretical statements of the FETR paper, and that each check can fail."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from mtlrun.data.sets.simulate import simulate_fetr
from mtlrun.papers.fetr.theory import fetr_theory, matching_excess, step_gap
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.relationship.fetr import (
    FetrProblem,
    FetrState,
    Precision,
    exact_precision,
)

BOX = (0.01, 100.0)


@pytest.fixture(scope="module")
def shared_rows():
    return simulate_fetr(n=200, d=12, m=5)


@pytest.fixture(scope="module")
def moment():
    factor = np.random.default_rng(0).standard_normal((6, 4))
    return factor @ factor.T


def test_the_four_statements_hold_on_simulated_data(shared_rows):
    values = fetr_theory(shared_rows, seed=0).values
    assert values["covariance_rank"] == 5
    assert values["rank_deficit"] == 12 - 5
    assert values["matching_excess"] < 1e-12
    assert values["step_gap"] < 1e-9
    assert values["contraction_over_bound"] <= 1.000001
    assert values["steps_over_bound"] <= 1


def test_as_many_tasks_as_features_lose_no_rank():
    square = simulate_fetr(n=200, d=5, m=5)
    assert fetr_theory(square, seed=0).values["rank_deficit"] == 0


def test_a_step_that_is_too_long_does_not_contract(shared_rows):
    values = fetr_theory(shared_rows, seed=0, step_factor=2.0).values
    assert values["contraction_over_bound"] > 1
    assert np.isnan(values["steps"])


def test_the_smallest_matching_has_no_excess_in_any_order():
    rng = np.random.default_rng(1)
    values = rng.uniform(0.1, 5, 7)
    spectrum = rng.uniform(0, 3, 7)
    assert matching_excess(values, spectrum) == pytest.approx(0, abs=1e-14)
    assert matching_excess(values[::-1], spectrum) == pytest.approx(0, abs=1e-14)


def test_the_excess_is_relative_to_the_smallest_matching_of_all_permutations():
    values = np.array([1.0, 2.0, 4.0])
    spectrum = np.array([3.0, 1.0, 0.5])
    weights = [
        float(values @ spectrum[list(order)]) for order in permutations(range(3))
    ]
    opposite = float(np.sort(values)[::-1] @ np.sort(spectrum))
    assert opposite == min(weights)
    assert opposite < max(weights)
    assert matching_excess(values, spectrum) == 0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_closed_form_is_certified_in_any_unit(moment, scale):
    precision = exact_precision(scale * moment, 5, *BOX)
    assert step_gap(precision, scale * moment, 5, *BOX) < 1e-12


@pytest.mark.parametrize("change", [0.9, 1.1])
def test_a_matrix_other_than_the_minimum_has_a_gap(moment, change):
    exact = exact_precision(moment, 5, *BOX)
    moved = Precision(np.clip(change * exact.values, *BOX), exact.vectors)
    assert step_gap(moved, moment, 5, *BOX) > 1e-4


def test_the_flip_flop_step_is_not_the_minimum(moment):
    biased = exact_precision(moment, 5, *BOX, fudge=0.1)
    assert step_gap(biased, moment, 5, *BOX) > 1e-4


def test_the_gap_bounds_the_gain_of_any_feasible_matrix(moment):
    rng = np.random.default_rng(2)
    point = Precision.scalar(6, 1.0)

    def objective(precision):
        return np.vdot(moment, precision.matrix) - 5 * precision.logdet

    gap = step_gap(point, moment, 5, *BOX) * np.trace(moment)
    for _ in range(200):
        basis = np.linalg.qr(rng.standard_normal((6, 6))).Q
        other = Precision(np.exp(rng.uniform(*np.log(BOX), 6)), basis)
        assert objective(point) - objective(other) <= gap + 1e-9


def test_without_bounds_the_objective_has_no_minimum(shared_rows):
    data = TaskData.from_matrix(shared_rows.X, shared_rows.y)
    rho = 2.0
    problem = FetrProblem(data, 1.0, rho, 1e-9, 1e9)
    W = np.zeros((12, 5))
    objectives = []
    for scale in (1.0, 1e3, 1e6):
        state = FetrState(W, Precision.scalar(12, scale), Precision.scalar(5, scale))
        objectives.append(problem.fit_term(W) + problem.prior(state))
    falls = np.diff(objectives)
    np.testing.assert_allclose(falls, -2 * rho * 12 * 5 * np.log(1e3))
