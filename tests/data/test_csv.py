from __future__ import annotations

import gzip
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.data.cards import load_card
from mtlrun.data.load import load_dataset
from mtlrun.data.readers.csv import read_table, signs
from mtlrun.errors import DataError

TABLE = b"a,b,school\n1,2.5,north\n-3,4e1,south\n"


def parse(content: bytes, **options):
    return read_table(io.BytesIO(content), "t.csv", **options)


def refused(content: bytes, **options) -> str:
    with pytest.raises(DataError) as caught:
        parse(content, **options)
    return str(caught.value)


def test_numbers_and_text_columns():
    frame = parse(TABLE, text=["school"])
    assert frame.columns.tolist() == ["a", "b", "school"]
    assert frame[["a", "b"]].to_numpy().tolist() == [[1.0, 2.5], [-3.0, 40.0]]
    assert frame["school"].tolist() == ["north", "south"]
    assert frame["a"].dtype == np.float64


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_mark_and_line_ends(prefix, end):
    frame = parse(prefix + TABLE.replace(b"\n", end), text=["school"])
    assert frame.shape == (2, 3)
    assert frame.columns[0] == "a"
    assert frame["school"].tolist() == ["north", "south"]


def test_blank_separated_without_header():
    frame = parse(b"  1   2 van \n\n3 4 bus\n", delimiter=None, header=False, text=[-1])
    assert frame[[0, 1]].to_numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert frame[2].tolist() == ["van", "bus"]


def test_lines_before_the_table_are_skipped():
    assert parse(b";;; made by hand\n\nx,y\n1,2\n", skip=1).to_numpy().tolist() == [[1.0, 2.0]]


def test_quoted_cells_may_hold_the_separator():
    frame = parse(b'a,name\n1,"x, y"\n', text=["name"])
    assert frame["name"].tolist() == ["x, y"]


@pytest.mark.parametrize("cell", [b"", b"NA", b"nan", b"NaN", b"null", b"?"])
def test_gaps_only_where_they_are_allowed(cell):
    content = b"a,b\n1,2\n3," + cell + b"\n"
    values = parse(content, missing=["b"])["b"].to_numpy()
    assert values[0] == 2
    assert np.isnan(values[1])
    assert refused(content).startswith("t.csv:3:3: column 'b' ")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_survive_exactly(values):
    content = "x\n" + "\n".join(repr(v) for v in values) + "\n"
    assert parse(content.encode())["x"].tolist() == values


