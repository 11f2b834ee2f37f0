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
#: Tests of the double of positive numbers
TESTED = """\
from mtlrun.stats import double

def test_a_positive_number_is_doubled():
    assert double(3) == 6
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


def test_an_absent_file_is_named(mutation, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mutation.py", "mtlrun/no_such_file.py"])
    assert mutation.main() == 2
    message = capsys.readouterr().err
    assert "mtlrun/no_such_file.py" in message
    assert "ARGS=" in message


@pytest.mark.slow
def test_mutations_are_tried_in_a_copy_and_counted(tmp_path):
    """In a project of one file, whose tests notice some of its mutations."""
    files = {
        "mtlrun/__init__.py": "",
        "mtlrun/stats.py": "def double(x):\n    return 2 * x if x > 0 else x\n",
        "tests/test_stats.py": TESTED,
        "scripts/mutation.py": SCRIPT.read_text("utf-8"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    command = [sys.executable, "scripts/mutation.py", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--number", "4", "mtlrun/stats.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *survivors, counts = done.stdout.splitlines()
    assert counts == "4 tried: 2 killed, 0 without end, 2 survived; 0 not tried"
    assert len([line for line in survivors if line.startswith("survived: ")]) == 2
    for name, text in files.items():
        assert (tmp_path / name).read_text("utf-8") == text, name
