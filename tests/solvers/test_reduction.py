"""The eigenbasis of a shared design changes no iterate of APG and LADM."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.penalties.norms import L1, L12, TraceNorm
from mtlrun.problem.losses import SquaredHingeLoss, SquaredLoss
from mtlrun.problem.rotation import find_basis, prepare
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.robust import solve_apg, solve_ladm

ROBUST = [TraceNorm(1.0), L12(0.7)]


def problem(n=30, d=8, T=6, *, sparse=False, rank=None):
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d)) + 0.5
    if rank is not None:
        X = X[:, :rank] @ rng.normal(size=(rank, d))
    Y = (
        X @ rng.normal(size=(d, 2)) @ rng.normal(size=(2, T))
        + rng.normal(size=(n, T))
        + 1.0
    )
    return TaskData.from_matrix(
        sp.csr_array(np.where(np.abs(X) > 0.6, X, 0.0)) if sparse else X, Y
    )


CASES = {
    "tall": problem(),
    "wide": problem(8, 20),
    "sparse": problem(sparse=True),
    "sparse wide": problem(9, 25, sparse=True),
    "rank 3": problem(rank=3),
}


@pytest.mark.cover(
    2,
    algorithm=[
        (solve_apg, {"variant": "paper"}),
        (solve_apg, {"variant": "fast"}),
        (solve_apg, {"stop": "gap", "tol": 1e-3}),
        (solve_ladm, {"variant": "corrected"}),
        (solve_ladm, {"stop": "gap", "tol": 1e-3}),
        (solve_ladm, {"variant": "sequential"}),
        (solve_ladm, {"variant": "paper", "mu": 1e-2, "max_iter": 60}),
    ],
    case=CASES,
    fit_intercept=[False, True],
)
def test_the_iterates_are_the_same_in_both_forms(algorithm, case, fit_intercept):
    solve, options = algorithm
    data, loss = CASES[case], SquaredLoss(0.6)
    seen = {"eigenbasis": [], "paper": []}
    results = {
        form: solve(
            data,
            loss,
            ROBUST,
            form=form,
            fit_intercept=fit_intercept,
            callback=lambda *at, form=form: seen[form].append(at[:2]) and False,
            **options,
        )
        for form in seen
    }
    ours, direct = results["eigenbasis"], results["paper"]
    both = min(len(steps) for steps in seen.values())
    assert both > 1
    assert_allclose(
        seen["eigenbasis"][:both], seen["paper"][:both], rtol=1e-6, atol=1e-8
    )
    if (
        options.get("stop") == "gap"
    ):  # Excluding the unexplainable part improves the certificate of the eigenbasis.
        assert ours.n_iter <= direct.n_iter
        return
    assert ours.n_iter == direct.n_iter
    assert_allclose(ours.parts, direct.parts, atol=1e-6)
    assert_allclose(ours.intercept, direct.intercept, atol=1e-5)
    assert ours.stop_crit == pytest.approx(direct.stop_crit, rel=1e-3)
    if solve is solve_ladm:
        assert ours.info["objective"] == direct.info["objective"]
        assert ours.info["mu"] == direct.info["mu"]
        assert ours.info["feasibility"] == pytest.approx(
            direct.info["feasibility"], rel=1e-3, abs=1e-10
        )


@pytest.mark.parametrize("solve", [solve_apg, solve_ladm])
def test_warm_starts_and_given_bases_work(solve):
    data, loss = CASES["sparse"], SquaredLoss(0.6)
    rotation = prepare(data)
    cold = solve(data, loss, ROBUST, rotation=rotation)
    again = solve(data, loss, ROBUST, rotation=rotation, start=cold)
    assert again.n_iter < cold.n_iter
    assert_allclose(again.parts, cold.parts, atol=1e-2)
    part = data.subset_tasks([4, 1, 2])
    block = solve(part, loss, ROBUST, rotation=rotation.retarget(part))
    assert_allclose(
        block.parts, solve(part, loss, ROBUST, form="paper").parts, atol=1e-6
    )
    with pytest.raises(ValueError, match="from other data"):
        solve(part, loss, ROBUST, rotation=rotation)
    with pytest.raises(ValueError, match="form"):
        solve(data, loss, ROBUST, form="rotated")


def test_reduced_data_keep_all_norms():
    data = CASES["rank 3"]
    rotation = prepare(data)
    small = rotation.diagonal_data()
    assert small.X.shape == (4, 3)
    W = np.random.default_rng(0).normal(size=(2, 3, data.n_tasks))
    lifted = np.stack([rotation.lift(Q) for Q in W])
    assert_allclose(rotation.rotate(lifted), W, atol=1e-12)
    assert_allclose(np.linalg.norm(lifted, axis=1), np.linalg.norm(W, axis=1))
    assert_allclose(
        np.linalg.norm(small.targets - small.X @ W[0], axis=0),
        np.linalg.norm(data.targets - data.X @ lifted[0], axis=0),
    )


def test_only_problems_without_a_basis_are_reduced():
    data, loss = CASES["tall"], SquaredLoss(1.0)
    weighted = TaskData.from_matrix(data.X, data.targets, weights=np.ones(30))
    gaps = np.array(data.targets)
    gaps[0, 0] = np.nan
    assert find_basis(data, loss, ROBUST, False) is not None
    assert find_basis(weighted, loss, ROBUST, False) is not None
    assert find_basis(weighted, loss, ROBUST, False, weighted=False) is None
    assert find_basis(TaskData.from_matrix(data.X, gaps), loss, ROBUST, False) is None
    assert find_basis(data, SquaredHingeLoss(1.0), ROBUST, False) is None
    assert find_basis(data, loss, [TraceNorm(1.0), L1(1.0)], False) is None
    assert (
        find_basis(
            TaskData.from_list([data.X] * 2, list(data.targets.T[:2])),
            loss,
            ROBUST,
            False,
        )
        is None
    )