GOLDEN = {
    "not a number": (
        b"a,b\n1,2\n3,four\n",
        "t.csv:3:3: column 'b' holds 'four', which is no finite number\n"
        "Fill the gap, drop the row, or declare the column as text.",
    ),
    "empty cell": (
        b"a,b\n,2\n",
        "t.csv:2:1: column 'a' is empty\nFill the gap, drop the row, or declare the column as text.",
    ),
    "nan": (
        b"a,b\n1,nan\n",
        "t.csv:2:3: column 'b' holds 'nan', which is no finite number\n"
        "Fill the gap, drop the row, or declare the column as text.",
    ),
    "infinity": (
        b"a,b\n1,2\n-inf,2\n",
        "t.csv:3:1: column 'a' holds '-inf', which is no finite number\n"
        "Fill the gap, drop the row, or declare the column as text.",
    ),
    "short row": (
        b"a,b,c\n1,2,3\n4,5\n",
        "t.csv:3:4: 2 cells where the other rows have 3\n"
        "Every row needs the same number of cells; quote cells that contain the separator.",
    ),
    "long row": (
        b"a,b\n1,2\n4,5,6\n",
        "t.csv:3:5: 3 cells where the other rows have 2\n"
        "Every row needs the same number of cells; quote cells that contain the separator.",
    ),
    "first row long": (
        b"a,b\n1,2,3\n4,5,6\n",
        "t.csv:2:5: 3 cells where the other rows have 2\n"
        "Every row needs the same number of cells; quote cells that contain the separator.",
    ),
    "duplicated header": (
        b"a,b,a\n1,2,3\n",
        "t.csv:1: the header names 'a' twice (columns 1 and 3)\nRename or drop one of the two columns.",
    ),
    "nameless header": (b"a,,c\n1,2,3\n", "t.csv:1: column 2 of the header has no name\nName every column."),
    "latin-1": (
        b"a,b\n1,2\n3,caf\xe9\n",
        "t.csv:3:6: byte 0xe9 is no UTF-8 text\nSave the file as UTF-8, or decompress it if it is an archive.",
    ),
    "utf-16": (
        "a,b\n1,2\n".encode("utf-16"),
        "t.csv:1:1: byte 0xff is no UTF-8 text\nSave the file as UTF-8, or decompress it if it is an archive.",
    ),
    "header only": (b"a,b\n", "t.csv: no rows below line 1\nCheck that the file was saved completely."),
    "empty": (b"\n \n", "t.csv: no rows\nCheck that the file was saved completely."),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_bad_tables_are_refused_with_their_place(case):
    content, text = GOLDEN[case]
    assert refused(content) == text


def test_bad_cell_in_a_blank_separated_file():
    assert refused(b"1 2\n  3  x\n", delimiter=None, header=False) == (
        "t.csv:2:6: column 2 holds 'x', which is no finite number\n"
        "Fill the gap, drop the row, or declare the column as text."
    )


def test_unknown_column():
    assert refused(TABLE, text=["town"]) == "t.csv: there is no column 'town'\nColumns: a, b, school."


def test_signs():
    assert signs(np.array([0, 1, 1]), "t").tolist() == [-1, 1, 1]
    assert signs(np.array([-1.0, np.nan, 1.0]), "t")[[0, 2]].tolist() == [-1, 1]
    with pytest.raises(DataError, match="must be 0/1 or -1/\\+1, found 1, 2"):
        signs(np.array([1, 2]), "t")


def test_ragged_set_with_a_task_column(own_set):
    content = b"study,g1,g2,pcr,age\nB,1,2,1,x\nA,3,4,0,y\nB,5,6,0,z\n"
    load = own_set.write(
        "csv", {"t.csv": content}, {"target": "pcr", "task": "study", "drop": ["age"]}, "binary", "ragged"
    )
    data = load()
    assert data.tasks == ["B", "A"]
    assert data.task_id.tolist() == [0, 1, 0]
    assert data.features == ["g1", "g2"]
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [1, -1, -1]


def test_several_targets_are_a_shared_set_with_gaps(own_set):
    load = own_set.write("csv", {"t.csv": b"x,u,v\n1,2,\n3,4,5\n"}, {"target": ["u", "v"]}, "regression")
    data = load()
    assert data.tasks == ["u", "v"]
    np.testing.assert_array_equal(data.y, [[2, np.nan], [4, 5]])
    assert data.statistics()["missing"] == 1


def test_named_classes_and_named_positive_label(own_set):
    content = b"x;kind\n1;cat\n2;dog\n3;cat\n"
    data = own_set.write("csv", {"t.csv": content}, {"target": "kind", "delimiter": ";"})()
    assert data.tasks == ["cat", "dog"]
    assert data.y.tolist() == [0, 1, 0]
    options = {"target": "kind", "delimiter": ";", "positive": "dog"}
    assert own_set.write("csv", {"t.csv": content}, options, "binary")().y.tolist() == [-1, 1, -1]


def test_golden_errors_of_a_set(own_set):
    third = own_set.error("csv", {"t.csv": b"x,y\n1,0\n2,1\n3,2\n"}, {"target": "y"}, task_type="binary")
    assert third == "t.csv: column 'y': binary labels must be 0/1 or -1/+1, found 0, 1, 2\nRecode them first."
    named = own_set.error(
        "csv", {"t.csv": b"x,y\n1,a\n2,b\n3,c\n"}, {"target": "y", "positive": "a"}, task_type="binary"
    )
    assert named == (
        "t.csv: column 'y': two labels are needed, 'a' and another, found a, b, c\n"
        "The option 'positive' names the label that means +1."
    )
    absent = own_set.error("csv", {"t.csv": b"x,y\n1,2\n"}, {"target": "z"}, task_type="regression")
    assert absent == "t.csv: there is no column 'z'\nColumns: x, y."
    both = own_set.error(
        "csv", {"t.csv": b"x,y,z\n1,2,3\n"}, {"target": ["y", "z"], "task": "x"}, task_type="regression"
    )
    assert both == "mine.yaml: a task column goes with one target that is binary or a number"


def test_truncated_gzip(own_set):
    packed = gzip.compress(b"x,y\n" + b"1,2\n" * 1000)[:-12]
    text = own_set.error("csv", {"t.csv.gz": packed}, {"target": "y"}, task_type="regression")
    assert text == (
        "t.csv.gz: the file is truncated (the compressed data end too early)\n"
        "Put a good copy in its place; a file that `mtlrun data fetch` downloaded may be deleted and fetched again."
    )


def test_own_table_for_the_breast_cancer_card(tmp_path):
    stand_in = load_dataset("simulated-breast-cancer")
    frame = pd.DataFrame(stand_in.X, columns=stand_in.features)
    frame["pcr"] = (stand_in.y > 0).astype(int)
    frame.insert(0, "study", np.array(stand_in.tasks)[stand_in.task_id])
    (tmp_path / "breast-cancer").mkdir()
    frame.to_csv(tmp_path / "breast-cancer" / "breast_cancer.csv", index=False)
    data = load_dataset("breast-cancer", data_dir=tmp_path)
    expected = load_card("breast-cancer").statistics
    assert {k: data.statistics()[k] for k in expected} == expected == {"n": 474, "d": 60, "tasks": 3}
    assert not data.simulated
    assert data.tasks == stand_in.tasks
    np.testing.assert_array_equal(data.X, stand_in.X)
    np.testing.assert_array_equal(data.y, stand_in.y)
