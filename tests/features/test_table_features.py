"""Columns of tables become features."""

import numpy as np
import pytest

from mtlrun.features.table import TableFeatures


@pytest.mark.parametrize("weights", [None, np.ones(5)])
def test_a_missing_number_becomes_the_median_of_its_column(weights):
    X = np.array([[0.0], [1.0], [2.0], [97.0], [np.nan]])
    step = TableFeatures().fit(X, sample_weight=weights)
    filled = step.transform(X)[-1, 0]
    at_median = step.transform(np.array([[1.5]]))[0, 0]
    assert filled == pytest.approx(at_median)
