"""Memory-saving forms match dense ones and scale to thousands of tasks or features."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mtlrun.estimators import (
    GraphMTL,
    GraphMTLClassifier,
    GraphSVC,
    IndependentRidge,
    PooledRidge,
    TemporalGroupLasso,
)

TIGHT = {"tol": 1e-10, "max_iter": 50_000}


def ragged(n_tasks, n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks * n_rows, n_features))
    ids = np.repeat(np.arange(n_tasks), n_rows)
    return (
        X,
        X @ rng.normal(size=n_features) + rng.normal(size=len(X)),
        rng.permutation(ids),
    )


def similarity(graph, n_tasks):
    if graph == "mean":
        return np.full((n_tasks, n_tasks), 1.0 / n_tasks)
    neighbours = np.diag(np.ones(n_tasks - 1), 1)
    return neighbours + neighbours.T


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_same_certificate(model, dense):
    """Assert that both certify their objective and agree on it to 1e-8."""
    assert model.converged_
    assert dense.converged_
    assert -1e-12 <= model.gap_ <= 1e-10
    assert model.objective_[-1] == pytest.approx(dense.objective_[-1], rel=1e-8)
    assert_allclose(model.coef_, dense.coef_, atol=1e-4)


@pytest.mark.cover(2)
@pytest.mark.parametrize("sparsity", [0.0, 0.3])
@pytest.mark.parametrize("solver", ["admm", "fista"])
@pytest.mark.parametrize("graph", ["mean", "chain"])
def test_named_graphs_equal_their_matrices(graph, solver, sparsity):
    X, y, ids = ragged(6, 12, 4)
    model = GraphMTL(2.0, graph, sparsity, 0.1, solver=solver, **TIGHT).fit(
        X, y, task_id=ids
    )
    dense = GraphMTL(
        2.0, similarity(graph, 6), sparsity, 0.1, solver=solver, **TIGHT
    ).fit(X, y, task_id=ids)
    assert_same_certificate(model, dense)


@pytest.mark.cover(2)
@pytest.mark.parametrize("sparsity", [0.0, 0.3])
@pytest.mark.parametrize("solver", ["admm", "fista"])
@pytest.mark.parametrize("graph", ["mean", "chain"])
def test_sparse_graphs_equal_dense_ones(graph, solver, sparsity):
    X, y, ids = ragged(6, 12, 4)
    A = similarity(graph, 6)
    model = GraphMTL(2.0, sp.csr_array(A), sparsity, 0.1, solver=solver, **TIGHT).fit(
        X, y, task_id=ids
    )
    assert_same_certificate(
        model,
        GraphMTL(2.0, A, sparsity, 0.1, solver=solver, **TIGHT).fit(X, y, task_id=ids),
    )


def test_sparse_graphs_work_for_classifiers_and_chains_of_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.where(X[:, :1] + rng.normal(size=(60, 5)) > 0, 1.0, -1.0)
    A = similarity("chain", 5)
    model = GraphMTLClassifier(2.0, sp.csr_array(A), ridge=0.1, **TIGHT).fit(X, Y)
    assert_same_certificate(
        model, GraphMTLClassifier(2.0, A, ridge=0.1, **TIGHT).fit(X, Y)
    )
    chain = TemporalGroupLasso(0.5, smoothness=2.0, ridge=0.1, **TIGHT).fit(X, Y)
    assert chain.gap_ <= 1e-10


@pytest.mark.parametrize("graph", ["all", "sparse"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_svms_of_equally_similar_tasks_match_their_matrix(graph, loss):
    X, y, ids = ragged(5, 12, 4)
    y, A = np.sign(y), np.ones((5, 5)) + np.eye(5)
    A = A if graph == "all" else similarity("chain", 5)
    graph_argument = graph if graph == "all" else sp.csr_array(A)
    options = {"C": 0.5, "loss": loss, "solver": "dcd", **TIGHT}
    model = GraphSVC(graph=graph_argument, **options).fit(X, y, task_id=ids)
    assert_same_certificate(model, GraphSVC(graph=A, **options).fit(X, y, task_id=ids))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["mean", "chain", "sparse"])
def test_eight_thousand_tasks_with_five_rows_are_fitted(graph):
    n_tasks = 8_000
    X, y, ids = ragged(n_tasks, 5, 4)
    if graph == "sparse":
        near = sp.diags_array(
            [np.ones(n_tasks - 1)], offsets=[1], shape=(n_tasks, n_tasks)
        )
        graph = sp.csr_array(near + near.T)
    model = GraphMTL(graph=graph)
    assert (
        peak_of(lambda: model.fit(X, y, task_id=ids)) < 150e6
    )  # A matrix of pairs has 512 MB.
    assert model.converged_
    assert 0 <= model.gap_ <= 1e-4


def test_five_thousand_separate_tasks_are_fitted():
    X, y, ids = ragged(5_000, 5, 4)
    model = IndependentRidge().fit(X, y, task_id=ids)
    rows = ids == 777
    single = IndependentRidge().fit(X[rows], y[rows])
    assert_allclose(model.coef_[777], single.coef_[0])


def test_svms_of_twenty_thousand_tasks_are_fitted():
    X, y, ids = ragged(20_000, 5, 4)
    model = GraphSVC(C=0.1)
    assert peak_of(lambda: model.fit(X, np.where(y > 0, 1, -1), task_id=ids)) < 100e6
    assert model.converged_


@pytest.mark.parametrize("n_labels", [3000])
def test_three_thousand_labels_are_fitted(n_labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 20))
    Y = X @ rng.normal(size=(20, n_labels)) + rng.normal(size=(60, n_labels))
    model = GraphMTL()
    assert peak_of(lambda: model.fit(X, Y)) < 8 * n_labels**2
    assert model.gap_ <= 1e-4
    assert IndependentRidge().fit(X, Y).coef_.shape == (n_labels, 20)


# ---------------------------------------------------------- ridge without Gram matrices


@pytest.mark.cover(2)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 50.0])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(40, 6), (8, 15)])
def test_ridge_by_conjugate_gradients_matches_the_direct_solution(
    shape, kind, intercept, alpha, cache_memory
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) * rng.uniform(0.1, 3, size=shape[1]) + 0.5
    Y, w = rng.normal(size=(shape[0], 3)), rng.uniform(0.5, 2, size=shape[0])
    direct = IndependentRidge(alpha, fit_intercept=intercept).fit(
        kind(X), Y, sample_weight=w
    )
    cache_memory(0)
    model = IndependentRidge(alpha, fit_intercept=intercept).fit(
        kind(X), Y, sample_weight=w
    )
    assert model.n_iter_ > 1
    assert model.converged_
    assert_allclose(model.coef_, direct.coef_, atol=1e-8)
    assert_allclose(model.intercept_, direct.intercept_, atol=1e-8)
    assert model.objective_[-1] == pytest.approx(
        direct.objective_[-1], rel=1e-8, abs=1e-12
    )


@pytest.mark.parametrize("estimator", [IndependentRidge, PooledRidge])
def test_ridge_handles_wide_sparse_data(estimator):
    """A single Gram matrix of the smaller side would need 80 GB."""
    rng, n = np.random.default_rng(0), 100_000
    X = sp.csr_array(
        (rng.random(3 * n), (np.repeat(np.arange(n), 3), rng.integers(n, size=3 * n))),
        shape=(n, n),
    )
    Y = rng.normal(size=(n, 2))
    model = estimator(10.0)
    assert peak_of(lambda: model.fit(X, Y)) < 200e6
    assert model.converged_
    residual = Y - model.predict(X)
    if estimator is IndependentRidge:
        assert_allclose(X.T @ residual, 10.0 * model.coef_.T, atol=1e-8)
    assert_allclose(
        residual.sum(axis=0) if estimator is IndependentRidge else residual.sum(),
        0.0,
        atol=1e-6,
    )


def test_nonconvergence_of_ridge_names_the_remedy(cache_memory):
    cache_memory(0)
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    X = (rng.normal(size=(30, 30)) * np.logspace(0, -12, 30)) @ basis
    y = rng.normal(size=30)
    with pytest.warns(UserWarning, match="larger alpha"):
        assert not IndependentRidge(1e-14).fit(X, y).converged_
