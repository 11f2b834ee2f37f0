from __future__ import annotations

import io
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import savemat

from mtlrun.data.reading.formats.mat import read_mat
from mtlrun.data.sets import labelled
from mtlrun.errors import DataError


def packed(compress: bool = True, /, **variables) -> bytes:
    stream = io.BytesIO()
    savemat(stream, variables, do_compression=compress)
    return stream.getvalue()


def cells(*arrays) -> np.ndarray:
    """Return a 1 x k cell array."""
    row = np.empty((1, len(arrays)), dtype=object)
    for k, array in enumerate(arrays):
        row[0, k] = np.asarray(array)
    return row


def refused(content: bytes, *variables: str) -> str:
    with pytest.raises(DataError) as caught:
        read_mat(io.BytesIO(content), "t.mat", variables)
    return str(caught.value)


def test_arrays_and_cells_are_read():
    content = packed(
        A=np.arange(6).reshape(2, 3), C=cells([[1, 2]], [[3], [4]]), S=sparse.eye(2)
    )
    loaded = read_mat(io.BytesIO(content), "t.mat", ["A", "C", "S"])
    assert loaded["A"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [c.tolist() for c in loaded["C"]] == [[[1, 2]], [[3], [4]]]
    assert loaded["S"].tolist() == [[1, 0], [0, 1]]


def test_only_requested_variables_are_read():
    content = packed(A=np.eye(2), odd=np.array([{"x": 1}], dtype=object))
    assert list(read_mat(io.BytesIO(content), "t.mat", ["A"])) == ["A"]


GOOD = packed(A=np.random.default_rng(0).standard_normal((50, 20)))


SMALL = [
    packed(
        compress,
        A=np.eye(2),
        C=cells([[1.5, 2]], np.uint8([[3]])),
        S=sparse.csc_matrix([[0.0, 1], [2, 0]]),
    )
    for compress in (False, True)
]


def test_a_missing_variable_is_reported(lacking):
    assert not lacking(refused(GOOD, "B"), "t.mat", "'B'", "Variables: A")


@pytest.mark.parametrize(
    "content",
    [
        b"MATLAB 7.3 MAT-file, Platform: x" + b" " * 600,
        b"\x89HDF\r\n\x1a\n" + b"\0" * 600,
        b" " * 512 + b"\x89HDF\r\n\x1a\n",
    ],
)
def test_version_73_is_rejected_with_the_remedy(content, lacking):
    assert not lacking(refused(content, "A"), "t.mat", "7.3", "save(..., '-v7')")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        GOOD[:100],
        GOOD[:200],
        GOOD[:-400],
        GOOD[:160] + b"\xff" * 40 + GOOD[200:],
    ],
    ids=[
        "empty",
        "text",
        "half a header",
        "half a tag",
        "cut at the end",
        "overwritten",
    ],  # GOOD contains its creation time.
)
def test_damaged_files_are_rejected(content, lacking):
    assert not lacking(refused(content, "A"), "t.mat", "MATLAB", "save(..., '-v7')")


def test_truncated_files_are_rejected():
    for cut in range(0, len(GOOD) - 1, 97):
        assert refused(GOOD[:cut], "A").startswith("t.mat: ")


@pytest.mark.parametrize(
    ("variable", "kind"),
    [("s", "struct"), ("t", "char"), ("c", "cell of char"), ("n", "cell of cell")],
)
def test_structures_and_text_are_rejected(variable, kind, lacking):
    content = packed(
        s={"x": 1}, t="text", c=cells([[1]], "text"), n=cells(cells([[1]]))
    )
    assert not lacking(refused(content, variable), "t.mat", variable, kind, "cells")


def test_complex_numbers_are_rejected():
    assert refused(packed(z=np.array([[1 + 2j]])), "z") == (
        "t.mat: z is not an array of real numbers (complex128)\n"
        "Numeric arrays and cells of them are read."
    )


def test_sparse_cells_are_read():
    content = packed(C=cells([[1]], [[2]]))
    row = np.empty((1, 1), dtype=object)
    row[0, 0] = sparse.csc_matrix(np.array([[0, 3.0], [4, 0]]))
    assert read_mat(io.BytesIO(packed(C=row)), "t.mat", ["C"])["C"][0].tolist() == [
        [0, 3],
        [4, 0],
    ]
    assert len(read_mat(io.BytesIO(content), "t.mat", ["C"])["C"]) == 2


@given(data=st.data(), compressed=st.booleans())
def test_altered_bytes_cause_at_worst_an_error(data, compressed):
    # Unknown data types in altered tags crash scipy, so tags are checked first.
    content = bytearray(SMALL[compressed])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.integers(0, 255)
        )
    try:
        loaded = read_mat(io.BytesIO(bytes(content)), "t.mat", ["A", "C", "S"])
    except DataError as error:
        assert str(error).startswith("t.mat: ")  # noqa: PT017
    else:
        assert set(loaded) == {"A", "C", "S"}


