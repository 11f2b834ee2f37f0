"""Columns of a user's table with roles: effects, and errors for unsuitable ones."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import savemat

from mtlrun.comparison.options import CompareOptions, TargetColumns
from mtlrun.data.reading.named_columns import target_columns
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.data.splits import fold_rows
from mtlrun.errors import DataError, UnknownNameError


def marks(n=24, tasks=3):
    """Return rows of schools: two features, a mark, a grade of three letters, a weight
    and a day.
    """
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, n)).round(3)
    return pd.DataFrame(
        {
            "school": np.repeat([f"s{t}" for t in range(tasks)], n // tasks),
            "a": a,
            "b": b,
            "mark": (a + rng.normal(size=n)).round(3),
            "grade": np.resize(list("SML"), n),
            "w": 1.0,
            "day": pd.date_range("2020-01-01", periods=n).astype(str),
        }
    )


LIST_ROLES = ["targets", "drop", "categorical", "keep", "task_order", "also_grouped_by"]


@pytest.mark.cover
@pytest.mark.parametrize("role", LIST_ROLES)
@pytest.mark.parametrize("kind", [pd.Index, np.array, pd.Series, list, iter])
def test_lists_of_columns_may_be_of_any_kind(role, kind):
    roles = Roles(**{role: kind(["a", "b"])})
    assert getattr(roles, role) == ("a", "b")


@pytest.mark.parametrize("role", LIST_ROLES)
def test_a_role_may_be_a_single_name_or_none(role):
    assert getattr(Roles(**{role: "a"}), role) == ("a",)
    assert getattr(Roles(**{role: None}), role) == ()
    assert getattr(Roles(**{role: pd.Index([])}), role) == ()


@pytest.mark.parametrize("kind", [pd.Index, np.array, iter])
def test_targets_of_a_comparison_may_be_of_any_kind(kind):
    assert TargetColumns(targets=kind(["a", "b"])).targets == ("a", "b")
    rows = table_of_frame(marks(), "marks")
    assert target_columns(rows, targets=kind(["a", "b"])) == ("a", "b")


def test_methods_may_be_named_by_an_array():
    assert CompareOptions(methods=np.array(["A", "B"])).methods == ("A", "B")


RAGGED = {"targets": ("mark",), "task": "school", "drop": ("grade", "w", "day")}


def dataset_of(frame, test=None, **roles):
    test_rows = None if test is None else table_of_frame(test, "test rows")
    return make_dataset(
        table_of_frame(frame, "marks"), Roles(**{**RAGGED, **roles}), test_rows
    )


def with_cell(row, column, value):
    frame = marks().astype({column: object})
    frame.loc[row, column] = value
    return frame


# --- targets ---


def test_one_label_of_three_is_separated_from_the_others():
    """`--positive` makes a target with three words or numbers binary."""
    words = dataset_of(
        marks(), targets=("grade",), drop=("mark", "w", "day"), positive="L"
    )
    assert words.task_type == "binary"
    np.testing.assert_array_equal(words.y, np.where(marks().grade == "L", 1, -1))
    assert "grade: +1 means L" in words.notes
    numbered = marks().assign(mark=np.resize([1.0, 2.0, 3.0], 24))
    assert dataset_of(numbered).task_type == "regression"
    numbers = dataset_of(numbered, positive="2")
    assert numbers.task_type == "binary"
    np.testing.assert_array_equal(numbers.y, np.where(numbered["mark"] == 2, 1, -1))


@pytest.mark.parametrize("dtype", ["boolean", "Int64"])
def test_missing_labels_of_nullable_columns_are_masked(dtype):
    labels = pd.array(np.resize([1, 0, None], 24), dtype=dtype)
    shared = dataset_of(
        marks().assign(u=labels, v=labels),
        targets=("u", "v"),
        task=None,
        drop=("school", *RAGGED["drop"]),
    )
    expected = np.resize([1.0, -1.0, np.nan], 24)
    is_known = ~np.isnan(expected)
    np.testing.assert_array_equal(
        shared.y[:, 0], expected[is_known]
    )  # Rows without any target are dropped.


def test_missing_classes_are_masked_in_every_task():
    grades = pd.array(np.resize(["S", "M", None, "L"], 24), dtype="string")
    roles = {
        "targets": ("grade",),
        "task": None,
        "drop": ("school", "mark", "w", "day"),
    }
    dataset = dataset_of(marks().assign(grade=grades), **roles)
    assert dataset.tasks == ["L", "M", "S"]
    assert dataset.y.shape == (18, 3)
    assert (dataset.y.sum(axis=1) == -1).all()


def nothing_to_predict():
    return make_dataset(table_of_frame(marks(), "marks"), Roles())


REFUSED = {
    "no target": (
        nothing_to_predict,
        r"marks: no target\nSay --target COLUMN, --targets A,B,C or --labels FILE.xml",
    ),
    "named twice": (
        lambda: dataset_of(marks(), weight="mark"),
        "column 'mark' is given two roles\nGive every column one role",
    ),
    "task and targets": (
        lambda: dataset_of(marks(), targets=("a", "b")),
        "a task column requires a single target\nName the task column",
    ),
    "task type": (
        lambda: dataset_of(marks(), task_type="regresion"),
        "unknown task type 'regresion'\nDid you mean 'regression'",
    ),
    "unseen": (
        lambda: dataset_of(marks(), unseen="meen"),
        "unknown value of --unseen 'meen'\nDid you mean 'mean'",
    ),
    "positive number": (
        lambda: dataset_of(marks(), positive="1", task_type="regression"),
        "a positive label requires binary targets, not regression",
    ),
    "three values": (
        lambda: dataset_of(marks(), targets=("grade",), task_type="binary"),
        "the target 'grade' has 3 values, binary tasks have two\nSay --positive LABEL",
    ),
    "words as numbers": (
        lambda: dataset_of(
            marks(), targets=("mark", "grade"), task=None, task_type="regression"
        ),
        "the target 'grade' contains words, not numbers\n"
        "Say --task-type binary or multiclass",
    ),
    "types that differ": (
        lambda: dataset_of(marks(), targets=("mark", "grade"), task=None),
        r"targets of different types: mark \(regression\), grade "
        r"\(multiclass\)\nCompare each type in a run of its own",
    ),
    "infinite target": (
        lambda: dataset_of(with_cell(3, "mark", np.inf).astype({"mark": float})),
        "row 4: column 'mark' contains an infinite value",
    ),
    "infinite feature": (
        lambda: dataset_of(marks().assign(a=np.inf)),
        "row 1: column 'a' contains an infinite value\nFix the cell",
    ),
    "empty task": (
        lambda: dataset_of(with_cell(4, "school", None)),
        "row 5: the task column 'school' is empty\nEvery row",
    ),
    "empty group": (
        lambda: dataset_of(with_cell(4, "w", None), group="w"),
        "row 5: the group column 'w' is empty\nEvery row",
    ),
    "negative weight": (
        lambda: dataset_of(with_cell(4, "w", -1), weight="w"),
        "row 5: the weight column 'w' does not contain a number of at least 0\n"
        "Fix the cell",
    ),
    "weight in words": (
        lambda: dataset_of(with_cell(6, "w", "heavy"), weight="w"),
        "row 7: the weight column 'w' does not contain a number",
    ),
    "no date": (
        lambda: dataset_of(with_cell(2, "day", "soon"), time="day"),
        "row 3: the time column 'day' contains neither a number nor a date\n"
        "Write numbers, or dates such as 2023-12-31",
    ),
    "small tasks": (
        lambda: dataset_of(marks(), min_rows=20),
        "marks: no task has 20 rows\nChoose another task column or",
    ),
    "small tasks with the only other value": (
        lambda: dataset_of(
            marks()[:20].assign(mark=np.repeat([1.0, 2.0], [16, 4])), min_rows=8
        ),
        "marks: the target has a single value.*\n.*--min-rows",
    ),
    "no feature": (
        lambda: dataset_of(marks(), drop=(*RAGGED["drop"], "a", "b")),
        "marks: no column is left as a feature\nName fewer columns",
    ),
    "test without a target": (
        lambda: dataset_of(marks(), marks().drop(columns="mark")),
        "test rows: lacks 1 column of marks: mark\nTest rows need the columns",
    ),
    "test with empty targets": (
        lambda: dataset_of(marks(), marks().assign(mark=np.nan)),
        "test rows: no row has a target.*\nTest rows need their targets",
    ),
    "test without features": (
        lambda: dataset_of(marks(), marks().drop(columns=["a", "b"])),
        "test rows: lacks 2 columns of marks: a, b\nTest rows need the columns",
    ),
    "word in the test": (
        lambda: dataset_of(marks(), with_cell(2, "a", "x")),
        "row 3: column 'a' mixes numbers and words: 'x' here\n.*--categorical a",
    ),
    "no rows": (lambda: table_of_frame(marks()[:0], "marks"), "marks: no rows"),
    "equal names": (
        lambda: table_of_frame(pd.concat([marks(), marks()[["a"]]], axis=1), "marks"),
        "marks: two columns are named 'a'\nRename or drop one of the two",
    ),
}


def test_unsuitable_columns_are_reported_with_a_remedy():
    for case in REFUSED:
        make, expected = REFUSED[case]
        with pytest.raises((DataError, UnknownNameError), match=expected):
            make()


# --- rows and features ---


def test_columns_of_the_test_rows_may_be_missing_only_if_they_are_dropped():
    dataset = dataset_of(marks(), marks()[["b", "school", "mark", "a"]].assign(more=1))
    assert dataset.features == ["a", "b"]
    ((train, test),) = dataset.splits["test"]
    np.testing.assert_array_equal(dataset.X[train], dataset.X[test])


def test_small_tasks_empty_columns_and_identifiers_are_left_out_with_a_note():
    few = marks()[:2].assign(school="tiny")
    frame = pd.concat([marks(60), few], ignore_index=True).assign(gap=np.nan)
    frame["name"] = [f"pupil {k}" for k in range(len(frame))]
    dataset = dataset_of(frame, min_rows=4)
    assert dataset.tasks == ["s0", "s1", "s2"]
    assert dataset.features == ["a", "b"]
    assert "fewer than 4 rows" in dataset.notes
    assert "as empty: gap" in dataset.notes
    assert re.search("as identifiers .*: name", dataset.notes)
    named = dataset_of(
        frame, min_rows=4, categorical=("name",)
    )  # Unless the user declares its words as categories.
    assert len(named.categories["name"]) == 62


def test_dates_separate_the_last_rows_of_each_task_from_its_earlier_ones():
    dataset = dataset_of(
        marks(24, 1).sample(frac=1, random_state=0), task="school", time="day"
    )
    folds = list(fold_rows(dataset, 3, 0))
    assert len(folds) == 3
    order = dataset.source["order"]
    for train, test in folds:
        for task in np.unique(dataset.task_id[test]):
            mine = dataset.task_id == task
            last_trained = order[train][mine[train]].max()
            assert last_trained < order[test][mine[test]].min()


def test_time_blocks_separate_earlier_from_later_rows():
    tied = dataset_of(
        marks(24, 1).assign(day=np.maximum(np.arange(24), 20)),
        task="school",
        time="day",
        time_blocks=True,
    )
    times = tied.source["time"]
    for train, test in fold_rows(tied, 3, 0):
        assert times[train].max() < times[test].min()


# --- sparse tables ---

SPARSE = """\
@relation s
@attribute {0} numeric
@attribute {1} numeric
@attribute {2} numeric
@attribute A {{0,1}}
@attribute B {{0,1}}
@data
"""


def sparse_arff(path, names, rows, targets):
    """Write rows as sparse ARFF with the columns in another order."""
    lines = []
    for values, labels in zip(rows, targets, strict=True):
        cells = [f"{j} {v:g}" for j, v in enumerate([*values, *labels]) if v]
        lines.append("{" + ", ".join(cells) + "}")
    path.write_text(SPARSE.format(*names) + "\n".join(lines) + "\n")
    return path


def test_sparse_test_rows_are_matched_by_the_names_of_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 3, size=(12, 3)), rng.integers(0, 2, size=(12, 2))
    table = read_table(sparse_arff(tmp_path / "s.arff", "xyz", X, Y))
    test_rows = read_table(sparse_arff(tmp_path / "t.arff", "zxy", X[:, [2, 0, 1]], Y))
    dataset = make_dataset(table, Roles(targets=("A", "B")), test_rows)
    assert sparse.issparse(dataset.X)
    np.testing.assert_array_equal(dataset.X.toarray(), np.vstack([X, X]))
    np.testing.assert_array_equal(dataset.y, np.vstack([Y, Y]) * 2 - 1)
    lacking = read_table(sparse_arff(tmp_path / "u.arff", "zxq", X, Y))
    with pytest.raises(DataError, match=r"u.arff: lacks 1 column of .*s.arff: y"):
        make_dataset(table, Roles(targets=("A", "B")), lacking)
    assert make_dataset(
        table, Roles(targets=("A", "B"), drop=("y",)), lacking
    ).features == ["x", "z"]
    dense = table_of_frame(
        pd.DataFrame(np.hstack([X, Y]), columns=list("xyzAB")), "frame"
    )
    with pytest.raises(DataError, match=r"dense.*sparse[^\0]*the same format"):
        make_dataset(table, Roles(targets=("A", "B")), dense)
    wanted = Schema(3, ("x", "y", "z"), table=True)
    np.testing.assert_array_equal(read_rows(tmp_path / "t.arff", wanted).X.toarray(), X)
    with pytest.raises(
        DataError, match=r"u.arff: 1 of the model's features are missing: y"
    ):
        read_rows(tmp_path / "u.arff", wanted)


def test_svmlight_rows_that_end_before_the_last_column_are_predicted(tmp_path):
    """Numbers that the file omits are zeros, not missing features."""
    path = tmp_path / "new.svm"
    path.write_text("0 qid:2 1:4.5\n0 qid:1 2:1\n")
    rows = read_rows(
        path, Schema(3, ("x1", "x3", "x4"), task_column="task", table=True)
    )
    np.testing.assert_array_equal(rows.X.toarray(), [[4.5, 0, 0], [0, 0, 0]])
    assert rows.tasks == ["2", "1"]
    assert rows.ignored == ["target", "x2"]


def test_text_among_numbers_in_new_rows_is_located(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("a,b\n1,2\n3,four\n")
    with pytest.raises(DataError, match=r"new.csv:3: .*'b'.*'four'.*number"):
        read_rows(path, Schema(2, ("a", "b"), table=True))
    with pytest.raises(
        DataError, match=r"new.csv: .*missing: f0, f1, f2, f3, f4 and 2 more"
    ):
        read_rows(path, Schema(7, tuple(f"f{k}" for k in range(7)), table=True))


# --- formats ---


def cells(*arrays):
    column = np.empty(len(arrays), dtype=object)
    for k, array in enumerate(arrays):
        column[k] = array
    return column


TWO = cells(np.ones((4, 2)), np.ones((3, 2)))
MISFITS = {
    "rows of matrices": (
        np.ones((4, 2)),
        np.ones((5, 2)),
        "X has 4 rows, Y has 5\nOne row of Y per row of X",
    ),
    "rows of a cell": (
        TWO,
        cells(np.ones(4), np.ones(4)),
        "task 2 has 3 rows in X, 4 in Y\nEvery task",
    ),
    "number of cells": (
        TWO,
        cells(np.ones(4), np.ones(3), np.ones(2)),
        "2 cells in X, 3 in Y\nEvery task",
    ),
    "features of cells": (
        cells(np.ones((4, 2)), np.ones((3, 5))),
        cells(np.ones(4), np.ones(3)),
        r"cell 2 of X has shape \(3, 5\) where \(n, 2\) is expected\nEvery task",
    ),
    "a cell and a matrix": (
        TWO,
        np.ones((7, 1)),
        r"Y is an array of shape \(7, 1\), not a cell array with one cell per task\nX "
        r"and Y must both",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_mismatched_matlab_variables_are_rejected(tmp_path, case):
    X, Y, expected = MISFITS[case]
    savemat(tmp_path / "t.mat", {"X": X, "Y": Y})
    with pytest.raises(DataError, match=f"t.mat: {expected}"):
        read_table(tmp_path / "t.mat")


def test_a_truncated_parquet_file_is_rejected(tmp_path):
    marks().to_parquet(tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"t.parquet: .*parquet file"):
        read_table(tmp_path / "t.parquet")


def test_dropped_dates_are_called_dates():
    frame = marks(60).assign(exam=pd.date_range("2020-01-01", periods=60).astype(str))
    dataset = dataset_of(frame)
    assert "exam" not in dataset.features
    assert "dates: exam\n--time" in dataset.notes


def test_long_numbers_as_names_stay_apart_or_are_rejected():
    ids = [2**53 + 1 + k % 2 for k in range(60)]
    dataset = dataset_of(marks(60).assign(pupil=ids), categorical=("pupil",))
    assert dataset.categories["pupil"] == [str(n) for n in ids[:2]]
    gaps = marks(60).assign(pupil=[np.nan, *map(float, ids[1:])])
    with pytest.raises(DataError, match=r"'pupil'.*too long"):
        dataset_of(gaps, categorical=("pupil",))


def test_numbers_partly_stored_as_text_are_read_as_numbers():
    """As written by Excel. A word among them is reported with its row."""
    dataset = dataset_of(with_cell(3, "a", "0.5"))
    assert dataset.categories == {}
    assert dataset.X[3, 0] == 0.5
    np.testing.assert_array_equal(
        np.delete(dataset.X[:, 0], 3), np.delete(marks().a.to_numpy(), 3)
    )
    gap = with_cell(3, "a", "0.5")
    gap.loc[4, "a"] = None
    assert np.isnan(dataset_of(gap).X[4, 0])
    with pytest.raises(DataError, match=r"(?s)'a'.*'much'.*\n"):
        dataset_of(with_cell(3, "a", "much"))


@pytest.mark.parametrize(
    ("cells", "kind", "classes"),
    [
        ([2, 10, 1], "number", ["1", "2", "10"]),
        (["2", 10, 1.0], "number", ["1", "2", "10"]),
        (["02", "10", "1"], "text", ["02", "1", "10"]),
        (["b", "a", "c"], "text", ["a", "b", "c"]),
    ],
)
def test_classes_keep_their_type_and_its_order(cells, kind, classes):
    frame = marks(n=30).assign(
        grade=pd.Series(np.resize(np.array(cells, dtype=object), 30), dtype=object)
    )
    classes_only = {
        "targets": ("grade",),
        "task": None,
        "drop": ("mark", "w", "day", "school"),
    }
    dataset = dataset_of(frame, **classes_only, task_type="multiclass")
    assert dataset.label_types == {"grade": kind}
    assert dataset.tasks == classes


@pytest.mark.parametrize(
    ("words", "kind"), [(["2", "10", "1"], "number"), (["02", "10", "1"], "text")]
)
def test_numbers_with_leading_zeros_are_text_in_a_file(tmp_path, words, kind):
    marks(30).assign(grade=np.resize(words, 30)).to_csv(tmp_path / "t.csv", index=False)
    roles = Roles(
        targets=("grade",), drop=("mark", "w", "day", "school"), task_type="multiclass"
    )
    assert make_dataset(read_table(tmp_path / "t.csv"), roles).label_types == {
        "grade": kind
    }


def test_two_booleans_stay_booleans():
    dataset = dataset_of(
        marks().assign(grade=np.resize([True, False], 24)),
        targets=("grade",),
        drop=("mark", "w", "day"),
    )
    assert dataset.label_types == {"grade": "bool"}


def test_a_task_with_one_class_is_named_and_a_task_with_two_is_not():
    frame = marks().assign(
        grade=lambda f: np.where((f.school == "s1") | (f.index % 2 == 0), "yes", "no")
    )
    notes = dataset_of(frame, targets=("grade",), drop=("mark", "w", "day")).notes
    assert "1 task with only one class, left out of AUC and its gain: s1" in notes
    even = frame.assign(grade=np.resize(["yes", "no"], 24))
    assert (
        "only one class"
        not in dataset_of(even, targets=("grade",), drop=("mark", "w", "day")).notes
    )


@pytest.mark.parametrize(("rows", "left"), [(18, False), (20, True)])
def test_twenty_rows_are_enough_to_recognize_a_row_number(rows, left):
    frame = pd.concat([marks(18), marks(18)[: rows - 18]], ignore_index=True).assign(
        pupil=np.arange(rows)
    )
    assert ("pupil" not in dataset_of(frame).features) == left


def test_nineteen_rows_are_not():
    frame = pd.concat([marks(18), marks(18)[:1]], ignore_index=True).assign(
        pupil=np.arange(19)
    )
    assert "pupil" in dataset_of(frame).features


def test_a_binary_column_that_is_constant_within_tasks_is_named():
    frame = marks().assign(
        church=lambda f: (f.school == "s1").astype(int), mixed=np.resize([0, 1], 24)
    )
    assert "shift a task as a whole: church\n" in f"{dataset_of(frame).notes}\n"


def test_a_star_selects_all_columns():
    frame = marks().assign(pupil=np.arange(24), number=np.arange(24) * 3)
    assert dataset_of(frame).features == ["a", "b"]
    assert dataset_of(frame, keep=("*",)).features == ["a", "b", "pupil", "number"]


@pytest.mark.parametrize(("n_single", "is_asked"), [(2, False), (3, True)])
def test_tasks_of_one_row_are_counted_and_a_majority_of_them_is_asked_about(
    n_single, is_asked
):
    # One school has 20 rows, another one no row with a mark.
    sizes = [20, 1, *[1] * n_single]
    frame = pd.DataFrame({"a": np.arange(float(sum(sizes)))})
    frame["school"] = np.repeat([f"s{t}" for t in range(len(sizes))], sizes)
    frame["mark"] = np.where(frame.school == "s1", np.nan, frame.a**2)
    notes = make_dataset(
        table_of_frame(frame), Roles(targets=("mark",), task="school")
    ).notes
    few = f"{n_single} of {len(sizes)} tasks with fewer than 4 rows are kept"
    assert f"{few} ({n_single} of them have one row)" in notes
    assert ("swapped?" in notes) == is_asked


def test_a_target_that_is_constant_in_training_is_left_out_whatever_the_test_rows_hold():
    frame = marks().assign(c=1.0).drop(columns=["school", "grade", "w", "day"])
    test = frame.head(6).assign(c=np.arange(6.0))
    roles = Roles(targets=("mark", "b", "c"))
    dataset = make_dataset(
        table_of_frame(frame), roles, table_of_frame(test, "test rows")
    )
    assert dataset.tasks == ["mark", "b"]
    assert "1 target left out" in dataset.notes


@pytest.mark.parametrize(("n_filled", "is_kept"), [(100, True), (60, False)])
def test_remarks_that_fill_few_cells_need_more_repeated_words(n_filled, is_kept):
    remarks = np.resize([f"word {k}" for k in range(35)], 100).astype(object)
    remarks[n_filled:] = None
    frame = marks(100, 4).assign(remark=remarks)
    roles = Roles(targets=("mark",), task="school", drop=("grade", "w", "day"))
    dataset = make_dataset(table_of_frame(frame), roles)
    assert ("remark" in dataset.features) == is_kept
