"""The types of the fields of a record are checked once, where it is read."""

import copy

import pytest

from mtlrun.engine.record import Record, Seconds

FIT = Record(
    key="a" * 64,
    family="fit",
    inputs={"method": {"estimator": "IndependentRidge"}},
    versions={"protocol": 3, "sklearn": "1.5"},
    made_by={"commit": None, "dirty": False, "mtlrun": "0.1", "package": None},
    metrics={"mse": 0.5, "r2": None},
    per_task={"mse": [0.5, None, 1]},
    counts={"n_tasks": 3},
    seconds=Seconds(fit=0.1, fit_all=[0.1, 0.2], total=0.3),
    solver={"converged": True, "n_iter": 3},
    environment={"cores": 2, "blas": ["openblas"], "serial": True},
    result={"tasks": ["a", "b", "c"], "predictions": "a.npz"},
)
SEARCH = {
    "key": "s",
    "metric": "mse",
    "chosen": {"alpha": 1.0},
    "score": 0.5,
    "seconds": 1.5,
    "edges": {"alpha": "low"},
    "names": ["alpha"],
    "grid": {"alpha": [1.0, 2]},
    "means": [0.5, None],
    "scores": [[0.5], [None]],
}
FOLD = {
    "scores": [0.5, None],
    "undefined": [0, 0],
    "errors": [None, "failed"],
    "not_converged": [False, True],
    "warm_started": False,
}


def content(**changes):
    return {**copy.deepcopy(FIT.content()), **changes}


def fold(**changes):
    return content(family="fold", selection={**FOLD, **changes})


@pytest.mark.parametrize(
    "valid",
    [
        content(),
        content(selection=SEARCH),
        content(selection={**SEARCH, "chosen": None, "score": None}),
        fold(),
        content(seconds={"limit": 10}, status="timeout"),
        content(log="log", error="error", status="failed", metrics={}),
    ],
)
def test_valid_records_are_read(valid):
    assert Record.from_content(valid).content() == valid


def test_a_field_of_a_wrong_type_is_named():
    for name, value in [
        ("key", 3),
        ("key", "../x"),
        ("family", None),
        ("inputs", []),
        ("versions", {"protocol": 1.5}),
        ("made_by", "me"),
        ("made_by", {"commit": 3}),
        ("status", ["ok"]),
        ("error", 3),
        ("log", {}),
        ("params", []),
        ("selection", []),
        ("metrics", {"mse": "0.5"}),
        ("metrics", {"mse": True}),
        ("metrics", {"mse": 1e200}),
        ("metrics", {"mse": float("nan")}),
        ("per_task", {"mse": [0.5, float("nan")]}),
        ("per_task", {"mse": [0.5, 1e200]}),
        ("per_task", {"mse": [0.5, True]}),
        ("per_task", {"mse": [0.5, "1"]}),
        ("per_task", {"mse": 0.5}),
        ("per_task", {"mse": ["0.5"]}),
        ("counts", {"n_tasks": "3"}),
        ("seconds", {"fit": "soon"}),
        ("seconds", {"fit_all": ["soon"]}),
        ("seconds", {"total": {}}),
        ("seconds", 3),
        ("solver", 3),
        ("environment", {"cores": "two"}),
        ("environment", {"packages": ["numpy"]}),
        ("result", {"tasks": [1]}),
        ("result", {"predictions": 3}),
        ("protocol", "3"),
    ]:
        with pytest.raises(ValueError, match=name):
            Record.from_content(content(**{name: value}))


def test_a_search_with_a_value_of_a_wrong_type_is_refused():
    for name, value in [
        ("means", ["0.5", None]),
        ("scores", [0.5, None]),
        ("grid", {"alpha": 1.0}),
        ("names", [1]),
        ("edges", {"alpha": 1}),
        ("chosen", "alpha"),
        ("seconds", "soon"),
        ("key", None),
    ]:
        with pytest.raises(ValueError, match=name):
            Record.from_content(content(selection={**SEARCH, name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scores", [0.5]),
        ("scores", ["0.5", None]),
        ("undefined", [0]),
        ("errors", None),
        ("not_converged", 1),
    ],
)
def test_a_fold_whose_candidates_are_damaged_is_refused(name, value):
    with pytest.raises(ValueError, match="selection"):
        Record.from_content(fold(**{name: value}))


def test_a_fold_without_its_seconds_is_refused():
    with pytest.raises(ValueError, match=r"seconds\.total"):
        Record.from_content({**fold(), "seconds": {}})


def test_a_failed_fold_needs_no_scores():
    failed = content(family="fold", status="failed", error="no", selection={})
    assert Record.from_content(failed).error == "no"
