"""From a file with column roles to rows, tasks, targets and features.

Files are read with a card, as by `mtlrun compare`, and new rows as by `mtlrun predict`.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.errors import DataError, UnknownNameError


def schools(n=24, tasks=3):
    """Return pupils: row number, feature, mark, whether they passed, level, weight,
    form and day.
    """
    rng = np.random.default_rng(0)
    number = np.arange(n)
    return pd.DataFrame(
        {
            "number": number,
            "a": rng.normal(size=n).round(3),
            "mark": rng.normal(size=n).round(3),
            "passed": np.where(number % 2, "yes", "no"),
            "level": np.resize(["low", "mid", "top"], n),
            "school": np.resize([f"s{t}" for t in range(tasks)], n),
            "w": 1.0 + number,
            "form": np.resize(["b", "a", "c", "d"], n),
            "day": pd.date_range("2024-12-25", periods=n)[::-1].astype(str),
        }
    )


#: Columns without another role
EXTRA = ["mark", "passed", "level", "school", "w", "form", "day"]


@pytest.fixture
def load(own_set):
    def read(frame, test=None, **roles):
        used = {
            *roles.get("targets", ()),
            *roles.get("categorical", ()),
            *(v for v in roles.values() if isinstance(v, str)),
        }
        roles.setdefault(
            "drop", [name for name in EXTRA if name in frame and name not in used]
        )
        files = {"rows.csv": frame.to_csv(index=False).encode()}
        if test is not None:
            files["test.csv"] = test.to_csv(index=False).encode()
            roles["test"] = "test.csv"
        return own_set.write(
            "table", files, {"data": "rows.csv", **roles}, "regression", "ragged"
        )()

    return read


# --- rows


ROLES = {"targets": ["mark"], "task": "school"}


def test_rows_keep_their_task_weight_group_and_time_if_others_are_left_out(load):
    frame = schools()
    frame.loc[[0, 7, 13], "mark"] = np.nan  # No target
    small = schools(2).assign(school="tiny")
    frame = pd.concat([small, frame], ignore_index=True).assign(number=range(26))
    kept = frame[frame.mark.notna() & (frame.school != "tiny")]
    for role, column in (("group", "form"), ("time", "day"), ("time", "number")):
        frame["again"] = frame.number
        dataset = load(
            frame, **ROLES, weight="w", min_rows=4, keep=["again"], **{role: column}
        )
        np.testing.assert_array_equal(
            dataset.X[:, dataset.features.index("again")], kept.number
        )
        np.testing.assert_array_equal(dataset.y, kept.mark)
        np.testing.assert_allclose(dataset.source["weight"], kept.w / kept.w.mean())
        assert [dataset.tasks[t] for t in dataset.task_id] == kept.school.tolist()
        if role == "group":
            codes = dataset.source["group"]
            assert (
                len({*zip(codes, kept.form, strict=True)})
                == kept.form.nunique()
                == len(set(codes))
            )
        else:
            np.testing.assert_array_equal(
                np.argsort(dataset.source["order"]), np.argsort(kept[column].to_numpy())
            )


def test_rows_of_the_same_time_have_the_same_rank(load):
    frame = schools().assign(
        day=np.resize(["2024-01-05", "2023-06-01", "2024-01-05"], 24)
    )
    time = load(frame, **ROLES, time="day").source["order"]
    np.testing.assert_array_equal(time, np.resize([2, 1, 2], 24))


def test_times_may_be_given_if_they_are_known(load):
    frame = schools().assign(
        day=np.resize(["2024-01-05 18:30", "2024-01-05 00:00", "2024-01-04 09:15"], 24)
    )
    time = load(frame, **ROLES, time="day").source["order"]
    np.testing.assert_array_equal(time, np.resize([3, 2, 1], 24))


def test_weights_that_are_all_0_or_not_weights_are_rejected(load):
    with pytest.raises(DataError, match="rows have weight 0"):
        load(schools().assign(w=0.0), **ROLES, weight="w")
    for wrong in (-0.5, "", "heavy", np.inf):
        frame = schools().astype({"w": object})
        frame.loc[3, "w"] = wrong
        with pytest.raises(DataError, match=r"rows\.csv:5.*'w'"):
            load(frame, **ROLES, weight="w")


def test_a_role_that_is_not_set_leaves_no_trace(load):
    assert load(schools(), **ROLES).source == {}
    assert load(schools(), **ROLES).splits == {}


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_small_tasks_are_kept_unless_a_minimum_number_of_rows_is_set(load, rows):
    frame = pd.concat(
        [schools(), schools(rows).assign(school="few")], ignore_index=True
    )
    kept = load(frame, **ROLES)
    assert kept.tasks == ["few", "s0", "s1", "s2"]
    assert ("--min-rows" in kept.notes) == (rows < 4)
    assert load(frame, **ROLES, min_rows=rows).tasks == ["few", "s0", "s1", "s2"]
    assert load(frame, **ROLES, min_rows=rows + 1).tasks == ["s0", "s1", "s2"]


def test_small_tasks_are_counted_as_are_tasks_with_a_single_row(load):
    frames = [
        schools(),
        schools(3).assign(school="three"),
        schools(1).assign(school="one"),
    ]
    notes = load(pd.concat(frames, ignore_index=True), **ROLES).notes
    assert "2 of 5 tasks" in notes
    assert "1 of them" in notes


def test_rows_without_a_target_do_not_count_towards_the_size_of_a_task(load):
    frame = pd.concat([schools(), schools(5).assign(school="few")], ignore_index=True)
    frame.loc[[24, 25], "mark"] = np.nan
    assert "few" not in load(frame, **ROLES, min_rows=4).tasks


def test_a_task_without_any_target_is_left_out_and_counted(load):
    frame = pd.concat(
        [schools(), schools(5).assign(school="last", mark=np.nan)], ignore_index=True
    )
    dataset = load(frame, **ROLES)
    assert dataset.tasks == ["s0", "s1", "s2"]
    assert "5 rows" in dataset.notes
    assert "left out: last" in dataset.notes


def test_rows_of_a_shared_design_are_kept_if_at_least_one_target_is_known(load):
    frame = schools()
    frame["other"] = frame.a * 2
    frame.loc[[2, 3], "mark"] = np.nan
    frame.loc[[3, 4], "other"] = np.nan
    dataset = load(frame, targets=["mark", "other"], keep=["number"])
    kept = frame.drop(index=3)
    np.testing.assert_array_equal(dataset.y, kept[["mark", "other"]])
    np.testing.assert_array_equal(dataset.X, kept[["number", "a"]])
    assert (dataset.tasks, dataset.targets, dataset.task_id) == (
        ["mark", "other"],
        ["mark", "other"],
        None,
    )


def test_rows_that_are_left_out_are_counted(load):
    frame = pd.concat([schools(), schools(5).assign(school="few")], ignore_index=True)
    assert " rows" not in load(frame, **ROLES).notes
    frame.loc[[0, 1], "mark"] = np.nan
    assert "2 rows" in load(frame, **ROLES).notes
    notes = load(frame, **ROLES, min_rows=6).notes
    assert "5 rows" in notes
    assert "2 rows" in notes


def test_tasks_are_sorted_and_numbers_are_sorted_by_value(load):
    frame = schools().assign(school=np.resize([30, 4, 7.5], 24))
    dataset = load(frame, **ROLES)
    assert dataset.tasks == ["4", "7.5", "30"]
    assert dataset.task_id.tolist() == np.resize([2, 0, 1], 24).tolist()


# --- test rows


def test_test_rows_are_a_published_split(load):
    frame, test_rows = schools(), schools(9).assign(number=range(100, 109))
    dataset = load(frame, test_rows[test_rows.columns[::-1]], **ROLES, keep=["number"])
    ((train, test),) = dataset.splits["test"]
    assert (train.tolist(), test.tolist()) == (list(range(24)), list(range(24, 33)))
    np.testing.assert_array_equal(dataset.X[test][:, 0], test_rows.number)
    np.testing.assert_array_equal(dataset.y[test], test_rows.mark)
    frame.loc[[0, 5], "mark"], test_rows.loc[8, "mark"] = np.nan, np.nan
    ((train, test),) = load(frame, test_rows, **ROLES).splits["test"]
    assert (train.tolist(), test.tolist()) == (list(range(22)), list(range(22, 30)))


def test_an_invalid_cell_in_the_test_rows_is_located_there(load):
    test_rows = schools(9).astype({"a": object})
    test_rows.loc[2, "a"] = "x"
    with pytest.raises(DataError, match=r"test\.csv:4.*'a'"):
        load(schools(), test_rows, **ROLES)
    frame = schools().astype({"a": object})
    frame.loc[23, "a"] = "x"
    with pytest.raises(DataError, match=r"rows\.csv:25.*'a'"):
        load(frame, schools(9), **ROLES)


def test_tasks_that_occur_only_in_the_test_rows_are_rejected_unless_allowed(
    load,
):
    test_rows = pd.concat(
        [schools(4).assign(school="new"), schools(4).assign(school="old")],
        ignore_index=True,
    )
    with pytest.raises(DataError, match=r"(?s)2 tasks.*new, old.*unseen='mean'"):
        load(schools(), test_rows, **ROLES)
    dataset = load(schools(), test_rows, **ROLES, unseen="mean")
    assert dataset.tasks == ["new", "old", "s0", "s1", "s2"]
    with pytest.raises(DataError, match=r"1 task .*: new"):
        load(schools(), test_rows[:4], **ROLES)
    load(schools(), schools(4), **ROLES)  # All values are known
    with pytest.raises(UnknownNameError, match="'maen'"):
        load(schools(), unseen="maen", **ROLES)


def test_test_rows_of_tasks_that_are_written_differently_are_reported(load):
    test_rows = schools(4).assign(school="S 00")
    with pytest.raises(DataError, match="'S 00' \\('s0'\\)"):
        load(schools(), test_rows, **ROLES)
    dataset = load(schools(), test_rows, **ROLES, unseen="mean")
    assert "'S 00' ('s0')" in dataset.notes


def test_sparse_test_rows_have_the_columns_of_the_training_rows(own_set):
    rows = "".join(f"{k} qid:{k % 3} 1:{k + 1} 4:1\n" for k in range(12))
    files = {"rows.svm": rows.encode(), "test.svm": b"5 qid:1 2:7\n6 qid:2 1:8\n"}
    options = {"data": "rows.svm", "test": "test.svm"}
    dataset = own_set.write("table", files, options, "regression", "ragged")()
    ((train, test),) = dataset.splits["test"]
    assert (len(train), dataset.features) == (12, ["x1", "x2", "x3", "x4"])
    np.testing.assert_array_equal(
        dataset.X[test].toarray(), [[0, 7, 0, 0], [8, 0, 0, 0]]
    )
    np.testing.assert_array_equal(dataset.y[test], [5, 6])


@pytest.mark.parametrize("option", ["data", "test"])
def test_a_file_missing_in_the_card_is_named_with_the_card(own_set, option):
    content = schools().to_csv(index=False).encode()
    options = {
        "data": "rows.csv",
        "targets": ["mark"],
        "task": "school",
        option: "rwos.csv",
    }
    message = own_set.error(
        "table", {"rows.csv": content}, options, task_type="regression", design="ragged"
    )
    assert "'rwos.csv'" in message
    assert "mine" in message


# --- targets


def test_labels_become_signs_and_keep_their_names(load):
    frame = schools()
    dataset = load(frame, targets=["passed"], task="school")
    np.testing.assert_array_equal(dataset.y, np.where(frame.passed == "yes", 1, -1))
    assert dataset.task_type == "binary"
    assert dataset.labels == {f"s{t}": ["no", "yes"] for t in range(3)}
    turned = load(frame, targets=["passed"], task="school", positive="no")
    np.testing.assert_array_equal(turned.y, np.where(frame.passed == "no", 1, -1))
    assert turned.labels["s0"] == ["yes", "no"]
    one = load(frame, targets=["level"], task="school", positive="mid")
    np.testing.assert_array_equal(one.y, np.where(frame.level == "mid", 1, -1))
    assert one.labels["s0"] == ["not mid", "mid"]
    with pytest.raises(UnknownNameError, match="'med'"):
        load(frame, targets=["level"], task="school", positive="med")


@pytest.mark.parametrize(
    ("labels", "words", "noted"),
    [
        ((0, 1), ["0", "1"], False),
        ((-1, 1), ["-1", "1"], False),
        ((1, 2), ["1", "2"], True),
        ((0, 2), ["0", "2"], True),
    ],
)
def test_two_numbers_are_labels_and_the_larger_is_positive(load, labels, words, noted):
    frame = schools()
    frame["mark"] = np.resize(labels, 24)
    dataset = load(frame, **ROLES)
    assert (dataset.task_type, dataset.labels["s0"]) == ("binary", words)
    np.testing.assert_array_equal(dataset.y, np.resize([-1, 1], 24))
    assert ("+1 means" in dataset.notes) is noted
    frame["other"] = frame.a
    both = load(frame, targets=["mark", "other"])  # Two different number types
    assert (both.task_type, both.labels) == ("regression", {})
    np.testing.assert_array_equal(both.y, frame[["mark", "other"]])
    as_numbers = load(frame, **ROLES, task_type="regression")
    np.testing.assert_array_equal(as_numbers.y, frame.mark)


def test_classes_are_tasks_against_the_rest(load):
    frame = schools()
    dataset = load(frame, targets=["level"])
    assert (dataset.tasks, dataset.task_type) == (["low", "mid", "top"], "binary")
    np.testing.assert_array_equal(
        dataset.y, np.where(frame.level.to_numpy()[:, None] == dataset.tasks, 1, -1)
    )
    assert dataset.labels == {"level": ["low", "mid", "top"]}
    frame.loc[[1, 4], "level"] = None
    gone = load(frame, targets=["level", "passed"])
    assert gone.tasks == ["level=low", "level=mid", "level=top", "passed"]
    assert np.isnan(gone.y[[1, 4], :3]).all()
    assert not np.isnan(gone.y[:, 3]).any()
    for positive in ("2", "2.0"):
        two = load(
            schools().assign(mark=np.resize([1, 2, 3.5], 24)),
            **ROLES,
            positive=positive,
        )
        np.testing.assert_array_equal(two.y, np.resize([-1, 1, -1], 24))
    numbered = load(
        schools().assign(mark=np.resize([1, 2, 3], 24)),
        targets=["mark"],
        task_type="multiclass",
    )
    assert numbered.tasks == ["1", "2", "3"]


def test_classes_occur_within_tasks(load):
    frame = pd.concat(
        [schools(), schools(6).assign(school="one", level="low")], ignore_index=True
    )
    frame.loc[frame.school == "s0", "level"] = np.resize(["mid", "top"], 8)
    frame.loc[frame.school == "s1", "level"] = np.resize(["low", "mid", "top"], 8)
    frame.loc[frame.school == "s2", "level"] = np.resize(["low", "top"], 8)
    dataset = load(frame, targets=["level"], task="school")
    assert dataset.tasks == ["s0=top", "s1=low", "s1=mid", "s1=top", "s2=top"]
    assert dataset.labels == {
        "s0": ["mid", "top"],
        "s1": ["low", "mid", "top"],
        "s2": ["low", "top"],
    }
    assert (dataset.task_id, len(dataset.y)) == (None, 24)
    for task, y in zip(dataset.tasks, dataset.y.T, strict=True):
        school, level = task.split("=")
        mine = frame[:24].school == school
        np.testing.assert_array_equal(
            y[mine], np.where(frame[:24].level[mine] == level, 1, -1)
        )
        assert np.isnan(y[~mine]).all()


@pytest.mark.parametrize("texts", [20, 21, 30])
def test_a_target_with_many_texts_is_not_a_category(load, texts):
    frame = schools(60)
    frame["level"] = np.resize([f"text {k}" for k in range(texts)], 60)
    if texts <= 30:  # Half of the rows
        assert len(load(frame, targets=["level"]).tasks) == texts
    frame = frame[:40]
    if texts > 20:
        with pytest.raises(DataError, match="'level' contains"):
            load(frame, targets=["level"])
        assert (
            len(load(frame, targets=["level"], task_type="multiclass").tasks) == texts
        )
    else:
        assert len(load(frame, targets=["level"]).tasks) == texts


def test_inferred_roles_are_noted_and_explicit_ones_are_not(load):
    assert "inferred" in load(schools(), **ROLES).notes
    assert "inferred" not in load(schools(), **ROLES, task_type="regression").notes


def test_a_target_needs_two_values(load):
    for values, message in ((1.5, "1.5"), (np.nan, "no values")):
        with pytest.raises(DataError, match=rf"'mark' has .*{message}"):
            load(schools().assign(mark=values), **ROLES)


def test_a_single_target_without_tasks_is_rejected_unless_it_has_classes(load):
    for target in ("mark", "passed"):
        with pytest.raises(DataError, match=rf"(?s)'{target}'.*task="):
            load(schools(), targets=[target])


# --- roles


def test_the_task_may_be_the_group_but_no_other_column_has_two_roles(load):
    dataset = load(schools(), **ROLES, group="school")
    np.testing.assert_array_equal(dataset.source["group"], dataset.task_id)
    for roles in (
        {"weight": "school"},
        {"time": "mark"},
        {"weight": "w", "group": "w"},
    ):
        with pytest.raises(DataError, match="two roles"):
            load(schools(), **ROLES, **roles)
    with pytest.raises(DataError, match="group or time"):
        load(schools(), **ROLES, group="form", time="day")


@pytest.mark.parametrize(
    "role",
    ["targets", "task", "weight", "group", "time", "drop", "categorical", "keep"],
)
def test_a_missing_column_is_named(load, role):
    roles = {
        **ROLES,
        role: ["lenght"]
        if role in ("targets", "drop", "categorical", "keep")
        else "lenght",
    }
    with pytest.raises(UnknownNameError, match="'lenght'"):
        load(schools(), **roles)


def test_positive_labels_are_accepted_only_for_binary_targets(load):
    roles = {"targets": ["level"], "task": "school", "positive": "mid"}
    assert load(schools(), **roles, task_type="binary").task_type == "binary"
    for other in ("regression", "multiclass"):
        with pytest.raises(DataError, match="positive"):
            load(schools(), **roles, task_type=other)


# --- features


def test_a_column_that_numbers_the_rows_is_an_identifier(load):
    frame = schools().assign(
        pupil=np.arange(24)[::-1] * 7 + 100,
        half=np.arange(24) + 0.5,
        twice=np.resize(range(23), 24),
    )
    dataset = load(frame, **ROLES)
    assert dataset.features == ["a", "half", "twice"]
    assert "number, pupil; --keep" in dataset.notes
    assert load(frame, **ROLES, keep=["pupil"]).features == [
        "a",
        "pupil",
        "half",
        "twice",
    ]
    assert load(frame[["school", "mark", "number"]], **ROLES).features == [
        "number"
    ]  # It is the only feature.
    assert (
        load(frame[:19], **ROLES).features[0] == "number"
    )  # In a few rows values may differ by chance.


def test_columns_that_are_constant_within_tasks_are_named(load):
    frame = schools().assign(
        size=lambda f: f.school.map(
            {name: k for k, name in enumerate(f.school.unique())}
        )
    )
    assert "constant within every task" not in load(schools(), **ROLES).notes
    assert "shift a task as a whole: size" in load(frame, **ROLES).notes


def test_numbers_text_and_missing_values_of_features_are_read(load):
    frame = schools().assign(
        colour=np.resize(["red", "blue", ""], 24), gap=np.resize([1.5, np.nan], 24)
    )
    frame["code"] = np.resize([10, 9, 8.5], 24)
    dataset = load(frame, **ROLES, categorical=["code"], keep=["number"])
    assert dataset.features == ["number", "a", "colour", "gap", "code"]
    assert dataset.categories == {"colour": ["blue", "red"], "code": ["10", "8.5", "9"]}
    np.testing.assert_array_equal(dataset.X[:, 2], np.resize([1, 0, np.nan], 24))
    np.testing.assert_array_equal(dataset.X[:, 3], frame.gap)
    np.testing.assert_array_equal(dataset.X[:, 4], np.resize([0, 2, 1], 24))


@pytest.mark.parametrize(
    ("words", "rows", "kept"),
    [(50, 60, True), (51, 60, False), (51, 102, True), (52, 102, False)],
)
def test_text_that_hardly_repeats_is_an_identifier(load, words, rows, kept):
    frame = schools(rows).assign(
        name=np.resize([f"name {k}" for k in range(words)], rows)
    )
    dataset = load(frame, **ROLES)
    assert ("name" in dataset.features) is kept
    assert ("name" in dataset.notes) is not kept
    assert "dates" not in dataset.notes
    assert "name" in load(frame, **ROLES, categorical=["name"]).features


def test_remarks_are_identified_as_identifiers_by_their_filled_cells(load):
    frame = schools(400).assign(remark="")
    frame.loc[::7, "remark"] = [f"remark {k}" for k in range(58)]
    frame["mood"] = frame.form.where(frame.index % 7 == 0, "")
    dataset = load(frame, **ROLES)
    assert dataset.features == ["a", "mood"]
    assert "remark" in dataset.notes


def test_counts_are_not_identifiers_even_if_all_differ(load):
    counts = np.random.default_rng(0).permutation(np.arange(60) ** 2 + 11)
    dataset = load(schools(60).assign(people=counts), **ROLES)
    assert "people" in dataset.features


def test_row_numbers_with_gaps_are_identified_by_their_filled_cells(load):
    numbers = pd.Series(np.arange(60.0)).where(np.arange(60) % 3 > 0)
    dataset = load(schools(60).assign(line=numbers), **ROLES)
    assert "line" not in dataset.features


def test_dropped_dates_are_reported_apart_from_other_identifiers(load):
    frame = schools(60).assign(born=pd.date_range("2010-01-01", periods=60).astype(str))
    notes = load(frame, **ROLES).notes
    assert "dates" in notes
    assert "--time" in notes
    frame.loc[3, "born"] += " 18:30"
    assert "dates" in load(frame, **ROLES).notes
    frame.loc[30, "born"] = "soon"
    assert "dates" not in load(frame, **ROLES).notes


@pytest.mark.parametrize(
    "texts",
    [
        ["1,5", "2,5", "3,5"],
        ["12%", "13 %", "14%"],
        ["$3", "€ 4", "5£"],
        ["1.200,5", "2'000", "3 000"],
    ],
)
def test_numbers_in_another_notation_are_rejected_unless_they_are_names(load, texts):
    frame = schools().assign(price=np.resize(texts, 24))
    with pytest.raises(
        DataError, match=r"(?s)rows\.csv:2: .*'price'.*categorical='price'"
    ):
        load(frame, **ROLES)
    assert set(load(frame, **ROLES, categorical=["price"]).categories["price"]) == set(
        texts
    )
    assert (
        "price"
        not in load(frame, **ROLES, drop=[*EXTRA[1:3], *EXTRA[4:], "price"]).features
    )
    pair = frame.assign(price=np.resize(texts[:2], 24))  # Two of them could be labels.
    assert "price" in load(pair, **ROLES).features


@pytest.mark.parametrize(
    ("words", "location"), [([5], 7), ([5, 6], 7), (range(20), 22)]
)
def test_the_rarer_type_in_a_mixed_column_is_located(load, words, location):
    frame = schools().astype({"a": object})
    frame.loc[list(words), "a"] = "x"
    with pytest.raises(
        DataError, match=rf"(?s)rows\.csv:{location}: .*'a'.*categorical='a'"
    ):
        load(frame, **ROLES)
    assert "x" in load(frame, **ROLES, categorical=["a"]).categories["a"]


# --- new rows


def new_rows(tmp_path, text, *features, name="new.csv", **more):
    (tmp_path / name).write_text(text)
    return read_rows(
        tmp_path / name, Schema(len(features), features, table=True, **more)
    )


def test_text_in_new_rows_has_the_codes_of_the_training_rows(tmp_path):
    words = {"colour": ["blue", "red"], "code": ["10", "9"]}
    text = "code,a,colour\n9,1.5, red \n10,,blue\n9.0,2,\n"
    rows = new_rows(tmp_path, text, "a", "colour", "code", categories=words)
    np.testing.assert_array_equal(rows.X, [[1.5, 1, 1], [np.nan, 0, 0], [2, np.nan, 1]])


@pytest.mark.parametrize(
    ("cell", "message"), [("inf", "inf"), ("four", "four"), ("-1e999", "inf")]
)
def test_a_cell_that_is_not_a_number_is_located(tmp_path, cell, message):
    with pytest.raises(DataError, match=rf"new\.csv:3: .*'b'.*{message}"):
        new_rows(tmp_path, f"a,b\n1,2\n3,{cell}\n4,5\n", "a", "b")


def test_missing_values_are_accepted_if_the_model_imputes_them(tmp_path):
    text = "a,b\n1,2\n3,\n"
    np.testing.assert_array_equal(
        new_rows(tmp_path, text, "a", "b").X, [[1, 2], [3, np.nan]]
    )
    with pytest.raises(DataError, match=r"new\.csv:3: .*'b'"):
        read_rows(tmp_path / "new.csv", Schema(2, ("a", "b")))


@pytest.mark.parametrize("first", [0, 1])
def test_numbered_columns_of_sparse_files_start_like_those_of_the_training_rows(
    tmp_path, first
):
    X = sparse.csr_matrix(np.array([[0, 0, 2.0, 0], [0, 0, 0, 0], [0, 3.0, 0, 0]]))
    dump_svmlight_file(X, [1, 2, 3], str(tmp_path / "new.svm"), zero_based=not first)
    features = tuple(f"x{j + first}" for j in range(4))
    rows = read_rows(tmp_path / "new.svm", Schema(4, features, table=True))
    np.testing.assert_array_equal(rows.X.toarray(), X.toarray())
    some = read_rows(
        tmp_path / "new.svm", Schema(2, (features[3], features[1]), table=True)
    )
    np.testing.assert_array_equal(some.X.toarray(), X.toarray()[:, [3, 1]])
