"""Which edits change the digest of code, and what is known of classes and functions without importing them."""

import json
import os
import py_compile
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import mtlrun
from mtlrun.errors import ConfigError
from mtlrun.runs import code
from mtlrun.runs.code import EXEMPT, Facts, code_of, facts
from mtlrun.utils.io import sealed

PACKAGE = Path(mtlrun.__file__).parent


def changed(before, after):
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def python(script, **environment):
    """Run a script in a process of its own, with this one's paths, and return what it printed."""
    paths = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": paths, **environment}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


# --- which edits count


def test_comments_docstrings_layout_and_facts_do_not_count(own):
    before = code_of(["own.models:Ridge"])
    text = (own.root / "own" / "models.py").read_text()
    text = text.replace('"""Solve."""', '"""Other words."""').replace("return shrink(", "return (  # why\n   shrink)(")
    own.write("models.py", "# a comment\n\n" + text.replace('"""A model."""', '"""Better."""\n\n    facts = {"a": 1}'))
    assert code_of(["own.models:Ridge"]) == before


def test_a_docstring_that_is_data_counts(own):
    own.write("models.py", "def f():\n    x = 'a'\n    'b'\n")
    before = code_of(["own.models"])
    own.write("models.py", "def f():\n    x = 'c'\n    'b'\n")
    assert code_of(["own.models"]) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.0", "2.0"),
        ("1.0 *", "1 *"),
        ("* alpha", "+ alpha"),
        ("alpha", "beta"),
        ("return", "yield"),
        ("def", "x = 1\ndef"),
    ],
)
def test_code_counts_also_in_a_module_that_is_only_imported(own, old, new):
    before = code_of(["own.models:Ridge"])
    own.write("helper.py", (own.root / "own" / "helper.py").read_text().replace(old, new))
    assert changed(before, code_of(["own.models:Ridge"])) == {"own/helper.py"}


def test_every_kind_of_import_is_followed(own):
    own.write("models.py", "from . import helper\ndef f():\n    from .part import number\n    import own.far.away\n")
    own.write("part/__init__.py", "from own.part.deep import number\n")
    own.write("part/deep.py", "from ..sideways import *\nnumber = 1\n")
    own.write("sideways.py", "")
    own.write("far/__init__.py", "import own.far.started\n")
    own.write("far/started.py", "")
    own.write("far/away.py", "import own.models\n")
    own.write("unused.py", "")
    names = "__init__ models helper part/__init__ part/deep sideways far/__init__ far/started far/away"
    assert set(code_of(["own.models:f"])) == {f"own/{name}.py" for name in names.split()}


def test_a_module_that_appears_later_is_seen(own):
    before = code_of(["own.models"])
    own.write("new.py", "")
    own.write("models.py", "from own import new\n")
    assert changed(before, code_of(["own.models"])) == {"own/models.py", "own/helper.py", "own/new.py"}


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_imports_for_type_checkers_are_not_followed(own, test):
    own.write("models.py", f"import typing\nif {test}:\n    import own.helper\nelse:\n    import own.other\n")
    own.write("other.py", "")
    assert set(code_of(["own.models"])) == {"own/__init__.py", "own/models.py", "own/other.py"}


def test_modules_outside_packages_and_in_folders_without_init_are_followed(own):
    (own.root / "alone.py").write_text("import plain.inside\n")
    (own.root / "plain").mkdir()
    (own.root / "plain" / "inside.py").write_text("")
    assert set(code_of(["alone:f"])) == {"alone.py", "plain/inside.py"}


def test_a_module_without_source_counts_by_its_bytes(own):
    source = own.write("binary.py", "x = 1\n")
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    own.write("models.py", "import own.binary\n")
    before = code_of(["own.models"])
    assert "own/binary.pyc" in before
    source.with_suffix(".pyc").write_bytes(source.with_suffix(".pyc").read_bytes() + b"more")
    assert changed(before, code_of(["own.models"])) == {"own/binary.pyc"}


# --- what is installed


def test_installed_packages_count_by_their_version_and_are_not_entered(own):
    import sklearn

    own.write("models.py", "import sklearn.linear_model, numpy, json\n")
    assert set(code_of(["own.models"])) == {"own/__init__.py", "own/models.py"}
    assert code_of(["sklearn.linear_model:Ridge"]) == {"sklearn": f"version {sklearn.__version__}"}
    assert code_of(["collections:Counter"]) == {"collections": "version {}.{}".format(*sys.version_info)}


