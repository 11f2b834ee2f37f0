"""Seeds and keys of jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.engine.plan import explain
from mtlrun.engine.record import Record
from mtlrun.utils.io import derive_seed, sha256_json


def test_seeds_never_change():
    assert derive_seed(0, "enron", 0) == 2434440327
    assert derive_seed(0, "enron", 1) == 2616842476
    assert derive_seed(1, "enron", 0) == 4130836952


@pytest.mark.slow
@given(st.integers(0, 2**40), st.lists(st.text(max_size=6), max_size=3))
def test_seeds_are_valid_for_numpy_and_scikit_learn(base, names):
    assert 0 <= derive_seed(base, *names) < 2**32


def test_different_names_have_different_seeds():
    assert (
        derive_seed(0, "ab", "c") != derive_seed(0, "a", "bc") != derive_seed(0, "abc")
    )


def test_keys_distinguish_values_and_ignore_order():
    assert sha256_json({"args": [1, -2]}) != sha256_json({"args": [1, 2]})
    assert sha256_json({"args": [0.5]}) != sha256_json({"args": [0, 5]})
    assert sha256_json({"a": 1, "b": 2}) == sha256_json({"b": 2, "a": 1})
    assert sha256_json({"a": None}) != sha256_json({"a": "None"})
    assert len(sha256_json({})) == 64


VERSIONS = {"m/a.py": "1", "sklearn": "1.7.0", "NoSuchMethod": 1}
INPUTS = {
    "dataset": {"id": "x", "fingerprint": "1", "options": {}},
    "method": {"estimator": "m:A", "params": {"tol": 0.1}},
    "search": {"keys": ["s1"]},
}


def why(versions=VERSIONS, **changed):
    """Return why a job with other versions or content has another key."""
    return explain(
        Record("old", "fit", INPUTS, VERSIONS),
        Record("new", "fit", {**INPUTS, **changed}, versions),
    )


def test_reasons_name_the_file_the_data_and_the_value():
    assert why() == ""
    assert why({**VERSIONS, "m/a.py": "2"}) == "m/a.py changed"
    assert (
        why({**VERSIONS, "sklearn": "1.8.0", "NoSuchMethod": 3})
        == "NoSuchMethod 1 -> 3; sklearn 1.7.0 -> 1.8.0"
    )
    assert why(dataset={**INPUTS["dataset"], "fingerprint": "2"}) == "data changed"
    changed = {
        "method": {"estimator": "m:A", "params": {"tol": 0.01, "max_iter": 5}},
        "search": {"keys": ["s2"]},
    }
    assert (
        why(**changed)
        == "method.params.max_iter none -> 5; method.params.tol 0.1 -> 0.01"
    )
    assert why(**changed, fold=2, features={"kind": "table"}).endswith("; 1 more")
