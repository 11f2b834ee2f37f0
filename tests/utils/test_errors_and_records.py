"""Errors pass between processes; invalid records; values that JSON lacks."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from mtlrun.engine.record import Record
from mtlrun.errors import ConfigError, DataError, UnknownNameError, UserError
from mtlrun.utils.io import jsonable


@pytest.mark.parametrize(
    "error",
    [
        UserError("alone"),
        ConfigError("a.yaml:3: wrong", "Mend it."),
        DataError("x.csv:4:1: no number", "Mend the cell."),
        UnknownNameError("method", "SparsMTL", ["SparseMTL", "FETR"]),
    ],
)
def test_an_error_from_a_worker_process_is_unchanged(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, again.remedy, str(again)) == (
        error.message,
        error.remedy,
        str(error),
    )


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"schema": 1, "key": "k"})])
def test_an_invalid_record_is_rejected(text):
    with pytest.raises(ValueError):
        Record.from_line(text)


def test_values_that_json_lacks_are_converted():
    actual = jsonable(
        {
            1: {3, 1, 2},
            "path": Path("a/b"),
            "nan": [np.float64("nan"), np.inf],
            "array": np.arange(2),
        }
    )
    assert actual == {
        "1": [1, 2, 3],
        "path": "a/b",
        "nan": [None, None],
        "array": [0, 1],
    }
    assert json.loads(json.dumps(actual, allow_nan=False)) == actual