@pytest.mark.parametrize("folder", ["lib/python3/dist-packages", ".local/lib/python3.11/site-packages", "target"])
def test_packages_are_installed_wherever_distributions_are(own, monkeypatch, folder):
    # Debian's folder, the user's, and that of `pip install --target`: beside a package lies what it was installed from.
    site = own.root / folder
    (site / "their").mkdir(parents=True)
    (site / "their" / "__init__.py").write_text("import own.helper\n")
    (site / "their-1.2.dist-info").mkdir()
    (site / "their-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: their\nVersion: 1.2\n")
    (site / "their-1.2.dist-info" / "RECORD").write_text("their/__init__.py,,\n")
    monkeypatch.syspath_prepend(site)
    own.write("models.py", "import their\n")
    assert set(code_of(["own.models"])) == {"own/__init__.py", "own/models.py"}
    assert code_of(["their:Model"]) == {"their": "version 1.2"}


def test_a_package_on_the_path_is_the_users_own(tmp_path, monkeypatch, cache):
    (tmp_path / "project" / "theirs").mkdir(parents=True)
    (tmp_path / "project" / "theirs" / "__init__.py").write_text("")
    (tmp_path / "project" / "theirs.egg-info").mkdir()  # an editable installation
    monkeypatch.syspath_prepend(tmp_path / "project")
    assert set(code_of(["theirs"])) == {"theirs/__init__.py"}


def test_no_source_file_of_others_is_read(own):
    script = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "import platformdirs\nfrom mtlrun.runs.code import code_of\nopened.clear()\n"
        "code_of(['own.models', 'sklearn.linear_model:Ridge', 'mtlrun.estimators.independent:IndependentRidge'])\n"
        "assert not {'numpy', 'sklearn', 'mtlrun.estimators.independent'} & {*sys.modules}\n"
        "print('\\n'.join(name for name in opened if name.endswith('.py')))\n"
    )
    read = python(script).split()
    assert str(own.root / "own" / "helper.py") in read
    assert not [name for name in read if name.startswith(sysconfig.get_path("purelib"))]


# --- what is exempt


def test_what_is_exempt_changes_no_number():
    found = code_of(["mtlrun.estimators.independent:IndependentRidge"])
    assert "mtlrun/problem/taskdata.py" in found
    assert not {"mtlrun/errors.py", "mtlrun/utils/io.py", "mtlrun/estimators/registry.py"} & set(found)


def test_exempt_modules_are_leaves_without_numpy(monkeypatch, cache):
    monkeypatch.setattr(code, "EXEMPT", frozenset())
    code._IMPORTS.clear()
    for name in EXEMPT:
        walk = code._Walk([name])
        reached = {module.name for module in walk._seen if module.name.startswith("mtlrun")}
        packages = {"mtlrun.utils", "mtlrun.estimators", "mtlrun.papers"}
        assert reached <= EXEMPT | packages, name
        assert walk.outside <= {*sys.stdlib_module_names, "yaml", "threadpoolctl", "numpy"}, name
    python(f"import sys, {', '.join(EXEMPT)}\nassert 'numpy' not in sys.modules")  # but inside functions


# --- the cache


