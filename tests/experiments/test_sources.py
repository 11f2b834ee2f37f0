"""Constructors and modules, read from sources."""

import subprocess
import sys

import pytest

from mtlrun.core.errors import ConfigError
from mtlrun.runs.sources import Constructor, constructor, find_module


def test_constructor_is_found_in_the_class_its_base_or_behind_a_re_export(lab):
    assert constructor("lab.models:Ridge") == Constructor(("alpha", "slow", "warm_start"))
    assert constructor("lab.models:Broken") == Constructor(("alpha", "slow", "warm_start"))
    assert constructor("lab.models:Noisy") == Constructor(("alpha", "random_state"))
    assert "alpha" in constructor("sklearn.linear_model:Ridge").names
    lab.models.write_text(
        "class Any:\n    fit = None\n    def __init__(self, a, **rest): ...\nclass Bare:\n    def fit(self): ...\n"
    )
    assert constructor("lab.models:Any") == Constructor(("a",), open=True)
    assert constructor("lab.models:Bare") is None


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("class A: ...", True),
        ("class B(object):\n    def predict(self): ...\nclass A(B): ...", True),
        ("class B:\n    def fit(self): ...\nclass A(B): ...", False),
        ("class A:\n    if 1:\n        def fit(self): ...", False),
        ("@something\nclass A: ...", False),
        ("class A(metaclass=B): ...", False),
        ("class A(made(1)): ...", False),
        ("from elsewhere import B\nclass A(B): ...", False),
        ("class A(A): ...", False),
    ],
)
def test_classes_that_can_have_no_fit_are_refused(lab, source, refused):
    lab.models.write_text(source)
    if refused:
        with pytest.raises(ConfigError, match=r"'lab\.models:A' is no estimator: the class has no fit"):
            constructor("lab.models:A")
    else:
        constructor("lab.models:A")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("lab.models:Rigde", "defines no class 'Rigde'\nDid you mean 'Ridge'?"),
        ("lab.model:Ridge", "no Python source for module 'lab.model'"),
        ("labs.models:Ridge", "no module 'labs'"),
        ("labs:Ridge", "no module 'labs'"),
    ],
)
def test_unknown_classes(lab, path, message):
    with pytest.raises(ConfigError) as refused:
        constructor(path)
    assert message in str(refused.value)


def test_source_that_is_no_python(lab):
    lab.models.write_text("class Ridge(:\n")
    with pytest.raises(ConfigError, match=r"models\.py:1:13: invalid syntax"):
        constructor("lab.models:Ridge")


def test_nothing_is_imported():
    code = (
        "import sys\nfrom mtlrun.experiments.fingerprint import code_fingerprint\n"
        "from mtlrun.runs.sources import constructor\n"
        "constructor('sklearn.linear_model:Ridge')\n"
        "code_fingerprint(['mtlrun.estimators.independent:IndependentRidge'])\n"
        "assert not {'numpy', 'sklearn', 'mtlrun.estimators.independent'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modules_are_found_without_importing_their_package():
    assert find_module("sklearn.linear_model._ridge").name == "_ridge.py"
    assert find_module("sklearn.nothing") is None
    assert find_module("mtlrun").name == "__init__.py"