X = [[[1, 2, 1], [3, 4, 1]], [[5, 6, 1]]]
KIND = {"task_type": "regression", "design": "ragged"}


def test_a_ragged_set_is_read(own_set):
    content = packed(X=cells(*np.array(X, dtype=object)), Y=cells([[7], [250]], [[9]]))
    content = packed(
        X=cells(np.array(X[0], dtype=np.uint8), np.array(X[1], dtype=np.uint8)),
        Y=cells(np.uint8([[7], [250]]), np.uint8([[9]])),
    )
    data = own_set.write("mat", {"t.mat": content}, {"drop_bias": True}, **KIND)()
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.X.dtype == np.float64
    assert (data.y * 2).tolist() == [14, 500, 18]
    assert data.task_id.tolist() == [0, 0, 1]
    assert data.tasks == ["1", "2"]


def test_binary_labels_and_named_variables_are_read(own_set):
    content = packed(
        F=cells(np.ones((2, 3)), np.ones((1, 3))), L=cells([[0, 1]], [[1]])
    )
    options = {"X": "F", "Y": "L"}
    data = own_set.write("mat", {"t.mat": content}, options, "binary", "ragged")()
    assert data.X.shape == (3, 3)
    assert data.y.tolist() == [-1, 1, 1]


def test_errors_of_a_ragged_set_are_located(own_set):
    def error(X, Y, **options):
        return own_set.error("mat", {"t.mat": packed(X=X, Y=Y)}, options, **KIND)

    good = cells([[7], [8]], [[9]])
    for X_, Y_, options, text in [
        (
            cells(*X),
            good,
            {"n_features": 5},
            "cell 1 of X has shape (2, 3) where (n, 5) is expected",
        ),
        (
            cells(X[0], [[1]]),
            good,
            {},
            "cell 2 of X has shape (1, 1) where (n, 3) is expected",
        ),
        (
            cells(*X),
            cells([[7, 8], [1, 2]], [[9]]),
            {},
            "cell 1 of Y has shape (2, 2) where (n, 1) is expected",
        ),
        (cells(X[0]), good, {}, "1 cell in X, 2 in Y\nEvery task is one cell of both"),
        (
            cells(*X),
            cells([[7]], [[9]]),
            {},
            "task 1 has 2 rows in X, 1 in Y\nEvery task is one cell of both",
        ),
        (
            cells(X[0], np.zeros((0, 3))),
            cells([[7], [8]], np.zeros((0, 1))),
            {},
            "task 2 has no rows",
        ),
        (
            np.zeros((3, 3)),
            good,
            {},
            "X is an array of shape (3, 3), not a cell array with one cell per task",
        ),
    ]:
        assert error(X_, Y_, **options).startswith(f"t.mat: {text}")
    bad = cells([[1.0, 2.0], [np.nan, 1.0]], [[1.0, 1.0]])
    assert error(bad, good) == (
        "t.mat: X contains nan at row 2, column 1\n"
        "Replace or drop missing values first."
    )
    assert (
        error(cells(X[0], [[5, 6, 2]]), good, drop_bias=True)
        == "t.mat: the last column of X is not 1 everywhere"
    )


def test_school_has_folds_and_published_splits(own_set):
    generator = np.random.default_rng(0)
    features = [
        np.hstack((generator.integers(0, 2, (n, 27)), np.ones((n, 1)))) for n in (4, 3)
    ]
    school = packed(X=cells(*features), Y=cells(np.ones((4, 1)), np.zeros((3, 1))))
    split = packed(
        tr=np.array([[5, 1, 2, 6]], dtype=np.uint16),
        tst=np.array([[3, 4, 7]], dtype=np.uint16),
    )
    options = {"argyriou": ["s.mat"], "folds": 3}
    data = own_set.write(
        "school", {"school.mat": school, "s.mat": split}, options, **KIND
    )()
    assert data.X.shape == (7, 27)
    ((train, test),) = data.splits["argyriou"]
    assert train.tolist() == [0, 1, 4, 5]
    assert test.tolist() == [2, 3, 6]
    assert len(data.splits["folds"]) == 3
    assert np.sort(
        np.concatenate([test for _, test in data.splits["folds"]])
    ).tolist() == list(range(7))


def word(letters: str) -> tuple[np.ndarray, np.ndarray]:
    """Return an image whose only black pixel is at row 0, column = position in the
    alphabet modulo 8.
    """
    patterns = np.zeros((129, len(letters)), dtype=np.uint8)
    codes = np.array([string.ascii_lowercase.index(c) for c in letters], dtype=np.uint8)
    patterns[codes % 8 * 16, np.arange(len(letters))] = 1
    patterns[128] = 1
    return patterns, codes[None, :]


def letters(*train: str, test: str = "zy") -> dict[str, np.ndarray]:
    first, second = [word(w) for w in train], word(test)
    return {
        "patterns_train": cells(*(p for p, _ in first)),
        "labels_train": cells(*(c for _, c in first)),
        "patterns_test": cells(second[0]),
        "labels_test": cells(second[1]),
    }


