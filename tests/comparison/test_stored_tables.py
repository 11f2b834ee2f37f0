"""Tables of a comparison: compared in memory, stored for workers and with results."""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.comparison.result import TableSource, store_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.sets import load
from mtlrun.errors import DataError

N_ROWS = 60
OPTIONS = {"methods": ["PooledRidge"], "splits": 2, "repeats": 1, "folds": 2}


def missing(rng, column):
    """Return a column with gaps."""
    column = column.copy()
    column[rng.random(N_ROWS) < 0.2] = pd.NA
    return column


def columns_of_types(rng):
    """Return columns of all types that a data frame may have, in random order."""
    codes = rng.integers(0, 4, N_ROWS)
    words = np.array(["d", "b ", "c", "a"], dtype=object)[codes]
    days = pd.to_timedelta(rng.integers(0, 999, N_ROWS), "D")
    mixed = np.array([1, "a", 2.5, "b"], dtype=object)[codes]
    columns = {
        "float": pd.Series(rng.normal(size=N_ROWS)),
        "half": pd.Series(codes.astype("float32")),
        "integer": pd.Series(codes),
        "flag": pd.Series(codes > 1),
        "nullable integer": missing(rng, pd.Series(codes, dtype="Int64")),
        "nullable flag": missing(rng, pd.Series(codes > 1, dtype="boolean")),
        "ordered": pd.Series(pd.Categorical(words, ["d", "b ", "c", "a"], True)),
        "numbers": pd.Series(pd.Categorical(codes, [3, 1, 2, 0, 9])),
        "words": missing(rng, pd.Series(words)),
        "text": pd.Series(words, dtype="string"),
        "dates": pd.Series(pd.Timestamp("2020-01-01") + days),
        "zone": pd.Series(pd.Timestamp("2020-01-01", tz="Europe/Berlin") + days),
        "mixed": pd.Series(mixed),
    }
    names = rng.permutation(list(columns))[:6]
    return {name: columns[name] for name in names}


def random_table(seed):
    """Return a data frame of random columns as a source and its data set."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(columns_of_types(rng))
    frame["task"] = rng.choice(["n", "s", "w"], N_ROWS)
    frame["weight"] = rng.integers(0, 3, N_ROWS)
    frame["y"] = rng.normal(size=N_ROWS)
    if seed % 3 == 0:
        frame["y"] = rng.choice(["yes", "no"], N_ROWS)
    roles = Roles(targets=("y",), task="task", weight="weight", mixed="categories")
    source = TableSource(table_of_frame(frame, "frame"), None, roles)
    dataset = make_dataset(source.table, roles)
    dataset = replace(dataset, id="own", title="frame")
    return source.as_stored(dataset), dataset


def school_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 2)), columns=["a", "b"])
    frame["school"] = np.repeat(["n", "s", "w"], N_ROWS // 3)
    frame["grade"] = frame.a + rng.normal(size=N_ROWS)
    return frame


@pytest.mark.parametrize("seed", range(8))
def test_a_stored_frame_is_the_data_set_in_memory(tmp_path, seed):
    source, dataset = random_table(seed)
    described = store_table(source, dataset, tmp_path)
    stored = load.load_dataset("own", data_dir=tmp_path)
    np.testing.assert_array_equal(stored.X, dataset.X)
    np.testing.assert_array_equal(stored.y, dataset.y)
    np.testing.assert_array_equal(stored.task_id, dataset.task_id)
    assert stored.X.strides == dataset.X.strides
    assert stored.features == dataset.features
    assert stored.categories == dataset.categories
    assert stored.labels == dataset.labels
    np.testing.assert_array_equal(stored.source["weight"], dataset.source["weight"])
    assert stored.fingerprint == described.fingerprint
    assert store_table(source, dataset).fingerprint == described.fingerprint


def test_a_table_compared_in_one_process_is_not_read_back(tmp_path, monkeypatch):
    path = tmp_path / "schools.csv"
    school_table().to_csv(path, index=False)
    open_file = os.open
    opened = []

    def noted(file, flags, *args, **options):
        opened.append(str(file))
        return open_file(file, flags, *args, **options)

    monkeypatch.setattr(os, "open", noted)
    result = mtlrun.compare(
        path, target="grade", task="school", output=tmp_path / "out", **OPTIONS
    )
    assert len(result.leaderboard) == 4
    assert opened.count(str(path)) == 1
    assert not [file for file in opened if file.startswith(str(tmp_path / "out/data"))]


def test_workers_and_this_process_compute_the_same_jobs(tmp_path):
    columns = {"target": "grade", "task": "school"}
    table = school_table()
    serial = mtlrun.compare(table, **columns, **OPTIONS)
    parallel = mtlrun.compare(table, jobs=2, **columns, **OPTIONS)
    assert serial.cells["cells"] == parallel.cells["cells"]
    scores = ["method", "rmse"]
    pd.testing.assert_frame_equal(
        serial.leaderboard[scores], parallel.leaderboard[scores]
    )


def test_a_frame_that_changes_on_disk_is_refused_only_if_it_is_written(
    tmp_path, monkeypatch
):
    def dump_frame(frame):
        return original(frame.assign(grade=frame.grade.round()))

    original = mtlrun.comparison.result.dump_frame
    monkeypatch.setattr("mtlrun.comparison.result.dump_frame", dump_frame)
    columns = {"target": "grade", "task": "school"}
    result = mtlrun.compare(school_table(), **columns, **OPTIONS)
    with pytest.raises(DataError, match="csv or parquet"):
        result.save(tmp_path / "out")
    with pytest.raises(DataError, match="csv or parquet"):
        mtlrun.compare(school_table(), output=tmp_path / "out", **columns, **OPTIONS)


@pytest.mark.parametrize(
    ("method", "has_line"), [("PooledRidge", False), ("GraphMTL", True)]
)
def test_differences_of_tasks_are_tested_only_beside_multitask_methods(
    method, has_line
):
    options = OPTIONS | {"methods": [method]}
    result = mtlrun.compare(school_table(), target="grade", task="school", **options)
    text = "\n".join(result.board.facts)
    assert ("the tests assume" in text) == has_line
