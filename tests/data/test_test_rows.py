"""Test rows do not decide what the problem is: kinds, classes, features and tasks."""

import numpy as np
import pandas as pd
import pytest

import mtlrun
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.errors import DataError


def visits(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)).round(3), columns=["a", "b"])
    frame["clinic"] = [f"c{k}" for k in np.arange(n) % 3]
    frame["outcome"] = np.resize(["relapse", "relapse", "stable", "stable"], n)
    frame["grade"] = np.resize(list("SMLLS"), n)
    frame["score"] = rng.normal(size=n).round(3)
    frame["word"] = np.resize(["x", "y"], n)
    frame["level"] = np.resize([0, 0, 1, 1], n)
    return frame


def dataset_of(test, *, train=None, **roles):
    if train is None:
        train = visits()
    features = {"a", "b", "word"}
    targets = {*roles["targets"], roles.get("task")}
    drop = roles.pop("drop", [c for c in train if c not in features | targets])
    return make_dataset(
        table_of_frame(train, "visits"),
        Roles(**{"drop": drop, **roles}),
        table_of_frame(test, "later visits"),
    )


def with_cells(column, cells):
    test = visits(12).astype({column: object})
    for row, value in cells.items():
        test.loc[row, column] = value
    if all(isinstance(value, (int, float)) for value in test[column]):
        test[column] = test[column].astype(float)
    return test


BY_CLINIC = {"task": "clinic"}


@pytest.mark.parametrize(
    ("column", "label", "roles"),
    [
        ("outcome", "stabel", BY_CLINIC),
        ("outcome", "stabel", {**BY_CLINIC, "task_type": "binary"}),
        ("outcome", "stabel", {**BY_CLINIC, "positive": "stable"}),
        ("grade", "XL", BY_CLINIC),
        ("grade", "XL", {**BY_CLINIC, "positive": "L"}),
        ("grade", "XL", {"targets": ["grade", "outcome"]}),
        ("outcome", "stabel", {"targets": ["grade", "outcome"]}),
        ("level", 2, BY_CLINIC),
        ("level", 0.5, BY_CLINIC),
    ],
)
def test_a_label_that_only_test_rows_have_is_an_error(column, label, roles):
    test = with_cells(column, {4: label, 7: label})
    with pytest.raises(DataError) as caught:
        dataset_of(test, **{"targets": [column], **roles})
    message = str(caught.value)
    for part in (repr(str(label)), repr(column), "later visits: row 5"):
        assert part in message
    assert caught.value.remedy


def test_all_labels_that_only_test_rows_have_are_named():
    test = with_cells("outcome", {4: "stabel", 7: "relaps"})
    with pytest.raises(DataError, match=r"'stabel'.*row 5.*'relaps'.*row 8"):
        dataset_of(test, targets=["outcome"], **BY_CLINIC)


def test_a_class_that_only_test_rows_of_a_task_have_is_an_error():
    train = visits()
    train = train[(train.clinic != "c1") | (train.grade != "L")]
    with pytest.raises(DataError, match=r"'L' of 'c1' .*later visits: row "):
        dataset_of(visits(30), train=train, targets=["grade"], **BY_CLINIC)


def test_a_new_label_in_a_file_of_test_rows_names_its_line(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    with_cells("outcome", {4: "stabel"}).to_csv(tmp_path / "later.csv", index=False)
    with pytest.raises(DataError, match=r"'stabel' .*later\.csv:6"):
        mtlrun.compare(
            tmp_path / "visits.csv",
            test=tmp_path / "later.csv",
            target="outcome",
            task="clinic",
            drop=["grade", "score", "level"],
            methods=["GraphMTLClassifier"],
        )


def test_a_boolean_among_numbers_of_test_rows_is_an_error_that_names_its_row():
    test = visits(12).astype({"level": object})
    test.loc[4, "level"] = True
    with pytest.raises(DataError, match="'level'") as caught:
        dataset_of(test, targets=["level"], **BY_CLINIC)
    assert "later visits: row 5" in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("row", [0, 5])
def test_a_boolean_is_no_number_of_the_same_value(row):
    train = visits().astype({"level": object})
    train.loc[row, "level"] = True
    roles = Roles(targets=("a",), task="level", drop=("clinic", "outcome", "grade"))
    dataset = make_dataset(table_of_frame(train, "visits"), roles)
    assert sorted(dataset.tasks) == ["0", "1", "True"]


def test_labels_that_test_rows_lack_stay_classes():
    test = visits(12)
    test = test[test.grade != "M"]
    data = dataset_of(test, targets=["grade"], **BY_CLINIC)
    assert len(data.tasks) == 9


@pytest.mark.cover(2)
@pytest.mark.parametrize("value", ["high", "3 (approx.)"])
@pytest.mark.parametrize("mixed", ["error", "categories"])
@pytest.mark.parametrize("column", ["a", "score"])
def test_a_word_in_test_rows_makes_no_category_of_a_number(column, mixed, value):
    test = with_cells(column, {4: value})
    with pytest.raises(DataError) as caught:
        dataset_of(test, targets=["score"], mixed=mixed, **BY_CLINIC)
    assert "later visits: row 5" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_features_are_chosen_by_the_training_rows():
    train = visits()
    train["remark"] = np.nan
    test = visits(60)
    test["word"] = [f"word {k}" for k in range(60)]
    test["remark"] = np.arange(60.0)
    data = dataset_of(
        test,
        train=train,
        targets=["score"],
        drop=["outcome", "grade", "level"],
        **BY_CLINIC,
    )
    assert data.features == ["a", "b", "word"]


def test_the_size_of_a_task_is_counted_in_training_rows():
    train = visits().iloc[[0, *range(1, 60, 3), *range(2, 60, 3)]]
    roles = {"targets": ["score"], "min_rows": 5, **BY_CLINIC}
    assert dataset_of(visits(), train=train, **roles).tasks == ["c1", "c2"]
    new = visits(30).replace({"clinic": {"c0": "c9"}})
    data = dataset_of(new, train=train, unseen="mean", **roles)
    assert data.tasks == ["c1", "c2", "c9"]


def test_gaps_of_test_rows_and_groups_on_both_sides_are_counted():
    train = visits().assign(doctor=np.resize(["d1", "d2", "d3"], 60))
    test = visits(12).assign(doctor=np.resize(["d3", "d4", "d5"], 12))
    test.loc[:1, "a"] = np.nan
    roles = {"targets": ("score",), "task": "clinic", "group": "doctor"}
    drop = ["outcome", "grade", "level"]
    notes = dataset_of(test, train=train, drop=drop, **roles).notes
    assert "1 group has rows" in notes
    assert "'a' (2)" in notes
