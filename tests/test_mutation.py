"""`make mutation` changes code so that it still compiles and finds the nearest tests."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "mutation.py"
CODE = """\
def clip(x: int | None = 3, *, low=-1.0):
    'Not 5 changed.'
    if x is None or x < low:
        return f"{low + 1}"
    return x * (low + 2) if not x else True
"""


@pytest.fixture(scope="module")
def mutation():
    spec = importlib.util.spec_from_file_location("mutation_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        # The script compiles no kernels; other tests do.
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_each_mutation_changes_one_part_and_compiles(mutation):
    mutations = mutation.Sites("a.py", CODE).mutations
    changed = [change.applied(CODE) for change in mutations]
    for text in changed:
        compile(text, "a.py", "exec")
    assert len(set(changed)) == len(changed)
    assert {change.before for change in mutations} == {
        "3",
        "-1.0",
        "1.0",
        "x is None or x < low",
        "x is None",
        "x < low",
        "x * (low + 2)",
        "low + 2",
        "2",
        "not x",
        "True",
    }


def test_positions_are_counted_in_characters(mutation):
    (change,) = mutation.Sites("a.py", "x = 'ä', y < z\n").mutations
    assert change.applied("x = 'ä', y < z\n") == "x = 'ä', (y) <= (z)\n"


def test_each_file_has_its_share_of_the_mutations(mutation):
    files = ["mtlrun/metrics/classification.py", "mtlrun/show/palette.py"]
    chosen = mutation.sample(files, number=10, seed=1)
    assert [change.file for change in chosen] == files * 5
    assert chosen == mutation.sample(files, number=10, seed=1)
    assert chosen != mutation.sample(files, number=10, seed=2)


def test_the_nearest_tests_have_the_name_of_the_file(mutation):
    tests = mutation.nearest_tests("mtlrun/solvers/convex/fista.py")
    assert tests[0] == "tests/solvers/test_fista.py"
    assert "tests/solvers/test_split.py" in tests
    assert "tests/test_packaging.py" not in tests
    # No folder has the name of this package.
    (nearest, *_) = mutation.nearest_tests("mtlrun/metrics/averages.py")
    assert nearest == "tests/test_metrics.py"


@pytest.mark.slow
def test_an_absent_file_is_named():
    command = [sys.executable, str(SCRIPT), "mtlrun/no_such_file.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "mtlrun/no_such_file.py" in done.stderr
    assert "ARGS=" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_mutations_are_tried_in_a_copy_and_counted():
    file = ROOT / "mtlrun" / "stats.py"
    before = file.read_bytes()
    command = [sys.executable, str(SCRIPT), "--number", "3", "--jobs", "1"]
    command.append("mtlrun/stats.py")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 tried" in done.stdout
    assert "0 killed" not in done.stdout
    assert file.read_bytes() == before
