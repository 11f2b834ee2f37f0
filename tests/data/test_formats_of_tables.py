"""The same rows in every format: as data sets with the targets and tasks of the format,
and as new rows.
"""

import gzip

import numpy as np
import pandas as pd
import pytest
from all_cases import all_cases
from scipy import sparse
from scipy.io import savemat

from mtlrun.data.reading.read import read_table
from mtlrun.data.reading.table import table_of_frame
from mtlrun.data.roles.make import make_dataset
from mtlrun.data.roles.roles import Roles
from mtlrun.data.roles.schema import Schema, read_rows
from mtlrun.errors import DataError, UserError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)).round(2)
Y = RNG.normal(size=(12, 2)).round(2)
SIGNS = np.where(RNG.permutation(24).reshape(12, 2) % 2, 1, -1)
TASKS = np.repeat([2, 1, 5], 4)


def dataset(path, *targets, **roles):
    return make_dataset(read_table(path), Roles(targets=targets, **roles))


def cells(*arrays):
    column = np.empty(len(arrays), dtype=object)
    column[:] = arrays
    return column


# --- MATLAB


@pytest.mark.parametrize(("x", "y"), [("X", "Y"), ("feature", "label")])
def test_matrices_in_matlab_files_are_features_and_targets(tmp_path, x, y):
    savemat(tmp_path / "t.mat", {x: X, y: Y, "other": np.ones((2, 2))})
    data = dataset(tmp_path / "t.mat")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.features == ["x1", "x2", "x3"]
    assert data.tasks == data.targets
    assert len(set(data.tasks)) == 2


def test_the_complete_pair_is_read_and_features_alone_are_new_rows(tmp_path):
    savemat(tmp_path / "t.mat", {"X": X + 1, "feature": X, "label": Y})
    np.testing.assert_array_equal(dataset(tmp_path / "t.mat").X, X)
    savemat(tmp_path / "u.mat", {"feature": X})
    np.testing.assert_array_equal(read_rows(tmp_path / "u.mat", Schema(3)).X, X)
    by_place = read_rows(tmp_path / "u.mat", Schema(3, ("a", "b", "c"), table=True))
    np.testing.assert_array_equal(by_place.X, X)
    savemat(tmp_path / "v.mat", {"X": X, "feature": X + 1})
    np.testing.assert_array_equal(read_rows(tmp_path / "v.mat", Schema(3)).X, X)
    with pytest.raises(DataError, match="no target"):
        dataset(tmp_path / "v.mat")


def test_cells_in_matlab_files_are_tasks(tmp_path):
    parts = [X[:4], X[4:8], X[8:]]
    savemat(
        tmp_path / "t.mat",
        {"X": cells(*parts), "Y": cells(*(Y[k : k + 4, :1] for k in (0, 4, 8)))},
    )
    data = dataset(tmp_path / "t.mat")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y[:, 0])
    assert (data.tasks, data.features) == (["1", "2", "3"], ["x1", "x2", "x3"])
    np.testing.assert_array_equal(data.task_id, np.repeat([0, 1, 2], 4))
    savemat(tmp_path / "u.mat", {"X": cells(*parts)})
    rows = read_rows(tmp_path / "u.mat", Schema(3))
    np.testing.assert_array_equal(rows.tasks, data.task_id)
    with pytest.raises(DataError, match="no target"):
        dataset(tmp_path / "u.mat")


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1), (3, 1, 4)])
def test_equal_tasks_that_savemat_has_stacked_are_tasks(tmp_path, shape):
    """It turns a list of equal arrays into one array, other lists into cells."""
    y = Y[:, 0].reshape(shape)
    savemat(tmp_path / "t.mat", {"X": list(X.reshape(3, 4, 3)), "Y": list(y)})
    data = dataset(tmp_path / "t.mat")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y[:, 0])
    np.testing.assert_array_equal(data.task_id, np.repeat([0, 1, 2], 4))
    assert "3 tasks of 4 rows and 3 features" in data.notes


def test_cells_beside_stacked_tasks_are_tasks(tmp_path):
    parts = X.reshape(3, 4, 3)
    for features, targets in (
        (cells(*parts), Y[:, 0].reshape(3, 4)),
        (parts, cells(*Y[:, 0].reshape(3, 4))),
    ):
        savemat(tmp_path / "t.mat", {"X": features, "Y": targets})
        data = dataset(tmp_path / "t.mat")
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, Y[:, 0])


