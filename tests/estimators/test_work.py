"""Fits do no work twice: counts of checks, which decide the time of small fits."""

import numpy as np
import pandas as pd
import pytest

from mtlrun.estimators import JointFeatureMTL, base, inputs
from mtlrun.estimators.params import Rule


def rows_and_targets():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), rng.normal(size=(30, 2))


def test_arrays_of_floats_are_not_searched_for_other_kinds_of_tables(monkeypatch):
    X, Y = rows_and_targets()

    def refuse(*args, **kwargs):
        raise AssertionError("a table was searched")

    monkeypatch.setattr(inputs, "check_array", refuse)
    monkeypatch.setattr(base, "validate_data", refuse)
    JointFeatureMTL().fit(X, Y)
    with pytest.raises(AssertionError):
        JointFeatureMTL().fit(X.tolist(), Y)
    with pytest.raises(AssertionError):
        JointFeatureMTL().fit(X, Y.tolist())


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


def test_parameters_that_a_search_keeps_are_checked_once(monkeypatch):
    X, Y = rows_and_targets()
    JointFeatureMTL(1.0).fit(X, Y)
    checked = []
    accepts = Rule.accepts

    def counted(rule, value):
        checked.append(value)
        return accepts(rule, value)

    monkeypatch.setattr(Rule, "accepts", counted)
    JointFeatureMTL(2.5).fit(X, Y)
    assert checked == [2.5]
    with pytest.raises(ValueError, match="alpha"):
        JointFeatureMTL(-1.0).fit(X, Y)
