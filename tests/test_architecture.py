"""Rules of docs/architecture.md and of style that are checked automatically."""

import ast
import functools
import json
import re
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mtlrun"
CONFIGS = PACKAGE.parent / "configs"
MODULES = sorted(PACKAGE.rglob("*.py"))
#: From bottom to top: a layer imports only itself and earlier layers.
LAYERS = [
    "utils",
    "problem",
    "penalties",
    "data",
    "metrics",
    "features",
    "solvers",
    "estimators",
    "catalog",
    "parallel",
    "engine",
    "show",
    "model",
    "comparison",
    "lab",
    "chunks",
    "papers",
    "cli",
]
#: The rooms of ``data``, from bottom to top. None imports a later one, not even inside a
#: function or for types.
ROOMS_OF_DATA = [
    ("reading",),
    ("clock", "dataset", "groups", "splits", "tasks", "times", "transforms"),
    ("roles",),
    ("sets",),
]
#: The laboratory and the commands; everything else is the library.
LABORATORY = ("lab", "chunks", "papers", "cli")
#: Packages that only the laboratory may import at module level
LABORATORY_PACKAGES = ("pydantic", "jinja2", "matplotlib")
#: Modules of the library that import one of these packages. Other modules import them
#: only inside functions.
MODULES_WITH_PACKAGES = {
    "mtlrun.data.sets.cards": "pydantic",
    "mtlrun.utils.yaml": "pydantic",
    "mtlrun.show.canvas": "matplotlib",
    "mtlrun.show.figure_drawing": "matplotlib",
    "mtlrun.show.picture_drawing": "matplotlib",
    "mtlrun.show.drawing": "matplotlib",
}
HEAVY = [
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "pydantic",
    "matplotlib",
    "numba",
    "joblib",
    "requests",
]
LIGHT = [
    "mtlrun.errors",
    "mtlrun.utils.io",
    "mtlrun.estimators.metadata",
    "mtlrun.catalog.registry",
    "mtlrun.catalog.analysis",
]
MAX_LINES = 1600  # Including docstrings
MAX_BODY = 110


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Return all statements below a node: a tenth of the nodes of `ast.walk`."""
    blocks = ("body", "handlers", "orelse", "finalbody", "cases")
    trees = deque([tree])
    while trees:
        tree = trees.popleft()
        yield tree
        for block in blocks:
            trees.extend(getattr(tree, block, ()))


@functools.cache
def _nodes(path: Path) -> list[ast.AST]:
    """Return the import statements, functions and classes of a module."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node
        for node in _statements(_parsed(path))
        if isinstance(node, (*kinds, ast.ClassDef))
    ]


@pytest.fixture(autouse=True, scope="module")
def trees_of_this_file() -> Iterator[None]:
    """Drop the trees after the last test: a million objects slow the others down."""
    yield
    _parsed.cache_clear()
    _nodes.cache_clear()


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> list[tuple[int, str]]:
    imports = []
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            imports += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            imports += [
                (node.lineno, f"{node.module}.{alias.name}") for alias in node.names
            ]
    return imports


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    first = function.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(
        first.value, ast.Constant
    )
    return function.body[1:] if has_docstring else function.body


def test_imports_point_only_downwards():
    upwards = []
    for path in MODULES:
        layer = _name(path).split(".")[1:2]
        allowed = (
            LAYERS[: LAYERS.index(layer[0]) + 1]
            if layer and layer[0] in LAYERS
            else LAYERS
        )
        for line, target in _imports(path):
            parts = target.split(".")
            if (
                parts[0] == "mtlrun"
                and len(parts) > 1
                and parts[1] in LAYERS
                and parts[1] not in allowed
            ):
                upwards.append(f"{path}:{line} imports {target}")
    assert not upwards, "\n".join(upwards)


def _imports_within_data() -> dict[str, set[str]]:
    """Return the modules of ``data`` and what they import of each other anywhere."""
    names = {_name(path) for path in MODULES if path.parent != PACKAGE}
    names = {name for name in names if name.startswith("mtlrun.data.")}
    imports = {}
    for path in MODULES:
        name = _name(path)
        if name in names and path.name != "__init__.py":
            targets = {target for _, target in _imports(path)}
            targets |= {target.rpartition(".")[0] for target in targets}
            imports[name] = targets & names - {name}
    return imports


def test_rooms_of_data_import_only_earlier_rooms_lazily_and_for_types_too():
    floor_of_room = {}
    for floor, rooms in enumerate(ROOMS_OF_DATA):
        floor_of_room |= dict.fromkeys(rooms, floor)
    upwards = []
    for name, targets in _imports_within_data().items():
        floor = floor_of_room[name.split(".")[2]]
        for target in targets:
            if floor_of_room[target.split(".")[2]] > floor:
                upwards.append(f"{name} imports {target}")
    assert not upwards, "\n".join(upwards)


def test_no_modules_of_data_import_each_other_in_a_cycle_lazily_or_for_types():
    waits = _imports_within_data()
    while free := {name for name, needs in waits.items() if not needs & set(waits)}:
        waits = {name: needs for name, needs in waits.items() if name not in free}
    assert not waits


def test_every_module_is_in_a_layer():
    for path in MODULES:
        inside = path.relative_to(PACKAGE).parts
        assert len(inside) == 1 or inside[0] in LAYERS, path


def _library_modules() -> list[str]:
    modules = [path for path in MODULES if path.name != "__main__.py"]
    return [
        _name(path)
        for path in modules
        if path.relative_to(PACKAGE).parts[0] not in LABORATORY
    ]