def test_tasks_along_the_last_dimension_are_rejected(tmp_path):
    parts = X.reshape(3, 4, 3)[:, :, :2]
    y = Y[:, 0].reshape(3, 4)
    savemat(tmp_path / "t.mat", {"X": np.stack(parts, axis=2), "Y": y.T})
    with pytest.raises(DataError, match="task 1 has 2 rows in X, 3 in Y"):
        dataset(tmp_path / "t.mat")


@pytest.mark.parametrize("ragged", [False, True])
def test_targets_and_tasks_in_matlab_files_are_not_features_of_new_rows(
    tmp_path, ragged
):
    parts = (
        {"X": cells(X[:4], X[4:]), "Y": cells(Y[:4, :1], Y[4:, :1])}
        if ragged
        else {"X": X, "Y": Y}
    )
    savemat(tmp_path / "t.mat", parts)
    names = ("a", "b", "c")  # Columns without names are taken in order.
    for schema in (
        Schema(3),
        Schema(3, names),
        Schema(3, names, table=True),
        Schema(3, ("x1", "x2", "x3"), table=True),
    ):
        np.testing.assert_array_equal(read_rows(tmp_path / "t.mat", schema).X, X)
    with pytest.raises(DataError, match=r"t\.mat: "):
        read_rows(tmp_path / "t.mat", Schema(2))
    savemat(tmp_path / "u.mat", {"Z": X})
    with pytest.raises(DataError, match=r"u\.mat: .*'?X"):
        read_table(tmp_path / "u.mat")


@pytest.mark.parametrize(
    "wrong", [np.ones(3) > 0, "text", np.ones((2, 2, 2)), np.ones((3, 2)) * 1j]
)
def test_variables_other_than_numeric_matrices_are_rejected(tmp_path, wrong):
    savemat(tmp_path / "t.mat", {"X": wrong, "Y": np.ones((2, 1))})
    with pytest.raises(DataError, match=r"t\.mat"):
        read_table(tmp_path / "t.mat")
    savemat(tmp_path / "u.mat", {"X": np.ones((3, 2)), "Y": np.ones((3, 1)) * 1j})
    with pytest.raises(DataError, match=r"u\.mat"):
        read_table(tmp_path / "u.mat")


# --- NumPy


def test_numpy_arrays_are_read(tmp_path):
    np.savez(tmp_path / "t.npz", X=X, task_id=TASKS)
    rows = read_rows(tmp_path / "t.npz", Schema(3))
    np.testing.assert_array_equal(rows.X, X)
    assert rows.tasks == [str(t) for t in TASKS]
    np.testing.assert_array_equal(
        read_rows(tmp_path / "t.npz", Schema(3, ("a", "b", "c"), table=True)).X, X
    )
    data = dataset(tmp_path / "t.npz", "x2", task="task")
    np.testing.assert_array_equal(data.X, X[:, [0, 2]])
    assert (data.tasks, data.features) == (["1", "2", "5"], ["x1", "x3"])
    np.savez(tmp_path / "u.npz", X=X.astype(np.float32) > 0)
    np.testing.assert_array_equal(read_rows(tmp_path / "u.npz", Schema(3)).X, X > 0)


def test_a_sparse_scipy_matrix_is_read(tmp_path):
    matrix = sparse.csr_matrix(np.where(X > 0, X, 0))
    sparse.save_npz(tmp_path / "t.npz", matrix)
    rows = read_rows(tmp_path / "t.npz", Schema(3))
    assert sparse.issparse(rows.X)
    np.testing.assert_array_equal(rows.X.toarray(), matrix.toarray())
    by_place = read_rows(tmp_path / "t.npz", Schema(3, ("a", "b", "c"), table=True))
    np.testing.assert_array_equal(by_place.X.toarray(), matrix.toarray())
    swapped = read_rows(tmp_path / "t.npz", Schema(2, ("x3", "x1"), table=True))
    np.testing.assert_array_equal(swapped.X.toarray(), matrix.toarray()[:, [2, 0]])
    parts = {
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "shape": matrix.shape,
    }
    np.savez(tmp_path / "parts.npz", **parts)
    np.testing.assert_array_equal(
        read_rows(tmp_path / "parts.npz", Schema(3)).X.toarray(), matrix.toarray()
    )
    whole = sparse.csr_matrix(
        (matrix.data, matrix.indices + 3, matrix.indptr), shape=(12, 6)
    )
    whole.indices[-1] = 99  # Beyond its last column
    np.savez(
        tmp_path / "u.npz",
        data=whole.data,
        indices=whole.indices,
        indptr=whole.indptr,
        shape=whole.shape,
    )
    with pytest.raises(DataError, match=r"u\.npz"):
        read_table(tmp_path / "u.npz")


