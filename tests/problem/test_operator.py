"""TaskOperator: products, Gram matrices and norms in every layout."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mtlrun.problem import operator as operator_module
from mtlrun.problem.operator import TaskOperator
from mtlrun.problem.taskdata import TaskData

SIZES = (4, 7, 3)
D = 5


def designs(rng, sizes=SIZES, d=D, sparse=False):
    Xs = [rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) for n in sizes]
    return [sp.csr_array(X) for X in Xs] if sparse else Xs


def dense(X):
    return X.toarray() if sp.issparse(X) else X


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def use_iterations(monkeypatch):
    """Return a function after which norms come from iterations, not from all values."""
    return lambda: monkeypatch.setattr(operator_module, "_EXACT_NORM_SIZE", 1)


# Tasks of this size are multiplied together; with 2,000 columns, one by one.
@pytest.mark.parametrize("d", [D, 2000])
@pytest.mark.parametrize("sparse", [False, True])
def test_ragged_products_equal_those_of_single_tasks(rng, sparse, d):
    Xs = designs(rng, d=d, sparse=sparse)
    data = TaskData.from_list(Xs, [np.zeros(n) for n in SIZES])
    operator = TaskOperator(data)
    W, b, r = rng.normal(size=(d, 3)), rng.normal(size=3), rng.normal(size=sum(SIZES))
    expected = np.concatenate([dense(X) @ W[:, t] + b[t] for t, X in enumerate(Xs)])
    np.testing.assert_allclose(operator.forward(W, b), expected, atol=1e-13)
    pieces = np.split(r, np.cumsum(SIZES)[:-1])
    expected = np.stack(
        [dense(X).T @ piece for X, piece in zip(Xs, pieces, strict=True)], axis=1
    )
    np.testing.assert_allclose(operator.adjoint(r), expected, atol=1e-13)
    assert (operator.forward(W).shape, operator.adjoint(r).shape) == ((14,), (d, 3))


@pytest.mark.parametrize(
    ("sizes", "is_padded"), [((2, 2, 2, 2000), False), ((800, 900), True)]
)
def test_very_uneven_tasks_are_not_padded(rng, sizes, is_padded):
    targets = [np.zeros(n) for n in sizes]
    data = TaskData.from_list(designs(rng, sizes), targets)
    W = np.zeros((D, len(sizes)))
    TaskOperator(data).forward(W)  # Imports
    tracemalloc.start()
    try:
        TaskOperator(data).forward(W)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Padded rows are a copy of all rows.
    assert (peak > data.X.nbytes) == is_padded


@pytest.mark.parametrize("sparse", [False, True])
def test_shared_products_equal_those_of_single_tasks(rng, sparse):
    X = designs(rng, (6,), sparse=sparse)[0]
    operator = TaskOperator(TaskData.from_matrix(X, np.zeros((6, 3))))
    W, b, R = rng.normal(size=(D, 3)), rng.normal(size=3), rng.normal(size=(6, 3))
    np.testing.assert_allclose(operator.forward(W, b), dense(X) @ W + b)
    np.testing.assert_allclose(operator.adjoint(R), dense(X).T @ R)
    assert isinstance(operator.forward(W), np.ndarray)


def test_forward_returns_a_new_array(rng):
    data = TaskData.from_list(designs(rng), [np.zeros(n) for n in SIZES])
    operator, W = TaskOperator(data), np.ones((D, 3))
    first = operator.forward(W)
    kept = first.copy()
    operator.forward(2 * W)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_shared_design_has_one_gram_matrix(rng, sparse, weighted):
    X = designs(rng, (6,), sparse=sparse)[0]
    w = rng.random(6) if weighted else None
    operator = TaskOperator(TaskData.from_matrix(X, np.zeros((6, 2))))
    scaled = dense(X) * (1.0 if w is None else np.sqrt(w)[:, None])
    assert isinstance(operator.gram(w), np.ndarray)
    np.testing.assert_allclose(operator.gram(w), scaled.T @ scaled, atol=1e-14)
    np.testing.assert_allclose(operator.outer_gram(w), scaled @ scaled.T, atol=1e-14)


def test_gram_matrices_may_have_weights_by_task(rng):
    X, w = designs(rng, (6,))[0], rng.random((6, 2))
    grams = TaskOperator(TaskData.from_matrix(X, np.zeros((6, 2)))).gram(w)
    for t in range(2):
        np.testing.assert_allclose(grams[t], X.T @ (w[:, [t]] * X))


@pytest.mark.parametrize("sparse", [False, True])
def test_ragged_tasks_have_separate_gram_matrices(rng, sparse):
    Xs = designs(rng, sparse=sparse)
    data = TaskData.from_list(Xs, [np.zeros(n) for n in SIZES])
    w = rng.random(sum(SIZES))
    operator = TaskOperator(data)
    pieces = np.split(w, np.cumsum(SIZES)[:-1])
    for t, (X, piece) in enumerate(zip(Xs, pieces, strict=True)):
        np.testing.assert_allclose(
            operator.gram()[t], dense(X).T @ dense(X), atol=1e-14
        )
        np.testing.assert_allclose(
            operator.gram(w)[t], dense(X).T @ (piece[:, None] * dense(X)), atol=1e-14
        )


@pytest.mark.cover(2)
@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_the_norm_of_a_shared_design_is_its_spectral_norm(
    rng, shape, sparse, weighted, shifted, exact, use_iterations
):
    if not exact:
        use_iterations()
    X = rng.normal(size=shape)
    w = rng.random(shape[0]) if weighted else None
    shift = rng.normal(size=shape[1]) if shifted else None
    data = TaskData.from_matrix(
        sp.csr_array(X) if sparse else X, np.zeros((shape[0], 4))
    )
    A = X - (0.0 if shift is None else shift)
    A = A if w is None else np.sqrt(w)[:, None] * A
    norm = TaskOperator(data, shift=shift).norm(w)
    truth = np.linalg.norm(A, 2)
    assert norm == pytest.approx(truth, rel=1e-12 if exact else 2e-6)
    assert norm >= truth * (1 - 1e-14)


def test_the_norm_is_the_largest_over_tasks_and_not_that_of_the_stack(rng):
    Xs = designs(rng)
    data = TaskData.from_list(Xs, [np.zeros(n) for n in SIZES])
    assert TaskOperator(data).norm() == pytest.approx(
        max(np.linalg.norm(X, 2) for X in Xs)
    )
    shared = TaskData.from_matrix(Xs[0], np.zeros((4, 9)))
    assert TaskOperator(shared).norm() == pytest.approx(np.linalg.norm(Xs[0], 2))


def test_the_norm_with_weights_by_task_is_an_upper_bound(rng):
    X, w = rng.normal(size=(8, 3)), rng.random((8, 4))
    norm = TaskOperator(TaskData.from_matrix(X, np.zeros((8, 4)))).norm(w)
    exact = max(np.linalg.norm(np.sqrt(w[:, [t]]) * X, 2) for t in range(4))
    assert exact <= norm <= np.linalg.norm(X, 2)


def test_the_iterative_norm_works_for_centered_one_hot_features(rng, use_iterations):
    use_iterations()
    X = np.eye(4)[rng.integers(0, 4, 30)]
    operator = TaskOperator(
        TaskData.from_matrix(X, np.zeros((30, 1))), shift=X.mean(axis=0)
    )
    assert operator.norm() == pytest.approx(
        np.linalg.norm(X - X.mean(axis=0), 2), rel=1e-5
    )


@pytest.mark.parametrize("exact", [False, True])
def test_the_norm_of_a_zero_design_is_zero(exact, use_iterations):
    if not exact:
        use_iterations()
    operator = TaskOperator(TaskData.from_matrix(np.zeros((6, 4)), np.zeros((6, 1))))
    assert operator.norm() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("by_task", [False, True])
def test_a_shift_moves_every_row(rng, sparse, by_task):
    X = designs(rng, (6,), sparse=sparse)[0]
    shift = rng.normal(size=(D, 2) if by_task else D)
    data = TaskData.from_matrix(X, np.zeros((6, 2)))
    operator = TaskOperator(data, shift=shift)
    W, b, R = rng.normal(size=(D, 2)), rng.normal(size=2), rng.normal(size=(6, 2))
    for t in range(2):
        A = dense(X) - (shift[:, t] if by_task else shift)
        np.testing.assert_allclose(
            operator.forward(W, b)[:, t], A @ W[:, t] + b[t], atol=1e-13
        )
        np.testing.assert_allclose(operator.adjoint(R)[:, t], A.T @ R[:, t], atol=1e-13)
        gram = operator.gram()[t] if by_task else operator.gram()
        np.testing.assert_allclose(gram, A.T @ A, atol=1e-13)
    if not by_task:
        np.testing.assert_allclose(operator.outer_gram(), A @ A.T, atol=1e-13)
