"""Constructors and fingerprints, read from sources: which edits count."""

import subprocess
import sys

import pytest

from mtlrun.core.errors import ConfigError
from mtlrun.experiments.sources import Constructor, code_fingerprint, constructor, find_module


def fingerprint(*paths):
    return code_fingerprint(paths or ["lab.models:Ridge"])


def test_constructor_is_found_in_the_class_its_base_or_behind_a_re_export(lab):
    assert constructor("lab.models:Ridge") == Constructor(("alpha", "slow", "warm_start"))
    assert constructor("lab.models:Broken") == Constructor(("alpha", "slow", "warm_start"))
    assert constructor("lab.models:Noisy") == Constructor(("alpha", "random_state"))
    assert "alpha" in constructor("sklearn.linear_model:Ridge").names
    lab.models.write_text("class Any:\n    def __init__(self, a, **rest): ...\nclass Bare: ...\n")
    assert constructor("lab.models:Any") == Constructor(("a",), open=True)
    assert constructor("lab.models:Bare") is None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("lab.models:Rigde", "defines no class 'Rigde'\nDid you mean 'Ridge'?"),
        ("lab.model:Ridge", "no Python source for module 'lab.model'"),
        ("labs.models:Ridge", "no module 'labs'"),
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


def test_comments_docstrings_and_layout_do_not_count(lab):
    before = fingerprint()
    text = lab.models.read_text().replace('"""Solve, and leave a mark that a test can count."""', '"""Other words."""')
    lab.models.write_text(
        "# a comment\n\n" + text.replace("X = np.asarray(X)", "X = (  # why\n            np.asarray(X)\n        )")
    )
    assert fingerprint() == before


def test_arithmetic_counts_also_in_a_module_that_is_only_imported(lab):
    before = fingerprint()
    lab.helper.write_text(lab.helper.read_text().replace("1.0 *", "2.0 *"))
    after = fingerprint()
    assert {name for name in after if after[name] != before[name]} == {"lab/helper.py"}


def test_relative_lazy_and_package_imports_are_followed(lab):
    lab.models.write_text("def f():\n    from . import helper\n    from .part import number\n")
    (lab.root / "lab" / "part").mkdir()
    (lab.root / "lab" / "part" / "__init__.py").write_text("from lab.part.deep import number\n")
    (lab.root / "lab" / "part" / "deep.py").write_text("number = 1\n")
    assert set(code_fingerprint(["lab.models:X"])) == {
        "lab/models.py",
        "lab/helper.py",
        "lab/part/__init__.py",
        "lab/part/deep.py",
    }


def test_imports_for_type_checkers_are_not_followed(lab):
    lab.models.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lab.helper import shrink\n")
    assert set(fingerprint()) == {"lab/models.py"}


def test_circular_imports_end(lab):
    lab.helper.write_text("import lab.models\n")
    assert set(fingerprint()) == {"lab/models.py", "lab/helper.py"}


def test_installed_packages_count_by_their_version():
    import sklearn

    assert code_fingerprint(["sklearn.linear_model:Ridge"]) == {"sklearn": f"version {sklearn.__version__}"}


def test_what_changes_no_number_is_left_out():
    found = code_fingerprint(["mtlrun.estimators.independent:IndependentRidge"])
    assert "mtlrun/core/taskdata.py" in found
    assert not {"mtlrun/core/errors.py", "mtlrun/core/records.py", "mtlrun/estimators/registry.py"} & set(found)


def test_nothing_is_imported():
    code = (
        "import sys\nfrom mtlrun.experiments.sources import code_fingerprint, constructor\n"
        "constructor('sklearn.linear_model:Ridge')\n"
        "code_fingerprint(['mtlrun.estimators.independent:IndependentRidge'])\n"
        "assert not {'numpy', 'sklearn', 'mtlrun.estimators.independent'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modules_are_found_without_importing_their_package():
    assert find_module("sklearn.linear_model._ridge").name == "_ridge.py"
    assert find_module("sklearn.nothing") is None
    assert find_module("mtlrun").name == "__init__.py"
