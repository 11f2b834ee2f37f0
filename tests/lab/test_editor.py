"""The JSON schema for editors accepts what mtlrun accepts and marks what it rejects."""

import copy
import json
from pathlib import Path

import pydantic
import pytest
from jsonschema import Draft202012Validator

from mtlrun.catalog.registry import METHODS
from mtlrun.lab.experiment.schema import config_schema
from mtlrun.utils.io import configs_dir
from mtlrun.utils.yaml import load_file

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "config.schema.json"
VALIDATOR = Draft202012Validator(config_schema())
TRAIN = {
    "schema": 1,
    "kind": "train",
    "id": "train/a",
    "dataset": "digits",
    "method": "IndependentRidge",
    "split": {"train": 0.5},
    "metrics": ["auc"],
}


def _without_methods(schema):
    """Take the list of registered methods out of a schema and return both: it grows
    with every method.

    The names of measures and of their quantities are left out too, for the same reason.
    """
    rest = copy.deepcopy(schema)
    rest["$defs"]["MeasureName"]["anyOf"].pop(0)
    rest["$defs"]["QuantityName"]["anyOf"].pop(0)
    return rest["$defs"]["EstimatorName"]["anyOf"].pop(0)["enum"], rest


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 10),
    reason="older releases of pydantic put it in other words",
)
def test_the_committed_schema_is_up_to_date():
    committed, rest = _without_methods(
        json.loads(COMMITTED.read_text(encoding="utf-8"))
    )
    _, current = _without_methods(config_schema())
    assert rest == current, (
        "run: mtlrun init --schema -o docs/config.schema.json --force"
    )
    assert set(committed) <= set(METHODS)


def test_the_schema_lists_every_method():
    assert set(_without_methods(config_schema())[0]) == set(METHODS)


def test_the_schema_is_valid_json_schema():
    Draft202012Validator.check_schema(config_schema())


TRACE = {
    "schema": 1,
    "kind": "trace",
    "id": "a/b",
    "title": "T",
    "datasets": ["school"],
    "metrics": ["n"],
    "methods": [{"label": "a", "measure": "data-set-statistics"}],
}


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"kind": "audit", "datasets": []}, True),
        ({"repeats": 3, "published": "a/b.yaml"}, True),
        ({"title": None}, False),
        ({"methods": [{"label": "a", "measure": "data-set-statistic"}]}, False),
        ({"methods": []}, False),
    ],
)
def test_analyses_pass_and_their_mistakes_are_marked(change, good):
    assert VALIDATOR.is_valid({**TRACE, **change}) is good


@pytest.mark.slow
def test_all_shipped_files_pass():
    for path in configs_dir().glob("*/*.yaml"):
        content = load_file(path, path.name).data  # In YAML 1.2 `on` is a string.
        assert [*VALIDATOR.iter_errors(content)] == [], path


@pytest.mark.parametrize(
    "change",
    [
        {
            "method": {
                "estimator": "package.module:Class",
                "params": {"a": 1},
                "grid": {"b": [1, 2]},
            }
        },
        {"dataset": {"id": "school", "variant": "plain"}},
        {"features": "one-hot"},
        {"features": {"kind": "weighted-degree", "degree": 3}},
        {"selection": {"folds": 3}},
    ],
)
def test_other_forms_pass(change):
    assert [error.message for error in VALIDATOR.iter_errors(TRAIN | change)] == []


def test_mistakes_are_marked():
    for change in [
        {"method": "IndependentRigde"},
        {"metrics": ["acu"]},
        {"metrics": []},
        {"features": "standard"},
        {"split": {"train": 1.5}},
        {"dataset": 3},
        {"unknown": 1},
        {"kind": "evaluate"},
    ]:
        assert list(VALIDATOR.iter_errors(TRAIN | change))
