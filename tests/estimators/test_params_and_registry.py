"""Parameter rules and the registry of methods."""

import subprocess
import sys
from dataclasses import make_dataclass

import numpy as np
import pytest
from all_cases import all_cases

import mtlrun.estimators
from mtlrun.catalog.registry import METHODS, build, get_method, load_class
from mtlrun.errors import ConfigError, UnknownNameError
from mtlrun.estimators.metadata import MethodMetadata, references
from mtlrun.estimators.params import BOOLEAN, NONE, check_params, choice, integer, real


def model_with(value):
    """Return a model with one parameter, of a class of its own: accepted values are
    remembered for a class, whose rules never change.
    """
    return make_dataclass("Model", ["p"])(value)


def test_an_invalid_value_is_reported_with_the_allowed_ones():
    for rule, value, message in [
        (real(0), -1, r"p must be a float in \[0, inf\), got -1"),
        (real(0), True, "got True"),
        (real(0), np.nan, "got nan"),
        (real(0), np.inf, "got inf"),
        (real(0), "1", "got '1'"),
        (real(0, 1, closed="neither"), 0, r"in \(0, 1\), got 0"),
        (real(0, 1, closed="both"), 1.1, r"in \[0, 1\], got 1.1"),
        (real(0, 1, closed="right"), 0.0, r"in \(0, 1\], got 0.0"),
        (integer(1), 0, r"p must be an int in \[1, inf\), got 0"),
        (integer(1), 2.0, "got 2.0"),
        (integer(0), False, "got False"),
        (
            choice("admm", "fista"),
            "amdm",
            "p must be one of 'admm', 'fista', got 'amdm'; did you mean 'admm'?",
        ),
        (choice("admm") | NONE, 3, "p must be one of 'admm' or None, got 3"),
        (BOOLEAN, 1, "p must be a bool, got 1"),
        (integer(), True, "p must be an int, got True"),
    ]:
        with pytest.raises(ValueError, match=message.replace("?", r"\?")):
            check_params(model_with(value), {"p": rule})


@all_cases(
    ("rule", "value"),
    [
        (real(0), 0),
        (real(0), np.float32(2)),
        (real(0), np.int64(2)),
        (real(closed="both"), np.inf),
        (integer(1), np.int64(3)),
        (BOOLEAN, np.True_),
        (choice("a") | NONE, None),
    ],
)
def test_allowed_values_pass(rule, value):
    check_params(model_with(value), {"p": rule})


def test_every_method_can_be_created_and_describes_itself():
    for name in METHODS:
        info = get_method(name)
        estimator = build({"estimator": name})
        assert type(estimator).__name__ == name
        assert info.bibtex.startswith("@"), name
        assert info.summary, name
        assert info.objective, name
        params = estimator.get_params(deep=True)
        for key in [*info.default_grid, *info.fast]:
            # The nested parameter belongs to the default base, which `fit` creates.
            assert key in params or key.partition("__")[0] in params, f"{name}: {key}"
        assert estimator.__sklearn_tags__().estimator_type == info.kind, name


def test_every_reference_is_used_and_has_its_key():
    assert {key for info in METHODS.values() for key in info.cite} == set(references())
    for key, text in references().items():
        assert f"{{{key}," in text
        assert text.count("{") == text.count("}")


def test_names_of_methods_are_listed_without_importing_numpy():
    code = (
        "import sys, mtlrun.catalog.registry, mtlrun.estimators as e; assert "
        "'RobustMTL' in dir(e); sys.exit(any(m in sys.modules for m in ('numpy', "
        "'scipy', 'sklearn', 'pandas', 'pydantic')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert mtlrun.estimators.RobustMTL is load_class("RobustMTL")
    assert not hasattr(mtlrun.estimators, "NoSuchModel")


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'IndependentRidge'"):
        get_method("IndependendRidge")


def test_an_external_class_is_loaded_by_its_path():
    assert (
        build({"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": 3}}).alpha
        == 3
    )


@all_cases(
    ("spec", "message"),
    [
        ("sklearn.linear_model:Rige", "Did you mean 'Ridge'"),
        ("no_such_module_here:Ridge", "cannot import 'no_such_module_here'"),
        ("sklearn.metrics:r2_score", "no class with a fit method"),
        (
            {"estimator": "IndependentRidge", "params": {"alhpa": 1}},
            "Did you mean 'alpha'",
        ),
        ({"estimator": "IndependentRidge", "parms": {}}, "unknown key 'parms'"),
        ({"params": {}}, "no name under 'estimator'"),
        (
            {
                "estimator": "sklearn.multiclass:OneVsRestClassifier",
                "params": {
                    "estimator": {"estimator": "IndependentSVC"},
                    "estimator__c": 1,
                },
            },
            "Invalid parameter 'c'",
        ),
    ],
)
def test_an_invalid_specification_is_reported(spec, message):
    with pytest.raises(ConfigError, match=message):
        build(spec)


def test_nested_estimators_are_created():
    spec = {
        "estimator": "sklearn.multiclass:OneVsRestClassifier",
        "params": {
            "estimator": {"estimator": "IndependentSVC", "params": {"C": 5}},
            "estimator__tol": 0.1,
        },
    }
    inner = build(spec).estimator
    assert (type(inner).__name__, inner.C, inner.tol) == ("IndependentSVC", 5, 0.1)


def test_load_class_returns_the_class_itself():
    from mtlrun.estimators.independent import IndependentSVC

    assert load_class("IndependentSVC") is IndependentSVC


@pytest.mark.parametrize("left_out", ["cite", "complexity", "default_grid"])
def test_a_class_must_declare_its_source_its_cost_and_its_grid(left_out):
    declared = {"cite": ("hoerl1970",), "complexity": "one solve", "default_grid": {}}
    assert MethodMetadata(**declared).multitask
    del declared[left_out]
    with pytest.raises(TypeError, match=left_out):
        MethodMetadata(**declared)
