"""Text tables: detected formats, exact values, and errors with line numbers."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from all_cases import all_cases
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.data.dataset import signs
from mtlrun.data.reading.files import DataFile
from mtlrun.data.reading.formats.text import text_table
from mtlrun.data.reading.table import Table
from mtlrun.data.sets.cards import load_card
from mtlrun.data.sets.load import load_dataset
from mtlrun.errors import DataError, UserError

TABLE = b"a,b,school\n1,2.5,north\n-3,4e1,south\n"


@pytest.fixture
def parse(tmp_path):
    def parsed(content: bytes, **options) -> Table:
        path = tmp_path / "t.csv"
        path.write_bytes(content)
        return text_table(DataFile("t.csv", path, "plain"), **options)

    return parsed


@pytest.fixture
def refused(parse, tmp_path):
    """Return the message of the error raised for the table, or for its numbers except
    columns named `word`.
    """

    def message(content: bytes, **options) -> str:
        def read() -> None:
            table = parse(content, **options)
            table.numbers([name for name in table.columns if name != "word"])

        with pytest.raises(UserError) as caught:
            read()
        return str(caught.value).replace(f"{tmp_path}/", "")

    return message


def test_numbers_words_and_exact_texts_are_read(parse):
    table = parse(TABLE)
    assert table.columns == ["a", "b", "school"]
    assert table.named
    assert table.numbers(["a", "b"]).tolist() == [[1.0, 2.5], [-3.0, 40.0]]
    assert table.frame["school"].tolist() == ["north", "south"]
    assert parse(b"a,b\n01,NA\n2, x \n", text=[0, -1]).frame.to_numpy().tolist() == [
        ["01", "NA"],
        ["2", "x"],
    ]


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_byte_order_mark_and_any_line_ends_are_accepted(parse, prefix, end):
    table = parse(prefix + TABLE.replace(b"\n", end))
    assert table.frame.shape == (2, 3)
    assert table.columns[0] == "a"
    assert table.frame["school"].tolist() == ["north", "south"]


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", "   "])
def test_separators_are_detected(parse, separator):
    rows = [["a", "b", "c"], ["1", "2.5", "x"], ["3", "4", "y"]]
    table = parse("\n".join(separator.join(row) for row in rows).encode())
    assert table.columns == ["a", "b", "c"]
    assert table.numbers(["a", "b"]).tolist() == [[1, 2.5], [3, 4]]


def test_decimal_commas_are_detected_if_commas_do_not_separate(parse, refused):
    table = parse(b"a;b;c\n1,5;-2,25;x,1\n3;0,1e2;y\n")
    assert table.numbers(["a", "b"]).tolist() == [[1.5, -2.25], [3.0, 10.0]]
    assert table.frame["c"].tolist() == ["x,1", "y"]
    mixed = b"a;b\n1,5;2.5\n"
    assert refused(mixed).startswith(
        "t.csv:2: column 'a' contains '1,5', which is not a finite number"
    )


def test_headers_are_detected(parse):
    numbers = parse(b"1,10\n2,20.5\n")
    assert (numbers.columns, numbers.named) == (["x1", "x2"], False)
    assert len(numbers.frame) == 2
    for names in (b"p,10", b'"1","10"'):
        assert parse(names + b"\n1,2\n").named
    assert parse(b"0,1,2\n3,4,5\n").columns == ["0", "1", "2"]
    assert parse(b"2001,2002\n3,4\n", header=True).columns == ["2001", "2002"]


def test_blank_separated_tables_without_header_are_read(parse):
    table = parse(b"  1   2 van \n\n3 4 bus\n", delimiter=None, header=False, text=[-1])
    assert table.numbers(["x1", "x2"]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.frame["x3"].tolist() == ["van", "bus"]


def test_lines_before_the_table_are_skipped(parse):
    assert parse(b";;; made by hand\n\nx,y\n1,2\n", skip=1).numbers(
        ["x", "y"]
    ).tolist() == [[1.0, 2.0]]


def test_quoted_cells_may_contain_the_separator_and_line_breaks(parse, refused):
    assert parse(b'a,name\n1,"x, y"\n').frame["name"].tolist() == ["x, y"]
    assert refused(b'a,word\n1,"x\ny"\nz,w\n').startswith(
        "t.csv:4: column 'a' contains 'z'"
    )


@pytest.mark.parametrize("cell", [b"", b"NA", b"nan", b"NaN", b"null", b"?"])
def test_missing_values_are_accepted_only_if_allowed(parse, refused, cell):
    content = b"a,b\n1,2\n3," + cell + b"\n"
    values = parse(content).numbers(["b"], gaps=True)[:, 0]
    assert values[0] == 2
    assert np.isnan(values[1])
    assert refused(content).startswith(
        "t.csv:3: column 'b' contains no value here\nFix the cell"
    )


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)
)
def test_numbers_are_read_exactly(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("exact") / "t.csv"
    path.write_text("x\n" + "\n".join(repr(v) for v in values) + "\n")
    assert (
        text_table(DataFile("t.csv", path, "plain")).numbers(["x"])[:, 0].tolist()
        == values
    )


EQUAL = (
    "Every row needs the same number of cells; quote cells that contain the separator."
)
WORDS = {
    "not a number": (
        b"a,b\n1,2\n3,four\n",
        "t.csv:3: column 'b' contains 'four', which is not a finite number\nFix",
    ),
    "other digits": (
        "a,b\n1,2\n3,٣\n".encode(),
        "t.csv:3: column 'b' contains '٣', which is not a finite number\nFix",
    ),
    "infinity": (
        b"a,b\n1,2\n-inf,2\n",
        "t.csv:3: column 'a' contains '-inf', which is not a finite number\n"
        "Fix the cell",
    ),
    "short row": (
        b"a,b,c\n1,2,3\n4,5\n",
        f"t.csv:3: 2 cells where the first line has 3\n{EQUAL}",
    ),
    "long row": (
        b"a,b\n1,2\n4,5,6\n",
        f"t.csv:3: 3 cells where the first line has 2\n{EQUAL}",
    ),
    "first row long": (
        b"a,b\n1,2,3\n4,5,6\n",
        f"t.csv:2: 3 cells where the first line has 2\n{EQUAL}",
    ),
    "repeated name": (
        b"a,b,a\n1,2,3\n",
        "t.csv:1: the header contains 'a' twice (columns 1 and 3)\nRename or drop",
    ),
    "nameless header": (
        b"a,,c\n1,2,3\n",
        "t.csv:1: column 2 of the header has no name\nName every column.",
    ),
    "latin-1": (
        b"a,b\n1,2\n3,caf\xe9\n",
        "t.csv:3:6: byte 0xe9 is not UTF-8 text\nSave the file as UTF-8",
    ),
    "utf-16": (
        "a,b\n1,2\n".encode("utf-16"),
        "t.csv:1:1: byte 0xff is not UTF-8 text\nSave the file as UTF-8",
    ),
    "header only": (
        b"a,b\n",
        "t.csv: no rows below the header\nCheck that the file was saved completely.",
    ),
    "empty": (b"\n \n", "t.csv: no rows\nCheck that the file was saved completely."),
}


@all_cases("case", WORDS)
def test_errors_in_tables_are_located(refused, case):
    content, text = WORDS[case]
    assert refused(content).startswith(text)


def test_an_invalid_cell_in_a_blank_separated_file_is_located(refused):
    assert refused(b"1 2\n  3  x\n", delimiter=None, header=False).startswith(
        "t.csv:2: column 'x2' contains 'x'"
    )


def test_an_unknown_column_is_reported(refused):
    assert refused(TABLE, text=[-4]) == "t.csv: 3 columns, but column -4 is asked for"


def test_signs_are_read():
    assert signs(np.array([0, 1, 1]), "t").tolist() == [-1, 1, 1]
    assert signs(np.array([-1.0, np.nan, 1.0]), "t")[[0, 2]].tolist() == [-1, 1]
    with pytest.raises(DataError, match="must be 0/1 or -1/\\+1, found 1, 2"):
        signs(np.array([1, 2]), "t")


def test_a_ragged_set_has_a_task_column(own_set):
    content = b"study,g1,g2,pcr,age\nB,1,2,1,x\nA,3,4,0,y\nB,5,6,0,z\n"
    load = own_set.write(
        "csv",
        {"t.csv": content},
        {"target": "pcr", "task": "study", "drop": ["age"]},
        "binary",
        "ragged",
    )
    data = load()
    assert data.tasks == ["A", "B"]
    assert data.task_id.tolist() == [1, 0, 1]
    assert data.features == ["g1", "g2"]
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [1, -1, -1]


def test_several_targets_are_a_shared_set_with_missing_values(own_set):
    load = own_set.write(
        "csv",
        {"t.csv": b"x,u,v\n1,2,\n3,4,5\n4,1,2\n"},
        {"target": ["u", "v"]},
        "regression",
    )
    data = load()
    assert data.tasks == ["u", "v"]
    np.testing.assert_array_equal(data.y, [[2, np.nan], [4, 5], [1, 2]])
    assert data.statistics()["missing"] == 1


def test_classes_are_tasks_and_the_positive_label_may_be_named(own_set):
    content = b"x;kind;pen\n1;cat;1\n2;dog;1\n3;cow;2\n4;dog;2\n"
    options = {"target": "kind", "delimiter": ";"}
    assert own_set.write("csv", {"t.csv": content}, options)().tasks == [
        "cat",
        "cow",
        "dog",
    ]
    options |= {"positive": "dog", "task": "pen"}
    assert own_set.write("csv", {"t.csv": content}, options, "binary")().y.tolist() == [
        -1,
        1,
        -1,
        1,
    ]


@pytest.mark.parametrize(
    ("content", "options", "task_type", "words"),
    [
        (
            b"x,t,y\n1,a,0\n2,a,1\n3,b,2\n",
            {"target": "y", "task": "t"},
            "binary",
            ["'y'", "3 values"],
        ),
        (
            b"x,t,y\n1,a,0\n2,a,1\n",
            {"target": "y", "task": "t", "positive": "z"},
            "binary",
            ["label of y", "'z'"],
        ),
        (
            b"x,y\n1,2\n",
            {"target": "z"},
            "regression",
            ["t.csv has no column 'z'", "x, y"],
        ),
        (
            b"x,y,z\n1,2,3\n",
            {"target": ["y", "z"], "task": "x"},
            "regression",
            ["task column", "single target"],
        ),
        (b"x,y\n1,2\n2,3\n", {"target": "y"}, "regression", ["a single task", "'y'"]),
        (
            b"x,y,z\n1,2,4\nred,3,5\n",
            {"target": ["y", "z"]},
            "regression",
            ["t.csv:3", "'x'", "'red'"],
        ),
    ],
)
def test_errors_of_a_set_are_located(
    own_set, lacking, content, options, task_type, words
):
    assert not lacking(
        own_set.error("csv", {"t.csv": content}, options, task_type=task_type), *words
    )


def test_a_truncated_gzip_file_is_rejected(own_set):
    packed = gzip.compress(b"x,y\n" + b"1,2\n" * 1000)[:-12]
    text = own_set.error(
        "csv", {"t.csv.gz": packed}, {"target": "y"}, task_type="regression"
    )
    assert text == (
        "t.csv.gz: the file is truncated (the compressed data end too early)\n"
        "Put a good copy in its place; a file that `mtlrun data fetch` downloaded may "
        "be deleted and fetched again."
    )


def test_a_table_of_the_user_fits_the_breast_cancer_card(tmp_path):
    stand_in = load_dataset("simulated-breast-cancer")
    frame = pd.DataFrame(stand_in.X, columns=stand_in.features)
    frame["pcr"] = (stand_in.y > 0).astype(int)
    frame.insert(0, "study", np.array(stand_in.tasks)[stand_in.task_id])
    (tmp_path / "breast-cancer").mkdir()
    frame.to_csv(tmp_path / "breast-cancer" / "breast_cancer.csv", index=False)
    data = load_dataset("breast-cancer", data_dir=tmp_path)
    expected = load_card("breast-cancer").statistics
    assert (
        {k: data.statistics()[k] for k in expected}
        == expected
        == {"n": 474, "d": 60, "tasks": 3}
    )
    assert not data.simulated
    assert data.tasks == stand_in.tasks
    np.testing.assert_array_equal(data.X, stand_in.X)
    np.testing.assert_array_equal(data.y, stand_in.y)


def test_a_first_row_of_thousands_of_cells_is_rejected_before_parsing(
    tmp_path, monkeypatch
):
    (tmp_path / "t.csv").write_text("a,b\n" + ",".join(["1"] * 5000) + "\n1,2\n")
    monkeypatch.setattr(
        pd,
        "read_csv",
        lambda *_, **__: pytest.fail("parsed with an index of 4998 columns"),
    )
    with pytest.raises(DataError, match=r"t\.csv:2"):
        text_table(DataFile("t.csv", tmp_path / "t.csv", "plain"))
