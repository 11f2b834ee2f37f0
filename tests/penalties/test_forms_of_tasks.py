"""Quadratic forms over tasks without matrices, compared with the matrices."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mtlrun.penalties.coupled import ChainForm, DenseForm, MeanForm, SparseForm
from mtlrun.penalties.graph import laplacian
from mtlrun.problem.operator import conjugate_gradients


def ring(n_tasks):
    """Return a sparse similarity of neighbors in a ring and some random pairs."""
    rng = np.random.default_rng(0)
    far = sp.random_array((n_tasks, n_tasks), density=0.05, rng=rng)
    near = sp.diags_array(
        [np.ones(n_tasks - 1), np.full(1, 0.5)],
        offsets=[1, n_tasks - 1],
        shape=(n_tasks, n_tasks),
    )
    return sp.csr_array(near + near.T + far + far.T)


def base(name, n_tasks):
    """Return a form and its matrix."""
    differences = np.diff(np.eye(n_tasks), axis=0)
    if name == "mean":
        return MeanForm(n_tasks), np.eye(n_tasks) - 1.0 / n_tasks
    if name == "chain":
        return ChainForm(n_tasks), differences.T @ differences
    A = ring(n_tasks)
    return SparseForm(laplacian(A)), laplacian(A.toarray())


@pytest.mark.cover
@pytest.mark.parametrize(
    ("name", "n_tasks"),
    [
        ("mean", 1),
        ("mean", 2),
        ("mean", 40),
        ("chain", 1),
        ("chain", 2),
        ("chain", 7),
        ("sparse", 3),
        ("sparse", 40),
    ],
)
@pytest.mark.parametrize(("strength", "ridge"), [(1.0, 1.0), (30.0, 1e-3), (0.0, 2.0)])
def test_forms_agree_with_their_matrices(name, n_tasks, strength, ridge):
    form, L = base(name, n_tasks)
    form, dense = (
        form.scaled(strength, ridge),
        DenseForm(strength * L + ridge * np.eye(n_tasks)),
    )
    W = np.random.default_rng(1).normal(size=(5, n_tasks))
    assert form.n_tasks == n_tasks
    assert form.is_definite
    np.testing.assert_allclose(form.matrix, dense.matrix, atol=1e-12)
    np.testing.assert_allclose(form.times(W), W @ dense.matrix, atol=1e-12)
    for step in (1e-3, 1.0, 1e3):
        np.testing.assert_allclose(
            form.resolve(W, step), dense.resolve(W, step), rtol=1e-9, atol=1e-11
        )
    assert form.inverse_energy(W) == pytest.approx(dense.inverse_energy(W), rel=1e-9)


@pytest.mark.parametrize("name", ["mean", "chain"])
@pytest.mark.parametrize("n_tasks", [1, 2, 9])
def test_eigenvectors_are_orthonormal_and_diagonalize(name, n_tasks):
    form, L = base(name, n_tasks)
    V = form.rotate(np.eye(n_tasks))
    np.testing.assert_allclose(V.T @ V, np.eye(n_tasks), atol=1e-14)
    np.testing.assert_allclose(V.T @ L @ V, np.diag(form.values), atol=1e-14)
    np.testing.assert_allclose(form.back(V), np.eye(n_tasks), atol=1e-14)


@pytest.mark.parametrize("name", ["mean", "chain", "sparse"])
def test_outside_the_range_the_inverse_is_infinite(name):
    form, _ = base(name, 5)
    assert not form.is_definite
    assert form.inverse_energy(np.ones((1, 5))) == np.inf


def test_an_inexact_inverse_is_never_too_small():
    """A certificate relies on it."""
    # Conjugate gradients take as many steps as there are tasks, and stop earlier.
    near = np.ones(2499)
    ends = sp.diags_array([near, near], offsets=[-1, 1], shape=(2500, 2500))
    form = SparseForm(laplacian(sp.csr_array(ends))).scaled(1.0, 1e-6)
    W = np.random.default_rng(1).normal(size=(1, 2500))
    exact = ChainForm(2500).scaled(1.0, 1e-6).inverse_energy(W)
    assert form.inverse_energy(W) > 1.001 * exact


@pytest.mark.parametrize("name", ["mean", "chain", "sparse"])
def test_tens_of_thousands_of_tasks_need_no_matrix_of_pairs(name):
    n_tasks = 30_000
    if name == "sparse":
        near = sp.diags_array(
            [np.ones(n_tasks - 1)], offsets=[1], shape=(n_tasks, n_tasks)
        )
        form = SparseForm(laplacian(sp.csr_array(near + near.T))).scaled(1.0, 1.0)
    else:
        form = base_of_many(name, n_tasks).scaled(1.0, 1.0)
    W = np.random.default_rng(0).normal(size=(3, n_tasks))
    tracemalloc.start()
    form.inverse_energy(form.times(form.resolve(W, 1.0)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * W.nbytes


def base_of_many(name, n_tasks):
    return MeanForm(n_tasks) if name == "mean" else ChainForm(n_tasks)


def test_conjugate_gradients_solve_columns_of_any_size():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 20))
    G = A.T @ A + 1e-3 * np.eye(20)
    B = rng.normal(size=(20, 4)) * [1.0, 1e8, 0.0, 1e-8]
    solution = conjugate_gradients(lambda V: G @ V, B, diagonal=np.diag(G))
    np.testing.assert_allclose(solution.X, np.linalg.solve(G, B), rtol=1e-8)
    assert solution.converged
    assert not conjugate_gradients(lambda V: G @ V, B, max_iter=2).converged


def test_conjugate_gradients_give_the_minimum_norm_solution():
    A = np.random.default_rng(0).normal(size=(5, 12))
    b = A.T @ np.ones((5, 1))
    np.testing.assert_allclose(
        conjugate_gradients(lambda V: A.T @ (A @ V), b).X,
        np.linalg.pinv(A) @ np.ones((5, 1)),
    )