@pytest.mark.parametrize(("value", "message"), [(np.inf, "inf"), (np.nan, "no value")])
def test_an_invalid_entry_of_a_sparse_matrix_is_located(tmp_path, value, message):
    matrix = np.where(X > 0, X, 0)
    matrix[7, 1] = value
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_matrix(matrix))
    with pytest.raises(DataError, match=rf"t\.npz: row 8: .*'x2'.*{message}"):
        read_rows(tmp_path / "t.npz", Schema(3))


def test_sequences_in_numpy_and_fasta_files_are_read(tmp_path):
    letters = [b"ACGT", b"TTTT", b"GGCC"]
    np.savez(tmp_path / "t.npz", X=np.array(letters), task_id=["worm", "fly", "worm"])
    (tmp_path / "t.fasta").write_text(
        "".join(f">{k}\n{word.decode()}\n" for k, word in enumerate(letters))
    )
    for name, tasks in (("t.npz", ["worm", "fly", "worm"]), ("t.fasta", None)):
        rows = read_rows(tmp_path / name, Schema(4, strings=True))
        assert (rows.X.tolist(), rows.tasks) == (letters, tasks)
        with pytest.raises(DataError, match=rf"{name}: "):
            read_rows(tmp_path / name, Schema(5, strings=True))


# --- svmlight


def svm(tmp_path, *lines, name="t.svm"):
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path / name


def test_query_ids_of_svmlight_are_tasks_if_there_are_several(tmp_path):
    lines = [
        f"{y:g} qid:{t} 1:{a} 3:{b}"
        for (y, _), t, (a, b, _) in zip(Y, TASKS, X, strict=True)
    ]
    data = dataset(svm(tmp_path, *lines))
    np.testing.assert_array_equal(data.y, Y[:, 0])
    np.testing.assert_array_equal(
        data.X.toarray(), np.column_stack([X[:, 0], np.zeros(12), X[:, 1]])
    )
    assert data.tasks == ["1", "2", "5"]
    np.testing.assert_array_equal(data.task_id, np.repeat([1, 0, 2], 4))
    single_query = [
        line.replace("qid:2", "qid:1").replace("qid:5", "qid:1") for line in lines
    ]
    with pytest.raises(DataError, match="--task"):
        dataset(svm(tmp_path, *single_query))
    assert dataset(svm(tmp_path, *single_query), "target", "x1").features == [
        "x2",
        "x3",
    ]
    two = [line.replace("qid:5", "qid:1") for line in lines]
    assert dataset(svm(tmp_path, *two)).tasks == ["1", "2"]
    wanted = Schema(3, ("x1", "x2", "x3"), task_column="task", table=True)
    assert read_rows(svm(tmp_path, *single_query), wanted).tasks == ["1"] * 12


def test_columns_beyond_those_of_the_model_are_ignored_and_missing_ones_are_zero(
    tmp_path,
):
    path = svm(tmp_path, "0 1:1 2:2 9:9", "0 3:3")
    rows = read_rows(path, Schema(3, ("x3", "x1", "x5"), table=True))
    np.testing.assert_array_equal(rows.X.toarray(), [[0, 1, 0], [3, 0, 0]])
    assert "x9" in rows.ignored
    zero = svm(tmp_path, "0 0:7 1:1", "0 3:3", name="zero.svm")
    rows = read_rows(zero, Schema(2, ("x0", "x4"), table=True))
    np.testing.assert_array_equal(rows.X.toarray(), [[7, 0], [0, 0]])


@pytest.mark.parametrize("is_test_file", [False, True])
def test_new_rows_numbered_from_zero_are_refused_with_the_reason(
    tmp_path, is_test_file
):
    like = Schema(2, ("x1", "x2"), table=True)
    if is_test_file:
        like = read_table(svm(tmp_path, "0 1:1 2:2", "1 1:3", name="rows.svm"))
    path = svm(tmp_path, "0 1:1 # 0:1", "0 0:7 1:1", name="new.svm")
    with pytest.raises(DataError, match=r"new\.svm:2: .*number 0") as error:
        read_table(path, like=like)
    assert "add 1" in error.value.remedy


