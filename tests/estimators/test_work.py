"""Fits do no work twice: counts of checks, products, copies and evaluations."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import check_array

from mtlrun.estimators import (
    HierarchicalMTL,
    IndependentRidge,
    JointFeatureMTL,
    SmoothMTL,
    TraceNormMTL,
)
from mtlrun.estimators.params import Rule
from mtlrun.solvers.hierarchical.smooth_parts import NystroemFeatures, SmoothRows


def rows_and_targets():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), rng.normal(size=(30, 2))


def test_arrays_of_floats_are_not_searched_for_other_kinds_of_tables(watch_calls):
    X, Y = rows_and_targets()
    searched = []
    watch_calls(check_array, searched.append)
    JointFeatureMTL().fit(X, Y)
    assert not searched
    JointFeatureMTL().fit(X.tolist(), Y)
    assert len(searched) == 1
    JointFeatureMTL().fit(X, Y.tolist())
    assert len(searched) == 2


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_arrays_of_floats_are_refused_if_they_are_not_finite(value):
    X, Y = rows_and_targets()
    X[3, 1] = value
    with pytest.raises(ValueError, match="Input X contains"):
        JointFeatureMTL().fit(X, Y)
    X, Y = rows_and_targets()
    if np.isinf(value):
        Y[3, 1] = value
        with pytest.raises(ValueError, match="infinity"):
            JointFeatureMTL().fit(X, Y)


def test_a_fit_to_an_array_forgets_the_names_of_an_earlier_table():
    X, Y = rows_and_targets()
    model = JointFeatureMTL().fit(pd.DataFrame(X, columns=list("abcd")), Y)
    assert model.feature_names_in_.tolist() == list("abcd")
    model.fit(X[:, :3], Y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")


def test_parameters_that_a_search_keeps_are_checked_once(watch_calls):
    X, Y = rows_and_targets()
    JointFeatureMTL(1.0).fit(X, Y)
    checked = []
    watch_calls(Rule.accepts, lambda arguments: checked.append(arguments["value"]))
    JointFeatureMTL(2.5).fit(X, Y)
    assert checked == [2.5]
    with pytest.raises(ValueError, match="alpha"):
        JointFeatureMTL(-1.0).fit(X, Y)


def tasks_with_slopes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    task_id = np.repeat(np.arange(12), 20)
    slopes = 1 + 0.5 * rng.normal(size=12)
    y = X[:, 0] + slopes[task_id] * X[:, 1] + 0.5 * rng.normal(size=240)
    return X, y, task_id


@pytest.mark.parametrize(("model", "most"), [(HierarchicalMTL(), 9), (SmoothMTL(), 30)])
def test_variances_are_found_with_few_evaluations(model, most):
    X, y, task_id = tasks_with_slopes()
    assert model.fit(X, y, task_id=task_id).n_iter_ <= most


@pytest.mark.parametrize(("share", "most"), [(0.3, 8), (0.03, 20)])
def test_trace_norms_take_few_iterations(share, most):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    Y = X @ rng.normal(size=(3, 5)) + rng.normal(size=(240, 5))
    alpha = share * TraceNormMTL().alpha_max(X, Y)
    assert TraceNormMTL(alpha).fit(X, Y).n_iter_ <= most


def test_predictions_of_an_array_are_one_product_for_all_tasks(monkeypatch):
    X, y, task_id = tasks_with_slopes()
    model = IndependentRidge().fit(X, y, task_id=task_id)
    products = []
    einsum = np.einsum

    def counted(*arguments):
        products.append(arguments)
        return einsum(*arguments)

    monkeypatch.setattr(np, "einsum", counted)
    by_product = model.predict(X, task_id=task_id)
    assert len(products) == 1
    by_task = [
        model.coef_[t] @ x + model.intercept_[t]
        for t, x in zip(task_id, X, strict=True)
    ]
    np.testing.assert_allclose(by_product, by_task)


@pytest.mark.parametrize(("share", "n_copies"), [(0.9, 0), (0.5, 0), (0.01, 1)])
def test_a_wide_design_is_copied_by_column_once_and_only_if_that_pays(
    share, n_copies, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 400))
    Y = X[:, :3] @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(50, 4))
    model = JointFeatureMTL(share * JointFeatureMTL().alpha_max(X, Y))
    copies = []
    copy = np.asfortranarray

    def counted(array):
        copies.append(array)
        return copy(array)

    monkeypatch.setattr(np, "asfortranarray", counted)
    model.fit(X, Y)
    assert len(copies) == n_copies


def test_features_of_many_rows_are_computed_in_batches():
    rng = np.random.default_rng(0)
    rows = SmoothRows(rng.normal(size=(25_000, 2)), np.zeros((25_000, 0), dtype=int))
    features = NystroemFeatures.fit(rows.z[:10], np.arange(2), length=1.0)
    at_once = features(rows).mean(axis=0)
    n_rows = []

    class CountedFeatures(NystroemFeatures):
        def __call__(self, batch):
            n_rows.append(len(batch.z))
            return super().__call__(batch)

    counted = CountedFeatures(**vars(features))
    centered = counted.centered(rows, np.ones(25_000))
    assert n_rows == [10_000, 10_000, 5_000]
    np.testing.assert_allclose(centered.offset, at_once)