def test_answers_are_the_same_with_a_cache_without_one_and_with_a_damaged_one(own, cache):
    fresh = code_of(["own.models", "mtlrun.estimators.independent"])
    kept = cache.read_text()
    assert len(json.loads(kept)["known"]) > 10
    first = next(iter(json.loads(kept)["known"].values()))[0]
    damages = ["", "[]", "null", kept[: len(kept) // 2], kept.replace(first, "0" * 16), "\x00" * 50, "[" * 10**5]
    for damage in damages:
        cache.write_text(damage)
        forget_cache()
        assert code_of(["own.models", "mtlrun.estimators.independent"]) == fresh
        assert json.loads(cache.read_text())["known"] == json.loads(kept)["known"]  # mended
    cache.write_bytes(b"\xff\xfe")
    forget_cache()
    assert code_of(["own.models", "mtlrun.estimators.independent"]) == fresh


def forget_cache():
    code._open.cache_clear()
    code._read.cache_clear()


def test_a_cache_that_cannot_be_written_is_left_alone(own, cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder should be")
    forget_cache()
    assert "own/models.py" in code_of(["own.models"])
    assert facts("own.models:Ridge").fits


def test_several_processes_share_the_cache(own, cache):
    script = "import sys; from mtlrun.runs.code import code_of\nfor n in range(5): code_of([f'own.m{sys.argv[1]}{n}'])"
    for i in range(4):
        for n in range(5):
            own.write(f"m{i}{n}.py", f"x = {i}, {n}\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    running = [subprocess.Popen([sys.executable, "-c", script, str(i)], env=environment) for i in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert json.loads(cache.read_text())["known"]
    assert [p.name for p in cache.parent.iterdir()] == ["code.json"]


def test_another_version_of_the_module_asks_again(own, cache):
    before = code_of(["own.models"])
    written = json.loads(cache.read_text())
    known = dict.fromkeys(written["known"], "wrong")
    cache.write_text(json.dumps(sealed({"made by": "another", "known": known})))
    forget_cache()
    assert code_of(["own.models"]) == before
    assert json.loads(cache.read_text()) == written


def test_the_cache_does_not_grow_without_end(own, cache, monkeypatch):
    monkeypatch.setattr(code, "_MOST_ENTRIES", 3)
    for n in range(9):
        own.write("models.py", f"x = {n}\n")
        code_of(["own.models"])
        forget_cache()
    assert len(json.loads(cache.read_text())["known"]) <= 3


# --- facts


def test_facts_of_classes_and_functions(own):
    own.write(
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
        def measure(data, *, seed, steps=3): ...
        """,
    )
    ridge = Facts(("alpha", "slow"), keyword_only=("slow",), is_class=True, fits=True)
    for path in ("own.models:Ridge", "own.kinds:Ridge", "own.kinds:Child"):
        assert facts(path) == ridge
    assert facts("own.kinds:Open") == Facts(("a", "b"), True, ("b",), True, True)
    assert facts("own.kinds:Bare") == Facts((), is_class=True, fits=True)
    assert facts("own.kinds:NoFit") == Facts(("a",), is_class=True)
    assert facts("own.kinds:measure") == Facts(("data", "seed", "steps"), keyword_only=("seed", "steps"))
    assert {"alpha", "fit_intercept"} <= set(facts("sklearn.linear_model:Ridge").names)


@pytest.mark.slow
def test_facts_are_remembered_until_the_code_changes(own, cache):
    ask = """
import sys
from mtlrun.runs.code import facts
facts("mtlrun.estimators.independent:IndependentRidge")
print(facts("own.models:Ridge").names, {"own.models", "numpy"} & {*sys.modules})
"""
    first, second = (python(ask).strip() for _ in range(2))
    assert first.startswith("('alpha', 'slow') {")
    assert second == "('alpha', 'slow') set()"
    own.write("models.py", "from own.helper import Base as Ridge\n")
    own.write("helper.py", "class Base:\n    def __init__(self, gamma): ...\n")
    assert [python(ask).strip() for _ in range(2)] == ["('gamma',) {'own.models'}", "('gamma',) set()"]


def test_facts_of_a_module_that_was_imported_before_an_edit_are_not_remembered(own):
    import own.models  # noqa: F401

    (own_file := Path("own/models.py")).write_text(
        own_file.read_text().replace("alpha", "strength")
    )  # of another length, for Python's own cache
    assert facts("own.models:Ridge").names == ("alpha", "slow")  # as this process will compute
    script = "from mtlrun.runs.code import facts; print(facts('own.models:Ridge').names)"
    assert python(script).strip() == "('strength', 'slow')"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own.models:Rigde", "'Rigde'\nDid you mean 'Ridge'?"),
        ("own.models:", "defines no class or function ''"),
        ("own.model:Ridge", "no module 'own.model' for 'own.model:Ridge'\n"),
        ("owns.models:Ridge", "no module 'owns.models' for 'owns.models:Ridge'\n"),
        ("owns:Ridge", "no module 'owns' for"),
        ("own.models.deeper:Ridge", "no module 'own.models.deeper'"),
        (":Ridge", "no module ''"),
        ("..:Ridge", "no module '..'"),
        ("sklearn.linear_modl:Ridge", "cannot import 'sklearn.linear_modl'"),
        ("sklearn.linear_model:Rigde", "Did you mean 'Ridge'?"),
    ],
)
def test_unknown_modules_and_names(own, path, message):
    with pytest.raises(ConfigError) as refused:
        facts(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"class Ridge(:\n", "models.py:1:13: invalid syntax"),
        (b"x = '\x00'\n", "models.py"),
        (b"x = '\xff'\n", "models.py"),
        (b"import nothing_like_this\n", "cannot import 'own.models' for 'own.models:Ridge': ModuleNotFoundError"),
        (b"1 / 0\n", "ZeroDivisionError: division by zero"),
        (b"raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_modules_that_cannot_be_imported(own, source, message):
    (own.root / "own" / "models.py").write_bytes(source)
    with pytest.raises(ConfigError) as refused:
        facts("own.models:Ridge")
    assert message in str(refused.value)


def test_a_link_to_nowhere_is_no_module(own):
    (own.root / "own" / "broken.py").symlink_to(own.root / "nowhere.py")
    with pytest.raises(ConfigError, match=r"no module 'own\.broken'"):
        code_of(["own.broken"])
