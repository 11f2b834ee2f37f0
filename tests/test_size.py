"""The package does not grow, and no files import each other (see scripts/size.py)."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "size.py"))
BASELINE = json.loads(SCRIPT["BASELINE"].read_text())


def measured(folder, **texts):
    """Return the figures of a package that consists of these files."""
    for name, text in texts.items():
        path = folder / "package" / (name.replace("_in_", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    package = folder / "package"
    trees = SCRIPT["parse"](package)
    return SCRIPT["count_rooms"](trees, package), SCRIPT["circles_of"](trees, package)


@pytest.fixture(scope="module")
def trees():
    """Return the files of the package, parsed once."""
    return SCRIPT["parse"]()


@pytest.mark.slow
def test_no_figure_of_the_package_rises(trees):
    rooms = SCRIPT["count_rooms"](trees, SCRIPT["PACKAGE"])
    present = SCRIPT["total_of"](rooms)
    stored = SCRIPT["total_of"](BASELINE)
    higher = [
        f"{name} rose from {stored[name]:,} to {present[name]:,}"
        for name in present
        if present[name] > stored[name]
    ]
    assert not higher, (
        f"{', '.join(higher)}: python scripts/size.py prints all rooms. With a reason "
        "in CHANGELOG.md, python scripts/size.py --write stores the figures."
    )


@pytest.mark.slow
def test_no_files_import_each_other(trees):
    assert SCRIPT["circles_of"](trees, SCRIPT["PACKAGE"]) == []


def test_figures_count_code_without_prose(tmp_path):
    text = '"""Title."""\n\n# comment\nclass A:\n    """A."""\n\n    x = 1\n'
    rooms, _ = measured(tmp_path, shelf_in_a=text)
    figures = rooms["shelf"]
    assert (figures["tokens"], figures["functions"], figures["classes"]) == (6, 0, 1)


def test_a_private_function_that_one_line_names_is_counted(tmp_path):
    text = "def _f():\n    pass\n\n\ndef _g():\n    _f()\n    _g()\n    _g()\n"
    rooms, _ = measured(tmp_path, a=text)
    assert rooms["mtlrun"]["single"] == 1


def test_items_that_are_taken_by_a_text_are_counted(tmp_path):
    rooms, _ = measured(tmp_path, a='x["a"]\nx.get("a")\nx[a]\nx[1]\nx.get(a)\n')
    assert rooms["mtlrun"]["keys"] == 2


def test_cases_by_text_wide_functions_tuples_and_lazy_imports_are_counted(tmp_path):
    text = """
def f(a, b, c, /, d, *, e, f, g) -> tuple[int, int, int]:
    from package.b import x
    return a == "text" != b

def g(a, b, c, d, e, f) -> tuple[int, ...]:
    import json
    return "text" == a, a == b
"""
    rooms, _ = measured(tmp_path, a=text)
    patterns = ("texts", "wide", "tuples", "lazy")
    assert [rooms["mtlrun"][name] for name in patterns] == [2, 1, 1, 1]


def test_papers_are_not_part_of_the_sum(tmp_path):
    rooms, _ = measured(tmp_path, papers_in_a="x = 1\n", shelf_in_b="y = 1\n")
    assert SCRIPT["total_of"](rooms)["tokens"] == rooms["shelf"]["tokens"] == 3


def test_imports_in_functions_and_for_type_checkers_close_circles(tmp_path):
    _, circles = measured(
        tmp_path,
        a="def f():\n    from package import b\n",
        b="if TYPE_CHECKING:\n    from package.c import x\n",
        c="import package.a\n",
        d="from package.a import f\n",
    )
    assert circles == [["a.py", "b.py", "c.py"]]
