"""Examples in docstrings print their documented output."""

import doctest
import importlib
from pathlib import Path

import pytest

from mtlrun.catalog.registry import METHODS

PACKAGE = Path(__file__).parents[1] / "mtlrun"
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
#: Entry points other than methods
PUBLIC = {
    "compare",
    "load_results",
    "reproduce",
    "load_dataset",
    "TaskData",
    "auc_per_task",
    "paired_test",
    "duality_gap",
    "WeightedDegree",
    "solve_fista",
}
#: Extra packages that examples need
NEEDS_EXTRA = {
    info.class_path.partition(":")[0] for info in METHODS.values() if info.extra
}


def _examples(module):
    return [
        test
        for test in doctest.DocTestFinder().find(importlib.import_module(module))
        if test.examples
    ]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    output = []
    for example in _examples(module):
        runner.run(example, out=output.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)


def test_every_family_of_methods_and_the_entry_points_have_examples():
    families = {info.class_path.partition(":")[0] for info in METHODS.values()}
    assert families - NEEDS_EXTRA <= set(MODULES)
    named = {
        example.name.rpartition(".")[2]
        for module in MODULES
        for example in _examples(module)
    }
    assert named >= PUBLIC
