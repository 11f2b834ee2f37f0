"""Versions of the code behind a job: which changes outdate stored numbers."""

import os
import py_compile
import subprocess
import sys
from dataclasses import replace

import pytest

from mtlrun.catalog import methods, registry
from mtlrun.catalog.methods import reason_of, source_digests, versions_of
from mtlrun.data.sets import load as data_load
from mtlrun.engine.plan import job_states, rerun_reasons
from mtlrun.errors import ConfigError


def changed(before, after):
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


# --- versions raised by hand


def test_our_versions_are_integers_and_packages_have_their_version():
    import sklearn

    paths = [
        "mtlrun.estimators.robust:RobustMTL",
        "mtlrun.papers.mtsvm.analyses:svm_seconds",
        "sklearn.linear_model:Ridge",
    ]
    names = {"RobustMTL", "svm-seconds", "protocol", "reader:mulan", "sklearn"}
    versions = versions_of(paths, "reader:mulan")
    assert set(versions) == names
    assert versions["sklearn"] == sklearn.__version__
    assert all(isinstance(versions[name], int) for name in names - {"sklearn"})
    assert versions_of(["collections:Counter"])["collections"] == "{}.{}".format(
        *sys.version_info
    )


def raised(monkeypatch, name, why="the step was too short"):
    """Raise the version of a method."""
    info = registry.METHODS[name]
    monkeypatch.setitem(
        registry.METHODS, name, replace(info, changes=[*info.changes, why])
    )


TWO = """\
schema: 1
id: lab/tiny
title: Two methods
kind: evaluate
datasets: [DATA]
split: {kind: random, train: 0.5, trials: 2}
metrics: [auc]
selection: {folds: 2}
methods:
  - {label: ridge, estimator: IndependentRidge, grid: {alpha: [1, 10]}}
  - {label: sparse, estimator: SparseMTL}
  - label: blocks
    estimator: DivideAndConquerRMTL
    params: {n_blocks: 2, base: {estimator: RobustMTL, params: {tol: 0.01}}}
"""


def outdated(lab, text):
    return {
        row.method
        for row, state in zip(
            lab.plan(text).rows, job_states(lab.plan(text)), strict=True
        )
        if state.reason
    }


@pytest.mark.filterwarnings("ignore")
def test_a_raised_version_outdates_the_jobs_of_that_method_only(lab, monkeypatch):
    text = TWO.replace("DATA", lab.data)
    lab.run(text, n_jobs=1)
    assert {state.name for state in job_states(lab.plan(text))} == {"done"}
    now = 1 + len(registry.METHODS["SparseMTL"].changes)
    with monkeypatch.context() as patch:
        raised(patch, "SparseMTL")
        plan = lab.plan(text)
        lines = rerun_reasons(plan, job_states(plan))
        assert lines == [
            f"rerun simulated-rmtl/sparse/2 trials: SparseMTL {now} -> {now + 1}: the step was too short"
        ]
    for name, of in (
        ("RobustMTL", {"blocks"}),
        ("IndependentRidge", {"ridge"}),
    ):  # Nested and searched
        with monkeypatch.context() as patch:
            raised(patch, name)
            assert outdated(lab, text) == of


