"""The span of few distinct rows: rotation-invariant models are the same."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.problem.losses import SquaredLoss
from mtlrun.problem.rotation import in_row_space
from mtlrun.problem.taskdata import TaskData
from mtlrun.solvers.clustered import solve_coclus, solve_metag

D = 40


def pairs(seed=0, n=6, classes=3):
    """Return one-vs-one tasks of three classes: every example is in two tasks."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(classes, n, D)) + 2.0 * rng.normal(size=(classes, 1, D))
    Xs, ys = [], []
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        Xs.append(np.vstack([rows[a], rows[b]]))
        ys.append(np.repeat([1.0, -1.0], n))
    return TaskData.from_list(Xs, ys)


def test_products_equal_those_of_the_design():
    data = pairs()
    small, basis = in_row_space(data)
    assert basis.shape == (D, 18)
    assert_allclose(basis.T @ basis, np.eye(18), atol=1e-12)
    assert_allclose(small.X @ basis.T, data.X, atol=1e-12)


@pytest.mark.parametrize("model", ["coclus", "metag"])
def test_the_model_is_the_same(model):
    full, part = _both(pairs(), model)
    assert part.parts.shape == full.parts.shape
    assert part.objective[-1] == pytest.approx(full.objective[-1], rel=1e-6)
    assert_allclose(part.W, full.W, atol=1e-3 * np.abs(full.W).max())


def _both(dense, model):
    """Fit without the span of the rows, as for sparse rows, and with it."""
    solutions = []
    for data in (dense.with_design(sp.csr_array(dense.X)), dense):
        if model == "coclus":
            solutions.append(solve_coclus(data, SquaredLoss(), 0.5, 2.0, 1, tol=1e-9))
        else:
            solutions.append(solve_metag(data, 0.5, ridge=3.0, tol=1e-7))
    return solutions


@pytest.mark.parametrize("kind", ["shared", "sparse", "many rows"])
def test_other_designs_do_not_change(kind):
    data = pairs(n=14) if kind == "many rows" else pairs()
    if kind == "sparse":
        data = data.with_design(sp.csr_array(data.X))
    if kind == "shared":
        data = TaskData.from_matrix(
            data.X, np.sign(np.random.default_rng(0).normal(size=(len(data.X), 2)))
        )
    same, basis = in_row_space(data)
    assert same is data
    assert basis is None
