"""Rows prepared once for many models: each model must fit and predict them as its
public methods do.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge

from mtlrun.catalog.registry import METHODS, build
from mtlrun.engine.evaluation import TaskRows, predict_scores
from mtlrun.estimators.baselines import PerTask, ScaledTargets, TaskFeature

pytestmark = pytest.mark.usefixtures("few_trees")

LAYOUTS = ("ragged", "shared", "masked")
FEW = {"max_iter": 30, "n_blocks": 2, "hidden": (3,), "base__max_iter": 30}


def problem(layout, labels, weighted, sparse=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(36, 3))
    Y = X @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(36, 3)) + [0, 1, 2]
    if labels:
        Y = np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)
    weights = 0.5 + rng.random((36, 3)) if weighted else None
    ids, y = None, Y
    if layout == "masked":
        y = np.where(rng.random(Y.shape) < 0.2, np.nan, Y)
    if layout == "ragged":
        ids = rng.permutation(np.repeat(["a", "b", "c"], [9, 12, 15]))
        codes = np.searchsorted(["a", "b", "c"], ids)
        y = Y[np.arange(36), codes]
        weights = None if weights is None else weights[:, 0]
    return sp.csr_array(X) if sparse else X, y, ids, weights


def given(**arguments):
    return {name: value for name, value in arguments.items() if value is not None}


def check(model, X, y, ids, weights):
    rows, test = (
        TaskRows(X, y, ids, weights),
        TaskRows(X[::2], y[::2], None if ids is None else ids[::2]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = clone(model).fit(X, y, **given(task_id=ids, sample_weight=weights))
        for _ in range(2):  # The second call prepares nothing again.
            fitted = rows.fit(clone(model))
            expected = predict_scores(plain, test.X, test.task_id)
            assert_allclose(test.predict(fitted), expected, rtol=1e-9, atol=1e-12)
    for name in ("tasks_", "n_features_in_", "classes_", "converged_", "n_iter_"):
        if hasattr(plain, name):
            np.testing.assert_array_equal(getattr(fitted, name), getattr(plain, name))


@pytest.mark.cover(
    name=[name for name, info in METHODS.items() if not (info.foreign or info.extra)],
    layout=LAYOUTS,
)
def test_every_method_reads_rows_as_its_fit_does(name, layout):
    model = build(name)
    model.set_params(
        **{key: value for key, value in FEW.items() if key in model.get_params()}
    )
    check(model, *problem(layout, METHODS[name].kind == "classifier", weighted=True))


@pytest.mark.cover(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        ScaledTargets(build({"estimator": "TraceNormMTL", "params": {"alpha": 2.0}})),
        ScaledTargets(PerTask(Ridge())),
        ScaledTargets(build("IndependentLasso")),
        ScaledTargets(TaskFeature(Ridge())),
    ],
)
def test_scaled_targets_are_scaled_once(model, sparse, layout):
    check(model, *problem(layout, False, weighted=False, sparse=sparse))


def test_models_with_other_class_weights_are_fitted_correctly():
    X, y, ids, _ = problem("ragged", True, False)
    rows = TaskRows(X, y, ids)
    for weight in (None, "balanced", {1.0: 5.0, -1.0: 1.0}):
        model = build(
            {"estimator": "TraceNormMTLClassifier", "params": {"class_weight": weight}}
        )
        assert_allclose(
            rows.fit(clone(model)).coef_, model.fit(X, y, task_id=ids).coef_, rtol=1e-9
        )


def test_warm_starts_continue():
    X, y, ids, _ = problem("ragged", False, False)
    rows = TaskRows(X, y, ids)
    model = build(
        {
            "estimator": "TraceNormMTL",
            "params": {"alpha": 5.0, "warm_start": True, "tol": 1e-10},
        }
    )
    first = rows.fit(model).n_iter_
    assert rows.fit(model).n_iter_ < first
    model.set_params(alpha=4.0)
    cold = build(
        {"estimator": "TraceNormMTL", "params": {"alpha": 4.0, "tol": 1e-10}}
    ).fit(X, y, task_id=ids)
    assert_allclose(rows.fit(model).coef_, cold.coef_, atol=1e-5)


def test_input_that_a_model_rejects_is_rejected():
    X, y, ids, _ = problem("ragged", False, False)
    with pytest.raises(ValueError, match="alpha"):
        TaskRows(X, y, ids).fit(
            build({"estimator": "TraceNormMTL", "params": {"alpha": -1.0}})
        )
    with pytest.raises(ValueError, match="NaN"):
        TaskRows(np.where(X > 2, np.nan, X), y, ids).fit(build("TraceNormMTL"))
    with pytest.raises(ValueError, match="NaN"):
        TaskRows(np.where(X > 1, np.nan, X), y, ids).fit(PerTask(Ridge()))
