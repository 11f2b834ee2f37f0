"""New rows in every format get the order of the model's features, or are rejected."""

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from all_cases import all_cases

from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.errors import DataError

NAMED = Schema(2, ("width", "height"), task_column="task")
PLAIN = Schema(2)
EXPECTED = np.array([[1.0, 10.0], [2.0, 20.5]])


def _write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "height,task,width,comment\n10,b,1,fine\n20.5,a,2,\n"),
        ("a.txt", "width;height;task\n1;10;b\n2;20.5;a\n"),
        ("a.tsv", "task\twidth\theight\nb\t1\t10\na\t2\t20.5\n"),
        (
            "a.arff",
            "@relation r\n@attribute height numeric\n@attribute task {a,b}\n"
            "@attribute width numeric\n@data\n10,b,1\n20.5,a,2\n",
        ),
    ],
)
def test_columns_are_found_by_name(tmp_path, name, content):
    rows = read_rows(_write(tmp_path / name, content), NAMED)
    np.testing.assert_array_equal(rows.X, EXPECTED)
    assert rows.tasks == ["b", "a"]
    assert rows.ignored == (["comment"] if "comment" in content else [])


def test_unnamed_columns_are_taken_in_order(tmp_path):
    for name, content in [
        ("a.csv", "1,10\n2,20.5\n"),
        ("b.txt", "1 10\n2   20.5\n"),
        ("c.csv", "p,q\n1,10\n2,20.5\n"),
    ]:
        rows = read_rows(_write(tmp_path / name, content), PLAIN)
        np.testing.assert_array_equal(rows.X, EXPECTED)
        assert rows.tasks is None


def test_a_compressed_table_is_read(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,10\n2,20.5\n"))
    np.testing.assert_array_equal(read_rows(path, PLAIN).X, EXPECTED)
    path.write_bytes(gzip.compress(b"1,10\n2,20.5\n")[:-6])
    with pytest.raises(DataError, match="truncated"):
        read_rows(path, PLAIN)


def test_numpy_archives_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", X=EXPECTED, task_id=[1.0, 0.0])
    rows = read_rows(tmp_path / "a.npz", PLAIN)
    np.testing.assert_array_equal(rows.X, EXPECTED)
    assert rows.tasks == ["1", "0"]
    sp.save_npz(tmp_path / "b.npz", sp.csr_matrix(EXPECTED))
    np.testing.assert_array_equal(
        read_rows(tmp_path / "b.npz", PLAIN).X.toarray(), EXPECTED
    )


def test_matlab_cells_are_tasks(tmp_path):
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = EXPECTED[:1], EXPECTED[[1, 0]]
    scipy.io.savemat(tmp_path / "a.mat", {"X": cells})
    rows = read_rows(tmp_path / "a.mat", PLAIN)
    np.testing.assert_array_equal(rows.X, EXPECTED[[0, 1, 0]])
    np.testing.assert_array_equal(rows.tasks, [0, 1, 1])
    scipy.io.savemat(tmp_path / "b.mat", {"X": EXPECTED})
    np.testing.assert_array_equal(read_rows(tmp_path / "b.mat", PLAIN).X, EXPECTED)


def test_svmlight_rows_have_the_width_of_the_model(tmp_path):
    rows = read_rows(_write(tmp_path / "a.svm", "0 1:1\n0 1:2\n"), PLAIN)
    np.testing.assert_array_equal(rows.X.toarray(), [[1, 0], [2, 0]])


def test_sequences_are_read(tmp_path):
    wanted = Schema(4, strings=True, task_column="task")
    fasta = read_rows(_write(tmp_path / "a.fa", ">1\nACGT\n>2\nTTTT\n"), wanted)
    assert fasta.X.tolist() == [b"ACGT", b"TTTT"]
    table = read_rows(
        _write(tmp_path / "a.csv", "id,sequence,task\n1,acgt,worm\n2,TTTT,fly\n"),
        wanted,
    )
    assert table.X.tolist() == [b"ACGT", b"TTTT"]
    assert table.tasks == ["worm", "fly"]
    assert table.ignored == ["id"]


@all_cases(
    ("name", "content", "wanted", "text"),
    [
        (
            "a.csv",
            "width,task\n1,a\n",
            NAMED,
            "1 of the model's features are missing: height",
        ),
        ("a.csv", "1,2,3\n", PLAIN, "3 columns, the model has 2 features"),
        (
            "a.csv",
            "p,q,task\n1,2,a\n",
            Schema(3, task_column="task"),
            "2 columns besides the task column 'task'",
        ),
        ("a.csv", "width,height\n1,x\n", NAMED, "a.csv:2: "),
        ("a.csv", "", PLAIN, "no rows"),
        ("a.xls", "", PLAIN, "unknown format"),
        ("a.fa", ">1\nACGT\n", PLAIN, "1 column, the model has 2 features"),
        (
            "a.svm",
            "0 1:1\n",
            Schema(4, strings=True),
            "fitted on sequences, the file contains numbers",
        ),
        (
            "a.fa",
            ">1\nACGT\n",
            Schema(5, strings=True),
            "4 letters per sequence, the model has 5",
        ),
        (
            "a.csv",
            "sequence\nAC\nACG\n",
            Schema(2, strings=True),
            "sequences of 2 to 3 letters",
        ),
        ("a.npz", "no archive", PLAIN, "not an .npz archive"),
    ],
)
def test_rows_that_do_not_match_the_model_are_rejected(
    tmp_path, name, content, wanted, text
):
    with pytest.raises(DataError) as caught:
        read_rows(_write(tmp_path / name, content), wanted)
    assert text in caught.value.message


def test_invalid_files_and_arrays_are_rejected(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_rows(tmp_path / "absent.csv", PLAIN)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_rows(tmp_path / "folder.csv", PLAIN)
    for arrays, text in [
        ({"Z": EXPECTED}, "no array 'X'"),
        ({"X": EXPECTED[0]}, "must be a numeric matrix"),
        ({"X": EXPECTED * np.nan}, "contains no value"),
        ({"X": EXPECTED, "task_id": [1]}, "task_id has shape"),
        ({"X": np.array([[object()]])}, "plain arrays"),
    ]:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(DataError, match=text):
            read_rows(tmp_path / "a.npz", PLAIN)
