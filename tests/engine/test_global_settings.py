"""Global settings of scikit-learn and NumPy in a notebook do not change results."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from mtlrun.data.dataset import Dataset
from mtlrun.engine.fit import learned_features, make_step
from mtlrun.engine.job import Features
from mtlrun.features.table import TableFeatures

SETTINGS = [
    {"transform_output": "pandas"},
    {"transform_output": "polars"},
    {"enable_metadata_routing": True},
    {"assume_finite": True},
    {"working_memory": 1},
]


def cells():
    """Return numbers with a missing value next to a text column."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=30), np.arange(30) % 3])
    X[4, 0] = np.nan
    return X


@pytest.mark.cover
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", ["standardize", "max-abs", "min-max", "unit-rows"])
def test_scaled_features_are_the_same_arrays(kind, settings):
    X = np.random.default_rng(0).normal(size=(30, 2))
    data = Dataset(X=X, y=X[:, 0], task_type="regression")
    expected = learned_features(make_step(Features(kind=kind), data), X)
    with config_context(**settings):
        features = learned_features(make_step(Features(kind=kind), data), X)
    assert isinstance(features, np.ndarray)
    np.testing.assert_array_equal(features, expected)


@pytest.mark.cover
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_table_features_are_the_same_arrays(is_sparse, settings):
    X = np.nan_to_num(cells()) if is_sparse else cells()
    X = sparse.csr_matrix(X) if is_sparse else X
    expected = TableFeatures({1: ["u", "v", "w"]}).fit(X).transform(X)
    with config_context(**settings):
        step = TableFeatures({1: ["u", "v", "w"]})
        features = learned_features(step, X)
    assert type(features) is type(expected)
    assert abs(features - expected).max() == 0
