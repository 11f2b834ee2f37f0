"""`make test` leaves out only combinations of settled methods."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from covering import covering_combinations

from mtlrun.catalog.registry import METHODS

STORED = json.loads(Path(__file__).with_name("frozen.json").read_text())
#: `make test` runs this test for each method.
STORED_SOLUTIONS = "test_the_stored_solution_is_reproduced"
#: All tests have at least one case of these for each method.
ESSENTIAL = {
    STORED_SOLUTIONS,
    "test_scikit_learn_checks_pass",
    "test_dense_forms_of_the_same_numbers_give_the_same_model",
    "test_sparse_forms_of_the_same_numbers_give_the_same_model",
    "test_sparse_and_dense_designs_give_the_same_model",
    "test_names_pickles_clones_and_refits_are_consistent",
    "test_degenerate_data_give_finite_models_and_valid_certificates",
    "test_features_may_have_any_scale",
    "test_every_method_survives_a_round_trip",
}


def test_a_method_with_stored_solutions_is_settled(find_settled_methods):
    assert "FusedMTL" in find_settled_methods(STORED)


@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_a_method_without_a_stored_solution_is_new(find_settled_methods, layout):
    stored = {**STORED}
    del stored[f"FusedMTL, {layout}"]
    new = find_settled_methods(STORED) - find_settled_methods(stored)
    assert new == {"FusedMTL"}


def test_a_method_with_another_version_has_changed(find_settled_methods, monkeypatch):
    settled = find_settled_methods(STORED)
    info = METHODS["RobustMTL"]
    changes = [*info.changes, "a longer step"]
    monkeypatch.setitem(METHODS, "RobustMTL", replace(info, changes=changes))
    # Its solutions are parts of the other method's solutions.
    changed = settled - find_settled_methods(STORED)
    assert changed == {"RobustMTL", "DivideAndConquerRMTL"}


def test_every_method_has_its_essential_tests(pytestconfig):
    methods = defaultdict(set)
    for item in pytestconfig.collected_tests:
        name = item.originalname
        is_slow = item.get_closest_marker("slow") is not None
        if name in ESSENTIAL and not (is_slow and name == STORED_SOLUTIONS):
            text = " ".join(item.callspec.id.replace("-", " ").split(","))
            methods[name] |= {word.partition("(")[0] for word in text.split()}
    # Perhaps only the tests of this file were collected.
    for name, words in methods.items():
        lacking = set(METHODS) - words
        if name == "test_scikit_learn_checks_pass":
            lacking -= {key for key in lacking if METHODS[key].extra == "nn"}
        assert not lacking, f"{name} has no test for {sorted(lacking)}"


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
