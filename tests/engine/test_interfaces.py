"""Stored descriptions of classes and functions match the code; others are inspected."""

import pytest

from mtlrun.catalog import interfaces
from mtlrun.catalog.interfaces import Interface, inspect_interface, interface
from mtlrun.catalog.registry import METHODS
from mtlrun.errors import ConfigError
from mtlrun.metrics import METRICS


def test_stored_properties_of_metrics_match_the_metrics():
    facts = {
        name: (m.greater_is_better, m.needs, m.task_variance)
        for name, m in interfaces.METRIC_INFO.items()
    }
    assert facts == {
        name: (m.greater_is_better, m.needs, m.task_variance)
        for name, m in METRICS.items()
    }


def test_the_registry_matches_the_inspected_class():
    for name, info in METHODS.items():
        if info.foreign:
            continue
        stored = interface(info.class_path)
        inspected = inspect_interface(info.class_path)
        assert stored.names == inspected.names, name
        assert stored.keyword_only == inspected.keyword_only, name
        assert stored.rules == inspected.rules, name
        assert stored.changes == inspected.changes, name
        assert stored.fits, name
        assert not stored.open, name


@pytest.mark.parametrize(
    ("name", "version"), [("scikit-learn", "0.1"), ("no-such-package", "1")]
)
def test_a_package_with_another_version_is_inspected(monkeypatch, name, version):
    path = "sklearn.linear_model:RidgeCV"
    stored = {"package": {name: version}, "names": ["something_else"]}
    monkeypatch.setitem(interfaces._STORED_INTERFACES, path, stored)
    assert "alphas" in interface(path).names


def test_classes_and_functions_of_the_user_are_inspected(own_package):
    own_package.write(
        "kinds.py",
        """
        from own.models import Ridge
        class Child(Ridge): pass
        class Open:
            def __init__(self, a, *args, b=1, **rest): ...
            def fit(self, X, y, *, task_id=None): ...
        class Bare:
            def fit(self): ...
        class NoFit:
            def __init__(self, a): ...
        def measure(data, *, seed, steps=3):
            "Walk about."
        """,
    )
    ridge = Interface(
        ("alpha", "slow"),
        keyword_only=("slow",),
        is_class=True,
        fits=True,
        summary="A model",
    )
    for path in ("own.models:Ridge", "own.kinds:Ridge", "own.kinds:Child"):
        assert interface(path) == ridge
    assert interface("own.kinds:Open") == Interface(
        ("a", "b"), True, ("b",), True, True
    )
    assert interface("own.kinds:Bare") == Interface((), is_class=True, fits=True)
    assert interface("own.kinds:NoFit") == Interface(("a",), is_class=True)
    assert interface("own.kinds:measure") == Interface(
        ("data", "seed", "steps"), keyword_only=("seed", "steps"), summary="Walk about"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own.models:Rigde", "'Rigde'\nDid you mean 'Ridge'?"),
        ("own.models:", "defines no class or function ''"),
        ("own.model:Ridge", "'own.model'"),
        ("owns.models:Ridge", "'owns.models'"),
        ("owns:Ridge", "'owns'"),
        ("own.models.deeper:Ridge", "'own.models.deeper'"),
        (":Ridge", "''"),
        ("..:Ridge", "'..'"),
        ("sklearn.linear_modl:Ridge", "'sklearn.linear_modl'"),
        ("sklearn.linear_model:Rigde", "Did you mean 'Ridge'?"),
    ],
)
def test_unknown_modules_and_names_are_reported(own_package, path, message):
    with pytest.raises(ConfigError) as refused:
        interface(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"class Ridge(:\n", "SyntaxError"),
        (b"x = '\x00'\n", "own.models"),
        (b"import nothing_like_this\n", "ModuleNotFoundError"),
        (b"1 / 0\n", "ZeroDivisionError: division by zero"),
        (b"raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_modules_that_cannot_be_imported_are_reported(own_package, source, message):
    (own_package.root / "own" / "models.py").write_bytes(source)
    with pytest.raises(ConfigError) as refused:
        interface("own.models:Ridge")
    assert message in str(refused.value)
