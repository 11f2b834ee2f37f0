"""Centers of smooth hierarchical models: how much depends on the choice of rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from smooth_tables import SmoothTable

from mtlrun.estimators import SmoothMTL, SmoothPooled, SmoothPooledClassifier
from mtlrun.solvers.hierarchical import smooth_parts

pytestmark = pytest.mark.usefixtures("few_trees")


def rough_table(n_rows=240):
    """Return rows with a fast function of three columns together and little noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.7, 1.7, size=(n_rows, 3))
    y = np.sin(2 * X[:, 0] * X[:, 1] + 2 * X[:, 2]) + 0.02 * rng.normal(size=n_rows)
    return X, y, np.repeat(np.arange(6), n_rows // 6)


@pytest.mark.slow
def test_a_note_advises_more_centers_where_predictions_depend_on_them():
    X, y, task = rough_table()
    few = SmoothPooled(n_centers=40).fit(X, y, task_id=task)
    (note,) = few.notes()
    assert "n_centers=240" in note
    assert few.set_params(n_centers=30).notes() == [note]  # Those of the fit
    few.set_params(n_centers=40)
    every = SmoothPooled(n_centers=240).fit(X, y, task_id=task)
    assert every.center_error_ < 0.01
    assert every.notes() == []

    def change(model):
        """Return how much another seed changes the predictions, in units of noise."""
        other = SmoothPooled(n_centers=model.n_centers, random_state=1)
        other.fit(X, y, task_id=task)
        difference = other.predict(X, task_id=task) - model.predict(X, task_id=task)
        return np.std(difference) / np.sqrt(model.noise_variance_)

    assert change(few) > 100 * change(every)


def test_nothing_depends_on_centers_that_carry_no_variance():
    X, y, task = rough_table()
    model = SmoothMTL(("linear", "additive"), n_centers=10).fit(X, y, task_id=task)
    assert model.center_error_ == 0
    assert model.notes() == []


def test_the_center_error_is_the_variance_between_kernel_and_features():
    X, y, task = rough_table()
    model = SmoothPooled(n_centers=40).fit(X, y, task_id=task)
    solver_table = SmoothTable.of(X, y, task, task_parts=("level",), n_centers=40)
    rows = solver_table.rows(X)
    expected = 0.0
    for part in solver_table.data.design.common:
        if part.name in ("wide", "narrow"):
            radial = part.maps[0]
            kernel = smooth_parts.gaussian_kernel(
                radial.centers, radial.centers, radial.length
            )
            crossed = smooth_parts.gaussian_kernel(
                rows.clipped, radial.centers, radial.length
            )
            # The inverse leaves out the same small eigenvalues as the features.
            inverse = np.linalg.pinv(kernel, rcond=1e-6, hermitian=True)
            represented = np.einsum("ij,jk,ik->i", crossed, inverse, crossed)
            expected += model.variances_[part.name] * (1 - represented).mean()
    assert_allclose(model.center_error_, expected / model.noise_variance_, rtol=1e-6)


def test_units_of_columns_and_targets_do_not_change_the_center_error():
    X, y, task = rough_table()
    expected = SmoothPooled(n_centers=40).fit(X, y, task_id=task).center_error_
    scaled = SmoothPooled(n_centers=40)
    scaled.fit(X * [1e-3, 1.0, 1e5] + 7, 1e4 * y - 3, task_id=task)
    assert_allclose(scaled.center_error_, expected, rtol=1e-4)


def test_labels_and_targets_on_the_same_rows_have_center_errors():
    X, y, task = rough_table()
    labels = SmoothPooledClassifier(n_centers=40).fit(X, y > 0, task_id=task)
    assert labels.center_error_ > 0.1
    assert len(labels.notes()) == 1
    every = SmoothPooledClassifier(n_centers=len(X)).fit(X, y > 0, task_id=task)
    assert every.center_error_ < 0.01
    targets = SmoothMTL(n_centers=40, target_parts=("targets",))
    targets.fit(X, np.column_stack([y, X[:, 0]]))
    errors = targets.center_error_
    assert errors.shape == (2,)
    # A linear target has no function of several columns.
    assert errors[0] > 10 * errors[1]
