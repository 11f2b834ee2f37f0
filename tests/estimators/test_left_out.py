"""Only combinations of settled methods are left out."""

import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from covering import covering_combinations, spread_combinations

from mtlrun.catalog.registry import METHODS

STORED = json.loads(Path(__file__).with_name("frozen.json").read_text())
#: This test runs for each method.
STORED_SOLUTIONS = "test_the_stored_solution_is_reproduced"
#: Each method has a case of so many other tests of all methods.
MIN_TESTS_OF_METHOD = 4


def test_a_method_with_stored_solutions_is_settled(find_settled_methods):
    assert "FusedMTL" in find_settled_methods(STORED)


@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_a_method_without_a_stored_solution_is_new(find_settled_methods, layout):
    stored = {**STORED}
    del stored[f"FusedMTL, {layout}"]
    new = find_settled_methods(STORED) - find_settled_methods(stored)
    assert new == {"FusedMTL"}


def test_a_method_with_another_version_has_changed(find_settled_methods):
    stored = {}
    for case, solution in STORED.items():
        versions = {**solution["versions"]}
        if "RobustMTL" in versions:
            versions["RobustMTL"] -= 1
        stored[case] = {"versions": versions}
    # Its solutions are parts of the other method's solutions.
    changed = find_settled_methods(STORED) - find_settled_methods(stored)
    assert changed == {"RobustMTL", "DivideAndConquerRMTL"}


def test_each_method_has_cases_of_several_tests(pytestconfig):
    methods = defaultdict(set)
    for item in pytestconfig.collected_tests:
        has_sample = item.get_closest_marker("cover") is not None
        if has_sample or item.originalname == STORED_SOLUTIONS:
            text = " ".join(item.callspec.id.replace("-", " ").split(","))
            words = {word.partition("(")[0] for word in text.split()}
            methods[item.originalname] |= words & set(METHODS)
    # Perhaps only a part of the tests were collected.
    if len(methods) < 20:
        return
    assert methods[STORED_SOLUTIONS] == set(METHODS)
    counts = Counter(name for names in methods.values() for name in names)
    lacking = [name for name in METHODS if counts[name] <= MIN_TESTS_OF_METHOD]
    assert not lacking, lacking


VALUES = {"name": ["a", "b", "c", "d", "e"], "layout": ["x", "y"], "form": [1, 2, 3]}


@pytest.mark.parametrize("n_times", [1, 2])
def test_each_value_occurs_in_a_combination(n_times):
    combinations = covering_combinations(VALUES, n_times)
    assert len(combinations) == 5 * n_times
    for values, column in zip(
        VALUES.values(), zip(*combinations, strict=True), strict=True
    ):
        counts = Counter(column)
        assert set(counts) == set(values)
        assert min(counts.values()) >= n_times


def test_a_changed_method_is_combined_with_all_values():
    combinations = covering_combinations(VALUES, is_complete=lambda value: value == "b")
    assert sum("b" in combination for combination in combinations) == 6
    assert len(combinations) == 4 + 6


@pytest.mark.parametrize("sizes", [(2, 2, 2), (4, 1, 10), (3, 3), (2, 5, 2, 3)])
def test_each_value_of_several_lists_occurs(sizes):
    combinations = list(itertools.product(*map(range, sizes)))
    kept = spread_combinations(combinations)
    assert kept <= set(combinations)
    for position, size in enumerate(sizes):
        assert {combination[position] for combination in kept} == set(range(size))


def test_all_pairs_of_two_values_occur_in_few_combinations():
    kept = spread_combinations(list(itertools.product(range(2), repeat=3)), 2)
    assert len(kept) == 4
    for first, second in itertools.combinations(range(3), 2):
        pairs = {(combination[first], combination[second]) for combination in kept}
        assert len(pairs) == 4


def test_combinations_that_do_not_exist_are_not_kept():
    assert spread_combinations([(0, 0), (0, 1), (1, 1)]) == {(0, 0), (1, 1)}
