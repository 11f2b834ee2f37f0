"""The gain by number of rows per task: subsets of training rows, the same test rows,
stored like other fits.
"""

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.comparison.gallery import read_pictures
from mtlrun.data.dataset import Dataset
from mtlrun.data.splits import MIN_PART, fewer_rows, split_rows
from mtlrun.errors import ConfigError

RNG = np.random.default_rng(0)
FAST = {"splits": 3, "repeats": 1, "folds": 2, "methods": ["GraphMTL"]}


def test_subsets_contain_every_task_and_are_nested():
    ids = np.repeat([0, 1, 2], [100, 40, 6])
    data = Dataset(
        X=RNG.normal(size=(146, 2)),
        y=RNG.normal(size=146),
        task_type="regression",
        task_id=ids,
    )
    rows = np.arange(146)
    small, large = fewer_rows(data, rows, 0.1, 7), fewer_rows(data, rows, 0.5, 7)
    assert np.bincount(ids[small]).tolist() == [10, MIN_PART, MIN_PART]
    assert np.bincount(ids[large]).tolist() == [50, 20, MIN_PART]
    assert set(small) < set(large)
    fit, _, test = split_rows(data, "kfold", trial=1, seed=3, folds=4)
    part, _, same = split_rows(data, "kfold", trial=1, seed=3, folds=4, train=0.2)
    np.testing.assert_array_equal(test, same)
    assert set(part) < set(fit)
    assert len(part) < 0.3 * len(fit)


@pytest.mark.slow
def test_the_curve_ends_at_the_verdict_and_is_stored(tmp_path):
    frame = pd.DataFrame(RNG.normal(size=(180, 4)), columns=list("abcd"))
    frame["school"] = np.repeat([f"s{k}" for k in range(6)], 30)
    frame["grade"] = (
        2 * frame.a
        - frame.b
        + 0.2 * RNG.normal(size=6)[np.repeat(range(6), 30)]
        + RNG.normal(size=180)
    )
    options = {
        "target": "grade",
        "task": "school",
        "curve": True,
        "output": tmp_path / "out",
        **FAST,
    }
    result = mtlrun.compare(frame, **options)
    curve, gain = result.curve, result.board.answer.gain
    # Both 10 and 20% are 4 rows.
    assert curve["part"].tolist() == [0.2, 0.5, 1.0]
    assert curve["rows per task"].tolist() == [4, 10, 20]
    assert curve.iloc[-1][["gain", "low", "high"]].tolist() == [
        gain.value,
        gain.low,
        gain.high,
    ]
    assert (curve["low"] < curve["gain"]).all()
    assert (curve["gain"] < curve["high"]).all()
    assert (
        curve["best alternative"].iloc[0] > curve["best alternative"].iloc[-1]
    )  # More rows give a smaller error.
    axes = result.plot_curve()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["4 rows (20%)", "10 rows (50%)", "20 rows (100%)"]
    result.save(tmp_path / "out")
    assert read_pictures(tmp_path / "out").of_kind("curve") == result.pictures.curve()
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "out" / "curve.csv")["gain"], curve["gain"]
    )
    assert "against rows" in (tmp_path / "out" / "leaderboard.html").read_text()
    cells = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()
    }
    again = mtlrun.compare(frame, **options)
    pd.testing.assert_frame_equal(again.curve, curve)
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").iterdir()
    } == cells
    assert mtlrun.compare(frame, **{**options, "curve": False}).curve is None


def test_the_same_training_rows_are_one_point_of_the_curve():
    frame = pd.DataFrame(
        {"a": RNG.normal(size=36), "y": RNG.normal(size=36), "t": list("uvwxyz") * 6}
    )
    result = mtlrun.compare(frame, target="y", task="t", curve=True, **FAST)
    # All parts of the 4 training rows of a task are these 4 rows.
    assert result.curve["part"].tolist() == [1.0]
    names = [label.get_text() for label in result.plot_curve().get_yticklabels()]
    assert names == ["4 rows (100%)"]


def test_a_table_with_test_rows_has_no_curve():
    frame = pd.DataFrame(
        {
            "a": RNG.normal(size=40),
            "y": RNG.normal(size=40),
            "t": np.repeat(["u", "v"], 20),
        }
    )
    with pytest.raises(ConfigError, match="curve=True"):
        mtlrun.compare(frame, target="y", task="t", test=frame, curve=True, **FAST)