@pytest.mark.filterwarnings("ignore")
def test_a_raised_protocol_or_generator_outdates_all_jobs(lab, monkeypatch):
    text = TWO.replace("DATA", lab.data)
    lab.run(text, n_jobs=1)
    for module, name, value in (
        (methods, "PROTOCOL_CHANGES", ("another seed",)),
        (methods, "SOURCE_CHANGES", {"generator:rmtl": ("another seed",)}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            plan = lab.plan(text)
            assert {state.name for state in job_states(plan)} == {"outdated"}
            assert all(
                line.endswith("1 -> 2: another seed")
                for line in rerun_reasons(plan, job_states(plan))
            )
    assert data_load.SOURCE_CHANGES is methods.SOURCE_CHANGES


def test_the_reason_names_all_changed_versions():
    first, second, third = registry.METHODS["SmoothMTL"].changes[:3]
    assert reason_of("SmoothMTL", 1, 2) == first
    assert reason_of("SmoothMTL", 2, 4) == f"{second}; {third}"
    assert reason_of("NoSuchMethod", 1, 2) == ""


# --- modules of the user


def test_code_in_imported_modules_counts_too(own_package):
    before = source_digests("own.models")
    assert set(before) == {"own/__init__.py", "own/models.py", "own/helper.py"}
    own_package.write(
        "models.py",
        "# a comment\n\n"
        + (own_package.root / "own" / "models.py").read_text().replace(", y)", ",  y)"),
    )
    assert source_digests("own.models") == before
    own_package.write(
        "helper.py",
        (own_package.root / "own" / "helper.py").read_text().replace("1.0 *", "1.0 +"),
    )
    assert changed(before, source_digests("own.models")) == {"own/helper.py"}


def test_class_attributes_with_any_name_count(own_package):
    own_package.write(
        "models.py", "class Ridge:\n    facts = 1\n    def fit(self): ...\n"
    )
    before = source_digests("own.models")
    own_package.write(
        "models.py", "class Ridge:\n    facts = 2\n    def fit(self): ...\n"
    )
    assert changed(before, source_digests("own.models")) == {"own/models.py"}


def test_all_kinds_of_imports_are_followed(own_package):
    own_package.write(
        "models.py",
        "from . import helper\ndef f():\n    from .part import number\n    import own.far.away\n",
    )
    own_package.write("part/__init__.py", "from own.part.deep import number\n")
    own_package.write("part/deep.py", "from ..sideways import *\nnumber = 1\n")
    own_package.write("sideways.py", "")
    own_package.write("far/__init__.py", "import own.far.started\n")
    own_package.write("far/started.py", "")
    own_package.write(
        "far/away.py",
        "import own.models, importlib\nimportlib.import_module('own.named')\n",
    )
    own_package.write(
        "named.py",
        "from importlib import import_module\nimport_module(name='x' + 'y'), __import__('own.called')\n",
    )
    own_package.write("called.py", "")
    own_package.write("unused.py", "")
    names = "__init__ models helper part/__init__ part/deep sideways far/__init__ far/started far/away named called"
    assert set(source_digests("own.models")) == {
        f"own/{name}.py" for name in names.split()
    }


def test_modules_outside_packages_and_in_folders_without_init_are_followed(own_package):
    (own_package.root / "alone.py").write_text("import plain.inside\n")
    (own_package.root / "plain").mkdir()
    (own_package.root / "plain" / "inside.py").write_text("")
    assert set(versions_of(["alone:f"])) == {"protocol", "alone.py", "plain/inside.py"}


def test_a_module_without_source_counts_by_its_bytes(own_package):
    source = own_package.write("binary.py", "x = 1\n")
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    own_package.write("models.py", "import own.binary\n")
    before = source_digests("own.models")
    assert "own/binary.pyc" in before
    source.with_suffix(".pyc").write_bytes(
        source.with_suffix(".pyc").read_bytes() + b"more"
    )
    assert changed(before, source_digests("own.models")) == {"own/binary.pyc"}


def test_installed_packages_are_not_followed(own_package):
    own_package.write(
        "models.py", "import sklearn.linear_model, numpy, json, mtlrun.metrics\n"
    )
    assert set(source_digests("own.models")) == {"own/__init__.py", "own/models.py"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder",
    ["lib/python3/dist-packages", ".local/lib/python3.11/site-packages", "target"],
)
def test_packages_are_installed_wherever_distributions_are(own_package, folder):
    # Debian's folder, the user's, and that of `pip install --target` have the metadata
    # of distributions.
    site = own_package.root / folder
    (site / "their").mkdir(parents=True)
    (site / "their" / "__init__.py").write_text("import own.helper\n")
    (site / "their-1.2.dist-info").mkdir()
    (site / "their-1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their\nVersion: 1.2\n"
    )
    (site / "their-1.2.dist-info" / "RECORD").write_text("their/__init__.py,,\n")
    own_package.write("models.py", "import their\n")
    # A process reads the metadata of all packages once.
    code = (
        "from mtlrun.catalog.methods import source_digests, versions_of\n"
        "print(*source_digests('own.models'), versions_of(['their:Model'])['their'])"
    )
    path = os.pathsep.join([str(site), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(run.stdout.split()) == {"own/__init__.py", "own/models.py", "1.2"}


def test_a_package_on_the_path_belongs_to_the_user(tmp_path, monkeypatch):
    (tmp_path / "project" / "theirs").mkdir(parents=True)
    (tmp_path / "project" / "theirs" / "__init__.py").write_text("")
    (tmp_path / "project" / "theirs.egg-info").mkdir()  # An editable installation
    monkeypatch.syspath_prepend(tmp_path / "project")
    assert set(source_digests("theirs")) == {"theirs/__init__.py"}


@pytest.mark.parametrize(
    "source", [b"class Ridge(:\n", b"x = '\x00'\n", b"x = '\xff'\n"]
)
def test_a_file_that_is_not_python_is_named(own_package, source):
    (own_package.root / "own" / "models.py").write_bytes(source)
    with pytest.raises(ConfigError, match=r"models\.py"):
        source_digests("own.models")


def test_a_dangling_link_is_not_a_module(own_package):
    (own_package.root / "own" / "broken.py").symlink_to(own_package.root / "nowhere.py")
    assert set(source_digests("own.broken")) == {"own/__init__.py"}


def test_tables_with_weights_or_groups_have_their_own_list_of_changes():
    plain = methods.versions_of([], "reader:table")["reader:table"]
    weighted = methods.versions_of([], "reader:table+weight")["reader:table+weight"]
    both = "reader:table+group+weight"
    assert weighted == plain + 1
    assert methods.versions_of([], both)[both] == plain + 2
    assert "mean 1" in methods.reason_of("reader:table+weight", plain, weighted)
