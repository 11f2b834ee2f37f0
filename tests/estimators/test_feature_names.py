"""Estimators reject frames whose column names or order differ from fit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from mtlrun.catalog.registry import METHODS, build
from mtlrun.estimators.baselines import (
    PerTask,
    ScaledTargets,
    TaskFeature,
    TaskMean,
)
from mtlrun.estimators.tuned import TunedKernelRidge, TunedLogistic, TunedRidge

TASKS = np.arange(60) % 3
WRAPPERS = {
    "TaskMean": TaskMean(),
    "PerTask": PerTask(Ridge()),
    "PerTask of a tuned ridge": PerTask(TunedRidge()),
    "PerTask of a kernel ridge": PerTask(TunedKernelRidge()),
    "PerTask of a tuned logistic regression": PerTask(TunedLogistic()),
    "TaskFeature": TaskFeature(Ridge()),
    "TaskFeature of a classifier": TaskFeature(LogisticRegression()),
    "TaskFeature with numbers": TaskFeature(Ridge(), encoding="number"),
    "ScaledTargets": ScaledTargets(build("TraceNormMTL")),
    "ScaledTargets of TaskFeature": ScaledTargets(TaskFeature(Ridge())),
}
TUNED = {
    "TunedRidge": TunedRidge(),
    "TunedKernelRidge": TunedKernelRidge(),
    "TunedLogistic": TunedLogistic(),
}


def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    return X, np.where(X["a"] + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_does_not_match_columns_by_position(name):
    X, y = table()
    model = WRAPPERS[name].fit(X, y, task_id=TASKS)
    model.predict(X, task_id=TASKS)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["b", "a"]], task_id=TASKS)


@pytest.mark.parametrize("name", TUNED)
def test_a_tuned_model_does_not_match_columns_by_position(name):
    X, y = table()
    model = TUNED[name].fit(X, y)
    model.predict(X)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["b", "a"]])


@pytest.mark.filterwarnings("ignore::mtlrun.estimators.base.DegenerateModelWarning")
@pytest.mark.cover(name=[name for name in METHODS if name != "MTNetwork"])
def test_a_method_does_not_match_columns_by_position(name):
    X, y = table()
    params = {"n_blocks": 2} if "n_blocks" in METHODS[name].parameters else {}
    model = build({"estimator": name, "params": params}).fit(X, y, task_id=TASKS)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["b", "a"]], task_id=TASKS)


@pytest.mark.parametrize("name", TUNED)
def test_a_tuned_model_checks_arrays_as_scikit_learn_does(name):
    X, y = table()
    array = X.to_numpy()
    model = TUNED[name].fit(X, y)
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(array)
    # A fit to an array forgets the names of the frame before.
    model.fit(array, y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict(array[:, :1])
    with pytest.warns(UserWarning, match="without feature names"):
        model.predict(X)


def test_a_method_that_is_fitted_to_an_array_forgets_the_names_of_a_frame():
    X, y = table()
    model = build({"estimator": "IndependentRidge"}).fit(X, y, task_id=TASKS)
    model.fit(X.to_numpy(), y, task_id=TASKS)
    assert not hasattr(model, "feature_names_in_")
