"""Columns of tables become features."""

import numpy as np
import pytest

from mtlrun.features.table import TableFeatures


@pytest.mark.parametrize(
    ("weights", "median"),
    [(None, 1.5), (np.ones(5), 1.5), (np.array([1.0, 1.0, 5.0, 1.0, 1.0]), 2.0)],
)
def test_a_missing_number_becomes_the_median_of_its_column(weights, median):
    X = np.array([[0.0], [1.0], [2.0], [97.0], [np.nan]])
    step = TableFeatures().fit(X, sample_weight=weights)
    filled = step.transform(X)[-1, 0]
    at_median = step.transform(np.array([[median]]))[0, 0]
    assert filled == pytest.approx(at_median)


def test_a_number_that_only_a_new_row_lacks_becomes_the_mean():
    step = TableFeatures().fit(np.array([[1.0, 4.0], [3.0, 9.0]]))
    assert step.transform(np.array([[np.nan, 9.0]])).tolist() == [[0.0, 1.0]]


def test_a_common_factor_of_the_weights_changes_nothing():
    X = np.array([[0.0], [1.0], [2.0], [97.0]])
    weights = np.array([1.0, 3.0, 2.0, 2.0])
    steps = [
        TableFeatures().fit(X, sample_weight=w) for w in (weights, 1e200 * weights)
    ]
    usual, huge = (step.transform(X) for step in steps)
    np.testing.assert_allclose(huge, usual)
    mean = np.average(X[:, 0], weights=weights)
    assert np.average(usual[:, 0], weights=weights) == pytest.approx(0.0, abs=1e-12)
    assert usual[3, 0] / usual[0, 0] == pytest.approx((97.0 - mean) / -mean)


def test_an_indicator_has_the_name_of_its_column():
    step = TableFeatures().fit(np.array([[1.0, 4.0], [3.0, np.nan]]))
    names = step.get_feature_names_out(["age", "size"]).tolist()
    assert names == ["age", "size", "size is missing"]


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 61.0)])
def test_rare_words_share_the_last_of_fifty_columns(weights):
    words = {0: [f"w{k}" for k in range(60)]}
    X = np.arange(60.0)[:, np.newaxis]
    features = TableFeatures(words).fit_transform(X, sample_weight=weights)
    assert features.shape == (60, 50)
    assert features[:, -1].sum() == 11
