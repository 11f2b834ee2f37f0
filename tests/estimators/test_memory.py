"""Memory estimates against measured use; models that do not fit are rejected."""

import sys
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from mtlrun.errors import MemoryLimitError
from mtlrun.estimators import (
    CMTL,
    FETR,
    MTFL,
    MTFRL,
    MTRL,
    ClusteredMTL,
    CoClus,
    DirtyMTL,
    FlexClus,
    GraphMTL,
    GraphMTLClassifier,
    GraphSVC,
    IndependentLasso,
    IndependentRidge,
    JointFeatureMTL,
    MultiTaskKernelSVC,
    PooledRidge,
    TraceNormMTL,
    Whom,
)
from mtlrun.estimators.baselines import TaskFeature
from mtlrun.estimators.network import MTNetwork
from mtlrun.problem.memory import require

MODELS = [
    GraphMTL(),
    GraphMTL(solver="fista"),
    GraphMTL(graph="chain", solver="admm"),
    GraphMTLClassifier(solver="fista"),
    GraphMTLClassifier(solver="admm"),
    GraphSVC(),
    MTFL(),
    MTRL(),
    MTRL(solver="fista"),
    MultiTaskKernelSVC(max_iter=100),
    MultiTaskKernelSVC(fit_intercept=False, gram="on_the_fly"),
    MultiTaskKernelSVC(fit_intercept=False, gram="precomputed"),
    IndependentRidge(),
    IndependentLasso(),
    PooledRidge(),
    TraceNormMTL(),
    JointFeatureMTL(solver="admm"),
    CMTL(),
    ClusteredMTL(),
    CoClus(),
    FlexClus(),
    Whom(),
]
#: Methods with terms in pairs of tasks or features
PAIRED = [
    FETR(),
    FETR(w_solver="cg"),
    MTFRL(),
    GraphMTL(sparsity=0.1),
    GraphMTL(graph=[]),
    GraphSVC(graph=[]),
    CoClus(),
]
#: Allowed ratio of estimate to use
FACTOR = 12
#: Bytes of exact SVM steps, which only some fits need
STEPS = 130e6


def make(shape):
    rng = np.random.default_rng(0)
    if shape == "tall":
        return rng.normal(size=(500, 40)), rng.normal(size=(500, 6)), None
    if shape == "wide":
        return rng.normal(size=(50, 2000)), rng.normal(size=(50, 6)), None
    if shape == "labels":
        return rng.normal(size=(40, 30)), rng.normal(size=(40, 40)), None
    if shape == "many rows":
        return rng.normal(size=(800, 8)), rng.normal(size=(800, 25)), None
    if shape == "many tasks":
        return rng.normal(size=(30, 5)), rng.normal(size=(30, 100)), None
    if shape == "many features":
        return rng.normal(size=(30, 100)), rng.normal(size=(30, 5)), None
    if shape == "ragged":
        return (
            rng.normal(size=(500, 50)),
            rng.normal(size=500),
            np.repeat(np.arange(10), 50),
        )
    n, d = 200, 2000
    X = sp.csr_array(
        (rng.random(5 * n), (np.repeat(np.arange(n), 5), rng.integers(d, size=5 * n))),
        shape=(n, d),
    )
    return X, rng.normal(size=(n, 4)), None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.cover(model=MODELS, shape=["tall", "wide", "labels", "ragged", "sparse"])
def test_the_estimate_bounds_the_memory_of_a_fit(model, shape, watch_calls):
    check_bounds(clone(model), *make(shape), watch_calls)


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [model for model in MODELS if not isinstance(model, MultiTaskKernelSVC)],
    ids=str,
)
def test_the_estimate_bounds_a_fit_of_many_rows_of_many_tasks(model, watch_calls):
    check_bounds(clone(model), *make("many rows"), watch_calls)


@pytest.mark.cover
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("shape", ["many tasks", "many features"])
@pytest.mark.parametrize("model", PAIRED, ids=str)
def test_the_estimate_counts_matrices_of_pairs(model, shape, watch_calls):
    X, y, ids = make(shape)
    model = clone(model)
    if "graph" in model.get_params() and not isinstance(model.graph, str):
        noise = np.random.default_rng(0).random((y.shape[1],) * 2)
        model.set_params(graph=noise + noise.T)
    check_bounds(model, X, y, ids, watch_calls)


def check_bounds(model, X, y, ids, watch_calls):
    if is_classifier(model):
        y = np.where(y > 0, 1, -1)
    if "max_iter" in model.get_params():
        model.set_params(max_iter=5)
    needs = {}
    # The first fit compiles and imports, the second one looks at the machine.
    model.fit(X, y, task_id=ids)
    stop = watch_calls(
        require, lambda call: needs.setdefault(call["work"].split()[0], call["need"])
    )
    model.fit(X, y, task_id=ids)
    stop()
    estimate = needs[type(model).__name__]
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, task_id=ids)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (
        peak
        <= estimate
        <= FACTOR * peak + (STEPS if isinstance(model, GraphSVC) else 0)
    )


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_fits_that_exceed_the_memory_are_rejected_before_they_start(model, free_memory):
    free_memory(1000.0, always=True)
    X, y, ids = make("ragged")
    model = clone(model)
    with pytest.raises(MemoryLimitError, match="500 rows, 50 features") as caught:
        model.fit(X, np.where(y > 0, 1, -1), task_id=ids)
    assert type(model).__name__ in caught.value.message
    assert caught.value.remedy
    assert not hasattr(model, "coef_")