def test_a_table_has_at_most_a_million_columns(tmp_path):
    assert len(read_table(svm(tmp_path, "0 1000000:1")).names) == 1_000_000
    with pytest.raises(DataError, match=r"t\.svm: 1,000,001 columns"):
        read_table(svm(tmp_path, "0 1000001:1"))


def test_multilabel_test_rows_have_the_labels_of_the_training_rows(tmp_path):
    rows = read_table(
        svm(tmp_path, *["0,1 1:1 2:1", "1 2:2", " 1:3", "0 1:5"] * 3, name="rows.svm")
    )
    test_rows = read_table(svm(tmp_path, "0 1:4", "1 2:8", name="more.svm"), like=rows)
    data = make_dataset(rows, Roles(), test_rows)
    ((train, test),) = data.splits["test"]
    assert (len(train), data.tasks) == (12, ["label 0", "label 1"])
    np.testing.assert_array_equal(data.y[test], [[1, -1], [-1, 1]])
    np.testing.assert_array_equal(data.X[test].toarray(), [[4, 0], [0, 8]])
    assert data.labels == {"label 0": ["-1", "1"], "label 1": ["-1", "1"]}
    by_place = read_rows(tmp_path / "rows.svm", Schema(2, ("a", "b"), table=True))
    np.testing.assert_array_equal(by_place.X.toarray(), data.X[train].toarray())
    with pytest.raises(DataError, match=r"rows\.svm: "):
        read_rows(tmp_path / "rows.svm", Schema(1))


# --- ARFF

HEAD = """\
@relation {}
@attribute a numeric
@attribute 'b' {{low,high}}
@attribute c {{0,1}}
@attribute d {{0,1}}
@data
"""


@pytest.mark.parametrize(
    ("relation", "targets"),
    [("'t: -C -2'", ["c", "d"]), ("'t: -C 1'", ["a"]), ("'t: -C -3'", ["b", "c", "d"])],
)
def test_meka_declares_the_label_columns(tmp_path, relation, targets):
    rows = "".join(
        f"{k},{'high' if k % 3 else 'low'},{k % 2},{int(k > 5)}\n" for k in range(12)
    )
    (tmp_path / "t.arff").write_text(HEAD.format(relation) + rows)
    table = read_table(tmp_path / "t.arff")
    if targets == ["a"]:
        data = make_dataset(table, Roles(task="c"))
        np.testing.assert_array_equal(data.y, np.arange(12))
    else:
        data = make_dataset(table, Roles())
        assert data.features == [name for name in "abcd" if name not in targets]
    assert data.targets == targets
    (tmp_path / "t.arff").write_text(HEAD.format("t") + rows)
    with pytest.raises(DataError, match="no target"):
        dataset(tmp_path / "t.arff")


def test_meka_declares_the_label_columns_of_sparse_files_too(tmp_path):
    rows = "".join(
        f"{{0 {k + 1}, 1 {'high' if k % 3 else 'low'}, 2 {k % 2}, 3 {int(k > 5)}}}\n"
        for k in range(12)
    )
    (tmp_path / "t.arff").write_text(HEAD.format("'t: -C -2'") + rows)
    data = dataset(tmp_path / "t.arff")
    assert sparse.issparse(data.X)
    assert (sorted(data.features), data.targets) == (["a", "b"], ["c", "d"])


def test_nominal_arff_values_are_names_and_never_their_positions(tmp_path):
    (tmp_path / "t.arff").write_text(
        HEAD.format("t") + "1,high,0,1\n2,low,1,1\n?,?,1,0\n"
    )
    words = read_rows(
        tmp_path / "t.arff",
        Schema(2, ("a", "b"), table=True, categories={"b": ["high", "low"]}),
    )
    np.testing.assert_array_equal(words.X, [[1, 0], [2, 1], [np.nan, np.nan]])
    (tmp_path / "t.arff").write_text(HEAD.format("t") + "1,high,0,1\n2,low,1,1\n")
    numbers = read_rows(tmp_path / "t.arff", Schema(2, ("a", "d")))
    np.testing.assert_array_equal(numbers.X, [[1, 1], [2, 1]])
    with pytest.raises(DataError, match="'high'"):
        read_rows(tmp_path / "t.arff", Schema(3, ("b", "a", "d")))


