"""Fingerprints of code: which edits count."""

import sys
from pathlib import Path

import numpy as np
import pytest
from mtlrun.experiments.fingerprint import NOT_NUMERICAL, code_fingerprint, reachable

import mtlrun
from mtlrun.estimators.registry import METHODS, build
from mtlrun.runs.methods import class_paths, resolved
from mtlrun.runs.sources import parse


def fingerprint(*paths):
    return code_fingerprint(paths or ["lab.models:Ridge"])


def changed(before, after):
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


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
    assert changed(before, fingerprint()) == {"lab/helper.py"}


def test_relative_lazy_and_package_imports_are_followed(lab):
    lab.models.write_text("def f():\n    from . import helper\n    from .part import number\n")
    (lab.root / "lab" / "part").mkdir()
    (lab.root / "lab" / "part" / "__init__.py").write_text("from lab.part.deep import number\n")
    (lab.root / "lab" / "part" / "deep.py").write_text("number = 1\n")
    assert set(code_fingerprint(["lab.models:f"])) == {
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


def test_other_definitions_of_the_same_file_do_not_count(lab):
    before = fingerprint()
    lab.helper.write_text(lab.helper.read_text() + "\ndef expand(alpha):\n    return 2 * alpha\n")
    lab.models.write_text(lab.models.read_text().replace("this solver never works", "this solver works no more"))
    assert fingerprint() == before
    assert changed(before, fingerprint("lab.models:Broken")) == {"lab/models.py"}


def test_constants_base_classes_and_statements_count(lab):
    lab.helper.write_text("FACTOR, OFFSET = 1.0, 0\nclass Base: pass\ndef shrink(alpha):\n    return FACTOR * alpha\n")
    before = fingerprint()
    lab.helper.write_text(lab.helper.read_text().replace("1.0", "1.5"))
    assert changed(before, fingerprint()) == {"lab/helper.py"}
    lab.helper.write_text(lab.helper.read_text().replace("1.5", "1.0") + "shrink.fast = True\n")
    assert changed(before, fingerprint()) == {"lab/helper.py"}
    before = fingerprint("lab.models:Diverging")
    lab.models.write_text(lab.models.read_text().replace("return np.asarray(X) @", "return 2 * np.asarray(X) @"))
    assert changed(before, fingerprint("lab.models:Diverging")) == {"lab/models.py"}


def test_two_modules_imported_under_one_name_both_count(lab):
    (lab.root / "lab" / "other.py").write_text("def f(): return 1\n")
    lab.models.write_text("import lab.helper\nimport lab.other\ndef g(): return lab.other.f()\n")
    assert set(code_fingerprint(["lab.models:g"])) == {"lab/models.py", "lab/helper.py", "lab/other.py"}


SMALL = {"DivideAndConquerRMTL": {"n_blocks": 2}, "DivideAndConquerRMTLClassifier": {"n_blocks": 2}}


def functions_run(action):
    """Return (module, name of the definition at the top of it) of all functions of mtlrun that an action runs."""
    package = Path(mtlrun.__file__).parent
    seen = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(f"{package}/"):
            seen.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    found = set()
    for file, line in seen:
        path = Path(file)
        module = "mtlrun." + path.relative_to(package).with_suffix("").as_posix().replace("/", ".")
        for node in parse(path).body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            if first <= line <= node.end_lineno and hasattr(node, "name"):
                found.add((module, node.name))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_every_function_that_a_fit_runs_is_in_the_fingerprint(name):
    if METHODS[name].extra == "nn":
        pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 4))
    Y = np.where(X @ rng.normal(size=(4, 6)) > 0, 1.0, -1.0)
    model = build({"estimator": name, "params": SMALL.get(name, {})})
    model.fit(X, Y)  # compiles what is compiled, and imports what is imported late
    run = functions_run(lambda: model.fit(X, Y).predict(X))
    starts = [path.split(":") for path in class_paths(resolved(name, SMALL.get(name, {}), seed=0))]
    reached = reachable([(module, cls) for module, cls in starts])
    missed = {(m, n) for m, n in run if m not in NOT_NUMERICAL and n not in reached.get(m, ())}
    assert run
    assert not missed