def _printed_by(code):
    """Return what code prints in a new process, which must not fail."""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.slow
def test_the_library_imports_neither_the_laboratory_nor_its_packages():
    names = [name for name in _library_modules() if name not in MODULES_WITH_PACKAGES]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"packages = {LABORATORY_PACKAGES!r}\n"
        "loaded = [name for name in packages if name in sys.modules]\n"
        "loaded += [name for name in sys.modules if name.startswith('mtlrun.lab')]\n"
        "print(loaded)"
    )
    assert _printed_by(code) == "[]"


def test_only_listed_modules_of_the_library_import_packages_of_the_laboratory():
    importers = {}
    for path in MODULES:
        if path.relative_to(PACKAGE).parts[0] in LABORATORY:
            continue
        tops = {name.partition(".")[0] for name in _at_import(_parsed(path).body)}
        importers |= {
            _name(path): package for package in LABORATORY_PACKAGES if package in tops
        }
    assert importers == MODULES_WITH_PACKAGES


def _at_import(body: list[ast.stmt]) -> set[str]:
    """Return imports that run with a module, not in functions or for type checkers."""
    names = set()
    for node in body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {
                str(node.module),
                *(f"{node.module}.{alias.name}" for alias in node.names),
            }
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            checked = isinstance(node, ast.If) and ast.unparse(node.test).endswith(
                "TYPE_CHECKING"
            )
            for name in ("body", "orelse", "finalbody", "handlers"):
                if not (checked and name == "body"):
                    names |= _at_import(getattr(node, name, []))
    return names


def test_no_modules_import_each_other_in_a_cycle():
    names = {_name(path) for path in MODULES}
    waits = {
        _name(path): _at_import(_parsed(path).body) & names - {_name(path)}
        for path in MODULES
    }
    while free := {
        name for name, needs in waits.items() if not needs
    }:  # The rest waits for itself.
        waits = {
            name: needs - free for name, needs in waits.items() if name not in free
        }
    assert not waits


def test_files_and_functions_are_short_and_public_names_documented():
    problems = []
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        tree = _parsed(path)
        if text.count("\n") > MAX_LINES:
            problems.append(f"{path}: {text.count(chr(10))} lines")
        if not ast.get_docstring(tree):
            problems.append(f"{path}: no module docstring")
        for node in _nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                body := _body(node)
            ):
                length = (node.end_lineno or 0) - body[0].lineno + 1
                if length > MAX_BODY:
                    problems.append(
                        f"{path}:{node.lineno}: {node.name} has {length} lines"
                    )
        for node in tree.body:
            is_public = isinstance(
                node, ast.FunctionDef | ast.ClassDef
            ) and not node.name.startswith("_")
            if is_public and not ast.get_docstring(node):
                problems.append(f"{path}:{node.lineno}: {node.name} has no docstring")
    assert not problems, "\n".join(problems)


def test_class_names_are_unique():
    modules = defaultdict(list)
    for path in MODULES:
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(f"{path}:{node.lineno}")
    assert not {name: where for name, where in modules.items() if len(where) > 1}


def test_light_modules_import_no_heavy_package():
    # One process for all: each import reports the heavy packages that it imported
    # first.
    packages = [_name(path) for path in MODULES if path.name == "__init__.py"]
    commands = [
        _name(path) for path in MODULES if path.relative_to(PACKAGE).parts[0] == "cli"
    ]
    light = [*packages, *LIGHT, *commands]
    code = (
        "import importlib, json, sys\n"
        f"found = {{}}\nfor name in {light!r}:\n"
        "    importlib.import_module(name)\n"
        f"    new = [h for h in {HEAVY!r} if h in sys.modules and h not in sum(found.values(), [])]\n"
        "    if new: found[name] = new\n"
        "print(json.dumps(found))"
    )
    assert json.loads(_printed_by(code)) == {}


@pytest.mark.slow
def test_compare_imports_no_readers_of_files_that_it_may_not_need():
    """Importing scipy.io and scikit-learn's data sets takes a tenth of a second."""
    code = (
        "import sys, mtlrun\n"
        "mtlrun.compare\n"
        "packages = ['scipy.io', 'sklearn.datasets', 'numba', 'matplotlib']\n"
        "packages += ['pydantic', 'skops']\n"
        "print([name for name in packages if name in sys.modules])"
    )
    assert _printed_by(code) == "[]"


def test_lines_of_machine_formats_end_with_line_feeds():
    """`str.splitlines` also splits at U+2028 and U+0085, which names may have."""
    human = {
        "lab/verify.py",
        "lab/report/sections.py",
        "lab/batch.py",
        "comparison/protocol.py",
    }  # The first line of a message
    octets = {
        "show/drawing.py",
        "data/reading/formats/svmlight.py",
    }  # bytes.splitlines splits only at line ends.
    actual = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        if ".splitlines(" in path.read_text()
    }
    assert actual == human | octets


def test_experiment_files_are_short():
    lengths = {
        str(path.relative_to(CONFIGS)): path.read_text("utf-8").count("\n")
        for path in CONFIGS.rglob("*.yaml")
    }
    assert not {name: n for name, n in lengths.items() if n > 240}


@pytest.mark.parametrize(
    "page",
    ["docs/architecture.md", "docs/formats.md", "examples/extending/INTERFACES.md"],
)
def test_files_that_a_page_names_exist(page):
    text = (PACKAGE.parent / page).read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    folders = (PACKAGE, PACKAGE.parent)
    missing = [
        name for name in names if not any((top / name).exists() for top in folders)
    ]
    assert names
    assert missing == []
