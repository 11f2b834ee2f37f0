"""Eigenbases reproduce designs in all layouts, with weights and centering."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.errors import MemoryLimitError
from mtlrun.penalties.norms import SquaredFrobenius
from mtlrun.problem.rotation import SharedRotation, TaskRotation, prepare
from mtlrun.problem.taskdata import TaskData

SHARED = ["shared", "wide", "sparse", "weighted"]
LAYOUTS = [*SHARED, "ragged", "short", "ragged-weighted", "masked", "cell-weighted"]


def designs(data, fit_intercept):
    """Return the weighted, centered design and targets of each task."""
    out = []
    for t in range(data.n_tasks):
        X, y, w = data.task(t)
        X = X.toarray() if sp.issparse(X) else X
        w = np.ones(len(y)) if w is None else w
        if fit_intercept:
            X = X - np.average(X, axis=0, weights=w)
            y = y - np.average(y, weights=w)
        out.append((np.sqrt(w)[:, None] * X, np.sqrt(w) * y))
    return out


@pytest.mark.cover
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_squared_loss_is_diagonal_in_the_coordinates(small, layout, fit_intercept):
    data = small.make(layout)
    rotation = prepare(data, fit_intercept)
    assert isinstance(rotation, SharedRotation if layout in SHARED else TaskRotation)
    W = np.random.default_rng(1).normal(size=(data.n_features, data.n_tasks))
    q = rotation.rotate(W)
    fitted = (
        rotation.energy
        - 2 * (rotation.cross * q).sum(axis=0)
        + (rotation.squares * q**2).sum(axis=0)
    ).tolist()
    expected = [
        np.sum((y - X @ W[:, t]) ** 2)
        for t, (X, y) in enumerate(designs(data, fit_intercept))
    ]
    assert_allclose(fitted, expected, rtol=1e-10)


@pytest.mark.cover
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_ridge_has_no_gap_in_the_coordinates(small, layout, fit_intercept, scale):
    rotation = prepare(small.make(layout), fit_intercept)
    q = scale * rotation.cross / (scale * rotation.squares + 3.0)
    optimum = scale * rotation.value(q) + 1.5 * np.sum(q**2)
    dual = rotation.dual(q, [SquaredFrobenius(3.0)], scale)
    assert dual == pytest.approx(optimum, rel=1e-9)
    least = 0.5 * scale * rotation.unexplained
    assert rotation.dual(q, [SquaredFrobenius(0.0)], scale) == pytest.approx(least)


@pytest.mark.cover
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_lift_is_an_isometry_and_unexplained_is_the_least_squares_residual(
    small, layout, fit_intercept
):
    data = small.make(layout)
    rotation = prepare(data, fit_intercept)
    Q = np.random.default_rng(2).normal(size=(rotation.rank, data.n_tasks)) * (
        rotation.squares > 0
    )
    lifted = rotation.lift(Q)
    assert lifted.shape == (data.n_features, data.n_tasks)
    assert_allclose(
        np.linalg.norm(lifted, axis=0), np.linalg.norm(Q, axis=0), rtol=1e-9
    )
    assert_allclose(rotation.rotate(lifted), Q, atol=1e-9)
    residual = 0.0
    for X, y in designs(data, fit_intercept):
        residual += np.sum((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2)
    assert rotation.unexplained == pytest.approx(residual, rel=1e-8, abs=1e-10)


@pytest.mark.cover
@pytest.mark.parametrize("layout", ["shared", "wide", "sparse", "ragged", "short"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_scores_and_pull_are_adjoint_and_predict(small, layout, fit_intercept):
    data = small.make(layout)
    rotation = prepare(data, fit_intercept)
    rng = np.random.default_rng(3)
    Q, field = (
        rng.normal(size=(rotation.rank, data.n_tasks)),
        rng.normal(size=data.targets.shape),
    )
    assert np.vdot(rotation.scores(Q), field) == pytest.approx(
        np.vdot(Q, rotation.pull(field)), rel=1e-9
    )
    assert_allclose(
        rotation.scores(Q), rotation.operator.forward(rotation.lift(Q)), atol=1e-9
    )


@pytest.mark.cover
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_slope_matches_the_rows_and_needs_no_basis_of_many_features(
    small, layout, fit_intercept
):
    data = small.make(layout)
    rotation = prepare(data, fit_intercept)
    W = np.random.default_rng(5).normal(size=(data.n_features, data.n_tasks))
    expected = [
        X.T @ (y - X @ W[:, t]) for t, (X, y) in enumerate(designs(data, fit_intercept))
    ]
    assert_allclose(rotation.slope(W), np.transpose(expected), atol=1e-9)
    assert "basis" not in rotation.__dict__ or data.n_rows >= data.n_features


@pytest.mark.cover
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [1 + 1e-4, 1 - 1e-4])
def test_inexact_squares_do_not_agree_with_the_rows(small, layout, factor):
    rotation = prepare(small.make(layout), False)
    Q = np.random.default_rng(6).normal(size=(rotation.rank, rotation.data.n_tasks))
    W = rotation.lift(Q)
    assert rotation.agrees(W, 1e-6)
    rotation.squares = rotation.squares * factor
    rotation.__dict__.pop("basis", None)
    assert not rotation.agrees(rotation.lift(Q), 1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_intercepts_are_optimal(small, layout):
    data = small.make(layout)
    W = np.random.default_rng(4).normal(size=(data.n_features, data.n_tasks))
    b = prepare(data, fit_intercept=True).intercept(W)
    for t in range(data.n_tasks):
        X, y, w = data.task(t)
        assert b[t] == pytest.approx(np.average(y - X @ W[:, t], weights=w), rel=1e-9)
    assert_allclose(prepare(data).intercept(W), 0.0)


def test_uncentered_intercepts_predict_the_same(small):
    data = small.make("shared")
    rotation = prepare(data, fit_intercept=True)
    rng = np.random.default_rng(5)
    W, b = rng.normal(size=(4, 3)), rng.normal(size=3)
    plain = data.X @ W + rotation.uncentred(W, b)
    assert_allclose(plain, rotation.operator.forward(W) + b, atol=1e-12)
    assert_allclose(prepare(data).uncentred(W, b), b)


@pytest.mark.cover(2)
@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_equals_dense(shape, fit_intercept, weighted):
    rng = np.random.default_rng(6)
    X = np.where(rng.random(shape) < 0.3, rng.normal(size=shape), 0.0)
    Y = rng.normal(size=(shape[0], 2))
    w = rng.uniform(0.0, 2.0, shape[0]) if weighted else None
    dense, sparse = (
        prepare(TaskData.from_matrix(A, Y, weights=w), fit_intercept)
        for A in (X, sp.csr_array(X))
    )
    assert_allclose(sparse.squares, dense.squares, rtol=1e-8, atol=1e-12)
    assert_allclose(np.abs(sparse.cross), np.abs(dense.cross), rtol=1e-6, atol=1e-9)
    assert sparse.unexplained == pytest.approx(dense.unexplained, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("shape", [(12, 40), (40, 12)])
def test_ill_conditioned_designs_have_orthonormal_bases(shape):
    rng = np.random.default_rng(7)
    U, _ = np.linalg.qr(rng.normal(size=(shape[0], 12)))
    V, _ = np.linalg.qr(rng.normal(size=(shape[1], 12)))
    s = np.logspace(0, -5.5, 12)
    data = TaskData.from_matrix((U * s) @ V.T, rng.normal(size=(shape[0], 2)))
    rotation = prepare(data)
    assert rotation.rank == 12
    assert_allclose(rotation.basis.T @ rotation.basis, np.eye(12), atol=1e-12)
    assert_allclose(np.sqrt(rotation.squares[::-1, 0]), s, rtol=1e-3)
    Q = rng.normal(size=(12, 2))
    assert_allclose(rotation.lift(Q), rotation.basis @ Q, atol=1e-12)


def test_repeated_rows_reduce_the_rank():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(6, 20))
    data = TaskData.from_matrix(np.vstack([X, X]), rng.normal(size=(12, 3)))
    assert prepare(data).rank == 6


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 4), (4, 1)])
def test_a_design_of_zeros_has_an_empty_basis(shape):
    Y = np.ones((shape[0], 2))
    rotation = prepare(TaskData.from_matrix(np.zeros(shape), Y))
    assert rotation.rank == 1
    assert rotation.unexplained == pytest.approx(Y.size)
    assert_allclose(rotation.rotate(np.ones((shape[1], 2))) * rotation.squares, 0.0)


@pytest.mark.parametrize("layout", ["shared", "wide", "sparse", "weighted"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_retarget_equals_a_fresh_rotation(small, layout, fit_intercept):
    data = small.make(layout)
    block = data.subset_tasks([2, 0])
    reused, fresh = (
        prepare(data, fit_intercept).retarget(block),
        prepare(block, fit_intercept),
    )
    W = np.random.default_rng(9).normal(size=(data.n_features, 2))
    assert reused.data is block
    assert_allclose(reused.squares, fresh.squares)
    assert_allclose(reused.cross, fresh.cross, atol=1e-12)
    assert_allclose(reused.explained, fresh.explained)
    assert_allclose(reused.energy, fresh.energy)
    assert_allclose(reused.intercept(W), fresh.intercept(W), atol=1e-12)


def test_a_basis_that_exceeds_the_memory_is_rejected_with_the_remedy(
    small, free_memory
):
    free_memory(1000, always=True)
    with pytest.raises(MemoryLimitError, match="solve_fista"):
        prepare(small.make("ragged"))
    assert prepare(small.make("shared")).rank == 4
