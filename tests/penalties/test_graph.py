"""Task graphs: Laplacian, coupling matrix, its limits, and invalid graphs."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mtlrun.errors import MemoryLimitError
from mtlrun.penalties.graph import (
    check_similarity,
    couple_graph,
    couple_tasks,
    laplacian,
)

TASKS = np.array(["a", "b", "c"])
CHAIN = np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


def test_the_complete_graph_is_ones_plus_identity_with_a_known_inverse():
    A = check_similarity("all", np.arange(29))
    assert_allclose(A, np.ones((29, 29)) + np.eye(29))
    coupling = couple_tasks(A)
    assert_allclose(coupling.matrix, (np.eye(29) + 1) / 30)
    assert_allclose(coupling.matrix @ coupling.inverse, np.eye(29), atol=1e-12)
    assert coupling.common == pytest.approx((1 / 30, 1 / 30))


def test_the_laplacian_of_a_chain_is_tridiagonal():
    assert_allclose(laplacian(CHAIN), [[2, -2, 0], [-2, 3, -1], [0, -1, 1]])
    assert_allclose(laplacian(CHAIN + np.diag([5, 6, 7])), laplacian(CHAIN))


@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(0, 100))
def test_the_coupling_matrix_is_the_inverse_and_averages(seed, n_tasks, strength):
    rng = np.random.default_rng(seed)
    A = rng.uniform(0.01, 1, size=(n_tasks, n_tasks))
    coupling = couple_tasks(check_similarity(A + A.T, np.arange(n_tasks)), strength)
    M = coupling.matrix
    assert_allclose(M @ coupling.inverse, np.eye(n_tasks), atol=1e-9)
    assert_allclose(M.sum(axis=1), 1)
    assert M.min() > -1e-12
    F = coupling.factor().toarray()
    assert_allclose(F @ F.T, M, atol=1e-12)


@pytest.mark.cover
@pytest.mark.parametrize("A", [CHAIN, np.full((3, 3), 0.7), np.zeros((1, 1))])
@pytest.mark.parametrize("strength", [0.0, 0.3, 5.0])
def test_equal_similarities_take_the_short_form(A, strength):
    coupling = couple_tasks(A, strength)
    expected = np.linalg.inv(np.eye(len(A)) + strength * laplacian(A))
    assert_allclose(coupling.matrix, expected, atol=1e-12)
    assert (coupling.common is not None) == (A is not CHAIN or strength == 0)
    if coupling.common:
        a, b = coupling.common
        assert_allclose(a * np.eye(len(A)) + b, expected, atol=1e-12)
    assert_allclose(
        (coupling.factor() @ coupling.factor().T).toarray(), expected, atol=1e-12
    )


@pytest.mark.parametrize("A", [CHAIN, np.ones((3, 3))])
def test_a_strong_coupling_pools_tasks(A):
    assert_allclose(couple_tasks(A, 1e12).matrix, np.full((3, 3), 1 / 3), atol=1e-10)


def test_a_frame_with_task_names_may_have_any_order():
    order = ["c", "a", "b"]
    frame = pd.DataFrame(CHAIN, index=list("abc"), columns=list("abc")).loc[
        order, order
    ]
    assert_allclose(check_similarity(frame, TASKS), CHAIN)
    assert_allclose(check_similarity(pd.DataFrame(CHAIN), TASKS), CHAIN)
    with pytest.raises(
        ValueError, match=r"rows \['c', 'a', 'x'\].*tasks are \['a', 'b', 'c'\]"
    ):
        check_similarity(frame.rename(index={"b": "x"}), TASKS)


def test_rounding_does_not_count_as_asymmetry_and_groups_are_allowed():
    A = CHAIN.copy()
    A[0, 1] *= 1 + 1e-15
    A = check_similarity(A, TASKS)
    assert np.array_equal(A, A.T)
    pairs = np.kron(np.eye(2), np.ones((2, 2)))
    assert_allclose(
        couple_tasks(check_similarity(pairs, np.arange(4)), 1e12).matrix,
        pairs / 2,
        atol=1e-10,
    )


def test_invalid_graphs_are_rejected():
    for graph, message in [
        ("some", "graph must be 'all' or a similarity matrix"),
        (np.ones((2, 2)), r"one row and one column per task, \(3, 3\), got \(2, 2\)"),
        (np.ones(3), "2 dimension"),
        (CHAIN + np.eye(3, k=1), "must be symmetric: 3 from 'a' to 'b' but 2 back"),
        (-CHAIN, "must not be negative: the similarity of 'a' and 'b' is -2"),
        (
            np.diag([1.0, 1, 1]),
            r"isolated tasks, similar to no other: \['a', 'b', 'c'\]",
        ),
        (
            np.kron([[1, 0], [0, 0]], CHAIN[:2, :2])[:3, :3],
            r"isolated tasks.*\['c'\].*coupling=0",
        ),
        (np.where(CHAIN == 1, np.nan, CHAIN), "graph contains NaN"),
        ([["a"]], "graph must be numeric"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_similarity(graph, TASKS)


def test_a_sparse_similarity_stays_sparse():
    A = check_similarity(sp.csr_array(CHAIN), TASKS)
    assert sp.issparse(A)
    assert_allclose(A.toarray(), CHAIN)
    assert_allclose(laplacian(A).toarray(), laplacian(CHAIN))
    assert_allclose(couple_tasks(A, 2.0).matrix, couple_tasks(CHAIN, 2.0).matrix)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (-CHAIN, "must not be negative"),
        (np.triu(CHAIN), "must be symmetric"),
        (np.diag([1.0, 1.0, 1.0]), "isolated tasks"),
        (CHAIN[:2, :2], "one row and one column per task"),
        (np.where(CHAIN > 1, np.nan, CHAIN), "NaN"),
    ],
)
def test_invalid_sparse_similarities_are_rejected_like_dense_ones(wrong, message):
    for graph in (wrong, sp.csr_array(wrong)):
        with pytest.raises(ValueError, match=message):
            check_similarity(graph, TASKS)


def test_equal_similarities_of_many_tasks_need_no_matrix():
    coupling = couple_graph("all", np.arange(5), 0.7)
    small = couple_tasks(check_similarity("all", np.arange(5)), 0.7)
    V = np.random.default_rng(0).normal(size=(5, 3))
    assert_allclose(coupling.apply(V), small.matrix @ V)
    assert_allclose(coupling.row(2, V), (small.matrix @ V)[2])
    assert_allclose(
        coupling.part(np.array([3, 0, 3])), small.matrix[np.ix_([3, 0, 3], [3, 0, 3])]
    )
    assert_allclose(coupling.diagonal, np.diag(small.matrix))
    assert_allclose(coupling.inverse, small.inverse)
    many = couple_graph("all", np.arange(10**6))
    assert_allclose(many.apply(np.ones((10**6, 1))), 1.0)


@pytest.mark.parametrize(
    "make",
    [lambda t: couple_graph("all", t).matrix, lambda t: check_similarity("all", t)],
)
def test_matrices_of_all_pairs_are_rejected_if_they_exceed_the_memory(make):
    with pytest.raises(MemoryLimitError, match="1000000 tasks"):
        make(np.arange(10**6))