def test_letters_are_upright(own_set):
    data = own_set.write("letter", {"t.mat": packed(**letters("abc", "b"))})()
    assert data.tasks == list(string.ascii_lowercase)
    assert data.y.tolist() == [0, 1, 2, 1, 25, 24]
    assert [data.features[int(np.flatnonzero(row)[0])] for row in data.X] == [
        "r0c0",
        "r0c1",
        "r0c2",
        "r0c1",
        "r0c1",
        "r0c0",
    ]
    assert data.X.sum() == 6
    assert data.splits["words"][0][0].tolist() == [0, 1, 2, 3]


@pytest.fixture
def small_sarcos(monkeypatch):
    """Reduce SARCOS files to 6 training and 3 test rows."""
    for name, n_rows in (("TRAIN_ROWS", 6), ("TEST_ROWS", 3)):
        monkeypatch.setattr(labelled, name, n_rows)
    values = np.round(np.random.default_rng(0).standard_normal((9, 28)), 6)
    tests = values[6:].copy()
    tests[0] = values[2]
    return values[:6], tests


def test_full_sarcos_counts_its_leaked_rows(own_set, small_sarcos):
    train, tests = small_sarcos
    content = packed(sarcos_inv=train)
    files = {"train.mat": content, "test.mat": packed(sarcos_inv_test=tests)}
    options = {
        "train": "train.mat",
        "test": "test.mat",
        "full": True,
        "blob": labelled.git_blob_id(content),
    }
    load = own_set.write("sarcos", files, options, "regression")
    data = load()
    assert data.X.shape == (9, 21)
    assert data.y.shape == (9, 7)
    assert data.notes == "leak: 1 of the 3 test rows are also rows of the training file"
    clean = load(clean=True)
    assert clean.notes.endswith("; the 1 training rows concerned were left out")
    np.testing.assert_array_equal(clean.X[:5], np.delete(train, 2, axis=0)[:, :21])
    assert [len(part) for part in clean.splits["fixed"][0]] == [5, 3]


def test_errors_of_sarcos_are_located(own_set, small_sarcos):
    train, tests = small_sarcos
    options = {"train": "train.mat", "test": "test.mat", "full": True, "blob": "0" * 40}
    content = packed(sarcos_inv=train)
    files = {"train.mat": content, "test.mat": packed(sarcos_inv_test=tests)}
    assert own_set.error("sarcos", files, options, task_type="regression") == (
        "train.mat: the content is not that of the original train.mat\n"
        f"  expected git blob {'0' * 40}\n"
        f"  found    git blob {labelled.git_blob_id(content)}\n"
        "Replace it by the file of http://www.gaussianprocess.org/gpml/data/."
    )
    options["blob"] = None
    files["train.mat"] = packed(sarcos_inv=train[:5])
    assert own_set.error("sarcos", files, options, task_type="regression") == (
        "train.mat: sarcos_inv is 5 x 28 where 6 x 28 is expected\n"
        "Is it the file that the card names?"
    )
    assert own_set.error(
        "sarcos", files, {**options, "unbiased": True}, task_type="regression"
    ) == (
        "data set mine: 'clean' requires the full training file, 'unbiased' and "
        "'leaked' the partial one"
    )


def test_partial_sarcos_must_not_contain_test_rows(own_set, small_sarcos):
    train, tests = small_sarcos
    header = ",".join(
        [
            *(f"x{j}" for j in range(1, 22)),
            *labelled.SARCOS_TASKS,
            "in_test_file",
            "source_bits",
        ]
    )
    rows = [[*row, int(k == 2), (1, 8, 9, 4, 8, 2)[k]] for k, row in enumerate(train)]

    def table(rows):
        return (
            header
            + "\n"
            + "\n".join(",".join(map(repr, map(float, row))) for row in rows)
            + "\n"
        ).encode()

    files = {"train.csv": table(rows), "test.mat": packed(sarcos_inv_test=tests)}
    options = {"train": "train.csv", "test": "test.mat"}
    load = own_set.write("sarcos", files, options, "regression")
    np.testing.assert_array_equal(load().X[:5], np.delete(train, 2, axis=0)[:, :21])
    np.testing.assert_array_equal(load(unbiased=True).X[:2], train[[1, 4], :21])
    assert "partial: 5 of the 6 training rows" in load().notes
    leaked = load(unbiased=True, leaked=True)
    np.testing.assert_array_equal(leaked.X[:3], train[[1, 2, 4], :21])
    assert "and 1 that are in the test file as well" in leaked.notes
    rows[2][28] = 0
    files["train.csv"] = table(rows)
    assert own_set.error("sarcos", files, options, task_type="regression") == (
        "train.csv: rows marked as not in the test file are in it"
    )


def test_the_git_blob_id_matches_git():
    # `printf 'hello\n' | git hash-object --stdin`
    assert (
        labelled.git_blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    )
