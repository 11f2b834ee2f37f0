"""Missing values, column names and columns do not depend on the container."""

import re
import shlex
import unicodedata

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.chunks.table import ChunkedTable
from mtlrun.data.reading.named_columns import matching, target_columns
from mtlrun.data.reading.names import (
    MISSING,
    class_task,
    distinct,
    quoted_list,
    separated,
)
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, new_rows
from mtlrun.data.splits import short_tasks
from mtlrun.errors import DataError, UnknownNameError
from mtlrun.features.table import TableFeatures

COMPOSED = "temp\u00e9rature"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def table(rows=48, **columns):
    """Return rows of three tasks with a number, a text and a target."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=rows).round(3),
            "word": np.resize(["u", "v"], rows),
            "task": np.repeat(["a", "b", "c"], rows // 3),
            "y": rng.normal(size=rows).round(3),
        }
    )
    return frame.assign(**columns)


def dataset(frame, **roles):
    return make_dataset(
        table_of_frame(frame), Roles(targets=("y",), task="task", **roles)
    )


def containers(frame, folder):
    """Yield the same table as a frame and from files."""
    yield frame
    frame.to_csv(folder / "t.csv", index=False)
    yield folder / "t.csv"
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    yield folder / "t.tsv"
    pytest.importorskip("pyarrow")
    frame.to_parquet(folder / "t.parquet")
    yield folder / "t.parquet"
    pytest.importorskip("openpyxl")
    frame.to_excel(folder / "t.xlsx", index=False)
    yield folder / "t.xlsx"


# --- missing values ---


def test_the_same_texts_are_missing_values_in_every_container(tmp_path):
    rows = len(MISSING)
    frame = pd.DataFrame({"word": list(MISSING), "x": np.arange(rows) + 0.5})
    frame = pd.concat([frame, pd.DataFrame({"word": ["u", "None"], "x": [1.5, 2.5]})])
    for source in containers(frame.reset_index(drop=True), tmp_path):
        words = read_table(source).column("word")
        assert words.isna().tolist() == [True] * rows + [False] * 2, source


def test_a_missing_value_marker_does_not_turn_a_numeric_column_into_text(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,NA \n2, 3\n4,#N/A\n")
    frame = read_table(tmp_path / "t.csv").frame
    np.testing.assert_array_equal(frame.b, [np.nan, 3, np.nan])
    cells = pd.DataFrame({"a": [1, "NULL", 2.5], "b": [True, "?", False]})
    columns = table_of_frame(cells).frame
    np.testing.assert_array_equal(columns.a, [1, np.nan, 2.5])
    assert columns.b.dtype == "boolean"


def test_a_missing_label_is_not_a_class():
    words = np.resize(["yes", "no", "#N/A", "<NA>"], 48)
    data = dataset(table(y=words))
    assert data.labels["a"] == ["no", "yes"]
    assert "'#N/A', '<NA>'" in data.notes


def test_a_model_with_a_task_named_na_finds_it_in_a_frame_and_a_file(tmp_path):
    schema = Schema(1, ("c",), table=True, categories={"c": ["EU", "NA"]})
    frame = pd.DataFrame({"c": ["NA", "EU", "?"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv"):
        X = new_rows(read_table(source, like=schema), schema).X
        np.testing.assert_array_equal(X[:, 0], [1, 0, np.nan])


@pytest.mark.parametrize("error", ["#DIV/0!", "#REF!", "#SPILL!", "#ЗНАЧ!", "Err:502"])
def test_spreadsheet_errors_are_rejected_in_every_container(tmp_path, error):
    words = table().word.astype(object)
    words[3] = error
    frame = table(word=words)
    for source in containers(frame, tmp_path):
        with pytest.raises(DataError, match=f"{error}.*\n.*--drop word"):
            make_dataset(read_table(source), Roles(targets=("y",), task="task"))
        left = make_dataset(
            read_table(source), Roles(targets=("y",), task="task", drop=("word",))
        )
        assert left.features == ["x"]
    schema = Schema(1, ("word",), table=True, categories={"word": ["u", "v"]})
    with pytest.raises(DataError, match=error):
        new_rows(table_of_frame(frame), schema)


# --- names of columns ---


def test_column_names_agree_in_every_normal_form_and_with_blanks(tmp_path):
    frame = table().rename(
        columns={"x": f" {DECOMPOSED}\u00a0", "word": "my\u00a0word"}
    )
    for source in containers(frame, tmp_path):
        assert read_table(source).columns[:2] == [COMPOSED, "my word"], source


def test_options_match_columns_in_every_normal_form():
    frame = table().rename(columns={"x": COMPOSED})
    data = dataset(frame.assign(z=frame.y), drop=(DECOMPOSED, " z "), keep=("word",))
    assert data.features == ["word"]
    schema = Schema(1, (DECOMPOSED,), table=True)
    assert new_rows(table_of_frame(frame), schema).X.shape == (48, 1)


@pytest.mark.parametrize("twin", [DECOMPOSED, f"{COMPOSED} ", f"{COMPOSED}\u00a0"])
def test_two_columns_with_the_same_name_are_rejected_by_name(tmp_path, twin):
    frame = table().rename(columns={"x": COMPOSED}).assign(**{twin: 1.0})
    for source in containers(frame, tmp_path):
        with pytest.raises(DataError, match=COMPOSED):
            read_table(source)


def test_chunks_match_columns_in_every_normal_form(tmp_path):
    pytest.importorskip("pyarrow")
    frame = table().drop(columns="word").rename(columns={"x": DECOMPOSED})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        files = [tmp_path / name]
        chunked = ChunkedTable.of(files, target="y ", task="task", n_folds=2)
        assert chunked.features == (COMPOSED,)
        (chunk,) = chunked.chunks(tmp_path / name)
        assert chunk.Z.shape == (3, 48)


@given(st.lists(st.text('ab,"; ', min_size=1).map(str.strip).filter(bool), min_size=2))
def test_names_with_commas_and_quotes_survive_a_list(names):
    assert separated(quoted_list(names), []) == names


def test_a_name_with_commas_takes_precedence_over_a_list_of_names():
    frame = pd.DataFrame(np.eye(5), columns=["a", "b", "a,b", "Oil, kg", "x*"])
    columns = table_of_frame(frame)
    assert matching(["a,b"], columns) == ("a,b",)
    assert matching(["b,a"], columns) == ("b", "a")
    assert matching(['"Oil, kg",a', "a"], columns) == ("Oil, kg", "a")
    assert matching(["x*", "?,b"], columns) == ("x*", "a", "b")
    assert target_columns(columns, targets=("a", "b")) == ("a", "b")
    with pytest.raises(UnknownNameError, match='"a,b"'):
        matching(["a,Oil, kg"], columns)


def test_the_order_of_tasks_is_a_list_or_single_names():
    frame = table(task=np.repeat(["a,b", "c", "d"], 16))
    assert dataset(frame, task_order=("d,c",)).tasks == ["d", "c", "a,b"]
    assert dataset(frame, task_order=("a,b", "d")).tasks == ["a,b", "d", "c"]


# --- the index of a frame ---


def test_a_named_index_is_a_column():
    frame = table()
    for levels in (["x"], ["x", "task"], ["y"]):
        data = dataset(frame.set_index(levels))
        assert sorted(data.features) == ["word", "x"]
        assert data.tasks == ["a", "b", "c"]
        np.testing.assert_array_equal(data.y, frame.y)


def test_an_unnamed_index_is_left_out_and_text_in_it_is_reported():
    frame = table()
    assert "index" not in dataset(frame.set_index(frame.index[::-1] * 7)).notes
    words = dataset(frame.set_axis([f"row {k}" for k in range(len(frame))]))
    assert sorted(words.features) == ["word", "x"]
    assert "index" in words.notes


def test_an_index_named_like_a_column_equals_that_column_or_is_rejected():
    frame = table()
    same = frame.set_index("x", drop=False)
    assert table_of_frame(same).columns == list(frame.columns)
    other = frame.set_index(frame.x[::-1].rename("x"))
    with pytest.raises(DataError, match="'x'"):
        table_of_frame(other)
    twice = pd.MultiIndex.from_arrays([frame.x, frame.y], names=["k", "k"])
    with pytest.raises(DataError, match="'k'"):
        table_of_frame(frame.set_index(twice))


def test_an_index_numbered_by_arrow_is_not_a_column():
    arrow = pytest.importorskip("pyarrow")
    frame = table().sample(frac=1.0, random_state=0)
    assert "__index_level_0__" in arrow.Table.from_pandas(frame).column_names
    converted = table_of_frame(arrow.Table.from_pandas(frame))
    assert converted.columns == list(frame.columns)


# --- mixed columns ---


def mixed_table():
    grades = np.resize(["1", "2", "K"], 48)
    ages = np.resize(["2-3", "4-5", "1"], 48)
    return table(**{"grade, US": grades, "age": ages})


def test_all_mixed_columns_are_rejected_at_once_and_an_option_accepts_them():
    with pytest.raises(DataError) as caught:
        dataset(mixed_table())
    error = caught.value
    assert "'grade, US'" in error.message
    assert "'age'" in error.message
    (option,) = re.findall(r"--categorical ('.*?'|\S+)", error.remedy)
    (text,) = shlex.split(option)
    columns = matching([text], table_of_frame(mixed_table()))
    assert columns == ("grade, US", "age")
    data = dataset(mixed_table(), categorical=columns)
    assert data.categories["age"] == ["1", "2-3", "4-5"]


def test_mixed_columns_may_be_read_as_categories():
    data = dataset(mixed_table(), mixed="categories")
    assert data.categories["grade, US"] == ["1", "2", "K"]
    assert "grade, US, age" in data.notes
    labels = dataset(table(y=np.resize(["1", "2", "K"], 48)), mixed="categories")
    assert labels.labels["a"] == ["1", "2", "K"]
    with pytest.raises(UnknownNameError):
        dataset(table(), mixed="words")


def test_all_numbers_written_as_text_are_rejected_at_once():
    shares = np.resize(["1%", "2%", "3%"], 48)
    prices = np.resize(["$1", "$2", "$3"], 48)
    with pytest.raises(DataError, match=r"'share'.*'price'.*\n.*--drop share,price"):
        dataset(table(share=shares, price=prices))


# --- names of tasks ---


def test_classes_of_targets_with_ambiguous_names_remain_separate_tasks():
    rows = 48
    frame = pd.DataFrame(
        {
            "x": np.arange(rows) % 7 + 0.5,
            "a": np.resize(["b=c", "k", "l"], rows),
            "a=b": np.repeat(["c", "m", "n"], rows // 3),
            "a=k": np.resize(["no", "yes"], rows),
        }
    )
    data = make_dataset(table_of_frame(frame), Roles(targets=("a", "a=b", "a=k")))
    assert len(set(data.tasks)) == data.y.shape[1] == 7
    for target, column in (("a", 0), ("a=b", 3)):
        first = data.labels[target][0]
        np.testing.assert_array_equal(data.y[:, column] > 0, frame[target] == first)


@given(*[st.text("=ab'\"", min_size=1, max_size=5)] * 4)
def test_names_of_classes_are_equal_only_for_equal_parts(a, b, c, d):
    alike = class_task(a, b) == class_task(c, d)
    assert alike == ((a, b) == (c, d))


def test_duplicate_names_get_a_number():
    assert distinct(["a", "a", "a (2)", "b"], ["b"]) == ["a", "a (3)", "a (2)", "b (2)"]


# --- new rows ---


def test_missing_values_in_complete_training_columns_are_counted():
    frame = table(gaps=np.where(np.arange(48) % 5, 1.5, np.nan))
    data = dataset(frame)
    words = {data.features.index(name): w for name, w in data.categories.items()}
    step = TableFeatures(words).fit(data.X)
    complete = tuple(data.features[j] for j in step.complete_columns())
    assert sorted(complete) == ["word", "x"]
    schema = Schema(
        3,
        tuple(data.features),
        table=True,
        categories=data.categories,
        complete=complete,
    )
    new = frame.astype({"x": object}).head(6)
    new.loc[:3, "gaps"] = np.nan
    new.loc[:2, "x"] = "NA"
    new["word"] = None
    rows = new_rows(table_of_frame(new), schema)
    counts = {name: mask.sum() for name, mask in rows.missing.items()}
    assert counts == {"x": 3, "word": 6}
    assert "'x' (3)" in rows.sentences()[0]
    assert new_rows(table_of_frame(frame), schema).sentences() == []


def test_missing_values_in_test_rows_are_reported():
    test = table().astype({"x": object})
    test.loc[:4, "x"] = None
    roles = Roles(targets=("y",), task="task")
    data = make_dataset(table_of_frame(table()), roles, table_of_frame(test))
    assert "'x' (5)" in data.notes
    data = make_dataset(table_of_frame(table()), roles, table_of_frame(table()))
    assert "test rows" not in data.notes


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_features_are_arrays_whatever_the_scikit_learn_configuration(output):
    pytest.importorskip(output)
    data = dataset(table(gaps=np.where(np.arange(48) % 5, 1.5, np.nan)))
    step = TableFeatures({data.features.index("word"): data.categories["word"]})
    expected = step.fit_transform(data.X)
    with sklearn.config_context(transform_output=output):
        transformed = step.fit_transform(data.X)
    assert isinstance(transformed, np.ndarray)
    np.testing.assert_array_equal(transformed, expected)


# --- people, and small tasks ---


def test_ids_of_people_with_several_rows_are_reported_once():
    for name in [
        "id",
        "ID",
        "pupil_id",
        "pupilId",
        "childid",
        "teacher",
        "id_pupil",
        "student_number",
        "pupil-no",
        "caseid",
        "hhid",
        "idno",
    ]:
        frame = table().assign(**{name: np.arange(48) // 4 + 100})
        notes = dataset(frame).notes
        assert notes.count(f"--group {name} ") == 1
        assert f"--also-grouped-by {name} " in notes
        assert f"--drop {name} " in notes
        assert "--group" not in dataset(frame, group=name).notes


def test_columns_of_ids_of_people_are_mentioned_in_one_line():
    persons = np.arange(48) // 4 + 100
    frame = table().assign(pupil=persons, teacher=persons[::-1])
    lines = [line for line in dataset(frame).notes.splitlines() if "--group" in line]
    assert len(lines) == 1
    assert "'pupil'" in lines[0]
    assert "--drop pupil,teacher " in lines[0]


def test_numbers_with_other_names_are_not_ids_of_people():
    for name in [
        "acid",
        "grid",
        "age",
        "solid",
        "case",
        "hh",
        "idea",
        "number",
        "pupils",
    ]:
        frame = table().assign(**{name: np.arange(48) // 4 + 100})
        assert "--group" not in dataset(frame).notes


def test_tasks_with_fewer_rows_than_folds_are_named():
    data = dataset(table(task=np.repeat(["a", "b"], [44, 4])))
    assert "b (4)" in short_tasks(data, 5)
    assert short_tasks(data, 4) == ""


def test_arff_accepts_the_same_missing_value_markers(tmp_path):
    head = (
        "@relation r\n@attribute x numeric\n@attribute c {u,w,v}\n@attribute s string"
    )
    rows = ["1,u,a", "NA,NA,null", "#N/A,?,b", "nan,'<NA>',?", "4,v,a"]
    text = "\n".join([head, "@data", *rows, ""])
    (tmp_path / "t.arff").write_text(text)
    loaded = read_table(tmp_path / "t.arff")
    missing = [False, True, True, True, False]
    assert loaded.column("x").isna().tolist() == missing
    assert loaded.column("c").isna().tolist() == missing
    assert loaded.column("s").isna().tolist() == [False, True, False, True, False]
