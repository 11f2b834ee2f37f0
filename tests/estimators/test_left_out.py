"""What `make test` leaves out: combinations of settled methods, and nothing else."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from mtlrun.estimators.registry import METHODS

STORED = json.loads(Path(__file__).with_name("frozen.json").read_text())
#: Tests of which `make test` runs at least one case for every method.
ESSENTIAL = {
    "test_the_stored_solution_is_found_again",
    "test_scikit_learn_check",
    "test_dense_forms_of_the_same_numbers_give_the_same_model",
    "test_sparse_forms_of_the_same_numbers_give_the_same_model",
    "test_sparse_and_dense_designs_give_the_same_model",
    "test_names_pickles_clones_and_second_fits",
    "test_degenerate_data_give_finite_models_and_true_certificates",
    "test_features_of_any_scale",
    "test_every_method_survives_a_round_trip",
    "test_every_method_can_be_made_and_describes_itself",
}


def test_a_method_with_stored_solutions_is_settled(find_settled_methods):
    assert "FusedMTL" in find_settled_methods(STORED)


@pytest.mark.parametrize("layout", ["shared", "ragged", "masked"])
def test_a_method_that_lacks_a_stored_solution_is_new(find_settled_methods, layout):
    stored = {**STORED}
    del stored[f"FusedMTL, {layout}"]
    new = find_settled_methods(STORED) - find_settled_methods(stored)
    assert new == {"FusedMTL"}


def test_a_method_of_another_version_has_changed(find_settled_methods, monkeypatch):
    settled = find_settled_methods(STORED)
    info = METHODS["RobustMTL"]
    changes = [*info.changes, "a longer step"]
    monkeypatch.setitem(METHODS, "RobustMTL", replace(info, changes=changes))
    # Its solutions are parts of those of the other method.
    changed = settled - find_settled_methods(STORED)
    assert changed == {"RobustMTL", "DivideAndConquerRMTL"}


def test_every_method_has_its_essential_tests_in_make_test(pytestconfig):
    methods = defaultdict(set)
    for item in pytestconfig.collected_tests:
        name = item.originalname
        if name in ESSENTIAL and not item.get_closest_marker("slow"):
            text = " ".join(item.callspec.id.replace("-", " ").split(","))
            methods[name] |= {word.partition("(")[0] for word in text.split()}
    # The tests of this file alone may have been collected.
    for name, words in methods.items():
        lacking = set(METHODS) - words
        if name == "test_scikit_learn_check":
            lacking -= {key for key in lacking if METHODS[key].extra == "nn"}
        assert not lacking, f"{name} is left out of make test for {sorted(lacking)}"
