"""Real-world tables: separators, headers, workbooks, labels, patterns."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from mtlrun.data.reading.named_columns import label_list, matching, target_columns
from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.errors import DataError, UnknownNameError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "hours": RNG.normal(size=40).round(2),
        "school": np.repeat(["north", "south"], 20),
        "level": RNG.choice(["low", "mid", "top"], size=40),
        "y1": RNG.normal(size=40),
        "y2": RNG.normal(size=40),
    }
)


def read(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_table(path)


@pytest.mark.parametrize(
    ("text", "columns", "first"),
    [
        ("a;b;c\n1,5;2;x\n3,25;4;y\n", ["a", "b", "c"], [1.5, 2, "x"]),
        ('a;b\n"1,5";"2,5"\n"3,5";"4"\n', ["a", "b"], [1.5, 2.5]),
        ("1,5;2,5;3,5\n4,5;5;6\n", ["x1", "x2", "x3"], [1.5, 2.5, 3.5]),
        (
            "yield, t/ha;rain, mm;site\n1,5;2;x\n2;3,5;y\n",
            ["yield, t/ha", "rain, mm", "site"],
            [1.5, 2, "x"],
        ),
        ('a,"b;c;d;e",f\n1,2,3\n4,5,6\n', ["a", "b;c;d;e", "f"], [1, 2, 3]),
        ("a\tb\n1,5\t2\n3\t4\n", ["a", "b"], [1.5, 2]),
        ("alone\n1\n2\n", ["alone"], [1]),
    ],
)
def test_separators_and_decimal_commas_are_recognized(tmp_path, text, columns, first):
    table = read(tmp_path, text)
    assert table.columns == columns
    assert table.frame.iloc[0].tolist() == first


def test_line_breaks_in_quoted_names_become_blanks_and_line_numbers_stay_correct(
    tmp_path,
):
    table = read(tmp_path, 'hours,"grade\n (points)","of\r\nall"\n1,2,3\n4,5,six\n')
    assert table.columns == ["hours", "grade (points)", "of all"]
    assert table.frame.shape == (2, 3)
    assert table.where(1).endswith("t.csv:5")
    assert table_of_frame(pd.DataFrame({"a\nb": [1]})).columns == ["a b"]


def test_an_open_quote_does_not_consume_the_table(tmp_path):
    assert read(tmp_path, 'size 5",b\n1,2\n3,4\n').columns == ['size 5"', "b"]


def test_a_workbook_matches_the_csv_of_its_first_sheet(tmp_path):
    pytest.importorskip("openpyxl")
    frame = FRAME.assign(hours=[None, *FRAME.hours[1:]])
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame.to_excel(book, sheet_name="one", index=False)
        pd.DataFrame({"other": [1]}).to_excel(book, sheet_name="two", index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    actual, expected = read_table(tmp_path / "t.xlsx"), read_table(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(actual.frame, expected.frame, check_dtype=False)
    assert actual.where(0).endswith("t.xlsx:2")


def test_an_invalid_workbook_and_a_missing_package_are_reported(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    with pytest.raises(DataError, match=r"t\.xlsx: not a readable \.xlsx"):
        read_table(tmp_path / "t.xlsx")
    (tmp_path / "t.xls").write_bytes(b"old")
    with pytest.raises(DataError, match=r"(?s)t\.xls: unknown format.*\.xlsx or \.csv"):
        read_table(tmp_path / "t.xls")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"(?s)needs openpyxl.*\.\[excel\]"):
        read_table(tmp_path / "t.xlsx")


def test_several_labels_per_svmlight_row_are_targets(tmp_path):
    X, Y = (
        sparse.random(30, 6, 0.5, format="csr", random_state=0),
        (RNG.random((30, 3)) < 0.5).astype(int),
    )
    Y[0] = 0  # A row without labels
    for name, zero in (("zero.svm", True), ("one.svm", False)):
        dump_svmlight_file(
            X,
            sparse.csr_matrix(Y),
            str(tmp_path / name),
            zero_based=zero,
            multilabel=True,
        )
        table = read_table(tmp_path / name)
        data = make_dataset(table, Roles())
        np.testing.assert_array_equal(data.y, 2 * Y - 1)
        np.testing.assert_allclose(data.X.toarray(), X.toarray())
        assert (data.tasks, data.task_type) == (
            ["label 0", "label 1", "label 2"],
            "binary",
        )
        assert data.features[0] == ("x0" if zero else "x1")
    # Test rows without some labels and without the first column have the columns of the
    # training rows.
    path = tmp_path / "test.svm"
    path.write_text("1,2 3:0.5\n")
    rows = read_table(path, like=read_table(tmp_path / "zero.svm"))
    assert rows.sparse.toarray().tolist() == [[0, 0, 0, 0.5, 0, 0]]


def test_targets_are_given_by_pattern_position_or_list_of_labels(tmp_path):
    table = table_of_frame(FRAME)
    assert target_columns(table, targets="y*") == ("y1", "y2")
    assert target_columns(table, targets=["y?", "level"]) == ("y1", "y2", "level")
    assert target_columns(table, last=2) == ("y1", "y2")
    assert target_columns(table, "y1") == ("y1",)
    assert target_columns(table) == ()
    assert matching(
        ["a*", "a*"], table_of_frame(pd.DataFrame({"a*": [1], "ab": [2]}))
    ) == ("a*",)
    with pytest.raises(UnknownNameError, match=r"z\*"):
        target_columns(table, targets="z*")
    for wrong in (0, -1, 5, 9):
        with pytest.raises(DataError, match="--targets-last"):
            target_columns(table, last=wrong)
    with pytest.raises(DataError, match="more than once"):
        target_columns(table, "y1", last=2)


def test_a_mulan_pair_is_given_as_one_argument_or_two(tmp_path):
    (tmp_path / "t.arff").write_text(
        "@relation t\n@attribute a numeric\n@attribute b {0,1}\n@data\n1,0\n2,1\n"
    )
    (tmp_path / "t.xml").write_text('<labels><label name="b"/></labels>')
    arff, xml = tmp_path / "t.arff", tmp_path / "t.xml"
    for data in (arff, str(arff), [arff], [arff, xml], (str(xml), str(arff))):
        table, labels = label_list(data, None, other=False)
        assert (str(table), labels) == (str(arff), xml)
        assert target_columns(read_table(table), labels=labels) == ("b",)
    assert label_list(arff, None, other=True) == (arff, None)
    assert label_list(tmp_path / "t.arff.gz", None, other=False)[1] == xml
    for data, labels in (
        ([arff, arff], None),
        ([xml], None),
        ([arff, xml, xml], None),
        ([arff, xml], xml),
    ):
        with pytest.raises(DataError, match="one table"):
            label_list(data, labels, other=False)


def test_classes_of_ragged_tasks_are_tasks_with_separate_rows():
    frame = FRAME.assign(
        level=np.where(
            (FRAME.school == "north") & (FRAME.level == "top"), "mid", FRAME.level
        )
    )
    data = make_dataset(
        table_of_frame(frame),
        Roles(targets=("level",), task="school", drop=("y1", "y2")),
    )
    assert data.labels == {"north": ["low", "mid"], "south": ["low", "mid", "top"]}
    assert data.tasks == ["north=mid", "south=low", "south=mid", "south=top"]
    assert (data.task_type, data.task_id, data.targets) == ("binary", None, ["level"])
    for task, column in zip(data.tasks, data.y.T, strict=True):
        school, level = task.split("=")
        mine = (frame.school == school).to_numpy()
        np.testing.assert_array_equal(
            column[mine], np.where(frame.level[mine] == level, 1, -1)
        )
        assert np.isnan(column[~mine]).all()


def test_classes_beside_two_labels_and_a_task_with_a_single_class_are_handled():
    frame = FRAME.assign(passed=np.where(FRAME.y1 > 0, "yes", "no"))
    data = make_dataset(
        table_of_frame(frame),
        Roles(targets=("level", "passed"), drop=("y1", "y2", "school")),
    )
    assert data.tasks == ["level=low", "level=mid", "level=top", "passed"]
    assert data.labels == {"level": ["low", "mid", "top"], "passed": ["no", "yes"]}
    np.testing.assert_array_equal(data.y[:, 3], np.where(frame.passed == "yes", 1, -1))
    third = pd.concat(
        [FRAME, FRAME[:5].assign(school="west", level="low")], ignore_index=True
    )
    dataset = make_dataset(
        table_of_frame(third),
        Roles(targets=("level",), task="school", drop=("y1", "y2")),
    )
    assert len(dataset.y) == 40
    assert "left out: west" in dataset.notes


@pytest.mark.parametrize(
    ("column", "values", "role", "words"),
    [
        (
            "rate",
            ["12%", "15%", "9%", "11%"],
            "feature",
            ["'rate'", "'12%'", "--categorical rate", "--drop rate"],
        ),
        ("price", ["$1,200.50", "$3", "$4"], "feature", ["'price'", "numbers as text"]),
        ("grade", ["1,5", "2,25", "3,5"], "target", ["'grade'", "'1,5'", "1.5"]),
        (
            "remark",
            [f"remark {k}" for k in range(40)],
            "target",
            ["'remark'", "40 different texts", "no categories"],
        ),
        (
            "name",
            [f"name {k}" for k in range(40)],
            "only",
            ["no column is left", "name"],
        ),
    ],
)
def test_a_text_column_that_is_not_a_category_is_reported_with_the_remedy(
    column, values, role, words
):
    frame = FRAME.drop(columns=["level", "y2"]).assign(
        **{column: np.resize(values, 40)}
    )
    if role == "only":
        frame = pd.concat([frame.drop(columns="hours")] * 2, ignore_index=True)
        frame[column] = [f"name {k}" for k in range(80)]
    roles = Roles(
        targets=(column if role == "target" else "y1",),
        task="school",
        drop=("y1",) if role == "target" else (),
    )
    with pytest.raises(DataError) as caught:
        make_dataset(table_of_frame(frame), roles)
    for part in words:
        assert part in str(caught.value)


def test_dates_and_versions_are_not_numbers_written_as_text():
    frame = FRAME.assign(
        day=[f"{k % 28 + 1:02d}.03.2020" for k in range(40)],
        part=np.resize(["1.2.3", "1.2.4", "2.0.0"], 40),
    )
    data = make_dataset(
        table_of_frame(frame), Roles(targets=("y1",), task="school", drop=("y2",))
    )
    assert {"day", "part", "level"} == set(data.categories)


@pytest.mark.slow
def test_messages_list_only_a_few_of_very_many_columns():
    names = [f"gene {k}" for k in range(1185)]
    wide = pd.DataFrame(RNG.normal(size=(8, 1185)), columns=names)
    table = table_of_frame(wide.assign(school=np.repeat(["a", "b"], 4)))
    with pytest.raises(UnknownNameError) as caught:
        make_dataset(table, Roles(targets=("weight of the leaves",), task="school"))
    assert len(str(caught.value)) < 400
    assert "more" in str(caught.value)
    with pytest.raises(DataError) as caught:
        table.stacked(table_of_frame(wide[names[:2]]), table.columns)
    assert len(str(caught.value)) < 400
    gone = pd.DataFrame(np.nan, index=range(8), columns=names[2:])
    frame = pd.concat([wide[names[:2]], gone, table.frame["school"]], axis=1)
    notes = make_dataset(
        table_of_frame(frame), Roles(targets=("gene 0",), task="school")
    ).notes
    assert "gene 6 and 1178 more" in notes


#: Names of columns that are numbers: years, wavelengths, positions.
NUMBER_HEADERS = [
    [2019, 2020],
    [2003, 2002, 2001],
    [1990, 1995, 2000, 2010, 2020],
    [400, 402, 404, 406, 408],
    [0, 1, 2],
]


@pytest.mark.parametrize("header", NUMBER_HEADERS)
@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_first_row_of_years_names_the_columns(tmp_path, header, suffix):
    values = np.random.default_rng(0).normal(size=(40, len(header))).round(6)
    frame = pd.DataFrame(values, columns=header)
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    table = read_table(path)
    assert table.columns == list(map(str, header))
    np.testing.assert_array_equal(table.numbers(table.columns), values)
    assert any(", ".join(table.columns) in note for note in table.notes)


@pytest.mark.parametrize(
    "rows",
    [
        ["2001,2005", "1999,2004", "2005,2010"],
        ["1,2,3", "4,2,1", "5,5,5"],
        ["2001,1999", "1.5,2", "2001,2000"],
        ["1,2,3,4,5", "2,3,4,5,6", "1,1,1,1,1"],
        ["2001.5,2002.5", "1,2", "3,4"],
    ],
)
def test_a_first_row_like_other_rows_is_data(tmp_path, rows):
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    table = read_table(tmp_path / "t.csv")
    assert len(table.frame) == len(rows)
    assert table.columns[0] == "x1"


def test_new_rows_have_a_header_of_numbers_if_the_model_knows_them(tmp_path):
    (tmp_path / "t.csv").write_text("3,7\n1.5,2.5\n")
    by_name = Schema(2, ("7", "3"), table=True)
    np.testing.assert_array_equal(
        read_rows(tmp_path / "t.csv", by_name).X, [[2.5, 1.5]]
    )
    (tmp_path / "t.csv").write_text("2001,2002\n1.5,2.5\n")
    by_position = Schema(2, ("x1", "x2"), table=True)
    assert len(read_rows(tmp_path / "t.csv", by_position).X) == 2


@pytest.mark.parametrize("container", ["frame", "csv", "parquet"])
def test_a_blank_row_is_rejected_as_such(tmp_path, container):
    blank = FRAME.copy()
    blank.loc[5] = np.nan
    source = blank
    if container != "frame":
        source = tmp_path / f"t.{container}"
    if container == "csv":
        blank.to_csv(source, index=False)
    if container == "parquet":
        blank.to_parquet(source)
    with pytest.raises(DataError, match=r"all cells of the row are empty\n.*dropna"):
        make_dataset(read_table(source), Roles(targets=("y1",), task="school"))


def test_tasks_that_look_like_encoded_targets_are_noted():
    encoded = FRAME.assign(school=FRAME.groupby("school").y1.transform("mean"))
    roles = Roles(targets=("y1",), task="school")
    assert "target encoding" in make_dataset(table_of_frame(encoded), roles).notes
    ranks = FRAME.assign(school=encoded.school.rank(method="dense"))
    tenths = FRAME.assign(school=np.float32(ranks.school / 10))
    for frame in (FRAME, ranks, tenths):
        assert "target encoding" not in make_dataset(table_of_frame(frame), roles).notes


def test_a_folder_of_partitions_is_rejected_with_the_remedy(tmp_path):
    (tmp_path / "parts" / "school=01").mkdir(parents=True)
    with pytest.raises(DataError, match=r"is a folder\n.*read_parquet.*01"):
        read_table(tmp_path / "parts")


def test_categories_of_integers_remain_categories_in_a_parquet_file(tmp_path):
    """Parquet stores their integers; pandas describes them as categories."""
    frame = FRAME.assign(hours=pd.Categorical(np.arange(40) % 3 * 10))
    frame.to_parquet(tmp_path / "t.parquet")
    roles = Roles(targets=("y1",), task="school", drop=("y2",))
    for source in (frame, tmp_path / "t.parquet"):
        data = make_dataset(read_table(source), roles)
        assert data.categories["hours"] == ["0", "10", "20"]


def test_objects_that_are_integers_with_gaps_are_numbers():
    objects = pd.Series([None, *range(1, 40)], dtype=object)
    data = make_dataset(
        table_of_frame(FRAME.assign(hours=objects)),
        Roles(targets=("y1",), task="school", keep=("hours",)),
    )
    assert "hours" not in data.categories
    hours = data.X[:, data.features.index("hours")]
    np.testing.assert_array_equal(hours, [np.nan, *range(1, 40)])