def wide_sparse(n=100_000):
    rng = np.random.default_rng(0)
    return sp.csr_array(
        (rng.random(n), (np.arange(n), rng.integers(n, size=n))), shape=(n, n)
    ), rng.normal(size=(n, 2))


@pytest.mark.slow
def test_feature_covariances_are_computed_only_on_demand(free_memory):
    """With 1e5 features the covariance needs 80 GB; coefficients do without it."""
    free_memory(16e9)
    X, Y = wide_sparse()
    model = MTFL(100.0, max_iter=50).fit(X, Y)
    assert model.gap_ <= 1e-4
    with pytest.raises(MemoryLimitError, match="100000 features"):
        _ = model.feature_covariance_
    with pytest.raises(MemoryLimitError, match="100000 features"):
        MTFL(100.0, variant="paper").fit(X, Y)


def test_the_covariance_on_demand_is_the_root_of_the_moment():
    X, Y, _ = make("labels")
    model = MTRL(tol=1e-8).fit(X, Y[:, :6])
    values, vectors = np.linalg.eigh(model.coef_ @ model.coef_.T)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    np.testing.assert_allclose(model.task_covariance_, root / np.trace(root), atol=1e-8)
    assert not hasattr(MTRL(), "task_covariance_")
    np.testing.assert_allclose(
        MTRL().fit(X, np.zeros((len(X), 6))).task_covariance_, np.eye(6) / 6
    )


@pytest.mark.parametrize(
    "model", [IndependentLasso(1e-3), GraphSVC(), MultiTaskKernelSVC()], ids=str
)
def test_sparse_data_with_long_indices_are_accepted(model):
    """scikit-learn's solvers accept only 32 bits."""
    X, y, _ = make("sparse")
    X = sp.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    )
    y = np.where(y[:, 0] > 0, 1, -1)
    model.fit(X, y, task_id=np.arange(200) % 3)
    assert np.isfinite(model.coef_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_penalties_avoid_a_large_wide_basis(cache_memory):
    """The eigenbasis of the rows is small here, and that of the features is large."""
    X, Y, _ = make("sparse")
    settings = {"warm_start": True, "max_iter": 2}
    assert "admm" in DirtyMTL(**settings).fit(X, Y).warm_start_.key
    cache_memory(1_000_000)
    assert "fista" in DirtyMTL(**settings).fit(X, Y).warm_start_.key
    assert "admm" in TraceNormMTL(**settings).fit(X, Y).warm_start_.key


class NotedRidge(Ridge):
    """A model that notes whether its training rows are sparse."""

    def fit(self, X, y, sample_weight=None):
        self.has_sparse_rows_ = sp.issparse(X)
        return super().fit(X, y, sample_weight)


def test_features_of_very_many_tasks_are_sparse_or_rejected(free_memory):
    rng = np.random.default_rng(0)
    n_tasks = 20_000
    X, ids = rng.normal(size=(2 * n_tasks, 3)), np.repeat(np.arange(n_tasks), 2)
    y = X[:, 0] + 0.01 * ids
    ridge = NotedRidge(1e-3, solver="lsqr", tol=1e-8)
    model = TaskFeature(ridge).fit(X, y, task_id=ids)
    assert model.estimator_.has_sparse_rows_
    assert np.corrcoef(model.predict(X, task_id=ids), y)[0, 1] > 0.99
    free_memory(8e9)
    with pytest.raises(MemoryLimitError, match="20000 tasks") as caught:
        TaskFeature(HistGradientBoostingRegressor()).fit(X, y, task_id=ids)
    assert "encoding='number'" in caught.value.remedy


def test_dense_and_sparse_task_features_give_the_same_model(cache_memory):
    X, y, ids = make("ragged")
    dense = TaskFeature(NotedRidge()).fit(X, y, task_id=ids)
    cache_memory(0)
    sparse = TaskFeature(NotedRidge()).fit(X, y, task_id=ids)
    assert not dense.estimator_.has_sparse_rows_
    assert sparse.estimator_.has_sparse_rows_
    np.testing.assert_allclose(
        sparse.predict(X, task_id=ids), dense.predict(X, task_id=ids), atol=1e-2
    )


@pytest.mark.parametrize("variant", ["mtn", "stn", "mtn-fetr"])
def test_networks_that_exceed_the_memory_are_rejected_before_they_are_created(
    variant, monkeypatch, free_memory
):
    free_memory(8e9)
    # Importing PyTorch fails.
    monkeypatch.setitem(sys.modules, "torch", None)
    X, y, ids = make("ragged")
    with pytest.raises(MemoryLimitError, match="50 features and 10 tasks"):
        MTNetwork(variant, hidden=(30_000, 30_000)).fit(X, y, task_id=ids)