def test_empty_and_ambiguous_arff_files_are_rejected(tmp_path):
    (tmp_path / "t.arff").write_text(HEAD.format("t"))
    with pytest.raises(DataError, match=r"t\.arff: no rows") as empty:
        read_table(tmp_path / "t.arff")
    (tmp_path / "t.arff").write_text(
        HEAD.format("t").replace("@attribute d", "@attribute c") + "1,low,0,1\n"
    )
    with pytest.raises(DataError, match=r"t\.arff: .*'c'") as twice:
        read_table(tmp_path / "t.arff")
    assert empty.value.remedy
    assert twice.value.remedy


def test_targets_and_tasks_may_be_columns_of_a_sparse_table(tmp_path):
    head = (
        "@relation s\n"
        + "".join(f"@attribute {name} numeric\n" for name in ("x", "y", "task", "z"))
        + "@data\n"
    )
    rows = "".join(
        f"{{0 {k + 1}, 1 {k * k}, 2 {k % 3}, 3 {k % 5}}}\n" for k in range(15)
    )
    (tmp_path / "t.arff").write_text(head + rows)
    data = dataset(tmp_path / "t.arff", "y", task="task")
    k = np.arange(15)
    np.testing.assert_array_equal(data.X.toarray(), np.column_stack([k + 1, k % 5]))
    np.testing.assert_array_equal(data.y, k * k)
    assert (data.features, data.tasks) == (["x", "z"], ["0", "1", "2"])
    assert dataset(tmp_path / "t.arff", "y", task="task", drop=("x",)).features == ["z"]


# --- error messages


@all_cases("suffix", ["mat", "npz", "parquet", "xlsx", "arff", "svm", "fasta"])
def test_a_damaged_file_is_named(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(b"\x00\x01 neither this nor that")
    with pytest.raises(DataError, match=rf"t\.{suffix}") as caught:
        read_table(path)
    if suffix not in ("arff", "svm", "fasta"):  # The line is named.
        assert caught.value.remedy


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Y": X}, "'X'"),
        ({"X": X[0]}, "(3,)"),
        ({"X": X * 1j}, "complex"),
        ({"X": X, "task_id": TASKS[1:]}, "12 rows"),
        ({"X": X, "task_id": TASKS[:, None]}, "(12, 1)"),
    ],
)
def test_arrays_that_do_not_match_are_named_with_a_remedy(tmp_path, arrays, message):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError, match=r"t\.npz: ") as caught:
        read_table(tmp_path / "t.npz")
    assert message in caught.value.message
    assert caught.value.remedy


