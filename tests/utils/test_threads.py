"""BLAS threads during products of small matrices."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mtlrun.estimators import (
    GraphMTL,
    GraphSVC,
    HierarchicalMTL,
    HierarchicalMTLClassifier,
    IndependentRidge,
)
from mtlrun.solvers.hierarchical import fit as regression
from mtlrun.solvers.hierarchical import logistic
from mtlrun.utils.processes import SMALL, SMALL_PRODUCT, one_thread_if_small


def blas_threads() -> set[int]:
    return {
        pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
    }


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        if max(blas_threads()) < 2:
            pytest.skip("this BLAS has one thread")
        yield


def test_small_matrices_use_one_thread_and_larger_ones_keep_their_number():
    before = blas_threads()
    with one_thread_if_small(SMALL):
        assert blas_threads() == {1}
        with one_thread_if_small(1):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    with one_thread_if_small(SMALL + 1):
        assert blas_threads() == before
    with one_thread_if_small(10, rows=int(SMALL_PRODUCT)):
        assert blas_threads() == before


def test_threads_are_restored_after_an_error():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), one_thread_if_small(1):
        raise ZeroDivisionError
    assert blas_threads() == before


@pytest.mark.parametrize(
    ("model", "module", "name"),
    [
        (HierarchicalMTL, regression, "newton"),
        (HierarchicalMTLClassifier, logistic, "minimize"),
    ],
)
def test_hierarchical_models_are_fitted_with_one_thread(
    model, module, name, monkeypatch
):
    seen = []
    solve = getattr(module, name)

    def spy(*args, **kwargs):
        seen.append(blas_threads())
        return solve(*args, **kwargs)

    monkeypatch.setattr(module, name, spy)
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 10)
    X = rng.normal(size=(60, 3))
    y = X.sum(axis=1) + rng.normal(size=6)[task] + rng.normal(size=60)
    before = blas_threads()
    model("scalar").fit(X, y if model is HierarchicalMTL else y > 0, task_id=task)
    assert seen
    assert set().union(*seen) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("model", [GraphSVC(), GraphMTL(), IndependentRidge()], ids=str)
def test_small_fits_use_one_thread(model, monkeypatch):
    seen = []
    solve = type(model)._fit_data

    def spy(self, data):
        seen.append(blas_threads())
        return solve(self, data)

    monkeypatch.setattr(type(model), "_fit_data", spy)
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    before = blas_threads()
    model.fit(X, y, task_id=np.arange(60) % 6)
    assert seen == [{1}]
    assert blas_threads() == before
