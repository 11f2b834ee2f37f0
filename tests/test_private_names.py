"""Private names of other packages are used only if no public way exists, and tests
reach into the package less and less.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("mtlrun", "scripts", "benchmarks", "examples", "tests")
PRIVATE = re.compile(r"_[A-Za-z]\w*")
#: Public names with a leading underscore: named tuples, and the standard library
DOCUMENTED = {
    "_replace",
    "_asdict",
    "_fields",
    "_make",
    "_exit",
    "_getframe",
    "_thread",
    "_value_",
}

#: File: private names of other packages that it uses. Each is used in one function, or
#: in the module that checks loaded models, with reason and version in a comment.
WITHOUT_PUBLIC_WAY = {
    # `signal` takes longer to import than all earlier imports.
    "mtlrun/__main__.py": {"_signal"},
    # Fields that compiled code of scikit-learn reads from a loaded model
    "mtlrun/model/checks.py": {
        "_bin_mapper",
        "_predictors",
        "_n_support",
        "_dual_coef_",
        "_intercept_",
        "_probA",
        "_probB",
    },
    # Rows of arrays, sparse matrices, lists and all kinds of frames
    "mtlrun/data/reading/frames.py": {"_safe_indexing"},
    # Forged models, and the interpreter of a virtual environment
    "tests/cli/test_hostile_input.py": {"_predictors"},
    "tests/model/test_model_tables.py": {"_bin_mapper", "_predictors", "_tree"},
    "tests/cli/test_dependencies_elsewhere.py": {"_base_executable"},
    # Forked processes of the tests must forget the workers kept by joblib.
    "tests/conftest.py": {"_executor", "_resource_tracker", "_fd", "_pid"},
}
#: How often tests use what is private in our package: names that they import,
#: attributes, and parts that they replace. Lower a number when it has fallen; it must
#: not rise. A test at a public function needs none of them.
MAX_INSIDE = {"imports": 0, "attributes": 9, "replaced": 44}
#: Methods of a fixture that replaces a part, and the function of the same name
REPLACING = ("setattr", "setitem", "delattr", "delitem")


def files():
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def nodes_with_names(source):
    """Return the nodes of a file that define, import or use names."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.Attribute)
    kinds += (ast.Import, ast.ImportFrom, ast.Call)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def names_defined(nodes):
    """Return names of functions, classes, variables and attributes of a file."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and is_set_on_self(node):
            yield node.attr


def is_set_on_self(node):
    owner = node.value
    is_set = isinstance(node.ctx, ast.Store)
    return is_set and isinstance(owner, ast.Name) and owner.id == "self"


def names_imported(nodes):
    """Return private names that a file imports from other packages."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from private_parts(alias.name)
        elif isinstance(node, ast.ImportFrom) and not is_ours(node):
            for alias in node.names:
                yield from private_parts(f"{node.module}.{alias.name}")


def is_ours(node):
    return node.level or node.module.partition(".")[0] in FOLDERS


def names_used(nodes):
    """Return private names that a file reads or sets on objects."""
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield from private_parts(node.attr)
        elif isinstance(node, ast.Call) and is_attribute_access(node.func):
            for argument in node.args[1:2]:
                if isinstance(argument, ast.Constant):
                    yield from private_parts(str(argument.value))


def private_parts(dotted):
    return [part for part in dotted.split(".") if PRIVATE.fullmatch(part)]


def is_attribute_access(function):
    names = ("getattr", "hasattr", "setattr", "delattr")
    return isinstance(function, ast.Name) and function.id in names


def private_names_of_others(sources):
    """Return, by file, private names that no file of ours defines."""
    ours = set()
    used = {}
    imported = {}
    for name, source in sources.items():
        nodes = nodes_with_names(source)
        ours.update(names_defined(nodes))
        used[name] = set(names_used(nodes))
        imported[name] = set(names_imported(nodes))
    others = {}
    for name in sources:
        names = used[name] - ours | imported[name]
        if names - DOCUMENTED:
            others[name] = names - DOCUMENTED
    return others


@pytest.mark.slow
def test_private_names_of_other_packages_have_no_public_alternative():
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in files()
    }
    assert private_names_of_others(sources) == WITHOUT_PUBLIC_WAY


def test_every_kind_of_access_to_a_private_name_is_detected():
    sources = {
        "attribute": "executor._context",
        "set": "executor._context = None",
        "getattr": "getattr(executor, '_context')",
        "import": "import numpy._core",
        "from": "from numpy import _core",
        "module": "from numpy._core import multiarray",
        "ours": "class A:\n  def _b(self): ...\nA()._b",
        "tuple": "row._replace(x=1)",
        "our module": "from mtlrun.model import _names",
    }
    assert private_names_of_others(sources) == {
        "attribute": {"_context"},
        "set": {"_context"},
        "getattr": {"_context"},
        "import": {"_core"},
        "from": {"_core"},
        "module": {"_core"},
    }


def uses_inside(source, names_of_others=()):
    """Count how often a test uses what is private in our package, by kind."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module.partition(".")[0] == "mtlrun"]
    imported = {alias.asname or alias.name for node in ours for alias in node.names}
    allowed = {*DOCUMENTED, *names_of_others, "_repr_html_"}
    counts = Counter()
    for node in ours:
        for alias in node.names:
            parts = private_parts(f"{node.module}.{alias.name}")
            counts["imports"] += bool(parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own_attribute(node):
            names = set(private_parts(node.attr))
            counts["attributes"] += bool(names - allowed)
        elif isinstance(node, ast.Call) and is_replacing(node, imported):
            counts["replaced"] += 1
    return counts


def is_own_attribute(node):
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def is_replacing(call, imported):
    """Whether a call replaces a part of our package, named by text or by its owner."""
    function = call.func
    name = getattr(function, "attr", getattr(function, "id", None))
    if name not in REPLACING or not call.args:
        return False
    target = call.args[0]
    if isinstance(target, ast.JoinedStr):
        target = target.values[0]
    if isinstance(target, ast.Constant):
        return str(target.value).startswith("mtlrun.")
    while isinstance(target, ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name) and target.id in {*imported, "mtlrun"}


@pytest.mark.slow
def test_tests_reach_into_the_package_less_and_less():
    total = Counter()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        of_others = WITHOUT_PUBLIC_WAY.get(path.relative_to(ROOT).as_posix(), ())
        total += uses_inside(path.read_text(encoding="utf-8"), of_others)
    assert total <= Counter(MAX_INSIDE), f"{dict(total)} of {MAX_INSIDE}"


def test_every_way_into_the_package_is_counted():
    source = """
from mtlrun.model import _names, plots
from mtlrun.model._files import read
import os
plots._tasks(plots.panels_of._cache, row._replace(x=1), self._mine)
monkeypatch.setattr(plots, "KINDS", ())
patch.setitem(plots.KINDS, "a", 1)
monkeypatch.setattr("mtlrun.model.plots.KINDS", ())
monkeypatch.setattr(f"mtlrun.model.{name}", ())
setattr(plots, "KINDS", ())
monkeypatch.setattr(os, "fsync", None)
"""
    expected = {"imports": 2, "attributes": 2, "replaced": 5}
    assert uses_inside(source) == expected
