"""Fixtures for tests of all registered methods: instances, data, and checks of fits."""

import functools
import hashlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from mtlrun.catalog.registry import METHODS, build
from mtlrun.estimators.base import DegenerateModelWarning

#: Parameters unsuited to small data: for few tasks, or training with many epochs.
SETTINGS = {
    "RobustMTL": {"lam": 0.8},
    "RobustMTLClassifier": {"lam": 0.8},
    "DivideAndConquerRMTL": {
        "base": {"estimator": "RobustMTL", "params": {"lam": 0.8}},
        "n_blocks": 2,
    },
    "DivideAndConquerRMTLClassifier": {
        "base": {"estimator": "RobustMTLClassifier", "params": {"lam": 0.8}},
        "n_blocks": 2,
    },
    "MTNetwork": {"hidden": (4,), "max_iter": 3},
}


def make(name):
    if METHODS[name].extra == "nn":
        pytest.importorskip("torch", reason="PyTorch is not installed (extra nn)")
    return build({"estimator": name, "params": SETTINGS.get(name, {})})


def targets(name, Y):
    """Return integer targets, or for classifiers signs, both in each task."""
    return (
        np.where(np.median(Y, axis=0) < Y, 1, -1)
        if METHODS[name].kind == "classifier"
        else np.rint(4 * Y)
    )


def arrange(name, layout, X, Y):
    """Return arguments of `fit`: two-dimensional targets, or rows of mixed tasks."""
    y = targets(name, Y).astype(float)
    if layout == "shared":
        return {"X": X, "y": y}
    n, T = Y.shape
    ids = np.random.default_rng(1).permutation(n) % T
    return {"X": X, "y": y[np.arange(n), ids], "task_id": ids}


@functools.cache
def problem(n=30, d=5, T=3, seed=0):
    """Return binary X and noisy targets that depend on it; no column is constant."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 0.5).astype(float)
    return X, X @ rng.normal(size=(d, T)) + 0.3 * rng.normal(size=(n, T)) + 1


def fit(model, data):
    """Fit without any warning except two that state their remedy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DegenerateModelWarning)
        return model.fit(**data)


def scores(model, data):
    """Return scores of classifiers or predictions of regressors."""
    predict = getattr(model, "decision_function", model.predict)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return predict(
            **{key: value for key, value in data.items() if key in ("X", "task_id")}
        )


@functools.cache
def plain(name, layout, sparse=False):
    """Return the scores of a fit to float64 arrays in C order (or canonical CSR), the
    reference for other forms.
    """
    X, Y = problem()
    data = arrange(name, layout, sp.csr_array(X) if sparse else X, Y)
    return scores(fit(make(name), data), data)


def digest(*values):
    """Return a digest of everything that a fit could change in its arguments."""
    total = hashlib.sha256()
    for value in values:
        if sp.issparse(value):
            parts = [
                getattr(value, key)
                for key in ("data", "indices", "indptr", "row", "col")
                if hasattr(value, key)
            ]
        elif hasattr(value, "columns"):
            parts = [value.to_numpy(), np.asarray(value.columns, dtype=object)]
        else:
            parts = [np.asarray(value)]
        for part in parts:
            total.update(repr((part.shape, part.dtype)).encode())
            total.update(
                repr(part.tolist()).encode()
                if part.dtype == object
                else np.ascontiguousarray(part).tobytes()
            )
    return total.hexdigest()


class Matrix:
    """Return the functions of this file, for the test modules."""

    make = staticmethod(make)
    targets = staticmethod(targets)
    arrange = staticmethod(arrange)
    problem = staticmethod(problem)
    fit = staticmethod(fit)
    scores = staticmethod(scores)
    plain = staticmethod(plain)
    digest = staticmethod(digest)


@pytest.fixture(scope="session")
def matrix():
    """Return the functions that create all methods, data and fits."""
    return Matrix
