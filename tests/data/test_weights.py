"""Meaning of weights: weight 0 drops a row, and a constant factor is removed."""

import numpy as np
import pandas as pd
import pytest

from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.weights import (
    WeightScaleWarning,
    normalize_weights,
    warn_of_scale,
    weighted_median,
    weighted_moments,
)
from mtlrun.data.splits import GROUP, WEIGHT
from mtlrun.errors import DataError

ROLES = {"targets": ("y",), "task": "t", "weight": "w"}


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)).round(6), columns=["a", "b"])
    frame["color"] = rng.choice(["red", "blue"], n)
    frame["t"] = np.array(["p", "q", "r"])[np.arange(n) % 3]
    frame["y"] = (frame.a + rng.normal(size=n)).round(6)
    frame["w"] = rng.integers(1, 4, n)
    return frame


def absurd_rows(frame):
    """Return rows of weight 0, each with another cell that would change the result."""
    rows = frame.head(5).astype(object)
    rows["w"] = 0
    rows["y"] = 1e5
    rows.loc[rows.index[0], "a"] = "broken"
    rows.loc[rows.index[1], "b"] = np.nan
    rows.loc[rows.index[2], "color"] = "green"
    rows.loc[rows.index[3], "t"] = "only here"
    return rows


def same(first, second):
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.y, second.y)
    assert np.array_equal(first.task_id, second.task_id)
    assert np.array_equal(first.source[WEIGHT], second.source[WEIGHT])
    assert first.tasks == second.tasks
    assert first.features == second.features
    assert first.categories == second.categories


@pytest.mark.parametrize("file", [True, False])
@pytest.mark.parametrize("location", ["first", "last"])
def test_a_row_of_weight_0_equals_an_absent_row_whatever_it_contains(
    tmp_path, file, location
):
    frame = table()
    parts = [absurd_rows(frame), frame.astype(object)]
    both = pd.concat(parts if location == "first" else parts[::-1], ignore_index=True)
    tables = []
    for number, frame_or_both in enumerate([frame, both]):
        if file:
            frame_or_both.to_csv(tmp_path / f"{number}.csv", index=False)
            tables.append(read_table(tmp_path / f"{number}.csv"))
        else:
            tables.append(table_of_frame(frame_or_both))
    first, second = (
        make_dataset(frame_or_both, Roles(**ROLES)) for frame_or_both in tables
    )
    same(first, second)
    assert "5 rows of weight 0" in second.notes


def test_the_message_about_a_cell_names_its_row_in_the_file(tmp_path):
    frame = table()
    frame.loc[3, "w"] = 0
    frame["a"] = frame.a.astype(object)
    frame.loc[10, "a"] = "broken"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=r"rows\.csv:12: ") as error:
        make_dataset(read_table(tmp_path / "rows.csv"), Roles(**ROLES))
    assert "--categorical a" in error.value.remedy


@pytest.mark.parametrize("factor", [1e-300, 1e-3, 1000.0, 1e300])
def test_a_common_factor_of_all_weights_changes_nothing(factor):
    frame = table()
    first = make_dataset(table_of_frame(frame), Roles(**ROLES))
    second = make_dataset(
        table_of_frame(frame.assign(w=frame.w * factor)), Roles(**ROLES)
    )
    assert second.source[WEIGHT] == pytest.approx(first.source[WEIGHT], rel=1e-12)
    assert first.source[WEIGHT].mean() == pytest.approx(1)


def test_test_rows_do_not_affect_the_mean_of_the_weights():
    frame = table()
    test = frame.head(9).assign(w=50)
    data = make_dataset(table_of_frame(frame), Roles(**ROLES), table_of_frame(test))
    train, tested = data.splits["test"][0]
    assert data.source[WEIGHT][train].mean() == pytest.approx(1)
    assert len(tested) == 9


def test_test_rows_of_weight_0_are_dropped():
    frame = table()
    both = pd.concat([absurd_rows(frame), frame.astype(object)])
    test = pd.concat([absurd_rows(frame), frame.head(9).astype(object)])
    data = make_dataset(table_of_frame(both), Roles(**ROLES), table_of_frame(test))
    assert [len(rows) for rows in data.splits["test"][0]] == [60, 9]
    assert data.tasks == ["p", "q", "r"]


