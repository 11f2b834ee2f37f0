"""Rows are taken from arrays in the same way as scikit-learn takes them."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from mtlrun.data.reading.frames import take

ROWS = np.array([4, 0, 2])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("positions", [ROWS, ROWS.tolist()], ids=["array", "list"])
def test_rows_have_the_layout_of_a_general_selection(order, positions):
    X = np.asarray(np.arange(15.0).reshape(5, 3), order=order)
    rows = take(X, positions)
    # Sums of products depend on the layout in their last digits.
    assert rows.strides == X[ROWS, ...].strides
    assert_array_equal(rows, X[ROWS])


def test_a_mask_takes_the_rows_of_arrays_and_sparse_matrices():
    X = np.arange(15.0).reshape(5, 3)
    mask = np.array([True, False, True, False, True])
    assert_array_equal(take(X, mask), X[[0, 2, 4]])
    assert_array_equal(take(sp.csr_array(X), mask).toarray(), X[[0, 2, 4]])
    assert_array_equal(take(X[:, 0], mask), X[[0, 2, 4], 0])


def test_columns_and_nothing():
    X = np.arange(15.0).reshape(5, 3)
    assert_array_equal(take(X, np.array([2, 0]), axis=1), X[:, [2, 0]])
    assert take(None, ROWS) is None