def named_columns(path, kind):
    """Write two rows of two features in a format."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "xlsx":
        workbook(path, [list(frame), *frame.to_numpy().tolist()])
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "mat":
        savemat(path, {"X": frame.to_numpy()})
    elif kind == "npz":
        np.savez(path, X=frame.to_numpy())
    elif kind == "svm":
        path.write_text("0 1:1 2:3\n0 1:2 2:4\n")
    elif kind == "fasta":
        path.write_text(">1\nAC\n>2\nGT\n")
    else:
        path.write_text(
            "@relation r\n@attribute a numeric\n@attribute b numeric\n@data\n1,3\n2,4\n"
        )


@pytest.mark.parametrize(
    "kind", ["csv", "xlsx", "parquet", "mat", "npz", "svm", "arff", "fasta"]
)
def test_a_file_that_does_not_match_the_model_is_named(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    named_columns(path, kind)
    strings = kind == "fasta"
    np.testing.assert_array_equal(
        read_rows(path, Schema(2, strings=strings)).X.shape, (2,) if strings else (2, 2)
    )
    with pytest.raises(DataError, match=rf"t\.{kind}: "):
        read_rows(path, Schema(1, strings=strings, features=() if strings else ("z",)))


# --- workbooks and frames


def workbook(path, rows):
    pytest.importorskip("openpyxl")
    pd.DataFrame(rows).to_excel(path, index=False, header=False)
    return path


@pytest.fixture
def book(tmp_path):
    """Return a workbook whose second sheet has a table below three rows of titles."""
    pytest.importorskip("openpyxl")
    visits = pd.DataFrame(
        [
            ["A study", None, None],
            [None, "of 2024", None],
            [None, None, None],
            ["dose", "clinic", "note"],
            [1, "a", "x"],
        ]
    )
    with pd.ExcelWriter(tmp_path / "book.xlsx") as writer:
        pd.DataFrame({"read": ["me"]}).to_excel(writer, sheet_name="Notes", index=False)
        visits.to_excel(writer, sheet_name="Visits", index=False, header=False)
    return tmp_path / "book.xlsx"


def test_a_sheet_is_read_by_its_name(book):
    assert read_table(book).columns == ["read"]
    table = read_table(f"{book}#Visits")
    assert table.columns == ["dose", "clinic", "note"]
    assert table.frame.to_numpy().tolist() == [[1, "a", "x"]]
    assert table.where(0) == f"{book}#Visits:5"
    assert any("2 rows of titles" in note for note in table.notes)


def test_a_missing_column_or_sheet_names_the_sheets(book):
    with pytest.raises(UserError, match="no such sheet") as caught:
        read_table(f"{book}#Visit")
    assert "'Visits'" in caught.value.remedy
    with pytest.raises(UserError, match=r"\(sheet 'Notes'.*\) has no column 'dose'"):
        read_table(book).column("dose")
    assert any("'Notes'; --sheet reads Visits" in n for n in read_table(book).notes)


def test_other_files_have_no_sheets(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="no workbook") as caught:
        read_table(f"{tmp_path / 't.csv'}#Visits")
    assert "--sheet" in caught.value.remedy
    (tmp_path / "t#1.csv").write_text("a,b\n1,2\n")
    assert read_table(tmp_path / "t#1.csv").columns == ["a", "b"]


@pytest.mark.parametrize(
    "rows",
    [
        [["a", "b", "c"], ["x", "y", "z"], [1, 2, 3]],
        [["a", "b", None], ["x", "y", "z"], ["u", "v", "w"]],
        [["a", None], [1, 2], ["x", "y"], [3, 4]],
    ],
)
def test_a_header_is_not_taken_for_a_title(rows, tmp_path):
    path = workbook(tmp_path / "t.xlsx", rows)
    if None in rows[0]:
        with pytest.raises(DataError, match="header has no name"):
            read_table(path)
    else:
        assert read_table(path).columns == rows[0]


def test_a_first_row_of_numbers_is_not_a_header(tmp_path):
    rows = read_rows(workbook(tmp_path / "t.xlsx", [[1.5, 2], [3, 4]]), Schema(2))
    np.testing.assert_array_equal(rows.X, [[1.5, 2], [3, 4]])
    by_name = read_rows(tmp_path / "t.xlsx", Schema(2, ("x2", "x1"), table=True))
    np.testing.assert_array_equal(by_name.X, [[2, 1.5], [4, 3]])
    named = read_rows(
        workbook(tmp_path / "u.xlsx", [["b", 7], [3, 4], [5, 6]]),
        Schema(2, ("7", "b"), table=True),
    )
    np.testing.assert_array_equal(named.X, [[4, 3], [6, 5]])


def test_empty_rows_of_a_workbook_are_left_out_and_counted(tmp_path):
    rows = [[None, None], ["a", "b"], [1, 2], [None, None], [3, "x"]]
    with pytest.raises(DataError, match=r"t\.xlsx:5: .*'b'.*x"):
        read_rows(workbook(tmp_path / "t.xlsx", rows), Schema(2, ("a", "b")))
    rows[4][1] = 4
    new_rows = read_rows(workbook(tmp_path / "t.xlsx", rows), Schema(2, ("a", "b")))
    np.testing.assert_array_equal(new_rows.X, [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="no rows"):
        read_table(workbook(tmp_path / "t.xlsx", [[None], [None]]))
    with pytest.raises(DataError, match="no rows"):
        read_table(workbook(tmp_path / "t.xlsx", [["a", "b"]]))
    assert read_table(workbook(tmp_path / "t.xlsx", [["a"], [1], [None], [2]])).numbers(
        ["a"]
    ).tolist() == [[1], [2]]


def test_columns_of_a_workbook_need_unique_names(tmp_path):
    for rows, message in (
        ([["a", None], [1, 2]], r":1: column 2"),
        ([[None, None], ["a", "a"], [1, 2]], r":2: .*'a'"),
    ):
        with pytest.raises(DataError, match=rf"t\.xlsx{message}"):
            read_table(workbook(tmp_path / "t.xlsx", rows))


def test_missing_value_markers_in_workbooks_match_those_in_text(tmp_path):
    rows = [["a", "b"], [1, "NA"], [2, "yes"], ["", "no"], [3, "None"]]
    wanted = Schema(2, ("a", "b"), table=True, categories={"b": ["no", "yes", "None"]})
    for path in (workbook(tmp_path / "t.xlsx", rows), tmp_path / "t.csv"):
        if path.suffix == ".csv":
            path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        np.testing.assert_array_equal(
            read_rows(path, wanted).X, [[1, np.nan], [2, 1], [np.nan, 0], [3, 2]]
        )


@pytest.mark.parametrize(
    ("cell", "message"),
    [("=A2*2", "B3.*formula"), ("#DIV/0!", r"'b'.*#DIV/0!"), ("#N/A", None)],
)
def test_cells_that_only_appear_empty_are_rejected(tmp_path, cell, message):
    """A formula without a computed value, or an error, would otherwise be imputed like
    a missing value.
    """
    openpyxl = pytest.importorskip("openpyxl")
    path = workbook(
        tmp_path / "t.xlsx", [["a", "b"], [1, 2], [2, cell], [3, None], [4, 5]]
    )
    book = openpyxl.load_workbook(path)
    other = book.create_sheet("other")  # Unused columns
    other["A1"] = "=1+1"
    if cell.startswith("#"):
        book.worksheets[0]["B3"].data_type = "e"
    book.save(path)
    if message is None:
        np.testing.assert_array_equal(
            read_table(path).numbers(["b"], gaps=True)[:, 0], [2, np.nan, np.nan, 5]
        )
        return
    with pytest.raises(DataError, match=rf"t\.xlsx:3.*{message}"):
        read_table(path).numbers(["b"])


def test_parquet_and_compressed_text_match_the_frame(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        task=[f"t{t}" for t in TASKS], y=Y[:, 0]
    )
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(
        gzip.compress(frame.to_csv(index=False).encode())
    )
    expected = make_dataset(table_of_frame(frame), Roles(targets=("y",), task="task"))
    np.testing.assert_array_equal(expected.X, X)
    for name in ("t.parquet", "t.csv.gz"):
        data = dataset(tmp_path / name, "y", task="task")
        np.testing.assert_array_equal(data.X, X)
        assert (
            (data.features, data.tasks)
            == (expected.features, expected.tasks)
            == (["a", "b", "c"], ["t1", "t2", "t5"])
        )


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_match_those_of_pandas(library):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        task=[f"t{t}" for t in TASKS], y=Y[:, 0]
    )
    other = pytest.importorskip(library)
    other_frame = (
        other.DataFrame(frame.to_dict("list"))
        if library == "polars"
        else other.Table.from_pandas(frame)
    )
    actual, expected = (
        make_dataset(table_of_frame(table), Roles(targets=("y",), task="task"))
        for table in (other_frame, frame)
    )
    np.testing.assert_array_equal(actual.X, expected.X)
    assert (actual.features, actual.tasks) == (expected.features, expected.tasks)


def test_the_index_of_a_frame_is_ignored_and_its_names_become_strings():
    frame = pd.DataFrame(
        np.column_stack([X, Y[:, 0], TASKS]), index=np.arange(12)[::-1] * 7
    )
    data = make_dataset(table_of_frame(frame), Roles(targets=("3",), task="4"))
    np.testing.assert_array_equal(data.X, X)
    assert data.features == ["0", "1", "2"]
    assert frame.columns.tolist() == [0, 1, 2, 3, 4]  # The user's frame is unchanged.


@pytest.mark.parametrize(
    "frame",
    [object(), 3, pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame({"a": [1j]})],
)
def test_input_that_is_not_a_table_is_rejected(frame):
    with pytest.raises(DataError):
        table_of_frame(frame, "mine")


@pytest.mark.parametrize("name", ["t.xls", "t.ods", "t.docx", "t"])
def test_unknown_formats_are_rejected_with_the_supported_ones_or_a_remedy(
    tmp_path, name
):
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"\.csv"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
def test_suffixes_of_text_files_may_be_upper_case(tmp_path, name):
    for spelling in (name, name.upper()):
        (tmp_path / spelling).write_text("a\tb\n1\t2\n")
        np.testing.assert_array_equal(
            read_rows(tmp_path / spelling, Schema(2, ("b", "a"), table=True)).X,
            [[2, 1]],
        )