def test_groups_with_training_and_test_rows_are_noted():
    frame = table().assign(g=[f"g{k}" for k in np.arange(60) // 3])
    test = table_of_frame(frame.tail(9))
    data = make_dataset(table_of_frame(frame), Roles(**ROLES, group="g"), test)
    assert "3 groups have rows" in data.notes
    data = make_dataset(table_of_frame(frame.head(51)), Roles(**ROLES, group="g"), test)
    assert "test rows" not in data.notes


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "heavy"])
def test_an_invalid_weight_is_rejected_with_its_row(weight):
    frame = table().astype({"w": object})
    frame.loc[4, "w"] = weight
    with pytest.raises(DataError, match="row 5") as error:
        make_dataset(table_of_frame(frame), Roles(**ROLES))
    assert "leaves a row" in error.value.remedy


@pytest.mark.parametrize("part", ["all", "test"])
def test_weights_that_are_all_0_are_rejected(part):
    frame = table()
    test = None
    if part == "test":
        test = table_of_frame(frame.head(9).assign(w=0))
    else:
        frame["w"] = 0
    with pytest.raises(DataError) as error:
        make_dataset(table_of_frame(frame), Roles(**ROLES), test)
    assert "positive weight" in error.value.remedy


def test_a_weight_that_vanishes_beside_the_largest_leaves_its_row_out():
    frame = table().astype({"w": float})
    frame.loc[3, "w"] = 1e300
    frame.loc[4, "w"] = 1e-10
    frame.loc[5, "w"] = 1e-5  # 1e-305 of the largest weight is a number still.
    data = make_dataset(table_of_frame(frame), Roles(**ROLES))
    assert data.n_samples == 59
    assert "1 row of weight 0" in data.notes


def test_rows_of_weight_0_without_a_task_are_no_lost_task():
    frame = table()
    frame.loc[[3, 4], "w"] = 0
    frame.loc[[3, 4], "t"] = None
    data = make_dataset(table_of_frame(frame), Roles(**ROLES))
    assert "2 rows of weight 0" in data.notes
    assert "all have weight 0" not in data.notes


def test_groups_and_small_tasks_count_only_rows_of_positive_weight():
    frame = table().assign(g=[f"g{k}" for k in np.arange(60) // 3])
    frame.loc[frame.g == "g0", "w"] = 0
    data = make_dataset(table_of_frame(frame), Roles(**ROLES, group="g"))
    assert len(np.unique(data.source[GROUP])) == 19
    frame.loc[(frame.t == "p").to_numpy().nonzero()[0][3:], "w"] = 0
    kept = make_dataset(table_of_frame(frame), Roles(**ROLES, min_rows=2))
    assert "p" in kept.tasks
    left_out = make_dataset(table_of_frame(frame), Roles(**ROLES, min_rows=3))
    assert "p" not in left_out.tasks


@pytest.mark.parametrize("is_test_file", [False, True])
def test_tasks_with_only_rows_of_weight_0_are_named(is_test_file):
    frame = table()
    light = frame.copy()
    light.loc[light.t == "q", "w"] = 0
    test = None
    if is_test_file:
        light, test = frame, table_of_frame(light)
    data = make_dataset(table_of_frame(light), Roles(**ROLES), test)
    assert ("q" in data.tasks) == is_test_file
    lines = [line for line in data.notes.splitlines() if "all have weight 0" in line]
    assert len(lines) == 1
    assert lines[0].endswith(": q")
    assert "weight 0" not in make_dataset(table_of_frame(frame), Roles(**ROLES)).notes


@pytest.mark.parametrize("seed", range(5))
def test_moments_and_median_equal_those_of_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 9, 12).astype(float)
    values[3] = np.nan
    weights = rng.integers(0, 4, 12)
    repeated = np.repeat(values, weights)
    mean, variance = weighted_moments(values, weights.astype(float))
    assert weighted_median(values, weights.astype(float)) == np.nanmedian(repeated)
    assert mean == pytest.approx(np.nanmean(repeated))
    assert variance == pytest.approx(np.nanvar(repeated))


def test_normalized_weights_do_not_overflow():
    weights = np.array([1e308, 1e308, 5e307])
    actual = normalize_weights(weights, np.ones(3, dtype=bool))
    assert actual == pytest.approx([1.2, 1.2, 0.6])


def test_weights_that_cannot_count_rows_cause_a_warning_with_the_remedy():
    with pytest.warns(WeightScaleWarning, match=r"np\.mean\(sample_weight\)"):
        warn_of_scale(np.full(5, 1e4), "HierarchicalMTL")
    with pytest.warns(WeightScaleWarning):
        warn_of_scale(np.full(5, 1e308), "HierarchicalMTL")
