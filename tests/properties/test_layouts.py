"""The layouts of TaskData represent the same linear map and the same loss."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.penalties.norms import L12, L21, SquaredFrobenius, TraceNorm
from mtlrun.problem.losses import LOSSES
from mtlrun.problem.objective import centre, duality_gap
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData

seeds = st.integers(0, 2**32 - 1)
sides = st.integers(1, 6)


def ragged(rng, d, T, sparse, weighted):
    sizes = rng.integers(1, 7, T)
    X = rng.normal(size=(sizes.sum(), d)) * (rng.random((sizes.sum(), d)) < 0.7)
    ids = rng.permutation(np.repeat(np.arange(T), sizes))
    w = rng.uniform(0.1, 2.0, sizes.sum()) if weighted else None
    return TaskData.from_stacked(
        sp.csr_array(X) if sparse else X, rng.normal(size=sizes.sum()), ids, weights=w
    )


def shared(rng, d, T, sparse, weighted):
    n = int(rng.integers(1, 8))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    w = rng.uniform(0.1, 2.0, n) if weighted else None
    return TaskData.from_matrix(
        sp.csr_array(X) if sparse else X, rng.normal(size=(n, T)), weights=w
    )


@pytest.mark.cover(2)
@pytest.mark.parametrize("make", [ragged, shared])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@given(seed=seeds, d=sides, T=sides)
def test_adjoint_gram_and_norm_belong_to_the_operator(
    make, sparse, weighted, seed, d, T
):
    rng = np.random.default_rng(seed)
    data = make(rng, d, T, sparse, weighted)
    for operator in (TaskOperator(data), centre(data).operator):
        W, r = rng.normal(size=(d, T)), rng.normal(size=data.targets.shape)
        z = operator.forward(W)
        assert np.vdot(z, r) == pytest.approx(
            np.vdot(W, operator.adjoint(r)), rel=1e-9, abs=1e-9
        )
        w = data.effective_weights()
        weighted_z = z if w is None else w * z
        grams = operator.gram(data.weights)
        product = grams @ W if grams.ndim == 2 else np.einsum("tij,jt->it", grams, W)
        np.testing.assert_allclose(product, operator.adjoint(weighted_z), atol=1e-10)
        size = np.sqrt(np.vdot(z, weighted_z))
        assert (
            size <= operator.norm(data.weights) * np.linalg.norm(W) * (1 + 1e-9) + 1e-9
        )


@given(seed=seeds, d=sides, T=sides, sparse=st.booleans())
def test_dense_sparse_and_ragged_agree(seed, d, T, sparse):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(n, T))
    form = sp.csr_array(X) if sparse else X
    shared, many = TaskData.from_matrix(X, Y), TaskData.from_list([form] * T, list(Y.T))
    W, b, R = rng.normal(size=(d, T)), rng.normal(size=T), rng.normal(size=(n, T))
    left, right = TaskOperator(shared), TaskOperator(many)
    np.testing.assert_allclose(
        left.forward(W, b).T.ravel(), right.forward(W, b), atol=1e-11
    )
    np.testing.assert_allclose(left.adjoint(R), right.adjoint(R.T.ravel()), atol=1e-11)
    assert left.norm() == pytest.approx(right.norm(), rel=1e-9)
    penalties = [TraceNorm(0.5), L12(0.4)]
    parts = rng.normal(size=(2, d, T))
    for name in ("squared", "logistic", "squared_hinge"):
        loss = LOSSES[name](1.5)
        labelled = np.where(Y >= 0, 1.0, -1.0) if loss.labels else Y
        a = shared.with_targets(labelled)
        c = many.with_targets(labelled.T.ravel())
        for intercept in (None, b):
            first = duality_gap(a, loss, penalties, parts, intercept)
            second = duality_gap(c, loss, penalties, parts, intercept)
            assert first.primal == pytest.approx(second.primal, rel=1e-9)
            assert first.dual == pytest.approx(second.dual, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("layout", ["shared", "ragged"])
@given(seed=seeds, intercept=st.booleans())
def test_weights_are_repetitions(layout, seed, intercept):
    rng = np.random.default_rng(seed)
    n, d, T = 6, 3, 2
    X, Y, counts = (
        rng.normal(size=(n, d)),
        rng.choice([-1.0, 1.0], (n, T)),
        rng.integers(0, 4, n),
    )
    counts[0] = 1
    again = np.repeat(np.arange(n), counts)
    if layout == "shared":
        a, b = (
            TaskData.from_matrix(X, Y, weights=counts),
            TaskData.from_matrix(X[again], Y[again]),
        )
    else:
        a = TaskData.from_list([X] * T, list(Y.T), weights=[counts] * T)
        b = TaskData.from_list([X[again]] * T, list(Y[again].T))
    parts, b0 = rng.normal(size=(1, d, T)), rng.normal(size=T) if intercept else None
    for name in ("squared", "logistic", "squared_hinge"):
        first = duality_gap(a, LOSSES[name](), [L21(0.5)], parts, b0)
        second = duality_gap(b, LOSSES[name](), [L21(0.5)], parts, b0)
        assert first.primal == pytest.approx(second.primal, rel=1e-9)
        assert first.dual == pytest.approx(second.dual, rel=1e-7, abs=1e-9)
    left, right = centre(a), centre(b)
    np.testing.assert_allclose(left.x_mean, right.x_mean, atol=1e-12)
    np.testing.assert_allclose(left.y_mean, right.y_mean, atol=1e-12)
    np.testing.assert_allclose(
        left.operator.gram(a.weights), right.operator.gram(), atol=1e-11
    )
    assert TaskOperator(a).norm(a.weights) == pytest.approx(
        TaskOperator(b).norm(), rel=1e-9
    )


@given(seed=seeds, sparse=st.booleans(), intercept=st.booleans())
def test_masked_targets_are_dropped_rows(seed, sparse, intercept):
    rng = np.random.default_rng(seed)
    n, d, T = 7, 3, 3
    X, Y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], (n, T))
    mask = rng.random((n, T)) < 0.6
    mask[0] = True
    masked = TaskData.from_matrix(
        sp.csr_array(X) if sparse else X, np.where(mask, Y, np.nan)
    )
    dropped = TaskData.from_list(
        [X[mask[:, t]] for t in range(T)], [Y[mask[:, t], t] for t in range(T)]
    )
    parts, b = rng.normal(size=(2, d, T)), rng.normal(size=T) if intercept else None
    for name in ("squared", "logistic", "squared_hinge"):
        penalties = [TraceNorm(0.4), SquaredFrobenius(0.3)]
        first = duality_gap(masked, LOSSES[name](), penalties, parts, b)
        second = duality_gap(dropped, LOSSES[name](), penalties, parts, b)
        assert first.primal == pytest.approx(second.primal, rel=1e-9)
        assert first.dual == pytest.approx(second.dual, rel=1e-7, abs=1e-9)
    left, right = centre(masked), centre(dropped)
    np.testing.assert_allclose(
        left.operator.gram(masked.weights), right.operator.gram(), atol=1e-11
    )
    np.testing.assert_allclose(left.y_mean, right.y_mean, atol=1e-12)


@given(seed=seeds, T=sides)
def test_sorting_rows_can_be_undone(seed, T):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, T, 12)
    X, W = rng.normal(size=(12, 2)), rng.normal(size=(2, T))
    data = TaskData.from_stacked(X, np.arange(12.0), ids)
    z = data.unsort(TaskOperator(data).forward(W[:, data.tasks]))
    np.testing.assert_allclose(z, np.einsum("ij,ji->i", X, W[:, ids]), atol=1e-12)
    np.testing.assert_array_equal(data.unsort(data.y), np.arange(12.0))


@given(seed=seeds, T=st.integers(2, 6), sparse=st.booleans())
def test_blocks_of_tasks_combine_to_all_tasks(seed, T, sparse):
    rng = np.random.default_rng(seed)
    for data in (ragged(rng, 3, T, sparse, True), shared(rng, 3, T, sparse, False)):
        W = rng.normal(size=(3, T))
        blocks = np.array_split(rng.permutation(T), 2)
        parts = [data.subset_tasks(block) for block in blocks]
        pieces = [
            p.sum_by_task(TaskOperator(p).forward(W[:, b]))
            for p, b in zip(parts, blocks, strict=True)
        ]
        total = data.sum_by_task(TaskOperator(data).forward(W))
        np.testing.assert_allclose(
            np.concatenate(pieces), total[np.concatenate(blocks)], atol=1e-10
        )
