"""Names offered by completion. Types are checked in typed_project.py."""

from importlib.resources import files

import pytest

import mtlrun.estimators
from mtlrun.catalog.registry import METHODS


def test_type_checkers_of_other_projects_read_the_annotations():
    assert (files("mtlrun") / "py.typed").is_file()


def test_completion_knows_all_estimators():
    offered = dir(mtlrun.estimators)
    assert set(METHODS) <= set(offered)
    assert (
        {"TraceNormMTLCV", "PerTask", "DegenerateModelWarning"}
        <= set(mtlrun.estimators.__all__)
        <= set(offered)
    )
    for name in ("TraceNormMTLCV", "PerTask", "DegenerateModelWarning"):
        assert getattr(mtlrun.estimators, name).__name__ == name
    with pytest.raises(AttributeError, match="Nothing"):
        _ = mtlrun.estimators.Nothing
