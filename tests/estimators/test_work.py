"""Fits do no work twice: counts of checks, which decide the time of small fits."""

import numpy as np
import pytest

from mtlrun.estimators import JointFeatureMTL, inputs
from mtlrun.estimators.params import Rule


def rows_and_targets():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), rng.normal(size=(30, 2))


def test_an_array_of_floats_is_not_searched_for_other_kinds_of_targets(monkeypatch):
    X, Y = rows_and_targets()

    def refuse(*args, **kwargs):
        raise AssertionError("the targets were searched")

    monkeypatch.setattr(inputs, "check_array", refuse)
    JointFeatureMTL().fit(X, Y)
    with pytest.raises(AssertionError):
        JointFeatureMTL().fit(X, Y.tolist())


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_array_of_floats_is_refused_if_a_target_is_infinite(value):
    X, Y = rows_and_targets()
    Y[3, 1] = value
    with pytest.raises(ValueError, match="infinity"):
        JointFeatureMTL().fit(X, Y)


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
