"""Seeds and keys of jobs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.catalog.methods import Method
from mtlrun.engine.job import DatasetRef, Job, JobBuilder, Scoring, Search, Split
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


BUILDER = JobBuilder(DatasetRef("enron", {}, "f"), "reader:mulan", seed=0)
SPLITS = [Split("random", trial, train=0.5) for trial in range(3)]


def jobs(method, search=None):
    return BUILDER.jobs(method, SPLITS, Scoring(("auc",)), search=search)


def test_the_jobs_of_a_method_differ_only_in_what_depends_on_the_split():
    first, second, third = jobs(Method("SparseMTL", params={"alpha": 2.0}))
    assert first.method is second.method is third.method
    assert len({first.split.seed, second.split.seed, third.split.seed}) == 3
    assert replace(first, split=second.split).key == second.key


def test_each_split_has_its_own_random_state_also_in_nested_estimators():
    forest = {"estimator": "sklearn.ensemble:RandomForestRegressor"}
    method = Method("sklearn.ensemble:BaggingRegressor", params={"estimator": forest})
    search = Search({"n_estimators": [1, 2]}, 2, "mse", 0, method)
    seeds = set()
    for job in jobs(method, search):
        states = set()
        for fitted in (job.method, job.search.method):
            nested = fitted.params["estimator"]["params"]
            states |= {fitted.params["random_state"], nested["random_state"]}
        assert len(states) == 1
        seeds |= states
    assert len(seeds) == 3


def test_a_random_state_in_the_file_is_kept():
    method = Method("sklearn.ensemble:BaggingRegressor", params={"random_state": 7})
    assert {job.method.params["random_state"] for job in jobs(method)} == {7}


def test_the_key_of_a_job_is_the_digest_of_its_content_as_json():
    params = {"weights": {10: 1, 2: 3}, "sizes": (1, np.int64(2)), "bad": np.nan}
    as_json = {"weights": {"10": 1, "2": 3}, "sizes": [1, 2], "bad": None}
    split = Split("random", 0, 1, train=0.5)
    job, same = (
        Job(None, split, Method("own:A", params=given), Scoring())
        for given in (params, as_json)
    )
    assert job.key == same.key == sha256_json([job.content(), {}])


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
